"""What `data.aucpr` looks like at a prompt and in a notebook. Names are data: none of them is read as markup."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from html import escape

import xarray as xr
from rich.console import Group
from rich.text import Text

from aucpr_dask.errors import printable
from aucpr_dask.inference.measures import are_values, unit_names, with_estimators
from aucpr_dask.progress.console import console_for
from aucpr_dask.schema.trees import Scores, map_nodes, nodes_of
from aucpr_dask.schema.variables import FOLD, ITEM, MODEL, RANKING_DIMS
from aucpr_dask.scores.importing.files import count
from aucpr_dask.view.comparisons import (
    Sheet,
    comparison_notes,
    comparison_sheets,
    comparison_view,
    headline,
    ranks_notes,
    ranks_sheet,
    ranks_view,
    summarize_comparison,
    summarize_ranks,
)
from aucpr_dask.view.names import distinct, shorten
from aucpr_dask.view.summary import RankedModel, Ranking, flags_in_words, rank_models
from aucpr_dask.view.tables import (
    MOST_DATA_SETS,
    TOP_OF_MANY,
    TOP_OF_ONE,
    Column,
    about,
    bounds,
    interval_header,
    more,
    noun_of,
    number,
    rankings_view,
    scale_of,
)

WIDTH = 80
LONGEST_NAME, LONGEST_TITLE = 40, 300
_SIDES = ("right", "left", "right", "left", "center")  # alignment of the columns
BAR_WIDTH, BAR_HEIGHT = 160, 12  # pixels


def as_text(data: Scores) -> str:
    """Return the sizes of the data, and the table of a computed result, a comparison or ranks."""
    lines: list[Text | Group] = [Text(_headline(data))]
    if _is_ready(data):
        lines += [Text(""), rankings_view(_ranked(data), WIDTH)]
    return plain_text(Group(*lines, *map(Text, _remarks(data)), *_answer(data)))


def plain_text(view: Group) -> str:
    """Return what people see in a terminal, without colours."""
    console = console_for(text_only=True)
    console.file, console.width = io.StringIO(), WIDTH
    console.no_color, console.legacy_windows = True, False
    with console.capture() as captured:
        console.print(view)
    return "\n".join(line.rstrip() for line in captured.get().rstrip().split("\n"))


def as_html(data: Scores) -> str:
    """Return the same as HTML that needs no style sheet and takes the colours of the page."""
    if answer := _answer_in_html(data):
        return f'<div class="aucpr-dask"><p><strong>{escape(_headline(data))}</strong></p>{answer}</div>'
    parts = [f"<p><strong>{escape(_headline(data))}</strong></p>"]
    if _is_ready(data):
        rankings = _ranked(data)
        top = TOP_OF_ONE if len(rankings) == 1 else TOP_OF_MANY
        parts += [_table(ranking, top) for ranking in rankings[:MOST_DATA_SETS]]
        parts.append(_more(len(rankings) - MOST_DATA_SETS, "data set"))
    parts += [f"<p>{escape(line)}</p>" for line in _remarks(data)]
    return f'<div class="aucpr-dask">{"".join(parts)}</div>'


def _answer(data: Scores) -> list[Group]:
    """Return the tables of a complete comparison or of complete ranks; nothing for other data."""
    nodes = [node for _, node in nodes_of(data)]
    try:
        if nodes and all("difference" in node for node in nodes):
            return [comparison_view(one, WIDTH) for one in summarize_comparison(data)]
        if nodes and all("rank" in node for node in nodes):
            return [ranks_view(one, WIDTH) for one in summarize_ranks(data)]
    except Exception:  # a selection may lack anything that a table needs, and a repr never raises
        return []
    return []


def _answer_in_html(data: Scores) -> str:
    """Return the same tables as HTML, with bars."""
    nodes = [node for _, node in nodes_of(data)]
    parts: list[str] = []
    try:
        if nodes and all("difference" in node for node in nodes):
            for comparison in summarize_comparison(data):
                sheets = comparison_sheets(comparison, LONGEST_TITLE)
                parts += sheets_in_html(headline(comparison), sheets)
                parts += _lines([*comparison_notes(comparison), str(comparison.facts["design"])])
        elif nodes and all("rank" in node for node in nodes):
            for ranks in summarize_ranks(data):
                parts += sheets_in_html(headline(ranks), [ranks_sheet(ranks)])
                found, *notes = ranks_notes(ranks)
                parts += _lines([found, str(ranks.facts["design"]), *notes])
    except Exception:  # a selection may lack anything that a table needs, and a repr never raises
        return ""
    return "".join(parts)


def _lines(lines: list[str]) -> list[str]:
    return [f"<p>{escape(printable(line))}</p>" for line in lines]


def sheets_in_html(title: Text, sheets: list[Sheet]) -> Iterator[str]:
    """Yield tables in HTML, with bars."""
    for sheet in sheets:
        caption = title.plain + ("" if sheet.title is None else f", {sheet.title.plain}")
        sides = ["right" if column.right else "left" for column in sheet.columns]
        head = "".join(
            f'<th scope="col" style="text-align:{side}">{escape(column.header)}</th>'
            for column, side in zip(sheet.columns, sides, strict=True)
        )
        cells = [
            [f'<td style="text-align:{side}"{hint}>{escape(cell)}</td>' for cell, hint in _shown_cells(column)]
            for column, side in zip(sheet.columns, sides, strict=True)
        ]
        bars = [_bar(bar, sheet.scale) for bar in sheet.bars]
        bars += [""] * (len(cells[0]) - len(bars))
        rows = "".join(f"<tr>{''.join(row)}<td>{bar}</td></tr>" for *row, bar in zip(*cells, bars, strict=True))
        scale = f"{sheet.scale[0]:.3g} to {sheet.scale[1]:.3g}"
        yield _framed(caption, f"{head}<th>{scale}</th>", rows) + _more(sheet.n_more, "model")


def _shown_cells(column: Column) -> Iterator[tuple[str, str]]:
    """Yield the text of each cell, and its hint: the whole name."""
    if not column.name:
        yield from ((cell, "") for cell in column.cells)
        return
    for cell, whole in zip(distinct(column.cells, LONGEST_NAME), column.cells, strict=True):
        yield cell, f' title="{escape(shorten(whole, LONGEST_TITLE))}"'


def _headline(data: Scores) -> str:
    nodes = [node for _, node in nodes_of(data)]
    kinds = {
        "rank": "ranks",
        "difference": "comparison",
        "detectable": "power",
        "estimate": "result",
        "score": "scores",
    }
    kind = next((kind for name, kind in kinds.items() if nodes and all(name in node for node in nodes)), "data")
    sizes = [count(len(nodes), "data set")] if isinstance(data, xr.DataTree) else []
    for dim in (*RANKING_DIMS, ITEM, FOLD):
        found = {node.sizes[dim] for node in nodes if dim in node.sizes}
        if found:
            least = f"{min(found):,} to " if len(found) > 1 else ""
            sizes.append(least + count(max(found), *unit_names(dim, nodes[0].attrs)))
    return f"{kind}: {', '.join(sizes)}" if sizes else kind


def _ranked(data: Scores) -> list[Ranking]:
    try:
        return rank_models(map_nodes(data, lambda _, node: with_estimators(node)))
    except Exception:  # a selection may lack anything that a table needs, and a repr never raises
        return []


def _is_ready(data: Scores) -> bool:
    """Whether the data are a result whose estimates are in memory."""
    nodes = [node for _, node in nodes_of(data)]
    return bool(nodes) and all(
        ({"estimate", "flags"} <= set(node.data_vars) or are_values(node))
        and MODEL in node["estimate"].dims
        and node["estimate"].chunks is None
        for node in nodes
    )


def _remarks(data: Scores) -> Iterator[str]:
    """Return what to do next, or how often a result is flagged."""
    nodes = [node for _, node in nodes_of(data)]
    if _is_ready(data):
        yield from filter(None, [flags_in_words(data) if all("flags" in node for node in nodes) else ""])
    elif any("estimate" in node and node["estimate"].chunks is not None for node in nodes):
        yield "not computed yet: .compute(), or evaluate store to store by aucpr_dask.run"
    elif nodes and all("detectable" in node for node in nodes):
        yield from (str(node.attrs.get("summary", "")) for node in nodes)
    elif nodes and all("score" in node for node in nodes):
        yield "evaluate them: .aucpr.evaluate()"


def _table(ranking: Ranking, top: int) -> str:
    shown = ranking.models[:top]
    has_interval = ranking.interval is not None
    scale = scale_of(shown)
    header = [
        "",
        "model",
        noun_of(ranking),
        *([interval_header(ranking), f"{scale[0]:.2f} to {scale[1]:.2f}"] * has_interval),
    ]
    titles = "".join(f'<th scope="col" style="text-align:{_SIDES[i]}">{escape(t)}</th>' for i, t in enumerate(header))
    names = distinct([model.model for model in shown], LONGEST_NAME)
    rows = "".join(_row(*row, scale, has_interval=has_interval) for row in zip(shown, names, strict=True))
    caption = f"{shorten(ranking.data_set, LONGEST_NAME) or 'all models'}, {about(ranking)}"
    return _framed(caption, titles, rows) + _more(len(ranking.models) - len(shown), "model")


def _framed(caption: str, titles: str, rows: str) -> str:
    return (
        '<table style="color:inherit;font:inherit;white-space:nowrap;margin-bottom:1em">'
        f'<caption style="text-align:left">{escape(caption)}</caption>'
        f"<thead><tr>{titles}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _more(number: int, noun: str) -> str:
    return "".join(f"<p>{line.plain}</p>" for line in more(number, noun))


def _row(model: RankedModel, name: str, scale: tuple[float, float], *, has_interval: bool) -> str:
    whole = escape(shorten(model.model, LONGEST_TITLE))
    cells = [
        f"<td>{model.rank or '-'}</td>",
        f'<th scope="row" style="text-align:left;font-weight:normal" title="{whole}">{escape(name)}</th>',
        f"<td>{number(model.estimate)}</td>",
    ]
    if has_interval:
        ends = bounds((model.lower, model.upper))
        cells += [
            f"<td>{ends}</td>",
            f"<td>{'' if ends == '-' else _bar((model.lower, model.estimate, model.upper), scale)}</td>",
        ]
    return f"<tr>{''.join(cells)}</tr>"


def _bar(bar: tuple[float, float, float], scale: tuple[float, float]) -> str:
    """Draw a value in its interval, and zero if it is on the scale.

    Hidden from screen readers, which read the numbers next to it.
    """

    def place(value: float) -> str:
        share = (value - scale[0]) / (scale[1] - scale[0]) if scale[1] > scale[0] else 0.5
        return f"{4 + min(1.0, max(0.0, share)) * (BAR_WIDTH - 8):.1f}"

    lower, value, upper = bar
    if not math.isfinite(value):
        return ""
    if not (math.isfinite(lower) and math.isfinite(upper)):
        lower = upper = value
    middle = BAR_HEIGHT // 2
    zero = f'<line x1="{place(0)}" x2="{place(0)}" y1="0" y2="{BAR_HEIGHT}" stroke="currentColor" opacity="0.4"/>'
    return (
        f'<svg aria-hidden="true" width="{BAR_WIDTH}" height="{BAR_HEIGHT}">'
        f"{zero if scale[0] < 0 < scale[1] else ''}"
        f'<line x1="{place(lower)}" x2="{place(upper)}" y1="{middle}" y2="{middle}" '
        'stroke="currentColor" stroke-width="2"/>'
        f'<circle cx="{place(value)}" cy="{middle}" r="4" fill="currentColor"/></svg>'
    )
