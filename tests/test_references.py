"""Attainable extremes by enumeration, closed forms, and the random ranking by enumeration."""

import itertools
import math

import numpy as np
import pytest
import xarray as xr

import aucpr_dask as ap
from aucpr_dask.errors import AlignmentError, InvalidInputError

SUMS = [
    "average_precision",
    "haldane",
    "lower_trapezoid",
    "upper_trapezoid",
    "discrete",
    "continuous",
    "gain_area",
    "roc_area",
]
RANKED = [
    "average_precision",
    "haldane",
    "lower_trapezoid",
    "interpolated_max",
    "interpolated_mean",
    "interpolated_convex",
    "continuous",
    "discrete",
    "roc_area",
]


def items(values):
    return xr.DataArray(np.asarray(values), dims="item")


@pytest.mark.parametrize("n_positive", [1, 2, 3, 4])
def test_hard_extremes_and_random_are_those_over_all_orders(n_positive):
    label = np.array([1] * n_positive + [0] * (6 - n_positive))
    orders = set(itertools.permutations(label.tolist()))
    every = np.array([ap.estimate(np.arange(6.0), np.array(order), RANKED) for order in sorted(orders)])
    levels = ap.reference_levels(items(label), RANKED)
    np.testing.assert_allclose(levels["minimum"], every.min(axis=0), atol=1e-15)
    np.testing.assert_allclose(levels["maximum"], every.max(axis=0), atol=1e-15)
    assert np.isnan(levels["random"].sel(estimator=["interpolated_max", "interpolated_convex"])).all()


@pytest.mark.parametrize("prevalence", [None, 0.3])
@pytest.mark.parametrize(("n", "m"), [(1, 5), (2, 4), (3, 3), (5, 2), (6, 1)])
def test_the_random_ranking_is_the_mean_over_all_orders(n, m, prevalence):
    orders = sorted(set(itertools.permutations([1] * n + [0] * m)))
    every = np.array(
        [ap.estimate(np.arange(float(n + m)), np.array(order), SUMS, prevalence=prevalence) for order in orders]
    )
    levels = ap.reference_levels(items([1] * n + [0] * m), SUMS, prevalence=prevalence)
    np.testing.assert_allclose(levels["random"], every.mean(axis=0), rtol=1e-13, atol=1e-15)


def test_the_random_ranking_of_many_items_is_that_of_all_tied_in_expectation():
    label = np.arange(6_000) < 200
    tied = ap.estimate(np.zeros(label.size), label.astype("i1"), ties="expectation")
    levels = ap.reference_levels(items(label.astype("i1")), ["average_precision", "continuous"])
    np.testing.assert_allclose(levels["random"][0], tied, rtol=1e-11)
    assert levels["minimum"][1] < levels["random"][1] < levels["random"][0]


def test_soft_extremes_of_the_continuous_area_are_those_over_all_orders():
    weights = np.random.default_rng(5).random((2, 6)) * [[1.0], [3.0]]
    every = [
        ap.estimate(np.array(order, float), None, "continuous", positive_weight=weights[0], negative_weight=weights[1])
        for order in itertools.permutations(range(6))
    ]
    levels = ap.reference_levels(
        None, "continuous", positive_weight=items(weights[0]), negative_weight=items(weights[1])
    )
    np.testing.assert_allclose(levels["minimum"].item(), min(every), rtol=1e-14)
    np.testing.assert_allclose(levels["maximum"].item(), max(every), rtol=1e-14)


@pytest.mark.parametrize(("n", "m"), [(3, 7), (50, 950)])
def test_closed_forms(n, m):
    label = items([1] * n + [0] * m)
    prevalence = n / (n + m)
    levels = ap.reference_levels(label, ["average_precision", "continuous"])
    expected = [
        math.fsum(i / (i + m) for i in range(1, n + 1)) / n,
        1 + (1 - prevalence) * math.log1p(-prevalence) / prevalence,
    ]
    np.testing.assert_allclose(levels["minimum"], expected, rtol=1e-13)
    grid = np.linspace(0, 1, 20001)
    below = np.trapezoid(ap.unachievable_precision(grid, prevalence), grid)
    assert below == pytest.approx(expected[1], rel=1e-6)


def test_levels_go_with_queries_and_normalise_an_estimate():
    label = xr.DataArray([[1, 0, 0, 0], [1, 1, 1, 0]], dims=("query", "item"), coords={"query": ["a", "b"]})
    levels = ap.reference_levels(label)
    assert levels["minimum"].dims == ("query", "estimator")
    worst = ap.normalised(levels["minimum"], levels)
    best = ap.normalised(levels["maximum"], levels)
    beyond_chance = ap.normalised(xr.full_like(levels["random"], 0.9), levels, zero="random")
    np.testing.assert_allclose(beyond_chance, (0.9 - levels["random"]) / (1 - levels["random"]))
    ends = xr.DataArray([0.8, 1.0], dims="ci_bound")
    assert ap.normalised(ends, levels, zero="random").sizes == {"ci_bound": 2, "query": 2, "estimator": 1}
    scores = xr.Dataset(
        {"score": (("model", "query", "item"), [label + 0.5, -1.0 * label]), "label": label.astype("i1")}
    )
    result = ap.evaluate(scores.assign_coords(model=["good", "bad"]), ["average_precision", "precision_at(2)"])
    with pytest.raises(InvalidInputError, match=r"levels lack an estimator[\s\S]*precision_at"):
        ap.normalised(result, levels)
    levels_of_both = ap.reference_levels(label, ["precision_at(2)", "average_precision"])
    np.testing.assert_allclose(levels_of_both["random"].sel(estimator="precision_at(2)"), [0.25, 0.75])
    beyond = ap.normalised(result, levels_of_both, zero="random")
    for name in ("average_precision", "precision_at(2)"):
        one = {"estimator": name}
        low, high = levels_of_both["random"].sel(one), levels_of_both["maximum"].sel(one)
        for part in ("estimate", "interval"):
            expected = (result[part].sel(one) - low) / (high - low)
            xr.testing.assert_allclose(beyond[part].sel(one), expected.transpose(*beyond[part].sel(one).dims))
    assert "average precision beyond chance" in repr(ap.compare(beyond).aucpr)
    assert worst.values.tolist() == [[0.0], [0.0]]
    assert best.values.tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize("prevalence", [None, 0.3])
def test_levels_of_runs_count_positives_that_they_do_not_list(prevalence):
    label, n_positive = xr.DataArray([1, 0, 1, 0, 0], dims="item"), xr.DataArray(4)
    names = [*SUMS[:6], "gain_area", "roc_area"] + (["recall_at(2)", "precision_at(10)"] if prevalence is None else [])
    levels = ap.reference_levels(label, names, n_positive=n_positive, prevalence=prevalence)
    orders = np.array([*{*itertools.permutations(label.values.tolist())}])
    score = np.broadcast_to(np.arange(5.0)[::-1], orders.shape)
    areas = ap.estimate(score, orders, names, n_positive=np.full(len(orders), 4), prevalence=prevalence)
    has_order = [name not in ("gain_area", "roc_area") for name in names]  # of positives that are not listed
    np.testing.assert_allclose(levels["random"][has_order], areas.mean(axis=0)[has_order])
    np.testing.assert_allclose(levels["maximum"][has_order], areas.max(axis=0)[has_order])
    assert np.isnan(levels["random"][np.logical_not(has_order)]).all()


@pytest.mark.parametrize("label", [[0, 0, 0], [1, 1], [-2, -2]])
def test_no_area_has_no_level_of_chance(label):
    levels = ap.reference_levels(items(label), [*SUMS, "precision_at(1)"])
    np.testing.assert_array_equal(np.isnan(levels["random"]), np.isnan(levels["maximum"]))


def test_invalid_options():
    with pytest.raises(InvalidInputError, match="zero"):
        ap.normalised(xr.DataArray(0.5), xr.Dataset({"minimum": 0.0, "maximum": 1.0}), zero="chance")
    with pytest.raises(InvalidInputError, match="levels are what reference_levels returns"):
        ap.normalised(xr.DataArray(0.5), xr.Dataset({"minimum": 0.0, "maximum": 1.0}), zero="random")
    with pytest.raises(InvalidInputError, match="give either labels"):
        ap.reference_levels(items([1, 0]), positive_weight=items([1.0, 0.0]))
    with pytest.raises(InvalidInputError, match="prevalence must lie"):
        ap.unachievable_precision(0.5, 1.5)


def test_plain_and_lazy_labels():
    label = np.array([[1, 0, 0, 1], [0, 1, 0, 0]])
    expected = ap.reference_levels(xr.DataArray(label, dims=("dim_0", "item")), SUMS)
    assert ap.reference_levels(label, SUMS).identical(expected)
    assert ap.reference_levels(label.tolist(), SUMS).identical(expected)
    lazy = ap.reference_levels(xr.DataArray(label, dims=("dim_0", "item")).chunk({"dim_0": 1}), SUMS)
    xr.testing.assert_allclose(lazy.compute(), expected, rtol=1e-15)


def test_levels_of_other_items_are_refused() -> None:
    random, sites = np.random.default_rng(3), np.resize(list("xxy"), 40)
    label = (random.random((3, 40)) < 0.4).astype("int8")
    label[:, :6] = [1, 0, 1, 0, 1, 0]
    variables = {
        "score": (("model", "query", "item"), random.normal(size=(2, 3, 40))),
        "label": (("query", "item"), label),
    }
    coords = {"model": ["a", "b"], "query": list("pqr"), "site": ("item", sites)}
    scores = xr.Dataset(variables, coords)
    levels = ap.reference_levels(scores["label"])
    some = scores["score"].where(random.random((2, 3, 40)) < 0.9)
    others = {
        "by": ap.evaluate(scores, by="site"),
        "items": ap.evaluate(scores.isel(item=slice(30))),
        "weight": ap.evaluate(scores, weight=xr.DataArray(np.full(40, 0.5), dims="item")),
        "missing": ap.evaluate(scores.assign(score=some), missing="drop"),
    }
    for result in others.values():
        with pytest.raises(AlignmentError, match=r"levels of other items[\s\S]* in the levels, .* in the result \(a/p"):
            ap.normalised(result, levels)
    result = ap.evaluate(scores, prevalence=0.1)
    with pytest.raises(InvalidInputError, match=r"another prevalence[\s\S]*prevalence=0.1\)"):
        ap.normalised(result, levels)
    at_one = ap.normalised(result, ap.reference_levels(scores["label"], prevalence=0.1))
    assert (at_one["estimate"].values >= 0).all()
    with pytest.raises(AlignmentError, match=r"lack labels of 'query'[\s\S]*'r'"):
        ap.normalised(ap.evaluate(scores), levels.isel(query=[0, 1]))
    each = [ap.reference_levels(scores["label"].isel(item=sites == site)) for site in "xy"]
    of_groups = ap.normalised(others["by"], xr.concat(each, xr.Variable("site", ["x", "y"])))
    alone = ap.normalised(ap.evaluate(scores.isel(item=sites == "y")), each[1])
    np.testing.assert_array_equal(of_groups["estimate"].sel(site="y"), alone["estimate"])
