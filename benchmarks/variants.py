"""The same work under other values of a constant that is compiled into the kernels.

Each value gets a copy of the package with that one line changed, and a process of its own that compiles it; all are
timed in turns, in processor time.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import TracebackType

import numpy as np

import aucpr_dask

ROOT = Path(__file__).parents[1]
PACKAGE = Path(aucpr_dask.__file__).parent
SHORTEST_SAMPLE = 0.05


@dataclass(frozen=True)
class Constant:
    """A constant of a module of the kernels, values to try, and the workload to try them on."""

    module: str
    name: str
    values: tuple[int, ...]
    workload: str

    def used(self) -> int:
        """Return the value in the code."""
        return int(getattr(import_module(f"aucpr_dask.kernels.{self.module}"), self.name))

    def all_values(self) -> list[int]:
        """Return the values to try and the one in the code, in ascending order."""
        return sorted({*self.values, self.used()})


class Worker:
    """A process that runs one named workload with another copy of the package, as often as it is told to."""

    def __init__(self, package: Path, workload: str) -> None:
        folder = package.parent
        variables = {
            "PYTHONPATH": os.pathsep.join(map(str, (folder, ROOT))),
            "AUCPR_DASK_CACHE_DIR": str(folder / "cache"),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.variants", workload],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=os.environ | variables,
        )

    def seconds(self, repeats: int) -> float:
        """Run the workload so often, and return the processor time of one run."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the worker has no pipes")
        print(repeats, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the worker ended with status {self._process.wait()}")
        return float(answer) / repeats

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()


def seconds_of_variants(constant: Constant, rounds: int) -> dict[int, list[float]]:
    """Return the seconds of a workload in every round for each value of a constant."""
    with workers(constant) as started:
        for worker in started.values():
            worker.seconds(1)  # compiles
        repeats = max(1, round(SHORTEST_SAMPLE / next(iter(started.values())).seconds(1)))
        seconds: dict[int, list[float]] = {value: [] for value in started}
        for _ in range(rounds):
            for value, worker in started.items():
                seconds[value].append(worker.seconds(repeats))
    return seconds


@contextmanager
def workers(constant: Constant) -> Iterator[dict[int, Worker]]:
    """Start one worker for each value of a constant."""
    with ExitStack() as stack:
        started = {}
        for value in constant.all_values():
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="variant-")))
            package = folder / "aucpr_dask"
            shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
            file = package / "kernels" / f"{constant.module}.py"
            file.write_text(changed(file.read_text(encoding="utf-8"), constant.name, str(value)), encoding="utf-8")
            started[value] = stack.enter_context(Worker(package, constant.workload))
        yield started


def changed(source: str, constant: str, value: str) -> str:
    r"""Return source code with another value of a constant, which one line of it sets.

    Examples
    --------
    >>> changed("LANES = 64  # side by side\\n", "LANES", "32")
    'LANES = 32\\n'
    """
    text, n = re.subn(rf"^{constant} = .*$", f"{constant} = {value}", source, flags=re.MULTILINE)
    if n != 1:
        raise ValueError(f"{n} lines set {constant}")
    return text


def long_ranking() -> Callable[[], object]:
    """Rank 10⁵ items, 1 % of them positive: gaps."""
    return _estimate(100_000, 0.01, 8)


def short_rankings() -> Callable[[], object]:
    """Rank 1000 items, 10 % of them positive: the compiled loop."""
    return _estimate(1000, 0.1, 256)


def replicates() -> Callable[[], object]:
    """Resample 16 models of 10⁴ items 256 times."""
    from benchmarks.crossovers import shared_draws

    return shared_draws(10_000, 256).prepare(16)["multiplicities, shared"]


def other_replicates() -> Callable[[], object]:
    """Resample one model of 5000 items 256 times, for an estimator that needs every operating point."""
    from benchmarks.crossovers import points_at_once

    return points_at_once(5000).prepare(2**26)["lanes"]


def crowded_ranking() -> Callable[[], object]:
    """Rank 10⁵ items, 1 % of them positive, whose scores span many orders of magnitude."""
    from benchmarks.crossovers import draw

    score, label = draw(8, 100_000, 0.01)
    heavy = np.exp(3 * score)
    return lambda: aucpr_dask.estimate(heavy, label)


def _estimate(n_items: int, share: float, n_rankings: int) -> Callable[[], object]:
    from benchmarks.crossovers import draw

    score, label = draw(n_rankings, n_items, share)
    return lambda: aucpr_dask.estimate(score, label)


def large_ranking() -> Callable[[], object]:
    """Rank 10⁶ items, 1 % of them positive: gaps, with a large table."""
    return _estimate(1_000_000, 0.01, 1)


WORKLOADS = {
    work.__name__: work
    for work in (long_ranking, large_ranking, crowded_ranking, short_rankings, replicates, other_replicates)
}
CONSTANTS = (
    Constant("ranking", "BUCKETS_PER_POSITIVE", (4, 8, 16, 32, 64), "long_ranking"),
    Constant("ranking", "TABLE_BUCKETS", (2**14, 2**16, 2**18, 2**20), "large_ranking"),
    Constant("ranking", "SEGMENT", (256, 1024, 4096), "long_ranking"),
    Constant("ranking", "CROWDED", (1, 4, 16, 64, 256), "crowded_ranking"),
    Constant("replicates", "LANES", (32, 64, 128), "replicates"),
    Constant("replicates", "DRAWN_TOGETHER", (4, 8, 16), "replicates"),
    Constant("streams", "WORDS", (256, 1024, 4096), "replicates"),
    Constant("lanes", "TILE", (8, 32, 128), "other_replicates"),
)


def serve(workload: str) -> None:
    """Run a workload as often as each line that comes in says, and print the seconds of this thread."""
    if PACKAGE.parent != Path.cwd():
        raise RuntimeError(f"{PACKAGE} is not the copy in {Path.cwd()}")
    work = WORKLOADS[workload]()
    for line in sys.stdin:
        start = time.thread_time()
        for _ in range(int(line)):
            work()
        print(time.thread_time() - start, flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
