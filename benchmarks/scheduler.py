"""What a run asks of the scheduler and of the client, apart from all work: tasks that do nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.contenders import Suite, contender
from benchmarks.measure import Timing

SAMPLES = 50  # of the scheduler's state, in a run


class SchedulerLoad(Suite):
    """As many tasks as a plan may have, submitted as a run submits them."""

    name = "scheduler"
    title = "The scheduler's load: {n_tasks:,} tasks that do nothing, {n_workers} worker processes"
    explanation = (
        "The tasks have the arguments of a run's. The scheduler is a process of its own, and so are the workers. "
        "Memory is that of the whole process, before the first task and at its most."
    )
    number = 1
    params = ("windowed",)
    unit = "task"
    n_tasks = 50_000
    n_workers = 2
    timeout = 1800
    no_memory = "the lines above give that of the whole processes"

    def shrink(self) -> None:
        """Take 300 tasks."""
        self.n_tasks = 300

    def units(self) -> int:
        """Return the number of tasks: times are per task."""
        return self.n_tasks

    def setup(self, case: str) -> None:
        """Start a scheduler and workers."""
        from distributed import Client

        self.open = ExitStack()
        folder = self.open.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-"))
        address_file = Path(folder) / "scheduler.json"
        where = ["--scheduler-file", str(address_file)]
        scheduler = self._start(["scheduler", "--port", "0", "--host", "127.0.0.1", "--no-dashboard", *where], folder)
        for _ in range(self.n_workers):
            self._start(["worker", "--nthreads", "1", "--no-dashboard", *where], folder)
        self.client = self.open.enter_context(Client(scheduler_file=str(address_file), timeout=60))
        self.client.wait_for_workers(self.n_workers, timeout=60)
        self.pids = {"scheduler": scheduler, "client": os.getpid()}
        self.before = {name: memory(pid) for name, pid in self.pids.items()}
        self.most = dict(self.before)
        self.most_tasks = 0

    def teardown(self, case: str) -> None:
        """Stop them."""
        self.open.close()

    @contender("through the window", "as_they_finish(client, do_nothing, calls)", "aucpr-dask")
    def time_windowed(self, case: str) -> int:
        """Submit few at a time, as a run does."""
        from aucpr_dask.runs.submitting import as_they_finish

        calls = (_arguments(number) for number in range(self.n_tasks))
        for done, _ in enumerate(as_they_finish(self.client, do_nothing, calls, retries=2, keep_going=True), start=1):
            if done % max(1, self.n_tasks // SAMPLES) == 0:
                self._sample()
        return done

    def findings(self, timings: list[Timing]) -> Iterator[str]:
        """Yield tasks at once, and memory."""
        from aucpr_dask.runs.submitting import BLOCKS_AHEAD, LEAST_AHEAD

        window = max(LEAST_AHEAD, BLOCKS_AHEAD * self.n_workers)
        yield f"tasks that the scheduler knew at once: up to {self.most_tasks}; the window holds {window}"
        for name in self.pids:
            yield f"memory of the {name}: {self.before[name]:.0f} MiB before, up to {self.most[name]:.0f} MiB"
        yield f"one task costs {timings[0].median * 1e3:.2f} ms, 100,000 tasks {timings[0].median * 1e5:.0f} s"

    def _sample(self) -> None:
        self.most_tasks = max(self.most_tasks, self.client.run_on_scheduler(count_tasks))
        for name, pid in self.pids.items():
            self.most[name] = max(self.most[name], memory(pid))

    def _start(self, arguments: list[str], folder: str) -> int:
        command = [sys.executable, "-m", "dask", *arguments]
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.open.callback(process.wait)
        self.open.callback(process.terminate)
        return process.pid


def do_nothing(number: int, block: Any, *rest: Any) -> None:
    """Take the arguments of a block's task, on a worker."""


def count_tasks(dask_scheduler: Any) -> int:
    """Return how many tasks a scheduler knows."""
    return len(dask_scheduler.tasks)


def memory(pid: int) -> float:
    """Return the memory of a process in MiB."""
    import psutil

    return float(psutil.Process(pid).memory_info().rss / 2**20)


def _arguments(number: int) -> tuple[Any, ...]:
    """Return what the task of a block is sent."""
    from aucpr_dask.runs.planning import Block

    block = Block("", (("model", number, number + 1), ("query", 0, 1000)), (1, 1000))
    options = {"estimators": ("average_precision", "continuous"), "intervals": ("logit", "influence_logit")}
    return number, block, "/data/scores.zarr", "/data/result.zarr", "0" * 32, "0" * 32, options
