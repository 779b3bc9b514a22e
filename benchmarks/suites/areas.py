"""Areas that peers compute with another formula, or from counts in bins of scores."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

import aucpr_dask as ap
from benchmarks.harness.contenders import FLOAT64, contender, installed
from benchmarks.suites.rankings import OneRanking, one_pass, sort

N_THRESHOLDS = 200  # the default of Keras
FEW_POSITIVES = (0.001, 0.01, 0.1)


class _Area(OneRanking):  # asv would run it without the underscore
    """One area of one ranking, from few positives to many."""

    params = (0.01, 0.1, 0.5)
    estimator: str

    @contender("aucpr_dask", "ap.estimate(score, label, estimator)", "aucpr-dask")
    def time_ours(self, prevalence: float) -> Any:
        return ap.estimate(self.score, self.label, self.estimator)

    time_pass = one_pass
    time_sort = sort


class InterpolatedArea(_Area):
    """Davis and Goadrich's interpolation, integrated."""

    name = "area-interpolated"
    title = "Area under the interpolated curve of one ranking of {n_items:,} float32 items, one thread"
    explanation = (
        "Our 'continuous' is the same area as XGBoost's metric aucpr. XGBoost evaluates a model without trees, whose "
        "predictions are the margins it is given (the scores), on a DMatrix built beforehand."
    )
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
        return self.booster.eval(self.matrix)


class Trapezoid(_Area):
    """Straight lines between all points of the curve."""

    name = "area-trapezoid"
    title = "Area under straight lines between points, of one ranking of {n_items:,} float32 items, one thread"
    explanation = "Our 'lower_trapezoid': scikit-learn's documentation warns of this area, but it is still widely used."
    n_items = 100_000
    estimator = "lower_trapezoid"

    @contender(
        "scikit-learn",
        "auc(recall, precision), of precision_recall_curve(label, score)",
        "scikit-learn",
        tolerance=FLOAT64,
    )
    def time_scikit_learn(self, prevalence: float) -> Any:
        from sklearn.metrics import auc, precision_recall_curve

        precision, recall, _ = precision_recall_curve(self.label, self.score)
        return auc(recall, precision)


class BinnedAveragePrecision(_Area):
    """Average precision by thresholds."""

    name = "binned"
    title = "Average precision by {n_thresholds} thresholds, of one ranking of {n_items:,} float32 items, one thread"
    explanation = (
        "The rankings of the first suite, whose scores fill [0, 1]. The peers approximate: the last column gives "
        "their distance from our exact number."
    )
    params = FEW_POSITIVES
    n_thresholds = N_THRESHOLDS
    estimator = "average_precision"

    @contender(
        "torchmetrics",
        f"binary_average_precision(score, label, thresholds={N_THRESHOLDS}, validate_args=False)",
        "torchmetrics",
        "torch",
        approximates=True,
    )
    def time_torchmetrics(self, prevalence: float) -> Any:
        from torchmetrics.functional.classification import binary_average_precision

        return binary_average_precision(*self.tensors(), thresholds=N_THRESHOLDS, validate_args=False)

    @contender(
        "torcheval",
        f"binary_binned_auprc(score, label, threshold={N_THRESHOLDS})[0]",
        "torcheval",
        "torch",
        approximates=True,
    )
    def time_torcheval(self, prevalence: float) -> Any:
        from torcheval.metrics.functional import binary_binned_auprc

        return binary_binned_auprc(*self.tensors(), threshold=N_THRESHOLDS)[0]


class BinnedInterpolation(_Area):
    """The area under the interpolated curve by thresholds."""

    name = "binned-interpolated"
    title = "Interpolated area by {n_thresholds} thresholds, of one ranking of {n_items:,} float32 items, one thread"
    explanation = (
        "Keras interpolates between its thresholds as Davis and Goadrich do; the exact area is our 'continuous'. It "
        "runs on its torch backend, with NumPy arrays, which are faster for it than tensors."
    )
    params = FEW_POSITIVES
    n_thresholds = N_THRESHOLDS
    estimator = "continuous"

    def setup(self, prevalence: float) -> None:
        """Draw one ranking."""
        super().setup(prevalence)
        if installed("keras") and installed("torch"):
            os.environ.setdefault("KERAS_BACKEND", "torch")
            import keras

            self.metric = keras.metrics.AUC(curve="PR", num_thresholds=N_THRESHOLDS)

    @contender(
        "Keras",
        f'update_state(label, score), result() of keras.metrics.AUC(curve="PR", num_thresholds={N_THRESHOLDS})',
        "keras",
        "torch",
        approximates=True,
        numbers=float,
    )
    def time_keras(self, prevalence: float) -> Any:
        self.metric.reset_state()
        self.metric.update_state(self.label, self.score)
        return self.metric.result()
