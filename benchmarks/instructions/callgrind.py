"""Run the program under Callgrind and read the instructions of each section."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness.machine import AVX2

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("program.py")

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


class CountingError(RuntimeError):
    """Nothing could be counted; the message gives the reason."""


@dataclass(frozen=True)
class Counts:
    """The instructions of one call of each workload, the smallest of its repeats."""

    of: dict[str, int]
    errors: dict[str, str] = field(default_factory=dict)  # workloads that this package cannot run


def why_not() -> str | None:
    """Return the reason if nothing can be counted here."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return f"the workloads are compiled for x86-64, and this is {platform.machine()}"
    return None if shutil.which("valgrind") else "valgrind is not installed (Debian: apt-get install valgrind)"


def count(package: Path, folder: Path, only: Iterable[str] = (), repeats: int = 3) -> Counts:
    """Count the instructions of the workloads.

    Parameters
    ----------
    package : Path
        The folder that holds `aucpr_dask`: a checkout.
    folder : Path
        An empty folder for dumps and compiled kernels.
    only : iterable of str
        Names of workloads; empty for all.
    repeats : int
        The number of times each workload is counted.

    Returns
    -------
    Counts

    Raises
    ------
    CountingError
        If valgrind is missing or the program fails.
    """
    reason = why_not()
    if reason is not None:
        raise CountingError(reason)
    labels, dumps, only = folder / "labels.json", folder / "callgrind.out", tuple(only)
    program = [sys.executable, "-P", PROGRAM, "--package", package, "--labels", labels, "--repeats", repeats]
    for name in only:
        program += ["--only", name]
    valgrind = ["valgrind", "--tool=callgrind", "--vgdb=no", f"--callgrind-out-file={dumps}", "--dump-before=getpgid"]
    environment = _environment(package, folder)
    _run(program, environment)  # compiles; under Callgrind that takes a hundred times as long
    _run([*valgrind, *program], environment)
    written = json.loads(labels.read_text())
    sections: dict[str, list[int]] = {}
    for part, label in enumerate(written["labels"], start=1):
        sections.setdefault(label, []).append(read_total(Path(f"{dumps}.{part}").read_text(errors="replace")))
    chosen = {name: min(counts) for name, counts in sections.items() if name and (not only or name in only)}
    return Counts(chosen, written["errors"])


def read_total(dump: str) -> int:
    """Return the instructions in one dump of Callgrind.

    Raises
    ------
    CountingError
        If the dump has no total.
    """
    for line in reversed(dump.splitlines()):
        if line.startswith(("totals:", "summary:")):
            return int(line.split()[1])
    raise CountingError("a dump of Callgrind has no total")


def _environment(package: Path, folder: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "PYTHON", "DASK_"))}
    return own | {
        "PYTHONPATH": str(package),
        "PYTHONHASHSEED": "0",
        **AVX2,  # which Callgrind simulates; kernels compiled for it beforehand are found in the cache
        "AUCPR_DASK_CACHE_DIR": str(folder / "compiled"),
        **dict.fromkeys(ONE_THREAD, "1"),
    }


def _run(command: list[object], environment: dict[str, str]) -> None:
    done = subprocess.run(
        [str(word) for word in command], env=environment, cwd="/", capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise CountingError(f"{command[0]} ended with {done.returncode}:\n{done.stderr[-2000:]}")
