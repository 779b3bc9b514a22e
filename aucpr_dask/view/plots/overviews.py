"""Plots of models by data sets, of the coverage of intervals in a study, and of what more or fewer data would show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
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
from aucpr_dask.view.tables import distinct

TWO_SIDED = 1.96  # Monte Carlo standard errors, drawn on either side
TOP = 25
MOST_COLUMNS = 60
LEAST_CELL = 0.21  # inches, for a number of two digits
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
