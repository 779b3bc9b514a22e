"""Results as columns of equal length: what data frames and files of every kind are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from aucpr_dask.errors import AlignmentError, InvalidInputError
from aucpr_dask.schema.variables import BOUND, BOUNDS, ESTIMATOR, FLAGS, METHOD, MODEL, QUERY
from aucpr_dask.storage.stores import Scores, nodes_of

DATASET = "dataset"
KEYS = (DATASET, MODEL, QUERY, ESTIMATOR)
REPLICATE = "replicate"
COUNTS = ("n_positive", "n_negative", "n_missing", "n_queries", "n_datasets", "prevalence")

Columns = dict[str, np.ndarray]


def tidy_columns(result: Scores) -> Iterator[Columns]:
    """Yield the columns of each data set: one row per model, query and estimator, the same columns for all.

    Text is in arrays of ``object``, with None where a data set lacks what others have; numbers are NaN there.

    Raises
    ------
    InvalidInputError
        If this is not a result.
    """
    nodes = _nodes_of_result(result)
    layout = _layout(result, nodes)
    for path, node in nodes:
        yield _tidy(path, node.drop_vars(REPLICATE, errors="ignore").compute(), layout)


def wide_columns(result: Scores) -> tuple[tuple[str, ...], Columns]:
    """Return the names of the key columns, and the columns: one row per query and estimator, a column for each model.

    Raises
    ------
    InvalidInputError
        If this is not a result.
    AlignmentError
        If a model is named like a key column.
    """
    nodes = _nodes_of_result(result)
    keys = tuple(key for key in _layout(result, nodes).keys if key != MODEL)
    models = dict.fromkeys(name for _, node in nodes for name in _labels(node, MODEL))
    if both := [str(name) for name in models if name in keys]:
        raise AlignmentError(
            "a model is named like a column of keys",
            received=", ".join(map(repr, both)),
            remedy="rename it, or take the tidy table: tidy=True",
        )
    return keys, concatenated([_wide(path, node[["estimate"]].compute(), keys, list(models)) for path, node in nodes])


def concatenated(parts: Sequence[Columns]) -> Columns:
    """Return columns one below the other."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _nodes_of_result(result: Scores) -> list[tuple[str, xr.Dataset]]:
    nodes = list(nodes_of(result))
    if not nodes or not all("estimate" in node for _, node in nodes):
        raise InvalidInputError(
            "this is not a result",
            received="no variable 'estimate'",
            remedy="evaluate the scores first: scores.aucpr.evaluate()",
        )
    if any({"difference", "rank"} & set(node) for _, node in nodes):
        raise InvalidInputError(
            "this is not a result",
            received="a comparison or ranks",
            remedy="xarray's own to_dataframe() makes a table of each of its variables",
        )
    for path, node in nodes:
        if odd := [str(dim) for dim in node["estimate"].dims if dim not in KEYS]:
            raise InvalidInputError(
                "only estimates by model, query and estimator make such a table",
                where=f"data set {path!r}" if path else None,
                received=f"the dimension {', '.join(map(repr, odd))}",
                remedy="select from it first: result.sel(...)",
            )
    return nodes


@dataclass(frozen=True)
class _Layout:
    """The columns that the tables of all data sets share."""

    keys: tuple[str, ...]
    methods: tuple[str, ...]
    values: dict[str, np.dtype[Any]]
    has_flags: bool


def _layout(result: Scores, nodes: Sequence[tuple[str, xr.Dataset]]) -> _Layout:
    present = {str(name) for _, node in nodes for name in (*node.dims, *node.coords)}
    present |= {DATASET} if isinstance(result, xr.DataTree) else set()
    names = {str(name) for _, node in nodes for name in node.data_vars}
    return _Layout(
        keys=tuple(key for key in KEYS if key in present),
        methods=tuple(dict.fromkeys(method for _, node in nodes for method in _methods(node))),
        values={name: _common_type(name, nodes) for name in COUNTS if name in names},
        has_flags="flags" in names,
    )


def _common_type(name: str, nodes: Sequence[tuple[str, xr.Dataset]]) -> np.dtype[Any]:
    return np.result_type(*(node[name].dtype if name in node else np.float64 for _, node in nodes))


def _methods(node: xr.Dataset) -> list[str]:
    """Return the names of the intervals; one that has no name, as of a mean, is just an interval."""
    if "interval" not in node:
        return []
    return [str(name) for name in np.atleast_1d(node[METHOD].values)] if METHOD in node.coords else ["interval"]


def _labels(node: xr.Dataset, dim: str) -> list[str | None]:
    """Return the labels of a dimension; its one label if one was selected; its numbers if it has none."""
    if dim in node.coords:
        return [str(name) for name in np.atleast_1d(node[dim].values)]
    return [f"{dim} {number}" for number in range(node.sizes[dim])] if dim in node.sizes else [None]


def _tidy(path: str, node: xr.Dataset, layout: _Layout) -> Columns:
    dims = [dim for dim in (MODEL, QUERY, ESTIMATOR) if dim in node["estimate"].dims]
    shape = tuple(node.sizes[dim] for dim in dims)

    def spread(variable: xr.DataArray) -> np.ndarray:
        own = [dim for dim in dims if dim in variable.dims]
        missing = [axis for axis, dim in enumerate(dims) if dim not in own]
        return np.broadcast_to(np.expand_dims(variable.transpose(*own).values, missing), shape).ravel()

    columns = _keys(path, node, layout.keys, (MODEL, QUERY, ESTIMATOR))
    columns["estimate"] = spread(node["estimate"])
    absent = np.full(columns["estimate"].shape, np.nan)
    columns["standard_error"] = spread(node["standard_error"]) if "standard_error" in node else absent
    intervals = _intervals(node)
    for method, bound in product(layout.methods, BOUNDS):
        columns[f"{method}_{bound}"] = spread(intervals[method].sel({BOUND: bound})) if method in intervals else absent
    if layout.methods:
        columns["level"] = spread(node["level"]) if "level" in node.coords else absent
    for name, dtype in layout.values.items():
        columns[name] = (spread(node[name]) if name in node else absent).astype(dtype)
    if layout.has_flags:
        columns["flags"] = _flag_names(spread(node["flags"])) if "flags" in node else np.full(absent.shape, None)
    return columns


def _intervals(node: xr.Dataset) -> dict[str, xr.DataArray]:
    if "interval" not in node:
        return {}
    named = METHOD in node["interval"].dims
    return {name: node["interval"].sel({METHOD: name}) if named else node["interval"] for name in _methods(node)}


def _flag_names(flags: np.ndarray) -> np.ndarray:
    """Return the names of the flags in each bit field, with blanks between."""
    different, place = np.unique(flags, return_inverse=True)
    names = [" ".join(flag.name for flag in FLAGS if value & flag.bit) for value in different]
    return np.array(names, object)[place]


def _wide(path: str, node: xr.Dataset, keys: tuple[str, ...], models: Sequence[str | None]) -> Columns:
    estimate = node["estimate"]
    dims = [dim for dim in (QUERY, ESTIMATOR) if dim in estimate.dims]
    if MODEL not in estimate.dims:
        estimate = estimate.expand_dims(MODEL)
    by_model = estimate.transpose(MODEL, *dims).values.reshape(estimate.sizes[MODEL], -1)
    known = dict(zip(_labels(node, MODEL), by_model, strict=True))
    absent = np.full(by_model.shape[1], np.nan)
    values = {str(model): known.get(model, absent) for model in models}
    return _keys(path, node, keys, (QUERY, ESTIMATOR)) | values


def _keys(path: str, node: xr.Dataset, keys: tuple[str, ...], dims: Sequence[str]) -> Columns:
    """Return the columns of names: every combination of the labels of `dims`, the last running fastest."""
    rows: list[tuple[Any, ...]] = list(product(*(_labels(node, dim) for dim in dims)))
    columns = {dim: np.array([row[axis] for row in rows], object) for axis, dim in enumerate(dims)}
    columns[DATASET] = np.full(len(rows), path, object)
    return {key: columns[key] for key in keys}
