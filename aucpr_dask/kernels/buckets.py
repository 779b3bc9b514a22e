"""The tie groups of a weighted ranking whose items, with their weights, are first put into buckets by score.

A sort that moves keys alone leaves the weights to be fetched from all over the memory, which takes nearly as long as
the sort. Here each score moves once, with its weight, into a bucket that fits a core's first cache, and is sorted and
added up there. For float64, of which scores are twice as wide, that is no faster.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numpy.typing import NDArray

from aucpr_dask.kernels.compiling import helper, kernel
from aucpr_dask.kernels.signatures import F4, F8, I1, U4, row_of
from aucpr_dask.kernels.sorting import ALL_BITS, SIGN, ascending_bits, move, to_places
from aucpr_dask.kernels.tie_groups import POSITIVE, TieGroups, add_items

PLACE_BITS = 16  # of the range of scores: items are counted at 65,536 places, neighbours of which are joined
BUCKET = 1024  # items, about
KEY_BITS, MOST_DIGIT = 32, 11


def room_for(n_items: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.float64]]:
    """Return work space: one piece of memory, which the system leaves to the next ranking."""
    signed, halves = np.empty((2, n_items))
    order, bucketed = halves.view(np.uint32).reshape(2, n_items)
    return order, bucketed, signed


@helper
def bits_of(number):
    """Return how many bits a whole number takes."""
    n = 0
    while number >> n > 0:
        n += 1
    return n


@helper
def ascend(score, order):
    """Fill whole numbers from 0 that ascend as the scores do; return how many of their bits lie below the places."""
    bits = score.view(np.uint32)
    low, high = ALL_BITS, np.uint32(0)
    for i in range(score.size):
        order[i] = ascending_bits(bits[i], score[i], SIGN, ALL_BITS)
        low, high = min(low, order[i]), max(high, order[i])
    for i in range(score.size):
        order[i] -= low
    width = bits_of(high - low)
    return width - min(width, PLACE_BITS)


@helper
def number_buckets(order, shift, bucket, start):
    """Join places to buckets: fill the bucket of each place, and where buckets start; return how many they are.

    The range of a bucket and its number of items fit a key together. Return 0 if those of a single place do not,
    unless all its scores are equal.
    """
    count = np.zeros(1 << PLACE_BITS, np.uint32)
    for i in range(order.size):
        count[order[i] >> shift] += np.uint32(1)
    n_buckets = first = n_here = n_before = 0
    for place in range(count.size):
        n = count[place]
        if n == 0:
            continue
        width = shift + bits_of(place - first) + bits_of(n_here + n)
        if n_buckets == 0 or n_here + n > BUCKET or width > KEY_BITS:
            if shift + bits_of(n) > KEY_BITS and not all_equal(order, shift, place):
                return 0
            start[n_buckets] = n_before
            n_buckets += 1
            first, n_here = place, 0
        bucket[place] = n_buckets - 1
        n_here += n
        n_before += n
    start[n_buckets] = n_before
    return n_buckets


@helper
def all_equal(order, shift, place):
    """Return whether all items at a place have one score."""
    low, high = ALL_BITS, np.uint32(0)
    for i in range(order.size):
        if order[i] >> shift == place:
            low, high = min(low, order[i]), max(high, order[i])
    return low == high


@helper
def fill_buckets(order, shift, classes, weight, bucket, end, bucketed, signed):
    """Move items into their buckets, in the order in which they come; the weights of negatives get a minus."""
    for i in range(order.size):
        its_bucket = bucket[order[i] >> shift]
        to = end[its_bucket]
        bucketed[to] = order[i]
        signed[to] = weight[i] if classes[i] == POSITIVE else -weight[i]
        end[its_bucket] = to + np.uint32(1)


@helper
def sort_bucket(order, index_bits, keys, other, places):
    """Return sorted keys: how far an item is above the lowest and, in `index_bits` below that, its number."""
    low, high = ALL_BITS, np.uint32(0)
    for j in range(order.size):
        low, high = min(low, order[j]), max(high, order[j])
    keys, other = keys[: order.size], other[: order.size]
    for j in range(order.size):
        keys[j] = ((order[j] - low) << index_bits) | np.uint32(j)
    width = bits_of(high - low)
    digit = np.uint32(-(-width // max(1, -(-width // MOST_DIGIT))))
    shift = index_bits
    while shift < index_bits + width:
        place = places[: 1 << digit]
        mask = np.uint32(place.size - 1)
        place[:] = 0
        for j in range(keys.size):
            place[(keys[j] >> shift) & mask] += np.uint32(1)
        to_places(place)
        move(keys, other, shift, mask, place)
        keys, other = other, keys
        shift += digit
    return keys


@helper
def weigh(keys, index_bits, signed, gain, loss, is_lowest):
    """Fill the weights of the items as positives and as negatives, and whether an item is the first of its score."""
    number = (np.uint32(1) << index_bits) - np.uint32(1)
    for j in range(keys.size):
        weight = signed[keys[j] & number]
        gain[j] = max(weight, 0.0)
        loss[j] = max(-weight, 0.0)
        is_lowest[j] = j == 0 or keys[j] >> index_bits != keys[j - 1] >> index_bits


@kernel(types.int64(row_of(F4), row_of(I1), row_of(F8), U4[::1], U4[::1], F8[::1], F8[:, ::1], F8[::1]))
def groups_in_buckets(score, classes, weight, order, bucketed, signed, space, counts):
    """Fill the tie groups in `space`, and the counts of what has a score; return the number of groups.

    All items have a score, a weight, and one class. If too many scores are too close together, return -1.
    """
    groups = TieGroups(space[0], space[1], space[2])
    bucket = np.empty(1 << PLACE_BITS, np.uint16)
    start = np.empty((1 << PLACE_BITS) + 1, np.uint32)
    shift = ascend(score, order)
    n_buckets = number_buckets(order, shift, bucket, start)
    if n_buckets == 0:
        return -1
    fill_buckets(order, shift, classes, weight, bucket, start[:n_buckets].copy(), bucketed, signed)

    largest = np.max(start[1 : n_buckets + 1] - start[:n_buckets])
    keys, other, places = (
        np.empty(largest, np.uint32),
        np.empty(largest, np.uint32),
        np.empty(1 << MOST_DIGIT, np.uint32),
    )
    gain, loss, is_lowest = np.empty(largest), np.empty(largest), np.empty(largest, np.bool_)
    state = np.zeros(6)
    n_groups = n_distinct = 0
    for b in range(n_buckets - 1, -1, -1):
        here, weights = bucketed[start[b] : start[b + 1]], signed[start[b] : start[b + 1]]
        index_bits = np.uint32(bits_of(here.size - 1))
        ascending = sort_bucket(here, index_bits, keys, other, places)
        weigh(ascending, index_bits, weights, gain, loss, is_lowest)
        n_groups, n_distinct = add_items(gain, loss, is_lowest, here.size, False, groups, state, n_groups, n_distinct)
    counts[0], counts[1], counts[6] = state[4], state[5], min(n_distinct, 3)
    return n_groups
