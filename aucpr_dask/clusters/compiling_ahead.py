"""Compile kernels in a process of their own, while a cluster starts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import DEVNULL

from aucpr_dask.storage.code_cache import cache_home


@contextmanager
def compiling_ahead(group: str) -> Iterator[None]:
    """Compile a group of kernels meanwhile, unless it has been compiled before; workers wait for it."""
    if any(cache_home().glob(f"{group}-*")):
        yield
        return
    command = [sys.executable, "-P", "-c", f"import gc; gc.disable(); import aucpr_dask.kernels.{group}"]
    with subprocess.Popen(command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()
