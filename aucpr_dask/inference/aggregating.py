"""Means of estimates over queries or data sets, with intervals that record what was sampled."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.evaluation.api import evaluate, interval
from aucpr_dask.evaluation.results import provenance
from aucpr_dask.inference.classes import (
    N_CLASSES,
    evaluate_means,
    evaluate_pairs,
    items_as_queries,
    mean_over_classes,
    means_over_classes,
    pooled_items,
    refuse_classes_as_units,
    refuse_classes_for_queries,
    refuse_unknown_average,
    require_errors,
    require_scores,
)
from aucpr_dask.inference.designs import (
    BOTH,
    ITEM_RESAMPLES,
    ITEMS,
    POWERED,
    UNIT_RESAMPLES,
    UNITS,
    WITH_MACHINE,
    Design,
    describe,
    refuse_dependent_queries,
    refuse_unknown_options,
    require_replicates,
    settle,
)
from aucpr_dask.inference.families import Floats
from aucpr_dask.inference.machine_labels import (
    machine_nodes,
    of_machine,
    refuse_other_samples,
    summarize_with_machine,
)
from aucpr_dask.inference.measures import unit_names
from aucpr_dask.inference.questions import are_scores, refuse_what_values_lack, require_results
from aucpr_dask.inference.samples import (
    DATASET,
    REPLICATE,
    complete_units,
    draw_units_and_items,
    error_of_mean,
    labels_of,
    means_of_replicates,
    means_under,
    multiplicities,
    stack_data_sets,
    summarize,
)
from aucpr_dask.schema.estimators import WITH_INFLUENCE, estimator_names
from aucpr_dask.schema.intervals import INTERVALS
from aucpr_dask.schema.options import AggregationOptions, EvaluationOptions
from aucpr_dask.schema.trees import Scores, map_nodes, nodes_of
from aucpr_dask.schema.variables import BOUND, BOUNDS, CLASS, ESTIMATOR, ITEM, METHOD, MODEL, QUANTITY, QUERY, RESAMPLE

METHODS = {UNITS: ("t", "bootstrap"), ITEMS: ("normal", "bootstrap", "logit"), BOTH: ("bootstrap",)}
COUNTS = {QUERY: "n_queries", DATASET: "n_datasets"}
COUNTS_BY_MACHINE = {QUERY: "n_machine_queries", DATASET: "n_machine_datasets"}


def aggregate(
    data: Scores,
    *,
    over: str = QUERY,
    how: str = "macro",
    average: str | None = None,
    sample: str | None = None,
    method: str | None = None,
    level: float = 0.95,
    n_resamples: int | None = None,
    seed: int = 0,
    incomplete: str | None = None,
    machine: Scores | None = None,
    **options: Any,
) -> Scores:
    """Average the estimates of each model over its queries, over data sets or over classes, with an interval.

    By default queries are the sample and the interval is ``mean -+ t sd / sqrt(q)`` with Student's t of q - 1 degrees
    of freedom, over the q queries whose estimate is not NaN: it is about other queries like these. The
    spread of the queries already includes the noise of their items.

    Classes are never a sample: they are fixed, and their estimates rest on the same items. The interval of a mean over
    classes is about other items, and keeps the dependence between classes.

    Parameters
    ----------
    data : xarray.Dataset or xarray.DataTree
        What :func:`aucpr_dask.evaluate` or :func:`aucpr_dask.from_values` returns; or score data sets, which are
        evaluated first. ``how="micro"`` needs scores.
    over : {"query", "dataset", "class"}
        What to average over: queries, within each data set; the data sets of a tree, in which models are matched by
        label (queries or classes are averaged first); or the classes of each data set. A data set without queries keeps
        its first interval if that has this `level`; at another level a formula is computed again, and any other
        interval is NaN.
    how : {"macro", "micro"}
        Mean of the units' estimates; or the estimate of one ranking of all queries' items together, which needs
        scores that can be compared between queries.
    average : {"macro", "weighted", "micro", "samples"}, optional
        How classes are averaged, as in scikit-learn: alike (the default); weighted by their positives in the data set;
        or, from scores, all pairs of an item and a class in one ranking; or the mean over the items of the area of the
        classes that each ranks.
    sample : {"units", "items", "both"}, optional
        What was sampled: units (the default), as above; the items of each unit, with the units fixed, by their
        standard errors or replicates; or both, nested, which counts the noise of items twice and is conservative.
    method : str, optional
        For units ``"t"`` (default) or ``"bootstrap"`` (percentile); for items ``"normal"`` (default: from the
        standard errors, whose squares add up) or ``"bootstrap"`` (from the replicates); for both ``"bootstrap"``.
        Over classes the standard error is that of the mean, by the influence of each item on it or by its replicates;
        the default there is ``"logit"``, normal on the scale of the logit, which stays between 0 and 1.
        NaN where the standard error of a unit is unknown, or one of its resamples has no estimate.
    level : float
        Confidence level of the interval.
    n_resamples, seed
        Of the bootstrap over units, 10,000 resamples by default, or over the items of scores, 1,000 by default; for
        the items of a result, those it keeps.
    incomplete : {"raise", "drop", "drop_models"}, optional
        What to do if only some models lack a unit: an error that names them (the default over data sets and
        classes), leave out the unit for all models, or leave out these models (their means are NaN). By default over
        queries, each model is averaged over those it has, which `n_queries` counts.
    machine : xarray.Dataset or xarray.DataTree, optional
        The same models evaluated with labels of a machine, such as a language model, on more queries: all those of
        `data`, which people labelled, and others. With y a model's estimates by people's labels and f those by the
        machine's, the mean is *prediction-powered*, ``mean(y) - tuning (mean(f) here - mean(f) on the other queries)``:
        about people's labels, however the machine errs, if people labelled a random part of the queries. Each model's
        tuning is the best one, so with many queries the interval is never wider than from people's labels alone. The
        method is ``"prediction_powered"``, Student's t with n - 2 degrees of freedom, of n queries that people
        labelled. The estimates are computed at once.
    **options
        Options of :func:`aucpr_dask.evaluate`, if `data` are scores.

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        ``estimate(model, estimator)``, ``standard_error(model, estimator)``, ``n_queries(model, estimator)`` (over data
        sets ``n_datasets``, over classes ``n_classes`` or ``n_items``) and ``interval(model, estimator, ci_bound)``.
        With machine labels also ``n_machine_queries``, ``tuning`` and ``width_ratio``, the width of the interval
        relative to that from people's labels alone. The attribute ``design`` describes what was resampled and what is
        fixed. With ``"micro"``, what :func:`aucpr_dask.evaluate` returns.

    Raises
    ------
    InvalidInputError
        If an option is not allowed, or the result lacks what the method needs.
    AlignmentError
        If models lack data sets, or have no labels to match them by; or if the machine's lack some of people's.

    References
    ----------
    Angelopoulos, Bates, Fannjiang, Jordan & Zrnic 2023, doi:10.1126/science.adi6000 (prediction-powered inference).
    Angelopoulos, Duchi & Zrnic 2023, arXiv:2311.01453 (the tuning).

    Examples
    --------
    >>> result = xr.Dataset(
    ...     {"estimate": (("model", "query", "estimator"), [[[0.2], [0.4], [0.6]]])},
    ...     coords={"model": ["bm25"], "estimator": ["average_precision"]},
    ... )
    >>> mean = aggregate(result)
    >>> mean["estimate"].values.round(4), mean["interval"].values.round(4)
    (array([[0.4]]), array([[[-0.0968,  0.8968]]]))
    >>> mean.attrs["design"]
    'sample: queries with an estimate (up to 3), each with its items; fixed: the model'

    A machine labelled 200 queries, and people 30 of them:

    >>> rng = np.random.default_rng(0)
    >>> by_machine = rng.beta(2, 3, size=200)
    >>> by_people = 0.8 * by_machine[:30] + 0.1 + rng.normal(scale=0.05, size=30)
    >>> people, machine = (
    ...     xr.Dataset(
    ...         {"estimate": (("model", "query", "estimator"), areas[None, :, None])},
    ...         coords={"model": ["bm25"], "query": np.arange(areas.size), "estimator": ["average_precision"]},
    ...     )
    ...     for areas in (by_people, by_machine)
    ... )
    >>> mean = aggregate(people, machine=machine)
    >>> mean["interval"].values.round(3), mean["width_ratio"].values.round(2)
    (array([[[0.408, 0.459]]]), array([[0.44]]))
    """
    refuse_unknown_options(options, AggregationOptions)
    ask = AggregationOptions(
        over=over,
        how=how,
        average=average,
        sample=sample,
        method=method,
        level=level,
        n_resamples=n_resamples,
        seed=seed,
        incomplete=incomplete,
    ).checked()
    refuse_unknown_average(ask)
    refuse_classes_as_units(data, ask)
    refuse_what_values_lack(data, ask)
    if machine is not None:
        refuse_other_samples(ask)
    if how == "micro" and machine is not None:
        raise InvalidInputError(
            "machine labels help in means over queries, and how='micro' pools all queries into one ranking",
            where="argument 'machine'",
            received="machine=..., how='micro'",
            allowed="how='macro'",
            remedy="give how='macro', or leave out machine",
        )
    if over == CLASS and machine is not None:
        raise InvalidInputError(
            "machine labels help in means over queries or data sets, not over classes",
            where="argument 'machine'",
            received="machine=..., over='class'",
            allowed="over='query' or 'dataset'",
            remedy="leave it out",
        )
    if over == CLASS:
        return _over_classes(data, ask, options)
    if how == "micro":
        return _micro(data, over, level, {"n_resamples": n_resamples or ITEM_RESAMPLES, "seed": seed} | options)
    averaged = _with_units(data, ask, options)
    machines = {}
    if machine is not None:
        with of_machine():
            machines = machine_nodes(averaged, _with_units(machine, ask, options), over)
    if over == DATASET:
        return _mean(averaged, DATASET, ask, machines.get(""))

    def mean_of_node(path: str, node: xr.Dataset) -> xr.Dataset:
        refuse_classes_for_queries(node, path)
        if QUERY not in node["estimate"].dims:
            return _as_it_is(node, ask) if sample is None else _mean(node, None, ask)
        return _mean(node, QUERY, ask, machines.get(path))

    return map_nodes(averaged, mean_of_node)


def _with_units(data: Scores, ask: AggregationOptions, options: dict[str, Any]) -> Any:
    """Return results with the units to average over: scores evaluated, data sets stacked, incomplete units hidden."""
    if are_scores(data, options):
        data = _evaluated(data, ask.over, ask, options)
    require_results(data)
    incomplete = ask.incomplete or "raise"
    if ask.over == DATASET:
        stacked = stack_data_sets(means_over_classes(data, incomplete), incomplete)
        return complete_units(stacked, DATASET, incomplete)

    def complete(path: str, node: xr.Dataset) -> xr.Dataset:
        return complete_units(node, QUERY, incomplete, path) if QUERY in node["estimate"].dims else node

    return data if ask.incomplete is None else map_nodes(data, complete)


def _over_classes(data: Scores, ask: AggregationOptions, options: dict[str, Any]) -> Scores:
    """Average over classes: their estimates and replicates; or rank all together, or the classes of each item."""
    average = ask.average or "macro"
    is_scores = are_scores(data, options)
    if average in ("micro", "samples"):
        require_scores(data, average)
    if average == "micro":
        resampling = {"n_resamples": ask.n_resamples or ITEM_RESAMPLES, "seed": ask.seed}
        return evaluate_pairs(data, ask.level, resampling | options)
    if average == "samples":
        return _mean_over_items(data, ask, options)
    if is_scores:
        means = evaluate_means(data, ask, options)
    else:
        require_results(data)
        incomplete = ask.incomplete or "raise"
        means = map_nodes(data, lambda path, node: mean_over_classes(node, average, incomplete, path))

    def mean_of_node(path: str, node: xr.Dataset) -> xr.Dataset:
        require_errors(node, path)
        facts = {"over": CLASS, "average": average, N_CLASSES: node.attrs[N_CLASSES]}
        mean = _mean(node, None, replace(ask, sample=ITEMS, method=ask.method or "logit"))
        return mean.assign({N_CLASSES: node[N_CLASSES]}).assign_attrs(facts)

    return map_nodes(means, mean_of_node)


def _mean_over_items(scores: Scores, ask: AggregationOptions, options: dict[str, Any]) -> Scores:
    """Return the mean over the items of the area of the classes that each ranks: the items are the units."""
    n_classes = {path: node.sizes[CLASS] for path, node in nodes_of(scores)}
    evaluated = evaluate(items_as_queries(scores, options), **({"intervals": ()} | options))

    def mean_of_node(path: str, node: xr.Dataset) -> xr.Dataset:
        mean = _mean(node, QUERY, replace(ask, sample=None)).rename({COUNTS[QUERY]: "n_items"})
        kind, design = (text.replace("queries", "items") for text in (mean["interval"].ci_kind, mean.design))
        mean["interval"].attrs["ci_kind"] = kind
        design = (
            f"{design.replace(', each with its items', '')}, the {n_classes[path]:,} classes, which each item ranks"
        )
        facts = {"over": CLASS, "average": "samples", N_CLASSES: n_classes[path], "sample": ITEMS}
        return mean.assign_attrs(facts | {"design": design})

    return map_nodes(evaluated, mean_of_node)


def _evaluated(scores: Scores, over: str, ask: AggregationOptions, options: dict[str, Any]) -> Scores:
    """Evaluate scores, with replicates of the items if the mean needs them."""
    needs: dict[str, Any] = {"level": ask.level}
    if ask.sample in (ITEMS, BOTH):
        names = estimator_names(options.get("estimators", "average_precision"))
        if ask.sample == BOTH or ask.method == "bootstrap" or not set(names) <= set(WITH_INFLUENCE):
            n_resamples = ask.n_resamples or ITEM_RESAMPLES
            needs |= {"keep_replicates": True, "n_resamples": n_resamples, "seed": ask.seed}
    if over == QUERY and ask.sample != ITEMS:
        for path, node in nodes_of(scores):
            refuse_dependent_queries(node, path)
    return evaluate(scores, **(needs | options))


def _as_it_is(result: xr.Dataset, ask: AggregationOptions) -> xr.Dataset:
    """Return the estimates of a data set without queries, with its first interval."""
    estimates = result.drop_vars("level", errors="ignore")  # that of the result's interval
    kept = {"estimate": estimates["estimate"], "n_queries": estimates["estimate"].notnull().astype("int64")}
    if "standard_error" in estimates:
        kept["standard_error"] = estimates["standard_error"]
    name = str(result[METHOD].values[0]) if METHOD in result.coords and result.sizes[METHOD] else None
    how = "no interval"
    if name is not None:
        bounds, how = _interval_at(result, name, ask.level)
        kept["interval"] = bounds.assign_coords({"level": ask.level})
        kept["interval"].attrs = result["interval"].attrs | {"ci_prob": ask.level}
    n_models = result.sizes.get(MODEL, 1)
    models = f"the {n_models:,} models" if n_models != 1 else "the model"
    aggregated = xr.Dataset(kept).drop_vars(METHOD, errors="ignore")
    sentence = f"sample: the items of one ranking, no queries to average over; {how}; fixed: {models}"
    return aggregated.assign_attrs(_attributes(result, sentence, ask, {"sample": ITEMS, "method": name}))


def _interval_at(result: xr.Dataset, name: str, level: float) -> tuple[xr.DataArray, str]:
    """Return a result's first interval at a level, and how: unchanged, recomputed by its formula, or NaN."""
    first = result["interval"].isel({METHOD: 0}, drop=True)
    has = float(first["level"]) if "level" in first.coords else result.attrs.get("level")
    if has == level:
        return first, f"interval of the result: {name}"
    if name in INTERVALS and INTERVALS[name].is_formula and "n_positive" in result:
        bounds: xr.DataArray = interval(result["estimate"], result["n_positive"], name, level)
        return bounds.drop_vars(METHOD, errors="ignore"), f"interval by its formula: {name}"
    return first.where(False), f"no interval at level {level:g}: {name} of the result has level {has}, evaluate again"


def _attributes(result: xr.Dataset, sentence: str, ask: AggregationOptions, facts: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes that record how a mean was computed."""
    estimators = [str(name) for name in result[ESTIMATOR].values] if ESTIMATOR in result.dims else None
    return {"design": sentence} | provenance(result, {"estimators": estimators}, facts, {"level": ask.level})


def _mean(
    result: xr.Dataset, dim: str | None, ask: AggregationOptions, machine: xr.Dataset | None = None
) -> xr.Dataset:
    method = ask.method
    if ask.sample == ITEMS and method is None:
        method = "normal" if "standard_error" in result else "bootstrap"
    design = settle(dim, ask.sample, method, methods=METHODS if machine is None else WITH_MACHINE)
    estimate = result["estimate"].drop_vars("level", errors="ignore")  # that of the intervals of single rankings
    known = estimate.notnull()
    mean, n_units = estimate, known.astype("int64")
    with_machine: dict[str, xr.DataArray] = {}
    if machine is not None and dim is not None:
        powered = summarize_with_machine(result, machine, dim, ask.level, ask.incomplete)
        mean, error, n_units = powered["mean"], powered["error"], powered["n_people"]
        with_machine = {COUNTS_BY_MACHINE[dim]: powered["n_machine"]}
        with_machine |= {name: powered[name] for name in ("tuning", "width_ratio")}
    elif dim is not None:
        summary = summarize(estimate, dim, tuple(str(label) for label in labels_of(estimate, dim)))
        mean, error, n_units = (summary.isel(quantity=i) for i in range(3))
        n_units = n_units.astype("int64")
    n_resamples = 0
    if with_machine:
        bounds = _bounds(mean - powered["reach"], mean + powered["reach"])
    elif design.method == "t":
        degrees = (n_units - 1).where(n_units > 1)
        quantile = xr.apply_ufunc(
            stdtrit, degrees, 0.5 + ask.level / 2, dask="parallelized", output_dtypes=[np.float64]
        )
        bounds = _bounds(mean - quantile * error, mean + quantile * error)
    elif design.method in ("normal", "logit"):
        error = _error_of_items(result, known, dim)
        reach = ndtri(0.5 + ask.level / 2) * error
        bounds = _bounds(mean - reach, mean + reach)
        if design.method == "logit":
            bounds = on_logit_scale(bounds, mean)
    else:
        n_resamples = ask.n_resamples or UNIT_RESAMPLES
        if design.sample != UNITS:
            require_replicates(result, f"sample={design.sample!r}")
            n_resamples = result.sizes[RESAMPLE]
        error, bounds = _bootstrap(result, dim, design, ask, n_resamples)
    bounds = bounds.assign_coords({BOUND: np.array(BOUNDS, dtype=object), "level": ask.level})
    bounds.attrs = {"ci_kind": _kind(design, result.attrs), "ci_prob": ask.level}
    aggregated = xr.Dataset({"estimate": mean, "standard_error": error, "interval": bounds})
    if dim is not None:
        aggregated[COUNTS[dim]] = n_units
        aggregated = aggregated.assign(with_machine)
    n_models = result.sizes.get(MODEL, 1)
    n_largest = 1 if dim is None else result.sizes[dim]
    n_machine = 0 if machine is None else machine.sizes[dim]
    sentence = describe(
        design, n_models, n_largest, n_resamples, result.attrs, has_gaps=dim is not None, n_machine=n_machine
    )
    if design.sample != UNITS:
        unknown = "a resample has no estimate" if n_resamples else "a standard error is not known"
        sentence += f"; NaN where {unknown}"
    facts: dict[str, Any] = {"over": dim, "sample": design.sample, "method": design.method}
    if n_resamples:
        facts |= {"n_resamples": n_resamples, "seed": result.attrs.get("seed") if design.sample == ITEMS else ask.seed}
    return aggregated.assign_attrs(_attributes(result, sentence, ask, facts))


def on_logit_scale(bounds: xr.DataArray, mean: xr.DataArray) -> xr.DataArray:
    """Return bounds that lie as many standard errors from the mean, by the delta method, in the logit; 0 and 1 stay."""
    is_inside = (mean > 0) & (mean < 1)
    inside = mean.where(is_inside, 0.5)
    logit = np.log(inside / (1 - inside)) + (bounds - inside) / (inside * (1 - inside))
    moved: xr.DataArray = (1 / (1 + np.exp(-logit))).where(is_inside, bounds)
    return moved


def _bounds(lower: xr.DataArray, upper: xr.DataArray) -> xr.DataArray:
    return xr.concat([lower, upper], dim=BOUND).transpose(..., BOUND)


def _kind(design: Design, attrs: dict[Any, Any]) -> str:
    """Name the interval of a mean."""
    sampled = {ITEMS: "items", BOTH: "units and items"}.get(design.sample) or unit_names(str(design.dim), attrs)[1]
    how = {
        "t": "Student t",
        POWERED: "Student t, prediction-powered,",
        "normal": "normal",
        "logit": "logit",
        "bootstrap": "percentile bootstrap",
    }[design.method]
    return f"{how} over {sampled}"


def _error_of_items(result: xr.Dataset, known: xr.DataArray, dim: str | None) -> xr.DataArray:
    if "standard_error" not in result:
        raise InvalidInputError(
            "method='normal' and method='logit' need the standard errors of the items",
            where="argument 'method'",
            received="a result without the variable 'standard_error'",
            allowed="a result with standard errors, or scores",
            remedy="evaluate(scores, ..., intervals='influence'), or another interval that has them",
        )
    error = result["standard_error"].drop_vars("level", errors="ignore")
    return error if dim is None else error_of_mean(error, known, dim)


def _bootstrap(
    result: xr.Dataset, dim: str | None, design: Design, ask: AggregationOptions, n_resamples: int
) -> tuple[xr.DataArray, xr.DataArray]:
    """Return the standard deviation and the percentiles of the mean's replicates."""
    variable = result["estimate"] if design.sample == UNITS else result[REPLICATE]
    variable = variable.drop_vars("level", errors="ignore")
    core = [RESAMPLE] if design.sample != UNITS else []
    core = core if dim is None else [dim, *core]
    names = () if dim is None else tuple(str(label) for label in labels_of(variable, dim))
    quantities = xr.apply_ufunc(
        summarize_replicates,
        variable,
        input_core_dims=[core],
        output_core_dims=[[QUANTITY]],
        kwargs={
            "names": names,
            "draws": design.sample != ITEMS,
            "has_replicates": design.sample != UNITS,
            "n_resamples": n_resamples,
            "seed": ask.seed,
            "level": ask.level,
        },
        dask="parallelized",
        output_dtypes=[np.float64],
        dask_gufunc_kwargs={"output_sizes": {QUANTITY: 3}, "allow_rechunk": True},
        keep_attrs=False,
    )
    error = quantities.isel({QUANTITY: 0})
    return error, quantities.isel({QUANTITY: slice(1, 3)}).rename({QUANTITY: BOUND})


def summarize_replicates(
    values: NDArray[Any],
    *,
    names: tuple[str, ...],
    draws: bool,
    has_replicates: bool,
    n_resamples: int,
    seed: int,
    level: float,
) -> Floats:
    """Return standard deviation and percentile bounds of each row's mean over units.

    A generalized function: ``(unit) -> (quantity)``, with replicates ``([unit,] resample) -> (quantity)``. Units that
    are NaN in a row are left out of its mean and of its draws, which follow the order of the units' names.
    """
    shape = values.shape[: values.ndim - has_replicates - bool(names)]
    names = names or ("",)
    resamples = values.shape[-1:] if has_replicates else ()
    rows = values.reshape(math.prod(shape), len(names), *resamples)
    order = sorted(range(len(names)), key=names.__getitem__)
    known = ~np.isnan(rows[..., 0] if has_replicates else rows)
    summary = np.full((len(rows), 3), np.nan)
    for pattern in np.unique(known, axis=0):
        units = [unit for unit in order if pattern[unit]]
        if len(units) <= draws:  # one unit says nothing about others
            continue
        alike = np.flatnonzero((known == pattern).all(axis=1))
        of_units = rows[alike][:, units]
        kept = [names[unit] for unit in units]
        if has_replicates:
            drawn = draw_units_and_items(kept, n_resamples, seed) if draws else None
            replicates = means_of_replicates(of_units, drawn)
        else:
            replicates = means_under(multiplicities(kept, n_resamples, seed), of_units)
        bounds = np.quantile(replicates, [0.5 - level / 2, 0.5 + level / 2], axis=1)
        summary[alike] = np.column_stack([replicates.std(axis=1, ddof=1), *bounds])
    return summary.reshape(*shape, 3)


def _micro(data: Scores, over: str, level: float, options: dict[str, Any]) -> Scores:
    if over != QUERY:
        raise InvalidInputError(
            "scores of different data sets cannot share one ranking",
            where="argument 'over'",
            received=f"how='micro', over={over!r}",
            allowed="over='query'",
            remedy="pool the queries of each data set (over='query'), or average over the data sets (how='macro')",
        )
    if not all("score" in node for _, node in nodes_of(data)):
        raise InvalidInputError(
            "a pooled ranking of all queries needs their scores",
            received="a result, which holds one estimate for each query",
            remedy="aggregate(scores, how='micro', ...), with scores that can be compared between queries",
        )
    if EvaluationOptions.of(**options).ties == "trec_eval":
        raise InvalidInputError(
            "ties='trec_eval' orders the documents of one query, and how='micro' ranks those of all queries together",
            where="option 'ties'",
            received="how='micro', ties='trec_eval'",
            allowed="ties='block' or 'expectation'",
            remedy="give ties='block', or how='macro'",
        )
    if options.get("unit") == "clusters":
        for path, node in nodes_of(data):
            refuse_dependent_queries(node, path)
    for path, node in nodes_of(data):
        refuse_classes_for_queries(node, path)
    n_queries = {path: node.sizes.get(QUERY) for path, node in nodes_of(data)}
    evaluated = evaluate(map_nodes(data, lambda path, node: pool_queries(node)), level=level, **options)

    def describe_node(path: str, node: xr.Dataset) -> xr.Dataset:
        return node.assign_attrs({"design": _design_of_one_ranking(n_queries[path], node.attrs, options)})

    return map_nodes(evaluated, describe_node)


def _design_of_one_ranking(n_queries: int | None, attrs: dict[Any, Any], options: dict[str, Any]) -> str:
    """Describe what was resampled, if anything, and what is fixed."""
    clusters = "clusters" if n_queries is None else "queries"
    sampled = f"the {clusters}, each with its items" if options.get("unit") == "clusters" else "the items"
    how = f"sample: {sampled}, nothing resampled"
    if "resampled" in attrs:
        how = f"resampled: {sampled}, {attrs['n_resamples']:,} times"
    fixed = []
    if sampled == "the items":
        fixed += ["these queries"] if n_queries is not None else []
        by_class = "resampled" in attrs and attrs.get("prevalence_design") == "fixed"
        fixed += ["the numbers of positives and negatives"] if by_class else []
    whole = "one ranking of the items" + (f" of {n_queries:,} queries" if n_queries is not None else "")
    return f"{whole}; {how}; fixed: {', '.join(['the models', *fixed])}"


def pool_queries(scores: xr.Dataset) -> xr.Dataset:
    """Return the items of all queries as one query, each in the cluster of its query."""
    if QUERY not in scores["score"].dims:
        return scores
    pooled = pooled_items(scores, QUERY)
    if "n_positive" in scores:
        total = scores["n_positive"]
        pooled["n_positive"] = total.sum(QUERY) if QUERY in total.dims else total * scores.sizes[QUERY]
    of_query = np.repeat(np.array([str(query) for query in labels_of(scores["score"], QUERY)]), scores.sizes[ITEM])
    return pooled.assign(cluster=(ITEM, of_query))
