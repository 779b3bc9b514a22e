"""Every further estimator against the numbers that independent, published implementations print."""

from typing import Any

import numpy as np
import pytest
from reference_cases import data, numbers, oracle, oracle_cases

import aucpr_dask as ap

TOLERANCE = 1e-12
RAUCPR = {
    "interpolate_max": "interpolated_max",
    "interpolate_mean": "interpolated_mean",
    "interpolate_median": "interpolated_median",
    "interpolate_convex": "interpolated_convex",
}
# The constant ranking has no spread, infinite scores have no mean; on huge scores raucpr's integrator overflows.
# Its answer is 1 for all of them, without a warning.
RAUCPR_GIVES_UP = {"allequal-N10-n3", "extreme-mixed", "extreme-huge", "extreme-inf"}


def weights_of(case: Any) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the scores of a case, and its labels and weights as arguments."""
    if "soft_dataset" in case:
        soft = oracle("soft_datasets")[case["soft_dataset"]]
        positive, negative = (np.array(soft[name], dtype=float) for name in ("w_fg", "w_bg"))
        score = numbers(soft["scores"])
        return score, {"label": None, "positive_weight": positive, "negative_weight": negative}
    if "weighted_dataset" in case:
        weighted = oracle("weighted_datasets")[case["weighted_dataset"]]
        score, label = data(weighted["dataset"])
        return score, {"label": label, "weight": np.array(weighted["sample_weight"], dtype=float)}
    score, label = data(case["dataset"])
    return score, {"label": label}


def assert_near(received: Any, expected: Any, tolerance: float = TOLERANCE) -> None:
    np.testing.assert_allclose(received, np.asarray(expected, dtype=float), rtol=0, atol=tolerance)


def has_scores(case: Any) -> bool:
    """Whether no score is NaN: NaN is an error here, and in each source something else."""
    return not np.isnan(data(case["dataset"])[0]).any()


RAUCPR_CASES = oracle_cases("raucpr", has_scores)
PRROC_CASES = oracle_cases("prroc_hard", has_scores)
PRECREC_CASES = oracle_cases("precrec", has_scores)
SOFT_CASES = oracle_cases("prroc_soft")
PRROC_TESTS = oracle_cases("prroc_tests")
SKLEARN_CASES = oracle_cases("sklearn", lambda case: "weighted_dataset" in case or has_scores(case))


def test_every_case_is_here() -> None:
    found = [len(x) for x in (RAUCPR_CASES, PRROC_CASES, PRECREC_CASES, SOFT_CASES, PRROC_TESTS, SKLEARN_CASES)]
    assert found == [56, 56, 56, 49, 10, 82]
    # How many numbers there are to meet: no positive is an error in raucpr, and so is a hull without negatives.
    areas = [case["estimators"][name] for case in oracle("raucpr") if has_scores(case) for name in RAUCPR]
    assert (len(areas), sum("area" in area for area in areas)) == (224, 219)
    fits = [case for case in oracle("raucpr") if "binormal_same_fit" in case.get("crosscheck_50_digits", {})]
    assert len(fits) == 42
    assert all("area" in case["estimators"]["binormal"] for case in fits)
    discrete = [
        case[part]["auc_davis_goadrich"]
        for case in oracle("prroc_hard")
        if has_scores(case)
        for part in ("pr_two_sample", "pr_label_weights")
    ]
    assert (len(discrete), sum(area is None for area in discrete)) == (112, 1)
    assert sum("soft_dataset" in case for case in oracle("prroc_soft")) == 23


@pytest.mark.smoke
@pytest.mark.parametrize("case", RAUCPR_CASES)
def test_raucpr(case: Any) -> None:
    score, label = data(case["dataset"])
    for name, area in zip(RAUCPR, ap.estimate(score, label, list(RAUCPR.values())), strict=True):
        expected = case["estimators"][name]
        if "error" in expected:
            np.testing.assert_equal(area, np.nan if case["n_pos"] == 0 else 1.0)
        else:
            assert_near(area, expected["area"])
        exact = case.get("crosscheck_50_digits", {}).get({"interpolate_convex": "convex"}.get(name, name))
        if exact is not None:
            assert_near(area, exact, 1e-14)


@pytest.mark.smoke
@pytest.mark.parametrize("case", RAUCPR_CASES)
def test_raucpr_binormal(case: Any) -> None:
    score, label = data(case["dataset"])
    area = ap.estimate(score, label, "binormal")
    expected = case["estimators"]["binormal"]
    same_fit = case.get("crosscheck_50_digits", {}).get("binormal_same_fit")
    if same_fit is not None:
        assert_near(area, same_fit, 1e-9)
        assert_near(area, expected["area"], 2e-6)
    elif case["dataset"] in RAUCPR_GIVES_UP:
        assert expected["area"] == 1.0
        assert np.isnan(area) == (case["dataset"] in ("allequal-N10-n3", "extreme-inf"))
    else:  # fewer than two items of a class
        assert "error" in expected
        assert min(case["n_pos"], case["n_neg"]) < 2
        np.testing.assert_equal(area, 1.0 if case["n_neg"] == 0 else np.nan)


@pytest.mark.smoke
@pytest.mark.parametrize("case", PRROC_CASES)
def test_prroc(case: Any) -> None:
    score, label = data(case["dataset"])
    continuous, discrete, roc = ap.estimate(score, label, ["continuous", "discrete", "roc_area"])
    for part in ("pr_two_sample", "pr_label_weights"):
        assert_near(continuous, case[part]["auc_integral"])
        if case[part]["auc_davis_goadrich"] is not None:
            assert_near(discrete, case[part]["auc_davis_goadrich"])
    assert_near(roc, case["roc"]["auc"])


@pytest.mark.smoke
@pytest.mark.parametrize("case", SOFT_CASES)
def test_prroc_with_weights(case: Any) -> None:
    score, given = weights_of(case)
    label = given.pop("label")
    continuous, roc = ap.estimate(score, label, ["continuous", "roc_area"], **given)
    assert_near(continuous, case["pr"]["auc_integral"])
    assert_near(roc, case["roc"]["auc"])
    if "crosscheck_50_digits" in case:
        assert_near(continuous, case["crosscheck_50_digits"]["continuous_interpolation"], 1e-14)
    if label is not None:
        given = {"positive_weight": given["weight"] * label, "negative_weight": given["weight"] * (1 - label)}
        soft = ap.estimate(score, None, ["continuous", "roc_area"], **given)
        np.testing.assert_array_equal(soft, [continuous, roc])


@pytest.mark.parametrize("case", [case for case in SOFT_CASES if "soft_dataset" in case.values[0]])
def test_prroc_of_the_best_and_the_worst_order(case: Any) -> None:
    _, given = weights_of(case)
    positive, negative = given["positive_weight"], given["negative_weight"]
    carried = positive + negative > 0
    positive, negative = positive[carried], negative[carried]
    ratio = positive / (positive + negative)
    weights = {"positive_weight": positive, "negative_weight": negative}
    most, least = ap.estimate(np.stack([ratio, -ratio]), None, "continuous", **weights)
    assert_near(most, case["pr_ranked_by_ratio"]["auc_integral"])
    assert_near(least, case["pr_ranked_by_minus_ratio"]["auc_integral"])
    assert least <= ap.estimate(weights_of(case)[0][carried], None, "continuous", **weights) <= most + 1e-15


@pytest.mark.parametrize("case", PRROC_TESTS)
def test_prroc_own_tests(case: Any) -> None:
    positive = np.atleast_1d(np.array(case["scores_class0"], dtype=float))
    if "weights_class0" in case:
        weight = np.array(case["weights_class0"])
        names = ["continuous", "roc_area"]
        areas = ap.estimate(positive, None, names, positive_weight=weight, negative_weight=1 - weight)
    else:
        negative = np.atleast_1d(np.array(case["scores_class1"], dtype=float))
        names = ["continuous", "roc_area", "discrete"]
        label = np.repeat([1, 0], [positive.size, negative.size])
        areas = ap.estimate(np.concatenate([positive, negative]), label, names)
    ours = dict(zip(["auc_integral", "auc", "auc_davis_goadrich"], areas, strict=False))
    n_compared = 0
    for name, area in ours.items():
        if case["observed"].get(name) is not None:
            assert_near(area, case["observed"][name])
            n_compared += 1
        if case["expected"].get(name) is not None:  # printed with ten digits
            assert_near(area, case["expected"][name], 1e-10)
    assert n_compared == (1 if case["kind"] == "roc" or len(ours) == 2 or "identical" in case["id"] else 2)


@pytest.mark.parametrize("case", PRECREC_CASES)
def test_precrec(case: Any) -> None:
    score, label = data(case["dataset"])
    continuous, roc = ap.estimate(score, label, ["continuous", "roc_area"])
    for bins, tolerance in (("x_bins_1000", 1e-4), ("x_bins_10000", 1e-6)):
        expected = case[bins]
        if "error" in expected:  # a single class
            assert label.min() == label.max()
            continue
        assert_near(continuous, expected["prc"], tolerance)
        assert_near(roc, expected["roc"], 1e-11)  # the sum over its bins rounds more than 1e-12
    if isinstance(case.get("roc_auc_u_statistic"), float):
        assert_near(roc, case["roc_auc_u_statistic"])


@pytest.mark.parametrize("case", SKLEARN_CASES)
def test_sklearn(case: Any) -> None:
    score, given = weights_of(case)
    area = ap.estimate(score, given.pop("label"), "roc_area", **given)
    expected = case["results"]["roc_auc_score"]
    if "error" in expected:  # infinite scores are refused there
        assert np.isinf(score).any()
        assert 0 < area < 1
    else:
        assert_near(area, expected["value"])
