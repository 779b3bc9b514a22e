"""Targets, scores and weights of any library as NumPy arrays, checked as scikit-learn checks them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aucpr_dask.errors import AlignmentError, InvalidInputError, brief, few
from aucpr_dask.schema.checks import EXACT_INTEGERS, are_rounded
from aucpr_dask.scores.validate import is_small_float

NUMBERS = "biuf"
BLOCK = 1 << 16  # labels that stay in a core's cache while they are compared twice
USUAL_LABELS = ({0, 1}, {-1, 1}, {0}, {-1}, {1})  # of which the positive one is 1


def misfit(what: str, name: str, received: str, allowed: str, remedy: str) -> InvalidInputError:
    """Return the error for an argument that is not what a metric takes."""
    return InvalidInputError(what, f"argument {name!r}", received, allowed, remedy)


def host_array(value: Any, name: str) -> NDArray[Any]:
    """Return a list, a frame, or an array or tensor of any library as a NumPy array of one or two dimensions."""
    array = read_array(value, name)
    if array.ndim not in (1, 2) or array.size == 0:
        what = f"{name} has no items" if array.size == 0 else f"{name} has {array.ndim} dimensions"
        if isinstance(value, str):
            what = f"{name} is text, not an array: {brief(value)}"
        allowed = "(n_samples,) or (n_samples, n_classes), at least one of each"
        raise misfit(what, name, f"shape {array.shape}", allowed, "give one row for each sample")
    return array


def arrays_of(
    y_true: Any, scores: dict[str, Any], weight: Any, clusters: Any = None, *, as_is: bool = False, many: bool = False
) -> tuple[NDArray[Any], dict[str, NDArray[Any]], NDArray[np.float64] | None, NDArray[np.int64] | None]:
    """Return labels, scores by name, weights and clusters, of as many samples in one order; raise for others."""
    label, score = host_array(y_true, "y_true"), dict[str, NDArray[Any]]()
    for name, given in scores.items():
        array = numbers(given, name) if many else column(numbers(given, name), name)
        if not as_is and array.dtype.kind != "f":
            if are_rounded(array):  # and so tied
                what = "integers beyond 2**53, which float64 would round"
                received = f"dtype {array.dtype}, up to {np.abs(array.astype(object)).max()}"
                allowed = f"whole numbers from -{EXACT_INTEGERS} to {EXACT_INTEGERS}"
                raise misfit(what, name, received, allowed, "rank them: scipy.stats.rankdata(score)")
            array = array.astype(np.float64)
        score[name] = array
    weights = weights_of(weight)
    cluster = None if clusters is None else clusters_of(clusters, "clusters")
    check_lengths(y_true=label, **score, sample_weight=weights, clusters=cluster)
    refuse_other_order(y_true=y_true, **scores, sample_weight=weight, clusters=clusters)
    return label, score, weights, cluster


def read_array(value: Any, name: str) -> NDArray[Any]:
    """Return a list, a frame, or an array or tensor of any library as a NumPy array, or raise InvalidInputError."""
    if np.ma.is_masked(value):
        what = f"{name} is a masked array, whose mask would be lost"
        received = f"{int(np.ma.getmaskarray(value).sum())} masked values"
        raise misfit(what, name, received, "an array without a mask", "leave out these samples")
    if hasattr(value, "toarray"):  # a sparse matrix
        value = value.toarray()
    if hasattr(value, "detach"):  # a tensor that remembers its gradient
        value = value.detach()
    try:
        exports_only = hasattr(value, "__dlpack__") and not hasattr(value, "__array__")
        # Of a column of text or of categories, pandas knows the distinct values.
        if isinstance(getattr(value, "dtype", None), pd.CategoricalDtype | pd.StringDtype) and value.ndim == 1:
            return _by_values(value.factorize(), value.shape, name)
        array: NDArray[Any] = np.from_dlpack(value) if exports_only else np.asarray(value)
        if array.dtype.kind in ("O", "T") or (array.dtype.kind == "U" and isinstance(value, list | tuple)):
            objects = np.asarray(value, dtype=object) if array.dtype.kind == "U" else array.astype(object)
            array = _by_values(pd.factorize(objects.ravel()), objects.shape, name)
        if is_small_float(array.dtype):
            array = array.astype(np.float32)
    except InvalidInputError:
        raise
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        allowed = "lists, frames, sparse matrices, and arrays or tensors in the memory of this machine"
        remedy = "convert a tensor to a type of NumPy on this machine, as by tensor.float().cpu(); "
        remedy += "give all rows the same length"
        raise misfit(f"{name} cannot be read as an array", name, f"{brief(value)}: {error}", allowed, remedy) from error
    return array


def _by_values(factorized: tuple[Any, Any], shape: tuple[int, ...], name: str) -> NDArray[Any]:
    """Return objects as an array of one type, each distinct value looked at once; raise if some are missing.

    As text, None would be a label of its own, and so would a number among text.
    """
    codes, distinct = factorized
    is_missing = codes < 0
    if is_missing.any():
        received = f"{int(is_missing.sum())} of {codes.size} are None or NaN"
        raise misfit(f"{name} has missing values", name, received, "a value for each sample", "leave out these samples")
    values = distinct.tolist()
    is_text = [isinstance(one, str | bytes) for one in values]
    if any(is_text) and not all(is_text):
        what = f"{name} has text and other values"
        raise misfit(what, name, brief(values), "values of one type", "convert all of them to text, or to numbers")
    return np.asarray(np.array(values)[codes].reshape(shape))


def refuse_other_order(**values: Any) -> None:
    """Raise if columns have the same labels in another order, or only some: by position, they would be mismatched.

    The numbers of rows of a new column say nothing, nor do labels of which none are the same.
    """
    labels = dict[str, pd.Index]()
    for name, value in values.items():
        if isinstance(value, pd.Series | pd.DataFrame):
            labels[name] = value.index
        elif hasattr(value, "indexes") and value.ndim and value.dims[0] in value.indexes:  # a DataArray's
            labels[name] = value.indexes[value.dims[0]]
    for name, index in labels.items():
        first, expected = next(iter(labels.items()))
        if index.equals(expected) or len(index) != len(expected):
            continue
        is_shared, is_new = index.isin(expected), [one.equals(pd.RangeIndex(len(one))) for one in (index, expected)]
        has_all = is_shared.all() and expected.isin(index).all()
        if has_all or (is_shared.any() and not any(is_new)):
            n_shared = "the same" if has_all else f"only {is_shared.sum():,} of the same"
            what = f"{first} and {name} carry {n_shared} labels of samples{' in another order' if has_all else ''}"
            received = f"{name} labelled {few(map(repr, index))}, {first} labelled {few(map(repr, expected))}"
            allowed = "columns with their labels in one order, or without labels"
            remedy = f"align them: {name}.reindex({first}.index); or pass .to_numpy() of both to match by position"
            raise AlignmentError(what, f"argument {name!r}", received, allowed, remedy)


def clusters_of(value: Any, name: str) -> NDArray[np.int64]:
    """Return the number of each sample's cluster, in the order of appearance; names are of any type, but not NaN."""
    names = column(host_array(value, name), name)
    if names.dtype.kind == "f" and np.isnan(names).any():
        what, received = f"{name} has missing values", f"{int(np.isnan(names).sum())} of {names.size} are NaN"
        remedy = "leave out these samples, or give each of them a name of its own"
        raise misfit(what, name, received, "the name of a cluster for each sample", remedy)
    return pd.factorize(names)[0].astype(np.int64)


def weights_of(value: Any) -> NDArray[np.float64] | None:
    """Return sample weights as float64, not all of them 0."""
    if value is None:
        return None
    weight = column(numbers(value, "sample_weight", finite=True), "sample_weight").astype(np.float64)
    if not weight.any():
        allowed = "at least one weight above 0"
        remedy = "leave sample_weight out for equal weights"
        raise misfit("all weights are 0", "sample_weight", f"{weight.size} zeros", allowed, remedy)
    return weight


def numbers(value: Any, name: str, *, finite: bool = False) -> NDArray[Any]:
    """Return an array of numbers, float32 and float64 as they are; infinite ones are the first or last of a ranking."""
    array = host_array(value, name)
    are_known = array.dtype.kind in NUMBERS
    if array.dtype.kind == "f":
        least, most = array.min(), array.max() if finite else 0.0  # a minimum is NaN if one of its numbers is
        are_known = bool(np.isfinite(least) and np.isfinite(most) if finite else least == least)
    if not are_known:
        what = "NaN or infinity" if finite else "NaN"
        received = what if array.dtype.kind in NUMBERS else f"dtype {array.dtype}"
        allowed = f"integers or floats, without {what.replace(' or ', ' and ')}"
        remedy = "convert them to floats"
        if array.dtype.kind in NUMBERS:
            remedy = "leave out these samples; models that lack scores are for ap.evaluate(missing=...)"
        raise misfit(f"{name} must hold {'finite ' * finite}numbers", name, received, allowed, remedy)
    return array.astype(np.int8) if array.dtype == bool else array


def column(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Return an array of one dimension, or of one column, with one dimension."""
    if array.ndim != 1 and array.shape[1:] != (1,):
        remedy = "give one number for each sample"
        if array.shape[1:] == (2,):
            remedy += f"; of the probabilities of two classes, those of the positive one: {name}[:, 1]"
        elif name == "y_score":
            remedy += "; several classes need several labels, or several columns, in y_true"
        raise misfit(f"{name} is not one column", name, f"shape {array.shape}", "(n_samples,)", remedy)
    return array.ravel()


def check_lengths(**arrays: NDArray[Any] | None) -> None:
    """Raise unless all arrays have the same number of samples."""
    lengths = {name: len(array) for name, array in arrays.items() if array is not None}
    if len(set(lengths.values())) > 1:
        what = "arrays with inconsistent numbers of samples"
        where = f"arguments {', '.join(map(repr, lengths))}"
        received = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise AlignmentError(
            what, where, received, "the same number of samples", "give one row of each array for each sample"
        )


def positives_of(label: NDArray[Any], pos_label: Any) -> NDArray[np.bool_] | None:
    """Return which samples are positive if all others carry one other label, or else None; 1 is usually positive.

    Two comparisons tell: to sort the labels takes ten times as long as to rank the samples.
    """
    if label.ndim > 1 and label.shape[1:] != (1,):
        return None
    label, positive = label.ravel(), 1 if pos_label is None else pos_label
    is_positive, other, n_others = np.empty(label.size, bool), None, 0
    for start in range(0, label.size, BLOCK):
        part, found = label[start : start + BLOCK], is_positive[start : start + BLOCK]
        found[:] = part == positive
        if other is None and not found.all():
            other = part[np.argmin(found)]
        n_others += 0 if other is None else int(np.count_nonzero(part == other))
    n_positive = np.count_nonzero(is_positive)
    if n_positive == 0 or n_positive + n_others < label.size:
        return None
    other = label.dtype.type(0) if other is None else other
    is_whole = label.dtype.kind != "f" or (float(other).is_integer() and float(positive).is_integer())
    is_usual = pos_label is not None or other in (0, -1)
    return is_positive if is_whole and is_usual else None


def kind_of_target(y_true: NDArray[Any]) -> str:
    """Return ``"binary"``, ``"multiclass"`` or ``"multilabel"``."""
    is_number = y_true.dtype.kind in NUMBERS
    if is_number and y_true.dtype.kind == "f" and not np.array_equal(y_true, np.floor(y_true)):
        raise _unsupported(y_true, "labels that are continuous, or NaN")
    n_labels = np.unique(y_true).size
    if y_true.ndim == 2 and y_true.shape[1] > 1:
        if n_labels > 2 or not is_number:
            raise _unsupported(y_true, "several columns that hold more than 0 and 1")
        return "multilabel"
    return "binary" if n_labels <= 2 else "multiclass"


def positive_label(y_true: NDArray[Any], pos_label: Any) -> Any:
    """Return the label of the positive class; by default 1, if the labels are usual ones."""
    if pos_label is not None:
        return pos_label
    labels = set(np.unique(y_true).tolist())
    if labels not in USUAL_LABELS:
        what = "the labels do not say which of them is positive"
        allowed = "labels {0, 1} or {-1, 1}, or one of the labels as pos_label"
        remedy = "name the positive label, such as pos_label='spam'"
        raise misfit(what, "pos_label", f"labels {brief(sorted(labels))}", allowed, remedy)
    return 1


def check_label(y_true: NDArray[Any], pos_label: Any) -> None:
    """Raise if two labels are there, and the positive one is neither."""
    labels = np.unique(y_true).tolist()
    if len(labels) == 2 and pos_label not in labels:
        what = f"pos_label={brief(pos_label)} is not in y_true, which has {labels[0]!r} and {labels[1]!r}"
        remedy = f"name the positive label, such as pos_label={labels[1]!r}"
        raise misfit(what, "pos_label", brief(pos_label), ", ".join(map(repr, labels)), remedy)


def _unsupported(y_true: NDArray[Any], what: str) -> InvalidInputError:
    allowed = "one label for each sample, or a column of 0 and 1 for each class"
    remedy = "labels come first, then scores; soft labels are for ap.estimate(positive_weight=..., negative_weight=...)"
    return misfit(f"y_true has {what}", "y_true", f"shape {y_true.shape}, dtype {y_true.dtype}", allowed, remedy)
