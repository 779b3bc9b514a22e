"""The progress of a run: how far and how fast it is, shown by bars in a terminal or a notebook, or by lines in a log.

The console of all that people see is here, too.
"""

from __future__ import annotations

import json
import textwrap
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple, Protocol

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from aucpr_dask.errors import printable

LEAST_WINDOW = 10.0  # seconds over which speed is measured
SHARE_OF_WINDOW = 0.2  # of the time since the start, if that is longer: tasks of many workers finish in waves
SECONDS_BETWEEN_LINES = 3.0
SECONDS_BETWEEN_RECORDS = 1.0  # for programs
SECONDS_BETWEEN_UPDATES = 0.2  # of a notebook's cell
SILENT_SECONDS = 2.0  # shorter work shows no progress unless requested
WIDEST = 200


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
        speed = (rankings - rankings_before) / seconds if seconds > 0 else 0.0
        seconds_left = left / cost_per_second if cost_per_second > 0 else None
        done = self._tasks_done, len(self._rankings), self._rankings_done, self._rankings_total
        return Progress(*done, now - self._started, self._dashboard, self._tasks_failed, speed, seconds_left)

    def _count(self, task: int) -> None:
        self._tasks_done += 1
        self._rankings_done += self._rankings[task]
        self._cost_left -= self._costs[task]

    def _mark(self) -> tuple[float, int, int]:
        return time.monotonic(), self._rankings_done, self._cost_left


# --- showing it -------------------------------------------------------------------------------------------------------


def console_for(*, stderr: bool = False, text_only: bool = False) -> Console:
    """Return a console that prints names literally; if `text_only`, without styles and notebook output."""
    plain: Any = {"color_system": None, "force_jupyter": False} if text_only else {}
    console = _Console(stderr=stderr, markup=False, emoji=False, highlight=False, **plain)
    if console.width > WIDEST:
        console.width = WIDEST
    return console


def print_whole_words(console: Console, text: str) -> None:
    """Print a line that stays one in a file, and at a terminal ends between words."""
    if console.is_terminal:
        text = textwrap.fill(text, console.width, break_long_words=False, break_on_hyphens=False)
    console.print(text, soft_wrap=True)


class _Console(Console):
    """A console on which no text can move the cursor, change colours or reverse the line."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment("\n".join(map(printable, segment.text.split("\n"))), segment.style)


class Report(Protocol):
    """A callback that shows progress."""

    def __call__(self, what: str, done: int, total: int, detail: str = "") -> None:
        """Show that `done` of `total` steps of the work called `what` are done; 0 of 0 if that is unknown."""

    def note(self, text: str) -> None:
        """Show a line that stays."""


@contextmanager
def reporting(console: Console, *, after: float = 0.0, as_json: bool = False) -> Iterator[Report]:
    """Yield a callback that shows progress on `console`.

    In a terminal, each kind of work has a bar, which disappears at the end; in a notebook, the bars stay below the
    cell. Otherwise a line is printed every few seconds, `as_json` for programs. Work that ends within `after` seconds
    shows nothing.
    """
    way = _Records if as_json else _Cell if console.is_jupyter else _Bars if _can_move(console) else _Lines
    display = way(console, after)
    try:
        yield display
    finally:
        display.close()


@contextmanager
def watching(progress: bool | Report | None, on_progress: Callable[[Progress], None] | None) -> Iterator[RunWatcher]:
    """Yield a progress callback for a run, as of :func:`reporting_if`, which also calls `on_progress`."""
    with reporting_if(progress, on_progress) as report:
        yield RunWatcher(report, on_progress)


@contextmanager
def reporting_if(progress: bool | Report | None, other: Callable[..., object] | None = None) -> Iterator[Report | None]:
    """Yield a callback that shows progress on stderr if `progress` is true, or the one that it is.

    If it is None, somebody must be there to watch, and nothing else may show the progress.
    """
    console = console_for(stderr=True)
    can_watch = other is None and (console.is_jupyter or _can_move(console))
    if callable(progress):
        yield progress
    elif progress or (progress is None and can_watch):
        with reporting(console, after=0.0 if progress else SILENT_SECONDS) as report:
            yield report
    else:
        yield None


class RunWatcher:
    """Progress callback of a run: shows the progress, names the dashboard once, and calls another callback."""

    def __init__(self, report: Report | None, on_progress: Callable[[Progress], None] | None = None) -> None:
        self._report, self._on_progress = report, on_progress
        self._named: str | None = None
        if report is not None:
            report("evaluating", 0, 0, "starting")

    def note(self, text: str) -> None:
        """Show a line that stays."""
        if self._report is not None:
            self._report.note(text)

    def started(self, dashboard: str | None) -> None:
        """Show the address of Dask's dashboard."""
        if dashboard and dashboard != self._named:
            self._named = dashboard
            self.note(f"dashboard: {dashboard}")

    def __call__(self, progress: Progress) -> None:
        """Show progress, and pass it on."""
        if self._report is not None:
            self.started(progress.dashboard)
            self._report("evaluating", progress.tasks_done, progress.tasks_total, in_words(progress))
        if self._on_progress is not None:
            self._on_progress(progress)


def in_words(progress: Progress) -> str:
    """Describe the speed of a run, the time left, and the number of failures."""
    speed = progress.rankings_per_second
    parts = [f"{speed:,.0f} rankings/s" if speed >= 10 else f"{speed:.2g} rankings/s"] if speed > 0 else []
    if progress.seconds_left is not None and progress.tasks_done < progress.tasks_total:
        left = progress.seconds_left
        units = {90: (1, ".0f", "s"), 90 * 60: (60, ".0f", "min"), 36 * 3600: (3600, ".1f", "h")}
        unit, form, name = next((unit for below, unit in units.items() if left < below), (86400, ".1f", "d"))
        parts.append(f"{left / unit:{form}} {name} left")
    if progress.tasks_failed:
        parts.append(f"{progress.tasks_failed:,} failed")
    return ", ".join(parts)


def _can_move(console: Console) -> bool:
    """Return whether lines on a console can be overwritten."""
    return console.is_terminal and not console.is_dumb_terminal


class _Work(NamedTuple):
    """How far one kind of work is."""

    what: str
    done: int
    total: int
    detail: str

    def __str__(self) -> str:
        state = f"{self.done:,} of {self.total:,} ({self.done / self.total:.0%})" if self.total else ""
        return f"{self.what}: {', '.join(filter(None, (state, self.detail)))}"


class _Display:
    """Shows work now and then, `patience` seconds after its start at first, and lines that stay.

    Nothing is shown of work that ends sooner. Lines wait for the first work to be shown, if nobody asked to watch.
    """

    def __init__(self, console: Console, patience: float, seconds_between: float = 0.0, *, is_asked: bool) -> None:
        self._console = console
        self._started = time.monotonic()
        self._next, self._seconds_between = self._started + patience, seconds_between
        self._work: dict[str, _Work] = {}
        self._notes: list[str] = []
        self._takes_notes, self._has_shown, self._is_stale = is_asked, False, False

    def __call__(self, what: str, done: int, total: int, detail: str = "") -> None:
        self._work.pop(what, None)
        self._work[what] = _Work(what, done, total, detail)
        self._is_stale = True
        now = time.monotonic()
        if now >= self._next:
            self._show_now()
            self._next = now + self._seconds_between

    def note(self, text: str) -> None:
        self._notes.append(text)
        if self._takes_notes:
            self._show_notes()

    def close(self) -> None:
        """Show the last state, if any was shown before."""
        if self._has_shown and self._is_stale:
            self._show_now()

    def _show_now(self) -> None:
        self._takes_notes, self._has_shown, self._is_stale = True, True, False
        self._show_notes()
        self._show(list(self._work.values())[-1])

    def _show_notes(self) -> None:
        for text in self._notes:
            self._say(text)
        self._notes.clear()

    def _show(self, latest: _Work) -> None:
        raise NotImplementedError

    def _say(self, text: str) -> None:
        print_whole_words(self._console, text)


class _Lines(_Display):
    """A line every few seconds, the first also if the work does not move on."""

    def __init__(self, console: Console, after: float) -> None:
        patience = max(after, SECONDS_BETWEEN_LINES)
        super().__init__(console, patience, SECONDS_BETWEEN_LINES, is_asked=not after)
        self._shows = threading.Lock()
        self._first = threading.Timer(patience, self._show_first)
        self._first.daemon = True
        self._first.start()

    def __call__(self, what: str, done: int, total: int, detail: str = "") -> None:
        with self._shows:
            super().__call__(what, done, total, detail)

    def _show_first(self) -> None:
        with self._shows:
            if self._work and not self._has_shown:
                self._show_now()

    def close(self) -> None:
        self._first.cancel()
        with self._shows:
            super().close()

    def _show(self, latest: _Work) -> None:
        self._say(f"{latest}, {time.monotonic() - self._started:.0f} s")


class _Records(_Display):
    """A JSON object on a line of its own for every note, and for steps, but no more than one each second."""

    def __init__(self, console: Console, after: float) -> None:
        super().__init__(console, after, SECONDS_BETWEEN_RECORDS, is_asked=True)

    def _show(self, latest: _Work) -> None:
        what, done, total, detail = latest
        seconds = round(time.monotonic() - self._started, 1)
        self._say(None, progress=what, done=done, total=total or None, detail=detail, seconds=seconds)

    def _say(self, text: str | None, **record: Any) -> None:
        print(json.dumps(record or {"note": text}), file=self._console.file, flush=True)


class _Bars(_Display):
    """Moving bars, made when the first work is shown."""

    def __init__(self, console: Console, after: float) -> None:
        super().__init__(console, after, is_asked=False)
        self._progress: Any = None
        self._tasks: dict[str, Any] = {}

    def _show(self, latest: _Work) -> None:
        if self._progress is None:
            from rich import progress
            from rich.table import Column

            narrow: Any = {"no_wrap": True, "overflow": "ellipsis"}
            columns = (
                progress.TextColumn("{task.description}", markup=False, table_column=Column(max_width=30, **narrow)),
                progress.BarColumn(bar_width=16),
                progress.MofNCompleteColumn(),
                progress.TextColumn("{task.fields[detail]}", markup=False, table_column=Column(**narrow)),
                progress.TimeElapsedColumn(),
            )
            self._progress = progress.Progress(*columns, console=self._console, transient=True)
            self._progress.start()
        state = {"completed": latest.done, "total": latest.total or None, "detail": latest.detail}
        if latest.what not in self._tasks:
            self._tasks[latest.what] = self._progress.add_task(latest.what, **state)
        self._progress.update(self._tasks[latest.what], **state)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()


class _Cell(_Display):
    """Bars below the cell of a notebook: one output that is updated."""

    def __init__(self, console: Console, after: float) -> None:
        super().__init__(console, after, SECONDS_BETWEEN_UPDATES, is_asked=False)
        self._said: list[str] = []
        self._handle: Any = None

    def _show(self, latest: _Work) -> None:
        from IPython.display import display

        texts, bars = [*self._said], [*map(escape, self._said)]
        for work in self._work.values():
            shown = f'value="{work.done}" max="{work.total}"' if work.total else ""
            texts.append(str(work))
            bars.append(f"<progress {shown}></progress> {escape(str(work))}")
        content = {"text/plain": "\n".join(texts), "text/html": "<br>".join(bars)}
        if self._handle is None:
            self._handle = display(content, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(content, raw=True)

    def _say(self, text: str) -> None:
        self._said.append(text)
        self._is_stale = True
