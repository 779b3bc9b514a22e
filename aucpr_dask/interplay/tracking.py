"""What version 0.1 offered for MLflow, deprecated: `to_dataframe` and the attributes are all that a tracker needs.

To be removed in version 0.3.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from typing import Any

import numpy as np

from aucpr_dask.interplay.frames import KEYS, tidy_table
from aucpr_dask.interplay.trec_files import distinct
from aucpr_dask.schema.terms import QUERY, Scores, nodes_of

LONGEST_METRIC = 250  # MLflow
LONGEST_PART = 60  # of a metric's name, so that the quantity is never cut off
LONGEST_PARAMETER = 500  # characters that every version of MLflow takes
DEPRECATED = (
    "is deprecated and will be removed in version 0.3; log columns of to_dataframe() (docs/interplay.md, MLflow)"
)


def to_metrics(result: Scores, *, per_query: bool = False) -> dict[str, float]:
    """Return the numbers of a result by flat names; with `per_query`, of every query in place of their means.

    .. deprecated:: 0.2
        Log columns of :func:`to_dataframe`.
    """
    warnings.warn(f"to_metrics {DEPRECATED}", DeprecationWarning, stacklevel=2)
    table = tidy_table(result if per_query else _means(result))
    parts = [
        table[key].map({"": ""} | distinct(filter(None, table[key].dropna().unique()), metric_name, LONGEST_PART))
        for key in KEYS
        if key in table
    ]
    names = ["/".join(filter(None, row)) for row in zip(*(part.fillna("") for part in parts), strict=True)]
    metrics: dict[str, float] = {}
    for quantity in (str(name) for name in table if name not in {*KEYS, "level", "flags"}):
        suffix = "" if quantity == "estimate" else f".{quantity}"
        numbers = zip(names, table[quantity].tolist(), strict=True)
        metrics |= {name + suffix: float(number) for name, number in numbers if math.isfinite(number)}
    return {short: metrics[name] for name, short in distinct(metrics, str, LONGEST_METRIC).items()}


def _means(result: Scores) -> Scores:
    """Return the means over queries; a result without queries is unchanged."""
    from aucpr_dask.inference.aggregating import aggregate

    if not any(QUERY in node.dims for _, node in nodes_of(result)):
        return result
    level = next((float(node["level"]) for _, node in nodes_of(result) if "level" in node.coords), 0.95)
    return aggregate(result, level=level)


def to_params(result: Scores) -> dict[str, str]:
    """Return the attributes that all data sets of a result share, as text.

    .. deprecated:: 0.2
        Log the attributes, ``result.attrs``.
    """
    warnings.warn(f"to_params {DEPRECATED}", DeprecationWarning, stacklevel=2)
    first, *others = [node.attrs for _, node in nodes_of(result)] or [{}]
    shared = {name: one for name, one in first.items() if all(_text(one) == _text(x.get(name)) for x in others)}
    attributes = {str(name): _text(value) for name, value in (dict(result.attrs) | shared).items()}
    names = distinct(attributes, metric_name, LONGEST_METRIC)
    return {names[name]: text[:LONGEST_PARAMETER] for name, text in attributes.items()}


def _text(value: Any) -> str:
    if isinstance(value, list | tuple | np.ndarray):
        return ", ".join(map(str, value))
    return json.dumps(value, default=str) if isinstance(value, dict) else str(value)


def metric_name(name: str) -> str:
    """Return a name for one part of an MLflow metric: letters, digits, ``_``, ``-``, ``.`` and blanks."""
    name = re.sub(r"[^\w.\- ]", "_", name)
    return re.sub(r"^\.+$", "_", name) or "_"
