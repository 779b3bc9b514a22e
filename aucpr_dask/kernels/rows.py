"""Which of the compiled entry points serves which ranking.

Short rankings go through one compiled loop. Long ones come one by one, so that NumPy's vectorised sort can be
used: where positives are few only they are sorted, otherwise both classes are, apart. Each entry point is
compiled, or loaded from the cache, when a ranking first needs it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.kernels.finishing import N_COLUMNS, Options

Floats = NDArray[np.float32] | NDArray[np.float64]

SHORT = 4096  # items up to which a ranking goes through the compiled loop
CACHE_ITEMS = 1 << 16  # scores converted to float64 at a time, so that they are read from a core's own cache
FEW_POSITIVES = 1 / 32  # share of positives up to which a long ranking sorts only them
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
    from aucpr_dask.kernels.weighted import weighted_row

    score = score.astype(np.float64)
    for row in range(len(score)):
        weights = positive_weight[weight_row[row]], negative_weight[weight_row[row]]
        carried = np.flatnonzero((weights[0] > 0) | (weights[1] > 0))
        order = carried[np.argsort(score[row][carried])]
        weighted_row(score[row], order, *weights, options, codes, out[row])
    return out
