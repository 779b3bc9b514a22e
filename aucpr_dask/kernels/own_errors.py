"""Replicates of differences between models, each divided by its own error."""

from __future__ import annotations

import numpy as np
from numba import types

from aucpr_dask.kernels.compiling import kernel
from aucpr_dask.kernels.signatures import F8, row_of, rows_of

TILE, STEP = 512, 4  # replicates at a time, units per step
LEAST_OWN_ERROR = 0.2  # relative to the error of the data


@kernel(types.void(F8[:, ::1], rows_of(F8), rows_of(F8), row_of(F8), row_of(F8)))
def stretch_by_own_errors(deviations, squares, weights, error, resolution):
    """Multiply deviations of means (P, R) by `error` (P,) over the error of each replicate, in place (bootstrap-t).

    `squares` (P, Q) are those of the units' deviations from their mean, and `weights` (Q, R) say how often each unit is
    in each replicate. An error counts as at least a fifth of that of the data: else one pair of models that differ on
    few units, which a replicate may lack, would decide on a family. A deviation up to `resolution` becomes 0.
    """
    n_units, n_replicates = weights.shape
    panel, sums = np.zeros((n_units, TILE)), np.empty(TILE)
    row = np.empty(n_units)
    for start in range(0, n_replicates, TILE):
        size = min(TILE, n_replicates - start)
        panel[:, :size] = weights[:, start : start + size]
        for p in range(deviations.shape[0]):
            row[:] = squares[p] / (n_units * (n_units - 1.0))
            sums[:] = 0.0
            whole = n_units - n_units % STEP
            for q in range(0, whole, STEP):
                for c in range(TILE):
                    total = sums[c] + row[q] * panel[q, c]
                    total += row[q + 1] * panel[q + 1, c]
                    total += row[q + 2] * panel[q + 2, c]
                    sums[c] = total + row[q + 3] * panel[q + 3, c]
            for q in range(whole, n_units):
                for c in range(TILE):
                    sums[c] += row[q] * panel[q, c]
            least = (LEAST_OWN_ERROR * error[p]) ** 2
            deviation = deviations[p, start : start + size]
            for c in range(size):
                own = max(sums[c] - deviation[c] * deviation[c] / (n_units - 1.0), least)
                sums[c] = error[p] / np.sqrt(own) if own > 0.0 else 1.0
            for c in range(size):
                deviation[c] = deviation[c] * sums[c] if abs(deviation[c]) > resolution[p] else 0.0
