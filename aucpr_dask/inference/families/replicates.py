"""Estimates of many models with joint replicates: the bootstrap's, or those of sign flips."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.inference.families.pairs import ROUND_OFF, Floats, Indices

# Pairs of a panel, at least, where replicates have errors of their own: fewer would take longer for each.
LEAST_PAIRS = 16


@dataclass(frozen=True)
class ResampledUnits:
    """Values of Q units, drawn with replacement; they give each replicate a standard error of its own."""

    values: Floats  # (M, Q)
    weights: Floats  # (Q, R): how often each unit was drawn

    @cached_property
    def resolution(self) -> Floats:
        """How large rounding errors of each model's values may be."""
        largest: Floats = np.abs(self.values).max(axis=1)
        return ROUND_OFF * largest


@dataclass(frozen=True)
class JointReplicates:
    """Estimates of M models and R joint replicates of them; :func:`joint_replicates` makes it."""

    estimate: Floats  # (M,)
    centred: Floats  # (M, R): replicates minus their mean
    bias: Floats  # (M,): mean of the replicates minus their centre
    resolution: Floats  # (M,): how large rounding errors may be; positive
    null: bool  # the centre is 0 (sign flips), not the estimate (bootstrap)
    complete: bool  # the replicates are the whole distribution, observed data included, not a random sample
    units: ResampledUnits | None = None  # each replicate is divided by its own error; else all by a common one
    flipped: Floats | None = None  # (M, Q): the values whose signs were flipped, from which the spread is known

    def of_models(self, models: Indices) -> JointReplicates:
        """Return some of the models, or all in another order."""
        columns = {name: getattr(self, name)[models] for name in ("estimate", "centred", "bias", "resolution")}
        units = self.units and replace(self.units, values=self.units.values[models])
        flipped = None if self.flipped is None else self.flipped[models]
        return replace(self, **columns, units=units, flipped=flipped)


def joint_replicates(
    estimate: ArrayLike,
    replicates: ArrayLike,
    *,
    null: bool = False,
    complete: bool = False,
    units: ResampledUnits | None = None,
    flipped: Floats | None = None,
) -> JointReplicates:
    """Check estimates and their joint replicates, and arrange them model by model."""
    estimate = np.array(estimate, np.float64)
    replicates = np.asarray(replicates, np.float64)
    if estimate.ndim != 1 or replicates.ndim != 2 or replicates.shape[1] != estimate.size or len(replicates) < 2:
        raise InvalidInputError(
            "estimates and replicates do not fit together",
            received=f"estimate {estimate.shape}, replicates {replicates.shape}",
            allowed="estimate (models,), replicates (resamples, models), at least 2 resamples",
        )
    centred = np.array(replicates.T, order="C")
    magnitude = np.maximum(np.abs(estimate), np.maximum(centred.max(axis=1), -centred.min(axis=1)))
    unknown = np.flatnonzero(~np.isfinite(magnitude))
    if unknown.size:
        raise InvalidInputError(
            "estimates or replicates that are not finite",
            where=f"models at positions {unknown[:10].tolist()}",
            remedy="leave these models out of the comparison",
        )
    mean = centred.mean(axis=1)
    centred -= mean[:, np.newaxis]
    return JointReplicates(
        estimate=estimate,
        centred=centred,
        bias=mean if null else mean - estimate,
        resolution=np.maximum(ROUND_OFF * magnitude, np.finfo(np.float64).tiny),
        null=null,
        complete=complete,
        units=units,
        flipped=None if flipped is None else np.ascontiguousarray(flipped, np.float64),
    )


def sign_flips(
    n_units: int, n_resamples: int, *, seed: int = 0, keys: NDArray[np.uint64] | None = None
) -> tuple[Floats, bool]:
    """Return signs for a test by sign flips over units, and whether they are all rather than a random sample.

    The replicates of the means of `values` (M, Q) under the null hypothesis are ``signs @ values.T / Q``. The signs of
    a unit depend only on the seed and its key; with more resamples, the first ones stay the same.
    """
    if 0 < n_units < 63 and 2**n_units <= n_resamples:
        bits = np.arange(2**n_units)[:, np.newaxis] >> np.arange(n_units) & 1
        return np.where(bits, -1.0, 1.0), True
    signs = np.empty((n_resamples, n_units))
    if seed >= 2**64:  # half of the key of the generator
        seed = int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])
    for unit, key in enumerate(range(n_units) if keys is None else keys.tolist()):
        words = np.random.Philox(key=np.array([seed, key], np.uint64)).random_raw(-(-n_resamples // 64))
        drawn = np.unpackbits(words.astype("<u8").view(np.uint8), bitorder="little", count=n_resamples)
        signs[:, unit] = np.where(drawn, -1.0, 1.0)
    return signs, False


def require_bootstrap(sample: JointReplicates, purpose: str) -> None:
    """Refuse replicates that are centred at 0 where replicates around the estimate are needed."""
    if sample.null:
        raise InvalidInputError(
            f"{purpose} needs replicates around the estimates",
            received="replicates centred at 0 (sign flips)",
            remedy="resample with the bootstrap",
        )


def shares(count: NDArray[np.int64], replicates: Floats, complete: bool) -> Floats:
    """Share of the replicates (last axis) that count, including the observed data."""
    extra = 0 if complete else 1
    return np.asarray((count + extra) / (replicates.shape[-1] + extra), np.float64)


def count(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count the true values of each row; NumPy is much faster row by row than along an axis."""
    return np.fromiter((np.count_nonzero(row) for row in mask), np.int64, len(mask))


def panels(n_pairs: int, sample: JointReplicates, panel_bytes: int) -> Iterator[slice]:
    """Cut pairs into panels of `panel_bytes`."""
    width = pairs_of_panel(sample, panel_bytes)
    return (slice(start, min(start + width, n_pairs)) for start in range(0, n_pairs, width))


def pairs_of_panel(sample: JointReplicates, panel_bytes: int) -> int:
    """Return how many pairs fill a panel."""
    least = 1 if sample.units is None else LEAST_PAIRS
    n_replicates: int = sample.centred.shape[1]
    return max(least, panel_bytes // (8 * n_replicates))


def checked_pairs(sample: JointReplicates, first: Indices, second: Indices) -> tuple[Indices, Indices]:
    """Return the pairs as arrays, or raise unless all of them are positions of models."""
    first, second = np.asarray(first, np.int64), np.asarray(second, np.int64)
    n_models = sample.estimate.size
    inside = all(index.ndim == 1 and np.all((index >= 0) & (index < n_models)) for index in (first, second))
    if not inside or first.size != second.size:
        raise InvalidInputError(
            "not pairs of models",
            received=f"first {first.shape}, second {second.shape}",
            allowed=f"two vectors, equally long, of positions 0 to {n_models - 1}",
        )
    return first, second
