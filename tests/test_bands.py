"""Confidence bands of curves: the resamples they rest on, what they promise, and how often they hold."""

from collections.abc import Iterator
from contextlib import nullcontext
from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy.stats import binomtest

import aucpr_dask as ap
from aucpr_dask.curves.band_math import Places, rate_bands, resampled_points
from aucpr_dask.curves.points import Points, operating_points, precision_on, recall_on
from aucpr_dask.errors import FewPositivesWarning, InvalidInputError
from aucpr_dask.evaluation.request import stream_key
from aucpr_dask.kernels.draws import LANES, draw_counts
from aucpr_dask.kernels.resampling import Ranking, units_of

GRID = np.linspace(0, 1, 21)


@pytest.fixture(scope="module")
def scores() -> xr.Dataset:
    random = np.random.default_rng(7)
    label = (random.random(240) < 0.25).astype("int8")
    skill = np.array([0.5, 1.0, 2.0])[:, None]
    score = (skill * label + random.standard_normal((3, label.size))).round(1)  # with ties
    return xr.Dataset(
        {"score": (("model", "item"), score), "label": ("item", label)}, coords={"model": ["weak", "fair", "strong"]}
    )


def bands_of(scores: xr.Dataset, **options: object) -> xr.Dataset:
    options = {"grid": GRID, "n_resamples": 200} | options
    return ap.curve_bands(scores["score"], scores["label"], **options)  # type: ignore[arg-type]


def resampled(score: np.ndarray, label: np.ndarray, key: int, missing: str) -> tuple[np.ndarray, Iterator[Points]]:
    """Return how often each item is drawn, shape (items, lanes), and the points of every lane."""
    classes = (label > 0).astype(float), (label == 0).astype(float)
    units = units_of(*classes, None)
    count = np.empty((int(units.size.sum()), LANES), np.uint8)
    draw_counts(np.uint64(key), 0, units.size, units.stratum, count)
    ranking = Ranking(score, *classes, units, np.empty(0, np.int64))
    return count[units.of_item], resampled_points(ranking, count, units, missing)


both_kinds = pytest.mark.parametrize("kind", ["precision_recall", "roc"])


@pytest.mark.sparse
@pytest.mark.parametrize("missing", ["raise", "drop", "last", "unretrieved"])
@both_kinds
def test_the_curve_of_a_resample_is_that_of_its_items(scores: xr.Dataset, kind: str, missing: str) -> None:
    """Items written out as often as they were drawn give the same curve."""
    score, label = scores["score"].values[1].copy(), scores["label"].values
    if missing != "raise":
        score[::9] = np.nan
    count, of_lanes = resampled(score, label, 11, missing)
    for lane, points in enumerate(of_lanes):
        drawn = np.repeat(np.arange(label.size), count[:, lane])
        expected = ap.curve(score[drawn], label[drawn], kind=kind, grid=GRID, missing=missing)
        with np.errstate(invalid="ignore"):
            found = recall_on(points, GRID) if kind == "roc" else precision_on(points, GRID)
        start = 0 if kind == "roc" else 1  # where nothing is found, points may be repeated at the beginning
        np.testing.assert_array_equal(found[start:], expected.values[start:])


def test_bands_and_replicates_rest_on_the_same_resamples(scores: xr.Dataset) -> None:
    tree = xr.DataTree.from_dict({"here": scores})
    result = ap.evaluate(tree, n_resamples=LANES, keep_replicates=True, seed=5, prevalence_design="fixed")
    label = scores["label"].values
    areas = []
    for points in resampled(scores["score"].values[2], label, stream_key(5, "here", ""), "raise")[1]:
        found, wrong = points.true_positives, points.false_positives
        precision = found[1:] / np.maximum(found[1:] + wrong[1:], 1)
        areas.append((np.diff(found) * precision).sum() / found[-1])
    kept = result["here"]["replicate"].sel(model="strong").squeeze().values
    np.testing.assert_allclose(areas, kept, rtol=1e-12)


@both_kinds
def test_rates_count_items_where_they_are_expected(kind: str) -> None:
    """The k-th of n items is at the share k / (n + 1), below the mean number of others over all orders of ties."""
    score, label = np.array([3, 3, 3, 2, 1, 1, 0]), np.array([1, 0, 0, 1, 1, 0, 0])
    along = label if kind == "precision_recall" else 1 - label
    n, m = along.sum(), (1 - along).sum()
    above = np.zeros(n)
    orders = list(permutations(range(label.size)))
    for order in orders:
        ranked = along[sorted(order, key=lambda item: -score[item])]
        above += np.cumsum(1 - ranked)[ranked == 1]
    places = np.arange(n + 2) / (n + 1)
    rates = np.concatenate([[0], above / len(orders) / m, [1]])
    points = operating_points(score, label.astype(float), 1.0 - label)
    np.testing.assert_allclose(Places(kind, places).rates(points), rates, rtol=1e-13)
    middles = (places[1:] + places[:-1]) / 2
    expected = [(left + right) / 2 for left, right in pairwise(rates)]
    np.testing.assert_allclose(Places(kind, middles).rates(points), expected, rtol=1e-13)


def test_the_curve_is_that_of_curve(scores: xr.Dataset) -> None:
    for kind, name in (("precision_recall", "precision"), ("roc", "recall")):
        expected = ap.curve(scores["score"], scores["label"], kind=kind, grid=GRID)
        np.testing.assert_array_equal(bands_of(scores, kind=kind)[name], expected)
    moved = ap.curve(scores["score"], scores["label"], grid=GRID, prevalence=0.01)
    np.testing.assert_array_equal(bands_of(scores, prevalence=0.01)["precision"], moved)


@both_kinds
def test_bands_hold_the_curve_and_each_other(scores: xr.Dataset, kind: str) -> None:
    of, over = ("recall", "false_positive_rate") if kind == "roc" else ("precision", "recall")
    bands = bands_of(scores, kind=kind).isel({over: slice(1, None)})
    pointwise, simultaneous = bands["pointwise_band"], bands["simultaneous_band"]
    assert (simultaneous.sel(ci_bound="lower") <= pointwise.sel(ci_bound="lower")).all()
    assert (pointwise.sel(ci_bound="upper") <= simultaneous.sel(ci_bound="upper")).all()
    for band in (pointwise, simultaneous):
        assert (band.sel(ci_bound="lower") <= bands[of]).all()
        assert (bands[of] <= band.sel(ci_bound="upper")).all()
        assert ((band >= 0) & (band <= 1)).all()


@pytest.mark.smoke
def test_bands_are_those_of_the_formula() -> None:
    """A check by hand: two places, a known spread, and the exact interval where it is wider."""
    random = np.random.default_rng(3)
    rates, size = np.array([0.3, 0.6]), 1000.0
    odds = np.log((rates * size + 0.5) / ((1 - rates) * size + 0.5))
    replicates = 1 / (1 + np.exp(-(odds + [0.3, 0.2] * random.standard_normal((4000, 2)))))
    pointwise, simultaneous = rate_bands(rates, replicates, np.array([30.0, 60.0]), 100, size, 0.95)
    few, _ = rate_bands(rates, replicates, np.array([5.0, 5.0]), 10, size, 0.95)
    for band, quantile in ((pointwise, 1.984), (few, 2.262)):  # Student's, with 99 and 9 degrees of freedom
        expected = 1 / (1 + np.exp(-(odds[:, None] + np.outer([0.3, 0.2], [-quantile, quantile]))))
        np.testing.assert_allclose(band, expected, rtol=0.03)
    quantile = 2.236  # of the larger of two independent normal deviates, 0.95 in both
    expected = 1 / (1 + np.exp(-(odds[:, None] + np.outer([0.3, 0.2], [-quantile, quantile]))))
    np.testing.assert_allclose(simultaneous, expected, rtol=0.03)
    _, of_clusters = rate_bands(rates, replicates, np.array([30.0, 60.0]), 100, size, 0.95, 8)
    wider = np.diff(np.log(of_clusters / (1 - of_clusters))) / np.diff(np.log(simultaneous / (1 - simultaneous)))
    np.testing.assert_allclose(wider, 2.3646 / 1.96, rtol=1e-3)  # Student's with 7 degrees of freedom


def test_bands_are_never_narrower_than_the_exact_interval() -> None:
    rates = np.array([0.0, 0.002, 1.0])
    replicates = np.repeat(rates[None], 50, axis=0)  # resamples that see no spread at all
    pointwise, _ = rate_bands(rates, replicates, np.array([20.0, 30.0, 40.0]), 60, 500, 0.95)
    for bounds, hits in zip(pointwise, (0, 1, 500), strict=True):
        exact = binomtest(hits, 500).proportion_ci(0.95)
        assert bounds[0] <= exact.low + 1e-6
        assert bounds[1] >= exact.high - 1e-6


def test_bands_of_too_few_items_follow_from_those_further_in() -> None:
    rates = np.array([0.0, 0.1, 0.4, 0.9, 1.0])
    random = np.random.default_rng(0)
    replicates = np.clip(rates + 0.05 * random.standard_normal((200, 5)), 0, 1)
    passed = np.array([0.0, 4.0, 10.0, 16.0, 20.0])
    for band in rate_bands(rates, replicates, passed, 20, 200, 0.95):
        assert band[0].tolist() == band[1].tolist() == [0.0, band[2, 1]]
        assert band[3].tolist() == band[4].tolist() == [band[2, 0], 1.0]
    nothing, _ = rate_bands(rates, replicates, passed[:5] / 10, 2, 200, 0.95)
    assert nothing.tolist() == [[0.0, 1.0]] * 5


def test_the_order_chunks_and_panels_of_models_change_nothing(
    scores: xr.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = bands_of(scores)
    xr.testing.assert_identical(whole.sel(model=["strong"]), bands_of(scores.sel(model=["strong"])))
    xr.testing.assert_identical(whole, bands_of(scores.isel(model=[2, 0, 1])).sel(model=whole.model))
    lazy = bands_of(scores.chunk(model=1))
    assert lazy["precision"].chunks is not None
    xr.testing.assert_identical(whole, lazy.compute())
    monkeypatch.setattr("aucpr_dask.curves.band_math.PANEL", 2)
    xr.testing.assert_identical(whole, bands_of(scores))


def test_each_seed_and_data_set_has_its_own_resamples(scores: xr.Dataset) -> None:
    first = bands_of(scores, seed=1)["simultaneous_band"]
    assert first.equals(bands_of(scores, seed=1)["simultaneous_band"])
    assert not first.equals(bands_of(scores, seed=2)["simultaneous_band"])
    assert not first.equals(bands_of(scores, seed=1, dataset="other")["simultaneous_band"])


def test_each_query_has_its_own_bands(scores: xr.Dataset) -> None:
    two = xr.concat([scores, scores], xr.IndexVariable("query", ["a", "b"]), data_vars="all").transpose(
        "model", "query", "item"
    )
    bands = bands_of(two)
    assert bands["simultaneous_band"].dims == ("model", "query", "recall", "ci_bound")
    assert not bands.sel(query="a")["simultaneous_band"].equals(bands.sel(query="b")["simultaneous_band"])
    xr.testing.assert_identical(bands.sel(query=["b"]), bands_of(two.sel(query=["b"])))


def test_positives_that_were_never_ranked_are_drawn_too(scores: xr.Dataset) -> None:
    n = int(scores["label"].sum())
    bands = bands_of(scores.isel(model=[2]), n_positive=n + 20, n_resamples=100)
    reach = n / (n + 20)
    precision = bands["precision"].squeeze()
    assert precision.where(precision.recall > reach).isnull().all()
    assert bands["pointwise_band"].where(bands.recall > reach).isnull().all()
    assert bands["pointwise_band"].sel(recall=slice(0.2, 0.5)).notnull().all()


def test_one_class_only_has_no_bands() -> None:
    bands = ap.curve_bands([0.1, 0.2, 0.3], [1, 1, 1], grid=[0.5, 1.0], n_resamples=10)
    assert bands["pointwise_band"].isnull().all()


def test_there_are_no_bands_of_achievable_curves(scores: xr.Dataset) -> None:
    with pytest.raises(InvalidInputError, match="unknown kind"):
        bands_of(scores, kind="achievable")


def test_models_with_separate_lists_share_no_resample(scores: xr.Dataset) -> None:
    label = scores["label"].expand_dims(model=scores.model)
    with pytest.raises(InvalidInputError, match="each model has its own list"):
        ap.curve_bands(scores["score"], label)


@pytest.mark.slow
@both_kinds
def test_bands_hold_as_often_as_they_say(kind: str) -> None:
    """On 300 binormal samples of 1000 items, 100 of them positive."""
    scenario = ap.simulate.binormal(mu=1.0)
    sample = scenario.sample(1000, 0.1, n_simulations=300, seed=1).compute()
    grid = np.linspace(0, 1, 51)
    # As queries, each sample has its own resamples; as models, all would share them.
    queries = sample.rename(model="query")
    bands = ap.curve_bands(queries["score"].expand_dims("model"), queries["label"], kind, grid=grid, n_resamples=300)
    truth = scenario.roc(grid) if kind == "roc" else scenario.curve(grid, 0.1)
    over = "false_positive_rate" if kind == "roc" else "recall"
    truth = xr.DataArray(truth, dims=over)

    def holds(band: str) -> xr.DataArray:
        ends = bands[band].squeeze("model")
        return (ends.sel(ci_bound="lower") <= truth) & (truth <= ends.sel(ci_bound="upper"))

    assert 0.93 <= holds("simultaneous_band").all(over).mean() <= 1.0
    pointwise = holds("pointwise_band").mean("query").sel({over: slice(0.05, 0.95)})
    assert 0.92 <= pointwise.mean() <= 0.985
    assert pointwise.min() > 0.87


@both_kinds
def test_bands_of_groups_reckon_with_copies(scores: xr.Dataset, kind: str) -> None:
    """Ten copies of every item are no more data, if they are drawn together."""
    alone = bands_of(scores, kind=kind, clusters=np.arange(scores.sizes["item"]))
    copies = scores.isel(item=np.repeat(np.arange(scores.sizes["item"]), 10))
    groups = np.repeat(np.arange(scores.sizes["item"]), 10)
    together, apart = bands_of(copies, kind=kind, clusters=groups), bands_of(copies, kind=kind)
    assert (together.attrs["resampled"], apart.attrs["resampled"][:5]) == ("clusters", "items")
    wide, same, narrow = (float(bands["pointwise_band"].diff("ci_bound").mean()) for bands in (alone, together, apart))
    assert narrow < 0.6 * same
    assert same == pytest.approx(wide, rel=0.1)
    xr.testing.assert_equal(bands_of(copies, kind=kind, clusters=[f"g{i}" for i in groups]), together)


def test_groups_without_a_class_in_some_draws_have_bands(scores: xr.Dataset) -> None:
    ordered = scores.sortby("label")
    groups = np.arange(ordered.sizes["item"]) // 30  # two of eight hold positives
    bands = bands_of(ordered, clusters=groups)
    assert float(bands["pointwise_band"].sel(ci_bound="upper").isel(recall=10).min()) < 1
    with pytest.raises(InvalidInputError, match="clusters do not fit the items"):
        bands_of(scores, clusters=groups[:-1])


def test_days_are_clusters_of_a_grid() -> None:
    random, day = np.random.default_rng(0), xr.DataArray(np.arange(40) // 4, {"time": np.arange(40)}, name="day")
    label = xr.DataArray((random.random((40, 6)) < 0.3).astype("int8"), {"time": np.arange(40), "lat": np.arange(6.0)})
    score = xr.DataArray(
        random.normal(size=(2, 40, 6)), {"model": ["a", "b"]} | dict(label.coords), ["model", *label.dims]
    )
    asked: Any = {"dim": ("time", "lat"), "n_resamples": 100}
    flat = ap.curve_bands(
        score.values.reshape(2, -1), label.values.ravel(), clusters=np.repeat(day.values, 6), n_resamples=100
    )
    named = score.assign_coords(day=day).transpose("lat", "model", "time")
    for found in (
        ap.curve_bands(score, label, clusters=day, **asked),
        ap.curve_bands(named, label, clusters="day", **asked),
        ap.curve_bands(score.chunk(model=1), label, clusters=day, **asked).compute(),
    ):
        for name in flat:
            np.testing.assert_array_equal(found[name].transpose(*flat[name].dims), flat[name])
    with pytest.raises(InvalidInputError, match="clusters have another dimension than the scores"):
        ap.curve_bands(score, label, clusters=day.rename(time="day"), **asked)


def test_plots_draw_clusters_where_there_are_some(scores: xr.Dataset) -> None:
    clustered = scores.assign(cluster=("item", np.arange(scores.sizes["item"]) // 6))
    said = {}
    for unit in (None, "items"):
        ax = clustered.aucpr.plot.precision_recall("fair", bands="pointwise", n_resamples=100, over=unit)
        said[unit] = [text for text in ax.get_legend_handles_labels()[1] if "band" in text]
    assert said == {None: ["95 % pointwise band (clusters)"], "items": ["95 % pointwise band"]}


@pytest.mark.parametrize("kind", ["precision_recall", "roc"])
@pytest.mark.parametrize("n", [4, 10, 30])
def test_a_pointwise_band_is_the_same_on_every_grid(n: int, kind: str) -> None:
    random = np.random.default_rng(n)
    label = np.arange(10 * n) < n
    label = label if kind == "precision_recall" else ~label
    score = random.normal(size=label.size) + 1.5 * label
    over = "recall" if kind == "precision_recall" else "false_positive_rate"
    grids = [[0.1], [0.1, 0.3], np.linspace(0.1, 0.9, 9), np.linspace(0.05, 0.95, 19)]
    with pytest.warns(FewPositivesWarning, match="say nothing at any place") if n < 10 else nullcontext():
        bands = [ap.curve_bands(score, label, kind, grid=grid, n_resamples=100)["pointwise_band"] for grid in grids]
    at = [band.sel({over: 0.1}, method="nearest").values for band in bands]
    for one in at[1:]:
        np.testing.assert_allclose(one, at[0], rtol=1e-9)
    prevalence = label.mean()
    trivial = prevalence * grids[-1] / (prevalence * grids[-1] + 1 - prevalence) if kind == "precision_recall" else 0
    informs = (bands[-1].sel(ci_bound="lower") > trivial + 1e-9) | (bands[-1].sel(ci_bound="upper") < 1)
    assert informs.any() == (n >= 10)
