"""Rankings whose items have weights: from scores, classes and weights to rows of numbers.

There are two routes to the tie groups of a ranking, which give the same bits. If positives are few, only they are
sorted, and the weights of the negatives are added up in the gaps between them. Otherwise all items are sorted as whole
numbers, which NumPy sorts several times faster than it ranks items. Such a *key* holds, from the highest bit, 32 bits
that order the scores, one for each class (positive, negative) of the item, and its place. What is left out has the key
0, below all others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from aucpr_dask.kernels import options as o
from aucpr_dask.kernels import points, sorting
from aucpr_dask.kernels import tie_groups as g
from aucpr_dask.kernels.areas import COUNTS, finish_rows, ranking_of
from aucpr_dask.kernels.classes import and_score
from aucpr_dask.kernels.compiling import (
    F4,
    F8,
    FLOATS,
    I1,
    I8,
    OF_ITEMS,
    OPTIONS_TYPE,
    TARGETS_TYPE,
    U8,
    helper,
    kernel,
    row_of,
    rows_of,
)
from aucpr_dask.kernels.influence import weighted_haldane
from aucpr_dask.kernels.interpolation import Moments, Points
from aucpr_dask.kernels.options import Array, Indices, Options, Targets
from aucpr_dask.kernels.rankings import CACHE_ITEMS
from aucpr_dask.kernels.sorting import Floats, ascending_bits
from aucpr_dask.kernels.tie_groups import NEGATIVE, POSITIVE

OF_ROWS = rows_of(I1), row_of(I8), rows_of(F8), rows_of(F8), row_of(I8)  # classes, class weights, and their rows
MOST_WEIGHTED = 2**30  # items in one ranking: places must fit into 30 bits
SHORT_WEIGHTED = 4096  # items up to which a ranking is sorted whole, together with others
FEW_WEIGHTED = 0.19  # share of positives up to which a long ranking sorts only them
SCORE_BITS, CLASS_BITS = np.uint64(32), np.uint64(30)  # how many bits lie below those of the score, and the classes
PLACE = np.uint64(2**30 - 1)
NEGATIVE_KEY, POSITIVE_KEY = np.uint64(NEGATIVE << 30), np.uint64(POSITIVE << 30)


class WeightedItems(NamedTuple):
    """The items of weighted rankings; row i of the scores has classes and weights in rows of these numbers."""

    score: Floats
    classes: NDArray[np.int8]
    class_row: Indices
    positive_weight: Array
    negative_weight: Array
    weight_row: Indices

    def one(self, row: int) -> tuple[Floats, NDArray[np.int8], Array, Array]:
        """Return the scores, classes and weights of one ranking."""
        weights = (weight[self.weight_row[row]] for weight in (self.positive_weight, self.negative_weight))
        return self.score[row], self.classes[self.class_row[row]], *weights


def evaluate_weighted_rows(
    score: Floats,
    classes: NDArray[np.int8],
    class_row: Indices,
    positive_weight: Array,
    negative_weight: Array,
    weight_row: Indices,
    options: Options,
    targets: Targets,
) -> Array:
    """Evaluate rankings whose items have weights, ties in tie groups; the result is that of `rankings.evaluate_rows`.

    Rows have up to `MOST_WEIGHTED` items. Row i of the scores has the classes ``classes[class_row[i]]`` (1 negative, 2
    positive, 3 both, 0 left out) and the class weights in row ``weight_row[i]``; items of weight 0 are left out.
    """
    n_rows, n_items = score.shape
    n, is_haldane = targets.codes.size, targets.codes == o.HALDANE
    out = np.full((n_rows, n + o.N_COLUMNS), np.nan)
    step = CACHE_ITEMS // max(1, n_items) if n_items <= SHORT_WEIGHTED else 1
    for start in range(0, n_rows, step):
        slab = slice(start, start + step)
        items = WeightedItems(score[slab], classes, class_row[slab], positive_weight, negative_weight, weight_row[slab])
        n_positive, counts = np.empty(len(items.score), np.int64), np.empty((len(items.score), COUNTS))
        count_items(*items, n_positive, counts)
        if targets.are_by_groups:
            space, n_groups = _groups_of(items, n_positive, counts)
            unseen = np.full(n_positive.size, np.nan)
            finish_rows(space, n_groups, counts, unseen, options, targets.codes, out[slab])
        else:
            of_all = _sorted_keys(items), items.score.astype(np.float64), *items[3:], np.empty((7, n_items + 2)), counts
            all_points_keys(*of_all, options, targets, out[slab])
        if is_haldane.any():  # it needs the weights of single items
            of = classes[class_row[slab]]
            positive = np.where(of & POSITIVE, positive_weight[weight_row[slab]], 0.0)
            negative = np.where(of & NEGATIVE, negative_weight[weight_row[slab]], 0.0)
            area = weighted_haldane(items.score, positive, negative, options, targets.recall_range)
            out[slab, :n][:, is_haldane] = area[:, np.newaxis]
    out[:, :n][:, o.COUNTS_ONLY[targets.codes]] = np.nan  # tie groups hold only sums of weights
    return out


def _groups_of(items: WeightedItems, n_positive: Indices, counts: Array) -> tuple[Array, Indices]:
    """Return the tie groups of rankings in a space, and their numbers."""
    space, n_groups = np.empty((3, n_positive.size, n_positive.max() + 1)), np.full(n_positive.size, -1)
    n_items = items.score.shape[1]
    if n_items > SHORT_WEIGHTED and n_positive[0] <= FEW_WEIGHTED * n_items:
        one = items.one(0)
        positive, gain = np.empty(n_positive[0] + 1, items.score.dtype), np.empty(n_positive[0] + 1)
        copy_positives(*one, positive, gain)
        order = np.argsort(positive[:-1])
        n_groups[0] = groups_in_gaps(positive[order], gain[order], *one, space[:, 0], counts[0])
    if n_groups[0] < 0:
        groups_in_order(_sorted_keys(items), *items[3:], space, n_groups, counts)
    return space, n_groups


def _sorted_keys(items: WeightedItems) -> NDArray[np.uint64]:
    """Return the items as sorted keys; float64 scores by those rounded to float32, and again where these tie."""
    keys = np.empty(items.score.shape, np.uint64)
    # Scores beyond float32 become infinite, tie here, and are told apart below like all that tie by rounding.
    with np.errstate(over="ignore"):
        rounded = items.score.astype(np.float32, copy=False)
    keys_of_scores(rounded, *items[1:], keys)
    keys = sorting.sorted_rows(keys, int(CLASS_BITS))
    if items.score.dtype == np.float64:
        is_refined = np.empty(len(keys), np.bool_)
        refine_keys(items.score, keys, is_refined)
        for row in np.flatnonzero(~is_refined).tolist():
            score, *of_items = items.one(row)
            keys_of_ranks(score, sorting.ascending_places(score), *of_items, keys[row])
    return keys


@helper
def classes_of(classes, positive_weight, negative_weight):
    """Return those of its classes in which an item has a weight."""
    positive = classes & POSITIVE if positive_weight > 0.0 else 0
    negative = classes & NEGATIVE if negative_weight > 0.0 else 0
    return positive | negative


@helper
def key_of(order, classes, i):
    """Join the bits of a key."""
    return (np.uint64(order) << SCORE_BITS) | (np.uint64(classes) << CLASS_BITS) | np.uint64(i)


@helper
def place_of(key):
    """Return the place of the item of a key."""
    return key & PLACE


@helper
def first_kept(keys):
    """Return the place of the first key that is not 0."""
    low, high = 0, keys.size
    while low < high:
        middle = (low + high) // 2
        if keys[middle] == 0:
            low = middle + 1
        else:
            high = middle
    return low


@helper
def groups_of_keys(keys, positive_weight, negative_weight, all_groups, groups):
    """Fill `groups` from sorted keys; with `all_groups`, also with those that hold no positive.

    Return their number, that of all tie groups, and the weights of both classes.
    """
    gain, loss, is_lowest = np.empty(g.SEGMENT), np.empty(g.SEGMENT), np.empty(g.SEGMENT, np.bool_)
    gained = gained_error = lost = lost_error = positives = negatives = 0.0
    kept, n_groups = np.uint64(0), 0
    first = first_kept(keys)
    end = keys.size
    while end > first:
        start = max(first, end - g.SEGMENT)
        for j in range(end - start):  # weights are far apart in memory: fetched together, their latencies overlap
            i = start + j
            key = keys[i]
            # Both are loaded, and one is set to 0: without branches, random labels cost nothing.
            positive, negative = positive_weight[place_of(key)], negative_weight[place_of(key)]
            gain[j] = positive if key & POSITIVE_KEY else 0.0
            loss[j] = negative if key & NEGATIVE_KEY else 0.0
            is_lowest[j] = i == 0 or (keys[i - 1] ^ key) >> SCORE_BITS > 0
        for j in range(end - start - 1, -1, -1):
            gained, gained_error = g.two_sum(gained, gained_error, gain[j])
            lost, lost_error = g.two_sum(lost, lost_error, loss[j])
            if is_lowest[j]:
                before, positives = positives, gained + gained_error
                groups.positives[kept] = positives
                groups.above[kept] = negatives
                negatives = lost + lost_error
                groups.at[kept] = negatives
                kept += np.uint64(all_groups | (positives > before))
                n_groups += 1
        end = start
    return np.int64(kept), n_groups, positives, negatives


@helper
def class_of_keys(keys, class_key, score, weight):
    """Return the scores of one class in ascending order, and their weights."""
    scores, weights = np.empty(keys.size + 1), np.empty(keys.size + 1)
    n = 0
    for key in keys:
        scores[n], weights[n] = score[place_of(key)], weight[place_of(key)]
        n += (key & class_key) > 0
    return scores[:n], weights[:n]


@helper
def count_row(score, classes, positive_weight, negative_weight, counts):
    """Return how many positives have a score and a weight, and fill all `COUNTS` but sums over items with a score."""
    n_positive = n_ranked = n_missing = 0
    for i in range(score.size):
        of = classes_of(classes[i], positive_weight[i], negative_weight[i])
        has_score = score[i] == score[i]
        n_positive += has_score & (of & POSITIVE != 0)
        n_ranked += has_score & (of != 0)
        n_missing += (not has_score) & (of != 0)
    missing_positives = positives_error = missing_negatives = negatives_error = 0.0
    for i in range(score.size if n_missing > 0 else 0):
        if np.isnan(score[i]) and classes[i] & POSITIVE:
            missing_positives, positives_error = g.two_sum(missing_positives, positives_error, positive_weight[i])
        if np.isnan(score[i]) and classes[i] & NEGATIVE:
            missing_negatives, negatives_error = g.two_sum(missing_negatives, negatives_error, negative_weight[i])
    counts[2], counts[3] = missing_positives + positives_error, missing_negatives + negatives_error
    counts[4], counts[5] = n_missing, n_ranked
    return n_positive


@kernel(*(types.void(rows_of(x), *OF_ROWS, I8[::1], F8[:, ::1]) for x in FLOATS))
def count_items(score, classes, class_row, positive_weight, negative_weight, weight_row, n_positive, counts):
    """Do the work of `count_row` for every ranking."""
    for row in range(len(score)):
        weights = positive_weight[weight_row[row]], negative_weight[weight_row[row]]
        n_positive[row] = count_row(score[row], classes[class_row[row]], *weights, counts[row])


@helper
def keys_of_row(score, classes, positive_weight, negative_weight, keys):
    """Fill `keys`, to be sorted. Without branches, so that it compiles to vector instructions."""
    bits = score.view(np.uint32)
    for i in range(score.size):
        of = classes_of(classes[i], positive_weight[i], negative_weight[i])
        key = key_of(ascending_bits(bits[i], score[i]), of, i)
        keys[i] = key if (of != 0) & (score[i] == score[i]) else np.uint64(0)


@kernel(types.void(rows_of(F4), *OF_ROWS, U8[:, ::1]))
def keys_of_scores(score, classes, class_row, positive_weight, negative_weight, weight_row, keys):
    """Do the work of `keys_of_row` for every ranking."""
    for row in range(len(score)):
        weights = positive_weight[weight_row[row]], negative_weight[weight_row[row]]
        keys_of_row(score[row], classes[class_row[row]], *weights, keys[row])


@helper
def refine_row(score, keys):
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


@kernel(types.void(rows_of(F8), U8[:, ::1], types.boolean[::1]))
def refine_keys(score, keys, is_refined):
    """Do the work of `refine_row` for every ranking."""
    for row in range(len(score)):
        is_refined[row] = refine_row(score[row], keys[row])


@kernel(types.void(row_of(F8), row_of(I8), *OF_ITEMS, U8[::1]))
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


@kernel(types.void(rows_of(U8), rows_of(F8), rows_of(F8), row_of(I8), F8[:, :, ::1], I8[::1], F8[:, ::1]))
def groups_in_order(keys, positive_weight, negative_weight, weight_row, space, n_groups, counts):
    """Fill the tie groups of every ranking in `space` from sorted keys, and the counts of what has a score."""
    for row in range(len(keys)):
        groups = g.TieGroups(space[0, row], space[1, row], space[2, row])
        weights = positive_weight[weight_row[row]], negative_weight[weight_row[row]]
        found = groups_of_keys(keys[row], *weights, False, groups)
        n_groups[row], n_distinct, counts[row, 0], counts[row, 1] = found
        counts[row, 6] = min(n_distinct, 3)


@kernel(*(types.void(row_of(x), *OF_ITEMS, x[::1], F8[::1]) for x in FLOATS))
def copy_positives(score, classes, positive_weight, negative_weight, positive, gain):
    """Copy scores and weights of the positives; there is room for one more."""
    end = np.uint64(0)
    for i in range(score.size):  # each is written, and that of a positive stays: without branches
        positive[end], gain[end] = score[i], positive_weight[i]
        of = classes_of(classes[i], positive_weight[i], negative_weight[i])
        end += np.uint64((score[i] == score[i]) & (of & POSITIVE != 0))


@helper
def weigh_gaps(score, classes, negative_weight, table, weight, n_values, buckets):
    """Add each negative's weight to its gap between two positives, or to the positive it ties with.

    Other items, or those without a score, add 0, which costs less than separating the negatives.
    """
    place, loss = table.segment.place, np.empty(g.SEGMENT)
    for k in range(2 * n_values + 2):
        weight[k] = 0.0
    for start in range(0, score.size, g.SEGMENT):
        end = start + g.SEGMENT
        scores, of, weights = score[start:end], classes[start:end], negative_weight[start:end]
        for i in range(scores.size):
            loss[i] = weights[i] if (of[i] & NEGATIVE != 0) & (scores[i] == scores[i]) else 0.0
        g.find_places(scores, table, buckets)
        for i in range(scores.size):
            weight[place[i]] += loss[i]


@helper
def count_distinct_ranked(score, classes, positive_weight, negative_weight):
    """Count the distinct scores of what is ranked, up to 3."""
    n, one, two = 0, 0.0, 0.0
    for i in range(score.size):
        if score[i] == score[i] and classes_of(classes[i], positive_weight[i], negative_weight[i]) != 0:
            n, one, two = and_score(np.float64(score[i]), n, one, two)
            if n == 3:
                return n
    return n


@kernel(*(types.int64(row_of(x), row_of(F8), row_of(x), *OF_ITEMS, F8[:, ::1], F8[::1]) for x in FLOATS))
def groups_in_gaps(positive, gain, score, classes, positive_weight, negative_weight, space, counts):
    """Fill the tie groups, as `groups_in_order`, from ascending positives and all items; return -1 if they crowd."""
    groups = g.TieGroups(space[0], space[1], space[2])
    table = g.new_table(positive.size, positive)
    weight = np.empty(2 * positive.size + 2)
    n_values = g.distinct(positive, table.value)
    if n_values == 0:
        return -1
    buckets = g.fill_buckets(table, n_values)
    if buckets.crowding > g.CROWDED * n_values:
        return -1
    weigh_gaps(score, classes, negative_weight, table, weight, n_values, buckets)

    gained = gained_error = 0.0
    lost, lost_error = weight[2 * n_values] + weight[2 * n_values + 1], 0.0
    i = positive.size
    for group in range(n_values):
        k = n_values - 1 - group
        while i > 0 and positive[i - 1] == table.value[k]:
            i -= 1
            gained, gained_error = g.two_sum(gained, gained_error, gain[i])
        groups.positives[group] = gained + gained_error
        groups.above[group] = lost + lost_error
        lost, lost_error = g.two_sum(lost, lost_error, weight[2 * k + 1])
        groups.at[group] = lost + lost_error
        lost, lost_error = g.two_sum(lost, lost_error, weight[2 * k])
    counts[0], counts[1] = gained + gained_error, lost + lost_error
    counts[6] = count_distinct_ranked(score, classes, positive_weight, negative_weight)
    return n_values


@helper
def all_points_row(keys, score, positive_weight, negative_weight, space, counts, options, targets, out):
    """Evaluate one weighted ranking from sorted keys, in a space of 7 rows."""
    groups = g.TieGroups(space[0], space[1], space[2])
    n_points, n_distinct, counts[0], counts[1] = groups_of_keys(keys, positive_weight, negative_weight, True, groups)
    counts[6] = min(n_distinct, 3)
    curve = Points(groups.positives, groups.at)
    moments = Moments(np.nan, np.nan, np.nan, np.nan)
    if np.any(targets.codes == o.BINORMAL):
        p_mean, p_deviation = points.mean_and_deviation(*class_of_keys(keys, POSITIVE_KEY, score, positive_weight))
        n_mean, n_deviation = points.mean_and_deviation(*class_of_keys(keys, NEGATIVE_KEY, score, negative_weight))
        moments = Moments(p_mean, p_deviation, n_mean, n_deviation)
    ranking = ranking_of(counts, np.nan)
    points.finish_all(points.room_of(space), ranking, curve, n_points, moments, options, targets, out)


@kernel(
    types.void(
        *(rows_of(U8), rows_of(F8), rows_of(F8), rows_of(F8), row_of(I8), F8[:, ::1], F8[:, ::1]),
        *(OPTIONS_TYPE, TARGETS_TYPE, F8[:, ::1]),
    )
)
def all_points_keys(keys, score, positive_weight, negative_weight, weight_row, space, counts, options, targets, out):
    """Do the work of `all_points_row` for every ranking."""
    for row in range(len(keys)):
        weights = positive_weight[weight_row[row]], negative_weight[weight_row[row]]
        all_points_row(keys[row], score[row], *weights, space, counts[row], options, targets, out[row])
