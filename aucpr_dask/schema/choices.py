"""What options may be, as type checkers and editors know it. A test compares the names with the records."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, ParamSpec, Protocol, TypeAlias, TypedDict, TypeVar

from aucpr_dask.errors import refuse_unexpected

_Asked = ParamSpec("_Asked")
_Answer = TypeVar("_Answer")

Missing: TypeAlias = Literal["raise", "drop", "last", "unretrieved"]
Ties: TypeAlias = Literal["group", "trec_eval", "expectation"]
Unjudged: TypeAlias = Literal["negative", "drop"]
NothingRanked: TypeAlias = Literal["count", "drop"]
NoPositives: TypeAlias = Literal["drop", "zero"]
Convention: TypeAlias = Literal["scikit-learn", "trec_eval"]
Unit: TypeAlias = Literal["items", "clusters"]
PrevalenceDesign: TypeAlias = Literal["random", "fixed"]
Average: TypeAlias = Literal["macro", "weighted", "micro", "samples"]
How: TypeAlias = Literal["macro", "micro"]
Weights: TypeAlias = Literal["equal", "precision", "regression"]
Incomplete: TypeAlias = Literal["raise", "drop", "drop_models"]
Adjustment: TypeAlias = Literal["romano_wolf", "max_t", "holm", "benjamini_hochberg", "none"]
AdjustmentOfPValues: TypeAlias = Literal["holm", "benjamini_hochberg", "none"]
Estimator: TypeAlias = Literal[
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
    "roc_area",
    "gain_area",
    "haldane",
]
SomeEstimator: TypeAlias = Estimator | str  # as "precision_at(10)", which no checker can know
Interval: TypeAlias = Literal[
    "binomial",
    "logit",
    "wilson",
    "clopper_pearson",
    "bootstrap",
    "bca",
    "bootstrap_t",
    "influence_logit_t",
    "influence_log_t",
    "influence_beta",
    "extrapolated",
    "cross_validation",
    "cross_validation_t",
]
Kind: TypeAlias = Literal["precision_recall", "roc"]
KindOfCurve: TypeAlias = Literal[Kind, "achievable"]
MethodOfRanks: TypeAlias = Literal["sign_flip", "bootstrap_t", "bootstrap", "influence"]
Method: TypeAlias = Literal[
    MethodOfRanks, "t", "wilcoxon", "random_effects", "corrected_t", "rank_swap", "prediction_powered"
]
MethodOfMeans: TypeAlias = Literal["score", "t", "bootstrap", "normal", "logit", "prediction_powered"]


class SupportsArray(Protocol):
    """Arrays of NumPy, Dask, xarray, PyTorch and others, and columns and tables of pandas, polars and Arrow."""

    def __array__(self) -> Any: ...


Labels: TypeAlias = SupportsArray | list[Any] | tuple[Any, ...]
Arrays: TypeAlias = Labels | Mapping[Any, Any]
Dims: TypeAlias = str | Sequence[str]


class Inputs(TypedDict, total=False):
    """What stands next to scores, for all functions that take scores."""

    label: Labels | None
    dim: Dims
    clusters: Labels | str | None
    weight: Labels | str | None
    pos_label: Any


class LabelReading(TypedDict, total=False):
    """How labels and missing scores are read: ``**reading: Unpack[LabelReading]``, below ``@takes(LabelReading)``."""

    missing: Missing | None
    unjudged: Unjudged | None
    positive_from: int | None


class CurveReading(LabelReading, total=False):
    """The same, at another prevalence."""

    prevalence: float | None


class RankingReading(LabelReading, total=False):
    """The same, with ties, empty rankings and the convention that decides all."""

    ties: Ties | None
    nothing_ranked: NothingRanked | None
    no_positives: NoPositives | None
    convention: Convention | None


class Reading(CurveReading, RankingReading, total=False):
    """All of these."""


class Contrasting(Inputs, CurveReading, total=False):
    """What the contrast of groups takes next to its own options."""


class Estimating(Reading, total=False):
    """How scores are evaluated."""

    recall_range: tuple[float, float]
    prevalence_design: PrevalenceDesign
    n_folds: int


class EstimatingIntervals(Estimating, total=False):
    """The same, with intervals."""

    interval: Interval | Sequence[Interval] | None
    keep_replicates: bool


class Running(EstimatingIntervals, total=False):
    """What a run passes on to the evaluation of scores."""

    by: Any
    estimator: SomeEstimator | Sequence[SomeEstimator]
    level: float
    n_resamples: int
    seed: int
    over: Unit | None


class Evaluating(Inputs, Estimating, total=False):
    """What statements pass on to the evaluation of scores."""


class EvaluatingByGroups(Evaluating, total=False):
    """The same, of statements that do not name groups themselves."""

    by: Any


class EvaluatingAll(EvaluatingByGroups, EstimatingIntervals, total=False):
    """The same, of statements that do not name an estimator either, and keep intervals."""

    estimator: SomeEstimator | None


class Resampling(Evaluating, total=False):
    """What statements pass on about the sample of a comparison."""

    estimator: SomeEstimator | None
    over: Dims | None
    method: Method | None
    weights: Weights
    n_resamples: int | None
    seed: int
    incomplete: Incomplete


class ResamplingGroups(Resampling, total=False):
    """The same, of statements that do not name groups themselves."""

    by: Any


class Comparing(Resampling, total=False):
    """What statements pass on to comparisons."""

    adjust: Adjustment | None


class ComparingMeasures(Comparing, total=False):
    """The same, of statements that name neither groups nor a level themselves."""

    by: Any
    level: float


def names_taken(function: Callable[..., Any]) -> set[str]:
    """Return the names of all arguments of a function, those of ``**options: Unpack[choices.Name]`` among them."""
    names: set[str] = set()
    for name, one in inspect.signature(function).parameters.items():
        typed = str(one.annotation).partition("choices.")[2].rstrip("]")
        names |= {*globals()[typed].__annotations__} if one.kind is one.VAR_KEYWORD else {name}
    return names


def names_meant(function: Callable[_Asked, _Answer]) -> Callable[_Asked, _Answer]:
    """Let a function name the argument that was probably meant by one that it does not take."""
    known = names_taken(function)

    @functools.wraps(function)
    def checked(*arguments: _Asked.args, **options: _Asked.kwargs) -> _Answer:
        refuse_unexpected(function, options, known)
        return function(*arguments, **options)

    return checked
