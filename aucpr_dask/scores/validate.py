"""Check a score data set against the variable records, before anything is computed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import xarray as xr

from aucpr_dask.errors import AlignmentError, ChunkError, InvalidInputError, brief, few
from aucpr_dask.schema.labels import check_labels, check_weights
from aucpr_dask.schema.names import check_names, check_node_name
from aucpr_dask.schema.trees import Scores, nodes_of
from aucpr_dask.schema.variables import CLASS, ITEM, RANKING_DIMS, SCORE_VARIABLES, VariableSpec

KINDS = {
    "f": "floats of up to 64 bits",
    "i": "integers",
    "u": "unsigned integers",
    "b": "bool",
    "O": "objects",
    "T": "strings",
    "U": "strings of a fixed length",
}
"""What kinds of dtypes are called."""


def validate_scores(scores: Scores, *, positive_from: int | None = None) -> None:
    """Raise a clear error unless `scores` holds valid score data sets; Dask arrays are not computed."""
    for path, dataset in checked_nodes(scores):
        validate_dataset(dataset, path, positive_from)


def checked_nodes(scores: object) -> Iterator[tuple[str, xr.Dataset]]:
    """Yield (path, data set) for each data set; raise unless there is one, and all have valid names."""
    if not isinstance(scores, xr.Dataset | xr.DataTree):
        what, received = "scores must be an xarray Dataset (one data set) or DataTree (many)", type(scores).__name__
        remedy = "for arrays use aucpr_dask.estimate(score, label)"
        raise InvalidInputError(what, "the scores", received, "Dataset, DataTree", remedy)
    is_empty = True
    for path, dataset in nodes_of(scores):
        is_empty = False
        for name in filter(None, path.split("/")):
            check_node_name(name, "the names of data sets")
        yield path, dataset
    if is_empty:
        what, allowed = "there is no data set in this DataTree", "a tree with one or more data sets"
        remedy = "xarray.DataTree.from_dict({name: dataset}) makes one"
        raise InvalidInputError(what, "the scores", brief(scores), allowed, remedy)


def in_usual_order(dataset: xr.Dataset) -> xr.Dataset:
    """Return scores whose variables have their dimensions in the order of the records, where only the order differs."""
    other = _reordered(dataset)
    return dataset.assign(other) if other else dataset


def _reordered(dataset: xr.Dataset) -> dict[str, xr.DataArray]:
    given = {name: dataset[name] for name in SCORE_VARIABLES if name in dataset}
    usual = {name: _usual_dims(array, SCORE_VARIABLES[name]) for name, array in given.items()}
    return {name: given[name].transpose(*dims) for name, dims in usual.items() if dims not in (None, given[name].dims)}


def _usual_dims(variable: xr.DataArray, spec: VariableSpec) -> tuple[str, ...] | None:
    """Return the dimensions of a variable in the order of its record; None if the record does not have them."""
    return next((dims for dims in spec.dims if set(dims) == set(variable.dims)), None)


def validate_dataset(dataset: xr.Dataset, path: str, positive_from: int | None) -> None:
    """Raise a clear error unless this is a valid score data set."""
    for spec in SCORE_VARIABLES.values():
        if spec.name in dataset:
            _validate_variable(dataset[spec.name], spec, path)
        elif spec.required:
            raise InvalidInputError(
                f"the variable {spec.name!r} is absent",
                where=where_of(path),
                received=", ".join(map(str, dataset.data_vars)) or "no variables",
                allowed=f"a variable {spec.name!r} over {_layouts(spec)}",
                remedy="name the variables and dimensions as they are called here, or pass a data set of scores",
            )
    soft = {"positive_weight", "negative_weight"} & set(dataset.data_vars)
    if len(soft) == 1 or ("label" in dataset) == bool(soft):
        raise InvalidInputError(
            "a data set needs 'label', or else both 'positive_weight' and 'negative_weight'",
            where=where_of(path),
            received=", ".join(map(str, dataset.data_vars)),
        )
    _validate_classes(dataset, path)
    for dim in (*RANKING_DIMS, ITEM):
        if dim in dataset.indexes:
            check_unique(dataset.indexes[dim], dim, where_of(path))
            if dim != ITEM:  # these seed the resamples; items are checked when they are stored
                check_names(dataset.indexes[dim], f"{where_of(path)}, labels of {dim!r}")
    for name in dataset.coords:
        check_node_name(str(name), f"{where_of(path)}, coordinate")
    if "label" in dataset and isinstance(dataset["label"].data, np.ndarray):
        check_labels(dataset["label"].data, positive_from, where_of(path, "label"))
    for name in ("weight", "positive_weight", "negative_weight"):
        if name in dataset and isinstance(dataset[name].data, np.ndarray):
            check_weights(dataset[name].data, where_of(path, name))


def _validate_classes(dataset: xr.Dataset, path: str) -> None:
    """Raise unless scores and labels have classes both, or neither; all positives of a class are items."""
    named = [name for name in ("score", "label", "positive_weight", "negative_weight") if name in dataset]
    without = [name for name in named if CLASS not in dataset[name].dims]
    if without and len(without) < len(named):
        raise InvalidInputError(
            "scores and labels have classes both, or neither",
            where=where_of(path),
            received=f"{', '.join(map(repr, without))} without the dimension {CLASS!r}",
            allowed="score over (model, class, item); label over (class, item), or over (item) with the item's class",
            remedy="give both the dimension 'class', or select one class: .sel({'class': ...})",
        )
    if not without and "n_positive" in dataset:
        raise InvalidInputError(
            "with classes, all positives must be items: the classes share the resamples of items",
            where=where_of(path, "n_positive"),
            received=f"'n_positive' next to the dimension {CLASS!r}",
            allowed="no variable 'n_positive'",
            remedy="drop_vars('n_positive'), or select one class: .sel({'class': ...})",
        )


def _validate_variable(variable: xr.DataArray, spec: VariableSpec, path: str) -> None:
    where = where_of(path, spec.name)
    if variable.dtype.kind not in spec.kinds or (variable.dtype.kind == "f" and variable.dtype.itemsize > 8):
        raise InvalidInputError(
            f"{spec.name!r} has an unsupported type",
            where=where,
            received=f"dtype {variable.dtype}",
            allowed=f"{' or '.join(KINDS[kind] for kind in spec.kinds)} ({spec.description})",
            remedy=f"convert it, for example dataset[{spec.name!r}].astype(...)",
        )
    if tuple(variable.dims) not in spec.dims:
        usual = _usual_dims(variable, spec)
        raise InvalidInputError(
            f"{spec.name!r} has unsupported dimensions",
            where=where,
            received=f"({', '.join(map(str, variable.dims))})",
            allowed=_layouts(spec),
            remedy=f"dataset.transpose{usual}" if usual else None,
        )


def check_one_chunk(chunks: tuple[int, ...], dim: object, where: str) -> None:
    """Raise unless the item dimension is in one chunk: a ranking must not be split."""
    if len(chunks) > 1:
        raise ChunkError(
            f"the dimension {dim!r} is in several chunks, so no block holds a whole ranking",
            where=where,
            received=f"{len(chunks)} chunks of {few(chunks)}",
            allowed="one chunk",
            remedy=f"rechunk: .chunk({{{dim!r}: -1}})",
        )


def check_unique(index: pd.Index, dim: str, where: str) -> None:
    """Raise if a label occurs twice in `index`."""
    if not index.is_unique:
        twice = list(dict.fromkeys(index[index.duplicated()]))
        raise AlignmentError(
            f"labels of {dim!r} must be unique",
            where=where,
            received=f"{len(twice)} duplicated: {few(map(repr, twice))}",
            remedy="rename or drop the duplicates",
        )


def where_of(path: str, variable: str | None = None) -> str:
    """Return the data set, and the variable, for an error message."""
    parts = [f"data set {path!r}" if path else "", f"variable {variable!r}" if variable else ""]
    return ", ".join(filter(None, parts)) or "the data set"


def _layouts(spec: VariableSpec) -> str:
    return " or ".join(f"({', '.join(dims)})" for dims in spec.dims)


def check_same_labels(first: xr.DataArray, second: xr.DataArray, names: tuple[str, str]) -> None:
    """Raise unless two arrays carry the same labels, in the same order, on every dimension they share."""
    for dim in (str(dim) for dim in first.dims if dim in second.dims):
        if first.sizes[dim] != second.sizes[dim]:
            raise AlignmentError(
                f"{names[0]!r} and {names[1]!r} differ in length along {dim!r}",
                where=f"variables {names[0]!r} and {names[1]!r}",
                received=f"{first.sizes[dim]} and {second.sizes[dim]}",
                allowed="the same length",
                remedy=f"give both one value for each {dim}",
            )
        if dim in first.indexes and dim in second.indexes:
            left, right = first.indexes[dim], second.indexes[dim]
            if not left.equals(right):
                odd = left.symmetric_difference(right)
                raise AlignmentError(
                    f"{names[0]!r} and {names[1]!r} carry different labels along {dim!r}",
                    received=few(map(repr, odd)) if len(odd) else "the same labels in another order",
                    allowed="the same labels, in the same order",
                    remedy=f"select the labels they share, or reindex one by the other's {dim!r}",
                )
