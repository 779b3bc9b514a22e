"""What a call is given, checked: options against each other, arrays against each other by label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import dask.array as da
import numpy as np
import pandas as pd
import xarray as xr

from aucpr_dask.blocks import ITEM_ROLES, Request
from aucpr_dask.errors import InvalidInputError, explain
from aucpr_dask.scores.validate import check_one_chunk, check_same_labels, check_unique
from aucpr_dask.specs import ESTIMATORS, MISSING, TIES, UNJUDGED, choose, parse_estimator
from aucpr_dask.variables import GRADE, ITEM, MODEL, QUERY

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
            explain(
                "ties='trec_eval' needs to know the order of tied items",
                received=f"neither a variable 'tie_order' nor labels on {dim!r}",
                remedy=f"add 'tie_order', or a coordinate {dim!r} with the document ids",
            )
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
                explain(
                    "n_positive is not known at this grade",
                    where=f"data set {path!r}" if path else "variable 'n_positive'",
                    received=f"positive_from={grade}",
                    allowed=f"grades {list(total.indexes.get(GRADE, ()))}",
                )
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
                explain(
                    f"{name!r} must be a DataArray, because 'score' is one",
                    received=type(array).__name__,
                    remedy="give both labels, or pass score.values",
                )
            )
    labelled = {name: xr.DataArray(array) for name, array in inputs.items()}
    if dim not in labelled["score"].dims:
        raise InvalidInputError(
            explain(
                f"'score' has no dimension {dim!r}",
                received=f"({', '.join(map(str, labelled['score'].dims))})",
                remedy="name the item dimension: dim=...",
            )
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
                explain(
                    f"{name!r} is a masked array, whose mask would be lost",
                    remedy="fill masked scores with NaN and choose missing=, masked labels with -2 (padding)",
                )
            )
        if name in ITEM_ROLES and array.ndim == 0:
            raise InvalidInputError(explain(f"{name!r} has no item axis", received="a scalar"))
    return arrays


def _refuse_inexact(score: Any) -> None:
    """Raise if integer scores would tie when converted to float64."""
    wide = isinstance(score, np.ndarray) and score.dtype.kind in "iu" and score.dtype.itemsize == 8 and score.size > 0
    if wide and max(abs(int(score.min())), abs(int(score.max()))) > EXACT_INTEGERS:
        raise InvalidInputError(
            explain(
                "integer scores beyond 2**53 cannot be told apart in float64",
                where="'score'",
                received=f"scores from {score.min()} to {score.max()}",
                remedy="pass their ranks, or subtract a constant first",
            )
        )


def _float_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.kind not in "fiub":
        raise InvalidInputError(
            explain(
                "scores are not numeric",
                where="'score'",
                received=f"dtype {dtype}",
                allowed="float32 or float64; integers are converted",
            )
        )
    return np.dtype(np.float32 if dtype in (np.float16, np.float32) else np.float64)


def checked_request(
    names: tuple[str, ...],
    prevalence: float | None,
    missing: str,
    ties: str,
    unjudged: str,
    positive_from: int | None,
    given: set[str],
    recall_range: tuple[float, float] = (0.0, 1.0),
) -> Request:
    """Check the options against each other and against the variables that are given."""
    choose(MISSING, missing, "missing")
    choose(TIES, ties, "ties")
    choose(UNJUDGED, unjudged, "unjudged")
    weights = given & {"weight", "positive_weight", "negative_weight"}
    soft = weights - {"weight"}
    specs = [parse_estimator(name)[0] for name in names]
    for spec in specs:
        choose(spec.ties, ties, f"ties for {spec.name!r}")
    recall_range = _range(recall_range)
    part = recall_range != (0.0, 1.0)
    unweightable = [spec.name for spec in specs if not spec.weights]
    whole_only = [spec.name for spec in specs if not spec.partial]
    for clash, what in (
        (len(soft) == 1, "soft labels need both positive_weight and negative_weight"),
        (bool(soft) == ("label" in given), "give either a label, or positive_weight and negative_weight"),
        (bool(soft) and "weight" in given, "weight and soft labels exclude each other: multiply them"),
        (bool(weights) and ties != "block", "with weights, ties can only stand in blocks"),
        (bool(weights) and "n_positive" in given, "n_positive has no meaning with weights: unseen ones have none"),
        (bool(weights) and bool(unweightable), f"{', '.join(unweightable)}: no meaning with weights or soft labels"),
        (part and bool(whole_only), f"{', '.join(whole_only)}: no meaning over a range of recall"),
        (part and ties == "expectation", "ties in expectation have no area over a range of recall"),
        (prevalence is not None and ties == "expectation", "ties in expectation have no other prevalence"),
        (positive_from is not None and positive_from < 1, "positive_from must be at least 1"),
    ):
        if clash:
            raise InvalidInputError(
                explain(what, received=f"{', '.join(sorted(given))}; ties={ties!r}, prevalence={prevalence!r}")
            )
    if prevalence is not None:
        prevalence = fraction(prevalence, "prevalence")
    return Request(names, missing, ties, unjudged, positive_from, prevalence, recall_range)


def estimator_names(estimator: str | Sequence[str]) -> tuple[str, ...]:
    """Return one or more names of estimators, each known and each once."""
    names = (estimator,) if isinstance(estimator, str) else tuple(estimator)
    if not names or len(set(names)) < len(names):
        raise InvalidInputError(
            explain("name one or more estimators, each once", received=repr(estimator), allowed=", ".join(ESTIMATORS))
        )
    for name in names:
        parse_estimator(name)
    return names


def _range(recall_range: tuple[float, float]) -> tuple[float, float]:
    try:
        low, high = map(float, recall_range)
    except (TypeError, ValueError):
        low, high = 1.0, 0.0
    if 0 <= low < high <= 1:
        return low, high
    raise InvalidInputError(
        explain("recall_range is two recalls", received=repr(recall_range), allowed="0 <= low < high <= 1")
    )


def fraction(value: float, option: str) -> float:
    """Return a number between 0 and 1, both excluded."""
    if isinstance(value, int | float | np.number) and 0 < value < 1:
        return float(value)
    raise InvalidInputError(explain(f"{option} must lie between 0 and 1", received=repr(value)))
