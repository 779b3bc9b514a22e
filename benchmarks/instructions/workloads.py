"""The workloads: long and short rankings, replicates and whole calls; small, seeded, in one thread.

They use the public functions only, so that they also run at older commits. This file imports nothing of `benchmarks`:
the counted program loads it next to the package of another commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

N_ITEMS = 100_000
N_MODELS = 8
FEW = 10_000  # items of workloads that take many instructions per item
N_RESAMPLES = 128
TEN = (
    "average_precision",
    "lower_trapezoid",
    "upper_trapezoid",
    "interpolated_max",
    "interpolated_mean",
    "interpolated_median",
    "interpolated_convex",
    "continuous",
    "discrete",
    "binormal",
)

Call = Callable[[], Any]


@dataclass(frozen=True)
class Workload:
    """One call that is counted."""

    name: str
    unit: str
    units: int  # of one call
    prepare: Callable[[], Call]  # draws the inputs and returns the call


def ranking(prevalence: float, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Return normal scores, the positives' shifted by 1, and labels."""
    random = np.random.default_rng(7)
    label = (random.random(N_ITEMS) < prevalence).astype(np.int8)
    return (random.standard_normal(N_ITEMS) + label).astype(dtype), label


def topics() -> tuple[np.ndarray, np.ndarray]:
    """Return 100 short rankings of 1000 items, 10 to 60 of them positive, with some ties."""
    random = np.random.default_rng(9)
    relevant = np.arange(1000) < random.integers(10, 61, 100)[:, None]
    label = random.permuted(relevant, axis=1).astype(np.int8)
    return np.round(random.standard_normal(label.shape) + label, 3).astype(np.float32), label


def models(n_models: int, n_items: int) -> Any:
    """Return a data set of models on the same labels, 1 % positive."""
    import xarray as xr

    random = np.random.default_rng(8)
    label = np.zeros(n_items, np.int8)
    label[::100] = 1
    quality = np.linspace(0.5, 2, n_models)[:, None]
    score = (random.standard_normal((n_models, n_items)) + quality * label).astype(np.float32)
    return xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)})


def estimate(draw: Callable[[], tuple[np.ndarray, np.ndarray]], *arguments: Any, **options: Any) -> Call:
    """Draw scores and labels, and return the call that estimates."""
    import aucpr_dask as ap

    score, label = draw()
    return lambda: ap.estimate(score, label, *arguments, **options)


def weighted(prevalence: float, dtype: str) -> Call:
    """Draw one long ranking with sample weights, and return the call that estimates."""
    weight = np.random.default_rng(10).random(N_ITEMS) + 0.5
    return estimate(partial(ranking, prevalence, dtype), weight=weight)


def chunked(prevalence: float) -> Call:
    """Draw one ranking in four chunks, and return the call that estimates."""
    import dask.array as da

    import aucpr_dask as ap

    chunks = [da.from_array(array, chunks=N_ITEMS // 4) for array in ranking(prevalence, "float32")]
    return lambda: ap.estimate(*chunks).compute(scheduler="synchronous")


def evaluate(n_models: int, n_items: int, *arguments: Any, **options: Any) -> Call:
    """Draw a data set of models, and return the call that evaluates it."""
    import aucpr_dask as ap

    scores = models(n_models, n_items)
    return lambda: ap.evaluate(scores, *arguments, **options)


def covariance() -> Call:
    """Draw eight models, and return the call for their covariance matrix."""
    import aucpr_dask as ap

    scores = models(N_MODELS, FEW)
    return lambda: ap.covariance(scores)


def _workloads() -> Iterator[Workload]:
    for dtype in ("float32", "float64"):
        for prevalence in (0.001, 0.01, 0.1, 0.5):
            call = partial(estimate, partial(ranking, prevalence, dtype))
            yield Workload(f"ranking, {100 * prevalence:g} %, {dtype}", "item", N_ITEMS, call)
    in_order = {"ties": "trec_eval", "tie_order": np.arange(1000, dtype=np.int32)}
    for name, options in (("", {}), (", trec_eval ties", in_order), (", expectation", {"ties": "expectation"})):
        yield Workload(f"short rankings{name}", "item", N_ITEMS, partial(estimate, topics, **options))
    for dtype in ("float32", "float64"):
        for prevalence in (0.01, 0.5):
            call = partial(weighted, prevalence, dtype)
            yield Workload(f"weighted, {100 * prevalence:g} %, {dtype}", "item", N_ITEMS, call)
    for prevalence in (0.01, 0.5):
        call = partial(estimate, partial(ranking, prevalence, "float32"), list(TEN))
        yield Workload(f"ten estimators, {100 * prevalence:g} %", "item", N_ITEMS, call)
        yield Workload(f"chunks, {100 * prevalence:g} %", "item", N_ITEMS, partial(chunked, prevalence))
    call = partial(evaluate, N_MODELS, FEW, intervals="influence_logit")
    yield Workload("influence", "item", N_MODELS * FEW, call)
    yield Workload("covariance", "item", N_MODELS * FEW, covariance)
    drawn, bootstrap = FEW * N_RESAMPLES, {"intervals": "bootstrap", "n_resamples": N_RESAMPLES, "seed": 3}
    yield Workload("bootstrap, 1 model", "item drawn", drawn, partial(evaluate, 1, FEW, **bootstrap))
    call = partial(evaluate, 1, FEW, "lower_trapezoid", **bootstrap)
    yield Workload("bootstrap, lower_trapezoid", "item drawn", drawn, call)
    call = partial(evaluate, N_MODELS, FEW, **bootstrap)
    yield Workload(f"bootstrap, {N_MODELS} models", "item drawn", N_MODELS * drawn, call)
    call = partial(evaluate, 1, FEW, **(bootstrap | {"intervals": "bayesian"}))
    yield Workload("bayesian, 1 model", "item drawn", drawn, call)
    yield Workload("evaluate, 4 models of 1000", "call", 1, partial(evaluate, 4, 1000, intervals="logit"))


WORKLOADS = {workload.name: workload for workload in _workloads()}
IMPORT = "import aucpr_dask"  # counted as well, but only once: it cannot be repeated
NAMES = [IMPORT, *WORKLOADS]
