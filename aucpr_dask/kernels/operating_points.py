"""Any number of a ranking, over any recalls: from its tie groups or, if these are not enough, every operating point."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types

from aucpr_dask.kernels import interpolation as more
from aucpr_dask.kernels import options as o
from aucpr_dask.kernels.areas import finish, finish_common_rows, ranking_of, totals
from aucpr_dask.kernels.classes import distinct_of
from aucpr_dask.kernels.compiling import F8, I8, OPTIONS_TYPE, TARGETS_TYPE, helper, kernel, row_of, rows_of
from aucpr_dask.kernels.interpolation import Moments, Points
from aucpr_dask.kernels.interval_facts import fact_of
from aucpr_dask.kernels.tie_groups import TieGroups, append_missing, new_groups, scale_to, two_sum


@helper
def points_of_classes(positive, negative, points):
    """Fill `points` from the scores of both classes, each sorted in ascending order."""
    n_points = 0
    i, j = positive.size, negative.size
    while i > 0 or j > 0:
        x = positive[i - 1] if j == 0 or (i > 0 and positive[i - 1] >= negative[j - 1]) else negative[j - 1]
        while i > 0 and positive[i - 1] == x:
            i -= 1
        while j > 0 and negative[j - 1] == x:
            j -= 1
        points.positives[n_points] = positive.size - i
        points.negatives[n_points] = negative.size - j
        n_points += 1
    return n_points


class Room(NamedTuple):
    """Work space with more than one place per item; from NumPy, which requests large pages for large arrays."""

    groups: TieGroups
    first: np.ndarray  # of each tie group, the first point


@helper
def room_of(space):
    """Return the part of a space that is not used for points."""
    return Room(TieGroups(space[3], space[4], space[5]), space[6].view(np.int64))


@helper
def new_room(n_points):
    """Return work space for one more than this many points."""
    return Room(new_groups(n_points), np.empty(n_points + 2, np.int64))


@helper
def groups_of_points(points, n_points, room):
    """Fill the tie groups that hold a positive, and the first point of each, followed by the number of points."""
    groups, first = room.groups, room.first
    n_kept = np.uint64(0)
    positives = 0.0
    for point in range(n_points):  # each is written, and the first one of a tie group stays: without branches
        first[n_kept] = point
        n_kept += np.uint64(points.positives[point] > positives)
        positives = points.positives[point]
    n_groups = np.int64(n_kept)
    first[n_groups] = n_points
    for k in range(n_groups):
        point = first[k]
        groups.positives[k] = points.positives[point]
        groups.above[k] = points.negatives[point - 1] if point > 0 else 0.0
        groups.at[k] = points.negatives[point]
    return n_groups


@helper
def mean_and_deviation(score, weight):
    """Return the mean and the sample standard deviation of scores with counting weights; NaN below two items."""
    largest = n = 0.0
    for i in range(score.size):
        if weight[i] > 0.0:
            largest = max(largest, abs(score[i]))
            n += weight[i]
    if not (n > 1.0 and 0.0 < largest < np.inf):
        return np.nan, np.nan
    total = error = 0.0
    for i in range(score.size):
        if weight[i] > 0.0:
            total, error = two_sum(total, error, weight[i] * (score[i] / largest))
    mean = (total + error) / n
    total = error = 0.0
    for i in range(score.size):
        if weight[i] > 0.0:
            total, error = two_sum(total, error, weight[i] * (score[i] / largest - mean) ** 2)
    return mean * largest, np.sqrt((total + error) / (n - 1.0)) * largest


class Curve(NamedTuple):
    """The operating points of a ranking, and the tie groups among them."""

    groups: TieGroups
    n_groups: int
    points: Points
    first: np.ndarray  # of each tie group, the first point
    moments: Moments


@helper
def finish_all(room, ranking, points, n_points, moments, options, targets, out):
    """Write the estimates of one ranking and, where `out` has room for them, its columns, from its operating points."""
    n_groups = groups_of_points(points, n_points, room)
    finish(ranking, room.groups, n_groups, options, targets.codes, out)
    classes = ranking.classes
    missing = classes.missing_positives + classes.missing_negatives
    if options.missing == o.MISSING_LAST and missing > 0.0:
        points.positives[n_points] = classes.positives + classes.missing_positives
        points.negatives[n_points] = classes.negatives + classes.missing_negatives
        n_groups = groups_of_points(points, n_points + 1, room)
    finish_curve(ranking, Curve(room.groups, n_groups, points, room.first, moments), options, targets, out)


@helper
def finish_curve(ranking, curve, options, targets, out):
    """Write the estimates that need more than `finish`; items without a score are in `curve` if they rank last."""
    groups, n_groups = curve.groups, curve.n_groups
    classes = ranking.classes
    total, negatives = totals(classes, ranking.n_unseen, options)
    missing = classes.missing_positives + classes.missing_negatives
    is_ranked = missing == 0.0 or options.missing < o.MISSING_LAST
    if not total > 0.0:
        return
    scale = scale_to(options.prevalence, total, negatives)
    prevalence = total / (total + negatives)
    if not np.isnan(options.prevalence) and negatives > 0.0:
        prevalence = options.prevalence
    lowest, highest, z_low, z_high = targets.recall_range
    low, high = lowest * total, np.inf if highest == 1.0 else highest * total
    for e in range(targets.codes.size):
        code, parameter = targets.codes[e], targets.parameters[e]
        if code in (o.PRECISION_AT, o.RECALL_AT):
            out[e] = more.positives_at(groups, n_groups, parameter) / (parameter if code == o.PRECISION_AT else total)
            continue
        if options.expect_ties:
            continue
        if o.FACT_OF[code] >= 0 and not (low == 0.0 and high == np.inf and o.BY_GROUPS[code]):
            out[e] = fact_of(code, groups, n_groups, total, negatives, options, low, high)  # may exceed 1
            continue
        if code == o.BINORMAL:
            area = np.nan
            if is_ranked and ranking.n_unseen == 0.0:
                area = more.binormal(curve.moments, prevalence, z_low, z_high)
                area = highest - lowest if negatives == 0.0 else area
        elif code == o.ROC_AREA:
            area = more.roc_area_of_all(groups, n_groups, total, negatives)
            area = np.nan if options.missing == o.MISSING_UNRETRIEVED and missing > 0.0 else area
        elif code == o.GAIN_AREA:
            area = more.gain_area(groups, n_groups, total, negatives, scale)
        elif code == o.PRECISION_AT_RECALL:
            area = more.precision_at_recall(groups, n_groups, total, scale, parameter)
        elif code == o.RECALL_AT_PRECISION:
            area = more.recall_at_precision(groups, n_groups, total, scale, parameter)
        elif low == 0.0 and high == np.inf and o.BY_GROUPS[code]:
            continue  # `finish` has written it
        elif o.COUNTS_ONLY[code]:
            area = np.nan  # it has no part
        else:
            area = partial_area(code, curve, scale, low, high) / total
        out[e] = 1.0 if area > 1.0 else area


@helper
def partial_area(code, curve, scale, low, high):
    """Return the area of an estimator between two recalls, in units of positives."""
    groups, n_groups = curve.groups, curve.n_groups
    if code in (o.AVERAGE_PRECISION, o.HALDANE):
        return more.partial_average_precision(groups, n_groups, scale, low, high, code == o.HALDANE)
    if code in (o.LOWER_TRAPEZOID, o.UPPER_TRAPEZOID):
        return more.partial_trapezoid(groups, n_groups, scale, low, high, code == o.LOWER_TRAPEZOID)
    if code == o.INTERPOLATED_MAX:
        negatives = scale * groups.at[:n_groups]
        return more.interpolated(groups.positives, more.preceding(negatives, n_groups), negatives, n_groups, low, high)
    if code in (o.INTERPOLATED_MEAN, o.INTERPOLATED_MEDIAN):
        median = code == o.INTERPOLATED_MEDIAN
        negatives = more.negatives_of_aggregate(curve.points, curve.first, groups, n_groups, scale, median)
        return more.interpolated(groups.positives, more.preceding(negatives, n_groups), negatives, n_groups, low, high)
    if code == o.INTERPOLATED_CONVEX:
        positives, negatives, n = more.hull(groups, n_groups, scale)
        return more.interpolated(positives, more.preceding(negatives, n), negatives, n, low, high)
    if code == o.CONTINUOUS:
        above, at = scale * groups.above[:n_groups], scale * groups.at[:n_groups]
        return more.interpolated(groups.positives, above, at, n_groups, low, high)
    if code == o.DISCRETE:
        return more.discrete(groups, n_groups, scale, low, high)
    raise NotImplementedError("no kernel computes the number with this code from operating points")


@kernel(types.void(F8[::1], F8[::1], F8[:, ::1], F8[::1], F8, OPTIONS_TYPE, TARGETS_TYPE, F8[::1]))
def all_points_row(positive, negative, space, counts, n_given, options, targets, out):
    """Evaluate one ranking from the scores of both classes, each sorted in ascending order, in a space of 7 rows."""
    curve = Points(space[0], space[1])
    n_points = points_of_classes(positive, negative, curve)
    moments = Moments(np.nan, np.nan, np.nan, np.nan)
    if np.any(targets.codes == o.BINORMAL):
        p_mean, p_deviation = mean_and_deviation(positive, np.broadcast_to(1.0, positive.shape))
        n_mean, n_deviation = mean_and_deviation(negative, np.broadcast_to(1.0, negative.shape))
        moments = Moments(p_mean, p_deviation, n_mean, n_deviation)
    counts[6] = distinct_of(negative, positive, np.empty(3))
    finish_all(room_of(space), ranking_of(counts, n_given), curve, n_points, moments, options, targets, out)


@kernel(types.void(F8[:, :, ::1], row_of(I8), rows_of(F8), row_of(F8), OPTIONS_TYPE, TARGETS_TYPE, F8[:, ::1]))
def finish_any_rows(space, n_groups, counts, n_given, options, targets, out):
    """Write the row of numbers of every ranking that need no points between its tie groups."""
    no_points, unknown = Points(np.empty(0), np.empty(0)), Moments(np.nan, np.nan, np.nan, np.nan)
    for row in range(n_groups.size):
        groups, n = TieGroups(space[0, row], space[1, row], space[2, row]), n_groups[row]
        ranking = ranking_of(counts[row], n_given[row])
        finish(ranking, groups, n, options, targets.codes, out[row])
        if options.missing == o.MISSING_LAST:
            n = append_missing(groups, n, ranking.classes)
        finish_curve(ranking, Curve(groups, n, no_points, np.empty(0, np.int64), unknown), options, targets, out[row])


def finish_rows(space, n_groups, counts, n_given, options, targets, out):
    """Write the rows of numbers of rankings from their tie groups, by the kernel that compiles faster if it knows all.

    The groups of every ranking are in a space of (3, rows, groups), which has room for one more.
    """
    if not options.expect_ties and targets.are_by_groups and o.IS_COMMON[targets.codes].all():
        finish_common_rows(space, n_groups, counts, n_given, options, targets.codes, out)
    else:
        finish_any_rows(space, n_groups, counts, n_given, options, targets, out)
