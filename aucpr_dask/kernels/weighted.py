"""One weighted ranking: from sorted keys; or, where positives are few, these sorted and the others' weights in gaps."""

import numpy as np
from numba import types

from aucpr_dask.kernels.compiling import Cache, helper
from aucpr_dask.kernels.finishing import count_distinct, finish
from aucpr_dask.kernels.keys import NEGATIVE, POSITIVE, blocks_of_keys, classes_of, weighted_ranking
from aucpr_dask.kernels.ranking import (
    CROWDED,
    LINEAR,
    SEGMENT,
    Blocks,
    GapTable,
    bucket_of,
    bucket_scale,
    buckets_for,
    distinct,
    fill_buckets,
    first_not_below,
    new_blocks,
    two_sum,
)
from aucpr_dask.kernels.signatures import F8, FLOATS, I8, OF_ITEMS, OPTIONS_TYPE, U8, row_of

CACHE = Cache("weighted")


@CACHE.kernel(types.void(row_of(U8), row_of(F8), row_of(F8), F8[:, ::1], row_of(F8), OPTIONS_TYPE, row_of(I8), F8[::1]))
def keys_row(keys, positive_weight, negative_weight, space, facts, options, codes, out):
    """Evaluate one ranking from sorted keys, in a space for blocks."""
    blocks = Blocks(space[0], space[1], space[2])
    n_blocks, n_distinct, positives, negatives = blocks_of_keys(keys, positive_weight, negative_weight, False, blocks)
    ranking = weighted_ranking(facts, positives, negatives, min(n_distinct, 3))
    finish(ranking, blocks, n_blocks, options, codes, out)


@CACHE.kernel(*(types.void(row_of(x), *OF_ITEMS, F8[::1], F8[::1], F8[::1], F8[::1]) for x in FLOATS))
def split_weights(score, classes, positive_weight, negative_weight, positive, gain, negative, loss):
    """Copy scores and weights of each class; an item of both goes to both, what is left out to none."""
    n_positive = n_negative = 0
    for i in range(score.size):
        of = classes_of(classes[i], positive_weight[i], negative_weight[i])
        positive[n_positive], gain[n_positive] = score[i], positive_weight[i]
        negative[n_negative], loss[n_negative] = score[i], negative_weight[i]
        has_score = score[i] == score[i]
        n_positive += has_score & (of & POSITIVE != 0)
        n_negative += has_score & (of & NEGATIVE != 0)


@helper
def weigh_gaps(negative, loss, table, weight, n_values, low, scale, last, fullest):
    """Add each negative's weight to its gap between two positives, or to the positive it ties with."""
    value, first, bucket = table.value, table.first, table.bucket
    for k in range(2 * n_values + 2):
        weight[k] = 0.0
    for start in range(0, negative.size, SEGMENT):
        size = min(SEGMENT, negative.size - start)
        for i in range(size):
            bucket[i] = bucket_of(negative[start + i], low, scale, last)
        for i in range(size):
            x = negative[start + i]
            k = np.uint64(first[bucket[i]])
            if fullest > LINEAR:
                k = first_not_below(value, k, np.uint64(first[bucket[i] + 1]), x)
            while value[k] < x:
                k += np.uint64(1)
            weight[np.uint64(2) * k + np.uint64(value[k] == x)] += loss[start + i]


@CACHE.kernel(types.boolean(F8[::1], F8[::1], F8[::1], F8[::1], row_of(F8), OPTIONS_TYPE, row_of(I8), F8[::1]))
def gaps_row(positive, gain, negative, loss, facts, options, codes, out):
    """Evaluate one ranking, its positives sorted in ascending order; return False if they crowd too much."""
    blocks = new_blocks(positive.size)
    table = GapTable(
        np.empty(positive.size + 1),
        np.empty(buckets_for(positive.size) + 2, np.int32),
        np.empty(0, np.uint32),
        np.empty(SEGMENT, np.int32),
    )
    weight = np.empty(2 * positive.size + 2)
    n_values = distinct(positive, table.value)
    if n_values == 0:
        return False
    n_buckets = buckets_for(n_values)
    low, scale, last = bucket_scale(table.value, n_values, n_buckets)
    crowding, fullest = fill_buckets(table, n_values, n_buckets, low, scale, last)
    if crowding > CROWDED * n_values:
        return False
    weigh_gaps(negative, loss, table, weight, n_values, low, scale, last, fullest)

    gained = gained_error = 0.0
    lost, lost_error = weight[2 * n_values] + weight[2 * n_values + 1], 0.0
    i = positive.size
    for block in range(n_values):
        k = n_values - 1 - block
        while i > 0 and positive[i - 1] == table.value[k]:
            i -= 1
            gained, gained_error = two_sum(gained, gained_error, gain[i])
        blocks.positives[block] = gained + gained_error
        blocks.above[block] = lost + lost_error
        lost, lost_error = two_sum(lost, lost_error, weight[2 * k + 1])
        blocks.at[block] = lost + lost_error
        lost, lost_error = two_sum(lost, lost_error, weight[2 * k])
    n_distinct = count_distinct(negative, positive)
    ranking = weighted_ranking(facts, gained + gained_error, lost + lost_error, n_distinct)
    finish(ranking, blocks, n_values, options, codes, out)
    return True


CACHE.publish()
