"""Standard errors by the influence function, beside the estimates alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.contenders import FLOAT64, Suite, contender, floor


class Influence(Suite):
    """What a standard error costs once the ranking is known."""

    name = "influence"
    title = "Average precision of {n_models:,} models by {n_items:,} float32 items, 1 % positive, one thread"
    explanation = "The estimates alone; and with standard errors and intervals by the influence function."
    params = ("1 % positive",)
    n_models = 1000
    n_items = 100_000

    def shrink(self) -> None:
        """Take four models of 500 items."""
        self.n_models, self.n_items = 4, 500

    def setup(self, case: str) -> None:
        """Draw models of rising quality on one set of labels."""
        import xarray as xr

        random = np.random.default_rng(26)
        label = np.zeros(self.n_items, np.int8)
        label[::100] = 1
        score = random.standard_normal((self.n_models, self.n_items), dtype=np.float32)
        score += np.linspace(0.5, 2, self.n_models, dtype=np.float32)[:, None] * label
        self.scores = xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)})

    @contender("estimates alone", "ap.estimate(scores.score, scores.label)", "aucpr-dask")
    def time_estimates(self, case: str) -> Any:
        """Compute the areas."""
        import aucpr_dask as ap

        return ap.estimate(self.scores["score"], self.scores["label"])

    @contender(
        "with influence",
        'ap.evaluate(scores, intervals="influence_logit_t")',
        "aucpr-dask",
        tolerance=FLOAT64,
        numbers=lambda result: result["estimate"].values[:, 0],
    )
    def time_influence(self, case: str) -> Any:
        """Compute areas, standard errors and intervals."""
        import aucpr_dask as ap

        return ap.evaluate(self.scores, intervals="influence_logit_t")

    @floor("one pass", "score.max(), label.max()", "numpy")
    def time_pass(self, case: str) -> Any:
        """Read scores and labels once."""
        return self.scores["score"].values.max(), self.scores["label"].values.max()
