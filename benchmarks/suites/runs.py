"""Runs from a store of scores to a store of results: against reading and the bare kernels, and as they grow."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

import aucpr_dask as ap
from benchmarks.measuring import Timing
from benchmarks.suite import FLOAT64, Contender, Suite, contender, floor

MODELS_AT_A_TIME = 50
BIT_FOR_BIT = 0.0  # the tolerance


class _Runs(Suite):
    """Stores are written at the first use, and clusters started; both stay until `teardown`."""

    number = 1
    params: tuple[Any, ...] = (1000, 4000)
    n_items = 100_000
    small: Mapping[str, Any] = {"params": (4,), "n_items": 500}
    case = "{} models"
    options: Mapping[str, Any] = {}

    def setup(self, case: Any) -> None:
        """Make a folder for the stores."""
        self.open = ExitStack()
        self.folder = Path(self.open.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-")))
        self.results = (self.folder / f"result-{i}.zarr" for i in itertools.count())
        self.clients: dict[int, Any] = {}

    def teardown(self, case: Any) -> None:
        """Stop the clusters and remove the stores."""
        self.open.close()

    def other_processes(self) -> Iterable[int]:
        """Return the workers of all clusters."""
        return [pid for client in self.clients.values() for pid in client.run(os.getpid).values()]

    def client(self, n_workers: int) -> Any:
        """Return the client of a cluster of worker processes with one thread each."""
        if n_workers not in self.clients:
            self.clients[n_workers] = self.open.enter_context(ap.connect(n_workers))
        return self.clients[n_workers]

    def source(self, n_models: int) -> Path:
        """Return the score store of some models."""
        url = self.folder / f"{n_models}.zarr"
        if not url.exists():
            write_scores(url, n_models, self.n_items)
        return url

    def run(self, n_models: int, n_workers: int) -> Path:
        """Evaluate a store into a new one."""
        result = next(self.results)
        ap.run(self.source(n_models), result, workers=self.client(n_workers), **self.options)
        return result

    def on_every_chunk(self, function: Callable[..., Any], case: int, n_workers: int) -> list[Any]:
        """Call a function of (store, first model, last) for every chunk of a store, on the workers."""
        import zarr

        source, client = self.source(case), self.client(n_workers)
        score = zarr.open_array(source, path="score", mode="r")
        n_models, step = score.shape[0], score.chunks[0]
        tasks = [(str(source), start, min(start + step, n_models)) for start in range(0, n_models, step)]
        # pure=False: otherwise the scheduler would return the results of the round before.
        return list(client.gather(client.map(function, *zip(*tasks, strict=True), pure=False)))


def estimates(url: Path) -> np.ndarray:
    """Return the average precision of every model of a result."""
    estimate = ap.open_result(url)["estimate"]
    return (estimate.sel(estimator="average_precision") if "estimator" in estimate.dims else estimate).values


class StoreToStore(_Runs):
    """Evaluate every model of a score store on two worker processes of one thread each."""

    name = "store-to-store"
    title = "Store to store: models by {n_items:,} float32 items, 1 % positive, two worker processes"
    explanation = (
        "All on the same running cluster, ap.connect(2), with the scores' files in the operating system's cache. "
        "'ap.run' plans, reads, checks, computes average precision with its logit and influence intervals, and writes "
        "the result. 'Read + bare kernels' is one task per chunk of the store, which reads it with zarr and calls the "
        "kernel for average precision and its standard error by the influence function; it checks and writes nothing. "
        "'Read' is the same tasks without the kernel, 'read raw' the bytes of the files, not decoded. Memory is that "
        "of this process and both workers."
    )
    options: Mapping[str, Any] = {"interval": ("logit", "influence_logit_t")}

    @contender(
        "ap.run", "ap.run(scores_url, result_url, interval=INTERVALS, workers=client)", "aucpr-dask", numbers=estimates
    )
    def time_run(self, n_models: int) -> Any:
        return self.run(n_models, 2)

    @floor("read + bare kernels", "client.map(read_and_estimate, chunks)", "aucpr-dask", tolerance=FLOAT64)
    def time_read_and_kernels(self, n_models: int) -> Any:
        return np.concatenate(self.on_every_chunk(read_and_estimate, n_models, 2))

    @floor("read", "client.map(read, chunks)", "zarr")
    def time_read(self, n_models: int) -> Any:
        return self.on_every_chunk(read_only, n_models, 2)

    @floor("read raw", "client.map(read_bytes, files)", "distributed")
    def time_read_raw(self, n_models: int) -> Any:
        files = [str(path) for path in self.source(n_models).rglob("*") if path.is_file()]
        return sum(self.client(2).gather(self.client(2).map(read_bytes, files, pure=False)))


class Workers(_Runs):
    """Estimates alone: half of the time is reading, and with one worker the client has a core to itself."""

    name = "scaling-workers"
    title = "Workers: models by {n_items:,} float32 items, 1 % positive, store to store"
    explanation = (
        "The same store and call, on running clusters of one and of two single-threaded worker processes, to the same "
        "bits. Two workers at twice the speed would be 0.5 x, but a run also has a fixed cost. The floors are what the "
        "machine allows: reading and the bare kernels alone, without a plan, labels or results."
    )

    @contender("one worker process", "ap.run(..., workers=client_of_1)", "aucpr-dask", numbers=estimates)
    def time_one(self, n_models: int) -> Path:
        return self.run(n_models, 1)

    @contender(
        "two worker processes",
        "ap.run(..., workers=client_of_2)",
        "aucpr-dask",
        tolerance=BIT_FOR_BIT,
        numbers=estimates,
    )
    def time_two(self, n_models: int) -> Path:
        return self.run(n_models, 2)

    def findings(self, timings: list[Timing]) -> Iterator[str]:
        """Yield the speed of two workers relative to one, and the speed that was possible."""
        ratios = timings[1].ratios
        yield (
            f"two workers are {1 / (timings[1].ratio or np.nan):.2f} times as fast as one "
            f"(over the rounds {1 / max(ratios):.2f} to {1 / min(ratios):.2f})"
        )
        if len(timings) == 4:
            times = timings[2].median / timings[3].median
            yield f"reading and the bare kernels alone are {times:.2f} times as fast on two"

    @floor("read + bare kernels, one", "client_of_1.map(read_and_estimate, chunks)", "aucpr-dask")
    def time_bare_one(self, n_models: int) -> Any:
        return self.on_every_chunk(read_and_estimate, n_models, 1)

    @floor("read + bare kernels, two", "client_of_2.map(read_and_estimate, chunks)", "aucpr-dask")
    def time_bare_two(self, n_models: int) -> Any:
        return self.on_every_chunk(read_and_estimate, n_models, 2)


class Models(_Runs):
    """The same run on ever more models; the first contender is the smallest store."""

    name = "scaling-models"
    title = "Growth with the models: {n_items:,} float32 items each, store to store, one worker process"
    explanation = "Each line is another store; the first is the smallest."
    params = ("1 % positive",)
    sizes: tuple[int, ...] = (8, 32, 128, 512, 2048)
    small: Mapping[str, Any] = {"n_items": 500, "sizes": (2, 4, 8)}
    case = "{}"

    def contenders(self) -> Iterator[tuple[Contender, Any]]:
        """Yield one run per size."""
        for size in self.sizes:
            call = "ap.run(scores_url, result_url, workers=client)"
            one = Contender(f"{size:,} models", call, ("aucpr-dask",), numbers=np.shape)
            yield one, lambda case, size=size: self.run(size, 1)

    def findings(self, timings: list[Timing]) -> Iterator[str]:
        """Yield the exponent of the growth beyond the smallest store, and the fixed cost of a run."""
        sizes = np.array(self.sizes, dtype=float)
        seconds = np.array([timing.median for timing in timings])
        slope = exponent(sizes[1:] - sizes[0], seconds[1:] - seconds[0])
        yield f"beyond the smallest store, time grows as models to the power {slope:.2f}"
        yield (
            f"a run of {sizes[0]:.0f} models takes {seconds[0]:.2f} s; each more adds "
            f"{(seconds[-1] - seconds[0]) / (sizes[-1] - sizes[0]) * 1e6:.3g} µs"
        )


def exponent(sizes: np.ndarray, seconds: np.ndarray) -> float:
    """Return the slope of a straight line through the logarithms; NaN if a time is not positive."""
    if not np.all(seconds > 0):
        return float("nan")
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def read(url: str, start: int, stop: int) -> tuple[Any, Any]:
    """Read the scores of some models, and the labels."""
    import zarr

    return zarr.open_array(url, path="score", mode="r")[start:stop], zarr.open_array(url, path="label", mode="r")[:]


def read_only(url: str, start: int, stop: int) -> None:
    """Read the scores of some models, and the labels, on a worker; return nothing."""
    read(url, start, stop)


def read_bytes(file: str) -> int:
    """Read a file and return its size, on a worker."""
    return len(Path(file).read_bytes())


def read_and_estimate(url: str, start: int, stop: int) -> np.ndarray:
    """Read the scores of some models and call the compiled kernel on them, on a worker."""
    # The one place where the benchmarks bypass the public functions: the floor is the kernel without its checks.
    from aucpr_dask import kernels

    score, label = read(url, start, stop)
    codes = np.array([kernels.CODES["average_precision"], kernels.CODES["standard_error_fixed"]])
    same_label, none_unseen = np.zeros(len(score), np.int64), np.full(len(score), np.nan)
    return kernels.evaluate_rows(score, label[None], same_label, none_unseen, kernels.Options(), codes)[:, 0]


def write_scores(url: Path, n_models: int, n_items: int) -> None:
    """Write models of rising quality, some at a time."""
    import dask.array as da
    import xarray as xr

    label = np.zeros(n_items, np.int8)
    label[::100] = 1
    quality = da.from_array(np.linspace(0, 2, n_models), chunks=MODELS_AT_A_TIME)
    score = quality.map_blocks(_draw, label, dtype=np.float32, new_axis=1, chunks=(*quality.chunks, (n_items,)))
    models = [f"model{i:05d}" for i in range(n_models)]
    scores = xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)}, coords={"model": models})
    ap.save_scores(scores, url)


def _draw(quality: np.ndarray, label: np.ndarray, block_id: tuple[int, ...] = (0,)) -> np.ndarray:
    noise = np.random.default_rng([22, *block_id]).standard_normal((len(quality), len(label)), dtype=np.float32)
    return noise + (quality[:, None] * label).astype(np.float32)
