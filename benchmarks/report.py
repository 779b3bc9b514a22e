"""The same figures for a terminal, for a README and for a program."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.contenders import Suite
from benchmarks.measure import Timing


def titled(suite: Suite) -> str:
    """Return the suite's title with its sizes filled in."""
    sizes = {name: getattr(suite, name) for name in dir(suite) if name.startswith("n_")}
    return suite.title.format(**sizes)


def as_line(timing: Timing) -> str:
    """Return one contender of one case as a line of text."""
    if timing.skipped:
        return f"  {timing.name:<30} skipped, {timing.skipped}"
    return f"  {timing.name:<30} {_seconds(timing.median):>9}   {_ratio(timing):<26} {_agreement(timing)}".rstrip()


def calls(timings: list[Timing]) -> list[str]:
    """Return each contender's call and the versions behind it."""
    lines = (f"* {t.name}: `{t.call}`{f' ({t.versions})' if t.versions else ''}" for t in timings)
    return list(dict.fromkeys(lines))


def findings(suite: Suite, timings: list[Timing]) -> Iterator[str]:
    """Yield what follows from the timings of each case."""
    for case in dict.fromkeys(timing.case for timing in timings):
        ran = [timing for timing in timings if timing.case == case and timing.seconds]
        if ran:
            yield from suite.findings(ran)


def as_markdown(suites: dict[str, Suite], timings: list[Timing], machine: dict[str, str], rounds: int) -> str:
    """Return one table per suite, the calls behind each line, and the machine."""
    lines: list[str] = []
    for name, suite in suites.items():
        lines += _table(suite, [timing for timing in timings if timing.suite == name])
    lines.append(
        f"Medians of {rounds} rounds; in brackets the time relative to the first line of the table and its range "
        "over the rounds, each measured right after a run of the first line."
    )
    return "\n".join([*lines, "", *(f"* {what}: {value}" for what, value in machine.items()), ""])


def as_json(timings: list[Timing], machine: dict[str, str], rounds: int) -> str:
    """Return everything, every round of every timing included."""
    figures = [_with_summary(timing) for timing in timings]
    return json.dumps({"machine": machine, "rounds": rounds, "timings": figures}, indent=2, ensure_ascii=False) + "\n"


def write(path: str | None, text: str) -> None:
    """Write `text` to `path`, if there is one."""
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")


def noise(timings: Iterable[Timing]) -> str:
    """Return how much the first contender of each case, which runs most often, varied."""
    spreads = [max(timing.seconds) / min(timing.seconds) for timing in timings if timing.seconds and not timing.ratios]
    return f"slowest / fastest round of the same call: up to {max(spreads):.2f}" if spreads else "nothing was timed"


def _table(suite: Suite, timings: list[Timing]) -> Iterator[str]:
    cases = list(dict.fromkeys(timing.case for timing in timings))
    rows: dict[str, list[Timing]] = {}
    for timing in timings:
        rows.setdefault(timing.name, []).append(timing)
    yield from (f"**{titled(suite)}**", "")
    yield f"| | {' | '.join(cases)} |"
    yield f"|---|{'---:|' * len(cases)}"
    for name, row in rows.items():
        yield f"| {name} | {' | '.join(map(_cell, row))} |"
    yield from ("", suite.explanation, "")
    yield from (
        *calls(timings),
        *(f"* {finding}" for finding in findings(suite, timings)),
        *_disagreements(timings),
        "",
    )


def _disagreements(timings: list[Timing]) -> Iterator[str]:
    compared = [timing for timing in timings if timing.agrees is not None]
    for timing in compared:
        if not timing.agrees:
            yield f"* **{timing.name} differs at {timing.case}**: {_agreement(timing)}"
    if compared and all(timing.agrees for timing in compared):
        largest = max(timing.difference or 0.0 for timing in compared)
        yield f"* All estimates agree; largest difference {largest:.1e}."


def _cell(timing: Timing) -> str:
    if timing.skipped:
        return "not installed"
    return _seconds(timing.median) + (f" ({_ratio(timing)})" if timing.ratios else "")


def _ratio(timing: Timing) -> str:
    if timing.ratio is None:
        return ""
    return (
        f"{_three_digits(timing.ratio)} x, {_three_digits(min(timing.ratios))} to {_three_digits(max(timing.ratios))}"
    )


def _agreement(timing: Timing) -> str:
    if timing.agrees is None:
        return ""
    verdict = "agrees" if timing.agrees else "DISAGREES"
    return f"{verdict}: differs by {timing.difference:.1e}, allowed {timing.tolerance:.0e}"


def _seconds(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def _with_summary(timing: Timing) -> dict[str, Any]:
    summary = {"median": timing.median if timing.seconds else None, "ratio": timing.ratio, "agrees": timing.agrees}
    return dataclasses.asdict(timing) | summary


def _three_digits(ratio: float) -> str:
    """Return a ratio to three digits, never as a power of ten."""
    digits = 3 if ratio < 999.5 else 0
    return f"{ratio:.{digits}g}" if digits else f"{float(f'{ratio:.3g}'):,.0f}"
