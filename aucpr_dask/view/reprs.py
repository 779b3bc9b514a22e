"""What `data.aucpr` looks like at a prompt and in a notebook. Names are data: none of them is read as markup."""

from __future__ import annotations

import io
import math
from contextlib import suppress
from html import escape
from typing import Any, NamedTuple

import xarray as xr
from rich.console import Group
from rich.text import Text

from aucpr_dask.inference.designs import unit_names, with_estimators
from aucpr_dask.progress import console_for
from aucpr_dask.schema import terms
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


class _Shown(NamedTuple):
    """What people see of data; the tables of what is computed, and nothing of what they lack."""

    headline: str  # the kind and the sizes
    rankings: list[Document]
    remarks: list[str]  # what to do next, how often a result is flagged, or what was found in all groups
    answers: list[Answer]
    sheet: Sheet | None  # the first rows of any other answer


def as_text(data: terms.Scores) -> str:
    """Return the sizes of the data, and the table of a computed answer with what was sampled."""
    shown = _shown(terms.without_levels_of(data))
    parts: list[Any] = [Text(shown.headline)]
    parts += [Text(""), rankings_view(shown.rankings)] if shown.rankings else []
    parts += map(Text, shown.remarks)
    for answer in shown.answers:
        parts += [Text(""), answer] if len(parts) > 1 else [answer]
    parts += [Text(""), shown.sheet] if shown.sheet else []
    return plain_text(Group(*parts))


def as_html(data: terms.Scores) -> str:
    """Return the same as HTML that needs no style sheet and takes the colours of the page."""
    shown = _shown(terms.without_levels_of(data))
    parts = [f"<p><strong>{escape(shown.headline)}</strong></p>"]
    parts += [rankings_in_html(shown.rankings)] if shown.rankings else []
    parts += [f"<p>{escape(line)}</p>" for line in shown.remarks]
    parts += [one.as_html() for one in (*shown.answers, shown.sheet) if one]
    return f'<div class="aucpr-dask">{"".join(parts)}</div>'


def plain_text(view: Group) -> str:
    """Return what people see in a terminal, without colours."""
    console = console_for(text_only=True)
    console.file, console.width = io.StringIO(), WIDTH
    console.no_color, console.legacy_windows = True, False
    with console.capture() as captured:
        console.print(view)
    return "\n".join(line.rstrip() for line in captured.get().rstrip().split("\n"))


def _shown(data: terms.Scores) -> _Shown:
    nodes = [node for _, node in terms.nodes_of(data)]
    kind = next((kind for name, kind in KINDS.items() if nodes and all(name in node for node in nodes)), "data")
    if nodes and all("contrasted" in node.attrs for node in nodes):
        kind = "contrasts"
    sizes = [terms.count(len(nodes), "data set")] if isinstance(data, xr.DataTree) else []
    for dim in (*terms.RANKING_DIMS, terms.ITEM, terms.FOLD):
        if found := {node.sizes[dim] for node in nodes if dim in node.sizes}:
            least = f"{min(found):,} to " if len(found) > 1 else ""
            sizes.append(least + terms.count(max(found), *unit_names(dim, nodes[0].attrs)))
    estimates = [node["estimate"] for node in nodes if "estimate" in node]
    is_lazy = any(one.chunks is not None for one in estimates)
    is_ready = kind == "result" and not is_lazy and all(terms.MODEL in one.dims for one in estimates)
    # What `aggregate` returns.
    are_means = is_ready and not any({terms.QUERY, terms.CLASS, terms.REPEAT} & {*one.dims} for one in estimates)
    are_means = are_means and all("over" in node.attrs or "flags" not in node for node in nodes)
    remarks = of_all_groups(data) if kind in ANSWERS else []
    if is_ready:
        remarks += filter(None, [flags_in_words(data) if all("flags" in node for node in nodes) else ""])
        designs = [str(node.attrs["design"]) for node in nodes if "design" in node.attrs]
        remarks += dict.fromkeys(designs if are_means else ())
    elif is_lazy:
        remarks.append("not computed yet: .compute(), or evaluate store to store by aucpr_dask.run")
    elif kind == "chance" and all(node["p_adjusted"].chunks is None for node in nodes):
        n_better = sum(int((node["p_adjusted"] <= 0.05).sum()) for node in nodes)
        n = sum(int(node["p_adjusted"].notnull().sum()) for node in nodes)
        remarks.append(f"better than chance at 5 %, adjusted for all: {n_better:,} of {terms.count(n, 'ranking')}")
    elif kind == "scores":
        remarks.append("evaluate them: .aucpr.evaluate()")
    rankings, answers, sheet = list[Document](), list[Answer](), None
    with suppress(Exception):  # a selection may lack anything that a table needs, and a repr never raises
        if is_ready:
            oriented = terms.map_nodes(data, lambda _, node: with_estimators(node))
            rankings = rank_means(oriented) if are_means else rank_models(oriented, most=MOST_DATA_SETS)
        elif kind == "contrasts":
            answers = [contrasts_of(path, node) for path, node in terms.nodes_of(data)]
        elif kind in ANSWERS:
            answers = answers_of(summarize(data))
        elif kind in TABLES and len(nodes) == 1:
            sheet = _sheet(nodes[0])
    headline = f"{kind}: {', '.join(sizes)}" if sizes else kind
    return _Shown(headline, rankings, remarks, answers, sheet)


def _sheet(node: xr.Dataset) -> Sheet | None:
    """Return the first rows of what is in memory, as a table."""
    if any(one.chunks is not None for one in node.data_vars.values()):
        return None
    dims = max(node.data_vars.values(), key=lambda one: one.ndim).dims
    some = node.isel({dim: slice(MOST_ROWS) for dim in dims})
    rows = some[[name for name, one in some.data_vars.items() if one.dims]].to_dataframe(dim_order=dims)
    rows = rows.reset_index()[[*dims, *(name for name in rows if name in some.data_vars)]]
    cells = {name: [number(x) if isinstance(x, float) else str(x) for x in rows[name][:MOST_ROWS]] for name in rows}
    columns = [Column(str(name), one, right=name not in dims, name=name in dims) for name, one in cells.items()]
    return Sheet(columns, below=more(math.prod(node.sizes[dim] for dim in dims) - len(columns[0].cells), "row"))
