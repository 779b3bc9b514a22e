"""The estimators: one small function each, from the ranking state to an area.

`scale` multiplies every count of negatives: 1, or what moves the sample to another prevalence.
`total` is the number (or weight) of all positives, those never ranked included.
"""

from __future__ import annotations

import numpy as np

from aucpr_dask.kernels.compiling import helper
from aucpr_dask.kernels.ranking import two_sum

AVERAGE_PRECISION, LOWER_TRAPEZOID, UPPER_TRAPEZOID = 0, 1, 2


@helper
def average_precision(blocks, n_blocks, total, scale):
    """Sum of (recall gained) x (precision at the block)."""
    area = error = before = 0.0
    for k in range(n_blocks):
        positives = blocks.positives[k]
        precision = positives / (positives + scale * blocks.at[k])
        area, error = two_sum(area, error, (positives - before) * precision)
        before = positives
    return (area + error) / total


@helper
def lower_trapezoid(blocks, n_blocks, total, scale):
    """Trapezoids from the smallest precision at the left recall to the largest at the right one."""
    area = error = before = 0.0
    for k in range(n_blocks):
        positives = blocks.positives[k]
        above = scale * blocks.above[k]
        # At recall 0 stands the point (0, 1), or precision 0 if negatives come before the first positive.
        left = before / (before + above) if k > 0 else (1.0 if above == 0.0 else 0.0)
        right = positives / (positives + scale * blocks.at[k])
        area, error = two_sum(area, error, 0.5 * (left + right) * (positives - before))
        before = positives
    return (area + error) / total


@helper
def upper_trapezoid(blocks, n_blocks, total, scale):
    """Trapezoids from the largest precision at the left recall to the largest at the right one."""
    area = error = before = 0.0
    left = 1.0
    for k in range(n_blocks):
        positives = blocks.positives[k]
        right = positives / (positives + scale * blocks.at[k])
        area, error = two_sum(area, error, 0.5 * (left + right) * (positives - before))
        left = right
        before = positives
    return (area + error) / total


@helper
def expected_average_precision(blocks, n_blocks, total):
    """Average precision in expectation over a random order of the items within each block.

    The item at place i of a block of t items, c of them positive, is positive with probability c/t, and then
    (i - 1)(c - 1)/(t - 1) positives of the block are expected before it.
    """
    area = error = before = 0.0
    for k in range(n_blocks):
        gained = blocks.positives[k] - before
        size = gained + blocks.at[k] - blocks.above[k]
        ahead = before + blocks.above[k]
        growth = (gained - 1.0) / (size - 1.0) if size > 1.0 else 0.0
        for i in range(np.int64(size)):
            precision = (before + i * growth + 1.0) / (ahead + i + 1.0)
            area, error = two_sum(area, error, gained / size * precision)
        before = blocks.positives[k]
    return (area + error) / total


@helper
def area_of(code, blocks, n_blocks, total, scale):
    """Return the area of the estimator with this code, ties kept in blocks."""
    if code == AVERAGE_PRECISION:
        return average_precision(blocks, n_blocks, total, scale)
    if code == LOWER_TRAPEZOID:
        return lower_trapezoid(blocks, n_blocks, total, scale)
    if code == UPPER_TRAPEZOID:
        return upper_trapezoid(blocks, n_blocks, total, scale)
    return np.nan


@helper
def roc_area(blocks, n_blocks, negatives):
    """Area under the ROC curve of the ranked items, ties counted one half; NaN if a class is empty."""
    if n_blocks == 0 or negatives == 0.0:
        return np.nan
    pairs = before = 0.0
    for k in range(n_blocks):
        gained = blocks.positives[k] - before
        pairs += gained * (negatives - 0.5 * (blocks.above[k] + blocks.at[k]))
        before = blocks.positives[k]
    return pairs / (before * negatives)


@helper
def tied_share(blocks, n_blocks):
    """Share of the ranked positives whose block also holds a negative."""
    if n_blocks == 0:
        return 0.0
    tied = before = 0.0
    for k in range(n_blocks):
        if blocks.at[k] > blocks.above[k]:
            tied += blocks.positives[k] - before
        before = blocks.positives[k]
    return tied / before


@helper
def ties_matter(blocks, n_blocks):
    """Whether a block holds a positive beside another item, so that an order within it would matter."""
    before = 0.0
    for k in range(n_blocks):
        if blocks.positives[k] - before > 1.0 or blocks.at[k] > blocks.above[k]:
            return 1.0
        before = blocks.positives[k]
    return 0.0
