"""One frozen record per estimator and per interval; documentation, validation and tests are made from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from aucpr_dask.errors import InvalidInputError, explain

TIES = ("block", "trec_eval", "expectation")
MISSING = ("raise", "drop", "last", "unretrieved")
UNJUDGED = ("negative", "drop")


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
    """

    name: str
    code: int
    formula: str
    ties: tuple[str, ...]
    when: str
    doi: str


@dataclass(frozen=True)
class IntervalSpec:
    """A formula interval around an estimate from its value and the number of positives.

    Parameters
    ----------
    name : str
        The name users give.
    formula : str
        The bounds in plain mathematics; z is the normal quantile, n the positives.
    when : str
        When to use it and what is known of its coverage.
    doi : str
        Where it was defined.
    """

    name: str
    formula: str
    when: str
    doi: str


_BOYD = "10.1007/978-3-642-40994-3_29"

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
            ("block", "trec_eval"),
            "Equals the trapezoid over scikit-learn's curve; straight lines are optimistic between distant points "
            "and inflated when the top block is tied.",
            _BOYD,
        ),
        EstimatorSpec(
            "upper_trapezoid",
            2,
            "sum over recalls of (pmax(r_i) + pmax(r_i+1))/2 (r_i+1 - r_i), from r_0 = 0",
            ("block", "trec_eval"),
            "An optimistic bound on the lower trapezoid; biased upward.",
            _BOYD,
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
        ),
        IntervalSpec(
            "logit",
            "expit(logit t +- z / sqrt(n t(1-t))); [0, 1] at t = 0 or 1",
            "The default: stays inside [0, 1], conservative at few positives.",
            _BOYD,
        ),
        IntervalSpec(
            "wilson",
            "(t + z^2/2n +- z sqrt(t(1-t)/n + z^2/4n^2)) / (1 + z^2/n)",
            "Informative at areas of 0 and 1.",
            "10.1080/01621459.1927.10502953",
        ),
        IntervalSpec(
            "clopper_pearson",
            "Beta quantiles at x = n t, not rounded",
            "The widest; informative at areas of 0 and 1.",
            "10.1093/biomet/26.4.404",
        ),
    )
}

_Spec = TypeVar("_Spec")


def lookup(specs: dict[str, _Spec], name: object, what: str) -> _Spec:
    """Return the record called `name`, or raise an error that lists the names there are."""
    if isinstance(name, str) and name in specs:
        return specs[name]
    raise InvalidInputError(explain(f"unknown {what}", received=repr(name), allowed=", ".join(specs)))


def choose(allowed: tuple[str, ...], value: object, option: str) -> str:
    """Return `value` if it is one of the `allowed` strings, or raise an error that lists them."""
    if isinstance(value, str) and value in allowed:
        return value
    raise InvalidInputError(explain(f"unknown {option}", received=repr(value), allowed=", ".join(map(repr, allowed))))
