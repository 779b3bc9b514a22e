"""One frozen record of options per kind of call: their defaults, the values they allow, what they mean.

Validation, the parameters that a run records, the command line and the reference are made from the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, asdict, dataclass, field, fields, replace
from typing import Any, Self

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.schema.checks import choose as choose
from aucpr_dask.schema.checks import fraction as fraction
from aucpr_dask.schema.checks import lookup as lookup
from aucpr_dask.schema.checks import recall_range, whole_number
from aucpr_dask.schema.estimators import TIES as TIES
from aucpr_dask.schema.estimators import EstimatorSpec, estimator_names, parse_estimator
from aucpr_dask.schema.intervals import INTERVALS, interval_names

MISSING = ("raise", "drop", "last", "unretrieved")
UNJUDGED = ("negative", "drop")
UNITS = ("items", "clusters")
PREVALENCE_DESIGNS = ("fixed", "random")

ALL_RECALLS = (0.0, 1.0)


def option(
    default: Any,
    description: str,
    *,
    allowed: tuple[str, ...] | None = None,
    least: int | None = None,
    check: Callable[[Any, str], Any] | None = None,
) -> Any:
    """Declare an option: its default, its meaning in one sentence, and the values it allows.

    Those are the strings `allowed`, whole numbers from `least`, or what `check`, called with a value and the option's
    name, returns.
    """
    metadata = {"description": description, "allowed": allowed, "least": least, "check": check}
    return field(default=default, metadata=metadata)


def checked_value(one: Field[Any], value: Any) -> Any:
    """Return the value of an option, converted to its type; raise unless it is allowed."""
    allowed, least, check = (one.metadata.get(name) for name in ("allowed", "least", "check"))
    if value is None and one.default is None:
        return None
    if allowed is not None:
        return choose(allowed, value, one.name)
    if least is not None:
        return whole_number(value, one.name, least)
    return value if check is None else check(value, one.name)


@dataclass(frozen=True, kw_only=True)
class Options:
    """A record of options, whose fields are declared by :func:`option`."""

    def checked(self) -> Self:
        """Return the record with its values converted; raise unless each is allowed, and all of them together."""
        return replace(self, **{one.name: checked_value(one, getattr(self, one.name)) for one in fields(self)})


@dataclass(frozen=True, kw_only=True)
class ResamplingOptions(Options):
    """Which intervals, and how the data are resampled for them."""

    intervals: tuple[str, ...] = option(("logit",), "Intervals around each estimate.", check=interval_names)
    level: float = option(0.95, "Confidence level of the intervals.", check=fraction)
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

    @property
    def draws_counts(self) -> bool:
        """Whether a bootstrap draws how often each item or cluster counts."""
        resampled = ("bootstrap", "basic", "bca", "bootstrap_t")
        return self.keep_replicates or any(name in resampled for name in self.intervals)

    @property
    def draws(self) -> bool:
        """Whether anything is resampled: by counts, or by the weights of the Bayesian bootstrap."""
        return self.draws_counts or "bayesian" in self.intervals

    @property
    def uses_folds(self) -> bool:
        """Whether an interval needs a cross-validation."""
        return any("folds" in INTERVALS[name].needs for name in self.intervals)


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions(Options):
    """What is estimated of every ranking, and how labels, missing scores and ties are read."""

    estimators: tuple[str, ...] = option(("average_precision",), "What to estimate.", check=estimator_names)
    prevalence: float | None = option(None, "Reweight to this share of positives.", check=fraction)
    recall_range: tuple[float, float] = option(
        ALL_RECALLS, "Take the area between two recalls only.", check=recall_range
    )
    missing: str = option("raise", "What a missing score means.", allowed=MISSING)
    ties: str = option("block", "How equal scores count.", allowed=TIES)
    unjudged: str = option("negative", "What an unjudged item counts as.", allowed=UNJUDGED)
    positive_from: int | None = option(None, "Lowest grade that counts as positive, for graded labels.", least=1)
    resampling: ResamplingOptions = ResamplingOptions()

    @classmethod
    def of(cls, **options: Any) -> Self:
        """Check keyword arguments, those of the resampling among them, and return the record."""
        names = [one.name for one in fields(ResamplingOptions)]
        resampling = {name: options.pop(name) for name in names if name in options}
        return cls(**options, resampling=ResamplingOptions(**resampling)).checked()

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        """Return the record that :meth:`as_parameters` described."""
        return cls.of(**parameters)

    def as_parameters(self) -> dict[str, Any]:
        """Return all options in one flat dict, as JSON keeps them."""
        named = asdict(self)
        named |= named.pop("resampling")
        return {name: list(value) if isinstance(value, tuple) else value for name, value in named.items()}

    def checked(self) -> Self:
        """Raise, too, if two options contradict each other."""
        options = replace(super().checked(), resampling=self.resampling.checked())
        specs = [parse_estimator(name)[0] for name in options.estimators]
        for spec in specs:
            choose(spec.ties, options.ties, f"ties for {spec.name!r}")
        clash = options._clash(specs)
        if clash is not None:
            raise InvalidInputError(clash, received=f"ties={options.ties!r}, prevalence={options.prevalence!r}")
        return options

    def _clash(self, specs: list[EstimatorSpec]) -> str | None:
        """Return which two options contradict each other, if any do."""
        is_part = self.recall_range != ALL_RECALLS
        if is_part and not all(spec.partial for spec in specs):
            names = ", ".join(spec.name for spec in specs if not spec.partial)
            return f"{names}: no meaning over a range of recall"
        if is_part and self.ties == "expectation":
            return "ties in expectation have no area over a range of recall"
        if self.prevalence is not None and self.ties == "expectation":
            return "ties in expectation have no other prevalence"
        return None

    @property
    def has_influence(self) -> bool:
        """Whether the influence function gives standard errors, as it does of average precision over all recalls."""
        is_whole = self.recall_range == ALL_RECALLS
        return "average_precision" in self.estimators and is_whole and self.ties != "expectation"
