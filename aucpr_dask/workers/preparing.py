"""Prepare workers before their first task."""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import gc
import importlib
import logging
import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary, WeakSet

from distributed import Client, Status, WorkerPlugin

from aucpr_dask.errors import ClusterError, few, warn
from aucpr_dask.storage import code_cache, code_versions
from aucpr_dask.storage.code_versions import facts
from aucpr_dask.workers.agreement import Agreement

IN_PROCESS = "inproc://"
HERE = (IN_PROCESS, "tcp://127.0.0.1:", "tcp://[::1]:")  # on this machine, where the client warns

SECONDS_OF_PROFILES = 60

PLUGIN = "aucpr-dask"
LOST_WORKERS = 3  # while all are prepared, before that is an error
SECONDS_TO_LEAVE = 5.0  # a cluster that belongs to someone else

LAST_WORDS = ("heartbeat", "Async instruction for <Task cancelled")  # in messages that Dask logs when a worker leaves
# Exceptions of tasks whose storage fails: the run names the place, so Dask need not log a traceback of each attempt.
OF_STORAGE = ("OSError(", "PermissionError(", "UnreachableError(")

_workers_here: WeakSet[Any] = WeakSet()  # in this process
# Of clients whose workers agree, by the thread that keeps the connection: a run on it need not ask again.
_topics: WeakKeyDictionary[Client, tuple[int, str]] = WeakKeyDictionary()

# Parameters of glibc's mallopt, at the values that glibc adapts to by default. Dask starts workers with
# MALLOC_TRIM_THRESHOLD_ set, so they return memory to the system as soon as it is free, and ask for the same pages at
# the next replicate.
KEEP_MEMORY = {"M_MMAP_THRESHOLD": (-3, 32 << 20), "M_TRIM_THRESHOLD": (-1, 64 << 20)}


class Preparation(WorkerPlugin):
    """Prepare a worker, once, before its first task."""

    idempotent = True

    async def setup(self, worker: Any) -> None:
        """Keep memory and load kernels, while the worker stays responsive."""
        keep_memory()
        for name in ("profile_history", "profile_keys_history"):  # Dask keeps one for each second of an hour, 0.2 MiB
            if hasattr(worker, name):
                setattr(worker, name, deque(getattr(worker, name), maxlen=SECONDS_OF_PROFILES))
        # Silence one that leaves: its last heartbeat is not answered, and tasks remain; and storage that fails.
        _workers_here.add(worker)
        for name in ("distributed.worker", "distributed.worker.state_machine"):
            logging.getLogger(name).addFilter(_is_of_interest)
        if not worker.address.startswith(IN_PROCESS):
            atexit.register(gc.freeze)  # Python ends half a second sooner: it looks for cycles in all modules
        if worker.address.startswith(HERE):
            code_cache.stay_silent()
        await asyncio.to_thread(load_kernels)
        # The other imports take half a second, while the client plans. They stay in this thread, which unpickles tasks:
        # two threads that import packages with circular imports may each see half of the other's modules.
        asyncio.get_running_loop().call_soon(importlib.import_module, "aucpr_dask.runs.tasks")


def prepare_workers(client: Client) -> None:
    """Prepare all workers of a cluster, including those that join later; a second call does nothing."""
    code_cache.check_once()
    _register(client, Preparation(), PLUGIN)


@contextmanager
def agreeing(client: Client) -> Iterator[str]:
    """Prepare workers, and refuse those of other versions than here, also those that join later; yield the topic."""
    thread, topic = _topics.get(client, (0, ""))
    if thread == threading.get_ident():
        yield topic
        return
    topic = f"{PLUGIN}-refused-{uuid4().hex}"  # two clients of one cluster may differ
    try:
        versions = Path(code_versions.__file__).read_text(encoding="utf-8")
        _register(client, Agreement(facts(), topic, versions), topic)
        prepare_workers(client)
        _topics[client] = threading.get_ident(), topic
        yield topic
    finally:
        _topics.pop(client, None)
        if client.status == "running":
            if refused := refusals(client, topic):
                warn(f"workers with other versions were refused: {few(refused)}")
            with suppress(Exception):  # a cluster that is lost, or a worker that does not answer
                scheduler: Any = client.scheduler
                client.sync(scheduler.unregister_worker_plugin, name=topic, callback_timeout=SECONDS_TO_LEAVE)


def refusals(client: Client, topic: str) -> list[str]:
    """Return which workers that joined later were refused, and why."""
    return [str(message) for _, message in client.get_events(topic)]


def _register(client: Client, plugin: WorkerPlugin, name: str) -> None:
    where, remedy = address_of(client), "install the same version where they run"
    try:
        for is_last in (*[False] * LOST_WORKERS, True):
            try:
                client.register_plugin(plugin, name=name)
                return
            except (OSError, TimeoutError) as error:  # a worker was lost meanwhile; Dask replaces those that it starts
                if is_last or client.status != "running":
                    what, remedy = "a worker was lost while it was prepared", "look at what ended it, and run it again"
                    raise ClusterError(what, where, f"{type(error).__name__}: {error}", None, remedy) from error
    except ImportError as error:
        raise ClusterError("the workers cannot import this package", where, error, None, remedy) from error
    except ValueError as error:  # of Agreement
        what = "a worker has other versions than this process, so its numbers might differ"
        remedy = "install the same versions in both places, and restart workers that run older code"
        raise ClusterError(what, where, error, None, remedy) from None


def address_of(client: Client) -> str:
    """Return the address of a client's scheduler."""
    scheduler: Any = client.scheduler
    return str(scheduler.address)


def _is_of_interest(record: logging.LogRecord) -> bool:
    message = record.getMessage()
    if record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError):  # an interrupt during preparation
        return False
    if "evaluate_task" in message and any(words in message for words in OF_STORAGE):
        return False
    if PLUGIN in message and "failed to teardown" in message:  # the run ended before this worker had its plugin
        return False
    is_any_running = any(worker.status == Status.running for worker in _workers_here)
    return is_any_running or not any(words in message for words in LAST_WORDS)


def keep_memory() -> bool:
    """Let the process keep freed memory for its next allocation, and return whether it does."""
    # A threshold in the environment switches off glibc's adaptation to the sizes that a program frees.
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None  # glibc's own
    return mallopt is not None and all(mallopt(*parameter) == 1 for parameter in KEEP_MEMORY.values())


def load_kernels() -> list[str]:
    """Load compiled kernels from the cache, and return their names; nothing is compiled."""
    from aucpr_dask.kernels.compiling import load_kept

    return load_kept()


def compile_kernels() -> list[str]:
    """Compile every kernel into the cache, for instance in an image, and return their names."""
    from aucpr_dask.kernels.compiling import compile_all

    return compile_all()
