"""Evaluate from store to store on a Dask cluster: plan, decide what is left to do, lay out, submit tasks, finish."""

from __future__ import annotations

import errno
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack
from uuid import uuid4

from aucpr_dask import errors
from aucpr_dask.errors import AucprError, OtherRunError, RunError, SourceChangedError, StoreError
from aucpr_dask.evaluation.results import laid_out, opened_result
from aucpr_dask.progress import Progress, Tracker
from aucpr_dask.runs import steps
from aucpr_dask.runs.ledger import Ledger, differing
from aucpr_dask.runs.planning import HELD_BY_A_WORKER, Plan, plan_run
from aucpr_dask.runs.steps import Step
from aucpr_dask.runs.tasks import Assignment, evaluate_task, evaluate_tasks, evaluated_together
from aucpr_dask.schema import choices
from aucpr_dask.schema.terms import Scores, Stored, as_scores, map_nodes, nodes_of, with_levels
from aucpr_dask.scores.store import check_same
from aucpr_dask.storage.backends import open_backend
from aucpr_dask.storage.claims import CLEARING, FINISHED, FREE, LAYING_OUT, RUNNING, State
from aucpr_dask.storage.code_versions import changes_in_words, facts, in_words
from aucpr_dask.storage.stores import in_the_way, open_arrays, refuse_others
from aucpr_dask.storage.urls import absolute, overlap, public
from aucpr_dask.storage.verifying import endings_of, is_whole

if TYPE_CHECKING:
    from distributed import Client
    from zarr.abc.store import Store

    from aucpr_dask.progress import Report, RunWatcher
    from aucpr_dask.scores.archives import Like
    from aucpr_dask.workers.connecting import Workers

MAY_DIFFER = frozenset({"source", "source_digest", "blocks", "blocks_digest"})  # of a result that is extended
TAKING_OVER = (0.0, 0.1, 0.5)  # seconds between attempts to open a result whose place another run may be taking
RETRIES = 2  # of a task whose storage or worker fails; bad data is not tried again
MANY_THREADS = 2  # with no more, one that has no work is no loss to speak of
NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}  # a full disk, a quota or a limit: no other task will fare better

NO_PERMISSION = {errno.EROFS, errno.EACCES, errno.EPERM}


@choices.names_meant
def run(
    source: str | Path | Store,
    result: str | Path | Store,
    *,
    like: Like = None,
    dataset: Sequence[str] | None = None,
    overwrite: bool = False,
    other_code: bool = False,
    workers: Workers = None,
    patience: str | float | None = None,
    progress: bool | Report | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    record: str | Path | None = None,
    **options: Unpack[choices.Running],
) -> Scores:
    """Evaluate a score store into a result store, task by task, on a cluster.

    The numbers are bit-for-bit those of :func:`aucpr_dask.evaluate`: each task evaluates an aligned part of the scores
    and writes it. The result opens only once every task is done. If a run is interrupted, run it again and it resumes:
    a ledger in the result store records which tasks are done. Once the result is finished, the same call with a source
    that has more models or data sets computes only what is new and adds it. With more queries or classes, or with more
    resamples of a result that keeps its replicates, everything is evaluated again, and a warning says so.

    Parameters
    ----------
    source, result : str, Path or zarr.abc.store.Store
        A score store, or a Zarr store of another program, which is read where it lies; and where to write the result.
        Into a store that is an object, as of an Icechunk session, threads of this process write; it keeps no ledger, so
        nothing is resumed or extended there.
    like : mapping or path, optional
        What a store of another program calls what is ours; see :func:`aucpr_dask.open_scores`.
    dataset : sequence of str, optional
        The data sets to evaluate; by default all. If a later call names more of them, it adds those.
    overwrite : bool
        Whether to replace a store at `result` and start over.
    other_code : bool
        Whether to resume or extend what another version of this package, numpy or numba began, whose numbers may differ
        from those of this one. ``aucpr-dask verify`` lists who computed what.
    workers : None, int, str, Path, distributed.Client or a cluster of Dask
        None: the current client of Dask, if there is one, as the progress says; otherwise a local cluster with one
        single-threaded process per core, or this process if it is done before they would be. Or what
        :func:`aucpr_dask.connect` takes. Only a cluster started here is closed again.
    patience : str or float, optional
        How long to wait for the first worker, such as ``"30 minutes"``, by default 10 minutes; and for workers that are
        all paused because their memory is nearly full, by default a minute.
    progress : bool or Report, optional
        Whether to show progress: moving bars in a terminal, below the cell in a notebook, otherwise a plain line every
        few seconds. None: in terminals and notebooks, if the run takes more than two seconds and there is no
        `on_progress`.
    on_progress : callable, optional
        Called with a :class:`~aucpr_dask.progress.Progress` after each task.
    record : str or Path, optional
        A JSON file to write: how the run ended, the versions of every worker, and seconds, processor seconds and
        retries of every task.
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
        other options, scores or code. The message names the differences. :class:`~aucpr_dask.errors.OtherRunError` if
        another run was started over in this place while this one was under way, and
        :class:`~aucpr_dask.errors.SourceChangedError` if the scores were replaced meanwhile.
    ChunkError
        If a task would not fit the memory of a worker; before the first task.
    RunError
        If tasks failed repeatedly for other reasons than their data, or the disk is full. All other tasks are kept.
    ClusterError
        If worker processes do not start, as in a script without ``if __name__ == "__main__":``, or the connection to
        the scheduler is lost. All tasks that are done are kept.
    InvalidInputError, MissingScoresError
        See :func:`aucpr_dask.evaluate`; before the first task if the metadata show it.

    Examples
    --------
    >>> import tempfile, xarray as xr, aucpr_dask as ap
    >>> folder = tempfile.mkdtemp()
    >>> scores = xr.Dataset({"score": (("model", "item"), [[0.9, 0.1, 0.4]]), "label": ("item", [1, 0, 1])})
    >>> ap.save_scores(scores, f"{folder}/scores.zarr")
    >>> result = ap.run(f"{folder}/scores.zarr", f"{folder}/result.zarr")
    >>> float(ap.open_result(f"{folder}/result.zarr")["estimate"][0])
    1.0
    """
    from aucpr_dask.progress import watching

    source, target = absolute(source), absolute(result)
    if overlap(source, target):
        what, received = "the result and the scores would overlap", f"scores at {source}"
        raise StoreError(what, target, received, None, "name another place for the result")
    seconds = None
    if patience is not None:
        from aucpr_dask.workers.connecting import read_patience

        seconds = read_patience(patience, "argument 'patience'")
    asked = plan_run(source, dataset=dataset, like=like, **options)
    identity = asked.parameters["source_digest"]
    ledger = Ledger(target)
    begun = None if overwrite else ledger.state().plan
    plan = asked if begun is None else asked.continuing(begun)
    step = _next_step(plan, target, ledger, overwrite=overwrite, other_code=other_code)
    recorded = _Record(record, plan, target)
    if step is None:
        with recorded.kept():
            return _as_asked(opened_result(target), asked)
    with (
        recorded.kept(),
        watching(progress, on_progress) as watcher,
        _client(workers, source, target, patience, step.plan, watcher) as client,
    ):
        watcher.started(None if client is None else client.dashboard_link)
        if client is not None:
            _check_workers(client, step.plan, watcher)
        try:
            if step.begin(target, ledger):
                watcher.note("a run of this call has begun here: continuing it, next to any that is under way")
            topic, token = uuid4().hex, ledger.join()
            counts = record is not None
            assignment = Assignment(source, target, topic, token, identity, plan.options, plan.layout, counts=counts)
            for is_last in (*[False] * RETRIES, True):
                with recorded.of_tasks(client, step.plan, ledger, topic):
                    _evaluate(client, step.plan, assignment, ledger, watcher, seconds)
                check_same(source, asked.layout, identity)
                try:
                    step.finish(target, ledger)
                    break
                except errors.DamagedError as error:  # meanwhile: what is not as it was written is computed again
                    if is_last:
                        what, remedy = "chunks are damaged as soon as they are written", "look at the disk; "
                        remedy += "then run the same command again, which computes what is damaged"
                        raise RunError(what, target, f"the last one: {error}", None, remedy) from error
                except OSError as error:
                    if isinstance(error, AucprError):
                        raise
                    ledger.check()
                    raise _without_storage(error, target) from error
        except StoreError as error:  # perhaps because another run has finished, and removed temporary files
            if isinstance(error, SourceChangedError) or not _is_finished(target, step.plan):
                raise
            watcher.note("another run of the same call has finished the result")
    return _as_asked(_open_finished(target, step.plan), asked)


def _as_asked(result: Stored, asked: Plan) -> Scores:
    """Return a result with the dimensions that this call asked for, also if it was begun with others."""
    return as_scores(map_nodes(result, lambda _, node: with_levels(laid_out(node, asked.parameters["axes"]))))


@contextmanager
def _client(
    workers: Workers, source: str, target: str, patience: str | float | None, plan: Plan, watcher: RunWatcher
) -> Iterator[Client | None]:
    """Connect to the cluster, None for this process; say so if it is one that the caller did not name."""
    current = None
    if workers is None and "distributed" in sys.modules:
        from aucpr_dask.workers.connecting import current_client

        current = current_client()
    if workers is None and current is None and plan.is_small:
        watcher.note(errors.as_called("running in this process: too little work for workers (workers=2 starts two)"))
        yield None
        return
    from aucpr_dask.workers.connecting import connect_for
    from aucpr_dask.workers.preparing import address_of

    with connect_for(workers, source, target, patience=patience) as client:
        if client is current:
            start = errors.as_called("workers=N")
            watcher.note(f"on the current Dask client, {address_of(client)}; {start} starts N processes here")
        yield client


def _open_finished(target: str, plan: Plan) -> Stored:
    """Open the result, unless another run is taking its place."""
    for pause in TAKING_OVER:
        with suppress(StoreError):
            return opened_result(target, reads=("flags",))
        if not _is_finished(target, plan):
            break
        time.sleep(pause)  # it looks finished until the other run has cleared its records, too
    try:
        return opened_result(target)
    except StoreError as error:
        remedy = "wait for it, or run this call again with another place for its result"
        raise OtherRunError("another run has taken the place of this result", target, remedy=remedy) from error


def _next_step(plan: Plan, target: str, ledger: Ledger, *, overwrite: bool, other_code: bool) -> Step | None:
    """Return what is left to do, by the state of the place; None if the result is finished."""
    if overwrite:
        return Step.whole(plan, target, clears=True)
    state = ledger.state()
    if state.word == FREE:
        try:
            refuse_others(target, ledger)
        except StoreError:
            if ledger.state().word == FREE:
                raise
            return _next_step(plan, target, ledger, overwrite=False, other_code=other_code)  # another run has come
        return Step.whole(plan, target)
    if state.plan is None:  # of scores
        raise in_the_way(target)
    asked, plan = plan, _as_begun(plan, state)
    changed = differing(state.plan, plan.parameters)
    is_other = changed or plan is not asked
    if state.word == RUNNING and is_other and ledger.failures() and not ledger.done():  # it failed, nothing is lost
        return Step.whole(asked, target, clears=True)
    if state.word in (CLEARING, LAYING_OUT, RUNNING):
        _refuse(changed, target)
        _refuse_other_code(asked, state, target, other_code=other_code)
        return Step.whole(plan, target)
    step = None
    if changed or state.word != FINISHED:
        drawn = state.plan["options"].get("n_resamples")
        are_kept = all("replicate" in node for _, node in nodes_of(plan.template))
        is_drawn = "n_resamples" in changed and isinstance(drawn, int)
        has_more_resamples = are_kept and is_drawn and drawn < plan.options.resampling.n_resamples
        may_differ = MAY_DIFFER | ({"n_resamples"} if has_more_resamples else set())
        grouped, now = (one["options"].get("groups") or {} for one in (state.plan, plan.parameters))
        if grouped.items() <= now.items():  # there are those of more data sets
            may_differ |= {"groups"}
        _refuse(changed, target, may_differ)
        groups = {name for _, node in nodes_of(plan.template) for name in str(node.attrs.get("by", "")).split(", ")}
        there, wanted = steps.contents_of(target, ledger, groups), steps.wanted_contents(plan, groups)
        steps.refuse_changes(there, wanted, target)
        try:
            if has_more_resamples:
                raise steps.NotByModels
            step = steps.growth(plan, target, there, wanted)
        except steps.NotByModels:
            text = "the source differs by more than new models and data sets, or has longer names, so everything is "
            errors.warn(f"{text}evaluated again at {public(target)}")
            return Step.whole(asked, target, clears=True)
    if step is not None:
        _refuse_other_code(asked, state, target, other_code=other_code)
    elif state.word == FINISHED:
        before, now_code = state.plan.get("code"), asked.parameters["code"]
        if before != now_code:
            text = f"{public(target)} is finished, and its numbers are of another version: "
            errors.warn(f"{text}{changes_in_words(before, now_code)}; overwrite=True computes them again")
        recorded = ledger.recorded()  # perhaps it has become another one, or a run was killed before it recorded it
        if recorded.word != FINISHED or recorded.plan != plan.parameters:
            ledger.close(State(plan=plan.parameters))
    return step


def _as_begun(plan: Plan, state: State) -> Plan:
    """Return the plan of a call as the one that it goes on with: perhaps its scores were moved, or the code differs."""
    before, now = dict(state.plan or {}), plan.parameters
    kept = {"code": before.get("code")}
    if state.word == RUNNING and before.get("source_digest") == now["source_digest"]:
        kept |= {"source": before["source"]}
    others = [one for one in (kept["code"], *(part["code"] for part in state.by_others)) if one != now["code"]]
    if not others and kept.items() <= now.items():
        return plan
    of_others = "".join(f"; some of it by {in_words(one)}" for one in others)
    template = map_nodes(plan.template, lambda _, node: node.assign_attrs(versions=node.attrs["versions"] + of_others))
    return replace(plan, parameters={**now, **kept}, template=template)


def _refuse_other_code(plan: Plan, state: State, target: str, *, other_code: bool) -> None:
    """Raise if another code began what is to be resumed or extended, unless its user says that this is meant."""
    before, now = (state.plan or {}).get("code"), plan.parameters["code"]
    if before == now or other_code:
        return
    what = "another version of the code began this result, and its numbers may differ from those of this one"
    remedy = "continue with the version that began it; or pass overwrite=True to compute everything "
    remedy += "again, or other_code=True to mix the numbers of both"
    raise StoreError(what, target, changes_in_words(before, now), "one result, one code", remedy)


def _refuse(changed: Mapping[str, str], target: str, may_differ: Collection[str] = ()) -> None:
    """Raise if a plan differs from that of a result by more than it may."""
    if changed.keys() <= set(may_differ):
        return
    what = "there is something at this place already: another evaluation"
    remedy = "use the same options to resume it, name another place, or pass overwrite=True "
    raise StoreError(what, target, "; ".join(dict.fromkeys(changed.values())), None, remedy + "to replace it")


def _is_finished(target: str, plan: Plan) -> bool:
    """Return whether another run with this plan has finished the result; records written since are dropped."""
    ledger = Ledger(target)
    state = ledger.state()
    if state.word != FINISHED or state.plan is None or differing(state.plan, plan.parameters):
        return False
    ledger.drop_records()
    return True


def _check_workers(client: Client, plan: Plan, watcher: Any) -> None:
    """Raise if a task does not fit the memory of a worker, and say so if there are many more threads than tasks."""
    from aucpr_dask.workers.preparing import IN_PROCESS, address_of

    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    for worker in workers:
        if limit := worker["memory_limit"]:
            is_thread = address_of(client).startswith(IN_PROCESS)
            held = 0 if is_thread else max(HELD_BY_A_WORKER, worker["metrics"].get("memory", 0))
            plan.check_memory(limit / worker["nthreads"], held / worker["nthreads"])
    n_threads = sum(worker["nthreads"] for worker in workers)
    if len(plan.tasks) < n_threads > MANY_THREADS:
        watcher.note(
            f"only {len(plan.tasks)} of {n_threads} threads have work, because tasks are whole chunks of the scores: "
            "save_scores(scores, ..., models_per_chunk=...) makes smaller ones"
        )


def _evaluate(
    client: Client | None,
    plan: Plan,
    assignment: Assignment,
    ledger: Ledger,
    on_progress: Callable[[Progress], None],
    patience: float | None,
) -> None:
    """Evaluate the tasks of a plan that are not done yet, and raise an error if some failed for good."""
    done = _still_done(plan, assignment, ledger.records_of_done())
    waiting = [number for number in range(len(plan.tasks)) if number not in done]
    link = None if client is None else client.dashboard_link
    tracker = Tracker([task.n_rankings for task in plan.tasks], plan.task_bytes, done, link)
    failures: dict[int, BaseException] = {}
    # Kept by no name, so that an error ends the calls while the client is open.
    for number, outcome in _outcomes(client, plan, waiting, assignment, ledger, patience):
        if isinstance(outcome, (OtherRunError, SourceChangedError)):
            raise outcome
        if isinstance(outcome, OSError) and outcome.errno in NO_ROOM | NO_PERMISSION:
            raise _without_storage(outcome, assignment.target) from outcome
        if isinstance(outcome, errors.UnreachableError):  # no other task will fare better
            outcome.add_note(f"finished tasks are kept at {assignment.target}, and the same call resumes from there")
            with suppress(OSError):
                ledger.record_failure(number, f"{type(outcome).__name__}: {outcome}")
            raise outcome
        if outcome is not None:
            failures[number] = outcome
            if not isinstance(outcome, AucprError):  # else it is recorded
                with suppress(OSError):  # the error is raised in the end, too
                    ledger.record_failure(number, f"{type(outcome).__name__}: {outcome}")
        on_progress(tracker.finished(number, failed=number in failures))
    if not failures:
        return
    number, first = min(failures.items())
    kept = f"{len(failures)} of {len(plan.tasks)} tasks failed; the others are kept at {assignment.target}, and the "
    kept += "same call resumes from there"
    if isinstance(first, AucprError) and not isinstance(first, StoreError):  # it says what is wrong with the data
        first.add_note(kept)
        raise first
    where, received = plan.tasks[number].describe(), f"{type(first).__name__}: {first}"
    raise RunError("tasks could not be computed", where, received, None, kept) from first


def _outcomes(
    client: Client | None,
    plan: Plan,
    waiting: list[int],
    assignment: Assignment,
    ledger: Ledger,
    patience: float | None,
) -> Iterator[tuple[int, Any]]:
    """Yield the number and the outcome of each task as it ends, on a cluster or here."""
    batches = plan.batches(waiting, 1 if client is None else sum(client.nthreads().values()))
    calls = [(numbers, [plan.tasks[number] for number in numbers], assignment) for numbers in batches]
    if client is None:
        for numbers, tasks, _ in calls:
            ready = evaluated_together(tasks, assignment)
            for number, task in zip(numbers, tasks, strict=True):
                for _ in range(RETRIES + 1):  # as on workers
                    try:
                        outcome: Any = evaluate_task(number, task, assignment, ready.get(task))
                        break
                    except Exception as error:
                        outcome = error
                yield number, outcome
        return
    from aucpr_dask.runs.submitting import as_they_finish

    for call, outcome in as_they_finish(client, evaluate_tasks, calls, RETRIES, patience=patience):
        numbers = batches[call]
        if isinstance(outcome, BaseException) and len(numbers) > 1:  # some may have ended before it
            done = ledger.done()
            outcome = [None if number in done else outcome for number in numbers]
        yield from zip(numbers, outcome if isinstance(outcome, list) else [outcome] * len(numbers), strict=True)


def _still_done(plan: Plan, assignment: Assignment, recorded: Mapping[int, Mapping[str, Any]]) -> set[int]:
    """Return which of the tasks recorded as done have left their results undamaged, in place; warn if some have not."""
    backend = open_backend(assignment.target)
    done: set[int] = set()
    for path, node in nodes_of(plan.template):
        here = [number for number in recorded if plan.tasks[number].path == path]
        arrays = open_arrays(backend, path, sorted(map(str, node.data_vars))).values() if here else ()
        for number in here:
            region, chunks = plan.tasks[number].slices, recorded[number].get("chunks")
            if all(is_whole(array, region) for array in arrays) and chunks in (None, endings_of(arrays, region)):
                done.add(number)
    if lost := recorded.keys() - done:
        text = f"results of {len(lost)} of {len(recorded)} finished tasks are missing or damaged at "
        text += f"{public(assignment.target)}; these tasks are computed again"
        errors.warn(text, errors.DamageWarning)
    return done


def _without_storage(error: OSError, target: str) -> RunError:
    what, remedy = "the result cannot be written", "mend that"
    if error.errno in NO_ROOM:
        what, remedy = "the disk is full, or a quota or a limit of file sizes is reached", "make room"
    elif error.errno in NO_PERMISSION:
        remedy = "make the place writable for the workers, or name another one"
    remedy += " and run the same command again: finished tasks are kept, and it resumes from there"
    return RunError(what, target, f"{type(error).__name__}: {error}", None, remedy)


# --- what a run took, for programs: to compare two nights ------------------------------------------------------------


class _Record:
    """A JSON file that says what a run took; nothing is written if there is no path."""

    def __init__(self, path: str | Path | None, plan: Plan, target: str) -> None:
        self._path, self._started = None if path is None else Path(path), time.monotonic()
        if self._path is None:
            return
        started = datetime.now(UTC).isoformat(timespec="seconds")
        self._content: dict[str, Any] = {"source": public(plan.source), "result": public(target), "started": started}
        self._content |= {"outcome": "running", "seconds": 0.0, "client": facts()}
        self._content |= {"options": plan.parameters["options"], "workers": [], "tasks": []}
        self._write()  # a place that cannot be written to is found before the first task

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Say at the end how the run ended, whether it finished or not."""
        outcome = "finished"
        try:
            yield
        except BaseException as error:
            outcome = f"{type(error).__name__}: {error}"
            raise
        finally:
            if self._path is not None:
                self._content |= {"outcome": outcome, "seconds": round(time.monotonic() - self._started, 3)}
                self._write()

    @contextmanager
    def of_tasks(self, client: Client | None, plan: Plan, ledger: Ledger, topic: str) -> Iterator[None]:
        """Count how often each task begins, and keep the ledger's records of those that are done."""
        if self._path is None:
            yield
            return
        begun: Counter[int] = Counter()
        if client is not None:
            client.subscribe_topic(topic, lambda event: begun.update([event[1]]))
        try:
            yield
        finally:
            if client is not None and client.status == "running":
                client.unsubscribe_topic(topic)
            done = ledger.records_of_done()
            workers = [{"worker": one.get("worker")} | (one.get("versions") or {}) for one in done.values()]
            self._content["workers"] = [one for place, one in enumerate(workers) if one not in workers[:place]]
            self._content["tasks"] = [
                {"task": number, "data_set": task.path, "what": task.describe(), "n_rankings": task.n_rankings}
                | {"is_done": number in done, "retries": max(0, begun[number] - 1)}
                | {name: done.get(number, {}).get(name) for name in ("seconds", "cpu_seconds", "worker")}
                for number, task in enumerate(plan.tasks)
            ]

    def _write(self) -> None:
        assert self._path is not None
        try:
            self._path.write_text(json.dumps(self._content, indent=1), encoding="utf-8")
        except OSError as error:
            what, remedy = "the record of the run cannot be written", "name a file in a folder that you may write to"
            raise StoreError(what, self._path, error.strerror, remedy=remedy) from error
