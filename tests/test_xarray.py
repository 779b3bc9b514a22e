"""Scores and results are at home in xarray: what people do with any Dataset works with these, too."""

import re
import warnings
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from distributed import Client

import aucpr_dask as ap
from aucpr_dask.errors import AlignmentError, InvalidInputError, MissingScoresError
from aucpr_dask.scores.store import changed_rankings


def scores() -> xr.Dataset:
    random = np.random.default_rng(0)
    return xr.Dataset(
        {
            "score": (("model", "query", "item"), random.normal(size=(4, 3, 60))),
            "label": (("query", "item"), (random.random((3, 60)) < 0.4).astype("int8")),
        },
        coords={
            "model": list("abcd"),
            "query": [3, 1, 2],
            "family": ("model", ["x", "x", "y", "y"]),
            "when": ("query", pd.date_range("2020-01-01", periods=3)),
            "took": ("query", pd.to_timedelta([1, 2, 3], "s")),
            "site": "here",
        },
    )


def test_coordinates_travel_and_xarray_goes_on(client: Client, tmp_path: Path) -> None:
    in_memory = ap.evaluate(scores())
    ap.save_scores(scores(), tmp_path / "s.zarr")
    stored = ap.run(tmp_path / "s.zarr", tmp_path / "r.zarr", workers=client)
    xr.testing.assert_equal(stored, in_memory)
    with xr.open_zarr(tmp_path / "r.zarr") as by_xarray_alone:
        loaded = by_xarray_alone.load()
    assert loaded["estimate"].sel(query=1).plot.line()
    assert loaded["estimate"].idxmax("model").equals(in_memory["estimate"].idxmax("model"))
    for result in (in_memory, stored):
        assert {"family", "when", "took", "site"} <= set(result.coords)
        assert (result["when"].dtype.kind, result["took"].dtype.kind, result["query"].dtype.kind) == ("M", "m", "i")
        assert result["estimate"].groupby("family").mean().sizes == {"family": 2, "query": 3}
        assert result["estimate"].idxmax("model").dtype.kind in "OU"
        assert result.to_dataframe()["estimate"].notna().all()
        result.to_netcdf(tmp_path / "r.nc", engine="scipy")
        assert xr.open_dataset(tmp_path / "r.nc", engine="scipy")["model"].values.tolist() == list("abcd")
    both = xr.concat([ap.evaluate(scores(), name) for name in ("average_precision", "haldane")], "estimator")
    np.testing.assert_array_equal(both["estimate"].sel(estimator="average_precision"), in_memory["estimate"])
    assert ap.aggregate(both)["estimate"].sizes == {"model": 4, "estimator": 2}


@pytest.mark.parametrize(
    ("source", "is_list"),
    [
        ("store", True),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in (("lazy", False), ("memory", True))),
        *(
            pytest.param(*one, marks=(pytest.mark.slow, pytest.mark.nightly))
            for one in (("store", False), ("lazy", True), ("memory", False))
        ),
    ],
)
def test_what_people_do_next(source: str, is_list: bool, client: Client, tmp_path: Path) -> None:
    given, intervals = scores(), ["logit", "wilson"] if is_list else "logit"
    estimators: Any = ["average_precision", "haldane"] if is_list else "average_precision"
    if source == "store":
        ap.save_scores(given, tmp_path / "s.zarr")
        options: Any = {"estimator": estimators, "interval": intervals, "workers": client}
        result = ap.run(tmp_path / "s.zarr", tmp_path / "r.zarr", **options)
    else:
        result = ap.evaluate(given.chunk(model=2) if source == "lazy" else given, estimators, intervals)
        lazy_result, result = result, result.compute(scheduler="threads")
        assert lazy_result.groupby("family").mean().equals(result.groupby("family").mean())
    estimate = result["estimate"]
    with warnings.catch_warnings():  # of xarray and Zarr, with any data
        warnings.filterwarnings(
            "ignore", "(?s).*(In a future version|FixedLengthUTF32|Consolidated metadata|cell centers)"
        )
        assert xr.merge([result[["estimate"]], result[["interval"]]], compat="override")["estimate"].equals(estimate)
        parts = [result.isel(model=[0, 1]), result.isel(model=[2, 3])]
        assert xr.concat(parts, "model", data_vars="minimal").equals(result)
        for version in (2, 3):
            result.to_zarr(tmp_path / f"{version}.zarr", zarr_format=version)
            assert xr.open_zarr(tmp_path / f"{version}.zarr").equals(result)
        estimate.plot()
        estimate.isel(query=0).plot() if estimate.ndim > 2 else estimate.plot.line(x="query")
    result.to_netcdf(tmp_path / "r.nc", engine="scipy")
    assert xr.load_dataset(tmp_path / "r.nc", engine="scipy").equals(result)
    assert result.groupby("family").mean()["estimate"].sizes["family"] == 2
    assert estimate.groupby("when.year").mean().sizes["year"] == 1
    best = estimate.max("model")
    assert (estimate.sel(model=estimate.idxmax("model")) == best).all()
    assert len(result.to_dataframe()) == result["interval"].size
    assert estimate.to_series().sum() == pytest.approx(float(estimate.sum()))
    assert result.sortby("model", ascending=False)["model"].values.tolist() == list("dcba")
    assert (result - result.sel(model="a"))["estimate"].sel(model="a").isin(0).all()


@pytest.mark.parametrize(
    ("name", "ours"), [("sample_weight", "weight"), ("groups", "cluster"), ("folds", "fold"), ("labels", "label")]
)
def test_a_variable_that_would_be_ignored_is_refused(name: str, ours: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"'{name}'[\s\S]*rename\(\{{'{name}': '{ours}'\}}\)"):
        ap.evaluate(scores().assign({name: ("item", np.ones(60))}))


def of_several_levels(dim: str) -> xr.Dataset:
    """Return scores whose labels along a dimension have two levels: numbers of lat, and text."""
    given = scores().drop_vars(dim, errors="ignore")
    given = given.isel(query=0, drop=True).expand_dims(cell=6).copy() if dim == "cell" else given
    size = given.sizes[dim]
    levels = pd.MultiIndex.from_product([np.arange(size // 2 + size % 2) / 4, ["x", "y"]], names=["lat", "surface"])
    given = given.assign_coords(xr.Coordinates.from_pandas_multiindex(levels[:size], dim))
    given["lat"].attrs = {"units": "degrees_north"}
    return given


@pytest.mark.slow
@pytest.mark.parametrize("dim", ["model", "item", "query", "cell"])
def test_labels_of_several_levels_come_out_as_they_went_in(dim: str, client: Client, tmp_path: Path) -> None:
    given = of_several_levels(dim)
    ap.save_scores(given, tmp_path / "s.zarr")
    stored = ap.run(tmp_path / "s.zarr", tmp_path / "r.zarr", workers=client)
    ap.save_comparison(ap.compare(given), tmp_path / "c.zarr")
    answers = {
        "scores": [given, ap.open_scores(tmp_path / "s.zarr")],
        "result": [ap.evaluate(given), ap.evaluate(given.chunk(model=2)), stored, ap.open_result(tmp_path / "r.zarr")],
        "comparison": [ap.compare(given), ap.compare(stored), ap.open_comparison(tmp_path / "c.zarr")],
    }
    named = given.reset_index(dim)
    if dim != "item":
        named = named.assign_coords({dim: [f"{lat}/{one}" for lat, one in given.indexes[dim]]})
    expected: Any = {"scores": named, "result": ap.evaluate(named), "comparison": ap.compare(named)}
    for kind, found in answers.items():
        text = str(expected[kind].aucpr) if kind != "scores" and dim in expected[kind].dims else ""
        for one in (answer.compute() for answer in found):
            for name in expected[kind].data_vars:
                array = expected[kind][name]
                np.testing.assert_array_equal(one[name].transpose(*array.dims), array)
            if dim not in one.dims:  # results have no items, and comparisons over queries none of these
                continue
            pd.testing.assert_index_equal(one.indexes[dim], given.indexes[dim])
            assert (one["lat"].dtype.kind, one["surface"].dtype.kind in "OU") == ("f", True)
            assert one["lat"].attrs == given["lat"].attrs
            second = one.sel({dim: (0.0, "y")})
            assert second.drop_vars([dim, "lat", "surface"]).equals(
                one.isel({dim: 1}).drop_vars([dim, "lat", "surface"])
            )
            if kind != "scores":
                assert str(one.aucpr) == text
    table = expected["result"].aucpr.to_dataframe()
    pd.testing.assert_frame_equal(stored.aucpr.to_dataframe().convert_dtypes(), table.convert_dtypes())
    if dim in stored.dims:
        ap.report(stored, tmp_path / "report.html")
        assert stored.aucpr.plot()
    with xr.open_zarr(tmp_path / ("s.zarr" if dim == "item" else "r.zarr")) as by_xarray_alone:
        assert by_xarray_alone["surface"].dims == (dim,)
        np.testing.assert_array_equal(by_xarray_alone["lat"], given["lat"])


def test_weights_and_groups_meet_labels_of_several_levels(tmp_path: Path) -> None:
    given = of_several_levels("item").isel(query=0, drop=True)
    weight = given["lat"] + 1
    plain = given.reset_index("item")
    expected = ap.evaluate(plain, by="surface", weight=weight.values)["estimate"]
    np.testing.assert_array_equal(ap.evaluate(given, by="surface", weight=weight)["estimate"], expected)
    with pytest.raises(AlignmentError, match="different labels along 'item'"):
        ap.evaluate(given, weight=weight[::-1])
    renamed = given.rename(item="time")
    found = ap.evaluate(renamed, dim="time", by="surface", weight=weight.values)
    np.testing.assert_array_equal(found["estimate"], expected)
    score = renamed["score"].variable.set_dims({"lon": 2, "model": 4, "time": 60})
    score = score + xr.Variable("lon", [0.0, 0.1])
    grid, whole = renamed.assign(score=score), plain.rename(item="time").assign(score=score)
    whole = whole.stack(item=("time", "lon"), create_index=False)
    ap.save_scores(grid, tmp_path / "grid.zarr", dim=("time", "lon"))
    for one in (ap.evaluate(grid, dim=("time", "lon")), ap.evaluate(ap.open_scores(tmp_path / "grid.zarr"))):
        np.testing.assert_array_equal(one["estimate"], ap.evaluate(whole)["estimate"])
    tree = xr.DataTree.from_dict({"a": given, "b": given.isel(item=slice(40))})
    again = ap.to_tree(ap.to_long(tree))
    np.testing.assert_array_equal(again["b/score"], tree["b/score"])
    np.testing.assert_array_equal(again["b/surface"], tree["b/surface"])


def test_a_store_cleaned_in_xarray_is_judged_by_what_it_holds(tmp_path: Path) -> None:
    lacking = scores()
    lacking["score"][0, 0, 0] = np.nan
    ap.save_scores(lacking, tmp_path / "s.zarr")
    for chunks in (None, "auto"):
        opened = ap.open_scores(tmp_path / "s.zarr", chunks=chunks)
        cleaned = ap.evaluate(opened.assign(score=opened["score"].fillna(-9))).compute()
        np.testing.assert_array_equal(cleaned["estimate"], ap.evaluate(lacking.fillna(-9))["estimate"])
        assert ap.evaluate(opened.isel(item=slice(1, None))).compute()["estimate"].notnull().all()
        with pytest.raises(MissingScoresError):
            ap.evaluate(opened).compute()


@pytest.mark.filterwarnings("ignore:bands along")  # few positives
@pytest.mark.parametrize("dims", [("time", "lat"), ["lat", "time"], ("time",)])
def test_items_may_lie_along_several_dimensions(dims: Any) -> None:
    random = np.random.default_rng(0)
    score = xr.DataArray(random.normal(size=(2, 8, 6)), dims=("model", "time", "lat"), coords={"time": range(8)})
    label = xr.DataArray((random.random((8, 6)) < 0.4).astype("int8"), dims=("time", "lat"), coords={"time": range(8)})
    weight = xr.DataArray(np.arange(1.0, 9), dims="time")
    one = {name: array.stack(item=dims, create_index=False) for name, array in (("score", score), ("label", label))}
    for function in (ap.estimate, ap.chance, partial(ap.curve_bands, n_resamples=50)):
        ours: Any = function  # each has a signature of its own
        xr.testing.assert_equal(ours(score, label, dim=dims), ours(**one))
    xr.testing.assert_equal(ap.curve(score, label, dim=dims, grid=[0.5]), ap.curve(**one, grid=[0.5]))
    xr.testing.assert_equal(ap.confusion(score, label, [0.0], dim=dims), ap.confusion(**one, thresholds=[0.0]))
    xr.testing.assert_equal(ap.reference_levels(label, dim=dims), ap.reference_levels(one["label"]))
    weighted = ap.estimate(score, label, weight=weight, dim=dims)
    each = weight.broadcast_like(label).stack(item=dims, create_index=False)
    xr.testing.assert_equal(weighted, ap.estimate(**one, weight=each))
    xr.testing.assert_equal(ap.estimate(score.chunk(time=3), label, dim=dims).compute(), ap.estimate(**one))
    with pytest.raises(AlignmentError, match="different labels along 'time'"):
        ap.estimate(score, label.assign_coords(time=range(1, 9)), dim=["time", "lat"])


def test_several_dimensions_need_names_of_dimensions() -> None:
    for dim, score in (((), xr.DataArray([1.0, 0], dims="item")), (("a", "b"), np.eye(2)), (("a", "a"), np.eye(2))):
        with pytest.raises(InvalidInputError, match="argument 'dim'"):
            ap.estimate(score, [1, 0] if isinstance(score, np.ndarray) else score.astype(int), dim=dim)
    label = (("time", "lat"), np.eye(2, 3, dtype=np.int8))
    grid = xr.Dataset({"score": (("model", "time", "lat"), np.zeros((1, 2, 3))), "label": label})
    with pytest.raises(InvalidInputError, match=r"stack\(item=\('time', 'lat'\), create_index=False\)"):
        ap.evaluate(grid)
    for found in (
        ap.evaluate(grid.stack(item=("time", "lat"), create_index=False)),
        ap.evaluate(grid, dim=["time", "lat"]),
    ):
        assert found["estimate"].sizes == {"model": 1}


@pytest.mark.sparse
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("without", ["weight", "n_positive"])
def test_models_can_be_concatenated(without: str, lazy: bool) -> None:
    whole = scores().isel(query=0, drop=True)
    whole = whole.assign(weight=("item", np.ones(60)), fold=("item", np.arange(60) % 5))
    groups = (
        {"cluster": ("item", np.repeat([f"patient {i}" for i in range(20)], 3).astype(object))}
        if without == "n_positive"
        else {}
    )
    whole = whole.assign(n_positive=((), int(whole["label"].sum())), **groups).drop_vars(without)
    whole = whole.assign(score=whole["score"].chunk()) if lazy else whole
    both = xr.concat([whole.isel(model=[0, 1]), whole.isel(model=[2, 3])], "model", data_vars="all")
    assert all("model" in array.dims for array in both.values())
    xr.testing.assert_identical(ap.evaluate(both).compute(), ap.evaluate(whole).compute())
    xr.testing.assert_identical(ap.compare(both, "a"), ap.compare(whole, "a"))


@pytest.mark.filterwarnings("ignore::aucpr_dask.errors.FewPositivesWarning")
@pytest.mark.parametrize("question", [ap.compare, ap.rank, ap.aggregate])
def test_joined_results_are_paired_only_if_they_can_be(question: Any) -> None:
    data = scores().isel(query=0, drop=True)
    first, second = data.isel(model=[0, 1]), data.isel(model=[2, 3])
    options: dict[str, Any] = {"keep_replicates": True, "n_resamples": 100}

    def join(other: xr.Dataset, **more: Any) -> xr.Dataset:
        results = ap.evaluate(first, **options), ap.evaluate(other, **options, **more)
        return xr.concat(results, "model", coords="different", compat="equals")

    whole = ap.evaluate(data, **options)
    expected = question(whole.drop_attrs(deep=False).assign_attrs(sampled="items"))  # which knows no scores
    assert question(join(second)).drop_attrs().equals(expected.drop_attrs())
    with pytest.raises(AlignmentError, match="'b' by 'average_precision', 'c' by 'roc_area'"):
        question(join(second, estimator="roc_area"))
    other = second.assign(label=second["label"] * (second["item"] > 9))
    if question is not ap.aggregate:
        with pytest.raises(AlignmentError, match="evaluated on different items, so their resamples are no pairs"):
            question(join(other))
    with pytest.raises(InvalidInputError, match=re.escape("without 'resample'")):
        question(whole.drop_dims("ci_bound").to_dataarray().to_dataset("variable"))


def test_what_differs_between_models_is_theirs_or_refused(tmp_path: Path) -> None:
    one = scores().isel(query=0, drop=True)
    parts = [one.isel(model=[0]), one.isel(model=[1]).assign(label=1 - one["label"])]
    both = xr.concat(parts, "model", data_vars="all")
    alone = [ap.evaluate(part)["estimate"].item() for part in parts]
    np.testing.assert_array_equal(ap.evaluate(both)["estimate"], alone)
    for name in ("cluster", "fold"):
        apart = both.assign({name: (("model", "item"), np.arange(120).reshape(2, 60))})
        with pytest.raises(InvalidInputError, match=rf"'{name}' must be the same for all models[\s\S]*isel\(model=0"):
            ap.save_scores(apart, tmp_path / "s.zarr")


@pytest.mark.parametrize(
    "value", [{"x": np.arange(2)}, np.datetime64("2020"), Path("x"), {1}, b"x", print, [np.float32(2)]]
)
@pytest.mark.parametrize("holder", ["the data set", "variable 'score'", "variable 'model'", "variable 'family'"])
def test_attributes_that_no_store_holds_are_named(value: Any, holder: str, tmp_path: Path) -> None:
    given: Any = scores()
    name = holder.removeprefix("variable ").strip("'")
    (given if holder == "the data set" else given[name]).attrs["odd"] = value
    with pytest.raises(InvalidInputError, match=rf"attribute 'odd' cannot be stored\n  where: .*{holder}[\s\S]*str"):
        ap.save_scores(given, tmp_path / "s.zarr")
    assert not (tmp_path / "s.zarr").exists()


@pytest.mark.parametrize("layout", ["in memory", "stored", "stored, of each run"])
def test_counts_of_grades_that_labels_have_lost_are_refused(layout: str, tmp_path: Path) -> None:
    counts = xr.DataArray([[9, 6]] * 3, dims=("query", "grade"), coords={"grade": [1, 2]})
    given = scores().assign(n_positive=counts * 10, label=scores()["label"] * 2)
    options: Any = {"convention": "trec_eval", "ties": "group"}
    if layout != "in memory":
        if "run" in layout:
            label = given["label"].expand_dims(model=given["model"]).copy()
            given = given.assign(label=label.where(label["model"] != "a", label.roll(item=1)).astype("int8"))
        ap.save_scores(given, tmp_path / "s.zarr")
        given = cast("xr.Dataset", ap.open_scores(tmp_path / "s.zarr"))
        assert (given["label"].chunks is None) == ("run" not in layout)
    expected = ap.evaluate(given, positive_from=2, **options)["estimate"]
    changed = given.assign(label=(given["label"] >= 2).astype("int8"))
    with pytest.raises(InvalidInputError, match="all labels are 0 or 1"):
        ap.evaluate(changed, **options)
    with pytest.raises(InvalidInputError, match="all labels are 0 or 1"):
        ap.save_scores(changed, tmp_path / "changed.zarr")
    changed = changed.assign(n_positive=changed["n_positive"].sel(grade=2, drop=True))
    np.testing.assert_array_equal(ap.evaluate(changed, **options)["estimate"], expected)


def test_plot_picks_the_usual_picture() -> None:
    result: Any = ap.evaluate(scores())
    for data, plot in ((result, "forest"), (ap.compare(result, "a"), "differences"), (ap.rank(result), "ranks")):
        chosen, named = data.aucpr.plot(), getattr(data.aucpr.plot, plot)()
        assert (chosen.get_xlabel(), chosen.get_title("left")) == (named.get_xlabel(), named.get_title("left"))


def test_everything_with_a_text_has_one_in_notebooks() -> None:
    given = scores().isel(query=0, drop=True).assign_coords(model=["<b>a", "b", "c", "d"])
    labels, (first, second) = given["label"].values, given["score"].values[:2]
    bounds = ap.Accumulator()
    bounds.update(first, labels)
    shown: list[Any] = [
        ap.gate(given, "<b>a", "b"),
        ap.gate(given, ["<b>a", "c"], "b"),
        ap.metrics.average_precision_difference(labels, first, second),
        ap.chance(first, labels),
        ap.chance(given["score"], given["label"]).aucpr,
        ap.power(given).aucpr,
        bounds,
        bounds.compute(),
    ]
    for one in shown:
        page = one._repr_html_()
        assert "<b>" not in page
        text = " ".join(re.sub("<[^>]*>", " ", page).split())  # the cells of tables, one after the other
        shown_lines = [" ".join(line.split()) for line in escape(repr(one)).splitlines()]
        assert [line in page or line in text for line in shown_lines].count(False) <= 1, page


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: ap.save_scores(pd.DataFrame({"a": [1.0]}), "x.zarr"),
            r"labels are needed[\s\S]*ap\.from_dataframe\(frame",
        ),
        (lambda: ap.Accumulator().update([0, 1, 1], [0.2, 0.9, 0.4]), "look like labels[\\s\\S]*swap the two"),
        (lambda: scores().isel(query=0).aucpr.plot.roc("A"), "did you mean 'a'"),
        (
            lambda: ap.from_dataframe(pd.DataFrame({"y": [0, 1], "a": [0.5, 0.1]}), label="Y"),
            r"no column 'Y'; did you mean 'y'\?[\s\S]*received: 'Y'",
        ),
        (lambda: ap.compare(scores(), "A"), "did you mean 'a'"),
        (lambda: ap.report(np.zeros(3), "x.html"), r"received: ndarray[\s\S]*evaluate\(\{"),
    ],
)
def test_messages_lead_on(call: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        call()


def data_at_leads() -> xr.Dataset:
    random = np.random.default_rng(0)
    label = (random.random((3, 300)) < 0.2).astype("int8")
    score = random.normal(size=(2, 3, 300)) + label * np.array([1, 1.4])[:, None, None]
    coords = {
        "model": ("model", ["a", "b"], {"note": "m"}),
        "family": ("model", ["x", "y"], {"note": "f", "sizes": [1, 2]}),
    }
    coords |= {"lead": ("lead", pd.to_timedelta([6, 24, 72], unit="h"), {"standard_name": "forecast_period"})}
    coords |= {"season": ("lead", ["w", "s", "w"], {"long_name": "season"})}
    coords |= {"level": ((), 500.0, {"units": "hPa"}), "run": ((), np.datetime64("2024-01-01", "ns"))}
    coords |= {"site": ("item", np.arange(300) % 3, {"note": "s"})}
    return xr.Dataset({"score": (("model", "lead", "item"), score), "label": (("lead", "item"), label)}, coords)


def test_coordinates_travel_into_answers_with_their_attributes(tmp_path: Path) -> None:
    data = data_at_leads()
    result = ap.evaluate(data)
    answers = [ap.compare(data, "a"), ap.rank(data), ap.power(data), ap.compare(result, "a"), ap.covariance(data)]
    answers += [ap.aggregate(result), ap.contrast(data, "site"), ap.compare(data, by="site"), result]
    answers += [ap.curve(data["score"], data["label"], grid=[0.5]), ap.curve(data["score"], data["label"])]
    answers += [ap.estimate(data["score"], data["label"]), ap.evaluate(data, by="site")]
    ap.save_comparison(answers[0], tmp_path / "stored.zarr")
    for answer in [*answers, ap.open_comparison(tmp_path / "stored.zarr")]:
        for name in ("model", "family", "lead", "season", "level", "run"):
            assert answer[name].dims == data[name].dims
            assert answer[name].values.tolist() == data[name].values.tolist(), name
            assert answer[name].attrs == data[name].attrs
        assert "site" not in answer.dims or answer["site"].attrs == {"note": "s"}
    assert answers[0].attrs["level"] == 0.95
    assert "95 % interval" in str(result.aucpr)
    assert set(result.aucpr.to_dataframe()["level"]) == {0.95}
    assert str(ap.aggregate(result).aucpr).count("[0.458, 0.717]") == 1  # of a lead


@pytest.mark.parametrize("unit", ["s", "ns", *(pytest.param(unit, marks=pytest.mark.slow) for unit in ("ms", "us"))])
def test_times_come_out_in_the_unit_in_which_they_went_in(unit: str, tmp_path: Path) -> None:
    dates = np.array(["1969-01-01", "2024-02-29T01:02:03", "NaT"], f"M8[{unit}]")
    dates[1] += np.timedelta64(1, unit)
    data = (
        data_at_leads().drop_vars(["lead", "run"]).assign_coords(lead=dates[[1, 0, 1]] - np.array([0, 0, 1], "m8[D]"))
    )
    data = data.assign_coords(run=dates[1], due=("lead", dates), took=("lead", dates - dates[0]))
    data = data.assign_coords(item=np.arange(300) + dates[0], seen=("item", np.resize(dates, 300)))
    ap.save_scores(data, tmp_path / "s.zarr")
    opened = ap.open_scores(tmp_path / "s.zarr")
    stored = ap.run(tmp_path / "s.zarr", tmp_path / "r.zarr")
    ap.save_comparison(ap.compare(stored, "a"), tmp_path / "c.zarr")
    for answer in (opened, stored, ap.evaluate(data), ap.evaluate(opened), ap.open_comparison(tmp_path / "c.zarr")):
        names = ("lead", "run", "due", "took", *(("item", "seen") if "item" in answer.dims else ()))
        for name in names:
            np.testing.assert_array_equal(answer[name], data[name])
            assert (name, answer[name].dtype) == (name, data[name].dtype)
    assert changed_rankings(tmp_path / "s.zarr") == (6, [])


def test_coordinates_of_several_data_sets_travel_where_they_agree() -> None:
    data = data_at_leads().isel(lead=0, drop=True)
    later = data.assign_coords(run=np.datetime64("2025-01-01", "ns")).assign(score=data["score"] * 2)
    tree = xr.DataTree.from_dict({"one": data, "two": later.isel(model=[1, 0])})
    answer = ap.compare(tree, "a", over="dataset")
    assert answer["family"].values.tolist() == ["x", "y"]
    assert float(answer["level"]) == 500
    assert "run" not in answer.coords
    other = xr.DataTree.from_dict({"one": data, "two": later.assign_coords(family=("model", ["y", "x"]))})
    assert "family" not in ap.compare(other, "a", over="dataset").coords


def test_coordinates_of_the_names_of_answers_are_refused() -> None:
    data = data_at_leads().isel(lead=0, drop=True)
    with pytest.raises(InvalidInputError, match=r"something else of the name 'difference'.*\n(.*\n)*.*rename"):
        ap.compare(data.rename(family="difference"), "a")
    assert ap.rank(data.rename(family="difference"))["difference"].values.tolist() == ["x", "y"]


LABELS = {
    "spans": pd.to_timedelta([6, 24, 72], unit="h"),
    "dates": pd.to_datetime(["2020-01-01", "2021-02-03", "2022-01-01"]),
    "bools": pd.Index([True, False, True]),
    "bytes": pd.Index(np.array([3, 1, 2], "u1")),
    "floats": pd.Index([0.5, 1.5, np.pi]),
    "objects": pd.Index(["x", "yy", "zzz"], dtype=object),
}
AS_TEXT = {
    "categories": pd.CategoricalIndex(["lo", "hi", "mid"], categories=["lo", "mid", "hi"], ordered=True),
    "periods": pd.period_range("2024-01", periods=3, freq="M"),
    "intervals": pd.IntervalIndex.from_breaks([0, 1, 2, 5]),
    "of several kinds": pd.Index(["x", 2, 3.5], dtype=object),
}


@pytest.mark.parametrize(
    "kind",
    [
        *("spans", "bools", "categories", "of several kinds"),
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("dates", "bytes", "floats", "objects")),
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("periods", "intervals")),
    ],
)
def test_labels_come_back_from_stores(kind: str, tmp_path: Path) -> None:
    labels = (LABELS | AS_TEXT)[kind]
    data = data_at_leads().assign_coords(other=("lead", labels, {"note": "n"}))
    data = data if kind == "bools" else data.assign_coords(lead=("lead", labels, {"note": "n"}))
    ap.save_scores(data, tmp_path / "scores.zarr")
    result = ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr")
    ap.save_comparison(ap.compare(data, "a"), tmp_path / "answer.zarr")
    assert np.array_equal(result["estimate"], ap.evaluate(data)["estimate"])
    for found in (ap.open_scores(tmp_path / "scores.zarr"), result, ap.open_comparison(tmp_path / "answer.zarr")):
        for name in ("lead", "other"):
            known = pd.Index(map(str, labels)) if kind in AS_TEXT else data[name].to_index()
            assert found[name].to_index().astype(known.dtype).equals(known)
            assert kind in AS_TEXT or found[name].dtype.kind in (data[name].dtype.kind, "U")
            assert data[name].attrs.items() <= found[name].attrs.items()
            if kind == "categories":
                assert found[name].attrs["categories"] == ["lo", "mid", "hi"]
        assert all(found[name].attrs == data[name].attrs for name in ("model", "family", "level"))


def test_categories_keep_their_order_in_stores(tmp_path: Path) -> None:
    sizes = pd.Categorical(np.array(["small", "big", "huge"])[np.arange(300) % 3], ["small", "big", "huge"])
    data = data_at_leads().isel(lead=0, drop=True).assign_coords(size=("item", pd.CategoricalIndex(sizes)))
    ap.save_scores(data, tmp_path / "scores.zarr")
    found = ap.evaluate(ap.open_scores(tmp_path / "scores.zarr"), by="size")
    assert found["size"].values.tolist() == ["small", "big", "huge"]
    assert np.array_equal(found["estimate"], ap.evaluate(data, by="size")["estimate"])
