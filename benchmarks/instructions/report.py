"""Counts as a table and as a document for programs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.instructions.callgrind import KERNELS, NUMPY, OTHERS, Count, Counts
from benchmarks.instructions.workloads import IMPORT, WORKLOADS

MILLION = 1_000_000


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, to_the_right: bool = True) -> str:
    """Return a Markdown table; figures stand to the right, words do not."""
    ruler = ["---", *["---:" if to_the_right else "---"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, ruler, *rows))


def as_markdown(counts: Counts) -> str:
    """Return instructions per unit and by owner, the repeats' spread beside them."""
    header = ("instructions", "per", "all", "kernels", "NumPy", "others", "repeats differ by")
    rows = [_row(count) for count in counts.of.values()]
    notes = [f"* {name}: not counted, {why}" for name, why in counts.errors.items()]
    return "\n".join([table(header, rows), *(["", *notes] if notes else []), ""])


def as_json(counts: Counts) -> str:
    """Return everything that was counted."""
    found = [dataclasses.asdict(count) | {"units": units_of(count.name)[1]} for count in counts.of.values()]
    return json.dumps({"counts": found, "errors": counts.errors}, indent=2) + "\n"


def read_counts(file: Path) -> Counts:
    """Return the counts that `as_json` wrote."""
    found = json.loads(file.read_text(encoding="utf-8"))
    names = [field.name for field in dataclasses.fields(Count)]
    counts = (Count(**{name: count[name] for name in names}) for count in found["counts"])
    return Counts({count.name: count for count in counts}, found["errors"])


def units_of(name: str) -> tuple[str, int]:
    """Return what the instructions of a workload are divided by, and how many of them there are."""
    if name == IMPORT:
        return "import", 1
    return WORKLOADS[name].unit, WORKLOADS[name].units


def _row(count: Count) -> tuple[str, ...]:
    unit, units = units_of(count.name)
    per_unit = [count.instructions, *(count.by_owner[owner] for owner in (KERNELS, NUMPY, OTHERS))]
    spread = f"{100 * count.spread:.2f} %" if count.name != IMPORT else "once"
    return (count.name, unit, *(as_figure(n / units) for n in per_unit), spread)


def as_figure(number: float) -> str:
    """Return a number to three or four digits, large ones in millions."""
    if number >= MILLION:
        return f"{number / MILLION:.3g} M" if number < 1000 * MILLION else f"{number / MILLION:,.0f} M"
    return f"{number:.3g}" if number < 100 else f"{number:,.0f}"
