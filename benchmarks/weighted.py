"""Average precision of one long ranking of weighted items."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.contenders import FLOAT64, contender, floor
from benchmarks.rankings import OneRanking


class Weighted(OneRanking):
    """Average precision with a sample weight for every item."""

    name = "weighted"
    title = "Average precision of one ranking of {n_items:,} weighted float32 items, one thread"
    explanation = "The rankings of the first suite; exponential weights of mean 1 as float64."

    def setup(self, prevalence: float) -> None:
        """Draw one ranking and its weights."""
        super().setup(prevalence)
        self.weight = np.random.default_rng(23).standard_exponential(self.n_items)

    @contender("aucpr_dask", "ap.estimate(score, label, weight=weight)", "aucpr-dask")
    def time_ours(self, prevalence: float) -> Any:
        """Make the default call: block ties, scores, labels and weights checked."""
        import aucpr_dask as ap

        return ap.estimate(self.score, self.label, weight=self.weight)

    @contender(
        "scikit-learn",
        "average_precision_score(label, score, sample_weight=weight)",
        "scikit-learn",
        tolerance=FLOAT64,
    )
    def time_scikit_learn(self, prevalence: float) -> Any:
        """Call it as its documentation does."""
        from sklearn.metrics import average_precision_score

        return average_precision_score(self.label, self.score, sample_weight=self.weight)

    @floor("one pass", "score.max(), label.max(), weight.sum()", "numpy")
    def time_pass(self, prevalence: float) -> Any:
        """Read scores, labels and weights once."""
        return self.score.max(), self.label.max(), self.weight.sum()

    @floor("np.sort", "np.sort(score)", "numpy")
    def time_sort(self, prevalence: float) -> Any:
        """Sort the scores alone, without an estimate."""
        return np.sort(self.score)
