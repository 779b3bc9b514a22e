"""The long rankings of several suites."""

from __future__ import annotations

import numpy as np


def draw_ranking(n_items: int, prevalence: float) -> tuple[np.ndarray, np.ndarray]:
    """Return normal scores, the positives' shifted by 1, scaled into [0, 1] as float32; and labels as int8."""
    random = np.random.default_rng(20)
    label = random.random(n_items) < prevalence
    score = random.standard_normal(n_items) + label
    return ((score - score.min()) / np.ptp(score)).astype(np.float32), label.astype(np.int8)
