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
    """Return what stands between the markers called `name`."""
    _, _, after = page.read_text().partition(_begin(name))
    text, end, _ = after.partition(_end(name))
    if not end:
        raise ValueError(f"{page} has no block {name!r}")
    return text.strip()


def write_block(page: Path, name: str, text: str) -> None:
    """Put `text` between the markers called `name`."""
    block(page, name)
    before, begin, after = page.read_text().partition(_begin(name))
    _, end, rest = after.partition(_end(name))
    page.write_text(f"{before}{begin}\n\n{text.strip()}\n\n{end}{rest}")


def _begin(name: str) -> str:
    return f"<!-- begin generated: {name} -->"


def _end(name: str) -> str:
    return f"<!-- end generated: {name} -->"
