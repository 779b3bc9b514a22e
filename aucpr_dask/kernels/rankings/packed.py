"""A ranking as whole numbers that sort by score and carry the label in their lowest bit: one sort, nothing to merge.

The bit patterns of magnitudes, counted from the smallest one that is not 0, leave room for the sign and for the label
unless the magnitudes spread over more than 128 powers of 2. So no bit of a score is lost. For float64, two sorts and a
merge are as fast.
"""

import numpy as np
from numba import types

from aucpr_dask.kernels.compiling import Cache, helper
from aucpr_dask.kernels.rankings.tie_groups import SEGMENT, TieGroups
from aucpr_dask.kernels.signatures import F4, F8, I1, OPTIONS_TYPE, U4, row_of

CACHE = Cache(__name__)


@CACHE.kernel(types.boolean(row_of(F4), row_of(I1), OPTIONS_TYPE, U4[::1]))
def pack(score, label, options, keys):
    """Fill `keys`, to be sorted; return False if they do not fit, or if a score is not finite."""
    bits = score.view(np.uint32)
    positive_from = np.int8(options.positive_from)
    sign, infinity, nothing, one = np.uint32(2**31), np.uint32(0x7F800000), np.uint32(0), np.uint32(1)
    least, most = infinity, nothing
    for i in range(bits.size):
        magnitude = bits[i] & (sign - one)
        most = max(most, magnitude)
        least = min(least, magnitude if magnitude > nothing else infinity)
    zero = min(least, most) - (one if least <= most else nothing)  # 0 comes just below the smallest
    span = most - zero
    if most >= infinity or span >= np.uint32(2**30):
        return False
    for i in range(bits.size):
        magnitude = bits[i] & (sign - one)
        distance = magnitude - zero if magnitude > nothing else nothing
        order = span + distance if bits[i] < sign else span - distance
        keys[i] = (order << one) | np.uint32(label[i] >= positive_from)
    return True


@helper
def count_below(keys, i, key):
    """Count the keys just below place `i` that equal `key`."""
    n = 0
    while i > n and keys[i - n - 1] == key:
        n += 1
    return n


@helper
def count_orders(keys):
    """Count the distinct scores of sorted keys, up to 3."""
    n = 0
    for i in range(keys.size):
        n += i == 0 or (keys[i] ^ keys[i - 1]) > 1
        if n == 3:
            break
    return n


@CACHE.kernel(types.int64(row_of(U4), F8[:, ::1], F8[::1]))
def packed_groups(keys, space, counts):
    """Fill the tie groups in `space` from sorted keys; negatives come just below positives that they tie with."""
    groups = TieGroups(space[0], space[1], space[2])
    place = np.empty(SEGMENT, np.uint32)
    n_groups = n_positive = 0
    one = np.uint32(1)
    for end in range(keys.size, 0, -SEGMENT):
        start = max(0, end - SEGMENT)
        segment = keys[start:end]
        n_here = np.uint64(0)
        for j in range(segment.size):  # each is written, and that of a positive stays: without branches
            place[n_here] = j
            n_here += np.uint64(segment[j] & one)
        for p in range(np.int64(n_here) - 1, -1, -1):
            i = start + np.int64(place[p])
            above = keys.size - 1 - i - n_positive
            n_positive += 1
            key = keys[i]
            groups.positives[n_groups] = n_positive
            groups.above[n_groups] = above
            groups.at[n_groups] = above + count_below(keys, i, key - one)
            n_groups += i == 0 or keys[i - 1] != key
    counts[4] = count_orders(keys)
    return n_groups


CACHE.publish()
