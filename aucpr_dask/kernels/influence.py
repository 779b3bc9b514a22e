"""The influence of every item, or of clusters of items, on the area of its ranking.

With g = TP/D the precision at a positive's own tie group, D = TP + s FP and n the weight of all positives, the
derivative of the area with respect to the multiplicity of an item is its weight as a positive times

    p = (g - area + sum over positives at or below it of s FP/D^2) / n

plus its weight as a negative times

    q = -(sum over positives at or below it of s TP/D^2) / n.

These derivatives add up to 0 over all items. With a fixed prevalence they do so within each class: the mean of p, or
q, over the class is subtracted.

Haldane's area leaves out the weights of the positive itself: its TP and FP, in g and D, are sums over the other items.
Another copy of an item is one of the others. So its derivatives do not add up to 0, although all items twice should
have the same area; if the prevalence is not fixed, those of positives are moved together until they do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types

from aucpr_dask.kernels import options as o
from aucpr_dask.kernels.by_numpy import Case
from aucpr_dask.kernels.compiling import F8, I8, OPTIONS_TYPE, helper, kernel, row_of, rows_of
from aucpr_dask.kernels.interpolation import clipped_step
from aucpr_dask.kernels.interval_facts import Gradient, centre_of, design_of, left_out_area, stretch, unseen_loss
from aucpr_dask.kernels.options import Array, Clusters, Items, Options
from aucpr_dask.kernels.sorting import InOrder
from aucpr_dask.kernels.tie_groups import placed_groups, scale_to, two_sum

IN_ORDER = rows_of(F8), rows_of(I8)  # scores, and their places from the highest
OF_ROWS = *IN_ORDER, rows_of(F8), rows_of(F8), row_of(I8)  # with class weights, and the number of each row's


def leave_out_clusters(
    items: Items, clusters: Clusters, n_clusters: int, options: Options, in_order: InOrder, *, is_roc: bool
) -> tuple[Array, Array]:
    """Return what leaving out each cluster in turn shows of an area: deviations (rows, clusters), and the bias.

    The area is average precision, or that under the ROC curve.

    With A the area and ``A_c`` that without cluster c, of C clusters that hold items, the bias is
    ``(C - 1)(mean A_c - A)``, and the squares of the deviations ``sqrt((C - 1)/C) (mean A_c - A_c)`` add up to the
    jackknife's variance (Efron & Stein 1981, doi:10.1214/aos/1176345462). Ties are in tie groups.
    """
    areas = np.empty((len(items.score), n_clusters + 1))
    of_rows = items.positive, items.negative, items.row, *clusters
    fill_areas_without_clusters(*in_order, *of_rows, options, is_roc, areas)
    left_out, is_held = areas[:, :-1], ~np.isnan(areas[:, :-1])
    n_held = np.count_nonzero(is_held, axis=1)
    n, mean = np.maximum(n_held, 2), np.full(len(areas), np.nan)
    for count in np.unique(n_held[n_held > 1]):  # all, but for missing scores
        of = n_held == count
        mean[of] = left_out[of][is_held[of]].reshape(-1, count).mean(axis=1)
    deviations = np.sqrt((n - 1) / n)[:, None] * (mean[:, None] - left_out)
    return np.where(np.isnan(deviations), 0.0, deviations), (n - 1) * (mean - areas[:, -1])


class Sample(NamedTuple):
    """One ranking's items by place, from the highest score, and their weights."""

    n_placed: int  # places that belong to a tie group
    n_counted: int  # and those after it, never ranked
    positives: float  # sums of weights
    negatives: float
    n_positive: float  # items of a weight above 0
    n_negative: float


class Slopes(NamedTuple):
    """Per tie group, sums over its positives of the derivatives of their precision."""

    rise: np.ndarray  # with the weight of the positives at or above it
    fall: np.ndarray  # with that of the negatives, downwards


@helper
def sample_of(score, order, positive_weight, negative_weight, options, n_unseen):
    """Count and weigh the items of one ranking, with missing scores as the options say."""
    n_placed = order.size
    while n_placed > 0 and np.isnan(score[order[n_placed - 1]]):
        n_placed -= 1
    n_counted = order.size if options.missing in (o.MISSING_LAST, o.MISSING_UNRETRIEVED) else n_placed
    if options.missing == o.MISSING_LAST:
        n_placed = order.size
    positives, negatives = n_unseen, 0.0
    n_positive, n_negative = n_unseen, 0.0
    for i in range(order.size):
        if n_counted == order.size or score[i] == score[i]:
            positives += positive_weight[i]
            negatives += negative_weight[i]
            n_positive += positive_weight[i] > 0.0
            n_negative += negative_weight[i] > 0.0
    return Sample(n_placed, n_counted, positives, negatives, n_positive, n_negative)


@helper
def slopes_of_groups(groups, n_groups, scale, slopes):
    """Fill `slopes`; return the sums over positives of precision and of s TP FP/D^2, which moves area between classes.

    The groups' own precision is that of each of their positives.
    """
    area = exchange = 0.0
    for k in range(n_groups):
        above = scale * groups.at[k]
        size = groups.positives[k] + above
        precision = groups.positives[k] / size
        area += groups.gained[k] * precision
        exchange += groups.gained[k] * precision * (above / size)
        slopes.rise[k] = groups.gained[k] * (above / size) / size
        slopes.fall[k] = groups.gained[k] * scale * precision / size
    return area, exchange


@helper
def others_of(groups, k, positive, negative, scale):
    """Return the weights at or above tie group k without those of an item in it; negatives are scaled.

    Weights of one tie group are subtracted before others are added: nothing remains of an item that is alone.
    """
    before = groups.positives[k - 1] if k > 0 else 0.0
    return before + (groups.gained[k] - positive), scale * (groups.above[k] + (groups.passed[k] - negative))


@helper
def precision_of(true, false):
    """Return the precision; 1 without negatives."""
    return true / (true + false) if false > 0.0 else 1.0


@helper
def slopes_of_places(groups, n_groups, order, positive_weight, negative_weight, scale, one, slopes):
    """Fill `slopes`, every positive itself left out; return sums over positives.

    These are sums of precision, of the precision with it, of s TP FP/D^2 with its own weight in TP, of the same with
    its own weight in FP, and of what a negative of weight `one` above all items would take from the precision.
    """
    area = plain = gain = exchange = loss = 0.0
    for k in range(n_groups):
        slopes.rise[k] = slopes.fall[k] = 0.0
        above = scale * groups.at[k]
        plain += groups.gained[k] * (groups.positives[k] / (groups.positives[k] + above))
        for place in range(groups.start[k], groups.end[k]):
            i = order[place]
            weight = positive_weight[i]
            if not weight > 0.0:
                continue
            true, false = others_of(groups, k, weight, negative_weight[i], scale)
            size = true + false
            area += weight * precision_of(true, false)
            loss += weight * (true * one / (size * (size + one)) if size > 0.0 else 1.0)
            if size > 0.0:
                slopes.rise[k] += weight * (false / size) / size
                slopes.fall[k] += weight * scale * (true / size) / size
                gain += weight * (groups.positives[k] / size) * (false / size)
                exchange += weight * (true / size) * (above / size)
    return area, plain, gain, exchange, loss


@helper
def weighted_haldane_row(score, order, positive_weight, negative_weight, options, lowest, highest):
    """Return Haldane's area between two recalls; the height of a tie group's step is the mean over its positives."""
    sample = sample_of(score, order, positive_weight, negative_weight, options, 0.0)
    total = sample.positives
    scale = scale_to(options.prevalence, total, sample.negatives)
    groups, n_groups = placed_groups(score, order, positive_weight, negative_weight, sample.n_placed)
    low, high = lowest * total, np.inf if highest == 1.0 else highest * total
    area = error = before = 0.0
    for k in range(n_groups):
        first = height = np.nan
        for place in range(groups.start[k], groups.end[k]):
            i = order[place]
            if positive_weight[i] > 0.0:
                others = others_of(groups, k, positive_weight[i], negative_weight[i], scale)
                precision = precision_of(*others)
                if np.isnan(first):
                    first = height = precision
                height += positive_weight[i] / groups.gained[k] * (precision - first)  # exact if all are the same
        area, error = two_sum(area, error, clipped_step(before, groups.positives[k], height, low, high))
        before = groups.positives[k]
    return min((area + error) / total, 1.0) if total > 0.0 else np.nan


@kernel(types.void(*OF_ROWS, OPTIONS_TYPE, row_of(F8), F8[::1]))
def weighted_haldane_rows(score, order, positive, negative, weight_row, options, recall_range, out):
    """Write Haldane's area of every ranking whose items have weights, between two recalls; NaN without positives."""
    for row in range(len(order)):
        given = score[row], order[row], positive[weight_row[row]], negative[weight_row[row]], options
        out[row] = weighted_haldane_row(*given, recall_range[0], recall_range[1])


@helper
def fill_values(order, groups, n_groups, sample, weights, of_groups, missed, behind, values):
    """Write the influence of every item, from what a unit of weight has.

    `of_groups` has that of a positive in each tie group, of a negative in it, and of one between it and the group
    above; `missed` is that of a positive that is not ranked, `behind` that of a negative below all tie groups.
    """
    positive_weight, negative_weight = weights
    values[:] = 0.0
    for place in range(sample.n_placed, sample.n_counted):
        i = order[place]
        values[i] = positive_weight[i] * missed + negative_weight[i] * behind
    start = 0
    for k in range(n_groups + 1):
        negative, end = (of_groups[2, k], groups.start[k]) if k < n_groups else (behind, sample.n_placed)
        for place in range(start, end):  # negatives between tie groups
            values[order[place]] = negative_weight[order[place]] * negative
        if k < n_groups:
            start = groups.end[k]
            for place in range(end, start):
                i = order[place]
                values[i] = positive_weight[i] * of_groups[0, k] + negative_weight[i] * of_groups[1, k]


@helper
def influence_row(score, order, positive_weight, negative_weight, options, case, leaves_out, values, facts):
    """Write the influences of items to `values`, and the other fields of `Influence` to `facts`; NaN come last."""
    is_fixed, is_corrected = case.is_fixed, case.is_corrected
    weights = positive_weight, negative_weight
    sample = sample_of(score, order, *weights, options, case.n_unseen)
    total, negatives = sample.positives, sample.negatives
    scale = scale_to(options.prevalence, total, negatives)
    groups, n_groups = placed_groups(score, order, *weights, sample.n_placed)
    slopes = Slopes(np.empty(n_groups), np.empty(n_groups))
    if leaves_out:
        one = scale * case.negative_unit
        area, plain, gain, exchange, loss = slopes_of_places(groups, n_groups, order, *weights, scale, one, slopes)
        area /= total
        facts[2] = plain / total if total > case.positive_unit else np.nan
        facts[3] = loss / total
    else:
        area, exchange = slopes_of_groups(groups, n_groups, scale, slopes)
        area /= total
        gain = exchange
        facts[2] = left_out_area(groups, n_groups, total, scale, case.positive_unit)
        facts[3] = unseen_loss(groups, n_groups, total, scale, case.negative_unit, 0.0)
    facts[1] = area
    if not total > 0.0 or (is_corrected and min(sample.n_positive, sample.n_negative) < 2.0):
        facts[0] = np.nan
        values[:] = np.nan
        return

    negative_mean = -exchange / total / negatives if negatives > 0.0 else 0.0
    of_positives = gain / total / total, exchange / total / total, sample.n_positive, is_fixed, is_corrected
    of_negatives = negative_mean, negative_mean, sample.n_negative, is_fixed, is_corrected
    facts[0], behind = stretch(-area / total, *of_positives), stretch(0.0, *of_negatives)
    of_groups = np.empty((3, n_groups))
    rise = fall = 0.0
    for k in range(n_groups - 1, -1, -1):
        rise += slopes.rise[k]
        fall += slopes.fall[k]
        slopes.rise[k] = rise
        precision = groups.positives[k] / (groups.positives[k] + scale * groups.at[k])
        of_groups[0, k] = stretch((precision - area + rise) / total, *of_positives)
        of_groups[1:, k] = stretch(-fall / total, *of_negatives)
    fill_values(order, groups, n_groups, sample, weights, of_groups, facts[0], behind, values)
    for k in range(n_groups if leaves_out else 0):
        for place in range(groups.start[k], groups.end[k]):
            i = order[place]
            precision = precision_of(*others_of(groups, k, positive_weight[i], negative_weight[i], scale))
            own = stretch((precision - area + slopes.rise[k]) / total, *of_positives)
            values[i] = positive_weight[i] * own + negative_weight[i] * of_groups[1, k]


@helper
def case_of(cases, row, design):
    """Return the `Case` of one of many rankings."""
    return Case(cases[row, 0], cases[row, 1], cases[row, 2], design[0], design[1])


_GIVEN = *OF_ROWS, OPTIONS_TYPE, rows_of(F8), types.UniTuple(types.boolean, 2)


@kernel(types.void(*_GIVEN, types.boolean, F8[:, ::1], F8[:, ::1]))
def fill_influences(score, order, positive, negative, weight_row, options, cases, design, leaves_out, values, facts):
    """Do the work of `influence_row` for every ranking."""
    for row in range(len(order)):
        weights, case = (positive[weight_row[row]], negative[weight_row[row]]), case_of(cases, row, design)
        influence_row(score[row], order[row], *weights, options, case, leaves_out, values[row], facts[row])


@helper
def area_influence_row(
    score, order, positive_weight, negative_weight, options, case, code, lowest, highest, values, facts
):
    """As :func:`influence_row`, of an area that is a sum over tie groups."""
    is_fixed, is_corrected = case.is_fixed, case.is_corrected
    weights = positive_weight, negative_weight
    sample = sample_of(score, order, *weights, options, case.n_unseen)
    total, negatives = sample.positives, sample.negatives
    facts[:] = np.nan
    values[:] = np.nan
    if not total > 0.0 or not negatives > 0.0 or (is_corrected and min(sample.n_positive, sample.n_negative) < 2.0):
        return
    scale = scale_to(options.prevalence, total, negatives)
    groups, n_groups = placed_groups(score, order, *weights, sample.n_placed)
    gradient = Gradient(np.empty(n_groups), np.empty(n_groups), np.empty(n_groups))
    low, high = lowest * total, np.inf if highest == 1.0 else highest * total
    design = design_of(code, groups, n_groups, scale, total, negatives, low, high, gradient)
    given = code, groups, n_groups, total, negatives, scale, design.area, case.positive_unit, case.negative_unit
    facts[1] = design.area / total
    left_out, loss = centre_of(*given, low, high)
    facts[2], facts[3] = left_out / total, loss / total

    of_positives = design.positive_mean, design.positive_moved, sample.n_positive, is_fixed, is_corrected
    of_negatives = design.negative_mean, design.negative_moved, sample.n_negative, is_fixed, is_corrected
    facts[0], behind = stretch(0.0, *of_positives) / total, stretch(0.0, *of_negatives) / total
    of_groups = np.empty((3, n_groups))
    up = down = 0.0
    for k in range(n_groups - 1, -1, -1):
        up += gradient.positives[k]
        down += scale * gradient.at[k]
        of_groups[0, k], of_groups[1, k] = stretch(up, *of_positives) / total, stretch(down, *of_negatives) / total
        down += scale * gradient.above[k]
        of_groups[2, k] = stretch(down, *of_negatives) / total
    fill_values(order, groups, n_groups, sample, weights, of_groups, facts[0], behind, values)


@kernel(types.void(*_GIVEN, types.Tuple((I8, F8, F8)), F8[:, ::1], F8[:, ::1]))
def fill_area_influences(score, order, positive, negative, weight_row, options, cases, design, area, values, facts):
    """Do the work of `area_influence_row` for every ranking."""
    for row in range(len(order)):
        weights, case = (positive[weight_row[row]], negative[weight_row[row]]), case_of(cases, row, design)
        area_influence_row(score[row], order[row], *weights, options, case, *area, values[row], facts[row])


@helper
def areas_without_clusters(score, order, positive_weight, negative_weight, cluster, options, is_roc, areas):
    """Write the area without each cluster, and at last that of all items; NaN of a cluster without items.

    Without the only cluster that holds a class there is no area: it counts as that of all items.
    """
    n_clusters = areas.size - 1
    sample = sample_of(score, order, positive_weight, negative_weight, options, 0.0)
    positives, negatives = np.zeros(n_clusters), np.zeros(n_clusters)  # of each cluster
    for place in range(sample.n_counted):
        i = order[place]
        positives[cluster[i]] += positive_weight[i]
        negatives[cluster[i]] += negative_weight[i]
    scale = np.empty(n_clusters)
    for c in range(n_clusters):
        scale[c] = scale_to(options.prevalence, sample.positives - positives[c], sample.negatives - negatives[c])
    whole = scale_to(options.prevalence, sample.positives, sample.negatives)
    groups, n_groups = placed_groups(score, order, positive_weight, negative_weight, sample.n_placed)
    true, false = np.zeros(n_clusters), np.zeros(n_clusters)
    gained, passed = np.zeros(n_clusters), np.zeros(n_clusters)  # in the tie group
    areas[:] = 0.0
    start = 0
    for k in range(n_groups):
        for place in range(start, groups.end[k]):
            i = order[place]
            true[cluster[i]] += positive_weight[i]
            false[cluster[i]] += negative_weight[i]
            if place >= groups.start[k]:
                gained[cluster[i]] += positive_weight[i]
                passed[cluster[i]] += negative_weight[i]
        all_true, all_false = groups.positives[k], groups.at[k]
        all_gained, all_passed = groups.gained[k], groups.passed[k]
        if is_roc:
            for c in range(n_clusters):
                below = sample.negatives - negatives[c] - (all_false - false[c]) + 0.5 * (all_passed - passed[c])
                areas[c] += (all_gained - gained[c]) * below
            areas[n_clusters] += all_gained * (sample.negatives - all_false + 0.5 * all_passed)
        else:
            for c in range(n_clusters):  # without branches, so that it compiles to vector instructions
                found = all_true - true[c]
                area = (all_gained - gained[c]) * (found / (found + scale[c] * (all_false - false[c])))
                areas[c] += area if all_gained > gained[c] else 0.0
            areas[n_clusters] += all_gained * (all_true / (all_true + whole * all_false))
        for place in range(groups.start[k], groups.end[k]):
            gained[cluster[order[place]]] = passed[cluster[order[place]]] = 0.0
        start = groups.end[k]
    areas[n_clusters] /= sample.positives * (sample.negatives if is_roc else 1.0)
    for c in range(n_clusters):
        size = sample.positives - positives[c]
        size *= sample.negatives - negatives[c] if is_roc else 1.0
        if positives[c] == 0.0 and negatives[c] == 0.0:
            areas[c] = np.nan
        elif size > 0.0:
            areas[c] /= size
        else:
            areas[c] = areas[n_clusters]


@kernel(types.void(*OF_ROWS, rows_of(I8), row_of(I8), OPTIONS_TYPE, types.boolean, F8[:, ::1]))
def fill_areas_without_clusters(
    score, order, positive, negative, weight_row, cluster, cluster_row, options, is_roc, areas
):
    """Do the work of `areas_without_clusters` for every ranking."""
    for row in range(len(order)):
        given = score[row], order[row], positive[weight_row[row]], negative[weight_row[row]]
        areas_without_clusters(*given, cluster[cluster_row[row]], options, is_roc, areas[row])
