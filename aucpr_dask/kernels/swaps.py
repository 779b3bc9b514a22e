"""Swaps of the ranks that two models give an item: what their difference would be if the models were exchangeable.

Under the hypothesis that two models are equal, their ranks of an item may as well be exchanged. A swap changes which of
the two rankings a place belongs to, but no place: so all places are sorted once, and both rankings are walked together,
for `LANES` swaps side by side.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numpy.typing import NDArray

from aucpr_dask.kernels.compiling import F8, I8, U1, U8, helper, kernel, row_of
from aucpr_dask.kernels.draws import HALF, fill_words
from aucpr_dask.kernels.options import Array, Indices

LANES = 128  # swaps side by side: the bits of one block of random numbers
SWAPS = np.uint64(32)  # the stream of random numbers, which no stratum of resamples has


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
def walk(unit, is_first, is_positive, ends_group, words, difference):
    """Add up each lane's precisions at the positives of the first ranking, less those of the second."""
    true, false, gained = np.zeros(LANES, np.int32), np.zeros(LANES, np.int32), np.zeros(LANES, np.int32)
    all_true = all_false = all_gained = 0
    difference[:] = 0.0
    for token in range(unit.size):
        counted = gained if is_positive[token] else false
        all_gained += is_positive[token]
        all_false += not is_positive[token]
        # A bit is set where the place belongs to the first ranking: its own unless swapped, the other's if swapped.
        flip = np.uint64(0) - np.uint64(is_first[token])
        for half in range(2):
            word, of_half = words[half, unit[token]] ^ flip, counted[64 * half : 64 * half + 64]
            for lane in range(64):
                of_half[lane] += np.int32((word >> np.uint64(lane)) & np.uint64(1))
        if not ends_group[token] or all_gained == 0:
            continue
        all_true += all_gained
        for i in range(LANES):
            true[i] += gained[i]
            rest = all_gained - gained[i]
            others = all_true - true[i], all_false - false[i]
            first = gained[i] * (true[i] / np.float64(true[i] + false[i])) if gained[i] > 0 else 0.0
            second = rest * (others[0] / np.float64(others[0] + others[1])) if rest > 0 else 0.0
            difference[i] += first - second
        gained[:] = 0
        all_gained = 0


@kernel(types.void(row_of(I8), row_of(U1), row_of(U1), row_of(U1), I8, U8, types.boolean, F8[::1]))
def walk_blocks(unit, is_first, is_positive, ends_group, n_units, key, is_complete, differences):
    """Fill the first block of `LANES` differences without swaps, and the others with one block of swaps each."""
    words = np.zeros(4 * n_units, np.uint64)
    both = np.zeros((2, n_units), np.uint64)
    for block in range(differences.size // LANES):
        if block > 0:
            if is_complete:
                numbered_words(block - 1, words, n_units)
            else:
                fill_words(key, np.uint64(block - 1), SWAPS, np.uint64(0), n_units, words)
            for u in range(n_units):
                both[0, u] = words[u] | (words[n_units + u] << HALF)
                both[1, u] = words[2 * n_units + u] | (words[3 * n_units + u] << HALF)
        out = differences[LANES * block : LANES * (block + 1)]
        walk(unit, is_first, is_positive, ends_group, both, out)
