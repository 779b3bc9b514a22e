"""Map a function of NumPy blocks over rankings: eagerly on NumPy, lazily on Dask, with dimensions on xarray."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dask.array as da
import numpy as np
import xarray as xr

from aucpr_dask.evaluation.alignment import Labelled
from aucpr_dask.evaluation.in_chunks import evaluate_in_chunks, has_chunked_items, needs_whole_rankings
from aucpr_dask.evaluation.rankings import evaluate_rankings, lead_of
from aucpr_dask.schema.variables import ITEM, ITEM_ROLES


def map_rankings(
    function: Callable[..., Any],
    arrays: Mapping[str, Labelled],
    sizes: Mapping[str, int],
    dim: str = ITEM,
    over: str | None = None,
    **kwargs: Any,
) -> Labelled:
    """Map a function over the leading dimensions of prepared arrays; its results have the dimensions of `sizes`.

    The function reduces the dimension `over`, if given, too.
    """
    lazy = (array for array in arrays.values() if array.chunks is not None and dim in array.dims)
    in_chunks = any(has_chunked_items(array, array.get_axis_num(dim)) for array in lazy)
    if in_chunks and function is not evaluate_rankings:
        raise needs_whole_rankings(function.__name__.replace("_", " "), dim)
    return xr.apply_ufunc(  # type: ignore[no-any-return]
        evaluate_in_chunks if in_chunks else function,
        *arrays.values(),
        input_core_dims=core_dims(arrays, dim, over),
        output_core_dims=[list(sizes)],
        kwargs={"roles": tuple(arrays), **kwargs},
        dask="allowed" if in_chunks else "parallelized",
        output_dtypes=[np.float64],
        dask_gufunc_kwargs={"output_sizes": dict(sizes)},
        keep_attrs=False,
    )


def core_dims(arrays: Mapping[str, Labelled], dim: str, over: str | None = None) -> list[list[str]]:
    """Return which arrays have an item axis, and an axis `over`, as `xarray.apply_ufunc` takes it."""
    axes: list[list[str]] = []
    for role, array in arrays.items():
        of_item: list[str] = [dim] if role in ITEM_ROLES else []
        axes.append([over, *of_item] if over is not None and over in array.dims else of_item)
    return axes


def with_common_chunks(arrays: Sequence[da.Array], n_core: Sequence[int]) -> list[da.Array]:
    """Return arrays that broadcast over their leading dimensions, in the same chunks along these."""
    leading = [array.ndim - n for array, n in zip(arrays, n_core, strict=True)]
    most = max(leading)
    places = [(*range(most - n, most), *([ITEM] * core)) for n, core in zip(leading, n_core, strict=True)]
    return list(da.core.unify_chunks(*itertools.chain(*zip(arrays, places, strict=True)))[1])


def map_plain(function: Callable[..., Any], arrays: Mapping[str, Any], n_quantities: int, **kwargs: Any) -> Any:
    """Map a function over the rankings of NumPy or Dask arrays; quantities are on the last axis."""
    roles = tuple(arrays)
    if not any(isinstance(array, da.Array) for array in arrays.values()):
        return function(*arrays.values(), roles=roles, **kwargs)
    lead_of(arrays)
    lazy = [a if isinstance(a, da.Array) else da.from_array(a, chunks=-1) for a in arrays.values()]
    if any(role in ITEM_ROLES and has_chunked_items(array) for role, array in zip(roles, lazy, strict=True)):
        if function is not evaluate_rankings:
            raise needs_whole_rankings(function.__name__.replace("_", " "))
        return evaluate_in_chunks(*lazy, roles=roles, **kwargs)
    lazy = with_common_chunks(lazy, [int(role in ITEM_ROLES) for role in roles])
    signature = ",".join(f"({ITEM})" if role in ITEM_ROLES else "()" for role in roles) + "->(quantity)"
    sizes = {"quantity": n_quantities}
    return da.apply_gufunc(
        function, signature, *lazy, output_dtypes=np.float64, output_sizes=sizes, roles=roles, **kwargs
    )
