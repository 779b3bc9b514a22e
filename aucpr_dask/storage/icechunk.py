"""Stores in an Icechunk repository: each finished store is one commit, and an unfinished one is invisible.

Data are first *staged* in a separate folder inside the repository, as an ordinary Zarr store with its ledger, so that
any number of workers can write them and an interrupted run can resume. Writing the root document publishes the stage
as one commit on the branch ``main``. Until then readers see the last finished snapshot.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype

from aucpr_dask.errors import StoreError
from aucpr_dask.storage.remote import explained, open_plain, refuse_secret, s3_options
from aucpr_dask.storage.urls import ICECHUNK, absolute, concealed, is_remote, is_versioned, revealed, scheme_of

BRANCH = "main"
STAGE = "stage"  # a folder inside the repository; Icechunk leaves unknown folders alone
LEDGER = "ledger/"  # the notes of a run, not part of a snapshot
REPLACES = "replaces"  # marks a stage that replaces everything finished
PUBLICATION = "publication"  # identifies the stage, so that it is not committed twice
ROOT_DOCUMENT = "zarr.json"
REMOVED = "removed/"  # keys of the last snapshot that the next one will not have
COPIES_AT_ONCE = 16

Buffers = list[Buffer | None]
Keys = list[str]  # stores have a method called list, which hides the type


@dataclass(frozen=True)
class Snapshot:
    """One finished state of a versioned store.

    Parameters
    ----------
    snapshot : str
        Its identifier: ``open_result(f"{url}#{snapshot}")`` opens it.
    written_at : datetime
        When it was committed.
    message : str
        What it is.
    """

    snapshot: str
    written_at: datetime
    message: str


def history(url: str | Path) -> list[Snapshot]:
    """Return the finished states of a store in an Icechunk repository, the newest first.

    Parameters
    ----------
    url : str or Path
        ``icechunk+file:///path``, ``icechunk+s3://bucket/prefix``, ...

    Returns
    -------
    list of Snapshot

    Raises
    ------
    StoreError
        If there is no such repository.

    Examples
    --------
    >>> history("icechunk+s3://bucket/result")  # doctest: +SKIP
    [Snapshot(snapshot='1WG5XQ94G7DEPJRBMJV0', written_at=..., message='result of s3://bucket/scores.zarr')]
    """
    place = _Place.of(absolute(url))
    repository = place.repository()
    if repository is None:
        raise StoreError("there is no Icechunk repository at this place", where=place.url)
    with explained("the history cannot be read", place.url):
        infos = list(repository.ancestry(branch=BRANCH))
    return [Snapshot(info.id, info.written_at, info.message) for info in infos[:-1]]  # the last is the empty one


def open_versioned(url: str, *, read_only: bool) -> Store:
    """Return the finished store of a repository for reading, or its stage, on top of that, for writing."""
    return VersionedStore(_Place.of(url), read_only=read_only)


@lru_cache(maxsize=32)
def _reopened(url: str, read_only: bool) -> Store:
    """Open a repository that came from another process, once in this one."""
    return open_versioned(url, read_only=read_only)


@dataclass(frozen=True)
class _Place:
    """A repository and one of its snapshots: the newest, if none is named."""

    url: str
    inner: str
    snapshot: str

    @classmethod
    def of(cls, url: str) -> _Place:
        if not is_versioned(url):
            raise StoreError(
                "this is not the URL of an Icechunk repository", where=url, allowed=f"{ICECHUNK}file:///path, ..."
            )
        refuse_secret(url)
        inner, _, snapshot = revealed(url).removeprefix(ICECHUNK).partition("#")
        return cls(url, absolute(inner), snapshot)

    def stage(self, *, read_only: bool) -> Store:
        return open_plain(concealed(f"{revealed(self.inner)}/{STAGE}"), read_only=read_only)

    def repository(self, *, create: bool = False) -> Any:
        """Open the repository; None if there is none and it is not to be created."""
        if not create and not is_remote(self.inner) and not Path(self.inner).is_dir():
            return None  # looking for one would create the folder
        icechunk = self._icechunk()
        with explained("the Icechunk repository cannot be opened", self.url):
            storage = self._storage(icechunk)
            if icechunk.Repository.exists(storage):
                return icechunk.Repository.open(storage)
            return icechunk.Repository.create(storage) if create else None

    def _icechunk(self) -> Any:
        try:
            import icechunk
        except ImportError as error:
            raise StoreError(
                "this URL needs a package that is not installed",
                where=self.url,
                received=str(error),
                remedy='pip install "aucpr-dask[icechunk]"',
            ) from error
        # It warns about simultaneous commits to a local folder, but only one process commits.
        icechunk.set_logs_filter("error")
        return icechunk

    def _storage(self, icechunk: Any) -> Any:
        if not is_remote(self.inner):
            return icechunk.local_filesystem_storage(self.inner)
        bucket, _, prefix = revealed(self.inner).partition("://")[2].partition("/")
        scheme = scheme_of(self.inner)
        if scheme == "s3":
            return _s3_storage(icechunk, bucket, prefix)
        if scheme == "gs":
            return icechunk.gcs_storage(bucket=bucket, prefix=prefix, from_env=True)
        if scheme == "az":
            account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", "")
            return icechunk.azure_storage(account=account, container=bucket, prefix=prefix, from_env=True)
        raise StoreError(
            "an Icechunk repository cannot be there",
            where=self.url,
            allowed=f"{ICECHUNK}file:///path, {ICECHUNK}s3://..., {ICECHUNK}gs://..., {ICECHUNK}az://...",
        )

    def finished(self) -> _Finished | None:
        """Return the snapshot; None if nothing is finished yet."""
        repository = self.repository()
        if repository is None:
            return None
        with explained("the snapshot cannot be opened", self.url):
            if not self.snapshot:
                session = repository.readonly_session(BRANCH)
            elif self.snapshot in repository.list_tags():
                session = repository.readonly_session(tag=self.snapshot)
            else:
                session = repository.readonly_session(snapshot_id=self.snapshot)
            newest = next(iter(repository.ancestry(snapshot_id=session.snapshot_id)))
            return _Finished(session.store, newest.metadata.get(ROOT_DOCUMENT))


@dataclass(frozen=True)
class _Finished:
    """A snapshot: its store, and the text of its root document, of which Icechunk keeps only the attributes."""

    store: Store
    root_document: str | None

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None) -> Buffer | None:
        """Return the value of a key; None if there is none, or no array that it could belong to."""
        if key == ROOT_DOCUMENT and self.root_document is not None:
            return prototype.buffer.from_bytes(self.root_document.encode())
        try:
            return await self.store.get(key, prototype, byte_range)
        except Exception as error:
            if "node not found" in str(error):
                return None
            raise


def _s3_storage(icechunk: Any, bucket: str, prefix: str) -> Any:
    """Return an Icechunk storage for a bucket, with credentials found as by AWS's own tools."""
    options = s3_options()
    endpoint = options.get("endpoint") or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = options.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    return icechunk.s3_storage(
        bucket=bucket,
        prefix=prefix,
        region=region or "us-east-1",
        endpoint_url=endpoint,
        allow_http=True,
        force_path_style=endpoint is not None,
        anonymous=bool(options.get("skip_signature")),
        from_env=not options.get("skip_signature"),
    )


class VersionedStore(Store):
    """A Zarr store in an Icechunk repository: read from the last commit, written to the stage, published as a whole."""

    supports_writes: bool = True
    supports_deletes: bool = True
    supports_listing: bool = True

    def __init__(self, place: _Place, *, read_only: bool) -> None:
        if place.snapshot and not read_only:
            raise StoreError(
                "an older snapshot can only be read", where=place.url, remedy="leave out the # and everything after it"
            )
        super().__init__(read_only=read_only)
        self._place = place
        self._stage = place.stage(read_only=read_only)
        self._is_there = read_only  # Icechunk creates a repository only in an empty place, so before the stage
        self._replaces: bool | None = None

    def __eq__(self, value: object) -> bool:
        return isinstance(value, VersionedStore) and (self._place, self.read_only) == (value._place, value.read_only)

    def __str__(self) -> str:
        return self._place.url

    def __repr__(self) -> str:
        return f"VersionedStore({self._place.url!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the URL: every process finds its own credentials."""
        return _reopened, (self._place.url, self.read_only)

    def with_read_only(self, read_only: bool = False) -> VersionedStore:
        """Return the same place for reading or for writing."""
        return VersionedStore(self._place, read_only=read_only)

    @cached_property
    def _finished(self) -> _Finished | None:
        return self._place.finished()

    def _refresh(self) -> None:
        """Look for the finished snapshot again when it is next needed: another process may have published."""
        self.__dict__.pop("_finished", None)

    # Reading

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Return the value of a key, None if there is none."""
        if key.startswith(LEDGER):
            return await self._staged(key, prototype, byte_range)
        if not self.read_only:
            if key == ROOT_DOCUMENT:
                self._refresh()
            staged = await self._staged(key, prototype, byte_range)
            if staged is not None or await self._hides(key):
                return staged
        if self._finished is None:
            return None
        with explained("the snapshot cannot be read", self._place.url):
            return await self._finished.get(key, prototype, byte_range)

    async def _staged(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        try:
            return await self._stage.get(key, prototype or default_buffer_prototype(), byte_range)
        except FileNotFoundError:
            return None

    async def _hides(self, key: str) -> bool:
        """Return whether the stage hides the finished value of this key."""
        if self._finished is None:
            return True
        if self._replaces is None:
            self._replaces = await self._staged(REPLACES) is not None
        return self._replaces or await self._staged(f"{REMOVED}{key}") is not None

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> Buffers:
        """Return parts of the values of keys."""
        return [await self.get(key, prototype, part) for key, part in key_ranges]

    async def exists(self, key: str) -> bool:
        """Whether there is such a key."""
        return await self.get(key, default_buffer_prototype()) is not None

    async def list(self) -> AsyncIterator[str]:
        """List all keys."""
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """List the keys that begin with `prefix`."""
        seen = set()
        for key in await self._staged_keys(prefix):
            if not self.read_only or key.startswith(LEDGER):
                seen.add(key)
                yield key
        if self._finished is not None and not prefix.startswith(LEDGER):
            async for key in self._finished.store.list_prefix(prefix):
                if key not in seen and (self.read_only or not await self._hides(key)):
                    yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """List what is in a folder."""
        folder = prefix.rstrip("/") + "/" if prefix else ""
        if self.read_only and self._finished is not None and not folder.startswith(LEDGER):
            async for name in self._finished.store.list_dir(prefix):
                yield name
            return
        names = {key[len(folder) :].partition("/")[0]: None async for key in self.list_prefix(folder)}
        for name in names:
            yield name

    async def is_empty(self, prefix: str) -> bool:
        """Return whether nothing is here, neither finished nor staged."""
        if await self._staged_keys(prefix):
            return False
        return self._finished is None or await self._finished.store.is_empty(prefix)

    async def _staged_keys(self, prefix: str) -> Keys:
        try:
            keys = [key async for key in self._stage.list_prefix(prefix)]
        except FileNotFoundError:
            return []
        return [key for key in keys if key not in (REPLACES, PUBLICATION) and not key.startswith(REMOVED)]

    # Writing

    async def set(self, key: str, value: Buffer) -> None:
        """Write the value of a key; the root document publishes all that is staged."""
        await self._prepare()
        if key == ROOT_DOCUMENT:
            await self._publish(value.to_bytes())
        else:
            await self._stage.set(key, value)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write the value of a key that is not there yet."""
        await self._prepare()
        await self._stage.set_if_not_exists(key, value)

    async def _prepare(self) -> None:
        self._check_writable()
        if not self._is_there:
            self._place.repository(create=True)
            self._is_there = True

    async def delete(self, key: str) -> None:
        """Remove a key; a finished value is only hidden, until the next commit."""
        self._check_writable()
        await self._stage.delete(key)
        if not key.startswith(LEDGER) and await self.exists(key):
            await self._stage.set(f"{REMOVED}{key}", _buffer(""))

    async def delete_dir(self, prefix: str) -> None:
        """Remove all keys of a folder."""
        for key in [key async for key in self.list_prefix(prefix.rstrip("/") + "/")]:
            await self.delete(key)

    async def clear(self) -> None:
        """Remove everything that is staged, and hide everything that was finished."""
        await self._prepare()
        await self._stage.clear()
        await self._stage.set(REPLACES, _buffer(""))
        self._replaces = True

    # Publishing

    async def _publish(self, root_document: bytes) -> None:
        """Commit everything that is staged, and empty the stage except for the ledger."""
        await self._stage.set_if_not_exists(PUBLICATION, _buffer(uuid4().hex))
        stage = await self._staged(PUBLICATION)
        identity = hashlib.sha256((stage.to_bytes() if stage else b"") + root_document).hexdigest()
        repository = self._place.repository(create=True)
        with explained("the snapshot cannot be committed", self._place.url):
            newest = next(iter(repository.ancestry(branch=BRANCH)))
            is_done = newest.metadata.get(PUBLICATION) == identity  # then it was interrupted after the commit
            if not is_done and (
                await self._is_staged() or newest.metadata.get(ROOT_DOCUMENT) != root_document.decode()
            ):
                session = repository.writable_session(BRANCH)
                await self._copy_stage(session.store, root_document)
                metadata = {PUBLICATION: identity, ROOT_DOCUMENT: root_document.decode()}
                await session.commit_async(_message(root_document), metadata=metadata)
        await self._drop_stage()

    async def _is_staged(self) -> bool:
        """Whether there is anything to publish."""
        return any([key != PUBLICATION async for key in self._stage.list_prefix("") if not key.startswith(LEDGER)])

    async def _copy_stage(self, snapshot: Store, root_document: bytes) -> None:
        everything = [key async for key in self._stage.list_prefix("")]
        if REPLACES in everything:
            await snapshot.clear()
        for key in everything:
            if key.startswith(REMOVED) and key != f"{REMOVED}{ROOT_DOCUMENT}":  # with which Icechunk removes all
                await snapshot.delete(key.removeprefix(REMOVED))
        await snapshot.set(ROOT_DOCUMENT, default_buffer_prototype().buffer.from_bytes(root_document))
        nodes = json.loads(root_document)["consolidated_metadata"]["metadata"]
        # Keys that were staged for another store and given up are not part of it.
        keys = [key for key in await self._staged_keys("") if not key.startswith(LEDGER) and _is_within(key, nodes)]
        documents = sorted((key for key in keys if _is_document(key)), key=lambda key: key.count("/"))
        limit = asyncio.Semaphore(COPIES_AT_ONCE)

        async def copy(key: str) -> None:
            async with limit:
                value = await self._staged(key)
                if value is not None:
                    await snapshot.set(key, value)

        for key in documents:  # groups before what is in them
            node = nodes[key.rpartition("/")[0]]
            await (snapshot.set(key, _buffer(json.dumps(node))) if node["node_type"] == "array" else copy(key))
        await asyncio.gather(*(copy(key) for key in keys if not _is_document(key)))

    async def _drop_stage(self) -> None:
        """Remove what was published: first the key that hides the commit, last the one that prevents another."""
        await self._stage.delete(REPLACES)
        folders = {key.partition("/")[0] async for key in self._stage.list_prefix("") if "/" in key}
        for folder in folders - {LEDGER.rstrip("/")}:
            await self._stage.delete_dir(folder)
        await self._stage.delete(PUBLICATION)
        self._replaces = None
        self._refresh()


def _is_document(key: str) -> bool:
    return key.rpartition("/")[2] == ROOT_DOCUMENT


def _is_within(key: str, nodes: Mapping[str, Any]) -> bool:
    """Return whether a document or a chunk belongs to a node of a store, and lies within its shape."""
    if _is_document(key):
        return key.rpartition("/")[0] in nodes
    path, _, place = f"{key}/".rpartition("/c/")
    node = nodes.get(path)
    if node is None or node["node_type"] != "array":
        return False
    lengths = zip(node["shape"], node["chunk_grid"]["configuration"]["chunk_shape"], strict=True)
    index = map(int, filter(None, place.split("/")))
    return all(i < -(-size // chunk) for i, (size, chunk) in zip(index, lengths, strict=True))


def _message(root_document: bytes) -> str:
    """Return the message of a commit: the kind of store and its source."""
    attributes = json.loads(root_document).get("attributes", {})
    kind = str(attributes.get("kind", "store")).rpartition(".")[2]
    source = attributes.get("source")
    return f"{kind} of {source}" if source else kind


def _buffer(text: str) -> Buffer:
    return default_buffer_prototype().buffer.from_bytes(text.encode())
