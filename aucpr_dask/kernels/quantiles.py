"""Quantiles of beta distributions, one for each row."""

from __future__ import annotations

from numba import types

from aucpr_dask.kernels.beta_logit import beta_logit
from aucpr_dask.kernels.compiling import F8, helper, kernel, row_of

logit_of_one = helper(beta_logit)


@kernel(types.void(row_of(F8), row_of(F8), F8, F8, F8[::1]))
def fill_beta_logits(a, b, tail, z, logits):
    """Fill in the logits of the quantiles of rows; NaN where SciPy is to find them."""
    for i in range(logits.size):
        logits[i] = logit_of_one(a[i], b[i], tail, z)
