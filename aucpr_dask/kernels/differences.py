"""Sums over units whose signs are flipped or that are drawn again, and replicates of differences, pair by pair.

What NumPy does in less time than numba takes to be imported is done by NumPy, with the bits of the kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

LANES = 16  # sums at a time: their order is part of the result
WORD = 64  # signs in a word
BLOCK = 1 << 18  # values at a time
BY_NUMPY = 1 << 24  # products
PARTS = 8  # of the replicates, for the cores to share

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


def add_flipped(values: Floats, words: NDArray[np.uint64], sums: Floats) -> None:
    """Add to the sums (M, R) the values (M, U) of units, one unit after the other, with the signs of each replicate.

    A set bit of the words of a unit (U, R / 64), the lowest bit first, is a minus.
    """
    n_replicates = sums.shape[1]
    if values.size * n_replicates <= BY_NUMPY:
        for unit, of_unit in enumerate(words.astype("<u8").view(np.uint8)):
            is_minus = np.unpackbits(of_unit, count=n_replicates, bitorder="little")
            sums += values[:, unit, np.newaxis] * (1.0 - 2.0 * is_minus)
        return
    from aucpr_dask.kernels import pairs

    _in_parts(pairs.add_flipped, np.ascontiguousarray(values), words, words.shape[1], sums)


def add_drawn(values: Floats, draws: Indices, sums: Floats) -> None:
    """Set the sums (M, R) of the values (M, Q) of the units that each replicate draws (R, Q), unit by unit in lanes."""
    n_replicates, n_units = draws.shape
    if values.size * n_replicates <= BY_NUMPY:
        flat = draws + n_units * np.arange(n_replicates)[:, np.newaxis]
        counts = np.bincount(flat.ravel(), minlength=draws.size).reshape(draws.shape)
        for model, row in enumerate(values):
            sums[model] = _sums_in_lanes(counts * row)
        return
    from aucpr_dask.kernels import pairs

    _in_parts(pairs.add_drawn, np.ascontiguousarray(values), draws, n_replicates, sums)


def _in_parts(function: Callable[..., None], values: Floats, drawn: NDArray[Any], size: int, sums: Floats) -> None:
    """Call a kernel for parts of the replicates, on all cores."""
    from aucpr_dask.kernels.compiling import on_all_cores

    starts = range(0, size, -(-size // PARTS))
    on_all_cores(lambda first: function(values, drawn, first, min(first + starts.step, size), sums), starts)


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
