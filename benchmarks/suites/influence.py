"""What a standard error by the influence function adds to the cost of an estimate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aucpr_dask as ap
from benchmarks.suite import FLOAT64, Suite, contender, floor
from benchmarks.suites.rankings import draw_models


class Influence(Suite):
    """The cost of a standard error once the ranking is known."""

    name = "influence"
    title = "Average precision of {n_models:,} models by {n_items:,} float32 items, 1 % positive, one thread"
    explanation = "The estimates alone, and with standard errors and intervals from the influence function."
    params = ("1 % positive",)
    n_models = 1000
    n_items = 100_000
    small: Mapping[str, Any] = {"n_models": 4, "n_items": 500}

    def setup(self, case: str) -> None:
        """Draw the models."""
        self.scores = draw_models(self.n_models, self.n_items, seed=26)
        self.score, self.label = self.scores["score"], self.scores["label"]

    @contender("estimates alone", "ap.estimate(scores.score, scores.label)", "aucpr-dask")
    def time_estimates(self, case: str) -> Any:
        return ap.estimate(self.score, self.label)

    @contender(
        "with influence",
        'ap.evaluate(scores, interval="influence_logit_t")',
        "aucpr-dask",
        tolerance=FLOAT64,
        numbers=lambda result: result["estimate"].values,
    )
    def time_influence(self, case: str) -> Any:
        return ap.evaluate(self.scores, interval="influence_logit_t")

    @floor("one pass", "score.max(), label.max()", "numpy")
    def time_pass(self, case: str) -> Any:
        return self.score.values.max(), self.label.values.max()
