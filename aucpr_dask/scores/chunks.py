"""Whole chunks of scores, decoded into memory that is used again for the next one.

Of a chunk of 32 MiB in LZ4, Zarr makes two copies in new memory: 15 to 21 ms, much of it for the system's pages.
Decoded into memory that is there already, it takes 11 to 12 ms.
"""

from __future__ import annotations

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
        codecs = (*array.filters, array.serializer, *array.compressors)
        is_blosc = len(codecs) == 2 and isinstance(codecs[0], BytesCodec) and isinstance(codecs[1], BloscCodec)
        is_native = is_blosc and getattr(codecs[0].endian, "value", None) in (sys.byteorder, None)
        self._is_known = is_native and array.shards is None

    def read(self, region: Sequence[Any]) -> NDArray[Any] | None:
        """Return one whole chunk, until the same thread reads the next; None if the region is anything else."""
        place = self._place(region)
        if place is None:
            return None
        path = f"{self._array.path}/{self._array.metadata.encode_chunk_key(place)}".strip("/")
        content = sync(self._array.store.get(path, default_buffer_prototype()))
        if content is None:
            return None
        encoded, chunk = content.as_numpy_array(), _reused(self._array.chunks, self._array.dtype)
        if int.from_bytes(encoded[_LENGTH].tobytes(), "little") != chunk.nbytes:
            return None  # Zarr will say what is wrong with it
        Blosc().decode(encoded, chunk)
        return chunk[tuple(slice(part.stop - part.start) for part in region)]

    def _place(self, region: Sequence[Any]) -> tuple[int, ...] | None:
        """Return the coordinates of the chunk that covers a region and no more."""
        if not self._is_known or not all(isinstance(part, slice) for part in region):
            return None
        lengths, sizes = self._array.chunks, self._array.shape
        place = tuple(part.start // length for part, length in zip(region, lengths, strict=True))
        starts = [number * length for number, length in zip(place, lengths, strict=True)]
        stops = [min(start + length, size) for start, length, size in zip(starts, lengths, sizes, strict=True)]
        is_whole = [(part.start, part.stop) for part in region] == list(zip(starts, stops, strict=True))
        return place if is_whole else None


def _reused(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array in the memory that this thread keeps for it."""
    n_bytes = int(np.prod(shape)) * dtype.itemsize
    if getattr(_memory, "bytes", np.empty(0)).size < n_bytes:
        _memory.bytes = np.empty(n_bytes, np.uint8)
    chunk: NDArray[Any] = _memory.bytes[:n_bytes].view(dtype).reshape(shape)
    return chunk
