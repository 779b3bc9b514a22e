"""Counts of the items of one chunk, and the numbers that follow from the counts of all chunks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.kernels.areas import COUNTS
from aucpr_dask.kernels.classes import split_rows
from aucpr_dask.kernels.options import N_COLUMNS, Options, Targets
from aucpr_dask.kernels.sorting import Floats

Counts = NDArray[Any]  # whole numbers from 0, of any unsigned type

FEW_SCORES = 1 << 17  # distinct scores of positives up to which negatives are counted without being sorted


def split_items(score: Floats, label: NDArray[np.int8], options: Options) -> tuple[Floats, Floats, NDArray[np.float64]]:
    """Return the scores of positives and negatives, and the numbers of each with and without a score."""
    positive, negative = np.empty((2, 1, score.size + 1), score.dtype)
    counts = np.empty((1, COUNTS))
    split_rows(score[np.newaxis], label[np.newaxis], np.zeros(1, np.int64), options, positive, negative, counts)
    classes = counts[0, :4]
    return positive[0, : int(classes[0])], negative[0, : int(classes[1])], classes


def distinct_scores(positive: Floats) -> tuple[Floats, NDArray[np.uint32]]:
    """Return the distinct scores, ascending and followed by +inf, and how many there are of each; sorts in place."""
    from aucpr_dask.kernels.chunked.passes import count_distinct_scores

    positive.sort()
    value, times = np.empty(positive.size + 1, positive.dtype), np.empty(positive.size, np.uint32)
    n_scores = count_distinct_scores(positive, value, times)
    return _ended(value, n_scores), times[:n_scores].copy()


def three_scores(positive: Floats, negative: Floats) -> NDArray[np.float64]:
    """Return up to three distinct scores of both, then NaN."""
    from aucpr_dask.kernels.chunked.passes import find_distinct

    found = np.full(3, np.nan)
    find_distinct(negative, positive, found)
    return found


def merge_scores(score: Floats, times: Counts, other: Floats, other_times: Counts) -> tuple[Floats, Counts]:
    """Merge two lists of distinct scores and their counts."""
    from aucpr_dask.kernels.chunked.passes import merge_counts

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
    from aucpr_dask.kernels.chunked.passes import tally_by_gaps, tally_by_merging

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
    classes: NDArray[np.float64],
    n_given: float,
    n_distinct: int,
    options: Options,
    targets: Targets,
) -> NDArray[np.float64]:
    """Return the row of numbers of one ranking that `rankings.evaluate_all_rows` returns."""
    from aucpr_dask.kernels.chunked.passes import tallied_row

    out = np.full(targets.codes.size + N_COLUMNS, np.nan)
    kind: Any = np.uint64 if np.uint64 in (times.dtype, tally.dtype) else np.uint32
    counts = times.astype(kind, copy=False), tally.astype(kind, copy=False)
    tallied_row(*counts, classes, n_given, n_distinct, options, targets, out)
    return out
