"""Areas from counts in bins of scores: how fast they are, and how far from the exact number."""

from __future__ import annotations

import os
from typing import Any

from benchmarks.contenders import contender, floor, installed
from benchmarks.rankings import OneRanking

N_THRESHOLDS = 200  # the default of Keras; the others have as many


class _Binned(OneRanking):  # the underscore hides it from asv, which would run it
    """The exact area, and what some thresholds make of it."""

    params = (0.001, 0.01, 0.1)
    n_thresholds = N_THRESHOLDS
    estimator: str

    @contender("aucpr_dask, exact", "ap.estimate(score, label, estimator)", "aucpr-dask")
    def time_ours(self, prevalence: float) -> Any:
        """Compute the exact area."""
        import aucpr_dask as ap

        return ap.estimate(self.score, self.label, self.estimator)

    @floor("one pass", "score.max(), label.max()", "numpy")
    def time_pass(self, prevalence: float) -> Any:
        """Read scores and labels once: no bin is filled with less."""
        return self.score.max(), self.label.max()


class BinnedAveragePrecision(_Binned):
    """Average precision by thresholds."""

    name = "binned"
    title = "Average precision by {n_thresholds} thresholds, of one ranking of {n_items:,} float32 items, one thread"
    explanation = (
        "The rankings of the first suite, whose scores fill [0, 1]. The peers approximate: the column of differences "
        "says how far they are from the exact number of our line."
    )
    estimator = "average_precision"

    def setup(self, prevalence: float) -> None:
        """Draw one ranking."""
        super().setup(prevalence)
        if installed("torch"):
            import torch

            self.tensors = torch.from_numpy(self.score), torch.from_numpy(self.label)

    @contender(
        "torchmetrics",
        f"binary_average_precision(score, label, thresholds={N_THRESHOLDS}, validate_args=False)",
        "torchmetrics",
        "torch",
        approximates=True,
    )
    def time_torchmetrics(self, prevalence: float) -> Any:
        """Use its binned mode, on tensors that are ready."""
        from torchmetrics.functional.classification import binary_average_precision

        return binary_average_precision(*self.tensors, thresholds=N_THRESHOLDS, validate_args=False)

    @contender(
        "torcheval",
        f"binary_binned_auprc(score, label, threshold={N_THRESHOLDS})[0]",
        "torcheval",
        "torch",
        approximates=True,
    )
    def time_torcheval(self, prevalence: float) -> Any:
        """Use its functional form, on tensors that are ready."""
        from torcheval.metrics.functional import binary_binned_auprc

        return binary_binned_auprc(*self.tensors, threshold=N_THRESHOLDS)[0]


class BinnedInterpolation(_Binned):
    """The area under the interpolated curve by thresholds."""

    name = "binned-interpolated"
    title = "Interpolated area by {n_thresholds} thresholds, of one ranking of {n_items:,} float32 items, one thread"
    explanation = (
        "Keras interpolates between its thresholds as Davis and Goadrich do; the exact area is our 'continuous'. It "
        "runs on its torch backend, and takes NumPy arrays, with which it is faster than with tensors."
    )
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
        """Update a metric that is ready with all items at once."""
        self.metric.reset_state()
        self.metric.update_state(self.label, self.score)
        return self.metric.result()
