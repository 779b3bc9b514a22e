"""Every benchmark runs once at a tiny size; the arithmetic of the figures is checked on a suite with known times."""

import gc
import json
import os
import re
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

from benchmarks import figures as pages  # noqa: E402
from benchmarks import measuring  # noqa: E402
from benchmarks.figures import as_line, comparison, figures_of, fill, read_figures, section, table  # noqa: E402
from benchmarks.measuring import Timing, measure, peak_memory  # noqa: E402
from benchmarks.suite import Suite, contender, floor  # noqa: E402
from benchmarks.suites import SUITES  # noqa: E402
from benchmarks.suites.runs import Models, Workers, exponent  # noqa: E402

QUICK = {"influence"}  # each of the others takes some seconds
NIGHTLY = {"cold-start", "first-table"}  # take a minute of compiling
MACHINE = {"processor": "an abacus", "date": "2031-02-03 04:05 UTC", "system": "clay", "versions": "beads 2"}
FIGURES = ROOT / "benchmarks" / "figures.json"
WITHOUT_FLOOR = {"scaling-models", "run-files"}
MOST_LINES = 2000


def small(kind: type[Suite]) -> Suite:
    suite = kind()
    suite.shrink()
    return suite


class Known(Suite):
    """The second contender takes three times as long, the third is wrong, the fourth approximates, ..."""

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

    @contender("near", "1.25", approximates=True)
    def time_near(self, case: str) -> float:
        return 1.25

    @floor("doze", "sleep(0.01)")
    def time_doze(self, case: str) -> None:
        time.sleep(0.01)

    @contender("absent", "nothing", "no-such-distribution", tolerance=1e-12)
    def time_absent(self, case: str) -> float:
        raise AssertionError("a contender that is not installed must not run")


@pytest.fixture(scope="module")
def known() -> dict[str, Timing]:
    return {timing.name: timing for timing in measure(Known(), rounds=3)}


@pytest.fixture(scope="module")
def figures(known):
    return figures_of(Known(), list(known.values()), MACHINE, 3)


def test_times_are_per_unit_and_ratios_of_neighbouring_times(known):
    assert len(known["long"].ratios) == 3
    # Wide bounds: a sleep may last longer on a busy machine, but not by this much in the median.
    assert 1.5 < known["long"].ratio < 6
    assert len(known["short"].seconds) == 12, "the first contender runs before each of the others"
    assert known["short"].ratio is None
    assert 0.015 <= known["short"].median < 0.03
    assert "skipped, not installed: no-such-distribution" in as_line(known["absent"])


def test_disagreement_is_not_hidden_and_an_approximation_not_judged(known, figures):
    assert (known["long"].agrees, known["wrong"].agrees, known["near"].agrees) == (True, False, None)
    assert "DISAGREES" in as_line(known["wrong"])
    assert "wrong differs at only" in section(figures)
    assert "approximates: differs by 2.5e-01" in as_line(known["near"])
    row = next(line for line in section(figures).splitlines() if line.startswith("| near |"))
    assert row.split(" | ")[-1] == "2.5e-01 |"


def test_a_floor_is_last_and_shows_our_distance_to_it(known, figures):
    assert [line.split(" | ")[0] for line in table(figures).splitlines()[2:]][-1] == "| floor: doze"
    assert 1.5 < np.median(known["doze"].distances) < 6
    assert comparison(known["doze"]).startswith("ours ")
    assert known["long"].distances == []


def test_distance_to_the_floor_is_the_inverse_ratio():
    timing = Timing("", "", "", "", "", ratios=[0.25, 0.5, 0.2], is_floor=True)
    assert comparison(timing) == "ours 4\N{MULTIPLICATION SIGN}, 2\N{EN DASH}5"


@pytest.mark.slow
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


@pytest.mark.parametrize("kind", SUITES, ids=lambda kind: kind.name)
def test_each_contender_has_a_call_and_a_unique_name(kind):
    suite = small(kind)
    contenders = [one for one, _ in suite.contenders()]
    assert all(one.call for one in contenders)
    assert not contenders[0].is_floor, "the others are compared with the first line"
    assert len({one.name for one in contenders}) == len(contenders)


# Memory


@pytest.mark.slow
@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="the peak cannot be reset here")
def test_peak_memory_is_the_most_that_a_call_holds():
    mib = 2**20

    def call():
        first = np.ones(64 * mib, np.uint8)
        del first
        return np.ones(32 * mib, np.uint8)

    call()
    assert 60 * mib < peak_memory(call) < 80 * mib
    assert peak_memory(lambda: None) < 8 * mib, "the peak of an earlier call must not count"


@pytest.mark.slow
@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="the peak cannot be reset here")
def test_peak_memory_counts_other_processes():
    allocate = "print(len(bytearray(b'1') * 2**26), flush=True)"
    command = [sys.executable, "-c", f"print('ready', flush=True)\nwhile input():\n    {allocate}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"

        def call():
            print("go", file=process.stdin, flush=True)
            process.stdout.readline()

        assert peak_memory(call) < 8 * 2**20
        assert peak_memory(call, [process.pid]) > 60 * 2**20
        print("", file=process.stdin, flush=True)


def test_a_suite_may_give_a_reason_for_not_measuring_memory():
    class Elsewhere(Known):
        no_memory = "it is elsewhere"
        params = ("only",)

        @contender("first", "1")
        def time_first(self, case):
            return 1

    timings = list(measure(Elsewhere(), rounds=1))
    assert all(timing.peak is None for timing in timings)
    said = section(figures_of(Elsewhere(), timings, MACHINE, 1))
    assert "* Peak memory is not measured here: it is elsewhere." in said
    assert "peak memory" not in said.splitlines()[2]


# Every suite


def _marks_of(kind):
    if kind.name in QUICK:
        return ()
    return (pytest.mark.slow, pytest.mark.nightly) if kind.name in NIGHTLY else pytest.mark.slow


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unsafe cast from uint64")  # ranx, while it compiles
@pytest.mark.filterwarnings("ignore:invalid escape sequence")  # ranx, when Python first reads it
@pytest.mark.filterwarnings("ignore:method='bootstrap' over")  # few positives at this size
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # torcheval, while it is imported
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=_marks_of(kind), id=kind.name) for kind in SUITES],
)
def test_suite_runs_once_and_its_contenders_agree(kind, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)  # for worker processes
    monkeypatch.setattr(measuring, "SHORTEST_SAMPLE", 0.0)  # one call per sample: the times do not matter here
    suite = small(kind)
    suite.params = suite.params[-2:]
    timings = list(measure(suite, rounds=1))
    ran = [timing for timing in timings if not timing.skipped]
    assert {timing.case for timing in ran} == {suite.describe(param) for param in suite.params}
    assert all(timing.seconds for timing in ran)
    assert not [as_line(timing) for timing in ran if timing.agrees is False]
    assert suite.name in WITHOUT_FLOOR or any(timing.is_floor for timing in ran)
    figures = figures_of(suite, timings, MACHINE, 1)
    assert all(timing.call in section(figures) for timing in timings)
    assert len(json.loads(pages.as_json({suite.name: figures}))[suite.name]["timings"]) == len(timings)
    assert gc.get_freeze_count() == 0


def test_growth_is_fitted_on_logarithms():
    sizes = np.array([10.0, 20.0, 80.0])
    assert exponent(sizes, 3e-6 * sizes) == pytest.approx(1.0)
    assert exponent(sizes, 2.0 * sizes**1.5) == pytest.approx(1.5)
    assert np.isnan(exponent(sizes, np.array([1.0, 0.0, 2.0])))


def test_the_fixed_cost_of_a_run_is_separated_from_that_of_each_model():
    timings = [Timing("", "", "", "", "", seconds=[0.5 + 0.01 * size]) for size in Models.sizes]
    said = " ".join(Models().findings(timings))
    assert "beyond the smallest store, time grows as models to the power 1.00" in said
    assert "each more adds 1e+04 µs" in said


def test_findings_follow_the_table():
    suite = small(Workers)
    one, two = (Timing(suite.name, "case", name, "call", "run", seconds=[1.0]) for name in ("one", "two"))
    two.ratios = [0.5, 0.55, 0.625]
    figures = figures_of(suite, [one, two], MACHINE, 3)
    assert "* two workers are 1.82 times as fast as one (over the rounds 1.60 to 2.00)" in section(figures)


# Files and pages


def test_figures_survive_the_file(figures, tmp_path):
    path = tmp_path / "figures.json"
    pages.write_figures(path, {"known": figures})
    again = read_figures(path)["known"]
    assert again.timings[0].seconds == pytest.approx(figures.timings[0].seconds, rel=1e-3)
    pages.write_figures(path, {"known": again})
    assert section(read_figures(path)["known"]) == section(again)


def test_figures_of_other_suites_stay_in_the_file(figures, tmp_path):
    path = tmp_path / "figures.json"
    pages.write_figures(path, {"one": figures, "two": figures})
    pages.write_figures(path, {"two": figures_of(Known(), figures.timings, {"processor": "a slide rule"}, 3)})
    assert {name: kept.machine["processor"] for name, kept in read_figures(path).items()} == {
        "one": "an abacus",
        "two": "a slide rule",
    }


def test_marks_are_filled(figures):
    page = (
        "Ours takes <!-- speed: ratio | known | only | doze -->old<!-- end --> times the floor.\n"
        "<!-- speed: known | short | long -->\nold\n<!-- end -->\n<!-- speed: known -->\nold\n<!-- end -->\n"
        "<!-- speed: machine | known -->\n<!-- end -->\n<!-- speed: unknown -->\nold\n<!-- end -->\n"
        "<!-- speed: legend -->\nold\n<!-- end -->\nkept\n<!-- other -->\nold\n<!-- end -->"
    )
    filled = fill(page, {"known": figures})
    assert filled.count("old") == 1, "the marks of others are left alone"
    assert re.search(r"takes <!-- speed: ratio [^>]* -->[\d.]+<!-- end --> times", filled)
    short, full = (part.partition("-->")[2].partition("<!-- end")[0] for part in filled.split("<!-- speed: known")[1:])
    assert [line.split(" | ")[0] for line in short.strip().splitlines()] == [
        "| Sleep",
        "|---|---:|",
        "| short",
        "| long",
    ]
    assert "| wrong |" in full
    assert "on an abacus, 2031-02-03, clay. Versions: beads 2, numpy" in filled
    assert "<!-- speed: unknown -->\n*Not measured yet.*\n<!-- end -->" in filled
    assert pages.LEGEND in filled
    assert fill(filled, {"known": figures}) == filled


def test_the_pages_show_the_figures_in_the_file():
    texts = dict(pages.filled_pages(ROOT, read_figures(FIGURES)))
    assert {ROOT / "README.md", ROOT / "docs" / "speed.md"} <= set(texts)
    for page, text in texts.items():
        assert page.read_text(encoding="utf-8") == text, f"run: python -m benchmarks --tables-from {FIGURES.name}"


def test_no_figure_in_the_readme_is_typed_by_hand():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    outside = re.sub(r"<!-- speed: .*?<!-- end -->", "", text, flags=re.DOTALL)
    assert not re.findall(r"[\d.,]+ (?:ms|µs)\b|[\d.,]+ times (?:scikit|pytrec|ranx|reading)", outside)


@pytest.mark.slow
def test_the_command_line_writes_its_figures(tmp_path):
    file = tmp_path / "figures.json"
    command = [sys.executable, "-m", "benchmarks", "--small", "--rounds", "1", "--suite", "influence", "--json", file]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "load average" in done.stdout
    assert "floor: one pass" in done.stdout
    kept = read_figures(file)["influence"]
    assert kept.title == "Average precision of 4 models by 500 float32 items, 1 % positive, one thread"


def test_every_suite_in_the_file_exists():
    assert {name.removesuffix(", AVX2") for name in read_figures(FIGURES)} <= {kind.name for kind in SUITES}


def test_benchmarks_stay_small():
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in (ROOT / "benchmarks").rglob("*.py"))
    assert lines <= MOST_LINES
