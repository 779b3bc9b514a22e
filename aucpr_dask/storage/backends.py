"""The Zarr store behind a path or a URL: local folders, object stores, web servers, whatever fsspec knows.

Object stores (``s3://``, ``gs://``, ``az://``) and web servers (``https://``, for reading) go through obstore, which
retries what fails; all other schemes through fsspec. Credentials are looked for where the tools of each provider look.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from zarr.abc.store import Store
from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.core.sync import sync

from aucpr_dask.storage.icechunk import open_versioned
from aucpr_dask.storage.remote import open_plain
from aucpr_dask.storage.urls import (
    absolute,
    is_versioned,
)


def open_backend(url: str | Path, *, read_only: bool = False) -> Store:
    """Return the Zarr store behind a path or a URL.

    Raises
    ------
    StoreError
        If a package is absent that the URL needs, the URL is of no use, or it can only be read.
    """
    place = absolute(url)
    return (open_versioned if is_versioned(place) else open_plain)(place, read_only=read_only)


def has_values_at_once(store: Store) -> bool:
    """Whether a store can do without an event loop, as Zarr's newer ones of local folders can."""
    return all(hasattr(store, name) for name in ("get_sync", "set_sync", "delete_sync"))


def get_value(store: Any, key: str) -> Buffer | None:
    """Return what a store holds at a key; None if nothing."""
    if has_values_at_once(store):
        return store.get_sync(key)  # type: ignore[no-any-return]
    return sync(store.get(key, default_buffer_prototype()))  # type: ignore[no-any-return]


def set_value(store: Any, key: str, value: Buffer) -> None:
    """Let a store hold a value at a key."""
    if has_values_at_once(store):
        store.set_sync(key, value)
    else:
        sync(store.set(key, value))


def delete_value(store: Any, key: str) -> None:
    """Let a store hold nothing at a key."""
    if has_values_at_once(store):
        store.delete_sync(key)
    else:
        sync(store.delete(key))


# --- object stores ----------------------------------------------------------------------------------------------


# --- failures ---------------------------------------------------------------------------------------------------
