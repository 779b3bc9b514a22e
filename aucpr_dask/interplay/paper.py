"""Results as tables for a paper: LaTeX and Markdown."""

from __future__ import annotations

import re

import numpy as np
import xarray as xr

from aucpr_dask.evaluation.results import not_a_result
from aucpr_dask.inference.aggregating import aggregate
from aucpr_dask.inference.comparing import compare
from aucpr_dask.inference.measures import measured, values_as_areas
from aucpr_dask.schema.names import in_words, percent
from aucpr_dask.schema.trees import Scores, nodes_of
from aucpr_dask.schema.variables import ESTIMATOR, METHOD, MODEL

MARKS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
} | {sign: f"\\{sign}" for sign in "{}$&#_%"}


def paper_tables(result: Scores, kind: str, baseline: str | None = None) -> str:
    """Return a table of each data set: models with their means, intervals and marks of significance, best first."""
    tables = []
    for path, node in nodes_of(result):
        node = values_as_areas(node)
        if MODEL not in node.dims or ESTIMATOR not in node.dims:
            raise not_a_result(f"dimensions {', '.join(map(str, node.dims))}")
        header, rows, note = _cells(node, baseline)
        tables.append((_latex if kind == "latex" else markdown_table)(path, header, rows, note))
    return "\n".join(tables)


def _cells(node: xr.Dataset, baseline: str | None) -> tuple[list[str], list[list[str]], str]:
    """Return the header, the rows and the note of a table."""
    has_level = "interval" in node and node.sizes[METHOD] > 0
    level = float(node["level"]) if has_level else 0.95
    ((_, means),) = nodes_of(aggregate(node, level=level).load())
    first = means["estimate"].isel({ESTIMATOR: 0}).values
    order = np.argsort(-np.where(np.isnan(first), -np.inf, first), kind="stable")
    names = means.get_index(MODEL).map(str)
    header, columns = ["model"], [[names[i] for i in order]]
    note = f"{means.attrs['design']}."
    for estimator in map(str, means[ESTIMATOR].values):
        one = means.sel({ESTIMATOR: estimator})
        marks = {}
        if baseline is not None:
            ((_, answer),) = nodes_of(compare(node, baseline, estimator=estimator).squeeze("baseline").load())
            p_values = answer["p_adjusted"].to_series()
            marks = {str(name): next((mark for most, mark in MARKS if p <= most), "") for name, p in p_values.items()}
            facts = answer.attrs
            method, adjusted = in_words(str(facts["method"])), in_words(str(facts["adjust"]))
            how = f"{method}, {adjusted} adjusted for {facts['family_size']} comparisons"
        header += [measured(node.attrs, estimator)]
        columns += [[_number(one["estimate"].values[i]) + marks.get(names[i], "") for i in order]]
        if "interval" in means:
            header += [f"{percent(level)} interval"]
            columns += [["[" + ", ".join(map(_number, one["interval"].values[i])) + "]" for i in order]]
    if baseline is not None:
        note += f" *, **, ***: differs from {baseline} at 5 %, 1 %, 0.1 % ({how})."
    return header, [list(row) for row in zip(*columns, strict=True)], note[0].upper() + note[1:]


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.4f}"


def _latex(path: str, header: list[str], rows: list[list[str]], note: str) -> str:
    def escaped(text: str) -> str:
        return re.sub(r"[\\~^<>|{}$&#_%]", lambda found: LATEX[found[0]], " ".join(text.split()))

    def line(cells: list[str]) -> str:
        marked = (re.sub(r"(?<=\d)(\*+)$", r"$^{\1}$", escaped(cell)) for cell in cells[1:])
        first = re.sub(r"^([\[*])", r"{\1}", escaped(cells[0]))  # which would belong to the end of the line before
        return " & ".join([first, *marked]) + r" \\"

    body = [line(header), r"\midrule", *map(line, rows)]
    begin = [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}", r"\toprule"]
    caption = escaped(f"{path}: {note}" if path else note)
    end = [r"\bottomrule", r"\end{tabular}", rf"\caption{{{caption}}}", r"\end{table}"]
    return "\n".join([r"% \usepackage{booktabs}", *begin, *body, *end, ""])


def markdown_table(path: str, header: list[str], rows: list[list[str]], note: str) -> str:
    """Return a table in Markdown with a title and a note below it, in which no text is read as markup."""

    def escaped(text: str) -> str:
        return re.sub(r"([\\`*_{}\[\]<>|#~])", r"\\\1", " ".join(text.split()))

    def line(cells: list[str]) -> str:
        return f"| {' | '.join(cells)} |"

    lines = [line([escaped(cell) for cell in row]) for row in (header, *rows)]
    title = [f"**{escaped(path)}**", ""] if path else []
    ruler = line(["---", *["---:"] * (len(header) - 1)])
    return "\n".join([*title, lines[0], ruler, *lines[1:], "", escaped(note), ""])
