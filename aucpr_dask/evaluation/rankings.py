"""Estimates, facts and flags of the rankings of a NumPy block.

Compiled kernels are imported where they are first needed, and never leave their process.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.errors import MOST_SHOWN, DoubtfulScoresWarning, InvalidInputError, MissingScoresError, few, warn
from aucpr_dask.evaluation.tied_items import untied
from aucpr_dask.schema import checks, estimators
from aucpr_dask.schema.options import MISSING, EvaluationOptions
from aucpr_dask.schema.terms import FLAG_BITS, FLAGS, GROUP, ITEM_ROLES, RANKING_DIMS, count

if TYPE_CHECKING:
    from aucpr_dask.kernels import Items, Options, Targets

Array = NDArray[Any]
Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]

FEW_POSITIVES = 20
HEAVY_TIES = 0.1
INVERTED_BY = 3.0
LARGEST_WEIGHT = 2.0**100  # above this, or below its inverse, weights are divided by a power of 2
# Of the sum of its class that a weight must be, or the sum, which is exact to its last bit, may not change by it.
LEAST_SHARE = 1e-15
DOUBTS = {
    "hard_scores": "Average precision needs scores, such as predict_proba(X)[:, 1] or decision_function(X).",
    "inverted_polarity": "Give the probability of the positive class, or -score.",
}
NEED_NONE = frozenset(("average_precision", "lower_trapezoid", "interpolated_convex", "continuous", "roc_area"))


FACTS = ("error", "cubes", "left_out", "unseen_loss", "acceleration")  # named like the fields of the kernels' Evidence


class Evaluated(NamedTuple):
    """What is known of the rankings of a block; arrays have their leading dimensions."""

    estimate: Array  # and a last axis for the estimators
    facts: dict[str, Array]  # of `FACTS`, those asked for; axes as above, NaN for estimators without influence function
    n_positive: Array  # sums of weights, if items have weights
    n_negative: Array
    n_missing: Array
    prevalence: Array
    flags: Array


def facts_known(options: EvaluationOptions, roles: Container[str], *, is_stratified: bool) -> tuple[str, ...]:
    """Return which facts kernels find together with the estimates: those of unweighted items, drawn one by one."""
    intervals = options.resampling.intervals
    if not options.with_influence or is_weighted(roles) or "cluster" in roles:
        return ()
    # The closed form of the acceleration is for two strata; without it for one estimator, all are left out in turn.
    has_acceleration = "bca" in intervals and options.estimators == options.in_one_pass and is_stratified
    of_beta = FACTS[1:4] if {"influence_beta", "extrapolated"} & set(intervals) else ()
    return (FACTS[0], *of_beta, *(FACTS[4:] if has_acceleration else ()))


def evaluate_rankings(
    named: dict[str, Array], options: EvaluationOptions, facts: tuple[str, ...] = (), *, is_fixed: bool = True
) -> Evaluated:
    """Evaluate every ranking of a block; leading dimensions broadcast.

    The roles of arrays are `ITEM_ROLES`, with items on the last axis; ``n_positive``; and the names of rankings,
    ``model``, ``query`` and ``class``. `is_fixed` tells whether the standard error holds the numbers of positives and
    negatives fixed.
    """
    from aucpr_dask import kernels

    rows = Rows(named)
    targets = targets_of(options, facts, is_fixed=is_fixed)
    codes = targets.codes
    reading = reading_of(options)
    score = rows.full(named["score"])
    if "label" in named:
        named = named | {"label": checks.whole_labels(named["label"], named["score"])}
        checks.check_labels(named["label"], options.positive_from, "label")
    if is_weighted(named):
        # A soft label is in both classes. Estimators but those of `NEED_NONE` jump where a point of the curve has the
        # same recall as the one before it.
        share = 0.0 if NEED_NONE.issuperset(options.estimators) else LEAST_SHARE
        positive, negative, weight_row, units = class_weights(rows, named, options)
        if "label" not in named or not _are_safe(named["weight"], share):
            _refuse_lost({"positives": positive, "negatives": negative}, share)
        items = kernels.Items(score, positive, negative, weight_row, np.zeros(weight_row.size))
        out = kernels.evaluate_weighted_rows(items, reading, targets)
        evaluated, unit = finished(out, rows, options, facts), units[weight_row].reshape(rows.lead)
        with np.errstate(over="ignore"):  # a sum of weights may be infinite; areas rest on their ratios
            return evaluated._replace(n_positive=evaluated.n_positive * unit, n_negative=evaluated.n_negative * unit)
    label, label_row = rows.distinct(named["label"].astype(np.int8, copy=False))
    n_given = rows.scalar(named.get("n_positive", np.array(np.nan)))
    out = _evaluate_hard(score, label, label_row, n_given, reading, targets)
    if options.ties == "trec_eval":
        checks.check_tie_order(named["tie_order"])
        tie_order, tie_row = rows.distinct(named["tie_order"])
        classes = np.add(*memberships(label, options), dtype=np.int8)  # 0 left out, 1 negative, 2 positive
        tied = np.flatnonzero(_order_matters(out, targets, options.missing))
        strict = untied(score[tied], tie_order, tie_row[tied], classes, label_row[tied], options.missing)
        again = _evaluate_hard(strict, label, label_row[tied], n_given[tied], reading, targets)
        out[tied, : codes.size] = again[:, : codes.size]  # flags are about the scores as they were given
    return finished(out, rows, options, facts)


def finished(out: Floats, rows: Rows, options: EvaluationOptions, facts: tuple[str, ...] = ()) -> Evaluated:
    """Check what kernels know of the rows, and name all that they return: the one place that knows their columns."""
    from aucpr_dask import kernels

    n, influential = len(options.estimators), options.with_influence
    last = n + len(influential) * len(facts)
    known = dict(zip(kernels.COLUMNS, out[:, last:].T, strict=True))
    check_rows(known, rows, options)
    n_positive, n_negative = known["n_positive"], known["n_negative"]
    n_items = n_positive + n_negative
    columns = [n_positive, n_negative, known["n_missing"].astype(np.int64)]
    columns += [n_positive / np.where(n_items > 0, n_items, np.nan), _flags(known)]
    if options.no_positives == "zero":
        out[~(n_positive > 0), :n] = 0.0
    if options.nothing_ranked == "drop":
        out[known["n_ranked"] == 0, :last] = np.nan
    places = [options.estimators.index(name) for name in influential]
    of_each = np.full((len(facts), len(out), n), np.nan)
    of_each[:, :, places] = out[:, n:last].reshape(len(out), len(influential), len(facts)).transpose(2, 0, 1)
    named = {fact: values.reshape(*rows.lead, n) for fact, values in zip(facts, of_each, strict=True)}
    return Evaluated(out[:, :n].reshape(*rows.lead, n), named, *(column.reshape(rows.lead) for column in columns))


def estimates_of(evaluated: Evaluated, named: dict[str, Array], options: EvaluationOptions) -> Array:
    """Return the estimates alone."""
    return evaluated.estimate


def is_weighted(named: Container[Any]) -> bool:
    """Whether items have weights, or soft labels."""
    return "weight" in named or "positive_weight" in named


def reading_of(options: EvaluationOptions) -> Options:
    """Return how kernels read labels, missing scores and ties."""
    from aucpr_dask import kernels

    return kernels.Options(
        positive_from=options.positive_from or 1,
        drop_unjudged=int(options.unjudged == "drop"),
        missing=MISSING.index(options.missing),
        expect_ties=int(options.ties == "expectation"),
        prevalence=np.nan if options.prevalence is None else options.prevalence,
    )


def targets_of(
    options: EvaluationOptions, facts: tuple[str, ...] = (), *, is_fixed: bool = True, of: tuple[str, ...] | None = None
) -> Targets:
    """Return what kernels compute: estimators by code and parameter, then facts; and the range of recall.

    Facts are those of the first estimator with an influence function, or of the first in `of`, then those of the next.
    """
    from aucpr_dask import kernels

    parsed = [estimators.parse_estimator(name) for name in options.estimators]
    codes = [kernels.CODES[spec.name] for spec, _ in parsed]
    design = "fixed" if is_fixed else "random"
    names = {"error": f"standard_error_{design}", "cubes": f"cubes_{design}"}
    extras = [names.get(fact, fact) for fact in facts]
    for name in options.with_influence if of is None else of:
        in_one_pass = name in options.in_one_pass
        codes += [kernels.code_of_extra(extra, name, in_one_pass=in_one_pass) for extra in extras]
    parameters = [parameter for _, parameter in parsed] + [np.nan] * (len(codes) - len(parsed))
    return kernels.targets_of(codes, parameters, options.recall_range)


def negative_scale(prevalence: float | None, n_positive: float, n_negative: float) -> float:
    """Return the factor for counts of negatives that gives precision at another prevalence, as the kernels do."""
    if prevalence is None or not (n_positive > 0 and n_negative > 0):
        return 1.0
    return n_positive * (1.0 - prevalence) / (n_negative * prevalence)


def _evaluate_hard(
    score: Array, label: Array, label_row: Indices, n_given: Floats, reading: Options, targets: Targets
) -> Floats:
    """Sort only the positives if the estimators need no more than their tie groups."""
    from aucpr_dask import kernels

    if targets.are_by_groups:
        return kernels.evaluate_rows(score, label, label_row, n_given, reading, targets.codes)
    return kernels.evaluate_all_rows(score, label, label_row, n_given, reading, targets)


def memberships(label: Array, options: EvaluationOptions) -> tuple[Mask, Mask]:
    """Return which labels belong to items, and which to positives."""
    return label >= (0 if options.unjudged == "drop" else -1), label >= (options.positive_from or 1)


def lead_of(named: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the shape of the leading dimensions of arrays that broadcast."""
    shapes = (array.shape[:-1] if name in ITEM_ROLES else array.shape for name, array in named.items())
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        what, where = "the leading dimensions of the arrays do not broadcast", "all axes but that of the items"
        received = ", ".join(f"{name} {array.shape}" for name, array in named.items())
        allowed = "shapes that broadcast, as in NumPy"
        remedy = "insert axes of length 1 where an array is the same for all"
        raise InvalidInputError(what, where, received, allowed, remedy) from None


class Rows:
    """How the leading dimensions of the arrays of a block unfold into rows, one for each ranking."""

    def __init__(self, named: dict[str, Array]) -> None:
        item_arrays = {name: array for name, array in named.items() if name in ITEM_ROLES}
        sizes = {name: array.shape[-1] for name, array in item_arrays.items()}
        checks.refuse_other_lengths(sizes)
        self.lead = lead_of(named)
        self.names = {name: named[name] for name in (*RANKING_DIMS, GROUP) if name in named}

    def full(self, array: Array) -> Array:
        """Return (rows, items), C-contiguous; float16 as float32, the narrowest type of which there are kernels."""
        array = array.astype(np.float32) if array.dtype == np.float16 else array
        shape = (math.prod(self.lead), array.shape[-1])
        return np.ascontiguousarray(np.broadcast_to(array, (*self.lead, array.shape[-1])).reshape(shape))

    def distinct(self, array: Array) -> tuple[Array, Indices]:
        """Return the distinct rows of an array, and the number of each ranking's row."""
        own = array.shape[:-1]
        index = np.arange(np.prod(own, dtype=np.int64), dtype=np.int64).reshape(own)
        flat = np.ascontiguousarray(array.reshape(index.size, array.shape[-1]))
        return flat, np.ascontiguousarray(np.broadcast_to(index, self.lead).ravel())

    def scalar(self, array: Array) -> Floats:
        """Return one number for each ranking."""
        return self.broadcast(array).astype(np.float64)

    def broadcast(self, array: Array) -> Array:
        """Return one element for each ranking, of the array's type."""
        return np.ascontiguousarray(np.broadcast_to(array, self.lead).ravel())

    def describe(self, which: Mask, counts: Floats) -> str:
        """Name the chosen rankings, with a count for each."""
        rows = np.flatnonzero(which)
        parts = []
        for row in rows[:MOST_SHOWN]:
            index = np.unravel_index(row, self.lead)
            labels = [f"{dim} {str(np.broadcast_to(a, self.lead)[index])!r}" for dim, a in self.names.items()]
            place = ", ".join(labels) or (f"ranking {tuple(map(int, index))}" if index else "the ranking")
            parts.append(f"{place}: {int(counts[row])}")
        if rows.size > MOST_SHOWN:
            parts.append(f"and {rows.size - MOST_SHOWN} more rankings")
        return "; ".join(parts)


def class_weights(
    rows: Rows, named: dict[str, Array], options: EvaluationOptions
) -> tuple[Floats, Floats, Indices, Floats]:
    """Return the weights of each item as a positive and as a negative (0 and 1 without weights), by distinct row.

    Also return, for each ranking, its row; and for each row, the unit that its weights are multiples of.
    """
    from aucpr_dask.kernels import options as of_kernels

    if (n_items := named["score"].shape[-1]) > of_kernels.MOST_PLACES:
        allowed = f"up to {of_kernels.MOST_PLACES}"
        raise InvalidInputError("too many items to put in order in one ranking", None, f"{n_items} items", allowed)
    are_safe = not is_weighted(named) or ("weight" in named and _are_safe(named["weight"], 0.0))
    for name in () if are_safe else ("weight", "positive_weight", "negative_weight"):
        if name in named:
            checks.check_weights(named[name], name)
    if "label" in named:
        weight = named.get("weight", np.ones(1)).astype(np.float64, copy=False)
        is_item, is_positive = memberships(named["label"], options)
        positive, negative = weight * is_positive, weight * (is_item & ~is_positive)
    else:
        positive, negative = np.broadcast_arrays(
            named["positive_weight"].astype(np.float64), named["negative_weight"].astype(np.float64)
        )
    positive, weight_row = rows.distinct(positive)
    negative, _ = rows.distinct(negative)
    unit = np.ones(len(positive))
    if not are_safe:
        positive, negative, unit = _in_safe_units(positive, negative)
    return positive, negative, weight_row, unit


def items_of(named: dict[str, Array], options: EvaluationOptions) -> tuple[Rows, Items]:
    """Return how the rankings of a block unfold into rows, and their items; ties as the options say."""
    from aucpr_dask import kernels

    rows = Rows(named)
    positive, negative, row, _ = class_weights(rows, named, options)
    score = rows.full(named["score"])
    if options.ties == "trec_eval":
        classes = ((positive > 0) * 2 + (negative > 0)).astype(np.int8)
        score = untied(score, *rows.distinct(named["tie_order"]), classes, row, options.missing)
    clusters = kernels.Clusters(*rows.distinct(named["cluster"])) if "cluster" in named else None
    unseen = np.zeros(row.size)  # the number of positives of each ranking that are not items
    if "n_positive" in named:
        unseen = rows.scalar(named["n_positive"]) - positive.sum(axis=1)[row]
    return rows, kernels.Items(score, positive, negative, row, unseen, clusters)


def refuse_unseen(rows: Rows, unseen: Floats) -> None:
    """Raise if there are positives that are not items, and items are drawn by clusters."""
    if unseen.any():
        what, where = "positives that are not items belong to no cluster", "variables 'n_positive' and 'cluster'"
        received = f"positives beyond the items: {rows.describe(unseen > 0, unseen)}"
        remedy = "drop 'cluster' to sample items, or 'n_positive' to leave them out"
        raise InvalidInputError(what, where, received, None, remedy)


def _are_safe(weight: Array, share: float) -> bool:
    """Whether weights are valid, none is less than a share of their sum, and no product of a few is too large."""
    least = 1 / LARGEST_WEIGHT
    if weight.dtype.kind not in "fiub":
        return False
    weight = weight.astype(np.float64, copy=False)
    largest, smallest = weight.max(initial=0.0), weight.min(initial=np.inf)
    if not largest <= LARGEST_WEIGHT:
        return False
    if smallest == 0:
        smallest = weight.min(initial=np.inf, where=weight > 0)
    return bool(smallest >= max(least, weight.shape[-1] * largest * share))


def _refuse_lost(weights: Mapping[str, Floats], share: float) -> None:
    """Raise if a sum of the weights of a class, by row, would not change by the smallest of them."""
    for name, of_class in weights.items():
        total, least = of_class.sum(axis=-1), of_class.min(axis=-1, initial=np.inf, where=of_class > 0)
        if (lost := least < total * share).any():
            what = f"the weights of {name} are too far apart: a sum of floating-point numbers would lose the smallest"
            received = f"{least[lost][0]:.3g} among weights that sum to {total[lost][0]:.3g}"
            allowed = f"weights from {share:g} of their sum; smaller ones only for {', '.join(sorted(NEED_NONE))}"
            raise InvalidInputError(what, "the weights", received, allowed, "set weights that do not matter to 0")


def _in_safe_units(positive: Floats, negative: Floats) -> tuple[Floats, Floats, Floats]:
    """Return class weights and, for each row, their unit: 1, or the power of 2 that brings the largest into range."""
    of_positives, of_negatives = positive.max(axis=-1, initial=0.0), negative.max(axis=-1, initial=0.0)
    largest, smaller = np.maximum(of_positives, of_negatives), np.minimum(of_positives, of_negatives)
    if np.any((smaller > 0) & (smaller < largest * checks.LEAST_PREVALENCE)):
        what = "the weights of positives and negatives are too far apart for floating-point numbers"
        received = f"up to {of_positives.max():.3g} for positives, {of_negatives.max():.3g} for negatives"
        allowed = f"largest weights of both classes within a factor of {1 / checks.LEAST_PREVALENCE:.3g}"
        raise InvalidInputError(what, "the weights", received, allowed, "prevalence= gives the classes other weights")
    exponent = np.frexp(largest)[1] - 1
    limit = int(np.log2(LARGEST_WEIGHT))
    shift = np.where(largest > 0, exponent - np.clip(exponent, -limit, limit), 0)
    if not shift.any():
        return positive, negative, np.ones(len(positive))
    # A division by a power of 2 is exact.
    return np.ldexp(positive, -shift[:, None]), np.ldexp(negative, -shift[:, None]), np.ldexp(1.0, shift)


def _order_matters(out: Floats, targets: Targets, missing: str) -> Mask:
    """Return the rankings in which another order of tied items could change an estimate."""
    from aucpr_dask import kernels

    if not targets.are_by_groups:  # mean and median precision at a recall depend on ties among negatives too
        return np.ones(len(out), dtype=np.bool_)
    facts = dict(zip(kernels.COLUMNS, out[:, targets.codes.size :].T, strict=True))
    matters: Mask = facts["ties_matter"] > 0
    if missing == "last":
        matters |= facts["n_missing"] > 1
    return matters


def check_rows(facts: dict[str, Floats], rows: Rows, options: EvaluationOptions) -> None:
    """Raise if scores are missing that must not be, or `n_positive` is less than the number of positive items."""
    missing = facts["n_missing"]
    if options.missing == "raise" and missing.any():
        which = rows.describe(missing > 0, missing)
        raise missing_scores("variable 'score'", f"{count(int((missing > 0).sum()), 'ranking')} ({which})")
    unseen = facts["n_unseen"]
    if (unseen < 0).any():
        what = "n_positive is less than the number of items labelled positive"
        received = f"too few by: {rows.describe(unseen < 0, -unseen)}"
        remedy = "n_positive counts all positives of a query, including those among the items"
        raise InvalidInputError(what, "variable 'n_positive'", received, "all positives of a ranking, or more", remedy)


def missing_scores(where: str, rankings: str) -> MissingScoresError:
    """Return the error that scores of some rankings are missing."""
    received, allowed = f"NaN scores in {rankings}", "no NaN under missing='raise'"
    remedy = "choose what a missing score means: missing='drop', 'last' or 'unretrieved'"
    return MissingScoresError("missing scores (NaN)", where, received, allowed, remedy)


def _flags(facts: dict[str, Floats]) -> NDArray[np.int32]:
    n, m, ranked = facts["n_positive"], facts["n_negative"], facts["n_ranked"]
    # Standard error of the ROC area when the ranking is random (Mann and Whitney), of as many items as have a score.
    with np.errstate(divide="ignore", invalid="ignore"):
        of_items = ranked / (n + m)  # sums of weights are not counts
        error = np.sqrt((ranked + 1) / (12 * (of_items * n) * (of_items * m)))
    raised = {
        "no_positives": ~(n > 0),
        "no_negatives": ~(m > 0) & (ranked > 0),
        "heavy_ties": facts["tied_share"] >= HEAVY_TIES,
        "inverted_polarity": facts["roc_area"] < 0.5 - INVERTED_BY * error,
        "hard_scores": (facts["n_distinct"] == 2) & (ranked > 2),
        "constant_scores": (facts["n_distinct"] == 1) & (ranked > 1),
        "missing_scores": facts["n_missing"] > 0,
        "nothing_ranked": ranked == 0,
    }
    flags = np.zeros(n.shape, np.int32)
    for name, is_raised in raised.items():
        flags |= np.int32(FLAG_BITS[name]) * is_raised
    return with_few_positives(flags, n)


def with_few_positives(flags: Array, n: Array) -> Array:
    """Return flags with the one for few positives, of which there are `n`."""
    return with_flag(flags, "few_positives", (n > 0) & (n < FEW_POSITIVES))


def with_flag(flags: Array, name: str, is_raised: Any) -> Array:
    """Set one flag where it is raised, and clear it elsewhere."""
    bit = np.int32(FLAG_BITS[name])
    return np.asarray((flags & ~bit) | np.where(is_raised, bit, np.int32(0)))


def warn_of_doubts(flags: Mapping[str, NDArray[Any]], *, of: str = "rankings", least: float = 0.0) -> None:
    """Warn of scores that look like predicted labels or like those of the other class.

    `flags` are those of all rankings of a name; it is given if more than the share `least` of them have the flag.
    """
    for one in FLAGS:
        raised = {name: (np.ravel(given) & one.bit) > 0 for name, given in flags.items() if one.name in DOUBTS}
        doubtful: dict[str, list[str]] = {}  # names by how many of their rankings are so
        for name, found in raised.items():
            if (count := np.count_nonzero(found)) > least * found.size:
                share = f", in {count:,} of {found.size:,} {of}" if found.size > 1 else ""
                doubtful.setdefault(share, []).append(name)
        if doubtful:
            names = "; ".join(few(those) + share for share, those in doubtful.items())
            warn(f"{names}: {one.description} {DOUBTS[one.name]}", DoubtfulScoresWarning)


def evaluate_intervals(estimate: Array, n_positive: Array, *, methods: tuple[str, ...], level: float) -> Floats:
    """Return the bounds of formula intervals, shape (..., methods, 2)."""
    from aucpr_dask.kernels.intervals import formula_bounds

    if estimate.dtype.kind not in "iuf":
        received, allowed = f"dtype {estimate.dtype}", "areas from 0 to 1, or NaN"
        what = "estimates must be numbers"
        raise InvalidInputError(what, "argument 'estimate'", received, allowed, "give the estimates")
    checks.refuse_outside("estimate", estimate, (estimate < 0) | (estimate > 1), "areas from 0 to 1, or NaN")
    checks.check_counts(n_positive, "n_positive", of_rankings=False)
    shape = lead_of({"estimate": estimate, "n_positive": n_positive})
    if not methods:
        return np.empty((*shape, 0, 2))
    columns = [formula_bounds(estimate, n_positive, method, level) for method in methods]
    return np.stack(columns, axis=-2)
