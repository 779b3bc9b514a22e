"""Tables of words and figures, and the place of a page between ``<!-- NAME -->`` and ``<!-- end -->`` for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path


def text_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table: words on the left in the first column, figures on the right in the others."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fill_mark(page: Path, name: str, text: str) -> None:
    """Put `text` between the mark called `name` and its end.

    Raises
    ------
    ValueError
        If the page has no such mark, or more than one.
    """
    place = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    new, found = place.subn(lambda match: f"{match[1]}\n{text.strip()}\n\n{match[2]}", page.read_text(encoding="utf-8"))
    if found != 1:
        raise ValueError(f"{page} has {found} places called {name!r}")
    page.write_text(new, encoding="utf-8")
