"""Sums of products, of influences and of the units that replicates draw; their order is part of the result."""

from __future__ import annotations

import numpy as np
from numba import types

from aucpr_dask.kernels.compiling import F8, helper, kernel, row_of, rows_of
from aucpr_dask.kernels.first_calls import PANEL

TILE, STEP = 64, 4  # adjacent rows, columns per step
REPLICATES = 512  # at a time
LEAST_OWN_ERROR = 0.2  # relative to the error of the data


@helper
def add_multiples(factor, panel, size, sums):
    """Add multiples of the first rows of a panel to the sums, one after the other; both are 0 up to a whole step.

    The innermost loop runs over sums, so it compiles to vector instructions without changing the order of any sum.
    """
    for c in range(0, size, STEP):
        for j in range(sums.size):
            total = sums[j] + factor[c] * panel[c, j]
            total += factor[c + 1] * panel[c + 1, j]
            total += factor[c + 2] * panel[c + 2, j]
            sums[j] = total + factor[c + 3] * panel[c + 3, j]


@kernel(types.void(types.Array(F8, 2, "A", readonly=True), types.Array(F8, 2, "A", readonly=True), F8[:, ::1]))
def add_products(left, right, out):
    """Add to `out` the sums of products of every row of `left` with every row of `right`.

    Each sum runs over panels of `PANEL` columns, and within a panel from left to right, one rounded product after the
    other, for any other rows.
    """
    n_columns = left.shape[1]
    sums = np.empty(TILE)
    for start in range(0, n_columns, PANEL):
        size = min(PANEL, n_columns - start)
        row, panel = np.zeros(PANEL), np.zeros((PANEL, TILE))
        for first in range(0, right.shape[0], TILE):
            width = min(TILE, right.shape[0] - first)
            for j in range(width):
                for c in range(size):
                    panel[c, j] = right[first + j, start + c]
            for i in range(left.shape[0]):
                for c in range(size):
                    row[c] = left[i, start + c]
                sums[:] = 0.0
                add_multiples(row, panel, size, sums)
                for j in range(width):
                    out[i, first + j] += sums[j]


@kernel(types.void(F8[:, ::1], rows_of(F8), rows_of(F8), row_of(F8), row_of(F8)))
def stretch_by_own_errors(deviations, squares, weights, error, resolution):
    """Multiply deviations of means (P, R) by `error` (P,) over the error of each replicate, in place (bootstrap-t).

    `squares` (P, Q) are those of the units' deviations from their mean, and `weights` (Q, R) say how often each unit is
    in each replicate. An error counts as at least a fifth of that of the data: else one pair of models that differ on
    few units, which a replicate may lack, would decide on a family. A deviation up to `resolution` becomes 0.
    """
    n_units, n_replicates = weights.shape
    panel, sums = np.zeros((n_units + STEP, REPLICATES)), np.empty(REPLICATES)
    row = np.zeros(n_units + STEP)
    for start in range(0, n_replicates, REPLICATES):
        size = min(REPLICATES, n_replicates - start)
        panel[:n_units, :size] = weights[:, start : start + size]
        for p in range(deviations.shape[0]):
            row[:n_units] = squares[p] / (n_units * (n_units - 1.0))
            sums[:] = 0.0
            add_multiples(row, panel, n_units, sums)
            least = (LEAST_OWN_ERROR * error[p]) ** 2
            deviation = deviations[p, start : start + size]
            for c in range(size):
                own = max(sums[c] - deviation[c] * deviation[c] / (n_units - 1.0), least)
                factor = error[p] / np.sqrt(own) if own > 0.0 else 1.0
                deviation[c] = deviation[c] * factor if abs(deviation[c]) > resolution[p] else 0.0
