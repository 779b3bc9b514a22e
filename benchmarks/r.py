"""R beside us: one process that is started before any clock, and evaluates what it is sent."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

import numpy as np

ANSWER_EACH_LINE = r"""
input <- file("stdin", "r")
while (length(line <- readLines(input, n = 1)) > 0) {
  value <- tryCatch(eval(parse(text = line)), error = function(e) paste("error:", conditionMessage(e)))
  answer <- if (is.numeric(value)) sprintf("%.17g", value[[1]]) else toString(value)
  cat(answer, "\n", sep = "")
  flush(stdout())
}
"""


class R:
    """A process of R; its packages are loaded, its start and the way of the data into it are never timed.

    Parameters
    ----------
    *packages : str
        Packages to attach.
    """

    def __init__(self, *packages: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="benchmark-")
        script = Path(self._folder.name) / "answer.R"
        script.write_text(ANSWER_EACH_LINE, encoding="utf-8")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(["Rscript", "--vanilla", script], text=True, bufsize=1, **pipes)
        for package in packages:
            self.ask(f"{{suppressMessages(library({package})); TRUE}}")

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def send(self, name: str, values: np.ndarray) -> None:
        """Give R a vector of numbers, by way of a file."""
        path = Path(self._folder.name) / name
        np.asarray(values, np.float64).tofile(path)
        self.ask(f'{{{name} <- readBin("{path}", "numeric", {values.size}); TRUE}}')

    def ask(self, expression: str) -> str:
        """Evaluate an expression of one line and return what it gives.

        Raises
        ------
        RuntimeError
            If R has an error, or ends.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(expression, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer or answer.startswith("error:"):
            raise RuntimeError(f"R cannot evaluate {expression}: {answer.strip() or 'it ended'}")
        return answer.strip()

    def number(self, expression: str) -> float:
        """Evaluate an expression and return the number it gives."""
        return float(self.ask(expression))

    def close(self) -> None:
        """End the process; its files go, too."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()
        self._folder.cleanup()

    def __enter__(self) -> R:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
