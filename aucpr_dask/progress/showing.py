"""Progress of long work: bars that move in a terminal or a notebook, a plain line every few seconds in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any, Protocol

from aucpr_dask.progress.console import console_for
from aucpr_dask.progress.tracking import Progress

if TYPE_CHECKING:
    from rich.console import Console

SECONDS_BETWEEN_LINES = 3.0
SECONDS_BETWEEN_UPDATES = 0.2  # of a notebook's cell, each of which is a message to the browser
SILENT_SECONDS = 2.0  # if nobody asked for progress: what is over by then needs none


class Report(Protocol):
    """Something that can be told how far the work is."""

    def __call__(self, what: str, done: int, total: int, detail: str = "") -> None:
        """Say that `done` of `total` steps of the work called `what` are behind us; 0 of 0 if nobody knows yet."""

    def note(self, text: str) -> None:
        """Say something that stays, once."""


@contextmanager
def reporting(console: Console, *, after: float = 0.0) -> Iterator[Report]:
    """Yield a callable that shows progress on `console`.

    Parameters
    ----------
    console : rich.console.Console
        If it is a terminal there is one moving bar for each kind of work, gone when the work is done; in a notebook,
        bars below the cell, which stay; otherwise a plain line every few seconds, and none for work that is done
        before the first.
    after : float
        Seconds to stay silent: work that ends before leaves no trace.
    """
    display = _display_for(console, after)
    try:
        yield display
    except BaseException:
        display.close(finished=False)
        raise
    display.close(finished=True)


@contextmanager
def watching(progress: bool | Report | None, on_progress: Callable[[Progress], None] | None) -> Iterator[RunWatcher]:
    """Yield what a run tells of its progress, which shows it and passes it on.

    Parameters
    ----------
    progress : bool or Report or None
        Where to show it: True, on stderr or in the notebook; None, the same if somebody watches it for long enough.
    on_progress : callable or None
        Whom else to tell.
    """
    console = console_for(stderr=True)
    is_watched = console.is_jupyter or _can_move(console)
    if callable(progress):
        yield RunWatcher(progress, on_progress)
    elif progress or (progress is None and on_progress is None and is_watched):
        with reporting(console, after=0.0 if progress else SILENT_SECONDS) as report:
            yield RunWatcher(report, on_progress)
    else:
        yield RunWatcher(None, on_progress)


class RunWatcher:
    """Is told of a run's progress: shows it, names the dashboard once, and tells whoever else wants to know."""

    def __init__(self, report: Report | None, on_progress: Callable[[Progress], None] | None = None) -> None:
        self._report, self._on_progress = report, on_progress
        self._named: str | None = None
        if report is not None:
            report("evaluating", 0, 0, "starting")

    def started(self, dashboard: str | None) -> None:
        """Say where Dask's dashboard is."""
        if self._report is not None and dashboard and dashboard != self._named:
            self._named = dashboard
            self._report.note(f"dashboard: {dashboard}")

    def __call__(self, progress: Progress) -> None:
        """Say how far the run is."""
        if self._report is not None:
            self.started(progress.dashboard)
            self._report("evaluating", progress.blocks_done, progress.blocks_total, in_words(progress))
        if self._on_progress is not None:
            self._on_progress(progress)


def in_words(progress: Progress) -> str:
    """Say how fast a run goes, how long the rest will take, and what failed.

    Examples
    --------
    >>> in_words(Progress(5, 10, 50, 100, 2.0, None, blocks_failed=1, rankings_per_second=25, seconds_left=200))
    '25 rankings/s, 3 min left, 1 failed'
    """
    speed = progress.rankings_per_second
    parts = [f"{speed:,.0f} rankings/s" if speed >= 10 else f"{speed:.2g} rankings/s"] if speed > 0 else []
    if progress.seconds_left is not None and progress.blocks_done < progress.blocks_total:
        parts.append(f"{duration(progress.seconds_left)} left")
    if progress.blocks_failed:
        parts.append(f"{progress.blocks_failed:,} failed")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """Return a time as one number with its unit.

    Examples
    --------
    >>> [duration(seconds) for seconds in (0.2, 89, 91, 5400, 200_000)]
    ['0 s', '89 s', '2 min', '1.5 h', '2.3 d']
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 36 * 3600 else f"{seconds / 86400:.1f} d"


def _can_move(console: Console) -> bool:
    """Whether the cursor can go back to a line that is written already."""
    return console.is_terminal and not console.is_dumb_terminal


def _display_for(console: Console, after: float) -> _Bars | _Cell | _Lines:
    if console.is_jupyter:
        return _Cell(after)
    return _Bars(console, after) if _can_move(console) else _Lines(console, after)


class _Bars:
    """Moving bars, made when the first report arrives."""

    def __init__(self, console: Console, after: float) -> None:
        self._console = console
        self._visible_from = time.monotonic() + after
        self._progress: Any = None
        self._tasks: dict[str, Any] = {}
        self._notes: list[str] = []

    def __call__(self, what: str, done: int, total: int, detail: str = "") -> None:
        if self._progress is None:
            if time.monotonic() < self._visible_from:
                return
            self._progress = self._start()
        self._say_notes()
        state = {"completed": done, "total": total or None, "detail": detail}
        if what not in self._tasks:
            self._tasks[what] = self._progress.add_task(what, **state)
        self._progress.update(self._tasks[what], **state)

    def note(self, text: str) -> None:
        self._notes.append(text)
        if self._progress is not None:
            self._say_notes()

    def _say_notes(self) -> None:
        for text in self._notes:
            self._console.print(text, soft_wrap=True)
        self._notes.clear()

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


class _Cell:
    """Bars below the cell of a notebook: one output that is replaced; needs nothing but IPython, which is there."""

    def __init__(self, after: float) -> None:
        self._next = time.monotonic() + after
        self._work: dict[str, tuple[int, int, str]] = {}
        self._notes: list[str] = []
        self._handle: Any = None

    def __call__(self, what: str, done: int, total: int, detail: str = "") -> None:
        self._work[what] = done, total, detail
        self._show_now_and_then()

    def note(self, text: str) -> None:
        self._notes.append(text)
        self._show_now_and_then()

    def _show_now_and_then(self) -> None:
        if time.monotonic() >= self._next:
            self._show()
            self._next = time.monotonic() + SECONDS_BETWEEN_UPDATES

    def _show(self) -> None:
        from IPython.display import display

        lines = [*self._notes, *(_line(what, *state) for what, state in self._work.items())]
        bars = [*map(escape, self._notes), *(_bar(what, *state) for what, state in self._work.items())]
        content = {"text/plain": "\n".join(lines), "text/html": "<br>".join(bars)}
        if self._handle is None:
            self._handle = display(content, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(content, raw=True)

    def close(self, *, finished: bool) -> None:
        if self._handle is not None:
            self._show()


def _bar(what: str, done: int, total: int, detail: str) -> str:
    state = f'value="{done}" max="{total}"' if total else ""
    return f"<progress {state}></progress> {escape(_line(what, done, total, detail))}"


def _line(what: str, done: int, total: int, detail: str) -> str:
    state = f"{done:,} of {total:,} ({done / total:.0%})" if total else ""
    return f"{what}: {', '.join(filter(None, (state, detail)))}"


class _Lines:
    """A line every few seconds, and the last state of work that took long enough for one."""

    def __init__(self, console: Console, after: float) -> None:
        self._console = console
        self._started = time.monotonic()
        self._next = self._started + max(after, SECONDS_BETWEEN_LINES)
        self._said_one = False
        self._unsaid: str | None = None
        self._notes: list[str] = []
        self._is_silent = after > 0

    def __call__(self, what: str, done: int, total: int, detail: str = "") -> None:
        self._unsaid = _line(what, done, total, detail)
        if time.monotonic() >= self._next:
            self._say()

    def note(self, text: str) -> None:
        self._notes.append(text)
        if not self._is_silent:
            self._say_notes()

    def _say_notes(self) -> None:
        for text in self._notes:
            self._console.print(text, soft_wrap=True)
        self._notes.clear()

    def _say(self) -> None:
        if self._unsaid is not None:
            self._is_silent = False
            self._say_notes()
            now = time.monotonic()
            self._console.print(f"{self._unsaid}, {now - self._started:.0f} s", soft_wrap=True)
            self._unsaid = None
            self._said_one = True
            self._next = now + SECONDS_BETWEEN_LINES

    def close(self, *, finished: bool) -> None:
        if finished and self._said_one:
            self._say()
