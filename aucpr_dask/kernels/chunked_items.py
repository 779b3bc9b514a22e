"""A ranking whose items come in chunks: counts of each chunk, and areas from all counts.

Positives travel as their distinct scores, ascending and followed by +inf, and how many there are of each. The negatives
of a chunk are described by a *tally* of two numbers per distinct score: how many lie below it and above the one before,
and how many tie with it; two more numbers count those above all. Tallies of chunks add up to that of the ranking.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.kernels.areas import COUNTS, fill_tallied_groups
from aucpr_dask.kernels.classes import find_distinct, split_rows
from aucpr_dask.kernels.gaps import distinct_scores, tally_scores
from aucpr_dask.kernels.operating_points import finish_rows
from aucpr_dask.kernels.options import N_COLUMNS, Array, Options, Targets
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
    out, space = np.full((1, targets.codes.size + N_COLUMNS), np.nan), np.empty((3, 1, times.size + 1))
    fill_tallied_groups(times.astype(np.float64), tally.astype(np.float64), space[:, 0])
    counts = np.array([[*classes, classes[2:].sum(), classes[:2].sum(), n_distinct]])
    finish_rows(space, np.array([times.size]), counts, np.array([n_given]), options, targets, out)
    return np.asarray(out[0])
