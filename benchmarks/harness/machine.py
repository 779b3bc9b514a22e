"""The machine, the day, the load and the threads behind the figures."""

from __future__ import annotations

import datetime
import os
import platform
from importlib import metadata
from pathlib import Path

from benchmarks.harness.contenders import installed

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
