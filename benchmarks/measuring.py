"""Check that contenders agree, measure the memory of one call of each, and time them in turns; say on what machine."""

from __future__ import annotations

import ctypes
import datetime
import gc
import os
import platform
import statistics
import sys
import timeit
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.suite import Contender, Suite, installed

SHORTEST_SAMPLE = 0.1


@dataclass
class Timing:
    """The measurements of one contender in one case; times in seconds per unit of work, `peak` in bytes."""

    suite: str
    case: str
    name: str
    call: str
    unit: str
    versions: str = ""
    seconds: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    difference: float | None = None
    tolerance: float | None = None
    skipped: str = ""
    units: float = 1
    peak: int | None = None
    is_floor: bool = False

    @property
    def median(self) -> float:
        """The median over the rounds."""
        return statistics.median(self.seconds)

    @property
    def ratio(self) -> float | None:
        """The median over the rounds of this time / the first contender's time just before; None for the first."""
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def distances(self) -> list[float]:
        """The first contender's times / the times of this floor just after; empty for other contenders."""
        return [1 / ratio for ratio in self.ratios] if self.is_floor else []

    @property
    def agrees(self) -> bool | None:
        """Whether the numbers equal the first contender's; None if they are not comparable."""
        if self.difference is None or self.tolerance is None:
            return None
        return self.difference <= self.tolerance


def measure(suite: Suite, rounds: int) -> Iterator[Timing]:
    """Yield one :class:`Timing` per case and contender, including skipped ones."""
    for param in suite.params:
        suite.setup(param)
        try:
            yield from _measure_case(suite, param, rounds)
        finally:
            suite.teardown(param)


def _measure_case(suite: Suite, param: Any, rounds: int) -> list[Timing]:
    timings: list[Timing] = []
    calls: list[tuple[Timing, Callable[[], Any]]] = []
    expected = None
    for one, method in suite.contenders():
        timing = Timing(suite.name, suite.describe(param), one.name, one.call, suite.unit, tolerance=one.tolerance)
        timing.is_floor = one.is_floor
        timings.append(timing)
        if one.missing():
            timing.skipped = f"not installed: {', '.join(one.missing())}"
            continue
        timing.versions = one.versions()
        timing.units = one.share or suite.units()
        # This first call is not timed: it compiles, fills caches and yields the numbers to compare.
        result = method(param)
        if expected is None:
            expected = one.numbers(result)
        elif one.tolerance is not None or one.approximates:
            timing.difference = _largest_difference(one, result, expected)
        del result
        call = partial(method, param)
        if not suite.no_memory:
            timing.peak = peak_memory(call, suite.other_processes())
        calls.append((timing, call))
    _time_in_turns(calls, rounds, suite)
    return timings


def _largest_difference(one: Contender, result: Any, expected: Any) -> float:
    """Return the largest difference; infinite if shapes differ or only one side is NaN."""
    numbers = np.asarray(one.numbers(result))
    expected = np.asarray(expected)
    if numbers.shape != expected.shape or not np.array_equal(np.isnan(numbers), np.isnan(expected)):
        return float("inf")
    return float(np.nanmax(np.abs(numbers - expected)))


def _time_in_turns(calls: list[tuple[Timing, Callable[[], Any]]], rounds: int, suite: Suite) -> None:
    """Time first, second, first, third, first, ...: a slow spell of the machine affects both of a pair."""
    (first, first_call), *others = calls
    repeats = {timing.name: suite.number or _repeats(call) for timing, call in calls}

    def sample(timing: Timing, call: Callable[[], Any]) -> float:
        number = repeats[timing.name]
        timing.seconds.append(timeit.timeit(call, timer=suite.clock, number=number) / number / timing.units)
        return timing.seconds[-1]

    for _ in range(rounds):
        if not others:
            sample(first, first_call)
        for other, call in others:
            seconds = sample(first, first_call)
            other.ratios.append(sample(other, call) / seconds)


def _repeats(call: Callable[[], Any]) -> int:
    """Return the number of calls that makes a sample long enough for the clock and the scheduler."""
    return max(1, round(SHORTEST_SAMPLE / max(timeit.timeit(call, number=1), 1e-7)))


# Memory: the peak of a call beyond what its processes held before it; Linux only

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


# The machine, the day, the load and the threads behind the figures

# Kernels, NumPy and PyTorch as on the most common processors, which have vectors of 256 bits.
PROCESSOR = "haswell"
AVX2 = {
    "NUMBA_CPU_NAME": PROCESSOR,
    "NUMBA_CPU_FEATURES": (
        "+64bit,+avx,+avx2,+bmi,+bmi2,+cmov,+cx16,+cx8,+f16c,+fma,+fxsr,+lzcnt,+mmx,+movbe,+popcnt,+sahf,"
        "+sse,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3,+xsave"
    ),
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
    "ATEN_CPU_CAPABILITY": "avx2",
}

OURS = ("aucpr-dask", "numpy", "numba", "dask", "zarr", "xarray")


def use_threads(number: int = 1) -> None:
    """Limit all libraries to one thread, and this package to `number`; a contender that uses more says so."""
    import numba

    numba.set_num_threads(1)
    numba.config.NUMBA_NUM_THREADS = number
    if installed("torch"):
        import torch

        torch.set_num_threads(1)


def describe_machine() -> dict[str, str]:
    """Return the machine, its load and the versions."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{_memory_gib():.0f} GiB",
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "versions": ", ".join(f"{name} {metadata.version(name)}" for name in OURS if installed(name)),
        "load average at start": f"{os.getloadavg()[0]:.2f} (1 min), {os.getloadavg()[1]:.2f} (5 min)",
        "threads": "1 in this process unless a line says otherwise",
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        fields = dict(line.split(":", 1) for line in cpuinfo.read_text().splitlines() if ":" in line)
        model = next((value.strip() for key, value in fields.items() if key.strip() == "model name"), "")
        if os.environ.get("NUMBA_CPU_NAME") == PROCESSOR:
            return f"{model} (avx2, without the wider vectors that it has)"
        wide = next((flag for flag in ("avx512f", "avx2") if flag in cpuinfo.read_text()), "no wide vectors")
        return f"{model} ({wide})"
    return platform.processor() or platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
