"""One weighted ranking: from sorted keys; or, if positives are few, from sorted positives and weights in gaps."""

import numpy as np
from numba import types

from aucpr_dask.kernels.areas.finishing import finish
from aucpr_dask.kernels.compiling import Cache, helper
from aucpr_dask.kernels.rankings.keys import NEGATIVE, POSITIVE, classes_of, groups_of_keys, weighted_ranking
from aucpr_dask.kernels.rankings.tie_groups import (
    CROWDED,
    SEGMENT,
    TieGroups,
    bucket_scale,
    buckets_for,
    distinct,
    fill_buckets,
    find_places,
    new_table,
    two_sum,
)
from aucpr_dask.kernels.signatures import F8, FLOATS, I8, OF_ITEMS, OPTIONS_TYPE, U8, row_of

CACHE = Cache(__name__)


@CACHE.kernel(types.int64(row_of(U8), row_of(F8), row_of(F8), F8[:, ::1], F8[::1]))
def keys_row(keys, positive_weight, negative_weight, space, sums):
    """Fill the tie groups in `space`, and `sums` (weights, distinct scores), from sorted keys; return their number."""
    groups = TieGroups(space[0], space[1], space[2])
    n_groups, n_distinct, sums[0], sums[1] = groups_of_keys(keys, positive_weight, negative_weight, False, groups)
    sums[2] = min(n_distinct, 3)
    return n_groups


@CACHE.kernel(*(types.void(row_of(x), *OF_ITEMS, x[::1], F8[::1]) for x in FLOATS))
def copy_positives(score, classes, positive_weight, negative_weight, positive, gain):
    """Copy scores and weights of the positives; there is room for one more."""
    end = np.uint64(0)
    for i in range(score.size):  # each is written, and that of a positive stays: without branches
        positive[end], gain[end] = score[i], positive_weight[i]
        of = classes_of(classes[i], positive_weight[i], negative_weight[i])
        end += np.uint64((score[i] == score[i]) & (of & POSITIVE != 0))


@helper
def weigh_gaps(score, classes, negative_weight, table, weight, n_values, low, scale, last, fullest):
    """Add each negative's weight to its gap between two positives, or to the positive it ties with.

    Other items, or those without a score, add 0, which costs less than separating the negatives.
    """
    place, loss = table.segment.place, np.empty(SEGMENT)
    for k in range(2 * n_values + 2):
        weight[k] = 0.0
    for start in range(0, score.size, SEGMENT):
        end = start + SEGMENT
        scores, of, weights = score[start:end], classes[start:end], negative_weight[start:end]
        for i in range(scores.size):
            loss[i] = weights[i] if (of[i] & NEGATIVE != 0) & (scores[i] == scores[i]) else 0.0
        find_places(scores, table, low, scale, last, fullest)
        for i in range(scores.size):
            weight[place[i]] += loss[i]


@helper
def count_distinct_ranked(score, classes, positive_weight, negative_weight):
    """Count the distinct scores of what is ranked, up to 3."""
    n = 0
    one = two = score[0]
    for i in range(score.size):
        x = score[i]
        if x != x or classes_of(classes[i], positive_weight[i], negative_weight[i]) == 0:
            continue
        if n == 0:
            one = x
            n = 1
        elif n == 1 and x != one:
            two = x
            n = 2
        elif n == 2 and x != one and x != two:
            return 3
    return n


@CACHE.kernel(*(types.int64(row_of(x), row_of(F8), row_of(x), *OF_ITEMS, F8[:, ::1], F8[::1]) for x in FLOATS))
def gaps_row(positive, gain, score, classes, positive_weight, negative_weight, space, sums):
    """Fill the tie groups in `space`, as `keys_row`, from ascending positives and all items; -1 if they crowd."""
    groups = TieGroups(space[0], space[1], space[2])
    table = new_table(positive.size, positive)
    weight = np.empty(2 * positive.size + 2)
    n_values = distinct(positive, table.value)
    if n_values == 0:
        return -1
    n_buckets = buckets_for(n_values)
    low, scale, last = bucket_scale(table.value, n_values, n_buckets)
    crowding, fullest = fill_buckets(table, n_values, n_buckets, low, scale, last)
    if crowding > CROWDED * n_values:
        return -1
    weigh_gaps(score, classes, negative_weight, table, weight, n_values, low, scale, last, fullest)

    gained = gained_error = 0.0
    lost, lost_error = weight[2 * n_values] + weight[2 * n_values + 1], 0.0
    i = positive.size
    for group in range(n_values):
        k = n_values - 1 - group
        while i > 0 and positive[i - 1] == table.value[k]:
            i -= 1
            gained, gained_error = two_sum(gained, gained_error, gain[i])
        groups.positives[group] = gained + gained_error
        groups.above[group] = lost + lost_error
        lost, lost_error = two_sum(lost, lost_error, weight[2 * k + 1])
        groups.at[group] = lost + lost_error
        lost, lost_error = two_sum(lost, lost_error, weight[2 * k])
    sums[0], sums[1] = gained + gained_error, lost + lost_error
    sums[2] = count_distinct_ranked(score, classes, positive_weight, negative_weight)
    return n_values


@CACHE.kernel(types.void(F8[:, ::1], I8, row_of(F8), row_of(F8), OPTIONS_TYPE, row_of(I8), F8[::1]))
def finish_weighted(space, n_groups, sums, facts, options, codes, out):
    """Evaluate one weighted ranking from its tie groups."""
    ranking = weighted_ranking(facts, sums[0], sums[1], np.int64(sums[2]))
    finish(ranking, TieGroups(space[0], space[1], space[2]), n_groups, options, codes, out)


CACHE.publish()
