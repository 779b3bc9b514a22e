"""Map a function of NumPy blocks over rankings: eagerly on NumPy, lazily on Dask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import xarray as xr

from aucpr_dask.evaluation import block_results, grouped_blocks
from aucpr_dask.evaluation.alignment import Labelled
from aucpr_dask.evaluation.in_chunks import Output, evaluate_in_chunks, needs_whole_rankings
from aucpr_dask.schema.terms import GROUPS, ITEM


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
    if _are_in_chunks(arrays, dim):
        raise needs_whole_rankings(function.__name__.replace("_", " "), dim)
    found: Labelled = _apply(function, arrays, [Output(sizes)], dim, over, "parallelized", kwargs)
    return found


def map_evaluation(
    finish: Callable[..., Any],
    arrays: Mapping[str, Labelled],
    outputs: Sequence[Output],
    dim: str = ITEM,
    **kwargs: Any,
) -> Any:
    """Evaluate prepared arrays by :func:`evaluate_block`, also if their items are in several chunks.

    `finish` makes the outputs: a tuple, or one array.
    """
    kwargs |= {"finish": finish}
    if GROUPS in arrays:  # which are in one chunk each
        return _apply(grouped_blocks.evaluate_groups, arrays, outputs, dim, None, "parallelized", kwargs)
    if _are_in_chunks(arrays, dim):
        return _apply(evaluate_in_chunks, arrays, outputs, dim, None, "allowed", kwargs | {"outputs": outputs})
    return _apply(block_results.evaluate_block, arrays, outputs, dim, None, "parallelized", kwargs)


def _are_in_chunks(arrays: Mapping[str, Labelled], dim: str) -> bool:
    return any(len(array.chunksizes.get(dim, ())) > 1 for array in arrays.values())


def _apply(
    function: Callable[..., Any],
    arrays: Mapping[str, Labelled],
    outputs: Sequence[Output],
    dim: str,
    over: str | None,
    dask: Literal["allowed", "parallelized"],
    kwargs: Mapping[str, Any],
) -> Any:
    return xr.apply_ufunc(
        function,
        *arrays.values(),
        input_core_dims=core_dims(arrays, dim, over),
        output_core_dims=[list(output.sizes) for output in outputs],
        kwargs={"roles": tuple(arrays), **kwargs},
        dask=dask,
        output_dtypes=[output.dtype for output in outputs],
        dask_gufunc_kwargs={"output_sizes": {d: n for output in outputs for d, n in output.sizes.items()}},
        keep_attrs=False,
    )


def core_dims(arrays: Mapping[str, Labelled], dim: str, over: str | None = None) -> list[list[str]]:
    """Return which arrays have axes for items and groups, and an axis `over`, as `xarray.apply_ufunc` takes it."""
    core = [one for one in (over, GROUPS, dim) if one is not None]
    return [[one for one in core if one in array.dims] for array in arrays.values()]
