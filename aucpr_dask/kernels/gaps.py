"""Scores counted in the gaps between some others, of which only these must be sorted.

A table divides the range of distinct scores, ascending and followed by +inf, into equal buckets. A bucket is a monotone
function of the score, so a score is compared only with those of its bucket, and rounding in the bucket cannot change a
count. A *tally* holds two numbers for each of them: how many scores, or what weight, lie below it and above the one
before, and how much ties with it. Its last two numbers are above all; what is +inf ties with the end of the table.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from aucpr_dask.kernels.compiling import F8, FLOATS, U4, helper, kernel, row_of
from aucpr_dask.kernels.options import Array
from aucpr_dask.kernels.sorting import Floats

BUCKETS_PER_SCORE = 16
TABLE_BUCKETS = 1 << 18  # buckets that stay in a core's own cache; beyond, there are 2 for each score
SEGMENT = 1024  # scores that fit the innermost cache of a core
CROWDED = 16  # mean number of scores that share a score's bucket, from which sorting all is faster
LINEAR = np.uint64(4)  # scores in a bucket up to which they are compared one by one


class Table(NamedTuple):
    """How the range of distinct scores is divided, and work space for a segment of others."""

    value: np.ndarray  # distinct scores, then +inf
    entry: np.ndarray  # twice the number of values in buckets below; 1 more if the bucket holds a value itself
    low: float  # the lowest finite score
    scale: float  # buckets per unit of score
    last: float  # the number of the last bucket; all three of the type of scores, so that nothing is converted
    fullest: int  # largest number of values in one bucket
    is_crowded: bool
    bucket: np.ndarray
    place: np.ndarray  # where in the tally each score of the segment counts
    shared: np.ndarray  # those whose bucket holds a value, so that they have to be compared with it


def distinct_scores(ascending: Floats, weight: Array | None = None) -> tuple[Floats, NDArray[Any]]:
    """Return the distinct values of ascending scores, then +inf; and how many there are of each, or their weight."""
    starts = np.flatnonzero(np.append(True, ascending[1:] != ascending[:-1])[: ascending.size])
    times = np.diff(starts, append=ascending.size) if weight is None else np.add.reduceat(weight, starts)
    value: Any = np.append(ascending[starts], ascending.dtype.type(np.inf))
    return value, times


@helper
def buckets_for(n_values):
    """Return the number of buckets for this many distinct scores; nondecreasing."""
    return min(BUCKETS_PER_SCORE * n_values, max(2 * n_values, TABLE_BUCKETS))


@helper
def bucket_of(x, low, scale, last):
    """Return the bucket of a score, from 0 to `last`; monotone in the score."""
    zero = last - last  # of the type of the scores
    position = (x - low) * scale
    position = position if position > zero else zero  # also where it is NaN, infinity times a scale of 0
    position = position if position < last else last
    return np.int32(position)


@helper
def table_of(value):
    """Divide the range of distinct scores, of which there is one at least, into buckets."""
    n_values = value.size - 1
    n_buckets = buckets_for(n_values)
    entry = np.zeros(n_buckets + 1, np.uint32)
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
    space = np.empty(SEGMENT, np.int32), np.empty(SEGMENT, np.uint32), np.empty(SEGMENT, np.uint32)
    return Table(value, entry, low, scale, last, fullest, crowding > CROWDED * n_values, *space)


@helper
def find_places(scores, table):
    """Write where in the tally each score of a segment counts.

    In a bucket without a value all scores have one place. The others are separated and compared, by steps without
    branches, because which way such a score goes is nearly random.
    """
    value, entry = table.value, table.entry
    low, scale, last, fullest = table.low, table.scale, table.last, table.fullest
    bucket, place, shared = table.bucket, table.place, table.shared
    for i in range(scores.size):  # separate loops, of which two compile to vector instructions
        bucket[i] = bucket_of(scores[i], low, scale, last)
    for i in range(scores.size):
        place[i] = entry[np.uint32(bucket[i])]
    n_shared = np.uint64(0)
    for i in range(scores.size):
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
def first_not_below(value, start, end, x):
    """Narrow [start, end) by bisection to few ascending values that include the first one not below `x`."""
    while end - start > LINEAR:
        middle = (start + end) // np.uint64(2)
        if value[middle] < x:
            start = middle + np.uint64(1)
        else:
            end = middle
    return start


@kernel(*(types.boolean(row_of(x), row_of(x), types.boolean, U4[::1]) for x in FLOATS))
def tally_scores(value, scores, may_refuse, tally):
    """Fill the tally of scores in any order, none of them NaN, and return True.

    With `may_refuse`, return False if many values share few buckets, so that most scores would have to be compared. If
    most scores are below all values, these are counted at once: otherwise each count would wait for the one before.
    """
    table = table_of(value)
    if may_refuse and table.is_crowded:
        return False
    place, kept = table.place, np.empty(SEGMENT, value.dtype)
    tally[:] = 0
    for start in range(0, scores.size, SEGMENT):
        part = scores[start : start + SEGMENT]
        below = 0
        for i in range(part.size):
            below += part[i] < value[0]
        if 2 * below > part.size:
            n_kept = np.uint64(0)
            for i in range(part.size):
                kept[n_kept] = part[i]
                n_kept += np.uint64(not part[i] < value[0])
            tally[0] += np.uint32(below)
            part = kept[: part.size - below]
        find_places(part, table)  # one call: it is large, and every call would be compiled again
        for i in range(part.size):
            tally[place[i]] += np.uint32(1)
    return True


@kernel(*(types.boolean(row_of(x), row_of(x), row_of(F8), F8[::1]) for x in FLOATS))
def tally_weights(value, scores, weight, tally):
    """Fill the tally of the weights of scores, as `tally_scores` does; NaN counts nowhere."""
    table = table_of(value)
    if table.is_crowded:
        return False
    place, added = table.place, np.empty(SEGMENT)
    tally[:] = 0.0
    for start in range(0, scores.size, SEGMENT):
        part, of_part = scores[start : start + SEGMENT], weight[start : start + SEGMENT]
        find_places(part, table)
        for i in range(part.size):
            added[i] = of_part[i] if part[i] == part[i] else 0.0
        for i in range(part.size):
            tally[place[i]] += added[i]
    return True
