"""One long ranking: average precision with and without weights, and the ten estimators."""

from __future__ import annotations

from typing import Any

import numpy as np

import aucpr_dask as ap
from benchmarks.harness.contenders import FLOAT32, FLOAT64, contender, floor
from benchmarks.suites.rankings import OneRanking, one_pass, sort

TEN = (
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
SLOWEST = "binormal"


class SingleRanking(OneRanking):
    """Average precision of one ranking, positives shifted by one standard deviation."""

    name = "single-ranking"
    title = "Average precision of one ranking of {n_items:,} float32 items, one thread"
    explanation = (
        "Normal scores, those of positives shifted by 1, scaled into [0, 1] so that no library transforms them. "
        "Each library gets the types it handles fastest (labels as int8); torchmetrics does not check its arguments. "
        "np.sort is the least that a method which sorts all scores takes; one pass reads scores and labels once."
    )

    @contender("aucpr_dask", "ap.estimate(score, label)", "aucpr-dask")
    def time_ours(self, prevalence: float) -> Any:
        return ap.estimate(self.score, self.label)

    @contender("scikit-learn", "average_precision_score(label, score)", "scikit-learn", tolerance=FLOAT64)
    def time_scikit_learn(self, prevalence: float) -> Any:
        from sklearn.metrics import average_precision_score

        return average_precision_score(self.label, self.score)

    @contender(
        "torchmetrics",
        "binary_average_precision(score, label, thresholds=None, validate_args=False)",
        "torchmetrics",
        "torch",
        tolerance=FLOAT32,
    )
    def time_torchmetrics(self, prevalence: float) -> Any:
        from torchmetrics.functional.classification import binary_average_precision

        return binary_average_precision(*self.tensors(), thresholds=None, validate_args=False)

    @contender("torcheval", "binary_auprc(score, label)", "torcheval", "torch", tolerance=FLOAT32)
    def time_torcheval(self, prevalence: float) -> Any:
        from torcheval.metrics.functional import binary_auprc

        return binary_auprc(*self.tensors())

    time_pass = one_pass
    time_sort = sort


class Weighted(OneRanking):
    """Average precision with a sample weight for every item."""

    name = "weighted"
    title = "Average precision of one ranking of {n_items:,} weighted float32 items, one thread"
    explanation = "The rankings of the first suite, with exponential weights of mean 1 as float64."

    def setup(self, prevalence: float) -> None:
        """Draw one ranking and its weights."""
        super().setup(prevalence)
        self.weight = np.random.default_rng(23).standard_exponential(self.n_items)

    @contender("aucpr_dask", "ap.estimate(score, label, weight=weight)", "aucpr-dask")
    def time_ours(self, prevalence: float) -> Any:
        return ap.estimate(self.score, self.label, weight=self.weight)

    @contender(
        "scikit-learn",
        "average_precision_score(label, score, sample_weight=weight)",
        "scikit-learn",
        tolerance=FLOAT64,
    )
    def time_scikit_learn(self, prevalence: float) -> Any:
        from sklearn.metrics import average_precision_score

        return average_precision_score(self.label, self.score, sample_weight=self.weight)

    @floor("one pass", "score.max(), label.max(), weight.sum()", "numpy")
    def time_pass(self, prevalence: float) -> Any:
        return self.score.max(), self.label.max(), self.weight.sum()

    time_sort = sort


def alone(name: str) -> Any:
    """Return the ``time_...`` method of one estimator."""

    @contender(name, f'ap.estimate(score, label, "{name}")', "aucpr-dask")
    def time_alone(self: Any, prevalence: float) -> Any:
        return ap.estimate(self.score, self.label, name)

    return time_alone


class Estimators(OneRanking):
    """All ten estimators in one call cost little more than the slowest: they share most of their work."""

    name = "estimators"
    title = "Ten estimators of one ranking of {n_items:,} float32 items, one thread"
    explanation = (
        "Each estimator alone, and all ten in one call, on the ranking of the first suite. The first line was the "
        "slowest estimator when the suite was written; one that is slower here has a factor above 1."
    )
    params = (0.01, 0.1, 0.5)

    def shrink(self) -> None:
        """Take 5000 items, once."""
        super().shrink()
        self.params = self.params[:1]

    time_slowest = alone(SLOWEST)

    @contender(
        "all ten",
        "ap.estimate(score, label, ten_names)",
        "aucpr-dask",
        tolerance=FLOAT64,
        numbers=lambda areas: areas[TEN.index(SLOWEST)],
    )
    def time_all_ten(self, prevalence: float) -> Any:
        return ap.estimate(self.score, self.label, list(TEN))

    time_sort = sort


for _name in TEN:
    if _name != SLOWEST:
        setattr(Estimators, f"time_{_name}", alone(_name))
