"""Means over classes: the classes are fixed, the items are the sample, and all classes share their resamples.

A class is no unit of a sample: the areas of two classes rest on the same items, so their spread says nothing about
other items. Intervals come from replicates, or influences, that are averaged over classes before anything is squared.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.evaluation.api import evaluate
from aucpr_dask.inference.covarying import COVARIANCE_OPTIONS, influences
from aucpr_dask.inference.designs import ITEM_RESAMPLES, ITEMS
from aucpr_dask.inference.samples import REPLICATE, complete_units, labels_of, mean_of_known, mean_where_known
from aucpr_dask.schema.estimators import WITH_INFLUENCE, estimator_names
from aucpr_dask.schema.options import AVERAGES, AggregationOptions, SampleOptions
from aucpr_dask.schema.trees import Scores, map_nodes, nodes_of
from aucpr_dask.schema.variables import CLASS, ESTIMATOR, ITEM, QUERY, RESAMPLE
from aucpr_dask.scores.classes import validated_scores

N_CLASSES = "n_classes"


def has_classes(node: xr.Dataset) -> bool:
    """Return whether scores or a result have classes."""
    return any(CLASS in node[name].dims for name in ("estimate", "score") if name in node)


def refuse_classes_as_units(data: Any, question: SampleOptions) -> None:
    """Raise if classes are to be a sample, or are to be averaged over where there are none."""
    if not isinstance(data, xr.Dataset | xr.DataTree):
        return  # which is another error
    with_classes = [has_classes(node) for _, node in nodes_of(data)]
    if question.over == CLASS and not all(with_classes):
        raise InvalidInputError(
            "there are no classes to average over",
            where="argument 'over'",
            received="a data set without the dimension 'class'",
            allowed="scores over (model, class, item), or a result of these",
            remedy="over='query' averages the queries of a data set",
        )
    if any(with_classes) and question.over in (CLASS, QUERY) and question.sample not in (None, ITEMS):
        raise InvalidInputError(
            "classes are not a sample: they are fixed, and the same items are behind all of them",
            where="argument 'sample'",
            received=f"sample={question.sample!r}",
            allowed=f"sample={ITEMS!r}",
            remedy="leave it out: the items are resampled, the same ones for all classes",
        )


def refuse_classes_for_queries(data: xr.Dataset, path: str) -> None:
    """Raise if queries are to be averaged or pooled, and there are classes."""
    if has_classes(data):
        raise InvalidInputError(
            "this data set has classes, not queries",
            where=f"data set {path!r}" if path else None,
            received="over='query'",
            allowed="over='class'",
            remedy="aggregate(..., over='class') (--over class)",
        )


def mean_over_classes(
    result: xr.Dataset, average: str = "macro", incomplete: str | None = None, path: str = ""
) -> xr.Dataset:
    """Average the estimates of a result, and their replicates, over the classes with an estimate.

    A replicate is NaN where one of these classes has none. With `average` "weighted", the weights are the positives of
    the classes in the data set, in every replicate. A result without classes stays as it is.
    """
    if not has_classes(result):
        return result
    if incomplete is not None:
        result = complete_units(result, CLASS, incomplete, path)
    estimate = result["estimate"].drop_vars("level", errors="ignore")
    known = estimate.notnull()
    share: Any = 1.0
    if average == "weighted":
        weight = result["n_positive"].where(known)
        share = weight / mean_of_known(weight, CLASS)
    means = xr.Dataset({"estimate": mean_of_known(estimate * share, CLASS)})
    means[N_CLASSES] = known.sum(CLASS).astype("int64")
    if REPLICATE in result:
        means[REPLICATE] = mean_where_known(result[REPLICATE] * share, known, CLASS)
        means["standard_error"] = means[REPLICATE].std(RESAMPLE, ddof=1, skipna=False)
    facts = {"over": CLASS, "average": average, N_CLASSES: result.sizes[CLASS]}
    return means.assign_attrs(result.attrs | facts)


def means_over_classes(results: Scores, incomplete: str) -> Scores:
    """Return results whose classes, if a data set has any, are averaged alike."""
    if not any(has_classes(node) for _, node in nodes_of(results)):
        return results
    return map_nodes(results, lambda path, node: mean_over_classes(node, incomplete=incomplete, path=path))


def refuse_unknown_average(ask: AggregationOptions) -> None:
    """Raise if an average is not one of classes, or classes are averaged in the words for queries."""
    if ask.average is not None and ask.over != CLASS:
        raise InvalidInputError(
            "average is a choice for classes",
            where="argument 'average'",
            received=f"average={ask.average!r}, over={ask.over!r}",
            allowed="over='class'",
            remedy="for queries, how='micro' pools the items of all queries",
        )
    if ask.over == CLASS and ask.how != "macro":
        raise InvalidInputError(
            "how is a choice for queries",
            where="argument 'how'",
            received=f"how={ask.how!r}, over='class'",
            allowed="average=" + ", ".join(map(repr, AVERAGES)),
            remedy="average='micro' ranks all pairs of an item and a class together",
        )


def require_scores(data: Scores, average: str) -> None:
    """Raise unless the data are scores, which only a macro or weighted mean can do without."""
    if not all("score" in node for _, node in nodes_of(data)):
        raise InvalidInputError(
            f"average={average!r} ranks items and classes together, which needs their scores",
            received="a result, which holds one estimate for each class",
            allowed="scores over (model, class, item)",
            remedy=f"aggregate(scores, over='class', average={average!r})",
        )


def require_errors(means: xr.Dataset, path: str) -> None:
    """Raise unless the standard error of a mean over classes is known: those of single classes do not give it."""
    if "standard_error" not in means:
        raise InvalidInputError(
            "the interval of a mean over classes needs their shared resamples, which this result does not keep",
            where=f"data set {path!r}" if path else None,
            received="a result without the variable 'replicate'",
            allowed="a result with replicates, or scores",
            remedy="pass the scores in place of the result; or evaluate with keep_replicates=True (--keep-replicates)",
        )


def evaluate_means(scores: Scores, ask: AggregationOptions, options: dict[str, Any]) -> Scores:
    """Return the means over classes with standard errors: by the influence of every item, or by replicates."""
    names = estimator_names(options.get("estimators", "average_precision"))
    average, others = ask.average or "macro", {name: options[name] for name in options if name != "estimators"}
    is_plain = average == "macro" and ask.method != "bootstrap" and ask.incomplete in (None, "raise")
    if is_plain and len(names) == 1 and names[0] in WITH_INFLUENCE and set(others) <= set(COVARIANCE_OPTIONS):
        by_influence = map_nodes(influences(scores, names[0], **others), _with_error)
        return map_nodes(by_influence, lambda path, node: node.expand_dims({ESTIMATOR: list(names)}, -1))
    resampled = {"keep_replicates": True, "n_resamples": ask.n_resamples or ITEM_RESAMPLES, "seed": ask.seed}
    evaluated = evaluate(scores, **(resampled | {"intervals": ()} | options))
    return map_nodes(evaluated, lambda path, node: mean_over_classes(node, average, ask.incomplete or "raise", path))


def _with_error(path: str, node: xr.Dataset) -> xr.Dataset:
    """Return the estimate and the standard error of each model from the influences of the items."""
    squares = node["influence"] ** 2
    error = np.sqrt(squares.sum(str(squares.dims[-1]), skipna=False))
    return node[["estimate", N_CLASSES]].assign(standard_error=error)


def evaluate_pairs(scores: Scores, level: float, options: dict[str, Any]) -> Scores:
    """Evaluate the ranking of all pairs of an item and a class; an item is drawn with its pairs."""
    scores = validated_scores(scores, positive_from=options.get("positive_from"))
    is_clustered = options.get("unit") == "clusters"
    pairs = map_nodes(scores, lambda path, node: _pairs(node, is_clustered=is_clustered))
    evaluated = evaluate(pairs, level=level, **(options | {"unit": "clusters"}))

    def describe_node(path: str, node: xr.Dataset) -> xr.Dataset:
        n_classes, drawn = dict(nodes_of(scores))[path].sizes[CLASS], "clusters" if is_clustered else "items"
        how = f"resampled: the {drawn}, {node.attrs['n_resamples']:,} times" if "resampled" in node.attrs else ""
        sample = how or f"sample: the {drawn}, nothing resampled"
        design = (
            f"one ranking of all pairs of an item and a class; {sample}; fixed: the models, the {n_classes} classes"
        )
        return node.assign_attrs({"design": design, "over": CLASS, "average": "micro", N_CLASSES: n_classes})

    return map_nodes(evaluated, describe_node)


def _pairs(scores: xr.Dataset, *, is_clustered: bool) -> xr.Dataset:
    """Return every pair of an item and a class as an item, in the cluster of its item."""
    cluster = scores["cluster"].values if is_clustered and "cluster" in scores else np.arange(scores.sizes[ITEM])
    return pooled_items(scores, CLASS).assign(cluster=(ITEM, np.tile(cluster, scores.sizes[CLASS])))


def pooled_items(scores: xr.Dataset, dim: str) -> xr.Dataset:
    """Return the items of all queries, or of all classes, one after another."""
    kept = scores[[name for name in ITEM_VARIABLES if name in scores]].drop_vars([dim, ITEM], errors="ignore")
    for name in kept.data_vars:
        if dim not in kept[name].dims:
            kept[name] = kept[name].expand_dims({dim: scores.sizes[dim]})
    pooled = kept.stack({"pooled": (dim, ITEM)}, create_index=False).rename({"pooled": ITEM}).transpose(..., ITEM)
    if any(one.chunks is not None for one in pooled.data_vars.values()):
        pooled = pooled.chunk({ITEM: -1})
    return pooled.assign_attrs(scores.attrs)


def items_as_queries(scores: Scores, options: dict[str, Any]) -> Scores:
    """Return score data sets in which every item is a query that ranks the classes."""
    if options.get("unit") == "clusters":
        raise InvalidInputError(
            "average='samples' takes every item as one unit, and items in clusters are not independent",
            received="unit='clusters'",
            allowed="unit='items'",
            remedy="average='macro', 'weighted' or 'micro' draw clusters",
        )
    scores = validated_scores(scores, positive_from=options.get("positive_from"))
    return map_nodes(scores, lambda path, node: _items_as_queries(node))


def _items_as_queries(scores: xr.Dataset) -> xr.Dataset:
    names = [name for name in ITEM_VARIABLES if name in scores]
    if odd := [name for name in names if CLASS not in scores[name].dims]:
        raise InvalidInputError(
            "average='samples' ranks the classes of each item, and these weights do not differ between classes",
            received=f"{', '.join(map(repr, odd))} over the items",
            allowed="weights over (class, item)",
            remedy="drop_vars(...) leaves them out",
        )
    swapped = scores[names].rename({ITEM: QUERY, CLASS: ITEM}).transpose(..., QUERY, ITEM)
    swapped = swapped.assign_coords({QUERY: labels_of(swapped["score"], QUERY)})
    return swapped.chunk({ITEM: -1}) if any(one.chunks is not None for one in swapped.data_vars.values()) else swapped


ITEM_VARIABLES = ("score", "label", "weight", "positive_weight", "negative_weight")
