"""The items of one weighted ranking: counted, and turned into sorted keys."""

import numpy as np
from numba import types

from aucpr_dask.kernels.compiling import Cache
from aucpr_dask.kernels.keys import key_of
from aucpr_dask.kernels.ranking import two_sum
from aucpr_dask.kernels.signatures import F4, F8, FLOATS, I1, I8, OPTIONS_TYPE, U8, row_of

CACHE = Cache("ordering")

SIGN, ALL_BITS = np.uint32(2**31), np.uint32(2**32 - 1)


@CACHE.kernel(*(types.void(row_of(x), row_of(I1), row_of(F8), OPTIONS_TYPE, F8[::1]) for x in FLOATS))
def count_items(score, label, weight, options, facts):
    """Count the items that have a weight: positives and negatives with a score, all without; and weigh the latter."""
    lowest, positive_from = np.int8(options.drop_unjudged - 1), np.int8(options.positive_from)
    n_positive = n_ranked = n_missing = 0
    for i in range(score.size):
        is_item = (label[i] >= lowest) & (weight[i] > 0.0)
        is_ranked = is_item & (score[i] == score[i])
        n_positive += is_ranked & (label[i] >= positive_from)
        n_ranked += is_ranked
        n_missing += is_item & (score[i] != score[i])
    missing_positives = positives_error = missing_negatives = negatives_error = 0.0
    for i in range(score.size if n_missing > 0 else 0):
        if np.isnan(score[i]) and label[i] >= positive_from:
            missing_positives, positives_error = two_sum(missing_positives, positives_error, weight[i])
        elif np.isnan(score[i]) and label[i] >= lowest:
            missing_negatives, negatives_error = two_sum(missing_negatives, negatives_error, weight[i])
    facts[0], facts[1], facts[2] = n_positive, n_ranked - n_positive, n_missing
    facts[3], facts[4] = missing_positives + positives_error, missing_negatives + negatives_error


@CACHE.kernel(types.void(row_of(F4), row_of(I1), row_of(F8), OPTIONS_TYPE, U8[::1]))
def keys_of_scores(score, label, weight, options, keys):
    """Fill `keys`, to be sorted. Without branches, so that it compiles to vector instructions."""
    lowest, positive_from = np.int8(options.drop_unjudged - 1), np.int8(options.positive_from)
    bits = score.view(np.uint32)
    for i in range(score.size):
        is_ranked = (label[i] >= lowest) & (weight[i] > 0.0) & (score[i] == score[i])
        pattern = bits[i] if score[i] != 0 else np.uint32(0)  # -0 ties with 0
        # As whole numbers, the patterns of positive scores ascend; those of negative ones descend, above them.
        order = pattern ^ (ALL_BITS if pattern >= SIGN else SIGN)
        key = key_of(order, label[i] >= positive_from, i)
        keys[i] = key if is_ranked else np.uint64(0)


@CACHE.kernel(types.void(row_of(F8), row_of(I8), row_of(I1), row_of(F8), OPTIONS_TYPE, U8[::1]))
def keys_of_ranks(score, ascending, label, weight, options, keys):
    """Fill `keys`, sorted, from the places of the items in ascending order of their scores."""
    lowest, positive_from = np.int8(options.drop_unjudged - 1), np.int8(options.positive_from)
    free = keys.size
    rank = np.uint64(2**32)
    above = np.nan
    for k in range(ascending.size - 1, -1, -1):
        i = np.uint64(ascending[k])
        if label[i] >= lowest and weight[i] > 0.0 and score[i] == score[i]:
            rank -= np.uint64(score[i] != above)
            above = score[i]
            free -= 1
            keys[free] = key_of(rank, label[i] >= positive_from, i)
    keys[:free] = 0


CACHE.publish()
