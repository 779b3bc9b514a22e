"""Fill the marked places of a page with figures.

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

import re
import statistics
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness.figures import Figures
from benchmarks.harness.report import LEGEND, machine, section, table

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
        return machine(suites[name] for name in others or suites if name in suites) if suites else UNKNOWN
    if first == "ratio":
        return _ratio(suites, *others)
    if first not in suites:
        return UNKNOWN
    return table(suites[first], others) if others else section(suites[first])


def _ratio(suites: dict[str, Figures], suite: str, case: str, name: str) -> str:
    """Return two digits of a ratio."""
    if suite not in suites:
        return UNKNOWN
    timing = next(timing for timing in suites[suite].timings if (timing.case, timing.name) == (case, name))
    values = timing.distances or timing.ratios
    if not values:
        return UNKNOWN
    two_digits = f"{statistics.median(values):.2g}"
    return f"{float(two_digits):,.0f}" if float(two_digits) >= 10 else two_digits
