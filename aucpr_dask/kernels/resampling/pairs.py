"""Replicates of differences between models, pair by pair: divided by their spread, counted, and their maxima."""

from __future__ import annotations

import numpy as np
from numba import types
from numpy.typing import NDArray

from aucpr_dask.kernels.compiling import Cache
from aucpr_dask.kernels.signatures import F8, I8, row_of, rows_of

CACHE = Cache(__name__)

LANES = 32  # sums at a time, which the compiler turns into vectors: their order is part of the result

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


def studentise(
    centred: Floats,
    bias: Floats,
    resolution: Floats,
    spread: Floats,
    degrees: float,
    first: Indices,
    second: Indices,
) -> tuple[Floats, Floats, Floats]:
    """Return the sizes (P, R) of the differences' replicates over their standard deviations, these, and the divisors.

    `centred` (M, R) are each model's replicates less their mean, and `bias` (M,) is what lies between that and their
    centre. A variance is the sum of the squared differences of two rows of `spread` (M, any), over `degrees`. A
    deviation up to `resolution` (M,) is an error of 0, and the divisor is then the resolution.
    """
    sizes, error, scale = np.empty((first.size, centred.shape[1])), np.empty(first.size), np.empty(first.size)
    divide_by_spread(centred, bias, resolution, spread, degrees, first, second, sizes, error, scale)
    return sizes, error, scale


def tally(sizes: Floats, reach: Floats, maximum: Floats, *, is_cumulative: bool = False) -> Indices:
    """Raise each replicate's maximum (R,) to these sizes (P, R), and count those that attain each pair's reach (P,).

    Counts sizes or, if cumulative, the maxima over the pair and all before it.
    """
    counts = np.empty(len(sizes), np.int64)
    count_attained(sizes, reach, is_cumulative, maximum, counts)
    return counts


@CACHE.kernel(
    types.void(rows_of(F8), *[row_of(F8)] * 2, rows_of(F8), F8, *[row_of(I8)] * 2, F8[:, ::1], F8[::1], F8[::1])
)
def divide_by_spread(centred, bias, resolution, spread, degrees, first, second, sizes, error, scale):
    """Do the work of :func:`studentise`."""
    whole = spread.shape[1] - spread.shape[1] % LANES
    lanes = np.empty(LANES)
    for p in range(first.size):
        j, k = first[p], second[p]
        one, other = spread[j], spread[k]
        lanes[:] = 0.0
        for start in range(0, whole, LANES):
            for lane in range(LANES):
                deviation = one[start + lane] - other[start + lane]
                lanes[lane] += deviation * deviation
        for i in range(whole, spread.shape[1]):
            deviation = one[i] - other[i]
            lanes[i - whole] += deviation * deviation
        width = LANES // 2
        while width > 0:
            for lane in range(width):
                lanes[lane] += lanes[lane + width]
            width //= 2
        least = resolution[j] + resolution[k]
        deviation = np.sqrt(lanes[0] / degrees)
        error[p] = deviation if deviation > least else 0.0
        scale[p] = max(error[p], least)
        shift, factor = bias[j] - bias[k], 1.0 / scale[p]
        one, other, size = centred[j], centred[k], sizes[p]
        for r in range(size.size):
            size[r] = abs(one[r] - other[r] + shift) * factor


@CACHE.kernel(types.void(rows_of(F8), row_of(F8), types.boolean, F8[::1], I8[::1]))
def count_attained(sizes, reach, is_cumulative, maximum, counts):
    """Do the work of :func:`tally`."""
    for p in range(sizes.shape[0]):
        size, least = sizes[p], reach[p]
        for r in range(size.size):
            maximum[r] = size[r] if size[r] > maximum[r] else maximum[r]
        n_attained = 0
        if is_cumulative:
            for r in range(size.size):
                n_attained += maximum[r] >= least
        else:
            for r in range(size.size):
                n_attained += size[r] >= least
        counts[p] = n_attained


CACHE.publish()
