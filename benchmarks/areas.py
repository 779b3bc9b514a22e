"""The other areas under the curve that peers compute exactly: XGBoost's, R's, and the trapezoid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.contenders import FLOAT64, contender, floor, installed
from benchmarks.r import R
from benchmarks.rankings import OneRanking

IN_R = "R is one process that is started, and given the data, beforehand."


class _Area(OneRanking):  # the underscore hides it from asv, which would run it
    """One area of one ranking, from few positives to many."""

    params = (0.01, 0.1, 0.5)
    n_items = 100_000
    estimator: str
    r_package = ""
    r: R | None = None

    def shrink(self) -> None:
        """Take 2000 items."""
        self.n_items = 2_000

    def setup(self, prevalence: float) -> None:
        """Draw one ranking, and give it to R."""
        super().setup(prevalence)
        if self.r_package and installed(f"R:{self.r_package}"):
            self.r = R(self.r_package)
            self.r.send("score", self.score)
            self.r.send("label", self.label)

    def teardown(self, prevalence: float) -> None:
        """End R."""
        if self.r is not None:
            self.r.close()

    def other_processes(self) -> Iterator[int]:
        """Yield R, rid of what earlier calls left."""
        if self.r is not None:
            self.r.ask("{gc(); TRUE}")
            yield self.r.pid

    def ask_r(self, expression: str) -> float:
        """Return the number that R makes of the ranking."""
        assert self.r is not None, "contenders that need R are skipped without it"
        return self.r.number(expression)

    @contender("aucpr_dask", "ap.estimate(score, label, estimator)", "aucpr-dask")
    def time_ours(self, prevalence: float) -> Any:
        """Compute the area."""
        import aucpr_dask as ap

        return ap.estimate(self.score, self.label, self.estimator)

    @floor("one pass", "score.max(), label.max()", "numpy")
    def time_pass(self, prevalence: float) -> Any:
        """Read scores and labels once."""
        return self.score.max(), self.label.max()

    @floor("np.sort", "np.sort(score)", "numpy")
    def time_sort(self, prevalence: float) -> Any:
        """Sort the scores alone, without an estimate."""
        return np.sort(self.score)


class InterpolatedArea(_Area):
    """Davis and Goadrich's interpolation, integrated."""

    name = "area-interpolated"
    title = "Area under the interpolated curve of one ranking of {n_items:,} float32 items, one thread"
    explanation = (
        "Our 'continuous': XGBoost's metric aucpr is the same area. It evaluates a model without trees, whose "
        "predictions are the margins it is given (the scores), on a DMatrix that is ready."
    )
    n_items = 1_000_000
    estimator = "continuous"

    def setup(self, prevalence: float) -> None:
        """Draw one ranking."""
        super().setup(prevalence)
        if installed("xgboost-cpu"):
            import xgboost

            options = {"objective": "reg:squarederror", "eval_metric": "aucpr", "nthread": 1}
            no_features = np.zeros((self.n_items, 1), np.float32)
            self.matrix = xgboost.DMatrix(no_features, label=self.label, base_margin=self.score, nthread=1)
            self.booster = xgboost.train(options, self.matrix, num_boost_round=0)

    @contender(
        "XGBoost",
        'booster.eval(matrix), eval_metric="aucpr", nthread=1, base_margin=score, num_boost_round=0',
        "xgboost-cpu",
        tolerance=1e-9,  # it adds up in another order
        numbers=lambda line: float(line.rpartition(":")[2]),
    )
    def time_xgboost(self, prevalence: float) -> Any:
        """Evaluate a matrix whose predictions are kept."""
        return self.booster.eval(self.matrix)


class Trapezoid(_Area):
    """Straight lines between all points of the curve."""

    name = "area-trapezoid"
    title = "Area under straight lines between points, of one ranking of {n_items:,} float32 items, one thread"
    explanation = (
        "Our 'lower_trapezoid': scikit-learn's documentation warns of this area, and many still compute it. MLmetrics "
        f"leaves out the first point, so its number differs a little. {IN_R} PRROC and precrec are not in Debian."
    )
    estimator = "lower_trapezoid"
    r_package = "MLmetrics"

    @contender(
        "scikit-learn",
        "auc(recall, precision), of precision_recall_curve(label, score)",
        "scikit-learn",
        tolerance=FLOAT64,
    )
    def time_scikit_learn(self, prevalence: float) -> Any:
        """Make the curve and the trapezoids."""
        from sklearn.metrics import auc, precision_recall_curve

        precision, recall, _ = precision_recall_curve(self.label, self.score)
        return auc(recall, precision)

    @contender("MLmetrics (R)", "PRAUC(score, label)", "R", "R:MLmetrics", approximates=True)
    def time_mlmetrics(self, prevalence: float) -> Any:
        """Make one call."""
        return self.ask_r("PRAUC(score, label)")


class UpperTrapezoid(_Area):
    """Straight lines between the points at positives."""

    name = "area-upper-trapezoid"
    title = "Area under straight lines between positives, of one ranking of {n_items:,} float32 items, one thread"
    explanation = f"Our 'upper_trapezoid', which for scores like these is what ROCR calls aucpr. {IN_R}"
    estimator = "upper_trapezoid"
    r_package = "ROCR"

    @contender(
        "ROCR (R)",
        'performance(prediction(score, label), "aucpr")@y.values[[1]]',
        "R",
        "R:ROCR",
        tolerance=FLOAT64,
    )
    def time_rocr(self, prevalence: float) -> Any:
        """Make one call."""
        return self.ask_r('performance(prediction(score, label), "aucpr")@y.values[[1]]')
