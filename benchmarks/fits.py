"""How times grow: straight lines through logarithms, and where two such curves cross."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import linregress


@dataclass(frozen=True)
class Fit:
    """The power of a size that a time grows with.

    Parameters
    ----------
    exponent : float
    error : float
        Its standard error: how far the times are from a power law. NaN for fewer than three sizes.
    n : int
        How many sizes there were.
    """

    exponent: float
    error: float
    n: int

    def __str__(self) -> str:
        if np.isnan(self.error):
            return f"{self.exponent:.2f}"
        return f"{self.exponent:.2f} ± {self.error:.2f}"


def fit(sizes: Sequence[float], seconds: Sequence[float]) -> Fit:
    """Fit a power law to all sizes; the exponent is NaN for fewer than two.

    Examples
    --------
    >>> print(fit([1, 10, 100], [2e-6, 2e-5, 2e-4]))
    1.00 ± 0.00
    """
    n = len(sizes)
    if n < 2:
        return Fit(np.nan, np.nan, n)
    line = linregress(np.log(sizes), np.log(seconds))
    return Fit(float(line.slope), float(line.stderr) if n > 2 else np.nan, n)


def fit_large_half(sizes: Sequence[float], seconds: Sequence[float]) -> Fit:
    """Fit a power law to the larger half of the sizes, the middle one included: what every call costs fades there."""
    order = np.argsort(sizes)[len(sizes) // 2 :]
    return fit(np.asarray(sizes)[order].tolist(), np.asarray(seconds)[order].tolist())


def crossings(sizes: Sequence[float], ratios: Sequence[float]) -> list[float]:
    """Return where a ratio of two times passes 1, between neighbouring sizes by a straight line through logarithms.

    Examples
    --------
    >>> crossings([1, 100], [0.1, 10])
    [10.0]
    """
    x, y = np.log(np.asarray(sizes, float)), np.log(np.asarray(ratios, float))
    i = np.flatnonzero(y[:-1] * y[1:] < 0)
    between = np.exp(x[i] - y[i] * (x[i + 1] - x[i]) / (y[i + 1] - y[i]))
    return sorted([*between.round(12).tolist(), *np.exp(x[y == 0]).round(12).tolist()])
