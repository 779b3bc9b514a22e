"""Models compared with a baseline, on the same queries and on the same items."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

import aucpr_dask as ap
from benchmarks.harness.contenders import Suite, contender, floor
from benchmarks.suites.rankings import draw_models

FLIPS = 10_000
RESAMPLES = 1000
LOOPED = 10  # resamples of the loop, whose time is proportional to them


class _OverQueries(Suite):  # asv would run it without the underscore
    """Every model against the first, on the same queries."""

    unit = "comparison"
    n_models = 61
    n_queries = 43

    def shrink(self) -> None:
        """Take four models on eight queries."""
        self.n_models, self.n_queries = 4, 8

    def units(self) -> int:
        """Count the comparisons of a call."""
        return self.n_models - 1

    def setup(self, method: str) -> None:
        """Draw estimates of models of rising quality on queries of all difficulties."""
        import xarray as xr

        random = np.random.default_rng(33)
        ease, quality = random.standard_normal(self.n_queries), np.linspace(0, 1, self.n_models)[:, None]
        noise = random.standard_normal((self.n_models, self.n_queries))
        self.estimate = 1 / (1 + np.exp(-(ease + quality + 0.5 * noise)))
        names = {"model": [f"m{i}" for i in range(self.n_models)], "query": [f"q{i}" for i in range(self.n_queries)]}
        self.result = xr.Dataset({"estimate": (("model", "query"), self.estimate)}, coords=names)
        self.differences = self.estimate[1:] - self.estimate[0]
        # statsmodels collects garbage in every call; the objects of other libraries must not slow it down.
        gc.freeze()

    def teardown(self, method: str) -> None:
        """Let all objects be collected again."""
        gc.unfreeze()

    @floor("one pass", "estimate.max()", "numpy")
    def time_pass(self, method: str) -> Any:
        return self.estimate.max()


class Tests(_OverQueries):
    """Tests with exact p-values."""

    name = "comparing"
    title = "Adjusted p-values of {n_models} models against one of them, over {n_queries} queries"
    explanation = (
        "Student's and Wilcoxon's paired tests, adjusted by Holm's procedure. Ours also gives labelled differences, "
        "and with Student's test standard errors and intervals."
    )
    params = ("t", "wilcoxon")
    param_names = ("method",)

    @contender(
        "aucpr_dask",
        'ap.compare(result, baseline, method=method, adjust="holm")',
        "aucpr-dask",
        numbers=lambda comparison: comparison["p_adjusted"].values[1:, 0],
    )
    def time_ours(self, method: str) -> Any:
        return ap.compare(self.result, "m0", method=method, adjust="holm")

    @contender(
        "SciPy and statsmodels",
        'multipletests(ttest_1samp(differences, 0, axis=1).pvalue, method="holm"), or of wilcoxon',
        "scipy",
        "statsmodels",
        tolerance=1e-9,
    )
    def time_peers(self, method: str) -> Any:
        from scipy.stats import ttest_1samp, wilcoxon
        from statsmodels.stats.multitest import multipletests

        if method == "t":
            p_values = ttest_1samp(self.differences, 0, axis=1).pvalue
        else:
            p_values = wilcoxon(self.differences, axis=1).pvalue
        return multipletests(p_values, method="holm")[1]


class SignFlips(_OverQueries):
    """The randomisation test, whose p-values are estimates."""

    name = "comparing-flips"
    title = "Randomisation tests of {n_models} models against one of them, over {n_queries} queries"
    explanation = (
        f"{FLIPS:,} flips of signs. Ours flips all models' differences together, and adjusts by Romano and Wolf's "
        "procedure, which requires that; SciPy tests one model after another, and statsmodels adjusts by Holm's. The "
        "last column compares p-values before adjustment, which vary by chance."
    )
    params = ("sign flips",)

    @contender(
        "aucpr_dask",
        f"ap.compare(result, baseline, n_resamples={FLIPS})",
        "aucpr-dask",
        numbers=lambda comparison: comparison["p_value"].values[1:, 0],
    )
    def time_ours(self, method: str) -> Any:
        return ap.compare(self.result, "m0", n_resamples=FLIPS)

    @contender(
        "SciPy and statsmodels",
        f'permutation_test((difference,), np.mean, permutation_type="samples", n_resamples={FLIPS}, vectorized=True) '
        'for each; multipletests(p_values, method="holm")',
        "scipy",
        "statsmodels",
        approximates=True,
    )
    def time_peers(self, method: str) -> Any:
        from scipy.stats import permutation_test
        from statsmodels.stats.multitest import multipletests

        options: dict[str, Any] = {"permutation_type": "samples", "n_resamples": FLIPS, "vectorized": True}
        options["rng"] = np.random.default_rng(34)
        p_values = [permutation_test((one,), np.mean, **options).pvalue for one in self.differences]
        multipletests(p_values, method="holm")
        return p_values

    @floor("drawing the signs", "random.bytes(flips * n_queries / 8)", "numpy")
    def time_drawing(self, method: str) -> Any:
        return np.random.Generator(np.random.SFC64(34)).bytes(FLIPS * self.n_queries // 8)


class OverItems(Suite):
    """Differences of average precision on the same resamples of items."""

    name = "comparing-items"
    title = "Differences of average precision of {n_models} models from one of them: {n_items:,} items, 1 % positive"
    explanation = (
        f"{RESAMPLES} stratified resamples, the same for all models. The loop draws {LOOPED} for one comparison in one "
        "thread, times a hundred, and evaluates both models on copies of the items."
    )
    params = ("1 % positive",)
    unit = "comparison"
    n_models = 21
    n_items = 10_000

    def shrink(self) -> None:
        """Take three models of 500 items."""
        self.n_models, self.n_items = 3, 500

    def units(self) -> int:
        """Count the comparisons of a call."""
        return self.n_models - 1

    def setup(self, case: str) -> None:
        """Draw the models."""
        self.scores = draw_models(self.n_models, self.n_items, seed=35, quality=(1, 2))
        self.score, self.label = self.scores["score"].values, self.scores["label"].values
        self.strata = np.flatnonzero(self.label == 1), np.flatnonzero(self.label == 0)

    @contender(
        "aucpr_dask",
        f"ap.compare(scores, baseline, n_resamples={RESAMPLES})",
        "aucpr-dask",
        numbers=lambda comparison: comparison["difference"].values,
    )
    def time_ours(self, case: str) -> Any:
        return ap.compare(self.scores, "m0", n_resamples=RESAMPLES)

    @contender(
        "scipy.stats.bootstrap",
        "bootstrap((positives, negatives), difference, method='percentile'), statistic by scikit-learn",
        "scipy",
        "scikit-learn",
        share=LOOPED / RESAMPLES,
    )
    def time_scipy(self, case: str) -> Any:
        from scipy.stats import bootstrap
        from sklearn.metrics import average_precision_score

        first, second = self.score[1], self.score[0]

        def difference(positives: np.ndarray, negatives: np.ndarray) -> float:
            drawn = np.concatenate([positives, negatives])
            label = self.label[drawn]
            return float(average_precision_score(label, first[drawn]) - average_precision_score(label, second[drawn]))

        options: dict[str, Any] = {"vectorized": False, "method": "percentile", "batch": 1}
        return bootstrap(self.strata, difference, n_resamples=LOOPED, rng=np.random.default_rng(36), **options)

    @floor("drawing", "random.integers(n_items, size=n_items, dtype=np.uint32) for each resample", "numpy")
    def time_drawing(self, case: str) -> None:
        random = np.random.Generator(np.random.SFC64(36))
        for _ in range(RESAMPLES):
            random.integers(self.n_items, size=self.n_items, dtype=np.uint32)
