"""Markdown tables, and the generated parts of the pages in this folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

HERE = Path(__file__).parent


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def write_block(page: Path, name: str, text: str) -> None:
    """Put `text` between the markers called `name`."""
    begin, end = (f"<!-- {edge} generated: {name} -->" for edge in ("begin", "end"))
    before, found, rest = page.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{page} has no block {name!r}")
    page.write_text(f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}")
