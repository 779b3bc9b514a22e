"""Metadata documents of stores, checked before anything relies on their form, and codecs, which decode data only."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from zarr.abc.buffer import Buffer

from aucpr_dask.errors import AucprError, FileFormatError, StoreError, brief
from aucpr_dask.schema.terms import RESULT_VARIABLES, SCORE_VARIABLES, is_text, shortened_name

LARGEST_DOCUMENT = 2**28  # bytes: the consolidated metadata of some 50,000 data sets
LARGEST_LENGTH = 2**63 - 1
LARGEST_CHUNK = 2**31  # elements, unless the array itself has more

_OF_ARRAYS = ("shape", "data_type", "chunk_grid", "chunk_key_encoding", "codecs", "fill_value", "dimension_names")
_CHANGING = ("scale_factor", "add_offset", "missing_value", "_FillValue", "dtype", "_Unsigned", "_Encoding")
_NAN = "AAAAAAAA+H8="  # as xarray writes it


def damaged(where: object, received: object, allowed: str = "what this package writes") -> StoreError:
    """Return the error that a metadata document is not as it was written."""
    remedy = "fetch or write the store again"
    return StoreError("the metadata of this store are damaged", where, received, allowed, remedy)


@contextmanager
def explaining_damage(where: object) -> Iterator[None]:
    """Explain errors of metadata: Zarr and xarray expect sound ones, and raise anything."""
    try:
        yield
    except (AucprError, PermissionError, MemoryError):
        raise
    except Exception as error:
        raise damaged(where, f"{type(error).__name__}: {error}"[:1000]) from error


def root_of(content: bytes, where: object) -> dict[str, Any]:
    """Parse the root document of a store; its attributes and consolidated metadata are mappings, if it has them.

    Equal entries of the metadata are one object: a tree of thousands of data sets has few that differ.
    """
    if len(content) > LARGEST_DOCUMENT:
        raise damaged(where, f"a document of {len(content):,} bytes", f"up to {LARGEST_DOCUMENT:,} bytes")
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        received, remedy = f"{type(error).__name__}: {error}", "fetch or write the store again"
        what, allowed = "the root document is not valid JSON", "a JSON object in UTF-8"
        raise StoreError(what, where, received, allowed, remedy) from error
    root = _mapping(document, "the root document", where)
    _mapping(root.get("attributes", {}), "attributes of the root", where)
    metadata, known = _consolidated(root, where), dict[str, Any]()
    for path, entry in metadata.items():
        if not is_text(path):
            raise damaged(where, f"the name {brief(path)}", "Unicode text without control characters")
        metadata[path] = known.setdefault(json.dumps(entry), entry)
        if metadata[path] is not entry:
            continue
        entry = _mapping(entry, f"the entry {brief(path)}", where)
        if entry.get("node_type") not in ("array", "group"):
            with explaining_damage(where):
                check_plain_arrays({path: entry}, where)  # an array of Zarr 2 has no node_type
            raise damaged(f"{where}, {brief(path)}", f"node_type {brief(entry.get('node_type'))}", "array or group")
        if _consolidated(entry, where):
            raise damaged(where, f"consolidated metadata inside the entry {brief(path)}", "those of the root only")
        _mapping(entry.get("attributes", {}), f"attributes of {brief(path)}", where)
        codecs = entry.get("codecs", [])
        if not isinstance(codecs, list) or not all(
            isinstance(codec, dict) and "name" in codec and isinstance(codec.get("configuration", {}), dict)
            for codec in codecs
        ):
            allowed = "a list of codecs with names and configurations"
            raise damaged(f"{where}, array {brief(path)}", f"codecs {brief(codecs)}", allowed)
    return root


def _consolidated(document: Mapping[str, Any], where: object) -> dict[str, Any]:
    """Return the metadata documents below a group, by path; nothing if they are not consolidated."""
    if document.get("consolidated_metadata") is None:
        return {}
    consolidated = _mapping(document["consolidated_metadata"], "consolidated_metadata", where)
    return _mapping(consolidated.get("metadata"), "consolidated_metadata.metadata", where)


def _mapping(value: Any, name: str, where: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise damaged(where, f"{name}: {brief(value)}", "a JSON object")
    return value


def check_arrays(metadata: Mapping[str, Any], where: object) -> None:
    """Raise unless memory can hold a chunk of each array, and readers that follow the CF conventions keep its values.

    These are arrays of numbers and text, inside their store.
    """

    def are_lengths(lengths: Any, least: int) -> bool:
        return isinstance(lengths, list) and all(type(n) is int and least <= n <= LARGEST_LENGTH for n in lengths)

    check_plain_arrays(metadata, where)
    for path, entry in distinct(metadata).items():
        place, attributes = f"{where}, array {brief(path)}", entry.get("attributes")
        if entry.get("node_type") == "array":
            shape: Any = entry.get("shape")
            if not are_lengths(shape, least=0):
                raise damaged(place, f"shape {brief(shape)}", f"whole numbers from 0 to {LARGEST_LENGTH}")
            grid = entry.get("chunk_grid")
            settings = grid.get("configuration") if isinstance(grid, dict) else None
            chunk: Any = settings.get("chunk_shape") if isinstance(settings, dict) else None
            fits = are_lengths(chunk, least=1) and math.prod(chunk) <= max(LARGEST_CHUNK, math.prod(shape))
            if not fits or len(chunk) != len(shape):
                most = f"in all up to {LARGEST_CHUNK:,} elements or those of the array"
                allowed = f"a whole number from 1 for each dimension, {most}"
                raise damaged(place, f"chunk_shape {brief(chunk)} of shape {brief(shape)}", allowed)
        changing = set(changing_attributes(attributes)) if isinstance(attributes, Mapping) else set[str]()
        if path.rpartition("/")[2] not in SCORE_VARIABLES.keys() | RESULT_VARIABLES.keys():  # coordinates may be dates
            changing -= {"units", "dtype", "_FillValue"}
        elif changing and attributes.get("_FillValue") == _NAN:
            changing -= {"_FillValue"}
        if changing:
            received = ", ".join(f"{name} {brief(attributes[name])}" for name in sorted(changing))
            raise damaged(place, received, "no attributes by which readers would change the values")


def changing_attributes(attributes: Mapping[str, Any]) -> list[str]:
    """Return the names of attributes by which readers that follow the CF conventions change values."""
    found = [name for name in _CHANGING if name in attributes]
    return [*found, "units"] if " since " in str(attributes.get("units", "")) else found


def are_plain_values(attributes: Mapping[str, Any]) -> bool:
    """Whether readers that follow the CF conventions take the values of an array as they are."""
    found = changing_attributes(attributes)
    return not found or (found == ["_FillValue"] and attributes["_FillValue"] == _NAN)


@contextmanager
def text_of_fixed_width() -> Iterator[None]:
    """Write and read text of a fixed width without the warning that Zarr's specification does not list it yet."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The data type .FixedLengthUTF32")
        yield


def of_array(metadata: Any) -> dict[str, Any]:
    """Return the metadata document of an array, of Zarr 2 or 3."""
    with text_of_fixed_width():
        found: dict[str, Any] = metadata.to_dict()
        return found


def check_same_array(document: Buffer | None, consolidated: Mapping[str, Any], path: str, where: object) -> None:
    """Raise unless an array's own document describes what the consolidated metadata, which are checked, describe."""
    with explaining_damage(f"{where}, array {brief(path)}"):
        own = {} if document is None else _mapping(json.loads(document.to_bytes()), "the document", where)
    if differing := [name for name in _OF_ARRAYS if own.get(name) != consolidated.get(name)]:
        received = f"in its own document {', '.join(f'{name} {brief(own.get(name))}' for name in differing)}"
        allowed = f"as in the consolidated metadata: {', '.join(brief(consolidated.get(name)) for name in differing)}"
        raise damaged(f"{where}, array {brief(path)}", received, allowed)


def distinct(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of which no other of the same name is the same object, each by its first path."""
    firsts = dict[tuple[int, str], str]()
    for path, entry in entries.items():
        firsts.setdefault((id(entry), path.rpartition("/")[2]), path)
    return {path: entries[path] for path in firsts.values()}


# Pickle, which can run code, is not included; unknown codecs are refused.
_LAYOUTS = ("bytes", "vlen-bytes", "vlen-utf8", "transpose", "sharding_indexed")
_COMPRESSIONS = ("blosc", "bz2", "gzip", "lz4", "lzma", "pcodec", "zfpy", "zlib", "zstd")
_CHECKSUMS = ("adler32", "crc32", "crc32c", "fletcher32", "jenkins_lookup3")
_FILTERS = ("astype", "bitround", "delta", "fixedscaleoffset", "packbits", "quantize", "shuffle")
PLAIN_CODECS = frozenset((*_LAYOUTS, *_COMPRESSIONS, *_CHECKSUMS, *_FILTERS))


def check_plain_arrays(documents: Mapping[str, Mapping[str, Any]], where: object) -> None:
    """Raise unless the metadata documents, by path, describe arrays of numbers and text inside their store."""
    for path in documents:
        if any(part in ("", ".", "..") for part in path.replace("\\", "/").split("/")):
            raise FileFormatError("a path in the metadata leads out of the store", where, shortened_name(path))
    for path, document in distinct(documents).items():
        unknown = [name for name in _codecs_of(document) if name not in PLAIN_CODECS]
        if unknown:
            what = "an array holds Python objects, which are never unpickled, or is encoded in an unknown way"
            place, received = f"{where}, array {path!r}", f"codec {', '.join(map(repr, unknown))}"
            allowed = "numbers and text, compressed by Zarr's codecs"
            remedy = "write it again as such an array, with the program that wrote it"
            raise FileFormatError(what, place, received, allowed, remedy)


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
