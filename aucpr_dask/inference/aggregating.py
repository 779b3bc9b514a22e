"""Means of estimates over queries, data sets or classes, with intervals that record what was sampled."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Unpack

import numpy as np
import scipy
import xarray as xr
from numpy.typing import NDArray

from aucpr_dask.errors import InvalidInputError, clash, naming
from aucpr_dask.evaluation.api import evaluate, interval
from aucpr_dask.evaluation.arrays import takes_arrays
from aucpr_dask.evaluation.groups import along_queries
from aucpr_dask.evaluation.results import counted_positives, group_dims, laid_out, provenance
from aucpr_dask.inference import averages, designs, grouped, machine_labels, questions, requirements, samples, units
from aucpr_dask.inference.averages import N_CLASSES
from aucpr_dask.inference.covarying import OF_REPEAT
from aucpr_dask.inference.pairs import ROUND_OFF
from aucpr_dask.schema import checks, choices, intervals, terms
from aucpr_dask.schema.estimators import WITH_INFLUENCE, estimator_names
from aucpr_dask.schema.options import AVERAGES, AggregationOptions, EvaluationOptions
from aucpr_dask.scores.validate import validated_scores, where_of

RELIABLE_UNITS = 8  # from which on intervals of means hold in most worlds
SKEWED = 8.0  # times the squared skewness must there be units, where their values vary less than a proportion's
SCORE = "score"
CENTRED = "; centred without the bias of average precision, known in {} of 10 positives or more"
BIASED = "; not corrected for the bias of average precision, which is too high where positives are few"
FEW = "so few, or so skewed, that intervals may miss"
FEWEST_UNITS = 3  # of two, Student's interval is 9 times as wide as they are apart, and so mostly outside 0 to 1
SKEWNESS_UNSEEN = 1.5  # times the skewness that a few clusters show, which is too small
METHODS = {
    designs.UNITS: (SCORE, "t", "bootstrap"),
    designs.ITEMS: ("normal", "bootstrap", "logit"),
    designs.BOTH: ("bootstrap",),
}
KINDS = {
    SCORE: "score interval with a design effect",
    "t": "Student t",
    designs.POWERED: "Student t, prediction-powered,",
    "bootstrap": "percentile bootstrap",
}
COUNTS_BY_MACHINE = {terms.QUERY: "n_machine_queries", samples.DATASET: "n_machine_datasets"}


@takes_arrays
def aggregate(
    data: terms.Scores,
    *,
    over: choices.Dims | None = None,
    how: choices.How = "macro",
    average: choices.Average | None = None,
    method: choices.MethodOfMeans | None = None,
    level: float = 0.95,
    n_resamples: int | None = None,
    seed: int = 0,
    incomplete: choices.Incomplete | None = None,
    auxiliary: terms.Scores | None = None,
    **options: Unpack[choices.EvaluatingAll],
) -> terms.Scores:
    """Average the estimates of each model over queries, data sets or classes.

    By default queries are the sample, and the interval is about other queries like these: the q whose estimate is not
    NaN. The spread of the queries already includes the noise of their items. Estimates that lie between 0 and 1 by
    their measure have a score interval: the means m for which ``|mean - m| = t sqrt(r m (1 - m) / q)``, with the
    variance r of the estimates relative to that of a proportion, at most 1.2, and Student's t of q - 1 degrees of
    freedom. It stays inside 0 and 1 and has a width, also where all queries are alike. Others have ``mean -+ t sd /
    sqrt(q)``. Of queries in clusters, the standard error is the jackknife's, q the effective number of clusters, and
    the interval reaches further on the side to which their sums are skewed. The flag ``few_units`` says where units are
    few, or few for values so skewed.

    Means over data sets, over groups of items, and over fixed queries are about true areas, which average precision
    exceeds where positives are few. So their intervals are centred at the mean of Haldane's areas, and extended to the
    estimate, if the scores are given or known to the result. The flag ``few_positives`` says where the bias is not
    known: if a tenth of the units have fewer than 10 positives, or units are more than twice their mean number of
    positives; without scores or by replicates, if they are more than a twentieth of it.

    Classes are never a sample: they are fixed, and their estimates rest on the same items. The interval of a mean over
    classes is about other items, and keeps the dependence between classes.

    Repeats of a cross-validation are no sample either. The interval of their mean counts ``items_error`` and, unless
    ``over="items"``, ``training_error``: the standard deviation between R repeats of k folds times
    ``sqrt(1 / R + k - 1)``.

    Parameters
    ----------
    data : xarray.Dataset or xarray.DataTree
        What :func:`aucpr_dask.evaluate` or :func:`aucpr_dask.from_values` returns; or score data sets, which are
        evaluated first. ``how="micro"`` needs scores.
    over : str or sequence of str, optional
        What the mean varies over, as in :func:`compare`: by default the queries of each data set (or its classes, which
        are fixed: items vary); the name of groups of items, or of another dimension; ``"dataset"``, the data sets of a
        tree, in which models are matched by label (queries or classes are averaged first); ``"items"``, with the
        queries fixed, by their standard errors or replicates; ``("query", "items")``, both, which counts the noise of
        items twice and is conservative. A data set without queries keeps its first interval if that has this `level`;
        at another level a formula is computed again, and any other interval is NaN.
    how : {"macro", "micro"}
        Mean of the units' estimates; or the estimate of one ranking of all queries' items together, which needs
        scores that can be compared between queries.
    average : {"macro", "weighted", "micro", "samples"}, optional
        How classes are averaged, as in scikit-learn: alike (the default); weighted by their positives in the data set;
        or, from scores, all pairs of an item and a class in one ranking; or the mean over the items of the area of the
        classes that each ranks.
    method : str, optional
        For units ``"score"`` (default of values between 0 and 1), ``"t"`` (of others) or ``"bootstrap"`` (percentile);
        for items ``"normal"`` (default: from the standard errors, whose squares add up) or ``"bootstrap"`` (from the
        replicates); for both ``"bootstrap"``.
        Over classes the standard error is that of the mean, by the influence of each item on it or by its replicates;
        the default there is ``"logit"``, normal on the scale of the logit, which stays between 0 and 1. The intervals
        of areas of scores are centred at the mean of Haldane's areas, because the bias of average precision is the same
        in every class; they are extended to the estimate, and take Student's t of n - 1 degrees of freedom, with the
        mean number n of positives.
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
    auxiliary : xarray.Dataset or xarray.DataTree, optional
        The same models evaluated with labels of a machine, on these queries and on others that people did not label.
        With y a model's estimates by people's labels and f the machine's, the mean is *prediction-powered*, ``mean(y) -
        tuning (mean(f) here - mean(f) on the other queries)``: about people's labels, however the machine errs, if
        people labelled a random part of the queries. The tuning is the best one; the interval is Student's t with n - 2
        degrees of freedom, of n queries that people labelled, and of values that are 0 or 1 a score interval whose
        variance reckons with errors of the machine that so few queries need not show.
    **options
        Options of :func:`aucpr_dask.evaluate`, if `data` are scores. ``by`` may also name a coordinate along the
        queries, of scores or of a result, whose groups are averaged alone.

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
    AlignmentError
        If models lack data sets, or have no labels to match them by; or if the machine's lack some of people's.

    References
    ----------
    Angelopoulos, Bates, Fannjiang, Jordan & Zrnic 2023, doi:10.1126/science.adi6000 (prediction-powered inference).
    Angelopoulos, Duchi & Zrnic 2023, arXiv:2311.01453 (the tuning).

    Examples
    --------
    >>> import xarray as xr, aucpr_dask as ap
    >>> areas = [[0.2, 0.4, 0.6, 0.3, 0.5, 0.4, 0.3, 0.5], [0.2, 0.5, 0.5, 0.3, 0.6, 0.5, 0.3, 0.5]]
    >>> mean = ap.aggregate(xr.Dataset({"estimate": (("model", "query"), areas)}, coords={"model": ["bm25", "neural"]}))
    >>> mean["estimate"].values.round(3), mean["interval"].sel(model="bm25").values.round(3)
    (array([0.4  , 0.425]), array([0.298, 0.512]))
    >>> mean.attrs["design"]
    'sample: queries with an estimate (up to 8), each with its items; fixed: the 2 models'
    """
    given = {name: value for name, value in locals().items() if name not in ("data", "options")}
    nodes = [node for _, node in terms.nodes_of(data)] if isinstance(data, xr.Dataset | xr.DataTree) else []
    if nodes and all("score" in node and not {terms.MODEL} & {*node.sizes} for node in nodes):  # of one model
        named = terms.map_nodes(data, lambda _, node: node.assign(score=node["score"].expand_dims(terms.MODEL)))
        of_one: terms.Scores = aggregate(named, **given, **options)
        return terms.map_nodes(of_one, lambda _, node: node.isel({terms.MODEL: 0}, drop=True))
    question = AggregationOptions.among(locals())
    if how == "macro":
        question = questions.without_usual_units(question, nodes)
        if not question.dims and nodes and all(map(requirements.has_classes, nodes)):
            question = replace(question, over=(terms.CLASS, *question.names) if question.names else terms.CLASS)
    _refuse_clashes(question, nodes, has_machine=auxiliary is not None)
    if any(along_queries(node, options.get("by"))[0] for node in nodes):
        if auxiliary is not None and question.dim == samples.DATASET:
            given = {"auxiliary": type(auxiliary).__name__, "over": over}
            raise clash("groups of data sets are averaged without a machine", "leave out by, or it", None, **given)
        alone: Any = {"over": over, "how": how, "average": average, "method": method, "n_resamples": n_resamples}
        alone |= {"level": level, "seed": seed, "incomplete": incomplete} | options
        by = alone.pop("by")
        machine_of = grouped.parts_of_machine(auxiliary, by)

        def asked(tree: xr.DataTree, joint: float) -> Any:
            return aggregate(tree, auxiliary=machine_of(tree), **alone)

        return grouped.answered_by_groups(data, by, asked, question)
    reading: dict[str, Any] = {**options}
    if any(questions.is_drawn_otherwise(node, question) for node in nodes) and not options:
        if (known := questions.scores_behind(data)) is None:
            questions.refuse_drawn_otherwise(data, question)
        else:
            data, reading = known
    reading |= question.unit if nodes and requirements.are_scores(data, {}) else {}
    if how == "micro":
        return _one_ranking_of_queries(data, question, reading)
    if question.dim == terms.CLASS:
        return _over_classes(data, question, reading)
    results = _with_units(data, question, reading, is_centred=auxiliary is None)
    machines: dict[str, xr.Dataset] = {}
    if auxiliary is not None:
        with naming("evaluation", "machine"):
            by_machine = _with_units(auxiliary, question, reading, is_centred=False)
            machines = machine_labels.machine_nodes(results, by_machine, question.dim)
    if question.dim == samples.DATASET:
        return _mean(results, samples.DATASET, question, machines.get(""))

    def mean_of_node(path: str, node: xr.Dataset) -> xr.Dataset:
        requirements.refuse_classes_for_units(path, node, question.over or question.dim)
        if terms.REPEAT in node["estimate"].dims:
            return _over_repeats(node, question)
        if question.dim not in node["estimate"].dims:
            return _as_it_is(node, question) if question.sample is None else _mean(node, None, question)
        if machines or (question.method == "bootstrap" and question.sample != designs.ITEMS):
            requirements.refuse_dependent_queries(path, node)
        return _mean(node, question.dim, question, machines.get(path))

    means: terms.Scores = terms.map_nodes(results, mean_of_node)
    return means


def _refuse_clashes(question: AggregationOptions, nodes: Sequence[xr.Dataset], *, has_machine: bool) -> None:
    """Raise if options have no meaning together, or there are no such units."""
    over, how, average = question.dim, question.how, question.average
    names = {terms.QUERY, samples.DATASET, terms.CLASS}
    if question.dims and names.isdisjoint(question.dims):
        kept = [{*grouped.dims_of_family(node, ()), *samples.along_items(node, question.dims)} for node in nodes]
        others = sorted(set.intersection(*kept)) if kept else []
        if over not in others:
            what = f"there are no units called {over!r} to average over"
            allowed = ", ".join(map(repr, ("query", samples.DATASET, terms.CLASS, *others, designs.ITEMS)))
            remedy = "choose one of these, or a coordinate along the items"
            raise InvalidInputError(what, "argument 'over'", repr(question.over), allowed, remedy)
    if average is not None and over != terms.CLASS:
        remedy = "for queries, how='micro' pools the items of all queries"
        raise clash("average is a choice for classes", remedy, "over='class'", average=average, over=over)
    if over == terms.CLASS and how != "macro":
        remedy = "average='micro' ranks all pairs of an item and a class together"
        allowed = "average=" + ", ".join(map(repr, AVERAGES))
        raise clash("how is a choice for queries", remedy, allowed, how=how, over=over)
    if how == "micro" and over != terms.QUERY:
        remedy = "pool the queries of each data set (over='query'), or average over the data sets (how='macro')"
        what = "scores of different data sets cannot share one ranking"
        raise clash(what, remedy, "over='query'", how=how, over=over)
    if has_machine:
        machine_labels.refuse_other_samples(question)
        where, received = "argument 'auxiliary'", f"auxiliary=..., how={how!r}, over={over!r}"
        if how == "micro":
            what = "machine labels help in means over queries, and how='micro' pools all queries into one ranking"
            raise InvalidInputError(what, where, received, "how='macro'", "give how='macro', or leave out auxiliary")
        if over == terms.CLASS:
            what = "machine labels help in means over queries or data sets, not over classes"
            raise InvalidInputError(what, where, received, "over='query' or 'dataset'", "leave it out")


def _with_units(data: terms.Scores, question: AggregationOptions, options: dict[str, Any], *, is_centred: bool) -> Any:
    """Return results with the units to average over, and the areas without bias around which their means lie."""
    is_scores = requirements.check(data, question, options)
    by_replicates = question.sample == designs.BOTH or question.method == "bootstrap"
    if by_replicates and question.sample in (designs.ITEMS, designs.BOTH) and not is_scores:
        has_replicates = all(samples.REPLICATE in node for _, node in terms.nodes_of(data))
        if not has_replicates and (known := questions.scores_behind(data)) is not None:
            (data, options), is_scores = known, True
    results = _units(data, question, options, is_scores=is_scores)
    are_biased = (_are_biased(node, question.dim, question.sample) for _, node in terms.nodes_of(results))
    if not is_centred or by_replicates or not all(are_biased):
        return results
    scores, reading = data, options
    if not is_scores:
        if (known := questions.scores_behind(data)) is None:
            return results
        scores, reading = known
    others = {name: value for name, value in reading.items() if name not in averages.OF_RESAMPLES}
    unbiased = dict(terms.nodes_of(_units(scores, question, others | {"estimator": "haldane"}, is_scores=True)))

    def centred(path: str, node: xr.Dataset) -> xr.Dataset:
        own = unbiased[path].drop_vars(terms.ESTIMATOR)
        is_biased = node[terms.ESTIMATOR].isin(list(averages.BIASED)) if terms.ESTIMATOR in node.coords else True
        named = {"estimate": "centre", "standard_error": "centre_error"}
        kept = {name: new for name, new in named.items() if name in own and name in node}
        found = {new: xr.where(is_biased, own[name], node[name]) for name, new in kept.items()}
        return node.assign({new: one.transpose(*node["estimate"].dims) for new, one in found.items()})

    return terms.map_nodes(results, centred)


def _units(data: terms.Scores, question: AggregationOptions, options: dict[str, Any], *, is_scores: bool) -> Any:
    """Return results with the units to average over: scores evaluated, data sets stacked, incomplete units hidden."""
    if is_scores:
        names = estimator_names(options.get("estimator", "average_precision"))
        by_replicates = question.method == "bootstrap" or not set(names) <= set(WITH_INFLUENCE)
        if question.sample == designs.BOTH or (question.sample == designs.ITEMS and by_replicates):
            options = {"keep_replicates": True} | _resampling(question) | options
        options = {"level": question.level} | options
        if vary := samples.along_items(data, question.dims):
            options["by"] = list(dict([*((name, None) for name in vary), *(options.get("by") or ())]).items())
        data = evaluate(data, **options)
    incomplete = question.incomplete or "raise"
    if question.dim == samples.DATASET:
        data = averages.means_over_classes(data, incomplete)
        data = terms.map_nodes(data, lambda _, node: averages.without_repeats(node))
        stacked = samples.stack_data_sets(data, incomplete)
        return samples.complete_units(stacked, samples.DATASET, incomplete)

    def complete(path: str, node: xr.Dataset) -> xr.Dataset:
        if question.dim != terms.QUERY:
            node = samples.mean_over_queries(node, path, incomplete)
        has_units = question.dim in node["estimate"].dims
        return samples.complete_units(node, question.dim, incomplete, path) if has_units else node

    is_strict = question.incomplete is not None or question.dim != terms.QUERY
    return terms.map_nodes(data, complete) if is_strict else data


def _are_biased(result: xr.Dataset, dim: str, sample: str | None) -> bool:
    """Whether units have areas that few positives inflate. Those of queries that vary are values: there is no other."""
    is_value = dim == terms.QUERY and sample != designs.ITEMS
    if is_value or counted_positives(result) not in result or dim not in result["estimate"].dims:
        return False
    return not averages.CENTRED.isdisjoint(designs.estimators_of(result))


def _resampling(question: AggregationOptions) -> dict[str, Any]:
    return {"n_resamples": question.n_resamples or designs.ITEM_RESAMPLES, "seed": question.seed}


# --- the mean of one sample ----------------------------------------------------------------------------------------


def count_of(dim: str | None) -> str:
    """Return the variable that counts the units of a mean."""
    return f"n_{terms.plural(str(dim))}"


class _Mean(NamedTuple):
    """A mean of each model and estimator, and what goes with it."""

    estimate: xr.DataArray
    error: xr.DataArray
    bounds: xr.DataArray
    counts: dict[str, xr.DataArray]
    n_resamples: int = 0


def _mean(
    result: xr.Dataset, dim: str | None, question: AggregationOptions, machine: xr.Dataset | None = None
) -> xr.Dataset:
    """Return the mean over the units of one result, or without units its estimates, with the interval asked for."""
    result = result.drop_vars(terms.OF_INTERVALS, errors="ignore")  # of single rankings
    method = question.method
    if question.sample == designs.ITEMS and method is None:
        method = "normal" if "standard_error" in result else "bootstrap"
    methods = METHODS if machine is None else designs.WITH_MACHINE
    sampling = designs.settle(dim, question.sample, method, methods=methods)
    on_unit_scale = designs.are_on_unit_scale(result)
    if sampling.method == SCORE and not np.any(on_unit_scale):
        if method is not None:
            what, remedy = "a score interval is for values from 0 to 1 by their measure", "method='t'"
            raise InvalidInputError(what, "argument 'method'", f"method={method!r}", "'t', 'bootstrap'", remedy)
        sampling = replace(sampling, method="t")
    if machine is not None and dim is not None:
        mean = _powered(result, machine, dim, question, on_unit_scale)
    elif sampling.method == "bootstrap":
        mean = _by_resamples(result, dim, sampling, question)
    elif sampling.method in (SCORE, "t"):
        mean = _by_spread(result, str(dim), question.level, on_unit_scale if sampling.method == SCORE else False)
    else:
        mean = _by_errors(result, dim, sampling.method, question.level)
    bounds = _with_a_width(mean, dim, on_unit_scale, question.level)
    bounds = bounds.assign_coords({terms.BOUND: np.array(terms.BOUNDS, dtype=object), "level": question.level})
    drawn = {designs.ITEMS: "items", designs.BOTH: "units and items"}
    kind, over = KINDS.get(sampling.method, sampling.method), designs.unit_names(str(dim), result.attrs)[1]
    bounds.attrs = {"ci_kind": f"{kind} over {drawn.get(sampling.sample, over)}", "ci_prob": question.level}
    flags = mean.counts.get("flags")
    is_biased = dim is not None and machine is None and _are_biased(result, dim, sampling.sample)
    if is_biased:  # which means have a bias that is not known
        known, is_centred = result["estimate"].notnull(), "centre" in result
        rare = averages.few_positives(result[counted_positives(result)], known, str(dim), is_centred=is_centred)
        own = 0 if flags is None else flags
        mean.counts["flags"] = (own | rare).astype(np.int32).assign_attrs(terms.flag_attributes())
    variables = {"estimate": mean.estimate, "standard_error": mean.error, "interval": bounds} | mean.counts
    n_models, n_largest = result.sizes.get(terms.MODEL, 1), 1 if dim is None else result.sizes[dim]
    n_machine = 0 if machine is None else machine.sizes[dim]
    sizes = n_models, n_largest, mean.n_resamples
    are_few = flags is not None and n_largest < RELIABLE_UNITS
    if flags is not None and flags.chunks is None:  # of lazy units, only the number is known
        are_few = are_few or bool((flags & terms.FLAG_BITS["few_units"]).any())
    told: dict[str, Any] = {"has_gaps": dim is not None, "condition": FEW if are_few else None}
    sentence = designs.describe(sampling, *sizes, result.attrs, n_machine=n_machine, **told)
    if is_biased:
        sentence += CENTRED.format(designs.unit_names(str(dim), result.attrs)[1]) if "centre" in result else BIASED
    if sampling.method in (SCORE, "t", designs.POWERED) and n_largest < FEWEST_UNITS:
        sentence += f"; no interval from fewer than {FEWEST_UNITS}"
    if dim == terms.QUERY and sampling.method in (SCORE, "t") and samples.are_in_clusters(result):
        clusters = terms.clusters_in_words(result.attrs)
        sentence += f"; in {np.unique(result['cluster'].values).size:,} {clusters}, each drawn with all its queries"
    if sampling.sample != designs.UNITS:
        unknown = "a resample has no estimate" if mean.n_resamples else "a standard error is not known"
        sentence += f"; NaN where {unknown}"
    facts: dict[str, Any] = {"over": sampling.over(result.attrs), "method": sampling.method}
    if groups := [name for name in group_dims(result) if name != dim]:
        facts["by"] = ", ".join(groups)
    if mean.n_resamples:
        seed = result.attrs.get("seed") if sampling.sample == designs.ITEMS else question.seed
        facts |= {"n_resamples": mean.n_resamples, "seed": seed}
    return xr.Dataset(variables).assign_attrs(_attributes(result, sentence, question, facts))


def _with_a_width(mean: _Mean, dim: str | None, on_unit_scale: Any, level: float) -> xr.DataArray:
    """Return bounds inside [0, 1], if the measure is, and with a width: that of a proportion, if nothing varies."""
    bounds = mean.bounds
    lower, upper = (bounds.isel({terms.BOUND: place}, drop=True) for place in range(2))
    n = mean.counts.get(count_of(dim), 0 * mean.estimate + 1)
    has_none = (upper - lower <= ROUND_OFF) & bounds.notnull().all(terms.BOUND)
    quantile = _student((n - 1).where(n > 1), level)
    widened = _score(mean.estimate, 0 * mean.estimate, n, quantile)
    inside = bounds.clip(0, 1).where(~has_none, widened)
    found: xr.DataArray = xr.where(on_unit_scale, inside, bounds.where(~has_none)).transpose(*bounds.dims)
    return found


def _student(degrees: xr.DataArray, level: float) -> xr.DataArray:
    """Return Student's quantile; NaN without degrees of freedom."""
    found: xr.DataArray = xr.apply_ufunc(
        scipy.special.stdtrit, degrees, 0.5 + level / 2, dask="parallelized", output_dtypes=[np.float64]
    )
    return found


def _score(mean: xr.DataArray, error: xr.DataArray, n: xr.DataArray, quantile: xr.DataArray) -> xr.DataArray:
    """Return the bounds of a score interval."""
    from aucpr_dask.kernels.intervals import score_bounds

    return samples.applied(score_bounds, mean, error, n, quantile, over=(), sizes={terms.BOUND: 2})


def _known_mean(result: xr.Dataset, dim: str | None) -> tuple[xr.DataArray, xr.DataArray, dict[str, xr.DataArray]]:
    """Return the mean over the units with an estimate, its standard error by their spread, and their number."""
    estimate = result["estimate"]
    if dim is None:
        return estimate, estimate.where(False), {}
    summary = samples.summarize(estimate, dim)
    mean, error, n_units = (summary.isel({terms.QUANTITY: place}) for place in range(3))
    return mean, error, {count_of(dim): n_units.astype("int64")}


def _by_spread(result: xr.Dataset, dim: str, level: float, on_unit_scale: Any) -> _Mean:
    """Return the mean with Student's t, or the score interval of values in [0, 1]."""
    estimate, standard_error, counts = _known_mean(result, dim)
    values = result.get("centre", result["estimate"])
    summary = samples.summarize(values, dim)
    mean, error, skewness = (summary.isel({terms.QUANTITY: place}) for place in (0, 1, 3))
    drawn = counts[count_of(dim)]
    degrees, longer = drawn - 1.0, 0 * mean
    if samples.are_in_clusters(result):  # the jackknife, and the effective number of clusters: large ones decide
        of_clusters = samples.summarize_clusters(values, mean, dim, result["cluster"])
        degrees, drawn, squares, cubes = (of_clusters.isel({terms.QUANTITY: place}) for place in range(4))
        error = (squares * (drawn - 1) / drawn) ** 0.5
        n, of_sums = degrees + 1, (cubes / squares**1.5).fillna(0)
        skewness, longer = of_sums * drawn**0.5, SKEWNESS_UNSEEN * of_sums * (n * degrees) ** 0.5 / (n - 2).clip(0.1)
    n = degrees + 1
    degrees = degrees.where(drawn >= FEWEST_UNITS)
    quantile = _student(degrees, level)
    longer = (longer * (2 * quantile**2 + 1) / 6).clip(-quantile, quantile) * error  # Hall's first term, on one side
    bounds = _bounds(mean, quantile * error, longer)
    if np.any(on_unit_scale):
        score = _score(mean, error, n, quantile)
        is_lower = xr.DataArray([True, False], dims=terms.BOUND)
        wider = xr.where(is_lower, np.minimum(score, bounds.clip(0, 1)), np.maximum(score, bounds.clip(0, 1)))
        bounds = xr.where(on_unit_scale, xr.where(longer != 0, wider, score), bounds).transpose(*score.dims)
    # A proportion is as skewed as the score interval reckons; what varies less may be more skewed than it shows.
    of_proportion = (mean * (1 - mean)).clip(min=0)
    share = (n * error**2 / of_proportion.where(of_proportion > 0)).fillna(1).clip(max=1)
    is_skewed = n < SKEWED * skewness**2 * (1 - xr.where(on_unit_scale, share, 0))
    flags = terms.FLAG_BITS["few_units"] * ((n < RELIABLE_UNITS) | is_skewed)
    flags = flags.where(mean.notnull(), 0).astype(np.int32).assign_attrs(terms.flag_attributes())
    if "centre" in result:
        bounds = _extended(bounds, estimate)
    else:
        standard_error = error
    return _Mean(estimate, standard_error, bounds, counts | {"flags": flags})


def _powered(
    result: xr.Dataset, machine: xr.Dataset, dim: str, question: AggregationOptions, on_unit_scale: Any
) -> _Mean:
    """Return the mean with the help of machine labels: with Student's t, or the score interval of zeros and ones."""
    found = machine_labels.summarize_with_machine(result, machine, dim, question.level, question.incomplete)
    n = found["n_people"]

    def bounds_of(alone: str) -> xr.DataArray:
        mean, error, quantile = (found[f"{name}{alone}"] for name in ("mean", "error", "quantile"))
        quantile = quantile.where(n >= FEWEST_UNITS)
        bounds = _bounds(mean, quantile * error)
        score = _score(mean.clip(0, 1), error, n, quantile)
        is_rate = on_unit_scale & (found["of_outcomes"] > 0)
        chosen: xr.DataArray = xr.where(is_rate, score, bounds).transpose(*bounds.dims)
        return chosen

    bounds, alone = bounds_of(""), bounds_of("_alone")
    widths = [ends.isel({terms.BOUND: 1}) - ends.isel({terms.BOUND: 0}) for ends in (bounds, alone)]
    counts = {count_of(dim): n, COUNTS_BY_MACHINE[dim]: found["n_machine"], "tuning": found["tuning"]}
    counts["width_ratio"] = (widths[0] / widths[1].where(widths[1] > 0)).fillna(1.0)
    return _Mean(found["mean"], found["error"], bounds, counts)


def _by_errors(result: xr.Dataset, dim: str | None, method: str, level: float) -> _Mean:
    """Return the mean with a normal interval, on the scale of areas or of logits, from the items' standard errors."""
    mean, _, counts = _known_mean(result, dim)
    if "standard_error" not in result:
        what = "method='normal' and method='logit' need the standard errors of the items"
        received, allowed = "a result without the variable 'standard_error'", "a result with standard errors, or scores"
        remedy = "evaluate(scores, ..., interval='influence'), or another interval that has them"
        raise InvalidInputError(what, "argument 'method'", received, allowed, remedy)
    known = result["estimate"].notnull()
    of_means = {name: result[name] for name in ("standard_error", "centre_error", "centre") if name in result}
    if dim is not None:
        of_means = {
            name: samples.mean_of_known(one, dim) if name == "centre" else samples.error_of_mean(one, known, dim)
            for name, one in of_means.items()
        }
    error, centre = of_means["standard_error"], of_means.get("centre", mean)
    quantile: Any = scipy.special.ndtri(0.5 + level / 2)
    if "centre" in result:  # errors are estimated from few positives
        n_positive = result[counted_positives(result)]
        n_positive = n_positive if dim is None else n_positive.where(known).mean(dim)
        quantile = _student((n_positive - 1).where(n_positive > 1), level)
    reach = quantile * np.maximum(error, of_means.get("centre_error", error))
    bounds = _bounds(centre, reach)
    if method == "logit":  # as many standard errors from the centre in the logit, by the delta method; 0 and 1 stay
        is_inside = (centre > 0) & (centre < 1)
        inside = centre.where(is_inside, 0.5)
        logit = np.log(inside / (1 - inside)) + (bounds - inside) / (inside * (1 - inside))
        bounds = (1 / (1 + np.exp(-logit))).where(is_inside, bounds)
    return _Mean(mean, error, _extended(bounds, mean), counts)


def _bounds(mean: xr.DataArray, reach: xr.DataArray, longer: Any = 0.0) -> xr.DataArray:
    """Return bounds that reach as far down as up; and further on one side, if that is `longer`: down, if negative."""
    lower, upper = mean - (reach - np.minimum(longer, 0.0)), mean + (reach + np.maximum(longer, 0.0))
    bounds: xr.DataArray = xr.concat([lower, upper], dim=terms.BOUND).transpose(..., terms.BOUND)
    return bounds


def _extended(bounds: xr.DataArray, mean: xr.DataArray) -> xr.DataArray:
    """Return bounds that hold the mean."""
    is_lower = xr.DataArray([True, False], dims=terms.BOUND)
    found: xr.DataArray = xr.where(is_lower, np.minimum(bounds, mean), np.maximum(bounds, mean))
    return found.transpose(*bounds.dims)


def _by_resamples(
    result: xr.Dataset, dim: str | None, sampling: designs.Sampling, question: AggregationOptions
) -> _Mean:
    """Return the mean with the standard deviation and the percentiles of its replicates.

    Units that a model lacks are left out of its mean and of its draws, which follow the order of the units' names.
    """
    mean, _, counts = _known_mean(result, dim)
    draws, has_replicates = sampling.sample != designs.ITEMS, sampling.sample != designs.UNITS
    if has_replicates:
        requirements.require_replicates(result, f"over={question.over!r}, method={sampling.method!r}")
    n_resamples = result.sizes[terms.RESAMPLE] if has_replicates else question.n_resamples or designs.UNIT_RESAMPLES
    variable = result[samples.REPLICATE if has_replicates else "estimate"]
    names = [""] if dim is None else [str(label) for label in samples.labels_of(variable, dim)]
    order = sorted(range(len(names)), key=names.__getitem__)
    seed, level = question.seed, question.level

    def summarized(values: NDArray[Any]) -> units.Floats:  # over units, if there are any, and over resamples
        shape = values.shape[: values.ndim - has_replicates - (dim is not None)]
        rows = values.reshape(math.prod(shape), len(names), *(values.shape[-1:] if has_replicates else ()))
        known = ~np.isnan(rows[..., 0] if has_replicates else rows)
        summary = np.full((len(rows), 3), np.nan)
        for pattern in np.unique(known, axis=0):  # rows that know the same units share their draws
            places = [unit for unit in order if pattern[unit]]
            if len(places) <= draws:  # one unit says nothing about others
                continue
            alike = np.flatnonzero((known == pattern).all(axis=1))
            of_units = rows[alike][:, places]
            if has_replicates:
                kept = [names[unit] for unit in places]
                drawn = units.draw_units_and_items(kept, n_resamples, seed) if draws else None
                replicates = units.means_of_replicates(of_units, drawn)
            else:
                replicates = units.Redraws(len(places), n_resamples, seed).means(of_units)
            bounds = np.quantile(replicates, [0.5 - level / 2, 0.5 + level / 2], axis=1)
            summary[alike] = np.column_stack([replicates.std(axis=1, ddof=1), *bounds])
        return summary.reshape(*shape, 3)

    quantities = samples.applied(summarized, variable, over=(dim, terms.RESAMPLE), sizes={terms.QUANTITY: 3})
    bounds = quantities.isel({terms.QUANTITY: slice(1, 3)}).rename({terms.QUANTITY: terms.BOUND})
    return _Mean(mean, quantities.isel({terms.QUANTITY: 0}), bounds, counts, n_resamples)


def _attributes(
    result: xr.Dataset, sentence: str, question: AggregationOptions, facts: dict[str, Any]
) -> dict[str, Any]:
    """Return the attributes that record how a mean was computed."""
    estimators = designs.estimators_of(result) if terms.ESTIMATOR in result.coords else None
    return {"design": "; ".join([sentence, *_gaps_of(result)])} | provenance(
        result, {"estimator": estimators and ", ".join(estimators)}, facts, {"level": question.level}
    )


def _gaps_of(result: xr.Dataset) -> list[str]:
    """Return what is left out, and that models may stand on different items, in words."""
    gaps = list(result.attrs.get(samples.GAPS, ()))
    return [*gaps, "each model on the items that it scored"] if result.attrs.get("missing") == "drop" else gaps


# --- a data set without queries ------------------------------------------------------------------------------------


def _as_it_is(result: xr.Dataset, question: AggregationOptions) -> xr.Dataset:
    """Return the estimates of a data set without queries, with its first interval."""
    result = laid_out(result, (terms.METHOD, *map(str, result.dims)))
    estimates = result.drop_vars("level", errors="ignore")  # that of the result's interval
    kept = {"estimate": estimates["estimate"], "n_queries": estimates["estimate"].notnull().astype("int64")}
    if "standard_error" in estimates:
        kept["standard_error"] = estimates["standard_error"]
    name: Any = None
    how, level = "no interval", question.level
    if terms.METHOD in result.coords and result.sizes[terms.METHOD]:
        name = str(result[terms.METHOD].values[0])
        bounds = result["interval"].isel({terms.METHOD: 0}, drop=True)
        has = result.attrs.get("level", bounds.coords.get("level"))
        if has == level:
            how = f"interval of the result: {name}"
        elif name in intervals.INTERVALS and intervals.INTERVALS[name].is_formula and "n_positive" in result:
            of_formula: xr.DataArray = interval(result["estimate"], result[counted_positives(result)], name, level)
            bounds, how = of_formula.drop_vars(terms.METHOD, errors="ignore"), f"interval by its formula: {name}"
        else:
            how = f"no interval at level {level:g}: {name} of the result has level {has}, evaluate again"
            bounds = bounds.where(False)
        kept["interval"] = bounds.assign_coords({"level": level})
        kept["interval"].attrs = result["interval"].attrs | {"ci_prob": level}
    models = designs.models_in_words(result.sizes.get(terms.MODEL, 1), {})
    aggregated = xr.Dataset(kept).drop_vars(terms.METHOD, errors="ignore")
    drawn = designs.drawn_in_words(result.attrs)
    sentence = f"sample: the {drawn} of one ranking, no queries to average over; {how}; fixed: {models}"
    facts = {"over": designs.drawn_of(result.attrs), "method": name}
    return aggregated.assign_attrs(_attributes(result, sentence, question, facts))


# --- over classes --------------------------------------------------------------------------------------------------


def _over_classes(data: terms.Scores, question: AggregationOptions, options: dict[str, Any]) -> terms.Scores:
    """Average over classes: their estimates and replicates; or rank all together, or the classes of each item."""
    average = question.average or "macro"
    is_scores = requirements.check(data, question, options)
    by_replicates = average in ("macro", "weighted")
    by_replicates &= all(samples.REPLICATE in node for _, node in terms.nodes_of(data))
    if not is_scores and not by_replicates and (known := questions.scores_behind(data)) is not None:
        data, reading = known
        return _over_classes(data, question, reading | options)
    by = options.get("by")
    if is_scores and grouped.has_groups(data, by):
        alone = {name: value for name, value in options.items() if name != "by"}

        def asked(tree: terms.Scores, joint: float) -> terms.Scores:
            ((_, node),) = terms.nodes_of(tree)
            return _over_classes(node, question, alone)

        return grouped.answered_by_groups(data, by, asked, question)
    if average in ("micro", "samples") and not is_scores:
        what = f"average={average!r} ranks items and classes together, which needs their scores"
        received, allowed = "a result, which holds one estimate for each class", "scores over (model, class, item)"
        raise InvalidInputError(what, None, received, allowed, f"aggregate(scores, over='class', average={average!r})")
    if average == "micro":
        return averages.evaluate_as_one(data, terms.CLASS, question.level, _resampling(question) | options)
    if average == "samples":
        return _mean_over_items(data, question, options)
    if is_scores:
        means = averages.evaluate_means(data, question, options)
    else:
        means = averages.means_over_classes(data, question.incomplete or "raise", average)

    def mean_of_node(path: str, node: xr.Dataset) -> xr.Dataset:
        if "standard_error" not in node:  # those of single classes do not give it
            what = "the interval of a mean over classes needs their shared resamples, which this result does not keep"
            received, allowed = "a result without the variable 'replicate'", "a result with replicates, or scores"
            remedy = "pass the scores in place of the result; or evaluate with keep_replicates=True"
            raise InvalidInputError(what, where_of(path), received, allowed, remedy)
        facts = {"over": terms.CLASS, "average": average, N_CLASSES: node.attrs[N_CLASSES]}
        mean = _mean(node, None, replace(question, over=designs.ITEMS, method=question.method or "logit"))
        if "centre" in node:
            mean, facts = mean.assign(flags=node["flags"]), facts | {"design": mean.design + CENTRED.format("classes")}
        if "lowest" in node:
            mean["interval"] = mean["interval"].fillna(node["lowest"])
        return mean.assign({N_CLASSES: node[N_CLASSES]}).assign_attrs(facts)

    return terms.map_nodes(means, mean_of_node)


def _over_repeats(node: xr.Dataset, question: AggregationOptions) -> xr.Dataset:
    """Average over repeats: the variance of the mean is that of the items and, unless they alone vary, of training."""
    if question.sample == designs.UNITS:
        raise checks.folds_as_units("argument 'over'", f"over={question.over!r}, and a result over repeats")
    mean, n_folds = averages.mean_of_repeats(node), node.attrs.get(terms.N_FOLDS)
    if samples.REPLICATE in mean:
        items = samples.reduced(np.std, mean[samples.REPLICATE], terms.RESAMPLE, ddof=1)
    else:
        items = mean["standard_error"]
    n_repeats = node.sizes[terms.REPEAT]
    spread = samples.reduced(np.var, mean[OF_REPEAT], terms.REPEAT, ddof=1) if n_repeats > 1 else 0.0 * items
    training = (spread * averages.inflation(n_repeats, n_folds)) ** 0.5
    error = items if question.sample == designs.ITEMS else (items**2 + training**2) ** 0.5
    parts = mean.assign(standard_error=error).drop_vars(samples.REPLICATE, errors="ignore")
    found = _mean(parts, None, replace(question, over=designs.ITEMS, method=question.method or "logit"))
    varies = "the items; fixed: the training" if question.sample == designs.ITEMS else "the items, and training on them"
    design = f"mean of {n_repeats} repeats; sample: {varies}"
    found = found.assign(items_error=items, training_error=training, n_repeats=((), np.int64(n_repeats)))
    if "flags" in node:  # of any repeat
        of_each = (node["flags"].isel({terms.REPEAT: repeat}, drop=True) for repeat in range(node.sizes[terms.REPEAT]))
        found["flags"] = functools.reduce(operator.or_, of_each).assign_attrs(node["flags"].attrs)
    found = found.drop_vars(terms.METHOD, errors="ignore").assign_coords({terms.METHOD: found.attrs["method"]})
    design = "; ".join([design, *_gaps_of(node)])
    return found.assign_attrs({"over": question.over or f"{terms.REPEAT}, {designs.ITEMS}", "design": design})


def _mean_over_items(scores: terms.Scores, question: AggregationOptions, options: dict[str, Any]) -> terms.Scores:
    """Return the mean over the items of the area of the classes that each ranks: the items are the units."""
    if options.get("over") == "clusters":
        what = "average='samples' takes every item as one unit, and items in clusters are not independent"
        remedy = "average='macro', 'weighted' or 'micro' draw clusters"
        raise clash(what, remedy, "over='items'", average="samples", over="clusters")

    def swapped(path: str, node: xr.Dataset) -> xr.Dataset:
        """Return scores in which every item is a query that ranks the classes."""
        names = [name for name in averages.ITEM_VARIABLES if name in node]
        if odd := [name for name in names if terms.CLASS not in node[name].dims]:
            what = "average='samples' ranks the classes of each item, and these weights do not differ between classes"
            received, remedy = f"{', '.join(map(repr, odd))} over the items", "drop_vars(...) leaves them out"
            raise InvalidInputError(what, None, received, "weights over (class, item)", remedy)
        found = node[names].rename({terms.ITEM: terms.QUERY, terms.CLASS: terms.ITEM})
        found = averages.with_whole_items(found.transpose(..., terms.QUERY, terms.ITEM))
        return found.assign_coords({terms.QUERY: samples.labels_of(found["score"], terms.QUERY)})

    n_classes = {path: node.sizes[terms.CLASS] for path, node in terms.nodes_of(scores)}
    of_items = terms.map_nodes(validated_scores(scores, positive_from=options.get("positive_from")), swapped)
    evaluated = evaluate(of_items, **({"interval": ()} | options))

    def mean_of_node(path: str, node: xr.Dataset) -> xr.Dataset:
        mean = _mean(node, terms.QUERY, replace(question, over=None)).rename({count_of(terms.QUERY): "n_items"})
        kind, design = (text.replace("queries", "items") for text in (mean["interval"].ci_kind, mean.design))
        mean["interval"].attrs["ci_kind"] = kind
        design = design.replace(", each with its items", "")
        design += f", the {n_classes[path]:,} classes, which each item ranks"
        facts = {"over": terms.CLASS, "average": "samples", N_CLASSES: n_classes[path]}
        return mean.assign_attrs(facts | {"design": design})

    return terms.map_nodes(evaluated, mean_of_node)


# --- one ranking of all queries ------------------------------------------------------------------------------------


def _one_ranking_of_queries(data: terms.Scores, question: AggregationOptions, options: dict[str, Any]) -> terms.Scores:
    """Evaluate the items of all queries of a data set as one ranking."""
    if not requirements.are_scores(data, {}):  # options of an evaluation do not help a result: it needs its scores
        received = "a result, which holds one estimate for each query"
        remedy = "aggregate(scores, how='micro', ...), with scores that can be compared between queries"
        raise InvalidInputError("a pooled ranking of all queries needs their scores", None, received, None, remedy)
    options = _resampling(question) | options
    if EvaluationOptions.of(**options).ties == "trec_eval":
        what = "ties='trec_eval' orders the documents of one query, and how='micro' ranks those of all queries together"
        remedy, allowed = "give ties='group', or how='macro'", "ties='group' or 'expectation'"
        raise clash(what, remedy, allowed, how="micro", ties="trec_eval")
    for path, node in terms.nodes_of(data):
        requirements.refuse_classes_for_units(path, node, question.over or question.dim)
        if options.get("over") == "clusters":
            requirements.refuse_dependent_queries(path, node)

    return averages.evaluate_as_one(data, terms.QUERY, question.level, options)
