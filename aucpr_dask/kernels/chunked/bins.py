"""Counts of items in bins of scores that do not depend on the order of items, and that of different items add up."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Tallies = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]

ROW_BYTES = 32  # of the table of `histograms`
FEW_ROWS = 1 << 12
GROWTH = 4
LEAST_MEMORY = 1 << 20  # for which the level stays so low that no bin holds both -inf and the key 0 of an empty row
MOST_MEMORY = 1 << 36  # so that 32 bits number all rows

LARGEST = 2**63 - 1  # the bits of a float64 without its sign
MANTISSA_BITS = 52
BINADES = 64  # of magnitudes, from 2**-40 to 2**24
SMALLEST_MAGNITUDE, LARGEST_MAGNITUDE = (int(np.float64(2.0**power).view(np.int64)) for power in (-40, 24))


class AdaptiveBins:
    """The bins of the lowest level of which the memory holds all that are in use.

    Parameters
    ----------
    memory : int
        Most bytes of the table.
    """

    def __init__(self, memory: int) -> None:
        self.most_rows = memory // ROW_BYTES
        self.level = 0
        self._clear(min(FEW_ROWS, self.most_rows))

    def count(self, score: NDArray[np.float64], is_positive: NDArray[np.bool_]) -> None:
        """Count items."""
        from aucpr_dask.kernels.chunked.histograms import count_items
        from aucpr_dask.kernels.chunked.passes import write_keys

        keys = np.empty(score.size, np.uint64)
        write_keys(score, score.view(np.uint64), keys)
        self._add(count_items, keys, is_positive.view(np.uint8))

    def add(self, other: Self) -> None:
        """Add the counts of other items."""
        bins = other._in_use()
        if other.level > self.level:
            self._rebuild(other.level, self._n_rows)
        self._add_bins(bins)

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

    def _clear(self, n_rows: int) -> None:
        self._table = np.zeros(4 * n_rows, np.uint64)
        self._n_used = 0

    @property
    def _n_rows(self) -> int:
        return self._table.size // 4

    def _add_bins(self, bins: NDArray[np.uint64]) -> None:
        from aucpr_dask.kernels.chunked.histograms import add_bins

        self._add(add_bins, bins)

    def _add(self, kernel: Any, *parts: NDArray[Any]) -> None:
        """Call a kernel, and make room whenever it runs out of rows, until it has added all of its input."""
        while parts[0].size:
            n_added, self._n_used = kernel(
                *parts, np.uint64(self.level), self._table, self._n_used, _most(self._n_rows)
            )
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
        self._add_bins(bins)

    def __getstate__(self) -> tuple[int, int, NDArray[np.uint64]]:
        """Return a state in which the order of items has left no trace."""
        return self.most_rows, self.level, self._ascending()

    def __setstate__(self, state: tuple[int, int, NDArray[np.uint64]]) -> None:
        self.most_rows, self.level, bins = state
        self._clear(min(FEW_ROWS, self.most_rows))
        self._add_bins(bins)


def _most(n_rows: int) -> int:
    """Return how many rows of a table may be in use, so that few bins meet in one row."""
    return n_rows * 5 // 8


class FixedBins:
    """Bins that are the same for all scores; counts of different items are added as arrays.

    A bin is a fraction of a binade, a power of 2: magnitudes from 2**-40 to 2**24 have ``2**precision`` bins in each of
    their 64 binades, one bin holds all that are smaller, and one those that are larger.

    Parameters
    ----------
    memory : int
        Most bytes of the counts.
    """

    def __init__(self, memory: int) -> None:
        self.precision = precision_of(memory)
        self.n_bins = 2 * ((BINADES << self.precision) + 2)
        self.counts = np.zeros(
            3 * self.n_bins, np.int64
        )  # negatives, positives, and those not at the edge of their bin

    def count(self, score: NDArray[np.float64], is_positive: NDArray[np.bool_]) -> None:
        """Count items."""
        for place in places_in_counts(score, is_positive, self.precision):
            np.add.at(self.counts, place, 1)

    def add(self, other: Self) -> None:
        """Add the counts of other items."""
        self.counts += other.counts

    def tallies(self) -> Tallies:
        """Return the positives and negatives of each bin, in ascending order, and whether all of them are tied."""
        negatives, positives, inside = self.counts.reshape(3, -1)
        return positives, negatives, (inside == 0) | (positives + negatives == 1)


def precision_of(memory: int) -> int:
    """Return the largest precision for which three arrays of counts, with two more bins of each sign, fit."""
    return (memory // (3 * 8 * 2 * (BINADES + 1))).bit_length() - 1


def places_in_counts(
    score: NDArray[np.float64], is_positive: NDArray[np.bool_], precision: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where `FixedBins` counts items by their class, and those that are not at the edge of their bin."""
    bits = score.view(np.int64)
    shift = MANTISSA_BITS - precision
    n_half = (BINADES << precision) + 2  # bins of each sign
    magnitude = bits & LARGEST
    within = magnitude.clip(SMALLEST_MAGNITUDE - 1, LARGEST_MAGNITUDE) >> shift
    from_zero = within - ((SMALLEST_MAGNITUDE - 1) >> shift)
    is_negative = (bits < 0) & (magnitude > 0)
    its_bin = n_half + from_zero - is_negative * (2 * from_zero + 1)
    is_inside = magnitude != (within << shift) * (from_zero > 0)
    return its_bin + is_positive * (2 * n_half), 4 * n_half + its_bin[is_inside]
