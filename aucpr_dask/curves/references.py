"""Reference levels for areas: the attainable extremes, a random ranking, and the unachievable region."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from aucpr_dask.errors import AlignmentError, InvalidInputError, few
from aucpr_dask.evaluation import api, rankings
from aucpr_dask.evaluation.alignment import joined, named_dimensions, numeric, one_dimension
from aucpr_dask.schema import checks, estimators
from aucpr_dask.schema.options import EvaluationOptions
from aucpr_dask.schema.terms import ESTIMATOR, GRADE, ITEM, NORMALISED, group_in_words

Area = TypeVar("Area", xr.DataArray, xr.Dataset)
ROUND_OFF = 1e-9  # of sums of weights


def reference_levels(
    label: xr.DataArray | None = None,
    estimator: str | Sequence[str] = "average_precision",
    *,
    n_positive: xr.DataArray | None = None,
    positive_weight: xr.DataArray | None = None,
    negative_weight: xr.DataArray | None = None,
    prevalence: float | None = None,
    unjudged: str = "negative",
    positive_from: int | None = None,
    dim: str | Sequence[str] = ITEM,
) -> xr.Dataset:
    """Compute the lowest, the highest and the random area that labels allow.

    The extremes are the areas of two rankings without ties: items by the ratio
    ``positive_weight / (positive_weight + negative_weight)``, increasing in score or decreasing. For
    ``"continuous"`` these are the maximum and the minimum over all orders of the items (Keilwagen et al.,
    Theorem 1); with hard labels they are those of every estimator: all positives first, or last.

    Parameters
    ----------
    label : xarray.DataArray, shape (..., item)
        Hard labels, or a plain array of them; None with soft ones.
    estimator : str or sequence of str
        Names from the registry.
    n_positive : xarray.DataArray, optional
        All positives, also those that are no items, as in stores of runs: the levels are those of the items that a run
        lists, in another order.
    positive_weight, negative_weight : xarray.DataArray, optional, shape (..., item)
        Soft labels.
    prevalence, unjudged, positive_from, dim
        See :func:`aucpr_dask.estimate`.

    Returns
    -------
    xarray.Dataset
        ``minimum``, ``maximum`` and ``random``, over the other dimensions and ``estimator``; ``n_positive`` and
        ``n_negative``, by which :func:`normalised` knows the items of a result again. ``random`` is the exact
        expectation over all orders of items with hard labels, ties aside, for the estimators that are sums over single
        positives (average precision, the trapezoids, discrete, continuous, the gain area), for precision and recall at
        k, and one half for the ROC area; NaN for the others.

    References
    ----------
    Keilwagen, Grosse & Grau 2014, doi:10.1371/journal.pone.0092209; Boyd et al. 2012, arXiv:1206.4667.

    Examples
    --------
    >>> import xarray as xr, aucpr_dask as ap
    >>> levels = ap.reference_levels(xr.DataArray([1, 1, 0, 0], dims="item"))
    >>> [round(float(levels[name][0]), 4) for name in ("minimum", "random", "maximum")]
    [0.4167, 0.6806, 1.0]
    """
    names = list(estimators.estimator_names(estimator))
    dims = named_dimensions(dim)
    dim = joined(dims)
    EvaluationOptions.of(prevalence=prevalence, unjudged=unjudged, positive_from=positive_from)
    label, positive_weight, negative_weight = (
        _labelled(array, name, dims)
        for name, array in (
            ("label", label),
            ("positive_weight", positive_weight),
            ("negative_weight", negative_weight),
        )
    )
    if isinstance(n_positive, xr.DataArray) and GRADE in n_positive.dims:  # counted from each grade
        n_positive = n_positive.sel({GRADE: positive_from or 1}, drop=True)
    labels: dict[str, Any] = {"label": label} | ({} if n_positive is None else {"n_positive": n_positive})
    options: dict[str, Any] = {"prevalence": prevalence, "unjudged": unjudged, "positive_from": positive_from}
    weights = {"positive_weight": positive_weight, "negative_weight": negative_weight}
    given = {name: weight for name, weight in weights.items() if weight is not None}
    if label is not None and not given:
        ratio = (label >= (positive_from or 1)).astype(np.float64)
    elif label is None and len(given) == len(weights):
        both = given["positive_weight"] + given["negative_weight"]
        ratio = (given["positive_weight"] / both.where(both > 0)).fillna(0.0)
        labels, options = {"label": None, **given}, {"prevalence": prevalence}
    else:
        what = "give either labels, or both positive_weight and negative_weight"
        received = ", ".join(name for name in ("label", *given) if name != "label" or label is not None) or "neither"
        allowed = "label; or positive_weight and negative_weight"
        remedy = "leave out one, or give the other weight too"
        raise InvalidInputError(what, "the arguments of reference_levels", received, allowed, remedy)
    best = xr.apply_ufunc(
        _ranks,
        ratio,
        input_core_dims=[[dim]],
        output_core_dims=[[dim]],
        dask="parallelized",
        output_dtypes=[np.float64],
    )
    maximum, minimum = (api.estimate(score, **labels, estimator=names, dim=dim, **options) for score in (best, -best))
    counts: dict[str, Any]
    if label is None:
        counts = {f"n_{kind}": given[f"{kind}_weight"].sum(dim) for kind in ("positive", "negative")}
    else:
        is_positive, is_item = label >= (positive_from or 1), label >= (0 if unjudged == "drop" else -1)
        n_ranked = is_positive.sum(dim)
        counts = {"n_positive": n_ranked if n_positive is None else n_positive}
        counts["n_negative"] = (is_item & ~is_positive).sum(dim)
    random = xr.full_like(maximum, np.nan)
    for position, name in enumerate(names):
        chance = estimators.parse_estimator(name)[0].chance
        if isinstance(chance, float):
            random[{ESTIMATOR: position}] = chance
        elif label is not None:
            sizes = n_ranked, counts["n_negative"], counts["n_positive"]
            random[{ESTIMATOR: position}] = xr.apply_ufunc(
                _expected,
                *sizes,
                kwargs={"name": name, "prevalence": prevalence},
                vectorize=True,
                dask="parallelized",
                output_dtypes=[np.float64],
            )
    random = random.where(maximum.notnull())  # where no order has an area
    levels = xr.Dataset({"minimum": minimum, "maximum": maximum, "random": random, **counts})
    return levels if prevalence is None else levels.assign_attrs(prevalence=prevalence)


def normalised(area: Area, levels: xr.Dataset, *, zero: str = "minimum") -> Area:
    """Return where an area lies between two levels.

    It is ``(area - zero) / (maximum - zero)``; with ``zero="random"`` this is the area beyond chance,
    ``(AP - chance) / (1 - chance)``.

    Parameters
    ----------
    area : xarray.DataArray or Dataset
        Estimates, with or without the dimension ``estimator``; or their intervals, whose ends are normalised with the
        levels of this sample; or a result, whose estimates, standard errors, intervals and replicates are: its means
        and comparisons are those of normalised areas.
    levels : xarray.Dataset
        The result of :func:`reference_levels` for the same labels, or other levels.
    zero : {"minimum", "random"}
        Which level is 0: the worst ranking, or a random one.

    Returns
    -------
    xarray.DataArray or Dataset
        0 for the worst or a random ranking and 1 for the best; NaN where the two are equal.

    Raises
    ------
    AlignmentError
        If the levels lack some of the labels of the estimates, or are those of other items than a result's.
    InvalidInputError
        If they are those at another prevalence, or lack an estimator.

    Examples
    --------
    >>> import xarray as xr, aucpr_dask as ap
    >>> levels = xr.Dataset({"minimum": 0.25, "maximum": 1.0})
    >>> float(ap.normalised(xr.DataArray(0.7), levels))
    0.6
    >>> labels = xr.DataArray([1, 1, 0, 0], dims="item")
    >>> levels = ap.reference_levels(labels)
    >>> round(float(ap.normalised(xr.DataArray(0.9), levels, zero="random").squeeze()), 3)
    0.687
    """
    checks.choose(("minimum", "random"), zero, "zero")
    is_result = isinstance(area, xr.Dataset) and "estimate" in area
    estimates = area["estimate"] if is_result else area
    for name, given, kind in (("area", estimates, xr.DataArray), ("levels", levels, xr.Dataset)):
        is_right = isinstance(given, kind) and (name == "area" or {zero, "maximum"} <= set(given.data_vars))
        if not is_right or (name == "area" and given.dtype.kind != "f"):
            what = f"{name} are the estimates" if name == "area" else f"{name} are what reference_levels returns"
            allowed = "a DataArray of floats" if name == "area" else "a Dataset with minimum, random and maximum"
            remedy = "area=result['estimate'], levels=reference_levels(label)"
            raise InvalidInputError(what, f"argument {name!r}", type(given).__name__, allowed, remedy)
    if ESTIMATOR in estimates.coords and ESTIMATOR in levels.dims:
        names = [str(name) for name in np.atleast_1d(estimates[ESTIMATOR].values)]
        if lacking := [name for name in names if name not in levels[ESTIMATOR].values]:
            received, remedy = few(map(repr, lacking)), "reference_levels(label, estimators of the result)"
            raise InvalidInputError("levels lack an estimator", "argument 'levels'", received, remedy=remedy)
        levels = levels.sel({ESTIMATOR: names if estimates[ESTIMATOR].ndim else names[0]})
    whose = area if isinstance(area, xr.Dataset) else area.to_dataset(name="estimate")
    _refuse_levels_of_others(whose, levels)
    low, width = levels[zero], levels["maximum"] - levels[zero]
    width = width.where(width > 0)
    if not is_result:
        return (area - low) / width
    moved = {name: (area[name] - low) / width for name in ("estimate", "interval", "replicate") if name in area}
    if "standard_error" in area:
        moved["standard_error"] = area["standard_error"] / width
    moved = {name: one.transpose(*area[name].dims, ...).assign_attrs(area[name].attrs) for name, one in moved.items()}
    return area.assign(moved).assign_attrs({NORMALISED: zero})  # type: ignore[no-any-return]


def _refuse_levels_of_others(result: xr.Dataset, levels: xr.Dataset) -> None:
    """Raise if levels lack some labels of estimates, or are those of other items or of another prevalence."""
    remedy = "reference_levels(label, ...) of the items that were evaluated; of groups, those of each, by xr.concat"
    for dim, index in result["estimate"].indexes.items():
        if dim in levels.indexes and len(lacking := index.difference(levels.indexes[dim])):
            what, received = f"levels lack labels of {dim!r}", few(map(repr, lacking))
            raise AlignmentError(what, "argument 'levels'", received, "levels of all estimates", remedy)
    if not {"n_positive", "n_negative"} <= set(levels) & set(result):
        return  # levels of another origin, or estimates alone
    for name in ("n_positive", "n_negative"):
        known, own = xr.broadcast(result[name], levels[name])
        if known.chunks is None and own.chunks is None:
            differ = np.flatnonzero(np.abs(known - own) > ROUND_OFF * own)
            if differ.size:
                place = dict(zip(known.dims, np.unravel_index(differ[0], known.shape), strict=True))
                of_result, of_levels = known[place], own[place]
                labels = {str(dim): of_result[dim].item() for dim in known.dims if dim in of_result.coords}
                where = f" ({group_in_words(labels)})" if labels else ""
                received = f"{name} {of_levels.item():.10g} in the levels, {of_result.item():.10g} in the result{where}"
                what, allowed = "these are the levels of other items", "levels of the items of the result"
                raise AlignmentError(what, "argument 'levels'", received, allowed, remedy)
    asked, found = result.attrs.get("prevalence"), levels.attrs.get("prevalence")
    if asked != found:
        what, received = "these are the levels at another prevalence", f"prevalence={found}"
        remedy = f"reference_levels(label, prevalence={asked})"
        raise InvalidInputError(what, "argument 'levels'", received, f"prevalence={asked}, that of the result", remedy)


def unachievable_precision(recall: Any, prevalence: float) -> Any:
    """Return the precision below which no ranking can fall at a recall.

    It is ``pi r / (1 - pi + pi r)``. The area of the region below it is ``1 + (1 - pi) ln(1 - pi) / pi``.

    Parameters
    ----------
    recall : array, between 0 and 1
    prevalence : float, between 0 and 1

    Returns
    -------
    array, shaped like `recall`

    References
    ----------
    Boyd, Santos Costa, Davis & Page 2012, arXiv:1206.4667.

    Examples
    --------
    >>> import aucpr_dask as ap
    >>> float(ap.unachievable_precision(1.0, 0.2))
    0.2
    """
    prevalence = checks.fraction(prevalence, "prevalence")
    (recall,) = numeric(recall=recall)
    checks.refuse_outside("recall", recall, (recall < 0) | (recall > 1), "from 0 to 1")
    return prevalence * recall / (1 - prevalence + prevalence * recall)


def _labelled(array: Any, name: str, dims: tuple[str, ...]) -> Any:
    """Return an array as a DataArray with one dimension of items: the last one of a plain array."""
    if array is None:
        return None
    dim = joined(dims)
    if isinstance(array, xr.DataArray) and len(dims) > 1 and set(dims) <= set(array.dims):
        array = array.stack({dim: dims}, create_index=False)
    elif not isinstance(array, xr.DataArray):
        dim = one_dimension(dims)
        (values,) = (np.asarray(values) for values in numeric(**{name: array}))
        array = xr.DataArray(values, dims=[*(f"dim_{axis}" for axis in range(values.ndim - 1)), dim][: values.ndim])
    if dim not in array.dims or array.dtype.kind not in "iufb":
        received = f"dtype {array.dtype}, dimensions ({', '.join(map(str, array.dims))})"
        allowed = "an array of numbers, items on its last axis; or a DataArray"
        remedy = "give one number for each item, and the name of their dimension: dim=..."
        what = f"{name!r} must hold numbers over {dim!r}"
        raise InvalidInputError(what, f"argument {name!r}", received, allowed, remedy)
    return array


def _expected(n_positive: int, n_negative: int, total: float, *, name: str, prevalence: float | None) -> float:
    """Return the expected area of a random ranking, of `total` positives; NaN where it has no closed form."""
    spec, place = estimators.parse_estimator(name)
    n_items = n_positive + n_negative
    if spec.is_cutoff and total > 0 and n_items > 0:
        found = n_positive * min(place, n_items) / n_items
        return float(found / (place if name.startswith("precision") else total))
    if name not in SUMS or not total > 0 or (name == "gain_area" and total > n_positive):
        return np.nan
    scale = rankings.negative_scale(prevalence, total, n_negative)
    area = _expected_area(name, int(n_positive), int(n_negative), scale) if n_positive > 0 else 0.0
    return float(area * n_positive / total)


def _ranks(values: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(values, axis=-1, kind="stable"), axis=-1).astype(np.float64)


# The expected areas of a random ranking, for the estimators that are sums over single positives

Array = NDArray[np.float64]
SUMS = ("average_precision", "haldane", "lower_trapezoid", "upper_trapezoid", "discrete", "continuous", "gain_area")
NEGLIGIBLE = 10.0  # standard deviations from the mean, and 40 / sqrt(k) more, beyond which probabilities are negligible


def _step(name: str, negatives: Array, k: int, n: int, m: float) -> Array:
    """Return what the k-th of n positives adds to an area, if these numbers of m negatives precede it."""
    if name == "average_precision":
        return k / (k + negatives)
    if name == "haldane":  # the precision of the others
        return np.where(negatives > 0, (k - 1) / np.maximum(k - 1 + negatives, 1e-300), 1.0)
    if name == "upper_trapezoid":
        # Each positive's precision is the right end of one line and, but for the last, the left end of the next.
        share = 1.0 if k < n else 0.5
        return share * k / (k + negatives) + (0.5 if k == 1 else 0.0)
    if name == "continuous":
        x = 1 / (k - 1 + np.maximum(negatives, 1e-300))
        return np.where(negatives == 0, 1.0, 1 - negatives * np.log1p(x))
    if name == "gain_area":
        odds = n / m
        first = max(k - 1.0, n * odds / (1 + odds))  # recall gain is negative before
        left, right = 1 - odds * negatives / first, 1 - odds * negatives / k
        gain = (left + right) / 2 * odds * n * n * (1 / first - 1 / k)
        return gain if k > first else np.zeros_like(negatives)
    before = np.where(negatives == 0, 1.0, 0.0) if k == 1 else (k - 1) / (k - 1 + negatives)
    return (before + k / (k + negatives)) / 2


def _expected_area(name: str, n: int, m: int, scale: float = 1.0) -> float:
    """Return the mean area over all orders of n positives and m negatives; NaN without positives.

    The negatives before the k-th positive have the negative hypergeometric distribution; an estimator in `SUMS` is 1/n
    times the sum over k of a function of k and this number. `scale` multiplies every number of negatives.
    """
    if n == 0:
        return np.nan
    if m == 0:
        return np.nan if name == "gain_area" else 1.0
    total = 0.0
    for k in range(1, n + 1):
        negatives, probability = _negatives_before(k, n, m)
        total += float(probability @ _step(name, scale * negatives, k, n, scale * m))
    return total / n


def _negatives_before(k: int, n: int, m: int) -> tuple[Array, Array]:
    """Return the likely numbers of negatives before the k-th positive, and their probabilities."""
    mean = k * m / (n + 1)
    deviation = np.sqrt(mean * (n + m + 1) * (n + 1 - k) / ((n + 1) * (n + 2)))
    reach = (NEGLIGIBLE + 40 / np.sqrt(min(k, n + 1 - k))) * deviation + 50
    low, high = max(0, int(mean - reach)), min(m, int(mean + reach) + 1)
    j = np.arange(low, high + 1, dtype=np.float64)
    # From one number to the next the probability changes by (k + j)(m - j) / ((j + 1)(n - k + m - j)).
    growth = (k + j[:-1]) * (m - j[:-1]) / (j[1:] * (n - k + m - j[:-1]))
    logarithm = np.concatenate([[0.0], np.cumsum(np.log(growth))])
    probability = np.exp(logarithm - logarithm.max())
    return j, probability / probability.sum()
