"""Codecs that decode bytes to numbers and text only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aucpr_dask.errors import FileFormatError
from aucpr_dask.schema.names import shortened_name

# Pickle, which can run code, is not included; unknown codecs are refused.
_LAYOUTS = ("bytes", "vlen-bytes", "vlen-utf8", "transpose", "sharding_indexed")

_COMPRESSIONS = ("blosc", "bz2", "gzip", "lz4", "lzma", "pcodec", "zfpy", "zlib", "zstd")

_CHECKSUMS = ("adler32", "crc32", "crc32c", "fletcher32", "jenkins_lookup3")

_FILTERS = ("astype", "bitround", "delta", "fixedscaleoffset", "packbits", "quantize", "shuffle")

PLAIN_CODECS = frozenset((*_LAYOUTS, *_COMPRESSIONS, *_CHECKSUMS, *_FILTERS))


def check_plain_arrays(documents: Mapping[str, Mapping[str, Any]], where: object) -> None:
    """Raise unless the metadata documents, by path, describe arrays of numbers and text inside their store."""
    for path, document in documents.items():
        if any(part in ("", ".", "..") for part in path.replace("\\", "/").split("/")):
            raise FileFormatError(
                "a path in the metadata leads out of the store", where=where, received=shortened_name(path)
            )
        unknown = [name for name in _codecs_of(document) if name not in PLAIN_CODECS]
        if unknown:
            raise FileFormatError(
                "an array holds Python objects, which are never unpickled, or is encoded in an unknown way",
                where=f"{where}, array {path!r}",
                received=f"codec {', '.join(map(repr, unknown))}",
                allowed="numbers and text, compressed by Zarr's codecs",
                remedy="write it again as such an array, with the program that wrote it",
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
