"""Extend a finished result by the models and data sets that it lacks of a plan.

No number depends on what else is evaluated, so everything in the result stays. Arrays grow along the models, and new
values lie beyond their former ends, where nobody looks until the root document, written last, names the new shapes: a
result stays open meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from zarr.abc.store import Store

from aucpr_dask.errors import REPLACE_IT, StoreError, few
from aucpr_dask.evaluation.results import KIND
from aucpr_dask.runs.ledger import Ledger
from aucpr_dask.runs.planning import Plan, Region, Task
from aucpr_dask.runs.steps import Label, Step
from aucpr_dask.schema.terms import MODEL, nodes_of
from aucpr_dask.scores.store import stored_digests
from aucpr_dask.storage import stores
from aucpr_dask.storage.backends import open_backend
from aucpr_dask.storage.checksums import have_checksums, plain_entry
from aucpr_dask.storage.claims import as_buffer

Names = dict[str, tuple[Any, ...]]  # along each dimension of a data set


@dataclass(frozen=True)
class Contents:
    """The contents of a result: names along each data set's dimensions, and digests of its rankings."""

    names: Mapping[str, Names]
    digests: Mapping[str, NDArray[np.uint64]]


def contents_of(target: str, ledger: Ledger, groups: Collection[str]) -> Contents:
    """Return the contents of a finished result; groups of items, the dimensions of these names, are not added."""
    backend, metadata = open_backend(target), stores.open_checked(target)[1]
    names: dict[str, Names] = {}
    digests = {}
    for key, entry in metadata.items():
        path, _, name = key.rpartition("/")
        if name == "n_positive":
            along = zip(entry["dimension_names"], entry["shape"], strict=True)
            sizes = {dim: size for dim, size in along if dim not in groups}
            names[path] = {dim: _names(backend, metadata, path, dim, size) for dim, size in sizes.items()}
            recorded = ledger.digests(path)
            if recorded is not None:  # perhaps those of a growth that was begun: old rankings come first
                digests[path] = recorded[tuple(map(slice, sizes.values()))]
    return Contents(names, digests)


def _names(backend: Store, metadata: Mapping[str, Any], path: str, dim: str, size: int) -> tuple[Any, ...]:
    key = f"{path}/{dim}".strip("/")
    if key not in metadata:
        return tuple(range(size))
    labels = np.asarray(stores.described_array(backend, key, metadata[key])[:])
    return _as_names(labels.astype(stores.type_of_times(metadata[key]["attributes"]) or labels.dtype))


def _as_names(labels: Any) -> tuple[Any, ...]:
    labels = np.asarray(labels)
    return tuple((labels.astype(str) if labels.dtype.kind in "mM" else labels).tolist())


def wanted_contents(plan: Plan, groups: Collection[str]) -> Contents:
    """Return the contents that the result of a plan has, in the order of the source."""
    names = {
        path: {
            str(dim): _as_names(index)
            for dim, index in ((dim, node.get_index(dim)) for dim in node["n_positive"].dims if dim not in groups)
        }
        for path, node in nodes_of(plan.template)
    }
    return Contents(names, stored_digests(plan.unread))


def refuse_changes(now: Contents, wanted: Contents, where: str) -> None:
    """Raise unless the source still has every ranking of the result, unchanged."""
    changes = []
    for path, names in now.names.items():
        place = f"data set {path!r}: " if path else ""
        new = wanted.names.get(path)
        if new is None or new.keys() != names.keys():
            changes.append(f"{place}is gone, or has other dimensions")
            continue
        gone = {dim: [name for name in names[dim] if name not in set(new[dim])] for dim in names}
        if any(gone.values()):
            changes += [f"{place}{dim} gone: {few(map(repr, lost))}" for dim, lost in gone.items() if lost]
            continue
        if path not in now.digests or path not in wanted.digests:
            changes.append(f"{place}stored without digests of its rankings, so nothing tells whether they are the same")
            continue
        index = np.ix_(*(_positions(new[dim], names[dim]) for dim in names))
        differ = np.argwhere(wanted.digests[path][index] != now.digests[path])
        changed = [", ".join(f"{d} {names[d][i]!r}" for d, i in zip(names, at, strict=True)) for at in differ]
        if changed:
            changes.append(f"{place}scores or labels changed of {few(changed)}")
    if changes:
        what = "there is something at this place already: an evaluation of other scores"
        raise StoreError(what, where, "; ".join(changes), None, REPLACE_IT)


def growth(plan: Plan, target: str, now: Contents, wanted: Contents) -> Step | None:
    """Return the step after which a result has all models and data sets of a plan; None if nothing is missing.

    Raises
    ------
    NotByModels
        If it lacks anything else, or is stored in another way.
    """
    names = {path: dict(now.names.get(path, new)) for path, new in wanted.names.items()}
    for path, new in wanted.names.items():
        if MODEL in new:
            names[path][MODEL] = tuple(dict.fromkeys((*names[path][MODEL], *new[MODEL])))
        if any(set(new[dim]) != set(names[path][dim]) for dim in new):
            raise NotByModels
    if names == now.names:
        return None
    # Variables that a data set shares with those inside it are stored once, with the outer one.
    if any(path.startswith(f"{other}/") for path in names for other in names):
        raise NotByModels
    store, before = stores.open_checked(target)
    tasks: list[Task] = [task for task in plan.tasks if task.path not in now.names]
    labels: list[Label] = []
    for path, template in nodes_of(plan.template):
        if path in now.names and names[path] != now.names[path]:
            start = len(now.names[path][MODEL])
            _check_ends(store, before, path, start)
            places = {dim: _positions(wanted.names[path][dim], one) for dim, one in names[path].items()}
            tasks += _tasks(before, plan, path, places, start)
            labels += _labels(template, path, places, start)
    here = [(path, node) for path, node in nodes_of(plan.template) if path in now.names]
    wanted_keys = {f"{path}/{name}".strip("/") for path, node in here for name in node.variables}
    if not wanted_keys <= before.keys():
        raise NotByModels
    documents, root = _documents(before, plan, names, target)
    digests = {
        path: wanted.digests[path][np.ix_(*(_positions(wanted.names[path][dim], one[dim]) for dim in one))]
        for path, one in names.items()
        if path in wanted.digests
    }
    return Step.growing(plan.with_tasks(tasks), documents, root, digests, tuple(labels))


class NotByModels(Exception):
    """The result lacks more than models and data sets, so it must be evaluated again."""


def _positions(names: Sequence[Any], chosen: Sequence[Any]) -> NDArray[np.int64]:
    place = {name: position for position, name in enumerate(names)}
    return np.array([place[name] for name in chosen], dtype=np.int64)


def _tasks(
    before: Mapping[str, Any], plan: Plan, path: str, places: Mapping[str, NDArray[np.int64]], start: int
) -> Iterator[Task]:
    """Yield the tasks of new models, each within one chunk of the result, with their places in the source."""
    entry = before[f"{path}/n_positive".strip("/")]
    chunks = dict(zip(entry["dimension_names"], entry["chunk_grid"]["configuration"]["chunk_shape"], strict=True))
    steps = next((task.steps for task in plan.tasks if task.path == path), ())
    tiles = {dim: list(_tiles(start if dim == MODEL else 0, len(there), chunks[dim])) for dim, there in places.items()}
    for index in np.ndindex(*map(len, tiles.values())):
        region: Region = tuple((dim, *tiles[dim][i]) for dim, i in zip(tiles, index, strict=True))
        there = tuple(tuple(places[dim][a:b].tolist()) for dim, a, b in region)
        is_alike = all(place == tuple(range(a, b)) for place, (_, a, b) in zip(there, region, strict=True))
        yield Task(path, region, steps, () if is_alike else there)


def _check_ends(store: Store, before: Mapping[str, Any], path: str, start: int) -> None:
    """Raise if a chunk that new models will share with earlier ones is damaged; afterwards nothing could tell."""
    for key, entry in before.items():
        dims = entry.get("dimension_names") or ()
        if key.rpartition("/")[0] == path and MODEL in dims and start:
            array = stores.described_array(store, key, plain_entry(entry))
            array[tuple(slice(start - 1, start) if dim == MODEL else slice(None) for dim in dims)]


def _tiles(start: int, stop: int, chunk: int) -> Iterator[tuple[int, int]]:
    while start < stop:
        end = min(stop, (start // chunk + 1) * chunk)
        yield start, end
        start = end


def _labels(template: xr.Dataset, path: str, places: Mapping[str, NDArray[np.int64]], start: int) -> Iterator[Label]:
    """Yield the coordinates of new models."""
    for name, coordinate in template.coords.items():
        if MODEL in coordinate.dims:
            where = {dim: slice(start if dim == MODEL else 0, None) for dim in coordinate.dims}
            values = coordinate.isel({dim: places[str(dim)][part] for dim, part in where.items() if dim in places})
            yield path, str(name), tuple(where.values()), values.values


def _documents(before: Mapping[str, Any], plan: Plan, names: Mapping[str, Names], target: str) -> tuple[Any, Any]:
    """Return the documents that are new or change, and the root document that makes the growth visible."""
    fresh, root = stores.laid_out(plan.template, KIND, target)
    changed = {}
    suffix = f"/{stores.ROOT_DOCUMENT}"
    for key, old in before.items():
        document = f"{key}{suffix}"
        if old["node_type"] == "group":
            changed[document] = fresh[document]
            continue
        if document not in fresh:
            raise NotByModels
        new, sizes = json.loads(fresh[document].to_bytes()), names[key.rpartition("/")[0]]
        units = [stores.type_of_times(one["attributes"]) for one in (new, old)]
        if new["data_type"] != old["data_type"] or units[0] != units[1] or not have_checksums({key: old}):
            raise NotByModels
        dims = old.get("dimension_names") or ()
        shape = [len(sizes[dim]) if dim in sizes else n for dim, n in zip(dims, old["shape"], strict=True)]
        changed[document] = as_buffer(json.dumps(old | {"shape": shape}).encode())
    root = stores.consolidated(root, fresh | changed)
    # What is in the result stays: of its arrays only the documents change, never a chunk.
    kept = tuple(f"{key}/" for key, old in before.items() if old["node_type"] == "array")
    return {key: value for key, value in fresh.items() if not key.startswith(kept)} | changed, root
