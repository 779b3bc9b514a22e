"""Confidence intervals without resampling: formulas for many estimates, and one ranking's from its scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.contenders import FLOAT64, Suite, contender, floor
from benchmarks.rankings import draw_ranking

STATSMODELS = {"binomial": "normal", "wilson": "wilson", "clopper_pearson": "beta"}


class FormulaIntervals(Suite):
    """Intervals of many estimates by the formulas that statsmodels has for proportions."""

    name = "intervals-formula"
    title = "Formula intervals of {n_estimates:,} estimates"
    explanation = (
        "An area takes the place of a proportion, and the positives that of the trials; the estimates and positives "
        "are such that no bound leaves [0, 1]. statsmodels does not have the default of ours, 'logit'."
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
        """Make one call for all."""
        import aucpr_dask as ap

        return ap.interval(self.estimate, self.n_positive, method)

    @contender(
        "statsmodels",
        "proportion_confint(estimate * n_positive, n_positive, method=method)",
        "statsmodels",
        tolerance=FLOAT64,
        numbers=np.transpose,
    )
    def time_statsmodels(self, method: str) -> Any:
        """Make one call for all."""
        from statsmodels.stats.proportion import proportion_confint

        return proportion_confint(self.estimate * self.n_positive, self.n_positive, method=STATSMODELS[method])

    @floor("one pass", "estimate.max(), n_positive.max()", "numpy")
    def time_pass(self, method: str) -> Any:
        """Read the inputs once."""
        return self.estimate.max(), self.n_positive.max()


class Intervals(Suite):
    """An area and its interval, of one ranking."""

    name = "intervals"
    title = "An area and its interval: one ranking of {n_items:,} float32 items, 1 % positive, one thread"
    explanation = (
        "Wilson's formula is one that two contenders have. confidenceinterval has none for this curve; DeLong's "
        "for the ROC curve, which is its closed form for a ranking, stands beside our influence function: other "
        "numbers, comparable work. Resampling is in the suite bootstrap."
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
        self.scores = xr.Dataset({"score": ("item", self.score), "label": ("item", self.label)}).expand_dims("model")
        self.scores["label"] = ("item", self.label)

    @contender("aucpr_dask, wilson", 'ap.interval(ap.estimate(score, label), label.sum(), "wilson")', "aucpr-dask")
    def time_formula(self, case: str) -> Any:
        """Estimate, then use the formula."""
        import aucpr_dask as ap

        return ap.interval(ap.estimate(self.score, self.label), np.count_nonzero(self.label == 1), "wilson")

    @contender(
        "scikit-learn and statsmodels",
        'proportion_confint(average_precision_score(label, score) * n, n, method="wilson")',
        "scikit-learn",
        "statsmodels",
        tolerance=FLOAT64,
    )
    def time_peers(self, case: str) -> Any:
        """Estimate, then use the formula."""
        from sklearn.metrics import average_precision_score
        from statsmodels.stats.proportion import proportion_confint

        n = np.count_nonzero(self.label == 1)
        return proportion_confint(average_precision_score(self.label, self.score) * n, n, method="wilson")

    @contender("aucpr_dask, influence", 'ap.evaluate(scores, intervals="influence_logit_t")', "aucpr-dask")
    def time_influence(self, case: str) -> Any:
        """Evaluate a data set of one model."""
        import aucpr_dask as ap

        return ap.evaluate(self.scores, intervals="influence_logit_t")

    @contender(
        "confidenceinterval, DeLong",
        "confidenceinterval.roc_auc_score(label, score)",
        "confidenceinterval",
    )
    def time_delong(self, case: str) -> Any:
        """Make the default call."""
        import confidenceinterval

        return confidenceinterval.roc_auc_score(self.label, self.score)

    @floor("np.sort", "np.sort(score)", "numpy")
    def time_sort(self, case: str) -> Any:
        """Sort the scores alone, without an estimate."""
        return np.sort(self.score)
