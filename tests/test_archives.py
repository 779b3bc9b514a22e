"""Stores of other programs, evaluated where they lie, by the names that they have."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from conftest import call, ok

import aucpr_dask as ap

NAMES = ["--score", "probability", "--label", "event", "--dim", "time,lat"]


def forecasts() -> xr.Dataset:
    random = np.random.default_rng(0)
    event = xr.DataArray(random.random((50, 4)) < 0.3, {"time": range(50), "lat": [40, 45, 50, 55]})
    noise = xr.DataArray(random.normal(size=(3, 2, 50, 4)), dims=("model", "lead", "time", "lat"))
    probability = noise + event * xr.DataArray([0.5, 1.0, 2.0], {"model": ["a", "b", "c"]})
    data = {"probability": probability.transpose("model", "lead", "time", "lat"), "event": event}
    return xr.Dataset(data).assign_coords(lead=[6, 24])


@pytest.fixture(params=[pytest.param(2, marks=pytest.mark.slow), 3])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A store as xarray writes it, in either version of the format, and in chunks."""
    stored = forecasts().chunk(model=2, time=20).drop_encoding()
    stored["model"] = stored["model"].astype(object)
    stored.to_zarr(tmp_path / "archive.zarr", zarr_format=request.param, consolidated=request.param == 2)
    return tmp_path / "archive.zarr"


def digest(folder: Path) -> str:
    found = hashlib.sha256()
    for file in sorted(one for one in folder.rglob("*") if one.is_file()):
        found.update(str(file.relative_to(folder)).encode() + file.read_bytes())
    return found.hexdigest()


@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
def test_an_archive_is_evaluated_in_place(archive: Path, tmp_path: Path) -> None:
    before, data = digest(archive), forecasts()
    output = ok("evaluate", archive, tmp_path / "result.zarr", *NAMES).stdout
    assert "scores: probability; labels: event; items: along time, lat" in output
    assert digest(archive) == before
    result = ap.open_result(tmp_path / "result.zarr")
    expected = ap.evaluate(data["probability"], data["event"], dim=("time", "lat"))
    for name in ("estimate", "interval", "n_positive"):
        np.testing.assert_array_equal(result[name], expected[name])
    assert result["estimate"].dims == ("model", "lead")
    assert "undamaged" in ok("verify", tmp_path / "result.zarr").stdout
    assert "24" in ok("show", tmp_path / "result.zarr").stdout


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
def test_questions_are_asked_of_an_archive(archive: Path, tmp_path: Path) -> None:
    data = forecasts().rename(probability="score", event="label")
    said = json.loads(ok("compare", archive, *NAMES, "--baseline", "a", "--json").stdout)
    expected = ap.compare(data, "a", dim=("time", "lat"))
    (first, *_), cell = said["comparisons"], expected.sel(lead=6, model="c")
    pair = next(one for one in first["pairs"] if one["model"] == "c")
    assert [pair["difference"], pair["p_value"]] == [cell["difference"].item(), cell["p_value"].item()]
    for question, *words in (
        ["rank"],
        ["contrast", "--by", "lat"],
        ["compare", "--by", "lat"],
        ["report", tmp_path / "page.html"],
    ):
        assert "scores: probability" in ok(question, archive, *words, *NAMES).stdout


@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no variable is called 'score'"),
        (["--score", "probability", "--label", "evnt", "--dim", "time,lat"], "'evnt'"),
        (["--score", "probability", "--label", "event"], "name those of the items: --dim time,lat,lon"),
        ([*NAMES[:-1], "time,lon"], "no dimension 'lon'"),
        ([*NAMES, "--models", "a"], "for tables"),
    ],
)
def test_what_an_archive_lacks_is_named(archive: Path, words: list[str], said: str, tmp_path: Path) -> None:
    result = call("evaluate", archive, tmp_path / "result.zarr", *words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not (tmp_path / "result.zarr").exists()


def test_dimensions_are_no_columns(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("label,a\n1,0.5\n0,0.1\n")
    assert "a table has columns, and no dimensions" in call("evaluate", tmp_path / "t.csv", "--dim", "time").stderr


LIKE = {"score": "probability", "label": "event", "dim": ["time", "lat"]}


def masked(data: xr.Dataset) -> xr.Dataset:
    """Without scores and label in a place, as on land."""
    is_sea = (data["time"] != 3) | (data["lat"] != 45)
    return data.assign(probability=data["probability"].where(is_sea), event=data["event"].where(is_sea))


def with_dates(data: xr.Dataset) -> xr.Dataset:
    return data.assign_coords(time=np.datetime64("2024-01-01", "ns") + data["time"].values * np.timedelta64(9, "D"))


def by_name(data: xr.Dataset) -> xr.Dataset:
    return data.assign(event=xr.where(data["event"], "rain", "dry").astype("U4"))


@pytest.mark.sparse
@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
@pytest.mark.parametrize("dims", [("model", "lead", "time", "lat"), ("lat", "time", "lead", "model")])
@pytest.mark.parametrize(
    ("change", "options"),
    [
        (forecasts, {}),
        (lambda: masked(forecasts()), {"missing": "drop"}),
        (lambda: by_name(forecasts()), {"pos_label": "rain"}),
        (lambda: forecasts().assign(probability=forecasts()["probability"].astype("f2")), {"by": "lat"}),
        (lambda: forecasts().isel(model=0, drop=True), {"interval": "bootstrap", "n_resamples": 20}),
        (lambda: forecasts().isel(model=0, lead=0, drop=True), {}),
        (lambda: with_dates(forecasts()), {"by": "time.season"}),
        (lambda: forecasts().rename(lead="query").drop_vars("query"), {"interval": "bootstrap", "n_resamples": 20}),
    ],
    ids=["plain", "masked", "names", "groups", "one model", "one ranking", "seasons", "queries"],
)
def test_the_numbers_of_an_archive_are_those_of_its_arrays(
    dims: tuple[str, ...], change: Callable[[], xr.Dataset], options: dict[str, Any], tmp_path: Path
) -> None:
    data = change()
    there = [*(dim for dim in dims if dim in data["probability"].dims), ...]
    chunks = {dim: n for dim, n in {"lead": 1, "query": 1, "time": 20, "lat": 3}.items() if dim in data.dims}
    stored = data.transpose(*there).chunk(chunks).drop_encoding()
    stored.to_zarr(tmp_path / "archive.zarr", zarr_format=3, consolidated=False)
    like = LIKE | {name: options[name] for name in ("pos_label",) if name in options}
    how: Any = {name: value for name, value in options.items() if name not in like}
    result = ap.run(tmp_path / "archive.zarr", tmp_path / "result.zarr", like=like, **how)
    expected = ap.evaluate(data["probability"], data["event"], dim=("time", "lat"), **options)
    for name in ("estimate", "interval", "n_positive", "n_missing"):
        np.testing.assert_array_equal(result[name], expected[name].transpose(*result[name].dims))


@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
def test_an_archive_that_changes_during_a_run_is_found(archive: Path, tmp_path: Path) -> None:
    chunks = sorted(
        file for file in (archive / "probability").rglob("*") if file.is_file() and file.name[0] not in "z."
    )

    def disturb(_: object) -> None:
        chunks[-1].write_bytes(chunks[-1].read_bytes())

    with pytest.raises(ap.errors.SourceChangedError, match="while this run read them"):
        ap.run(archive, tmp_path / "result.zarr", like=LIKE, on_progress=disturb)
    with pytest.raises(ap.errors.StoreError, match="scores or labels are others"):
        ap.run(archive, tmp_path / "result.zarr", like=LIKE)
    ap.run(archive, tmp_path / "result.zarr", like=LIKE, overwrite=True)


@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
def test_a_run_of_an_archive_resumes_and_grows(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []

    def stop(progress: Any) -> None:
        done.append(progress.tasks_done)
        if len(done) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ap.run(archive, tmp_path / "result.zarr", like=LIKE, on_progress=stop)
    with pytest.raises(ap.errors.StoreError, match="source_layout"):
        ap.run(archive, tmp_path / "result.zarr", like=LIKE | {"dim": ["lat", "time"]})
    result = ap.run(archive, tmp_path / "result.zarr", like=LIKE, on_progress=stop)
    assert done[1] == 2
    expected = ap.evaluate(forecasts()["probability"], forecasts()["event"], dim=("time", "lat"))
    np.testing.assert_array_equal(result["interval"], expected["interval"])


@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
def test_a_result_of_an_archive_grows_by_its_new_models(tmp_path: Path) -> None:
    archive, data = tmp_path / "archive.zarr", forecasts()
    data.isel(model=[0, 1]).chunk(model=1).drop_encoding().to_zarr(archive, consolidated=False)
    ap.run(archive, tmp_path / "result.zarr", like=LIKE)
    data.isel(model=[2]).drop_vars(("event", "lead", "time", "lat")).to_zarr(
        archive, append_dim="model", consolidated=False
    )
    done: list[int] = []
    result = ap.run(
        archive, tmp_path / "result.zarr", like=LIKE, on_progress=lambda one: done.append(one.rankings_total)
    )
    assert done == [2]
    expected = ap.evaluate(data["probability"], data["event"], dim=("time", "lat"))
    np.testing.assert_array_equal(result["interval"], expected["interval"])


def test_a_layout_is_a_file(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "layout.yaml").write_text("score: probability\nlabel: event\ndim: [time, lat]\n")
    like = ["--like", tmp_path / "layout.yaml"]
    assert "items: along time, lat" in ok("evaluate", archive, tmp_path / "result.zarr", *like).stdout
    assert "items: along lat" in ok("plan", archive, *like, "--dim", "lat").stdout
    (tmp_path / "other.yaml").write_text("scores: probability\n")
    failed = call("plan", archive, "--like", tmp_path / "other.yaml")
    assert "did you mean 'score'?" in failed.stderr.lower()


def test_an_archive_is_planned_before_it_is_filled(tmp_path: Path) -> None:
    root = zarr.open_group(tmp_path / "archive.zarr", mode="w")
    how: Any = {"dtype": "float32", "fill_value": np.nan}
    root.create_array("score", shape=(100_000, 10**6), chunks=(10, 10**5), dimension_names=("model", "item"), **how)
    root.create_array("label", shape=(10**6,), chunks=(10**5,), dtype="int8", dimension_names=("item",))
    said = json.loads(ok("plan", tmp_path / "archive.zarr", "--json").stdout)
    assert said["rankings"] == "100,000"
    assert "not there yet" in said["scores"]
    # Ten objects of ten models each, and three of the ledger, for each of 10,000 tasks.
    assert said["requests"].startswith("about 130,000 objects are read and ")
    assert said["price_of_requests"].startswith("about $")


@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
def test_every_chunk_of_an_archive_is_decoded(archive: Path) -> None:
    assert "can be decoded" in ok("verify", archive).stdout
    files = (file for file in (archive / "probability").rglob("*") if file.is_file())
    first, *_, last = sorted(file for file in files if file.name[0] not in "z.")
    last.unlink()
    assert "1 others are absent" in ok("verify", archive).stdout
    first.write_bytes(first.read_bytes()[:20])
    failed = call("verify", archive)
    assert failed.exit_code == 2
    assert str(first) in failed.stdout
    assert "1 of " in failed.stderr


@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
@pytest.mark.parametrize("is_sharded", [False, True])
def test_groups_and_shards_of_an_archive(is_sharded: bool, tmp_path: Path) -> None:
    data, whole = forecasts().rename(probability="score", event="label"), tmp_path / "archive.zarr"
    nodes = {"east": data, "west": data.isel(time=slice(5, None))}
    how: Any = {"score": {"chunks": (1, 1, 5, 4), "shards": (3, 1, 10, 4)}} if is_sharded else {}
    encoding = {f"/{name}": how for name in nodes} if how else None
    xr.DataTree.from_dict(nodes).to_zarr(whole, encoding=encoding, consolidated=False)
    result = ap.run(whole, tmp_path / "result.zarr", like={"dim": "time,lat"}, dataset=["w*"])
    assert list(result.children) == ["west"]
    expected = ap.evaluate(xr.DataTree.from_dict(nodes), dim=("time", "lat"))
    np.testing.assert_array_equal(result["west/interval"], expected["west/interval"])
    result = ap.run(whole, tmp_path / "result.zarr", like={"dim": "time,lat"})  # which adds the other
    np.testing.assert_array_equal(result["east/interval"], expected["east/interval"])
    assert "can be decoded" in ok("verify", whole).stdout


@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
@pytest.mark.parametrize("most", [700, 5000], ids=["part of a ranking", "part of a chunk"])
def test_a_task_reads_no_more_than_memory_holds(most: int, archive: Path, tmp_path: Path) -> None:
    expected = ap.evaluate(forecasts()["probability"], forecasts()["event"], dim=("time", "lat"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aucpr_dask.scores.archives.MOST_AT_ONCE", most)
        result = ap.run(archive, tmp_path / "result.zarr", like=LIKE)
    np.testing.assert_array_equal(result["interval"], expected["interval"])


@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
def test_large_labels_are_read_part_by_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aucpr_dask.scores.archives.MOST_LOADED", 100)
    data = masked(forecasts()).assign(cluster=("time", np.arange(50) // 5 + 0.0))
    data.chunk(model=1, time=20).drop_encoding().to_zarr(tmp_path / "archive.zarr", consolidated=False)
    result = ap.run(tmp_path / "archive.zarr", tmp_path / "result.zarr", like=LIKE, missing="drop")
    renamed = data.rename(probability="score", event="label")
    np.testing.assert_array_equal(
        result["interval"], ap.evaluate(renamed, dim=("time", "lat"), missing="drop")["interval"]
    )


@pytest.mark.filterwarnings("ignore::aucpr_dask.errors.FewPositivesWarning")
@pytest.mark.parametrize("by", [None, "band"])
@pytest.mark.parametrize("roles", [["weight"], ["cluster"], ["weight", "cluster", "label"]])
def test_runs_read_what_has_a_role_though_it_is_a_coordinate(roles: list[str], by: str | None, tmp_path: Path) -> None:
    data = forecasts().rename(probability="score", event="label")
    data["weight"] = 0.2 + np.cos(np.deg2rad(data["lat"])) * (1 + data["label"])
    data["cluster"] = "time", np.arange(50) // 3
    data = data.assign_coords(band=("lat", [0, 0, 1, 1]), model=data["model"].astype(object))
    data = (
        data.drop_vars({"weight", "cluster"} - {*roles}).set_coords(roles).rename({one: f"own_{one}" for one in roles})
    )
    data.chunk(time=20).to_zarr(tmp_path / "archive.zarr", consolidated=False)
    like: dict[str, Any] = {"dim": ("time", "lat"), "label": "own_label" if "label" in roles else "label"}
    like |= {"clusters" if one == "cluster" else one: f"own_{one}" for one in roles if one != "label"}
    asked: dict[str, Any] = {"estimator": ["roc_area", "average_precision"], "by": by}
    found = ap.run(tmp_path / "archive.zarr", tmp_path / "result.zarr", like=like, **asked)
    plain = data.reset_coords(f"own_{one}" for one in roles).rename({f"own_{one}": one for one in roles})
    expected = ap.evaluate(plain, dim=("time", "lat"), **asked)
    for name in ("estimate", "interval", "n_positive"):
        np.testing.assert_array_equal(found[name].transpose(*expected[name].dims), expected[name])
    np.testing.assert_array_equal(
        ap.evaluate(ap.open_scores(tmp_path / "archive.zarr", like=like), **asked)["estimate"].compute(),
        found["estimate"].transpose("model", "lead", ...),
    )
