"""Track how far a run is, how fast it goes, and how long it will take."""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aucpr_dask.errors import renaming

LEAST_WINDOW = 10.0  # seconds over which speed is measured
SHARE_OF_WINDOW = 0.2  # of the time since the start, if that is longer: tasks of many workers finish in waves


@dataclass(frozen=True)
class Progress:
    """The progress of a run."""

    tasks_done: int  # tasks done, now or by an interrupted run, or failed
    tasks_total: int
    rankings_done: int
    rankings_total: int
    seconds: float  # since this run started its first task
    dashboard: str | None  # the address of Dask's dashboard
    tasks_failed: int = 0  # tasks that failed for good
    rankings_per_second: float = 0.0  # recent speed, without rankings of an interrupted run
    seconds_left: float | None = None  # at this speed; None if unknown

    def __getattr__(self, name: str) -> int:
        """Return a number of tasks by its old name."""
        if name not in ("blocks_done", "blocks_total", "blocks_failed"):
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        new = name.replace("blocks", "tasks")
        warnings.warn(renaming(f"{name} of Progress", new), DeprecationWarning, stacklevel=2)
        count: int = getattr(self, new)
        return count


class Tracker:
    """Counts tasks as they finish, and measures their speed.

    `rankings` and `costs` give the number of rankings and the cost of each task, from which the time left is estimated.
    Tasks in `done` were done by an interrupted run.
    """

    def __init__(
        self, rankings: Sequence[int], costs: Sequence[int], done: Iterable[int] = (), dashboard: str | None = None
    ) -> None:
        self._rankings, self._costs, self._dashboard = rankings, costs, dashboard
        self._rankings_total, self._cost_left = sum(rankings), sum(costs)
        self._tasks_done = self._tasks_failed = self._rankings_done = 0
        self._started = time.monotonic()
        for task in done:
            self._count(task)
        self._marks = deque([self._mark()])

    def finished(self, task: int, *, failed: bool = False) -> Progress:
        """Count a task, and return the progress of the run."""
        self._count(task)
        self._tasks_failed += failed
        self._marks.append(self._mark())
        now = self._marks[-1][0]
        window = max(LEAST_WINDOW, SHARE_OF_WINDOW * (now - self._started))
        while self._marks[1][0] <= now - window:
            self._marks.popleft()
        (before, rankings_before, left_before), (_, rankings, left) = self._marks[0], self._marks[-1]
        seconds = now - before
        cost_per_second = (left_before - left) / seconds if seconds > 0 else 0.0
        return Progress(
            self._tasks_done,
            len(self._rankings),
            self._rankings_done,
            self._rankings_total,
            now - self._started,
            self._dashboard,
            self._tasks_failed,
            (rankings - rankings_before) / seconds if seconds > 0 else 0.0,
            left / cost_per_second if cost_per_second > 0 else None,
        )

    def _count(self, task: int) -> None:
        self._tasks_done += 1
        self._rankings_done += self._rankings[task]
        self._cost_left -= self._costs[task]

    def _mark(self) -> tuple[float, int, int]:
        return time.monotonic(), self._rankings_done, self._cost_left
