"""Results as tables, from which data frames and files are made."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd
import xarray as xr

from aucpr_dask.errors import AlignmentError, InvalidInputError
from aucpr_dask.evaluation.results import not_a_result
from aucpr_dask.inference.measures import are_values, with_estimators
from aucpr_dask.schema.trees import Scores, nodes_of
from aucpr_dask.schema.variables import BOUND, BOUNDS, ESTIMATOR, FLAGS, MEASURE, METHOD, MODEL, RANKING_DIMS

DATASET = "dataset"
KEYS = (DATASET, *RANKING_DIMS, ESTIMATOR, MEASURE)
COUNTS = ("n_positive", "n_negative", "n_missing", "n_queries", "n_datasets", "n_classes", "n_items", "prevalence")
_NUMBERS = ("estimate", "standard_error", *COUNTS, "flags")


def tidy_table(result: Scores) -> pd.DataFrame:
    """Return one row per data set, model, query or class, and estimator; values that one lacks are None or NaN."""
    nodes = _nodes_of_result(result)
    names = {str(name) for _, node in nodes for name in node.data_vars}
    methods = dict.fromkeys(method for _, node in nodes for method in _methods(node))
    bounds = [f"{method}_{bound}" for method, bound in product(methods, BOUNDS)]
    known = [name for name in (*COUNTS, "flags") if name in names]
    columns = [*_keys(result, nodes), "estimate", "standard_error", *bounds, *(["level"] if methods else []), *known]
    return _joined([_tidy(path, node) for path, node in nodes], columns)


def wide_table(result: Scores) -> tuple[list[str], pd.DataFrame]:
    """Return the key columns, and a table: rows by data set, query or class, and estimator; a column per model."""
    nodes = _nodes_of_result(result)
    keys = [key for key in _keys(result, nodes) if key != MODEL]
    tables = [_tidy(path, node[["estimate"]]) for path, node in nodes]
    models = dict.fromkeys(name for table in tables for name in _models(table))
    if both := [name for name in models if name in keys]:
        raise AlignmentError(
            "a model has the name of a key column",
            received=", ".join(map(repr, both)),
            remedy="rename it, or use the tidy table: tidy=True",
        )
    return keys, _joined([_wide(table, keys) for table in tables], [*keys, *models])


def _joined(parts: Sequence[pd.DataFrame], columns: list[str]) -> pd.DataFrame:
    return pd.concat(parts, ignore_index=True).reindex(columns=columns)


def _nodes_of_result(result: Scores) -> list[tuple[str, xr.Dataset]]:
    nodes = list(nodes_of(result))
    if not nodes or not all("estimate" in node for _, node in nodes):
        raise not_a_result("no variable 'estimate'")
    if any({"difference", "rank"} & set(node) for _, node in nodes):
        raise InvalidInputError(
            "this is not a result",
            received="a comparison or ranks",
            remedy="xarray's own to_dataframe() makes a table of each of its variables",
        )
    for path, node in nodes:
        if odd := [str(dim) for dim in node["estimate"].dims if dim not in KEYS]:
            raise InvalidInputError(
                "only estimates by model, query or class, and estimator make such a table",
                where=f"data set {path!r}" if path else None,
                received=f"the dimension {', '.join(map(repr, odd))}",
                remedy="select from it first: result.sel(...)",
            )
    return [
        (path, with_estimators(node).rename({ESTIMATOR: MEASURE}) if are_values(node) else node) for path, node in nodes
    ]


def _keys(result: Scores, nodes: Sequence[tuple[str, xr.Dataset]]) -> list[str]:
    present = {str(name) for _, node in nodes for name in (*node.dims, *node.coords)}
    return [key for key in KEYS if key in present or (key == DATASET and isinstance(result, xr.DataTree))]


def _methods(node: xr.Dataset) -> list[str]:
    """Return the names of the intervals; an unnamed one, as of a mean, is called interval."""
    if "interval" not in node:
        return []
    return [str(name) for name in np.atleast_1d(node[METHOD].values)] if METHOD in node.coords else ["interval"]


def _tidy(path: str, node: xr.Dataset) -> pd.DataFrame:
    numbers = node[[name for name in _NUMBERS if name in node]].assign_coords(_labels(node))
    for method, bound in product(_methods(node), BOUNDS):
        at = {BOUND: bound} | ({METHOD: method} if METHOD in node["interval"].dims else {})
        numbers[f"{method}_{bound}"] = node["interval"].sel(at).reset_coords(drop=True)
    dims = [dim for dim in KEYS if dim in node["estimate"].dims]
    table = numbers.expand_dims({DATASET: [path]}).compute().to_dataframe([DATASET, *dims]).reset_index()
    if "flags" in table:
        table["flags"] = table["flags"].map(_flag_names)
    return table


def _labels(node: xr.Dataset) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the labels of the rows as text: numbers for a dimension without labels."""
    labels = {}
    for dim in KEYS[1:]:
        if dim in node.coords:
            text = np.array([str(name) for name in np.atleast_1d(node[dim].values)], object)
            labels[dim] = (tuple(map(str, node[dim].dims)), text.reshape(node[dim].shape))
        elif dim in node.sizes:
            labels[dim] = ((dim,), np.array([f"{dim} {number}" for number in range(node.sizes[dim])], object))
    return labels


def _flag_names(flags: int) -> str:
    return " ".join(flag.name for flag in FLAGS if flags & flag.bit)


def _models(tidy: pd.DataFrame) -> list[str]:
    return list(tidy[MODEL].unique()) if MODEL in tidy else ["estimate"]


def _wide(tidy: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Return a column of estimates for each model; their rows follow one another, in the same order."""
    models = _models(tidy)
    by_model = tidy["estimate"].to_numpy().reshape(len(models), -1)
    rows = tidy[[key for key in keys if key in tidy]].iloc[: by_model.shape[1]]
    return pd.concat([rows, pd.DataFrame(by_model.T, columns=models)], axis=1)
