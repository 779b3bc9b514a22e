"""Extend a finished result by the data sets, queries, models or resamples that it lacks of a plan.

No number depends on what else is evaluated, so everything in the result stays. Arrays grow along their dimensions, and
new values lie beyond their former ends, where nobody looks until the root document, written last, names the new
shapes: a result stays open while models, queries or data sets are added to it. Only more resamples change existing
numbers, the bounds of intervals; until all are replaced, the result does not open.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from zarr.abc.store import Store
from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.core.sync import sync

from aucpr_dask.errors import StoreError, few
from aucpr_dask.evaluation.results import KIND
from aucpr_dask.runs.ledger import Ledger, differing, digest_of_root
from aucpr_dask.runs.planning import Plan, Region, Task, digest_of
from aucpr_dask.schema.trees import Scores, nodes_of
from aucpr_dask.schema.variables import CLASS, QUERY, RANKING_DIMS, RESAMPLE
from aucpr_dask.scores.store import stored_digests
from aucpr_dask.storage.backends import delete_value, get_value, set_value
from aucpr_dask.storage.checksums import have_checksums
from aucpr_dask.storage.stores import (
    ROOT_DOCUMENT,
    described_array,
    laid_out,
    open_array,
    open_backend,
    write_documents,
)

DATES = "datetime64[ns]"  # a result stores dates as the integers of this type
NOT_KEPT = {"bootstrap_t", "bayesian"}  # intervals that need more than the kept replicates
MAY_DIFFER = frozenset({"source", "source_digest", "blocks", "blocks_digest", "n_resamples"})

Names = dict[str, tuple[Any, ...]]  # along each dimension of a data set
Document = dict[str, Any]
Label = tuple[str, str, tuple[slice, ...], NDArray[Any]]  # data set, variable, where in it, values


@dataclass(frozen=True)
class Contents:
    """The contents of a result: names along each data set's dimensions, digests of rankings, number of resamples."""

    names: Mapping[str, Names]
    digests: Mapping[str, NDArray[np.uint64]]
    n_resamples: int


@dataclass(frozen=True)
class Extension:
    """An addition to a finished result that becomes visible as a whole.

    Parameters
    ----------
    tasks : tuple of Task
    first_resample : int
        The first resample that these tasks draw; the result has the earlier ones.
    documents : mapping
        The metadata of new arrays, and of those that grow, by key.
    labels : tuple
        The new names along what grows.
    root_before, root_document : dict
        The root document of the result now, and the one that makes the extension visible.
    contents : Contents
        Of the result once it is extended.
    options : mapping
        The options of its evaluation then, as a ledger records them.
    """

    tasks: tuple[Task, ...]
    first_resample: int
    documents: Mapping[str, Buffer]
    labels: tuple[Label, ...]
    root_before: Document
    root_document: Document
    contents: Contents
    options: Mapping[str, Any]

    @property
    def identity(self) -> str:
        """Digests that tell this extension from others: of its work, and of the root document that it ends with."""
        facts = digest_of(self.tasks), self.first_resample
        return hashlib.sha256(repr(facts).encode()).hexdigest() + digest_of_root(_as_buffer(self.root_document))

    def lay_out(self, target: str, ledger: Ledger) -> bool:
        """Write everything but the numbers, unless that was done before; return whether this run had begun."""
        if ledger.extension() == self.identity:
            return True
        if not ledger.is_claimed_for(self.identity):
            ledger.retire()
            ledger.drop_records()
        has_begun = ledger.claim(self.identity)
        backend = open_backend(target)
        write_documents(backend, self.documents)
        for path, name, where, values in self.labels:
            open_array(backend, path, name)[where] = values
        ledger.record_digests(self.contents.digests)
        if self.first_resample:
            ledger.keep_root(_as_buffer(self.root_before))
            delete_value(backend, ROOT_DOCUMENT)
        ledger.open_extension(self.identity)
        if not ledger.token():  # another run has made this extension meanwhile
            self._commit(target, ledger)
            raise ledger.other_run()
        return has_begun

    def finish(self, target: str, ledger: Ledger) -> None:
        """Make the extension visible."""
        ledger.check()
        self._commit(target, ledger)

    def _commit(self, target: str, ledger: Ledger) -> None:
        set_value(open_backend(target), ROOT_DOCUMENT, _as_buffer(self.root_document))
        if self.first_resample:
            ledger.change_plan((ledger.plan() or {}) | {"options": self.options})
        ledger.close()


def may_extend(before: Mapping[str, Any], plan: Plan) -> bool:
    """Return whether a finished result can grow into a plan, provided that its rankings have not changed."""
    names = set(differing(before, plan.parameters))
    if not names <= MAY_DIFFER:
        return False
    return "n_resamples" not in names or _may_have_more_resamples(before["options"]["n_resamples"], plan)


def _may_have_more_resamples(n_before: int, plan: Plan) -> bool:
    asked = plan.options.resampling
    if not any("n_resamples" in node.attrs for _, node in nodes_of(plan.template)):
        return True  # nothing is drawn
    is_kept = all("replicate" in node for _, node in nodes_of(plan.template))
    return is_kept and n_before < asked.n_resamples and not NOT_KEPT & set(asked.intervals)


def extensions_of(target: str, ledger: Ledger, plan: Plan) -> list[Extension]:
    """Return the extensions, each on top of the one before, by which a finished result grows into a plan.

    More resamples come first, so that whatever is new is evaluated once. Then queries or classes come before
    models: what is added at a time is a box.
    """
    if ledger.plan() == plan.parameters and ledger.extension() is None:
        return []
    backend = open_backend(target)
    root = _root_of(backend, ledger)
    now, wanted = _contents(backend, root["consolidated_metadata"]["metadata"], ledger, plan), _wanted(plan)
    is_between = not sync(backend.exists(ROOT_DOCUMENT))
    if wanted.n_resamples < now.n_resamples + is_between:
        raise StoreError(
            "this result was given more resamples, and some of its intervals have them already",
            where=target,
            received=f"n_resamples={wanted.n_resamples}",
            allowed=f"more than {now.n_resamples}" if is_between else f"{now.n_resamples} and more",
            remedy="run the interrupted command again, or pass overwrite=True (--overwrite) to start over",
        )
    _refuse_changes(now, wanted, target)
    extensions: list[Extension] = []
    if now.n_resamples < wanted.n_resamples:
        extensions.append(_more_resamples(root, plan, now, wanted, target))
        root, now = extensions[-1].root_document, extensions[-1].contents
    for dims in ((QUERY, CLASS), RANKING_DIMS):
        names = _merged(now.names, wanted.names, dims)
        if names != now.names:
            extensions.append(_growth(root, plan, now, wanted, names, target))
            root, now = extensions[-1].root_document, extensions[-1].contents
    return extensions


def _root_of(backend: Store, ledger: Ledger) -> Document:
    """Return the root document of a finished result, even if it does not open while resamples are added."""
    document = get_value(backend, ROOT_DOCUMENT) or ledger.kept_root()
    return {} if document is None else dict(json.loads(document.to_bytes()))


def _as_buffer(document: Document) -> Buffer:
    return default_buffer_prototype().buffer.from_bytes(json.dumps(document).encode())


def _contents(backend: Store, metadata: Mapping[str, Document], ledger: Ledger, plan: Plan) -> Contents:
    names: dict[str, Names] = {}
    digests = {}
    n_resamples = plan.options.resampling.n_resamples
    for key, entry in metadata.items():
        path, _, name = key.rpartition("/")
        if name == "replicate":
            n_resamples = entry["shape"][-1]
        if name == "n_positive":
            sizes = dict(zip(entry["dimension_names"], entry["shape"], strict=True))
            names[path] = {dim: _names(backend, metadata, path, dim, size) for dim, size in sizes.items()}
            recorded = ledger.digests(path)
            if recorded is not None:  # perhaps those of an extension that was begun: old rankings come first
                digests[path] = recorded[tuple(map(slice, sizes.values()))]
    return Contents(names, digests, n_resamples)


def _names(backend: Store, metadata: Mapping[str, Document], path: str, dim: str, size: int) -> tuple[Any, ...]:
    key = f"{path}/{dim}".strip("/")
    if key not in metadata:
        return tuple(range(size))
    labels = described_array(backend, key, metadata[key])[:]
    return _as_names(labels, are_dates="calendar" in metadata[key]["attributes"])


def _as_names(labels: Any, *, are_dates: bool) -> tuple[Any, ...]:
    labels = np.asarray(labels)
    return tuple((labels.astype(DATES).astype(str) if are_dates else labels).tolist())


def _wanted(plan: Plan) -> Contents:
    nodes = dict(nodes_of(plan.template))
    names = {
        path: {
            str(dim): _as_names(index, are_dates=index.dtype.kind == "M")
            for dim, index in ((dim, node.get_index(dim)) for dim in node["n_positive"].dims)
        }
        for path, node in nodes.items()
    }
    return Contents(names, stored_digests(plan.unread), plan.options.resampling.n_resamples)


def _merged(now: Mapping[str, Names], wanted: Mapping[str, Names], dims: Sequence[str]) -> dict[str, Names]:
    """Return the names of a result once it has grown along some dimensions: old names come first."""
    grown = {}
    for path, names in wanted.items():
        if path not in now:
            grown[path] = names
            continue
        grown[path] = dict(now[path])
        for dim in names.keys() & set(dims):
            grown[path][dim] = tuple(dict.fromkeys((*now[path][dim], *names[dim])))
    return grown


def _refuse_changes(now: Contents, wanted: Contents, where: str) -> None:
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
        raise StoreError(
            "there is something at this place already: an evaluation of other scores",
            where=where,
            received="source_digest: another; " + "; ".join(changes),
            allowed="the scores that were evaluated, and more models, queries or data sets",
            remedy="name another place, or pass overwrite=True (--overwrite) to start over",
        )


def _refuse_other_type(key: str, before: Any, now: Any) -> None:
    """Raise if new labels would not keep their values among the old ones."""
    if before != now:
        raise StoreError(
            "new labels are of another type than those of the result, so they cannot be added",
            where=f"array {key!r}",
            received=str(now),
            allowed=str(before),
            remedy="store the scores with labels of one type, or pass overwrite=True (--overwrite) to start over",
        )


def _positions(names: Sequence[Any], chosen: Sequence[Any]) -> NDArray[np.int64]:
    place = {name: position for position, name in enumerate(names)}
    return np.array([place[name] for name in chosen], dtype=np.int64)


def _refuse_nested(names: Mapping[str, Names], where: str) -> None:
    """Raise if a data set lies within another: the variables they share are stored once, with the outer one."""
    nested = [path for path in names if any(path.startswith(f"{other}/") for other in names)]
    if nested:
        raise StoreError(
            "data sets within others cannot be added to a finished result, nor can they grow in it",
            where=where,
            received=few(map(repr, nested)),
            allowed="data sets side by side",
            remedy="name another place, or pass overwrite=True (--overwrite) to start over",
        )


def _growth(
    root: Document, plan: Plan, now: Contents, wanted: Contents, names: dict[str, Names], where: str
) -> Extension:
    """Return the extension after which a result has rankings of these names."""
    _refuse_nested(names, where)
    tasks: list[Task] = [task for task in plan.tasks if task.path not in now.names]
    labels: list[Label] = []
    templates = dict(nodes_of(plan.template))
    for path, before in now.names.items():
        starts = {dim: len(before[dim]) if len(names[path][dim]) > len(before[dim]) else 0 for dim in before}
        grown = [dim for dim in starts if starts[dim]] or [dim for dim in before if names[path][dim] != before[dim]]
        if grown:
            tasks += _tasks(root, plan, path, names[path], wanted.names[path], starts)
            labels += _labels(templates[path], path, names[path], wanted.names[path], starts, grown)
    digests = {
        path: wanted.digests[path][np.ix_(*(_positions(wanted.names[path][dim], one[dim]) for dim in one))]
        for path, one in names.items()
        if path in wanted.digests
    }
    contents = Contents(names, digests, now.n_resamples)
    documents, new_root = _documents(root, plan, contents, where)
    options = plan.parameters["options"]
    return Extension(tuple(tasks), 0, documents, tuple(labels), root, new_root, contents, options)


def _more_resamples(root: Document, plan: Plan, now: Contents, wanted: Contents, where: str) -> Extension:
    """Return the extension after which every ranking has more resamples."""
    tasks: list[Task] = []
    labels: list[Label] = []
    for path, names in now.names.items():
        tasks += _tasks(root, plan, path, names, wanted.names[path], dict.fromkeys(names, 0))
        labels.append((path, RESAMPLE, (slice(0, wanted.n_resamples),), np.arange(wanted.n_resamples)))
    contents = Contents(now.names, now.digests, wanted.n_resamples)
    documents, new_root = _documents(root, plan, contents, where)
    options = plan.parameters["options"]
    return Extension(tuple(tasks), now.n_resamples, documents, tuple(labels), root, new_root, contents, options)


def _tasks(
    root: Document, plan: Plan, path: str, names: Names, source: Names, starts: Mapping[str, int]
) -> Iterator[Task]:
    """Yield the tasks from `starts` on, each within one chunk of the result, with their places in the source."""
    entry = root["consolidated_metadata"]["metadata"][f"{path}/n_positive".strip("/")]
    chunks = dict(zip(entry["dimension_names"], entry["chunk_grid"]["configuration"]["chunk_shape"], strict=True))
    places = {dim: _positions(source[dim], names[dim]) for dim in names}
    steps = next((task.steps for task in plan.tasks if task.path == path), ())
    tiles = {dim: list(_tiles(starts[dim], len(names[dim]), chunks[dim])) for dim in names}
    for index in np.ndindex(*map(len, tiles.values())):
        region: Region = tuple((dim, *tiles[dim][i]) for dim, i in zip(tiles, index, strict=True))
        there = tuple(tuple(places[dim][start:stop].tolist()) for dim, start, stop in region)
        is_alike = all(place == tuple(range(a, b)) for place, (_, a, b) in zip(there, region, strict=True))
        yield Task(path, region, steps, () if is_alike else there)


def _tiles(start: int, stop: int, chunk: int) -> Iterator[tuple[int, int]]:
    while start < stop:
        end = min(stop, (start // chunk + 1) * chunk)
        yield start, end
        start = end


def _labels(
    template: xr.Dataset, path: str, names: Names, source: Names, starts: Mapping[str, int], grown: Sequence[str]
) -> Iterator[Label]:
    """Yield the coordinates along the dimensions that grow."""
    for name, coordinate in template.coords.items():
        if not set(grown) & set(coordinate.dims):
            continue
        where = {dim: slice(starts[str(dim)], len(names[str(dim)])) for dim in coordinate.dims if dim in names}
        places = {dim: _positions(source[str(dim)], names[str(dim)])[part] for dim, part in where.items()}
        slices = tuple(where.get(dim, slice(None)) for dim in coordinate.dims)
        values = coordinate.isel(places).values
        yield path, str(name), slices, values.astype(DATES) if values.dtype.kind == "M" else values


def _documents(root: Document, plan: Plan, contents: Contents, where: str) -> tuple[dict[str, Buffer], Document]:
    """Return the documents of all arrays that are new or grow, and the root document that makes them visible."""
    names = contents.names
    before = root["consolidated_metadata"]["metadata"]
    checked = have_checksums(before)  # a result of version 0.1 stays as it is
    fresh, root_buffer = laid_out(_only(plan.template, names), KIND, where, has_checksums=checked)
    fresh_root = json.loads(root_buffer.to_bytes())
    metadata: dict[str, Document] = {}
    documents: dict[str, Buffer] = {}
    for key, entry in fresh_root["consolidated_metadata"]["metadata"].items():
        path = key.rpartition("/")[0]
        if key in before and entry["node_type"] == "array":
            _refuse_other_type(key, before[key]["data_type"], entry["data_type"])
            sizes = {dim: len(values) for dim, values in names[path].items()} | {RESAMPLE: contents.n_resamples}
            dims = entry.get("dimension_names") or ()
            shape = [sizes.get(dim, n) for dim, n in zip(dims, before[key]["shape"], strict=True)]
            entry = before[key] | {"shape": shape}
        metadata[key] = entry
        if entry != before.get(key):
            document = f"{key}/{ROOT_DOCUMENT}"  # a group's own document must not repeat the consolidated metadata
            documents[document] = fresh[document] if entry["node_type"] == "group" else _as_buffer(entry)
    new = tuple(f"{path}/" for path in names if f"{path}/n_positive".strip("/") not in before)
    documents |= {key: content for key, content in fresh.items() if key.startswith(new)}
    consolidated = fresh_root["consolidated_metadata"] | {"metadata": metadata}
    return documents, fresh_root | {"consolidated_metadata": consolidated}


def _only(template: Scores, paths: Collection[str]) -> Scores:
    """Return a template without the data sets that come with a later extension."""
    if isinstance(template, xr.Dataset):
        return template
    kept = xr.DataTree.from_dict({path: node for path, node in nodes_of(template) if path in paths})
    kept.attrs = template.attrs
    return kept
