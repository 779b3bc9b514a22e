"""Bootstrap replicates of average precision."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import aucpr_dask as ap
from benchmarks.harness.contenders import Suite, contender, floor, installed
from benchmarks.suites.rankings import draw_models

RESAMPLES = 1000
THREADS = 2
MODELS_AT_ONCE = {10_000: 400, 100_000: 100, 500: 4}
LOOPED = 10  # resamples of a loop, whose time is proportional to them
LOOP = {"share": LOOPED / RESAMPLES}


class Bootstrap(Suite):
    """A thousand stratified resamples, shared by all models."""

    name = "bootstrap"
    title = "1000 stratified bootstrap replicates of average precision, 1 % positive, per model, two threads"
    explanation = (
        "Ours evaluates many models at once on two threads, drawing included. The loops evaluate ten resamples of one "
        "model in the one thread they use, times a hundred. 'Weights' gives scikit-learn the counts of a resample as "
        "sample weights instead of copying the items. torchmetrics and confidenceinterval do not stratify. The floor "
        "draws each resample once for all models, on two threads, and evaluates nothing."
    )
    params = (10_000, 100_000)
    param_names = ("items",)
    unit = "model"

    def shrink(self) -> None:
        """Take four models of 500 items."""
        self.params = (500,)

    def describe(self, n_items: int) -> str:
        """Return the sizes."""
        return f"{n_items:,} items, {MODELS_AT_ONCE[n_items]} models at once"

    def setup(self, n_items: int) -> None:
        """Draw the models, in two blocks."""
        self.n_models = MODELS_AT_ONCE[n_items]
        scores = draw_models(self.n_models, n_items, seed=24)
        self.score, self.label = scores["score"].values[0], scores["label"].values
        self.scores = scores.assign(score=scores["score"].chunk(model=-(-self.n_models // 2)))
        self.strata = np.flatnonzero(self.label == 1), np.flatnonzero(self.label == 0)
        self.threads = ThreadPoolExecutor(THREADS)
        if installed("torchmetrics"):
            self._prepare_torchmetrics()

    def _prepare_torchmetrics(self) -> None:
        import torch
        from torchmetrics.classification import BinaryAveragePrecision
        from torchmetrics.wrappers import BootStrapper

        self.tensors = torch.from_numpy(self.score), torch.from_numpy(self.label)
        self.bootstrapper = BootStrapper(
            BinaryAveragePrecision(thresholds=None, validate_args=False),
            num_bootstraps=LOOPED,
            quantile=torch.tensor([0.025, 0.975]),
            sampling_strategy="multinomial",
        )

    def teardown(self, n_items: int) -> None:
        """Stop the threads."""
        self.threads.shutdown()

    def units(self) -> int:
        """Count the models of a call."""
        return self.n_models

    @contender(
        "aucpr_dask",
        'ap.evaluate(scores, intervals="bootstrap").compute(num_workers=2)',
        "aucpr-dask",
        numbers=lambda result: result["interval"].values,
    )
    def time_ours(self, n_items: int) -> Any:
        result = ap.evaluate(self.scores, intervals="bootstrap", n_resamples=RESAMPLES)
        return result.compute(scheduler="threads", num_workers=THREADS)

    def _drawn(self) -> Iterator[np.ndarray]:
        random = np.random.default_rng(25)
        for _ in range(LOOPED):
            yield np.concatenate([random.choice(stratum, stratum.size) for stratum in self.strata])

    @contender(
        "scikit-learn, loop",
        "average_precision_score(label[drawn], score[drawn]) for each resample",
        "scikit-learn",
        **LOOP,
    )
    def time_loop(self, n_items: int) -> Any:
        from sklearn.metrics import average_precision_score

        return [average_precision_score(self.label[drawn], self.score[drawn]) for drawn in self._drawn()]

    @contender(
        "scikit-learn, weights",
        "average_precision_score(label, score, sample_weight=counts) for each resample",
        "scikit-learn",
        **LOOP,
    )
    def time_weights(self, n_items: int) -> Any:
        from sklearn.metrics import average_precision_score

        counts = (np.bincount(drawn, minlength=n_items) for drawn in self._drawn())
        return [average_precision_score(self.label, self.score, sample_weight=count) for count in counts]

    @contender(
        "scipy.stats.bootstrap",
        "bootstrap((positives, negatives), statistic, method='percentile'), statistic by scikit-learn",
        "scipy",
        "scikit-learn",
        **LOOP,
    )
    def time_scipy(self, n_items: int) -> Any:
        from scipy.stats import bootstrap
        from sklearn.metrics import average_precision_score

        def statistic(positives: np.ndarray, negatives: np.ndarray) -> float:
            label = np.repeat([1, 0], [positives.size, negatives.size])
            return float(average_precision_score(label, np.concatenate([positives, negatives])))

        classes = tuple(self.score[stratum] for stratum in self.strata)
        options: dict[str, Any] = {"vectorized": False, "method": "percentile", "batch": 1}
        return bootstrap(classes, statistic, n_resamples=LOOPED, rng=np.random.default_rng(25), **options)

    @contender(
        "torchmetrics",
        'BootStrapper(BinaryAveragePrecision(thresholds=None), sampling_strategy="multinomial").update(...)',
        "torchmetrics",
        "torch",
        **LOOP,
    )
    def time_torchmetrics(self, n_items: int) -> Any:
        self.bootstrapper.reset()
        self.bootstrapper.update(*self.tensors)
        return self.bootstrapper.compute()

    @contender(
        "confidenceinterval",
        "bootstrap_ci(label, score, average_precision_score, method='bootstrap_percentile')",
        "confidenceinterval",
        "scikit-learn",
        **LOOP,
    )
    def time_confidenceinterval(self, n_items: int) -> Any:
        from confidenceinterval.bootstrap import bootstrap_ci
        from sklearn.metrics import average_precision_score

        options: dict[str, Any] = {"method": "bootstrap_percentile", "random_state": np.random.default_rng(25)}
        return bootstrap_ci(self.label, self.score, average_precision_score, n_resamples=LOOPED, **options)

    @floor("NumPy's numbers", "random.integers(n_items, size=n_items, dtype=np.uint32) for each resample", "numpy")
    def time_random_numbers(self, n_items: int) -> None:
        def draw(seed: int) -> None:
            random = np.random.Generator(np.random.SFC64(seed))
            for _ in range(RESAMPLES // THREADS):
                random.integers(n_items, size=n_items, dtype=np.uint32)

        list(self.threads.map(draw, range(THREADS)))
