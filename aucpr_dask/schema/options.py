"""One frozen record of options per kind of call: their defaults, the values they allow, what they mean.

Validation, the parameters that a run records, the command line and the reference are made from the fields.
"""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields
from typing import Any, Self, TypeVar

import numpy as np

from aucpr_dask.errors import InvalidInputError

TIES = ("block", "trec_eval", "expectation")
MISSING = ("raise", "drop", "last", "unretrieved")
UNJUDGED = ("negative", "drop")
UNITS = ("items", "clusters")
PREVALENCE_DESIGNS = ("fixed", "random")


def option(default: Any, description: str, *, allowed: tuple[str, ...] | None = None, least: int | None = None) -> Any:
    """Declare an option: its default, its meaning in one sentence, and the values it allows."""
    return field(default=default, metadata={"description": description, "allowed": allowed, "least": least})


@dataclass(frozen=True, kw_only=True)
class Options:
    """A record of options, whose fields are declared by :func:`option`."""

    def checked(self) -> Self:
        """Raise unless every value is allowed by itself; options are checked against the data elsewhere."""
        for one in fields(self):
            check_option(one, getattr(self, one.name))
        return self


def check_option(one: Field[Any], value: Any) -> None:
    """Raise unless a value is among the allowed ones, or a whole number that is large enough."""
    allowed, least = one.metadata.get("allowed"), one.metadata.get("least")
    if allowed is not None:
        choose(allowed, value, one.name)
    if least is not None and not (value is None and one.default is None):
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or value < least:
            raise InvalidInputError(f"{one.name} must be a whole number from {least}", received=repr(value))


@dataclass(frozen=True, kw_only=True)
class ResamplingOptions(Options):
    """Which intervals, and how the data are resampled for them."""

    intervals: tuple[str, ...] = option(("logit",), "Intervals around each estimate.")
    level: float = option(0.95, "Confidence level of the intervals.")
    n_resamples: int = option(1000, "Resamples of bootstrap intervals.", least=2)
    seed: int = option(0, "Seed of resamples and folds.", least=0)
    unit: str = option("items", "What a resample draws: items, or whole clusters of items.", allowed=UNITS)
    keep_replicates: bool = option(False, "Keep the estimate of every resample, which compare needs.")
    prevalence_design: str = option(
        "fixed",
        "Whether standard errors treat the numbers of positives and negatives as fixed.",
        allowed=PREVALENCE_DESIGNS,
    )
    n_folds: int = option(10, "Folds of cross-validation intervals.", least=2)


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions(Options):
    """What is estimated of every ranking, and how labels, missing scores and ties are read."""

    estimators: tuple[str, ...] = option(("average_precision",), "What to estimate.")
    prevalence: float | None = option(None, "Reweight to this share of positives.")
    recall_range: tuple[float, float] = option((0.0, 1.0), "Take the area between two recalls only.")
    missing: str = option("raise", "What a missing score means.", allowed=MISSING)
    ties: str = option("block", "How equal scores count.", allowed=TIES)
    unjudged: str = option("negative", "What an unjudged item counts as.", allowed=UNJUDGED)
    positive_from: int | None = option(None, "Lowest grade that counts as positive, for graded labels.", least=1)
    resampling: ResamplingOptions = ResamplingOptions()


_Spec = TypeVar("_Spec")


def lookup(specs: dict[str, _Spec], name: object, what: str) -> _Spec:
    """Return the record called `name`, or raise an error that lists the names there are."""
    if isinstance(name, str) and name in specs:
        return specs[name]
    raise InvalidInputError(f"unknown {what}", received=repr(name), allowed=", ".join(specs))


def choose(allowed: tuple[str, ...], value: object, option: str) -> str:
    """Return `value` if it is one of the `allowed` strings, or raise an error that lists them."""
    if isinstance(value, str) and value in allowed:
        return value
    raise InvalidInputError(f"unknown {option}", received=repr(value), allowed=", ".join(map(repr, allowed)))


def fraction(value: float, option: str) -> float:
    """Return a number between 0 and 1, both excluded."""
    if isinstance(value, int | float | np.number) and 0 < value < 1:
        return float(value)
    raise InvalidInputError(f"{option} must lie between 0 and 1", received=repr(value))
