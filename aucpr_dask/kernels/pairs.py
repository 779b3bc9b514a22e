"""Compiled loops over many replicates of models and of their pairs; `differences` calls them, and has their bits."""

from __future__ import annotations

import numpy as np
from numba import types

from aucpr_dask.kernels.compiling import F8, I8, U8, kernel, rows_of
from aucpr_dask.kernels.differences import LANES, WORD


@kernel(types.void(rows_of(F8), types.Array(U8, 2, "C", readonly=True), I8, I8, F8[:, ::1]))
def add_flipped(values, words, first, stop, sums):
    """Add to the sums (M, R) the values (M, U) with the signs of the words `first` to `stop` of each unit (U, W).

    The innermost loop runs over replicates, so it compiles to vector instructions without changing any order.
    """
    n_replicates = sums.shape[1]
    part = np.empty((stop - first) * WORD)
    n = min(stop * WORD, n_replicates) - first * WORD
    for model in range(values.shape[0]):
        part[:n] = sums[model, first * WORD : first * WORD + n]
        for unit in range(values.shape[1]):
            plus = values[model, unit]
            minus = -plus
            for w in range(stop - first):
                word = words[unit, first + w]
                for lane in range(WORD):
                    is_minus = (word >> np.uint64(lane)) & np.uint64(1)
                    part[w * WORD + lane] += minus if is_minus else plus
        sums[model, first * WORD : first * WORD + n] = part[:n]


@kernel(types.void(rows_of(F8), types.Array(I8, 2, "C", readonly=True), I8, I8, F8[:, ::1]))
def add_drawn(values, draws, first, stop, sums):
    """Set the sums (M, R) of the values (M, Q) of the units that the replicates `first` to `stop` draw (R, Q)."""
    n_units = values.shape[1]
    padded = -(-n_units // LANES) * LANES
    count, weight, lanes = np.empty(padded, np.int32), np.empty(padded), np.empty(LANES)
    for replicate in range(first, stop):
        count[:] = 0
        for unit in draws[replicate]:
            count[unit] += 1
        for unit in range(padded):
            weight[unit] = count[unit]
        for model in range(values.shape[0]):
            lanes[:] = 0.0
            row = values[model]
            for start in range(0, n_units - LANES + 1, LANES):
                for lane in range(LANES):
                    lanes[lane] += row[start + lane] * weight[start + lane]
            for unit in range(n_units // LANES * LANES, n_units):
                lanes[unit % LANES] += row[unit] * weight[unit]
            half = LANES // 2
            while half:
                for lane in range(half):
                    lanes[lane] += lanes[lane + half]
                half //= 2
            sums[model, replicate] = lanes[0]
