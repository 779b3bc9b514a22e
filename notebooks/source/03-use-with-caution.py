# %% [markdown]
# # Precision-recall curves: use with caution
#
# A precision-recall curve on a slide looks like a property of the model. It is a property of the model *and of the
# sample*. Here the truth is known, so the difference can be seen. The idea, and most of the figures, are from the note
# in the OCaml library [prc](https://github.com/pveber/prc): draw many samples from a model whose true curve is known,
# and look at them all. Two figures are from a post on computing the area in Julia (Tamas Nagy, 2016). Both follow Boyd,
# Eng & Page 2013, to whom [another notebook](02-bias-coverage-width.ipynb) is devoted.
#
# The model is the binormal one: positives score N(1, 1), negatives N(0, 1), and the prevalence is 0.1. In the note and
# the post each item is positive with that probability, so the number of positives is random. It is here, too, in the
# figures that are theirs (`label_design="binomial"`); otherwise it is exactly a tenth of the items.

# %%
import os

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import aucpr_dask as ap

IS_SMALL = os.environ.get("AUCPR_NOTEBOOK_SIZE") == "small"
N_SIMULATIONS = 200 if IS_SMALL else 10_000
BLUE, ORANGE, GREEN, BLACK = "#0072B2", "#E69F00", "#009E73", "#000000"

model = ap.simulate.binormal(mu=1, sigma=1)
prevalence = 0.1
truth = model.area(prevalence)
print(f"true area: {truth:.4f}")

# %% [markdown]
# ## A true curve and a sampled one
#
# Left, the note's first figure: the true curve if negatives spread less, N(0, 0.7²). Only the order of scores counts,
# so that is the same as negatives N(0, 1) and positives N(1/0.7, 1/0.7²). Right: the points of one sample of 1000 items
# from N(1, 1) and N(0, 1). They form a saw: precision rises at each positive and falls at each negative.

# %%
recall = np.linspace(0, 1, 201)
narrow = ap.simulate.binormal(mu=1 / 0.7, sigma=1 / 0.7)
one = model.sample(1000, prevalence, label_design="binomial", seed=1).compute()
score, label = one["score"].values.ravel(), one["label"].values.ravel()
points = ap.curve(score, label)
figure, axes = plt.subplots(1, 2, figsize=(6, 2.8), sharey=True, layout="constrained")
axes[0].plot(recall, narrow.curve(recall, prevalence), color=BLUE, linewidth=2)
axes[0].set(title=f"negatives N(0, 0.7²): area {narrow.area(prevalence):.3f}", ylabel="precision")
axes[1].plot(points["recall"], points["precision"], color="0.4", linewidth=0.8)
axes[1].set(title=f"a sample with {label.sum()} positives")
for ax in axes:
    ax.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="recall")

# %% [markdown]
# ## Thirty curves of one model
#
# Every grey line is the same model, evaluated on another sample. The note's figure is the middle one, of 1000 items.


# %%
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
# ## The same in three scenarios
#
# The figure of the Julia post: ten samples of 500 items, each positive with probability 0.1, around the true curves of
# three scenarios. (Its other figure shows their densities; see [notebook 02](02-bias-coverage-width.ipynb).) Where
# positives and negatives overlap less, curves vary less, but their left ends do everywhere.

# %%
scenarios = {
    "binormal": model,
    "bibeta": ap.simulate.bibeta(5, 2, 2, 5),
    "offset uniform": ap.simulate.offset_uniform(gamma=0.5),
}
figure, axes = plt.subplots(1, 3, figsize=(7.5, 2.6), sharey=True, layout="constrained")
for ax, (name, scenario) in zip(axes, scenarios.items(), strict=True):
    sample = scenario.sample(500, prevalence, n_simulations=10, label_design="binomial").compute()
    curves = ap.curve(sample.score, sample.label, grid=recall)
    ax.plot(recall, curves.transpose("recall", "model"), color="0.65", linewidth=0.7)
    ax.plot(recall, scenario.curve(recall, prevalence), color=BLUE, linewidth=2)
    counts = sample["label"].sum("item").values
    ax.set(title=f"{name}, n = {counts.min()} to {counts.max()}", xlim=(0, 1), ylim=(0, 1.02), xlabel="recall")
    ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
_ = axes[0].set_ylabel("precision")

# %% [markdown]
# ## A fitted curve
#
# If scores are normal in both classes, four numbers say everything: fit the means and standard deviations, and the
# curve follows. Here to the sample from above.

# %%
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


def estimates_of(n_items):
    """Estimate the area of many samples."""
    sample = model.sample(n_items, prevalence, n_simulations=N_SIMULATIONS)
    return ap.estimate(sample.score, sample.label, estimator=estimators).compute()


figure, axes = plt.subplots(1, 2, figsize=(7.5, 2.6), sharex=True, sharey=True, layout="constrained")
means = {}
for ax, n_items in zip(axes, (200, 1000), strict=True):
    estimates = estimates_of(n_items)
    n_positive = round(n_items * prevalence)
    means[f"{n_positive} positives"] = estimates.mean("model").to_pandas()
    ax.boxplot(
        estimates.transpose("model", "estimator").values,
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
#   ([02](02-bias-coverage-width.ipynb)).
#
# So never compare areas from two tools before you know that they compute the same one.
#
# The note's own boxes are of two estimators, for 1000 samples of 1000 items with a standard deviation of 0.9 in both
# classes. (That is mu = 1/0.9 in units of the spread.) Boxes hold half of the samples, whiskers reach 1.5 times as far
# as the box is long.

# %%
tighter = ap.simulate.binormal(mu=1 / 0.9)
sample = tighter.sample(1000, prevalence, n_simulations=min(N_SIMULATIONS, 1000), label_design="binomial")
pair = ap.estimate(sample.score, sample.label, estimator=["lower_trapezoid", "average_precision"]).compute()
figure, ax = plt.subplots(figsize=(3.6, 2.6), layout="constrained")
names = [name.replace("_", " ") for name in pair["estimator"].values]
ax.boxplot(pair.transpose("model", "estimator").values, tick_labels=names, medianprops={"color": BLACK})
ax.axhline(tighter.area(prevalence), color=BLUE)
ax.set(ylabel="estimate", title="The line is the true area")
(pair.mean("model").to_series() / tighter.area(prevalence)).rename("mean estimate / true area").round(3)

# %% [markdown]
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
# ## Does the interval hold?
#
# The logit interval needs only the estimate and the number of positives n. With z = 1.96 for 95 %,
#
# > expit(logit θ ± z / √(n θ (1 - θ)))
#
# `ap.interval` computes it for all samples at once; coverage is the share of intervals that hold the true area. Next
# to it is the plain interval of a proportion, θ ± z √(θ (1 - θ) / n), which may leave [0, 1].

# %%
sizes = [100, 200, 500, 1000, 2000]
rows = []
for n_items in sizes:
    n_positive = round(n_items * prevalence)
    estimate = areas_of(model, n_items, seed=3)
    for method in ("logit", "binomial"):
        bounds = ap.interval(estimate, n_positive, method)
        holds = (bounds[:, 0] <= truth) & (truth <= bounds[:, 1])
        rows.append((n_positive, method, holds.mean(), np.ptp(bounds, axis=1).mean(), (bounds[:, 0] < 0).mean()))
columns = ["positives", "method", "coverage", "mean width", "below 0"]
coverage = pd.DataFrame(rows, columns=columns).set_index(["method", "positives"])
coverage.round(3)

# %%
figure, ax = plt.subplots(figsize=(4.2, 2.8), layout="constrained")
styles = {"logit": (BLUE, "-", "o"), "binomial": (ORANGE, "--", "s")}
for method, (colour, dashes, marker) in styles.items():
    share = coverage.loc[method, "coverage"]
    error = 1.96 * np.sqrt(share * (1 - share) / N_SIMULATIONS)
    ax.errorbar(share.index, share, error, color=colour, linestyle=dashes, marker=marker, label=method)
ax.axhline(0.95, color=BLACK, linewidth=0.8)
ax.annotate("95 %", (share.index[0], 0.95), (0, -4), textcoords="offset points", va="top")
ax.set(xscale="log", xlabel="positives", ylabel="intervals that hold the true area", ylim=(0.9, 1))
ax.set_xticks(share.index, [f"{n}" for n in share.index])
ax.minorticks_off()
_ = ax.legend(frameon=False)

# %% [markdown]
# Both hold the truth a little more often than promised: the formulas take the variance of a proportion, which is here
# more than that of the area. [Where it is less](../docs/choosing.md#where-formula-intervals-fail), they hold too little
# at every size. The logit interval
# stays inside [0, 1]; the plain one falls below 0 where positives are few, and is wider there.
#
# And look at the width. With 10 positives, an interval is half of the whole scale.
#
# **Hold what?** The note scores its logit intervals against the *mean of the estimates*, not against the true area.
# Then a biased estimator looks valid: its intervals hold what it estimates on average, wherever that is. Next to each
# other, for two estimators and random numbers of positives; each interval uses the number of its own sample.

# %%
rows = []
for n_items in (100, 200, 1000):
    sample = model.sample(n_items, prevalence, n_simulations=N_SIMULATIONS, label_design="binomial", seed=4).compute()
    n_positive = sample["label"].sum("item").values
    for estimator in ("lower_trapezoid", "upper_trapezoid"):
        estimate = ap.estimate(sample.score, sample.label, estimator).values
        defined = ~np.isnan(estimate)  # a sample of 100 items may have no positive
        bounds = ap.interval(estimate[defined], n_positive[defined], "logit")
        shares = [((bounds[:, 0] <= x) & (x <= bounds[:, 1])).mean() for x in (truth, estimate[defined].mean())]
        rows.append((estimator, n_items, estimate[defined].mean() / truth, *shares))
columns = ["estimator", "items", "mean estimate / true area", "hold the true area", "hold the mean estimate"]
pd.DataFrame(rows, columns=columns).set_index(["estimator", "items"]).round(3)

# %% [markdown]
# `ap.simulate.study(..., label_design="binomial")` does such a comparison for any estimators and intervals, against the
# true area.
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
