"""Stores in local folders."""

from __future__ import annotations

import os
import stat
from typing import Any

from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import LocalStore

from aucpr_dask.errors import StoreError
from aucpr_dask.storage.documents import LARGEST_DOCUMENT, damaged

_DOCUMENTS = ("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")


class FolderStore(LocalStore):
    """A local folder whose values are files: a pipe would block, and a device never ends."""

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

    if hasattr(LocalStore, "get_sync"):  # newer versions of Zarr

        def get_sync(self, key: str, **options: Any) -> Buffer | None:
            """Return the value of a key without an event loop."""
            self._check(key)
            return super().get_sync(key, **options)

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
