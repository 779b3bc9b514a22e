"""From data and a question to answers: check, evaluate what is still to be evaluated, and answer for each data set."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache, partial
from itertools import product
from typing import Any, TypeVar

import numpy as np
import xarray as xr

from aucpr_dask.errors import InvalidInputError, clash, naming
from aucpr_dask.evaluation import alignment
from aucpr_dask.evaluation.api import evaluate, evaluate_dataset
from aucpr_dask.evaluation.groups import along_queries
from aucpr_dask.evaluation.rankings import warn_of_doubts
from aucpr_dask.evaluation.request import drawn_unit
from aucpr_dask.evaluation.results import counted_positives, group_dims, groups_as_data_sets, known_scores
from aucpr_dask.inference import averages, covarying, designs, machine_labels, requirements, samples, sentences
from aucpr_dask.inference.methods import POSITIVE, RANK, SWAPPED
from aucpr_dask.inference.paired_samples import PairedSample, paired_sample
from aucpr_dask.schema import terms
from aucpr_dask.schema.estimators import WITH_INFLUENCE
from aucpr_dask.schema.options import READINGS, ComparisonOptions, EvaluationOptions, SampleOptions
from aucpr_dask.schema.terms import CLASS, FOLD, ITEM, MODEL, QUERY, Scores, map_nodes, nodes_of
from aucpr_dask.scores.copies import warn_of_copies
from aucpr_dask.scores.long_form import to_tree
from aucpr_dask.scores.validate import shared_by_models, validated_scores, where_of

Question = TypeVar("Question", bound=SampleOptions)

HELD_BYTES = 2**30  # of results of scores, computed in one pass
DOUBTFUL = 0.5  # share of the rankings of a model: few items may well have two scores, or stand in any order
LEAST_QUERIES = 10  # of a data set, for the variance between them to be known
# With groups, these hold for all together; groups of models not told apart go by simultaneous rank sets.
OF_FAMILY = ("simultaneous_interval", "simultaneous_rank_interval", "first_group", "last_group")
FACTS_OF_FAMILY = ("n_groups", "quantile")
COUNTED = (designs.COMPARED, designs.SCORED, designs.UNSCORED, designs.UNSCORED_POSITIVE)
SWAP_OPTIONS = ("positive_from", "unjudged", "over")


def unit_dim(node: xr.Dataset, question: ComparisonOptions | None = None) -> str | None:
    """Return the dimension of the units of one data set: the one that is asked for, or its queries, if it has any.

    For their own test, folds are the units.
    """
    dims = node["estimate"].dims
    if FOLD in dims:
        return FOLD
    asked = QUERY if question is None else question.dim
    if asked in dims or question is None or not question.dims or question.sample is None:
        return asked if asked in dims else None
    raise requirements.without_dimension(node["estimate"], asked)


def answer(
    data: Scores,
    question: ComparisonOptions,
    options: Mapping[str, Any],
    reply: Callable[[PairedSample], xr.Dataset],
    *,
    auxiliary: Scores | None = None,
    joint: float | None = None,
    is_joint: bool = False,
) -> Scores:
    """Answer a question for every data set, or for all together if they are the units.

    `options` are those of an evaluation; `reply` says what a sample shows, and `is_joint` that it needs a method with
    joint replicates. With `joint`, what holds for a family is at this level.
    """
    if question.dim == samples.DATASET:
        data = groups_as_data_sets(data)
    if auxiliary is not None:
        machine_labels.refuse_other_samples(question)
        for path, node in nodes_of(data):
            requirements.refuse_dependent_queries(path, node)
    elif not is_joint:
        question = with_default_method(data, question, options)
    results = results_for(data, question, options)
    machines: dict[str, xr.Dataset] = {}
    if auxiliary is not None:
        with naming("evaluation", "machine"):
            machines = machine_labels.machine_nodes(results, results_for(auxiliary, question, options), question.dim)
    if question.dim == samples.DATASET:
        return reply(paired_sample(results, samples.DATASET, question, machines.get("")))

    def answer_node(path: str, node: xr.Dataset) -> xr.Dataset:
        with naming("data set", path and repr(path)):
            sample = paired_sample(node, unit_dim(node, question), question, machines.get(path))
            found = reply(sample)
            if joint is None:
                return found
            of_all = reply(sample.at_level(joint))
            facts = {name: of_all.attrs[name] for name in FACTS_OF_FAMILY if name in of_all.attrs}
            joint_ones = {one: found[one].copy(data=of_all[one].data) for one in OF_FAMILY if one in found}
            return found.assign(joint_ones).assign_attrs(facts)

    answers: Scores = map_nodes(results, answer_node)
    return sentences.with_families(answers)


def prepared(
    data: Scores, question: ComparisonOptions, options: Mapping[str, Any], by: Any = None
) -> tuple[Scores, ComparisonOptions, dict[str, Any], Any]:
    """Return what answers a question: the data, or where these are results without what it takes, their scores.

    Also return the question as the data have it, the options of an evaluation, and the groups.
    """
    nodes = dict(nodes_of(data)) if isinstance(data, xr.Dataset | xr.DataTree) else {}
    for path, node in nodes.items():
        if "estimate" in node:
            requirements.refuse_estimates_of_other_kinds(path, node)
    question = without_usual_units(question, nodes.values())
    if question.dim == samples.DATASET and by is None and samples.along_items(data, question.dims):
        return to_tree(data), question, dict(options), by
    if question.dim == samples.DATASET and isinstance(data, xr.Dataset) and samples.DATASET not in group_dims(data):
        data = groups_as_data_sets(data)
        nodes = dict(nodes_of(data))
    of_queries = [along_queries(node, by)[0] for node in nodes.values()]
    is_plain = by is None or all(of_queries)
    if not nodes or not all("estimate" in node for node in nodes.values()) or options or not is_plain:
        return data, question, dict(options), by
    if not any(_lacks_items(node, question) for node in nodes.values()):
        return data, question, {}, by
    if (known := scores_behind(data)) is None:
        refuse_drawn_otherwise(data, question)
        return data, question, {}, by
    first = next(iter(nodes.values()))
    of_units = question.names or (question.over is None and QUERY in first["estimate"].dims)
    asked = question.over if of_units else first.attrs.get("sampled", ITEM + "s")
    estimator = question.estimator or next(iter(designs.estimators_of(first)), None)
    question = replace(question, over=asked, estimator=estimator)
    scores, reading = known
    groups = [*of_queries[0], *(name for name, _ in reading.get("by", ()) if name not in question.dims)]
    return prepared(scores, question, evaluated_with(first.attrs), groups or None)


def without_usual_units(question: Question, nodes: Collection[xr.Dataset]) -> Question:
    """Return a question that doesn't name units that vary by default: queries in clusters, and items of classes."""
    in_clusters = ("cluster" in node and QUERY in node["cluster"].dims for node in nodes)
    are_usual = {"clusters": in_clusters, CLASS: map(requirements.has_classes, nodes)}
    is_usual = bool(nodes) and question.over in are_usual and all(are_usual[question.over])
    return replace(question, over=None) if is_usual else question


def scores_behind(results: Scores) -> tuple[Scores, dict[str, Any]] | None:
    """Return the scores of results, if they are known and still give these estimates, and how they were read."""
    scores = known_scores(results)
    nodes = dict(nodes_of(results))
    if scores is None or any(QUERY in str(node.attrs.get("by")).split(", ") for node in nodes.values()):
        return None  # queries that are a coordinate of the items
    first = next(iter(nodes.values()))
    names, reading = designs.estimators_of(first), evaluated_with(first.attrs)
    kept = {dim for _, node in nodes_of(scores) for dim in node["score"].dims}
    groups = tuple((name, None) for name in group_dims(first) if name not in kept)
    reading |= {"over": first.attrs.get("sampled")} | ({"by": groups} if groups else {})
    reading["estimator"] = names if terms.ESTIMATOR in first["estimate"].dims else names[0]
    if any(node["estimate"].chunks is not None for node in nodes.values()):
        return scores, reading  # lazy results, from stores whose digests say whether they are the same
    again = dict(nodes_of(evaluate(scores, interval=(), **reading)))
    for path, node in nodes.items():
        found, known = xr.align(again[path]["estimate"], node["estimate"], join="right")
        if not found.compute().transpose(*known.dims).reset_coords(drop=True).equals(known.reset_coords(drop=True)):
            return None
    return scores, reading


def _lacks_items(node: xr.Dataset, question: ComparisonOptions) -> bool:
    """Return whether a question about items is asked of a result that does not hold what it takes."""
    dims = set(node["estimate"].dims)
    if designs.are_values(node) or question.method == designs.CORRECTED:
        return False
    if requirements.lacking_items(node):  # its models were evaluated on different items
        return True
    if question.dim == samples.DATASET and question.method is None and question.sample in (None, designs.UNITS):
        return not ({QUERY, FOLD} & dims or {samples.REPLICATE, samples.DIFFERENCE_VARIANCE} & set(node))
    if not _is_about_items(node["estimate"], question):
        return False
    if is_drawn_otherwise(node, question):
        return True
    if set(node) >= covarying.COMPARED_BY:
        return question.method not in (None, "influence")
    return samples.REPLICATE not in node or question.method in ("influence", "rank_swap")


def _is_about_items(found: xr.DataArray, question: ComparisonOptions) -> bool:
    """Whether items vary: because the question says so, or because these estimates or scores have no units."""
    has_units = question.dim == samples.DATASET or bool({QUERY, FOLD, *question.dims} & set(found.dims))
    return question.sample in (designs.ITEMS, designs.BOTH) or (question.sample is None and not has_units)


def is_drawn_otherwise(node: xr.Dataset, question: SampleOptions) -> bool:
    """Return whether a question has items vary, and a result clusters of them, or the other way round."""
    sampled = node.attrs.get("sampled") if "estimate" in node else None
    return question.drawn is not None and sampled is not None and question.drawn != sampled


def refuse_drawn_otherwise(results: Scores, question: SampleOptions) -> None:
    """Raise if something else varies in results than a question asks."""
    for path, node in nodes_of(results):
        if is_drawn_otherwise(node, question):
            what, received = f"in this result {node.attrs['sampled']} vary", f"over={question.drawn!r}"
            remedy = "pass the scores in place of the result"
            raise InvalidInputError(what, where_of(path), received, repr(node.attrs["sampled"]), remedy)


def evaluated_with(attrs: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the options with which scores are compared as a result of these attributes was evaluated."""
    defaults = EvaluationOptions().as_parameters()
    options = {
        name: value
        for name, value in attrs.items()
        if name in defaults and name not in {"by", "level", "estimator", "seed", "n_resamples", "n_folds", "over"}
        if (list(value) if np.iterable(value) and not isinstance(value, str) else value) != defaults[name]
    }
    return options | {"prevalence_design": attrs.get("prevalence_design", "fixed")}


def results_for(data: Scores, question: ComparisonOptions, options: Mapping[str, Any]) -> Any:
    """Return results with all that the question needs; data sets are stacked if they are the units."""
    is_scores = requirements.check(data, question, options)
    if is_scores:
        data = map_nodes(data, shared_by_models)
        options = {**options, **question.unit}
    if question.method in EVALUATED:
        found = EVALUATED[question.method](data, question, options, is_scores=is_scores)
        return _in_one_pass(found) if is_scores else found
    are_units, has_variances = question.dim == samples.DATASET, question.method == designs.RANDOM_EFFECTS

    def with_units(path: str, node: xr.Dataset) -> xr.Dataset:
        """Return what the question takes of one data set, over its units."""
        if question.dims and {QUERY, samples.DATASET, CLASS}.isdisjoint(question.dims):
            node = samples.mean_over_queries(node, path, question.incomplete)
        if len(question.dims) > 1:  # the units are cells of these dimensions, named by their labels
            for name in question.dims:
                if name not in node["estimate"].dims:
                    raise requirements.without_dimension(node["estimate"], name)
            labels = product(*(map(str, samples.labels_of(node["estimate"], name)) for name in question.dims))
            names = [", ".join(one) for one in labels]
            node = node[[name for name in samples.AVERAGED if name in node]].drop_vars(question.dims, errors="ignore")
            node = node.stack({question.dim: question.dims}, create_index=False).assign_coords({question.dim: names})
        requirements.refuse_different_items(path, node)
        if question.method == designs.CORRECTED:
            return averages.areas_of_folds(node, path)
        if are_units and question.sample in (None, designs.UNITS) and not has_variances:
            node = averages.without_repeats(node)  # the spread of the data sets shows what items and training do
        evaluated = averages.compared_by_replicates(path, node, question.estimator)
        node = averages.mean_over_classes(evaluated, "macro", question.incomplete, path)
        if are_units:
            return _with_variances(path, node, question, evaluated) if has_variances else node
        if question.over not in (None, "clusters"):
            return node  # queries asked for by name count one by one
        return samples.clusters_as_units(node, question.estimator, question.incomplete, path)

    evaluated = _in_one_pass(_evaluated(data, question, options)) if is_scores else data
    results = map_nodes(evaluated, with_units)
    if not are_units or question.method == designs.CORRECTED:
        return results
    return samples.stack_data_sets(results, question.incomplete).assign_attrs(counts_of_items(results))


def _in_one_pass(results: Scores) -> Scores:
    """Compute lazy results of scores once, if memory allows, and warn of models with doubtful scores."""
    nodes = dict(nodes_of(results))
    found = {(path, name): node.variables[name] for path, node in nodes.items() for name in node.data_vars}
    lazy = {place: one for place, one in found.items() if one.chunks}
    if lazy and sum(node.nbytes for node in nodes.values()) <= HELD_BYTES:
        import dask

        (computed,) = dask.compute({place: one.data for place, one in lazy.items()})
        for (path, name), data in computed.items():
            nodes[path] = nodes[path].assign({name: lazy[path, name].copy(data=data)})
    warn_of_doubtful_models(nodes.values())
    return map_nodes(results, lambda path, _: nodes[path])


def warn_of_doubtful_models(results: Iterable[xr.Dataset]) -> None:
    """Warn of models whose scores look like something else in most of their rankings, by the flags of results."""
    flags: dict[str, list[Any]] = {}
    for node in results:
        raised = node.variables["flags"]
        if MODEL not in raised.dims or raised.chunks is not None:
            continue
        of_models = raised.transpose(MODEL, ...).values.reshape(node.sizes[MODEL], -1)
        for model, row in zip(samples.labels_of(node, MODEL), of_models, strict=True):
            flags.setdefault(str(model), []).append(row)
    warn_of_doubts({model: np.concatenate(rows) for model, rows in flags.items()}, least=DOUBTFUL)


def with_default_method(data: Scores, question: ComparisonOptions, options: Mapping[str, Any]) -> ComparisonOptions:
    """Return the question with the method for folds, or for data sets whose variances are known, if it has none.

    Values of a measure have none. In data sets with queries, they are those between the queries.
    """
    if question.weights != "equal":
        if question.dim != samples.DATASET or question.method not in (None, designs.RANDOM_EFFECTS):
            what = "weights are those of data sets whose variances are known"
            given = {"weights": question.weights, "over": question.over, "method": question.method}
            raise clash(what, "leave out weights, or give over='dataset' alone", "over='dataset'", **given)
        return replace(question, method=designs.RANDOM_EFFECTS)
    is_open = question.method is None and question.sample in (None, designs.UNITS)
    if not is_open or not isinstance(data, xr.Dataset | xr.DataTree):
        return question
    if any("estimate" in node and FOLD in node["estimate"].dims for _, node in nodes_of(data)):
        return replace(question, method=designs.CORRECTED)
    if question.dim != samples.DATASET:
        return question
    nodes = [node for _, node in nodes_of(data)]
    of_items = question.estimator in (None, *WITH_INFLUENCE) and set(options) <= set(covarying.COVARIANCE_OPTIONS)

    def is_known(node: xr.Dataset) -> bool:
        found = node.get("estimate", node.get("score"))
        if found is None or designs.are_values(node):
            return False
        if QUERY in found.dims:
            return found.sizes[QUERY] >= LEAST_QUERIES
        if "estimate" in node:
            return bool({samples.REPLICATE, samples.DIFFERENCE_VARIANCE} & set(node))
        return of_items and not ("label" in node and MODEL in node["label"].dims)

    return replace(question, method=designs.RANDOM_EFFECTS) if nodes and all(map(is_known, nodes)) else question


def _with_variances(path: str, node: xr.Dataset, question: ComparisonOptions, evaluated: xr.Dataset) -> xr.Dataset:
    """Add the size of a data set, and the variances of differences by queries, or influences or replicates of items.

    What has variances and nothing that they come from keeps them.
    """
    if "covariance" in node:
        found, size = node["covariance"], node["n_effective"]
    elif samples.DIFFERENCE_VARIANCE in node:
        return node
    elif QUERY in node["estimate"].dims:
        complete = samples.complete_units(samples.of_models_here(node), QUERY, question.incomplete, path)
        drawn = samples.chosen(complete["estimate"], question.estimator)
        drawn = drawn.isel({QUERY: np.flatnonzero(drawn.notnull().any(MODEL))})
        size = xr.DataArray(float(drawn.sizes[QUERY]))
        found = covarying.covariances(drawn, QUERY) / size
    else:
        requirements.require_replicates(node, f"method={designs.RANDOM_EFFECTS!r}")
        found = covarying.covariances(samples.chosen(node[samples.REPLICATE], question.estimator), terms.RESAMPLE)
        size = evaluated[counted_positives(evaluated)]
        size = size.mean(CLASS) if CLASS in size.dims else size
    squares = covarying.squares_of_differences(found)
    if covarying.OF_REPEAT in node:
        of_repeat = samples.chosen(node[covarying.OF_REPEAT], question.estimator)
        squares = squares + averages.training_variance(of_repeat, node.attrs.get(terms.N_FOLDS))
    return node.assign({samples.DIFFERENCE_VARIANCE: squares, samples.SIZE: size.astype(np.float64)})


def parted_options(options: Mapping[str, Any], **own: Any) -> tuple[ComparisonOptions, dict[str, Any]]:
    """Part the options of a comparison from those of an evaluation."""
    rest = {name: value for name, value in options.items() if name not in ComparisonOptions.__dataclass_fields__}
    asked = {name: value for name, value in options.items() if name not in rest} | own
    question = ComparisonOptions(**asked).checked()
    return question, rest


def _evaluated(scores: Scores, question: ComparisonOptions, options: Mapping[str, Any]) -> Scores:
    """Evaluate scores, with replicates if the items are sampled."""
    plain: dict[str, Any] = {"estimator": (question.estimator or "average_precision",), "interval": (), **options}
    n_resamples = question.n_resamples or designs.ITEM_RESAMPLES
    resampled = plain | {"keep_replicates": True, "seed": question.seed, "n_resamples": n_resamples}
    over_units, over_items = EvaluationOptions.of(**plain), cache(partial(EvaluationOptions.of, **resampled))
    scores = validated_scores(scores, positive_from=over_units.positive_from)
    scores = on_common_items(scores, question, over_units)
    if by := [FOLD] if question.method == designs.CORRECTED else samples.along_items(scores, question.dims):
        asked = plain | {"by": by}
        of_groups: Scores = evaluate(scores, **asked)
        counts = {path: counts_of_items(node) for path, node in nodes_of(scores)}
        return map_nodes(of_groups, lambda path, node: node.assign_attrs(counts[path]))
    of_items = question.estimator in (None, *WITH_INFLUENCE) and set(options) <= set(covarying.COVARIANCE_OPTIONS)

    def evaluate_node(path: str, node: xr.Dataset) -> xr.Dataset:
        # Replicates are many times as much work as estimates, so only where the items are the sample.
        within = question.method == designs.RANDOM_EFFECTS and QUERY not in node["score"].dims
        are_sampled = within or _is_about_items(node["score"], question)
        if are_sampled:
            warn_of_copies({path: node}, options.get("over"), reads=True)
        asks_items = question.method is None and question.sample != designs.BOTH and question.dim != samples.DATASET
        by_influence = of_items and (within or asks_items)
        if are_sampled and by_influence and not ("label" in node and MODEL in node["label"].dims):
            result = covarying.of_influences(covarying.influences_of_node(path, node, over_units))
        else:
            result = evaluate_dataset(node, path, over_items() if are_sampled else over_units)
        return result.assign_attrs(counts_of_items(node) | {designs.HAS_SCORES: True})

    return map_nodes(scores, evaluate_node)


def _with_covariance(
    data: Scores, question: ComparisonOptions, options: Mapping[str, Any], *, is_scores: bool
) -> Scores:
    if not is_scores and not all(set(node) >= covarying.COMPARED_BY for _, node in nodes_of(data)):
        what = "method='influence' needs the scores, or what aucpr_dask.covariance returns"
        received = "a result without " + ", ".join(map(repr, sorted(covarying.COMPARED_BY)))
        raise InvalidInputError(what, received=received, remedy="pass the scores in place of the result")
    if question.dim == samples.DATASET:
        what = "method='influence' compares models within a data set"
        raise InvalidInputError(what, received="over='dataset'", remedy="leave out method, or over")
    if not is_scores:
        for path, node in nodes_of(data):
            requirements.refuse_different_items(path, node)
        return data
    if unused := [name for name in options if name not in covarying.COVARIANCE_OPTIONS]:
        what, received = "method='influence' has no such option", ", ".join(map(repr, unused))
        remedy = "method='bootstrap' takes all options of an evaluation"
        raise InvalidInputError(what, None, received, ", ".join(covarying.COVARIANCE_OPTIONS), remedy)
    warn_of_copies(dict(nodes_of(data)), options.get("over"), reads=True)
    reading = {name: value for name, value in options.items() if name in READINGS}
    data = on_common_items(data, question, EvaluationOptions.of(**reading))
    result: Scores = covarying.covariance(data, question.estimator or "average_precision", **options)
    counts = {path: counts_of_items(node) for path, node in nodes_of(data)}
    return map_nodes(result, lambda path, node: node.assign_attrs(counts[path]))


def _with_ranks(data: Scores, question: ComparisonOptions, options: Mapping[str, Any], *, is_scores: bool) -> Scores:
    """Return the estimates of data sets, with what :class:`aucpr_dask.inference.methods.RankSwap` is made of."""
    from scipy.stats import rankdata  # its import takes half a second

    if not is_scores or question.dim == samples.DATASET:
        what, received = "method='rank_swap' swaps the ranks of items within a data set", "a result"
        received = received if not is_scores else "over='dataset'"
        raise InvalidInputError(what, None, received, "scores", "pass the scores, and leave out over")
    remedy = "method='influence', the default, takes them"  # what are no plain rankings of the same items by all models

    def swapped(path: str, scores: xr.Dataset) -> xr.Dataset:
        if question.estimator not in (None, "average_precision"):
            what = "swaps of ranks are known for average precision"
            raise InvalidInputError(what, "option 'estimator'", repr(question.estimator), "'average_precision'", remedy)
        if unknown := sorted(set(options) - set(SWAP_OPTIONS)):
            what, received = "method='rank_swap' has no such option", ", ".join(map(repr, unknown))
            raise InvalidInputError(what, where_of(path), received, ", ".join(SWAP_OPTIONS), remedy)
        dims = [dim for dim in scores["score"].dims if dim not in (MODEL, ITEM)]
        weights = [name for name in ("weight", "positive_weight", "negative_weight", "n_positive") if name in scores]
        own = ["label"] if "label" in scores and MODEL in scores["label"].dims else []
        if dims or weights or own:
            received = ", ".join([*(f"the dimension {dim!r}" for dim in dims), *weights, *own])
            what = "method='rank_swap' swaps the ranks of the items of one ranking"
            raise InvalidInputError(what, where_of(path), received, "score(model, item), label(item)", remedy)
        reading = {name: value for name, value in options.items() if name != "over"}
        checked = EvaluationOptions.of(estimator=("average_precision",), interval=(), **reading)
        result = evaluate_dataset(scores, path, checked)
        label = scores["label"].load()
        is_judged = (label >= 0) if checked.unjudged == "drop" else (label > -2)
        kept = scores.isel({ITEM: np.flatnonzero(is_judged)})
        by_cluster = drawn_unit(options.get("over"), scores) == "clusters"
        together = alignment.clusters_of(kept, path).values if by_cluster else np.arange(kept.sizes[ITEM])
        ranks = rankdata(kept["score"].transpose(MODEL, ITEM).values, axis=1)  # average ranks, as swaps need
        is_positive = kept["label"].values >= (checked.positive_from or 1)
        of_items = {RANK: ((MODEL, ITEM), np.rint(2 * ranks).astype(np.int64)), POSITIVE: (ITEM, is_positive)}
        found = result.assign(of_items | {SWAPPED: (ITEM, together)})
        return found.assign_attrs(sampled="clusters" if by_cluster else "items")

    scores = validated_scores(data, positive_from=options.get("positive_from"))
    warn_of_copies(dict(nodes_of(scores)), options.get("over"), reads=True)
    return map_nodes(scores, swapped)


EVALUATED = {"rank_swap": _with_ranks, "influence": _with_covariance}
"""The methods that need more of scores than estimates and their replicates."""


def on_common_items(scores: Scores, question: ComparisonOptions, options: EvaluationOptions) -> Scores:
    """Under ``missing="drop"``, hide from all models the items that some model lacks, and count what each costs.

    An area depends on the prevalence, so areas over different items differ even between equally good models. A model
    that scored no positive of a ranking does not count there: it has no estimate, of which `incomplete` decides. Models
    that this leaves out altogether do not count anywhere.
    """
    if options.missing != "drop":
        return scores
    shared = {
        path: node
        for path, node in nodes_of(scores)
        if MODEL in node["score"].dims and not ("label" in node and MODEL in node["label"].dims)
    }  # other models have a list each
    ranked, complete = dict[str, xr.DataArray](), dict[str, set[Any]]()
    for path, node in shared.items():  # of which rankings a model scored a positive, or an item where that is enough
        counts = node["score"].notnull() & _is_judged(node, options)
        if "n_positive" not in node and options.no_positives != "zero":
            counts = counts & _is_positive(node, options)
        one = ranked[path] = counts.any(ITEM).compute()
        is_complete = (one | ~one.any(MODEL)).all([dim for dim in one.dims if dim != MODEL]) & one.any()
        complete[path] = set(samples.labels_of(one, MODEL)[is_complete.values])
    if question.incomplete == "drop_models":
        everywhere = set.intersection(*complete.values()) if complete else set()
        for path, one in ranked.items():
            kept = everywhere if question.dim == samples.DATASET else complete[path]
            ranked[path] = one & xr.DataArray(samples.labels_of(one, MODEL).isin(kept), dims=MODEL)

    def hide(path: str, node: xr.Dataset) -> xr.Dataset:
        is_counted = designs.COMPARED in node.attrs  # these are hidden already
        return _hidden(node, ranked[path], options) if path in shared and not is_counted else node

    return map_nodes(scores, hide)


def _is_judged(node: xr.Dataset, options: EvaluationOptions) -> Any:
    return True if "label" not in node else node["label"] > (-1 if options.unjudged == "drop" else -2)


def _is_positive(node: xr.Dataset, options: EvaluationOptions) -> xr.DataArray:
    return node["label"] >= (options.positive_from or 1) if "label" in node else node["positive_weight"] > 0


def _hidden(node: xr.Dataset, ranked: xr.DataArray, options: EvaluationOptions) -> xr.Dataset:
    """Hide the items that some of the models lack that rank them, and count them in the attributes."""
    is_scored = node["score"].notnull()
    is_common = (is_scored | ~ranked).all(MODEL)
    by_any = (is_scored & ranked).any(MODEL) & _is_judged(node, options)
    by_none = ranked.any(MODEL) & ~is_scored.any(MODEL) & _is_judged(node, options)
    lost = by_any & ~is_scored & ranked
    dims = [dim for dim in lost.dims if dim != MODEL]
    found = {designs.COMPARED: (is_common & by_any).sum(), designs.SCORED: by_any.sum(), "items": lost.sum(dims)}
    found |= {designs.UNSCORED: by_none.sum(), designs.UNSCORED_POSITIVE: (by_none & _is_positive(node, options)).sum()}
    counts = xr.Dataset(found | {"positives": (lost & _is_positive(node, options)).sum(dims)}).compute()
    names = map(str, samples.labels_of(lost, MODEL))
    costs = zip(names, counts["items"].values.tolist(), counts["positives"].values.tolist(), strict=True)
    hidden = node.assign(score=node["score"].where(is_common)).drop_vars("n_missing", errors="ignore")
    kept = {name: int(counts[name]) for name in COUNTED}
    return hidden.assign_attrs(kept | {designs.COSTS: {name: tuple(cost) for name, *cost in costs}})


def counts_of_items(data: Scores) -> dict[str, Any]:
    """Return how many items of all data sets together were compared and scored, if they were counted, and who cost."""
    nodes = [node.attrs for _, node in nodes_of(data)]
    if not any(designs.COMPARED in attrs for attrs in nodes):
        return {}
    counts: dict[str, Any] = {name: sum(attrs.get(name, 0) for attrs in nodes) for name in COUNTED}
    costs: dict[str, tuple[int, int]] = {}
    for name, cost in (one for attrs in nodes for one in attrs.get(designs.COSTS, {}).items()):
        costs[name] = tuple(np.add(costs.get(name, (0, 0)), cost).tolist())
    return counts | {designs.COSTS: costs}
