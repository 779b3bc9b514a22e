"""The classes of rankings without weights: split, and brought into tie groups, from few sorted positives or in order.

Scores and labels come in rows of items, and leave as `COUNTS` and tie groups in a space of (3, rows, groups).
"""

from __future__ import annotations

import numpy as np
from numba import types

from aucpr_dask.kernels import tie_groups
from aucpr_dask.kernels.compiling import F8, FLOATS, I1, I8, OPTIONS_TYPE, helper, kernel, row_of, rows_of
from aucpr_dask.kernels.tie_groups import TieGroups

GAPS = (1750, 701, 301, 132, 57, 23, 10, 4, 1)  # of Shellsort, by Ciura (2001), doi:10.1007/3-540-44669-9_12


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
def and_score(x, n, one, two):
    """Return how many distinct scores there are with another one, and the first two of them."""
    if n == 0:
        return 1, x, two
    if x == one or (n == 2 and x == two):
        return n, one, two
    return n + 1, one, x if n == 1 else two


@helper
def count_distinct(first, second):
    """Count the distinct scores of two arrays, up to 3."""
    n, one, two = 0, 0.0, 0.0
    for scores in (first, second):
        for i in range(scores.size):
            n, one, two = and_score(np.float64(scores[i]), n, one, two)
            if n == 3:
                return n
    return n


@helper
def sort_few(values):
    """Sort in place, as fast as quicksort where values are few, in a fraction of its time to compile."""
    for gap in GAPS:
        for i in range(gap, values.size):
            value = values[i]
            k = i
            while k >= gap and values[k - gap] > value:
                values[k] = values[k - gap]
                k -= gap
            values[k] = value


_SPACE = F8[:, :, ::1]


@kernel(types.void(rows_of(F8), rows_of(I1), row_of(I8), OPTIONS_TYPE, _SPACE, I8[::1], F8[:, ::1]))
def groups_in_gaps(score, label, label_row, options, space, n_groups, counts):
    """Fill the tie groups of every row of `score`, each by its row of labels, and its counts, by sorting positives."""
    n_items = score.shape[1]
    table = tie_groups.new_table(n_items, score)
    positive, negative = np.empty(n_items + 1, score.dtype), np.empty(n_items + 1, score.dtype)
    for row in range(score.shape[0]):
        labels = label[label_row[row]]
        positives, negatives = split(score[row], labels, options, positive, negative, counts[row])
        sort_few(positives)
        groups = TieGroups(space[0, row], space[1, row], space[2, row])
        n_groups[row] = tie_groups.groups_by_gaps(positives, negatives, False, table, groups, False)
        counts[row, 6] = count_distinct(negatives, positives)


@kernel(*(types.void(rows_of(x), rows_of(I1), row_of(I8), OPTIONS_TYPE, *[x[:, ::1]] * 2, F8[:, ::1]) for x in FLOATS))
def split_rows(score, label, label_row, options, positive, negative, counts):
    """Copy the scores of the two classes of rankings, and fill their counts but for distinct scores."""
    for row in range(score.shape[0]):
        split(score[row], label[label_row[row]], options, positive[row], negative[row], counts[row])


@kernel(*(types.void(rows_of(x), rows_of(x), _SPACE, I8[::1], F8[:, ::1]) for x in FLOATS))
def groups_in_order(positive, negative, space, n_groups, counts):
    """Fill the tie groups of rankings from the scores of both classes in ascending order, and count distinct scores."""
    for row in range(n_groups.size):
        positives, negatives = positive[row, : np.int64(counts[row, 0])], negative[row, : np.int64(counts[row, 1])]
        groups = TieGroups(space[0, row], space[1, row], space[2, row])
        n_groups[row] = tie_groups.groups_by_merging(positives, negatives, groups)
        counts[row, 6] = count_distinct(negatives, positives)


@kernel(*(types.boolean(row_of(x), row_of(I1), OPTIONS_TYPE, F8, x[::1], F8[::1]) for x in FLOATS))
def survey(score, label, options, few, positive, counts):
    """Count the classes, and copy the positives' scores if `few`; return False if an item is not ranked."""
    n_items, n_positive, n_missing = count_classes(score, label, options)
    fill_counts(counts, n_positive, score.size - n_positive, 0, 0)
    positive_from = np.int8(options.positive_from)
    end = np.uint64(0)
    for i in range(score.size if n_positive <= few else 0):
        positive[end] = score[i]  # each is written, and that of a positive stays: without branches
        end += np.uint64(label[i] >= positive_from)
    return n_items == score.size and n_missing == 0


@kernel(*(types.int64(row_of(x), row_of(x), F8[:, ::1], F8[::1]) for x in FLOATS))
def count_in_gaps(positive, other, space, counts):
    """Fill the tie groups of one long ranking from sorted positives and the negatives; return how many there are.

    Return -1 if the negatives must be sorted first. If there are more items than counted negatives, they include the
    positives.
    """
    groups = TieGroups(space[0], space[1], space[2])
    table = tie_groups.new_table(positive.size, positive)
    n_groups = tie_groups.groups_by_gaps(positive, other, other.size > counts[1], table, groups, True)
    if n_groups >= 0:
        counts[6] = count_distinct(other, positive)
    return n_groups
