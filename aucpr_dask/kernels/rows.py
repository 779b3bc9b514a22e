"""Rankings by the row: the entry points of the compiled code, and which of them serves which ranking.

Short rankings go through one compiled loop, in float64 to compile it once only. Long ones come one by one,
so that NumPy's vectorised sort can be used: where positives are few only they are sorted, unless that sort
is the faster way; otherwise both classes are, apart.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from aucpr_dask.kernels import areas
from aucpr_dask.kernels.compiling import helper, kernel, publish
from aucpr_dask.kernels.ranking import (
    BUCKETS_PER_POSITIVE,
    SEGMENT,
    Blocks,
    Classes,
    GapTable,
    append_missing,
    blocks_by_gaps,
    blocks_by_merging,
    blocks_by_weights,
    two_sum,
)

Floats = NDArray[np.float32] | NDArray[np.float64]

COLUMNS = (
    "n_positive",  # what the estimates divide by
    "n_negative",
    "n_missing",  # items without a score
    "n_ranked",  # items with a score
    "n_unseen",  # positives that are no item at all; negative if n_positive was given too small
    "tied_share",  # share of the ranked positives that share their score with a negative
    "roc_area",
    "n_distinct",  # distinct scores, counted up to 3
    "ties_matter",  # 1 if another order of tied items could change an area
)
N_COLUMNS = len(COLUMNS)

SHORT = 4096  # items up to which a ranking goes through the compiled loop
FEW_POSITIVES = 1 / 32  # share of positives up to which a long ranking sorts only them
TABLE_POSITIVES = 16384  # positives up to which the table of gaps stays in a core's own cache

# With AVX-512, NumPy sorts a million float32 in 3 ms, less than dropping them into gaps takes.
SORTS_FAST = any(name.startswith(("AVX512", "X86_V4")) for name in np.show_config("dicts")["SIMD Extensions"]["found"])

MISSING_RAISE, MISSING_DROP, MISSING_LAST, MISSING_UNRETRIEVED = 0, 1, 2, 3
GAPS = np.array([3548, 1577, 701, 301, 132, 57, 23, 10, 4, 1])  # of a Shell sort (Ciura)


class Options(NamedTuple):
    """What the labels, the missing scores and the ties of a call mean."""

    positive_from: int = 1
    drop_unjudged: int = 0
    missing: int = MISSING_RAISE
    expect_ties: int = 0  # 1: the expectation over a random order of tied items
    prevalence: float = np.nan  # NaN: that of the sample


class Ranking(NamedTuple):
    """One ranking, beside its blocks."""

    classes: Classes
    n_unseen: float  # positives that are no item
    n_missing: float
    n_ranked: float
    n_distinct: int


_OPTIONS = types.NamedTuple((types.int64, types.int64, types.int64, types.int64, types.float64), Options)
_I1, _I4, _I8, _F8 = types.int8, types.int32, types.int64, types.float64
_FLOATS = (types.float32, types.float64)


@helper
def split(score, label, options, positive, negative):
    """Copy the scores of the two classes, NaN and ignored items left out, and count them."""
    lowest = np.int8(options.drop_unjudged - 1)
    positive_from = np.int8(options.positive_from)
    all_items = all_positive = missing = 0
    for i in range(label.size):
        all_items += label[i] >= lowest
        all_positive += label[i] >= positive_from
    for i in range(score.size):
        missing += np.isnan(score[i])
    n_positive = n_negative = 0
    # Each score is written to both ends and only one end moves: without branches, random labels cost nothing.
    if missing == 0 and all_items == score.size:
        for i in range(score.size):
            is_positive = label[i] >= positive_from
            positive[n_positive] = score[i]
            negative[n_negative] = score[i]
            n_positive += is_positive
            n_negative += not is_positive
    else:
        for i in range(score.size):
            is_positive = label[i] >= positive_from
            is_ranked = label[i] >= lowest and not np.isnan(score[i])
            positive[n_positive] = score[i]
            negative[n_negative] = score[i]
            n_positive += is_ranked and is_positive
            n_negative += is_ranked and not is_positive
    return Classes(
        float(n_positive),
        float(n_negative),
        float(all_positive - n_positive),
        float(all_items - all_positive - n_negative),
    )


@helper
def count_distinct(first, second):
    """Count the distinct scores of two arrays, up to 3."""
    n = 0
    one = two = 0.0
    for scores in (first, second):
        for i in range(scores.size):
            x = scores[i]
            if n == 0:
                one = x
                n = 1
            elif n == 1 and x != one:
                two = x
                n = 2
            elif n == 2 and x != one and x != two:
                return 3
    return n


@helper
def sort_few(values):
    """Sort a short array in place (Shell sort): far quicker to compile than a general sort."""
    for gap in GAPS:
        for i in range(gap, values.size):
            x = values[i]
            j = i
            while j >= gap and values[j - gap] > x:
                values[j] = values[j - gap]
                j -= gap
            values[j] = x


@helper
def finish(ranking, blocks, n_blocks, options, codes, out):
    """Write the estimates and the columns of one ranking."""
    classes = ranking.classes
    facts = out[codes.size :]
    facts[5] = areas.tied_share(blocks, n_blocks)
    facts[6] = areas.roc_area(blocks, n_blocks, classes.negatives)
    if options.missing == MISSING_LAST:
        n_blocks = append_missing(blocks, n_blocks, classes)
    total, negatives = totals(classes, ranking.n_unseen, options)
    facts[0] = total
    facts[1] = negatives
    facts[2] = ranking.n_missing
    facts[3] = ranking.n_ranked
    facts[4] = ranking.n_unseen
    facts[7] = ranking.n_distinct
    facts[8] = areas.ties_matter(blocks, n_blocks)

    scale = 1.0
    if not np.isnan(options.prevalence) and negatives > 0.0:
        scale = total * (1.0 - options.prevalence) / (negatives * options.prevalence)
    for e in range(codes.size):
        if not total > 0.0:
            area = np.nan
        elif options.expect_ties:
            area = areas.expected_average_precision(blocks, n_blocks, total)
        else:
            area = areas.area_of(codes[e], blocks, n_blocks, total, scale)
        out[e] = 1.0 if area > 1.0 else area


@helper
def totals(classes, n_unseen, options):
    """Return the positives that the areas divide by, and the negatives of the sample."""
    positives = classes.positives + n_unseen
    negatives = classes.negatives
    if options.missing != MISSING_DROP:
        positives += classes.missing_positives
        negatives += classes.missing_negatives
    return positives, negatives


@helper
def new_table(n_positive, like):
    """Return work space for rankings of up to `n_positive` positives, with scores of the type of `like`."""
    return GapTable(
        np.empty(n_positive + 1, like.dtype),
        np.empty(BUCKETS_PER_POSITIVE * n_positive + 2, np.int32),
        np.empty(2 * n_positive + 2, np.uint32),
        np.empty(SEGMENT, np.int32),
    )


@helper
def new_blocks(n_positive):
    """Return a ranking state with room for the blocks of `n_positive` positives and the missing ones."""
    return Blocks(np.empty(n_positive + 1), np.empty(n_positive + 1), np.empty(n_positive + 1))


@helper
def ranking_of(positive, negative, classes, n_given):
    """Gather what is known of one ranking; `n_given` is NaN or the positives there are in all."""
    labelled = classes.positives + classes.missing_positives
    return Ranking(
        classes,
        0.0 if np.isnan(n_given) else n_given - labelled,
        classes.missing_positives + classes.missing_negatives,
        classes.positives + classes.negatives,
        count_distinct(negative, positive),
    )


@helper
def weight_of(items, positive_weight, negative_weight):
    """Return the summed weights of some items in both classes."""
    positives = positives_error = negatives = negatives_error = 0.0
    for k in range(items.size - 1, -1, -1):
        positives, positives_error = two_sum(positives, positives_error, positive_weight[items[k]])
        negatives, negatives_error = two_sum(negatives, negatives_error, negative_weight[items[k]])
    return positives + positives_error, negatives + negatives_error


def _row(real):
    return types.Array(real, 1, "C", readonly=True)


def _rows(real):
    return types.Array(real, 2, "C", readonly=True)


@kernel(types.void(_rows(_F8), _rows(_I1), _row(_I8), _row(_F8), _OPTIONS, _row(_I8), _F8[:, ::1]))
def short_rows(score, label, label_row, n_given, options, codes, out):
    """Evaluate every row of `score`, each by its row of labels."""
    n_rows, n_items = score.shape
    table = new_table(n_items, score)
    blocks = new_blocks(n_items)
    positive = np.empty(n_items + 1, score.dtype)
    negative = np.empty(n_items + 1, score.dtype)
    for row in range(n_rows):
        labels = label[label_row[row]]
        classes = split(score[row], labels, options, positive, negative)
        positives = positive[: np.int64(classes.positives)]
        negatives = negative[: np.int64(classes.negatives)]
        sort_few(positives)
        n_blocks = blocks_by_gaps(positives, negatives, table, blocks, False)
        ranking = ranking_of(positives, negatives, classes, n_given[row])
        finish(ranking, blocks, n_blocks, options, codes, out[row])


@kernel(*(types.void(_row(x), _row(_I1), _OPTIONS, x[::1], x[::1], _F8[::1]) for x in _FLOATS))
def split_row(score, label, options, positive, negative, counts):
    """Copy the scores of the two classes of one long ranking, and write their counts."""
    classes = split(score, label, options, positive, negative)
    counts[0], counts[1] = classes.positives, classes.negatives
    counts[2], counts[3] = classes.missing_positives, classes.missing_negatives


@kernel(
    *(
        types.boolean(
            x[::1],
            x[::1],
            types.boolean,
            _F8[::1],
            _F8,
            _OPTIONS,
            _row(_I8),
            _F8[::1],
        )
        for x in _FLOATS
    )
)
def long_row(positive, negative, is_sorted, counts, n_given, options, codes, out):
    """Evaluate one long ranking; return False if its negatives have to be sorted first."""
    blocks = new_blocks(positive.size)
    classes = Classes(counts[0], counts[1], counts[2], counts[3])
    if is_sorted:
        n_blocks = blocks_by_merging(positive, negative, blocks)
    else:
        table = new_table(positive.size, positive)
        n_blocks = blocks_by_gaps(positive, negative, table, blocks, True)
        if n_blocks < 0:
            return False
    ranking = ranking_of(positive, negative, classes, n_given)
    finish(ranking, blocks, n_blocks, options, codes, out)
    return True


@kernel(types.void(_row(_F8), _row(_I8), _row(_F8), _row(_F8), _OPTIONS, _row(_I8), _F8[::1]))
def weighted_row(score, order, positive_weight, negative_weight, options, codes, out):
    """Evaluate one weighted ranking; `order` sorts it in ascending order, NaN last."""
    n_ranked = order.size
    while n_ranked > 0 and np.isnan(score[order[n_ranked - 1]]):
        n_ranked -= 1
    blocks = new_blocks(n_ranked)
    n_blocks = blocks_by_weights(score, order[:n_ranked], positive_weight, negative_weight, blocks)
    positives, negatives = weight_of(order[:n_ranked], positive_weight, negative_weight)
    missing_positives, missing_negatives = weight_of(order[n_ranked:], positive_weight, negative_weight)
    classes = Classes(positives, negatives, missing_positives, missing_negatives)
    ranked = score[order[:n_ranked]]
    ranking = Ranking(
        classes,
        0.0,
        float(order.size - n_ranked),
        float(n_ranked),
        count_distinct(ranked, ranked),
    )
    finish(ranking, blocks, n_blocks, options, codes, out)


publish()


def evaluate_rows(
    score: Floats,
    label: NDArray[np.int8],
    label_row: NDArray[np.int64],
    n_given: NDArray[np.float64],
    options: Options,
    codes: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Evaluate rankings with hard labels.

    Parameters
    ----------
    score : ndarray, shape (rows, items), float32 or float64
    label : ndarray, shape (label rows, items), int8
    label_row : ndarray of int64, shape (rows,)
        Which row of `label` belongs to each row of `score`.
    n_given : ndarray of float64, shape (rows,)
        All positives there are, or NaN for those among the items.
    options : Options
    codes : ndarray of int64, shape (estimators,)

    Returns
    -------
    ndarray of float64, shape (rows, estimators + len(COLUMNS))
    """
    out = np.full((len(score), codes.size + N_COLUMNS), np.nan)
    n_items = score.shape[1]
    if n_items <= SHORT:
        short_rows(score.astype(np.float64), label, label_row, n_given, options, codes, out)
        return out
    positive = np.empty(n_items + 1, score.dtype)
    negative = np.empty(n_items + 1, score.dtype)
    counts = np.empty(4)
    for row in range(len(score)):
        split_row(score[row], label[label_row[row]], options, positive, negative, counts)
        positives, negatives = positive[: int(counts[0])], negative[: int(counts[1])]
        positives.sort()
        arguments = counts, n_given[row], options, codes, out[row]
        few = positives.size <= min(TABLE_POSITIVES, FEW_POSITIVES * n_items)
        by_gaps = few and not (SORTS_FAST and score.dtype == np.float32)
        if not by_gaps or not long_row(positives, negatives, False, *arguments):
            negatives.sort()
            long_row(positives, negatives, True, *arguments)
    return out


def evaluate_weighted_rows(
    score: Floats,
    positive_weight: NDArray[np.float64],
    negative_weight: NDArray[np.float64],
    weight_row: NDArray[np.int64],
    options: Options,
    codes: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Evaluate rankings in which every item carries a weight as a positive and one as a negative; ties in blocks.

    Parameters
    ----------
    score : ndarray, shape (rows, items), float32 or float64
    positive_weight, negative_weight : ndarray, shape (weight rows, items), float64
        Items with two zero weights are left out.
    weight_row : ndarray of int64, shape (rows,)
    options : Options
    codes : ndarray of int64, shape (estimators,)

    Returns
    -------
    ndarray of float64, shape (rows, estimators + len(COLUMNS))
    """
    out = np.full((len(score), codes.size + N_COLUMNS), np.nan)
    score = score.astype(np.float64)
    for row in range(len(score)):
        weights = positive_weight[weight_row[row]], negative_weight[weight_row[row]]
        carried = np.flatnonzero((weights[0] > 0) | (weights[1] > 0))
        order = carried[np.argsort(score[row][carried])]
        weighted_row(score[row], order, *weights, options, codes, out[row])
    return out
