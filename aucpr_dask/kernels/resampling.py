"""From rankings to their replicates: which rankings share multiplicities, and how much memory that needs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.kernels import options as o
from aucpr_dask.kernels import replicates as kernel
from aucpr_dask.kernels.compiling import on_all_cores
from aucpr_dask.kernels.draws import LANES, NEGATIVES, POSITIVES, UNITS, draw_counts
from aucpr_dask.kernels.gaps import BUCKETS_PER_SCORE, TABLE_BUCKETS, distinct_scores
from aucpr_dask.kernels.options import Array, Indices, Items, Options, Targets
from aucpr_dask.kernels.sorting import Floats

LAYOUT_BYTES = 1 << 27  # layouts of rankings that share one draw of multiplicities
POINT_BYTES = 1 << 26  # operating points of the replicates of one ranking at a time
FEWEST_LANES = 8  # replicates at a time, even if their points take more
WORTH_THREADS = 1 << 22  # items times replicates
CACHE_LINE = 64
MISSING_AT_ONCE = 1024  # items without a score whose multiplicities are added up together

ROUNDING = 1e-13  # a change of an estimate, times n, below which it is noise of the arithmetic


class Units(NamedTuple):
    """What is resampled: the units of every stratum, the unit of each item (-1: not an item), and unseen positives.

    A positive that is not an item is drawn like the others: every model has missed it.
    """

    size: Indices
    stratum: Indices
    of_item: NDArray[np.int32]
    unseen: slice


def replicate_rows(
    items: Items,
    key: NDArray[np.uint64],
    options: Options,
    targets: Targets,
    n_resamples: int,
    is_stratified: bool = True,
    draws_all: bool = False,
) -> Array:
    """Evaluate resamples of rankings; the result has the shape (rows, estimators, n_resamples).

    Resample r of a ranking depends on its key and r alone. Rankings of equal key, classes and clusters share it. With
    `is_stratified`, positives and negatives are drawn separately, in fixed numbers; clusters, and items of both
    classes, are drawn from all. A single cluster cannot be resampled: its replicates are NaN. With `draws_all`, places
    that hold no item of a ranking are drawn too, so that rankings of equal key share multiplicities whatever their
    classes.
    """
    out = np.empty((len(items.score), targets.codes.size, n_resamples))
    panel = _rankings_at_once(items.score.shape[1])
    for group in rows_sharing_draws(items, key):
        classes = items.weights(group[0])
        units = units_of(*classes, items.clusters_of(group[0]), int(items.unseen[group[0]]), is_stratified, draws_all)
        if items.clusters is not None and units.size[0] < 2:
            out[group] = np.nan
            continue
        for start in range(0, group.size, panel):
            rows = group[start : start + panel]
            drawn = units, key[rows[0]], range(n_resamples)
            out[rows] = _replicate_group(items.score[rows], *classes, drawn, options, targets)
    return out


def planned_bytes(n_rows: int, n_items: int, n_estimators: int, n_resamples: int) -> int:
    """Return how many bytes the replicates of rankings need at most, without their scores.

    These are the multiplicities of `LANES` resamples, the layouts of the rankings that share them, operating points,
    and the replicates; never items times resamples times rankings.
    """
    counts = n_items * LANES
    missing = min(n_items, MISSING_AT_ONCE) * LANES * 16
    layouts = (min(n_rows, _rankings_at_once(n_items)) * 48 + 64) * n_items  # with scores, and one being laid out
    layouts += 4 * min(BUCKETS_PER_SCORE * n_items, TABLE_BUCKETS)
    points = 16 * n_items * _lanes_at_once(n_items) + 6 * 8 * n_items
    return counts + missing + layouts + points + 8 * n_rows * n_estimators * n_resamples


def _rankings_at_once(n_items: int) -> int:
    return max(1, LAYOUT_BYTES // (20 * max(1, n_items)))


def _lanes_at_once(n_steps: int) -> int:
    n_lanes = LANES
    while n_lanes > FEWEST_LANES and 16 * n_lanes * n_steps > POINT_BYTES:
        n_lanes //= 2
    return n_lanes


def rows_sharing_draws(items: Items, key: NDArray[np.uint64]) -> Iterator[Indices]:
    """Yield the rows that share multiplicities."""
    facts = np.stack([items.row.astype(np.uint64), key, items.unseen.astype(np.uint64)], axis=1)
    _, group = np.unique(facts, axis=0, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    if order.size > 0:
        yield from np.split(order, np.flatnonzero(np.diff(group.ravel()[order])) + 1)


def units_of(
    positive: Array,
    negative: Array,
    cluster: Indices | None,
    n_unseen: int = 0,
    is_stratified: bool = True,
    draws_all: bool = False,
) -> Units:
    """Return the units to draw: clusters; or items, by class if requested and no item belongs to both."""
    is_positive, is_negative = positive > 0, negative > 0
    of_item = np.full(positive.size, -1, dtype=np.int32)
    counted = is_positive | is_negative
    drawn = counted | draws_all
    if cluster is not None:
        _, of_item[drawn] = np.unique(cluster[drawn], return_inverse=True)
        n = int(of_item.max(initial=-1)) + 1
        of_item[~counted] = -1
        return Units(np.array([n]), np.array([UNITS]), of_item, slice(n, n))
    if not is_stratified or (is_positive & is_negative).any():
        n = int(drawn.sum())
        of_item[drawn] = np.arange(n, dtype=np.int32)
        of_item[~counted] = -1
        return Units(np.array([n + n_unseen]), np.array([UNITS]), of_item, slice(n, n + n_unseen))
    n, m = int(is_positive.sum()), int(is_negative.sum())
    of_item[is_positive] = np.arange(n, dtype=np.int32)
    of_item[is_negative] = np.arange(n + n_unseen, n + n_unseen + m, dtype=np.int32)
    return Units(np.array([n + n_unseen, m]), np.array([POSITIVES, NEGATIVES]), of_item, slice(n, n + n_unseen))


def accelerations(items: Items, options: Options, targets: Targets, is_stratified: bool = True) -> Array:
    """Compute the acceleration (rows, estimators) of BCa intervals from the exact jackknife.

    With U = (n - 1)(mean of the estimates without one unit of the stratum - estimate without this unit), n the units of
    the stratum, it is ``(1/6) sum U^3/n^3 / (sum U^2/n^2)^(3/2)`` over all units. Without weights and clusters, items
    of a class in the same step are interchangeable, and one of them is left out for all.
    """
    out = np.empty((len(items.score), targets.codes.size))
    for row, score in enumerate(items.score):
        classes = items.weights(row)
        units = units_of(*classes, items.clusters_of(row), int(items.unseen[row]), is_stratified)
        ranking = Ranking(score, *classes, units, targets.codes)
        alike = ranking.alike(units, are_units_items=items.clusters is None)
        out[row] = _acceleration(ranking, units, alike, options, targets)
    return out


def _acceleration(
    ranking: Ranking, units: Units, alike: tuple[Indices, Indices], options: Options, targets: Targets
) -> Array:
    """Leave out one unit of each kind, one in each lane."""
    unit, number = alike
    count = np.ones((int(units.size.sum()), LANES), np.uint8)
    without = []
    for start in range(0, unit.size, LANES):
        here = unit[start : start + LANES]
        count[here, np.arange(here.size)] = 0
        without.append(ranking.evaluate(count, units, options, targets)[: here.size])
        count[here, np.arange(here.size)] = 1
    values = np.concatenate(without) if without else np.empty((0, 1))
    squares = cubes = np.zeros(values.shape[1])
    ends = np.cumsum(units.size)
    for n, end in zip(units.size, ends, strict=True):
        in_stratum = (unit >= end - n) & (unit < end)
        if n < 2 or not in_stratum.any():
            continue
        weight, part = number[in_stratum, None], values[in_stratum]
        deviation = (n - 1) * ((weight * part).sum(axis=0) / n - part)
        deviation[np.abs(deviation) < ROUNDING * n] = 0.0
        squares = squares + (weight * deviation**2).sum(axis=0) / n**2
        cubes = cubes + (weight * deviation**3).sum(axis=0) / n**3
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(squares == 0, 0.0, cubes / (6 * squares**1.5))


def _replicate_group(
    score: Floats,
    positive: Array,
    negative: Array,
    drawn: tuple[Units, np.uint64, range],
    options: Options,
    targets: Targets,
) -> Array:
    """Evaluate rankings that share multiplicities in these resamples."""
    units, key, resamples = drawn
    is_plain = _only_average_precision(score, positive, negative, options, targets)
    rankings: Any
    if is_plain:
        rankings = _PlainRankings(score, positive, negative, units)
    else:
        rankings = [Ranking(row, positive, negative, units, targets.codes) for row in score]
    out = np.empty((len(score), targets.codes.size, len(resamples)))
    of_thread = threading.local()

    def evaluate(first: int) -> None:
        if not hasattr(of_thread, "count"):
            of_thread.count = _rows_of_lanes(int(units.size.sum()))
        count = of_thread.count
        draw_counts(key, first, units.size, units.stratum, count)
        wanted = slice(max(0, resamples.start - first), min(LANES, resamples.stop - first))
        here = slice(first + wanted.start - resamples.start, first + wanted.stop - resamples.start)
        if is_plain:
            out[:, :, here] = rankings.evaluate(count, units)[:, None, wanted]
            return
        for row, ranking in enumerate(rankings):
            out[row, :, here] = ranking.evaluate(count, units, options, targets)[wanted].T

    blocks = range(resamples.start // LANES * LANES, resamples.stop, LANES)  # they are drawn in whole lanes
    if score.size * len(resamples) < WORTH_THREADS:
        list(map(evaluate, blocks))
    else:
        on_all_cores(evaluate, blocks)
    return out


def _rows_of_lanes(n: int) -> NDArray[np.uint8]:
    """Return space for rows of lanes that are aligned to cache lines."""
    memory = np.empty(n * LANES + CACHE_LINE, np.uint8)
    start = -memory.ctypes.data % CACHE_LINE
    return memory[start : start + n * LANES].reshape(n, LANES)


def _only_average_precision(
    score: Floats, positive: Array, negative: Array, options: Options, targets: Targets
) -> bool:
    """Return whether plain counts of items suffice for these targets."""
    return bool(
        np.all(targets.codes == o.AVERAGE_PRECISION)
        and targets.are_by_groups
        and np.isnan(options.prevalence)
        and all(np.all((weight == 0) | (weight == 1)) for weight in (positive, negative))
        and (options.missing == o.MISSING_DROP or not np.isnan(score).any())
    )


def unseen_in(count: NDArray[Any], units: Units) -> Array:
    """Return the count, in every lane, of the positives that are not items."""
    unseen: Array = count[units.unseen].sum(axis=0, dtype=np.float64)
    return unseen


class _PlainRankings:
    """Rankings of items without weights, laid out for average precision."""

    def __init__(self, score: Floats, positive: Array, negative: Array, units: Units) -> None:
        n_positive, n_negative = int(np.count_nonzero(positive)), int(np.count_nonzero(negative))
        self._unit = np.empty((len(score), n_positive + n_negative), np.int32)
        self._n_negatives, self._n_positives = np.empty((2, len(score), n_positive + 1), np.int32)
        self._n_steps = np.empty(len(score), np.int64)
        classes = ((negative > 0) + 2 * (positive > 0)).astype(np.uint8)
        is_positive = positive > 0
        for row, items in enumerate(score):
            items = items.astype(np.float64)
            value, times = distinct_scores(np.sort(items[is_positive & ~np.isnan(items)]))
            layout = self._unit[row], self._n_negatives[row], self._n_positives[row]
            kernel.lay_out_precision(value, items, units.of_item, classes, *layout)
            self._n_steps[row] = times.size

    def evaluate(self, count: NDArray[np.uint8], units: Units) -> Array:
        """Return average precision in every lane, shape (rankings, lanes)."""
        out = np.empty((len(self._n_steps), LANES))
        steps = self._n_negatives, self._n_positives, self._n_steps
        kernel.average_precision_lanes(self._unit, *steps, unseen_in(count, units), count, out)
        return out


class Ranking:
    """One ranking, laid out for numbers by their codes."""

    def __init__(self, score: Floats, positive: Array, negative: Array, units: Units, codes: Indices) -> None:
        n_positive, n_negative = int(np.count_nonzero(positive)), int(np.count_nonzero(negative))
        every_point = bool(o.EVERY_POINT[codes].any())
        most_steps = score.size if every_point else min(2 * n_positive + 1, score.size)
        n_entries = n_positive + n_negative
        is_weighted = any(((weight != 0) & (weight != 1)).any() for weight in (positive, negative))
        needs_values = o.BINORMAL in codes
        self._layout = kernel.Layout(
            np.empty(n_entries + 1, np.int32),
            np.empty(n_entries + 1 if is_weighted else 0),
            np.empty(n_entries + 1 if needs_values else 0),
            np.empty(most_steps, np.int32),
            np.empty(most_steps, np.int32),
        )
        detail = kernel.EVERY_POINT if every_point else kernel.POINTS_AT_POSITIVES
        order = np.argsort(score, kind="stable")  # weights add up in the order of ties; NaN last
        order = order[: score.size - np.count_nonzero(np.isnan(score))]
        items = score[order].astype(np.float64), units.of_item[order], positive[order], negative[order]
        sizes = np.empty(2, np.int64)
        kernel.lay_out(*items, detail, self._layout, sizes)
        self._n_steps = int(sizes[0])
        self._missing = np.flatnonzero(np.isnan(score) & (units.of_item >= 0))
        self._classes = positive, negative
        self._unit = units.of_item

    def evaluate(self, count: NDArray[np.uint8], units: Units, options: Options, targets: Targets) -> Array:
        """Return the estimates in every lane, shape (lanes, estimators)."""
        out = np.full((LANES, targets.codes.size), np.nan)
        n_lanes = _lanes_at_once(self._n_steps)
        points = np.empty((2, n_lanes, self._n_steps + 2))
        n_points = np.empty(n_lanes, np.int64)
        missing = self.missing_in(count)
        arguments = unseen_in(count, units), count, points, n_points, options, targets, out
        kernel.evaluate_lanes(self._layout, self._n_steps, missing, *arguments)
        return out

    def points(self, count: NDArray[np.uint8]) -> Iterator[tuple[Array, Array]]:
        """Yield the numbers of positives and of negatives at or above each point, from none, in every lane."""
        n_lanes = _lanes_at_once(self._n_steps)
        points, n_points = np.empty((2, n_lanes, self._n_steps + 2)), np.empty(n_lanes, np.int64)
        for first in range(0, LANES, n_lanes):
            kernel.points_of_lanes(self._layout, self._n_steps, first, count, points, n_points)
            for lane, n in enumerate(n_points):
                yield np.append(0.0, points[0, lane, :n]), np.append(0.0, points[1, lane, :n])

    def alike(self, units: Units, *, are_units_items: bool) -> tuple[Indices, Indices]:
        """Return one unit of each kind of interchangeable units, and how many there are of each."""
        if not are_units_items or self._layout.factor.size > 0 or self._layout.value.size > 0 or self._missing.size > 0:
            n = int(units.size.sum())
            return np.arange(n), np.ones(n, np.int64)
        runs = np.stack([self._layout.n_negatives[: self._n_steps], self._layout.n_positives[: self._n_steps]], axis=1)
        length = runs.ravel().astype(np.int64)
        first = np.cumsum(length) - length
        unit = self._layout.unit[first[length > 0]].astype(np.int64)
        number = length[length > 0]
        n_unseen = units.unseen.stop - units.unseen.start
        if n_unseen > 0:
            unit, number = np.append(unit, units.unseen.start), np.append(number, n_unseen)
        return unit, number

    def missing_in(self, count: NDArray[Any]) -> Array:
        """Return the weights of the items without a score in every lane: of positives, and of negatives."""
        out = np.zeros((2, count.shape[1]))
        for start in range(0, self._missing.size, MISSING_AT_ONCE):
            item = self._missing[start : start + MISSING_AT_ONCE]
            drawn = count[self._unit[item]].astype(np.float64)
            for total, weight in zip(out, self._classes, strict=True):
                total += np.einsum("i,ij->j", weight[item], drawn)  # unlike @, in one order whatever the machine
        return out
