"""Run the suites: ``python -m benchmarks [--suite NAME] [--rounds N] [--small] [--json FILE] [--markdown FILE]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from benchmarks.contenders import Suite
from benchmarks.machine import describe_machine, use_one_thread
from benchmarks.measure import Timing, measure
from benchmarks.report import as_json, as_line, as_markdown, calls, findings, noise, titled, write
from benchmarks.suites import SUITES


def main() -> int:
    """Run what the command line asks for; the exit status says whether all estimates agreed."""
    options = _parse()
    use_one_thread()
    machine = describe_machine()
    for what, value in machine.items():
        print(f"{what}: {value}")
    suites = {suite.name: suite for suite in map(_sized(options), _chosen(options))}
    timings = [timing for suite in suites.values() for timing in _run(suite, options.rounds)]
    machine["noise"] = noise(timings)
    print(f"\nnoise: {machine['noise']}")
    write(options.markdown, as_markdown(suites, timings, machine, options.rounds))
    write(options.json, as_json(timings, machine, options.rounds))
    return 0 if all(timing.agrees is not False for timing in timings) else 1


def _run(suite: Suite, rounds: int) -> list[Timing]:
    print(f"\n{titled(suite)}\n{suite.explanation}")
    timings: list[Timing] = []
    case = None
    for timing in measure(suite, rounds):
        if timing.case != case:
            case = timing.case
            print(
                f" {case}: median per {timing.unit}; relative to the first line (range over {rounds} rounds); agreement"
            )
        print(as_line(timing), flush=True)
        timings.append(timing)
    print("\n".join([*(f"  -> {finding}" for finding in findings(suite, timings)), " calls", *calls(timings)]))
    return timings


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
    parser.add_argument("--json", metavar="FILE", help="write every timing of every round here")
    parser.add_argument("--markdown", metavar="FILE", help="write tables such as those of docs/speed.md here")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return options


if __name__ == "__main__":
    sys.exit(main())
