"""One pass over the replicates of pairs: differences, errors, statistics and p-values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aucpr_dask.inference.families.pairs import PANEL_BYTES, Floats, Indices
from aucpr_dask.inference.families.parametric import errors_from_units
from aucpr_dask.inference.families.replicates import (
    JointReplicates,
    checked_pairs,
    count,
    panels,
    shares,
)


@dataclass(frozen=True)
class PairStatistics:
    """Statistics of P pairs; :func:`pair_statistics` makes it."""

    difference: Floats  # exactly 0 for two models that agree in every replicate
    error: Floats  # standard deviation of the difference's replicates, or standard error over units
    statistic: Floats  # difference over error, always finite: an error of 0 is replaced by the resolution
    p_value: Floats  # two-sided, unadjusted
    reach: Floats  # |statistic| less rounding errors: a replicate that reaches it counts against the pair
    maximum: Floats  # (R,): largest |statistic| over all pairs, in each replicate
    complete: bool  # as in `JointReplicates`


def pair_statistics(
    sample: JointReplicates, first: Indices, second: Indices, *, panel_bytes: int = PANEL_BYTES
) -> PairStatistics:
    """Compute difference, error, statistic and p-value of each pair, and the largest statistic of each replicate.

    With difference d, replicates d* of standard deviation s, and centre c (d under the bootstrap, 0 under sign flips):
    t = d / s, t* = (d* - c) / s and p = (1 + #{|t*| >= |t|}) / (1 + R), or the share of complete replicates. All
    replicates of a pair share s, which makes the bootstrap slightly liberal with few units (a nominal 0.05 was 0.067
    over 150 units and ten pairs); sign flips are not. If the sample has its units, s is the standard error over them,
    and each replicate is divided by its own (bootstrap-t; Hall 1992, doi:10.1007/978-1-4612-4384-7).

    Two models that agree in every replicate have difference, error and statistic 0 and p-value 1. Two that differ by
    the same amount in every replicate have error 0 and the smallest p-value.
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
    error = errors(sample, deviations, first, second)
    scale = np.maximum(error, sample.resolution[first] + sample.resolution[second])
    around_centre(sample, deviations, error, first, second)
    np.abs(deviations, out=deviations)
    deviations /= scale[:, np.newaxis]
    return deviations, error, scale


def errors(sample: JointReplicates, deviations: Floats, first: Indices, second: Indices) -> Floats:
    """Return the standard errors of differences, from their centred replicates or, if the sample has them, units."""
    if sample.units is not None:
        return errors_from_units(sample.units.values, first, second)
    degrees = deviations.shape[1] - (not sample.complete)
    # einsum would sum a single row in a different order than the same row among others.
    error: Floats = np.sqrt(np.square(deviations).sum(axis=1) / degrees)
    error[error <= sample.resolution[first] + sample.resolution[second]] = 0
    return error


def around_centre(sample: JointReplicates, deviations: Floats, error: Floats, first: Indices, second: Indices) -> None:
    """Turn differences of centred replicates into deviations from the centre, in place.

    If the sample has its units, each deviation is multiplied by `error` over its own error.
    """
    deviations += (sample.bias[first] - sample.bias[second])[:, np.newaxis]
    if sample.units is not None:
        from aucpr_dask.kernels.resampling.units import stretch_by_own_errors

        values = sample.units.values[first] - sample.units.values[second]
        values -= values.mean(axis=1, keepdims=True)
        resolution = sample.resolution[first] + sample.resolution[second]
        stretch_by_own_errors(deviations, np.square(values), sample.units.weights, error, resolution)


def differences(sample: JointReplicates, first: Indices, second: Indices, error: Floats) -> Floats:
    """Differences of estimates, exactly 0 where neither they nor their replicates exceed rounding errors."""
    difference: Floats = sample.estimate[first] - sample.estimate[second]
    resolution = sample.resolution[first] + sample.resolution[second]
    return np.where((error == 0) & (np.abs(difference) <= resolution), 0.0, difference)
