"""How the time of a run grows: with worker processes, with models, with items."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contenders import Contender, Suite, contender, floor
from benchmarks.measure import Timing
from benchmarks.store_to_store import Models, estimates, on_every_chunk, read_and_estimate, write_scores

ALL_NUMBERS = 0.0  # the tolerance: the same, to the last bit


class Runs(Suite):
    """Runs from stores that are written before, on clusters that are started before."""

    number = 1
    params = ("1 % positive",)
    timeout = 1800

    def setup(self, case: Any) -> None:
        """Write the score stores; clusters start when they are first used."""
        self.open = ExitStack()
        self.folder = Path(self.open.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-")))
        self.results = (self.folder / f"result-{i}.zarr" for i in itertools.count())
        self.clients: dict[int, Any] = {}
        self.sources: dict[tuple[int, int], Path] = {}

    def teardown(self, case: Any) -> None:
        """Stop the clusters and remove the stores."""
        self.open.close()

    def other_processes(self) -> Iterable[int]:
        """Return the workers of all clusters that have started."""
        return [pid for client in self.clients.values() for pid in client.run(os.getpid).values()]

    def run(self, n_models: int, n_items: int, n_workers: int, **options: Any) -> Path:
        """Evaluate a store, written at the first call, into a new one."""
        import aucpr_dask as ap

        source, client, result = self._source(n_models, n_items), self._client(n_workers), next(self.results)
        ap.run(source, result, cluster=client, **options)
        return result

    def run_bare(self, n_models: int, n_items: int, n_workers: int) -> list[Any]:
        """Read a store and call the kernels, no more."""
        return on_every_chunk(self._client(n_workers), self._source(n_models, n_items), read_and_estimate)

    def _source(self, n_models: int, n_items: int) -> Path:
        if (n_models, n_items) not in self.sources:
            self.sources[n_models, n_items] = self.folder / f"{n_models}-by-{n_items}.zarr"
            write_scores(self.sources[n_models, n_items], n_models, n_items)
        return self.sources[n_models, n_items]

    def _client(self, n_workers: int) -> Any:
        import aucpr_dask as ap

        if n_workers not in self.clients:
            self.clients[n_workers] = self.open.enter_context(ap.connect(n_workers))
        return self.clients[n_workers]


class _OneAndTwo(Models, Runs):
    """One worker process and two."""

    options: Mapping[str, Any] = {}

    @contender(
        "one worker process", "ap.run(..., cluster=client_of_1)", "aucpr-dask", numbers=lambda url: estimates(url)
    )
    def time_one(self, n_models: int) -> Path:
        """Run on one process."""
        return self.run(n_models, self.n_items, 1, **self.options)

    @contender(
        "two worker processes",
        "ap.run(..., cluster=client_of_2)",
        "aucpr-dask",
        tolerance=ALL_NUMBERS,
        numbers=lambda url: estimates(url),
    )
    def time_two(self, n_models: int) -> Path:
        """Run on two processes."""
        return self.run(n_models, self.n_items, 2, **self.options)

    def findings(self, timings: list[Timing]) -> Iterator[str]:
        """Yield how many times as fast two workers are, and how many times they could be."""
        ratios = timings[1].ratios
        yield (
            f"two workers are {1 / (timings[1].ratio or np.nan):.2f} times as fast as one "
            f"(over the rounds {1 / max(ratios):.2f} to {1 / min(ratios):.2f})"
        )
        if len(timings) == 4:
            times = timings[2].median / timings[3].median
            yield f"reading and the bare kernels alone are {times:.2f} times as fast on two"


class Workers(_OneAndTwo):
    """Estimates alone: half of the time is reading, and beside one worker the client has a core of its own."""

    name = "scaling-workers"
    title = "Workers: models by {n_items:,} float32 items, 1 % positive, store to store"
    explanation = (
        "The same store and the same call, on running clusters of one and of two single-threaded worker processes; "
        "the numbers must be the same to the last bit. Two workers twice as fast would be 0.5 x. What every run costs, "
        "however small, no worker makes shorter: it weighs less the more models there are. The floors say what "
        "the machine allows: reading and the bare kernels alone, without a plan, labels or results."
    )

    @floor("read + bare kernels, one", "client_of_1.map(read_and_estimate, chunks)", "aucpr-dask")
    def time_bare_one(self, n_models: int) -> Any:
        """Do what the work needs at least, on one process."""
        return self.run_bare(n_models, self.n_items, 1)

    @floor("read + bare kernels, two", "client_of_2.map(read_and_estimate, chunks)", "aucpr-dask")
    def time_bare_two(self, n_models: int) -> Any:
        """Do what the work needs at least, on two processes."""
        return self.run_bare(n_models, self.n_items, 2)


class WorkersOfReplicates(_OneAndTwo):
    """Replicates besides: the processors have more to do than the rest."""

    name = "scaling-workers-replicates"
    title = "Workers: models by {n_items:,} float32 items, 1 % positive, 1000 bootstrap replicates each, store to store"
    explanation = (
        "The same with the bootstrap interval from a thousand replicates of every model: what workers are for."
    )
    options: Mapping[str, Any] = {"intervals": ("bootstrap",), "n_resamples": 1000}


class Growth(Runs):
    """The same run on ever larger stores: the first contender is the smallest."""

    smallest: int
    largest: int
    factor: int
    what: str

    def sizes(self) -> list[int]:
        """Return the sizes, from the smallest, each so many times the one before."""
        n = round(np.log(self.largest / self.smallest) / np.log(self.factor))
        return [self.smallest * self.factor**power for power in range(n + 1)]

    def shape(self, size: int) -> tuple[int, int]:
        """Return the numbers of models and items of a size."""
        raise NotImplementedError

    def contenders(self) -> Iterator[tuple[Contender, Any]]:
        """Yield one run per size."""
        for size in self.sizes():
            name = f"{size:,} {self.what}"
            yield (
                Contender(name, "ap.run(scores_url, result_url, cluster=client)", ("aucpr-dask",), None, np.shape),
                lambda case, size=size: self.run(*self.shape(size), 1),
            )

    def findings(self, timings: list[Timing]) -> Iterator[str]:
        """Yield the exponent of the growth, of the run and of what it costs beyond the smallest."""
        sizes = np.array(self.sizes(), dtype=float)
        seconds = np.array([timing.median for timing in timings])
        yield f"time grows as {self.what} to the power {exponent(sizes, seconds):.2f} (fitted to all sizes)"
        if len(sizes) > 2:
            yield (
                f"beyond the smallest store, as the power "
                f"{exponent(sizes[1:] - sizes[0], seconds[1:] - seconds[0]):.2f}: without what every run costs"
            )
        yield (
            f"what every run costs: {seconds[0]:.2f} s at {sizes[0]:,.0f} {self.what}; each more costs "
            f"{(seconds[-1] - seconds[0]) / (sizes[-1] - sizes[0]) * 1e6:.3g} µs"
        )


def exponent(sizes: np.ndarray, seconds: np.ndarray) -> float:
    """Return the slope of a straight line through logarithms; NaN if a time is not positive."""
    if not np.all(seconds > 0):
        return float("nan")
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


class Models(Growth):
    """More and more models."""

    name = "scaling-models"
    title = "Growth with the models: {n_items:,} float32 items each, store to store, one worker process"
    explanation = "Each line is a store of its own; the first is the smallest. A run of no block costs something, too."
    n_items = 100_000
    smallest, largest, factor, what = 8, 2048, 4, "models"

    def shrink(self) -> None:
        """Take 500 items of two and of eight models."""
        self.n_items, self.smallest, self.largest = 500, 2, 8

    def shape(self, size: int) -> tuple[int, int]:
        """Return so many models."""
        return size, self.n_items


class Items(Growth):
    """Longer and longer rankings."""

    name = "scaling-items"
    title = "Growth with the items: {n_models} models, float32, store to store, one worker process"
    explanation = "Each line is a store of its own; the first is the smallest."
    n_models = 64
    smallest, largest, factor, what = 62_500, 4_000_000, 4, "items"

    def shrink(self) -> None:
        """Take two models of 100 and of 400 items."""
        self.n_models, self.smallest, self.largest = 2, 100, 400

    def shape(self, size: int) -> tuple[int, int]:
        """Return so many items."""
        return self.n_models, size
