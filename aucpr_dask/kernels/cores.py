"""Work divided over the cores of this process."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import numba

Result = TypeVar("Result")

_lock = threading.Lock()
_n_busy = 0  # cores at work on what is divided here


def on_all_cores(function: Callable[..., Result], *tasks: Iterable[Any]) -> list[Result]:
    """Return the results of a function that calls kernels for each task, in order.

    Threads of Dask that do so at the same time share the cores. A process that another one started has one core: it is
    one of several workers.
    """
    with _idle_cores() as n_cores:
        if n_cores == 1:
            return list(map(function, *tasks))
        with ThreadPoolExecutor(n_cores) as pool:
            return list(pool.map(function, *tasks))


@contextmanager
def _idle_cores() -> Iterator[int]:
    """Reserve the cores that no other thread has reserved: one at least."""
    global _n_busy
    n_cores: int = 1 if multiprocessing.parent_process() else getattr(numba.config, "NUMBA_NUM_THREADS", 1)
    with _lock:
        n_idle = max(1, n_cores - _n_busy)
        _n_busy += n_idle
    try:
        yield n_idle
    finally:
        with _lock:
            _n_busy -= n_idle
