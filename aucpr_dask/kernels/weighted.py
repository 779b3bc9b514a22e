"""One long weighted ranking with few positives: only these are sorted, the others' weights fall into gaps."""

import numpy as np
from numba import types

from aucpr_dask.kernels.compiling import Cache, helper
from aucpr_dask.kernels.finishing import Ranking, count_distinct, finish
from aucpr_dask.kernels.ranking import (
    CROWDED,
    LINEAR,
    SEGMENT,
    Classes,
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
from aucpr_dask.kernels.signatures import F8, I8, OPTIONS_TYPE, row_of

CACHE = Cache("weighted")


@CACHE.kernel(types.void(row_of(F8), row_of(F8), row_of(F8), F8[::1], F8[::1], F8[::1], F8[::1], F8[::1]))
def split_weights(score, positive_weight, negative_weight, positive, gain, negative, loss, facts):
    """Copy scores and weights of each class, NaN left out; an item with both weights goes to both.

    `facts`: the numbers of positives and negatives, the weights without a score, how many items that are, and
    how many there are.
    """
    n_positive = n_negative = n_missing = n_items = 0
    missing_positives = missing_negatives = 0.0
    for i in range(score.size):
        x = score[i]
        has_score = not np.isnan(x)
        positive[n_positive], gain[n_positive] = x, positive_weight[i]
        negative[n_negative], loss[n_negative] = x, negative_weight[i]
        counts = positive_weight[i] > 0.0 or negative_weight[i] > 0.0
        n_items += counts
        n_positive += has_score and positive_weight[i] > 0.0
        n_negative += has_score and negative_weight[i] > 0.0
        if counts and not has_score:
            n_missing += 1
            missing_positives += positive_weight[i]
            missing_negatives += negative_weight[i]
    facts[0], facts[1] = n_positive, n_negative
    facts[2], facts[3] = missing_positives, missing_negatives
    facts[4], facts[5] = n_missing, n_items


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


@CACHE.kernel(types.boolean(F8[::1], F8[::1], F8[::1], F8[::1], F8[::1], OPTIONS_TYPE, row_of(I8), F8[::1]))
def weighted_row(positive, gain, negative, loss, facts, options, codes, out):
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
    classes = Classes(gained + gained_error, lost + lost_error, facts[2], facts[3])
    ranking = Ranking(classes, 0.0, facts[4], facts[5] - facts[4], count_distinct(negative, positive))
    finish(ranking, blocks, n_values, options, codes, out)
    return True


CACHE.publish()
