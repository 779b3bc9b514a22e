"""Compile kernels in a process of their own, while a cluster starts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import DEVNULL

from aucpr_dask.storage.code_cache import path_of

# What the demo needs, in the order in which its workers do: if they came first, they would compile it themselves, and
# numba takes a second of every process that compiles.
FIRST = ("classes.split_rows_float32_int8", "classes.groups_in_order_float32_float32", "areas.finish_common_rows")
COMPILE = "import gc, sys; gc.disable(); from aucpr_dask.kernels.compiling import prepare; prepare(sys.argv[1:])"


@contextmanager
def compiling_ahead(kernels: tuple[str, ...] = FIRST) -> Iterator[None]:
    """Compile kernels meanwhile, unless they have been compiled before; workers wait for them."""
    missing = [kernel for kernel in kernels if not path_of(kernel).exists()]
    if not missing:
        yield
        return
    command = [sys.executable, "-P", "-c", COMPILE, *missing]
    with subprocess.Popen(command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()
