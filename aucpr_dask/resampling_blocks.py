"""Functions on NumPy blocks behind intervals: replicates, folds, standard errors, and the bounds made from them.

Like those of `blocks`, they are module-level functions that enter a graph by name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.blocks import Array, Request, Rows, class_weights, evaluate_rankings, options_of, ranks, targets_of

FOLDS = 1  # purpose of a stream, beside resampling


def replicate_rankings(
    *arrays: Array, roles: tuple[str, ...], request: Request, n_resamples: int, bayesian: bool
) -> NDArray[np.float64]:
    """Evaluate resamples of every ranking of a block.

    A generalized function: ``(item), (item), ..., () -> (quantity, resample)``; the leading dimensions broadcast.

    Parameters
    ----------
    *arrays : ndarray
        One for each of `roles`.
    roles : tuple of str
        Those of :func:`aucpr_dask.blocks.evaluate_rankings`, ``key`` (uint64: what the resamples of a ranking are
        drawn by) and, to draw clusters, ``cluster`` (int64, on the item axis).
    request : Request
    n_resamples : int
    bayesian : bool
        Dirichlet weights in place of multiplicities.

    Returns
    -------
    ndarray of float64, shape (..., estimators + extras, n_resamples)
    """
    from aucpr_dask import kernels

    named = dict(zip(roles, arrays, strict=True))
    rows = Rows(named)
    positive, negative, class_row = _classes(rows, named, request)
    score = rows.full(named["score"])
    if request.ties == "trec_eval":
        tie_order, tie_row = rows.distinct(named["tie_order"])
        score = np.stack([ranks(row, tie_order[tie_row[i]], request.missing) for i, row in enumerate(score)])
    cluster = None
    if "cluster" in named:
        cluster, cluster_row = rows.distinct(named["cluster"])
        pairs, class_row_of_pair = np.unique(np.stack([class_row, cluster_row]), axis=1, return_inverse=True)
        positive, negative, cluster = positive[pairs[0]], negative[pairs[0]], cluster[pairs[1]]
        class_row = class_row_of_pair.ravel()
    targets = targets_of(request)
    replicates = kernels.replicate_rows(
        score,
        positive,
        negative,
        class_row,
        cluster,
        rows.broadcast(named["key"]),
        _unseen(rows, named, positive, class_row),
        options_of(request),
        targets,
        n_resamples,
        bayesian,
    )
    shaped: NDArray[np.float64] = replicates.reshape(*rows.lead, targets.codes.size, n_resamples)
    return shaped


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
        Those of :func:`aucpr_dask.blocks.evaluate_rankings`, and ``fold`` (integers from 0, on the item axis) or
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
    is_item = np.broadcast_to(named["label"] > -2 if "label" in named else True, fold.shape)
    for index in np.ndindex(shape):
        words = np.random.Philox(key=int(keys[index]) + (FOLDS << 64)).random_raw(fold.shape[-1])
        place = np.empty(words.size, dtype=np.int64)
        order = np.lexsort((words, ~classes[index], ~is_item[index]))  # positives, then negatives, then what is no item
        place[order] = np.arange(words.size)
        n_positive = int((classes[index] & is_item[index]).sum())
        fold[index] = np.where(place < n_positive, place, place - n_positive) % n_folds
    return fold


def influence_errors(
    *arrays: Array, roles: tuple[str, ...], request: Request, prevalence_design: str
) -> NDArray[np.float64]:
    """Compute standard errors of average precision from the influence of every item.

    A generalized function: ``(item), (item), ... -> ()``; for weights and clusters, of which blocks of positives do
    not tell enough.
    """
    from aucpr_dask.kernels.influence import influence_rows

    named = dict(zip(roles, arrays, strict=True))
    rows = Rows(named)
    positive, negative, class_row = _classes(rows, named, request)
    fixed = prevalence_design == "fixed" and "cluster" not in named and not ((positive > 0) & (negative > 0)).any()
    score = rows.full(named["score"])
    influence = influence_rows(
        score,
        positive,
        negative,
        class_row,
        options_of(request),
        _unseen(rows, named, positive, class_row),
        prevalence_is_fixed=fixed,
        is_corrected="cluster" not in named,
    )
    if "cluster" not in named:
        squares = (influence.values**2).sum(axis=-1) + _unseen(rows, named, positive, class_row) * influence.unseen**2
        return np.asarray(np.sqrt(squares)).reshape(rows.lead)
    cluster, cluster_row = rows.distinct(named["cluster"])
    out = np.empty(len(score))
    for row, values in enumerate(influence.values):
        counted = (positive[class_row[row]] > 0) | (negative[class_row[row]] > 0)
        _, number = np.unique(cluster[cluster_row[row]][counted], return_inverse=True)
        sums = np.bincount(number, values[counted])
        n = sums.size
        out[row] = np.sqrt((sums**2).sum() * n / (n - 1)) if n > 1 else np.nan
    return out.reshape(rows.lead)


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
        Fields of :class:`aucpr_dask.kernels.replicate_intervals.Evidence`.
    methods : tuple of str
    level : float
    """
    from aucpr_dask.kernels import intervals, replicate_intervals

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
