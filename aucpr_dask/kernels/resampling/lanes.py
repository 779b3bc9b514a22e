"""Replicates by any estimator: the operating points of one ranking in many resamples side by side."""

from __future__ import annotations

import numpy as np
from numba import types

from aucpr_dask.kernels.areas.full import finish_all, new_room
from aucpr_dask.kernels.areas.interpolated import Moments, Points
from aucpr_dask.kernels.compiling import Cache, helper
from aucpr_dask.kernels.rankings.tie_groups import Classes, Ranking
from aucpr_dask.kernels.resampling.replicates import LAYOUT
from aucpr_dask.kernels.resampling.streams import LANES
from aucpr_dask.kernels.signatures import F8, I8, OPTIONS_TYPE, TARGETS_TYPE, U1, row_of, rows_of

CACHE = Cache(__name__)

TILE = 16  # steps whose sums fit a core's fastest cache


@helper
def fill_points(layout, n_steps, first, count, points, n_points):
    """Fill the operating points of one ranking in as many lanes as `points` has rows, from lane `first` on.

    Sums run over all lanes, a number that the compiler knows, for a tile of steps at a time; then each lane keeps the
    steps at which its counts change.
    """
    negatives, positives, before = np.zeros((3, LANES))
    tile_negatives, tile_positives = np.empty((2, TILE, LANES))
    is_weighted = layout.factor.size > 0
    n_points[:] = 0
    entry = np.uint64(0)
    for start in range(0, n_steps, TILE):
        size = min(TILE, n_steps - start)
        for t in range(size):
            for _ in range(layout.n_negatives[start + t]):
                drawn = count[np.uint64(layout.unit[entry])]
                factor = layout.factor[entry] if is_weighted else 1.0
                entry += np.uint64(1)
                for lane in range(LANES):
                    negatives[lane] += factor * drawn[np.uint64(lane)]
            for _ in range(layout.n_positives[start + t]):
                drawn = count[np.uint64(layout.unit[entry])]
                factor = layout.factor[entry] if is_weighted else 1.0
                entry += np.uint64(1)
                for lane in range(LANES):
                    positives[lane] += factor * drawn[np.uint64(lane)]
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
                kept_positives[point] = gained
                kept_negatives[point] = lost
                point += np.uint64(gained + lost > last)
                last = gained + lost
            before[lane] = last
            n_points[i] = np.int64(point)


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


def evaluate_all_lanes(layout, n_steps, missing, n_unseen, count, points, n_points, options, targets, out):
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


def signature_of(real):
    """Return the signature of :func:`evaluate_all_lanes` for counts, or weights, of this type."""
    arguments = (OPTIONS_TYPE, TARGETS_TYPE, F8[:, ::1])
    return types.void(LAYOUT, I8, F8[:, ::1], row_of(F8), rows_of(real), F8[:, :, ::1], I8[::1], *arguments)


evaluate_lanes = CACHE.kernel(signature_of(U1))(evaluate_all_lanes)

CACHE.publish()
