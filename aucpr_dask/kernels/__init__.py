"""Kernels: NumPy arrays in, NumPy arrays out. No labels, xarray or Dask.

Importing this package imports numba, so the rest of the package does it only to compute.
"""

from aucpr_dask.kernels.areas.rows import (
    MOST_WEIGHTED,
    evaluate_all_rows,
    evaluate_rows,
    evaluate_weighted_rows,
    targets_of,
)
from aucpr_dask.kernels.codes import (
    ACCELERATION,
    AVERAGE_PRECISION,
    CUBES_FIXED,
    CUBES_RANDOM,
    ERROR_FIXED,
    ERROR_RANDOM,
    LEFT_OUT,
    OF_HALDANE,
    UNSEEN_LOSS,
)
from aucpr_dask.kernels.options import COLUMNS, Options, Targets
from aucpr_dask.kernels.resampling.rows import accelerations, planned_bytes, replicate_rows

_OF_AVERAGE_PRECISION = {
    "error_fixed": ERROR_FIXED,
    "error_random": ERROR_RANDOM,
    "acceleration": ACCELERATION,
    "cubes_fixed": CUBES_FIXED,
    "cubes_random": CUBES_RANDOM,
    "left_out": LEFT_OUT,
    "unseen_loss": UNSEEN_LOSS,
}

EXTRA_CODES = {
    "average_precision": _OF_AVERAGE_PRECISION,
    # The interval of Haldane's area, itself with each positive left out, is centred between it and average precision.
    "haldane": {name: code + OF_HALDANE for name, code in _OF_AVERAGE_PRECISION.items()}
    | {"left_out": AVERAGE_PRECISION},
}

__all__ = [
    "COLUMNS",
    "EXTRA_CODES",
    "MOST_WEIGHTED",
    "Options",
    "Targets",
    "accelerations",
    "evaluate_all_rows",
    "evaluate_rows",
    "evaluate_weighted_rows",
    "planned_bytes",
    "replicate_rows",
    "targets_of",
]
