"""Properties that hold for every input: drawn rankings, transforms, chunkings and layouts."""

from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from conftest import few
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from strategies import Case, cases, chunkings, weights
from test_estimators_exact import ORDINAL, SPECS

import aucpr_dask as ap
from aucpr_dask.errors import InvalidInputError
from aucpr_dask.schema.intervals import INTERVALS

NAMES = ["average_precision", "lower_trapezoid", "upper_trapezoid"]
METHODS = [spec.name for spec in INTERVALS.values() if spec.is_formula]
FORMULAS = ["binomial", "logit", "wilson", "clopper_pearson"]
ALL_LABELS = (0, 1, -1, -2)

missing_modes = st.sampled_from(["drop", "last", "unretrieved"])
unjudged_modes = st.sampled_from(["negative", "drop"])


def names_for(ties: str) -> list[str]:
    return [name for name in ORDINAL if ties in SPECS[name].ties]


@pytest.mark.smoke
@given(cases(labels=ALL_LABELS, missing=True), missing_modes, unjudged_modes, st.randoms(use_true_random=False))
def test_the_order_of_items_is_irrelevant(case: Case, missing: str, unjudged: str, random: Any) -> None:
    order = list(range(case.label.size))
    random.shuffle(order)
    for ties in ("group", "expectation"):
        options: dict[str, Any] = {"missing": missing, "unjudged": unjudged, "ties": ties}
        expected = ap.estimate(case.score, case.label, names_for(ties), **options)
        received = ap.estimate(case.score[:, order], case.label[order], names_for(ties), **options)
        np.testing.assert_array_equal(received, expected)


@given(cases(), st.data())
def test_any_order_of_tied_items_has_the_blocks_within_its_range(case: Case, data: Any) -> None:
    place = np.array(data.draw(st.permutations(range(case.label.size))))
    received = ap.estimate(case.score, case.label, names_for("trec_eval"), ties="trec_eval", tie_order=place)
    untied = np.array([np.argsort(np.lexsort((place, -row))) for row in case.score], dtype=float)
    np.testing.assert_array_equal(received, ap.estimate(-untied, case.label, names_for("trec_eval")))
    best = ap.estimate(case.score, case.label, ties="trec_eval", tie_order=-case.label.astype(np.int32))
    worst = ap.estimate(case.score, case.label, ties="trec_eval", tie_order=case.label.astype(np.int32))
    mean = ap.estimate(case.score, case.label, ties="expectation")
    known = ~np.isnan(best)
    for inside in (received[..., 0], mean):
        assert (worst[known] - 1e-14 <= inside[known]).all()
        assert (inside[known] <= best[known] + 1e-14).all()


@few
@given(cases(labels=ALL_LABELS, missing=True, max_models=4), missing_modes, st.data())
def test_any_chunking_of_models_and_queries_is_bit_identical(case: Case, missing: str, data: Any) -> None:
    n_models, n_items = case.score.shape
    n_queries = data.draw(st.integers(2, 4))
    score = np.stack([np.roll(case.score, shift, axis=1) for shift in range(n_queries)], axis=1)
    per_run = data.draw(st.booleans())
    label = np.broadcast_to(case.label, score.shape if per_run else score.shape[1:])
    label_dims = ("model", "query", "item") if per_run else ("query", "item")
    scores = xr.Dataset(
        {
            "score": (("model", "query", "item"), score),
            "label": (label_dims, label),
            "n_positive": ("query", np.full(n_queries, n_items)),
        },
        coords={"query": [f"q{i}" for i in range(n_queries)]},
    )
    expected = ap.evaluate(scores, NAMES, METHODS, missing=missing)
    chunks = {"model": data.draw(chunkings(n_models)), "query": data.draw(chunkings(n_queries))}
    for lazy in (scores.chunk(chunks), scores.assign(score=scores["score"].chunk(chunks))):
        found = ap.evaluate(lazy, NAMES, METHODS, missing=missing)
        assert found["estimate"].chunks[:2] == (chunks["model"], chunks["query"])
        assert all(one.chunks is not None for one in found.data_vars.values())
        xr.testing.assert_identical(found.compute(scheduler="threads"), expected)


@given(cases(labels=ALL_LABELS, missing=True), missing_modes, st.data())
def test_float32_is_float64_of_the_same_values(case: Case, missing: str, data: Any) -> None:
    assume(case.score.dtype == np.float32)
    weight = data.draw(st.one_of(st.none(), weights(case.label.size)))
    expected = ap.estimate(case.score.astype(np.float64), case.label, NAMES, missing=missing, weight=weight)
    np.testing.assert_array_equal(ap.estimate(case.score, case.label, NAMES, missing=missing, weight=weight), expected)


@few
@given(cases(labels=ALL_LABELS, missing=True), missing_modes, st.data())
def test_models_do_not_know_of_each_other(case: Case, missing: str, data: Any) -> None:
    scores = case.dataset
    expected = ap.evaluate(scores, NAMES, missing=missing)
    order = data.draw(st.permutations(range(len(case.score))))
    shuffled = ap.evaluate(scores.isel(model=order), NAMES, missing=missing)
    xr.testing.assert_identical(shuffled, expected.isel(model=order))
    some = order[: data.draw(st.integers(1, len(order)))]
    xr.testing.assert_identical(ap.evaluate(scores.isel(model=some), NAMES, missing=missing), expected.isel(model=some))


@given(cases(), st.floats(0.01, 0.99))
def test_the_layout_of_memory_is_irrelevant(case: Case, prevalence: float) -> None:
    expected = ap.estimate(case.score, case.label, NAMES, prevalence=prevalence)
    strided = np.repeat(case.score, 2, axis=1)[:, ::2]
    read_only = case.score.copy()
    read_only.setflags(write=False)
    for score in (np.asfortranarray(case.score), strided, read_only):
        np.testing.assert_array_equal(ap.estimate(score, case.label, NAMES, prevalence=prevalence), expected)
    for label in (case.label.astype(bool), case.label.astype(np.int64), case.label.astype(float), case.label.tolist()):
        np.testing.assert_array_equal(ap.estimate(case.score, label, NAMES, prevalence=prevalence), expected)


# Intervals

areas = hnp.arrays(np.float64, st.integers(1, 8), elements=st.floats(0, 1, allow_subnormal=False))
sizes = st.integers(1, 10_000)
levels = st.floats(0.5, 0.999)


@given(areas, sizes, levels)
def test_intervals_hold_the_area_and_stay_inside(area: np.ndarray, n: int, level: float) -> None:
    bounds = ap.interval(area, n, FORMULAS, level)
    assert bounds.shape == (area.size, 4, 2)
    assert not np.isnan(bounds).any()
    lower, upper = bounds[..., 0], bounds[..., 1]
    assert (lower <= area[:, None] + 1e-9).all()
    assert (area[:, None] - 1e-9 <= upper).all()
    inside = bounds[:, 1:]
    assert ((inside >= 0) & (inside <= 1)).all()


@given(areas, sizes, levels)
def test_a_list_of_methods_is_each_method(area: np.ndarray, n: int, level: float) -> None:
    together = ap.interval(area, n, FORMULAS, level)
    for position, method in enumerate(FORMULAS):
        np.testing.assert_array_equal(ap.interval(area, n, method, level), together[:, position])
        np.testing.assert_array_equal(ap.interval(area[0], n, method, level), together[0, position])
    lazy = ap.interval(da.from_array(area, chunks=1), n, FORMULAS, level)
    assert isinstance(lazy, da.Array)
    np.testing.assert_array_equal(lazy.compute(scheduler="sync"), together)
    labelled = ap.interval(xr.DataArray(area, dims="model"), n, FORMULAS, level)
    assert labelled.dims == ("model", "interval_method", "ci_bound")
    np.testing.assert_array_equal(labelled.values, together)


@pytest.mark.parametrize("n", [1, 7, 1000])
def test_intervals_at_the_ends(n: int) -> None:
    at_zero, at_one = ap.interval(np.array([0.0, 1.0]), n, FORMULAS)
    z2 = 1.959963984540054**2
    for bounds, end in ((at_zero, 0.0), (1 - at_one[:, ::-1], 0.0)):
        np.testing.assert_array_equal(bounds[:2], [[end, end], [0.0, 1.0]])
        np.testing.assert_array_equal(bounds[2:, 0], end)
        np.testing.assert_allclose(bounds[2:, 1], [z2 / (n + z2), 1 - 0.025 ** (1 / n)], rtol=1e-12)


@pytest.mark.parametrize(("area", "n"), [(np.nan, 5), (0.5, 0), (0.5, np.nan)])
def test_no_interval_without_an_area_and_positives(area: float, n: float) -> None:
    assert np.isnan(ap.interval(area, n, FORMULAS)).all()


@pytest.mark.parametrize(("area", "n"), [(-0.1, 5), (1.1, 5), (0.5, -3)])
def test_no_area_is_outside_its_range(area: float, n: float) -> None:
    for one in (area, np.array([0.5, area])):
        with pytest.raises(InvalidInputError, match=r"is outside its range[\s\S]*received: 1 values"):
            ap.interval(one, n if np.ndim(one) == 0 or n > 0 else np.array([5, n]), FORMULAS)


@given(st.floats(0.05, 0.95), st.integers(5, 10_000), levels)
def test_intervals_against_their_definitions(area: float, n: int, level: float) -> None:
    from scipy import stats

    _, _, wilson, exact = ap.interval(area, n, FORMULAS, level)
    z = stats.norm.isf((1 - level) / 2)
    for bound in wilson:  # the roots of |area - p| = z sqrt(p (1 - p) / n)
        np.testing.assert_allclose((area - bound) ** 2, z**2 * bound * (1 - bound) / n, rtol=1e-9, atol=1e-15)
    # Boundaries of the tests that do not reject, with the beta distribution in place of the binomial.
    tails = stats.beta.cdf(exact[0], n * area, n - n * area + 1), stats.beta.sf(exact[1], n * area + 1, n - n * area)
    np.testing.assert_allclose(tails, (1 - level) / 2, rtol=1e-7)
