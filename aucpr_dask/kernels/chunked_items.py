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
from aucpr_dask.kernels.classes import find_distinct, split_rows
from aucpr_dask.kernels.compiling import F8, I8, OPTIONS_TYPE, TARGETS_TYPE, kernel, row_of
from aucpr_dask.kernels.gaps import distinct_scores, tally_scores
from aucpr_dask.kernels.interpolation import Moments, Points
from aucpr_dask.kernels.operating_points import Curve, finish_curve
from aucpr_dask.kernels.options import Array, Options, Targets
from aucpr_dask.kernels.sorting import Floats

Counts = NDArray[Any]  # whole numbers from 0, of any unsigned type


def split_items(score: Floats, label: NDArray[np.int8], options: Options) -> tuple[Floats, Floats, Array]:
    """Return the scores of positives and negatives, and the numbers of each with and without a score."""
    positive, negative = np.empty((2, 1, score.size + 1), score.dtype)
    counts = np.empty((1, COUNTS))
    split_rows(score[np.newaxis], label[np.newaxis], np.zeros(1, np.int64), options, positive, negative, counts)
    classes = counts[0, :4]
    return positive[0, : int(classes[0])], negative[0, : int(classes[1])], classes


def counted_scores(positive: Floats) -> tuple[Floats, Counts]:
    """Return the distinct scores, ascending and followed by +inf, and how many there are of each; sorts in place."""
    positive.sort()
    value, times = distinct_scores(positive)
    return value, narrow(times)


def three_scores(positive: Floats, negative: Floats) -> Array:
    """Return up to three distinct scores of both, then NaN."""
    found = np.full(3, np.nan)
    find_distinct(negative, positive, found)
    return found


def merge_scores(score: Floats, times: Counts, other: Floats, other_times: Counts) -> tuple[Floats, Counts]:
    """Merge two lists of distinct scores and their counts."""
    both, counts = (np.concatenate(pair) for pair in ((score[:-1], other[:-1]), (times, other_times)))
    order = np.argsort(both, kind="stable")  # NumPy merges what is in order
    value, counts = distinct_scores(both[order], counts[order].astype(np.uint64))
    return value, narrow(counts)


def tally_items(value: Floats, negative: Floats) -> Counts:
    """Return how many negatives, in any order, lie below, and tie with, each of the distinct scores."""
    tally = np.zeros(2 * value.size, np.uint32)
    if value.size > 1:
        tally_scores(value, negative, False, tally)
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


@kernel(types.void(*[row_of(F8)] * 3, F8, I8, OPTIONS_TYPE, TARGETS_TYPE, F8[::1]))
def tallied_row(times, tally, counts, n_given, n_distinct, options, targets, out):
    """Evaluate one ranking from its tally; `counts` are those of `Classes`."""
    groups = g.new_groups(times.size)
    g.groups_of_tally(times, tally, groups)
    n_groups = times.size
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
