"""Sums of products of influences; their order is part of the result."""

from __future__ import annotations

import numpy as np
from numba import types

from aucpr_dask.kernels.by_numpy import PANEL
from aucpr_dask.kernels.compiling import F8, helper, kernel

TILE, STEP = 64, 4  # adjacent rows, columns per step


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
