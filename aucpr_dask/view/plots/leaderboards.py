"""Plots with a model in each row (estimates, differences, ranks, replicates), and of all models as one curve."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from aucpr_dask.errors import InvalidInputError, bad_argument
from aucpr_dask.evaluation.results import group_dims
from aucpr_dask.inference.aggregating import aggregate
from aucpr_dask.inference.designs import direction, measured, unit_names
from aucpr_dask.inference.grouped import dims_of_family
from aucpr_dask.schema import checks, terms
from aucpr_dask.schema.estimators import ESTIMATORS
from aucpr_dask.view import selecting
from aucpr_dask.view.comparisons import rows_of_groups
from aucpr_dask.view.plots import style
from aucpr_dask.view.rankings import level_of, mean_of_classes, method_with_bounds
from aucpr_dask.view.tables import distinct

TOP = 20
NOTHING = "Nothing to draw: no estimate is defined.\nIs there a positive item?"
MOST_COMPARED = 2000  # names that are told from each other when they are shortened
HEIGHT_OF_RIDGE = 0.8  # rows
BINS = 40


class _Estimates(NamedTuple):
    """Estimates of models with their intervals, and their description."""

    node: xr.Dataset
    estimate: xr.DataArray
    interval: xr.DataArray | None
    label: str
    direction: float  # -1 where less is better

    @property
    def best_first(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Positions of the models, the best first."""
        return selecting.best_first(self.direction * self.estimate)


def _estimates(
    result: xr.Dataset, estimator: str | None, method: str | None, query: Any, plot: str, *, is_mean: bool
) -> _Estimates:
    """Return the estimates at a query, or their means over queries or classes."""
    name, node = selecting.at_estimator(result, estimator)
    label = measured(result.attrs, name)
    has_classes = result.sizes.get(terms.CLASS, 1) > 1
    if is_mean and (has_classes or (terms.QUERY in result.dims and query is None)):
        if has_classes:
            node, of = mean_of_classes(result, level_of(result)), f"{result.sizes[terms.CLASS]:,} classes"
        else:
            node = aggregate(result[["estimate"]].assign_attrs(result.attrs), level=level_of(result))
            # Which differs if some are undefined.
            counts = np.unique(node["n_queries"].values if "n_queries" in node else result.sizes[terms.QUERY])
            number = " to ".join(f"{count:,.0f}" for count in counts[[0, -1][: counts.size]])
            of = f"{number} {unit_names(terms.QUERY, result.attrs)[int(counts[-1] != 1)]}"
        _, node = selecting.at_estimator(node, estimator)
        label = f"mean {label} over {of}"
        if method is not None:
            remedy = "leave it out, or choose a query: query=..., or a class: result.sel({'class': ...})"
            raise bad_argument("a mean has the interval of aggregate() only", "method", method, None, remedy)
    else:
        node = selecting.at_query(node, query, plot)
    if terms.MODEL not in node.dims:
        node = node.expand_dims(terms.MODEL)
    interval, of = node.get("interval"), ""
    if interval is not None and terms.METHOD in interval.coords:
        interval = interval if terms.METHOD in interval.dims else interval.expand_dims(terms.METHOD)
        methods = selecting.names_of(interval.to_dataset(), terms.METHOD)
        method = method_with_bounds(interval) if method is None else checks.choose(tuple(methods), method, "method")
        if method is None:
            interval = None
        else:
            interval, of = interval.isel({terms.METHOD: methods.index(method)}), f" {terms.in_words(method)}"
    interval = None if interval is None or not interval.notnull().any() else interval.compute()
    if interval is not None:
        label = f"{label}, {terms.percent(level_of(node))}{of} interval"
    node = node[["estimate", *(["replicate"] if plot == "replicates" else [])]].compute()
    return _Estimates(node, node["estimate"], interval, label, direction(result.attrs, name))


class _Rows(NamedTuple):
    """Axes with a model in each row."""

    ax: Axes
    shown: np.ndarray[Any, Any]

    def draw_intervals(self, bounds: xr.DataArray, half: float = 0.0, **look: Any) -> None:
        """Draw the interval of each model, `half` wider at either end."""
        bounds = bounds.isel({terms.MODEL: self.shown})
        lower, upper = (bounds.sel({terms.BOUND: bound}).values for bound in terms.BOUNDS)
        if np.isfinite(lower).any() or np.isfinite(upper).any():
            self.ax.hlines(np.arange(len(self.shown)), lower - half, upper + half, **look)

    def draw_dots(self, values: xr.DataArray, label: str | None = None) -> None:
        """Draw a value of each model."""
        rows, drawn = np.arange(len(self.shown)), values.values[self.shown]
        self.ax.plot(drawn, rows, "o", color=style.BLACK, markersize=3.2, label=label)
        if not np.isfinite(drawn).any():
            style.say(self.ax, NOTHING)


def _rows(
    ax: Axes | None,
    node: xr.Dataset,
    order: np.ndarray[Any, Any],
    models: selecting.Models | None,
    top: int,
    *title: object,
    best: str = "best",
    of: str = "models",
    height: float = 0.0,
    row_height: float = 0.0,
) -> _Rows:
    """Make axes with rows for the requested models, or for the best, and a title that counts the others."""
    top = selecting.checked_top(top, 1)
    shown = order[: style.rows_of(ax, order.size, top)]
    if models is not None:
        shown = np.array(selecting.positions_of(node, models))
    ax = style.axes_of(ax, 0.75 + style.ROW * max(len(shown), 3) + height + row_height * len(shown))
    names = selecting.names_of(node)
    style.label_rows(ax, [names[i] for i in shown], among=names if len(names) <= MOST_COMPARED else ())
    what = best if models is None else "chosen"
    style.put_title(ax, *title, "" if len(shown) == order.size else f"{len(shown):,} {what} of {order.size:,} {of}")
    return _Rows(ax, shown)


@style.plot
def forest(
    result: terms.Scores,
    *,
    estimator: str | None = None,
    method: str | None = None,
    dataset: str | None = None,
    query: Any = None,
    models: selecting.Models | None = None,
    top: int = TOP,
    ax: Axes | None = None,
) -> Axes:
    """Draw the estimate and the interval of each model in its own row, the best first.

    Parameters
    ----------
    result : xarray.Dataset or xarray.DataTree
        What :func:`aucpr_dask.evaluate` or :func:`aucpr_dask.aggregate` returns. By groups, each model has a row for
        each of them.
    """
    dims = dims_of_family(result, ()) if isinstance(result, xr.Dataset) and "estimate" in result else []
    if isinstance(result, xr.Dataset) and dims and dataset is None:
        result = result if models is None else result.isel({terms.MODEL: selecting.positions_of(result, models)})
        result = result.assign_coords({str(dim): selecting.names_of(result, dim) for dim in (*dims, terms.MODEL)})
        named = [*dims, terms.MODEL] if result.sizes[terms.MODEL] > 1 else dims
        flat = result.stack({"row": (*dims, terms.MODEL)}, create_index=False)  # one after the other, named by both
        labels = [", ".join(row) for row in zip(*(flat[dim].values for dim in named), strict=True)]
        flat = flat.drop_vars([terms.MODEL, *dims]).rename({"row": terms.MODEL}).assign_coords({terms.MODEL: labels})
        flat.attrs.pop("by", None)
        result, models = flat, None
    path, node = selecting.one_node(result, selecting.RESULT, "forest", dataset)
    drawn = _estimates(node, estimator, method, query, "forest", is_mean=True)
    order = drawn.best_first
    of = "models in groups" if dims and dataset is None else "models"
    rows = _rows(ax, drawn.node, order, models, top, selecting.title_of(result, path), query, of=of)
    if drawn.interval is not None:
        rows.draw_intervals(drawn.interval, color=style.BLUE, linewidth=1.6)
    rows.draw_dots(drawn.estimate)
    rows.ax.set_xlabel(drawn.label, wrap=True)
    spec = ESTIMATORS.get(selecting.at_estimator(node, estimator)[0].partition("(")[0])
    if spec is not None and spec.chance is not None and not rows.ax.texts:  # which say that nothing is drawn
        _mark_chance(rows.ax, node, query, spec.chance)
    return rows.ax


def _mark_chance(ax: Axes, node: xr.Dataset, query: Any, chance: float | str) -> None:
    """Draw what a random ranking is expected to have, if that is one number for all models."""
    known: Any = chance if isinstance(chance, float) else node.attrs.get("prevalence")  # the reference one
    if known is None:
        found = node.get("prevalence")
        if found is None or node.sizes.get(terms.CLASS, 1) > 1 or (terms.QUERY in found.dims and query is None):
            return
        known = selecting.at_query(node, query, "forest")["prevalence"].values
    levels, (low, high) = np.unique(np.asarray(known, dtype=np.float64)), ax.get_xlim()
    # If it is far away, it would squeeze the intervals.
    if levels.size == 1 and low - (high - low) / 2 < levels[0] < high:
        label = "chance" if isinstance(chance, float) else chance
        ax.axvline(float(levels[0]), color=style.GREY, linestyle=":", linewidth=0.9, label=label)
        style.put_legend(ax)


@style.plot
def caterpillar(
    result: terms.Scores,
    *,
    estimator: str | None = None,
    method: str | None = None,
    dataset: str | None = None,
    query: Any = None,
    highlight: selecting.Models | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw all models, however many, in the order of their estimates: one curve with the intervals as a band.

    Parameters
    ----------
    result : xarray.Dataset or xarray.DataTree
        As of :func:`forest`.
    highlight : label or sequence of labels, optional
        Models to mark and name, five at most; by default the best, the median and the last.
    """
    path, node = selecting.one_node(result, selecting.RESULT, "caterpillar", dataset)
    drawn = _estimates(node, estimator, method, query, "caterpillar", is_mean=True)
    order = drawn.best_first
    order = order[drawn.estimate.notnull().values[order]]
    ax = style.axes_of(ax)
    place = np.arange(1, order.size + 1)
    if drawn.interval is not None and order.size:
        # Half a place more at either end, so that the interval of a single model can be seen.
        ends = np.concatenate([place[:1] - 0.5, place, place[-1:] + 0.5])
        bounds = drawn.interval.isel({terms.MODEL: np.concatenate([order[:1], order, order[-1:]])})
        lower, upper = (bounds.sel({terms.BOUND: bound}) for bound in terms.BOUNDS)
        ax.fill_between(ends, lower, upper, color=style.SKY, alpha=0.5, linewidth=0, step="mid", label="interval")
    if order.size:
        ax.plot(place, drawn.estimate.values[order], color=style.BLACK, label="estimate")
    names = selecting.names_of(drawn.node)
    if highlight is None:
        marked = sorted({0, (order.size - 1) // 2, order.size - 1}) if order.size else []
    else:
        chosen = selecting.positions_of(drawn.node, highlight)[:5]
        marked = [int(np.flatnonzero(order == i)[0]) for i in chosen if i in order]
    short = dict(zip(names, distinct(names, style.LONGEST_NAME) if len(names) <= MOST_COMPARED else names, strict=True))
    for marker, at in zip("o^sDv", marked, strict=False):
        value = float(drawn.estimate.values[order[at]])
        look: Any = {"color": style.VERMILLION, "markeredgecolor": style.BLACK, "markersize": 4.5}
        ax.plot(place[at], value, marker, label=f"{at + 1:,}: {short[names[order[at]]]}", **look)
    if not order.size:
        style.say(ax, NOTHING)
    ax.xaxis.set_major_locator(style.PlaceLocator())
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    ax.set_xlabel(f"place among {order.size:,} model{'' if order.size == 1 else 's'}" if order.size else "place")
    ax.set_ylabel(drawn.label, wrap=True)
    style.put_legend(ax)
    style.put_title(ax, selecting.title_of(result, path), query)
    return ax


@style.plot
def differences(
    comparison: terms.Scores,
    baseline: str | int | None = None,
    *,
    dataset: str | None = None,
    models: selecting.Models | None = None,
    top: int = TOP,
    ax: Axes | None = None,
) -> Axes:
    """Draw the difference of each model from a baseline, with its interval and its simultaneous interval.

    A filled dot is a difference that is significant after adjustment for all comparisons; a hollow one is not. Of a
    comparison by groups, each group has a row, for each model if there are several, and the intervals hold for all.

    Parameters
    ----------
    comparison : xarray.Dataset or xarray.DataTree
        What :func:`aucpr_dask.compare` or :func:`aucpr_dask.contrast` returns.
    baseline : label, optional
        The model to compare with; optional if there is only one baseline. If all pairs are compared, any model.
    """
    nodes = terms.nodes_of(comparison)
    are_groups = dataset is None and any("difference" in node and group_dims(node) for _, node in nodes)
    if are_groups:
        name, title, node = _groups_as_rows(comparison, baseline, models)
        models = None
    else:
        path, node = selecting.one_node(comparison, selecting.COMPARISON, "differences", dataset)
        title = selecting.title_of(comparison, path)
        name, node = selecting.against(node, baseline)
    node = node.compute()
    others = np.array([label != name for label in selecting.names_of(node)])
    order = np.array([i for i in selecting.best_first(node["difference"]) if others[i]], dtype=np.int64)
    # The largest in size, so that the worse models are not hidden.
    sizes = np.abs(node["difference"].values[order])
    n_shown = style.rows_of(ax, order.size, selecting.checked_top(top, 1))
    is_large = np.isin(order, order[np.argsort(-sizes, kind="stable")[:n_shown]])
    order = np.concatenate([order[is_large], order[~is_large]])
    of, family = ("groups", "all groups") if are_groups else ("models", "all of the family")
    rows = _rows(ax, node, order, models, top, title, best="largest", of=of, height=0.2)
    ax, shown = rows
    if not np.isfinite(node["difference"].values[shown]).any():
        style.say(ax, "Nothing to draw: no difference is defined.")
    for variable, colour, width, label in (
        ("simultaneous_interval", style.SKY, 3.4, f"simultaneous, {family}"),
        ("interval", style.BLUE, 1.4, "each on its own"),
    ):
        if variable in node:
            rows.draw_intervals(node[variable], color=colour, linewidth=width, label=label)
    alpha = 1 - level_of(node)
    is_shown = node["p_adjusted"].values[shown] <= alpha if "p_adjusted" in node else np.zeros(len(shown), bool)
    values = node["difference"].values[shown]
    for chosen, fill, label in ((is_shown, style.BLACK, "differs"), (~is_shown, "white", "not shown to differ")):
        if chosen.any():
            look: Any = {"markerfacecolor": fill, "markeredgecolor": style.BLACK, "markeredgewidth": 0.8}
            ax.plot(values[chosen], np.flatnonzero(chosen), "o", markersize=3.6, label=label, **look)
    ax.axvline(0.0, color=style.BLACK, linewidth=0.6)
    short = distinct([name, *selecting.names_of(node)], style.LONGEST_WORD)[0]
    whose = f" over {node.attrs['baseline']}" if {"contrasted", "baseline"} <= node.attrs.keys() else ""
    style.plain([ax.set_xlabel(f"difference in {measured(node.attrs)}{whose} from {short} (better →)", wrap=True)])
    ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10], min_n_ticks=4))
    style.put_legend(ax)
    return ax


@style.plot
def pairs(
    comparison: terms.Scores,
    *,
    dataset: str | None = None,
    models: selecting.Models | None = None,
    top: int = TOP,
    ax: Axes | None = None,
) -> Axes:
    """Draw the differences of all pairs: the model of the row minus that of the column, the best first.

    A triangle marks a pair that differs after adjustment for all comparisons, and points up where
    the row is higher.

    Parameters
    ----------
    comparison : xarray.Dataset or xarray.DataTree
        What :func:`aucpr_dask.compare` returns of all pairs, or with several baselines.
    """
    path, node = selecting.one_node(comparison, selecting.COMPARISON, "pairs", dataset)
    other, node = selecting.others(node.compute())
    names, others = selecting.names_of(node), selecting.names_of(node, other)
    order = selecting.best_first(node["difference"].mean(other))
    short = distinct(others, style.LONGEST_NAME)
    height = 0.6 + style.WIDTH_OF_CHARACTER * max(map(len, short), default=0)
    ax, shown = _rows(ax, node, order, models, top, selecting.title_of(comparison, path), height=height)
    across = list(range(len(others))) if other == "baseline" else [others.index(names[i]) for i in shown]
    drawn = node.isel({terms.MODEL: shown, other: across}).transpose(terms.MODEL, other, ...)
    values = drawn["difference"].values.astype(np.float64)
    values[np.array([[names[i] == others[j] for j in across] for i in shown])] = np.nan
    limit = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    colours = colormaps[style.DIVERGING].with_extremes(bad=style.PALE)
    look: Any = {"cmap": colours, "aspect": "auto", "vmin": -limit, "vmax": limit, "interpolation": "nearest"}
    image = ax.imshow(np.ma.masked_invalid(values), **look)
    if "p_adjusted" in drawn:
        differs = (drawn["p_adjusted"].values <= 1 - level_of(node)) & np.isfinite(values)
        for marker, word, where in (("^", "higher", values > 0), ("v", "lower", values < 0)):  # known in grey, too
            row, column = np.nonzero(differs & where)
            mark: Any = {"color": style.BLACK, "markerfacecolor": "white", "markersize": 3.6, "markeredgewidth": 0.7}
            ax.plot(column, row, marker, label=f"differs, row is {word}" if row.size else None, **mark)
    style.label_columns(ax, [short[j] for j in across])
    ax.set_xlim(-0.5, len(across) - 0.5)
    ax.spines[:].set_visible(False)
    below: Any = {"orientation": "horizontal", "location": "bottom", "aspect": 30, "pad": 0.05}
    words = {"wrap": True, "fontsize": style.SMALL}
    style.put_colours(ax, image, f"row minus column: {measured(node.attrs)}", look=words, **below)
    style.put_legend(ax)
    return ax


def _groups_as_rows(
    comparison: terms.Scores, baseline: str | int | None, models: selecting.Models | None
) -> tuple[str, str, xr.Dataset]:
    """Return the baseline, the title, and the differences of all models in all groups in the place of models."""
    parts = []
    for path, node in terms.nodes_of(comparison):
        if "contrasted" in node.attrs:
            name = str(node.attrs.get("reference", "the other group"))
        else:
            name, node = selecting.against(node, baseline)
            is_kept = [models is not None or label != name for label in selecting.names_of(node)]
            node = node.isel({terms.MODEL: is_kept})
        node = node if models is None else node.isel({terms.MODEL: selecting.positions_of(node, models)})
        rows, names = rows_of_groups(node), selecting.names_of(node)
        # Rows are named by their groups, and by their models if there are several.
        pairs = zip(rows["group" if "reference" in node.attrs else "where"], rows["model"], strict=True)
        labels = [", ".join(filter(None, [path, group, model if len(names) > 1 else ""])) for group, model in pairs]
        found: dict[str, Any] = {one: (terms.MODEL, rows[one]) for one in ("difference", "p_adjusted") if one in rows}
        for one in ("interval", "simultaneous_interval"):
            if one in rows:
                found[one] = (terms.MODEL, terms.BOUND), np.reshape(rows[one].tolist(), (-1, 2))
        coords = {terms.MODEL: labels, terms.BOUND: list(terms.BOUNDS), "level": level_of(node)}
        parts.append(xr.Dataset(found, coords, {one: value for one, value in node.attrs.items() if one != "by"}))
    title = names[0] if len(names) == 1 else ""
    return name, title, xr.concat(parts, terms.MODEL, data_vars="minimal", coords="minimal", compat="override")


@style.plot
def critical_difference(tested: xr.Dataset, *, ax: Axes | None = None) -> Axes:
    """Draw mean ranks, best at the top, with bars that join models that are not told apart.

    Parameters
    ----------
    tested : xarray.Dataset
        What :func:`aucpr_dask.friedman` returns.
    """
    if "mean_rank" not in tested:
        what, remedy = "these are no mean ranks", "pass what aucpr_dask.friedman returns"
        raise InvalidInputError(what, None, ", ".join(map(str, tested.data_vars)), "mean_rank(model)", remedy)
    node = tested.isel({terms.MODEL: np.argsort(tested["mean_rank"].values, kind="stable")})
    rank, first, last = (node[name].values for name in ("mean_rank", "first_group", "last_group"))
    names = selecting.names_of(node)
    ax = style.axes_of(ax, height=1.0 + 0.17 * len(names))
    ax.plot(rank, np.arange(len(names)), "o", color=style.BLACK, markersize=4)
    for group in range(1, int(last.max()) + 1):
        (held,) = np.nonzero((first <= group) & (group <= last))
        if held.size > 1:
            at = rank.max() + 0.04 * np.ptp(rank) * group
            ax.plot([at, at], [held[0], held[-1]], color=style.BLACK, linewidth=2.5, solid_capstyle="butt")
    style.label_rows(ax, names)
    way = f"critical distance {float(node['critical_distance']):.2f}"
    way = way if node.attrs["posthoc"] == "nemenyi" else "Wilcoxon's test of each pair, Holm"
    ax.set_xlabel(f"mean rank; bars join models not told apart\n{way}")
    return ax


@style.plot
def ranks(
    ranking: terms.Scores,
    *,
    dataset: str | None = None,
    models: selecting.Models | None = None,
    top: int = TOP,
    ax: Axes | None = None,
) -> Axes:
    """Draw the confidence set of each model's rank, and groups of statistically indistinguishable models.

    Parameters
    ----------
    ranking : xarray.Dataset or xarray.DataTree
        What :func:`aucpr_dask.rank` returns.
    """
    path, node = selecting.one_node(ranking, selecting.RANKS, "ranks", dataset)
    node = node.compute()
    order, title = selecting.best_first(-node["rank"]), selecting.title_of(ranking, path)
    rows = _rows(ax, node, order, models, top, title, height=0.2)
    level = terms.percent(level_of(node))
    for variable, colour, width, label in (
        ("simultaneous_rank_interval", style.SKY, 5.0, f"{level} set, simultaneous"),
        ("rank_interval", style.BLUE, 1.8, f"{level} set, each alone"),
    ):
        # Wider than it is, so that a set of one rank can be seen.
        rows.draw_intervals(node[variable], 0.3, color=colour, linewidth=width, label=label)
    rows.draw_dots(node["rank"], "rank of the estimate")
    rows.ax.set_xlabel(f"rank of {node.sizes[terms.MODEL]:,} (1 is best)", wrap=True)
    rows.ax.xaxis.set_major_locator(style.PlaceLocator())
    # A line next to the models of each group, right of the axes, and overlapping groups side by side.
    first, last = (node[name].values[rows.shown] for name in ("first_group", "last_group"))
    ax, starts, ends = rows.ax, list[int](), list[int]()
    for group in range(int(first.min()), int(last.max()) + 1) if models is None else ():
        members = np.flatnonzero((first <= group) & (group <= last))
        if members.size > 1:
            start, end = int(members[0]), int(members[-1])
            lane = next((lane for lane, until in enumerate(ends) if until < start), len(ends))
            starts, ends[lane : lane + 1] = [*starts, start], [end]
            x, label = 1.02 + 0.025 * lane, "indistinguishable group" if start == starts[0] else "_"
            look: Any = {"color": style.BLACK, "linewidth": 1.6, "clip_on": False, "label": label}
            ax.add_line(Line2D([x, x], [start - 0.3, end + 0.3], transform=ax.get_yaxis_transform(), **look))
    style.put_legend(ax)
    return ax


@style.plot
def replicates(
    result: terms.Scores,
    *,
    estimator: str | None = None,
    method: str | None = None,
    dataset: str | None = None,
    query: Any = None,
    models: selecting.Models | None = None,
    top: int = 8,
    ax: Axes | None = None,
) -> Axes:
    """Draw the distribution of each model's replicates, with the estimate and the interval.

    Parameters
    ----------
    result : xarray.Dataset or xarray.DataTree
        What :func:`aucpr_dask.evaluate` returns with ``keep_replicates=True``; with queries, at one `query`.
    """
    path, node = selecting.one_node(result, selecting.RESULT, "replicates", dataset)
    if "replicate" not in node:
        where = f"data set {path!r}" if path else None
        raise InvalidInputError("this result keeps no replicates", where, remedy="evaluate with keep_replicates=True")
    if method is None and terms.METHOD in node.coords and "bootstrap" in selecting.names_of(node, terms.METHOD):
        method = "bootstrap"  # the interval that comes from these replicates
    drawn = _estimates(node, estimator, method, query, "replicates", is_mean=False)
    order, title = drawn.best_first, (selecting.title_of(result, path), query)
    rows = _rows(ax, drawn.node, order, models, top, *title, height=0.2, row_height=0.12)
    ax, shown = rows
    samples = drawn.node["replicate"].transpose(terms.MODEL, terms.RESAMPLE).values[shown]
    finite = samples[np.isfinite(samples)]
    edges = np.linspace(finite.min(), finite.max(), BINS + 1) if finite.size and np.ptp(finite) > 0 else None
    ax.fill_between([], [], facecolor=style.PALE, edgecolor=style.GREY, label=f"{samples.shape[1]:,} replicates")
    look: Any = {"fill": True, "facecolor": style.PALE, "edgecolor": style.GREY, "linewidth": 0.5}
    for row, sample in enumerate(samples if edges is not None else ()):
        counts, _ = np.histogram(sample[np.isfinite(sample)], edges)  # type: ignore[arg-type]
        if counts.any():  # on top of the row
            ax.stairs(row - HEIGHT_OF_RIDGE * counts / counts.max(), edges, baseline=row, **look)
    if drawn.interval is not None:
        rows.draw_intervals(drawn.interval, color=style.BLUE, linewidth=1.6, label="interval")
    rows.draw_dots(drawn.estimate, "estimate")
    ax.set_ylim(len(shown) - 0.5, -1.0)
    ax.set_xlabel(drawn.label, wrap=True)
    style.put_legend(ax)
    return ax
