"""Zarr stores that callers pass as objects: an Icechunk session's store, one in memory, one of obstore or fsspec."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from weakref import WeakValueDictionary

from aucpr_dask.errors import StoreError

if TYPE_CHECKING:
    from zarr.abc.store import Store

# By their keys, so that threads of Dask, which unpickle their tasks, find the very object.
_here: WeakValueDictionary[str, StoreName] = WeakValueDictionary()


class StoreName(str):
    """The name by which all code handles a store that a caller passed as an object; it brings the store with it.

    Nothing is known of such a store but that it has Zarr's methods. So notes about what is being written stay in
    memory: nothing is resumed or extended, and only the process that has the object writes. Another process gets a copy
    of a store that can only be read.
    """

    store: Store
    key: str
    is_copy = False

    @classmethod
    def of(cls, store: Any) -> StoreName:
        """Name a store."""
        name = cls(f"{type(store).__name__}://")
        name.store, name.key = store, uuid4().hex
        _here[name.key] = name
        return name

    @cached_property
    def notes(self) -> Store:
        """Where a call that writes makes its notes."""
        from zarr.storage import MemoryStore

        return MemoryStore()

    def opened(self, *, read_only: bool) -> Store:
        """Return the store, for writing only in its own process."""
        if not read_only and (self.is_copy or self.store.read_only):
            remedy = "pass a store that can be written, in the process that made it"
            raise StoreError("this store can only be read", self, remedy=remedy)
        return self.store

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoreName) and self.store == other.store

    __hash__ = str.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the key, and with it a store that is only read."""
        return _named, (self.key, self.store if self.store.read_only else None)


def is_store(place: object) -> bool:
    """Whether something is a store; to ask Zarr would take the time to import it."""
    return hasattr(place, "get_partial_values")


def _named(key: str, store: Any) -> StoreName:
    if (name := _here.get(key)) is not None:
        return name
    if store is None:
        remedy = "evaluate with threads of this process, the default; or pass a store that is opened read-only"
        raise StoreError("a store that is an object is only written by its own process", remedy=remedy)
    name = StoreName.of(store)
    name.is_copy = True
    return name
