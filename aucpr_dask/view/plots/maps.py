"""Maps: estimates, or differences from a baseline, over two numeric dimensions, with a panel for each model."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import xarray as xr
from matplotlib.axes import Axes

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.schema import terms
from aucpr_dask.view import selecting
from aucpr_dask.view.fields import TOP, Field, field_of
from aucpr_dask.view.plots import style
from aucpr_dask.view.tables import distinct, shorten

IN_A_ROW = 2
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
    models: selecting.Models | None = None,
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
    kind = selecting.COMPARISON if is_comparison else selecting.RESULT
    path, node = selecting.one_node(result, kind, "maps", dataset, whole=True)
    field = field_of(node, x, y, estimator=estimator, baseline=baseline, models=models, top=top)
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


def _panels(ax: Axes | None, field: Field) -> list[Axes]:
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
