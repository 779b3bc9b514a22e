"""One ranking whose items are in chunks, against the same ranking in one piece."""

from __future__ import annotations

from typing import Any

import numpy as np

import aucpr_dask as ap
from benchmarks.suite import contender
from benchmarks.suites.rankings import OneRanking, one_pass, sort


class ItemsInChunks(OneRanking):
    """Average precision of one ranking in ten chunks, including the graph, in one thread."""

    name = "items-in-chunks"
    title = "Average precision of one ranking of {n_items:,} float32 items in ten chunks, one thread"
    explanation = (
        "The same ranking in memory: in one piece, and as a Dask array in ten chunks, on the synchronous scheduler. "
        "'In chunks' takes two passes: the first collects the positives, the second counts the negatives between them. "
        "'Bounds' counts items in bins of scores, in more of them until upper - lower is at most 1e-3; with 0, both "
        "bounds are the area in chunks."
    )
    params = (0.01, 0.5)
    n_items = 10_000_000

    def setup(self, prevalence: float) -> None:
        """Draw one ranking and split it."""
        import dask.array as da

        super().setup(prevalence)
        self.chunks = [da.from_array(array, chunks=self.n_items // 10) for array in (self.score, self.label)]

    @contender("in one piece", "ap.estimate(score, label)", "aucpr-dask")
    def time_whole(self, prevalence: float) -> Any:
        return ap.estimate(self.score, self.label)

    @contender("in chunks", "ap.estimate(chunked_score, chunked_label).compute()", "aucpr-dask", tolerance=0.0)
    def time_chunks(self, prevalence: float) -> Any:
        return ap.estimate(*self.chunks).compute(scheduler="synchronous")

    @contender("bounds, 0", "ap.area_bounds(chunked_score, chunked_label, 0)", "aucpr-dask", tolerance=0.0)
    def time_ranges(self, prevalence: float) -> Any:
        return self._bounds(0)[0]

    @contender("bounds, 1e-3", "ap.area_bounds(chunked_score, chunked_label, 1e-3)", "aucpr-dask", tolerance=1e-3)
    def time_bounds(self, prevalence: float) -> Any:
        return self._bounds(1e-3)[0]

    time_pass = one_pass
    time_sort = sort

    def _bounds(self, tolerance: float) -> np.ndarray:
        import dask

        with dask.config.set(scheduler="synchronous"):
            return np.asarray(ap.area_bounds(*self.chunks, tolerance))


class Accumulating(OneRanking):
    """One ranking in ten batches, against metrics that see each batch once."""

    name = "accumulating"
    title = "Average precision of {n_items:,} float32 items in ten batches, one thread"
    explanation = "Ours returns bounds, here their middle. torchmetrics keeps all items, or counts them at thresholds."
    params = (0.01, 0.5)
    n_items = 3_000_000

    @contender("aucpr_dask", "accumulator.update(score, label), .compute()", "aucpr-dask")
    def time_ours(self, prevalence: float) -> Any:
        total = ap.Accumulator()
        for score, label in zip(np.split(self.score, 10), np.split(self.label, 10), strict=True):
            total.update(score, label)
        bounds = total.compute()
        return (bounds.lower + bounds.upper) / 2

    @contender("torchmetrics", "BinaryAveragePrecision()", "torchmetrics", "torch", tolerance=1e-4)
    def time_torchmetrics(self, prevalence: float, thresholds: int | None = None) -> Any:
        from torchmetrics.classification import BinaryAveragePrecision

        metric = BinaryAveragePrecision(thresholds=thresholds, validate_args=False)
        for score, label in zip(*(tensor.chunk(10) for tensor in self.tensors()), strict=True):
            metric.update(score, label)
        return metric.compute()

    @contender("1000 thresholds", "BinaryAveragePrecision(1000)", "torchmetrics", "torch", approximates=True)
    def time_thresholds(self, prevalence: float) -> Any:
        return self.time_torchmetrics(prevalence, 1000)

    time_pass = one_pass
