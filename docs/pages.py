"""Markdown tables, and the generated parts of the pages in this folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

HERE = Path(__file__).parent


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def block(page: Path, name: str) -> str:
    """Return the text between the markers called `name`."""
    return _split(page, name)[1].strip()


def write_block(page: Path, name: str, text: str) -> None:
    """Put `text` between the markers called `name`."""
    before, _, after = _split(page, name)
    page.write_text(f"{before}\n\n{text.strip()}\n\n{after}")


def _split(page: Path, name: str) -> tuple[str, str, str]:
    begin, end = (f"<!-- {edge} generated: {name} -->" for edge in ("begin", "end"))
    before, found, rest = page.read_text().partition(begin)
    text, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{page} has no block {name!r}")
    return before + begin, text, end + after
