"""How far a run is, how fast it goes, and how long that will take."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LEAST_WINDOW = 10.0  # seconds over which speed is measured
SHARE_OF_WINDOW = 0.2  # of the time since the start, if that is longer: blocks of many workers come in waves


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Parameters
    ----------
    blocks_done, blocks_total : int
        Blocks that are done, by this or an earlier run, or that have failed; and all.
    rankings_done, rankings_total : int
        The same in rankings.
    seconds : float
        Since this run started its first block.
    dashboard : str or None
        The address of Dask's dashboard.
    blocks_failed : int
        Blocks that failed for good.
    rankings_per_second : float
        How fast it went of late; what earlier runs did does not count.
    seconds_left : float or None
        How long the rest will take at this speed; None where nothing is known yet.
    """

    blocks_done: int
    blocks_total: int
    rankings_done: int
    rankings_total: int
    seconds: float
    dashboard: str | None
    blocks_failed: int = 0
    rankings_per_second: float = 0.0
    seconds_left: float | None = None


class Tracker:
    """Counts blocks as they finish, and measures how fast they do.

    Parameters
    ----------
    rankings : sequence of int
        How many rankings each block holds.
    costs : sequence of int
        What each block costs, in any unit: the time that is left is estimated by it.
    done : iterable of int
        The numbers of the blocks that an earlier run has done.
    dashboard : str, optional
        The address of Dask's dashboard.

    Examples
    --------
    >>> tracker = Tracker([2, 2, 3], [1, 1, 1], done=[0])
    >>> progress = tracker.finished(2)
    >>> progress.blocks_done, progress.rankings_done, progress.rankings_total
    (2, 5, 7)
    """

    def __init__(
        self,
        rankings: Sequence[int],
        costs: Sequence[int],
        done: Iterable[int] = (),
        dashboard: str | None = None,
    ) -> None:
        self._rankings, self._costs, self._dashboard = rankings, costs, dashboard
        self._rankings_total, self._cost_left = sum(rankings), sum(costs)
        self._blocks_done = self._blocks_failed = self._rankings_done = 0
        self._started = time.monotonic()
        for block in done:
            self._count(block)
        self._marks = deque([self._mark()])

    def finished(self, block: int, *, failed: bool = False) -> Progress:
        """Count a block, and return how far the run is."""
        self._count(block)
        self._blocks_failed += failed
        self._marks.append(self._mark())
        now = self._marks[-1][0]
        window = max(LEAST_WINDOW, SHARE_OF_WINDOW * (now - self._started))
        while self._marks[1][0] <= now - window:
            self._marks.popleft()
        rankings_per_second, cost_per_second = self._speeds()
        return Progress(
            self._blocks_done,
            len(self._rankings),
            self._rankings_done,
            self._rankings_total,
            now - self._started,
            self._dashboard,
            self._blocks_failed,
            rankings_per_second,
            self._cost_left / cost_per_second if cost_per_second > 0 else None,
        )

    def _count(self, block: int) -> None:
        self._blocks_done += 1
        self._rankings_done += self._rankings[block]
        self._cost_left -= self._costs[block]

    def _mark(self) -> tuple[float, int, int]:
        return time.monotonic(), self._rankings_done, self._cost_left

    def _speeds(self) -> tuple[float, float]:
        """Return rankings and cost per second since the first mark that is kept."""
        (before, rankings_before, left_before), (now, rankings, left) = self._marks[0], self._marks[-1]
        seconds = now - before
        return ((rankings - rankings_before) / seconds, (left_before - left) / seconds) if seconds > 0 else (0.0, 0.0)
