"""What is left to do at the place of a result: all of a plan, or the models and data sets that a finished one lacks.

No number depends on what else is evaluated, so everything in the result stays. Arrays grow along the models, and new
values lie beyond their former ends, where nobody looks until the root document, written last, names the new shapes: a
result stays open meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from zarr.abc.buffer import Buffer

from aucpr_dask.errors import REPLACE_IT, StoreError, few
from aucpr_dask.evaluation.results import KIND
from aucpr_dask.runs.ledger import Ledger, digest_of_root, identity_of
from aucpr_dask.runs.planning import Plan, Region, Task
from aucpr_dask.schema.terms import MODEL, nodes_of
from aucpr_dask.scores.store import stored_digests
from aucpr_dask.storage import stores
from aucpr_dask.storage.backends import delete_value, get_values, open_backend
from aucpr_dask.storage.checksums import have_checksums, plain_entry
from aucpr_dask.storage.claims import CLEARING, FINISHED, GROWING, LAYING_OUT, RUNNING, State, as_buffer

Label = tuple[str, str, tuple[slice, ...], NDArray[Any]]  # data set, variable, where in it, values
Names = dict[str, tuple[Any, ...]]  # along each dimension of a data set


@dataclass(frozen=True)
class Step:
    """Tasks and everything else that is written, which becomes visible at once, at the end."""

    plan: Plan  # with the tasks of the step
    state: State  # which the step begins with
    documents: Mapping[str, Buffer]  # metadata and small variables, by key
    root_document: Buffer  # it makes the step visible
    digests: Mapping[str, NDArray[np.uint64]]  # of the rankings that the result has then
    labels: tuple[Label, ...] = ()  # the names of what is new in a result that grows
    clears: bool = False  # whether what is in the place is removed first

    @classmethod
    def whole(cls, plan: Plan, target: str, *, clears: bool = False) -> Step:
        """Return the step that evaluates all of a plan, or the rest of it."""
        documents, root = stores.laid_out(plan.template, KIND, target)
        state = State(LAYING_OUT, "", identity_of(plan.parameters), digest_of_root(root), plan.parameters)
        return cls(plan, state, documents, root, stored_digests(plan.unread), clears=clears)

    def begin(self, target: str, ledger: Ledger) -> bool:
        """Write everything but the numbers, unless that was done before; return whether this step had begun.

        A run of the same plan may be doing the same, or may have been killed while it did: both write identical
        documents. A run that is being replaced stops.

        Raises
        ------
        StoreError
            If there is something else in the place by now.
        OtherRunError
            If another run of this plan has finished there by now.
        """
        with stores.explaining_writes(target, ledger):
            found = State() if self.clears else ledger.recorded()
            is_ours = found.identity == self.state.identity
            clears = self.clears or (is_ours and found.word == CLEARING)
            has_begun = is_ours and found.word in (RUNNING, GROWING) and not clears
            if has_begun:  # by a run of the same plan
                ledger.join()
                if found.word == RUNNING:
                    return True
            elif self.state.word == GROWING:
                if found.word == FINISHED and found.plan == self.state.plan:
                    raise ledger.other_run()
                ledger.take_over(replace(self.state, by_others=found.by_others))
                ledger.drop_records()
            elif clears:
                stores.make_room(target, ledger, self.state, overwrite=True)
            else:
                stores.refuse_others(target, ledger, self.state.identity)
                has_begun = ledger.claim(self.state)
            backend = open_backend(target)
            stores.write_documents(backend, self.documents)
            for path, name, where, values in self.labels:
                stores.open_array(backend, path, name)[where] = values
            ledger.record_digests(self.digests)
            if self.state.word != GROWING:
                if clears:  # the run that was stopped may have been about to finish
                    delete_value(backend, stores.ROOT_DOCUMENT)
                ledger.start(self.state)
        return has_begun

    def finish(self, target: str, ledger: Ledger) -> None:
        """Make the step visible; a document that is no longer as it was written is written again."""
        backend, keys = open_backend(target), list(self.documents)
        found = zip(keys, get_values(backend, keys), strict=True)
        lost = [key for key, one in found if one is None or one.to_bytes() != self.documents[key].to_bytes()]
        stores.write_documents(backend, {key: self.documents[key] for key in lost})
        ledger.record_digests(self.digests)
        ledger.finish(replace(self.state, plan=self.plan.parameters), self.root_document, self.documents)


# --- growth -----------------------------------------------------------------------------------------------------------


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
            names[path] = {}
            for dim, size in sizes.items():
                place = f"{path}/{dim}".strip("/")
                if place not in metadata:
                    names[path][dim] = tuple(range(size))
                    continue
                labels = np.asarray(stores.described_array(backend, place, metadata[place])[:])
                times = stores.type_of_times(metadata[place]["attributes"])
                names[path][dim] = _as_names(labels.astype(times or labels.dtype))
            recorded = ledger.digests(path)
            if recorded is not None:  # perhaps those of a growth that was begun: old rankings come first
                digests[path] = recorded[tuple(map(slice, sizes.values()))]
    return Contents(names, digests)


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
            for key, entry in before.items():  # a damaged chunk that they share with earlier ones: later, nothing tells
                dims = entry.get("dimension_names") or ()
                if key.rpartition("/")[0] == path and MODEL in dims and start:
                    array = stores.described_array(store, key, plain_entry(entry))
                    array[tuple(slice(start - 1, start) if dim == MODEL else slice(None) for dim in dims)]
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
    end = digest_of_root(root)
    identity = identity_of({**plan.parameters, "end": end})
    # Named after what it writes, so that two calls that begin at once share their tasks.
    state = State(GROWING, identity, identity, end, plan.parameters)
    return Step(plan.with_tasks(tasks), state, documents, root, digests, tuple(labels))


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
    tiles = dict[str, list[tuple[int, int]]]()
    for dim, all_of in places.items():
        bounds = [start if dim == MODEL else 0]
        while bounds[-1] < len(all_of):
            bounds.append(min(len(all_of), (bounds[-1] // chunks[dim] + 1) * chunks[dim]))
        tiles[dim] = list(pairwise(bounds))
    for index in np.ndindex(*map(len, tiles.values())):
        region: Region = tuple((dim, *tiles[dim][i]) for dim, i in zip(tiles, index, strict=True))
        there = tuple(tuple(places[dim][a:b].tolist()) for dim, a, b in region)
        is_alike = all(place == tuple(range(a, b)) for place, (_, a, b) in zip(there, region, strict=True))
        yield Task(path, region, steps, () if is_alike else there)


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
