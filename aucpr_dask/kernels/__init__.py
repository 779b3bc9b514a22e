"""Kernels: NumPy arrays in, NumPy arrays out. They know nothing of labels, xarray or Dask.

Importing this package imports numba, so the rest of the package does it only when a number is asked for.
"""

from aucpr_dask.kernels.finishing import COLUMNS, Options
from aucpr_dask.kernels.rows import evaluate_rows, evaluate_weighted_rows

__all__ = ["COLUMNS", "Options", "evaluate_rows", "evaluate_weighted_rows"]
