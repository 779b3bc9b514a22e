"""Seconds from the start of a process to its first number."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks.contenders import FLOAT64, Suite, contender, floor

SCORE, LABEL = [0.9, 0.8, 0.7, 0.1], [1, 0, 1, 0]
ARRAYS = f"import numpy as np; score = np.array({SCORE}); label = np.array({LABEL}, dtype='int8'); "
ESTIMATE = "import aucpr_dask as ap; print(float(ap.estimate(score, label)))"
SCIKIT_LEARN = "from sklearn.metrics import average_precision_score as f; print(float(f(label, score)))"


class ColdStart(Suite):
    """A whole process: the interpreter, the imports, the kernels, one estimate of four items."""

    name = "cold-start"
    title = "A new process, from its start to its end"
    explanation = (
        "Each figure is a new Python process with the files it reads in the operating system's cache. "
        "'Nothing compiled' means that the cache of compiled kernels starts empty, as right after installation."
    )
    number = 1
    no_memory = "each call is a process of its own, that is gone with its memory; the suites of ownership have it"
    params = ("four items",)
    unit = "process"

    @contender("aucpr_dask", 'python -c "import aucpr_dask as ap; ap.estimate(score, label)"', "aucpr-dask")
    def time_first_number(self, case: str) -> Any:
        """Use the kernels that an earlier process compiled."""
        return _run(ARRAYS + ESTIMATE)

    @contender("aucpr_dask, nothing compiled", "the same, first time", "aucpr-dask", tolerance=FLOAT64)
    def time_first_number_ever(self, case: str) -> Any:
        """Make the first call after installation."""
        with tempfile.TemporaryDirectory() as empty:
            number = _run(ARRAYS + ESTIMATE, AUCPR_DASK_CACHE_DIR=empty)
            if not os.listdir(empty):
                raise RuntimeError("nothing was compiled: the package keeps its kernels elsewhere")
            return number

    @contender("aucpr_dask, import alone", 'python -c "import aucpr_dask"', "aucpr-dask")
    def time_import(self, case: str) -> Any:
        """Import and ask for no number."""
        return _run("import aucpr_dask")

    @contender(
        "scikit-learn",
        'python -c "from sklearn.metrics import average_precision_score; average_precision_score(label, score)"',
        "scikit-learn",
        tolerance=FLOAT64,
    )
    def time_scikit_learn(self, case: str) -> Any:
        """Ask scikit-learn for its first number."""
        return _run(ARRAYS + SCIKIT_LEARN)

    @contender("xarray and dask.array", 'python -c "import xarray, dask.array"', "xarray", "dask")
    def time_import_xarray(self, case: str) -> Any:
        """Import what labelled, lazy arrays need."""
        return _run("import xarray, dask.array")

    @floor("Python", 'python -c "pass"')
    def time_python(self, case: str) -> Any:
        """Start the interpreter alone."""
        return _run("pass")


def _run(code: str, **variables: str) -> float | None:
    """Run `code` in a new process and return the number it prints, if any."""
    environment = os.environ | variables
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    return float(done.stdout) if done.stdout else None
