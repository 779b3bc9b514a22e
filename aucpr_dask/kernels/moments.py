"""What the intervals of average precision and of Haldane's area need, for hard rankings, from their tie groups.

These are the sums of squares and cubes of all items' influences on the area, the class sizes fixed or random; the
acceleration of the BCa interval; and two changes of the area, for the interval influence_beta. They have codes, but are
not in the registry of estimators.
"""

from __future__ import annotations

import numpy as np

from aucpr_dask.kernels.compiling import helper
from aucpr_dask.kernels.tie_groups import precision_without, scale_to

ROUNDING = 1e-13  # an item's influence, in units of precision, below which it is noise of the arithmetic


@helper
def influence_moments(groups, n_groups, total, negatives, prevalence, is_random, left_out):
    """Return the sums of squares and of cubes of the influences of all items on an area, times `total`.

    The area is average precision, or Haldane's, which leaves out the positive itself. With T = TP, or TP - 1, g = T/D
    the precision at a tie group and D = T + s FP, the derivative of the area with respect to the multiplicity of an
    item is, times n,

        positive: g - area + (sum over positives at or below it of s FP/D^2),
        negative: -(sum over positives at or below it of s T/D^2).

    The classes are two strata: the deviations from the mean of a class of n items are multiplied by sqrt(n/(n - 1)).
    If the prevalence is random, and no other is given, the sizes of the classes vary too, and influences have the
    means a/n and -a/m with a = sum over positives of s T FP/D^2: they add up to 0, because the area of all items twice
    should be the same. Both sums are NaN if a class has one item or none.
    """
    if total < 2.0 or negatives < 2.0:
        return np.nan, np.nan
    scale = scale_to(prevalence, total, negatives)
    area = rise = exchange = before = 0.0
    for k in range(n_groups):
        positives, above = groups.positives[k], scale * groups.at[k]
        gained, others = positives - before, positives - left_out
        area += gained * precision_without(left_out, positives, above)
        if above > 0.0:
            share = above / (others + above)
            rise += gained * (positives / (others + above)) * share
            exchange += gained * (others / (others + above)) * share
        before = positives
    positive_mean = (area + rise) / total
    negative_mean = exchange / negatives

    ranked_negatives = groups.at[n_groups - 1] if n_groups > 0 else 0.0
    positive_squares = (total - before) * positive_mean**2
    positive_cubes = -positive_squares * positive_mean
    negative_squares = (negatives - ranked_negatives) * negative_mean**2
    negative_cubes = negative_squares * negative_mean
    rise = fall = 0.0
    for k in range(n_groups - 1, -1, -1):
        positives, above = groups.positives[k], scale * groups.at[k]
        gained = positives - (groups.positives[k - 1] if k > 0 else 0.0)
        passed = groups.at[k] - (groups.at[k - 1] if k > 0 else 0.0)
        others = positives - left_out
        size = others + above
        precision = precision_without(left_out, positives, above)
        if above > 0.0:  # otherwise it is 1, and no negative is there to change it
            rise += gained * (above / size) / size
            fall += gained * scale * (others / size) / size
        square = (precision + rise - positive_mean) ** 2
        positive_squares += gained * square
        positive_cubes += gained * square * (precision + rise - positive_mean)
        square = (fall - negative_mean) ** 2
        negative_squares += passed * square
        negative_cubes += passed * square * (negative_mean - fall)
    of_positives, of_negatives = total / (total - 1.0), negatives / (negatives - 1.0)
    positive_squares, negative_squares = positive_squares * of_positives, negative_squares * of_negatives
    squares = positive_squares + negative_squares
    cubes = positive_cubes * of_positives**1.5 + negative_cubes * of_negatives**1.5
    if is_random and np.isnan(prevalence):
        cubes += 3.0 * exchange * (positive_squares / total - negative_squares / negatives)
        cubes += exchange**3 * (1.0 / total**2 - 1.0 / negatives**2)
        squares += exchange**2 * (1.0 / total + 1.0 / negatives)
    return squares, cubes


@helper
def left_out_area(groups, n_groups, total, scale, unit):
    """Average precision with each positive, of weight `unit`, left out of its own recall; NaN if it is the only one.

    Of the other positives, TP - 1 of n - 1 are found there: TP becomes (TP - 1) n/(n - 1).
    """
    if not total > unit:
        return np.nan
    area = before = 0.0
    stretched = total / (total - unit)
    for k in range(n_groups):
        positives = groups.positives[k]
        found = max(positives - unit, 0.0) * stretched
        above = scale * groups.at[k]
        area += (positives - before) * (found / (found + above) if found + above > 0.0 else 1.0)
        before = positives
    return area / total


@helper
def unseen_loss(groups, n_groups, total, scale, unit, left_out):
    """Return how much an area would lose to one more negative, of weight `unit`, above all items."""
    loss = before = 0.0
    one = scale * unit
    for k in range(n_groups):
        positives = groups.positives[k]
        if positives > before:
            others = positives - left_out
            size = others + scale * groups.at[k]
            loss += (positives - before) * (others * one / (size * (size + one)) if size > 0.0 else 1.0)
        before = positives
    return loss / total


@helper
def acceleration(groups, n_groups, total, negatives, prevalence, left_out):
    """Return the acceleration of the BCa interval of an area for resampling within each class.

    It is the skewness of the jackknife, (1/6) sum U^3/n_class^3 / (sum U^2/n_class^2)^(3/2) over the items of both
    classes, with U = (n_class - 1)(mean of the areas without one item of the class - area without this item). A class
    of one item contributes nothing; if no item matters, the acceleration is 0.

    With T and D as for `influence_moments`, precision falls by s FP/(D(D - 1)) at every tie group from k on without
    one positive of tie group k; without one negative before or in it, it rises by s T/(D(D - s)).
    """
    fewer_positives = scale_to(prevalence, max(total - 1.0, 1.0), negatives)
    fewer_negatives = scale_to(prevalence, total, max(negatives - 1.0, 1.0))
    positive_sum = negative_sum = before = 0.0
    for k in range(n_groups):
        positives, at = groups.positives[k], groups.at[k]
        gained = positives - before
        precision, fall = without_positive(positives, at, fewer_positives, left_out)
        positive_sum += gained * (precision + (positives - 1.0) * fall)
        negative_sum += gained * at * without_negative(positives, at, fewer_negatives, left_out)
        before = positives
    positive_mean = positive_sum / total
    negative_mean = negative_sum / max(negatives, 1.0)

    ranked_negatives = groups.at[n_groups - 1] if n_groups > 0 else 0.0
    positive_squares = (total - before) * positive_mean**2
    positive_cubes = -positive_squares * positive_mean
    negative_squares = (negatives - ranked_negatives) * negative_mean**2
    negative_cubes = negative_squares * negative_mean
    falls = rises = 0.0
    for k in range(n_groups - 1, -1, -1):
        positives, at = groups.positives[k], groups.at[k]
        gained = positives - (groups.positives[k - 1] if k > 0 else 0.0)
        passed = at - (groups.at[k - 1] if k > 0 else 0.0)
        precision, fall = without_positive(positives, at, fewer_positives, left_out)
        falls += gained * fall
        rises += gained * without_negative(positives, at, fewer_negatives, left_out)
        deviation = precision + falls - fall - positive_mean
        positive_squares += gained * deviation**2
        positive_cubes += gained * deviation**3
        deviation = negative_mean - rises
        negative_squares += passed * deviation**2
        negative_cubes += passed * deviation**3
    positive_share = 1.0 / total if total > 1.0 else 0.0
    negative_share = (negatives - 1.0) / negatives / total if negatives > 1.0 else 0.0
    squares = positive_squares * positive_share**2 + negative_squares * negative_share**2
    if squares <= ROUNDING**2 * (positive_share + negative_share):
        return 0.0
    return (positive_cubes * positive_share**3 + negative_cubes * negative_share**3) / (6.0 * squares**1.5)


@helper
def without_positive(positives, at, scale, left_out):
    """Return the precision of a tie group, and by how much it falls without one of the positives at or above it."""
    others = positives - left_out
    size = others + scale * at
    # Without negatives it does not fall; and a first positive that is left out takes its tie group with it.
    fall = scale * at / (size * (size - 1.0)) if at > 0.0 and others > 0.0 else 0.0
    return precision_without(left_out, positives, scale * at), fall


@helper
def without_negative(positives, at, scale, left_out):
    """Return by how much the precision of a tie group rises without one of the negatives at or above it."""
    others = positives - left_out
    if at == 0.0 or others == 0.0:
        return 1.0 if at == 1.0 else 0.0  # without the only negative, precision rises from 0 to 1
    size = others + scale * at
    return scale * others / (size * (size - scale))
