"""The tasks of a run: what workers do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
import zarr
from distributed import get_worker
from zarr.core.sync import sync

from aucpr_dask.errors import AucprError, OtherRunError, UnreachableError
from aucpr_dask.evaluation.api import evaluate_part
from aucpr_dask.runs.ledger import Ledger
from aucpr_dask.runs.planning import Block
from aucpr_dask.schema.options import EvaluationOptions
from aucpr_dask.schema.variables import QUERY, RESAMPLE
from aucpr_dask.scores.store import open_unread, opened_node
from aucpr_dask.storage.stores import (
    Scores,
    open_array,
    open_arrays,
    open_backend,
)
from aucpr_dask.storage.whole_chunks import ChunkReader, write_chunk

if TYPE_CHECKING:
    pass

SHORTEST_PAUSE, LONGEST_PAUSE = 0.002, 0.5  # seconds between looks whether it is laid out

PATIENCE = 600.0  # seconds to wait for that: of ten thousand data sets on slow storage, it takes minutes


def evaluate_block(
    number: int, block: Block, source: str, target: str, run_id: str, token: str, options: dict[str, Any]
) -> AucprError | None:
    """Evaluate one block of a score store into its region of a result store, and record it: the task of a run.

    What is wrong with the data, or that the result is another run's by now, is returned and not raised: trying again
    would not help.
    """
    started = time.monotonic()
    ledger = Ledger(_target_backend(target, run_id), token)
    try:
        dataset = _source_node(source, block.path, run_id)
        first = options.get("first_resample", 0)
        asked = EvaluationOptions.of(**{name: value for name, value in options.items() if name != "first_resample"})
        known = zarr.Array(_target_arrays(target, block.path, ("replicate",), run_id)["replicate"]) if first else None
        result = _evaluated(dataset, _score_reader(source, block.path, run_id), block, asked, first, known)
        _await_layout(target, run_id, token)
        ledger.check()  # at the last moment
        slices = block.slices | {RESAMPLE: slice(first, None)}
        arrays = _target_arrays(target, block.path, tuple(result), run_id)
        writes = []
        for name, variable in result.items():
            region = tuple(slices.get(str(dim), slice(None)) for dim in variable.dims)
            new = variable[{RESAMPLE: slices[RESAMPLE]}] if RESAMPLE in variable.dims else variable
            if not write_chunk(arrays[name], region, new.values):
                writes.append(arrays[name].setitem(region, new.values))
        if writes:
            sync(_end_all(writes))
        ledger.record_done(number, {"seconds": round(time.monotonic() - started, 3)})
    except OtherRunError as error:
        return error
    except UnreachableError:
        raise
    except AucprError as error:
        with suppress(OtherRunError):
            _await_layout(target, run_id, token)
            ledger.record_failure(number, {"error": str(error)})
        return error
    return None


@lru_cache(maxsize=8)
def _await_layout(target: str, run_id: str, token: str) -> None:
    """Wait, once per process and run, until the result is laid out: the first blocks are handed out before.

    Raises
    ------
    OtherRunError
        If the place is another run's.
    CancelledError
        If nobody waits for the block any more.
    """
    ledger, worker = Ledger(_target_backend(target, run_id), token), get_worker()
    task = worker.state.tasks[worker.get_current_task()]
    pause, until = SHORTEST_PAUSE, time.monotonic() + PATIENCE
    while not ledger.is_open():
        if task.state == "cancelled":
            raise CancelledError(task.key)
        if time.monotonic() > until:
            ledger.check()
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


async def _end_all(writes: list[Coroutine[Any, Any, None]]) -> None:
    """Write to several arrays at once: one after another, each waits for the storage. Returns when all have ended."""
    for outcome in await asyncio.gather(*writes, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def _evaluated(
    dataset: xr.Dataset,
    reader: ChunkReader,
    block: Block,
    options: EvaluationOptions,
    first_resample: int = 0,
    known: Any = None,
) -> dict[str, xr.Variable]:
    """Evaluate a block, one of its parts after another; of replicates, perhaps the first are known."""
    whole: dict[str, xr.Variable] = {}
    for part in block.parts():
        here = dataset.isel(part.in_source)
        region = [part.in_source.get(str(dim), slice(0, size)) for dim, size in dataset["score"].sizes.items()]
        if (chunk := reader.read(region)) is not None:
            here = here.assign(score=(here["score"].dims, chunk))
        if known is not None:
            dims = known.metadata.dimension_names
            slices = part.slices | {RESAMPLE: slice(first_resample)}
            here = here.assign(replicate=(dims, known[tuple(slices.get(dim, slice(None)) for dim in dims)]))
        result = evaluate_part(here, block.path, options, first_resample)
        if part == block:
            return result
        place = block.place_of(part)
        for name, array in result.items():
            if name not in whole:
                shape = [block.sizes.get(str(dim), size) for dim, size in array.sizes.items()]
                whole[name] = xr.Variable(array.dims, np.empty(shape, array.dtype))
            whole[name][{dim: place[str(dim)] for dim in array.dims if dim in place}] = array
    return whole


@lru_cache(maxsize=8)
def _target_backend(target: str, run_id: str) -> Any:
    """Open the result once per process and run."""
    return open_backend(target)


@lru_cache(maxsize=8)
def _source_node(source: str, path: str, run_id: str) -> xr.Dataset:
    """Open one data set of the source once per process and run: between runs a store may be replaced."""
    dataset = opened_node(_source_tree(source, run_id), path)
    if QUERY in dataset.dims and QUERY not in dataset.indexes:  # their numbers are names, by which they are resampled
        dataset = dataset.assign_coords({QUERY: np.arange(dataset.sizes[QUERY])})
    return dataset


@lru_cache(maxsize=8)
def _score_reader(source: str, path: str, run_id: str) -> ChunkReader:
    """Open the scores themselves once per process and run."""
    return ChunkReader(open_array(open_backend(source, read_only=True), path, "score"))


@lru_cache(maxsize=2)
def _source_tree(source: str, run_id: str) -> Scores:
    """Open the source once per process and run: of a thousand data sets, to find one takes a second."""
    return open_unread(source)


@lru_cache(maxsize=64)
def _target_arrays(target: str, path: str, names: tuple[str, ...], run_id: str) -> dict[str, zarr.AsyncArray[Any]]:
    """Open the arrays of a data set of the result once per process and run."""
    return open_arrays(_target_backend(target, run_id), path, names)
