"""Progress: how it is measured, and what a terminal, a log and a notebook show of it."""

import contextlib
import io
import json
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Clock, pooled
from distributed import Client, LocalCluster
from rich.console import Console

import aucpr_dask as ap
from aucpr_dask import progress as view
from aucpr_dask.progress import Progress, RunWatcher, Tracker, reporting, watching
from aucpr_dask.storage import stores

LINK = "http://127.0.0.1:8787/status"


# How it is measured


def test_tasks_of_an_earlier_run_count_as_done_but_not_as_speed(clock: Clock) -> None:
    tracker = Tracker([10] * 100, [1] * 100, done=range(90), dashboard=LINK)
    clock.now += 5
    progress = tracker.finished(90)
    assert progress == Progress(91, 100, 910, 1000, 5.0, LINK, 0, 2.0, 45.0)


def test_the_time_left_is_measured_in_costs(clock: Clock) -> None:
    """Blocks of a large data set come last here: the rankings alone would say that half of the time is over."""
    tracker = Tracker([4, 4, 4, 4], [1, 1, 10, 10])
    clock.now += 2
    tracker.finished(0)
    clock.now += 2
    progress = tracker.finished(1)
    assert progress.rankings_per_second == 2.0
    assert progress.seconds_left == pytest.approx(40.0)


def test_speed_is_that_of_late(clock: Clock) -> None:
    tracker = Tracker([1] * 1000, [1] * 1000)
    clock.now += 60  # the workers compile
    first = tracker.finished(0)
    assert first.seconds_left == pytest.approx(999 * 60)
    for block in range(1, 200):
        clock.now += 0.5
        progress = tracker.finished(block)
    assert progress.rankings_per_second == pytest.approx(2.0)
    assert progress.seconds_left == pytest.approx(400.0)


def test_waves_of_many_workers_do_not_shake_the_speed(clock: Clock) -> None:
    tracker = Tracker([1] * 6400, [1] * 6400)
    speeds = []
    for wave in range(100):
        clock.now += 60
        speeds += [tracker.finished(64 * wave + block).rankings_per_second for block in range(64)]
    assert all(0.8 < speed * 60 / 64 < 1.2 for speed in speeds[64 * 30 :])


def test_failed_blocks_are_counted_and_nothing_is_left_at_the_end(clock: Clock) -> None:
    tracker = Tracker([3, 4], [1, 2])
    assert tracker.finished(1, failed=True).seconds_left is None  # no time has passed
    clock.now += 1
    last = tracker.finished(0)
    assert (last.tasks_done, last.tasks_failed, last.rankings_done, last.seconds_left) == (2, 1, 7, 0.0)
    assert view.in_words(last) == "7 rankings/s, 1 failed"


# Whom it is shown to


def log(*, is_terminal: bool = False) -> Console:
    return Console(file=io.StringIO(), width=80, force_terminal=is_terminal, color_system=None)


def text_of(console: Console) -> str:
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


EVENTS = [Progress(done, 9, 5 * done, 45, done, LINK, 0, 5.0, 9.0 - done) for done in range(1, 10)]


@pytest.mark.parametrize(
    ("progress", "is_terminal", "has_callback", "is_shown"),
    [
        (None, True, False, True),
        (None, False, False, False),
        (None, True, True, False),
        (True, False, False, True),
        (True, True, True, True),
        (False, True, False, False),
    ],
)
def test_progress_is_shown_to_who_watches_or_asks(
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    progress: bool | None,
    is_terminal: bool,
    has_callback: bool,
    is_shown: bool,
) -> None:
    console = log(is_terminal=is_terminal)
    monkeypatch.setattr(view, "console_for", lambda **_: console)
    heard: list[Progress] = []
    with watching(progress, heard.append if has_callback else None) as watcher:
        for event in EVENTS:
            clock.now += 1
            watcher(event)
    assert ("evaluating" in text_of(console)) == is_shown
    assert text_of(console).count(LINK) == is_shown
    assert heard == (EVENTS if has_callback else [])


@pytest.mark.parametrize("is_terminal", [True, False])
def test_quick_work_leaves_no_trace_if_nobody_asked(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    console = log(is_terminal=is_terminal)
    with reporting(console, after=2.0) as report:
        watcher = RunWatcher(report)
        watcher.started(LINK)
        clock.now += 1
        watcher(EVENTS[0])
    assert text_of(console) == ""


def test_a_notebook_without_ipython_output_is_not_asked_for_any() -> None:
    with reporting(log()) as report:
        report("evaluating", 1, 2)  # must not import IPython, which is no dependency
    assert "ipykernel" not in sys.modules


# What a terminal and a log receive, byte by byte

ALL_TO_WATCH = """
import time
from aucpr_dask.progress import Progress
from aucpr_dask import progress
progress.SECONDS_BETWEEN_LINES = 0.25
with progress.watching(True, None) as watcher:
    watcher.started("http://127.0.0.1:8787/status")
    for done in range(1, 9):
        time.sleep(0.1)
        watcher(Progress(done, 8, 5 * done, 40, done, "http://127.0.0.1:8787/status", 0, 1234.5, 8.0 - done))
"""


def in_terminal(*command: str) -> str:
    """Run a command in a pseudo-terminal, and return all that it wrote there."""
    controller, terminal = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80", "NO_COLOR": "1"}
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment) as process:
        os.close(terminal)
        written = b""
        with contextlib.suppress(OSError):  # the end of a pseudo-terminal
            while part := os.read(controller, 2**16):
                written += part
        os.close(controller)
    assert process.returncode == 0, written.decode()
    return written.decode()


def in_pipe(*command: str) -> str:
    """Run a command and return what it wrote to stderr."""
    done = subprocess.run(command, env=os.environ | {"COLUMNS": "80"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_terminal_gets_one_moving_bar_that_goes_and_the_dashboard_that_stays() -> None:
    written = in_terminal(sys.executable, "-c", ALL_TO_WATCH)
    assert written.count(LINK) == 1
    assert re.search(r"[1-7]/8 1,234 rankings/s, [1-7] s left", written)
    assert "8/8 1,234 rankings/s 0:00:" in written
    assert "\x1b[2K" in written  # the line is cleared and written again
    assert written.count("\n") <= 3
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written[written.rindex("\x1b[2K") :])
    assert last.strip() == ""


def test_a_log_gets_plain_lines() -> None:
    lines = in_pipe(sys.executable, "-c", ALL_TO_WATCH).splitlines()
    assert lines[0] == f"dashboard: {LINK}"
    assert all(line.isprintable() for line in lines)
    assert 3 <= len(lines) <= 9
    pattern = r"evaluating: \d of 8 \(\d+%\), 1,234 rankings/s(, \d s left)?, \d s"
    assert all(re.fullmatch(pattern, line) for line in lines[1:])
    assert lines[-1].startswith("evaluating: 8 of 8 (100%)")


# Real runs


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(stores, "CHUNK_BYTES", 2048)
    ap.save_scores(pooled(40, 60), tmp_path / "scores.zarr")
    return tmp_path / "scores.zarr"


def test_a_run_shows_speed_and_time_left(source: Path, tmp_path: Path) -> None:
    events: list[Progress] = []
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        ap.run(source, tmp_path / "result.zarr", workers=client, on_progress=events.append)
    assert len(events) == events[0].tasks_total == 10
    assert [event.rankings_done for event in events] == list(range(4, 41, 4))
    assert all(event.rankings_per_second > 0 and event.seconds_left is not None for event in events)
    assert events[-1].seconds_left == 0


A_RUN = """
import sys, time
import aucpr_dask as ap
if __name__ == "__main__":
    slowly = lambda event: time.sleep(0.5)
    ap.run(sys.argv[1], sys.argv[2], workers=1, progress=True, on_progress=slowly)
"""


@pytest.mark.slow
def test_a_real_run_in_a_terminal_and_in_a_log(source: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(A_RUN)
    written = in_terminal(sys.executable, str(script), str(source), str(tmp_path / "first.zarr"))
    assert len(re.findall(r"dashboard: http://[\d.]+:\d+/status", written)) == 1
    assert re.search(r"10/10 [\d.,]+ rankings/s", written)
    assert re.search(r"5/10 [\d.,]+ rankings/s, \d+ s left", written)
    lines = in_pipe(sys.executable, str(script), str(source), str(tmp_path / "second.zarr")).splitlines()
    ours = [line for line in lines if line.startswith(("dashboard: ", "evaluating: "))]
    assert "\x1b" not in "".join(lines)
    before = ours.pop(0) if ours[0].startswith("evaluating: starting") else ""  # workers that take over 3 s to start
    assert ours[0].startswith("dashboard: http://"), before
    assert ours[-1].startswith("evaluating: 10 of 10 (100%)")
    assert len(ours) >= 3


@pytest.mark.needs("ipykernel", "nbclient")
@pytest.mark.filterwarnings("default")  # of Jupyter's own making
def test_a_real_run_in_a_notebook_moves_below_its_cell(source: Path, tmp_path: Path) -> None:
    import nbclient
    import nbformat

    messages: list[dict[str, Any]] = []

    class Browser(nbclient.NotebookClient):  # type: ignore[misc, name-defined]
        def process_message(self, message: dict[str, Any], cell: Any, index: int) -> Any:
            messages.append(message)
            return super().process_message(message, cell, index)

    code = "import time, aucpr_dask as ap\nfrom distributed import Client, LocalCluster\n"
    code += "cluster = LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=':0')\n"
    code += "slowly = lambda event: time.sleep(0.3)\n"
    code += f"ap.run({str(source)!r}, {str(tmp_path / 'result.zarr')!r}, workers=Client(cluster), progress=True,\n"
    code += "       on_progress=slowly)\ncluster.close()"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    Browser(notebook, timeout=120, kernel_name="python3").execute()
    pages = [
        message["content"]["data"].get("text/html", "")
        for message in messages
        if message["msg_type"] in ("display_data", "update_display_data")
    ]
    kinds = [message["msg_type"] for message in messages if "display_data" in message["msg_type"]]
    assert kinds == ["display_data"] + ["update_display_data"] * (len(kinds) - 1)
    done = [int(found[1]) for page in pages if (found := re.search(r'<progress value="(\d+)" max="10">', page))]
    assert len(set(done)) > 4
    assert done == sorted(done)
    (output,) = [
        output for output in notebook.cells[0].outputs if "<progress" in output.get("data", {}).get("text/html", "")
    ]
    assert "evaluating: 10 of 10 (100%)" in output["data"]["text/plain"]
    assert output["data"]["text/html"].count("dashboard: http://") == 1
    assert not [one for one in notebook.cells[0].outputs if one["output_type"] == "stream" and one["name"] == "stderr"]


def test_programs_read_progress_as_lines_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    with reporting(view.console_for(stderr=True), as_json=True) as report:
        report.note("a note")
        for done in range(4):
            report("evaluating", done, 3, "2 rankings/s")
    first, *steps = map(json.loads, capsys.readouterr().err.splitlines())
    assert first == {"note": "a note"}
    assert [step.pop("seconds") >= 0 for step in steps] == [True, True]  # the first and the last, within a second
    step = {"progress": "evaluating", "total": 3, "detail": "2 rankings/s"}
    assert steps == [step | {"done": 0}, step | {"done": 3}]


def test_a_log_says_what_it_waits_for(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where the first step takes long, as while workers compile."""
    monkeypatch.setattr(view, "SECONDS_BETWEEN_LINES", 0.05)
    with reporting(view.console_for(stderr=True)) as report:
        report("evaluating", 0, 0, "starting")
        time.sleep(0.3)
        assert capsys.readouterr().err.startswith("evaluating: starting, ")
    with reporting(view.console_for(stderr=True)) as report:
        report("evaluating", 0, 0, "starting")
    assert capsys.readouterr().err == ""
