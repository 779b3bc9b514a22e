"""Certified p-values of an area against a random order: enumeration, permutation, known values, and refusals."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import aucpr_dask as ap
from aucpr_dask.errors import InvalidInputError, MissingScoresError, WideBoundsWarning
from aucpr_dask.kernels import chance as bounds
from aucpr_dask.kernels.chance import Orders, chance_bounds

NAN = math.nan


def area(score: list[float], positives: tuple[int, ...], total: int) -> Fraction:
    """Average precision from its definition; items without a score are never ranked."""
    found = Fraction(0)
    for threshold in {score[i] for i in positives if not math.isnan(score[i])}:
        above = [i for i, value in enumerate(score) if value >= threshold]
        precision = Fraction(sum(i in positives for i in above), len(above))
        found += precision * sum(score[i] == threshold for i in positives)
    return found / total


def areas(score: list[float], n_hits: int, total: int) -> list[Fraction]:
    """Return the areas of all orders."""
    return [area(score, places, total) for places in itertools.combinations(range(len(score)), n_hits)]


def share(values: list[Fraction], observed: Fraction) -> Fraction:
    return Fraction(sum(value >= observed for value in values), len(values))


def assert_certified(lower: float, upper: float, exact: Fraction) -> None:
    assert Fraction(float(lower)) <= exact <= Fraction(float(upper)), (float(lower), float(exact), float(upper))
    assert upper <= 1.01 * lower, (lower, upper)


def untied(n_items: int, n_positive: int) -> tuple[Orders]:
    return (Orders(n_items, b"", 0, n_positive, n_positive),)


@pytest.fixture
def without_listing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let no area be found by listing those of all orders, so that all are found on lattices."""
    with monkeypatch.context() as patch:
        patch.setattr(bounds, "MOST_NODES", 0)
        yield


@st.composite
def small_rankings(draw: Any) -> tuple[list[float], list[int], int]:
    """Draw scores with ties and without, labels, and positives that are not items."""
    n_items = draw(st.integers(1, 9))
    values = st.integers(0, draw(st.sampled_from([1, 3, 10**6]))).map(float)
    score = draw(st.lists(st.one_of(values, values, values, st.just(NAN)), min_size=n_items, max_size=n_items))
    label = draw(st.lists(st.integers(0, 1), min_size=n_items, max_size=n_items).filter(any))
    return score, label, draw(st.integers(0, 2))


def check_all_orders(ranking: tuple[list[float], list[int], int]) -> None:
    score, label, n_unseen = ranking
    positives = tuple(np.flatnonzero(label).tolist())
    total = len(positives) + n_unseen
    found = ap.chance(score, label, n_positive=total, missing="unretrieved")
    exact = share(areas(score, len(positives), total), area(score, positives, total))
    assert_certified(found.p_value_lower, found.p_value_upper, exact)


@given(small_rankings())
def test_the_bounds_hold_for_all_orders_of_few_items(ranking: tuple[list[float], list[int], int]) -> None:
    check_all_orders(ranking)


@given(small_rankings())
def test_so_do_those_from_lattices(ranking: tuple[list[float], list[int], int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "MOST_NODES", 0)
        check_all_orders(ranking)


@given(st.lists(small_rankings(), min_size=1, max_size=3))
def test_the_bounds_hold_for_means_over_queries(rankings: list[tuple[list[float], list[int], int]]) -> None:
    rankings = [([*score[:5]], [1, *label[1:5]], 0) for score, label, _ in rankings]
    size = max(len(score) for score, _, _ in rankings)
    score, label = np.full((2, len(rankings), size), NAN)
    label[:] = -2
    exact = {Fraction(0): Fraction(1)}
    observed = Fraction(0)
    for row, (scores, labels, _) in enumerate(rankings):
        score[row, : len(scores)], label[row, : len(labels)] = scores, labels
        positives = tuple(np.flatnonzero(labels).tolist())
        values = areas(scores, len(positives), len(positives))
        observed += area(scores, positives, len(positives))
        added: dict[Fraction, Fraction] = {}
        for (total, mass), value in itertools.product(exact.items(), values):
            added[total + value] = added.get(total + value, Fraction(0)) + mass / len(values)
        exact = added
    dims = ("query", "item")
    found = ap.chance(
        xr.DataArray(score, dims=dims),
        xr.DataArray(label.astype("int8"), dims=dims),
        missing="unretrieved",
        over="query",
    )
    p_value = sum((mass for total, mass in exact.items() if total >= observed), Fraction(0))
    assert_certified(found["p_value_lower"], found["p_value_upper"], p_value)
    assert float(found["area"]) == pytest.approx(float(observed) / len(rankings), abs=1e-15)


@pytest.mark.parametrize("missing", ["last", "drop"])
def test_the_bounds_hold_for_other_meanings_of_missing_scores(missing: str) -> None:
    score, label = [3.0, NAN, 2.0, 2.0, NAN, 1.0, 0.0], [1, 1, 1, 0, 0, 0, 0]
    found = ap.chance(score, label, missing=missing)
    if missing == "last":
        kept, positives = [-1.0 if math.isnan(value) else value for value in score], (0, 1, 2)
    else:
        kept, positives = [value for value in score if not math.isnan(value)], (0, 1)
    exact = share(areas(kept, len(positives), len(positives)), area(kept, positives, len(positives)))
    assert_certified(found.p_value_lower, found.p_value_upper, exact)


@pytest.mark.usefixtures("without_listing")
def test_lattices_agree_with_a_million_orders() -> None:
    n = 200
    first, second, third = np.array(list(itertools.combinations(range(1, n + 1), 3))).T
    values = np.sort((1 / first + 2 / second + 3 / third) / 3)
    observed = values[np.random.default_rng(0).integers(values.size, size=200)]
    lower, upper = chance_bounds(untied(n, 3), observed)
    exact = (values.size - np.searchsorted(values, observed - 1e-13)) / values.size
    assert np.all(lower <= exact * (1 + 1e-15))
    assert np.all(exact <= upper * (1 + 1e-15))
    assert np.all(upper <= 1.01 * lower)


def test_the_best_order_has_the_probability_of_one_order() -> None:
    for n_items, n_positive in ((20, 3), (1000, 10), (2000, 80)):
        lower, upper = chance_bounds(untied(n_items, n_positive), np.array([1.0]))
        assert_certified(lower[0], upper[0], Fraction(1, math.comb(n_items, n_positive)))


def test_the_worst_order_is_no_evidence() -> None:
    found = ap.chance(np.arange(300.0), np.arange(300) < 9)
    assert found.p_value_upper == 1.0
    assert found.p_value_lower > 0.99


def test_constant_scores_are_no_evidence() -> None:
    found = ap.chance(np.zeros(1000), np.arange(1000) < 100)
    assert_certified(found.p_value_lower, found.p_value_upper, Fraction(1))


def test_a_known_value() -> None:
    lower, upper = chance_bounds(untied(400, 8), np.array([0.8]))
    assert 8.56e-13 <= lower[0] <= upper[0] <= 8.82e-13
    assert upper[0] <= 1.01 * lower[0]


def test_bounds_are_close_down_to_1e_15_and_fall_with_the_area() -> None:
    observed = np.linspace(0.004, 0.9, 300)
    lower, upper = chance_bounds(untied(1000, 10), observed)
    assert lower[-1] < 1e-15 < upper[0]
    assert np.all(upper[upper > 1e-15] <= 1.01 * lower[upper > 1e-15])
    assert np.all(lower[1:] <= upper[:-1])


@pytest.mark.parametrize("tied", [False, True])
def test_permutation_agrees(tied: bool) -> None:
    rng = np.random.default_rng(5)
    score = rng.normal(size=200)
    label = np.arange(200) < 12
    score += 0.7 * label
    if tied:
        score = score.round()
    found = ap.chance(score, label)
    orders = rng.permuted(np.tile(label, (20_000, 1)), axis=1)
    permuted = ap.estimate(np.broadcast_to(score, orders.shape), orders)
    drawn = np.count_nonzero(permuted >= found.area - 1e-12)
    for bound in (found.p_value_lower, found.p_value_upper):
        assert stats.binomtest(drawn, len(orders), float(bound)).pvalue > 1e-4


@pytest.mark.slow
def test_permutation_agrees_for_means_over_queries() -> None:
    rng = np.random.default_rng(6)
    label = rng.random((8, 60)) < 0.1
    label[:, 0] = True
    score = rng.normal(size=label.shape) + 0.35 * label
    dims = ("query", "item")
    found = ap.chance(xr.DataArray(score, dims=dims), xr.DataArray(label, dims=dims), over="query")
    orders = rng.permuted(np.tile(label, (4_000, 1, 1)), axis=-1)
    permuted = ap.estimate(np.broadcast_to(score, orders.shape), orders).mean(axis=-1)
    drawn = np.count_nonzero(permuted >= float(found["area"]) - 1e-12)
    assert stats.binomtest(drawn, len(orders), float(found["p_value_upper"])).pvalue > 1e-4
    assert float(found["p_value_upper"]) <= 1.01 * float(found["p_value_lower"])


def test_p_values_are_uniform_without_signal() -> None:
    rng = np.random.default_rng(7)
    found = ap.chance(rng.normal(size=(2_000, 150)), np.arange(150) < 6)
    assert stats.kstest(found.p_value_upper, "uniform").pvalue > 1e-4


def example() -> tuple[xr.DataArray, xr.DataArray]:
    rng = np.random.default_rng(8)
    label = rng.random((3, 40)) < 0.15
    label[:, 0] = True
    score = (rng.normal(size=(4, 3, 40)) + label).round(1)
    coords = {"model": list("abcd"), "query": list("xyz")}
    return (
        xr.DataArray(score, dims=("model", "query", "item"), coords=coords),
        xr.DataArray(label, dims=("query", "item"), coords={"query": coords["query"]}),
    )


@pytest.mark.parametrize("over", [None, pytest.param("query", marks=pytest.mark.slow)])
def test_chunks_and_other_models_change_no_bit(over: str | None) -> None:
    score, label = example()
    whole = ap.chance(score, label, over=over)
    chunks = {"model": 1, "query": 2, "item": -1}
    lazy = ap.chance(score.chunk(chunks), label.chunk({"query": 2, "item": -1}), over=over)
    assert lazy["p_value_upper"].chunks is not None
    xr.testing.assert_identical(lazy.compute(), whole)
    alone = ap.chance(score.isel(model=[2]), label, over=over).drop_vars("p_adjusted")
    xr.testing.assert_identical(alone, whole.drop_vars("p_adjusted").isel(model=[2]))


def test_models_with_the_same_orders_do_not_change_each_other() -> None:
    random = np.random.default_rng(9)
    for n in (12, 20, 28, 36):
        label = np.arange(n) < n // 4
        score = (random.normal(size=(8, n)) + np.linspace(0, 3, 8)[:, None] * label).round(2)
        whole = ap.chance(score, label)
        for place in range(8):
            alone = ap.chance(score[place], label)
            assert (alone.p_value_lower, alone.p_value_upper) == (
                whole.p_value_lower[place],
                whole.p_value_upper[place],
            )


def test_arrays_of_other_kinds_give_the_same_bits() -> None:
    score, label = example()
    whole = ap.chance(score, label)
    plain = ap.chance(score.values, label.values)
    lazy = ap.chance(da.from_array(score.values, chunks=(2, 1, -1)), label.values)
    for name, variable in whole.data_vars.items():
        np.testing.assert_array_equal(getattr(plain, str(name)), variable)
        np.testing.assert_array_equal(getattr(lazy, str(name)).compute(), variable)
    np.testing.assert_array_equal(plain.area, ap.estimate(score.values, label.values))


@pytest.mark.slow
def test_queries_in_another_order_change_no_bit() -> None:
    score, label = example()
    turned = ap.chance(score[:, ::-1], label[::-1], over="query")
    xr.testing.assert_identical(turned, ap.chance(score, label, over="query"))


def test_p_values_are_adjusted_by_the_false_discovery_rate() -> None:
    label = np.arange(60) < 5
    score = np.random.default_rng(9).normal(size=(6, 60)) + np.arange(6)[:, None] * 0.5 * label
    score = np.concatenate([score, score[:1]])
    labels = np.tile(label, (7, 1))
    labels[-1] = False
    found = ap.chance(score, labels)
    assert np.isnan([found.area[-1], found.p_value_lower[-1], found.p_value_upper[-1], found.p_adjusted[-1]]).all()
    np.testing.assert_array_equal(found.p_adjusted[:-1], stats.false_discovery_control(found.p_value_upper[:-1]))


@pytest.mark.slow
def test_queries_without_positives_are_left_out_or_count_as_0() -> None:
    score, label = example()
    extra = xr.concat([label, xr.zeros_like(label[:1]).assign_coords(query=["none"])], "query")
    scores = xr.concat([score, score[:, :1].assign_coords(query=["none"])], "query")
    whole, dropped = ap.chance(score, label, over="query"), ap.chance(scores, extra, over="query")
    xr.testing.assert_identical(dropped, whole)
    zero = ap.chance(scores, extra, over="query", no_positives="zero")
    np.testing.assert_allclose(zero["area"], whole["area"] * 3 / 4)
    np.testing.assert_allclose(zero["p_value_upper"], whole["p_value_upper"], rtol=0.02)


def test_trec_eval_orders_have_no_ties() -> None:
    score, label = [2.0, 2.0, 1.0, 1.0, 1.0, 0.0], [0, 1, 1, 0, 0, 0]
    found = ap.chance(score, label, ties="trec_eval", tie_order=[1, 0, 2, 3, 4, 5])
    strict = ap.chance([5.0, 6.0, 4.0, 3.0, 2.0, 1.0], label)
    assert (found.area, found.p_value_lower, found.p_value_upper) == (
        strict.area,
        strict.p_value_lower,
        strict.p_value_upper,
    )


def test_too_little_work_gives_wider_bounds_that_hold_and_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    label = np.arange(300) < 40
    score = np.random.default_rng(1).normal(size=300) + 0.8 * label
    close = ap.chance(score, label)
    monkeypatch.setattr(bounds, "MOST_WORK", 0)
    with pytest.warns(WideBoundsWarning, match="1 of 1 p-values"):
        wide = ap.chance(score, label)
    assert wide.p_value_lower <= close.p_value_lower <= close.p_value_upper <= wide.p_value_upper
    assert wide.p_value_upper > 1.01 * wide.p_value_lower


def test_bad_input_is_refused() -> None:
    score, label = [0.1, 0.2, 0.3], [0, 1, 0]
    with pytest.raises(InvalidInputError, match="ties"):
        ap.chance(score, label, ties="expectation")
    with pytest.raises(InvalidInputError, match="over"):
        ap.chance(score, label, over="model")
    with pytest.raises(InvalidInputError, match="queries"):
        ap.chance(score, label, over="query")
    with pytest.raises(InvalidInputError, match="queries"):
        ap.chance(xr.DataArray(score, dims="item"), xr.DataArray(label, dims="item"), over="query")
    with pytest.raises(MissingScoresError):
        ap.chance([NAN, 0.2, 0.3], label)
    with pytest.raises(InvalidInputError, match="too many items"):
        ap.chance(np.arange(20_000.0), np.arange(20_000) < 9_000)
