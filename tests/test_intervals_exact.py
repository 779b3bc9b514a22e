"""Every interval of the registry against its formula, one row at a time, by distributions of SciPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from aucpr_dask.kernels.intervals import Evidence, bounds_of
from aucpr_dask.schema.intervals import INTERVALS

NAN = float("nan")
Bounds = tuple[float, float]


class Reference:
    """The interval of one row of evidence; a method named as the interval returns its bounds."""

    def __init__(self, row: dict[str, Any], level: float) -> None:
        self.row, self.tail = row, (1 - level) / 2
        self.t, self.n, self.error = row["estimate"], row["n_positive"], row["error"]
        self.z = float(stats.norm.isf(self.tail))
        self.student = float(stats.t.isf(self.tail, self.n - 1)) if self.n > 1 else math.inf

    def quantiles(self, values: Any, low: float | None = None, high: float | None = None) -> Bounds:
        low, high = self.tail if low is None else low, 1 - self.tail if high is None else high
        return float(np.quantile(values, low)), float(np.quantile(values, high))

    def on_logit_scale(self, half: float) -> Bounds:
        if self.t in (0, 1) or math.isinf(half):
            return 0.0, 1.0
        centre = math.log(self.t / (1 - self.t))
        return 1 / (1 + math.exp(half - centre)), 1 / (1 + math.exp(-half - centre))

    def binomial(self) -> Bounds:
        half = self.z * math.sqrt(self.t * (1 - self.t) / self.n)
        return self.t - half, self.t + half

    def logit(self) -> Bounds:
        spread = math.sqrt(self.n * self.t * (1 - self.t))
        return self.on_logit_scale(self.z / spread if spread else math.inf)

    def wilson(self) -> Bounds:
        """Solve (t - p)^2 = z^2 p (1 - p) / n for p."""
        a, b, c = 1 + self.z**2 / self.n, -2 * self.t - self.z**2 / self.n, self.t**2
        root = math.sqrt(max(b * b - 4 * a * c, 0.0))
        return (-b - root) / (2 * a), (-b + root) / (2 * a)

    def clopper_pearson(self) -> Bounds:
        x, rest = self.n * self.t, self.n * (1 - self.t)
        lower = float(stats.beta.ppf(self.tail, x, rest + 1)) if x > 0 else 0.0
        return lower, float(stats.beta.isf(self.tail, x + 1, rest)) if rest > 0 else 1.0

    def bootstrap(self) -> Bounds:
        return self.quantiles(self.row["replicates"])

    def bca(self) -> Bounds:
        drawn, c = self.row["replicates"], self.row["acceleration"]
        share = ((drawn < self.t).sum() + (drawn <= self.t).sum()) / (2 * drawn.size)
        if not 0 < share < 1:
            return self.bootstrap()
        b = float(stats.norm.ppf(share))
        shares = [stats.norm.cdf(b + (b + z) / (1 - c * (b + z))) for z in (-self.z, self.z)]
        return self.quantiles(drawn, *map(float, shares))

    def bootstrap_t(self) -> Bounds:
        errors = self.row["replicate_errors"]
        low, high = self.quantiles((self.row["replicates"] - self.t) / errors)
        return self.t - self.error * high, self.t - self.error * low

    def influence_logit_t(self) -> Bounds:
        spread = self.t * (1 - self.t)
        return self.on_logit_scale(self.student * self.error / spread if spread else math.inf)

    def influence_log_t(self) -> Bounds:
        if self.t == 1 or math.isinf(self.student):
            return NAN, NAN
        factor = math.exp(self.student * self.error / (1 - self.t))
        return 1 - (1 - self.t) * factor, 1 - (1 - self.t) / factor

    def influence_beta(self) -> Bounds:
        n, loss = self.row["n_effective"], self.row["unseen_loss"]
        if n <= 1:
            return 0.0, 1.0
        t = min(max((self.t + self.row["left_out"]) / 2, 0.0), 1.0)
        widened = 1.0
        if math.isfinite(clusters := self.row["n_clusters"]):
            of_clusters = float(stats.t.isf(self.tail, clusters - 1)) / self.z
            widened = max(self.row["effect"] * of_clusters**2, 1.0)
        one = t * (1 - t)
        variance = ((n - 1) * self.error**2 + 10 * one / n) / (n + 9) * widened
        skew = 0.0
        if one > 0:
            skew = self.row["cubes"] / variance**1.5 - (1 - 2 * t) * math.sqrt(variance) / one
        z = max(self.z, 1.0)
        stretched = 1 + (2 * z**2 + 1) / (12 * z) * min(max(-skew, 0.0), 1.5)
        below = min(max(t - loss / 2, 0.0), 1.0)
        varied = variance * stretched**2 + loss**2 / 2
        m_lower = min(max(one, below * (1 - below)) / varied, 5 * n) if varied > 0 else n
        m_upper = min(one / variance, 5 * n) if variance > 0 else n
        lower = float(stats.beta.ppf(self.tail, m_lower * t + 1 / 3, m_lower * (1 - t) + 2 / 3)) if t > 0 else 0.0
        upper = float(stats.beta.isf(self.tail, m_upper * t + 2 / 3, m_upper * (1 - t) + 1 / 3)) if t < 1 else 1.0
        return min(lower, t, self.t), max(upper, self.t)

    def extrapolated(self) -> Bounds:
        lower, upper = self.influence_beta()
        if self.t > 1.25 * self.row["half_seen"]:
            low, high = self.quantiles(self.row["tails"])
            return 0.7 * low, max(high, upper)
        return lower, upper

    def cross_validation(self) -> Bounds:
        return self.around_folds(self.z)

    def cross_validation_t(self) -> Bounds:
        return self.around_folds(float(stats.t.isf(self.tail, self.row["folds"].size - 1)))

    def around_folds(self, quantile: float) -> Bounds:
        folds = self.row["folds"]
        half = quantile * math.sqrt(((folds - folds.mean()) ** 2).sum() / (folds.size - 1) / folds.size)
        return folds.mean() - half, folds.mean() + half


def evidence(n_rows: int = 60) -> dict[str, np.ndarray]:
    """Return all that intervals are made of, with areas of 0 and 1 and single positives among the rows."""
    random = np.random.default_rng(0)
    estimate = random.uniform(0.02, 0.98, n_rows)
    estimate[:4] = 0, 1, 0.3, 0.9
    n = random.integers(2, 200, n_rows).astype(np.float64)
    n[[2, 5]] = 1
    error = np.sqrt(estimate * (1 - estimate) / n) * random.uniform(0.5, 1.5, n_rows)
    n_clusters = np.where(random.random(n_rows) < 0.5, np.inf, 12.0)
    replicates = np.clip(estimate[:, None] + error[:, None] * random.normal(size=(n_rows, 200)), 0, 1)
    return {
        "estimate": estimate,
        "n_positive": n,
        "n_effective": n * random.uniform(0.5, 1.0, n_rows),
        "error": error,
        "cubes": error**3 * random.uniform(-2, 2, n_rows),
        "left_out": np.clip(estimate - random.uniform(0, 0.1, n_rows), 0, 1),
        "unseen_loss": random.uniform(0, 0.1, n_rows),
        "effect": np.where(np.isinf(n_clusters), 1.0, random.uniform(0.5, 3, n_rows)),
        "n_clusters": n_clusters,
        "acceleration": random.uniform(-0.1, 0.1, n_rows),
        "replicates": replicates,
        "replicate_errors": error[:, None] * random.uniform(0.5, 1.5, replicates.shape) + 0.01,
        "half_seen": estimate * random.uniform(0.6, 1.0, n_rows),
        "tails": replicates * 0.9,
        "folds": np.clip(estimate[:, None] + 0.1 * random.normal(size=(n_rows, 7)), 0, 1),
    }


@pytest.mark.smoke
@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
@pytest.mark.parametrize("name", INTERVALS)
def test_every_interval_is_its_formula(name: str, level: float) -> None:
    given = evidence()
    found = bounds_of(Evidence(**given), name, level)
    rows = [{fact: values[row] for fact, values in given.items()} for row in range(len(found))]
    expected = [getattr(Reference(row, level), name)() for row in rows]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
