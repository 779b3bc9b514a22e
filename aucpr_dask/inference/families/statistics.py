"""One pass over the replicates of pairs: differences, errors, statistics and p-values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aucpr_dask.inference.families.pairs import PANEL_BYTES, Floats, Indices
from aucpr_dask.inference.families.replicates import (
    JointReplicates,
    checked_pairs,
    count,
    panels,
    shares,
)


@dataclass(frozen=True)
class PairStatistics:
    """What one pass over the replicates says of P pairs; :func:`pair_statistics` makes it.

    Attributes
    ----------
    difference : numpy.ndarray of float64, shape (P,)
        ``estimate[first] - estimate[second]``, exactly 0 for two models that are the same in every replicate.
    error : numpy.ndarray of float64, shape (P,)
        Standard deviation of the difference's replicates.
    statistic : numpy.ndarray of float64, shape (P,)
        Difference over error, always finite: an error of 0 is replaced by the resolution of the numbers.
    p_value : numpy.ndarray of float64, shape (P,)
        Two-sided, of each pair on its own.
    reach : numpy.ndarray of float64, shape (P,)
        Size of the statistic less round-off: a replicate that gets there counts against the pair.
    maximum : numpy.ndarray of float64, shape (R,)
        Largest size of the statistic over all pairs, in each replicate.
    complete : bool
        As in :class:`JointReplicates`.
    """

    difference: Floats
    error: Floats
    statistic: Floats
    p_value: Floats
    reach: Floats
    maximum: Floats
    complete: bool


def pair_statistics(
    sample: JointReplicates, first: Indices, second: Indices, *, panel_bytes: int = PANEL_BYTES
) -> PairStatistics:
    r"""Difference, error, statistic and p-value of each pair, and the largest statistic of each replicate.

    With difference d, its replicates d*, their standard deviation s and their centre c (d under the bootstrap, 0
    under sign flips), t = d / s and t* = (d* - c) / s, and a pair's own p-value is

    .. math:: p = \frac{1 + \#\{|t^*| \ge |t|\}}{1 + R},

    or the plain share of the replicates if they are complete. The error s of a pair is the same in all replicates: it
    balances the pairs of a family, and leaves the bootstrap a little liberal where units are few (a nominal 0.05 was
    0.067 over 150 units and ten pairs); sign flips are not.

    Two models that are the same in every replicate have difference 0, error 0, statistic 0 and p-value 1. Two that
    differ by the same amount in every replicate have error 0, a statistic as large as the numbers can resolve, and
    the smallest p-value.

    Examples
    --------
    >>> from aucpr_dask.inference.families import all_pairs, joint_replicates, sign_flips
    >>> values = np.array([[0.5, 0.75, 0.5, 1.0], [0.25, 0.5, 0.5, 0.25]])  # model, query
    >>> signs, complete = sign_flips(4, 1000)
    >>> sample = joint_replicates(values.mean(axis=1), signs @ values.T / 4, null=True, complete=complete)
    >>> pair_statistics(sample, *all_pairs(2)).p_value
    array([0.25])
    """
    first, second = checked_pairs(sample, first, second)
    difference, error, statistic, p_value, reach = np.empty((5, first.size))
    maximum = np.zeros(sample.centred.shape[1])
    for panel in panels(first.size, sample, panel_bytes):
        j, k = first[panel], second[panel]
        sizes, error[panel], scale = studentise(sample, sample.centred[j] - sample.centred[k], j, k)
        difference[panel] = differences(sample, j, k, error[panel])
        statistic[panel] = difference[panel] / scale
        resolved = np.abs(difference[panel]) - (sample.resolution[j] + sample.resolution[k])
        reach[panel] = np.maximum(resolved, 0) / scale
        p_value[panel] = shares(count(sizes >= reach[panel, np.newaxis]), sizes, sample.complete)
        np.maximum(maximum, sizes.max(axis=0, initial=0), out=maximum)
    return PairStatistics(difference, error, statistic, p_value, reach, maximum, sample.complete)


def studentise(
    sample: JointReplicates, deviations: Floats, first: Indices, second: Indices
) -> tuple[Floats, Floats, Floats]:
    """Turn differences of centred replicates into sizes of statistics, in place."""
    resolution = sample.resolution[first] + sample.resolution[second]
    degrees = deviations.shape[1] - (not sample.complete)
    # Not by einsum, which adds up a single row in another order than a row among others.
    error = np.sqrt(np.square(deviations).sum(axis=1) / degrees)
    error[error <= resolution] = 0
    scale = np.maximum(error, resolution)
    deviations += (sample.bias[first] - sample.bias[second])[:, np.newaxis]
    np.abs(deviations, out=deviations)
    deviations /= scale[:, np.newaxis]
    return deviations, error, scale


def differences(sample: JointReplicates, first: Indices, second: Indices, error: Floats) -> Floats:
    """Differences of estimates, exactly 0 where neither they nor their replicates exceed round-off."""
    difference: Floats = sample.estimate[first] - sample.estimate[second]
    resolution = sample.resolution[first] + sample.resolution[second]
    return np.where((error == 0) & (np.abs(difference) <= resolution), 0.0, difference)
