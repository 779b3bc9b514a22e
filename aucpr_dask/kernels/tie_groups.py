"""The ranking state that every estimator starts from.

A *tie group* is a maximal set of items tied in score. The state lists the tie groups that hold a positive, from
the highest score down; tie groups of negatives only are the differences between its columns. Counts are kept
as float64, in which they are exact below 2**53.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aucpr_dask.kernels.compiling import helper

SEGMENT = 1024  # items that fit the innermost cache of a core


class TieGroups(NamedTuple):
    """Per tie group that holds a positive, from the highest score: counts, or sums of weights."""

    positives: np.ndarray  # positives at or above this tie group
    above: np.ndarray  # negatives strictly above it
    at: np.ndarray  # negatives at or above it


class Classes(NamedTuple):
    """How many items (or how much weight) of each class have a score, and how many have none."""

    positives: float
    negatives: float
    missing_positives: float
    missing_negatives: float


@helper
def two_sum(total, error, term):
    """Add `term` to `total`, and the rounding error to `error`."""
    new = total + term
    back = new - total
    return new, error + ((total - (new - back)) + (term - back))


@helper
def scale_to(prevalence, total, negatives):
    """Return the factor for negatives that moves the sample to this prevalence (NaN: the sample's own)."""
    if np.isnan(prevalence) or negatives == 0.0:
        return 1.0
    return total * (1.0 - prevalence) / (negatives * prevalence)


@helper
def precision_without(left_out, positives, negatives):
    """Precision at a tie group when one of its positives may be left out; 1 if no negative is there."""
    return (positives - left_out) / (positives - left_out + negatives) if negatives > 0.0 else 1.0


@helper
def groups_by_merging(positive, negative, groups):
    """Fill `groups` from the scores of both classes, each sorted in ascending order."""
    n_groups = 0
    i = positive.size
    j = negative.size
    while i > 0:
        x = positive[i - 1]
        while j > 0 and negative[j - 1] > x:
            j -= 1
        groups.above[n_groups] = negative.size - j
        while j > 0 and negative[j - 1] == x:
            j -= 1
        groups.at[n_groups] = negative.size - j
        while i > 0 and positive[i - 1] == x:
            i -= 1
        groups.positives[n_groups] = positive.size - i
        n_groups += 1
    return n_groups


@helper
def groups_of_tally(times, tally, groups):
    """Fill `groups` from how often each distinct score of positives occurs, and the tally of the negatives in the gaps.

    Both are counts, or sums of weights. Return the sum of the tally.
    """
    n_values = times.size
    positives = positives_error = negatives_error = 0.0
    negatives = tally[2 * n_values] + tally[2 * n_values + 1]
    for group in range(n_values):
        k = n_values - 1 - group
        positives, positives_error = two_sum(positives, positives_error, times[k])
        groups.positives[group] = positives + positives_error
        groups.above[group] = negatives + negatives_error
        negatives, negatives_error = two_sum(negatives, negatives_error, tally[2 * k + 1])
        groups.at[group] = negatives + negatives_error
        negatives, negatives_error = two_sum(negatives, negatives_error, tally[2 * k])
    return negatives + negatives_error


class PlacedGroups(NamedTuple):
    """Per tie group of weighted items, from the highest score: as `TieGroups`, and its own weights and places."""

    positives: np.ndarray
    above: np.ndarray
    at: np.ndarray
    gained: np.ndarray  # weight of the positives in it
    passed: np.ndarray  # weight of the negatives in it
    start: np.ndarray  # the place of its first item
    end: np.ndarray  # the place after its last item


@helper
def placed_groups(score, order, positive_weight, negative_weight, n_placed):
    """Return the tie groups of a ranking that hold a positive, and their number."""
    sums, places = np.empty((5, n_placed + 1)), np.empty((2, n_placed + 1), np.int64)
    groups = PlacedGroups(sums[0], sums[1], sums[2], sums[3], sums[4], places[0], places[1])
    given = score, order, positive_weight, negative_weight, n_placed, False, groups, groups
    return groups, groups_of_places(*given)[0]


@helper
def groups_of_places(score, order, positive_weight, negative_weight, n_placed, all_groups, groups, placed):
    """Fill `groups` from the items by place, from the highest score, and the other fields of `placed` unless None.

    These are the tie groups that hold a positive or, with `all_groups`, any weight; NaN ties with NaN. There is room
    for one more. Return their number, and the weights of both classes.
    """
    part = np.empty((3, SEGMENT))
    n, start = np.uint64(0), 0
    positives = positives_error = negatives = negatives_error = gained = passed = x = 0.0
    for first in range(0, n_placed, SEGMENT):
        size = min(SEGMENT, n_placed - first)
        for j in range(size):  # items are far apart in memory: fetched together, their latencies overlap
            i = order[first + j]
            part[0, j], part[1, j], part[2, j] = score[i], positive_weight[i], negative_weight[i]
        for j in range(size):
            if first + j == 0 or not (part[0, j] >= x or np.isnan(x)):
                n += np.uint64((gained > 0.0) | (all_groups & (passed > 0.0)))  # otherwise it is written over
                groups.above[n] = negatives + negatives_error
                gained = passed = 0.0
                start = first + j
            x = part[0, j]
            gained += part[1, j]
            passed += part[2, j]
            positives, positives_error = two_sum(positives, positives_error, part[1, j])
            negatives, negatives_error = two_sum(negatives, negatives_error, part[2, j])
            groups.positives[n] = positives + positives_error
            groups.at[n] = negatives + negatives_error
            if placed is not None:
                placed.gained[n], placed.passed[n] = gained, passed
                placed.start[n], placed.end[n] = start, first + j + 1
    n += np.uint64((gained > 0.0) | (all_groups & (passed > 0.0)))
    return np.int64(n), positives + positives_error, negatives + negatives_error


@helper
def append_missing(groups, n_groups, classes):
    """Append the items without a score as one last tie group, tied below every score."""
    if classes.missing_positives > 0:
        groups.positives[n_groups] = classes.positives + classes.missing_positives
        groups.above[n_groups] = classes.negatives
        groups.at[n_groups] = classes.negatives + classes.missing_negatives
        n_groups += 1
    return n_groups


@helper
def new_groups(n_positive):
    """Return a ranking state with room for the tie groups of `n_positive` positives and the missing ones."""
    return TieGroups(np.empty(n_positive + 1), np.empty(n_positive + 1), np.empty(n_positive + 1))


class Ranking(NamedTuple):
    """The facts of one ranking, in addition to its tie groups."""

    classes: Classes
    n_unseen: float  # positives that are not items
    n_missing: float
    n_ranked: float
    n_distinct: int
