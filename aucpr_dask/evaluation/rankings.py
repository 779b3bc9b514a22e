"""Functions on the NumPy blocks of a graph: estimates and flags of every ranking.

Module-level functions are pickled by name. Compiled kernels are imported where they are first needed, and never leave
their process.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.errors import MOST_SHOWN, InvalidInputError, MissingScoresError
from aucpr_dask.evaluation.tied_items import untied
from aucpr_dask.schema.checks import LEAST_PREVALENCE, refuse_outside
from aucpr_dask.schema.estimators import parse_estimator
from aucpr_dask.schema.labels import check_counts, check_labels, check_tie_order, check_weights, refuse_other_lengths
from aucpr_dask.schema.options import MISSING, EvaluationOptions
from aucpr_dask.schema.variables import COLUMNS, FLAG_BITS, ITEM_ROLES, RANKING_DIMS

if TYPE_CHECKING:
    from aucpr_dask.kernels import Options, Targets

Array = NDArray[Any]

FEW_POSITIVES = 20
HEAVY_TIES = 0.1
INVERTED_BY = 3.0
LARGEST_WEIGHT = 2.0**100  # above this, or below its inverse, weights are divided by a power of 2


def evaluate_rankings(
    *arrays: Array, roles: tuple[str, ...], options: EvaluationOptions, extras: tuple[str, ...] = ()
) -> NDArray[np.float64]:
    """Evaluate every ranking of a block: estimates, `extras` of each that has an influence function, then `COLUMNS`.

    A generalized function, ``(item), (item), ... -> (quantity)``, whose leading dimensions broadcast. The roles of
    arrays are `ITEM_ROLES`, with items on the last axis; ``n_positive``; and the names of rankings, ``model``,
    ``query`` and ``class``.
    """
    named = dict(zip(roles, arrays, strict=True))
    rows = Rows(named)
    targets = targets_of(options, extras)
    codes = targets.codes
    reading = reading_of(options)
    score = rows.full(named["score"])
    if "label" in named:
        check_labels(named["label"], options.positive_from, "label")
    unit = np.ones(1)
    if is_weighted(named):
        out, unit = _evaluate_weighted(rows, named, options, reading, targets)
    else:
        label, label_row = rows.distinct(named["label"].astype(np.int8, copy=False))
        n_given = rows.scalar(named.get("n_positive", np.array(np.nan)))
        out = _evaluate_hard(score, label, label_row, n_given, reading, targets)
        if options.ties == "trec_eval":
            check_tie_order(named["tie_order"])
            tie_order, tie_row = rows.distinct(named["tie_order"])
            classes = np.add(*memberships(label, options), dtype=np.int8)  # 0 left out, 1 negative, 2 positive
            tied = np.flatnonzero(_order_matters(out, targets, options.missing))
            strict = untied(score[tied], tie_order, tie_row[tied], classes, label_row[tied], options.missing)
            again = _evaluate_hard(strict, label, label_row[tied], n_given[tied], reading, targets)
            out[tied, : codes.size] = again[:, : codes.size]
    columns = finished(out, codes.size, rows, options)
    if (unit != 1).any():  # sums of weights
        columns[..., codes.size : codes.size + 2] *= unit.reshape(*rows.lead, 1)
    return columns


def finished(out: NDArray[np.float64], n_codes: int, rows: Rows, options: EvaluationOptions) -> NDArray[np.float64]:
    """Check the facts that kernels append to their numbers, and replace them by `COLUMNS`."""
    from aucpr_dask import kernels

    facts = dict(zip(kernels.COLUMNS, out[:, n_codes:].T, strict=True))
    check_rows(facts, rows, options)
    n_items = facts["n_positive"] + facts["n_negative"]
    prevalence = facts["n_positive"] / np.where(n_items > 0, n_items, np.nan)
    columns = [facts["n_positive"], facts["n_negative"], facts["n_missing"], prevalence, _flags(facts)]
    if options.no_positives == "zero":
        out[~(facts["n_positive"] > 0), : len(options.estimators)] = 0.0
    if options.nothing_ranked == "drop":
        out[facts["n_ranked"] == 0, :n_codes] = np.nan
    return np.column_stack([out[:, :n_codes], *columns]).reshape(*rows.lead, n_codes + len(COLUMNS))


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


def targets_of(options: EvaluationOptions, extras: tuple[str, ...] = ()) -> Targets:
    """Return what kernels compute: estimators by code and parameter, then extras; and the range of recall.

    Extras are those of the first estimator with an influence function, then those of the next.
    """
    from aucpr_dask import kernels
    from aucpr_dask.kernels import codes as code_of

    parsed = [parse_estimator(name) for name in options.estimators]
    codes = [getattr(code_of, spec.name.upper()) for spec, _ in parsed]
    codes += [kernels.EXTRA_CODES[name][extra] for name in options.with_influence for extra in extras]
    parameters = [parameter for _, parameter in parsed] + [np.nan] * (len(codes) - len(parsed))
    return kernels.targets_of(codes, parameters, options.recall_range)


def negative_scale(prevalence: float | None, n_positive: float, n_negative: float) -> float:
    """Return the factor for counts of negatives that gives precision at another prevalence, as the kernels do."""
    if prevalence is None or not (n_positive > 0 and n_negative > 0):
        return 1.0
    return n_positive * (1.0 - prevalence) / (n_negative * prevalence)


def _evaluate_hard(
    score: Array,
    label: Array,
    label_row: NDArray[np.int64],
    n_given: NDArray[np.float64],
    reading: Options,
    targets: Targets,
) -> NDArray[np.float64]:
    """Sort only the positives if the estimators need no more than their tie groups."""
    from aucpr_dask import kernels

    if targets.are_basic:
        return kernels.evaluate_rows(score, label, label_row, n_given, reading, targets.codes)
    return kernels.evaluate_all_rows(score, label, label_row, n_given, reading, targets)


def _evaluate_weighted(
    rows: Rows, named: dict[str, Array], options: EvaluationOptions, reading: Options, targets: Targets
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Evaluate items with weights, and return the unit of each ranking's weights; a soft label is in both classes."""
    from aucpr_dask import kernels

    n_items = named["score"].shape[-1]
    if n_items > kernels.MOST_WEIGHTED:
        raise InvalidInputError(
            "too many items with weights in one ranking",
            received=f"{n_items} items",
            allowed=f"up to {kernels.MOST_WEIGHTED}",
        )
    score = rows.full(named["score"])
    if "label" in named and _are_safe(named["weight"]):
        is_item, is_positive = memberships(named["label"], options)
        classes = is_item.astype(np.int8) + is_positive  # 0 left out, 1 negative, 2 positive
        positive, weight_row = rows.distinct(named["weight"].astype(np.float64, copy=False))
        negative, unit = positive, np.ones(len(positive))
    else:
        classes = np.full(n_items, 3, np.int8)
        positive, negative, weight_row, unit = class_weights(rows, named, options)
    classes, class_row = rows.distinct(classes)
    out = kernels.evaluate_weighted_rows(score, classes, class_row, positive, negative, weight_row, reading, targets)
    return out, unit[weight_row]


def memberships(label: Array, options: EvaluationOptions) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which labels belong to items, and which to positives."""
    return label >= (0 if options.unjudged == "drop" else -1), label >= (options.positive_from or 1)


def lead_of(named: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the shape of the leading dimensions of arrays that broadcast."""
    shapes = (array.shape[:-1] if name in ITEM_ROLES else array.shape for name, array in named.items())
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise InvalidInputError(
            "the leading dimensions of the arrays do not broadcast",
            where="all axes but that of the items",
            received=", ".join(f"{name} {array.shape}" for name, array in named.items()),
            allowed="shapes that broadcast, as in NumPy",
            remedy="insert axes of length 1 where an array is the same for all",
        ) from None


class Rows:
    """How the leading dimensions of the arrays of a block unfold into rows, one for each ranking."""

    def __init__(self, named: dict[str, Array]) -> None:
        item_arrays = {name: array for name, array in named.items() if name in ITEM_ROLES}
        sizes = {name: array.shape[-1] for name, array in item_arrays.items()}
        refuse_other_lengths(sizes)
        self.lead = lead_of(named)
        self.names = {name: named[name] for name in RANKING_DIMS if name in named}

    def full(self, array: Array) -> Array:
        """Return (rows, items), C-contiguous."""
        shape = (math.prod(self.lead), array.shape[-1])
        return np.ascontiguousarray(np.broadcast_to(array, (*self.lead, array.shape[-1])).reshape(shape))

    def distinct(self, array: Array) -> tuple[Array, NDArray[np.int64]]:
        """Return the distinct rows of an array, and the number of each ranking's row."""
        own = array.shape[:-1]
        index = np.arange(np.prod(own, dtype=np.int64), dtype=np.int64).reshape(own)
        flat = np.ascontiguousarray(array.reshape(index.size, array.shape[-1]))
        return flat, np.ascontiguousarray(np.broadcast_to(index, self.lead).ravel())

    def scalar(self, array: Array) -> NDArray[np.float64]:
        """Return one number for each ranking."""
        return self.broadcast(array).astype(np.float64)

    def broadcast(self, array: Array) -> Array:
        """Return one element for each ranking, of the array's type."""
        return np.ascontiguousarray(np.broadcast_to(array, self.lead).ravel())

    def describe(self, which: NDArray[np.bool_], counts: NDArray[np.float64]) -> str:
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
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """Return the weights of each item as a positive and as a negative (0 and 1 without weights), by distinct row.

    Also return, for each ranking, its row; and for each row, the unit that its weights are multiples of.
    """
    check_all_weights(named)
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
    if is_weighted(named):
        positive, negative, unit = _in_safe_units(positive, negative)
    return positive, negative, weight_row, unit


def _are_safe(weight: Array) -> bool:
    """Whether weights are valid, and no product of a few of them under- or overflows."""
    least = 1 / LARGEST_WEIGHT
    if weight.dtype.kind not in "fiub":
        return False
    weight = weight.astype(np.float64, copy=False)
    if not weight.max(initial=0.0) <= LARGEST_WEIGHT:
        return False
    smallest = weight.min(initial=np.inf)
    return bool(smallest >= least or (smallest == 0 and weight.min(initial=np.inf, where=weight > 0) >= least))


def _in_safe_units(
    positive: NDArray[np.float64], negative: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return class weights and, for each row, their unit: 1, or the power of 2 that brings the largest into range."""
    of_positives, of_negatives = positive.max(axis=-1, initial=0.0), negative.max(axis=-1, initial=0.0)
    largest, smaller = np.maximum(of_positives, of_negatives), np.minimum(of_positives, of_negatives)
    if np.any((smaller > 0) & (smaller < largest * LEAST_PREVALENCE)):
        raise InvalidInputError(
            "the weights of positives and negatives are too far apart for floating-point numbers",
            where="the weights",
            received=f"up to {of_positives.max():.3g} for positives, {of_negatives.max():.3g} for negatives",
            allowed=f"largest weights of both classes within a factor of {1 / LEAST_PREVALENCE:.3g}",
            remedy="prevalence= gives the classes other weights",
        )
    exponent = np.frexp(largest)[1] - 1
    limit = int(np.log2(LARGEST_WEIGHT))
    shift = np.where(largest > 0, exponent - np.clip(exponent, -limit, limit), 0)
    if not shift.any():
        return positive, negative, np.ones(len(positive))
    # A division by a power of 2 is exact.
    return np.ldexp(positive, -shift[:, None]), np.ldexp(negative, -shift[:, None]), np.ldexp(1.0, shift)


def check_all_weights(named: dict[str, Array]) -> None:
    """Raise if a weight is outside its domain."""
    for name in ("weight", "positive_weight", "negative_weight"):
        if name in named:
            check_weights(named[name], name)


def _order_matters(out: NDArray[np.float64], targets: Targets, missing: str) -> NDArray[np.bool_]:
    """Return the rankings in which another order of tied items could change an estimate."""
    from aucpr_dask import kernels

    if not targets.are_basic:  # mean and median precision at a recall depend on ties among negatives too
        return np.ones(len(out), dtype=np.bool_)
    facts = dict(zip(kernels.COLUMNS, out[:, targets.codes.size :].T, strict=True))
    matters: NDArray[np.bool_] = facts["ties_matter"] > 0
    if missing == "last":
        matters |= facts["n_missing"] > 1
    return matters


def check_rows(facts: dict[str, NDArray[np.float64]], rows: Rows, options: EvaluationOptions) -> None:
    """Raise if scores are missing that must not be, or `n_positive` is less than the number of positive items."""
    missing = facts["n_missing"]
    if options.missing == "raise" and missing.any():
        raise missing_scores(
            "variable 'score'", f"{int((missing > 0).sum())} rankings ({rows.describe(missing > 0, missing)})"
        )
    unseen = facts["n_unseen"]
    if (unseen < 0).any():
        raise InvalidInputError(
            "n_positive is less than the number of items labelled positive",
            where="variable 'n_positive'",
            received=f"too few by: {rows.describe(unseen < 0, -unseen)}",
            allowed="all positives of a ranking, or more",
            remedy="n_positive counts all positives of a query, including those among the items",
        )


def missing_scores(where: str, rankings: str) -> MissingScoresError:
    """Return the error that scores of some rankings are missing."""
    return MissingScoresError(
        "missing scores (NaN)",
        where=where,
        received=f"NaN scores in {rankings}",
        allowed="no NaN under missing='raise'",
        remedy="choose what a missing score means: missing='drop', 'last' or 'unretrieved' (--missing)",
    )


def _flags(facts: dict[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    n, m, ranked = facts["n_positive"], facts["n_negative"], facts["n_ranked"]
    # Standard error of the ROC area when the ranking is random (Mann and Whitney).
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt((n + m + 1) / (12 * n * m))
    raised = {
        "no_positives": ~(n > 0),
        "no_negatives": ~(m > 0) & (ranked > 0),
        "few_positives": (n > 0) & (n < FEW_POSITIVES),
        "heavy_ties": facts["tied_share"] >= HEAVY_TIES,
        "inverted_polarity": facts["roc_area"] < 0.5 - INVERTED_BY * error,
        "hard_scores": (facts["n_distinct"] == 2) & (ranked > 2),
        "constant_scores": (facts["n_distinct"] == 1) & (ranked > 1),
        "missing_scores": facts["n_missing"] > 0,
        "nothing_ranked": ranked == 0,
    }
    flags = np.zeros(n.shape)
    for name, is_raised in raised.items():
        flags += FLAG_BITS[name] * is_raised
    return flags


def evaluate_intervals(
    estimate: Array, n_positive: Array, *, methods: tuple[str, ...], level: float
) -> NDArray[np.float64]:
    """Return the bounds of formula intervals, shape (..., methods, 2)."""
    from aucpr_dask.kernels.intervals.formulas import bounds

    if estimate.dtype.kind not in "iuf":
        raise InvalidInputError(
            "estimates must be numbers",
            where="argument 'estimate'",
            received=f"dtype {estimate.dtype}",
            allowed="areas from 0 to 1, or NaN",
            remedy="give the estimates",
        )
    refuse_outside("estimate", estimate, (estimate < 0) | (estimate > 1), "areas from 0 to 1, or NaN")
    check_counts(n_positive, "n_positive", of_rankings=False)
    shape = lead_of({"estimate": estimate, "n_positive": n_positive})
    if not methods:
        return np.empty((*shape, 0, 2))
    columns = [bounds(estimate, n_positive, method, level) for method in methods]
    return np.stack(columns, axis=-2)
