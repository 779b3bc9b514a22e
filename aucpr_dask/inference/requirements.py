"""What data must have for a question to be answered from them: checked before the first number is computed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from aucpr_dask.errors import AlignmentError, InvalidInputError, did_you_mean, few
from aucpr_dask.inference.designs import BOTH, COMPARED, CORRECTED, ITEMS, are_values, estimators_of, unit_names
from aucpr_dask.inference.samples import DATASET, labels_of
from aucpr_dask.schema.checks import FOLDS, choose, folds_as_units
from aucpr_dask.schema.options import ComparisonOptions, SampleOptions
from aucpr_dask.schema.terms import BOUND, CLASS, ESTIMATOR, MEASURE, MODEL, QUERY, RESAMPLE, UNIT, Scores, nodes_of
from aucpr_dask.scores.validate import where_of

KINDS = (ESTIMATOR, MEASURE)  # dimensions of what is estimated
ANSWERS = ("difference", "rank", "detectable")  # variables of comparisons and contrasts, of ranks, and of their power
ROUND_OFF = 1e-9  # of sums of weights
FOLD_NAME = re.compile(r"(test[ _])?(cv|fold|rep|repeat|split)[ _.-]?\d+(_|\b)", re.IGNORECASE)


def are_scores(data: Scores, options: Mapping[str, Any]) -> bool:
    """Return whether the data must still be evaluated; refuse options of an evaluation otherwise."""
    if not isinstance(data, xr.Dataset | xr.DataTree) or not list(nodes_of(data)):
        allowed = "a Dataset or DataTree with data"
        remedy = 'pass what ap.evaluate returns; of arrays, ap.evaluate({"model": scores}, labels); of a table, '
        remedy += "ap.evaluate(ap.from_dataframe(frame, label=...))"
        raise InvalidInputError("there is no data", "the first argument", type(data).__name__, allowed, remedy)
    if any({*ANSWERS} & set(node.data_vars) for _, node in nodes_of(data)):
        what, remedy = (
            "these are answers already: a comparison, ranks or their power",
            "pass the scores or the result behind them",
        )
        raise InvalidInputError(what, "the first argument", type(data).__name__, "scores or a result", remedy)
    is_scores = all("score" in node and "estimate" not in node for _, node in nodes_of(data))
    if is_scores and any(MODEL not in node["score"].dims for _, node in nodes_of(data)):
        what, remedy = "these are the scores of one model", 'name several: {"old": scores, "new": others}, labels; '
        remedy += "or give it a name: expand_dims(model=['new'])"
        raise InvalidInputError(what, "the first argument", type(data).__name__, "scores over 'model'", remedy)
    if options and not is_scores:
        what = "these are options of an evaluation, and this result is evaluated already"
        remedy = "pass the scores to evaluate them with these options"
        allowed = "options of the comparison alone"
        raise InvalidInputError(what, "the options", ", ".join(options), allowed, remedy)
    return is_scores


def check(data: Scores, question: SampleOptions, options: Mapping[str, Any]) -> bool:
    """Check every data set against the question, and return whether they are scores that must still be evaluated."""
    # All of them before the first is evaluated, which may take hours.
    is_scores = are_scores(data, options)
    of_one = [path for path, node in nodes_of(data) if "estimate" in node and MODEL not in node["estimate"].dims]
    if of_one and isinstance(question, ComparisonOptions):
        what, remedy = "these are the estimates of one model", "evaluate several models together"
        where = where_of(of_one[0], "estimate")
        raise InvalidInputError(what, where, "no dimension 'model'", "estimates over 'model'", remedy)
    names = [path for path, _ in nodes_of(data)]
    if question.dim == DATASET and question.sample != ITEMS and _are_folds(names):
        raise folds_as_units("the data sets", few(map(repr, names)))
    for path, node in nodes_of(data):
        found = next((node[name] for name in ("estimate", "score") if name in node), None)
        # Classes are fixed, where there are any.
        if question.dim == CLASS and not has_classes(node):
            what, received = "there are no classes to average over", "a data set without the dimension 'class'"
            allowed = "scores over (model, class, item), or a result of these"
            remedy = "over='query' averages the queries of a data set"
            raise InvalidInputError(what, "argument 'over'", received, allowed, remedy)
        if has_classes(node) and question.dim in (CLASS, QUERY) and question.sample not in (None, ITEMS):
            what = "classes are not a sample: they are fixed, and the same items are behind all of them"
            remedy = "leave it out: the items are resampled, the same ones for all classes"
            raise InvalidInputError(what, "argument 'over'", repr(question.over), repr(ITEMS), remedy)
        # Folds and repeats are no units, be it by their dimension, their word or all their names.
        if found is not None and question.sample != ITEMS and question.method != CORRECTED:
            if "fold" in found.dims:
                raise folds_as_units(where_of(path, "estimate"), "the dimension 'fold'")
            if are_folds(node, found):
                word, labels = node.attrs.get(UNIT, QUERY), found.indexes.get(QUERY, pd.Index([]))
                where = where_of(path) if path else "the dimension 'query'"
                raise folds_as_units(where, f"{word} {few(map(repr, map(str, labels)))}")
        if are_values(node):  # of a measure, which have no items
            if question.sample in (ITEMS, BOTH) or question.method == "influence":
                where = f"argument 'over', data set {path!r}" if path else "argument 'over'"
                received = f"over={question.over!r}, method={question.method!r}"
                remedy = f"leave both out: the {unit_names(QUERY, node.attrs)[1]} are the sample"
                what = "values of a measure have no items that could be sampled"
                raise InvalidInputError(what, where, received, "the units of the values", remedy)
            measures, asked = estimators_of(node), getattr(question, "estimator", None)
            if measures and asked is not None:
                choose(tuple(measures), asked, "measure")
        if question.dim == QUERY and question.sample == BOTH:
            refuse_dependent_queries(path, node)
    if not is_scores:
        require_results(data)
    return is_scores


def require_results(data: Scores) -> None:
    """Raise unless every data set has estimates."""
    for path, node in nodes_of(data):
        if "score" in node and "estimate" not in node:
            what, remedy = "these are scores, and a result is needed", "evaluate them first: ap.evaluate(scores)"
            where = where_of(path) if path else "the first argument"
            raise InvalidInputError(what, where, few(node.data_vars), "a variable 'estimate'", remedy)
        if "estimate" not in node:
            what = "this is neither a result nor scores: it has no variable 'estimate'"
            where, remedy = where_of(path) if path else "the first argument", "pass what aucpr_dask.evaluate returns"
            raise InvalidInputError(what, where, few(node.data_vars) or "no variables", "a result, or scores", remedy)
        refuse_estimates_of_other_kinds(path, node)


def has_classes(node: xr.Dataset) -> bool:
    """Return whether scores or a result have classes."""
    return any(CLASS in node[name].dims for name in ("estimate", "score") if name in node)


def are_folds(node: xr.Dataset, found: xr.DataArray) -> bool:
    """Return whether the queries of estimates or scores are folds or repeats by their word or all their names."""
    word, labels = str(node.attrs.get(UNIT, QUERY)), found.indexes.get(QUERY, pd.Index([]))
    return word.lower() in FOLDS or bool(FOLDS & {str(name).lower() for name in labels.names}) or _are_folds(labels)


def _are_folds(names: Iterable[Any]) -> bool:
    texts = [str(name) for name in names]
    return len(texts) > 1 and all(map(FOLD_NAME.match, texts))


def without_dimension(estimate: xr.DataArray, name: str) -> InvalidInputError:
    """Return the error for a dimension that is to vary and is not there."""
    others = [str(dim) for dim in estimate.dims if dim not in (MODEL, *KINDS)]
    what, received = f"there are no units to vary: no dimension {name!r}", f"over={name!r}"
    otherwise = "name another, or leave over out; dependent items are named by clusters=, data sets by over='dataset'"
    remedy = did_you_mean(name, [*others, "items", "clusters"], otherwise)
    return InvalidInputError(what, "argument 'over'", received, few(map(repr, [*others, "items"])), remedy)


def refuse_classes_for_units(path: str, node: xr.Dataset, over: Any) -> None:
    """Raise if queries or other units are to be averaged or pooled, and there are classes."""
    if has_classes(node):
        what, remedy = "this data set has classes, which are averaged alone", "average them: over='class'"
        raise InvalidInputError(what, where_of(path), f"over={over!r}", "over='class'", remedy)


def refuse_dependent_queries(path: str, node: xr.Dataset) -> None:
    """Raise if queries that are to be sampled come in clusters."""
    if "cluster" in node and QUERY in node["cluster"].dims:
        what = "queries in clusters are not independent, but each would count as one unit here"
        remedy = "compare and aggregate take clusters as units by their other methods and samples; "
        remedy += "or drop_vars('cluster') if the queries are independent"
        raise InvalidInputError(what, where_of(path), "'cluster' over the dimension 'query'", None, remedy)


def lacking_items(result: xr.Dataset) -> list[str]:
    """Say which models of a result lack how many items, if each was evaluated on the items that it scored."""
    if result.attrs.get("missing") != "drop" or COMPARED in result.attrs:
        return []
    if "n_missing" not in result or MODEL not in result["n_missing"].dims:
        return []
    lacking = result["n_missing"].where(result["n_positive"] + result["n_negative"] > 0, 0)
    number = lacking.sum([dim for dim in lacking.dims if dim != MODEL])
    each = zip(labels_of(result, MODEL), np.asarray(number), strict=True)
    return [f"{str(label)!r} lacks {n:,.0f}" for label, n in each if n]


def refuse_different_items(path: str, result: xr.Dataset) -> None:
    """Raise if the models of a result were evaluated on the items that each of them scored, or on different data."""
    if counts := lacking_items(result):
        what = "models that lack different items cannot be compared: their areas depend on which items are left"
        received = f"a result with missing='drop', where {few(counts)} items"
        remedy = "pass the scores in place of the result, with missing='drop': models are then compared on the items "
        remedy += "that all of them scored; or evaluate with missing='last' or 'unretrieved'; or leave these models out"
        raise AlignmentError(what, where_of(path), received, "models evaluated on the same items", remedy)
    if "replicate" not in result or result.attrs.get("missing") == "drop":
        return
    for name in ("n_positive", "n_negative"):  # replicates are of one list of items, the same for all models
        if name in result and MODEL in result[name].dims:
            known = result[name]
            if bool((known.max(MODEL) > (1 + ROUND_OFF) * known.min(MODEL)).any()):
                of_models = known.sum([dim for dim in known.dims if dim != MODEL])
                each = zip(labels_of(result, MODEL), np.asarray(of_models), strict=True)
                received = f"{name} of {few([f'{str(label)!r}: {number:,.10g}' for label, number in each])}"
                what = "these models were evaluated on different items, so their resamples are no pairs"
                remedy = "evaluate them together: pass all their scores in place of the combined result"
                raise AlignmentError(what, where_of(path), received, "models evaluated on the same items", remedy)


def refuse_estimates_of_other_kinds(path: str, result: xr.Dataset) -> None:
    """Raise if models have estimates by different estimators, or if these have dimensions that no estimate has."""
    estimate = result["estimate"]
    if other := [repr(dim) for dim in (BOUND, RESAMPLE) if dim in estimate.dims]:
        what, received = "the estimates have a dimension that none has", ", ".join(map(str, estimate.dims))
        remedy = "pass the result as ap.evaluate returned it: tables and arrays of all variables repeat estimates"
        raise InvalidInputError(what, where_of(path, "estimate"), received, f"without {few(other)}", remedy)
    for name in KINDS:
        if name in result.coords and MODEL in result[name].dims:
            each = zip(labels_of(result, MODEL), map(str, result[name].values), strict=True)
            received, remedy = few([f"{str(model)!r} by {of!r}" for model, of in each]), f"evaluate all by one {name}"
            what = f"models have different {name}s, whose estimates cannot be compared"
            raise AlignmentError(what, where_of(path, name), received, f"one {name} for all models", remedy)


def require_replicates(result: xr.Dataset, what: str) -> None:
    """Raise unless a result has the replicates of its items."""
    if "replicate" in result:
        return
    # A per-run layout, each model with its own ranked list, shows in rankings of a query that differ in length. Lists
    # of the same length look like a pooled layout, and under other conventions lengths say nothing.
    counts = [result[name] for name in ("n_positive", "n_negative") if name in result and MODEL in result[name].dims]
    length = counts[0] + counts[1] if len(counts) == 2 and result.attrs.get("missing") == "raise" else None
    if length is not None and bool((length.max(MODEL) > (1 + ROUND_OFF) * length.min(MODEL)).any()):
        impossible = f"{what} resamples items, which cannot be done here: each model has its own list of them"
        received = "a result of a per-run layout: the models' rankings of a query differ in length"
        remedy = "let the queries vary: over='query'; or import a pooled layout"
        raise InvalidInputError(impossible, None, received, None, remedy)
    remedy = "pass the scores in place of the result, or their table; or evaluate with keep_replicates=True; "
    remedy += "models with their own ranked lists (per-run layout) are compared over queries"
    lack = "this needs resamples of the items, which the result does not keep"
    received, allowed = "a result without the variable 'replicate'", "a result with replicates, or scores"
    if source := result.attrs.get("source"):
        received += f", evaluated from {source}"
    raise InvalidInputError(lack, what, received, allowed, remedy)
