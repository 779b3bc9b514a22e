"""Maps of a report: areas, or differences from the baseline, over two numeric dimensions, a panel for each model."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from aucpr_dask.errors import InvalidInputError, printable
from aucpr_dask.inference import aggregating, designs
from aucpr_dask.schema import terms
from aucpr_dask.view.fields import Field, field_of
from aucpr_dask.view.rankings import level_of
from aucpr_dask.view.tables import number, signed

WIDTH = 300  # of a map, in pixels
SHADES = 24  # of the key to the colours
PALEST = 0.08  # opacity of the least value


def map_shown(path: str, node: xr.Dataset) -> dict[str, Any] | None:
    """Return the words, cells and key of a map, as the template draws them; None unless two dimensions are numeric."""
    if "contrasted" in node.attrs:  # between groups, not within them
        return None
    is_difference = "difference" in node
    if not is_difference and {terms.QUERY, terms.REPEAT} & {*node["estimate"].dims}:
        node = aggregating.aggregate(node, level=level_of(node))
    try:
        field = field_of(node if is_difference else designs.with_estimators(node))
    except InvalidInputError:
        return None
    across, up, (low, high) = field.across, field.up, field.scale
    values = field.values.transpose(terms.MODEL, up, across).values
    differs = np.zeros(values.shape, bool)
    if field.differs is not None:
        differs = field.differs.transpose(terms.MODEL, up, across).values
    height = round(WIDTH * field.ratio)
    x, y = WIDTH * _edges(field.values[across].values), height * (1 - _edges(field.values[up].values))
    places = {name: [_place(at) for at in field.values[name].values] for name in (across, up)}
    panels = []
    for model, place in enumerate(field.shown):
        cells = []
        for (row, column), value in np.ndenumerate(values[model]):
            box = {"x": x[column], "y": y[row + 1], "width": x[column + 1] - x[column], "height": y[row] - y[row + 1]}
            mark = ("better" if value > 0 else "worse") if differs[model, row, column] else None
            said = (signed if is_difference else number)(value) + (f", {mark}" if mark else "")
            title = f"{up} {places[up][row]}, {across} {places[across][column]}: {said}"
            cells.append(box | _colour(value, field) | {"mark": mark, "title": title})
        panels.append({"name": printable(field.names[place]), "cells": cells})
    about = f"{path}: " * bool(path) + f"{field.measure[:1].upper()}{field.measure[1:]} over {across} and {up}"
    n_shown, n_models = len(field.shown), len(field.names)
    about += f", of the {n_shown} best of {n_models:,} models" if n_shown < n_models else ""
    about += "; a dash stands for a cell without an estimate" if np.isnan(values).any() else ""
    if differs.any():
        about += "; a triangle marks a cell in which the model is shown to be better (pointing up) or worse (down)"
    ends = [f"{signed(low)}, worse", f"{signed(high)}, better"] if is_difference else [number(low), number(high)]
    return {
        "about": printable(about),
        "panels": panels,
        "across": [across, places[across][0], places[across][-1]],
        "up": [up, places[up][0], places[up][-1]],
        "size": (WIDTH, height),
        "key": (ends[0], [_colour(value, field) for value in np.linspace(low, high, SHADES)], ends[1]),
    }


def _colour(value: float, field: Field) -> dict[str, Any]:
    """Return the kind of a cell, which has a colour in the style sheet, and how much of that colour."""
    if np.isnan(value):
        return {"kind": "none", "share": 1}
    low, high = field.scale
    share = abs(value) / high if field.is_difference else (value - low) / (high - low or 1)
    kind = "worse" if field.is_difference and value < 0 else "more"
    return {"kind": kind, "share": PALEST + (1 - PALEST) * share}


def _edges(at: NDArray[Any]) -> NDArray[np.float64]:
    """Return where cells begin and end, half-way between their centres, from 0 to 1."""
    if at.size < 2:
        return np.array([0.0, 1.0])
    centres = (at.astype(np.int64) if at.dtype.kind == "M" else at).astype(np.float64)
    middle = (centres[1:] + centres[:-1]) / 2
    ends = np.concatenate([2 * centres[:1] - middle[:1], middle, 2 * centres[-1:] - middle[-1:]])
    edges: NDArray[np.float64] = (ends - ends[0]) / (ends[-1] - ends[0])
    return edges


def _place(at: Any) -> str:
    return f"{at:g}" if isinstance(at, np.number) else str(at).removesuffix("T00:00:00.000000000")
