"""Intervals from replicates, standard errors and folds: against scipy, numpy, raucpr and formulas written by hand."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy import stats
from test_resampling import accelerations_by_refitting

import aucpr_dask as ap
from aucpr_dask.errors import InvalidInputError
from aucpr_dask.kernels import intervals
from aucpr_dask.kernels.intervals import (
    METHODS,
    Evidence,
    SortedReplicates,
    bca,
    bounds_of,
    percentile,
)
from aucpr_dask.schema.estimators import ESTIMATORS, WITH_INFLUENCE
from aucpr_dask.schema.intervals import INTERVAL_NEEDS, INTERVALS

RESAMPLED = ["bootstrap", "bca", "bootstrap_t"]
LEVEL = 0.9
TAIL = (1 - LEVEL) / 2


def evidence(shape: tuple[int, ...] = (3, 4), n_resamples: int = 200, seed: int = 0) -> Evidence:
    """All arrays of some rows; some lack replicates, one lacks all of them, and one its estimate."""
    random = np.random.default_rng(seed)
    estimate = random.uniform(0.2, 0.9, shape)
    replicates = (estimate[..., None] + random.normal(0.02, 0.05, (*shape, n_resamples))).round(2).clip(0, 1)
    errors = random.uniform(0.01, 0.1, replicates.shape)
    folds = random.random((*shape, 10))
    if shape:
        estimate.flat[0], replicates[-1, -1] = np.nan, np.nan
        folds[-1, 0, 3] = np.nan
    replicates[..., ::7] = np.where(random.random((*shape, n_resamples))[..., ::7] < 0.3, np.nan, replicates[..., ::7])
    errors[..., ::5] = 0
    return Evidence(
        estimate=estimate,
        n_positive=random.integers(1, 40, shape).astype(float),
        error=random.uniform(0.01, 0.1, shape),
        acceleration=random.normal(0, 0.05, shape),
        replicates=replicates,
        replicate_errors=errors,
        folds=folds,
        n_effective=random.uniform(1.5, 40, shape),
        cubes=random.normal(0, 1e-4, shape),
        left_out=estimate - random.uniform(0, 0.05, shape),
        unseen_loss=random.uniform(0, 0.1, shape),
        half_seen=estimate * random.uniform(0.6, 1, shape),
        tails=random.random((*shape, n_resamples)),
    )


def row(known: Evidence, index: tuple[int, ...]) -> Evidence:
    return Evidence(**{name: value[index] for name, value in vars(known).items() if isinstance(value, np.ndarray)})


# Against scipy, on the same replicates


def average_precision(positive: np.ndarray, negative: np.ndarray, axis: int = -1) -> Any:
    score = np.concatenate([positive, negative], axis=axis)
    return ap.estimate(score, np.repeat([1, 0], [positive.shape[-1], negative.shape[-1]]))


@pytest.mark.smoke
@pytest.mark.parametrize("seed", range(4))
def test_scipy_on_the_same_replicates(seed: int) -> None:
    random = np.random.default_rng(seed)
    positive, negative = random.normal(1, 1, 6).round(1), random.normal(0, 1, 20).round(1)
    area = average_precision(positive, negative)
    replicates = average_precision(random.choice(positive, (999, 6)), random.choice(negative, (999, 20)))
    replicates[:60] = area  # ties
    score, label = np.concatenate([positive, negative]), np.repeat([1, 0], [6, 20])
    (acceleration,) = accelerations_by_refitting(score, label, ["average_precision"], np.arange(26))
    known = Evidence(np.array(area), acceleration=np.array(acceleration), replicates=replicates)
    done = SimpleNamespace(bootstrap_distribution=replicates)
    for ours, theirs in (("bootstrap", "percentile"), ("bca", "BCa")):
        how = {"n_resamples": 0, "bootstrap_result": done, "method": theirs, "confidence_level": LEVEL}
        expected = stats.bootstrap((positive, negative), average_precision, **how).confidence_interval
        np.testing.assert_allclose(bounds_of(known, ours, LEVEL), expected, rtol=0, atol=1e-12, err_msg=ours)


@pytest.mark.parametrize("n_resamples", [2, 3, 41, 1000])
def test_numpy_quantiles(n_resamples: int) -> None:
    replicates = np.random.default_rng(n_resamples).random((50, n_resamples)).round(2)
    with_gaps = np.where(replicates < 0.1, np.nan, replicates)
    with_gaps[:, :2] = replicates[:, :2]
    for array, quantile in ((replicates, np.quantile), (with_gaps, np.nanquantile)):
        for level in (0.5, 0.95, 0.999):
            expected = quantile(array, [(1 - level) / 2, 1 - (1 - level) / 2], axis=-1)
            np.testing.assert_allclose(percentile(SortedReplicates.of(array), level), expected, rtol=0, atol=1e-15)


# Against formulas


@pytest.mark.smoke
def test_bootstrap_t_by_hand() -> None:
    known = evidence()
    bounds = bounds_of(known, "bootstrap_t", LEVEL)
    for index in np.ndindex(3, 4):
        area, error = known.estimate[index], known.error[index]
        kept = (known.replicate_errors[index] > 0) & ~np.isnan(known.replicates[index])
        if np.isnan(area) or not kept.any():
            assert np.isnan(bounds[index]).all()
            continue
        studentised = (known.replicates[index][kept] - area) / known.replicate_errors[index][kept]
        low, high = np.quantile(studentised, [TAIL, 1 - TAIL])
        np.testing.assert_allclose(bounds[index], [area - error * high, area - error * low], rtol=0, atol=1e-14)


def test_round_off_is_no_spread() -> None:
    known = evidence(())
    noisy = np.where(known.replicate_errors == 0, 1e-18, known.replicate_errors)
    expected = bounds_of(known, "bootstrap_t", LEVEL)
    assert np.isfinite(expected).all()
    known = Evidence(known.estimate, error=known.error, replicates=known.replicates, replicate_errors=noisy)
    np.testing.assert_array_equal(bounds_of(known, "bootstrap_t", LEVEL), expected)


# Beta quantiles


@pytest.mark.filterwarnings("ignore:level=0.01 is a confidence level")
def test_influence_beta_at_the_ends() -> None:
    random = np.random.default_rng(4)
    score, label = random.normal(size=(50, 40)), random.random(40) < 0.3
    perfect, worst = np.where(label, 2.0, 1.0), np.where(label, 1.0, 2.0)
    scores = xr.Dataset(
        {"score": (("model", "item"), np.vstack([perfect, worst, score])), "label": ("item", label.astype(np.int8))}
    )
    for level in (0.01, 0.5, 0.95, 1 - 1e-12):
        result = ap.evaluate(scores, level=level)
        area = result["estimate"].values.ravel()
        lower, upper = result["interval"].values.reshape(-1, 2).T
        assert ((lower >= 0) & (lower <= area) & (area <= upper) & (upper <= 1)).all()
        assert 0 < lower[0] < 1
        assert upper[0] == 1
    nothing_found = ap.evaluate(scores.assign(score=scores["score"].where(~label)), missing="unretrieved")
    assert (nothing_found["interval"].sel(ci_bound="lower") == 0).all()
    np.testing.assert_allclose(nothing_found["interval"].sel(ci_bound="upper").values, 0.19, atol=0.05)
    for labels in ([1, 0, 0], [1, 1, 0], [1, 1, 1]):  # one item of a class, or none
        few = xr.Dataset({"score": (("model", "item"), [[3.0, 2, 1]]), "label": ("item", labels)})
        np.testing.assert_array_equal(ap.evaluate(few)["interval"].values.ravel(), [0, 1])
    none = xr.Dataset({"score": (("model", "item"), [[3.0, 2, 1]]), "label": ("item", [0, 0, 0])})
    assert ap.evaluate(none)["interval"].isnull().all()
    assert ap.evaluate(none, no_positives="zero")["interval"].isnull().all()


def test_intervals_count_weights_and_clusters() -> None:
    data = ap.simulate.binormal().sample(400, 0.1, n_simulations=3, seed=2).compute()
    methods = ["influence_beta", "logit", "wilson", "influence_logit_t"]  # equal weights count each item once
    plain = ap.evaluate(data, interval=methods)
    for weight in (1.0, 1e-3, 7.0, 10.0):
        weighted = ap.evaluate(data.assign(weight=("item", np.full(400, weight))), interval=methods)
        np.testing.assert_allclose(weighted["interval"], plain["interval"], rtol=1e-10)
        np.testing.assert_array_equal(weighted["flags"], plain["flags"])
    twice = xr.concat([data, data], "item", data_vars="minimal").assign(cluster=("item", np.tile(np.arange(400), 2)))
    clustered = ap.evaluate(twice)["interval"].values
    random = ap.evaluate(data)["interval"].values
    np.testing.assert_allclose(clustered, random, atol=0.015)  # 800 items say no more than 400
    assert (
        np.ptp(ap.evaluate(twice, over="items")["interval"].values, axis=-1).max()
        < 0.8 * np.ptp(clustered, axis=-1).max()
    )


NORMALS = [((1.5, 0.5), 0.5), ((2.5, 0.6), 0.5), ((1, 2), 0.1), ((4, 1), 0.01), ((0.1, 1), 0.02)]
SIMULATED = [*((ap.simulate.binormal(*shape), share) for shape, share in NORMALS), (ap.simulate.bibeta(), 0.1)]


@pytest.mark.sparse
@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "prevalence"), SIMULATED)
@pytest.mark.parametrize("n", [10, 20, 50, 100])
def test_influence_beta_covers(scenario: Any, prevalence: float, n: int) -> None:
    data = scenario.sample(round(n / prevalence), prevalence, n_simulations=4000, seed=n, chunks=500)
    interval = ap.evaluate(data)["interval"].compute().values.reshape(-1, 2)
    area = scenario.area(prevalence)
    assert ((interval[:, 0] <= area) & (area <= interval[:, 1])).mean() > 0.945 - 3 * np.sqrt(0.05 * 0.95 / 4000)


@pytest.mark.sparse
@pytest.mark.parametrize("estimator", ["average_precision", "continuous"])
@pytest.mark.parametrize(
    ("recalls", "n"), [((0, 0.1), 30), ((0, 0.05), 50), ((0, 0.05), 100), ((0.45, 0.5), 40), ((0.2, 0.3), 50)]
)
def test_intervals_of_ranges_count_the_positives_up_to_them(
    recalls: tuple[float, float], n: int, estimator: str
) -> None:
    """With all positives as degrees of freedom, they covered 0.86 to 0.91."""
    random, n_items = np.random.default_rng(6), 10 * n
    label = random.random((800, n_items)) < 0.1
    score = random.normal(size=label.shape) + 1.5 * label
    scores = {"score": (("model", "query", "item"), score[None]), "label": (("query", "item"), label.astype(np.int8))}
    result = ap.evaluate(xr.Dataset(scores), estimator, recall_range=recalls)
    lower, upper = result["interval"].values.reshape(-1, 2).T
    z = np.linspace(10, -10, 100_001)
    recall, fallout, grid = stats.norm.sf(z - 1.5), stats.norm.sf(z), np.linspace(*recalls, 1001)
    area = np.trapezoid(np.interp(grid, recall, 0.1 * recall / (0.1 * recall + 0.9 * fallout)), grid)
    assert ((lower <= area) & (area <= upper)).mean() > 0.925  # at 0.935, 2 % of such samples are below
    assert (lower >= 0).all()
    assert (upper <= recalls[1] - recalls[0]).all()
    is_few = result.aucpr.flagged("few_positives")["few_positives"].values.ravel()
    np.testing.assert_array_equal(is_few, recalls[1] * label.sum(axis=1) < 20)


# Any shape, order and layout


@pytest.mark.parametrize("method", METHODS)
def test_rows_are_a_loop(method: str) -> None:
    known = evidence()
    bounds = bounds_of(known, method, LEVEL)
    assert bounds.shape == (3, 4, 2)
    assert np.isfinite(bounds).any()
    assert np.isnan([known.estimate[0, 0], *bounds[0, 0]]).all()  # no interval without an estimate
    for index in np.ndindex(3, 4):
        np.testing.assert_array_equal(bounds_of(row(known, index), method, LEVEL), bounds[index])
    for layout in (np.asfortranarray, lambda array: np.repeat(array, 2, axis=0)[::2]):
        arrays = {name: layout(value) for name, value in vars(known).items() if isinstance(value, np.ndarray)}
        np.testing.assert_array_equal(bounds_of(Evidence(**arrays), method, LEVEL), bounds)
    if method == "influence_logit_t":  # one number of positives for all rows
        shared, full = (Evidence(known.estimate, n, known.error) for n in (np.array(12.0), np.full((3, 4), 12.0)))
        np.testing.assert_array_equal(bounds_of(shared, method, LEVEL), bounds_of(full, method, LEVEL))


@pytest.mark.parametrize("method", RESAMPLED)
def test_missing_replicates_are_left_out_and_order_is_irrelevant(method: str) -> None:
    known = evidence(())
    order = np.random.default_rng(1).permutation(np.flatnonzero(~np.isnan(known.replicates)))
    assert 0 < order.size < known.replicates.size
    kept = Evidence(
        known.estimate,
        error=known.error,
        acceleration=known.acceleration,
        replicates=known.replicates[order],
        replicate_errors=known.replicate_errors[order],
    )
    expected = bounds_of(kept, method, LEVEL)
    assert np.isfinite(expected).all()
    np.testing.assert_array_equal(bounds_of(known, method, LEVEL), expected)


def test_methods_and_levels_share_one_sort(monkeypatch: pytest.MonkeyPatch) -> None:
    known, sorts = evidence(), []
    sort = np.sort
    monkeypatch.setattr(np, "sort", lambda *arguments, **options: sorts.append(1) or sort(*arguments, **options))
    for method in ("bootstrap", "bca"):
        for level in (0.5, 0.9):
            bounds_of(known, method, level)
    assert len(sorts) == 1


# Degenerate rows


@pytest.mark.parametrize("method", RESAMPLED)
@pytest.mark.parametrize("n_resamples", [0, 1])
def test_fewer_than_two_replicates(method: str, n_resamples: int) -> None:
    few = np.full((2, n_resamples), 0.5)
    padded = np.concatenate([few, np.full((2, 3), np.nan)], axis=-1)
    for replicates in (few, padded):
        zero = np.zeros(2)
        known = Evidence(zero + 0.5, zero, zero + 0.1, zero, replicates, replicates)
        assert np.isnan(bounds_of(known, method, LEVEL)).all()


@pytest.mark.parametrize("method", ["cross_validation", "cross_validation_t"])
def test_one_fold_has_no_spread(method: str) -> None:
    known = Evidence(np.full(2, 0.5), folds=np.full((2, 1), 0.5))
    assert np.isnan(bounds_of(known, method, LEVEL)).all()


def test_replicates_that_all_equal_the_estimate() -> None:
    for area in (0.1, 0.7, 1.0):
        for acceleration in (0.0, np.nan):
            known = Evidence(np.array(area), acceleration=np.array(acceleration), replicates=np.full(100, area))
            for method in ("bootstrap", "bca"):
                np.testing.assert_array_equal(bounds_of(known, method, LEVEL), [area, area])


def test_bca_where_the_correction_is_unknown() -> None:
    replicates = SortedReplicates.of(np.random.default_rng(0).random(100))
    for outside in (-1.0, 2.0):  # all replicates on one side
        bounds = bca(np.array(outside), replicates, np.array(0.1), LEVEL)
        np.testing.assert_array_equal(bounds, percentile(replicates, LEVEL))
    assert np.isnan(bca(np.array(0.5), replicates, np.array(np.nan), LEVEL)).all()


def test_bca_past_its_pole() -> None:
    values = np.linspace(0, 1, 101)
    for sign, end in ((1, 1.0), (-1, 0.0)):
        area = np.array(0.5 + sign * 0.4)
        bounds = np.array(bca(area, SortedReplicates.of(values), np.array(sign * 0.5), LEVEL))
        assert bounds.max() == 1.0 if sign == 1 else bounds.min() == 0.0
        assert bounds[0] <= bounds[1]
        assert end in bounds


def test_logit_scale_at_the_ends() -> None:
    known = Evidence(np.array([0.0, 1.0, 1.0, 0.5, 0.5, 1.0]), np.array([5.0, 5, 1, 1, 5, 5]), np.zeros(6))
    known.error[4:] = np.nan
    unit, nothing = [0.0, 1.0], [np.nan, np.nan]
    student = bounds_of(known, "influence_logit_t", LEVEL)
    np.testing.assert_array_equal(student, [unit, unit, unit, unit, nothing, unit])


def test_missing_evidence_is_named() -> None:
    for method, lacking in (("bca", "replicates"), ("influence_logit_t", "error"), ("cross_validation", "folds")):
        with pytest.raises(LookupError, match=f"made from {lacking},"):
            bounds_of(Evidence(np.array(0.5)), method, LEVEL)


# The registry


def test_every_record_has_one_kernel() -> None:
    formulas = {spec.name for spec in INTERVALS.values() if spec.is_formula}
    assert formulas == set(intervals.FORMULAS)
    assert set(INTERVALS) - formulas == set(METHODS)
    for spec in INTERVALS.values():
        assert spec.needs
        assert set(spec.needs) <= set(INTERVAL_NEEDS)
        assert set(spec.estimators or ()) <= set(ESTIMATORS)
        if "error" in spec.needs:
            assert set(spec.estimators or ()) <= set(WITH_INFLUENCE)


def test_the_records_say_what_the_kernels_read() -> None:
    fields = {
        "positives": ("n_positive",),
        "error": ("error", "replicate_errors"),
        "jackknife": ("acceleration",),
        "replicates": ("replicates", "replicate_errors"),
        "folds": ("folds",),
        "tails": ("half_seen", "tails"),
    }
    of_beta = {"positives": "n_effective", "error": "cubes left_out unseen_loss"}
    besides = {"influence_beta": of_beta, "extrapolated": of_beta}
    known = evidence()
    for name in METHODS:
        fields_of = {
            need: (*fields[need], *besides.get(name, {}).get(need, "").split()) for need in INTERVALS[name].needs
        }
        given = {field: getattr(known, field) for one in fields_of.values() for field in one}
        bounds_of(Evidence(known.estimate, **given), name, LEVEL)
        for need in INTERVALS[name].needs:
            less = {field: value for field, value in given.items() if field not in fields_of[need]}
            with pytest.raises(LookupError, match="made from"):
                bounds_of(Evidence(known.estimate, **less), name, LEVEL)


@pytest.mark.parametrize("method", METHODS)
def test_interval_refuses_methods_that_are_no_formula(method: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"(?s){method}.*binomial, logit, wilson, clopper_pearson.*evaluate"):
        ap.interval(0.8, 50, ["logit", method])


@pytest.mark.parametrize("design", ["random", "fixed"])
@pytest.mark.parametrize(
    ("estimator", "n_trials", "most"),
    [
        ("precision_at(4)", 4, 1.0),
        ("precision_at(16)", 12, 12 / 16),
        ("recall_at(16)", 12, 1.0),
        ("recall_at(4)", 4, 4 / 12),
        ("precision_at_recall(0.5)", 6, 1.0),
        ("recall_at_precision(0.9)", 12, 1.0),
        ("discrete", 12, 1.0),
    ],
)
def test_intervals_have_a_width_where_nothing_is_wrong(estimator: str, n_trials: int, most: float, design: str) -> None:
    """At the end of what an estimate can be, the bound is Wilson's of the items that it is a share of, or further."""
    label = np.arange(60) < 12
    found = ap.evaluate(-np.arange(60.0)[None], label, estimator, prevalence_design=design, n_resamples=200)
    assert found["estimate"].item() == pytest.approx(most)
    lower, upper = found["interval"].values.ravel()
    wilson = stats.binomtest(n_trials, n_trials).proportion_ci(0.95, "wilson").low
    assert lower <= most * wilson + 1e-12
    assert lower > 0
    assert upper >= most
    if most == 1:
        assert lower == pytest.approx(wilson)
    turned = ap.evaluate(np.arange(60.0)[None], label, "precision_at(4)", prevalence_design=design, n_resamples=200)
    assert turned["estimate"].item() == 0
    np.testing.assert_allclose(
        turned["interval"].values.ravel(), [0, 1 - stats.binomtest(4, 4).proportion_ci(0.95, "wilson").low]
    )


@pytest.mark.parametrize("n", [2, 5, 10, 50])  # the area of ten positives is 1 but for rounding
def test_the_gain_area_of_a_perfect_ranking_has_no_interval(n: int) -> None:
    found = ap.evaluate(-np.arange(400.0)[None], np.arange(400) < n, "gain_area")
    assert found["estimate"].item() == pytest.approx(1, abs=1e-12)
    assert found["interval"].isnull().all()
    assert found.aucpr.flagged("no_interval")["no_interval"].all()


def test_differences_have_no_ends_to_widen() -> None:
    label = np.arange(60) < 12
    worst = ap.evaluate(np.arange(60.0)[None], label, "gain_area", interval="bootstrap", n_resamples=200)
    assert worst["estimate"].item() < 0
    assert worst["interval"].values.max() < 0
