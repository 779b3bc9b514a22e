"""Which values labels, weights and numbers of items may take."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.errors import InvalidInputError, few
from aucpr_dask.schema.variables import PADDING

HIGHEST_GRADE = 127
MOST_COUNTED = 2**53  # larger whole numbers are not exact in float64
LEAST_COUNT = 1e-100  # above 0: the inverse of its square is finite
NAME_A_GRADE = (
    "pass positive_from=1 (--positive-from 1), or the grade from which your task counts positives; "
    "convention='trec_eval' (--convention trec_eval) sets it to 1, too"
)
EXACT_INTEGERS = 2**53  # up to here, float64 holds every integer


def are_rounded(integers: NDArray[Any]) -> bool:
    """Return whether float64 does not hold some of these integers."""
    return integers.size > 0 and max(abs(int(integers.min())), abs(int(integers.max()))) > EXACT_INTEGERS


def check_labels(label: NDArray[Any], positive_from: int | None, where: str, *, if_grades: str = NAME_A_GRADE) -> None:
    """Raise if a label is outside -2, -1, 0, 1 (with `positive_from`: -2, -1 and whole grades from 0 to 127)."""
    highest = 1 if positive_from is None else HIGHEST_GRADE
    if label.dtype.kind in "iu" and (label.size == 0 or (label.min() >= PADDING and label.max() <= highest)):
        return
    if label.dtype.kind == "b":
        return
    if label.dtype.kind not in "iuf":
        remedy = "convert them: 1 for positive, 0 for negative items"
        raise InvalidInputError("labels are not numbers", where, f"dtype {label.dtype}", "integers or bool", remedy)
    bad = label[~((label >= PADDING) & (label <= highest) & (label == np.rint(label)))]
    if bad.size:
        values = np.unique(bad)
        may_be_grades = positive_from is None and bool(np.all(values > 1))
        received = f"{bad.size} labels with values {few(values)}"
        allowed = f"1 positive, 0 negative, -1 unjudged, -2 padding; whole numbers up to {highest}"
        remedy = f"if these are grades, {if_grades}" if may_be_grades else "correct the labels"
        raise InvalidInputError("labels outside their domain", where, received, allowed, remedy)


def check_weights(weight: NDArray[Any], where: str) -> None:
    """Raise if a weight is negative, NaN or infinite."""
    if weight.dtype.kind not in "fiub":
        received, allowed = f"dtype {weight.dtype}", "integers or floats, not negative"
        raise InvalidInputError("weights must be numbers", where, received, allowed, "convert them")
    # One pass for each limit, without temporary arrays; NaN is neither from 0 nor below infinity.
    if weight.size and not (weight.min() >= 0 and weight.max() < np.inf):
        bad = ~(np.isfinite(weight) & (weight >= 0))
        what = "weights must be finite and not negative"
        received = f"{int(bad.sum())} others, first {weight[bad].flat[0]!r}"
        remedy = "set the weight of an item to 0 to leave it out"
        raise InvalidInputError(what, where, received, "finite numbers from 0", remedy)


def check_counts(count: NDArray[Any], name: str, *, of_rankings: bool = True) -> None:
    """Raise unless numbers of positives are finite and not negative; those of rankings, unless they are whole."""
    allowed = (
        "whole numbers from 0 to 2**53"
        if of_rankings
        else f"0, finite numbers from {LEAST_COUNT}, and NaN where the area is unknown"
    )
    parts = {"where": f"argument {name!r}", "allowed": allowed, "remedy": "give the number of positives"}
    if count.dtype.kind not in "iuf":
        raise InvalidInputError(f"{name} must be numbers", received=f"dtype {count.dtype}", **parts)
    if count.dtype.itemsize < 8:
        count = count.astype(np.float64)
    if count.dtype.kind == "f":
        bad = ~(np.isfinite(count) & (count == np.rint(count))) if of_rankings else np.isinf(count)
    else:
        bad = np.zeros(count.shape, np.bool_)
    bad = bad | (count < 0) | ((count > 0) & (count < LEAST_COUNT)) | (of_rankings & (count > MOST_COUNTED))
    if bad.any():
        received = f"{int(bad.sum())} values, first {float(count[bad].flat[0])!r}"
        raise InvalidInputError(f"{name} is outside its range", received=received, **parts)


def check_tie_order(order: NDArray[Any]) -> None:
    """Raise unless an order of tied items holds numbers, none of them NaN."""
    parts = {"where": "argument 'tie_order'", "allowed": "integers; the smallest comes first", "remedy": "number items"}
    if order.dtype.kind not in "iuf":
        raise InvalidInputError("tie_order must be numbers", received=f"dtype {order.dtype}", **parts)
    if order.dtype.kind == "f" and not np.isfinite(order).all():
        raise InvalidInputError("tie_order holds NaN or infinity", received=f"dtype {order.dtype}", **parts)


def refuse_other_lengths(sizes: dict[str, int]) -> None:
    """Raise unless all arrays, by name, have the same number of items."""
    if len(set(sizes.values())) > 1:
        received = ", ".join(f"{name} {size}" for name, size in sizes.items())
        allowed, remedy = "arrays with the same number of items", "give one value of each array for each item"
        raise InvalidInputError("arrays differ in the number of items", "the last axis", received, allowed, remedy)
