"""Ways that the package does not go, to be measured beside those that it goes."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

DIGIT_BITS = 11  # of a radix sort: three digits hold the 33 bits of a key
N_DIGITS = 3
SIGN, ALL_BITS = np.uint32(2**31), np.uint32(2**32 - 1)


@njit(nogil=True, error_model="numpy")
def _fill_keys(bits, label, keys):  # type: ignore[no-untyped-def]
    """Fill keys that ascend as the scores do, the class in the lowest bit."""
    for i in range(bits.size):
        pattern = bits[i] if bits[i] != SIGN else np.uint32(0)  # -0 ties with 0
        order = pattern ^ (ALL_BITS if pattern >= SIGN else SIGN)
        keys[i] = (np.uint64(order) << np.uint64(1)) | np.uint64(label[i] > 0)


@njit(nogil=True, error_model="numpy")
def _sort_by_digits(keys, space):  # type: ignore[no-untyped-def]
    """Sort keys by their digits, the lowest first (least-significant-digit radix sort); the result is in `space`."""
    mask = np.uint64((1 << DIGIT_BITS) - 1)
    n = np.zeros((N_DIGITS, 1 << DIGIT_BITS), np.int64)
    for key in keys:
        for digit in range(N_DIGITS):
            n[digit, (key >> np.uint64(digit * DIGIT_BITS)) & mask] += 1
    for digit in range(N_DIGITS):
        start = 0
        for value in range(n.shape[1]):
            start, n[digit, value] = start + n[digit, value], start
        for key in keys:
            value = (key >> np.uint64(digit * DIGIT_BITS)) & mask
            space[n[digit, value]] = key
            n[digit, value] += 1
        keys, space = space, keys


@njit(nogil=True, error_model="numpy")
def _average_precision_of_keys(keys):  # type: ignore[no-untyped-def]
    """Compute average precision from sorted keys, ties in blocks."""
    positives = hits = 0
    area = 0.0
    for i in range(keys.size - 1, -1, -1):
        hits += np.int64(keys[i] & np.uint64(1))
        if i == 0 or (keys[i] ^ keys[i - 1]) > np.uint64(1):
            area += (hits - positives) * (hits / (keys.size - i))
            positives = hits
    return area / positives


def by_radix_sort(score: NDArray[np.float32], label: NDArray[np.int8]) -> float:
    """Compute average precision from a radix sort of whole numbers that order the scores."""
    keys, space = np.empty((2, score.size), np.uint64)
    _fill_keys(score.view(np.uint32), label, keys)
    _sort_by_digits(keys, space)
    return float(_average_precision_of_keys(space))


def by_sorted_keys(score: NDArray[np.float32], label: NDArray[np.int8]) -> float:
    """Compute average precision from NumPy's sort of the same whole numbers."""
    keys = np.empty(score.size, np.uint64)
    _fill_keys(score.view(np.uint32), label, keys)
    keys.sort()
    return float(_average_precision_of_keys(keys))


def by_chains(
    score: NDArray[np.float32], label: NDArray[np.int8], n_resamples: int, random: np.random.Generator
) -> NDArray[np.float64]:
    """Draw stratified replicates of average precision of one model whose scores are distinct.

    Of the negatives only their numbers in the gaps between positives matter, and these are multinomial: a chain of
    binomials as long as there are positives, whatever the number of negatives. The draws serve this model alone.
    """
    positive, negative = -np.sort(-score[label == 1]), np.sort(score[label == 0])
    above = negative.size - np.searchsorted(negative, positive)  # negatives above each positive, best first
    in_gap = np.diff(above, prepend=0, append=negative.size)
    areas = np.empty(n_resamples)
    step = max(1, math.floor(2**20 / positive.size))
    for start in range(0, n_resamples, step):
        n = min(step, n_resamples - start)
        hits = random.multinomial(positive.size, np.full(positive.size, 1 / positive.size), n)
        misses = random.multinomial(negative.size, in_gap / negative.size, n)[:, :-1]
        found = hits.cumsum(axis=1)
        seen = found + misses.cumsum(axis=1)
        areas[start : start + n] = (hits * (found / np.maximum(seen, 1))).sum(axis=1) / positive.size
    return areas
