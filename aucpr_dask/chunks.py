"""Whole chunks, read into memory that is used again for the next one.

Of a chunk of 32 MiB in LZ4, Zarr makes two copies in new memory: 15 to 21 ms, much of it for the system's pages.
Decoded into memory that is there already, it takes 11 to 12 ms.
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
from zarr.core.sync import sync

_LENGTH = slice(4, 8)  # where the header of a Blosc buffer says how many bytes it decodes to
_memory = threading.local()


class ChunkReader:
    """Reads whole chunks of an array that is stored in Blosc, as score stores are, or else nothing.

    Parameters
    ----------
    array : zarr.Array
    """

    def __init__(self, array: zarr.Array[Any]) -> None:
        self._array = array

    def read(self, region: Sequence[Any]) -> NDArray[Any] | None:
        """Return one whole chunk, until the same thread reads the next; None if the region is anything else."""
        key = _key_of(self._array, region) if _codecs(self._array) == (BytesCodec, BloscCodec) else None
        content = None if key is None else sync(self._array.store.get(key, default_buffer_prototype()))
        if content is None:
            return None
        encoded, chunk = content.as_numpy_array(), _reused(self._array.chunks, self._array.dtype)
        if int.from_bytes(encoded[_LENGTH].tobytes(), "little") != chunk.nbytes:
            return None  # Zarr will say what is wrong with it
        Blosc().decode(encoded, chunk)
        return chunk[tuple(slice(part.stop - part.start) for part in region)]


def _codecs(array: zarr.Array[Any]) -> tuple[type, ...]:
    """Return the kinds of codecs of an array, if it has no shards and its bytes are in this machine's order."""
    codecs = (*array.filters, array.serializer, *array.compressors)
    orders = {getattr(codec.endian, "value", sys.byteorder) for codec in codecs if isinstance(codec, BytesCodec)}
    return tuple(map(type, codecs)) if array.shards is None and orders == {sys.byteorder} else ()


def _key_of(array: zarr.Array[Any], region: Sequence[Any]) -> str | None:
    """Return the key of the chunk that covers a region and no more."""
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
    """Return an array in the memory that this thread keeps for it."""
    n_bytes = math.prod(shape) * dtype.itemsize
    if getattr(_memory, "bytes", np.empty(0)).size < n_bytes:
        _memory.bytes = np.empty(n_bytes, np.uint8)
    chunk: NDArray[Any] = _memory.bytes[:n_bytes].view(dtype).reshape(shape)
    return chunk
