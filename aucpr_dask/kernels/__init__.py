"""Kernels: NumPy arrays in, NumPy arrays out. No labels, xarray or Dask.

Numba is imported by the modules of compiled code only, which short work does without: by NumPy, in `dispatch`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from aucpr_dask.kernels.dispatch import evaluate_rows
from aucpr_dask.kernels.options import CODES, COLUMNS, Clusters, Items, Options, Targets, code_of_extra, targets_of

if TYPE_CHECKING:
    from aucpr_dask.kernels.rankings import evaluate_all_rows
    from aucpr_dask.kernels.resampling import accelerations, planned_bytes, replicate_rows
    from aucpr_dask.kernels.weighted import evaluate_weighted_rows

_COMPILED = {
    "accelerations": "resampling",
    "evaluate_all_rows": "rankings",
    "evaluate_weighted_rows": "weighted",
    "planned_bytes": "resampling",
    "replicate_rows": "resampling",
}

__all__ = [
    "CODES",
    "COLUMNS",
    "Clusters",
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


def __getattr__(name: str) -> Any:
    if name in _COMPILED:
        return getattr(importlib.import_module(f"{__name__}.{_COMPILED[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
