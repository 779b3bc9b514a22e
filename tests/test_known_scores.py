"""A result that is asked about its items recalls its scores: of its own labels, or none."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from xarray.groupers import BinGrouper, TimeResampler

import aucpr_dask as ap
from aucpr_dask.errors import InvalidInputError

LABELS: dict[str, list[Any]] = {
    "lead": [6, 24, 72],
    "query": ["q1", "q2", "q3"],
    "class": list("uvw"),
    "repeat": [0, 1],
}
REFUSED = "this needs resamples of the items"


def scores_over(dim: str, seed: int = 0) -> xr.Dataset:
    random, labels = np.random.default_rng(seed), LABELS[dim]
    label = (random.random((len(labels), 300)) < 0.2).astype("int8")
    score = random.normal(size=(2, len(labels), 300))
    score += label * np.linspace(0.5, 2, score[..., 0].size).reshape(2, -1, 1)
    dims: tuple[str, ...] = (dim, "item")
    if dim == "repeat":
        label, dims = label[0], ("item",)
    return xr.Dataset(
        {"score": (("model", dim, "item"), score), "label": (dims, label)}, {"model": ["a", "b"], dim: labels}
    )


def difference(result: xr.Dataset) -> Any:
    return (result["estimate"].sel(model="b") - result["estimate"].sel(model="a")).values


@pytest.mark.parametrize("dim", LABELS)
def test_one_label_of_a_result_is_compared_alone(dim: str) -> None:
    result = ap.evaluate(scores_over(dim))
    for label in LABELS[dim]:
        one = result.sel({dim: label})
        found = ap.compare(one, "a")["difference"].sel(model="b")
        np.testing.assert_allclose(found, difference(one), rtol=1e-13)
        assert f"{float(found):+.3f}" in str(ap.gate(one, "b", "a", margin=0.5)) or dim == "repeat"
    with pytest.raises(InvalidInputError, match=REFUSED):
        ap.compare(result.mean(dim, keep_attrs=True), "a")


def test_some_leads_of_a_result_are_compared_alone() -> None:
    some = ap.evaluate(scores_over("lead")).sel(lead=[6, 24])
    found = ap.compare(some, "a")
    assert found["lead"].values.tolist() == [6, 24]
    np.testing.assert_allclose(found["difference"].sel(model="b"), difference(some), rtol=1e-13)


def test_results_of_other_scores_are_not_compared_by_the_first() -> None:
    leads = scores_over("lead")
    each = [ap.evaluate(leads.isel(lead=place, drop=True)) for place in (0, 2)]
    other = ap.evaluate(scores_over("lead", seed=5).isel(lead=0, drop=True))
    for mixed in (
        xr.concat(each, pd.Index([2023, 2024], name="year")),
        xr.concat([each[0].sel(model=["a"]), other.sel(model=["b"])], "model"),
        each[0].assign_coords(model=["b", "a"]),
    ):
        with pytest.raises(InvalidInputError, match=REFUSED):
            ap.compare(mixed, "a")


def test_scores_that_have_changed_are_not_taken_for_those_of_the_result() -> None:
    scores = scores_over("lead").isel(lead=0, drop=True)
    result = ap.evaluate(scores)
    ap.compare(result, "a")
    scores["score"].values[:] *= -1
    with pytest.raises(InvalidInputError, match=REFUSED):
        ap.compare(result, "a")


@pytest.mark.filterwarnings("ignore::aucpr_dask.errors.FewPositivesWarning")
@pytest.mark.parametrize("kind", ["numbers", "text", "categories", "words", "months", "bins", "bins of a coordinate"])
def test_groups_are_recalled_by_their_labels(kind: str) -> None:
    scores = scores_over("lead").isel(lead=0, drop=True)
    code = np.random.default_rng(1).integers(3, size=300)
    if kind == "months":
        scores = scores.rename(item="time").assign_coords(time=pd.date_range("2020-01-01", periods=300))
        result = ap.evaluate(scores, by="time.month", dim="time").sel(month=[4, 6, 7])
    elif kind == "bins of a coordinate":  # whose labels are not in the order of text
        scores = scores.assign_coords(month=("item", np.arange(300) % 40))
        result = ap.evaluate(scores, by={"month": BinGrouper([0, 5, 20, 40], right=False)})
    else:
        groups = {"numbers": code + 1, "text": np.array(["x", "y", "z"])[code]}
        groups["categories"] = pd.Categorical(code, categories=[2, 1, 0], ordered=True)
        groups["words"] = pd.Categorical(groups["text"], ["y", "z", "x"])
        groups["bins"] = pd.cut(code, [-1, 0, 1, 2])
        result = ap.evaluate(scores, by={"month": groups[kind]})
    found = ap.compare(result, "a")["difference"].sel(model="b")
    assert found.indexes["month"].equals(result.indexes["month"])
    np.testing.assert_allclose(found, difference(result), rtol=1e-13)
    one = result.isel(month=[1])
    np.testing.assert_allclose(ap.compare(one, "a")["difference"].sel(model="b"), difference(one), rtol=1e-13)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::aucpr_dask.errors.AucprWarning")
@pytest.mark.parametrize("kind", ["numbers", "months", "pairs", "queries"])
def test_groups_without_items_are_named_by_results_as_by_their_scores(kind: str, tmp_path: Path) -> None:
    scores = scores_over("query" if kind == "queries" else "lead")
    scores = scores if kind == "queries" else scores.isel(lead=0, drop=True)
    age = np.repeat([10, 30, 70], 100)  # nobody of 41 to 60
    when = np.datetime64("2024-01-01", "ns") + age * np.timedelta64(1, "D")
    scores = scores.assign_coords(age=("item", age), when=("item", when))
    by: Any = {"age": BinGrouper([0, 20, 40, 60, 80])}
    if kind == "months":
        by = {"when": TimeResampler("MS")}
    elif kind == "pairs":
        by, scores = ["old", "age"], scores.assign_coords(old=("item", age > 20))
    result = ap.evaluate(scores, by=by)
    assert result["estimate"].isnull().any()
    for ask in (ap.compare, ap.rank, ap.power, ap.aggregate):
        found, expected = ask(result), ask(scores, by=by)
        for name in expected.data_vars:
            if expected[name].dtype.kind == "f":
                np.testing.assert_allclose(found[name], expected[name], rtol=1e-9, atol=1e-12, err_msg=name)
        assert found.attrs.get("groups_left_out") == expected.attrs.get("groups_left_out")
        assert found.attrs.get("summary") == expected.attrs.get("summary")
    assert str(ap.gate(result, "b", "a")) == str(ap.gate(scores, "b", "a", by=by))
    if kind == "numbers":
        found, expected = ap.contrast(result, "age"), ap.contrast(scores, by)
        np.testing.assert_allclose(found["difference"], expected["difference"], rtol=1e-9)
        assert found.attrs["summary"] == expected.attrs["summary"]
    assert ap.report(result, tmp_path / "report.html").exists()


@pytest.mark.slow
@pytest.mark.sparse
@pytest.mark.filterwarnings("ignore::aucpr_dask.errors.AucprWarning")
@pytest.mark.parametrize("by", [None, "site"])
@pytest.mark.parametrize("in_clusters", [False, True])
def test_models_that_lack_items_of_queries_are_compared_by_the_scores(by: Any, in_clusters: bool) -> None:
    scores = scores_over("query").assign_coords(site=("item", np.arange(300) % 2))
    scores["score"] = scores["score"].where(np.random.default_rng(1).random(scores["score"].shape) > 0.05)
    scores = scores.assign(cluster=("query", ["x", "x", "y"])) if in_clusters else scores
    result = ap.evaluate(scores, missing="drop", by=by)
    for ask in (ap.compare, ap.rank, ap.power):
        found, expected = ask(result), ask(scores, missing="drop", by=by)
        xr.testing.assert_identical(found.drop_attrs(deep=False), expected.drop_attrs(deep=False))
        assert found.attrs.get("summary") == expected.attrs.get("summary")
    assert "items that all scored: 'a' lacks" in ap.letters(result).caption


def test_a_dimension_called_dataset_is_kept_as_any_other() -> None:
    scores = scores_over("lead").rename(lead="dataset").assign_coords(dataset=["x", "y", "z"])
    xr.testing.assert_equal(ap.compare(ap.evaluate(scores), "a"), ap.compare(scores, "a"))
    assert list(ap.letters(scores).means) == [f"average precision, {name}" for name in "xyz"]


@pytest.mark.parametrize("over", [("query", "items"), "items", ("dataset", "items")])
def test_resamples_that_a_mean_needs_come_from_the_scores(over: Any) -> None:
    scores: Any = scores_over("query")
    if "dataset" in over:
        scores = xr.DataTree.from_dict({q: scores.sel(query=q, drop=True) for q in scores["query"].values})
    expected = ap.aggregate(scores, over=over, method="bootstrap")
    found = ap.aggregate(ap.evaluate(scores), over=over, method="bootstrap")
    xr.testing.assert_equal(found, expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::aucpr_dask.errors.FewPositivesWarning")
@pytest.mark.parametrize("form", ["saved", "archive"])
def test_groups_by_a_part_of_the_time_are_recalled_from_stores(form: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    label = (random.random(400) < 0.3).astype("int8")
    time = pd.date_range("2020-01-01", periods=400)
    scores = xr.Dataset(
        {"score": (("model", "time"), random.normal(size=(2, 400)) + label), "label": ("time", label)},
        {"model": np.array(["a", "b"], object), "time": time},
    )
    if form == "saved":
        ap.save_scores(scores, tmp_path / "scores.zarr", dim="time")
        assert (ap.open_scores(tmp_path / "scores.zarr")["time"].values == time).all()
    else:
        scores.to_zarr(tmp_path / "scores.zarr", consolidated=False)
    like = {} if form == "saved" else {"like": {"dim": "time"}}
    result = ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr", by="time.month", **like)
    expected = ap.compare(scores, "a", by="time.month", dim="time")
    for asked in (result, ap.open_result(tmp_path / "result.zarr")):
        xr.testing.assert_equal(ap.compare(asked, "a")["difference"], expected["difference"])
    january = ap.compare(ap.open_result(tmp_path / "result.zarr").sel(month=[1, 3]), "a")
    np.testing.assert_array_equal(january["difference"], expected["difference"].sel(month=[1, 3]))


@pytest.mark.parametrize("dim", LABELS)
@pytest.mark.parametrize("asked", ["items", "clusters"])
def test_means_vary_as_asked_whatever_varied_in_the_result(dim: str, asked: str) -> None:
    clusters = xr.DataArray(np.arange(300) // 5, dims="item")
    scores = scores_over(dim).assign(cluster=clusters)
    result = ap.evaluate(scores, over={"items": "clusters", "clusters": "items"}[asked])
    found, expected = ap.aggregate(result, over=asked), ap.aggregate(scores, over=asked)
    xr.testing.assert_equal(found, expected)
    assert found.attrs["design"] == expected.attrs["design"]
    assert not found["standard_error"].equals(ap.aggregate(result)["standard_error"])
    with pytest.raises(InvalidInputError, match=rf"in this result .* vary\n(.*\n)?.*over='{asked}'"):
        ap.aggregate(result.drop_attrs().assign_attrs(sampled=result.attrs["sampled"]), over=asked)


def test_clusters_of_queries_vary_by_default_and_by_their_name() -> None:
    scores = scores_over("query").assign(cluster=("query", list("xxy")))
    for data in (scores, ap.evaluate(scores)):
        xr.testing.assert_identical(ap.aggregate(data, over="clusters"), ap.aggregate(data))
