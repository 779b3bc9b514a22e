"""Labelled curves: operating points, curves on a grid, conversions, dominance, confusion matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import xarray as xr

from aucpr_dask.curves import points
from aucpr_dask.errors import InvalidInputError, brief
from aucpr_dask.evaluation.alignment import as_array, elementwise, one_dimension, plain_inputs, score_inputs
from aucpr_dask.evaluation.mapping import core_dims, map_rankings
from aucpr_dask.evaluation.rankings import is_weighted
from aucpr_dask.evaluation.request import ROLES, Prepared, prepare
from aucpr_dask.schema import choices
from aucpr_dask.schema.checks import choose, refuse_outside
from aucpr_dask.schema.options import EvaluationOptions, takes
from aucpr_dask.schema.terms import ITEM, ITEM_ROLES, MODEL, QUERY
from aucpr_dask.scores.validate import check_same_labels

POINT, THRESHOLD, _CELL = "point", "threshold", "cell"
ROUNDING = 1e-12

_DESCRIPTIONS = {
    "threshold": "Items of this score or a larger one are predicted positive.",
    "true_positives": "Positives at or above the threshold (sum of weights if weighted).",
    "false_positives": "Negatives at or above the threshold (sum of weights if weighted).",
    "false_negatives": "Positives below the threshold (sum of weights if weighted).",
    "true_negatives": "Negatives below the threshold (sum of weights if weighted).",
    "precision": "true_positives / (true_positives + false_positives), at the given prevalence if there is one.",
    "recall": "true_positives / n_positive.",
    "false_positive_rate": "false_positives / n_negative.",
    "n_points": "Points of the ranking; those after them are padding (NaN).",
    "n_positive": "All positives, those never ranked included (sum of weights if weighted).",
    "n_negative": "All negatives (sum of weights if weighted).",
}


@takes(choices.CurveReading)
def curve(
    score: Any,
    label: Any,
    kind: choices.KindOfCurve = "precision_recall",
    *,
    grid: Any = None,
    weight: Any = None,
    positive_weight: Any = None,
    negative_weight: Any = None,
    n_positive: Any = None,
    dim: str | Sequence[str] = ITEM,
    **reading: Unpack[choices.CurveReading],
) -> xr.Dataset | xr.DataArray:
    """Compute precision-recall, ROC or achievable curves, in full or on a grid.

    An item is predicted positive if its score is at or above the threshold, so tied items are one step. Between
    the points A and B, false positives grow linearly with true positives, and with
    ``FP(t) = FP_A + (t - TP_A) (FP_B - FP_A) / (TP_B - TP_A)`` the precision at recall ``t / n`` is
    ``t / (t + FP(t))``: a hyperbola, where a straight line would be too high. In ROC space it is a straight line.
    Confidence bands are those of :func:`aucpr_dask.curve_bands`.

    Parameters
    ----------
    score : array, shape (..., item)
        NumPy or xarray; with `grid`, also Dask. Larger is more positive. The leading dimensions of unlabelled
        arrays are called ``model`` and ``query``.
    label : array, shape broadcastable to that of `score`
        1 positive, 0 negative, -1 unjudged, -2 padding; grades with `positive_from`. None with soft weights.
    kind : {"precision_recall", "roc", "achievable"}
        The achievable curve joins the vertices of the convex hull in ROC space, and is optimistic: the vertices
        are chosen on the same data. The points of the first two kinds are the same.
    grid : array of increasing numbers from 0 to 1, optional
        Recalls at which to give the precision; for ``"roc"``, false positive rates at which to give the recall.
    weight, positive_weight, negative_weight, n_positive, missing, unjudged, positive_from, dim
        See :func:`aucpr_dask.estimate`. Items without a score under ``missing="last"`` are the last point, at
        threshold -inf.
    prevalence : float, optional
        Prevalence between 0 and 1 to compute precision at; that of the sample by default.

    Returns
    -------
    xarray.Dataset or xarray.DataArray
        Without `grid`, a Dataset: ``threshold``, ``true_positives``, ``false_positives``, ``precision``,
        ``recall`` and ``false_positive_rate`` over (..., point), and over ... ``n_points``, ``n_positive`` and
        ``n_negative``. Point 0 is (0, 0) with threshold inf and precision 1; one for each tie group follows, from
        the highest score, or only those that are vertices. Rankings differ in their number of points, ``n_points``;
        shorter ones are padded with NaN. A rate of an empty class is NaN.

        With `grid`, a DataArray over (..., recall) or (..., false_positive_rate), lazy on Dask. Where a curve
        jumps, it has the better value: the larger precision at one recall, the larger recall at one false
        positive rate. At recall 0 it is the limit: the precision of the first point, or 0 if negatives rank
        above every positive. It is NaN beyond the largest recall (or false positive rate) of the ranking, and if the
        class in the denominator is empty.

    Raises
    ------
    InvalidInputError
        If an option, shape, type, label, weight or grid is not allowed, or a Dask array is given without a grid.
    MissingScoresError
        If a score is NaN under ``missing="raise"``.
    AlignmentError
        If xarray inputs carry different labels.

    References
    ----------
    Davis & Goadrich 2006, doi:10.1145/1143844.1143874 (interpolation, achievable curve). Keilwagen, Grosse &
    Grau 2014, doi:10.1371/journal.pone.0092209 (continuous interpolation, weights).

    Examples
    --------
    >>> import aucpr_dask as ap
    >>> points = ap.curve([0.9, 0.8, 0.8, 0.7], [1, 0, 1, 0])
    >>> points["recall"].values, points["precision"].values.round(4)
    (array([0. , 0.5, 1. , 1. ]), array([1.    , 1.    , 0.6667, 0.5   ]))
    >>> ap.curve([0.9, 0.8, 0.8, 0.7], [1, 0, 1, 0], grid=[0, 0.5, 0.75, 1]).values
    array([1.        , 1.        , 0.75      , 0.66666667])
    """
    choose(points.KINDS, kind, "kind")
    prepared = prepare_curves(locals(), EvaluationOptions.of(**reading), dim)
    over = "false_positive_rate" if kind == points.ROC else "recall"
    return _points(prepared, kind) if grid is None else _on_grid(prepared, kind, over, checked_grid(grid, over))


def arguments_of(
    dataset: xr.Dataset, models: Sequence[int] | None = None, *, path: str = "", positive_from: int | None = None
) -> dict[str, Any]:
    """Return a score data set as arguments of `curve`: lazy for all models, in memory for those at some positions."""
    inputs = score_inputs(dataset, positive_from, path)
    inputs.pop("tie_order", None)
    if models is not None:
        inputs = {
            name: (array.isel({MODEL: list(models)}) if MODEL in array.dims else array).compute()
            for name, array in inputs.items()
        }
    return {"label": None} | inputs | {"positive_from": positive_from}


def _points(prepared: Prepared, kind: str) -> xr.Dataset:
    """Return the operating points of prepared rankings."""
    arrays = prepared.arrays
    if any(array.chunks is not None for array in arrays.values()):
        what = "the number of operating points is unknown before a Dask array is computed"
        remedy = "pass grid= for the curve on a grid, or compute the arrays first: .compute()"
        raise InvalidInputError(what, "variable 'score'", "Dask arrays and no grid", "NumPy arrays, or a grid", remedy)
    columns = xr.apply_ufunc(
        points.curve_points,
        *arrays.values(),
        input_core_dims=core_dims(arrays, prepared.dim),
        output_core_dims=[[POINT]] * len(points.COORDINATES) + [[]] * len(points.TOTALS),
        kwargs={"roles": tuple(arrays), "options": prepared.options, "kind": kind},
        keep_attrs="override",  # those of coordinates
    )
    return _described(dict(zip((*points.COORDINATES, *points.TOTALS), columns, strict=True)), {"kind": kind})


def _on_grid(prepared: Prepared, kind: str, over: str, grid: np.ndarray) -> xr.DataArray:
    """Return the curves of prepared rankings on a grid of the coordinate `over`."""
    of = "recall" if kind == points.ROC else "precision"
    sizes, kwargs = {over: grid.size}, dict[str, Any](options=prepared.options, kind=kind, grid=grid)
    values: xr.DataArray = map_rankings(points.curve_on_grid, prepared.arrays, sizes, prepared.dim, **kwargs)
    values = values.assign_coords({over: grid}).rename(of)
    values.attrs = {"kind": kind, "description": _DESCRIPTIONS[of]}
    values[over].attrs["description"] = _DESCRIPTIONS[over]
    return values


@takes(choices.LabelReading)
def confusion(
    score: Any,
    label: Any,
    thresholds: Any,
    weight: Any = None,
    *,
    positive_weight: Any = None,
    negative_weight: Any = None,
    n_positive: Any = None,
    dim: str | Sequence[str] = ITEM,
    **reading: Unpack[choices.LabelReading],
) -> xr.Dataset:
    """Count true and false positives and negatives at thresholds.

    ``TP(c) = sum of weights of positives with score >= c``, and so on; without weights, numbers of items.

    Parameters
    ----------
    score, label, weight, positive_weight, negative_weight, n_positive, unjudged, positive_from, dim
        See :func:`curve`; NumPy, Dask or xarray.
    thresholds : array of distinct numbers, in any order
        They are rounded to the type of the scores: 0.7 reaches a float32 score of 0.7.
    missing : {"raise", "drop", "last", "unretrieved"}
        Meaning of NaN scores: an error; no item; or an item that no threshold reaches.

    Returns
    -------
    xarray.Dataset
        ``true_positives``, ``false_positives``, ``false_negatives`` and ``true_negatives`` over (..., threshold);
        whole numbers without weights; lazy on Dask.

    References
    ----------
    Keilwagen, Grosse & Grau 2014, doi:10.1371/journal.pone.0092209 (weights).

    Examples
    --------
    >>> import aucpr_dask as ap
    >>> matrices = ap.confusion([0.9, 0.8, 0.7, 0.6], [1, 0, 1, 0], [0.85, 0.65])
    >>> matrices["true_positives"].values, matrices["false_positives"].values
    (array([1, 2]), array([0, 1]))
    """
    places = _vector(thresholds, "thresholds")
    if np.isnan(places).any() or np.unique(places).size < places.size:
        what = "thresholds must be distinct and not NaN"
        remedy = "numpy.unique(thresholds) gives each once"
        raise InvalidInputError(
            what, "argument 'thresholds'", brief(thresholds), "distinct numbers, in any order", remedy
        )
    options = EvaluationOptions.of(**reading)
    if options.missing == "last":  # no threshold reaches an item that is tied below every score
        options = replace(options, missing="unretrieved")
    prepared = prepare_curves(locals(), options, dim)
    sizes = {THRESHOLD: places.size, _CELL: len(points.CELLS)}
    kwargs: dict[str, Any] = {"options": options, "thresholds": places}
    cells = map_rankings(points.confusion_counts, prepared.arrays, sizes, prepared.dim, **kwargs)
    cells = cells.assign_coords({THRESHOLD: places})
    if not is_weighted(prepared.arrays):
        cells = cells.astype(np.int64)
    return _described({name: cells.isel({_CELL: position}) for position, name in enumerate(points.CELLS)}, {})


def to_roc(recall: Any, precision: Any, n_positive: Any, n_negative: Any) -> tuple[Any, Any]:
    """Convert points of precision-recall space to ROC space.

    With ``TP = n recall`` the false positive rate is ``TP (1 - precision) / (precision m)``. For given numbers
    of positives n and negatives m this is one-to-one where recall is above 0; at recall 0 and precision 0 it is
    unknown, NaN.

    Parameters
    ----------
    recall, precision : array or float
        Between 0 and 1; NumPy, Dask or xarray.
    n_positive, n_negative : array or float
        Positives and negatives behind the points.

    Returns
    -------
    tuple
        False positive rate and recall. The former is NaN where no ranking has such a point: where precision is
        below ``TP / (TP + m)``.

    References
    ----------
    Davis & Goadrich 2006, doi:10.1145/1143844.1143874, Theorem 3.1.

    Examples
    --------
    >>> import aucpr_dask as ap
    >>> ap.to_roc(0.5, 0.25, 20, 2000)
    (0.015, 0.5)
    """
    counts = {"n_positive": n_positive, "n_negative": n_negative}
    return elementwise(_rate_of, recall=recall, precision=precision, **counts), recall


def to_precision_recall(false_positive_rate: Any, recall: Any, n_positive: Any, n_negative: Any) -> tuple[Any, Any]:
    """Convert points of ROC space to precision-recall space.

    With ``TP = n recall`` and ``FP = m false_positive_rate`` the precision is ``TP / (TP + FP)``, and 1 at the
    point (0, 0). This is the inverse of :func:`to_roc`.

    Parameters
    ----------
    false_positive_rate, recall : array or float
        Between 0 and 1; NumPy, Dask or xarray.
    n_positive, n_negative : array or float
        Positives and negatives behind the points.

    Returns
    -------
    tuple
        Recall and precision.

    References
    ----------
    Davis & Goadrich 2006, doi:10.1145/1143844.1143874, Theorem 3.1.

    Examples
    --------
    >>> import aucpr_dask as ap
    >>> ap.to_precision_recall(0.015, 0.5, 20, 2000)
    (0.5, 0.25)
    """
    counts = {"n_positive": n_positive, "n_negative": n_negative}
    return recall, elementwise(_precision_of, false_positive_rate=false_positive_rate, recall=recall, **counts)


def dominates(first: xr.Dataset, second: xr.Dataset, space: choices.Kind = "precision_recall") -> str | xr.DataArray:
    """Return which of two curves dominates: is nowhere below the other.

    For the same numbers of positives and negatives, a curve dominates in ROC space if and only if it does in
    precision-recall space: more recall at one false positive rate is fewer false positives at one recall.

    Parameters
    ----------
    first, second : xarray.Dataset
        Operating points, from :func:`curve`: (..., point) with ``true_positives``, ``false_positives``,
        ``n_positive`` and ``n_negative``. Other dimensions broadcast; to compare all pairs of models, rename
        ``model`` in one of them. Curves that end early continue to the point where everything is predicted positive.
    space : {"precision_recall", "roc"}
        Space of the comparison; both give the same answer.

    Returns
    -------
    str or xarray.DataArray of str
        ``"first"``, ``"second"``, ``"both"`` (the curves are equal) or ``"neither"``.

    References
    ----------
    Davis & Goadrich 2006, doi:10.1145/1143844.1143874, Theorem 3.2.

    Examples
    --------
    >>> import aucpr_dask as ap
    >>> label = [1, 1, 0, 0]
    >>> ap.dominates(ap.curve([4, 3, 2, 1], label), ap.curve([4, 2, 3, 1], label))
    'first'
    >>> ap.dominates(ap.curve([4, 1, 3, 2], label), ap.curve([3, 2, 4, 1], label))
    'neither'
    """
    choose((points.PRECISION_RECALL, points.ROC), space, "space")
    for name, given in (("first", first), ("second", second)):
        if not isinstance(given, xr.Dataset) or POINT not in given.dims or not set(given.data_vars) >= _COMPARED:
            what = f"{name!r} is not a set of operating points"
            allowed = f"a Dataset over {POINT!r} with {', '.join(sorted(_COMPARED))}"
            remedy = "compute it with curve(score, label), without grid="
            raise InvalidInputError(what, f"argument {name!r}", type(given).__name__, allowed, remedy)
    for total in ("n_positive", "n_negative"):
        check_same_labels(first[total], second[total], ("first", "second"))
        if not np.allclose(*xr.broadcast(first[total], second[total]), rtol=points.SAME_TOTAL, atol=0):
            received = f"{_range(first[total])} and {_range(second[total])}"
            allowed = "the same positives and negatives behind both curves"
            what = f"curves of different {total} cannot be compared"
            raise InvalidInputError(what, received=received, allowed=allowed)
    sides = first.rename_dims({POINT: "first"}), second.rename_dims({POINT: "second"})
    codes = xr.apply_ufunc(
        points.compare_curves,
        *(side[name] for side in sides for name in ("true_positives", "false_positives")),
        first["n_positive"],
        first["n_negative"],
        input_core_dims=[["first"], ["first"], ["second"], ["second"], [], []],
        keep_attrs=False,
    )
    verdicts = codes.copy(data=np.array(points.VERDICTS)[codes.values]).rename("dominates")
    return verdicts if verdicts.ndim else str(verdicts.values)


_COMPARED = {"true_positives", "false_positives", "n_positive", "n_negative"}


def _range(totals: xr.DataArray) -> str:
    lowest, highest = float(totals.min()), float(totals.max())
    return f"{lowest:g}" if lowest == highest else f"{lowest:g} to {highest:g}"


def prepare_curves(arguments: dict[str, Any], options: EvaluationOptions, dim: str | Sequence[str]) -> Prepared:
    """Prepare the arrays among arguments for curves; plain arrays get dimensions."""
    given = {role: arguments[role] for role in ROLES if arguments.get(role) is not None}
    if not isinstance(given.get("score"), xr.DataArray):
        given = _name_axes(plain_inputs(given), one_dimension(dim))
    return prepare(given, options, dim)


def _name_axes(arrays: dict[str, Any], dim: str) -> dict[str, xr.DataArray]:
    n_leading = arrays["score"].ndim - 1
    leading = (MODEL, QUERY)[:n_leading] if n_leading <= 2 else tuple(f"dim_{axis}" for axis in range(n_leading))
    named = {}
    for name, array in arrays.items():
        dims = (*leading, dim) if name in ITEM_ROLES else leading
        if array.ndim > len(dims):
            what = f"{name!r} has more axes than 'score'"
            received = f"{array.shape} and {arrays['score'].shape}"
            remedy = "give each ranking its own scores: numpy.broadcast_to"
            raise InvalidInputError(what, f"argument {name!r}", received, "as many axes as 'score', or fewer", remedy)
        named[name] = xr.DataArray(array, dims=dims[len(dims) - array.ndim :])
    return named


def _described(variables: dict[str, xr.DataArray], attrs: dict[str, str]) -> xr.Dataset:
    dataset = xr.Dataset(variables, attrs=attrs)
    for name in variables:
        dataset[name].attrs = {"description": _DESCRIPTIONS[name]}
    return dataset


def _vector(values: Any, what: str) -> np.ndarray:
    vector = np.asarray(as_array(values, what))
    if vector.ndim != 1 or vector.size == 0 or vector.dtype.kind not in "fiu":
        received = f"shape {vector.shape}, dtype {vector.dtype}"
        allowed = "a sequence or array of one axis, of integers or floats"
        remedy = f"give the numbers themselves: {what}=[0.25, 0.5]"
        raise InvalidInputError(f"{what} must be one or more numbers", f"argument {what!r}", received, allowed, remedy)
    return vector.astype(np.float64)


def checked_grid(values: Any, of: str) -> np.ndarray:
    """Return a grid of increasing rates from 0 to 1."""
    grid = _vector(values, "grid")
    if not (np.all((grid >= 0) & (grid <= 1)) and np.all(grid[1:] > grid[:-1])):
        what = f"grid must hold increasing values of {of} from 0 to 1"
        remedy = "for example numpy.linspace(0, 1, 101)"
        raise InvalidInputError(
            what, "argument 'grid'", np.array2string(grid, threshold=8), "0 <= grid[0] < grid[1] < ... <= 1", remedy
        )
    return grid


MOST = 1e300  # so that sums of counts do not overflow


def _refuse_impossible_points(recall: Any, n_positive: Any, n_negative: Any, **rates: Any) -> None:
    for name, values in {"recall": recall, **rates}.items():
        refuse_outside(name, values, (values < 0) | (values > 1), "from 0 to 1")
    for name, values in {"n_positive": n_positive, "n_negative": n_negative}.items():
        refuse_outside(name, values, ~((values >= 0) & (values < MOST)), f"from 0 to {MOST}")


def _rate_of(recall: Any, precision: Any, n_positive: Any, n_negative: Any) -> Any:
    _refuse_impossible_points(recall, n_positive, n_negative, precision=precision)
    found = n_positive * recall
    known = (precision > 0) & (n_negative > 0)
    rate = found * (1 - precision) / np.where(known, precision * n_negative, 1)
    possible = known & (rate <= 1 + ROUNDING)
    return np.where(possible, np.where(rate > 1, 1, rate), np.nan)


def _precision_of(rate: Any, recall: Any, n_positive: Any, n_negative: Any) -> Any:
    _refuse_impossible_points(recall, n_positive, n_negative, false_positive_rate=rate)
    found = n_positive * recall
    predicted = found + n_negative * rate
    return np.where(predicted > 0, found / np.where(predicted > 0, predicted, 1), 1)
