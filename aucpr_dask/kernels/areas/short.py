"""The compiled loop over short rankings; in float64 only, to compile it once."""

import numpy as np
from numba import types

from aucpr_dask.kernels.areas.finishing import count_distinct, finish, ranking_of, split
from aucpr_dask.kernels.compiling import Cache
from aucpr_dask.kernels.rankings.searching import sort_few
from aucpr_dask.kernels.rankings.tie_groups import groups_by_gaps, new_groups, new_table
from aucpr_dask.kernels.signatures import F8, I1, I8, OPTIONS_TYPE, row_of, rows_of

CACHE = Cache(__name__)


@CACHE.kernel(types.void(rows_of(F8), rows_of(I1), row_of(I8), row_of(F8), OPTIONS_TYPE, row_of(I8), F8[:, ::1]))
def short_rows(score, label, label_row, n_given, options, codes, out):
    """Evaluate every row of `score`, each by its row of labels."""
    n_rows, n_items = score.shape
    table = new_table(n_items, score)
    groups = new_groups(n_items)
    positive = np.empty(n_items + 1, score.dtype)
    negative = np.empty(n_items + 1, score.dtype)
    for row in range(n_rows):
        labels = label[label_row[row]]
        classes = split(score[row], labels, options, positive, negative)
        positives = positive[: np.int64(classes.positives)]
        negatives = negative[: np.int64(classes.negatives)]
        sort_few(positives)
        n_groups = groups_by_gaps(positives, negatives, False, table, groups, False)
        ranking = ranking_of(classes, n_given[row], count_distinct(negatives, positives))
        finish(ranking, groups, n_groups, options, codes, out[row])


CACHE.publish()
