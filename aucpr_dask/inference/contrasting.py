"""Contrasts between groups: whether a model, or the difference of two, is worse in one group than in another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple, Unpack

import numpy as np
import pandas as pd
import scipy
import xarray as xr
from numpy.typing import NDArray

from aucpr_dask.errors import AlignmentError, InvalidInputError, bad_argument, few
from aucpr_dask.evaluation import results
from aucpr_dask.evaluation.api import evaluate
from aucpr_dask.evaluation.arrays import takes_arrays
from aucpr_dask.evaluation.groups import along_queries, named_along_queries
from aucpr_dask.evaluation.request import drawn_unit
from aucpr_dask.inference import averages, covarying, designs, grouped, questions, requirements, samples, sentences
from aucpr_dask.inference.comparing import positions
from aucpr_dask.inference.pairs import parametric_p_values
from aucpr_dask.inference.units import Floats
from aucpr_dask.schema import checks, choices, terms
from aucpr_dask.schema.estimators import WITH_INFLUENCE, estimator_names
from aucpr_dask.schema.options import UNITS, takes
from aucpr_dask.schema.terms import MODEL, QUERY, REPEAT
from aucpr_dask.scores.validate import validated_scores

CENTRES = {"average_precision": "haldane"}  # what is contrasted in its place: its bias does not depend on the positives
OF_HALDANE = "; differences are of Haldane's areas, which few positives do not inflate"
OTHER = "other_"  # before the name of a grouping coordinate: the group that is contrasted with

DESCRIPTIONS = {
    "estimate": "Estimate of the model in the group.",
    "difference": "Value in the group minus that in the reference, or in the other group.",
    "standard_error": "Standard error of the difference.",
    "interval": "Confidence interval of the difference, each at the level on its own.",
    "simultaneous_interval": "Simultaneous confidence intervals of the differences of the family.",
    "p_value": "Two-sided p-value of the test that the groups do not differ, each on its own.",
    "p_adjusted": "P-value adjusted for all contrasts of all models.",
}


class _Group(NamedTuple):
    """What is known of each model, or of its difference from the baseline, in one group."""

    result: xr.Dataset  # the estimates
    value: Floats
    variance: Floats  # of the value
    n: Floats  # effective positives, clusters that hold some, or units
    degrees: Floats  # of freedom of the variance
    effect: Floats  # by how much clusters multiply the variance of items
    is_area: bool  # a single area, whose variance is moderated
    influence: Floats | None = None  # (model, cluster), if clusters are the sample
    clusters: pd.Index = pd.Index([])
    of_repeat: Floats | None = None  # (model, repeat), of a repeated cross-validation


@takes_arrays
@takes(choices.CurveReading)
def contrast(
    data: terms.Scores,
    by: Any,
    *,
    reference: Any = None,
    baseline: str | int | None = None,
    estimator: choices.SomeEstimator | None = None,
    over: choices.Unit | None = None,
    adjust: choices.AdjustmentOfPValues = "holm",
    level: float = 0.95,
    prevalence_design: choices.PrevalenceDesign = "random",
    **reading: Unpack[choices.Contrasting],
) -> terms.Scores:
    """Tell whether a model, or its gain over a baseline, differs between groups.

    With A and B the areas of a model in two groups, the difference is B - A; with a baseline, it is the difference of
    the two differences. Its variance is the sum of both, ``V = ((n - 1) s² + 10 m (1 - m) / n) / (n + 9)`` for an area
    of n positives with the standard error s by its influences, m being the mean of both areas. Intervals and p-values
    are Student's t with Welch's degrees of freedom from n + 9 of each group.

    The bias of average precision is larger where positives are few, so that a small group looks better than a large
    one. What is contrasted in its place is Haldane's area, which counts each positive in no precision of its own.

    Of repeats of a cross-validation, the means over the repeats are contrasted, and the variance between R repeats of k
    folds of their differences between two groups is added, times ``1 / R + k - 1``, as in :func:`compare`.

    Parameters
    ----------
    data : xarray.Dataset, xarray.DataTree or mapping
        Score data sets, or a result of them, in memory or unchanged in their store; or a result or values over (model,
        query), whose groups are those of the queries. Or a mapping of names to arrays of scores, with their labels
        behind it.
    by : str, array, mapping or sequence
        The groups, named as for :func:`aucpr_dask.evaluate`: by coordinates along the items or, where there are
        queries, along these. ``"dataset"`` names the data sets of a tree. Labels of other dimensions of scores are not
        contrasted: each has contrasts of its own.
    reference : label, or mapping of names to labels, optional
        The group that all others are contrasted with; by default, all pairs of groups are.
    baseline : label, optional
        Contrast the difference of each model from this one, in place of the model itself.
    estimator : str, optional
        One that has an influence function; the first of a result by default, ``"average_precision"`` of scores.
    over : {"items", "clusters"}, optional
        What is sampled; by default clusters where the scores have some. Clusters that lie in both groups pair them.
    adjust : {"holm", "benjamini_hochberg", "none"}
        Adjustment of p-values for all contrasts of all models, which are one family.
    level : float
        Confidence level of the intervals.
    prevalence_design : {"random", "fixed"}
        See :func:`aucpr_dask.evaluate`.
    prevalence : float, optional
        Prevalence at which all groups are compared. Without it, average precision is higher in a group of higher
        prevalence, because its level of chance is; the summary says where prevalences differ.
    missing, unjudged, positive_from
        See :func:`aucpr_dask.estimate`. With a baseline, ``missing="drop"`` takes the items that both models scored.

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        Over (model, group), each grouping coordinate being a dimension, or (model, group, other_group) without a
        reference: ``difference``, ``standard_error``, ``interval`` and ``simultaneous_interval`` (with ci_bound),
        ``p_value`` and ``p_adjusted``; also ``estimate(model, group)`` and, of scores, ``n_positive``, ``n_negative``
        and ``prevalence`` of each group. The attribute ``summary`` says where models differ, ``design`` what was
        sampled, and ``groups_left_out`` which groups have no answer.

    Raises
    ------
    InvalidInputError
        If there is one group, the reference is none of them, the baseline is no model, or the estimator has no
        influence function.
    AlignmentError
        If groups have different models.

    References
    ----------
    Haldane 1945, doi:10.1093/biomet/33.3.222. Welch 1947, doi:10.1093/biomet/34.1-2.28.

    Examples
    --------
    >>> import numpy as np, aucpr_dask as ap
    >>> rng = np.random.default_rng(1)
    >>> label, site = np.arange(3000) % 10 == 0, np.arange(3000) % 3
    >>> score = rng.normal(size=3000) + np.where(site == 2, 1.0, 2.0) * label
    >>> found = ap.contrast({"forest": score}, label, by={"site": site}, reference=0)
    >>> found["difference"].values.round(2), found["p_adjusted"].values.round(4)
    (array([[ 0.  , -0.02, -0.38]]), array([[   nan, 0.7233, 0.    ]]))
    """
    question = _Question(
        reference=reference,
        baseline=baseline,
        estimator=None if estimator is None else checks.text(estimator, "estimator"),
        over=None if over is None else checks.choose(UNITS, over, "over"),
        adjust=checks.choose(designs.BY_P_VALUE, adjust, "adjust"),
        level=checks.confidence_level(level, "level"),
        reading={"prevalence_design": prevalence_design} | reading,
    )
    is_scores = requirements.are_scores(data, {name: one for name, one in reading.items() if one is not None})
    if not is_scores:
        data, question = _with_their_scores(data, by, question)
        is_scores = requirements.are_scores(data, {})
    if isinstance(data, xr.DataTree) and isinstance(by, str) and by == samples.DATASET:
        nodes = dict(terms.nodes_of(validated_scores(data, positive_from=0) if is_scores else data))
        index = pd.Index(list(nodes), name=samples.DATASET)
        of_tree = grouped.Parts({samples.DATASET: index}, [(path,) for path in nodes], list(nodes.values()))
        return _answer(of_tree, "", question, is_scores=is_scores)
    if is_scores:
        data = validated_scores(data, positive_from=0)
    else:
        requirements.require_results(data)

    def answer(path: str, node: xr.Dataset) -> xr.Dataset:
        kept = grouped.dims_of_family(node, ())
        parts = _parts(node, by, path, kept)
        grouped.refuse_names_of_answers(parts.indexes, path)
        return _answer(parts, path, question, is_scores=is_scores, kept=len(kept))

    return terms.map_nodes(data, answer)


@dataclass(frozen=True)
class _Question:
    reference: Any
    baseline: str | int | None
    estimator: str | None
    over: choices.Unit | None
    adjust: str
    level: float
    reading: Mapping[str, Any]


def _with_their_scores(data: terms.Scores, by: Any, question: _Question) -> tuple[terms.Scores, _Question]:
    """Return the scores of results of items, where they are known, and how these were read."""
    nodes = dict(terms.nodes_of(data)) if isinstance(data, xr.Dataset | xr.DataTree) else {}
    if not nodes or any("estimate" not in node or QUERY in node["estimate"].dims for node in nodes.values()):
        return data, question
    if any(map(designs.are_values, nodes.values())) or (known := questions.scores_behind(data)) is None:
        return data, question
    first = next(iter(nodes.values()))
    groups, named = results.group_dims(first), [by] if isinstance(by, str) else by
    if groups and isinstance(named, list | tuple) and set(groups) - {samples.DATASET, *map(str, named)}:
        what, remedy = "this result has other groups, too", "name all of them, or pass the scores"
        raise bad_argument(what, "by", by, few(map(repr, groups)), remedy)
    evaluated = questions.evaluated_with(first.attrs)
    if unknown := evaluated.keys() - choices.CurveReading.__annotations__.keys() - {"prevalence_design"}:
        what = "areas that were evaluated so have no influence function, which contrasts of groups of items need"
        received = few([f"{name}={evaluated[name]!r}" for name in sorted(unknown)])
        allowed, remedy = "the defaults of these options", "evaluate without them"
        raise InvalidInputError(what, "the result", received, allowed, remedy)
    given = {name: one for name, one in question.reading.items() if one not in (None, "random")}
    return known[0], replace(
        question,
        reading=evaluated | given,
        estimator=question.estimator or next(iter(designs.estimators_of(first)), None),
        over=question.over or first.attrs.get("sampled"),
    )


# --- the groups ----------------------------------------------------------------------------------------------------


def _parts(node: xr.Dataset, by: Any, path: str, kept: Sequence[str]) -> grouped.Parts:
    """Return the groups of items or, of several queries, those of the queries."""
    units = node["estimate" if "estimate" in node else "score"].dims
    if QUERY not in units:
        if "estimate" in node:
            what, remedy = "a result without queries does not say how its groups vary", "pass the scores in its place"
            raise InvalidInputError(what, path or None, few(map(str, node.data_vars)), "scores", remedy)
    elif kept:
        what, remedy = "groups of queries are contrasted in one data set", f"select a label: .sel({kept[0]}=...)"
        raise InvalidInputError(what, path or None, f"the dimension {kept[0]!r}", "models and queries", remedy)
    elif not along_queries(node, by)[0]:
        along = named_along_queries(node)
        what, remedy = "groups of queries are named by a coordinate along them", "assign_coords(kind=('query', labels))"
        raise bad_argument(what, "by", by, few(map(repr, along)) or "a coordinate along the queries", remedy)
    return grouped.parts_of(node, by, path)


def _known(part: xr.Dataset, question: _Question, *, is_scores: bool) -> _Group:
    """Return the estimates of one group, and what their differences from other groups need."""
    if not is_scores:
        return _of_units(part, question)
    names = estimator_names(question.estimator or "average_precision")
    if len(names) > 1 or names[0] not in WITH_INFLUENCE:
        what, remedy = "contrasts need an influence function", "name one of these"
        raise bad_argument(what, "estimator", question.estimator, ", ".join(WITH_INFLUENCE), remedy)
    reading: dict[str, Any] = {**question.reading, "over": question.over}
    result: Any = evaluate(part, estimator=names[0], interval=(), **reading)
    if QUERY in part["score"].dims:
        return _of_units(result, question)

    def influences(scores: xr.Dataset) -> Any:
        return covarying.influences(scores, CENTRES.get(names[0], names[0]), **reading)

    if question.baseline is None:
        alone = influences(part)
        kinds = ("influence", "item_influence" if "item_influence" in alone else "influence")
        own, items = (np.asarray(samples.sum_of_squares(alone[kind]).values) for kind in kinds)
        ratio = np.divide(own, items, out=np.ones_like(own), where=items > 0)
        return _group(part, result, alone, alone["estimate"].values, items, question, ratio)
    (place,) = positions(question.baseline, list(map(str, part.get_index(MODEL))))
    if reading.get("missing") != "drop":
        both = influences(part)
        return _differences(part, result, both, np.arange(part.sizes[MODEL]), place, question)
    # Every model is compared on the items that it shares with the baseline, whatever other models lack.
    each = []
    for model in range(part.sizes[MODEL]):
        pair: Any = part.isel({MODEL: [model, place] if model != place else [place]})
        pair = pair.assign(score=pair["score"].where(pair["score"].notnull().all(MODEL)))
        each.append(_differences(pair, result, influences(pair), np.array([0]), -1, question))
    arrays = ("value", "variance", "n", "degrees", "effect", "influence", "of_repeat")
    known = [name for name in arrays if getattr(each[0], name) is not None]
    joined = {name: np.concatenate([getattr(one, name) for one in each]) for name in known}
    return _Group(result, **joined, is_area=False, clusters=each[0].clusters)


def _differences(
    part: xr.Dataset, result: xr.Dataset, known: xr.Dataset, models: NDArray[Any], baseline: int, question: _Question
) -> _Group:
    """Return the differences of models from the baseline, with the variance by which `compare` judges them."""
    covariance = covarying.of_influences(known)
    values = known["estimate"].values
    variance = covariance["difference_variance"].values[models, baseline]
    difference, influence = values[models] - values[baseline], known["influence"]
    less = known.isel({MODEL: models})
    less = less.assign(influence=less["influence"] - influence[baseline])
    if covarying.OF_REPEAT in known:
        of_repeat = less[covarying.OF_REPEAT] - known[covarying.OF_REPEAT].isel({MODEL: baseline}, drop=True)
        less = less.assign({covarying.OF_REPEAT: of_repeat})
    return _group(part, result, less, difference, variance, question)


def _group(
    part: xr.Dataset,
    result: xr.Dataset,
    known: xr.Dataset,
    value: Floats,
    variance: Floats,
    question: _Question,
    ratio: Floats | None = None,
) -> _Group:
    """Return what is known of a group; of single areas, the `ratio` of the variance of clusters to that of items."""
    from aucpr_dask.kernels.intervals import design_effect

    n, ones, degrees = known["n_positive"].values, np.ones(value.size), known["degrees"].values
    of_repeat = known[covarying.OF_REPEAT].transpose(MODEL, REPEAT).values if covarying.OF_REPEAT in known else None
    if drawn_unit(question.over, part) != "clusters":
        return _Group(result, value, variance, n, degrees, ones, ratio is not None, of_repeat=of_repeat)
    held, clusters = known["n_effective"].values, pd.Index(pd.unique(np.asarray(part["cluster"])))
    effect = ones if ratio is None else np.maximum(design_effect(ratio, held), 1.0)
    influence = known["influence"].values[:, : len(clusters)]
    return _Group(result, value, variance, n, degrees, effect, ratio is not None, influence, clusters, of_repeat)


def _of_units(result: xr.Dataset, question: _Question) -> _Group:
    """Return the means over the queries of a group, with their variances between queries."""
    estimate = samples.chosen(result["estimate"], question.estimator).transpose(MODEL, QUERY)
    if question.baseline is not None:
        (place,) = positions(question.baseline, list(map(str, estimate.get_index(MODEL))))
        estimate = estimate - estimate.isel({MODEL: place}, drop=True)
    mean, error, n, _ = samples.summarize(estimate, QUERY).transpose(terms.QUANTITY, MODEL).values
    return _Group(result, mean, error**2, n, np.maximum(n - 1, 1.0), np.ones(n.size), is_area=False)


# --- the differences -----------------------------------------------------------------------------------------------


def _difference(group: _Group, other: _Group, n_folds: int | None) -> tuple[Floats, Floats, Floats]:
    """Return the difference of each model between two groups, its standard error and its degrees of freedom."""
    from aucpr_dask.kernels.intervals import moderated

    def variance_of(one: _Group) -> Floats:
        if not one.is_area:
            return one.variance
        area = np.clip((group.value + other.value) / 2, 0, 1)
        return np.asarray(moderated(one.variance, area * (1 - area), one.n) * one.effect)

    own, others = variance_of(group), variance_of(other)
    shared = np.zeros(group.value.size)
    if group.influence is not None and other.influence is not None:
        place = other.clusters.get_indexer(group.clusters)  # clusters that lie in both groups pair them
        both = place >= 0
        products = (group.influence[:, both] * other.influence[:, place[both]]).sum(axis=1)
        spread = np.sqrt((group.influence**2).sum(axis=1) * (other.influence**2).sum(axis=1))
        correlation = np.divide(products, spread, out=np.zeros_like(products), where=spread > 0)
        shared = correlation * np.sqrt(own * others)
    with np.errstate(invalid="ignore", divide="ignore"):
        welch = (own + others) ** 2 / (own**2 / group.degrees + others**2 / other.degrees)
    degrees = np.where(own + others > 0, welch, np.minimum(group.degrees, other.degrees))
    variance = np.maximum(own + others - 2 * shared, 0.0)
    if group.of_repeat is not None and other.of_repeat is not None:  # both groups share the training of each repeat
        n_repeats, n_others = group.of_repeat.shape[1], other.of_repeat.shape[1]
        if n_repeats != n_others:
            what, remedy = "groups have different repeats", "select those that all of them have"
            raise AlignmentError(what, None, f"{n_repeats} and {n_others} repeats", None, remedy)
        if n_repeats > 1:
            of_training = np.var(group.of_repeat - other.of_repeat, axis=1, ddof=1)
            variance = variance + of_training * averages.inflation(n_repeats, n_folds)
    return group.value - other.value, np.sqrt(variance), degrees


def _answer(parts: grouped.Parts, path: str, question: _Question, *, is_scores: bool, kept: int = 0) -> xr.Dataset:
    """Contrast the groups of one data set; the first `kept` dimensions are not contrasted, and all are one family."""
    known: dict[int, _Group] = {}
    for place, part in enumerate(parts.data):
        if isinstance(part, xr.Dataset):
            try:
                known[place] = _known(part.load(), question, is_scores=is_scores)
            except InvalidInputError as caught:
                raise parts.named(caught, place, path) from caught
    if is_scores:
        questions.warn_of_doubtful_models(group.result for group in known.values())
    if len(known) < 2:
        what, received = "there is nothing to contrast", few(", ".join(parts.names[place]) for place in known)
        argument = f"data set {path!r}, argument 'by'" if path else "argument 'by'"
        raise InvalidInputError(what, argument, received or "no group", "two groups or more", "choose other groups")
    first = next(iter(known.values())).result
    models = samples.labels_of(first["estimate"], MODEL)
    for place, group in known.items():
        of_group = samples.labels_of(group.result["estimate"], MODEL)
        if not of_group.equals(models):
            what, remedy = "the groups have different models", "select the models that all of them have"
            raise AlignmentError(what, ", ".join(parts.names[place]), few(of_group), few(models), remedy)
    of_groups = [terms.folds_of_repeats(part) for part in parts.data if isinstance(part, xr.Dataset)]
    n_folds = max((one for one in of_groups if one is not None), default=None)
    at = _reference(question.reference, parts, kept)
    n_groups, contrasted = len(parts.names), dict(list(parts.indexes.items())[kept:])
    n_contrasted = math.prod(map(len, contrasted.values()))  # groups within a label of the other dimensions
    own = np.arange(n_groups)[:, np.newaxis]
    others = own - own % n_contrasted + np.arange(n_contrasted) if at is None else at[:, np.newaxis]
    difference, error, degrees = (np.full((len(models), *others.shape), np.nan) for _ in range(3))
    for place, group in known.items():
        for column, other in enumerate(others[place].tolist()):
            if place == other:
                difference[:, place, column] = np.where(np.isnan(group.value), np.nan, 0.0)
            elif other in known:
                found = _difference(group, known[other], n_folds)
                difference[:, place, column], error[:, place, column], degrees[:, place, column] = found
    if question.baseline is not None:
        (place,) = positions(question.baseline, list(map(str, models)))
        if len(models) == 1:
            what, remedy = "the baseline is the only model", "leave out the baseline to contrast its areas"
            raise bad_argument(what, "baseline", question.baseline, "one of two models or more", remedy)
        difference[place] = error[place] = np.nan

    # P-values are adjusted, and simultaneous intervals hold, for all pairs of groups of all models, each pair once.
    family = is_tested = ~np.isnan(error)
    p_value = np.where(is_tested, parametric_p_values(difference, error, degrees), np.nan)
    if at is None:
        family = is_tested & (others > own)
    adjusted = np.full_like(p_value, np.nan)
    adjusted[family] = grouped.ADJUSTED[question.adjust](p_value[family])
    if at is None:
        turned = adjusted.reshape(len(models), -1, n_contrasted, n_contrasted).swapaxes(2, 3)
        adjusted = np.where(np.isnan(adjusted), turned.reshape(adjusted.shape), adjusted)
    arrays = {"difference": difference, "standard_error": error, "p_value": p_value, "p_adjusted": adjusted}
    most, tail = np.inf, (1 - question.level) / 2
    if is_scores and (question.estimator or "average_precision") not in designs.UNBOUNDED:
        most = 1.0 if question.baseline is None else 2.0
    for name, share in (("interval", tail), ("simultaneous_interval", tail / max(1, int(family.sum())))):
        half = -scipy.special.stdtrit(degrees, share) * error
        arrays[name] = np.clip(np.stack([difference - half, difference + half], axis=-1), -most, most)

    axes = dict(parts.indexes)
    if at is None:
        axes |= {OTHER + name: index for name, index in contrasted.items()}
    shape, dims = (len(models), *map(len, axes.values())), (MODEL, *axes)
    laid = {
        name: xr.Variable((*dims, terms.BOUND)[: array.ndim - 3 + len(dims)], array.reshape(*shape, *array.shape[3:]))
        for name, array in arrays.items()
    }
    coords: dict[str, Any] = {name: (name, index) for name, index in axes.items()}
    if at is not None:
        places = np.unravel_index(at[0], shape[1:])
        where = list(zip(axes.items(), places, strict=True))[kept:]
        coords |= {f"reference_{name}": index[int(i)] for (name, index), i in where}
    coords[terms.BOUND] = terms.BOUND, np.array(terms.BOUNDS, object)
    answer = xr.Dataset(laid | _facts(parts, known, len(models)), {MODEL: models})
    answer = answer.assign_coords(xr.Coordinates(coords))
    for name, text in DESCRIPTIONS.items():
        answer[name].attrs["description"] = text

    measure = question.estimator or next(iter(designs.estimators_of(first)), None)
    of_items = is_scores and QUERY not in first["estimate"].dims
    names = parts.in_words
    answered = {place for place, group in known.items() if not np.isnan(group.value + group.variance).all()}
    left_out = [name for place, name in enumerate(names) if place not in answered]
    lacks: list[str] = []  # which models lack items of which groups, and which groups lack queries
    for place, group in known.items():
        if question.reading.get("missing") == "drop" and "n_missing" in group.result:
            counts = group.result["n_missing"].sum([dim for dim in group.result["n_missing"].dims if dim != MODEL])
            of_models = zip(models, counts.values, strict=True)
            lacks += [f"{str(model)!r} lacks {count:,} items in {names[place]}" for model, count in of_models if count]
        estimate = samples.chosen(group.result["estimate"], question.estimator)
        if QUERY in estimate.dims and (n := int(estimate.isnull().any(MODEL).sum())):
            lacks.append(f"{terms.count(n, 'query', 'queries')} of {names[place]} without an estimate of every model")
    facts = {
        "estimator": measure,
        "by": ", ".join(parts.indexes),
        "reference": None if at is None else terms.name_of_group(parts.names[at[0]][kept:]),
        "baseline": None if question.baseline is None else str(question.baseline),
        "prevalence": question.reading.get("prevalence"),
        "contrasted": CENTRES.get(str(measure), measure) if of_items else measure,
        "sampled": first.attrs.get("sampled"),
        "level": question.level,
        "adjust": question.adjust,
        "family_size": int(family.sum()),
        "design": _design(answer, first, n_groups - len(left_out), n_folds)
        + (OF_HALDANE if of_items and str(measure) in CENTRES else ""),
        "groups_left_out": "; ".join(left_out) or None,
        "gaps": few(lacks) or None,
    }
    answer = answer.assign_attrs(results.provenance(first, facts))
    said = sentences.of_contrasts(answer, contrast_rows(answer), designs.direction(first.attrs, measure))
    said = "; ".join(filter(None, [said, few(lacks)]))
    return terms.with_plain_names(answer.assign_attrs({sentences.SUMMARY: said}))


def _reference(reference: Any, parts: grouped.Parts, kept: int) -> NDArray[np.int64] | None:
    """Return the place of each group's reference: that with the same labels of the first `kept` dimensions."""
    if reference is None:
        return None
    contrasted = list(parts.indexes)[kept:]
    labels = dict(reference) if isinstance(reference, Mapping) else dict.fromkeys(contrasted[:1], reference)
    named = {terms.name_of_group(name[kept:]): name[kept:] for name in parts.names}
    if isinstance(reference, str) and len(contrasted) > 1 and reference in named:
        labels = dict(zip(contrasted, named[reference], strict=True))
    wanted = tuple(str(labels.get(name)) for name in contrasted)
    places = {name: place for place, name in enumerate(parts.names)}
    found = [places.get((*name[:kept], *wanted)) for name in places]
    if labels.keys() == set(contrasted) and None not in found:
        return np.array(found, np.int64)
    what, remedy = "the reference is none of the groups", "name one of them"
    if len(contrasted) > 1:
        remedy = f"give a label of each: {{{', '.join(f'{name!r}: ...' for name in contrasted)}}}"
    known = dict.fromkeys(terms.name_of_group(name[kept:]) for name in places)
    raise bad_argument(what, "reference", reference, few(known), remedy)


def _facts(parts: grouped.Parts, known: Mapping[int, _Group], n_models: int) -> dict[str, xr.Variable]:
    """Return what is known of each group next to the contrasts."""
    shown = np.full((n_models, len(parts.names)), np.nan)
    counts = {name: np.full(len(parts.names), np.nan) for name in ("n_positive", "n_negative", "prevalence")}
    for place, group in known.items():
        estimate = group.result["estimate"]
        shown[:, place] = estimate.mean([dim for dim in estimate.dims if dim != MODEL])
        for name, values in counts.items():
            if name in group.result and set(estimate.dims) <= {MODEL, REPEAT}:
                values[place] = np.nanmax(np.atleast_1d(group.result[name].values), initial=np.nan)
    dims, shape = tuple(parts.indexes), tuple(map(len, parts.indexes.values()))
    found = {"estimate": xr.Variable((MODEL, *dims), shown.reshape(n_models, *shape))}
    known_counts = {name: values for name, values in counts.items() if not np.isnan(values).all()}
    return found | {name: xr.Variable(dims, values.reshape(shape)) for name, values in known_counts.items()}


def _design(answer: xr.Dataset, result: xr.Dataset, n_groups: int, n_folds: int | None) -> str:
    fixed = f"fixed: {designs.models_in_words(answer.sizes[MODEL], result.attrs)}, the {n_groups} groups"
    if QUERY in result["estimate"].dims:
        several = designs.unit_names(QUERY, result.attrs)[1]
        return f"sample: the {several} of each group; {fixed}; Welch's t, exact if means are normal"
    drawn = f"the {designs.drawn_in_words(result.attrs)}"
    condition = designs.of_clusters("approximate; needs at least 5 positives in each group", result.attrs)
    if designs.drawn_of(result.attrs) == "clusters":
        condition += "; clusters in two groups pair them"
    else:
        drawn += " of each group with their labels"
    if REPEAT in result["estimate"].dims:
        condition += f"; {designs.repeats_in_words(result.sizes[REPEAT], n_folds)}"
    return f"sample: {drawn}; {fixed}; Student's t, {condition}"


def contrast_rows(answer: xr.Dataset) -> pd.DataFrame:
    """Return a row for each contrast of the family, the largest losses first."""
    dims = str(answer.attrs["by"]).split(", ")
    others = [f"{OTHER}{dim}" for dim in dims if f"{OTHER}{dim}" in answer.dims]
    difference = answer["difference"].transpose(MODEL, *dims, *others)
    labels = product(*(answer[dim].values for dim in dims))
    names = [terms.group_in_words(dict(zip(dims, one, strict=True))) for one in labels]
    n_others = math.prod(answer.sizes[dim] for dim in others)
    layout = (answer.sizes[MODEL], len(names), n_others)
    values = {
        name: answer[name]
        .transpose(*difference.dims, ...)
        .values.reshape(*layout, *answer[name].shape[difference.ndim :])
        for name in ("difference", "p_value", "p_adjusted", "interval", "simultaneous_interval")
    }
    estimate = answer["estimate"].transpose(MODEL, *dims).values.reshape(layout[:2])
    rows = [
        {
            "model": str(answer[MODEL].values[model]),
            "group": names[group],
            "other": names[group - group % n_others + other] if others else answer.attrs["reference"],
            "estimate": float(estimate[model, group]),
        }
        | {name: of[model, group, other].tolist() for name, of in values.items()}
        for model, group, other in np.ndindex(layout)
        if not np.isnan(values["p_value"][model, group, other]) and (not others or group % n_others < other)
    ]
    columns = ["model", "group", "other", "estimate", *values]
    return pd.DataFrame(rows, columns=columns).sort_values("difference", kind="stable", ignore_index=True)
