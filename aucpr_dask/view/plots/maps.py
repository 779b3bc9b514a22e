"""Maps: estimates, or differences from a baseline, over two numeric dimensions, with a panel for each model."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from aucpr_dask.errors import InvalidInputError, did_you_mean, few
from aucpr_dask.inference.designs import direction, measured
from aucpr_dask.schema import terms
from aucpr_dask.view.plots import style, subjects
from aucpr_dask.view.plots.leaderboards import Models, against
from aucpr_dask.view.rankings import level_of
from aucpr_dask.view.tables import distinct, shorten

TOP = 6
IN_A_ROW = 2
UPWARDS, ACROSS = ("lat", "latitude"), ("lon", "longitude")  # drawn at one scale
LOWEST, USUAL, HIGHEST = 0.4, 0.8, 1.4  # height of a panel over its width
BESIDE, ABOVE, BELOW, LEGEND = 0.35, 0.25, 1.0, 0.25  # inches, of the labels of panels, and of what is below all
LEAST_MARK, LARGEST_MARK = 1.0, 3.6


@style.plot
def maps(
    result: terms.Scores,
    x: str | None = None,
    y: str | None = None,
    *,
    estimator: str | None = None,
    dataset: str | None = None,
    baseline: str | int | None = None,
    models: Models | None = None,
    top: int = TOP,
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
    kind = subjects.COMPARISON if is_comparison else subjects.RESULT
    path, node = subjects.one_node(result, kind, "maps", dataset, whole=True)
    name, node = subjects.at_estimator(node, estimator)
    if is_comparison:
        other, node = against(node, baseline)
        node = node.isel({terms.MODEL: [model != other for model in subjects.names_of(node)]})
        label = f"difference in {measured(node.attrs)} from {shorten(other, style.LONGEST_WORD)} (better →)"
    else:
        label = measured(node.attrs, name)
    node = (node if terms.MODEL in node.dims else node.expand_dims(terms.MODEL)).compute()
    field = node["difference" if is_comparison else "estimate"]
    across, up = _coordinates(field, x, y)
    field = field.sortby([one for one in (across, up) if one in field.dims])
    way = 1.0 if is_comparison else direction(node.attrs, name)
    best = subjects.best_first(way * field.mean([dim for dim in field.dims if dim != terms.MODEL]))
    names = subjects.names_of(node)
    shown = best[: subjects.checked_top(top, 1)] if models is None else subjects.positions_of(node, models)
    panels = _panels(ax, field, across, up, len(shown), BELOW + LEGEND * is_comparison)
    values = field.isel({terms.MODEL: shown})
    low, high = (float(values.min()), float(values.max())) if values.notnull().any() else (0.0, 1.0)
    if is_comparison:
        high = max(-low, high) or 1.0
        low = -high
    colours = mpl.colormaps[style.DIVERGING if is_comparison else style.HEAT].with_extremes(bad=style.PALE)
    short = distinct([names[place] for place in shown], style.LONGEST_NAME)
    columns = min(len(panels), IN_A_ROW)
    for number, (panel, place) in enumerate(zip(panels, shown, strict=True)):
        cells = field.isel({terms.MODEL: place})
        look: Any = {"cmap": colours, "vmin": low, "vmax": high, "add_colorbar": False}
        image = cells.plot.pcolormesh(x=across, y=up, ax=panel, **look)
        if "p_adjusted" in node:
            _mark(panel, cells, across, up, node["p_adjusted"].isel({terms.MODEL: place}) <= 1 - level_of(node))
        is_left, is_lowest = number % columns == 0, number + columns >= len(panels)
        panel.tick_params(labelleft=is_left, labelbottom=is_lowest)
        panel.set(title="", xlabel=across if is_lowest else "", ylabel=up if is_left else "")
        style.plain([panel.xaxis.label, panel.yaxis.label])
        style.put_title(
            panel, path if len(panels) == 1 else "", short[number] if is_comparison or len(names) > 1 else ""
        )
    words = {"wrap": True, "fontsize": style.SMALL}
    style.put_colours(panels, image, label, look=words, orientation="horizontal", location="bottom", aspect=40)
    style.put_legend(panels[0])
    best_of = f"{len(shown)} {'best' if models is None else 'chosen'} of {len(names):,} models"
    of = " · ".join(filter(None, [path, best_of if len(shown) < len(names) else ""]))
    if of and len(panels) > 1:
        figure = style.figure_of(panels[0])
        style.plain([figure.suptitle(shorten(of, 56), x=0.01, ha="left", fontsize=style.FONT)])
    return panels[0]


def _coordinates(field: xr.DataArray, x: str | None, y: str | None) -> tuple[str, str]:
    """Return the coordinates across and upwards; raise unless they are numbers over the only dimensions left."""
    dims = [str(dim) for dim in field.dims if dim != terms.MODEL]
    what, received = "maps plots a field over two numeric dimensions", few(dims) or "no dimension besides models"
    allowed = "two dimensions of the scores that are kept, such as lat and lon"
    if averaged := [dim for dim in dims if dim in (terms.QUERY, terms.CLASS)]:
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


def _panels(ax: Axes | None, field: xr.DataArray, across: str, up: str, number: int, below: float) -> list[Axes]:
    """Return axes for each model: those given, for one, or those of a new figure, with room below them."""
    if ax is not None:
        if number > 1:
            remedy = "name one: models=..., or leave out ax"
            raise InvalidInputError("these axes have room for one model", None, f"{number} models", None, remedy)
        return [ax]
    is_map = across.lower() in ACROSS and up.lower() in UPWARDS
    spans = [float(np.ptp(field[name].values)) for name in (up, across)] if is_map else [USUAL, 1.0]
    ratio = min(max(spans[0] / spans[1], LOWEST), HIGHEST) if all(spans) else USUAL
    columns = min(number, IN_A_ROW)
    rows = -(-number // columns)
    height = below + rows * (ABOVE + ratio * (style.COLUMN / columns - BESIDE))
    height += BESIDE * (number % columns > 0)  # labels below the last panel of the row before
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
