"""One ranking whose items are in chunks, against the same ranking in one piece."""

from __future__ import annotations

from typing import Any

import aucpr_dask as ap
from benchmarks.suite import contender
from benchmarks.suites.rankings import OneRanking, one_pass, sort


class ItemsInChunks(OneRanking):
    """Average precision of one ranking in ten chunks, including the graph, in one thread."""

    name = "items-in-chunks"
    title = "Average precision of one ranking of {n_items:,} float32 items in ten chunks, one thread"
    explanation = (
        "The same ranking in memory: in one piece, and as a Dask array in ten chunks, on the synchronous scheduler. "
        "'In chunks' takes two passes: the first collects the positives, the second counts the negatives between them."
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

    time_pass = one_pass
    time_sort = sort
