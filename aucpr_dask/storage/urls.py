"""Paths and URLs of stores in one form, with secrets concealed."""

from __future__ import annotations

import re
from pathlib import Path, PurePath
from typing import Any, Self
from urllib.parse import unquote

from aucpr_dask.errors import InvalidInputError, brief
from aucpr_dask.storage.objects import StoreName, is_store

WEB = ("http", "https")  # read only

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
    """Return the part of a URL that may be shown and stored: without user, password, query, parameters and fragment.

    Where it is not clear which part is secret, as in a password with a slash, more is left out.
    """
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
    kind = scheme.lower().removeprefix("icechunk+")  # of version 0.1
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


def user_of(url: str) -> tuple[str, str]:
    """Return a URL without its user and password, its signature still concealed; and ``user:password``."""
    scheme, separator, rest = revealed(url).partition("://")
    authority, slash, path = rest.partition("/")
    user, _, host = authority.rpartition("@")
    return concealed(f"{scheme}{separator}{host}{slash}{path}"), unquote(user)


def has_secret(url: str | Path) -> bool:
    """Whether a URL has parts that :func:`public` leaves out."""
    return public(url) != revealed(url)


def has_credentials(url: str | Path) -> bool:
    """Whether a URL carries a password, a key or a query string."""
    scheme, _, rest = revealed(url).partition("://")
    place, question, _ = rest.partition("?")
    user = place.partition("/")[0].rpartition("@")[0]
    return bool(question or ":" in user or (user and scheme.lower() in WEB))


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
        raise InvalidInputError("this is not a path or URL", where, brief(url), allowed, remedy)
    return url.whole if isinstance(url, SecretUrl) else str(url)


def overlap(first: str, second: str) -> bool:
    """Whether one of two absolute places is the other, or lies inside it."""
    if isinstance(first, StoreName) or isinstance(second, StoreName):
        return first == second
    one, other = (public(url).removeprefix("file://").rstrip("/") + "/" for url in (first, second))
    return one.startswith(other) or other.startswith(one)
