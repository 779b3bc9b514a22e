"""Swaps of the ranks that two models give an item: what their difference would be if the models were exchangeable.

Under the hypothesis that two models are equal, their ranks of an item may as well be exchanged. A swap changes which of
the two rankings a place belongs to, but no place: so all places are sorted once, and both rankings are walked together,
for `LANES` swaps side by side. Numbers of items above a place are counted in planes of bits, and added up where a
precision is asked for.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numpy.typing import NDArray

from aucpr_dask.kernels.compiling import helper, kernel
from aucpr_dask.kernels.draws import HALF, fill_words
from aucpr_dask.kernels.options import Array, Indices
from aucpr_dask.kernels.signatures import F8, I8, U1, U8, row_of

LANES = 128  # swaps side by side: the bits of one block of random numbers
SWAPS = np.uint64(32)  # the stream of random numbers, which no stratum of resamples has
PLANES = 34  # bits of a number of places


def differences_when_swapped(
    doubled_ranks: Indices, label: NDArray[np.bool_], unit: Indices, n_swaps: int, key: int, *, is_complete: bool
) -> Array:
    """Return the differences of average precision, first less second, under swaps; the first one is that observed.

    `doubled_ranks` (2, items) are twice the average ranks from the lowest score: whole numbers, so ties are exact. The
    ranks of all items of a `unit` are swapped together. If `is_complete`, swaps are numbered, and bit u of the number
    says whether unit u is swapped; otherwise each is drawn with probability 1/2, from the key.
    """
    n_items = label.size
    order = np.argsort(-doubled_ranks.ravel(), kind="stable")
    ranks, item = doubled_ranks.ravel()[order], order % n_items
    ends_group = np.append(ranks[1:] != ranks[:-1], True).astype(np.uint8)
    is_first = (order < n_items).astype(np.uint8)
    n_units = int(unit.max(initial=0)) + 1
    differences = np.empty(-(-n_swaps // LANES) * LANES + LANES)
    tokens = unit[item], is_first, label[item].astype(np.uint8), ends_group
    walk_blocks(*tokens, n_units, np.uint64(key), is_complete, differences)
    return np.append(differences[:1], differences[LANES : LANES + n_swaps]) / np.count_nonzero(label)


@helper
def numbered_words(block, words, n_units):
    """Write, for each unit, which swaps of a block it is in, if swaps are numbered."""
    for u in range(n_units):
        for quarter in range(4):
            word = np.uint64(0)
            for lane in range(32):
                number = np.uint64(LANES * block + 32 * quarter + lane)
                word |= ((number >> np.uint64(u)) & np.uint64(1)) << np.uint64(lane)
            words[quarter * n_units + u] = word


@helper
def add_bits(planes, n_used, low, high):
    """Add one bit to the number of each lane; return how many planes are used."""
    j = 0
    while low | high:
        if j == n_used:
            planes[j, 0], planes[j, 1] = low, high
            return n_used + 1
        a, b = planes[j, 0], planes[j, 1]
        planes[j, 0], planes[j, 1] = a ^ low, b ^ high
        low, high = a & low, b & high
        j += 1
    return n_used


@helper
def empty_planes(planes, n_used, count):
    """Add the numbers in the planes to the counts of the lanes."""
    for j in range(n_used):
        for half in range(2):
            word = planes[j, half]
            for lane in range(64):
                count[64 * half + lane] += np.int32((word >> np.uint64(lane)) & np.uint64(1)) << np.int32(j)


@helper
def walk(unit, is_first, is_positive, ends_group, low, high, difference):
    """Add up each lane's precisions at the positives of the first ranking, less those of the second."""
    true, false, gained = np.zeros(LANES, np.int32), np.zeros(LANES, np.int32), np.zeros(LANES, np.int32)
    of_negatives, of_positives = np.zeros((PLANES, 2), np.uint64), np.zeros((PLANES, 2), np.uint64)
    n_negative = n_positive = 0  # planes that are used
    all_true = all_false = all_gained = 0
    difference[:] = 0.0
    for token in range(unit.size):
        # A bit is set where the place belongs to the first ranking: its own unless swapped, the other's if swapped.
        flip = np.uint64(0) - np.uint64(is_first[token])
        words = low[unit[token]] ^ flip, high[unit[token]] ^ flip
        if is_positive[token]:
            all_gained += 1
            if all_gained > 1 or not ends_group[token]:
                n_positive = add_bits(of_positives, n_positive, words[0], words[1])
            else:  # alone in its tie group: one division for each lane
                empty_planes(of_negatives, n_negative, false)
                n_negative = all_gained = 0
                all_true += 1
                for half in range(2):
                    word = words[half]
                    for lane in range(64):
                        i = 64 * half + lane
                        here = np.int32((word >> np.uint64(lane)) & np.uint64(1))
                        true[i] += here
                        found = true[i] if here else all_true - true[i]
                        wrong = false[i] if here else all_false - false[i]
                        difference[i] += (found if here else -found) / np.float64(found + wrong)
        else:
            n_negative = add_bits(of_negatives, n_negative, words[0], words[1])
            all_false += 1
        if ends_group[token] and all_gained > 0:
            empty_planes(of_negatives, n_negative, false)
            gained[:] = 0
            empty_planes(of_positives, n_positive, gained)
            n_negative = n_positive = 0
            all_true += all_gained
            for i in range(LANES):
                true[i] += gained[i]
                rest = all_gained - gained[i]
                others = all_true - true[i], all_false - false[i]
                first = gained[i] * (true[i] / np.float64(true[i] + false[i])) if gained[i] > 0 else 0.0
                second = rest * (others[0] / np.float64(others[0] + others[1])) if rest > 0 else 0.0
                difference[i] += first - second
            all_gained = 0


@kernel(types.void(row_of(I8), row_of(U1), row_of(U1), row_of(U1), I8, U8, types.boolean, F8[::1]), name="walk_blocks")
def walk_blocks(unit, is_first, is_positive, ends_group, n_units, key, is_complete, differences):
    """Fill the first block of `LANES` differences without swaps, and the others with one block of swaps each."""
    words = np.zeros(4 * n_units, np.uint64)
    low, high = np.zeros(n_units, np.uint64), np.zeros(n_units, np.uint64)
    for block in range(differences.size // LANES):
        if block > 0:
            if is_complete:
                numbered_words(block - 1, words, n_units)
            else:
                fill_words(key, np.uint64(block - 1), SWAPS, np.uint64(0), n_units, words)
            for u in range(n_units):
                low[u] = words[u] | (words[n_units + u] << HALF)
                high[u] = words[2 * n_units + u] | (words[3 * n_units + u] << HALF)
        out = differences[LANES * block : LANES * (block + 1)]
        walk(unit, is_first, is_positive, ends_group, low, high, out)
