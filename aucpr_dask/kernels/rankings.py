"""Rankings of items without weights: from scores and labels to rows of numbers.

There are two routes to the tie groups of a ranking, which give the same bits. If positives are few, only they are
sorted, and the negatives are counted in the gaps between them. Otherwise all items are sorted, each class by itself; or
both at once, where a score and a label fit one number that sorts in their place. Short rankings share calls of kernels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.kernels import classes, points, sorting
from aucpr_dask.kernels.areas import COUNTS, finish_rows
from aucpr_dask.kernels.compiling import needs_no_compiling
from aucpr_dask.kernels.first_calls import SHORT
from aucpr_dask.kernels.options import N_COLUMNS, Array, Indices, Options, Targets
from aucpr_dask.kernels.sorting import Floats

PACKED = 1024  # items up to which NumPy sorts all of float32 faster than gaps are counted,
SHORT_POSITIVES = 128  # and positives, on average, up to which only these are sorted: NumPy sorts many faster
WORTH_COMPILING = 1 << 21  # items in a call for which gaps are compiled: sorting all compiles in a third of the time
CACHE_ITEMS = 1 << 16  # scores in one call, so that they stay in a core's cache
FEW_POSITIVES = 1 / 16  # share of positives up to which a long ranking of float32 sorts only them; float64: twice
TABLE_POSITIVES = 1 << 18  # positives from which the table of gaps is too large for the caches


def evaluate_rows(
    score: Floats, label: NDArray[np.int8], label_row: Indices, n_given: Array, options: Options, codes: Indices
) -> Array:
    """Evaluate rankings with hard labels; the result has the shape (rows, numbers + len(COLUMNS)).

    `score` (rows, items) is float32 or float64, and row i has the labels ``label[label_row[i]]``, int8. `n_given`
    (rows,) is the number of all positives, or NaN for those among the items. The numbers need tie groups only.
    """
    n_rows, n_items = score.shape
    out = np.full((n_rows, codes.size + N_COLUMNS), np.nan)
    if n_items > SHORT:
        for row in range(n_rows):
            found = _groups_of_long(score[row], label[label_row[row]], options)
            finish_rows(*found, n_given[row : row + 1], options, codes, out[row : row + 1])
        return out
    is_worth = score.size >= WORTH_COMPILING
    may_pack = is_worth or needs_no_compiling("sorting.packed_groups")
    may_pack &= score.dtype == np.float32 and n_items <= PACKED
    has_few = np.count_nonzero(label >= options.positive_from) <= SHORT_POSITIVES * len(label)
    by_gaps = has_few and (is_worth or needs_no_compiling("classes.groups_in_gaps"))
    step = max(1, CACHE_ITEMS // max(1, n_items))
    space = np.empty((3, min(step, n_rows), n_items + 1))
    for start in range(0, n_rows, step):
        part = slice(start, start + step)
        n_groups, counts = np.empty(len(out[part]), np.int64), np.empty((len(out[part]), COUNTS))
        given = label, label_row[part], options
        if may_pack and sorting.groups_of_packed(score[part], *given, space, n_groups, counts):
            pass
        elif by_gaps:  # in float64 only, to compile it once
            classes.groups_in_gaps(score[part].astype(np.float64), *given, space, n_groups, counts)
        else:
            classes.groups_in_order(*_sorted_classes(score[part], *given, counts), space, n_groups, counts)
        finish_rows(space, n_groups, counts, n_given[part], options, codes, out[part])
    return out


def _sorted_classes(
    score: Floats, label: NDArray[np.int8], label_row: Indices, options: Options, counts: Array
) -> tuple[Floats, Floats]:
    """Return the scores of the positives and of the negatives of rankings, ascending, and fill their counts."""
    positive, negative = np.empty((2, len(score), score.shape[1] + 1), score.dtype)
    classes.split_rows(score, label, label_row, options, positive, negative, counts)
    for row, (n_positive, n_negative) in enumerate(counts[:, :2].astype(np.int64).tolist()):
        sorting.sort_scores(positive[row, :n_positive])
        sorting.sort_scores(negative[row, :n_negative])
    return positive, negative


def _groups_of_long(score: Floats, label: NDArray[np.int8], options: Options) -> tuple[Array, Indices, Array]:
    """Return the tie groups of one long ranking in a space, their number, and its counts."""
    few = min(TABLE_POSITIVES, FEW_POSITIVES * score.nbytes / 4)  # wider scores take longer to sort
    one = score[np.newaxis], label[np.newaxis], np.zeros(1, np.int64), options
    counts, positive = np.empty((1, COUNTS)), np.empty((1, score.size + 1), score.dtype)
    is_complete = classes.survey(score, label, options, few, positive[0], counts[0])
    n_positive = int(counts[0, 0])
    space, n_groups = np.empty((3, 1, n_positive + 1)), np.full(1, -1)
    if is_complete and n_positive <= few:
        sorting.sort_scores(positive[0, :n_positive])
        n_groups[0] = classes.count_in_gaps(positive[0, :n_positive], score, space[:, 0], counts[0])
    if is_complete and n_groups[0] < 0 and score.dtype == np.float32:
        sorting.groups_of_packed(*one, space, n_groups, counts)
    if n_groups[0] < 0:
        negative = np.empty_like(positive)
        classes.split_rows(*one, positive, negative, counts)
        n_positive, n_negative = counts[0, :2].astype(np.int64).tolist()
        positives, negatives = positive[0, :n_positive], negative[0, :n_negative]
        sorting.sort_scores(positives)
        if n_positive <= few:
            n_groups[0] = classes.count_in_gaps(positives, negatives, space[:, 0], counts[0])
        if n_groups[0] < 0:
            sorting.sort_scores(negatives)
            classes.groups_in_order(positive, negative, space, n_groups, counts)
    return space, n_groups, counts


def evaluate_all_rows(
    score: Floats, label: NDArray[np.int8], label_row: Indices, n_given: Array, options: Options, targets: Targets
) -> Array:
    """Evaluate rankings as :func:`evaluate_rows` does, by any estimator, over any range of recall."""
    out = np.full((len(score), targets.codes.size + N_COLUMNS), np.nan)
    space, counts = np.empty((7, score.shape[1] + 2)), np.empty((1, COUNTS))
    for row in range(len(score)):
        part = slice(row, row + 1)
        positive, negative = _sorted_classes(score[part], label, label_row[part], options, counts)
        n_positive, n_negative = counts[0, :2].astype(np.int64).tolist()
        scores = positive[0, :n_positive].astype(np.float64), negative[0, :n_negative].astype(np.float64)
        points.all_points_row(*scores, space, counts[0], n_given[row], options, targets, out[row])
    return out
