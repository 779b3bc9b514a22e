"""Whole chunks, read into memory that is used again: what Zarr reads, or left to it."""

from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from conftest import pooled, queried
from hypothesis import given
from hypothesis import strategies as st
from zarr.codecs import BloscCodec, BytesCodec, GzipCodec, ZstdCodec
from zarr.storage import MemoryStore

import aucpr_dask as ap
from aucpr_dask.chunks import ChunkReader
from aucpr_dask.execution import _evaluated, _score_reader
from aucpr_dask.planning import plan_run
from aucpr_dask.stores import nodes_of

BLOSC = BloscCodec(cname="lz4", clevel=5, shuffle="bitshuffle")


def array_of(values: np.ndarray, chunks: tuple[int, ...], **options: Any) -> Any:
    array = zarr.create_array(
        MemoryStore(), shape=values.shape, dtype=values.dtype, chunks=chunks, **{"compressors": BLOSC, **options}
    )
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


def test_a_chunk_of_another_length_never_shows_what_was_read_before(tmp_path: Path) -> None:
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
def test_what_blocks_are_evaluated_from_is_read_this_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Any
) -> None:
    """Without it, every block would still be right, and nobody would notice."""
    monkeypatch.setattr("aucpr_dask.stores.CHUNK_BYTES", 1000)
    ap.save_scores(make(), tmp_path / "scores.zarr")
    plan = plan_run(tmp_path / "scores.zarr")
    dataset = dict(nodes_of(plan.unread))[""]
    expected = ap.evaluate(make())
    assert isinstance(expected, xr.Dataset)
    for block in plan.blocks:
        reader = _score_reader(plan.source, "", "this test")
        region = [block.slices.get(str(dim), slice(0, size)) for dim, size in dataset["score"].sizes.items()]
        assert reader.read(region) is not None
        found = _evaluated(dataset, reader, block, {})
        np.testing.assert_array_equal(found["estimate"], expected["estimate"].isel(block.slices))
