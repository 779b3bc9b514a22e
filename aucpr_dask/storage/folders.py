"""Stores in local folders."""

from __future__ import annotations

import asyncio
import os
import re
import stat
from typing import Any

from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import LocalStore

from aucpr_dask.errors import StoreError
from aucpr_dask.storage.documents import LARGEST_DOCUMENT, damaged

# What a crash may lose: documents that the root document repeats, and records of tasks, which are then computed again.
_UNSYNCED = ("/zarr.json", "ledger/done/", "ledger/failed/")
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

    def _sync(self, key: str) -> None:
        with open(self.root / key, "rb") as file:
            os.fsync(file.fileno())

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


def _is_leftover(name: str) -> bool:
    """Whether a file has the name under which Zarr begins to write."""
    return re.fullmatch(r".*\.[0-9a-f]{32}\.partial", name) is not None


def _is_expendable(key: str) -> bool:
    return any(part in key for part in _UNSYNCED)
