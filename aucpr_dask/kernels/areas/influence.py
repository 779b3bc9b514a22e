"""The influence of every item on the average precision of its ranking, and sums of products of influences.

With g = TP/D the precision at a positive's own tie group, D = TP + s FP and n the weight of all positives, the
derivative of the area with respect to the multiplicity of an item is its weight as a positive times

    p = (g - area + sum over positives at or below it of s FP/D^2) / n

plus its weight as a negative times

    q = -(sum over positives at or below it of s TP/D^2) / n.

These derivatives add up to 0 over all items. With a fixed prevalence they do so within each class: the mean of p, or
q, over the class is subtracted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from aucpr_dask.kernels.areas.basic import left_out_area, scale_to, unseen_loss
from aucpr_dask.kernels.compiling import Cache, helper
from aucpr_dask.kernels.options import MISSING_LAST, MISSING_UNRETRIEVED, Options
from aucpr_dask.kernels.rankings.tie_groups import TieGroups
from aucpr_dask.kernels.signatures import F8, I8, OPTIONS_TYPE, row_of

CACHE = Cache(__name__)

PANEL, TILE, STEP = 256, 64, 4  # columns summed at a time, adjacent rows, columns per step

Floats = NDArray[np.float32] | NDArray[np.float64]


class Influence(NamedTuple):
    """The influence of items on areas."""

    values: NDArray[np.float64]  # (rows, items)
    unseen: NDArray[np.float64]  # (rows,): that of one positive that is not an item
    estimate: NDArray[np.float64]  # (rows,): the average precision
    left_out: NDArray[np.float64]  # (rows,): the area with each positive left out of its own recall
    unseen_loss: NDArray[np.float64]  # (rows,): what one more negative above all items would take from the area


class Units(NamedTuple):
    """The typical weights of one positive and of one negative of each ranking."""

    positive: NDArray[np.float64]  # (rows,)
    negative: NDArray[np.float64]


def influence_rows(
    score: Floats,
    positive_weight: NDArray[np.float64],
    negative_weight: NDArray[np.float64],
    weight_row: NDArray[np.int64],
    options: Options,
    n_unseen: NDArray[np.float64] | None = None,
    *,
    units: Units | None = None,
    prevalence_is_fixed: bool = False,
    is_corrected: bool = False,
) -> Influence:
    """Compute the influence of every item on the average precision of rankings, ties in tie groups.

    `score` has the shape (rows, items), and row i has the class weights in row ``weight_row[i]`` of `positive_weight`
    and `negative_weight`; an item that is left out, or has no weight, has influence 0. `n_unseen` counts positives that
    are not items, with weight 1. `units` are 1 unless given, and matter to the last two fields only. If
    `prevalence_is_fixed`, so are the total weights of the classes. If `is_corrected`, deviations from the mean of a
    class of n items are multiplied by ``sqrt(n / (n - 1))``, so that products of two rows add up to a covariance, and
    all is NaN if a class has fewer than two items. All is NaN without positives.
    """
    n_rows, n_items = score.shape
    values = np.empty((n_rows, n_items))
    facts = np.empty((n_rows, 4))
    unseen = np.zeros(n_rows) if n_unseen is None else n_unseen
    units = Units(np.ones(n_rows), np.ones(n_rows)) if units is None else units
    is_fixed = prevalence_is_fixed or not np.isnan(options.prevalence)
    for row in range(n_rows):
        descending = -score[row].astype(np.float64)
        order = np.argsort(descending)  # NaN last
        weights = positive_weight[weight_row[row]], negative_weight[weight_row[row]]
        design = options, unseen[row], units.positive[row], units.negative[row], is_fixed, is_corrected
        influence_row(descending, order, *weights, *design, values[row], facts[row])
    return Influence(values, *facts.T)


def sums_of_products(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums of products of every row of `left` with every row of `right`: ``left @ right.T``.

    Unlike in a library's matrix product, a sum is bit-for-bit independent of the other rows.
    """
    out = np.zeros((len(left), len(right)))
    add_products(left, right, out)
    return out


class Sample(NamedTuple):
    """One ranking's items by place, from the highest score, and their weights."""

    n_placed: int  # places that belong to a tie group
    n_counted: int  # and those after it, never ranked
    positives: float  # sums of weights
    negatives: float
    n_positive: float  # items of a weight above 0
    n_negative: float


class WeightedBlocks(NamedTuple):
    """Per tie group of tied scores, from the highest."""

    end: np.ndarray  # the place after its last item
    positives: np.ndarray  # weight of the positives at or above it
    negatives: np.ndarray  # `scale` times that of the negatives
    gained: np.ndarray  # weight of the positives in it


@helper
def sample_of(descending, order, positive_weight, negative_weight, options, n_unseen):
    """Count and weigh the items of one ranking, with missing scores as the options say."""
    n_placed = order.size
    while n_placed > 0 and np.isnan(descending[order[n_placed - 1]]):
        n_placed -= 1
    n_counted = order.size if options.missing == MISSING_LAST or options.missing == MISSING_UNRETRIEVED else n_placed
    if options.missing == MISSING_LAST:
        n_placed = order.size
    positives, negatives = n_unseen, 0.0
    n_positive, n_negative = n_unseen, 0.0
    for place in range(n_counted):
        i = order[place]
        positives += positive_weight[i]
        negatives += negative_weight[i]
        n_positive += positive_weight[i] > 0.0
        n_negative += negative_weight[i] > 0.0
    return Sample(n_placed, n_counted, positives, negatives, n_positive, n_negative)


@helper
def groups_of_places(descending, order, positive_weight, negative_weight, n_placed, scale):
    """Return the tie groups of a ranking, including those of negatives, and their number; NaN ties with NaN."""
    groups = WeightedBlocks(np.empty(n_placed, np.int64), np.empty(n_placed), np.empty(n_placed), np.empty(n_placed))
    n_groups = place = 0
    positives = negatives = 0.0
    while place < n_placed:
        x = descending[order[place]]
        gained = 0.0
        while place < n_placed:
            i = order[place]
            if not (descending[i] <= x or np.isnan(x)):
                break
            gained += positive_weight[i]
            negatives += negative_weight[i]
            place += 1
        positives += gained
        groups.end[n_groups] = place
        groups.positives[n_groups] = positives
        groups.negatives[n_groups] = scale * negatives
        groups.gained[n_groups] = gained
        n_groups += 1
    return groups, n_groups


@helper
def area_and_exchange(groups, n_groups):
    """Return the sums over positives of precision and of s TP FP/D^2, which moves area between the classes."""
    area = exchange = 0.0
    for k in range(n_groups):
        if groups.gained[k] > 0.0:
            size = groups.positives[k] + groups.negatives[k]
            area += groups.gained[k] * (groups.positives[k] / size)
            exchange += groups.gained[k] * (groups.positives[k] / size) * (groups.negatives[k] / size)
    return area, exchange


@helper
def stretch(derivative, mean, n_items, is_fixed, is_corrected):
    """Adjust a derivative to the design; `mean` is that of its class, `n_items` the size."""
    deviation = derivative - mean
    if is_corrected:
        deviation *= np.sqrt(n_items / (n_items - 1.0))
    return deviation if is_fixed else deviation + mean


@CACHE.kernel(
    types.void(
        *(row_of(F8), row_of(I8), row_of(F8), row_of(F8), OPTIONS_TYPE, F8, F8, F8),
        *(types.boolean, types.boolean, F8[::1], F8[::1]),
    )
)
def influence_row(
    descending,
    order,
    positive_weight,
    negative_weight,
    options,
    n_unseen,
    positive_unit,
    negative_unit,
    is_fixed,
    is_corrected,
    values,
    facts,
):
    """Write the influences of items to `values`, and the other fields of `Influence` to `facts`; NaN come last."""
    sample = sample_of(descending, order, positive_weight, negative_weight, options, n_unseen)
    total, negatives = sample.positives, sample.negatives
    scale = scale_to(options.prevalence, total, negatives)
    groups, n_groups = groups_of_places(descending, order, positive_weight, negative_weight, sample.n_placed, scale)
    area, exchange = area_and_exchange(groups, n_groups)
    area /= total
    facts[1] = area
    sums = TieGroups(groups.positives, groups.negatives, groups.negatives)
    facts[2] = left_out_area(sums, n_groups, total, 1.0, positive_unit)
    facts[3] = unseen_loss(sums, n_groups, total, 1.0, scale * negative_unit)
    if not total > 0.0 or (is_corrected and min(sample.n_positive, sample.n_negative) < 2.0):
        facts[0] = np.nan
        values[:] = np.nan
        return

    positive_mean = exchange / total / total
    negative_mean = -exchange / total / negatives if negatives > 0.0 else 0.0
    missed = stretch(-area / total, positive_mean, sample.n_positive, is_fixed, is_corrected)
    behind = stretch(0.0, negative_mean, sample.n_negative, is_fixed, is_corrected)
    facts[0] = missed
    values[:] = 0.0
    for place in range(sample.n_placed, sample.n_counted):
        i = order[place]
        values[i] = positive_weight[i] * missed + negative_weight[i] * behind
    rise = fall = 0.0
    for k in range(n_groups - 1, -1, -1):
        precision = 0.0
        if groups.gained[k] > 0.0:
            size = groups.positives[k] + groups.negatives[k]
            precision = groups.positives[k] / size
            rise += groups.gained[k] * (groups.negatives[k] / size) / size
            fall += groups.gained[k] * scale * precision / size
        derivative = (precision - area + rise) / total
        positive = stretch(derivative, positive_mean, sample.n_positive, is_fixed, is_corrected)
        negative = stretch(-fall / total, negative_mean, sample.n_negative, is_fixed, is_corrected)
        for place in range(groups.end[k - 1] if k > 0 else 0, groups.end[k]):
            i = order[place]
            values[i] = positive_weight[i] * positive + negative_weight[i] * negative


@CACHE.kernel(types.void(types.Array(F8, 2, "A", readonly=True), types.Array(F8, 2, "A", readonly=True), F8[:, ::1]))
def add_products(left, right, out):
    """Add to `out` the sums of products of every row of `left` with every row of `right`.

    Each sum runs over panels of `PANEL` columns, and within a panel from left to right, one rounded product after the
    other, for any other rows. The innermost loop runs over rows of `right`, so it compiles to vector instructions
    without changing the order of any sum.
    """
    n_columns = left.shape[1]
    sums = np.empty(TILE)
    for start in range(0, n_columns, PANEL):
        size = min(PANEL, n_columns - start)
        row, panel = np.zeros(PANEL), np.zeros((PANEL, TILE))  # zero from `size` on, where the steps overshoot
        for first in range(0, right.shape[0], TILE):
            width = min(TILE, right.shape[0] - first)
            for j in range(width):
                for c in range(size):
                    panel[c, j] = right[first + j, start + c]
            for i in range(left.shape[0]):
                for c in range(size):
                    row[c] = left[i, start + c]
                sums[:] = 0.0
                for c in range(0, size, STEP):
                    for j in range(width):
                        total = sums[j] + row[c] * panel[c, j]
                        total += row[c + 1] * panel[c + 1, j]
                        total += row[c + 2] * panel[c + 2, j]
                        sums[j] = total + row[c + 3] * panel[c + 3, j]
                for j in range(width):
                    out[i, first + j] += sums[j]


CACHE.publish()
