"""Every ranking of a NumPy block, evaluated within each group of its items.

Groups of the same size are stacked, as queries are, and evaluated together: without padding, so that every group is
evaluated as if it stood alone, and in few calls, because N items have less than sqrt(2 N) groups of different sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aucpr_dask.evaluation.block_results import evaluate_block
from aucpr_dask.evaluation.rankings import lead_of
from aucpr_dask.schema.terms import FLAG_BITS, GROUP, GROUPS, ITEM_ROLES

STACKED = 1 << 22  # scores that are gathered at a time
OF_EMPTY = {"n_positive": 0.0, "n_negative": 0.0, "n_missing": 0}
OF_EMPTY |= {"flags": FLAG_BITS["no_positives"] | FLAG_BITS["nothing_ranked"]}  # all else is NaN


def evaluate_groups(
    *arrays: Any,
    roles: tuple[str, ...],
    finish: Callable[..., Any],
    shape: tuple[int, ...],
    names: tuple[str, ...],
    **kwargs: Any,
) -> Any:
    """Evaluate all rankings of a block within each group, as :func:`evaluate_block` does; `names` are the outputs'.

    A generalized function, ``(item), ..., (group), () -> (*shape, ...)``. Next to the roles of `evaluate_block`, one
    array holds the number of each item's group, and arrays of names and keys have an axis for the groups.
    """
    named, n_groups = dict(zip(roles, arrays, strict=True)), math.prod(shape)
    of_item = {role: named.pop(role) for role in ITEM_ROLES & named.keys()}
    code = of_item.pop(GROUPS).reshape(-1)
    of_group = {role: named.pop(role) for role in (GROUP, "key") if role in named}
    lead = lead_of(of_item | named | {role: array[..., 0] for role, array in of_group.items()})
    outputs: list[NDArray[Any]] = []
    n_folds = _count_folds(code, of_item["fold"], n_groups) if "fold" in of_item else np.zeros(n_groups, np.int64)
    for numbers, place in _stacks(code, n_folds, math.prod(lead), one_by_one="cluster" in of_item):
        block = {role: array[..., place] for role, array in of_item.items()}
        block |= {role: array[..., None] for role, array in named.items()}
        block |= {role: array[..., numbers] for role, array in of_group.items()}
        if "cluster" in block:
            block["cluster"] = pd.factorize(block["cluster"].reshape(-1), use_na_sentinel=False)[0]
        if "fold" in block:
            folds = block["fold"].reshape(place.shape)
            block["fold"] = np.stack([np.unique(row, return_inverse=True)[1] for row in folds])
            kwargs["sampling"] = replace(kwargs["sampling"], n_folds=int(n_folds[numbers[0]]))
        found = evaluate_block(*block.values(), roles=tuple(block), finish=finish, **kwargs)
        found = found if isinstance(found, tuple) else (found,)
        if not outputs:
            fills = [OF_EMPTY.get(name, np.nan) for name in names]
            shapes = [(*lead, n_groups, *one.shape[len(lead) + 1 :]) for one in found]
            outputs = [np.full(s, fill, one.dtype) for s, fill, one in zip(shapes, fills, found, strict=True)]
        for output, one in zip(outputs, found, strict=True):
            np.moveaxis(output, len(lead), 0)[numbers] = np.moveaxis(one, len(lead), 0)
    shaped = tuple(output.reshape(*lead, *shape, *output.shape[len(lead) + 1 :]) for output in outputs)
    return shaped if len(shaped) > 1 else shaped[0]


def _stacks(
    code: NDArray[Any], kind: NDArray[np.int64], n_rankings: int, *, one_by_one: bool
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield numbers of groups of the same size and kind, and the places of their items, (group, item)."""
    order = np.arange(code.size) if np.all(code[1:] >= code[:-1]) else np.argsort(code, kind="stable")
    starts = np.searchsorted(code[order], np.arange(kind.size + 1))
    counts = np.diff(starts)
    alike = np.lexsort((kind, counts))
    alike = alike[counts[alike] > 0] if counts.any() else alike[:0]  # nothing, so that there is a result
    changes = (np.diff(counts[alike]) != 0) | (np.diff(kind[alike]) != 0)
    for same in np.split(alike, np.flatnonzero(changes) + 1):
        size = int(counts[same[0]]) if same.size else 0
        step = 1 if one_by_one else max(1, STACKED // max(1, size * n_rankings))
        for at in range(0, max(1, same.size), step):
            numbers = same[at : at + step]
            yield numbers, order[starts[numbers][:, None] + np.arange(size)]


def _count_folds(code: NDArray[Any], fold: NDArray[Any], n_groups: int) -> NDArray[np.int64]:
    """Return the number of folds of each group."""
    pairs = np.unique(np.stack([code.astype(np.int64), fold.reshape(-1).astype(np.int64)]), axis=1)
    return np.bincount(pairs[0][pairs[0] >= 0], minlength=n_groups)
