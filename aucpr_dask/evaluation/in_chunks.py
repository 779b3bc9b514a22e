"""Rankings whose items are in several chunks, evaluated exactly in two passes over them; nothing is gathered.

In the first pass every chunk returns the scores of its positives, which are merged in a tree. In the second one they go
to every chunk, which counts its negatives between them; counts are added in a tree, and the areas follow from them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
from dask.graph_manipulation import clone

from aucpr_dask.errors import ChunkError
from aucpr_dask.evaluation.chunk_passes import (
    add_tallies,
    check_positives,
    collect_positives,
    finish_rankings,
    merge_positives,
    tally_negatives,
)
from aucpr_dask.evaluation.request import Request
from aucpr_dask.schema.estimators import parse_estimator
from aucpr_dask.schema.variables import COLUMNS, ITEM, ITEM_ROLES

WHOLE_ONLY = ("binormal", "interpolated_mean", "interpolated_median")  # they need more than counts between positives
MERGED_AT_ONCE = 4


def has_chunked_items(array: Any, axis: int = -1) -> bool:
    """Tell whether an array is a Dask one whose item axis is in several chunks."""
    chunks: tuple[tuple[int, ...], ...] = getattr(array, "chunks", None) or ()
    return bool(chunks) and len(chunks[axis]) > 1


def refuse_whole_only(roles: set[str], request: Request) -> None:
    """Raise if these rankings can be evaluated only with all their items in one place."""
    whole_only = [name for name in request.estimators if parse_estimator(name)[0].name in WHOLE_ONLY]
    for clash, what in (
        (bool(whole_only), ", ".join(whole_only)),
        (bool(roles & {"weight", "positive_weight", "negative_weight"}), "weights and soft labels"),
        (request.ties == "trec_eval", "ties='trec_eval'"),
    ):
        if clash:
            raise needs_whole_rankings(what)


def needs_whole_rankings(what: str, dim: str = ITEM) -> ChunkError:
    """Return the error that something cannot be had of items in several chunks."""
    return ChunkError(
        f"this needs all items of a ranking in one place, and the dimension {dim!r} is in several chunks",
        received=what,
        allowed="one chunk; or hard labels without weights, ties 'block' or 'expectation', formula and influence "
        f"intervals, and any estimator but {', '.join(WHOLE_ONLY)}",
        remedy=f"rechunk, if a worker can hold a ranking: .chunk({{{dim!r}: -1}})",
    )


def evaluate_in_chunks(*arrays: Any, roles: tuple[str, ...], request: Request) -> da.Array:
    """Evaluate rankings as `blocks.evaluate_rankings` does, lazily, whatever the chunks of their items.

    Parameters
    ----------
    *arrays : array
        One for each of `roles`; leading dimensions broadcast, and the last axis of scores and labels is that of items.
    roles : tuple of str
    request : Request

    Returns
    -------
    dask.array.Array of float64, shape (..., estimators + extras + 4)

    Raises
    ------
    ChunkError
        If this needs whole rankings.
    """
    refuse_whole_only(set(roles), request)
    named = {role: _lazy(array) for role, array in zip(roles, arrays, strict=True)}
    n_lead = max(array.ndim - (role in ITEM_ROLES) for role, array in named.items())
    items = {role: named.pop(role) for role in ("score", "label")}
    # Under names of its own, what the second pass reads is read again; else the first pass would leave it in memory.
    items_again = dict(zip(items, clone(*items.values(), seed="second pass"), strict=True))

    parts = map_items(collect_positives, items, n_lead, request=request)
    positives = reduce_items(parts, merge_positives)
    known = {"positives": positives} | named
    checked = _map(check_positives, known, n_lead, roles=tuple(known), request=request)
    tallies = map_items(tally_negatives, items_again | {"positives": checked}, n_lead, request=request)
    counted = {"positives": checked, "tally": reduce_items(tallies, add_tallies)} | named
    n_quantities = len(request.estimators) + len(request.extras) + len(COLUMNS)
    return _map(finish_rankings, counted, n_lead, n_quantities, roles=tuple(counted), request=request)


def _lazy(array: Any) -> da.Array:
    return array if isinstance(array, da.Array) else da.from_array(np.asarray(array), chunks=-1)


def _indexed(named: dict[str, da.Array], n_lead: int) -> tuple[list[Any], tuple[int, ...]]:
    """Return arrays, each with the numbers of its axes, and the leading ones of all; those of items have `n_lead`.

    Leading axes are counted from the last, as broadcasting does.
    """
    pairs: list[Any] = []
    lead: set[int] = set()
    for role, array in named.items():
        own = array.ndim - (role in ITEM_ROLES)
        axes = range(n_lead - own, n_lead)
        lead.update(axes)
        pairs += [array, (*axes, *((n_lead,) if role in ITEM_ROLES else ()))]
    return pairs, tuple(sorted(lead))


def map_items(
    function: Callable[..., Any], named: dict[str, da.Array], n_lead: int, *for_all: da.Array, **kwargs: Any
) -> da.Array:
    """Map a block function over chunks of items; along their axis, what it returns stands for one element.

    Vectors `for_all`, in one chunk, go to every call as they are.
    """
    pairs, lead = _indexed(named, n_lead)
    for number, vector in enumerate(for_all, start=n_lead + 1):
        pairs += [vector, (number,)]
    out, adjusted = (*lead, n_lead), {n_lead: 1}
    kwargs |= {"dtype": object, "meta": np.empty((0,) * len(out), object)}
    return da.blockwise(function, out, *pairs, adjust_chunks=adjusted, concatenate=True, **kwargs)  # type: ignore[no-any-return]


def _map(
    function: Callable[..., Any],
    named: dict[str, da.Array],
    n_lead: int,
    n_quantities: int | None = None,
    **kwargs: Any,
) -> da.Array:
    """Map a block function over what is known of rankings: to something for each block, or to a row of numbers each."""
    pairs, lead = _indexed(named, n_lead)
    if n_quantities is None:
        return da.blockwise(function, lead, *pairs, dtype=object, meta=np.empty((0,) * len(lead), object), **kwargs)  # type: ignore[no-any-return]
    meta, axes = np.empty((0,) * (n_lead + 1)), {n_lead: n_quantities}
    return da.blockwise(function, (*lead, n_lead), *pairs, new_axes=axes, dtype=np.float64, meta=meta, **kwargs)  # type: ignore[no-any-return]


def reduce_items(parts: da.Array, merge: Callable[..., Any]) -> da.Array:
    """Merge along the axis of items, in a tree."""
    meta = np.empty((0,) * (parts.ndim - 1), object)
    options = {"axis": -1, "concatenate": False, "split_every": MERGED_AT_ONCE, "dtype": object, "meta": meta}
    return da.reduction(parts, as_it_is, merge, **options)  # type: ignore[no-any-return]


def as_it_is(part: Any, axis: Any, keepdims: Any) -> Any:
    """Return what a chunk has said: the first step of a reduction, which has nothing to do."""
    return part
