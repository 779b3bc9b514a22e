"""The workloads: one per hot kernel, and a few whole calls; small, seeded, in one thread.

They call what other code may call, too, so that they run at older commits. This file imports nothing of `benchmarks`:
the counted program reads it beside another commit's package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

N_ITEMS = 100_000
N_MODELS = 8
FEW = 10_000  # items where every one counts many times
N_RESAMPLES = 128  # two whole sets of lanes

Call = Callable[[], Any]


@dataclass(frozen=True)
class Workload:
    """One call that is counted."""

    name: str
    unit: str  # what `units` counts
    units: int
    bytes_per_unit: float  # that have to come from memory at least: every input once
    prepare: Callable[[], Call]  # draws the inputs, and returns the call
    lookups: float = 0  # per unit, at random places
    table: float = 0  # bytes of what is looked up in
    sorts: float = 0  # numbers per unit that NumPy sorts
    sorted_as: str = "float32"
    working_set: int | None = None  # bytes that are read again and again, if they are not all

    @property
    def all_bytes(self) -> float:
        """The bytes that the call goes through."""
        return self.units * self.bytes_per_unit if self.working_set is None else self.working_set


def ranking(n_items: int, prevalence: float, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Return normal scores, the positives' shifted by 1, and labels."""
    random = np.random.default_rng(7)
    label = (random.random(n_items) < prevalence).astype(np.int8)
    return (random.standard_normal(n_items) + label).astype(dtype), label


def models(n_models: int, n_items: int) -> Any:
    """Return a data set of models of one set of labels, 1 % positive."""
    import xarray as xr

    random = np.random.default_rng(8)
    label = np.zeros(n_items, np.int8)
    label[::100] = 1
    quality = np.linspace(0.5, 2, n_models)[:, None]
    score = (random.standard_normal((n_models, n_items)) + quality * label).astype(np.float32)
    return xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)})


def topics() -> tuple[np.ndarray, np.ndarray]:
    """Return 100 short rankings of 1000 items, 10 to 60 of them positive, with some ties."""
    random = np.random.default_rng(9)
    relevant = np.arange(1000) < random.integers(10, 61, 100)[:, None]
    label = random.permuted(relevant, axis=1).astype(np.int8)
    return np.round(random.standard_normal(label.shape) + label, 3).astype(np.float32), label


def one_ranking(prevalence: float, dtype: str) -> Callable[[], Call]:
    """Prepare the kernel alone, on one long ranking."""

    def prepare() -> Call:
        from aucpr_dask import kernels

        score, label = ranking(N_ITEMS, prevalence, dtype)
        return lambda: kernels.evaluate_rows(
            score[None],
            label[None],
            np.zeros(1, np.int64),
            np.array([np.nan]),
            kernels.Options(),
            np.zeros(1, np.int64),
        )

    return prepare


def estimate(draw: Callable[[], tuple[np.ndarray, np.ndarray]], *arguments: Any, **options: Any) -> Callable[[], Call]:
    """Prepare the public call on scores and labels."""

    def prepare() -> Call:
        import aucpr_dask as ap

        score, label = draw()
        return lambda: ap.estimate(score, label, *arguments, **options)

    return prepare


def weighted(prevalence: float, dtype: str) -> Callable[[], Call]:
    """Prepare one long ranking with sample weights."""

    def prepare() -> Call:
        weight = np.random.default_rng(10).random(N_ITEMS) + 0.5
        return estimate(lambda: ranking(N_ITEMS, prevalence, dtype), weight=weight)()

    return prepare


def evaluate(n_models: int, n_items: int, *arguments: Any, **options: Any) -> Callable[[], Call]:
    """Prepare the public call on a data set of models."""

    def prepare() -> Call:
        import aucpr_dask as ap

        scores = models(n_models, n_items)
        return lambda: ap.evaluate(scores, *arguments, **options)

    return prepare


def chunked(prevalence: float) -> Callable[[], Call]:
    """Prepare one ranking in four chunks."""

    def prepare() -> Call:
        import dask.array as da

        import aucpr_dask as ap

        chunks = [da.from_array(array, chunks=N_ITEMS // 4) for array in ranking(N_ITEMS, prevalence, "float32")]
        return lambda: ap.estimate(*chunks).compute(scheduler="synchronous")

    return prepare


def covariance() -> Call:
    """Prepare the covariance matrix of eight models."""
    import aucpr_dask as ap

    scores = models(N_MODELS, FEW)
    return lambda: ap.covariance(scores)


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
IN_ORDER = {"ties": "trec_eval", "tie_order": np.arange(1000, dtype=np.int32)}
DRAWN = {"n_resamples": N_RESAMPLES, "seed": 3}
WEIGHTS = 2 * 8  # bytes of an item's weights in the two classes


def gaps(prevalence: float, size: int, n_items: int = N_ITEMS) -> dict[str, float]:
    """Return what negatives are looked up in where only positives are sorted: buckets, scores, tallies."""
    positives = prevalence * n_items
    return {"lookups": 3, "table": positives * (16 * 4 + size + 2 * 4), "sorts": prevalence}


def _rankings() -> Iterator[Workload]:
    for dtype in ("float32", "float64"):
        size = np.dtype(dtype).itemsize
        for prevalence in (0.001, 0.01, 0.1, 0.5):
            limits = gaps(prevalence, size) if prevalence < 1 / 32 else {"sorts": 1}
            name = f"ranking, {100 * prevalence:g} %, {dtype}"
            call = one_ranking(prevalence, dtype)
            yield Workload(name, "item", N_ITEMS, size + 1, call, **limits, sorted_as=dtype)
    call = estimate(lambda: ranking(N_ITEMS, 0.01, "float32"))
    yield Workload("estimate, 1 %", "item", N_ITEMS, 5, call, **gaps(0.01, 4))
    for name, options in (("", {}), (", trec_eval ties", IN_ORDER), (", expectation", {"ties": "expectation"})):
        limits = gaps(0.035, 8, 1000)
        yield Workload(f"short rankings{name}", "item", N_ITEMS, 5, estimate(topics, **options), **limits)


def _weighted() -> Iterator[Workload]:
    for dtype in ("float32", "float64"):
        size = np.dtype(dtype).itemsize
        for prevalence in (0.01, 0.5):
            limits: dict[str, Any] = gaps(prevalence, 16)
            if prevalence > 1 / 3:
                limits = {"lookups": 2, "table": N_ITEMS * WEIGHTS, "sorts": 1}
            name = f"weighted, {100 * prevalence:g} %, {dtype}"
            limits["sorted_as"] = "uint64" if dtype == "float32" else dtype
            yield Workload(name, "item", N_ITEMS, size + 1 + WEIGHTS, weighted(prevalence, dtype), **limits)


def _others() -> Iterator[Workload]:
    for prevalence in (0.01, 0.5):
        call = estimate(partial(ranking, N_ITEMS, prevalence, "float32"), list(TEN))
        yield Workload(
            f"ten estimators, {100 * prevalence:g} %", "item", N_ITEMS, 5, call, sorts=1, sorted_as="float64"
        )
    yield Workload("chunks, 1 %", "item", N_ITEMS, 5, chunked(0.01), **gaps(0.01, 4))
    yield Workload("chunks, 50 %", "item", N_ITEMS, 5, chunked(0.5), sorts=1)
    call = evaluate(N_MODELS, FEW, intervals="influence_logit")
    yield Workload("influence", "item", N_MODELS * FEW, 5, call, **gaps(0.01, 4, FEW))
    yield Workload("covariance", "item", N_MODELS * FEW, 5, covariance, sorts=1, sorted_as="float64")


def _resampling() -> Iterator[Workload]:
    """Yield bootstraps: a number is looked up to be drawn, and a row of 64 lanes at a time to be evaluated."""
    drawn, lanes = FEW * N_RESAMPLES, FEW * 64
    many = evaluate(N_MODELS, FEW, intervals="bootstrap", **DRAWN)
    calls = {
        "bootstrap, 1 model": evaluate(1, FEW, intervals="bootstrap", **DRAWN),
        "bootstrap, lower_trapezoid": evaluate(1, FEW, "lower_trapezoid", intervals="bootstrap", **DRAWN),
    }
    for name, call in calls.items():
        yield Workload(name, "item drawn", drawn, 1, call, lookups=1, table=FEW, working_set=lanes)
    name, lookups = f"bootstrap, {N_MODELS} models", 1 / N_MODELS
    yield Workload(name, "item drawn", N_MODELS * drawn, 1, many, lookups=lookups, table=FEW, working_set=lanes)
    call = evaluate(1, FEW, intervals="bayesian", **DRAWN)
    yield Workload("bayesian, 1 model", "item drawn", drawn, 8, call, working_set=8 * lanes)


def _calls() -> Iterator[Workload]:
    yield Workload("evaluate, 4 models of 1000", "call", 1, 4 * 5000, evaluate(4, 1000, intervals="logit"))


WORKLOADS = {
    workload.name: workload for workload in (*_rankings(), *_weighted(), *_others(), *_resampling(), *_calls())
}
IMPORT = "import aucpr_dask"  # counted, too, but once: it is no call that can be repeated
NAMES = [IMPORT, *WORKLOADS]
