"""Stores: what goes in comes out, what is not finished does not open, what is in the way stays."""

import errno
import itertools
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
import zarr
from conftest import ok, pooled, queried
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.core.sync import sync
from zarr.storage import MemoryStore

import aucpr_dask as ap
from aucpr_dask.errors import AlignmentError, InvalidInputError, OtherRunError, StoreError
from aucpr_dask.schema.terms import Nodes, nodes_of
from aucpr_dask.scores import store as store_module
from aucpr_dask.scores.importing.arrays import import_xarray
from aucpr_dask.storage import stores, trees
from aucpr_dask.storage.backends import FolderStore
from aucpr_dask.storage.checksums import plain_entry
from aucpr_dask.storage.stores import FORMAT_VERSION, laid_out

ODD_NAMES = ["", "é", "e\u0301", "日本語", "a/b", "nul\x01", "  ", "😀", "ﬁ", 'quote"', "back\\slash", "long" * 100]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "scores.zarr"


def plain(dataset: xr.Dataset) -> xr.Dataset:
    """The values alone: text as text of one type, without attributes and what saving adds."""
    loaded = dataset.drop_vars("n_missing", errors="ignore").load().drop_attrs()
    for name in loaded.indexes:
        if loaded[name].dtype.kind in "OTU":
            loaded = loaded.assign_coords({name: loaded[name].astype(object)})
    return loaded


def assert_same_numbers(ours: Any, theirs: Any) -> None:
    nodes, others = dict(nodes_of(ours)), dict(nodes_of(theirs))
    assert nodes.keys() == others.keys()
    for path in nodes:
        xr.testing.assert_identical(plain(nodes[path]), plain(others[path]))


# Round trips


@pytest.mark.smoke
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("make", [pooled, queried])
def test_a_data_set_comes_back(place: Path, make: Any, kind: type) -> None:
    scores = make()
    scores = scores.assign(score=scores["score"].astype(kind))
    ap.save_scores(scores, place)
    opened = ap.open_scores(place)
    assert isinstance(opened, xr.Dataset)
    assert isinstance(opened["score"].data, da.Array)
    assert isinstance(opened["label"].data, np.ndarray)
    assert opened["score"].dtype == kind
    assert_same_numbers(opened, scores)
    xr.testing.assert_equal(ap.evaluate(opened).compute().drop_vars("model"), ap.evaluate(scores).drop_vars("model"))
    assert ap.open_scores(place, chunks=None)["score"].chunks is None


@pytest.mark.smoke
def test_a_tree_comes_back(place: Path, forest: xr.DataTree) -> None:
    ap.save_scores(forest, place)
    opened = ap.open_scores(place)
    assert isinstance(opened, xr.DataTree)
    assert_same_numbers(opened, forest)


def test_every_variable_comes_back(place: Path) -> None:
    scores = queried()
    score, label = scores["score"], scores["label"]
    rich = scores.assign(
        label=label.broadcast_like(score).transpose(*score.dims).copy(),
        tie_order=xr.ones_like(score, dtype=np.int32).cumsum("item"),
        weight=abs(label).astype(float),
        n_positive=("query", [50, 60, 70]),
        cluster=("query", np.array(["a", "b", "a"], dtype=object)),
        fold=("item", np.arange(30) % 3),
    ).assign_attrs(source_files="a.run")
    rich["label"][0, 0, :2] = [0, 1]  # models with equal labels share them
    ap.save_scores(rich, place)
    opened = ap.open_scores(place)
    assert_same_numbers(opened, rich)
    assert opened.attrs["source_files"] == "a.run"


@pytest.mark.parametrize("kind", ["U", "object", "StringDType"])
def test_names_of_every_kind_come_back(place: Path, kind: str) -> None:
    dtype = {"U": None, "object": object, "StringDType": np.dtypes.StringDType()}[kind]
    names = np.array(ODD_NAMES, dtype=dtype)
    scores = pooled(len(ODD_NAMES), 12).assign_coords(model=names, item=names)
    ap.save_scores(scores, place)
    opened = ap.open_scores(place)
    assert opened["model"].values.tolist() == opened["item"].values.tolist() == ODD_NAMES
    again = place.with_name("again.zarr")
    ap.save_scores(opened, again)  # what xarray read back is of yet another type
    assert ap.open_scores(again)["model"].values.tolist() == ODD_NAMES
    trec = [ap.evaluate(data, ties="trec_eval")["estimate"].values for data in (scores, opened)]
    np.testing.assert_array_equal(trec[0], trec[1])


def test_chunks_of_fewer_models(place: Path) -> None:
    ap.save_scores(queried(7), place, models_per_chunk=3)
    opened = ap.open_scores(place)
    assert opened["score"].chunksizes["model"] == (3, 3, 1)
    assert_same_numbers(opened, queried(7))
    for wrong in (0, -1, 2.5, "3", True):
        with pytest.raises(InvalidInputError, match="models_per_chunk must be a whole number from 1"):
            ap.save_scores(queried(), place, overwrite=True, models_per_chunk=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("dims", [("item",), ("model", "item")])
def test_labels_over_fewer_dimensions_than_the_scores_come_back(place: Path, dims: tuple[str, ...]) -> None:
    scores = queried().drop_vars("label")
    scores = scores.assign(
        score=scores["score"].fillna(0), label=(dims, np.ones([scores.sizes[dim] for dim in dims], np.int8))
    )
    ap.save_scores(scores.chunk({"model": 1}), place)
    opened = ap.open_scores(place)
    assert_same_numbers(opened, scores)
    xr.testing.assert_equal(
        ap.evaluate(opened)["estimate"].drop_vars("model"), ap.evaluate(scores)["estimate"].drop_vars("model")
    )


def test_lazy_labels_are_checked_when_saving(place: Path) -> None:
    scores = queried()
    wrong = scores["label"].broadcast_like(scores["score"]).astype("int64").copy()
    wrong[3, 2, 1] = 256 + 1
    for label in (wrong, wrong[3]):
        bad = scores.assign(label=label.transpose(*(dim for dim in scores["score"].dims if dim in label.dims)))
        with pytest.raises(InvalidInputError, match="outside their domain"):
            ap.save_scores(bad.chunk({"model": 1}), place, overwrite=True)
        assert_does_not_open(place)


@pytest.mark.parametrize(
    "scores",
    [
        queried().assign(weight=("item", np.arange(30.0)), n_positive=("query", [50, 60, 70])).chunk(),
        pooled(3, 10).assign_coords(model=[10, 20, 30], item=np.arange(10) * 5),
        pooled().isel(model=[]),
    ],
    ids=["small variables that are lazy", "names that are numbers", "no models"],
)
def test_they_come_back_too(place: Path, scores: xr.Dataset) -> None:
    ap.save_scores(scores, place)
    opened = ap.open_scores(place)
    assert_same_numbers(opened, scores)
    assert (opened["model"].dtype == np.int64) == (scores["model"].dtype == np.int64)


def test_odd_names_of_data_sets_come_back(place: Path) -> None:
    names = ["日本語", "with space", "e\u0301", "x" * 100, "1.5%"]
    ap.save_scores(xr.DataTree.from_dict({name: pooled(2, 10) for name in names}), place)
    assert set(ap.open_scores(place).children) == set(names)


def test_lazy_scores_are_saved_chunk_by_chunk(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aucpr_dask.storage.stores.CHUNK_BYTES", 60 * 8 * 2)
    scores = pooled(7, 60)
    steps: list[tuple[int, int]] = []
    ap.save_scores(scores.chunk({"model": 3}), place, on_progress=lambda *step: steps.append(step))
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]
    opened = ap.open_scores(place)
    assert opened["score"].chunks == ((2, 2, 2, 1), (60,))
    assert_same_numbers(opened, scores)


@pytest.mark.parametrize("make", [pooled, queried])
def test_chunks_keep_the_item_axis_whole(place: Path, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aucpr_dask.storage.stores.CHUNK_BYTES", 1)
    scores = make()
    ap.save_scores(scores, place)
    array = zarr.open_array(place, path="score", mode="r")
    assert array.chunks[-1] == array.shape[-1]
    assert set(array.chunks[:-1]) == {1}
    assert array.metadata.zarr_format == 3


def test_missing_scores_are_counted_when_saving(place: Path) -> None:
    scores = queried()
    holes = scores["score"].copy()
    holes[2, 1, 4:7] = np.nan
    for lazy in (False, True):
        holed = scores.assign(score=holes.chunk({"model": 1}) if lazy else holes)
        ap.save_scores(holed, place, overwrite=lazy)
        opened = ap.open_scores(place)
        assert isinstance(opened["n_missing"].data, np.ndarray)
        expected = np.zeros((4, 3), int)
        expected[2, 1] = 3
        np.testing.assert_array_equal(opened["n_missing"].values, expected)


@pytest.mark.parametrize("n_leads", [None, 3])
def test_scores_need_no_models(n_leads: int | None, tmp_path: Path) -> None:
    whole = pooled(3).rename(model="lead").drop_vars("lead")
    scores = whole.isel(lead=0) if n_leads is None else whole
    ap.save_scores(scores, tmp_path / "scores.zarr")
    opened = ap.open_scores(tmp_path / "scores.zarr")
    np.testing.assert_array_equal(opened["score"], scores["score"])
    result, expected = ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr"), ap.evaluate(scores)
    np.testing.assert_array_equal(result["interval"], expected["interval"])


def test_foreign_variables_are_left_out(place: Path) -> None:
    ap.save_scores(pooled().assign(note=("item", np.arange(60))), place)
    assert set(ap.open_scores(place).data_vars) == {"score", "label", "n_missing"}


# Finished stores open anywhere

READER = """
import sys, warnings
warnings.simplefilter("error")
import xarray as xr
for variable in ("score", "estimate"):
    one = xr.open_zarr(f"one-{variable}.zarr", chunks=None).load()
    tree = xr.open_datatree(f"tree-{variable}.zarr", engine="zarr", chunks=None).load()
    for data in (one, tree["small"]):
        print(*data["model"].values, float(data[variable].sum()))
assert not any(name.startswith("aucpr_dask") for name in sys.modules)
"""


def test_a_finished_store_opens_in_plain_xarray(tmp_path: Path, forest: xr.DataTree) -> None:
    """Scores and results, of one data set and of a tree."""
    one = forest["small"].to_dataset()
    for name, scores in (("one", one), ("tree", forest)):
        ap.save_scores(scores, tmp_path / f"{name}-score.zarr")
        ap.run(tmp_path / f"{name}-score.zarr", tmp_path / f"{name}-estimate.zarr")
    done = subprocess.run([sys.executable, "-c", READER], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    totals = (float(one["score"].sum()), float(ap.evaluate(one)["estimate"].sum()))
    assert done.stdout.splitlines() == [f"m0 m1 m2 {total!r}" for total in totals for _ in range(2)]


# What does not open


def assert_does_not_open(place: Path) -> None:
    for opener in (ap.open_scores, ap.open_result):
        with pytest.raises(StoreError):
            opener(place)
    # Plain xarray must not open it either, with any options.
    for consolidated in (None, True, False):
        for plain_opener in (xr.open_zarr, lambda path, **o: xr.open_datatree(path, engine="zarr", **o)):
            with pytest.raises((OSError, KeyError, ValueError, zarr.errors.BaseZarrError)):  # noqa: PT012
                opened = plain_opener(place, consolidated=consolidated)
                assert not opened.nodes if hasattr(opened, "nodes") else opened.data_vars


def another_kind(place: Path) -> None:
    xr.Dataset({"score": (("model", "item"), np.ones((2, 3)))}).to_zarr(place, consolidated=False)


def of_version(place: Path, later: int, version: str) -> None:
    ap.save_scores(pooled(), place)
    document = json.loads((place / "zarr.json").read_text())
    document["attributes"] |= {"format_version": FORMAT_VERSION + later, "aucpr_dask_version": version}
    (place / "zarr.json").write_text(json.dumps(document))


def a_torn_document(place: Path) -> None:
    ap.save_scores(pooled(), place)
    document = (place / "zarr.json").read_bytes()
    (place / "zarr.json").write_bytes(document[: len(document) // 2])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda place: None, r"there is no store at this place[\s\S]*scores\.zarr"),
        (Path.mkdir, "no store"),
        *((lambda place, text=text: place.write_text(text), None) for text in ("", "model,score\n", "{}")),
        (another_kind, "another kind: another program wrote it"),
        (lambda place: of_version(place, 1, "99.0"), r"newer version[\s\S]*99\.0[\s\S]*upgrade"),
        (lambda place: of_version(place, -1, "0.1.0"), r"earlier version[\s\S]*0\.1\.0[\s\S]*write it again"),
        (a_torn_document, "not valid JSON"),
    ],
)
def test_what_is_no_store_does_not_open(tmp_path: Path, make: Callable[[Path], Any], message: str | None) -> None:
    make(tmp_path / "scores.zarr")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StoreError, match=message) as caught:
        ap.open_scores(tmp_path / "scores.zarr")
    assert isinstance(caught.value, OSError)
    assert sorted(tmp_path.rglob("*")) == before


def test_scores_are_no_result(place: Path) -> None:
    ap.save_scores(pooled(), place)
    with pytest.raises(
        StoreError, match=r"this store holds scores, not a result[\s\S]*'aucpr_dask\.scores'[\s\S]*'aucpr_dask\.result'"
    ):
        ap.open_result(place)


@pytest.mark.smoke
def test_an_unfinished_store(place: Path) -> None:
    ap.save_scores(pooled(), place)
    (place / "zarr.json").unlink()
    with pytest.raises(StoreError, match=r"never finished[\s\S]*overwrite=True"):
        ap.open_scores(place)
    assert_does_not_open(place)
    with pytest.raises(StoreError, match="something at this place"):
        ap.save_scores(pooled(), place)
    ap.save_scores(pooled(), place, overwrite=True)
    assert ap.open_scores(place).sizes["model"] == 5


def stop(*arguments: Any) -> None:
    raise RuntimeError("stop")


def test_the_same_call_goes_on_with_an_unfinished_store(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="stop"):
        ap.save_scores(pooled(), place, on_progress=stop)
    with pytest.raises(StoreError, match="something at this place"):
        ap.save_scores(pooled(6), place)
    laid_out = stores.laid_out

    def in_another_order(*arguments: Any, **options: Any) -> Any:
        documents, root_document = laid_out(*arguments, **options)
        return dict(reversed(documents.items())), root_document

    monkeypatch.setattr(stores, "laid_out", in_another_order)  # threads make them
    ap.save_scores(pooled(), place)
    assert_same_numbers(ap.open_scores(place), pooled())
    assert not (place / "ledger").exists()


def test_a_call_whose_place_was_taken_writes_nothing_more(place: Path) -> None:
    def save_again(done: int, total: int) -> None:
        if done == 1:
            ap.save_scores(pooled(seed=1), place, overwrite=True)

    with pytest.raises(OtherRunError, match="now belongs to another run"):
        ap.save_scores(pooled(seed=2), place, on_progress=save_again)
    assert_same_numbers(ap.open_scores(place), pooled(seed=1))


def test_a_store_that_was_finished_a_moment_ago_stays(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_others = stores.refuse_others

    def refuse_and_finish(*arguments: Any) -> None:
        monkeypatch.setattr(stores, "refuse_others", refuse_others)
        refuse_others(*arguments)
        ap.save_scores(pooled(seed=1), place)

    monkeypatch.setattr(stores, "refuse_others", refuse_and_finish)
    with pytest.raises(StoreError, match="something at this place"):
        ap.save_scores(pooled(seed=2), place)
    assert_same_numbers(ap.open_scores(place), pooled(seed=1))
    assert not (place / "ledger").exists()


@pytest.mark.parametrize("tree", [False, True])
def test_a_failure_in_the_middle_leaves_nothing_that_opens(
    place: Path, forest: xr.DataTree, tree: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "WAITING_CHUNKS", 1)  # so that small chunks are written one by one

    def stop(done: int, total: int) -> None:
        if done == total:
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        ap.save_scores(forest if tree else pooled(), place, on_progress=stop)
    assert any(path.is_file() for path in place.rglob("c/*/*") or place.rglob("c/*"))
    assert_does_not_open(place)


def test_a_failure_at_any_write_leaves_nothing_that_opens(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail at the n-th document or chunk, for every n, while an older store is being replaced."""
    put = FolderStore.put
    n_writes = fail_at = 0

    def failing(*arguments: Any, **options: Any) -> None:
        nonlocal n_writes
        n_writes += 1
        if n_writes == fail_at:
            raise OSError("disk full")
        put(*arguments, **options)

    monkeypatch.setattr(FolderStore, "put", failing)
    ap.save_scores(queried(seed=3), place)
    total = n_writes
    assert total > 8
    for fail_at in range(2, total + 1):  # noqa: B007 (the first is the claim, without which nothing is touched)
        n_writes = 0
        with pytest.raises(StoreError, match="disk full"):
            ap.save_scores(queried(seed=4), place, overwrite=True)
        assert_does_not_open(place)


# What is in the way stays


@pytest.mark.smoke
def test_an_existing_store_is_refused(place: Path) -> None:
    ap.save_scores(pooled(seed=1), place)
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    with pytest.raises(StoreError, match=r"something at this place[\s\S]*overwrite=True"):
        ap.save_scores(pooled(seed=2), place)
    assert before == {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    ap.save_scores(pooled(3, 20, seed=2), place, overwrite=True)
    assert_same_numbers(ap.open_scores(place), pooled(3, 20, seed=2))


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("way", ["project/chapter.tex", "scores.zarr"])
def test_what_others_wrote_is_never_replaced(tmp_path: Path, way: str, overwrite: bool) -> None:
    ap.save_scores(pooled(), tmp_path / "project" / "scores.zarr")  # a store among other things
    precious = tmp_path / way
    precious.write_text("years of work")
    with pytest.raises(StoreError, match=r"something at this place|this package did not write|Not a directory"):
        ap.save_scores(pooled(), tmp_path / Path(way).parts[0], overwrite=overwrite)
    assert precious.read_text() == "years of work"
    assert ap.open_scores(tmp_path / "project" / "scores.zarr").sizes["model"] == 5


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_stores_of_other_programs_are_never_replaced(tmp_path: Path, zarr_format: Any) -> None:
    place = tmp_path / "theirs.zarr"
    xr.Dataset({"x": ("time", [1.0, 2.0])}).to_zarr(place, zarr_format=zarr_format, consolidated=False)
    with pytest.raises(StoreError, match="something at this place") as caught:
        ap.save_scores(pooled(), place)
    assert "overwrite" not in str(caught.value)
    with pytest.raises(StoreError, match=r"this package did not write[\s\S]*remove it yourself"):
        ap.save_scores(pooled(), place, overwrite=True)
    assert xr.open_zarr(place, consolidated=False)["x"].values.tolist() == [1.0, 2.0]


def test_a_path_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot be written[\s\S]*file/scores\.zarr"):
        ap.save_scores(pooled(), tmp_path / "file" / "scores.zarr")

    def refuse(*arguments: Any, **options: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(FolderStore, "put", refuse)
    with pytest.raises(StoreError, match=r"cannot be written[\s\S]*Permission denied"):
        ap.save_scores(pooled(), tmp_path / "scores.zarr")


def test_no_hard_links_are_needed(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mounted buckets, and some file systems of networks, have none."""

    def link(*names: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    ap.save_scores(pooled(), place)
    ap.run(place, tmp_path / "result.zarr")
    with pytest.raises(StoreError, match="another evaluation"):
        ap.run(place, tmp_path / "result.zarr", interval="logit")
    assert not list(tmp_path.rglob("*.partial"))


def test_bad_scores_are_refused_before_anything_is_written(place: Path) -> None:
    with pytest.raises(InvalidInputError, match="outside their domain"):
        ap.save_scores(pooled().assign(label=("item", np.full(60, -5))), place)
    assert not place.exists()


def test_an_error_is_quick(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(StoreError):
        ap.run(tmp_path / "no.zarr", tmp_path / "result.zarr")
    assert time.monotonic() - started < 1
    assert not (tmp_path / "result.zarr").exists()
    assert store_module.KIND == "aucpr_dask.scores"


@pytest.mark.parametrize("tree", [False, True])
def test_lazy_scores_do_not_replace_their_own_store(tmp_path, tree):
    one = xr.Dataset(
        {"score": (("model", "item"), [[0.2, 0.7, 0.1]]), "label": ("item", [0, 1, 0])}, coords={"model": ["m"]}
    )
    ap.save_scores(xr.DataTree.from_dict({"a": one}) if tree else one, tmp_path / "s.zarr")
    with pytest.raises(StoreError, match="still read from it"):
        ap.save_scores(ap.open_scores(tmp_path / "s.zarr"), tmp_path / "s.zarr", overwrite=True)
    kept = ap.open_scores(tmp_path / "s.zarr")
    values = (kept["a"] if tree else kept)["score"].values
    assert values.tolist() == [[0.2, 0.7, 0.1]]
    ap.save_scores(kept.load(), tmp_path / "s.zarr", overwrite=True)


def test_the_root_document_is_the_one_that_zarr_consolidates():
    node = pooled().drop_vars(["model", "item"], errors="ignore")  # Zarr warns of text
    documents, root = laid_out(xr.DataTree.from_dict(dict.fromkeys(["b", "a", "É", "a/deep"], node)), "kind", "here")
    bare = json.loads(root.to_bytes())
    del bare["consolidated_metadata"]
    documents["zarr.json"] = type(root).from_bytes(json.dumps(bare).encode())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of consolidated metadata
        zarr.consolidate_metadata(MemoryStore(documents), zarr_format=3)
    assert json.dumps(json.loads(documents["zarr.json"].to_bytes())) == root.to_bytes().decode()  # in the same order


CHANGING = [
    *({"scale_factor": -1.0}, {"add_offset": 1e20}, {"missing_value": 0.9}, {"_FillValue": 0.9}, {"_FillValue": 1}),
    *({"_Unsigned": "true"}, {"_Encoding": "utf-8"}, {"dtype": "bool"}, {"units": "days since 2000-01-01"}),
]


def with_attributes(name: str, attributes: dict[str, Any]) -> xr.Dataset:
    items = np.arange(60)
    scores = pooled().assign_coords(item=items, when=("item", items + np.datetime64("2020-01-01", "ns")))
    scores["weight"] = ("item", 1.0 + items)
    scores[name].attrs |= attributes
    return scores


@pytest.mark.sparse
@pytest.mark.slow
@pytest.mark.parametrize("attributes", CHANGING, ids=str)
@pytest.mark.parametrize("name", ["score", "label", "weight", "model", "item", "when"])
def test_attributes_that_other_readers_interpret_change_no_number(place, name, attributes):
    scores = with_attributes(name, attributes)
    ap.save_scores(scores, place)
    assert scores[name].attrs == attributes
    for opened in (ap.open_scores(place), ap.open_scores(place, chunks=None), xr.open_dataset(place, engine="zarr")):
        assert opened[list(scores.variables)].equals(scores)
        assert ap.evaluate(opened)["estimate"].equals(ap.evaluate(scores)["estimate"])


@pytest.mark.sparse
@pytest.mark.parametrize("attributes", CHANGING, ids=str)
@pytest.mark.parametrize("name", ["score", "label", "weight"])
def test_stores_with_attributes_by_which_readers_change_values_are_refused(place, name, attributes):
    ap.save_scores(with_attributes("score", {}), place)
    root = json.loads((place / "zarr.json").read_text())
    root["consolidated_metadata"]["metadata"][name]["attributes"] |= attributes
    (place / "zarr.json").write_text(json.dumps(root))
    with pytest.raises(StoreError, match=rf"array '{name}'[\s\S]*{next(iter(attributes))}[\s\S]*change the values"):
        ap.open_scores(place)


@pytest.mark.sparse
@pytest.mark.filterwarnings("ignore:.*(FixedLengthUTF32|Consolidated metadata)")
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("consolidated", [False, True])
def test_stores_of_others_are_opened_as_they_are(tmp_path: Path, version: int, consolidated: bool) -> None:
    place, scores = tmp_path / "theirs.zarr", pooled().assign_coords(family=("model", list("xyyxz")))
    scores.to_zarr(place, zarr_format=version, consolidated=consolidated)
    before = {file: file.read_bytes() for file in place.rglob("*") if file.is_file()}
    for chunks in ("auto", None, {"model": 5}):
        opened = ap.open_scores(place, chunks=chunks)
        assert ap.evaluate(opened).compute().equals(ap.evaluate(scores))
    tree = xr.DataTree.from_dict({"one": scores, "two/three": scores})
    tree.to_zarr(tmp_path / "tree.zarr", zarr_format=version, consolidated=consolidated)
    assert ap.open_scores(tmp_path / "tree.zarr")["two/three"]["score"].equals(scores["score"])
    with pytest.raises(StoreError, match="something at this place") as caught:
        ap.save_scores(pooled(), place)
    assert "overwrite" not in str(caught.value)
    assert before == {file: file.read_bytes() for file in place.rglob("*") if file.is_file()}


@pytest.mark.sparse
@pytest.mark.filterwarnings("ignore:.*(FixedLengthUTF32|Consolidated metadata)")
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("kind", ["renamed", "raw", "raw and renamed"])
def test_stores_of_others_are_named_with_the_command_that_imports_them(tmp_path: Path, version: int, kind: str) -> None:
    place, scores = tmp_path / "theirs.zarr", pooled().drop_vars(["model", "item"], errors="ignore")
    names = {"score": "y_score", "label": "y_true"} if "renamed" in kind else {}
    if "raw" in kind:
        group = zarr.open_group(place, mode="w", zarr_format=version)
        for name, array in scores.data_vars.items():
            group.create_array(names.get(name, name), data=array.values)
        group.create_array("other", data=np.arange(3))
    else:
        scores.rename(names).to_zarr(place, zarr_format=version)
    with pytest.raises(StoreError, match=r"another program wrote it[\s\S]*import arrays .*theirs\.zarr") as caught:
        ap.open_scores(place)
    assert "overwrite" not in str(caught.value)
    command = str(caught.value).partition("aucpr-dask import")[2].replace("scores.zarr", str(tmp_path / "ours.zarr"))
    ok("import", *command.split())
    xr.testing.assert_equal(ap.evaluate(ap.open_scores(tmp_path / "ours.zarr")).compute(), ap.evaluate(scores))


def test_what_is_no_store_is_named_as_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes.txt").write_text("mine")
    for name in ("a.nc", "a.csv", "a.parquet", "a.npz", "a.what"):
        (tmp_path / name).write_text("")
    expected = {
        "folder": "this is no store",
        "a.nc": "import arrays",
        "a.csv": "import table",
        "a.parquet": "import table",
    }
    for name, words in (expected | {"a.npz": "import arrays", "a.what": "import --help"}).items():
        with pytest.raises(StoreError, match=words) as caught:
            ap.open_scores(tmp_path / name)
        assert "overwrite" not in str(caught.value)
    with pytest.raises(StoreError, match="did not write") as caught:
        ap.save_scores(pooled(), tmp_path / "folder")
    assert "overwrite" not in str(caught.value)


def test_dims_name_only_axes_without_names(tmp_path: Path) -> None:
    pooled().drop_vars(["model", "item"], errors="ignore").to_zarr(tmp_path / "named.zarr", consolidated=False)
    with pytest.raises(InvalidInputError, match="have names"):
        import_xarray(tmp_path / "named.zarr", tmp_path / "s.zarr", dims="model,item")
    group = zarr.open_group(tmp_path / "raw.zarr", mode="w")
    group.create_array("score", data=np.zeros((2, 9)))
    group.create_array("label", data=np.zeros(9, np.int8))
    with pytest.raises(AlignmentError, match="does not fit the scores"):
        import_xarray(tmp_path / "raw.zarr", tmp_path / "s.zarr", dims=("item", "model"))
    with pytest.raises(InvalidInputError, match="not names for the axes"):
        import_xarray(tmp_path / "raw.zarr", tmp_path / "s.zarr", dims="model")


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one,
        lambda one: one.isel(item=slice(3, 15)).assign_attrs(note="shorter"),
        lambda one: one.assign(weight=("item", np.linspace(1, 2, one.sizes["item"]))),
        lambda one: one.assign_coords(item=[f"document {k}" for k in range(one.sizes["item"])]),
        lambda one: one.assign_coords(
            model=[f"\u00e9{k if one.sizes['item'] % 2 else ''}{'x' * k}" for k in range(5)], kind=("model", range(5))
        ),
        lambda one: one.assign_coords(item=np.arange(one.sizes["item"]).astype("datetime64[D]")),
    ],
)
def test_data_sets_that_are_alike_are_stored_as_each_alone(tmp_path: Path, change: Any) -> None:
    nodes = {f"d{k}": change(pooled().isel(item=slice(None, 20 - k % 3))) for k in range(4)}
    for name, node in nodes.items():
        nodes[name] = node.assign(score=node["score"] + np.float32(int(name[1:])))
        ap.save_scores(xr.DataTree.from_dict({name: nodes[name]}), tmp_path / name)
    ap.save_scores(xr.DataTree.from_dict(nodes), tmp_path / "all")
    for name in nodes:
        alone = {
            file.relative_to(tmp_path / name): file for file in (tmp_path / name / name).rglob("*") if file.is_file()
        }
        assert alone
        together = [file for file in (tmp_path / "all" / name).rglob("*") if file.is_file()]
        assert {file.relative_to(tmp_path / "all") for file in together} == alone.keys()
        assert all((tmp_path / "all" / place).read_bytes() == file.read_bytes() for place, file in alone.items())


def test_a_tree_opens_as_xarray_opens_it(tmp_path: Path) -> None:
    one = pooled()
    other = one.assign_coords(model=[f"other {name}" for name in one["model"].values])
    nodes = {f"d{k}": node.isel(item=slice(None, 20 - k % 3)) for k, node in enumerate([one, other] * 3)}
    nodes |= {
        "a/b": queried(),
        "a/c": one.assign_attrs(source_files="a.run"),
        "a/d": other,
        "d2/inner": nodes["d2"],
        "z/z": nodes["d2"],
    }
    ap.save_scores(xr.DataTree.from_dict(nodes), tmp_path / "scores.zarr")
    ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr", dataset=["d0", "d1", "d3"])
    for kind in ("scores", "result"):
        backend, metadata = stores.open_checked(tmp_path / f"{kind}.zarr", f"aucpr_dask.{kind}")
        expected: Any = xr.open_datatree(backend, engine="zarr", chunks=None, consolidated=True)  # type: ignore[arg-type]
        opened = trees.StoredNodes(backend, metadata).opened()
        assert list(opened) == [path for path, _ in nodes_of(expected)]
        for (_, mine), (_, theirs) in zip(opened.items(), nodes_of(expected), strict=True):
            assert mine.identical(theirs)
            assert list(mine.variables) == list(theirs.variables)
            assert list(mine.indexes) == list(theirs.indexes)
            for name, variable in mine.variables.items():
                assert variable.dtype == theirs[name].dtype
                assert repr(variable.encoding) == repr(theirs.variables[name].encoding)


def test_data_sets_that_are_one_object_are_stored_like_copies_of_it(tmp_path: Path) -> None:
    one = xr.Dataset({"score": (("model", "item"), np.ones((2, 3)))}, {"model": ["a", "b"]}, {"source": "here"})
    lazy = one.assign(score=one["score"].chunk())
    for node in (one, lazy):
        paths = ("a", "b", "c/d", "c/e")
        same, root = laid_out(Nodes(dict.fromkeys(paths, node)), "scores", str(tmp_path))
        copies, other = laid_out(Nodes({path: node.copy() for path in paths}), "scores", str(tmp_path))
        assert root.to_bytes() == other.to_bytes()
        assert {k: v.to_bytes() for k, v in same.items()} == {k: v.to_bytes() for k, v in copies.items()}


def test_stores_are_laid_out_as_xarray_and_zarr_write_them():
    text = ("item", np.array(["é", "bb", "", "d" * 9] * 10), {"units": "none"})
    dates = np.array(["2020-01-01", "NaT", "2021-05-05T12"], "M8[ns]")
    small = {"x": ("model", [0.5, np.nan, 3.0]), "is": ("model", [True, False, True]), "when": ("model", dates)}
    node = pooled(3, 40).assign_coords(
        small | {"level": 0.95, "name": "a", "text": text, "old": text[1].astype(object)[0]}
    )
    node["label"].encoding = {"chunks": (16,), "compressors": ({"name": "crc32c"},)}  # the last one is cut off
    node = node.chunk(model=2).assign(label=node["label"], empty=("none", np.empty(0)))
    node = node.assign(long=("place", np.zeros(300_000)))  # of which Zarr would make several chunks
    documents, _ = laid_out(node, "kind", "here")
    expected: dict[str, Any] = {}
    encoding: Any = {name: {"compressors": (ZstdCodec(), Crc32cCodec())} for name in node.variables}
    encoding["label"] |= {"compressors": (Crc32cCodec(), Crc32cCodec()), "chunks": (16,)}
    encoding["long"] |= {"chunks": (300_000,)}
    with warnings.catch_warnings(), zarr.config.set({"array.write_empty_chunks": True}):
        warnings.simplefilter("ignore")  # of text
        node.to_zarr(MemoryStore(expected), compute=False, consolidated=False, zarr_format=3, encoding=encoding)
    assert documents.keys() == expected.keys() - {"zarr.json"}
    for key in documents:
        ours, theirs = documents[key].to_bytes(), expected[key].to_bytes()
        if key == "score/zarr.json":  # numbers whose chunks follow have no coordinates named in their attributes
            ours, theirs = ({**json.loads(one), "attributes": {}} for one in (ours, theirs))
        assert ours == theirs, key


@pytest.mark.parametrize("name", ["score", "model", "n_missing"])
def test_what_lies_in_one_chunk_is_read_as_zarr_reads_it(tmp_path: Path, name: str):
    ap.save_scores(queried(5, 4, 30), tmp_path / "s.zarr", models_per_chunk=2)
    store, metadata = stores.open_checked(tmp_path / "s.zarr")
    array = stores.described_array(store, name, plain_entry(metadata[name]))
    length, found = array.chunks[0], {}
    for start, stop in itertools.combinations(range(6), 2):
        found[start, stop] = sync(trees.within_chunk(array, {"model": slice(start, stop)}))
        if start // length == (stop - 1) // length:
            np.testing.assert_array_equal(found[start, stop], array[start:stop])
            assert found[start, stop].dtype == array.dtype
        else:
            assert found[start, stop] is None
    assert len(found) > sum(one is None for one in found.values())
