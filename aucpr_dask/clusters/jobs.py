"""Submit jobs to a batch system, report refusals, and replace jobs when they end.

A job may end before the work: at its workers' lifetime, at its walltime, or because someone cancels it. Dask replaces
jobs only in adaptive clusters with one process per job; here, every job is replaced.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import dask
from dask.utils import parse_timedelta
from distributed.core import Status
from tornado.ioloop import PeriodicCallback

MILLISECONDS_BETWEEN_LOOKS = 500


def submit(cluster: Any, *, minimum: int, maximum: int, **adapt: Any) -> None:
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
