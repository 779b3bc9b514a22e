"""An interval of average precision, and whether one model is better than another, from plain arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.errors import warn
from aucpr_dask.evaluation import request
from aucpr_dask.evaluation.block_results import evaluate_block, variables_of
from aucpr_dask.evaluation.rankings import facts_known, warn_of_doubts
from aucpr_dask.metrics import targets
from aucpr_dask.schema import choices
from aucpr_dask.schema.checks import text
from aucpr_dask.schema.options import EvaluationOptions
from aucpr_dask.schema.terms import FLAG_BITS, FLAGS, ITEM, MODEL, Sentences, difference_in_words, p_value_in_words
from aucpr_dask.scores import copies

Array = NDArray[Any]
REMEDY = "clusters= names those that belong together; if they are others, nothing is wrong"


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
