"""Comparisons and ranks as plain records, and as tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr
from rich.console import Group, RenderableType
from rich.text import Text

from aucpr_dask.schema.variables import BOUND, MODEL
from aucpr_dask.storage.stores import Scores, nodes_of
from aucpr_dask.view.tables import WIDEST_NAME, Column, attributes_view, counted, fitted_table, shorten

MOST_PAIRS = 20_000  # as records; a store holds all
TOP = 10


@dataclass(frozen=True)
class ComparedPair:
    """A difference of two models; intervals are (lower, upper), None where the method has none."""

    model: str
    other: str
    difference: float
    standard_error: float
    interval: tuple[float, float] | None
    simultaneous_interval: tuple[float, float] | None
    p_value: float
    p_adjusted: float
    p_equivalence: float | None
    decision: str | None


@dataclass(frozen=True)
class Comparison:
    """The comparisons of one data set: models best first, pairs of a better and a worse one or with a baseline."""

    data_set: str
    facts: dict[str, Any]
    n_units: int | None
    baselines: tuple[str, ...] | None
    models: tuple[tuple[str, float], ...]
    n_separable: int
    n_separable_neighbours: int | None
    pairs: tuple[ComparedPair, ...]
    more_pairs: int


@dataclass(frozen=True)
class ModelRank:
    """How well the rank of a model is known."""

    model: str
    estimate: float
    rank: float
    rank_interval: tuple[int, int]
    simultaneous_rank_interval: tuple[int, int]
    probability_best: float
    expected_rank: float
    groups: tuple[int, int]


@dataclass(frozen=True)
class Ranks:
    """The ranks of the models of one data set, best first."""

    data_set: str
    facts: dict[str, Any]
    n_units: int | None
    models: tuple[ModelRank, ...]


@dataclass(frozen=True)
class StoredAnswer:
    """What a store holds of the comparisons or ranks of one data set."""

    data_set: str
    kind: str
    sizes: dict[str, int]
    facts: dict[str, Any]
    variables: dict[str, str]


def summarize_stored(answer: Scores) -> list[StoredAnswer]:
    """Return what a store of comparisons or ranks holds, without reading its arrays."""
    return [
        StoredAnswer(
            data_set=path,
            kind="ranks" if "rank" in node else "comparison",
            sizes={str(dim): size for dim, size in node.sizes.items() if dim != BOUND},
            facts=dict(node.attrs),
            variables={str(name): str(array.attrs.get("description", "")) for name, array in node.data_vars.items()},
        )
        for path, node in nodes_of(answer)
    ]


def stored_view(answers: Sequence[StoredAnswer], url: str) -> Group:
    """Show what a store of comparisons or ranks holds: sizes, how the numbers came about, and variables."""
    parts: list[RenderableType] = [Text(f"comparison store {url}", style="bold")]
    for answer in answers:
        sizes = ", ".join(f"{size:,} {dim.replace('_', ' ')}" for dim, size in answer.sizes.items())
        title = Text(shorten(answer.data_set, WIDEST_NAME) or "all models", style="bold")
        parts += [Text(""), title.append(f"  {answer.kind}: {sizes}", style="not bold"), attributes_view(answer.facts)]
        parts += [Text(""), attributes_view(answer.variables)]
    return Group(*parts)


def summarize_comparison(comparison: Scores) -> list[Comparison]:
    """Return the comparisons of each data set as records: with baselines, or neighbours first and then all pairs."""
    return [_summarize(path, node.load()) for path, node in nodes_of(comparison)]


def _summarize(path: str, node: xr.Dataset) -> Comparison:
    names = [str(name) for name in node[MODEL].values]
    estimate = node["estimate"].values
    order = np.lexsort((np.arange(len(names)), -estimate))
    alpha = 1 - float(node.attrs["level"])
    p_adjusted = node["p_adjusted"].values
    baselines: tuple[str, ...] | None = None
    if "baseline" in node.dims:
        baselines = tuple(str(name) for name in node["baseline"].values)
        column = {name: place for place, name in enumerate(baselines)}
        cells = [(i, column[b]) for b in baselines for i in order if names[i] != b]
        others = list(baselines)
        family = {frozenset((names[i], others[j])): p_adjusted[i, j] for i, j in cells}
        n_separable, neighbours = sum(p <= alpha for p in family.values()), None
    else:
        others = names
        adjacent = list(pairwise(order))
        n_separable = int(np.count_nonzero(np.triu(p_adjusted <= alpha, 1)))
        neighbours = sum(bool(p_adjusted[pair] <= alpha) for pair in adjacent)
        cells = adjacent
        if len(names) * (len(names) - 1) // 2 <= MOST_PAIRS:
            cells = adjacent + [(i, j) for at, i in enumerate(order) for j in order[at + 2 :]]
    total = int(node.attrs["family_size"])
    return Comparison(
        data_set=path,
        facts=dict(node.attrs),
        n_units=int(node["n_units"]) if "n_units" in node else None,
        baselines=baselines,
        models=tuple((names[i], float(estimate[i])) for i in order),
        n_separable=int(n_separable),
        n_separable_neighbours=neighbours,
        pairs=tuple(_pairs(node, cells, names, others)),
        more_pairs=max(0, total - len(cells)) if baselines is None else 0,
    )


def _pairs(
    node: xr.Dataset, cells: Sequence[tuple[int, int]], names: Sequence[str], others: Sequence[str]
) -> Iterable[ComparedPair]:
    values = {str(name): array.values for name, array in node.data_vars.items()}
    decisions = str(node["decision"].attrs["flag_meanings"]).split() if "decision" in values else []

    def bounds(name: str, cell: tuple[int, int]) -> tuple[float, float] | None:
        return (float(values[name][cell][0]), float(values[name][cell][1])) if name in values else None

    for cell in cells:
        yield ComparedPair(
            names[cell[0]],
            others[cell[1]],
            float(values["difference"][cell]),
            float(values["standard_error"][cell]),
            bounds("interval", cell),
            bounds("simultaneous_interval", cell),
            float(values["p_value"][cell]),
            float(values["p_adjusted"][cell]),
            float(values["p_equivalence"][cell]) if decisions else None,
            decisions[int(values["decision"][cell])] if decisions else None,
        )


def summarize_ranks(ranks: Scores) -> list[Ranks]:
    """Return the ranks of each data set as records."""
    return [_summarize_ranks(path, node.load()) for path, node in nodes_of(ranks)]


def _summarize_ranks(path: str, node: xr.Dataset) -> Ranks:
    def ends(name: str, i: int) -> tuple[int, int]:
        low, high = node[name].transpose(MODEL, BOUND).values[i]
        return int(low), int(high)

    order = np.lexsort((np.arange(node.sizes[MODEL]), -node["estimate"].values))
    models = tuple(
        ModelRank(
            model=str(node[MODEL].values[i]),
            estimate=float(node["estimate"].values[i]),
            rank=float(node["rank"].values[i]),
            rank_interval=ends("rank_interval", i),
            simultaneous_rank_interval=ends("simultaneous_rank_interval", i),
            probability_best=float(node["probability_best"].values[i]),
            expected_rank=float(node["expected_rank"].values[i]),
            groups=(int(node["first_group"].values[i]), int(node["last_group"].values[i])),
        )
        for i in order
    )
    return Ranks(path, dict(node.attrs), int(node["n_units"]) if "n_units" in node else None, models)


def comparison_view(comparison: Comparison, width: int, *, top: int | None = TOP) -> Group:
    """Show the differences from each baseline, or those of neighbours in the order of the models."""
    facts = comparison.facts
    parts: list[RenderableType] = [_headline(comparison.data_set, facts)]
    if comparison.baselines is None:
        parts += _neighbours(comparison, width, top)
    else:
        for baseline in comparison.baselines:
            parts += [Text(""), *_against(comparison, baseline, width, top)]
    separable = f"{comparison.n_separable:,} of {counted(int(facts['family_size']), 'pair')}"
    if comparison.n_separable_neighbours is not None:
        of = len(comparison.models) - 1
        separable += f", {comparison.n_separable_neighbours:,} of {counted(of, 'pair')} of neighbours"
    level = f"{100 * float(facts['level']):.4g}%"
    adjust = str(facts["adjust"]).replace("_", " ")
    together = "each on its own" if adjust == "none" else f"all together ({adjust})"
    parts += [Text(""), Text(f"told apart at {level}, {together}: {separable}", style="bold")]
    if "equivalence" in facts:
        margin = f"within {float(facts['equivalence']):g}"
        parts.append(Text(f"equivalence ({margin}): each pair on its own, not adjusted for how many there are"))
    parts.append(_design(facts))
    return Group(*parts)


def _headline(data_set: str, facts: dict[str, Any]) -> Text:
    about = [str(facts[name]).replace("_", " ") for name in ("estimator", "method") if name in facts]
    title = Text(shorten(data_set, WIDEST_NAME) or "all models", style="bold")
    return title.append(f"  {', '.join(about)}", style="not bold")


def _design(facts: dict[str, Any]) -> Text:
    return Text(str(facts["design"]), style="dim")


def _neighbours(comparison: Comparison, width: int, top: int | None) -> list[RenderableType]:
    """Show each model with its difference from the next."""
    models = comparison.models[:top]
    columns = [Column("", right=True), Column("model", name=True), Column("area", right=True)]
    rows = [[str(place), name, _area(estimate)] for place, (name, estimate) in enumerate(models, start=1)]
    pairs: list[ComparedPair | None] = [*comparison.pairs[: len(comparison.models) - 1], None][: len(models)]
    return [_table(columns, rows, pairs, "to next", width), *_more(len(comparison.models) - len(models))]


def _against(comparison: Comparison, baseline: str, width: int, top: int | None) -> list[RenderableType]:
    """Show the models with their difference from a baseline."""
    areas = dict(comparison.models)
    pairs = [pair for pair in comparison.pairs if pair.other == baseline]
    shown = pairs[:top]
    columns = [Column("model", name=True), Column("area", right=True)]
    rows = [[pair.model, _area(areas[pair.model])] for pair in shown]
    title = Text("baseline ").append(shorten(baseline, width - 20)).append(f"  {_area(areas[baseline])}", style="dim")
    return [title, _table(columns, rows, shown, "difference", width), *_more(len(pairs) - len(shown))]


def _more(number: int) -> list[RenderableType]:
    return [Text(f"and {counted(number, 'more model')}", style="dim")] if number > 0 else []


def _table(
    columns: list[Column],
    rows: list[list[str]],
    pairs: Sequence[ComparedPair | None],
    header: str,
    width: int,
) -> RenderableType:
    """Add to the rows what is known of their pairs."""

    def add(column: Column, cells: Iterable[str]) -> None:
        columns.append(column)
        for row, cell in zip(rows, cells, strict=True):
            row.append(cell)

    add(Column(header, right=True), ["" if pair is None else f"{pair.difference:+.4f}" for pair in pairs])
    known = [pair for pair in pairs if pair is not None]
    if known and known[0].simultaneous_interval is not None:
        cells = ["" if pair is None else _bounds(pair.simultaneous_interval) for pair in pairs]
        add(Column("simultaneous"), cells)
    add(Column("p", right=True), ["" if pair is None else _p_value(pair.p_value) for pair in pairs])
    add(Column("adjusted", right=True), ["" if pair is None else _p_value(pair.p_adjusted) for pair in pairs])
    if known and known[0].decision is not None:
        add(Column("decision"), ["" if pair is None else str(pair.decision) for pair in pairs])
    return fitted_table(columns, rows, width)


def ranks_view(ranks: Ranks, width: int, *, top: int | None = TOP) -> Group:
    """Show the models with the ranks that they may have, best first."""
    shown = ranks.models[:top]
    level = f"{100 * float(ranks.facts['level']):.4g}%"
    columns = [
        Column("", right=True),
        Column("model", name=True),
        Column("area", right=True),
        Column("rank set"),
        Column("all at once"),
        Column("best", right=True),
        Column("groups"),
    ]
    rows = [
        [
            f"{model.rank:g}",
            model.model,
            _area(model.estimate),
            _span(model.rank_interval),
            _span(model.simultaneous_rank_interval),
            f"{model.probability_best:.1%}",
            _span(model.groups),
        ]
        for model in shown
    ]
    return Group(
        _headline(ranks.data_set, ranks.facts),
        fitted_table(columns, rows, width),
        *_more(len(ranks.models) - len(shown)),
        Text(""),
        Text(f"{level} rank sets; {counted(int(ranks.facts['n_groups']), 'group')} not told apart", style="bold"),
        _design(ranks.facts),
    )


def _span(ends: tuple[int, int]) -> str:
    return str(ends[0]) if ends[0] == ends[1] else f"{ends[0]}-{ends[1]}"


def _area(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else "-"


def _bounds(bounds: tuple[float, float] | None) -> str:
    if bounds is None or not all(map(math.isfinite, bounds)):
        return "-"
    return f"[{bounds[0]:+.3f}, {bounds[1]:+.3f}]"


def _p_value(value: float) -> str:
    return f"{value:.4f}" if value >= 0.00005 else "<0.0001"
