"""Bootstrap replicates of average precision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import aucpr_dask as ap
from benchmarks.measuring import use_threads
from benchmarks.suite import Suite, contender, floor, installed
from benchmarks.suites.rankings import draw_models

RESAMPLES = 1000
THREADS = 2
LOOPED = 10  # resamples of a loop, whose time is proportional to them
LOOP = {"share": LOOPED / RESAMPLES}
ITEMS_AND_MODELS = ((1_000, 25), (10_000, 400), (100_000, 1), (100_000, 4), (100_000, 16), (100_000, 100))
SIZES = {f"{items:,} items, {models} model{'s' * (models > 1)}": (items, models) for items, models in ITEMS_AND_MODELS}
SMALL = "500 items, 4 models"


class Bootstrap(Suite):
    """A thousand stratified resamples, shared by all models."""

    name = "bootstrap"
    title = "1000 stratified bootstrap replicates of average precision, 1 % positive, per model, two threads"
    explanation = (
        "Ours evaluates all models in one call on two threads, drawing included: one model has all draws for itself. "
        "The loops evaluate ten resamples of one model in the one thread they use, times a hundred; joblib's a hundred "
        "in two processes. 'Weights' gives scikit-learn counts as sample weights. torchmetrics and confidenceinterval "
        "do not stratify. The floor draws for all models on two threads, and evaluates nothing."
    )
    params = tuple(SIZES)
    small: Mapping[str, Any] = {"params": (SMALL,)}
    unit = "model"
    counted = "n_models"

    def setup(self, size: str) -> None:
        """Draw the models."""
        self.n_items, self.n_models = (SIZES | {SMALL: (500, 4)})[size]
        self.scores = draw_models(self.n_models, self.n_items, seed=24)
        self.score, self.label = self.scores["score"].values[0], self.scores["label"].values
        self.strata = np.flatnonzero(self.label == 1), np.flatnonzero(self.label == 0)
        use_threads(THREADS)
        self.threads = ThreadPoolExecutor(THREADS)
        if installed("torchmetrics"):
            import torch
            from torchmetrics.classification import BinaryAveragePrecision
            from torchmetrics.wrappers import BootStrapper

            self.tensors = torch.from_numpy(self.score), torch.from_numpy(self.label)
            one = BinaryAveragePrecision(thresholds=None, validate_args=False)
            how = {"quantile": torch.tensor([0.025, 0.975]), "sampling_strategy": "multinomial"}
            self.bootstrapper = BootStrapper(one, LOOPED, **how)

    def teardown(self, size: str) -> None:
        """Stop the threads."""
        self.threads.shutdown()
        use_threads()

    @contender(
        "aucpr_dask",
        'ap.evaluate(scores, interval="bootstrap")',
        "aucpr-dask",
        numbers=lambda result: result["interval"].values,
    )
    def time_ours(self, size: str) -> Any:
        return ap.evaluate(self.scores, interval="bootstrap", n_resamples=RESAMPLES)

    def _drawn(self, n_resamples: int = LOOPED) -> Iterator[np.ndarray]:
        random = np.random.default_rng(25)
        for _ in range(n_resamples):
            yield np.concatenate([random.choice(stratum, stratum.size) for stratum in self.strata])

    @contender("scikit-learn, loop", "average_precision_score(label[drawn], score[drawn]), ...", "scikit-learn", **LOOP)
    def time_loop(self, size: str) -> Any:
        from sklearn.metrics import average_precision_score

        return [average_precision_score(self.label[drawn], self.score[drawn]) for drawn in self._drawn()]

    @contender("scikit-learn, joblib", "the same by joblib.Parallel(n_jobs=2)", "joblib", "scikit-learn", share=0.1)
    def time_joblib(self, size: str) -> Any:
        from joblib import Parallel, delayed
        from sklearn.metrics import average_precision_score

        call = delayed(average_precision_score)
        return Parallel(THREADS)(call(self.label[drawn], self.score[drawn]) for drawn in self._drawn(RESAMPLES // 10))

    @contender(
        "scikit-learn, weights", "average_precision_score(..., sample_weight=counts), ...", "scikit-learn", **LOOP
    )
    def time_weights(self, size: str) -> Any:
        from sklearn.metrics import average_precision_score

        counts = (np.bincount(drawn, minlength=self.n_items) for drawn in self._drawn())
        return [average_precision_score(self.label, self.score, sample_weight=count) for count in counts]

    @contender(
        "scipy.stats.bootstrap",
        "bootstrap((positives, negatives), statistic, method='percentile'), statistic by scikit-learn",
        "scipy",
        "scikit-learn",
        **LOOP,
    )
    def time_scipy(self, size: str) -> Any:
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
    def time_torchmetrics(self, size: str) -> Any:
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
    def time_confidenceinterval(self, size: str) -> Any:
        from confidenceinterval.bootstrap import bootstrap_ci
        from sklearn.metrics import average_precision_score

        options: dict[str, Any] = {"method": "bootstrap_percentile", "random_state": np.random.default_rng(25)}
        return bootstrap_ci(self.label, self.score, average_precision_score, n_resamples=LOOPED, **options)

    @floor("NumPy's numbers", "random.integers(n_items, size=n_items, dtype=np.uint32) for each resample", "numpy")
    def time_random_numbers(self, size: str) -> None:
        def draw(seed: int) -> None:
            random = np.random.Generator(np.random.SFC64(seed))
            for _ in range(RESAMPLES // THREADS):
                random.integers(self.n_items, size=self.n_items, dtype=np.uint32)

        list(self.threads.map(draw, range(THREADS)))
