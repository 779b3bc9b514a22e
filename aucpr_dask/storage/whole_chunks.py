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
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec
from zarr.core.buffer import default_buffer_prototype

from aucpr_dask.storage.backends import delete_value, get_value, has_values_at_once, set_value
from aucpr_dask.storage.checksums import checked, checksum_of, place_of

AnyArray = zarr.Array[Any] | zarr.AsyncArray[Any]

_LENGTH = slice(4, 8)  # the number of decoded bytes in the header of a Blosc buffer
_memory = threading.local()


class ChunkReader:
    """Reads whole chunks of an array that is compressed by Blosc, as scores are."""

    def __init__(self, array: zarr.Array[Any]) -> None:
        self._array = array

    def read(self, region: Sequence[Any]) -> NDArray[Any] | None:
        """Return one whole chunk, valid until the thread reads the next; None if the region is not a whole chunk."""
        codecs, has_checksum = _codecs(self._array)
        key = _key_of(self._array, region) if codecs == (BytesCodec, BloscCodec) else None
        if key is None:
            return None
        content = get_value(self._array.store, key)
        if has_checksum:
            encoded = checked(content, place_of(self._array.store, key))
        elif content is None:
            return None
        else:
            encoded = content.as_numpy_array()
        chunk = _reused(self._array.chunks, self._array.dtype)
        if int.from_bytes(encoded[_LENGTH].tobytes(), "little") != chunk.nbytes:
            return None  # Zarr raises the error
        Blosc().decode(encoded, chunk)
        return chunk[tuple(slice(part.stop - part.start) for part in region)]


def write_chunk(array: AnyArray, region: Sequence[Any], values: NDArray[Any]) -> bool:
    """Write a whole, uncompressed chunk to a local folder; otherwise do nothing and return False."""
    store = array.store_path.store
    codecs, has_checksum = _codecs(array)
    is_plain = has_values_at_once(store) and codecs == (BytesCodec,)
    if not is_plain or values.shape != array.chunks or (key := _key_of(array, region)) is None:
        return False
    fill: Any = array.metadata.fill_value
    chunk = np.ascontiguousarray(values, array.dtype)
    is_empty = np.array_equal(chunk, np.broadcast_to(fill, chunk.shape), equal_nan=chunk.dtype.kind == "f")
    if is_empty and not has_checksum:
        delete_value(store, key)  # as Zarr does: absent chunks are read as the fill value
    else:
        content = chunk.tobytes()
        content += checksum_of(content) if has_checksum else b""
        set_value(store, key, default_buffer_prototype().buffer.from_bytes(content))
    return True


def _codecs(array: AnyArray) -> tuple[tuple[type, ...], bool]:
    """Return the types of an array's codecs, and whether a checksum comes last.

    Nothing if the array has shards or another byte order than this machine.
    """
    codecs = (*array.filters, array.serializer, *array.compressors)
    orders = {getattr(codec.endian, "value", sys.byteorder) for codec in codecs if isinstance(codec, BytesCodec)}
    if array.shards is not None or orders != {sys.byteorder}:
        return (), False
    has_checksum = isinstance(codecs[-1], Crc32cCodec)
    return tuple(map(type, codecs[: len(codecs) - has_checksum])), has_checksum


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
