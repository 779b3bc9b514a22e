"""What intervals are made from, lazily: standard errors, replicates and folds, drawn alike for all models."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from aucpr_dask.blocks import FEW_POSITIVES, ITEM_ROLES, Request, evaluate_rankings
from aucpr_dask.chunked_items import evaluate_in_chunks, has_chunked_items, needs_whole_rankings
from aucpr_dask.errors import InvalidInputError, explain
from aucpr_dask.inputs import Labelled, aligned, chunked_alike, clusters_of
from aucpr_dask.resampling_blocks import (
    ON_AN_AXIS,
    effective_positives,
    errors_where_known,
    estimate_accelerations,
    evaluate_folds,
    evidence_bounds,
    influence_errors,
    replicate_rankings,
)
from aucpr_dask.specs import INTERVALS, PREVALENCE_DESIGNS, UNITS, IntervalSpec, choose
from aucpr_dask.variables import BOUND, BOUNDS, ESTIMATOR, FLAG_BITS, FOLD, ITEM, METHOD, MODEL, QUERY, RESAMPLE

SCHEME = "philox4x32-10 1"  # a change of any random number changes this name
QUANTITY = "quantity"
_RESAMPLED = ("bootstrap", "basic", "bca", "bootstrap_t")


@dataclass(frozen=True)
class IntervalPlan:
    """Which intervals, and how the data are resampled for them.

    Parameters
    ----------
    methods : tuple of str
    level : float
    n_resamples, seed : int
    unit : {"items", "clusters"}
        What is drawn.
    keep_replicates : bool
    prevalence_design : {"fixed", "random"}
        Whether other samples would have the same numbers of positives and negatives.
    n_folds : int
    has_own_folds : bool
        Whether the data set says which item is in which fold.
    first_resample : int
        The first one to evaluate; the data set brings those before it along, as ``replicate``.
    """

    methods: tuple[str, ...]
    level: float
    n_resamples: int = 1000
    seed: int = 0
    unit: str = "items"
    keep_replicates: bool = False
    prevalence_design: str = "fixed"
    n_folds: int = 10
    has_own_folds: bool = False
    first_resample: int = 0

    @property
    def resamples(self) -> bool:
        """Whether multiplicities of items or clusters are drawn."""
        return self.keep_replicates or any(method in _RESAMPLED for method in self.methods)

    @property
    def folds(self) -> bool:
        """Whether items are dealt to folds."""
        return any("folds" in INTERVALS[method].needs for method in self.methods)

    @property
    def is_stratified(self) -> bool:
        """Whether positives and negatives are drawn apart."""
        return self.prevalence_design == "fixed"

    def labels(self) -> dict[str, Any]:
        """Return the coordinates of intervals and replicates."""
        labels = {METHOD: np.array(self.methods, dtype=object), BOUND: np.array(BOUNDS, dtype=object)}
        kept = {RESAMPLE: np.arange(self.n_resamples)} if self.keep_replicates else {}
        return labels | {"level": self.level} | kept

    def attributes(self) -> dict[str, Any]:
        """Return what a result records of the resampling."""
        kept: dict[str, Any] = {"prevalence_design": self.prevalence_design}
        draws = self.resamples or "bayesian" in self.methods
        if draws:
            how = "positives and negatives apart" if self.is_stratified else "positives and negatives together"
            kept |= {"resampled": f"{self.unit}, {how}" if self.unit == "items" else self.unit}
            kept |= {"n_resamples": self.n_resamples}
        if self.folds:
            kept |= {"n_folds": self.n_folds, "folds": "of the data set" if self.has_own_folds else "stratified"}
        if draws or (self.folds and not self.has_own_folds):
            kept |= {"seed": self.seed, "random_scheme": SCHEME}
        return kept


def plan_for(dataset: xr.Dataset, inputs: Mapping[str, Any], plan: IntervalPlan) -> IntervalPlan:
    """Fit a plan to a data set: its own folds; and random numbers of positives where nothing can hold them fixed."""
    if plan.folds and "fold" in dataset and dataset["fold"].dims == (ITEM,):
        plan = replace(plan, n_folds=int(np.unique(dataset["fold"].values).size), has_own_folds=True)
    if plan.unit == "clusters" or "positive_weight" in inputs:
        plan = replace(plan, prevalence_design="random")
    return plan


def checked_plan(plan: IntervalPlan) -> IntervalPlan:
    """Raise unless every option of a plan is allowed."""
    choose(UNITS, plan.unit, "unit")
    choose(PREVALENCE_DESIGNS, plan.prevalence_design, "prevalence_design")
    for name, least in (("n_resamples", 2), ("seed", 0), ("n_folds", 2)):
        value = getattr(plan, name)
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise InvalidInputError(explain(f"{name} must be a whole number from {least}", received=repr(value)))
    return plan


def stream_key(seed: int, dataset: str, query: str) -> int:
    """Return the 64 bits by which the resamples of a query are drawn: a digest of names, never of positions."""
    text = json.dumps([SCHEME, int(seed), dataset, query])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def stream_keys(score: xr.DataArray, seed: int, path: str) -> xr.Variable:
    """Return the key of each query of a data set; queries without names go by their number."""
    if QUERY not in score.dims:
        return xr.Variable((), np.uint64(stream_key(seed, path, "")))
    names = score.indexes.get(QUERY, range(score.sizes[QUERY]))
    return xr.Variable(QUERY, np.array([stream_key(seed, path, str(name)) for name in names], dtype=np.uint64))


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


def map_rankings(
    function: Callable[..., Any],
    inputs: dict[str, xr.DataArray],
    request: Request,
    sizes: dict[str, int],
    dim: str,
    **kwargs: Any,
) -> xr.DataArray:
    """Map a block function over the leading dimensions of inputs whose labels are checked first."""
    return map_variables(function, aligned(inputs, request, dim, whole_items=False), request, sizes, dim, **kwargs)


def map_variables(
    function: Callable[..., Any],
    inputs: dict[str, Labelled],
    request: Request,
    sizes: dict[str, int],
    dim: str,
    **kwargs: Any,
) -> Labelled:
    """Map a block function over inputs that are aligned; of variables, there are no labels to compare at every step."""
    inputs = chunked_alike(inputs)
    in_chunks = any(has_chunked_items(a, a.get_axis_num(dim)) for a in inputs.values() if dim in a.dims)
    if in_chunks and function is not evaluate_rankings:
        raise needs_whole_rankings(function.__name__.replace("_", " "), dim)
    roles = tuple(inputs)
    return xr.apply_ufunc(  # type: ignore[no-any-return]
        evaluate_in_chunks if in_chunks else function,
        *inputs.values(),
        input_core_dims=[[dim] if role in ITEM_ROLES else [] for role in roles],
        output_core_dims=[list(sizes)],
        kwargs={"roles": roles, "request": request, **kwargs},
        dask="allowed" if in_chunks else "parallelized",
        output_dtypes=[np.float64],
        dask_gufunc_kwargs={"output_sizes": sizes},
        keep_attrs=False,
    )


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
            raise InvalidInputError(explain(what, where=where, received=received, remedy=remedy))


def without_clusters(dataset: xr.Dataset, path: str) -> InvalidInputError:
    """Return the error that clusters are to be drawn and there are none."""
    cluster = dataset.get("cluster")
    return InvalidInputError(
        explain(
            "unit='clusters' needs to know the cluster of every item",
            where=f"data set {path!r}" if path else None,
            received="no variable 'cluster'"
            if cluster is None
            else f"'cluster' over ({', '.join(map(str, cluster.dims))})",
            remedy="add a variable 'cluster' over 'item'",
        )
    )
