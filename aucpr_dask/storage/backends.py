"""The Zarr store behind a path, a URL or an object.

Object stores (``s3://``, ``gs://``, ``az://``) and web servers (``https://``, for reading) go through obstore, which
retries failed requests; all other schemes go through fsspec. Credentials are found as the tools of each provider do.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any
from uuid import uuid4

from zarr.abc.buffer import Buffer
from zarr.abc.store import Store, SuffixByteRequest
from zarr.buffer import default_buffer_prototype
from zarr.storage import LocalStore

from aucpr_dask.errors import StoreError, UnreachableError
from aucpr_dask.storage import remote, urls
from aucpr_dask.storage.documents import LARGEST_DOCUMENT, damaged
from aucpr_dask.storage.urls import StoreName
from aucpr_dask.storage.zarr_private import concurrent_map, sync


def open_backend(url: str | Path | Store, *, read_only: bool = False) -> Store:
    """Return the Zarr store behind a path, a URL or an object; raise :class:`StoreError` if it cannot be used."""
    place = urls.absolute(url)
    if isinstance(place, StoreName):
        return place.opened(read_only=read_only)
    if not urls.is_remote(place):
        return FolderStore(Path(place), read_only=read_only)
    return remote.open_remote(place, read_only=read_only)


def notes_of(url: str | Path | Store) -> Store:
    """Return the store of the notes that a call makes while it writes a place: there, or in memory for an object."""
    place = urls.absolute(url)
    return place.notes if isinstance(place, StoreName) else open_backend(place)


def has_values_at_once(store: Store) -> bool:
    """Return whether a store works without an event loop, as folders do."""
    return all(hasattr(store, name) for name in ("get_sync", "set_sync", "delete_sync"))


def get_value(store: Any, key: str) -> Buffer | None:
    """Return the value at a key; None if there is none."""
    if has_values_at_once(store):
        return store.get_sync(key)  # type: ignore[no-any-return]
    return sync(store.get(key, default_buffer_prototype()))  # type: ignore[no-any-return]


def get_values(store: Any, keys: Sequence[str]) -> Iterator[Buffer | None]:
    """Return the values at several keys, in their order: of a folder one by one, otherwise at once."""
    if has_values_at_once(store):
        return map(store.get_sync, keys)
    calls = [(key, default_buffer_prototype()) for key in keys]
    return iter(sync(concurrent_map(calls, store.get, limit=64)))


def keys_in(store: Any, prefix: str = "") -> list[str]:
    """Return the keys of all values that begin so, in order."""

    async def listed() -> list[str]:
        return [key async for key in store.list_prefix(prefix)]

    return sorted(sync(listed()))


def last_bytes(store: Any, keys: Sequence[str], n: int) -> list[bytes | None]:
    """Return the last bytes of many values, in their order; None for values that are not there."""
    if isinstance(store, FolderStore):
        found = list[bytes | None]()
        for key in keys:
            try:
                with open(store.root / key, "rb", buffering=0) as file:
                    file.seek(max(0, os.fstat(file.fileno()).st_size - n))
                    found.append(file.read(n))
            except FileNotFoundError:
                found.append(None)
        return found

    written: dict[str, bytes] = getattr(store, "endings", {})

    async def read(key: str) -> bytes | None:
        if key in written:
            return written[key][-n:]
        found = await store.get(key, default_buffer_prototype(), SuffixByteRequest(n))
        return None if found is None else bytes(found.to_bytes())

    return sync(concurrent_map([(key,) for key in keys], read, limit=64))


def version_of(store: Store, key: str) -> object:
    """Return what changes whenever a value is replaced, without reading it; None if it is gone, or nothing tells."""
    if isinstance(store, FolderStore):
        with suppress(OSError):
            facts = (store.root / key).stat()
            return facts.st_ino, facts.st_mtime_ns, facts.st_size
    if isinstance(store, remote.RemoteStore):
        return sync(store.version_of(key))
    return None


def versions_in(store: Store) -> dict[str, str] | None:
    """Return what changes whenever a value is replaced, by the keys of all values; None where nothing tells.

    A list of a thousand objects is one request.
    """
    if isinstance(store, FolderStore):
        return dict(_versions_below(str(store.root), ""))
    return sync(store.versions()) if isinstance(store, remote.RemoteStore) else None


def set_value(store: Any, key: str, value: Buffer) -> None:
    """Store a value at a key."""
    if has_values_at_once(store):
        store.set_sync(key, value)
    else:
        sync(store.set(key, value))


def set_values(store: Any, values: Mapping[str, Buffer]) -> None:
    """Store many values, which :func:`persist` has to follow."""
    if isinstance(store, FolderStore):
        for key, value in values.items():  # in turn, because threads cost more
            store.put(key, value, is_synced=False)
    else:
        sync(concurrent_map(list(values.items()), store.set, limit=64))


def delete_value(store: Any, key: str) -> None:
    """Remove the value at a key."""
    if has_values_at_once(store):
        store.delete_sync(key)
    else:
        sync(store.delete(key))


def clear_but(store: Store, key: str, check: Callable[[], None]) -> None:
    """Remove everything, in a local folder all but the value at a key; `check` may end it."""
    # There, the document that makes a store open goes first. Elsewhere a store is cleared at once, the value with it.
    if isinstance(store, FolderStore):
        kept = store.root / key
        (store.root / _ROOT).unlink(missing_ok=True)
        for path in (*store.root.iterdir(), *kept.parent.iterdir()):
            for pause in (0.01, 0.1, 0.5, 0.0) if path not in (kept, kept.parent) else ():
                check()
                try:
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
                    break
                except OSError:  # a run that is stopping may still be writing its last chunk there
                    if not pause:
                        raise
                    time.sleep(pause)
    check()
    if not isinstance(store, FolderStore):
        sync(store.clear())


def persist(store: Store, keys: Collection[str]) -> None:
    """Return once these values are on the disk, if they are in a local folder."""

    def sync_one(place: Path) -> None:
        with open(place, "rb", buffering=0) as file:
            os.fsync(file.fileno())

    if isinstance(store, FolderStore) and (len(keys) < MANY_SYNCS or not sync_file_system(store.root)):
        with ThreadPoolExecutor(SYNCS_AT_ONCE) as pool:  # so that the disk can take several at once
            list(pool.map(sync_one, (store.root / key for key in keys)))


def sweep(store: Store) -> None:
    """Remove what writes that were killed have left in a local folder."""
    for folder, _, names in os.walk(store.root) if isinstance(store, FolderStore) else ():
        for name in filter(_is_leftover, names):
            Path(folder, name).unlink(missing_ok=True)


# --- local folders ----------------------------------------------------------------------------------------------

_UNSYNCED = "ledger/done/"  # records of done tasks, of which only the names matter
SYNCS_AT_ONCE, MANY_SYNCS = 16, 8
SMALL_FILE = 2**16  # bytes
MOST_DIRTY = 2**18  # KiB of the memory of a machine that are to be written to its disks
_NO_PLACE = (errno.ENAMETOOLONG, errno.ELOOP)  # a name that no file can have, or links in a circle
_ROOT = "zarr.json"


class FolderStore(LocalStore):
    """A local folder whose values are on the disk once they are set.

    A file is synced before it gets its name, so that after a power cut it holds the old value or the new one. File
    systems with a journal, as ext4 and XFS, keep changes of names in order, so the names of earlier values are there if
    those of later ones are.
    """

    def __init__(self, root: Path | str, *, read_only: bool = False) -> None:
        super().__init__(root, read_only=read_only)
        self.endings: dict[str, bytes] = {}  # the last bytes of the chunks that were written, from memory

    def get_sync(self, key: str, **options: Any) -> Buffer | None:
        """Return a whole value without an event loop."""
        place = self.root / key
        try:
            if key.endswith(_ROOT) and (size := place.stat().st_size) > LARGEST_DOCUMENT:
                raise damaged(place, f"a document of {size:,} bytes", f"up to {LARGEST_DOCUMENT:,} bytes")
            return default_buffer_prototype().buffer.from_bytes(place.read_bytes())
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except UnicodeEncodeError as error:
            raise damaged(repr(str(place)), "a name that no file can have", "a file") from error
        except StoreError:
            raise
        except OSError as error:
            if error.errno in _NO_PLACE:
                raise damaged(place, error.strerror, "a file") from error
            raise _unreadable(place, error) from error

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Buffer | None:
        """Return a value, or a part of it; a small one at once, because another thread takes longer than the disk."""
        place = self.root / key
        try:
            if byte_range is None and os.stat(place).st_size <= SMALL_FILE:
                return self.get_sync(key)
        except (OSError, ValueError):  # what is wrong, the next lines say
            pass
        try:
            return await super().get(key, prototype, byte_range)
        except OSError as error:
            raise _unreadable(place, error) from error

    async def set(self, key: str, value: Buffer) -> None:
        """Store a value."""
        await asyncio.to_thread(self.set_sync, key, value)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Store a value, unless there is one."""
        await asyncio.to_thread(self.put, key, value, keep=True)

    def set_sync(self, key: str, value: Buffer) -> None:
        """Store a value without an event loop."""
        self.put(key, value, is_synced=not key.startswith(_UNSYNCED))

    def delete_sync(self, key: str) -> None:
        """Remove a value without an event loop."""
        self._check_writable()
        (self.root / key).unlink(missing_ok=True)

    def put(self, key: str, value: Buffer, *, keep: bool = False, is_synced: bool = True) -> None:
        """Store a value; not if there is one that is to be kept. What is not synced, :func:`persist` has to follow."""
        self._check_writable()
        place = f"{self.root}/{key}"
        partial = f"{place}.{uuid4().hex}.partial"
        try:
            with _created(partial) as file:
                rest = memoryview(value.as_buffer_like()).cast("B")
                while rest:  # a single write takes at most 2 GiB
                    rest = rest[file.write(rest) :]
                if is_synced:
                    os.fsync(file.fileno())
            if keep:
                _named_if_new(partial, place)
            else:
                os.replace(partial, place)
                if not key.endswith(f"/{_ROOT}") and not key.startswith(_UNSYNCED):
                    self.endings[key] = bytes(value.as_numpy_array()[-8:])
        except BaseException as error:
            with suppress(FileNotFoundError):
                os.unlink(partial)
            if not (keep and isinstance(error, FileExistsError)):
                raise

    async def is_empty(self, prefix: str) -> bool:
        """Whether there is nothing, or only what a write that was killed has left."""
        files = (file for file in (self.root / prefix).rglob("*") if not file.is_dir())
        try:
            return await super().is_empty(prefix) or all(_is_leftover(file.name) for file in files)
        except PermissionError as error:  # of a folder above all others, as "/"
            raise _unreadable(self.root / prefix, error) from error


def _versions_below(folder: str, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the key of every file, with its size and the time of its last change."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _versions_below(entry.path, f"{prefix}{entry.name}/")
            else:
                facts = entry.stat()
                yield prefix + entry.name, f"{facts.st_size} {facts.st_mtime_ns}"


def _created(place: str) -> FileIO:
    """Open a new file; its folder is made only where it is missing, because most files are not the first."""
    try:
        return open(place, "wb", buffering=0)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        return open(place, "wb", buffering=0)


def _named_if_new(partial: str, place: str) -> None:
    """Give a file its name unless there is one of that name; raise FileExistsError if there is."""
    try:
        os.link(partial, place)
    except FileExistsError:
        raise
    except OSError:  # mounted buckets and some file systems of networks have no links; a short file comes all at once
        content = Path(partial).read_bytes()
        with open(place, "xb", buffering=0) as file:
            file.write(content)
            os.fsync(file.fileno())
    os.unlink(partial)


def sync_file_system(folder: Path) -> bool:
    """Sync all files of the file system of a folder, ten times as fast as one by one; return whether it was done.

    It is not where other programs have written so much that waiting for that would take longer, nor where the system
    lacks the call or, before Linux 5.8, does not say whether it failed.
    """
    import ctypes

    if not hasattr(call := ctypes.CDLL(None, use_errno=True), "syncfs"):
        return False
    release = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))
    dirty = re.search(r"^Dirty: *(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    if release < (5, 8) or dirty is None or int(dirty[1]) > MOST_DIRTY:
        return False
    place = os.open(folder, os.O_RDONLY)
    try:
        if call.syncfs(place):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(folder))
    finally:
        os.close(place)
    return True


def _unreadable(place: Path, error: OSError) -> UnreachableError:
    """Return the error for a file that is there, and that the system does not let us read."""
    remedy = "let this user, and that of the workers, read it, and see that its disk answers"
    return UnreachableError("a store cannot be read", place, f"{type(error).__name__}: {error.strerror}", None, remedy)


def _is_leftover(name: str) -> bool:
    """Whether a file has the name under which we, or Zarr, begin to write."""
    return name.endswith(".partial") and re.fullmatch(r".*\.[0-9a-f]{32}\.partial", name) is not None
