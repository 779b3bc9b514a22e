"""What clusters of items do to an average precision: its bias and variance, by leaving out each cluster in turn."""

from __future__ import annotations

import numpy as np
from numba import types

from aucpr_dask.kernels.compiling import kernel
from aucpr_dask.kernels.influence import groups_of_places, sample_of
from aucpr_dask.kernels.options import F8, I8, OPTIONS_TYPE, Array, Indices, Items, Options, row_of
from aucpr_dask.kernels.sorting import descending_places
from aucpr_dask.kernels.tie_groups import scale_to


def leave_out_clusters(items: Items, cluster: Indices, options: Options) -> tuple[Array, Array]:
    """Return what leaving out each cluster in turn shows of average precision: deviations (rows, clusters), and bias.

    With A the area and ``A_c`` that without cluster c, of C clusters that hold items, the bias is
    ``(C - 1)(mean A_c - A)``, and the squares of the deviations ``sqrt((C - 1)/C) (mean A_c - A_c)`` add up to the
    jackknife's variance (Efron & Stein 1981, doi:10.1214/aos/1176345462). Ties are in tie groups.
    """
    n_rows, n_clusters = len(items.score), int(cluster.max(initial=-1)) + 1
    deviations, bias = np.zeros((n_rows, n_clusters)), np.full(n_rows, np.nan)
    areas = np.empty(n_clusters + 1)
    for row, score in enumerate(items.score):
        order = descending_places(score)
        areas_without_clusters(-score.astype(np.float64), order, *items.weights(row), cluster, options, areas)
        is_held = ~np.isnan(areas[:-1])
        left_out, n_held = areas[:-1][is_held], np.count_nonzero(is_held)
        if n_held > 1:
            bias[row] = (n_held - 1) * (left_out.mean() - areas[-1])
            deviations[row, is_held] = np.sqrt((n_held - 1) / n_held) * (left_out.mean() - left_out)
    return deviations, bias


@kernel(types.void(row_of(F8), row_of(I8), row_of(F8), row_of(F8), row_of(I8), OPTIONS_TYPE, F8[::1]))
def areas_without_clusters(descending, order, positive_weight, negative_weight, cluster, options, areas):
    """Write the area without each cluster, and at last that of all items; NaN of a cluster without items.

    Without the only cluster that holds positives there is no area: it counts as that of all items.
    """
    n_clusters = areas.size - 1
    sample = sample_of(descending, order, positive_weight, negative_weight, options, 0.0)
    positives, negatives = np.zeros(n_clusters), np.zeros(n_clusters)  # of each cluster
    for place in range(sample.n_counted):
        i = order[place]
        positives[cluster[i]] += positive_weight[i]
        negatives[cluster[i]] += negative_weight[i]
    scale = np.empty(n_clusters)
    for c in range(n_clusters):
        scale[c] = scale_to(options.prevalence, sample.positives - positives[c], sample.negatives - negatives[c])
    whole = scale_to(options.prevalence, sample.positives, sample.negatives)
    groups, n_groups = groups_of_places(descending, order, positive_weight, negative_weight, sample.n_placed, whole)
    true, false, gained = np.zeros(n_clusters), np.zeros(n_clusters), np.zeros(n_clusters)
    areas[:] = 0.0
    start = 0
    for k in range(n_groups):
        for place in range(start, groups.end[k]):
            i = order[place]
            true[cluster[i]] += positive_weight[i]
            false[cluster[i]] += negative_weight[i]
            if place >= groups.start[k]:
                gained[cluster[i]] += positive_weight[i]
        all_true, all_false = groups.positives[k], groups.above[k] + groups.passed[k]
        for c in range(n_clusters):
            found = all_true - true[c]
            if groups.gained[k] > gained[c]:
                areas[c] += (groups.gained[k] - gained[c]) * (found / (found + scale[c] * (all_false - false[c])))
        areas[n_clusters] += groups.gained[k] * (all_true / (all_true + whole * all_false))
        for place in range(groups.start[k], groups.end[k]):
            gained[cluster[order[place]]] = 0.0
        start = groups.end[k]
    areas[n_clusters] /= sample.positives
    for c in range(n_clusters):
        if positives[c] == 0.0 and negatives[c] == 0.0:
            areas[c] = np.nan
        elif sample.positives > positives[c]:
            areas[c] /= sample.positives - positives[c]
        else:
            areas[c] = areas[n_clusters]
