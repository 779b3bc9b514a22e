"""Means over units, random draws of units and of the deviations of models, and replicates of their differences.

A *unit* is a query or a data set. Units are added one by one in a fixed order, and their random numbers follow from
their names, so every number is bit-for-bit identical for any other models, orders and chunks. What NumPy does in less
time than numba takes to be imported is done by NumPy, with the bits of `kernels.pairs`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

BLOCK_BYTES = 2**25  # of draws, or signs, in memory at a time
BLOCK, WORD = 512, 64  # terms at a time, signs in a word, as in the kernels: the order of sums is part of the result
BY_NUMPY = 1 << 24  # products, or sizes of replicates of pairs
PANEL = 1 << 18  # of them in memory at a time
PARTS = 8  # of the replicates, for the cores to share
PAIRS, MOST_PARTS = 1 << 12, 1 << 9  # for a core at a time
SPLIT = 2.75  # of statistics: most maxima over the smaller ones of a large family attain it
BELOW, ABOVE, LEFT_OUT = range(3)  # families of pairs
COLUMNS = 64  # of a factor that are found before they are subtracted from the remaining covariance
ALIKE = 1 - 1e-9  # of the largest variance: round-off decides nothing, the order of the names does
ROWS = 128  # of a factor, whose draws one thread makes


# --- means ---------------------------------------------------------------------------------------------------------


def mean_of_units(values: NDArray[Any]) -> Floats:
    """Return the mean over the last axis, bit-for-bit independent of other models and the layout."""
    mean = total_of_units(values)
    mean /= values.shape[-1]
    return mean


def total_of_units(values: NDArray[Any]) -> Floats:
    """Return the sum over the last axis, added one by one: NumPy's own order of adding depends on the layout."""
    total: Floats = np.zeros(values.shape[:-1])
    for unit in range(values.shape[-1]):
        total += values[..., unit]
    return total


def means_of_replicates(replicates: NDArray[Any], drawn: tuple[Indices, Indices] | None = None) -> Floats:
    """Return the mean (..., R) over units of replicates (..., Q, R): of every unit once, or of the units drawn."""
    n_units = replicates.shape[-2]
    total = np.zeros((*replicates.shape[:-2], replicates.shape[-1]))
    for unit in range(n_units):
        total += replicates[..., unit, :] if drawn is None else replicates[..., drawn[0][:, unit], drawn[1][:, unit]]
    total /= n_units
    return total


# --- random draws --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Redraws:
    """Q units drawn with replacement, in the order of their names, once for each of R replicates."""

    n_units: int
    n_replicates: int
    seed: int

    def blocks(self) -> Iterator[tuple[slice, Indices]]:
        """Yield the units (some of R, Q) that replicates draw, some of them at a time."""
        random, rows = generator(self.seed, "units"), max(1, BLOCK_BYTES // (8 * self.n_units))

        def draw(start: int) -> Indices:
            return random.integers(self.n_units, size=(min(rows, self.n_replicates - start), self.n_units))

        with ThreadPoolExecutor(1) as ahead:  # the next block is drawn while one is added up
            pending = ahead.submit(draw, 0)
            for start in range(0, self.n_replicates, rows):
                draws = pending.result()
                if start + rows < self.n_replicates:
                    pending = ahead.submit(draw, start + rows)
                yield slice(start, start + len(draws)), draws

    def sums(self, values: Floats) -> Floats:
        """Return the sums (M, R) of the values (M, Q) of the units drawn; each is the same for any other rows."""
        sums = np.empty((len(values), self.n_replicates))
        for replicates, draws in self.blocks():
            of_block = np.empty((len(values), len(draws)))
            add_drawn(values, draws, of_block)
            sums[:, replicates] = of_block
        return sums

    def means(self, values: Floats) -> Floats:
        """Return the means (M, R) of the values (M, Q) of the units drawn."""
        return self.sums(values) / self.n_units


def draw_units_and_items(names: Sequence[str], n_resamples: int, seed: int) -> tuple[Indices, Indices]:
    """Draw units (R, Q) with replacement and, for each, which of the R resamples of its items to use."""
    units = generator(seed, "units").integers(len(names), size=(n_resamples, len(names)))
    return units, generator(seed, "items of units").integers(n_resamples, size=units.shape)


@dataclass(frozen=True)
class Flips:
    """Signs of Q units for R replicates, for a test by sign flips: random ones, or all 2**Q choices if these are fewer.

    The signs of a unit depend only on the seed and its key; with more replicates, the first ones stay the same.
    """

    n_units: int
    n_resamples: int  # at most
    seed: int = 0
    keys: NDArray[np.uint64] | None = None  # of the units, by default their numbers

    @property
    def complete(self) -> bool:
        """Whether the replicates are all choices of signs rather than a random sample."""
        return 0 < self.n_units < 63 and 2**self.n_units <= self.n_resamples

    @property
    def n_replicates(self) -> int:
        """The number R of replicates."""
        return 2**self.n_units if self.complete else self.n_resamples

    def blocks(self) -> Iterator[tuple[slice, NDArray[np.uint64]]]:
        """Yield words (some of Q, R / 64) of the signs of some units: a set bit is a minus, the lowest first."""
        n_words = -(-self.n_replicates // WORD)
        rows = max(1, BLOCK_BYTES // (8 * n_words))
        words_of = self._all_words() if self.complete else self._random_words(n_words)
        for start in range(0, self.n_units, rows):
            units = slice(start, min(start + rows, self.n_units))
            yield units, np.array([next(words_of) for _ in range(units.stop - start)])

    def means(self, values: Floats) -> Floats:
        """Return the means (M, R) of the values (M, Q) of the units under each choice of signs."""
        sums = np.zeros((len(values), self.n_replicates))
        for units, words in self.blocks():
            add_flipped(values[:, units], words, sums)
        sums /= self.n_units
        return sums

    def _all_words(self) -> Iterator[NDArray[np.uint64]]:
        replicate = np.arange(-(-self.n_replicates // WORD) * WORD)
        for unit in range(self.n_units):
            yield np.packbits(replicate >> unit & 1, bitorder="little").view("<u8").astype(np.uint64)

    def _random_words(self, n_words: int) -> Iterator[NDArray[np.uint64]]:
        seed = self.seed
        if seed >= 2**64:  # half of the key of the generator
            seed = int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])
        stream = np.random.Philox(key=np.array([seed, 0], np.uint64))
        state: Any = stream.state
        for key in range(self.n_units) if self.keys is None else self.keys.tolist():
            state["state"]["key"][1] = key  # takes a tenth of the time of another generator
            stream.state = state
            yield stream.random_raw(n_words)


def all_signs(n_units: int) -> Floats:
    """Return all 2**Q choices of the signs of Q units."""
    return np.where(np.arange(2**n_units)[:, np.newaxis] >> np.arange(n_units) & 1, -1.0, 1.0)


def generator(seed: int, purpose: str) -> np.random.Generator:
    """Return the random stream for one purpose."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, _stable_hash(purpose)])))


def keys_of(names: Sequence[str]) -> NDArray[np.uint64]:
    """Return one number for each name, to key its random numbers."""
    return np.array([_stable_hash(name) for name in names], dtype=np.uint64)


def _stable_hash(name: str) -> int:
    """Return 64 bits of a name: the same in every process and version, unlike Python's own hash."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


# --- joint draws of the deviations of models ----------------------------------------------------------------------
# From the variances of their differences. A library's eigenvalues, factors and products of matrices depend on the
# processor and on the number of threads. Here every sum has an order of its own, so the draws are the same bits on any
# machine.


def student_draws(variance: Floats, degrees: float, names: Sequence[str], n_resamples: int, seed: int) -> Floats:
    """Draw (R, M) from a multivariate t distribution whose differences have these variances (M, M)."""
    from aucpr_dask.kernels.dispatch import sums_of_products

    by_name = np.array(sorted(range(len(names)), key=names.__getitem__))  # the order of the models changes no bit
    variance = variance[np.ix_(by_name, by_name)]
    of_model = variance.mean(axis=1)  # the covariance of deviations from the models' mean with these differences:
    order, factor = pivoted_factor((of_model[:, None] + of_model - variance - of_model.mean()) / 2)
    normals = generator(seed, "normal draws").standard_normal((n_resamples, len(names)))
    chi_square = generator(seed, "chi-square draws").chisquare(degrees, (n_resamples, 1))
    draws = np.empty((n_resamples, len(names)))

    def fill(start: int, stop: int) -> None:
        some, width = by_name[order[start:stop]], min(stop, factor.shape[1])  # the columns that are not 0
        draws[:, some] = sums_of_products(normals[:, :width], factor[start:stop, :width])

    if len(names) <= ROWS:
        fill(0, len(names))
    else:
        in_parts(fill, len(names), ROWS)
    draws /= np.sqrt(chi_square / degrees)
    return draws


def pivoted_factor(covariance: Floats) -> tuple[Indices, Floats]:
    """Return an order of the M models and Cholesky's factor F (M, rank) in that order, the largest variance first.

    ``F @ F.T`` is the covariance in that order. The factor exists where models agree, too; those that agree in every
    bit have equal rows. Its columns end where nothing is left but round-off.
    """
    from aucpr_dask.kernels.dispatch import sums_of_products

    n_models = len(covariance)
    factor, order = np.zeros_like(covariance), np.empty(0, np.int64)
    rows, rest = np.arange(n_models), covariance  # of models that no column is for yet
    round_off = n_models * np.finfo(np.float64).eps * np.diagonal(covariance).max(initial=0.0)
    while (varies := np.diagonal(rest) > round_off).any():
        variance, columns = np.where(varies, np.diagonal(rest), 0.0), np.zeros((COLUMNS, rows.size))
        chosen: list[int] = []
        while len(chosen) < COLUMNS and variance.any():
            largest = int(np.argmax(variance >= ALIKE * variance.max()))
            left = rest[largest].copy()
            for known in columns[: len(chosen)]:
                left -= known * known[largest]
            most = np.sqrt(variance * variance[largest])  # of a covariance, which round-off may exceed
            columns[len(chosen)] = np.clip(left, -most, most) / np.sqrt(variance[largest])
            variance -= columns[len(chosen)] ** 2
            chosen.append(largest)
            variance[chosen], variance[variance <= round_off] = 0.0, 0.0
        factor[rows, order.size : order.size + len(chosen)] = columns[: len(chosen)].T
        order = np.append(order, rows[chosen])
        is_open = np.ones(rows.size, bool)
        is_open[chosen] = False
        found = columns[: len(chosen), is_open].T
        rows, rest = rows[is_open], rest[np.ix_(is_open, is_open)] - sums_of_products(found, found)
    n_columns = order.size
    order = np.append(order, rows)
    return order, factor[order, :n_columns]


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


def in_parts(function: Callable[[int, int], None], size: int, step: int | None = None, what: str = "") -> None:
    """Call a function for parts of the replicates, or for runs of pairs, on all cores.

    Work that has a name shows how far it is, on a terminal from two seconds on.
    """
    from aucpr_dask.kernels.compiling import on_all_cores
    from aucpr_dask.progress import reporting_if

    step = step or max(1, -(-size // PARTS))
    starts, n_done = range(0, size, step), count(1)
    with reporting_if(None) if what else nullcontext() as report:

        def call(start: int) -> None:
            function(start, min(start + step, size))
            if report is not None:
                report(what, next(n_done), len(starts))

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

    def fill(self, tally: Tally) -> None:
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

        in_parts(fill_part, order.size, max(PAIRS, order.size // MOST_PARTS), "differences of all pairs")

    def step_up(self, lower: Floats, upper: Floats, maximum: Floats) -> Indices:
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

        in_parts(step_part, maximum.size, BLOCK, "steps of all pairs")
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


def maxima_of_models(centred: Floats, bias: Floats, inverse: Floats) -> Floats:
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

    def fill(start: int, stop: int) -> None:
        pairs.maxima(centred, bias, inverse, start, stop, maximum)

    in_parts(fill, centred.shape[1], BLOCK, "ranks of all pairs")
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
