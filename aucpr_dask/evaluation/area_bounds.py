"""Average precision of giants: certified bounds from counts of scores in bins, and the exact number range by range."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import dask
import dask.array as da
import numpy as np
import xarray as xr
from dask import delayed
from numpy.typing import NDArray

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.evaluation.alignment import aligned, labelled_inputs, plain_inputs
from aucpr_dask.evaluation.chunk_passes import Steps, add_items, add_tallies, count_keys, items_between, join_items
from aucpr_dask.evaluation.in_chunks import map_items, reduce_items
from aucpr_dask.evaluation.rankings import Rows, check_rows
from aucpr_dask.evaluation.request import Request, checked_request
from aucpr_dask.schema.variables import BOUND, BOUNDS, ITEM, ITEM_ROLES

FIRST_BITS = 16  # of a key: the bins of the first pass over the data
MOST_BINS = 2**23  # that one pass counts in, and that are kept
FINEST = 1e-12  # width from which bounds are not worth their rounding: the exact number is the quicker one
RANGE_ITEMS = 2**25  # that are brought to one place at a time, for the exact number
FEW_BINS = 2**20
LARGE_BITS = 8  # by which bins of too many items are divided
MOST_PASSES = 8  # over the data, for bounds; beyond, the exact number is the quicker one
# Every term of a bound and of the area itself is rounded fewer than 8 times, and NumPy's sum of 2**23 terms adds less
# than 40 roundings of 2**-53 each.
ROUNDING = 2.0**-46

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
    """Bound average precision, as closely as wanted, in memory that does not grow with the ranking.

    Counts of positives and negatives in bins of scores leave open how the items of a bin stand; the bounds are the
    lowest and the highest area that any order of them, and any ties, could have. Bins that leave most open are divided,
    and counted in another pass over the data, until the bounds are close enough. With ``tolerance=0`` both are the area
    itself, with the same bits as :func:`aucpr_dask.estimate`: the items of one range of scores after another are
    brought to one place.

    Unlike the other functions it computes at once, on the scheduler or client that Dask has, because what is read next
    depends on what was counted.

    Parameters
    ----------
    score : array, shape (..., item)
        NumPy, Dask or xarray, in any chunks.
    label : array, shape broadcastable to that of `score`
        See :func:`aucpr_dask.estimate`.
    tolerance : float
        The widest that upper - lower may be; 0 for the exact area.
    n_positive, prevalence, missing, unjudged, positive_from, dim
        See :func:`aucpr_dask.estimate`.

    Returns
    -------
    array of float64, shape (..., 2)
        Lower and upper bound, on the last axis or the dimension ``ci_bound``; an xarray of NumPy arrays for xarray,
        else a NumPy array. NaN where there is no positive.

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
    if not isinstance(tolerance, int | float | np.number) or not tolerance >= 0:
        raise InvalidInputError("tolerance must be a number from 0", received=repr(tolerance))
    given = {"score": score, "label": label, "n_positive": n_positive}
    inputs = {name: value for name, value in given.items() if value is not None}
    options = (prevalence, missing, "block", unjudged, positive_from, set(inputs))
    request = checked_request(("average_precision",), *options)
    function = partial(_bound_all, request=request, tolerance=float(tolerance))
    if not isinstance(score, xr.DataArray):
        arrays = plain_inputs(inputs)
        return function(*arrays.values(), roles=tuple(arrays))
    labelled = aligned(labelled_inputs(inputs, dim), request, dim, whole_items=False)
    labelled = {name: array for name, array in labelled.items() if name in inputs}
    bounds = xr.apply_ufunc(
        function,
        *labelled.values(),
        input_core_dims=[[dim] if role in ITEM_ROLES else [] for role in labelled],
        output_core_dims=[[BOUND]],
        kwargs={"roles": tuple(labelled)},
        dask="allowed",
        keep_attrs=False,
    )
    return bounds.assign_coords({BOUND: np.array(BOUNDS, dtype=object)})


def _bound_all(*arrays: Any, roles: tuple[str, ...], request: Request, tolerance: float) -> NDArray[np.float64]:
    """Bound one ranking after another."""
    named = dict(zip(roles, arrays, strict=True))
    lead = Rows(named).lead
    score, label = (_spread(named[name], lead, 1) for name in ("score", "label"))
    n_given = np.broadcast_to(np.asarray(named.get("n_positive", np.nan), dtype=np.float64), lead)
    bounds = np.empty((*lead, len(BOUNDS)))
    for index in np.ndindex(*lead):
        bounds[index] = _bound(Giant(score[index], label[index], float(n_given[index]), request), tolerance)
    return bounds


def _spread(array: Any, lead: tuple[int, ...], n_own: int) -> da.Array:
    array = array if isinstance(array, da.Array) else da.from_array(np.asarray(array), chunks=-1)
    return da.broadcast_to(array, (*lead, *array.shape[array.ndim - n_own :]))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Giant:
    """One ranking, read anew by every pass over it."""

    score: da.Array
    label: da.Array
    n_given: float
    request: Request

    def pass_over(self, function: Callable[..., Any], merge: Callable[..., Any], *edges: Keys) -> Any:
        """Map a block function over the chunks of items, and return what all say together."""
        items = {"score": self.score, "label": self.label}
        lazy = [da.from_array(keys, chunks=-1) for keys in edges]
        parts = map_items(function, items, 0, *lazy, request=self.request)
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
        """By how many powers of 2 each bin can be divided: its width is one of them."""
        return np.rint(np.log2((self.last - self.start).astype(np.float64) + 1.0)).astype(np.int64)

    @property
    def is_tied(self) -> NDArray[np.bool_]:
        """Whether a bin is one key, whose items tie."""
        return np.equal(self.start, self.last)


@dataclass(frozen=True)
class Whole:
    """What is known of a whole ranking: what its area divides by, the scale of negatives, and the last block."""

    total: float
    scale: float
    missing: tuple[float, float]  # positives and negatives that are tied below every score


def _bound(giant: Giant, tolerance: float) -> tuple[float, float]:
    bins, whole = _first_pass(giant)
    if not whole.total > 0:
        return np.nan, np.nan
    for _ in range(MOST_PASSES):
        lower, upper = _terms(bins, whole)
        bounds = _outward(lower.sum(), upper.sum(), bins, whole)
        if bounds[1] - bounds[0] <= tolerance:
            return bounds
        parts = _parts_wanted(upper - lower, bins, tolerance * whole.total) if tolerance > FINEST else None
        if parts is None:
            break
        bins = _divided(giant, bins, parts)
    area = _exact(giant, bins, whole)
    return area, area


def _first_pass(giant: Giant) -> tuple[Bins, Whole]:
    """Count all items, in bins of the highest bits of their keys."""
    from aucpr_dask.kernels.chunked.rows import key_type

    kind = key_type(giant.score.dtype)
    bits = 8 * kind.itemsize
    start = np.arange(2**FIRST_BITS, dtype=kind) << kind.type(bits - FIRST_BITS)
    ((positives, negatives, classes),) = _computed(giant.pass_over(count_keys, add_tallies, start))
    _, _, missing_positives, missing_negatives = map(float, classes)
    labelled = float(classes[0]) + missing_positives
    unseen = 0.0 if np.isnan(giant.n_given) else giant.n_given - labelled
    facts = {"n_missing": np.array([missing_positives + missing_negatives]), "n_unseen": np.array([unseen])}
    check_rows(facts, Rows({}), giant.request)
    drops = giant.request.missing == "drop"
    total = float(classes[0]) + unseen + (0.0 if drops else missing_positives)
    n_negative = float(classes[1]) + (0.0 if drops else missing_negatives)
    is_last = giant.request.missing == "last"
    whole = Whole(
        total,
        _scale_to(giant.request.prevalence, total, n_negative),
        (missing_positives, missing_negatives) if is_last else (0.0, 0.0),
    )
    return Bins(start, 2**bits - 1, positives.astype(np.int64), negatives.astype(np.int64)), whole


def _scale_to(prevalence: float | None, total: float, negatives: float) -> float:
    """Return what `kernels.areas.scale_to` does, with the same bits."""
    if prevalence is None or negatives == 0.0:
        return 1.0
    return total * (1.0 - prevalence) / (negatives * prevalence)


def _terms(bins: Bins, whole: Whole) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what each bin adds to the area at least and at most, in units of positives.

    With TP and FP above a bin of p positives and m negatives, each of them has at most the precision of all positives
    tied above all negatives, (TP + p)/(TP + p + FP). At least, the i-th has x/(x + FP + m) at x = TP + i; that is
    concave in x, so the p of them have at least p times the mean of the first and the last. One key is known exactly.
    """
    p, m = bins.positives.astype(np.float64), bins.negatives.astype(np.float64)
    end = np.cumsum(p[::-1])[::-1]
    below = whole.scale * np.cumsum(m[::-1])[::-1]
    above = whole.scale * (np.cumsum(m[::-1])[::-1] - m)
    first = end - p + 1.0
    known = p * (end / np.maximum(end + below, 1.0))
    upper = p * (end / np.maximum(end + above, 1.0))
    lower = p * (0.5 * (first / (first + below)) + 0.5 * (end / np.maximum(end + below, 1.0)))
    return np.where(bins.is_tied, known, lower), np.where(bins.is_tied, known, upper)


def _outward(lower: float, upper: float, bins: Bins, whole: Whole) -> tuple[float, float]:
    """Return bounds of the area from those of the bins, rounding included."""
    missing_positives, missing_negatives = whole.missing
    tail = 0.0
    if missing_positives > 0:
        positives = float(bins.positives.sum()) + missing_positives
        negatives = float(bins.negatives.sum()) + missing_negatives
        tail = missing_positives * (positives / (positives + whole.scale * negatives))
    low, high = (lower + tail) / whole.total, (upper + tail) / whole.total
    return max(0.0, low * (1.0 - ROUNDING)), min(1.0, high * (1.0 + ROUNDING))


def _parts_wanted(gap: NDArray[np.float64], bins: Bins, wanted: float) -> NDArray[np.int64] | None:
    """Return by how many powers of 2 each bin is to be divided; None if no number that is kept would do.

    A bin in k parts leaves about 1/k of its gap open. The sum of the gaps of so many parts in all is smallest with k
    proportional to the square root of the gap.
    """
    root = np.sqrt(np.maximum(gap, 0.0))
    with np.errstate(divide="ignore"):
        parts = np.ceil(np.log2(root * (root.sum() / wanted)))
    parts = np.where(gap > 0, np.clip(parts, 0, bins.bits), 0).astype(np.int64)
    if not parts.any() or _count(parts) > MOST_BINS:
        return None
    # Where many items tie, most parts stay empty; if bins are few, more of them save passes over the data.
    more = np.where(parts > 0, np.minimum(np.maximum(parts, LARGE_BITS), bins.bits), 0)
    return more if _count(more) <= FEW_BINS else parts


def _count(parts: NDArray[np.int64]) -> float:
    return float(np.exp2(parts.astype(np.float64)).sum())


def _divided(giant: Giant, bins: Bins, parts: NDArray[np.int64]) -> Bins:
    """Divide bins, each into a power of 2 of equal parts, and count in these by a pass over the data."""
    kind = bins.start.dtype
    n_parts = np.int64(1) << parts
    width = ((bins.last - bins.start) >> parts.astype(kind)) + kind.type(1)  # 0 for the whole 64 bits: never wanted
    first = np.cumsum(n_parts) - n_parts
    place = (np.arange(n_parts.sum()) - np.repeat(first, n_parts)).astype(kind)
    start = np.repeat(bins.start, n_parts) + place * np.repeat(width, n_parts)
    ((positives, negatives, _),) = _computed(giant.pass_over(count_keys, add_tallies, start))
    return Bins(start, bins.last_of_all, positives.astype(np.int64), negatives.astype(np.int64))


def _exact(giant: Giant, bins: Bins, whole: Whole) -> float:
    """Return the area itself, adding its terms up from the highest score, one range of them after another."""
    from aucpr_dask.kernels.chunked.rows import add_tied

    steps: Steps = (0.0, 0.0, 0.0, 0.0)
    for first, end in _ranges(bins := _readable(giant, bins)):
        positives, negatives = bins.positives[first:end], bins.negatives[first:end]
        if not positives.any() or (end - first == 1 and bins.is_tied[first]):
            steps = add_tied(float(positives.sum()), float(negatives.sum()), whole.scale, steps)
        else:
            ends = np.array([bins.start[first], bins.last[end - 1]])
            items = giant.pass_over(items_between, join_items, ends)
            (steps,) = _computed(delayed(add_items)(items, steps, whole.scale))
    if whole.missing[0] > 0:
        steps = add_tied(*whole.missing, whole.scale, steps)
    return min((steps[0] + steps[1]) / whole.total, 1.0)


def _readable(giant: Giant, bins: Bins) -> Bins:
    """Divide bins until none that is to be read has more items than one place should hold."""
    while True:
        is_large = (bins.positives + bins.negatives > RANGE_ITEMS) & (bins.positives > 0) & ~bins.is_tied
        if not is_large.any():
            return bins
        bins = _divided(giant, bins, np.where(is_large, np.minimum(LARGE_BITS, bins.bits), 0))


def _ranges(bins: Bins) -> Iterator[tuple[int, int]]:
    """Yield ranges of bins, from the highest: of few enough items, or else of one bin, or without positives."""
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
    """Compute; millions of bins make a large graph, of which Dask need not warn."""
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GiB"}):
        return dask.compute(*lazy)  # type: ignore[no-any-return]
