"""The classes of rankings without weights: split, counted, and in order brought into tie groups.

Scores and labels come in rows of items, and leave as `COUNTS` and tie groups in a space of (3, rows, groups).
"""

from __future__ import annotations

import numpy as np
from numba import types

from aucpr_dask.kernels import tie_groups
from aucpr_dask.kernels.compiling import F8, FLOATS, I1, I8, OPTIONS_TYPE, helper, kernel, row_of, rows_of
from aucpr_dask.kernels.tie_groups import SEGMENT, TieGroups


@helper
def count_classes(score, label, options):
    """Count the items, the positives among them and the missing scores."""
    lowest = np.int8(options.drop_unjudged - 1)
    positive_from = np.int8(options.positive_from)
    n_items = n_positive = n_missing = 0
    for i in range(label.size):
        n_items += label[i] >= lowest
        n_positive += label[i] >= positive_from
    for i in range(score.size):
        n_missing += np.isnan(score[i])
    return n_items, n_positive, n_missing


@helper
def fill_counts(counts, positives, negatives, missing_positives, missing_negatives):
    """Fill all `COUNTS` of one ranking but the last."""
    counts[0], counts[1], counts[2], counts[3] = positives, negatives, missing_positives, missing_negatives
    counts[4], counts[5] = missing_positives + missing_negatives, positives + negatives


@helper
def split(score, label, options, positive, negative, counts):
    """Copy the scores of the two classes without NaN and ignored items, and count them."""
    lowest = np.int8(options.drop_unjudged - 1)
    positive_from = np.int8(options.positive_from)
    all_items, all_positive, missing = count_classes(score, label, options)
    n_positive = n_negative = 0
    # Each score is written to both ends and only one end moves: without branches, random labels cost nothing.
    if missing == 0 and all_items == score.size:
        for i in range(score.size):
            is_positive = label[i] >= positive_from
            positive[n_positive] = score[i]
            negative[n_negative] = score[i]
            n_positive += is_positive
            n_negative += not is_positive
    else:
        for i in range(score.size):
            is_positive = label[i] >= positive_from
            is_ranked = label[i] >= lowest and not np.isnan(score[i])
            positive[n_positive] = score[i]
            negative[n_negative] = score[i]
            n_positive += is_ranked and is_positive
            n_negative += is_ranked and not is_positive
    fill_counts(counts, n_positive, n_negative, all_positive - n_positive, all_items - all_positive - n_negative)
    return positive[:n_positive], negative[:n_negative]


@helper
def distinct_of(first, second, found):
    """Write up to 3 distinct scores of two arrays; return how many there are."""
    n = 0
    for scores in (first, second):
        for i in range(scores.size):
            x = np.float64(scores[i])
            if (n > 0 and x == found[0]) or (n > 1 and x == found[1]):
                continue
            found[n] = x
            n += 1
            if n == 3:
                return n
    return n


@kernel(*(types.int64(row_of(x), row_of(x), F8[::1]) for x in FLOATS))
def find_distinct(first, second, found):
    """Do the work of `distinct_of`."""
    return distinct_of(first, second, found)


_SPACE = F8[:, :, ::1]


@kernel(*(types.void(rows_of(x), rows_of(I1), row_of(I8), OPTIONS_TYPE, *[x[:, ::1]] * 2, F8[:, ::1]) for x in FLOATS))
def split_rows(score, label, label_row, options, positive, negative, counts):
    """Copy the scores of the two classes of rankings, and fill their counts but for distinct scores."""
    for row in range(score.shape[0]):
        split(score[row], label[label_row[row]], options, positive[row], negative[row], counts[row])


@kernel(*(types.void(rows_of(x), rows_of(x), _SPACE, I8[::1], F8[:, ::1]) for x in FLOATS))
def groups_in_order(positive, negative, space, n_groups, counts):
    """Fill the tie groups of rankings from the scores of both classes in ascending order, and count distinct scores."""
    found = np.empty(3)
    for row in range(n_groups.size):
        positives, negatives = positive[row, : np.int64(counts[row, 0])], negative[row, : np.int64(counts[row, 1])]
        groups = TieGroups(space[0, row], space[1, row], space[2, row])
        n_groups[row] = tie_groups.groups_by_merging(positives, negatives, groups)
        counts[row, 6] = distinct_of(negatives, positives, found)


@kernel(*(types.boolean(row_of(x), row_of(I1), OPTIONS_TYPE, F8, x[::1], F8[::1]) for x in FLOATS))
def copy_positives(score, label, options, few, positive, counts):
    """Count the classes, and copy the positives' scores while they are `few`; return whether all items are ranked."""
    positive_from = np.int8(options.positive_from)
    n_items = n_positive = n_missing = 0
    for start in range(0, score.size, SEGMENT):  # counted and copied while it is in the innermost cache
        part, of_part = score[start : start + SEGMENT], label[start : start + SEGMENT]
        items, positives, missing = count_classes(part, of_part, options)
        end = np.uint64(n_positive)
        n_items, n_positive, n_missing = n_items + items, n_positive + positives, n_missing + missing
        for i in range(part.size if n_positive <= few else 0):
            positive[end] = part[i]  # each is written, and that of a positive stays: without branches
            end += np.uint64(of_part[i] >= positive_from)
    fill_counts(counts, n_positive, score.size - n_positive, 0, 0)
    return n_items == score.size and n_missing == 0
