"""Whether a ranking is better than chance: certified bounds of the p-value of an area against a random order."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from aucpr_dask.errors import InvalidInputError, WideBoundsWarning, few, warn
from aucpr_dask.evaluation import mapping, rankings, request
from aucpr_dask.inference.pairs import benjamini_hochberg
from aucpr_dask.schema import choices
from aucpr_dask.schema.checks import choose, is_dask
from aucpr_dask.schema.options import EvaluationOptions, takes
from aucpr_dask.schema.terms import ITEM, ITEM_ROLES, QUANTITY, QUERY, Sentences

if TYPE_CHECKING:
    from aucpr_dask.kernels.chance import Orders

Array = NDArray[Any]

AT_ONCE = 2**22  # scores that are sorted at a time
MOST_STEPS, MOST_HITS = 10**9, 8_000  # items times positives, and positives, of a random order
MOST_SHOWN = 10  # rankings
COLUMNS = ("area", "p_value_lower", "p_value_upper")


@dataclass(frozen=True, eq=False, repr=False)
class Chance(Sentences):
    """Areas, and how likely a random order has one as large.

    Attributes
    ----------
    area : array of float64
        Average precision.
    p_value_lower, p_value_upper : array of float64
        Certified bounds of the p-value.
    p_adjusted : array of float64
        The upper bounds, adjusted for the number of rankings by the false discovery rate.
    """

    area: Any
    p_value_lower: Any
    p_value_upper: Any
    p_adjusted: Any

    def __repr__(self) -> str:
        if is_dask(self.area):
            return "areas, and p-values against a random order, which are not computed yet"
        columns = (np.ravel(getattr(self, name)).tolist() for name in (*COLUMNS, "p_adjusted"))
        lines = [
            f"average precision {area:.4f}; a random order has as much with probability {lower:.3g} to {upper:.3g}"
            + (f" (adjusted {adjusted:.3g})" if np.ndim(self.area) else "")
            for area, lower, upper, adjusted in zip(*columns, strict=True)
        ]
        more = [f"and {len(lines) - MOST_SHOWN:,} more"] if len(lines) > MOST_SHOWN else []
        return "\n".join([*lines[:MOST_SHOWN], *more])


@takes(choices.RankingReading)
def chance(
    score: Any,
    label: Any,
    *,
    n_positive: Any = None,
    tie_order: Any = None,
    over: str | None = None,
    dim: str | Sequence[str] = ITEM,
    **reading: Unpack[choices.RankingReading],
) -> Any:
    """Bound the p-value of average precision against a random order.

    The p-value is ``P(A >= a)``: a is the area of the ranking, and A that of the same ranking with its labels in random
    order, each order equally likely. It is computed by dynamic programming, not by drawing orders, and every rounding
    is accounted for: the p-value is at least the lower and at most the upper bound. These are within 1 % of each other
    from 1e-16 on, unless a warning says otherwise. Areas that differ by less than 1e-12 count as equal.

    Tied items stay tied. With ``missing="unretrieved"`` the positives are in random places among all items, ranked or
    not, so retrieving many of them counts as evidence. Positives that are not items at all (`n_positive`) are held
    fixed: no order could have ranked them.

    Parameters
    ----------
    score, label, n_positive, tie_order, missing, unjudged, positive_from, nothing_ranked, no_positives, convention, dim
        See :func:`aucpr_dask.estimate`.
    ties : {"group", "trec_eval"}
        See :func:`aucpr_dask.estimate`; with ``"trec_eval"`` all orders are without ties.
    over : {"query"}, optional
        Test the mean area over the queries that have one, against independent random orders of each. Needs DataArrays.

    Returns
    -------
    xarray.Dataset or Chance
        ``area``, ``p_value_lower``, ``p_value_upper`` and ``p_adjusted``, the upper bounds adjusted for all rankings
        by the procedure of Benjamini and Hochberg: a Dataset for a DataArray, else a record of arrays of the kind of
        `score`. NaN without positives. The bounds of a ranking do not depend on the others.

    Raises
    ------
    InvalidInputError, MissingScoresError, AlignmentError
        See :func:`aucpr_dask.estimate`; also if items times positives exceed 1e9.

    Warns
    -----
    WideBoundsWarning
        If closer bounds would take too long. They hold nevertheless.

    References
    ----------
    Benjamini & Hochberg 1995, doi:10.1111/j.2517-6161.1995.tb02031.x.

    Examples
    --------
    >>> import aucpr_dask as ap
    >>> found = ap.chance([0.9, 0.8, 0.7, 0.6], [1, 1, 0, 0])  # the best of six orders
    >>> round(float(found.p_value_lower), 6), round(float(found.p_value_upper), 6)
    (0.166667, 0.166667)
    """
    options = EvaluationOptions.of(**reading)
    choose(("group", "trec_eval"), options.ties, "ties")
    if over is not None:
        choose((QUERY,), over, "over")
    prepared = request.prepare(locals(), options, dim)
    arrays, lacking = prepared.arrays, None
    if over is not None:
        if prepared.axes is not None or over not in arrays["score"].dims:
            received = "arrays without names" if prepared.axes is not None else few(map(str, arrays["score"].dims))
            allowed = f"a DataArray of scores with the dimension {QUERY!r}"
            remedy = "leave out over, or name the dimension of the queries"
            raise InvalidInputError("there are no queries to average over", "option 'over'", received, allowed, remedy)
        is_split = {name: over in array.dims and array.chunks is not None for name, array in arrays.items()}
        arrays = {name: array.chunk({over: -1}) if is_split[name] else array for name, array in arrays.items()}
        lacking = frozenset(name for name, array in arrays.items() if over not in array.dims)
    sizes, given = {QUANTITY: len(COLUMNS)}, {"options": options, "lacking": lacking}
    columns = mapping.map_rankings(chance_of_rankings, arrays, sizes, prepared.dim, over, **given)
    found = {name: prepared.unwrapped(columns.isel({QUANTITY: i})) for i, name in enumerate(COLUMNS)}
    upper = found["p_value_upper"]
    if prepared.axes is not None:
        return Chance(**found, p_adjusted=_adjusted(upper))
    return xr.Dataset(found | {"p_adjusted": upper.copy(data=_adjusted(upper.data))})


def _adjusted(p_value: Any) -> Any:
    """Return p-values adjusted for their number; those that are NaN do not count."""
    if is_dask(p_value):
        return p_value.rechunk(-1).map_blocks(_adjusted, dtype=np.float64)
    adjusted = np.full(np.shape(p_value), np.nan)
    known: NDArray[np.bool_] = ~np.isnan(p_value)
    if known.any():
        adjusted[known] = benjamini_hochberg(np.asarray(p_value)[known])
    return adjusted


# The blocks of a graph


def chance_of_rankings(
    *arrays: Array, roles: tuple[str, ...], options: EvaluationOptions, lacking: frozenset[str] | None = None
) -> NDArray[np.float64]:
    """Return each area, and the lower and upper bound of its p-value, on the last axis.

    If `lacking` is given, areas are averaged over the axis before the items, which these roles lack.
    """
    named = dict(zip(roles, arrays, strict=True))
    for role in lacking or ():
        named[role] = np.expand_dims(named[role], -2 if role in ITEM_ROLES else -1)
    evaluated = rankings.evaluate_rankings(named, options)
    rows = rankings.Rows(named)
    lead = rows.lead if lacking is None else rows.lead[:-1]
    n_rows = math.prod(lead)
    area, n_positive = evaluated.estimate.reshape(n_rows, -1), evaluated.n_positive
    orders = np.empty(area.size, dtype=object)
    orders[:] = _orders_of(rows, named, n_positive.ravel(), options)
    return _bounded(area, orders.reshape(area.shape)).reshape(*lead, 3)


def _bounded(area: NDArray[np.float64], orders: Array) -> NDArray[np.float64]:
    """Return the mean area of each row, and bounds of its p-value: all rows with the same orders at once."""
    from aucpr_dask.kernels.chance import chance_bounds, is_wide
    from aucpr_dask.kernels.compiling import on_all_cores

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
        warn(
            f"{n_wide} of {len(area)} p-values have bounds that are more than 1 % apart: closer ones would take too "
            "long. The bounds hold.",
            WideBoundsWarning,
        )
    with np.errstate(invalid="ignore"):
        return np.column_stack([total / np.where(known.any(axis=-1), known.sum(axis=-1), np.nan), bounds])


def _orders_of(
    rows: rankings.Rows, named: dict[str, Array], n_positive: NDArray[np.float64], options: EvaluationOptions
) -> list[Orders]:
    """Return the random orders that each ranking is one of: of the same items, tie groups and positives."""
    from aucpr_dask.kernels.chance import Orders

    label, label_row = rows.distinct(named["label"].astype(np.int8, copy=False))
    scores = rows.full(named["score"])
    of_labels = rankings.memberships(label, options)
    step = max(1, AT_ONCE // max(1, scores.shape[1]))
    orders: list[Orders] = []
    for start in range(0, len(scores), step):
        part = slice(start, start + step)
        score, (is_item, is_positive) = scores[part], (of[label_row[part]] for of in of_labels)
        is_ranked = is_item & ~np.isnan(score)
        if options.missing == "drop":
            is_item = is_ranked
        ordered = np.sort(np.where(is_ranked, score, np.nan), axis=-1)
        n_ranked, n_hits = is_ranked.sum(axis=-1), (is_item & is_positive).sum(axis=-1)
        n_missing = is_item.sum(axis=-1) - n_ranked
        n_last = n_missing if options.missing == "last" else np.zeros_like(n_missing)
        has_ties = (ordered[:, 1:] == ordered[:, :-1]).any(axis=-1) | (n_last > 1)
        has_ties &= options.ties == "group"
        n_items = n_ranked + n_missing
        is_long = (n_items * n_hits > MOST_STEPS) | (n_hits > MOST_HITS)  # it would take many minutes
        if is_long.any():
            received = f"{n_hits[is_long][0]:,} positives among {n_items[is_long][0]:,} items"
            allowed = f"up to {MOST_HITS:,} positives, and {MOST_STEPS:,} as their product with the items"
            what = "too many items and positives for exact probabilities of random orders"
            remedy = "use the interval of the area instead: aucpr_dask.evaluate"
            raise InvalidInputError(what, "argument 'label'", received, allowed, remedy)
        facts = n_ranked, n_last, n_missing - n_last, n_hits, has_ties, np.nan_to_num(n_positive[part])
        for row, one in enumerate(zip(*(fact.tolist() for fact in facts), strict=True)):
            ranked, last, unranked, hits, tied, positives = one
            sizes = b""
            if tied:  # from the highest score; the last group holds the items without a score
                of_groups = np.unique(ordered[row, :ranked], return_counts=True)[1][::-1].astype(np.int64)
                sizes = (np.append(of_groups, last) if last else of_groups).tobytes()
            orders.append(Orders(ranked + last, sizes, unranked, hits, int(positives)))
    return orders
