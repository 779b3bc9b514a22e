"""Formula intervals: from an area and its number of positives to a lower and an upper bound."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, expit, logit, ndtri

Array = NDArray[np.float64]


def binomial(area: Array, n: Array, level: float) -> tuple[Array, Array]:
    """Wald interval of a proportion; may leave [0, 1]."""
    half = _z(level) * np.sqrt(area * (1 - area) / n)
    return area - half, area + half


def logit_interval(area: Array, n: Array, level: float) -> tuple[Array, Array]:
    """Wald interval on the logit scale; the limit [0, 1] at the ends."""
    inside = (area > 0) & (area < 1)
    safe = np.where(inside, area, 0.5)
    centre, half = logit(safe), _z(level) / np.sqrt(n * safe * (1 - safe))
    return np.where(inside, expit(centre - half), 0.0), np.where(inside, expit(centre + half), 1.0)


def wilson(area: Array, n: Array, level: float) -> tuple[Array, Array]:
    """Score interval of a proportion."""
    z = _z(level)
    centre = area + z**2 / (2 * n)
    half = z * np.sqrt(area * (1 - area) / n + z**2 / (4 * n**2))
    width = 1 + z**2 / n
    # At the ends centre and half are equal in exact arithmetic: the bound there is the end itself.
    lower, upper = np.maximum((centre - half) / width, 0.0), np.minimum((centre + half) / width, 1.0)
    return np.where(area <= 0, 0.0, lower), np.where(area >= 1, 1.0, upper)


def clopper_pearson(area: Array, n: Array, level: float) -> tuple[Array, Array]:
    """Interval by the quantiles of the beta distribution, for x = n * area "successes", not rounded."""
    tail = (1 - level) / 2
    x = n * area
    low, high = (area > 0) & (n > 0), (area < 1) & (n > 0)
    lower = betaincinv(np.where(low, x, 1.0), np.where(low, n - x + 1, 1.0), tail)
    upper = betaincinv(np.where(high, x + 1, 1.0), np.where(high, n - x, 1.0), 1 - tail)
    return np.where(low, lower, 0.0), np.where(high, upper, 1.0)


METHODS: dict[str, Callable[[Array, Array, float], tuple[Array, Array]]] = {
    "binomial": binomial,
    "logit": logit_interval,
    "wilson": wilson,
    "clopper_pearson": clopper_pearson,
}


def bounds(area: Array, n: Array, method: str, level: float) -> Array:
    """Return (..., 2): lower and upper; NaN where the area is NaN or there is no positive."""
    area, n = np.broadcast_arrays(np.asarray(area, np.float64), np.asarray(n, np.float64))
    known = (area >= 0) & (area <= 1) & (n > 0)
    lower, upper = METHODS[method](np.where(known, area, 0.5), np.where(known, n, 1.0), level)
    return np.where(known[..., None], np.stack([lower, upper], axis=-1), np.nan)


def _z(level: float) -> float:
    return float(ndtri(0.5 + level / 2))
