"""Seconds from the start of a process to its first number."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks.suite import FLOAT64, Suite, contender, floor

ARRAYS = (
    "import numpy as np; r = np.random.default_rng(30); y = (r.random({0}) < 0.1).astype(int); "
    "a, b = r.normal(size=(2, {0})) + y; "
)
METRIC = "from aucpr_dask import metrics as m; print(m.average_precision_{})"
SCIKIT_LEARN = "from sklearn.metrics import average_precision_score as f; print(float(f(y, a)))"


class ColdStart(Suite):
    """A whole process: the interpreter, the imports, the first call."""

    name = "cold-start"
    title = "Processor time of a new process, from its start to its end, for one number"
    explanation = (
        "Each figure is a new Python process whose files are in the operating system's cache, with the bytecode of all "
        "modules, and draws its scores. "
        "'Nothing compiled' means that the cache of compiled kernels starts empty, as right after installation."
    )
    number = 1
    no_memory = "each call is a process that has ended"
    params = (1_000, 100_000, 1_000_000)
    unit = "process"
    case = "{:,} items"

    @staticmethod
    def clock() -> float:  # type: ignore[override]
        """Return the processor time of the processes that have ended."""
        return sum(os.times()[2:4])

    @contender("aucpr_dask", "metrics.average_precision_score(label, score)", "aucpr-dask")
    def time_score(self, n_items: int) -> Any:
        return _run(n_items, METRIC.format("score(y, a)"))

    @contender("aucpr_dask, nothing compiled", "the same, first time", "aucpr-dask", tolerance=0.0)
    def time_first_score(self, n_items: int) -> Any:
        return _run(n_items, METRIC.format("score(y, a)"), compiled=False)

    @contender("interval, nothing compiled", "metrics.average_precision_interval(label, score)", "aucpr-dask")
    def time_first_interval(self, n_items: int) -> Any:
        return _run(n_items, METRIC.format("interval(y, a)[0]"), compiled=False)

    @contender("difference, nothing compiled", "metrics.average_precision_difference(label, a, b)", "aucpr-dask")
    def time_first_difference(self, n_items: int) -> Any:
        return _run(n_items, METRIC.format("difference(y, a, b).difference"), compiled=False)

    @contender("scikit-learn", "average_precision_score(label, score)", "scikit-learn", tolerance=FLOAT64)
    def time_scikit_learn(self, n_items: int) -> Any:
        return _run(n_items, SCIKIT_LEARN)

    @floor("imports", "import xarray, scipy.special", "xarray", "scipy")
    def time_imports(self, n_items: int) -> Any:
        return _run(n_items, "import xarray, scipy.special")


class FirstTable(Suite):
    """The first command of a newcomer, until it shows the first area of its first table."""

    name = "first-table"
    title = "The demo, from its start to the first area that it shows"
    explanation = (
        "`aucpr-dask demo` reads 14 rankings of 14 queries and 75 of six tables, starts at most two workers, "
        "evaluates them, and shows its tables. The clock stops at the first area. 'Nothing compiled' is the first call "
        "after installation."
    )
    number = 1
    no_memory = "the memory is that of its workers; see the suites of runs"
    params = ("bundled rankings",)
    unit = "command"

    @contender("aucpr_dask", "aucpr-dask demo", "aucpr-dask")
    def time_demo(self, case: str) -> Any:
        return _first_area_shown()

    @contender("aucpr_dask, nothing compiled", "the same, first time", "aucpr-dask", tolerance=0.0)
    def time_demo_for_the_first_time(self, case: str) -> Any:
        with tempfile.TemporaryDirectory() as empty:
            return _first_area_shown(AUCPR_DASK_CACHE_DIR=empty)


ROW_OF_A_TABLE = re.compile(r"^ *1  \S+ +(\d\.\d+) ")


def _first_area_shown(**variables: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return _until(ROW_OF_A_TABLE, [sys.executable, "-m", "aucpr_dask", "demo", "--out", folder], **variables)


def _until(pattern: re.Pattern[str], command: list[str], **variables: str) -> float:
    """Start a process, return the number that it shows, and kill it and its workers."""
    environment = os.environ | variables | {"COLUMNS": "80"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    ) as process:
        try:
            for line in process.stdout or ():
                if found := pattern.search(line):
                    return float(found[1])
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    raise RuntimeError(f"{' '.join(command)} showed no number")


def _run(n_items: int, code: str, *, compiled: bool = True) -> float | None:
    """Run `code` for this number of items in a new process, and return what it prints as a number, if anything."""
    with tempfile.TemporaryDirectory() as empty:
        environment = os.environ | ({} if compiled else {"AUCPR_DASK_CACHE_DIR": empty})
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process compiles the modules again
        command = [sys.executable, "-c", ARRAYS.format(n_items) + code]
        shown = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    return float(shown) if shown else None
