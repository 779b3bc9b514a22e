"""The covariance of the models of a data set, from the influence of every item on every model's estimate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, Unpack

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from aucpr_dask.errors import InvalidInputError, bad_argument, few
from aucpr_dask.evaluation import alignment, mapping, results
from aucpr_dask.evaluation.alignment import Labelled
from aucpr_dask.evaluation.arrays import takes_arrays
from aucpr_dask.evaluation.influences import COLUMNS_AFTER, influence_columns
from aucpr_dask.evaluation.rankings import Array
from aucpr_dask.evaluation.request import Prepared, drawn_unit, fixes_numbers, prepare_labelled
from aucpr_dask.inference.samples import applied, mean_of_known, mean_where_known
from aucpr_dask.schema import choices, terms
from aucpr_dask.schema.estimators import WITH_INFLUENCE, estimator_names
from aucpr_dask.schema.options import EvaluationOptions, takes
from aucpr_dask.scores.validate import validated_scores, where_of

OTHER_MODEL, BASELINE, OF_REPEAT = "other_model", "baseline", "of_repeat"
COMPARED_BY = {"difference_variance", "outer_variance", "n_effective", "degrees"}  # what comparisons need of it

DESCRIPTIONS = {
    "estimate": "Estimated area under the precision-recall curve.",
    "covariance": "Covariance of the estimates of two models.",
    "difference_variance": "Variance by which the difference of two models is tested; reckons with few positives.",
    "outer_variance": "The same for the side of an interval away from 0; also reckons with unseen negatives.",
    "joint_variance": "Variance of differences by items and clusters together, for joint draws of all differences.",
    "n_effective": "Effective number of positives, or of clusters that hold some.",
    "degrees": "Degrees of freedom of Student's t for differences.",
    "flags": terms.RESULT_VARIABLES["flags"].description,
}

COVARIANCE_OPTIONS = (*choices.LabelReading.__annotations__, "over", "prevalence_design")
_UNIT, _ITEM_UNIT = "unit", "item_unit"  # items or clusters, and all positives that are not items together


@takes_arrays
@takes(choices.LabelReading)
def covariance(
    scores: terms.Scores,
    estimator: str = "average_precision",
    *,
    over: choices.Unit | None = None,
    prevalence_design: choices.PrevalenceDesign = "random",
    **reading: Unpack[choices.LabelReading],
) -> terms.Scores:
    """Estimate how the areas of all models of a data set vary together.

    With ``u_i(model)`` the influence of item i, the derivative of the estimate with respect to the multiplicity of the
    item, ``covariance(a, b) = sum_i u_i(a) u_i(b)``. The standard error of one model is the root of its variance,
    and that of a difference of two models is ``sqrt(c(a, a) + c(b, b) - 2 c(a, b))``.

    Parameters
    ----------
    scores, label, dim, clusters, weight, pos_label
        See :func:`evaluate`; models share the items, and each label of a kept dimension has its own covariances.
        Weights and soft labels are those of a fixed item.
    estimator : str
        One that has an influence function: ``"average_precision"`` or ``"haldane"``.
    missing, positive_from, unjudged
        See :func:`aucpr_dask.estimate`. Under ``missing="drop"`` an item counts only for models that scored it.
    over : {"items", "clusters"}, optional
        What is sampled; by default clusters where the scores have the variable ``cluster``. Influences are added up
        within each cluster, and the sum over the C clusters is multiplied by C/(C - 1).
    prevalence_design : {"random", "fixed"}
        Whether items are sampled with their labels, or positives and negatives separately, in fixed numbers. Deviations
        from the mean influence of a class of n items are multiplied by ``sqrt(n / (n - 1))``. If "random", the mean of
        the class is added, because the numbers of positives and negatives vary too.

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        A tree of a tree, lazy if `scores` are Dask-backed: ``estimate(model[, query])`` and
        ``covariance([query,] model, other_model)``, float64. ``difference_variance`` and ``outer_variance``, of the
        same shape, are what :func:`compare` judges differences by, with Student's t of ``degrees`` degrees of freedom;
        they also reckon with few positives, few clusters and negatives that the sample does not show. With clusters,
        ``joint_variance`` is the sum of the variances by items and by clusters, with which families of differences are
        drawn. NaN where a class has fewer than two items, or lies in fewer than two clusters. Of a data set with
        classes, they are those of the mean over the classes that have an estimate, NaN for a model that lacks one of
        these, and always with random prevalence. Every number is bit-for-bit identical for any other models and chunks.
        The influences, 8 bytes for each score, stay in memory until all pairs of their chunk are done. ``flags`` are
        those of :func:`evaluate`.

    Raises
    ------
    InvalidInputError
        If the estimator has no influence function, labels or weights differ between models (per-run layout: ranked
        lists that share no items), or `n_positive` counts positives outside the clusters.
    MissingScoresError, AlignmentError
        See :func:`aucpr_dask.estimate`.

    References
    ----------
    Hampel 1974, doi:10.1080/01621459.1974.10482962 (influence functions). DeLong, DeLong & Clarke-Pearson 1988,
    doi:10.2307/2531595 (the same for areas under ROC curves).

    Examples
    --------
    >>> import numpy as np, xarray as xr, aucpr_dask as ap
    >>> score = np.array([[5.0, 4, 3, 2, 1, 0], [4, 5, 3, 1, 2, 0]])
    >>> scores = xr.Dataset(
    ...     {"score": (("model", "item"), score), "label": ("item", [1, 0, 1, 0, 1, 0])},
    ...     coords={"model": ["a", "b"]},
    ... )
    >>> result = ap.covariance(scores)
    >>> result["estimate"].values.round(4), np.sqrt(np.diagonal(result["covariance"])).round(4)
    (array([0.7556, 0.6389]), array([0.2198, 0.2859]))
    """
    found = influences(scores, estimator, over=over, prevalence_design=prevalence_design, **reading)
    return terms.map_nodes(found, lambda path, node: of_influences(node))


@takes(choices.CurveReading)
def influences(
    scores: terms.Scores,
    estimator: str,
    *,
    over: str | None = None,
    prevalence_design: str = "random",
    **reading: Unpack[choices.CurveReading],
) -> terms.Scores:
    """Return ``estimate(model[, query])`` and ``influence(..., unit)``, whose products add up to covariances.

    Of several classes, both are means over the classes, as in :func:`covariance`.
    """
    names = estimator_names(estimator)
    if len(names) != 1 or names[0] not in WITH_INFLUENCE:
        what, allowed = "this estimator has no influence function here", " or ".join(map(repr, WITH_INFLUENCE))
        remedy = "compare other estimators by their bootstrap replicates"
        raise bad_argument(what, "estimator", estimator, allowed, remedy)
    options = EvaluationOptions.of(estimator=names, over=over, prevalence_design=prevalence_design, **reading)
    scores = validated_scores(scores, positive_from=options.positive_from)

    return terms.map_nodes(scores, lambda path, node: influences_of_node(path, node, options))


def influences_of_node(path: str, dataset: xr.Dataset, options: EvaluationOptions) -> xr.Dataset:
    """Return the influences on the models of one validated data set, as :func:`influences` does."""
    inputs = alignment.score_inputs(dataset, options.positive_from, path)
    inputs.pop("tie_order", None)
    if terms.MODEL not in inputs["score"].dims:
        what, remedy = "these are the scores of one model", "name the dimension of the models: rename(...='model')"
        raise InvalidInputError(
            what, where_of(path, "score"), few(map(str, inputs["score"].dims)), "scores over 'model'", remedy
        )
    if unshared := [name for name, array in inputs.items() if name != "score" and terms.MODEL in array.dims]:
        what = "models share no items here, so their estimates have no covariance over items"
        received = f"{', '.join(unshared)} over the dimension 'model': each model has its own ranked list"
        allowed = "the pooled layout: one label for each item, the same for all models"
        raise InvalidInputError(what, where_of(path), received, allowed, "compare the models over queries")
    sampled = drawn_unit(options.resampling.over, dataset)
    clusters = alignment.clusters_of(dataset, path).variable if sampled == "clusters" else None
    resampling = replace(options.resampling, over=sampled)
    # Influences of soft labels, unlike resamples of their items, know both numbers.
    is_fixed = fixes_numbers(
        resampling, inputs.keys() - {"positive_weight"}, has_classes=terms.CLASS in inputs["score"].dims
    )
    facts = {
        "estimator": options.estimators[0],
        "missing": options.missing,
        "unjudged": options.unjudged,
        "prevalence_design": "fixed" if is_fixed else "random",
        "sampled": sampled,
        "positive_from": options.positive_from,
    }
    variables = _influences(prepare_labelled(inputs, options), clusters, is_fixed=is_fixed)
    labels = inputs["score"].drop_vars(terms.ITEM, errors="ignore").coords
    result = xr.Dataset(variables, labels, results.provenance(dataset, facts))
    if terms.CLASS in result.dims:
        result = _mean_of_classes(result)
    if terms.REPEAT not in result.dims:
        return result
    repeats, n_folds = result["estimate"].drop_attrs(), terms.folds_of_repeats(dataset)
    known = repeats.notnull().all(terms.REPEAT)
    means = result.drop_vars("flags").map(lambda variable: mean_of_known(variable, terms.REPEAT).where(known))
    means["estimate"].attrs = result["estimate"].attrs
    design = {} if n_folds is None else {terms.N_FOLDS: n_folds}
    return means.assign({OF_REPEAT: repeats, "flags": result["flags"]}).assign_attrs(design | result.attrs)


def squares_of_differences(covariance: Labelled) -> Labelled:
    """Return the variances of differences of models from the covariances of all."""
    sizes, axes = {terms.MODEL: covariance.sizes[terms.MODEL]}, {"axis1": -2, "axis2": -1}
    own = applied(np.diagonal, covariance, over=(terms.MODEL, OTHER_MODEL), sizes=sizes, **axes)  # those of the models
    squares: Labelled = (own + _of_others(own) - 2 * covariance).clip(min=0.0)
    return squares


def covariances(drawn: xr.DataArray, dim: str) -> xr.DataArray:
    """Return the covariances of models over what was drawn along `dim`."""
    deviations = drawn.astype(np.float64) - drawn.mean(dim, skipna=False)
    products = products_of_models(deviations.rename({dim: _UNIT}).transpose(terms.MODEL, _UNIT))
    return products / (drawn.sizes[dim] - 1)


def _influences(prepared: Prepared, clusters: xr.Variable | None, *, is_fixed: bool) -> dict[str, xr.Variable]:
    """Return the influences on each ranking and `COLUMNS_AFTER`, by name; with clusters, also those of single items."""
    arrays = {role: array.variable for role, array in prepared.arrays.items()}
    order = [dim for dim in (terms.QUERY, terms.CLASS, terms.REPEAT, terms.MODEL) if dim in arrays["score"].dims]

    def of_units(n_units: int, **of_clusters: xr.Variable) -> dict[str, xr.Variable]:
        width, given = {_UNIT: n_units + 1 + len(COLUMNS_AFTER)}, arrays | of_clusters
        design: dict[str, Any] = {"options": prepared.options, "n_units": n_units, "is_fixed": is_fixed}
        columns = mapping.map_rankings(influence_columns, given, width, **design).transpose(..., *order, _UNIT)
        after = enumerate(COLUMNS_AFTER, start=n_units + 1)
        found = {name: columns[..., place].transpose(terms.MODEL, ...) for place, name in after}
        return found | {"influence": columns[..., : n_units + 1]}

    of_items = of_units(arrays["score"].sizes[terms.ITEM])
    result = of_items | {"n_positive": of_items["n_effective"]}
    if clusters is not None:
        of_clusters = of_units(int(clusters.values.max(initial=-1)) + 1, cluster=clusters)
        of_item = of_items["influence"]
        result["item_influence"] = xr.Variable((*of_item.dims[:-1], _ITEM_UNIT), of_item.data)
        result |= {name: of_clusters[name] for name in ("influence", "n_effective", "degrees", "flags")}
    result["flags"] = result["flags"].astype(np.int32)
    result["flags"].attrs = terms.flag_attributes()
    result["estimate"].attrs = {"description": DESCRIPTIONS["estimate"], "units": "1"}
    return result


def _mean_of_classes(result: xr.Dataset) -> xr.Dataset:
    """Average estimates and influences over the classes: the items are behind all of them, so influences add up."""
    known = result["estimate"].notnull()
    has_all = (known | ~known.any(terms.MODEL)).all(terms.CLASS)
    averaged = result.drop_vars("flags")
    means = averaged.map(lambda variable: mean_where_known(variable, known, terms.CLASS).where(has_all))
    means["estimate"].attrs, means["n_classes"] = result["estimate"].attrs, known.sum(terms.CLASS)
    means["proportion"] = means["proportion"] / means["n_classes"]  # as a variance of independent classes
    design = {"over": terms.CLASS, "average": "macro", "n_classes": result.sizes[terms.CLASS]}
    return means.assign(flags=result["flags"]).assign_attrs(design | result.attrs)


def of_influences(node: xr.Dataset) -> xr.Dataset:
    """Return the covariances of models whose influences are known, and what comparisons need of them."""
    between = products_of_models(node.variables["influence"])
    within = products_of_models(node.variables["item_influence"]) if "item_influence" in node else None
    known = [between] if within is None else [within, between]
    of_models = [node.variables[name] for name in ("proportion", "unseen_loss", "n_positive")]
    variance, outer = xr.apply_ufunc(
        _variance_of_differences,
        *of_models,
        *known,
        input_core_dims=[[terms.MODEL]] * 3 + [[terms.MODEL, OTHER_MODEL]] * len(known),
        output_core_dims=[[terms.MODEL, OTHER_MODEL]] * 2,
        dask="parallelized",
        output_dtypes=[np.float64] * 2,
        dask_gufunc_kwargs={"allow_rechunk": True},
    )
    found = {"covariance": between, "difference_variance": variance, "outer_variance": outer}
    if within is not None:
        # Each pair has a design effect of its own, and no joint distribution need have all these variances. The sum of
        # the variances by items and by clusters is that of one, however few the clusters.
        found["joint_variance"] = squares_of_differences(within) + squares_of_differences(between)
    kept = ("estimate", "n_effective", "degrees", "flags", OF_REPEAT)
    found = {name: node.variables[name] for name in kept if name in node} | found
    for name in DESCRIPTIONS.keys() & set(found):
        found[name].attrs |= {"description": DESCRIPTIONS[name], "units": "1"}
    labels, indexes = dict(node.coords.variables), dict(node.xindexes)
    if terms.MODEL in indexes:
        other = indexes[OTHER_MODEL] = indexes[terms.MODEL].rename(named := {terms.MODEL: OTHER_MODEL}, named)
        labels |= other.create_variables()
    return xr.Dataset(found, xr.Coordinates(labels, indexes), node.attrs)


class Spread(NamedTuple):
    """What comparisons of the rankings of plain arrays need of their covariance, in the words of `DESCRIPTIONS`."""

    estimate: Array  # (model,)
    n_effective: Array  # (model,)
    flags: NDArray[np.int32]  # (model,)
    degrees: Array  # (model,)
    difference_variance: Array  # (model, other model)
    outer_variance: Array


def spread_of_rankings(
    named: dict[str, Array], options: EvaluationOptions, clusters: NDArray[np.int64] | None, *, is_fixed: bool
) -> Spread:
    """Return what :func:`covariance` does, for the rankings of arrays by role: scores (model, item), labels (item)."""
    from aucpr_dask.kernels.dispatch import sums_of_products

    def of_units(n_units: int, **clusters: Array) -> tuple[dict[str, Array], NDArray[np.float64]]:
        given = named | clusters
        columns = influence_columns(
            *given.values(), roles=tuple(given), options=options, n_units=n_units, is_fixed=is_fixed
        )
        influence = np.ascontiguousarray(columns[:, : -len(COLUMNS_AFTER)])
        after = dict(zip(COLUMNS_AFTER, columns[:, -len(COLUMNS_AFTER) :].T, strict=True))
        return after, sums_of_products(influence, influence)

    items, within = of_units(named["score"].shape[-1])
    sample, between = items, within
    if clusters is not None:
        sample, between = of_units(int(clusters.max(initial=-1)) + 1, cluster=clusters)
    of_models = (items[name] for name in ("proportion", "unseen_loss", "n_effective"))
    inner, outer = _variance_of_differences(*of_models, *([within] if clusters is None else [within, between]))
    flags = sample["flags"].astype(np.int32)
    return Spread(items["estimate"], sample["n_effective"], flags, sample["degrees"], inner, outer)


def products_of_models(influence: Labelled) -> Labelled:
    """Return the sums of the products of the influences on two models, over ``unit``."""
    both = influence, _of_others(influence)
    return applied(products_of_pairs, *both, over=(_UNIT, _ITEM_UNIT)).transpose(..., terms.MODEL, OTHER_MODEL)


def _of_others(array: Labelled) -> Labelled:
    """Return an array of models as one of the other models."""
    if isinstance(array, xr.DataArray):
        return array.rename({terms.MODEL: OTHER_MODEL})
    return xr.Variable([OTHER_MODEL if dim == terms.MODEL else dim for dim in array.dims], array.data)


def _variance_of_differences(
    proportion: Array, unseen_loss: Array, n_positive: Array, *covariances: Array
) -> tuple[Array, Array]:
    from aucpr_dask.kernels.intervals import effect_on_differences, variance_of_differences

    within, between = covariances[0], covariances[-1]
    inner, outer = variance_of_differences(within, proportion, unseen_loss, n_positive)
    effect = 1.0 if len(covariances) == 1 else effect_on_differences(within, between)
    return inner * effect, outer * effect


def products_of_pairs(left: Array, right: Array) -> NDArray[np.float64]:
    """Return the sums of products of every pair of rows: ``(..., a, 1, unit), (..., 1, b, unit) -> (..., a, b)``."""
    from aucpr_dask.kernels.dispatch import sums_of_products

    lead, n_left, n_right, n_units = left.shape[:-3], left.shape[-3], right.shape[-2], left.shape[-1]
    pairs = zip(left.reshape(-1, n_left, n_units), right.reshape(-1, n_right, n_units), strict=True)
    return np.array([sums_of_products(*pair) for pair in pairs]).reshape(*lead, n_left, n_right)
