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
from aucpr_dask.kernels.compiling import F8, FLOATS, I8, OPTIONS_TYPE, TARGETS_TYPE, U4, U8, helper, kernel, row_of
from aucpr_dask.kernels.interpolation import Moments, Points
from aucpr_dask.kernels.options import Array, Options, Targets
from aucpr_dask.kernels.points import Curve, finish_curve
from aucpr_dask.kernels.sorting import Floats

Counts = NDArray[Any]  # whole numbers from 0, of any unsigned type


def split_items(score: Floats, label: NDArray[np.int8], options: Options) -> tuple[Floats, Floats, Array]:
    """Return the scores of positives and negatives, and the numbers of each with and without a score."""
    positive, negative = np.empty((2, 1, score.size + 1), score.dtype)
    counts = np.empty((1, COUNTS))
    split_rows(score[np.newaxis], label[np.newaxis], np.zeros(1, np.int64), options, positive, negative, counts)
    classes = counts[0, :4]
    return positive[0, : int(classes[0])], negative[0, : int(classes[1])], classes


def distinct_scores(positive: Floats) -> tuple[Floats, Counts]:
    """Return the distinct scores, ascending and followed by +inf, and how many there are of each; sorts in place."""
    positive.sort()
    starts = np.flatnonzero(np.append(True, positive[1:] != positive[:-1])[: positive.size])
    return _ended(positive[starts]), narrow(np.diff(starts, append=positive.size))


def three_scores(positive: Floats, negative: Floats) -> Array:
    """Return up to three distinct scores of both, then NaN."""
    found = np.full(3, np.nan)
    find_distinct(negative, positive, found)
    return found


def merge_scores(score: Floats, times: Counts, other: Floats, other_times: Counts) -> tuple[Floats, Counts]:
    """Merge two lists of distinct scores and their counts."""
    n_both = times.size + other_times.size
    value, count = np.empty(n_both + 1, score.dtype), np.empty(n_both, np.uint64)
    n_scores = merge_counts(score, other, times.astype(np.uint64), other_times.astype(np.uint64), value, count)
    return _ended(value[:n_scores]), narrow(count[:n_scores])


def _ended(value: Floats) -> Floats:
    """Return values followed by +inf, in a new array."""
    return np.append(value, value.dtype.type(np.inf))  # type: ignore[return-value]


def tally_items(value: Floats, negative: Floats) -> Counts:
    """Return how many negatives, in any order, lie below, and tie with, each of the distinct scores."""
    tally = np.zeros(2 * value.size, np.uint32)
    if value.size > 1:
        tally_by_gaps(value, negative, tally)
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
    tallied_row(times.astype(np.float64), tally.astype(np.float64), classes, n_given, n_distinct, options, targets, out)
    return out


@kernel(*(types.int64(row_of(x), row_of(x), row_of(U8), row_of(U8), x[::1], U8[::1]) for x in FLOATS))
def merge_counts(first, second, first_times, second_times, value, times):
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


@helper
def groups_of_tally(times, tally, groups):
    """Fill `groups` from how many positives have each distinct score, and the tally of the negatives."""
    n_values = times.size
    positives = 0.0
    negatives = tally[2 * n_values] + tally[2 * n_values + 1]
    for group in range(n_values):
        k = n_values - 1 - group
        positives += times[k]
        groups.positives[group] = positives
        groups.above[group] = negatives
        negatives += tally[2 * k + 1]
        groups.at[group] = negatives
        negatives += tally[2 * k]
    return n_values


@kernel(types.void(*[row_of(F8)] * 3, F8, I8, OPTIONS_TYPE, TARGETS_TYPE, F8[::1]))
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
