"""Interval bounds: a lower and an upper one for each row, from formulas, standard errors, replicates and folds.

Rows are on the leading dimensions, replicates and folds on the last axis. A replicate that is NaN (a resample without
positives) is left out of its row. A row whose estimate is NaN, or that has fewer than two replicates, has NaN bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from aucpr_dask.kernels.beta import beta_quantiles

Array = NDArray[np.float64]
Bounds = tuple[Array, Array]

BINOMIAL_WORTH = 10.0  # the variance of a proportion weighs in the variance as much as this many positives
CLUSTER_WORTH = 12.0  # by how many clusters the design effect of few clusters is stretched
UNEQUAL_WORTH = 2.0  # degrees of freedom that unequal clusters have beyond Satterthwaite's
MOST_EFFECTIVE = 5.0  # effective positives per positive, at most
MOST_SKEW = 1.5  # of the skewness that lengthens the lower side
LOWERED = 0.7  # of the lower bound of draws: an estimate that is mostly extrapolated is one that came out too high
MOST_EXTRAPOLATED = 1.25  # of an area, relative to that with half a negative more above all items
ROUND_OFF = 1e-12  # of sums of variances
MOST_DESIGN = 1.2  # of the variance of values in [0, 1], relative to that of a proportion with their mean
UNSEEN = 0.5  # mean and variance of Jeffreys' posterior of a Poisson mean of which nothing was seen
SHAPE = 1 / 3  # between Clopper and Pearson's 0 and Jeffreys' 1/2

# A replicate whose standard error is this small relative to the estimate's has only rounding errors.
_NO_SPREAD = 1e-9


# Formulas of an area and its number of positives


def binomial(area: Array, n: Array, level: float) -> Bounds:
    """Wald interval of a proportion; may leave [0, 1]."""
    half = _normal(level) * np.sqrt(area * (1 - area) / n)
    return area - half, area + half


def logit_interval(area: Array, n: Array, level: float) -> Bounds:
    """Wald interval on the logit scale; the limit [0, 1] at the ends."""
    inside = (area > 0) & (area < 1)
    safe = np.where(inside, area, 0.5)
    centre, half = scipy.special.logit(safe), _normal(level) / np.sqrt(n * safe * (1 - safe))
    lower, upper = scipy.special.expit([centre - half, centre + half])
    return np.where(inside, lower, 0.0), np.where(inside, upper, 1.0)


def wilson(area: Array, n: Array, level: float) -> Bounds:
    """Score interval of a proportion."""
    z = _normal(level)
    centre = area + z**2 / (2 * n)
    half = z * np.sqrt(area * (1 - area) / n + z**2 / (4 * n**2))
    width = 1 + z**2 / n
    # At the ends centre and half are equal in exact arithmetic: the bound there is the end itself.
    lower, upper = np.maximum((centre - half) / width, 0.0), np.minimum((centre + half) / width, 1.0)
    return np.where(area <= 0, 0.0, lower), np.where(area >= 1, 1.0, upper)


def score_bounds(mean: Array, error: Array, n: Array, quantile: Array) -> Array:
    """Score interval (..., bound) of a mean of values in [0, 1] by a design effect, as of a proportion of `n` units.

    The values vary r times as much as a proportion with their mean, and as a proportion if they do not vary at all. The
    bounds are the means that lie `quantile` of their own standard errors from the one found.
    """
    of_proportion = np.maximum(mean * (1 - mean), 0.0)
    varies = n * error**2 > ROUND_OFF * np.maximum(of_proportion, ROUND_OFF)
    ratio = n * error**2 / np.where(of_proportion > 0, of_proportion, 1.0)
    k = quantile**2 * np.where(varies & (of_proportion > 0), np.minimum(ratio, MOST_DESIGN), 1.0) / n
    half = np.sqrt(k * of_proportion + k**2 / 4)
    lower, upper = (mean + k / 2 - half) / (1 + k), (mean + k / 2 + half) / (1 + k)
    bounds = np.stack([np.where(mean <= 0, 0.0, lower), np.where(mean >= 1, 1.0, upper)], axis=-1)
    return np.where(np.isnan(mean)[..., None], np.nan, np.clip(bounds, 0.0, 1.0))


def clopper_pearson(area: Array, n: Array, level: float) -> Bounds:
    """Interval by the quantiles of the beta distribution, for x = n * area "successes", not rounded."""
    tail = (1 - level) / 2
    x = n * area
    low, high = (area > 0) & (n > 0), (area < 1) & (n > 0)
    lower = scipy.special.betaincinv(np.where(low, x, 1.0), np.where(low, n - x + 1, 1.0), tail)
    upper = scipy.special.betaincinv(np.where(high, x + 1, 1.0), np.where(high, n - x, 1.0), 1 - tail)
    return np.where(low, lower, 0.0), np.where(high, upper, 1.0)


# Replicates, standard errors and folds


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


def wide_at_ends(bounds: Array, estimate: Array, n_trials: Array, most: Array, level: float) -> Array:
    """Return bounds (..., 2) that hold at least Wilson's interval where an estimate is 0, or the most that it can be.

    Resamples of a ranking without a mistake, or without a hit, have none either, however few items decide.
    """
    share = np.where(estimate <= 0, 0.0, 1.0)
    lower, upper = wilson(share, np.maximum(n_trials, 1.0), level)
    is_end = ((estimate <= 0) | (estimate >= most)) & (n_trials > 0)
    low = np.where(is_end, np.fmin(bounds[..., 0], most * lower), bounds[..., 0])
    high = np.where(is_end, np.fmax(bounds[..., 1], most * upper), bounds[..., 1])
    return np.stack([low, high], axis=-1)


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
    bias = scipy.special.ndtri((n_below + n_up_to) / (2 * np.maximum(replicates.count, 1)))
    is_corrected = np.isfinite(bias) & (n_up_to - n_below < replicates.count)
    bias = np.where(is_corrected, bias, 0.0)

    def corrected(tail: float, z: float) -> Array:
        shifted = bias + z
        scale = 1 - acceleration * shifted
        with np.errstate(divide="ignore"):
            stretched = np.where(scale <= 0, np.copysign(np.inf, shifted), shifted / scale)
        return np.where(is_corrected, scipy.special.ndtr(bias + stretched), tail)

    tail = (1 - level) / 2
    z = float(scipy.special.ndtri(tail))
    return replicates.quantile(corrected(tail, z)), replicates.quantile(corrected(1 - tail, -z))


def bootstrap_t(estimate: Array, error: Array, replicates: Array, replicate_errors: Array, level: float) -> Bounds:
    """Estimate less its error times quantiles of studentised replicates, without those of error 0; may leave [0, 1]."""
    spread = np.where(replicate_errors > _NO_SPREAD * error[..., None], replicate_errors, np.nan)
    studentised = SortedReplicates.of((replicates - estimate[..., None]) / spread)
    lower, upper = percentile(studentised, level)
    return estimate - error * upper, estimate - error * lower


def influence_logit_t(estimate: Array, error: Array, n_positive: Array, level: float) -> Bounds:
    """Interval on the logit scale by Student's t with n - 1 degrees of freedom; the limit [0, 1] up to one positive."""
    quantile = _student(n_positive - 1, level)
    is_inside = (estimate > 0) & (estimate < 1) & np.isfinite(quantile)
    safe = np.where(is_inside, estimate, 0.5)
    centre, half = scipy.special.logit(safe), np.where(is_inside, quantile, 0.0) * error / (safe * (1 - safe))
    is_limit = (estimate <= 0) | (estimate >= 1) | np.isinf(quantile)  # whatever the error, NaN included
    undefined = np.where(np.isnan(estimate) | (np.isnan(error) & ~is_limit), np.nan, 0.0)
    lower = np.where(is_inside, scipy.special.expit(centre - half), undefined)
    upper = np.where(is_inside, scipy.special.expit(centre + half), undefined + 1)
    return lower, upper


def influence_log_t(estimate: Array, error: Array, n_positive: Array, level: float) -> Bounds:
    """Interval on the scale of log(1 - area) by Student's t with n - 1 degrees of freedom; NaN up to one positive."""
    quantile = _student(n_positive - 1, level)
    is_known = (1 - estimate > ROUND_OFF) & np.isfinite(quantile)
    below = np.where(is_known, 1 - estimate, np.nan)
    factor = np.exp(np.where(is_known, quantile, np.nan) * error / below)
    return 1 - below * factor, 1 - below / factor


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


def _normal(level: float) -> float:
    return float(scipy.special.ndtri(0.5 + level / 2))


def _student(freedom: Array, level: float) -> Array:
    """Return the quantile; infinite, its limit, without degrees of freedom."""
    has_freedom = freedom > 0
    return np.where(has_freedom, scipy.special.stdtrit(np.where(has_freedom, freedom, 1.0), 0.5 + level / 2), np.inf)


# Beta quantiles at an effective number of positives, from the influence function alone


def influence_beta(
    estimate: Array,
    n: Array,
    error: Array,
    cubes: Array,
    left_out: Array,
    unseen_loss: Array,
    effect: Array,
    n_clusters: Array,
    level: float,
) -> Bounds:
    """Beta quantiles at an effective number of positives; [0, 1] if a class has one item, or there is no negative.

    All arrays broadcast: the estimated area, the effective number of positives, the standard error and the sum of cubes
    of the influences, the area with each positive left out of its own recall (or, if the estimate is Haldane's, the
    average precision), and what one more negative above all items would take from the area. Clusters of items multiply
    the variance by `effect`, 1 without them, which is known with one degree of freedom less than `n_clusters`, the
    number that clusters of their sizes are worth; it may be below 1, but the interval is never narrower than that of
    items. It contains the estimate; without positives it is NaN.
    """
    tail = (1 - level) / 2
    has_positives, is_known = n > 0, (n >= 1) & ~np.isnan(error) & ~np.isnan(left_out)
    n, error, left_out = (np.where(is_known, x, safe) for x, safe in ((n, 2.0), (error, 0.5), (left_out, 0.5)))
    area = np.where(is_known, np.clip((estimate + left_out) / 2, 0, 1), 0.5)
    of_proportion = area * (1 - area)
    likely = max(level, 0.5)  # towards level 0, both quantiles are 0
    quantile = _student(n_clusters - 1, likely) / _normal(likely)  # infinite with one cluster: the interval is [0, 1]
    quantile = np.where(np.isinf(n_clusters), 1.0, quantile)
    is_known &= np.isfinite(quantile) & ~np.isnan(effect)
    widened = np.where(is_known, np.maximum(effect * quantile**2, 1.0), 1.0)  # never narrower than of items
    variance = moderated(error**2, of_proportion, n) * widened

    z = max(float(scipy.special.ndtri(1 - tail)), 1.0)
    stretched = 1 + 0.5 * (2 * z**2 + 1) / (6 * z) * np.maximum(0, -_excess_skew(area, variance, cubes))
    below = np.clip(area - UNSEEN * unseen_loss, 0, 1)
    lower_variance = variance * stretched**2 + UNSEEN * unseen_loss**2
    n_lower = _effective(np.maximum(of_proportion, below * (1 - below)), lower_variance, n)
    n_upper = _effective(of_proportion, variance, n)
    lower = beta_quantiles(n_lower * area + SHAPE, n_lower * (1 - area) + 1 - SHAPE, tail)
    upper = beta_quantiles(n_upper * area + 1 - SHAPE, n_upper * (1 - area) + SHAPE, 1 - tail)
    lower = np.where(is_known & (area > 0), np.minimum(lower, np.minimum(area, estimate)), 0.0)
    upper = np.where(is_known & (area < 1), np.maximum(upper, estimate), 1.0)
    return np.where(has_positives, lower, np.nan), np.where(has_positives, upper, np.nan)


def extrapolated(half_seen: Array, tails: SortedReplicates, *of_beta: Any) -> Bounds:
    """As :func:`influence_beta`; where the estimate is mostly extrapolated, quantiles of draws with unseen negatives.

    There the estimate may still be right, so the upper bound is at least that of :func:`influence_beta`. It is more
    often too high than others, so the lower bound is lowered.
    """
    estimate, *_, level = of_beta
    lower, upper = influence_beta(*of_beta)
    low, high = percentile(tails, level)
    is_unseen = estimate > MOST_EXTRAPOLATED * half_seen
    return np.where(is_unseen, LOWERED * low, lower), np.where(is_unseen, np.maximum(high, upper), upper)


def variance_of_differences(covariance: Array, proportion: Array, unseen_loss: Array, n: Array) -> tuple[Array, Array]:
    """Return the variances (..., M, M) of the differences of M areas, for Student's t at `degrees_of` n.

    `covariance` (..., M, M) is that of the influences. Of each model: `proportion`, the variance of one draw of a
    proportion as large as its area, what one more negative above all items would take from it, and the effective number
    of positives. As in :func:`influence_beta`, ten draws of a proportion moderate the variance; here they are as
    correlated as the influences, and so add nothing to the difference of near copies.

    The first variance is for tests, and the side of an interval towards 0. If the models are equal, a negative that the
    sample does not show stands above the positives of both. If they are not, it may spare one of them: so the second
    one, for the side away from 0, counts the losses as correlated as the influences.
    """
    variance = np.diagonal(covariance, axis1=-2, axis2=-1)
    n = np.where(n > 0, n, np.nan)
    proportion = proportion / n
    n = np.minimum(n[..., :, None], n[..., None, :])
    varies, itself = variance > 0, np.eye(variance.shape[-1], dtype=bool)
    spread, root = np.sqrt(np.where(varies, variance, 1.0)), np.sqrt(proportion)
    correlation = covariance / (spread[..., :, None] * spread[..., None, :])
    correlation = np.where(itself & ~np.isnan(correlation), 1.0, correlation)
    products = correlation * (root[..., :, None] * root[..., None, :])
    common = moderated(_squared(variance, covariance), n * _squared(proportion, products), n)
    lost, other = unseen_loss[..., :, None], unseen_loss[..., None, :]
    # Where neither area varies, nothing shows how much the two have in common, and no side is safe.
    shared = np.where(varies[..., :, None] | varies[..., None, :] | itself, 1.0, 0.0)
    squares, twice = lost**2 + other**2, 2 * (lost * other)
    towards, away = (squares - share * twice for share in (shared, np.maximum(correlation, 0)))
    return common + UNSEEN / 2 * np.maximum(towards, 0), common + UNSEEN / 2 * np.maximum(away, 0)


def effect_on_differences(within: Array, between: Array) -> Array:
    """Return by how much clusters of items multiply the variances (..., M, M) of differences: 1 or more.

    `within` and `between` are the covariances of the influences of items and of clusters.
    """
    of_clusters, of_items = (_squared(np.diagonal(each, axis1=-2, axis2=-1), each) for each in (between, within))
    return np.maximum(_ratio(of_clusters, of_items), 1.0)


def design_effect(ratio: Array, n_clusters: Array) -> Array:
    """Return by how much clusters of items multiply a variance, from the ratio of the two variances in the sample.

    It is known with few degrees of freedom: it is shrunk towards 1, and what is above 1 is stretched.
    """
    shrunk = ((n_clusters - 1) * ratio + 2) / (n_clusters + 1)
    return shrunk + np.maximum(shrunk - 1, 0.0) * CLUSTER_WORTH / np.maximum(n_clusters - 1, 1)


def _ratio(total: Array, part: Array) -> Array:
    return np.divide(total, part, out=np.ones(total.shape), where=part > 0)


def _squared(variance: Array, covariance: Array) -> Array:
    """Return the variances of differences, 0 where rounding errors are all that is left."""
    total = variance[..., :, None] + variance[..., None, :]
    squares = total - 2 * covariance
    return np.where(squares <= ROUND_OFF * total, 0.0, squares)


def degrees_of(n: Array) -> Array:
    """Return the degrees of freedom of a moderated variance."""
    return n + BINOMIAL_WORTH - 1


def degrees_of_clusters(n: Array, of_squares: Array) -> Array:
    """Return the degrees of freedom of a variance between clusters; equal ones lose one.

    Of unequal ones worth `n`, whose squared sizes are worth `of_squares`, they are Satterthwaite's, as if variances
    grew with the squares; and some more, because leaving out large clusters overstates the variance.
    """
    return np.minimum(n - 1, of_squares + UNEQUAL_WORTH)


def moderated(variance: Array, of_proportion: Array, n: Array) -> Array:
    """Return a variance to which ten draws of a proportion are added; n is the effective number of positives."""
    return ((n - 1) * variance + BINOMIAL_WORTH * of_proportion / n) / degrees_of(n)


def _effective(of_proportion: Array, variance: Array, n: Array) -> Array:
    """Return how many positives a proportion of this variance has; n, if nothing varies."""
    varies = variance > 0
    return np.where(varies, np.minimum(of_proportion / np.where(varies, variance, 1.0), MOST_EFFECTIVE * n), n)


def _excess_skew(area: Array, variance: Array, cubes: Array) -> Array:
    """Return the skewness of the area less that of a proportion of the same variance, limited."""
    error, of_proportion = np.sqrt(variance), area * (1 - area)
    is_inside = (of_proportion > 0) & (variance > 0)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        skew = cubes / error**3 - (1 - 2 * area) * error / of_proportion
    return np.where(is_inside, np.clip(skew, -MOST_SKEW, MOST_SKEW), 0.0)


# All intervals by name


@dataclass(frozen=True, eq=False)
class Evidence:
    """The arrays from which the intervals of some rows are made; each method reads those it needs."""

    estimate: Array
    n_positive: Array | None = None
    error: Array | None = None  # by influence functions, of items or clusters
    acceleration: Array | None = None
    replicates: Array | None = None  # (..., resample)
    replicate_errors: Array | None = None  # by influence functions
    folds: Array | None = None  # (..., fold)
    n_effective: Array | None = None  # positives
    cubes: Array | None = None  # sum of cubes of influences
    left_out: Array | None = None  # the area with each positive left out of its own recall; of Haldane's, the AP
    unseen_loss: Array | None = None  # what one more negative above all items would take from the area
    item_error: Array | None = None  # of items, where there are clusters; without them it is `error`
    effect: Array | float = 1.0  # by which clusters multiply the variance
    n_clusters: Array | float = np.inf
    half_seen: Array | None = None  # the area with half a negative more above all items, and half of each positive
    tails: Array | None = None  # (..., resample): draws of the area with half an unseen negative
    n_carrying: Array | None = None  # items, by the squares of their influences, if weights are uneven

    def get(self, name: str) -> Any:
        """Return one of the arrays as float64, or sorted replicates; raise a LookupError if it is absent."""
        value = getattr(self, name)
        if value is None and name == "item_error":
            value = self.error
        if value is None:
            raise LookupError(f"the interval is made from {name}, which was not given")
        return value if isinstance(value, SortedReplicates) else np.asarray(value, np.float64)

    @cached_property
    def sorted_replicates(self) -> SortedReplicates:
        """The replicates, sorted once for all methods and levels."""
        return SortedReplicates.of(self.get("replicates"))

    @cached_property
    def sorted_tails(self) -> SortedReplicates:
        """Those with half an unseen negative."""
        return SortedReplicates.of(self.get("tails"))


FORMULAS: dict[str, Callable[[Array, Array, float], Bounds]] = {
    "binomial": binomial,
    "logit": logit_interval,
    "wilson": wilson,
    "clopper_pearson": clopper_pearson,
}

_OF_BETA = "estimate n_effective item_error cubes left_out unseen_loss effect n_clusters"
# What the others are made from, before the level: attributes of the evidence
METHODS: dict[str, tuple[Callable[..., Bounds], str]] = {
    "bootstrap": (percentile, "sorted_replicates"),
    "bca": (bca, "estimate sorted_replicates acceleration"),
    "bootstrap_t": (bootstrap_t, "estimate error replicates replicate_errors"),
    "influence_logit_t": (influence_logit_t, "estimate error n_positive"),
    "influence_log_t": (influence_log_t, "estimate error n_positive"),
    "influence_beta": (influence_beta, _OF_BETA),
    "extrapolated": (extrapolated, f"half_seen sorted_tails {_OF_BETA}"),
    "cross_validation": (partial(cross_validation, student=False), "folds"),
    "cross_validation_t": (partial(cross_validation, student=True), "folds"),
}


def formula_bounds(area: Array, n: Array, method: str, level: float) -> Array:
    """Return the bounds (..., 2) of one of `FORMULAS`; NaN where the area is NaN or there is no positive."""
    area, n = np.broadcast_arrays(np.asarray(area, np.float64), np.asarray(n, np.float64))
    known = (area >= 0) & (area <= 1) & (n > 0)
    lower, upper = FORMULAS[method](np.where(known, area, 0.5), np.where(known, n, 1.0), level)
    return np.where(known[..., None], np.stack([lower, upper], axis=-1), np.nan)


def bounds_of(known: Evidence, method: str, level: float) -> Array:
    """Return the bounds (..., 2) of any method; NaN where the estimate or the interval is undefined.

    Rows broadcast. Reuse the record for several methods: they share one sort. Raises LookupError if it lacks an array
    that the method reads.
    """
    if method in FORMULAS:
        return formula_bounds(known.get("estimate"), known.get("n_positive"), method, level)
    function, names = METHODS[method]
    bounds = np.stack(function(*map(known.get, names.split()), level), axis=-1)
    return np.where(np.isnan(known.get("estimate"))[..., None], np.nan, bounds)
