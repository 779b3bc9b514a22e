"""What `data.aucpr` looks like at a prompt and in a notebook. Names are data: none of them is read as markup."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from html import escape

import xarray as xr
from rich.console import Group
from rich.text import Text

from aucpr_dask.progress.console import console_for
from aucpr_dask.schema.variables import FOLD, ITEM, MODEL, QUERY
from aucpr_dask.scores.importing.files import count
from aucpr_dask.storage.stores import Scores, nodes_of
from aucpr_dask.view.comparisons import comparison_view, ranks_view, summarize_comparison, summarize_ranks
from aucpr_dask.view.summary import RankedModel, Ranking, rank_models, summarize_flags
from aucpr_dask.view.tables import MOST_DATA_SETS, TOP_OF_MANY, TOP_OF_ONE, counted, rankings_view, shorten

WIDTH = 80
LONGEST_NAME, LONGEST_TITLE = 40, 300
_SIDES = ("right", "left", "right", "left", "center")  # of the columns' titles
BAR_WIDTH, BAR_HEIGHT = 160, 12  # of the drawings of intervals, in pixels


def as_text(data: Scores) -> str:
    """Return what there is, and the ranked table if it is a result that can be read at once."""
    lines: list[Text | Group] = [Text(_headline(data))]
    if _is_ready(data):
        lines += [Text(""), rankings_view(rank_models(data), WIDTH), *map(Text, _flag_lines(data))]
    else:
        lines += [*map(Text, _remarks(data)), *_answer(data)]
    console = console_for(text_only=True)
    console.file, console.width = io.StringIO(), WIDTH
    console.no_color, console.legacy_windows = True, False
    with console.capture() as captured:
        console.print(Group(*lines))
    return "\n".join(line.rstrip() for line in captured.get().rstrip().split("\n"))


def as_html(data: Scores) -> str:
    """Return the same as a part of a page; it needs no style sheet and follows the page's own colours."""
    if _answer(data):
        return f'<pre class="aucpr-dask">{escape(as_text(data))}</pre>'
    parts = [f"<p><strong>{escape(_headline(data))}</strong></p>"]
    if _is_ready(data):
        rankings = rank_models(data)
        top = TOP_OF_ONE if len(rankings) == 1 else TOP_OF_MANY
        parts += [_table(ranking, top) for ranking in rankings[:MOST_DATA_SETS]]
        if len(rankings) > MOST_DATA_SETS:
            parts.append(f"<p>and {counted(len(rankings) - MOST_DATA_SETS, 'more data set')}</p>")
        parts += [f"<p>{escape(line)}</p>" for line in _flag_lines(data)]
    else:
        parts += [f"<p>{escape(line)}</p>" for line in _remarks(data)]
    return f'<div class="aucpr-dask">{"".join(parts)}</div>'


def _answer(data: Scores) -> list[Group]:
    """Return the tables of a comparison or of ranks; of other data, and of parts of these, none."""
    nodes = [node for _, node in nodes_of(data)]
    try:
        if nodes and all("difference" in node for node in nodes):
            return [comparison_view(one, WIDTH) for one in summarize_comparison(data)]
        if nodes and all("rank" in node for node in nodes):
            return [ranks_view(one, WIDTH) for one in summarize_ranks(data)]
    except Exception:  # a selection may lack anything that a table needs, and a repr never raises
        return []
    return []


def _headline(data: Scores) -> str:
    nodes = [node for _, node in nodes_of(data)]
    kinds = {"estimate": "result", "score": "scores"}
    kind = next((kind for name, kind in kinds.items() if nodes and all(name in node for node in nodes)), "data")
    for variable, other in (("difference", "comparison"), ("rank", "ranks")):
        if variable in (nodes[0] if nodes else ()):
            kind = other
    sizes = [counted(len(nodes), "data set")] if isinstance(data, xr.DataTree) else []
    for dim in (MODEL, QUERY, ITEM, FOLD):
        found = {node.sizes[dim] for node in nodes if dim in node.sizes}
        if found:
            sizes.append(_range(found, dim))
    return f"{kind}: {', '.join(sizes)}" if sizes else kind


def _range(sizes: set[int], dim: str) -> str:
    smallest = f"{min(sizes):,} to " if len(sizes) > 1 else ""
    return smallest + count(max(sizes), dim, "queries" if dim == QUERY else None)


def _is_ready(data: Scores) -> bool:
    """Whether the data are a result that nothing must be computed for."""
    nodes = [node for _, node in nodes_of(data)]
    return bool(nodes) and all(
        {"estimate", "flags"} <= set(node.data_vars)
        and {MODEL, "estimator"} <= set(node["estimate"].dims)
        and node["estimate"].chunks is None
        for node in nodes
    )


def _remarks(data: Scores) -> Iterator[str]:
    nodes = [node for _, node in nodes_of(data)]
    if any("estimate" in node and node["estimate"].chunks is not None for node in nodes):
        yield "not computed yet: .compute(), or evaluate store to store by aucpr_dask.run"
    elif nodes and all("score" in node for node in nodes):
        yield "evaluate them: .aucpr.evaluate()"


def _flag_lines(data: Scores) -> Iterator[str]:
    flags = summarize_flags(nodes_of(data))
    if flags:
        yield "flagged rankings: " + ", ".join(f"{flag.flag.replace('_', ' ')} {flag.count:,}" for flag in flags)


def _table(ranking: Ranking, top: int) -> str:
    shown = ranking.models[:top]
    more = len(ranking.models) - len(shown)
    has_interval = ranking.interval is not None
    interval = f"{100 * ranking.level:.4g}% interval" if ranking.level else "interval"
    scale = _scale(shown)
    header = ["", "model", "area", *([interval, f"{scale[0]:.2f} to {scale[1]:.2f}"] if has_interval else [])]
    rows = [_row(model, scale, has_interval=has_interval) for model in shown]
    titles = "".join(f'<th scope="col" style="text-align:{_SIDES[i]}">{escape(t)}</th>' for i, t in enumerate(header))
    caption = f'<caption style="text-align:left">{escape(_caption(ranking))}</caption>'
    table = f'<table style="color:inherit;font:inherit;white-space:nowrap;margin-bottom:1em">{caption}' + (
        f"<thead><tr>{titles}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )
    return table + (f"<p>and {counted(more, 'more model')}</p>" if more else "")


def _caption(ranking: Ranking) -> str:
    about = [shorten(ranking.data_set, LONGEST_NAME) or "all models", ranking.estimator.replace("_", " ")]
    if ranking.n_queries is not None:
        about.append(f"mean of {count(ranking.n_queries, 'query', 'queries')}")
    if ranking.interval is not None:
        about.append(f"{ranking.interval.replace('_', ' ')} interval")
    return ", ".join(about)


def _row(model: RankedModel, scale: tuple[float, float], *, has_interval: bool) -> str:
    name, whole = escape(shorten(model.model, LONGEST_NAME)), escape(shorten(model.model, LONGEST_TITLE))
    cells = [
        f"<td>{model.rank or '-'}</td>",
        f'<th scope="row" style="text-align:left;font-weight:normal" title="{whole}">{name}</th>',
        f"<td>{_number(model.estimate, 4)}</td>",
    ]
    if has_interval:
        known = math.isfinite(model.lower) and math.isfinite(model.upper)
        bounds = f"[{_number(model.lower, 3)}, {_number(model.upper, 3)}]" if known else "-"
        cells += [f"<td>{bounds}</td>", f"<td>{_bar(model, scale) if known else ''}</td>"]
    return f"<tr>{''.join(cells)}</tr>"


def _bar(model: RankedModel, scale: tuple[float, float]) -> str:
    """Draw an interval and its estimate; the numbers stand beside it, so a screen reader passes it over."""

    def place(value: float) -> str:
        share = (value - scale[0]) / (scale[1] - scale[0])
        return f"{4 + min(1.0, max(0.0, share)) * (BAR_WIDTH - 8):.1f}"

    middle = BAR_HEIGHT // 2
    return (
        f'<svg aria-hidden="true" width="{BAR_WIDTH}" height="{BAR_HEIGHT}">'
        f'<line x1="{place(model.lower)}" x2="{place(model.upper)}" y1="{middle}" y2="{middle}" '
        'stroke="currentColor" stroke-width="2"/>'
        f'<circle cx="{place(model.estimate)}" cy="{middle}" r="4" fill="currentColor"/></svg>'
    )


def _scale(models: tuple[RankedModel, ...]) -> tuple[float, float]:
    bounds = [value for one in models for value in (one.lower, one.estimate, one.upper) if math.isfinite(value)]
    if not bounds:
        return 0.0, 1.0
    low, high = math.floor(min(bounds) * 20) / 20, math.ceil(max(bounds) * 20) / 20
    return (low, high) if high > low else (low, low + 0.05)


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else "-"
