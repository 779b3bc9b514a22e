"""Functions on the NumPy blocks of a graph: replicates, folds, standard errors, and the intervals made from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.evaluation.rankings import (
    Array,
    Rows,
    check_rows,
    class_weights,
    evaluate_rankings,
    memberships,
    reading_of,
    targets_of,
)
from aucpr_dask.evaluation.tied_items import untied
from aucpr_dask.schema.options import EvaluationOptions

if TYPE_CHECKING:
    from aucpr_dask.kernels.areas.influence import Influence

FOLDS = 1  # a random stream different from those of resampling


def replicate_rankings(
    *arrays: Array,
    roles: tuple[str, ...],
    options: EvaluationOptions,
    extras: tuple[str, ...] = (),
    n_resamples: int,
    bayesian: bool,
    is_stratified: bool = True,
    first_resample: int = 0,
    has_classes: bool = False,
) -> NDArray[np.float64]:
    """Evaluate resamples of every ranking of a block, from `first_resample` on.

    A generalized function, ``(item), (item), ..., () -> (quantity, resample)``. In addition to those of
    :func:`evaluate_rankings`, roles are ``key`` (uint64: of the resamples of a ranking) and, to draw clusters,
    ``cluster`` (int64, on the item axis). `bayesian` draws Dirichlet weights in place of counts.
    Classes share their resamples, even if an item is left out of some of them.
    """
    from aucpr_dask import kernels

    named = dict(zip(roles, arrays, strict=True))
    rows, items = checked_items(named, options)
    targets = targets_of(options, extras)
    replicates = kernels.replicate_rows(
        items.score,
        items.positive,
        items.negative,
        items.class_row,
        items.cluster,
        rows.broadcast(named["key"]),
        items.unseen,
        reading_of(options),
        targets,
        n_resamples,
        bayesian,
        is_stratified,
        first_resample,
        has_classes,
    )
    _count_as_estimates(
        replicates.reshape(len(items.score), targets.codes.size, replicates.shape[-1]), rows, named, items, options
    )
    shaped: NDArray[np.float64] = replicates.reshape(*rows.lead, targets.codes.size, replicates.shape[-1])
    return shaped


def _count_as_estimates(
    replicates: NDArray[np.float64], rows: Rows, named: dict[str, Array], items: Items, options: EvaluationOptions
) -> None:
    """Let replicates (ranking, quantity, resample) count as 0, or not at all, where the estimates do."""
    if options.no_positives == "zero":
        n_positive = (items.positive > 0).sum(axis=1)[items.class_row] + items.unseen
        replicates[n_positive == 0, : len(options.estimators)] = 0.0
    if options.nothing_ranked == "drop":
        is_item = ((items.positive > 0) | (items.negative > 0))[items.class_row]
        replicates[~(is_item & ~np.isnan(rows.full(named["score"]))).any(axis=1)] = np.nan


def estimate_accelerations(
    *arrays: Array, roles: tuple[str, ...], options: EvaluationOptions, is_stratified: bool
) -> NDArray[np.float64]:
    """Compute the acceleration of every estimator from its exact jackknife: ``(item), (item), ... -> (estimator)``."""
    from aucpr_dask import kernels

    named = dict(zip(roles, arrays, strict=True))
    rows, items = checked_items(named, options)
    targets = targets_of(options)
    values = kernels.accelerations(
        items.score,
        items.positive,
        items.negative,
        items.class_row,
        items.cluster,
        items.unseen,
        reading_of(options),
        targets,
        is_stratified,
    )
    shaped: NDArray[np.float64] = values.reshape(*rows.lead, targets.codes.size)
    return shaped


def effective_positives(*arrays: Array, roles: tuple[str, ...], options: EvaluationOptions) -> NDArray[np.float64]:
    """Return the effective number of positives, or of clusters that hold some: ``(item), ... -> ()``.

    It is (sum of weights)^2 / sum of squares, over positives or clusters.
    """
    named = dict(zip(roles, arrays, strict=True))
    clusters = named.pop("cluster").reshape(-1) if "cluster" in named else None
    rows = Rows(named)
    positive, _, class_row, _ = class_weights(rows, named, options)
    unseen = _unseen(rows, named, positive, class_row)
    total, squares = _sums_of_weights(rows.full(named["score"]), positive, class_row, options, clusters)
    total, squares = total + unseen, squares + unseen
    return _ratio(total**2, squares).reshape(rows.lead)


def _sums_of_weights(
    score: Array,
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


class Items(NamedTuple):
    """The items to resample: scores by ranking, class weights by class row, clusters, positives that are not items."""

    score: Array
    positive: NDArray[np.float64]
    negative: NDArray[np.float64]
    class_row: NDArray[np.int64]
    cluster: NDArray[np.int64] | None
    unseen: NDArray[np.float64]


def checked_items(named: dict[str, Array], options: EvaluationOptions) -> tuple[Rows, Items]:
    """Return how the rankings of a block unfold into rows, and the items to resample."""
    rows = Rows(named)
    positive, negative, class_row, _ = class_weights(rows, named, options)
    unseen = _unseen(rows, named, positive, class_row)
    cluster = named["cluster"].reshape(-1) if "cluster" in named else None
    if cluster is not None:
        _refuse_unseen(rows, unseen)
    score = rows.full(named["score"])
    is_item = (positive > 0) | (negative > 0)
    n_missing = [np.count_nonzero(np.isnan(row) & is_item[i]) for row, i in zip(score, class_row, strict=True)]
    check_rows({"n_missing": np.array(n_missing, np.float64), "n_unseen": unseen}, rows, options)
    if options.ties == "trec_eval":
        tie_order, tie_row = rows.distinct(named["tie_order"])
        classes = ((positive > 0) * 2 + (negative > 0)).astype(np.int8)
        score = untied(score, tie_order, tie_row, classes, class_row, options.missing)
    return rows, Items(score, positive, negative, class_row, cluster, unseen)


def _refuse_unseen(rows: Rows, unseen: NDArray[np.float64]) -> None:
    if unseen.any():
        raise InvalidInputError(
            "positives that are not items belong to no cluster",
            where="variables 'n_positive' and 'cluster'",
            received=f"positives beyond the items: {rows.describe(unseen > 0, unseen)}",
            remedy="drop 'cluster' to sample items, or 'n_positive' to leave them out",
        )


def _unseen(
    rows: Rows, named: dict[str, Array], positive: NDArray[np.float64], class_row: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the number of positives of each ranking that are not items."""
    if "n_positive" not in named:
        return np.zeros(class_row.size)
    unseen: NDArray[np.float64] = rows.scalar(named["n_positive"]) - positive.sum(axis=1)[class_row]
    return unseen


def evaluate_folds(
    *arrays: Array, roles: tuple[str, ...], options: EvaluationOptions, n_folds: int
) -> NDArray[np.float64]:
    """Evaluate every fold of every ranking of a block: ``(item), (item), ... -> (estimator, fold)``.

    Another role is ``fold`` (integers from 0, on the item axis) or ``key`` (uint64: of stratified folds).
    """
    named = dict(zip(roles, arrays, strict=True))
    key, fold = named.pop("key", None), named.pop("fold", None)
    if fold is None:
        fold = stratified_folds(named, key, options, n_folds)
    columns = []
    for number in range(n_folds):
        part = named | {name: np.where(fold == number, named[name], off) for name, off in LEFT_OUT if name in named}
        if "n_positive" in named:  # positives that are not items are divided among the folds
            here, everywhere = ((x["label"] >= (options.positive_from or 1)).sum(axis=-1) for x in (part, named))
            part["n_positive"] = here + (named["n_positive"] - everywhere) / n_folds
        values = evaluate_rankings(*part.values(), roles=tuple(part), options=options)
        columns.append(values[..., : len(options.estimators)])
    return np.stack(columns, axis=-1)


LEFT_OUT = (("label", -2), ("positive_weight", 0.0), ("negative_weight", 0.0))


def stratified_folds(
    named: dict[str, Array], key: Array | None, options: EvaluationOptions, n_folds: int
) -> NDArray[np.int64]:
    """Deal the items of each class to folds in random order, so that their sizes differ by at most one."""
    if "label" in named:
        is_item, is_positive = memberships(named["label"], options)
    else:
        is_item, is_positive = np.array(True), named["positive_weight"] > 0
    shape = np.broadcast_shapes(is_positive.shape[:-1], np.asarray(key).shape)
    fold = np.empty((*shape, is_positive.shape[-1]), dtype=np.int64)
    keys, classes = np.broadcast_to(np.asarray(key), shape), np.broadcast_to(is_positive, fold.shape)
    is_item = np.broadcast_to(is_item, fold.shape)
    for index in np.ndindex(shape):
        words = np.random.Philox(key=int(keys[index]) + (FOLDS << 64)).random_raw(fold.shape[-1])
        place = np.empty(words.size, dtype=np.int64)
        order = np.lexsort((words, ~classes[index], ~is_item[index]))  # positives, negatives, no items
        place[order] = np.arange(words.size)
        n_positive = int((classes[index] & is_item[index]).sum())
        fold[index] = np.where(place < n_positive, place, place - n_positive) % n_folds
    return fold


COLUMNS_AFTER = ("estimate", "surplus", "n_effective")  # of the influences of a ranking


def influence_columns(
    *arrays: Array,
    roles: tuple[str, ...],
    options: EvaluationOptions,
    clusters: NDArray[np.int64] | None,
    is_fixed: bool,
) -> NDArray[np.float64]:
    """Compute the influences of every ranking of a block, scaled so that their products add up to covariances.

    A generalized function, ``(item), (item), ... -> (unit)``: the influences of items, or of `clusters`; that of all
    positives that are not items; and then `COLUMNS_AFTER`: the estimate, what its variance in differences has beyond
    the squares of the influences, and the effective number of positives.
    """
    from aucpr_dask.kernels.intervals.beta import variance_in_differences

    estimate = evaluate_rankings(*arrays, roles=roles, options=options)[..., 0]
    named = dict(zip(roles, arrays, strict=True))
    rows, influence, unseen = _influences(named, options, options.estimators[0], clusters, is_fixed=is_fixed)
    absent = np.where(unseen > 0, np.sqrt(unseen) * influence.unseen, 0.0)
    squares = (influence.values**2).sum(axis=1) + absent**2
    in_clusters = named if clusters is None else named | {"cluster": clusters}
    n = effective_positives(*in_clusters.values(), roles=tuple(in_clusters), options=options).ravel()
    variance = variance_in_differences(estimate.ravel(), n, squares, influence.left_out, influence.unseen_loss)
    columns = np.column_stack([influence.values, absent, estimate.ravel(), variance - squares, n])
    return columns.reshape(*rows.lead, columns.shape[1])


def _influences(
    named: dict[str, Array],
    options: EvaluationOptions,
    estimator: str,
    clusters: NDArray[np.int64] | None,
    *,
    is_fixed: bool,
) -> tuple[Rows, Influence, NDArray[np.float64]]:
    """Return the influences of items, or of clusters, and the number of positives that are not items."""
    from aucpr_dask.kernels.areas.influence import Units, influence_rows

    rows = Rows(named)
    positive, negative, row, _ = class_weights(rows, named, options)
    unseen = _unseen(rows, named, positive, row)
    score = rows.full(named["score"])
    total, squares = _sums_of_weights(score, positive, row, options, clusters)
    of_negatives = _sums_of_weights(score, negative, row, options)
    units = Units(_ratio(squares + unseen, total + unseen), _ratio(*of_negatives[::-1]))
    design: dict[str, Any] = {"units": units, "prevalence_is_fixed": is_fixed, "is_corrected": clusters is None}
    design["leaves_out"] = estimator == "haldane"
    influence = influence_rows(score, positive, negative, row, reading_of(options), unseen, **design)
    if clusters is not None:
        _refuse_unseen(rows, unseen)
        is_counted = ~np.isnan(score) | (options.missing in ("last", "unretrieved"))
        sums = _sums_over_clusters(
            influence.values, clusters, (positive > 0)[row] & is_counted, (negative > 0)[row] & is_counted
        )
        influence = influence._replace(values=sums)
    return rows, influence, unseen


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


INFLUENCE_FACTS = ("error", "cubes", "left_out", "unseen_loss")  # as the fields of `Evidence`


def influence_facts(
    *arrays: Array, roles: tuple[str, ...], options: EvaluationOptions, is_fixed: bool
) -> NDArray[np.float64]:
    """Compute `INFLUENCE_FACTS` of weighted items, or of clusters: ``(item), (item), ... -> (fact)``.

    They are those of the first estimator with an influence function, then those of the next.
    """
    named = dict(zip(roles, arrays, strict=True))
    clusters = named.pop("cluster").reshape(-1) if "cluster" in named else None
    facts: list[NDArray[np.float64]] = []
    for estimator in options.with_influence:
        rows, influence, unseen = _influences(named, options, estimator, clusters, is_fixed=is_fixed)
        of_unseen = np.where(unseen > 0, influence.unseen, 0.0)
        squares = (influence.values**2).sum(axis=1) + unseen * of_unseen**2
        cubes = (influence.values**3).sum(axis=1) + unseen * of_unseen**3
        facts += [np.sqrt(squares), cubes, influence.left_out, influence.unseen_loss]
    return np.column_stack(facts).reshape(*rows.lead, len(facts))


def errors_where_known(estimate: Array, error: Array, is_known: Array) -> NDArray[np.float64]:
    """Return standard errors where both the estimate and its error are known, otherwise NaN."""
    return np.where(is_known & ~np.isnan(estimate), error, np.nan)


def evidence_bounds(
    *arrays: Array, names: tuple[str, ...], methods: tuple[str, ...], level: float
) -> NDArray[np.float64]:
    """Return the bounds of all intervals: ``(), (), (resample), (fold), ... -> (method, ci_bound)``."""
    from aucpr_dask.kernels.intervals import formulas as intervals
    from aucpr_dask.kernels.intervals import replicates as replicate_intervals

    known: dict[str, Any] = dict(zip(names, arrays, strict=True))
    estimate, n_positive = known["estimate"], known["n_positive"]
    lead = np.broadcast_shapes(*(a.shape[:-1] if name in ON_AN_AXIS else a.shape for name, a in known.items()))
    out = np.empty((*lead, len(methods), 2))
    evidence = replicate_intervals.Evidence(**known)
    for column, method in enumerate(methods):
        if method in intervals.METHODS:
            out[..., column, :] = intervals.bounds(estimate, n_positive, method, level)
        else:
            out[..., column, :] = replicate_intervals.replicate_bounds(evidence, method, level)
    return out


ON_AN_AXIS = {
    "replicates": "resample",
    "replicate_errors": "resample",
    "bayesian_replicates": "resample",
    "folds": "fold",
}
