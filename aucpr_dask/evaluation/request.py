"""Prepare a call: check its arrays against its options and each other, once, and return one frozen record."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.evaluation import alignment
from aucpr_dask.evaluation.groups import UNSEEN_OF_GROUPS, Groups, groups_of
from aucpr_dask.evaluation.rankings import facts_known, is_weighted, missing_scores
from aucpr_dask.schema.checks import NAME_A_GRADE, Default, refuse_other_lengths
from aucpr_dask.schema.estimators import WITH_INFLUENCE, parse_estimator
from aucpr_dask.schema.intervals import INTERVALS
from aucpr_dask.schema.options import EvaluationOptions, ResamplingOptions
from aucpr_dask.schema.terms import CLASS, GRADE, GROUPS, ITEM, ITEM_ROLES, MODEL, QUERY
from aucpr_dask.scores.copies import counted_copies
from aucpr_dask.scores.validate import where_of

ROLES = ("score", "label", "tie_order", "weight", "positive_weight", "negative_weight", "n_positive")  # of arguments


@dataclass(frozen=True, eq=False)
class Prepared:
    """Rankings that can be evaluated: arrays by role, checked and aligned."""

    arrays: dict[str, Any]  # DataArrays, or Variables
    options: EvaluationOptions
    dim: str = ITEM
    axes: tuple[str, ...] | None = None  # names of the leading axes, if arrays without labels were given

    def unwrapped(self, found: Any) -> Any:
        """Return an array that was computed from the others as NumPy or Dask array, if such were given."""
        return found if self.axes is None else found.transpose(*self.axes, ...).data


@dataclass(frozen=True)
class Sampling:
    """How the items of a data set are resampled, next to what the options say."""

    is_stratified: bool = True  # whether the numbers of positives and negatives are held fixed
    has_classes: bool = False  # which share the resamples of the items
    n_folds: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class PreparedDataset(Prepared):
    """One data set. Roles of its arrays are also those that resampling needs: key, cluster, fold."""

    arrays: dict[str, xr.Variable]
    sampling: Sampling
    groups: Groups | None = None
    has_copies: bool = False

    @property
    def facts(self) -> tuple[str, ...]:
        """What kernels find together with the estimates; see :func:`facts_known`."""
        return facts_known(self.options, self.arrays, is_stratified=self.sampling.is_stratified)


def prepare(arguments: Mapping[str, Any], options: EvaluationOptions, dim: Any = ITEM) -> Prepared:
    """Prepare the arrays among the arguments of a call, all labelled or all plain; None stands for one not given."""
    inputs = {role: arguments[role] for role in ROLES if arguments.get(role) is not None}
    if "score" not in inputs:
        raise alignment.without_scores()
    if isinstance(inputs["score"], xr.DataArray):
        dims = alignment.named_dimensions(dim)
        return prepare_labelled(alignment.labelled_inputs(inputs, dims), options, alignment.joined(dims))
    dim = alignment.one_dimension(dim)
    _refuse_misfits(inputs, options)
    arrays = alignment.plain_inputs(inputs)
    refuse_other_lengths({name: array.shape[-1] for name, array in arrays.items() if name in ITEM_ROLES})
    if options.ties == "trec_eval" and "tie_order" not in arrays:
        remedy = "pass tie_order=, or a DataArray whose item coordinate holds the document ids"
        raise alignment.without_tie_order("arrays without item labels", remedy)
    named, axes = alignment.with_named_axes(arrays, dim)
    return Prepared(alignment.chunked_alike(named), options, dim, axes)


def prepare_labelled(inputs: dict[str, xr.DataArray], options: EvaluationOptions, dim: str = ITEM) -> Prepared:
    """Prepare labelled arrays whose types are checked."""
    _refuse_misfits(inputs, options)
    return Prepared(alignment.chunked_alike(alignment.aligned(inputs, options, dim)), options, dim)


def prepare_dataset(
    dataset: xr.Dataset,
    path: str,
    options: EvaluationOptions,
    *,
    groups: Groups | None = None,
) -> PreparedDataset:
    """Prepare one validated data set; `path` is the name by which its resamples are drawn.

    `groups` are those of its items, if they are known.
    """
    has_copies = counted_copies(dataset, options.resampling.over)[0] > 0
    unit = drawn_unit(options.resampling.over, dataset)
    options = replace(options, resampling=replace(options.resampling, over=unit))
    inputs = alignment.score_inputs(dataset, options.positive_from, path)
    options = with_own_intervals(options, inputs)
    resampling = options.resampling
    highest = max(dataset.indexes.get(GRADE, (1,)))
    if options.positive_from is None and highest > 1 and "label" in dataset:  # known before anything is read
        what = "labels are graded, and it is not said from which grade they are positive"
        where, received = where_of(path, "label"), f"grades up to {highest}"
        allowed = "1 positive, 0 negative, -1 unjudged, -2 padding; grades with positive_from"
        raise InvalidInputError(what, where, received, allowed, NAME_A_GRADE)
    _refuse_misfits(inputs, options)
    refuse_impossible(inputs, dataset, options, path)
    groups = groups_of(dataset, options.by, path) if options.by and groups is None else groups
    arrays = {name: array.variable for name, array in alignment.aligned(inputs, options, ITEM).items()}
    n_folds, has_own_folds = resampling.n_folds, resampling.uses_folds and "fold" in dataset
    if resampling.over == "clusters":
        arrays["cluster"] = alignment.clusters_of(dataset, path).variable
    if has_own_folds:
        names, numbers = np.unique(dataset["fold"].values, return_inverse=True)
        arrays["fold"], n_folds = dataset["fold"].variable.copy(data=numbers.reshape(dataset["fold"].shape)), names.size
    elif resampling.uses_folds:
        refuse_more_folds_than_items(dataset.sizes[ITEM] if groups is None else groups.least, n_folds, path)
    lacks = _is_per_run(inputs) or (is_weighted(inputs) and _need_items(options))
    if (resampling.draws and not (lacks and is_default(options))) or (resampling.uses_folds and not has_own_folds):
        arrays["key"] = stream_keys(dataset["score"], resampling.seed, path, groups)
    has_classes = CLASS in inputs["score"].dims
    is_stratified = fixes_numbers(resampling, inputs, has_classes=has_classes)
    sampling = Sampling(is_stratified, has_classes, n_folds if resampling.uses_folds else 0)
    if groups is not None:
        arrays = groups.with_codes(arrays, ITEM, with_names=options.missing == "raise")
    arrays = alignment.chunked_alike(arrays)
    return PreparedDataset(arrays=arrays, options=options, sampling=sampling, groups=groups, has_copies=has_copies)


def fixes_numbers(resampling: ResamplingOptions, roles: Container[str], *, has_classes: bool = False) -> bool:
    """Return whether every sample has the same numbers of positives and negatives.

    Clusters, items that are positive and negative, and items of several classes are drawn whole, whatever is asked.
    """
    is_together = resampling.over == "clusters" or "positive_weight" in roles or has_classes
    return resampling.prevalence_design == "fixed" and not is_together


def drawn_unit(unit: str | None, dataset: xr.Dataset) -> str:
    """Return what is sampled: clusters of items by default, if the scores have some."""
    has_clusters = "cluster" in dataset and ITEM in dataset["cluster"].dims
    return unit or ("clusters" if has_clusters else "items")


def with_own_intervals(options: EvaluationOptions, roles: Container[str]) -> EvaluationOptions:
    """Return the options with the default intervals of these arrays, unless others are asked for."""
    if not isinstance(options.resampling.intervals, Default):
        return options
    return options.with_default_intervals(is_weighted=is_weighted(roles))


def is_default(options: EvaluationOptions) -> bool:
    """Whether resamples serve no more than the default intervals, which data that cannot be resampled do without."""
    return not options.resampling.keep_replicates and isinstance(options.resampling.intervals, Default)


def _is_per_run(inputs: Mapping[str, Any]) -> bool:
    return any(MODEL in getattr(array, "dims", ()) for name, array in inputs.items() if name != "score")


def _need_items(options: EvaluationOptions) -> list[str]:
    """Return the estimators that need the weights of single items."""
    return [name for name in options.estimators if parse_estimator(name)[0].needs_items]


# Keys of the random streams of resamples

SCHEME = "philox4x32-10 2"  # a change of any random number changes this name


def stream_key(seed: int, dataset: str, query: str) -> int:
    """Return the 64 bits by which the resamples of a query are drawn: a digest of names, never of positions."""
    names = json.dumps([SCHEME, int(seed), dataset, query])
    return int.from_bytes(hashlib.blake2b(names.encode(), digest_size=8).digest(), "little")


def stream_keys(score: xr.DataArray, seed: int, path: str, groups: Groups | None = None) -> xr.Variable:
    """Return the key of each query of a data set, and of each group; queries without names are numbered.

    All classes share one key.
    """
    names = map(str, score.indexes.get(QUERY, range(score.sizes[QUERY]))) if QUERY in score.dims else [""]
    streams = [(path, None)] if groups is None else groups.streams(path)
    keys = [[stream_key(seed, of, query or name) for of, query in streams] for name in names]
    found = xr.Variable((QUERY, GROUPS), np.array(keys, dtype=np.uint64).reshape(-1, len(streams)))
    alone = ([] if QUERY in score.dims else [QUERY]) + ([] if groups else [GROUPS])
    return found.isel(dict.fromkeys(alone, 0))


# Refusals


def refuse_more_folds_than_items(n_items: int, n_folds: int, path: str = "") -> None:
    """Raise if a fold would have no item."""
    if 0 < n_items < n_folds:
        where = f"argument 'n_folds', data set {path!r}" if path else "argument 'n_folds'"
        allowed, remedy = "as many folds as items, or fewer", "choose a smaller n_folds; 5 or 10 are usual"
        received = f"{n_folds} folds of {n_items} items"
        raise InvalidInputError("there are fewer items than folds", where, received, allowed, remedy)


def _refuse_misfits(given: Mapping[str, Any], options: EvaluationOptions) -> None:
    """Raise if arrays contradict each other, or the options."""
    misfit = _misfit(given, options)
    if misfit is not None:
        what, remedy = misfit
        received = f"{', '.join(sorted(given))}; ties={options.ties!r}, prevalence={options.prevalence!r}"
        allowed = "label, with or without weight; or positive_weight and negative_weight"
        raise InvalidInputError(what, "the arrays and options given together", received, allowed, remedy)


def _misfit(given: Mapping[str, Any], options: EvaluationOptions) -> tuple[str, str] | None:
    """Return how arrays contradict each other, or the options, if they do, and how to fix it."""
    n_soft = ("positive_weight" in given) + ("negative_weight" in given)
    if n_soft == 1:
        return "soft labels need both positive_weight and negative_weight", "give the other one too"
    if (n_soft > 0) == ("label" in given):
        return "give either a label, or positive_weight and negative_weight", "label=None with soft labels, only then"
    if n_soft and "weight" in given:
        return "weight and soft labels exclude each other: multiply them", "positive_weight=weight * positive_weight"
    if options.by and "n_positive" in given:
        return UNSEEN_OF_GROUPS
    if not is_weighted(given):
        return None
    if options.ties != "group":
        return "with weights, tied items must share one threshold: ties='group'", "ties='group', or leave out weights"
    if "n_positive" in given:
        return "n_positive has no meaning with weights: unseen positives have none", "leave out n_positive"
    unweightable = [spec.name for spec, _ in map(parse_estimator, options.estimators) if not spec.weights]
    if unweightable:
        return f"{', '.join(unweightable)}: no meaning with weights or soft labels", "name other estimators"
    return None


def refuse_known_missing(dataset: xr.Dataset, options: EvaluationOptions, path: str) -> None:
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
    where = (f"data set {path!r}, " if path else "") + "variable 'score'"
    raise missing_scores(where, f"{int((counts > 0).sum())} rankings, most in {'; '.join(parts)}")


def refuse_impossible(
    inputs: Mapping[str, Any], dataset: Mapping[Any, Any], options: EvaluationOptions, path: str = ""
) -> None:
    """Raise if something is asked of the arrays of a data set that cannot be computed from them."""
    if (impossible := _impossible(inputs, dataset, options)) is not None:
        what, received, remedy = impossible
        raise InvalidInputError(what, where_of(path), received, None, remedy)


def _impossible(
    inputs: Mapping[str, Any], dataset: Mapping[Any, Any], options: EvaluationOptions
) -> tuple[str, str, str] | None:
    """Return what cannot be computed, if there is something, what asks for it, and how to do without."""
    resampling, estimators = options.resampling, ", ".join(options.estimators)
    of_influence = [name for name in resampling.intervals if "error" in INTERVALS[name].needs]
    if of_influence and not options.with_influence:
        what = f"these intervals need the influence function, known for {', '.join(WITH_INFLUENCE)}"
        received = f"{', '.join(of_influence)} with {estimators}; ties={options.ties!r}"
        return what, received, "'bootstrap' serves every estimator"
    if _is_per_run(inputs) and not is_default(options) and (resampling.draws or resampling.uses_folds):
        what = "items cannot be resampled: each model has its own list of them"
        remedy = "resample queries (aggregate, compare), use an interval without resampling, or import a pooled layout"
        return what, "a per-run layout ('label' has the dimension 'model')", remedy
    if resampling.draws and options.ties == "expectation":
        what = "the expectation over ties is unknown for replicates, which have more ties"
        return what, "ties='expectation'", "ties='group'"
    need_items = _need_items(options)
    if need_items and resampling.draws and not is_default(options) and is_weighted(inputs):
        return (
            f"{', '.join(need_items)}: replicates are known for unweighted items, because a replicate of weighted ones "
            "keeps only the sums of tied weights",
            f"weights, and {'replicates' if resampling.keep_replicates else ', '.join(resampling.intervals)}",
            "'influence_beta', which needs no replicates, or another estimator",
        )
    if "bootstrap_t" in resampling.intervals and (is_weighted(inputs) or resampling.over == "clusters"):
        what = "the standard error of a replicate is known for unweighted items drawn one by one"
        return what, "weights" if is_weighted(inputs) else "over='clusters'", "'bootstrap', or 'influence_logit_t'"
    if resampling.uses_folds and "fold" in dataset and ITEM not in dataset["fold"].dims:
        received = f"'fold' over ({', '.join(map(str, dataset['fold'].dims))})"
        remedy = "a variable 'fold' over 'item', or none for stratified folds"
        return "cross-validation needs the fold of every item", received, remedy
    return None
