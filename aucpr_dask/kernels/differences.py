"""Replicates of differences between models, pair by pair: divided by their errors, counted, and their maxima."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LANES = 32  # sums at a time: their order is part of the result
BLOCK = 1 << 18  # values at a time

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
    step = max(1, BLOCK // max(centred.shape[1], spread.shape[1]))
    with np.errstate(all="ignore"):
        for block in (slice(start, start + step) for start in range(0, first.size, step)):
            j, k = first[block], second[block]
            least = resolution[j] + resolution[k]
            deviation = np.sqrt(_sums_in_lanes((spread[j] - spread[k]) ** 2) / degrees)
            error[block] = np.where(deviation > least, deviation, 0.0)
            scale[block] = np.maximum(error[block], least)
            size = np.subtract(centred[j], centred[k], out=sizes[block])
            size += (bias[j] - bias[k])[:, np.newaxis]
            np.abs(size, out=size)
            size *= (1.0 / scale[block])[:, np.newaxis]
    return sizes, error, scale


def _sums_in_lanes(terms: Floats) -> Floats:
    """Add the terms of each row: those of each lane from left to right, then the two halves of the lanes."""
    lanes = np.zeros((len(terms), LANES))
    for start in range(0, terms.shape[1], LANES):
        part = terms[:, start : start + LANES]
        lanes[:, : part.shape[1]] += part
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    return lanes[:, 0]


def tally(sizes: Floats, reach: Floats, maximum: Floats, *, is_cumulative: bool = False) -> Indices:
    """Raise each replicate's maximum (R,) to these sizes (P, R), and count those that attain each pair's reach (P,).

    Counts sizes or, if cumulative, the maxima over the pair and all before it.
    """
    counts = np.empty(len(sizes), np.int64)
    for p, size in enumerate(sizes):
        np.fmax(maximum, size, out=maximum)
        counts[p] = np.count_nonzero((maximum if is_cumulative else size) >= reach[p])
    return counts
