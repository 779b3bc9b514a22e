"""Evaluate from store to store on a Dask cluster: plan, decide what is left to do, lay out, submit tasks, finish."""

from __future__ import annotations

import errno
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from distributed import Client

from aucpr_dask.clusters.connecting import Cluster, connect
from aucpr_dask.errors import AucprError, DamageWarning, OtherRunError, RunError, StoreError, UnreachableError
from aucpr_dask.evaluation.results import open_result
from aucpr_dask.progress.tracking import Progress, Tracker
from aucpr_dask.runs.beginning import Beginning
from aucpr_dask.runs.growing import Extension, extensions_of, may_extend
from aucpr_dask.runs.ledger import ROOT, Ledger, differences, differing, identity_of
from aucpr_dask.runs.planning import Plan, plan_run
from aucpr_dask.runs.submitting import as_they_finish
from aucpr_dask.runs.tasks import Assignment, evaluate_task, slices_of
from aucpr_dask.schema.trees import Scores, nodes_of
from aucpr_dask.storage.claims import TOKEN
from aucpr_dask.storage.stores import open_arrays, open_backend, refuse_others
from aucpr_dask.storage.urls import absolute, overlap, public
from aucpr_dask.storage.verifying import is_whole

if TYPE_CHECKING:
    from aucpr_dask.progress.showing import Report

Stage = Beginning | Extension

TAKING_OVER = (0.0, 0.1, 0.5)  # seconds between attempts to open a result whose place another run may be taking
RETRIES = 2  # of a task whose storage or worker fails; bad data is not tried again
NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}  # a full disk, a quota or a limit: no other task will fare better


def run(
    source_url: str | Path,
    result_url: str | Path,
    *,
    data_sets: Sequence[str] | None = None,
    overwrite: bool = False,
    cluster: Cluster = None,
    progress: bool | Report | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Scores:
    """Evaluate a score store into a result store, task by task, on a cluster.

    The numbers are bit-for-bit those of :func:`aucpr_dask.evaluate`: each task evaluates an aligned part of the scores
    and writes it. The result opens only once every task is done. If a run is interrupted, run it again and it resumes:
    a ledger in the result store records which tasks are done. Once the result is finished, the same call with a source
    that has more models, queries or data sets, or with more resamples of a result that keeps its replicates, computes
    only what is new and appends it.

    Parameters
    ----------
    source_url, result_url : str or Path
        A score store, and where to write the result.
    data_sets : sequence of str, optional
        The data sets to evaluate; by default all. If a later call names more of them, it adds those.
    overwrite : bool
        Whether to replace a store at `result_url` and start over.
    cluster : None, int, str or distributed.Client
        None: a local cluster with one single-threaded process per core; a number: that many processes;
        a string: the address of a scheduler; or a client. Only a cluster started here is closed again.
    progress : bool or Report, optional
        Whether to show progress: moving bars in a terminal, below the cell in a notebook, otherwise a plain line every
        few seconds. None: in terminals and notebooks, if the run takes more than two seconds and there is no
        `on_progress`.
    on_progress : callable, optional
        Called with a :class:`~aucpr_dask.progress.tracking.Progress` after each task.
    **options
        The options of :func:`aucpr_dask.evaluate`: estimators, intervals, level, missing, ties, ...

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        The finished result, opened.

    Raises
    ------
    StoreError
        If the source does not open, or something else is in the place of the result: another store, or a run with
        other options or scores. The message names the differences. :class:`~aucpr_dask.errors.OtherRunError` if
        another run was started over in this place while this one was under way.
    ChunkError
        If a task would not fit the memory of a worker; before the first task.
    RunError
        If tasks failed repeatedly for other reasons than their data, or the disk is full. All other tasks are kept.
    ClusterError
        If worker processes do not start, as in a script without ``if __name__ == "__main__":``, or the connection to
        the scheduler is lost. All tasks that are done are kept.
    InvalidInputError, MissingScoresError
        See :func:`aucpr_dask.evaluate`; before the first task if the metadata show it.
    """
    from aucpr_dask.progress.showing import watching

    target = absolute(result_url)
    _refuse_overlap(absolute(source_url), target)
    plan = plan_run(source_url, data_sets=data_sets, **options)
    stages = _stages(plan, target, overwrite=overwrite)
    if not stages:
        return open_result(target)
    with watching(progress, on_progress) as watcher, connect(cluster) as client:
        watcher.started(client.dashboard_link)
        memory = _memory_of_a_thread(client)
        plans = [plan.with_tasks(stage.tasks) for stage in stages]
        for planned in plans:
            planned.check_memory(memory)
        ledger = Ledger(open_backend(target))
        try:
            for stage, planned in zip(stages, plans, strict=True):
                with _explaining_storage(target, ledger):
                    has_begun = stage.lay_out(target, ledger)
                if has_begun:
                    watcher.note("a run of this call has begun here: continuing it, next to any that is under way")
                assignment = Assignment(
                    plan.source, target, uuid4().hex, ledger.join(), plan.options, stage.first_resample
                )
                _evaluate(client, planned, assignment, ledger, watcher)
                with _explaining_storage(target, ledger):
                    stage.finish(target, ledger)
            _keep_plan(ledger, plan)
        except StoreError:  # perhaps because another run has finished, and removed temporary files
            if not _is_finished(target, plan):
                raise
            watcher.note("another run of the same call has finished the result")
    return _open_finished(target, plan)


def _open_finished(target: str, plan: Plan) -> Scores:
    """Open the result, unless another run is taking its place."""
    for pause in TAKING_OVER:
        with suppress(StoreError):
            return open_result(target)
        if not _is_finished(target, plan):
            break
        time.sleep(pause)  # it looks finished until the other run has cleared its records, too
    try:
        return open_result(target)
    except StoreError as error:
        raise OtherRunError(
            "another run has taken the place of this result",
            where=target,
            remedy="wait for it, or run this call again with another place for its result",
        ) from error


def _stages(plan: Plan, target: str, *, overwrite: bool) -> Sequence[Stage]:
    """Return what is left to do: everything, the rest of an unfinished result, or what a finished one lacks."""
    if overwrite:
        return [Beginning(plan, overwrite=True)]
    ledger = Ledger(open_backend(target, read_only=True))
    identity = identity_of(plan.parameters)
    if ledger.is_being_cleared_for(identity):
        return [Beginning(plan)]
    before = ledger.plan()
    if before is None:
        try:
            refuse_others(target, ledger, identity)
        except StoreError:
            before = ledger.plan()  # perhaps another run has finished by now
            if before is None:
                raise
        else:
            return [Beginning(plan)]
    token = ledger.token()  # read first: a run that finishes drops it last
    is_finished = ledger.root_document() is None
    if not (ledger.has_result() if is_finished else token):
        raise ledger.damaged(ROOT if is_finished else TOKEN)
    if not is_finished and before.get("source_digest") == plan.parameters["source_digest"]:  # perhaps it was moved
        plan = replace(plan, parameters={**plan.parameters, "source": before["source"]})
    if not plan.is_random:  # so every version gives the same numbers
        plan = replace(plan, parameters={**plan.parameters, "random_scheme": before.get("random_scheme")})
    changed = differences(before, plan.parameters)
    if changed and not is_finished and ledger.failures() and not ledger.done():  # it failed, and nothing is lost
        return [Beginning(plan, overwrite=True)]
    if changed and not (is_finished and may_extend(before, plan)):
        if "random_scheme" in differing(before, plan.parameters):
            raise StoreError(
                "there is something at this place already: resamples drawn by another version",
                where=target,
                received="; ".join(changed),
                remedy="continue with the version that began it, name another place, or pass overwrite=True "
                "(--overwrite) to replace it",
            )
        raise StoreError(
            "there is something at this place already: another evaluation",
            where=target,
            received="; ".join(changed),
            remedy="use the same options to resume it, name another place, or pass overwrite=True (--overwrite) "
            "to replace it",
        )
    if not is_finished:
        return [Beginning(plan)]
    ledger = Ledger(open_backend(target))
    extensions = extensions_of(target, ledger, plan)
    if not extensions:
        _keep_plan(ledger, plan, token)
        ledger.close_if_killed(token)
    return extensions


def _keep_plan(ledger: Ledger, plan: Plan, token: str = "") -> None:
    """Record the plan of a finished result, if it has become another one and no run has taken its place since."""
    if ledger.plan() != plan.parameters and ledger.token() in ("", token):
        ledger.change_plan(plan.parameters)
        ledger.sweep()


def _is_finished(target: str, plan: Plan) -> bool:
    """Return whether another run with this plan has finished the result; records written since are dropped."""
    ledger = Ledger(open_backend(target))
    before = ledger.plan()
    if before is None or differences(before, plan.parameters) or ledger.root_document() is not None:
        return False
    ledger.drop_records()
    return True


def _memory_of_a_thread(client: Client) -> float | None:
    """Wait for a worker, and return the least memory of any thread; None if there is no limit."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    if not workers:
        client.submit(abs, 0, pure=False).result()  # an adaptive cluster starts workers only for tasks
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
    limits = [worker["memory_limit"] / worker["nthreads"] for worker in workers if worker["memory_limit"]]
    return min(limits, default=None)


def _evaluate(
    client: Client, plan: Plan, assignment: Assignment, ledger: Ledger, on_progress: Callable[[Progress], None]
) -> None:
    """Evaluate the tasks of a plan that are not done yet, and raise an error if some failed for good."""
    done = _still_done(plan, assignment, ledger.done())
    waiting = [number for number in range(len(plan.tasks)) if number not in done]
    calls = [(number, plan.tasks[number], assignment) for number in waiting]
    tracker = Tracker([task.n_rankings for task in plan.tasks], plan.task_bytes, done, client.dashboard_link)
    failures: dict[int, BaseException] = {}
    for call, outcome in as_they_finish(client, evaluate_task, calls, retries=RETRIES, keep_going=True):
        number = waiting[call]
        if isinstance(outcome, OtherRunError):
            raise outcome
        if isinstance(outcome, OSError) and outcome.errno in NO_ROOM:
            raise _without_storage(outcome, assignment.target) from outcome
        if outcome is not None:
            failures[number] = outcome
            if isinstance(outcome, UnreachableError) or not isinstance(outcome, AucprError):  # else it is recorded
                with suppress(OSError):  # the error is raised in the end, too
                    ledger.record_failure(number, {"error": f"{type(outcome).__name__}: {outcome}"})
        on_progress(tracker.finished(number, failed=number in failures))
    if failures:
        raise _explained(failures, plan, assignment.target)


def _still_done(plan: Plan, assignment: Assignment, recorded: set[int]) -> set[int]:
    """Return which of the tasks recorded as done have left their results undamaged; warn if some have not."""
    backend = open_backend(assignment.target)
    done: set[int] = set()
    for path, node in nodes_of(plan.template):
        here = [number for number in recorded if plan.tasks[number].path == path]
        arrays = open_arrays(backend, path, map(str, node.data_vars)).values() if here else ()
        for number in here:
            region = slices_of(plan.tasks[number], assignment.first_resample)
            if all(is_whole(array, region) for array in arrays):
                done.add(number)
    if lost := recorded - done:
        warnings.warn(
            f"results of {len(lost)} of {len(recorded)} finished tasks are missing or damaged at "
            f"{public(assignment.target)}; these tasks are computed again",
            DamageWarning,
            stacklevel=3,
        )
    return done


def _explained(failures: dict[int, BaseException], plan: Plan, target: str) -> BaseException:
    """Return the first error if it says what is wrong with the data, or else an error that names its task."""
    number, first = min(failures.items())
    kept = f"{len(failures)} of {len(plan.tasks)} tasks failed; the others are kept at {target}, and the same call "
    kept += "resumes from there"
    if isinstance(first, UnreachableError) or (isinstance(first, AucprError) and not isinstance(first, StoreError)):
        first.add_note(kept)
        return first
    error = RunError(
        "tasks could not be computed",
        where=plan.tasks[number].describe(),
        received=f"{type(first).__name__}: {first}",
        remedy=kept,
    )
    error.__cause__ = first
    return error


@contextmanager
def _explaining_storage(target: str, ledger: Ledger) -> Iterator[None]:
    """Explain errors of a result that cannot be written, or belongs to another run, which removes things."""
    try:
        yield
    except AucprError:
        raise
    except OSError as error:
        ledger.check()
        raise _without_storage(error, target) from error


def _without_storage(error: OSError, target: str) -> RunError:
    return RunError(
        "the disk is full, or a quota or a limit of file sizes is reached"
        if error.errno in NO_ROOM
        else "the result cannot be written",
        where=target,
        received=f"{type(error).__name__}: {error}",
        remedy="make room and run the same command again: finished tasks are kept, and it resumes from there",
    )


def _refuse_overlap(source: str, target: str) -> None:
    if overlap(source, target):
        raise StoreError(
            "the result and the scores would overlap",
            where=target,
            received=f"scores at {source}",
            remedy="name another place for the result",
        )
