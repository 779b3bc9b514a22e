"""Further estimators, from every operating point of a ranking, over all recalls or a range of them.

Recall is measured in positives, from `low` to `high`. `scale` multiplies every count of negatives.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from aucpr_dask.kernels.compiling import helper
from aucpr_dask.kernels.options import REACH
from aucpr_dask.kernels.tie_groups import precision_without, two_sum

SHORT = 0.2  # items between two points, relative to those before, up to which a series is exact to rounding


class Points(NamedTuple):
    """Operating points, one per distinct score, from the highest."""

    positives: np.ndarray
    negatives: np.ndarray


class Moments(NamedTuple):
    """Means and standard deviations of the scores of both classes."""

    positive_mean: float
    positive_deviation: float
    negative_mean: float
    negative_deviation: float


@helper
def clipped_step(start, stop, precision, low, high):
    """Area of a rectangle between two recalls."""
    return max(0.0, min(stop, high) - max(start, low)) * precision


@helper
def clipped_line(start, stop, left, right, low, high):
    """Area under a straight line between two recalls."""
    if start >= low and stop <= high:
        return 0.5 * (left + right) * (stop - start)
    first, last = max(start, low), min(stop, high)
    if first >= last:
        return 0.0
    slope = (right - left) / (stop - start)
    return (left + 0.5 * slope * (first + last - 2.0 * start)) * (last - first)


@helper
def clipped_curve(positives_a, negatives_a, positives_b, negatives_b, low, high):
    """Area under the interpolated curve between two points; TP and FP grow linearly together."""
    if positives_a >= low and positives_b <= high:
        return hyperbola(positives_a, negatives_a, positives_b, negatives_b)
    first, last = max(positives_a, low), min(positives_b, high)
    if first >= last:
        return 0.0
    slope = (negatives_b - negatives_a) / (positives_b - positives_a)
    if first > positives_a:
        negatives_a += slope * (first - positives_a)
    if last < positives_b:
        negatives_b -= slope * (positives_b - last)
    return hyperbola(first, negatives_a, last, negatives_b)


@helper
def bend_of(x):
    """Return (1 - log1p(x)/x)/x without cancellation, exact to rounding for 0 < x <= SHORT."""
    # log1p(x) = 2 atanh(t) = 2t (1 + t^2/3 + t^4/5 + ...), t = x/(2 + x); seven terms are exact to rounding.
    half = 1.0 / (2.0 + x)
    square = (x * half) ** 2
    rest = 1.0 / 15.0
    for odd in range(13, 1, -2):
        rest = 1.0 / odd + square * rest
    return half * (1.0 - 2.0 * x * half * half * rest)


@helper
def hyperbola(positives_a, negatives_a, positives_b, negatives_b):
    """Area under the interpolated curve between two points, in units of positives (recall times n).

    With dTP positives and d items between the points, TP and S at the first, and x = d/S, the area is dTP/S [dTP (1 -
    L)/x + TP L], L = log1p(x)/x: a sum of positive terms, without cancellation.
    """
    gained = positives_b - positives_a
    items = gained + (negatives_b - negatives_a)
    size = positives_a + negatives_a
    if size == 0.0:
        return gained * (gained / items)
    x = items / size
    bend = bend_of(x) if x <= SHORT else (1.0 - np.log1p(x) / x) / x
    ratio = 1.0 - x * bend if x <= SHORT else np.log1p(x) / x
    return gained / size * (gained * bend + positives_a * ratio)


@helper
def partial_average_precision(groups, n_groups, scale, low, high, left_out):
    """Add up steps of height precision; Haldane's leaves out the positive itself."""
    area = error = before = 0.0
    for k in range(n_groups):
        positives = groups.positives[k]
        precision = precision_without(left_out, positives, scale * groups.at[k])
        area, error = two_sum(area, error, clipped_step(before, positives, precision, low, high))
        before = positives
    return area + error


@helper
def partial_trapezoid(groups, n_groups, scale, low, high, lower):
    """Straight lines; from the smallest (lower) or the largest precision at the left recall."""
    area = error = before = 0.0
    highest = 1.0
    for k in range(n_groups):
        positives = groups.positives[k]
        above = scale * groups.above[k]
        right = positives / (positives + scale * groups.at[k])
        left = highest
        if lower:
            left = before / (before + above) if k > 0 else (1.0 if above == 0.0 else 0.0)
        area, error = two_sum(area, error, clipped_line(before, positives, left, right, low, high))
        highest = right
        before = positives
    return area + error


@helper
def short_hyperbolas(before, above, positives, at):
    """Return `hyperbola` of pairs of points at most `SHORT` apart, NaN of others: all at once, without a branch."""
    area = np.empty(before.size)
    for k in range(before.size):
        gained = positives[k] - before[k]
        size = before[k] + above[k]
        x = (gained + (at[k] - above[k])) / size
        bend = bend_of(x)
        part = gained / size * (gained * bend + before[k] * (1.0 - x * bend))
        area[k] = part if x <= SHORT else np.nan
    return area


@helper
def interpolated(positives, above, at, n, low, high):
    """Interpolation from (positives before, negatives `above`) to (positives, negatives `at`), for each recall."""
    parts = np.empty(0)
    if low == 0.0 and high == np.inf and n > 1:
        parts = short_hyperbolas(positives[: n - 1], above[1:n], positives[1:n], at[1:n])
    area = error = before = 0.0
    for k in range(n):
        part = parts[k - 1] if 0 < k <= parts.size else np.nan
        if np.isnan(part):
            part = clipped_curve(before, above[k], positives[k], at[k], low, high)
        area, error = two_sum(area, error, part)
        before = positives[k]
    return area + error


@helper
def preceding(negatives, n):
    """Return the false positives before each point of one per recall."""
    above = np.zeros(n)
    above[1:] = negatives[: n - 1]
    return above


@helper
def negatives_of_aggregate(points, first, groups, n_groups, scale, median):
    """Return for each recall the false positives that give the mean, or median, precision of all its points."""
    negatives = np.empty(n_groups)
    for k in range(n_groups):
        positives = groups.positives[k]
        if median:  # precision falls along a recall, so the points are in order
            size = positives + scale * points.negatives[(first[k] + first[k + 1] - 1) // 2]
            other_size = positives + scale * points.negatives[(first[k] + first[k + 1]) // 2]
            precision = positives / (2.0 * other_size * (size / (size + other_size)))
        else:
            total = error = 0.0
            for point in range(first[k], first[k + 1]):
                total, error = two_sum(total, error, positives / (positives + scale * points.negatives[point]))
            precision = (total + error) / (first[k + 1] - first[k])
        negatives[k] = positives / precision - positives
    return negatives


@helper
def hull(groups, n_groups, scale):
    """Return the vertices of the ROC convex hull after (0, 0), and their number."""
    positives = np.empty(n_groups)
    negatives = np.empty(n_groups)
    n = 0
    for k in range(n_groups):
        x, y = scale * groups.at[k], groups.positives[k]
        while n > 0:
            x_before = negatives[n - 2] if n > 1 else 0.0
            y_before = positives[n - 2] if n > 1 else 0.0
            # Drop the last vertex unless the hull turns right at it.
            left = (negatives[n - 1] - x_before) * (y - y_before) >= (positives[n - 1] - y_before) * (x - x_before)
            if not left:
                break
            n -= 1
        positives[n], negatives[n] = y, x
        n += 1
    return positives, negatives, n


@helper
def discrete(groups, n_groups, scale, low, high):
    """Straight lines between interpolated points at every whole number of true positives."""
    area = error = before = 0.0
    for k in range(n_groups):
        above, gained = scale * groups.above[k], groups.positives[k] - before
        per_positive = (scale * groups.at[k] - above) / gained
        right = before / (before + above) if before > 0.0 else 0.0
        for i in range(1, np.int64(gained) + 1):
            left = right
            positives = before + i
            right = positives / (positives + above + per_positive * i)
            if positives == 1.0 and above == 0.0:
                left = right
            area, error = two_sum(area, error, clipped_line(positives - 1.0, positives, left, right, low, high))
        before = groups.positives[k]
    return area + error


N_PANELS = 16
NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)
SQRT_TWO_PI = math.sqrt(2.0 * math.pi)


@helper
def normal_below(x):
    """Distribution function of the standard normal."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


@helper
def binormal(moments, prevalence, z_low, z_high):
    """Area under the curve of two normal distributions with these moments.

    ``int phi(z) pi Phi(z) / (pi Phi(z) + (1 - pi) Phi(a + b z)) dz`` over the normal quantile z of recall, by
    Gauss-Legendre panels that are finer where the false positive rate rises.
    """
    spread = moments.negative_deviation
    if not (moments.positive_deviation > 0.0 and spread > 0.0 and moments.positive_deviation + spread < np.inf):
        return np.nan
    # Phi's argument a + b z is b (z - centre): of the two forms, the one that cannot overflow.
    apart = moments.positive_mean - moments.negative_mean
    a, b = -apart / spread, moments.positive_deviation / spread
    centre = apart / moments.positive_deviation
    edges = np.empty(2 * N_PANELS + 2)
    rise_low = min(max(centre - REACH / b, z_low), z_high)
    rise_high = min(max(centre + REACH / b, z_low), z_high)
    for i in range(N_PANELS + 1):
        edges[2 * i] = z_low + (z_high - z_low) * i / N_PANELS
        edges[2 * i + 1] = rise_low + (rise_high - rise_low) * i / N_PANELS
    edges.sort()
    area = 0.0
    for panel in range(edges.size - 1):
        half = 0.5 * (edges[panel + 1] - edges[panel])
        for i in range(NODES.size if half > 0.0 else 0):
            z = edges[panel] + half * (1.0 + NODES[i])
            hit = prevalence * normal_below(z)
            both = hit + (1.0 - prevalence) * normal_below(b * (z - centre) if b > 1.0 else a + b * z)
            if both > 0.0:
                area += half * WEIGHTS[i] * math.exp(-0.5 * z * z) / SQRT_TWO_PI * hit / both
    return area


@helper
def roc_area_of_all(groups, n_groups, total, negatives):
    """Area under the ROC curve; NaN unless both classes exist and everything is ranked."""
    ranked = groups.positives[n_groups - 1] if n_groups > 0 else 0.0
    if negatives == 0.0 or ranked < total:
        return np.nan
    pairs = error = before = 0.0
    for k in range(n_groups):
        correct = negatives - 0.5 * (groups.above[k] + groups.at[k])
        pairs, error = two_sum(pairs, error, (groups.positives[k] - before) * correct)
        before = groups.positives[k]
    return (pairs + error) / (total * negatives)


@helper
def gain_area(groups, n_groups, total, negatives, scale):
    """Area under the precision-recall-gain curve, in which the interpolation is a straight line."""
    if negatives == 0.0:
        return np.nan
    odds = total / (scale * negatives)
    area = error = before = 0.0
    for k in range(n_groups):
        positives = groups.positives[k]
        part = gain_piece(before, groups.above[k], positives, groups.at[k], total, negatives, odds)
        area, error = two_sum(area, error, part)
        before = positives
    return area + error


@helper
def gain_piece(before, above, positives, at, total, negatives, odds):
    """Area under a straight line in gain space, from the recall that equals the prevalence on: recall gain 0."""
    first = max(before, total * odds / (1.0 + odds))
    if not positives > first:
        return 0.0
    slope = (at - above) / (positives - before)
    here = above + slope * (first - before)
    left = 1.0 - total * here / (negatives * first)
    right = 1.0 - total * at / (negatives * positives)
    width = odds * total * (1.0 / first - 1.0 / positives)
    return 0.5 * (left + right) * width


@helper
def precision_at_recall(groups, n_groups, total, scale, recall):
    """Highest precision of the thresholds that reach this recall; 0 if none does."""
    best = 0.0
    for k in range(n_groups):
        positives = groups.positives[k]
        if positives / total >= recall:
            best = max(best, positives / (positives + scale * groups.at[k]))
    return best


@helper
def recall_at_precision(groups, n_groups, total, scale, precision):
    """Highest recall of the thresholds that keep this precision; 0 if none does."""
    for k in range(n_groups - 1, -1, -1):
        positives = groups.positives[k]
        if positives / (positives + scale * groups.at[k]) >= precision:
            return positives / total
    return 0.0


@helper
def positives_at(groups, n_groups, place):
    """Count the positives in the first places, in expectation over random orders of the tie group that is cut."""
    before = 0.0
    for k in range(n_groups):
        size = groups.positives[k] - before + groups.at[k] - groups.above[k]
        left = place - before - groups.above[k]
        if left < size:
            return before + (groups.positives[k] - before) * max(left, 0.0) / size
        before = groups.positives[k]
    return before
