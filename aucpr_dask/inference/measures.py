"""What the numbers of a result are called: areas by an estimator, or values of any measure, and their units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from aucpr_dask.schema.terms import BOUND, ESTIMATOR, MEASURE, METHOD, QUERY, UNIT, in_words, plural


def unit_names(dim: str, attrs: Mapping[Any, Any]) -> tuple[str, str]:
    """Return what one unit of a result with these attributes is called, and what several are."""
    unit = str(attrs.get(UNIT, dim)) if dim == QUERY else dim.replace("dataset", "data set")
    return unit, plural(unit)


def are_values(node: xr.Dataset) -> bool:
    """Return whether a result holds values of any measure, and not areas of rankings."""
    return UNIT in node.attrs


def estimators_of(node: xr.Dataset) -> list[str]:
    """Return the names of the estimators, or measures, of a result; none if it doesn't say."""
    for name in (ESTIMATOR, MEASURE):
        if name in node.coords:
            return [str(one) for one in np.atleast_1d(node[name].values)]
    return [str(node.attrs[name]) for name in (MEASURE, "estimator") if name in node.attrs][:1]


def estimator_dim(variable: xr.DataArray) -> str | None:
    """Return the dimension of estimators, or of measures, if there is one."""
    return next((name for name in (ESTIMATOR, MEASURE) if name in variable.dims), None)


def measured(attrs: Mapping[Any, Any], name: object = None) -> str:
    """Return what a result with these attributes estimates, or `name`, in words; measures are called as users do.

    Examples
    --------
    >>> measured({"estimator": "average_precision"}), measured({"unit": "topic", "measure": "ndcg_cut_10"})
    ('average precision', 'ndcg_cut_10')
    """
    name = _recorded(attrs) if name is None else name
    return str(name) if UNIT in attrs else in_words(str(name))


def _recorded(attrs: Mapping[Any, Any]) -> object:
    return attrs.get(MEASURE, attrs.get("estimator", "estimate"))


def noun(attrs: Mapping[Any, Any]) -> str:
    """Return what one number of a result with these attributes is called."""
    return "value" if UNIT in attrs else "area"


def values_as_areas(node: xr.Dataset) -> xr.Dataset:
    """Return values of measures with an axis of estimators, as areas have; any other node as it is."""
    return with_estimators(node) if are_values(node) else node


def with_estimators(node: xr.Dataset) -> xr.Dataset:
    """Return a result with axes of estimators (or in their place measures) and intervals, also if one was selected."""
    if METHOD in node.coords and METHOD not in node.dims and "interval" in node:
        method = str(node[METHOD].item())
        node = node.drop_vars(METHOD)
        node = node.assign(interval=node["interval"].expand_dims({METHOD: [method]}).transpose(..., METHOD, BOUND))
    if MEASURE in node.coords:
        node = node.rename({MEASURE: ESTIMATOR})
    if ESTIMATOR in node["estimate"].dims:
        return node
    scalar = node.coords.get(ESTIMATOR)
    name = str(_recorded(node.attrs) if scalar is None else scalar.item())
    held = [name for name in ("estimate", "standard_error", "interval", "replicate") if name in node]
    node = node.drop_vars(ESTIMATOR, errors="ignore")
    last = tuple(dim for dim in (METHOD, BOUND) if "interval" in node and dim in node["interval"].dims)
    expanded = {variable: node[variable].expand_dims({ESTIMATOR: [name]}, -1) for variable in held}
    if "interval" in expanded:
        expanded["interval"] = expanded["interval"].transpose(..., ESTIMATOR, *last)
    return node.assign(expanded)
