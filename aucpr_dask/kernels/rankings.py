"""Rankings of items without weights: from scores and labels to rows of numbers.

There are two ways to the tie groups of a ranking, which give the same bits. If it is long and its positives are few,
only they are sorted, and the negatives are counted in the gaps between them: three times as fast at 1 % positive.
Otherwise the items are sorted, each class by itself. Short rankings share calls of kernels. Keys of float32 that carry
their label, sorted once, would make a whole call 1.25 times faster, and were left out for that.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.kernels import classes, gaps, sorting
from aucpr_dask.kernels.areas import COUNTS, fill_tallied_groups
from aucpr_dask.kernels.by_numpy import SHORT
from aucpr_dask.kernels.operating_points import all_points_row, finish_rows
from aucpr_dask.kernels.options import N_COLUMNS, Array, Indices, Options, Targets, targets_of
from aucpr_dask.kernels.sorting import Floats

CACHE_ITEMS = 1 << 16  # scores in one call, so that they stay in a core's cache
FEW_POSITIVES = 1 / 16  # share of positives up to which a long ranking of float32 sorts only them; float64: twice
TABLE_POSITIVES = 1 << 18  # positives from which the table of gaps misses the caches, and sorting takes a third

_Groups = tuple[Array, Indices, Array]  # a space of (3, rows, groups), how many groups each row has, and its counts


def evaluate_rows(
    score: Floats, label: NDArray[np.int8], label_row: Indices, n_given: Array, options: Options, codes: Indices
) -> Array:
    """Evaluate rankings as :func:`evaluate_all_rows` does, by numbers without parameters, over all recalls."""
    targets = targets_of(codes.tolist(), [np.nan] * codes.size, (0, 1))
    return evaluate_all_rows(score, label, label_row, n_given, options, targets)


def evaluate_all_rows(
    score: Floats, label: NDArray[np.int8], label_row: Indices, n_given: Array, options: Options, targets: Targets
) -> Array:
    """Evaluate rankings with hard labels; the result has the shape (rows, numbers + len(COLUMNS)).

    `score` (rows, items) is float32 or float64, and row i has the labels ``label[label_row[i]]``, int8. `n_given`
    (rows,) is the number of all positives, or NaN for those among the items.
    """
    n_rows, n_items = score.shape
    out = np.full((n_rows, targets.codes.size + N_COLUMNS), np.nan)
    if targets.need_every_point:
        space, counts = np.empty((7, n_items + 2)), np.empty((1, COUNTS))
        for row in range(n_rows):
            part = slice(row, row + 1)
            positive, negative = _sorted_classes(score[part], label, label_row[part], options, counts)
            n_positive, n_negative = counts[0, :2].astype(np.int64).tolist()
            scores = positive[0, :n_positive].astype(np.float64), negative[0, :n_negative].astype(np.float64)
            all_points_row(*scores, space, counts[0], n_given[row], options, targets, out[row])
        return out
    step = 1 if n_items > SHORT else max(1, CACHE_ITEMS // max(1, n_items))
    for start in range(0, n_rows, step):
        part = slice(start, start + step)
        found = _groups_in_gaps(score[start], label[label_row[start]], options) if n_items > SHORT else None
        found = found or _groups_in_order(score[part], label, label_row[part], options)
        finish_rows(*found, n_given[part], options, targets, out[part])
    return out


def few_positives(score: Floats, extra_bytes: int = 0) -> float:
    """Return the number of positives up to which only they are sorted: wider items take longer to sort."""
    return min(TABLE_POSITIVES, FEW_POSITIVES * score.size * (score.itemsize + extra_bytes) / 4)


def _groups_in_gaps(score: Floats, label: NDArray[np.int8], options: Options) -> _Groups | None:
    """Return the tie groups of one ranking from its positives in order; None if these are many, or lie too close."""
    few, counts = few_positives(score), np.empty((1, COUNTS))
    positive = np.empty((1, score.size + 1), score.dtype)
    are_ranked = classes.copy_positives(score, label, options, few, positive[0], counts[0])
    if counts[0, 0] > few:
        return None
    other = score
    if not are_ranked:
        negative = np.empty_like(positive)
        one = score[np.newaxis], label[np.newaxis], np.zeros(1, np.int64), options
        classes.split_rows(*one, positive, negative, counts)
        other = negative[0, : int(counts[0, 1])]
    positives = positive[0, : int(counts[0, 0])]
    sorting.sort_scores(positives)
    counts[0, 6] = classes.find_distinct(other, positives, np.empty(3))
    value, times = gaps.distinct_scores(positives)
    space, n_groups = np.empty((3, 1, times.size + 1)), np.array([times.size])
    if times.size > 0:
        tally = np.empty(2 * value.size, np.uint32)
        if not gaps.tally_scores(value, other, True, tally):
            return None
        if are_ranked:  # all have been counted: it costs less to subtract the positives than to separate them
            tally[1:-1:2] -= times.astype(np.uint32)
        fill_tallied_groups(times.astype(np.float64), tally.astype(np.float64), space[:, 0])
    return space, n_groups, counts


def _groups_in_order(score: Floats, label: NDArray[np.int8], label_row: Indices, options: Options) -> _Groups:
    """Return the tie groups of rankings from their items in order."""
    n_groups, counts = np.empty(len(score), np.int64), np.empty((len(score), COUNTS))
    positive, negative = _sorted_classes(score, label, label_row, options, counts)
    space = np.empty((3, len(score), int(counts[:, 0].max(initial=0)) + 1))
    classes.groups_in_order(positive, negative, space, n_groups, counts)
    return space, n_groups, counts


def _sorted_classes(
    score: Floats, label: NDArray[np.int8], label_row: Indices, options: Options, counts: Array
) -> tuple[Floats, Floats]:
    """Return the scores of the positives and of the negatives of rankings, ascending, and fill their counts."""
    positive, negative = np.full((2, len(score), score.shape[1] + 1), np.inf, score.dtype)
    classes.split_rows(score, label, label_row, options, positive, negative, counts)
    rows = np.arange(len(score))
    for of_class, number in ((positive, counts[:, 0]), (negative, counts[:, 1])):
        of_class[rows, number.astype(np.int64)] = np.inf  # sorted last, as what lies behind: one sort is for all rows
        sorting.sort_rows_of_scores(of_class[:, : int(number.max(initial=0))])
    return positive, negative
