"""A field over two numeric dimensions, such as latitude and longitude: what maps show, in a plot and in a report."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import xarray as xr

from aucpr_dask.errors import InvalidInputError, did_you_mean, few
from aucpr_dask.inference.designs import direction, measured
from aucpr_dask.schema import terms
from aucpr_dask.view import selecting
from aucpr_dask.view.rankings import level_of
from aucpr_dask.view.tables import shorten

TOP = 6
LONGEST_WORD = 20  # of a label that wraps
UPWARDS, ACROSS = ("lat", "latitude", "y"), ("lon", "longitude", "x")
LOWEST, USUAL, HIGHEST = 0.4, 0.8, 1.4  # height of a map over its width


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
    models: selecting.Models | None = None,
    top: int = TOP,
) -> Field:
    """Return the field of a result, or of a comparison with one baseline; raise unless it has two dimensions."""
    is_difference = "difference" in node
    name, node = selecting.at_estimator(node, estimator)
    measure = measured(node.attrs, name)
    if is_difference:
        other, node = selecting.against(node, baseline)
        node = node.isel({terms.MODEL: [model != other for model in selecting.names_of(node)]})
        measure = f"difference in {measured(node.attrs)} from {shorten(other, LONGEST_WORD)}"
    node = (node if terms.MODEL in node.dims else node.expand_dims(terms.MODEL)).compute()
    values = node["difference" if is_difference else "estimate"]
    across, up = _coordinates(values, x, y)
    node = node.sortby([one for one in (across, up) if one in values.dims])
    values = node[values.name]
    way = 1.0 if is_difference else direction(node.attrs, name)
    best = selecting.best_first(way * values.mean([dim for dim in values.dims if dim != terms.MODEL]))
    names = selecting.names_of(node)
    shown = best[: selecting.checked_top(top, 1)].tolist() if models is None else selecting.positions_of(node, models)
    node = node.isel({terms.MODEL: shown})
    differs = node["p_adjusted"] <= 1 - level_of(node) if "p_adjusted" in node else None
    return Field(node[values.name], across, up, measure, is_difference, differs, names, shown)


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
