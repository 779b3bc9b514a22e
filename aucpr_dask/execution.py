"""Store to store on a Dask cluster: one task reads, evaluates and writes one whole block."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

import dask
import numpy as np
import xarray as xr
from dask.system import CPU_COUNT
from distributed import Client, LocalCluster, as_completed

from aucpr_dask.errors import AucprError, ClusterError, RunError, StoreError, explain
from aucpr_dask.evaluation import evaluate_dataset
from aucpr_dask.ledger import Ledger, differences
from aucpr_dask.planning import Block, Plan, absolute, plan_run
from aucpr_dask.results import KIND, open_result
from aucpr_dask.scores import open_scores
from aucpr_dask.stores import PendingStore, Scores, create_store, open_array, open_backend, refuse_existing
from aucpr_dask.variables import QUERY

BLOCKS_AHEAD = 4  # tasks in flight per worker thread
RETRIES = 2  # of a block whose storage or worker fails; what is wrong with the data is not tried again

# By Dask's own setting a worker hands memory back as soon as it is free, and asks for it again at the next replicate.
KEEP_MEMORY = {"distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None}

Cluster = None | int | str | Client


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    blocks_done: int
    blocks_total: int
    rankings_done: int
    rankings_total: int
    seconds: float
    dashboard: str | None
    blocks_failed: int = 0


def run(
    source_url: str | Path,
    result_url: str | Path,
    *,
    overwrite: bool = False,
    cluster: Cluster = None,
    on_progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Scores:
    """Evaluate a score store into a result store, block by block, on a cluster.

    The numbers are those of :func:`aucpr_dask.evaluate`, bit by bit: each task evaluates one block and writes it.
    The result opens only once every block is written. Until then a ledger beside the blocks says which are done: after
    whatever stopped a run, the same call goes on from there.

    Parameters
    ----------
    source_url, result_url : str or Path
        A score store, and where to write the result.
    overwrite : bool
        Whether to replace a store at `result_url` and start from the beginning.
    cluster : None, int, str or distributed.Client
        None: a local cluster with one single-threaded process per core; a number: that many processes;
        a string: the address of a scheduler; or a client. Only a cluster started here is closed again.
    on_progress : callable, optional
        Called with a :class:`Progress` after each block.
    **options
        The options of :func:`aucpr_dask.evaluate`: estimators, intervals, level, missing, ties, ...

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        The finished result, opened.

    Raises
    ------
    StoreError
        If the source does not open, or something else is in the place of the result: another store, or a run whose
        options or scores were others. The message names the differences.
    ChunkError
        If a block would not fit the memory of a worker; before the first task.
    RunError
        If blocks failed, again and again, for other reasons than their data. All other blocks are kept.
    ClusterError
        If worker processes do not start, as in a script without ``if __name__ == "__main__":``.
    InvalidInputError, MissingScoresError
        See :func:`aucpr_dask.evaluate`; before the first task wherever the metadata tell.
    """
    target = absolute(result_url)
    _refuse_overlap(absolute(source_url), target)
    plan = plan_run(source_url, **options)
    ledger = None if overwrite else _ledger_of(target, plan)
    if ledger is not None and ledger.root_document() is None:
        return open_result(target)  # it is finished
    with connect(cluster) as client:
        plan.check_memory(_memory_of_a_thread(client))
        if ledger is None:
            pending = create_store(target, plan.template, KIND, overwrite=overwrite)
            ledger = Ledger(pending.backend)
            ledger.open(plan.parameters, pending.root_document)
        failures = _run_blocks(client, plan, ledger, (target, uuid4().hex, options), on_progress)
    if failures:
        raise _explained(failures, plan, target)
    root_document = ledger.root_document()
    if root_document is not None:
        PendingStore(target, open_backend(target), root_document).commit()
        ledger.close()
    return open_result(target)


def _ledger_of(target: str, plan: Plan) -> Ledger | None:
    """Return the ledger of a run with this plan, finished or not; None if there is nothing at `target`."""
    ledger = Ledger(open_backend(target, read_only=True))
    before = ledger.plan()
    if before is None:
        refuse_existing(target, overwrite=False)
        return None
    changed = differences(before, plan.parameters)
    if changed:
        raise StoreError(
            explain(
                "there is something at this place already: another evaluation",
                where=target,
                received="; ".join(changed),
                remedy="give the same options to go on with it, name another place, or pass overwrite=True "
                "(--overwrite) to replace it",
            )
        )
    return ledger if ledger.root_document() is None else Ledger(open_backend(target))


def _memory_of_a_thread(client: Client) -> float | None:
    """Return the least memory that a thread of any worker has; None if there is no limit."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    limits = [worker["memory_limit"] / worker["nthreads"] for worker in workers if worker["memory_limit"]]
    return min(limits, default=None)


def _explained(failures: dict[int, BaseException], plan: Plan, target: str) -> BaseException:
    """Return the error to raise: the first one, if it says what is wrong with the data; else one that names it."""
    number, first = min(failures.items())
    kept = f"{len(failures)} of {len(plan.blocks)} blocks failed; the others are kept at {target}"
    kept += ", and the same call goes on from there"
    if isinstance(first, AucprError):
        first.add_note(kept)
        return first
    error = RunError(
        explain(
            "blocks could not be computed",
            where=plan.blocks[number].describe(),
            received=f"{type(first).__name__}: {first}",
            remedy=kept,
        )
    )
    error.__cause__ = first
    return error


def evaluate_block(
    number: int, block: Block, source: str, target: str, run_id: str, options: dict[str, Any]
) -> AucprError | None:
    """Evaluate one block of a score store into its region of a result store, and record it: the task of a run.

    What is wrong with the data is returned and not raised: trying again would not help.
    """
    started = time.monotonic()
    ledger = Ledger(_target_backend(target, run_id))
    dataset = _source_node(source, block.path, run_id)
    try:
        result = evaluate_dataset(dataset.isel(block.slices).load(), block.path, **options)
    except AucprError as error:
        ledger.record_failure(number, {"error": str(error)})
        return error
    for name, variable in result.data_vars.items():
        region = tuple(block.slices.get(str(dim), slice(None)) for dim in variable.dims)
        _target_array(target, block.path, str(name), run_id)[region] = variable.values
    ledger.record_done(number, {"seconds": round(time.monotonic() - started, 3)})
    return None


@lru_cache(maxsize=8)
def _target_backend(target: str, run_id: str) -> Any:
    """Open the result once per process and run."""
    return open_backend(target)


@lru_cache(maxsize=8)
def _source_node(source: str, path: str, run_id: str) -> xr.Dataset:
    """Open one data set of the source once per process and run: between runs a store may be replaced."""
    scores = open_scores(source, chunks=None)
    dataset = scores if isinstance(scores, xr.Dataset) else scores[path].to_dataset()
    if QUERY in dataset.dims and QUERY not in dataset.indexes:  # their numbers are names, by which they are resampled
        dataset = dataset.assign_coords({QUERY: np.arange(dataset.sizes[QUERY])})
    return dataset


@lru_cache(maxsize=64)
def _target_array(target: str, path: str, name: str, run_id: str) -> Any:
    """Open one array of the result once per process and run."""
    return open_array(open_backend(target), path, name)


def _run_blocks(
    client: Client,
    plan: Plan,
    ledger: Ledger,
    arguments: tuple[str, str, dict[str, Any]],
    on_progress: Callable[[Progress], None] | None,
) -> dict[int, BaseException]:
    """Evaluate the blocks that the ledger does not call done, and return the errors of those that failed for good."""
    started = time.monotonic()
    done = ledger.done()
    rankings = sum(plan.blocks[number].n_rankings for number in done)
    waiting = [number for number in range(len(plan.blocks)) if number not in done]
    calls = [(number, plan.blocks[number], plan.source, *arguments) for number in waiting]
    failures: dict[int, BaseException] = {}
    n_done = len(done)
    for call, outcome in as_they_finish(client, evaluate_block, calls, retries=RETRIES, keep_going=True):
        number = waiting[call]
        if outcome is not None:
            failures[number] = outcome
            if not isinstance(outcome, AucprError):  # the others were recorded where they arose
                ledger.record_failure(number, {"error": f"{type(outcome).__name__}: {outcome}"})
        n_done += 1
        rankings += plan.blocks[number].n_rankings
        if on_progress is not None:
            seconds = time.monotonic() - started
            state = len(plan.blocks), rankings, plan.n_rankings, seconds, client.dashboard_link, len(failures)
            on_progress(Progress(n_done, *state))
    return failures


def as_they_finish(
    client: Client,
    function: Callable[..., Any],
    calls: Iterable[tuple[Any, ...]],
    *,
    retries: int = 0,
    keep_going: bool = False,
) -> Iterator[tuple[int, Any]]:
    """Run calls of a function on the workers, few at a time, and yield the number of each call and its result.

    A call that raises is tried again so often; then its error is raised, or yielded in place of a result if the others
    are to go on.
    """
    threads = sum(client.nthreads().values()) or 1
    waiting = enumerate(calls)
    unfinished: dict[Any, int] = {}

    def submit(n: int) -> list[Any]:
        futures = {
            client.submit(function, *arguments, pure=False, retries=retries): number
            for number, arguments in islice(waiting, n)
        }
        unfinished.update(futures)
        return list(futures)

    running = as_completed(submit(BLOCKS_AHEAD * threads))
    try:
        for future in running:
            error = future.exception() if keep_going else None
            result = future.result() if error is None else error
            number = unfinished.pop(future)
            running.update(submit(1))
            yield number, result
    finally:
        client.cancel(list(unfinished))  # after a failure: someone else's client lives on


@contextmanager
def connect(cluster: Cluster) -> Iterator[Client]:
    """Yield a client; a cluster that is started here is closed again."""
    if isinstance(cluster, Client):
        yield cluster
    elif isinstance(cluster, str):
        with Client(cluster) as client:
            yield client
    else:
        with _start_workers(cluster or CPU_COUNT) as local, Client(local) as client:
            yield client


def _start_workers(n_workers: int) -> LocalCluster:
    """Start single-threaded worker processes that leave Ctrl-C to this process, which ends them in order."""
    block_signals = getattr(signal, "pthread_sigmask", None)  # absent on Windows; the mask is inherited
    before = block_signals(signal.SIG_BLOCK, {signal.SIGINT}) if block_signals else None
    try:
        with dask.config.set(KEEP_MEMORY):
            return LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0")
    except (RuntimeError, TimeoutError) as error:
        raise ClusterError(
            explain(
                "worker processes could not be started",
                received=str(error),
                remedy='put the call under `if __name__ == "__main__":` in a script file, because every worker imports '
                "that file anew; or pass a running client: cluster=...",
            )
        ) from error
    finally:
        if block_signals:
            block_signals(signal.SIG_SETMASK, before)


def _refuse_overlap(source: str, target: str) -> None:
    inner, outer = f"{source}/", f"{target}/"
    if inner.startswith(outer) or outer.startswith(inner):
        raise StoreError(
            explain(
                "the result would stand in the place of the scores, or one inside the other",
                where=target,
                received=f"scores at {source}",
                remedy="name another place for the result",
            )
        )
