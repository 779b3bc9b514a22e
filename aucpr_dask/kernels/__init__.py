"""Kernels: NumPy arrays in, NumPy arrays out. They know nothing of labels, xarray or Dask.

Importing this package compiles every kernel, or loads it from the cache, so the rest of the package
imports it only when a number is asked for.
"""

from aucpr_dask.kernels.rows import COLUMNS, Options, evaluate_rows, evaluate_weighted_rows

__all__ = ["COLUMNS", "Options", "evaluate_rows", "evaluate_weighted_rows"]
