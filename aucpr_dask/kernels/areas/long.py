"""One long ranking: its classes; its tie groups, from sorted positives or from two sorted classes; its areas."""

import numpy as np
from numba import types

from aucpr_dask.kernels.areas.finishing import count_classes, count_distinct, finish, ranking_of, split
from aucpr_dask.kernels.compiling import Cache
from aucpr_dask.kernels.rankings.tie_groups import Classes, TieGroups, groups_by_gaps, groups_by_merging, new_table
from aucpr_dask.kernels.signatures import F8, FLOATS, I1, I8, OPTIONS_TYPE, row_of

CACHE = Cache(__name__)


@CACHE.kernel(*(types.boolean(row_of(x), row_of(I1), OPTIONS_TYPE, F8, x[::1], F8[::1]) for x in FLOATS))
def survey_row(score, label, options, few, positive, counts):
    """Count the classes, and copy the positives' scores if `few`; return False if an item is not ranked."""
    n_items, n_positive, n_missing = count_classes(score, label, options)
    counts[0], counts[1] = n_positive, score.size - n_positive
    counts[2] = counts[3] = 0.0
    positive_from = np.int8(options.positive_from)
    end = np.uint64(0)
    for i in range(score.size if n_positive <= few else 0):
        positive[end] = score[i]  # each is written, and that of a positive stays: without branches
        end += np.uint64(label[i] >= positive_from)
    return n_items == score.size and n_missing == 0


@CACHE.kernel(*(types.void(row_of(x), row_of(I1), OPTIONS_TYPE, x[::1], x[::1], F8[::1]) for x in FLOATS))
def split_row(score, label, options, positive, negative, counts):
    """Copy the scores of the two classes of one long ranking, and write their counts."""
    classes = split(score, label, options, positive, negative)
    counts[0], counts[1] = classes.positives, classes.negatives
    counts[2], counts[3] = classes.missing_positives, classes.missing_negatives


@CACHE.kernel(*(types.int64(row_of(x), row_of(x), types.boolean, F8[:, ::1], F8[::1]) for x in FLOATS))
def long_row(positive, other, is_sorted, space, counts):
    """Fill the tie groups in `space` from sorted positives and the negatives; return how many there are.

    Return -1 if the negatives must be sorted first. If there are more items than counted negatives, they include the
    positives. The number of distinct scores, up to 3, is written to ``counts[4]``.
    """
    groups = TieGroups(space[0], space[1], space[2])
    if is_sorted:
        n_groups = groups_by_merging(positive, other, groups)
    else:
        table = new_table(positive.size, positive)
        n_groups = groups_by_gaps(positive, other, other.size > counts[1], table, groups, True)
    if n_groups >= 0:
        counts[4] = count_distinct(other, positive)
    return n_groups


@CACHE.kernel(types.void(F8[:, ::1], I8, row_of(F8), F8, OPTIONS_TYPE, row_of(I8), F8[::1]))
def finish_row(space, n_groups, counts, n_given, options, codes, out):
    """Evaluate one long ranking from its tie groups."""
    finish(
        ranking_of(Classes(counts[0], counts[1], counts[2], counts[3]), n_given, np.int64(counts[4])),
        TieGroups(space[0], space[1], space[2]),
        n_groups,
        options,
        codes,
        out,
    )


CACHE.publish()
