"""Plots with a model in each row: estimates, differences, ranks, replicates; and all models as one curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.schema.checks import choose
from aucpr_dask.schema.variables import BOUND, METHOD, MODEL, QUERY, RESAMPLE
from aucpr_dask.storage.stores import Scores
from aucpr_dask.view.plots.style import (
    BLACK,
    BLUE,
    GREY,
    PALE,
    SKY,
    VERMILLION,
    as_label,
    axes_of,
    height_of,
    label_rows,
    percent,
    plain,
    put_legend,
    put_title,
    rows_of,
    styled,
    words,
)
from aucpr_dask.view.plots.subjects import (
    COMPARISON,
    RANKS,
    RESULT,
    at_estimator,
    at_query,
    best_first,
    checked_top,
    names_of,
    one_node,
    positions_of,
)

Models = str | int | Sequence[str | int]
TOP = 20
HEIGHT_OF_RIDGE = 0.8  # rows
BINS = 40
NOT_OF_PRECISION = {"roc_area", "gain_area", "recall_at_precision"}  # a random ranking has another value of these


class _Estimates(NamedTuple):
    """Estimates of models with their intervals, and what they are."""

    node: xr.Dataset
    estimate: xr.DataArray
    interval: xr.DataArray | None
    label: str


def _estimates(
    result: xr.Dataset, estimator: str | None, method: str | None, query: Any, plot: str, *, is_mean: bool
) -> _Estimates:
    """Return what to draw of a result: at a query, or as the mean over queries."""
    name, node = at_estimator(result, estimator)
    label = words(name)
    if QUERY in result.dims and query is None and is_mean:
        from aucpr_dask.inference import aggregate

        only = result[["estimate"]].assign_attrs(result.attrs)
        _, node = at_estimator(cast("xr.Dataset", aggregate(only, level=_level(result))), estimator)
        label = f"mean {label} over {result.sizes[QUERY]:,} queries"
        if method is not None:
            raise InvalidInputError(
                "a mean over queries has the interval of aggregate() only",
                received=f"method={method!r}",
                remedy="leave it out, or choose a query: query=...",
            )
    else:
        node = at_query(node, query, plot)
    if MODEL not in node.dims:
        node = node.expand_dims(MODEL)
    interval = node.get("interval")
    if interval is not None and METHOD in interval.dims:
        methods = names_of(node, METHOD)
        method = _a_method(interval, methods) if method is None else choose(tuple(methods), method, "method")
        if method is not None:
            interval = interval.isel({METHOD: methods.index(method)})
            label = f"{label}, {percent(_level(node))} {words(method)} interval"
        else:
            interval = None
    elif interval is not None:
        label = f"{label}, {percent(_level(node))} interval"
    node = node[["estimate", *(["replicate"] if plot == "replicates" else [])]].compute()
    return _Estimates(node, node["estimate"], None if interval is None else interval.compute(), label)


def _a_method(interval: xr.DataArray, methods: list[str]) -> str | None:
    """Return the first method that gives intervals here."""
    has_bounds = interval.notnull().any([dim for dim in interval.dims if dim != METHOD]).values
    return next((method for method, has in zip(methods, has_bounds, strict=True) if has), None)


def _level(node: xr.Dataset) -> float:
    return float(node.coords["level"]) if "level" in node.coords else float(node.attrs.get("level", 0.95))


def _shown(node: xr.Dataset, order: np.ndarray[Any, Any], models: Models | None, top: int, ax: Axes | None) -> Any:
    """Return positions of the models to draw: those asked for, or the best."""
    top = checked_top(top, 1)
    if models is not None:
        return np.array(positions_of(node, models))
    return order[: rows_of(ax, order.size, top)]


def _how_many(shown: int, n: int, what: str = "best") -> str:
    return "" if shown == n else f"{shown:,} {what} of {n:,} models"


@styled
def forest(
    result: Scores,
    *,
    estimator: str | None = None,
    method: str | None = None,
    dataset: str | None = None,
    query: Any = None,
    models: Models | None = None,
    top: int = TOP,
    ax: Axes | None = None,
) -> Axes:
    """Draw the estimate and the interval of each model in a row of its own, the best first.

    Parameters
    ----------
    result : xarray.Dataset or xarray.DataTree
        What :func:`aucpr_dask.evaluate` or :func:`aucpr_dask.aggregate` returns.
    estimator, method : str, optional
        Estimator and interval to draw; the first ones by default.
    dataset : str, optional
        Which data set of a tree.
    query : label, optional
        Which query; by default means over queries are drawn, with the interval of :func:`aucpr_dask.aggregate`.
    models : label or sequence of labels, optional
        Models to draw, in this order; by default the best.
    top : int
        How many models to draw at most; fewer if the given axes have no room.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure, as wide as a journal's column.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InvalidInputError
        If this is no result, or an option names what it does not have.
    """
    path, node = one_node(result, RESULT, "forest", dataset)
    drawn = _estimates(node, estimator, method, query, "forest", is_mean=True)
    order = best_first(drawn.estimate)
    shown = _shown(drawn.node, order, models, top, ax)
    ax = axes_of(ax, height_of(len(shown)))
    rows = np.arange(len(shown))
    if drawn.interval is not None:
        bounds = drawn.interval.isel({MODEL: shown})
        ax.hlines(rows, bounds.sel({BOUND: "lower"}), bounds.sel({BOUND: "upper"}), color=BLUE, linewidth=1.6)
    ax.plot(drawn.estimate.values[shown], rows, "o", color=BLACK, markersize=3.2)
    _mark_prevalence(ax, node, query, at_estimator(node, estimator)[0])
    label_rows(ax, [names_of(drawn.node)[i] for i in shown])
    ax.set_xlabel(drawn.label, wrap=True)
    put_title(ax, path, _query_name(query), _how_many(len(shown), order.size, "best" if models is None else "chosen"))
    return ax


def _query_name(query: Any) -> str:
    return "" if query is None else str(query)


def _mark_prevalence(ax: Axes, node: xr.Dataset, query: Any, estimator: str) -> None:
    """Draw the prevalence, what precision under a random ranking tends to, if all models have the same."""
    if estimator.partition("(")[0] in NOT_OF_PRECISION:
        return
    if node.attrs.get("prevalence") is not None:  # precision was worked out at this one, not at that of the sample
        prevalence = np.array([node.attrs["prevalence"]], dtype=np.float64)
    elif "prevalence" not in node or (QUERY in node["prevalence"].dims and query is None):
        return
    else:
        prevalence = np.unique(np.asarray(at_query(node, query, "forest")["prevalence"].values, dtype=np.float64))
    low, high = ax.get_xlim()
    if prevalence.size == 1 and low - (high - low) / 2 < prevalence[0] < high:  # far away, it would take all the room
        line = ax.axvline(float(prevalence[0]), color=GREY, linestyle=":", linewidth=0.9)
        line.set_label("prevalence")
        put_legend(ax)


@styled
def caterpillar(
    result: Scores,
    *,
    estimator: str | None = None,
    method: str | None = None,
    dataset: str | None = None,
    query: Any = None,
    highlight: Models | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw all models, however many, in the order of their estimates: one curve with the intervals as a band.

    Parameters
    ----------
    result, estimator, method, dataset, query, ax
        See :func:`forest`.
    highlight : label or sequence of labels, optional
        Models to mark and name, five at most; by default the best, the median and the last.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InvalidInputError
        See :func:`forest`.
    """
    path, node = one_node(result, RESULT, "caterpillar", dataset)
    drawn = _estimates(node, estimator, method, query, "caterpillar", is_mean=True)
    order = best_first(drawn.estimate)
    order = order[drawn.estimate.notnull().values[order]]
    ax = axes_of(ax)
    place = np.arange(1, order.size + 1)
    if drawn.interval is not None:
        bounds = drawn.interval.isel({MODEL: order})
        lower, upper = bounds.sel({BOUND: "lower"}).values, bounds.sel({BOUND: "upper"}).values
        # Half a place more to either side, so that the interval of a single model can be seen.
        ends = np.concatenate([place[:1] - 0.5, place, place[-1:] + 0.5])
        lower, upper = (np.concatenate([bound[:1], bound, bound[-1:]]) for bound in (lower, upper))
        ax.fill_between(ends, lower, upper, color=SKY, alpha=0.5, linewidth=0, step="mid", label="interval")
    ax.plot(place, drawn.estimate.values[order], color=BLACK, label="estimate")
    names = names_of(drawn.node)
    if highlight is None:
        marked = sorted({0, (order.size - 1) // 2, order.size - 1}) if order.size else []
    else:
        wanted = positions_of(drawn.node, highlight)
        marked = [int(np.flatnonzero(order == i)[0]) for i in wanted[:5] if i in order]
    for marker, at in zip("o^sDv", marked, strict=False):
        value = float(drawn.estimate.values[order[at]])
        label = as_label(f"{at + 1:,}: {names[order[at]]}")
        ax.plot(place[at], value, marker, color=VERMILLION, markeredgecolor=BLACK, markersize=4.5, label=label)
    ax.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10], integer=True, min_n_ticks=1))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    ax.set_xlabel(f"place among {order.size:,} model{'' if order.size == 1 else 's'}")
    ax.set_ylabel(drawn.label, wrap=True)
    put_legend(ax)
    put_title(ax, path, _query_name(query))
    return ax


@styled
def differences(
    comparison: Scores,
    baseline: str | int | None = None,
    *,
    dataset: str | None = None,
    models: Models | None = None,
    top: int = TOP,
    ax: Axes | None = None,
) -> Axes:
    """Draw the difference of each model from a baseline, with its interval and its simultaneous interval.

    A filled dot is a difference that is shown, adjusted for all comparisons of the family; a hollow one is not.

    Parameters
    ----------
    comparison : xarray.Dataset or xarray.DataTree
        What :func:`aucpr_dask.compare` returns.
    baseline : label, optional
        Which one; not needed if there is only one. Of all pairs, any model.
    dataset, models, top, ax
        See :func:`forest`.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InvalidInputError
        If this is no comparison, or an option names what it does not have.
    """
    path, node = one_node(comparison, COMPARISON, "differences", dataset)
    name, node = _against(node, baseline)
    node = node.compute()
    others = np.array([label != name for label in names_of(node)])
    order = np.array([i for i in best_first(node["difference"]) if others[i]], dtype=np.int64)
    shown = _shown(node, order, models, top, ax)
    ax = axes_of(ax, height_of(len(shown)) + 0.2)
    rows = np.arange(len(shown))
    for variable, colour, width, label in (
        ("simultaneous_interval", SKY, 3.4, "all of the family together"),
        ("interval", BLUE, 1.4, "each on its own"),
    ):
        if variable in node:
            bounds = node[variable].isel({MODEL: shown})
            lower, upper = bounds.sel({BOUND: "lower"}), bounds.sel({BOUND: "upper"})
            ax.hlines(rows, lower, upper, color=colour, linewidth=width, label=label)
    alpha = 1 - float(node.attrs.get("level", 0.95))
    is_shown = node["p_adjusted"].values[shown] <= alpha if "p_adjusted" in node else np.zeros(len(shown), bool)
    values = node["difference"].values[shown]
    for chosen, fill, label in ((is_shown, BLACK, "differs"), (~is_shown, "white", "not shown to differ")):
        if chosen.any():
            style: Any = {"markerfacecolor": fill, "markeredgecolor": BLACK, "markeredgewidth": 0.8}
            ax.plot(values[chosen], rows[chosen], "o", markersize=3.6, label=label, **style)
    ax.axvline(0.0, color=BLACK, linewidth=0.6)
    label_rows(ax, [names_of(node)[i] for i in shown])
    what = words(str(node.attrs.get("estimator", "estimate")))
    plain([ax.set_xlabel(f"difference in {what} from {as_label(name)}", wrap=True)])
    put_legend(ax)
    put_title(ax, path, _how_many(len(shown), order.size, "largest" if models is None else "chosen"))
    return ax


def _against(node: xr.Dataset, baseline: str | int | None) -> tuple[str, xr.Dataset]:
    """Return the comparisons with one baseline, and its name."""
    other = "baseline" if "baseline" in node.dims else "other_model"
    names = names_of(node, other)
    if baseline is None and len(names) > 1:
        remedy = "choose one: baseline=..."
        what = "differences are drawn from one baseline"
        raise InvalidInputError(what, received=f"{len(names):,} of them", remedy=remedy)
    at = 0 if baseline is None else positions_of(node, baseline, other)[0]
    return names[at], node.isel({other: at}).drop_vars(other, errors="ignore")


@styled
def ranks(
    ranking: Scores,
    *,
    dataset: str | None = None,
    models: Models | None = None,
    top: int = TOP,
    ax: Axes | None = None,
) -> Axes:
    """Draw the confidence set of each model's rank, and the groups that cannot be told apart.

    Parameters
    ----------
    ranking : xarray.Dataset or xarray.DataTree
        What :func:`aucpr_dask.rank` returns.
    dataset, models, top, ax
        See :func:`forest`.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InvalidInputError
        If these are no ranks, or an option names what they do not have.
    """
    path, node = one_node(ranking, RANKS, "ranks", dataset)
    node = node.compute()
    order = best_first(-node["rank"])
    shown = _shown(node, order, models, top, ax)
    ax = axes_of(ax, height_of(len(shown)) + 0.2)
    rows = np.arange(len(shown))
    level = percent(float(node.attrs.get("level", 0.95)))
    for variable, colour, width, label in (
        ("simultaneous_rank_interval", SKY, 5.0, f"{level} set, all together"),
        ("rank_interval", BLUE, 1.8, f"{level} set, each alone"),
    ):
        bounds = node[variable].isel({MODEL: shown})
        lower, upper = (bounds.sel({BOUND: bound}).values for bound in ("lower", "upper"))
        # Half a rank to either side, so that a set of one rank can be seen.
        ax.hlines(rows, lower - 0.3, upper + 0.3, color=colour, linewidth=width, label=label)
    ax.plot(node["rank"].values[shown], rows, "o", color=BLACK, markersize=3.2, label="rank of the estimate")
    label_rows(ax, [names_of(node)[i] for i in shown])
    ax.set_xlabel(f"rank of {node.sizes[MODEL]:,} (1 is best)", wrap=True)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if models is None:
        _draw_groups(ax, node, shown)
    put_legend(ax)
    put_title(ax, path, _how_many(len(shown), order.size, "best" if models is None else "chosen"))
    return ax


def _draw_groups(ax: Axes, node: xr.Dataset, shown: np.ndarray[Any, Any]) -> None:
    """Draw a line beside the models of each group, to the right of the axes; overlapping groups beside each other."""
    first, last = (node[name].values[shown] for name in ("first_group", "last_group"))
    spans = []
    for group in range(int(first.min()), int(last.max()) + 1):
        members = np.flatnonzero((first <= group) & (group <= last))
        if members.size > 1:
            spans.append((int(members[0]), int(members[-1])))
    ends: list[int] = []
    for start, end in spans:
        lane = next((lane for lane, until in enumerate(ends) if until < start), len(ends))
        ends[lane : lane + 1] = [end]
        x = 1.02 + 0.025 * lane
        line = Line2D([x, x], [start - 0.3, end + 0.3], transform=ax.get_yaxis_transform(), color=BLACK, linewidth=1.6)
        line.set_clip_on(False)
        line.set_label("group not told apart" if start == spans[0][0] else "_")
        ax.add_line(line)


@styled
def replicates(
    result: Scores,
    *,
    estimator: str | None = None,
    method: str | None = None,
    dataset: str | None = None,
    query: Any = None,
    models: Models | None = None,
    top: int = 8,
    ax: Axes | None = None,
) -> Axes:
    """Draw the distribution of each model's replicates, with the estimate and the interval.

    Parameters
    ----------
    result : xarray.Dataset or xarray.DataTree
        What :func:`aucpr_dask.evaluate` returns with ``keep_replicates=True``.
    estimator, method, dataset, query, models, top, ax
        See :func:`forest`; a result with queries needs `query`.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InvalidInputError
        If the result keeps no replicates, or an option names what it does not have.
    """
    path, node = one_node(result, RESULT, "replicates", dataset)
    if "replicate" not in node:
        raise InvalidInputError(
            "this result keeps no replicates",
            where=f"data set {path!r}" if path else None,
            remedy="evaluate with keep_replicates=True",
        )
    drawn = _estimates(node, estimator, method, query, "replicates", is_mean=False)
    order = best_first(drawn.estimate)
    shown = _shown(drawn.node, order, models, top, ax)
    ax = axes_of(ax, height_of(len(shown)) + 0.12 * len(shown) + 0.2)
    samples = drawn.node["replicate"].transpose(MODEL, RESAMPLE).values[shown]
    finite = samples[np.isfinite(samples)]
    edges = np.linspace(finite.min(), finite.max(), BINS + 1) if finite.size and np.ptp(finite) > 0 else None
    ax.fill_between([], [], facecolor=PALE, edgecolor=GREY, label=f"{samples.shape[1]:,} replicates")
    for row, sample in enumerate(samples):
        if edges is not None:
            _draw_ridge(ax, row, sample[np.isfinite(sample)], edges)
    if drawn.interval is not None:
        bounds = drawn.interval.isel({MODEL: shown})
        lower, upper = bounds.sel({BOUND: "lower"}), bounds.sel({BOUND: "upper"})
        ax.hlines(np.arange(len(shown)), lower, upper, color=BLUE, linewidth=1.6, label="interval")
    ax.plot(drawn.estimate.values[shown], np.arange(len(shown)), "o", color=BLACK, markersize=3.2, label="estimate")
    label_rows(ax, [names_of(drawn.node)[i] for i in shown])
    ax.set_ylim(len(shown) - 0.5, -1.0)
    ax.set_xlabel(drawn.label, wrap=True)
    put_legend(ax)
    put_title(ax, path, _query_name(query), _how_many(len(shown), order.size, "best" if models is None else "chosen"))
    return ax


def _draw_ridge(ax: Axes, row: int, sample: np.ndarray[Any, Any], edges: np.ndarray[Any, Any]) -> None:
    """Draw a histogram that stands on a row."""
    counts, _ = np.histogram(sample, edges)
    if counts.any():
        height = row - HEIGHT_OF_RIDGE * counts / counts.max()
        ax.stairs(height, edges, baseline=row, fill=True, facecolor=PALE, edgecolor=GREY, linewidth=0.5)
