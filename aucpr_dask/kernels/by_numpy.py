"""Rankings, influences and products by NumPy alone: the plain reference of the kernels, with their bits.

Sums run in the order of the kernels' loops: NumPy accumulates one term after the other.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.kernels import options as o

OF_A_ROW = 9  # numbers of a ranking, next to its estimates
SHORT = 8192  # items up to which rankings share calls of kernels
PANEL = 256  # columns whose products are summed at a time

Array = NDArray[np.float64]
Floats = NDArray[np.float32] | NDArray[np.float64]


def evaluate_rows(
    score: Floats,
    label: NDArray[np.int8],
    label_row: NDArray[np.int64],
    n_given: Array,
    options: o.Options,
    codes: NDArray[np.int64],
) -> Array:
    """Evaluate rankings as `rankings.evaluate_rows` does, by common numbers, ties in tie groups."""
    with np.errstate(all="ignore"):
        rows = zip(score, label[label_row], n_given.tolist(), strict=True)
        return np.array([_row(*row, options, codes) for row in rows]).reshape(len(score), codes.size + OF_A_ROW)


def _row(scores: Floats, label: NDArray[np.int8], given: float, options: o.Options, codes: NDArray[np.int64]) -> Array:
    is_item, is_positive = label >= options.drop_unjudged - 1, label >= options.positive_from
    is_ranked = is_item & ~np.isnan(scores)
    positive, negative = np.sort(scores[is_ranked & is_positive]), np.sort(scores[is_ranked & ~is_positive])
    value, size = np.unique(positive, return_counts=True)
    negatives, all_positive = float(negative.size), float(is_positive.sum())
    missing_positives = all_positive - positive.size
    missing_negatives = float(is_item.sum()) - all_positive - negative.size
    gained = size[::-1].astype(np.float64)
    above, at = (negatives - np.searchsorted(negative, value[::-1], side) for side in ("right", "left"))
    few_negatives = negative[np.concatenate(([True], negative[1:] != negative[:-1]))[: negative.size]][:3]
    n_distinct = min(3, np.unique(np.concatenate([value[:3], few_negatives])).size)

    roc_area, tied = np.nan, 0.0
    is_tied = at > above
    if value.size:
        tied = gained[is_tied].sum() / positive.size
        if negatives:
            roc_area = _sum(gained * (negatives - 0.5 * (above + at))) / (positive.size * negatives)
    matters = bool((is_tied | (gained > 1.0)).any())
    n_unseen = 0.0 if np.isnan(given) else given - all_positive
    n_ranked, n_missing = positive.size + negatives, missing_positives + missing_negatives
    if options.missing == o.MISSING_LAST and missing_positives:
        gained, at = np.append(gained, missing_positives), np.append(at, negatives + missing_negatives)
        matters |= n_missing > 1.0
    total = positive.size + n_unseen
    if options.missing != o.MISSING_DROP:
        total, negatives = total + missing_positives, negatives + missing_negatives
    numbers = _numbers(gained, at, total, negatives, options.prevalence, codes)
    return np.array([*numbers, total, negatives, n_missing, n_ranked, n_unseen, tied, roc_area, n_distinct, matters])


def _sum(terms: Array, start: float = 0.0) -> float:
    """Add terms one after the other."""
    return float(np.cumsum(np.concatenate(([start], terms)))[-1])


def compensated_sum(terms: Array) -> float:
    """Add terms one after the other, and their rounding errors, as `tie_groups.two_sum` does."""
    sums = np.cumsum(np.concatenate(([0.0], terms)))
    back = sums[1:] - sums[:-1]
    errors = (sums[:-1] - (sums[1:] - back)) + (terms - back)
    return float(sums[-1]) + _sum(errors)


def _numbers(
    gained: Array, at: Array, total: float, negatives: float, prevalence: float, codes: NDArray[np.int64]
) -> list[float]:
    if not total > 0.0:
        return [np.nan] * codes.size
    positives = np.cumsum(gained)
    is_own = np.isnan(prevalence) or negatives == 0.0
    scale = 1.0 if is_own else total * (1.0 - prevalence) / (negatives * prevalence)
    above = scale * at
    found = []
    for each in codes.tolist():
        code, left_out = int(o.OF_AVERAGE_PRECISION[each]), float(o.LEAVES_OUT[each])
        others = positives - left_out
        if each in (o.AVERAGE_PRECISION, o.HALDANE):
            terms = gained * np.where(above > 0.0, others / (others + above), 1.0)
            found.append(min(compensated_sum(terms) / total, 1.0))
        elif each == o.LEFT_OUT:
            kept = np.maximum(positives - 1.0, 0.0) * (total / (total - 1.0) if total > 1.0 else np.nan)
            area = _sum(gained * np.where(kept + above > 0.0, kept / (kept + above), 1.0)) / total
            found.append(min(area, 1.0) if total > 1.0 else np.nan)
        elif code == o.UNSEEN_LOSS:
            size = others + above
            loss = np.where(size > 0.0, others * scale / (size * (size + scale)), 1.0)
            found.append(min(_sum(gained * loss) / total, 1.0))
        else:
            is_random = code in (o.ERROR_RANDOM, o.CUBES_RANDOM) and bool(np.isnan(prevalence))
            squares, cubes = _moments(gained, at, total, negatives, scale, is_random, left_out)
            is_error = code in (o.ERROR_FIXED, o.ERROR_RANDOM)
            found.append(float(np.sqrt(squares)) / total if is_error else cubes / (total * (total * total)))
    return found


def _moments(
    gained: Array, at: Array, total: float, negatives: float, scale: float, is_random: bool, left_out: float
) -> tuple[float, float]:
    """Return the sums of `moments.influence_moments`."""
    if total < 2.0 or negatives < 2.0:
        return np.nan, np.nan
    positives, above = np.cumsum(gained), scale * at
    others = positives - left_out
    size = others + above
    precision, has_above = np.where(above > 0.0, others / size, 1.0), above > 0.0
    rise = _sum(np.where(has_above, gained * (positives / size) * (above / size), 0.0))
    exchange = _sum(np.where(has_above, gained * (others / size) * (above / size), 0.0))
    positive_mean, negative_mean = (_sum(gained * precision) + rise) / total, exchange / negatives

    first_positive = (total - gained.sum()) * (positive_mean * positive_mean)
    first_negative = (negatives - (at[-1] if at.size else 0.0)) * (negative_mean * negative_mean)
    rises = np.cumsum(np.where(has_above, gained * (above / size) / size, 0.0)[::-1])
    falls = np.cumsum(np.where(has_above, gained * scale * (others / size) / size, 0.0)[::-1])
    gained, passed = gained[::-1], np.diff(at, prepend=0.0)[::-1]
    up, down = precision[::-1] + rises - positive_mean, falls - negative_mean
    of_positives, of_negatives = total / (total - 1.0), negatives / (negatives - 1.0)
    positive_squares = _sum(gained * (up * up), first_positive) * of_positives
    negative_squares = _sum(passed * (down * down), first_negative) * of_negatives
    positive_cubes = _sum(gained * (up * up) * up, -first_positive * positive_mean)
    negative_cubes = _sum(passed * (down * down) * (negative_mean - falls), first_negative * negative_mean)
    squares = positive_squares + negative_squares
    cubes = positive_cubes * of_positives**1.5 + negative_cubes * of_negatives**1.5
    if is_random:
        cubes += 3.0 * exchange * (positive_squares / total - negative_squares / negatives)
        cubes += exchange * (exchange * exchange) * (1.0 / (total * total) - 1.0 / (negatives * negatives))
        squares += exchange * exchange * (1.0 / total + 1.0 / negatives)
    return squares, cubes


class Influence(NamedTuple):
    """The influence of items on areas."""

    values: Array  # (rows, items)
    unseen: Array  # (rows,): that of one positive that is not an item
    estimate: Array  # (rows,): the area
    left_out: Array  # (rows,): it with each positive left out of its own recall; of Haldane's, the AP
    unseen_loss: Array  # (rows,): what one more negative above all items would take from the area


class Units(NamedTuple):
    """The typical weights of one positive and of one negative of each ranking."""

    positive: Array  # (rows,)
    negative: Array


class Case(NamedTuple):
    """What the influences of one ranking depend on besides its items."""

    n_unseen: float  # positives that are not items
    positive_unit: float  # the typical weight of one positive
    negative_unit: float
    is_fixed: bool  # whether the total weights of the classes are
    is_corrected: bool  # whether deviations from the mean of a class of n items are multiplied by sqrt(n / (n - 1))


def influence(
    descending: Array,
    order: NDArray[np.int64],
    positive_weight: Array,
    negative_weight: Array,
    options: o.Options,
    case: Case,
    values: Array,
    facts: Array,
) -> None:
    """Do the work of `influence.influence_row` for weights of 0 and 1, whose sums are exact in any order."""
    n_unseen, positive_unit, negative_unit, is_fixed, is_corrected = case
    is_missing = np.isnan(descending[order])
    n_placed = order.size if options.missing == o.MISSING_LAST else int(order.size - is_missing.sum())
    n_counted = order.size if options.missing in (o.MISSING_LAST, o.MISSING_UNRETRIEVED) else n_placed
    of_positives, of_negatives = positive_weight[order], negative_weight[order]
    n_positive, n_negative = n_unseen + of_positives[:n_counted].sum(), of_negatives[:n_counted].sum()
    total, x = np.float64(n_positive), descending[order[:n_placed]]
    is_own = np.isnan(options.prevalence) or n_negative == 0.0
    scale = 1.0 if is_own else total * (1.0 - options.prevalence) / (n_negative * options.prevalence)

    start = np.flatnonzero(np.concatenate(([True], ~(x[1:] <= x[:-1]) & ~np.isnan(x[:-1])))[:n_placed])
    end = np.append(start[1:], n_placed)[: start.size]
    positives, negatives = (np.cumsum(one[:n_placed])[end - 1] for one in (of_positives, of_negatives))
    gained = np.diff(positives, prepend=0.0)
    start, end, positives, gained, below = (
        one[gained > 0.0] for one in (start, end, positives, gained, scale * negatives)
    )
    size = positives + below
    precision = positives / size
    area, exchange = _sum(gained * precision) / total, _sum(gained * precision * (below / size))
    found = np.maximum(positives - positive_unit, 0.0) * (total / (total - positive_unit))
    left_out = _sum(gained * np.where(found + below > 0.0, found / (found + below), 1.0)) / total
    one = scale * negative_unit
    facts[1:] = area, left_out if total > positive_unit else np.nan, np.nan
    facts[3] = _sum(gained * np.where(size > 0.0, positives * one / (size * (size + one)), 1.0)) / total
    if not total > 0.0 or (is_corrected and min(n_positive, n_negative) < 2.0):
        facts[0] = values[:] = np.nan
        return

    moved = exchange / total / total
    mean = -exchange / total / n_negative if n_negative > 0.0 else 0.0

    def stretch(derivative: Any, mean: float, moved: float, n_items: float) -> Any:
        deviation = derivative - mean
        deviation = deviation * np.sqrt(n_items / (n_items - 1.0)) if is_corrected else deviation
        return deviation if is_fixed else deviation + moved

    missed, behind = stretch(-area / total, moved, moved, n_positive), stretch(0.0, mean, mean, n_negative)
    rise = np.cumsum((gained * (below / size) / size)[::-1])[::-1]
    fall = np.cumsum((gained * scale * precision / size)[::-1])[::-1]
    of_groups = np.append(stretch((precision - area + rise) / total, moved, moved, n_positive), 0.0)
    of_others = np.append(stretch(-fall / total, mean, mean, n_negative), behind)
    place = np.arange(n_placed)
    group = np.searchsorted(end, place, "right")  # that it lies in, or the next one with positives
    is_inside = place >= np.append(start, n_placed)[group]
    of_places = of_negatives[:n_placed] * of_others[group]
    of_places[is_inside] = (of_positives[:n_placed] * of_groups[group] + of_places)[is_inside]
    values[:] = 0.0
    facts[0], values[order[:n_placed]] = missed, of_places
    values[order[n_placed:n_counted]] = (of_positives * missed + of_negatives * behind)[n_placed:n_counted]


def products(left: Array, right: Array) -> Array:
    """Return the sums of `products.add_products`, panel by panel."""
    sums = np.zeros((len(left), len(right)))
    for start, j in itertools.product(range(0, left.shape[1], PANEL), range(len(right))):
        panel = slice(start, start + PANEL)
        sums[:, j] += np.cumsum(left[:, panel] * right[j, panel], axis=1)[:, -1]
    return sums
