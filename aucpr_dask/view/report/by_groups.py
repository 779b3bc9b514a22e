"""The section on groups of items: where models differ from a baseline, all groups together."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import xarray as xr

from aucpr_dask.errors import FewPositivesWarning, InvalidInputError, printable
from aucpr_dask.evaluation.api import evaluate
from aucpr_dask.evaluation.results import group_dims
from aucpr_dask.inference import comparing, designs, grouped
from aucpr_dask.inference.questions import evaluated_with
from aucpr_dask.schema import terms
from aucpr_dask.schema.options import ReportOptions
from aucpr_dask.view.rankings import level_of
from aucpr_dask.view.tables import bounds, distinct, signed

MOST_LINES, NAME_WIDTH = 40, 28  # of the table and the picture


def evaluated_by(data: terms.Scores, scores: terms.Scores | None, by: Any) -> tuple[terms.Scores, terms.Scores | None]:
    """Return the result to report, and its scores: those that are given in its place are evaluated."""
    if scores is None and all("score" in node for _, node in terms.nodes_of(data)):
        return evaluate(data, by=by), data
    if by is None:
        return data, scores
    named = [by] if isinstance(by, str) else by
    if all(list(named) == group_dims(node) for _, node in terms.nodes_of(data)):
        return data, scores
    what, remedy = "this result is evaluated already, without these groups", "pass the scores in its place"
    raise InvalidInputError(what, "option 'by'", repr(by), "scores, or the groups of the result", remedy)


def scores_of_groups(scores: terms.Scores, result: terms.Scores, by: Any) -> terms.Scores:
    """Return a tree of the scores of each group of a result; the scores as they are without groups."""
    results = dict(terms.nodes_of(result))
    if not any(map(group_dims, results.values())):
        return scores
    nodes: dict[str, xr.Dataset] = {}
    for path, node in terms.nodes_of(scores):
        of_items = [name for name in group_dims(results[path]) if name not in node["score"].dims]
        parts = grouped.parts_of(node, (of_items or None) if by is None else by, path)
        for place in range(len(parts.names)):
            tree = parts.tree(place, path)
            nodes |= {} if tree is None else terms.nodes_of(tree)
    return xr.DataTree.from_dict(nodes)


def groups_shown(
    result: terms.Scores, scores: terms.Scores | None, options: ReportOptions, named: Any
) -> dict[str, Any] | None:
    """Return the words, the table and the picture of the section; None without groups."""
    nodes = [node for _, node in terms.nodes_of(grouped.with_kept_as_groups(result))]
    if not any(map(group_dims, nodes)):
        return None
    first, by = nodes[0], group_dims(nodes[0])
    names = designs.estimators_of(first)[:1]
    shown: dict[str, Any] = {"by": " and ".join(by), "summary": [], "lines": [], "more": 0, "about": ""}
    if options.baseline is None:
        return shown | {"summary": ["Name a baseline (baseline=, --baseline) to see in which groups others lose."]}
    asked: dict[str, Any] = {"level": level_of(first), "incomplete": "drop", "estimator": names[0] if names else None}
    if scores is not None:
        dims = {dim for _, node in terms.nodes_of(scores) for dim in node["score"].dims}
        of_items = [name for name in by if name not in dims] or None
        asked |= evaluated_with(first.attrs)
        asked |= {"by": of_items if named is None else named, "over": first.attrs.get("sampled", "items")}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FewPositivesWarning)
            compared = comparing.compare(result if scores is None else scores, options.baseline, **asked)
    except InvalidInputError as error:
        return shown | {"summary": [f"Models cannot be compared here: {str(error).splitlines()[0]}."]}
    lines = [line for path, node in terms.nodes_of(compared) for line in _lines(path, node, by, options.baseline)]
    lines.sort(key=lambda line: line["order"])
    kept = lines[:MOST_LINES]
    for line, name in zip(kept, distinct([line["label"] for line in kept], NAME_WIDTH), strict=True):
        line["name"] = name
    edge = max((abs(line[end]) for line in kept for end in ("low", "high") if np.isfinite(line[end])), default=1.0)
    about = f"Difference in {designs.measured(first.attrs, *names)} from {printable(options.baseline)}, with"
    about += f" {terms.percent(asked['level'])} intervals that hold for all groups together; the largest losses first"
    said = [printable(node.attrs["summary"]) for _, node in terms.nodes_of(compared) if "summary" in node.attrs]
    return shown | {"summary": said, "lines": kept, "more": len(lines) - len(kept), "about": about, "edge": edge or 1.0}


def _lines(path: str, node: xr.Dataset, by: list[str], baseline: str) -> list[dict[str, Any]]:
    """Return a line for each model and group whose difference is known."""
    way = designs.direction(node.attrs)
    flat = node.stack(place=(terms.MODEL, *by), create_index=False)
    labels = [[str(value) for value in flat[dim].values] for dim in by]
    lines = []
    for place, model in enumerate(map(str, flat[terms.MODEL].values)):
        one = flat.isel(place=place)
        at, p_value = float(one["difference"]), float(one["p_adjusted"])
        if model == baseline or not np.isfinite(at):
            continue
        low, high = (float(end) for end in one["simultaneous_interval"].values)
        group = ", ".join(filter(None, [path, *(of[place] for of in labels)]))
        is_shown = p_value <= 1 - level_of(node)
        said = f"{model} in {group}: {signed(at)}, {signed(low)} to {signed(high)}"
        line: dict[str, Any] = {"low": low, "at": at, "high": high, "order": way * at, "title": printable(said)}
        line |= {"group": printable(group), "model": printable(model), "label": printable(f"{group}: {model}")}
        line["interval"] = bounds((low, high), "+")
        line["p"] = terms.p_value_in_words(p_value)[2:].removeprefix("= ")
        line["verdict"] = ("better" if way * at > 0 else "worse") if is_shown else "not shown to differ"
        lines.append(line)
    return lines
