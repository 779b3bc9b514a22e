"""The rankings of a NumPy block with their items resampled, left out, or dealt to folds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aucpr_dask.evaluation import rankings
from aucpr_dask.evaluation.rankings import Array, Floats, Indices, Rows
from aucpr_dask.schema.options import EvaluationOptions

if TYPE_CHECKING:
    from aucpr_dask.evaluation.request import Sampling
    from aucpr_dask.kernels import Items

FOLDS = 1  # a random stream different from those of resampling


def replicate_rankings(
    rows: Rows,
    items: Items,
    named: dict[str, Array],
    options: EvaluationOptions,
    sampling: Sampling,
    *,
    with_errors: bool = False,
) -> tuple[Floats, Floats | None]:
    """Evaluate resamples of every ranking of a block; another role is ``key`` (uint64: of the resamples of a ranking).

    Return replicates (..., estimator, resample) and, if asked for, their standard errors, which are NaN of estimators
    without an influence function. Classes share their resamples, even if an item is left out of some of them.
    """
    from aucpr_dask import kernels

    if items.clusters is not None:
        rankings.refuse_unseen(rows, items.unseen)
    facts, is_fixed = ("error",) if with_errors else (), sampling.is_stratified
    targets = rankings.targets_of(options, facts, is_fixed=is_fixed, of=options.in_one_pass)
    drawn = rows.broadcast(named["key"]), rankings.reading_of(options), targets, options.resampling.n_resamples
    replicates = kernels.replicate_rows(items, *drawn, is_fixed, draws_all=sampling.has_classes)
    n = len(options.estimators)
    if options.no_positives == "zero":  # they count as the estimates do
        n_positive = (items.positive > 0).sum(axis=1)[items.row] + items.unseen
        replicates[n_positive == 0, :n] = 0.0
    if options.nothing_ranked == "drop":
        is_item = ((items.positive > 0) | (items.negative > 0))[items.row]
        replicates[~(is_item & ~np.isnan(rows.full(named["score"]))).any(axis=1)] = np.nan
    shaped: Floats = replicates.reshape(*rows.lead, targets.codes.size, replicates.shape[-1])
    if not with_errors:
        return shaped, None
    errors = np.full_like(shaped[..., :n, :], np.nan)
    errors[..., [options.estimators.index(name) for name in options.in_one_pass], :] = shaped[..., n:, :]
    return shaped[..., :n, :], errors


def estimate_accelerations(rows: Rows, items: Items, options: EvaluationOptions, *, is_stratified: bool) -> Floats:
    """Compute the acceleration of every estimator from its exact jackknife: an array (..., estimator)."""
    from aucpr_dask import kernels

    if items.clusters is not None:
        rankings.refuse_unseen(rows, items.unseen)
    targets = rankings.targets_of(options)
    values = kernels.accelerations(items, rankings.reading_of(options), targets, is_stratified)
    return values.reshape(*rows.lead, targets.codes.size)


def evaluate_folds(named: dict[str, Array], options: EvaluationOptions, *, n_folds: int) -> Floats:
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


def stratified_folds(named: dict[str, Array], key: Array | None, options: EvaluationOptions, n_folds: int) -> Indices:
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
