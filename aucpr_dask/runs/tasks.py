"""The work of one task, as a worker does it: read, evaluate, write, record."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import xarray as xr
from zarr.abc.buffer import Buffer

from aucpr_dask.errors import AucprError, OtherRunError, SourceChangedError, UnreachableError
from aucpr_dask.evaluation.api import evaluate_part, evaluate_parts
from aucpr_dask.evaluation.groups import Groups, groups_of, read_for
from aucpr_dask.runs.ledger import Ledger
from aucpr_dask.runs.planning import Task
from aucpr_dask.schema.options import EvaluationOptions
from aucpr_dask.scores.store import check_same, reader_of
from aucpr_dask.storage.backends import open_backend, version_of
from aucpr_dask.storage.checksums import N_BYTES
from aucpr_dask.storage.code_versions import facts
from aucpr_dask.storage.stores import ROOT_DOCUMENT, ChunkWriter, dims_of, read_documents
from aucpr_dask.storage.verifying import endings_of

if TYPE_CHECKING:
    from aucpr_dask.scores.archives import Archive, Layout
    from aucpr_dask.scores.store import SourceNodes


@dataclass(frozen=True)
class Assignment:
    """What all tasks submitted together have in common."""

    source: str  # where scores are read
    target: str  # where results are written
    run_id: str  # of this call
    token: str  # of the ledger
    identity: str  # of the source, which must stay the same
    options: EvaluationOptions
    layout: Layout | None = None  # of a source that another program wrote
    counts: bool = False  # whether each attempt at a task is an event of the topic `run_id`


def evaluate_tasks(
    numbers: Sequence[int], tasks: Sequence[Task], assignment: Assignment
) -> list[AucprError | None] | None:
    """Evaluate tasks one after another, and return what :func:`evaluate_task` does; None if that is None for all.

    An error of one is raised when the others are done.
    """
    ready, found, failure = evaluated_together(tasks, assignment), list[AucprError | None](), None
    for number, task in zip(numbers, tasks, strict=True):
        try:
            found.append(evaluate_task(number, task, assignment, ready.get(task)))
        except Exception as error:
            failure = error
            if len(tasks) == 1 or isinstance(error, OSError):  # others would fare no better
                break
    if failure is not None:
        raise failure
    return found if any(found) else None


class Ready(NamedTuple):
    """The result of a task that was evaluated with others, and its share of the time."""

    result: dict[str, xr.Variable]
    seconds: float
    cpu_seconds: float


def evaluated_together(tasks: Sequence[Task], assignment: Assignment) -> dict[Task, Ready]:
    """Return the results of tasks of several data sets; none if anything is wrong, which they find one by one."""
    paths = {task.path for task in tasks}
    if len(paths) == 1:
        return {}
    started, processor = time.monotonic(), time.process_time()
    with suppress(Exception):
        opened = _reader(assignment).opened(paths, read_for(assignment.options.by))
        parts = {task: _read(opened[task.path], task, assignment) for task in tasks if not task.steps}
        found = evaluate_parts(parts, assignment.options)
        took = time.monotonic() - started, time.process_time() - processor
        return {task: Ready(result, *(one / len(found) for one in took)) for task, result in found.items()}
    return {}


def evaluate_task(number: int, task: Task, assignment: Assignment, ready: Ready | None = None) -> AucprError | None:
    """Evaluate one task into its region of the result, unless that is ready, and record it.

    Errors that another try would not fix are returned, not raised: bad data, a source that is no longer the same, or a
    place that now belongs to another run.
    """
    started, processor = time.monotonic(), time.process_time()
    if ready is not None:
        started, processor = started - ready.seconds, processor - ready.cpu_seconds
    worker = None
    if "distributed" in sys.modules:
        with suppress(ValueError):  # there is none where a program calls this itself
            worker = sys.modules["distributed"].get_worker()
    if worker is not None and assignment.counts:
        worker.log_event(assignment.run_id, number)
    target, ledger = assignment.target, _ledger(assignment.target, assignment.token)
    try:
        result = _evaluated(task, assignment) if ready is None else ready.result
        _check_source(assignment)  # everything has been read
        ledger.check()  # at the last moment
        chunks = _write(task, result, _documents(target, task.path, tuple(sorted(result)), assignment.run_id), target)
        took = {"seconds": time.monotonic() - started, "cpu_seconds": time.process_time() - processor}
        who = {"chunks": chunks, "worker": getattr(worker, "name", None), "versions": facts(), "part": task.describe()}
        ledger.record_done(number, {name: round(value, 3) for name, value in took.items()} | who)
    except UnreachableError:
        raise
    except (OtherRunError, SourceChangedError) as error:
        return error
    except (AucprError, FileNotFoundError) as error:
        try:
            ledger.check()  # a run that finishes removes temporary files
            _check_source(assignment)  # what replaces a store removes chunks first
        except (OtherRunError, SourceChangedError) as reason:
            return reason
        if not isinstance(error, AucprError):
            raise
        with suppress(OtherRunError):
            ledger.record_failure(number, str(error))
        return error
    return None


def _write(
    task: Task, result: Mapping[str, xr.Variable], documents: Mapping[str, Buffer], target: str
) -> dict[str, str]:
    """Write the result of a task, and return the checksums of its chunks by their keys."""
    writer, in_part = ChunkWriter(open_backend(target), documents), []
    for name, variable in result.items():
        dims, shape = dims_of(documents[f"{task.path}/{name}/{ROOT_DOCUMENT}".strip("/")].to_bytes())
        region = tuple(task.slices.get(dim, slice(None)) for dim in dims)
        # A result that is begun keeps its axes: a single estimator or interval may have one of length 1.
        sizes = [task.sizes.get(dim, size) for dim, size in zip(dims, shape, strict=True)]
        if not writer.put(task.path, name, region, variable.values.reshape(sizes)):
            in_part.append(writer.array(task.path, name)._async_array)
    writer.flush()
    found = {key: ending[-N_BYTES:].hex() for key, ending in writer.written.items()}
    return found | endings_of(in_part, task.slices)


def _read(dataset: xr.Dataset, part: Task, assignment: Assignment) -> tuple[xr.Dataset, str, Groups | None]:
    """Return a part of a data set, its scores in memory if they lie in one chunk; its path, and groups of its items."""
    source = _reader(assignment)
    source.check(part.path, part.in_source)
    chosen = dataset.isel(part.in_source)
    if (score := source.within_chunk(part.path, part.in_source)) is not None:
        chosen.variables["score"].data = score
    return chosen, part.path, _groups(dataset, part.path, assignment)


def _evaluated(task: Task, assignment: Assignment) -> dict[str, xr.Variable]:
    """Evaluate the parts of a task one after another, and put their results together."""
    dataset = _data_set(_reader(assignment), task.path, tuple(read_for(assignment.options.by)))
    whole: dict[str, xr.Variable] = {}
    for part in task.parts():
        chosen, path, groups = _read(dataset, part, assignment)
        result = evaluate_part(chosen, path, assignment.options, groups)
        if part == task:
            return result
        place = task.place_of(part)
        for name, array in result.items():
            if name not in whole:
                shape = [task.sizes.get(str(dim), size) for dim, size in array.sizes.items()]
                whole[name] = xr.Variable(array.dims, np.empty(shape, array.dtype))
            whole[name][{dim: place[str(dim)] for dim in array.dims if dim in place}] = array
    return whole


def _check_source(assignment: Assignment) -> None:
    """Raise unless the source is the same; the objects of an archive are listed once, when the run ends."""
    if assignment.layout is None:
        version = version_of(open_backend(assignment.source, read_only=True), ROOT_DOCUMENT)
        if version is None:  # nothing tells
            check_same(assignment.source, None, assignment.identity)
        else:
            _check_version(assignment.source, assignment.identity, version)


@lru_cache(maxsize=8)
def _check_version(source: str, identity: str, version: object) -> None:
    check_same(source, None, identity)


# Opened once per process, and again if the store may have been replaced.


_ledger = lru_cache(maxsize=8)(Ledger)
_known_groups: dict[tuple[str, str, str], Groups] = {}  # of the last data set: to sort labels takes as long as a task


@lru_cache(maxsize=8)
def _documents(target: str, path: str, names: tuple[str, ...], run_id: str) -> dict[str, Buffer]:
    """Return the documents of the arrays of a result, by their keys."""
    return read_documents(open_backend(target), [f"{path}/{name}".strip("/") for name in names])


def _reader(assignment: Assignment) -> SourceNodes | Archive:
    """Return the source: the one that was in this process, if it is the same, or of an archive, if the run is."""
    state = assignment.identity if assignment.layout is None else assignment.run_id
    return _opened_once(assignment.source, assignment.layout, state)


@lru_cache(maxsize=2)
def _opened_once(source: str, layout: Layout | None, state: str) -> SourceNodes | Archive:
    return reader_of(source, layout)


@lru_cache(maxsize=8)
def _data_set(reader: SourceNodes | Archive, path: str, keeps: tuple[str, ...]) -> xr.Dataset:
    return reader.opened([path], keeps)[path]


def _groups(dataset: xr.Dataset, path: str, assignment: Assignment) -> Groups | None:
    place = (assignment.source, path, assignment.run_id)
    found = _known_groups.get(place)
    if found is None and assignment.options.by:
        found = groups_of(dataset, assignment.options.by, path)
        _known_groups.clear()
        _known_groups[place] = found
    return found
