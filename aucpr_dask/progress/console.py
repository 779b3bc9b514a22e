"""The console on which progress and tables are printed."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from aucpr_dask.errors import printable

WIDEST = 200


def console_for(*, stderr: bool = False, text_only: bool = False) -> Console:
    """Return a console that prints names literally; if `text_only`, without styles and notebook output."""
    console = _Console(
        stderr=stderr,
        markup=False,
        emoji=False,
        highlight=False,
        color_system=None if text_only else "auto",
        force_jupyter=False if text_only else None,
    )
    if console.width > WIDEST:
        console.width = WIDEST
    return console


class _Console(Console):
    """A console on which no text can move the cursor, change colours or reverse the line."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                lines = map(printable, segment.text.split("\n"))
                yield Segment("\n".join(lines), segment.style)
