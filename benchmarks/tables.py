"""Fill the places of a page that are marked for figures.

A mark is a comment of HTML, and what stands between it and the next ``<!-- end -->`` is written anew:

``<!-- speed: SUITE -->``
    all there is to say of a suite: the full table, the calls, what follows
``<!-- speed: SUITE | NAME | NAME -->``
    the times of some contenders alone
``<!-- speed: the rest -->``
    the suites that no page has a place for
``<!-- speed: machine -->``, ``<!-- speed: machine | SUITE | SUITE -->``
    where the figures come from
``<!-- speed: legend -->``
    how to read the tables
``<!-- speed: ratio; SUITE; CASE; NAME -->``
    within a line: how many times as long a contender takes as ours; for a floor, how many times as long ours takes.
    Inside a table a mark separates its parts by ``;``, because ``|`` would end the cell
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.figures import Figures
from benchmarks.report import LEGEND, machine, section, table

MARK = re.compile(r"(<!-- speed: (?P<what>[^>]*?) -->)(?P<old>.*?)(<!-- end -->)", re.DOTALL)
THE_REST, MACHINE, RATIO, ALL_ABOUT_READING = "the rest", "machine", "ratio", "legend"
UNKNOWN = "*Not measured yet.*"


def pages(root: Path) -> list[Path]:
    """Return the pages of a checkout that have such marks."""
    candidates = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    return [page for page in candidates if MARK.search(page.read_text(encoding="utf-8"))]


def filled_pages(root: Path, suites: dict[str, Figures]) -> Iterator[tuple[Path, str]]:
    """Yield every page that has marks, and what it should say."""
    texts = {page: page.read_text(encoding="utf-8") for page in pages(root)}
    placed = {what for text in texts.values() for what in map(str.strip, _marks(text))}
    rest = [name for name in suites if name not in placed]
    for page, text in texts.items():
        yield page, fill(text, suites, rest)


def fill(text: str, suites: dict[str, Figures], rest: Iterable[str] = ()) -> str:
    """Return `text` with the figures of `suites` at its marks; those of `rest` are nowhere else."""

    def replace(found: re.Match[str]) -> str:
        new = _content(found["what"], suites, rest)
        space = "\n" if "\n" in found["old"] else ""
        return f"{found[1]}{space}{new}{space}{found[4]}"

    return MARK.sub(replace, text)


def _marks(text: str) -> list[str]:
    return [found["what"] for found in MARK.finditer(text)]


def _content(what: str, suites: dict[str, Figures], rest: Iterable[str]) -> str:
    first, *others = (part.strip() for part in re.split("[|;]", what))
    if first == ALL_ABOUT_READING:
        return LEGEND
    if first == MACHINE:
        return machine(suites[name] for name in others or suites if name in suites) if suites else UNKNOWN
    if first == THE_REST:
        return "\n\n".join(f"### {name}\n\n{section(suites[name])}" for name in rest) or "None."
    if first == RATIO:
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
