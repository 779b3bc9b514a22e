"""Influences of the items, or of clusters of items, of a NumPy block, and what follows from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.evaluation import rankings
from aucpr_dask.evaluation.rankings import Rows
from aucpr_dask.schema.options import EvaluationOptions

if TYPE_CHECKING:
    from aucpr_dask.kernels import Items, Options
    from aucpr_dask.kernels.first_calls import Influence

Floats = NDArray[np.float64]

SLAB = 1 << 16  # influences that are added up at a time
MOST_LEFT_OUT = 1000  # clusters that are left out in turn; of more, influences show as much in less time
COLUMNS_AFTER = ("estimate", "proportion", "unseen_loss", "n_effective")  # of the influences of a ranking


def influence_columns(
    *arrays: rankings.Array,
    roles: tuple[str, ...],
    options: EvaluationOptions,
    clusters: NDArray[np.int64] | None,
    is_fixed: bool,
) -> Floats:
    """Compute the influences of every ranking of a block, scaled so that their products add up to covariances.

    A generalized function, ``(item), (item), ... -> (unit)``: the influences of items, or of `clusters`; that of all
    positives that are not items; and then `COLUMNS_AFTER`: the estimate, the variance of one draw of a proportion of
    its size, what a negative above all items would take from it, and the effective number of positives.
    """
    named = dict(zip(roles, arrays, strict=True))
    estimate = rankings.evaluate_rankings(named, options).estimate[..., 0]
    rows, items = rankings.items_of(named if clusters is None else named | {"cluster": clusters}, options)
    influence = _influences(rows, items, options, options.estimators[0], is_fixed=is_fixed)
    absent = np.where(items.unseen > 0, np.sqrt(items.unseen) * influence.unseen, 0.0)
    area = np.clip((estimate.ravel() + influence.left_out) / 2, 0, 1)
    n_effective = effective_positives(rows, items, options).ravel()
    after = [estimate.ravel(), area * (1 - area), influence.unseen_loss, n_effective]
    columns = np.column_stack([influence.values, absent, *after])
    return columns.reshape(*rows.lead, columns.shape[1])


def influence_facts(rows: Rows, items: Items, options: EvaluationOptions, *, is_fixed: bool) -> dict[str, Any]:
    """Compute the first four `FACTS` of weighted items, or of clusters: arrays over estimators, NaN where unknown."""
    facts: dict[str, rankings.Array] = {}
    for estimator in options.with_influence:
        influence = _influences(rows, items, options, estimator, is_fixed=is_fixed)
        of_unseen = np.where(items.unseen > 0, influence.unseen, 0.0)
        squared = influence.values**2
        squares = squared.sum(axis=1) + items.unseen * of_unseen**2
        squared *= influence.values  # their cubes: NumPy takes 50 times as long for a power
        cubes = squared.sum(axis=1) + items.unseen * of_unseen**3
        found = np.sqrt(squares), cubes, influence.left_out, influence.unseen_loss
        for fact, values in zip(rankings.FACTS, found, strict=False):
            of_all = facts.setdefault(fact, np.full((*rows.lead, len(options.estimators)), np.nan))
            of_all[..., options.estimators.index(estimator)] = values.reshape(rows.lead)
    return facts


def facts_of_clusters(rows: Rows, items: Items, options: EvaluationOptions, *, is_fixed: bool) -> dict[str, Any]:
    """Compute the same where clusters are the sample, and what they change of the facts of items."""
    from aucpr_dask.kernels.intervals import design_effect

    both = items._replace(cluster=None), items
    of_items, of_clusters = (influence_facts(rows, units, options, is_fixed=is_fixed) for units in both)
    n_clusters = np.full((), float(np.unique(np.asarray(items.cluster)).size))
    within, between = of_items["error"] ** 2, of_clusters["error"] ** 2
    ratio = np.divide(between, within, out=np.ones_like(within), where=within > 0)
    effect = np.where(np.isnan(between), np.nan, design_effect(ratio, n_clusters))
    changed = {"effect": effect, "n_clusters": n_clusters, "item_error": of_items["error"], "cubes": of_items["cubes"]}
    return of_clusters | changed


def effective_positives(rows: Rows, items: Items, options: EvaluationOptions) -> Floats:
    """Return the effective number of positives of each ranking, or of clusters that hold some.

    It is (sum of weights)^2 / sum of squares, over positives or clusters.
    """
    total, squares = sums_of_weights(items, items.positive, options, items.cluster)
    total, squares = total + items.unseen, squares + items.unseen
    return _ratio(total**2, squares).reshape(rows.lead)


def sums_of_weights(
    items: Items, weight: Floats, options: EvaluationOptions, clusters: NDArray[np.int64] | None = None
) -> tuple[Floats, Floats]:
    """Return the sum, and the sum of squares, of the weights of one class that count in each ranking."""
    row = items.row
    if options.missing == "drop" and np.isnan(items.score).any():
        weight, row = np.where(np.isnan(items.score), 0.0, weight[row]), np.arange(len(row))
    counted = weight if clusters is None else [np.bincount(clusters, weights=one) for one in weight]
    total, squares = np.array([(one.sum(), (one**2).sum()) for one in counted]).reshape(-1, 2).T
    return total[row], squares[row]


def _ratio(total: Floats, part: Floats) -> Floats:
    """Divide; 0 where there is nothing."""
    return np.divide(total, part, out=np.zeros_like(total), where=part > 0)


def _influences(rows: Rows, items: Items, options: EvaluationOptions, estimator: str, *, is_fixed: bool) -> Influence:
    """Return the influences of items, or of clusters."""
    from aucpr_dask.kernels.first_calls import Units, influence_rows

    clusters, reading = items.cluster, rankings.reading_of(options)
    total, squares = sums_of_weights(items, items.positive, options, clusters)
    of_negatives = sums_of_weights(items, items.negative, options)
    units = Units(_ratio(squares + items.unseen, total + items.unseen), _ratio(*of_negatives[::-1]))
    design: dict[str, Any] = {"units": units, "prevalence_is_fixed": is_fixed, "is_corrected": clusters is None}
    influence = influence_rows(items, reading, estimator, options.recall_range, **design)
    if clusters is None:
        return influence
    rankings.refuse_unseen(rows, items.unseen)
    is_counted = ~np.isnan(items.score) | (options.missing in ("last", "unretrieved"))
    classes = ((weight > 0)[items.row] & is_counted for weight in (items.positive, items.negative))
    influence = influence._replace(values=_sums_over_clusters(influence.values, clusters, *classes))
    if estimator == "average_precision" and estimator in options.in_one_pass:
        influence = _without_each_cluster(influence, items, clusters, reading)
    return influence


def _without_each_cluster(
    influence: Influence, items: Items, clusters: NDArray[np.int64], reading: Options
) -> Influence:
    """Leave out each cluster, if they are few: sums of influences miss much of their variance, and the bias.

    An area whose items share the effect of their cluster is larger than leaving out each positive shows. The centre of
    intervals, half way between the area and `left_out`, moves by the rest.
    """
    from aucpr_dask.kernels.influence import leave_out_clusters

    if int(clusters.max(initial=-1)) >= MOST_LEFT_OUT:
        return influence
    deviations, bias = leave_out_clusters(items, clusters, reading)
    excess = np.maximum(bias - np.abs(influence.estimate - influence.left_out), 0)
    values = np.where(np.isnan(influence.values), np.nan, deviations)
    return influence._replace(values=values, left_out=influence.left_out - 2 * excess)


def _sums_over_clusters(
    values: Floats, clusters: NDArray[np.int64], positive: NDArray[np.bool_], negative: NDArray[np.bool_]
) -> Floats:
    """Add up each row's values within clusters, corrected for their number; NaN if a class lies in fewer than two."""
    n_clusters, step = int(clusters.max(initial=-1)) + 1, max(1, SLAB // max(1, clusters.size))
    sums = np.full((len(values), n_clusters), np.nan)
    for start in range(0, len(values), step):
        rows = slice(start, start + step)
        shape = len(values[rows]), n_clusters
        place = (np.arange(shape[0])[:, None] * n_clusters + clusters).ravel()
        added = [
            np.bincount(place, weights=one[rows].ravel(), minlength=shape[0] * n_clusters).reshape(shape)
            for one in (positive, negative, values)
        ]
        holds = np.stack(added[:2]) > 0
        is_known = (np.count_nonzero(holds, axis=2) >= 2).all(axis=0)
        n = np.where(is_known, np.count_nonzero(holds.any(axis=0), axis=1), 2)
        sums[rows] = np.where(is_known[:, None], added[2] * np.sqrt(n / (n - 1))[:, None], np.nan)
    return sums
