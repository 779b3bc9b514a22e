"""Expected areas of a random ranking without ties, for the estimators that are sums over single positives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Step = Callable[[Array, int, int, float], Array]

NEGLIGIBLE = 10.0  # standard deviations from the mean, and 40 / sqrt(k) more, beyond which probabilities are negligible


def _precision(negatives: Array, k: int, n: int, m: float) -> Array:
    return k / (k + negatives)


def _precision_of_others(negatives: Array, k: int, n: int, m: float) -> Array:
    return np.where(negatives > 0, (k - 1) / np.maximum(k - 1 + negatives, 1e-300), 1.0)


def _straight_line(negatives: Array, k: int, n: int, m: float) -> Array:
    before = np.where(negatives == 0, 1.0, 0.0) if k == 1 else (k - 1) / (k - 1 + negatives)
    return (before + k / (k + negatives)) / 2


def _upper_line(negatives: Array, k: int, n: int, m: float) -> Array:
    # Each positive's precision is the right end of one line and, but for the last, the left end of the next.
    share = 1.0 if k < n else 0.5
    return share * k / (k + negatives) + (0.5 if k == 1 else 0.0)


def _curve(negatives: Array, k: int, n: int, m: float) -> Array:
    x = 1 / (k - 1 + np.maximum(negatives, 1e-300))
    return np.where(negatives == 0, 1.0, 1 - negatives * np.log1p(x))


def _gain(negatives: Array, k: int, n: int, m: float) -> Array:
    odds = n / m
    first = max(k - 1.0, n * odds / (1 + odds))  # recall gain is negative before
    if k <= first:
        return np.zeros_like(negatives)
    left, right = 1 - odds * negatives / first, 1 - odds * negatives / k
    return (left + right) / 2 * odds * n * n * (1 / first - 1 / k)


STEPS: dict[str, Step] = {
    "average_precision": _precision,
    "haldane": _precision_of_others,
    "lower_trapezoid": _straight_line,
    "upper_trapezoid": _upper_line,
    "discrete": _straight_line,
    "continuous": _curve,
    "gain_area": _gain,
}


def expected_area(name: str, n: int, m: int, scale: float = 1.0) -> float:
    """Return the mean area over all orders of n positives and m negatives; NaN without positives.

    The negatives before the k-th positive have the negative hypergeometric distribution; an estimator in `STEPS` is 1/n
    times the sum over k of a function of k and this number. `scale` multiplies every number of negatives.
    """
    if n == 0:
        return np.nan
    if m == 0:
        return np.nan if name == "gain_area" else 1.0
    step = STEPS[name]
    total = 0.0
    for k in range(1, n + 1):
        negatives, probability = _negatives_before(k, n, m)
        total += float(probability @ step(scale * negatives, k, n, scale * m))
    return total / n


def _negatives_before(k: int, n: int, m: int) -> tuple[Array, Array]:
    """Return the likely numbers of negatives before the k-th positive, and their probabilities."""
    mean = k * m / (n + 1)
    deviation = np.sqrt(mean * (n + m + 1) * (n + 1 - k) / ((n + 1) * (n + 2)))
    reach = (NEGLIGIBLE + 40 / np.sqrt(min(k, n + 1 - k))) * deviation + 50
    low, high = max(0, int(mean - reach)), min(m, int(mean + reach) + 1)
    j = np.arange(low, high + 1, dtype=np.float64)
    # From one number to the next the probability changes by (k + j)(m - j) / ((j + 1)(n - k + m - j)).
    growth = (k + j[:-1]) * (m - j[:-1]) / (j[1:] * (n - k + m - j[:-1]))
    logarithm = np.concatenate([[0.0], np.cumsum(np.log(growth))])
    probability = np.exp(logarithm - logarithm.max())
    return j, probability / probability.sum()
