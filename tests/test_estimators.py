"""Numbers that independent, published implementations print for the same input."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from conftest import copy_kernels
from reference_cases import data, numbers, oracle, oracle_cases

import aucpr_dask as ap

TOLERANCE = 1e-12
RAUCPR = {
    "ap": "average_precision",
    "lowertrap": "lower_trapezoid",
    "uppertrap": "upper_trapezoid",
    "interpolate_max": "interpolated_max",
    "interpolate_mean": "interpolated_mean",
    "interpolate_median": "interpolated_median",
    "interpolate_convex": "interpolated_convex",
}
EXACT_THERE = ("ap", "lowertrap", "uppertrap")  # interpolated areas are rounded before they have intervals
INTERVALS = {"binomial": "binomial", "expit": "logit"}
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


def is_untied(case: Any) -> bool:
    score, _ = data(case["dataset"])
    return has_scores(case) and np.unique(score).size == score.size


RAUCPR_CASES = oracle_cases("raucpr")
SKLEARN_CASES = oracle_cases("sklearn")
TREC_CASES = oracle_cases("trec_eval")
# Where folds are more than positives, raucpr stops with an error: no target.
FOLDS = oracle_cases("raucpr_cv", lambda case: all("error" not in expected for expected in case["estimators"].values()))
PRROC_CASES = oracle_cases("prroc_hard", has_scores)
PRECREC_CASES = oracle_cases("precrec", has_scores)
SOFT_CASES = oracle_cases("prroc_soft")
PRROC_TESTS = oracle_cases("prroc_tests")


def test_every_case_is_here() -> None:
    hard = RAUCPR_CASES, SKLEARN_CASES, TREC_CASES, FOLDS, PRROC_CASES, PRECREC_CASES, SOFT_CASES, PRROC_TESTS
    assert [len(cases) for cases in hard] == [57, 83, 115, 42, 56, 56, 49, 10]
    assert sum(is_untied(case) for case in oracle("prroc_hard")) == 39
    # How many numbers there are to meet: no positive is an error in raucpr, and so is a hull without negatives.
    areas = [case["estimators"][name] for case in oracle("raucpr") if has_scores(case) for name in RAUCPR]
    assert (len(areas), sum("area" in area for area in areas)) == (7 * 56, 219 + 55 + 2 * 56)
    intervals = [case["estimators"][name].get("ci", {}) for case in oracle("raucpr") for name in EXACT_THERE]
    bounds = np.array([pair for one in intervals for pair in one.values()], float)
    # 55 data sets have areas and one has NaN; the logit bounds of seven perfect rankings are NaN.
    assert (np.isfinite(bounds).sum(), bounds.size) == (55 * 3 * 4 * 2 - 7 * 3 * 2 * 2, (55 * 3 + 2) * 4 * 2)
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
    soft = [case for case in oracle("prroc_soft") if "soft_dataset" in case]
    assert len(soft) == 23
    assert all(case["pr"]["auc_davis_goadrich"] is None for case in soft)


@pytest.mark.smoke
@pytest.mark.parametrize("case", RAUCPR_CASES)
def test_raucpr(case: Any) -> None:
    score, label = data(case["dataset"])
    if not has_scores(case):
        assert all("error" in case["estimators"][name] for name in RAUCPR)
        with pytest.raises(ap.errors.MissingScoresError, match="the ranking: 1"):
            ap.estimate(score, label)
        return
    for name, area in zip(RAUCPR, ap.estimate(score, label, list(RAUCPR.values())), strict=True):
        expected = case["estimators"][name]
        if "error" in expected:  # no positive, or a hull without negatives
            np.testing.assert_equal(area, np.nan if case["n_pos"] == 0 else 1.0)
        else:
            assert_near(area, expected["area"])
        exact = case.get("crosscheck_50_digits", {}).get({"interpolate_convex": "convex"}.get(name, name))
        if exact is not None:
            assert_near(area, exact, 1e-14)
        for key, bounds in expected.get("ci", {}).items() if name in EXACT_THERE else ():
            method, level = key.split("_")
            ours = ap.interval(area, case["n_pos"], INTERVALS[method], float(level))
            # NaN there; the limit here
            assert_near(ours, [0.0, 1.0] if method == "expit" and area == 1.0 else numbers(bounds))


@pytest.mark.smoke
@pytest.mark.parametrize("case", oracle_cases("raucpr", has_scores))
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
    names = ["continuous", "discrete", "roc_area", "lower_trapezoid"]
    continuous, discrete, roc, trapezoid = ap.estimate(score, label, names)
    for part in ("pr_two_sample", "pr_label_weights"):
        assert_near(continuous, case[part]["auc_integral"])
        if case[part]["auc_davis_goadrich"] is not None:
            assert_near(discrete, case[part]["auc_davis_goadrich"])
        if is_untied(case):  # with ties it inserts points and begins with a rectangle
            assert_near(trapezoid, case[part]["auc_davis_goadrich"])
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
        score = np.concatenate([positive, negative])
        areas = ap.estimate(score, label, names)
        if case["kind"] == "pr" and "identical" not in case["id"]:
            assert_near(ap.estimate(score, label, "lower_trapezoid"), case["observed"]["auc_davis_goadrich"])
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


SKLEARN = {
    "average_precision_score": "average_precision",
    "pr_curve_trapezoid_auc": "lower_trapezoid",
    "roc_auc_score": "roc_area",
}


@pytest.mark.smoke
@pytest.mark.parametrize("case", SKLEARN_CASES)
def test_sklearn(case: Any) -> None:
    score, given = weights_of(case)
    label, weight, names = given.pop("label"), given.get("weight"), list(SKLEARN.values())
    if np.isnan(score).any():
        with pytest.raises(ap.errors.MissingScoresError, match="the ranking: 1"):
            ap.estimate(score, label, weight=weight)
        return
    ours = ap.estimate(score, label, names, weight=weight)
    if weight is not None:
        soft = {"positive_weight": weight * label, "negative_weight": weight * (1 - label)}
        np.testing.assert_array_equal(ap.estimate(score, None, names, **soft), ours)
    has_positives = (label if weight is None else weight * label).any()
    for (theirs, name), area in zip(SKLEARN.items(), ours, strict=True):
        expected = case["results"][theirs]
        if not has_positives and name != "roc_area":  # 0 and a warning there, no number here
            assert np.isnan(area)
        elif "error" in expected:  # infinite scores are refused there
            assert np.isinf(score).any()
            assert 0 < area < 1
        else:
            assert_near(area, expected["value"])


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
@pytest.mark.parametrize("case", TREC_CASES)
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


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(*case.values, id=case.id, marks=[pytest.mark.slow] * (place % 7 > 0))
        for place, case in enumerate(FOLDS)
    ],
)
def test_raucpr_on_folds(case: Any) -> None:
    score, label = data(case["dataset"])
    fold = np.array(case["fold_of_item"])
    by_fold = xr.Dataset(
        {
            "score": (("model", "query", "item"), np.broadcast_to(score, (1, case["folds"], score.size))),
            "label": (("query", "item"), np.where(fold == np.arange(case["folds"])[:, None], label, -2)),
        }
    )
    names = sorted(RAUCPR.keys() & case["estimators"].keys())
    result = ap.evaluate(by_fold, [RAUCPR[name] for name in names])
    means = {level: ap.aggregate(result, method="t", level=level) for level in (0.95, 0.9)}
    for name in names:
        expected, one = case["estimators"][name], {"estimator": RAUCPR[name]}
        areas = result["estimate"].sel(one).values.ravel()
        np.testing.assert_allclose(areas, np.array(expected["fold_areas"], float), rtol=0, atol=TOLERANCE)
        for level, mean in means.items():
            np.testing.assert_allclose(mean["estimate"].sel(one), float(expected["mean"]), rtol=0, atol=TOLERANCE)
            bounds = np.clip(np.array(expected[f"t_ci_{level}"], float), 0, 1)  # ours end where areas do
            np.testing.assert_allclose(mean["interval"].sel(one).values.ravel(), bounds, rtol=0, atol=1e-11)


PASTED = """
import random, sys
sys.path.insert(0, "tests")
import numpy as np
import aucpr_dask as ap
from test_estimators_exact import Fraction, Reference
random.seed(0)
for _ in range(200):
    n = random.randint(1, 8)
    rows = [(random.randint(0, 4), random.random() < 0.5, random.randint(1, 3)) for _ in range(n)]
    score, label, weight = map(np.array, zip(*rows))
    prevalence = random.choice([None, 0.25])
    items = [(s, Fraction(w * int(y)), Fraction(w * int(not y))) for s, y, w in rows]
    expected = Reference(items, prevalence=prevalence and Fraction(prevalence)).of("max_f1")
    found = ap.estimate(score * 1.0, label, "max_f1", weight=weight * 1.0, prevalence=prevalence)
    np.testing.assert_allclose(found, float(expected), rtol=1e-14)
"""


@pytest.mark.slow
def test_the_estimator_of_contributing_works_when_it_is_pasted(tmp_path: Path) -> None:
    root = Path(__file__).parents[1]
    for folder in ("aucpr_dask", "tests"):
        shutil.copytree(root / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "data"))
    page = (root / "CONTRIBUTING.md").read_text()
    blocks = re.findall(r"\n( *)```python\n *# (\S+\.py): ([^\n]*)\n(.*?)\n *```", page, re.DOTALL)
    assert len(blocks) == 6
    for indent, name, line, block in blocks:
        path = tmp_path / name
        before, found, after = path.read_text().partition(f"{line}\n")
        assert found, f"{name} has no line {line!r}"
        assert line not in after, f"{name} has several lines {line!r}"
        lines = [one.removeprefix(indent) for one in block.split("\n")]
        path.write_text(before + found + "\n".join(lines) + "\n" + after)
    cache = copy_kernels(tmp_path / "cache")
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "AUCPR_DASK_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", PASTED], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
