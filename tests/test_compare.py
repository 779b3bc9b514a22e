"""Means, comparisons and ranks by label: against plain NumPy, scipy, and themselves in other orders and chunks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import combinations, pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from conftest import errors_of_differences, pooled, queried
from numpy.typing import NDArray
from scipy import stats

import aucpr_dask as ap
from aucpr_dask.errors import (
    AlignmentError,
    DoubtfulScoresWarning,
    FewPositivesWarning,
    FewUnitsWarning,
    InvalidInputError,
    RepeatedItemsWarning,
    StoreError,
)
from aucpr_dask.evaluation import rankings
from aucpr_dask.inference import designs
from aucpr_dask.inference.paired_samples import FILLED
from aucpr_dask.inference.questions import on_common_items
from aucpr_dask.inference.units import Redraws
from aucpr_dask.schema.options import ComparisonOptions, EvaluationOptions
from aucpr_dask.scores.copies import copies_among

pytestmark = pytest.mark.filterwarnings("ignore:method='bootstrap' over")  # over few queries, as many here

METHODS = ("sign_flip", "bootstrap_t", "bootstrap", "t", "wilcoxon")
RESAMPLES = 999


def result_of(areas: np.ndarray, models: list[str] | None = None, queries: list[str] | None = None) -> xr.Dataset:
    """A result with the areas (model, query) of one estimator."""
    return xr.Dataset(
        {"estimate": (("model", "query", "estimator"), np.asarray(areas, dtype=float)[..., None])},
        coords={
            "model": models or [f"m{i}" for i in range(len(areas))],
            "query": queries or [f"q{i}" for i in range(len(areas[0]))],
            "estimator": ["average_precision"],
        },
    )


def areas_of(n_models: int = 6, n_queries: int = 20, seed: int = 0, step: float = 0.01) -> np.ndarray:
    random = np.random.default_rng(seed)
    easy = random.beta(2, 3, n_queries) * 0.8
    return easy + random.normal(0, 0.05, (n_models, n_queries)) + step * np.arange(n_models)[:, None]


@pytest.fixture
def result() -> xr.Dataset:
    return result_of(areas_of())


def cells(comparison: xr.Dataset, first: str, second: str) -> xr.Dataset:
    other = next((dim for dim in ("other_model", "baseline") if dim in comparison.dims), None)
    assert other or comparison["baseline"].item() == second
    return comparison.sel({"model": first} | ({other: second} if other else {}))


# Comparisons over units: numbers


@pytest.mark.smoke
def test_t_is_the_paired_t_test(result: xr.Dataset) -> None:
    comparison = ap.compare(result, method="t", level=0.9, adjust="none")
    areas = result["estimate"].values[..., 0]
    for i, j in product(range(6), repeat=2):
        if i == j:
            continue
        test = stats.ttest_rel(areas[i], areas[j])
        found = cells(comparison, f"m{i}", f"m{j}")
        np.testing.assert_allclose(found["p_value"], test.pvalue, rtol=1e-10)
        np.testing.assert_allclose(found["interval"], test.confidence_interval(0.9), rtol=1e-10)
        np.testing.assert_allclose(found["standard_error"], stats.sem(areas[i] - areas[j]), rtol=1e-12)
        low, high = test.confidence_interval(1 - 0.1 / 15)  # Bonferroni
        np.testing.assert_allclose(found["simultaneous_interval"], [low, high], rtol=1e-10)


def test_wilcoxon_is_scipys_and_has_no_intervals(result: xr.Dataset) -> None:
    comparison = ap.compare(result, method="wilcoxon")
    areas = result["estimate"].values[..., 0]
    for i, j in combinations(range(6), 2):
        expected = stats.wilcoxon(areas[i], areas[j]).pvalue
        np.testing.assert_allclose(cells(comparison, f"m{i}", f"m{j}")["p_value"], expected, rtol=1e-12)
        assert cells(comparison, f"m{i}", f"m{j}")["p_value"] == cells(comparison, f"m{j}", f"m{i}")["p_value"]
    assert "interval" not in comparison
    assert "simultaneous_interval" not in comparison
    with pytest.raises(InvalidInputError, match="does not test equivalence"):
        ap.compare(result, method="wilcoxon", equivalence=0.1)


@pytest.mark.smoke
def test_sign_flips_are_the_exact_permutation_test() -> None:
    result = result_of(areas_of(3, 9))
    comparison = ap.compare(result, adjust="none")
    assert comparison.attrs["n_resamples"] == 2**9
    areas = result["estimate"].values[..., 0]
    for i, j in combinations(range(3), 2):
        expected = stats.permutation_test(
            (areas[i], areas[j]),
            lambda a, b, axis: np.mean(a - b, axis=axis),
            permutation_type="samples",
            n_resamples=9999,
        )
        np.testing.assert_allclose(cells(comparison, f"m{i}", f"m{j}")["p_value"], expected.pvalue, rtol=1e-12)


def test_sampled_sign_flips_agree_with_the_permutation_test(result: xr.Dataset) -> None:
    comparison = ap.compare(result, "m0", adjust="none", n_resamples=20_000)
    areas = result["estimate"].values[..., 0]
    for i in range(1, 6):
        expected = stats.permutation_test(
            (areas[i], areas[0]),
            lambda a, b, axis: np.mean(a - b, axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=20_000,
            rng=np.random.default_rng(0),
        ).pvalue
        found = float(cells(comparison, f"m{i}", "m0")["p_value"])
        assert abs(found - expected) < 5 * np.sqrt(2 * max(expected, 1e-3) / 20_000)


def test_intervals_of_sign_flips_are_students_on_normal_differences() -> None:
    """The residuals' quantile is that of a Student statistic: right even with few units, where a normal one is not."""
    widths = []
    for seed in range(40):
        result = result_of(np.random.default_rng(seed).normal(size=(2, 11)))
        flips, student = (ap.compare(result, "m0", method=method).sel(model="m1") for method in ("sign_flip", "t"))
        widths.append(np.diff(flips["interval"].values).item() / np.diff(student["interval"].values).item())
        np.testing.assert_array_equal(flips["standard_error"], student["standard_error"])
        middle = flips["interval"].mean("ci_bound")
        np.testing.assert_allclose(middle, flips["difference"], rtol=1e-12)
    assert 0.98 < np.mean(widths) < 1.02


@pytest.mark.parametrize(("n_queries", "level", "known"), [(5, 0.95, False), (6, 0.95, True), (5, 0.9, True)])
def test_intervals_of_sign_flips_are_infinite_where_no_test_could_reject(
    n_queries: int, level: float, known: bool
) -> None:
    comparison = ap.compare(result_of(areas_of(3, n_queries)), level=level)
    assert np.isfinite(cells(comparison, "m0", "m1")["interval"]).all() == known
    assert np.isfinite(cells(comparison, "m0", "m1")["simultaneous_interval"]).all() == known
    np.testing.assert_array_equal(cells(comparison, "m0", "m0")["interval"], 0)
    ranks = ap.rank(result_of(areas_of(3, n_queries)), level=level)
    if not known:
        assert ranks["rank_interval"].values.tolist() == [[1, 3]] * 3


@pytest.mark.slow
@pytest.mark.parametrize("n_queries", [7, 25])
def test_intervals_of_sign_flips_hold_their_level(n_queries: int) -> None:
    """Equal models with heavy-tailed differences: alone and together, in 400 studies."""
    random = np.random.default_rng(n_queries)
    alone, together = [], []
    for _ in range(400):
        areas = random.standard_t(4, (5, n_queries))
        bounds = ap.compare(result_of(areas), n_resamples=500, adjust="none")
        first, second = np.triu_indices(5, 1)
        low, high = bounds["interval"].values[first, second].T
        alone.append(np.mean((low <= 0) & (high >= 0)))
        low, high = bounds["simultaneous_interval"].values[first, second].T
        together.append(np.all((low <= 0) & (high >= 0)))
    assert 0.93 < np.mean(alone) < 0.97
    assert 0.915 < np.mean(together) < 0.985


def test_bootstrap_of_queries_is_plain_numpy(result: xr.Dataset) -> None:
    comparison = ap.compare(result, method="bootstrap", n_resamples=RESAMPLES, seed=7)
    areas, names = result["estimate"].values[..., 0], list(result["query"].values)
    order = np.argsort(names)
    counts = multiplicities(20, RESAMPLES, 7)
    assert (counts.sum(axis=1) == 20).all()
    replicates = areas[:, order] @ counts.T / 20
    statistics = {}
    for i, j in combinations(range(6), 2):
        found = cells(comparison, f"m{i}", f"m{j}")
        difference = areas[i].mean() - areas[j].mean()
        apart = replicates[i] - replicates[j]
        error = apart.std(ddof=1)
        statistics[i, j] = np.abs(apart - difference) / error
        np.testing.assert_allclose(found["difference"], difference, rtol=1e-12)
        np.testing.assert_allclose(found["standard_error"], error, rtol=1e-10)
        quantile = np.sort(statistics[i, j])[950 - 1]  # ceil(0.95 x 1000)
        np.testing.assert_allclose(
            found["interval"], [difference - quantile * error, difference + quantile * error], rtol=1e-9
        )
        p_value = (1 + np.sum(statistics[i, j] >= abs(difference) / error)) / (RESAMPLES + 1)
        np.testing.assert_allclose(found["p_value"], p_value, rtol=1e-12)
    largest = np.max(list(statistics.values()), axis=0)
    quantile = np.sort(largest)[950 - 1]
    for i, j in combinations(range(6), 2):
        found = cells(comparison, f"m{i}", f"m{j}")
        width = 2 * quantile * float(found["standard_error"])
        np.testing.assert_allclose(np.diff(found["simultaneous_interval"]), width, rtol=1e-9)


@pytest.mark.sparse
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("adjust", ["holm", "benjamini_hochberg", "none"])
def test_adjustments_by_p_value_concern_the_family(result: xr.Dataset, method: str, adjust: str) -> None:
    comparison = ap.compare(result, ["m0", "m3"], method=method, adjust=adjust, n_resamples=RESAMPLES)
    pairs = [(i, 0) for i in range(1, 6)] + [(i, 3) for i in range(6) if i not in (0, 3)]
    assert comparison.attrs["family_size"] == 9
    p_values = np.array([float(cells(comparison, f"m{i}", f"m{j}")["p_value"]) for i, j in pairs])
    order = np.argsort(p_values)
    if adjust == "holm":
        expected = np.minimum(1, np.maximum.accumulate(p_values[order] * np.arange(9, 0, -1)))
    elif adjust == "benjamini_hochberg":
        expected = np.minimum.accumulate((p_values[order] * 9 / np.arange(1, 10))[::-1])[::-1]
    else:
        expected = p_values[order]
    found = np.array([float(cells(comparison, f"m{i}", f"m{j}")["p_adjusted"]) for i, j in pairs])
    np.testing.assert_allclose(found[order], expected, rtol=1e-12)
    both = [float(cells(comparison, *pair)["p_adjusted"]) for pair in (("m0", "m3"), ("m3", "m0"))]
    assert both[0] == both[1]


@pytest.mark.parametrize("method", ["sign_flip", "bootstrap"])
def test_order_of_the_adjustments(result: xr.Dataset, method: str) -> None:
    """Step-down lies between the p-value alone and single-step, and mostly below Holm's."""
    by = {
        adjust: ap.compare(result, method=method, adjust=adjust, n_resamples=RESAMPLES)["p_adjusted"].values
        for adjust in ("none", "romano_wolf", "max_t", "holm")
    }
    assert (by["none"] <= by["romano_wolf"]).all()
    assert (by["romano_wolf"] <= by["max_t"]).all()
    assert (by["romano_wolf"] < by["holm"]).sum() > (by["romano_wolf"] > by["holm"]).sum()


def test_simultaneous_intervals_exclude_0_where_the_single_step_does() -> None:
    comparison = ap.compare(result_of(areas_of(step=0.03)), method="bootstrap", adjust="max_t", n_resamples=RESAMPLES)
    bounds = comparison["simultaneous_interval"].values
    excluded = (bounds[..., 0] > 0) | (bounds[..., 1] < 0)
    assert 0 < excluded.sum() < excluded.size
    np.testing.assert_array_equal(excluded, comparison["p_adjusted"].values <= 0.05)


def test_the_other_direction_is_the_same_turned_round(result: xr.Dataset) -> None:
    comparison = ap.compare(result, equivalence=0.02)
    values = {name: comparison[name].values for name in comparison.data_vars}
    for name in ("standard_error", "p_value", "p_adjusted", "p_equivalence", "share_inside", "decision"):
        np.testing.assert_array_equal(values[name], values[name].T)
    np.testing.assert_array_equal(values["difference"], -values["difference"].T)
    for name in ("interval", "simultaneous_interval"):
        np.testing.assert_array_equal(values[name], -values[name].swapaxes(0, 1)[..., ::-1])
    diagonal = comparison.isel(model=[2], other_model=[2])
    assert diagonal["p_value"] == diagonal["p_adjusted"] == 1
    assert diagonal["difference"] == diagonal["standard_error"] == 0


@pytest.mark.parametrize("method", ["sign_flip", "bootstrap_t", "bootstrap", "t"])
def test_equivalence(method: str) -> None:
    areas = areas_of(3, 30, step=0.0)
    areas[1] = areas[0] + 0.001 * np.cos(np.arange(30))
    areas[2] = areas[0] + 0.2 + 0.001 * np.sin(np.arange(30))
    comparison = ap.compare(result_of(areas), equivalence=0.01, method=method)
    decisions = comparison["decision"].attrs["flag_meanings"].split()
    assert decisions[int(cells(comparison, "m0", "m1")["decision"])] == "equivalent"
    assert decisions[int(cells(comparison, "m0", "m2")["decision"])] == "different"
    assert cells(comparison, "m0", "m1")["p_equivalence"] < 0.05 < cells(comparison, "m0", "m2")["p_equivalence"]
    assert cells(comparison, "m0", "m1")["share_inside"] > 0.95
    for name in ("p_equivalence", "decision"):
        assert comparison[name].attrs["description"].endswith("not adjusted for the family.")
    if not method.startswith("bootstrap"):
        lower, upper = (
            stats.ttest_1samp(areas[0] - areas[1], border, alternative=side).pvalue
            for border, side in ((-0.01, "greater"), (0.01, "less"))
        )
        np.testing.assert_allclose(cells(comparison, "m0", "m1")["p_equivalence"], max(lower, upper), rtol=1e-9)


# What a number may depend on


ADJUSTMENTS = ("romano_wolf", "max_t", "holm", "benjamini_hochberg", "none")
EACH_WAY = [*((method, {}) for method in METHODS), *(("sign_flip", {"adjust": adjust}) for adjust in ADJUSTMENTS)]


@pytest.mark.sparse
@pytest.mark.parametrize(("method", "options"), EACH_WAY)
@pytest.mark.parametrize("chunk", [2, 5])
def test_lazy_pairs_are_the_eager_ones(result: xr.Dataset, method: str, options: dict[str, Any], chunk: int) -> None:
    margin = None if method == "wilcoxon" else 0.02
    options = {"method": method, "n_resamples": RESAMPLES, "equivalence": margin} | options
    eager, lazy = ap.compare(result, **options), ap.compare(result, **options, chunk=chunk)
    assert lazy["p_adjusted"].chunks is not None
    assert eager.attrs.pop("summary")  # which no sentence can say before its numbers are computed
    xr.testing.assert_identical(lazy.compute(), eager)


def test_many_models_are_compared_lazily() -> None:
    comparison = ap.compare(result_of(areas_of(520, 5)), n_resamples=50)
    assert comparison["interval"].chunks is not None
    assert len(comparison["interval"].chunks[0]) == 3


OF_A_PAIR = ("difference", "standard_error", "interval", "p_value")


@pytest.mark.parametrize("method", METHODS)
def test_other_models_and_orders_change_nothing_of_a_pair(result: xr.Dataset, method: str) -> None:
    options = {"method": method, "n_resamples": RESAMPLES}
    names = [name for name in OF_A_PAIR if method != "wilcoxon" or name != "interval"]
    whole = ap.compare(result, **options)[names]
    mixed = result.isel(model=[3, 0, 5, 1, 4, 2], query=np.random.default_rng(1).permutation(20))
    xr.testing.assert_equal(ap.compare(mixed, **options)[names].reindex_like(whole), whole)
    few = ap.compare(result.isel(model=[1, 4]), **options)[names]
    xr.testing.assert_equal(few, whole.sel(model=["m1", "m4"], other_model=["m1", "m4"]))
    against = ap.compare(result, ["m4"], **options)[names].rename(baseline="other_model")
    xr.testing.assert_equal(against, whole.sel(other_model=["m4"]))


ALL_RANKS = ("rank_interval", "simultaneous_rank_interval", "probability_best", "expected_rank")


@pytest.mark.parametrize("method", ["sign_flip", "bootstrap_t", "bootstrap", "influence"])
def test_the_order_of_the_models_changes_nothing_of_a_family(result: xr.Dataset, method: str) -> None:
    data = pooled(6, 80) if method == "influence" else result
    options = {"method": method, "n_resamples": RESAMPLES}
    for adjust in ("romano_wolf", "max_t"):
        whole = ap.compare(data, adjust=adjust, **options)
        for order in ([3, 0, 5, 1, 4, 2], [5, 4, 3, 2, 1, 0]):
            mixed = ap.compare(data.isel(model=order), adjust=adjust, **options)
            xr.testing.assert_equal(mixed.sel(model=whole["model"], other_model=whole["other_model"]), whole)
    ranks = ap.rank(data, **options)[list(ALL_RANKS)]
    mixed = ap.rank(data.isel(model=[3, 0, 5, 1, 4, 2]), **options)[list(ALL_RANKS)]
    xr.testing.assert_equal(mixed.sel(model=ranks["model"]), ranks)


@pytest.mark.parametrize("method", ["sign_flip", "bootstrap_t", "bootstrap", "t", "influence"])
def test_simultaneous_intervals_contain_the_marginal_ones(method: str) -> None:
    """Also where a quantile of few draws falls short of the exact one."""
    for seed in range(6):
        data = pooled(2, 60, seed=seed) if method == "influence" else result_of(areas_of(2, 12, seed=seed))
        comparison = ap.compare(data, method=method, n_resamples=60, seed=seed)
        alone, together = comparison["interval"].values, comparison["simultaneous_interval"].values
        assert (together[..., 0] <= alone[..., 0]).all()
        assert (together[..., 1] >= alone[..., 1]).all()


def test_signs_of_a_query_follow_its_name() -> None:
    """Another query changes no sign of the others: the replicates of a difference that is 0 there stay the same."""
    areas = areas_of(2, 20)
    more = np.concatenate([areas, [[0.5], [0.5]]], axis=1)
    options = {"n_resamples": RESAMPLES, "adjust": "none"}
    before = ap.compare(result_of(areas), "m0", **options)
    after = ap.compare(result_of(more, queries=[*(f"q{i}" for i in range(20)), "a new one"]), "m0", **options)
    np.testing.assert_array_equal(before["p_value"], after["p_value"])


def multiplicities(n_units: int, n_resamples: int, seed: int) -> NDArray[np.int64]:
    """How often each unit is in each resample (R, Q)."""
    drawn = [draws for _, draws in Redraws(n_units, n_resamples, seed).blocks()]
    return np.array([np.bincount(draw, minlength=n_units) for draw in np.concatenate(drawn)])


def test_more_resamples_extend_the_first() -> None:
    np.testing.assert_array_equal(multiplicities(7, 1000, 3)[:100], multiplicities(7, 100, 3))
    assert (multiplicities(7, 100, 3) != multiplicities(7, 100, 4)).any()


def test_the_seed_matters_and_is_kept(result: xr.Dataset) -> None:
    first, again, other = (ap.compare(result, n_resamples=RESAMPLES, seed=seed) for seed in (1, 1, 2))
    xr.testing.assert_identical(first, again)
    assert (first["p_value"] != other["p_value"]).any()
    assert other.attrs["seed"] == 2


# Items


@pytest.fixture
def kept() -> xr.Dataset:
    return ap.evaluate(pooled(5, 120), ["average_precision", "continuous"], interval=(), keep_replicates=True)


@pytest.mark.smoke
def test_items_are_compared_by_their_replicates(kept: xr.Dataset) -> None:
    comparison = ap.compare(kept, estimator="continuous", adjust="none")
    estimate = kept["estimate"].sel(estimator="continuous").values
    replicate = kept["replicate"].sel(estimator="continuous").transpose("model", "resample").values
    assert comparison.attrs["estimator"] == "continuous"
    for i, j in combinations(range(5), 2):
        apart, difference = replicate[i] - replicate[j], estimate[i] - estimate[j]
        found = cells(comparison, f"m{i}", f"m{j}")
        np.testing.assert_allclose(found["standard_error"], apart.std(ddof=1), rtol=1e-9)
        p_value = (1 + np.sum(np.abs(apart - difference) >= abs(difference))) / 1001
        np.testing.assert_allclose(found["p_value"], p_value, rtol=1e-12)


def test_scores_are_evaluated_first(kept: xr.Dataset) -> None:
    xr.testing.assert_equal(ap.compare(pooled(5, 120), method="bootstrap"), ap.compare(kept))
    fewer = ap.compare(pooled(5, 120), method="bootstrap", n_resamples=300, seed=5)
    assert (fewer.attrs["n_resamples"], fewer.attrs["seed"]) == (300, 5)
    few = {"method": "bootstrap", "n_resamples": 300}
    xr.testing.assert_equal(ap.compare(kept, **few), ap.compare(pooled(5, 120), **few))
    with pytest.raises(InvalidInputError, match="the result has fewer resamples"):
        ap.compare(kept, n_resamples=1001)


def test_influence_is_close_to_the_bootstrap() -> None:
    scores = pooled(5, 400)
    influence, bootstrap = ap.compare(scores), ap.compare(scores, method="bootstrap")
    first, second = np.triu_indices(5, 1)
    ratio = influence["standard_error"].values[first, second] / bootstrap["standard_error"].values[first, second]
    assert (np.abs(ratio - 1) < 0.15).all()
    found = ap.covariance(scores)
    variance = found["difference_variance"].values[first, second]
    plain = errors_of_differences(found["covariance"]).values[first, second]
    np.testing.assert_allclose(np.sqrt(variance), plain, rtol=0.1)
    np.testing.assert_allclose(influence["standard_error"].values[first, second], np.sqrt(variance), rtol=1e-12)
    statistic = influence["difference"].values[first, second] / np.sqrt(variance)
    np.testing.assert_allclose(
        influence["p_value"].values[first, second],
        2 * stats.t(float(scores["label"].sum()) + 9).sf(np.abs(statistic)),
        rtol=1e-9,
    )
    assert (influence["p_adjusted"] >= influence["p_value"]).all()
    few = ap.compare(scores.isel(model=[1, 3]), method="influence")[list(OF_A_PAIR)]
    xr.testing.assert_equal(few, influence[list(OF_A_PAIR)].sel(model=["m1", "m3"], other_model=["m1", "m3"]))


def test_the_variance_of_differences_reckons_with_few_positives() -> None:
    """Ten draws of a proportion, and a quarter of the square of what an unseen negative would take more from one."""
    label = [1, 1, 0, 1, 0, 0]
    score = [[6.0, 5, 4, 3, 2, 1], [6.0, 5, 3, 4, 2, 1]]
    found = ap.covariance(xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)}))
    area = (1 + 1 + 3 / 4) / 3
    centre = (area + (1 + 1 + 2 * 1.5 / (2 * 1.5 + 1)) / 3) / 2  # (TP - 1) n/(n - 1) positives in place of TP
    lost = area - (1 / 2 + 2 / 3 + 3 / 5) / 3, 1 - (1 / 2 + 2 / 3 + 3 / 4) / 3  # the second area is 1
    assert found["covariance"].values[1, 1] == 0 < found["covariance"].values[0, 0]
    variance = (2 * found["covariance"].values[0, 0] + 10 * centre * (1 - centre) / 3) / (3 + 9)
    variance += (lost[0] - lost[1]) ** 2 / 4
    np.testing.assert_allclose(found["estimate"], [area, 1], rtol=1e-12)
    np.testing.assert_allclose(found["difference_variance"].values, [[0, variance], [variance, 0]], rtol=1e-12)
    assert found["n_effective"].values.tolist() == [3, 3]
    assert found["degrees"].values.tolist() == [12, 12]


@pytest.mark.filterwarnings("ignore::aucpr_dask.errors.DoubtfulScoresWarning")
def test_influences_of_zero_give_the_same_in_chunks() -> None:
    scores = pooled(3, 60)
    perfect_and_constant = np.stack([scores["label"].values, np.ones(60)])
    scores["score"][:2] = perfect_and_constant
    lazy = ap.compare(scores.chunk({"model": 1}), over="items", method="influence")
    xr.testing.assert_allclose(lazy.compute(), ap.compare(scores, over="items", method="influence"))


@pytest.mark.filterwarnings("ignore::aucpr_dask.errors.DoubtfulScoresWarning")
def test_perfect_rankings_are_not_certain() -> None:
    label = np.repeat([1, 0], [12, 60])
    score = np.stack([label + 0.0, label + np.linspace(0, 0.5, 72), np.arange(72.0)])
    scores = xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)})
    comparison = ap.compare(scores, method="influence")
    assert comparison["estimate"].values[:2].tolist() == [1, 1]
    assert comparison["difference"].values[0, 1] == 0
    assert comparison["interval"].values[0, 1, 1] > 0.05
    assert comparison["p_value"].values[0, 1] == 1 > comparison["p_value"].values[0, 2]


def test_influence_covers_with_ten_positives() -> None:
    """400 samples of 10 positives, of two models whose areas are 0.984 and 0.887: influences alone cover 0.78."""
    random = np.random.default_rng(3)
    label = np.repeat([1, 0], [10, 90])
    score = random.normal(size=(1, 400, 100)) + random.normal(size=(2, 400, 100))
    score = score / np.sqrt(2) + np.array([4.0, 3.0])[:, None, None] * label
    scores = xr.Dataset({"score": (("model", "query", "item"), score), "label": ("item", label)})
    found = ap.covariance(scores)
    truth = [ap.simulate.binormal(mean, 1).area(0.1) for mean in (4, 3)]
    difference = found["estimate"].diff("model").values[0]
    deviation = difference - (truth[1] - truth[0])
    alone = errors_of_differences(found["covariance"]).transpose("query", ...).values[:, 0, 1]
    covered_alone = np.mean(np.abs(deviation) <= stats.norm.ppf(0.975) * alone)
    variances = (found[f"{name}_variance"].transpose("query", ...).values[:, 0, 1] for name in ("difference", "outer"))
    inner, outer = (stats.t(19).ppf(0.975) * np.sqrt(variance) for variance in variances)
    is_inside = np.where(deviation * difference > 0, np.abs(deviation) <= inner, np.abs(deviation) <= outer)
    assert covered_alone < 0.85 < 0.94 < is_inside.mean()


def test_items_of_fixed_queries() -> None:
    scores = queried(4, 5, 60)
    result = ap.evaluate(scores, missing="drop", interval=(), keep_replicates=True)
    comparison = ap.compare(result, over="items")
    replicate = result["replicate"].transpose("model", "query", "resample").values.mean(axis=1)
    errors = (replicate[:, None] - replicate[None]).std(axis=-1, ddof=1)
    np.testing.assert_allclose(comparison["standard_error"], errors, rtol=1e-9, atol=1e-15)
    assert "fixed: the 4 models, the 5 queries" in comparison.attrs["design"]
    influence = ap.compare(scores, over="items", method="influence", missing="drop")
    first, second = np.triu_indices(4, 1)
    common = on_common_items(scores, ComparisonOptions(), EvaluationOptions(missing="drop"))
    covariance = ap.covariance(common, missing="drop")["covariance"].mean("query") / 5
    of_influence = errors_of_differences(covariance).values[first, second]
    assert (np.abs(of_influence / errors[first, second] - 1) < 0.25).all()
    n = scores["label"].where(scores["label"] >= 0).sum("item").values
    degrees = np.sum(1 / n) ** 2 / np.sum(1 / n**2 / (n + 9))
    to_zero = np.abs(influence["interval"].values[0, 1] - influence["difference"].values[0, 1]).min()
    reach = to_zero / influence["standard_error"].values[0, 1]
    np.testing.assert_allclose(reach, stats.t(degrees).ppf(0.975), rtol=1e-9)


def test_both_adds_the_variances_of_units_and_items() -> None:
    scores = queried(3, 12, 80)
    result = ap.evaluate(scores, missing="drop", interval=(), keep_replicates=True, n_resamples=4000)
    error = {
        over: ap.compare(result, over=over, method="bootstrap", n_resamples=4000)["standard_error"].values[0, 1]
        for over in ("query", "items", ("query", "items"))
    }
    np.testing.assert_allclose(error["query", "items"], np.hypot(error["query"], error["items"]), rtol=0.06)


# Data sets


def forest(n_data_sets: int = 6) -> xr.DataTree:
    nodes = {f"d{i}": result_of(areas_of(4, 3, seed=i)) for i in range(n_data_sets)}
    nodes["d1"] = nodes["d1"].isel(model=[2, 0, 3, 1])
    return xr.DataTree.from_dict(nodes)


def test_data_sets_are_units_matched_by_label() -> None:
    tree = forest()
    means = np.stack([tree[f"d{i}"]["estimate"].sel(model=["m0", "m1", "m2", "m3"]).mean("query") for i in range(6)])
    comparison = ap.compare(tree, over="dataset", method="t")
    expected = stats.ttest_rel(means[:, 0, 0], means[:, 2, 0]).pvalue
    np.testing.assert_allclose(cells(comparison, "m0", "m2")["p_value"], expected, rtol=1e-9)
    assert comparison["n_units"] == 6
    assert (
        comparison.attrs["design"]
        == "sample: 6 data sets, each with its items; fixed: the 4 models; exact if differences are normal"
    )
    mean = ap.aggregate(tree, over="dataset")
    np.testing.assert_allclose(mean["estimate"], means.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(mean["standard_error"], stats.sem(means, axis=0), rtol=1e-12)
    assert (mean["n_datasets"] == 6).all()


def test_a_tree_is_compared_node_by_node() -> None:
    tree = forest()
    comparison = ap.compare(tree, "m1")
    assert isinstance(comparison, xr.DataTree)
    expected = ap.compare(tree["d1"].to_dataset(), "m1")
    expected.attrs["summary"] += f"; each of the {len(tree.children)} data sets is a family of its own"
    xr.testing.assert_identical(comparison["d1"].to_dataset(), expected)


def test_a_model_that_lacks_a_data_set_is_named() -> None:
    tree = forest(3)
    tree["d2"] = xr.DataTree(tree["d2"].to_dataset().isel(model=[0, 1, 3]))
    expected = (
        "some models lack the estimate of some data sets, so their means are not over the same data sets\n"
        "  received: 'm2' lacks data set 'd2'\n"
        "  remedy: leave those data sets out for all models: incomplete='drop'; "
        "or leave these models out: incomplete='drop_models'"
    )
    for function in (ap.compare, ap.aggregate):
        with pytest.raises(AlignmentError) as caught:
            function(tree, over="dataset")
        assert str(caught.value) == expected
    comparison = ap.compare(tree, over="dataset", incomplete="drop")
    assert comparison.attrs["left_out"] == ["d2"]
    assert comparison["n_units"] == 2
    mean = ap.aggregate(tree, over="dataset", incomplete="drop")
    assert (mean["n_datasets"] == 2).all()


# Missing and undefined estimates


def test_a_query_without_positives_is_left_out_and_counted(result: xr.Dataset) -> None:
    undefined = result.copy(deep=True)
    undefined["estimate"][:, 3] = np.nan
    comparison = ap.compare(undefined)
    xr.testing.assert_equal(comparison, ap.compare(result.drop_sel(query="q3")))
    assert comparison.attrs["left_out"] == ["q3"]
    assert comparison["n_units"] == 19


def test_a_query_that_some_models_lack_is_an_error_or_left_out(result: xr.Dataset) -> None:
    partial = result.copy(deep=True)
    partial["estimate"][2, [3, 5]] = np.nan
    partial["estimate"][4, 5] = np.nan
    with pytest.raises(AlignmentError) as caught:
        ap.compare(partial)
    assert str(caught.value) == (
        "some models lack the estimate of some queries, so their means are not over the same queries\n"
        "  received: 'm2' lacks queries 'q3', 'q5'; 'm4' lacks query 'q5'\n"
        "  remedy: leave those queries out for all models: incomplete='drop'; "
        "or leave these models out: incomplete='drop_models'"
    )
    dropped = ap.compare(partial, incomplete="drop")
    xr.testing.assert_equal(dropped, ap.compare(result.drop_sel(query=["q3", "q5"])))
    assert dropped.attrs["left_out"] == ["q3", "q5"]
    with pytest.raises(AlignmentError, match="'m4' lacks query 'q5'"):
        ap.aggregate(partial, incomplete="raise")
    assert (ap.aggregate(partial, incomplete="drop")["n_queries"] == 18).all()
    assert ap.aggregate(partial)["n_queries"].values.ravel().tolist() == [20, 20, 18, 20, 19, 20]


def test_a_model_without_an_estimate_is_an_error_or_left_out(kept: xr.Dataset) -> None:
    kept["estimate"][1] = np.nan
    with pytest.raises(AlignmentError, match="some models have no estimate\n  received: 'm1'\n"):
        ap.compare(kept)
    comparison = ap.compare(kept, incomplete="drop")
    assert comparison.attrs["left_out"] == ["m1"]
    assert list(comparison["model"].values) == ["m0", "m2", "m3", "m4"]


# Ranks


@pytest.mark.smoke
def test_ranks_follow_from_the_simultaneous_intervals(result: xr.Dataset) -> None:
    for method in ("sign_flip", "bootstrap", "influence"):
        options = {"method": method, "n_resamples": RESAMPLES}
        data = pooled(6, 200) if method == "influence" else result
        ranks, comparison = ap.rank(data, **options), ap.compare(data, **options)
        bounds = comparison["simultaneous_interval"].values
        better, worse = (bounds[..., 1] < 0).sum(axis=1), (bounds[..., 0] > 0).sum(axis=1)
        found = ranks["simultaneous_rank_interval"].values
        np.testing.assert_array_equal(found, np.stack([1 + better, 6 - worse], axis=1))
        marginal = ranks["rank_interval"].values
        assert (marginal[:, 0] >= found[:, 0]).all()
        assert (marginal[:, 1] <= found[:, 1]).all()
        assert ((marginal[:, 0] <= ranks["rank"]) & (ranks["rank"] <= marginal[:, 1])).all()
        assert float(ranks["probability_best"].sum()) == pytest.approx(1)
        order = np.argsort(-ranks["estimate"].values)
        groups = [
            {int(i) for i in order if ranks["first_group"][i] <= g <= ranks["last_group"][i]}
            for g in range(1, ranks.attrs["n_groups"] + 1)
        ]
        different = (bounds[..., 0] > 0) | (bounds[..., 1] < 0)
        for group in groups:
            assert not any(different[i, j] for i, j in combinations(group, 2))
        assert all(different[i, j] or any({i, j} <= group for group in groups) for i, j in pairwise(order))
        assert "adjust" not in ranks.attrs


def test_ranks_of_items_and_of_the_accessor(kept: xr.Dataset) -> None:
    ranks = ap.rank(kept)
    assert ranks.attrs["design"].startswith("resampled: the items with their labels, 1,000 times")
    replicate = kept["replicate"].isel(estimator=0).transpose("model", "resample").values
    best = np.bincount(replicate.argmax(axis=0), minlength=5) / 1000
    np.testing.assert_allclose(ranks["probability_best"], best, atol=1e-12)
    xr.testing.assert_identical(kept.aucpr.rank(), ranks)
    xr.testing.assert_identical(kept.aucpr.compare("m1"), ap.compare(kept, "m1"))
    assert ap.rank(pooled(4, 100), method="influence")["rank"].sum() == 10
    with pytest.raises(
        InvalidInputError, match="unknown method for ranks: 't'\n  where: option 'method'\n  received: 't'"
    ):
        ap.rank(kept, method="t")


def test_equal_models_share_their_rank() -> None:
    areas = areas_of(3, 15)
    ranks = ap.rank(result_of(np.stack([areas[2], areas[0], areas[2]])))
    np.testing.assert_array_equal(ranks["rank"], [1.5, 3, 1.5])
    np.testing.assert_array_equal(ranks["probability_best"][0], ranks["probability_best"][2])


# Means


def values_of_queries(values: Any) -> xr.Dataset:
    values = np.atleast_2d(np.asarray(values, float))
    models = [f"m{i}" for i in range(len(values))]
    return xr.Dataset({"estimate": (("model", "query"), values)}, coords={"model": models})


def test_a_mean_of_areas_has_the_score_interval_of_a_design_effect() -> None:
    values = np.random.default_rng(3).beta(0.7, 1.5, size=(3, 12))
    bounds = ap.aggregate(values_of_queries(values), level=0.9)["interval"].values
    for row, ends in zip(values, bounds, strict=True):
        mean, ratio = row.mean(), row.var(ddof=1) / (row.mean() * (1 - row.mean()))
        for end in ends:  # as far from the mean as its own error says
            reach = stats.t.ppf(0.95, 11) * np.sqrt(ratio * end * (1 - end) / 12)
            np.testing.assert_allclose(abs(mean - end), reach, rtol=1e-10)
        assert ends[0] < mean < ends[1]


@pytest.mark.parametrize("over", ["query", "dataset"])
@pytest.mark.parametrize("method", [None, "t", "bootstrap"])
def test_means_are_inside_their_range_with_a_width(method: str | None, over: str) -> None:
    rows = [[0] * 8, [1] * 8, [0.3] * 8, [0] * 7 + [1], [1] * 7 + [0.2]]
    result = values_of_queries(rows)
    if over == "dataset":
        result = xr.DataTree.from_dict({str(i): result.isel(query=i, drop=True) for i in range(8)})
    mean = ap.aggregate(result, over=over, method=method)
    lower, upper = mean["interval"].transpose("ci_bound", ...).values
    assert ((lower >= 0) & (lower < upper) & (upper <= 1)).all()
    assert ((lower <= mean["estimate"]) & (mean["estimate"] <= upper)).all()
    beyond = ap.aggregate(values_of_queries([[3.0] * 4, [1, 2, 3, 4]]), method=method)
    assert beyond["interval"].isnull().all("ci_bound").values.tolist() == [True, False]  # nothing varies
    if method is None:
        assert beyond.attrs["method"] == "t"
        with pytest.raises(InvalidInputError, match="values from 0 to 1"):
            ap.aggregate(values_of_queries([[1, 2, 3, 4]]), method="score")


def test_areas_that_may_be_negative_keep_students_t() -> None:
    mean = ap.aggregate(queried(2, 12, 60), estimator=["average_precision", "gain_area"])
    alone = ap.aggregate(queried(2, 12, 60), estimator=["gain_area"], method="t")
    np.testing.assert_array_equal(mean["interval"].sel(estimator=["gain_area"]), alone["interval"])
    assert not np.array_equal(
        mean["interval"].sel(estimator="average_precision"),
        ap.aggregate(queried(2, 12, 60), method="t")["interval"],
    )


@pytest.mark.parametrize("n", [8, 20, 50])
def test_intervals_of_means_cover(n: int) -> None:
    """Student's covered 0.58 to 0.92 of the first two."""
    random, shape = np.random.default_rng(n), (3000, n)
    worlds = [
        ((random.random(shape) < 0.1) * 1.0, 0.1),
        ((random.random(shape) < 0.15) / np.minimum(random.geometric(0.4, shape), 10), None),
        (random.beta(2, 3, shape), 0.4),
        ((random.random(shape) > 0.3) * random.beta(4, 2, shape), 0.7 * 2 / 3),
        ((random.random(shape) < 0.5) * 1.0, 0.5),
    ]
    shares = 0.4 * 0.6 ** np.arange(9)
    found_once = 0.15 * ((shares / np.arange(1, 10)).sum() + (1 - shares.sum()) / 10)
    for values, mean in worlds:
        found = ap.aggregate(values_of_queries(values))
        lower, upper = found["interval"].values.T
        covered = (lower <= (mean or found_once)) & ((mean or found_once) <= upper)
        is_flagged = found.aucpr.flagged("few_units")["few_units"].values
        assert covered.mean() > 0.935 or is_flagged.mean() > 0.2
        if mean is not None:
            assert covered.mean() > 0.945 - 2 * np.sqrt(0.05 * 0.95 / 3000)
    skewed = ap.aggregate(values_of_queries(random.beta(0.2, 3, shape))).aucpr.flagged("few_units")["few_units"]
    assert float(skewed.mean()) > {8: 0.6, 20: 0.5, 50: 0.1}[n]


def test_bootstrap_mean_is_plain_numpy(result: xr.Dataset) -> None:
    result["estimate"][:, 4] = np.nan
    mean = ap.aggregate(result, method="bootstrap", n_resamples=500, seed=2, level=0.9)
    names = sorted(set(result["query"].values) - {"q4"})
    counts = multiplicities(len(names), 500, 2)
    replicates = result["estimate"].sel(query=names).values[..., 0] @ counts.T / 19
    bounds = np.quantile(replicates, [0.05, 0.95], axis=1).T
    np.testing.assert_allclose(mean["interval"].values[:, 0], bounds, rtol=1e-10)
    np.testing.assert_allclose(mean["standard_error"].values[:, 0], replicates.std(axis=1, ddof=1), rtol=1e-10)
    lazy = ap.aggregate(result.chunk({"model": 2, "query": 7}), method="bootstrap", n_resamples=500, seed=2, level=0.9)
    assert lazy["interval"].chunks is not None
    xr.testing.assert_identical(lazy.compute(), mean)
    mixed = result.isel(query=np.random.default_rng(0).permutation(20), model=[4, 1])
    again = ap.aggregate(mixed, method="bootstrap", n_resamples=500, seed=2, level=0.9)
    xr.testing.assert_equal(again["interval"], mean["interval"].isel(model=[4, 1]))


def test_means_of_fixed_queries() -> None:
    scores = queried(3, 6, 60)
    result = ap.evaluate(scores, missing="drop", interval="influence_logit_t", keep_replicates=True)
    normal = ap.aggregate(result, over="items")
    error = np.sqrt((result["standard_error"].values ** 2).sum(axis=1)) / 6
    np.testing.assert_allclose(normal["standard_error"], error, rtol=1e-12)
    alone = result.copy()
    alone.attrs = {name: value for name, value in result.attrs.items() if type(name) is str}  # does not know its scores
    reach = stats.norm.ppf(0.975) * error
    plain = ap.aggregate(alone, over="items")
    np.testing.assert_allclose(plain["interval"].values[..., 1] - plain["estimate"], reach, rtol=1e-9)
    assert plain.aucpr.flagged("few_positives")["few_positives"].all()
    unbiased = ap.evaluate(scores, "haldane", missing="drop")
    centre, of_centre = unbiased["estimate"].values.mean(axis=1), unbiased["standard_error"].values
    error = np.maximum(error, np.sqrt((of_centre**2).sum(axis=1)) / 6)
    reach = stats.t.ppf(0.975, result["n_positive"].values.mean(axis=-1) - 1) * error
    np.testing.assert_allclose(normal["interval"].values[..., 0], centre - reach, rtol=1e-9)
    upper = np.maximum(centre + reach, normal["estimate"])
    np.testing.assert_allclose(normal["interval"].values[..., 1], upper, rtol=1e-9)
    bootstrap = ap.aggregate(result, over="items", method="bootstrap")
    replicates = result["replicate"].mean("query").transpose("model", "resample").values
    np.testing.assert_allclose(
        bootstrap["interval"], np.moveaxis(np.quantile(replicates, [0.025, 0.975], axis=-1), 0, -1)
    )
    both = ap.aggregate(result, over=("query", "items"))
    students = ap.aggregate(result)["standard_error"] * np.sqrt(5 / 6)  # the bootstrap divides by q
    np.testing.assert_allclose(both["standard_error"], np.hypot(students, bootstrap["standard_error"]), rtol=0.12)
    xr.testing.assert_identical(ap.aggregate(result.chunk({"model": 1}), over=("query", "items")).compute(), both)


@pytest.mark.parametrize("method", ["normal", "logit"])
def test_means_of_fixed_queries_at_another_level_than_the_result(method: str) -> None:
    result = ap.evaluate(queried())
    ours = ap.aggregate(result, over="items", method=method, level=0.8)
    assert ours["level"] == 0.8
    usual = ap.aggregate(result, over="items", method=method)
    assert (ours["interval"].isel(ci_bound=0) > usual["interval"].isel(ci_bound=0)).all()


def test_a_mean_of_one_data_set_by_its_items(kept: xr.Dataset) -> None:
    mean = ap.aggregate(kept, over="items", method="bootstrap")
    bounds = np.quantile(kept["replicate"].transpose("model", "estimator", "resample").values, [0.025, 0.975], axis=-1)
    np.testing.assert_allclose(mean["interval"], np.moveaxis(bounds, 0, -1), rtol=1e-12)


def test_micro_is_one_ranking_of_all_items() -> None:
    scores = queried(3, 4, 30)
    pooled_scores = scores["score"].transpose("model", "query", "item").values.reshape(3, -1)
    expected = ap.estimate(pooled_scores, scores["label"].values.ravel(), missing="drop")
    micro = ap.aggregate(scores, how="micro", missing="drop")
    np.testing.assert_array_equal(micro["estimate"].values, expected)
    of_all = "one ranking of the items of 4 queries; "
    assert (
        micro.attrs["design"]
        == f"{of_all}sample: the queries, each with its items, nothing resampled; fixed: the models"
    )
    clusters = scores.aucpr.aggregate(how="micro", missing="drop", interval="bootstrap")
    how = "resampled: the queries, each with its items, 1,000 times; fixed: the models"
    assert clusters.attrs["design"] == of_all + how
    few: dict[str, Any] = {"interval": "bootstrap", "n_resamples": 50, "seed": 3, "prevalence_design": "fixed"}
    items = ap.aggregate(scores, how="micro", missing="drop", over="items", **few)
    fixed = "fixed: the models, these queries, the numbers of positives and negatives"
    assert items.attrs["design"] == f"{of_all}resampled: the items, 50 times; {fixed}"
    assert items.attrs["seed"] == 3
    lazy = ap.aggregate(scores.chunk({"model": 1, "query": 2}), how="micro", missing="drop")
    xr.testing.assert_identical(lazy.compute(), micro)
    counted = scores.assign(n_positive=("query", (scores["label"] == 1).sum("item").values + 1))
    np.testing.assert_array_equal(
        ap.aggregate(counted, how="micro", missing="drop")["n_positive"], micro["n_positive"] + 4
    )


def test_micro_needs_scores(result: xr.Dataset) -> None:
    with pytest.raises(InvalidInputError) as caught:
        ap.aggregate(result, how="micro")
    assert str(caught.value) == (
        "a pooled ranking of all queries needs their scores\n"
        "  received: a result, which holds one estimate for each query\n"
        "  remedy: aggregate(scores, how='micro', ...), with scores that can be compared between queries"
    )


def test_the_mean_of_an_unknown_error_is_unknown() -> None:
    """Without replicates, the error of an estimator without an influence function is NaN, not 0."""
    result = ap.evaluate(queried(3, 3, 40), ["average_precision", "discrete"], "logit", missing="drop")
    mean = ap.aggregate(result, over="items")
    assert np.isfinite(mean["interval"].sel(estimator="average_precision")).all()
    assert mean["interval"].sel(estimator="discrete").isnull().all()
    assert "NaN where a standard error is not known" in mean.attrs["design"].split("; ")


def test_an_undefined_resample_is_not_a_mean_of_fewer_queries() -> None:
    result = ap.evaluate(queried(3, 3, 40), missing="drop", keep_replicates=True, n_resamples=30)
    result["replicate"][:, 1, 7] = np.nan
    mean = ap.aggregate(result, over="items", method="bootstrap")
    assert mean["interval"].isnull().all()
    assert "NaN where a resample has no estimate" in mean.attrs["design"].split("; ")
    for function in (ap.compare, ap.rank):
        with pytest.raises(InvalidInputError) as caught:
            function(result, over="items", method="bootstrap")
        assert str(caught.value).startswith("some resamples have no estimate: no positive was drawn, or scores without")
        assert "of 30 resamples without an estimate 'm0': 1, 'm1': 1, 'm2': 1\n" in str(caught.value)
        assert "over='items'" in str(caught.value)


@pytest.mark.parametrize("is_lazy", [False, True])
def test_data_sets_without_queries_have_the_interval_of_the_level(is_lazy: bool) -> None:
    scores = pooled(4, 60).chunk({"model": 2}) if is_lazy else pooled(4, 60)
    result = ap.evaluate(scores, interval=["wilson", "logit"])
    same = ap.aggregate(result)
    np.testing.assert_array_equal(same["interval"], result["interval"].isel(interval_method=0))
    np.testing.assert_array_equal(same["standard_error"], result["standard_error"])
    assert same.attrs["design"] == (
        "sample: the items of one ranking, no queries to average over; interval of the result: wilson; "
        "fixed: the 4 models"
    )
    assert (same.attrs["method"], same.attrs["level"], same.attrs["over"]) == ("wilson", 0.95, "items")
    in_clusters = ap.aggregate(scores.assign(cluster=("item", np.arange(60) // 3)))
    assert in_clusters.attrs["design"].startswith("sample: the clusters of one ranking, no queries to average over;")
    assert in_clusters.attrs["over"] == "clusters"
    wider = ap.aggregate(result, level=0.99)
    expected = ap.evaluate(scores, interval="wilson", level=0.99)["interval"]
    np.testing.assert_array_equal(wider["interval"], expected)
    assert wider["level"] == wider["interval"].attrs["ci_prob"] == wider.attrs["level"] == 0.99
    bootstrap = ap.evaluate(scores, interval="bootstrap", n_resamples=50)
    assert np.isfinite(ap.aggregate(bootstrap)["interval"]).all()
    unknown = ap.aggregate(bootstrap, level=0.99)
    assert unknown["interval"].isnull().all()
    assert "no interval at level 0.99: bootstrap of the result has level 0.95" in unknown.attrs["design"]


def test_means_describe_their_sample(result: xr.Dataset) -> None:
    result["estimate"][:, 4] = np.nan
    for options in ({}, {"incomplete": "drop"}, {"method": "bootstrap", "n_resamples": 50}):
        mean = ap.aggregate(result, **options)
        assert "queries with an estimate (up to 20), each with its items" in mean.attrs["design"]
        assert (mean["n_queries"] == 19).all()
        assert mean.attrs["over"] == "query"
        assert mean.attrs["estimator"] == "average_precision"
        assert "numpy" in mean.attrs["versions"]
    lazy = ap.aggregate(result.chunk({"model": 2}))
    xr.testing.assert_identical(lazy.compute(), ap.aggregate(result))


def test_data_sets_that_share_no_model() -> None:
    nodes = {f"d{i}": result_of(areas_of(2, 3, seed=i), models=[f"{i}{letter}" for letter in "ab"]) for i in range(3)}
    for function in (ap.aggregate, ap.compare):
        with pytest.raises(AlignmentError, match=r"every data set lacks some model(.|\n)*'d0' has 2 of 6 models; 'd1'"):
            function(xr.DataTree.from_dict(nodes), over="dataset", incomplete="drop")


def test_queries_of_which_each_lacks_some_model(result: xr.Dataset) -> None:
    result["estimate"][0, ::2] = np.nan
    result["estimate"][1, 1::2] = np.nan
    for function in (ap.aggregate, ap.compare):
        with pytest.raises(AlignmentError, match="all queries lack the estimate of some model, so incomplete='drop'"):
            function(result, incomplete="drop")


def test_means_of_scores() -> None:
    scores = queried(3, 5, 40)
    expected = ap.aggregate(ap.evaluate(scores, missing="drop"))
    xr.testing.assert_identical(ap.aggregate(scores, missing="drop"), expected)
    xr.testing.assert_identical(scores.aucpr.aggregate(missing="drop"), expected)
    kept = ap.evaluate(scores, missing="drop", keep_replicates=True, n_resamples=60, seed=2)
    again = ap.aggregate(scores, missing="drop", over="items", method="bootstrap", n_resamples=60, seed=2)
    xr.testing.assert_identical(again, ap.aggregate(kept, over="items", method="bootstrap"))
    others = ap.aggregate(scores, missing="drop", over="items", estimator=["average_precision", "continuous"])
    assert np.isfinite(others["interval"]).all()
    with pytest.raises(InvalidInputError, match="these are options of an evaluation"):
        ap.aggregate(expected, missing="drop")
    with pytest.raises(TypeError, match=r"aggregate\(\) got .* 'methd'; did you mean 'method'\?"):
        ap.aggregate(scores, methd="t")
    with pytest.raises(InvalidInputError, match="neither a result nor scores"):
        ap.aggregate(xr.Dataset({"x": ("model", [1.0])}))


# Errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"baseline": "m11"},
            "there is no model 'm11'; did you mean 'm1'?\n  where: argument 'baseline'\n  received: 'm11'\n",
        ),
        ({"baseline": ["m1", "m1"]}, "name one or more models, each once"),
        ({"baseline": []}, "name one or more models, each once"),
        ({"baseline": 3}, "there is no model '3'; did you mean 'm3'?\n  where: argument 'baseline'\n  received: '3'"),
        (
            {"estimator": "continuous"},
            "this estimator is not in the result\n  where: option 'estimator'\n  received: 'continuous'",
        ),
        ({"method": "influence"}, "method='influence' needs the scores"),
        ({"over": "items"}, "this needs resamples of the items"),
        ({"over": "items", "method": "t"}, "unknown method for over='items'"),
        ({"over": ("query", "items")}, "where: over=('query', 'items')"),
        ({"method": "t", "adjust": "max_t"}, "adjust='max_t' needs joint replicates"),
        ({"over": "dataset"}, "there are no data sets to average over"),
        ({"ties": "group"}, "these are options of an evaluation"),
    ],
)
def test_refusals(result: xr.Dataset, options: dict, message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        ap.compare(result, **options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("options", "meant"),
    [
        ({"basline": "m0"}, "; did you mean 'baseline'?"),
        ({"estimators": ["continuous"]}, "; did you mean 'estimator'?"),
        ({"interval": "logit"}, ""),  # of the evaluation, which a comparison asks for what it needs
        ({"keep_replicates": True}, ""),
    ],
)
def test_unknown_options(result: xr.Dataset, options: dict, meant: str) -> None:
    (name,) = options
    with pytest.raises(TypeError) as caught:
        ap.compare(result, **options)
    assert str(caught.value) == f"compare() got an unexpected keyword argument {name!r}{meant}"


def test_options_of_ranks_are_those_of_ranks(result: xr.Dataset) -> None:
    with pytest.raises(TypeError, match=r"rank\(\) got an unexpected keyword argument 'adjust'"):
        ap.rank(result, adjust="holm")
    with pytest.raises(InvalidInputError, match="method='influence' has no such option\n  received: 'ties'"):
        ap.compare(pooled(), method="influence", ties="group")


FOLDS = pd.DataFrame(np.random.default_rng(0).random((3, 6)), index=pd.Index(["a", "b", "c"], name="model"))
OF_FOLDS: dict[str, Any] = {
    "word": lambda: ap.from_values(
        FOLDS.stack().rename_axis(["model", "fold"]).rename("value").reset_index(), query="fold"
    ),
    "names": lambda: ap.from_values(FOLDS.rename(columns="split{}_test_score".format).reset_index()),
    "dimension": lambda: xr.Dataset({"estimate": (("model", "fold"), FOLDS.values)}),
    "data sets": lambda: xr.DataTree.from_dict(
        {f"fold {i}": xr.Dataset({"estimate": ("model", FOLDS[i])}, {"model": FOLDS.index}) for i in FOLDS}
    ),
}


@pytest.mark.parametrize("kind", OF_FOLDS)
@pytest.mark.parametrize("function", [ap.compare, ap.rank, ap.aggregate, ap.power, ap.audit, ap.gate])
def test_folds_and_repeats_are_no_units(function: Callable[..., Any], kind: str) -> None:
    data, options = OF_FOLDS[kind](), {"over": "dataset"} if kind == "data sets" else {}
    options |= {"candidate": "a", "baseline": "b"} if function is ap.gate else {}
    if (
        function in (ap.compare, ap.power) and kind == "dimension"
    ):  # these are folds for certain, which have a test of their own
        assert function(data).attrs["method"] == "corrected_t"
    else:
        with pytest.raises(InvalidInputError, match=r"folds and repeats [\s\S]*remedy: compare out-of-fold scores"):
            function(data, **options)
    with pytest.raises(InvalidInputError, match="folds and repeats"):
        function(data, **options | {"over": "repeat"})


def test_queries_in_clusters_are_drawn_together() -> None:
    """Means are over queries; signs of whole clusters are flipped, each is left out for the error and the skewness."""
    scores = queried(3, 12, 40).assign(cluster=("query", list("aaabbbbccdde")))
    plain = ap.compare(scores.drop_vars("cluster"), missing="drop")
    result = ap.evaluate(scores, missing="drop")
    assert result["cluster"].dims == ("query",)
    estimate = result["estimate"].transpose("model", "query")
    difference = estimate[0] - estimate[1]
    sums = difference.groupby("cluster").sum().values
    flipped = np.array(list(product([-1, 1], repeat=sums.size))) @ sums
    for data, options in (
        (scores, {"missing": "drop"}),
        (result, {}),
        (scores.chunk({"model": 1}), {"missing": "drop"}),
    ):
        found = ap.compare(data, **options)
        np.testing.assert_allclose(found["difference"], plain["difference"], atol=1e-15)
        expected = np.mean(np.abs(flipped) >= abs(sums.sum()) - 1e-12)
        assert cells(found, "m0", "m1")["p_value"] == expected
        assert (int(found["n_units"]), "5 clusters of queries" in found.attrs["design"]) == (5, True)
        mean = ap.aggregate(data, **options)
        np.testing.assert_allclose(mean["estimate"].squeeze(), estimate.mean("query"), rtol=1e-15)
        left_out = [estimate[:, estimate["cluster"] != name].mean("query") - estimate.mean("query") for name in "abcde"]
        error = np.sqrt((np.square(left_out)).sum(axis=0) * 4 / 5)
        np.testing.assert_allclose(mean["standard_error"].squeeze(), error, rtol=1e-12)
        n, quantile = 12**2 / 34, stats.t(12**2 / 34 - 1).ppf(0.975)  # effective clusters
        change = -np.array(left_out)
        skewness = 1.5 * (change**3).sum(axis=0) / (change**2).sum(axis=0) ** 1.5 * np.sqrt(n * (n - 1)) / (n - 2)
        longer = np.clip(skewness * (2 * quantile**2 + 1) / 6, -quantile, quantile)
        expected = error * [-quantile + np.minimum(longer, 0), quantile + np.maximum(longer, 0)]
        by_t = ap.aggregate(data, method="t", **options)
        bounds, default = (
            (found["interval"] - mean["estimate"]).squeeze().transpose("ci_bound", "model").values
            for found in (by_t, mean)
        )
        np.testing.assert_allclose(bounds, expected, rtol=1e-9)
        assert (default[0] <= bounds[0] + 1e-12).all()  # and where the score interval reaches further
        assert (bounds[1] <= default[1] + 1e-12).all()
        assert "in 5 clusters, each drawn with all its queries" in mean.attrs["design"]
    ap.rank(scores, missing="drop")
    assert ap.compare(scores, over="items", missing="drop", n_resamples=50).attrs["over"] == "items"


def test_what_cannot_draw_clusters_of_queries_says_so() -> None:
    scores = queried(3, 4, 40).assign(cluster=("query", [0, 0, 1, 1]))
    tree = xr.DataTree.from_dict({"a": scores})
    ways: list[Callable[[], Any]] = [
        lambda: ap.compare(scores, over=("query", "items"), missing="drop"),
        lambda: ap.aggregate(scores, method="bootstrap", missing="drop"),
        lambda: ap.aggregate(scores, how="micro", missing="drop", over="clusters", interval="bootstrap"),
        lambda: ap.compare(tree, auxiliary=tree, missing="drop"),
    ]
    for ask in ways:
        with pytest.raises(InvalidInputError, match="queries in clusters are not independent"):
            ask()


def test_items_of_own_lists_cannot_be_resampled() -> None:
    random = np.random.default_rng(0)
    label = (random.random((3, 4, 20)) < 0.4).astype(np.int8)
    label[..., :2] = 1, 0
    label[1, :, 15:] = -2
    scores = xr.Dataset(
        {
            "score": (("model", "query", "item"), np.where(label == -2, np.nan, random.normal(size=label.shape))),
            "label": (("model", "query", "item"), label),
        }
    )
    with pytest.raises(InvalidInputError, match="each model has its own list of them") as caught:
        ap.compare(ap.evaluate(scores), over="items")
    assert "keep_replicates" not in str(caught.value)
    pooled_layout = ap.evaluate(queried())
    of_items = ap.compare(pooled_layout, over="items")  # from the scores that it was evaluated from
    xr.testing.assert_equal(of_items, ap.compare(queried(), over="items"))


@pytest.mark.parametrize("labels", [[7, 10, 12, 13, 20, 21], None])
def test_baselines_may_be_numbers(result: xr.Dataset, labels: list[int] | None) -> None:
    numbered = result.assign_coords(model=labels) if labels else result.drop_vars("model")
    given = 10 if labels else 1
    expected = ap.compare(result, "m1", method="t")
    for baseline in (given, np.int64(given), [given], np.array([given]), str(given)):
        comparison = ap.compare(numbered, baseline, method="t")
        is_list = isinstance(baseline, list | np.ndarray)
        assert comparison["baseline"].values.tolist() == ([given] if is_list else given)
        np.testing.assert_array_equal(comparison["p_adjusted"].squeeze(), expected["p_adjusted"])


def test_too_little_to_compare(result: xr.Dataset) -> None:
    with pytest.raises(InvalidInputError, match="there is only one model"):
        ap.compare(result.isel(model=[0]))
    with pytest.raises(InvalidInputError, match="one query says nothing about others"):
        ap.compare(result.isel(query=[0]))
    with pytest.raises(InvalidInputError, match="there is nothing to compare"):
        ap.compare(result.where(False))
    with pytest.raises(InvalidInputError, match="neither a result nor scores"):
        ap.compare(xr.Dataset({"x": ("model", [1.0])}))
    tree = xr.DataTree.from_dict({"a": result, "b": result.isel(query=0, drop=True)})
    with pytest.raises(InvalidInputError, match=r"needs resamples of the items(.|\n)*data set: 'b'"):
        ap.compare(tree)


def test_repeated_labels_are_refused(result: xr.Dataset) -> None:
    with pytest.raises(AlignmentError, match="labels of 'model' must be unique"):
        ap.compare(result.isel(model=[0, 0, 1]))


# Stores


@pytest.mark.parametrize("chunk", [None, 4])
def test_a_comparison_is_written_and_opened(result: xr.Dataset, tmp_path: Path, chunk: int | None) -> None:
    comparison = ap.compare(result, equivalence=0.05, chunk=chunk)
    ap.save_comparison(comparison, tmp_path / "c.zarr")
    opened = ap.open_comparison(tmp_path / "c.zarr")
    xr.testing.assert_equal(opened.load(), comparison.compute())
    assert opened.attrs["design"] == comparison.attrs["design"]
    with pytest.raises(StoreError, match="this store holds "):
        ap.open_result(tmp_path / "c.zarr")
    with pytest.raises(StoreError, match="something at this place already"):
        ap.save_comparison(comparison, tmp_path / "c.zarr")
    ap.save_comparison(ap.rank(forest(3)), tmp_path / "c.zarr", overwrite=True)
    assert set(ap.open_comparison(tmp_path / "c.zarr").children) == {"d0", "d1", "d2"}


# Models that lack scores


def with_gaps(share: float = 0.6) -> xr.Dataset:
    """Return two models that rank alike, of which b lacks the scores of many negatives."""
    rng = np.random.default_rng(8)
    label = np.repeat([1, 0], [40, 360]).astype(np.int8)
    score = np.tile(rng.normal(size=400) + 1.2 * label, (2, 1))
    score[1, (label == 0) & (rng.random(400) < share)] = np.nan
    return xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)}, coords={"model": ["a", "b"]})


@pytest.mark.parametrize("options", [{}, {"method": "influence"}])
def test_models_that_lack_items_are_compared_on_common_items(options: dict[str, str]) -> None:
    scores = with_gaps()
    n_common = int(scores["score"].notnull().all("model").sum())
    comparison = ap.compare(scores, "a", missing="drop", **options)
    assert (comparison["difference"] == 0).all()
    assert (comparison["p_value"] == 1).all()
    assert comparison.attrs["gaps"].startswith(f"on the {n_common} of 400 items that all scored: ")
    common = scores.isel(item=scores["score"].notnull().all("model").values)
    assert comparison["estimate"].sel(model="b") == ap.estimate(common["score"][1], common["label"])
    chunked = ap.compare(scores.chunk({"model": 1}), "a", missing="drop", **options)
    xr.testing.assert_identical(chunked, comparison)


def test_ranks_and_means_over_data_sets_use_common_items() -> None:
    tree = xr.DataTree.from_dict({"x": with_gaps(0.6), "y": with_gaps(0.2), "z": with_gaps(0.0)})
    ranks = ap.rank(tree["x"].to_dataset(), missing="drop")
    assert ranks["rank"].values.tolist() == [1.5, 1.5]
    over = ap.compare(tree, over="dataset", missing="drop")
    assert (over["difference"] == 0).all()
    n_common = sum(int(node["score"].notnull().all("model").sum()) for node in tree.values())
    assert f"on the {n_common:,} of 1,200 items" in over.attrs["design"]


def test_a_model_without_any_score_does_not_empty_the_others() -> None:
    scores = with_gaps(0.0)
    nothing = scores.isel(model=[0]).assign_coords(model=["c"])
    nothing["score"][:] = np.nan
    three = xr.concat([scores, nothing], "model", data_vars="minimal")
    comparison = ap.compare(three, missing="drop", incomplete="drop")
    assert comparison["model"].values.tolist() == ["a", "b"]
    assert comparison.attrs["models_left_out"] == ["c"]
    assert comparison.attrs["design"].endswith("; left out, without an estimate: 'c'")


@pytest.mark.parametrize("function", [ap.compare, ap.rank])
def test_results_on_different_items_are_refused(function: Callable[..., Any]) -> None:
    scores = with_gaps()
    result = ap.evaluate(scores, missing="drop", keep_replicates=True, n_resamples=50)
    assert function(result).drop_attrs().equals(function(scores, missing="drop").drop_attrs())
    result["estimate"][:] += 1e-6  # these scores do not give it
    with pytest.raises(AlignmentError, match="models that lack different items cannot be compared") as caught:
        function(xr.DataTree.from_dict({"x": result}))
    for part in ("where: data set 'x'", "'b' lacks 2", "allowed: ", "remedy: pass the scores in place of the result"):
        assert part in str(caught.value)
    whole = ap.evaluate(with_gaps(0.0), missing="drop", keep_replicates=True, n_resamples=50)
    assert (function(whole)["estimate"].diff("model") == 0).all()


def tree_with_gaps(n_queries: int = 0, seed: int = 5) -> xr.DataTree:
    """Six data sets; the model c has scores in the first alone, and lacks the positives of the second."""
    random, nodes = np.random.default_rng(seed), {}
    for number in range(6):
        shape = (n_queries, 40) if n_queries else (60 + 20 * number,)
        label = (random.random(shape) < 0.3).astype(np.int8)
        label[..., :3] = [1, 0, 1]
        score = random.normal(label * np.array([0.5, 1.0, 1.0]).reshape(3, *np.ones(label.ndim, int)), 1)
        score[2] = score[2] if number == 0 else np.where(label + (number > 1) > 0, np.nan, score[2])
        dims = ("query", "item")[2 - label.ndim :]
        coords = {"model": ["a", "b", "c"]} | ({"query": [f"q{i}" for i in range(n_queries)]} if n_queries else {})
        nodes[f"d{number}"] = xr.Dataset({"score": (("model", *dims), score), "label": (dims, label)}, coords)
    return xr.DataTree.from_dict(nodes)


@pytest.mark.slow
@pytest.mark.sparse
@pytest.mark.parametrize("n_queries", [0, 10])
@pytest.mark.parametrize("method", [None, "t", "bootstrap_t"])
def test_a_model_that_is_left_out_costs_the_others_nothing(method: str | None, n_queries: int) -> None:
    tree, asked = tree_with_gaps(n_queries), {"over": "dataset", "missing": "drop", "method": method}
    with pytest.raises(AlignmentError, match="'c' lacks data sets 'd1'"):
        ap.compare(tree, "a", **asked)
    found = ap.compare(tree, "a", incomplete="drop_models", **asked)
    pairs = {name: node.to_dataset().sel(model=["a", "b"]) for name, node in tree.items()}
    alone = ap.compare(xr.DataTree.from_dict(pairs), "a", **asked)
    xr.testing.assert_identical(found.drop_attrs(deep=False), alone.drop_attrs(deep=False))
    assert found.attrs["models_left_out"] == ["c"]
    assert found.attrs["gaps"] == "left out: 'c', which lacks 5 of 6 data sets"


@pytest.mark.parametrize("method", ["influence", "bootstrap", "corrected_t"])
@pytest.mark.parametrize("by", [None, "site"])
def test_items_that_a_model_lacks_are_counted_by_model(by: str | None, method: str) -> None:
    scores = with_gaps().assign(fold=("item", np.arange(400) % 5)).assign_coords(site=("item", list("uv") * 200))
    scores["score"][:, [3, 8, 41]] = np.nan  # which no model scored
    found = ap.compare(scores, "a", by=by, missing="drop", method=method, **({} if by is None else {"n_resamples": 50}))
    lacked, label = scores["score"].isnull(), scores["label"] == 1
    by_any = ~lacked.all("model")
    for name, counted in {"n_missing": by_any & lacked, "n_missing_positive": by_any & lacked & label}.items():
        expected = counted.sum("item") if by is None else counted.groupby(by).sum("item")
        np.testing.assert_array_equal(found[name], expected.transpose(*found[name].dims))
    n_unscored = (~by_any).sum("item") if by is None else (~by_any).groupby(by).sum("item")
    np.testing.assert_array_equal(found["n_unscored"], n_unscored)
    n_common = (~lacked).all("model")
    np.testing.assert_array_equal(found["n_compared"], n_common.sum() if by is None else n_common.groupby(by).sum())
    designs = [str(found.attrs["design"])] if by is None else found["design"].values.tolist()
    for n, unscored, one in zip(*map(np.atleast_1d, (found["n_compared"], n_unscored)), designs, strict=True):
        assert f"on the {n} of" in one
        assert f"without {unscored} item{'' if unscored == 1 else 's'} that no model scored (" in one


def test_queries_that_some_models_lack_are_said_everywhere(result: xr.Dataset) -> None:
    result["estimate"][1, [3, 5]] = np.nan
    result["estimate"][:, 7] = np.nan
    said = ["left out: 2 of 20 queries ('q3', 'q5'), of which 'm1' lacks 2", "any model: 1 of 20 queries ('q7')"]
    two, asked = result.isel(model=[0, 1]), {"incomplete": "drop"}
    texts = [ap.compare(result, **asked).attrs["design"], ap.rank(result, **asked).attrs["design"]]
    texts += [ap.power(result, **asked).attrs["summary"], ap.letters(result, **asked).caption.lower()]
    texts += [ap.gate(two, "m1", "m0", **asked).sentence, ap.friedman(result, over="query", **asked).attrs["design"]]
    for text in texts:
        assert all(one in text for one in said), text
    clusters = result.assign_coords(cluster=("query", list("abcde") * 4))
    assert all(one in ap.compare(clusters, **asked).attrs["design"] for one in said)
    kept = clusters.isel(query=[i for i in range(20) if i not in (3, 5)])
    same = ap.compare(kept)
    xr.testing.assert_equal(ap.compare(clusters, **asked)["interval"], same["interval"])
    np.testing.assert_allclose(same["estimate"], kept["estimate"].mean("query").squeeze())


@pytest.mark.parametrize("method", ["influence", "bootstrap"])
@pytest.mark.filterwarnings("ignore:method=")
@pytest.mark.filterwarnings("ignore::aucpr_dask.errors.DoubtfulScoresWarning")
def test_differences_of_areas_stay_within_what_is_possible(method: str) -> None:
    label = np.repeat([1, 0], [3, 20])
    scores = {"good": label + 0.0, "bad": -label + np.linspace(0, 0.5, 23)}
    found = ap.compare(scores, label, "bad", method=method, prevalence_design="fixed", level=0.999)
    for name in ("interval", "simultaneous_interval"):
        assert np.abs(found[name]).max() <= 1
    assert np.abs(ap.gate(scores, label, "good", "bad", method=method, prevalence_design="fixed").interval).max() <= 1


def test_models_that_lack_units_can_be_left_out(result: xr.Dataset) -> None:
    result["estimate"][1, 3] = np.nan
    result["estimate"][:, 5] = np.nan
    name = str(result["model"].values[1])
    comparison = ap.compare(result, incomplete="drop_models")
    assert name not in comparison["model"]
    assert comparison["n_units"] == 19
    assert comparison.attrs["models_left_out"] == [name]
    assert comparison.attrs["design"].endswith(f"; left out: '{name}', which lacks 1 of 20 queries")
    expected = ap.compare(result.drop_sel(model=name))
    for quantity in ("difference", "p_adjusted", "simultaneous_interval"):
        xr.testing.assert_equal(comparison[quantity], expected[quantity])
    means = ap.aggregate(result, incomplete="drop_models")["estimate"].squeeze("estimator")
    assert np.isnan(means.sel(model=name))
    assert means.drop_sel(model=name).notnull().all()
    result["estimate"].values[np.arange(6), np.arange(6, 12)] = np.nan
    with pytest.raises(AlignmentError, match="all models lack the estimate of some query") as caught:
        ap.rank(result, incomplete="drop_models")
    assert "incomplete='drop' leaves out queries" in str(caught.value)


def test_models_with_undefined_resamples_can_be_left_out() -> None:
    result = ap.evaluate(pooled(), keep_replicates=True, n_resamples=40)
    result["replicate"][2, ..., 7] = np.nan
    with pytest.raises(InvalidInputError, match=r"leave these models out: incomplete='drop_models'"):
        ap.compare(result)
    comparison = ap.compare(result, incomplete="drop_models")
    assert comparison.attrs["models_left_out"] == [str(result["model"].values[2])]
    expected = ap.compare(result.drop_isel(model=2))
    xr.testing.assert_equal(comparison["difference"], expected["difference"])
    xr.testing.assert_equal(comparison["p_adjusted"], expected["p_adjusted"])


@pytest.mark.parametrize(
    ("method", "n_models", "enough"), [("bootstrap", 2, 100), ("bootstrap", 3, 200), ("influence", 3, 10)]
)
def test_few_positives_warn(method: str, n_models: int, enough: int) -> None:
    for n in (enough - 1, enough):
        scores = pooled(n_models, 2 * n)
        scores["label"][:] = np.repeat([1, 0], n)
        for function in (ap.compare, ap.rank):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                function(scores, method=method, **({"n_resamples": 50} if method == "bootstrap" else {}))
            found = [str(one.message) for one in caught if one.category is FewPositivesWarning]
            assert [f"It needs {enough} or more" in one for one in found] == [True] * (n < enough)


def test_positives_of_all_queries_count() -> None:
    scores = queried(2, 3, 60)
    with pytest.warns(FewPositivesWarning, match=r"method='bootstrap' over \d+ positives: intervals"):
        ap.compare(scores.isel(query=[0]), over="items", method="bootstrap", missing="drop", n_resamples=50)


def test_methods_say_on_what_condition(result: xr.Dataset) -> None:
    known = [*designs.NAMES.items(), *designs.WITH_MACHINE.items()]
    assert set(designs.METHODS) == {(sample, method) for sample, names in known for method in names}
    assert {one.needs for one in designs.TABLE} == {*FILLED, "machine labels"}
    for method in METHODS:
        design = ap.compare(result, method=method).attrs["design"]
        assert design.endswith(f"; {designs.METHODS['units', method].condition}")


def test_a_bootstrap_over_few_units_warns() -> None:
    values = np.random.default_rng(5).random((3, 40))

    def warned(n_models: int, n_units: int, **options: Any) -> bool:
        result = result_of(values[:n_models, :n_units])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for function in (ap.compare, ap.rank):
                function(result, n_resamples=50, **options)
        return any(one.category is FewUnitsWarning for one in caught)

    assert warned(2, 29, method="bootstrap")
    assert not warned(2, 30, method="bootstrap")
    assert warned(3, 40, method="bootstrap")
    assert not warned(3, 10)
    assert not warned(3, 10, method="sign_flip")
    assert not warned(3, 10, method="bootstrap_t")


def test_two_units_give_a_mean_without_an_interval() -> None:
    result = ap.evaluate(queried(2, 3, 40), missing="drop")
    two, three = (ap.aggregate(result.isel(query=slice(n))) for n in (2, 3))
    assert two["interval"].isnull().all()
    assert two["estimate"].notnull().all()
    assert "no interval from fewer than 3" in two.attrs["design"].split("; ")
    assert three["interval"].notnull().all()


def standing_twice(n_items: int, n_twice: int, n_models: int = 2, **of_items: Any) -> xr.Dataset:
    """Return scores of items, the first of which stand twice."""
    rng = np.random.default_rng(0)
    label = rng.random(n_items) < 0.2
    place = np.r_[:n_items, :n_twice]
    scores = (rng.normal(size=(n_models, n_items)) + label)[:, place]
    return xr.Dataset({"score": (("model", "item"), scores), "label": ("item", label[place].astype("i1"))} | of_items)


def test_items_that_stand_twice_are_told(tmp_path: Path) -> None:
    twice, label = standing_twice(300, 60), standing_twice(300, 300, 1)["label"].values
    score = standing_twice(300, 300, 1)["score"].values[0]
    place = tmp_path / "scores.zarr"
    answers: dict[str, Callable[[], Any]] = {
        "compare": lambda: ap.compare(twice.chunk({"model": 1}), method="influence"),
        "rank": lambda: ap.rank(twice),
        "gate": lambda: ap.gate(twice, 1, 0, 0.02),
        "swap": lambda: ap.compare(twice, method="rank_swap", n_resamples=100),
        "evaluate": lambda: ap.evaluate(twice),
        "groups": lambda: ap.evaluate(twice, by=np.arange(360) % 2),
        "save": lambda: ap.save_scores(twice, place),
        "evaluate what was saved": lambda: ap.evaluate(ap.open_scores(place)),
        "run": lambda: ap.run(place, tmp_path / "result.zarr"),
        "difference": lambda: ap.metrics.average_precision_difference(label, score, np.roll(score, 300) ** 3),
    }
    said = "0 of (36|60)0 items have the scores of another item in all models(.|\n)*('cluster'|clusters=)"
    for name, answer in answers.items():
        with pytest.warns(RepeatedItemsWarning, match=said):
            found = answer()
        if name in ("evaluate", "evaluate what was saved", "run"):
            assert found.aucpr.flagged("repeated_items")["repeated_items"].all(), name
    with pytest.warns(RepeatedItemsWarning, match="300 of 600"):
        ap.metrics.average_precision_interval(label, score)
    tree = xr.DataTree.from_dict({"x": twice, "y": twice.isel(item=slice(300))})
    with pytest.warns(RepeatedItemsWarning, match="60 of 360 items of data set 'x' have"):
        assert not ap.evaluate(tree)["y"].to_dataset().aucpr.flagged("repeated_items")["repeated_items"].any()
    part = ap.open_scores(place).isel(item=slice(300))
    for quiet in (
        lambda: ap.evaluate(part),
        lambda: ap.save_scores(part, tmp_path / "part.zarr"),
        lambda: ap.run(tmp_path / "part.zarr", tmp_path / "of part.zarr"),
        lambda: ap.run(place, tmp_path / "items.zarr", over="items"),
        lambda: ap.evaluate(twice, over="items"),
        lambda: ap.compare(twice, over="items"),
        lambda: ap.evaluate(twice.assign(cluster=("item", np.r_[:300, :60]))),
        lambda: ap.evaluate(twice, interval=()),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error", RepeatedItemsWarning)
            quiet()


def test_padding_is_no_copy() -> None:
    """Of many items, too, as many are said to be copies as are."""
    twice = standing_twice(9_000, 1_000)
    padding = twice.isel(item=np.zeros(5_000, int)).assign(label=("item", np.full(5_000, -2, "i1")))
    padded = xr.concat([twice, padding], "item")
    with pytest.warns(RepeatedItemsWarning, match=r"1,000 of 15,000"):
        ap.evaluate(padded)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepeatedItemsWarning)
        ap.evaluate(padded.isel(item=np.r_[:9_000, 10_000:15_000]))


@pytest.mark.sparse
@pytest.mark.parametrize("n_models", [1, 2, 5])
@pytest.mark.parametrize("n_items", [100, 1000, 30_000])
@pytest.mark.parametrize("share", [0.01, 0.5])
def test_ties_by_chance_are_not_told_as_copies(n_models: int, n_items: int, share: float) -> None:
    def found(scores: Any, label: Any) -> int:
        names = {"score": (("model", "item"), scores), "label": ("item", label.astype("i1"))}
        return copies_among(xr.Dataset(names))

    for seed in range(3):
        rng = np.random.default_rng(seed)
        label = rng.random(n_items) < share
        near, far = (rng.normal(size=(n_models, n_items)) + shift * label for shift in (1, 6))
        alike = np.stack([near[0], *(np.tanh(near[:1] * place)[0] for place in range(1, n_models))])
        kind, features = rng.integers(n_items // 4, size=n_items), rng.normal(size=(n_models, n_items))
        for scores in (near, far, alike):
            probabilities = 1 / (1 + np.exp(-scores))
            assert not any(found(np.round(probabilities, digits), label) for digits in (1, 2, 3, 4, 16))
            assert not found(np.round(scores), label)
        if share == 0.5:  # equal features, and so equal scores, but labels of their own
            assert not found(features[:, kind], label)
        assert found(np.repeat(near, 2, axis=1), np.repeat(label, 2))


@pytest.mark.parametrize("function", [ap.compare, ap.rank, ap.power, ap.aggregate])
def test_designs_name_the_grade_and_the_rule_for_ties(function: Callable[..., Any]) -> None:
    scores = queried(3, 6, 40).assign_coords(item=[f"d{i}" for i in range(40)])
    design = function(scores, convention="trec_eval").attrs["design"]
    assert design.endswith("; positive from grade 1; ties by name")
    assert "grade" not in function(scores, missing="last").attrs["design"]


# What varies


def in_clusters_of_items() -> xr.Dataset:
    return pooled(3, 200).assign(cluster=("item", np.arange(200) // 4))


@pytest.mark.slow
@pytest.mark.sparse
@pytest.mark.parametrize("place", ["memory", "store"])
@pytest.mark.parametrize("scores", [pooled(3, 200), in_clusters_of_items()], ids=["items", "clusters"])
def test_a_result_is_asked_as_its_scores_are(scores: xr.Dataset, place: str, tmp_path: Path) -> None:
    scores = scores.assign(score=scores["score"].fillna(0.0))
    result = ap.evaluate(scores)
    if place == "store":
        ap.save_scores(scores, tmp_path / "scores.zarr")
        ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr")
        result, scores = ap.open_result(tmp_path / "result.zarr"), ap.open_scores(tmp_path / "scores.zarr")
    xr.testing.assert_equal(ap.compare(result, "m0").compute(), ap.compare(scores, "m0").compute())
    two = ap.rank(result.sel(model=["m2", "m0"]))
    xr.testing.assert_equal(two.compute(), ap.rank(scores.sel(model=["m2", "m0"])).compute())
    assert str(ap.gate(result, "m1", "m0", margin=0.01)) == str(ap.gate(scores, "m1", "m0", margin=0.01))
    assert ap.power(result).attrs["summary"] == ap.power(scores).attrs["summary"]
    assert ap.letters(result).worse.shape == (3, 1)
    items = ap.compare(result, "m0", over="items").compute()
    xr.testing.assert_equal(items, ap.compare(scores, "m0", over="items").compute())
    assert items.attrs["over"] == "items"


def test_one_data_set_of_a_stored_result_finds_its_scores(tmp_path: Path) -> None:
    tree = xr.DataTree.from_dict({"of/one": pooled(3, 100).fillna(0.0), "two": pooled(3, 150, seed=1).fillna(0.0)})
    ap.save_scores(tree, tmp_path / "scores.zarr")
    ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr")
    for path in ("of/one", "two"):
        node = ap.open_result(tmp_path / "result.zarr")[path].to_dataset()
        expected = ap.compare(tree[path].to_dataset())
        xr.testing.assert_equal(ap.compare(node), expected)
        assert ap.compare(node).attrs["method"] == "influence"


def test_a_result_whose_scores_are_gone_names_the_call() -> None:
    result = ap.evaluate(pooled(2, 100), missing="drop")
    stored = xr.Dataset.from_dict(result.to_dict())
    stored.attrs = {str(name): value for name, value in stored.attrs.items()}
    with pytest.raises(InvalidInputError, match="pass the scores in place of the result"):
        ap.compare(stored)
    values = result.sel(model=["m0", "m1"]).assign_coords(model=["x", "y"])  # of no such models
    with pytest.raises(InvalidInputError, match="pass the scores in place of the result"):
        ap.compare(values)


def test_a_result_that_knows_its_scores_is_written_to_netcdf(tmp_path: Path) -> None:
    result = ap.evaluate(pooled(2, 100), missing="drop").compute()
    result.to_netcdf(tmp_path / "result.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "result.nc", engine="h5netcdf") as read:
        assert read.attrs["scores"] == result.attrs["scores"] == "in memory when they were evaluated"
        xr.testing.assert_equal(read["estimate"], result["estimate"])


def test_what_varies_is_named_by_one_word(result: xr.Dataset) -> None:
    scores = in_clusters_of_items().assign(score=lambda one: one["score"].fillna(0.0))
    default, clusters, items = (ap.compare(scores, over=over) for over in (None, "clusters", "items"))
    xr.testing.assert_identical(default, clusters)
    plain = ap.compare(scores.drop_vars("cluster"))
    xr.testing.assert_equal(items, plain)
    assert [one.attrs["over"] for one in (default, items)] == ["clusters", "items"]
    queries = result.assign_coords(cluster=("query", list("abcde") * 4))
    xr.testing.assert_identical(ap.compare(queries), ap.compare(queries, over="clusters"))
    xr.testing.assert_equal(ap.compare(queries, over="query"), ap.compare(result))
    assert ap.compare(queries).attrs["over"] == "clusters"
    other = result.rename(query="lead_time")
    xr.testing.assert_equal(ap.compare(other, over="lead_time"), ap.compare(result))
    with pytest.raises(InvalidInputError, match="in this result clusters vary"):
        ap.compare(ap.covariance(scores), over="items")
    for wrong, message in {
        "quarry": "no dimension 'quarry'",
        "fold": "folds and repeats",
        "repeat": "folds and repeats",
        ("items", "clusters"): "what varies needs names",
        (): "what varies needs names",
    }.items():
        with pytest.raises(InvalidInputError, match=message):
            ap.compare(result, over=wrong)


@pytest.mark.parametrize("ask", [ap.compare, ap.rank, ap.power])
def test_dimensions_that_do_not_vary_have_an_answer_for_each_label(ask: Callable[..., xr.Dataset]) -> None:
    parts = {lead: result_of(areas_of(3, 12, seed=lead)).squeeze("estimator") for lead in (1, 2, 3)}
    whole = xr.concat(list(parts.values()), pd.Index(list(parts), name="lead"))
    found = ask(whole)
    names = {"difference", "standard_error", "interval", "p_value", "rank", "rank_interval", "detectable"} & {*found}
    for lead, part in parts.items():
        alone = ask(xr.DataTree.from_dict({str(lead): part}))[str(lead)].to_dataset()
        for name in names:
            np.testing.assert_array_equal(found[name].sel(lead=lead), alone[name])
    gates = ap.gate(whole, "m1", "m0")
    assert [gate.group for gate in gates] == ["1", "2", "3"]
    cells = ap.compare(whole, over=("lead", "query"))
    assert cells["n_units"] == 36
    np.testing.assert_allclose(cells["estimate"], whole["estimate"].mean(("lead", "query")))
    over_lead = ap.compare(whole, over="lead", method="t")
    np.testing.assert_allclose(over_lead["estimate"], whole["estimate"].mean(("lead", "query")))
    assert over_lead["n_units"] == 3


@pytest.mark.parametrize("method", ["influence", "bootstrap"])
def test_scores_of_a_store_are_ranked_once(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, counts = pooled(4, 300), list[int]()
    ap.save_scores(scores, tmp_path / "scores.zarr")
    ranked = rankings._evaluate_hard

    def counted(score: Any, *args: Any) -> Any:
        counts.append(len(score))
        return ranked(score, *args)

    monkeypatch.setattr(rankings, "_evaluate_hard", counted)
    stored = ap.open_scores(tmp_path / "scores.zarr").chunk({"model": 2})
    found = ap.compare(stored, method=method, n_resamples=100)
    assert sum(counts) == 4
    again = ap.compare(scores, method=method, n_resamples=100)
    xr.testing.assert_identical(found.drop_attrs(), again.drop_attrs())


@pytest.mark.filterwarnings("ignore::aucpr_dask.errors.FewPositivesWarning")
def test_models_with_doubtful_scores_are_named_at_the_line_of_the_caller() -> None:
    scores = queried(3, 12, 60)
    scores["score"][0] = -scores["score"][0] - 2 * scores["label"]
    scores["score"][1, :4] = scores["score"][1, :4] > 1  # of few queries, which may be by chance
    scores = scores.assign_coords(site=("query", ["north", "south"] * 6))
    trees = xr.DataTree.from_dict({"u": scores, "v": scores.isel(query=slice(4, None))})
    calls: dict[str, Callable[[], Any]] = {
        "12 of 12": lambda: ap.compare(scores, over="items"),
        "6 of 6": lambda: ap.rank(scores, by="site"),
        "20 of 20": lambda: ap.compare(trees, over="dataset"),
        "8 of 8": lambda: ap.gate(scores.isel(query=slice(8)), "m0", "m2", margin=0.5),
    }
    for count, call in calls.items():
        with pytest.warns(DoubtfulScoresWarning, match=f"^m0, in {count} rankings: ROC area") as caught:
            call()
        assert {warning.filename for warning in caught} == {__file__}


def test_one_comparison_over_clusters_has_nothing_to_adjust() -> None:
    random = np.random.default_rng(3)
    label = random.random(1200) < 0.2
    scores = {name: random.normal(size=1200) + shift * label for name, shift in (("a", 1.0), ("b", 1.2), ("c", 1.1))}
    pair = {name: scores[name] for name in "ab"}
    for size in (1, 2, 6):
        found = ap.compare(pair, label, baseline="a", clusters=np.arange(1200) // size, n_resamples=20_000).sel(
            model="b"
        )
        assert abs(float(found["p_adjusted"] - found["p_value"])) < 0.02 + 0.2 * float(found["p_value"])
        low, high = found["simultaneous_interval"].values
        assert (low > 0 or high < 0) == (found["p_adjusted"] <= 0.05)
    alone = ap.compare(scores, label, baseline="a", n_resamples=20_000)
    each = ap.compare(scores, label, baseline="a", clusters=np.arange(1200), n_resamples=20_000)
    np.testing.assert_allclose(each["p_adjusted"], alone["p_adjusted"], atol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("dims", [(), ("query",), ("class",), ("repeat",)])
@pytest.mark.parametrize("form", ["scores", "result", "lazy", "data sets"])
def test_means_say_that_models_stand_on_different_items(dims: tuple[str, ...], form: str) -> None:
    random = np.random.default_rng(3)
    of_label = tuple(dim for dim in dims if dim != "repeat")
    label = (random.random((*(4,) * len(of_label), 60)) < 0.4).astype("int8")
    label[..., :2] = [1, 0]
    score = random.normal(size=(2, *(4,) * len(dims), 60))
    score[1, ..., 5:9] = np.nan
    variables = {"score": (("model", *dims, "item"), score), "label": ((*of_label, "item"), label)}
    scores = xr.Dataset(variables, {"model": ["a", "b"]} | {dim: list("pqrs") for dim in dims})
    data: Any = {"lazy": scores.chunk(model=1), "data sets": xr.DataTree.from_dict({"x": scores, "y": scores})}
    options = {"over": "dataset"} if form == "data sets" else {}
    for missing in ("drop", "last"):
        one = data.get(form, scores)
        found = ap.aggregate(ap.evaluate(one, missing=missing)) if form == "result" else None
        found = ap.aggregate(one, missing=missing, **options) if found is None else found
        said = "each model on the items that it scored" in found.attrs["design"].split("; ")
        assert said == (missing == "drop")
