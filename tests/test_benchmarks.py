"""Every benchmark runs, tiny, once; the figures' arithmetic is checked on a suite with known times."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("the benchmarks are not part of this copy", allow_module_level=True)
sys.path.insert(0, str(ROOT))

from benchmarks.contenders import Suite, contender  # noqa: E402
from benchmarks.estimators import TEN, Estimators  # noqa: E402
from benchmarks.measure import Timing, measure  # noqa: E402
from benchmarks.report import as_json, as_line, as_markdown  # noqa: E402
from benchmarks.scaling import Models, Workers, exponent  # noqa: E402
from benchmarks.suites import SUITES  # noqa: E402

# The cold start compiles every kernel anew; the others start clusters of their own.
SLOW = {"cold-start", "scaling-workers", "scaling-models", "scaling-items", "scheduler"}
MACHINE = {"processor": "an abacus"}


def small(kind: type[Suite]) -> Suite:
    suite = kind()
    suite.shrink()
    return suite


class Known(Suite):
    """The second contender takes three times as long, the third is wrong, the fourth is not there."""

    name = "known"
    title = "Sleep"
    explanation = "Nothing."
    params = ("only",)
    unit = "nap"

    def units(self) -> int:
        return 2

    @contender("short", "sleep(0.03)", "numpy")
    def time_short(self, case: str) -> float:
        time.sleep(0.03)
        return 1.0

    @contender("long", "sleep(0.09)", tolerance=1e-12)
    def time_long(self, case: str) -> float:
        time.sleep(0.09)
        return 1.0

    @contender("wrong", "1.001", tolerance=1e-6)
    def time_wrong(self, case: str) -> float:
        time.sleep(0.03)
        return 1.001

    @contender("absent", "nothing", "no-such-distribution", tolerance=1e-12)
    def time_absent(self, case: str) -> float:
        raise AssertionError("a contender that is not installed must not run")


@pytest.fixture(scope="module")
def known() -> dict[str, Timing]:
    return {timing.name: timing for timing in measure(Known(), rounds=3)}


def test_ratios_are_of_neighbouring_times(known):
    assert len(known["long"].ratios) == 3
    # Wide bounds: a sleep may last longer on a busy machine, but not by this much in the median.
    assert 1.5 < known["long"].ratio < 6
    assert len(known["short"].seconds) == 6, "the first contender runs before each of the others"
    assert known["short"].ratio is None


def test_times_are_per_unit(known):
    assert 0.015 <= known["short"].median < 0.03


def test_disagreement_is_not_hidden(known):
    assert known["long"].agrees is True
    assert known["wrong"].agrees is False
    assert "DISAGREES" in as_line(known["wrong"])
    assert "wrong differs at only" in as_markdown({"known": Known()}, list(known.values()), MACHINE, 3)


@pytest.mark.parametrize("answer", [[1.0, np.nan], [1.0]])
def test_other_shapes_and_nan_disagree(answer):
    class Odd(Suite):
        name = "odd"
        params = ("only",)

        @contender("first", "")
        def time_first(self, case):
            return [1.0, 2.0]

        @contender("second", "", tolerance=1.0)
        def time_second(self, case):
            return answer

    assert [timing.agrees for timing in measure(Odd(), rounds=1)] == [None, False]


def test_missing_peer_is_skipped_with_a_line(known):
    assert "skipped, not installed: no-such-distribution" in as_line(known["absent"])
    with pytest.raises(NotImplementedError, match="absent needs no-such-distribution"):
        Known().time_absent.setup("only")


def test_each_of_the_ten_estimators_is_timed_alone():
    assert sorted(one.name for one, _ in Estimators().contenders()) == sorted([*TEN, "all ten"])


@pytest.mark.filterwarnings("ignore:unsafe cast from uint64")  # ranx, while it compiles
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=pytest.mark.slow if kind.name in SLOW else (), id=kind.name) for kind in SUITES],
)
def test_suite_runs_once_and_its_contenders_agree(kind, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)  # for worker processes
    suite = small(kind)
    suite.params = suite.params[-2:]
    timings = list(measure(suite, rounds=1))
    ran = [timing for timing in timings if not timing.skipped]
    assert {timing.case for timing in ran} == {suite.describe(param) for param in suite.params}
    assert all(timing.seconds for timing in ran)
    assert not [as_line(timing) for timing in ran if timing.agrees is False]
    markdown = as_markdown({suite.name: suite}, timings, MACHINE, 1)
    assert all(timing.call in markdown for timing in timings)
    assert len(json.loads(as_json(timings, MACHINE, 1))["timings"]) == len(timings)


def test_growth_is_fitted_on_logarithms():
    sizes = np.array([10.0, 20.0, 80.0])
    assert exponent(sizes, 3e-6 * sizes) == pytest.approx(1.0)
    assert exponent(sizes, 2.0 * sizes**1.5) == pytest.approx(1.5)
    assert np.isnan(exponent(sizes, np.array([1.0, 0.0, 2.0])))


def test_what_every_run_costs_is_told_from_what_each_model_costs():
    timings = [Timing("", "", "", "", "", seconds=[0.5 + 0.01 * size]) for size in Models().sizes()]
    said = " ".join(Models().findings(timings))
    assert "beyond the smallest store, as the power 1.00" in said
    assert "each more costs 1e+04 µs" in said


def test_findings_stand_below_the_table():
    suite = small(Workers)
    one, two = (Timing(suite.name, "case", name, "call", "run", seconds=[1.0]) for name in ("one", "two"))
    two.ratios = [0.5, 0.55, 0.625]
    assert "* two workers are 1.82 times as fast as one (over the rounds 1.60 to 2.00)" in as_markdown(
        {suite.name: suite}, [one, two], MACHINE, 3
    )


def test_command_line_writes_both_files(tmp_path):
    files = {"--json": tmp_path / "figures.json", "--markdown": tmp_path / "figures.md"}
    arguments = [str(part) for pair in files.items() for part in pair]
    command = [sys.executable, "-m", "benchmarks", "--small", "--rounds", "1", "--suite", "single-ranking", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "load average" in done.stdout
    assert json.loads(files["--json"].read_text())["timings"][0]["suite"] == "single-ranking"
    assert files["--markdown"].read_text().startswith("**Average precision of one ranking of 5,000 float32 items")
