"""Store to store on a Dask cluster: one task reads, evaluates and writes one whole block."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from distributed import Client
from zarr.abc.store import Store
from zarr.core.sync import sync

from aucpr_dask.clusters.connecting import Cluster, connect
from aucpr_dask.errors import AucprError, OtherRunError, RunError, StoreError, UnreachableError
from aucpr_dask.evaluation.results import KIND, open_result
from aucpr_dask.progress.tracking import Progress, Tracker
from aucpr_dask.runs.growing import begin, finish, may_extend, stages_of
from aucpr_dask.runs.ledger import Ledger, differences
from aucpr_dask.runs.planning import Plan, plan_run
from aucpr_dask.runs.submitting import as_they_finish
from aucpr_dask.runs.tasks import evaluate_block
from aucpr_dask.scores.store import stored_digests
from aucpr_dask.storage.backends import delete_value
from aucpr_dask.storage.stores import (
    ROOT_DOCUMENT,
    PendingStore,
    Scores,
    create_store,
    open_backend,
    refuse_existing,
    remove_unfinished,
)
from aucpr_dask.storage.urls import absolute, overlap

if TYPE_CHECKING:
    from aucpr_dask.progress.showing import Report

SECONDS_TO_LAY_OUT = 5.0  # in which a run that is alive writes at least one document more
RETRIES = 2  # of a block whose storage or worker fails; what is wrong with the data is not tried again
NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}  # a disk, a quota or a limit: no other block will fare better


def run(
    source_url: str | Path,
    result_url: str | Path,
    *,
    overwrite: bool = False,
    cluster: Cluster = None,
    progress: bool | Report | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Scores:
    """Evaluate a score store into a result store, block by block, on a cluster.

    The numbers are those of :func:`aucpr_dask.evaluate`, bit by bit: each task evaluates one block and writes it.
    The result opens only once every block is written. Until then a ledger beside the blocks says which are done: after
    whatever stopped a run, the same call goes on from there. Once it is finished, the same call with a source that has
    more models, queries or data sets, or with more resamples of a result that keeps its replicates, computes only
    what is new; what is there keeps its place, and what is new follows.

    Parameters
    ----------
    source_url, result_url : str or Path
        A score store, and where to write the result.
    overwrite : bool
        Whether to replace a store at `result_url` and start from the beginning.
    cluster : None, int, str or distributed.Client
        None: a local cluster with one single-threaded process per core; a number: that many processes;
        a string: the address of a scheduler; or a client. Only a cluster started here is closed again.
    progress : bool or Report, optional
        Whether to show how far it is: by moving bars in a terminal, in a notebook below its cell, else by a plain line
        every few seconds. None: in terminals and notebooks, if it takes more than two seconds and there is no
        `on_progress`.
    on_progress : callable, optional
        Called with a :class:`~aucpr_dask.progress.tracking.Progress` after each block.
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
        options or scores were others. The message names the differences. :class:`~aucpr_dask.errors.OtherRunError`
        if another run was started anew in this place while this one was under way.
    ChunkError
        If a block would not fit the memory of a worker; before the first task.
    RunError
        If blocks failed, again and again, for other reasons than their data, or the disk is full. All other blocks are
        kept.
    ClusterError
        If worker processes do not start, as in a script without ``if __name__ == "__main__":``, or the connection to
        the scheduler is lost. All blocks that are done are kept.
    InvalidInputError, MissingScoresError
        See :func:`aucpr_dask.evaluate`; before the first task wherever the metadata tell.
    """
    from aucpr_dask.progress.showing import watching

    target = absolute(result_url)
    _refuse_overlap(absolute(source_url), target)
    plan = plan_run(source_url, **options)
    ledger = None if overwrite else _ledger_of(target, plan)
    if ledger is not None and _is_complete(ledger, plan, target):
        return open_result(target)
    with watching(progress, on_progress) as watcher, connect(cluster) as client:
        watcher.started(client.dashboard_link)
        memory = _memory_of_a_thread(client)
        plan.check_memory(memory)
        lay_out = None
        if ledger is None:
            ledger = Ledger(open_backend(target))
            if overwrite:
                _lay_out(plan, target, ledger, overwrite=True)
            else:
                lay_out = partial(_lay_out, plan, target, ledger, overwrite=False)
        try:
            if lay_out is not None or ledger.root_document() is not None:
                _compute(client, plan, ledger, target, options, watcher, lay_out)
                _finish(target, ledger)
            for stage, planned in stages_of(plan, ledger, target):
                blocks = planned.with_blocks(stage.blocks)
                blocks.check_memory(memory)
                with _explaining_storage(target):
                    begin(stage, target, ledger)
                here = planned.parameters["options"] | {"first_resample": stage.first_resample}
                _compute(client, blocks, ledger, target, here, watcher)
                with _explaining_storage(target):
                    finish(stage, target, ledger)
            ledger.change_plan(plan.parameters)
        except OtherRunError:
            if not _is_finished(target, plan):
                raise
    return open_result(target)


def _compute(
    client: Client,
    plan: Plan,
    ledger: Ledger,
    target: str,
    options: dict[str, Any],
    on_progress: Callable[[Progress], None] | None,
    lay_out: Callable[[], None] | None = None,
) -> None:
    """Evaluate all blocks of a plan, and raise what is to be said of those that failed.

    What is to be laid out first is laid out while the first blocks are read and evaluated.
    """
    token = ledger.join() if lay_out is None else ledger.reserve()
    failures = _run_blocks(client, plan, ledger, (target, uuid4().hex, token, options), on_progress, lay_out)
    if failures:
        raise _explained(failures, plan, target)


def _is_complete(ledger: Ledger, plan: Plan, target: str) -> bool:
    """Whether a result is finished and lacks nothing that is planned."""
    if ledger.root_document() is not None or next(stages_of(plan, ledger, target), None) is not None:
        return False
    if ledger.plan() != plan.parameters:
        ledger.change_plan(plan.parameters)
    return True


def _lay_out(plan: Plan, target: str, ledger: Ledger, *, overwrite: bool) -> None:
    """Lay out the result, and open its ledger; a run that still writes there stops."""
    if overwrite and ledger.plan() is not None:
        ledger.retire()
    pending = create_store(target, plan.template, KIND, overwrite=overwrite, claim=ledger.claim)
    with _explaining_storage(target):
        ledger.record_digests(stored_digests(plan.unread))
        ledger.open(plan.parameters, pending.root_document)
        delete_value(pending.backend, ROOT_DOCUMENT)  # of the run that was stopped, if it was about to finish


def _finish(target: str, ledger: Ledger) -> None:
    """Make the result open, if that is still this run's to do."""
    with _explaining_storage(target):
        root_document = ledger.root_document()
        ledger.check()
        if root_document is not None:
            PendingStore(target, open_backend(target), root_document).commit()
        ledger.close()


def _is_finished(target: str, plan: Plan) -> bool:
    """Whether another run with this plan has finished the result; what this one recorded since is dropped."""
    ledger = Ledger(open_backend(target))
    before = ledger.plan()
    if before is None or differences(before, plan.parameters) or ledger.root_document() is not None:
        return False
    ledger.drop_records()
    return True


def _ledger_of(target: str, plan: Plan) -> Ledger | None:
    """Return the ledger of a run with this plan, finished or not; None if there is nothing at `target`."""
    backend = open_backend(target, read_only=True)
    ledger = Ledger(backend)
    before = ledger.plan()
    if before is None and ledger.token() and not sync(backend.exists(ROOT_DOCUMENT)):
        before = _awaited_plan(ledger, backend)
        if before is None:
            remove_unfinished(target)
    if before is None:
        refuse_existing(target, overwrite=False)
        return None
    changed = differences(before, plan.parameters)
    is_begun = ledger.root_document() is not None
    if changed and (is_begun or not may_extend(before, plan)):
        raise StoreError(
            "there is something at this place already: another evaluation",
            where=target,
            received="; ".join(changed),
            remedy="give the same options to go on with it, name another place, or pass overwrite=True "
            "(--overwrite) to replace it",
        )
    return Ledger(open_backend(target))


def _awaited_plan(ledger: Ledger, backend: Store) -> dict[str, Any] | None:
    """Return the plan of a run that is laying out its result; None if it stopped before there was one."""

    async def count() -> int:
        return len([key async for key in backend.list_prefix("")])

    n_before, n_keys = -1, sync(count())
    while n_keys > n_before:
        until = time.monotonic() + SECONDS_TO_LAY_OUT
        while time.monotonic() < until:
            if (plan := ledger.plan()) is not None:
                return plan
            time.sleep(0.1)
        n_before, n_keys = n_keys, sync(count())
    return None


def _memory_of_a_thread(client: Client) -> float | None:
    """Wait for a worker, and return the least memory that a thread of any has; None if there is no limit."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    if not workers:
        client.submit(abs, 0, pure=False).result()  # a task, because for nothing an adaptive cluster starts no worker
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
        "blocks could not be computed",
        where=plan.blocks[number].describe(),
        received=f"{type(first).__name__}: {first}",
        remedy=kept,
    )
    error.__cause__ = first
    return error


def _run_blocks(
    client: Client,
    plan: Plan,
    ledger: Ledger,
    arguments: tuple[str, str, str, dict[str, Any]],
    on_progress: Callable[[Progress], None] | None,
    lay_out: Callable[[], None] | None,
) -> dict[int, BaseException]:
    """Evaluate the blocks that the ledger does not call done, and return the errors of those that failed for good."""
    done = ledger.done()
    waiting = [number for number in range(len(plan.blocks)) if number not in done]
    calls = [(number, plan.blocks[number], plan.source, *arguments) for number in waiting]
    failures: dict[int, BaseException] = {}
    rankings = [block.n_rankings for block in plan.blocks]
    tracker = Tracker(rankings, plan.block_bytes, done, client.dashboard_link)
    for call, outcome in as_they_finish(
        client, evaluate_block, calls, retries=RETRIES, keep_going=True, meanwhile=lay_out
    ):
        number = waiting[call]
        if isinstance(outcome, OtherRunError):
            raise outcome
        if isinstance(outcome, OSError) and outcome.errno in NO_ROOM:
            raise _without_storage(outcome, arguments[0]) from outcome
        if outcome is not None:
            failures[number] = outcome
            # The others were recorded where they arose.
            if isinstance(outcome, UnreachableError) or not isinstance(outcome, AucprError):
                with suppress(OSError):  # it is raised in the end, too
                    ledger.record_failure(number, {"error": f"{type(outcome).__name__}: {outcome}"})
        progress = tracker.finished(number, failed=number in failures)
        if on_progress is not None:
            on_progress(progress)
    return failures


@contextmanager
def _explaining_storage(target: str) -> Iterator[None]:
    """Say what it means that a document of the result cannot be written."""
    try:
        yield
    except AucprError:
        raise
    except OSError as error:
        raise _without_storage(error, target) from error


def _without_storage(error: OSError, target: str) -> RunError:
    return RunError(
        "the disk is full, or a quota or a limit of file sizes is reached"
        if error.errno in NO_ROOM
        else "the result cannot be written",
        where=target,
        received=f"{type(error).__name__}: {error}",
        remedy="make room and give the same command: what is done is kept, and it goes on from there",
    )


def _refuse_overlap(source: str, target: str) -> None:
    if overlap(source, target):
        raise StoreError(
            "the result would stand in the place of the scores, or one inside the other",
            where=target,
            received=f"scores at {source}",
            remedy="name another place for the result",
        )
