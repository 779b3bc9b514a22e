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

from aucpr_dask.inference.measures import measured, noun, unit_names
from aucpr_dask.schema.names import in_words, percent
from aucpr_dask.schema.trees import Scores, nodes_of
from aucpr_dask.schema.variables import BOUND, MEASURE, MODEL
from aucpr_dask.scores.importing.files import count
from aucpr_dask.view.names import shorten
from aucpr_dask.view.tables import (
    Column,
    attributes_view,
    bounds,
    fitted_table,
    more,
    number,
    titled,
    widths,
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
    "tuning",
    "width_ratio",
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


@dataclass(frozen=True)
class Sheet:
    """A table of models, and what is drawn next to it: a value with its interval for each row, and a scale."""

    title: Text | None
    columns: list[Column]
    bars: list[tuple[float, float, float]]  # lower, value, upper
    scale: tuple[float, float]
    n_more: int

    def fitted(self, width: int) -> list[RenderableType]:
        """Return the table as text."""
        title = [] if self.title is None else [Text(""), self.title]
        return [*title, fitted_table(self.columns, width), *more(self.n_more, "model")]


def comparison_view(comparison: Comparison, width: int, *, top: int | None = TOP) -> Group:
    """Show models with their difference from the next, or from each baseline, and how many pairs differ."""
    tables = [part for sheet in comparison_sheets(comparison, width, top=top) for part in sheet.fitted(width)]
    found, *notes = comparison_notes(comparison)
    return Group(
        headline(comparison), *tables, Text(""), Text(found, style="bold"), *map(Text, notes), _design(comparison)
    )


def comparison_notes(comparison: Comparison) -> list[str]:
    """Say how many pairs differ, and what was tested."""
    facts = comparison.facts
    adjust = in_words(str(facts["adjust"]))
    alpha = percent(1 - float(facts["level"]))
    together = "not adjusted" if facts["adjust"] == "none" else f"{adjust} adjusted"
    separable = f"{comparison.n_separable:,} of {count(int(facts['family_size']), 'pair')}"
    if comparison.n_separable_neighbours is not None:
        pairs = count(len(comparison.models) - 1, "neighbour pair")
        separable += f", {comparison.n_separable_neighbours:,} of {pairs}"
    notes = [f"significant at {alpha} ({together}): {separable}"]
    for baseline in comparison.baselines or ():
        against = comparison.pairs[comparison.pairs["other"] == baseline]
        differing = against["difference"][against["p_adjusted"] <= 1 - float(facts["level"])]
        better, worse = int((differing > 0).sum()), int((differing < 0).sum())
        notes.append(f"of {count(len(against), 'model')}, {better:,} better and {worse:,} worse than {baseline}")
    if "equivalence" in facts:
        margin = f"within {float(facts['equivalence']):g}"
        notes.append(f"equivalence ({margin}): each pair alone, not adjusted for the number of pairs")
    return notes + widths(comparison.pairs["width_ratio"])


def headline(answer: Comparison | Ranks) -> Text:
    """Return the data set, the estimator and the method."""
    about = [measured(answer.facts)] if {"estimator", MEASURE} & set(answer.facts) else []
    about += [in_words(str(answer.facts["method"]))] if "method" in answer.facts else []
    return titled(answer.data_set, ", ".join(about))


def _design(answer: Comparison | Ranks) -> Text:
    return Text(str(answer.facts["design"]), style="dim")


def comparison_sheets(comparison: Comparison, width: int, *, top: int | None = TOP) -> list[Sheet]:
    """Return a table of each model's difference from the next, or one for each baseline."""
    if comparison.baselines is None:
        return [_neighbours(comparison, top)]
    return [_against(comparison, baseline, width, top) for baseline in comparison.baselines]


def _neighbours(comparison: Comparison, top: int | None) -> Sheet:
    """Return each model with its difference from the next."""
    models = comparison.models[:top]
    columns = [
        Column("", [str(place) for place in range(1, len(models) + 1)], right=True),
        Column("model", [name for name, _ in models], name=True),
        Column(noun(comparison.facts), [number(estimate) for _, estimate in models], right=True),
    ]
    pairs = comparison.pairs[: len(comparison.models) - 1][: len(models)]
    columns += _columns(pairs, "to next", len(models))
    return Sheet(None, columns, *_bars(pairs), len(comparison.models) - len(models))


def _against(comparison: Comparison, baseline: str, width: int, top: int | None) -> Sheet:
    """Return the models with their difference from a baseline."""
    areas = dict(comparison.models)
    pairs = comparison.pairs[comparison.pairs["other"] == baseline]
    shown = pairs[:top]
    columns = [
        Column("model", list(shown["model"]), name=True),
        Column(noun(comparison.facts), [number(areas[name]) for name in shown["model"]], right=True),
    ]
    title = Text("baseline ").append(shorten(baseline, width - 20)).append(f"  {number(areas[baseline])}", style="dim")
    columns += _columns(shown, "difference", len(shown))
    return Sheet(title, columns, *_bars(shown), len(pairs) - len(shown))


def _bars(pairs: pd.DataFrame) -> tuple[list[tuple[float, float, float]], tuple[float, float]]:
    """Return differences with their intervals, and a scale with zero in the middle."""
    joint = len(pairs) > 0 and pairs["simultaneous_interval"].iloc[0] is not None
    ends = pairs["simultaneous_interval" if joint else "interval"].map(
        lambda one: (np.nan, np.nan) if one is None else one
    )
    bars = [(float(e[0]), float(d), float(e[1])) for d, e in zip(pairs["difference"], ends, strict=True)]
    most = max((abs(value) for bar in bars for value in bar if np.isfinite(value)), default=0.0) or 1.0
    return bars, (-most, most)


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
    found, *notes = ranks_notes(ranks)
    return Group(
        headline(ranks),
        *ranks_sheet(ranks, top=top).fitted(width),
        Text(""),
        Text(found, style="bold"),
        _design(ranks),
        *(Text(note, style="dim") for note in notes),
    )


def ranks_sheet(ranks: Ranks, *, top: int | None = TOP) -> Sheet:
    """Return the models with the ranks that they may have, best first."""
    shown = ranks.models[:top]
    columns = [
        Column("", [f"{rank:g}" for rank in shown["rank"]], right=True),
        Column("model", list(shown["model"]), name=True),
        Column(noun(ranks.facts), list(map(number, shown["estimate"])), right=True),
        Column("rank set", list(map(_span, shown["rank_interval"]))),
        Column("all at once", list(map(_span, shown["simultaneous_rank_interval"]))),
        Column("best", [percent(share, ".1f") for share in shown["probability_best"]], right=True),
        Column("groups", list(map(_span, shown["groups"]))),
    ]
    ends = shown["simultaneous_rank_interval"]
    bars = [(float(e[0]), float(r), float(e[1])) for r, e in zip(shown["rank"], ends, strict=True)]
    return Sheet(None, columns, bars, (1.0, float(len(ranks.models))), len(ranks.models) - len(shown))


def ranks_notes(ranks: Ranks) -> list[str]:
    """Say how many groups there are, and where the chance to be best comes from."""
    drawn = "bootstrap resamples" if ranks.facts["method"] != "influence" else "Student draws of the areas"
    if ranks.n_units is not None and ranks.facts["sample"] == "units":
        drawn += f" of the {unit_names(ranks.facts['over'], ranks.facts)[1]}"
    groups = f"{count(int(ranks.facts['n_groups']), 'group')} of indistinguishable models"
    return [
        f"{percent(float(ranks.facts['level']))} rank sets; {groups}",
        f"best: the share of {drawn} in which the model is first",
    ]


def _span(ends: Sequence[int]) -> str:
    return str(ends[0]) if ends[0] == ends[1] else f"{ends[0]}-{ends[1]}"
