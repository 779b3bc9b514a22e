"""Tables that fit a terminal, or a notebook. Names are data: cut to size, never alike, and never read as markup."""

from __future__ import annotations

import dataclasses
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, takewhile
from typing import Any

import numpy as np
import pandas as pd
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.table import Table
from rich.text import Text

from aucpr_dask.errors import printable
from aucpr_dask.schema.terms import amount, count, in_words

LEAST_NAME, WIDEST_NAME = 10, 30
LEAST_BAR, WIDEST_BAR = 10, 24
LONGEST_NAME, LONGEST_TITLE = 40, 300  # in a notebook
GAP = 2
BAR_WIDTH, BAR_HEIGHT = 160, 12  # pixels
CUT = "…"
OF_METHODS = ("estimator", "interval", "method", "adjust", "posthoc")  # facts whose values are names in code

Bar = tuple[float, float, float]  # lower end, value, upper end


@dataclass(frozen=True)
class Column:
    """A column of a table; `name` columns share the width that the others leave."""

    header: str
    cells: Sequence[str]
    right: bool = False
    name: bool = False

    @property
    def width(self) -> int:
        """Cells that the widest of them takes."""
        return max(map(cell_len, (self.header, *self.cells)))


@dataclass(frozen=True)
class Sheet:
    """A table that rich prints, and notebooks show: with a value in its interval for each row, on one scale."""

    columns: list[Column]
    bars: Sequence[Bar] = ()
    scale: tuple[float, float] = (0.0, 1.0)
    below: Sequence[Text] = ()  # how many rows it leaves out
    title: tuple[str, str] = ("", "")  # a name, and what is said of it
    has_bars: bool = False  # in a terminal, too, if there is room

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table as wide as the terminal allows."""
        columns, width = list(self.columns), options.max_width
        # For bars what is left: a narrow bar rather than shortened names, no bar rather than very short ones.
        left = width - GAP * len(columns) - sum(column.width for column in columns)
        cut = sum(max(0, column.width - WIDEST_NAME) for column in columns if column.name)
        room = min(WIDEST_BAR, max(left, min(left + cut, LEAST_BAR)))
        if self.has_bars and self.bars and room >= LEAST_BAR:
            low, high = self.scale
            drawn = [interval_bar(*bar, self.scale, room, ascii_only=options.ascii_only) for bar in self.bars]
            columns.append(Column(f"{low:<{room - 4}.2f}{high:.2f}", drawn))
        if any(self.title):
            yield titled(shorten(self.title[0], width - 11), self.title[1])
        yield from (fitted_table(part, width) for part in _parts(columns, width))
        yield from self.below

    def as_html(self, of: str = "") -> str:
        """Return the table as HTML that takes the colours of the page; `of` heads its title."""
        head, cells = list[str](), list[list[str]]()
        for column in self.columns:
            side = f' style="text-align:{"right" if column.right else "left"}"'
            head.append(f'<th scope="col"{side}>{escape(column.header)}</th>')
            if not column.name:
                cells.append([f"<td{side}>{escape(cell)}</td>" for cell in column.cells])
                continue
            names = map(escape, distinct(column.cells, LONGEST_NAME))
            hints = (escape(shorten(whole, LONGEST_TITLE)) for whole in column.cells)  # of names that are cut
            row = '<th scope="row" style="text-align:left;font-weight:normal" title="{}">{}</th>'
            cells.append(list(map(row.format, hints, names)))
        if self.bars:
            bars = [f"<td>{_svg_bar(bar, self.scale)}</td>" for bar in self.bars]
            cells.append([*bars, *["<td></td>"] * (len(cells[0]) - len(bars))])
            head.append(f'<th scope="col">{self.scale[0]:.3g} to {self.scale[1]:.3g}</th>')
        rows = "".join(f"<tr>{''.join(row)}</tr>" for row in zip(*cells, strict=True))
        title = [shorten(self.title[0], LONGEST_TITLE), self.title[1]]
        caption = ", ".join(filter(None, [of, "  ".join(title).strip()] if of else title))
        return (
            '<table style="color:inherit;font:inherit;white-space:nowrap;margin-bottom:1em">'
            f'<caption style="text-align:left">{escape(caption)}</caption>'
            f"<thead><tr>{''.join(head)}</tr></thead><tbody>{rows}</tbody></table>"
            + "".join(f"<p>{line.plain}</p>" for line in self.below)
        )


def _parts(columns: list[Column], width: int) -> Iterator[list[Column]]:
    """Yield the columns of as many tables as the width needs, each with the names, so that no cell is cropped."""

    def needed(part: Sequence[Column], least: int) -> int:
        return sum(min(c.width, least) if c.name else c.width for c in part) + GAP * (len(part) - 1)

    n_lead = 1 + max((i for i, column in enumerate(columns) if column.name), default=-1)
    part = columns[:n_lead]
    fits = needed(columns, LEAST_NAME) <= width
    for column in columns[n_lead:]:
        if not fits and len(part) > n_lead and needed([*part, column], 2 * LEAST_NAME) > width:
            yield part
            part = columns[:n_lead]
        part = [*part, column]
    yield part


def fitted_table(columns: Sequence[Column], width: int) -> Table:
    """Lay out a table of at most `width` cells: names are shortened together, everything else is kept whole."""
    needs = [column.width for column in columns]
    names = sorted((i for i, column in enumerate(columns) if column.name), key=needs.__getitem__)
    room = width - GAP * (len(columns) - 1) - sum(need for i, need in enumerate(needs) if i not in names)
    for left, i in zip(range(len(names), 0, -1), names, strict=True):  # what a short name leaves, longer ones share
        needs[i] = max(min(needs[i], room // left), min(needs[i], LEAST_NAME))
        room -= needs[i]
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, show_edge=False, header_style="dim")
    for column, need in zip(columns, needs, strict=True):
        justify: JustifyMethod = "right" if column.right else "left"
        table.add_column(Text(column.header), justify=justify, width=need, no_wrap=True, overflow="crop")
    cells = (distinct(c.cells, need) if c.name else c.cells for c, need in zip(columns, needs, strict=True))
    for row in zip(*cells, strict=True):
        table.add_row(*map(Text, row))
    return table


def interval_bar(
    lower: float, estimate: float, upper: float, scale: tuple[float, float], width: int, *, ascii_only: bool = False
) -> str:
    """Draw an interval and its estimate on a scale."""
    line, dot = ("-", "o") if ascii_only else ("─", "●")
    if not math.isfinite(estimate):
        return ""
    ends = (lower, estimate, upper) if math.isfinite(lower) and math.isfinite(upper) else (estimate,) * 3
    left, middle, right = (round(_share(value, scale) * (width - 1)) for value in ends)
    return " " * left + line * (middle - left) + dot + line * (right - middle)


def _share(value: float, scale: tuple[float, float]) -> float:
    """Return where on a scale a value lies, from 0 to 1."""
    low, high = scale
    return min(1.0, max(0.0, (value - low) / (high - low))) if high > low else 0.5


def _svg_bar(bar: Bar, scale: tuple[float, float]) -> str:
    """Draw a value in its interval, and zero; hidden from screen readers, which read the numbers next to it."""
    lower, value, upper = bar
    if not math.isfinite(value):
        return ""
    if not (math.isfinite(lower) and math.isfinite(upper)):
        lower = upper = value
    left, at, right, zero = (f"{4 + _share(x, scale) * (BAR_WIDTH - 8):.1f}" for x in (lower, value, upper, 0.0))
    middle = BAR_HEIGHT // 2
    axis = f'<line x1="{zero}" x2="{zero}" y1="0" y2="{BAR_HEIGHT}" stroke="currentColor" opacity="0.4"/>'
    return (
        f'<svg aria-hidden="true" width="{BAR_WIDTH}" height="{BAR_HEIGHT}">{axis if scale[0] < 0 < scale[1] else ""}'
        f'<line x1="{left}" x2="{right}" y1="{middle}" y2="{middle}" stroke="currentColor" stroke-width="2"/>'
        f'<circle cx="{at}" cy="{middle}" r="4" fill="currentColor"/></svg>'
    )


def markdown_rows(rows: Sequence[Sequence[str]], ruler: str) -> list[str]:
    """Return rows of cells, the heads first, as a table in Markdown, with this ruler of all columns but the first."""
    ruled = [rows[0], ["---", *[ruler] * (len(rows[0]) - 1)], *rows[1:]]
    return [f"| {' | '.join(row)} |" for row in ruled]


# What cells and lines say


def more(number: int, noun: str) -> list[Text]:
    """Return a line that counts the rows that a table leaves out, if any."""
    return [Text(f"and {count(number, f'more {noun}')}", style="dim")] if number > 0 else []


def first(rows: Any, top: int | None, noun: str = "model") -> tuple[Any, list[Text]]:
    """Return the first rows of a list or of a data frame, and the line that counts the others."""
    shown = rows[:top]
    return shown, more(len(rows) - len(shown), noun)


def titled(title: str, about: str) -> Text:
    """Return a headline: a name, and a description."""
    return Text(title, style="bold").append(f"  {about}", style="not bold")


number = amount  # of an area, or a dash where it is undefined


def signed(value: float) -> str:
    """Return a difference with its sign."""
    return amount(value, sign="+")


def bounds(ends: Sequence[float] | None, sign: str = "") -> str:
    """Return an interval, or a dash where it is undefined."""
    if ends is None or not all(map(math.isfinite, ends)):
        return "-"
    return f"[{', '.join(amount(float(end), 3, sign) for end in ends)}]"


def whole(value: int | None) -> str:
    """Return a count, or a dash where there is none."""
    return "-" if value is None else f"{value:,}"


def plain(value: Any, of_array: Callable[[Any], Any] = lambda array: plain(array.tolist())) -> Any:
    """Convert documents, tables and NumPy numbers to strict JSON values; NaN and infinities become None."""
    if isinstance(value, pd.DataFrame):
        return plain(value.to_dict("records"), of_array)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain({field.name: getattr(value, field.name) for field in dataclasses.fields(value)}, of_array)
    if isinstance(value, dict):
        return {str(key): plain(one, of_array) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one, of_array) for one in value]
    if isinstance(value, np.ndarray):
        return of_array(value)
    if hasattr(value, "tolist"):  # of NumPy
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, int | bool | None) else str(value)


def attributes_view(attrs: Mapping[str, object]) -> Table:
    """Show names with their values."""
    grid = Table.grid(padding=(0, GAP, 0, 0), pad_edge=False)
    for name, value in attrs.items():
        parts = [f"{key} {one}" for key, one in value.items()] if isinstance(value, dict) else value
        said = ", ".join(map(str, parts)) if isinstance(parts, list | tuple) else str(parts)
        said = in_words(said) if name in OF_METHODS else said
        grid.add_row(Text(printable(name.replace("_", " ")), style="dim"), Text(printable(said)))
    return grid


# Names that fit

WORDS = re.compile(r"[^\W_]+|[\W_]")


def shorten(name: str, width: int) -> str:
    """Cut the middle out of a name that is wider than `width` cells; escape characters that do not print."""
    return _cut(_printed(name), width, max(width, 0) // 2)


def distinct(names: Sequence[str], width: int) -> list[str]:
    """Shorten the names of one table such that different names stay different.

    Others than those that fit lose the words that all of their kind share, or else their middle, or where they agree.
    Names that cannot be told apart by any cut are numbered.
    """
    printed = {name: _printed(name) for name in dict.fromkeys(names)}
    shown = {name: _cut(text, width, width // 2) for name, text in _without_shared_words(printed, width).items()}
    alike = _alike(shown)
    for head in sorted(range(width), key=lambda head: abs(head - width // 2)):
        if not alike:
            break
        cut = {name: _cut(printed[name], width, head) for name in alike}
        if len(set(cut.values())) == len(cut):
            shown |= cut
            alike = _alike(shown)
    if alike:
        shown |= _differences({name: printed[name] for name in alike}, width)
    number = 0
    while alike := _alike(shown):  # numbered names may be like others in turn
        for name in alike:
            number += 1
            mark = f"{CUT}{number}"
            shown[name] = f"{_start(printed[name], max(0, width - cell_len(mark)))}{mark}"
    return [shown[name] for name in names]


def _without_shared_words(printed: dict[str, str], width: int) -> dict[str, str]:
    """Cut words that are the same in all long names of as many words, the longest first, until these names fit."""
    words = {name: WORDS.findall(text) for name, text in printed.items() if cell_len(text) > width}
    kinds: dict[int, list[str]] = {}
    for name, parts in words.items():
        kinds.setdefault(len(parts), []).append(name)
    cut: dict[str, str] = {}
    for kind in kinds.values():
        columns = [set(column) for column in zip(*(words[name] for name in kind), strict=True)]
        is_shared = [len(column) == 1 for column in columns]
        if [shared for shared, _ in groupby(is_shared)].count(False) < 2:
            continue  # they differ in one place, around which both ends can be kept
        runs = [list(run) for shared, run in groupby(range(len(columns)), is_shared.__getitem__) if shared]
        runs.sort(key=lambda run: sum(len(words[kind[0]][i]) for i in run), reverse=True)
        gone: dict[int, str] = {}
        for run in runs:
            gone |= dict.fromkeys(run, "") | {run[0]: CUT}
            made = {name: "".join(gone.get(i, word) for i, word in enumerate(words[name])) for name in kind}
            room = width - max(map(cell_len, made.values()))
            if room >= 0:  # for the start of what was cut last
                gone[run[0]] = _start("".join(words[kind[0]][i] for i in run), room) + CUT
                cut |= {name: "".join(gone.get(i, word) for i, word in enumerate(words[name])) for name in kind}
                break
    return printed | cut


def _printed(name: str) -> str:
    return printable(unicodedata.normalize("NFC", name))


def _alike(shown: dict[str, str]) -> list[str]:
    """Return the names that are shown as others are."""
    numbers = Counter(shown.values())
    return [name for name, text in shown.items() if numbers[text] > 1]


def _differences(printed: dict[str, str], width: int) -> dict[str, str]:
    """Cut out what all of these names have in common, at both sides of where they differ."""
    texts = list(printed.values())
    first = _shared_start(texts)
    rests = [text[first:] for text in texts]
    last = _shared_start([rest[::-1] for rest in rests])
    middles = [rest[: len(rest) - last] for rest in rests]
    room = width - max(map(cell_len, middles)) - 2 * cell_len(CUT)
    if room < 0:
        return {name: _cut(f"{CUT}{rest}", width, width - 2) for name, rest in zip(printed, rests, strict=True)}
    prefix, suffix = texts[0][:first], rests[0][len(rests[0]) - last :]
    head = _start(prefix, max(room - room // 2, room - cell_len(suffix)))
    tail = _end(suffix, room - cell_len(head))
    before = head if head == prefix else f"{head}{CUT}"
    after = tail if tail == suffix else f"{CUT}{tail}"
    return {name: f"{before}{middle}{after}" for name, middle in zip(printed, middles, strict=True)}


def _shared_start(texts: Sequence[str]) -> int:
    """Return the number of characters with which all texts start."""
    return sum(1 for _ in takewhile(lambda chars: len(set(chars)) == 1, zip(*texts, strict=False)))


def _cut(text: str, width: int, head: int) -> str:
    """Return a text of at most `width` cells, of which `head` are before the cut."""
    if cell_len(text) <= width:
        return text
    return f"{_start(text, head)}{CUT}{_end(text, width - head - cell_len(CUT))}" if width > 1 else CUT[:width]


def _start(text: str, width: int) -> str:
    while cell_len(text) > width:
        text = text[:-1]
    return text


def _end(text: str, width: int) -> str:
    while cell_len(text) > width:
        text = text[1:]
    return text
