"""Sort long arrays by NumPy, or by digits where that is faster.

NumPy sorts with the widest vectors there are. Three passes over digits of 11 or 12 bits are faster than its vectors of
256 bits for keys of 64 bits, of which they read half. On Zen 4 they are many times faster than its vectors of 512 bits:
that processor takes over a hundred cycles to store a part of one (https://github.com/numpy/x86-simd-sort/issues/6).
"""

from __future__ import annotations

import functools
from typing import Any

import llvmlite.binding
import numpy as np
from numpy.typing import NDArray

WORTH_COUNTING = 4096  # keys
DIGIT = 12  # bits, at most


def sorted_keys(keys: NDArray[Any], first_bit: int = 0) -> NDArray[Any]:
    """Sort whole numbers that ascend already in the bits below `first_bit`; the result may share their memory.

    With digits, those that differ below `first_bit` only keep their order.
    """
    n_bits = 8 * keys.itemsize - first_bit
    n_digits = 3 * -(-n_bits // (3 * DIGIT))
    if keys.size < WORTH_COUNTING or n_digits > _most_digits(keys.itemsize):
        keys.sort()
        return keys
    from aucpr_dask.kernels.rankings.digits import sort_three_digits

    number, width = keys.dtype.type, -(-n_bits // n_digits)
    place = np.empty((3, 1 << width), np.uint32)
    other = np.empty_like(keys)
    for digit in range(0, n_digits, 3):
        sort_three_digits(keys, other, number(first_bit + digit * width), number(width), place)
        keys, other = other, keys
    return keys


def sort_scores(scores: NDArray[Any]) -> None:
    """Sort floats that are not NaN, in place."""
    if scores.size < WORTH_COUNTING or 8 * scores.itemsize > DIGIT * _most_digits(scores.itemsize):
        scores.sort()
        return
    keys = _to_keys(scores)
    keys[...] = sorted_keys(keys)
    sign, shift = keys.dtype.type(1 << (8 * keys.itemsize - 1)), 8 * keys.itemsize - 1
    keys ^= (~keys.view(f"i{keys.itemsize}") >> shift).view(keys.dtype) | sign


def ascending_places(scores: NDArray[Any]) -> NDArray[np.int64]:
    """Return the places of scores from the lowest to the highest, with those of NaN anywhere."""
    if scores.size < WORTH_COUNTING or not _most_digits(scores.itemsize):
        return np.argsort(scores)
    low, width = np.uint64(2**32 - 1), np.uint64(32)
    keys = _to_keys(scores.copy())
    place = np.arange(scores.size, dtype=np.uint64)
    for half in (keys & low, keys >> width):  # the second sort keeps the order of the first
        place = sorted_keys(half[place.view(np.int64)] << width | place, 32) & low
    return place.view(np.int64)


def descending_places(scores: NDArray[Any]) -> NDArray[np.int64]:
    """Return the places of scores from the highest to the lowest, NaN last; those that tie in any order."""
    if scores.dtype != np.float32:
        return np.argsort(-scores)
    low, width = np.uint64(2**32 - 1), np.uint64(32)
    keys = ~_to_keys(scores + np.float32(0))  # which makes -0 a 0
    keys[np.isnan(scores)] = low
    place = np.arange(scores.size, dtype=np.uint64)
    return (sorted_keys(keys.astype(np.uint64) << width | place, 32) & low).view(np.int64)


def _to_keys(scores: NDArray[Any]) -> NDArray[Any]:
    """Replace floats by whole numbers that ascend as they do, in the same memory."""
    keys = scores.view(f"u{scores.itemsize}")
    sign, shift = keys.dtype.type(1 << (8 * keys.itemsize - 1)), 8 * keys.itemsize - 1
    keys ^= (keys.view(f"i{keys.itemsize}") >> shift).view(keys.dtype) | sign  # the bits of negative floats descend
    return keys


@functools.cache
def _most_digits(itemsize: int) -> int:
    """Return the largest number of digits for which they are faster than NumPy on this processor."""
    of_maximum = np.lib.introspect.opt_func_info("^maximum$").get("maximum", {})
    vectors = of_maximum.get("ddd", {}).get("current", "")
    if not vectors.startswith(("X86_V4", "AVX512")):
        return 3 if itemsize == 8 else 0
    return 6 if llvmlite.binding.get_host_cpu_name() == "znver4" else 0
