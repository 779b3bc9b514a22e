"""What a call is given, checked: options against each other, arrays against each other by label."""

from __future__ import annotations

from typing import Any, TypeVar

import dask.array as da
import numpy as np
import pandas as pd
import xarray as xr

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.evaluation.request import Request
from aucpr_dask.schema.variables import GRADE, ITEM, ITEM_ROLES, MODEL, QUERY
from aucpr_dask.scores.validate import check_one_chunk, check_same_labels, check_unique

EXACT_INTEGERS = 2**53
Labelled = TypeVar("Labelled", xr.DataArray, xr.Variable)


def aligned(
    inputs: dict[str, xr.DataArray], request: Request, dim: str, *, whole_items: bool = True
) -> dict[str, xr.DataArray]:
    """Check labels and chunks against those of the scores, and add what the blocks need beside.

    That is the order of tied items from document ids, and the names of the rankings for messages about missing
    scores. In-memory arrays beside Dask-backed scores are chunked alike.
    """
    score = inputs["score"]
    for name, array in inputs.items():
        if name != "score":
            check_same_labels(score, array, ("score", name))
        if whole_items and array.chunks is not None and dim in array.dims:
            check_one_chunk(array.chunks[array.get_axis_num(dim)], dim, f"variable {name!r}")
    if request.ties == "trec_eval" and "tie_order" not in inputs:
        inputs = inputs | {"tie_order": _tie_order_of(score, dim)}
    names = {
        name: xr.DataArray(np.array([str(label) for label in score.indexes[name]]), dims=name)
        for name in (MODEL, QUERY)
        if name in score.indexes
    }
    inputs = inputs | names if request.missing == "raise" else inputs
    return chunked_alike(inputs)


def chunked_alike(inputs: dict[str, Labelled]) -> dict[str, Labelled]:
    """Chunk what is in memory as the scores are, lest Dask cut its item axis or choose other blocks."""
    lengths = inputs["score"].chunksizes
    if not lengths:
        return inputs
    return {
        name: array if array.chunks is not None else array.chunk({dim: lengths[dim] for dim in array.dims})
        for name, array in inputs.items()
    }


def _tie_order_of(score: xr.DataArray, dim: str) -> xr.DataArray:
    """Return the order of document ids by descending bytes, as trec_eval breaks ties."""
    if dim not in score.indexes:
        raise InvalidInputError(
            "ties='trec_eval' needs to know the order of tied items",
            received=f"neither a variable 'tie_order' nor labels on {dim!r}",
            remedy=f"add 'tie_order', or a coordinate {dim!r} with the document ids",
        )
    documents = [str(document).encode() for document in score.indexes[dim]]
    order = sorted(range(len(documents)), key=documents.__getitem__, reverse=True)
    place = np.empty(len(documents), dtype=np.int32)
    place[order] = np.arange(len(documents), dtype=np.int32)
    return xr.DataArray(place, dims=dim)


def score_inputs(dataset: xr.Dataset, positive_from: int | None, path: str) -> dict[str, xr.DataArray]:
    """Return the variables of a score data set that an evaluation reads."""
    names = ("score", "label", "weight", "positive_weight", "negative_weight", "tie_order", "n_positive")
    inputs = {name: dataset[name] for name in names if name in dataset}
    total = inputs.get("n_positive")
    if total is not None and GRADE in total.dims:
        grade = positive_from or 1
        if grade not in total.indexes.get(GRADE, ()):
            raise InvalidInputError(
                "n_positive is not known at this grade",
                where=f"data set {path!r}" if path else "variable 'n_positive'",
                received=f"positive_from={grade}",
                allowed=f"grades {list(total.indexes.get(GRADE, ()))}",
            )
        inputs["n_positive"] = total.sel({GRADE: grade}, drop=True)
    return {name: array.drop_vars([c for c in array.coords if c not in array.dims]) for name, array in inputs.items()}


def clusters_of(dataset: xr.Dataset) -> xr.DataArray | None:
    """Return the number of each item's cluster, in the order of appearance; None if items have none."""
    if "cluster" not in dataset or dataset["cluster"].dims != (ITEM,):
        return None
    check_same_labels(dataset["score"], dataset["cluster"], ("score", "cluster"))
    codes, _ = pd.factorize(np.asarray(dataset["cluster"]), use_na_sentinel=False)
    return xr.DataArray(codes.astype(np.int64), dims=ITEM)


def labelled_inputs(inputs: dict[str, Any], dim: str) -> dict[str, xr.DataArray]:
    """Return DataArrays with scores of a float type; raise unless all are labelled."""
    for name, array in inputs.items():
        if not isinstance(array, xr.DataArray) and not (name == "n_positive" and np.ndim(array) == 0):
            raise InvalidInputError(
                f"{name!r} must be a DataArray, because 'score' is one",
                received=type(array).__name__,
                remedy="give both labels, or pass score.values",
            )
    labelled = {name: xr.DataArray(array) for name, array in inputs.items()}
    if dim not in labelled["score"].dims:
        raise InvalidInputError(
            f"'score' has no dimension {dim!r}",
            received=f"({', '.join(map(str, labelled['score'].dims))})",
            remedy="name the item dimension: dim=...",
        )
    for name, index in labelled["score"].indexes.items():
        check_unique(index, str(name), "variable 'score'")
    _refuse_inexact(labelled["score"].data)
    labelled["score"] = labelled["score"].astype(_float_type(labelled["score"].dtype))
    return labelled


def plain_inputs(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return NumPy or Dask arrays with scores of a float type."""
    arrays = {
        name: value if isinstance(value, np.ndarray | da.Array) else np.asarray(value) for name, value in inputs.items()
    }
    _refuse_inexact(arrays["score"])
    arrays["score"] = arrays["score"].astype(_float_type(arrays["score"].dtype))
    for name, array in arrays.items():
        if isinstance(array, np.ma.MaskedArray):
            raise InvalidInputError(
                f"{name!r} is a masked array, whose mask would be lost",
                remedy="fill masked scores with NaN and choose missing=, masked labels with -2 (padding)",
            )
        if name in ITEM_ROLES and array.ndim == 0:
            raise InvalidInputError(f"{name!r} has no item axis", received="a scalar")
    return arrays


def _refuse_inexact(score: Any) -> None:
    """Raise if integer scores would tie when converted to float64."""
    wide = isinstance(score, np.ndarray) and score.dtype.kind in "iu" and score.dtype.itemsize == 8 and score.size > 0
    if wide and max(abs(int(score.min())), abs(int(score.max()))) > EXACT_INTEGERS:
        raise InvalidInputError(
            "integer scores beyond 2**53 cannot be told apart in float64",
            where="'score'",
            received=f"scores from {score.min()} to {score.max()}",
            remedy="pass their ranks, or subtract a constant first",
        )


def _float_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.kind not in "fiub":
        raise InvalidInputError(
            "scores are not numeric",
            where="'score'",
            received=f"dtype {dtype}",
            allowed="float32 or float64; integers are converted",
        )
    return np.dtype(np.float32 if dtype in (np.float16, np.float32) else np.float64)
