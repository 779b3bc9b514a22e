"""Every ranking of a NumPy block, evaluated within each group of its items.

Groups of about the same size are stacked, as queries are, and evaluated together, in few calls. Padding changes no
number of hard labels. Where sums run over all places, groups of exactly the same size are stacked, so that each is
evaluated as if it stood alone: N items have less than sqrt(2 N) groups of different sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aucpr_dask.evaluation.block_results import evaluate_block
from aucpr_dask.evaluation.rankings import lead_of
from aucpr_dask.schema.options import EvaluationOptions
from aucpr_dask.schema.terms import FLAG_BITS, GROUP, GROUPS, ITEM_ROLES, PADDING

STACKED = 1 << 22  # scores that are laid out at a time
SLACK = 1 / 16  # places that a stack may have for each item of its smallest group, besides its own
OF_EMPTY = {"n_positive": 0.0, "n_negative": 0.0, "n_missing": 0}
OF_EMPTY |= {"flags": FLAG_BITS["no_positives"] | FLAG_BITS["nothing_ranked"]}  # all else is NaN


def evaluate_groups(
    *arrays: Any,
    roles: tuple[str, ...],
    finish: Callable[..., Any],
    shape: tuple[int, ...],
    names: tuple[str, ...],
    options: EvaluationOptions,
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
    n_folds = np.zeros(n_groups, np.int64)  # of each group
    if "fold" in of_item:  # maybe of several repeats
        of_folds = np.broadcast_to(code, of_item["fold"].shape)
        pairs = np.unique(np.stack([np.ravel(of_folds), np.ravel(of_item["fold"])]).astype(np.int64), axis=1)
        n_folds = np.bincount(pairs[0][pairs[0] >= 0], minlength=n_groups)
    may_pad = of_item.keys() == {"score", "label"} and options.prevalence is None
    may_pad &= "extrapolated" not in options.resampling.intervals and "key" not in of_group
    n_first, n_rest = lead[0] if lead else 1, math.prod(lead[1:])
    # How many of the first leading dimension at a time: all, if they share draws, or stacks are many.
    step = max(1, STACKED // max(1, code.size * n_rest) if may_pad else n_first)
    layout = _layout(code, n_folds, STACKED // max(1, min(step, n_first) * n_rest), SLACK if may_pad else 0.0)
    outputs: list[NDArray[Any]] = []
    shared = {role: layout.laid(array, role) for role, array in of_item.items() if not _is_cut(array, lead, 1)}
    cut: dict[str, NDArray[Any]] = {}
    for start in range(0, n_first or 1, step):
        rows = slice(start, start + step)
        cut = {role: layout.laid(a[rows], role, cut.get(role)) for role, a in of_item.items() if role not in shared}
        whole = {role: (array[rows] if _is_cut(array, lead) else array)[..., None] for role, array in named.items()}
        keyed = {role: array[rows] if _is_cut(array, lead, 1) else array for role, array in of_group.items()}
        for numbers, places in layout.stacks:
            stacked = numbers.size, (places.stop - places.start) // max(1, numbers.size)
            block = {r: a[..., places].reshape(*a.shape[:-1], *stacked) for r, a in (shared | cut).items()}
            block |= whole | {role: array[..., numbers] for role, array in keyed.items()}
            if "cluster" in block:
                clusters = block["cluster"]  # of each group, and of other dimensions that they have
                block["cluster"] = _numbered(clusters.reshape(-1, stacked[1])).reshape(clusters.shape)
            if "fold" in block:
                folds = np.moveaxis(block["fold"], -2, 0)
                numbered = [np.unique(row, return_inverse=True)[1].reshape(row.shape) for row in folds]
                block["fold"] = np.moveaxis(np.stack(numbered), 0, -2)
                kwargs["sampling"] = replace(kwargs["sampling"], n_folds=int(n_folds[numbers[0]]))
            found = evaluate_block(*block.values(), roles=tuple(block), finish=finish, options=options, **kwargs)
            found = found if isinstance(found, tuple) else (found,)
            if not outputs:
                fills = [OF_EMPTY.get(name, np.nan) for name in names]
                shapes = [(*lead, n_groups, *one.shape[len(lead) + 1 :]) for one in found]
                outputs = [np.full(s, fill, one.dtype) for s, fill, one in zip(shapes, fills, found, strict=True)]
            for output, one in zip(outputs, found, strict=True):
                of_rows = output[rows] if lead else output
                np.moveaxis(of_rows, len(lead), 0)[numbers] = np.moveaxis(one, len(lead), 0)
    shaped = tuple(output.reshape(*lead, *shape, *output.shape[len(lead) + 1 :]) for output in outputs)
    return shaped if len(shaped) > 1 else shaped[0]


def _numbered(cluster: NDArray[Any]) -> NDArray[np.int64]:
    """Return the clusters of each row as numbers from 0, as they appear."""
    known = pd.factorize(cluster.reshape(-1), use_na_sentinel=False)[0].reshape(cluster.shape)
    numbers, _ = pd.factorize((known + np.arange(len(known))[:, None] * (known.max(initial=0) + 1)).reshape(-1))
    found = numbers.reshape(cluster.shape)
    return np.asarray(found - found.min(axis=1, initial=found.size, keepdims=True))


def _is_cut(array: NDArray[Any], lead: tuple[int, ...], n_core: int = 0) -> bool:
    """Whether an array differs along the first leading dimension."""
    return len(lead) > 0 and array.ndim == len(lead) + n_core and array.shape[0] > 1


class _Layout(NamedTuple):
    """Where items are put, so that those of a group are neighbours, and similar groups too."""

    item: NDArray[np.int64]  # in each place; nothing, if all are where they were
    padding: NDArray[np.int64]  # the places without an item of their own, which have another of their group
    n_places: int
    stacks: list[tuple[NDArray[np.int64], slice]]  # the numbers of groups, and their places, as many for each

    def laid(self, array: NDArray[Any], role: str, space: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return an array with the items in their places, in the memory of another if it is large enough."""
        if role == "label" and array.dtype.kind in ("b", "u"):  # which cannot say what is padding
            array = array.astype(np.result_type(array.dtype, np.int8))
        if not self.item.size:
            return array[..., : self.n_places]
        found = np.empty((*array.shape[:-1], self.n_places), array.dtype) if space is None else space[: len(array)]
        np.take(array, self.item, axis=-1, out=found, mode="clip")  # any other mode takes a copy of `out`
        if role == "label":
            found[..., self.padding] = PADDING
        return found


# The arguments of the last `_layout`, and its result: all tasks of a run have the same groups.
_latest: tuple[Any, Any, Any] = (None, (), None)


def _layout(code: NDArray[Any], kind: NDArray[np.int64], most: int, slack: float) -> _Layout:
    """Stack groups of the same kind and of nearly the same size, with at most `most` places in a stack."""
    global _latest
    before, arrays, known = _latest  # at once: other threads have layouts too
    if before == (most, slack) and all(map(np.array_equal, arrays, (code, kind))):
        return known  # type: ignore[no-any-return]
    order = np.arange(code.size) if np.all(code[1:] >= code[:-1]) else np.argsort(code, kind="stable")
    of_group = code[order].astype(np.int64)
    counts = np.bincount(of_group[of_group >= 0], minlength=kind.size)
    alike = np.lexsort((counts, kind))
    alike = alike[counts[alike] > 0]
    size, start_of = counts[alike], np.zeros(kind.size, np.int64)
    ends = np.append(np.flatnonzero(np.diff(kind[alike])) + 1, alike.size)
    stacks: list[tuple[NDArray[np.int64], slice]] = []
    first = at = 0
    while first < alike.size:
        end = ends[np.searchsorted(ends, first, "right")]
        n_alike = int(np.searchsorted(size[first:end], int(size[first] * (1 + slack)), "right"))
        end = first + min(n_alike, max(1, most // int(size[first])))
        width = int(size[end - 1])
        start_of[alike[first:end]] = at + width * np.arange(end - first)
        stacks.append((alike[first:end], slice(at, at + width * (end - first))))
        first, at = end, at + width * (end - first)
    n_out = np.count_nonzero(of_group < 0)
    within = np.arange(n_out, code.size) - (n_out + np.cumsum(counts) - counts)[of_group[n_out:]]
    item = np.full(at, -1)
    item[start_of[of_group[n_out:]] + within] = order[n_out:]
    padding = np.flatnonzero(item < 0)
    # Places are filled from the left: the nearest one there that has an item.
    item[padding] = item[np.maximum.accumulate(np.where(item < 0, 0, np.arange(at)))[padding]]
    item = item[:0] if np.array_equal(item, np.arange(at)) else item
    found = _Layout(item, padding, at, stacks or [(alike, slice(0, 0))])  # nothing, so that there is a result
    _latest = (most, slack), (code, kind), found
    return found
