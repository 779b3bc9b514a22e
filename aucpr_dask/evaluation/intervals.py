"""What intervals are made from, lazily: standard errors, replicates and folds, drawn alike for all models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.evaluation.alignment import clusters_of
from aucpr_dask.evaluation.mapping import map_variables
from aucpr_dask.evaluation.random_streams import stream_keys
from aucpr_dask.evaluation.rankings import FEW_POSITIVES
from aucpr_dask.evaluation.request import IntervalPlan, Request
from aucpr_dask.evaluation.resampled_rankings import (
    ON_AN_AXIS,
    effective_positives,
    errors_where_known,
    estimate_accelerations,
    evaluate_folds,
    evidence_bounds,
    influence_errors,
    replicate_rankings,
)
from aucpr_dask.schema.intervals import INTERVALS, IntervalSpec
from aucpr_dask.schema.variables import (
    BOUND,
    BOUNDS,
    ESTIMATOR,
    FLAG_BITS,
    FOLD,
    ITEM,
    METHOD,
    MODEL,
    RESAMPLE,
)


def extras_of(request: Request, plan: IntervalPlan, inputs: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what the ranking itself tells of average precision, beside the estimate."""
    if not _has_errors(request) or _weighted(inputs) or plan.unit == "clusters":
        return ()
    alone = request.estimators == ("average_precision",) and plan.is_stratified
    return (f"standard_error_{plan.prevalence_design}", *(("acceleration",) if "bca" in plan.methods and alone else ()))


def _weighted(inputs: Mapping[str, Any]) -> bool:
    return "weight" in inputs or "positive_weight" in inputs


def _has_errors(request: Request) -> bool:
    whole = request.recall_range == (0.0, 1.0)
    return "average_precision" in request.estimators and whole and request.ties != "expectation"


def with_intervals(
    result: Mapping[str, xr.Variable],
    extras: dict[str, xr.Variable],
    inputs: dict[str, xr.Variable],
    dataset: xr.Dataset,
    request: Request,
    plan: IntervalPlan,
    path: str,
) -> dict[str, xr.Variable]:
    """Return standard errors, intervals, flags and, if wanted, replicates of estimates."""
    estimate, flags = result["estimate"], result["flags"]
    is_ap = xr.Variable(ESTIMATOR, [name == "average_precision" for name in request.estimators])
    key = stream_keys(dataset["score"], plan.seed, path)
    drawn = inputs | {"key": key}
    if plan.unit == "clusters":
        clusters = clusters_of(dataset)
        if clusters is None:
            raise without_clusters(dataset, path)
        drawn = drawn | {"cluster": clusters.variable}
    evidence = {"estimate": estimate, "n_positive": result["n_positive"]}
    if _weighted(inputs):
        evidence["n_positive"] = map_variables(effective_positives, inputs, request, {}, ITEM)
        is_few = (evidence["n_positive"] > 0) & (evidence["n_positive"] < FEW_POSITIVES)
        flags = _with_flag(flags, "few_positives", is_few)
    evidence |= _errors(extras, drawn, request, plan)
    if "bca" in plan.methods and "acceleration" not in evidence:
        kwargs = {"is_stratified": plan.is_stratified}
        undrawn = {name: array for name, array in drawn.items() if name != "key"}
        sizes = {ESTIMATOR: len(request.estimators)}
        evidence["acceleration"] = map_variables(estimate_accelerations, undrawn, request, sizes, ITEM, **kwargs)
    if plan.resamples:
        known = dataset["replicate"].variable if plan.first_resample else None
        evidence |= _replicates(drawn, request, plan, known)
    if "bayesian" in plan.methods:
        evidence["bayesian_replicates"] = _evaluate_resamples(drawn, request, plan, bayesian=True)
    if plan.folds:
        evidence["folds"] = _folds(inputs, key, dataset, request, plan)
    error = evidence.get("error", xr.Variable((), np.nan))
    has_influence = is_ap & ("error" in evidence)
    for name in ("replicates", "bayesian_replicates"):
        if name in evidence:
            is_undefined = (evidence[name].isnull() & estimate.notnull()).any([ESTIMATOR, RESAMPLE])
            flags = _with_flag(flags, "undefined_resamples", is_undefined)
    found = {"flags": flags}
    if "replicates" in evidence:
        error = error.where(has_influence, evidence["replicates"].std(RESAMPLE, ddof=1))
        if plan.keep_replicates:
            found["replicate"] = evidence["replicates"]
    is_known = has_influence | ("replicates" in evidence)
    found["standard_error"] = xr.apply_ufunc(
        errors_where_known,
        estimate,
        error,
        is_known,
        dask="parallelized",
        output_dtypes=[np.float64],
        keep_attrs=False,
    )
    found["interval"] = _bounds(evidence, plan, request)
    return found


def _with_flag(flags: xr.Variable, name: str, is_raised: xr.Variable) -> xr.Variable:
    """Return the flags with one of them raised where it is to be, and nowhere else."""
    bit = FLAG_BITS[name]
    return (flags & ~bit) | (is_raised * bit).astype(flags.dtype)


def _errors(
    extras: dict[str, xr.Variable], drawn: dict[str, xr.Variable], request: Request, plan: IntervalPlan
) -> dict[str, xr.Variable]:
    """Return the standard error, and the acceleration, of average precision."""
    if extras:
        error = extras[f"standard_error_{plan.prevalence_design}"]
        return {"error": error} | ({"acceleration": extras["acceleration"]} if "acceleration" in extras else {})
    if not _has_errors(request):
        return {}
    kwargs = {"is_fixed": plan.prevalence_design == "fixed"}
    drawn = {name: array for name, array in drawn.items() if name != "key"}
    return {"error": map_variables(influence_errors, drawn, request, {}, ITEM, **kwargs)}


def _replicates(
    drawn: dict[str, xr.Variable], request: Request, plan: IntervalPlan, known: xr.Variable | None
) -> dict[str, xr.Variable]:
    """Return replicates and, to studentise them, their standard errors."""
    if "bootstrap_t" in plan.methods:
        request = replace(request, extras=(f"standard_error_{plan.prevalence_design}",))
    replicates = _evaluate_resamples(drawn, request, plan, bayesian=False)
    if known is not None:
        replicates = xr.Variable.concat([known.transpose(*replicates.dims), replicates], RESAMPLE)
    n = len(request.estimators)
    if not request.extras:
        return {"replicates": replicates}
    errors = replicates.isel({ESTIMATOR: n})
    return {"replicates": replicates.isel({ESTIMATOR: slice(n)}), "replicate_errors": errors}


def _evaluate_resamples(
    drawn: dict[str, xr.Variable], request: Request, plan: IntervalPlan, *, bayesian: bool
) -> xr.Variable:
    """Return replicates of every estimator, and of the extras behind them."""
    first = 0 if bayesian else plan.first_resample
    sizes = {ESTIMATOR: len(request.estimators) + len(request.extras), RESAMPLE: plan.n_resamples - first}
    kwargs = {"n_resamples": plan.n_resamples, "bayesian": bayesian, "is_stratified": plan.is_stratified}
    return map_variables(replicate_rankings, drawn, request, sizes, ITEM, first_resample=first, **kwargs)


def _folds(
    inputs: dict[str, xr.Variable], key: xr.Variable, dataset: xr.Dataset, request: Request, plan: IntervalPlan
) -> xr.Variable:
    """Return the estimates of every fold: the data set's own folds, or stratified ones."""
    if "fold" in dataset:
        _, numbers = np.unique(dataset["fold"].values, return_inverse=True)
        fold = {"fold": xr.Variable(dataset["fold"].dims, numbers.reshape(dataset["fold"].shape))}
    else:
        fold = {"key": key}
    sizes = {ESTIMATOR: len(request.estimators), FOLD: plan.n_folds}
    return map_variables(evaluate_folds, inputs | fold, request, sizes, ITEM, n_folds=plan.n_folds)


def _bounds(evidence: dict[str, xr.Variable], plan: IntervalPlan, request: Request) -> xr.Variable:
    missing = {"error", "replicate_errors"} & {need for method in plan.methods for need in _EVIDENCE_OF.get(method, ())}
    for name in missing - set(evidence):  # no estimator of the request has it
        evidence[name] = xr.full_like(evidence["estimate"], np.nan)
        if name in ON_AN_AXIS:
            sizes = {RESAMPLE: plan.n_resamples, **evidence[name].sizes}
            evidence[name] = evidence[name].set_dims(sizes).transpose(..., RESAMPLE)
    names = tuple(evidence)
    bounds: xr.Variable = xr.apply_ufunc(
        evidence_bounds,
        *evidence.values(),
        input_core_dims=[[ON_AN_AXIS[name]] if name in ON_AN_AXIS else [] for name in names],
        output_core_dims=[[METHOD, BOUND]],
        kwargs={"names": names, "methods": plan.methods, "level": plan.level},
        dask="parallelized",
        output_dtypes=[np.float64],
        dask_gufunc_kwargs={"output_sizes": {METHOD: len(plan.methods), BOUND: len(BOUNDS)}},
        keep_attrs=False,
    )
    is_whole = request.recall_range == (0.0, 1.0)
    specs = [INTERVALS[method] for method in plan.methods]
    has = [[_serves(spec, name) and (is_whole or not spec.is_formula) for spec in specs] for name in request.estimators]
    return bounds if np.all(has) else bounds.where(xr.Variable((ESTIMATOR, METHOD), has))


def _serves(spec: IntervalSpec, estimator: str) -> bool:
    return spec.estimators is None or estimator in spec.estimators


_EVIDENCE_OF = {
    "bootstrap_t": ("error", "replicate_errors"),
    "influence": ("error",),
    "influence_logit": ("error",),
    "influence_logit_t": ("error",),
}


def refuse_impossible(
    inputs: dict[str, xr.DataArray], dataset: xr.Dataset, request: Request, plan: IntervalPlan, path: str
) -> None:
    """Raise if an interval cannot be had of this data set."""
    where = f"data set {path!r}" if path else None
    draws = plan.resamples or "bayesian" in plan.methods
    weighted = _weighted(inputs)
    restricted = [
        method
        for method in plan.methods
        if "error" in INTERVALS[method].needs
        and not ("average_precision" in request.estimators and _has_errors(request))
    ]
    for clash, what, received, remedy in (
        (
            bool(restricted),
            "these intervals need the influence function, known for average_precision over all recalls",
            f"{', '.join(restricted)} with {', '.join(request.estimators)}; ties={request.ties!r}",
            "'bootstrap' and 'basic' serve every estimator",
        ),
        (
            (draws or plan.folds) and any(MODEL in array.dims for name, array in inputs.items() if name != "score"),
            "items cannot be resampled: each model has its own list of them",
            "a per-run layout ('label' has the dimension 'model')",
            "resample queries (aggregate, compare), take an interval without resampling, or import a pooled layout",
        ),
        (
            draws and request.ties == "expectation",
            "replicates have ties, whose expectation is not theirs",
            "ties='expectation'",
            "ties='block'",
        ),
        (
            plan.methods == ("bayesian",) and request.estimators == ("discrete",),
            "discrete: no meaning with the weights of the Bayesian bootstrap",
            "intervals with 'bayesian'",
            "'bootstrap'",
        ),
        (
            "bootstrap_t" in plan.methods and (weighted or plan.unit == "clusters"),
            "the standard error of a replicate is known for unweighted items drawn one by one",
            "weights" if weighted else "unit='clusters'",
            "'bootstrap', or 'influence_logit'",
        ),
        (
            plan.folds and "fold" in dataset and ITEM not in dataset["fold"].dims,
            "cross-validation needs the fold of every item",
            f"'fold' over ({', '.join(map(str, dataset['fold'].dims))})" if "fold" in dataset else "",
            "a variable 'fold' over 'item', or none for stratified folds",
        ),
    ):
        if clash:
            raise InvalidInputError(what, where=where, received=received, remedy=remedy)


def without_clusters(dataset: xr.Dataset, path: str) -> InvalidInputError:
    """Return the error that clusters are to be drawn and there are none."""
    cluster = dataset.get("cluster")
    return InvalidInputError(
        "unit='clusters' needs to know the cluster of every item",
        where=f"data set {path!r}" if path else None,
        received="no variable 'cluster'"
        if cluster is None
        else f"'cluster' over ({', '.join(map(str, cluster.dims))})",
        remedy="add a variable 'cluster' over 'item'",
    )
