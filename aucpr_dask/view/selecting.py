"""Selecting what a plot or a page shows: one node of the right kind, its models, and a field over two dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from aucpr_dask.errors import InvalidInputError, did_you_mean, few
from aucpr_dask.evaluation.results import groups_as_data_sets
from aucpr_dask.inference.designs import are_values, direction, measured, with_estimators
from aucpr_dask.inference.grouped import dims_of_family, with_kept_as_groups
from aucpr_dask.schema.checks import choose
from aucpr_dask.schema.terms import CLASS, ESTIMATOR, MODEL, QUERY, REPEAT, Scores, nodes_of
from aucpr_dask.scores.validate import with_label_of_each_class
from aucpr_dask.view.rankings import level_of, with_means_of_repeats
from aucpr_dask.view.tables import shorten

SCORES, RESULT, COMPARISON, RANKS, STUDY = "scores", "a result", "a comparison", "ranks", "a study"
POWER = "the power of comparisons"
TOP_OF_MAPS = 6
LONGEST_WORD = 20  # of a label that wraps
UPWARDS, ACROSS = ("lat", "latitude", "y"), ("lon", "longitude", "x")
LOWEST, USUAL, HIGHEST = 0.4, 0.8, 1.4  # height of a map over its width
Models = str | int | Sequence[str | int]
# Of each kind, in this order, a variable that shows it, and how to get it.
_KINDS = {
    STUDY: ("coverage", "run a study first: ap.simulate.study()"),
    COMPARISON: ("difference", "compare first: result.aucpr.compare(baseline=...)"),
    RANKS: ("rank_interval", "rank first: result.aucpr.rank()"),
    POWER: ("detectable", "ask for it: result.aucpr.power()"),
    RESULT: ("estimate", "evaluate scores first: scores.aucpr.evaluate()"),
    SCORES: ("score", "call it on the score data sets"),
}


def kind_of(node: xr.Dataset) -> str:
    """Return the kind of a Dataset, from its variables."""
    kinds = [kind for kind, (variable, _) in _KINDS.items() if variable in node]
    return kinds[0] if kinds else "neither scores nor a result of this package"


def nodes_of_kind(data: Scores, kind: str, plot: str, *, whole: bool = False) -> dict[str, xr.Dataset]:
    """Return the nodes by name, one for each group unless they are left `whole`; raise unless all are of this kind."""
    what = f"{plot} plots {kind}"
    if not isinstance(data, xr.Dataset | xr.DataTree):
        raise InvalidInputError(what, received=type(data).__name__, allowed="a Dataset or a DataTree")
    if kind == SCORES:
        data = with_label_of_each_class(data)
    elif not whole:
        data = groups_as_data_sets(with_kept_as_groups(data))
    nodes = dict(nodes_of(data))
    if kind == RESULT:
        areas = {path: with_estimators(node) if are_values(node) else node for path, node in nodes.items()}
        nodes = {path: with_means_of_repeats(node) if "estimate" in node else node for path, node in areas.items()}
    found = {kind_of(node) for node in nodes.values()} or {"nothing"}
    if found != {kind}:
        raise InvalidInputError(what, received=" and ".join(sorted(found)), remedy=_KINDS[kind][1])
    return nodes


def one_node(data: Scores, kind: str, plot: str, dataset: str | None, *, whole: bool = False) -> tuple[str, xr.Dataset]:
    """Return the name and the node of the data set to plot."""
    nodes = nodes_of_kind(data, kind, plot, whole=whole)
    if dataset is not None:
        choose(tuple(nodes), dataset, "dataset")
        return dataset, nodes[dataset]
    if len(nodes) > 1:
        part = "data set" if whole or not any("by" in node.attrs for node in nodes.values()) else "group"
        received, remedy = f"{len(nodes)} {part}s", "choose one: dataset=..."
        raise InvalidInputError(f"{plot} plots one {part}", None, received, few(map(repr, nodes)), remedy)
    return next(iter(nodes.items()))


def title_of(data: Scores, path: str) -> str:
    """Return the name of a data set for a title; a node of a tree has one even on its own."""
    return path or (isinstance(data, xr.DataTree) and data.name) or ""


def at_query(node: xr.Dataset, query: Any, plot: str) -> xr.Dataset:
    """Return the node at one query, if it has any, or at the first repeat; raise if other dimensions are left."""
    node = node.isel({REPEAT: 0}, missing_dims="ignore")
    if kept := dims_of_family(node, ()):
        received = few(f"{node.sizes[dim]} labels of {dim!r}" for dim in kept)
        remedy = f"select one first: .sel({kept[0]}=...)"
        raise InvalidInputError(f"{plot} plots one ranking of each model", None, received, "one label", remedy)
    if node.sizes.get(CLASS, 1) > 1:
        first = node[CLASS].values.tolist()[0] if CLASS in node.coords else None
        by = f".sel({{'class': {first!r}}})" if CLASS in node.coords else ".isel({'class': 0})"
        received, allowed = f"{node.sizes[CLASS]} classes", few(map(repr, names_of(node, CLASS)))
        raise InvalidInputError(f"{plot} plots one class", None, received, allowed, f"select one first: {by}")
    if CLASS in node.dims:
        return node.isel({CLASS: 0})
    if QUERY not in node.dims:
        selected = str(node[QUERY].item()) if QUERY in node.coords else ""
        if query is not None and (not selected or str(query) != selected):
            raise InvalidInputError("there is no such query", received=repr(query), allowed=selected or "none")
        return node
    if query is None and node.sizes[QUERY] == 1:
        return node.isel({QUERY: 0})
    labels: list[Any] = names_of(node, QUERY) if QUERY in node.coords else list(range(node.sizes[QUERY]))
    wanted: Any = str(query) if QUERY in node.coords else query
    if query is None or wanted not in labels:
        what = f"{plot} plots one query" if query is None else "there is no such query"
        given = None if query is None else repr(query)
        raise InvalidInputError(what, None, given, few(map(repr, labels)), "choose one: query=...")
    return node.isel({QUERY: labels.index(wanted)}).drop_vars(QUERY, errors="ignore")


def at_estimator(node: xr.Dataset, estimator: str | None) -> tuple[str, xr.Dataset]:
    """Return the name of an estimator, by default the first, and the node at it."""
    if ESTIMATOR not in node.dims:
        selected = node.coords.get(ESTIMATOR)
        return str(node.attrs.get("estimator", "estimate") if selected is None else selected.item()), node
    names = [str(name) for name in node[ESTIMATOR].values] if ESTIMATOR in node.coords else []
    if not names:
        return "estimate", node.isel({ESTIMATOR: 0})
    name = names[0] if estimator is None else choose(tuple(names), estimator, "estimator")
    return name, node.isel({ESTIMATOR: names.index(name)}).drop_vars(ESTIMATOR)


def names_of(node: xr.Dataset, dim: str = MODEL) -> list[str]:
    """Return the labels along a dimension as text; numbers where there are none."""
    if dim in node.indexes or dim not in node.coords:
        return [str(label) for label in node.get_index(dim)]
    return [str(label) for label in np.atleast_1d(node[dim].values)]


def positions_of(node: xr.Dataset, labels: str | int | Sequence[str | int], dim: str = MODEL) -> list[int]:
    """Return the positions of the requested labels, in that order."""
    names = names_of(node, dim)
    chosen = [labels] if isinstance(labels, str | int) else list(labels)
    unknown = [str(label) for label in chosen if str(label) not in names]
    if unknown or not chosen:
        what = f"there is no such {dim}" if chosen else f"name one or more of {dim}"
        remedy = did_you_mean(unknown[0], names, "give one of these") if unknown else "leave it out, or name one"
        raise InvalidInputError(what, None, few(map(repr, unknown)) or "none", few(map(repr, names)), remedy)
    return [names.index(str(label)) for label in chosen]


def others(node: xr.Dataset) -> tuple[str, xr.Dataset]:
    """Return the dimension of the models with which others are compared, and the node with it, also after sel()."""
    other = "baseline" if "baseline" in node.variables or "baseline" in node.dims else "other_model"
    return other, node if other in node.dims else node.expand_dims(other)


def against(node: xr.Dataset, baseline: str | int | None) -> tuple[str, xr.Dataset]:
    """Return the comparisons with one baseline, and its name."""
    other, node = others(node)
    names = names_of(node, other)
    if baseline is None and len(names) > 1:
        what, remedy = "differences are drawn from one baseline", "choose one: baseline=...; or draw all: plot.pairs()"
        raise InvalidInputError(what, received=f"{len(names):,} of them", remedy=remedy)
    at = 0 if baseline is None else positions_of(node, baseline, other)[0]
    return names[at], node.isel({other: at}).drop_vars(other, errors="ignore")


def checked_top(top: int, least: int, most: int | None = None) -> int:
    """Return `top`, or raise unless it is a whole number in the range."""
    if not isinstance(top, int | np.integer) or top < least or (most is not None and top > most):
        to = "" if most is None else f" to {most}"
        raise InvalidInputError(f"top must be a whole number from {least}{to}", received=repr(top))
    return int(top)


def best_first(values: xr.DataArray) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return positions from the largest value down; ties keep their order, NaN comes last."""
    return np.argsort(-np.asarray(values.values, dtype=np.float64), kind="stable")


# Fields over two numeric dimensions, such as latitude and longitude: what maps show, in a plot and in a report


class Field(NamedTuple):
    """Estimates, or differences from a baseline, of the models that are shown, the best first."""

    values: xr.DataArray  # (model, ...), sorted by both coordinates
    across: str
    up: str
    measure: str  # of the values, in words
    is_difference: bool
    differs: xr.DataArray | None  # where a difference is shown after adjustment
    names: list[str]  # of all models
    shown: list[int]  # of these, in the order of the values

    @property
    def scale(self) -> tuple[float, float]:
        """The least and the largest value, of differences as far from zero."""
        if not self.values.notnull().any():
            return (-1.0, 1.0) if self.is_difference else (0.0, 1.0)
        low, high = float(self.values.min()), float(self.values.max())
        far = max(-low, high) or 1.0
        return (-far, far) if self.is_difference else (low, high)

    @property
    def ratio(self) -> float:
        """The height of a map over its width: degrees, or metres of a grid, are as long in both directions."""
        if self.across.lower() not in ACROSS or self.up.lower() not in UPWARDS:
            return USUAL
        high, wide = (float(np.ptp(self.values[name].values)) for name in (self.up, self.across))
        return min(max(high / wide, LOWEST), HIGHEST) if high and wide else USUAL


def field_of(
    node: xr.Dataset,
    x: str | None = None,
    y: str | None = None,
    *,
    estimator: str | None = None,
    baseline: str | int | None = None,
    models: Models | None = None,
    top: int = TOP_OF_MAPS,
) -> Field:
    """Return the field of a result, or of a comparison with one baseline; raise unless it has two dimensions."""
    is_difference = "difference" in node
    name, node = at_estimator(node, estimator)
    measure = measured(node.attrs, name)
    if is_difference:
        other, node = against(node, baseline)
        node = node.isel({MODEL: [model != other for model in names_of(node)]})
        measure = f"difference in {measured(node.attrs)} from {shorten(other, LONGEST_WORD)}"
    node = (node if MODEL in node.dims else node.expand_dims(MODEL)).compute()
    values = node["difference" if is_difference else "estimate"]
    across, up = _coordinates(values, x, y)
    node = node.sortby([one for one in (across, up) if one in values.dims])
    values = node[values.name]
    way = 1.0 if is_difference else direction(node.attrs, name)
    best = best_first(way * values.mean([dim for dim in values.dims if dim != MODEL]))
    names = names_of(node)
    shown = best[: checked_top(top, 1)].tolist() if models is None else positions_of(node, models)
    node = node.isel({MODEL: shown})
    differs = node["p_adjusted"] <= 1 - level_of(node) if "p_adjusted" in node else None
    return Field(node[values.name], across, up, measure, is_difference, differs, names, shown)


def _coordinates(field: xr.DataArray, x: str | None, y: str | None) -> tuple[str, str]:
    """Return the coordinates across and upwards; raise unless they are numbers over the only dimensions left."""
    dims = [str(dim) for dim in field.dims if dim != MODEL]
    what, received = "maps plots a field over two numeric dimensions", few(dims) or "no dimension besides models"
    allowed = "two dimensions of the scores that are kept, such as lat and lon"
    if averaged := [dim for dim in dims if dim in (QUERY, CLASS)]:
        remedy = f"average over {averaged[0]} first: ap.aggregate(result, over={averaged[0]!r})"
        raise InvalidInputError(what, None, received, allowed, remedy)
    if len(dims) != 2:
        remedy = f"select one first: .sel({dims[0]}=...)" if len(dims) > 2 else "leave them out of dim= in evaluate()"
        raise InvalidInputError(what, None, received, allowed, remedy)
    up, across = sorted(dims, key=lambda dim: dim.lower() not in UPWARDS)
    across, up = x or (across if y != across else up), y or (up if x != up else across)
    known = dims + [str(name) for name, one in field.coords.items() if one.dims and {*one.dims} <= {*dims}]
    known = list(dict.fromkeys(known))
    for name in (across, up):
        if name not in known:
            remedy = did_you_mean(name, known, "name one of these")
            raise InvalidInputError("there is no such coordinate", None, repr(name), few(known), remedy)
        if field[name].dtype.kind not in "iufM":
            remedy = "heatmap() and forest() name their rows; numbers: result.assign_coords(...)"
            raise InvalidInputError(what, None, f"{name!r}, which holds {field[name].dtype}", allowed, remedy)
    if {*field[across].dims, *field[up].dims} != {*dims}:
        raise InvalidInputError(what, None, f"x={across!r}, y={up!r}", few(dims), "name a coordinate of each")
    return across, up
