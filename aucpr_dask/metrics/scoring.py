"""Average precision, its interval, the difference of two models, and the precision-recall curve, of plain arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.errors import brief, warn
from aucpr_dask.evaluation import request
from aucpr_dask.evaluation.alignment import refuse_swapped
from aucpr_dask.evaluation.block_results import evaluate_block, variables_of
from aucpr_dask.evaluation.rankings import evaluate_rankings, facts_known, warn_of_doubts
from aucpr_dask.metrics import targets
from aucpr_dask.schema import choices
from aucpr_dask.schema.checks import choose, text
from aucpr_dask.schema.options import EvaluationOptions
from aucpr_dask.schema.terms import FLAG_BITS, FLAGS, ITEM, MODEL, Sentences, difference_in_words, p_value_in_words
from aucpr_dask.scores import copies
from aucpr_dask.scores.validate import float_scores

Array = NDArray[Any]
REMEDY = "clusters= names those that belong together; if they are others, nothing is wrong"
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


# An interval, and whether one model is better than another


@choices.names_meant
def average_precision_interval(
    y_true: Any,
    y_score: Any,
    *,
    level: float = 0.95,
    method: str | None = None,
    pos_label: Any = 1,
    sample_weight: Any = None,
    clusters: Any = None,
    prevalence_design: str = "random",
) -> tuple[float, float]:
    """Compute a confidence interval of average precision.

    Parameters
    ----------
    y_true : array-like, shape (n_samples,)
        Labels of two classes.
    y_score : array-like, shape (n_samples,)
        Scores, larger for positives.
    level : float
        The probability with which the interval should cover, in (0, 1).
    method : str, optional
        One of the intervals of :func:`aucpr_dask.evaluate`; by default the same as there.
    pos_label : int, float, bool or str
        The positive label.
    sample_weight : array-like, shape (n_samples,), optional
        Weights.
    clusters : array-like, shape (n_samples,), optional
        Samples that depend on each other, such as those of one patient, carry the same value; clusters are then the
        sample.
    prevalence_design : {"random", "fixed"}
        Whether another sample would have other numbers of positives and negatives, or the same (stratified samples).

    Returns
    -------
    lower, upper : float
        NaN without positives. With fewer than 20 positives, no interval is reliable.

    References
    ----------
    Boyd, Eng & Page (2013), https://doi.org/10.1007/978-3-642-40994-3_29

    Examples
    --------
    >>> from aucpr_dask.metrics import average_precision_interval
    >>> lower, upper = average_precision_interval([0, 0, 1, 1] * 10, [0.1, 0.4, 0.35, 0.8] * 10)
    >>> round(lower, 3), round(upper, 3)
    (0.649, 0.937)
    """
    named = _arrays(y_true, {"y_score": y_score}, pos_label, sample_weight, clusters)
    unit = "clusters" if "cluster" in named else "items"
    intervals = None if method is None else text(method, "method")
    options = EvaluationOptions.of(interval=intervals, level=level, prevalence_design=prevalence_design)
    options = replace(options, resampling=replace(options.resampling, over=unit))
    options = request.with_own_intervals(options, named)
    resampling = options.resampling
    request.refuse_impossible(ranked(named), {}, options)
    has_copies = warn_of_copies(named)
    is_fixed = request.fixes_numbers(resampling, named)
    if resampling.uses_folds:
        request.refuse_more_folds_than_items(named["label"].size, resampling.n_folds)
    sampling = request.Sampling(is_fixed, n_folds=resampling.n_folds if resampling.uses_folds else 0)
    if resampling.draws or resampling.uses_folds:
        named = named | {"key": np.array(request.stream_key(resampling.seed, "", ""), np.uint64)}
    # As `evaluate` does rankings of a data set without a name, by the functions that evaluate blocks: the same bits.
    asked: dict[str, Any] = {"roles": tuple(named), "finish": variables_of, "options": options, "sampling": sampling}
    facts = facts_known(options, named, is_stratified=is_fixed)
    found: dict[str, Array] = evaluate_block(*named.values(), facts=facts, is_fixed=is_fixed, **asked)
    if has_copies:
        found["flags"] = found["flags"] | np.int32(FLAG_BITS["repeated_items"])
    lower, upper = map(float, np.ravel(found["interval"]))
    warn_of_doubts({"y_score": found["flags"]})
    if math.isnan(lower) or math.isnan(upper):
        reasons = ("no_positives", "no_negatives", "unseen_rates", "no_interval")
        why = " ".join(one.description for one in FLAGS if one.name in reasons and (found["flags"] & one.bit).any())
        warn(f"there is no interval. {why}".rstrip())
    return lower, upper


@dataclass(frozen=True, repr=False)
class Difference(Sentences):
    """The difference between the average precision of two models, b minus a.

    Attributes
    ----------
    difference : float
        Average precision of b minus that of a.
    interval : tuple of float
        Its confidence interval.
    p_value : float
        Of the two-sided test that the models do not differ.
    average_precision : tuple of float
        Of a and of b.
    level : float
        Of the interval.
    design : str
        What was sampled, and what is fixed.

    Examples
    --------
    >>> from aucpr_dask.metrics import average_precision_difference
    >>> y_true = [1, 1, 0] * 20
    >>> found = average_precision_difference(y_true, range(60), [3, 2, 1] * 20)
    >>> found.average_precision[1], found.difference > 0, found.p_value < 0.05
    (1.0, True, True)
    """

    difference: float
    interval: tuple[float, float]
    p_value: float
    average_precision: tuple[float, float]
    level: float
    design: str = ""

    def __repr__(self) -> str:
        better = "b" if self.difference > 0 else "a"
        verdict = (
            f"{better} is better" if self.p_value <= 1 - self.level else "which of a and b is better cannot be told"
        )
        if not any((self.difference, *self.interval)):
            verdict = "a and b are equal here"
        areas = self.average_precision[::-1], self.difference, self.interval, self.level
        numbers = difference_in_words(*areas, names=("b", "a"), least=3)
        said = f"{verdict}: average precision {numbers}, {p_value_in_words(self.p_value)}"
        return "\n".join(filter(None, [said, self.design]))


@choices.names_meant
def average_precision_difference(
    y_true: Any,
    y_score_a: Any,
    y_score_b: Any,
    *,
    level: float = 0.95,
    n_resamples: int | None = None,
    seed: int = 0,
    pos_label: Any = 1,
    sample_weight: Any = None,
    clusters: Any = None,
    prevalence_design: str = "random",
) -> Difference:
    """Tell whether model b has a larger average precision than model a.

    The comparison is paired: it uses the influence of every sample on both areas, or resamples that both models share.
    It needs about ten positives, with resamples about a hundred, and
    warns if there are fewer.

    Parameters
    ----------
    y_true : array-like, shape (n_samples,)
        Labels of two classes.
    y_score_a, y_score_b : array-like, shape (n_samples,)
        Scores of the two models, larger for positives.
    level : float
        Of the interval, in (0, 1).
    n_resamples : int, optional
        Bootstrap resamples; by default none, and Student's t with a variance by influence functions.
    seed : int
        Seed of the resamples.
    pos_label : int, float, bool or str
        The positive label.
    sample_weight : array-like, shape (n_samples,), optional
        Weights.
    clusters : array-like, shape (n_samples,), optional
        Samples that depend on each other, such as those of one patient, carry the same value; clusters are then the
        sample.
    prevalence_design : {"random", "fixed"}
        Whether another sample would have other numbers of positives and negatives, or the same (stratified samples).

    Returns
    -------
    Difference
        With ``difference``, ``interval``, ``p_value`` and ``design``; its ``repr`` is a sentence, and the design.

    See Also
    --------
    aucpr_dask.compare : many models, queries, other estimators and tests.

    References
    ----------
    Efron & Tibshirani (1993), An Introduction to the Bootstrap, https://doi.org/10.1201/9780429246593

    Examples
    --------
    >>> import numpy as np
    >>> from aucpr_dask.metrics import average_precision_difference
    >>> rng = np.random.default_rng(0)
    >>> y = rng.random(2000) < 0.1
    >>> a, b = (rng.normal(size=2000) + shift * y for shift in (1.5, 1.9))
    >>> average_precision_difference(y, a, b)  # doctest: +NORMALIZE_WHITESPACE
    b is better: average precision 0.598 (b) against 0.460 (a), difference +0.138,
    95 % interval +0.054 to +0.226, p = 0.0015
    sample: the items with their labels; fixed: the 2 models; approximate; needs at least 10 positives
    """
    scores = {"y_score_a": y_score_a, "y_score_b": y_score_b}
    named = _arrays(y_true, scores, pos_label, sample_weight, clusters)
    n_samples, n_positive = named["label"].size, int(named["label"].sum())
    if min(n_positive, n_samples - n_positive) < 2:
        what = "too few positives or negatives for a difference"
        received = f"{n_positive} positives and {n_samples - n_positive} negatives"
        allowed = "two of each, and some ten positives for an interval to rely on"
        raise targets.misfit(what, "y_true", received, allowed, "judge more samples")
    if n_resamples is None:
        asked = EvaluationOptions.of(level=level, seed=seed, prevalence_design=prevalence_design)
        return _by_influence(named, asked, list(scores))
    import xarray as xr

    from aucpr_dask.inference.comparing import compare  # with SciPy, whose import takes a fifth of a second

    dims = {name: (MODEL, ITEM) if name == "score" else (ITEM,) for name in named}
    data = xr.Dataset({name: (dims[name], array) for name, array in named.items()}, {MODEL: list(scores)})
    options: dict[str, Any] = {"n_resamples": n_resamples, "seed": seed, "prevalence_design": prevalence_design}
    found = compare(data, "y_score_a", method="bootstrap", level=level, **options)
    versus = found.sel(model="y_score_b")
    lower, upper = map(float, versus["interval"])
    a, b = map(float, found["estimate"])
    return Difference(
        float(versus["difference"]), (lower, upper), float(versus["p_value"]), (a, b), level, found.attrs["design"]
    )


def _by_influence(named: dict[str, Any], options: EvaluationOptions, names: list[str]) -> Difference:
    """Compare two models as :func:`aucpr_dask.compare` does, by the same functions of arrays."""
    from aucpr_dask.inference import covarying, designs, methods, paired_samples

    cluster = named.get("cluster")
    unit = "items" if cluster is None else "clusters"
    resampling = replace(options.resampling, over=unit)
    is_fixed = request.fixes_numbers(resampling, named)
    warn_of_copies(named)
    spread = covarying.spread_of_rankings(ranked(named), options, cluster, is_fixed=is_fixed)
    warn_of_doubts(dict(zip(names, spread.flags, strict=True)))
    words = ("positive", "positives")
    if cluster is not None:
        words = ("effective cluster with positives", "effective clusters with positives")
    paired_samples.warn_of_few(spread.n_effective.min(), words, "influence", 2)
    one, other = np.array([1]), np.array([0])
    errors = (np.sqrt(variance[one, other]) for variance in (spread.difference_variance, spread.outer_variance))
    degrees = paired_samples.degrees_of_mean(spread.n_effective.min(keepdims=True), spread.degrees.min(keepdims=True))
    inner, outer = errors
    difference = spread.estimate[one] - spread.estimate[other]
    pair = methods.student_pairs(one, other, difference, inner, degrees, methods.Goal(resampling.level, None), outer)
    attrs = {"sampled": unit, "prevalence_design": "fixed" if is_fixed else "random"}
    sampling = designs.settle(None, designs.ITEMS, "influence")
    condition = sampling.row.condition
    (lower, upper), (a, b) = np.clip(np.asarray(pair.bounds)[0], -1, 1).tolist(), spread.estimate.tolist()
    design = designs.describe(sampling, 2, 1, 0, attrs, condition=condition)
    return Difference(float(difference[0]), (lower, upper), float(pair.p_value[0]), (a, b), resampling.level, design)


def _arrays(y_true: Any, models: dict[str, Any], pos_label: Any, sample_weight: Any, clusters: Any) -> dict[str, Any]:
    """Return arrays by role: a row of scores for each model, and the labels, weights and clusters of the samples."""
    label, score, weight, cluster = targets.arrays_of(y_true, models, sample_weight, clusters)
    is_positive = targets.positives_of(label, pos_label)
    if is_positive is None:
        if targets.kind_of_target(label) != "binary":
            received = f"{np.unique(label).size} labels, shape {label.shape}"
            what, remedy = "y_true has several classes", "compare one class with the others: y_true == label"
            raise targets.misfit(what, "y_true", received, "one of two labels for each sample", remedy)
        label = targets.column(label, "y_true")
        targets.check_label(label, pos_label)
        is_positive = np.asarray(label == pos_label)
    named = {"score": np.stack(list(score.values())), "label": is_positive.view(np.int8)}
    others = {"weight": weight, "cluster": cluster}
    return named | {role: array for role, array in others.items() if array is not None}


def ranked(named: dict[str, Array]) -> dict[str, Array]:
    """Return the arrays that rankings are made of."""
    return {role: array for role, array in named.items() if role != "cluster"}


def warn_of_copies(named: dict[str, Array]) -> bool:
    """Warn of items that look like copies of others and count as independent; return whether there are some."""
    n_copies = 0 if "cluster" in named else copies.count_copies(named["score"], named["label"][np.newaxis])
    if n_copies:
        copies.warn_of_counts({"": [n_copies, named["label"].size]}, REMEDY)
    return n_copies > 0
