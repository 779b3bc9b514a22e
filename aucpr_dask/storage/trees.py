"""Open a tree of data sets: to those that differ only in their values and lengths, xarray would take 10 ms each."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import xarray as xr
import zarr
from numcodecs.vlen import VLenUTF8
from xarray.indexes import PandasIndex
from zarr.buffer import default_buffer_prototype
from zarr.codecs import BytesCodec, VLenUTF8Codec
from zarr.storage import StorePath

from aucpr_dask.schema.terms import Nodes, Stored, nodes_of
from aucpr_dask.storage import checksums, documents
from aucpr_dask.storage.xarray_private import (
    CopyOnWriteArray,
    LazilyIndexedArray,
    MemoryCachedArray,
    ZarrArrayWrapper,
)
from aucpr_dask.storage.zarr_private import ArrayV3Metadata, concurrent_map, sync

SMALL = 2**16  # bytes of a variable
Entries = dict[str, Any]  # the metadata of the arrays of a data set, by name


class StoredNodes:
    """The data sets of a store: xarray opens the first one of each form, and the others are opened when asked for."""

    def __init__(self, backend: checksums.CheckedStore, metadata: Mapping[str, Any]) -> None:
        # Of all groups and arrays below the root, by path.
        self._metadata, self._known = metadata, dict[int, ArrayV3Metadata]()
        self._entries: dict[str, Entries] = {}
        for place, entry in metadata.items():
            path, _, name = place.rpartition("/")
            if entry["node_type"] == "array":
                self._entries.setdefault(path, {})[name] = entry
        groups = (place for place, entry in metadata.items() if entry["node_type"] == "group")
        holders = {above for place in groups for above in groups_around(place)}
        firsts, known = dict[Any, str](), dict[int, str | None]()
        self._first_of: dict[str, str] = {}
        for path, of_path in self._entries.items():
            # Otherwise coordinates are inherited.
            is_alone = path and path not in holders and self._entries.keys().isdisjoint(groups_around(path))
            form = _form_of(of_path, metadata[path], known) if is_alone else None
            self._first_of[path] = firsts.setdefault(form or path, path)
        self._view = backend.without([path for path, first in self._first_of.items() if path != first])
        self._is_tree = any(entry["node_type"] == "group" for entry in metadata.values())
        source: Any = self._view
        # Times in the unit that they are stored in, not in nanoseconds.
        how: Any = {"decode_times": xr.coders.CFDatetimeCoder(time_unit="s")}
        how |= {"decode_timedelta": xr.coders.CFTimedeltaCoder(decode_via_units=False)}
        how |= {"engine": "zarr", "chunks": None, "consolidated": True, "zarr_format": 3}
        found = (xr.open_datatree if self._is_tree else xr.open_dataset)(source, **how)
        self._firsts = Nodes(nodes_of(found), found.attrs)

    def opened(self, paths: Collection[str] | None = None, *, reads: Collection[str] = ()) -> Stored:
        """Return data sets by path, all by default; small variables of the names that it `reads` are in memory."""
        if not self._is_tree:
            return self._firsts[""]
        chosen = [path for path in ("", *self._metadata) if path in self._first_of and (paths is None or path in paths)]
        models = {path: self._firsts[self._first_of[path]] for path in chosen if self._first_of[path] in self._firsts}
        others = {path: None for path in models if path != self._first_of[path]}
        wanted = [
            (path, str(name))
            for path in others
            for name, first in models[path].variables.items()
            if name in models[path].indexes
            or (name in reads and first.dtype.itemsize * math.prod(self._entries[path][str(name)]["shape"]) <= SMALL)
        ]
        with documents.explaining_damage(self._view):
            values = dict(sync(concurrent_map(wanted, self._read, limit=64)))
            return Nodes(
                {path: self._like(path, model, values) if path in others else model for path, model in models.items()},
                self._firsts.attrs,
            )

    async def _read(self, path: str, name: str) -> tuple[tuple[str, str], Any]:
        """Return the values of an array."""
        array = self.array(path, name)
        found = await within_chunk(array, {})
        return (path, name), await array._async_array.getitem(...) if found is None else found.copy()

    def array(self, path: str, name: str) -> zarr.Array[Any]:
        """Return an array by its entry in the metadata; making the same metadata again would take a third of a ms."""
        entry = self._entries[path][name]
        if id(entry) not in self._known:  # equal entries are one object
            self._known[id(entry)] = ArrayV3Metadata.from_dict(checksums.plain_entry(dict(entry)))
        return zarr.Array(zarr.AsyncArray(self._known[id(entry)], StorePath(self._view, f"{path}/{name}".strip("/"))))

    def _like(self, path: str, model: xr.Dataset, values: Mapping[tuple[str, str], Any]) -> xr.Dataset:
        """Return a data set like the first of its form."""
        variables: dict[Any, xr.Variable] = {}
        indexes, known = dict[Any, Any](), model.xindexes
        for name, first in model.variables.items():
            lengths = self._entries[path][str(name)]["chunk_grid"]["configuration"]["chunk_shape"]
            encoding = first.encoding | {"chunks": tuple(lengths)}
            encoding["preferred_chunks"] = dict(zip(first.dims, lengths, strict=True))
            data: Any = values.get((path, str(name)))
            if name in known and first.shape == data.shape and (first.values == data).all():
                variables[name], indexes[name] = first.copy(deep=False), known[name]
                continue
            if data is None:
                lazy: Any = LazilyIndexedArray(ZarrArrayWrapper(self.array(path, str(name))))
                data = MemoryCachedArray(CopyOnWriteArray(lazy))
            variables[name] = xr.Variable(first.dims, data, first.attrs, encoding)
            if name in known:
                indexes[name] = PandasIndex.from_variables({name: variables[name]}, options={})
                variables |= indexes[name].create_variables({name: variables[name]})
        attrs = {name: value for name, value in self._metadata[path]["attributes"].items() if name != "coordinates"}
        # Which variables fit together is known from the first: to find out takes longer than all the rest.
        return xr.Dataset._construct_direct(
            variables, set(model.coords), attrs=attrs, indexes=indexes, encoding=dict(model.encoding)
        )


async def within_chunk(array: zarr.Array[Any], region: Mapping[str, slice]) -> Any:
    """Return numbers or text that lie in one chunk, without Zarr, which takes a millisecond and copies them.

    None if they lie in several chunks, or if Zarr has to decode them.
    """
    metadata: Any = array.metadata
    dtype, is_text = metadata.dtype.to_native_dtype(), metadata.codecs == (VLenUTF8Codec(),)
    if not is_text and (dtype.kind not in "iufU" or metadata.codecs != (BytesCodec(),)):
        return None
    place, inside = list[int](), list[slice]()
    dims = metadata.dimension_names or (None,) * array.ndim
    for dim, size, length in zip(dims, array.shape, metadata.chunk_grid.chunk_shape, strict=True):
        start, stop, _ = region.get(dim, slice(None)).indices(size)
        place.append(start // length)
        inside.append(slice(start % length, start % length + stop - start))
        if inside[-1].stop > length:
            return None
    key = f"{array.path}/{metadata.encode_chunk_key(tuple(place))}"
    content = await array.store.get(key, default_buffer_prototype())
    if content is None:
        return None
    inner = content.as_numpy_array()
    values = VLenUTF8().decode(inner).astype(dtype) if is_text else np.frombuffer(inner, dtype)
    return values.reshape(metadata.chunk_grid.chunk_shape)[tuple(inside)]


def groups_around(path: str) -> list[str]:
    """Return the paths of the groups that a group lies in, the root last."""
    parts = path.split("/") if path else []
    return ["/".join(parts[:n]) for n in reversed(range(len(parts)))]


def _form_of(entries: Entries, group: Mapping[str, Any], known: dict[int, str | None]) -> Any:
    """Return what data sets have in common whose variables differ only in their values and lengths, if any do."""
    for key, entry in {id(entry): entry for entry in entries.values()}.items():
        if key not in known:
            form = json.dumps(entry | {"shape": len(entry["shape"]), "chunk_grid": None})
            known[key] = form if documents.are_plain_values(entry.get("attributes", {})) else None
    forms = [(name, known[id(entry)]) for name, entry in entries.items()]
    if any(form is None for _, form in forms):
        return None
    return (*forms, json.dumps(group.get("attributes", {}).get("coordinates")))
