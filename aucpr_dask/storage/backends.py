"""The Zarr store behind a path, a URL or an object.

Object stores (``s3://``, ``gs://``, ``az://``) and web servers (``https://``, for reading) go through obstore, which
retries failed requests; all other schemes go through fsspec. Credentials are found as the tools of each provider do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from zarr.abc.store import Store
from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.core.sync import sync

from aucpr_dask.errors import StoreError
from aucpr_dask.storage import remote, urls
from aucpr_dask.storage.folders import FolderStore
from aucpr_dask.storage.objects import StoreName

WITH_ICECHUNK = (
    "open the repository with Icechunk, and pass its store: session = repository.writable_session('main'); "
    "ap.run(scores, session.store); session.commit('result')"
)


def open_backend(url: str | Path | Store, *, read_only: bool = False) -> Store:
    """Return the Zarr store behind a path, a URL or an object; raise :class:`StoreError` if it cannot be used."""
    place = urls.absolute(url)
    if isinstance(place, StoreName):
        return place.opened(read_only=read_only)
    if place.startswith("icechunk+"):
        raise StoreError("Icechunk repositories are not opened by URL any more", url, remedy=WITH_ICECHUNK)
    if not urls.is_remote(place):
        return FolderStore(Path(place), read_only=read_only)
    return remote.open_remote(place, read_only=read_only)


def notes_of(url: str | Path | Store) -> Store:
    """Return the store of the notes that a call makes while it writes a place: there, or in memory for an object."""
    place = urls.absolute(url)
    return place.notes if isinstance(place, StoreName) else open_backend(place)


def history(url: str | Path) -> None:
    """Icechunk's own history replaces this function of version 0.1."""
    remedy = "open the repository with Icechunk: list(repository.ancestry(branch='main'))"
    raise StoreError("the history of a repository is read with Icechunk", url, remedy=remedy)


def has_values_at_once(store: Store) -> bool:
    """Return whether a store works without an event loop, as folders do."""
    return all(hasattr(store, name) for name in ("get_sync", "set_sync", "delete_sync"))


def get_value(store: Any, key: str) -> Buffer | None:
    """Return the value at a key; None if there is none."""
    if has_values_at_once(store):
        return store.get_sync(key)  # type: ignore[no-any-return]
    return sync(store.get(key, default_buffer_prototype()))  # type: ignore[no-any-return]


def set_value(store: Any, key: str, value: Buffer) -> None:
    """Store a value at a key."""
    if has_values_at_once(store):
        store.set_sync(key, value)
    else:
        sync(store.set(key, value))


def delete_value(store: Any, key: str) -> None:
    """Remove the value at a key."""
    if has_values_at_once(store):
        store.delete_sync(key)
    else:
        sync(store.delete(key))


def clear_but(store: Store, key: str, check: Callable[[], None]) -> None:
    """Remove everything, in a local folder all but the value at a key; `check` may end it.

    There, the document that makes a store open goes first. Elsewhere a store is cleared at once, the value with it.
    """
    if isinstance(store, FolderStore):
        store.clear_but(key, check)
    check()
    if not isinstance(store, FolderStore):
        sync(store.clear())


def persist(store: Store, keys: Iterable[str]) -> None:
    """Return once these values are on the disk, if they are in a local folder."""
    if isinstance(store, FolderStore):
        store.persist(keys)


def sweep(store: Store) -> None:
    """Remove what writes that were killed have left in a local folder."""
    if isinstance(store, FolderStore):
        store.sweep()
