# %% [markdown]
# # Weighted and soft labels
#
# A label need not be certain. A binding site is bound "with probability 0.9", three of four annotators say yes, an
# item represents five others. Keilwagen, Grosse & Grau (2014, [doi:10.1371/journal.pone.0092209](
# https://doi.org/10.1371/journal.pone.0092209)) extended precision-recall curves to such labels. This notebook goes
# through their figures: what lies between two points of a curve, how much it matters, and what weights change.
#
# *What is theirs and what is ours.* Figures 1 to 4 are simulations and examples, and are repeated as the paper
# describes them; where it leaves a number open, the text here names ours. Figures 5 to 8 use data that are not ours to
# pass on: scores of one query that the authors had privately from Kekäläinen & Järvelin (2002), and 66 protein binding
# microarrays with the predictions of 11 teams from Weirauch et al. (2013). The same analyses are done on other data.

# %%
import os

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats
from scipy.special import expit
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Lasso, LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

import aucpr_dask as ap

SMALL = os.environ.get("AUCPR_NOTEBOOK_SIZE") == "small"
N_RANDOM, N_SIMULATIONS, N_RESAMPLES = (100, 50, 100) if SMALL else (1000, 10_000, 1000)
BLUE, ORANGE, GREEN, PINK, PALE, BLACK = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#D9D9D9", "#000000"
plt.rcParams.update({"font.size": 8, "figure.dpi": 150})


def blocks(*counts):
    """Return a data set of tied blocks, from the highest score down, each of so many (positives, negatives)."""
    label = np.concatenate([np.repeat([1, 0], block) for block in counts]).astype("int8")
    score = -np.repeat(np.arange(len(counts)), [sum(block) for block in counts]).astype(float)
    return xr.Dataset({"score": (("model", "item"), score[None]), "label": ("item", label)}, {"model": ["example"]})


# %% [markdown]
# ## Figure 1: the best, the worst, and chance
#
# 100 items, one positive for four negatives. Their Figure 1 shows the best classifier, the worst, and 1,000 that score
# at random, without weights (a) and with (b). Theorem 1 says which are best and worst: those that order the items by
# their share of foreground, and in reverse. The paper does not say which weights it drew; ours are the quantiles of
# Beta(1/2, 2), whose mean is 1/5.

# %%
label = np.repeat([1, 0], [20, 80])
share = stats.beta.ppf((np.arange(100) + 0.5) / 100, 0.5, 2)[::-1]
share *= 20 / share.sum()
chance = np.random.default_rng(1).random((N_RANDOM, 100))
designs = {
    "(a) hard labels": (label, {"positive_weight": label, "negative_weight": 1 - label}),
    "(b) weights": (share, {"positive_weight": share, "negative_weight": 1 - share}),
}
grid, places = np.linspace(0, 1, 101)[1:], np.arange(10, 100, 10)
fig, axes = plt.subplots(1, 2, figsize=(7, 2.8), layout="constrained", sharey=True)
table = {}
for ax, (name, (order, weights)) in zip(axes, designs.items(), strict=True):
    curves = ap.curve(chance, None, grid=grid, **weights).values
    ax.plot(grid, curves.T, color=PALE, linewidth=0.5, zorder=0)
    boxes = ax.boxplot(curves[:, places - 1], positions=grid[places - 1], widths=0.04, sym="", manage_ticks=False)
    for line in (line for part in boxes.values() for line in part):
        line.set(color=GREEN, linewidth=1.2)
    best, worst = (ap.curve(score, None, grid=grid, **weights).values for score in (order, -order))
    ax.plot(grid, best, color=BLUE, label="best")
    ax.plot(grid, worst, color=ORANGE, label="worst")
    ax.axhline(0.2, color=PINK, linestyle="--", label="share of positives")
    ax.set(xlabel="recall", title=name, xlim=(0, 1), ylim=(0, 1.03))
    areas = ap.estimate(np.vstack([order, -order, chance]), None, "continuous", **weights)
    table[name] = {"best": areas[0], "median of chance": np.median(areas[2:]), "worst": areas[1]}
    levels = ap.reference_levels(estimator="continuous", **weights)
    table[name] |= {bound: levels[bound].item() for bound in ("maximum", "minimum")}
axes[0].set_ylabel("precision")
_ = axes[0].legend(frameon=False, loc="upper right", bbox_to_anchor=(1, 0.93))

# %%
pd.DataFrame(table).round(4)

# %% [markdown]
# As in the paper: with weights the best curve does not reach the point (1, 1), and the worst area is not 0 in either
# case. The middle of the random curves is the share of positives; the area of a random ranking is a little above it.
# `ap.reference_levels` computes the best and the worst without a curve.
#
# ## Between two points
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
ap.evaluate(coarse, names, interval=[])["estimate"].to_pandas().round(4)

# %% [markdown]
# Taking some of a block of tied items at random leads to the hyperbola; the straight lines promise more, and
# their area, the lower trapezoid, is too large. It also begins at precision 1, which no point of this curve supports.
# (Average precision does not interpolate at all.)
#
# ## Figure 2: continuous or discrete?
#
# Davis and Goadrich put the hyperbola at whole numbers of true positives, and joined those by straight lines:
# *discrete-TP* (`discrete`). One can as well take whole numbers of false positives, *discrete-FP*. Keilwagen and
# co-authors let both grow by fractions: *continuous*. Their Figure 2 shows where these differ. Between points A and B
# of panel (a) lie 5 true and 295 false positives; in panel (b) many true and few false ones, here 295 and 5. Each
# panel has a case where the coarser of the discrete areas is larger than the continuous one, and a case where it is
# smaller. The paper's text does not give the points A, so these are ours.


# %%
def between(a, b, steps):
    """Return recall and precision at equal steps between two points (TP, FP) of a curve that ends in b."""
    found, wrong = np.linspace(a, b, steps + 1).T
    return found / b[0], found / (found + wrong)


cases = {
    "(a) discrete-TP larger": ((5, 5), (10, 300)),
    "(a) discrete-TP smaller": ((0, 5), (5, 300)),
    "(b) discrete-FP larger": ((10, 0), (305, 5)),
    "(b) discrete-FP smaller": ((5, 5), (300, 10)),
}
fig, axes = plt.subplots(2, 2, figsize=(6.7, 4.6), layout="constrained")
table = {}
for ax, (name, (a, b)) in zip(axes.flat, cases.items(), strict=True):
    steps = {"discrete-TP": b[0] - a[0], "discrete-FP": b[1] - a[1]}
    for (discrete, count), marker, colour in zip(steps.items(), "o^", (BLACK, BLUE), strict=True):
        ax.plot(*between(a, b, count), marker + ":", color=colour, markersize=4 if count < 10 else 1.5, label=discrete)
    ax.plot(*between(a, b, 1000), color=ORANGE, linewidth=1, label="continuous")
    ax.set(xlabel="recall", ylabel="precision", title=name)
    strip = (a[0] / b[0], 1)
    case = blocks(a, (b[0] - a[0], b[1] - a[1]))
    areas = ap.estimate(case["score"], case["label"], ["continuous", "discrete"], recall_range=strip)
    by_wrong = np.trapezoid(*between(a, b, steps["discrete-FP"])[::-1])
    areas = (*areas.values.ravel(), by_wrong)
    table[name] = dict(zip(("continuous", "discrete-TP", "discrete-FP"), areas, strict=True))
_ = axes[0, 0].legend(frameon=False)

# %%
pd.DataFrame(table).T.round(4)

# %% [markdown]
# The areas are those of the strip between A and B. In all four cases, as the paper finds, the continuous area agrees
# with the finer of the two discrete ones, and the coarser one errs. There is a second reason for fractions: with
# weights, "whole numbers of true positives" mean nothing, and `discrete` refuses them.

# %%
try:
    ap.estimate(case["score"], case["label"], "discrete", weight=xr.ones_like(case["label"], dtype=float))
except ap.errors.InvalidInputError as error:
    print(error)

# %% [markdown]
# ## Figure 3: does it matter?
#
# For ordinary data, hardly. As in the paper, scores of negatives are N(0, 1), and those of positives N(m, 1), where m
# is itself drawn from a normal distribution around 1.64, with standard deviation 1; there are ten negatives for each
# positive. (1.64 is the threshold that 1/20 of the negatives exceed.) Scores are put into 10 or 1,000 bins, ours being
# equally wide from the smallest score to the largest. There are 10,000 data sets of each size; the smallest, with 10
# positives, is the paper's, the other sizes are ours.


# %%
def differences(n_positive, bins, random):
    """Return discrete - continuous of simulated data sets, for each number of bins."""
    label, found = np.repeat([1, 0], [n_positive, 10 * n_positive]), []
    for start in range(0, N_SIMULATIONS, batch := max(1, 1_000_000 // label.size)):
        mean = random.normal(stats.norm.ppf(1 - 0.5 / 10), 1, (min(batch, N_SIMULATIONS - start), 1))
        score = random.standard_normal((mean.size, label.size), dtype=np.float32) + (mean * label).astype(np.float32)
        low, high = score.min(axis=1, keepdims=True), score.max(axis=1, keepdims=True)
        binned = [np.minimum(np.floor((score - low) / (high - low) * n), n - 1) for n in bins]
        areas = ap.estimate(np.stack(binned), label, ["discrete", "continuous"])
        found.append(areas[..., 0] - areas[..., 1])
    return dict(zip(bins, np.concatenate(found, axis=1), strict=True))


sizes, bins, random = (10, 30, 100, 300, 1000), (10, 1000), np.random.default_rng(20140320)
cells = {size: differences(size, bins, random) for size in sizes}
fig, axes = plt.subplots(1, 2, figsize=(6.7, 2.6), layout="constrained", sharey=True)
for ax, n, panel in zip(axes, bins, "ab", strict=True):
    flier = {"marker": ".", "markersize": 2, "markeredgecolor": "#767676"}
    ax.boxplot([cell[n] for cell in cells.values()], whis=(2.5, 97.5), flierprops=flier, tick_labels=sizes)
    ax.axhline(0, color=PALE, linewidth=0.8, zorder=0)
    ax.set(xlabel="positives", title=f"({panel}) {n:,} bins")
_ = axes[0].set_ylabel("discrete - continuous")

# %%
columns = {"95 % are below": lambda values: np.quantile(values, 0.95), "largest": np.max}
absolute = {(n, size): np.abs(cell[n]) for n in bins for size, cell in cells.items()}
table = pd.DataFrame({name: {cell: of(values) for cell, values in absolute.items()} for name, of in columns.items()})
table.rename_axis(["bins", "positives"]).map("{:.1e}".format)

# %% [markdown]
# (Whiskers hold 95 % of the differences.) With 10 positives and 10 bins, 95 % of the absolute differences are below
# about 0.01 and the largest is about 0.03, as in the paper; more positives or more bins reduce them to almost nothing.
# So take `continuous` because it is right everywhere, not because your numbers will change.
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
# 10,000 items have foreground weights from a mixture of two beta distributions. For the *unweighted* analysis, an item
# is positive if its weight exceeds 1/2, about one in ten. The *good* classifier orders the items of each class by their
# weight, the *bad* one in reverse, the *permuted* one at random. Within a class all three use the same scores, so
# without weights they are the same.
#
# The paper does not print the distributions. Ours were fitted to its eight areas: beta distributions of weights,
# normal ones of scores.

# %%
n_items = 1000 if SMALL else 10_000


def quantiles(distribution, count):
    """Return equally likely values of a distribution, in increasing order."""
    return distribution.ppf((np.arange(count) + 0.5) / count)


high = round(0.102 * n_items)
weight = np.sort(
    np.concatenate([quantiles(stats.beta(12.06, 2.74), high), quantiles(stats.beta(1.63, 9.12), n_items - high)])
)[::-1]
n, m = (weight > 0.5).sum(), (weight <= 0.5).sum()
ordered = quantiles(stats.norm(1.65, 0.99), n)[::-1], quantiles(stats.norm(0, 1), m)[::-1]
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
left.hist(
    [weight[n:], weight[:n]], 40, range=(0, 1), stacked=True, color=[PALE, BLUE], label=["negatives", "positives"]
)
left.axvline(0.5, color=BLACK, linestyle="--", linewidth=0.8)
left.set(xlabel="foreground weight", ylabel="items", title="(a) weights")
left.legend(frameon=False, fontsize=7)
middle_.hist([hard["score"][0, n:], hard["score"][0, :n]], 40, stacked=True, color=[PALE, BLUE])
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
ours = ap.evaluate(soft, names, interval=[])["estimate"].to_pandas()
ours.loc["unweighted"] = ap.evaluate(hard, names, interval=[])["estimate"].sel(model="good").values
printed = pd.DataFrame(
    {"good": (0.79, 0.55), "permuted": (0.64, 0.39), "bad": (0.49, 0.27), "unweighted": (0.88, 0.55)}, names
).T
pd.concat({"printed": printed, "ours": ours.round(3)}, axis=1)

# %% [markdown]
# Panels are named as in their Figure 4, whose (c) and (e) have ROC curves too; the table is its (f). Hard labels call
# three very different classifiers equal. Weights tell them apart by a lot, in both spaces. All eight areas are within
# 0.008 of the printed ones; that our distributions were fitted to them makes this a demonstration, not a proof. What
# does not depend on the fit is the order: no arrangement within the classes beats *good* or does worse than *bad*.
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
area = ap.evaluate(soft, estimator="continuous", interval=[])["estimate"]
print(f"minimum {levels['minimum'].item():.3f}, maximum {levels['maximum'].item():.3f}")
normalised = ap.normalised(area, levels.squeeze())
pd.DataFrame({"area": area, "normalised": normalised}, models).round(3)

# %% [markdown]
# ## How sure?
#
# Resampling works as ever: items are drawn with their weights. Intervals of single areas come from `evaluate`,
# statements about differences from `compare`.

# %%
result = ap.evaluate(soft, estimator="continuous", interval="bootstrap", n_resamples=N_RESAMPLES, keep_replicates=True)
ax = result.aucpr.plot.forest()

# %%
difference = ap.compare(result, baseline="permuted").sel(model=["good", "bad"])
low, high = difference["simultaneous_interval"].transpose("ci_bound", ...).values
pd.DataFrame({"difference": difference["difference"], "from": low, "to": high}, ["good", "bad"]).round(3)

# %% [markdown]
# ## Figure 5: graded relevance
#
# The paper ranks six classifiers of query 29 of Kekäläinen & Järvelin (2002) with and without the weights of the
# documents; those data were given to the authors and are not public. The same can be asked of TREC 2019 Deep Learning
# runs, whose judgments have grades 0 to 3: relevant from grade 2 on, or weighted by grade / 3. The cell reads the
# folder named by `AUCPR_TREC_DL_2019` (see [05](05-trec-leaderboard.ipynb)), which may not travel with this notebook.

# %%
six = ["idst_bert_p1", "p_exp_rm3_bert", "TUW19-p3-f", "ms_duet_passage", "bm25tuned_rm3_p", "bm25base_p"]
place = os.environ.get("AUCPR_TREC_DL_2019")
if place:
    judged = pd.read_csv(f"{place}/qrels.dl19-passage.txt", sep=" ", names=["topic", "_", "item", "grade"])
    judged = judged.set_index(["topic", "item"])
    for name in six:
        columns = ["topic", "_", "item", "rank", name, "tag"]
        run = pd.read_csv(f"{place}/runs/official/{name}.txt.xz", sep=r"\s+", names=columns)
        judged = judged.join(run.set_index(["topic", "item"])[name])
    orders = {}
    for topic, items in judged.groupby("topic"):
        part, score = items["grade"].to_numpy() / 3, items[six].to_numpy().T  # judged passages; not retrieved: last
        hard = ap.estimate(score, (items["grade"] >= 2).to_numpy(), "continuous", missing="last")
        soft_area = ap.estimate(
            score, None, "continuous", positive_weight=part, negative_weight=1 - part, missing="last"
        )
        orders[topic] = pd.DataFrame({"unweighted": hard, "weighted": soft_area}, six)
    moved = sum(not areas.rank()["unweighted"].equals(areas.rank()["weighted"]) for areas in orders.values())
    print(f"weights change the order of the six in {moved} of {len(orders)} topics; the first topic:")
    print(orders[min(orders)].round(3))
else:
    print("AUCPR_TREC_DL_2019 is not set")

# %% [markdown]
# ## Figures 6 to 8: a threshold in measurements
#
# A microarray measures intensities; calling the strong ones positive needs a threshold, which nobody knows exactly.
# The paper compares 11 teams on 66 such arrays, with probes above mean + 4 standard deviations as positives, or with
# logistic weights of slope 1 around that threshold; then it moves the threshold to mean + 1 standard deviation. Of the
# areas at the two thresholds, the Pearson correlation is 0.454 unweighted and 0.917 weighted, Spearman's 0.447 and
# 0.967.
#
# We do the same with the 442 patients of scikit-learn's diabetes data: the measurement is the progression of the
# disease in standard deviations, 11 regressors take the place of teams, and 20 random halves that of arrays (each
# regressor learns from the other half). The thresholds are 1 and 2, because 4 would leave no positives.

# %%
features, progression = load_diabetes(return_X_y=True)
progression = (progression - progression.mean()) / progression.std()
regressors = {
    "linear": LinearRegression(),
    "ridge": Ridge(),
    "lasso": Lasso(0.02),
    **{f"{k} neighbours": KNeighborsRegressor(k) for k in (3, 15, 50)},
    **{f"tree, depth {depth}": DecisionTreeRegressor(max_depth=depth, random_state=0) for depth in (2, 5, 20)},
    "forest": RandomForestRegressor(20, random_state=0),
    "support vectors": SVR(),
}
measured, predicted = [], []
for split in range(3 if SMALL else 20):
    train, test = np.split(np.random.default_rng(split).permutation(progression.size), 2)
    fits = (model.fit(features[train], progression[train]) for model in regressors.values())
    predicted.append([model.predict(features[test]) for model in fits])
    measured.append(progression[test])
measured, predicted = np.array(measured)[:, None], np.array(predicted)


def soft_weights(threshold):
    """Return logistic weights, 1/2 at the threshold."""
    share = expit(measured - threshold)
    return {"positive_weight": share, "negative_weight": 1 - share}


areas = {
    (kind, threshold): ap.estimate(predicted, label, "continuous", **weights)
    for threshold in (1, 2)
    for kind, label, weights in (
        ("unweighted", measured > threshold, {}),
        ("weighted", None, soft_weights(threshold)),
    )
}
means = pd.DataFrame({f"{kind}, {threshold} sd": area.mean(axis=0) for (kind, threshold), area in areas.items()})
means = means.set_axis(list(regressors))
pd.concat({"mean area": means.round(3), "rank": means.rank(ascending=False).astype(int)}, axis=1)

# %% [markdown]
# **In the manner of their Figure 6:** mean areas and ranks, at both thresholds.
#
# **In the manner of their Figure 7,** for one half, two regressors and the threshold at 2: predictions against
# measurements (a), the weights (b), and the curves without and with them (c). Only a few patients are above 2.

# %%
two, at = {"forest": BLUE, "linear": ORANGE}, 2
fig, axes = plt.subplots(1, 4, figsize=(9.2, 2.3), layout="constrained")
labels = {"unweighted": ((measured[0, 0] > at).astype(int), {})}
share = expit(measured[0, 0] - at)
labels["weighted"] = (None, {"positive_weight": share, "negative_weight": 1 - share})
axes[1].hist(measured[0, 0], 25, color=PALE)
axes[1].axvline(at, color=ORANGE)
axes[1].set(xlabel="measured", ylabel="items", title="(b)")
scale = axes[1].twinx()
scale.plot(np.sort(measured[0, 0]), np.sort(share), color=BLUE)
scale.set(ylim=(0, 1), ylabel="weight")
for name, colour in two.items():
    score = predicted[0, list(regressors).index(name)]
    axes[0].plot(score, measured[0, 0], ".", color=colour, markersize=2, label=name)
    for ax, (label, weights) in zip(axes[2:], labels.values(), strict=True):
        ax.plot(grid, ap.curve(score, label, grid=grid, **weights), color=colour)
axes[0].set(xlabel="predicted", ylabel="measured", title="(a)")
axes[0].legend(frameon=False, markerscale=3, fontsize=7)
for ax, name in zip(axes[2:], labels, strict=True):
    ax.set(xlabel="recall", ylabel="precision", title=f"(c) {name}", ylim=(0, 1.03))

# %% [markdown]
# **In the manner of their Figure 8:** every dot is a regressor on a half; its area at one threshold against that at the
# other.

# %%
fig, axes = plt.subplots(1, 2, figsize=(5.4, 2.6), layout="constrained")
table = {}
for ax, kind, panel in zip(axes, ("unweighted", "weighted"), "ab", strict=True):
    x, y = (areas[kind, threshold].ravel() for threshold in (1, 2))
    ax.plot(x, y, ".", color=BLUE, markersize=3)
    ax.set(xlabel="area, mean + 1 sd", ylabel="area, mean + 2 sd", title=f"({panel}) {kind}")
    table[kind] = {"Pearson": np.corrcoef(x, y)[0, 1], "Spearman": stats.spearmanr(x, y).statistic}
paper = pd.DataFrame({"Pearson": (0.454, 0.917), "Spearman": (0.447, 0.967)}, list(table))
pd.concat({"paper, other data": paper, "ours": pd.DataFrame(table).T.round(3)}, axis=1)

# %% [markdown]
# The paper's conclusion holds here too: the order of areas with hard labels depends much on the threshold, that of
# areas with weights hardly.
#
# ## In short
#
# * Do not join points of a precision-recall curve by straight lines; `continuous` follows the hyperbola, with any
#   weights.
# * Soft labels go in as `positive_weight` and `negative_weight`, sample weights as `weight`; every estimator but
#   `discrete` takes them.
# * Cutting probabilities at a threshold throws away what may tell classifiers apart.
# * Compare with what is attainable: `ap.reference_levels`, `ap.normalised`.
