"""Map a function of NumPy blocks over labelled or lazy inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from aucpr_dask.evaluation.alignment import Labelled, aligned, chunked_alike
from aucpr_dask.evaluation.in_chunks import evaluate_in_chunks, has_chunked_items, needs_whole_rankings
from aucpr_dask.evaluation.rankings import evaluate_rankings
from aucpr_dask.evaluation.request import Request
from aucpr_dask.schema.variables import (
    ITEM_ROLES,
)


def map_rankings(
    function: Callable[..., Any],
    inputs: dict[str, xr.DataArray],
    request: Request,
    sizes: dict[str, int],
    dim: str,
    **kwargs: Any,
) -> xr.DataArray:
    """Map a block function over the leading dimensions of inputs whose labels are checked first."""
    return map_variables(function, aligned(inputs, request, dim, whole_items=False), request, sizes, dim, **kwargs)


def map_variables(
    function: Callable[..., Any],
    inputs: dict[str, Labelled],
    request: Request,
    sizes: dict[str, int],
    dim: str,
    **kwargs: Any,
) -> Labelled:
    """Map a block function over inputs that are aligned; of variables, there are no labels to compare at every step."""
    inputs = chunked_alike(inputs)
    in_chunks = any(has_chunked_items(a, a.get_axis_num(dim)) for a in inputs.values() if dim in a.dims)
    if in_chunks and function is not evaluate_rankings:
        raise needs_whole_rankings(function.__name__.replace("_", " "), dim)
    roles = tuple(inputs)
    return xr.apply_ufunc(  # type: ignore[no-any-return]
        evaluate_in_chunks if in_chunks else function,
        *inputs.values(),
        input_core_dims=[[dim] if role in ITEM_ROLES else [] for role in roles],
        output_core_dims=[list(sizes)],
        kwargs={"roles": roles, "request": request, **kwargs},
        dask="allowed" if in_chunks else "parallelized",
        output_dtypes=[np.float64],
        dask_gufunc_kwargs={"output_sizes": sizes},
        keep_attrs=False,
    )
