"""Stores in local folders."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import LocalStore

from aucpr_dask.errors import StoreError
from aucpr_dask.storage.documents import LARGEST_DOCUMENT, damaged

# Documents, which are synced together once all are written; and records of tasks, of which only the names matter.
_UNSYNCED = ("/zarr.json", "ledger/done/", "ledger/failed/")
SYNCS_AT_ONCE = 16
_DOCUMENTS = ("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")


class FolderStore(LocalStore):
    """A local folder whose values are files: a pipe would block, and a device never ends.

    Values are on the disk once they are set. A file is synced after it has its name: file systems with a journal, as
    ext4 and XFS, then keep the name, too.
    """

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the value of a key; None if there is none."""
        self._check(key)
        return await super().get(key, prototype, byte_range)

    async def get_partial_values(self, prototype: BufferPrototype, key_ranges: Any) -> list[Buffer | None]:
        """Return parts of values."""
        key_ranges = list(key_ranges)
        for key, _ in key_ranges:
            self._check(key)
        return await super().get_partial_values(prototype, key_ranges)

    async def set(self, key: str, value: Buffer) -> None:
        """Store a value."""
        await super().set(key, value)
        if not _is_expendable(key):
            await asyncio.to_thread(self._sync, key)

    if hasattr(LocalStore, "get_sync"):  # newer versions of Zarr

        def get_sync(self, key: str, **options: Any) -> Buffer | None:
            """Return the value of a key without an event loop."""
            self._check(key)
            return super().get_sync(key, **options)

        def set_sync(self, key: str, value: Buffer) -> None:
            """Store a value without an event loop."""
            super().set_sync(key, value)
            if not _is_expendable(key):
                self._sync(key)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Store a value, unless there is one."""
        await super().set_if_not_exists(key, value)
        await asyncio.to_thread(self._sync, key)

    def _sync(self, key: str) -> None:
        with open(self.root / key, "rb") as file:
            os.fsync(file.fileno())

    def persist(self, keys: Iterable[str]) -> None:
        """Sync values that were not synced one by one: in threads, so that the disk can take several at once."""
        with ThreadPoolExecutor(SYNCS_AT_ONCE) as pool:
            list(pool.map(self._sync, filter(_is_expendable, keys)))

    def clear_but(self, key: str, check: Callable[[], None]) -> None:
        """Remove everything but the value at a key: first the document that makes a store open; `check` may end it."""
        kept = self.root / key
        (self.root / _DOCUMENTS[0]).unlink(missing_ok=True)
        for folder in (self.root, kept.parent):
            for path in folder.iterdir():
                if path not in (kept, kept.parent):
                    _remove(path, check)

    def sweep(self) -> None:
        """Remove what writes that were killed have left behind."""
        for file in self.root.rglob("*.partial"):
            if _is_leftover(file.name):
                file.unlink(missing_ok=True)

    async def is_empty(self, prefix: str) -> bool:
        """Whether there is nothing, or only what a write that was killed has left."""
        files = (file for file in (self.root / prefix).rglob("*") if not file.is_dir())
        return await super().is_empty(prefix) or all(_is_leftover(file.name) for file in files)

    def _check(self, key: str) -> None:
        """Raise unless there is nothing or a file, and a document has a bearable size."""
        place = f"{self.root}/{key}"
        try:
            facts = os.stat(place)
        except (FileNotFoundError, NotADirectoryError):
            return
        except (OSError, ValueError) as error:  # links in a circle, a name with a zero
            raise damaged(place, getattr(error, "strerror", None) or error, "a file") from error
        if stat.S_ISDIR(facts.st_mode):
            return
        if not stat.S_ISREG(facts.st_mode):
            raise StoreError(
                "this part of a store is not a file",
                where=place,
                received="a pipe, a socket or a device",
                allowed="a file, or a link to one",
                remedy="fetch or write the store again",
            )
        if facts.st_size > LARGEST_DOCUMENT and key.endswith(_DOCUMENTS):
            raise damaged(place, f"a document of {facts.st_size:,} bytes", f"up to {LARGEST_DOCUMENT:,} bytes")


def _remove(path: Path, check: Callable[[], None]) -> None:
    """Remove a file or a folder; a run that is stopping may still be writing its last chunk there."""
    for pause in (0.01, 0.1, 0.5, 0.0):
        check()
        try:
            return shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        except OSError:
            if not pause:
                raise
            time.sleep(pause)


def _is_leftover(name: str) -> bool:
    """Whether a file has the name under which Zarr begins to write."""
    return re.fullmatch(r".*\.[0-9a-f]{32}\.partial", name) is not None


def _is_expendable(key: str) -> bool:
    return any(part in key for part in _UNSYNCED)
