"""Influences of the items, or of clusters of items, of a NumPy block, and what follows from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.evaluation import rankings
from aucpr_dask.evaluation.rankings import Rows
from aucpr_dask.schema.options import EvaluationOptions

if TYPE_CHECKING:
    from aucpr_dask.kernels import Clusters, Items, Options
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
        squares = _sums_of_rows(squared, items.clusters) + items.unseen * of_unseen**2
        squared *= influence.values  # their cubes: NumPy takes 50 times as long for a power
        cubes = _sums_of_rows(squared, items.clusters) + items.unseen * of_unseen**3
        found = np.sqrt(squares), cubes, influence.left_out, influence.unseen_loss
        for fact, values in zip(rankings.FACTS, found, strict=False):
            of_all = facts.setdefault(fact, np.full((*rows.lead, len(options.estimators)), np.nan))
            of_all[..., options.estimators.index(estimator)] = values.reshape(rows.lead)
    return facts


def facts_of_clusters(
    rows: Rows, items: Items, clusters: Clusters, options: EvaluationOptions, *, is_fixed: bool
) -> dict[str, Any]:
    """Compute the same where clusters are the sample, and what they change of the facts of items."""
    from aucpr_dask.kernels.intervals import design_effect

    both = items._replace(clusters=None), items
    of_items, of_clusters = (influence_facts(rows, units, options, is_fixed=is_fixed) for units in both)
    in_order = np.sort(clusters.number, axis=1)
    n_distinct = 1.0 + np.count_nonzero(in_order[:, 1:] != in_order[:, :-1], axis=1)
    n_clusters = n_distinct[clusters.row].reshape(*rows.lead, 1)
    within, between = of_items["error"] ** 2, of_clusters["error"] ** 2
    ratio = np.divide(between, within, out=np.ones_like(within), where=within > 0)
    effect = np.where(np.isnan(between), np.nan, design_effect(ratio, n_clusters))
    changed = {"effect": effect, "n_clusters": n_clusters, "item_error": of_items["error"], "cubes": of_items["cubes"]}
    return of_clusters | changed


def effective_positives(rows: Rows, items: Items, options: EvaluationOptions) -> Floats:
    """Return the effective number of positives of each ranking, or of clusters that hold some.

    It is (sum of weights)^2 / sum of squares, over positives or clusters.
    """
    total, squares = sums_of_weights(items, items.positive, options, items.clusters)
    total, squares = total + items.unseen, squares + items.unseen
    return _ratio(total**2, squares).reshape(rows.lead)


def sums_of_weights(
    items: Items, weight: Floats, options: EvaluationOptions, clusters: Clusters | None = None
) -> tuple[Floats, Floats]:
    """Return the sum, and the sum of squares, of the weights of one class that count in each ranking."""
    row = items.row
    if options.missing == "drop" and np.isnan(items.score).any():
        weight, row = np.where(np.isnan(items.score), 0.0, weight[row]), np.arange(len(row))
    if clusters is None:
        return weight.sum(axis=1)[row], (weight**2).sum(axis=1)[row]
    pairs, place = np.unique(np.stack([row, clusters.row]), axis=1, return_inverse=True)
    of_pairs = clusters._replace(row=pairs[1])
    weight = _sums_over_clusters(weight[pairs[0]], of_pairs)
    total, squares = (_sums_of_rows(one, of_pairs) for one in (weight, weight**2))
    return total[place], squares[place]


def _n_clusters(clusters: Clusters) -> NDArray[np.int64]:
    """Return one more than the largest number of a cluster, for each ranking."""
    return np.asarray(clusters.number.max(axis=1, initial=-1)[clusters.row] + 1)


def _sums_over_clusters(values: NDArray[Any], clusters: Clusters) -> Floats:
    """Add up the values (rows, items) of each cluster."""
    n_clusters, step = int(clusters.number.max(initial=-1)) + 1, max(1, SLAB // max(1, values.shape[1]))
    sums = np.empty((len(values), n_clusters))
    for start in range(0, len(values), step):
        slab = slice(start, start + step)
        shape = len(values[slab]), n_clusters
        place = np.arange(shape[0])[:, None] * n_clusters + clusters.number[clusters.row[slab]]
        added = np.bincount(place.ravel(), weights=values[slab].ravel(), minlength=shape[0] * n_clusters)
        sums[slab] = added.reshape(shape)
    return sums


def _sums_of_rows(values: Floats, clusters: Clusters | None) -> Floats:
    """Add up numbers of the items, or clusters, of each ranking: by pairs, as if there were no other ranking."""
    if clusters is None:
        return np.asarray(values.sum(axis=1))
    sums, n_clusters = np.empty(len(values)), _n_clusters(clusters)
    for n in np.unique(n_clusters):
        sums[n_clusters == n] = values[n_clusters == n][:, :n].sum(axis=1)
    return sums


def _ratio(total: Floats, part: Floats) -> Floats:
    """Divide; 0 where there is nothing."""
    return np.divide(total, part, out=np.zeros_like(total), where=part > 0)


def _influences(rows: Rows, items: Items, options: EvaluationOptions, estimator: str, *, is_fixed: bool) -> Influence:
    """Return the influences of items, or of clusters."""
    from aucpr_dask.kernels.first_calls import Units, influence_rows

    clusters, reading = items.clusters, rankings.reading_of(options)
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
    influence = influence._replace(values=_of_clusters(influence.values, clusters, *classes))
    is_few = _n_clusters(clusters) <= MOST_LEFT_OUT
    if estimator == "average_precision" and estimator in options.in_one_pass and is_few.any():
        of_few = {name: getattr(items, name)[is_few] for name in ("score", "row", "unseen")}
        few = items._replace(**of_few), clusters._replace(row=clusters.row[is_few])
        _leave_out_clusters(influence, is_few, *few, reading)
    return influence


def _leave_out_clusters(
    influence: Influence, is_few: NDArray[np.bool_], items: Items, clusters: Clusters, reading: Options
) -> None:
    """Leave out each cluster, if they are few: sums of influences miss much of their variance, and the bias.

    An area whose items share the effect of their cluster is larger than leaving out each positive shows. The centre of
    intervals, half way between the area and `left_out`, moves by the rest.
    """
    from aucpr_dask.kernels.influence import leave_out_clusters

    deviations, bias = leave_out_clusters(items, clusters, reading)
    excess = np.maximum(bias - np.abs(influence.estimate - influence.left_out)[is_few], 0)
    is_unknown = np.isnan(influence.values[is_few, :1])
    influence.values[is_few, : deviations.shape[1]] = np.where(is_unknown, np.nan, deviations)
    influence.left_out[is_few] -= 2 * excess


def _of_clusters(
    values: Floats, clusters: Clusters, positive: NDArray[np.bool_], negative: NDArray[np.bool_]
) -> Floats:
    """Add up each row's values within clusters, corrected for their number; NaN if a class lies in fewer than two."""
    holds = [_sums_over_clusters(one, clusters) > 0 for one in (positive, negative)]
    is_known = np.all([np.count_nonzero(one, axis=1) >= 2 for one in holds], axis=0)
    n = np.where(is_known, np.count_nonzero(holds[0] | holds[1], axis=1), 2)
    sums = _sums_over_clusters(values, clusters) * np.sqrt(n / (n - 1))[:, None]
    return np.where(is_known[:, None], sums, np.nan)
