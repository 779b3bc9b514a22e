"""The rankings of a NumPy block with their items resampled, left out, or dealt to folds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.evaluation import rankings, tied_items
from aucpr_dask.schema.options import EvaluationOptions

if TYPE_CHECKING:
    from aucpr_dask.evaluation.request import Sampling

FOLDS = 1  # a random stream different from those of resampling


def replicate_rankings(
    named: dict[str, rankings.Array],
    options: EvaluationOptions,
    sampling: Sampling,
    *,
    bayesian: bool = False,
    with_errors: bool = False,
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Evaluate resamples of every ranking of a block.

    Return replicates (..., estimator, resample) and, if asked for, their standard errors, which are NaN of estimators
    without an influence function. In addition to those of :func:`evaluate_rankings`, roles are ``key`` (uint64: of the
    resamples of a ranking) and, to draw clusters, ``cluster`` (int64, on the item axis). `bayesian` draws Dirichlet
    weights in place of counts. Classes share their resamples, even if an item is left out of some of them.
    """
    from aucpr_dask import kernels

    rows, items = checked_items(named, options)
    facts, design = ("error",) if with_errors else (), sampling.is_stratified
    targets = rankings.targets_of(options, facts, is_fixed=design, of=options.in_one_pass)
    replicates = kernels.replicate_rows(
        items.score,
        items.positive,
        items.negative,
        items.class_row,
        items.cluster,
        rows.broadcast(named["key"]),
        items.unseen,
        rankings.reading_of(options),
        targets,
        options.resampling.n_resamples,
        bayesian,
        sampling.is_stratified,
        draws_all=sampling.has_classes,
    )
    _count_as_estimates(replicates, rows, named, items, options)
    shaped: NDArray[np.float64] = replicates.reshape(*rows.lead, targets.codes.size, replicates.shape[-1])
    n = len(options.estimators)
    if not with_errors:
        return shaped, None
    errors = np.full_like(shaped[..., :n, :], np.nan)
    errors[..., [options.estimators.index(name) for name in options.in_one_pass], :] = shaped[..., n:, :]
    return shaped[..., :n, :], errors


def _count_as_estimates(
    replicates: NDArray[np.float64],
    rows: rankings.Rows,
    named: dict[str, rankings.Array],
    items: Items,
    options: EvaluationOptions,
) -> None:
    """Let replicates (ranking, quantity, resample) count as 0, or not at all, where the estimates do."""
    if options.no_positives == "zero":
        n_positive = (items.positive > 0).sum(axis=1)[items.class_row] + items.unseen
        replicates[n_positive == 0, : len(options.estimators)] = 0.0
    if options.nothing_ranked == "drop":
        is_item = ((items.positive > 0) | (items.negative > 0))[items.class_row]
        replicates[~(is_item & ~np.isnan(rows.full(named["score"]))).any(axis=1)] = np.nan


def estimate_accelerations(
    named: dict[str, rankings.Array], options: EvaluationOptions, *, is_stratified: bool
) -> NDArray[np.float64]:
    """Compute the acceleration of every estimator from its exact jackknife: an array (..., estimator)."""
    from aucpr_dask import kernels

    rows, items = checked_items(named, options)
    targets = rankings.targets_of(options)
    values = kernels.accelerations(
        items.score,
        items.positive,
        items.negative,
        items.class_row,
        items.cluster,
        items.unseen,
        rankings.reading_of(options),
        targets,
        is_stratified,
    )
    shaped: NDArray[np.float64] = values.reshape(*rows.lead, targets.codes.size)
    return shaped


class Items(NamedTuple):
    """The items to resample: scores by ranking, class weights by class row, clusters, positives that are not items."""

    score: rankings.Array
    positive: NDArray[np.float64]
    negative: NDArray[np.float64]
    class_row: NDArray[np.int64]
    cluster: NDArray[np.int64] | None
    unseen: NDArray[np.float64]


def checked_items(named: dict[str, rankings.Array], options: EvaluationOptions) -> tuple[rankings.Rows, Items]:
    """Return how the rankings of a block unfold into rows, and the items to resample."""
    rows = rankings.Rows(named)
    positive, negative, class_row, _ = rankings.class_weights(rows, named, options)
    unseen = rankings.unseen_positives(rows, named, positive, class_row)
    cluster = named["cluster"].reshape(-1) if "cluster" in named else None
    if cluster is not None:
        rankings.refuse_unseen(rows, unseen)
    score = rows.full(named["score"])
    is_item = (positive > 0) | (negative > 0)
    n_missing = [np.count_nonzero(np.isnan(row) & is_item[i]) for row, i in zip(score, class_row, strict=True)]
    rankings.check_rows({"n_missing": np.array(n_missing, np.float64), "n_unseen": unseen}, rows, options)
    if options.ties == "trec_eval":
        tie_order, tie_row = rows.distinct(named["tie_order"])
        classes = ((positive > 0) * 2 + (negative > 0)).astype(np.int8)
        score = tied_items.untied(score, tie_order, tie_row, classes, class_row, options.missing)
    return rows, Items(score, positive, negative, class_row, cluster, unseen)


def evaluate_folds(
    named: dict[str, rankings.Array], options: EvaluationOptions, *, n_folds: int
) -> NDArray[np.float64]:
    """Evaluate every fold of every ranking of a block: an array (..., estimator, fold).

    Another role is ``fold`` (integers from 0, on the item axis) or ``key`` (uint64: of stratified folds).
    """
    named = dict(named)
    key, fold = named.pop("key", None), named.pop("fold", None)
    if fold is None:
        fold = stratified_folds(named, key, options, n_folds)
    columns = []
    for number in range(n_folds):
        part = named | {name: np.where(fold == number, named[name], off) for name, off in LEFT_OUT if name in named}
        if "n_positive" in named:  # positives that are not items are divided among the folds
            here, everywhere = ((x["label"] >= (options.positive_from or 1)).sum(axis=-1) for x in (part, named))
            part["n_positive"] = here + (named["n_positive"] - everywhere) / n_folds
        columns.append(rankings.evaluate_rankings(part, options).estimate)
    return np.stack(columns, axis=-1)


LEFT_OUT = (("label", -2), ("positive_weight", 0.0), ("negative_weight", 0.0))


def stratified_folds(
    named: dict[str, rankings.Array], key: rankings.Array | None, options: EvaluationOptions, n_folds: int
) -> NDArray[np.int64]:
    """Deal the items of each class to folds in random order, so that their sizes differ by at most one."""
    if "label" in named:
        is_item, is_positive = rankings.memberships(named["label"], options)
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
