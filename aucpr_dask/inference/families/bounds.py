"""Intervals of differences from replicates, each on its own or simultaneous."""

from __future__ import annotations

import numpy as np

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.inference.families.pairs import PANEL_BYTES, Floats, Indices
from aucpr_dask.inference.families.replicates import JointReplicates, checked_pairs, panels
from aucpr_dask.inference.families.statistics import PairStatistics, studentise


def max_t_quantile(statistics: PairStatistics, level: float) -> float:
    """Quantile of the maximum statistic: ``difference -+ quantile * error`` hold for all pairs of the family at once.

    It is the order statistic for which an interval leaves out 0 exactly where the :func:`single_step` p-value is at
    most ``1 - level``. It belongs to bootstrap replicates: sign flips are centred at 0 and make errors too large
    where models differ.

    Examples
    --------
    >>> from aucpr_dask.inference.families import all_pairs, joint_replicates, pair_statistics
    >>> noise = np.linspace(-1, 1, 39)
    >>> sample = joint_replicates([0.5, 0.25], np.stack([0.5 + noise, np.full(39, 0.25)], axis=1))
    >>> round(max_t_quantile(pair_statistics(sample, *all_pairs(2)), 0.9), 4)
    1.5787
    """
    place = order_statistic(statistics.maximum.size, level, statistics.complete)
    return float(np.partition(statistics.maximum, place)[place])


def marginal_quantiles(
    sample: JointReplicates, first: Indices, second: Indices, level: float, *, panel_bytes: int = PANEL_BYTES
) -> Floats:
    """Quantile of each pair's own statistic: ``difference -+ quantile * error`` holds for that pair on its own.

    The symmetric interval that answers to the p-values of :func:`pair_statistics`.

    Examples
    --------
    >>> from aucpr_dask.inference.families import all_pairs, joint_replicates
    >>> noise = np.linspace(-1, 1, 39)
    >>> sample = joint_replicates([0.5, 0.25], np.stack([0.5 + noise, np.full(39, 0.25)], axis=1))
    >>> marginal_quantiles(sample, *all_pairs(2), level=0.9).round(4)
    array([1.5787])
    """
    first, second = checked_pairs(sample, first, second)
    place = order_statistic(sample.centred.shape[1], level, sample.complete)
    quantile = np.empty(first.size)
    for panel in panels(first.size, sample, panel_bytes):
        j, k = first[panel], second[panel]
        sizes, _, _ = studentise(sample, sample.centred[j] - sample.centred[k], j, k)
        sizes.partition(place, axis=1)
        quantile[panel] = sizes[:, place]
    return quantile


def intervals(difference: Floats, error: Floats, quantile: float | Floats) -> Floats:
    """Bounds ``difference -+ quantile * error``.

    Examples
    --------
    >>> intervals(np.array([0.5]), np.array([0.25]), 2.0)
    array([[0., 1.]])
    """
    return np.stack([difference - quantile * error, difference + quantile * error], axis=-1)


def order_statistic(n_replicates: int, level: float, complete: bool = False) -> int:
    """Position, counted from 0, of the quantile among sorted replicates that answers to their p-values.

    Examples
    --------
    >>> order_statistic(999, 0.95)
    949
    """
    if not 0 < level < 1:
        raise InvalidInputError("level must lie between 0 and 1", received=repr(level))
    rank = int(np.ceil(round(level * (n_replicates + (not complete)), 9)))
    if rank > n_replicates:
        raise InvalidInputError(
            "too few replicates for this level",
            received=f"{n_replicates} replicates, level {level}",
            remedy=f"take at least {int(np.ceil(round(level / (1 - level), 9)))} resamples",
        )
    return rank - 1
