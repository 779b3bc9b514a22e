"""Standard errors and intervals of the estimates of one data set, lazily; all models share resamples."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import xarray as xr

from aucpr_dask.evaluation.mapping import map_rankings
from aucpr_dask.evaluation.rankings import FEW_POSITIVES, is_weighted
from aucpr_dask.evaluation.request import FACT_OF_EXTRA, PreparedDataset
from aucpr_dask.evaluation.resampled_rankings import (
    INFLUENCE_FACTS,
    ON_AN_AXIS,
    effective_positives,
    errors_where_known,
    estimate_accelerations,
    evaluate_folds,
    evidence_bounds,
    influence_facts,
    replicate_rankings,
)
from aucpr_dask.schema.intervals import INTERVALS
from aucpr_dask.schema.options import ALL_RECALLS, EvaluationOptions
from aucpr_dask.schema.variables import BOUND, BOUNDS, ESTIMATOR, FLAG_BITS, FOLD, METHOD, RESAMPLE

FACT = "fact"


@dataclass(frozen=True, eq=False)
class Evidence:
    """The variables that intervals are made from, named like the fields of the kernels' `Evidence`."""

    estimate: xr.Variable
    n_positive: xr.Variable
    error: xr.Variable | None = None
    acceleration: xr.Variable | None = None
    replicates: xr.Variable | None = None
    replicate_errors: xr.Variable | None = None
    bayesian_replicates: xr.Variable | None = None
    folds: xr.Variable | None = None
    n_effective: xr.Variable | None = None
    cubes: xr.Variable | None = None
    left_out: xr.Variable | None = None
    unseen_loss: xr.Variable | None = None

    def given(self) -> dict[str, xr.Variable]:
        """Return the variables that are not None, by name."""
        named = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: variable for name, variable in named.items() if variable is not None}


def with_intervals(
    result: dict[str, xr.Variable], extras: dict[str, xr.Variable], prepared: PreparedDataset
) -> dict[str, xr.Variable]:
    """Add standard errors, intervals, flags and, if requested, replicates to estimates."""
    evidence = gather_evidence(result["estimate"], result["n_positive"], extras, prepared)
    found = result | {
        "standard_error": _standard_errors(evidence, prepared.options),
        "interval": bounds_of(evidence, prepared, prepared.options.resampling.level),
        "flags": _flags(result["flags"], evidence, prepared),
    }
    if prepared.options.resampling.keep_replicates and evidence.replicates is not None:
        found["replicate"] = evidence.replicates
    return found


def gather_evidence(
    estimate: xr.Variable, n_positive: xr.Variable, extras: dict[str, xr.Variable], prepared: PreparedDataset
) -> Evidence:
    """Compute the evidence for the intervals; `extras` came with the estimates."""
    arrays, options = prepared.arrays, prepared.options
    if is_weighted(arrays):
        n_positive = map_rankings(effective_positives, arrays, {}, options=options)
    n_effective = n_positive
    if prepared.units and "influence_beta" in options.resampling.intervals:
        n_effective = map_rankings(effective_positives, arrays | prepared.units, {}, options=options)
    replicates, replicate_errors = _replicates(prepared) if options.resampling.draws_counts else (None, None)
    is_bayesian = "bayesian" in options.resampling.intervals
    return Evidence(
        estimate,
        n_positive,
        n_effective=n_effective,
        acceleration=_accelerations(extras, prepared),
        replicates=replicates,
        replicate_errors=replicate_errors,
        bayesian_replicates=_evaluate_resamples(prepared, bayesian=True) if is_bayesian else None,
        folds=_folds(prepared) if options.resampling.uses_folds else None,
        **_influence_facts(extras, prepared),
    )


def _influence_facts(extras: dict[str, xr.Variable], prepared: PreparedDataset) -> dict[str, xr.Variable]:
    """Return what influence functions say of the estimates, by the names of `Evidence`."""
    known = {FACT_OF_EXTRA[name]: variable for name, variable in extras.items() if name in FACT_OF_EXTRA}
    with_influence = prepared.options.with_influence
    if known or not with_influence:
        return known
    arrays, sizes = prepared.arrays | prepared.units, {FACT: len(with_influence) * len(INFLUENCE_FACTS)}
    facts = map_rankings(influence_facts, arrays, sizes, options=prepared.options, is_fixed=prepared.is_stratified)
    return extras_of(facts, INFLUENCE_FACTS, with_influence, prepared.options.estimators)


def extras_of(
    columns: xr.Variable, extras: tuple[str, ...], with_influence: tuple[str, ...], estimators: tuple[str, ...]
) -> dict[str, xr.Variable]:
    """Return every extra of all estimators, on the last dimension, by name.

    The last dimension of `columns` has the extras of one estimator with an influence function after the other. Other
    estimators get those of the first, which nothing reads; all are NaN if there is none.
    """
    if not with_influence:
        return {name: xr.Variable((), np.nan) for name in extras}
    place = [with_influence.index(name) if name in with_influence else 0 for name in estimators]
    found = {}
    for number, name in enumerate(extras):
        picked = columns.isel({columns.dims[-1]: [number + len(extras) * first for first in place]})
        found[name] = xr.Variable((*picked.dims[:-1], ESTIMATOR), picked.data)
    return found


def _accelerations(extras: dict[str, xr.Variable], prepared: PreparedDataset) -> xr.Variable | None:
    """Return the acceleration of every estimator."""
    options = prepared.options
    if "bca" not in options.resampling.intervals:
        return None
    if "acceleration" in extras:
        return extras["acceleration"]
    arrays, sizes = prepared.arrays | prepared.units, {ESTIMATOR: len(options.estimators)}
    return map_rankings(estimate_accelerations, arrays, sizes, options=options, is_stratified=prepared.is_stratified)


def _replicates(prepared: PreparedDataset) -> tuple[xr.Variable, xr.Variable | None]:
    """Return replicates and, to studentise them, their standard errors."""
    is_studentised = "bootstrap_t" in prepared.options.resampling.intervals
    replicates = _evaluate_resamples(prepared, extras=prepared.extras[:1] if is_studentised else ())
    if prepared.known_replicates is not None:
        known = prepared.known_replicates.transpose(*replicates.dims)
        replicates = xr.Variable.concat([known, replicates], RESAMPLE)
    if not is_studentised:
        return replicates, None
    options, n = prepared.options, len(prepared.options.estimators)
    errors = replicates.isel({ESTIMATOR: slice(n, None)}).transpose(..., ESTIMATOR)
    of_each = extras_of(errors, prepared.extras[:1], options.with_influence, options.estimators)
    return replicates.isel({ESTIMATOR: slice(n)}), of_each[prepared.extras[0]]


def _evaluate_resamples(
    prepared: PreparedDataset, extras: tuple[str, ...] = (), *, bayesian: bool = False
) -> xr.Variable:
    """Return replicates of every estimator, and of the extras of those with an influence function after them."""
    options, n_resamples = prepared.options, prepared.options.resampling.n_resamples
    first = 0 if bayesian else prepared.first_resample
    return map_rankings(
        replicate_rankings,
        prepared.arrays | {"key": prepared.key} | prepared.units,
        {
            ESTIMATOR: len(options.estimators) + len(extras) * len(options.with_influence),
            RESAMPLE: n_resamples - first,
        },
        options=options,
        extras=extras,
        n_resamples=n_resamples,
        bayesian=bayesian,
        is_stratified=prepared.is_stratified,
        first_resample=first,
        has_classes=prepared.has_classes,
    )


def _folds(prepared: PreparedDataset) -> xr.Variable:
    """Return the estimates of every fold: the data set's own folds, or stratified ones."""
    fold = {"key": prepared.key} if prepared.fold is None else {"fold": prepared.fold}
    sizes = {ESTIMATOR: len(prepared.options.estimators), FOLD: prepared.n_folds}
    arrays = prepared.arrays | fold
    return map_rankings(evaluate_folds, arrays, sizes, options=prepared.options, n_folds=prepared.n_folds)


def _standard_errors(evidence: Evidence, options: EvaluationOptions) -> xr.Variable:
    """Return standard errors: by the influence function of estimators that have one, of others by their replicates."""
    has_influence = xr.Variable(ESTIMATOR, [name in options.with_influence for name in options.estimators])
    error = xr.Variable((), np.nan) if evidence.error is None else evidence.error
    if evidence.replicates is not None:
        error = error.where(has_influence, evidence.replicates.std(RESAMPLE, ddof=1))
    errors: xr.Variable = xr.apply_ufunc(
        errors_where_known,
        evidence.estimate,
        error,
        has_influence | (evidence.replicates is not None),
        dask="parallelized",
        output_dtypes=[np.float64],
        keep_attrs=False,
    )
    return errors


def _flags(flags: xr.Variable, evidence: Evidence, prepared: PreparedDataset) -> xr.Variable:
    """Return the flags, with those about effective positives and resamples."""
    if is_weighted(prepared.arrays):
        n = evidence.n_positive
        flags = _with_flag(flags, "few_positives", (n > 0) & (n < FEW_POSITIVES))
    for replicates in (evidence.replicates, evidence.bayesian_replicates):
        if replicates is not None:
            is_undefined = (replicates.isnull() & evidence.estimate.notnull()).any([ESTIMATOR, RESAMPLE])
            flags = _with_flag(flags, "undefined_resamples", is_undefined)
    return flags


def _with_flag(flags: xr.Variable, name: str, is_raised: xr.Variable) -> xr.Variable:
    """Set one flag where it is raised, and clear it elsewhere."""
    bit = FLAG_BITS[name]
    return (flags & ~bit) | (is_raised * bit).astype(flags.dtype)


def bounds_of(evidence: Evidence, prepared: PreparedDataset, level: float) -> xr.Variable:
    """Return all intervals at this level; NaN where an estimator has none."""
    options, methods = prepared.options, prepared.options.resampling.intervals
    given = evidence.given()
    kwargs: dict[str, Any] = {"names": tuple(given), "methods": methods, "level": level}
    bounds: xr.Variable = xr.apply_ufunc(
        evidence_bounds,
        *given.values(),
        input_core_dims=[[ON_AN_AXIS[name]] if name in ON_AN_AXIS else [] for name in given],
        output_core_dims=[[METHOD, BOUND]],
        kwargs=kwargs,
        dask="parallelized",
        output_dtypes=[np.float64],
        dask_gufunc_kwargs={"output_sizes": {METHOD: len(methods), BOUND: len(BOUNDS)}},
        keep_attrs=False,
    )
    is_whole = options.recall_range == ALL_RECALLS
    specs = [INTERVALS[method] for method in methods]
    has = [[spec.serves(name) and (is_whole or not spec.is_formula) for spec in specs] for name in options.estimators]
    return bounds if np.all(has) else bounds.where(xr.Variable((ESTIMATOR, METHOD), has))
