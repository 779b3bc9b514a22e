"""Rankings and floors that several suites share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.suite import Suite, floor


def draw_ranking(n_items: int, prevalence: float) -> tuple[np.ndarray, np.ndarray]:
    """Return normal scores, the positives' shifted by 1, scaled into [0, 1] as float32; and labels as int8."""
    random = np.random.default_rng(20)
    label = random.random(n_items) < prevalence
    score = random.standard_normal(n_items) + label
    return ((score - score.min()) / np.ptp(score)).astype(np.float32), label.astype(np.int8)


def draw_models(n_models: int, n_items: int, seed: int, quality: tuple[float, float] = (0.5, 2.0)) -> Any:
    """Return a data set of models of rising quality on the same labels, 1 % positive (5 % of fewer than 1000 items)."""
    import xarray as xr

    label = np.zeros(n_items, np.int8)
    label[:: 100 if n_items >= 1000 else 20] = 1
    score = np.random.default_rng(seed).standard_normal((n_models, n_items), dtype=np.float32)
    score += np.linspace(*quality, n_models, dtype=np.float32)[:, None] * label
    coords = {"model": [f"m{i}" for i in range(n_models)]}
    return xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)}, coords)


@floor("one pass", "score.max(), label.max()", "numpy")
def one_pass(suite: Any, *case: Any) -> Any:
    """Read scores and labels once."""
    return suite.score.max(), suite.label.max()


@floor("np.sort", "np.sort(score)", "numpy")
def sort(suite: Any, *case: Any) -> Any:
    """Sort the scores along the last axis, without an estimate."""
    return np.sort(suite.score)


class OneRanking(Suite):
    """Base class of suites on one such ranking, from few positives to many."""

    params = (0.001, 0.01, 0.1, 0.5)
    n_items = 1_000_000
    small: Mapping[str, Any] = {"n_items": 5_000}

    def describe(self, prevalence: float) -> str:
        """Return the prevalence in per cent."""
        return f"{100 * prevalence:g} % positive"

    def setup(self, prevalence: float) -> None:
        """Draw one ranking, with labels of either type."""
        self.score, self.label = draw_ranking(self.n_items, prevalence)
        self.is_positive = self.label == 1

    def tensors(self) -> tuple[Any, Any]:
        """Return scores and labels as tensors of torch, without a copy."""
        import torch

        return torch.from_numpy(self.score), torch.from_numpy(self.label)
