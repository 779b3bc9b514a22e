"""Means over units, and random draws of units.

A *unit* is a query or a data set. Units are added one by one in a fixed order, and their random numbers follow from
their names, so every number is bit-for-bit identical for any other models, orders and chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.inference.replicates import WORD, add_drawn, add_flipped

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

BLOCK_BYTES = 2**25  # of draws, or signs, in memory at a time


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
