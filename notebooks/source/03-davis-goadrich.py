# %% [markdown]
# # ROC and precision-recall: what Davis & Goadrich showed
#
# Jesse Davis and Mark Goadrich, [*The relationship between precision-recall and ROC
# curves*](https://doi.org/10.1145/1143844.1143874) (2006), in numbers and pictures:
#
# 1. A ROC curve and a precision-recall curve are the same points, seen differently.
# 2. One curve dominates another in one space if and only if it does in the other.
# 3. Between points of precision-recall space, straight lines are wrong.
# 4. The areas may still disagree about which model is better.
# 5. The best curve that can be reached by mixing thresholds is the convex hull of ROC space, if the thresholds are
#    chosen on other data than the curve is drawn from.
#
# Numbers of the paper stand next to ours. Its Figures 3 and 4 are sketches for a proof. Figure 1 compares two
# algorithms on a cancer detection data set that did not appear with the paper; two classifiers of our own take their
# place.

# %%
import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import aucpr_dask as ap
from aucpr_dask import demo

SMALL = os.environ.get("AUCPR_NOTEBOOK_SIZE") == "small"
N_SIMULATIONS = 40 if SMALL else 1000
BLUE, VERMILLION, GREY = "#0072B2", "#D55E00", "#767676"


def ranking(*blocks):
    """Return scores and labels of blocks of tied items, best first; each is (positives, negatives)."""
    label = np.concatenate([np.repeat([1, 0], block) for block in blocks])
    score = np.repeat(-np.arange(len(blocks), dtype=float), [sum(block) for block in blocks])
    return score, label


def draw_both(curves, figure_width=6.5):
    """Draw curves, by name, in ROC and in precision-recall space; return the axes."""
    _, axes = plt.subplots(1, 2, figsize=(figure_width, 3.0), layout="constrained")
    grid = np.linspace(0, 1, 401)
    for (name, (score, label)), style in zip(curves.items(), ("-", "--", ":"), strict=False):
        colour = {"-": BLUE, "--": VERMILLION, ":": GREY}[style]
        axes[0].plot(grid, ap.curve(score, label, "roc", grid=grid), style, color=colour, label=name)
        axes[1].plot(grid, ap.curve(score, label, grid=grid), style, color=colour, label=name)
    axes[0].set(xlabel="false positive rate", ylabel="recall (true positive rate)", title="ROC")
    axes[1].set(xlabel="recall", ylabel="precision", title="precision-recall")
    for ax in axes:
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.04))
    axes[0].legend(frameon=False, loc="lower right")
    return axes


# %% [markdown]
# ## One set of points, two views
#
# Every threshold gives true positives TP and false positives FP. With n positives and m negatives, ROC space shows (FP
# / m, TP / n), precision-recall space (TP / n, TP / (TP + FP)). Knowing n and m, one goes from either to the other and
# back.
#
# Half of 20 positives found, with 30 of 2000 negatives:

# %%
recall, precision = ap.to_precision_recall(30 / 2000, 10 / 20, n_positive=20, n_negative=2000)
print("precision-recall:", recall, precision)
print("back to ROC:     ", *ap.to_roc(recall, precision, n_positive=20, n_negative=2000)[::-1])

# %% [markdown]
# ## Dominance
#
# A curve dominates another if it is nowhere below it. At one recall, fewer false positives mean a lower false positive
# rate and a higher precision alike, so dominance in one space is dominance in the other (their Theorem 3.2). Here are
# all pairs of 25 real classifiers, asked in both spaces.

# %%
scores = demo.build_scores(Path(tempfile.mkdtemp()) / "scores.zarr")
stamps = scores["37_Stamps"].to_dataset().isel(repeat=0).compute()

points = ap.curve(stamps.score, stamps.label)
others = points.rename(model="other")
verdict = {space: ap.dominates(points, others, space) for space in ("precision_recall", "roc")}
print("the same answer in both spaces:", bool((verdict["precision_recall"] == verdict["roc"]).all()))

pair = np.triu_indices(points.sizes["model"], k=1)
pd.Series(verdict["roc"].values[pair]).value_counts().rename("pairs").to_frame()

# %% [markdown]
# Most pairs of curves cross somewhere, and neither dominates. They cross in both spaces. In this pair, the first is
# better at the top of the ranking, the second further down; ROC space has all of that in its upper left corner.
#
# **In the manner of their Figure 1:** two classifiers in both spaces.

# %%
crossing = {name: (stamps.score.sel(model=name), stamps.label) for name in ("rf_100", "lda")}
axes = draw_both(crossing)

# %% [markdown]
# ## Straight lines are wrong
#
# Point A has 5 true and 5 false positives, B has 10 and 30, of 20 positives and 2000 negatives. Between them lie
# thresholds that nobody tried. If each further true positive comes with 25 / 5 = 5 false ones, ROC space has a straight
# line from A to B, and precision-recall space has not. **Their Table 1,** with the straight line added:

# %%
score, label = ranking((5, 5), (5, 25), (10, 1970))
true_positives = np.arange(5, 11)
table = pd.DataFrame({"TP": true_positives, "FP": 5 + 5 * (true_positives - 5), "recall": true_positives / 20})
table["precision"] = ap.curve(score, label, grid=table["recall"].values)
table["straight line"] = np.interp(table["recall"], [0.25, 0.5], [0.5, 0.25])
table.round(3)

# %%
grid = np.linspace(0.25, 0.5, 101)
figure, ax = plt.subplots(figsize=(3.6, 2.8), layout="constrained")
ax.plot([0.25, 0.5], [0.5, 0.25], "--", color=VERMILLION, label="straight line")
ax.plot(grid, ap.curve(score, label, grid=grid), color=BLUE, label="what thresholds give")
ax.plot(table["recall"], table["precision"], "o", color=BLUE)
ax.annotate("A", (0.25, 0.5), (4, 4), textcoords="offset points")
ax.annotate("B", (0.5, 0.25), (4, 4), textcoords="offset points")
ax.set(xlabel="recall", ylabel="precision", xlim=(0.23, 0.53), ylim=(0.2, 0.54))
_ = ax.legend(frameon=False)

# %% [markdown]
# Here it costs little. It costs most where points lie far apart. **Their Figure 6:** of 433 positives and 56,164
# negatives, a recall of 0.02 is reached without a false positive, and nothing else is known. That is 8.66 positives;
# a ranking can have 9 at the top, and all other items tied.

# %%
score, label = ranking((9, 0), (424, 56_164))
grid = np.linspace(0, 1, 401)
figure, ax = plt.subplots(figsize=(3.6, 2.8), layout="constrained")
ax.plot([0, 9 / 433, 1], [1, 1, 433 / (433 + 56_164)], "--", color=VERMILLION, label="straight line")
ax.plot(grid, ap.curve(score, label, grid=grid), color=BLUE, label="what thresholds give")
ax.set(xlabel="recall", ylabel="precision", xlim=(-0.02, 1.02), ylim=(-0.02, 1.04))
_ = ax.legend(frameon=False)

# %%
discrete, continuous, straight = ap.estimate(score, label, estimator=["discrete", "continuous", "upper_trapezoid"])
shares = {"positive_weight": np.array([8.66, 433 - 8.66]), "negative_weight": np.array([0, 56_164])}
areas = {
    "interpolated at whole positives, 9 of them first": (0.031, discrete),
    "interpolated continuously, 9 of them first": (0.031, continuous),
    "interpolated continuously, 8.66 of them first": (0.031, ap.estimate([2.0, 1.0], None, "continuous", **shares)),
    "straight lines through the point": (0.50, straight),
    "one straight line from (0, 1) to the end": (0.50, (1 + 433 / (433 + 56_164)) / 2),
}
pd.DataFrame(areas, ["paper", "ours"]).T.astype(float).round(4)

# %% [markdown]
# Straight lines make a half of what is next to nothing. That is `auc(recall, precision)`, as many a script has it. The
# paper's 0.50 is nearer to one line over everything than to two through the point, and its 0.031 is 0.030 at whole
# positives and 0.029 or less in between. Curves with a point at every positive leave little to interpolate; tied
# scores, few thresholds or rounded probabilities leave much.
#
# ## The areas disagree
#
# Two rankings of 20 positives and 2000 negatives. The first has half of the positives right at the top, and the others
# among the next 1500 negatives. The second has no good top, but all positives among the first 520 items. **Their
# Figure 7,** whose points the paper does not print:

# %%
curves = {"I": ranking((10, 0), (10, 1500), (0, 500)), "II": ranking((20, 500), (0, 1500))}
names = ["roc_area", "continuous", "discrete", "average_precision"]
areas = pd.DataFrame({name: ap.estimate(*curve, estimator=names) for name, curve in curves.items()}, names).T
axes = draw_both(curves)
printed = pd.DataFrame({"ROC area": [0.813, 0.875], "precision-recall area": [0.514, 0.038]}, areas.index)
pd.concat({"paper": printed, "ours": areas.round(4)}, axis=1)

# %% [markdown]
# By ROC area the second is better; by precision-recall area the first, by far. Our points are a reconstruction: of the
# second curve all numbers agree; of the first the ROC area does, and the continuous area is 0.006 larger than printed.
#
# Neither area is wrong: they answer different questions. ROC area is the chance that a random positive ranks above a
# random negative. A positive that moves up past 100 negatives adds the same to it, deep down or at the top. To
# precision the latter matters far more: it is a share of the items above a threshold, and at the top these are few.
# That is where somebody looks who reads a list or follows up alarms.
#
# The curves of such a pair must cross, because a dominating curve has the larger area in both spaces. On the real
# classifiers:

# %%
areas = ap.estimate(stamps.score, stamps.label, estimator=["roc_area", "continuous"])
by_roc, by_area = areas.transpose("estimator", "model").values
first, second = pair
disagree = (by_roc[first] - by_roc[second]) * (by_area[first] - by_area[second]) < 0
cross = verdict["roc"].values[pair] == "neither"
print(f"{disagree.sum()} of {disagree.size} pairs are ordered differently by the two areas")
print(f"in {(disagree & cross).sum()} of them the curves cross")

# %% [markdown]
# ## What prevalence does
#
# ROC curves do not know how rare positives are; precision does. One model, scores N(1, 1) against N(0, 1), at four
# prevalences:

# %%
model = ap.simulate.binormal(mu=1)
false_positive_rate = np.linspace(0, 1, 100_001)
roc_area = np.trapezoid(model.roc(false_positive_rate), false_positive_rate)
shares = [0.5, 0.1, 0.01, 0.001]
areas = {"ROC area": roc_area, "precision-recall area": [model.area(share) for share in shares]}
pd.DataFrame(areas, pd.Index(shares, name="prevalence")).round(3)

# %% [markdown]
# So areas under precision-recall curves of data sets with different prevalences cannot be compared as they are.
# `ap.estimate(..., prevalence=0.1)` brings them to one.
#
# ## The achievable curve
#
# Between two thresholds one may toss a coin, and so reach every point on the straight line between them in ROC space:
# the convex hull of a ROC curve is achievable. Moved to precision-recall space, hull and all, it is the achievable
# precision-recall curve. **In the manner of their Figure 5:**

# %%
ax = stamps.aucpr.plot.achievable("rf_100")

# %%
names = ["continuous", "interpolated_convex"]
pd.Series(ap.estimate(*crossing["rf_100"], estimator=names).values, names, name="area").round(3).to_frame()

# %% [markdown]
# The hull never has the smaller area. But to draw it is to choose thresholds, and these were chosen on the data that
# then show how good they are. The paper calls that incorrect (section 3) and asks for a *tuning set*: find the
# thresholds of the hull there, and draw the curve of the test set at these thresholds only.
#
# A curve at a few thresholds is that of a ranking whose items are tied between them:


# %%
def at_thresholds_of(tuning_score, tuning_label, score):
    """Return scores that tell items apart only by the thresholds of the tuning set's hull."""
    thresholds = ap.curve(tuning_score, tuning_label, "achievable")["threshold"].values
    return np.searchsorted(np.sort(thresholds), score, side="right").astype(float)


score, label = stamps.score.sel(model="rf_100").values, stamps.label.values
random = np.random.default_rng(6)
is_test = np.zeros(label.size, dtype=bool)
for items in (np.flatnonzero(label), np.flatnonzero(label == 0)):
    is_test[random.permutation(items)[: items.size // 2]] = True
test, tuning = (score[is_test], label[is_test]), (score[~is_test], label[~is_test])
tuned = at_thresholds_of(*tuning, test[0]), test[1]

figure, ax = plt.subplots(figsize=(4.2, 3.2), layout="constrained")
grid = np.linspace(0, 1, 401)
ax.plot(grid, ap.curve(*test, grid=grid), color=GREY, linewidth=0.8, label="all thresholds")
ax.plot(grid, ap.curve(*test, "achievable", grid=grid), "--", color=VERMILLION, label="hull of the test set")
ax.plot(grid, ap.curve(*tuned, grid=grid), color=BLUE, label="thresholds of the tuning set's hull")
steps = ap.curve(*tuned).isel(point=slice(1, None))
ax.plot(steps["recall"], steps["precision"], "o", color=BLUE, markersize=3)
ax.set(xlabel="recall", ylabel="precision, test set", xlim=(-0.02, 1.02), ylim=(-0.02, 1.04))
_ = ax.legend(frameon=False, loc="lower left")

# %% [markdown]
# (15 positives in either half.) The curve at the tuned thresholds need not be a hull, as the paper says; here it falls
# below the curve of all thresholds in some places.
#
# What this does to areas can be seen where the truth is known: N(1, 1) against N(0, 1), with ten items for each
# positive. The true ROC curve is its own hull, so no choice of thresholds has a larger area than the true curve.

# %%
truth, rows = model.area(0.1), {}
for n_positive in (25, 100, 400):
    sample = model.sample(10 * n_positive, 0.1, n_simulations=2 * N_SIMULATIONS, seed=6).compute()
    label, (tests, tunings) = sample.label.values, np.split(sample.score.values, 2)
    tuned = [at_thresholds_of(tuning, label, test) for tuning, test in zip(tunings, tests, strict=True)]
    areas = {
        "hull of the test set": ap.estimate(tests, label, "interpolated_convex"),
        "all thresholds": ap.estimate(tests, label, "continuous"),
        "thresholds of the tuning set's hull": ap.estimate(np.array(tuned), label, "continuous"),
    }
    rows[n_positive] = {name: area.mean() / truth - 1 for name, area in areas.items()}
pd.DataFrame(rows).T.rename_axis("positives").map("{:+.1%}".format)

# %% [markdown]
# The table has mean deviations from the true area over 1,000 simulations. The hull of the test set overestimates it,
# the more the fewer positives there are: its vertices are the lucky points of this very sample. Thresholds from a
# tuning set of the same size give a little less than the true area instead, because they are few, and not exactly the
# best. So take the hull of a test set as a picture of what is possible, never as an estimate.
# [02](02-bias-coverage-width.ipynb) shows its bias in other scenarios.
