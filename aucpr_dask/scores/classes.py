"""Classes that label items become one label for each class: this class against the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from aucpr_dask.errors import InvalidInputError, few
from aucpr_dask.schema.trees import Scores, gathered, map_nodes
from aucpr_dask.schema.variables import CLASS, ITEM, PADDING, UNJUDGED
from aucpr_dask.scores.validate import check_unique, checked_nodes, in_usual_order, validate_dataset, where_of


def validated_scores(scores: Scores, *, positive_from: int | None = None) -> Scores:
    """Return valid score data sets: dimensions in the usual order, a label for each class where classes label items.

    Raises
    ------
    InvalidInputError, AlignmentError
        See :func:`validate_scores` and :func:`with_label_of_each_class`.
    """
    return gathered(scores, dict(validated_nodes(scores, positive_from=positive_from)))


def validated_nodes(scores: Scores, *, positive_from: int | None = None) -> Iterator[tuple[str, xr.Dataset]]:
    """Yield (path, data set) for each data set, as :func:`validated_scores` returns it."""
    for path, given in checked_nodes(scores):
        dataset = _with_label_of_each_class(path, in_usual_order(given))
        validate_dataset(dataset, path, positive_from)
        yield path, dataset


def with_label_of_each_class(scores: Scores) -> Scores:
    """Return scores in which labels say whether items belong to a class, not to which class they belong.

    Raises
    ------
    InvalidInputError
        If a label is neither a class nor, where these are no classes, -1 (unjudged) or -2 (padding); or it is not clear
        what the labels of one selected class mean.
    """
    return map_nodes(scores, _with_label_of_each_class)


def _may_have_classes_as_labels(dataset: xr.Dataset) -> bool:
    if "score" not in dataset or "label" not in dataset or CLASS not in (*dataset["score"].dims, *dataset.coords):
        return False
    return dataset["label"].dims == (ITEM,) and dataset["label"].dtype.kind in "iubOTU"


def _with_label_of_each_class(path: str, dataset: xr.Dataset) -> xr.Dataset:
    if not _may_have_classes_as_labels(dataset):
        return dataset
    if CLASS not in dataset["score"].dims:
        return _with_label_of_selected_class(path, dataset)
    classes = dataset.get_index(CLASS)
    check_unique(classes, CLASS, where_of(path))
    labels = xr.apply_ufunc(
        one_against_rest,
        dataset["label"].variable,
        output_core_dims=[[CLASS]],
        kwargs={"classes": classes, "where": where_of(path, "label")},
        dask="parallelized",
        output_dtypes=[np.int8],
        dask_gufunc_kwargs={"output_sizes": {CLASS: len(classes)}},
    )
    return dataset.assign(label=labels.transpose(CLASS, ITEM))


def _with_label_of_selected_class(path: str, dataset: xr.Dataset) -> xr.Dataset:
    """Return scores of one class, selected from several; its labels may have been of each class, or of the items."""
    selected, label = dataset[CLASS], dataset["label"]
    if selected.ndim == 0 and label.dtype.kind in "OTU":
        return dataset.assign(label=(label.variable == selected.item()).astype(np.int8))
    if selected.ndim == 0 and selected.dtype.kind in "iub" and selected.item() in (0, 1):
        raise InvalidInputError(
            "labels 0 and 1 may be classes here, or say whether items belong to the selected class",
            where=where_of(path, "label"),
            received=f"labels over the items, and the selected class {selected.item()!r}",
            allowed="labels of the selected class, without a coordinate 'class'",
            remedy=".drop_vars('class') if 1 says that an item belongs to it; or select from the result instead",
        )
    return dataset


def one_against_rest(label: NDArray[Any], *, classes: pd.Index, where: str) -> NDArray[np.int8]:
    """Return whether each item belongs to each class, as labels: ``(item) -> (item, class)``."""
    place = classes.get_indexer(pd.Index(label))
    of_classes: NDArray[np.int8] = (place[:, None] == np.arange(len(classes))).astype(np.int8)
    unknown = place < 0
    if label.dtype.kind in "iu":
        is_sentinel = unknown & ((label == UNJUDGED) | (label == PADDING))
        of_classes[is_sentinel] = label[is_sentinel, None]
        unknown &= ~is_sentinel
    if unknown.any():
        raise InvalidInputError(
            "labels that are no class",
            where=where,
            received=f"{int(unknown.sum())} labels: {few(map(repr, dict.fromkeys(label[unknown].tolist())))}",
            allowed=f"classes {few(map(repr, classes.tolist()))}; -1 unjudged and -2 padding, if these are no classes",
            remedy="name all classes in the coordinate 'class', in the type of the labels",
        )
    return of_classes
