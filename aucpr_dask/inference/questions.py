"""From data and a question to answers: check, evaluate what is still to be evaluated, and answer for each data set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import dask
import numpy as np
import xarray as xr

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.evaluation.api import evaluate_dataset
from aucpr_dask.inference.classes import means_over_classes
from aucpr_dask.inference.covarying import (
    COMPARED_BY,
    COVARIANCE_OPTIONS,
    OTHER_MODEL,
    covariance,
    products_of_models,
    variances_of_models,
)
from aucpr_dask.inference.designs import (
    BOTH,
    COMPARED,
    HAS_SCORES,
    ITEM_RESAMPLES,
    ITEMS,
    RANDOM_EFFECTS,
    SCORED,
    UNITS,
    are_values,
)
from aucpr_dask.inference.machine_labels import machine_nodes, of_machine, refuse_other_samples
from aucpr_dask.inference.paired_samples import PairedSample, paired_sample
from aucpr_dask.inference.requirements import (
    check,
    refuse_different_items,
    refuse_unknown_options,
    require_replicates,
    warn_of_repeated_items,
)
from aucpr_dask.inference.samples import (
    DATASET,
    DIFFERENCE_VARIANCE,
    REPLICATE,
    SIZE,
    chosen,
    complete_units,
    stack_data_sets,
)
from aucpr_dask.inference.swapping import with_ranks
from aucpr_dask.schema.checks import choose
from aucpr_dask.schema.estimators import WITH_INFLUENCE
from aucpr_dask.schema.options import MISSING, ComparisonOptions, EvaluationOptions
from aucpr_dask.schema.terms import ITEM, MODEL, QUERY, RESAMPLE, Scores, map_nodes, nodes_of
from aucpr_dask.scores.validate import shared_by_models, validated_scores

LEAST_QUERIES = 10  # of a data set, for the variance between them to be known
SET_HERE = ("estimators", "intervals", "keep_replicates")  # options of an evaluation that a comparison sets


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Add the name of the data set, if it has one, to an error."""
    try:
        yield
    except InvalidInputError as error:
        if not path:
            raise
        raise error.with_part("data set", repr(path)) from error


def unit_dim(node: xr.Dataset) -> str | None:
    """Return the dimension of the units of one data set: its queries, if it has any."""
    return QUERY if QUERY in node["estimate"].dims else None


def answer(
    data: Scores,
    question: ComparisonOptions,
    options: Mapping[str, Any],
    reply: Callable[[PairedSample], xr.Dataset],
    *,
    auxiliary: Scores | None = None,
    without: tuple[str, ...] = (),
) -> Scores:
    """Answer a question for every data set, or for all together if they are the units.

    `options` are those of an evaluation, except for names in `without`; `reply` says what a sample shows.
    """
    if auxiliary is not None:
        refuse_other_samples(question)
    results = results_for(data, question, options, without=without)
    machines: dict[str, xr.Dataset] = {}
    if auxiliary is not None:
        with of_machine():
            machines = machine_nodes(results, results_for(auxiliary, question, options), question.over)
    if question.over == DATASET:
        return reply(paired_sample(results, DATASET, question, machines.get("")))

    def answer_node(path: str, node: xr.Dataset) -> xr.Dataset:
        with naming(path):
            return reply(paired_sample(node, unit_dim(node), question, machines.get(path)))

    return map_nodes(results, answer_node)


def results_for(
    data: Scores, question: ComparisonOptions, options: Mapping[str, Any], *, without: tuple[str, ...] = ()
) -> Any:
    """Return results with all that the question needs; data sets are stacked if they are the units."""
    refuse_unknown_options(options, ComparisonOptions, without=(*SET_HERE, *without))
    is_scores = check(data, question, options)
    if is_scores:
        data = map_nodes(data, shared_by_models)
    if question.method == "rank_swap":
        return _with_ranks(data, question, options, is_scores=is_scores)
    if question.method == "influence":
        return _with_covariance(data, question, options, is_scores=is_scores)
    results = _evaluated(data, question, options) if is_scores else data
    for path, node in nodes_of(results):
        refuse_different_items(path, node)
    results = means_over_classes(results, question.incomplete)
    if question.over != DATASET:
        return results
    if question.method == RANDOM_EFFECTS:
        results = map_nodes(results, lambda path, node: _with_variances(path, node, question))
    return stack_data_sets(results, question.incomplete).assign_attrs(_counts_of_items(results))


def with_random_effects(data: Scores, question: ComparisonOptions, options: Mapping[str, Any]) -> ComparisonOptions:
    """Return the question with random effects as its method, if it has none and the variances in data sets are known.

    Values of a measure have none. In data sets with queries, they are those between the queries.
    """
    if question.over != DATASET or question.method is not None or question.sample not in (None, UNITS):
        return question
    nodes = [node for _, node in nodes_of(data)] if isinstance(data, xr.DataTree) else []
    of_items = question.estimator in (None, *WITH_INFLUENCE) and set(options) <= set(COVARIANCE_OPTIONS)

    def is_known(node: xr.Dataset) -> bool:
        found = node.get("estimate", node.get("score"))
        if found is None or are_values(node):
            return False
        if QUERY in found.dims:
            return found.sizes[QUERY] >= LEAST_QUERIES
        if "estimate" in node:
            return bool({REPLICATE, DIFFERENCE_VARIANCE} & set(node))
        return of_items and not ("label" in node and MODEL in node["label"].dims)

    return replace(question, method=RANDOM_EFFECTS) if nodes and all(map(is_known, nodes)) else question


def _with_variances(path: str, node: xr.Dataset, question: ComparisonOptions) -> xr.Dataset:
    """Add the size of a data set, and the variances of differences by queries, or influences or replicates of items.

    What has variances and nothing that they come from keeps them.
    """
    if "covariance" in node:
        covariances, size = node["covariance"], node["n_effective"].min(MODEL)
    elif DIFFERENCE_VARIANCE in node:
        return node
    elif QUERY in node["estimate"].dims:
        drawn = chosen(complete_units(node, QUERY, question.incomplete, path)["estimate"], question.estimator)
        drawn = drawn.isel({QUERY: np.flatnonzero(drawn.notnull().any(MODEL))})
        size = xr.DataArray(float(drawn.sizes[QUERY]))
        covariances = _covariances(drawn, QUERY) / size
    else:
        require_replicates(node, f"method={RANDOM_EFFECTS!r}")
        covariances, size = _covariances(chosen(node[REPLICATE], question.estimator), RESAMPLE), node["n_positive"]
        size = size.min(MODEL) if MODEL in size.dims else size
    own = variances_of_models(covariances)
    squares = own + own.rename({MODEL: OTHER_MODEL}) - 2 * covariances
    return node.assign({DIFFERENCE_VARIANCE: squares.clip(min=0.0), SIZE: size.astype(np.float64)})


def _covariances(drawn: xr.DataArray, dim: str) -> xr.DataArray:
    """Return the covariances of models over `dim`."""
    deviations = drawn.astype(np.float64) - drawn.mean(dim, skipna=False)
    products = products_of_models(deviations.rename({dim: "unit"}).transpose(MODEL, "unit"))
    return products / (drawn.sizes[dim] - 1)


def parted_options(
    options: dict[str, Any], *, without: tuple[str, ...], **own: Any
) -> tuple[ComparisonOptions, dict[str, Any]]:
    """Part the options of a comparison from those of an evaluation."""
    refuse_unknown_options(options, ComparisonOptions, without=(*SET_HERE, *without, *own))
    rest = {name: value for name, value in options.items() if name not in ComparisonOptions.__dataclass_fields__}
    asked = {name: value for name, value in options.items() if name not in rest} | own
    question = ComparisonOptions(**asked).checked()
    return question, rest


def _evaluated(scores: Scores, question: ComparisonOptions, options: Mapping[str, Any]) -> Scores:
    """Evaluate scores, with replicates if the items are sampled."""
    plain: dict[str, Any] = {"estimators": (question.estimator or "average_precision",), "intervals": (), **options}
    n_resamples = question.n_resamples or ITEM_RESAMPLES
    resampled = plain | {"keep_replicates": True, "seed": question.seed, "n_resamples": n_resamples}
    over_units, over_items = EvaluationOptions.of(**plain), EvaluationOptions.of(**resampled)
    scores = validated_scores(scores, positive_from=over_units.positive_from)

    of_items = question.estimator in (None, *WITH_INFLUENCE) and set(options) <= set(COVARIANCE_OPTIONS)

    def evaluate_node(path: str, node: xr.Dataset) -> xr.Dataset:
        # Replicates are many times as much work as estimates, so only where the items are the sample.
        has_units = question.over == DATASET or QUERY in node["score"].dims
        within = question.method == RANDOM_EFFECTS and QUERY not in node["score"].dims
        are_sampled = within or question.sample in (ITEMS, BOTH) or (question.sample is None and not has_units)
        if are_sampled:
            warn_of_repeated_items(path, node, options.get("unit"))
        asks_items = question.method is None and question.sample != BOTH and question.over != DATASET
        by_influence = of_items and (within or asks_items)
        if are_sampled and by_influence and not ("label" in node and MODEL in node["label"].dims):
            result = covariance(node, plain["estimators"][0], **options)
        else:
            result = evaluate_dataset(node, path, over_items if are_sampled else over_units)
        return result.assign_attrs(_counts_of_items(node) | {HAS_SCORES: True})

    return map_nodes(on_common_items(scores, over_units.missing), evaluate_node)


def _with_covariance(
    data: Scores, question: ComparisonOptions, options: Mapping[str, Any], *, is_scores: bool
) -> Scores:
    if not is_scores and not all(set(node) >= COMPARED_BY for _, node in nodes_of(data)):
        what = "method='influence' needs the scores, or what aucpr_dask.covariance returns"
        received = "a result without " + ", ".join(map(repr, sorted(COMPARED_BY)))
        raise InvalidInputError(what, received=received, remedy="pass the scores in place of the result")
    if question.over == DATASET:
        remedy = "with the data sets fixed, sample='items' and method='bootstrap'"
        what = "method='influence' compares models within a data set"
        raise InvalidInputError(what, received="over='dataset'", remedy=remedy)
    if not is_scores:
        for path, node in nodes_of(data):
            refuse_different_items(path, node)
        return data
    if unused := [name for name in options if name not in COVARIANCE_OPTIONS]:
        allowed, remedy = ", ".join(COVARIANCE_OPTIONS), "method='bootstrap' takes all options of an evaluation"
        what = "method='influence' has no such option"
        raise InvalidInputError(what, None, ", ".join(map(repr, unused)), allowed, remedy)
    for path, node in nodes_of(data):
        warn_of_repeated_items(path, node, options.get("unit"))
    data = on_common_items(data, options.get("missing", "raise"))
    result = covariance(data, question.estimator or "average_precision", **options)
    counts = {path: _counts_of_items(node) for path, node in nodes_of(data)}
    return map_nodes(result, lambda path, node: node.assign_attrs(counts[path]))


def _with_ranks(data: Scores, question: ComparisonOptions, options: Mapping[str, Any], *, is_scores: bool) -> Scores:
    if not is_scores or question.over == DATASET:
        what, received = "method='rank_swap' swaps the ranks of items within a data set", "a result"
        received = received if not is_scores else "over='dataset'"
        raise InvalidInputError(what, None, received, "scores", "pass the scores, and leave out over")
    scores = validated_scores(data, positive_from=options.get("positive_from"))
    return map_nodes(scores, lambda path, node: with_ranks(path, node, question.estimator, options))


def on_common_items(scores: Scores, missing: str) -> Scores:
    """Under ``missing="drop"``, hide from all models the items that some model lacks, and count both.

    An area depends on the prevalence, so areas over different items differ even between equally good models. A model
    without any score of a ranking does not count: it has no estimate there.
    """
    if choose(MISSING, missing, "missing") != "drop":
        return scores

    def hide(_: str, node: xr.Dataset) -> xr.Dataset:
        if MODEL not in node["score"].dims or ("label" in node and MODEL in node["label"].dims):
            return node  # one model, or each has its own list
        is_scored = node["score"].notnull()
        is_common = (is_scored | ~is_scored.any(ITEM)).all(MODEL)
        by_any = is_scored.any(MODEL)
        counts = dask.compute((is_common & by_any).sum().data, by_any.sum().data)
        hidden = node.assign(score=node["score"].where(is_common)).drop_vars("n_missing", errors="ignore")
        return hidden.assign_attrs(dict(zip((COMPARED, SCORED), map(int, counts), strict=True)))

    return map_nodes(scores, hide)


def _counts_of_items(data: Scores) -> dict[str, int]:
    """Return how many items of all data sets together were compared and scored, if they were counted."""
    nodes = [node for _, node in nodes_of(data)]
    return {name: sum(node.attrs[name] for node in nodes) for name in (COMPARED, SCORED) if name in nodes[0].attrs}
