"""What `data.aucpr` looks like at a prompt and in a notebook. Names are data: none of them is read as markup."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from html import escape
from typing import Any

import xarray as xr
from rich.console import Group
from rich.text import Text

from aucpr_dask.inference.designs import unit_names, with_estimators
from aucpr_dask.progress import console_for
from aucpr_dask.schema.terms import (
    CLASS,
    FOLD,
    ITEM,
    MODEL,
    QUERY,
    RANKING_DIMS,
    REPEAT,
    Scores,
    count,
    map_nodes,
    nodes_of,
    without_levels_of,
)
from aucpr_dask.view.comparisons import Answer, answers_of, contrasts_of, of_all_groups, summarize
from aucpr_dask.view.rankings import MOST_DATA_SETS, Document, rank_means, rank_models, rankings_in_html, rankings_view
from aucpr_dask.view.stores import flags_in_words
from aucpr_dask.view.tables import Column, Sheet, more, number

WIDTH = 80
# What shows the kind of data, in this order: ranks have estimates, mean ranks adjusted p-values, too.
KINDS = {
    "rank": "ranks",
    "difference": "comparison",
    "detectable": "power",
    "estimate": "result",
    "mean_rank": "mean ranks",
    "p_adjusted": "chance",
    "score": "scores",
}
ANSWERS = ("comparison", "ranks", "power", "mean ranks")
TABLES, MOST_ROWS = ("chance", "data"), 10


def as_text(data: Scores) -> str:
    """Return the sizes of the data, and the table of a computed answer with what was sampled."""
    data = without_levels_of(data)
    parts: list[Any] = [Text(_headline(data))]
    if rankings := _rankings(data):
        parts += [Text(""), rankings_view(rankings)]
    parts += map(Text, _remarks(data))
    for answer in _answers(data):
        parts += [Text(""), answer] if len(parts) > 1 else [answer]
    parts += [Text(""), sheet] if (sheet := _sheet(data)) else []
    return plain_text(Group(*parts))


def as_html(data: Scores) -> str:
    """Return the same as HTML that needs no style sheet and takes the colours of the page."""
    data = without_levels_of(data)
    parts = [f"<p><strong>{escape(_headline(data))}</strong></p>"]
    if rankings := _rankings(data):
        parts.append(rankings_in_html(rankings))
    parts += [f"<p>{escape(line)}</p>" for line in _remarks(data)]
    parts += [answer.as_html() for answer in _answers(data)]
    parts += [sheet.as_html()] if (sheet := _sheet(data)) else []
    return f'<div class="aucpr-dask">{"".join(parts)}</div>'


def plain_text(view: Group) -> str:
    """Return what people see in a terminal, without colours."""
    console = console_for(text_only=True)
    console.file, console.width = io.StringIO(), WIDTH
    console.no_color, console.legacy_windows = True, False
    with console.capture() as captured:
        console.print(view)
    return "\n".join(line.rstrip() for line in captured.get().rstrip().split("\n"))


def _kind(data: Scores) -> str:
    nodes = [node for _, node in nodes_of(data)]
    if nodes and all("contrasted" in node.attrs for node in nodes):
        return "contrasts"
    return next((kind for name, kind in KINDS.items() if nodes and all(name in node for node in nodes)), "data")


def _headline(data: Scores) -> str:
    nodes = [node for _, node in nodes_of(data)]
    sizes = [count(len(nodes), "data set")] if isinstance(data, xr.DataTree) else []
    for dim in (*RANKING_DIMS, ITEM, FOLD):
        found = {node.sizes[dim] for node in nodes if dim in node.sizes}
        if found:
            least = f"{min(found):,} to " if len(found) > 1 else ""
            sizes.append(least + count(max(found), *unit_names(dim, nodes[0].attrs)))
    return f"{_kind(data)}: {', '.join(sizes)}" if sizes else _kind(data)


def _rankings(data: Scores) -> list[Document]:
    """Return the rankings of models by a computed result, or by means; nothing for other data."""
    try:
        if not _is_ready(data):
            return []
        nodes = map_nodes(data, lambda _, node: with_estimators(node))
        return rank_means(nodes) if _are_means(data) else rank_models(nodes, most=MOST_DATA_SETS)
    except Exception:  # a selection may lack anything that a table needs, and a repr never raises
        return []


def _answers(data: Scores) -> list[Answer]:
    """Return the tables of a complete comparison, of ranks or of a power; nothing for other data."""
    try:
        if _kind(data) == "contrasts":
            return [contrasts_of(path, node) for path, node in nodes_of(data)]
        return answers_of(summarize(data)) if _kind(data) in ANSWERS else []
    except Exception:  # as above
        return []


def _sheet(data: Scores) -> Sheet | None:
    """Return the first rows of any other answer that is in memory, as a table."""
    try:
        ((_, node),) = nodes_of(data)
        if _kind(data) not in TABLES or any(one.chunks is not None for one in node.data_vars.values()):
            return None
        dims = max(node.data_vars.values(), key=lambda one: one.ndim).dims
        some = node.isel({dim: slice(MOST_ROWS) for dim in dims})
        rows = some[[name for name, one in some.data_vars.items() if one.dims]].to_dataframe(dim_order=dims)
        rows = rows.reset_index()[[*dims, *(name for name in rows if name in some.data_vars)]]
        cells = {name: [number(x) if isinstance(x, float) else str(x) for x in rows[name][:MOST_ROWS]] for name in rows}
        columns = [Column(str(name), one, right=name not in dims, name=name in dims) for name, one in cells.items()]
        return Sheet(columns, below=more(math.prod(node.sizes[dim] for dim in dims) - len(columns[0].cells), "row"))
    except Exception:  # as above
        return None


def _is_ready(data: Scores) -> bool:
    """Whether the data are a result whose estimates are in memory."""
    nodes = [node for _, node in nodes_of(data)]
    return _kind(data) == "result" and all(
        MODEL in node["estimate"].dims and node["estimate"].chunks is None for node in nodes
    )


def _are_means(data: Scores) -> bool:
    """Whether the data are what `aggregate` returns."""
    return all(
        not {QUERY, CLASS, REPEAT} & {*node["estimate"].dims} and ("over" in node.attrs or "flags" not in node)
        for _, node in nodes_of(data)
    )


def _remarks(data: Scores) -> Iterator[str]:
    """Return what to do next, how often a result is flagged, or what was found in all groups."""
    nodes = [node for _, node in nodes_of(data)]
    if _kind(data) in ANSWERS:
        yield from of_all_groups(data)
    if _is_ready(data):
        yield from filter(None, [flags_in_words(data) if all("flags" in node for node in nodes) else ""])
        if _are_means(data):
            yield from dict.fromkeys(str(node.attrs["design"]) for node in nodes if "design" in node.attrs)
    elif any("estimate" in node and node["estimate"].chunks is not None for node in nodes):
        yield "not computed yet: .compute(), or evaluate store to store by aucpr_dask.run"
    elif _kind(data) == "chance":
        p_values = [node["p_adjusted"] for node in nodes]
        if all(one.chunks is None for one in p_values):
            n_better = sum(int((p_value <= 0.05).sum()) for p_value in p_values)
            n = sum(int(p_value.notnull().sum()) for p_value in p_values)
            yield f"better than chance at 5 %, adjusted for all: {n_better:,} of {count(n, 'ranking')}"
    elif nodes and all("score" in node for node in nodes):
        yield "evaluate them: .aucpr.evaluate()"
