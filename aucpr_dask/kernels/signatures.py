"""The types that kernels are compiled for."""

from __future__ import annotations

from typing import Any

from numba import types

from aucpr_dask.kernels.options import Options, Targets

I1, I4, I8, U1, U4, U8 = types.int8, types.int32, types.int64, types.uint8, types.uint32, types.uint64
F4, F8 = types.float32, types.float64
FLOATS = (F4, F8)


def row_of(real: Any) -> Any:
    """Return the type of a contiguous read-only row."""
    return types.Array(real, 1, "C", readonly=True)


def rows_of(real: Any) -> Any:
    """Return the type of contiguous read-only rows."""
    return types.Array(real, 2, "C", readonly=True)


OPTIONS_TYPE = types.NamedTuple((I8, I8, I8, I8, F8), Options)
TARGETS_TYPE = types.NamedTuple((row_of(I8), row_of(F8), row_of(F8)), Targets)
OF_ITEMS = row_of(I1), row_of(F8), row_of(F8)  # the classes of weighted items, and their weights in each
