"""The peak memory of a call beyond what its processes held before it; Linux only."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

RESET_PEAK = "5"  # written to /proc/PID/clear_refs, it resets the peak to the memory held now


def peak_memory(call: Callable[[], Any], others: Iterable[int] = ()) -> int | None:
    """Return the bytes that a call adds to the resident memory of this process and `others`; None if unknown.

    The peaks of several processes are added up, even if they occur at different moments.
    """
    processes = [Path(f"/proc/{pid}") for pid in (os.getpid(), *others)]
    if not all(os.access(process / "clear_refs", os.W_OK) for process in processes):
        return None
    _give_back_free_memory()
    for process in processes:
        (process / "clear_refs").write_text(RESET_PEAK)
    before = [_bytes(process, "VmRSS") for process in processes]
    result = call()
    peaks = [_bytes(process, "VmHWM") for process in processes]
    del result
    return sum(max(0, peak - held) for peak, held in zip(peaks, before, strict=True))


def _give_back_free_memory() -> None:
    """Return memory that earlier calls freed to the system; otherwise the call would reuse it unseen."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, other C libraries may not
        if trim is not None:
            trim(0)


def _bytes(process: Path, field: str) -> int:
    lines = (process / "status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))
