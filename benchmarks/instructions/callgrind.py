"""Run the program under Callgrind, and read how many instructions each section took, and whose they were."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("program.py")
KERNELS, NUMPY, OTHERS = "kernels", "numpy", "others"

# The processor that Callgrind shows to a program; kernels compiled for it beforehand are found in the cache.
PROCESSOR = "haswell"
FEATURES = (
    "+64bit,+avx,+avx2,+bmi,+bmi2,+cmov,+cx16,+cx8,+f16c,+fma,+fxsr,+lzcnt,+mmx,+movbe,+popcnt,+sahf,"
    "+sse,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3,+xsave"
)
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_DEFINITION = re.compile(r"^(c?ob|c?fi|c?fl|fe|c?fn)=\((\d+)\)(?: (.*))?$")


class CountingError(RuntimeError):
    """Nothing could be counted; the message says why."""


@dataclass(frozen=True)
class Count:
    """The instructions of one call of one workload."""

    name: str
    instructions: int
    by_owner: dict[str, int]  # compiled kernels, NumPy, all others (the interpreter first of all)
    spread: float  # (largest - smallest) / smallest over the repeats


@dataclass(frozen=True)
class Counts:
    """What was counted of one package."""

    of: dict[str, Count]
    errors: dict[str, str] = field(default_factory=dict)  # workloads that this package cannot run


def why_not() -> str | None:
    """Return why nothing can be counted here, if so."""
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
        An empty folder for dumps and the cache of compiled kernels.
    only : iterable of str
        Names of workloads; none for all.
    repeats : int
        How often each is counted; the smallest counts.

    Returns
    -------
    Counts

    Raises
    ------
    CountingError
        If valgrind is not there, or the program fails.
    """
    reason = why_not()
    if reason is not None:
        raise CountingError(reason)
    labels = folder / "labels.json"
    dumps = folder / "callgrind.out"
    program = [sys.executable, "-P", PROGRAM, "--package", package, "--labels", labels, "--repeats", str(repeats)]
    only = tuple(only)
    for name in only:
        program += ["--only", name]
    valgrind = ["valgrind", "--tool=callgrind", "--vgdb=no", f"--callgrind-out-file={dumps}", "--dump-before=getpgid"]
    environment = _environment(package, folder)
    _run(program, environment)  # compiles: under Callgrind that takes a hundred times as long
    _run([*valgrind, *program], environment)
    written = json.loads(labels.read_text())
    files = [Path(f"{dumps}.{part}") for part in range(1, len(written["labels"]) + 1)]
    sections = _sections(written["labels"], files)
    wanted = {name: found for name, found in sections.items() if not only or name in only}
    return Counts({name: _smallest(name, found) for name, found in wanted.items()}, written["errors"])


def _sections(labels: list[str], files: list[Path]) -> dict[str, list[dict[str, int]]]:
    """Return the instructions of the sections of every workload by owner."""
    sections: dict[str, list[dict[str, int]]] = {}
    for label, owners in zip(labels, read_dumps(files), strict=True):
        if label:
            sections.setdefault(label, []).append(owners)
    return sections


def seconds_of_workloads(package: Path, folder: Path, repeats: int, *, as_counted: bool) -> dict[str, float]:
    """Return the shortest time of every workload in seconds; in the machine code that is counted, if that is asked for.

    Raises
    ------
    CountingError
        If the program fails.
    """
    environment = _environment(package, folder)
    if as_counted:
        environment["NPY_DISABLE_CPU_FEATURES"] = " ".join(_wider_than_counted())
    else:
        environment = {name: value for name, value in environment.items() if not name.startswith("NUMBA_CPU_")}
    labels = folder / "times.json"
    _run(
        [sys.executable, "-P", PROGRAM, "--package", package, "--labels", labels, "--repeats", str(repeats)],
        environment,
    )
    written = json.loads(labels.read_text())
    if written["errors"]:
        raise CountingError(f"workloads that fail: {written['errors']}")
    seconds: dict[str, float] = written["seconds"]
    return seconds


def _wider_than_counted() -> list[str]:
    """Return the features of this processor that NumPy would use and Callgrind does not know."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    wide = [name for name in __cpu_dispatch__ if name.startswith("AVX512") or name == "X86_V4"]
    return [name for name in wide if __cpu_features__[name]]


def read_dumps(files: Iterable[Path]) -> Iterator[dict[str, int]]:
    """Yield the instructions of each dump by owner; a name is written out in the first dump that has it."""
    objects: dict[str, str] = {}
    for file in files:
        with file.open(encoding="utf-8", errors="replace") as lines:
            yield read_dump(lines, objects)


def read_dump(lines: Iterable[str], objects: dict[str, str]) -> dict[str, int]:
    """Return the instructions of one dump by owner, and remember the names of objects (executable files).

    Raises
    ------
    CountingError
        If they do not add up to the total that the dump states.
    """
    owners = {KERNELS: 0, NUMPY: 0, OTHERS: 0}
    owner, total, is_of_a_call = OTHERS, None, False
    for line in lines:
        definition = _DEFINITION.match(line)
        if definition:
            kind, number, name = definition.groups()
            if kind.endswith("ob"):
                objects[number] = name or objects.get(number, "")
                owner = owner_of(objects[number]) if kind == "ob" else owner
        elif line.startswith("calls="):
            is_of_a_call = True  # the next line is what the called function took: counted there
        elif line.startswith(("totals:", "summary:")):
            total = int(line.split()[1])
        elif line[:1].isdigit() or line[:1] in ("+", "-", "*"):
            owners[owner] += 0 if is_of_a_call else int(line.split()[1])
            is_of_a_call = False
    if total is None or sum(owners.values()) != total:
        raise CountingError(f"a dump adds up to {sum(owners.values())} instructions, and says {total}")
    return owners


def owner_of(object_name: str) -> str:
    """Tell whose code an executable file holds; machine code made at run time is in no file."""
    if object_name == "???":
        return KERNELS
    return NUMPY if "/numpy/" in object_name else OTHERS


def _smallest(name: str, sections: list[dict[str, int]]) -> Count:
    totals = [sum(owners.values()) for owners in sections]
    smallest = min(totals)
    spread = (max(totals) - smallest) / smallest if smallest else 0.0
    return Count(name, smallest, sections[totals.index(smallest)], spread)


def _environment(package: Path, folder: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "PYTHON", "DASK_"))}
    return own | {
        "PYTHONPATH": str(package),
        "PYTHONHASHSEED": "0",
        "NUMBA_CPU_NAME": PROCESSOR,
        "NUMBA_CPU_FEATURES": FEATURES,
        "AUCPR_DASK_CACHE_DIR": str(folder / "compiled"),
        **dict.fromkeys(ONE_THREAD, "1"),
    }


def _run(command: list[object], environment: dict[str, str]) -> None:
    done = subprocess.run(
        [str(word) for word in command], env=environment, cwd="/", capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise CountingError(f"{command[0]} ended with {done.returncode}:\n{done.stderr[-2000:]}")
