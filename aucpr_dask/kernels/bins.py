"""Items counted in bins of scores, in any order and in parts that add up; bounds of the area from the counts.

Scores are counted as *keys*: whole numbers that ascend as the scores do. A bin of `AdaptiveBins` holds the keys that
are equal but for their lowest bits, `level` of them. A row of its hash table describes one bin in use: its lowest and
highest key, and how many negatives and positives it holds. The lowest key of an empty row is 0, which is no score's.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numba import types
from numpy.typing import NDArray

from aucpr_dask.kernels.compiling import helper, kernel
from aucpr_dask.kernels.options import Array, Indices
from aucpr_dask.kernels.signatures import F4, F8, I8, U1, U4, U8, row_of, rows_of
from aucpr_dask.kernels.sorting import ascending_bits, sign_and_all_bits
from aucpr_dask.kernels.tie_groups import two_sum

Tallies = tuple[Indices, Indices, NDArray[np.bool_]]

ROW_BYTES = 32  # of the table of `AdaptiveBins`
FEW_ROWS = 1 << 12
GROWTH = 4
BLOCK = 1 << 14  # items, counted while they are in the cache
LEAST_MEMORY = 1 << 20  # for which the level stays so low that no bin holds both -inf and the key 0 of an empty row
MOST_MEMORY = 1 << 36  # so that 32 bits number all rows

LARGEST = 2**63 - 1  # the bits of a float64 without its sign
MANTISSA_BITS = 52
BINADES = 64  # of magnitudes, from 2**-40 to 2**24
SMALLEST_MAGNITUDE, LARGEST_MAGNITUDE = (int(np.float64(2.0**power).view(np.int64)) for power in (-40, 24))


# Every term of a bound and of the area itself is rounded fewer than 8 times, and NumPy's sum of 2**25 terms adds less
# than 40 roundings of 2**-53 each.
ROUNDING = 2.0**-46

COLUMNS = np.uint64(4)  # of a row
HIGH, OF_CLASS = np.uint64(1), np.uint64(2)  # places in a row; the lowest key comes first, the positives come last
GOLDEN_RATIO = np.uint64(0x9E3779B97F4A7C15)  # times 2**64: multiples of it are spread evenly
HALF = np.uint64(32)
ONE = np.uint64(1)

TABLE = types.uint64[::1]
STATE = types.UniTuple(I8, 2)


class AdaptiveBins:
    """The bins of the lowest level of which the memory, in bytes, holds all that are in use."""

    def __init__(self, memory: int) -> None:
        self.most_rows = memory // ROW_BYTES
        self.level = 0
        self._clear(min(FEW_ROWS, self.most_rows))

    def count(self, score: NDArray[Any], is_positive: NDArray[np.bool_]) -> None:
        """Count items, whose scores float64 holds."""
        for start in range(0, score.size, BLOCK):
            block = slice(start, start + BLOCK)
            values = np.ascontiguousarray(score[block], np.float64)
            keys = np.empty(values.size, np.uint64)
            write_keys(values, values.view(np.uint64), keys)
            self._add(count_items, keys, np.ascontiguousarray(is_positive[block]).view(np.uint8))

    def add(self, other: Self) -> None:
        """Add the counts of other items."""
        bins = other._in_use()
        # Bins come in the order of the other table. In a smaller one, these would crowd in ever longer stretches.
        n_rows = max(self._n_rows, min(other._n_rows, self.most_rows))
        if other.level > self.level or n_rows > self._n_rows:
            self._rebuild(max(self.level, other.level), n_rows)
        self._add(add_bins, bins)

    def tallies(self) -> Tallies:
        """Return the positives and negatives of each bin, in ascending order, and whether all of them are tied."""
        low, high, negatives, positives = self._ascending().T
        return positives.astype(np.int64), negatives.astype(np.int64), low == high

    def _in_use(self) -> NDArray[np.uint64]:
        """Return lowest and highest key, negatives and positives of all bins in use."""
        rows = self._table.reshape(-1, 4)
        return rows.take(np.flatnonzero(rows[:, 0]), axis=0)

    def _ascending(self) -> NDArray[np.uint64]:
        bins = self._in_use()
        return bins.take(np.argsort(bins[:, 0]), axis=0)

    def __sizeof__(self) -> int:
        """Return the bytes of the table, from which a scheduler estimates the cost of moving it."""
        return self._table.nbytes

    def _clear(self, n_rows: int) -> None:
        self._table = np.zeros(4 * n_rows, np.uint64)
        self._n_used = 0

    @property
    def _n_rows(self) -> int:
        return self._table.size // 4

    def _add(self, kernel: Any, *parts: NDArray[Any]) -> None:
        """Call a kernel, and make room whenever it runs out of rows, until it has added all of its input."""
        while parts[0].size:
            room = self._table, self._n_used, _most(self._n_rows)
            n_added, self._n_used = kernel(*parts, np.uint64(self.level), *room)
            parts = tuple(part[n_added:] for part in parts)
            if parts[0].size:
                self._make_room(parts[0].flat[0])

    def _make_room(self, key: np.uint64) -> None:
        """Take more memory; once all is taken, the lowest level at which the bins in use, and that of a key, fit."""
        if self._n_rows < self.most_rows:
            self._rebuild(self.level, min(GROWTH * self._n_rows, self.most_rows))
            return
        keys = np.sort(np.append(self._in_use()[:, 0], key))
        level = self.level + 1
        while np.count_nonzero(np.diff(keys >> np.uint64(level))) >= _most(self._n_rows):
            level += 1
        self._rebuild(level, self._n_rows)

    def _rebuild(self, level: int, n_rows: int) -> None:
        bins = self._in_use()
        self.level = level
        self._clear(n_rows)
        self._add(add_bins, bins)

    def __getstate__(self) -> tuple[int, int, NDArray[np.uint64]]:
        """Return a state in which the order of items has left no trace."""
        return self.most_rows, self.level, self._ascending()

    def __setstate__(self, state: tuple[int, int, NDArray[np.uint64]]) -> None:
        self.most_rows, self.level, bins = state
        self._clear(min(FEW_ROWS, self.most_rows))
        self._add(add_bins, bins)


def _most(n_rows: int) -> int:
    """Return how many rows of a table may be in use, so that few bins meet in one row."""
    return n_rows * 5 // 8


class FixedBins:
    """Bins that are the same for all scores; counts of different items are added as arrays.

    A bin is a fraction of a binade, a power of 2: magnitudes from 2**-40 to 2**24 have ``2**precision`` bins in each of
    their 64 binades, one bin holds all that are smaller, and one those that are larger. Counts take up to the memory.
    """

    def __init__(self, memory: int) -> None:
        # the largest for which three arrays of counts fit, with two more bins of each sign
        self.precision = (memory // (3 * 8 * 2 * (BINADES + 1))).bit_length() - 1
        self.n_bins = 2 * ((BINADES << self.precision) + 2)
        # negatives, positives, and items not at the edge of their bin
        self.counts = np.zeros(3 * self.n_bins, np.int64)

    def count(self, score: NDArray[Any], is_positive: NDArray[np.bool_]) -> None:
        """Count items, whose scores float64 holds."""
        for start in range(0, score.size, BLOCK):
            block = slice(start, start + BLOCK)
            its_bin, is_inside = self._places(np.ascontiguousarray(score[block], np.float64))
            np.add.at(self.counts, its_bin + is_positive[block] * self.n_bins, 1)
            np.add.at(self.counts, 2 * self.n_bins + its_bin[is_inside], 1)

    def _places(self, score: Array) -> tuple[Indices, NDArray[np.bool_]]:
        """Return the bin of every score, and whether the score is not at the edge of it."""
        bits = score.view(np.int64)
        shift = MANTISSA_BITS - self.precision
        magnitude = bits & LARGEST
        within = magnitude.clip(SMALLEST_MAGNITUDE - 1, LARGEST_MAGNITUDE) >> shift
        from_zero = within - ((SMALLEST_MAGNITUDE - 1) >> shift)
        is_negative = (bits < 0) & (magnitude > 0)
        its_bin = self.n_bins // 2 + from_zero - is_negative * (2 * from_zero + 1)
        return its_bin, magnitude != (within << shift) * (from_zero > 0)

    def add(self, other: Self) -> None:
        """Add the counts of other items."""
        self.counts += other.counts

    def tallies(self) -> Tallies:
        """Return the positives and negatives of each bin, in ascending order, and whether all of them are tied."""
        negatives, positives, inside = self.counts.reshape(3, -1)
        return positives, negatives, (inside == 0) | (positives + negatives == 1)


def bound_area(
    positives: Indices, negatives: Indices, is_tied: NDArray[np.bool_], scale: float = 1.0, total: float | None = None
) -> tuple[float, float]:
    """Return bounds of average precision from the counts of bins in ascending order; twice the area if all are tied.

    Counts of negatives are multiplied by `scale`; the area is a mean over `total` positives, by default those counted.
    """
    total = float(positives.sum()) if total is None else total
    if not total > 0:
        return np.nan, np.nan
    if is_tied.all():
        area = area_of_tie_groups(positives, negatives, scale, total)
        return area, area
    least, most = _least_and_most(positives, negatives, is_tied, scale)
    lower, upper = float(least.sum()) / total, float(most.sum()) / total
    return max(0.0, lower * (1.0 - ROUNDING)), min(1.0, upper * (1.0 + ROUNDING))


def _least_and_most(
    positives: Indices, negatives: Indices, is_tied: NDArray[np.bool_], scale: float
) -> tuple[Array, Array]:
    """Return the least and the most that each bin, in ascending order, can add to the area, in units of positives.

    With TP and FP above a bin of p positives and m negatives, each positive has at most the precision of all positives
    tied above all negatives, (TP + p)/(TP + p + FP). At least, the i-th has x/(x + FP + m) at x = TP + i; that is
    concave in x, so their sum is at least p times the mean of the first and the last. A bin whose items are all tied
    is known exactly. Counts of negatives are multiplied by `scale`.
    """
    p, m = positives.astype(np.float64), negatives.astype(np.float64)
    end = np.cumsum(p[::-1])[::-1]
    below = scale * np.cumsum(m[::-1])[::-1]
    above = scale * (np.cumsum(m[::-1])[::-1] - m)
    first = end - p + 1.0
    known = p * (end / np.maximum(end + below, 1.0))
    upper = p * (end / np.maximum(end + above, 1.0))
    lower = p * (0.5 * (first / (first + below)) + 0.5 * (end / np.maximum(end + below, 1.0)))
    return np.where(is_tied, known, lower), np.where(is_tied, known, upper)


@kernel(types.void(row_of(F4), row_of(U4), U4[::1]), types.void(row_of(F8), row_of(U8), U8[::1]))
def write_keys(score, bits, keys):
    """Write the key of every score, from the same memory read as whole numbers; -0 has that of 0."""
    sign, all_bits = sign_and_all_bits(keys)
    for i in range(score.size):
        keys[i] = ascending_bits(bits[i], score[i], sign, all_bits)


@helper
def row_of_bin(key, level, table):
    """Return where in the table the bin of a key is, or should be."""
    its_bin = key >> level
    end = np.uint64(table.size)
    # The high half of the product is a share of 2**32, whatever the number of rows: none has to be a power of 2.
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
