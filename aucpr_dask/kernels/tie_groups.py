"""The ranking state that every estimator starts from.

A *tie group* is a maximal set of items tied in score. The state lists the tie groups that hold a positive, from
the highest score down; tie groups of negatives only are the differences between its columns. Counts are kept
as float64, in which they are exact below 2**53.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aucpr_dask.kernels.compiling import helper


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


class GapTable(NamedTuple):
    """Work space to count negatives in gaps; reused from ranking to ranking."""

    value: np.ndarray  # distinct scores of the positives, then +inf
    entry: np.ndarray  # twice the number of values in buckets below; 1 more if the bucket holds a value itself
    tally: np.ndarray  # negatives between values k - 1 and k (at 2k) and equal to value k (at 2k + 1)
    segment: Segment
    kept: np.ndarray  # scores of a segment that are not below all values


class Segment(NamedTuple):
    """Some negatives: as many as fit the innermost cache of a core."""

    bucket: np.ndarray
    place: np.ndarray  # where in the tally each one counts
    shared: np.ndarray  # those whose bucket holds a value, so that they have to be compared with it


class Buckets(NamedTuple):
    """How the range of the positives is divided into equal parts."""

    low: float  # the lowest finite score
    scale: float  # buckets per unit of score
    last: float  # the number of the last bucket; all three of the type of scores, so that nothing is converted
    fullest: int  # largest number of distinct scores of positives in one bucket
    crowding: int  # sum over buckets of the squared number of them


NEGATIVE, POSITIVE = 1, 2  # the classes of a weighted item; a soft label belongs to both
BUCKETS_PER_POSITIVE = 16
TABLE_BUCKETS = 1 << 18  # buckets that stay in a core's own cache; beyond, there are 2 per positive
SEGMENT = 1024
CROWDED = 16  # mean number of positives that share a positive's bucket, from which sorting all is faster
TIED = 8  # mean number of positives with one score, from which sorting all is faster
LINEAR = np.uint64(4)  # positives in a bucket up to which they are compared one by one


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
def groups_by_gaps(positive, other, has_both, table, n_values, buckets, groups):
    """Fill `groups` by counting the negatives in each gap between two positives; only the positives are sorted.

    `positive` holds their scores in ascending order, `other` those of the negatives in any order; no NaN. With
    `has_both`, `other` includes the positives: counting and subtracting them costs less than separating them. A table
    divides the range of the `n_values` distinct scores of positives into equal buckets. A bucket is a monotone function
    of the score, so a score is compared only with the positives of its bucket, and rounding in the bucket cannot change
    a count.
    """
    count_in_gaps(other, table, n_values, buckets)

    # The last two numbers count what is above all positives, and what is +inf: those tie with the end of the table.
    negatives = np.int64(table.tally[2 * n_values]) + np.int64(table.tally[2 * n_values + 1])
    i = positive.size
    for group in range(n_values):
        k = n_values - 1 - group
        counted = i
        while i > 0 and positive[i - 1] == table.value[k]:
            i -= 1
        groups.positives[group] = positive.size - i
        groups.above[group] = negatives
        negatives += np.int64(table.tally[2 * k + 1]) - (counted - i if has_both else 0)
        groups.at[group] = negatives
        negatives += np.int64(table.tally[2 * k])


@helper
def buckets_for(n_values):
    """Return the number of buckets for this many distinct scores of positives; nondecreasing."""
    return min(BUCKETS_PER_POSITIVE * n_values, max(2 * n_values, TABLE_BUCKETS))


@helper
def distinct(ascending, value):
    """Write the distinct values of a sorted array, then +inf, and return how many there are."""
    n_values = 0
    for i in range(ascending.size):
        if i == 0 or ascending[i] != ascending[i - 1]:
            value[n_values] = ascending[i]
            n_values += 1
    value[n_values] = np.inf
    return n_values


@helper
def bucket_of(x, low, scale, last):
    """Return the bucket of a score, from 0 to `last`; monotone in the score."""
    zero = last - last  # of the type of the scores
    position = (x - low) * scale
    position = position if position > zero else zero  # also where it is NaN, infinity times a scale of 0
    position = position if position < last else last
    return np.int32(position)


@helper
def fill_buckets(table, n_values):
    """Divide the range of this many distinct scores into buckets, and fill ``entry``."""
    value, entry, n_buckets = table.value, table.entry, buckets_for(n_values)
    i = 0
    j = n_values - 1
    # Infinite scores fall into the buckets at the ends: in the range, they would leave one bucket for all others.
    while i < j and np.isinf(value[i]):
        i += 1
    while j > i and np.isinf(value[j]):
        j -= 1
    last = value.dtype.type(n_buckets - 1)
    half_width = value[j] / 2 - value[i] / 2  # the width itself may overflow
    scale = value.dtype.type(last / half_width / 2) if half_width > 0 else value.dtype.type(0)
    low = value[i]
    for b in range(n_buckets):
        entry[b] = 0
    for k in range(n_values):
        entry[bucket_of(value[k], low, scale, last)] += np.uint32(1)
    crowding = fullest = below = 0
    for b in range(n_buckets):
        here = np.int64(entry[b])
        crowding += here * here
        fullest = max(fullest, here)
        entry[b] = 2 * below + (here > 0)
        below += here
    entry[n_buckets] = 2 * below
    return Buckets(low, scale, last, fullest, crowding)


@helper
def find_places(scores, table, buckets):
    """Write where in the tally each score of a segment counts.

    In a bucket without a value all scores have one place. The others are separated and compared, by steps without
    branches, because which way such a score goes is nearly random.
    """
    value, entry = table.value, table.entry
    low, scale, last, fullest = buckets.low, buckets.scale, buckets.last, buckets.fullest
    bucket, place, shared = table.segment.bucket, table.segment.place, table.segment.shared
    for i in range(scores.size):  # a separate loop, which compiles to vector instructions
        bucket[i] = bucket_of(scores[i], low, scale, last)
    n_shared = np.uint64(0)
    for i in range(scores.size):
        place[i] = entry[np.uint32(bucket[i])]
        shared[n_shared] = i
        n_shared += np.uint64(place[i] & np.uint32(1))
    for j in range(np.int64(n_shared)):
        i = shared[j]
        x = scores[i]
        k = np.uint64(place[i] >> np.uint32(1))
        if fullest > LINEAR:
            k = first_not_below(value, k, np.uint64(entry[np.uint32(bucket[i]) + np.uint32(1)] >> np.uint32(1)), x)
        k += np.uint64(value[k] < x)
        k += np.uint64(value[k] < x)
        while value[k] < x:
            k += np.uint64(1)
        place[i] = np.uint64(2) * k + np.uint64(value[k] == x)


@helper
def count_in_gaps(negative, table, n_values, buckets):
    """Fill ``tally`` from the score of every negative.

    If most are below all positives, these are counted at once: otherwise each count would wait for the one before.
    """
    tally, place, kept, lowest = table.tally, table.segment.place, table.kept, table.value[0]
    for k in range(2 * n_values + 2):
        tally[k] = 0
    for start in range(0, negative.size, SEGMENT):
        scores = negative[start : start + SEGMENT]
        below = 0
        for i in range(scores.size):
            below += scores[i] < lowest
        if 2 * below > scores.size:
            n_kept = np.uint64(0)
            for i in range(scores.size):
                kept[n_kept] = scores[i]
                n_kept += np.uint64(not scores[i] < lowest)
            tally[0] += np.uint32(below)
            scores = kept[: scores.size - below]
        find_places(scores, table, buckets)  # one call: it is large, and every call would be compiled again
        for i in range(scores.size):
            tally[place[i]] += np.uint32(1)


@helper
def first_not_below(value, start, end, x):
    """Narrow [start, end) by bisection to few ascending values that include the first one not below `x`."""
    while end - start > LINEAR:
        middle = (start + end) // np.uint64(2)
        if value[middle] < x:
            start = middle + np.uint64(1)
        else:
            end = middle
    return start


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
def append_missing(groups, n_groups, classes):
    """Append the items without a score as one last tie group, tied below every score."""
    if classes.missing_positives > 0:
        groups.positives[n_groups] = classes.positives + classes.missing_positives
        groups.above[n_groups] = classes.negatives
        groups.at[n_groups] = classes.negatives + classes.missing_negatives
        n_groups += 1
    return n_groups


@helper
def new_table(n_positive, like):
    """Return work space for rankings of up to `n_positive` positives, with scores of the type of `like`."""
    return GapTable(
        np.empty(n_positive + 1, like.dtype),
        np.empty(buckets_for(n_positive) + 1, np.uint32),
        np.empty(2 * n_positive + 2, np.uint32),
        new_segment(),
        np.empty(SEGMENT, like.dtype),
    )


@helper
def new_segment():
    """Return work space for a segment of negatives."""
    return Segment(np.empty(SEGMENT, np.int32), np.empty(SEGMENT, np.uint32), np.empty(SEGMENT, np.uint32))


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
