"""One pass over the replicates of pairs: differences, errors, statistics and p-values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aucpr_dask.inference.families.pairs import PANEL_BYTES, Floats, Indices
from aucpr_dask.inference.families.parametric import errors_and_squares
from aucpr_dask.inference.families.replicates import (
    JointReplicates,
    ResampledUnits,
    checked_pairs,
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
    over 150 units and ten pairs). Of flips of the signs of Q units' differences, s is known: the root of the sum of
    their squares, over Q. Estimated from the flips, it would be too small for some of many pairs, and the test not
    exact: all flips would be compared with it, and the observed difference, which is none of them.

    If the sample has its units, s is the standard error over them, and each replicate is divided by its own
    (bootstrap-t; Hall 1992, doi:10.1007/978-1-4612-4384-7).

    Two models that agree in every replicate have difference, error and statistic 0 and p-value 1. Two that differ by
    the same amount in every replicate have error 0 and the smallest p-value.
    """
    from aucpr_dask.kernels.differences import tally

    first, second = checked_pairs(sample, first, second)
    error, scale, reach = np.empty((3, first.size))
    counts = np.empty(first.size, np.int64)
    maximum = np.zeros(sample.centred.shape[1])
    size = np.abs(sample.estimate[first] - sample.estimate[second])
    resolved = np.maximum(size - (sample.resolution[first] + sample.resolution[second]), 0)
    for panel in panels(first.size, sample, panel_bytes):
        sizes, error[panel], scale[panel] = studentise(sample, first[panel], second[panel])
        reach[panel] = resolved[panel] / scale[panel]
        counts[panel] = tally(sizes, reach[panel], maximum)
    difference = differences(sample, first, second, error)
    p_value = shares(counts, sample.centred, sample.complete)
    return PairStatistics(difference, error, difference / scale, p_value, reach, maximum, sample.complete)


def studentise(sample: JointReplicates, first: Indices, second: Indices) -> tuple[Floats, Floats, Floats]:
    """Return the sizes (P, R) of the replicates' statistics, the standard errors, and what they are divided by.

    The errors are the standard deviations of the differences' replicates, known or estimated, or, if the sample has its
    units, the standard errors over them.
    """
    if sample.units is None:
        from aucpr_dask.kernels import differences as pairs

        spread, degrees = sample.centred, sample.centred.shape[1] - (not sample.complete)
        if sample.flipped is not None:
            spread, degrees = sample.flipped, sample.flipped.shape[1] ** 2
        of_models = sample.centred, sample.bias, sample.resolution, spread
        return pairs.studentise(*of_models, float(degrees), first, second)
    sizes = deviations_from_centre(sample, first, second)
    error = stretch(sizes, sample, sample.units, first, second)
    scale = np.maximum(error, sample.resolution[first] + sample.resolution[second])
    np.abs(sizes, out=sizes)
    sizes /= scale[:, np.newaxis]
    return sizes, error, scale


def deviations_from_centre(sample: JointReplicates, first: Indices, second: Indices) -> Floats:
    """Return how far the replicates (P, R) of differences are from their centre."""
    deviations: Floats = sample.centred[first] - sample.centred[second]
    deviations += (sample.bias[first] - sample.bias[second])[:, np.newaxis]
    return deviations


def stretch(
    deviations: Floats, sample: JointReplicates, units: ResampledUnits, first: Indices, second: Indices
) -> Floats:
    """Multiply each deviation from the centre by the standard error over its own error; return the standard errors."""
    from aucpr_dask.kernels.differences import stretch_by_own_errors

    of_units = units.values[first] - units.values[second]
    error, squares = errors_and_squares(of_units, units.resolution[first] + units.resolution[second])
    resolution = sample.resolution[first] + sample.resolution[second]
    stretch_by_own_errors(deviations, squares, units.weights, error, resolution)
    return error


def differences(sample: JointReplicates, first: Indices, second: Indices, error: Floats) -> Floats:
    """Differences of estimates, exactly 0 where neither they nor their replicates exceed rounding errors."""
    difference: Floats = sample.estimate[first] - sample.estimate[second]
    resolution = sample.resolution[first] + sample.resolution[second]
    return np.where((error == 0) & (np.abs(difference) <= resolution), 0.0, difference)
