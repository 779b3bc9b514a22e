"""What options may be, as type checkers and editors know it. A test compares the names with the records."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypedDict

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

    interval: Interval | Sequence[Interval] | None
    recall_range: tuple[float, float]
    keep_replicates: bool
    prevalence_design: PrevalenceDesign
    n_folds: int


class Running(Estimating, total=False):
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


class EvaluatingAll(EvaluatingByGroups, total=False):
    """The same, of statements that do not name an estimator either."""

    estimator: SomeEstimator | None


class Comparing(Evaluating, total=False):
    """What statements pass on to comparisons."""

    estimator: SomeEstimator | None
    over: Dims | None
    method: Method | None
    adjust: Adjustment | None
    weights: Weights
    n_resamples: int | None
    seed: int
    incomplete: Incomplete


class ComparingGroups(Comparing, total=False):
    """The same, of statements that do not name groups themselves."""

    by: Any


class ComparingMeasures(ComparingGroups, total=False):
    """The same, of statements that do not name a level themselves."""

    level: float
