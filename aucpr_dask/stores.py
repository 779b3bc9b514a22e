"""The border to Zarr: stores whose root document is written last, so that an unfinished one never opens.

A store is built from a *template*: a Dataset or DataTree whose large variables are described but not
yet there. Everything except the root metadata document is written at once; blocks follow, by whoever
computes them; :meth:`PendingStore.commit` writes the root document, and only then does the store open.
"""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr
from zarr.abc.store import Store
from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import LocalStore, MemoryStore

from aucpr_dask.errors import StoreError, explain

Scores = xr.Dataset | xr.DataTree

ROOT_DOCUMENT = "zarr.json"
FORMAT_VERSION = 1
CHUNK_BYTES = 32 * 2**20  # a task's fixed cost is then small beside reading and ranking one chunk


def is_remote(url: str) -> bool:
    """Whether `url` names something other than a local path."""
    return "://" in url


def open_backend(url: str | Path, *, read_only: bool = False) -> Store:
    """Return the Zarr store behind a path or a URL."""
    if is_remote(str(url)):
        from zarr.storage import FsspecStore

        return FsspecStore.from_url(str(url), read_only=read_only)
    return LocalStore(Path(url), read_only=read_only)


def nodes_of(scores: Scores) -> Iterator[tuple[str, xr.Dataset]]:
    """Yield (path, Dataset) for the Dataset itself (path "") or for each node of a DataTree that holds data."""
    if isinstance(scores, xr.Dataset):
        yield "", scores
        return
    for node in scores.subtree:
        if node.data_vars:
            yield node.path.strip("/"), node.to_dataset()


def map_nodes(scores: Scores, transform: Any) -> Scores:
    """Apply ``transform(path, dataset)`` to each node and return the same kind of object."""
    if isinstance(scores, xr.Dataset):
        return transform("", scores)  # type: ignore[no-any-return]
    return xr.DataTree.from_dict({path: transform(path, dataset) for path, dataset in nodes_of(scores)})


@dataclass(frozen=True)
class PendingStore:
    """A store under construction: its arrays can be written, but it cannot be opened yet."""

    url: str
    backend: Store
    root_document: Buffer

    def array(self, path: str, name: str) -> zarr.Array[Any]:
        """Return the array of variable `name` of the node at `path`, to write blocks into."""
        return open_array(self.backend, path, name)

    def commit(self) -> None:
        """Write the root document: from now on the store opens."""
        sync(self.backend.set(ROOT_DOCUMENT, self.root_document))


def open_array(backend: Store, path: str, name: str) -> zarr.Array[Any]:
    """Open one array of a store, finished or not, for reading and writing."""
    return zarr.open_array(backend, path=f"{path}/{name}".strip("/"), mode="r" if backend.read_only else "r+")


def create_store(url: str | Path, template: Scores, kind: str, *, overwrite: bool = False) -> PendingStore:
    """Lay out a store: everything of `template` but its Dask-backed data and the root document.

    Parameters
    ----------
    url : str or Path
        Where to write.
    template : xarray.Dataset or xarray.DataTree
        Dask-backed variables are laid out with the chunks of their encoding; all others are written.
    kind : str
        Recorded in the root attributes and checked by :func:`open_store`.
    overwrite : bool
        Whether to replace what is at `url`.

    Raises
    ------
    StoreError
        If there is something at `url` already, or it cannot be written.
    """
    url = str(url)
    memory = MemoryStore()
    template = template.copy(deep=False)
    template.attrs = dict(template.attrs) | _identity(kind)
    with warnings.catch_warnings():
        # Consolidated metadata is an extension of Zarr v3 that xarray reads without a warning only if it is there.
        warnings.filterwarnings("ignore", message="Consolidated metadata", category=UserWarning)
        template.to_zarr(memory, compute=False, consolidated=True, zarr_format=3)
    documents = dict(memory._store_dict)
    root_document = documents.pop(ROOT_DOCUMENT)
    try:
        backend = open_backend(url)
        refuse_existing(url, overwrite=overwrite)
        if not sync(backend.is_empty("")):
            _clear(url, backend)
        sync(_write_all(backend, documents))
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(
            explain(
                "the store cannot be written",
                where=url,
                received=f"{type(error).__name__}: {error}",
                remedy="name a folder that exists and that you may write to, on a disk with room left",
            )
        ) from error
    return PendingStore(url, backend, root_document)


def refuse_existing(url: str | Path, *, overwrite: bool) -> None:
    """Raise if there is something at `url` that may not be replaced: worth asking before hours of reading."""
    if not overwrite and not sync(open_backend(url, read_only=True).is_empty("")):
        raise StoreError(
            explain(
                "there is something at this place already",
                where=url,
                remedy="name another place, or pass overwrite=True (--overwrite) to replace it",
            )
        )


def _clear(url: str, backend: Store) -> None:
    if not is_remote(url) and not _looks_like_store(Path(url)):
        raise StoreError(
            explain(
                "refusing to overwrite what is not a Zarr store",
                where=url,
                remedy="remove it yourself if it may go, or name another place",
            )
        )
    # The root document goes first: a crash in the middle must not leave a store that opens.
    sync(backend.delete(ROOT_DOCUMENT))
    sync(backend.clear())


def _looks_like_store(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    if (folder / ROOT_DOCUMENT).exists():
        return True
    # An unfinished store: nothing but metadata documents and chunks, and no finished store further down.
    files = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    is_ours = all(
        f.name == ROOT_DOCUMENT or "c" in f.parts[1:] or f.suffix == ".partial" or f.parts[0] == "ledger" for f in files
    )
    return is_ours and not any("kind" in _attributes_of(path) for path in folder.glob(f"*/{ROOT_DOCUMENT}"))


def _attributes_of(document: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(document.read_bytes()).get("attributes", {}))
    except ValueError:
        return {}


async def _write_all(backend: Store, documents: dict[str, Buffer]) -> None:
    await asyncio.gather(*(backend.set(key, value) for key, value in documents.items()))


def _identity(kind: str) -> dict[str, Any]:
    from aucpr_dask import __version__

    return {"kind": kind, "format_version": FORMAT_VERSION, "aucpr_dask_version": __version__}


def open_store(url: str | Path, kind: str, *, chunks: Any = None) -> Scores:
    """Open a finished store of the given kind as a Dataset (one data set) or a DataTree (many).

    Raises
    ------
    StoreError
        If there is no store, it was never finished, or it is of another kind or a newer version.
    """
    url = str(url)
    attrs = read_root_attrs(url)
    if attrs.get("kind") != kind:
        raise StoreError(
            explain(
                "this is a Zarr store of another kind",
                where=url,
                received=f"kind {attrs.get('kind')!r}",
                allowed=f"kind {kind!r}",
                remedy="name the right store; `aucpr-dask info` says what a store holds",
            )
        )
    if int(attrs.get("format_version", 0)) > FORMAT_VERSION:
        raise StoreError(
            explain(
                "this store was written by a newer version of the package",
                where=url,
                received=f"format version {attrs['format_version']}, written by {attrs.get('aucpr_dask_version')}",
                allowed=f"format versions up to {FORMAT_VERSION}",
                remedy="upgrade aucpr-dask",
            )
        )
    backend = open_backend(url, read_only=True)
    tree = xr.open_datatree(backend, engine="zarr", chunks=chunks, consolidated=True)  # type: ignore[arg-type]
    return tree if tree.children else tree.to_dataset()


def read_root_attrs(url: str) -> dict[str, Any]:
    """Return the root attributes of a finished store; raises :class:`StoreError` as :func:`read_root_document`."""
    try:
        return dict(json.loads(read_root_document(url)).get("attributes", {}))
    except ValueError as error:
        raise StoreError(explain("the root document is not valid JSON", where=url, received=str(error))) from error


def read_root_document(url: str) -> bytes:
    """Return the root metadata document of a finished store.

    Raises
    ------
    StoreError
        If there is no store at `url`, or it was never finished.
    """
    backend = open_backend(url, read_only=True)
    try:
        document = sync(backend.get(ROOT_DOCUMENT, default_buffer_prototype()))
        unfinished = document is None and not sync(backend.is_empty(""))
    except FileNotFoundError:
        document, unfinished = None, False
    if document is not None:
        return document.to_bytes()
    raise StoreError(
        explain(
            "this store was never finished" if unfinished else "there is no store at this place",
            where=url,
            remedy="run the same command again: an evaluation goes on where it stopped; anything else, with --overwrite"
            if unfinished
            else "check the path; `aucpr-dask import` makes a score store",
        )
    )


def chunk_shape(shape: tuple[int, ...], itemsize: int, whole: int) -> tuple[int, ...]:
    """Return chunks of about 32 MiB that keep the last `whole` axes in one piece.

    Examples
    --------
    >>> chunk_shape((1000, 100_000), 4, whole=1)
    (83, 100000)
    """
    kept = shape[len(shape) - whole :]
    room = max(1, CHUNK_BYTES // max(1, itemsize * int(np.prod(kept, dtype=np.int64))))
    chunks: list[int] = []
    for size in reversed(shape[: len(shape) - whole]):
        chunks.insert(0, max(1, min(size, room)))
        room //= chunks[0]
    return (*chunks, *(max(1, size) for size in kept))
