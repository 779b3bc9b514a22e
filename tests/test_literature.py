"""Numbers printed in papers, reproduced; and estimates that approach the true areas of simulated data."""

import numpy as np
import pytest
from reference_cases import fact, of_blocks
from scipy import stats

import aucpr_dask as ap
from aucpr_dask.schema.estimators import ESTIMATORS

# Davis & Goadrich


def test_davis_goadrich_table_1_as_areas_of_strips() -> None:
    table = fact("dg-table1")["rows"]
    assert [row["tp"] for row in table] == [5, 6, 7, 8, 9, 10]
    score, label = of_blocks([[5, 5], [5, 25], [10, 1970]])
    printed = [0.500, 0.375, 0.318, 0.286, 0.265, 0.250]
    for left, right, left_printed, right_printed in zip(table, table[1:], printed, printed[1:], strict=False):
        strip = (left["recall"], right["recall"])
        # Discrete joins the table's rows by straight lines.
        area = ap.estimate(score, label, "discrete", recall_range=strip)
        np.testing.assert_allclose(area / 0.05, (left["precision"] + right["precision"]) / 2, rtol=0, atol=1e-13)
        np.testing.assert_allclose(area / 0.05, (left_printed + right_printed) / 2, rtol=0, atol=5e-4)
        for row, rounded in ((left, left_printed), (right, right_printed)):
            reached = (row["recall"] - 1e-7, row["recall"] + 1e-7)
            height = ap.estimate(score, label, "continuous", recall_range=reached) / 2e-7
            if 5 < row["tp"] < 10:
                np.testing.assert_allclose(height, row["precision"], rtol=1e-6)
                np.testing.assert_allclose(height, rounded, rtol=0, atol=5e-4)


def test_davis_goadrich_single_point() -> None:
    known = fact("dg-single-point")
    score, label = of_blocks(known["groups_tp_fp"])
    assert (label.sum(), (1 - label).sum()) == (433, 56_164)
    ours = {
        "prroc_auc_integral": "continuous",
        "prroc_auc_davis_goadrich": "discrete",
        "raucpr_interpolate_max": "interpolated_max",
        "raucpr_uppertrap": "upper_trapezoid",
        "raucpr_ap": "average_precision",
    }
    areas = dict(zip(ours, ap.estimate(score, label, list(ours.values())), strict=True))
    assert areas.keys() == known["computed"].keys()
    for name, expected in known["computed"].items():
        np.testing.assert_allclose(areas[name], expected, rtol=0, atol=1e-12)
    # The paper prints 0.031 for the right interpolation and 0.50 for straight lines; recall 0.02 is 8.66 positives.
    assert abs(areas["prroc_auc_davis_goadrich"] - known["printed"]["interpolated"]) < 1e-3
    assert abs(areas["raucpr_uppertrap"] - known["printed"]["linear"]) < 0.015
    whole = {"positive_weight": [8.66, 433 - 8.66], "negative_weight": [0, 56_164]}
    area = ap.estimate([2.0, 1.0], None, "continuous", **whole)
    np.testing.assert_allclose(area, known["computed_fractional_tp_8_66"]["prroc_auc_integral"], rtol=0, atol=1e-12)


def test_davis_goadrich_figure_7_orders_the_curves_in_opposite_ways() -> None:
    first, second = (fact(f"dg-fig7-curve{curve}") for curve in (1, 2))
    names = ["roc_area", "continuous", "discrete"]
    areas = []
    for known in (first, second):
        areas.append(ap.estimate(*of_blocks(known["groups_tp_fp"]), names))
        keys = ("auc_roc", "prroc_auc_integral", "prroc_auc_davis_goadrich")
        np.testing.assert_allclose(areas[-1], [known["computed"][key] for key in keys], rtol=0, atol=1e-12)
    # Only the second curve's points follow from the paper; of the first, the ROC area does.
    np.testing.assert_allclose(areas[1][:2], [second["printed"]["auc_roc"], second["printed"]["auc_pr"]], atol=5e-4)
    np.testing.assert_allclose(areas[0][0], first["printed"]["auc_roc"], atol=6e-4)
    assert areas[0][0] < areas[1][0]
    assert areas[0][1] > 10 * areas[1][1]


# Precrec and closed forms


@pytest.mark.parametrize("name", ["precrec-test-m1", "precrec-test-m2", "precrec-test-prc-00"])
def test_precrec_states_these_curves(name: str) -> None:
    known = fact(name)
    score, label = np.array(known["scores"], dtype=float), np.array(known["labels"])
    recall, precision = np.array(known["recall"]), np.array(known["precision"])
    heights = ap.curve(score, label, grid=np.unique(recall)).values
    best = [precision[recall == r].max() for r in np.unique(recall)]  # the curve's value where it jumps
    np.testing.assert_allclose(heights, best, rtol=0, atol=1e-6)
    if "auc_x_bins_100" in known:
        area = ap.estimate(score, label, "continuous")
        assert abs(area - known["auc_x_bins_100"]) < known["auc_tolerance"]


@pytest.mark.parametrize("prevalence", [0.5, 0.1, 0.01])
def test_smallest_attainable_area(prevalence: float) -> None:
    n = round(1000 * prevalence)
    expected = 1 + (1 - prevalence) * np.log1p(-prevalence) / prevalence
    printed = {row["pi"]: row["value"] for row in fact("minimum-hard-labels")["rows"]}
    np.testing.assert_allclose(printed.get(prevalence, expected), expected, rtol=1e-13)
    worst = of_blocks([[0, 1000 - n], [n, 0]])
    np.testing.assert_allclose(ap.estimate(*worst, "continuous"), expected, rtol=1e-12)
    untied = -np.arange(1000.0), np.arange(1000) >= 1000 - n
    np.testing.assert_allclose(ap.estimate(*untied, "continuous"), expected, rtol=1e-12)
    average = np.mean(np.arange(1, n + 1) / (np.arange(1, n + 1) + 1000 - n))
    np.testing.assert_allclose(ap.estimate(*untied), average, rtol=1e-12)


def test_areas_of_perfect_and_of_tied_rankings() -> None:
    perfect = -np.arange(20.0), np.arange(20) < 5
    mean, median = ap.estimate(*perfect, ["interpolated_mean", "interpolated_median"])
    np.testing.assert_allclose([mean, median], [0.9308, 0.9183], rtol=0, atol=5e-5)
    tied = np.zeros(10), np.arange(10) < 1
    names = [name for name in ESTIMATORS if name.startswith(("inter", "cont", "disc", "aver"))]
    np.testing.assert_allclose(ap.estimate(*tied, names), 0.1, rtol=1e-14)
    np.testing.assert_allclose(ap.estimate(*tied, ["lower_trapezoid", "upper_trapezoid"]), 0.55, rtol=1e-14)


def test_the_printed_binormal_formula_has_the_wrong_sign() -> None:
    # Normal scores at the quantiles of the distributions, whose means and deviations are scaled to be exact.
    quantiles = stats.norm.ppf((np.arange(2000) + 0.5) / 2000)
    standard = quantiles / quantiles.std(ddof=1)
    label = np.repeat([1, 0], 2000)
    area, turned = (
        ap.estimate(np.concatenate([shift + standard, standard]), label, "binormal", prevalence=0.1)
        for shift in (1, -1)
    )
    np.testing.assert_allclose(area, 0.2928356435, rtol=0, atol=1e-9)
    np.testing.assert_allclose(turned, 0.0607, rtol=0, atol=5e-5)


# Keilwagen, Grosse & Grau


def test_keilwagen_table_2() -> None:
    table = fact("keilwagen-table2")
    score = np.where(np.array(table["above_threshold"]) == 1, 2.0, 1.0)
    names = ["true_positives", "false_positives", "false_negatives", "true_negatives"]
    hard = ap.confusion(score, np.array(table["hard_label"]), [1.5])
    pairs = {"positive_weight": np.array(table["w_fg"]), "negative_weight": np.array(table["w_bg"])}
    soft = ap.confusion(score, None, [1.5], **pairs)
    for matrix, expected in ((hard, table["unweighted"]), (soft, table["weighted"])):
        ours = [matrix[name].item() for name in names]
        np.testing.assert_allclose(ours, [expected[key] for key in ("TP", "FP", "FN", "TN")], rtol=0, atol=1e-14)
    # The same matrix as areas: two points, (2.04, 0.96) and (2.87, 3.13).
    first, last = np.array([2.04, 0.96]), np.array([2.87, 3.13])
    steps = [(first, first[0] / first.sum()), (last - first, last[0] / last.sum())]
    average = sum(gained[0] / last[0] * precision for gained, precision in steps)
    np.testing.assert_allclose(ap.estimate(score, None, **pairs), average, rtol=1e-14)


def test_keilwagen_figure_3() -> None:
    """Ten positives and a hundred negatives in ten bins of score: the two interpolations nearly agree.

    As in the paper, the mean of the positives is normal around 1.64. It prints differences of up to 0.03, and 95 %
    below about 0.01, of 10,000 simulations; how its bins are made is not known.
    """
    random = np.random.default_rng(20140320)
    label = np.repeat([1, 0], [10, 100])
    shift = random.normal(stats.norm.ppf(1 - 0.5 / 10), 1, size=(2000, 1))
    score = random.normal(size=(2000, 110)) + shift * label
    low, high = score.min(axis=1, keepdims=True), score.max(axis=1, keepdims=True)
    binned = np.minimum(np.floor((score - low) / (high - low) * 10), 9)
    discrete, continuous = ap.estimate(binned, label, ["discrete", "continuous"]).T
    difference = np.abs(discrete - continuous)
    assert 0.02 < difference.max() <= 0.03
    assert round(float(np.quantile(difference, 0.95)), 2) == 0.01


def weighted_areas(score: np.ndarray, weight: np.ndarray) -> list[float]:
    pairs = {"positive_weight": weight, "negative_weight": 1 - weight}
    return [float(x) for x in ap.estimate(score, None, ["roc_area", "continuous"], **pairs)]


def test_keilwagen_figure_4() -> None:
    """Three classifiers that are equal without weights, and that the weights of the items distinguish.

    The paper gives the construction: 10,000 items have foreground weights from a mixture of beta distributions, and
    those above 1/2 are positive; within each class the same scores are in the order of the weights (good), in any order
    (permuted), or in the reverse order (bad). The parameters are not printed; those here, and the normal scores, were
    fitted to the eight areas that the paper prints.
    """

    def share(count: int) -> np.ndarray:
        return (np.arange(count) + 0.5) / count

    high = 1020
    weight = np.concatenate(
        [stats.beta.ppf(share(high), 12.06, 2.74), stats.beta.ppf(share(10_000 - high), 1.63, 9.12)]
    )
    foreground, background = np.sort(weight[weight > 0.5]), np.sort(weight[weight <= 0.5])
    n, m = foreground.size, background.size
    assert 8 < m / n < 10
    score = np.concatenate([1.65 + 0.99 * stats.norm.ppf(share(n)), stats.norm.ppf(share(m))])
    label = np.repeat([1, 0], [n, m])
    random = np.random.default_rng(0)
    weights = {
        "good": np.concatenate([foreground, background]),
        "permuted": np.concatenate([random.permutation(foreground), random.permutation(background)]),
        "bad": np.concatenate([foreground[::-1], background[::-1]]),
    }
    unweighted = ap.estimate(score, label, ["roc_area", "continuous"])
    np.testing.assert_allclose(unweighted, [0.88, 0.55], rtol=0, atol=0.005)
    printed = {"good": (0.79, 0.55), "permuted": (0.64, 0.39), "bad": (0.49, 0.27)}
    areas = {name: weighted_areas(score, weight) for name, weight in weights.items()}
    for name, expected in printed.items():
        np.testing.assert_allclose(areas[name], expected, rtol=0, atol=0.008, err_msg=name)
    assert areas["good"] > areas["permuted"] > areas["bad"]
    # Whatever the distributions: no order of the weights within the classes does better, or worse, than these.
    for seed in range(5):
        shuffle = np.random.default_rng(seed)
        other = np.concatenate([shuffle.permutation(foreground), shuffle.permutation(background)])
        for some, best, worst in zip(weighted_areas(score, other), areas["good"], areas["bad"], strict=True):
            assert worst < some < best


# True areas

TRAPEZOIDS = ["average_precision", "lower_trapezoid", "upper_trapezoid"]
CONSISTENT = [*TRAPEZOIDS, "interpolated_max", "interpolated_convex", "continuous", "discrete"]


SCENARIOS = [ap.simulate.binormal(), ap.simulate.bibeta(), ap.simulate.offset_uniform()]


@pytest.mark.slow
@pytest.mark.sparse
@pytest.mark.parametrize("truth", SCENARIOS, ids=repr)
@pytest.mark.parametrize("prevalence", [0.01, 0.1, 0.5])
def test_estimates_approach_the_true_area(truth: ap.simulate.Scenario, prevalence: float) -> None:
    names = [*CONSISTENT, "binormal"] if truth == SCENARIOS[0] else CONSISTENT
    errors = []
    for n_items in (2_000, 200_000):
        sample = truth.sample(n_items, prevalence, n_simulations=8, seed=1)
        estimates = ap.evaluate(sample, names, interval=[])["estimate"].values
        errors.append(np.abs(estimates.mean(axis=0) - truth.area(prevalence)))
        spread = estimates.std(axis=0, ddof=1) / np.sqrt(8)
        # The interpolations that choose the best point of a recall, or of the hull, are biased upward.
        assert (errors[-1] < 5 * spread + 5 / (n_items * prevalence)).all(), (names, errors[-1], spread)
    assert (errors[1] < 0.01).all()


@pytest.mark.slow
def test_another_prevalence_is_that_of_another_sample() -> None:
    truth = ap.simulate.binormal()
    sample = truth.sample(200_000, 0.5, n_simulations=4, seed=2)
    for prevalence in (0.01, 0.1):
        estimates = ap.evaluate(sample, [*CONSISTENT, "binormal"], interval=[], prevalence=prevalence)["estimate"]
        np.testing.assert_allclose(estimates.mean("model"), truth.area(prevalence), rtol=0.05)


def test_parts_of_a_curve_approach_the_true_parts() -> None:
    truth = ap.simulate.binormal()
    sample = truth.sample(200_000, 0.1, n_simulations=4, seed=3)
    recall = (np.arange(2000) + 0.5) / 2000
    for low, high in ((0.0, 0.2), (0.4, 0.6), (0.9, 1.0)):
        expected = truth.curve(low + (high - low) * recall, 0.1).mean() * (high - low)
        part = ap.evaluate(sample, [*CONSISTENT, "binormal"], interval=[], recall_range=(low, high))["estimate"]
        np.testing.assert_allclose(part.mean("model"), expected, rtol=0.04)
    at = ap.evaluate(sample, ["precision_at_recall(0.5)"], interval=[])["estimate"].mean().values
    np.testing.assert_allclose(at, float(truth.curve(0.5, 0.1)), rtol=0.03)
