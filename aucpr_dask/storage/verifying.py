"""Look for missing and damaged chunks."""

from __future__ import annotations

import itertools
import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import zarr
from zarr.abc.store import Store

from aucpr_dask.errors import StoreError
from aucpr_dask.storage import backends, checksums, claims, documents, stores, urls

Region = Mapping[str, slice]
Chunk = tuple[tuple[int, ...], str]  # index and key

_PLACE = re.compile(r"c|(?:c[./])?(\d+(?:[./]\d+)*)")  # of a chunk in an array, in version 3 or 2 of Zarr


def damage_of(
    url: str | Path, on_progress: Callable[[int, int], None] | None = None
) -> tuple[int, list[StoreError], bool]:
    """Return the number of chunks of a finished store, an error for each broken one, and whether all have checksums."""
    # Every chunk is decoded. Without checksums, as in a copy by another program, a missing one is not noticed.
    url = urls.concealed(url)
    backend, found = backends.open_backend(url, read_only=True), list[StoreError]()
    store, metadata = stores.open_checked(url)
    arrays = {path: entry for path, entry in metadata.items() if entry["node_type"] == "array"}
    n_chunks, grows = 0, claims.has_word(backends.get_value(backend, claims.STATE), claims.GROWING)
    for done, (path, entry) in enumerate(arrays.items(), start=1):
        try:
            if not grows:  # else the documents of its arrays are ahead of what it shows
                documents.check_same_array(backends.get_value(backend, f"{path}/zarr.json"), entry, path, url)
            array = stores.described_array(store, path, checksums.plain_entry(entry))
        except (StoreError, FileNotFoundError) as error:
            found.append(_as_error(error, checksums.place_of(backend, f"{path}/zarr.json")))
            continue
        n_chunks += _read(array, chunks_of(array, {}), backend, found)
        if on_progress is not None:
            on_progress(done, len(arrays))
    return n_chunks, found, checksums.have_checksums(arrays)


def damage_of_others(
    url: str | Path, on_progress: Callable[[int, int], None] | None = None
) -> tuple[int, list[StoreError], int]:
    """Return the number of chunks of a store of another program, an error for each broken one, and how many are absent.

    Every chunk is decoded. An absent one may be meant: Zarr reads its places as the fill value. On a web server, which
    lists nothing, nobody knows which are absent.
    """
    url = urls.concealed(url)
    backend, found = backends.open_backend(url, read_only=True), list[StoreError]()
    keys = sorted(backends.versions_in(backend) or backends.keys_in(backend)) if backend.supports_listing else None
    with documents.explaining_damage(url):
        root: Any = zarr.open(backend, mode="r")
        members = dict(root.members(max_depth=None)) if isinstance(root, zarr.Group) else {"": root}
    arrays = {path: array for path, array in members.items() if isinstance(array, zarr.Array)}
    below = {path: documents.of_array(array.metadata) for path, array in arrays.items() if path}
    documents.check_plain_arrays(below, url)
    n_chunks = n_places = 0
    for done, array in enumerate(arrays.values(), start=1):
        lengths = array.shards or array.chunks
        n_places += math.prod(-(-size // length) for size, length in zip(array.shape, lengths, strict=True))
        chunks = chunks_of(array, {}) if keys is None else chunks_among(array, keys)
        n_chunks += _read(array, chunks, backend, found)
        if on_progress is not None:
            on_progress(done, len(arrays))
    return n_chunks, found, n_places - n_chunks


def _read(array: zarr.Array[Any], chunks: Iterable[Chunk], backend: Store, found: list[StoreError]) -> int:
    """Read chunks of an array one by one, add the errors to those that were found, and return the number of chunks."""
    lengths, n_chunks = array.shards or array.chunks, 0
    for index, key in chunks:
        n_chunks += 1
        try:
            array[tuple(slice(i * n, (i + 1) * n) for i, n in zip(index, lengths, strict=True))]
        except Exception as error:  # a codec may raise anything
            found.append(_as_error(error, checksums.place_of(backend, key)))
    return n_chunks


def chunks_among(array: zarr.Array[Any], keys: Sequence[str]) -> Iterator[Chunk]:
    """Yield the index and the key of every chunk (or shard) of an array that is among sorted keys."""
    prefix, lengths = f"{array.path}/".lstrip("/"), array.shards or array.chunks
    counts = [-(-size // length) for size, length in zip(array.shape, lengths, strict=True)]
    for key in keys[bisect_left(keys, prefix) :]:
        if not key.startswith(prefix):
            return
        place = _PLACE.fullmatch(key.removeprefix(prefix))
        index = tuple(map(int, re.findall(r"\d+", place[1] or ""))) if place else ()
        if place and len(index) == len(counts) and all(n < count for n, count in zip(index, counts, strict=True)):
            yield index, key


def is_whole(array: zarr.AsyncArray[Any], region: Region) -> bool:
    """Return whether every chunk of a region of an array is there and undamaged; True if nothing can tell."""
    if not checksums.has_checksum(documents.of_array(array.metadata)):
        return True
    store = array.store_path.store
    try:
        for _, key in chunks_of(array, region):
            checksums.checked(backends.get_value(store, key), checksums.place_of(store, key))
    except StoreError:
        return False
    return True


def endings_of(arrays: Iterable[zarr.AsyncArray[Any]], region: Region) -> dict[str, str]:
    """Return the checksums of all chunks of a region by their keys: as written here, otherwise as they are stored."""
    found: dict[str, str] = {}
    for array in arrays:
        store, keys = array.store_path.store, [key for _, key in chunks_of(array, region)]
        written: dict[str, bytes] = getattr(store, "endings", {})
        known = [written.pop(key, None) for key in keys]
        endings = backends.last_bytes(store, keys, checksums.N_BYTES) if None in known else known
        found |= {key: (ending or b"")[-checksums.N_BYTES :].hex() for key, ending in zip(keys, endings, strict=True)}
    return found


def chunks_of(array: Any, region: Region) -> Iterator[Chunk]:
    """Yield the index and the key of every chunk (or shard) of an array that a region, by dimension, touches."""
    dims = getattr(array.metadata, "dimension_names", None) or (None,) * array.ndim
    ranges = []
    for dim, size, length in zip(dims, array.shape, array.shards or array.chunks, strict=True):
        start, stop, _ = region.get(dim, slice(None)).indices(size)
        ranges.append(range(start // length, -(-stop // length)))
    for index in itertools.product(*ranges):
        yield index, f"{array.path}/{array.metadata.encode_chunk_key(index)}".strip("/")


def _as_error(error: Exception, where: str) -> StoreError:
    if isinstance(error, StoreError):
        return error
    return StoreError("this cannot be read", where, f"{type(error).__name__}: {error}"[:300])
