"""Average precision of huge rankings: certified bounds from counts of scores in bins, exact areas range by range."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import dask
import dask.array as da
import numpy as np
import xarray as xr
from dask import delayed
from numpy.typing import NDArray

from aucpr_dask.errors import InvalidInputError, brief
from aucpr_dask.evaluation.chunk_passes import Steps, add_items, add_tallies, count_keys, items_between, join_items
from aucpr_dask.evaluation.in_chunks import map_items, reduce_items
from aucpr_dask.evaluation.mapping import core_dims
from aucpr_dask.evaluation.rankings import Rows, check_rows, negative_scale
from aucpr_dask.evaluation.request import Prepared, prepare
from aucpr_dask.schema.checks import real
from aucpr_dask.schema.options import EvaluationOptions
from aucpr_dask.schema.variables import BOUND, BOUNDS, ITEM

FIRST_BITS = 16  # of a key: the bins of the first pass over the data
MOST_BINS = 2**23  # in one pass, and in memory
FINEST = 1e-12  # for narrower bounds than this, the exact area is faster
RANGE_ITEMS = 2**25  # gathered at a time for the exact area
FEW_BINS = 2**20
LARGE_BITS = 8  # by which bins of too many items are divided
MOST_PASSES = 8  # over the data for bounds; beyond that, the exact area is faster

Keys = NDArray[Any]


def area_bounds(
    score: Any,
    label: Any,
    tolerance: float = 1e-6,
    *,
    n_positive: Any = None,
    prevalence: float | None = None,
    missing: str = "raise",
    unjudged: str = "negative",
    positive_from: int | None = None,
    dim: str = ITEM,
) -> Any:
    """Bound average precision to any tolerance, in memory that does not grow with the ranking.

    Positives and negatives are counted in bins of scores. The bounds are the lowest and the highest area for any order
    of the items within each bin, and any ties. The bins with the widest gap are divided, and counted in another pass
    over the data, until the bounds are close enough. With ``tolerance=0`` both are the area itself, bit-for-bit
    identical to that of :func:`aucpr_dask.estimate`: items are gathered one range of scores after another.

    Unlike the other functions, it computes eagerly, on Dask's current scheduler or client, because each pass depends on
    the counts of the one before.

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

    Examples
    --------
    >>> import aucpr_dask as ap
    >>> import dask.array as da
    >>> score = da.arange(1_000_000, chunks=100_000).astype("float32")
    >>> label = (score % 7 == 0).astype("int8")
    >>> lower, upper = area_bounds(score, label, tolerance=1e-3)
    >>> bool(0 < upper - lower <= 1e-3)
    True
    >>> lower, upper = area_bounds(score, label, tolerance=0)
    >>> bool(lower == upper == ap.estimate(score, label).compute())
    True
    """
    if not real(tolerance) >= 0:
        raise InvalidInputError(
            "tolerance must be a number from 0",
            where="option 'tolerance'",
            received=brief(tolerance),
            allowed="one number from 0, such as 1e-6",
            remedy="give 0 for the exact area",
        )
    options = EvaluationOptions.of(
        prevalence=prevalence, missing=missing, unjudged=unjudged, positive_from=positive_from
    )
    given = {"score": score, "label": label, "n_positive": n_positive}
    return _bounds_of(prepare(given, options, dim), real(tolerance))


def _bounds_of(prepared: Prepared, tolerance: float) -> Any:
    """Bound the rankings of a call: labelled ones with their dimensions."""
    arrays = prepared.arrays
    kwargs: dict[str, Any] = {"roles": tuple(arrays), "options": prepared.options, "tolerance": tolerance}
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


def _bound_all(
    *arrays: Any, roles: tuple[str, ...], options: EvaluationOptions, tolerance: float
) -> NDArray[np.float64]:
    """Bound one ranking after another."""
    named = dict(zip(roles, arrays, strict=True))
    lead = Rows(named).lead
    score, label = (_spread(named[name], lead, 1) for name in ("score", "label"))
    n_given = np.broadcast_to(np.asarray(named.get("n_positive", np.nan), dtype=np.float64), lead)
    bounds = np.empty((*lead, len(BOUNDS)))
    for index in np.ndindex(*lead):
        bounds[index] = _bound(HugeRanking(score[index], label[index], float(n_given[index]), options), tolerance)
    return bounds


def _spread(array: Any, lead: tuple[int, ...], n_own: int) -> da.Array:
    array = array if isinstance(array, da.Array) else da.from_array(np.asarray(array), chunks=-1)
    return da.broadcast_to(array, (*lead, *array.shape[array.ndim - n_own :]))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class HugeRanking:
    """One ranking, read again by every pass over it."""

    score: da.Array
    label: da.Array
    n_given: float
    options: EvaluationOptions

    def pass_over(self, function: Callable[..., Any], merge: Callable[..., Any], *edges: Keys) -> Any:
        """Map a block function over the chunks of items, and merge its results."""
        items = {"score": self.score, "label": self.label}
        lazy = [da.from_array(keys, chunks=-1) for keys in edges]
        parts = map_items(function, items, 0, *lazy, options=self.options)
        return reduce_items(parts, merge).to_delayed().item()


@dataclass(frozen=True)
class Bins:
    """Consecutive ranges of keys, ascending, that together hold all scores; each ends before the next one starts."""

    start: Keys
    last_of_all: int
    positives: NDArray[np.int64]
    negatives: NDArray[np.int64]

    @property
    def last(self) -> Keys:
        """The last key of each bin."""
        return np.append(self.start[1:] - self.start.dtype.type(1), self.start.dtype.type(self.last_of_all))

    @property
    def bits(self) -> NDArray[np.int64]:
        """The logarithm to base 2 of each bin's width, which is a power of 2."""
        return np.rint(np.log2((self.last - self.start).astype(np.float64) + 1.0)).astype(np.int64)

    @property
    def is_tied(self) -> NDArray[np.bool_]:
        """Whether a bin is a single key, so that its items are tied."""
        return np.equal(self.start, self.last)


@dataclass(frozen=True)
class Whole:
    """Totals of a ranking."""

    total: float  # the number of positives by which the area is divided
    scale: float  # of counts of negatives
    missing: tuple[float, float]  # positives and negatives that are tied below every score


def _bound(ranking: HugeRanking, tolerance: float) -> tuple[float, float]:
    bins, whole = _first_pass(ranking)
    if not whole.total > 0:
        return np.nan, np.nan
    for _ in range(MOST_PASSES):
        lower, upper = _terms(bins, whole)
        bounds = _outward(lower.sum(), upper.sum(), bins, whole)
        if bounds[1] - bounds[0] <= tolerance:
            return bounds
        parts = _finer_parts(upper - lower, bins, tolerance * whole.total) if tolerance > FINEST else None
        if parts is None:
            break
        bins = _divided(ranking, bins, parts)
    area = _exact(ranking, bins, whole)
    return area, area


def _first_pass(ranking: HugeRanking) -> tuple[Bins, Whole]:
    """Count all items, in bins of the highest bits of their keys."""
    from aucpr_dask.kernels.chunked.rows import key_type

    kind = key_type(ranking.score.dtype)
    bits = 8 * kind.itemsize
    start = np.arange(2**FIRST_BITS, dtype=kind) << kind.type(bits - FIRST_BITS)
    ((positives, negatives, classes),) = _computed(ranking.pass_over(count_keys, add_tallies, start))
    _, _, missing_positives, missing_negatives = map(float, classes)
    labelled = float(classes[0]) + missing_positives
    unseen = 0.0 if np.isnan(ranking.n_given) else ranking.n_given - labelled
    facts = {"n_missing": np.array([missing_positives + missing_negatives]), "n_unseen": np.array([unseen])}
    check_rows(facts, Rows({}), ranking.options)
    drops = ranking.options.missing == "drop"
    total = float(classes[0]) + unseen + (0.0 if drops else missing_positives)
    n_negative = float(classes[1]) + (0.0 if drops else missing_negatives)
    is_last = ranking.options.missing == "last"
    whole = Whole(
        total,
        negative_scale(ranking.options.prevalence, total, n_negative),
        (missing_positives, missing_negatives) if is_last else (0.0, 0.0),
    )
    return Bins(start, 2**bits - 1, positives.astype(np.int64), negatives.astype(np.int64)), whole


def _terms(bins: Bins, whole: Whole) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the least and the most that each bin can add to the area, in units of positives."""
    from aucpr_dask.kernels.chunked.bounds import least_and_most

    return least_and_most(bins.positives, bins.negatives, bins.is_tied, whole.scale)


def _outward(lower: float, upper: float, bins: Bins, whole: Whole) -> tuple[float, float]:
    """Return bounds of the area from those of the bins, widened by rounding errors."""
    from aucpr_dask.kernels.chunked.bounds import rounded_outward

    missing_positives, missing_negatives = whole.missing
    tail = 0.0
    if missing_positives > 0:
        positives = float(bins.positives.sum()) + missing_positives
        negatives = float(bins.negatives.sum()) + missing_negatives
        tail = missing_positives * (positives / (positives + whole.scale * negatives))
    return rounded_outward((lower + tail) / whole.total, (upper + tail) / whole.total)


def _finer_parts(gap: NDArray[np.float64], bins: Bins, target: float) -> NDArray[np.int64] | None:
    """Return the powers of 2 by which to divide bins; None if the bounds would need too many bins.

    Dividing a bin into k parts leaves about 1/k of its gap. For a given number of parts, the sum of the gaps is least
    with k proportional to the square root of the gap.
    """
    root = np.sqrt(np.maximum(gap, 0.0))
    with np.errstate(divide="ignore"):
        parts = np.ceil(np.log2(root * (root.sum() / target)))
    parts = np.where(gap > 0, np.clip(parts, 0, bins.bits), 0).astype(np.int64)
    if not parts.any() or _count(parts) > MOST_BINS:
        return None
    # Where many items tie, most parts stay empty; if bins are few, finer ones save passes over the data.
    more = np.where(parts > 0, np.minimum(np.maximum(parts, LARGE_BITS), bins.bits), 0)
    return more if _count(more) <= FEW_BINS else parts


def _count(parts: NDArray[np.int64]) -> float:
    return float(np.exp2(parts.astype(np.float64)).sum())


def _divided(ranking: HugeRanking, bins: Bins, parts: NDArray[np.int64]) -> Bins:
    """Divide each bin into a power of 2 of equal parts, and count these in a pass over the data."""
    kind = bins.start.dtype
    n_parts = np.int64(1) << parts
    # 0 for all 64 bits, which never occurs
    width = ((bins.last - bins.start) >> parts.astype(kind)) + kind.type(1)
    first = np.cumsum(n_parts) - n_parts
    place = (np.arange(n_parts.sum()) - np.repeat(first, n_parts)).astype(kind)
    start = np.repeat(bins.start, n_parts) + place * np.repeat(width, n_parts)
    ((positives, negatives, _),) = _computed(ranking.pass_over(count_keys, add_tallies, start))
    return Bins(start, bins.last_of_all, positives.astype(np.int64), negatives.astype(np.int64))


def _exact(ranking: HugeRanking, bins: Bins, whole: Whole) -> float:
    """Return the exact area: the sum of its terms from the highest score, one range after another."""
    from aucpr_dask.kernels.chunked.rows import add_tied

    steps: Steps = (0.0, 0.0, 0.0, 0.0)
    for first, end in _ranges(bins := _readable(ranking, bins)):
        positives, negatives = bins.positives[first:end], bins.negatives[first:end]
        if not positives.any() or (end - first == 1 and bins.is_tied[first]):
            steps = add_tied(float(positives.sum()), float(negatives.sum()), whole.scale, steps)
        else:
            ends = np.array([bins.start[first], bins.last[end - 1]])
            items = ranking.pass_over(items_between, join_items, ends)
            (steps,) = _computed(delayed(add_items)(items, steps, whole.scale))
    if whole.missing[0] > 0:
        steps = add_tied(*whole.missing, whole.scale, steps)
    return min((steps[0] + steps[1]) / whole.total, 1.0)


def _readable(ranking: HugeRanking, bins: Bins) -> Bins:
    """Divide bins until all that must be read are small enough to gather."""
    while True:
        is_large = (bins.positives + bins.negatives > RANGE_ITEMS) & (bins.positives > 0) & ~bins.is_tied
        if not is_large.any():
            return bins
        bins = _divided(ranking, bins, np.where(is_large, np.minimum(LARGE_BITS, bins.bits), 0))


def _ranges(bins: Bins) -> Iterator[tuple[int, int]]:
    """Yield ranges of bins, from the highest: with few enough items, a single bin, or without positives."""
    size = bins.positives + bins.negatives
    is_alone = size > RANGE_ITEMS
    below = np.concatenate([[0], np.cumsum(size)])
    with_positives = np.flatnonzero(bins.positives)
    lowest, highest = (with_positives[0], with_positives[-1]) if with_positives.size else (0, -1)
    if highest + 1 < size.size:
        yield int(highest) + 1, size.size
    alone = np.flatnonzero(is_alone)
    end = int(highest) + 1
    while end > lowest:
        first = int(np.searchsorted(below, below[end] - RANGE_ITEMS, "left"))
        before = alone[np.searchsorted(alone, end) - 1] + 1 if alone.size and alone[0] < end else 0
        first = min(max(first, int(before), int(lowest)), end - 1)
        yield first, end
        end = first
    yield 0, end  # negatives, above items without a score if these are ranked


def _computed(*lazy: Any) -> tuple[Any, ...]:
    """Compute without Dask's warning about large graphs, which millions of bins cause."""
    if "distributed" not in sys.modules:  # no cluster to warn, and importing it within the context loses its defaults
        return dask.compute(*lazy)  # type: ignore[no-any-return]
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GiB"}):
        return dask.compute(*lazy)  # type: ignore[no-any-return]
