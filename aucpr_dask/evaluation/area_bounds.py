"""Average precision of huge rankings: certified bounds from counts of scores in bins, or the exact area."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Unpack

import dask.array as da
import numpy as np
import xarray as xr

from aucpr_dask.errors import bad_argument
from aucpr_dask.evaluation import api, chunk_passes, rankings, request
from aucpr_dask.evaluation.mapping import core_dims, fits_in_one_place, map_items, reduce_items
from aucpr_dask.evaluation.rankings import Floats
from aucpr_dask.schema import choices
from aucpr_dask.schema.checks import real
from aucpr_dask.schema.options import EvaluationOptions, takes
from aucpr_dask.schema.terms import BOUND, BOUNDS, ITEM

# Bytes of the bins: what usual scores need for a tolerance, and limits. Beyond the last one, the exact area takes less.
MEMORY_FOR_1 = 1 << 10
LEAST_MEMORY, USUAL_MEMORY, MOST_MEMORY = 1 << 20, 1 << 26, 1 << 29
BYTES_OF_POSITIVE = 40  # with a score of its own, while the exact area is computed


@takes("prevalence", "missing", "unjudged", "positive_from")
def area_bounds(
    score: Any,
    label: Any,
    tolerance: float = 1e-6,
    *,
    n_positive: Any = None,
    dim: str | Sequence[str] = ITEM,
    **reading: Unpack[choices.Reading],
) -> Any:
    """Bound average precision to any tolerance, in memory that does not grow with the ranking unless it must.

    Positives and negatives are counted in bins of scores, as an :class:`aucpr_dask.Accumulator` counts them. The bounds
    are the lowest and the highest area for any order of the items within each bin, and any ties. If they are too far
    apart, the items are counted again in more bins, up to 512 MiB of them. If these are too few, and for rankings below
    64 MiB or with ``tolerance=0``, both bounds are the area itself, bit-for-bit identical to that of
    :func:`aucpr_dask.estimate`.

    Unlike the other functions, it computes eagerly, on Dask's current scheduler or client, because the bounds of one
    pass decide whether there is another.

    Parameters
    ----------
    score : array, shape (..., item)
        NumPy, Dask or xarray, in any chunks.
    label : array, shape broadcastable to that of `score`
        See :func:`aucpr_dask.estimate`.
    tolerance : float
        The largest allowed difference of the bounds; 0 for the exact area.
    n_positive, prevalence, missing, unjudged, positive_from, dim
        See :func:`aucpr_dask.estimate`.

    Returns
    -------
    array of float64, shape (..., 2)
        Lower and upper bound, on the last axis or the dimension ``ci_bound``; an xarray of NumPy arrays for xarray,
        else a NumPy array. NaN without positives.

    Raises
    ------
    InvalidInputError, MissingScoresError, AlignmentError
        See :func:`aucpr_dask.estimate`.
    ChunkError
        The area itself is needed, and one ranking has more than 2**25 distinct scores of positives.

    Examples
    --------
    >>> import dask.array as da, aucpr_dask as ap
    >>> score = da.arange(17_000_000, chunks=1_700_000).astype("float32")
    >>> label = (score % 7 == 0).astype("int8")
    >>> lower, upper = ap.area_bounds(score, label, tolerance=1e-3)
    >>> bool(0 < upper - lower <= 1e-3)
    True
    >>> lower, upper = ap.area_bounds(score[:1_700_000], label[:1_700_000], tolerance=0)
    >>> bool(lower == upper == ap.estimate(score[:1_700_000], label[:1_700_000]).compute())
    True
    """
    if not real(tolerance) >= 0:
        remedy = "give 0 for the exact area"
        allowed = "one number from 0, such as 1e-6"
        raise bad_argument("tolerance must be a number from 0", "tolerance", tolerance, allowed, remedy)
    prepared = request.prepare(locals(), EvaluationOptions.of(**reading), dim)
    arrays = prepared.arrays
    kwargs: dict[str, Any] = {"roles": tuple(arrays), "options": prepared.options, "tolerance": real(tolerance)}
    bounds = xr.apply_ufunc(
        _bound_all,
        *arrays.values(),
        input_core_dims=core_dims(arrays, prepared.dim),
        output_core_dims=[[BOUND]],
        kwargs=kwargs,
        dask="allowed",
        keep_attrs=False,
    )
    if prepared.axes is not None:
        return prepared.unwrapped(bounds)
    return bounds.assign_coords({BOUND: np.array(BOUNDS, dtype=object)})


def _bound_all(*arrays: Any, roles: tuple[str, ...], options: EvaluationOptions, tolerance: float) -> Floats:
    """Bound one ranking after another."""
    named = dict(zip(roles, arrays, strict=True))
    lead = rankings.Rows(named).lead
    score, label = (_spread(named[name], lead) for name in ("score", "label"))
    n_given = np.broadcast_to(np.asarray(named.get("n_positive", np.nan), dtype=np.float64), lead)
    bounds = np.empty((*lead, len(BOUNDS)))
    for index in np.ndindex(*lead):
        bounds[index] = _bound(score[index], label[index], float(n_given[index]), options, tolerance)
    return bounds


def _spread(array: Any, lead: tuple[int, ...]) -> da.Array:
    array = array if isinstance(array, da.Array) else da.from_array(np.asarray(array), chunks=-1)
    return da.broadcast_to(array, (*lead, array.shape[-1]))  # type: ignore[no-any-return]


def _bound(
    score: da.Array, label: da.Array, n_given: float, options: EvaluationOptions, tolerance: float
) -> tuple[float, float]:
    """Bound one ranking, in ever more bins."""
    memory = round(min(max(MEMORY_FOR_1 / tolerance, LEAST_MEMORY), USUAL_MEMORY)) if tolerance > 0 else 2 * MOST_MEMORY
    most = _most_memory(score)
    while memory <= most:
        lower, upper = _bound_by_bins(score, label, n_given, options, memory)
        if not upper - lower > tolerance:  # or both are NaN
            return lower, upper
        # The width is inverse to the number of bins; twice as many as that takes make another pass unlikely.
        memory = round(2 * memory * min((upper - lower) / tolerance, 1e6))
    known = None if np.isnan(n_given) else n_given
    reading = {name: getattr(options, name) for name in ("prevalence", "missing", "unjudged", "positive_from")}
    lazy = api.estimate(score, label, n_positive=known, **reading)
    area = float(lazy.compute(optimize_graph=False))  # Dask cannot fuse slices of rankings with rechunked labels
    return area, area


def _most_memory(score: da.Array) -> int:
    """Return the most bytes of bins with which it is worth counting the items of a ranking; beyond, it is evaluated."""
    if fits_in_one_place(score):
        return 0  # sorting it takes a sixth of the time that counting in the fewest bins does
    # Bins larger than the scores hold few items each, and filling them takes several times as long as the exact area.
    return int(score.nbytes) if BYTES_OF_POSITIVE * score.size <= MOST_MEMORY else MOST_MEMORY


def _bound_by_bins(
    score: da.Array, label: da.Array, n_given: float, options: EvaluationOptions, memory: int
) -> tuple[float, float]:
    """Count the items of a ranking in one pass over its chunks."""
    from aucpr_dask.kernels.bins import bound_area

    parts = map_items(chunk_passes.bin_items, {"score": score, "label": label}, 0, options=options, memory=memory)
    bins, classes = reduce_items(parts, partial(chunk_passes.merge_bins, memory=memory)).to_delayed().item().compute()
    n_positive, n_negative, missing_positives, missing_negatives = classes.tolist()
    unseen = 0.0 if np.isnan(n_given) else n_given - (n_positive + missing_positives)
    facts = {"n_missing": np.array([missing_positives + missing_negatives]), "n_unseen": np.array([unseen])}
    rankings.check_rows(facts, rankings.Rows({}), options)
    total = n_positive + unseen
    if options.missing != "drop":
        total, n_negative = total + missing_positives, n_negative + missing_negatives
    positives, negatives, is_tied = bins.tallies()
    if options.missing == "last":  # items without a score are tied below all others
        positives, negatives = np.append(missing_positives, positives), np.append(missing_negatives, negatives)
        is_tied = np.append(True, is_tied)
    scale = rankings.negative_scale(options.prevalence, total, n_negative)
    return bound_area(positives.astype(np.int64), negatives.astype(np.int64), is_tied, scale, total)
