"""Flipped bits, cut and missing chunks are errors that name the chunk, and no finished result rests on them."""

import json
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from click.testing import CliRunner
from distributed import Client
from faults import small_chunks
from test_resume import ledger_of
from test_run import assert_does_not_open, assert_same_bits, queried

import aucpr_dask as ap
from aucpr_dask.cli import main
from aucpr_dask.errors import DamageWarning, RunError, StoreError

OPTIONS: dict[str, Any] = {"intervals": ["bootstrap"], "n_resamples": 20, "keep_replicates": True}


def flip(chunk: Path) -> None:
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(content)


def cut(chunk: Path) -> None:
    chunk.write_bytes(chunk.read_bytes()[:-1])


def empty(chunk: Path) -> None:
    chunk.write_bytes(b"")


def zero(chunk: Path) -> None:
    chunk.write_bytes(bytes(chunk.stat().st_size))


DAMAGES: list[Callable[[Path], None]] = [flip, cut, empty, zero, Path.unlink]
damages = pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)


def chunks_of(store: Path) -> Iterator[Path]:
    for file in sorted(store.rglob("*")):
        if file.is_file() and file.name != "zarr.json" and file.relative_to(store).parts[0] != "ledger":
            yield file


@pytest.fixture(scope="module")
def stores(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    with small_chunks():
        ap.save_scores(queried(5, 3, 40), folder / "scores.zarr")
    ap.run(folder / "scores.zarr", folder / "result.zarr", cluster=client, **OPTIONS)
    ap.save_comparison(ap.compare(ap.open_result(folder / "result.zarr")), folder / "comparison.zarr")
    return folder


@pytest.fixture
def copied(stores: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(stores, tmp_path, dirs_exist_ok=True))


OPENED: dict[str, Callable[[Path], Any]] = {
    "scores.zarr": lambda place: ap.open_scores(place).load(),
    "result.zarr": lambda place: ap.open_result(place).load(),
    "comparison.zarr": lambda place: ap.open_comparison(place).load(),
}


@pytest.mark.slow
@damages
@pytest.mark.parametrize("name", OPENED)
def test_every_damaged_chunk_is_named(copied: Path, name: str, damage: Callable[[Path], None]) -> None:
    store = copied / name
    for chunk in chunks_of(store):
        if "digest" in chunk.parts:
            continue  # read by runs and by verify only
        before = chunk.read_bytes()
        damage(chunk)
        with pytest.raises(StoreError, match=r"a chunk is (missing|damaged)") as raised:
            OPENED[name](store)
        assert str(chunk.relative_to(copied)) in str(raised.value)
        chunk.write_bytes(before)
    OPENED[name](store)


@pytest.mark.slow
@damages
def test_no_result_rests_on_damaged_scores(client: Client, copied: Path, damage: Callable[[Path], None]) -> None:
    chunk = next(chunk for chunk in chunks_of(copied / "scores.zarr") if "score" in chunk.parts)
    before = chunk.read_bytes()
    damage(chunk)
    with pytest.raises(RunError, match=r"a chunk is (missing|damaged)") as raised:
        ap.run(copied / "scores.zarr", copied / "new.zarr", cluster=client, **OPTIONS)
    assert str(chunk.relative_to(copied)) in str(raised.value)
    assert_does_not_open(copied / "new.zarr")
    chunk.write_bytes(before)
    result = ap.run(copied / "scores.zarr", copied / "new.zarr", cluster=client, **OPTIONS)
    assert_same_bits(result, ap.open_result(copied / "result.zarr"))


@damages
def test_what_a_finished_task_lost_is_computed_again(
    client: Client, copied: Path, damage: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = copied / "new.zarr"
    monkeypatch.setattr("aucpr_dask.runs.steps.Step.finish", stop)
    with pytest.raises(KeyboardInterrupt):
        ap.run(copied / "scores.zarr", target, cluster=client, **OPTIONS)
    monkeypatch.undo()
    n_tasks = len(ledger_of(target).done())
    for chunk in [chunk for chunk in chunks_of(target) if chunk.parent.name in ("estimate", "replicate")][:2]:
        damage(chunk)
    events: list[Any] = []
    with pytest.warns(DamageWarning, match=rf"results of [12] of {n_tasks} finished tasks are missing or damaged"):
        result = ap.run(copied / "scores.zarr", target, cluster=client, on_progress=events.append, **OPTIONS)
    assert 1 <= len(events) <= 2
    assert_same_bits(result, ap.open_result(copied / "result.zarr"))


def stop(*arguments: Any) -> None:
    raise KeyboardInterrupt


@damages
@pytest.mark.parametrize("name", OPENED)
def test_verify_lists_all_damage(copied: Path, name: str, damage: Callable[[Path], None]) -> None:
    store = copied / name
    sound = CliRunner().invoke(main, ["verify", str(store), "--json"])
    assert sound.exit_code == 0, sound.output
    assert json.loads(sound.stdout)["has_checksums"]
    assert json.loads(sound.stdout)["n_chunks"] == len(list(chunks_of(store)))
    victims = list(chunks_of(store))[::3]
    for chunk in victims:
        damage(chunk)
    found = CliRunner().invoke(main, ["verify", str(store), "--json"])
    assert found.exit_code == 2
    listed = json.loads(found.stdout)["damage"]
    assert len(listed) == len(victims)
    for chunk, error in zip(victims, sorted(listed, key=lambda text: text.partition("where: ")[2]), strict=True):
        assert str(chunk.relative_to(copied)) in error


def test_other_programs_can_read_the_stores(stores: Path) -> None:
    with warnings.catch_warnings(action="ignore"):  # consolidated metadata are an extension of the format
        scores = xr.open_zarr(stores / "scores.zarr", chunks=None)
    np.testing.assert_array_equal(scores["score"], ap.open_scores(stores / "scores.zarr")["score"])
    array = zarr.open_array(stores / "scores.zarr/score", mode="r")
    assert type(array.compressors[-1]).__name__ == "Crc32cCodec"


def test_empty_chunks_are_written(client: Client, tmp_path: Path) -> None:
    scores = queried(2, 2, 10).assign(score=lambda known: xr.zeros_like(known["score"]))
    ap.save_scores(scores, tmp_path / "scores.zarr")
    opened = ap.open_scores(tmp_path / "scores.zarr")
    assert not opened["score"].values.any()
    result = ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr", cluster=client)
    for store in ("scores.zarr", "result.zarr"):
        assert CliRunner().invoke(main, ["verify", str(tmp_path / store)]).exit_code == 0
    assert_same_bits(result, ap.evaluate(scores))


def test_a_store_that_another_program_copied_without_checksums_says_so(stores: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings(action="ignore"):
        xr.open_zarr(stores / "scores.zarr", chunks=None).load().drop_encoding().to_zarr(
            tmp_path / "copy.zarr", zarr_format=3, consolidated=True
        )
    with pytest.warns(DamageWarning, match="no checksums"):
        ap.open_scores(tmp_path / "copy.zarr")
