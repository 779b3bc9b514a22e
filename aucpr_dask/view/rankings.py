"""Results as rankings of models: documents for programs (``--json``), and the tables that are made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from rich.console import Group, RenderableType
from rich.text import Text

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.evaluation.results import group_dims, groups_as_data_sets
from aucpr_dask.inference import aggregating, averages, designs, samples
from aucpr_dask.inference.grouped import with_kept_as_groups
from aucpr_dask.schema import estimators, terms
from aucpr_dask.view.tables import WIDEST_NAME, Column, Sheet, bounds, more, number, shorten

MOST_DATA_SETS = 8
TOP_OF_ONE, TOP_OF_MANY = 10, 3
AVERAGES = {
    None: "mean",
    "macro": "mean",
    "weighted": "weighted mean",
    "samples": "mean over the items, each a ranking",
}

Document = dict[str, Any]  # what `tables.plain` turns into JSON; its tables are data frames


def rank_models(result: terms.Scores, estimator: str | None = None, *, most: int | None = None) -> list[Document]:
    """Rank the models of up to `most` data sets or groups by their means over units, of one estimator or the first."""
    result = with_kept_as_groups(result)
    n_groups = _n_groups(result)
    groups = islice(terms.nodes_of(groups_as_data_sets(result, most)), most)
    nodes = {path: with_interval_of(node, estimator) for path, node in groups}
    intervals = [node for node in nodes.values() if "interval" in node and node[terms.METHOD].size]
    level = level_of(intervals[0]) if intervals else 0.95
    method = str(np.ravel(intervals[0][terms.METHOD].values)[0]) if intervals else None
    rankings = []
    for path, node in nodes.items():
        has_queries, by = terms.QUERY in node.dims, node.attrs.get("by")
        if terms.CLASS in node.dims:
            means = mean_of_classes(node, level)
        elif by and not has_queries and terms.REPEAT not in node.dims:  # there may be many
            means = designs.with_estimators(node).isel({terms.METHOD: 0}, missing_dims="ignore")
        else:
            means = aggregating.aggregate(node, level=level)
        found = _rank(path, means, estimator, means.attrs.get("method", method), has_queries)
        groups_of = {"by": by, "n_groups": n_groups if by else None}
        rankings.append(found | {"reading": designs.reading_of(node.attrs)} | groups_of)
    return rankings


def rank_means(means: terms.Scores, estimator: str | None = None) -> list[Document]:
    """Rank the models of each data set, or of all together, by what :func:`aucpr_dask.aggregate` returns."""
    means = with_kept_as_groups(means)
    n_groups, rankings = _n_groups(means), []
    for path, node in terms.nodes_of(groups_as_data_sets(means)):
        over_items, by = node.attrs.get("over") == designs.ITEMS, node.attrs.get("by")
        has_queries = "n_queries" in node and not (over_items and int(node["n_queries"].max()) <= 1)
        found = _rank(path, node, estimator, node.attrs.get("method"), has_queries)
        rankings.append(found | {"by": by, "n_groups": n_groups} if by else found)
    return rankings


def _n_groups(result: terms.Scores) -> int:
    return sum(math.prod(node.sizes[dim] for dim in group_dims(node)) for _, node in terms.nodes_of(result))


def with_means_of_repeats(node: xr.Dataset) -> xr.Dataset:
    """Return a result whose repeats, if it has any, are averaged; what differs between them is left out."""
    if terms.REPEAT not in node["estimate"].dims:
        return node
    mean = aggregating.aggregate(node, level=level_of(node))
    mean = mean.assign({name: one for name, one in averages.mean_of_repeats(node).items() if name == samples.REPLICATE})
    same = [name for name in ("n_positive", "n_negative", "prevalence") if name in node]
    first = node[same].isel({terms.REPEAT: 0}, drop=True).drop_vars(terms.METHOD, errors="ignore")
    return first.assign(mean.data_vars).assign_coords(mean.coords).assign_attrs(design=mean.attrs["design"])


def mean_of_classes(result: xr.Dataset, level: float) -> xr.Dataset:
    """Return the means over classes; with an interval, if the result has replicates."""
    if samples.REPLICATE not in result:
        return averages.mean_over_classes(result)
    return aggregating.aggregate(result, over=terms.CLASS, level=level)


def level_of(node: xr.Dataset) -> float:
    """Return the level of the intervals of a result, a comparison or a study."""
    return float(node.attrs.get("level", node.coords.get("level", 0.95)))  # a coordinate may be a pressure


def method_with_bounds(interval: xr.DataArray) -> str | None:
    """Return the first method that has some interval for every estimator, if any."""
    known = interval.notnull().any([dim for dim in interval.dims if dim not in (terms.METHOD, terms.ESTIMATOR)])
    known = known.all([dim for dim in known.dims if dim != terms.METHOD])
    names = known[terms.METHOD].values[known.values]
    return str(names[0]) if names.size else None


def with_interval_of(node: xr.Dataset, estimator: str | None) -> xr.Dataset:
    """Keep the first interval that the named estimator, or the first, has; all if it has none."""
    if terms.METHOD not in node.dims or terms.ESTIMATOR not in node.dims or not node.sizes[terms.ESTIMATOR]:
        return node
    names = [str(name) for name in node[terms.ESTIMATOR].values]
    place = names.index(estimator) if estimator in names else 0
    method = method_with_bounds(node["interval"].isel({terms.ESTIMATOR: place}))
    return node if method is None else node.sel({terms.METHOD: [method]})


def labels_as_text(dataset: xr.Dataset, dim: str = terms.MODEL) -> list[str]:
    """Return the labels along a dimension; numbers where there are none."""
    if dim in dataset.indexes:
        return [str(name) for name in dataset.indexes[dim]]
    return [f"{dim} {place}" for place in range(dataset.sizes.get(dim, 1))]


def _rank(path: str, means: xr.Dataset, estimator: str | None, method: str | None, has_queries: bool) -> Document:
    means = designs.with_estimators(means)
    names = [str(name) for name in means[terms.ESTIMATOR].values]
    name = names[0] if estimator is None else estimator
    if name not in names:
        what = f"this {terms.MEASURE if designs.are_values(means) else terms.ESTIMATOR} is not in the result"
        remedy = f"evaluate again with estimator={name!r}" if name.partition("(")[0] in estimators.ESTIMATORS else None
        raise InvalidInputError(what, path or None, repr(name), ", ".join(names), remedy)
    means = means.sel({terms.ESTIMATOR: name}).isel({terms.METHOD: 0}, missing_dims="ignore")
    estimate = np.atleast_1d(means["estimate"].values)
    ends = np.atleast_2d(means["interval"].values) if "interval" in means else np.full((estimate.size, 2), np.nan)
    oriented = designs.direction(means.attrs, name) * estimate
    order = np.argsort(-np.where(np.isfinite(estimate), oriented, -np.inf), kind="stable")
    counts = np.broadcast_to(means["n_queries"].values if has_queries else 0, estimate.shape).astype(int)
    ratios = np.atleast_1d(means["width_ratio"].values)[order].astype(object) if "width_ratio" in means else None
    models = {
        "rank": pd.Series([at if np.isfinite(estimate[i]) else None for at, i in enumerate(order, 1)], dtype=object),
        "model": np.array(labels_as_text(means), object)[order],
        "estimate": estimate[order],
        "lower": ends[order, 0],
        "upper": ends[order, 1],
        "n_queries": counts[order].astype(object) if has_queries else None,
        "width_ratio": ratios,  # of intervals with machine labels
    }
    return {
        "data_set": path,
        "estimator": name,
        "interval": method if "interval" in means else None,
        "level": level_of(means) if "level" in means.coords else None,
        "n_queries": int(counts.max(initial=0)) if has_queries else None,
        "models": pd.DataFrame(models),
        "n_repeats": int(means["n_repeats"]) if "n_repeats" in means else None,
        "n_classes": means.attrs.get("n_classes"),
        "average": means.attrs.get("average"),
        "unit": means.attrs.get(terms.UNIT),  # what a query of values of a measure is called
        terms.NORMALISED: means.attrs.get(terms.NORMALISED),
    }


def best(ranking: Document, top: int | None) -> Document:
    """Return a ranking with the best `top` models only, and how many it leaves out; None keeps all."""
    models = ranking["models"]
    return ranking | {"models": models[:top], "more_models": len(models) - len(models[:top])}


# Tables


def _attrs_of(ranking: Document) -> dict[str, str]:
    """Return what a result says of its units, as the names of measures are chosen by."""
    known = {name: ranking.get(name) for name in (terms.UNIT, terms.NORMALISED)}
    return {name: value for name, value in known.items() if value is not None}


def about(ranking: Document) -> str:
    """Describe the areas and intervals of a ranking."""
    attrs = _attrs_of(ranking)
    parts = [designs.measured(attrs, ranking["estimator"])]
    if ranking["n_queries"] is not None:
        size = terms.count(ranking["n_queries"], *designs.unit_names(terms.QUERY, attrs))
        has_machine = "width_ratio" in ranking["models"] and ranking["models"]["width_ratio"].notnull().any()
        parts.append(f"mean of {size}{' labelled by people and of machine labels' if has_machine else ''}")
    if ranking["n_repeats"] is not None:
        parts.append(terms.count(ranking["n_repeats"], "repeat"))
    if ranking["n_classes"] is not None:
        parts.append(f"{AVERAGES[ranking['average']]} of {terms.count(ranking['n_classes'], 'class')}")
    if ranking["interval"] is not None:
        parts.append(f"{ranking['interval'].replace('_', ' ')} interval")
    parts += ranking.get("reading", [])
    return ", ".join(parts)


def ranking_sheet(rankings: Sequence[Document], top: int | None = None, n_parts: int | None = None) -> Sheet:
    """Return a table of the best `top` models of each data set, of `n_parts` in all, with bars on one scale."""
    first = rankings[0]
    shown = pd.concat([ranking["models"][:top] for ranking in rankings])
    columns = [
        Column("", [str(rank or "-") for rank in shown["rank"]], right=True),
        Column("model", list(shown["model"]), name=True),
    ]
    title = (shorten(first["data_set"], WIDEST_NAME) or "all models", about(first))
    if len(rankings) > 1:
        sizes = sorted({len(ranking["models"]) for ranking in rankings})
        of = f"{sizes[0]:,} to " * (sizes[0] < sizes[-1]) + terms.count(sizes[-1], "model")
        by = first.get("by")
        n_all = len(rankings) if n_parts is None else n_parts
        of_all = f"{len(rankings):,} of " if len(rankings) < n_all else ""
        parts = of_all + terms.count(n_all, "group" if by else "data set")
        chosen = f"best {top} of " if top is not None and top < sizes[-1] else ""
        title = (f"{parts}, {chosen}{of}", title[1])
        names = [one["data_set"] if i == 0 else "" for one in rankings for i in range(len(one["models"][:top]))]
        columns.insert(0, Column(by or "data set", names, name=True))
    if len({n for ranking in rankings for n in ranking["models"]["n_queries"]}) > 1:
        units = terms.plural(first["unit"] or terms.QUERY)
        columns.append(Column(units, [f"{n:,}" for n in shown["n_queries"]], right=True))
    columns.append(Column(designs.noun(_attrs_of(first)), list(map(number, shown["estimate"])), right=True))
    bars = list(zip(shown["lower"], shown["estimate"], shown["upper"], strict=True))
    if first["interval"] is not None:
        header = f"{terms.percent(first['level'])} interval" if first["level"] else "interval"
        columns.append(Column(header, [bounds((lower, upper)) for lower, _, upper in bars]))
    n_more = len(first["models"]) - len(shown) if len(rankings) == 1 else 0
    drawn = bars if first["interval"] is not None else ()
    # The scale holds all intervals shown, rounded outwards to twentieths.
    known = [value for bar in bars for value in bar if math.isfinite(value)] or [0.0, 1.0]
    low, high = math.floor(min(known) * 20) / 20, math.ceil(max(known) * 20) / 20
    scale = (low, high if high > low else low + 0.05)
    return Sheet(columns, drawn, scale, more(n_more, "model"), title, has_bars=True)


def rankings_view(rankings: Sequence[Document], *, top: int | None = None, n_data_sets: int | None = None) -> Group:
    """Show the best models of the first data sets, a table for each kind, and count the others of `n_data_sets`."""
    kinds: dict[str, list[Document]] = {}
    for ranking in rankings[:MOST_DATA_SETS]:
        kinds.setdefault(about(ranking), []).append(ranking)
    top = top or (TOP_OF_ONE if len(rankings) == 1 else TOP_OF_MANY)
    parts: list[RenderableType] = []
    n_parts, hidden = _counted(rankings, n_data_sets)
    for alike in kinds.values():
        parts += [*([Text("")] if parts else []), ranking_sheet(alike, top, n_parts if len(kinds) == 1 else None)]
    return Group(*parts, *hidden)


def _counted(rankings: Sequence[Document], n_data_sets: int | None = None) -> tuple[int, list[Text]]:
    """Return how many groups or data sets there are, and the line that counts those that are not shown."""
    has_groups = bool(rankings) and rankings[0].get("by")
    n_parts = int(rankings[0]["n_groups"]) if has_groups else n_data_sets or len(rankings)
    return n_parts, more(n_parts - MOST_DATA_SETS, "group" if has_groups else "data set")


def rankings_in_html(rankings: Sequence[Document]) -> str:
    """Return the same in HTML, a table for each data set."""
    top = TOP_OF_ONE if len(rankings) == 1 else TOP_OF_MANY
    tables = [ranking_sheet([ranking], top).as_html() for ranking in rankings[:MOST_DATA_SETS]]
    return "".join([*tables, *(f"<p>{line.plain}</p>" for line in _counted(rankings)[1])])
