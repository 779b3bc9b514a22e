"""Stores elsewhere: object stores and web servers by obstore, all other schemes by fsspec."""

from __future__ import annotations

import asyncio
import base64
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import LocalStore, WrapperStore

from aucpr_dask.errors import StoreError, UnreachableError
from aucpr_dask.storage.urls import (
    WEB,
    absolute,
    concealed,
    has_secret,
    is_remote,
    public,
    revealed,
    scheme_of,
    user_of,
)

REQUEST_TIMEOUT = "2m"  # of one request: a chunk of 32 MiB through a thin line, not a server that hangs for ever


def check_writable(url: str | Path) -> None:
    """Raise if nothing can be written there, whoever we are."""
    if is_remote(url) and scheme_of(revealed(concealed(url))) in WEB:
        raise StoreError(
            "a web server can only be read from",
            where=concealed(url),
            remedy="write to a folder or an object store (s3://, gs://, az://)",
        )


def _refuse_secret(url: str) -> None:
    if has_secret(url):
        raise StoreError(
            "a URL of this kind cannot carry a password, a key or a query string",
            where=url,
            remedy="leave it out: credentials are taken from the environment and the configuration files of the "
            "provider, for other schemes from fsspec's",
        )


@contextmanager
def _needing(url: str) -> Iterator[None]:
    """Say which extra is absent, or that the URL is of no use."""
    try:
        yield
    except ImportError as error:
        raise StoreError(
            "this URL needs a package that is not installed",
            where=url,
            received=str(error),
            remedy='pip install "aucpr-dask[remote]"',
        ) from error
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(
            "the URL is of no use",
            where=url,
            received=_reason(error, is_secret=has_secret(url)),
            remedy="check the address, and the settings of the provider in the environment",
        ) from None


def _object_store(client: Any, *, read_only: bool) -> Store:
    import obstore
    from zarr.storage import ObjectStore

    class BulkDeleting(ObjectStore[Any]):
        """Removes a thousand objects by one request, where Zarr's own takes a request for each."""

        async def delete_dir(self, prefix: str) -> None:
            self._check_writable()
            folder = f"{prefix.rstrip('/')}/" if prefix else None
            async for batch in obstore.list(self.store, prefix=folder):
                await obstore.delete_async(self.store, [entry["path"] for entry in batch])

    return BulkDeleting(client, read_only=read_only)


def _open_s3(url: str) -> Any:
    from obstore.store import S3Store

    bucket, path = _bucket_and_path(url)
    return S3Store(bucket, prefix=path, client_options=_CLIENT, **s3_options())


def _open_gs(url: str) -> Any:
    from obstore.store import GCSStore

    bucket, path = _bucket_and_path(url)
    return GCSStore(bucket, prefix=path, client_options=_CLIENT)


def _open_az(url: str) -> Any:
    from obstore.store import AzureStore

    container, path = _bucket_and_path(url)
    return AzureStore(container, prefix=path, client_options=_CLIENT)


def _open_web(url: str) -> Any:
    from obstore.store import HTTPStore

    place, user = user_of(url)
    login = {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"} if user else {}
    return HTTPStore.from_url(revealed(place), client_options=_CLIENT | {"default_headers": login})


_CLIENT: Any = {"allow_http": True, "timeout": REQUEST_TIMEOUT}

_OBSTORE: dict[str, Callable[[str], Any]] = {
    "s3": _open_s3,
    "gs": _open_gs,
    "az": _open_az,
    "http": _open_web,
    "https": _open_web,
}


def _bucket_and_path(url: str) -> tuple[str, str | None]:
    bucket, _, path = url.partition("://")[2].partition("/")
    return bucket, path or None


def s3_options() -> dict[str, Any]:
    """Return where S3 is and who we are there, by AWS's conventions: the environment, else ~/.aws, else nobody.

    Keys in the environment are obstore's own business. All else (profiles, single sign-on, roles, the region and
    endpoint of a profile) boto3 finds, and its credentials are asked for anew before they expire. Who has none reads
    public data.
    """
    if os.environ.get("AWS_ACCESS_KEY_ID"):
        return {}
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        return {}  # obstore looks into the environment, and asks the machine that it runs on
    session = boto3.Session()
    settings = session.client("s3").meta
    options: dict[str, Any] = {"region": settings.region_name or "us-east-1"}
    if ".amazonaws." not in settings.endpoint_url:
        options["endpoint"] = settings.endpoint_url
    if session.get_credentials() is None:
        return options | {"skip_signature": True}
    return options | {"credential_provider": Boto3CredentialProvider(session)}


def _open_fsspec(url: str, *, read_only: bool) -> Store:
    from zarr.storage import FsspecStore

    return FsspecStore.from_url(url, read_only=read_only)


def fetch(url: str | Path, folder: Path) -> Path:
    """Copy one file from elsewhere into a folder, under its own name; a local file stays where it is.

    Raises
    ------
    StoreError
        If there is no such file, or it cannot be read.
    """
    place = absolute(url)
    if not is_remote(place):
        return Path(place)
    path, question, query = revealed(place).partition("?")
    parent, _, name = path.rpartition("/")
    copy = folder / (name or "file")
    opener = _OBSTORE.get(scheme_of(place))
    if opener is None or scheme_of(place) not in WEB:
        _refuse_secret(place)
    with _needing(place), explained("the file cannot be read", place), copy.open("wb") as stream:
        try:
            for part in _parts_of(place, name, None if opener is None else opener(f"{parent}{question}{query}")):
                stream.write(part)
        except FileNotFoundError:
            raise StoreError("there is no file at this place", where=place, remedy="check the URL") from None
    return copy


def _parts_of(url: str, name: str, client: Any) -> Iterator[bytes]:
    if client is not None:
        import obstore

        yield from map(bytes, obstore.get(client, name).stream())
        return
    import fsspec

    with fsspec.open(url, "rb") as stream:
        while part := stream.read(1 << 22):
            yield part


class RemoteStore(WrapperStore[Store]):
    """A store elsewhere: what fails there is a :class:`UnreachableError` that says what and where, and shows no secret.

    Parameters
    ----------
    store : zarr store
        The store itself.
    url : str
        Where it is.
    """

    def __init__(self, store: Store, url: str) -> None:
        super().__init__(store)
        self._url = url

    def _with_store(self, store: Store) -> RemoteStore:
        return type(self)(store, self._url)

    def __str__(self) -> str:
        return public(self._url)

    def __repr__(self) -> str:
        return f"RemoteStore({public(self._url)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as a URL: every process finds its own credentials and keeps its own connections."""
        return _reopened, (self._url, self.read_only)

    @property
    def supports_listing(self) -> bool:
        """Whether there are lists of keys: web servers have none that programs can rely on."""
        return scheme_of(self._url) not in WEB

    # Not the store's own, which would go round the explanations.
    _get_many = Store._get_many
    _set_many = Store._set_many

    def _explained(self, doing: str) -> AbstractContextManager[None]:
        return explained(f"the store cannot be {doing}", self._url)

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Return the value of a key, None if there is none."""
        with self._explained("read"):
            return await self._store.get(key, prototype, byte_range)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Return parts of the values of keys."""
        with self._explained("read"):
            return await self._store.get_partial_values(prototype, key_ranges)

    async def exists(self, key: str) -> bool:
        """Whether there is such a key."""
        with self._explained("read"):
            return await self._store.exists(key)

    async def set(self, key: str, value: Buffer) -> None:
        """Write the value of a key."""
        with self._explained("written"):
            await self._store.set(key, value)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write the value of a key that is not there yet."""
        with self._explained("written"):
            await self._store.set_if_not_exists(key, value)

    async def delete(self, key: str) -> None:
        """Remove a key."""
        with self._explained("written"):
            await _persistently(self._store.delete, key)

    async def delete_dir(self, prefix: str) -> None:
        """Remove all keys of a folder."""
        with self._explained("written"):
            await _persistently(self._store.delete_dir, prefix)

    async def clear(self) -> None:
        """Remove all keys."""
        with self._explained("written"):
            await _persistently(self._store.clear)

    async def is_empty(self, prefix: str) -> bool:
        """Whether there is no key."""
        with self._explained("listed"):
            return await self._store.is_empty(prefix)

    async def list(self) -> AsyncIterator[str]:
        """List all keys."""
        with self._explained("listed"):
            async for key in self._store.list():
                yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """List the keys that begin with `prefix`."""
        with self._explained("listed"):
            async for key in self._store.list_prefix(prefix):
                yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """List what is in a folder."""
        with self._explained("listed"):
            async for key in self._store.list_dir(prefix):
                yield key


async def _persistently(remove: Callable[..., Awaitable[None]], *arguments: str) -> None:
    """Remove something; if that fails, again: clients do not dare to, because S3 removes by POST."""
    for pause in (0.1, 0.4, 1.6):
        try:
            return await remove(*arguments)
        except FileNotFoundError:
            raise
        except Exception:
            await asyncio.sleep(pause)
    await remove(*arguments)


def open_plain(url: str, *, read_only: bool = False) -> Store:
    """Return the Zarr store behind an absolute path or a URL that is not Icechunk's."""
    if not is_remote(url):
        return LocalStore(Path(url), read_only=read_only)
    scheme = scheme_of(url)
    if scheme not in WEB:
        _refuse_secret(url)
    elif not read_only:
        check_writable(url)
    with _needing(url):
        open_scheme = _OBSTORE.get(scheme)
        if open_scheme is None:
            return RemoteStore(_open_fsspec(url, read_only=read_only), url)
        return RemoteStore(_object_store(open_scheme(url), read_only=read_only), url)


@lru_cache(maxsize=32)
def _reopened(url: str, read_only: bool) -> Store:
    """Open a store that came from another process, once in this one."""
    return open_plain(url, read_only=read_only)


@contextmanager
def explained(what: str, url: str) -> Iterator[None]:
    """Turn what a client library raises into an :class:`UnreachableError`, but for what is simply not there."""
    try:
        yield
    except StoreError:
        raise
    except FileNotFoundError:
        raise FileNotFoundError(public(url)) from None
    except Exception as error:
        raise _failure(what, url, error) from None


def _failure(what: str, url: str, error: Exception) -> UnreachableError:
    """Return the error to raise in place of a client library's, whose text may hold the URL, secrets and all."""
    return UnreachableError(
        what,
        where=url,
        received=_reason(error, is_secret=has_secret(url)),
        remedy="check the address, the credentials and the network, then give the same command again: an "
        "evaluation goes on where it stopped",
    )


def _reason(error: Exception, *, is_secret: bool) -> str:
    """Return what happened in one line: never a server's whole answer."""
    text = str(error)
    status = re.search(r"status code: (\d{3}[ \w]*)", text)
    name = type(error).__name__
    if status:
        return f"{name}: the server answered {status[1].strip()}"
    if is_secret:
        return name
    first_line = next((line.strip(" x|`->") for line in text.splitlines() if line.strip(" x|`->")), "")
    return f"{name}: {first_line.partition(': <')[0][:300]}" if first_line else name
