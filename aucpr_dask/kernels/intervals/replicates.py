"""Intervals from replicates, standard errors and folds: a lower and an upper bound for each row.

Rows are on the leading dimensions, replicates and folds on the last axis. A replicate that is NaN (a resample without
positives) is left out of its row. A row whose estimate is NaN, or that has fewer than two replicates, has NaN bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtr, ndtri, stdtrit

from aucpr_dask.kernels.intervals.beta import influence_beta

Array = NDArray[np.float64]
Bounds = tuple[Array, Array]

# A replicate whose standard error is this small relative to the estimate's has only rounding errors.
_NO_SPREAD = 1e-9


@dataclass(frozen=True, eq=False)
class SortedReplicates:
    """Replicates in ascending order, NaN last: sorted once for all intervals."""

    values: Array  # (..., resample), ascending on the last axis
    count: NDArray[np.int64]  # (...): replicates that are not NaN

    @classmethod
    def of(cls, replicates: Array) -> SortedReplicates:
        """Sort a copy of the replicates."""
        values = np.sort(np.asarray(replicates, np.float64), axis=-1)
        count = np.full(values.shape[:-1], values.shape[-1], np.int64)
        if np.isnan(values[..., -1:]).any():
            count -= np.count_nonzero(np.isnan(values), axis=-1)
        return cls(values, count)

    def quantile(self, share: Array | float) -> Array:
        """Return each row's linear quantile (type 7), with the bits of `numpy.quantile`; `share` may vary by row."""
        position = (self.count - 1) * np.asarray(share, np.float64)
        is_known = (self.count >= 2) & ~np.isnan(position)
        if not is_known.any():
            return np.full(is_known.shape, np.nan)
        position = np.where(is_known, position, 0.0)
        rank = np.floor(position)
        fraction = position - rank
        low, high = self._at(rank), self._at(np.minimum(rank + 1, np.maximum(self.count - 1, 0)))
        step = high - low
        # From the nearer end, so that it is exact at both.
        between = np.where(fraction < 0.5, low + step * fraction, high - step * (1 - fraction))
        return np.where(is_known, between, np.nan)

    def _at(self, rank: Array) -> Array:
        return np.take_along_axis(self.values, rank.astype(np.int64)[..., None], axis=-1)[..., 0]


def percentile(replicates: SortedReplicates, level: float) -> Bounds:
    """Quantiles of the replicates."""
    tail = (1 - level) / 2
    return replicates.quantile(tail), replicates.quantile(1 - tail)


def basic(estimate: Array, replicates: SortedReplicates, level: float) -> Bounds:
    """Quantiles of the replicates, mirrored at the estimate; may leave [0, 1]."""
    lower, upper = percentile(replicates, level)
    return 2 * estimate - upper, 2 * estimate - lower


def bca(estimate: Array, replicates: SortedReplicates, acceleration: Array, level: float) -> Bounds:
    """Quantiles of the replicates at shares that are corrected for bias and acceleration.

    The bias is that of the share of replicates below the estimate, ties counted one half. If all replicates are on one
    side of the estimate, or equal to it, there is no correction: the interval is the percentile one. An acceleration of
    NaN has NaN bounds, unless all replicates equal the estimate. Past the pole of the correction the share is its
    limit, 0 or 1.
    """
    point = estimate[..., None]
    n_below = np.count_nonzero(replicates.values < point, axis=-1)
    n_up_to = np.count_nonzero(replicates.values <= point, axis=-1)
    bias = ndtri((n_below + n_up_to) / (2 * np.maximum(replicates.count, 1)))
    is_corrected = np.isfinite(bias) & (n_up_to - n_below < replicates.count)
    bias = np.where(is_corrected, bias, 0.0)

    def corrected(tail: float, z: float) -> Array:
        shifted = bias + z
        scale = 1 - acceleration * shifted
        with np.errstate(divide="ignore"):
            stretched = np.where(scale <= 0, np.copysign(np.inf, shifted), shifted / scale)
        return np.where(is_corrected, ndtr(bias + stretched), tail)

    tail = (1 - level) / 2
    z = float(ndtri(tail))
    return replicates.quantile(corrected(tail, z)), replicates.quantile(corrected(1 - tail, -z))


def bootstrap_t(estimate: Array, error: Array, replicates: Array, replicate_errors: Array, level: float) -> Bounds:
    """Estimate less its error times quantiles of studentised replicates, without those of error 0; may leave [0, 1]."""
    spread = np.where(replicate_errors > _NO_SPREAD * error[..., None], replicate_errors, np.nan)
    studentised = SortedReplicates.of((replicates - estimate[..., None]) / spread)
    lower, upper = percentile(studentised, level)
    return estimate - error * upper, estimate - error * lower


def influence_wald(estimate: Array, error: Array, level: float) -> Bounds:
    """Wald interval of the influence standard error; may leave [0, 1]."""
    half = _normal(level) * error
    return estimate - half, estimate + half


def influence_logit(estimate: Array, error: Array, level: float) -> Bounds:
    """Wald interval on the logit scale; the limit [0, 1] at the ends."""
    return _on_logit_scale(estimate, error, np.asarray(_normal(level)))


def influence_logit_t(estimate: Array, error: Array, n_positive: Array, level: float) -> Bounds:
    """Interval on the logit scale by Student's t with n - 1 degrees of freedom; the limit [0, 1] up to one positive."""
    return _on_logit_scale(estimate, error, _student(n_positive - 1, level))


def cross_validation(fold_estimates: Array, level: float, student: bool) -> Bounds:
    """Mean of the folds' estimates -+ q sd / sqrt(k); NaN if a fold has no estimate."""
    folds = np.ascontiguousarray(fold_estimates, np.float64)  # one order of summation whatever the layout
    k = folds.shape[-1]
    if k < 2:
        undefined = np.full(folds.shape[:-1], np.nan)
        return undefined, undefined
    quantile = float(_student(np.asarray(k - 1.0), level)) if student else _normal(level)
    centre, half = folds.mean(axis=-1), quantile * folds.std(axis=-1, ddof=1) / np.sqrt(k)
    return centre - half, centre + half


def _on_logit_scale(estimate: Array, error: Array, quantile: Array) -> Bounds:
    is_inside = (estimate > 0) & (estimate < 1) & np.isfinite(quantile)
    safe = np.where(is_inside, estimate, 0.5)
    centre, half = logit(safe), np.where(is_inside, quantile, 0.0) * error / (safe * (1 - safe))
    is_limit = (estimate <= 0) | (estimate >= 1) | np.isinf(quantile)  # whatever the error, NaN included
    undefined = np.where(np.isnan(estimate) | (np.isnan(error) & ~is_limit), np.nan, 0.0)
    lower = np.where(is_inside, expit(centre - half), undefined)
    upper = np.where(is_inside, expit(centre + half), undefined + 1)
    return lower, upper


def _normal(level: float) -> float:
    return float(ndtri(0.5 + level / 2))


def _student(freedom: Array, level: float) -> Array:
    """Return the quantile; infinite, its limit, without degrees of freedom."""
    has_freedom = freedom > 0
    return np.where(has_freedom, stdtrit(np.where(has_freedom, freedom, 1.0), 0.5 + level / 2), np.inf)


@dataclass(frozen=True, eq=False)
class Evidence:
    """The arrays from which the intervals of some rows are made; each method reads those it needs."""

    estimate: Array
    n_positive: Array | None = None
    error: Array | None = None  # by influence functions
    acceleration: Array | None = None
    replicates: Array | None = None  # (..., resample)
    replicate_errors: Array | None = None  # by influence functions
    bayesian_replicates: Array | None = None
    folds: Array | None = None  # (..., fold)
    n_effective: Array | None = None  # positives, or clusters that hold some
    cubes: Array | None = None  # sum of cubes of influences
    left_out: Array | None = None  # the area with each positive left out of its own recall; of Haldane's, the AP
    unseen_loss: Array | None = None  # what one more negative above all items would take from the area

    def get(self, name: str) -> Array:
        """Return one of the arrays as float64; raise a LookupError if it is absent."""
        value = getattr(self, name)
        if value is None:
            raise LookupError(f"the interval is made from {name}, which was not given")
        return np.asarray(value, np.float64)

    @cached_property
    def sorted_replicates(self) -> SortedReplicates:
        """The replicates, sorted once for all methods and levels."""
        return SortedReplicates.of(self.get("replicates"))


METHODS: dict[str, Callable[[Evidence, float], Bounds]] = {
    "bootstrap": lambda known, level: percentile(known.sorted_replicates, level),
    "basic": lambda known, level: basic(known.get("estimate"), known.sorted_replicates, level),
    "bca": lambda known, level: bca(known.get("estimate"), known.sorted_replicates, known.get("acceleration"), level),
    "bootstrap_t": lambda known, level: bootstrap_t(
        known.get("estimate"), known.get("error"), known.get("replicates"), known.get("replicate_errors"), level
    ),
    "bayesian": lambda known, level: percentile(SortedReplicates.of(known.get("bayesian_replicates")), level),
    "influence": lambda known, level: influence_wald(known.get("estimate"), known.get("error"), level),
    "influence_logit": lambda known, level: influence_logit(known.get("estimate"), known.get("error"), level),
    "influence_logit_t": lambda known, level: influence_logit_t(
        known.get("estimate"), known.get("error"), known.get("n_positive"), level
    ),
    "influence_beta": lambda known, level: influence_beta(
        known.get("estimate"),
        known.get("n_effective"),
        known.get("error"),
        known.get("cubes"),
        known.get("left_out"),
        known.get("unseen_loss"),
        level,
    ),
    "cross_validation": lambda known, level: cross_validation(known.get("folds"), level, student=False),
    "cross_validation_t": lambda known, level: cross_validation(known.get("folds"), level, student=True),
}


def replicate_bounds(known: Evidence, method: str, level: float) -> Array:
    """Compute the bounds (..., 2) of one method of `METHODS`; NaN where the estimate or the interval is undefined.

    Rows broadcast. Reuse the record for several methods: they share one sort. Raises LookupError if it lacks an array
    that the method reads.
    """
    lower, upper = METHODS[method](known, level)
    bounds = np.stack([lower, upper], axis=-1)
    return np.where(np.isnan(known.get("estimate"))[..., None], np.nan, bounds)
