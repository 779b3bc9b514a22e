"""Names that fit: cut to a width such that two names never print alike."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import takewhile

from rich.cells import cell_len

from aucpr_dask.errors import printable

CUT = "…"


def shorten(name: str, width: int) -> str:
    """Cut the middle out of a name that is wider than `width` cells; escape characters that do not print."""
    return _cut(_printed(name), width, max(width, 0) // 2)


def distinct(names: Sequence[str], width: int) -> list[str]:
    """Shorten the names of one table such that different names stay different.

    Names that fit are kept whole. Others are cut in the middle, or where they agree. Names that cannot be told apart
    by any cut are numbered.
    """
    printed = {name: _printed(name) for name in dict.fromkeys(names)}
    shown = {name: _cut(text, width, width // 2) for name, text in printed.items()}
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
