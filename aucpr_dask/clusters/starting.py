"""Start worker processes on this machine, or as jobs of a batch system, and replace those that end.

A job may end before the work: at its workers' lifetime, at its walltime, or because someone cancels it. Dask replaces
jobs only in adaptive clusters with one process per job; here, every job is replaced.
"""

from __future__ import annotations

import ast
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from multiprocessing import resource_tracker
from pathlib import Path
from types import FrameType
from typing import Any

import dask
from dask.utils import parse_timedelta
from distributed import LocalCluster, Nanny, Status
from tornado.ioloop import PeriodicCallback

from aucpr_dask.errors import ClusterError

WITHOUT_WORKERS = "2 minutes"  # for which tasks wait; by then, local processes have started or never will

GUARD = (
    'put the call under `if __name__ == "__main__":` in a script file, because every worker imports that file; or pass '
    "a running client: cluster=..."
)
MOST_STARTS = 3  # of processes that are killed before they have registered

# How often Dask looks at its own processes. By default, 50 and 100 times a second, which takes 4.5 % of a core for
# every worker and 6.6 % for the scheduler with its client; with these settings, 1 % and 3 %. If gilknocker is
# installed, Dask also looks at Python's lock a thousand times a second, and warns if that takes too long.
SELDOM = {
    "distributed.admin.tick.interval": "500 ms",
    "distributed.worker.profile.interval": "100 ms",
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.scheduler.worker-ttl": "20 s",  # tasks of a stopped process are given to another within twice this
}

MILLISECONDS_BETWEEN_LOOKS = 500


# --- on this machine --------------------------------------------------------------------------------------------------


def start_processes(**options: Any) -> LocalCluster:
    """Start local worker processes; they ignore Ctrl-C, because this process ends them in order."""
    refuse_unguarded()
    block_signals = getattr(signal, "pthread_sigmask", None)  # not on Windows; children inherit the mask
    if block_signals:
        resource_tracker.ensure_running()  # otherwise it starts with the first worker, and unblocks signals
    before = block_signals(signal.SIG_BLOCK, {signal.SIGINT}) if block_signals else None
    patience = dask.config.get("distributed.scheduler.no-workers-timeout") or WITHOUT_WORKERS
    try:
        with dask.config.set({"distributed.scheduler.no-workers-timeout": patience, **_unless_configured(SELDOM)}):
            cluster = _started(options)
    finally:
        if block_signals:
            block_signals(signal.SIG_SETMASK, before)
    _replace_processes(cluster)
    return cluster


def _started(options: Mapping[str, Any]) -> LocalCluster:
    """Start processes, and start all of them again if one is killed meanwhile: Dask stops the others."""
    exit_codes: list[int] = []

    class WatchfulNanny(Nanny):
        def _on_worker_exit_sync(self, exitcode: int) -> None:
            exit_codes.append(exitcode)
            super()._on_worker_exit_sync(exitcode)  # type: ignore[no-untyped-call]

    for _ in range(MOST_STARTS):
        exit_codes.clear()
        try:
            return LocalProcesses(**{"worker_class": WatchfulNanny, **options})  # type: ignore[no-untyped-call]
        except (RuntimeError, TimeoutError) as error:
            cause = error
        if isinstance(reason := cause.__cause__, (TypeError, ValueError, LookupError)):  # of the worker itself
            what, remedy = "worker processes could not be started", "correct the options of the cluster"
            raise ClusterError(what, None, f"{type(reason).__name__}: {reason}", None, remedy) from cause
        if not exit_codes or exit_codes[0] >= 0:  # not killed by a signal
            received = f"exit code {exit_codes[0]}" if exit_codes else str(cause)
            raise ClusterError("worker processes could not be started", None, received, None, GUARD) from cause
    what = f"a worker process was killed while it started, in {MOST_STARTS} attempts"
    remedy = "find out what kills it, such as a limit of memory, and run the same command again; or pass a running "
    raise ClusterError(what, None, f"exit code {exit_codes[0]}", None, remedy + "client: cluster=...") from cause


def refuse_unguarded() -> None:
    """Raise if this call is at the top of a script: every worker would run it all again, and fail in the same way."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and not (frame.f_code.co_name == "<module>" and frame.f_globals["__name__"] == "__main__"):
        frame = frame.f_back
    script = None if frame is None else frame.f_globals.get("__file__")
    if frame is None or script is None or frame.f_globals.get("__spec__") is not None:
        return
    with suppress(OSError, SyntaxError, UnicodeDecodeError):
        statements = ast.parse(Path(script).read_bytes()).body
        here = [one for one in statements if one.lineno <= frame.f_lineno <= (one.end_lineno or 0)]
        if here and not (isinstance(here[0], ast.If) and "__main__" in ast.unparse(here[0].test)):
            where, what = f"{script}, line {frame.f_lineno}", "worker processes could not be started"
            raise ClusterError(what, where, "a call that each of them would repeat", None, GUARD)


class LocalProcesses(LocalCluster):
    """A local cluster that may lose a worker before it knows it: Dask would stop watching and fail to close."""

    def _update_worker_status(self, op: str, msg: Any) -> None:
        if op != "remove" or msg in self.scheduler_info["workers"]:
            super()._update_worker_status(op, msg)  # type: ignore[no-untyped-call]


def _replace_processes(cluster: Any) -> None:
    """Replace workers that Dask gives up."""
    # It gives up a worker that dies before it has registered, and one that restarts 15 seconds after it was last lost.

    async def look() -> None:
        for name, nanny in list(cluster.workers.items()):
            if nanny.status in (Status.closed, Status.failed):
                del cluster.workers[name]
        if set(cluster.worker_spec) - set(cluster.workers):
            with suppress(RuntimeError, TimeoutError):  # Dask logs it, and the next look tries again
                await cluster

    keep_looking(cluster, "replace-processes", look)


def _unless_configured(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return those settings of Dask that are still its defaults."""
    defaults = dask.config.merge(*dask.config.defaults)
    return {
        name: value
        for name, value in settings.items()
        if dask.config.get(name) == dask.config.get(name, config=defaults)
    }


# --- jobs of a batch system -------------------------------------------------------------------------------------------


def submit_jobs(cluster: Any, *, minimum: int, maximum: int, **adapt: Any) -> None:
    """Submit the first jobs of a cluster without workers, and replace jobs until the cluster is closed.

    `minimum` and `maximum` are numbers of worker processes; `adapt` are more arguments of ``cluster.adapt``. A refusal
    of the batch system raises RuntimeError with its message.
    """

    async def submitted() -> None:
        cluster.scale(minimum)
        await cluster

    try:
        cluster.sync(submitted)
    except Exception:
        _refused(cluster)
        raise
    cluster.adapt(minimum=minimum, maximum=maximum, **adapt)
    keep_looking(cluster, "replace-jobs", _Absences(cluster).look)


def keep_looking(cluster: Any, name: str, look: Callable[[], Awaitable[None]]) -> None:
    """Call a function twice a second until the cluster is closed."""
    looking = PeriodicCallback(look, MILLISECONDS_BETWEEN_LOOKS)
    cluster.periodic_callbacks[name] = looking  # stopped with the others when the cluster closes
    cluster.loop.add_callback(looking.start)


def _refused(cluster: Any) -> set[str]:
    """Return the names of refused jobs, and mark them as failed: otherwise Dask does not close the cluster."""
    refused = {name: job for name, job in cluster.workers.items() if job.job_id is None}
    for job in refused.values():
        job.status = Status.failed
    return set(refused)


class _Absences:
    """Make a cluster forget jobs whose workers have all left, and refused jobs, so that it requests new ones."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._came: set[str] = set()
        self._since: dict[str, float] = {}
        # A worker that restarts may take this long.
        self._patience = float(parse_timedelta(dask.config.get("distributed.deploy.lost-worker-timeout")))

    async def look(self) -> None:
        refused = _refused(self._cluster)
        present = {str(worker["name"]) for worker in self._cluster.scheduler_info["workers"].values()}
        for name, job in list(self._cluster.workers.items()):
            group = self._cluster.worker_spec.get(name, {}).get("group", [""])
            if any(f"{name}{suffix}" in present for suffix in group):
                self._came.add(name)
                self._since.pop(name, None)
            elif (name in self._came or name in refused) and self._has_waited(name):
                del self._since[name], self._cluster.workers[name]
                self._came.discard(name)
                await job.close()

    def _has_waited(self, name: str) -> bool:
        now = time.monotonic()
        return now > self._since.setdefault(name, now) + self._patience
