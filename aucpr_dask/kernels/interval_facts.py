"""What intervals of areas need, for hard rankings, from their tie groups. These numbers are no estimators.

Of average precision and Haldane's area: sums of squares and cubes of all items' influences, the class sizes fixed or
random; the acceleration of the BCa interval; and two changes of the area, for the interval influence_beta. Of other
areas, and of parts: the same from their derivatives with respect to the counts of each tie group. These are positives
before it; negatives at or above the tie group before; negatives above it; positives with its own; negatives with its
own. Areas are in units of positives there, and negatives are scaled to the prevalence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aucpr_dask.kernels import interpolation as more
from aucpr_dask.kernels import options as o
from aucpr_dask.kernels.compiling import helper
from aucpr_dask.kernels.interpolation import clipped_step
from aucpr_dask.kernels.tie_groups import precision_without, scale_to

ROUNDING = 1e-13  # an item's influence, in units of precision, below which it is noise of the arithmetic
STEP = 1e-4  # of central differences, relative to what a count is compared with: exact to about 1e-8


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
    # Without the only item of a class there is no area: such a class contributes nothing, whatever its scale is here.
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


# Other areas, as sums over tie groups


class Gradient(NamedTuple):
    """Per tie group, the derivatives of the area with respect to its counts."""

    positives: np.ndarray
    above: np.ndarray
    at: np.ndarray


class Design(NamedTuple):
    """What the derivatives of items need besides the gradient: their means by class, and what these are moved to."""

    area: float  # in units of positives
    positive_mean: float
    negative_mean: float
    positive_moved: float
    negative_moved: float


@helper
def stretch(derivative, mean, moved, n_items, is_fixed, is_corrected):
    """Adjust a derivative to the design; `mean` is that of its class of `n_items`, `moved` the one it gets."""
    deviation = derivative - mean
    if is_corrected:
        deviation *= np.sqrt(n_items / (n_items - 1.0))
    return deviation if is_fixed else deviation + moved


@helper
def piece(code, point, total, negatives, low, high):
    """Return what one tie group adds to an area; `point` has its counts, and all negatives are scaled."""
    before, previous, above, positives, at = point[0], point[1], point[2], point[3], point[4]
    if code == o.AVERAGE_PRECISION:
        return clipped_step(before, positives, positives / (positives + at), low, high)
    if code == o.CONTINUOUS:
        return more.clipped_curve(before, above, positives, at, low, high)
    if code == o.INTERPOLATED_MAX:
        return more.clipped_curve(before, previous, positives, at, low, high)
    if code in (o.LOWER_TRAPEZOID, o.UPPER_TRAPEZOID):
        fallen = above if code == o.LOWER_TRAPEZOID else previous
        left = before / (before + fallen) if before > 0.0 else (1.0 if fallen == 0.0 else 0.0)
        return more.clipped_line(before, positives, left, positives / (positives + at), low, high)
    if code == o.ROC_AREA:
        return (positives - before) * (1.0 - 0.5 * (above + at) / negatives)
    return total * more.gain_piece(before, above, positives, at, total, negatives, total / negatives)


@helper
def put_point(point, groups, k, scale):
    """Write the counts of a tie group."""
    point[0] = groups.positives[k - 1] if k > 0 else 0.0
    point[1] = scale * groups.at[k - 1] if k > 0 else 0.0
    point[2] = scale * groups.above[k]
    point[3], point[4] = groups.positives[k], scale * groups.at[k]


@helper
def sum_of_pieces(code, groups, n_groups, scale, total, negatives, low, high):
    """Return an area."""
    area, point = 0.0, np.empty(5)
    for k in range(n_groups):
        put_point(point, groups, k, scale)
        area += piece(code, point, total, negatives, low, high)
    return area


@helper
def fill_gradient(code, groups, n_groups, scale, total, negatives, low, high, gradient):
    """Fill the gradient by central differences within each tie group."""
    point, slope = np.empty(5), np.empty(5)
    for one in gradient:
        one[:] = 0.0
    for k in range(n_groups):
        put_point(point, groups, k, scale)
        before, previous, above, positives, at = point[0], point[1], point[2], point[3], point[4]
        steps = min(before, positives - before), before + previous, before + above, positives - before, positives + at
        for j in range(5):
            step, count = STEP * steps[j], point[j]
            slope[j] = 0.0
            if step > 0.0 and (k > 0 or j > 1):  # otherwise no item is there
                point[j] = count + step
                larger = piece(code, point, total, negatives, low, high)
                point[j] = count - step
                slope[j] = (larger - piece(code, point, total, negatives, low, high)) / (2.0 * step)
                point[j] = count
        if k > 0:
            gradient.positives[k - 1] += slope[0]
            gradient.at[k - 1] += slope[1]
        gradient.above[k] += slope[2]
        gradient.positives[k] += slope[3]
        gradient.at[k] += slope[4]


@helper
def design_of(code, groups, n_groups, scale, total, negatives, low, high, gradient):
    """Fill the gradient, and return what derivatives of items are compared with.

    The derivatives of all items add up to 0, because all items twice have the same area; those of the ROC area do so
    within each class.
    """
    scaled = scale * negatives
    fill_gradient(code, groups, n_groups, scale, total, scaled, low, high, gradient)
    area = sum_of_pieces(code, groups, n_groups, scale, total, scaled, low, high)
    own = 0.0  # derivative with respect to the number of negatives, where those above do not change
    if code == o.GAIN_AREA:
        step = STEP * scaled
        own = sum_of_pieces(code, groups, n_groups, scale, total, scaled + step, low, high)
        own -= sum_of_pieces(code, groups, n_groups, scale, total, scaled - step, low, high)
        own *= scale / (2.0 * step)
    up = down = positive_sum = negative_sum = 0.0
    for k in range(n_groups - 1, -1, -1):
        before = groups.positives[k - 1] if k > 0 else 0.0
        previous = groups.at[k - 1] if k > 0 else 0.0
        up += gradient.positives[k]
        down += scale * gradient.at[k]
        positive_sum += (groups.positives[k] - before) * up
        negative_sum += (groups.at[k] - groups.above[k]) * down
        down += scale * gradient.above[k]
        negative_sum += (groups.above[k] - previous) * down
    negative_mean = negative_sum / negatives
    negative_moved = 0.0 if code == o.ROC_AREA else negative_mean + own
    return Design(area, positive_sum / total, negative_mean, -negative_moved * negatives / total, negative_moved)


@helper
def centre_of(code, groups, n_groups, total, negatives, scale, area, positive_unit, negative_unit, low, high):
    """Return the area with each positive left out of its own recall, and its loss to one more negative above all items.

    Of areas under the precision-recall curve they are those of average precision; all are in units of positives.
    """
    one = scale * negative_unit
    if code == o.ROC_AREA:
        return area, area * one / (scale * negatives + one)
    if code == o.GAIN_AREA:
        return area, 0.0
    left_out = loss = before = 0.0
    for k in range(n_groups):
        positives, at = groups.positives[k], scale * groups.at[k]
        found, size = max(positives - positive_unit, 0.0) * total / (total - positive_unit), positives + at
        left_out += clipped_step(before, positives, found / (found + at) if found + at > 0.0 else 1.0, low, high)
        loss += clipped_step(before, positives, positives * one / (size * (size + one)), low, high)
        before = positives
    return left_out if total > positive_unit else np.nan, loss


@helper
def moments_of_items(groups, n_groups, total, negatives, scale, gradient, design, is_fixed):
    """Return the sums of squares and of cubes of the influences of single items, as `influence_moments` does."""
    if total < 2.0 or negatives < 2.0:
        return np.nan, np.nan
    of_positives = design.positive_mean, design.positive_moved, total, is_fixed, True
    of_negatives = design.negative_mean, design.negative_moved, negatives, is_fixed, True
    ranked, passed = (groups.positives[n_groups - 1], groups.at[n_groups - 1]) if n_groups > 0 else (0.0, 0.0)
    missed, behind = stretch(0.0, *of_positives), stretch(0.0, *of_negatives)
    squares = (total - ranked) * missed**2 + (negatives - passed) * behind**2
    cubes = (total - ranked) * missed**3 + (negatives - passed) * behind**3
    up = down = 0.0
    for k in range(n_groups - 1, -1, -1):
        before = groups.positives[k - 1] if k > 0 else 0.0
        previous = groups.at[k - 1] if k > 0 else 0.0
        up += gradient.positives[k]
        down += scale * gradient.at[k]
        one = stretch(up, *of_positives)
        squares += (groups.positives[k] - before) * one**2
        cubes += (groups.positives[k] - before) * one**3
        one = stretch(down, *of_negatives)
        squares += (groups.at[k] - groups.above[k]) * one**2
        cubes += (groups.at[k] - groups.above[k]) * one**3
        down += scale * gradient.above[k]
        one = stretch(down, *of_negatives)
        squares += (groups.above[k] - previous) * one**2
        cubes += (groups.above[k] - previous) * one**3
    return squares, cubes


@helper
def fact_of(code, groups, n_groups, total, negatives, options, low, high):
    """Return one of the numbers that intervals of an area of hard rankings need."""
    area_code, kind = o.AREA_OF[code], o.FACT_OF[code]
    if negatives == 0.0:
        return np.nan
    scale = scale_to(options.prevalence, total, negatives)
    gradient = Gradient(np.empty(n_groups), np.empty(n_groups), np.empty(n_groups))
    design = design_of(area_code, groups, n_groups, scale, total, negatives, low, high, gradient)
    if kind > o.CUBES:
        given = area_code, groups, n_groups, total, negatives, scale, design.area
        left_out, loss = centre_of(*given, 1.0, 1.0, low, high)
        return (left_out if kind == o.LEFT else loss) / total
    is_fixed = o.IS_FIXED[code] or not np.isnan(options.prevalence)
    squares, cubes = moments_of_items(groups, n_groups, total, negatives, scale, gradient, design, is_fixed)
    return np.sqrt(squares) / total if kind == o.ERROR else cubes / total**3
