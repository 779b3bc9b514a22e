"""The places of stores in one form: paths, URLs with secrets concealed, and names of Zarr stores that are objects."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote
from uuid import uuid4
from weakref import WeakValueDictionary

from aucpr_dask.errors import InvalidInputError, StoreError, brief

if TYPE_CHECKING:
    from zarr.abc.store import Store

WEB = ("http", "https")  # read only
# What the names of files end in, which no store is.
TABLES = (".csv", ".tsv", ".parquet", ".feather", ".json", ".jsonl", ".xlsx", ".txt")
FILES = frozenset({*TABLES, ".html", ".pdf", ".png", ".svg"})

_CHAINED = r"::(?=[A-Za-z][\w+.-]*://)"  # between the URLs of a chain of fsspec
_HIDDEN = "***"


class SecretUrl(str):
    """A URL with a password or a signature, which the string leaves out; :func:`revealed` returns the whole."""

    whole: str

    def __new__(cls, url: str) -> Self:
        """Make a string of the public part, and keep the whole separately."""
        self = super().__new__(cls, public(url))
        self.whole = url
        return self


def is_remote(url: str | Path) -> bool:
    """Whether `url` names something other than a local path."""
    return "://" in str(url)


def scheme_of(url: str) -> str:
    """Return the scheme of a URL, in lower case."""
    return url.partition("://")[0].lower()


def absolute(url: Any) -> str:
    """Return a path, a URL or a store in a form that means the same in every process."""
    if is_store(url) or isinstance(url, StoreName):
        return concealed(url)
    text = revealed(url)
    if not is_remote(text):
        return str(Path(text).absolute())
    scheme, rest = scheme_of(text), text.partition("://")[2]
    if scheme == "file":
        return str(Path("/" + unquote(rest).partition("/")[2]).absolute())
    place, question, query = rest.partition("?")
    return concealed(f"{scheme}://{place.rstrip('/')}{question}{query}")


def public(url: str | Path) -> str:
    """Return the part of a URL that may be shown and stored: without user, password, query, parameters and fragment."""
    # Where it is not clear which part is secret, as in a password with a slash, more is left out.
    if isinstance(url, StoreName):
        return url
    links = re.split(_CHAINED, str(url))
    shown = []
    for link in links[:-1]:
        shown.append(_public_link(link, has_more=True))
        if shown[-1] != link and "@" not in link:  # what follows may belong to a query or a password
            return "::".join(shown)
    return "::".join([*shown, _public_link(links[-1])])


def _public_link(link: str, *, has_more: bool = False) -> str:
    """Return the public part of one URL of a chain, such as ``zip://a.zarr::https://host/b.zip``."""
    scheme, separator, rest = link.partition("://")
    if not separator:
        return link
    kind = scheme.lower()
    head = re.split("[?;#]", rest, maxsplit=1)[0]
    tail = rest[len(head) :]
    authority, slash, path = head.partition("/")
    if "@" in tail or (has_more and re.search(r"^[^@]*:(?!\d*$)", authority)):
        return f"{scheme}://{_HIDDEN}"
    user, _, host = authority.rpartition("@")
    if user:
        is_secret = ":" in user or kind in WEB
        if "@" in path and (is_secret or ":" in host + path.rpartition("@")[0]):  # of a password or of the path
            return f"{scheme}://{_HIDDEN}"
        return f"{scheme}://{host if is_secret else authority}{slash}{path}"
    before, at, after = head.rpartition("@")
    is_secret = bool(at) and (":" in before or (kind in WEB and "." not in authority and authority != "localhost"))
    return f"{scheme}://{after if is_secret else head}"


def has_secret(url: str | Path) -> bool:
    """Whether a URL has parts that :func:`public` leaves out."""
    return public(url) != revealed(url)


def concealed(url: Any) -> str:
    """Return a path, a URL or a store as text that shows no secret."""
    if isinstance(url, StoreName) or is_store(url):
        return url if isinstance(url, StoreName) else StoreName.of(url)
    return SecretUrl(revealed(url)) if has_secret(url) else str(url)


def revealed(url: str | Path) -> str:
    """Return the whole URL, including secrets, for connecting."""
    if not isinstance(url, str | PurePath) or "\0" in str(url) or not str(url):
        where, allowed = "the place of a store or a file", "text, a pathlib.Path, or a Zarr store"
        remedy = "give a path such as 'scores.zarr', or a URL such as 's3://bucket/scores.zarr'"
        if hasattr(url, "data_vars"):
            remedy = "these data are in memory: save them first (ap.save_scores), or use ap.evaluate"
        raise InvalidInputError("this is not a path or URL", where, brief(url), allowed, remedy)
    return url.whole if isinstance(url, SecretUrl) else str(url)


def overlap(first: str, second: str) -> bool:
    """Whether one of two absolute places is the other, or lies inside it."""
    if isinstance(first, StoreName) or isinstance(second, StoreName):
        return first == second
    one, other = (public(url).removeprefix("file://").rstrip("/") + "/" for url in (first, second))
    return one.startswith(other) or other.startswith(one)


# --- stores that callers pass as objects: of an Icechunk session, in memory, of obstore or fsspec ------------------

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
        import zarr
        from zarr.storage import ZipStore

        if isinstance(store, ZipStore) and store.read_only:
            with suppress(Exception):  # Zarr opens an archive when it first reads it; what is wrong, later reads say
                zarr.open(store, mode="r")
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
