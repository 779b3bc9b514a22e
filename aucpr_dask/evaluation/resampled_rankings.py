"""Functions on NumPy blocks behind intervals: replicates, folds, standard errors, and the bounds made from them.

Like those of `blocks`, they are module-level functions that enter a graph by name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.evaluation.rankings import (
    Array,
    Rows,
    check_rows,
    class_weights,
    evaluate_rankings,
    options_of,
    ranks,
    targets_of,
)
from aucpr_dask.evaluation.request import Request

FOLDS = 1  # purpose of a stream, beside resampling


def replicate_rankings(
    *arrays: Array,
    roles: tuple[str, ...],
    request: Request,
    n_resamples: int,
    bayesian: bool,
    is_stratified: bool = True,
    first_resample: int = 0,
) -> NDArray[np.float64]:
    """Evaluate resamples of every ranking of a block.

    A generalized function: ``(item), (item), ..., () -> (quantity, resample)``; the leading dimensions broadcast.

    Parameters
    ----------
    *arrays : ndarray
        One for each of `roles`.
    roles : tuple of str
        Those of :func:`evaluate_rankings`, ``key`` (uint64: what the resamples of a ranking are
        drawn by) and, to draw clusters, ``cluster`` (int64, on the item axis).
    request : Request
    n_resamples : int
    bayesian : bool
        Dirichlet weights in place of multiplicities.
    is_stratified : bool
        Whether positives and negatives are drawn apart.
    first_resample : int
        The first one to evaluate.

    Returns
    -------
    ndarray of float64, shape (..., estimators + extras, n_resamples - first_resample)
    """
    from aucpr_dask import kernels

    named = dict(zip(roles, arrays, strict=True))
    rows, items = checked_items(named, request)
    targets = targets_of(request)
    replicates = kernels.replicate_rows(
        items.score,
        items.positive,
        items.negative,
        items.class_row,
        items.cluster,
        rows.broadcast(named["key"]),
        items.unseen,
        options_of(request),
        targets,
        n_resamples,
        bayesian,
        is_stratified,
        first_resample,
    )
    shaped: NDArray[np.float64] = replicates.reshape(*rows.lead, targets.codes.size, replicates.shape[-1])
    return shaped


def estimate_accelerations(
    *arrays: Array, roles: tuple[str, ...], request: Request, is_stratified: bool
) -> NDArray[np.float64]:
    """Compute the acceleration of every estimator from its exact jackknife.

    A generalized function: ``(item), (item), ... -> (estimator)``; roles are those of :func:`replicate_rankings`
    without ``key``.
    """
    from aucpr_dask import kernels

    named = dict(zip(roles, arrays, strict=True))
    rows, items = checked_items(named, request)
    targets = targets_of(replace(request, extras=()))
    values = kernels.accelerations(
        items.score,
        items.positive,
        items.negative,
        items.class_row,
        items.cluster,
        items.unseen,
        options_of(request),
        targets,
        is_stratified,
    )
    shaped: NDArray[np.float64] = values.reshape(*rows.lead, targets.codes.size)
    return shaped


def effective_positives(*arrays: Array, roles: tuple[str, ...], request: Request) -> NDArray[np.float64]:
    """Count positives with weights as Kish does: (sum of weights)^2 / sum of their squares; ``(item), ... -> ()``."""
    named = dict(zip(roles, arrays, strict=True))
    rows = Rows(named)
    positive, _, class_row = _classes(rows, named, request)
    out = np.empty(class_row.size)
    for row, score in enumerate(rows.full(named["score"])):
        weight = positive[class_row[row]]
        weight = weight[~np.isnan(score)] if request.missing == "drop" else weight
        squares = (weight**2).sum()
        out[row] = weight.sum() ** 2 / squares if squares > 0 else 0.0
    return out.reshape(rows.lead)


class Items(NamedTuple):
    """What is resampled: scores by ranking, class weights by class row, clusters, positives that are no item."""

    score: Array
    positive: NDArray[np.float64]
    negative: NDArray[np.float64]
    class_row: NDArray[np.int64]
    cluster: NDArray[np.int64] | None
    unseen: NDArray[np.float64]


def checked_items(named: dict[str, Array], request: Request) -> tuple[Rows, Items]:
    """Return how the rankings of a block unfold, and what is resampled of them."""
    rows = Rows(named)
    positive, negative, class_row = _classes(rows, named, request)
    unseen = _unseen(rows, named, positive, class_row)
    cluster = named["cluster"].reshape(-1) if "cluster" in named else None
    if cluster is not None:
        _refuse_unseen(rows, unseen)
    score = rows.full(named["score"])
    is_item = (positive > 0) | (negative > 0)
    n_missing = [np.count_nonzero(np.isnan(row) & is_item[i]) for row, i in zip(score, class_row, strict=True)]
    check_rows({"n_missing": np.array(n_missing, np.float64), "n_unseen": unseen}, rows, request)
    if request.ties == "trec_eval":
        tie_order, tie_row = rows.distinct(named["tie_order"])
        score = np.stack([ranks(row, tie_order[tie_row[i]], request.missing) for i, row in enumerate(score)])
    return rows, Items(score, positive, negative, class_row, cluster, unseen)


def _refuse_unseen(rows: Rows, unseen: NDArray[np.float64]) -> None:
    if unseen.any():
        raise InvalidInputError(
            "positives that are no item belong to no cluster",
            where="variables 'n_positive' and 'cluster'",
            received=f"positives beyond the items: {rows.describe(unseen > 0, unseen)}",
            remedy="drop 'cluster' to sample items, or 'n_positive' to leave them out",
        )


def _classes(
    rows: Rows, named: dict[str, Array], request: Request
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Return each item's weight in both classes, 0 and 1 without weights, by distinct row."""
    if "label" in named and "weight" not in named:
        named = named | {"weight": np.ones(1)}
    return class_weights(rows, named, request)


def _unseen(
    rows: Rows, named: dict[str, Array], positive: NDArray[np.float64], class_row: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return for each ranking how many positives are no item."""
    if "n_positive" not in named:
        return np.zeros(class_row.size)
    unseen: NDArray[np.float64] = rows.scalar(named["n_positive"]) - positive.sum(axis=1)[class_row]
    return unseen


def evaluate_folds(*arrays: Array, roles: tuple[str, ...], request: Request, n_folds: int) -> NDArray[np.float64]:
    """Evaluate every fold of every ranking of a block, the other folds left out.

    A generalized function: ``(item), (item), ... -> (estimator, fold)``; the leading dimensions broadcast.

    Parameters
    ----------
    *arrays : ndarray
        One for each of `roles`.
    roles : tuple of str
        Those of :func:`evaluate_rankings`, and ``fold`` (integers from 0, on the item axis) or
        ``key`` (uint64: what stratified folds are drawn by).
    request : Request
    n_folds : int

    Returns
    -------
    ndarray of float64, shape (..., estimators, n_folds)
    """
    named = dict(zip(roles, arrays, strict=True))
    key, fold = named.pop("key", None), named.pop("fold", None)
    if fold is None:
        fold = stratified_folds(named, key, request, n_folds)
    columns = []
    for number in range(n_folds):
        part = named | {name: np.where(fold == number, named[name], off) for name, off in LEFT_OUT if name in named}
        if "n_positive" in named:  # positives that are no item are shared out
            here, everywhere = ((x["label"] >= (request.positive_from or 1)).sum(axis=-1) for x in (part, named))
            part["n_positive"] = here + (named["n_positive"] - everywhere) / n_folds
        values = evaluate_rankings(*part.values(), roles=tuple(part), request=replace(request, extras=()))
        columns.append(values[..., : len(request.estimators)])
    return np.stack(columns, axis=-1)


LEFT_OUT = (("label", -2), ("positive_weight", 0.0), ("negative_weight", 0.0))


def stratified_folds(named: dict[str, Array], key: Array | None, request: Request, n_folds: int) -> NDArray[np.int64]:
    """Deal the items of each class to folds in random order: folds differ by one item of a class at most."""
    weight = named["positive_weight"] if "label" not in named else named["label"] >= (request.positive_from or 1)
    is_positive = weight > 0
    shape = np.broadcast_shapes(is_positive.shape[:-1], np.asarray(key).shape)
    fold = np.empty((*shape, is_positive.shape[-1]), dtype=np.int64)
    keys, classes = np.broadcast_to(np.asarray(key), shape), np.broadcast_to(is_positive, fold.shape)
    lowest = 0 if request.unjudged == "drop" else -1
    is_item = np.broadcast_to(named["label"] >= lowest if "label" in named else True, fold.shape)
    for index in np.ndindex(shape):
        words = np.random.Philox(key=int(keys[index]) + (FOLDS << 64)).random_raw(fold.shape[-1])
        place = np.empty(words.size, dtype=np.int64)
        order = np.lexsort((words, ~classes[index], ~is_item[index]))  # positives, then negatives, then what is no item
        place[order] = np.arange(words.size)
        n_positive = int((classes[index] & is_item[index]).sum())
        fold[index] = np.where(place < n_positive, place, place - n_positive) % n_folds
    return fold


def influence_columns(
    *arrays: Array, roles: tuple[str, ...], request: Request, clusters: NDArray[np.int64] | None, is_fixed: bool
) -> NDArray[np.float64]:
    """Compute the influences of every ranking of a block, such that their products add up to covariances.

    A generalized function: ``(item), (item), ... -> (unit)``; the leading dimensions broadcast.

    Parameters
    ----------
    *arrays, roles, request
        See :func:`evaluate_rankings`, which checks them.
    clusters : ndarray of int64, shape (items,), or None
        The number of each item's cluster.
    is_fixed : bool
        Whether the sizes of the classes are fixed.

    Returns
    -------
    ndarray of float64, shape (..., units + 2)
        The influences of items or clusters, that of all positives that are no item, and the estimate.
    """
    from aucpr_dask.kernels.areas.influence import influence_rows

    estimate = evaluate_rankings(*arrays, roles=roles, request=replace(request, extras=()))[..., 0]
    named = dict(zip(roles, arrays, strict=True))
    rows = Rows(named)
    positive, negative, row = _classes(rows, named, request)
    unseen = _unseen(rows, named, positive, row)
    score = rows.full(named["score"])
    design: dict[str, bool] = {"prevalence_is_fixed": is_fixed, "is_corrected": clusters is None}
    influence = influence_rows(score, positive, negative, row, options_of(request), unseen, **design)
    values = influence.values
    if clusters is not None:
        _refuse_unseen(rows, unseen)
        is_counted = ~np.isnan(score) | (request.missing in ("last", "unretrieved"))
        values = _sums_over_clusters(
            values, clusters, (positive > 0)[row] & is_counted, (negative > 0)[row] & is_counted
        )
    absent = np.where(unseen > 0, np.sqrt(unseen) * influence.unseen, 0.0)
    columns = np.column_stack([values, absent, estimate.ravel()])
    return columns.reshape(*rows.lead, columns.shape[1])


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


def influence_errors(*arrays: Array, roles: tuple[str, ...], request: Request, is_fixed: bool) -> NDArray[np.float64]:
    """Compute standard errors of average precision from the influence of every item, or of every ``cluster``.

    A generalized function: ``(item), (item), ... -> ()``; for weights and clusters, of which blocks of positives do
    not tell enough.
    """
    named = dict(zip(roles, arrays, strict=True))
    clusters = named.pop("cluster").reshape(-1) if "cluster" in named else None
    request = replace(request, estimators=("average_precision",))
    columns = influence_columns(
        *named.values(), roles=tuple(named), request=request, clusters=clusters, is_fixed=is_fixed
    )
    return np.asarray(np.sqrt((columns[..., :-1] ** 2).sum(axis=-1)))


def errors_where_known(estimate: Array, error: Array, is_known: Array) -> NDArray[np.float64]:
    """Return standard errors of the estimates that there are, by the estimators that have one; else NaN."""
    return np.where(is_known & ~np.isnan(estimate), error, np.nan)


def evidence_bounds(
    *arrays: Array, names: tuple[str, ...], methods: tuple[str, ...], level: float
) -> NDArray[np.float64]:
    """Return the bounds of intervals, shape (..., methods, 2), formula or not, from what they are made of.

    A generalized function: ``(), (), (resample), (fold), ... -> (method, ci_bound)``.

    Parameters
    ----------
    *arrays : ndarray
        One for each of `names`.
    names : tuple of str
        Fields of :class:`aucpr_dask.kernels.intervals.replicates.Evidence`.
    methods : tuple of str
    level : float
    """
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
