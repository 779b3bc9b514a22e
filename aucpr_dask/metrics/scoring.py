"""Average precision and the precision-recall curve, with scikit-learn's signatures and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.errors import brief, warn
from aucpr_dask.evaluation.alignment import refuse_swapped
from aucpr_dask.evaluation.rankings import evaluate_rankings, warn_of_doubts
from aucpr_dask.metrics import targets
from aucpr_dask.schema import choices
from aucpr_dask.schema.checks import choose
from aucpr_dask.schema.options import EvaluationOptions
from aucpr_dask.scores.validate import float_scores

AVERAGES = ("macro", "micro", "weighted", "samples")


@choices.names_meant
def average_precision_score(
    y_true: Any,
    y_score: Any,
    *,
    average: choices.Average | None = "macro",
    pos_label: Any = 1,
    sample_weight: Any = None,
) -> float | NDArray[np.float64]:
    """Compute average precision, with scikit-learn's signature and numbers.

    ``AP = sum over n of (R_n - R_(n-1)) P_n``, with the precision P_n and the recall R_n at the n-th threshold.

    Parameters
    ----------
    y_true : array-like, shape (n_samples,) or (n_samples, n_classes)
        Labels of two classes; of several classes; or 0 and 1 for every class (dense or sparse).
    y_score : array-like, shape (n_samples,) or (n_samples, n_classes)
        Scores, larger for positives. Lists, frames, and arrays or tensors of other libraries in host memory are read
        without importing these.
    average : {"macro", "micro", "weighted", "samples"} or None
        For several classes: the mean over classes; over all pairs of sample and class; over classes, weighted by their
        positives; over samples; or None for an array of one value per class.
    pos_label : int, float, bool or str
        The positive label of two classes.
    sample_weight : array-like, shape (n_samples,), optional
        Weights, not negative.

    Returns
    -------
    float or numpy.ndarray
        Average precision; with ``average=None`` and several classes, float64 of shape (n_classes,). A class without
        positives has 0, with a warning; :func:`aucpr_dask.evaluate` gives NaN and a flag.

    Raises
    ------
    InvalidInputError
        Arrays of different lengths, missing values, negative weights, whole numbers beyond 2**53 as scores, or labels
        of another kind. It is a ``ValueError``.

    References
    ----------
    Boyd, Eng & Page (2013), https://doi.org/10.1007/978-3-642-40994-3_29

    Examples
    --------
    >>> from aucpr_dask.metrics import average_precision_score
    >>> round(average_precision_score([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]), 4)
    0.8333
    >>> average_precision_score([0, 1, 2], [[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.4, 0.1, 0.5]], average=None)
    array([1., 1., 1.])
    """
    if average is not None:
        choose(AVERAGES, average, "average")
    given = targets.arrays_of(y_true, {"y_score": y_score}, sample_weight, many=True)
    label, score, weight = given[0], given[1]["y_score"], given[2]
    is_of_two = targets.positives_of(label, pos_label)
    if is_of_two is None:
        refuse_swapped(score, label, "labels first, then scores")
        kind = targets.kind_of_target(label)
    if is_of_two is None and kind == "binary":
        label = targets.column(label, "y_true")
        targets.check_label(label, pos_label)
        is_of_two = label == pos_label
    if is_of_two is not None:
        return float(_average_precisions(is_of_two[None], targets.column(score, "y_score")[None], weight)[0])
    if pos_label != 1:
        what = f"pos_label is for two classes, and y_true is {kind}"
        remedy = "leave it out: each class is the positive one in turn"
        raise targets.misfit(what, "pos_label", brief(pos_label), "1", remedy)
    is_positive = label == 1 if kind == "multilabel" else label.reshape(-1, 1) == np.unique(label)
    if score.shape != is_positive.shape:
        what = "y_true has several classes, and y_score does not have a column for each"
        remedy = "give the scores of all classes, such as those of predict_proba; if y_true lacks some of them, give "
        remedy += "a column of 0 and 1 for each: y_true[:, None] == classes"
        raise targets.misfit(what, "y_score", f"shape {score.shape}", f"shape {is_positive.shape}", remedy)
    if average == "micro":
        of_pairs = None if weight is None else np.repeat(weight, score.shape[1])
        return float(_average_precisions(is_positive.reshape(1, -1), score.reshape(1, -1), of_pairs)[0])
    if average == "samples":
        return float(np.average(_average_precisions(is_positive, score, None, are_samples=True), weights=weight))
    of_classes = _average_precisions(is_positive.T, score.T, weight)
    if average is None:
        return of_classes
    if average == "macro":
        return float(of_classes.mean())
    n_positive = is_positive.sum(axis=0) if weight is None else weight @ is_positive
    return float(np.average(of_classes, weights=n_positive)) if n_positive.sum() > 0 else 0.0


def _average_precisions(
    is_positive: NDArray[np.bool_], score: NDArray[Any], weight: NDArray[Any] | None, *, are_samples: bool = False
) -> NDArray[np.float64]:
    """Return the average precision of every ranking; arrays have the shape (ranking, item)."""
    named = {"score": float_scores(score), "label": np.ascontiguousarray(is_positive).view(np.int8)}
    named |= {} if weight is None else {"weight": weight}
    # With arrays alone: xarray would import Dask to ask whether it made them.
    evaluated = evaluate_rankings(named, EvaluationOptions())
    found = evaluated.estimate[:, 0]
    if (is_undefined := np.isnan(found)).any():
        of = "" if found.size == 1 else f" in {is_undefined.sum():,} of {found.size:,} classes or samples"
        warn(f"y_true has no positives{of}, so average precision is 0{of and ' there'}")
    if not are_samples:  # whose few scores may well be two
        warn_of_doubts({"y_score": evaluated.flags}, of="classes")
    return np.where(is_undefined, 0.0, found)


@choices.names_meant
def precision_recall_curve(
    y_true: Any, y_score: Any, *, pos_label: Any = None, sample_weight: Any = None, drop_intermediate: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[Any]]:
    """Compute precision and recall at every threshold, as scikit-learn does.

    Parameters
    ----------
    y_true : array-like, shape (n_samples,)
        Labels of two classes.
    y_score : array-like, shape (n_samples,)
        Scores, larger for positives.
    pos_label : int, float, bool or str, optional
        The positive label; by default 1, if the labels are 0 and 1, or -1 and 1.
    sample_weight : array-like, shape (n_samples,), optional
        Weights.
    drop_intermediate : bool
        Keep only the first and last threshold of each recall.

    Returns
    -------
    precision, recall : numpy.ndarray, float64, shape (n_thresholds + 1,)
        At decreasing recall; the last point is (1, 0).
    thresholds : numpy.ndarray, shape (n_thresholds,)
        The distinct scores, increasing.

    Raises
    ------
    InvalidInputError
        Arrays of different lengths, NaN, or labels of another kind. It is a ``ValueError``.

    References
    ----------
    Davis & Goadrich (2006), https://doi.org/10.1145/1143844.1143874

    Examples
    --------
    >>> from aucpr_dask.metrics import precision_recall_curve
    >>> precision, recall, thresholds = precision_recall_curve([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    >>> precision.round(2), recall, thresholds
    (array([0.5 , 0.67, 0.5 , 1.  , 1.  ]), array([1. , 1. , 0.5, 0.5, 0. ]), array([0.1 , 0.35, 0.4 , 0.8 ]))
    """
    given = targets.arrays_of(y_true, {"y_score": y_score}, sample_weight, as_is=True)
    label, score, weight = given[0], given[1]["y_score"], given[2]
    is_positive = targets.positives_of(label, pos_label)
    if is_positive is None:
        refuse_swapped(score, label, "labels first, then scores")
        kind = targets.kind_of_target(label)
        if kind == "multilabel" or (pos_label is None and kind != "binary"):
            received = f"labels {brief(np.unique(label).tolist())}, shape {label.shape}"
            what, remedy = "y_true has several classes", "give one curve per class, with pos_label"
            raise targets.misfit(what, "y_true", received, "two labels, one for each sample", remedy)
        label = targets.column(label, "y_true")
        is_positive = np.asarray(label == targets.positive_label(label, pos_label))
    true_positives, predicted, thresholds = _cumulated(is_positive, score, weight)
    if drop_intermediate and thresholds.size > 2:
        steps = np.diff(true_positives) != 0
        keep = np.concatenate([[True], steps[:-1] | steps[1:], [True]])
        true_positives, predicted, thresholds = true_positives[keep], predicted[keep], thresholds[keep]
    precision, recall = np.zeros(thresholds.size + 1), np.zeros(thresholds.size + 1)
    np.divide(true_positives, predicted, out=precision[:-1], where=predicted != 0)
    precision[-1] = 1.0
    if true_positives[0] == 0:
        warn("y_true has no positives, so recall is 1 at every threshold")
        recall[:-1] = 1.0
    else:
        np.divide(true_positives, true_positives[0], out=recall[:-1])
        score = score if score.dtype.kind == "f" else score.astype(np.float64)
        _average_precisions(is_positive[None], score[None], None)  # for its warnings
    return precision, recall, thresholds


def _cumulated(
    is_positive: NDArray[np.bool_], score: NDArray[Any], weight: NDArray[Any] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[Any]]:
    """Return weights of true positives and of all items at or above each distinct score, from the smallest score."""
    if weight is None:
        ascending = np.sort(score)
        first = np.flatnonzero(np.append(True, ascending[1:] != ascending[:-1]))
        thresholds = ascending[first]
        place = np.searchsorted(thresholds, np.sort(score[is_positive]))
        below = np.cumsum(np.bincount(place + 1, minlength=thresholds.size + 1))  # positives below each score
        return np.float64(place.size) - below[:-1], np.float64(score.size) - first, thresholds
    is_positive, score, weight = (array[weight != 0] for array in (is_positive, score, weight))
    order = np.argsort(score)[::-1]
    score, is_positive = score[order], is_positive[order]
    last = np.append(np.flatnonzero(score[1:] != score[:-1]), score.size - 1)[::-1]
    weight = weight[order].astype(np.float64)
    true_positives = np.cumsum(weight * is_positive)[last]
    return true_positives, true_positives + np.cumsum(weight * ~is_positive)[last], score[last]
