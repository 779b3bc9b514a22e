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
    remedy = "fetch or write the store again; `aucpr-dask verify` lists all damage"
    return StoreError(what, where, received, "the bytes that were written", remedy)


class CheckedStore(WrapperStore[Store]):
    """A finished store whose root document has been checked, and whose chunks are checked when they are read."""

    def __init__(self, store: Store, root: Mapping[str, Any], *, hides: bool) -> None:
        super().__init__(store)
        self._hides = hides  # the codec of the checksums
        self._root = json.dumps(_without_codecs(root) if hides else root).encode()

    read_only = True

    def with_read_only(self, read_only: bool = True) -> CheckedStore:
        """Return the same store, which nobody writes."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the root document, which may be large: a process that gets an open array reads chunks."""
        return self.__dict__ | {"_root": b""}

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Return a chunk without its checksum, or the root document without mention of checksums."""
        if key == _DOCUMENT:
            return prototype.buffer.from_bytes(self._root)
        content = await self._store.get(key, prototype, byte_range)
        if not self._hides or key.endswith(_DOCUMENT):
            return content
        return prototype.buffer.from_array_like(checked(content, place_of(self._store, key)))


def place_of(store: Store, key: str) -> str:
    """Return where a chunk is, for messages."""
    return f"{str(store).removeprefix('file://')}/{key}"


def _without_codecs(root: Mapping[str, Any]) -> dict[str, Any]:
    consolidated = root["consolidated_metadata"]
    entries = {
        path: entry | {"codecs": entry["codecs"][:-1]} if has_checksum(entry) else entry
        for path, entry in consolidated["metadata"].items()
    }
    return dict(root) | {"consolidated_metadata": consolidated | {"metadata": entries}}
