"""Influences of the items, or of clusters of items, of a NumPy block, and what follows from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.evaluation import rankings, tied_items
from aucpr_dask.schema.options import EvaluationOptions

if TYPE_CHECKING:
    from aucpr_dask.kernels.influence import Influence
    from aucpr_dask.kernels.options import Options

MOST_LEFT_OUT = 1000  # clusters that are left out in turn; of more, influences show as much in less time
COLUMNS_AFTER = ("estimate", "proportion", "unseen_loss", "n_effective")  # of the influences of a ranking


def influence_columns(
    *arrays: rankings.Array,
    roles: tuple[str, ...],
    options: EvaluationOptions,
    clusters: NDArray[np.int64] | None,
    is_fixed: bool,
) -> NDArray[np.float64]:
    """Compute the influences of every ranking of a block, scaled so that their products add up to covariances.

    A generalized function, ``(item), (item), ... -> (unit)``: the influences of items, or of `clusters`; that of all
    positives that are not items; and then `COLUMNS_AFTER`: the estimate, the variance of one draw of a proportion of
    its size, what a negative above all items would take from it, and the effective number of positives.
    """
    named = dict(zip(roles, arrays, strict=True))
    estimate = rankings.evaluate_rankings(named, options).estimate[..., 0]
    units = named if clusters is None else named | {"cluster": clusters}
    rows, influence, unseen = _influences(units, options, options.estimators[0], is_fixed=is_fixed)
    absent = np.where(unseen > 0, np.sqrt(unseen) * influence.unseen, 0.0)
    area = np.clip((estimate.ravel() + influence.left_out) / 2, 0, 1)
    after = [estimate.ravel(), area * (1 - area), influence.unseen_loss, effective_positives(units, options).ravel()]
    columns = np.column_stack([influence.values, absent, *after])
    return columns.reshape(*rows.lead, columns.shape[1])


def influence_facts(
    named: dict[str, rankings.Array], options: EvaluationOptions, *, is_fixed: bool
) -> dict[str, rankings.Array]:
    """Compute the first four `FACTS` of weighted items, or of clusters: arrays over estimators, NaN where unknown."""
    facts: dict[str, rankings.Array] = {}
    for estimator in options.with_influence:
        rows, influence, unseen = _influences(named, options, estimator, is_fixed=is_fixed)
        of_unseen = np.where(unseen > 0, influence.unseen, 0.0)
        squares = (influence.values**2).sum(axis=1) + unseen * of_unseen**2
        cubes = (influence.values**3).sum(axis=1) + unseen * of_unseen**3
        found = np.sqrt(squares), cubes, influence.left_out, influence.unseen_loss
        for fact, values in zip(rankings.FACTS, found, strict=False):
            of_all = facts.setdefault(fact, np.full((*rows.lead, len(options.estimators)), np.nan))
            of_all[..., options.estimators.index(estimator)] = values.reshape(rows.lead)
    return facts


def facts_of_clusters(
    named: dict[str, rankings.Array], options: EvaluationOptions, *, is_fixed: bool
) -> dict[str, rankings.Array]:
    """Compute the same where clusters are the sample, and what they change of the facts of items."""
    from aucpr_dask.kernels.intervals import design_effect

    items = {role: array for role, array in named.items() if role != "cluster"}
    of_items, of_clusters = (influence_facts(units, options, is_fixed=is_fixed) for units in (items, named))
    n_clusters = np.full((), float(np.unique(named["cluster"]).size))
    within, between = of_items["error"] ** 2, of_clusters["error"] ** 2
    ratio = np.divide(between, within, out=np.ones_like(within), where=within > 0)
    effect = np.where(np.isnan(between), np.nan, design_effect(ratio, n_clusters))
    changed = {"effect": effect, "n_clusters": n_clusters, "item_error": of_items["error"], "cubes": of_items["cubes"]}
    return of_clusters | changed


def ranked_items(
    named: dict[str, rankings.Array], options: EvaluationOptions
) -> tuple[
    rankings.Rows,
    rankings.Array,
    NDArray[np.float64],
    NDArray[np.float64],
    NDArray[np.int64],
    NDArray[np.float64],
]:
    """Return the rows, their scores, weights by class with the row of each, and positives that are no items."""
    rows = rankings.Rows(named)
    positive, negative, row, _ = rankings.class_weights(rows, named, options)
    unseen = rankings.unseen_positives(rows, named, positive, row)
    score = rows.full(named["score"])
    if "tie_order" in named:
        order, label = rows.distinct(named["tie_order"]), rows.distinct(named["label"])
        of_items = np.asarray(np.add(*rankings.memberships(label[0], options), dtype=np.int8))
        score = tied_items.untied(score, *order, of_items, label[1], options.missing)
    return rows, score, positive, negative, row, unseen


def effective_positives(named: dict[str, rankings.Array], options: EvaluationOptions) -> NDArray[np.float64]:
    """Return the effective number of positives of each ranking, or of clusters that hold some.

    It is (sum of weights)^2 / sum of squares, over positives or clusters.
    """
    clusters = _clusters_of(named)
    rows = rankings.Rows(named)
    positive, _, class_row, _ = rankings.class_weights(rows, named, options)
    unseen = rankings.unseen_positives(rows, named, positive, class_row)
    total, squares = _sums_of_weights(rows.full(named["score"]), positive, class_row, options, clusters)
    total, squares = total + unseen, squares + unseen
    return _ratio(total**2, squares).reshape(rows.lead)


def _clusters_of(named: dict[str, rankings.Array]) -> NDArray[np.int64] | None:
    return named["cluster"].reshape(-1) if "cluster" in named else None


def _sums_of_weights(
    score: rankings.Array,
    weight: NDArray[np.float64],
    weight_row: NDArray[np.int64],
    options: EvaluationOptions,
    clusters: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sum, and the sum of squares, of the weights of one class that count in each ranking."""
    total, squares = np.empty((2, len(score)))
    for row, scores in enumerate(score):
        counted = weight[weight_row[row]]
        counted = np.where(np.isnan(scores), 0.0, counted) if options.missing == "drop" else counted
        counted = counted if clusters is None else np.bincount(clusters, weights=counted)
        total[row], squares[row] = counted.sum(), (counted**2).sum()
    return total, squares


def _ratio(total: NDArray[np.float64], part: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide; 0 where there is nothing."""
    return np.divide(total, part, out=np.zeros_like(total), where=part > 0)


def _influences(
    named: dict[str, rankings.Array], options: EvaluationOptions, estimator: str, *, is_fixed: bool
) -> tuple[rankings.Rows, Influence, NDArray[np.float64]]:
    """Return the influences of items, or of clusters, and the number of positives that are not items."""
    from aucpr_dask.kernels.influence import Units, area_influence_rows, influence_rows

    clusters = _clusters_of(named)
    rows, score, positive, negative, row, unseen = ranked_items(named, options)
    total, squares = _sums_of_weights(score, positive, row, options, clusters)
    of_negatives = _sums_of_weights(score, negative, row, options)
    units = Units(_ratio(squares + unseen, total + unseen), _ratio(*of_negatives[::-1]))
    design: dict[str, Any] = {"units": units, "prevalence_is_fixed": is_fixed, "is_corrected": clusters is None}
    weighted = score, positive, negative, row, rankings.reading_of(options), unseen
    if estimator in options.in_one_pass:
        influence = influence_rows(*weighted, **design, leaves_out=estimator == "haldane")
    else:
        influence = area_influence_rows(*weighted, estimator, options.recall_range, **design)
    if clusters is not None:
        rankings.refuse_unseen(rows, unseen)
        is_counted = ~np.isnan(score) | (options.missing in ("last", "unretrieved"))
        classes = (positive > 0)[row] & is_counted, (negative > 0)[row] & is_counted
        influence = influence._replace(values=_sums_over_clusters(influence.values, clusters, *classes))
        if estimator == "average_precision" and estimator in options.in_one_pass:
            influence = _without_each_cluster(influence, *weighted[:5], clusters)
    return rows, influence, unseen


def _without_each_cluster(
    influence: Influence,
    score: rankings.Array,
    positive: NDArray[np.float64],
    negative: NDArray[np.float64],
    row: NDArray[np.int64],
    reading: Options,
    clusters: NDArray[np.int64],
) -> Influence:
    """Leave out each cluster, if they are few: sums of influences miss much of their variance, and the bias.

    An area whose items share the effect of their cluster is larger than leaving out each positive shows. The centre of
    intervals, half way between the area and `left_out`, moves by the rest.
    """
    from aucpr_dask.kernels.clusters import leave_out_clusters

    if int(clusters.max(initial=-1)) >= MOST_LEFT_OUT:
        return influence
    found = leave_out_clusters(score, positive, negative, row, clusters, reading)
    excess = np.maximum(found.bias - np.abs(influence.estimate - influence.left_out), 0)
    values = np.where(np.isnan(influence.values), np.nan, found.deviations)
    return influence._replace(values=values, left_out=influence.left_out - 2 * excess)


def _sums_over_clusters(
    values: NDArray[np.float64],
    clusters: NDArray[np.int64],
    positive: NDArray[np.bool_],
    negative: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Add up each row's values within clusters, corrected for their number; NaN if a class lies in fewer than two."""
    n_clusters = int(clusters.max(initial=-1)) + 1
    sums = np.full((len(values), n_clusters), np.nan)
    for row in range(len(values)):
        holds = [
            np.bincount(clusters, weights=of_class[row], minlength=n_clusters) > 0 for of_class in (positive, negative)
        ]
        if min(np.count_nonzero(holds, axis=1)) < 2:
            continue
        n = np.count_nonzero(holds[0] | holds[1])
        sums[row] = np.bincount(clusters, weights=values[row], minlength=n_clusters) * np.sqrt(n / (n - 1))
    return sums
