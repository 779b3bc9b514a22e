"""Bootstrap replicates of average precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.contenders import Suite, contender

RESAMPLES = 1000
LOOPED = 10  # resamples of the loop: its time is proportional to them


class Bootstrap(Suite):
    """A thousand stratified resamples of every model, all models on the same ones."""

    name = "bootstrap"
    title = "1000 stratified bootstrap replicates of average precision, 1 % positive, per model, two threads"
    explanation = (
        "Ours evaluates many models at once on two threads, drawing included; the loops do ten resamples of one "
        "model (one thread, which is all that they use), times a hundred. 'Weights' gives scikit-learn the counts "
        "of a resample as sample weights instead of copying the items."
    )
    params = ((10_000, 400), (100_000, 100))
    param_names = ("items, models",)
    unit = "model"

    def shrink(self) -> None:
        """Take four models of 500 items."""
        self.params = ((500, 4),)

    def describe(self, param: tuple[int, int]) -> str:
        """Return the sizes."""
        return f"{param[0]:,} items, {param[1]} models at once"

    def setup(self, param: tuple[int, int]) -> None:
        """Draw models of rising quality on one set of labels."""
        import dask.array as da
        import xarray as xr

        n_items, self.n_models = param
        random = np.random.default_rng(24)
        label = np.zeros(n_items, np.int8)
        label[:: 100 if n_items >= 1000 else 20] = 1
        quality = np.linspace(0.5, 2, self.n_models)[:, None]
        score = (random.standard_normal((self.n_models, n_items)) + quality * label).astype(np.float32)
        self.score, self.label = score, label
        halves = da.from_array(score, chunks=(-(-self.n_models // 2), n_items))
        self.scores = xr.Dataset({"score": (("model", "item"), halves), "label": ("item", label)})
        self.strata = np.flatnonzero(label == 1), np.flatnonzero(label == 0)

    def units(self) -> int:
        """Count the models of a call."""
        return self.n_models

    @contender(
        "aucpr_dask",
        'ap.evaluate(scores, intervals="bootstrap").compute(num_workers=2)',
        "aucpr-dask",
        numbers=lambda result: result["interval"].values,
    )
    def time_ours(self, param: tuple[int, int]) -> Any:
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
    def time_loop(self, param: tuple[int, int]) -> Any:
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
    def time_weights(self, param: tuple[int, int]) -> Any:
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
    def time_scipy(self, param: tuple[int, int]) -> Any:
        """Resample the two classes with scipy; the statistic is scikit-learn's."""
        from scipy.stats import bootstrap
        from sklearn.metrics import average_precision_score

        def statistic(positives: np.ndarray, negatives: np.ndarray) -> float:
            label = np.repeat([1, 0], [positives.size, negatives.size])
            return float(average_precision_score(label, np.concatenate([positives, negatives])))

        classes = tuple(self.score[0][stratum] for stratum in self.strata)
        options: dict[str, Any] = {"vectorized": False, "method": "percentile", "batch": 1}
        return bootstrap(classes, statistic, n_resamples=LOOPED, rng=np.random.default_rng(25), **options)
