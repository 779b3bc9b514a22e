"""One long ranking: average precision with and without weights."""

from __future__ import annotations

from typing import Any

import numpy as np

import aucpr_dask as ap
from benchmarks.suite import FLOAT32, FLOAT64, contender, floor
from benchmarks.suites.rankings import OneRanking, one_pass, sort


class SingleRanking(OneRanking):
    """Average precision of one ranking, positives shifted by one standard deviation."""

    name = "single-ranking"
    title = "Average precision of one ranking of {n_items:,} float32 items, one thread"
    explanation = (
        "Normal scores, those of positives shifted by 1, scaled into [0, 1] so that no library transforms them. "
        "aucpr-dask and scikit-learn get labels as bool, the others as int8, which they handle fastest; torchmetrics "
        "does not check its arguments. scors adds in the type of the scores, so it gets float64: with float32 it errs "
        "by up to 0.0001. np.sort is the least that a method which sorts takes; one pass reads all once."
    )

    @contender("aucpr_dask", "metrics.average_precision_score(label, score)", "aucpr-dask")
    def time_ours(self, prevalence: float) -> Any:
        return ap.metrics.average_precision_score(self.is_positive, self.score)

    @contender("scikit-learn", "average_precision_score(label, score)", "scikit-learn", tolerance=FLOAT64)
    def time_scikit_learn(self, prevalence: float) -> Any:
        from sklearn.metrics import average_precision_score

        return average_precision_score(self.is_positive, self.score)

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

    @contender("scors", "scors.average_precision(label, score.astype(np.float64))", "scors", tolerance=FLOAT64)
    def time_scors(self, prevalence: float) -> Any:
        import scors

        return scors.average_precision(self.label, self.score.astype(np.float64))

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
        "scikit-learn", "average_precision_score(label, score, sample_weight=weight)", "scikit-learn", tolerance=FLOAT64
    )
    def time_scikit_learn(self, prevalence: float) -> Any:
        from sklearn.metrics import average_precision_score

        return average_precision_score(self.label, self.score, sample_weight=self.weight)

    @floor("one pass", "score.max(), label.max(), weight.sum()", "numpy")
    def time_pass(self, prevalence: float) -> Any:
        return self.score.max(), self.label.max(), self.weight.sum()

    time_sort = sort
