"""Sort scores: as floats, or as whole numbers that ascend as they do.

NumPy sorts with the widest vectors there are, but for Zen 4: that processor takes over a hundred cycles to store a part
of a vector of 512 bits (https://github.com/numpy/x86-simd-sort/issues/6), and passes over digits are ten times faster.
"""

from __future__ import annotations

import functools
from typing import Any

import llvmlite.binding
import numpy as np
from numba import types
from numpy.typing import NDArray

from aucpr_dask.kernels.classes import fill_counts
from aucpr_dask.kernels.compiling import F4, F8, I1, I8, OPTIONS_TYPE, U4, U8, helper, kernel, row_of, rows_of
from aucpr_dask.kernels.options import Options
from aucpr_dask.kernels.tie_groups import SEGMENT, TieGroups

Floats = NDArray[np.float32] | NDArray[np.float64]
InOrder = tuple[NDArray[np.float64], NDArray[np.int64]]

WORTH_COUNTING = 4096  # keys
DIGIT = 12  # bits, at most
SIGN, ALL_BITS = np.uint32(2**31), np.uint32(2**32 - 1)


def sort_scores(scores: NDArray[Any]) -> None:
    """Sort floats that are not NaN, in place."""
    if scores.size < WORTH_COUNTING or not numpy_sorts_slowly():
        scores.sort()
        return
    keys = _to_keys(scores)
    keys[...] = sorted_keys(keys)
    sign, shift = keys.dtype.type(1 << (8 * keys.itemsize - 1)), 8 * keys.itemsize - 1
    keys ^= (~keys.view(f"i{keys.itemsize}") >> shift).view(keys.dtype) | sign


def sorted_keys(keys: NDArray[Any], first_bit: int = 0) -> NDArray[Any]:
    """Sort whole numbers that ascend already in the bits below `first_bit`; the result may share their memory."""
    if keys.size < WORTH_COUNTING or not numpy_sorts_slowly():
        keys.sort()
        return keys
    n_bits = 8 * keys.itemsize - first_bit
    n_digits = 3 * -(-n_bits // (3 * DIGIT))
    number, width = keys.dtype.type, -(-n_bits // n_digits)
    place = np.empty((3, 1 << width), np.uint32)
    other = np.empty_like(keys)
    for digit in range(0, n_digits, 3):
        sort_three_digits(keys, other, number(first_bit + digit * width), number(width), place)
        keys, other = other, keys
    return keys


def sorted_rows(keys: NDArray[Any], first_bit: int = 0) -> NDArray[Any]:
    """Sort each row as `sorted_keys` does; the result may share their memory."""
    if keys.shape[-1] < WORTH_COUNTING or not numpy_sorts_slowly():
        keys.sort(axis=-1)
        return keys
    return np.stack([sorted_keys(row, first_bit) for row in keys])


def ascending_places(scores: NDArray[Any]) -> NDArray[np.int64]:
    """Return the places of scores from the lowest to the highest, with those of NaN anywhere."""
    if scores.size < WORTH_COUNTING or not numpy_sorts_slowly():
        return np.argsort(scores)
    low, width = np.uint64(2**32 - 1), np.uint64(32)
    keys = _to_keys(scores.copy())
    place = np.arange(scores.size, dtype=np.uint64)
    for half in (keys & low, keys >> width):  # the second sort keeps the order of the first
        place = sorted_keys(half[place.view(np.int64)] << width | place, 32) & low
    return place.view(np.int64)


def in_order(scores: Floats) -> InOrder:
    """Return negated scores, and their `descending_places`."""
    return -scores.astype(np.float64), descending_places(scores)


def descending_places(scores: Floats) -> NDArray[np.int64]:
    """Return the places of scores in each row, from the highest to the lowest, NaN last; ties are in any order."""
    if scores.dtype != np.float32:
        return np.argsort(-scores)
    low, width = np.uint64(2**32 - 1), np.uint64(32)
    keys = ~_to_keys(scores + np.float32(0))  # which makes -0 a 0
    keys[np.isnan(scores)] = low
    packed = keys.astype(np.uint64) << width | np.arange(scores.shape[-1], dtype=np.uint64)
    return (sorted_rows(packed.reshape(-1, scores.shape[-1]), 32) & low).view(np.int64).reshape(scores.shape)


def _to_keys(scores: NDArray[Any]) -> NDArray[Any]:
    """Replace floats by whole numbers that ascend as they do, in the same memory."""
    keys = scores.view(f"u{scores.itemsize}")
    sign, shift = keys.dtype.type(1 << (8 * keys.itemsize - 1)), 8 * keys.itemsize - 1
    keys ^= (keys.view(f"i{keys.itemsize}") >> shift).view(keys.dtype) | sign  # the bits of negative floats descend
    return keys


@functools.cache
def numpy_sorts_slowly() -> bool:
    """Return whether this processor is a Zen 4 on which NumPy uses vectors of 512 bits."""
    of_maximum = np.lib.introspect.opt_func_info("^maximum$").get("maximum", {})
    vectors = of_maximum.get("ddd", {}).get("current", "")
    return vectors.startswith(("X86_V4", "AVX512")) and llvmlite.binding.get_host_cpu_name() == "znver4"


def groups_of_packed(
    score: Floats,
    label: NDArray[np.int8],
    label_row: NDArray[np.int64],
    options: Options,
    space: NDArray[np.float64],
    n_groups: NDArray[np.int64],
    counts: NDArray[np.float64],
) -> bool:
    """Fill the tie groups of rankings of float32, and their counts, by one sort; return False if they do not fit.

    Scores become whole numbers that carry the label in their lowest bit: one sort, and nothing to merge. The bit
    patterns of magnitudes, counted from the smallest one that is not 0, leave room for the sign and for the label, and
    no bit of a score is lost, unless the magnitudes spread over more than 128 powers of 2. For float64, two sorts and a
    merge are as fast.
    """
    keys = np.empty(score.shape, np.uint32)
    if not pack_rows(score, label, label_row, options, keys, counts):
        return False
    packed_groups(sorted_rows(keys), space, n_groups, counts)
    return True


@helper
def to_places(counts):
    """Replace the number of keys with each digit by the place of the first of them."""
    n_below = np.uint32(0)
    for digit in range(counts.size):
        n_here = counts[digit]
        counts[digit] = n_below
        n_below += n_here


@helper
def move(keys, other, shift, mask, place):
    """Move keys to their places by one digit."""
    one = np.uint32(1)
    for i in range(keys.size):
        key = keys[i]
        value = (key >> shift) & mask
        to = place[value]
        other[to] = key
        place[value] = to + one


@kernel(*(types.void(key[::1], key[::1], key, key, U4[:, ::1]) for key in (U4, U8)))
def sort_three_digits(keys, other, first_bit, width, place):
    """Sort `keys` into `other` by three digits, in the bits from `first_bit` on; equal ones keep their order."""
    second, third = first_bit + width, first_bit + width + width
    mask = (keys.dtype.type(1) << width) - keys.dtype.type(1)
    one = np.uint32(1)
    place[:] = 0
    for i in range(keys.size):
        place[0, (keys[i] >> first_bit) & mask] += one
        place[1, (keys[i] >> second) & mask] += one
        place[2, (keys[i] >> third) & mask] += one
    for digit in range(3):
        to_places(place[digit])
    move(keys, other, first_bit, mask, place[0])
    move(other, keys, second, mask, place[1])
    move(keys, other, third, mask, place[2])


@helper
def ascending_bits(bits, score):
    """Return a whole number that ascends as the scores do, from the bits of a float32."""
    pattern = bits if score != 0 else bits ^ bits  # -0 ties with 0
    # As whole numbers, the patterns of positive scores ascend; those of negative ones descend, above them.
    return pattern ^ (ALL_BITS if pattern >= SIGN else SIGN)


@helper
def pack(bits, label, options, keys, counts):
    """Fill `keys`, to be sorted, with items that are not ranked last; return False if they do not fit."""
    lowest, positive_from = np.int8(options.drop_unjudged - 1), np.int8(options.positive_from)
    sign, infinity, nothing, one = np.uint32(2**31), np.uint32(0x7F800000), np.uint32(0), np.uint32(1)
    least, most = infinity, nothing
    n_items = n_positive = n_ranked = n_ranked_positive = 0
    for i in range(bits.size):
        magnitude = bits[i] & (sign - one)
        is_item, is_positive, is_known = label[i] >= lowest, label[i] >= positive_from, magnitude <= infinity
        n_items += is_item
        n_positive += is_positive
        n_ranked += is_item & is_known
        n_ranked_positive += is_positive & is_known
        most = max(most, magnitude if is_known else nothing)
        least = min(least, magnitude if magnitude > nothing else infinity)
    missing = n_positive - n_ranked_positive
    fill_counts(counts, n_ranked_positive, n_ranked - n_ranked_positive, missing, n_items - n_ranked - missing)
    zero = min(least, most) - (one if least <= most else nothing)  # 0 comes just below the smallest
    span = most - zero
    if most >= infinity or span >= np.uint32(2**30):
        return False
    for i in range(bits.size):
        magnitude = bits[i] & (sign - one)
        distance = magnitude - zero if magnitude > nothing else nothing
        order = span + distance if bits[i] < sign else span - distance
        is_ranked = (label[i] >= lowest) & (magnitude <= infinity)
        keys[i] = (order << one) | np.uint32(label[i] >= positive_from) if is_ranked else ~nothing
    return True


@kernel(types.boolean(rows_of(F4), rows_of(I1), row_of(I8), OPTIONS_TYPE, U4[:, ::1], F8[:, ::1]))
def pack_rows(score, label, label_row, options, keys, counts):
    """Fill the keys and counts of every ranking, as long as they fit."""
    bits, fit = score.view(np.uint32), True
    for row in range(len(bits)):
        fit = fit and pack(bits[row], label[label_row[row]], options, keys[row], counts[row])
    return fit


@helper
def count_orders(keys):
    """Count the distinct scores of sorted keys, up to 3."""
    n = 0
    for i in range(keys.size):
        n += i == 0 or (keys[i] ^ keys[i - 1]) > 1
        if n == 3:
            break
    return n


@helper
def groups_of_keys(keys, groups):
    """Fill the tie groups of one ranking from sorted keys; negatives come just below positives that they tie with."""
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
            n_tied = 0  # negatives, just below
            while i > n_tied and keys[i - n_tied - 1] == key - one:
                n_tied += 1
            groups.at[n_groups] = above + n_tied
            n_groups += i == 0 or keys[i - 1] != key
    return n_groups


@kernel(types.void(rows_of(U4), F8[:, :, ::1], I8[::1], F8[:, ::1]))
def packed_groups(keys, space, n_groups, counts):
    """Fill the tie groups of every ranking in `space` from sorted keys, and count distinct scores."""
    for row in range(len(keys)):
        ranked = keys[row, : np.int64(counts[row, 5])]
        n_groups[row] = groups_of_keys(ranked, TieGroups(space[0, row], space[1, row], space[2, row]))
        counts[row, 6] = count_orders(ranked)
