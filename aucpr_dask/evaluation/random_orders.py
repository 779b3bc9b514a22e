"""A function on the NumPy blocks of a graph: how likely a random order has an area as large as that of each ranking."""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.errors import InvalidInputError, WideBoundsWarning
from aucpr_dask.evaluation.rankings import Rows, evaluate_rankings, memberships
from aucpr_dask.schema.options import EvaluationOptions
from aucpr_dask.schema.terms import ITEM_ROLES

if TYPE_CHECKING:
    from aucpr_dask.kernels.chance_bounds import Orders

Array = NDArray[Any]

AT_ONCE = 2**22  # scores that are sorted at a time
MOST_STEPS, MOST_HITS = 10**9, 8_000  # items times positives, and positives, of a random order


def chance_of_rankings(
    *arrays: Array, roles: tuple[str, ...], options: EvaluationOptions, lacking: frozenset[str] | None = None
) -> NDArray[np.float64]:
    """Return each area, and the lower and upper bound of its p-value, on the last axis.

    If `lacking` is given, areas are averaged over the axis before the items, which these roles lack.
    """
    named = dict(zip(roles, arrays, strict=True))
    for role in lacking or ():
        named[role] = np.expand_dims(named[role], -2 if role in ITEM_ROLES else -1)
    evaluated = evaluate_rankings(named, options)
    rows = Rows(named)
    lead = rows.lead if lacking is None else rows.lead[:-1]
    n_rows = math.prod(lead)
    area, n_positive = evaluated.estimate.reshape(n_rows, -1), evaluated.n_positive
    orders = np.empty(area.size, dtype=object)
    orders[:] = _orders_of(rows, named, n_positive.ravel(), options)
    return _bounded(area, orders.reshape(area.shape)).reshape(*lead, 3)


def _bounded(area: NDArray[np.float64], orders: Array) -> NDArray[np.float64]:
    """Return the mean area of each row, and bounds of its p-value: all rows with the same orders at once."""
    from aucpr_dask.kernels.chance_bounds import chance_bounds, is_wide
    from aucpr_dask.kernels.cores import on_all_cores

    known = ~np.isnan(area)
    total = np.array([math.fsum(values) for values in np.where(known, area, 0.0)])
    alike = defaultdict(list)
    for row in np.flatnonzero(known.any(axis=-1)):
        alike[tuple(sorted(orders[row, known[row]]))].append(row)
    bounds = np.full((len(area), 2), np.nan)
    found = on_all_cores(chance_bounds, alike, [total[places] for places in alike.values()])
    for places, pair in zip(alike.values(), found, strict=True):
        bounds[places] = np.column_stack(pair)
    n_wide = np.count_nonzero(is_wide(*bounds.T))
    if n_wide:
        warnings.warn(
            f"{n_wide} of {len(area)} p-values have bounds that are more than 1 % apart: closer ones would take too "
            "long. The bounds hold.",
            WideBoundsWarning,
            stacklevel=2,
        )
    with np.errstate(invalid="ignore"):
        return np.column_stack([total / np.where(known.any(axis=-1), known.sum(axis=-1), np.nan), bounds])


def _orders_of(
    rows: Rows, named: dict[str, Array], n_positive: NDArray[np.float64], options: EvaluationOptions
) -> list[Orders]:
    """Return the random orders that each ranking is one of: of the same items, tie groups and positives."""
    label, label_row = rows.distinct(named["label"].astype(np.int8, copy=False))
    score = rows.full(named["score"])
    is_item, is_positive = memberships(label, options)
    orders: list[Orders] = []
    step = max(1, AT_ONCE // max(1, score.shape[1]))
    for start in range(0, len(score), step):
        part = slice(start, start + step)
        items, positives = is_item[label_row[part]], is_positive[label_row[part]]
        orders += _orders_of_part(score[part], items, positives, n_positive[part], options)
    return orders


def _orders_of_part(
    score: Array,
    is_item: NDArray[np.bool_],
    is_positive: NDArray[np.bool_],
    n_positive: NDArray[np.float64],
    options: EvaluationOptions,
) -> list[Orders]:
    from aucpr_dask.kernels.chance_bounds import Orders

    is_ranked = is_item & ~np.isnan(score)
    if options.missing == "drop":
        is_item = is_ranked
    ordered = np.sort(np.where(is_ranked, score, np.nan), axis=-1)
    n_ranked, n_hits = is_ranked.sum(axis=-1), (is_item & is_positive).sum(axis=-1)
    n_missing = is_item.sum(axis=-1) - n_ranked
    n_last = n_missing if options.missing == "last" else np.zeros_like(n_missing)
    has_ties = (ordered[:, 1:] == ordered[:, :-1]).any(axis=-1) | (n_last > 1)
    has_ties &= options.ties == "group"
    _refuse_long(n_ranked + n_missing, n_hits)
    orders = []
    facts = (n_ranked, n_last, n_missing - n_last, n_hits, np.nan_to_num(n_positive), has_ties)
    for row, (ranked, last, unranked, hits, positives, tied) in enumerate(
        zip(*(a.tolist() for a in facts), strict=True)
    ):
        sizes = _sizes(ordered[row, :ranked], last).tobytes() if tied else b""
        orders.append(Orders(ranked + last, sizes, unranked, hits, int(positives)))
    return orders


def _sizes(ascending: Array, n_last: int) -> NDArray[np.int64]:
    """Return the sizes of tie groups from the highest score; the last holds the items without a score."""
    ends = np.flatnonzero(np.append(ascending[1:] != ascending[:-1], True)[: ascending.size]) + 1
    sizes = np.diff(ends, prepend=0)[::-1].astype(np.int64)
    return np.append(sizes, n_last) if n_last else sizes


def _refuse_long(n_items: NDArray[np.int64], n_hits: NDArray[np.int64]) -> None:
    """Raise if the steps through a random order would take many minutes."""
    is_long = (n_items * n_hits > MOST_STEPS) | (n_hits > MOST_HITS)
    if is_long.any():
        first = int(np.flatnonzero(is_long)[0])
        raise InvalidInputError(
            "too many items and positives for exact probabilities of random orders",
            where="argument 'label'",
            received=f"{n_hits[first]:,} positives among {n_items[first]:,} items",
            allowed=f"up to {MOST_HITS:,} positives, and {MOST_STEPS:,} as their product with the items",
            remedy="use the interval of the area instead: aucpr_dask.evaluate",
        )
