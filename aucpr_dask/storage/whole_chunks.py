"""Reading and writing whole chunks, without the work that Zarr does for parts of chunks.

Zarr makes two copies of a 32 MiB chunk in LZ4 in new memory: 15 to 21 ms, much of it for page faults. Decoding into
memory that is reused takes 11 to 12 ms. Writing the eight small chunks of a task's results takes 3 to 6 ms through
Zarr, which hands each to another thread and back, and 1.6 to 2.7 ms here.
"""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import zarr
from numcodecs.blosc import Blosc
from numpy.typing import NDArray
from zarr.codecs import BloscCodec, BytesCodec
from zarr.core.buffer import default_buffer_prototype

from aucpr_dask.storage.backends import delete_value, get_value, has_values_at_once, set_value

AnyArray = zarr.Array[Any] | zarr.AsyncArray[Any]

_LENGTH = slice(4, 8)  # the number of decoded bytes in the header of a Blosc buffer
_memory = threading.local()


class ChunkReader:
    """Reads whole chunks of an array that is compressed by Blosc, as scores are."""

    def __init__(self, array: zarr.Array[Any]) -> None:
        self._array = array

    def read(self, region: Sequence[Any]) -> NDArray[Any] | None:
        """Return one whole chunk, valid until the thread reads the next; None if the region is not a whole chunk."""
        key = _key_of(self._array, region) if _codecs(self._array) == (BytesCodec, BloscCodec) else None
        content = None if key is None else get_value(self._array.store, key)
        if content is None:
            return None
        encoded, chunk = content.as_numpy_array(), _reused(self._array.chunks, self._array.dtype)
        if int.from_bytes(encoded[_LENGTH].tobytes(), "little") != chunk.nbytes:
            return None  # Zarr raises the error
        Blosc().decode(encoded, chunk)
        return chunk[tuple(slice(part.stop - part.start) for part in region)]


def write_chunk(array: AnyArray, region: Sequence[Any], values: NDArray[Any]) -> bool:
    """Write a whole, uncompressed chunk to a local folder; otherwise do nothing and return False."""
    store = array.store_path.store
    is_plain = has_values_at_once(store) and _codecs(array) == (BytesCodec,)
    if not is_plain or values.shape != array.chunks or (key := _key_of(array, region)) is None:
        return False
    fill: Any = array.metadata.fill_value
    chunk = np.ascontiguousarray(values, array.dtype)
    if np.array_equal(chunk, np.broadcast_to(fill, chunk.shape), equal_nan=chunk.dtype.kind == "f"):
        delete_value(store, key)  # as Zarr does: absent chunks are read as the fill value
    else:
        set_value(store, key, default_buffer_prototype().buffer.from_bytes(chunk.tobytes()))
    return True


def _codecs(array: AnyArray) -> tuple[type, ...]:
    """Return the types of an array's codecs; nothing if it has shards or another byte order than this machine."""
    codecs = (*array.filters, array.serializer, *array.compressors)
    orders = {getattr(codec.endian, "value", sys.byteorder) for codec in codecs if isinstance(codec, BytesCodec)}
    return tuple(map(type, codecs)) if array.shards is None and orders == {sys.byteorder} else ()


def _key_of(array: AnyArray, region: Sequence[Any]) -> str | None:
    """Return the key of the chunk that covers exactly this region, if one does."""
    if not all(isinstance(part, slice) for part in region):
        return None
    lengths = array.chunks
    parts = [part.indices(size) for part, size in zip(region, array.shape, strict=True)]
    place = tuple(start // length for (start, _, _), length in zip(parts, lengths, strict=True))
    whole = [
        (number * length, min((number + 1) * length, size), 1)
        for number, length, size in zip(place, lengths, array.shape, strict=True)
    ]
    return f"{array.path}/{array.metadata.encode_chunk_key(place)}".strip("/") if parts == whole else None


def _reused(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array in memory that this thread reuses."""
    n_bytes = math.prod(shape) * dtype.itemsize
    if getattr(_memory, "bytes", np.empty(0)).size < n_bytes:
        _memory.bytes = np.empty(n_bytes, np.uint8)
    chunk: NDArray[Any] = _memory.bytes[:n_bytes].view(dtype).reshape(shape)
    return chunk
