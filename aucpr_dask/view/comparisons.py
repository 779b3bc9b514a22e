"""Comparisons and ranks as plain records, and as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from rich.console import Group, RenderableType
from rich.text import Text

from aucpr_dask.inference.samples import UNIT_NAMES
from aucpr_dask.schema.variables import BOUND, MODEL
from aucpr_dask.scores.importing.files import count
from aucpr_dask.storage.stores import Scores, nodes_of
from aucpr_dask.view.names import shorten
from aucpr_dask.view.tables import (
    Column,
    attributes_view,
    bounds,
    fitted_table,
    more,
    number,
    percent,
    titled,
)

MOST_PAIRS = 20_000  # as records; a store holds all
TOP = 10
_PAIR_VARIABLES = (
    "difference",
    "standard_error",
    "interval",
    "simultaneous_interval",
    "p_value",
    "p_adjusted",
    "p_equivalence",
    "decision",
)
_RANK_VARIABLES = (
    "estimate",
    "rank",
    "rank_interval",
    "simultaneous_rank_interval",
    "probability_best",
    "expected_rank",
)


@dataclass(frozen=True)
class Comparison:
    """The comparisons of one data set: models best first, pairs of a better and a worse one or with a baseline.

    The columns of `pairs` that the method does not have contain None.
    """

    data_set: str
    facts: dict[str, Any]
    n_units: int | None
    baselines: tuple[str, ...] | None
    models: tuple[tuple[str, float], ...]
    n_separable: int
    n_separable_neighbours: int | None
    pairs: pd.DataFrame
    more_pairs: int


@dataclass(frozen=True)
class Ranks:
    """The ranks of the models of one data set, best first: a row for each model."""

    data_set: str
    facts: dict[str, Any]
    n_units: int | None
    models: pd.DataFrame


def summarize_stored(answer: Scores) -> list[dict[str, Any]]:
    """Describe a store of comparisons or ranks without reading its arrays."""
    return [
        {
            "data_set": path,
            "kind": "ranks" if "rank" in node else "comparison",
            "sizes": {str(dim): size for dim, size in node.sizes.items() if dim != BOUND},
            "facts": dict(node.attrs),
            "variables": {str(name): str(one.attrs.get("description", "")) for name, one in node.data_vars.items()},
        }
        for path, node in nodes_of(answer)
    ]


def stored_view(answers: Sequence[dict[str, Any]], url: str) -> Group:
    """Show the sizes, the attributes and the variables of a store of comparisons or ranks."""
    parts: list[RenderableType] = [Text(f"comparison store {url}", style="bold")]
    for answer in answers:
        sizes = ", ".join(f"{size:,} {dim.replace('_', ' ')}" for dim, size in answer["sizes"].items())
        parts += [Text(""), titled(answer["data_set"], f"{answer['kind']}: {sizes}"), attributes_view(answer["facts"])]
        parts += [Text(""), attributes_view(answer["variables"])]
    return Group(*parts)


def summarize_comparison(comparison: Scores) -> list[Comparison]:
    """Return the comparisons of each data set: pairs with baselines, or neighbours first and then all other pairs."""
    return [_summarize(path, node.load()) for path, node in nodes_of(comparison)]


def _summarize(path: str, node: xr.Dataset) -> Comparison:
    names = [str(name) for name in node[MODEL].values]
    estimate = node["estimate"].values
    order = _best_first(estimate)
    is_separable = node["p_adjusted"].values <= 1 - float(node.attrs["level"])
    baselines: tuple[str, ...] | None = None
    if "baseline" in node.dims:
        others = [str(name) for name in node["baseline"].values]
        baselines = tuple(others)
        cells = [(i, j) for j, name in enumerate(others) for i in order if names[i] != name]
        # Two baselines are compared with each other twice.
        n_separable = sum({frozenset((names[i], others[j])): is_separable[i, j] for i, j in cells}.values())
        neighbours, n_hidden = None, 0
    else:
        others = names
        cells = list(pairwise(order))
        n_separable = np.count_nonzero(np.triu(is_separable, 1))
        neighbours = int(sum(is_separable[pair] for pair in cells))
        if len(names) * (len(names) - 1) // 2 <= MOST_PAIRS:
            cells += [(i, j) for at, i in enumerate(order) for j in order[at + 2 :]]
        n_hidden = max(0, int(node.attrs["family_size"]) - len(cells))
    return Comparison(
        data_set=path,
        facts=dict(node.attrs),
        n_units=_n_units(node),
        baselines=baselines,
        models=tuple((names[i], float(estimate[i])) for i in order),
        n_separable=int(n_separable),
        n_separable_neighbours=neighbours,
        pairs=_pairs(node, cells, names, others),
        more_pairs=n_hidden,
    )


def _pairs(node: xr.Dataset, cells: Sequence[tuple[int, int]], names: list[str], others: list[str]) -> pd.DataFrame:
    """Return a row for each pair; intervals are arrays (lower, upper)."""
    at = tuple(np.array(cells, dtype=np.intp).reshape(-1, 2).T)
    columns = {name: list(node[name].values[at]) if name in node else None for name in _PAIR_VARIABLES}
    pairs = pd.DataFrame({"model": np.array(names, object)[at[0]], "other": np.array(others, object)[at[1]]} | columns)
    if "decision" in node:
        pairs["decision"] = pairs["decision"].map(dict(enumerate(node["decision"].attrs["flag_meanings"].split())))
    return pairs


def summarize_ranks(ranks: Scores) -> list[Ranks]:
    """Return the ranks of each data set as records."""
    return [_summarize_ranks(path, node.load()) for path, node in nodes_of(ranks)]


def _summarize_ranks(path: str, node: xr.Dataset) -> Ranks:
    columns = {name: list(node[name].transpose(MODEL, ...).values) for name in _RANK_VARIABLES}
    columns["groups"] = list(zip(node["first_group"].values, node["last_group"].values, strict=True))
    models = pd.DataFrame({"model": [str(name) for name in node[MODEL].values]} | columns)
    return Ranks(path, dict(node.attrs), _n_units(node), models.iloc[_best_first(node["estimate"].values)])


def _best_first(estimate: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.argsort(-estimate, kind="stable")


def _n_units(node: xr.Dataset) -> int | None:
    return int(node["n_units"]) if "n_units" in node else None


def comparison_view(comparison: Comparison, width: int, *, top: int | None = TOP) -> Group:
    """Show models with their difference from the next, or from each baseline, and how many pairs differ."""
    facts = comparison.facts
    tables = _neighbours(comparison, width, top) if comparison.baselines is None else []
    for baseline in comparison.baselines or ():
        tables += [Text(""), *_against(comparison, baseline, width, top)]
    adjust = str(facts["adjust"]).replace("_", " ")
    alpha = percent(1 - float(facts["level"]))
    together = "not adjusted" if adjust == "none" else f"adjusted: {adjust}"
    separable = f"{comparison.n_separable:,} of {count(int(facts['family_size']), 'pair')}"
    if comparison.n_separable_neighbours is not None:
        pairs = count(len(comparison.models) - 1, "neighbour pair")
        separable += f", {comparison.n_separable_neighbours:,} of {pairs}"
    notes = [Text(f"significant at {alpha} ({together}): {separable}", style="bold")]
    if "equivalence" in facts:
        margin = f"within {float(facts['equivalence']):g}"
        notes.append(Text(f"equivalence ({margin}): each pair alone, not adjusted for the number of pairs"))
    return Group(_headline(comparison), *tables, Text(""), *notes, _design(comparison))


def _headline(answer: Comparison | Ranks) -> Text:
    about = [str(answer.facts[name]).replace("_", " ") for name in ("estimator", "method") if name in answer.facts]
    return titled(answer.data_set, ", ".join(about))


def _design(answer: Comparison | Ranks) -> Text:
    return Text(str(answer.facts["design"]), style="dim")


def _neighbours(comparison: Comparison, width: int, top: int | None) -> list[RenderableType]:
    """Show each model with its difference from the next."""
    models = comparison.models[:top]
    columns = [
        Column("", [str(place) for place in range(1, len(models) + 1)], right=True),
        Column("model", [name for name, _ in models], name=True),
        Column("area", [number(estimate) for _, estimate in models], right=True),
    ]
    pairs = comparison.pairs[: len(comparison.models) - 1][: len(models)]
    table = fitted_table(columns + _columns(pairs, "to next", len(models)), width)
    return [table, *more(len(comparison.models) - len(models), "model")]


def _against(comparison: Comparison, baseline: str, width: int, top: int | None) -> list[RenderableType]:
    """Show the models with their difference from a baseline."""
    areas = dict(comparison.models)
    pairs = comparison.pairs[comparison.pairs["other"] == baseline]
    shown = pairs[:top]
    columns = [
        Column("model", list(shown["model"]), name=True),
        Column("area", [number(areas[name]) for name in shown["model"]], right=True),
    ]
    title = Text("baseline ").append(shorten(baseline, width - 20)).append(f"  {number(areas[baseline])}", style="dim")
    table = fitted_table(columns + _columns(shown, "difference", len(shown)), width)
    return [title, table, *more(len(pairs) - len(shown), "model")]


def _columns(pairs: pd.DataFrame, header: str, n_rows: int) -> list[Column]:
    """Return the columns of pairs, with empty cells in the rows without a pair."""

    def column(header: str, name: str, show: Callable[[Any], str], *, right: bool = True) -> Column:
        return Column(header, [*map(show, pairs[name]), *[""] * (n_rows - len(pairs))], right)

    columns = [column(header, "difference", "{:+.4f}".format)]
    if len(pairs) and pairs["simultaneous_interval"].iloc[0] is not None:
        columns.append(column("simultaneous", "simultaneous_interval", lambda ends: bounds(ends, "+.3f"), right=False))
    columns += [column("p", "p_value", _p_value), column("adjusted", "p_adjusted", _p_value)]
    if len(pairs) and pairs["decision"].iloc[0] is not None:
        columns.append(column("decision", "decision", str, right=False))
    return columns


def _p_value(value: float) -> str:
    return f"{value:.4f}" if value >= 0.00005 else "<0.0001"


def ranks_view(ranks: Ranks, width: int, *, top: int | None = TOP) -> Group:
    """Show the models with the ranks that they may have, best first."""
    shown = ranks.models[:top]
    columns = [
        Column("", [f"{rank:g}" for rank in shown["rank"]], right=True),
        Column("model", list(shown["model"]), name=True),
        Column("area", list(map(number, shown["estimate"])), right=True),
        Column("rank set", list(map(_span, shown["rank_interval"]))),
        Column("all at once", list(map(_span, shown["simultaneous_rank_interval"]))),
        Column("best", [f"{share:.1%}" for share in shown["probability_best"]], right=True),
        Column("groups", list(map(_span, shown["groups"]))),
    ]
    drawn = "bootstrap resamples" if ranks.facts["method"] != "influence" else "normal draws of the areas"
    if ranks.n_units is not None and ranks.facts["sample"] == "units":
        drawn += f" of the {UNIT_NAMES[ranks.facts['over']][1]}"
    groups = f"{count(int(ranks.facts['n_groups']), 'group')} of indistinguishable models"
    return Group(
        _headline(ranks),
        fitted_table(columns, width),
        *more(len(ranks.models) - len(shown), "model"),
        Text(""),
        Text(f"{percent(float(ranks.facts['level']))} rank sets; {groups}", style="bold"),
        _design(ranks),
        Text(f"best: the share of {drawn} in which the model is first", style="dim"),
    )


def _span(ends: Sequence[int]) -> str:
    return str(ends[0]) if ends[0] == ends[1] else f"{ends[0]}-{ends[1]}"
