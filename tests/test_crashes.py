"""Disturbed before any change of the file system, the same call again ends in the same bytes, and nothing is left."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import crashes
import pytest

# Before these have claimed the place, the store that they replace is still whole: without overwrite=True, it stays.
REPLACE = {"overwrite scores, then save", "overwrite a result, then resume"}
REMOVE = {name for name in crashes.JOBS if name.startswith("overwrite") or name == "import more, then extend"}

disturbances = pytest.mark.parametrize("how", crashes.DISTURBANCES)
jobs = pytest.mark.parametrize("name", crashes.JOBS)
# While one call removes what it replaces, another may finish: this needs locks, which object storage has not.
meetings = pytest.mark.parametrize("name", sorted(crashes.JOBS.keys() - REMOVE - {"verify"}))


def disturb(folder: Path, *asked: tuple[str, str, int]) -> None:
    """Disturb jobs, each in a way and at every so many points."""
    words = [sys.executable, crashes.__file__, json.dumps(asked), str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr
    for (name, how, step), line in zip(asked, done.stdout.splitlines(), strict=True):
        check(name, how, step, json.loads(line))


def check(name: str, how: str, step: int, report: dict[str, Any]) -> None:
    assert not report["wrong"], report
    if name == "verify":
        assert report["points"] == 0, "it only reads"
        return
    ways = {way: report.get(way, 0) for way in ("again", "refused", "finished", "remedy")}
    assert report["points"] == sum(ways.values()) >= 40 // step
    assert not ways["refused"] or name in {"save", "import trec", "import csv", "compare"}
    assert ways["finished"] <= 1, "only at the last point"
    # A power cut may leave the first claim empty.
    assert ways["remedy"] <= (6 if name in REPLACE else int(how == "cut off" and name == "run"))


def test_at_some_points(tmp_path: Path) -> None:
    disturb(tmp_path, ("import csv", "killed", 17), ("run", "cut off", 101), ("run", "met", 101))


@pytest.mark.slow
@meetings
def test_two_calls_that_meet_at_every_seventh_point(name: str, tmp_path: Path) -> None:
    disturb(tmp_path, (name, "met", 7))


@pytest.mark.slow
@jobs
@disturbances
def test_at_every_seventh_point(name: str, how: str, tmp_path: Path) -> None:
    disturb(tmp_path, (name, how, 7))


@pytest.mark.slow
@pytest.mark.nightly
@jobs
@disturbances
def test_at_every_point(name: str, how: str, tmp_path: Path) -> None:
    disturb(tmp_path, (name, how, 1))


@pytest.mark.slow
@pytest.mark.nightly
@meetings
def test_two_calls_that_meet_at_every_point(name: str, tmp_path: Path) -> None:
    disturb(tmp_path, (name, "met", 1))
