"""Evaluation within groups of items: every group as if it stood alone."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from click.testing import CliRunner
from conftest import ok
from distributed import Client
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from xarray.groupers import BinGrouper, SeasonGrouper, TimeResampler, UniqueGrouper

import aucpr_dask as ap
from aucpr_dask.cli import main
from aucpr_dask.errors import AlignmentError, InvalidInputError, MissingScoresError, StoreError
from aucpr_dask.evaluation.results import flagged
from aucpr_dask.inference.pairs import holm
from aucpr_dask.schema.estimators import ESTIMATORS

N = 240
PLAIN = [spec.name for spec in ESTIMATORS.values() if spec.parameter is None]
WEIGHTED = [spec.name for spec in ESTIMATORS.values() if spec.parameter is None and spec.weights]


def scores(seed: int = 0, n: int = N, layout: tuple[str, ...] = (), **others: Any) -> xr.Dataset:
    random = np.random.default_rng(seed)
    lengths = dict.fromkeys(layout, 2)
    return xr.Dataset(
        {
            "score": (("model", *layout, "item"), np.round(random.normal(size=(2, *lengths.values(), n)), 1)),
            "label": ((*layout, "item"), (random.random((*lengths.values(), n)) < 0.3).astype("int8")),
            **{name: ("item", of(random, n)) for name, of in others.items()},
        },
        coords={
            "model": ["x", "y"],
            **{dim: ["p", "q"] for dim in layout},
            "item": [f"d{number}" for number in random.permutation(n)],
            "site": ("item", random.choice(list("dacb"), n, p=[0.5, 0.3, 0.15, 0.05])),
            "sex": ("item", random.choice(["f", "m"], n)),
            "age": ("item", random.uniform(0, 90, n)),
        },
    )


def alone(data: xr.Dataset, *names: str, **options: Any) -> dict[tuple[str, ...], xr.Dataset]:
    """Evaluate every group as a data set of a tree."""
    labels = list(zip(*(data[name].values.tolist() for name in names), strict=True))
    places = {one: [at for at, label in enumerate(labels) if label == one] for one in labels}
    found = ap.evaluate(xr.DataTree.from_dict({"/".join(k): data.isel(item=v) for k, v in places.items()}), **options)
    return {key: found["/".join(key)].to_dataset() for key in places}


def assert_as_alone(data: xr.Dataset, *names: str, **options: Any) -> xr.Dataset:
    result: xr.Dataset = ap.evaluate(data, by=list(names), **options)
    for labels, expected in alone(data, *names, **options).items():
        found = result.sel(dict(zip(names, labels, strict=True)), drop=True)
        xr.testing.assert_equal(found, expected)
    return result


def clusters(random: np.random.Generator, n: int) -> Any:
    return random.integers(0, 40, n)


def folds(random: np.random.Generator, n: int) -> Any:
    return random.integers(0, 4, n)


def weights(random: np.random.Generator, n: int) -> Any:
    return random.uniform(0.1, 2, n)


DRAWN = {"keep_replicates": True, "n_resamples": 10, "interval": ["bootstrap", "influence_beta"]}


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (scores(), {"estimator": PLAIN}),
        (scores(), {"ties": "trec_eval", "prevalence": 0.1}),
        (scores(), {"missing": "unretrieved", "no_positives": "zero", "nothing_ranked": "drop"}),
        (scores(), {"interval": ["bca", "bootstrap_t"], "n_resamples": 10}),
        (scores(cluster=clusters), DRAWN),
        (scores(cluster=clusters), {}),
        (scores(weight=weights), {"estimator": WEIGHTED}),
        (scores(weight=weights, cluster=clusters), {}),
        (scores(fold=folds), {"interval": ["cross_validation"]}),
        (scores(), {"interval": ["cross_validation"], "n_folds": 3}),
        (scores(layout=("query",)), DRAWN),
        (scores(layout=("class",)), DRAWN),
    ],
)
def test_a_group_is_evaluated_as_if_it_stood_alone(data: xr.Dataset, options: dict[str, Any]) -> None:
    assert_as_alone(data, "site", **options)


@pytest.mark.sparse
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "options",
    [{}, {"missing": "drop", "prevalence": 0.1}, {"missing": "last", "estimator": ["roc_area", "haldane"]}, DRAWN],
)
def test_groups_of_one_size_are_evaluated_together(
    weighted: bool, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of their clusters, some groups have few, which are left out in turn, and some have many."""
    monkeypatch.setattr("aucpr_dask.evaluation.influences.MOST_LEFT_OUT", 8)
    random, n_groups = np.random.default_rng(3), 6
    of_items = {"weight": weights} if weighted else {}
    data = scores(3, 30 * n_groups, **of_items)
    group, names = np.repeat(np.arange(n_groups), 30), np.array(list("fadcbe"))
    data = data.assign_coords(site=("item", names[group]), cluster=("item", random.integers(0, 3 + 4 * (group % 4))))
    if "missing" in options:
        data = data.assign(score=data["score"].where(random.random(data["score"].shape) > 0.1))
    assert_as_alone(data.isel(item=random.permutation(group.size)), "site", **options)


@pytest.mark.parametrize("dtype", ["int16", "uint16", "int64"])
def test_lazy_labels_beyond_their_domain_are_not_cut_to_it(dtype: str) -> None:
    label = np.resize([0, 1, 256, 257], 60).astype(dtype)
    scores = xr.Dataset({"score": ("item", np.arange(60.0)), "label": ("item", label)})
    scores = scores.assign_coords(site=("item", np.resize(list("xxy"), 60))).chunk()
    with pytest.raises(InvalidInputError, match=r"labels outside their domain[\s\S]*values 256, 257"):
        ap.evaluate(scores, by="site", positive_from=1).compute()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "uint64", "int64", "float32", ">i4"])
def test_labels_of_any_type_say_what_is_no_item_of_a_group(dtype: str) -> None:
    """Groups of similar sizes are evaluated together, the smaller ones with places that hold no item."""
    data = scores(6).assign_coords(site=("item", np.random.default_rng(6).integers(0, 23, N)))
    typed = data.assign(label=data["label"].astype(dtype))
    for one in (typed, typed.chunk(model=1)):
        xr.testing.assert_identical(ap.evaluate(one, by="site").compute(), ap.evaluate(data, by="site"))


@pytest.mark.parametrize("by", [None, "place"])
@pytest.mark.parametrize(
    ("name", "dtype"),
    [("score", ">f2"), ("score", ">f4"), ("score", ">f8"), ("label", ">i2"), ("label", ">f4"), ("weight", ">f8")]
    + [(name, ">i4") for name in ("cluster", "fold", "place")],
)
def test_bytes_of_numbers_are_in_any_order(name: str, dtype: str, by: str | None) -> None:
    of_items = {"cluster": clusters, "fold": folds, "weight": weights}
    data = scores(7, **{role: of for role, of in of_items.items() if role == name})
    data = data.assign_coords(place=("item", np.random.default_rng(7).integers(0, 3, N)))
    native, foreign = (data.assign({name: data[name].astype(one)}) for one in (dtype.replace(">", "="), dtype))
    for one in (foreign, foreign.chunk(model=1)):
        found, expected = ap.evaluate(one, by=by).compute(), ap.evaluate(native, by=by)
        for variable in expected:
            np.testing.assert_array_equal(found[variable], expected[variable])


@pytest.mark.parametrize("missing", ["drop", "last"])
def test_models_take_turns_in_one_memory(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aucpr_dask.evaluation.grouped_blocks.STACKED", N)
    monkeypatch.setattr("aucpr_dask.evaluation.grouped_blocks.SLACK", 1.0)  # which leaves more places without an item
    data = scores(4)
    data = data.assign(score=data["score"].where(np.random.default_rng(5).random(data["score"].shape) > 0.2))
    listed = {"site": UniqueGrouper(labels=list("abc")), "sex": UniqueGrouper()}
    assert_as_alone(data.isel(item=(data["site"] != "d").values), "site", "sex", missing=missing)
    result = ap.evaluate(data, by=listed, missing=missing)
    xr.testing.assert_identical(result, ap.evaluate(data, by=["site", "sex"], missing=missing).sel(site=list("abc")))


@pytest.mark.hypothesis
@settings(max_examples=5)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 60), n_labels=st.integers(1, 8), lazy=st.booleans())
def test_any_groups_are_evaluated_as_if_they_stood_alone(seed: int, n: int, n_labels: int, lazy: bool) -> None:
    random = np.random.default_rng(seed)
    data = scores(seed, n).assign_coords(site=("item", random.integers(0, n_labels, n).astype(str)))
    data = data.assign(score=data["score"].where(random.random((2, n)) > 0.2))
    options = {"missing": "drop", "keep_replicates": True, "n_resamples": 3, "interval": ["bootstrap"]}
    result = assert_as_alone(data, "site", "sex", **options)
    if lazy:
        chunked = ap.evaluate(data.chunk(model=1, item=1 + n // 3), by=["site", "sex"], **options)
        assert chunked["estimate"].chunks is not None
        xr.testing.assert_identical(chunked.compute(), result)
    other = data.isel(item=data["site"] != data["site"][0])
    for label in np.unique(other["site"]):  # another group changes nothing
        kept = ap.evaluate(other, by=["site", "sex"], **options).sel(site=label)
        xr.testing.assert_identical(result.sel(site=label, sex=kept["sex"]), kept)


def test_errors_of_comparisons_name_the_group_and_its_data_set() -> None:
    data = scores()
    with pytest.raises(InvalidInputError, match=r"only one model(.|\n)*\n  group: site 'a', sex 'f'$") as raised:
        ap.compare(data.isel(model=[0]), by=["site", "sex"])
    assert "data set" not in str(raised.value)
    missing = data.assign(score=data["score"].where(data["site"] != "b"))
    tree = xr.DataTree.from_dict({"second": missing, "first": data})
    with pytest.raises(MissingScoresError, match=r"\n  data set: 'second'\n  group: site 'b'$"):
        ap.compare(tree, by="site")


def test_groups_are_named_in_every_way() -> None:
    data = scores()
    expected = ap.evaluate(data, by="site")["estimate"]
    assert expected.dims == ("model", "site")
    assert expected["site"].values.tolist() == list("abcd")
    ways = [["site"], data["site"], data["site"].values, list(data["site"].values), {"site": data["site"].values}]
    ways += [pd.Series(data["site"].values, name="site"), {"site": UniqueGrouper()}, [data["site"]]]
    ways += [{"site": pd.array(data["site"].values.astype(object), dtype="str")}]
    for by in ways:
        found = ap.evaluate(data, by=by)["estimate"]
        np.testing.assert_array_equal(found, expected)
        assert found.dims[1] == (
            getattr(by, "name", "site") if not isinstance(by, np.ndarray | list) else found.dims[1]
        )
        np.testing.assert_array_equal(ap.estimate(data["score"], data["label"], by=by), expected)
    both = ap.evaluate(data, by=["site", "sex"])["estimate"]
    assert both.sizes == {"model": 2, "site": 4, "sex": 2}
    named = {"site": data["site"], "sex": data["sex"].values}
    xr.testing.assert_identical(ap.evaluate(data, by=named)["estimate"], both)


def test_arrays_without_labels_get_an_axis_for_groups() -> None:
    data = scores()
    found = ap.estimate(
        data["score"].values, data["label"].values, ["average_precision", "roc_area"], by=data["site"].values
    )
    assert found.shape == (2, 4, 2)
    for place, label in enumerate("abcd"):
        part = data.isel(item=np.flatnonzero(data["site"] == label))
        np.testing.assert_array_equal(found[:, place, 0], ap.estimate(part["score"].values, part["label"].values))
    assert ap.estimate([0.9, 0.8, 0.7, 0.6], [1, 0, 0, 1], by=["b", "a", "b", "b"]).tolist()[1] == 0.8333333333333333


def test_bins_are_text_and_groups_without_items_are_flagged(tmp_path: Path) -> None:
    data = scores()
    result = ap.evaluate(data, by={"age": BinGrouper([0, 30, 90, 120])})
    assert result.indexes["age"].tolist() == ["(0, 30]", "(30, 90]", "(90, 120]"]
    assert np.isnan(result["estimate"].isel(age=2)).all()
    assert np.isnan(result["interval"].isel(age=2)).all()
    assert result["n_positive"].isel(age=2).values.tolist() == [0, 0]
    assert flagged(result, "no_positives")["no_positives"].isel(model=0).values.tolist() == [False, False, True]
    young = data.isel(item=np.flatnonzero(data["age"] <= 30))
    np.testing.assert_array_equal(result["estimate"].sel(age="(0, 30]"), ap.evaluate(young)["estimate"])
    zero = ap.evaluate(data, by={"age": BinGrouper([0, 30, 90, 120])}, no_positives="zero")
    assert np.isnan(zero["estimate"].isel(age=2)).all()
    assert result["estimate"].isel(age=[0, 1]).idxmax("age").notnull().all()
    for place, ask in enumerate((ap.evaluate, ap.compare, ap.rank, ap.power)):
        answer = ask(data, by={"age": BinGrouper([0, 30, 90])})
        answer.to_netcdf(tmp_path / f"{place}.nc")
        with xr.open_dataset(tmp_path / f"{place}.nc") as opened:
            assert opened["age"].values.tolist() == ["(0, 30]", "(30, 90]"]


@pytest.mark.parametrize(
    ("by", "error", "says"),
    [
        ("sit", InvalidInputError, "did you mean 'site'"),
        ("model", InvalidInputError, "each model is evaluated alone already"),
        (["site", "site"], InvalidInputError, "each once"),
        (np.arange(3), InvalidInputError, "one label for each item"),
        ([None] * N, InvalidInputError, "some items have no label"),
        ({"age": BinGrouper([0, 30])}, InvalidInputError, "in no bin"),
        ({"age": BinGrouper([100, 130])}, InvalidInputError, "None of the data"),
        (scores()["site"][::-1], AlignmentError, "another order"),
        (scores()["age"].rename("label"), InvalidInputError, "another variable 'label'"),
    ],
)
def test_groups_that_mean_nothing_are_refused(by: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        ap.evaluate(scores(), by=by)


def test_groups_lie_along_some_of_the_dimensions_of_items() -> None:
    """Bins, seasons, months and categories, also of a dimension that is reduced: as loops over selections."""
    random = np.random.default_rng(0)
    time, lat = pd.date_range("2020-01-15", periods=200), np.arange(48.0, 52)
    label = xr.DataArray(random.random((200, 4)) < 0.3, {"time": time, "lat": lat})
    score = xr.DataArray(random.normal(size=(2, 200, 4)), {"model": ["x", "y"], "time": time, "lat": lat}) + label
    dims = ("time", "lat")
    bands = pd.cut(lat, [40, 49, 60], labels=["south", "north"])
    ways: list[tuple[Any, str, dict[Any, Any]]] = [
        ("time.month", "month", {4: {"time": time.month == 4}}),
        ({"lat": BinGrouper([40, 49, 60])}, "lat", {"(40, 49]": {"lat": lat <= 49}}),
        ({"time": TimeResampler("MS")}, "time", {np.datetime64("2020-03-01"): {"time": time.month == 3}}),
        ({"time": SeasonGrouper(["DJF", "MAM"])}, "time", {"MAM": {"time": np.isin(time.month, [3, 4, 5])}}),
        ({"band": xr.DataArray(bands, dims="lat")}, "band", {"south": {"lat": lat <= 49}}),
        ({"band": xr.DataArray(pd.cut(lat, [40, 49, 60]), dims="lat")}, "band", {"(40, 49]": {"lat": lat <= 49}}),
        ("lat", "lat", {50.0: {"lat": lat == 50}}),
    ]
    for by, name, places in ways:
        found = ap.evaluate(score, label, dim=dims, by=by)["estimate"]
        estimated = ap.estimate(score, label, dim=dims, by=by)
        assert found.dims == ("model", name)
        for place, one in places.items():
            chosen = {dim: np.flatnonzero(which) for dim, which in one.items()}
            expected = ap.estimate(score.isel(chosen), label.isel(chosen), dim=dims)
            np.testing.assert_array_equal(found.sel({name: place}), expected)
            np.testing.assert_array_equal(estimated.sel({name: place}), expected)
    of_bands = ap.evaluate(score, label, dim=dims, by={"band": xr.DataArray(bands, dims="lat")})
    assert of_bands["band"].values.tolist() == ["south", "north"]
    alone = ap.estimate(score, label, dim="time", by={"time": SeasonGrouper(["DJF", "MAM"])})
    assert alone.sizes == {"model": 2, "lat": 4, "time": 2}
    with pytest.raises(InvalidInputError, match="every item would be a group"):
        ap.evaluate(score, label, dim="time", by="time")


def test_listed_groups_are_those_of_the_result() -> None:
    by = {"site": UniqueGrouper(labels=["b", "nowhere"])}
    result, everywhere = ap.evaluate(scores(), by=by), ap.evaluate(scores(), by="site")
    assert result["site"].values.tolist() == ["b", "nowhere"]
    np.testing.assert_array_equal(result["estimate"].sel(site="b"), everywhere["estimate"].sel(site="b"))
    assert (result["flags"].sel(site="nowhere") > 0).all()
    assert by["site"].labels is not None


@pytest.mark.parametrize("by", [["site", "sex"], {"age": BinGrouper([0, 30, 90, 120])}, {"dataset": scores()["site"]}])
def test_tables_have_a_row_for_each_group(by: Any) -> None:
    result = ap.evaluate(scores(), ["average_precision", "continuous"], by=by)
    groups = list(by)
    tidy, wide = (result.aucpr.to_dataframe(tidy=tidy) for tidy in (True, False))
    expected = result["estimate"].to_dataframe().reset_index()
    names = [*groups, "estimator"]
    expected = expected.assign(**{name: expected[name].astype(str) for name in ["model", *names]})
    keyed = tidy.set_index(["model", *names])["estimate"].sort_index()
    pd.testing.assert_series_equal(keyed, expected.set_index(["model", *names])["estimate"].sort_index())
    for model, column in wide.items():
        pd.testing.assert_series_equal(column.sort_index(), keyed.loc[model], check_names=False)


@pytest.mark.filterwarnings("ignore::aucpr_dask.errors.FewPositivesWarning")
def test_power_is_that_of_each_group() -> None:
    result, data = ap.evaluate(scores(), by="site"), scores()
    found = ap.power(result)
    xr.testing.assert_identical(found, ap.power(data, by="site"))
    for site in "bc":
        of_site = ap.power(data.isel(item=np.flatnonzero(data["site"] == site)))
        joint = ap.power(data.isel(item=np.flatnonzero(data["site"] == site)), level=1 - 0.05 / found.sizes["site"])
        names = {"estimate": of_site, "detectable": of_site, "detectable_family": joint, "detectable_rank": joint}
        for name, alone in names.items():
            np.testing.assert_allclose(found[name].sel(site=site), alone[name], rtol=1e-12)
        said = str(found["summary"].sel(site=site).item())
        assert said.split(";")[0] == of_site.attrs["summary"].split(";")[0]
        assert f"in {site}: {said}" in found.attrs["summary"]


def test_what_takes_no_groups_says_so() -> None:
    result = ap.evaluate(scores(), by="site")
    with pytest.raises(InvalidInputError, match="differences plots a comparison"):
        result.aucpr.plot.differences()


def test_errors_name_the_group() -> None:
    data = scores()
    data["score"][1, int(np.flatnonzero(data["site"] == "b")[0])] = np.nan
    with pytest.raises(MissingScoresError, match="model 'y', group 'b': 1"):
        ap.evaluate(data, by="site")
    with pytest.raises(InvalidInputError, match="leave out n_positive, or by"):
        ap.evaluate(scores().assign(n_positive=200), by="site")
    with pytest.raises(InvalidInputError, match="no coordinates"):
        ap.estimate(scores()["score"].values, scores()["label"].values, by="site")


def test_small_groups_by_the_thousand() -> None:
    random = np.random.default_rng(0)
    data = xr.Dataset(
        {
            "score": (("model", "item"), random.random((2, 20_000)).astype("float32")),
            "label": ("item", (random.random(20_000) < 0.2).astype("int8")),
        },
        coords={"dataset": ("item", random.integers(0, 5000, 20_000))},
    )
    result = ap.evaluate(data, by="dataset")
    first = data.isel(item=np.flatnonzero(data["dataset"] == 17))
    np.testing.assert_array_equal(result["estimate"].sel(dataset=17), ap.evaluate(first)["estimate"])


@pytest.mark.parametrize(
    "by",
    [
        *(["site", "sex"], {"age": BinGrouper([0, 30, 90, 120])}),
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("site", "fold")),
    ],
)
def test_groups_go_from_store_to_store(by: Any, client: Client, tmp_path: Path) -> None:
    data = scores(fold=folds)
    ap.save_scores(data, tmp_path / "scores.zarr", models_per_chunk=1)
    result = ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr", by=by, workers=client, **DRAWN)
    expected = ap.evaluate(data, by=by, **DRAWN)
    for name in expected:
        np.testing.assert_array_equal(result[name], expected[name])
    (dim, *_) = (str(one) for one in result["estimate"].dims[1:])
    assert result.indexes[dim].map(str).tolist() == expected.indexes[dim].map(str).tolist()
    assert "data sets" not in repr(result.aucpr)
    more = xr.concat([data, data.isel(model=[0]).assign_coords(model=["z"])], "model", data_vars="minimal")
    ap.save_scores(more, tmp_path / "scores.zarr", models_per_chunk=1, overwrite=True)
    grown = ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr", by=by, workers=client, **DRAWN)
    np.testing.assert_array_equal(grown["estimate"], ap.evaluate(more, by=by, **DRAWN)["estimate"])
    with pytest.raises(StoreError, match="by:"):
        ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr", by=["sex", "fold"], workers=client, **DRAWN)
    moved = more.assign_coords({name: ("item", more[name].values[::-1]) for name in ("site", "sex", "age")})
    moved["fold"] = "item", more["fold"].values[::-1]
    ap.save_scores(moved, tmp_path / "scores.zarr", models_per_chunk=1, overwrite=True)
    with pytest.raises(StoreError, match="the groups of the items are others"):
        ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr", by=by, workers=client, **DRAWN)


def test_results_by_group_get_data_sets(tmp_path: Path) -> None:
    nodes = {"a": scores(1), "b": scores(2).isel(item=slice(200))}
    more = nodes | {"b": scores(2).isel(item=slice(200), model=[0, 1, 1]).assign_coords(model=["x", "y", "z"])}
    more["c"] = scores(3).assign_coords(site=("item", ["e", "f"] * (N // 2)))
    place = tmp_path / "scores.zarr", tmp_path / "result.zarr"
    done: list[int] = []
    for tree in (nodes, more):
        ap.save_scores(xr.DataTree.from_dict(tree), place[0], overwrite=True)
        found = ap.run(*place, by="site", on_progress=lambda one: done.append(one.rankings_total))
        expected = ap.evaluate(xr.DataTree.from_dict(tree), by="site")
        for path in tree:
            np.testing.assert_array_equal(found[path]["interval"], expected[path]["interval"])
    assert done[-1] == 3  # z in b, and x and y in c
    moved = more | {"a": nodes["a"].assign_coords(site=("item", nodes["a"]["site"].values[::-1]))}
    ap.save_scores(xr.DataTree.from_dict(moved), place[0], overwrite=True)
    with pytest.raises(StoreError, match="the groups of the items are others"):
        ap.run(*place, by="site")


def test_the_command_line_takes_groups(tmp_path: Path) -> None:
    ap.save_scores(scores(), tmp_path / "scores.zarr")
    words = ["evaluate", str(tmp_path / "scores.zarr"), str(tmp_path / "result.zarr"), "--by", "site", "--by", "sex"]
    done = ok(*words)
    assert "8 groups, 2 models" in done.output
    assert ap.open_result(tmp_path / "result.zarr")["estimate"].sizes == {"model": 2, "site": 4, "sex": 2}
    shown = CliRunner().invoke(main, ["show", str(tmp_path / "result.zarr"), "--json"])
    assert [one["data_set"] for one in json.loads(shown.output)["rankings"]][:2] == ["a/f", "a/m"]


def worse_in_c(n: int = 1200) -> xr.Dataset:
    """Return scores of a new model that is better than the old one but in group c; group d has no positives."""
    random = np.random.default_rng(3)
    site = random.choice(list("abcd"), n, p=[0.3, 0.3, 0.3, 0.1])
    label = ((random.random(n) < 0.25) & (site != "d")).astype("int8")
    old = random.normal(size=n) + 2 * label
    new = old + random.normal(size=n) / 2 + np.where(site == "c", -1.5, 0.8) * label
    return xr.Dataset(
        {"score": (("model", "item"), [old, new, random.normal(size=n)]), "label": ("item", label)},
        coords={"model": ["old", "new", "chance"], "site": ("item", site), "all": ("item", np.ones(n, int))},
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"baseline": "old"}, "shown: .*new is worse than old in c"),
        ({}, r"shown: new is better than chance in b .*in c \S+ and 4 more"),  # the largest
        (
            {"baseline": ["old", "new"], "prevalence": 0.1},
            "shown: chance is worse than new in b .* and 1 more; new is better than old",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::aucpr_dask.errors.FewPositivesWarning")
def test_comparisons_by_group_are_one_family(options: dict[str, Any], said: str) -> None:
    data = worse_in_c()
    found = ap.compare(data, by="site", **options)
    assert found["difference"].dims[-1] == "site"
    p_values = []
    for label in "abc":
        part = data.isel(item=np.flatnonzero(data["site"] == label))
        alone = ap.compare(xr.DataTree.from_dict({label: part}), **options)[label].to_dataset()
        for name in ("estimate", "difference", "standard_error", "interval", "p_value"):
            np.testing.assert_array_equal(found[name].sel(site=label), alone[name])
        wider = ap.compare(xr.DataTree.from_dict({label: part}), level=1 - 0.05 / 4, **options)[label].to_dataset()
        np.testing.assert_array_equal(found["simultaneous_interval"].sel(site=label), wider["simultaneous_interval"])
        p_values.append(alone["p_value"].values)
    assert np.isnan(found["difference"].sel(site="d")).all()
    assert found.attrs["groups_left_out"] == "d"
    p_values, adjusted = np.array(p_values), np.stack([found["p_adjusted"].sel(site=s) for s in "abc"])
    if found["difference"].dims[1] == "other_model":
        at = np.triu_indices(3, 1)
        np.testing.assert_array_equal(adjusted, np.swapaxes(adjusted, 1, 2))
        p_values, adjusted = p_values[:, *at], adjusted[:, *at]
    elif p_values.ndim == 2:
        p_values, adjusted = p_values[:, 1:], adjusted[:, 1:]
    else:
        np.testing.assert_array_equal(adjusted[:, 0, 1], adjusted[:, 1, 0])  # two baselines are one pair
        at = np.array([[1, 0], [2, 0], [2, 1]]).T
        p_values, adjusted = p_values[:, *at], adjusted[:, *at]
    np.testing.assert_allclose(adjusted, holm(p_values.ravel()).reshape(adjusted.shape))
    assert found.attrs["family_size"] == p_values.size
    assert re.search(said, found.attrs["summary"])


def test_groups_keep_their_own_facts() -> None:
    data = worse_in_c()
    score = data["score"].copy()
    score[0, np.flatnonzero(data["site"] == "b")[::3]] = np.nan
    score[1, np.flatnonzero(data["site"] == "c")[::5]] = np.nan
    data = data.assign(score=score)
    found, ranks = (ask(data, by="site", missing="drop") for ask in (ap.compare, ap.rank))
    for label in "abc":
        part = data.isel(item=np.flatnonzero(data["site"] == label))
        alone = [ask(part, missing="drop") for ask in (ap.compare, ap.rank)]
        for whole, one in zip((found, ranks), alone, strict=True):
            assert str(whole["design"].sel(site=label).item()) == one.attrs["design"]
            for name in ("n_compared", "n_scored", "n_unscored", "n_missing", "n_missing_positive"):
                np.testing.assert_array_equal(whole[name].sel(site=label), one[name])
        assert ranks["n_groups"].sel(site=label) == alone[1].attrs["n_groups"]
    assert "'old' lacks" in str(found["design"].sel(site="b").item())
    assert "lacks" not in str(found["design"].sel(site="a").item())
    for text in (found.attrs["design"], found.attrs["summary"], ranks.attrs["design"]):
        assert "3 of 4 groups by site (no answer for 'd' (" in text
    shown = " ".join(repr(found.aucpr).split())
    assert "9 comparisons in 3 of 4 groups by site" in shown
    assert "3 comparisons at 5 %, adjusted by Holm for all 9" in found["summary"].sel(site="b").item()
    assert "nowhere" not in found.attrs["summary"]


def of_languages(**others: Any) -> xr.Dataset:
    """Queries in three languages, of which one lacks a model's scores, and items of two kinds."""
    random, n = np.random.default_rng(4), 36
    label = (random.random((n, 30)) < 0.3).astype("int8")
    score = random.normal(size=(3, n, 30)) + np.reshape([0.5, 1.0, 2.0], (3, 1, 1)) * label
    return xr.Dataset(
        {"score": (("model", "query", "item"), score), "label": (("query", "item"), label)},
        coords={
            "model": ["old", "new", "best"],
            "query": [f"q{i}" for i in range(n)],
            "language": ("query", np.array(["fr", "de", "fr", "it"])[np.arange(n) % 4]),
            "kind": ("item", np.array(["news", "web"])[np.arange(30) % 2]),
            **{name: ("query", np.arange(n) // each) for name, each in others.items()},
        },
    )


ASKED_OF_QUERIES: dict[str, Any] = {
    "compare": lambda data, **more: ap.compare(data, "old", **more),
    "all pairs, bootstrap": lambda data, **more: ap.compare(data, method="bootstrap", **more),
    "items": lambda data, **more: ap.compare(data, "old", over="items", **more),
    "rank": ap.rank,
    "power": lambda data, **more: ap.power(data, "old", difference=0.1, **more),
    "aggregate": ap.aggregate,
}


@pytest.fixture(scope="module")
def languages(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, client: Client) -> list[Any]:
    """Scores in memory and in a store, and results in memory and in a store."""
    data, folder = of_languages(**request.param), tmp_path_factory.mktemp("languages")
    ap.save_scores(data, folder / "scores.zarr")
    result = ap.run(folder / "scores.zarr", folder / "result.zarr", workers=client)
    return [data, ap.open_scores(folder / "scores.zarr"), ap.evaluate(data), result]


@pytest.mark.slow
@pytest.mark.sparse
@pytest.mark.filterwarnings("ignore::aucpr_dask.errors.FewUnitsWarning")
@pytest.mark.filterwarnings("ignore::aucpr_dask.errors.FewPositivesWarning")
@pytest.mark.parametrize("languages", [{}, {"cluster": 3}], indirect=True, ids=["queries", "clusters"])
@pytest.mark.parametrize("name", ASKED_OF_QUERIES)
def test_groups_of_queries_are_asked_about_as_if_alone(languages: list[Any], name: str) -> None:
    (data, *others), ask = languages, ASKED_OF_QUERIES[name]
    if name == "items" and "cluster" in data.coords:
        pytest.skip("items in clusters of queries have no influences")
    found = ask(data, by="language")
    assert found.attrs["by"] == "language"
    assert "3 groups by language" in found.attrs["design"]
    at = {label: np.flatnonzero(data["language"] == label) for label in ("de", "fr", "it")}
    alone = ask(xr.DataTree.from_dict({label: data.isel(query=places) for label, places in at.items()}))
    for label in at:
        one = alone[label].to_dataset()
        for variable in {"estimate", "difference", "interval", "p_value", "rank", "detectable"} & {*one.data_vars}:
            np.testing.assert_array_equal(found[variable].sel(language=label), one[variable])
    for same in (ask(other, by=["language"]) for other in others):
        for variable in found.data_vars:
            if found[variable].dtype != object:
                np.testing.assert_array_equal(same[variable], found[variable])
        assert same.attrs.get("family_size") == found.attrs.get("family_size")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::aucpr_dask.errors.FewUnitsWarning")
def test_groups_of_queries_and_of_items_cross(tmp_path: Path) -> None:
    data = of_languages()
    both = ap.compare(data, "old", by=["language", "kind"])
    assert both["difference"].dims == ("model", "language", "kind")
    of_kinds = ap.compare(ap.evaluate(data, by="kind"), "old", by="language")
    for kind in ("news", "web"):
        part = ap.compare(data.isel(item=data["kind"] == kind), "old", by="language")
        np.testing.assert_array_equal(both["difference"].sel(kind=kind), part["difference"])
        np.testing.assert_array_equal(of_kinds["difference"].sel(kind=kind), part["difference"])
    assert both.attrs["family_size"] == of_kinds.attrs["family_size"] == 2 * 3 * 2
    gates = ap.gate(data, "best", "old", by="language")
    assert [one.group for one in gates] == ["de", "fr", "it"]
    tree = xr.DataTree.from_dict(dict.fromkeys("abc", data))
    over = ap.compare(tree, "old", by="language", over="dataset")
    assert over.sizes["language"] == 3
    contrasts = ap.contrast(data, "language", reference="de")
    np.testing.assert_array_equal(
        contrasts["difference"], ap.contrast(ap.evaluate(data), "language", reference="de")["difference"]
    )
    page = ap.report(data, tmp_path / "page.html", by="language", baseline="old").read_text(encoding="utf-8")
    for words in ("Groups by language", "6 comparisons in 3 groups by language", " \u2212 fr"):
        assert words in page
    for wrong, words in (("lang", "'language'"), ("kind", "none")):
        with pytest.raises(InvalidInputError, match="no such groups") as caught:
            ap.compare(ap.evaluate(data.drop_vars("language" if wrong == "kind" else [])), "old", by=wrong)
        assert f"allowed: {words}" in str(caught.value)
    with pytest.raises(InvalidInputError, match="each query is evaluated alone already; compare"):
        ap.evaluate(data, by="language")


@pytest.mark.filterwarnings("ignore:people labelled")
def test_a_machine_helps_within_groups_of_queries() -> None:
    random, n = np.random.default_rng(0), 240
    right = random.normal(size=n) + random.normal(size=(2, n)) > 0
    coords = {"model": ["a", "b"], "query": [f"t{i}" for i in range(n)], "kind": ("query", np.arange(n) % 2)}
    machine = xr.Dataset({"estimate": (("model", "query"), (right ^ (random.random((2, n)) < 0.1)) * 1.0)}, coords)
    machine.attrs["estimator"] = "average_precision"
    people = machine.assign(estimate=(("model", "query"), right * 1.0)).isel(query=slice(80))
    compared = ap.compare(people, "a", by="kind", auxiliary=machine)
    means = ap.aggregate(people, by="kind", auxiliary=machine)
    for kind in (0, 1):
        one, other = (data.isel(query=data["kind"] == kind) for data in (people, machine))
        alone = ap.compare(one, "a", auxiliary=other)
        for name in ("difference", "interval", "p_value", "width_ratio"):
            np.testing.assert_array_equal(compared[name].sel(kind=kind), alone[name])
        mean = ap.aggregate(one, auxiliary=other)
        np.testing.assert_array_equal(means["interval"].sel(kind=kind), mean["interval"])
    half = machine.isel(query=machine["kind"] == 0)
    assert "no answer for 'kind 1'" in ap.compare(people, "a", by="kind", auxiliary=half).attrs["summary"]


def test_missing_scores_in_groups_of_queries_are_counted_there() -> None:
    data = of_languages()
    data["score"][1, np.flatnonzero(data["language"] == "it")[:2]] = np.nan
    found = ap.compare(data, "old", by="language", missing="drop", incomplete="drop")
    n_units = found["n_units"].to_series().to_dict()
    assert n_units == {"de": 9, "fr": 18, "it": 7}
    with pytest.raises(AlignmentError, match="'it'"):
        ap.compare(data, "old", by="language", missing="drop")


def test_text_beside_values_tells_of_groups() -> None:
    table = pd.DataFrame({"task": [f"t{i}" for i in range(24)], "subject": ["math", "law"] * 12})
    table["old"], table["new"] = np.linspace(0.2, 0.6, 24), np.linspace(0.3, 0.5, 24)
    values = ap.from_values(table, measure="accuracy")
    assert values["subject"].dims == ("query",)
    assert values.attrs["columns_left_out"] == ["subject (text)"]
    found = ap.compare(values, "old", by="subject")
    expected = table.groupby("subject")[["old", "new"]].mean()
    np.testing.assert_allclose(found["difference"].sel(model="new"), expected["new"] - expected["old"])


@pytest.mark.slow
def test_groups_share_a_table_that_says_what_differs_between_them() -> None:
    data = worse_in_c()
    data["score"][0, np.flatnonzero(data["site"] == "b")[::3]] = np.nan
    found = ap.compare(data, "old", by="site", missing="drop")
    shown = repr(found.aucpr)
    assert shown.count("sample: the items") == shown.count("comparisons in 3 of 4 groups") == 1
    assert "; in b: on the 247 of 371 items that all scored: 'old' lacks 124" in " ".join(shown.split())
    for label in "abc":
        part = found.sel(site=label, model="new")
        cells = [float(found["estimate"].sel(site=label, model=name)) for name in ("new", "old")]
        row = f"{label} new {cells[0]:.4f} {cells[1]:.4f} {float(part['difference']):+.4f} ["
        assert row in " ".join(shown.split())
        assert row.split()[2] in found.aucpr._repr_html_()
    assert "decision" in repr(ap.compare(data, "old", by="site", missing="drop", equivalence=0.1).aucpr)


def test_ranks_and_gates_by_group() -> None:
    data = worse_in_c()
    ranks = ap.rank(data, by="site")
    assert ranks["rank"].sel(site="c").values.tolist() == [1, 2, 3]
    assert ranks["rank"].sel(site="a").values.tolist() == [2, 1, 3]
    gates = ap.gate(data, "new", "old", by="site")
    assert [gate.verdict for gate in gates] == ["better", "better", "worse", "cannot tell"]
    assert (gates.verdict, [gate.group for gate in gates]) == ("worse", list("abcd"))
    assert all(gate.level == pytest.approx(1 - 0.05 / 4) for gate in gates[:3])
    assert "no estimate is defined" in repr(gates[3])
    whole = ap.gate(data, "new", "old", by="all")
    assert whole[0].interval == ap.gate(data, "new", "old").interval


@pytest.mark.filterwarnings("ignore::aucpr_dask.errors.FewPositivesWarning")
@pytest.mark.parametrize("ask", [ap.evaluate, ap.compare, ap.rank])
def test_labels_of_groups_are_of_types_that_plots_take(ask: Any) -> None:
    found = ask(scores(), by=["site", "sex"])
    assert [found[name].dtype.kind for name in ("site", "sex", "model")] == ["U", "U", "U"]


@pytest.mark.filterwarnings("ignore::aucpr_dask.errors.FewPositivesWarning")
def test_results_by_group_are_compared_without_naming_the_groups_again() -> None:
    result = ap.evaluate(worse_in_c(), by="site", keep_replicates=True, n_resamples=100)
    found = ap.compare(result, "old")
    assert found["difference"].dims == ("model", "site")
    assert "data set" not in repr(found.aucpr)
    with pytest.raises(InvalidInputError, match="evaluated already"):
        ap.compare(result, "old", by="sex")
    with pytest.raises(InvalidInputError, match="adjust, of groups"):
        ap.compare(result, "old", adjust="romano_wolf")
    over = ap.compare(result.isel(site=slice(3)), "old", over="dataset")
    assert over["n_units"] == 3


def test_the_command_line_compares_by_group(tmp_path: Path) -> None:
    ap.save_scores(worse_in_c(), tmp_path / "scores.zarr")
    common = [str(tmp_path / "scores.zarr"), "--by", "site"]
    done = ok("compare", *common, "--baseline", "old")
    assert "new is worse than old in c" in " ".join(done.output.split())
    ok("rank", *common)
    done = CliRunner().invoke(main, ["gate", *common, "--candidate", "new", "--baseline", "old"])
    assert done.exit_code == 1
    assert "c: failed: new is worse than old" in done.output


def test_a_tree_and_its_long_form_are_one_another_and_have_the_same_numbers() -> None:
    data = scores(cluster=clusters, weight=weights)
    parts = {"b": slice(0, 100), "a": slice(100, 170), "c/d": slice(170, None)}
    tree = xr.DataTree.from_dict({name: data.isel(item=part) for name, part in parts.items()})
    long = ap.to_long(tree)
    back = long.aucpr.to_tree()
    for name in parts:
        xr.testing.assert_identical(back[name].to_dataset(), tree[name].to_dataset())
    expected, found = ap.evaluate(tree, **DRAWN), ap.evaluate(long, by="dataset", **DRAWN)
    for name in parts:
        part = found.sel(dataset=name, drop=True)
        xr.testing.assert_equal(part, expected[name].to_dataset())
    again = xr.DataTree.from_dict({"x": data, "y": data})  # whose items have the same names
    xr.testing.assert_identical(ap.to_tree(ap.to_long(again))["y"].to_dataset(), data)
    with pytest.raises(AlignmentError, match="different models"):
        ap.to_long(xr.DataTree.from_dict({"x": data, "y": data.isel(model=[0])}))
    with pytest.raises(InvalidInputError, match="does not lie along the items"):
        ap.to_long(xr.DataTree.from_dict({"x": scores().assign(n_positive=200)}))
    with pytest.raises(InvalidInputError, match="did you mean 'site'"):
        ap.to_tree(data, by="sites")


def test_queries_become_a_coordinate_without_their_padding() -> None:
    data = scores(layout=("query",), n=60).drop_vars(["site", "sex", "age"])
    data["label"][0, 50:] = -2
    tree = xr.DataTree.from_dict({"a": data, "b": data.isel(item=slice(40))})
    long = ap.to_long(tree)
    assert long.sizes == {"model": 2, "item": 50 + 60 + 40 + 40}
    expected, found = ap.evaluate(tree, **DRAWN), ap.evaluate(long, by=["dataset", "query"], **DRAWN)
    for name in "ab":
        part = found.sel(dataset=name, drop=True)
        xr.testing.assert_equal(part, expected[name].to_dataset())


def test_tables_keep_columns_of_groups(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"y": [1, 0, 1, 0], "m": [0.1, 0.2, 0.35, 0.4], "site": list("aabb"), "year": [9, 10, 9, 10], "i": list("pqrs")}
    )
    wide = ap.from_dataframe(frame, label="y", by=["site", "year"], item="i", models="m")
    assert wide["site"].values.tolist() == list("aabb")
    assert ap.evaluate(wide, by="year")["year"].values.tolist() == [9, 10]
    tidy = frame.rename(columns={"m": "score"}).assign(model="m")
    xr.testing.assert_equal(ap.from_dataframe(tidy, label="y", model="model", item="i", by=["site", "year"]), wide)
    frame.to_csv(tmp_path / "table.csv", index=False)
    words = ["import", "table", str(tmp_path / "table.csv"), str(tmp_path / "s.zarr"), "--label", "y", "--models", "m"]
    ok(*words, "--by", "site", "--by", "year")
    stored = ap.open_scores(tmp_path / "s.zarr")
    assert stored["site"].values.tolist() == list("aabb")
    assert stored["year"].dtype == np.int64
    with pytest.raises(InvalidInputError, match="without query"):
        ap.from_dataframe(frame, label="y", by="site", query="year")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::aucpr_dask.errors.FewPositivesWarning")
def test_plots_and_reports_show_groups(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    data = worse_in_c()
    result, comparison = ap.evaluate(data, by="site"), ap.compare(data, "old", by="site")
    assert result.aucpr.plot.heatmap().get_xlabel() in ("site", "")
    assert result.aucpr.plot.forest(dataset="c") is not None
    assert comparison.aucpr.plot.differences(dataset="c") is not None
    page = ap.report(result, tmp_path / "report.html", scores=data, baseline="old").read_text(encoding="utf-8")
    assert "4 data sets" in page or "4 groups" in page


def test_a_table_of_many_groups_shows_the_first() -> None:
    random = np.random.default_rng(0)
    data = scores(n=2000).assign_coords(site=("item", random.permutation(np.arange(2000) % 200)))
    shown = repr(ap.evaluate(data, by="site").aucpr)
    assert "and 192 more groups" in shown


def sites_of_data_sets() -> xr.Dataset:
    random = np.random.default_rng(5)
    label = (random.random(1_200) < 0.3).astype("int8")
    places = {"dataset": ("item", np.repeat(list("uvwxyz"), 200)), "site": ("item", np.tile(["p", "q"], 600))}
    score = random.normal(size=(3, 1_200)) + np.array([[1.0], [0.8], [0.3]]) * label
    return xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)}, {"model": list("abc"), **places})


@pytest.mark.slow
@pytest.mark.parametrize("form", ["long", "tree"])
def test_data_sets_vary_within_each_group(form: str) -> None:
    data = sites_of_data_sets()
    each = {"p": data.isel(item=data["site"] == "p"), "q": data.isel(item=data["site"] == "q")}
    scores = data if form == "long" else ap.to_tree(data)
    asked = {"by": "site", "over": "dataset"}
    compared, ranked, gates = (
        ap.compare(scores, "a", **asked),
        ap.rank(scores, **asked),
        ap.gate(scores, "b", "a", **asked),
    )
    for place, (site, part) in enumerate(each.items()):
        alone = ap.compare(part, "a", over="dataset")
        for name in ("estimate", "difference", "standard_error", "p_value", "prediction_interval"):
            np.testing.assert_array_equal(compared[name].sel(site=site), alone[name])
        of_ranks = ap.rank(part, over="dataset")
        np.testing.assert_array_equal(ranked["rank_interval"].sel(site=site), of_ranks["rank_interval"])
        assert gates[place].difference == ap.gate(part, "b", "a", over="dataset").difference
        assert "6 data sets" in gates[place].design


def test_means_over_data_sets_keep_the_other_groups() -> None:
    data = sites_of_data_sets()
    by_both = ap.evaluate(data, by=["dataset", "site"])
    means = ap.aggregate(by_both, over="dataset")
    assert means["estimate"].dims == ("model", "site")
    assert "data sets with an estimate (up to 6)" in means.attrs["design"]
    np.testing.assert_allclose(means["estimate"], by_both["estimate"].mean("dataset").transpose("model", "site"))
    xr.testing.assert_equal(ap.aggregate(data, by="site", over="dataset"), means)
    for site in "pq":
        alone = ap.aggregate(ap.evaluate(data.isel(item=data["site"] == site), by="dataset"), over="dataset")
        for name in ("estimate", "standard_error", "interval"):
            np.testing.assert_array_equal(means[name].sel(site=site), alone[name])
    assert "2 groups, 3 models" in repr(means.aucpr)


@pytest.mark.slow
def test_means_over_groups_are_centred_without_bias() -> None:
    """Around the mean of average precision they missed nearly always: the bias does not average out."""
    random, truth = np.random.default_rng(6), ap.simulate.binormal(1.0).area(0.1)
    label = random.random((100, 40, 240)) < 0.1
    arrays = {"score": random.normal(size=label.shape) + label, "label": label.astype(np.int8)}
    data = xr.Dataset({name: (("model", "site", "item"), one) for name, one in arrays.items()}, {"model": range(100)})
    for over, kept in {"site": data, "items": data.rename(site="query")}.items():
        mean = ap.aggregate(kept, over=over)
        lower, upper = mean["interval"].transpose("ci_bound", ...).values
        assert ((lower <= truth) & (truth <= upper)).mean() >= 0.92
        assert ((lower <= mean["estimate"]) & (mean["estimate"] <= upper)).all()
        assert (mean["estimate"] - 1.96 * mean["standard_error"] > truth).mean() > 0.3
        assert "centred without the bias" in mean.attrs["design"]
        assert not mean.aucpr.flagged("few_positives")["few_positives"].any()
        xr.testing.assert_equal(ap.aggregate(ap.evaluate(kept), over=over), mean)
        few = kept.isel(item=slice(120))
        assert ap.aggregate(few, over=over).aucpr.flagged("few_positives")["few_positives"].mean() > 0.9
    unbiased = ap.aggregate(data, over="site", estimator="haldane")["interval"]
    assert ((unbiased == ap.aggregate(data, over="site")["interval"]).sum("ci_bound") >= 1).all()
    resampled = ap.aggregate(data, over="site", method="bootstrap", n_resamples=100)
    assert resampled.aucpr.flagged("few_positives")["few_positives"].all()
    assert "not corrected for the bias" in resampled.attrs["design"]


def test_means_over_groups_are_those_over_data_sets_of_their_names() -> None:
    data = scores()
    means = ap.aggregate(data, over="site")
    assert int(means["n_sites"][0]) == 4
    sets = ap.aggregate(data.rename(site="dataset"), over="dataset")
    xr.testing.assert_equal(means.rename(n_sites="n_datasets"), sets)
    xr.testing.assert_equal(means, ap.aggregate(ap.evaluate(data, by="site"), over="site"))
    of_each = ap.aggregate(data, by="sex", over="site")["estimate"].sel(sex="f")
    np.testing.assert_array_equal(of_each, ap.aggregate(data.isel(item=data["sex"] == "f"), over="site")["estimate"])
    bins = ap.evaluate(data, by={"age": BinGrouper([0, 30, 60, 90])})
    np.testing.assert_allclose(ap.aggregate(bins, over="age")["estimate"], bins["estimate"].mean("age"))
    with pytest.raises(InvalidInputError, match="no units called 'town'"):
        ap.aggregate(data, over="town")


@pytest.mark.slow
def test_data_sets_of_other_models_and_queries_vary_within_groups() -> None:
    """What a tree holds stays as it is: data sets without some model, with queries, with dimensions that are kept."""
    data = sites_of_data_sets()
    tree = ap.to_tree(data)
    leads = xr.DataTree.from_dict({path: xr.concat([one.ds, one.ds], "lead") for path, one in tree.children.items()})
    kept = xr.DataTree.from_dict({path: one.ds.transpose("model", ...) for path, one in leads.children.items()})
    found, alone = ap.compare(kept, "a", over="dataset"), ap.compare(tree, "a", over="dataset")
    for lead in range(2):
        np.testing.assert_array_equal(found["difference"].isel(lead=lead), alone["difference"])
        np.testing.assert_array_equal(found["interval"].isel(lead=lead), alone["interval"])
    result = ap.evaluate(tree, by="site")
    xr.testing.assert_allclose(
        ap.compare(result, "a", over="dataset"), ap.compare(tree, "a", by="site", over="dataset")
    )
    means = ap.aggregate(tree, by="site", over="dataset")
    np.testing.assert_allclose(means["estimate"], ap.aggregate(data, by="site", over="dataset")["estimate"])
    some = xr.DataTree.from_dict(
        {**{path: one.ds for path, one in tree.children.items()}, "odd": data.isel(item=slice(9)).drop_vars("site")}
    )
    with pytest.raises((AlignmentError, InvalidInputError)):
        ap.compare(some, "a", by="site", over="dataset")


def test_tables_of_letters_and_ranks_take_arrays() -> None:
    data = sites_of_data_sets()
    score = data["score"].drop_vars(["dataset", "site"])
    whole = ap.letters(data)
    apart = ap.letters(dict(zip("abc", score.values, strict=True)), data["label"].values)
    assert apart.worse.to_dict() == whole.worse.to_dict()
    np.testing.assert_array_equal(apart.means.sort_index(), whole.means.sort_index())
    grid = score.coarsen(item=20).construct(item=("time", "place"))
    label = data["label"].drop_vars(["dataset", "site"]).coarsen(item=20).construct(item=("time", "place"))
    assert ap.letters(grid, label, dim=("time", "place"), intervals=True).worse.to_dict() == whole.worse.to_dict()
    tested = ap.friedman(grid.isel(time=slice(12)), label.isel(time=slice(12)), dim="place", over="time")
    values = ap.evaluate(grid.isel(time=slice(12)), label.isel(time=slice(12)), dim="place", interval=())["estimate"]
    assert float(tested["p_value"]) == pytest.approx(stats.friedmanchisquare(*values.values).pvalue)
    assert "12 times" in tested.attrs["design"]
    with pytest.raises(InvalidInputError, match="one group at a time"):
        ap.friedman(data, by="site", over="dataset")
    by_columns = ap.letters(data, by="site")
    assert list(by_columns.means) == ["average precision, p", "average precision, q"]
    with pytest.raises(InvalidInputError, match="shows no intervals"):
        ap.letters(grid, label, dim="place", over="time", intervals=True)


def test_an_audit_takes_the_groups_of_a_result_as_tasks() -> None:
    data = sites_of_data_sets()
    by_data_set = ap.evaluate(data, by="dataset", interval=())
    assert ap.audit(by_data_set).verdict == ap.audit(ap.to_tree(data), over="dataset").verdict
    with pytest.raises(InvalidInputError, match="also site"):
        ap.audit(ap.evaluate(data, by=["dataset", "site"], interval=()))


@pytest.mark.parametrize("name", ["rank", "difference", "p_value", "baseline"])
def test_groups_of_a_name_that_answers_use_are_refused(name: str) -> None:
    random = np.random.default_rng(0)
    label = (random.random(200) < 0.3).astype("int8")
    variables = {"score": (("model", "item"), random.normal(size=(2, 200)) + label), "label": ("item", label)}
    scores = xr.Dataset(variables, {"model": ["a", "b"], name: ("item", np.arange(200) % 2)})
    for ask in (
        lambda: ap.compare(scores, "a", by=name),
        lambda: ap.contrast(scores, name),
        lambda: ap.rank(scores, by=name),
    ):
        with pytest.raises(InvalidInputError, match="something else of the name"):
            ask()


def test_graded_labels_are_read_within_groups() -> None:
    random = np.random.default_rng(0)
    grade = random.integers(4, size=400).astype("int8")
    variables = {"score": (("model", "item"), random.normal(size=(2, 400)) + grade), "label": ("item", grade)}
    site = np.where(random.random(400) < 0.5, "x", "y")
    graded = xr.Dataset(variables, {"model": ["a", "b"], "site": ("item", site)})
    plain = graded.assign(label=(graded["label"] >= 2).astype("int8"))
    for ask in (
        lambda scores, **reading: ap.compare(scores, "a", by="site", **reading),
        lambda scores, **reading: ap.rank(scores, by="site", **reading),
        lambda scores, **reading: ap.contrast(scores, "site", **reading),
    ):
        found, expected = (
            one.drop_vars(["design", "summary"], errors="ignore") for one in (ask(graded, positive_from=2), ask(plain))
        )
        xr.testing.assert_equal(found, expected)


@pytest.mark.parametrize("times", [pd.to_timedelta([6, 24], "h"), pd.to_datetime(["2024-01-01", "2024-02-01"])])
def test_times_are_called_alike_in_sentences_gates_and_reports(times: pd.Index, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    label = (random.random((2, 300)) < 0.2).astype("int8")
    score = random.normal(size=(2, 2, 300)) + label * np.array([1.0, 2.5])[:, None, None]
    variables = {"score": (("model", "lead", "item"), score), "label": (("lead", "item"), label)}
    scores = xr.Dataset(variables, {"model": ["a", "b"], "lead": times})
    assert f"{times[0]} (+" in ap.compare(scores, "a").attrs["summary"]
    assert str(ap.gate(scores, "b", "a", margin=0.1)).startswith(f"{times[0]}: passed")
    assert str(times[0]) in ap.report(ap.evaluate(scores), tmp_path / "page.html").read_text()


def test_ranks_and_power_say_what_holds_in_which_groups() -> None:
    random = np.random.default_rng(3)
    label = np.arange(360) % 3 == 0
    score = random.normal(size=(2, 360)) + np.outer([0.5, 1.5], label)
    sites = {"model": ["a", "b"], "site": ("item", np.repeat(["x", "y", "z"], 120))}
    scores = xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)}, sites)
    for answer in (ap.rank(scores, by="site"), ap.power(ap.evaluate(scores, by="site"))):
        summary, of_each = answer.attrs["summary"], answer["summary"].to_series()
        assert set(of_each) == {said for said in of_each if said in summary}
        for name in "xyz":
            assert summary.split(of_each[name])[0].rpartition("in ")[2].count(name) == 1
