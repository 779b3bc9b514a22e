# %% [markdown]
# # Weighted and soft labels
#
# A label need not be certain. A binding site is bound "with probability 0.9", three of four annotators say yes, an
# item represents five others. Keilwagen, Grosse & Grau (2014, [doi:10.1371/journal.pone.0092209](
# https://doi.org/10.1371/journal.pone.0092209)) extended precision-recall curves to such labels. This notebook goes
# through their Figures 1 to 4: what lies between two points of a curve, how much it matters, and what weights change.
#
# *What is theirs and what is ours.* Their eight areas of Figure 4 are compared with ours number by number. The paper
# names the construction of that figure but not the distributions: those here were fitted to the printed areas. The
# data of Figures 1 to 3 are examples of our own that make the same points. Figures 5 to 8 concern data of other
# authors, which are not part of this package, and are not repeated.

# %%
import os

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats

import aucpr_dask as ap

SMALL = os.environ.get("AUCPR_NOTEBOOK_SIZE") == "small"
N_SIMULATIONS, N_RESAMPLES = (50, 100) if SMALL else (1000, 1000)
BLUE, ORANGE, BLACK = "#0072B2", "#D55E00", "#000000"
plt.rcParams.update({"font.size": 8, "figure.dpi": 150})


def blocks(*counts):
    """Return a data set of tied blocks, from the highest score down, each of so many (positives, negatives)."""
    label = np.concatenate([np.repeat([1, 0], block) for block in counts]).astype("int8")
    score = -np.repeat(np.arange(len(counts)), [sum(block) for block in counts]).astype(float)
    return xr.Dataset({"score": (("model", "item"), score[None]), "label": ("item", label)}, {"model": ["example"]})


# %% [markdown]
# ## Figure 1: between two points
#
# Items with the same score are one step, so a curve is known at a few points only. In ROC space the points are joined
# by straight lines: true and false positives grow in proportion. Then precision, TP / (TP + FP), follows a
# *hyperbola* of recall. Here is a curve of three points: 5 of 20 positives at precision 1/2, 10 at 1/4, all at 1/20.

# %%
coarse = blocks((5, 5), (5, 25), (10, 350))
ax = coarse.aucpr.plot.precision_recall(iso_f=False)
points = ap.curve(coarse["score"], coarse["label"]).isel(model=0)
ax.plot(points["recall"][1:], points["precision"][1:], "o--", color=ORANGE, markersize=4)
_ = ax.text(0.4, 0.38, "straight lines: too high", color=ORANGE)

# %%
names = ["continuous", "average_precision", "lower_trapezoid"]
ap.evaluate(coarse, names, intervals=[])["estimate"].to_pandas().round(4)

# %% [markdown]
# Taking some of a block of tied items at random leads to the hyperbola; the straight lines promise more, and
# their area, the lower trapezoid, is too large. It also begins at precision 1, which no point of this curve supports.
# (Average precision does not interpolate at all.)
#
# ## Figure 2: continuous or discrete?
#
# Davis and Goadrich put the hyperbola at whole numbers of true positives, and joined those by straight lines:
# *discrete*. Keilwagen and co-authors let true positives grow by fractions: *continuous*. The two differ where one
# positive brings many negatives along. Two positives, the second tied with ten negatives:

# %%
few = blocks((1, 0), (1, 10), (0, 9))
ax = few.aucpr.plot.precision_recall(iso_f=False)
ax.plot([0.5, 1], [1, 2 / 12], "s--", color=ORANGE, markersize=4)
_ = ax.text(0.75, 0.62, "discrete", color=ORANGE)

# %%
ap.evaluate(few, ["continuous", "discrete"], intervals=[])["estimate"].to_pandas().round(4)

# %% [markdown]
# The two areas are 0.14 apart. There is a second reason for fractions: with weights, "whole numbers of true
# positives" mean nothing, and `discrete` refuses them.

# %%
try:
    ap.estimate(few["score"], few["label"], "discrete", weight=xr.ones_like(few["label"], dtype=float))
except ap.errors.InvalidInputError as error:
    print(error)

# %% [markdown]
# ## Figure 3: does it matter?
#
# For ordinary data, hardly. We draw normal scores, the positives shifted by 0 to 3 standard deviations, round them
# into 10, 100 or 1000 bins, and look at how far the two areas are apart. (The paper draws
# the mean of the positives from a normal distribution around 1.64, with ten negatives for each positive.)


# %%
def apart(n_positive, n_negative, n_bins, seed=20140320):
    """Return |discrete - continuous| of simulated data sets."""
    random = np.random.default_rng(seed)
    label = np.repeat([1, 0], [n_positive, n_negative])
    score = random.normal(size=(N_SIMULATIONS, label.size)) + random.uniform(0, 3, (N_SIMULATIONS, 1)) * label
    low, high = score.min(axis=1, keepdims=True), score.max(axis=1, keepdims=True)
    binned = np.minimum(np.floor((score - low) / (high - low) * n_bins), n_bins - 1)
    discrete, continuous = ap.estimate(binned, label, ["discrete", "continuous"]).T
    return np.abs(discrete - continuous)


cells = {(n, b): apart(n, 10 * n, b) for n in (10, 100, 1000) for b in (10, 100, 1000)}
fig, ax = plt.subplots(figsize=(85 / 25.4, 2.6), layout="constrained")
ax.boxplot(list(cells.values()), whis=(5, 95), flierprops={"marker": ".", "markersize": 2, "alpha": 0.4})
ax.set_xticks(range(1, 10), [f"{b}" for _, b in cells])
ax.set_yscale("symlog", linthresh=1e-6)
ax.set_ylim(0, 0.1)
ax.set_xlabel("score bins")
ax.set_ylabel("|discrete - continuous|")
for start, n in enumerate((10, 100, 1000)):
    ax.axvline(3.5 + 3 * start, color="#D9D9D9", linewidth=0.8)
    ax.text(2 + 3 * start, 0.045, f"{n} positives", ha="center", fontsize=7)

# %%
columns = {"95 %": lambda values: np.quantile(values, 0.95), "largest": np.max}
table = pd.DataFrame({name: {cell: of(values) for cell, values in cells.items()} for name, of in columns.items()})
table.rename_axis(["positives", "bins"]).map("{:.1e}".format)

# %% [markdown]
# (Whiskers hold 90 % of the simulations.) With 10 positives and 10 bins, 95 % of the differences are below about
# 0.01, and none is above 0.03, as in the paper. Ten times the positives make them ten to a hundred times smaller; the
# bins matter less. So take `continuous` because it is right everywhere, not because your numbers will change.
#
# ## Soft labels: one item in both classes
#
# An item with probability 0.9 counts 0.9 as a positive and 0.1 as a negative. `positive_weight` and `negative_weight`
# take the place of `label`; they need not add up to 1. Six items from the paper's Table 2, the first three above the
# threshold:

# %%
probability = np.array([0.9, 0.92, 0.22, 0.07, 0.67, 0.09])
score = np.array([3.0, 2.5, 2.0, 1.0, 0.5, 0.2])  # the order within the two halves is ours
soft = {"positive_weight": probability, "negative_weight": 1 - probability}
table = ap.confusion(score, None, [1.5], **soft).drop_vars("threshold").squeeze()
{name: round(float(value), 2) for name, value in table.items()}

# %% [markdown]
# As in the paper: 2.04 true and 0.96 false positives. Three facts tie soft labels to what you know:

# %%
random = np.random.default_rng(0)
label, times, scores = random.integers(0, 2, 200), random.integers(0, 4, 200), random.normal(size=200)
facts = {
    "soft labels of 0 and 1 are hard labels": (
        ap.estimate(scores, None, "continuous", positive_weight=label, negative_weight=1 - label),
        ap.estimate(scores, label, "continuous"),
    ),
    "weight 3 is three copies, weight 0 is none": (
        ap.estimate(scores, label, "continuous", weight=times),
        ap.estimate(np.repeat(scores, times), np.repeat(label, times), "continuous"),
    ),
    "what counts is the ratio of weights": (
        ap.estimate(scores, label, "continuous", weight=times),
        ap.estimate(scores, label, "continuous", weight=10 * times),
    ),
}
{name: bool(np.isclose(*pair, rtol=1e-12)) for name, pair in facts.items()}

# %% [markdown]
# ## Figure 4: three classifiers that only weights distinguish
#
# 10,000 items have a foreground probability. For the *unweighted* analysis, 1,030 are positives: nearly all of those
# above a probability of 1/2, and hardly any other. The *good* classifier orders the items of each class by their
# probability, the *bad* one in reverse, the *permuted* one at random. Within a class all three use the same scores,
# so without weights they are the same.

# %%
n, m = (103, 897) if SMALL else (1030, 8970)
middle = {count: (np.arange(count) + 0.5) / count for count in (n, m)}
# Fitted to the eight areas that the paper prints: beta distributions of weights, normal ones of scores.
weight = np.concatenate([stats.beta.ppf(middle[n], 11.6, 2.71), stats.beta.ppf(middle[m], 1.638, 9.51)])
ordered = np.split(np.concatenate([1.669 + stats.norm.ppf(middle[n]), stats.norm.ppf(middle[m])]), [n])
random = np.random.default_rng(0)
score = [
    np.concatenate(ordered),
    np.concatenate([random.permutation(part) for part in ordered]),
    np.concatenate([part[::-1] for part in ordered]),
]
models = ["good", "permuted", "bad"]
hard = xr.Dataset(
    {"score": (("model", "item"), score), "label": ("item", np.repeat([1, 0], [n, m]).astype("int8"))},
    {"model": models},
)
soft = hard.drop_vars("label").assign(positive_weight=("item", weight), negative_weight=("item", 1 - weight))

# %%
fig, (left, middle_, right) = plt.subplots(1, 3, figsize=(7, 2.1), layout="constrained")
left.hist([weight[n:], weight[:n]], 40, stacked=True, color=["#D9D9D9", BLUE], label=["negatives", "positives"])
left.set(xlabel="foreground weight", ylabel="items", title="(a) weights")
left.legend(frameon=False, fontsize=7)
middle_.hist([hard["score"][0, n:], hard["score"][0, :n]], 40, stacked=True, color=["#D9D9D9", BLUE])
middle_.set(xlabel="score", title="(b) scores, of all three")
for name, colour, marker in zip(models, (BLUE, BLACK, ORANGE), "o.x", strict=True):
    some = slice(None, None, 1 if SMALL else 40)
    right.plot(hard["score"].sel(model=name)[some], weight[some], marker, color=colour, markersize=2, label=name)
right.set(xlabel="score", ylabel="weight", title="(d) what weights see")
_ = right.legend(frameon=False, fontsize=7, markerscale=2, loc="center left", bbox_to_anchor=(1, 0.5))

# %%
fig, axes = plt.subplots(1, 2, figsize=(6.7, 3.1), layout="constrained")
hard.aucpr.plot.precision_recall(models, iso_f=False, ax=axes[0])
soft.aucpr.plot.precision_recall(models, iso_f=False, ax=axes[1])
axes[0].set_title("(c) hard labels: one curve")
_ = axes[1].set_title("(e) weighted: three")

# %%
names = ["roc_area", "continuous"]
ours = ap.evaluate(soft, names, intervals=[])["estimate"].to_pandas()
ours.loc["unweighted"] = ap.evaluate(hard, names, intervals=[])["estimate"].sel(model="good").values
printed = pd.DataFrame(
    {"good": (0.79, 0.55), "permuted": (0.64, 0.39), "bad": (0.49, 0.27), "unweighted": (0.88, 0.55)}, names
).T
pd.concat({"printed": printed, "ours": ours.round(3)}, axis=1)

# %% [markdown]
# Hard labels call three very different classifiers equal. Weights tell them apart by a lot, in both spaces. All eight
# areas are within 0.012 of the printed ones; that our distributions were fitted to them makes this a demonstration,
# not a proof. What does not depend on the fit is the order: no arrangement within the classes beats *good* or does
# worse than *bad*.
#
# ## What is 0.55 worth?
#
# With soft labels even the best possible order has an area below 1: an item of weight 0.5 is half wrong anywhere. The
# paper's Theorem 1 gives the attainable maximum and minimum; the *normalised* area says where between them a classifier
# is. (We rank by the share of foreground, which is right for any pair of weights; by the foreground weight alone, as
# PRROC does, it is right only where the two add up to a constant, as they do here.)

# %%
levels = ap.reference_levels(
    estimator="continuous", positive_weight=soft["positive_weight"], negative_weight=soft["negative_weight"]
)
area = ap.evaluate(soft, "continuous", intervals=[])["estimate"]
print(f"minimum {levels['minimum'].item():.3f}, maximum {levels['maximum'].item():.3f}")
pd.DataFrame({"area": area[:, 0], "normalised": ap.normalised(area, levels)[:, 0]}, models).round(3)

# %% [markdown]
# ## How sure?
#
# Resampling works as ever: items are drawn with their weights. Intervals of single areas come from `evaluate`,
# statements about differences from `compare`.

# %%
result = ap.evaluate(soft, "continuous", "bootstrap", n_resamples=N_RESAMPLES, keep_replicates=True)
ax = result.aucpr.plot.forest()

# %%
difference = ap.compare(result, baseline="permuted").squeeze("baseline").sel(model=["good", "bad"])
low, high = difference["simultaneous_interval"].transpose("ci_bound", ...).values
pd.DataFrame({"difference": difference["difference"], "from": low, "to": high}, ["good", "bad"]).round(3)

# %% [markdown]
# ## In short
#
# * Do not join points of a precision-recall curve by straight lines; `continuous` follows the hyperbola, with any
#   weights.
# * Soft labels go in as `positive_weight` and `negative_weight`, sample weights as `weight`; every estimator but
#   `discrete` takes them.
# * Cutting probabilities at a threshold throws away what may tell classifiers apart.
# * Compare with what is attainable: `ap.reference_levels`, `ap.normalised`.
