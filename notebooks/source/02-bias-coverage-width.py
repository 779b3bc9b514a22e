# %% [markdown]
# # Use with caution: how much areas and curves vary
#
# A precision-recall curve on a slide looks like a property of the model. It is a property of the model *and of the
# sample*. The first part of this notebook shows by how much, where the truth is known; the idea is from the note in the
# OCaml library [prc](https://github.com/pveber/prc). The second part draws Figures 1 to 8 of Kendrick Boyd, Kevin Eng
# and David Page (2013), [*Area under the precision-recall curve: point estimates and confidence
# intervals*](https://doi.org/10.1007/978-3-642-40994-3_29), who asked which estimators and intervals can be trusted.

# %%
import os
from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy import stats

import aucpr_dask as ap
from aucpr_dask.view import plots

IS_SMALL = os.environ.get("AUCPR_NOTEBOOK_SIZE") == "small"
N_SIMULATIONS = 200 if IS_SMALL else 10_000
STUDY = Path("../docs/study")
BLUE, VERMILLION, GREEN, GREY, BLACK = "#0072B2", "#D55E00", "#009E73", "#767676", "#000000"

estimates = pd.read_csv(STUDY / "estimates.csv")
intervals = pd.read_csv(STUDY / "intervals.csv")
intervals["n_positive"] = (intervals["n_items"] * intervals["prevalence"]).round().astype(int)

# %% [markdown]
# ## Thirty curves of one model
#
# The model is binormal: positives score N(1, 1), negatives N(0, 1), and the prevalence is 0.1. Every grey line is this
# one model, evaluated on another sample in which each item is positive with that probability. A sampled curve forms a
# saw: precision rises at each positive and falls at each negative.

# %%
model = ap.simulate.binormal(mu=1, sigma=1)
prevalence = 0.1
truth = model.area(prevalence)
recall = np.linspace(0, 1, 201)
print(f"true area: {truth:.4f}")


def draw_curves(ax, n_items):
    """Draw thirty sampled curves and the true one."""
    sample = model.sample(n_items, prevalence, n_simulations=30, label_design="binomial", dtype="float32").compute()
    curves = ap.curve(sample.score, sample.label, grid=recall)
    ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    ax.plot(recall, curves.transpose("recall", "model"), color="0.6", linewidth=0.6)
    ax.plot(recall, model.curve(recall, prevalence), color=BLUE, linewidth=2.2, label="true curve")
    ax.set(
        xlim=(0, 1),
        ylim=(0, 1.02),
        xlabel="recall",
        title=f"about {round(n_items * prevalence):,} positives",
    )


figure, axes = plt.subplots(1, 3, figsize=(7.5, 2.8), sharey=True, layout="constrained")
for ax, n_items in zip(axes, (200, 1000, 10_000), strict=True):
    draw_curves(ax, n_items)
axes[0].set_ylabel("precision")
_ = axes[0].legend(frameon=False)

# %% [markdown]
# The left end is the worst. There, precision is a share of a handful of items: at recall 0.05 and 100 positives, of the
# items above the fifth positive. This is the part of the curve that people point at: "our model has a precision of 0.8
# at low recall". How far do the thirty lines, and many more, spread at one recall?

# %%
sample = model.sample(1000, prevalence, n_simulations=N_SIMULATIONS)
places = [0.05, 0.1, 0.2, 0.5, 0.9]
curves = ap.curve(sample.score, sample.label, grid=places).compute()
spread = curves.quantile([0.025, 0.975], dim="model").to_pandas().T
spread.columns = ["2.5 % of samples below", "2.5 % above"]
spread.assign(truth=model.curve(places, prevalence)).round(2)

# %% [markdown]
# At recall 0.05, samples of one and the same model show any precision between 0.3 and 1: the true one is 0.58.
#
# ## A fitted curve
#
# If scores are normal in both classes, four numbers say everything: fit the means and standard deviations, and the
# curve follows. Here to one sample of 1000 items.

# %%
one = model.sample(1000, prevalence, label_design="binomial", seed=1).compute()
score, label = one["score"].values.ravel(), one["label"].values.ravel()
points = ap.curve(score, label)
positive, negative = score[label == 1], score[label == 0]
fitted = ap.simulate.binormal(
    mu=(positive.mean() - negative.mean()) / negative.std(ddof=1),
    sigma=positive.std(ddof=1) / negative.std(ddof=1),
)
figure, ax = plt.subplots(figsize=(3.8, 3.1), layout="constrained")
ax.plot(points["recall"], points["precision"], color="0.7", linewidth=0.8, label="sample")
ax.plot(recall, model.curve(recall, prevalence), color=BLUE, linewidth=2.2, label="true curve")
ax.plot(recall, fitted.curve(recall, label.mean()), "--", color=GREEN, linewidth=1.8, label="fitted curve")
ax.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="recall", ylabel="precision")
ax.legend(frameon=False)
area = ap.estimate(score, label, "binormal")
print(f"areas: true {truth:.3f}, fitted {fitted.area(label.mean()):.3f} (the estimator binormal: {area:.3f})")

# %% [markdown]
# The fitted curve is smooth where the sample is wild, but it is fitted to the sample, and shares its luck. On average
# it is right because these samples are normal; on others it is smooth and wrong.
#
# ## Estimators
#
# So one reports an area with an interval rather than a curve. But which area? The boxes hold half of the samples, the
# whiskers 95 %.

# %%
estimators = [
    "binormal",
    "average_precision",
    "lower_trapezoid",
    "interpolated_median",
    "upper_trapezoid",
    "interpolated_convex",
]


def areas_of_sample(n_items):
    """Estimate the area of many samples."""
    sample = model.sample(n_items, prevalence, n_simulations=N_SIMULATIONS)
    return ap.estimate(sample.score, sample.label, estimator=estimators).compute()


figure, axes = plt.subplots(1, 2, figsize=(7.5, 2.6), sharex=True, sharey=True, layout="constrained")
means = {}
for ax, n_items in zip(axes, (200, 1000), strict=True):
    areas = areas_of_sample(n_items)
    n_positive = round(n_items * prevalence)
    means[f"{n_positive} positives"] = areas.mean("model").to_pandas()
    ax.boxplot(
        areas.transpose("model", "estimator").values,
        orientation="horizontal",
        whis=(2.5, 97.5),
        showfliers=False,
        tick_labels=[name.replace("_", " ") for name in estimators],
        medianprops={"color": BLACK},
    )
    ax.axvline(truth, color=BLUE, label="true area")
    ax.set(xlabel="estimate", title=f"{n_positive} positives")
axes[0].invert_yaxis()
_ = axes[1].legend(frameon=False, loc="center right")

# %%
(pd.DataFrame(means) / truth).rename_axis("mean estimate / true area").round(3)

# %% [markdown]
# * The choice of estimator moves the answer by as much as many a published improvement: with 20 positives the mean of
#   `interpolated_convex` is 28 % too high, that of `upper_trapezoid` 20 %, that of `average_precision` 12 %.
# * With 100 positives, none but `interpolated_convex`, still 12 % too high, is off by more than 5 %.
# * The spread is larger than any of these biases, and no choice of estimator removes it.
# * `binormal` is narrow and centred *because these samples are binormal*. On others it converges to a wrong value
#   (Figure 4).
#
# So never compare areas from two tools before you know that they compute the same one.
#
# ## The worse model wins
#
# A second model is truly worse, its area a fifth smaller. How often does it come out better, if each model is evaluated
# on a sample of its own?

# %%
worse = ap.simulate.binormal(mu=0.8)
print(f"true areas: {truth:.3f} and {worse.area(prevalence):.3f}")


def areas_of(scenario, n_items, seed):
    """Estimate the average precision of many samples of a scenario."""
    sample = scenario.sample(n_items, prevalence, n_simulations=N_SIMULATIONS, seed=seed)
    return ap.estimate(sample.score, sample.label).values


for n_items in (200, 500, 1000, 2000):
    wins = np.mean(areas_of(worse, n_items, seed=1) > areas_of(model, n_items, seed=2))
    print(
        f"{round(n_items * prevalence):>4} positives: the worse model has the higher area in {wins:.0%} of the trials"
    )

# %% [markdown]
# Models of one study are scored on the same items, which removes much of this chance; that is what `ap.compare` uses.
# Areas from two papers, on two samples, are what is simulated here.
#
# ## What to do
#
# 1. Count the positives, not the items. Results from fewer than 20 are flagged:
#    `result.aucpr.flagged("few_positives")`.
# 2. Report an area with its interval. Draw a curve with its band: `scores.aucpr.plot.precision_recall(bands="both")`.
# 3. Do not read the left end of a curve.
# 4. Name the estimator.
# 5. Compare models on the same items, by their differences: `ap.compare(scores)`.

# %%
one = model.sample(1000, prevalence).compute()  # one sample, and so one "model" of the Dataset
ax = one.aucpr.plot.precision_recall(bands="both", n_resamples=200 if IS_SMALL else 2000)
recall = np.linspace(0, 1, 201)
ax.plot(recall, model.curve(recall, prevalence), color=BLACK, linestyle="--")
_ = ax.annotate("true curve", (0.3, 0.345), (0.3, 0.16), arrowprops={"arrowstyle": "-"}, fontsize=8)

# %% [markdown]
# This sample was kind to its model. At some 30 of 100 recalls, many of them in one stretch, the truth lies outside the
# pointwise band, which speaks of one recall at a time. The simultaneous band promises to hold the whole curve, and
# does.
#
# ## The figures of Boyd, Eng and Page
#
# **What comes from where.** Figures 1 to 3 are computed in this notebook. Figures 4 to 8 are drawn from two tables,
# `docs/study/estimates.csv` and `docs/study/intervals.csv`, which summarize simulations of many cells (a scenario, a
# number of items and a prevalence). A row of the first is the mean and spread of one estimator in one cell, a row of
# the second what became of one kind of interval there. The column `n_simulations` says how many simulations that were:
# 10,000, as in the paper. (`n_locations` says it of locations; there are fewer of some.) Section *A cell again*
# computes one cell again and compares. How the tables were made, and what they say about each of the paper's
# conclusions, is in [the simulation study](../docs/simulation-study.md). We know the paper's text and what its figures
# show, not every detail of how they look in print.
#
# **One choice.** For cross-validation the paper speaks of a normal approximation, but finds intervals slightly narrower
# than `logit` and `binomial` and wider than ideal. Ours are so with Student's t (`cross_validation_t`), which is what
# the authors' R code uses; with the normal quantile (`cross_validation`) they are narrower than ideal. So t is the
# paper's interval here.

# %% [markdown]
# ## Figure 1: a small data set
#
# Ten positives and twenty negatives have thirty thresholds, and so thirty points. Which curve do they belong to? Where
# a threshold passes negatives, recall stays and precision falls, so there are several points at one recall. Left: the
# points. Middle: straight lines between them, from the lowest point of a recall (`lower_trapezoid`) or from the highest
# (`upper_trapezoid`). Right: interpolation as Davis & Goadrich want it, between the highest or the median point of each
# recall, or along the convex hull; and `average_precision`, the steps.

# %%
small = ap.simulate.binormal(mu=1).sample(30, 1 / 3, seed=7).compute()
score, label = small["score"].values.ravel(), small["label"].values
found = ap.curve(score, label)
points = pd.DataFrame({"recall": found["recall"], "precision": found["precision"]})
points = points[points["recall"] > 0].drop_duplicates()
of_recall = points.groupby("recall")["precision"]
highest, lowest, middle = of_recall.max(), of_recall.min(), of_recall.median()


def joined(heights):
    """Join one point of each recall as true and false positives do, which grow together."""
    recall, steps = heights.index.values, np.linspace(0, 1, 21)
    false = recall / heights.values - recall  # in units of positives
    r = np.concatenate([a + (b - a) * steps for a, b in pairwise(recall)])
    f = np.concatenate([a + (b - a) * steps for a, b in pairwise(false)])
    return np.concatenate([[0], r]), np.concatenate([[heights.iloc[0]], r / (r + f)])


figure, axes = plt.subplots(1, 3, figsize=(7.5, 3.1), sharey=True, layout="constrained")
for ax in axes:
    ax.plot(points["recall"], points["precision"], "o", color="black" if ax is axes[0] else "0.6", markersize=3)
    ax.set(xlabel="recall", xlim=(-0.03, 1.03), ylim=(0, 1.04))
    ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
axes[0].set(ylabel="precision", title="points")
start = pd.Series([1.0], index=[0.0])  # where both trapezoids begin
tops, feet = pd.concat([start, highest]), pd.concat([start, lowest])
lower = np.array([[(a, feet[a]), (b, tops[b])] for a, b in pairwise(tops.index)])
axes[1].plot(tops.index, tops, color=VERMILLION, label="upper trapezoid")
axes[1].plot(*lower.reshape(-1, 2).T, "--", color=BLUE, label="lower trapezoid")
axes[1].set_title("straight lines")
grid = np.linspace(0, 1, 201)
axes[2].plot(
    grid, ap.curve(score, label, kind="achievable", grid=grid), ":", color="black", label="interpolated convex"
)
axes[2].plot(*joined(highest), color=VERMILLION, label="interpolated max")
axes[2].plot(*joined(middle), "--", color=BLUE, label="interpolated median")
axes[2].step([0, *highest.index], [highest.iloc[0], *highest], "-.", color=GREEN, label="average precision")
axes[2].set_title("interpolations")
for ax in axes[1:]:
    ax.legend(frameon=False, fontsize=7, loc="lower left")

# %%
paper = [
    "average_precision",
    "lower_trapezoid",
    "upper_trapezoid",
    "interpolated_max",
    "interpolated_mean",
    "interpolated_median",
    "interpolated_convex",
    "binormal",
]
print(f"true area {ap.simulate.binormal(mu=1).area(1 / 3):.3f}")
pd.Series(ap.estimate(score, label, paper), index=paper, name="estimate").sort_values().round(3)

# %% [markdown]
# The same thirty items, eight answers.
#
# ## Figure 2: three scenarios
#
# Positives and negatives draw their scores from two known distributions, so that the true curve and its area are known.

# %%
scenarios = {
    "binormal": ap.simulate.binormal(mu=1, sigma=1),
    "bibeta": ap.simulate.bibeta(5, 2, 2, 5),
    "offset_uniform": ap.simulate.offset_uniform(gamma=0.5),
}
densities = {  # positives, negatives, range of scores
    "binormal": (stats.norm(1, 1), stats.norm(0, 1), (-3, 4)),
    "bibeta": (stats.beta(5, 2), stats.beta(2, 5), (0, 1)),
    "offset_uniform": (stats.uniform(0.5, 1), stats.uniform(0, 1), (-0.2, 1.7)),
}
figure, axes = plt.subplots(1, 3, figsize=(7.5, 2.4), layout="constrained")
for ax, (name, (positives, negatives, ends)) in zip(axes, densities.items(), strict=True):
    score = np.linspace(*ends, 501)
    ax.plot(score, negatives.pdf(score), color=GREY, label="negatives")
    ax.plot(score, positives.pdf(score), "--", color=BLUE, label="positives")
    ax.set(title=name.replace("_", " "), xlabel="score", yticks=[0])
axes[0].set_ylabel("density")
handles = axes[0].get_legend_handles_labels()
_ = figure.legend(*handles, loc="outside lower center", ncols=2, frameon=False, fontsize=8)

# %% [markdown]
# ## Figure 3: true and sampled curves
#
# At a prevalence of 0.1: the true curve, and ten samples of 500 items, 50 of them positive, whose points are joined.
# With a share f(t) of the negatives above the threshold that a share t of the positives exceeds, the true precision is
# 0.1 t / (0.1 t + 0.9 f(t)).

# %%
recall = np.linspace(0, 1, 201)
figure, axes = plt.subplots(1, 3, figsize=(7.5, 2.6), sharey=True, layout="constrained")
for ax, (name, scenario) in zip(axes, scenarios.items(), strict=True):
    sample = scenario.sample(500, 0.1, n_simulations=10).compute()
    for one in sample["score"].values:
        found = ap.curve(one, sample["label"].values)
        ax.plot(found["recall"], found["precision"], color="0.65", linewidth=0.6)
    ax.plot(recall, scenario.curve(recall, 0.1), color=BLUE, linewidth=2)
    title = f"{name.replace('_', ' ')}, area {scenario.area(0.1):.3f}"
    ax.set(title=title, xlabel="recall", xlim=(0, 1), ylim=(0, 1.02))
    ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
_ = axes[0].set_ylabel("precision")

# %% [markdown]
# ## How the figures from the study are drawn
#
# One panel for each scenario, one line for each estimator or interval; colours, dashes and markers tell them apart.

# %%
COLOURS = ["#0072B2", "#D55E00", "#000000", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#767676"]
DASHES = ["-", "--", ":", "-.", "-", "--", ":", "-."]
MARKERS = "os^DvP*X"
AXES = {"n_items": "items", "prevalence": "prevalence", "n_positive": "positives"}


def draw(ax, table, x, y, lines, names):
    """Draw a line for each of `names` in the column `lines`."""
    for name, colour, dashes, marker in zip(names, COLOURS, DASHES, MARKERS, strict=False):
        rows = table[table[lines] == name].sort_values(x)
        if rows.empty:
            continue
        label = name.replace("_", " ")
        ax.plot(
            rows[x], rows[y], color=colour, linestyle=dashes, marker=marker, markersize=4, linewidth=1.2, label=label
        )
    ticks = np.unique(table[x])
    ax.set_xscale("log")
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks], rotation=90 if len(ticks) > 5 else 0, fontsize=8)
    ax.minorticks_off()


def draw_scenarios(table, x, y, lines, names, level=None, limits=None, height=3.1):
    """Draw a panel for each scenario, with one legend below."""
    figure, axes = plt.subplots(1, 3, figsize=(7.5, height), sharey=True, layout="constrained")
    for ax, scenario in zip(axes, scenarios, strict=True):
        draw(ax, table[table["scenario"] == scenario], x, y, lines, names)
        ax.set(title=scenario.replace("_", " "), xlabel=AXES[x])
        if level is not None:
            ax.axhline(level, color="black", linewidth=0.8, zorder=0)
    if limits is not None:
        axes[0].set_ylim(limits)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return axes


# %% [markdown]
# ## Figure 4: bias and the number of items
#
# The ratio of the mean estimate to the true area, at a prevalence of 0.1. 1 is no bias.

# %%
by_items = estimates[estimates["prevalence"] == 0.1]
axes = draw_scenarios(by_items, "n_items", "bias_ratio", "estimator", paper, level=1, height=3.4)
_ = axes[0].set_ylabel("mean estimate / true area")

# %% [markdown]
# * All but two come together at 1. `interpolated_convex` stays above it even with 10,000 items, and `binormal`, right
#   where scores are normal, converges to a wrong value elsewhere.
# * With few items `interpolated_convex`, `upper_trapezoid` and `interpolated_max` are the most optimistic.

# %%
last = by_items[by_items["n_items"] == 10_000].pivot(index="estimator", columns="scenario", values="bias_ratio")
last.loc[paper, list(scenarios)].round(3)

# %% [markdown]
# ## Figure 5: bias and prevalence
#
# The same at 1000 items, from 10 positives to 500. The axis is cut at 2: `upper_trapezoid` begins at 2.97 and
# `interpolated_convex` at 2.13, both on binormal scores.

# %%
by_prevalence = estimates[estimates["n_items"] == 1000]
axes = draw_scenarios(
    by_prevalence, "prevalence", "bias_ratio", "estimator", paper, level=1, limits=(0.3, 2), height=3.4
)
_ = axes[0].set_ylabel("mean estimate / true area")

# %% [markdown]
# What counts is the number of positives. At a prevalence of 0.01 there are 10, and on binormal scores every estimator
# is off, by 13 % to 197 %. From 0.1 on, most are within a few percent. The error of `binormal` on scores that are not
# normal shrinks as classes get balanced.
#
# Over all cells, how far is the mean from the truth?

# %%
off = (estimates["bias_ratio"] - 1).abs().groupby(estimates["estimator"])
pd.DataFrame({"mean distance from 1": off.mean(), "largest": off.max()}).sort_values("mean distance from 1").round(3)

# %% [markdown]
# The paper recommends `average_precision`, `lower_trapezoid` and `interpolated_median`. The last two are among the
# least biased here; `average_precision` is in the middle: its bias is about twice theirs, and upward. `continuous` and
# `discrete` are not in the paper.
#
# ## Figure 6: coverage
#
# How many of the 95 % intervals hold the true area, at a prevalence of 0.1, for the recommended estimators and from 200
# items on. The axis is cut at 0.75; what falls below it is cross-validation, shown by half points along the border.

# %%
methods = ["binomial", "logit", "bootstrap", "cross_validation_t"]
recommended = ["average_precision", "lower_trapezoid", "interpolated_median"]
at_tenth = intervals[intervals["prevalence"] == 0.1]
shown = at_tenth[(at_tenth["n_items"] >= 200) & at_tenth["method"].isin(methods)]


def draw_nine(table, y, names, level, limits):
    """Draw a row of panels for each recommended estimator, a column for each scenario."""
    figure, axes = plt.subplots(3, 3, figsize=(7.5, 6.2), sharex=True, sharey=True, layout="constrained")
    for row, estimator in zip(axes, recommended, strict=True):
        for ax, scenario in zip(row, scenarios, strict=True):
            cells = table[(table["estimator"] == estimator) & (table["scenario"] == scenario)]
            draw(ax, cells.assign(**{y: cells[y].clip(*limits)}), "n_items", y, "method", names)
            ax.axhline(level, color="black", linewidth=1.2, zorder=0)
            ax.set(ylim=limits)
        row[0].set_ylabel(estimator.replace("_", " "))
    for ax, scenario in zip(axes[0], scenarios, strict=True):
        ax.set_title(scenario.replace("_", " "))
    for ax in axes[-1]:
        ax.set_xlabel("items")
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return axes


axes = draw_nine(shown, "coverage", methods, 0.95, (0.75, 1))

# %%
summary = at_tenth[at_tenth["estimator"].isin(recommended)].groupby(["method", "n_positive"])["coverage"].min()
summary.unstack("n_positive").loc[methods].round(3)

# %% [markdown]
# The table has the lowest coverage of the nine panels; its first column, 10 positives among 100 items, is not in the
# figure.
#
# * In these three scenarios, with a tenth of the items positive and from 200 items on, `logit` and `binomial` hold
#   their level in every cell, as the paper says. `binomial` fails at 10 positives. Where positives are rarer, or in
#   other worlds than these, formulas hold less, `logit` below 0.9 at any size
#   ([which](../docs/choosing.md#where-formula-intervals-fail)).
# * `bootstrap` approaches the level from below, and needs some hundreds of positives to come near it.
# * Cross-validation does, too, but slower: with `average_precision` on binormal scores it is still at 0.90 with 10,000
#   items. With one or two positives in each of the ten folds, intervals around `interpolated_median` never hold on
#   bibeta scores.
#
# ## Figure 7: coverage and width
#
# A point is one cell of Figure 6 (without those of 2,000 items, which the paper does not show): the mean width of its
# intervals over the ideal width, that of the central 95 % of the estimates, and their coverage. Left of 1, an interval
# promises more than there is to know. Half points lie below 0.75.

# %%
cells = shown[shown["n_items"].isin([200, 500, 1000, 5000, 10_000])]
figure, axes = plt.subplots(1, 3, figsize=(7.5, 3.2), sharex=True, sharey=True, layout="constrained")
for ax, estimator in zip(axes, recommended, strict=True):
    for method, colour, marker in zip(methods, COLOURS, MARKERS, strict=False):
        one = cells[(cells["estimator"] == estimator) & (cells["method"] == method)]
        label = method.replace("_", " ")
        ax.plot(one["width_ratio"], one["coverage"].clip(0.75), marker, color=colour, markersize=5, label=label)
    ax.axhline(0.95, color="black", linewidth=1.2, zorder=0)
    ax.axvline(1, color="black", linewidth=0.8, zorder=0)
    ax.set(title=estimator.replace("_", " "), xlabel="width / ideal width", ylim=(0.75, 1))
axes[0].set_ylabel("coverage")
_ = figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=8)

# %%
both = ["width_ratio", "coverage"]
rest = cells[cells["method"] != "cross_validation_t"]
print(f"correlation {cells[both].corr().iloc[0, 1]:.2f}, without cross-validation {rest[both].corr().iloc[0, 1]:.2f}")
cells.groupby("method")["width_ratio"].describe()[["min", "50%", "max"]].loc[methods].round(2)

# %% [markdown]
# Wider intervals cover more: without cross-validation, width says nearly all. `binomial` and `logit` are 7 to 25 % too
# wide and stay so, because they take the variance of a proportion, which in these scenarios is more than that of the
# area; in others it is less. `bootstrap` is at the ideal width, or below it. Cross-validation is mostly wider than
# ideal and narrower than the formulas, and yet covers less than either: width is not what is wrong with it.
#
# ## Figure 8: location
#
# The mean location of the intervals over the true area. An interval's location is the estimate (`binomial`; `logit` is
# the same), the median of the replicates (`bootstrap`), or the midpoint (cross-validation). The axis is cut at 0.7 and
# 1.4.

# %%
axes = draw_nine(shown[shown["method"] != "logit"], "location_ratio", methods, 1, (0.7, 1.4))

# %%
located = shown.pivot_table(index=["estimator", "scenario"], columns=["method", "n_items"], values="location_ratio")
located.loc[recommended, ["binomial", "bootstrap", "cross_validation_t"]].xs(1000, axis=1, level="n_items").round(3)

# %% [markdown]
# With 1000 items, so 100 positives, cross-validation lies where an estimate from 100 items lies: ten folds divide the
# data by ten, and with less data the estimators are more biased (Figure 4). That is why its intervals miss. `bootstrap`
# shares a little of this: a resample has fewer distinct positives than the sample. How the misses are spread says the
# same: most intervals of cross-validation that miss lie on one side.

# %%
missing = shown[shown["n_items"] == 1000].assign(share=lambda t: t["miss_below"] / (t["miss_below"] + t["miss_above"]))
missing = missing.pivot_table(index=["estimator", "scenario"], columns="method", values="share")
missing.loc[recommended, methods].rename_axis(columns="misses that lie below").round(2)

# %% [markdown]
# ## Beyond the paper
#
# The study also tried intervals that the paper did not have. `plots.coverage` draws them with their Monte Carlo errors.

# %%
ax = plots.coverage(
    intervals.rename(columns={"method": "interval_method"}),
    scenario="binormal",
    methods=["logit", "wilson", "bootstrap", "bca", "bootstrap_t", "influence_logit_t"],
    prevalence=0.1,
)

# %% [markdown]
# On binormal scores, where `average_precision` is most biased, `wilson` holds the level at every size and is the least
# too careful of the formulas. `bootstrap_t` stays within one percent of the level, and `influence_logit_t`, which
# resamples nothing, within 1.5. `bootstrap` and `bca` need hundreds of positives.
#
# ## A cell again
#
# Such a table is made by `ap.simulate.study(...)`. Here is one of its cells without it, from other random numbers. The
# last column is the distance from what is stored in Monte Carlo standard errors: it should rarely be above 2.

# %%
estimators = ["average_precision", "lower_trapezoid", "interpolated_median"]
scenario = scenarios["binormal"]
sample = scenario.sample(1000, 0.1, n_simulations=N_SIMULATIONS, seed=1)
fresh = ap.evaluate(sample, estimator=estimators, interval=["logit", "binomial"]).compute()

truth = scenario.area(0.1)
holds = (fresh["interval"].sel(ci_bound="lower") <= truth) & (truth <= fresh["interval"].sel(ci_bound="upper"))


def against(stored, error, values):
    """Compare a stored column with the mean of new simulations."""
    again = values.mean("model").to_series().loc[stored.index]
    errors = np.hypot(error, values.std("model").to_series().loc[stored.index] / np.sqrt(N_SIMULATIONS))
    return pd.DataFrame({"stored": stored, "again": again, "errors apart": (again - stored).abs() / errors}).round(3)


cell = "scenario == 'binormal' and n_items == 1000 and prevalence == 0.1 and estimator in @estimators"
stored = estimates.query(cell).set_index("estimator")
against(stored["mean"], stored["mean_error"], fresh["estimate"])

# %%
stored = intervals.query(cell + " and method in ['logit', 'binomial']").set_index(["estimator", "method"])
against(stored["coverage"], stored["coverage_error"], holds)
