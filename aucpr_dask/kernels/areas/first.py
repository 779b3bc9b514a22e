"""The compiled loop of first calls: small, so that it compiles in half the time of the other ones."""

import numpy as np
from numba import types

from aucpr_dask.kernels.areas.finishing import count_distinct, finish_common, ranking_of, split
from aucpr_dask.kernels.compiling import Cache
from aucpr_dask.kernels.rankings.searching import groups_by_searching, sort_few
from aucpr_dask.kernels.rankings.tie_groups import new_groups
from aucpr_dask.kernels.signatures import F8, I1, I8, OPTIONS_TYPE, row_of, rows_of

CACHE = Cache(__name__)


@CACHE.kernel(types.void(rows_of(F8), rows_of(I1), row_of(I8), row_of(F8), OPTIONS_TYPE, row_of(I8), F8[:, ::1]))
def first_rows(score, label, label_row, n_given, options, codes, out):
    """Evaluate every row of `score`, each by its row of labels; `codes` are common ones."""
    n_rows, n_items = score.shape
    groups = new_groups(n_items)
    tally = np.empty(2 * n_items + 2, np.uint32)
    positive = np.empty(2 * n_items + 1)
    negative = np.empty(n_items + 1)
    for row in range(n_rows):
        classes = split(score[row], label[label_row[row]], options, positive, negative)
        positives = positive[: np.int64(classes.positives)]
        negatives = negative[: np.int64(classes.negatives)]
        sort_few(positives)
        n_groups = groups_by_searching(positive, positives.size, negatives, tally, groups)
        ranking = ranking_of(classes, n_given[row], count_distinct(negatives, positives))
        finish_common(ranking, groups, n_groups, options, codes, out[row])


CACHE.publish()
