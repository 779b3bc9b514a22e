"""What comes from others: names that stay inside a store, and stores of nothing but numbers and text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aucpr_dask.errors import FileFormatError, InvalidInputError, explain

LONGEST_NAME = 255  # bytes: what file systems allow
RESERVED_NAMES = frozenset({"zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata", "ledger"})

# Codecs that turn bytes into numbers and text. Pickle may do anything and is not one of them, nor is what is unknown.
_LAYOUTS = ("bytes", "vlen-bytes", "vlen-utf8", "transpose", "sharding_indexed")
_COMPRESSIONS = ("blosc", "bz2", "gzip", "lz4", "lzma", "pcodec", "zfpy", "zlib", "zstd")
_CHECKSUMS = ("adler32", "crc32", "crc32c", "fletcher32", "jenkins_lookup3")
_FILTERS = ("astype", "bitround", "delta", "fixedscaleoffset", "packbits", "quantize", "shuffle")
PLAIN_CODECS = frozenset((*_LAYOUTS, *_COMPRESSIONS, *_CHECKSUMS, *_FILTERS))


def check_node_name(name: str, where: object) -> str:
    """Return `name` if it can name a node of a store: one folder, inside it, that is nobody else's.

    Raises
    ------
    InvalidInputError
        If it is empty, consists of periods, begins with ``__`` (Zarr's own), is a file of Zarr or of ours, is longer
        than file systems allow, or holds slashes, control characters or what is not Unicode.

    Examples
    --------
    >>> check_node_name("clef tar, 2017", "dataset")
    'clef tar, 2017'
    """
    is_inside = bool(name.strip(".")) and not any(char in "/\\" or not _is_text(char) for char in name)
    is_free = not name.startswith("__") and name not in RESERVED_NAMES
    if is_inside and is_free and len(name.encode()) <= LONGEST_NAME:
        return name
    raise InvalidInputError(
        explain(
            "this cannot name a data set or a variable of a store",
            where=where,
            received=_shortened(name),
            allowed=f"up to {LONGEST_NAME} bytes of text without slashes, backslashes and control characters; not only "
            f"periods; not beginning with '__'; none of {', '.join(sorted(RESERVED_NAMES))}",
            remedy="rename it",
        )
    )


def check_names(names: Iterable[object], where: str) -> None:
    """Raise if a name is no text: it holds halves of surrogate pairs, as file names of other encodings do.

    Raises
    ------
    InvalidInputError
        Naming the first.
    """
    for name in names:
        if isinstance(name, str) and not _is_unicode(name):
            raise InvalidInputError(
                explain("this name is not Unicode", where=where, received=_shortened(name), remedy="rename it")
            )


def check_plain_arrays(documents: Mapping[str, Mapping[str, Any]], where: object) -> None:
    """Raise unless arrays hold numbers and text only, and all of them lie inside their store.

    Parameters
    ----------
    documents : mapping
        The metadata documents of the nodes of a Zarr store, by path.
    where : object
        The store.

    Raises
    ------
    FileFormatError
        If an array needs a codec that is not known to be harmless, such as pickle, or a path leaves the store.
    """
    for path, document in documents.items():
        if any(part in ("", ".", "..") for part in path.replace("\\", "/").split("/")):
            raise FileFormatError(
                explain("a path in the metadata leads out of the store", where=where, received=_shortened(path))
            )
        unknown = [name for name in _codecs_of(document) if name not in PLAIN_CODECS]
        if unknown:
            raise FileFormatError(
                explain(
                    "an array holds Python objects, which are never unpickled, or is encoded in an unknown way",
                    where=f"{where}, array {path!r}",
                    received=f"codec {', '.join(map(repr, unknown))}",
                    allowed="numbers and text, compressed by codecs of Zarr",
                    remedy="write it again as such an array, with the program it comes from",
                )
            )


def _codecs_of(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the codecs of an array's metadata, of Zarr 2 or 3, those inside shards included."""
    for role in ("codecs", "index_codecs", "filters", "compressor"):
        found = document.get(role) or ()
        for codec in [found] if isinstance(found, Mapping) else found:
            if isinstance(codec, Mapping):
                yield str(codec.get("name", codec.get("id"))).removeprefix("numcodecs.")
                yield from _codecs_of(codec.get("configuration", {}))
            else:
                yield str(codec).removeprefix("numcodecs.")


def _is_text(char: str) -> bool:
    """Whether a character is neither a control character nor half of a surrogate pair."""
    return not (char < " " or "\x7f" <= char <= "\x9f" or "\ud800" <= char <= "\udfff")


def _is_unicode(name: str) -> bool:
    return name.isascii() or not any("\ud800" <= char <= "\udfff" for char in name)


def _shortened(name: str, most: int = 100) -> str:
    return repr(name) if len(name) <= most else f"{name[:most]!r}..., {len(name):,} characters"
