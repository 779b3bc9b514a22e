"""Cost curves: exponents of known curves, crossings of known functions, and a picture that shows what it is given."""

import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("the benchmarks are not part of this copy", allow_module_level=True)
sys.path.insert(0, str(ROOT))

import aucpr_dask as ap  # noqa: E402
from aucpr_dask.kernels.areas import rows  # noqa: E402
from benchmarks import crossovers, pictures, variants  # noqa: E402
from benchmarks.axes import AXES, OURS, PEER, SORT, Models, NumberOfEstimators, Queries, place_of  # noqa: E402
from benchmarks.candidates import by_chains, by_radix_sort, by_sorted_keys  # noqa: E402
from benchmarks.contenders import Suite  # noqa: E402
from benchmarks.crossovers import Crossover, Measured  # noqa: E402
from benchmarks.figures import Figures, write_figures  # noqa: E402
from benchmarks.fits import crossings, fit, fit_large_half  # noqa: E402
from benchmarks.measure import Timing, measure  # noqa: E402

SIZES = [1000, 3000, 10_000, 30_000, 100_000]


# Fits


def test_exponents_and_their_errors_are_those_of_known_curves():
    sizes = np.array(SIZES, float)
    exact = fit(SIZES, 3e-9 * sizes**1.25)
    assert (exact.exponent, exact.n) == (pytest.approx(1.25), 5)
    assert exact.error == pytest.approx(0, abs=1e-6)
    scattered = 3e-9 * sizes * np.exp([0.1, -0.1, 0.0, 0.1, -0.1])
    coefficients, covariance = np.polyfit(np.log(sizes), np.log(scattered), 1, cov=True)
    found = fit(SIZES, scattered)
    assert (found.exponent, found.error) == pytest.approx((coefficients[0], covariance[0, 0] ** 0.5))


def test_what_every_call_costs_fades_in_the_larger_half():
    seconds = [1e-4 + 1e-9 * size for size in (*SIZES, 10**6, 10**7)]
    everywhere, large = (how((*SIZES, 10**6, 10**7), seconds) for how in (fit, fit_large_half))
    assert large.n == 4
    assert everywhere.exponent < large.exponent < 1


def test_too_few_sizes_have_no_error_and_one_no_exponent():
    assert str(fit([1, 10], [1.0, 10.0])) == "1.00"
    assert np.isnan(fit([1], [1.0]).exponent)


def test_conclusions_name_every_contender_that_grew():
    suite = Models()
    timings = [
        Timing("axis-models", suite.describe(n), name, "", "", seconds=[n * 1e-3])
        for name, places in ((OURS, (1, 10, 100)), (PEER, (1, 10)), (SORT, (1,)))
        for n in places
    ]
    said = list(suite.conclusions(timings))
    assert len(said) == 2
    assert said[0] == f"{OURS}: time grows as models to the power 1.00 ± 0.00 (all 3 places), 1.00 (the largest 2)"


# Suites


def test_every_axis_has_a_number_first_and_a_panel():
    for kind in AXES:
        places = {kind().describe(param) for param in kind.params}
        assert len(places) == len(kind.params)
        if kind.name != "axis-types":
            assert kind.name in pictures.TITLES
            assert [place_of(kind().describe(param)) for param in kind.params] == list(kind.params)


def test_every_contender_has_a_look():
    names = {contender.name for kind in AXES for contender, _ in kind().contenders()}
    assert names == set(pictures.LOOKS)


@pytest.mark.slow
def test_what_would_take_too_long_is_left_out_by_name():
    suite = Queries()
    suite.params, suite.seconds_of_peer, suite.number = (2,), 100.0, 1
    timings = {timing.name: timing for timing in measure(suite, rounds=1)}
    assert timings[PEER].skipped == "left out: one call would take some 200 s"
    assert not timings[PEER].seconds
    assert all(timing.seconds for name, timing in timings.items() if name != PEER)


@pytest.mark.slow
def test_a_peer_that_has_one_estimator_is_timed_for_one():
    suite = NumberOfEstimators()
    suite.shrink()
    pytest.importorskip("sklearn")
    ran = {timing.case: bool(timing.seconds) for timing in measure(suite, rounds=1) if timing.name == PEER}
    assert ran == {"1 estimators": True, "10 estimators": False}


@pytest.mark.parametrize("kind", [kind for kind in AXES if kind.name == "axis-ties"])
def test_levels_are_as_many_as_the_axis_says(kind: type[Suite]):
    suite = kind()
    suite.shrink()
    for place in suite.params:
        score, _ = suite.draw(place)
        _, times = np.unique(score, return_counts=True)
        assert times.size == place
        assert np.ptp(times) <= 1


# Crossings


def test_crossings_of_known_functions():
    places = [1, 10, 100, 1000]
    ratios = [place / 50 for place in places]
    assert crossings(places, ratios) == pytest.approx([50])
    assert crossings(places, [0.5, 0.9, 0.8, 0.7]) == []
    assert len(crossings(places, [0.5, 2, 0.5, 2])) == 3
    assert crossings(places, [0.5, 1, 2, 4]) == pytest.approx([10])


def known(used: float) -> Measured:
    """A way that takes as long as the place says, and one that always takes as long as 50; two rounds."""
    places = [1.0, 10.0, 100.0, 1000.0]
    seconds = {
        "grows": [[place, 1.1 * place] for place in places],
        "stays": [[50.0, 50.0] for _ in places],
        "third": [[100.0, 100.0], [5.0, 5.0], [25.0, 25.0], [5.0, 5.0]],
    }
    return Measured("known", "places", "MADE.UP", used, places, seconds)


def test_crossing_its_range_and_what_the_constant_costs():
    measured = known(used=10)
    assert measured.crossing() == pytest.approx([50 / 1.05], rel=1e-3)
    assert measured.range_of_crossing() == pytest.approx((50 / 1.1, 50))
    assert measured.loss() == (1.0, 1000.0)
    loss, place = known(used=100).loss()
    assert (loss, place) == (pytest.approx(2.1, rel=0.01), 100.0)
    loss, place = known(used=0.5).loss()
    assert (loss, place) == (pytest.approx(50 / 1.05, rel=0.01), 1.0)


def test_a_third_way_that_beats_both_is_named():
    # In logarithms, the gain passes 1 at 0.86 of the way from 1 (0.0105) to 10 (2.1).
    assert list(crossovers.candidates(known(10))) == ["third from 7.24"]


def test_the_best_place_of_one_way():
    measured = Measured("one", "bytes", "MADE.UP", 2.0, [1.0, 2.0, 4.0], {"way": [[3.0], [2.5], [2.0]]})
    assert (measured.best(), measured.loss()) == (4.0, (1.25, 2.0))
    assert crossovers.said(measured).startswith("fastest at 4; the code: 2; at worst 1.25 times the best")


def test_ways_are_timed_in_turns_at_every_place():
    now = 0.0

    def takes(seconds: float):
        def call() -> float:
            nonlocal now
            now += seconds
            order.append(seconds)
            return 1.0

        return call

    order: list[float] = []
    found = crossovers.seconds_in_turns({"a": takes(0.5), "b": takes(2.0)}, 3, clock=lambda: now)
    assert found == {"a": [0.5] * 3, "b": [2.0] * 3}
    assert order[2:] == [0.5, 2.0] * 3


def test_ways_that_disagree_are_an_error():
    with pytest.raises(RuntimeError, match=r"second differs by 1\.0e-01"):
        crossovers.check_agreement({"first": lambda: [0.5], "drawn": lambda: None, "second": lambda: [0.6]})


def test_constants_are_set_for_a_while_and_must_exist():
    before = rows.SHORT
    seen = crossovers.forced(rows, lambda: rows.SHORT, SHORT=1)
    assert seen() == 1
    assert before == rows.SHORT
    with pytest.raises(ZeroDivisionError):
        crossovers.forced(rows, lambda: 1 / 0, SHORT=1)()
    assert before == rows.SHORT
    with pytest.raises(AttributeError), crossovers.constants(rows, NO_SUCH=1):
        pass


@pytest.mark.parametrize("crossover", crossovers.small_crossovers(), ids=lambda crossover: crossover.name)
def test_crossover_runs_and_its_ways_agree(crossover: Crossover, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(crossovers, "SHORTEST_SAMPLE", 0.0)
    measured = crossovers.measure(crossover, rounds=1)
    assert all(len(seconds) == len(crossover.places) for seconds in measured.seconds.values())
    assert measured.name in crossovers.as_markdown([measured])
    assert crossovers.said(measured) in "\n".join(crossovers.as_lines(measured))


def test_gaps_and_sorting_are_indeed_two_ways(monkeypatch: pytest.MonkeyPatch):
    """Only one of them counts in gaps."""
    from aucpr_dask.kernels.areas import long

    ways = []

    def spied(positives, others, is_sorted, *rest):
        ways.append(is_sorted)
        return true_long_row(positives, others, is_sorted, *rest)

    true_long_row = long.long_row
    monkeypatch.setattr(long, "long_row", spied)
    calls = crossovers.few_positives(5000, "float64").prepare(0.01)
    for call, by_gaps in zip(calls.values(), (True, False), strict=True):
        ways.clear()
        call()
        assert (False in ways) == by_gaps


# Constants that are compiled


@pytest.mark.parametrize("constant", variants.CONSTANTS, ids=lambda constant: f"{constant.module}.{constant.name}")
def test_one_line_sets_each_compiled_constant(constant: variants.Constant, tmp_path: Path):
    source = (variants.PACKAGE / "kernels" / f"{constant.module}.py").read_text()
    lines = set(variants.changed(source, constant.name, "12345").splitlines()) - set(source.splitlines())
    assert lines == {f"{constant.name} = 12345"}
    assert constant.used() in constant.all_values()
    assert constant.workload in variants.WORKLOADS


def test_a_constant_that_is_not_there_is_an_error():
    with pytest.raises(ValueError, match="0 lines set LANES"):
        variants.changed("LANES_OF = 3\n", "LANES", "1")


@pytest.mark.slow
@pytest.mark.nightly
def test_variants_are_compiled_and_timed_apart():
    constant = variants.Constant("ranking", "SEGMENT", (256,), "short_rankings")
    measured = crossovers.measure_compiled(constant, rounds=2)
    assert measured.places == sorted({256.0, float(constant.used())})
    assert [len(seconds) for seconds in measured.seconds["this value"]] == [2] * len(measured.places)
    assert measured.loss()[0] >= 1


# Candidates


@pytest.mark.parametrize("way", [by_radix_sort, by_sorted_keys])
def test_candidates_compute_average_precision(way):
    random = np.random.default_rng(5)
    label = (random.random(3000) < 0.2).astype(np.int8)
    for score in (random.standard_normal(3000), random.integers(-3, 3, 3000), np.where(label, -0.0, 0.0)):
        score = score.astype(np.float32)
        assert way(score, label) == pytest.approx(float(ap.estimate(score, label)), abs=1e-13)


def test_chains_have_the_mean_and_spread_of_multiplicities():
    score, label = crossovers.draw(1, 2000, 0.05, "float64")
    n = 4000
    chains = by_chains(score[0], label, n, np.random.default_rng(6))
    random = np.random.default_rng(7)
    strata = [np.flatnonzero(label == side) for side in (0, 1)]
    drawn = [np.concatenate([random.choice(items, items.size) for items in strata]) for _ in range(n)]
    copies = ap.estimate(np.stack([score[0][items] for items in drawn]), np.stack([label[items] for items in drawn]))
    error = np.hypot(chains.std(), copies.std()) / n**0.5
    # Ties between copies of one positive are broken by the chains as blocks do, so that both are the same quantity.
    assert abs(chains.mean() - copies.mean()) < 4 * error
    assert chains.std() == pytest.approx(copies.std(), rel=0.08)


# Pictures


def figures(suites: tuple[str, ...] = tuple(pictures.TITLES)) -> dict[str, Figures]:
    """Return figures in which ours grows with the power 1 and the peer with 2, at three places."""
    found = {}
    for suite in suites:
        timings = [
            Timing(suite, f"{10**power:,} things", name, "", "", seconds=[scale * 10.0 ** (exponent * power)])
            for name, scale, exponent in ((OURS, 1e-5, 1), (PEER, 2e-5, 2), (SORT, 1.0001e-5, 1))
            for power in range(4)
        ]
        found[suite] = Figures("title", "explanation", {}, 1, [], "", timings)
    return found


def test_picture_is_drawn_from_figures_the_same_each_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_figures(tmp_path / "figures.json", figures())
    drawn = [tmp_path / "one.svg", tmp_path / "two.svg"]
    for path in drawn:
        assert pictures.main([str(tmp_path / "figures.json"), str(path)]) == 0
    assert drawn[0].read_bytes() == drawn[1].read_bytes()
    assert ElementTree.parse(drawn[0]).getroot().tag.endswith("svg")
    assert str(drawn[1]) in capsys.readouterr().out


def test_panels_show_every_curve_with_its_exponent_and_no_two_overlap():
    mpl.use("Agg")
    drawing = pictures.draw(figures())
    drawing.canvas.draw()
    assert [ax.get_title(loc="left") for ax in drawing.axes] == list(pictures.TITLES.values())
    for ax in drawing.axes:
        assert [list(line.get_xdata()) for line in ax.lines] == [[1, 10, 100, 1000]] * 3
        boxes = {text.get_text(): text.get_window_extent() for text in ax.texts}
        assert [text.get_text() for text in ax.texts].count("1.00") == 2
        assert set(boxes) == {"1.00", "2.00"}
        extents = [text.get_window_extent() for text in ax.texts]
        assert not any(a.overlaps(b) for i, a in enumerate(extents) for b in extents[:i])
    mpl.pyplot.close("all")


def test_picture_without_curves_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_figures(tmp_path / "figures.json", {"other": figures(("other",))["other"]})
    with pytest.raises(SystemExit):
        pictures.main([str(tmp_path / "figures.json"), str(tmp_path / "picture.svg")])
    assert "no timings of axis-items-0.1" in capsys.readouterr().err


@pytest.mark.parametrize("heights", [[0.5, 0.5, 0.5], [0.0, 0.3, 0.31, 0.9], [0.1, 0.15, 0.19, 0.6]])
def test_labels_are_moved_apart_and_no_further(heights: list[float]):
    moved = pictures.spread(heights, 0.1)
    assert np.diff(moved).min() >= 0.1 - 1e-9
    assert np.mean(moved) == pytest.approx(np.mean(heights))
    alone = [height for height in heights if sum(abs(height - other) < 0.2 for other in heights) == 1]
    assert set(alone) <= set(moved)


# The page


def test_page_has_a_place_for_every_axis():
    page = (ROOT / "docs" / "cost-curves.md").read_text()
    for kind in AXES:
        assert f"<!-- speed: {kind.name} -->" in page
    for name in ("meaning", "exponents", "crossovers"):
        body = re.search(rf"<!-- begin generated: {name} -->(.*?)<!-- end generated: {name} -->", page, re.DOTALL)
        assert body
        assert body[1].strip(), f"{name} is empty"


def test_crossovers_are_written_as_json_and_markdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    files = {"--json": tmp_path / "crossovers.json", "--markdown": tmp_path / "crossovers.md"}
    arguments = [str(part) for pair in files.items() for part in pair]
    assert crossovers.main(["--small", "--rounds", "1", "--only", "rows.CACHE", *arguments]) == 0
    (record,) = json.loads(files["--json"].read_text())["crossovers"]
    assert Measured(**record).used == rows.CACHE_ITEMS
    assert record["name"] in files["--markdown"].read_text()
    assert "fastest at" in capsys.readouterr().out
