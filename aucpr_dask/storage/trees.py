"""Open a tree of data sets: to those that differ only in their values and lengths, xarray would take 10 ms each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import xarray as xr
import zarr
from xarray.backends.zarr import ZarrArrayWrapper
from xarray.core.indexing import CopyOnWriteArray, LazilyIndexedArray, MemoryCachedArray
from xarray.indexes import PandasIndex
from zarr.core.common import concurrent_map
from zarr.core.metadata.v3 import ArrayV3Metadata
from zarr.core.sync import sync
from zarr.storage import StorePath

from aucpr_dask.schema.terms import Nodes, nodes_of
from aucpr_dask.storage.checksums import CheckedStore, plain_entry
from aucpr_dask.storage.documents import are_plain_values

Entries = dict[str, Any]  # the metadata of the arrays of a data set, by name


def open_tree(backend: CheckedStore, metadata: Mapping[str, Any]) -> Nodes:
    """Open a tree as `xarray.open_datatree` does: with it the first data sets of each form, and by hand the others."""
    entries: dict[str, Entries] = {}
    for place, entry in metadata.items():
        path, _, name = place.rpartition("/")
        if entry["node_type"] == "array":
            entries.setdefault(path, {})[name] = entry
    groups = (place for place, entry in metadata.items() if entry["node_type"] == "group")
    holders = {above for place in groups for above in groups_around(place)}
    firsts, first_of = dict[str, str](), {}
    for path, of_path in entries.items():
        is_alone = path not in holders and entries.keys().isdisjoint(
            groups_around(path)
        )  # else coordinates are inherited
        form = _form_of(of_path, metadata[path]) if is_alone else None
        first_of[path] = firsts.setdefault(form or path, path)
    others = [path for path, first in first_of.items() if path != first]
    view = backend.without(others)
    source: Any = view
    tree = xr.open_datatree(source, engine="zarr", chunks=None, consolidated=True, zarr_format=3)
    nodes = Nodes(nodes_of(tree), tree.attrs)
    if not others:
        return nodes
    axes = _Axes(view, {path: entries[path] for path in others}, nodes, first_of)
    nodes |= {path: _like(nodes[first_of[path]], path, entries[path], metadata[path], axes) for path in others}
    return Nodes({path: nodes[path] for path in ("", *metadata) if path in nodes}, tree.attrs)


def groups_around(path: str) -> list[str]:
    """Return the paths of the groups that a group lies in, the root last."""
    parts = path.split("/") if path else []
    return ["/".join(parts[:n]) for n in reversed(range(len(parts)))]


def _form_of(entries: Entries, group: Mapping[str, Any]) -> str | None:
    """Return what data sets have in common whose variables differ only in their values and lengths, if any do."""
    if not all(are_plain_values(entry.get("attributes", {})) for entry in entries.values()):
        return None
    forms = {name: entry | {"shape": len(entry["shape"]), "chunk_grid": None} for name, entry in entries.items()}
    return json.dumps([forms, group.get("attributes", {}).get("coordinates")])


class _Axes:
    """The arrays of data sets like others, with the labels along their dimensions read at once."""

    def __init__(
        self,
        view: CheckedStore,
        entries: Mapping[str, Entries],
        models: Mapping[str, xr.Dataset],
        first_of: Mapping[str, str],
    ) -> None:
        self._view, self._known = view, dict[str, ArrayV3Metadata]()
        wanted = [(path, str(name)) for path in entries for name in models[first_of[path]].indexes]

        async def read(path: str, name: str) -> Any:
            return await self.array(path, name, entries[path][name])._async_array.getitem(...)

        self.labels = dict(zip(wanted, sync(concurrent_map(wanted, read, limit=64)), strict=True))

    def array(self, path: str, name: str, entry: Mapping[str, Any]) -> zarr.Array[Any]:
        """Return an array by its entry in the metadata; making the same metadata again would take a third of a ms."""
        text = json.dumps(entry)
        if text not in self._known:
            self._known[text] = ArrayV3Metadata.from_dict(plain_entry(dict(entry)))
        return zarr.Array(zarr.AsyncArray(self._known[text], StorePath(self._view, f"{path}/{name}".strip("/"))))


def _like(model: xr.Dataset, path: str, entries: Entries, group: Mapping[str, Any], axes: _Axes) -> xr.Dataset:
    """Return a data set like the first of its form."""
    variables: dict[Any, xr.Variable] = {}
    indexes: dict[Any, Any] = {}
    for name, first in model.variables.items():
        entry = entries[str(name)]
        lengths = entry["chunk_grid"]["configuration"]["chunk_shape"]
        encoding = first.encoding | {"chunks": tuple(lengths)}
        encoding["preferred_chunks"] = dict(zip(first.dims, lengths, strict=True))
        if name in model.indexes:
            labels = axes.labels[path, str(name)]
            if first.shape == labels.shape and (first.values == labels).all():
                variables[name], indexes[name] = first.copy(deep=False), model.xindexes[name]
                continue
            variable = xr.Variable(first.dims, labels, first.attrs, encoding)
            indexes[name] = PandasIndex.from_variables({name: variable}, options={})
            variables |= indexes[name].create_variables({name: variable})
        else:
            data: Any = LazilyIndexedArray(ZarrArrayWrapper(axes.array(path, str(name), entry)))
            variables[name] = xr.Variable(first.dims, MemoryCachedArray(CopyOnWriteArray(data)), first.attrs, encoding)
    coordinates = xr.Coordinates({name: variables.pop(name) for name in model.coords}, indexes)
    attrs = {name: value for name, value in group["attributes"].items() if name != "coordinates"}
    dataset = xr.Dataset(variables, coordinates, attrs)
    dataset.encoding = dict(model.encoding)
    return dataset
