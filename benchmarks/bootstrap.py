"""Bootstrap replicates of average precision."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from benchmarks.contenders import Suite, contender, floor, installed

RESAMPLES = 1000
THREADS = 2
MODELS_AT_ONCE = {10_000: 400, 100_000: 100, 500: 4}
LOOPED = 10  # resamples of the loop: its time is proportional to them


class Bootstrap(Suite):
    """A thousand stratified resamples of every model, all models on the same ones."""

    name = "bootstrap"
    title = "1000 stratified bootstrap replicates of average precision, 1 % positive, per model, two threads"
    explanation = (
        "Ours evaluates many models at once on two threads, drawing included; the loops do ten resamples of one "
        "model (one thread, which is all that they use), times a hundred. 'Weights' gives scikit-learn the counts "
        "of a resample as sample weights instead of copying the items. torchmetrics and confidenceinterval do not draw "
        "the classes apart. Floors are drawing alone, on two threads: each of a thousand resamples once for all models."
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
        """Draw models of rising quality on one set of labels."""
        import dask.array as da
        import xarray as xr

        self.n_models = MODELS_AT_ONCE[n_items]
        random = np.random.default_rng(24)
        label = np.zeros(n_items, np.int8)
        label[:: 100 if n_items >= 1000 else 20] = 1
        quality = np.linspace(0.5, 2, self.n_models)[:, None]
        score = (random.standard_normal((self.n_models, n_items)) + quality * label).astype(np.float32)
        self.score, self.label = score, label
        halves = da.from_array(score, chunks=(-(-self.n_models // 2), n_items))
        self.scores = xr.Dataset({"score": (("model", "item"), halves), "label": ("item", label)})
        self.strata = np.flatnonzero(label == 1), np.flatnonzero(label == 0)
        self.threads = ThreadPoolExecutor(THREADS)
        if installed("torchmetrics"):
            self._prepare_torchmetrics()

    def _prepare_torchmetrics(self) -> None:
        import torch
        from torchmetrics.classification import BinaryAveragePrecision
        from torchmetrics.wrappers import BootStrapper

        self.tensors = torch.from_numpy(self.score[0]), torch.from_numpy(self.label)
        self.bootstrapper = BootStrapper(
            BinaryAveragePrecision(thresholds=None, validate_args=False),
            num_bootstraps=LOOPED,
            quantile=torch.tensor([0.025, 0.975]),
            sampling_strategy="multinomial",
        )

    def teardown(self, n_items: int) -> None:
        """End the threads."""
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
        """Estimates, standard errors and percentile intervals of all models; two blocks on two threads."""
        import aucpr_dask as ap

        result = ap.evaluate(self.scores, intervals="bootstrap", n_resamples=RESAMPLES)
        return result.compute(scheduler="threads", num_workers=2)

    @contender(
        "scikit-learn, loop",
        "average_precision_score(label[drawn], score[drawn]) for each resample",
        "scikit-learn",
        share=LOOPED / RESAMPLES,
    )
    def time_loop(self, n_items: int) -> Any:
        """Copy the drawn items of one model and call it."""
        from sklearn.metrics import average_precision_score

        random, score, label = np.random.default_rng(25), self.score[0], self.label
        areas = []
        for _ in range(LOOPED):
            drawn = np.concatenate([random.choice(stratum, stratum.size) for stratum in self.strata])
            areas.append(average_precision_score(label[drawn], score[drawn]))
        return areas

    @contender(
        "scikit-learn, weights",
        "average_precision_score(label, score, sample_weight=counts) for each resample",
        "scikit-learn",
        share=LOOPED / RESAMPLES,
    )
    def time_weights(self, n_items: int) -> Any:
        """Give it how often each item was drawn."""
        from sklearn.metrics import average_precision_score

        random, score, label = np.random.default_rng(25), self.score[0], self.label
        areas = []
        for _ in range(LOOPED):
            drawn = np.concatenate([random.choice(stratum, stratum.size) for stratum in self.strata])
            counts = np.bincount(drawn, minlength=label.size)
            areas.append(average_precision_score(label, score, sample_weight=counts))
        return areas

    @contender(
        "scipy.stats.bootstrap",
        "bootstrap((positives, negatives), statistic, method='percentile'), statistic by scikit-learn",
        "scipy",
        "scikit-learn",
        share=LOOPED / RESAMPLES,
    )
    def time_scipy(self, n_items: int) -> Any:
        """Resample the two classes with scipy; the statistic is scikit-learn's."""
        from scipy.stats import bootstrap
        from sklearn.metrics import average_precision_score

        def statistic(positives: np.ndarray, negatives: np.ndarray) -> float:
            label = np.repeat([1, 0], [positives.size, negatives.size])
            return float(average_precision_score(label, np.concatenate([positives, negatives])))

        classes = tuple(self.score[0][stratum] for stratum in self.strata)
        options: dict[str, Any] = {"vectorized": False, "method": "percentile", "batch": 1}
        return bootstrap(classes, statistic, n_resamples=LOOPED, rng=np.random.default_rng(25), **options)

    @contender(
        "torchmetrics",
        'BootStrapper(BinaryAveragePrecision(thresholds=None), sampling_strategy="multinomial").update(...)',
        "torchmetrics",
        "torch",
        share=LOOPED / RESAMPLES,
    )
    def time_torchmetrics(self, n_items: int) -> Any:
        """Wrap its metric, exact mode, checks off; the wrapper is ready."""
        self.bootstrapper.reset()
        self.bootstrapper.update(*self.tensors)
        return self.bootstrapper.compute()

    @contender(
        "confidenceinterval",
        "bootstrap_ci(label, score, average_precision_score, method='bootstrap_percentile')",
        "confidenceinterval",
        "scikit-learn",
        share=LOOPED / RESAMPLES,
    )
    def time_confidenceinterval(self, n_items: int) -> Any:
        """Hand it scikit-learn's metric, as its documentation does with others."""
        from confidenceinterval.bootstrap import bootstrap_ci
        from sklearn.metrics import average_precision_score

        options: dict[str, Any] = {"method": "bootstrap_percentile", "random_state": np.random.default_rng(25)}
        return bootstrap_ci(self.label, self.score[0], average_precision_score, n_resamples=LOOPED, **options)

    @floor("drawing as we do", "draw_counts(key, first, sizes, strata, counts) for each 64 resamples", "aucpr-dask")
    def time_counts(self, n_items: int) -> None:
        """Draw how often every resample has each item, in whole lanes."""
        from aucpr_dask.kernels.resampling.replicates import LANES, draw_counts

        sizes = np.array([stratum.size for stratum in self.strata])
        key, strata = np.uint64(1), np.arange(sizes.size)

        def draw(first: int) -> None:
            draw_counts(key, first, sizes, strata, np.empty((sizes.sum(), LANES), np.uint8))

        self._on_threads(draw, range(0, RESAMPLES, LANES))

    @floor("NumPy's numbers", "random.integers(n_items, size=n_items, dtype=np.uint32) for each resample", "numpy")
    def time_random_numbers(self, n_items: int) -> None:
        """Draw the places alone, and count nothing."""

        def draw(seed: int) -> None:
            random = np.random.Generator(np.random.SFC64(seed))
            for _ in range(RESAMPLES // THREADS):
                random.integers(self.label.size, size=self.label.size, dtype=np.uint32)

        self._on_threads(draw, range(THREADS))

    def _on_threads(self, function: Callable[[int], None], arguments: range) -> None:
        for _ in self.threads.map(function, arguments):
            pass
