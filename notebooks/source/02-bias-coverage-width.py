# %% [markdown]
# # Bias, coverage, width: Boyd, Eng & Page 2013
#
# Kendrick Boyd, Kevin Eng and David Page, [*Area under the precision-recall curve: point estimates and confidence
# intervals*](https://doi.org/10.1007/978-3-642-40994-3_29), asked which estimators and intervals can be trusted. This
# notebook draws what their Figures 2 to 8 show, from simulations with this package, with figures numbered as theirs.
# (Figure 1 illustrates ten positives among thirty items.)
#
# **What comes from where.** Figures 2 and 3 are computed in this notebook. Figures 4 to 8 are drawn from two tables,
# `docs/study/estimates.csv` and `docs/study/intervals.csv`: the summary of 10,000 simulations of each cell (a scenario,
# a number of items and a prevalence), which took an hour in two processes. A row of the first is the mean and spread of
# one estimator in one cell, a row of the second what became of 10,000 intervals; 1000 of the one method `bayesian`,
# which is not the paper's. Section *A cell again* computes one cell again and compares. All tables, and how they were
# made, are in [the simulation study](../docs/simulation-study.md). We know the paper's figures by what they show and
# not to the letter: axes may differ from those in print.

# %%
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy import stats

import aucpr_dask as ap
from aucpr_dask.view import plots

N_SIMULATIONS = 200 if os.environ.get("AUCPR_NOTEBOOK_SIZE") == "small" else 10_000
STUDY = Path("../docs/study")
BLUE, VERMILLION, GREY = "#0072B2", "#D55E00", "#767676"

estimates = pd.read_csv(STUDY / "estimates.csv")
intervals = pd.read_csv(STUDY / "intervals.csv")
intervals["n_positive"] = (intervals["n_items"] * intervals["prevalence"]).round().astype(int)
pd.read_csv(STUDY / "run.csv")

# %% [markdown]
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
# ## Figure 3: their true curves
#
# At a prevalence of 0.1. With a share f(t) of the negatives above the threshold that a share t of the positives
# exceeds, the precision is 0.1 t / (0.1 t + 0.9 f(t)).

# %%
recall = np.linspace(0, 1, 201)
figure, ax = plt.subplots(figsize=(3.6, 3.3), layout="constrained")
for (name, scenario), style, colour in zip(scenarios.items(), ("-", "--", "-."), (BLUE, VERMILLION, GREY), strict=True):
    label = f"{name.replace('_', ' ')}, area {scenario.area(0.1):.3f}"
    ax.plot(recall, scenario.curve(recall, 0.1), style, color=colour, label=label)
ax.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.02))
_ = figure.legend(loc="outside lower center", frameon=False, fontsize=8)

# %% [markdown]
# ## Figure 3, continued: sampled curves
#
# Ten samples of 500 items, 50 of them positive, around each true curve.

# %%
figure, axes = plt.subplots(1, 3, figsize=(7.5, 2.5), sharey=True, layout="constrained")
for ax, (name, scenario) in zip(axes, scenarios.items(), strict=True):
    sample = scenario.sample(500, 0.1, n_simulations=10).compute()
    curves = ap.curve(sample.score, sample.label, grid=recall)
    ax.plot(recall, curves.transpose("recall", "model"), color="0.65", linewidth=0.7)
    ax.plot(recall, scenario.curve(recall, 0.1), color=BLUE, linewidth=2)
    ax.set(title=name.replace("_", " "), xlabel="recall", xlim=(0, 1), ylim=(0, 1.02))
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
# How many of the 95 % intervals hold the true area, at a prevalence of 0.1, for the recommended estimators. The axis is
# cut at 0.7; what falls below it is `cross_validation`.

# %%
methods = ["binomial", "logit", "bootstrap", "cross_validation"]
recommended = ["average_precision", "lower_trapezoid", "interpolated_median"]
at_tenth = intervals[intervals["prevalence"] == 0.1]

figure, axes = plt.subplots(3, 3, figsize=(7.5, 6.2), sharex=True, sharey=True, layout="constrained")
for row, estimator in zip(axes, recommended, strict=True):
    for ax, scenario in zip(row, scenarios, strict=True):
        cells = at_tenth[(at_tenth["estimator"] == estimator) & (at_tenth["scenario"] == scenario)]
        draw(ax, cells, "n_positive", "coverage", "method", methods)
        ax.axhline(0.95, color="black", linewidth=0.8, zorder=0)
        ax.set(ylim=(0.7, 1))
    row[0].set_ylabel(estimator.replace("_", " "))
for ax, scenario in zip(axes[0], scenarios, strict=True):
    ax.set_title(scenario.replace("_", " "))
for ax in axes[-1]:
    ax.set_xlabel("positives")
handles = axes[0, 0].get_legend_handles_labels()
_ = figure.legend(*handles, loc="outside lower center", ncols=4, frameon=False, fontsize=8)

# %%
summary = at_tenth[at_tenth["estimator"].isin(recommended)].groupby(["method", "n_positive"])["coverage"].min()
summary.unstack("n_positive").loc[methods].round(3)

# %% [markdown]
# The table has the lowest coverage of the nine panels.
#
# * `logit` never falls below 0.96 at this prevalence, one in ten: a little too careful. Where positives are rarer it
#   holds less: 0.939 with 10 positives among 1,000 items. In other worlds than these three it falls below 0.9 at any
#   size ([which](../docs/choosing.md#where-formula-intervals-fail)), so it is no longer the default.
# * `binomial` fails at 10 positives, where the distribution of estimates is skewed and its own shape is not.
# * `bootstrap` needs some hundreds of positives to come near 0.95.
# * `cross_validation` is not valid at any size here: each fold's estimate has the bias of a sample a tenth as large.
#   With one positive in each of the ten folds, intervals around `interpolated_median` never hold.
#
# ## Figure 7: width
#
# The mean width of an interval over the width of the central 95 % of the estimates, for `average_precision`. Below 1,
# an interval promises more than there is to know.

# %%
of_average_precision = at_tenth[at_tenth["estimator"] == "average_precision"]
axes = draw_scenarios(of_average_precision, "n_positive", "width_ratio", "method", methods, level=1)
_ = axes[0].set_ylabel("width / spread of estimates")

# %% [markdown]
# The formulas are 7 to 31 % too wide and stay so: they take the variance of a proportion, which in these scenarios is
# more than that of the area; in others it is less. `bootstrap` gets the width right from 50 positives on.
# `cross_validation` is then less than 10 % too narrow: it fails because it is in the wrong place.
#
# ## Figure 8: location
#
# Of the intervals that miss, the share that lie below the true area: at 0.5 both sides are alike, at 0 every miss is
# too high. (Newcombe's measure. The paper's is another: the mean of the estimate, of the midpoint of a
# cross-validation's interval, or of the median of the replicates, over the true area.)

# %%
axes = draw_scenarios(
    of_average_precision, "n_positive", "location", "method", methods, level=0.5, limits=(-0.03, 1.03)
)
_ = axes[0].set_ylabel("share of misses below")

# %% [markdown]
# Misses of `cross_validation`, `bootstrap` and `binomial` lie mostly above the truth. With 10 positives on binormal
# scores, where `average_precision` itself is a fifth too high, nearly all do, those of `logit` too. On `bibeta` and
# `offset_uniform` scores, whose areas are larger, `logit` errs the other way: with 10 positives all its misses are too
# low. With more positives all move towards balance; `cross_validation` on binormal scores hardly does.
#
# ## Beyond the paper
#
# The study also tried intervals that the paper did not have. `plots.coverage` draws them with their Monte Carlo errors.

# %%
ax = plots.coverage(
    intervals,
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
# Such a table is made by `ap.simulate.study(..., url="study.zarr")`, which resumes after an interruption. Here is one
# of its cells without it, from other random numbers. The last column is the distance from what is stored in Monte Carlo
# standard errors: it should rarely be above 2.

# %%
estimators = ["average_precision", "lower_trapezoid", "interpolated_median"]
scenario = scenarios["binormal"]
sample = scenario.sample(1000, 0.1, n_simulations=N_SIMULATIONS, seed=1)
fresh = ap.evaluate(sample, estimators=estimators, intervals=["logit", "binomial"]).compute()

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
