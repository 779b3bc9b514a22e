"""Whether a ranking is better than chance: certified bounds of the p-value of an area against a random order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

import dask.array as da
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.evaluation.mapping import map_rankings
from aucpr_dask.evaluation.random_orders import chance_of_rankings
from aucpr_dask.evaluation.request import Prepared, prepare
from aucpr_dask.inference.pairs import benjamini_hochberg
from aucpr_dask.schema.checks import choose
from aucpr_dask.schema.options import CONVENTION, READINGS, EvaluationOptions, Reading, takes
from aucpr_dask.schema.terms import ITEM, QUANTITY, QUERY

COLUMNS = ("area", "p_value_lower", "p_value_upper")


@dataclass(frozen=True, eq=False)
class Chance:
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


@takes(*READINGS, CONVENTION)
def chance(
    score: Any,
    label: Any,
    *,
    n_positive: Any = None,
    tie_order: Any = None,
    over: str | None = None,
    dim: str = ITEM,
    **reading: Unpack[Reading],
) -> Any:
    """Bound the p-value of average precision against a random order, with certainty.

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
    InvalidInputError, MissingScoresError, AlignmentError, ChunkError
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
    >>> found = chance([0.9, 0.8, 0.7, 0.6], [1, 1, 0, 0])  # the best of six orders
    >>> round(float(found.p_value_lower), 6), round(float(found.p_value_upper), 6)
    (0.166667, 0.166667)
    """
    options = EvaluationOptions.of(**reading)
    choose(("group", "trec_eval"), options.ties, "ties")
    if over is not None:
        choose((QUERY,), over, "over")
    prepared = prepare(locals(), options, dim)
    if isinstance(score, xr.DataArray):
        return _labelled(prepared, over)
    if over is not None:
        raise _without_queries("arrays without names of dimensions")
    sizes = {QUANTITY: len(COLUMNS)}
    columns = map_rankings(chance_of_rankings, prepared.arrays, sizes, dim, options=options)
    area, lower, upper = (prepared.unwrapped(columns.isel({QUANTITY: i})) for i in range(len(COLUMNS)))
    return Chance(area, lower, upper, _adjusted(upper))


def _labelled(prepared: Prepared, over: str | None) -> xr.Dataset:
    """Test labelled arrays, over all queries at once if asked to."""
    arrays = prepared.arrays
    lacking = None
    if over is not None:
        if over not in arrays["score"].dims:
            raise _without_queries(f"dimensions ({', '.join(map(str, arrays['score'].dims))})")
        arrays = {
            name: array.chunk({over: -1}) if over in array.dims and array.chunks else array
            for name, array in arrays.items()
        }
        lacking = frozenset(name for name, array in arrays.items() if over not in array.dims)
    sizes = {QUANTITY: len(COLUMNS)}
    options = {"options": prepared.options, "lacking": lacking}
    stacked = map_rankings(chance_of_rankings, arrays, sizes, prepared.dim, over, **options)
    found = {name: stacked.isel({QUANTITY: i}) for i, name in enumerate(COLUMNS)}
    upper = found["p_value_upper"]
    return xr.Dataset(found | {"p_adjusted": upper.copy(data=_adjusted(upper.data))})


def _adjusted(p_value: Any) -> Any:
    """Return p-values adjusted for their number; those that are NaN do not count."""
    if isinstance(p_value, da.Array):
        return p_value.rechunk(-1).map_blocks(_adjusted, dtype=np.float64)
    adjusted = np.full(np.shape(p_value), np.nan)
    known: NDArray[np.bool_] = ~np.isnan(p_value)
    if known.any():
        adjusted[known] = benjamini_hochberg(np.asarray(p_value)[known])
    return adjusted


def _without_queries(received: str) -> InvalidInputError:
    return InvalidInputError(
        "there are no queries to average over",
        where="option 'over'",
        received=received,
        allowed=f"a DataArray of scores with the dimension {QUERY!r}",
        remedy="leave out over, or name the dimension of the queries",
    )
