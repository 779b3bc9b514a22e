"""Decompress chunks into no more bytes than their metadata declare, whatever they say of themselves; and compress."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import google_crc32c
import numcodecs.blosc
import numcodecs.lz4
import numcodecs.zstd
import numpy as np
from numcodecs.vlen import VLenUTF8

_TEXT, _OF_ONE, _RATIO = 2**26, 2**8, 64  # bytes of text in a chunk: in any, for each element, times its own size
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class UndecodableError(Exception):
    """The bytes of a chunk are not what its metadata declare."""


def can_decode(codecs: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether these codecs, from bytes to bytes, are undone here."""
    return all(_name_of(codec) in _DECODERS for codec in codecs)


def decoded(content: Any, codecs: Sequence[Mapping[str, Any]], n: int, itemsize: int | None) -> Any:
    """Undo codecs, the last one first; the result has `n` elements of this many bytes, or of text.

    Raises
    ------
    UndecodableError
        If the content cannot be decoded, or would have another length; before that takes memory.
    """
    n_bytes = None if itemsize is None else n * itemsize
    for place, codec in reversed(list(enumerate(codecs))):
        exact = n_bytes if place == 0 else None  # between two codecs, lengths are about the same
        most = _TEXT + _OF_ONE * n + _RATIO * len(content) if n_bytes is None else 2 * n_bytes + 4096
        try:
            content = _DECODERS[_name_of(codec)](content, codec.get("configuration", {}), exact, most)
        except UndecodableError:
            raise
        except Exception as error:  # codecs raise anything
            raise UndecodableError(f"{type(error).__name__}: {error}"[:300]) from error
    if n_bytes is not None and len(content) != n_bytes:
        raise UndecodableError(f"{len(content):,} bytes, where the metadata declare {n_bytes:,}")
    return content


def _name_of(codec: Mapping[str, Any]) -> str:
    return str(codec["name"]).removeprefix("numcodecs.")


def _refuse_length(length: int | None, exact: int | None, most: int) -> None:
    if length is None or (length != exact if exact is not None else length > most):
        known = "an unknown number of" if length is None else f"{length:,}"
        raise UndecodableError(f"it unpacks to {known} bytes, where the metadata allow {exact or most:,}")


def _zstd(content: Any, _: Mapping[str, Any], exact: int | None, most: int) -> Any:
    length = _length_of_frame(bytes(content[:18]))
    if length is None and exact is not None:  # then it must fit as it is
        length = exact
    _refuse_length(length, exact, most)
    room = np.empty(length or 0, np.uint8)
    return numcodecs.zstd.decompress(content, room) if length else b""


def _length_of_frame(head: bytes) -> int | None:
    """Return the length that a Zstandard frame states; None if it states none (RFC 8878, 3.1.1.1)."""
    if not head.startswith(_ZSTD_MAGIC):
        raise UndecodableError("it is no Zstandard frame")
    descriptor = head[4]
    is_single, size = bool(descriptor & 32), descriptor >> 6
    n_bytes = (int(is_single), 2, 4, 8)[size]
    start = 5 + (not is_single) + (0, 1, 2, 4)[descriptor & 3]
    return int.from_bytes(head[start : start + n_bytes], "little") + 256 * (size == 1) if n_bytes else None


def _blosc(content: Any, _: Mapping[str, Any], exact: int | None, most: int) -> Any:
    length, packed = (int.from_bytes(bytes(content[at : at + 4]), "little") for at in (4, 12))
    _refuse_length(length, exact, most)
    if packed != len(content):
        raise UndecodableError(f"it has {len(content):,} bytes, where it declares {packed:,}")
    return numcodecs.blosc.decompress(content, np.empty(length, np.uint8)) if length else b""


def _lz4(content: Any, _: Mapping[str, Any], exact: int | None, most: int) -> Any:
    _refuse_length(int.from_bytes(bytes(content[:4]), "little"), exact, most)
    return numcodecs.lz4.decompress(content)


def _streams(new: Callable[[Mapping[str, Any]], Any]) -> Callable[..., Any]:
    """Return a decoder of streams, one behind another, each of which must come to its end."""

    def decode(content: Any, settings: Mapping[str, Any], exact: int | None, most: int) -> Any:
        rest, parts, room = bytes(content), list[bytes](), (most if exact is None else exact) + 1
        while rest:
            stream = new(settings)
            parts.append(stream.decompress(rest, room))
            room -= len(parts[-1])
            if not stream.eof or not room:
                what = "it ends early" if room else f"it unpacks to more than the {(exact or most):,} bytes allowed"
                raise UndecodableError(what)
            rest = stream.unused_data
        return b"".join(parts)

    return decode


_DECODERS: dict[str, Callable[..., Any]] = {
    "zstd": _zstd,
    "blosc": _blosc,
    "lz4": _lz4,
    "gzip": _streams(lambda _: zlib.decompressobj(31)),
    "zlib": _streams(lambda _: zlib.decompressobj(15)),
    "bz2": _streams(lambda _: bz2.BZ2Decompressor()),
    "lzma": _streams(
        lambda settings: lzma.LZMADecompressor(settings.get("format", lzma.FORMAT_XZ), filters=settings.get("filters"))
    ),
}


def can_encode(codecs: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether :func:`encoded` knows these codecs."""
    first, *others = codecs
    endian = first.get("configuration", {}).get("endian", "little")
    is_ours = first["name"] in ("bytes", "vlen-utf8") and endian == "little"
    return is_ours and all(one["name"] in _ENCODERS for one in others)


def encoded(values: Any, codecs: Sequence[Mapping[str, Any]]) -> bytes:
    """Return a chunk as Zarr writes it, by the codecs that this package writes with: Zarr takes a millisecond each."""
    first, *others = codecs
    if first["name"] == "vlen-utf8":
        content = VLenUTF8().encode(np.asarray(values, object))
    else:
        content = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    for codec in others:
        content = _ENCODERS[codec["name"]](content, codec.get("configuration", {}))
    return bytes(content)


_SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")

_ENCODERS: dict[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "zstd": lambda content, how: numcodecs.zstd.compress(content, how["level"], how["checksum"]),
    "blosc": lambda content, how: numcodecs.blosc.compress(
        content, how["cname"].encode(), how["clevel"], _SHUFFLES.index(how["shuffle"]), how["blocksize"]
    ),
    "crc32c": lambda content, _: bytes(content) + int(google_crc32c.value(bytes(content))).to_bytes(4, "little"),
}
