"""All numbers of a result from the arrays of a NumPy block: what intervals are made of, then the intervals.

Module-level functions are pickled by name: `evaluate_block` is the one function in the graph of an evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.evaluation import rankings
from aucpr_dask.evaluation.chunk_passes import finish_rankings
from aucpr_dask.evaluation.influences import effective_positives, influence_facts, sums_of_weights
from aucpr_dask.evaluation.rankings import Array, Evaluated, Floats, Rows, evaluate_rankings, is_weighted, items_of
from aucpr_dask.evaluation.request import Sampling, is_default
from aucpr_dask.evaluation.resampled_rankings import estimate_accelerations, evaluate_folds, replicate_rankings
from aucpr_dask.schema.estimators import AREAS, parse_estimator
from aucpr_dask.schema.intervals import INTERVALS, ON_UNIT_SCALE
from aucpr_dask.schema.options import ALL_RECALLS, EvaluationOptions
from aucpr_dask.schema.terms import RESULT_VARIABLES

if TYPE_CHECKING:
    from aucpr_dask.kernels import Items
    from aucpr_dask.kernels.intervals import Evidence

OF_PERCENTILES = ("bootstrap", "bca")  # whose replicates do not vary where a ranking has no mistake
OF_RESAMPLING = ("key", "cluster", "fold")  # roles of arrays that no estimate needs


def evaluate_block(
    *arrays: Any,
    roles: tuple[str, ...],
    finish: Callable[..., Any],
    options: EvaluationOptions,
    facts: tuple[str, ...] = (),
    is_fixed: bool = True,
    **kwargs: Any,
) -> Any:
    """Evaluate the rankings of a block, and return what `finish` makes of the numbers and the arrays.

    A generalized function, ``(item), (item), ..., () -> ...``, whose leading dimensions broadcast. Rankings whose items
    are in several chunks come as the counts of both passes over them, in place of scores and labels.
    """
    named = dict(zip(roles, arrays, strict=True))
    ranked = {role: array for role, array in named.items() if role not in OF_RESAMPLING}
    evaluated = (finish_rankings if "tally" in named else evaluate_rankings)(ranked, options, facts, is_fixed=is_fixed)
    return finish(evaluated, named, options=options, **kwargs)


def results_of(
    evaluated: Evaluated, named: dict[str, Array], options: EvaluationOptions, sampling: Sampling
) -> tuple[Array, ...]:
    """Return the variables of a result, in the order of `RESULT_VARIABLES`."""
    return tuple(variables_of(evaluated, named, options, sampling).values())


def variables_of(
    evaluated: Evaluated, named: dict[str, Array], options: EvaluationOptions, sampling: Sampling
) -> dict[str, Array]:
    """Return the variables of a result by name, in the order of `RESULT_VARIABLES`."""
    from aucpr_dask.kernels.intervals import MOST_EXTRAPOLATED

    evidence = evidence_of(evaluated, named, options, sampling)
    found = evaluated._asdict() | {
        "standard_error": _standard_errors(evidence, options),
        "interval": interval_bounds(evidence, options, options.resampling.level),
    }
    if is_weighted(named):
        found["n_effective"] = evidence.get("n_positive")[..., 0]
    if "cluster" in named:
        found["n_positive_clusters"] = effective_positives(*items_of(named, options), options)
    n_drawn = found.get("n_positive_clusters", evidence.get("n_positive")[..., 0])
    found["flags"] = _flags(evaluated.flags, evidence, options.recall_range[1] * n_drawn)
    unseen = np.zeros(evidence.estimate.shape, bool)  # areas that are mostly extrapolated
    if evidence.half_seen is not None:
        is_area = np.array([name in AREAS for name in options.estimators]) & (options.recall_range == ALL_RECALLS)
        unseen = is_area & (evidence.estimate > MOST_EXTRAPOLATED * evidence.half_seen)
    # An interval that nobody asked for, or whose coverage is said to hold, is not shown where it is known to be wrong.
    shown = {"extrapolated"} if is_default(options) else set(INTERVALS) - {"influence_beta"}
    is_hidden = np.array([name not in shown for name in options.resampling.intervals], bool)
    found["interval"] = np.where((unseen[..., None] & is_hidden)[..., None], np.nan, found["interval"])
    found["flags"] = rankings.with_flag(found["flags"], "unseen_rates", np.any(unseen, axis=-1))
    if evidence.n_carrying is not None:
        is_carried_by_few = np.any(evidence.n_carrying < FEW_CARRY, axis=-1)
        found["flags"] = rankings.with_flag(found["flags"], "few_weights", is_carried_by_few)
    if "extrapolated" in options.resampling.intervals:
        unknown = np.full(evaluated.n_positive.shape, np.nan)
        found["extrapolated"] = unknown if evidence.tails is None else evidence.sorted_tails.quantile(0.5)[..., 0]
    lacks = np.isnan(found["interval"]).any(axis=-1).all(axis=-1) & ~np.isnan(evaluated.estimate)
    if options.resampling.intervals:
        found["flags"] = rankings.with_flag(found["flags"], "no_interval", lacks.any(axis=-1))
    if options.resampling.keep_replicates:
        found["replicate"] = evidence.replicates
    return {
        name: found[name][..., *(0 if dim in options.single else slice(None) for dim in spec.dims[0] if dim != "...")]
        for name, spec in RESULT_VARIABLES.items()
        if name in found
    }


def evidence_of(
    evaluated: Evaluated, named: dict[str, Array], options: EvaluationOptions, sampling: Sampling
) -> Evidence:
    """Gather what intervals are made of; arrays have a last axis, or the last but one, for the estimators."""
    from aucpr_dask.kernels.intervals import Evidence

    resampling, is_stratified = options.resampling, sampling.is_stratified
    drawn = {role: array for role, array in named.items() if role != "fold"}
    unfolded = cache(partial(items_of, drawn, options))  # rows and items, which most estimates do without
    n_positive = n_effective = evaluated.n_positive
    if is_weighted(named):
        rows, items = unfolded()
        n_positive = n_effective = effective_positives(rows, items._replace(clusters=None), options)
    facts = evaluated.facts
    if options.with_influence and not facts:  # of weights, or of clusters
        facts = influence_facts(*unfolded(), options, is_fixed=is_stratified)
    n_effective = np.stack([n_effective] * len(options.estimators), axis=-1)
    if "roc_area" in options.estimators:  # whose classes are alike
        place = options.estimators.index("roc_area")
        n_effective[..., place] = np.minimum(n_effective[..., place], evaluated.n_negative)
    evidence = Evidence(evaluated.estimate, n_positive[..., None], n_effective=n_effective, **facts)
    has_tail = "extrapolated" in resampling.intervals
    if "tally" not in named and (has_tail or options.prevalence is not None or is_weighted(named)):
        half = half_seen(*unfolded(), options)
        evidence = replace(evidence, half_seen=half[..., None])
        if has_tail:
            needed = ~np.isnan(half) if "cluster" not in named else np.zeros_like(half, bool)  # none of clusters
            evidence = replace(evidence, tails=tail_draws(*unfolded(), options, needed)[..., None, :])
    if "bca" in resampling.intervals and "acceleration" not in facts:
        acceleration = estimate_accelerations(*unfolded(), options, is_stratified=is_stratified)
        evidence = replace(evidence, acceleration=acceleration)
    if resampling.draws and "key" in named:
        with_errors = "bootstrap_t" in resampling.intervals
        replicates, errors = replicate_rankings(*unfolded(), named, options, sampling, with_errors=with_errors)
        evidence = replace(evidence, replicates=replicates, replicate_errors=errors)
    if resampling.uses_folds:
        folds = {role: array for role, array in named.items() if role != "cluster"}
        evidence = replace(evidence, folds=evaluate_folds(folds, options, n_folds=sampling.n_folds))
    return evidence


def _standard_errors(evidence: Evidence, options: EvaluationOptions) -> Floats:
    """Return standard errors: by the influence function of estimators that have one, of others by their replicates."""
    errors: Floats = np.full(evidence.estimate.shape, np.nan)
    has_influence = np.array([name in options.with_influence for name in options.estimators])
    if evidence.error is not None:
        errors[..., has_influence] = evidence.error[..., has_influence]
    if evidence.replicates is not None:
        for place in np.flatnonzero(~has_influence):  # one by one, because NumPy makes copies
            replicates = evidence.replicates[..., place, :]
            has_several = np.count_nonzero(~np.isnan(replicates), axis=-1) > 1  # of others NumPy warns
            rows = replicates if has_several.all() else replicates[has_several]
            errors[..., place][has_several] = np.nanstd(rows, axis=-1, ddof=1).reshape(-1)
    errors[np.isnan(evidence.estimate)] = np.nan
    return errors


def _flags(flags: Array, evidence: Evidence, n: Array) -> Array:
    """Return the flags, with those about resamples, and about the number of positives that counts."""
    flags = rankings.with_few_positives(flags, n)
    if evidence.replicates is None:
        return flags
    lacks = np.isnan(evidence.replicates).any(axis=-1) & ~np.isnan(evidence.estimate)
    return rankings.with_flag(flags, "undefined_resamples", lacks.any(axis=-1))


def interval_bounds(evidence: Evidence, options: EvaluationOptions, level: float) -> Floats:
    """Return all intervals at this level, (..., estimator, method, bound); NaN where an estimator has none."""
    from aucpr_dask.kernels.intervals import bounds_of, wide_at_ends

    methods, is_whole = options.resampling.intervals, options.recall_range == ALL_RECALLS
    bounds = np.full((*evidence.estimate.shape, len(methods), 2), np.nan)
    known = {"replicates": evidence.replicates, "error": evidence.error, "tails": evidence.tails}
    for column, method in enumerate(methods):
        spec = INTERVALS[method]
        if any(known[need] is None for need in spec.needs if need in known):
            continue  # a default interval of data that have none
        of_parts = not spec.is_formula and "tails" not in spec.needs
        has = [spec.serves(name) and (is_whole or of_parts) for name in options.estimators]
        if any(has):
            scaled, width = evidence, 1.0
            if "error" in spec.needs and not is_whole:
                scaled, width = _of_a_part(evidence, *options.recall_range)
            found = width * bounds_of(scaled, method, level)
            if method in OF_PERCENTILES and is_whole and evidence.n_effective is not None:
                trials = _trials(evidence.n_effective, options.estimators)
                found = wide_at_ends(found, evidence.estimate, *trials, level)
            bounds[..., has, column, :] = found[..., has, :]
    return bounds


def _trials(n_positive: Array, estimators: Sequence[str]) -> tuple[Array, Array]:
    """Return of how many items an estimate of 0, or the highest possible, is the share, and the highest possible."""
    n_trials, most = np.array(n_positive, np.float64), np.ones_like(n_positive, np.float64)
    for place, (spec, parameter) in enumerate(map(parse_estimator, estimators)):
        if spec.is_cutoff:
            of_all = parameter if spec.name == "precision_at" else np.maximum(n_trials[..., place], 1)
            n_trials[..., place] = np.minimum(parameter, n_trials[..., place])
            most[..., place] = n_trials[..., place] / of_all
        elif spec.name not in ON_UNIT_SCALE and spec.influence:
            n_trials[..., place] = 0  # no share, so it has no ends
        elif spec.name == "precision_at_recall":
            n_trials[..., place] *= parameter
    return n_trials, most


def _of_a_part(evidence: Evidence, lowest: float, highest: float) -> tuple[Evidence, float]:
    """Return what is known of a part of the area as shares of its width, and so between 0 and 1; and the width.

    Only the positives up to its highest recall tell how much it varies: half a one less, without which intervals of
    `continuous` miss from below in up to 0.09 of samples, because the last of them lies anywhere around that recall.
    """
    width, n = highest - lowest, np.asarray(evidence.n_effective)
    evidence = replace(evidence, n_effective=np.where(n > 0, np.maximum(highest * n - 0.5, 1.0), n))
    known = {"estimate": 1, "error": 1, "cubes": 3, "left_out": 1, "unseen_loss": 1}
    parts = {name: getattr(evidence, name) for name in known}
    scaled = {name: part / width ** known[name] for name, part in parts.items() if part is not None}
    return replace(evidence, **scaled), width


# --- areas that rest on rates below what the negatives of a sample show ---------------------------------------------
# If every negative stands for more than one, as at another prevalence or where negatives were subsampled and have
# larger weights, then rates below one over the number of negatives decide, and a precision of 1 above the first
# negative is a guess. A Bayesian bootstrap with half an unseen negative above all items (Jeffreys' prior) reckons with
# that, and with half of each positive's own weight left out of its recall.

STREAM = 2  # a random stream different from those of resamples and folds
AT_ONCE = 1 << 18  # numbers drawn at a time, in some ten arrays: about 20 MB
FEW_CARRY = 10.0  # items whose influences are most of the variance of an area
TYPICAL = 2.0  # times as heavy as a positive may negatives be by chance, where weights alone tell
HALF = 0.5  # an unseen negative, and what is left out of a positive's own weight


class Groups(NamedTuple):
    """The tie groups of one ranking that hold a positive, from the highest score: sums of weights, and of squares."""

    positives: Floats  # (K + 1,): in each, and of those never ranked
    positive_squares: Floats
    negatives: Floats  # (K + 1,): in each and above it, up to the one before; and those below all
    negative_squares: Floats
    odds: float  # of a negative, at the prevalence asked for
    unit: float  # the typical weight of a negative


def half_seen(rows: Rows, items: Items, options: EvaluationOptions) -> Floats:
    """Return each ranking's average precision with half a negative more above all items, and half of each positive.

    It is NaN if no negative stands for more than one, so that nothing is extrapolated.
    """
    n, n_squares = (total + items.unseen for total in sums_of_weights(items, items.positive, options))
    m, m_squares = sums_of_weights(items, items.negative, options)
    least = TYPICAL if options.prevalence is None else 1.0
    with np.errstate(divide="ignore", invalid="ignore"):  # of rankings without items of a class
        is_extrapolated = _odds(n, m, options) * (m_squares / m) / m > least * n_squares / n / n
    found = np.full(len(items.score), np.nan)
    for row in np.flatnonzero(is_extrapolated & (n > 0) & (m > 0)).tolist():
        if groups := _groups(items, row, options):
            n_all, m_all = groups.positives.sum(), groups.negatives.sum()
            gained = groups.positives[:-1]
            own = groups.positive_squares[:-1] / gained
            true = (np.cumsum(gained) - HALF * own) / n_all
            seen = np.cumsum(groups.negatives[:-1]) + HALF * groups.unit
            false = groups.odds * seen / (m_all + HALF * groups.unit)
            found[row] = (gained * true / (true + false)).sum() / n_all
    return found.reshape(rows.lead)


def tail_draws(rows: Rows, items: Items, options: EvaluationOptions, needed: NDArray[np.bool_]) -> Floats:
    """Return draws (..., resample) of each area needed by the Bayesian bootstrap with half an unseen negative."""
    n_draws, seed = options.resampling.n_resamples, options.resampling.seed
    out = np.full((len(items.score), n_draws), np.nan)
    for row in np.flatnonzero(needed).tolist():
        if groups := _groups(items, row, options):
            out[row] = _draws(groups, n_draws, seed)
    return out.reshape(*rows.lead, n_draws)


def _odds(n: Any, m: Any, options: EvaluationOptions) -> Any:
    return m / n if options.prevalence is None else (1 - options.prevalence) / options.prevalence


def _groups(items: Items, row: int, options: EvaluationOptions) -> Groups | None:
    """Return the tie groups of a ranking; None if a class is empty."""
    score, (positive, negative), unseen = items.score[row], items.weights(row), float(items.unseen[row])
    is_counted = ~np.isnan(score) | (options.missing in ("last", "unretrieved"))
    weights = positive, positive**2, negative, negative**2
    n, m, m_squares = (float(weights[place][is_counted].sum()) for place in (0, 2, 3))
    n += unseen
    if not n > 0 or not m > 0:
        return None
    if options.missing == "last":  # below every score
        score = np.where(np.isnan(score), -np.inf, np.maximum(score, np.finfo(np.float64).min))
    is_ranked = ~np.isnan(score)
    values = np.unique(score[is_ranked & (positive > 0)])  # of the tie groups with a positive
    at = np.full(score.size, values.size)  # the next of them at or below an item; those below all come last
    at[is_ranked] = values.size - np.searchsorted(values, score[is_ranked], side="right")
    sums: list[Any] = [np.bincount(at[is_counted], weight[is_counted], values.size + 1) for weight in weights]
    sums[0][-1] += unseen
    sums[1][-1] += unseen
    return Groups(sums[0], sums[1], sums[2], sums[3], _odds(n, m, options), m_squares / m)


def _draws(groups: Groups, n_draws: int, seed: int) -> Floats:
    """Draw gamma weights of each group of items with the mean and variance of those of its items."""
    generator = np.random.Generator(np.random.Philox(key=(seed % 2**64) + (STREAM << 64)))
    shapes, scales = [], []
    for total, squares in (groups[:2], groups[2:4]):
        known = total > 0
        scales.append(np.divide(squares, total, out=np.zeros_like(total), where=known))
        shapes.append(np.divide(total, scales[-1], out=np.zeros_like(total), where=known))
    at_once, out = max(1, AT_ONCE // groups.positives.size), np.empty(n_draws)
    for start in range(0, n_draws, at_once):
        size = min(at_once, n_draws - start)
        gained, passed = (
            generator.gamma(shape, size=(size, shape.size)) * scale for shape, scale in zip(shapes, scales, strict=True)
        )
        unseen = generator.gamma(HALF, size=(size, 1)) * groups.unit
        n, m = gained.sum(axis=1, keepdims=True), passed.sum(axis=1, keepdims=True) + unseen
        own = HALF * gained[:, :-1] / shapes[0][:-1]
        found = (np.cumsum(gained[:, :-1], axis=1) - own) / n
        false = groups.odds * (np.cumsum(passed[:, :-1], axis=1) + unseen) / m
        precision = np.divide(found, found + false, out=np.zeros_like(found), where=found > 0)
        out[start : start + size] = (gained[:, :-1] / n * precision).sum(axis=1)
    return out
