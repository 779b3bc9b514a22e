"""The measurements of a suite, kept as JSON, and as text: lines for a terminal, tables in the marked places of pages.

A mark is an HTML comment; the text between it and the next ``<!-- end -->`` is replaced:

``<!-- speed: SUITE -->``
    the explanation of a suite, its full table, the calls and the findings
``<!-- speed: SUITE | NAME | NAME -->``
    only the times of some contenders
``<!-- speed: machine -->``, ``<!-- speed: machine | SUITE | SUITE -->``
    the origin of the figures
``<!-- speed: legend -->``
    how to read the tables
``<!-- speed: ratio; SUITE; CASE; NAME -->``
    within a line: a contender's time relative to ours; for a floor, our time relative to it. Inside a table a mark
    separates its parts by ``;``, because ``|`` would end the cell
"""

from __future__ import annotations

import dataclasses
import json
import re
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measuring import Timing
from benchmarks.suite import Suite

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


# Text

TIMES, TO = "\N{MULTIPLICATION SIGN}", "\N{EN DASH}"
MIB = 2**20

LEGEND = (
    "Each cell has the time relative to the first line, with its range over the rounds "
    f"(41{TIMES}, 40{TO}42), and then the median time; each run was measured right after one of the first line. Floors "
    "are parts of the work that no method can avoid; they compute no estimate, and their cells say how many times as "
    "long the first line takes. Peak memory is the largest increase, over the cases, of the resident memory of the "
    "processes that work for one call; inputs, imported libraries and memory kept from earlier calls do not count."
)


def as_line(timing: Timing) -> str:
    """Return one contender of one case as a line of text."""
    name = row_name(timing)
    if timing.skipped:
        return f"  {name:<34} skipped, {timing.skipped}"
    columns = f"{seconds(timing.median):>9}  {memory([timing]):>9}   {comparison(timing):<28}"
    return f"  {name:<34} {columns} {_agreement(timing)}".rstrip()


def calls(timings: Iterable[Timing]) -> list[str]:
    """Return each contender's call, with the versions it used."""
    lines = (f"* {row_name(t)}: `{t.call}`{f' ({t.versions})' if t.versions else ''}" for t in timings)
    return list(dict.fromkeys(lines))


def section(figures: Figures) -> str:
    """Return the explanation of a suite, its table, the call of each line, and the findings."""
    said = [*calls(figures.timings), *(f"* {finding}" for finding in figures.findings), *_disagreements(figures)]
    if figures.no_memory:
        said.append(f"* Peak memory is not measured here: {figures.no_memory}.")
    return "\n".join([figures.explanation, "", table(figures), "", *said])


def table(figures: Figures, names: Sequence[str] = ()) -> str:
    """Return the times of some contenders; of all, with peak memory and agreement, if none is named."""
    rows = figures.rows
    grid = [[figures.title, *figures.cases]]
    for name in names or rows:
        by_case = {timing.case: timing for timing in rows[name]}
        cells = [_cell(by_case[case]) if case in by_case else "" for case in figures.cases]
        grid.append([row_name(rows[name][0]), *cells])
    if not names:
        grid[0] += ["peak memory", "differs by"]
        for line, row in zip(grid[1:], rows.values(), strict=True):
            line += [memory(row), _largest_difference(row)]
        grid = _without_empty_columns(grid)
    header, *lines = (f"| {' | '.join(line)} |" for line in grid)
    return "\n".join([header, f"|---|{'---:|' * (len(grid[0]) - 1)}", *lines])


def origin(suites: Iterable[Figures]) -> str:
    """Return the origin of the figures: one sentence each for machine, versions and noise."""
    suites = list(suites)
    rounds = sorted({figures.rounds for figures in suites})
    days = sorted({figures.machine["date"][:10] for figures in suites if "date" in figures.machine})
    systems = _distinct(figures.machine.get("system", "") for figures in suites)
    ours = _distinct(version for figures in suites for version in figures.machine.get("versions", "").split(", "))
    peers = _distinct(version for figures in suites for t in figures.timings for version in t.versions.split(", "))
    versions = _distinct([*ours, *peers])
    varied = max((noise(figures.timings) for figures in suites), default=1.0)
    places = " and ".join(_distinct(figures.machine.get("processor", "") for figures in suites))
    return (
        f"Medians of {_range(rounds)} rounds on {places}, {_range(days)}, {', '.join(systems)}. "
        f"Versions: {', '.join(versions)}. The same call varied by a factor of up to {varied:.2g}."
    )


def row_name(timing: Timing) -> str:
    """Return the name of a contender in the tables."""
    return f"floor: {timing.name}" if timing.is_floor else timing.name


def comparison(timing: Timing) -> str:
    """Return the ratio to the first line and its range; for a floor, the ratio of the first line to it."""
    values, prefix = (timing.distances, "ours ") if timing.is_floor else (timing.ratios, "")
    if not values:
        return ""
    values = sorted(values)
    middle = (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2
    return f"{prefix}{three_digits(middle)}{TIMES}, {three_digits(values[0])}{TO}{three_digits(values[-1])}"


def seconds(value: float) -> str:
    """Return a time to three digits in a suitable unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size:
            return f"{three_digits(value / size)} {unit}"
    return f"{three_digits(value / 1e-9)} ns"


def memory(row: Iterable[Timing]) -> str:
    """Return the largest peak memory of a contender."""
    peaks = [timing.peak for timing in row if timing.peak is not None]
    if not peaks:
        return ""
    mib = max(peaks) / MIB
    return f"{three_digits(mib)} MiB" if mib >= 1 else "< 1 MiB"


def three_digits(value: float) -> str:
    """Return a number to three digits, never in scientific notation."""
    return f"{value:.3g}" if value < 999.5 else f"{float(f'{value:.3g}'):,.0f}"


def _cell(timing: Timing) -> str:
    if timing.skipped:
        return timing.skipped.partition(":")[0]
    relative = comparison(timing)
    return f"{relative}; {seconds(timing.median)}" if relative else seconds(timing.median)


def _agreement(timing: Timing) -> str:
    if timing.difference is None:
        return ""
    if timing.tolerance is None:
        return f"approximates: differs by {timing.difference:.1e}"
    verdict = "agrees" if timing.agrees else "DISAGREES"
    return f"{verdict}: differs by {timing.difference:.1e}, allowed {timing.tolerance:.0e}"


def _largest_difference(row: Iterable[Timing]) -> str:
    differences = [timing.difference for timing in row if timing.difference is not None]
    return f"{max(differences):.1e}" if differences else ""


def _disagreements(figures: Figures) -> Iterator[str]:
    compared = [timing for timing in figures.timings if timing.agrees is not None]
    for timing in compared:
        if not timing.agrees:
            yield f"* **{timing.name} differs at {timing.case}**: {_agreement(timing)}"
    if compared and all(timing.agrees for timing in compared):
        largest = max(timing.difference or 0.0 for timing in compared)
        yield f"* All contenders that compute the same number agree; the largest difference is {largest:.1e}."


def _without_empty_columns(grid: list[list[str]]) -> list[list[str]]:
    columns = [column for column in zip(*grid, strict=True) if any(column[1:])]
    return [list(line) for line in zip(*columns, strict=True)]


def _distinct(values: Iterable[str]) -> list[str]:
    return [value for value in dict.fromkeys(values) if value]


def _range(values: Sequence[object]) -> str:
    if len(values) < 2:
        return str(values[0]) if values else "?"
    return f"{values[0]} to {values[-1]}"


# Marked pages

MARK = re.compile(r"(<!-- speed: (?P<what>[^>]*?) -->)(?P<old>.*?)(<!-- end -->)", re.DOTALL)
UNKNOWN = "*Not measured yet.*"


def filled_pages(root: Path, suites: dict[str, Figures]) -> Iterator[tuple[Path, str]]:
    """Yield every page of a checkout that has marks, and its text with the figures."""
    for page in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        if MARK.search(text):
            yield page, fill(text, suites)


def fill(text: str, suites: dict[str, Figures]) -> str:
    """Return `text` with the figures of `suites` at its marks."""

    def replace(found: re.Match[str]) -> str:
        space = "\n" if "\n" in found["old"] else ""
        return f"{found[1]}{space}{_content(found['what'], suites)}{space}{found[4]}"

    return MARK.sub(replace, text)


def _content(what: str, suites: dict[str, Figures]) -> str:
    first, *others = (part.strip() for part in re.split("[|;]", what))
    if first == "legend":
        return LEGEND
    if first == "machine":
        return origin(suites[name] for name in others or suites if name in suites) if suites else UNKNOWN
    if first == "ratio":
        return _ratio_at(suites, *others)
    if first not in suites:
        return UNKNOWN
    return table(suites[first], others) if others else section(suites[first])


def _ratio_at(suites: dict[str, Figures], suite: str, case: str, name: str) -> str:
    """Return two digits of a ratio."""
    if suite not in suites:
        return UNKNOWN
    timing = next(timing for timing in suites[suite].timings if (timing.case, timing.name) == (case, name))
    values = timing.distances or timing.ratios
    if not values:
        return UNKNOWN
    two_digits = f"{statistics.median(values):.2g}"
    return f"{float(two_digits):,.0f}" if float(two_digits) >= 10 else two_digits
