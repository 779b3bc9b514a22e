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

disturbances = pytest.mark.parametrize("how", crashes.DISTURBANCES)
jobs = pytest.mark.parametrize("name", crashes.JOBS)
# While one call removes what it replaces, another may finish: this needs locks, which object storage has not.
meetings = pytest.mark.parametrize("name", sorted(crashes.JOBS.keys() - REMOVE - {"verify"}))


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
    assert report["points"] == sum(ways.values()) >= 40 // step
    assert not ways["refused"] or name in {"save", "import trec", "import csv", "compare"}
    assert ways["finished"] <= 1, "only at the last point"
    assert ways["remedy"] <= (6 if name in REPLACE else 0)


@pytest.mark.parametrize(("name", "how", "step"), [("import csv", "killed", 17), ("run", "cut off", 101)])
def test_at_some_points(name: str, how: str, step: int, program: subprocess.Popen[str], tmp_path: Path) -> None:
    disturb(program, tmp_path, name, how, step)


def test_two_calls_that_meet_at_some_points(program: subprocess.Popen[str], tmp_path: Path) -> None:
    disturb(program, tmp_path, "run", "met", 101)


@pytest.mark.slow
@meetings
def test_two_calls_that_meet_at_every_seventh_point(name: str, program: subprocess.Popen[str], tmp_path: Path) -> None:
    disturb(program, tmp_path, name, "met", 7)


@pytest.mark.slow
@jobs
@disturbances
def test_at_every_seventh_point(name: str, how: str, program: subprocess.Popen[str], tmp_path: Path) -> None:
    disturb(program, tmp_path, name, how, 7)


@pytest.mark.slow
@pytest.mark.nightly
@jobs
@disturbances
def test_at_every_point(name: str, how: str, program: subprocess.Popen[str], tmp_path: Path) -> None:
    disturb(program, tmp_path, name, how, 1)


@pytest.mark.slow
@pytest.mark.nightly
@meetings
def test_two_calls_that_meet_at_every_point(name: str, program: subprocess.Popen[str], tmp_path: Path) -> None:
    disturb(program, tmp_path, name, "met", 1)
