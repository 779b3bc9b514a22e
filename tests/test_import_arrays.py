"""Arrays: what is stored against the arrays themselves, and every way a file can be wrong."""

from __future__ import annotations

import csv
import errno
import gzip
import math
import os
from collections import defaultdict

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner
from conftest import ok

from aucpr_dask.cli import main
from aucpr_dask.errors import AlignmentError, AucprError, FileFormatError, InvalidInputError, StoreError
from aucpr_dask.evaluation.arrays import save_scores
from aucpr_dask.scores.importing.arrays import as_labels, as_scores, import_arrays, import_xarray
from aucpr_dask.scores.store import open_scores
from aucpr_dask.storage import stores

NAN = math.nan


def load(paths, folder, **options):
    """Import arrays; return what was stored and the summary."""
    summary = import_arrays(paths, folder / "s.zarr", overwrite=True, **options)
    return open_scores(folder / "s.zarr").load(), summary


def load_xarray(path, folder, **options):
    summary = import_xarray(path, folder / "s.zarr", overwrite=True, **options)
    return open_scores(folder / "s.zarr").load(), summary


@pytest.fixture
def random():
    return np.random.default_rng(0)


class TestLayouts:
    def test_models_and_items(self, tmp_path, random):
        scores = random.random((2, 5))
        np.savez_compressed(tmp_path / "a.npz", scores=scores, y=[1, 0, 0, -1, 1], models=["x", "y"], g=np.arange(5))
        stored, summary = load(tmp_path / "a.npz", tmp_path, clusters="g", fold="g")
        np.testing.assert_array_equal(stored["score"], scores)
        assert stored["label"].values.tolist() == [1, 0, 0, -1, 1]
        assert stored["model"].values.tolist() == ["x", "y"]
        assert stored["cluster"].values.tolist() == stored["fold"].values.tolist() == list(range(5))
        assert (summary.models, summary.queries, summary.items, summary.datasets) == (2, 0, 5, 1)

    @pytest.mark.sparse
    @pytest.mark.parametrize("chunk_bytes", [1, 100, 2**24])
    @pytest.mark.parametrize(
        "dims",
        [
            "item",
            "query,item",
            "item,model",
            "model,repeat,item",
            "repeat,item,model",
            "item,query,model",
            "a,query,b,item",
        ],
    )
    def test_axes_in_any_order(self, tmp_path, random, monkeypatch, dims, chunk_bytes):
        monkeypatch.setattr(stores, "CHUNK_BYTES", chunk_bytes)
        sizes = {"item": 6, "query": 3, "model": 2, "repeat": 4, "a": 2, "b": 5}
        names = dims.split(",")
        scores = random.random([sizes[name] for name in names])
        label = random.integers(-1, 2, [sizes[name] for name in names if name in ("query", "item")])
        np.savez(tmp_path / "a.npz", scores=scores, y=label)
        stored, summary = load(tmp_path / "a.npz", tmp_path, dims=dims)
        kept = ("query", "item") if "query" in names else ("repeat", "item")
        ranked = [name for name in kept if name in names]
        array = xr.DataArray(scores, dims=names)
        labels = xr.DataArray(label, dims=[name for name in names if name in ("query", "item")])
        labels = labels.transpose(*(name for name in ranked if name != "repeat"))
        np.testing.assert_array_equal(stored["label"], labels)
        assert summary.models == stored.sizes["model"]
        for model in stored["model"].values:
            place = dict(part.split("=") for part in model.split(" ") if "=" in part)
            if "model" in names:
                place["model"] = model.split(" ")[0]
            one = array.isel({dim: int(index) for dim, index in place.items()}).transpose(*ranked)
            np.testing.assert_array_equal(stored["score"].sel(model=model), one)

    def test_names_of_stacked_models(self, tmp_path):
        np.savez(tmp_path / "a.npz", scores=np.zeros((2, 2, 3)), y=[0, 1, 0], names=[b"rf", b"lr"])
        stored, _ = load(tmp_path / "a.npz", tmp_path, dims=("size", "model", "item"), models="names")
        assert stored["model"].values.tolist() == ["rf size=0", "rf size=1", "lr size=0", "lr size=1"]
        stored, _ = load(tmp_path / "a.npz", tmp_path, dims=("size", "model", "item"), models=["u", "v"])
        assert stored["model"].values.tolist()[0] == "u size=0"

    def test_repeats_stay_a_dimension_with_the_folds_of_each(self, tmp_path, random):
        scores, fold = random.random((2, 3, 6)), random.integers(0, 2, (3, 6))
        np.savez(tmp_path / "a.npz", scores=scores, y=[0, 1, 0, 1, 1, 0], fold=fold)
        stored, summary = load(tmp_path / "a.npz", tmp_path, dims="model,repeat,item", fold="fold")
        assert (summary.models, stored["score"].dims) == (2, ("model", "repeat", "item"))
        np.testing.assert_array_equal(stored["score"], scores)
        assert stored["fold"].dims == ("repeat", "item")
        np.testing.assert_array_equal(stored["fold"], fold)

    @pytest.mark.sparse
    @pytest.mark.parametrize("dims", ["model,repeat,query,item", "item,repeat,model,query"])
    @pytest.mark.parametrize("chunk_bytes", [40, 2**24])
    def test_labels_of_each_model(self, tmp_path, random, monkeypatch, dims, chunk_bytes):
        monkeypatch.setattr(stores, "CHUNK_BYTES", chunk_bytes)
        shape = [{"item": 4, "query": 3, "model": 2, "repeat": 2}[name] for name in dims.split(",")]
        scores, labels = random.random(shape), random.integers(-2, 3, shape)
        np.savez(tmp_path / "a.npz", scores=scores, y=labels)
        stored, summary = load(tmp_path / "a.npz", tmp_path, dims=dims)
        arrays = {"score": scores, "label": labels}
        for name, array in arrays.items():
            whole = xr.DataArray(array, dims=dims.split(",")).transpose("model", "repeat", "query", "item").values
            np.testing.assert_array_equal(stored[name], whole.reshape(4, 3, 4))
        assert summary.items == (labels != -2).sum()

    def test_several_files_are_a_tree(self, tmp_path):
        for name, size in (("one", 3), ("two", 4)):
            np.savez(tmp_path / f"{name}.npz", scores=np.full((1, size), size), y=np.ones(size))
        seen = []
        stored, summary = load(tmp_path / "*.npz", tmp_path, on_progress=lambda *event: seen.append(event))
        assert stored["one/score"].values.tolist() == [[3, 3, 3]]
        assert stored["two/score"].values.tolist() == [[4, 4, 4, 4]]
        assert (summary.items, summary.datasets) == (7, 2)
        assert seen == [(what, done, 2) for what in ("reading labels", "writing blocks") for done in (1, 2)]

    def test_npy(self, tmp_path, random):
        scores = random.random((6, 2)).astype("f4")
        np.save(tmp_path / "run.npy", scores)
        np.save(tmp_path / "y.npy", np.array([True, False] * 3))
        np.save(tmp_path / "groups.npy", np.array(list("aabbcc")))
        stored, _ = load(
            tmp_path / "run.npy",
            tmp_path,
            label=tmp_path / "y.npy",
            dims="item,model",
            models=["p", "q"],
            clusters=tmp_path / "groups.npy",
        )
        np.testing.assert_array_equal(stored["score"], scores.T)
        assert stored["label"].values.tolist() == [1, 0] * 3
        assert stored["cluster"].values.tolist() == list("aabbcc")
        assert stored["model"].values.tolist() == ["p", "q"]

    def test_negate(self, tmp_path):
        np.savez(tmp_path / "a.npz", scores=np.array([[0, 200, 3]], np.uint8), y=[0, 1, 0])
        stored, _ = load(tmp_path / "a.npz", tmp_path, negate=True)
        assert stored["score"].values.tolist() == [[0, -200, -3]]
        assert not np.signbit(stored["score"].values[0, 0])


class TestTypes:
    @pytest.mark.parametrize(
        ("kind", "expected"),
        [
            *((kind, "f4") for kind in ("?", "u1", "i2", "u2", "f2", ">f4")),
            *((kind, "f8") for kind in ("<f8", "i4", "u4", "i8", "u8")),
        ],
    )
    def test_stored_as(self, tmp_path, kind, expected):
        largest = 1 if kind == "?" else 1000 if "f" in kind else min(np.iinfo(kind).max, 2**53)
        values = np.array([[0, 1, largest]]).astype(kind)
        np.savez(tmp_path / "a.npz", scores=values, y=[0, 1, 0])
        stored, _ = load(tmp_path / "a.npz", tmp_path)
        assert stored["score"].dtype == expected
        assert stored["score"].values.astype(object).tolist() == [[0, 1, largest]]

    @pytest.mark.parametrize("bad", [2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63) + 1])
    def test_integers_that_would_be_rounded(self, tmp_path, bad):
        assert as_scores(np.array([2**60, -(2**63), 2**53])).tolist() == [2.0**60, -(2.0**63), 2.0**53]
        np.savez(tmp_path / "a.npz", scores=np.array([[0, bad, 2**60]]), y=[0, 1, 0])
        with pytest.raises(FileFormatError, match=rf"(?s)without rounding.*'scores'.*{bad}"):
            load(tmp_path / "a.npz", tmp_path)
        assert not (tmp_path / "s.zarr").exists()

    @pytest.mark.parametrize("labels", [[0.5], [NAN], [-3], [128], [300], [np.inf], ["1"], [1j]])
    def test_labels_outside_their_domain(self, labels):
        with pytest.raises(InvalidInputError, match=r"(?s)labels (outside their domain|are not numbers).*here"):
            as_labels(np.array([*labels]), "here")


class TestWrong:
    @pytest.mark.parametrize(
        ("arrays", "options", "error", "message"),
        [
            ({"y": [0, 1]}, {}, FileFormatError, r"no such array.*\n.*a\.npz\n  received: 'scores'\n  allowed: y"),
            ({"scores": [[1, 2]]}, {}, FileFormatError, r"(?s)no such array.*'y'"),
            ({"scores": [[1, 2]], "y": [0, 1, 1]}, {}, AlignmentError, r"(?s)labels do not fit.*\(3,\).*\(1, 2\)"),
            ({"scores": [["a", "b"]], "y": [0, 1]}, {}, FileFormatError, r"(?s)unsupported type.*dtype <U1"),
            ({"scores": [[1j, 2]], "y": [0, 1]}, {}, FileFormatError, r"(?s)unsupported type.*complex"),
            ({"scores": [[1, 2]], "y": [0, 7.5]}, {}, InvalidInputError, r"(?s)outside their domain.*'y'.*7\.5"),
            ({"scores": [[1, 2]], "y": [0, 1], "models": ["a", "b"]}, {}, AlignmentError, r"(?s)2 names.*1 names"),
            ({"scores": [[1, 2]] * 2, "y": [0, 1], "models": ["a", "a"]}, {}, AlignmentError, "must be unique"),
            ({"scores": [[1, 2]], "y": [0, 1]}, {"models": "m"}, FileFormatError, "no such array"),
            ({"scores": [[1, 2]], "y": [0, 1]}, {"dims": "model"}, InvalidInputError, "not names for the axes"),
            ({"scores": [[1, 2]], "y": [0, 1]}, {"dims": "model,repeat"}, InvalidInputError, "not names for the axes"),
            ({"scores": [[1, 2]], "y": [0, 1]}, {"dims": "item,item"}, InvalidInputError, "not names for the axes"),
            ({"scores": np.zeros((1, 1, 1, 2)), "y": [0, 1]}, {}, InvalidInputError, "not names for the axes"),
            ({"scores": [[1, 2]], "y": [0, 1], "f": [[1]]}, {"fold": "f"}, AlignmentError, r"(?s)'fold' does.*\(2,\)"),
            ({"scores": np.array([[1, None]]), "y": [0, 1]}, {}, FileFormatError, r"(?s)never unpickled.*'scores'"),
            ({"scores": [[1, 2]], "y": np.array([0, None])}, {}, FileFormatError, r"(?s)never unpickled.*'y'"),
        ],
    )  # fmt: skip
    def test_npz(self, tmp_path, arrays, options, error, message):
        np.savez(tmp_path / "a.npz", **arrays)
        with pytest.raises(error, match=message):
            load(tmp_path / "a.npz", tmp_path, **options)
        assert not (tmp_path / "s.zarr").exists()

    def test_corrupt(self, tmp_path, random):
        np.savez_compressed(tmp_path / "a.npz", scores=random.random((9, 999)), y=np.ones(999))
        content = bytearray((tmp_path / "a.npz").read_bytes())
        content[5000:5050] = bytes(50)
        (tmp_path / "a.npz").write_bytes(content)
        with pytest.raises(FileFormatError, match=r"corrupt or truncated\n  where: .*a\.npz"):
            load(tmp_path / "a.npz", tmp_path)
        with pytest.raises(StoreError):
            open_scores(tmp_path / "s.zarr")

    def test_npy(self, tmp_path):
        np.save(tmp_path / "a.npy", np.zeros((2, 9)))
        with pytest.raises(InvalidInputError, match=r"(?s)cannot be read\n  where: y\n.*label=PATH"):
            load(tmp_path / "a.npy", tmp_path)
        np.save(tmp_path / "y.npy", np.array([0, None]))
        with pytest.raises(FileFormatError, match=r"never unpickled\n  where: .*y\.npy"):
            load(tmp_path / "a.npy", tmp_path, label=tmp_path / "y.npy")
        (tmp_path / "a.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-9])
        with pytest.raises(FileFormatError, match=r"corrupt or truncated\n  where: .*a\.npy"):
            load(tmp_path / "a.npy", tmp_path, label=tmp_path / "y.npy")

    def test_other_files(self, tmp_path):
        (tmp_path / "a.npz").write_bytes(gzip.compress(b"scores"))
        with pytest.raises(FileFormatError, match="not a file of NumPy arrays"):
            load(tmp_path / "a.npz", tmp_path)

    def test_two_files_of_one_name(self, tmp_path):
        for folder in ("p", "q"):
            (tmp_path / folder).mkdir()
            np.savez(tmp_path / folder / "a.npz", scores=[[1, 2]], y=[0, 1])
        with pytest.raises(AlignmentError, match=r"(?s)data set 'a'.*p/a\.npz and .*q/a\.npz"):
            load(tmp_path / "[pq]" / "*.npz", tmp_path)


@pytest.mark.slow
class TestAdbench:
    @pytest.fixture
    def folder(self, real_data):
        return real_data / "adbench"

    def test_out_of_fold_scores(self, folder, tmp_path):
        files = sorted((folder / "oof_scores").glob("*.npz"))
        stored, summary = load(folder / "oof_scores", tmp_path, dims=("model", "repeat", "item"))
        assert (summary.models, summary.datasets) == (25, 12)
        for file in files:
            arrays = np.load(file)
            node = stored[file.stem].to_dataset()
            np.testing.assert_array_equal(node["label"], arrays["y"])
            for model, name in enumerate(arrays["models"]):
                for repeat in range(3):
                    one = node["score"].sel(model=name).isel(repeat=repeat)
                    np.testing.assert_array_equal(one, arrays["scores"][model, repeat])

    def test_features(self, folder, tmp_path):
        stored, summary = load(folder / "features", tmp_path, score="X", dims="item,model")
        assert (summary.datasets, sum(node.sizes["model"] for node in stored.leaves)) == (27, 2207)
        for file in (folder / "features").glob("*.npz"):
            arrays = np.load(file)
            node = stored[file.stem]
            np.testing.assert_array_equal(node["score"], arrays["X"].T)
            np.testing.assert_array_equal(node["label"], arrays["y"])
        distinct = defaultdict(dict)
        with gzip.open(folder / "expected_feature_ap.csv.gz", "rt") as lines:
            for row in csv.DictReader(lines):
                distinct[row["dataset"]][row["feature"]] = row
        assert set(distinct) == set(stored.children)
        assert all(set(rows) == set(stored[name]["model"].values.tolist()) for name, rows in distinct.items())


@pytest.fixture
def dataset(random):
    return xr.Dataset(
        {
            "score": (("model", "query", "item"), random.random((2, 3, 4))),
            "label": (("query", "item"), random.integers(-2, 2, (3, 4)).astype("i1")),
        },
        coords={"model": ["a", "b"], "query": ["x", "y", "z"]},
    )


class TestXarray:
    def test_renamed_transposed_and_typed(self, tmp_path, dataset):
        odd = dataset.transpose("item", "query", "model").rename(score="probability", label="y", query="topic")
        odd["y"] = odd["y"].astype("f8")
        odd["probability"] = (odd["probability"] * 1000).astype("i2")
        odd["other"] = ("item", np.arange(4.0))
        odd.to_netcdf(tmp_path / "a.nc", engine="scipy")
        rename = {"probability": "score", "y": "label", "topic": "query"}
        stored, summary = load_xarray(tmp_path / "a.nc", tmp_path, rename=rename)
        assert stored["score"].dtype == "f4"
        np.testing.assert_array_equal(stored["score"], (dataset["score"] * 1000).astype("i2"))
        np.testing.assert_array_equal(stored["label"], dataset["label"])
        assert stored["query"].values.tolist() == ["x", "y", "z"]
        assert stored["model"].values.tolist() == ["a", "b"]
        assert (summary.models, summary.queries, summary.items) == (2, 3, int((dataset["label"] != -2).sum()))
        assert summary.notes == ("variables left out: other",)

    def test_own_store_in_small_chunks(self, tmp_path, dataset):
        save_scores(dataset, tmp_path / "own.zarr")
        stored, _ = load_xarray(tmp_path / "own.zarr", tmp_path)
        expected = open_scores(tmp_path / "own.zarr").load()
        assert stored.equals(expected)

    def test_zarr_in_pieces_of_items(self, tmp_path, dataset):
        numbered = dataset.drop_vars(("model", "query")).assign_coords(model=[0, 1])
        numbered.chunk({"item": 3, "model": 1}).to_zarr(tmp_path / "a.zarr", consolidated=False)
        stored, _ = load_xarray(tmp_path / "a.zarr", tmp_path)
        np.testing.assert_array_equal(stored["score"], dataset["score"])

    def test_groups(self, tmp_path, dataset):
        other = dataset.isel(item=slice(2)).drop_vars("label").assign(label=("item", [1, 0])).isel(query=0, drop=True)
        nothing = xr.Dataset({"note": ("x", [1.0])})
        tree = xr.DataTree.from_dict({"u": dataset, "v/w": other, "readme": nothing})
        tree.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
        stored, summary = load_xarray(tmp_path / "a.nc", tmp_path)
        np.testing.assert_array_equal(stored["u/score"], dataset["score"])
        np.testing.assert_array_equal(stored["v/w/score"], other["score"])
        assert summary.datasets == 2
        assert summary.notes == ("variables left out: note", "groups without scores, left out: readme")

    @pytest.mark.parametrize(
        ("change", "options", "error", "message"),
        [
            ({"score": "s"}, {}, InvalidInputError, r"(?s)no variable is called 'score'.*label, s"),
            ({}, {"rename": {"labels": "label"}}, InvalidInputError, r"(?s)of this name.*'labels'.*label"),
            ({"item": "document"}, {}, InvalidInputError, "unsupported dimensions"),
            ({"label": "l"}, {}, InvalidInputError, "needs 'label'"),
        ],
    )
    def test_wrong(self, tmp_path, dataset, change, options, error, message):
        dataset.rename(change).to_netcdf(tmp_path / "a.nc", engine="scipy")
        with pytest.raises(error, match=message):
            load_xarray(tmp_path / "a.nc", tmp_path, **options)

    def test_missing_label(self, tmp_path, dataset):
        dataset["label"] = dataset["label"].astype("f4").where(dataset["label"] >= 0)
        dataset.to_netcdf(tmp_path / "a.nc", engine="scipy")
        with pytest.raises(AucprError, match=r"(?s)outside their domain.*nan"):
            load_xarray(tmp_path / "a.nc", tmp_path)

    @pytest.mark.parametrize("name", ["absent.nc", "absent.zarr", "text.nc", "text.unknown"])
    def test_not_to_be_opened(self, tmp_path, name):
        (tmp_path / "text.nc").write_text("score")
        (tmp_path / "text.unknown").write_text("score")
        with pytest.raises(FileFormatError, match=rf"(?s)cannot open this.*{name}"):
            load_xarray(tmp_path / name, tmp_path)


def test_a_folder_that_cannot_be_read_as_a_whole_is_refused(tmp_path, monkeypatch):
    np.savez(tmp_path / "a.npz", score=[[0.1, 0.9]], label=[0, 1])
    (tmp_path / "closed").mkdir()

    def scandir(path, scandir=os.scandir):
        if str(path).endswith("closed"):  # root may read it
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(InvalidInputError, match=r"cannot be read as a whole\n  where: .*closed"):
        import_arrays(tmp_path, tmp_path / "scores.zarr")


def test_a_refusal_of_what_is_in_a_netcdf_file_names_the_file(tmp_path):
    scores = xr.Dataset({"score": (("model", "item"), [[0.5, 0.1]]), "label": ("item", np.array([1, -55], "i1"))})
    scores.to_netcdf(tmp_path / "a.nc", engine="scipy")
    with pytest.raises(InvalidInputError, match=r"(?s)labels outside their domain.*file: .*a\.nc"):
        import_xarray(tmp_path / "a.nc", tmp_path / "s.zarr")


def test_options_of_other_files_are_refused_by_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("a.npz", scores=[[0.1, 0.9]], y=[0, 1])
    xr.Dataset({"s": (("model", "item"), [[0.1, 0.9]]), "truth": ("item", [0, 1])}).to_netcdf("a.nc", engine="scipy")
    for words, message in {
        "a.npz s.zarr --rename truth=label": "--rename is an option of what xarray opens",
        "a.nc s.zarr --negate": "--negate is an option of NumPy files",
        "a.nc a.nc s.zarr": "One file at a time",
    }.items():
        done = CliRunner().invoke(main, ["import", "arrays", *words.split()])
        assert (done.exit_code, message in done.stderr) == (2, True), done.output
    for words in ("a.npz s.zarr", "a.nc s.zarr --score s --label truth"):
        ok("import", "arrays", *words.split(), "--overwrite")
        assert open_scores("s.zarr")["score"].values.tolist() == [[0.1, 0.9]]
