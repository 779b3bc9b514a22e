"""Jobs of a batch system: submitted so that a refusal is seen, and replaced when they end.

A job ends before the work does: at its workers' lifetime, at its walltime, or because somebody took it away. Dask asks
for another one only where it adapts and where each job is one process; here there is another one in every case.
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
    """Submit the first jobs of a cluster, and have them replaced as long as it lives.

    Parameters
    ----------
    cluster : dask_jobqueue.JobQueueCluster
        Without workers so far.
    minimum, maximum : int
        Number of worker processes; the first jobs have the least number.
    **adapt
        More arguments of ``cluster.adapt``.

    Raises
    ------
    RuntimeError
        If the batch system refuses a job, with what it said.
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
    """Look after a cluster twice a second, as long as it lives."""
    looking = PeriodicCallback(look, MILLISECONDS_BETWEEN_LOOKS)
    cluster.periodic_callbacks[name] = looking  # stopped with the others when the cluster closes
    cluster.loop.add_callback(looking.start)


def _refused(cluster: Any) -> set[str]:
    """Return the names of the jobs that were not accepted, marked as failed: else Dask does not close the cluster."""
    refused = {name: job for name, job in cluster.workers.items() if job.job_id is None}
    for job in refused.values():
        job.status = Status.failed
    return set(refused)


class _Absences:
    """Lets a cluster forget the jobs whose workers have all left, or that were refused: then it asks for new ones."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._came: set[str] = set()
        self._since: dict[str, float] = {}
        # What a worker may take that only starts again.
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
