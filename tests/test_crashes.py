"""Killed before any change of the file system, the same call again ends in the same bytes."""

import json
import subprocess
import sys
from pathlib import Path

import crashes
import pytest

# These are refused at some points, and then go on with overwrite=True, as the error says; all else resumes.
NEED_REMEDY = {"save", "overwrite a result, then resume"}


def every_point(name: str, folder: Path, step: int) -> None:
    program = Path(crashes.__file__)
    words = [sys.executable, str(program), name, str(folder), str(step)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert not report["wrong"], report["wrong"][:5]
    assert report["points"] == report["again"] + report["remedy"] >= 100 // step // 4
    assert name in NEED_REMEDY or not report["remedy"]


@pytest.mark.parametrize("name", ["save", "run"])
def test_killed_at_some_points(name: str, tmp_path: Path) -> None:
    every_point(name, tmp_path, step=31)


@pytest.mark.slow
@pytest.mark.parametrize("name", crashes.JOBS)
def test_killed_at_every_third_point(name: str, tmp_path: Path) -> None:
    every_point(name, tmp_path, step=3)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("name", crashes.JOBS)
def test_killed_at_every_point(name: str, tmp_path: Path) -> None:
    every_point(name, tmp_path, step=1)
