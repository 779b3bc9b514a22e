"""Remote stores: object stores and web servers through obstore, all other schemes through fsspec."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import unquote

from zarr.abc.buffer import Buffer
from zarr.abc.store import Store
from zarr.storage import WrapperStore

from aucpr_dask.errors import StoreError, UnreachableError
from aucpr_dask.storage import urls
from aucpr_dask.storage.urls import WEB, concealed, has_secret, is_remote, public, revealed, scheme_of

REQUEST_TIMEOUT = "2m"  # enough for a chunk of 32 MiB on a slow line; a server that hangs is given up


def check_writable(url: str | Path) -> None:
    """Raise if nobody can write there."""
    if is_remote(url) and scheme_of(str(url)) in WEB:
        remedy = "write to a folder or an object store (s3://, gs://, az://)"
        raise StoreError("a web server can only be read from", concealed(url), remedy=remedy)
    name = concealed(url).partition("?")[0]
    if (suffix := PurePath(name).suffix.lower()) in urls.FILES:
        remedy = f"name it {name.removesuffix(suffix)}.zarr; export (ap.export) writes tables of a result"
        raise StoreError("a store is a folder, and this is the name of a file", concealed(url), remedy=remedy)


def refuse_secret(url: str) -> None:
    """Raise if a URL has a secret, for schemes that take credentials from elsewhere."""
    scheme, _, rest = revealed(url).partition("://")
    place, question, _ = rest.partition("?")
    user = place.partition("/")[0].rpartition("@")[0]
    if question or ":" in user or (user and scheme.lower() in WEB):
        remedy = "leave it out: credentials are taken from the environment and the configuration files of the "
        remedy += "provider, for other schemes from fsspec's"
        raise StoreError("a URL of this kind cannot carry a password, a key or a query string", url, remedy=remedy)


@contextmanager
def _needing(url: str) -> Iterator[None]:
    """Name the extra that is missing, or say that the URL is of no use."""
    try:
        yield
    except ImportError as error:
        remedy = 'pip install "aucpr-dask[remote]"'
        raise StoreError("this URL needs a package that is not installed", url, error, None, remedy) from error
    except StoreError:
        raise
    except Exception as error:
        received, remedy = _reason(error, url), "check the address, and the settings of the provider in the environment"
        raise StoreError("the URL is of no use", url, received, None, remedy) from None


def _object_store(client: Any, *, read_only: bool) -> Store:
    import obstore
    from zarr.storage import ObjectStore

    class BulkDeleting(ObjectStore[Any]):
        """Removes a thousand objects in one request, where Zarr's own sends a request for each."""

        async def delete_dir(self, prefix: str) -> None:
            if self.read_only:
                raise ValueError("the store can only be read")
            folder = f"{prefix.rstrip('/')}/" if prefix else None
            async for batch in obstore.list(self.store, prefix=folder):
                await obstore.delete_async(self.store, [entry["path"] for entry in batch])

    return BulkDeleting(client, read_only=read_only)


_CLIENT: Any = {"allow_http": True, "timeout": REQUEST_TIMEOUT}
_OBJECT_STORES = {"s3": "S3Store", "gs": "GCSStore", "az": "AzureStore"}


def _client_of(url: str) -> Any:
    """Return obstore's client for a URL; None if obstore does not know the scheme."""
    # Its own `from_url` would take presigned URLs of object stores for the stores themselves, and drop the signature.
    scheme = scheme_of(url)
    if scheme not in (*_OBJECT_STORES, *WEB):
        return None
    import obstore.store

    if scheme in WEB:
        start, separator, rest = revealed(url).partition("://")
        authority, slash, path = rest.partition("/")
        user, _, host = authority.rpartition("@")
        login = {"Authorization": f"Basic {base64.b64encode(unquote(user).encode()).decode()}"} if user else {}
        options = _CLIENT | {"default_headers": login}
        return obstore.store.HTTPStore.from_url(f"{start}{separator}{host}{slash}{path}", client_options=options)
    bucket, _, path = revealed(url).partition("://")[2].partition("/")
    options = {"prefix": path or None, "client_options": _CLIENT} | (s3_options() if scheme == "s3" else {})
    return getattr(obstore.store, _OBJECT_STORES[scheme])(bucket, **options)


def s3_options() -> dict[str, Any]:
    """Return the region, endpoint and credentials of S3 by AWS's conventions."""
    # obstore reads keys from the environment itself. Everything else (profiles, single sign-on, roles, the region and
    # endpoint of a profile) comes from boto3, which renews credentials before they expire. Without any, only public
    # data can be read.
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


def fetch(url: str | Path, folder: Path) -> Path:
    """Copy a remote file into a folder, under its own name; a local file stays in its place."""
    place = urls.absolute(url)
    if not is_remote(place):
        return Path(place)
    path, question, query = revealed(place).partition("?")
    parent, _, name = path.rpartition("/")
    copy = folder / (public(place).rpartition("/")[2] or "file")  # the name is shown, and stored as the source
    if scheme_of(place) not in WEB:
        refuse_secret(place)
    with _needing(place), explained("the file cannot be read", place), copy.open("wb") as stream:
        client = _client_of(concealed(f"{parent}{question}{query}"))
        try:
            if client is not None:
                import obstore

                stream.writelines(map(bytes, obstore.get(client, name).stream()))
            else:
                import fsspec

                with fsspec.open(revealed(place), "rb") as there:
                    shutil.copyfileobj(there, stream, 1 << 22)
        except FileNotFoundError:
            raise StoreError("there is no file at this place", where=place, remedy="check the URL") from None
    return copy


def _explaining(doing: str, method: str) -> Any:
    """Return a method of :class:`RemoteStore` that calls the store's own, and explains its failures."""

    async def call(self: RemoteStore, *arguments: Any, **options: Any) -> Any:
        ask = partial(getattr(self._store, method), *arguments, **options)
        with explained(f"the store cannot be {doing}", self._url):
            return await ask() if "set" in method else await _persistently(ask, always=doing == "written")

    return call


def _explaining_list(method: str) -> Any:
    async def keys(self: RemoteStore, *arguments: str, **options: str) -> AsyncIterator[str]:
        async def listed() -> list[str]:  # as a whole: half a list cannot be continued
            return [key async for key in getattr(self._store, method)(*arguments, **options)]

        with explained("the store cannot be listed", self._url):
            found = await _persistently(listed)
        for key in found:
            yield key

    return keys


async def _persistently(ask: Callable[[], Awaitable[Any]], *, always: bool = False) -> Any:
    """Try again after the failures that clients do not repeat themselves."""
    # Of removals all, because S3 removes by POST; of others, where the connection broke inside the answer: obstore
    # repeats only requests without one.
    for pause in (0.1, 0.4, 1.6):
        try:
            return await ask()
        except FileNotFoundError:
            raise
        except Exception as error:
            if not (always or "response body" in str(error)):
                raise
            await asyncio.sleep(pause)
    return await ask()


class RemoteStore(WrapperStore[Store]):
    """A remote store: a failure there is an :class:`UnreachableError` that says what and where, and shows no secret."""

    def __init__(self, store: Store, url: str) -> None:
        super().__init__(store)
        self._url = url
        self.endings: dict[str, bytes] = {}  # the last bytes of what was written, which spare requests

    def __str__(self) -> str:
        return public(self._url)

    def __repr__(self) -> str:
        return f"RemoteStore({public(self._url)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the URL: every process finds its own credentials and keeps its own connections."""
        return _reopened, (self._url, self.read_only)

    def with_read_only(self, read_only: bool = False) -> RemoteStore:
        """Return the same place for reading or for writing."""
        return RemoteStore(self._store.with_read_only(read_only), self._url)

    @property
    def supports_listing(self) -> bool:
        """Whether keys can be listed: web servers have no list that programs can rely on."""
        return scheme_of(self._url) not in WEB

    async def version_of(self, key: str) -> object:
        """Return the tag by which a server names a version of an object; None if there is none."""
        client = getattr(self._store, "store", None)
        if client is None:
            return None
        import obstore

        with explained("the store cannot be read", self._url), suppress(FileNotFoundError):
            facts = await _persistently(partial(obstore.head_async, client, key))
            return facts.get("version") or facts.get("e_tag")
        return None

    async def versions(self) -> dict[str, str] | None:
        """Return the size and the tag, or the time of the last change, of every object, by its key; None if unknown."""
        client = getattr(self._store, "store", None)
        if client is None or not self.supports_listing:
            return None
        import obstore

        async def listed() -> dict[str, str]:
            batches = [batch async for batch in obstore.list(client)]
            entries = (entry for batch in batches for entry in batch)
            return {one["path"]: f"{one['size']} {one['e_tag'] or one['last_modified']}" for one in entries}

        with explained("the store cannot be listed", self._url):
            found: dict[str, str] = await _persistently(listed)
        return found

    get, get_partial_values, exists = (_explaining("read", name) for name in ("get", "get_partial_values", "exists"))
    _put, set_if_not_exists = _explaining("written", "set"), _explaining("written", "set_if_not_exists")
    delete, delete_dir, clear = (_explaining("written", name) for name in ("delete", "delete_dir", "clear"))
    is_empty = _explaining("listed", "is_empty")
    list = _explaining_list("list")
    list_prefix = _explaining_list("list_prefix")
    list_dir = _explaining_list("list_dir")

    async def set(self, key: str, value: Buffer) -> None:
        """Store a value."""
        await self._put(key, value)
        self.endings[key] = bytes(value.as_numpy_array()[-8:])

    _get_many, _set_many = Store._get_many, Store._set_many  # by the methods above, not by those of the store inside


def open_remote(url: str, *, read_only: bool = False) -> Store:
    """Return the Zarr store behind a URL."""
    scheme = scheme_of(url)
    if scheme not in WEB:
        refuse_secret(url)
    elif not read_only:
        check_writable(url)
    with _needing(url):
        client = _client_of(url)
        if client is not None:
            return RemoteStore(_object_store(client, read_only=read_only), url)
        from zarr.storage import FsspecStore

        return RemoteStore(FsspecStore.from_url(revealed(url), read_only=read_only), url)


def _reopened(url: str, read_only: bool) -> Store:
    return _opened_once(revealed(url), read_only)


@lru_cache(maxsize=32)
def _opened_once(whole_url: str, read_only: bool) -> Store:
    """Open a store that came from another process, once in this one."""
    return open_remote(concealed(whole_url), read_only=read_only)


@contextmanager
def explained(what: str, url: str) -> Iterator[None]:
    """Turn errors of client libraries into :class:`UnreachableError`, except that something is not there."""
    try:
        yield
    except StoreError:
        raise
    except FileNotFoundError:
        raise FileNotFoundError(public(url)) from None
    except Exception as error:
        remedy = "check the address, the credentials and the network, then give the same command again: an evaluation "
        remedy += "resumes where it stopped"
        # Not from the error itself, whose text may hold the URL, secrets and all.
        raise UnreachableError(what, url, _reason(error, url), None, remedy) from None


def _reason(error: Exception, url: str) -> str:
    """Return the reason in one line, never a server's whole answer."""
    text = str(error)
    status = re.search(r"status code: (\d{3}[ \w]*)", text)
    name = type(error).__name__
    if status:
        code = re.search(r"<Code>(\w{1,60})</Code>", text)  # ExpiredToken, for example
        return f"{name}: the server answered {status[1].strip()}" + (f", {code[1]}" if code else "")
    if has_secret(url):
        return name
    first_line = next((line.strip(" x|`->") for line in text.splitlines() if line.strip(" x|`->")), "")
    return f"{name}: {first_line.partition(': <')[0][:300]}" if first_line else name
