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

from aucpr_dask.kernels.compiling import F8, U4, U8, helper, kernel, rows_of
from aucpr_dask.kernels.options import MOST_PLACES

Floats = NDArray[np.float32] | NDArray[np.float64]
InOrder = tuple[NDArray[np.float64], NDArray[np.int64]]

WORTH_COUNTING = 4096  # keys
DIGIT = 12  # bits, at most
SIGN, ALL_BITS, INFINITE = np.uint32(2**31), np.uint32(2**32 - 1), np.uint32(0x7F800000)  # patterns of float32
PLACE = np.uint64(MOST_PLACES - 1)  # the bits of a key that hold the place


def sort_scores(scores: NDArray[Any]) -> None:
    """Sort floats that are not NaN, in place."""
    if scores.size < WORTH_COUNTING or not numpy_sorts_slowly():
        scores.sort()
        return
    keys = _to_keys(scores)
    keys[...] = sorted_keys(keys)
    sign, shift = keys.dtype.type(1 << (8 * keys.itemsize - 1)), 8 * keys.itemsize - 1
    keys ^= (~keys.view(f"i{keys.itemsize}") >> shift).view(keys.dtype) | sign


def sort_rows_of_scores(scores: NDArray[Any]) -> None:
    """Sort each row as `sort_scores` does, in place."""
    if scores.shape[-1] < WORTH_COUNTING or not numpy_sorts_slowly():
        scores.sort(axis=-1)
        return
    for row in scores:
        sort_scores(row)


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


def in_order(scores: Floats) -> InOrder:
    """Return scores of rankings as float64, and their places from the highest to the lowest, NaN last.

    Ties are in the order of places. What is sorted are whole numbers, several times as fast as places are: from the
    highest bit, 32 bits in which scores as float32 descend, and the place.
    """
    with np.errstate(over="ignore"):  # scores beyond float32 become infinite, tie, and are told apart like all that do
        bits = np.ascontiguousarray(scores, np.float32).view(np.uint32)
    keys = np.empty(scores.shape, np.uint64)
    descending_keys(bits, keys)
    keys = sorted_rows(keys, 32)
    if scores.dtype == np.float64:
        is_refined = np.empty(len(keys), np.bool_)
        refine_keys(scores, keys, is_refined)
        for row in np.flatnonzero(~is_refined).tolist():
            keys[row] = np.argsort(-scores[row], kind="stable")
    keys &= PLACE
    return scores.astype(np.float64, copy=False), keys.view(np.int64)


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


@kernel(types.void(rows_of(U4), U8[:, ::1]))
def descending_keys(bits, keys):
    """Fill the keys of scores from their bits as float32. Without branches, so that it compiles to vector instructions.

    As whole numbers, the patterns of negative scores ascend as these descend; so do others, once inverted.
    """
    for row in range(len(keys)):
        for i in range(keys.shape[1]):
            pattern = bits[row, i]
            pattern = pattern if pattern != SIGN else np.uint32(0)  # -0 ties with 0
            inverted = pattern if pattern >= SIGN else pattern ^ (ALL_BITS ^ SIGN)
            is_nan = (pattern & (ALL_BITS ^ SIGN)) > INFINITE
            keys[row, i] = (np.uint64(ALL_BITS if is_nan else inverted) << np.uint64(32)) | np.uint64(i)


@helper
def refine(score, keys):
    """Put in order the sorted keys of scores that tie as float32; return False if that takes long."""
    n_moves = 0
    for i in range(1, keys.size):
        key = keys[i]
        if (keys[i - 1] ^ key) > PLACE:
            continue
        x, k = score[key & PLACE], i
        while k > 0 and (keys[k - 1] ^ key) <= PLACE and score[keys[k - 1] & PLACE] < x:
            keys[k] = keys[k - 1]
            k -= 1
        keys[k] = key
        n_moves += i - k
        if n_moves > keys.size:
            return False
    return True


@kernel(types.void(rows_of(F8), U8[:, ::1], types.boolean[::1]))
def refine_keys(score, keys, is_refined):
    """Do the work of `refine` for every ranking."""
    for row in range(len(keys)):
        is_refined[row] = refine(score[row], keys[row])
