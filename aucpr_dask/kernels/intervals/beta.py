"""An interval by beta quantiles at an effective number of positives, from the influence function alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

Array = NDArray[np.float64]

BINOMIAL_WORTH = 10.0  # the variance of a proportion weighs in the variance as much as this many positives
MOST_EFFECTIVE = 5.0  # effective positives per positive, at most
MOST_SKEW = 1.5  # of the skewness that lengthens the lower side
UNSEEN = 0.5  # mean and variance of Jeffreys' posterior of a Poisson mean of which nothing was seen
SHAPE = 1 / 3  # between Clopper and Pearson's 0 and Jeffreys' 1/2


def influence_beta(
    estimate: Array, n: Array, error: Array, cubes: Array, left_out: Array, unseen_loss: Array, level: float
) -> tuple[Array, Array]:
    """Beta quantiles at an effective number of positives; [0, 1] if a class has one item, or there is no negative.

    All arrays broadcast: the estimated area, the effective number of positives, the standard error and the sum of cubes
    of the influences, the area with each positive left out of its own recall (or, if the estimate is Haldane's, the
    average precision), and what one more negative above all items would take from the area. The interval contains the
    estimate; without positives it is NaN.
    """
    tail = (1 - level) / 2
    has_positives, is_known = n > 0, (n > 1) & ~np.isnan(error) & ~np.isnan(left_out)
    n, error, left_out = (np.where(is_known, x, safe) for x, safe in ((n, 2.0), (error, 0.5), (left_out, 0.5)))
    area = np.where(is_known, np.clip((estimate + left_out) / 2, 0, 1), 0.5)
    of_proportion = area * (1 - area)
    variance = _moderated(error**2, of_proportion, n)

    z = max(float(ndtri(1 - tail)), 1.0)
    stretched = 1 + 0.5 * (2 * z**2 + 1) / (6 * z) * np.maximum(0, -_excess_skew(area, variance, cubes))
    below = np.clip(area - UNSEEN * unseen_loss, 0, 1)
    lower_variance = variance * stretched**2 + UNSEEN * unseen_loss**2
    n_lower = _effective(np.maximum(of_proportion, below * (1 - below)), lower_variance, n)
    n_upper = _effective(of_proportion, variance, n)
    lower = betaincinv(n_lower * area + SHAPE, n_lower * (1 - area) + 1 - SHAPE, tail)
    upper = betaincinv(n_upper * area + 1 - SHAPE, n_upper * (1 - area) + SHAPE, 1 - tail)
    lower = np.where(is_known & (area > 0), np.minimum(lower, np.minimum(area, estimate)), 0.0)
    upper = np.where(is_known & (area < 1), np.maximum(upper, estimate), 1.0)
    return np.where(has_positives, lower, np.nan), np.where(has_positives, upper, np.nan)


def variance_in_differences(estimate: Array, n: Array, variance: Array, left_out: Array, unseen_loss: Array) -> Array:
    """Return the variance of an average precision for differences from others, with Student's t at `degrees_of` n.

    As in :func:`influence_beta` it reckons with few positives and with negatives that the sample does not show. One
    more negative above all items widens one side of a difference; a symmetric interval takes half of it on each. NaN
    where the variance is.
    """
    area = np.clip((estimate + left_out) / 2, 0, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return _moderated(variance, area * (1 - area), n) + UNSEEN / 2 * unseen_loss**2


def degrees_of(n: Array) -> Array:
    """Return the degrees of freedom of a moderated variance."""
    return n + BINOMIAL_WORTH - 1


def _moderated(variance: Array, of_proportion: Array, n: Array) -> Array:
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
