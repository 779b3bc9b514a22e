"""One frozen record per estimator, from which documentation, validation and tests are generated."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from aucpr_dask.errors import InvalidInputError, brief
from aucpr_dask.schema import choices
from aucpr_dask.schema.checks import each_once, lookup, repeated

TIES = get_args(choices.Ties)


@dataclass(frozen=True)
class EstimatorSpec:
    """A point estimator of the area under the precision-recall curve."""

    name: str  # as users give it, and in `kernels.options`
    formula: str  # in plain mathematics, over the tie groups in descending order of scores
    ties: tuple[str, ...]  # the tie conventions under which it is defined
    when: str  # to use it, and its bias
    doi: str  # of its definition
    weights: bool = True  # whether it is defined with sample weights and soft labels
    needs_items: bool = False  # whether it needs the weights of single items, and not only the sums of tie groups
    influence: bool = False  # whether an influence function gives its standard error
    parameter: str | None = None  # the meaning of the number in "precision_at_recall(0.8)"
    partial: bool = True  # whether it is defined over a range of recall
    chance: str | float | None = "prevalence"  # of a random ranking: about the prevalence, a number, or None: no level

    @property
    def is_cutoff(self) -> bool:
        """Whether it looks at the first k items only."""
        return self.parameter == "k"

    @property
    def domain(self) -> str:
        """What its parameter may be."""
        return "a whole number from 1" if self.is_cutoff else "above 0 and up to 1"


def usage(spec: EstimatorSpec) -> str:
    """Return the estimator's name with its parameter, if it takes one."""
    return spec.name if spec.parameter is None else f"{spec.name}({spec.parameter.upper()})"


BOYD = "10.1007/978-3-642-40994-3_29"

AREAS = (
    "average_precision",
    "lower_trapezoid",
    "upper_trapezoid",
    "interpolated_max",
    "interpolated_mean",
    "interpolated_median",
    "interpolated_convex",
    "continuous",
    "discrete",
    "binormal",
    "haldane",
)

_DAVIS = "10.1145/1143844.1143874"
_KEILWAGEN = "10.1371/journal.pone.0092209"
_FLACH = "10.5555/2969239.2969333"
_HALDANE = "10.1093/biomet/33.3.222"
_MCSHERRY = "10.1007/978-3-540-78646-7_38"
_MCDERMOTT = "10.48550/arXiv.2401.06091"
_RANKED = ("group", "trec_eval")

ESTIMATORS = {
    spec.name: spec
    for spec in (
        EstimatorSpec(
            "average_precision",
            "1/n sum over positives of TP/(TP+FP) at the positive's own tie group",
            TIES,
            "The default: no interpolation, equals scikit-learn's; slightly biased upward at few positives.",
            BOYD,
            influence=True,
        ),
        EstimatorSpec(
            "lower_trapezoid",
            "sum over recalls of (pmin(r_i) + pmax(r_i+1))/2 (r_i+1 - r_i), from r_0 = 0",
            _RANKED,
            "Equals the trapezoid over scikit-learn's curve; straight lines are optimistic between distant points "
            "and inflated when the highest scores are tied.",
            BOYD,
            influence=True,
        ),
        EstimatorSpec(
            "upper_trapezoid",
            "sum over recalls of (pmax(r_i) + pmax(r_i+1))/2 (r_i+1 - r_i), from r_0 = 0",
            _RANKED,
            "An optimistic bound on the lower trapezoid; biased upward, inflated when the highest scores are tied.",
            BOYD,
            influence=True,
        ),
        EstimatorSpec(
            "interpolated_max",
            "hyperbolic interpolation between the points of largest precision at each recall",
            _RANKED,
            "Joins the best threshold of each recall; biased upward at few positives.",
            BOYD,
            influence=True,
        ),
        EstimatorSpec(
            "interpolated_mean",
            "hyperbolic interpolation between the mean precisions of all thresholds at each recall",
            _RANKED,
            "Averages every threshold, the trailing negatives at recall 1 included: a perfect ranking is below 1.",
            BOYD,
        ),
        EstimatorSpec(
            "interpolated_median",
            "hyperbolic interpolation between the median precisions of all thresholds at each recall",
            _RANKED,
            "As interpolated_mean, by the median: a perfect ranking is below 1.",
            BOYD,
        ),
        EstimatorSpec(
            "interpolated_convex",
            "hyperbolic interpolation between the vertices of the ROC convex hull",
            _RANKED,
            "The achievable curve of randomly mixed thresholds; fitted to the sample, so biased upward.",
            _DAVIS,
        ),
        EstimatorSpec(
            "continuous",
            "hyperbolic interpolation between consecutive points; TP and FP grow linearly together",
            _RANKED,
            "The interpolation of weighted and soft labels; equals PRROC's auc.integral.",
            _KEILWAGEN,
            influence=True,
        ),
        EstimatorSpec(
            "discrete",
            "straight lines between interpolated points at every whole number of true positives",
            _RANKED,
            "Davis and Goadrich's own; close to continuous, for hard unweighted labels only.",
            _DAVIS,
            weights=False,
        ),
        EstimatorSpec(
            "binormal",
            "int pi t / (pi t + (1-pi) Phi((mu_- - mu_+)/sd_- + sd_+/sd_- Phi^-1(t))) dt",
            ("group",),
            "Smooth and precise if both classes are normal, wrong if they are not; NaN without spread. Weights count "
            "items (sd divides by their sum minus 1), so unlike all others it depends on their scale.",
            BOYD,
        ),
        EstimatorSpec(
            "roc_area",
            "share of pairs of a positive and a negative in the right order, ties one half",
            _RANKED,
            "For comparison: its baseline is 1/2 at any prevalence, and it weighs all mistakes alike. NaN without "
            "negatives, and where an item was never ranked, because its pairs have no order.",
            _MCDERMOTT,
            partial=False,
            influence=True,
            chance=0.5,
        ),
        EstimatorSpec(
            "gain_area",
            "trapezoids over precision gain 1 - FP n/(TP m) and recall gain 1 - (n-TP) n/(TP m), from gain 0",
            _RANKED,
            "The precision-recall-gain area: linear interpolation is right, the baseline is 0; may be negative.",
            _FLACH,
            partial=False,
            influence=True,
            chance=None,
        ),
        EstimatorSpec(
            "precision_at_recall",
            "highest TP/(TP+FP) of the thresholds with TP/n at least the given recall",
            _RANKED,
            "One operating point, for a recall that the application fixes; 0 if it is never reached.",
            _DAVIS,
            parameter="recall",
            partial=False,
        ),
        EstimatorSpec(
            "recall_at_precision",
            "highest TP/n of the thresholds with TP/(TP+FP) at least the given precision",
            _RANKED,
            "One operating point, for a precision that the application fixes; 0 if it is never reached.",
            _DAVIS,
            parameter="precision",
            partial=False,
            chance=None,
        ),
        EstimatorSpec(
            "precision_at",
            "TP/k of the first k items, expected over random orders of tied items",
            TIES,
            "The first page of results, as P@k; places without an item count, so it is n/k at most. Without weights: k "
            "counts items.",
            _MCSHERRY,
            parameter="k",
            partial=False,
            weights=False,
        ),
        EstimatorSpec(
            "recall_at",
            "TP/n of the first k items, expected over random orders of tied items",
            TIES,
            "The share of all positives, also those never ranked, on the first page. Without weights: k counts items.",
            _MCSHERRY,
            parameter="k",
            partial=False,
            weights=False,
            chance=None,
        ),
        EstimatorSpec(
            "haldane",
            "1/n sum over positives of (TP-1)/(TP-1+FP) at the positive's own tie group, 1 where FP = 0",
            TIES,
            "Average precision without counting the positive itself, or with weights without its weight: nearly "
            "unbiased from 20 positives on, except for rare ones (1 % and less).",
            _HALDANE,
            needs_items=True,
            influence=True,
        ),
    )
}


WITH_INFLUENCE = tuple(name for name, spec in ESTIMATORS.items() if spec.influence)
IN_ONE_PASS = ("average_precision", "haldane")  # of them, those whose kernels find their standard errors, too


_RETRIEVAL = (
    "`aucpr-dask import trec --measures 'nDCG@10 RR'` computes it by ir_measures; ap.from_values takes its values"
)
_EARLY = "rdkit.ML.Scoring.Scoring (CalcBEDROC, CalcEnrichment); ap.from_values compares its values"
_OF_RANGES = "the packages prts and TSB-AD, for time series; ap.from_values compares their values"
ELSEWHERE = {
    "bedroc rie enrichment enrichment_factor ef log_auc logauc": _EARLY,
    "range_pr range_based_pr range_based_precision_recall r_auc_pr range_auc_pr vus_pr vus": _OF_RANGES,
    "ndcg mrr rr reciprocal_rank rprec rbp err": _RETRIEVAL,
    "f1 f1_score max_f1 mcc accuracy balanced_accuracy": "sklearn.metrics; ap.confusion counts at any threshold",
}
"""What is asked for and not here, by its names elsewhere, and where it is."""

_CUTOFF = re.compile(r"(precision|p|recall|r)(_at_k|_at|@|_)\(?(\d*)\)?", re.IGNORECASE)  # as P@10, recall_100


def parse_estimator(text: object) -> tuple[EstimatorSpec, float]:
    """Return the record and the parameter (NaN if it takes none) of ``"name"`` or ``"name(number)"``."""
    name, parenthesis, rest = str(text).partition("(")
    if isinstance(text, str) and name not in ESTIMATORS and (found := _CUTOFF.fullmatch(text)):
        own = f"{'precision' if found[1].lower().startswith('p') else 'recall'}_at({found[3] or 10})"
        what, allowed = f"unknown estimator: {text}", "precision_at(k), recall_at(k)"
        raise InvalidInputError(what, "name of the estimator", brief(text), allowed, f"did you mean {own!r}?")
    bare = name.lower().partition("@")[0]
    elsewhere = (way for words, way in ELSEWHERE.items() if bare in words.split() and name not in ESTIMATORS)
    if (other := next(elsewhere, None)) is not None:
        what, allowed = "this is no estimator of a whole curve, and not computed here", ", ".join(ESTIMATORS)
        raise InvalidInputError(what, "name of the estimator", brief(text), allowed, f"it is elsewhere: {other}")
    spec = lookup(ESTIMATORS, name if isinstance(text, str) else text, "estimator")
    if spec.parameter is None and not parenthesis:
        return spec, math.nan
    try:
        value = float(rest.removesuffix(")")) if spec.parameter and rest.endswith(")") else math.nan
    except ValueError:
        value = math.nan
    if not (value >= 1 and value.is_integer() if spec.is_cutoff else 0 < value <= 1):
        allowed = f"{name}({spec.parameter}), {spec.parameter} {spec.domain}" if spec.parameter else name
        what, where = "the estimator's parameter is wrong", f"name of the estimator {name!r}"
        example = f"for example {name}({10 if spec.is_cutoff else 0.8})"
        remedy = example if spec.parameter else f"write {name!r} without parentheses"
        raise InvalidInputError(what, where, brief(text), allowed, remedy)
    return spec, value


def estimator_names(estimator: str | Sequence[str], option: str = "estimator") -> tuple[str, ...]:
    """Return one or more names of estimators, each known and each once."""
    what = "name one or more estimators, each once"
    names = each_once(estimator, option, ESTIMATORS, what)
    if not names:
        raise repeated(estimator, option, ESTIMATORS, what)
    for name in names:
        parse_estimator(name)
    return names
