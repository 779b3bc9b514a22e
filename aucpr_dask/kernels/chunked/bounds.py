"""Bounds of average precision from counts of items in bins of scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Every term of a bound and of the area itself is rounded fewer than 8 times, and NumPy's sum of 2**23 terms adds less
# than 40 roundings of 2**-53 each.
ROUNDING = 2.0**-46

Floats = NDArray[np.float64]


def bound_area(
    positives: NDArray[np.int64], negatives: NDArray[np.int64], is_tied: NDArray[np.bool_]
) -> tuple[float, float]:
    """Return bounds of average precision from the counts of bins in ascending order; twice the area if all are tied."""
    from aucpr_dask.kernels.chunked.histograms import area_of_tie_groups

    n_positive = float(positives.sum())
    if n_positive == 0:
        return np.nan, np.nan
    if is_tied.all():
        area = area_of_tie_groups(positives, negatives)
        return area, area
    least, most = least_and_most(positives, negatives, is_tied)
    return rounded_outward(float(least.sum()) / n_positive, float(most.sum()) / n_positive)


def least_and_most(
    positives: NDArray[np.int64], negatives: NDArray[np.int64], is_tied: NDArray[np.bool_], scale: float = 1.0
) -> tuple[Floats, Floats]:
    """Return the least and the most that each bin, in ascending order, can add to the area, in units of positives.

    With TP and FP above a bin of p positives and m negatives, each positive has at most the precision of all positives
    tied above all negatives, (TP + p)/(TP + p + FP). At least, the i-th has x/(x + FP + m) at x = TP + i; that is
    concave in x, so their sum is at least p times the mean of the first and the last. A bin whose items are all tied
    is known exactly. Counts of negatives are multiplied by `scale`.
    """
    p, m = positives.astype(np.float64), negatives.astype(np.float64)
    end = np.cumsum(p[::-1])[::-1]
    below = scale * np.cumsum(m[::-1])[::-1]
    above = scale * (np.cumsum(m[::-1])[::-1] - m)
    first = end - p + 1.0
    known = p * (end / np.maximum(end + below, 1.0))
    upper = p * (end / np.maximum(end + above, 1.0))
    lower = p * (0.5 * (first / (first + below)) + 0.5 * (end / np.maximum(end + below, 1.0)))
    return np.where(is_tied, known, lower), np.where(is_tied, known, upper)


def rounded_outward(lower: float, upper: float) -> tuple[float, float]:
    """Widen bounds of an area by the rounding errors of their sums, and of the area itself."""
    return max(0.0, lower * (1.0 - ROUNDING)), min(1.0, upper * (1.0 + ROUNDING))
