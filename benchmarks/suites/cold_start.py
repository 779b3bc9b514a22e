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

SCORE, LABEL = [0.9, 0.8, 0.7, 0.1], [1, 0, 1, 0]
ARRAYS = f"import numpy as np; score = np.array({SCORE}); label = np.array({LABEL}, dtype='int8'); "
ESTIMATE = "import aucpr_dask as ap; print(float(ap.estimate(score, label)))"
SCIKIT_LEARN = "from sklearn.metrics import average_precision_score as f; print(float(f(label, score)))"


class ColdStart(Suite):
    """A whole process: the interpreter, the imports, the kernels, one estimate of four items."""

    name = "cold-start"
    title = "A new process, from its start to its end"
    explanation = (
        "Each figure is a new Python process whose files are in the operating system's cache. "
        "'Nothing compiled' means that the cache of compiled kernels starts empty, as right after installation."
    )
    number = 1
    no_memory = "each call is a process that has ended"
    params = ("four items",)
    unit = "process"

    @contender("aucpr_dask", 'python -c "import aucpr_dask as ap; ap.estimate(score, label)"', "aucpr-dask")
    def time_first_number(self, case: str) -> Any:
        return _run(ARRAYS + ESTIMATE)

    @contender("aucpr_dask, nothing compiled", "the same, first time", "aucpr-dask", tolerance=FLOAT64)
    def time_first_number_ever(self, case: str) -> Any:
        with tempfile.TemporaryDirectory() as empty:
            number = _run(ARRAYS + ESTIMATE, AUCPR_DASK_CACHE_DIR=empty)
            if not os.listdir(empty):
                raise RuntimeError("nothing was compiled: the package keeps its kernels elsewhere")
            return number

    @contender("aucpr_dask, import alone", 'python -c "import aucpr_dask"', "aucpr-dask")
    def time_import(self, case: str) -> Any:
        return _run("import aucpr_dask")

    @contender(
        "scikit-learn",
        'python -c "from sklearn.metrics import average_precision_score; average_precision_score(label, score)"',
        "scikit-learn",
        tolerance=FLOAT64,
    )
    def time_scikit_learn(self, case: str) -> Any:
        return _run(ARRAYS + SCIKIT_LEARN)

    @floor("Python", 'python -c "pass"')
    def time_python(self, case: str) -> Any:
        return _run("pass")


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


def _run(code: str, **variables: str) -> float | None:
    """Run `code` in a new process and return the number it prints, if any."""
    environment = os.environ | variables
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    return float(done.stdout) if done.stdout else None
