"""Numbers that independent, published implementations print for the same input."""

from typing import Any

import numpy as np
import pytest
import xarray as xr
from reference_cases import data, numbers, oracle, oracle_cases

import aucpr_dask as ap

TOLERANCE = 1e-12
NAMES = {"ap": "average_precision", "lowertrap": "lower_trapezoid", "uppertrap": "upper_trapezoid"}
INTERVALS = {"binomial": "binomial", "expit": "logit"}


def is_untied(case: Any) -> bool:
    score, _ = data(case["dataset"])
    return not np.isnan(score).any() and np.unique(score).size == score.size


RAUCPR = oracle_cases("raucpr")
SKLEARN = oracle_cases("sklearn")
TREC = oracle_cases("trec_eval")
# Where folds are more than positives, raucpr stops with an error: no target.
FOLDS = oracle_cases("raucpr_cv", lambda case: all("error" not in expected for expected in case["estimators"].values()))
# PRROC has no average precision. Its discrete area equals the lower trapezoid where no two items tie; with ties it
# inserts points and begins with a rectangle. Its integral is another estimator, and soft labels have no discrete area.
PRROC = oracle_cases("prroc_hard", is_untied)
PRROC_TESTS = oracle_cases(
    "prroc_tests", lambda c: c["kind"] == "pr" and "scores_class1" in c and "identical" not in c["id"]
)


def test_every_case_is_here() -> None:
    assert [len(x) for x in (RAUCPR, SKLEARN, TREC, FOLDS, PRROC, PRROC_TESTS)] == [57, 83, 115, 42, 39, 4]
    bounds = [
        np.isfinite(float(bound))
        for case in oracle("raucpr")
        for name in NAMES
        for pair in case["estimators"][name].get("ci", {}).values()
        for bound in pair
    ]
    # 55 data sets have areas and one has NaN; the logit bounds of seven perfect rankings are NaN.
    assert (sum(bounds), len(bounds)) == (55 * 3 * 4 * 2 - 7 * 3 * 2 * 2, (55 * 3 + 2) * 4 * 2)
    assert all(case["pr"]["auc_davis_goadrich"] is None for case in oracle("prroc_soft") if "soft_dataset" in case)


@pytest.mark.smoke
@pytest.mark.parametrize("case", RAUCPR)
def test_raucpr(case: Any) -> None:
    score, label = data(case["dataset"])
    if np.isnan(score).any():
        assert all("error" in case["estimators"][name] for name in NAMES)
        with pytest.raises(ap.errors.MissingScoresError, match="the ranking: 1"):
            ap.estimate(score, label)
        return
    for name, area in zip(NAMES, ap.estimate(score, label, list(NAMES.values())), strict=True):
        expected = case["estimators"][name]
        if "error" in expected:  # no positive: an error there, no number here
            assert np.isnan(area)
            continue
        np.testing.assert_allclose(area, float(expected["area"]), rtol=0, atol=TOLERANCE)
        for key, bounds in expected["ci"].items():
            method, level = key.split("_")
            ours = ap.interval(area, case["n_pos"], INTERVALS[method], float(level))
            if method == "expit" and area == 1.0:  # NaN there; the limit here
                np.testing.assert_array_equal(ours, [0.0, 1.0])
            else:
                np.testing.assert_allclose(ours, numbers(bounds), rtol=0, atol=TOLERANCE)


@pytest.mark.smoke
@pytest.mark.parametrize("case", SKLEARN)
def test_sklearn(case: Any) -> None:
    weight = None
    if "weighted_dataset" in case:
        weighted = oracle("weighted_datasets")[case["weighted_dataset"]]
        weight = np.array(weighted["sample_weight"])
        score, label = data(weighted["dataset"])
    else:
        score, label = data(case["dataset"])
    expected = case["results"]
    if np.isnan(score).any():
        with pytest.raises(ap.errors.MissingScoresError, match="the ranking: 1"):
            ap.estimate(score, label, weight=weight)
        return
    ours = ap.estimate(score, label, ["average_precision", "lower_trapezoid"], weight=weight)
    if weight is not None:
        soft = {"positive_weight": weight * label, "negative_weight": weight * (1 - label)}
        again = ap.estimate(score, None, ["average_precision", "lower_trapezoid"], **soft)
        np.testing.assert_array_equal(again, ours)
    if not (label if weight is None else weight * label).any():  # 0 and a warning there, no number here
        assert np.isnan(ours).all()
        return
    for name, area in zip(("average_precision_score", "pr_curve_trapezoid_auc"), ours, strict=True):
        if "error" in expected[name]:  # infinite scores are refused there
            assert np.isinf(score).any()
            assert 0 < area < 1
        else:
            np.testing.assert_allclose(area, float(expected[name]["value"]), rtol=0, atol=TOLERANCE)


def trec_input(case: Any, kind: type) -> xr.Dataset:
    if "dataset" in case:
        score, label = data(case["dataset"])
        names = [f"d{i:04d}" for i in range(score.size)]
        if case["retrieved_items"] is not None:
            is_retrieved = np.isin(np.arange(score.size), case["retrieved_items"])
            score = np.where(is_retrieved, score, np.nan)
        unseen = 0
    else:
        score, label = numbers(case["sim"]), np.array(case["rel"], dtype=np.int8)
        names, unseen = case["docno"], case["relevant_not_retrieved"]
    with np.errstate(over="ignore"):  # 1e300 becomes infinite in version 9
        score = score.astype(kind)
    n_positive = int((label >= case["relevance_level"]).sum()) + unseen
    return xr.Dataset(
        {"score": (("model", "item"), score[None]), "label": ("item", label), "n_positive": n_positive},
        coords={"model": ["run"], "item": names},
    )


@pytest.mark.parametrize(("version", "kind"), [("v10.0", np.float64), ("v9.0.8", np.float32)])
@pytest.mark.parametrize("case", TREC)
def test_trec_eval(case: Any, version: str, kind: type) -> None:
    expected = case["expected"][version]
    scores = trec_input(case, kind)
    level = case["relevance_level"]
    options: dict[str, Any] = {"convention": "trec_eval", "positive_from": level}
    result = ap.evaluate(scores, **options)
    area = float(result["estimate"].item())
    assert result["n_positive"].item() == expected["num_rel"]
    assert int(scores["score"].notnull().sum()) == expected["num_ret"]
    np.testing.assert_allclose(area, expected["map"], rtol=0, atol=TOLERANCE)
    labelled = ap.estimate(scores["score"], scores["label"], n_positive=scores["n_positive"], **options)
    assert labelled.item() == area


def test_trec_eval_versions_differ() -> None:
    differ = [c["id"] for c in oracle("trec_eval") if c["expected"]["v10.0"]["map"] != c["expected"]["v9.0.8"]["map"]]
    assert differ, "no case tells float32 from float64"


@pytest.mark.parametrize("case", PRROC)
def test_prroc(case: Any) -> None:
    score, label = data(case["dataset"])
    area = ap.estimate(score, label, "lower_trapezoid")
    for part in ("pr_two_sample", "pr_label_weights"):
        np.testing.assert_allclose(area, float(case[part]["auc_davis_goadrich"]), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("case", PRROC_TESTS)
def test_prroc_own_tests(case: Any) -> None:
    positive, negative = np.atleast_1d(case["scores_class0"]), np.atleast_1d(case["scores_class1"])
    score = np.concatenate([positive, negative])
    label = np.repeat([1, 0], [positive.size, negative.size])
    area = ap.estimate(score, label, "lower_trapezoid")
    np.testing.assert_allclose(area, case["observed"]["auc_davis_goadrich"], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("case", FOLDS)
def test_raucpr_on_folds(case: Any) -> None:
    score, label = data(case["dataset"])
    fold = np.array(case["fold_of_item"])
    by_fold = xr.Dataset(
        {
            "score": (("model", "query", "item"), np.broadcast_to(score, (1, case["folds"], score.size))),
            "label": (("query", "item"), np.where(fold == np.arange(case["folds"])[:, None], label, -2)),
        }
    )
    for name in NAMES.keys() & case["estimators"].keys():
        expected = case["estimators"][name]
        result = ap.evaluate(by_fold, NAMES[name])
        areas = result["estimate"].values.ravel()
        np.testing.assert_allclose(areas, np.array(expected["fold_areas"], float), rtol=0, atol=TOLERANCE)
        for level in (0.95, 0.9):
            mean = ap.aggregate(result, level=level)
            np.testing.assert_allclose(mean["estimate"].item(), float(expected["mean"]), rtol=0, atol=TOLERANCE)
            bounds = np.array(expected[f"t_ci_{level}"], float)
            np.testing.assert_allclose(mean["interval"].values.ravel(), bounds, rtol=0, atol=1e-11)
