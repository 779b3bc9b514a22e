"""The section on groups of items: where models differ from a baseline, and between which groups models differ."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from aucpr_dask.errors import FewPositivesWarning, InvalidInputError, as_called, printable
from aucpr_dask.evaluation.groups import along_queries
from aucpr_dask.evaluation.results import group_dims
from aucpr_dask.inference import aggregating, comparing, contrasting, designs, grouped
from aucpr_dask.inference.questions import evaluated_with
from aucpr_dask.schema import terms
from aucpr_dask.schema.options import ReportOptions
from aucpr_dask.view import selecting
from aucpr_dask.view.comparisons import rows_of_groups
from aucpr_dask.view.rankings import level_of
from aucpr_dask.view.tables import bounds, distinct, number, signed

MOST_LINES, NAME_WIDTH = 40, 28  # of the table and the picture
MAP_WIDTH = 300  # of a map, in pixels
SHADES = 24  # of the key to the colours
PALEST = 0.08  # opacity of the least value


def names_of_queries(data: terms.Scores, by: Any) -> list[str]:
    """Return the names of groups of queries; none if they are groups of items."""
    named = [along_queries(node, by) for _, node in terms.nodes_of(data)]
    return list(named[0][0]) if named and all(names and rest is None for names, rest in named) else []


def scores_of_groups(scores: terms.Scores, result: terms.Scores, by: Any) -> terms.Scores:
    """Return a tree of the scores of each group of items of a result; the scores as they are without groups."""
    results = dict(terms.nodes_of(result))
    if not any(map(group_dims, results.values())):
        return scores
    nodes: dict[str, xr.Dataset] = {}
    for path, node in terms.nodes_of(scores):
        of_items = [name for name in group_dims(results[path]) if name not in node["score"].dims]
        nodes |= terms.nodes_of(grouped.tree_of_groups(node, (of_items or None) if by is None else by, path))
    return xr.DataTree.from_dict(nodes)


def groups_shown(
    result: terms.Scores, scores: terms.Scores | None, options: ReportOptions, named: Any, of_queries: list[str]
) -> dict[str, Any] | None:
    """Return the words, tables and pictures of the section; None without groups."""
    nodes = [node for _, node in terms.nodes_of(grouped.with_kept_as_groups(result))]
    if not of_queries and not any(map(group_dims, nodes)):
        return None
    first, by = nodes[0], [*group_dims(nodes[0]), *of_queries]
    names = designs.estimators_of(first)[:1]
    asked: dict[str, Any] = {"level": level_of(first), "estimator": names[0] if names else None}
    of_items: Any = named if of_queries else None
    if scores is not None and not of_queries:
        dims = {dim for _, node in terms.nodes_of(scores) for dim in node["score"].dims}
        of_items = named if named is not None else [name for name in by if name not in dims] or None
        asked |= evaluated_with(first.attrs) | {"over": first.attrs.get("sampled", "items")}
    measure, baseline = designs.measured(first.attrs, *names), options.baseline
    data = result if scores is None or of_queries else scores
    ends = f"with simultaneous {terms.percent(asked['level'])} intervals"
    title = "Where do models differ?"
    maps = [_map_shown(path, node) for path, node in terms.nodes_of(result)]
    parts = [_part("Where is each model good?", maps=maps)] if any(maps) else []
    if baseline is None:
        parts.append(_part(title, [as_called("Name a baseline (baseline=) to see in which groups others lose.")]))
    else:
        compared = partial(comparing.compare, data, baseline, by=of_items, incomplete="drop", **asked)
        about = f"Difference in {measure} from {printable(baseline)}, {ends}; the largest losses first"
        call = "ap.compare(scores, baseline, by=...)"
        parts.append(_answered(title, "Models cannot be compared here", compared, about, call, baseline))
    if of_items is not None:
        title = "In which groups are models worse?"
        contrasted = partial(contrasting.contrast, data, of_items, baseline=baseline, **asked)
        what = measure if baseline is None else f"the difference in {measure} from {printable(baseline)}"
        about = f"Difference between two groups in {what}, {ends}; the largest losses first"
        call = "ap.contrast(scores, by=...)"
        parts.append(_answered(title, "Groups cannot be contrasted here", contrasted, about, call, baseline))
    return {"by": " and ".join(by), "parts": parts}


def _answered(
    title: str, impossible: str, ask: Callable[[], terms.Scores], about: str, call: str, baseline: str | None
) -> dict[str, Any]:
    """Return the answer of each data set in words, and a line for each of its differences, the largest losses first."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FewPositivesWarning)
            answer = ask()
    except InvalidInputError as error:
        return _part(title, [f"{impossible}: {str(error).splitlines()[0]}."])
    nodes = dict(terms.nodes_of(answer))
    lines = []
    for path, node in nodes.items():
        # Comparisons are the larger, the better; contrasts are of the values as they are.
        rows, way = rows_of_groups(node), designs.direction(node.attrs) if "contrasted" in node.attrs else 1.0
        for row in rows[rows["difference"].notna() & (rows["model"] != baseline)].to_dict("records"):
            at, model, p_value = float(row["difference"]), row["model"], float(row["p_adjusted"])
            (low, high), group = map(float, row["simultaneous_interval"]), ", ".join(filter(None, [path, row["where"]]))
            told = f"{model} in {group}: {signed(at)}, {signed(low)} to {signed(high)}"
            line: dict[str, Any] = {"low": low, "at": at, "high": high, "order": way * at, "title": printable(told)}
            line |= {"group": printable(group), "model": printable(model), "label": printable(f"{group}: {model}")}
            line["interval"] = bounds((low, high), "+")
            line["p"] = terms.p_value_in_words(p_value)[2:].removeprefix("= ")
            is_shown = p_value <= 1 - level_of(node)
            line["verdict"] = ("better" if way * at > 0 else "worse") if is_shown else "not shown to differ"
            lines.append(line)
    lines.sort(key=lambda line: line["order"])
    kept = lines[:MOST_LINES]
    for line, name in zip(kept, distinct([line["label"] for line in kept], NAME_WIDTH), strict=True):
        line["name"] = name
    edge = max((abs(line[end]) for line in kept for end in ("low", "high") if np.isfinite(line[end])), default=1.0)
    said = [printable(node.attrs["summary"]) for node in nodes.values() if "summary" in node.attrs]
    more = len(lines) - len(kept)
    maps = [_map_shown(path, node) for path, node in nodes.items()]
    return _part(title, said, maps) | {"lines": kept, "more": more, "about": about, "edge": edge or 1.0, "call": call}


def _part(title: str, summary: Sequence[str] = (), maps: Sequence[dict[str, Any] | None] = ()) -> dict[str, Any]:
    return {"title": title, "summary": summary, "lines": [], "maps": list(filter(None, maps))}


# Maps: areas, or differences from the baseline, over two numeric dimensions, a panel for each model


def _map_shown(path: str, node: xr.Dataset) -> dict[str, Any] | None:
    """Return the words, cells and key of a map, as the template draws them; None unless two dimensions are numeric."""
    if "contrasted" in node.attrs:  # between groups, not within them
        return None
    is_difference = "difference" in node
    if not is_difference and {terms.QUERY, terms.REPEAT} & {*node["estimate"].dims}:
        node = aggregating.aggregate(node, level=level_of(node))
    try:
        field = selecting.field_of(node if is_difference else designs.with_estimators(node))
    except InvalidInputError:
        return None
    across, up, (low, high) = field.across, field.up, field.scale
    values = field.values.transpose(terms.MODEL, up, across).values
    differs = np.zeros(values.shape, bool)
    if field.differs is not None:
        differs = field.differs.transpose(terms.MODEL, up, across).values
    height = round(MAP_WIDTH * field.ratio)
    x, y = MAP_WIDTH * _edges(field.values[across].values), height * (1 - _edges(field.values[up].values))
    places = {name: [_place(at) for at in field.values[name].values] for name in (across, up)}
    panels = []
    for model, place in enumerate(field.shown):
        cells = []
        for (row, column), value in np.ndenumerate(values[model]):
            box = {"x": x[column], "y": y[row + 1], "width": x[column + 1] - x[column], "height": y[row] - y[row + 1]}
            mark = ("better" if value > 0 else "worse") if differs[model, row, column] else None
            said = (signed if is_difference else number)(value) + (f", {mark}" if mark else "")
            title = f"{up} {places[up][row]}, {across} {places[across][column]}: {said}"
            cells.append(box | _colour(value, field) | {"mark": mark, "title": title})
        panels.append({"name": printable(field.names[place]), "cells": cells})
    about = f"{path}: " * bool(path) + f"{field.measure[:1].upper()}{field.measure[1:]} over {across} and {up}"
    n_shown, n_models = len(field.shown), len(field.names)
    about += f", of the {n_shown} best of {n_models:,} models" if n_shown < n_models else ""
    about += "; a dash stands for a cell without an estimate" if np.isnan(values).any() else ""
    if differs.any():
        about += "; a triangle marks a cell in which the model is shown to be better (pointing up) or worse (down)"
    ends = [f"{signed(low)}, worse", f"{signed(high)}, better"] if is_difference else [number(low), number(high)]
    return {
        "about": printable(about),
        "panels": panels,
        "across": [across, places[across][0], places[across][-1]],
        "up": [up, places[up][0], places[up][-1]],
        "size": (MAP_WIDTH, height),
        "key": (ends[0], [_colour(value, field) for value in np.linspace(low, high, SHADES)], ends[1]),
    }


def _colour(value: float, field: selecting.Field) -> dict[str, Any]:
    """Return the kind of a cell, which has a colour in the style sheet, and how much of that colour."""
    if np.isnan(value):
        return {"kind": "none", "share": 1}
    low, high = field.scale
    share = abs(value) / high if field.is_difference else (value - low) / (high - low or 1)
    kind = "worse" if field.is_difference and value < 0 else "more"
    return {"kind": kind, "share": PALEST + (1 - PALEST) * share}


def _edges(at: NDArray[Any]) -> NDArray[np.float64]:
    """Return where cells begin and end, half-way between their centres, from 0 to 1."""
    if at.size < 2:
        return np.array([0.0, 1.0])
    centres = (at.astype(np.int64) if at.dtype.kind == "M" else at).astype(np.float64)
    middle = (centres[1:] + centres[:-1]) / 2
    ends = np.concatenate([2 * centres[:1] - middle[:1], middle, 2 * centres[-1:] - middle[-1:]])
    edges: NDArray[np.float64] = (ends - ends[0]) / (ends[-1] - ends[0])
    return edges


def _place(at: Any) -> str:
    return f"{at:g}" if isinstance(at, np.number) else str(at).removesuffix("T00:00:00.000000000")
