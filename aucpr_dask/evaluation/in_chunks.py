"""Rankings whose items are in several chunks, evaluated exactly: small ones gathered, large ones in two passes.

In the first pass every chunk returns the scores of its positives, which are merged in a tree. In the second pass these
go to every chunk, which counts its negatives between them. The counts are added in a tree, and yield the areas.
"""

from __future__ import annotations

import math
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
from aucpr_dask.evaluation.rankings import evaluate_rankings
from aucpr_dask.schema.estimators import parse_estimator
from aucpr_dask.schema.options import EvaluationOptions
from aucpr_dask.schema.variables import COLUMNS, ITEM, ITEM_ROLES

WHOLE_ONLY = ("binormal", "interpolated_mean", "interpolated_median")  # they need more than counts between positives
MERGED_AT_ONCE = 4
WORTH_TWO_PASSES = 1 << 24  # bytes of the scores in a chunk of rankings, with all their items


def has_chunked_items(array: Any, axis: int = -1) -> bool:
    """Return whether the item axis of an array is in several Dask chunks."""
    chunks: tuple[tuple[int, ...], ...] = getattr(array, "chunks", None) or ()
    return bool(chunks) and len(chunks[axis]) > 1


def refuse_whole_only(roles: set[str], options: EvaluationOptions) -> None:
    """Raise if these rankings can be evaluated only with all their items in one chunk."""
    whole_only = [name for name in options.estimators if parse_estimator(name)[0].name in WHOLE_ONLY]
    if whole_only:
        raise needs_whole_rankings(", ".join(whole_only))
    if roles & {"weight", "positive_weight", "negative_weight"}:
        raise needs_whole_rankings("weights and soft labels")
    if options.ties == "trec_eval":
        raise needs_whole_rankings("ties='trec_eval'")


def needs_whole_rankings(what: str, dim: str = ITEM) -> ChunkError:
    """Return the error for something that cannot be computed from items in several chunks."""
    return ChunkError(
        f"this needs all items of a ranking in one place, and the dimension {dim!r} is in several chunks",
        where=f"the dimension {dim!r}",
        received=what,
        allowed="one chunk; or hard labels without weights, ties 'block' or 'expectation', formula and influence "
        f"intervals, and any estimator but {', '.join(WHOLE_ONLY)}",
        remedy=f"rechunk, if a worker can hold a ranking: .chunk({{{dim!r}: -1}})",
    )


def evaluate_in_chunks(
    *arrays: Any, roles: tuple[str, ...], options: EvaluationOptions, extras: tuple[str, ...] = ()
) -> da.Array:
    """Evaluate rankings as :func:`~aucpr_dask.evaluation.rankings.evaluate_rankings` does, lazily, in any chunks."""
    refuse_whole_only(set(roles), options)
    used = [(role, array) for role, array in zip(roles, arrays, strict=True) if role != "tie_order"]
    named = {role: _lazy(array) for role, array in used}
    n_lead = max(array.ndim - (role in ITEM_ROLES) for role, array in named.items())
    n_quantities = len(options.estimators) + len(extras) * len(options.with_influence) + len(COLUMNS)
    if _bytes_of_block(named) < WORTH_TWO_PASSES:
        return _map(evaluate_rankings, named, n_lead, n_quantities, roles=tuple(named), options=options, extras=extras)
    items = {role: named.pop(role) for role in ("score", "label")}
    # Under other names, the second pass reads its input again; otherwise it would stay in memory.
    items_again = dict(zip(items, clone(*items.values(), seed="second pass"), strict=True))

    parts = map_items(collect_positives, items, n_lead, options=options)
    positives = reduce_items(parts, merge_positives)
    known = {"positives": positives} | named
    checked = _map(check_positives, known, n_lead, roles=tuple(known), options=options)
    tallies = map_items(tally_negatives, items_again | {"positives": checked}, n_lead, options=options)
    counted = {"positives": checked, "tally": reduce_items(tallies, add_tallies)} | named
    return _map(finish_rankings, counted, n_lead, n_quantities, roles=tuple(counted), options=options, extras=extras)


def _lazy(array: Any) -> da.Array:
    return array if isinstance(array, da.Array) else da.from_array(np.asarray(array), chunks=-1)


def _bytes_of_block(named: dict[str, da.Array]) -> int:
    """Return the most bytes that the scores of a chunk of rankings have, with all their items."""
    score = named["score"]
    return int(math.prod(max(along) for along in score.chunks[:-1]) * score.shape[-1] * score.dtype.itemsize)


def _indexed(named: dict[str, da.Array], n_lead: int) -> tuple[list[Any], tuple[int, ...]]:
    """Return arrays with the numbers of their axes, counted from the last, and all leading axes; items: `n_lead`."""
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
    """Map a block function over chunks of items to one element each; vectors `for_all` are passed to every call."""
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
    """Map a block function over rankings, or facts about them: to an object for each block, or to a row of numbers."""
    pairs, lead = _indexed(named, n_lead)
    kwargs |= {"concatenate": True}  # chunks of items, if there are any
    if n_quantities is None:
        return da.blockwise(function, lead, *pairs, dtype=object, meta=np.empty((0,) * len(lead), object), **kwargs)  # type: ignore[no-any-return]
    quantity, meta = n_lead + 1, np.empty((0,) * (n_lead + 1))
    kwargs |= {"new_axes": {quantity: n_quantities}, "dtype": np.float64, "meta": meta}
    return da.blockwise(function, (*lead, quantity), *pairs, **kwargs)  # type: ignore[no-any-return]


def reduce_items(parts: da.Array, merge: Callable[..., Any]) -> da.Array:
    """Merge along the axis of items, in a tree."""
    meta = np.empty((0,) * (parts.ndim - 1), object)
    settings = {"axis": -1, "concatenate": False, "split_every": MERGED_AT_ONCE, "dtype": object, "meta": meta}
    return da.reduction(parts, unchanged, merge, **settings)  # type: ignore[no-any-return]


def unchanged(part: Any, axis: Any, keepdims: Any) -> Any:
    """Return the result of a chunk unchanged: the first step of a reduction."""
    return part
