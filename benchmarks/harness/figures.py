"""The measurements of a suite and everything else its tables show, kept as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.contenders import Suite
from benchmarks.harness.measure import Timing

DIGITS = 6  # of every time in the file; tables show three, also of ratios


@dataclass
class Figures:
    """The timings of a suite, and the context needed to judge them."""

    title: str
    explanation: str
    machine: dict[str, str]
    rounds: int
    findings: list[str]
    no_memory: str
    timings: list[Timing]

    @property
    def name(self) -> str:
        """The suite's name."""
        return self.timings[0].suite

    @property
    def cases(self) -> list[str]:
        """The cases in their order."""
        return list(dict.fromkeys(timing.case for timing in self.timings))

    @property
    def rows(self) -> dict[str, list[Timing]]:
        """The timings of every contender."""
        rows: dict[str, list[Timing]] = {}
        for timing in self.timings:
            rows.setdefault(timing.name, []).append(timing)
        return rows


def figures_of(suite: Suite, timings: list[Timing], machine: dict[str, str], rounds: int) -> Figures:
    """Put together the figures of a suite."""
    found = list(findings(suite, timings))
    return Figures(titled(suite), suite.explanation, machine, rounds, found, suite.no_memory, timings)


def titled(suite: Suite) -> str:
    """Return the suite's title with its sizes filled in."""
    sizes = {name: getattr(suite, name) for name in dir(suite) if name.startswith("n_")}
    return suite.title.format(**sizes)


def findings(suite: Suite, timings: list[Timing]) -> Iterator[str]:
    """Yield the conclusions from the timings of each case."""
    for case in dict.fromkeys(timing.case for timing in timings):
        ran = [timing for timing in timings if timing.case == case and timing.seconds]
        if ran:
            yield from suite.findings(ran)


def noise(timings: Iterable[Timing]) -> float:
    """Return the slowest / fastest round of the first contender, which runs most often: the largest of all cases."""
    spreads = [max(timing.seconds) / min(timing.seconds) for timing in timings if timing.seconds and not timing.ratios]
    return max(spreads, default=1.0)


def read_figures(path: Path) -> dict[str, Figures]:
    """Return the figures of every suite in a file, by the suite's name; none if the file does not exist."""
    if not path.exists():
        return {}
    names = [field.name for field in dataclasses.fields(Timing)]
    suites: dict[str, Figures] = {}
    for name, record in json.loads(path.read_text(encoding="utf-8")).items():
        timings = [Timing(**{key: timing[key] for key in names if key in timing}) for timing in record.pop("timings")]
        suites[name] = Figures(**record, timings=timings)
    return suites


def write_figures(path: Path, new: dict[str, Figures]) -> None:
    """Write figures; those of other suites in the file stay."""
    path.write_text(as_json(read_figures(path) | new), encoding="utf-8")


def as_json(suites: dict[str, Figures]) -> str:
    """Return everything, including every round of every timing, with one line per timing."""
    records = []
    for name, figures in suites.items():
        record = {field.name: getattr(figures, field.name) for field in dataclasses.fields(figures)}
        timings = ",\n".join(f"   {_compact(_with_summary(timing))}" for timing in record.pop("timings"))
        fields = [f"  {_compact(key)}: {_compact(value)}" for key, value in record.items()]
        records.append(f" {_compact(name)}: {{\n" + ",\n".join(fields) + f',\n  "timings": [\n{timings}\n  ]\n }}')
    return "{\n" + ",\n".join(records) + "\n}\n"


def _with_summary(timing: Timing) -> dict[str, Any]:
    """Return the measurements, rounded, and their medians."""
    record = dataclasses.asdict(timing) | {
        "seconds": [_rounded(value) for value in timing.seconds],
        "ratios": [_rounded(value) for value in timing.ratios],
    }
    summary = {"median": timing.median if timing.seconds else None, "ratio": timing.ratio, "agrees": timing.agrees}
    return record | {key: _rounded(value) if isinstance(value, float) else value for key, value in summary.items()}


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
