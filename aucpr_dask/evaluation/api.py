"""Labelled evaluation: NumPy, Dask or xarray in, the same kind out; lazy on Dask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import dask
import dask.array as da
import numpy as np
import xarray as xr

from aucpr_dask.errors import InvalidInputError, MissingScoresError
from aucpr_dask.evaluation.alignment import aligned, labelled_inputs, plain_inputs, score_inputs
from aucpr_dask.evaluation.in_chunks import evaluate_in_chunks, has_chunked_items
from aucpr_dask.evaluation.intervals import extras_of, refuse_impossible, with_intervals
from aucpr_dask.evaluation.mapping import map_rankings, map_variables
from aucpr_dask.evaluation.rankings import evaluate_intervals, evaluate_rankings
from aucpr_dask.evaluation.request import (
    IntervalPlan,
    Request,
    checked_request,
    plan_for,
)
from aucpr_dask.evaluation.results import annotate
from aucpr_dask.schema.checks import fraction
from aucpr_dask.schema.estimators import estimator_names
from aucpr_dask.schema.intervals import INTERVALS, interval_names
from aucpr_dask.schema.options import EvaluationOptions
from aucpr_dask.schema.variables import BOUND, BOUNDS, COLUMNS, ESTIMATOR, ITEM, ITEM_ROLES, METHOD, RESULT_VARIABLES
from aucpr_dask.schema.variables import QUANTITY as _QUANTITY
from aucpr_dask.scores.store import item_chunk
from aucpr_dask.scores.validate import validate_scores
from aucpr_dask.storage.stores import Scores, map_nodes


def estimate(
    score: Any,
    label: Any,
    estimator: str | Sequence[str] = "average_precision",
    *,
    weight: Any = None,
    positive_weight: Any = None,
    negative_weight: Any = None,
    n_positive: Any = None,
    tie_order: Any = None,
    prevalence: float | None = None,
    recall_range: tuple[float, float] = (0.0, 1.0),
    missing: str = "raise",
    ties: str = "block",
    unjudged: str = "negative",
    positive_from: int | None = None,
    dim: str = ITEM,
) -> Any:
    """Estimate areas under precision-recall curves.

    Over the blocks k of tied scores, from the highest, average precision is
    ``sum_k (R_k - R_{k-1}) P_k`` with precision ``P_k = TP_k / (TP_k + FP_k)`` and recall ``R_k = TP_k / n``.

    Parameters
    ----------
    score : array, shape (..., item)
        NumPy, Dask or xarray; float32 or float64 (integers are converted). Larger is more positive.
    label : array, shape broadcastable to that of `score`
        1 positive, 0 negative, -1 unjudged, -2 padding; grades with `positive_from`. None with soft weights.
    estimator : str or sequence of str
        Names from the registry, some with a number: ``"precision_at_recall(0.8)"``. A sequence adds a last
        axis, or the dimension ``estimator``.
    weight : array, optional
        Sample weights, shaped like `label`.
    positive_weight, negative_weight : array, optional
        Soft labels, in place of `label`: the weight of each item as a positive and as a negative.
    n_positive : array, optional, shape (...)
        All positives of each ranking, when some were never scored.
    tie_order : array of int, optional, shaped like `label`
        Order within tied scores for ``ties="trec_eval"``, smallest first. An xarray with string labels on
        `dim` needs none: they are taken as document ids, in descending byte order.
    prevalence : float, optional
        Prevalence between 0 and 1 to compute precision at; that of the sample by default.
    recall_range : tuple of float
        Recalls between which to take the area; it is not divided by their difference.
    missing : {"raise", "drop", "last", "unretrieved"}
        What NaN means: an error; no item for this model; tied below every score; never ranked, so that a
        positive is missed.
    ties : {"block", "trec_eval", "expectation"}
        Tied items share one threshold; or stand in `tie_order`; or in random order, in exact expectation.
    unjudged : {"negative", "drop"}
        What label -1 means.
    positive_from : int, optional
        The lowest grade that counts as positive, from 1.
    dim : str
        The item dimension of xarray input; the last axis of others.

    Returns
    -------
    array of float64, shape (...) or (..., estimator)
        The same kind as `score`. NaN where there is no positive.

    Raises
    ------
    InvalidInputError
        If an option, shape, type, label or weight is not allowed.
    MissingScoresError
        If a score is NaN under ``missing="raise"``.
    AlignmentError
        If xarray inputs carry different labels.
    ChunkError
        If the items of a Dask input are in several chunks, and the estimator, the weights or ``ties="trec_eval"`` need
        them in one.

    References
    ----------
    Boyd, Eng & Page 2013, doi:10.1007/978-3-642-40994-3_29 (estimators). McSherry & Najork 2008,
    doi:10.1007/978-3-540-78646-7_38 (ties in expectation).

    Examples
    --------
    >>> estimate([0.9, 0.8, 0.7, 0.6], [1, 0, 1, 0])
    0.8333333333333333
    >>> estimate([[3, 2, 1], [1, 2, 3]], [1, 0, 0], ["average_precision", "lower_trapezoid"])
    array([[1.        , 1.        ],
           [0.33333333, 0.16666667]])
    """
    names = estimator_names(estimator)
    given = {
        "score": score,
        "label": label,
        "tie_order": tie_order,
        "weight": weight,
        "positive_weight": positive_weight,
        "negative_weight": negative_weight,
        "n_positive": n_positive,
    }
    inputs = {name: value for name, value in given.items() if value is not None}
    request = checked_request(names, prevalence, missing, ties, unjudged, positive_from, set(inputs), recall_range)
    if isinstance(score, xr.DataArray):
        stacked = map_rankings(evaluate_rankings, labelled_inputs(inputs, dim), request, _sizes_of(request), dim)
        estimates = stacked.isel({_QUANTITY: slice(len(names))}).rename({_QUANTITY: ESTIMATOR})
        estimates = estimates.assign_coords({ESTIMATOR: list(names)}).rename("estimate")
        return estimates.isel({ESTIMATOR: 0}) if isinstance(estimator, str) else estimates
    arrays = plain_inputs(inputs)
    if ties == "trec_eval" and "tie_order" not in arrays:
        raise InvalidInputError(
            "ties='trec_eval' needs to know the order of tied items",
            received="arrays without item labels",
            remedy="pass tie_order=, or a DataArray whose item coordinate holds the document ids",
        )
    columns = _rank_arrays(arrays, request)
    chosen = columns[..., 0] if isinstance(estimator, str) else columns[..., : len(names)]
    return float(chosen) if isinstance(chosen, np.ndarray) and chosen.ndim == 0 else chosen


def interval(estimate: Any, n_positive: Any, method: str | Sequence[str] = "logit", level: float = 0.95) -> Any:
    """Compute formula intervals around areas.

    With t the area, n the positives and z the normal quantile, ``"logit"`` is
    ``expit(logit t -+ z / sqrt(n t (1 - t)))``, ``"binomial"`` is ``t -+ z sqrt(t (1 - t) / n)``;
    ``"wilson"`` and ``"clopper_pearson"`` stay informative at areas of 0 and 1.

    Parameters
    ----------
    estimate : array, shape (...)
        Areas between 0 and 1; NumPy, Dask or xarray.
    n_positive : array, broadcastable to `estimate`
        Positives behind each area.
    method : str or sequence of str
        A sequence adds an axis before the last, or the dimension ``method``.
    level : float
        Confidence level between 0 and 1.

    Returns
    -------
    array of float64, shape (..., 2)
        Lower and upper bound, on the last axis or the dimension ``ci_bound``; NaN where the area is.

    Raises
    ------
    InvalidInputError
        If a method is unknown or not a formula, or the level is not between 0 and 1.

    References
    ----------
    Boyd, Eng & Page 2013, doi:10.1007/978-3-642-40994-3_29.

    Examples
    --------
    >>> interval(0.8, 50).round(4)
    array([0.6667, 0.8889])
    """
    methods = _formula_methods(method)
    level = fraction(level, "level")
    bounds: Any
    if isinstance(estimate, xr.DataArray) or isinstance(n_positive, xr.DataArray):
        bounds = _intervals_labelled(xr.DataArray(estimate), xr.DataArray(n_positive), methods, level)
        return bounds.isel({METHOD: 0}) if isinstance(method, str) else bounds
    if isinstance(estimate, da.Array) or isinstance(n_positive, da.Array):
        bounds = da.apply_gufunc(
            evaluate_intervals,
            f"(),()->({METHOD},{BOUND})",
            da.asarray(estimate),
            da.asarray(n_positive),
            output_dtypes=np.float64,
            output_sizes={METHOD: len(methods), BOUND: 2},
            methods=methods,
            level=level,
        )
    else:
        bounds = evaluate_intervals(np.asarray(estimate), np.asarray(n_positive), methods=methods, level=level)
    return bounds[..., 0, :] if isinstance(method, str) else bounds


def evaluate(
    scores: Scores,
    estimators: str | Sequence[str] = ("average_precision",),
    intervals: str | Sequence[str] = ("logit",),
    level: float = 0.95,
    *,
    prevalence: float | None = None,
    recall_range: tuple[float, float] = (0.0, 1.0),
    missing: str = "raise",
    ties: str = "block",
    unjudged: str = "negative",
    positive_from: int | None = None,
    n_resamples: int = 1000,
    seed: int = 0,
    unit: str = "items",
    keep_replicates: bool = False,
    prevalence_design: str = "fixed",
    n_folds: int = 10,
) -> Scores:
    """Evaluate every model of one data set, or of a tree of data sets.

    Resample r of a query is drawn by ``(seed, data set, query, r)`` alone and is the same for all models: models are
    compared in pairs, more resamples leave the first ones as they are, and so do other models, chunks or workers.

    Parameters
    ----------
    scores : xarray.Dataset or xarray.DataTree
        Score data sets: ``score`` over (model, item) or (model, query, item), ``label`` and, optionally,
        ``n_positive``, ``weight``, ``positive_weight`` and ``negative_weight``, ``tie_order``, ``cluster``, ``fold``.
    estimators, intervals : str or sequence of str
        Names from the registries.
    level : float
        Confidence level of the intervals.
    prevalence, recall_range, missing, ties, unjudged, positive_from
        See :func:`estimate`.
    n_resamples : int
        Resamples of the intervals that need them.
    seed : int
        What resamples and folds are drawn by.
    unit : {"items", "clusters"}
        What is drawn: items, positives and negatives apart; or whole groups of the variable ``cluster``.
    keep_replicates : bool
        Whether to return the estimate of every resample, ``replicate(..., estimator, resample)``.
    prevalence_design : {"fixed", "random"}
        Whether another sample would have the same numbers of positives and negatives; of weights that are both, or
        of clusters, these are random.
    n_folds : int
        Folds of the cross-validation intervals, unless the data set has its own in ``fold``.

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        The same kind as `scores`; lazy if they are Dask-backed. Variables ``estimate(..., estimator)``,
        ``standard_error(..., estimator)``, ``interval(..., estimator, method, ci_bound)``, ``n_positive``,
        ``n_negative``, ``n_missing``,
        ``prevalence`` and ``flags``, where ... is model and, if present, query.

    Raises
    ------
    InvalidInputError, MissingScoresError, AlignmentError, ChunkError
        See :func:`estimate`. Missing scores are named by model and query; before anything is read, if the
        data set says how many there are, as every store does.

    Examples
    --------
    >>> import xarray as xr
    >>> scores = xr.Dataset(
    ...     {"score": (("model", "item"), [[4.0, 3, 2, 1], [1, 2, 3, 4]]), "label": ("item", [1, 1, 0, 0])},
    ...     coords={"model": ["good", "bad"]},
    ... )
    >>> result = evaluate(scores)
    >>> result["estimate"].sel(estimator="average_precision").values.round(4)
    array([1.    , 0.4167])
    """
    options = EvaluationOptions.of(
        estimators=estimators,
        intervals=intervals,
        level=level,
        prevalence=prevalence,
        recall_range=recall_range,
        missing=missing,
        ties=ties,
        unjudged=unjudged,
        positive_from=positive_from,
        n_resamples=n_resamples,
        seed=seed,
        unit=unit,
        keep_replicates=keep_replicates,
        prevalence_design=prevalence_design,
        n_folds=n_folds,
    )
    return evaluate_scores(scores, options)


def evaluate_scores(scores: Scores, options: EvaluationOptions) -> Scores:
    """Evaluate one data set, or a tree of data sets."""
    validate_scores(scores, positive_from=options.positive_from)
    scores = map_nodes(scores, lambda path, dataset: dataset if dataset["score"].size else dataset.compute())
    return map_nodes(scores, lambda path, dataset: evaluate_dataset(dataset, path, options))


def evaluate_dataset(dataset: xr.Dataset, path: str, options: EvaluationOptions) -> xr.Dataset:
    """Evaluate one data set under the name by which its resamples are drawn."""
    variables, request, plan = evaluate_variables(dataset, path, options)
    kept = {str(dim) for variable in variables.values() for dim in variable.dims}
    labels = {name: dataset.coords[name].variable for name in map(str, dataset.indexes) if name in kept}
    whole = xr.Dataset(variables, labels | plan.labels() | {ESTIMATOR: _strings(request.estimators)})
    return annotate(whole, request, plan, dataset.attrs)


def evaluate_variables(
    dataset: xr.Dataset, path: str, options: EvaluationOptions, first_resample: int = 0
) -> tuple[dict[str, xr.Variable], Request, IntervalPlan]:
    """Evaluate one data set without labelling the result; return also what was asked for, checked."""
    asked = options.resampling
    plan = IntervalPlan(
        asked.intervals,
        asked.level,
        asked.n_resamples,
        asked.seed,
        asked.unit,
        asked.keep_replicates,
        asked.prevalence_design,
        asked.n_folds,
        first_resample=first_resample,
    )
    names, prevalence, missing, ties = options.estimators, options.prevalence, options.missing, options.ties
    unjudged, positive_from, recall_range = options.unjudged, options.positive_from, options.recall_range
    labelled = score_inputs(dataset, positive_from, path)
    plan = plan_for(dataset, labelled, plan)
    request = checked_request(names, prevalence, missing, ties, unjudged, positive_from, set(labelled), recall_range)
    _refuse_known_missing(dataset, request, path)
    refuse_impossible(labelled, dataset, request, plan, path)
    labelled = aligned(labelled, request, ITEM, whole_items=False)
    inputs = {name: array.variable for name, array in labelled.items()}
    ranked = replace(request, extras=extras_of(request, plan, inputs))
    stacked = map_variables(evaluate_rankings, inputs, ranked, _sizes_of(ranked), ITEM)
    result = _estimates(stacked, request, len(ranked.extras))
    extras = {name: stacked.isel({_QUANTITY: len(names) + i}) for i, name in enumerate(ranked.extras)}
    result |= with_intervals(result, extras, inputs, dataset, request, plan, path)
    return {name: result[name] for name in RESULT_VARIABLES if name in result}, request, plan


def evaluate_part(
    dataset: xr.Dataset, path: str, options: EvaluationOptions, first_resample: int = 0
) -> dict[str, xr.Variable]:
    """Read and evaluate a part of an open store: at once, or chunk after chunk if its items are stored in several."""
    chunk = item_chunk(dataset)
    if chunk is None:
        return evaluate_variables(dataset.load(), path, options, first_resample)[0]
    variables, _, _ = evaluate_variables(dataset.chunk({ITEM: chunk}), path, options, first_resample)
    return dask.compute(variables, scheduler="synchronous")[0]  # type: ignore[no-any-return]


def _estimates(stacked: xr.Variable, request: Request, n_extras: int) -> dict[str, xr.Variable]:
    n_estimators = len(request.estimators)
    estimates = stacked.isel({_QUANTITY: slice(n_estimators)})
    first = n_estimators + n_extras
    column = {name: stacked.isel({_QUANTITY: first + position}) for position, name in enumerate(COLUMNS)}
    return {
        "estimate": xr.Variable((*estimates.dims[:-1], ESTIMATOR), estimates.data),
        "n_positive": column["n_positive"],
        "n_negative": column["n_negative"],
        "n_missing": column["n_missing"].astype(np.int64),
        "prevalence": column["prevalence"],
        "flags": column["flags"].astype(np.int32),
    }


def _sizes_of(request: Request) -> dict[str, int]:
    return {_QUANTITY: len(request.estimators) + len(request.extras) + len(COLUMNS)}


def _rank_arrays(arrays: dict[str, Any], request: Request) -> Any:
    roles = tuple(arrays)
    if not any(isinstance(array, da.Array) for array in arrays.values()):
        return evaluate_rankings(*arrays.values(), roles=roles, request=request)
    lazy = [a if isinstance(a, da.Array) else da.from_array(a, chunks=-1) for a in arrays.values()]
    if any(role in ITEM_ROLES and has_chunked_items(array) for role, array in zip(roles, lazy, strict=True)):
        return evaluate_in_chunks(*lazy, roles=roles, request=request)
    signature = ",".join(f"({ITEM})" if role in ITEM_ROLES else "()" for role in roles) + f"->({_QUANTITY})"
    return da.apply_gufunc(
        evaluate_rankings,
        signature,
        *lazy,
        output_dtypes=np.float64,
        output_sizes=_sizes_of(request),
        roles=roles,
        request=request,
    )


def _intervals_labelled(
    estimates: xr.DataArray, n_positive: xr.DataArray, methods: tuple[str, ...], level: float
) -> xr.DataArray:
    bounds = xr.apply_ufunc(
        evaluate_intervals,
        estimates,
        n_positive,
        output_core_dims=[[METHOD, BOUND]],
        kwargs={"methods": methods, "level": level},
        dask="parallelized",
        output_dtypes=[np.float64],
        dask_gufunc_kwargs={"output_sizes": {METHOD: len(methods), BOUND: len(BOUNDS)}},
        keep_attrs=False,
    )
    return bounds.assign_coords(IntervalPlan(methods, level).labels())  # type: ignore[no-any-return]


def _strings(values: Sequence[str]) -> np.ndarray:
    return np.array(values, dtype=object)


def _refuse_known_missing(dataset: xr.Dataset, request: Request, path: str) -> None:
    counts = dataset.get("n_missing")
    if request.missing != "raise" or counts is None or not isinstance(counts.data, np.ndarray) or not counts.any():
        return
    if request.unjudged == "drop" or {"weight", "positive_weight"} & set(dataset.data_vars):
        return  # the counts include items that may be left out: the blocks will tell
    worst = counts.data.ravel().argsort(kind="stable")[::-1][:5]
    parts = []
    for flat in worst[counts.data.ravel()[worst] > 0]:
        index = np.unravel_index(flat, counts.shape)
        names = [
            f"{dim} {str(dataset.indexes[dim][i]) if dim in dataset.indexes else i!r}"
            for dim, i in zip(counts.dims, index, strict=True)
        ]
        parts.append(f"{', '.join(names)}: {int(counts.data[index])}")
    raise MissingScoresError(
        "missing scores (NaN)",
        where=(f"data set {path!r}, " if path else "") + "variable 'score'",
        received=f"NaN scores in {int((counts > 0).sum())} rankings, most in {'; '.join(parts)}",
        allowed="no NaN under missing='raise'",
        remedy="choose what a missing score means: missing='drop', 'last' or 'unretrieved' (--missing)",
    )


def _formula_methods(method: str | Sequence[str]) -> tuple[str, ...]:
    methods = interval_names(method)
    for name in methods:
        if not INTERVALS[name].is_formula:
            raise InvalidInputError(
                "this interval does not follow from the estimate and the positives alone",
                received=repr(name),
                allowed=", ".join(spec.name for spec in INTERVALS.values() if spec.is_formula),
                remedy=f"evaluate(scores, intervals={name!r}) computes it from the scores",
            )
    return methods
