"""What a finished result still lacks of a plan: data sets, queries, models or resamples, and how they are added.

No number depends on what else is evaluated, so all that is there stays. Arrays grow along their dimensions, and what is
new lies beyond their former ends, where nobody looks until the root document, written last, names the new shapes: a
result stays open, as it was, while models, queries or data sets are added to it. Only more resamples change numbers
that are there, the bounds of intervals; meanwhile the result does not open.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from zarr.abc.store import Store
from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.core.sync import sync

from aucpr_dask.errors import StoreError
from aucpr_dask.evaluation.results import KIND
from aucpr_dask.runs.ledger import Ledger, differing
from aucpr_dask.runs.planning import Block, Plan, Region, plan_run
from aucpr_dask.schema.variables import MODEL, QUERY, RESAMPLE
from aucpr_dask.scores.store import stored_digests
from aucpr_dask.storage.backends import delete_value, get_value, set_value
from aucpr_dask.storage.stores import ROOT_DOCUMENT, PendingStore, laid_out, nodes_of, open_array, open_backend

MOST_NAMED = 5
DATES = "datetime64[ns]"  # whose integers are what a result keeps of labels that are dates
NOT_KEPT = {"bootstrap_t", "bayesian"}  # intervals that rest on more than the replicates that are kept
MAY_DIFFER = frozenset({"source", "source_digest", "blocks", "blocks_digest", "n_resamples"})

Names = dict[str, tuple[Any, ...]]  # along each dimension of a data set
Document = dict[str, Any]
Label = tuple[str, str, tuple[slice, ...], NDArray[Any]]  # data set, variable, where in it, values


@dataclass(frozen=True)
class Contents:
    """What a result holds, or is to hold: the names along each data set's dimensions, digests, resamples."""

    names: Mapping[str, Names]
    digests: Mapping[str, NDArray[np.uint64]]
    n_resamples: int


@dataclass(frozen=True)
class Stage:
    """What is added to a result, and becomes visible, at once.

    Parameters
    ----------
    blocks : tuple of Block
    first_resample : int
        The first resample that these blocks draw; those before it are there.
    documents : mapping
        Of new arrays, and of those that grow, by key.
    labels : tuple
        Names along what grows: data set, variable, where, values.
    root_document : dict
        What makes all of it visible.
    digests : mapping
        Of the rankings that the result holds then.
    """

    blocks: tuple[Block, ...]
    first_resample: int
    documents: Mapping[str, Buffer]
    labels: tuple[Label, ...]
    root_document: Document
    digests: Mapping[str, NDArray[np.uint64]]

    @property
    def stays_open(self) -> bool:
        """Whether the result can be read meanwhile."""
        return self.first_resample == 0

    @property
    def identity(self) -> str:
        """What tells whether an unfinished stage is this one."""
        return hashlib.sha256(repr((self.blocks, self.first_resample, self.root_document)).encode()).hexdigest()


def may_extend(before: Mapping[str, Any], plan: Plan) -> bool:
    """Whether a finished result may grow into what is planned, if its rankings are still the same."""
    names = set(differing(before, plan.parameters))
    if not names <= MAY_DIFFER:
        return False
    return "n_resamples" not in names or _may_have_more_resamples(before["options"], plan)


def _may_have_more_resamples(then: Mapping[str, Any], plan: Plan) -> bool:
    now = plan.parameters["options"]
    if not any("n_resamples" in node.attrs for _, node in nodes_of(plan.template)):
        return True  # nothing is drawn
    is_kept = all("replicate" in node for _, node in nodes_of(plan.template))
    return is_kept and then["n_resamples"] < now["n_resamples"] and not NOT_KEPT & set(now["intervals"])


def stages_of(plan: Plan, ledger: Ledger, target: str) -> Iterator[tuple[Stage, Plan]]:
    """Yield what to add to a finished result, one stage after the other is finished, and by which plan.

    Raises
    ------
    StoreError
        If the result holds rankings that the source has no longer, or has changed; or if nothing tells. If more
        resamples were begun to be added, and are not planned any more.
    """
    options = plan.parameters["options"]
    before = ledger.plan()
    if before is None:
        return
    backend = open_backend(target)
    n_before = before["options"]["n_resamples"]
    if options["n_resamples"] <= n_before and _is_between(backend, ledger):
        raise StoreError(
            "this result was being given more resamples, and some of its intervals have them already",
            where=target,
            received=f"n_resamples={options['n_resamples']}",
            allowed=f"more than {n_before}",
            remedy="give the call that was interrupted, or pass overwrite=True (--overwrite) to evaluate all anew",
        )
    if before == plan.parameters:
        return
    plans = (
        [plan]
        if n_before == options["n_resamples"]
        else [plan_run(plan.source, **options | {"n_resamples": n_before}), plan]
    )
    for planned in plans:
        while (stage := _next_stage(backend, ledger, planned, target)) is not None:
            yield stage, planned


def _next_stage(backend: Store, ledger: Ledger, plan: Plan, where: str) -> Stage | None:
    """Return what to add next to a finished result; None if it holds all that is planned."""
    root = _root_of(backend, ledger)
    metadata = root["consolidated_metadata"]["metadata"]
    now = _contents(backend, metadata, ledger, plan)
    wanted = _wanted(plan)
    _refuse_changes(now, wanted, where)
    for dims in ((QUERY,), (QUERY, MODEL)):
        names = _merged(now.names, wanted.names, dims)
        if names != now.names:
            return _growth(root, plan, now, wanted, names, where)
    return _more_resamples(root, plan, now, wanted, where) if now.n_resamples < wanted.n_resamples else None


def _root_of(backend: Store, ledger: Ledger) -> Document:
    """Return the root document of a finished result, one that does not open while it is extended included."""
    document = get_value(backend, ROOT_DOCUMENT) or ledger.kept_root()
    return {} if document is None else dict(json.loads(document.to_bytes()))


def _is_between(backend: Store, ledger: Ledger) -> bool:
    """Whether a result does not open, because some of its intervals may have more resamples than others."""
    return ledger.kept_root() is not None and not sync(backend.exists(ROOT_DOCUMENT))


def begin(stage: Stage, target: str, ledger: Ledger) -> None:
    """Lay out what a stage adds, unless it was begun before."""
    if ledger.extension() == stage.identity:
        return
    backend = open_backend(target)
    before = _as_buffer(_root_of(backend, ledger))
    ledger.retire()
    ledger.drop_records()
    ledger.claim()
    for key, document in stage.documents.items():
        set_value(backend, key, document)
    for path, name, where, values in stage.labels:
        open_array(backend, path, name)[where] = values
    ledger.record_digests(stage.digests)
    if not stage.stays_open:
        ledger.keep_root(before)
        delete_value(backend, ROOT_DOCUMENT)
    ledger.open_extension(stage.identity)


def finish(stage: Stage, target: str, ledger: Ledger) -> None:
    """Make visible what a stage has added; if the result does not open, once it has all its resamples."""
    ledger.check()
    backend, root_document = open_backend(target), _as_buffer(stage.root_document)
    if stage.stays_open and _is_between(backend, ledger):
        ledger.keep_root(root_document)
        ledger.close(still_between=True)
        return
    PendingStore(target, backend, root_document).commit()
    ledger.close()


def _as_buffer(document: Document) -> Buffer:
    """Return a metadata document as a store keeps it."""
    return default_buffer_prototype().buffer.from_bytes(json.dumps(document).encode())


def _contents(backend: Store, metadata: Mapping[str, Document], ledger: Ledger, plan: Plan) -> Contents:
    names: dict[str, Names] = {}
    digests = {}
    n_resamples = plan.parameters["options"]["n_resamples"]
    for key, entry in metadata.items():
        path, _, name = key.rpartition("/")
        if name == "replicate":
            n_resamples = entry["shape"][-1]
        if name == "n_positive":
            sizes = dict(zip(entry["dimension_names"], entry["shape"], strict=True))
            names[path] = {dim: _names(backend, metadata, path, dim, size) for dim, size in sizes.items()}
            recorded = ledger.digests(path)
            if recorded is not None:  # perhaps those of a stage that was begun: what is there comes first
                digests[path] = recorded[tuple(map(slice, sizes.values()))]
    return Contents(names, digests, n_resamples)


def _names(backend: Store, metadata: Mapping[str, Document], path: str, dim: str, size: int) -> tuple[Any, ...]:
    entry = metadata.get(f"{path}/{dim}".strip("/"))
    if entry is None:
        return tuple(range(size))
    return _as_names(open_array(backend, path, dim)[:size], are_dates="calendar" in entry["attributes"])


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
    n_resamples = plan.parameters["options"]["n_resamples"]
    return Contents(names, stored_digests(plan.unread), n_resamples)


def _merged(now: Mapping[str, Names], wanted: Mapping[str, Names], dims: Sequence[str]) -> dict[str, Names]:
    """Return the names of a result once it has grown along some dimensions: what is there comes first."""
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
    """Raise unless the source still has every ranking of the result, and every one as it was."""
    changes = []
    for path, names in now.names.items():
        place = f"data set {path!r}: " if path else ""
        new = wanted.names.get(path)
        if new is None or new.keys() != names.keys():
            changes.append(f"{place}is gone, or has other dimensions")
            continue
        gone = {dim: [name for name in names[dim] if name not in set(new[dim])] for dim in names}
        if any(gone.values()):
            changes += [
                f"{place}{dim} gone: {_listed(list(map(repr, missing)))}" for dim, missing in gone.items() if missing
            ]
            continue
        if path not in now.digests or path not in wanted.digests:
            changes.append(f"{place}stored without digests of its rankings, so nothing tells whether they are the same")
            continue
        index = np.ix_(*(_positions(new[dim], names[dim]) for dim in names))
        differ = np.argwhere(wanted.digests[path][index] != now.digests[path])
        changed = [", ".join(f"{d} {names[d][i]!r}" for d, i in zip(names, at, strict=True)) for at in differ]
        if changed:
            changes.append(f"{place}scores or labels changed of {_listed(changed)}")
    if changes:
        raise StoreError(
            "there is something at this place already: an evaluation of other scores",
            where=where,
            received="source_digest: another; " + "; ".join(changes),
            allowed="the scores that were evaluated, and new models, queries or data sets beside them",
            remedy="name another place, or pass overwrite=True (--overwrite) to evaluate all anew",
        )


def _refuse_other_type(key: str, before: Any, now: Any) -> None:
    """Raise if labels that are new would not keep their values among those that are there."""
    if before != now:
        raise StoreError(
            "what is new is of another type than what the result holds, so it cannot be added",
            where=f"array {key!r}",
            received=str(now),
            allowed=str(before),
            remedy="store the scores with labels of one type, or pass overwrite=True (--overwrite) to evaluate all "
            "anew",
        )


def _listed(parts: Sequence[str]) -> str:
    shown = ", ".join(parts[:MOST_NAMED])
    return shown if len(parts) <= MOST_NAMED else f"{shown} and {len(parts) - MOST_NAMED} more"


def _positions(names: Sequence[Any], chosen: Sequence[Any]) -> NDArray[np.int64]:
    place = {name: position for position, name in enumerate(names)}
    return np.array([place[name] for name in chosen], dtype=np.int64)


def _refuse_nested(names: Mapping[str, Names], where: str) -> None:
    """Raise if one data set stands within another: what they have in common is written once, with the outer one."""
    nested = [path for path in names if any(path.startswith(f"{other}/") for other in names)]
    if nested:
        raise StoreError(
            "data sets that stand within others cannot be added to a finished result, nor grow in it",
            where=where,
            received=_listed(list(map(repr, nested))),
            allowed="data sets side by side",
            remedy="name another place, or pass overwrite=True (--overwrite) to evaluate all anew",
        )


def _growth(root: Document, plan: Plan, now: Contents, wanted: Contents, names: dict[str, Names], where: str) -> Stage:
    """Return the stage by which a result holds rankings of these names."""
    _refuse_nested(names, where)
    blocks: list[Block] = [block for block in plan.blocks if block.path not in now.names]
    labels: list[Label] = []
    templates = dict(nodes_of(plan.template))
    for path, before in now.names.items():
        starts = {dim: len(before[dim]) if len(names[path][dim]) > len(before[dim]) else 0 for dim in before}
        grown = [dim for dim in starts if starts[dim]] or [dim for dim in before if names[path][dim] != before[dim]]
        if grown:
            blocks += _blocks(root, plan, path, names[path], wanted.names[path], starts)
            labels += _labels(templates[path], path, names[path], wanted.names[path], starts, grown)
    digests = {
        path: values[np.ix_(*(_positions(wanted.names[path][dim], names[path][dim]) for dim in names[path]))]
        for path, values in wanted.digests.items()
    }
    documents, new_root = _documents(root, plan, names, now.n_resamples, where)
    return Stage(tuple(blocks), 0, documents, tuple(labels), new_root, digests)


def _more_resamples(root: Document, plan: Plan, now: Contents, wanted: Contents, where: str) -> Stage:
    """Return the stage by which every ranking has more resamples."""
    blocks: list[Block] = []
    labels: list[Label] = []
    for path, names in now.names.items():
        blocks += _blocks(root, plan, path, names, wanted.names[path], dict.fromkeys(names, 0))
        labels.append((path, RESAMPLE, (slice(0, wanted.n_resamples),), np.arange(wanted.n_resamples)))
    documents, new_root = _documents(root, plan, now.names, wanted.n_resamples, where)
    return Stage(tuple(blocks), now.n_resamples, documents, tuple(labels), new_root, now.digests)


def _blocks(
    root: Document, plan: Plan, path: str, names: Names, source: Names, starts: Mapping[str, int]
) -> Iterator[Block]:
    """Yield the blocks from `starts` on, each within one chunk of the result, with their places in the source."""
    entry = root["consolidated_metadata"]["metadata"][f"{path}/n_positive".strip("/")]
    chunks = dict(zip(entry["dimension_names"], entry["chunk_grid"]["configuration"]["chunk_shape"], strict=True))
    places = {dim: _positions(source[dim], names[dim]) for dim in names}
    steps = next((block.steps for block in plan.blocks if block.path == path), ())
    tiles = {dim: list(_tiles(starts[dim], len(names[dim]), chunks[dim])) for dim in names}
    for index in np.ndindex(*map(len, tiles.values())):
        region: Region = tuple((dim, *tiles[dim][i]) for dim, i in zip(tiles, index, strict=True))
        there = tuple(tuple(places[dim][start:stop].tolist()) for dim, start, stop in region)
        is_alike = all(place == tuple(range(a, b)) for place, (_, a, b) in zip(there, region, strict=True))
        yield Block(path, region, steps, () if is_alike else there)


def _tiles(start: int, stop: int, chunk: int) -> Iterator[tuple[int, int]]:
    while start < stop:
        end = min(stop, (start // chunk + 1) * chunk)
        yield start, end
        start = end


def _labels(
    template: xr.Dataset, path: str, names: Names, source: Names, starts: Mapping[str, int], grown: Sequence[str]
) -> Iterator[Label]:
    """Yield what is written at once: the coordinates along what grows."""
    for name, coordinate in template.coords.items():
        if not set(grown) & set(coordinate.dims):
            continue
        where = {dim: slice(starts[str(dim)], len(names[str(dim)])) for dim in coordinate.dims if dim in names}
        places = {dim: _positions(source[str(dim)], names[str(dim)])[part] for dim, part in where.items()}
        slices = tuple(where.get(dim, slice(None)) for dim in coordinate.dims)
        values = coordinate.isel(places).values
        yield path, str(name), slices, values.astype(DATES) if values.dtype.kind == "M" else values


def _documents(
    root: Document, plan: Plan, names: Mapping[str, Names], n_resamples: int, where: str
) -> tuple[dict[str, Buffer], Document]:
    """Return the documents of all that is new or grows, and the root document that makes it visible."""
    fresh, root_buffer = laid_out(plan.template, KIND, where)
    fresh_root = json.loads(root_buffer.to_bytes())
    before = root["consolidated_metadata"]["metadata"]
    metadata: dict[str, Document] = {}
    documents: dict[str, Buffer] = {}
    for key, entry in fresh_root["consolidated_metadata"]["metadata"].items():
        path = key.rpartition("/")[0]
        if key in before and entry["node_type"] == "array":
            _refuse_other_type(key, before[key]["data_type"], entry["data_type"])
            sizes = {dim: len(values) for dim, values in names[path].items()} | {RESAMPLE: n_resamples}
            dims = entry.get("dimension_names") or ()
            shape = [sizes.get(dim, n) for dim, n in zip(dims, before[key]["shape"], strict=True)]
            entry = before[key] | {"shape": shape}
        metadata[key] = entry
        if entry != before.get(key):
            document = f"{key}/{ROOT_DOCUMENT}"  # of a group, what the root document repeats would hide its arrays
            documents[document] = fresh[document] if entry["node_type"] == "group" else _as_buffer(entry)
    new = tuple(f"{path}/" for path in names if f"{path}/n_positive".strip("/") not in before)
    documents |= {key: content for key, content in fresh.items() if key.startswith(new)}
    consolidated = fresh_root["consolidated_metadata"] | {"metadata": metadata}
    return documents, fresh_root | {"consolidated_metadata": consolidated}
