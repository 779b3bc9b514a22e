"""A ranking as whole numbers that sort by score and carry the label in their lowest bit: one sort, nothing to merge.

The bit patterns of magnitudes, counted from the smallest one that is not 0, leave room for the sign and for the label
unless the magnitudes spread over more than 128 powers of 2 (1024 for float64). So no bit of a score is lost.
"""

import numpy as np
from numba import types

from aucpr_dask.kernels.compiling import Cache, helper
from aucpr_dask.kernels.rankings.tie_groups import SEGMENT, Blocks
from aucpr_dask.kernels.signatures import F4, F8, I1, OPTIONS_TYPE, U4, U8, row_of

CACHE = Cache(__name__)


@helper
def pack(bits, label, positive_from, sign, infinity, keys):
    """Fill `keys` from bit patterns; return False if they do not fit, or if a score is not finite."""
    nothing = sign - sign
    one = sign // sign
    least, most = infinity, nothing
    for i in range(bits.size):
        magnitude = bits[i] & (sign - one)
        most = max(most, magnitude)
        least = min(least, magnitude if magnitude > nothing else infinity)
    zero = min(least, most) - (one if least <= most else nothing)  # 0 comes just below the smallest
    span = most - zero
    if most >= infinity or span >= sign // (one + one):
        return False
    for i in range(bits.size):
        magnitude = bits[i] & (sign - one)
        distance = magnitude - zero if magnitude > nothing else nothing
        order = span + distance if bits[i] < sign else span - distance
        keys[i] = (order << one) | np.uint64(label[i] >= positive_from)
    return True


@CACHE.kernel(types.boolean(row_of(F4), row_of(I1), OPTIONS_TYPE, U4[::1]))
def pack_float32(score, label, options, keys):
    """Fill `keys`, to be sorted; return False if they do not fit."""
    positive_from = np.int8(options.positive_from)
    return pack(score.view(np.uint32), label, positive_from, np.uint32(2**31), np.uint32(0x7F800000), keys)


@CACHE.kernel(types.boolean(row_of(F8), row_of(I1), OPTIONS_TYPE, U8[::1]))
def pack_float64(score, label, options, keys):
    """Fill `keys`, to be sorted; return False if they do not fit."""
    positive_from = np.int8(options.positive_from)
    return pack(score.view(np.uint64), label, positive_from, np.uint64(2**63), np.uint64(0x7FF << 52), keys)


@helper
def count_below(keys, i, key):
    """Count the keys just below place `i` that equal `key`."""
    n = 0
    while i > n and keys[i - n - 1] == key:
        n += 1
    return n


@helper
def count_orders(keys, one):
    """Count the distinct scores of sorted keys, up to 3."""
    n = 0
    for i in range(keys.size):
        n += i == 0 or (keys[i] >> one) != (keys[i - 1] >> one)
        if n == 3:
            break
    return n


@CACHE.kernel(*(types.int64(row_of(k), F8[:, ::1], F8[::1]) for k in (U4, U8)))
def packed_blocks(keys, space, counts):
    """Fill the blocks in `space` from sorted keys, and write the distinct scores to `counts`; return how many blocks.

    Keys of tied items differ in the lowest bit only: the negatives stand just below the positives that they tie with.
    """
    blocks = Blocks(space[0], space[1], space[2])
    place = np.empty(SEGMENT, np.uint32)
    n_blocks = n_positive = 0
    one = keys.dtype.type(1)
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
            blocks.positives[n_blocks] = n_positive
            blocks.above[n_blocks] = above
            blocks.at[n_blocks] = above + count_below(keys, i, key - one)
            n_blocks += i == 0 or keys[i - 1] != key
    counts[4] = count_orders(keys, one)
    return n_blocks


CACHE.publish()
