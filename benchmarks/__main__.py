"""Run the suites, and write what they gave into the pages.

``python -m benchmarks [--suite NAME] [--rounds N] [--small] [--json FILE] [--markdown FILE]`` measures;
``python -m benchmarks --tables-from FILE`` writes the figures of a JSON into the tables of README.md and docs/.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.contenders import Suite
from benchmarks.figures import Figures, figures_of, noise, read_figures, titled, write_figures
from benchmarks.machine import describe_machine, use_one_thread
from benchmarks.measure import Timing, measure
from benchmarks.report import as_line, as_markdown, calls
from benchmarks.suites import SUITES
from benchmarks.tables import filled_pages

ROOT = Path(__file__).parents[1]


def main() -> int:
    """Do what the command line asks for; the exit status says whether all estimates agreed."""
    options = _parse()
    if options.tables_from is not None:
        return _fill_tables(options.tables_from)
    use_one_thread()
    machine = describe_machine()
    for what, value in machine.items():
        print(f"{what}: {value}")
    all_figures = []
    for suite in map(_sized(options), _chosen(options)):
        figures = figures_of(suite, _run(suite, options.rounds), machine, options.rounds)
        _print_conclusions(figures)
        all_figures.append(figures)
        if options.json is not None:  # after every suite: a long run that is stopped keeps what it measured
            write_figures(options.json, {suite.name: figures})
    if options.markdown is not None:
        options.markdown.write_text(as_markdown(all_figures), encoding="utf-8")
    timings = [timing for figures in all_figures for timing in figures.timings]
    print(f"\nnoise: slowest / fastest round of the same call up to {noise(timings):.2f}")
    return 0 if all(timing.agrees is not False for timing in timings) else 1


def _run(suite: Suite, rounds: int) -> list[Timing]:
    print(f"\n{titled(suite)}\n{suite.explanation}")
    timings: list[Timing] = []
    case = None
    for timing in measure(suite, rounds):
        if timing.case != case:
            case = timing.case
            print(
                f" {case}: median per {timing.unit}; peak memory of a call; relative to the first line "
                f"(range over {rounds} rounds), or the first line relative to the floor; agreement"
            )
        print(as_line(timing), flush=True)
        timings.append(timing)
    return timings


def _print_conclusions(figures: Figures) -> None:
    if figures.no_memory:
        print(f"  peak memory is not measured: {figures.no_memory}")
    print("\n".join([*(f"  -> {finding}" for finding in figures.findings), " calls", *calls(figures.timings)]))


def _fill_tables(path: Path) -> int:
    """Write the figures of a file into the pages that have marks for them."""
    for page, text in filled_pages(ROOT, read_figures(path)):
        page.write_text(text, encoding="utf-8")
        print(page)
    return 0


def _chosen(options: argparse.Namespace) -> list[type[Suite]]:
    return [suite for suite in SUITES if not options.suite or suite.name in options.suite]


def _sized(options: argparse.Namespace) -> Callable[[type[Suite]], Suite]:
    """Return what makes a suite of the sizes that the command line asks for."""
    asked = {name: getattr(options, name) for name in ("n_items", "n_models", "n_runs", "n_tasks")}

    def make(kind: type[Suite]) -> Suite:
        suite = kind()
        if options.small:
            suite.shrink()
        for name, size in asked.items():
            if size and hasattr(suite, name):
                setattr(suite, name, size)
        return suite

    return make


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Time this package beside its peers.")
    names = [suite.name for suite in SUITES]
    parser.add_argument("--suite", action="append", choices=names, help="a suite to run; again for more; default all")
    parser.add_argument("--rounds", type=int, default=7, help="how often each pair is timed (default 7)")
    parser.add_argument("--small", action="store_true", help="tiny sizes: checks that everything runs")
    parser.add_argument("--items", dest="n_items", type=int, help="items per ranking (all but per-query, cold-start)")
    parser.add_argument("--models", dest="n_models", type=int, help="models in the store (store-to-store, scaling)")
    parser.add_argument("--runs", dest="n_runs", type=int, help="runs (per-query)")
    parser.add_argument("--tasks", dest="n_tasks", type=int, help="tasks (scheduler)")
    parser.add_argument(
        "--json",
        metavar="FILE",
        type=Path,
        help="write every timing of every round here; the figures of suites that did not run stay in the file",
    )
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="write the tables of what ran here")
    parser.add_argument(
        "--tables-from",
        metavar="FILE",
        type=Path,
        help="run nothing; write the figures of this JSON into the pages",
    )
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if options.tables_from is not None and not options.tables_from.exists():
        parser.error(f"there is no file {options.tables_from}")
    return options


if __name__ == "__main__":
    sys.exit(main())
