"""Pairs of models: which there are, their standard errors, and what follows from these alone.

A *pair* is two positions on the model axis, in the index arrays `first` and `second`. Its difference is
``estimate[first] - estimate[second]``. What follows from joint replicates is in `families`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.inference.units import Floats, Indices, all_signs, mean_of_units, squares

PANEL_BYTES = 2**18  # of pairs x replicates that are treated at a time: they stay in a core's cache
ROUND_OFF = 1e-12  # relative to the estimates: smaller differences and errors count as those of equal numbers
_ENUMERATED_UNITS = 13  # of Wilcoxon's test: 2**13 signs of each of many pairs still fit in a panel


def all_pairs(n_models: int) -> tuple[Indices, Indices]:
    """Index arrays of all M (M - 1) / 2 pairs, first < second, row by row."""
    first, second = np.triu_indices(n_models, 1)
    return first.astype(np.int64), second.astype(np.int64)


def against(baselines: Sequence[int], n_models: int) -> tuple[Indices, Indices]:
    """Index arrays of every model (first) against every baseline (second); a pair of two baselines appears once."""
    others = [np.setdiff1d(np.arange(n_models), baselines[: place + 1]) for place in range(len(baselines))]
    first = np.concatenate([np.empty(0, np.int64), *others])
    return first, np.repeat(np.asarray(baselines, np.int64), np.array([other.size for other in others], np.int64))


def slices(n_rows: int, row_bytes: int, least: int = 1) -> Iterator[slice]:
    """Cut rows into runs that fill a panel, of `least` rows at least."""
    rows = max(least, PANEL_BYTES // row_bytes)
    return (slice(start, min(start + rows, n_rows)) for start in range(0, n_rows, rows))


# --- standard errors -----------------------------------------------------------------------------------------------


def errors_from_units(values: Floats, first: Indices, second: Indices) -> Floats:
    """Compute standard errors of mean differences from values per unit (M, Q): ``sd / sqrt(Q)``."""
    n_units = values.shape[1]
    resolution = ROUND_OFF * np.abs(values).max(axis=1)
    deviations = values - mean_of_units(values)[:, np.newaxis]
    spread = np.sqrt(squares(deviations, first, second) / (n_units - 1))
    return np.where(spread <= resolution[first] + resolution[second], 0.0, spread / np.sqrt(n_units))


# --- intervals and tests -------------------------------------------------------------------------------------------


def intervals(difference: Floats, error: Floats, quantile: float | Floats, outer: Floats | None = None) -> Floats:
    """Bounds ``difference -+ quantile * error``; with other errors on the side away from 0 if given."""
    below, above = sides(difference, error, outer)
    down, up = half_widths(difference, below, quantile), half_widths(difference, above, quantile)
    return np.stack([difference - down, difference + up], axis=-1)


def sides(difference: Floats, error: Floats, outer: Floats | None) -> tuple[Floats, Floats]:
    """Return the errors below and above differences, of which those on the side away from 0 are `outer`."""
    if outer is None:
        return error, error
    return np.where(difference > 0, error, outer), np.where(difference < 0, error, outer)


def half_widths(difference: Floats, error: Floats, quantile: float | Floats) -> Floats:
    """Half the widths of intervals: ``quantile * error``.

    An infinite quantile says that no test could reject. Then only models that agree on every unit have an interval of
    width 0; those that differ by the same on every unit have none, though their error is 0 as well.
    """
    with np.errstate(invalid="ignore"):  # 0 * infinity
        finite = np.where(error > 0, quantile * error, 0.0)
    return np.where(np.isinf(quantile) & (difference != 0), np.inf, finite)


def parametric_quantile(level: float, degrees: float | None = None) -> float:
    """Two-sided quantile of the normal distribution, or of Student's t."""
    tail = (1 - level) / 2
    return -float(scipy.special.ndtri(tail) if degrees is None else scipy.special.stdtrit(degrees, tail))


def bonferroni_quantile(level: float, n_pairs: int, degrees: float | None) -> float:
    """Two-sided quantile for the intervals of a family: the error rate is divided by the number of pairs."""
    return parametric_quantile(1 - (1 - level) / max(1, n_pairs), degrees)


def parametric_p_values(difference: Floats, error: Floats, degrees: float | Floats | None = None) -> Floats:
    """Two-sided p-values of ``difference / error`` under the normal distribution, or Student's t."""
    return 2 * upper_tail(np.abs(difference), error, degrees)


def upper_tail(value: Floats, error: Floats, degrees: float | Floats | None) -> Floats:
    """P-value of ``value / error`` being this large: an error of 0 puts all probability at 0."""
    known = error > 0
    statistic = np.divide(value, error, out=np.zeros(value.shape), where=known)
    tail = scipy.special.ndtr(-statistic) if degrees is None else scipy.special.stdtr(degrees, -statistic)
    return np.where(known, tail, np.where(value > 0, 0.0, np.where(value < 0, 1.0, 0.5)))


def wilcoxon_p_values(values: Floats, first: Indices, second: Indices) -> Floats:
    """Two-sided p-values of Wilcoxon's signed-rank test over units (Wilcoxon 1945, doi:10.2307/3001968).

    Units on which two models are equal are left out; p is 1 where they are equal on all. The null distribution is exact
    for up to 13 units, and for up to 50 without ties and zeros; otherwise normal.
    """
    from scipy import stats

    n_units = values.shape[1]
    is_enumerated = n_units <= _ENUMERATED_UNITS
    p_value = np.ones(first.size)
    for panel in slices(first.size, 8 * (2**n_units if is_enumerated else n_units)):
        difference, of_panel = values[first[panel]] - values[second[panel]], p_value[panel]
        if is_enumerated:  # all 2**Q signs of the ranks; sums of half integers are exact
            zeros = np.count_nonzero(difference == 0, axis=1)[:, np.newaxis]
            ranks = np.maximum(stats.rankdata(np.abs(difference), axis=1) - zeros, 0)  # those of zeros come first
            observed = np.abs(np.sum(np.sign(difference) * ranks, axis=1, keepdims=True))
            of_panel[:] = np.mean(np.abs(ranks @ all_signs(n_units).T) >= observed, axis=1)
            continue
        # SciPy uses one null distribution for all rows, so rows with ties are tested separately.
        sizes = np.sort(np.abs(difference), axis=1)
        tied = (sizes[:, 0] == 0) | np.any(sizes[:, 1:] == sizes[:, :-1], axis=1)
        for rows in (tied & (sizes[:, -1] > 0), ~tied):
            if rows.any():
                of_panel[rows] = stats.wilcoxon(difference[rows], axis=1).pvalue
    return p_value


# --- equivalence up to a margin ------------------------------------------------------------------------------------
# Schuirmann 1987, doi:10.1007/BF01068419. Benavoli, Corani, Demšar & Zaffalon 2017, JMLR 18(77).


@dataclass(frozen=True)
class Equivalence:
    """Whether the models of P pairs are equivalent up to a margin."""

    p_value: Floats  # the larger of the two one-sided tests: small where the difference is within the margin
    share_inside: Floats  # of the replicates, or of the parametric distribution
    decision: NDArray[np.str_]  # where the interval of level 1 - 2 alpha lies: "equivalent", "different", "undecided"


def parametric_equivalence(
    difference: Floats, error: Floats, margin: float, *, alpha: float = 0.05, degrees: float | None = None
) -> Equivalence:
    """Test whether differences lie within [-margin, margin], under the normal distribution or Student's t."""
    tails = [
        upper_tail(value, error, degrees)
        for value in (difference + margin, margin - difference, difference - margin, -difference - margin)
    ]
    return decided(np.stack(tails), 1 - tails[0] - tails[1], alpha)


def decided(tails: Floats, share_inside: Floats, alpha: float) -> Equivalence:
    """Decide from p-values (4, P): for lying above -margin, below margin, above margin, below -margin."""
    if alpha >= 0.5:
        what, remedy = "alpha must lie between 0 and 0.5 to decide on equivalence", "give a level above 0.5"
        raise InvalidInputError(what, "option 'level'", f"alpha = 1 - level = {alpha:g}", "level > 0.5", remedy)
    above_lower, below_upper, above_upper, below_lower = tails
    p_value = np.maximum(above_lower, below_upper)
    different = np.minimum(above_upper, below_lower) <= alpha
    decision = np.select([p_value <= alpha, different], ["equivalent", "different"], "undecided")
    return Equivalence(p_value, share_inside, decision)


# --- adjustments of p-values ---------------------------------------------------------------------------------------


def holm(p_value: Floats) -> Floats:
    """P-values adjusted by Holm's step-down procedure (1979), which controls the familywise error rate."""
    order = np.argsort(p_value, kind="stable")
    adjusted = np.empty(p_value.size)
    adjusted[order] = np.maximum.accumulate(p_value[order] * np.arange(p_value.size, 0, -1))
    return np.minimum(adjusted, 1)


def benjamini_hochberg(p_value: Floats) -> Floats:
    """P-values adjusted by the procedure of Benjamini and Hochberg, which controls the false discovery rate."""
    from scipy import stats  # its import takes half a second, and most calls do not need it

    return np.asarray(stats.false_discovery_control(p_value, method="bh"), np.float64)
