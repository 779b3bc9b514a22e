"""Scores without ties: in the order of score, then of `tie_order`, as trec_eval ranks items."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.errors import InvalidInputError

Array = NDArray[Any]

LAST = 2**29 - 1  # the largest number in the bits of a float64 that a float32 leaves at 0
BEYOND = 2.0**200  # above every float32, with these bits at 0 as well
AT_ONCE = 1 << 20  # items


def untied(
    score: Array,
    tie_order: Array,
    tie_row: NDArray[np.int64],
    classes: NDArray[np.int8],
    class_row: NDArray[np.int64],
    missing: str,
) -> NDArray[np.float64]:
    """Return distinct scores that order the items of each ranking by score, then by `tie_order`, smallest first.

    `score` is (ranking, item), `tie_order` (order, item) with `tie_row` the order of each ranking, and `classes` (class
    row, item) with `class_row`: 0 for what is left out, 1 for negatives, 2 for positives, 3 for both. Items without a
    score keep NaN, or come last if `missing` says so. A positive and a negative of one score and place are an error.
    """
    pairs, pair = np.unique(np.column_stack([tie_row, class_row]), axis=0, return_inverse=True)
    pair = pair.ravel()
    place, has_room = _places(tie_order[pairs[:, 0]], classes[pairs[:, 1]] > 0)
    is_single = np.full(len(score), score.dtype in (np.float16, np.float32))
    if score.dtype == np.float64:
        with np.errstate(over="ignore"):
            is_single = ((score.astype(np.float32) == score) | np.isnan(score)).all(axis=1)
    strict = np.empty(score.shape)
    n_rows = max(1, AT_ONCE // max(1, score.shape[1]))
    for start in range(0, len(score), n_rows):
        rows = slice(start, start + n_rows)
        strict[rows] = _with_places(score[rows], place[pair[rows]], missing)
    for row in np.flatnonzero(~(is_single & has_room[pair])):
        strict[row] = _ranks(score[row], tie_order[tie_row[row]], classes[class_row[row]], missing)
    return strict


def _places(tie_order: Array, is_item: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the places of items, from 0 on, and in which orders they are all distinct and at most `LAST`."""
    if tie_order.dtype.kind == "f":
        return np.zeros(tie_order.shape, np.int64), np.zeros(len(tie_order), np.bool_)
    order = tie_order.astype(np.int64)
    limits = np.iinfo(np.int64)
    first = order.min(axis=1, keepdims=True, initial=limits.max, where=is_item)
    last = order.max(axis=1, initial=limits.min, where=is_item)
    place = np.where(is_item, order - first, -1 - np.arange(order.shape[1]))
    has_room = last.astype(np.float64) - first[:, 0] <= LAST
    has_room &= (np.diff(np.sort(place, axis=1), axis=1) > 0).all(axis=1)
    return np.where(is_item, place, 0), has_room


def _with_places(score: Array, place: NDArray[np.int64], missing: str) -> NDArray[np.float64]:
    """Write the places of items into the unused bits of their scores."""
    strict = np.clip(score.astype(np.float64), -BEYOND, BEYOND) + 0.0  # -0 becomes 0
    if missing == "last":
        strict[np.isnan(strict)] = -2.0 * BEYOND
    strict.view(np.int64)[...] += np.where(strict < 0.0, place, LAST - place)  # bits count from 0, up or down
    return strict


def _ranks(score: Array, tie_order: Array, classes: NDArray[np.int8], missing: str) -> NDArray[np.float64]:
    """Return numbers that order the items of one ranking: the first item gets the highest.

    Raise if a positive and a negative have the same score and the same place.
    """
    order = np.lexsort((tie_order, -score))
    kept = order[classes[order] > 0]
    scores, places = score[kept], tie_order[kept]
    is_tied = scores[1:] == scores[:-1]
    if missing == "last":
        is_tied |= np.isnan(scores[1:]) & np.isnan(scores[:-1])
    is_equal = is_tied & (places[1:] == places[:-1]) & (classes[kept][1:] != classes[kept][:-1])
    if is_equal.any():
        what, received = "tie_order does not order tied items", f"the number {places[1:][is_equal][0]}"
        allowed = "different numbers for the items of a ranking that share a score"
        received += " for a positive and a negative of the same score"
        remedy = "number the items of each ranking: 0, 1, 2, ..."
        raise InvalidInputError(what, "argument 'tie_order'", received, allowed, remedy)
    ranks = np.empty(score.size)
    ranks[order] = -np.arange(score.size, dtype=np.float64)
    if missing != "last":
        ranks[np.isnan(score)] = np.nan
    return ranks
