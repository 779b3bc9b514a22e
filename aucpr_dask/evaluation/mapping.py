"""Map functions of NumPy blocks over rankings: eagerly on NumPy, lazily on Dask, also with items in several chunks.

Rankings whose items are in several chunks are evaluated exactly. Small ones are gathered, and so are large ones, few at
a time, for what counts do not tell. Otherwise large ones are read in two passes. In the first pass every chunk returns
the scores of its positives, which are merged in a tree. In the second pass these go to every chunk, which counts its
negatives between them. The counts are added in a tree, and yield the areas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import xarray as xr

from aucpr_dask.evaluation import block_results, chunk_passes, grouped_blocks, rankings
from aucpr_dask.evaluation.alignment import Labelled
from aucpr_dask.schema import estimators, terms
from aucpr_dask.schema.options import EvaluationOptions
from aucpr_dask.schema.terms import GROUPS, ITEM

if TYPE_CHECKING:
    import dask.array as da

WHOLE_ONLY = {"binormal", "interpolated_mean", "interpolated_median"}  # they need more than counts between positives
MERGED_AT_ONCE = 4
WORTH_TWO_PASSES = 1 << 26  # bytes of the scores in a chunk of rankings, with all their items


class Output(NamedTuple):
    """What a function returns for every ranking."""

    sizes: Mapping[str, int]  # of its dimensions
    dtype: Any = np.float64


def map_rankings(
    function: Callable[..., Any],
    arrays: Mapping[str, Labelled],
    sizes: Mapping[str, int],
    dim: str = ITEM,
    over: str | None = None,
    **kwargs: Any,
) -> Labelled:
    """Map a function over the leading dimensions of prepared arrays; its results have the dimensions of `sizes`.

    The function reduces the dimension `over`, if given, too. It needs all items of a ranking.
    """
    arrays = gathered(arrays, dim, over)
    found: Labelled = _apply(function, arrays, [Output(sizes)], dim, over, "parallelized", kwargs)
    return found


def map_evaluation(
    finish: Callable[..., Any],
    arrays: Mapping[str, Labelled],
    outputs: Sequence[Output],
    dim: str = ITEM,
    *,
    options: EvaluationOptions,
    **kwargs: Any,
) -> Any:
    """Evaluate prepared arrays by :func:`evaluate_block`, also if their items are in several chunks.

    `finish` makes the outputs: a tuple, or one array.
    """
    kwargs |= {"finish": finish, "options": options}
    if GROUPS in arrays:  # which are in one chunk each
        return _apply(grouped_blocks.evaluate_groups, arrays, outputs, dim, None, "parallelized", kwargs)
    if (
        _are_in_chunks(arrays, dim)
        and not _are_small(arrays["score"], dim)
        and not need_whole_rankings(arrays, options)
    ):
        kwargs |= {"outputs": outputs}
        return _apply(evaluate_in_chunks, arrays, outputs, dim, None, "allowed", kwargs)
    return _apply(block_results.evaluate_block, gathered(arrays, dim), outputs, dim, None, "parallelized", kwargs)


def gathered(arrays: Mapping[str, Labelled], dim: str, over: str | None = None) -> Mapping[str, Labelled]:
    """Return arrays with all items in one chunk, and in chunks of few rankings if these are large."""
    if not _are_in_chunks(arrays, dim):
        return arrays
    lead: dict[Any, Any] = {}
    if not _are_small(arrays["score"], dim):
        lead = {name: "auto" for name in arrays["score"].dims if name not in (dim, over)}
    return {
        name: array.chunk({dim: -1} | {one: size for one, size in lead.items() if one in array.dims})
        if dim in array.dims
        else array
        for name, array in arrays.items()
    }


def _are_in_chunks(arrays: Mapping[str, Labelled], dim: str) -> bool:
    return any(len(array.chunksizes.get(dim, ())) > 1 for array in arrays.values())


def _are_small(score: Labelled, dim: str) -> bool:
    n_rankings = math.prod(max(along, default=0) for name, along in score.chunksizes.items() if name != dim)
    return are_small(n_rankings, score.sizes[dim], score.dtype.itemsize)


def are_small(n_rankings: int, n_items: int, itemsize: int) -> bool:
    """Return whether these rankings are gathered in any case: two passes pay only for larger ones."""
    return n_rankings * n_items * itemsize < WORTH_TWO_PASSES


def _apply(
    function: Callable[..., Any],
    arrays: Mapping[str, Labelled],
    outputs: Sequence[Output],
    dim: str,
    over: str | None,
    dask: Literal["allowed", "parallelized"],
    kwargs: Mapping[str, Any],
) -> Any:
    found = xr.apply_ufunc(
        function,
        *arrays.values(),
        input_core_dims=core_dims(arrays, dim, over),
        output_core_dims=[list(output.sizes) for output in outputs],
        kwargs={"roles": tuple(arrays), **kwargs},
        dask=dask,
        output_dtypes=[output.dtype for output in outputs],
        dask_gufunc_kwargs={"output_sizes": {d: n for output in outputs for d, n in output.sizes.items()}},
        keep_attrs="override",  # those of coordinates
    )
    for one in found if isinstance(found, tuple) else (found,):
        one.attrs = {}
    return found


def core_dims(arrays: Mapping[str, Labelled], dim: str, over: str | None = None) -> list[list[str]]:
    """Return which arrays have axes for items and groups, and an axis `over`, as `xarray.apply_ufunc` takes it."""
    core = [one for one in (over, GROUPS, dim) if one is not None]
    return [[one for one in core if one in array.dims] for array in arrays.values()]


# Items in several chunks


def need_whole_rankings(roles: Container[str], options: EvaluationOptions) -> bool:
    """Return whether something is asked that counts of negatives between positives do not tell."""
    resampling = options.resampling
    return (
        any(estimators.parse_estimator(name)[0].name in WHOLE_ONLY for name in options.estimators)
        or rankings.is_weighted(roles)
        or options.ties == "trec_eval"
        or "cluster" in roles
        or ("key" in roles and resampling.draws)
        or resampling.uses_folds
    )


def evaluate_in_chunks(
    *arrays: Any, roles: tuple[str, ...], outputs: Sequence[Output], options: EvaluationOptions, **kwargs: Any
) -> Any:
    """Evaluate rankings as :func:`evaluate_block` does, in two passes over chunks of items; return Dask arrays."""
    import dask.array as da
    from dask.graph_manipulation import clone

    named: dict[str, da.Array] = {
        role: array if isinstance(array, da.Array) else da.from_array(np.asarray(array), chunks=-1)
        for role, array in zip(roles, arrays, strict=True)
    }
    n_lead = max(array.ndim - (role in terms.ITEM_ROLES) for role, array in named.items())
    named.pop("tie_order", None)
    items = {role: named.pop(role) for role in ("score", "label")}
    # Under other names, the second pass reads its input again; otherwise it would stay in memory.
    items_again = dict(zip(items, clone(*items.values(), seed="second pass"), strict=True))

    parts = map_items(chunk_passes.collect_positives, items, n_lead, options=options)
    positives = reduce_items(parts, chunk_passes.merge_positives)
    known = {"positives": positives} | named
    checked = _map(chunk_passes.check_positives, known, n_lead, roles=tuple(known), options=options)
    tallies = map_items(chunk_passes.tally_negatives, items_again | {"positives": checked}, n_lead, options=options)
    counted = {"positives": checked, "tally": reduce_items(tallies, chunk_passes.add_tallies)} | named
    found = _map(block_results.evaluate_block, counted, n_lead, roles=tuple(counted), options=options, **kwargs)
    # What each block holds, one array or a tuple of several, becomes that many Dask arrays.
    lead, taken = tuple(range(n_lead)), []
    for number, (sizes, dtype) in enumerate(outputs):
        new_axes = dict(enumerate(sizes.values(), start=n_lead))
        axes, meta = (*lead, *new_axes), np.empty((0,) * (n_lead + len(sizes)), dtype)
        place = number if len(outputs) > 1 else None
        taken.append(da.blockwise(_taken, axes, found, lead, place=place, new_axes=new_axes, dtype=dtype, meta=meta))
    return tuple(taken) if len(taken) > 1 else taken[0]


def _taken(block: Any, place: int | None) -> Any:
    return block if place is None else block[place]


def _indexed(named: dict[str, da.Array], n_lead: int) -> tuple[list[Any], tuple[int, ...]]:
    """Return arrays with the numbers of their axes, counted from the last, and all leading axes; items: `n_lead`."""
    pairs: list[Any] = []
    lead: set[int] = set()
    for role, array in named.items():
        own = array.ndim - (role in terms.ITEM_ROLES)
        axes = range(n_lead - own, n_lead)
        lead.update(axes)
        pairs += [array, (*axes, *((n_lead,) if role in terms.ITEM_ROLES else ()))]
    return pairs, tuple(sorted(lead))


def map_items(function: Callable[..., Any], named: dict[str, da.Array], n_lead: int, **kwargs: Any) -> da.Array:
    """Map a block function over chunks of items to one element each."""
    import dask.array as da

    pairs, lead = _indexed(named, n_lead)
    out, adjusted = (*lead, n_lead), {n_lead: 1}
    kwargs |= {"dtype": object, "meta": np.empty((0,) * len(out), object)}
    return da.blockwise(function, out, *pairs, adjust_chunks=adjusted, concatenate=True, **kwargs)  # type: ignore[no-any-return]


def _map(function: Callable[..., Any], named: dict[str, da.Array], n_lead: int, **kwargs: Any) -> da.Array:
    """Map a block function over rankings, or facts about them, to an object for each block."""
    import dask.array as da

    pairs, lead = _indexed(named, n_lead)
    kwargs |= {"concatenate": True, "dtype": object, "meta": np.empty((0,) * len(lead), object)}
    return da.blockwise(function, lead, *pairs, **kwargs)  # type: ignore[no-any-return]


def reduce_items(parts: da.Array, merge: Callable[..., Any]) -> da.Array:
    """Merge along the axis of items, in a tree."""
    import dask.array as da

    meta = np.empty((0,) * (parts.ndim - 1), object)
    settings = {"axis": -1, "concatenate": False, "split_every": MERGED_AT_ONCE, "dtype": object, "meta": meta}
    return da.reduction(parts, unchanged, merge, **settings)  # type: ignore[no-any-return]


def unchanged(part: Any, axis: Any, keepdims: Any) -> Any:
    """Return the result of a chunk unchanged: the first step of a reduction."""
    return part
