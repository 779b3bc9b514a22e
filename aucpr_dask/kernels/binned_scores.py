"""Items counted in bins of scores, in any order and in parts that add up; bounds of the area from the counts.

Scores are counted as *keys*: whole numbers that ascend as the scores do. A bin of `AdaptiveBins` holds the keys that
are equal but for their lowest bits, `level` of them: a row of its lowest and highest key, and how many negatives and
positives it holds.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.kernels.by_numpy import compensated_sum
from aucpr_dask.kernels.options import Array, Indices

Tallies = tuple[Indices, Indices, NDArray[np.bool_]]
Rows = NDArray[np.uint64]  # (bins, 4)

ROW_BYTES = 32  # of a bin of `AdaptiveBins`
SHARE_IN_USE = 5, 8  # of their memory, which bins may take; the rest is for those that are not joined to them yet
FEW_ROWS = 1 << 12
BLOCK = 1 << 14  # items, counted while they are in the cache
LEAST_MEMORY, MOST_MEMORY = 1 << 20, 1 << 36

SIGN = np.uint64(1 << 63)
LARGEST = 2**63 - 1  # the bits of a float64 without its sign
MANTISSA_BITS = 52
BINADES = 64  # of magnitudes, from 2**-40 to 2**24
SMALLEST_MAGNITUDE, LARGEST_MAGNITUDE = (int(np.float64(2.0**power).view(np.int64)) for power in (-40, 24))


# Every term of a bound and of the area itself is rounded fewer than 8 times, and NumPy's sum of 2**25 terms adds less
# than 40 roundings of 2**-53 each.
ROUNDING = 2.0**-46


class AdaptiveBins:
    """The bins of the lowest level of which the memory, in bytes, holds all that are in use."""

    def __init__(self, memory: int, level: int = 0, bins: Rows | None = None) -> None:
        self._most_rows = memory // ROW_BYTES
        self._most_bins = self._most_rows * SHARE_IN_USE[0] // SHARE_IN_USE[1]
        self.level, self._bins = level, np.empty((0, 4), np.uint64) if bins is None else bins
        self._added: list[Rows] = []  # that are not joined to the others yet,
        self._n_added = 0  # and how many rows they have

    def count(self, score: NDArray[Any], is_positive: NDArray[np.bool_]) -> None:
        """Count items, whose scores float64 holds."""
        for start in range(0, score.size, BLOCK):
            block = slice(start, start + BLOCK)
            keys = keys_of(score[block])
            for column, of_class in ((2, ~is_positive[block]), (3, is_positive[block])):
                values, times = np.unique(keys[of_class], return_counts=True)
                rows = np.zeros((values.size, 4), np.uint64)
                rows[:, :2], rows[:, column] = values[:, np.newaxis], times
                self._append([joined(rows, self.level)])

    def add(self, other: Self) -> None:
        """Add the counts of other items."""
        self.level = max(self.level, other.level)
        self._append([other._bins, *other._added])

    def tallies(self) -> Tallies:
        """Return the positives and negatives of each bin, in ascending order, and whether all of them are tied."""
        low, high, negatives, positives = self._in_use().T
        return positives.astype(np.int64), negatives.astype(np.int64), low == high

    def _append(self, added: list[Rows]) -> None:
        """Take rows, and join them to the others if there are many: as many as these, or as there is memory for."""
        self._added += added
        self._n_added += sum(map(len, added))
        if self._n_added > max(FEW_ROWS, min(len(self._bins), self._most_rows - self._most_bins)):
            self._in_use()

    def _in_use(self) -> Rows:
        """Join all rows, ascending; if they are too many, those of the lowest level at which they are not."""
        rows = np.concatenate([self._bins, *self._added])
        rows = joined(rows[np.argsort(rows[:, 0], kind="stable")], self.level)
        if len(rows) > self._most_bins:
            # Neighbours are in two bins up to the level at which their highest different bit is dropped.
            different = np.partition(rows[1:, 0] ^ rows[:-1, 0], -self._most_bins)[-self._most_bins]
            self.level = int(different).bit_length()
            rows = joined(rows, self.level)
        self._bins, self._added, self._n_added = rows, [], 0
        return rows

    def __reduce__(self) -> tuple[Any, ...]:
        """Return a state in which the order of items has left no trace."""
        rows = self._in_use()
        return type(self), (ROW_BYTES * self._most_rows, self.level, rows)


def keys_of(score: NDArray[Any]) -> NDArray[np.uint64]:
    """Return whole numbers that ascend as the scores do; -0 has that of 0."""
    bits = (score.astype(np.float64) + 0.0).view(np.uint64)
    return bits ^ ((bits.view(np.int64) >> 63).view(np.uint64) | SIGN)  # the bits of negative scores descend


def joined(rows: Rows, level: int) -> Rows:
    """Join the ascending rows whose keys are equal but for the lowest bits, `level` of them."""
    its_bin = rows[:, 0] >> np.uint64(level)
    starts = np.flatnonzero(np.append(True, its_bin[1:] != its_bin[:-1])[: len(rows)])
    if starts.size == len(rows):
        return rows
    of_bins = np.add.reduceat(rows, starts, axis=0)
    of_bins[:, 0], of_bins[:, 1] = rows[starts, 0], np.maximum.reduceat(rows[:, 1], starts)
    return of_bins


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


def bound_area(positives: Indices, negatives: Indices, is_tied: NDArray[np.bool_]) -> tuple[float, float]:
    """Return bounds of average precision from the counts of bins in ascending order; twice the area if all are tied."""
    total = float(positives.sum())
    if not total > 0:
        return np.nan, np.nan
    if is_tied.all():
        area = area_of_tie_groups(positives, negatives)
        return area, area
    least, most = _least_and_most(positives, negatives, is_tied)
    lower, upper = float(least.sum()) / total, float(most.sum()) / total
    return max(0.0, lower * (1.0 - ROUNDING)), min(1.0, upper * (1.0 + ROUNDING))


def _least_and_most(positives: Indices, negatives: Indices, is_tied: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return the least and the most that each bin, in ascending order, can add to the area, in units of positives.

    With TP and FP above a bin of p positives and m negatives, each positive has at most the precision of all positives
    tied above all negatives, (TP + p)/(TP + p + FP). At least, the i-th has x/(x + FP + m) at x = TP + i; that is
    concave in x, so their sum is at least p times the mean of the first and the last. A bin whose items are all tied
    is known exactly.
    """
    p, m = positives.astype(np.float64), negatives.astype(np.float64)
    end = np.cumsum(p[::-1])[::-1]
    below = np.cumsum(m[::-1])[::-1]
    above = below - m
    first = end - p + 1.0
    known = p * (end / np.maximum(end + below, 1.0))
    upper = p * (end / np.maximum(end + above, 1.0))
    lower = p * (0.5 * (first / (first + below)) + 0.5 * (end / np.maximum(end + below, 1.0)))
    return np.where(is_tied, known, lower), np.where(is_tied, known, upper)


def area_of_tie_groups(positives: Indices, negatives: Indices) -> float:
    """Return average precision from the counts of each tie group, in ascending order of scores.

    Terms are added in the order of the kernels for rankings in memory, so the bits are theirs.
    """
    gained, above = positives[::-1].astype(np.float64), np.cumsum(negatives[::-1].astype(np.float64))
    found, is_any = np.cumsum(gained), gained > 0
    terms = gained[is_any] * (found[is_any] / (found[is_any] + above[is_any]))
    return min(compensated_sum(terms) / float(positives.sum()), 1.0)
