"""Rankings whose items have weights, which are counts that need not be whole: from scores to rows of numbers.

There are the two ways to tie groups that `rankings` has. If a ranking is long and its positives are few, only they are
sorted, and the weights of the negatives are added up in the gaps between them: three times as fast at 1 % positive.
Otherwise the items are put in order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from aucpr_dask.kernels import gaps, sorting
from aucpr_dask.kernels import options as o
from aucpr_dask.kernels.areas import COUNTS, fill_tallied_groups, ranking_of
from aucpr_dask.kernels.by_numpy import SHORT
from aucpr_dask.kernels.compiling import F8, FLOATS, I8, OPTIONS_TYPE, TARGETS_TYPE, helper, kernel, row_of, rows_of
from aucpr_dask.kernels.influence import OF_ROWS, weighted_haldane_rows
from aucpr_dask.kernels.interpolation import Moments, Points
from aucpr_dask.kernels.operating_points import finish_all, finish_rows, mean_and_deviation, room_of
from aucpr_dask.kernels.options import Array, Indices, Items, Options, Targets
from aucpr_dask.kernels.rankings import CACHE_ITEMS, few_positives
from aucpr_dask.kernels.tie_groups import TieGroups, groups_of_places, two_sum

EXTRA_BYTES = 8  # of an item's weight, as its score has


def evaluate_weighted_rows(items: Items, options: Options, targets: Targets) -> Array:
    """Evaluate rankings whose items have weights, ties in tie groups; the result is that of `rankings.evaluate_rows`.

    An item with a weight in both classes belongs to both; items of weight 0 are left out.
    """
    n, (n_rows, n_items) = targets.codes.size, items.score.shape
    out, is_haldane = np.full((n_rows, n + o.N_COLUMNS), np.nan), targets.codes == o.HALDANE
    step = 1 if n_items > SHORT else max(1, CACHE_ITEMS // max(1, n_items))
    for start in range(0, n_rows, step):
        rows = slice(start, start + step)
        part, counts = items.part(rows), np.empty((len(out[rows]), COUNTS))
        count_items(*part[:4], counts)
        found = _groups_in_gaps(part, counts[0]) if targets.are_by_groups and n_items > SHORT else None
        in_order: tuple[Any, ...] = ()
        if found is None or is_haldane.any():
            in_order = *sorting.in_order(part.score), *part[1:4]
        if targets.need_every_point:
            all_points_rows(*in_order, np.empty((7, n_items + 2)), counts, options, targets, out[rows])
        else:
            space, n_groups = found or _groups_in_order(in_order, counts)
            finish_rows(space, n_groups, counts, np.full(n_groups.size, np.nan), options, targets, out[rows])
        if is_haldane.any():  # it needs the weights of single items
            area = np.empty(len(counts))
            weighted_haldane_rows(*in_order, options, targets.recall_range, area)
            out[rows, :n][:, is_haldane] = area[:, np.newaxis]
    out[:, :n][:, o.COUNTS_ONLY[targets.codes]] = np.nan  # tie groups hold only sums of weights
    return out


def _groups_in_gaps(items: Items, counts: Array) -> tuple[Array, Indices] | None:
    """Return the tie groups of one ranking from its positives in order; None if these are many, or lie too close."""
    score, (positive_weight, negative_weight) = items.score[0], items.weights(0)
    places = np.flatnonzero(positive_weight)
    places = places[~np.isnan(score[places])]
    if not 0 < places.size <= few_positives(score, EXTRA_BYTES):
        return None
    places = places[np.argsort(score[places], kind="stable")]
    value, times = gaps.distinct_scores(score[places], positive_weight[places])
    tally = np.empty(2 * value.size)
    if not gaps.tally_weights(value, score, negative_weight, tally):
        return None
    space = np.empty((3, 1, times.size + 1))
    counts[0], counts[1] = times.sum(), fill_tallied_groups(times, tally, space[:, 0])
    return space, np.array([times.size])


def _groups_in_order(in_order: tuple[Any, ...], counts: Array) -> tuple[Array, Indices]:
    """Return the tie groups of rankings from their items in order."""
    _, _, positive, _, row = in_order
    n_positive = np.count_nonzero(positive, axis=1)[row]
    space, n_groups = np.empty((3, row.size, n_positive.max(initial=0) + 1)), np.empty(row.size, np.int64)
    groups_in_order(*in_order, space, n_groups, counts)
    return space, n_groups


@kernel(*(types.void(rows_of(x), rows_of(F8), rows_of(F8), row_of(I8), F8[:, ::1]) for x in FLOATS))
def count_items(score, positive, negative, weight_row, counts):
    """Fill the `COUNTS` of every ranking, but for the weights of what has a score."""
    for row in range(len(score)):
        scores, positive_weight, negative_weight = score[row], positive[weight_row[row]], negative[weight_row[row]]
        n_ranked = n_missing = n_distinct = 0
        for i in range(scores.size):
            is_item, has_score = (positive_weight[i] > 0.0) | (negative_weight[i] > 0.0), scores[i] == scores[i]
            n_ranked += is_item & has_score
            n_missing += is_item & (not has_score)
        positives = positives_error = negatives = negatives_error = 0.0  # of those that are missing
        for i in range(scores.size if n_missing > 0 else 0):
            if np.isnan(scores[i]):
                positives, positives_error = two_sum(positives, positives_error, positive_weight[i])
                negatives, negatives_error = two_sum(negatives, negatives_error, negative_weight[i])
        one = two = 0.0
        for i in range(scores.size):
            x = np.float64(scores[i])
            if x == x and (positive_weight[i] > 0.0 or negative_weight[i] > 0.0):
                if n_distinct == 0 or (x != one and (n_distinct == 1 or x != two)):
                    one, two = (x, two) if n_distinct == 0 else (one, x)
                    n_distinct += 1
                if n_distinct == 3:
                    break
        counts[row, 2], counts[row, 3] = positives + positives_error, negatives + negatives_error
        counts[row, 4], counts[row, 5], counts[row, 6] = n_missing, n_ranked, n_distinct


@kernel(types.void(*OF_ROWS, F8[:, :, ::1], I8[::1], F8[:, ::1]))
def groups_in_order(score, order, positive, negative, weight_row, space, n_groups, counts):
    """Fill the tie groups of every ranking in `space` from its items in order, and the weights of what has a score."""
    for row in range(len(order)):
        groups = TieGroups(space[0, row], space[1, row], space[2, row])
        given = score[row], order[row], positive[weight_row[row]], negative[weight_row[row]]
        found = groups_of_places(*given, ranked_places(score[row], order[row]), False, groups, None)
        n_groups[row], counts[row, 0], counts[row, 1] = found


@helper
def ranked_places(score, order):
    """Return the number of items that have a score."""
    n_ranked = order.size
    while n_ranked > 0 and np.isnan(score[order[n_ranked - 1]]):
        n_ranked -= 1
    return n_ranked


@helper
def moments_of_class(score, order, weight, n_ranked):
    """Return the mean and the deviation of the scores of one class, which are added up from the lowest."""
    scores, weights = np.empty(n_ranked), np.empty(n_ranked)
    for place in range(n_ranked):
        i = order[n_ranked - 1 - place]
        scores[place], weights[place] = score[i], weight[i]
    return mean_and_deviation(scores, weights)


@kernel(types.void(*OF_ROWS, F8[:, ::1], F8[:, ::1], OPTIONS_TYPE, TARGETS_TYPE, F8[:, ::1]))
def all_points_rows(score, order, positive, negative, weight_row, space, counts, options, targets, out):
    """Evaluate every ranking from its items in order, in a space of 7 rows."""
    groups = TieGroups(space[0], space[1], space[2])
    curve = Points(groups.positives, groups.at)
    for row in range(len(order)):
        of_row, n_ranked = (score[row], order[row]), ranked_places(score[row], order[row])
        weights = positive[weight_row[row]], negative[weight_row[row]]
        n_points, counts[row, 0], counts[row, 1] = groups_of_places(*of_row, *weights, n_ranked, True, groups, None)
        moments = Moments(np.nan, np.nan, np.nan, np.nan)
        if np.any(targets.codes == o.BINORMAL):
            p_mean, p_deviation = moments_of_class(*of_row, weights[0], n_ranked)
            n_mean, n_deviation = moments_of_class(*of_row, weights[1], n_ranked)
            moments = Moments(p_mean, p_deviation, n_mean, n_deviation)
        ranking = ranking_of(counts[row], np.nan)
        finish_all(room_of(space), ranking, curve, n_points, moments, options, targets, out[row])
