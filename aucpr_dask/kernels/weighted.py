"""One ranking whose items carry weights as positives and as negatives."""

import numpy as np
from numba import types

from aucpr_dask.kernels.compiling import Cache, helper
from aucpr_dask.kernels.finishing import Ranking, count_distinct, finish
from aucpr_dask.kernels.ranking import Classes, blocks_by_weights, new_blocks, two_sum
from aucpr_dask.kernels.signatures import F8, I8, OPTIONS_TYPE, row_of

CACHE = Cache("weighted")


@helper
def weight_of(items, positive_weight, negative_weight):
    """Return the summed weights of some items in both classes."""
    positives = positives_error = negatives = negatives_error = 0.0
    for k in range(items.size - 1, -1, -1):
        positives, positives_error = two_sum(positives, positives_error, positive_weight[items[k]])
        negatives, negatives_error = two_sum(negatives, negatives_error, negative_weight[items[k]])
    return positives + positives_error, negatives + negatives_error


@CACHE.kernel(types.void(row_of(F8), row_of(I8), row_of(F8), row_of(F8), OPTIONS_TYPE, row_of(I8), F8[::1]))
def weighted_row(score, order, positive_weight, negative_weight, options, codes, out):
    """Evaluate one weighted ranking; `order` sorts it in ascending order, NaN last."""
    n_ranked = order.size
    while n_ranked > 0 and np.isnan(score[order[n_ranked - 1]]):
        n_ranked -= 1
    blocks = new_blocks(n_ranked)
    n_blocks = blocks_by_weights(score, order[:n_ranked], positive_weight, negative_weight, blocks)
    positives, negatives = weight_of(order[:n_ranked], positive_weight, negative_weight)
    missing_positives, missing_negatives = weight_of(order[n_ranked:], positive_weight, negative_weight)
    classes = Classes(positives, negatives, missing_positives, missing_negatives)
    ranked = score[order[:n_ranked]]
    ranking = Ranking(
        classes,
        0.0,
        float(order.size - n_ranked),
        float(n_ranked),
        count_distinct(ranked, ranked),
    )
    finish(ranking, blocks, n_blocks, options, codes, out)


CACHE.publish()
