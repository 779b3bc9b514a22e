"""Where stores are: paths and URLs in one form, and what of a URL may be shown."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

ICECHUNK = "icechunk+"
WEB = ("http", "https")  # read only


class SecretUrl(str):
    """A URL with a password or a signature: whatever prints it shows neither.

    Only :func:`revealed` gives all of it, to whoever connects.

    Examples
    --------
    >>> url = absolute("https://ann:swordfish@example.org/scores.zarr?X-Amz-Signature=abc")
    >>> print(url, [url], f"{url}")
    https://example.org/scores.zarr ['https://example.org/scores.zarr'] https://example.org/scores.zarr
    >>> revealed(url)
    'https://ann:swordfish@example.org/scores.zarr?X-Amz-Signature=abc'
    """

    __slots__ = ()

    def __str__(self) -> str:
        return public(self)

    def __repr__(self) -> str:
        return repr(public(self))

    def __format__(self, spec: str) -> str:
        return format(public(self), spec)


def is_remote(url: str | Path) -> bool:
    """Whether `url` names something other than a local path."""
    return "://" in _text(url)


def is_versioned(url: str | Path) -> bool:
    """Whether `url` names an Icechunk repository."""
    return _text(url).startswith(ICECHUNK)


def scheme_of(url: str) -> str:
    """Return the scheme of a URL.

    Examples
    --------
    >>> scheme_of("s3://bucket/scores.zarr")
    's3'
    """
    return url.partition("://")[0].lower()


def absolute(url: str | Path) -> str:
    """Return a path or URL in the form in which it means the same everywhere: workers may stand elsewhere.

    Examples
    --------
    >>> absolute("S3://bucket/scores.zarr/"), absolute("file:///data/my%20scores.zarr")
    ('s3://bucket/scores.zarr', '/data/my scores.zarr')
    """
    text = _text(url)
    if not is_remote(text):
        return str(Path(text).absolute())
    if is_versioned(text):
        repository, hash_sign, snapshot = text.removeprefix(ICECHUNK).partition("#")
        inner = revealed(absolute(repository))
        return concealed(f"{ICECHUNK}{inner if is_remote(inner) else f'file://{inner}'}{hash_sign}{snapshot}")
    scheme, rest = scheme_of(text), text.partition("://")[2]
    if scheme == "file":
        return str(Path("/" + unquote(rest).partition("/")[2]).absolute())
    place, question, query = rest.partition("?")
    return concealed(f"{scheme}://{place.rstrip('/')}{question}{query}")


def public(url: str | Path) -> str:
    """Return what may be shown and kept of a URL: no user and password, no query string, where signatures stand.

    Examples
    --------
    >>> public("https://ann:swordfish@example.org/scores.zarr?X-Amz-Signature=abc")
    'https://example.org/scores.zarr'
    """
    text = _text(url)
    scheme, separator, rest = text.partition("://")
    if not separator:
        return text
    rest = rest.partition("?")[0]
    authority, slash, path = rest.partition("/")
    user, _, host = authority.rpartition("@")
    is_secret = ":" in user or (user and scheme.lower().removeprefix(ICECHUNK) in WEB)
    return f"{scheme}://{host if is_secret else authority}{slash}{path}"


def user_of(url: str) -> tuple[str, str]:
    """Return a URL without its user and password, secret still where it has a signature, and these two.

    Examples
    --------
    >>> user_of("https://ann:sword%40fish@example.org/scores.zarr")
    ('https://example.org/scores.zarr', 'ann:sword@fish')
    """
    scheme, separator, rest = _text(url).partition("://")
    authority, slash, path = rest.partition("/")
    user, _, host = authority.rpartition("@")
    return concealed(f"{scheme}{separator}{host}{slash}{path}"), unquote(user)


def has_secret(url: str | Path) -> bool:
    """Whether there is something in a URL that :func:`public` leaves out."""
    return public(url) != _text(url)


def concealed(url: str | Path) -> str:
    """Return a path or URL as text; if it has a secret, as text that does not show it."""
    return SecretUrl(_text(url)) if has_secret(url) else _text(url)


def revealed(url: str) -> str:
    """Return all of a URL, secrets included: for whoever connects."""
    return _text(url)


def overlap(first: str, second: str) -> bool:
    """Whether one of two absolute places is the other, or lies inside it.

    Examples
    --------
    >>> overlap("s3://bucket/a", "s3://bucket/ab"), overlap("s3://bucket/a", "s3://bucket/a/b")
    (False, True)
    """
    one, other = _place(first), _place(second)
    return one.startswith(other) or other.startswith(one)


def _place(url: str) -> str:
    """Return where the bytes are, whatever reads them."""
    inner = _text(url).removeprefix(ICECHUNK).partition("#")[0] if is_versioned(url) else public(url)
    return inner.removeprefix("file://").rstrip("/") + "/"


def _text(url: object) -> str:
    """Return the characters themselves."""
    return str.__str__(url) if isinstance(url, str) else str(url)
