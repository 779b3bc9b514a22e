"""Draw ``house.svg`` from the layers that a test holds and the imports that are there.

``python docs/house_picture.py [--print]``. A box is a module or a folder of them, a line says that the lower one
imports the upper one. Lines that follow from others are left out, and far ones are pale.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from test_traps import LAYERS, MODULES, imports_of, module_name  # noqa: E402

PICTURE = HERE / "house.svg"

MARGIN, GUTTER, STEP, BOX_HEIGHT = 16, 34, 38, 25
LETTER, PADDING = 7.3, 14
# Columns, in Okabe and Ito's colours, lightened; text stays black. What is named nowhere stands in the last.
COLUMNS: dict[str, tuple[str, tuple[str, ...]]] = {
    "common ground": ("#eeeeee", ("errors", "trust", "progress", "variables", "specs", "domains")),
    "stores": (
        "#d6ebf7",
        ("urls", "backends", "versioned", "stores", "chunks", "scores", "inputs", "results"),
    ),
    "numbers, no labels": (
        "#fde8c4",
        ("kernels", "blocks", "curve_blocks", "resampling_blocks", "chunked_blocks", "band_blocks"),
    ),
    "labelled, lazy": (
        "#d3eee6",
        ("chunked_items", "resampling", "evaluation", "bounding", "curves", "references", "simulate", "bands"),
    ),
    "runs": ("#f7ddec", ("jobs", "ledger", "planning", "clusters", "extending", "execution", "study")),
    "for people": ("#fff9c9", ()),
}

Edges = set[tuple[str, str]]


def imports() -> Edges:
    """Return (importer, imported) of the package's parts, as they are at the top of the modules."""
    level = {part: depth for depth, parts in enumerate(LAYERS) for part in parts}
    found: Edges = set()
    for path in MODULES:
        importer = module_name(path).split(".")[1:2]
        for name in imports_of(path, nested=False):
            package, _, inner = name.partition(".")
            imported = inner.split(".")[0]
            if importer and package == "aucpr_dask" and imported in level and importer[0] in level:
                found.add((importer[0], imported))
    return {(importer, imported) for importer, imported in found if importer != imported}


def without_shortcuts(edges: Edges) -> Edges:
    """Leave out the edges that a longer way implies."""
    targets: Mapping[str, set[str]] = defaultdict(set)
    for start, end in edges:
        targets[start].add(end)

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for part in targets.get(todo.pop(), set()) - seen:
                seen.add(part)
                todo.append(part)
        return seen

    beyond = {part: reached(part) for part in list(targets)}
    return {(a, b) for a, b in edges if not any(b in beyond.get(way, set()) for way in targets[a] - {b})}


@dataclass(frozen=True)
class Box:
    """Where a part stands."""

    x: float
    y: float
    width: float

    @property
    def middle(self) -> float:
        """The middle of its width."""
        return self.x + self.width / 2


def column_of(part: str) -> int:
    """Return the column in which a part stands."""
    places = (place for place, (_, parts) in enumerate(COLUMNS.values()) if part in parts)
    return next(places, len(COLUMNS) - 1)


def arrange() -> dict[str, Box]:
    """Give each part a box: in its column, below all of the layers above its own."""
    columns: list[list[str]] = [[] for _ in COLUMNS]
    for part in (part for parts in LAYERS for part in parts):
        columns[column_of(part)].append(part)
    titles = list(COLUMNS)
    widths = [max(map(len, (titles[i], *parts))) * LETTER + PADDING for i, parts in enumerate(columns)]
    boxes: dict[str, Box] = {}
    top = MARGIN + STEP
    for parts in LAYERS:
        used = [0] * len(COLUMNS)
        for part in parts:
            place = column_of(part)
            x = MARGIN + GUTTER + sum(widths[:place]) + GUTTER * place
            boxes[part] = Box(x, top + used[place] * STEP, widths[place])
            used[place] += 1
        top += max(used) * STEP
    return boxes


def picture() -> str:
    """Return the drawing."""
    boxes = arrange()
    width = max(box.x + box.width for box in boxes.values()) + MARGIN
    height = max(box.y for box in boxes.values()) + BOX_HEIGHT + MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" '
        'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="12" role="img" '
        'aria-label="The modules of aucpr_dask in layers; each imports only from layers above it">'
    )
    ground = f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>'
    lines = [_line(boxes[start], boxes[end]) for start, end in without_shortcuts(imports())]
    lines.sort(key=lambda line: ("#cccccc" not in line, line))  # pale ones below
    shapes = [_shape(part, box) for part, box in boxes.items()]
    return "\n".join([head, ground, *lines, *shapes, *_titles(boxes), "</svg>", ""])


def _line(start: Box, end: Box) -> str:
    """Draw a line to what is imported: from side to side, or around what stands between in the same column."""
    y1, y2 = start.y + BOX_HEIGHT / 2, end.y + BOX_HEIGHT / 2
    if start.x == end.x:
        if y1 - y2 <= STEP:
            return _path(f"M {start.middle:.1f} {start.y:.1f} L {end.middle:.1f} {end.y + BOX_HEIGHT:.1f}")
        x, away = start.x, start.x - GUTTER * 0.8
        return _path(f"M {x:.1f} {y1:.1f} C {away:.1f} {y1 - 20:.1f} {away:.1f} {y2 + 20:.1f} {x:.1f} {y2:.1f}")
    leftward = end.x < start.x
    x1, x2 = (start.x, end.x + end.width) if leftward else (start.x + start.width, end.x)
    bend = -GUTTER if leftward else GUTTER
    far = abs(x1 - x2) > 2 * GUTTER
    return _path(f"M {x1:.1f} {y1:.1f} C {x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}", far=far)


def _path(way: str, *, far: bool = False) -> str:
    return f'<path d="{way}" fill="none" stroke="{"#cccccc" if far else "#777777"}"/>'


def _shape(part: str, box: Box) -> str:
    colour = list(COLUMNS.values())[column_of(part)][0]
    place = f'x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{BOX_HEIGHT}"'
    return f'<rect {place} rx="5" fill="{colour}" stroke="#333333"/>' + _text(box.middle, box.y + 16.5, part)


def _text(x: float, y: float, text: str, style: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle"{style}>{escape(text)}</text>'


def _titles(boxes: Mapping[str, Box]) -> Iterable[str]:
    middles = {column_of(part): box.middle for part, box in boxes.items()}
    for place, title in enumerate(COLUMNS):
        yield _text(middles[place], MARGIN + 14, title, ' font-weight="bold"')


def main() -> None:
    """Write the picture, or print it."""
    if "--print" in sys.argv:
        print(picture(), end="")
    else:
        PICTURE.write_text(picture())


if __name__ == "__main__":
    main()
