"""Results for experiment trackers such as MLflow: flat names of metrics, and parameters."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from aucpr_dask.interplay.columns import KEYS, tidy_table
from aucpr_dask.interplay.naming import LONGEST_METRIC, distinct, metric_name
from aucpr_dask.schema.trees import Scores, nodes_of
from aucpr_dask.schema.variables import QUERY

LONGEST_PART = 60  # of a metric's name, so that the quantity is never cut off
LONGEST_PARAMETER = 500  # characters that every version of MLflow takes
_NOT_METRICS = frozenset({*KEYS, "level", "flags"})


def to_metrics(result: Scores, *, per_query: bool = False) -> dict[str, float]:
    """Return the numbers of a result by flat names, as ``mlflow.log_metrics`` takes them.

    A name consists of data set, model, query (if present) and estimator, with slashes between, then a period and the
    quantity, unless that is the estimate: ``"clef/bm25/average_precision.t_lower"``. Characters that MLflow does not
    allow become ``_``; names that would become the same get a digest. Undefined numbers are left out.

    Parameters
    ----------
    result : xarray.Dataset or xarray.DataTree
        What :func:`aucpr_dask.evaluate`, :func:`aucpr_dask.aggregate` or :func:`aucpr_dask.open_result` returns.
    per_query : bool
        Whether to return the numbers of every query; by default their means, by :func:`aucpr_dask.aggregate`.

    Returns
    -------
    dict of float

    Examples
    --------
    >>> import aucpr_dask, xarray as xr
    >>> scores = xr.Dataset(
    ...     {"score": (("model", "item"), [[4.0, 3, 2, 1]]), "label": ("item", [1, 0, 1, 0])}, coords={"model": ["a"]}
    ... )
    >>> metrics = to_metrics(aucpr_dask.evaluate(scores))
    >>> metrics["a/average_precision"]
    0.8333333333333333
    """
    table = tidy_table(result if per_query else _means(result))
    parts = [table[key].map(_parts(table[key].dropna())).fillna("") for key in KEYS if key in table]
    names = ["/".join(filter(None, row)) for row in zip(*parts, strict=True)]
    metrics: dict[str, float] = {}
    for quantity in (str(name) for name in table if name not in _NOT_METRICS):
        suffix = "" if quantity == "estimate" else f".{quantity}"
        numbers = zip(names, table[quantity].tolist(), strict=True)
        metrics |= {name + suffix: float(number) for name, number in numbers if math.isfinite(number)}
    return {short: metrics[name] for name, short in distinct(metrics, str, LONGEST_METRIC).items()}


def _parts(names: Iterable[str]) -> dict[str, str]:
    """Return each name as part of the name of a metric."""
    return {"": ""} | distinct(filter(None, dict.fromkeys(names)), metric_name, LONGEST_PART)


def _means(result: Scores) -> Scores:
    """Return the means over queries; a result without queries is unchanged."""
    from aucpr_dask.inference.aggregating import aggregate

    if not any(QUERY in node.dims for _, node in nodes_of(result)):
        return result
    level = next((float(node["level"]) for _, node in nodes_of(result) if "level" in node.coords), 0.95)
    return aggregate(result, level=level)


def to_params(result: Scores) -> dict[str, str]:
    """Return the attributes that all data sets of a result share, as ``mlflow.log_params`` takes them.

    Returns
    -------
    dict of str
        Long values are cut to 500 characters.

    Examples
    --------
    >>> import xarray as xr
    >>> to_params(xr.Dataset(attrs={"missing": "raise", "level": 0.95, "estimators": ["average_precision"]}))
    {'missing': 'raise', 'level': '0.95', 'estimators': 'average_precision'}
    """
    first, *others = [node.attrs for _, node in nodes_of(result)] or [{}]
    shared = {name: value for name, value in first.items() if all(_same(value, other.get(name)) for other in others)}
    attributes = {str(name): _text(value) for name, value in (dict(result.attrs) | shared).items()}
    names = distinct(attributes, metric_name, LONGEST_METRIC)
    return {names[name]: text[:LONGEST_PARAMETER] for name, text in attributes.items()}


def _same(one: Any, other: Any) -> bool:
    return _text(one) == _text(other)


def _text(value: Any) -> str:
    if isinstance(value, list | tuple | np.ndarray):
        return ", ".join(map(str, value))
    return json.dumps(value, default=str) if isinstance(value, dict) else str(value)
