"""Labelled evaluation: NumPy, Dask or xarray in, the same kind out; lazy on Dask.

Every call is prepared (:mod:`~aucpr_dask.evaluation.request`: all checks, one frozen record), mapped over its rankings
(:mod:`~aucpr_dask.evaluation.mapping`), whose blocks return all numbers
(:mod:`~aucpr_dask.evaluation.block_results`), and annotated (:mod:`~aucpr_dask.evaluation.results`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from aucpr_dask.errors import AucprError, InvalidInputError
from aucpr_dask.evaluation import block_results, results
from aucpr_dask.evaluation.alignment import (
    chunked_alike,
    columns_of,
    is_table,
    numeric,
    refuse_our_dimensions,
    with_named_axes,
)
from aucpr_dask.evaluation.arrays import keeps_trees, takes_arrays
from aucpr_dask.evaluation.groups import Groups, groups_of_arrays
from aucpr_dask.evaluation.mapping import Output, map_evaluation
from aucpr_dask.evaluation.rankings import estimates_of, evaluate_intervals, is_weighted
from aucpr_dask.evaluation.request import PreparedDataset, prepare, prepare_dataset, refuse_known_missing
from aucpr_dask.schema import checks, choices, terms
from aucpr_dask.schema.intervals import INTERVALS, interval_names
from aucpr_dask.schema.options import EvaluationOptions
from aucpr_dask.scores.chunks import empty_variable, item_chunk
from aucpr_dask.scores.copies import COPIES, warn_of_copies
from aucpr_dask.scores.validate import validated_nodes

SMALL, MOST_TOGETHER = 2**16, 1024  # bytes of scores of data sets that are evaluated together, and how many are
TOGETHER = "data sets together"  # a dimension that no data set has


def estimate(
    score: Any,
    label: Any,
    estimator: choices.SomeEstimator | Sequence[choices.SomeEstimator] = "average_precision",
    *,
    by: Any = None,
    weight: Any = None,
    positive_weight: Any = None,
    negative_weight: Any = None,
    n_positive: Any = None,
    tie_order: Any = None,
    prevalence: float | None = None,
    recall_range: tuple[float, float] = (0.0, 1.0),
    missing: choices.Missing | None = None,
    ties: choices.Ties | None = None,
    unjudged: choices.Unjudged | None = None,
    positive_from: int | None = None,
    nothing_ranked: choices.NothingRanked | None = None,
    no_positives: choices.NoPositives | None = None,
    convention: choices.Convention | None = None,
    dim: str | Sequence[str] = terms.ITEM,
) -> Any:
    """Estimate areas under precision-recall curves.

    Over the tie groups k, from the highest score, average precision is ``sum_k (R_k - R_{k-1}) P_k`` with precision
    ``P_k = TP_k / (TP_k + FP_k)`` and recall ``R_k = TP_k / n``.

    Parameters
    ----------
    score : array, shape (..., item)
        NumPy, Dask or xarray; float32 or float64 (integers are converted). Larger is more positive. Items of NumPy
        and Dask arrays are matched by position, also with those of pandas objects, whose indices must be equal.
        DataArrays are matched by name, and refused next to other arrays. Or a mapping of names to such arrays, or a
        table with a column for each model, and a row for each item.
    label : array, shape broadcastable to that of `score`
        1 positive, 0 negative, -1 unjudged, -2 padding; grades with `positive_from`. None with soft weights.
    estimator : str or sequence of str
        Names from the registry, some with a number: ``"precision_at_recall(0.8)"``. A sequence adds a last
        axis, or the dimension ``estimator``.
    weight : array, optional
        Sample weights, shaped like `label`. A weight below 1e-15 of the sum of its class, which float64 may lose, is
        refused, except by estimators that it cannot change: ``average_precision``, ``lower_trapezoid``,
        ``interpolated_convex``, ``continuous`` and ``roc_area``.
    positive_weight, negative_weight : array, optional
        Soft labels, in place of `label`: the weight of each item as a positive and as a negative.
    n_positive : array, optional, shape (...)
        All positives of each ranking, when some were never scored. With ``missing="drop"``, those that are dropped do
        not count.
    tie_order : array of int, optional, shaped like `label`
        Order within tied scores for ``ties="trec_eval"``, smallest first. An xarray with string labels on
        `dim` needs none: they are taken as document ids, in descending byte order.
    prevalence : float, optional
        Prevalence between 0 and 1 to compute precision at; that of the sample by default.
    recall_range : tuple of float
        Recalls between which to take the area; it is not divided by their difference.
    missing : {"raise", "drop", "last", "unretrieved"}
        Meaning of NaN scores: an error; no item for this model; tied below every score; never ranked, so that a
        positive is missed.
    ties : {"group", "trec_eval", "expectation"}
        Tied items share one threshold; or follow `tie_order`; or are in random order, in exact expectation.
    unjudged : {"negative", "drop"}
        Meaning of label -1.
    positive_from : int, optional
        The lowest grade that counts as positive, from 1.
    nothing_ranked : {"count", "drop"}
        A ranking without any score counts by the meaning of missing scores, which is 0 with ``"unretrieved"``; or has
        no area (NaN), so that means leave it out.
    no_positives : {"drop", "zero"}
        A ranking without positives has no area (NaN), so that means leave it out; or has area 0.
    convention : {"scikit-learn", "trec_eval"}, optional
        What the six options before mean where they are not given. ``"scikit-learn"`` is the default, the first value
        of each; ``"trec_eval"`` is ``missing="unretrieved", ties="trec_eval", positive_from=1, no_positives="zero"``,
        the numbers of ``trec_eval -c``. With ``nothing_ranked="drop"``, means are those of ``trec_eval`` without -c
        and of pytrec_eval.
    by : str, array, mapping or sequence, optional
        Evaluate within groups of items: see :func:`evaluate`. Arrays get an axis for each grouping array.
    dim : str or sequence of str
        The item dimension of xarray input, or several, such as ``["time", "lat"]``, whose items are ranked together;
        the last axis of others.

    Returns
    -------
    array of float64, shape (...) or (..., estimator)
        The same kind as `score`, of a mapping or a table a dictionary; NaN without positives, unless these count as 0.

    Raises
    ------
    InvalidInputError
        If an option, shape, type, label or weight is not allowed.
    MissingScoresError
        If a score is NaN under ``missing="raise"``.
    AlignmentError
        If inputs carry different labels, or only some of them do.
    ChunkError
        If the items of a Dask input are in several chunks, and a ranking has too many distinct scores of positives.

    References
    ----------
    Boyd, Eng & Page 2013, doi:10.1007/978-3-642-40994-3_29 (estimators). McSherry & Najork 2008,
    doi:10.1007/978-3-540-78646-7_38 (ties in expectation).

    Examples
    --------
    >>> import aucpr_dask as ap
    >>> ap.estimate([0.9, 0.8, 0.7, 0.6], [1, 0, 1, 0])
    0.8333333333333333
    >>> ap.estimate([[3, 2, 1], [1, 2, 3]], [1, 0, 0], ["average_precision", "lower_trapezoid"])
    array([[1.        , 1.        ],
           [0.33333333, 0.16666667]])
    """
    if isinstance(score, Mapping) or (is_table(score) and np.shape(label)[-1:] in ((), (len(score),))):
        score = score if isinstance(score, Mapping) else columns_of(score)
        others = {name: value for name, value in locals().items() if name not in ("score", "label", "estimator")}
        return {name: estimate(one, label, estimator, **others) for name, one in score.items()}
    groups = None if by is None else groups_of_arrays(score, label, by, dim)
    by = None if groups is None else list(groups.sizes)
    options = EvaluationOptions.among(locals())
    refuse_our_dimensions({"score": score, "label": label}, {terms.ESTIMATOR})
    prepared = prepare(locals(), options, dim)
    arrays, dim_of_items = prepared.arrays, prepared.dim
    sizes, kwargs = {terms.ESTIMATOR: len(options.estimators)}, {}
    if groups is not None:
        if dim_of_items in groups.sizes:  # such as seasons of the time
            own, dim_of_items = dim_of_items, f"{dim_of_items} of items"
            arrays = {role: a.rename({own: dim_of_items}) if own in a.dims else a for role, a in arrays.items()}
        arrays = groups.with_codes(arrays, dim_of_items, with_names=options.missing == "raise")
        sizes, kwargs = groups.sizes | sizes, groups.arguments("estimate")
    estimates = map_evaluation(estimates_of, arrays, [Output(sizes)], dim_of_items, options=options, **kwargs)
    if isinstance(score, xr.DataArray):
        estimates = estimates.rename("estimate").assign_coords({terms.ESTIMATOR: list(options.estimators)})
        attrs = {str(name): one.attrs for name, one in score.coords.items()}
        estimates = estimates if groups is None else estimates.assign_coords(groups.coordinates(attrs))
    chosen = prepared.unwrapped(estimates.isel({terms.ESTIMATOR: 0}) if isinstance(estimator, str) else estimates)
    return float(chosen) if isinstance(chosen, np.ndarray) and chosen.ndim == 0 else chosen


def interval(
    estimate: Any, n_positive: Any, method: choices.Interval | Sequence[choices.Interval] = "logit", level: float = 0.95
) -> Any:
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
        A sequence adds an axis before the last, or the dimension ``interval_method``.
    level : float
        Confidence level between 0 and 1.

    Returns
    -------
    array of float64, shape (..., 2)
        Lower and upper bound, on the last axis or the dimension ``ci_bound``; NaN where the area is.

    References
    ----------
    Boyd, Eng & Page 2013, doi:10.1007/978-3-642-40994-3_29.

    Examples
    --------
    >>> import aucpr_dask as ap
    >>> ap.interval(0.8, 50).round(4)
    array([0.6667, 0.8889])
    """
    methods = interval_names(method)
    for name in methods:
        if not INTERVALS[name].is_formula:
            what = "this interval does not follow from the estimate and the positives alone"
            allowed = ", ".join(spec.name for spec in INTERVALS.values() if spec.is_formula)
            remedy = f"evaluate(scores, interval={name!r}) computes it from the scores"
            raise InvalidInputError(what, None, repr(name), allowed, remedy)
    kwargs: dict[str, Any] = {"methods": methods, "level": checks.fraction(level, "level")}
    given = numeric(estimate=estimate, n_positive=n_positive)
    _refuse_labels(*given)
    arrays: dict[str, Any] = dict(zip(("estimate", "n_positive"), given, strict=True))
    axes: tuple[str, ...] = ()
    if is_labelled := any(isinstance(array, xr.DataArray) for array in given):
        refuse_our_dimensions(arrays, {terms.METHOD, terms.BOUND})
        arrays = {name: xr.DataArray(array) for name, array in arrays.items()}
    else:
        if arrays["n_positive"].size == 0 < arrays["estimate"].size:
            received, allowed = f"shape {arrays['n_positive'].shape}", "one number, or one for each estimate"
            remedy = "give the number of positives behind each estimate"
            raise InvalidInputError("n_positive is empty", "argument 'n_positive'", received, allowed, remedy)
        arrays, axes = with_named_axes(arrays, terms.ITEM)
    sizes = {terms.METHOD: len(methods), terms.BOUND: len(terms.BOUNDS)}
    bounds = xr.apply_ufunc(
        evaluate_intervals,
        *chunked_alike(arrays, "estimate").values(),
        output_core_dims=[list(sizes)],
        kwargs=kwargs,
        dask="parallelized",
        output_dtypes=[np.float64],
        dask_gufunc_kwargs={"output_sizes": sizes},
        keep_attrs=False,
    )
    if is_labelled:
        labels = {terms.METHOD: np.array(methods, object), terms.BOUND: np.array(terms.BOUNDS, object)}
        is_pressure = "level" in bounds.coords and (bounds["level"].ndim > 0 or not 0 < bounds["level"] < 1)
        bounds = bounds.assign_coords(labels | ({} if is_pressure else {"level": kwargs["level"]}))
    bounds = bounds.isel({terms.METHOD: 0}) if isinstance(method, str) else bounds
    return bounds if is_labelled else bounds.transpose(*axes, ...).data


def _refuse_labels(estimate: Any, n_positive: Any) -> None:
    """Raise if numbers of positives are labels: zeros and ones, and areas where there is no positive."""
    if not (isinstance(estimate, np.ndarray) and isinstance(n_positive, np.ndarray)) or n_positive.size < 2:
        return
    if np.isin(n_positive, (0, 1)).all() and np.any((n_positive == 0) & (np.nan_to_num(estimate) != 0)):
        what, allowed = "n_positive looks like labels, not like numbers of positives", "the positives behind each area"
        remedy = "ap.evaluate(scores, labels) has areas and intervals; or give the area and labels.sum()"
        raise InvalidInputError(what, "argument 'n_positive'", "zeros and ones", allowed, remedy)


@keeps_trees
@takes_arrays
def evaluate(
    scores: terms.Scores,
    label: choices.Labels | None = None,
    estimator: choices.SomeEstimator | Sequence[choices.SomeEstimator] = "average_precision",
    interval: choices.Interval | Sequence[choices.Interval] | None = None,
    *,
    dim: choices.Dims = terms.ITEM,
    by: Any = None,
    clusters: choices.Labels | str | None = None,
    weight: choices.Labels | str | None = None,
    pos_label: Any = None,
    level: float = 0.95,
    prevalence: float | None = None,
    recall_range: tuple[float, float] = (0.0, 1.0),
    missing: choices.Missing | None = None,
    ties: choices.Ties | None = None,
    unjudged: choices.Unjudged | None = None,
    positive_from: int | None = None,
    nothing_ranked: choices.NothingRanked | None = None,
    no_positives: choices.NoPositives | None = None,
    convention: choices.Convention | None = None,
    n_resamples: int = 1000,
    seed: int = 0,
    over: choices.Unit | None = None,
    keep_replicates: bool = False,
    prevalence_design: choices.PrevalenceDesign = "random",
    n_folds: int = 10,
) -> terms.Scores:
    """Evaluate every model of one data set, or of a tree of data sets.

    Resample r of a query depends only on ``(seed, data set, query, r)`` and is the same for all models, classes and
    labels of other dimensions. So models can be compared in pairs, and more resamples, other models, chunks or workers
    do not change existing numbers.

    Parameters
    ----------
    scores : xarray.Dataset, xarray.DataTree, xarray.DataArray, mapping, data frame or array
        Score data sets: ``score`` over (model, ..., item), ``label`` and, optionally, ``n_positive``, ``weight``,
        ``positive_weight`` and ``negative_weight``, ``tie_order``, ``cluster`` and ``fold``. One more dimension may be
        ``query``, ``class`` or ``repeat``; any other, such as a lead time or a latitude, stays in the result, with one
        answer for each label. Or scores alone: a DataArray, a mapping of names to DataArrays or to arrays (item) or
        (query, item), a table with a column for each model, or an array (item) or (model, item).
    label : array
        The labels of scores that are no data set: ``evaluate({"forest": a, "linear": b}, y)``. DataArrays are matched
        by name and label, pandas objects by their index, others by position.
    estimator : str or sequence of str
        Names from the registry. One that is given as text is a scalar coordinate of the result, a sequence is a
        dimension, as in indexing.
    interval : str or sequence of str, optional
        Names from the registry, likewise; by default ``"influence_beta"``; ``"influence_log_t"`` for gain_area,
        and ``"bootstrap"`` for estimators without an influence function. Where the data allow none of these, the
        interval is NaN, and the flag ``no_interval`` is set.
    level : float
        Confidence level of the intervals.
    dim : str or sequence of str
        The dimension of the items, or several, such as ``("time", "lat", "lon")``, whose items are ranked together.
    by : str, array, mapping or sequence, optional
        Evaluate every model within groups of items: by the name of a coordinate along some dimensions of theirs (or of
        a variable, such as ``"fold"``; or what xarray derives from one, such as ``"time.month"``), an array of labels,
        or several in a list; a mapping gives names to arrays, or groupers of xarray to coordinates, such as
        ``{"age": BinGrouper([0, 50, 100])}``. The result has one dimension of each name, in sorted order of the labels,
        or in that of ordered categories. Every group is evaluated as if it stood alone, as the data set of a tree that
        has its name (several names are joined by slashes); a group without items is NaN and flagged.
    clusters, weight : str or array, optional
        Items (or queries) that depend on each other carry the same value; and sample weights. A name of a coordinate, a
        DataArray over some of the dimensions of the scores, or an array with a value for each item; in place of the
        variables ``cluster`` and ``weight``.
    pos_label : object, optional
        The label of positives, where labels are names of classes, such as ``"malignant"``, or other numbers than 1 and
        0.
    prevalence, recall_range, missing, ties, unjudged, positive_from, nothing_ranked, no_positives, convention
        See :func:`estimate`.
    n_resamples : int
        Resamples of the intervals that need them.
    seed : int
        Seed of resamples and folds.
    over : {"items", "clusters"}
        Whether a resample draws items, positives and negatives separately, or whole groups of the variable ``cluster``.
    keep_replicates : bool
        Whether to return the estimate of every resample, ``replicate(..., estimator, resample)``.
    prevalence_design : {"fixed", "random"}
        Whether another sample would have the same numbers of positives and negatives. With soft labels,
        clusters or classes they are always random.
    n_folds : int
        Folds of the cross-validation intervals, unless the data set has a variable ``fold``.

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        A tree of a tree, otherwise a data set; lazy if the scores are Dask-backed. Variables
        ``estimate(..., estimator)``, ``standard_error(..., estimator)``,
        ``interval(..., estimator, interval_method, ci_bound)``, ``n_positive``, ``n_negative``, ``n_missing``,
        ``prevalence`` and ``flags``, with weights also ``n_effective``, with clusters ``n_positive_clusters``, where
        ... is model and all dimensions of the scores but those of the items.
        A single estimator or interval is a scalar coordinate in place of a dimension.

    Raises
    ------
    InvalidInputError, MissingScoresError, AlignmentError, ChunkError
        See :func:`estimate`. Missing scores are reported by model and query; of lazy scores, when they are computed.

    Examples
    --------
    >>> import numpy as np, xarray as xr, aucpr_dask as ap
    >>> label = np.arange(500) % 10 == 0
    >>> score = np.random.default_rng(0).normal(size=(2, 500)) + np.outer([1.0, 2.0], label)
    >>> variables = {"score": (("model", "item"), score), "label": ("item", label)}
    >>> result = ap.evaluate(xr.Dataset(variables, {"model": ["old", "new"]}))
    >>> result["estimate"].values.round(3), result["interval"].sel(model="new").values.round(3)
    (array([0.252, 0.694]), array([0.543, 0.801]))
    """
    options = EvaluationOptions.among(locals())
    return results.that_know(evaluate_scores(scores, options), scores, options.by or ())


def evaluate_scores(scores: terms.Scores, options: EvaluationOptions) -> terms.Scores:
    """Evaluate one data set, or a tree of data sets; all are checked before the first is evaluated."""
    nodes = dict(validated_nodes(scores, positive_from=options.positive_from))
    names = [name for name, _ in options.by or ()]
    if any(name in node and terms.REPEAT in node[name].dims for node in nodes.values() for name in names):
        return terms.gathered(scores, {path: _in_each_repeat(path, node, options) for path, node in nodes.items()})
    # Dask makes no graph of arrays without elements.
    given = {
        path: one if one.variables["score"].size else one.compute() for path, one in with_copies(nodes, options).items()
    }
    prepared = {path: prepare_dataset(dataset, path, options) for path, dataset in given.items()}
    found = evaluate_together(prepared)
    return terms.gathered(scores, {path: results.annotate(found[path], prepared[path], given[path]) for path in given})


def with_copies(nodes: Mapping[str, xr.Dataset], options: EvaluationOptions) -> dict[str, xr.Dataset]:
    """Warn of items that look like copies, if there are to be intervals; their data sets say how many there are."""
    found = warn_of_copies(nodes, options.resampling.over) if options.resampling.intervals else {}
    return {path: node.assign_attrs({COPIES: found[path]}) if path in found else node for path, node in nodes.items()}


def _in_each_repeat(path: str, dataset: xr.Dataset, options: EvaluationOptions) -> xr.Dataset:
    """Evaluate groups that differ between repeats, such as folds: each repeat on its own."""
    each = [dataset.isel({terms.REPEAT: [repeat]}) for repeat in range(dataset.sizes[terms.REPEAT])]
    found = [evaluate_dataset(one.squeeze(terms.REPEAT), path, options) for one in each]
    return xr.concat(found, terms.REPEAT, join="outer", combine_attrs="override")


def evaluate_dataset(dataset: xr.Dataset, path: str, options: EvaluationOptions) -> xr.Dataset:
    """Evaluate one validated data set; `path` is the name by which its resamples are drawn."""
    prepared = prepare_dataset(dataset, path, options)
    return results.annotate(evaluate_variables(prepared), prepared, dataset)


def describe_scores(scores: terms.SomeScores, options: EvaluationOptions) -> terms.SomeScores:
    """Return the result of :func:`evaluate_scores` without its values, after every check that needs no scores."""
    known: dict[Any, xr.Dataset] = {}  # a tree may hold thousands of data sets of one form

    def described(path: str, dataset: xr.Dataset) -> xr.Dataset:
        refuse_known_missing(dataset, options, path)
        form = results.form_of(dataset, options)
        if form is None or form not in known:
            prepared = prepare_dataset(dataset, path, options)
            lead = {dim: size for dim, size in prepared.arrays["score"].sizes.items() if dim != terms.ITEM}
            # Without values: to make their graphs takes longer.
            empty = {
                name: empty_variable({**lead, **sizes}, kind) for name, (sizes, kind) in outputs_of(prepared).items()
            }
            known[form] = results.annotate(empty, prepared, dataset)
        return known[form]

    nodes = with_copies(dict(validated_nodes(scores, positive_from=options.positive_from)), options)
    return terms.gathered(scores, {path: described(path, dataset) for path, dataset in nodes.items()})


def evaluate_part(
    dataset: xr.Dataset, path: str, options: EvaluationOptions, groups: Groups | None = None
) -> dict[str, xr.Variable]:
    """Read and evaluate a part of an open store, chunk by chunk if its items are stored in several chunks."""
    chunk = item_chunk(dataset)
    if chunk is None or options.by:
        return evaluate_variables(prepare_dataset(dataset.load(), path, options, groups=groups))
    import dask

    variables = evaluate_variables(prepare_dataset(dataset.chunk({terms.ITEM: chunk}), path, options))
    return dask.compute(variables, scheduler="synchronous")[0]  # type: ignore[no-any-return]


def evaluate_parts(
    parts: Mapping[Any, tuple[xr.Dataset, str, Groups | None]], options: EvaluationOptions
) -> dict[Any, dict[str, xr.Variable]]:
    """Read and evaluate parts of several data sets, each as :func:`evaluate_part` does."""
    are_whole = {key: item_chunk(dataset) is None and not options.by for key, (dataset, _, _) in parts.items()}
    prepared = {
        key: prepare_dataset(dataset.load(), path, options)
        for key, (dataset, path, _) in parts.items()
        if are_whole[key]
    }
    found = evaluate_together(prepared)
    return {
        key: found[key] if key in found else evaluate_part(one, path, options, groups)
        for key, (one, path, groups) in parts.items()
    }


def outputs_of(prepared: PreparedDataset) -> dict[str, Output]:
    """Return the variables of the result of a data set: their dimensions, next to those of rankings, and types."""
    options, resampling = prepared.options, prepared.options.resampling
    sizes = {
        terms.ESTIMATOR: len(options.estimators),
        terms.METHOD: len(resampling.intervals),
        terms.BOUND: len(terms.BOUNDS),
    }
    sizes |= {terms.RESAMPLE: resampling.n_resamples}
    dtypes: dict[str, Any] = {"n_missing": np.int64, "flags": np.int32}
    is_there = {"replicate": resampling.keep_replicates, "extrapolated": "extrapolated" in resampling.intervals}
    is_there |= {"n_positive_clusters": resampling.over == "clusters"}
    is_there |= {"n_effective": is_weighted(prepared.arrays)}
    sizes = {dim: size for dim, size in sizes.items() if dim not in options.single}
    of_groups = prepared.groups.sizes if prepared.groups else {}
    return {
        name: Output(
            of_groups | {dim: sizes[dim] for dim in spec.dims[0] if dim in sizes}, dtypes.get(name, np.float64)
        )
        for name, spec in terms.RESULT_VARIABLES.items()
        if is_there.get(name, True)
    }


def evaluate_variables(prepared: PreparedDataset) -> dict[str, xr.Variable]:
    """Evaluate the rankings of a data set, lazily if they are lazy."""
    outputs, sampling = outputs_of(prepared), prepared.sampling
    kwargs: dict[str, Any] = {"options": prepared.options, "sampling": sampling, "facts": prepared.facts}
    kwargs["is_fixed"] = sampling.is_stratified
    if prepared.groups is not None:
        kwargs |= prepared.groups.arguments(*outputs)
    arrays = map_evaluation(block_results.results_of, prepared.arrays, list(outputs.values()), **kwargs)
    found = dict(zip(outputs, arrays, strict=True))
    return _with_copies_flagged(found, prepared)


def _with_copies_flagged(variables: dict[str, xr.Variable], prepared: PreparedDataset) -> dict[str, xr.Variable]:
    if not prepared.has_copies:
        return variables
    return variables | {"flags": variables["flags"] | np.int32(terms.FLAG_BITS["repeated_items"])}


def evaluate_together(prepared: Mapping[Any, PreparedDataset]) -> dict[Any, dict[str, xr.Variable]]:
    """Evaluate data sets: small ones that are alike as groups of the items of one, which gives the same numbers.

    A call takes milliseconds, whatever the number of items.
    """
    alike: dict[Any, list[Any]] = {}
    for key, one in prepared.items():
        alike.setdefault(_form_if_small(one) or key, []).append(key)
    found: dict[Any, dict[str, xr.Variable]] = {}
    for keys in alike.values():
        for start in range(0, len(keys), MOST_TOGETHER):
            several = {key: prepared[key] for key in keys[start : start + MOST_TOGETHER]}
            with suppress(AucprError):  # it names the data set if each stands alone
                found |= _evaluate_as_groups(several) if len(several) > 1 else {}
    return {key: found[key] if key in found else evaluate_variables(one) for key, one in prepared.items()}


def _form_if_small(prepared: PreparedDataset) -> Any:
    """Return what data sets have in common that can be evaluated together; None if nothing is saved by it."""
    arrays, score = prepared.arrays, prepared.arrays["score"]
    if arrays.keys() - {"score", "label", *terms.RANKING_DIMS} or not 0 < score.nbytes <= SMALL:
        return None
    if not all(isinstance(one.data, np.ndarray) for one in arrays.values()):
        return None
    forms = (
        (role, one.dims, one.dtype.str, one.isel({terms.ITEM: 0}, missing_dims="ignore").shape)
        for role, one in arrays.items()
    )
    return (*forms, prepared.options, prepared.sampling)


def _evaluate_as_groups(prepared: Mapping[Any, PreparedDataset]) -> dict[Any, dict[str, xr.Variable]]:
    """Evaluate data sets of one form as groups of the items of one."""
    first, *_ = several = list(prepared.values())
    lengths = [one.arrays["score"].sizes[terms.ITEM] for one in several]
    groups = Groups({TOGETHER: pd.RangeIndex(len(several))}, np.repeat(np.arange(len(several)), lengths))
    joined = {
        role: xr.Variable.concat([one.arrays[role] for one in several], terms.ITEM)
        if terms.ITEM in array.dims
        else array
        for role, array in first.arrays.items()
    }
    arrays = groups.with_codes(joined, terms.ITEM, with_names=False)
    whole = evaluate_variables(replace(first, arrays=arrays, groups=groups, has_copies=False))
    return {
        key: _with_copies_flagged({name: one[{TOGETHER: place}] for name, one in whole.items()}, prepared[key])
        for place, key in enumerate(prepared)
    }
