"""The long rankings of several suites."""

from __future__ import annotations

import numpy as np

from benchmarks.contenders import Suite


def draw_ranking(n_items: int, prevalence: float) -> tuple[np.ndarray, np.ndarray]:
    """Return normal scores, the positives' shifted by 1, scaled into [0, 1] as float32; and labels as int8."""
    random = np.random.default_rng(20)
    label = random.random(n_items) < prevalence
    score = random.standard_normal(n_items) + label
    return ((score - score.min()) / np.ptp(score)).astype(np.float32), label.astype(np.int8)


class OneRanking(Suite):
    """What the suites of one such ranking have in common, from few positives to many."""

    params = (0.001, 0.01, 0.1, 0.5)
    param_names = ("prevalence",)
    n_items = 1_000_000

    def shrink(self) -> None:
        """Take 5000 items."""
        self.n_items = 5_000

    def describe(self, prevalence: float) -> str:
        """Return the prevalence in per cent."""
        return f"{100 * prevalence:g} % positive"

    def setup(self, prevalence: float) -> None:
        """Draw one ranking."""
        self.score, self.label = draw_ranking(self.n_items, prevalence)
