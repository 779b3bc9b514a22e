"""Sums over units whose signs are flipped or that are drawn again, and replicates of differences, pair by pair.

What NumPy does in less time than numba takes to be imported is done by NumPy, with the bits of `kernels.pairs`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from threading import Lock

import numpy as np
from numpy.typing import NDArray

BLOCK, WORD = 512, 64  # terms at a time, signs in a word, as in the kernels: the order of sums is part of the result
BY_NUMPY = 1 << 24  # products, or sizes of replicates of pairs
PANEL = 1 << 18  # of them in memory at a time
PARTS = 8  # of the replicates, for the cores to share
PAIRS, MOST_PARTS = 1 << 12, 1 << 9  # for a core at a time
SPLIT = 2.75  # of statistics: most maxima over the smaller ones of a large family attain it
BELOW, ABOVE, LEFT_OUT = range(3)  # families of pairs

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Watcher = Callable[[int, int], None]  # of parts that are done, and of all


# --- sums over units -----------------------------------------------------------------------------------------------


def add_flipped(values: Floats, words: NDArray[np.uint64], sums: Floats) -> None:
    """Add to the sums (M, R) the values (M, U) of units, one unit after the other, with the signs of each replicate.

    A set bit of the words of a unit (U, R / 64), the lowest bit first, is a minus.
    """
    n_replicates = sums.shape[1]
    if is_small(values.size * n_replicates):
        for unit, of_unit in enumerate(words.astype("<u8").view(np.uint8)):
            is_minus = np.unpackbits(of_unit, count=n_replicates, bitorder="little")
            sums += values[:, unit, np.newaxis] * (1.0 - 2.0 * is_minus)
        return
    from aucpr_dask.kernels import pairs

    values = np.ascontiguousarray(values)
    in_parts(lambda start, stop: pairs.add_flipped(values, words, start, stop, sums), words.shape[1])


def add_drawn(values: Floats, draws: Indices, sums: Floats) -> None:
    """Set the sums (M, R) of the values (M, Q) of the units that each replicate draws (R, Q), in the order of units."""
    n_replicates, n_units = draws.shape
    if is_small(values.size * n_replicates):
        flat = draws + n_units * np.arange(n_replicates)[:, np.newaxis]
        counts = np.bincount(flat.ravel(), minlength=draws.size).reshape(draws.shape)
        for model, row in enumerate(values):
            sums[model] = _folded(counts * row)
        return
    from aucpr_dask.kernels import pairs

    values = np.ascontiguousarray(values)
    in_parts(lambda start, stop: pairs.add_drawn(values, draws, start, stop, sums), n_replicates)


def _folded(terms: Floats) -> Floats:
    """Add the terms of each row: of a block its halves, and theirs; and the blocks from left to right."""
    total = np.zeros(len(terms))
    for start in range(0, terms.shape[1], BLOCK):
        part = terms[:, start : start + BLOCK]
        width = 1 << max(0, part.shape[1] - 1).bit_length()
        if width > part.shape[1]:
            part = np.pad(part, ((0, 0), (0, width - part.shape[1])))
        while part.shape[1] > 1:
            half = part.shape[1] // 2
            part = part[:, :half] + part[:, half:]
        total += part[:, 0]
    return total


def is_small(n_numbers: int) -> bool:
    """Return whether NumPy would finish this much work before the kernels are loaded."""
    return n_numbers <= (BY_NUMPY >> 5 if "aucpr_dask.kernels.pairs" in sys.modules else BY_NUMPY)


def in_parts(
    function: Callable[[int, int], None],
    size: int,
    step: int | None = None,
    watcher: Watcher | None = None,
    *,
    on_one_core: bool = False,
) -> None:
    """Call a function for parts of the replicates, or for runs of pairs, on all cores."""
    step = step or max(1, -(-size // PARTS))
    starts = range(0, size, step)
    n_done = count(1)

    def call(start: int) -> None:
        function(start, min(start + step, size))
        if watcher is not None:
            watcher(next(n_done), len(starts))

    if on_one_core:
        for start in starts:
            call(start)
        return
    from aucpr_dask.kernels.compiling import on_all_cores

    on_all_cores(call, starts)


def by_tiles(first: Indices, second: Indices, n_models: int) -> Indices:
    """Return an order of pairs in which those of the same few models are neighbours."""
    return np.lexsort([(side // n_models).astype(np.uint16) for side in (second, first)])


# --- replicates of differences -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Replicates:
    """The sizes of the differences' replicates of P pairs, ``|centred[j] - centred[k] + shift| * inverse``."""

    centred: Floats  # (M, R)
    first: Indices
    second: Indices
    shift: Floats
    inverse: Floats

    @property
    def is_small(self) -> bool:
        """Whether NumPy takes little time."""
        return is_small(self.first.size * self.centred.shape[1])

    def panels(self) -> Iterator[tuple[slice, Floats]]:
        """Yield the sizes (some of P, R) of some pairs at a time."""
        step = max(1, PANEL // self.centred.shape[1])
        for start in range(0, self.first.size, step):
            panel = slice(start, start + step)
            sizes = self.centred[self.first[panel]]
            sizes -= self.centred[self.second[panel]]
            sizes += self.shift[panel, np.newaxis]
            np.abs(sizes, out=sizes)
            sizes *= self.inverse[panel, np.newaxis]
            yield panel, sizes

    def fill(self, tally: Tally, watcher: Watcher | None) -> None:
        """Add all pairs to a tally."""
        if self.is_small:
            for panel, sizes in self.panels():
                tally.add(panel, sizes)
            return
        from aucpr_dask.kernels import pairs

        order = by_tiles(self.first, self.second, pairs.TILE)
        of_pairs = self.centred, self.shift, self.inverse, self.first, self.second, order
        asked = tally.family, tally.lower, tally.upper, *tally.rank_and_range()
        turn = Lock()

        def fill_part(start: int, stop: int) -> None:
            maxima = np.zeros(tally.maxima.shape)
            pairs.tally(*of_pairs, *asked, start, stop, maxima, tally.counts, tally.quantiles)
            with turn:
                np.maximum(tally.maxima, maxima, out=tally.maxima)

        in_parts(fill_part, order.size, max(PAIRS, order.size // MOST_PARTS), watcher)

    def step_up(self, lower: Floats, upper: Floats, maximum: Floats, watcher: Watcher | None) -> Indices:
        """Raise each replicate's maximum (R,) by one pair after the other, and count those that attain its bounds."""
        counts = np.zeros(self.first.size, np.int64)
        if self.is_small:
            for panel, sizes in self.panels():
                counts[panel] = step_up(sizes, lower[panel], upper[panel], maximum)
            return counts
        from aucpr_dask.kernels import pairs

        of_pairs = self.centred, self.shift, self.inverse, self.first, self.second, lower, upper
        turn = Lock()

        def step_part(start: int, stop: int) -> None:
            of_part = np.zeros(counts.size, np.int64)
            pairs.step_up(*of_pairs, start, stop, maximum, of_part)
            with turn:
                np.add(counts, of_part, out=counts)

        in_parts(step_part, maximum.size, BLOCK, watcher)
        return counts


@dataclass(frozen=True)
class Tally:
    """What is counted and found of the sizes of P pairs."""

    family: Indices  # of each pair: `BELOW`, `ABOVE`, `LEFT_OUT`
    lower: Floats
    upper: Floats
    maxima: Floats  # (3, R): of each family, the largest size in each replicate
    counts: Indices  # (P, 2): how many sizes attain `lower`, and how many `upper`; or none, if nothing is tested
    place: int | None  # from 0 and the smallest size on
    quantiles: Floats  # the size at this place; 0 if none is asked for

    @classmethod
    def of(
        cls, bounds: tuple[Floats, Floats] | None, left_out: NDArray[np.bool_], n_replicates: int, place: int | None
    ) -> Tally:
        """Return an empty tally; without bounds, nothing is counted."""
        lower, upper = (np.zeros(left_out.size),) * 2 if bounds is None else bounds
        family = np.where(left_out, LEFT_OUT, np.where(lower < SPLIT, BELOW, ABOVE))
        counts, quantiles = np.zeros((0 if bounds is None else lower.size, 2), np.int64), np.zeros(lower.size)
        return cls(family, lower, upper, np.zeros((3, n_replicates)), counts, place, quantiles)

    def add(self, panel: slice, sizes: Floats) -> None:
        """Add the sizes (some of P, R) of some pairs; changes their order."""
        of_pairs = self.family[panel], self.lower[panel], self.upper[panel]
        for p, (size, family, low, high) in enumerate(zip(sizes, *of_pairs, strict=True), panel.start):
            np.maximum(self.maxima[family], size, out=self.maxima[family])
            if self.counts.size:
                self.counts[p] = _numbers_from(size, low, high)
        if self.place is not None:
            sizes.partition(self.place, axis=1)
            self.quantiles[panel] = sizes[:, self.place]

    def rank_and_range(self) -> tuple[int, float, float]:
        """Return the place counted from the top, where a normal distribution has it, and how far it varies."""
        from scipy.special import ndtri

        if self.place is None:
            return 0, 0.0, 0.0
        n = self.maxima.shape[1]
        share = (n - self.place) / n
        typical = -float(ndtri(share / 2))
        density = 2 * np.exp(-(typical**2) / 2) / np.sqrt(2 * np.pi)
        return n - self.place, typical, 4 * float(np.sqrt(share * (1 - share) / n) / density)


def step_up(sizes: Floats, lower: Floats, upper: Floats, maximum: Floats) -> Indices:
    """Do the work of :meth:`Replicates.step_up` for sizes (P, R)."""
    counts = np.empty(len(sizes), np.int64)
    for p, size in enumerate(sizes):
        np.maximum(maximum, size, out=maximum)
        counts[p] = sum(_numbers_from(maximum, lower[p], upper[p]))
    return counts


def _numbers_from(sizes: Floats, low: float, high: float) -> tuple[int, int]:
    """Count the sizes that attain the one bound, and those that attain the other."""
    return int(np.count_nonzero(sizes >= low)), int(np.count_nonzero(sizes >= high))


def maxima_of_models(centred: Floats, bias: Floats, inverse: Floats, watcher: Watcher | None) -> Floats:
    """Return each replicate's largest size (M, R) over the pairs of each model, which come row by row in `inverse`."""
    maximum = np.zeros(centred.shape)
    if is_small(inverse.size * centred.shape[1]):
        start = 0
        for j, row in enumerate(centred):
            others = slice(j + 1, None)
            sizes = np.abs((row - centred[others]) + (bias[j] - bias[others])[:, np.newaxis])
            sizes *= inverse[start : start + len(sizes), np.newaxis]
            np.maximum(maximum[j], sizes.max(axis=0, initial=0.0), out=maximum[j])
            np.maximum(maximum[others], sizes, out=maximum[others])
            start += len(sizes)
        return maximum
    from aucpr_dask.kernels import pairs

    of_pairs = centred, bias, inverse
    in_parts(lambda start, stop: pairs.maxima(*of_pairs, start, stop, maximum), centred.shape[1], BLOCK, watcher)
    return maximum


def squares(values: Floats, first: Indices, second: Indices) -> Floats:
    """Return the sums of the squared differences of pairs of rows."""
    sums = np.empty(first.size)
    step = max(1, PANEL // values.shape[1])
    if is_small(first.size * values.shape[1]):
        for panel in (slice(start, start + step) for start in range(0, first.size, step)):
            sums[panel] = _folded((values[first[panel]] - values[second[panel]]) ** 2)
        return sums
    from aucpr_dask.kernels import pairs

    order = by_tiles(first, second, pairs.TILE)
    in_parts(lambda start, stop: pairs.squares(values, first, second, order, start, stop, sums), order.size, PAIRS)
    return sums


def apart(values: Floats, resolution: Floats, first: Indices, second: Indices) -> tuple[Indices, Floats, Floats]:
    """Return on how many units pairs of rows differ by more than their resolutions; the least and largest of these."""
    n_apart, least, most = np.empty(first.size, np.int64), np.empty(first.size), np.empty(first.size)
    if is_small(first.size * values.shape[1]):
        step = max(1, PANEL // values.shape[1])
        for panel in (slice(start, start + step) for start in range(0, first.size, step)):
            j, k = first[panel], second[panel]
            sizes = np.abs(values[j] - values[k])
            differs = sizes > (resolution[j] + resolution[k])[:, np.newaxis]
            n_apart[panel] = np.count_nonzero(differs, axis=1)
            least[panel] = np.where(differs, sizes, np.inf).min(axis=1, initial=np.inf)
            most[panel] = np.where(differs, sizes, 0.0).max(axis=1, initial=0.0)
        return n_apart, least, most
    from aucpr_dask.kernels import pairs

    of_pairs, found = (values, resolution, first, second), (n_apart, least, most)
    in_parts(lambda start, stop: pairs.apart(*of_pairs, start, stop, *found), first.size, PAIRS)
    return found
