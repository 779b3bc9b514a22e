"""Plots of models by data sets."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.inference.measures import measured, unit_names
from aucpr_dask.schema.terms import CLASS, MODEL, QUERY, Scores, plural
from aucpr_dask.view.names import distinct
from aucpr_dask.view.plots import style, subjects

TOP = 25
MOST_COLUMNS = 60
LEAST_CELL = 0.21  # inches, for a number of two digits


@style.styled
def heatmap(
    result: Scores,
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
    estimator : str, optional
        By default the first.
    dataset : str, optional
        A data set of the tree, to draw its queries or classes.
    top : int
        How many models to draw at most; fewer if the given axes have no room.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InvalidInputError
        If this is not a result, or has neither several data sets, nor queries, nor classes.
    """
    nodes = subjects.nodes_of_kind(result, subjects.RESULT, "heatmap")
    if dataset is not None:
        nodes = dict([subjects.one_node(result, subjects.RESULT, "heatmap", dataset)])
    columns, across = {}, "data set"
    if len(nodes) == 1:
        ((path, node),) = nodes.items()
        name, node = subjects.at_estimator(node, estimator)
        across = CLASS if CLASS in node.dims else QUERY
        if across not in node.dims:
            what = "heatmap needs several data sets or queries, or classes"
            received = "one data set without queries or classes"
            raise InvalidInputError(what, received=received, remedy="forest() shows its models")
        estimates = node["estimate"].transpose(MODEL, across).to_numpy()
        table = pd.DataFrame(estimates, subjects.names_of(node), subjects.names_of(node, across))
        title, across = path, unit_names(across, node.attrs)[0]
    else:
        for path, node in nodes.items():
            name, node = subjects.at_estimator(node, estimator)
            mean = node["estimate"].mean([dim for dim in (QUERY, CLASS) if dim in node["estimate"].dims])
            columns[path] = pd.Series(mean.to_numpy(), subjects.names_of(node))
        table, title = pd.concat(columns, axis=1), ""
    return _draw(table, measured(node.attrs, name), title, across, top, ax)


def _draw(table: pd.DataFrame, label: str, title: str, across: str, top: int, ax: Axes | None) -> Axes:
    n_models, n_columns = table.shape
    top = subjects.checked_top(top, 1)
    # Plain means would favour a model that was only evaluated on easy data sets; deviations do not.
    deviation = (table - table.mean()).mean(axis=1)
    order = subjects.best_first(deviation.to_xarray())
    telling = subjects.best_first(table.std(ddof=0).to_xarray())[:MOST_COLUMNS]
    easiest = [at for at in subjects.best_first(table.mean().to_xarray()) if at in telling]
    shown = order[: style.rows_of(ax, n_models, top)]
    values = table.iloc[shown, easiest].to_numpy(dtype=np.float64)
    ax = style.axes_of(ax, style.height_of(len(shown)) + 0.55)
    colours = mpl.colormaps[style.HEAT].with_extremes(bad=style.PALE)
    image = ax.imshow(np.ma.masked_invalid(values), cmap=colours, aspect="auto", interpolation="nearest")
    image.set_clim(*_limits(values))
    if not np.isfinite(values).any():
        style.say(ax, "Nothing to draw: no estimate is defined.")
    style.label_rows(ax, [str(name) for name in table.index[shown]], 22)
    _label_columns(ax, [str(name) for name in table.columns[easiest]], across, is_all=len(easiest) == n_columns)
    _write_values(ax, values, image)
    for side in ax.spines.values():
        side.set_visible(False)
    figure = ax.get_figure(root=True)
    if figure is not None:
        bar = figure.colorbar(image, ax=ax, orientation="horizontal", location="bottom", aspect=40, pad=0.02)
        bar.outline.set_visible(False)
        bar.set_label(label)
    style.put_title(
        ax,
        title,
        "" if len(shown) == n_models else f"{len(shown):,} best of {n_models:,} models",
        "" if values.shape[1] == n_columns else f"{values.shape[1]:,} of {n_columns:,} {plural(across)}",
    )
    return ax


def _limits(values: np.ndarray[Any, Any]) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    if finite.size == 0 or np.ptp(finite) == 0:
        return 0.0, 1.0
    return float(finite.min()), float(finite.max())


def _width_of(ax: Axes) -> float:
    figure = ax.get_figure(root=True)
    whole = figure.get_figwidth() if figure is not None else style.COLUMN
    return whole * ax.get_position().width * 0.7  # model names take the rest


def _label_columns(ax: Axes, names: list[str], across: str, *, is_all: bool) -> None:
    """Write the names vertically above the columns, or their number if they do not fit."""
    if _width_of(ax) * style.POINTS / len(names) >= style.SMALL * 1.05:
        ax.set_xticks(range(len(names)), distinct(names, 14), rotation=90)
        ax.tick_params(axis="x", length=0, labeltop=True, labelbottom=False, top=False, bottom=False)
        style.plain(ax.get_xticklabels())
    else:
        ax.set_xticks([])
        ax.xaxis.set_label_position("top")
        which = "" if is_all else " where models differ most"
        ax.set_xlabel(f"{len(names):,} {plural(across)}{which}, the easiest first")


def _write_values(ax: Axes, values: np.ndarray[Any, Any], image: Any) -> None:
    """Write the estimates into the cells, if they are wide enough."""
    if _width_of(ax) / values.shape[1] < LEAST_CELL:
        return
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            red, green, blue, _ = image.cmap(image.norm(value))
            is_dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
            text = f"{value:.2f}".removeprefix("0")
            colour = "white" if is_dark else "black"
            ax.text(column, row, text, ha="center", va="center", fontsize=style.FONT - 2, color=colour)
