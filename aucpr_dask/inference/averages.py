"""Means over classes and over repeats of a cross-validation, neither of which is a sample of its own.

The areas of two classes rest on the same items, so their spread says nothing about other items. Intervals come from
replicates, or influences, that are averaged over classes before anything is squared.

Areas of R repeats, each pooled over out-of-fold scores of k folds, are averaged. Two parts make their variance: that of
the items, by the influence of each item on the averaged areas, and that of training on other items like these. Of the
latter the repeats show only what other folds of the same items change, so their variance v is inflated, to
``v (1 / R + k - 1)``. Without folds, repeats are fits to the same items that differ in their seeds: ``v / R``.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import scipy
import xarray as xr

from aucpr_dask.errors import InvalidInputError, few
from aucpr_dask.evaluation.api import evaluate
from aucpr_dask.evaluation.results import COUNTED_POSITIVES, counted_positives
from aucpr_dask.inference import covarying, designs, requirements, samples
from aucpr_dask.inference.covarying import OF_REPEAT, OTHER_MODEL, covariances, squares_of_differences
from aucpr_dask.schema import terms
from aucpr_dask.schema.checks import One
from aucpr_dask.schema.estimators import AREAS, WITH_INFLUENCE, estimator_names
from aucpr_dask.schema.options import AggregationOptions
from aucpr_dask.schema.terms import CLASS, ITEM, MODEL, QUERY, REPEAT, RESAMPLE, Scores, map_nodes, nodes_of
from aucpr_dask.scores.validate import validated_scores

N_CLASSES = "n_classes"
BIASED = frozenset(AREAS) - {
    "haldane",
    "binormal",
}  # areas that count each positive at its own score, as precision does
CENTRED = BIASED | {"haldane"}  # whose means have intervals around the mean of Haldane's areas
OF_RESAMPLES = ("estimator", "interval", "keep_replicates", "n_resamples", "seed", "n_folds")
FEW_OF_ONE, MOST_RARE = 10, 0.1  # positives with which the bias is not known, and the share of such classes or units
MOST_UNITS, MOST_BIASED = 2, 0.05  # times their mean number of positives: of Haldane's areas, and of average precision
OF_FOLD, OF_REPETITION = (re.compile(one, re.IGNORECASE) for one in (r"fold[ _.-]?(\d+)", r"(rep|repeat)[ _.-]?\d+"))
ITEM_VARIABLES = ("score", "label", "weight", "positive_weight", "negative_weight")


# --- means of the estimates of classes -----------------------------------------------------------------------------


def mean_over_classes(
    result: xr.Dataset, average: str = "macro", incomplete: str | None = None, path: str = ""
) -> xr.Dataset:
    """Average the estimates of a result, and their replicates, over the classes with an estimate.

    A replicate is NaN where one of these classes has none. With `average` "weighted", the weights are the positives of
    the classes in the data set, in every replicate. A result without classes stays as it is.
    """
    if not requirements.has_classes(result):
        return result
    if incomplete is not None:
        result = samples.complete_units(result, CLASS, incomplete, path)
    result = result.drop_vars(terms.OF_INTERVALS, errors="ignore")
    estimate = result["estimate"]
    known = estimate.notnull()
    share: Any = 1.0
    if average == "weighted":
        weight = result["n_positive"].where(known)
        share = weight / samples.mean_of_known(weight, CLASS)
    means = xr.Dataset({"estimate": samples.mean_of_known(estimate * share, CLASS)})
    means[N_CLASSES] = known.sum(CLASS).astype("int64")
    if samples.REPLICATE in result:
        means[samples.REPLICATE] = samples.mean_where_known(result[samples.REPLICATE] * share, known, CLASS)
        means["standard_error"] = samples.reduced(np.std, means[samples.REPLICATE], RESAMPLE, ddof=1)
    facts = {"over": CLASS, "average": average, N_CLASSES: result.sizes[CLASS]}
    return means.assign_attrs(result.attrs | facts)


def means_over_classes(results: Scores, incomplete: str, average: str = "macro") -> Scores:
    """Return results whose classes, if a data set has any, are averaged."""
    if not any(requirements.has_classes(node) for _, node in nodes_of(results)):
        return results
    return map_nodes(results, lambda path, node: mean_over_classes(node, average, incomplete, path))


def evaluate_means(scores: Scores, question: AggregationOptions, options: dict[str, Any]) -> Scores:
    """Return the means over classes with standard errors, by the influence of every item or by replicates; centred."""
    names = estimator_names(options.get("estimator", "average_precision"))
    average, others = question.average or "macro", {name: options[name] for name in options if name != "estimator"}
    is_plain = average == "macro" and question.method != "bootstrap" and question.incomplete in (None, "raise")
    if is_plain and len(names) == 1 and names[0] in WITH_INFLUENCE and set(others) <= set(covarying.COVARIANCE_OPTIONS):
        of_centre: dict[str, xr.Dataset] = {}
        if names[0] in BIASED:  # the interval is that of Haldane's area, which varies more
            of_centre = dict(nodes_of(covarying.influences(scores, "haldane", **others)))

        def with_errors(path: str, node: xr.Dataset) -> xr.Dataset:
            of_items = {"standard_error": node} | ({"centre_error": of_centre[path]} if of_centre else {})
            errors = {name: samples.sum_of_squares(one["influence"]) ** 0.5 for name, one in of_items.items()}
            means = node[["estimate", N_CLASSES]].assign(errors).assign_coords({terms.ESTIMATOR: names[0]})
            return means if isinstance(names, One) else means.expand_dims(terms.ESTIMATOR, -1)

        means = map_nodes(covarying.influences(scores, names[0], **others), with_errors)
    else:
        n_resamples = question.n_resamples or designs.ITEM_RESAMPLES
        resampled: dict[str, Any] = {"keep_replicates": True, "n_resamples": n_resamples, "seed": question.seed}
        evaluated = evaluate(scores, **(resampled | {"interval": ()} | options))
        means = means_over_classes(evaluated, question.incomplete or "raise", average)
    reading: dict[str, Any] = {name: value for name, value in options.items() if name not in OF_RESAMPLES}
    if CENTRED.intersection(names):
        both = dict(nodes_of(evaluate(scores, estimator=["average_precision", "haldane"], interval=(), **reading)))
        means = map_nodes(means, lambda path, node: _centred(node, both[path], average, question.incomplete))
    are_perfect = [_is_perfect(node) for _, node in nodes_of(means)]
    if not any(one.chunks is not None or bool(one.any()) for one in are_perfect):
        return means
    again: dict[str, Any] = {"estimator": names, "level": question.level} | reading
    alone = dict(nodes_of(evaluate(scores, **again)))
    return map_nodes(means, lambda path, node: _with_lowest(node, alone[path], question.level))


def _is_perfect(means: xr.Dataset) -> xr.DataArray:
    """Whether every class of a mean is perfectly ranked, so that no standard error tells how far from 1 it may be."""
    found: xr.DataArray = (means["estimate"] == 1) & (means["standard_error"] == 0)
    return found


def _with_lowest(means: xr.Dataset, alone: xr.Dataset, level: float) -> xr.Dataset:
    """Return means with the lower bounds of those that are perfect.

    The lower bound of each class is that of Wilson's interval for some number of successes without a failure. These
    numbers give the variance of the mean of the proportions, and that variance the number that the mean is worth.
    """
    if not requirements.has_classes(alone):
        return means
    quantile = float(scipy.special.ndtri(0.5 + level / 2)) ** 2
    lowest = alone["interval"].isel({terms.BOUND: 0}, drop=True)
    lowest = lowest.max(terms.METHOD) if terms.METHOD in lowest.dims else lowest  # estimators have one each
    of_classes = samples.mean_of_known((1 - lowest) / (quantile * lowest), CLASS)
    worth = means[N_CLASSES] / of_classes
    bound = (worth / (worth + quantile)).where(_is_perfect(means))
    return means.assign(lowest=bound.transpose(*means["estimate"].dims).reset_coords(drop=True))


def _centred(means: xr.Dataset, both: xr.Dataset, average: str, incomplete: str | None) -> xr.Dataset:
    """Return means with the centre of their intervals: less the bias of average precision, as Haldane's area shows it.

    That bias is the same in every class, so it does not average out while errors do.
    """
    if not requirements.has_classes(both):
        return means
    n_positive = both[counted_positives(both)]
    flags = few_positives(n_positive, both["estimate"].notnull().any(terms.ESTIMATOR), CLASS, is_centred=True)
    area = mean_over_classes(both, average, incomplete)["estimate"]
    bias = area.isel({terms.ESTIMATOR: 0}, drop=True) - area.isel({terms.ESTIMATOR: 1}, drop=True)
    is_biased: Any = means[terms.ESTIMATOR].isin(list(BIASED))
    centre = (means["estimate"] - xr.where(is_biased, bias, 0.0)).clip(0.0, 1.0)
    centre = centre.transpose(*means["estimate"].dims)
    return means.assign(centre=centre, flags=flags, n_positive=n_positive.mean(CLASS))


def few_positives(n_positive: xr.DataArray, known: xr.DataArray, dim: str, *, is_centred: bool) -> xr.DataArray:
    """Flag means whose bias is unknown: rankings have too few positives, or are too many for their positives.

    Bias falls as positives rise, errors fall also as units do.
    """
    n, n_positive = known.sum(dim), n_positive.where(known)
    is_few = (n_positive < FEW_OF_ONE).sum(dim) > MOST_RARE * n
    is_few = is_few | (n > (MOST_UNITS if is_centred else MOST_BIASED) * n_positive.mean(dim))
    flags: xr.DataArray = (terms.FLAG_BITS["few_positives"] * is_few).astype(np.int32)
    return flags.assign_attrs(terms.flag_attributes())


# --- one ranking of all ---------------------------------------------------------------------------------------------


def evaluate_as_one(scores: Scores, dim: str, level: float, options: dict[str, Any]) -> Scores:
    """Evaluate the items of all queries, or all pairs of an item and a class, as one ranking.

    The items of a query are drawn together, and so are the pairs of an item, or of a cluster of items.
    """
    is_clustered = options.get("over") == "clusters"
    sizes = {path: node.sizes.get(dim) for path, node in nodes_of(scores)}
    if dim == CLASS:
        scores = validated_scores(scores, positive_from=options.get("positive_from"))
        options = options | {"over": "clusters"}

    def pooled(path: str, node: xr.Dataset) -> xr.Dataset:
        """Return the items of all as those of one ranking, each in its cluster."""
        if dim not in node["score"].dims:
            return node
        found, n, n_items = pooled_items(node, dim), node.sizes[dim], node.sizes[ITEM]
        if dim == CLASS:
            own = node["cluster"].values if is_clustered and "cluster" in node else np.arange(n_items)
            return found.assign(cluster=(ITEM, np.tile(own, n)))
        if "n_positive" in node:
            total = node["n_positive"]
            found["n_positive"] = total.sum(QUERY) if QUERY in total.dims else total * n
        queries = np.array([str(query) for query in samples.labels_of(node["score"], QUERY)])
        return found.assign(cluster=(ITEM, np.repeat(queries, n_items)))

    def described(path: str, node: xr.Dataset) -> xr.Dataset:
        whole, drawn, n, facts = "one ranking of the items", "the items", sizes[path], dict[str, Any]()
        fixed = ["the numbers of positives and negatives"] if node.attrs["prevalence_design"] == "fixed" else []
        if dim == CLASS:
            whole, fixed = "one ranking of all pairs of an item and a class", [f"the {n} classes"]
            drawn = "the clusters" if is_clustered else drawn
            facts = {"over": CLASS, "average": "micro", N_CLASSES: n}
        elif n is not None:
            whole, fixed = f"{whole} of {n:,} queries", ["these queries", *fixed]
        if dim == QUERY and node.attrs["sampled"] == "clusters":
            clusters = terms.clusters_in_words(node.attrs) if n is None else "queries"
            drawn, fixed = f"the {clusters}, each with its items", []
        how = f"resampled: {drawn}, {node.attrs['n_resamples']:,} times" if "resampled" in node.attrs else ""
        how = f"{whole}; {how or f'sample: {drawn}, nothing resampled'}; fixed: {', '.join(['the models', *fixed])}"
        return node.assign_attrs({"design": how} | facts)

    of_all = map_nodes(scores, pooled)
    if any("n_positive" in node for _, node in nodes_of(of_all)):
        options = {"over": "items"} | options  # positives that are not items belong to no cluster
    evaluated: Scores = evaluate(of_all, level=level, **options)
    return map_nodes(evaluated, described)


def pooled_items(scores: xr.Dataset, dim: str) -> xr.Dataset:
    """Return the items of all queries, or of all classes, one after another."""
    kept = scores[[name for name in ITEM_VARIABLES if name in scores]].drop_vars([dim, ITEM], errors="ignore")
    for name in kept.data_vars:
        if dim not in kept[name].dims:
            kept[name] = kept[name].expand_dims({dim: scores.sizes[dim]})
    pooled = kept.stack({"pooled": (dim, ITEM)}, create_index=False).rename({"pooled": ITEM}).transpose(..., ITEM)
    return with_whole_items(pooled).assign_attrs(scores.attrs)


def with_whole_items(scores: xr.Dataset) -> xr.Dataset:
    """Return scores whose chunks, if they have any, cut no ranking."""
    return scores.chunk({ITEM: -1}) if any(one.chunks is not None for one in scores.data_vars.values()) else scores


# --- means of repeats -------------------------------------------------------------------------------------------------


def inflation(n_repeats: int, n_folds: int | None) -> float:
    """Return by how much the variance between repeats is multiplied, for that of training of their mean."""
    return 1 / n_repeats + (0 if n_folds is None else n_folds - 1)


def training_variance(of_repeat: xr.DataArray, n_folds: int | None) -> xr.DataArray:
    """Return the variance (model, other_model) of differences that comes from training; 0 of a single repeat."""
    n_repeats, first = of_repeat.sizes[REPEAT], of_repeat.isel({REPEAT: 0}, drop=True)
    spread = 0.0 * (first - first.rename({MODEL: OTHER_MODEL}))
    if n_repeats > 1:
        spread = squares_of_differences(covariances(of_repeat, REPEAT))
    return spread * inflation(n_repeats, n_folds)


def mean_of_repeats(node: xr.Dataset) -> xr.Dataset:
    """Average a result over its repeats; keep the areas of each. Standard errors are as if they agreed on all items."""
    kept = node[[name for name in samples.AVERAGED if name in node]]
    known = node["estimate"].notnull().all(REPEAT)
    means = kept.map(lambda variable: samples.mean_of_known(variable, REPEAT).where(known), keep_attrs=True)
    others = {name: node[name] for name in (*COUNTED_POSITIVES, "n_negative") if name in node}
    others = {name: one.isel({REPEAT: 0}, drop=True) if REPEAT in one.dims else one for name, one in others.items()}
    return means.assign({OF_REPEAT: node["estimate"].drop_attrs(), **others}).assign_attrs(node.attrs)


def without_repeats(node: xr.Dataset) -> xr.Dataset:
    """Return the means over repeats, if there are any."""
    return mean_of_repeats(node).drop_vars(OF_REPEAT) if REPEAT in node["estimate"].dims else node


def compared_by_replicates(path: str, node: xr.Dataset, estimator: str | None) -> xr.Dataset:
    """Return what a comparison needs of a result with repeats: the variances by the replicates of their means."""
    from aucpr_dask.kernels.intervals import degrees_of

    if REPEAT not in node["estimate"].dims:
        return node
    if samples.REPLICATE not in node:
        what, remedy = "how items vary the means of repeats is not known", "pass the scores in place of the result"
        allowed = "scores, or a result with keep_replicates=True"
        raise InvalidInputError(what, path or None, "estimates over 'repeat' without replicates", allowed, remedy)
    mean = mean_of_repeats(node)
    variance = squares_of_differences(covariances(samples.chosen(mean[samples.REPLICATE], estimator), RESAMPLE))
    n = mean[counted_positives(mean)].astype(np.float64)
    found = {"difference_variance": variance, "outer_variance": variance, "n_effective": n}
    found |= {"degrees": n.copy(data=degrees_of(n.values)), OF_REPEAT: samples.chosen(mean[OF_REPEAT], estimator)}
    return mean.drop_vars(samples.REPLICATE).assign(found)


def areas_of_folds(node: xr.Dataset, path: str) -> xr.Dataset:
    """Return the areas of the folds of all repeats along one dimension, and how many folds a repeat has."""
    estimate, where = node["estimate"], path or None
    if terms.FOLD not in estimate.dims:  # values, whose units are folds by name; those of repeats name their fold
        if QUERY not in estimate.dims or not requirements.are_folds(node, estimate):
            what = "method='corrected_t' compares areas of folds, and these are none"
            received = f"estimates over ({', '.join(map(str, estimate.dims))})"
            raise InvalidInputError(what, where, received, "estimates over (model, fold)", "leave out method")
        names = [str(name) for name in samples.labels_of(estimate, QUERY)]
        numbers = {match[1] for match in map(OF_FOLD.search, names) if match}
        is_repeated = any(map(OF_REPETITION.search, names))
        if is_repeated and (len(numbers) < 2 or not all(map(OF_FOLD.search, names))):
            what = "the values are of repeats, and how many folds each has is not known"
            allowed = "names such as 'repeat1_fold2'"
            raise InvalidInputError(what, where, few(map(repr, names)), allowed, "name the folds of each repeat")
        n_folds = len(numbers) if is_repeated else len(names)
        return node.rename({QUERY: terms.FOLD}).assign_attrs({terms.N_FOLDS: n_folds})
    estimate = estimate.drop_vars([terms.FOLD, REPEAT], errors="ignore")
    n_folds = estimate.sizes[terms.FOLD]
    if n_folds < 2:
        received, remedy = f"{n_folds} fold", "cross-validate with two folds or more"
        raise InvalidInputError("one fold says nothing about training", where, received, None, remedy)
    if REPEAT in estimate.dims:
        estimate = estimate.stack({"part": (REPEAT, terms.FOLD)}, create_index=False).rename({"part": terms.FOLD})
    return xr.Dataset({"estimate": estimate}, attrs=node.attrs | {terms.N_FOLDS: n_folds})
