"""The covariance of the models of a data set, from the influence of every item on every model's estimate."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.evaluation.alignment import clusters_of, score_inputs
from aucpr_dask.evaluation.intervals import without_clusters
from aucpr_dask.evaluation.mapping import map_rankings
from aucpr_dask.evaluation.rankings import Array
from aucpr_dask.evaluation.request import Request, checked_request
from aucpr_dask.evaluation.resampled_rankings import influence_columns
from aucpr_dask.evaluation.results import versions
from aucpr_dask.schema.estimators import estimator_names
from aucpr_dask.schema.options import PREVALENCE_DESIGNS, UNITS, choose
from aucpr_dask.schema.variables import ITEM, MODEL, QUERY
from aucpr_dask.scores.validate import validate_scores
from aucpr_dask.storage.stores import Scores, map_nodes

OTHER_MODEL = "other_model"

_UNIT = "unit"  # an item or a cluster, or what all positives that are no item add up to


def covariance(
    scores: Scores,
    estimator: str = "average_precision",
    *,
    missing: str = "raise",
    positive_from: int | None = None,
    unjudged: str = "negative",
    unit: str = "items",
    prevalence_design: str = "fixed",
) -> Scores:
    """Estimate how the average precisions of all models of a data set vary together over samples of items.

    With ``u_i(model)`` the influence of item i, the derivative of the estimate with respect to how often the item is
    there, ``covariance(a, b) = sum_i u_i(a) u_i(b)``. The standard error of one model is the root of its variance,
    and that of a difference of two models is ``sqrt(c(a, a) + c(b, b) - 2 c(a, b))``
    (:func:`standard_errors_of_differences`).

    Parameters
    ----------
    scores : xarray.Dataset or xarray.DataTree
        Score data sets in the pooled layout. Weights and soft labels are those of a fixed item.
    estimator : str
        Only ``"average_precision"`` has an influence function.
    missing, positive_from, unjudged
        See :func:`aucpr_dask.estimate`. Under ``missing="drop"`` an item counts for the models that scored it.
    unit : {"items", "clusters"}
        What is sampled. Of clusters, the groups of items in the variable ``cluster``, influences are added up within
        each, and the sum over the C clusters is multiplied by C/(C - 1).
    prevalence_design : {"fixed", "random"}
        Whether positives and negatives are sampled apart, in fixed numbers, or together. Deviations from a class's
        mean influence are stretched by ``sqrt(n / (n - 1))``, n its items. If "random", the class's mean is added,
        by which the numbers of positives and negatives themselves vary.

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        The same kind as `scores`, lazy if they are Dask-backed: ``estimate(model[, query])`` and
        ``covariance([query,] model, other_model)``, float64. NaN where a class has fewer than two items, or lies in
        fewer than two clusters. Every number is bit-identical whatever other models there are and however they are
        chunked. The influences, 8 bytes for each score, are held until all pairs of their chunk are done.

    Raises
    ------
    InvalidInputError
        If the estimator has no influence function, labels or weights differ between models (per-run layout: ranked
        lists that share no items), or there are clusters beside positives that are no item.
    MissingScoresError, AlignmentError, ChunkError
        See :func:`aucpr_dask.estimate`.

    References
    ----------
    Hampel 1974, doi:10.1080/01621459.1974.10482962 (influence functions). DeLong, DeLong & Clarke-Pearson 1988,
    doi:10.2307/2531595 (the same for areas under ROC curves).

    Examples
    --------
    >>> score = np.array([[5.0, 4, 3, 2, 1, 0], [4, 5, 3, 1, 2, 0]])
    >>> scores = xr.Dataset(
    ...     {"score": (("model", "item"), score), "label": ("item", [1, 0, 1, 0, 1, 0])},
    ...     coords={"model": ["a", "b"]},
    ... )
    >>> result = covariance(scores)
    >>> result["estimate"].values.round(4), np.sqrt(np.diagonal(result["covariance"])).round(4)
    (array([0.7556, 0.6389]), array([0.1803, 0.2224]))
    >>> standard_errors_of_differences(result["covariance"]).sel(model="a", other_model="b").item().__round__(4)
    0.1751
    """
    names = estimator_names(estimator)
    if names != ("average_precision",):
        raise InvalidInputError(
            "this estimator has no influence function here",
            received=repr(estimator),
            allowed="'average_precision'",
            remedy="compare other estimators by their bootstrap replicates",
        )
    choose(PREVALENCE_DESIGNS, prevalence_design, "prevalence_design")
    choose(UNITS, unit, "unit")
    validate_scores(scores, positive_from=positive_from)

    def covariance_of_node(path: str, dataset: xr.Dataset) -> xr.Dataset:
        inputs = score_inputs(dataset, positive_from, path)
        inputs.pop("tie_order", None)
        _refuse_unshared_items(inputs, path)
        request = checked_request(names, None, missing, "block", unjudged, positive_from, set(inputs))
        clusters = clusters_of(dataset) if unit == "clusters" else None
        if unit == "clusters" and clusters is None:
            raise without_clusters(dataset, path)
        result = _covariance(inputs, request, None if clusters is None else clusters.values, prevalence_design)
        result.attrs = {name: value for name, value in dataset.attrs.items() if str(name).startswith("source")}
        result.attrs |= {
            "estimator": names[0],
            "missing": missing,
            "unjudged": unjudged,
            "prevalence_design": prevalence_design,
            "sampled": unit,
            "versions": versions(),
        }
        if positive_from is not None:
            result.attrs["positive_from"] = positive_from
        return result

    return map_nodes(scores, covariance_of_node)


def standard_errors_of_differences(covariance: xr.DataArray) -> xr.DataArray:
    """Return the standard error of the difference of every pair of models.

    Parameters
    ----------
    covariance : xarray.DataArray, dims (..., model, other_model)
        What :func:`covariance` returns under that name.

    Returns
    -------
    xarray.DataArray
        Of the same shape; exactly 0 for models that rank alike.
    """
    variance = xr.apply_ufunc(
        _diagonal,
        covariance,
        input_core_dims=[[MODEL, OTHER_MODEL]],
        output_core_dims=[[MODEL]],
        dask="allowed",
    )
    other = variance.rename({MODEL: OTHER_MODEL})
    squares = (variance + other) - 2.0 * covariance
    result: xr.DataArray = np.sqrt(squares.clip(min=0.0)).transpose(*covariance.dims)
    return result.rename("standard_error")


def _diagonal(matrix: Array) -> Array:
    return np.diagonal(matrix, axis1=-2, axis2=-1)


def _refuse_unshared_items(inputs: dict[str, xr.DataArray], path: str) -> None:
    own = [name for name, array in inputs.items() if name != "score" and MODEL in array.dims]
    if own:
        raise InvalidInputError(
            "models share no items here, so their estimates have no covariance over items",
            where=f"data set {path!r}" if path else None,
            received=f"{', '.join(own)} over the dimension 'model': every model has a ranked list of its own",
            allowed="the pooled layout: one label for each item, the same for all models",
            remedy="compare the models over queries",
        )


def _covariance(
    inputs: dict[str, xr.DataArray], request: Request, clusters: NDArray[np.int64] | None, design: str
) -> xr.Dataset:
    n_units = inputs["score"].sizes[ITEM] if clusters is None else int(clusters.max(initial=-1)) + 1
    order = [dim for dim in (QUERY, MODEL) if dim in inputs["score"].dims]
    sizes = {_UNIT: n_units + 2}
    kwargs: dict[str, Any] = {"clusters": clusters, "is_fixed": design == "fixed"}
    columns = map_rankings(influence_columns, inputs, request, sizes, ITEM, **kwargs).transpose(*order, _UNIT)
    values = columns.isel({_UNIT: slice(n_units + 1)})
    products = xr.apply_ufunc(
        products_of_pairs,
        values,
        values.rename({MODEL: OTHER_MODEL}),
        input_core_dims=[[_UNIT], [_UNIT]],
        dask="parallelized",
        output_dtypes=[np.float64],
        keep_attrs=False,
    )
    estimate = columns.isel({_UNIT: -1}).transpose(MODEL, ...)
    result = xr.Dataset({"estimate": estimate, "covariance": products.transpose(*order, OTHER_MODEL)})
    result["estimate"].attrs = {"description": "Estimated area under the precision-recall curve.", "units": "1"}
    result["covariance"].attrs = {"description": "Covariance of the estimates of two models.", "units": "1"}
    return result


def products_of_pairs(left: Array, right: Array) -> NDArray[np.float64]:
    """Return the sums of products of every pair of rows: ``(..., a, 1, unit), (..., 1, b, unit) -> (..., a, b)``."""
    from aucpr_dask.kernels.areas.influence import sums_of_products

    lead, n_left, n_right, n_units = left.shape[:-3], left.shape[-3], right.shape[-2], left.shape[-1]
    pairs = zip(left.reshape(-1, n_left, n_units), right.reshape(-1, n_right, n_units), strict=True)
    return np.array([sums_of_products(*pair) for pair in pairs]).reshape(*lead, n_left, n_right)
