"""From the scores of one ranking to its classes, and from its tie groups to a row of numbers."""

from __future__ import annotations

import numpy as np

from aucpr_dask.kernels.areas.basic import area_of_any, area_of_common, influence_moments, pairs_and_ties
from aucpr_dask.kernels.codes import CUBES_RANDOM, ERROR_FIXED, ERROR_RANDOM, OF_HALDANE, OF_MOMENTS
from aucpr_dask.kernels.compiling import helper
from aucpr_dask.kernels.options import MISSING_DROP, MISSING_LAST
from aucpr_dask.kernels.rankings.tie_groups import Classes, Ranking, append_missing

NEITHER = -1  # of four: the influences on average precision or Haldane's area, the class sizes fixed or random


@helper
def count_classes(score, label, options):
    """Count the items, the positives among them and the missing scores."""
    lowest = np.int8(options.drop_unjudged - 1)
    positive_from = np.int8(options.positive_from)
    n_items = n_positive = n_missing = 0
    for i in range(label.size):
        n_items += label[i] >= lowest
        n_positive += label[i] >= positive_from
    for i in range(score.size):
        n_missing += np.isnan(score[i])
    return n_items, n_positive, n_missing


@helper
def split(score, label, options, positive, negative):
    """Copy the scores of the two classes without NaN and ignored items, and count them."""
    lowest = np.int8(options.drop_unjudged - 1)
    positive_from = np.int8(options.positive_from)
    all_items, all_positive, missing = count_classes(score, label, options)
    n_positive = n_negative = 0
    # Each score is written to both ends and only one end moves: without branches, random labels cost nothing.
    if missing == 0 and all_items == score.size:
        for i in range(score.size):
            is_positive = label[i] >= positive_from
            positive[n_positive] = score[i]
            negative[n_negative] = score[i]
            n_positive += is_positive
            n_negative += not is_positive
    else:
        for i in range(score.size):
            is_positive = label[i] >= positive_from
            is_ranked = label[i] >= lowest and not np.isnan(score[i])
            positive[n_positive] = score[i]
            negative[n_negative] = score[i]
            n_positive += is_ranked and is_positive
            n_negative += is_ranked and not is_positive
    return Classes(
        float(n_positive),
        float(n_negative),
        float(all_positive - n_positive),
        float(all_items - all_positive - n_negative),
    )


@helper
def count_distinct(first, second):
    """Count the distinct scores of two arrays, up to 3."""
    n = 0
    one = two = 0.0
    for scores in (first, second):
        for i in range(scores.size):
            x = scores[i]
            if n == 0:
                one = x
                n = 1
            elif n == 1 and x != one:
                two = x
                n = 2
            elif n == 2 and x != one and x != two:
                return 3
    return n


@helper
def write_facts(ranking, groups, n_groups, options, facts):
    """Write the columns of one ranking if there is room for them; return its totals, and its number of tie groups."""
    classes = ranking.classes
    ties_matter = False
    if facts.size > 0:
        facts[6], facts[5], ties_matter = pairs_and_ties(groups, n_groups, classes.negatives)
    if options.missing == MISSING_LAST:
        n_groups = append_missing(groups, n_groups, classes)
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
def of_average_precision(code):
    """Return the code of the same quantity of average precision."""
    return code - OF_HALDANE if code > OF_HALDANE else code


@helper
def totals(classes, n_unseen, options):
    """Return the number of positives by which areas are divided, and the negatives of the sample."""
    positives = classes.positives + n_unseen
    negatives = classes.negatives
    if options.missing != MISSING_DROP:
        positives += classes.missing_positives
        negatives += classes.missing_negatives
    return positives, negatives


@helper
def ranking_of(classes, n_given, n_distinct):
    """Gather the facts of one ranking; `n_given` is the number of all positives, or NaN."""
    labelled = classes.positives + classes.missing_positives
    return Ranking(
        classes,
        0.0 if np.isnan(n_given) else n_given - labelled,
        classes.missing_positives + classes.missing_negatives,
        classes.positives + classes.negatives,
        n_distinct,
    )


def finishing(area_of):
    """Return the last step of kernels that find areas by `area_of`: the fewer it knows, the faster they compile."""

    @helper
    def finish(ranking, groups, n_groups, options, codes, out):
        """Write the estimates of one ranking and, where `out` has room for them, its columns."""
        total, negatives, n_groups = write_facts(ranking, groups, n_groups, options, out[codes.size :])
        known, squares, cubes = NEITHER, np.nan, np.nan
        for e in range(codes.size):
            if not total > 0.0:
                value = np.nan
            elif not options.expect_ties and of_average_precision(codes[e]) in OF_MOMENTS:
                code = of_average_precision(codes[e])
                is_random, left_out = code in (ERROR_RANDOM, CUBES_RANDOM), codes[e] > OF_HALDANE
                wanted = np.int64(is_random) + 2 * np.int64(left_out)
                if wanted != known:  # one pass yields both sums
                    given = groups, n_groups, total, negatives, options.prevalence
                    squares, cubes = influence_moments(*given, is_random, left_out)
                    known = wanted
                is_error = code in (ERROR_FIXED, ERROR_RANDOM)
                value = np.sqrt(squares) / total if is_error else cubes / total**3  # may exceed 1, as no area does
            else:
                area = area_of(codes[e], groups, n_groups, total, negatives, options)
                value = 1.0 if area > 1.0 else area  # by rounding
            out[e] = value

    return finish


finish = finishing(area_of_any)
finish_common = finishing(area_of_common)
