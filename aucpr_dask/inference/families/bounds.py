"""Intervals of differences from replicates, marginal or simultaneous."""

from __future__ import annotations

import numpy as np

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.inference.families.pairs import PANEL_BYTES, Floats, Indices
from aucpr_dask.inference.families.replicates import JointReplicates, checked_pairs, panels
from aucpr_dask.inference.families.statistics import PairStatistics, studentise


def max_t_quantile(statistics: PairStatistics, level: float) -> float:
    """Quantile of the maximum statistic: ``difference -+ quantile * error`` hold for all pairs at once.

    An interval excludes 0 exactly where the :func:`single_step` p-value is at most ``1 - level``. Only for bootstrap
    replicates: sign flips are centred at 0, and their errors are too large where models differ.
    """
    place = order_statistic(statistics.maximum.size, level, statistics.complete)
    return float(np.partition(statistics.maximum, place)[place])


def marginal_quantiles(
    sample: JointReplicates, first: Indices, second: Indices, level: float, *, panel_bytes: int = PANEL_BYTES
) -> Floats:
    """Quantile of the statistic of each pair: the interval that matches the p-values of :func:`pair_statistics`."""
    first, second = checked_pairs(sample, first, second)
    place = order_statistic(sample.centred.shape[1], level, sample.complete)
    quantile = np.empty(first.size)
    for panel in panels(first.size, sample, panel_bytes):
        j, k = first[panel], second[panel]
        sizes, _, _ = studentise(sample, j, k)
        sizes.partition(place, axis=1)
        quantile[panel] = sizes[:, place]
    return quantile


def intervals(difference: Floats, error: Floats, quantile: float | Floats) -> Floats:
    """Bounds ``difference -+ quantile * error``."""
    half = half_widths(difference, error, quantile)
    return np.stack([difference - half, difference + half], axis=-1)


def half_widths(difference: Floats, error: Floats, quantile: float | Floats) -> Floats:
    """Half the widths of intervals: ``quantile * error``.

    An infinite quantile says that no test could reject. Then only models that agree on every unit have an interval of
    width 0; those that differ by the same on every unit have none, though their error is 0 as well.
    """
    with np.errstate(invalid="ignore"):
        finite = np.where(error > 0, quantile * error, 0.0)
    return np.where(np.isinf(quantile) & (difference != 0), np.inf, finite)


def order_statistic(n_replicates: int, level: float, complete: bool = False) -> int:
    """Position, counted from 0, of the quantile among sorted replicates that matches their p-values."""
    if not 0 < level < 1:
        raise InvalidInputError("level must lie between 0 and 1", received=repr(level))
    rank = int(np.ceil(round(level * (n_replicates + (not complete)), 9)))
    if rank > n_replicates:
        raise InvalidInputError(
            "too few replicates for this level",
            where="the options n_resamples and level",
            received=f"{n_replicates} replicates, level {level}",
            allowed="enough replicates for a quantile at each end",
            remedy=f"take at least {int(np.ceil(round(level / (1 - level), 9)))} resamples",
        )
    return rank - 1
