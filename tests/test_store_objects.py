"""Zarr stores that are passed as objects: of an Icechunk session, in memory, of fsspec."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from conftest import pooled, queried
from distributed import Client
from test_run import assert_same_bits
from zarr.storage import FsspecStore, LocalStore, MemoryStore, ZipStore

import aucpr_dask as ap
from aucpr_dask.errors import ClusterError, StoreError

OPTIONS: dict[str, Any] = {"interval": ["bootstrap"], "n_resamples": 20}


pytestmark = pytest.mark.usefixtures("small_chunks")


@pytest.fixture(scope="module")
def client(client_of_processes: Client) -> Client:
    return client_of_processes


def in_memory(folder: Path) -> MemoryStore:
    return MemoryStore()


def by_fsspec(folder: Path) -> FsspecStore:
    return FsspecStore.from_url(f"memory://{folder}")


def in_icechunk(folder: Path) -> Any:
    import icechunk

    repository = icechunk.Repository.create(icechunk.in_memory_storage())
    return repository.writable_session("main").store


@pytest.mark.parametrize("make", [in_memory, by_fsspec, pytest.param(in_icechunk, marks=pytest.mark.needs("icechunk"))])
def test_scores_and_results_are_written_and_read(make: Any, tmp_path: Path) -> None:
    forest = xr.DataTree.from_dict({"small": pooled(9, 20), "topics": queried()})
    source, target = make(tmp_path / "scores"), make(tmp_path / "result")
    ap.save_scores(forest, source)
    assert_same_bits(ap.evaluate(ap.open_scores(source), **OPTIONS), ap.evaluate(forest, **OPTIONS))
    result = ap.run(source, target, workers=2, **OPTIONS)
    assert_same_bits(result, ap.evaluate(forest, **OPTIONS))
    for refused in (lambda: ap.run(source, target, **OPTIONS), lambda: ap.save_scores(forest, target)):
        with pytest.raises(StoreError, match=rf"something at this place already\s+where: {type(target).__name__}://"):
            refused()
    ap.save_scores(pooled(), target, overwrite=True)
    assert ap.open_scores(target).sizes["model"] == 5


@pytest.mark.needs("icechunk")
def test_a_commit_keeps_a_result_and_the_ones_before(tmp_path: Path) -> None:
    import icechunk

    repository = icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path / "repository")))
    ap.save_scores(queried(), tmp_path / "scores.zarr")
    for level in (0.95, 0.5):
        session = repository.writable_session("main")
        ap.run(tmp_path / "scores.zarr", session.store, overwrite=True, level=level)
        session.commit(f"level {level}")
    last, first, _ = (
        repository.readonly_session(snapshot_id=snapshot.id).store for snapshot in repository.ancestry(branch="main")
    )
    for store, level in ((last, 0.5), (first, 0.95)):
        expected = ap.evaluate(queried(), level=level)
        assert_same_bits(ap.open_result(store), expected)
        plain = xr.open_zarr(store, consolidated=False, chunks=None)
        np.testing.assert_array_equal(plain["interval"], expected["interval"])


def test_what_is_not_finished_does_not_open(tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    store = MemoryStore()
    with pytest.raises(KeyboardInterrupt):
        ap.save_scores(pooled(9), store, on_progress=stop)
    with pytest.raises(StoreError, match="never finished"):
        ap.open_scores(store)
    with pytest.raises(StoreError, match="something at this place already"):
        ap.save_scores(pooled(9), store)
    with pytest.raises(StoreError, match="no store at this place"):
        ap.open_scores(MemoryStore())


def test_only_its_own_process_writes_an_object(client: Client, tmp_path: Path) -> None:
    ap.save_scores(pooled(9), tmp_path / "scores.zarr")
    for cluster in (client, client.scheduler.address):
        with pytest.raises(ClusterError, match=r"(?s)only this process.*a number of threads"):
            ap.run(tmp_path / "scores.zarr", MemoryStore(), workers=cluster)
    source = LocalStore(tmp_path / "scores.zarr", read_only=True)
    result = ap.run(source, tmp_path / "result.zarr", workers=client, **OPTIONS)
    assert_same_bits(result, ap.evaluate(pooled(9), **OPTIONS))
    with pytest.raises(StoreError, match="can only be read"):
        ap.save_scores(pooled(), source, overwrite=True)
    with pytest.raises(StoreError, match="would overlap"):
        ap.run(source, LocalStore(tmp_path / "scores.zarr", read_only=True), **OPTIONS)


def test_lazy_scores_do_not_replace_their_own_store() -> None:
    store, other = MemoryStore(), MemoryStore()
    ap.save_scores(pooled(), store)
    opened = ap.open_scores(store)
    with pytest.raises(StoreError, match="still read from it"):
        ap.save_scores(opened, store, overwrite=True)
    ap.save_scores(opened, other)
    assert_same_bits(ap.evaluate(ap.open_scores(other)), ap.evaluate(pooled()))


def test_archives_are_read_as_they_are(tmp_path: Path) -> None:
    ap.save_scores(pooled(3, 40), tmp_path / "scores.zarr")
    archive = Path(shutil.make_archive(str(tmp_path / "scores"), "zip", tmp_path / "scores.zarr"))
    xr.testing.assert_identical(
        ap.evaluate(ap.open_scores(ZipStore(archive, mode="r"))).compute(),
        ap.evaluate(ap.open_scores(tmp_path / "scores.zarr")).compute(),
    )
    with pytest.raises(StoreError, match=r"zarr.storage.ZipStore\('.*scores.zip', mode='r'\)"):
        ap.open_scores(archive)
