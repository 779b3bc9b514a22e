"""Heat maps and maps of estimates, the coverage of intervals in a study, and what more or fewer data would show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.inference import comparing, powering, sentences
from aucpr_dask.inference.designs import direction, measured, unit_names
from aucpr_dask.schema import checks, terms
from aucpr_dask.schema.options import ComparisonOptions
from aucpr_dask.view import selecting
from aucpr_dask.view.plots import style
from aucpr_dask.view.tables import distinct, shorten

TWO_SIDED = 1.96  # Monte Carlo standard errors, drawn on either side
TOP = 25
MOST_COLUMNS = 60
LEAST_CELL = 0.21  # inches, for a number of two digits
IN_A_ROW = 2  # maps
BESIDE, ABOVE, BELOW, LEGEND = 0.35, 0.25, 1.0, 0.25  # inches for labels around each panel, and below all
LEAST_MARK, LARGEST_MARK = 1.0, 3.6
TIMES_LEAST, TIMES_MOST = 0.25, 16.0  # as many units or positives as there are


@style.plot
def heatmap(
    result: terms.Scores,
    *,
    estimator: str | None = None,
    dataset: str | None = None,
    top: int = TOP,
    ax: Axes | None = None,
) -> Axes:
    """Draw estimates as a heat map of models by data sets, or by queries of one data set.

    The models that are best on average come first, and the easiest data sets are on the left. Of more than 60, those
    are drawn where models differ most. A cell without an estimate is grey.

    Parameters
    ----------
    result : xarray.Dataset or xarray.DataTree
        What :func:`aucpr_dask.evaluate` returns. In a tree, queries and classes are averaged, and models matched by
        label.
    dataset : str, optional
        A data set of the tree, to draw its queries or classes.
    """
    nodes = selecting.nodes_of_kind(result, selecting.RESULT, "heatmap")
    if dataset is not None:
        nodes = dict([selecting.one_node(result, selecting.RESULT, "heatmap", dataset)])
    columns, across = {}, str(next(iter(nodes.values())).attrs.get("by", "data set"))
    if len(nodes) == 1:
        ((path, node),) = nodes.items()
        name, node = selecting.at_estimator(node, estimator)
        across = terms.CLASS if terms.CLASS in node.dims else terms.QUERY
        if across not in node.dims:
            what = "heatmap needs several data sets or queries, or classes"
            received = "one data set without queries or classes"
            raise InvalidInputError(what, received=received, remedy="forest() shows its models")
        estimates = node["estimate"].transpose(terms.MODEL, across).to_numpy()
        table = pd.DataFrame(estimates, selecting.names_of(node), selecting.names_of(node, across))
        title, across = path, unit_names(across, node.attrs)[0]
    else:
        for path, node in nodes.items():
            name, node = selecting.at_estimator(node, estimator)
            mean = node["estimate"].mean([dim for dim in (terms.QUERY, terms.CLASS) if dim in node["estimate"].dims])
            columns[path] = pd.Series(mean.to_numpy(), selecting.names_of(node))
        table, title = pd.concat(columns, axis=1), ""
    (n_models, n_columns), way = table.shape, direction(node.attrs, name)
    top = selecting.checked_top(top, 1)
    # Plain means would favour a model that was only evaluated on easy data sets; deviations do not.
    deviation = (table - table.mean()).mean(axis=1)
    order = selecting.best_first(way * deviation.to_xarray())
    telling = selecting.best_first(table.std(ddof=0).to_xarray())[:MOST_COLUMNS]
    easiest = [at for at in selecting.best_first(way * table.mean().to_xarray()) if at in telling]
    shown = order[: style.rows_of(ax, n_models, top)]
    values = table.iloc[shown, easiest].to_numpy(dtype=np.float64)
    ax = style.axes_of(ax, 1.3 + style.ROW * max(len(shown), 3))
    colours = mpl.colormaps[style.HEAT].with_extremes(bad=style.PALE)
    image = ax.imshow(np.ma.masked_invalid(values), cmap=colours, aspect="auto", interpolation="nearest")
    finite = values[np.isfinite(values)]
    scale = finite if finite.size and np.ptp(finite) else np.array([0.0, 1.0])
    image.set_clim(scale.min(), scale.max())
    if not np.isfinite(values).any():
        style.say(ax, "Nothing to draw: no estimate is defined.")
    style.label_rows(ax, [str(name) for name in table.index[shown]], 22)
    width = style.figure_of(ax).get_figwidth() * ax.get_position().width * 0.7  # model names take the rest
    names = [str(name) for name in table.columns[easiest]]
    if width * style.POINTS / len(names) >= style.SMALL * 1.05:
        style.label_columns(ax, distinct(names, 14))
    else:  # their number, if they do not fit
        ax.set_xticks([])
        ax.xaxis.set_label_position("top")
        which = "" if len(easiest) == n_columns else " where models differ most"
        ax.set_xlabel(f"{len(names):,} {terms.plural(across)}{which}, the easiest first")
    for (row, column), value in np.ndenumerate(values) if width / len(names) >= LEAST_CELL else ():
        if np.isfinite(value):
            red, green, blue, _ = image.cmap(image.norm(value))
            colour = "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.5 else "black"
            look: Any = {"ha": "center", "va": "center", "fontsize": style.FONT - 2, "color": colour}
            ax.text(column, row, f"{value:.2f}".removeprefix("0"), **look)
    ax.spines[:].set_visible(False)
    label = measured(node.attrs, name)
    style.put_colours(ax, image, label, orientation="horizontal", location="bottom", aspect=40, pad=0.02)
    best = f"{len(shown):,} best of {n_models:,} models" if len(shown) < n_models else ""
    some = f"{len(easiest):,} of {n_columns:,} {terms.plural(across)}" if len(easiest) < n_columns else ""
    style.put_title(ax, title, best, some)
    return ax


@style.plot
def coverage(
    study: xr.Dataset | pd.DataFrame,
    *,
    scenario: str | None = None,
    estimator: str = "average_precision",
    methods: str | Sequence[str] | None = None,
    prevalence: float | None = None,
    level: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw how often intervals contained the true area, against the number of positives.

    Parameters
    ----------
    study : xarray.Dataset or pandas.DataFrame
        What :func:`aucpr_dask.simulate.scenarios.study` returns, or its table of intervals, with columns ``scenario``,
        ``n_items``, ``prevalence``, ``estimator``, ``method``, ``coverage`` and ``coverage_error``.
    scenario, prevalence : optional
        By default the first ones.
    estimator : str
    methods : str or sequence of str, optional
        Intervals to draw; by default the first six.
    level : float, optional
        Nominal coverage; by default that of the study, or 0.95.
    """
    nominal = 0.95
    if isinstance(study, pd.DataFrame):
        needed = {"scenario", "n_items", "prevalence", terms.ESTIMATOR, terms.METHOD, "coverage", "coverage_error"}
        if absent := ", ".join(sorted(needed - set(study.columns))):
            raise InvalidInputError("coverage plots a study", received=f"a table without {absent}")
        table = study
    else:
        _, node = selecting.one_node(study, selecting.STUDY, "coverage", None)
        table = node[["coverage", "coverage_error"]].to_dataframe().reset_index()
        table, nominal = table.astype({"scenario": str}), float(node.attrs.get("level", 0.95))
    level = nominal if level is None else level
    scenario = str(table["scenario"].iloc[0]) if scenario is None else scenario
    for column, name in {"scenario": scenario, "estimator": estimator}.items():
        checks.choose(tuple(table[column].unique()), name, column)
        table = table[table[column] == name]
    table = table.dropna(subset="coverage")
    shares = table["prevalence"].unique().tolist()
    if prevalence is not None and prevalence not in shares:
        raise InvalidInputError("unknown prevalence", received=repr(prevalence), allowed=", ".join(map(repr, shares)))
    prevalence = shares[0] if prevalence is None else prevalence
    table = table[table["prevalence"] == prevalence]
    known = tuple(table[terms.METHOD].unique())
    chosen = (methods,) if isinstance(methods, str) else tuple(methods or known[: len(style.COLOURS)])
    for method in chosen:
        checks.choose(known, method, "method")
    ax = style.axes_of(ax)
    positives = np.unique(np.round(table["n_items"] * table["prevalence"]).astype(int))
    ax.axhline(level, color="black", linewidth=0.8)
    ax.axhspan(level - 0.01, level + 0.01, color=style.PALE, linewidth=0, label=f"within 1 % of {terms.percent(level)}")
    for line, method in enumerate(chosen):
        rows = table[table[terms.METHOD] == method].sort_values("n_items")
        x, y, error = rows["n_items"] * rows["prevalence"], rows["coverage"], TWO_SIDED * rows["coverage_error"]
        look = style.look_of(line) | {"marker": style.MARKERS[line % len(style.MARKERS)]}
        ax.errorbar(x, y, error, markersize=3.2, elinewidth=0.8, label=terms.in_words(method), **look)
    style.count_horizontally(ax, FixedLocator(positives.tolist()))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel("positives")
    ax.set_ylabel("intervals that contain the true area")
    style.put_legend(ax)
    style.put_title(ax, f"{terms.in_words(scenario)}, {terms.in_words(estimator)}")
    return ax


@style.plot
def power(
    result: terms.Scores,
    *,
    difference: float | Sequence[float] | None = None,
    baseline: comparing.Baseline | None = None,
    estimator: str | None = None,
    dataset: str | None = None,
    level: float = 0.95,
    power: float = powering.POWER,
    ax: Axes | None = None,
) -> Axes:
    """Draw the power to show a difference against the number of queries or, without queries, of positives.

    It is that of two models whose difference is as uncertain as that of the median pair. A line marks the present
    number.

    Parameters
    ----------
    result : xarray.Dataset or xarray.DataTree
        What :func:`aucpr_dask.evaluate` returns; without queries it needs its replicates.
    difference : float or sequence of float, optional
        True differences; by default the smallest that can be shown now, its half and its quarter.
    baseline : label or sequence of labels, optional
        Models with which all others are compared; by default all pairs are.
    power : float
        The power, see :func:`aucpr_dask.power`.
    """
    path, node = selecting.one_node(result, selecting.RESULT, "power", dataset)
    name, _ = selecting.at_estimator(node, estimator)
    question = ComparisonOptions(estimator=estimator, baseline=baseline, level=level).checked()  # type: ignore[arg-type]
    wanted = checks.fraction(power, "power")
    reach, _ = powering.pair_reaches(node, question)
    order = np.argsort(reach.detectable(wanted), kind="stable")
    middle = reach.of(int(order[order.size // 2]))
    if difference is None:
        enough = middle.resized(np.maximum(middle.n, middle.least))  # with fewer, nothing could be shown
        now = float(f"{enough.detectable(wanted).item():.2g}")
        difference = [now, now / 2, now / 4]
    ax = style.axes_of(ax)
    n = np.unique(np.round(middle.n * np.geomspace(TIMES_LEAST, TIMES_MOST, 200)))
    for line, one in enumerate(np.atleast_1d(np.asarray(difference))):
        shown = middle.resized(n[n >= 2]).power(checks.margin(one.item(), "difference"))
        ax.plot(n[n >= 2], shown, label=f"difference {one:.2g}", **style.look_of(line))
    ax.axhline(wanted, color=style.PALE, linewidth=0.8, label=terms.percent(wanted))
    now_has: Any = {"linestyle": ":", "linewidth": 0.8, "label": f"now: {sentences.sample_in_words(middle, middle.n)}"}
    ax.axvline(middle.n, color=style.GREY, **now_has)
    style.count_horizontally(ax, LogLocator(subs=(1, 2, 5)))
    ax.set_ylim(0, 1.02)
    ax.set_xlabel(middle.noun[1])
    ax.set_ylabel("power")
    style.put_legend(ax)
    style.put_title(ax, selecting.title_of(result, path), terms.in_words(name))
    return ax


@style.plot
def maps(
    result: terms.Scores,
    x: str | None = None,
    y: str | None = None,
    *,
    estimator: str | None = None,
    dataset: str | None = None,
    baseline: str | int | None = None,
    models: selecting.Models | None = None,
    top: int = selecting.TOP_OF_MAPS,
    ax: Axes | None = None,
) -> Axes:
    """Draw a field over two numeric dimensions, such as ``lat`` and ``lon``, with a panel for each model.

    Of a result, the field is that of estimates, and the best models come first. Of a comparison, it is that of the
    differences from a baseline; a triangle marks a cell in which the two models differ after adjustment for all
    comparisons, and points up where the model is better. All panels share their colours, and a cell without a value is
    grey. The axes of the first panel are returned; those of all are in ``ax.figure.axes``.

    Parameters
    ----------
    result : xarray.Dataset or xarray.DataTree
        What :func:`aucpr_dask.evaluate`, :func:`aucpr_dask.aggregate` or :func:`aucpr_dask.compare` returns of models
        over two more dimensions.
    x, y : str, optional
        Coordinates to draw across and upwards, of one or two dimensions; by default the second of the two dimensions
        and the first, or the longitude and the latitude.
    baseline : label, optional
        Of a comparison, the model to compare with; optional if there is only one baseline.
    ax : matplotlib.axes.Axes, optional
        Where to draw a single model; by default a new figure, as wide as a journal's column.
    """
    is_comparison = any("difference" in node for _, node in terms.nodes_of(result))
    kind = selecting.COMPARISON if is_comparison else selecting.RESULT
    path, node = selecting.one_node(result, kind, "maps", dataset, whole=True)
    field = selecting.field_of(node, x, y, estimator=estimator, baseline=baseline, models=models, top=top)
    across, up, shown, names = field.across, field.up, field.shown, field.names
    panels = _panels(ax, field)
    low, high = field.scale
    colours = mpl.colormaps[style.DIVERGING if is_comparison else style.HEAT].with_extremes(bad=style.PALE)
    short = distinct([names[place] for place in shown], style.LONGEST_NAME)
    columns = min(len(panels), IN_A_ROW)
    for number, panel in enumerate(panels):
        cells = field.values.isel({terms.MODEL: number})
        look: Any = {"cmap": colours, "vmin": low, "vmax": high, "add_colorbar": False}
        image = cells.plot.pcolormesh(x=across, y=up, ax=panel, **look)
        if field.differs is not None:
            _mark(panel, cells, across, up, field.differs.isel({terms.MODEL: number}))
        is_left, is_lowest = number % columns == 0, number + columns >= len(panels)
        panel.tick_params(labelleft=is_left, labelbottom=is_lowest)
        panel.set(title="", xlabel=across if is_lowest else "", ylabel=up if is_left else "")
        style.plain([panel.xaxis.label, panel.yaxis.label])
        style.put_title(
            panel, path if len(panels) == 1 else "", short[number] if is_comparison or len(names) > 1 else ""
        )
    words = {"wrap": True, "fontsize": style.SMALL}
    label = f"{field.measure} (better →)" if is_comparison else field.measure
    style.put_colours(panels, image, label, look=words, orientation="horizontal", location="bottom", aspect=40)
    style.put_legend(panels[0])
    best_of = f"{len(shown)} {'best' if models is None else 'chosen'} of {len(names):,} models"
    of = " · ".join(filter(None, [path, best_of if len(shown) < len(names) else ""]))
    if of and len(panels) > 1:
        figure = style.figure_of(panels[0])
        style.plain([figure.suptitle(shorten(of, 56), x=0.01, ha="left", fontsize=style.FONT)])
    return panels[0]


def _panels(ax: Axes | None, field: selecting.Field) -> list[Axes]:
    """Return axes for each model: those given, for one, or those of a new figure, with room below them."""
    number = len(field.shown)
    if ax is not None:
        if number > 1:
            remedy = "name one: models=..., or leave out ax"
            raise InvalidInputError("these axes have room for one model", None, f"{number} models", None, remedy)
        return [ax]
    columns, ratio = min(number, IN_A_ROW), field.ratio
    rows = -(-number // columns)
    height = BELOW + LEGEND * field.is_difference + rows * (ABOVE + ratio * (style.COLUMN / columns - BESIDE))
    height += BESIDE * (number % columns > 0)  # labels of the upper row, where the last one is shorter
    options: dict[str, Any] = {"figsize": (style.COLUMN, height), "layout": "constrained", "squeeze": False}
    figure, axes = plt.subplots(rows, columns, **options)
    figure.set_gid(style.OURS)
    for panel in axes.flat[:number]:
        panel.set_box_aspect(ratio)
    for empty in axes.flat[number:]:
        empty.remove()
    return list(axes.flat[:number])


def _mark(panel: Axes, cells: xr.DataArray, across: str, up: str, differs: xr.DataArray) -> None:
    """Draw a triangle in each cell in which a model differs, which points up where it is better."""
    x, y, value, is_shown = (one.values for one in xr.broadcast(cells[across], cells[up], cells, differs))
    width = style.POINTS * style.figure_of(panel).get_figwidth() * panel.get_position().width
    size = min(max(width / max(cells.shape) / 3, LEAST_MARK), LARGEST_MARK)
    look: Any = {"color": style.BLACK, "markerfacecolor": "white", "markersize": size, "markeredgewidth": size / 5}
    for marker, word, where in (("^", "better", value > 0), ("v", "worse", value < 0)):
        panel.plot(x[is_shown & where], y[is_shown & where], marker, label=f"differs, {word}", **look)
