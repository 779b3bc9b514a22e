"""Which of the compiled entry points serves which ranking.

Short rankings go through one compiled loop. Long ones come one by one, so that NumPy's vectorised sort can be
used: where positives are few only they are sorted, otherwise both classes are, apart. Each entry point is
compiled, or loaded from the cache, when a ranking first needs it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from aucpr_dask.kernels.finishing import N_COLUMNS, Options, Targets

Floats = NDArray[np.float32] | NDArray[np.float64]

_PANEL = np.stack(np.polynomial.legendre.leggauss(20))

SHORT = 4096  # items up to which a ranking goes through the compiled loop
CACHE_ITEMS = 1 << 16  # scores converted to float64 at a time, so that they are read from a core's own cache
REACH = 9.0  # standard deviations beyond which a normal tail is below rounding
FEW_POSITIVES = 1 / 32  # share of positives up to which a long ranking sorts only them
FEW_WEIGHTED = 1 / 3  # the same, with weights
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
    counts = np.empty(4)
    for row in range(len(score)):
        items = score[row].astype(np.float64)
        split_classes(items, label[label_row[row]], options, positive, negative, counts)
        positives, negatives = positive[: int(counts[0])], negative[: int(counts[1])]
        positives.sort()
        negatives.sort()
        full_row(positives, negatives, counts, n_given[row], _PANEL, options, *targets, out[row])
    return out


def evaluate_weighted_rows(
    score: Floats,
    positive_weight: NDArray[np.float64],
    negative_weight: NDArray[np.float64],
    weight_row: NDArray[np.int64],
    options: Options,
    targets: Targets,
) -> NDArray[np.float64]:
    """Evaluate rankings in which every item carries a weight as a positive and one as a negative; ties in blocks.

    Parameters
    ----------
    score : ndarray, shape (rows, items), float32 or float64
    positive_weight, negative_weight : ndarray, shape (weight rows, items), float64
        Items with two zero weights are left out.
    weight_row : ndarray of int64, shape (rows,)
    options : Options
    targets : Targets

    Returns
    -------
    ndarray of float64, shape (rows, estimators + len(COLUMNS))
    """
    out = np.full((len(score), targets.codes.size + N_COLUMNS), np.nan)
    for row in range(len(score)):
        items = score[row].astype(np.float64)
        weights = positive_weight[weight_row[row]], negative_weight[weight_row[row]]
        if items.size <= SHORT or not targets.are_basic or not _weigh_gaps(items, *weights, options, targets, out[row]):
            _weigh_all(items, *weights, options, targets, out[row])
    return out


def _weigh_gaps(
    score: NDArray[np.float64],
    positive_weight: NDArray[np.float64],
    negative_weight: NDArray[np.float64],
    options: Options,
    targets: Targets,
    out: NDArray[np.float64],
) -> bool:
    """Evaluate one weighted ranking if its positives are few, by sorting only them; tell whether it was done."""
    from aucpr_dask.kernels.weighted import split_weights, weighted_row

    if np.count_nonzero(positive_weight) > FEW_WEIGHTED * score.size:
        return False
    positive, gain, negative, loss = np.empty((4, score.size + 1))
    facts = np.empty(6)
    split_weights(score, positive_weight, negative_weight, positive, gain, negative, loss, facts)
    n_positive, n_negative = int(facts[0]), int(facts[1])
    order = np.argsort(positive[:n_positive])
    sorted_positives = positive[order], gain[order]
    negatives = negative[:n_negative], loss[:n_negative]
    return bool(weighted_row(*sorted_positives, *negatives, facts, options, targets.codes, out))


def _weigh_all(
    score: NDArray[np.float64],
    positive_weight: NDArray[np.float64],
    negative_weight: NDArray[np.float64],
    options: Options,
    targets: Targets,
    out: NDArray[np.float64],
) -> None:
    """Evaluate one weighted ranking by sorting all of it."""
    from aucpr_dask.kernels.full import full_weighted_row

    weights = np.stack([positive_weight, negative_weight])
    carried = weights.any(axis=0)
    if not carried.all():
        score, weights = score[carried], weights[:, carried]
    order = np.argsort(score)  # NaN last
    n_missing = int(np.isnan(score).sum())
    ranked, missing = order[: order.size - n_missing], order[order.size - n_missing :]
    full_weighted_row(
        score[ranked],
        weights[0, ranked],
        weights[1, ranked],
        weights[:, missing].sum(axis=1),
        float(n_missing),
        _PANEL,
        options,
        *targets,
        out,
    )
