"""The items of one weighted ranking: counted, and turned into sorted keys."""

import numpy as np
from numba import types

from aucpr_dask.kernels.compiling import Cache
from aucpr_dask.kernels.rankings.keys import (
    ALL_BITS,
    NEGATIVE,
    POSITIVE,
    SCORE_BITS,
    SIGN,
    ascending_bits,
    classes_of,
    first_kept,
    key_of,
    place_of,
)
from aucpr_dask.kernels.rankings.tie_groups import two_sum
from aucpr_dask.kernels.signatures import F4, F8, FLOATS, I8, OF_ITEMS, U8, row_of

CACHE = Cache(__name__)


@CACHE.kernel(*(types.void(row_of(x), *OF_ITEMS, F8[::1]) for x in FLOATS))
def count_items(score, classes, positive_weight, negative_weight, facts):
    """Count what has a weight: positives, negatives and items with a score, items without; and weigh the latter."""
    n_positive = n_negative = n_ranked = n_missing = 0
    for i in range(score.size):
        of = classes_of(classes[i], positive_weight[i], negative_weight[i])
        has_score = score[i] == score[i]
        n_positive += has_score & (of & POSITIVE != 0)
        n_negative += has_score & (of & NEGATIVE != 0)
        n_ranked += has_score & (of != 0)
        n_missing += (not has_score) & (of != 0)
    missing_positives = positives_error = missing_negatives = negatives_error = 0.0
    for i in range(score.size if n_missing > 0 else 0):
        if np.isnan(score[i]) and classes[i] & POSITIVE:
            missing_positives, positives_error = two_sum(missing_positives, positives_error, positive_weight[i])
        if np.isnan(score[i]) and classes[i] & NEGATIVE:
            missing_negatives, negatives_error = two_sum(missing_negatives, negatives_error, negative_weight[i])
    facts[0], facts[1], facts[2], facts[3] = n_positive, n_negative, n_ranked, n_missing
    facts[4], facts[5] = missing_positives + positives_error, missing_negatives + negatives_error


@CACHE.kernel(types.void(row_of(F4), *OF_ITEMS, U8[::1]))
def keys_of_scores(score, classes, positive_weight, negative_weight, keys):
    """Fill `keys`, to be sorted. Without branches, so that it compiles to vector instructions."""
    bits = score.view(np.uint32)
    for i in range(score.size):
        of = classes_of(classes[i], positive_weight[i], negative_weight[i])
        key = key_of(ascending_bits(bits[i], score[i], SIGN, ALL_BITS), of, i)
        keys[i] = key if (of != 0) & (score[i] == score[i]) else np.uint64(0)


@CACHE.kernel(types.boolean(row_of(F8), U8[::1]))
def refine_keys(score, keys):
    """Turn sorted keys of scores rounded to float32 into those of ranks; return False if many are in another order."""
    low = (np.uint64(1) << SCORE_BITS) - np.uint64(1)
    first = start = first_kept(keys)
    rank = low - np.uint64(keys.size - first)
    n_moves = 0
    while start < keys.size:
        end = start + 1
        while end < keys.size and (keys[end] ^ keys[start]) >> SCORE_BITS == np.uint64(0):
            key, x, k = keys[end], score[place_of(keys[end])], end
            while k > start and x < score[place_of(keys[k - 1])]:
                keys[k] = keys[k - 1]
                k -= 1
            keys[k] = key
            n_moves += end - k
            end += 1
        if n_moves > keys.size:
            return False
        for k in range(start, end):
            is_tied = k > start and score[place_of(keys[k])] == score[place_of(keys[k - 1])]
            rank += np.uint64(not is_tied)
            keys[k] = (rank << SCORE_BITS) | (keys[k] & low)
        start = end
    return True


@CACHE.kernel(types.void(row_of(F8), row_of(I8), *OF_ITEMS, U8[::1]))
def keys_of_ranks(score, ascending, classes, positive_weight, negative_weight, keys):
    """Fill `keys`, sorted, from the places of the items in ascending order of their scores."""
    free = keys.size
    rank = np.uint64(2**32)
    above = np.nan
    for k in range(ascending.size - 1, -1, -1):
        i = np.uint64(ascending[k])
        of = classes_of(classes[i], positive_weight[i], negative_weight[i])
        if of != 0 and score[i] == score[i]:
            rank -= np.uint64(score[i] != above)
            above = score[i]
            free -= 1
            keys[free] = key_of(rank, of, i)
    keys[:free] = 0


CACHE.publish()
