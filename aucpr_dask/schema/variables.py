"""One frozen record per variable of a score data set and of a result.

The same records validate scores, annotate results and generate the reference page.
"""

from __future__ import annotations

from dataclasses import dataclass

MODEL, QUERY, CLASS, ITEM = "model", "query", "class", "item"
RANKING_DIMS = (MODEL, QUERY, CLASS)  # which tell rankings apart; a data set has queries or classes, not both
ESTIMATOR, METHOD, BOUND, GRADE = "estimator", "method", "ci_bound", "grade"
MEASURE, UNIT = "measure", "unit"  # of values of any measure: a dimension or an attribute, and the word for a query
RESAMPLE, FOLD = "resample", "fold"
BOUNDS = ("lower", "upper")

POSITIVE, NEGATIVE, UNJUDGED, PADDING = 1, 0, -1, -2


@dataclass(frozen=True)
class VariableSpec:
    """Name, shapes, types and meaning of a variable."""

    name: str
    dims: tuple[tuple[str, ...], ...]  # one per layout; in a result, "..." means model and query or class, if present
    kinds: str  # of NumPy dtypes
    description: str  # one sentence, written to `attrs`
    required: bool = False


_LABEL_DIMS = ((ITEM,), (QUERY, ITEM), (CLASS, ITEM), (MODEL, QUERY, ITEM), (MODEL, ITEM))

SCORE_VARIABLES = {
    spec.name: spec
    for spec in (
        VariableSpec(
            "score",
            ((MODEL, ITEM), (MODEL, QUERY, ITEM), (MODEL, CLASS, ITEM)),
            "f",
            "Score of an item by a model; larger is more positive, NaN is no score.",
            required=True,
        ),
        VariableSpec(
            "label",
            _LABEL_DIMS,
            "iub",
            "1 positive, 0 negative, -1 unjudged, -2 padding; grades above 1 need positive_from. Or the item's class.",
        ),
        VariableSpec(
            "n_positive",
            ((), (QUERY,), (GRADE,), (QUERY, GRADE)),
            "iu",
            "All positives of the query, those never scored included; along grade, those of at least this grade.",
        ),
        VariableSpec("tie_order", _LABEL_DIMS, "iu", "Rank among items of equal score under ties='trec_eval'."),
        VariableSpec("weight", _LABEL_DIMS, "fiu", "Sample weight, finite and not negative."),
        VariableSpec("positive_weight", _LABEL_DIMS, "fiu", "Weight as a positive (soft label)."),
        VariableSpec("negative_weight", _LABEL_DIMS, "fiu", "Weight as a negative (soft label)."),
        VariableSpec("cluster", ((ITEM,), (QUERY,)), "iuOTU", "Group of dependent items or queries."),
        VariableSpec("fold", ((ITEM,), (QUERY,)), "iu", "Cross-validation fold."),
        VariableSpec(
            "n_missing", ((MODEL,), (MODEL, QUERY), (MODEL, CLASS)), "iu", "NaN scores of real (not padding) items."
        ),
        VariableSpec("digest", ((MODEL,), (MODEL, QUERY), (MODEL, CLASS)), "u", "Digest of all the data of a ranking."),
    )
}

RESULT_VARIABLES = {
    spec.name: spec
    for spec in (
        VariableSpec("estimate", (("...", ESTIMATOR),), "f", "Estimated area under the precision-recall curve."),
        VariableSpec(
            "standard_error",
            (("...", ESTIMATOR),),
            "f",
            "Standard error: of average_precision and haldane by influence functions, of others by their replicates.",
        ),
        VariableSpec(
            "replicate", (("...", ESTIMATOR, RESAMPLE),), "f", "Estimate of a resample that all models share."
        ),
        VariableSpec(
            "interval",
            (("...", ESTIMATOR, METHOD, BOUND),),
            "f",
            "Confidence interval of the estimate; ci_bound is lower, upper.",
        ),
        VariableSpec(
            "n_positive", (("...",),), "fi", "Positives the estimate divides by (sum of weights if weighted)."
        ),
        VariableSpec("n_negative", (("...",),), "fi", "Negatives in the ranking (sum of weights if weighted)."),
        VariableSpec("n_missing", (("...",),), "i", "Items without a score."),
        VariableSpec("prevalence", (("...",),), "f", "n_positive / (n_positive + n_negative)."),
        VariableSpec("flags", (("...",),), "iu", "Bit field of warnings; flag_masks and flag_meanings name the bits."),
    )
}


@dataclass(frozen=True)
class Flag:
    """A warning, stored in one bit of ``flags``."""

    name: str
    bit: int
    description: str


FLAGS = tuple(
    Flag(name, 1 << position, description)
    for position, (name, description) in enumerate(
        (
            ("no_positives", "No positive: the area is undefined (NaN), unless it counts as 0."),
            ("no_negatives", "No negative: the order does not matter; the area is 1 unless positives were missed."),
            ("few_positives", "Fewer than 20 positives: intervals are wide and rest on few items."),
            ("heavy_ties", "At least a tenth of the positives share their score with a negative."),
            ("inverted_polarity", "ROC area below one half by over 3 standard errors: is larger more positive?"),
            ("hard_scores", "Only two distinct scores: these look like predicted labels, not scores."),
            ("constant_scores", "All scores are equal: nothing is ranked."),
            ("missing_scores", "Some items have no score from this model."),
            ("nothing_ranked", "The model scored no item of this query."),
            ("undefined_resamples", "Some resamples have no estimate: intervals rest on the others."),
        )
    )
)
FLAG_BITS = {flag.name: flag.bit for flag in FLAGS}


QUANTITY = "quantity"

ITEM_ROLES = frozenset(
    {"score", "label", "tie_order", "weight", "positive_weight", "negative_weight", "cluster", "fold"}
)
