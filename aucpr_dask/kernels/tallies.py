"""A ranking whose items come in chunks: counts of each chunk, and areas from all counts.

Positives travel as their distinct scores, ascending and followed by +inf, and how many there are of each. The negatives
of a chunk are described by a *tally* of two numbers per distinct score: how many lie below it and above the one before,
and how many tie with it; two more numbers count those above all. Tallies of chunks add up to that of the ranking.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from aucpr_dask.kernels import options as o
from aucpr_dask.kernels import tie_groups as g
from aucpr_dask.kernels.areas import COUNTS, finish
from aucpr_dask.kernels.classes import split_rows
from aucpr_dask.kernels.compiling import helper, kernel
from aucpr_dask.kernels.interpolation import Moments, Points
from aucpr_dask.kernels.options import Array, Options, Targets
from aucpr_dask.kernels.points import Curve, finish_curve
from aucpr_dask.kernels.signatures import F8, FLOATS, I8, OPTIONS_TYPE, TARGETS_TYPE, U4, U8, row_of
from aucpr_dask.kernels.sorting import Floats

Counts = NDArray[Any]  # whole numbers from 0, of any unsigned type

FEW_SCORES = 1 << 17  # distinct scores of positives up to which negatives are counted without being sorted
WHOLE = (U4, U8)


def split_items(score: Floats, label: NDArray[np.int8], options: Options) -> tuple[Floats, Floats, Array]:
    """Return the scores of positives and negatives, and the numbers of each with and without a score."""
    positive, negative = np.empty((2, 1, score.size + 1), score.dtype)
    counts = np.empty((1, COUNTS))
    split_rows(score[np.newaxis], label[np.newaxis], np.zeros(1, np.int64), options, positive, negative, counts)
    classes = counts[0, :4]
    return positive[0, : int(classes[0])], negative[0, : int(classes[1])], classes


def distinct_scores(positive: Floats) -> tuple[Floats, NDArray[np.uint32]]:
    """Return the distinct scores, ascending and followed by +inf, and how many there are of each; sorts in place."""
    positive.sort()
    value, times = np.empty(positive.size + 1, positive.dtype), np.empty(positive.size, np.uint32)
    n_scores = count_distinct_scores(positive, value, times)
    return _ended(value, n_scores), times[:n_scores].copy()


def three_scores(positive: Floats, negative: Floats) -> Array:
    """Return up to three distinct scores of both, then NaN."""
    found = np.full(3, np.nan)
    find_distinct(negative, positive, found)
    return found


def merge_scores(score: Floats, times: Counts, other: Floats, other_times: Counts) -> tuple[Floats, Counts]:
    """Merge two lists of distinct scores and their counts."""
    most = int(times.sum(dtype=np.uint64)) + int(other_times.sum(dtype=np.uint64))
    kind: Any = np.uint32 if most < 2**32 else np.uint64
    n_both = times.size + other_times.size
    value, count = np.empty(n_both + 1, score.dtype), np.empty(n_both, kind)
    n_scores = merge_counts(
        score, times.astype(kind, copy=False), other, other_times.astype(kind, copy=False), value, count
    )
    return _ended(value, n_scores), count[:n_scores].copy()


def _ended(value: Floats, size: int) -> Floats:
    """Return this many values, followed by +inf, in a new array."""
    value = value[: size + 1].copy()
    value[size] = np.inf
    return value


def tally_items(value: Floats, negative: Floats) -> Counts:
    """Return how many negatives lie below, and tie with, each of the distinct scores; may sort the negatives."""
    tally = np.zeros(2 * value.size, np.uint32)
    if 1 < value.size <= FEW_SCORES + 1:
        tally_by_gaps(value, negative, tally)
    elif value.size > 1:
        negative.sort()
        tally_by_merging(value, negative, tally)
    return narrow(tally)


def narrow(counts: Counts) -> Counts:
    """Return counts in the narrowest type that holds the largest."""
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))))


def finish_tally(
    times: Counts,
    tally: Counts,
    classes: Array,
    n_given: float,
    n_distinct: int,
    options: Options,
    targets: Targets,
) -> Array:
    """Return the row of numbers of one ranking that `rankings.evaluate_all_rows` returns."""
    out = np.full(targets.codes.size + o.N_COLUMNS, np.nan)
    kind: Any = np.uint64 if np.uint64 in (times.dtype, tally.dtype) else np.uint32
    counts = times.astype(kind, copy=False), tally.astype(kind, copy=False)
    tallied_row(*counts, classes, n_given, n_distinct, options, targets, out)
    return out


@kernel(*(types.int64(row_of(x), x[::1], U4[::1]) for x in FLOATS))
def count_distinct_scores(ascending, value, times):
    """Write the distinct values of a sorted array and their counts; return how many there are."""
    n = 0
    for i in range(ascending.size):
        if i == 0 or ascending[i] != ascending[i - 1]:
            value[n] = ascending[i]
            times[n] = 0
            n += 1
        times[n - 1] += np.uint32(1)
    return n


@kernel(*(types.int64(row_of(x), row_of(n), row_of(x), row_of(n), x[::1], n[::1]) for x in FLOATS for n in WHOLE))
def merge_counts(first, first_times, second, second_times, value, times):
    """Merge two sorted lists of distinct values and their counts; return how many distinct values there are."""
    i = j = n = 0
    while i < first_times.size or j < second_times.size:
        from_first = j == second_times.size or (i < first_times.size and first[i] <= second[j])
        x = first[i] if from_first else second[j]
        value[n] = x
        times[n] = 0
        if i < first_times.size and first[i] == x:
            times[n] += first_times[i]
            i += 1
        if j < second_times.size and second[j] == x:
            times[n] += second_times[j]
            j += 1
        n += 1
    return n


@kernel(*(types.int64(row_of(x), row_of(x), F8[::1]) for x in FLOATS))
def find_distinct(first, second, found):
    """Write up to 3 distinct scores of two arrays; return how many there are."""
    n = 0
    for scores in (first, second):
        for i in range(scores.size):
            x = np.float64(scores[i])
            if (n > 0 and x == found[0]) or (n > 1 and x == found[1]):
                continue
            found[n] = x
            n += 1
            if n == 3:
                return n
    return n


@kernel(*(types.void(row_of(x), row_of(x), U4[::1]) for x in FLOATS))
def tally_by_gaps(value, negative, tally):
    """Tally negatives, in any order, against few distinct scores of positives."""
    n_values = value.size - 1
    n_buckets = g.buckets_for(n_values)
    kept = np.empty(g.SEGMENT, value.dtype)
    table = g.GapTable(value, np.empty(n_buckets + 1, np.uint32), tally, g.new_segment(), kept)
    g.count_in_gaps(negative, table, n_values, g.fill_buckets(table, n_values))


@kernel(*(types.void(row_of(x), row_of(x), U4[::1]) for x in FLOATS))
def tally_by_merging(value, negative, tally):
    """Tally negatives in ascending order against the distinct scores of positives."""
    tally[:] = 0
    i = 0
    for k in range(value.size - 1):
        start = i
        while i < negative.size and negative[i] < value[k]:
            i += 1
        tally[2 * k] = i - start
        start = i
        while i < negative.size and negative[i] == value[k]:
            i += 1
        tally[2 * k + 1] = i - start
    tally[2 * (value.size - 1)] = negative.size - i


@helper
def groups_of_tally(times, tally, groups):
    """Fill `groups` from how many positives have each distinct score, and the tally of the negatives."""
    n_values = times.size
    positives = 0.0
    negatives = float(tally[2 * n_values]) + float(tally[2 * n_values + 1])
    for group in range(n_values):
        k = n_values - 1 - group
        positives += float(times[k])
        groups.positives[group] = positives
        groups.above[group] = negatives
        negatives += float(tally[2 * k + 1])
        groups.at[group] = negatives
        negatives += float(tally[2 * k])
    return n_values


@kernel(*(types.void(row_of(n), row_of(n), row_of(F8), F8, I8, OPTIONS_TYPE, TARGETS_TYPE, F8[::1]) for n in WHOLE))
def tallied_row(times, tally, counts, n_given, n_distinct, options, targets, out):
    """Evaluate one ranking from its tally; `counts` are those of `Classes`."""
    groups = g.new_groups(times.size)
    n_groups = groups_of_tally(times, tally, groups)
    classes = g.Classes(counts[0], counts[1], counts[2], counts[3])
    n_unseen = 0.0 if np.isnan(n_given) else n_given - (counts[0] + counts[2])
    ranking = g.Ranking(classes, n_unseen, counts[2] + counts[3], counts[0] + counts[1], n_distinct)
    finish(ranking, groups, n_groups, options, targets.codes, out)
    if options.missing == o.MISSING_LAST:
        n_groups = g.append_missing(groups, n_groups, classes)
    no_points = Points(np.empty(0), np.empty(0))  # those between the tie groups are unknown
    unknown = Moments(np.nan, np.nan, np.nan, np.nan)
    curve = Curve(groups, n_groups, no_points, np.empty(0, np.int64), unknown)
    finish_curve(ranking, curve, options, targets, out)
