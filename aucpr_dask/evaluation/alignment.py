"""Check the types, labels and chunks of the arrays of a call."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import xarray as xr

from aucpr_dask.errors import AlignmentError, InvalidInputError, bad_argument, brief, few
from aucpr_dask.evaluation.rankings import lead_of
from aucpr_dask.schema.checks import REAL, check_counts, is_dask, names_of, text
from aucpr_dask.schema.described import Described
from aucpr_dask.schema.options import EvaluationOptions
from aucpr_dask.schema.terms import GRADE, ITEM, ITEM_ROLES, RANKING_DIMS, without_levels
from aucpr_dask.scores.validate import check_same_labels, check_unique, float_scores, refuse_lazy, where_of

Labelled = TypeVar("Labelled", xr.DataArray, xr.Variable)


# Labels and chunks


def aligned(inputs: dict[str, xr.DataArray], options: EvaluationOptions, dim: str) -> dict[str, xr.DataArray]:
    """Check labels against those of the scores; add the order of tied items, and names for error messages."""
    score = inputs["score"]
    for name, array in inputs.items():
        if name != "score":
            check_same_labels(score, array, ("score", name))
    if options.ties == "trec_eval" and "tie_order" not in inputs:  # that of ids, by descending bytes, as in trec_eval
        if dim not in score.indexes:
            ids = "" if ", " in dim else f", or a coordinate {dim!r} with the document ids"  # no cell of a grid has any
            remedy = f"add 'tie_order'{ids}"
            raise without_tie_order(f"neither a variable 'tie_order' nor labels on {dim!r}", remedy)
        documents = [str(document).encode() for document in score.indexes[dim]]
        place = np.empty(len(documents), dtype=np.int32)
        place[sorted(range(len(documents)), key=documents.__getitem__, reverse=True)] = np.arange(len(documents))
        inputs = inputs | {"tie_order": xr.DataArray(place, dims=dim)}
    if options.missing == "raise":
        inputs = inputs | {
            name: xr.DataArray(np.array([str(label) for label in score.indexes[name]]), dims=name)
            for name in RANKING_DIMS
            if name in score.indexes
        }
    return inputs


def chunked_alike(inputs: dict[str, Labelled], like: str = "score") -> dict[str, Labelled]:
    """Chunk all arrays alike if one is lazy: those in memory like the scores, as Dask would cut them by their size."""
    if all(array.chunks is None or isinstance(array.data, Described) for array in inputs.values()):
        return inputs
    lengths = inputs[like].chunksizes
    return {
        name: array if array.chunks is not None else array.chunk({dim: lengths.get(dim, -1) for dim in array.dims})
        for name, array in inputs.items()
    }


def without_tie_order(received: str, remedy: str) -> InvalidInputError:
    """Return the error for an unknown order of tied items."""
    what = "ties='trec_eval' needs to know the order of tied items"
    allowed = "a variable 'tie_order', or names of items"
    return InvalidInputError(what, "option 'ties'", received, allowed, remedy)


def without_scores() -> InvalidInputError:
    """Return the error for scores that are None."""
    allowed, remedy = "an array of numbers, items on its last axis", "give the scores first, then the labels"
    return InvalidInputError("there are no scores", "argument 'score'", "None", allowed, remedy)


# Data sets


def score_inputs(dataset: xr.Dataset, positive_from: int | None, path: str) -> dict[str, xr.DataArray]:
    """Return the variables of a score data set that an evaluation reads, without other coordinates."""
    names = ("score", "label", "weight", "positive_weight", "negative_weight", "tie_order", "n_positive")
    inputs = {name: dataset[name] for name in names if name in dataset}
    total = inputs.get("n_positive")
    if total is not None and GRADE in total.dims:
        grade, known = positive_from or 1, list(total.indexes.get(GRADE, ()))
        if grade not in known:
            where = where_of(path, "n_positive")
            what, received = "n_positive is not known at this grade", f"positive_from={grade}"
            raise InvalidInputError(what, where, received, f"grades {known}")
        inputs["n_positive"] = total.sel({GRADE: grade}, drop=True)
    return {name: array.drop_vars([c for c in array.coords if c not in array.dims]) for name, array in inputs.items()}


def clusters_of(dataset: xr.Dataset, path: str) -> xr.DataArray:
    """Return the number of each item's cluster, in the order of appearance."""
    cluster = dataset.get("cluster")
    if cluster is None or cluster.dims[-1:] != (ITEM,):
        over = None if cluster is None else f"'cluster' over ({', '.join(map(str, cluster.dims))})"
        what, remedy = "over='clusters' needs to know the cluster of every item", "add a variable 'cluster' over 'item'"
        raise InvalidInputError(what, where_of(path), over or "no variable 'cluster'", None, remedy)
    check_same_labels(dataset["score"], cluster, ("score", "cluster"))
    values = np.asarray(cluster)
    codes = np.empty(values.shape, np.int64)
    for place in np.ndindex(values.shape[:-1]):
        codes[place] = pd.factorize(values[place], use_na_sentinel=False)[0]
    return xr.DataArray(codes, dims=cluster.dims)


# Arguments

MOST_DIMENSIONS = 30  # of the 32 that NumPy broadcasts, so that results have room for two of their own


def _wrong(name: str, what: str, received: object, allowed: str, remedy: str) -> InvalidInputError:
    """Return the error for the argument called `name`."""
    return InvalidInputError(what, f"argument {name!r}", received, allowed, remedy)


def labelled_inputs(inputs: dict[str, Any], dims: tuple[str, ...]) -> dict[str, xr.DataArray]:
    """Return DataArrays with scores of a float type, their items along one dimension; raise unless all are labelled."""
    for name, array in inputs.items():
        is_number = isinstance(array, REAL) or (getattr(array, "ndim", None) == 0 and array.dtype.kind in "fiu")
        if not isinstance(array, xr.DataArray) and not (name == "n_positive" and is_number):
            what = f"{name!r} must be a DataArray"
            allowed = "a DataArray, whose labels are compared with those of 'score'"
            remedy = "give both labels, or pass score.values"
            raise _wrong(name, f"{what}, because 'score' is one", type(array).__name__, allowed, remedy)
    labelled = {name: xr.DataArray(array) for name, array in inputs.items()}
    for name, array in labelled.items():
        refuse_lazy(array.data, f"argument {name!r}")
        received = f"({', '.join(map(str, array.dims))})"
        found = [dim for dim in dims if dim in array.dims]
        if name in ITEM_ROLES and not (found if name != "score" else len(found) == len(dims)):
            absent = " and ".join(repr(dim) for dim in dims if dim not in found)
            what, allowed = f"{name!r} has no dimension {absent}", f"the dimension {absent}, and others of 'score'"
            remedy = f"name that of the items: dim={[ITEM, *array.dims][-1]!r}"
            raise _wrong(name, what, received, allowed, remedy)
        if name == "n_positive" and found:
            what = "n_positive counts the positives of a ranking"
            allowed = f"dimensions of 'score' other than {', '.join(map(repr, dims))}"
            remedy = f"sum it over the items: n_positive.sum({found[0] if len(dims) == 1 else found!r})"
            raise _wrong(name, what, received, allowed, remedy)
    if len(dims) > 1:  # items lie along one dimension; what lacks some of the several is repeated along them
        score = labelled["score"]
        for name, array in labelled.items():
            check_same_labels(score, array, ("score", name))
        for name in labelled.keys() & ITEM_ROLES:
            own = labelled[name]
            lengths = {dim: score.sizes[dim] for dim in dims if dim not in own.dims}
            labelled[name] = own.expand_dims(lengths).stack({joined(dims): dims}, create_index=False)
    for name, index in labelled["score"].indexes.items():
        check_unique(index, str(name), "variable 'score'")
    for name, data in _converted({name: array.data for name, array in labelled.items()}).items():
        labelled[name] = labelled[name].copy(data=data)
    return labelled


def refuse_our_dimensions(arrays: dict[str, Any], ours: set[str]) -> None:
    """Raise if DataArrays have dimensions of the names that the result gives to its own."""
    for name, array in arrays.items():
        taken = sorted(ours & set(map(str, array.dims))) if isinstance(array, xr.DataArray) else []
        if taken:
            what = f"the result has something else of the name {taken[0]!r}"
            remedy = f"rename it: {name}.rename({{{taken[0]!r}: 'another'}})"
            raise _wrong(name, what, f"{taken[0]!r} of {name!r}", "another name", remedy)


def named_dimensions(dim: Any) -> tuple[str, ...]:
    """Return the names of the dimensions that hold the items."""
    if isinstance(dim, int):
        what, allowed = "arrays have their items on the last axis", "the name of a dimension of xarray, or several"
        raise bad_argument(what, "dim", dim, allowed, "pass scores.T, or numpy.moveaxis(scores, dim, -1)")
    dims = tuple(text(one, "dim") for one in names_of(dim, "dim"))
    if len(set(dims)) == len(dims) > 0:
        return dims
    what, allowed = "dim names the dimensions of the items", "one name or several, each once"
    raise bad_argument(what, "dim", dim, allowed, "name them")


def one_dimension(dim: Any) -> str:
    """Return the name for the items of arrays without names of dimensions, which have them on the last axis."""
    dims = named_dimensions(dim)
    if len(dims) == 1:
        return dims[0]
    what, allowed = "arrays have their items on the last axis", "one name, or DataArrays, whose dimensions have names"
    raise bad_argument(what, "dim", dim, allowed, "reshape the arrays: scores.reshape(n_models, -1)")


def joined(dims: tuple[str, ...]) -> str:
    """Return what the dimension is called that holds the items of several."""
    return ", ".join(dims)


def with_items(
    dataset: xr.Dataset, dims: tuple[str, ...], *, keeps: bool = False, named: Container[Any] = ()
) -> xr.Dataset:
    """Return a data set whose items, along these dimensions, lie along the one of items.

    It `keeps` the coordinates by their names only if asked to, or if they are `named`; those of one dimension among
    several are repeated along all items.
    """
    if dims == (ITEM,):
        return dataset
    if ITEM in dataset.dims or ITEM in dataset.variables:
        what, remedy = f"these scores have something else of the name {ITEM!r}", f"dataset.rename({ITEM}='another')"
        raise bad_argument(what, "dim", dims, f"scores without {ITEM!r}, or dim={ITEM!r}", remedy)
    if len(dims) == 1:
        renamed = dataset.rename({dims[0]: ITEM})
        if not keeps or dims[0] not in dataset.coords:
            return renamed
        own = dataset[dims[0]]
        return renamed.assign_coords({dims[0]: (ITEM, own.values, own.attrs)})
    dataset = without_levels(dataset, dims)
    dropped = {} if keeps else dataset.coords
    along = [name for name, array in dropped.items() if set(array.dims) & set(dims) and name not in named]
    return dataset.drop_vars(along).stack({ITEM: dims}, create_index=False)


def plain_inputs(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return NumPy or Dask arrays with scores of a float type."""
    if "score" not in inputs:
        raise without_scores()
    for name, value in inputs.items():
        if isinstance(value, xr.DataArray):
            received = f"DataArray, next to {type(inputs['score']).__name__} scores"
            allowed = "DataArrays, whose labels are compared; or arrays without labels"
            remedy = f"give scores as a DataArray too, or pass {name}.values to match by position"
            raise _wrong(name, f"{name!r} is a DataArray, and 'score' is not", received, allowed, remedy)
    arrays = {name: as_array(value, name) for name, value in inputs.items()}
    shape, of_label = arrays["score"].shape, np.shape(arrays.get("label", 0))
    if len(of_label) == 1 and len(shape) == 2 and shape[0] == of_label[0] != shape[1]:
        raise mispositioned("'score'", shape, of_label)
    common_labels({name: value for name, value in inputs.items() if name in ITEM_ROLES})
    arrays |= _converted(arrays)
    if "label" in arrays:
        refuse_swapped(arrays["score"], arrays["label"])
    for name, array in arrays.items():
        if name in ITEM_ROLES and array.ndim == 0:
            allowed = "an array with one value for each item on its last axis"
            raise _wrong(name, f"{name!r} has no item axis", "a scalar", allowed, "give the values of all items")
    return arrays


def _converted(arrays: dict[str, Any]) -> dict[str, Any]:
    """Return the scores in a float type, and the numbers of positives, checked."""
    for name, array in arrays.items():
        if array.ndim > MOST_DIMENSIONS:
            remedy = "stack some of them into one"
            raise _wrong(name, "too many dimensions", array.ndim, f"up to {MOST_DIMENSIONS} dimensions", remedy)
    converted = {"score": float_scores(arrays["score"])}
    if "n_positive" in arrays:
        total = _counts(arrays["n_positive"])
        if 0 in total.shape and 0 not in arrays["score"].shape:
            allowed, remedy = "one number, or one for each ranking", "leave it out if all positives are items"
            raise _wrong("n_positive", "n_positive is empty", f"shape {total.shape}", allowed, remedy)
        converted["n_positive"] = total
    return converted


def with_named_axes(arrays: dict[str, Any], dim: str) -> tuple[dict[str, xr.Variable], tuple[str, ...]]:
    """Return arrays without labels as Variables, and the names of their leading axes.

    As NumPy broadcasts, an axis of length 1 is one that the array lacks, unless it has length 1 in all.
    """
    lead = lead_of(arrays)
    axes = tuple(f"axis {number}" for number in range(len(lead)))
    named = {}
    for role, array in arrays.items():
        own = axes[len(axes) - (array.ndim - (role in ITEM_ROLES)) :]
        variable = xr.Variable((*own, dim) if role in ITEM_ROLES else own, array)
        lengths = dict(zip(axes, lead, strict=True))
        named[role] = variable.isel({axis: 0 for axis in own if variable.sizes[axis] == 1 != lengths[axis]})
    return named, axes


def mispositioned(name: str, shape: tuple[int, ...], label: tuple[int, ...]) -> InvalidInputError:
    """Return the error for scores whose items are not where those of the labels are."""
    what, remedy = f"{name} and the labels differ in shape", "give both one value for each item"
    if len(shape) == 2 and shape[0] == label[-1]:
        what = f"items lie on the first axis of {name}"
        two = "scores[:, 1] if the columns are probabilities of two classes, or "
        remedy = f"pass {two if shape[1] == 2 else 'one column of it, or '}scores.T, with a row for each model"
    received = f"shape {shape}, next to labels of shape {label}"
    return InvalidInputError(what, "the arrays", received, "the items on the last axis, as in the labels", remedy)


def refuse_swapped(score: Any, label: Any, order: str = "scores first, then labels") -> None:
    """Raise if the scores hold labels, and the labels scores."""
    if not (isinstance(score, np.ndarray) and isinstance(label, np.ndarray)) or label.dtype.kind != "f":
        return
    if (label == np.rint(label)).all() or not np.isin(score, (-1, 0, 1)).all():
        return
    what, received = "the scores look like labels, and the labels like scores", f"labels such as {label.flat[0]}"
    raise InvalidInputError(what, "the first two arguments", received, order, "swap the two")


def common_labels(arrays: dict[str, Any]) -> pd.Index | None:
    """Return the labels of the items, which all arrays that carry some must share; others are matched by position."""
    found = {name: labels_of_items(value) for name, value in arrays.items()}
    labels = {name: index for name, index in found.items() if index is not None}
    for name, index in labels.items():
        first, expected = next(iter(labels.items()))
        if not index.equals(expected):
            what = f"{first!r} and {name!r} do not carry the same labels of items"
            shown, others = (few(map(repr, one.tolist())) for one in (index, expected))
            received = f"{name!r} labelled {shown}, {first!r} labelled {others}"
            allowed = "pandas objects with the same index, or arrays without labels"
            remedy = "align them first (reindex), or pass .to_numpy() of all to match by position"
            raise AlignmentError(what, f"argument {name!r}", received, allowed, remedy)
    return next(iter(labels.values()), None)


def refuse_other_order(value: Any, labels: pd.Index | None, n_items: int, name: str) -> None:
    """Raise if a pandas object has other labels than the scores, or is in disorder where the scores have none."""
    own = labels_of_items(value) if isinstance(value, pd.Series | pd.DataFrame) else None
    if own is None or own.equals(pd.RangeIndex(n_items) if labels is None else labels):
        return
    # A new Series has the numbers of rows; and numbers of other rows are those of a part of a table.
    if labels is None and not (own.is_unique and set(own) == set(range(n_items))):
        return
    if labels is not None and labels.dtype.kind not in "iu" and own.equals(pd.RangeIndex(n_items)):
        return
    what = f"{name} do not carry the labels of the items, in their order"
    shown = few(map(repr, own.tolist()))
    allowed = "numbers in order" if labels is None else few(map(repr, labels.tolist()))
    remedy = "align them first (reindex), or pass .to_numpy() to match by position"
    raise AlignmentError(what, "the indices of pandas objects", f"labels {shown}", allowed, remedy)


def labels_of_items(value: Any) -> pd.Index | None:
    """Return the labels of the items of a pandas object, or of a DataArray of one dimension; None if there are none."""
    if isinstance(value, xr.DataArray):
        return value.indexes.get(value.dims[-1]) if value.ndim else None
    return value.index if isinstance(value, pd.Series) else value.columns if isinstance(value, pd.DataFrame) else None


def is_table(value: Any) -> bool:
    """Whether this is a table of pandas, polars or Arrow."""
    return hasattr(value, "columns") and not isinstance(value, xr.DataArray | xr.Dataset)


def columns_of(table: Any) -> dict[Any, Any]:
    """Return the columns of a table by their names."""
    names = list(getattr(table, "column_names", table.columns))
    refuse_same_names(names)
    return {name: table[name] for name in names}


def refuse_same_names(names: Sequence[Any]) -> None:
    """Raise if two models have one name."""
    if len(set(map(str, names))) < len(names):
        what, allowed = "two models have the same name", "a name of its own for each"
        raise InvalidInputError(what, "the first argument", few(names), allowed, "rename one")


def as_array(value: Any, name: str) -> Any:
    """Return a NumPy or Dask array."""
    if isinstance(value, np.ma.MaskedArray):
        what, received = f"{name!r} is a masked array, whose mask would be lost", type(value).__name__
        remedy = "fill masked scores with NaN and choose missing=, masked labels with -2 (padding)"
        raise _wrong(name, what, received, "an array without a mask", remedy)
    if isinstance(value, np.ndarray) or is_dask(value):
        refuse_lazy(value, f"argument {name!r}")
        return value
    if isinstance(value, Mapping | xr.Dataset | xr.DataTree):
        what, allowed = f"{name!r} is no array but {type(value).__name__}", "one array, with the items on its last axis"
        remedy = "give the scores of one model, or a row for each; evaluate takes models by name"
        if name != "score":
            remedy = "give the array in it"
        raise _wrong(name, what, few(map(repr, value)), allowed, remedy)
    try:
        return np.asarray(value)
    except (TypeError, ValueError) as error:
        allowed, remedy = "a NumPy, Dask or xarray array, or a sequence of numbers", "give all its rows the same length"
        raise _wrong(name, f"{name!r} is no array of numbers", brief(value), allowed, remedy) from error


def numeric(**arrays: Any) -> list[Any]:
    """Return arrays of real numbers that broadcast: plain ones as float64, DataArrays and Dask arrays as they are."""
    found: dict[str, Any] = {}
    for name, value in arrays.items():
        array = found[name] = value if isinstance(value, xr.DataArray) else as_array(value, name)
        refuse_lazy(array.data if isinstance(array, xr.DataArray) else array, f"argument {name!r}")
        if array.dtype.kind not in "fiu":
            received, allowed = f"{brief(value)}, dtype {array.dtype}", "numbers, or arrays of integers or floats"
            remedy = "give the numbers themselves, such as 0.5 or [0.25, 0.5]"
            raise _wrong(name, f"{name!r} must hold real numbers", received, allowed, remedy)
    plain = {name: array for name, array in found.items() if not isinstance(array, xr.DataArray)}
    is_labelled = len(plain) < len(found)
    try:
        fits = bool(np.broadcast_shapes(*(array.shape for array in plain.values())) == () or not is_labelled)
    except ValueError:
        fits = False
    if not fits:
        what = "arrays of different shapes" + (", or with and without labels" if is_labelled else "")
        where, received = few(map(repr, plain)), ", ".join(f"{name} {array.shape}" for name, array in plain.items())
        allowed = "arrays that broadcast; next to DataArrays, only numbers"
        remedy = "give arrays of one shape, or all as DataArrays"
        raise AlignmentError(what, f"arguments {where}", received, allowed, remedy)
    return [array.astype(np.float64) if isinstance(array, np.ndarray) else array for array in found.values()]


def elementwise(function: Callable[..., Any], **arrays: Any) -> Any:
    """Apply a function of single numbers: DataArrays yield DataArrays, lazy on Dask; others arrays, or a float."""
    given = numeric(**arrays)
    if any(isinstance(array, xr.DataArray) for array in given):
        return xr.apply_ufunc(function, *given, dask="parallelized", output_dtypes=[np.float64]).rename(None)
    if any(map(is_dask, given)):
        import dask.array as da

        return da.apply_gufunc(function, ",".join(["()"] * len(given)) + "->()", *given, output_dtypes=np.float64)
    result = function(*given)
    return float(result) if np.ndim(result) == 0 else result


def _counts(total: Any) -> Any:
    """Return numbers of positives, checked: those of a Dask array when they are computed."""
    if is_dask(total):
        checked_counts(total._meta)
        return total.map_blocks(checked_counts, dtype=total.dtype, meta=total._meta)
    return checked_counts(total)


def checked_counts(total: Any) -> Any:
    """Return a block of numbers of positives, unless some are not whole numbers from 0."""
    check_counts(total, "n_positive")
    return total
