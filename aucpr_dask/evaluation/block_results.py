"""All numbers of a result from the arrays of a NumPy block: what intervals are made of, then the intervals.

Module-level functions are pickled by name: `evaluate_block` is the one function in the graph of an evaluation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.evaluation.chunk_passes import finish_rankings
from aucpr_dask.evaluation.extrapolation import half_seen, tail_draws
from aucpr_dask.evaluation.influences import effective_positives, influence_facts
from aucpr_dask.evaluation.rankings import FEW_POSITIVES, Array, Evaluated, evaluate_rankings, is_weighted, items_of
from aucpr_dask.evaluation.request import Sampling, is_default
from aucpr_dask.evaluation.resampled_rankings import estimate_accelerations, evaluate_folds, replicate_rankings
from aucpr_dask.schema.estimators import AREAS
from aucpr_dask.schema.intervals import INTERVALS, IntervalSpec
from aucpr_dask.schema.options import ALL_RECALLS, EvaluationOptions
from aucpr_dask.schema.terms import FLAG_BITS, RESULT_VARIABLES

if TYPE_CHECKING:
    from aucpr_dask.kernels.intervals import Evidence

Floats = NDArray[np.float64]
OF_RESAMPLING = ("key", "cluster", "fold")  # roles of arrays that no estimate needs


def evaluate_block(
    *arrays: Any,
    roles: tuple[str, ...],
    finish: Callable[..., Any],
    options: EvaluationOptions,
    facts: tuple[str, ...] = (),
    is_fixed: bool = True,
    **kwargs: Any,
) -> Any:
    """Evaluate the rankings of a block, and return what `finish` makes of the numbers and the arrays.

    A generalized function, ``(item), (item), ..., () -> ...``, whose leading dimensions broadcast. Rankings whose items
    are in several chunks come as the counts of both passes over them, in place of scores and labels.
    """
    named = dict(zip(roles, arrays, strict=True))
    ranked = {role: array for role, array in named.items() if role not in OF_RESAMPLING}
    evaluated = (finish_rankings if "tally" in named else evaluate_rankings)(ranked, options, facts, is_fixed=is_fixed)
    return finish(evaluated, named, options=options, **kwargs)


def results_of(
    evaluated: Evaluated, named: dict[str, Array], options: EvaluationOptions, sampling: Sampling
) -> tuple[Array, ...]:
    """Return the variables of a result, in the order of `RESULT_VARIABLES`."""
    evidence = evidence_of(evaluated, named, options, sampling)
    found = evaluated._asdict() | {
        "standard_error": _standard_errors(evidence, options),
        "interval": interval_bounds(evidence, options, options.resampling.level),
    }
    if "cluster" in named:
        found["n_positive_clusters"] = effective_positives(*items_of(named, options), options)
    n_drawn = evidence.n_positive[..., 0] if is_weighted(named) and evidence.n_positive is not None else None
    found["flags"] = _flags(evaluated.flags, evidence, found.get("n_positive_clusters", n_drawn))
    unseen = _are_unseen(evidence, options)
    # An interval that nobody asked for, or whose coverage is said to hold, is not shown where it is known to be wrong.
    shown = {"extrapolated"} if is_default(options) else set(INTERVALS) - {"influence_beta"}
    is_hidden = np.array([name not in shown for name in options.resampling.intervals], bool)
    found["interval"] = np.where((unseen[..., None] & is_hidden)[..., None], np.nan, found["interval"])
    found["flags"] = _with_flag(found["flags"], "unseen_rates", np.any(unseen, axis=-1))
    if "extrapolated" in options.resampling.intervals:
        unknown = np.full(evaluated.n_positive.shape, np.nan)
        found["extrapolated"] = unknown if evidence.tails is None else evidence.sorted_tails.quantile(0.5)[..., 0]
    lacks = np.isnan(found["interval"]).any(axis=-1).all(axis=-1) & ~np.isnan(evaluated.estimate)
    if options.resampling.intervals:
        found["flags"] = _with_flag(found["flags"], "no_interval", lacks.any(axis=-1))
    if options.resampling.keep_replicates:
        found["replicate"] = evidence.replicates
    return tuple(
        found[name][..., *(0 if dim in options.single else slice(None) for dim in spec.dims[0] if dim != "...")]
        for name, spec in RESULT_VARIABLES.items()
        if name in found
    )


def evidence_of(
    evaluated: Evaluated, named: dict[str, Array], options: EvaluationOptions, sampling: Sampling
) -> Evidence:
    """Gather what intervals are made of; arrays have a last axis, or the last but one, for the estimators."""
    from aucpr_dask.kernels.intervals import Evidence

    resampling, is_stratified = options.resampling, sampling.is_stratified
    drawn = {role: array for role, array in named.items() if role != "fold"}
    unfolded = cache(partial(items_of, drawn, options))  # rows and items, which most estimates do without
    n_positive = n_effective = evaluated.n_positive
    if is_weighted(named):
        rows, items = unfolded()
        n_positive = n_effective = effective_positives(rows, items._replace(clusters=None), options)
    facts = evaluated.facts
    if options.with_influence and not facts:  # of weights, or of clusters
        facts = influence_facts(*unfolded(), options, is_fixed=is_stratified)
    n_effective = np.stack([n_effective] * len(options.estimators), axis=-1)
    if "roc_area" in options.estimators:  # whose classes are alike
        place = options.estimators.index("roc_area")
        n_effective[..., place] = np.minimum(n_effective[..., place], evaluated.n_negative)
    evidence = Evidence(evaluated.estimate, n_positive[..., None], n_effective=n_effective, **facts)
    if "tally" not in named and (options.prevalence is not None or is_weighted(named)):
        evidence = replace(evidence, half_seen=half_seen(*unfolded(), options)[..., None])
    if "extrapolated" in resampling.intervals and "tally" not in named:
        half = evidence.half_seen if evidence.half_seen is not None else half_seen(*unfolded(), options)[..., None]
        tails = tail_draws(*unfolded(), options)[..., None, :]
        tails = tails if "cluster" not in named else np.full_like(tails, np.nan)  # draws of clusters are not known
        evidence = replace(evidence, half_seen=half, tails=tails)
    if "bca" in resampling.intervals and "acceleration" not in facts:
        acceleration = estimate_accelerations(*unfolded(), options, is_stratified=is_stratified)
        evidence = replace(evidence, acceleration=acceleration)
    if resampling.draws_counts and "key" in named:
        with_errors = "bootstrap_t" in resampling.intervals
        replicates, errors = replicate_rankings(*unfolded(), named, options, sampling, with_errors=with_errors)
        evidence = replace(evidence, replicates=replicates, replicate_errors=errors)
    if "bayesian" in resampling.intervals and "key" in named:
        replicates, _ = replicate_rankings(*unfolded(), named, options, sampling, bayesian=True)
        evidence = replace(evidence, bayesian_replicates=replicates)
    if resampling.uses_folds:
        folds = {role: array for role, array in named.items() if role != "cluster"}
        evidence = replace(evidence, folds=evaluate_folds(folds, options, n_folds=sampling.n_folds))
    return evidence


def _standard_errors(evidence: Evidence, options: EvaluationOptions) -> Floats:
    """Return standard errors: by the influence function of estimators that have one, of others by their replicates."""
    errors: Floats = np.full(evidence.estimate.shape, np.nan)
    has_influence = np.array([name in options.with_influence for name in options.estimators])
    if evidence.error is not None:
        errors[..., has_influence] = evidence.error[..., has_influence]
    if evidence.replicates is not None:
        for place in np.flatnonzero(~has_influence):  # one by one, because NumPy makes copies
            errors[..., place] = _deviations(evidence.replicates[..., place, :])
    errors[np.isnan(evidence.estimate)] = np.nan
    return errors


def _deviations(replicates: Array) -> Floats:
    """Return the standard deviation of the known replicates of each row; NaN of fewer than two."""
    deviations: Floats = np.full(replicates.shape[:-1], np.nan)
    has_several = np.count_nonzero(~np.isnan(replicates), axis=-1) > 1  # of others NumPy warns
    rows = replicates if has_several.all() else replicates[has_several]
    deviations[has_several] = np.nanstd(rows, axis=-1, ddof=1).reshape(-1)
    return deviations


def _flags(flags: Array, evidence: Evidence, n: Array | None) -> Array:
    """Return the flags, with those about resamples, and about positives if another number of them counts."""
    if n is not None:
        flags = _with_flag(flags, "few_positives", (n > 0) & (n < FEW_POSITIVES))
    drawn = [replicates for replicates in (evidence.replicates, evidence.bayesian_replicates) if replicates is not None]
    is_known = ~np.isnan(evidence.estimate)
    lacks = [(np.isnan(replicates).any(axis=-1) & is_known).any(axis=-1) for replicates in drawn]
    return _with_flag(flags, "undefined_resamples", np.any(lacks, axis=0)) if drawn else flags


def _with_flag(flags: Array, name: str, is_raised: Any) -> Array:
    """Set one flag where it is raised, and clear it elsewhere."""
    bit = np.int32(FLAG_BITS[name])
    return np.asarray((flags & ~bit) | np.where(is_raised, bit, np.int32(0)))


def interval_bounds(evidence: Evidence, options: EvaluationOptions, level: float) -> Floats:
    """Return all intervals at this level, (..., estimator, method, bound); NaN where an estimator has none."""
    from aucpr_dask.kernels.intervals import bounds_of

    methods, is_whole = options.resampling.intervals, options.recall_range == ALL_RECALLS
    bounds = np.full((*evidence.estimate.shape, len(methods), 2), np.nan)
    for column, method in enumerate(methods):
        spec = INTERVALS[method]
        if _lacks(evidence, spec):
            continue  # a default interval of data that have none
        of_parts = not spec.is_formula and "tails" not in spec.needs
        has = [spec.serves(name) and (is_whole or of_parts) for name in options.estimators]
        if any(has):
            width = options.recall_range[1] - options.recall_range[0] if "error" in spec.needs else 1.0
            scaled = evidence if width == 1.0 else _in_units(evidence, width)
            bounds[..., has, column, :] = width * bounds_of(scaled, method, level)[..., has, :]
    return bounds


def _are_unseen(evidence: Evidence, options: EvaluationOptions) -> NDArray[np.bool_]:
    """Return which areas (..., estimator) are mostly extrapolated."""
    from aucpr_dask.kernels.intervals import MOST_EXTRAPOLATED

    is_area = np.array([name in AREAS for name in options.estimators]) & (options.recall_range == ALL_RECALLS)
    if evidence.half_seen is None:
        return np.zeros(evidence.estimate.shape, bool)
    return np.asarray(is_area & (evidence.estimate > MOST_EXTRAPOLATED * evidence.half_seen))


def _lacks(evidence: Evidence, spec: IntervalSpec) -> bool:
    replicates = evidence.replicates if evidence.replicates is not None else evidence.bayesian_replicates
    known = {"replicates": replicates, "error": evidence.error, "tails": evidence.tails}
    return any(known[need] is None for need in spec.needs if need in known)


def _in_units(evidence: Evidence, width: float) -> Evidence:
    """Return what is known of a part of the area as shares of its width, and so between 0 and 1."""
    known = {"estimate": 1, "error": 1, "cubes": 3, "left_out": 1, "unseen_loss": 1}
    parts = {name: getattr(evidence, name) for name in known}
    return replace(evidence, **{name: part / width ** known[name] for name, part in parts.items() if part is not None})
