"""Disturbed before any change of the file system, the same call again ends in the same bytes, and nothing is left."""

import json
import subprocess
import sys
from pathlib import Path

import crashes
import pytest

# Before these have claimed the place, the store that they replace is still whole: without overwrite=True, it stays.
REPLACE = {"overwrite scores, then save", "overwrite a result, then resume"}
REMOVE = {name for name in crashes.JOBS if name.startswith("overwrite") or name == "import more, then extend"}

disturbances = pytest.mark.parametrize("how", crashes.DISTURBANCES)
jobs = pytest.mark.parametrize("name", crashes.JOBS)
# While one call removes what it replaces, another may finish: this needs locks, which object storage has not.
meetings = pytest.mark.parametrize("name", sorted(crashes.JOBS.keys() - REMOVE - {"verify"}))


def report_of(name: str, how: str, step: int, folder: Path) -> dict[str, int]:
    """Disturb a job at every `step`-th point; return how many were disturbed, and in what way the job was finished."""
    words = [sys.executable, crashes.__file__, name, how, str(step), str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr
    report: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    assert not report["wrong"], report
    return report


def disturb(name: str, how: str, step: int, folder: Path) -> None:
    report = report_of(name, how, step, folder)
    if name == "verify":
        assert report["points"] == 0, "it only reads"
        return
    assert report["points"] == report["again"] + report["finished"] + report["remedy"] >= 40 // step
    assert report["finished"] <= 1, "only at the last point"
    # A power cut may leave the first claim empty.
    assert report["remedy"] <= (6 if name in REPLACE else int(how == "cut off" and name == "run"))


@pytest.mark.parametrize(("name", "how", "step"), [("import csv", "killed", 11), ("run", "cut off", 61)])
def test_at_some_points(name: str, how: str, step: int, tmp_path: Path) -> None:
    disturb(name, how, step, tmp_path)


def meet(name: str, step: int, folder: Path) -> None:
    report = report_of(name, "met", step, folder)
    assert report["points"] == report["again"] + report["refused"] >= 40 // step
    assert not report["refused"] or name in {"save", "import trec", "import csv", "compare"}


def test_two_calls_that_meet_at_some_points(tmp_path: Path) -> None:
    meet("run", 101, tmp_path)


@pytest.mark.slow
@meetings
def test_two_calls_that_meet_at_every_seventh_point(name: str, tmp_path: Path) -> None:
    meet(name, 7, tmp_path)


@pytest.mark.slow
@jobs
@disturbances
def test_at_every_seventh_point(name: str, how: str, tmp_path: Path) -> None:
    disturb(name, how, 7, tmp_path)


@pytest.mark.slow
@pytest.mark.nightly
@jobs
@disturbances
def test_at_every_point(name: str, how: str, tmp_path: Path) -> None:
    disturb(name, how, 1, tmp_path)


@pytest.mark.slow
@pytest.mark.nightly
@meetings
def test_two_calls_that_meet_at_every_point(name: str, tmp_path: Path) -> None:
    meet(name, 1, tmp_path)
