"""Confidence intervals without resampling: formulas for many estimates, and the influence function."""

from __future__ import annotations

from typing import Any

import numpy as np

import aucpr_dask as ap
from benchmarks.harness.contenders import FLOAT64, Suite, contender, floor
from benchmarks.suites.rankings import draw_models, draw_ranking, sort

STATSMODELS = {"binomial": "normal", "wilson": "wilson", "clopper_pearson": "beta"}


class FormulaIntervals(Suite):
    """Intervals of many estimates by the formulas that statsmodels has for proportions."""

    name = "intervals-formula"
    title = "Formula intervals of {n_estimates:,} estimates"
    explanation = (
        "Areas are treated as proportions and positives as trials; no bound leaves [0, 1]. statsmodels does not have "
        "our formula 'logit'."
    )
    params = tuple(STATSMODELS)
    param_names = ("method",)
    n_estimates = 100_000

    def shrink(self) -> None:
        """Take 100 estimates."""
        self.n_estimates = 100

    def setup(self, method: str) -> None:
        """Draw estimates."""
        random = np.random.default_rng(31)
        self.estimate = random.uniform(0.2, 0.8, self.n_estimates)
        self.n_positive = random.integers(50, 1000, self.n_estimates)

    @contender("aucpr_dask", "ap.interval(estimate, n_positive, method)", "aucpr-dask")
    def time_ours(self, method: str) -> Any:
        return ap.interval(self.estimate, self.n_positive, method)

    @contender(
        "statsmodels",
        "proportion_confint(estimate * n_positive, n_positive, method=method)",
        "statsmodels",
        tolerance=FLOAT64,
        numbers=np.transpose,
    )
    def time_statsmodels(self, method: str) -> Any:
        from statsmodels.stats.proportion import proportion_confint

        return proportion_confint(self.estimate * self.n_positive, self.n_positive, method=STATSMODELS[method])

    @floor("one pass", "estimate.max(), n_positive.max()", "numpy")
    def time_pass(self, method: str) -> Any:
        return self.estimate.max(), self.n_positive.max()


class Intervals(Suite):
    """The area of one ranking and its interval."""

    name = "intervals"
    title = "An area and its interval: one ranking of {n_items:,} float32 items, 1 % positive, one thread"
    explanation = (
        "Two contenders have Wilson's formula. confidenceinterval has none for this curve; DeLong's for the ROC curve, "
        "a closed form from the ranking, is listed next to our influence function: other numbers, comparable work. "
        "The suite bootstrap has resampling."
    )
    params = ("1 % positive",)
    n_items = 100_000

    def shrink(self) -> None:
        """Take 2000 items."""
        self.n_items = 2_000

    def setup(self, case: str) -> None:
        """Draw one ranking."""
        import xarray as xr

        self.score, self.label = draw_ranking(self.n_items, 0.01)
        self.scores = xr.Dataset({"score": (("model", "item"), self.score[None]), "label": ("item", self.label)})

    @contender("aucpr_dask, wilson", 'ap.interval(ap.estimate(score, label), label.sum(), "wilson")', "aucpr-dask")
    def time_formula(self, case: str) -> Any:
        return ap.interval(ap.estimate(self.score, self.label), np.count_nonzero(self.label == 1), "wilson")

    @contender(
        "scikit-learn and statsmodels",
        'proportion_confint(average_precision_score(label, score) * n, n, method="wilson")',
        "scikit-learn",
        "statsmodels",
        tolerance=FLOAT64,
    )
    def time_peers(self, case: str) -> Any:
        from sklearn.metrics import average_precision_score
        from statsmodels.stats.proportion import proportion_confint

        n = np.count_nonzero(self.label == 1)
        return proportion_confint(average_precision_score(self.label, self.score) * n, n, method="wilson")

    @contender("aucpr_dask, influence", 'ap.evaluate(scores, intervals="influence_logit_t")', "aucpr-dask")
    def time_influence(self, case: str) -> Any:
        return ap.evaluate(self.scores, intervals="influence_logit_t")

    @contender(
        "confidenceinterval, DeLong",
        "confidenceinterval.roc_auc_score(label, score)",
        "confidenceinterval",
    )
    def time_delong(self, case: str) -> Any:
        import confidenceinterval

        return confidenceinterval.roc_auc_score(self.label, self.score)

    time_sort = sort


class Influence(Suite):
    """The cost of a standard error once the ranking is known."""

    name = "influence"
    title = "Average precision of {n_models:,} models by {n_items:,} float32 items, 1 % positive, one thread"
    explanation = "The estimates alone, and with standard errors and intervals from the influence function."
    params = ("1 % positive",)
    n_models = 1000
    n_items = 100_000

    def shrink(self) -> None:
        """Take four models of 500 items."""
        self.n_models, self.n_items = 4, 500

    def setup(self, case: str) -> None:
        """Draw the models."""
        self.scores = draw_models(self.n_models, self.n_items, seed=26)
        self.score, self.label = self.scores["score"], self.scores["label"]

    @contender("estimates alone", "ap.estimate(scores.score, scores.label)", "aucpr-dask")
    def time_estimates(self, case: str) -> Any:
        return ap.estimate(self.score, self.label)

    @contender(
        "with influence",
        'ap.evaluate(scores, intervals="influence_logit_t")',
        "aucpr-dask",
        tolerance=FLOAT64,
        numbers=lambda result: result["estimate"].values[:, 0],
    )
    def time_influence(self, case: str) -> Any:
        return ap.evaluate(self.scores, intervals="influence_logit_t")

    @floor("one pass", "score.max(), label.max()", "numpy")
    def time_pass(self, case: str) -> Any:
        return self.score.values.max(), self.label.values.max()
