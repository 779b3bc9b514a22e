"""Stores in local folders."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.storage import LocalStore

from aucpr_dask.storage.documents import LARGEST_DOCUMENT, damaged

# Documents, which are synced together once all are written; and records of done tasks, of which only the names matter.
_UNSYNCED = ("/zarr.json", "ledger/done/")
SYNCS_AT_ONCE = 16
_NO_PLACE = (errno.ENAMETOOLONG, errno.ELOOP)  # a name that no file can have, or links in a circle
_ROOT = "zarr.json"


class FolderStore(LocalStore):
    """A local folder whose values are on the disk once they are set.

    A file is synced before it gets its name, so that after a power cut it holds the old value or the new one. File
    systems with a journal, as ext4 and XFS, keep changes of names in order, so the names of earlier values are there if
    those of later ones are.
    """

    def get_sync(self, key: str, **options: Any) -> Buffer | None:
        """Return a whole value without an event loop."""
        place = self.root / key
        try:
            if key.endswith(_ROOT) and (size := place.stat().st_size) > LARGEST_DOCUMENT:
                raise damaged(place, f"a document of {size:,} bytes", f"up to {LARGEST_DOCUMENT:,} bytes")
            return default_buffer_prototype().buffer.from_bytes(place.read_bytes())
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            if error.errno in _NO_PLACE:
                raise damaged(place, error.strerror, "a file") from error
            raise

    async def set(self, key: str, value: Buffer) -> None:
        """Store a value."""
        await asyncio.to_thread(self._put, key, value)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Store a value, unless there is one."""
        await asyncio.to_thread(self._put, key, value, keep=True)

    def set_sync(self, key: str, value: Buffer) -> None:
        """Store a value without an event loop."""
        self._put(key, value)

    def delete_sync(self, key: str) -> None:
        """Remove a value without an event loop."""
        self._check_writable()
        (self.root / key).unlink(missing_ok=True)

    def _put(self, key: str, value: Buffer, *, keep: bool = False) -> None:
        self._check_writable()
        place = self.root / key
        place.parent.mkdir(parents=True, exist_ok=True)
        partial = place.with_name(f"{place.name}.{uuid4().hex}.partial")
        try:
            with open(partial, "wb") as file:
                file.write(value.as_buffer_like())
                if not _is_synced_later(key):
                    file.flush()
                    os.fsync(file.fileno())
            if keep:
                os.link(partial, place)
                partial.unlink()
            else:
                partial.replace(place)
        except BaseException as error:
            partial.unlink(missing_ok=True)
            if not (keep and isinstance(error, FileExistsError)):
                raise

    def persist(self, keys: Iterable[str]) -> None:
        """Sync documents that were not synced one by one: in threads, so that the disk can take several at once."""
        with ThreadPoolExecutor(SYNCS_AT_ONCE) as pool:
            list(pool.map(self._sync, keys))

    def _sync(self, key: str) -> None:
        with open(self.root / key, "rb") as file:
            os.fsync(file.fileno())

    def clear_but(self, key: str, check: Callable[[], None]) -> None:
        """Remove everything but the value at a key: first the document that makes a store open; `check` may end it."""
        kept = self.root / key
        (self.root / _ROOT).unlink(missing_ok=True)
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
    """Whether a file has the name under which we, or Zarr, begin to write."""
    return re.fullmatch(r".*\.[0-9a-f]{32}\.partial", name) is not None


def _is_synced_later(key: str) -> bool:
    return any(part in key for part in _UNSYNCED)
