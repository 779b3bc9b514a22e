"""Counts of items in bins of scores: a hash table that holds the bins in use, and the area from the counts of all.

Scores are given as keys (see `passes`). A bin holds the keys that are equal but for their lowest bits, `level` of them.
A row of the table describes one bin: its lowest and highest key, and how many negatives and positives it holds. The
lowest key of an empty row is 0, which is no score's.
"""

import numpy as np
from numba import types

from aucpr_dask.kernels.compiling import helper, kernel
from aucpr_dask.kernels.options import F8, I8, U1, U8, row_of, rows_of
from aucpr_dask.kernels.tie_groups import two_sum

COLUMNS = np.uint64(4)  # of a row
HIGH, OF_CLASS = np.uint64(1), np.uint64(2)  # places in a row; the lowest key comes first, the positives come last
GOLDEN_RATIO = np.uint64(0x9E3779B97F4A7C15)  # times 2**64: multiples of it are spread evenly
HALF = np.uint64(32)
ONE = np.uint64(1)

TABLE = types.uint64[::1]
STATE = types.UniTuple(I8, 2)


@helper
def row_of_bin(key, level, table):
    """Return where in the table the bin of a key is, or should be."""
    its_bin = key >> level
    end = np.uint64(table.size)
    row = ((((its_bin * GOLDEN_RATIO) >> HALF) * (end // COLUMNS)) >> HALF) * COLUMNS
    while table[row] >> level != its_bin and table[row] != 0:
        row += COLUMNS
        if row == end:
            row = np.uint64(0)
    return row


@kernel(STATE(row_of(U8), row_of(U1), U8, TABLE, I8, I8))
def count_items(keys, is_positive, level, table, n_used, most):
    """Count items until one would need more than the most rows; return how many were counted, and the rows in use."""
    for i in range(keys.size):
        key = keys[i]
        row = row_of_bin(key, level, table)
        if table[row] == 0:
            if n_used == most:
                return i, n_used
            n_used += 1
            table[row] = key
        table[row] = min(table[row], key)
        table[row + HIGH] = max(table[row + HIGH], key)
        table[row + OF_CLASS + np.uint64(is_positive[i])] += ONE
    return keys.size, n_used


@kernel(STATE(rows_of(U8), U8, TABLE, I8, I8))
def add_bins(bins, level, table, n_used, most):
    """Add bins of this or a lower level until one would need more than the most rows; return as `count_items` does."""
    for i in range(len(bins)):
        low = bins[i, 0]
        row = row_of_bin(low, level, table)
        if table[row] == 0:
            if n_used == most:
                return i, n_used
            n_used += 1
            table[row] = low
        table[row] = min(table[row], low)
        table[row + HIGH] = max(table[row + HIGH], bins[i, 1])
        table[row + OF_CLASS] += bins[i, 2]
        table[row + OF_CLASS + ONE] += bins[i, 3]
    return len(bins), n_used


@kernel(F8(row_of(I8), row_of(I8), F8, F8))
def area_of_tie_groups(positives, negatives, scale, total):
    """Return average precision from the counts of each tie group, in ascending order of scores.

    Counts of negatives are multiplied by `scale`, and the area is a mean over `total` positives. Terms are added in the
    order of the kernels for rankings in memory, so the bits are theirs.
    """
    area = error = at_or_above = negatives_above = 0.0
    for i in range(positives.size - 1, -1, -1):
        at_or_above += positives[i]
        negatives_above += negatives[i]
        if positives[i] > 0:
            precision = at_or_above / (at_or_above + scale * negatives_above)
            area, error = two_sum(area, error, positives[i] * precision)
    return min((area + error) / total, 1.0)
