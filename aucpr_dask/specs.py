"""One frozen record per estimator and per interval; documentation, validation and tests are made from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

from aucpr_dask.errors import InvalidInputError, explain

TIES = ("block", "trec_eval", "expectation")
MISSING = ("raise", "drop", "last", "unretrieved")
UNJUDGED = ("negative", "drop")
UNITS = ("items", "clusters")
PREVALENCE_DESIGNS = ("fixed", "random")


@dataclass(frozen=True)
class EstimatorSpec:
    """A point estimator of the area under the precision-recall curve.

    Parameters
    ----------
    name : str
        The name users give.
    code : int
        The number by which the compiled kernels know it; never reused.
    formula : str
        The estimator in plain mathematics, over the blocks of tied scores in descending order.
    ties : tuple of str
        The tie conventions under which it has a meaning.
    when : str
        When to use it and what its bias is.
    doi : str
        Where it was defined.
    weights : bool
        Whether it has a meaning with sample weights and soft labels.
    parameter : str or None
        What the number in parentheses behind its name is, as in ``"precision_at_recall(0.8)"``.
    partial : bool
        Whether it has a meaning over a range of recall.
    """

    name: str
    code: int
    formula: str
    ties: tuple[str, ...]
    when: str
    doi: str
    weights: bool = True
    parameter: str | None = None
    partial: bool = True


def usage(spec: EstimatorSpec) -> str:
    """Return how to write the estimator's name: with its parameter, if it takes one."""
    return spec.name if spec.parameter is None else f"{spec.name}({spec.parameter.upper()})"


@dataclass(frozen=True)
class IntervalSpec:
    """An interval around an estimate.

    Parameters
    ----------
    name : str
        The name users give.
    formula : str
        The bounds in plain mathematics, in the symbols of `INTERVAL_SYMBOLS`.
    when : str
        When to use it and what is known of its coverage.
    doi : str
        Where it was defined.
    needs : tuple of str
        What it is made from, beside the estimate: keys of `INTERVAL_NEEDS`.
    estimators : tuple of str or None
        The estimators that have it; None if all have.
    """

    name: str
    formula: str
    when: str
    doi: str
    needs: tuple[str, ...] = ("positives",)
    estimators: tuple[str, ...] | None = None

    @property
    def is_formula(self) -> bool:
        """Whether it follows from the estimate and the number of positives alone."""
        return self.needs == ("positives",)


INTERVAL_SYMBOLS = (
    "t is the estimate, n the number of positives, z the normal quantile of the level, a = (1 - level)/2; s the "
    "standard error by the influence function; t* and s* the estimate and standard error of a bootstrap replicate, "
    "Q(p) the linear quantile (type 7) of the B replicates; Phi the normal distribution function."
)

INTERVAL_NEEDS = {
    "positives": "the number of positives",
    "error": "the influence function",
    "replicates": "resamples",
    "jackknife": "the estimates without each item",
    "folds": "folds of a cross-validation",
}

_BOYD = "10.1007/978-3-642-40994-3_29"

_DAVISON = "10.1017/CBO9780511802843"
_HAMPEL = "10.1080/01621459.1974.10482962"
_AVERAGE_PRECISION = ("average_precision",)
_AREAS = (
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
)

_DAVIS = "10.1145/1143844.1143874"
_KEILWAGEN = "10.1371/journal.pone.0092209"
_FLACH = "10.5555/2969239.2969333"
_MCDERMOTT = "10.48550/arXiv.2401.06091"
_RANKED = ("block", "trec_eval")

ESTIMATORS = {
    spec.name: spec
    for spec in (
        EstimatorSpec(
            "average_precision",
            0,
            "1/n sum over positives of TP/(TP+FP) at the positive's own block",
            TIES,
            "The default: no interpolation, equals scikit-learn's; slightly biased upward at few positives.",
            _BOYD,
        ),
        EstimatorSpec(
            "lower_trapezoid",
            1,
            "sum over recalls of (pmin(r_i) + pmax(r_i+1))/2 (r_i+1 - r_i), from r_0 = 0",
            _RANKED,
            "Equals the trapezoid over scikit-learn's curve; straight lines are optimistic between distant points "
            "and inflated when the top block is tied.",
            _BOYD,
        ),
        EstimatorSpec(
            "upper_trapezoid",
            2,
            "sum over recalls of (pmax(r_i) + pmax(r_i+1))/2 (r_i+1 - r_i), from r_0 = 0",
            _RANKED,
            "An optimistic bound on the lower trapezoid; biased upward, inflated when the top block is tied.",
            _BOYD,
        ),
        EstimatorSpec(
            "interpolated_max",
            3,
            "hyperbolic interpolation between the points of largest precision at each recall",
            _RANKED,
            "Joins the best threshold of each recall; biased upward at few positives.",
            _BOYD,
        ),
        EstimatorSpec(
            "interpolated_mean",
            4,
            "hyperbolic interpolation between the mean precisions of all thresholds at each recall",
            _RANKED,
            "Averages every threshold, the trailing negatives at recall 1 included: a perfect ranking is below 1.",
            _BOYD,
        ),
        EstimatorSpec(
            "interpolated_median",
            5,
            "hyperbolic interpolation between the median precisions of all thresholds at each recall",
            _RANKED,
            "As interpolated_mean, by the median: a perfect ranking is below 1.",
            _BOYD,
        ),
        EstimatorSpec(
            "interpolated_convex",
            6,
            "hyperbolic interpolation between the vertices of the ROC convex hull",
            _RANKED,
            "The achievable curve of randomly mixed thresholds; fitted to the sample, so biased upward.",
            _DAVIS,
        ),
        EstimatorSpec(
            "continuous",
            7,
            "hyperbolic interpolation between consecutive points; TP and FP grow linearly together",
            _RANKED,
            "The interpolation of weighted and soft labels; equals PRROC's auc.integral.",
            _KEILWAGEN,
        ),
        EstimatorSpec(
            "discrete",
            8,
            "straight lines between interpolated points at every whole number of true positives",
            _RANKED,
            "Davis and Goadrich's own; close to continuous, for hard unweighted labels only.",
            _DAVIS,
            weights=False,
        ),
        EstimatorSpec(
            "binormal",
            9,
            "int pi t / (pi t + (1-pi) Phi((mu_- - mu_+)/sd_- + sd_+/sd_- Phi^-1(t))) dt",
            ("block",),
            "Smooth and precise if both classes are normal, wrong if they are not; NaN without spread.",
            _BOYD,
        ),
        EstimatorSpec(
            "roc_area",
            10,
            "share of pairs of a positive and a negative in the right order, ties one half",
            _RANKED,
            "Beside the others: its baseline is 1/2 at any prevalence, and it weighs all mistakes alike.",
            _MCDERMOTT,
            partial=False,
        ),
        EstimatorSpec(
            "gain_area",
            11,
            "trapezoids over precision gain 1 - FP n/(TP m) and recall gain 1 - (n-TP) n/(TP m), from gain 0",
            _RANKED,
            "The precision-recall-gain area: linear interpolation is right, the baseline is 0; may be negative.",
            _FLACH,
            partial=False,
        ),
        EstimatorSpec(
            "precision_at_recall",
            12,
            "highest TP/(TP+FP) of the thresholds with TP/n at least the given recall",
            _RANKED,
            "One operating point, for a recall that the application fixes; 0 if it is never reached.",
            _DAVIS,
            parameter="recall",
            partial=False,
        ),
        EstimatorSpec(
            "recall_at_precision",
            13,
            "highest TP/n of the thresholds with TP/(TP+FP) at least the given precision",
            _RANKED,
            "One operating point, for a precision that the application fixes; 0 if it is never kept.",
            _DAVIS,
            parameter="precision",
            partial=False,
        ),
    )
}

INTERVALS = {
    spec.name: spec
    for spec in (
        IntervalSpec(
            "binomial",
            "t +- z sqrt(t(1-t)/n)",
            "Near-nominal at moderate areas; may leave [0, 1] and is empty at 0 and 1.",
            _BOYD,
            estimators=_AREAS,
        ),
        IntervalSpec(
            "logit",
            "expit(logit t +- z / sqrt(n t(1-t))); [0, 1] at t = 0 or 1",
            "The default: stays inside [0, 1], conservative at few positives.",
            _BOYD,
            estimators=_AREAS,
        ),
        IntervalSpec(
            "wilson",
            "(t + z^2/2n +- z sqrt(t(1-t)/n + z^2/4n^2)) / (1 + z^2/n)",
            "Informative at areas of 0 and 1.",
            "10.1080/01621459.1927.10502953",
            estimators=_AREAS,
        ),
        IntervalSpec(
            "clopper_pearson",
            "Beta quantiles at x = n t, not rounded",
            "The widest; informative at areas of 0 and 1.",
            "10.1093/biomet/26.4.404",
            estimators=_AREAS,
        ),
        IntervalSpec(
            "bootstrap",
            "Q(a), Q(1-a)",
            "The percentile interval of a stratified bootstrap, for any estimator; below the level at few positives.",
            "10.1214/aos/1176344552",
            ("replicates",),
        ),
        IntervalSpec(
            "basic",
            "2t - Q(1-a), 2t - Q(a)",
            "The percentile interval mirrored at the estimate, for t* - t that hardly depends on the true area; may "
            "leave [0, 1], and is further below the level than bootstrap.",
            _DAVISON,
            ("replicates",),
        ),
        IntervalSpec(
            "bca",
            "Q(Phi(b + (b -+ z)/(1 - c(b -+ z)))), b = Phi^-1((#(t* < t) + #(t* <= t))/2B), c the acceleration",
            "The percentile interval corrected for bias and skewness; second-order accurate in large samples, but at "
            "few positives as far below the level as bootstrap. It reads far tails: take 1000 resamples or more.",
            "10.1080/01621459.1987.10478410",
            ("replicates", "jackknife"),
        ),
        IntervalSpec(
            "bootstrap_t",
            "t - s Q_T(1-a), t - s Q_T(a), Q_T the quantile of (t* - t)/s* over replicates with s* > 0",
            "Second-order accurate in large samples, and the nearest to the level of those that resample; may leave "
            "[0, 1], is unsteady where s* is small, and NaN for a perfect ranking.",
            _DAVISON,
            ("replicates", "error"),
            _AVERAGE_PRECISION,
        ),
        IntervalSpec(
            "bayesian",
            "Q(a), Q(1-a) of replicates whose items have Dirichlet weights within each class",
            "A credible interval; close to bootstrap, smoother, and as far below the level at few positives.",
            "10.1214/aos/1176345338",
            ("replicates",),
            estimators=tuple(name for name in ESTIMATORS if name != "discrete"),
        ),
        IntervalSpec(
            "influence",
            "t +- z s",
            "No resampling; may leave [0, 1], is empty for a perfect ranking, and is below the level at few positives.",
            _HAMPEL,
            ("error",),
            _AVERAGE_PRECISION,
        ),
        IntervalSpec(
            "influence_logit",
            "expit(logit t +- z s / (t(1-t))); [0, 1] at t = 0 or 1",
            "As influence, inside [0, 1]; the sample's own spread in place of the binomial one of logit.",
            _HAMPEL,
            ("error",),
            _AVERAGE_PRECISION,
        ),
        IntervalSpec(
            "influence_logit_t",
            "expit(logit t +- q s / (t(1-t))), q Student's with n-1 degrees of freedom; [0, 1] at t = 0 or 1, or n = 1",
            "The widest of the three at few positives, and narrower than logit from some 50 on; it can fall a little "
            "short of the level where logit does not.",
            _HAMPEL,
            ("positives", "error"),
            _AVERAGE_PRECISION,
        ),
        IntervalSpec(
            "cross_validation",
            "mean of k folds +- z sd/sqrt(k)",
            "Around the mean of the folds, which is biased where a fold has few positives: far below the level unless "
            "every fold has many. NaN if a fold has none.",
            _BOYD,
            ("folds",),
        ),
        IntervalSpec(
            "cross_validation_t",
            "mean of k folds +- q sd/sqrt(k), q Student's with k-1 degrees of freedom",
            "As cross_validation, and wider; not wide enough to make up for the bias.",
            _BOYD,
            ("folds",),
        ),
    )
}

_Spec = TypeVar("_Spec")


def lookup(specs: dict[str, _Spec], name: object, what: str) -> _Spec:
    """Return the record called `name`, or raise an error that lists the names there are."""
    if isinstance(name, str) and name in specs:
        return specs[name]
    raise InvalidInputError(explain(f"unknown {what}", received=repr(name), allowed=", ".join(specs)))


def parse_estimator(text: object) -> tuple[EstimatorSpec, float]:
    """Return the record and the parameter (NaN if it takes none) of ``"name"`` or ``"name(number)"``.

    Examples
    --------
    >>> spec, recall = parse_estimator("precision_at_recall(0.8)")
    >>> spec.name, recall
    ('precision_at_recall', 0.8)
    """
    name, parenthesis, rest = str(text).partition("(")
    spec = lookup(ESTIMATORS, name if isinstance(text, str) else text, "estimator")
    if spec.parameter is None and not parenthesis:
        return spec, math.nan
    try:
        value = float(rest.removesuffix(")")) if spec.parameter and rest.endswith(")") else math.nan
    except ValueError:
        value = math.nan
    if not 0 < value <= 1:
        allowed = f"{name}({spec.parameter}), {spec.parameter} above 0 and up to 1" if spec.parameter else name
        raise InvalidInputError(explain("the estimator's parameter is wrong", received=repr(text), allowed=allowed))
    return spec, value


def choose(allowed: tuple[str, ...], value: object, option: str) -> str:
    """Return `value` if it is one of the `allowed` strings, or raise an error that lists them."""
    if isinstance(value, str) and value in allowed:
        return value
    raise InvalidInputError(explain(f"unknown {option}", received=repr(value), allowed=", ".join(map(repr, allowed))))
