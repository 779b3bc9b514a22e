"""Replicates of rankings: each item counts as often as a resample drew it; nothing is sorted again.

Replicates are side by side in *lanes*: one row of multiplicities holds those of one unit (an item or a cluster) in
`LANES` consecutive resamples, so that one vector instruction serves many of them. Rankings that share the units
share the multiplicities.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from aucpr_dask.kernels import gaps
from aucpr_dask.kernels.compiling import F8, I4, I8, OPTIONS_TYPE, TARGETS_TYPE, U1, helper, kernel, row_of, rows_of
from aucpr_dask.kernels.draws import LANES
from aucpr_dask.kernels.interpolation import Moments, Points
from aucpr_dask.kernels.numba_private import cgutils
from aucpr_dask.kernels.operating_points import finish_all, new_room
from aucpr_dask.kernels.tie_groups import Classes, Ranking, two_sum

IN_A_BYTE = 8  # rows of counts whose sums fit into bytes: that one of them exceeds 31 has a probability of 1 / 32!
TILE = 16  # steps whose sums fit a core's fastest cache
EVERY_POINT, POINTS_AT_POSITIVES = 0, 1  # how finely a ranking is laid out


class Layout(NamedTuple):
    """A ranking from the highest score down: entries of one step are its negatives, then its positives."""

    unit: np.ndarray  # of each entry: its row of multiplicities
    factor: np.ndarray  # of each entry: its weight; empty if all are 1
    value: np.ndarray  # of each entry: its score; empty unless needed
    n_negatives: np.ndarray  # of each step: entries
    n_positives: np.ndarray


LAYOUT = types.NamedTuple((I4[::1], F8[::1], F8[::1], I4[::1], I4[::1]), Layout)


@kernel(types.void(row_of(F8), row_of(I4), row_of(F8), row_of(F8), I8, LAYOUT, I8[::1]))
def lay_out(score, unit, positive, negative, detail, layout, sizes):
    """Fill a layout from items in ascending order of score; `sizes`: its steps and entries.

    An item without weights has no entry. If only the points at positives matter, consecutive tie groups of negatives
    are one step.
    """
    n_entries = n_steps = 0
    run_is_open = False
    i = score.size
    while i > 0:
        start = i - 1
        while start > 0 and score[start - 1] == score[start]:
            start -= 1
        first = n_entries
        for j in range(i - 1, start - 1, -1):
            layout.unit[n_entries] = unit[j]
            if layout.factor.size > 0:
                layout.factor[n_entries] = negative[j]
            if layout.value.size > 0:
                layout.value[n_entries] = score[j]
            n_entries += negative[j] > 0.0
        n_negatives = n_entries - first
        for j in range(i - 1, start - 1, -1):
            if positive[j] > 0.0:
                layout.unit[n_entries] = unit[j]
                if layout.factor.size > 0:
                    layout.factor[n_entries] = positive[j]
                if layout.value.size > 0:
                    layout.value[n_entries] = score[j]
                n_entries += 1
        n_positives = n_entries - first - n_negatives
        i = start
        if run_is_open and n_positives == 0:
            layout.n_negatives[n_steps - 1] += n_negatives
        elif n_negatives + n_positives > 0:
            layout.n_negatives[n_steps] = n_negatives
            layout.n_positives[n_steps] = n_positives
            n_steps += 1
        else:
            continue
        run_is_open = detail != EVERY_POINT and n_positives == 0
    sizes[0], sizes[1] = n_steps, n_entries


@kernel(types.void(row_of(F8), row_of(F8), row_of(I4), row_of(U1), I4[::1], I4[::1], I4[::1]))
def lay_out_precision(value, score, unit, classes, entries, n_negatives, n_positives):
    """Lay a ranking out for average precision, in steps that end with the positives of one score.

    `value` has the distinct scores of the positives; bit 0 of `classes` marks negatives, bit 1 positives. Each item
    belongs to the step of the highest positive that is not above it. Items below all of them do not change precision
    and have no entry.
    """
    n_steps = value.size - 1
    n_negatives[:] = 0
    n_positives[:] = 0
    if n_steps == 0:
        return
    table = gaps.table_of(value)
    step_of = np.empty(score.size, np.int32)
    place = table.place
    for start in range(0, score.size, gaps.SEGMENT):
        scores = score[start : start + gaps.SEGMENT]
        gaps.find_places(scores, table)
        for i in range(scores.size):
            step = n_steps - min((np.int64(place[i]) + 1) // 2, n_steps)
            step_of[start + i] = step
            n_negatives[step] += classes[start + i] & 1
            n_positives[step] += classes[start + i] >> 1
    following = np.empty((n_steps, 2), np.int32)
    entry = 0
    for step in range(n_steps):
        following[step, 0] = entry
        following[step, 1] = entry + n_negatives[step]
        entry += n_negatives[step] + n_positives[step]
    for i in range(score.size):
        step = step_of[i]
        if step < n_steps:
            if classes[i] & 1:
                entries[following[step, 0]] = unit[i]
                following[step, 0] += 1
            if classes[i] & 2:
                entries[following[step, 1]] = unit[i]
                following[step, 1] += 1


@intrinsic
def add_counts(typing_context, count, unit, first, last, total):
    """Add the counts of entries `first` to `last` - 1 to the totals, of int32, of the lanes.

    Up to `IN_A_BYTE` rows are added as bytes, with one instruction for 64 lanes, which the compiler does not find in a
    plain loop.
    """
    signature = types.void(count, unit, types.int64, types.int64, total)

    def generate(context, builder, signature, arguments):
        whole = ir.IntType(64)
        narrow, wide = ir.VectorType(ir.IntType(8), LANES), ir.VectorType(ir.IntType(32), LANES)

        def data_of(place, vector=None):
            data = context.make_array(signature.args[place])(context, builder, arguments[place]).data
            return data if vector is None else builder.bitcast(data, vector.as_pointer())

        counts, units, totals = data_of(0, narrow), data_of(1), data_of(4, wide)
        first, last = arguments[2:4]
        at_once = ir.Constant(whole, IN_A_BYTE)
        total = cgutils.alloca_once_value(builder, builder.load(totals, align=4))
        with cgutils.for_range_slice(builder, first, last, at_once, whole) as (start, _):
            end = builder.add(start, at_once)
            end = builder.select(builder.icmp_signed("<", end, last), end, last)
            part = cgutils.alloca_once(builder, narrow)
            builder.store(ir.Constant(narrow, None), part)
            with cgutils.for_range_slice(builder, start, end, ir.Constant(whole, 1), whole) as (entry, _):
                row = builder.sext(builder.load(builder.gep(units, [entry])), whole)
                more = builder.load(builder.gep(counts, [row]), align=1)
                builder.store(builder.add(builder.load(part), more), part)
            builder.store(builder.add(builder.load(total), builder.zext(builder.load(part), wide)), total)
        builder.store(builder.load(total), totals, align=4)
        return context.get_dummy_value()

    return signature, generate


_STEPS = rows_of(I4), rows_of(I4), row_of(I8)


@kernel(types.void(rows_of(I4), *_STEPS, row_of(F8), rows_of(U1), F8[:, ::1]))
def average_precision_lanes(unit, n_negatives, n_positives, n_steps, n_unseen, count, out):
    """Average precision of every ranking in every lane; counts are whole, and so are all sums.

    The first four are layouts, one in each row; `n_unseen` is the count of positives that are not items in each lane.
    """
    negatives, positives, gained = np.empty((3, LANES), np.int32)
    area, error = np.empty((2, LANES))
    for ranking in range(n_steps.size):
        negatives[:] = 0
        positives[:] = 0
        area[:] = 0
        error[:] = 0
        entry = 0
        for step in range(n_steps[ranking]):
            end = entry + n_negatives[ranking, step]
            add_counts(count, unit[ranking], entry, end, negatives)
            entry = end + n_positives[ranking, step]
            gained[:] = 0
            add_counts(count, unit[ranking], end, entry, gained)
            for lane in range(LANES):
                positives[lane] += gained[lane]
                hits = float(positives[lane])
                precision = hits / max(hits + negatives[lane], 1.0)
                area[lane], error[lane] = two_sum(area[lane], error[lane], gained[lane] * precision)
        for lane in range(LANES):
            value = (area[lane] + error[lane]) / (positives[lane] + n_unseen[lane])
            out[ranking, lane] = 1.0 if value > 1.0 else value


@helper
def add_entries(layout, entry, n, count, total):
    """Add the weights of `n` entries to the totals of the lanes; return the next entry."""
    is_weighted = layout.factor.size > 0
    for _ in range(n):
        drawn = count[np.uint64(layout.unit[entry])]
        factor = layout.factor[entry] if is_weighted else 1.0
        entry += np.uint64(1)
        for lane in range(LANES):
            total[lane] += factor * drawn[np.uint64(lane)]
    return entry


@helper
def fill_points(layout, n_steps, first, count, points, n_points):
    """Fill the operating points of one ranking in as many lanes as `points` has rows, from lane `first` on.

    Sums run over all lanes, a number that the compiler knows, for a tile of steps at a time; then each lane keeps the
    steps at which its counts change.
    """
    negatives, positives, before = np.zeros((3, LANES))
    tile_negatives, tile_positives = np.empty((2, TILE, LANES))
    n_points[:] = 0
    entry = np.uint64(0)
    for start in range(0, n_steps, TILE):
        size = min(TILE, n_steps - start)
        for t in range(size):
            entry = add_entries(layout, entry, layout.n_negatives[start + t], count, negatives)
            entry = add_entries(layout, entry, layout.n_positives[start + t], count, positives)
            for lane in range(LANES):
                tile_positives[t, lane] = positives[lane]
                tile_negatives[t, lane] = negatives[lane]
        for i in range(n_points.size):
            lane = np.uint64(first + i)
            kept_positives, kept_negatives = points[0, i], points[1, i]
            point = np.uint64(n_points[i])
            last = before[lane]
            for t in range(size):
                gained, lost = tile_positives[t, lane], tile_negatives[t, lane]
                # Each is written, and stays if anything was drawn since the last: without branches.
                kept_positives[point] = gained
                kept_negatives[point] = lost
                point += np.uint64(gained + lost > last)
                last = gained + lost
            before[lane] = last
            n_points[i] = np.int64(point)


@kernel(types.void(LAYOUT, I8, I8, rows_of(U1), F8[:, :, ::1], I8[::1]))
def points_of_lanes(layout, n_steps, first, count, points, n_points):
    """Do the work of `fill_points`."""
    fill_points(layout, n_steps, first, count, points, n_points)


@helper
def fill_moments(layout, n_steps, count, moments):
    """Fill mean and sample deviation of the positives' scores, then of the negatives', in every lane."""
    is_weighted = layout.factor.size > 0
    for side in range(2):
        largest = np.zeros(LANES)
        weight = np.zeros(LANES)
        mean = np.zeros(LANES)
        square = np.zeros(LANES)
        for sweep in range(3):  # scaled by the largest: nothing overflows, and equal scores have no deviation
            entry = np.uint64(0)
            for step in range(n_steps):
                n_negatives = np.uint64(layout.n_negatives[step])
                n_positives = np.uint64(layout.n_positives[step])
                start = entry if side else entry + n_negatives
                stop = start + (n_negatives if side else n_positives)
                entry += n_negatives + n_positives
                for e in range(start, stop):
                    row = np.uint64(layout.unit[e])
                    value = layout.value[e]
                    factor = layout.factor[e] if is_weighted else 1.0
                    for lane in range(LANES):
                        w = factor * count[row, np.uint64(lane)]
                        scaled = value / largest[lane] if w > 0.0 else 0.0
                        if sweep == 0:
                            largest[lane] = max(largest[lane], abs(value) if w > 0.0 else 0.0)
                        elif sweep == 1:
                            weight[lane] += w
                            mean[lane] += w * scaled
                        else:
                            square[lane] += w * (scaled - mean[lane]) ** 2
            if sweep == 1:
                for lane in range(LANES):
                    mean[lane] /= weight[lane]
        for lane in range(LANES):
            if weight[lane] > 1.0:
                moments[2 * side, lane] = mean[lane] * largest[lane]
                moments[2 * side + 1, lane] = np.sqrt(square[lane] / (weight[lane] - 1.0)) * largest[lane]


@kernel(
    types.void(
        LAYOUT, I8, F8[:, ::1], row_of(F8), rows_of(U1), F8[:, :, ::1], I8[::1], OPTIONS_TYPE, TARGETS_TYPE, F8[:, ::1]
    )
)
def evaluate_lanes(layout, n_steps, missing, n_unseen, count, points, n_points, options, targets, out):
    """Evaluate one ranking by any estimator in every lane; `missing` holds the weights of items without a score."""
    moments = np.full((4, LANES), np.nan)
    if layout.value.size > 0:
        fill_moments(layout, n_steps, count, moments)
    room = new_room(n_steps)
    for first in range(0, LANES, n_points.size):
        fill_points(layout, n_steps, first, count, points, n_points)
        for i in range(n_points.size):
            lane = first + i
            n = n_points[i]
            positives, negatives = (points[0, i, n - 1], points[1, i, n - 1]) if n > 0 else (0.0, 0.0)
            classes = Classes(positives, negatives, missing[0, lane], missing[1, lane])
            ranking = Ranking(classes, n_unseen[lane], 0.0, 1.0, 3)
            spread = Moments(moments[0, lane], moments[1, lane], moments[2, lane], moments[3, lane])
            curve = Points(points[0, i], points[1, i])
            finish_all(room, ranking, curve, n, spread, options, targets, out[lane])
