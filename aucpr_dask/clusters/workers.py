"""What every worker gets before its first task."""

from __future__ import annotations

import asyncio
import ctypes
import importlib
import logging
import os
from collections import deque
from typing import Any
from weakref import WeakSet

from distributed import Client, Status, WorkerPlugin

from aucpr_dask.errors import ClusterError

SECONDS_OF_PROFILES = 60

PLUGIN = "aucpr-dask"

LAST_WORDS = ("heartbeat", "Async instruction for <Task cancelled")  # in what Dask logs of a worker that leaves

_workers_here: WeakSet[Any] = WeakSet()  # in this process

# Parameters of glibc's mallopt, at the values that it comes to by itself where nobody interferes.
# Dask starts workers with MALLOC_TRIM_THRESHOLD_ set, by which they hand memory back as soon as it is free, and ask the
# system for the same pages again at the next replicate.
KEEP_MEMORY = {"M_MMAP_THRESHOLD": (-3, 32 << 20), "M_TRIM_THRESHOLD": (-1, 64 << 20)}


class Preparation(WorkerPlugin):
    """What a worker does before its first task, and only once."""

    idempotent = True

    async def setup(self, worker: Any) -> None:
        """Keep memory, load kernels; the worker answers others meanwhile."""
        keep_memory()
        keep_few_profiles(worker)
        end_quietly(worker)
        await asyncio.to_thread(load_kernels)
        # The rest, half a second of imports, while the client plans; in this thread, which unpickles tasks, because two
        # threads that import packages with circles in them may each see half of what the other imports.
        asyncio.get_running_loop().call_soon(importlib.import_module, "aucpr_dask.runs.tasks")


def prepare_workers(client: Client) -> None:
    """Prepare all workers of a cluster, and those to come; a second time, nothing happens.

    Raises
    ------
    ClusterError
        If this package cannot be imported on a worker.
    """
    try:
        client.register_plugin(Preparation(), name=PLUGIN)
    except ImportError as error:
        raise ClusterError(
            "the workers cannot import this package",
            where=_address(client),
            received=str(error),
            remedy="install the same version of aucpr-dask where the workers run",
        ) from error


def _address(client: Client) -> str:
    return str(client.scheduler_info(n_workers=0)["address"])


def keep_few_profiles(worker: Any) -> None:
    """Let a worker forget its profiles after a minute: Dask keeps one for each second of an hour, 0.2 MiB each."""
    for name in ("profile_history", "profile_keys_history"):
        if hasattr(worker, name):
            setattr(worker, name, deque(getattr(worker, name), maxlen=SECONDS_OF_PROFILES))


def end_quietly(worker: Any) -> None:
    """Let a worker that leaves not complain that nobody answers its last heartbeat, or that it leaves a task behind."""
    _workers_here.add(worker)
    for name in ("distributed.worker", "distributed.worker.state_machine"):
        logging.getLogger(name).addFilter(_is_of_interest)


def _is_of_interest(record: logging.LogRecord) -> bool:
    is_any_running = any(worker.status == Status.running for worker in _workers_here)
    return is_any_running or not any(words in record.getMessage() for words in LAST_WORDS)


def keep_memory() -> bool:
    """Let the process keep freed memory for its next allocation, whatever its environment says; tell whether it does.

    References
    ----------
    GNU C Library manual, "Malloc Tunable Parameters": setting a threshold by the environment switches off its
    adaptation to the sizes that a program frees.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None  # glibc's own
    return mallopt is not None and all(mallopt(*parameter) == 1 for parameter in KEEP_MEMORY.values())


def load_kernels() -> list[str]:
    """Load the machine code that is in the cache; return the names of its groups. Nothing is compiled."""
    from aucpr_dask.kernels.compiling import load_published

    return load_published()


def compile_kernels() -> list[str]:
    """Compile every kernel into the cache, as when an image is built; return the names of the groups."""
    from aucpr_dask.kernels.compiling import compile_all

    return compile_all()
