"""Swaps of the ranks of two models: exact p-values, the walk of both rankings, and what is refused."""

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
import xarray as xr
from conftest import pooled, queried, without_its_scores
from hypothesis import given
from hypothesis import strategies as st
from reference_cases import oracle
from scipy.stats import rankdata

import aucpr_dask as ap
from aucpr_dask.errors import InvalidInputError
from aucpr_dask.kernels.swaps import LANES, differences_when_swapped

CASES = oracle("swaps")


def of_two(a: Any, b: Any, label: Any, **more: Any) -> xr.Dataset:
    score = np.array([a, b], np.float64)
    variables = {"score": (("model", "item"), score), "label": ("item", np.array(label, np.int8)), **more}
    return xr.Dataset(variables, coords={"model": ["a", "b"]})


def exact_area(rank: list[int], label: list[int]) -> Fraction:
    """Average precision of ranks, each tie group one threshold."""
    area = Fraction(0)
    for threshold in {r for r, y in zip(rank, label, strict=True) if y}:
        above = [y for r, y in zip(rank, label, strict=True) if r >= threshold]
        gained = sum(y for r, y in zip(rank, label, strict=True) if r == threshold)
        area += gained * Fraction(sum(above), len(above))
    return area / sum(label)


def exact_p_value(a: list[int], b: list[int], label: list[int], unit: list[int]) -> Fraction:
    ranks = [[int(2 * r) for r in rankdata(scores)] for scores in (a, b)]

    def size(swapped: tuple[int, ...]) -> Fraction:
        one, other = ([ranks[side ^ swapped[u]][i] for i, u in enumerate(unit)] for side in (0, 1))
        return abs(exact_area(one, label) - exact_area(other, label))

    n_units = max(unit) + 1
    observed = size((0,) * n_units)
    return Fraction(sum(size(swapped) >= observed for swapped in product((0, 1), repeat=n_units)), 2**n_units)


@pytest.mark.smoke
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_p_values_of_few_items_are_exact(case: dict[str, Any]) -> None:
    found = ap.compare(of_two(case["score_a"], case["score_b"], case["y"]), method="rank_swap")
    assert found["p_value"].values[0, 1] == found["p_value"].values[1, 0] == case["p_two_sided"]


@pytest.mark.filterwarnings("ignore::aucpr_dask.errors.DoubtfulScoresWarning")
@given(st.data())
def test_p_values_count_all_swaps(data: st.DataObject) -> None:
    n = data.draw(st.integers(2, 6))
    scores = st.lists(st.integers(0, 4), min_size=n, max_size=n)
    a, b = data.draw(scores), data.draw(scores)
    label = data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n).filter(any))
    unit = data.draw(st.lists(st.integers(0, n - 1), min_size=n, max_size=n))
    unit = np.unique(unit, return_inverse=True)[1].tolist()
    found = ap.compare(of_two(a, b, label, cluster=("item", unit)), method="rank_swap")
    assert found["p_value"].values[0, 1] == float(exact_p_value(a, b, label, unit))


@pytest.mark.parametrize("share", [0.02, 0.5])
@pytest.mark.parametrize("levels", [4, 10**6])
def test_drawn_swaps_are_those_of_the_ranks(share: float, levels: int) -> None:
    rng = np.random.default_rng(levels)
    label = rng.random(300) < share
    ranks = np.stack([(2 * rankdata(rng.integers(levels, size=300))).astype(np.int64) for _ in range(2)])
    unit = rng.integers(90, size=300)
    found = differences_when_swapped(ranks, label, unit, 200, 5, is_complete=False)
    assert found.size == 201
    y = label.astype(int).tolist()
    expected = exact_area(ranks[0].tolist(), y) - exact_area(ranks[1].tolist(), y)
    assert math.isclose(found[0], expected, rel_tol=1e-12, abs_tol=1e-15)
    again = differences_when_swapped(ranks[::-1].copy(), label, unit, 200, 5, is_complete=False)
    np.testing.assert_array_equal(again, -found)
    more = differences_when_swapped(ranks, label, unit, 3 * LANES, 5, is_complete=False)
    np.testing.assert_array_equal(more[:201], found)
    # Swapped by hand: all assignments of one unit at a time.
    for u in (0, 7):
        swapped = np.where(unit == u, ranks[::-1], ranks)
        one = differences_when_swapped(swapped, label, unit, 1, 5, is_complete=False)[0]
        areas = [float(exact_area(row.tolist(), y)) for row in swapped]
        assert math.isclose(one, areas[0] - areas[1], rel_tol=1e-12, abs_tol=1e-15)


def test_the_interval_agrees_with_the_test() -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        label = rng.random(200) < 0.2
        common = rng.normal(size=200)
        a, b = (shift * label + common + 0.7 * rng.normal(size=200) for shift in (1.0, 1.6))
        found = ap.compare(of_two(a, b, label), "a", method="rank_swap", seed=seed).sel(model="b")
        lower, upper = found["interval"].values
        assert (lower > 0 or upper < 0) == (found["p_value"].item() <= 0.05)


def test_many_models_and_clusters() -> None:
    scores = pooled(4, 80)
    found = ap.compare(scores, method="rank_swap")
    assert found.attrs["adjust"] == "holm"
    assert found.attrs["design"].startswith("ranks swapped: within the items, 1,000 times; fixed: the 4 models")
    assert (found["p_adjusted"] >= found["p_value"]).all()
    pair = ap.compare(scores.isel(model=[2, 0]).chunk({"model": 1}), method="rank_swap")
    kept = ["difference", "p_value", "interval", "standard_error"]
    some = found[kept].sel(model=pair["model"], other_model=pair["other_model"])
    xr.testing.assert_equal(pair[kept].compute(), some)
    clustered = scores.assign(cluster=("item", np.arange(80) // 4))
    by_cluster = ap.compare(clustered, method="rank_swap")
    assert "within the clusters" in by_cluster.attrs["design"]
    xr.testing.assert_equal(ap.compare(clustered, method="rank_swap", over="items")[kept], found[kept])


@pytest.mark.parametrize(
    ("scores", "options", "message"),
    [
        (queried(), {"over": "items"}, "the dimension 'query'"),
        (pooled().assign(weight=("item", np.ones(60))), {}, "weight"),
        (pooled(), {"estimator": "roc_area"}, "known for average precision"),
        (pooled(), {"prevalence": 0.5}, "no such option"),
        (without_its_scores(ap.evaluate(pooled())), {}, "pass the scores"),
        (pooled(), {"over": "dataset"}, "over='dataset'"),
    ],
)
def test_other_data_are_refused(scores: xr.Dataset, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        ap.compare(scores, method="rank_swap", **options)
