"""Means over units, and random draws of units.

A *unit* is a query or a data set. Units are added one by one in a fixed order, and their random numbers follow from
their names, so every number is bit-for-bit identical for any other models, orders and chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

PANEL_BYTES = 2**20  # of replicates added up at a time, which stay in the cache


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


def means_under(weights: NDArray[Any], values: Floats) -> Floats:
    """Return the weighted mean of the units of each model under each of R weightings."""
    n_models, n_units = values.shape
    means = np.zeros((n_models, len(weights)))
    columns = np.ascontiguousarray(weights.T, dtype=np.float64)
    width = max(1, PANEL_BYTES // (8 * max(1, len(weights))))
    for start in range(0, n_models, width):
        panel = means[start : start + width]
        for unit in range(n_units):
            panel += values[start : start + width, unit, None] * columns[unit]
    means /= n_units
    return means


def means_of_replicates(replicates: NDArray[Any], drawn: tuple[Indices, Indices] | None = None) -> Floats:
    """Return the mean (..., R) over units of replicates (..., Q, R): of every unit once, or of the units drawn."""
    n_units = replicates.shape[-2]
    total = np.zeros((*replicates.shape[:-2], replicates.shape[-1]))
    for unit in range(n_units):
        total += replicates[..., unit, :] if drawn is None else replicates[..., drawn[0][:, unit], drawn[1][:, unit]]
    total /= n_units
    return total


# --- random draws --------------------------------------------------------------------------------------------------


def multiplicities(names: Sequence[str], n_resamples: int, seed: int) -> Indices:
    """Draw units with replacement, in the order of their names, and return how often each is in each resample."""
    n_units = len(names)
    flat = draw_units(names, n_resamples, seed) + n_units * np.arange(n_resamples)[:, None]
    counts = np.bincount(flat.ravel(), minlength=n_resamples * n_units)
    return counts.reshape(n_resamples, n_units)


def draw_units(names: Sequence[str], n_resamples: int, seed: int) -> Indices:
    """Draw the places (R, Q) of units with replacement, resample by resample."""
    return generator(seed, "units").integers(len(names), size=(n_resamples, len(names)))


def draw_units_and_items(names: Sequence[str], n_resamples: int, seed: int) -> tuple[Indices, Indices]:
    """Draw units (R, Q) and, for each, which of the R resamples of its items to use."""
    units = draw_units(names, n_resamples, seed)
    return units, generator(seed, "items of units").integers(n_resamples, size=units.shape)


def sign_flips(
    n_units: int, n_resamples: int, *, seed: int = 0, keys: NDArray[np.uint64] | None = None
) -> tuple[Floats, bool]:
    """Return signs (R, Q) for a test by sign flips over units, and whether they are all rather than a random sample.

    The replicates of the means of `values` (M, Q) under the null hypothesis are ``signs @ values.T / Q``. The signs of
    a unit depend only on the seed and its key; with more resamples, the first ones stay the same.
    """
    if 0 < n_units < 63 and 2**n_units <= n_resamples:
        return all_signs(n_units), True
    signs = np.empty((n_resamples, n_units))
    if seed >= 2**64:  # half of the key of the generator
        seed = int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])
    for unit, key in enumerate(range(n_units) if keys is None else keys.tolist()):
        words = np.random.Philox(key=np.array([seed, key], np.uint64)).random_raw(-(-n_resamples // 64))
        drawn = np.unpackbits(words.astype("<u8").view(np.uint8), bitorder="little", count=n_resamples)
        signs[:, unit] = np.where(drawn, -1.0, 1.0)
    return signs, False


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
