"""Which of the compiled entry points serves which ranking.

Short rankings go through one compiled loop. Long ones come one by one, so that NumPy's vectorised sort can be
used: where positives are few only they are sorted, otherwise both classes are, apart. Each entry point is
compiled, or loaded from the cache, when a ranking first needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from aucpr_dask.kernels.areas import ERROR_FIXED
from aucpr_dask.kernels.finishing import N_COLUMNS, Options, Targets

Floats = NDArray[np.float32] | NDArray[np.float64]

_PANEL = np.stack(np.polynomial.legendre.leggauss(20))

SHORT = 4096  # items up to which a ranking goes through the compiled loop
CACHE_ITEMS = 1 << 16  # scores converted to float64 at a time, so that they are read from a core's own cache
REACH = 9.0  # standard deviations beyond which a normal tail is below rounding
FEW_POSITIVES = 1 / 32  # share of positives up to which a long ranking sorts only them
FEW_WEIGHTED = 1 / 3  # the same, with weights and float64 scores
MOST_WEIGHTED = 2**30  # items with weights in one ranking, whose places have to fit into 30 bits
TABLE_POSITIVES = 16384  # positives up to which the table of gaps stays in a core's own cache


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
        from aucpr_dask.kernels.short import short_rows

        step = max(1, CACHE_ITEMS // max(1, n_items))
        for start in range(0, len(score), step):
            part = slice(start, start + step)
            short_rows(score[part].astype(np.float64), label, label_row[part], n_given[part], options, codes, out[part])
        return out
    from aucpr_dask.kernels.long import long_row, split_row

    positive = np.empty(n_items + 1, score.dtype)
    negative = np.empty(n_items + 1, score.dtype)
    counts = np.empty(4)
    for row in range(len(score)):
        split_row(score[row], label[label_row[row]], options, positive, negative, counts)
        positives, negatives = positive[: int(counts[0])], negative[: int(counts[1])]
        positives.sort()
        arguments = counts, n_given[row], options, codes, out[row]
        few = positives.size <= min(TABLE_POSITIVES, FEW_POSITIVES * n_items)
        if not few or not long_row(positives, negatives, False, *arguments):
            negatives.sort()
            long_row(positives, negatives, True, *arguments)
    return out


def targets_of(codes: Sequence[int], parameters: Sequence[float], recall_range: tuple[float, float]) -> Targets:
    """Return what to compute; recalls come with their normal quantiles."""
    quantiles = np.clip(ndtri(recall_range), -REACH, REACH)
    return Targets(
        np.array(codes, dtype=np.int64), np.array(parameters, np.float64), np.array([*recall_range, *quantiles])
    )


def evaluate_all_rows(
    score: Floats,
    label: NDArray[np.int8],
    label_row: NDArray[np.int64],
    n_given: NDArray[np.float64],
    options: Options,
    targets: Targets,
) -> NDArray[np.float64]:
    """Evaluate rankings with hard labels by any estimator, over any range of recall.

    Parameters
    ----------
    score, label, label_row, n_given, options
        See :func:`evaluate_rows`.
    targets : Targets

    Returns
    -------
    ndarray of float64, shape (rows, estimators + len(COLUMNS))
    """
    from aucpr_dask.kernels.full import full_row, split_classes

    out = np.full((len(score), targets.codes.size + N_COLUMNS), np.nan)
    positive, negative = np.empty((2, score.shape[1] + 1))
    points = np.empty((2, score.shape[1] + 1))
    counts = np.empty(4)
    for row in range(len(score)):
        items = score[row].astype(np.float64)
        split_classes(items, label[label_row[row]], options, positive, negative, counts)
        positives, negatives = positive[: int(counts[0])], negative[: int(counts[1])]
        positives.sort()
        negatives.sort()
        full_row(positives, negatives, points, counts, n_given[row], _PANEL, options, *targets, out[row])
    return out


def evaluate_weighted_rows(
    score: Floats,
    classes: NDArray[np.int8],
    class_row: NDArray[np.int64],
    positive_weight: NDArray[np.float64],
    negative_weight: NDArray[np.float64],
    weight_row: NDArray[np.int64],
    options: Options,
    targets: Targets,
) -> NDArray[np.float64]:
    """Evaluate rankings whose items carry weights, ties in blocks.

    Parameters
    ----------
    score : ndarray, shape (rows, items), float32 or float64
        Up to `MOST_WEIGHTED` items.
    classes : ndarray, shape (class rows, items), int8
        1 for a negative, 2 for a positive, 3 for an item of both classes, 0 for one that is left out.
    class_row : ndarray of int64, shape (rows,)
        Which row of `classes` belongs to each row of `score`.
    positive_weight, negative_weight : ndarray, shape (weight rows, items), float64
        The weights of the items in their classes; of weight 0, they are left out.
    weight_row : ndarray of int64, shape (rows,)
    options : Options
    targets : Targets

    Returns
    -------
    ndarray of float64, shape (rows, estimators + len(COLUMNS))
    """
    from aucpr_dask.kernels.ordering import count_items

    out = np.full((len(score), targets.codes.size + N_COLUMNS), np.nan)
    facts = np.empty(6)
    for row in range(len(score)):
        weights = positive_weight[weight_row[row]], negative_weight[weight_row[row]]
        items = Items(score[row], classes[class_row[row]], *weights)
        count_items(*items, facts)
        if not _weigh_gaps(items, facts, options, targets, out[row]):
            _weigh_keys(items, facts, options, targets, out[row])
    out[:, : targets.codes.size][:, targets.codes >= ERROR_FIXED] = np.nan  # of weights, blocks know the sums only
    return out


class Items(NamedTuple):
    """The items of one weighted ranking."""

    score: Floats
    classes: NDArray[np.int8]
    positive_weight: NDArray[np.float64]
    negative_weight: NDArray[np.float64]


def _weigh_gaps(
    items: Items, facts: NDArray[np.float64], options: Options, targets: Targets, out: NDArray[np.float64]
) -> bool:
    """Evaluate one long weighted ranking if its positives are few, by sorting only them; tell whether it was done."""
    n_positive, n_negative = int(facts[0]), int(facts[1])
    few = FEW_POSITIVES if items.score.dtype == np.float32 else FEW_WEIGHTED
    if items.score.size <= SHORT or n_positive > few * items.score.size or not targets.are_basic:
        return False
    from aucpr_dask.kernels.weighted import gaps_row, split_weights

    positive, gain = np.empty((2, n_positive + 1))
    negative, loss = np.empty((2, n_negative + 1))
    split_weights(*items, positive, gain, negative, loss)
    order = np.argsort(positive[:n_positive])
    negatives = negative[:n_negative], loss[:n_negative]
    return bool(gaps_row(positive[order], gain[order], *negatives, facts, options, targets.codes, out))


def _weigh_keys(
    items: Items, facts: NDArray[np.float64], options: Options, targets: Targets, out: NDArray[np.float64]
) -> None:
    """Evaluate one weighted ranking by sorting all of it."""
    from aucpr_dask.kernels.ordering import keys_of_ranks, keys_of_scores

    score, weights = items.score, (items.positive_weight, items.negative_weight)
    keys = np.empty(score.size, np.uint64)
    if score.dtype == np.float32:
        keys_of_scores(*items, keys)
        keys.sort()
    else:
        keys_of_ranks(score, np.argsort(score), items.classes, *weights, keys)
    if targets.are_basic:
        from aucpr_dask.kernels.weighted import keys_row

        blocks = np.empty((3, int(facts[0]) + 1))
        keys_row(keys, *weights, blocks, facts, options, targets.codes, out)
    else:
        from aucpr_dask.kernels.full import full_keys_row

        blocks = np.empty((3, keys.size + 1))
        full_keys_row(keys, score.astype(np.float64), *weights, blocks, facts, _PANEL, options, *targets, out)
