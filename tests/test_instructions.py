"""Counts of instructions, and their comparison between two commits."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("the benchmarks are not part of this copy", allow_module_level=True)
sys.path.insert(0, str(ROOT))

from benchmarks import regression  # noqa: E402
from benchmarks.instructions import callgrind  # noqa: E402
from benchmarks.instructions.callgrind import CountingError, Counts  # noqa: E402
from benchmarks.instructions.workloads import IMPORT, WORKLOADS  # noqa: E402

RANKING = "ranking, 1 %, float32"


def test_the_total_of_a_dump_is_read():
    assert callgrind.read_total("events: Ir\nfn=(1) main\n1 10\n\ntotals: 160\n") == 160
    with pytest.raises(CountingError, match="no total"):
        callgrind.read_total("events: Ir\n1 10\n")


def test_growth_beyond_the_threshold_fails_the_check():
    base = Counts({RANKING: 1_000_000, "short rankings": 1_000_000, IMPORT: 1_400_000_000})
    head = Counts({RANKING: 1_031_000, "short rankings": 1_029_000, IMPORT: 1_200_000_000})
    found = {change.name: change for change in regression.changes(base, head, 0.03)}
    assert {name: change.verdict for name, change in found.items()} == {
        IMPORT: "fewer",
        RANKING: "**more**",
        "short rankings": "the same",
    }
    assert [name for name, change in found.items() if change.is_worse] == [RANKING]
    text = regression.as_markdown(list(found.values()), "old", "new")
    assert f"| {RANKING}, per item | 10 | 10.3 | 1.031 | **more** |" in text
    assert f"| {IMPORT}, per import | 1,400 M | 1,200 M | 0.857 | fewer |" in text
    assert text.endswith(f"Worse: {RANKING}.\n")


def test_a_workload_that_only_one_commit_can_run_is_reported():
    lost = Counts({}, {RANKING: "AttributeError: no kernel"})
    assert [change.verdict for change in regression.changes(lost, Counts({RANKING: 5}), 0.03)] == ["new"]
    (failing,) = regression.changes(Counts({RANKING: 5}), lost, 0.03)
    assert (failing.verdict, failing.is_worse) == ("**fails**", True)


def test_the_exit_status_is_1_if_a_workload_is_worse(monkeypatch, capsys, tmp_path):
    sides = {"good": Counts({RANKING: 100}), "bad": Counts({RANKING: 200})}
    monkeypatch.setattr(regression, "count_at", lambda repository, commit, only: sides[commit])
    assert regression.main(["good", "good", "--json", str(tmp_path / "found.json")]) == 0
    assert regression.main(["good", "bad"]) == 1
    assert regression.main(["good", "bad", "--threshold", "150"]) == 0
    assert "Worse" in capsys.readouterr().out
    assert '"ratio": 1.0' in (tmp_path / "found.json").read_text()


def test_without_valgrind_the_exit_status_is_2(monkeypatch, capsys):
    monkeypatch.setattr(callgrind, "why_not", lambda: "valgrind is not installed")
    assert regression.main(["HEAD", "HEAD"]) == 2
    assert "valgrind is not installed" in capsys.readouterr().err


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_every_workload_runs_and_repeats(name):
    call = WORKLOADS[name].prepare()
    first, again = (
        result[next(iter(result.data_vars))] if hasattr(result, "data_vars") else result for result in (call(), call())
    )
    assert np.array_equal(first, again, equal_nan=True)


SLOWER = """

def estimate(*arguments, **options):
    once = __getattr__("estimate")
    once(*arguments, **options)
    return once(*arguments, **options)
"""


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.skipif(callgrind.why_not() is not None, reason=str(callgrind.why_not()))
def test_a_slower_call_is_found(tmp_path):
    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    shutil.copytree(ROOT / "aucpr_dask", tmp_path / "aucpr_dask", ignore=shutil.ignore_patterns("__pycache__"))
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "Add the package")
    with (tmp_path / "aucpr_dask" / "__init__.py").open("a") as package:
        package.write(SLOWER)
    git("commit", "--quiet", "-am", "Do everything twice")
    (change,) = regression.compare(tmp_path, "HEAD~1", "HEAD", only=[RANKING])
    assert change.is_worse
    assert change.ratio == pytest.approx(2, abs=0.05)
    assert not (tmp_path / ".git" / "worktrees").exists()
