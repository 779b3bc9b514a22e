"""Replicates of rankings: each item counts as often as a resample drew it; nothing is sorted again.

Replicates stand side by side in *lanes*: one row of multiplicities holds those of one unit (an item or a cluster) in
`LANES` consecutive resamples, so that one vector instruction serves many of them. Rankings that share the units
share the multiplicities.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types

from aucpr_dask.kernels.compiling import Cache
from aucpr_dask.kernels.ranking import two_sum
from aucpr_dask.kernels.signatures import F8, I8, row_of, rows_of
from aucpr_dask.kernels.streams import WORDS, draw_with_replacement

CACHE = Cache("replicates")

LANES = 64
AT_ONCE = np.uint64(4)
DRAWN_TOGETHER = 8  # resamples whose counts stand in a core's own cache before they go to their lanes

EVERY_POINT, POINTS_AT_POSITIVES, STEPS_OF_PRECISION = 0, 1, 2  # how finely a ranking is laid out

U1, U8, I4 = types.uint8, types.uint64, types.int32


class Layout(NamedTuple):
    """A ranking from the highest score down: entries of one step are its negatives, then its positives."""

    unit: np.ndarray  # of each entry: its row of multiplicities
    factor: np.ndarray  # of each entry: its weight; empty if all are 1
    value: np.ndarray  # of each entry: its score; empty unless needed
    n_negatives: np.ndarray  # of each step: entries
    n_positives: np.ndarray


LAYOUT = types.NamedTuple((I4[::1], F8[::1], F8[::1], I4[::1], I4[::1]), Layout)


@CACHE.kernel(types.void(U8, I8, row_of(I8), row_of(I8), U1[:, ::1]))
def draw_counts(key, first, size, stratum, count):
    """Fill the lanes of every unit with how often resamples `first`, `first` + 1, ... draw it; strata apart."""
    words = np.empty(WORDS, np.uint32)
    start = 0
    for s in range(size.size):
        drawn = np.empty((DRAWN_TOGETHER, size[s]), np.uint8)
        for lane in range(0, LANES, DRAWN_TOGETHER):
            for j in range(DRAWN_TOGETHER):
                drawn[j] = 0
                draw_with_replacement(key, np.uint64(first + lane + j), np.uint64(stratum[s]), words, drawn[j])
            for i in range(size[s]):
                for j in range(DRAWN_TOGETHER):
                    count[start + i, lane + j] = drawn[j, i]
        start += size[s]


@CACHE.kernel(types.void(row_of(F8), row_of(I4), row_of(F8), row_of(F8), I8, LAYOUT, I8[::1]))
def lay_out(score, unit, positive, negative, detail, layout, sizes):
    """Fill a layout from items in ascending order of score; `sizes`: its steps and entries.

    An item whose class weights are both zero has no entry. Where only the points at positives matter, consecutive
    blocks of negatives are one step; where only precision at positives does, the block of positives after joins it.
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
        if run_is_open and (detail == STEPS_OF_PRECISION or n_positives == 0):
            layout.n_negatives[n_steps - 1] += n_negatives
            layout.n_positives[n_steps - 1] += n_positives
        elif n_negatives + n_positives > 0:
            layout.n_negatives[n_steps] = n_negatives
            layout.n_positives[n_steps] = n_positives
            n_steps += 1
        else:
            continue
        run_is_open = detail != EVERY_POINT and n_positives == 0
    sizes[0], sizes[1] = n_steps, n_entries


_STEPS = rows_of(I4), rows_of(I4), row_of(I8)


@CACHE.kernel(types.void(rows_of(I4), *_STEPS, row_of(F8), rows_of(U1), F8[:, ::1]))
def average_precision_lanes(unit, n_negatives, n_positives, n_steps, n_unseen, count, out):
    """Average precision of every ranking in every lane; counts are whole, and so are all sums.

    The first four are layouts, one in each row; `n_unseen` is how much the positives that are no item count in a lane.
    """
    for ranking in range(n_steps.size):
        negatives = np.zeros(LANES, np.int32)
        positives = np.zeros(LANES, np.int32)
        gained = np.zeros(LANES, np.int32)
        area = np.zeros(LANES)
        error = np.zeros(LANES)
        units = unit[ranking]
        entry = np.uint64(0)
        for step in range(n_steps[ranking]):
            left = np.uint64(n_negatives[ranking, step])
            if n_positives[ranking, step] == 0:
                break  # negatives below every positive change no precision
            # Four at a time: a sum in memory can take up the next counts only after it has been stored.
            for _ in range(left // AT_ONCE):
                a, b = np.uint64(units[entry]), np.uint64(units[entry + np.uint64(1)])
                c, d = np.uint64(units[entry + np.uint64(2)]), np.uint64(units[entry + np.uint64(3)])
                entry += AT_ONCE
                for lane in range(LANES):
                    i = np.uint64(lane)
                    negatives[lane] += (count[a, i] + count[b, i]) + (count[c, i] + count[d, i])
            for _ in range(left % AT_ONCE):
                row = np.uint64(units[entry])
                entry += np.uint64(1)
                for lane in range(LANES):
                    negatives[lane] += count[row, np.uint64(lane)]
            gained[:] = 0
            for _ in range(n_positives[ranking, step]):
                row = np.uint64(units[entry])
                entry += np.uint64(1)
                for lane in range(LANES):
                    gained[lane] += count[row, np.uint64(lane)]
            for lane in range(LANES):
                positives[lane] += gained[lane]
                hits = float(positives[lane])
                precision = hits / max(hits + negatives[lane], 1.0)
                area[lane], error[lane] = two_sum(area[lane], error[lane], gained[lane] * precision)
        for lane in range(LANES):
            value = (area[lane] + error[lane]) / (positives[lane] + n_unseen[lane])
            out[ranking, lane] = 1.0 if value > 1.0 else value


CACHE.publish()
