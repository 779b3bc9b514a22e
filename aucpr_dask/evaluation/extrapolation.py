"""Areas at a prevalence, or with weights, whose decisive false-positive rates the negatives of a sample hardly show.

If every negative stands for more than one, as at another prevalence or where negatives were subsampled and have larger
weights, then rates below one over the number of negatives decide, and a precision of 1 above the first negative is a
guess. A Bayesian bootstrap with half an unseen negative above all items (Jeffreys' prior) reckons with that, and with
half of each positive's own weight left out of its recall.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.evaluation.influences import sums_of_weights
from aucpr_dask.evaluation.rankings import Rows
from aucpr_dask.schema.options import EvaluationOptions

if TYPE_CHECKING:
    from aucpr_dask.kernels import Items

Floats = NDArray[np.float64]

STREAM = 2  # a random stream different from those of resamples and folds
AT_ONCE = 1 << 18  # numbers drawn at a time, in some ten arrays: about 20 MB
TYPICAL = 2.0  # times as heavy as a positive may negatives be by chance, where weights alone tell
HALF = 0.5  # an unseen negative, and what is left out of a positive's own weight


class Groups(NamedTuple):
    """The tie groups of one ranking that hold a positive, from the highest score: sums of weights, and of squares."""

    positives: Floats  # (K + 1,): in each, and of those never ranked
    positive_squares: Floats
    negatives: Floats  # (K + 1,): in each and above it, up to the one before; and those below all
    negative_squares: Floats
    odds: float  # of a negative, at the prevalence asked for
    unit: float  # the typical weight of a negative


def half_seen(rows: Rows, items: Items, options: EvaluationOptions) -> Floats:
    """Return each ranking's average precision with half a negative more above all items, and half of each positive.

    It is NaN if no negative stands for more than one, so that nothing is extrapolated.
    """
    n, n_squares = (total + items.unseen for total in sums_of_weights(items, items.positive, options))
    m, m_squares = sums_of_weights(items, items.negative, options)
    least = TYPICAL if options.prevalence is None else 1.0
    with np.errstate(divide="ignore", invalid="ignore"):  # of rankings without items of a class
        is_extrapolated = _odds(n, m, options) * (m_squares / m) / m > least * n_squares / n / n
    found = np.full(len(items.score), np.nan)
    for row in np.flatnonzero(is_extrapolated & (n > 0) & (m > 0)).tolist():
        if groups := _groups(items, row, options):
            found[row] = _half_seen(groups)
    return found.reshape(rows.lead)


def tail_draws(rows: Rows, items: Items, options: EvaluationOptions) -> Floats:
    """Return draws (..., resample) of each ranking's area by the Bayesian bootstrap with half an unseen negative."""
    n_draws, seed = options.resampling.n_resamples, options.resampling.seed
    out = np.full((len(items.score), n_draws), np.nan)
    for row in range(len(items.score)):
        if groups := _groups(items, row, options):
            out[row] = _draws(groups, n_draws, seed)
    return out.reshape(*rows.lead, n_draws)


def _odds(n: Any, m: Any, options: EvaluationOptions) -> Any:
    return m / n if options.prevalence is None else (1 - options.prevalence) / options.prevalence


def _groups(items: Items, row: int, options: EvaluationOptions) -> Groups | None:
    """Return the tie groups of a ranking; None if a class is empty."""
    score, (positive, negative), unseen = items.score[row], items.weights(row), float(items.unseen[row])
    is_counted = ~np.isnan(score) | (options.missing in ("last", "unretrieved"))
    weights = positive, positive**2, negative, negative**2
    n, m, m_squares = (float(weights[place][is_counted].sum()) for place in (0, 2, 3))
    n += unseen
    if not n > 0 or not m > 0:
        return None
    if options.missing == "last":  # below every score
        score = np.where(np.isnan(score), -np.inf, np.maximum(score, np.finfo(np.float64).min))
    is_ranked = ~np.isnan(score)
    values = np.unique(score[is_ranked & (positive > 0)])  # of the tie groups with a positive
    at = np.full(score.size, values.size)  # the next of them at or below an item; those below all come last
    at[is_ranked] = values.size - np.searchsorted(values, score[is_ranked], side="right")
    sums: list[Any] = [np.bincount(at[is_counted], weight[is_counted], values.size + 1) for weight in weights]
    sums[0][-1] += unseen
    sums[1][-1] += unseen
    return Groups(sums[0], sums[1], sums[2], sums[3], _odds(n, m, options), m_squares / m)


def _half_seen(groups: Groups) -> float:
    n, m = groups.positives.sum(), groups.negatives.sum()
    gained = groups.positives[:-1]
    own = groups.positive_squares[:-1] / gained
    found = (np.cumsum(gained) - HALF * own) / n
    false = groups.odds * (np.cumsum(groups.negatives[:-1]) + HALF * groups.unit) / (m + HALF * groups.unit)
    return float((gained * found / (found + false)).sum() / n)


def _draws(groups: Groups, n_draws: int, seed: int) -> Floats:
    """Draw gamma weights of each group of items with the mean and variance of those of its items."""
    generator = np.random.Generator(np.random.Philox(key=(seed % 2**64) + (STREAM << 64)))
    shapes, scales = [], []
    for total, squares in (groups[:2], groups[2:4]):
        known = total > 0
        scales.append(np.divide(squares, total, out=np.zeros_like(total), where=known))
        shapes.append(np.divide(total, scales[-1], out=np.zeros_like(total), where=known))
    at_once, out = max(1, AT_ONCE // groups.positives.size), np.empty(n_draws)
    for start in range(0, n_draws, at_once):
        size = min(at_once, n_draws - start)
        gained, passed = (
            generator.gamma(shape, size=(size, shape.size)) * scale for shape, scale in zip(shapes, scales, strict=True)
        )
        unseen = generator.gamma(HALF, size=(size, 1)) * groups.unit
        n, m = gained.sum(axis=1, keepdims=True), passed.sum(axis=1, keepdims=True) + unseen
        own = HALF * gained[:, :-1] / shapes[0][:-1]
        found = (np.cumsum(gained[:, :-1], axis=1) - own) / n
        false = groups.odds * (np.cumsum(passed[:, :-1], axis=1) + unseen) / m
        precision = np.divide(found, found + false, out=np.zeros_like(found), where=found > 0)
        out[start : start + size] = (gained[:, :-1] / n * precision).sum(axis=1)
    return out
