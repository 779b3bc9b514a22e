"""Flipped bits, cut, missing and misplaced chunks are errors that name the chunk; no finished result rests on them."""

import gzip
import json
import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
import xarray as xr
import zarr
from click.testing import CliRunner
from conftest import ok, pooled
from distributed import Client
from faults import small_chunks
from test_resume import ledger_of
from test_run import assert_does_not_open, assert_same_bits, queried

import aucpr_dask as ap
from aucpr_dask.cli import main
from aucpr_dask.errors import DamageWarning, FileFormatError, RunError, StoreError
from aucpr_dask.runs.planning import plan_run
from aucpr_dask.scores.store import ScoreWriter
from aucpr_dask.storage.checksums import checksum_of, without_list
from aucpr_dask.storage.verifying import damage_of, endings_of

OPTIONS: dict[str, Any] = {"interval": ["bootstrap"], "n_resamples": 20, "keep_replicates": True}


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
    ap.run(folder / "scores.zarr", folder / "result.zarr", workers=client, **OPTIONS)
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


@pytest.mark.sparse
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
        ap.run(copied / "scores.zarr", copied / "new.zarr", workers=client, **OPTIONS)
    assert str(chunk.relative_to(copied)) in str(raised.value)
    assert_does_not_open(copied / "new.zarr")
    chunk.write_bytes(before)
    result = ap.run(copied / "scores.zarr", copied / "new.zarr", workers=client, **OPTIONS)
    assert_same_bits(result, ap.open_result(copied / "result.zarr"))


@damages
def test_what_a_finished_task_lost_is_computed_again(
    client: Client, copied: Path, damage: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = copied / "new.zarr"
    monkeypatch.setattr("aucpr_dask.runs.steps.Step.finish", stop)
    with pytest.raises(KeyboardInterrupt):
        ap.run(copied / "scores.zarr", target, workers=client, **OPTIONS)
    monkeypatch.undo()
    n_tasks = len(ledger_of(target).done())
    for chunk in [chunk for chunk in chunks_of(target) if chunk.parent.name in ("estimate", "replicate")][:2]:
        damage(chunk)
    events: list[Any] = []
    with pytest.warns(DamageWarning, match=rf"results of [12] of {n_tasks} finished tasks are missing or damaged"):
        result = ap.run(copied / "scores.zarr", target, workers=client, on_progress=events.append, **OPTIONS)
    assert 1 <= len(events) <= 2
    assert_same_bits(result, ap.open_result(copied / "result.zarr"))


def stop(*arguments: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.sparse
@damages
@pytest.mark.parametrize("name", OPENED)
def test_verify_lists_all_damage(copied: Path, name: str, damage: Callable[[Path], None]) -> None:
    store = copied / name
    sound = ok("verify", store, "--json")
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


def exchanged(one: Path, other: Path) -> None:
    before = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(before)


def duplicated(one: Path, other: Path) -> None:
    other.write_bytes(one.read_bytes())


def renamed(one: Path, other: Path) -> None:
    one.rename(other)


def shortened(one: Path, other: Path) -> None:
    sealed(one, one.read_bytes()[:-5])


def lengthened(one: Path, other: Path) -> None:
    sealed(one, one.read_bytes()[:-4] + bytes(4))


def encoded_again(one: Path, other: Path) -> None:
    """Write other bytes that are decoded to the same, or to nothing."""
    sealed(one, gzip.compress(one.read_bytes()[:-4]))


def older(one: Path, other: Path) -> None:
    """Take the chunk that a store of other scores has in this place."""
    one.write_bytes(Path(str(one).replace("/now/", "/before/")).read_bytes())


def sealed(chunk: Path, content: bytes) -> None:
    chunk.write_bytes(content + checksum_of(content))


MIXTURES = [exchanged, duplicated, renamed, shortened, lengthened, encoded_again, older]


@pytest.fixture(scope="module")
def mixed(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return stores of scores and results, ``now`` and ``before``."""
    folder = tmp_path_factory.mktemp("mixed")
    for when, factor in (("before", 1.0), ("now", -1.0)):
        scores = queried(5, 3, 40)
        scores["score"] *= factor
        place = folder / when
        with small_chunks():
            ap.save_scores(scores.assign_coords(model=[f"{when}-{n}" for n in range(5)]), place / "scores.zarr")
        ap.run(place / "scores.zarr", place / "result.zarr", workers=client, **OPTIONS)
        ap.save_comparison(ap.compare(ap.open_result(place / "result.zarr")), place / "comparison.zarr")
    return folder


@pytest.fixture
def in_this_process() -> Iterator[None]:
    with dask.config.set(scheduler="sync"):
        yield


@pytest.mark.parametrize(
    "n",
    [8, pytest.param(500, marks=(pytest.mark.slow, pytest.mark.nightly))],
)
@pytest.mark.usefixtures("in_this_process")
def test_no_chunk_in_the_place_of_another_is_read(mixed: Path, tmp_path: Path, n: int) -> None:
    rng = np.random.default_rng(n)
    shutil.copytree(mixed, tmp_path, dirs_exist_ok=True)
    n_tried = 0
    while n_tried < n:
        name = str(rng.choice(list(OPENED)))
        chunks = list(chunks_of(tmp_path / "now" / name))
        one, other = (chunks[place] for place in rng.choice(len(chunks), 2, replace=False))
        mix = MIXTURES[rng.integers(len(MIXTURES))]
        before = {chunk: chunk.read_bytes() for chunk in (one, other)}
        mix(one, other)
        if all(chunk.exists() and chunk.read_bytes() == content for chunk, content in before.items()):
            continue
        found = damage_of(tmp_path / "now" / name)[1]
        assert found, f"{mix.__name__} {one} {other}"
        touched = {one, other} if mix in (exchanged, renamed) else {other if mix is duplicated else one}
        assert all(any(str(chunk) in str(error) for chunk in touched) for error in found)
        if not all("digest" in chunk.parts for chunk in touched):  # read by runs and by verify only
            with pytest.raises(StoreError):
                OPENED[name](tmp_path / "now" / name)
        for chunk, content in before.items():
            chunk.write_bytes(content)
        n_tried += 1
    for name, opened in OPENED.items():
        opened(tmp_path / "now" / name)


@pytest.mark.usefixtures("in_this_process")
def test_exchanged_scores_are_not_evaluated(mixed: Path, tmp_path: Path) -> None:
    store = Path(shutil.copytree(mixed / "now" / "scores.zarr", tmp_path / "scores.zarr"))
    opened = ap.open_scores(store)
    exchanged(*[chunk for chunk in chunks_of(store) if "score" in chunk.parts][:2])
    for scores in (opened, ap.open_scores(store)):
        with pytest.raises(StoreError, match="not the one that was written here"):
            ap.evaluate(scores).compute()


@pytest.mark.parametrize("n", [2, pytest.param(250, marks=(pytest.mark.slow, pytest.mark.nightly))])
@pytest.mark.usefixtures("in_this_process")
def test_chunks_exchanged_before_their_store_is_finished(n: int, tmp_path: Path, monkeypatch: Any) -> None:
    """What the root document lists is what was in memory when it was written, not what lies there at the end."""
    monkeypatch.setattr("aucpr_dask.workers.connecting.current_client", lambda: None)
    rng, scores = np.random.default_rng(n), queried(5, 3, 40)
    expected, committed = ap.evaluate(scores, **OPTIONS), ScoreWriter.commit
    with small_chunks():
        ap.save_scores(scores, tmp_path / "s.zarr")
        n_tasks = len(plan_run(tmp_path / "s.zarr", **OPTIONS).tasks)

    def mixed_up(folder: Path) -> set[str]:
        """Exchange two chunks, and return the names of their variables."""
        chunks = list(chunks_of(folder))
        one, other = (chunks[place] for place in rng.choice(len(chunks), 2, replace=False))
        while one.read_bytes() == other.read_bytes():
            one, other = (chunks[place] for place in rng.choice(len(chunks), 2, replace=False))
        exchanged(one, other)
        return {chunk.relative_to(folder).parts[0] for chunk in (one, other)}

    def tried(number: int) -> None:
        saved, result = tmp_path / f"{number}.zarr", tmp_path / f"r{number}.zarr"
        with monkeypatch.context() as patch, small_chunks():
            patch.setattr(ScoreWriter, "commit", lambda self: (mixed_up(saved), committed(self)))
            with pytest.raises(StoreError, match="not the one that was written here"):
                ap.save_scores(scores, saved)
        assert not (saved / "zarr.json").exists()
        seen, mixed = count(1), set[str]()

        def endings(*given: Any) -> Any:
            if next(seen) == n_tasks - 1:
                mixed.update(mixed_up(result))
            return endings_of(*given)

        with monkeypatch.context() as patch, small_chunks():
            patch.setattr("aucpr_dask.runs.tasks.endings_of", endings)
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                try:
                    found = ap.run(tmp_path / "s.zarr", result, **OPTIONS)
                except StoreError as error:
                    said = [str(error)]
                    found = ap.run(tmp_path / "s.zarr", result, **OPTIONS, overwrite=True)
                else:
                    said = [str(one.message) for one in told if issubclass(one.category, DamageWarning)]
        # No task writes names: the run, which knows them, writes them again without a word.
        is_told = re.search("not the one that was written here|these tasks are computed again", "".join(said))
        assert is_told or mixed <= set(map(str, expected.coords)), mixed
        assert_same_bits(found, expected)

    for number in range(n):
        tried(number)


@pytest.mark.parametrize("where", ["sync", "client"])
def test_scores_that_are_replaced_are_not_mixed(mixed: Path, client: Client, tmp_path: Path, where: str) -> None:
    opened = ap.open_scores(shutil.copytree(mixed / "before" / "scores.zarr", tmp_path / "scores.zarr"))
    with small_chunks():
        ap.save_scores(ap.open_scores(mixed / "now" / "scores.zarr"), tmp_path / "scores.zarr", overwrite=True)
    said = r"one of a store that has replaced this one|has been replaced since"
    with dask.config.set(scheduler="sync" if where == "sync" else client), pytest.raises(StoreError, match=said):
        ap.evaluate(opened).compute()


def test_a_result_that_grows_is_read_as_it_was_opened(client: Client, tmp_path: Path) -> None:
    scores = pooled(7)
    for n_models in (6, 7):  # of which a chunk holds four
        ap.save_scores(scores.isel(model=slice(n_models)), tmp_path / "s.zarr", overwrite=True, models_per_chunk=4)
        result = ap.run(tmp_path / "s.zarr", tmp_path / "r.zarr", workers=client)
        if n_models == 6:
            opened = ap.open_result(tmp_path / "r.zarr")
            before = opened.compute(scheduler="sync")
    assert before.identical(opened.compute(scheduler="sync"))
    assert_same_bits(result, ap.evaluate(scores))
    assert damage_of(tmp_path / "r.zarr")[1:] == ([], True)
    one, other = sorted((tmp_path / "r.zarr" / "estimate").glob("c.*"))
    exchanged(one, other)
    assert len(damage_of(tmp_path / "r.zarr")[1]) == 2
    ap.save_scores(pooled(8), tmp_path / "s.zarr", overwrite=True, models_per_chunk=4)
    with pytest.raises(StoreError, match="not the one that was written here"):
        ap.run(tmp_path / "s.zarr", tmp_path / "r.zarr", workers=client)


def test_stores_without_a_list_are_read_as_before(mixed: Path, tmp_path: Path) -> None:
    store = Path(shutil.copytree(mixed / "now" / "scores.zarr", tmp_path / "scores.zarr"))
    (store / "zarr.json").write_bytes(without_list((store / "zarr.json").read_bytes()))
    assert damage_of(store)[1:] == ([], True)
    assert ap.open_scores(store).load().identical(ap.open_scores(mixed / "now" / "scores.zarr").load())


def test_a_flipped_bit_in_the_root_document_is_damage(mixed: Path, tmp_path: Path) -> None:
    store = Path(shutil.copytree(mixed / "now" / "scores.zarr", tmp_path / "scores.zarr"))
    content = (store / "zarr.json").read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(len(content), size=30):
        damaged = bytearray(content)
        damaged[place] ^= 1
        (store / "zarr.json").write_bytes(damaged)
        with pytest.raises((StoreError, FileFormatError)):
            ap.open_scores(store)


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
    result = ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr", workers=client)
    for store in ("scores.zarr", "result.zarr"):
        ok("verify", tmp_path / store)
    assert_same_bits(result, ap.evaluate(scores))


def test_a_store_that_another_program_copied_without_checksums_says_so(stores: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings(action="ignore"):
        xr.open_zarr(stores / "scores.zarr", chunks=None).load().drop_encoding().to_zarr(
            tmp_path / "copy.zarr", zarr_format=3, consolidated=True
        )
    with pytest.warns(DamageWarning, match="no checksums"):
        ap.open_scores(tmp_path / "copy.zarr")
