"""The work of one task, as a worker does it: read, evaluate, write, record."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import xarray as xr
import zarr
from zarr.core.sync import sync

from aucpr_dask.errors import AucprError, OtherRunError, UnreachableError
from aucpr_dask.evaluation.api import evaluate_part
from aucpr_dask.runs.ledger import Ledger
from aucpr_dask.runs.planning import Task
from aucpr_dask.schema.options import EvaluationOptions
from aucpr_dask.schema.terms import QUERY, Scores
from aucpr_dask.scores.store import open_unread, opened_node
from aucpr_dask.storage.backends import open_backend
from aucpr_dask.storage.stores import open_arrays


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
    """

    source: str
    target: str
    run_id: str
    token: str
    options: EvaluationOptions


def evaluate_task(number: int, task: Task, assignment: Assignment) -> AucprError | None:
    """Evaluate one task into its region of the result, and record it.

    Errors that another try would not fix are returned, not raised: bad data, or a place that now belongs to another
    run.
    """
    started = time.monotonic()
    target, run_id = assignment.target, assignment.run_id
    ledger = _ledger(target, assignment.token)
    try:
        result = _evaluated(task, assignment)
        ledger.check()  # at the last moment
        sync(_write_all(_target_arrays(target, task.path, tuple(result), run_id), task, result))
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
            ledger.record_failure(number, str(error))
        return error
    return None


async def _write_all(arrays: Mapping[str, zarr.AsyncArray[Any]], task: Task, result: Mapping[str, xr.Variable]) -> None:
    """Write to several arrays at once, and return when all writes have ended, even if one fails."""
    ends = [
        arrays[name].setitem(tuple(task.slices.get(str(dim), slice(None)) for dim in variable.dims), variable.values)
        for name, variable in result.items()
    ]
    for outcome in await asyncio.gather(*ends, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def _evaluated(task: Task, assignment: Assignment) -> dict[str, xr.Variable]:
    """Evaluate the parts of a task one after another, and put their results together."""
    dataset = _source_node(assignment.source, task.path, assignment.run_id)
    whole: dict[str, xr.Variable] = {}
    for part in task.parts():
        result = evaluate_part(dataset.isel(part.in_source), task.path, assignment.options)
        if part == task:
            return result
        place = task.place_of(part)
        for name, array in result.items():
            if name not in whole:
                shape = [task.sizes.get(str(dim), size) for dim, size in array.sizes.items()]
                whole[name] = xr.Variable(array.dims, np.empty(shape, array.dtype))
            whole[name][{dim: place[str(dim)] for dim in array.dims if dim in place}] = array
    return whole


# Opened once per process and run: between runs, a store may be replaced.


@lru_cache(maxsize=8)
def _ledger(target: str, token: str) -> Ledger:
    return Ledger(target, token)


@lru_cache(maxsize=64)
def _target_arrays(target: str, path: str, names: tuple[str, ...], run_id: str) -> dict[str, zarr.AsyncArray[Any]]:
    return open_arrays(open_backend(target), path, names)


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
