"""Time the suites, and write the figures into the pages.

``python -m benchmarks [--suite NAME] [--rounds N] [--small] [--avx2] [--json FILE]`` measures and prints ratios;
``python -m benchmarks --tables-from FILE`` writes the figures of a JSON file into the tables of README.md and docs/.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from aucpr_dask.kernels.compiling import compile_all
from benchmarks import figures as pages
from benchmarks.measuring import AVX2, Timing, describe_machine, measure, use_threads
from benchmarks.suite import Suite
from benchmarks.suites import SUITES

ROOT = Path(__file__).parents[1]
SIZES = ("items", "models", "runs")


def main() -> int:
    """Run the command line; the exit status is 1 if two contenders disagree."""
    options = _parse()
    if options.tables_from is not None:
        return _fill_tables(options.tables_from)
    if options.avx2 and not AVX2.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks", *sys.argv[1:]], os.environ | AVX2)
    use_threads()
    compile_all()
    machine = describe_machine()
    for what, value in machine.items():
        print(f"{what}: {value}")
    timings = []
    for kind in SUITES:
        if options.suite and kind.name not in options.suite:
            continue
        suite = _sized(kind, options)
        figures = pages.figures_of(suite, _run(suite, options.rounds), machine, options.rounds)
        _print_conclusions(figures)
        timings += figures.timings
        if options.json is not None:  # after every suite, so that an interrupted run keeps its measurements
            pages.write_figures(options.json, {f"{suite.name}, AVX2" if options.avx2 else suite.name: figures})
    print(f"\nnoise: slowest / fastest round of the same call up to {pages.noise(timings):.2f}")
    return 0 if all(timing.agrees is not False for timing in timings) else 1


def _run(suite: Suite, rounds: int) -> list[Timing]:
    print(f"\n{pages.titled(suite)}\n{suite.explanation}")
    timings: list[Timing] = []
    case = None
    for timing in measure(suite, rounds):
        if timing.case != case:
            case = timing.case
            print(
                f" {case}: median per {timing.unit}; peak memory of a call; time relative to the first line (range "
                f"over {rounds} rounds), or for a floor the first line relative to it; agreement"
            )
        print(pages.as_line(timing), flush=True)
        timings.append(timing)
    return timings


def _print_conclusions(figures: pages.Figures) -> None:
    if figures.no_memory:
        print(f"  peak memory is not measured: {figures.no_memory}")
    print("\n".join([*(f"  -> {finding}" for finding in figures.findings), " calls", *pages.calls(figures.timings)]))


def _fill_tables(path: Path) -> int:
    """Write the figures of a file into the marked pages."""
    for page, text in pages.filled_pages(ROOT, pages.read_figures(path)):
        page.write_text(text, encoding="utf-8")
        print(page)
    return 0


def _sized(kind: type[Suite], options: argparse.Namespace) -> Suite:
    """Return a suite of the sizes on the command line."""
    suite = kind()
    if options.small:
        suite.shrink()
    for name in SIZES:
        size = getattr(options, name)
        if size and hasattr(suite, f"n_{name}"):
            setattr(suite, f"n_{name}", size)
    return suite


def _parse() -> argparse.Namespace:
    names = [suite.name for suite in SUITES]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Time this package against its peers and print ratios.",
        epilog=f"Suites: {', '.join(names)}.",
    )
    parser.add_argument(
        "--suite", action="append", choices=names, metavar="NAME", help="a suite to run; repeatable; default all"
    )
    parser.add_argument("--rounds", type=int, default=7, help="times each pair is timed (default 7)")
    parser.add_argument("--small", action="store_true", help="tiny sizes, to check that everything runs")
    for name in SIZES:
        parser.add_argument(f"--{name}", type=int, metavar="N", help=f"number of {name}, in suites that have them")
    parser.add_argument("--avx2", action="store_true", help="measure without vectors of more than 256 bits")
    parser.add_argument(
        "--json", metavar="FILE", type=Path, help="write every timing to this file; its other suites are kept"
    )
    parser.add_argument(
        "--tables-from", metavar="FILE", type=Path, help="run nothing; write the figures of this JSON file to the pages"
    )
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if options.tables_from is not None and not options.tables_from.exists():
        parser.error(f"there is no file {options.tables_from}")
    return options


if __name__ == "__main__":
    sys.exit(main())
