"""Kernels: NumPy arrays in, NumPy arrays out. They know nothing of labels, xarray or Dask.

Importing this package imports numba, so the rest of the package does it only when a number is asked for.
"""

from aucpr_dask.kernels.finishing import COLUMNS, Options, Targets
from aucpr_dask.kernels.rows import evaluate_all_rows, evaluate_rows, evaluate_weighted_rows, targets_of

__all__ = [
    "COLUMNS",
    "Options",
    "Targets",
    "evaluate_all_rows",
    "evaluate_rows",
    "evaluate_weighted_rows",
    "targets_of",
]
