"""Work divided over the cores of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numba

Result = TypeVar("Result")


def on_all_cores(function: Callable[..., Result], *tasks: Iterable[Any]) -> list[Result]:
    """Return the results of a function that calls kernels for each task, in order.

    Threads other than the main one work alone: Dask, whose threads they are, has a task for each core.
    """
    n_cores: int = getattr(numba.config, "NUMBA_NUM_THREADS", 1)  # that this process may use
    if n_cores == 1 or threading.current_thread() is not threading.main_thread():
        return list(map(function, *tasks))
    with ThreadPoolExecutor(n_cores) as pool:
        return list(pool.map(function, *tasks))
