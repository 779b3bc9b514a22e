"""Progress of long work: moving bars on a terminal, a plain line every few seconds in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.console import Console

    from aucpr_dask.execution import Progress as RunEvent

SECONDS_BETWEEN_LINES = 3.0


class Report(Protocol):
    """Something that can be told how far the work is."""

    def __call__(self, what: str, done: int, total: int, detail: str = "") -> None:
        """Say that `done` of `total` steps of the work called `what` are behind us; 0 of 0 if nobody knows yet."""


@contextmanager
def reporting(console: Console, *, after: float = 0.0) -> Iterator[Report]:
    """Yield a callable that shows progress on `console`.

    Parameters
    ----------
    console : rich.console.Console
        If it is a terminal there is one moving bar for each kind of work, gone when the work is done; otherwise
        a plain line every few seconds, and none for work that is done before the first.
    after : float
        Seconds to stay silent: work that ends before leaves no trace.
    """
    display = _Bars(console, after) if console.is_terminal and not console.is_dumb_terminal else _Lines(console, after)
    try:
        yield display
    except BaseException:
        display.close(finished=False)
        raise
    display.close(finished=True)


def follow_run(report: Report, console: Console) -> Callable[[RunEvent], None]:
    """Return a callback for :func:`aucpr_dask.run` that reports its events and names the dashboard once."""
    named = False
    report("evaluating", 0, 0, "starting")

    def on_event(event: RunEvent) -> None:
        nonlocal named
        if event.dashboard and not named:
            named = True
            console.print(f"dashboard: {event.dashboard}", soft_wrap=True)
        rate = event.rankings_done / event.seconds if event.seconds > 0 else 0.0
        report("evaluating", event.blocks_done, event.blocks_total, f"{rate:,.0f} rankings/s" if rate else "")

    return on_event


class _Bars:
    """Moving bars, made when the first report arrives."""

    def __init__(self, console: Console, after: float) -> None:
        self._console = console
        self._visible_from = time.monotonic() + after
        self._progress: Any = None
        self._tasks: dict[str, Any] = {}

    def __call__(self, what: str, done: int, total: int, detail: str = "") -> None:
        if self._progress is None:
            if time.monotonic() < self._visible_from:
                return
            self._progress = self._start()
        state = {"completed": done, "total": total or None, "detail": detail}
        if what not in self._tasks:
            self._tasks[what] = self._progress.add_task(what, **state)
        self._progress.update(self._tasks[what], **state)

    def _start(self) -> Any:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.table import Column

        narrow = {"no_wrap": True, "overflow": "ellipsis"}
        progress = Progress(
            TextColumn("{task.description}", markup=False, table_column=Column(max_width=30, **narrow)),  # type: ignore[arg-type]
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            TextColumn("{task.fields[detail]}", markup=False, table_column=Column(**narrow)),  # type: ignore[arg-type]
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        progress.start()
        return progress

    def close(self, *, finished: bool) -> None:
        if self._progress is not None:
            self._progress.stop()


class _Lines:
    """A line every few seconds, and the last state of work that took long enough for one."""

    def __init__(self, console: Console, after: float) -> None:
        self._console = console
        self._started = time.monotonic()
        self._next = self._started + max(after, SECONDS_BETWEEN_LINES)
        self._said_one = False
        self._unsaid: str | None = None

    def __call__(self, what: str, done: int, total: int, detail: str = "") -> None:
        state = f"{done:,} of {total:,} ({done / total:.0%})" if total else ""
        self._unsaid = f"{what}: {', '.join(filter(None, (state, detail)))}"
        if time.monotonic() >= self._next:
            self._say()

    def _say(self) -> None:
        if self._unsaid is not None:
            now = time.monotonic()
            self._console.print(f"{self._unsaid}, {now - self._started:.0f} s", soft_wrap=True)
            self._unsaid = None
            self._said_one = True
            self._next = now + SECONDS_BETWEEN_LINES

    def close(self, *, finished: bool) -> None:
        if finished and self._said_one:
            self._say()
