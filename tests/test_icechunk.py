"""Stores in Icechunk repositories: one commit for each finished store, nothing of an unfinished one."""

import asyncio
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner
from conftest import pooled, queried
from distributed import Client, LocalCluster
from object_servers import BUCKET
from test_object_storage import KEY, OPTIONS, SECRET, Stop, kill_after, stop_after, storage
from test_run import assert_same_bits

import aucpr_dask as ap
from aucpr_dask.cli import main
from aucpr_dask.errors import StoreError
from aucpr_dask.runs.planning import plan_run
from aucpr_dask.storage import icechunk as versioned
from aucpr_dask.storage import stores
from aucpr_dask.storage.icechunk import history
from aucpr_dask.storage.stores import open_backend

icechunk = pytest.importorskip("icechunk")
pytestmark = pytest.mark.needs("icechunk", "moto", "obstore")

__all__ = ["storage"]  # a fixture


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aucpr_dask.storage.stores.CHUNK_BYTES", 2000)


@pytest.fixture
def place(tmp_path: Path) -> str:
    return f"icechunk+file://{tmp_path}/repository"


def repository_of(url: str) -> Any:
    return icechunk.Repository.open(icechunk.local_filesystem_storage(url.removeprefix("icechunk+file://")))


def messages_of(url: str) -> list[str]:
    return [snapshot.message for snapshot in history(url)]


def test_each_store_is_one_commit(place: str, forest: xr.DataTree) -> None:
    ap.save_scores(pooled(), place)
    assert_same_bits(ap.evaluate(ap.open_scores(place)), ap.evaluate(pooled()))
    with pytest.raises(StoreError, match="something at this place"):
        ap.save_scores(forest, place)
    ap.save_scores(forest, f"{place}/", overwrite=True)
    assert_same_bits(ap.evaluate(ap.open_scores(place)), ap.evaluate(forest))
    newest, first = history(place)
    assert newest.written_at > first.written_at
    assert_same_bits(ap.evaluate(ap.open_scores(f"{place}#{first.snapshot}")), ap.evaluate(pooled()))
    assert list(repository_of(place).list_branches()) == ["main"]
    assert not [
        key for key in Path(place.removeprefix("icechunk+file://"), versioned.STAGE).rglob("*") if key.is_file()
    ]


def test_plain_xarray_opens_it(place: str) -> None:
    ap.save_scores(pooled(), place)
    opened = xr.open_zarr(repository_of(place).readonly_session("main").store, consolidated=False)
    np.testing.assert_array_equal(opened["score"].values, pooled()["score"].values)
    assert opened.attrs["kind"] == "aucpr_dask.scores"


def test_tags_name_snapshots(place: str) -> None:
    ap.save_scores(pooled(), place)
    repository_of(place).create_tag("published", history(place)[0].snapshot)
    ap.save_scores(pooled(3), place, overwrite=True)
    assert ap.open_scores(f"{place}#published").sizes["model"] == 5
    with pytest.raises(StoreError, match="cannot be opened"):
        ap.open_scores(f"{place}#nothing")
    with pytest.raises(StoreError, match="only be read"):
        ap.save_scores(pooled(), f"{place}#published", overwrite=True)


def test_missing_stores_are_errors(place: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store at this place"):
        ap.open_scores(place)
    with pytest.raises(StoreError, match="no Icechunk repository"):
        history(place)
    with pytest.raises(StoreError, match="not the URL of an Icechunk"):
        history(tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(StoreError, match="cannot be there"):
        ap.open_scores("icechunk+https://example.org/a")


def test_an_absent_package_is_named(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(place.removeprefix("icechunk+file://")).mkdir()
    monkeypatch.setitem(sys.modules, "icechunk", None)
    with pytest.raises(StoreError, match=r'pip install "aucpr-dask\[icechunk\]"'):
        ap.open_scores(place)


def test_unfinished_writes_are_invisible(place: str) -> None:
    def stop(done: int, total: int) -> None:
        if done == total:
            raise Stop

    with pytest.raises(Stop):
        ap.save_scores(pooled(9), place, on_progress=stop)
    with pytest.raises(StoreError, match="never finished"):
        ap.open_scores(place)
    ap.save_scores(pooled(), place, overwrite=True)
    for _ in range(2):
        with pytest.raises(Stop):
            ap.save_scores(pooled(9), place, overwrite=True, on_progress=stop)
        assert ap.open_scores(place).sizes["model"] == 5
    ap.save_scores(pooled(9), place, overwrite=True)
    assert ap.open_scores(place).sizes["model"] == 9
    assert len(history(place)) == 2


@pytest.mark.parametrize("n_calls", range(1, 40, 6))
def test_a_failure_at_any_step_of_publishing(place: str, monkeypatch: pytest.MonkeyPatch, n_calls: int) -> None:
    """The old snapshot, or the new one; and what is done again is not committed twice."""
    ap.save_scores(pooled(3), place)
    old, new = ap.evaluate(pooled(3)), ap.evaluate(queried())
    left = n_calls
    publishing = versioned.VersionedStore._publish
    is_publishing = False

    async def watched(self: Any, document: bytes) -> None:
        nonlocal is_publishing
        is_publishing = True
        await publishing(self, document)

    def failing(method: Any) -> Any:
        async def call(self: Any, *arguments: Any, **options: Any) -> Any:
            nonlocal left
            left -= is_publishing
            if is_publishing and left == 0:
                raise OSError("power cut")
            return await method(self, *arguments, **options)

        return call

    from icechunk import IcechunkStore, Session
    from zarr.storage import LocalStore

    monkeypatch.setattr(versioned.VersionedStore, "_publish", watched)
    for owner, name in (
        (LocalStore, "get"),
        (LocalStore, "delete"),
        (LocalStore, "delete_dir"),
        (IcechunkStore, "set"),
        (Session, "commit_async"),
    ):
        monkeypatch.setattr(owner, name, failing(getattr(owner, name)))
    pending: list[Any] = []
    commit = stores.PendingStore.commit

    def kept(self: Any) -> None:
        pending.append(self)
        commit(self)

    monkeypatch.setattr("aucpr_dask.storage.stores.PendingStore.commit", kept)
    failed = False
    try:
        ap.save_scores(queried(), place, overwrite=True)
    except OSError:
        failed = True
    assert failed == (left <= 0)
    is_publishing, left = False, sys.maxsize
    seen = ap.evaluate(ap.open_scores(place))
    assert_same_bits(seen, new if len(history(place)) == 2 else old)
    commit(pending[0])  # the same once more, as a resumed run does
    assert len(history(place)) == 2
    assert_same_bits(ap.evaluate(ap.open_scores(place)), new)
    ap.save_scores(pooled(4), place, overwrite=True)
    assert len(history(place)) == 3
    assert ap.open_scores(place).sizes["model"] == 4


def test_the_old_store_is_visible_until_it_is_replaced(place: str) -> None:
    """The stage of a store: what was finished, changed by what has been written since."""
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync

    ap.save_scores(pooled(), place)
    stage = open_backend(place)
    prototype = default_buffer_prototype()

    async def keys(store: Any, prefix: str = "") -> set[str]:
        return {key async for key in store.list_prefix(prefix)}

    before = sync(keys(open_backend(place, read_only=True)))
    assert sync(keys(stage)) == before
    chunk = next(key for key in before if key.startswith("score/c/"))
    old = sync(stage.get(chunk, prototype)).to_bytes()
    sync(stage.set(chunk, prototype.buffer.from_bytes(b"new")))
    assert sync(stage.get(chunk, prototype)).to_bytes() == b"new"
    sync(stage.delete(chunk))
    assert sync(stage.get(chunk, prototype)) is None
    assert not sync(stage.exists(chunk))
    assert sync(keys(stage)) == before - {chunk}
    assert sync(open_backend(place, read_only=True).get(chunk, prototype)).to_bytes() == old
    root = sync(stage.get("zarr.json", prototype))
    sync(stage.set("zarr.json", prototype.buffer.from_bytes(root.to_bytes() + b" ")))
    assert sync(keys(open_backend(place, read_only=True))) == before - {chunk}
    sync(stage.clear())
    assert sync(keys(stage)) == set()
    assert pickle.loads(pickle.dumps(stage)) == stage
    assert ap.open_scores(place).sizes["model"] == 5


def test_another_process_commits_meanwhile(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ap.save_scores(pooled(), place)
    copying = versioned.VersionedStore._copy_stage

    def commit_theirs() -> None:
        session = repository_of(place).writable_session("main")
        xr.Dataset({"theirs": ("x", [1.0])}).to_zarr(session.store, consolidated=False, zarr_format=3, mode="a")
        session.commit("theirs")

    async def overtaken(self: Any, snapshot: Any, root_document: bytes) -> None:
        await copying(self, snapshot, root_document)
        await asyncio.to_thread(commit_theirs)

    monkeypatch.setattr(versioned.VersionedStore, "_copy_stage", overtaken)
    with pytest.raises(StoreError, match="cannot be committed"):
        ap.save_scores(pooled(3), place, overwrite=True)
    assert messages_of(place) == ["theirs", "scores"]


# Runs


@pytest.fixture(scope="module")
def client(storage: Any) -> Iterator[Client]:
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("where", ["local", "s3"])
def test_the_life_of_a_result(client: Client, storage: Any, place: str, tmp_path: Path, where: str) -> None:
    """Begun and killed, gone on with, finished, extended, replaced: at each moment readers see a finished snapshot."""
    target = place if where == "local" else f"icechunk+s3://{BUCKET}/{tmp_path.name}/repository"
    source = str(tmp_path / "scores.zarr")
    scores = queried(11, 5, 40)
    some = scores.isel(model=slice(8))
    ap.save_scores(some, source)
    if where == "local":
        kill_after(2, source, target)
    else:
        with pytest.raises(Stop):
            ap.run(source, target, cluster=client, on_progress=stop_after(2), **OPTIONS)
    with pytest.raises(StoreError, match="never finished"):
        ap.open_result(target)
    events: list[Any] = []
    result = ap.run(source, target, cluster=client, on_progress=events.append, **OPTIONS)
    assert_same_bits(result, ap.evaluate(some, **OPTIONS))
    assert len(events) < len(plan_run(source, **OPTIONS).tasks)
    assert messages_of(target) == [f"result of {source}"]
    ap.run(source, target, cluster=client, on_progress=stop_after(0), **OPTIONS)
    assert len(history(target)) == 1

    ap.save_scores(scores, source, overwrite=True)
    with pytest.raises(Stop):
        ap.run(source, target, cluster=client, on_progress=stop_after(1), **OPTIONS)
    assert_same_bits(ap.open_result(target), ap.evaluate(some, **OPTIONS))
    result = ap.run(source, target, cluster=client, **OPTIONS)
    assert_same_bits(result, ap.evaluate(scores, **OPTIONS))
    assert len(history(target)) == 2

    with pytest.raises(Stop):
        ap.run(source, target, cluster=client, overwrite=True, on_progress=stop_after(2), level=0.5, **OPTIONS)
    assert_same_bits(ap.open_result(target), ap.evaluate(scores, **OPTIONS))
    result = ap.run(source, target, cluster=client, level=0.5, **OPTIONS)
    assert_same_bits(result, ap.evaluate(scores, level=0.5, **OPTIONS))
    third, second, first = history(target)
    assert_same_bits(ap.open_result(f"{target}#{first.snapshot}"), ap.evaluate(some, **OPTIONS))
    assert_same_bits(ap.open_result(f"{target}#{second.snapshot}"), ap.evaluate(scores, **OPTIONS))
    assert_same_bits(ap.open_result(f"{target}#{third.snapshot}"), result)


def test_abandoned_writes_are_in_no_snapshot(client: Client, place: str, tmp_path: Path) -> None:
    source, scores = str(tmp_path / "scores.zarr"), queried(11, 3, 40)

    def save(nodes: dict[str, xr.Dataset]) -> xr.DataTree:
        tree = xr.DataTree.from_dict(nodes)
        ap.save_scores(tree, source, overwrite=True)
        return tree

    save({"a": scores.isel(model=slice(2))})
    ap.run(source, place, cluster=client, **OPTIONS)
    for nodes, n_blocks in (({"a": scores, "b": pooled(5)}, 1), ({"a": scores}, 4)):
        save(nodes)
        with pytest.raises(Stop):
            ap.run(source, place, cluster=client, on_progress=stop_after(n_blocks), **OPTIONS)
    fewer = save({"a": scores.isel(model=slice(3))})
    assert_same_bits(ap.run(source, place, cluster=client, **OPTIONS), ap.evaluate(fewer, **OPTIONS))
    plain = xr.open_datatree(
        repository_of(place).readonly_session("main").store, engine="zarr", consolidated=False, chunks=None
    )
    assert list(plain.children) == ["a"]
    assert_same_bits(plain, ap.evaluate(fewer, **OPTIONS))


def test_more_resamples_of_a_result(client: Client, place: str, tmp_path: Path) -> None:
    """Meanwhile the last snapshot opens; given up, the same can be done with fewer."""
    source, scores = str(tmp_path / "scores.zarr"), queried(5, 3, 40)
    options = OPTIONS | {"n_resamples": 100, "keep_replicates": True, "intervals": ["bootstrap"]}
    ap.save_scores(scores, source)
    ap.run(source, place, cluster=client, **options)
    more = [options | {"n_resamples": n} for n in (430, 150)]
    with pytest.raises(Stop):
        ap.run(source, place, cluster=client, on_progress=stop_after(2), **more[0])
    assert_same_bits(ap.open_result(place), ap.evaluate(scores, **options))
    assert_same_bits(ap.run(source, place, cluster=client, **more[1]), ap.evaluate(scores, **more[1]))
    assert len(history(place)) == 2


def test_scores_and_results_in_one_bucket(client: Client, storage: Any, tmp_path: Path) -> None:
    source, target = (f"icechunk+s3://{BUCKET}/{tmp_path.name}/{name}" for name in ("scores", "result"))
    ap.save_scores(pooled(9), source)
    result = ap.run(source, target, cluster=client)
    assert_same_bits(result, ap.evaluate(pooled(9)))
    assert result.attrs["source"] == source
    for words in (["info", source], ["show", target], ["show", f"{target}#{history(target)[0].snapshot}"]):
        answer = CliRunner().invoke(main, words)
        assert answer.exit_code == 0, answer.output
        assert SECRET not in answer.output
        assert KEY not in answer.output
