"""Errors and p-values of differences from covariances or from values per unit."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.inference.families.pairs import PANEL_BYTES, ROUND_OFF, Floats, Indices, slices
from aucpr_dask.inference.families.replicates import sign_flips

_ENUMERATED_UNITS = 13


def parametric_quantile(level: float, degrees: float | None = None) -> float:
    """Two-sided quantile of the normal distribution, or of Student's t."""
    if not 0 < level < 1:
        raise InvalidInputError("level must lie between 0 and 1", received=repr(level))
    tail = (1 - level) / 2
    return -float(ndtri(tail) if degrees is None else stdtrit(degrees, tail))


def parametric_p_values(difference: Floats, error: Floats, degrees: float | None = None) -> Floats:
    """Two-sided p-values of ``difference / error`` under the normal distribution, or Student's t."""
    return 2 * upper_tail(np.abs(difference), error, degrees)


def errors_from_covariance(covariance: Floats, first: Indices, second: Indices) -> Floats:
    """Compute standard errors of differences from the covariance of the estimates."""
    variance = np.diagonal(covariance)
    total = variance[first] + variance[second]
    squared = total - 2 * covariance[first, second]
    return np.sqrt(np.where(squared <= ROUND_OFF * total, 0.0, squared))


def errors_from_units(values: Floats, first: Indices, second: Indices, *, panel_bytes: int = PANEL_BYTES) -> Floats:
    """Compute standard errors of mean differences from values per unit: ``sd / sqrt(Q)``."""
    values = _checked_units(values)
    resolution = ROUND_OFF * np.abs(values).max(axis=1)
    error = np.empty(first.size)
    for panel in slices(first.size, 8 * values.shape[1], panel_bytes):
        j, k = first[panel], second[panel]
        error[panel], _ = errors_and_squares(values[j] - values[k], resolution[j] + resolution[k])
    return error


def errors_and_squares(difference: Floats, resolution: Floats) -> tuple[Floats, Floats]:
    """Return the standard errors of the means of rows, and the squares of the deviations; overwrites the rows."""
    n_units = difference.shape[1]
    difference -= difference.mean(axis=1, keepdims=True)
    squares = np.square(difference, out=difference)
    spread = np.sqrt(squares.sum(axis=1) / (n_units - 1))
    return np.where(spread <= resolution, 0.0, spread / np.sqrt(n_units)), squares


def wilcoxon_p_values(values: Floats, first: Indices, second: Indices, *, panel_bytes: int = PANEL_BYTES) -> Floats:
    """Two-sided p-values of Wilcoxon's signed-rank test over units (Wilcoxon 1945, doi:10.2307/3001968).

    Units on which two models are equal are left out; p is 1 where they are equal on all. The null distribution is exact
    for up to 13 units, and for up to 50 without ties and zeros; otherwise normal.
    """
    values = _checked_units(values)
    n_units = values.shape[1]
    enumerated = n_units <= _ENUMERATED_UNITS
    test = _enumerated_wilcoxon if enumerated else _scipy_wilcoxon
    p_value = np.empty(first.size)
    for panel in slices(first.size, 8 * (2**n_units if enumerated else n_units), panel_bytes):
        p_value[panel] = test(values[first[panel]] - values[second[panel]])
    return p_value


def _enumerated_wilcoxon(difference: Floats) -> Floats:
    """P-values of rows under all 2**Q signs of their ranks; sums of half integers are exact."""
    from scipy.stats import rankdata

    zeros = np.count_nonzero(difference == 0, axis=1)[:, np.newaxis]
    ranks = np.maximum(rankdata(np.abs(difference), axis=1) - zeros, 0)  # the zeros' own ranks come first
    signs, _ = sign_flips(difference.shape[1], 2 ** difference.shape[1])
    observed = np.abs(np.sum(np.sign(difference) * ranks, axis=1, keepdims=True))
    return np.asarray(np.mean(np.abs(ranks @ signs.T) >= observed, axis=1), np.float64)


def _scipy_wilcoxon(difference: Floats) -> Floats:
    """P-values of rows. scipy uses one null distribution for all rows, so rows with ties are tested separately."""
    from scipy import stats

    sizes = np.sort(np.abs(difference), axis=1)
    tied = (sizes[:, 0] == 0) | np.any(sizes[:, 1:] == sizes[:, :-1], axis=1)
    p_value = np.ones(len(difference))
    for rows in (tied & (sizes[:, -1] > 0), ~tied):
        if rows.any():
            p_value[rows] = stats.wilcoxon(difference[rows], axis=1).pvalue
    return p_value


def upper_tail(value: Floats, error: Floats, degrees: float | None) -> Floats:
    """P-value of ``value / error`` being this large: an error of 0 puts all probability at 0."""
    known = error > 0
    statistic = np.divide(value, error, out=np.zeros(value.shape), where=known)
    tail = np.asarray(ndtr(-statistic) if degrees is None else stdtr(degrees, -statistic), np.float64)
    return np.where(known, tail, np.where(value > 0, 0.0, np.where(value < 0, 1.0, 0.5)))


def _checked_units(values: Floats) -> Floats:
    values = np.ascontiguousarray(values, np.float64)
    if values.ndim != 2 or values.shape[1] < 2 or not np.all(np.isfinite(values)):
        raise InvalidInputError(
            "values per unit that cannot be compared",
            received=f"shape {values.shape}, {np.count_nonzero(~np.isfinite(values))} not finite",
            allowed="(models, units), at least 2 units, every value finite",
        )
    return values
