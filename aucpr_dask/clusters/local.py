"""Worker processes on this machine."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing import resource_tracker
from typing import Any

import dask
from distributed import LocalCluster, Status

from aucpr_dask.clusters.jobs import keep_looking
from aucpr_dask.errors import ClusterError

WITHOUT_WORKERS = "2 minutes"  # that a task waits where workers are processes; a process that may start will have

# How often Dask looks at its own processes: by default 50 and 100 times a second, which takes 4.5 % of a core for every
# worker and 6.6 % for the scheduler with its client; so, 1 % and 3 %. Where gilknocker is installed, it also looks at
# Python's lock, a thousand times a second, and warns where that takes too long.
SELDOM = {
    "distributed.admin.tick.interval": "500 ms",
    "distributed.worker.profile.interval": "100 ms",
    "distributed.admin.system-monitor.gil.enabled": False,
}


def start_processes(**options: Any) -> LocalCluster:
    """Start local worker processes that leave Ctrl-C to this process, which ends them in order."""
    block_signals = getattr(signal, "pthread_sigmask", None)  # absent on Windows; the mask is inherited
    if block_signals:
        resource_tracker.ensure_running()  # or else it starts with the first worker, and lets signals through again
    before = block_signals(signal.SIG_BLOCK, {signal.SIGINT}) if block_signals else None
    patience = dask.config.get("distributed.scheduler.no-workers-timeout") or WITHOUT_WORKERS
    try:
        with dask.config.set({"distributed.scheduler.no-workers-timeout": patience, **_unless_configured(SELDOM)}):
            cluster = LocalCluster(**options)
    except (RuntimeError, TimeoutError) as error:
        raise ClusterError(
            "worker processes could not be started",
            received=str(error),
            remedy='put the call under `if __name__ == "__main__":` in a script file, because every worker imports '
            "that file anew; or pass a running client: cluster=...",
        ) from error
    finally:
        if block_signals:
            block_signals(signal.SIG_SETMASK, before)
    _replace_processes(cluster)
    return cluster


def _replace_processes(cluster: Any) -> None:
    """Keep the number of workers, where Dask gives a worker up for good.

    It does so if a worker dies before it has said that it is there, as by a block that kills whoever reads it; and if
    one happens to start again 15 seconds after it was lost before.
    """

    async def look() -> None:
        for name, nanny in list(cluster.workers.items()):
            if nanny.status in (Status.closed, Status.failed):
                del cluster.workers[name]
        if set(cluster.worker_spec) - set(cluster.workers):
            with suppress(RuntimeError, TimeoutError):  # said by Dask, and tried again at the next look
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
