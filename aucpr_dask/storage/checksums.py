"""Checksums of chunks, which show damage on a disk or on the way.

Every chunk of a store ends with its CRC-32C, as Zarr's codec ``crc32c`` writes it, so that other programs can read it,
too. Zarr takes an absent chunk for an empty one, and its errors do not name the file; so a finished store is read
through :class:`CheckedStore`, which checks each chunk itself and hides the codec.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray
from zarr.abc.store import ByteRequest, Store
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import WrapperStore

from aucpr_dask.errors import StoreError

CRC32C = "crc32c"
N_BYTES = 4  # of a checksum

_DOCUMENT = "zarr.json"


def with_checksum(compressors: Any = "auto") -> tuple[Any, ...]:
    """Return compressors, Zarr's default if none are given, followed by the codec of the checksum."""
    return (*((ZstdCodec(),) if isinstance(compressors, str) else compressors), Crc32cCodec())


def has_checksum(document: Mapping[str, Any]) -> bool:
    """Return whether the chunks of the array with this metadata document end with a checksum."""
    codecs = document.get("codecs") or [{}]
    return bool(codecs[-1].get("name") == CRC32C)


def have_checksums(documents: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether all arrays among these metadata documents have checksums; those of version 0.1 have none."""
    return all(has_checksum(document) for document in documents.values() if document.get("node_type") == "array")


def checksum_of(content: Any) -> bytes:
    """Return the checksum of bytes, as it is stored behind them."""
    return int(google_crc32c.value(content)).to_bytes(N_BYTES, "little")


def checked(content: Buffer | None, where: str) -> NDArray[np.uint8]:
    """Return the bytes of a chunk without their checksum; raise :class:`StoreError` if it is missing or damaged."""
    if content is None:
        raise _broken("a chunk is missing", where)
    whole = content.as_numpy_array().view(np.uint8)
    inner, stored = whole[:-N_BYTES], whole[-N_BYTES:].tobytes()
    if len(stored) < N_BYTES or checksum_of(inner) != stored:
        raise _broken("a chunk is damaged: its checksum does not match", where, f"{whole.size:,} bytes")
    return inner


def _broken(what: str, where: str, received: str | None = None) -> StoreError:
    return StoreError(
        what,
        where=where,
        received=received,
        allowed="the bytes that were written",
        remedy="fetch or write the store again; `aucpr-dask verify` lists all damage",
    )


class CheckedStore(WrapperStore[Store]):
    """A finished store whose chunks are checked when they are read."""

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Return a chunk without its checksum, or a document without mention of checksums."""
        return self._read(key, prototype, await self._store.get(key, prototype, byte_range))

    def _read(self, key: str, prototype: BufferPrototype, content: Buffer | None) -> Buffer | None:
        if not key.endswith(_DOCUMENT):
            return prototype.buffer.from_array_like(checked(content, place_of(self._store, key)))
        return None if content is None else prototype.buffer.from_bytes(_without_codec(content.to_bytes()))


def place_of(store: Store, key: str) -> str:
    """Return where a chunk is, for messages."""
    return f"{str(store).removeprefix('file://')}/{key}"


def _without_codec(document: bytes) -> bytes:
    root = json.loads(document)
    for entry in (root, *((root.get("consolidated_metadata") or {}).get("metadata", {})).values()):
        if has_checksum(entry):
            entry["codecs"] = entry["codecs"][:-1]
    return json.dumps(root).encode()
