"""Replicates of the Bayesian bootstrap: weights in place of counts."""

from __future__ import annotations

import numpy as np
from numba import types

from aucpr_dask.kernels.compiling import Cache
from aucpr_dask.kernels.resampling.lanes import evaluate_all_lanes, signature_of
from aucpr_dask.kernels.resampling.streams import LANES, WORDS, draw_dirichlet
from aucpr_dask.kernels.signatures import F8, I8, U8, row_of

CACHE = Cache(__name__)


@CACHE.kernel(types.void(U8, I8, row_of(I8), row_of(I8), F8[:, ::1]))
def draw_weights(key, first, size, stratum, weight):
    """Fill the lanes of every unit with its Dirichlet weight in resamples from `first` on; strata separately."""
    words = np.empty(WORDS, np.uint32)
    start = 0
    for s in range(size.size):
        drawn = np.empty(size[s])
        for lane in range(LANES):
            draw_dirichlet(key, np.uint64(first + lane), np.uint64(stratum[s]), words, drawn)
            for i in range(size[s]):
                weight[start + i, lane] = drawn[i]
        start += size[s]


evaluate_weighted_lanes = CACHE.kernel(signature_of(F8))(evaluate_all_lanes)

CACHE.publish()
