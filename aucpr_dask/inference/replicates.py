"""Sums over units whose signs are flipped or that are drawn again, and replicates of differences, pair by pair.

What NumPy does in less time than numba takes to be imported is done by NumPy, with the bits of `kernels.pairs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK, WORD = 512, 64  # terms at a time, signs in a word, as in the kernels: the order of sums is part of the result
BY_NUMPY = 1 << 24  # products, or sizes of replicates of pairs
PANEL = 1 << 18  # of them in memory at a time
PARTS = 8  # of the replicates, for the cores to share
PAIRS = 1 << 12  # for a core at a time

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Watcher = Callable[[int, int], None]  # of parts that are done, and of all


# --- sums over units -----------------------------------------------------------------------------------------------


def add_flipped(values: Floats, words: NDArray[np.uint64], sums: Floats) -> None:
    """Add to the sums (M, R) the values (M, U) of units, one unit after the other, with the signs of each replicate.

    A set bit of the words of a unit (U, R / 64), the lowest bit first, is a minus.
    """
    n_replicates = sums.shape[1]
    if values.size * n_replicates <= BY_NUMPY:
        for unit, of_unit in enumerate(words.astype("<u8").view(np.uint8)):
            is_minus = np.unpackbits(of_unit, count=n_replicates, bitorder="little")
            sums += values[:, unit, np.newaxis] * (1.0 - 2.0 * is_minus)
        return
    from aucpr_dask.kernels import pairs

    values = np.ascontiguousarray(values)
    _in_parts(lambda start, stop: pairs.add_flipped(values, words, start, stop, sums), words.shape[1])


def add_drawn(values: Floats, draws: Indices, sums: Floats) -> None:
    """Set the sums (M, R) of the values (M, Q) of the units that each replicate draws (R, Q), in the order of units."""
    n_replicates, n_units = draws.shape
    if values.size * n_replicates <= BY_NUMPY:
        flat = draws + n_units * np.arange(n_replicates)[:, np.newaxis]
        counts = np.bincount(flat.ravel(), minlength=draws.size).reshape(draws.shape)
        for model, row in enumerate(values):
            sums[model] = _folded(counts * row)
        return
    from aucpr_dask.kernels import pairs

    values = np.ascontiguousarray(values)
    _in_parts(lambda start, stop: pairs.add_drawn(values, draws, start, stop, sums), n_replicates)


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


def _in_parts(
    function: Callable[[int, int], Any], size: int, step: int | None = None, watcher: Watcher | None = None
) -> list[Any]:
    """Call a kernel for parts of the replicates, or for runs of pairs, on all cores."""
    from aucpr_dask.kernels.compiling import on_all_cores

    step = step or max(1, -(-size // PARTS))
    starts = range(0, size, step)
    n_done = count(1)

    def call(start: int) -> Any:
        found = function(start, min(start + step, size))
        if watcher is not None:
            watcher(next(n_done), len(starts))
        return found

    return on_all_cores(call, starts)


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
        return bool(self.first.size * self.centred.shape[1] <= BY_NUMPY)

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

    def tally(
        self,
        lower: Floats,
        upper: Floats,
        maximum: Floats,
        *,
        is_cumulative: bool = False,
        watcher: Watcher | None = None,
    ) -> Indices:
        """Raise each replicate's maximum (R,) to the sizes, and count those that attain each pair's lower, and upper.

        Counts sizes or, if cumulative, the maxima over the pair and all before it.
        """
        if self.is_small:
            parts = [
                tally(sizes, lower[panel], upper[panel], maximum, is_cumulative=is_cumulative)
                for panel, sizes in self.panels()
            ]
            return np.concatenate([np.empty(0, np.int64), *parts])
        from aucpr_dask.kernels import pairs

        of_pairs = self.centred, self.shift, self.inverse, self.first, self.second, lower, upper, is_cumulative

        def count_part(start: int, stop: int) -> Indices:
            counts = np.zeros(self.first.size, np.int64)
            pairs.tally(*of_pairs, start, stop, maximum, counts)
            return counts

        n_replicates = maximum.size
        step = -(-n_replicates // (PARTS * BLOCK)) * BLOCK
        counts: Indices = np.sum(_in_parts(count_part, n_replicates, step, watcher), axis=0)
        return counts

    def order_statistics(self, place: int, typical: float, watcher: Watcher | None = None) -> Floats:
        """Return the size number `place`, from 0 and the smallest on, of each pair; most are not below `typical`."""
        found, open_pairs = np.full(self.first.size, np.nan), self
        if not self.is_small:
            from aucpr_dask.kernels import pairs

            rank = self.centred.shape[1] - place
            of_pairs = self.centred, self.shift, self.inverse, self.first, self.second, typical, rank

            def find(start: int, stop: int) -> None:
                pairs.largest(*of_pairs, start, stop, found)

            _in_parts(find, self.first.size, PAIRS, watcher)
            open_pairs = self.of_pairs(np.flatnonzero(np.isnan(found)))
        missing = np.flatnonzero(np.isnan(found))
        for panel, sizes in open_pairs.panels():
            sizes.partition(place, axis=1)
            found[missing[panel]] = sizes[:, place]
        return found

    def of_pairs(self, which: Indices) -> Replicates:
        """Return some of the pairs, or all in another order."""
        names = ("first", "second", "shift", "inverse")
        return replace(self, **{name: getattr(self, name)[which] for name in names})


def tally(sizes: Floats, lower: Floats, upper: Floats, maximum: Floats, *, is_cumulative: bool = False) -> Indices:
    """Do the work of :meth:`Replicates.tally` for sizes (P, R)."""
    counts = np.empty(len(sizes), np.int64)
    for p, size in enumerate(sizes):
        np.maximum(maximum, size, out=maximum)
        attained = maximum if is_cumulative else size
        counts[p] = np.count_nonzero(attained >= lower[p]) + np.count_nonzero(attained >= upper[p])
    return counts


def maxima_of_models(centred: Floats, bias: Floats, inverse: Floats, watcher: Watcher | None = None) -> Floats:
    """Return each replicate's largest size (M, R) over the pairs of each model, which come row by row in `inverse`."""
    maximum = np.zeros(centred.shape)
    if inverse.size * centred.shape[1] <= BY_NUMPY:
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

    def raise_part(start: int, stop: int) -> None:
        pairs.maxima(centred, bias, inverse, start, stop, maximum)

    _in_parts(raise_part, centred.shape[1], BLOCK, watcher)
    return maximum


def squares(values: Floats, first: Indices, second: Indices) -> Floats:
    """Return the sums of the squared differences of pairs of rows."""
    sums = np.empty(first.size)
    step = max(1, PANEL // values.shape[1])
    if first.size * values.shape[1] <= BY_NUMPY:
        for panel in (slice(start, start + step) for start in range(0, first.size, step)):
            sums[panel] = _folded((values[first[panel]] - values[second[panel]]) ** 2)
        return sums
    from aucpr_dask.kernels import pairs

    _in_parts(lambda start, stop: pairs.squares(values, first, second, start, stop, sums), first.size, PAIRS)
    return sums


def apart(values: Floats, resolution: Floats, first: Indices, second: Indices) -> tuple[Indices, Floats, Floats]:
    """Return on how many units pairs of rows differ by more than their resolutions; the least and largest of these."""
    n_apart, least, most = np.empty(first.size, np.int64), np.empty(first.size), np.empty(first.size)
    if first.size * values.shape[1] <= BY_NUMPY:
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

    def count_pairs(start: int, stop: int) -> None:
        pairs.apart(values, resolution, first, second, start, stop, n_apart, least, most)

    _in_parts(count_pairs, first.size, PAIRS)
    return n_apart, least, most
