"""Kernels: NumPy arrays in, NumPy arrays out. No labels, xarray or Dask.

Importing this package imports numba, so the rest of the package does it only to compute.
"""

from aucpr_dask.kernels.options import CODES, COLUMNS, Items, Options, Targets, code_of_extra, targets_of
from aucpr_dask.kernels.rankings import evaluate_all_rows, evaluate_rows
from aucpr_dask.kernels.resampling import accelerations, planned_bytes, replicate_rows
from aucpr_dask.kernels.weighted import MOST_WEIGHTED, evaluate_weighted_rows

__all__ = [
    "CODES",
    "COLUMNS",
    "MOST_WEIGHTED",
    "Items",
    "Options",
    "Targets",
    "accelerations",
    "code_of_extra",
    "evaluate_all_rows",
    "evaluate_rows",
    "evaluate_weighted_rows",
    "planned_bytes",
    "replicate_rows",
    "targets_of",
]
