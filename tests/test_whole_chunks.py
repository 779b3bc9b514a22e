"""Whole chunks are read into reused memory, and written without copies, as Zarr would; the rest is left to Zarr."""

from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from conftest import pooled, queried
from distributed import Client, LocalCluster
from hypothesis import given
from hypothesis import strategies as st
from zarr.codecs import BloscCodec, BytesCodec, GzipCodec, ZstdCodec
from zarr.storage import MemoryStore, WrapperStore

import aucpr_dask as ap
from aucpr_dask.runs.planning import plan_run
from aucpr_dask.runs.tasks import Assignment, _evaluated, _score_reader
from aucpr_dask.schema.trees import nodes_of
from aucpr_dask.storage.whole_chunks import ChunkReader, write_chunk

BLOSC = BloscCodec(cname="lz4", clevel=5, shuffle="bitshuffle")


def array_of(values: np.ndarray, chunks: tuple[int, ...], **options: Any) -> Any:
    how: dict[str, Any] = {"store": MemoryStore(), "compressors": BLOSC, "chunks": chunks, **options}
    array = zarr.create_array(shape=values.shape, dtype=values.dtype, **how)
    array[...] = values
    return array


def whole(number: int, length: int, size: int) -> slice:
    return slice(number * length, min((number + 1) * length, size))


@given(
    shape=st.tuples(st.integers(1, 9), st.integers(1, 7)),
    chunks=st.tuples(st.integers(1, 5), st.integers(1, 8)),
    dtype=st.sampled_from(["float32", "float64", "int8"]),
    codec=st.sampled_from([BLOSC, BloscCodec(cname="zstd", shuffle="shuffle"), BloscCodec(clevel=0)]),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_whole_chunk_is_what_zarr_reads(
    shape: tuple[int, int], chunks: tuple[int, int], dtype: str, codec: BloscCodec, seed: int
) -> None:
    values = np.random.default_rng(seed).integers(1, 100, shape).astype(dtype)
    array = array_of(values, chunks, compressors=codec)
    reader = ChunkReader(array)
    for place in np.ndindex(array.cdata_shape):
        region = tuple(map(whole, place, chunks, shape))
        found = reader.read(region)
        assert found is not None
        np.testing.assert_array_equal(found, array[region])
        assert found.dtype == array.dtype


def plain_array(folder: Path, values: np.ndarray, chunks: tuple[int, ...], **options: Any) -> Any:
    fill = np.nan if values.dtype.kind == "f" else 0
    how: dict[str, Any] = {"compressors": None, "fill_value": fill, "chunks": chunks, **options}
    return zarr.create_array(folder, shape=values.shape, dtype=values.dtype, **how)


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@given(
    shape=st.tuples(st.integers(1, 9), st.integers(1, 7)),
    chunks=st.tuples(st.integers(1, 5), st.integers(1, 8)),
    dtype=st.sampled_from(["float64", "int64", "int32"]),
    has_nothing=st.booleans(),
)
def test_every_whole_chunk_is_the_file_that_zarr_writes(
    tmp_path_factory: pytest.TempPathFactory,
    shape: tuple[int, int],
    chunks: tuple[int, int],
    dtype: str,
    has_nothing: bool,
) -> None:
    folder = tmp_path_factory.mktemp("chunks")
    values = np.arange(1, 1 + np.prod(shape)).reshape(shape).astype(dtype)
    ours, zarrs = (plain_array(folder / name, values, chunks) for name in ("ours", "zarrs"))
    for place in np.ndindex(ours.cdata_shape):
        region = tuple(map(whole, place, chunks, shape))
        is_full = values[region].shape == chunks
        assert write_chunk(ours, region, values[region]) == is_full
        if is_full:
            zarrs[region] = values[region]
    if has_nothing:  # what is read where there is no file takes the file away
        values[...] = ours.fill_value
        first = tuple(slice(length) for length in chunks)
        if write_chunk(ours, first, values[first]):
            zarrs[first] = values[first]
    assert files_of(folder / "ours") == files_of(folder / "zarrs")


def test_parts_of_chunks_and_encoded_chunks_are_not_written(tmp_path: Path) -> None:
    values = np.arange(1.0, 21).reshape(4, 5)
    array = plain_array(tmp_path / "array", values, (2, 5))
    before = files_of(tmp_path / "array")
    for region in (
        (slice(0, 1), slice(0, 5)),
        (slice(0, 4), slice(0, 5)),
        (slice(1, 3), slice(0, 5)),
        ([0, 1], slice(0, 5)),
    ):
        assert not write_chunk(array, region, values[region])
    assert files_of(tmp_path / "array") == before
    region = (slice(0, 2), slice(0, 5))
    for options in (
        {"compressors": ZstdCodec()},
        {"serializer": BytesCodec(endian="big")},
        {"shards": (4, 5)},
    ):
        other = plain_array(tmp_path / str(options), values, (2, 5), **options)
        assert not write_chunk(other, region, values[region])
    elsewhere = array_of(values, (2, 5), store=WrapperStore(MemoryStore()), compressors=None, fill_value=np.nan)
    assert not write_chunk(elsewhere, region, values[region])  # as all remote stores, it needs an event loop


def test_a_run_writes_whole_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, every result would still be right, and nobody would notice."""
    monkeypatch.setattr("aucpr_dask.storage.stores.CHUNK_BYTES", 1000)
    ap.save_scores(pooled(24, 60), tmp_path / "scores.zarr")
    written = []

    def watched(array: Any, region: Any, values: Any) -> bool:
        written.append(write_chunk(array, region, values))
        return written[-1]

    monkeypatch.setattr("aucpr_dask.runs.tasks.write_chunk", watched)
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr", cluster=client)
    assert len(written) == 8 * 12
    assert all(written)


def test_anything_but_one_whole_chunk_is_left_to_zarr() -> None:
    reader = ChunkReader(array_of(np.arange(20.0).reshape(4, 5), (2, 5)))
    assert reader.read([slice(0, 2), slice(0, 5)]) is not None
    for region in (
        [slice(0, 1), slice(0, 5)],
        [slice(0, 4), slice(0, 5)],
        [slice(1, 3), slice(0, 5)],
        [slice(0, 2), slice(0, 4)],
        [[0, 1], slice(0, 5)],
    ):
        assert reader.read(region) is None


@pytest.mark.parametrize(
    "options",
    [
        {"compressors": ZstdCodec()},
        {"compressors": None},
        {"compressors": [BLOSC, GzipCodec()]},
        {"serializer": BytesCodec(endian="big")},
        {"shards": (4, 5)},
    ],
)
def test_other_codecs_are_left_to_zarr(options: dict[str, Any]) -> None:
    assert ChunkReader(array_of(np.ones((4, 5)), (2, 5), **options)).read([slice(0, 2), slice(0, 5)]) is None


def test_a_chunk_that_is_not_there_is_left_to_zarr() -> None:
    array = array_of(np.ones((4, 5)), (2, 5), fill_value=1.0)  # what equals the fill value is not written
    assert ChunkReader(array).read([slice(0, 2), slice(0, 5)]) is None


def test_a_chunk_of_another_length_never_shows_an_earlier_chunk(tmp_path: Path) -> None:
    array = zarr.create_array(tmp_path / "a", shape=(4, 5), dtype="f8", chunks=(2, 5), compressors=BLOSC)
    array[...] = np.arange(1.0, 21).reshape(4, 5)
    shorter = zarr.create_array(tmp_path / "b", shape=(1, 5), dtype="f8", chunks=(1, 5), compressors=BLOSC)
    shorter[...] = 7.0
    reader = ChunkReader(array)
    assert reader.read([slice(0, 2), slice(0, 5)]) is not None
    (tmp_path / "a" / "c" / "1" / "0").write_bytes((tmp_path / "b" / "c" / "0" / "0").read_bytes())
    assert reader.read([slice(2, 4), slice(0, 5)]) is None
    (tmp_path / "a" / "c" / "1" / "0").write_bytes(b"\x02")
    assert reader.read([slice(2, 4), slice(0, 5)]) is None


def test_threads_do_not_share_the_memory() -> None:
    array = array_of(np.arange(1.0, 21).reshape(4, 5), (2, 5))
    mine = ChunkReader(array).read([slice(0, 2), slice(0, 5)])
    thread = Thread(target=lambda: ChunkReader(array).read([slice(2, 4), slice(0, 5)]))
    thread.start()
    thread.join()
    np.testing.assert_array_equal(mine, array[:2])
    again = ChunkReader(array).read([slice(2, 4), slice(0, 5)])
    assert again is not None
    assert mine is not None
    assert np.shares_memory(mine, again)


@pytest.mark.parametrize("make", [lambda: pooled(23, 60), lambda: queried(7, 5, 40)])
def test_tasks_read_whole_chunks_this_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Any) -> None:
    """Without it, every task would still be right, and nobody would notice."""
    monkeypatch.setattr("aucpr_dask.storage.stores.CHUNK_BYTES", 1000)
    ap.save_scores(make(), tmp_path / "scores.zarr")
    plan = plan_run(tmp_path / "scores.zarr")
    sizes = dict(nodes_of(plan.unread))[""]["score"].sizes
    expected = ap.evaluate(make())
    assert isinstance(expected, xr.Dataset)
    assignment = Assignment(plan.source, "", "this test", "", plan.options, 0)
    for task in plan.tasks:
        region = [task.slices.get(str(dim), slice(0, size)) for dim, size in sizes.items()]
        assert _score_reader(plan.source, "", "this test").read(region) is not None
        found = _evaluated(task, assignment)
        np.testing.assert_array_equal(found["estimate"], expected["estimate"].isel(task.slices))
