"""Disturbed before any change of the file system, the same call again ends in the same bytes, and nothing is left."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import crashes
import pytest

# Before these have claimed the place, the store that they replace is still whole: without overwrite=True, it stays.
REPLACE = {"overwrite scores, then save", "overwrite a result, then resume"}
REMOVE = {name for name in crashes.JOBS if name.startswith("overwrite")}
REMOVE |= {"import more, then extend", "add resamples", "append"}

EVERY_WAY = [(name, how) for how in crashes.DISTURBANCES for name in crashes.JOBS]
# While one call removes what it replaces, another may finish: this needs locks, which object storage has not.
EVERY_WAY += [(name, "met") for name in sorted(crashes.JOBS.keys() - REMOVE - {"verify"})]


@pytest.fixture(scope="module")
def program() -> Iterator[subprocess.Popen[str]]:
    """The program that disturbs jobs, one after another."""
    with subprocess.Popen([sys.executable, crashes.__file__], stdin=PIPE, stdout=PIPE, text=True) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0


def disturb(program: subprocess.Popen[str], folder: Path, name: str, how: str, step: int) -> None:
    """Disturb a job at every `step`-th point, and check the report."""
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(json.dumps({"folder": str(folder), "name": name, "how": how, "step": step}) + "\n")
    program.stdin.flush()
    report = json.loads(program.stdout.readline())
    assert "failed" not in report, report["failed"]
    check(name, how, step, report)


def check(name: str, how: str, step: int, report: dict[str, Any]) -> None:
    assert not report["wrong"], report
    if name == "verify":
        assert report["points"] == 0, "it only reads"
        return
    ways = {way: report.get(way, 0) for way in ("again", "refused", "finished", "remedy")}
    assert report["points"] == sum(ways.values()) >= max(1, report["written"] // step), "every file is a change"
    assert not ways["refused"] or name in {"save", "import trec", "import table", "compare"}
    assert not report.get("unfinished"), "what was finished at one point is so at all later ones"
    assert ways["finished"] <= (1 if name != "append" else 2), "at the last point; and after the folders changed places"
    assert ways["remedy"] <= (6 if name in REPLACE else 0)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "how", "step"), [("run", "met", 101)])
def test_at_some_points(name: str, how: str, step: int, program: subprocess.Popen[str], tmp_path: Path) -> None:
    disturb(program, tmp_path, name, how, step)


def by_turns(name: str, how: str) -> Any:
    """Disturb neighbouring jobs in different ways by day, and each in every way at night."""
    hows = [way for job, way in EVERY_WAY if job == name]
    is_its_turn = hows[list(crashes.JOBS).index(name) % len(hows)] == how
    return pytest.param(name, how, 47, marks=[] if is_its_turn else pytest.mark.nightly)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "how", "step"),
    [
        *(by_turns(*way) for way in EVERY_WAY),
        *(pytest.param(*way, 1, marks=pytest.mark.nightly) for way in EVERY_WAY),
    ],
)
def test_at_every_such_point(name: str, how: str, step: int, program: subprocess.Popen[str], tmp_path: Path) -> None:
    disturb(program, tmp_path, name, how, step)
