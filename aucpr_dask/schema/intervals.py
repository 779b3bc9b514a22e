"""One frozen record per interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aucpr_dask.schema.checks import Default, each_once, lookup
from aucpr_dask.schema.estimators import AREAS, BOYD, IN_ONE_PASS, WITH_INFLUENCE


@dataclass(frozen=True)
class IntervalSpec:
    """An interval around an estimate."""

    name: str  # as users give it
    formula: str  # the bounds in plain mathematics, in the symbols of `INTERVAL_SYMBOLS`
    when: str  # to use it, and how well it covers
    doi: str  # of its definition
    needs: tuple[str, ...] = ("positives",)  # in addition to the estimate: keys of `INTERVAL_NEEDS`
    estimators: tuple[str, ...] | None = None  # that have it; None if all have

    @property
    def is_formula(self) -> bool:
        """Whether it is a formula of the estimate and the number of positives alone."""
        return self.needs == ("positives",)

    def serves(self, estimator: str) -> bool:
        """Return whether an estimator has this interval."""
        return self.estimators is None or estimator in self.estimators


DEFAULT_INTERVALS = Default(["influence_beta"])

ON_UNIT_SCALE = tuple(name for name in WITH_INFLUENCE if name != "gain_area")  # which may be negative

INTERVAL_SYMBOLS = (
    "t is the estimate, n the number of positives, z the normal quantile of the level, a = (1 - level)/2; s the "
    "standard error by the influence function; t* and s* the estimate and standard error of a bootstrap replicate, "
    "Q(p) the p-quantile, as of NumPy, of the B replicates; Phi the normal distribution function."
)

INTERVAL_NEEDS = {
    "positives": "the number of positives",
    "error": "the influence function",
    "replicates": "resamples",
    "jackknife": "the estimates without each item",
    "folds": "folds of a cross-validation",
    "tails": "half an unseen negative",
}

_DAVISON = "10.1017/CBO9780511802843"
_HAMPEL = "10.1080/01621459.1974.10482962"

INTERVALS = {
    spec.name: spec
    for spec in (
        IntervalSpec(
            "binomial",
            "t +- z sqrt(t(1-t)/n)",
            "Near-nominal at moderate areas; may leave [0, 1] and is empty at 0 and 1.",
            BOYD,
            estimators=AREAS,
        ),
        IntervalSpec(
            "logit",
            "expit(logit t +- z / sqrt(n t(1-t))); [0, 1] at t = 0 or 1",
            "Needs no scores and stays inside [0, 1]. It covers too little where a few negatives above all positives "
            "decide.",
            BOYD,
            estimators=AREAS,
        ),
        IntervalSpec(
            "wilson",
            "(t + z^2/2n +- z sqrt(t(1-t)/n + z^2/4n^2)) / (1 + z^2/n)",
            "Informative at areas of 0 and 1.",
            "10.1080/01621459.1927.10502953",
            estimators=AREAS,
        ),
        IntervalSpec(
            "clopper_pearson",
            "Beta quantiles at x = n t, not rounded",
            "The widest; informative at areas of 0 and 1.",
            "10.1093/biomet/26.4.404",
            estimators=AREAS,
        ),
        IntervalSpec(
            "bootstrap",
            "Q(a), Q(1-a); at an estimate of 0, or of the most that it can be, at least Wilson's interval",
            "The percentile interval of a stratified bootstrap, for any estimator; below the level at few positives. "
            "At 0 and 1 with the number of items that an estimate is the share of: positives, or the first k.",
            "10.1214/aos/1176344552",
            ("replicates",),
        ),
        IntervalSpec(
            "bca",
            "Q(Phi(b + (b -+ z)/(1 - c(b -+ z)))), b = Phi^-1((#(t* < t) + #(t* <= t))/2B), c the acceleration",
            "The percentile interval corrected for bias and skewness; second-order accurate in large samples, but at "
            "few positives as far below the level as bootstrap. It uses far tails: take 1000 resamples or more.",
            "10.1080/01621459.1987.10478410",
            ("replicates", "jackknife"),
        ),
        IntervalSpec(
            "bootstrap_t",
            "t - s Q_T(1-a), t - s Q_T(a), Q_T the quantile of (t* - t)/s* over replicates with s* > 0",
            "Second-order accurate in large samples, and closest to the level among those that resample; may leave "
            "[0, 1], is unstable where s* is small, and NaN for a perfect ranking.",
            _DAVISON,
            ("replicates", "error"),
            IN_ONE_PASS,
        ),
        IntervalSpec(
            "influence_logit_t",
            "expit(logit t +- q s / (t(1-t))), q Student's with n-1 degrees of freedom; [0, 1] at t = 0 or 1, or n = 1",
            "The sample's own spread in place of the binomial one of logit: wide at few positives, and narrower than "
            "logit from about 50 on; it can fall slightly below the level where logit does not.",
            _HAMPEL,
            ("positives", "error"),
            ON_UNIT_SCALE,
        ),
        IntervalSpec(
            "influence_log_t",
            "1 - (1-t) exp(+-q s/(1-t)), q Student's with n-1 degrees of freedom; NaN at t = 1",
            "The default for gain_area, which is at most 1 and has no lower end; below the level at few positives and "
            "high areas.",
            _HAMPEL,
            ("positives", "error"),
            ("gain_area",),
        ),
        IntervalSpec(
            "influence_beta",
            "Beta quantiles at x = m t' of m, not rounded, t' the mean of t and of t with each positive left out of "
            "its recall (of haldane: of t and average_precision), m = t'(1-t')/V the effective number of positives, V "
            "from s; the lower one also allows for the skewness of the influences, and with negatives above all "
            "items that the sample lacks",
            "The default, where there is an influence function: closest of all to the level in unfavourable cases, and "
            "mostly narrower than logit. No resampling; informative at areas of 0 and 1. Other areas, and parts, "
            "take t' from average precision; roc_area, whose m counts the rarer class, from itself.",
            "10.1093/jssam/smy019",
            ("positives", "error"),
            ON_UNIT_SCALE,
        ),
        IntervalSpec(
            "extrapolated",
            "influence_beta; where t is over 1.25 times the area with half a negative more above all items and half of "
            "each positive: from 0.7 Q(a) to Q(1-a), or the upper end of influence_beta if that is higher, of a "
            "Bayesian bootstrap with half an unseen negative above all items, half of each positive left out of "
            "its recall",
            "The default at another prevalence: for negatives that stand for more than one each, by prevalence= or by "
            "their weights. Wide where the sample shows little; about 20 (1-p)/p negatives show a prevalence of p.",
            "10.1214/aos/1176345338",
            ("positives", "error", "tails"),
            tuple(name for name in ON_UNIT_SCALE if name in AREAS),
        ),
        IntervalSpec(
            "cross_validation",
            "mean of k folds +- z sd/sqrt(k)",
            "Around the mean of the folds, which is biased where a fold has few positives: far below the level unless "
            "every fold has many. NaN if a fold has none.",
            BOYD,
            ("folds",),
        ),
        IntervalSpec(
            "cross_validation_t",
            "mean of k folds +- q sd/sqrt(k), q Student's with k-1 degrees of freedom",
            "As cross_validation, but wider; not wide enough to make up for the bias.",
            BOYD,
            ("folds",),
        ),
    )
}


def default_intervals(
    estimators: Sequence[str], with_influence: Sequence[str], *, ties: str = "group", extrapolates: bool = False
) -> Default:
    """Return the intervals of these estimators unless others are named: one for each of them."""
    # It is made from the influence function where that is known, and otherwise by resampling; of ties in expectation,
    # which have no replicates, by a formula. Where negatives stand for many, it reckons with those that were not seen.
    others = "logit" if ties == "expectation" else "bootstrap"
    scaled = []
    for name in with_influence:
        has_tail = extrapolates and INTERVALS["extrapolated"].serves(name)
        scaled.append("extrapolated" if has_tail else "influence_beta" if name in ON_UNIT_SCALE else "influence_log_t")
    names = dict.fromkeys([*sorted(scaled), *([others] if len(scaled) < len(estimators) else [])])
    return Default(names)


def interval_names(interval: str | Sequence[str], option: str = "interval") -> tuple[str, ...]:
    """Return names of intervals, each known and each once."""
    names = each_once(interval, option, INTERVALS, "name each interval once")
    return type(names)(lookup(INTERVALS, name, "interval method").name for name in names)
