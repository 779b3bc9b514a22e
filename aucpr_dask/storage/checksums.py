"""Checksums of chunks, which show damage on a disk or on the way.

Every chunk of a store ends with its CRC-32C, as Zarr's codec ``crc32c`` writes it, so that other programs can read it,
too. The root document lists the checksums of all chunks, by array and place, and its own: a chunk in another's place,
an older one or one of another store is damage, too. A copy that another program wrote has no such list.

Zarr takes an absent chunk for an empty one, its errors do not name the file, and a small chunk may fill the memory; so
a finished store is read through :class:`CheckedStore`, which checks and decompresses each chunk itself.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray
from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, Store
from zarr.buffer import default_buffer_prototype
from zarr.dtype import parse_dtype
from zarr.storage import WrapperStore

from aucpr_dask.errors import DamagedError, StoreError
from aucpr_dask.storage import backends, claims
from aucpr_dask.storage.decoding import UndecodableError, can_decode, decoded
from aucpr_dask.storage.documents import damaged, root_of
from aucpr_dask.storage.zarr_private import parse_chunk_key_encoding

CRC32C = "crc32c"
N_BYTES = 4  # of a checksum
LISTED = "crc32c_of_chunks"  # in the consolidated metadata, where Zarr ignores it
OWN = "crc32c_of_document"
NOT_THIS = "a chunk is not the one that was written here"

_DOCUMENT = "zarr.json"
_TO_BYTES = ("bytes", "vlen-utf8")
_CHECKSUM = np.dtype("<u4")
_OWN_FIELD = re.compile(rb'"crc32c_of_document": "([0-9a-f]{8})"')
_CHUNK_KEY = re.compile(r"(.*?)/?c((?:[/.]\d+)*)", re.DOTALL)
_AT_ONCE = 16  # chunks that are in memory together before a store is finished
_ASIDE = 2**18  # bytes of a chunk that are unpacked in another thread, as Zarr does


def has_checksum(document: Mapping[str, Any]) -> bool:
    """Return whether the chunks of the array with this metadata document end with a checksum."""
    codecs = document.get("codecs") or [{}]
    return bool(codecs[-1].get("name") == CRC32C)


def have_checksums(documents: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether all arrays among these metadata documents have checksums."""
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


def _broken(what: str, where: str, received: str | None = None) -> DamagedError:
    remedy = "fetch or write the store again; `aucpr-dask verify` lists all damage"
    return DamagedError(what, where, received, "the bytes that were written", remedy)


# --- the list in the root document ------------------------------------------------------------------------------------


def with_list(
    backend: Store, document: bytes, before: bytes | None, written: Mapping[str, bytes], *, reads_back: bool = False
) -> bytes:
    """Return the root document of a store that is complete, with the checksums of its chunks and of itself."""
    # With `reads_back`, whole chunks are compared with their checksums, otherwise only their ends.
    # Those that the document `before` lists are kept, unless the chunk was cut off by the end of the array. Chunks must
    # end as they did in the memory of who has `written` them: otherwise the list would make good what came between.
    root = json.loads(document)
    old = {} if before is None else json.loads(before).get("consolidated_metadata") or {}
    found: dict[str, str] = {}
    for path, entry in root["consolidated_metadata"]["metadata"].items():
        if entry["node_type"] != "array" or not has_checksum(entry):
            continue
        values, is_known = np.zeros(_counts(entry), _CHECKSUM), np.zeros(_counts(entry), bool)
        was, listed = old.get("metadata", {}).get(path), old.get(LISTED, {}).get(path)
        if listed is not None and was["chunk_grid"] == entry["chunk_grid"]:
            sizes = zip(was["shape"], entry["shape"], _lengths(was), _counts(was), strict=True)
            kept = tuple(slice(count if size == now else size // length) for size, now, length, count in sizes)
            values[kept] = _values(listed, was)[kept]
            is_known[kept] = True
        places = [tuple(map(int, index)) for index in np.argwhere(~is_known)]
        naming = parse_chunk_key_encoding(entry["chunk_key_encoding"])
        keys = [f"{path}/{naming.encode_chunk_key(place)}" for place in places]
        for place, ending in zip(places, _endings(backend, keys, written, reads_back=reads_back), strict=True):
            values[place] = int.from_bytes(ending, "little")
        found[path] = base64.b64encode(values.tobytes()).decode()
    root["consolidated_metadata"] |= {LISTED: found, OWN: "00000000"}
    content = json.dumps(root).encode()
    own = f'"{OWN}": "{google_crc32c.value(content):08x}"'
    return content.replace(f'"{OWN}": "00000000"'.encode(), own.encode())


def has_list(document: bytes) -> bool:
    """Return whether a root document lists the checksums of all chunks."""
    return f'"{LISTED}"'.encode() in document


def without_list(document: bytes) -> bytes:
    """Return a root document as it was laid out, before any chunk was written."""
    if OWN.encode() not in document:
        return document
    root = json.loads(document)
    for name in (LISTED, OWN):
        root["consolidated_metadata"].pop(name, None)
    return json.dumps(root).encode()


def check_document(document: bytes, where: object) -> None:
    """Raise unless a root document has the checksum that it states, if it does."""
    if (field := _OWN_FIELD.search(document)) is not None:
        sound = document.replace(field[0], f'"{OWN}": "00000000"'.encode())
        if f"{google_crc32c.value(sound):08x}".encode() != field[1]:
            raise damaged(where, "a root document whose checksum does not match")


def _endings(backend: Store, keys: Sequence[str], written: Mapping[str, bytes], *, reads_back: bool) -> Iterator[bytes]:
    """Yield the checksum of each chunk, in order; raise for the first that is not as it was written."""
    n = _AT_ONCE if reads_back else max(1, len(keys))
    for start in range(0, len(keys), n):
        part = keys[start : start + n]
        endings: Iterable[bytes | None]
        if reads_back:
            contents = zip(part, backends.get_values(backend, part), strict=True)
            endings = (checksum_of(checked(content, place_of(backend, key))) for key, content in contents)
        else:
            endings = backends.last_bytes(backend, part, N_BYTES)
        for key, ending in zip(part, endings, strict=True):
            if ending is None:
                raise _broken("a chunk is missing", place_of(backend, key))
            if written.get(key, ending)[-N_BYTES:] != ending:
                received = "one that was put there before the store was finished"
                raise _broken(NOT_THIS, place_of(backend, key), received)
            yield ending


def _values(listed: str, entry: Mapping[str, Any]) -> NDArray[np.uint32]:
    return np.frombuffer(base64.b64decode(listed, validate=True), _CHECKSUM).reshape(_counts(entry))


def _lengths(entry: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the lengths of the chunks of an array."""
    return tuple(entry["chunk_grid"]["configuration"]["chunk_shape"])


def _counts(entry: Mapping[str, Any]) -> tuple[int, ...]:
    """Return how many chunks an array has along its dimensions."""
    return tuple(-(-size // length) for size, length in zip(entry["shape"], _lengths(entry), strict=True))


# --- reading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Array:
    """What is known of the chunks of an array before they are read."""

    has_checksum: bool
    codecs: Sequence[Mapping[str, Any]] | None  # that are undone here; None if Zarr undoes all
    size: int  # of a whole chunk
    itemsize: int | None  # unknown of text
    listed: NDArray[np.uint32] | None
    is_cut: tuple[int, ...]  # the dimensions along which the last chunk reaches beyond the end of the array


def _split(entry: Mapping[str, Any]) -> tuple[list[Any], list[Any]] | None:
    """Return the codecs of an array that are left to Zarr, and those that are undone here; None if Zarr undoes all."""
    codecs = entry["codecs"][:-1] if has_checksum(entry) else entry["codecs"]
    names = [codec["name"] for codec in codecs]
    first = next((place for place, name in enumerate(names, start=1) if name in _TO_BYTES), 0)
    is_ours = first and set(names[:first]) <= {*_TO_BYTES, "transpose"} and can_decode(codecs[first:])
    return (codecs[:first], codecs[first:]) if is_ours else None


@lru_cache(maxsize=256)
def _itemsize(data_type: str) -> int | None:
    """Return the bytes of an element; None of text, whose length its metadata do not tell."""
    dtype = parse_dtype(json.loads(data_type), zarr_format=3).to_native_dtype()
    return None if dtype.kind in ("O", "T") else int(dtype.itemsize)


class CheckedStore(WrapperStore[Store]):
    """A finished store whose root document has been checked, and whose chunks are checked when they are read."""

    read_only = True

    def __init__(self, store: Store, root: Mapping[str, Any], document: bytes) -> None:
        super().__init__(store)
        self._identity = google_crc32c.value(document)
        self._is_whole = b'"consolidated_metadata"' in document  # Icechunk drops them
        self._remember(root)

    def _remember(self, root: Mapping[str, Any]) -> None:
        consolidated = root["consolidated_metadata"]
        self._entries: dict[str, Any] = consolidated["metadata"]
        self._listed: dict[str, str] = consolidated.get(LISTED, {})
        self._arrays: dict[str, _Array] = {}
        plain = {key: plain_entry(entry) for key, entry in {id(one): one for one in self._entries.values()}.items()}
        entries = {path: plain[id(entry)] for path, entry in self._entries.items()}
        self._root = json.dumps(dict(root) | {"consolidated_metadata": consolidated | {"metadata": entries}}).encode()

    def without(self, paths: Collection[str]) -> CheckedStore:
        """Return the same store, whose root document leaves out some data sets; they can be read."""
        if not paths:
            return self
        view, root, left_out = CheckedStore.__new__(CheckedStore), json.loads(self._root), set(paths)
        metadata = root["consolidated_metadata"]["metadata"]
        root["consolidated_metadata"]["metadata"] = {
            place: entry for place, entry in metadata.items() if not {place, place.rpartition("/")[0]} & left_out
        }
        view.__dict__ = self.__dict__.copy()  # a copy would be pickled
        view._root = json.dumps(root).encode()
        return view

    def with_read_only(self, read_only: bool = True) -> CheckedStore:
        """Return the same store, which nobody writes."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the root document, which may be large: another process reads it once."""
        left_out = {"_entries", "_listed", "_arrays", "_root"} if self._is_whole else set[str]()
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Return a chunk without its checksum, unpacked; or the root document without mention of either."""
        if not hasattr(self, "_entries"):
            await self._recall()
        if key == _DOCUMENT:
            return prototype.buffer.from_bytes(self._root)
        found = _CHUNK_KEY.fullmatch(key)
        array = self._array(found[1]) if found else None
        if array is None or not found or (array.codecs is None and byte_range is not None):
            return await self._store.get(key, prototype, byte_range)
        content = await self._store.get(key, prototype)
        where = place_of(self._store, key)
        if array.has_checksum:
            inner = checked(content, where)
            await self._check_place(array, found, content, where)
        elif content is None:
            return None
        else:
            inner = content.as_numpy_array()
        if array.codecs is None:
            return content
        try:
            arguments = inner, array.codecs, array.size, array.itemsize
            plain = decoded(*arguments) if inner.size < _ASIDE else await asyncio.to_thread(decoded, *arguments)
        except UndecodableError as error:
            raise _broken("a chunk cannot be decoded", where, str(error)) from error
        return prototype.buffer.from_array_like(np.frombuffer(plain, np.uint8))

    def _array(self, path: str) -> _Array | None:
        if path not in self._arrays:
            entry = self._entries.get(path, {})
            if entry.get("node_type") != "array":
                return None
            try:
                split, listed, lengths = _split(entry), self._listed.get(path), _lengths(entry)
                sizes = zip(entry["shape"], lengths, strict=True)
                self._arrays[path] = _Array(
                    has_checksum(entry),
                    None if split is None else split[1],
                    math.prod(lengths),
                    _itemsize(json.dumps(entry["data_type"])),
                    None if listed is None else _values(listed, entry),
                    tuple(dim for dim, (size, length) in enumerate(sizes) if size % length),
                )
            except (ValueError, TypeError, LookupError) as error:
                raise damaged(f"{self._store}, array {path!r}", f"{type(error).__name__}: {error}") from error
        return self._arrays[path]

    async def _check_place(self, array: _Array, key: re.Match[str], content: Any, where: str) -> None:
        """Raise unless a chunk has the checksum that is listed for its place."""
        if array.listed is None:
            return
        checksum = int.from_bytes(content.as_numpy_array()[-N_BYTES:].tobytes(), "little")
        place, counts = tuple(map(int, re.findall(r"\d+", key[2]))), array.listed.shape
        is_there = len(place) == len(counts) and all(map(int.__lt__, place, counts))
        if is_there and array.listed[place] == checksum:
            return
        if is_there and any(place[dim] == counts[dim] - 1 for dim in array.is_cut):
            # A chunk at the end of an array may have grown since the result was opened, or be growing. Only such a
            # chunk of a finished store changes; of the part that the store shows, nothing changes.
            if claims.has_word(await self._store.get(claims.STATE, default_buffer_prototype()), claims.GROWING):
                return
            document = await self._store.get(_DOCUMENT, default_buffer_prototype())
            root = {} if document is None else root_of(document.to_bytes(), self._store)
            now, path = root.get("consolidated_metadata") or {}, key[1]
            entry, listed = now.get("metadata", {}).get(path), now.get(LISTED, {}).get(path)
            has_grown = entry is not None and listed is not None and entry["shape"] != self._entries[path]["shape"]
            if has_grown and _values(listed, entry)[place] == checksum:
                return
        received = "that of another place, an older one, or one of a store that has replaced this one"
        raise _broken(NOT_THIS, where, received)

    async def _recall(self) -> None:
        """Read the root document that another process has checked."""
        place = (str(self._store), self._identity)
        if place not in _recalled:
            document = await self._store.get(_DOCUMENT, default_buffer_prototype())
            if document is None or google_crc32c.value(content := document.to_bytes()) != self._identity:
                what = "this store has been replaced since it was opened"
                raise StoreError(what, str(self._store).removeprefix("file://"), remedy="open it again")
            while len(_recalled) >= 4:
                _recalled.pop(next(iter(_recalled)))
            _recalled[place] = root_of(content, self._store)
        self._remember(_recalled[place])


_recalled: dict[tuple[str, int], dict[str, Any]] = {}


def plain_entry(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of an array as a :class:`CheckedStore` shows it."""
    split = _split(entry) if entry.get("node_type") == "array" else None
    return entry if split is None else entry | {"codecs": split[0]}


def place_of(store: Store, key: str) -> str:
    """Return where a chunk is, for messages."""
    return f"{str(store).removeprefix('file://')}/{key}"
