"""Average precision of one long ranking."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.contenders import FLOAT32, FLOAT64, contender, floor, installed
from benchmarks.rankings import OneRanking


class SingleRanking(OneRanking):
    """Average precision of one ranking, positives shifted by one standard deviation."""

    name = "single-ranking"
    title = "Average precision of one ranking of {n_items:,} float32 items, one thread"
    explanation = (
        "Normal scores, the positives' shifted by 1, scaled into [0, 1] so that no library transforms them. "
        "Each library gets the types it is fastest with (int8 labels); torchmetrics' checks of its arguments are off. "
        "np.sort is what any method that sorts all scores adds to; the pass reads scores and labels once. PRROC and "
        "precrec, R's best known packages for this curve, are in neither PyPI nor Debian and are not run; what of R is "
        "there is in the suite areas."
    )

    def setup(self, prevalence: float) -> None:
        """Draw one ranking."""
        super().setup(prevalence)
        if installed("torch"):
            import torch

            self.tensors = torch.from_numpy(self.score), torch.from_numpy(self.label)

    @contender("aucpr_dask", "ap.estimate(score, label)", "aucpr-dask")
    def time_ours(self, prevalence: float) -> Any:
        """Make the default call: block ties, scores and labels checked."""
        import aucpr_dask as ap

        return ap.estimate(self.score, self.label)

    @contender("scikit-learn", "average_precision_score(label, score)", "scikit-learn", tolerance=FLOAT64)
    def time_scikit_learn(self, prevalence: float) -> Any:
        """Call it as its documentation does."""
        from sklearn.metrics import average_precision_score

        return average_precision_score(self.label, self.score)

    @contender(
        "torchmetrics",
        "binary_average_precision(score, label, thresholds=None, validate_args=False)",
        "torchmetrics",
        "torch",
        tolerance=FLOAT32,
    )
    def time_torchmetrics(self, prevalence: float) -> Any:
        """Use the exact mode, on tensors that are ready."""
        from torchmetrics.functional.classification import binary_average_precision

        return binary_average_precision(*self.tensors, thresholds=None, validate_args=False)

    @contender("torcheval", "binary_auprc(score, label)", "torcheval", "torch", tolerance=FLOAT32)
    def time_torcheval(self, prevalence: float) -> Any:
        """Use its functional form, on tensors that are ready."""
        from torcheval.metrics.functional import binary_auprc

        return binary_auprc(*self.tensors)

    @floor("one pass", "score.max(), label.max()", "numpy")
    def time_pass(self, prevalence: float) -> Any:
        """Read scores and labels once."""
        return self.score.max(), self.label.max()

    @floor("np.sort", "np.sort(score)", "numpy")
    def time_sort(self, prevalence: float) -> Any:
        """Sort alone, without an estimate."""
        return np.sort(self.score)
