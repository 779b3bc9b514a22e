"""Estimators from the tie groups that hold a positive, and the last step of every ranking: its row of numbers.

`scale` multiplies every count of negatives: 1, or the factor that moves the sample to another prevalence.
`total` is the number (or weight) of all positives, including those never ranked.
"""

from __future__ import annotations

import numpy as np
from numba import types

from aucpr_dask.kernels import interpolation as more
from aucpr_dask.kernels import options as o
from aucpr_dask.kernels import tie_groups as g
from aucpr_dask.kernels.compiling import F8, I8, OPTIONS_TYPE, helper, kernel, row_of, rows_of
from aucpr_dask.kernels.interval_facts import acceleration, fact_of, influence_moments, left_out_area, unseen_loss

WHOLE = 0.0, np.inf  # range of recalls, in positives; the compiler finds that nothing is clipped
NEITHER = -1  # of four: the influences on average precision or Haldane's area, the class sizes fixed or random


@helper
def expected_average_precision(groups, n_groups, total, left_out):
    """Average precision, or Haldane's, in expectation over a random order of the items within each tie group.

    The item at place i of a tie group of t items, c of them positive, is positive with probability c/t, and then (i -
    1)(c - 1)/(t - 1) positives of the tie group are expected before it. Left out itself, the item at the first place
    of all has no item above it, and precision 1.
    """
    area = error = before = 0.0
    itself = 1.0 - left_out
    for k in range(n_groups):
        gained = groups.positives[k] - before
        size = gained + groups.at[k] - groups.above[k]
        ahead = before + groups.above[k]
        growth = (gained - 1.0) / (size - 1.0) if size > 1.0 else 0.0
        for i in range(np.int64(size)):
            counted = ahead + i + itself
            precision = (before + i * growth + itself) / counted if counted > 0.0 else 1.0
            area, error = g.two_sum(area, error, gained / size * precision)
        before = groups.positives[k]
    return (area + error) / total


@helper
def area_of_common(code, groups, n_groups, total, negatives, options):
    """Return one of the common numbers, ties kept in tie groups."""
    scale = g.scale_to(options.prevalence, total, negatives)
    if code in (o.AVERAGE_PRECISION, o.HALDANE):
        return more.partial_average_precision(groups, n_groups, scale, *WHOLE, o.LEAVES_OUT[code]) / total
    if code == o.LEFT_OUT:
        return left_out_area(groups, n_groups, total, scale, 1.0)
    if o.OF_AVERAGE_PRECISION[code] == o.UNSEEN_LOSS:
        return unseen_loss(groups, n_groups, total, scale, 1.0, o.LEAVES_OUT[code])
    raise NotImplementedError("no kernel computes the number with this code from tie groups")


@helper
def area_of_any(code, groups, n_groups, total, negatives, options):
    """Return any number that needs tie groups only."""
    if options.expect_ties:
        if code in (o.AVERAGE_PRECISION, o.HALDANE):
            return expected_average_precision(groups, n_groups, total, o.LEAVES_OUT[code])
        return np.nan
    scale = g.scale_to(options.prevalence, total, negatives)
    if code in (o.LOWER_TRAPEZOID, o.UPPER_TRAPEZOID):
        return more.partial_trapezoid(groups, n_groups, scale, *WHOLE, code == o.LOWER_TRAPEZOID) / total
    if o.FACT_OF[code] >= 0:
        return fact_of(code, groups, n_groups, total, negatives, options, *WHOLE)
    if o.OF_AVERAGE_PRECISION[code] == o.ACCELERATION:
        return acceleration(groups, n_groups, total, negatives, options.prevalence, o.LEAVES_OUT[code])
    return area_of_common(code, groups, n_groups, total, negatives, options)


@helper
def pairs_and_ties(groups, n_groups, negatives):
    """Return facts of the ranked items, from one pass over the tie groups.

    The area under the ROC curve, ties counted one half, NaN if a class is empty; the share of the positives whose tie
    group also holds a negative; and whether a tie group holds a positive and another item.
    """
    pairs = tied = before = 0.0
    matters = False
    for k in range(n_groups):
        gained = groups.positives[k] - before
        pairs += gained * (negatives - 0.5 * (groups.above[k] + groups.at[k]))
        is_tied = groups.at[k] > groups.above[k]
        tied += gained if is_tied else 0.0
        matters |= is_tied | (gained > 1.0)
        before = groups.positives[k]
    roc_area = pairs / (before * negatives) if n_groups > 0 and negatives > 0.0 else np.nan
    return roc_area, tied / before if n_groups > 0 else 0.0, matters


@helper
def write_facts(ranking, groups, n_groups, options, facts):
    """Write the columns of one ranking if there is room for them; return its totals, and its number of tie groups."""
    classes = ranking.classes
    ties_matter = False
    if facts.size > 0:
        facts[6], facts[5], ties_matter = pairs_and_ties(groups, n_groups, classes.negatives)
    if options.missing == o.MISSING_LAST:
        n_groups = g.append_missing(groups, n_groups, classes)
        n_missing = classes.missing_positives + classes.missing_negatives
        ties_matter |= classes.missing_positives > 0.0 and n_missing > 1.0
    total, negatives = totals(classes, ranking.n_unseen, options)
    if facts.size > 0:
        facts[0] = total
        facts[1] = negatives
        facts[2] = ranking.n_missing
        facts[3] = ranking.n_ranked
        facts[4] = ranking.n_unseen
        facts[7] = ranking.n_distinct
        facts[8] = ties_matter
    return total, negatives, n_groups


@helper
def totals(classes, n_unseen, options):
    """Return the number of positives by which areas are divided, and the negatives of the sample."""
    positives = classes.positives + n_unseen
    negatives = classes.negatives
    if options.missing != o.MISSING_DROP:
        positives += classes.missing_positives
        negatives += classes.missing_negatives
    return positives, negatives


@helper
def finish_by(area_of, ranking, groups, n_groups, options, codes, out):
    """Write the numbers of one ranking that need tie groups only and, if `out` has room for them, its columns."""
    total, negatives, n_groups = write_facts(ranking, groups, n_groups, options, out[codes.size :])
    known, squares, cubes = NEITHER, np.nan, np.nan
    for e in range(codes.size):
        code, left_out = o.OF_AVERAGE_PRECISION[codes[e]], o.LEAVES_OUT[codes[e]]
        is_error = code in (o.ERROR_FIXED, o.ERROR_RANDOM)
        if not total > 0.0 or not o.BY_GROUPS[codes[e]]:
            value = np.nan
        elif not options.expect_ties and (is_error or code in (o.CUBES_FIXED, o.CUBES_RANDOM)):
            is_random = code in (o.ERROR_RANDOM, o.CUBES_RANDOM)
            wanted = np.int64(is_random) + 2 * np.int64(left_out)
            if wanted != known:  # one pass yields both sums
                given = groups, n_groups, total, negatives, options.prevalence
                squares, cubes = influence_moments(*given, is_random, left_out)
                known = wanted
            value = np.sqrt(squares) / total if is_error else cubes / total**3  # may exceed 1, as no area does
        else:
            area = area_of(codes[e], groups, n_groups, total, negatives, options)
            value = 1.0 if area > 1.0 else area  # by rounding
        out[e] = value


@helper
def finish(ranking, groups, n_groups, options, codes, out):
    """Write the numbers of one ranking by `finish_by`, whichever they are."""
    finish_by(area_of_any, ranking, groups, n_groups, options, codes, out)


COUNTS = 7  # of one ranking: the four of `Classes`, items without a score, with one, and distinct scores up to 3


@helper
def ranking_of(counts, n_given):
    """Gather the facts of one ranking from its `COUNTS`; `n_given` is the number of all positives, or NaN."""
    classes = g.Classes(counts[0], counts[1], counts[2], counts[3])
    n_unseen = 0.0 if np.isnan(n_given) else n_given - (classes.positives + classes.missing_positives)
    return g.Ranking(classes, n_unseen, counts[4], counts[5], np.int64(counts[6]))


@kernel(F8(row_of(F8), row_of(F8), F8[:, ::1]))
def fill_tallied_groups(times, tally, space):
    """Do the work of `groups_of_tally` in a space of (3, groups)."""
    return g.groups_of_tally(times, tally, g.TieGroups(space[0], space[1], space[2]))


@kernel(types.void(F8[:, :, ::1], row_of(I8), rows_of(F8), row_of(F8), OPTIONS_TYPE, row_of(I8), F8[:, ::1]))
def finish_common_rows(space, n_groups, counts, n_given, options, codes, out):
    """Write the row of common numbers of every ranking from its tie groups, in a space of (3, rows, groups).

    The fewer numbers a kernel knows, the faster it compiles.
    """
    for row in range(n_groups.size):
        groups = g.TieGroups(space[0, row], space[1, row], space[2, row])
        ranking = ranking_of(counts[row], n_given[row])
        finish_by(area_of_common, ranking, groups, n_groups[row], options, codes, out[row])
