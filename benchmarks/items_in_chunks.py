"""One ranking whose items are in chunks, against the same ranking in one piece."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.contenders import contender, floor
from benchmarks.rankings import OneRanking


class ItemsInChunks(OneRanking):
    """Average precision of one ranking in ten chunks, graph and all, in one thread."""

    name = "items-in-chunks"
    title = "Average precision of one ranking of {n_items:,} float32 items in ten chunks, one thread"
    explanation = (
        "The same ranking in memory: in one piece, and as a Dask array in ten chunks, on the synchronous scheduler. "
        "Two passes: positives are collected, then negatives are counted between them. Bounds: counts in bins of "
        "scores, refined until upper - lower is at most 1e-3; with 0, the items of one range of scores after another."
    )
    params = (0.01, 0.5)
    n_items = 10_000_000

    def setup(self, prevalence: float) -> None:
        """Draw one ranking, and cut it."""
        import dask.array as da

        super().setup(prevalence)
        self.chunks = [da.from_array(array, chunks=self.n_items // 10) for array in (self.score, self.label)]

    @contender("in one piece", "ap.estimate(score, label)", "aucpr-dask")
    def time_whole(self, prevalence: float) -> Any:
        """Make the default call, on NumPy arrays."""
        import aucpr_dask as ap

        return ap.estimate(self.score, self.label)

    @contender("in chunks", "ap.estimate(chunked_score, chunked_label).compute()", "aucpr-dask", tolerance=0.0)
    def time_chunks(self, prevalence: float) -> Any:
        """Build the graph and compute it."""
        import aucpr_dask as ap

        return ap.estimate(*self.chunks).compute(scheduler="synchronous")

    @contender("bounds, 0", "ap.area_bounds(chunked_score, chunked_label, 0)", "aucpr-dask", tolerance=0.0)
    def time_ranges(self, prevalence: float) -> Any:
        """Add the area up range by range."""
        return self._bounds(0)[0]

    @contender("bounds, 1e-3", "ap.area_bounds(chunked_score, chunked_label, 1e-3)", "aucpr-dask", tolerance=1e-3)
    def time_bounds(self, prevalence: float) -> Any:
        """Count in bins."""
        return self._bounds(1e-3)[0]

    @floor("one pass", "score.max(), label.max()", "numpy")
    def time_pass(self, prevalence: float) -> Any:
        """Read scores and labels once."""
        return self.score.max(), self.label.max()

    @floor("np.sort", "np.sort(score)", "numpy")
    def time_sort(self, prevalence: float) -> Any:
        """Sort the scores alone, without an estimate."""
        return np.sort(self.score)

    def _bounds(self, tolerance: float) -> np.ndarray:
        import dask

        import aucpr_dask as ap

        with dask.config.set(scheduler="synchronous"):
            return np.asarray(ap.area_bounds(*self.chunks, tolerance))
