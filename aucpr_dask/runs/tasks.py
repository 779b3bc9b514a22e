"""The work of one task, as a worker does it: read, evaluate, write, record."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import xarray as xr
import zarr
from zarr.abc.store import Store
from zarr.core.sync import sync

from aucpr_dask.errors import AucprError, OtherRunError, UnreachableError
from aucpr_dask.evaluation.api import evaluate_part
from aucpr_dask.runs.ledger import Ledger
from aucpr_dask.runs.planning import Task
from aucpr_dask.schema.options import EvaluationOptions
from aucpr_dask.schema.trees import Scores
from aucpr_dask.schema.variables import QUERY, RESAMPLE
from aucpr_dask.scores.store import open_unread, opened_node
from aucpr_dask.storage.documents import check_same_array
from aucpr_dask.storage.stores import consolidated_metadata, open_array, open_arrays, open_backend
from aucpr_dask.storage.whole_chunks import ChunkReader, write_chunk


@dataclass(frozen=True)
class Assignment:
    """What all tasks submitted together have in common.

    Parameters
    ----------
    source, target : str
        Where scores are read, and where results are written.
    run_id : str
        Workers keep stores open for the tasks of one run: between runs, a store may be replaced.
    token : str
        Of the ledger.
    options : EvaluationOptions
    first_resample : int
        The first resample to draw; the replicates of earlier ones are in the result.
    """

    source: str
    target: str
    run_id: str
    token: str
    options: EvaluationOptions
    first_resample: int


def evaluate_task(number: int, task: Task, assignment: Assignment) -> AucprError | None:
    """Evaluate one task into its region of the result, and record it.

    Errors that another try would not fix are returned, not raised: bad data, or a place that now belongs to another
    run.
    """
    started = time.monotonic()
    target, run_id, first = assignment.target, assignment.run_id, assignment.first_resample
    ledger = Ledger(_target_backend(target, run_id), assignment.token)
    try:
        result = _evaluated(task, assignment)
        ledger.check()  # at the last moment
        slices = slices_of(task, first)
        arrays = _target_arrays(target, task.path, tuple(result), run_id)
        writes = []
        for name, variable in result.items():
            region = tuple(slices.get(str(dim), slice(None)) for dim in variable.dims)
            new = variable[{RESAMPLE: slices[RESAMPLE]}] if RESAMPLE in variable.dims else variable
            if not write_chunk(arrays[name], region, new.values):
                writes.append((arrays[name], region, new.values))
        if writes:
            sync(_write_all(writes))
        ledger.record_done(number, {"seconds": round(time.monotonic() - started, 3)})
    except OtherRunError as error:
        return error
    except FileNotFoundError:
        try:
            ledger.check()  # a run that finishes removes temporary files
        except OtherRunError as error:
            return error
        raise
    except UnreachableError:
        raise
    except AucprError as error:
        with suppress(OtherRunError):
            ledger.record_failure(number, {"error": str(error)})
        return error
    return None


def slices_of(task: Task, first_resample: int) -> dict[str, slice]:
    """Return the region of the result that a task writes, by dimension."""
    return task.slices | {RESAMPLE: slice(first_resample, None)}


async def _write_all(writes: list[tuple[zarr.AsyncArray[Any], Any, Any]]) -> None:
    """Write to several arrays at once, and return when all writes have ended, even if one fails."""
    ends = (array.setitem(region, values) for array, region, values in writes)
    for outcome in await asyncio.gather(*ends, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def _evaluated(task: Task, assignment: Assignment) -> dict[str, xr.Variable]:
    """Evaluate the parts of a task one after another, and put their results together."""
    source, target, run_id = assignment.source, assignment.target, assignment.run_id
    dataset, reader = _source_node(source, task.path, run_id), _score_reader(source, task.path, run_id)
    known = _target_arrays(target, task.path, ("replicate",), run_id) if assignment.first_resample else {}
    whole: dict[str, xr.Variable] = {}
    for part in task.parts():
        here = dataset.isel(part.in_source)
        region = [part.in_source.get(str(dim), slice(0, size)) for dim, size in dataset["score"].sizes.items()]
        if (chunk := reader.read(region)) is not None:
            here = here.assign(score=(here["score"].dims, chunk))
        if known:
            here = here.assign(replicate=_read(known["replicate"], part, assignment.first_resample))
        result = evaluate_part(here, task.path, assignment.options, assignment.first_resample)
        if part == task:
            return result
        place = task.place_of(part)
        for name, array in result.items():
            if name not in whole:
                shape = [task.sizes.get(str(dim), size) for dim, size in array.sizes.items()]
                whole[name] = xr.Variable(array.dims, np.empty(shape, array.dtype))
            whole[name][{dim: place[str(dim)] for dim in array.dims if dim in place}] = array
    return whole


def _read(replicates: zarr.AsyncArray[Any], part: Task, n_resamples: int) -> tuple[Any, Any]:
    """Read the first replicates of a part from the result."""
    dims = replicates.metadata.dimension_names
    slices = part.slices | {RESAMPLE: slice(n_resamples)}
    return dims, zarr.Array(replicates)[tuple(slices.get(dim, slice(None)) for dim in dims)]


# Opened once per process and run: between runs, a store may be replaced.


@lru_cache(maxsize=8)
def _target_backend(target: str, run_id: str) -> Store:
    return open_backend(target)


@lru_cache(maxsize=64)
def _target_arrays(target: str, path: str, names: tuple[str, ...], run_id: str) -> dict[str, zarr.AsyncArray[Any]]:
    return open_arrays(_target_backend(target, run_id), path, names)


@lru_cache(maxsize=2)
def _source_tree(source: str, run_id: str) -> Scores:
    return open_unread(source)


@lru_cache(maxsize=8)
def _source_node(source: str, path: str, run_id: str) -> xr.Dataset:
    """Open one data set: to find one of a thousand takes a second."""
    dataset = opened_node(_source_tree(source, run_id), path)
    if QUERY in dataset.dims and QUERY not in dataset.indexes:  # their numbers are names, by which they are resampled
        dataset = dataset.assign_coords({QUERY: np.arange(dataset.sizes[QUERY])})
    return dataset


@lru_cache(maxsize=8)
def _score_reader(source: str, path: str, run_id: str) -> ChunkReader:
    array = open_array(open_backend(source, read_only=True), path, "score")
    check_same_array(array.metadata, _source_metadata(source, run_id).get(array.path), array.path, source)
    return ChunkReader(array)


@lru_cache(maxsize=2)
def _source_metadata(source: str, run_id: str) -> dict[str, Any]:
    return consolidated_metadata(source)
