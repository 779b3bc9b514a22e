"""Prepare a call: check its arrays against its options and each other, once, and return one frozen record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.evaluation.alignment import (
    aligned,
    chunked_alike,
    clusters_of,
    labelled_inputs,
    plain_inputs,
    score_inputs,
    where_of,
    without_scores,
    without_tie_order,
)
from aucpr_dask.evaluation.random_streams import stream_keys
from aucpr_dask.evaluation.rankings import is_weighted, missing_scores
from aucpr_dask.schema.checks import text
from aucpr_dask.schema.estimators import WITH_INFLUENCE, parse_estimator
from aucpr_dask.schema.intervals import INTERVALS
from aucpr_dask.schema.labels import NAME_A_GRADE, refuse_other_lengths
from aucpr_dask.schema.options import EvaluationOptions
from aucpr_dask.schema.variables import CLASS, GRADE, ITEM, ITEM_ROLES, MODEL


@dataclass(frozen=True, eq=False)
class Prepared:
    """Rankings that can be evaluated: arrays of one kind (NumPy, Dask or xarray) by role, checked and aligned."""

    arrays: dict[str, Any]
    options: EvaluationOptions
    dim: str = ITEM


@dataclass(frozen=True, eq=False, kw_only=True)
class PreparedDataset(Prepared):
    """One data set, with all that its intervals need."""

    arrays: dict[str, xr.Variable]
    extras: tuple[str, ...]  # quantities that kernels return with the estimates that have an influence function
    is_stratified: bool  # whether the numbers of positives and negatives are held fixed
    key: xr.Variable  # of the resamples of each query
    units: dict[str, xr.Variable]  # `cluster`, if clusters are drawn in place of items
    fold: xr.Variable | None  # of the data set itself
    n_folds: int
    first_resample: int = 0
    known_replicates: xr.Variable | None = None  # those of resamples before the first

    @property
    def has_classes(self) -> bool:
        """Whether the rankings are of several classes of the same items."""
        return CLASS in self.arrays["score"].dims


def prepare(given: Mapping[str, Any], options: EvaluationOptions, dim: str = ITEM) -> Prepared:
    """Prepare the arrays of a call, all labelled or all plain; those that are None were not given."""
    text(dim, "dim")
    inputs = {name: value for name, value in given.items() if value is not None}
    if "score" not in inputs:
        raise without_scores()
    if isinstance(inputs["score"], xr.DataArray):
        return prepare_labelled(labelled_inputs(inputs, dim), options, dim)
    _refuse_misfits(inputs, options)
    arrays = plain_inputs(inputs)
    refuse_other_lengths({name: array.shape[-1] for name, array in arrays.items() if name in ITEM_ROLES})
    if options.ties == "trec_eval" and "tie_order" not in arrays:
        raise without_tie_order(
            "arrays without item labels",
            "pass tie_order=, or a DataArray whose item coordinate holds the document ids",
        )
    return Prepared(arrays, options, dim)


def prepare_labelled(inputs: dict[str, xr.DataArray], options: EvaluationOptions, dim: str = ITEM) -> Prepared:
    """Prepare labelled arrays whose types are checked."""
    _refuse_misfits(inputs, options)
    return Prepared(chunked_alike(aligned(inputs, options, dim)), options, dim)


def prepare_dataset(
    dataset: xr.Dataset, path: str, options: EvaluationOptions, first_resample: int = 0
) -> PreparedDataset:
    """Prepare one validated data set; `path` is the name by which its resamples are drawn.

    If earlier resamples are known, the data set holds them in ``replicate``.
    """
    resampling = options.resampling
    inputs = score_inputs(dataset, options.positive_from, path)
    _refuse_known_grades(dataset, options, path)
    _refuse_misfits(inputs, options)
    _refuse_known_missing(dataset, options, path)
    _refuse_impossible(inputs, dataset, options, path)
    units = {"cluster": clusters_of(dataset, path).variable} if resampling.unit == "clusters" else {}
    fold, n_folds = _folds(dataset, resampling.n_folds, path) if resampling.uses_folds else (None, 0)
    # If clusters, items that are positive and negative, or items of several classes are drawn, the numbers of positives
    # and negatives cannot be fixed.
    is_together = bool(units) or "positive_weight" in inputs or CLASS in inputs["score"].dims
    is_stratified = resampling.prevalence_design == "fixed" and not is_together
    read = {name: array.variable for name, array in aligned(inputs, options, ITEM).items()}
    key = {"key": stream_keys(dataset["score"], resampling.seed, path)}
    chunked = chunked_alike(read | units | key | ({} if fold is None else {"fold": fold}))
    return PreparedDataset(
        arrays={name: chunked[name] for name in read},
        options=options,
        extras=_extras(options, inputs, is_stratified=is_stratified),
        is_stratified=is_stratified,
        key=chunked["key"],
        units={name: chunked[name] for name in units},
        fold=chunked.get("fold"),
        n_folds=n_folds,
        first_resample=first_resample,
        known_replicates=dataset["replicate"].variable if first_resample else None,
    )


# What kernels return with the estimates, and what intervals call it.
FACT_OF_EXTRA = {
    "standard_error_fixed": "error",
    "standard_error_random": "error",
    "cubes_fixed": "cubes",
    "cubes_random": "cubes",
    "left_out": "left_out",
    "unseen_loss": "unseen_loss",
}


def _extras(options: EvaluationOptions, inputs: Mapping[str, Any], *, is_stratified: bool) -> tuple[str, ...]:
    """Return what kernels return with the estimates, for unweighted items drawn one by one."""
    if not options.with_influence or is_weighted(inputs) or options.resampling.unit == "clusters":
        return ()
    design, intervals = "fixed" if is_stratified else "random", options.resampling.intervals
    extras = [f"standard_error_{design}"]
    if "influence_beta" in intervals:
        extras += [f"cubes_{design}", "left_out", "unseen_loss"]
    if "bca" in intervals and options.estimators == options.with_influence and is_stratified:
        extras.append("acceleration")
    return tuple(extras)


def _folds(dataset: xr.Dataset, n_folds: int, path: str) -> tuple[xr.Variable | None, int]:
    """Return the folds of a data set, numbered from 0, and their number; None if items are still to be dealt to them.

    Raises
    ------
    InvalidInputError
        There are fewer items than folds.
    """
    if "fold" not in dataset:
        if 0 < dataset.sizes[ITEM] < n_folds:
            raise InvalidInputError(
                "there are fewer items than folds",
                where=f"argument 'n_folds', data set {path!r}" if path else "argument 'n_folds'",
                received=f"{n_folds} folds of {dataset.sizes[ITEM]} items",
                allowed="as many folds as items, or fewer",
                remedy="choose a smaller n_folds; 5 or 10 are usual",
            )
        return None, n_folds
    names, numbers = np.unique(dataset["fold"].values, return_inverse=True)
    return xr.Variable(dataset["fold"].dims, numbers.reshape(dataset["fold"].shape)), names.size


def _refuse_misfits(given: Mapping[str, Any], options: EvaluationOptions) -> None:
    """Raise if arrays contradict each other, or the options."""
    misfit = _misfit(given, options)
    if misfit is not None:
        raise InvalidInputError(
            misfit[0],
            where="the arrays and options given together",
            received=f"{', '.join(sorted(given))}; ties={options.ties!r}, prevalence={options.prevalence!r}",
            allowed="label, with or without weight; or positive_weight and negative_weight",
            remedy=misfit[1],
        )


def _misfit(given: Mapping[str, Any], options: EvaluationOptions) -> tuple[str, str] | None:
    """Return how arrays contradict each other, or the options, if they do, and how to fix it."""
    n_soft = ("positive_weight" in given) + ("negative_weight" in given)
    if n_soft == 1:
        return "soft labels need both positive_weight and negative_weight", "give the other one too"
    if (n_soft > 0) == ("label" in given):
        return "give either a label, or positive_weight and negative_weight", "label=None with soft labels, only then"
    if n_soft and "weight" in given:
        return "weight and soft labels exclude each other: multiply them", "positive_weight=weight * positive_weight"
    if not is_weighted(given):
        return None
    if options.ties != "block":
        return "with weights, tied items must share one threshold: ties='block'", "ties='block', or leave out weights"
    if "n_positive" in given:
        return "n_positive has no meaning with weights: unseen positives have none", "leave out n_positive"
    unweightable = [spec.name for spec, _ in map(parse_estimator, options.estimators) if not spec.weights]
    if unweightable:
        return f"{', '.join(unweightable)}: no meaning with weights or soft labels", "name other estimators"
    return None


def _refuse_known_grades(dataset: xr.Dataset, options: EvaluationOptions, path: str) -> None:
    """Raise before anything is read if positives are counted at several grades, and none is chosen."""
    highest = max(dataset.indexes.get(GRADE, (1,)))
    if options.positive_from is None and highest > 1 and "label" in dataset:
        raise InvalidInputError(
            "labels are graded, and it is not said from which grade they are positive",
            where=where_of(path) or "variable 'label'",
            received=f"grades up to {highest}",
            allowed="1 positive, 0 negative, -1 unjudged, -2 padding; grades with positive_from",
            remedy=NAME_A_GRADE,
        )


def _refuse_known_missing(dataset: xr.Dataset, options: EvaluationOptions, path: str) -> None:
    """Raise before anything is read if the data set counts missing scores that are not allowed."""
    counts = dataset.get("n_missing")
    if options.missing != "raise" or counts is None or not isinstance(counts.data, np.ndarray) or not counts.any():
        return
    if options.unjudged == "drop" or is_weighted(dataset.data_vars):
        return  # the counts include items that may be left out
    worst = counts.data.ravel().argsort(kind="stable")[::-1][:5]
    parts = []
    for flat in worst[counts.data.ravel()[worst] > 0]:
        index = np.unravel_index(flat, counts.shape)
        names = [
            f"{dim} {str(dataset.indexes[dim][i]) if dim in dataset.indexes else i!r}"
            for dim, i in zip(counts.dims, index, strict=True)
        ]
        parts.append(f"{', '.join(names)}: {int(counts.data[index])}")
    raise missing_scores(
        (f"data set {path!r}, " if path else "") + "variable 'score'",
        f"{int((counts > 0).sum())} rankings, most in {'; '.join(parts)}",
    )


def _refuse_impossible(
    inputs: Mapping[str, xr.DataArray], dataset: xr.Dataset, options: EvaluationOptions, path: str
) -> None:
    """Raise if an interval cannot be computed for this data set."""
    resampling = options.resampling

    def impossible(what: str, received: str, remedy: str) -> InvalidInputError:
        return InvalidInputError(what, where=where_of(path), received=received, remedy=remedy)

    of_influence = [name for name in resampling.intervals if "error" in INTERVALS[name].needs]
    if of_influence and not options.with_influence:
        raise impossible(
            f"these intervals need the influence function, known for {' and '.join(WITH_INFLUENCE)} over all recalls",
            f"{', '.join(of_influence)} with {', '.join(options.estimators)}; ties={options.ties!r}",
            "'bootstrap' and 'basic' serve every estimator",
        )
    is_per_run = any(MODEL in array.dims for name, array in inputs.items() if name != "score")
    if is_per_run and (resampling.draws or resampling.uses_folds):
        raise impossible(
            "items cannot be resampled: each model has its own list of them",
            "a per-run layout ('label' has the dimension 'model')",
            "resample queries (aggregate, compare), use an interval without resampling, or import a pooled layout",
        )
    if resampling.draws and options.ties == "expectation":
        raise impossible(
            "the expectation over ties is unknown for replicates, which have more ties",
            "ties='expectation'",
            "ties='block'",
        )
    if resampling.intervals == ("bayesian",) and not any(map(INTERVALS["bayesian"].serves, options.estimators)):
        has_meaning = any(parse_estimator(name)[0].weights for name in options.estimators)
        raise impossible(
            f"{', '.join(options.estimators)}: {'not known' if has_meaning else 'no meaning'} with the weights of the "
            "Bayesian bootstrap",
            "intervals with 'bayesian'",
            "'bootstrap'",
        )
    need_items = [name for name in options.estimators if parse_estimator(name)[0].needs_items]
    if need_items and resampling.draws and is_weighted(inputs):
        raise impossible(
            f"{', '.join(need_items)}: replicates are known for unweighted items, because a replicate of weighted ones "
            "keeps only the sums of tied weights",
            f"weights, and {'replicates' if resampling.keep_replicates else ', '.join(resampling.intervals)}",
            "'influence_beta', which needs no replicates, or another estimator",
        )
    if "bootstrap_t" in resampling.intervals and (is_weighted(inputs) or resampling.unit == "clusters"):
        raise impossible(
            "the standard error of a replicate is known for unweighted items drawn one by one",
            "weights" if is_weighted(inputs) else "unit='clusters'",
            "'bootstrap', or 'influence_logit'",
        )
    if resampling.uses_folds and "fold" in dataset and ITEM not in dataset["fold"].dims:
        raise impossible(
            "cross-validation needs the fold of every item",
            f"'fold' over ({', '.join(map(str, dataset['fold'].dims))})",
            "a variable 'fold' over 'item', or none for stratified folds",
        )
