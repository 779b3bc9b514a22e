"""From a store of scores to a store of results, against reading the scores and running the bare kernels."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from aucpr_dask.schema.estimators import ESTIMATORS
from benchmarks.contenders import FLOAT64, Suite, contender, floor

MODELS_AT_A_TIME = 50
INTERVALS = ("logit", "influence_logit")


class Models(Suite):
    """What the suites of such runs have in common: a short run, and one in which what every run costs weighs less."""

    params = (1000, 4000)
    param_names = ("models",)
    n_items = 100_000

    def shrink(self) -> None:
        """Take four models of 500 items."""
        self.params, self.n_items = (4,), 500

    def describe(self, n_models: int) -> str:
        """Return the number of models."""
        return f"{n_models} models"


class StoreToStore(Models):
    """Evaluate every model of a score store on two worker processes of one thread each."""

    name = "store-to-store"
    title = "Store to store: models by {n_items:,} float32 items, 1 % positive, two worker processes"
    explanation = (
        "All on the same running cluster, ap.connect(2), the scores' files in the operating system's cache. 'ap.run': "
        "plan, read, check, average precision, its logit and influence intervals, write the result store. 'Read + bare "
        "kernels': one task per chunk of the store reads it with zarr and calls the kernel for average precision and "
        "the standard error of its influence function; nothing is checked or written. 'Read': the same tasks without "
        "the kernel. 'Read raw': the bytes of the files, not decoded. Memory is that of this process and both workers."
    )
    number = 1

    def setup(self, n_models: int) -> None:
        """Write the score store and start the cluster."""
        import aucpr_dask as ap

        self.open = ExitStack()
        self.folder = Path(self.open.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-")))
        self.source = self.folder / "scores.zarr"
        self.results = (self.folder / f"result-{i}.zarr" for i in itertools.count())
        write_scores(self.source, n_models, self.n_items)
        self.client = self.open.enter_context(ap.connect(2))

    def teardown(self, n_models: int) -> None:
        """Stop the cluster and remove the stores."""
        self.open.close()

    def other_processes(self) -> Iterable[int]:
        """Return the workers."""
        return self.client.run(os.getpid).values()

    @contender(
        "ap.run",
        "ap.run(scores_url, result_url, intervals=INTERVALS, cluster=client)",
        "aucpr-dask",
        numbers=lambda url: estimates(url),
    )
    def time_run(self, n_models: int) -> Any:
        """Run the whole command, into a new store each time."""
        import aucpr_dask as ap

        result = next(self.results)
        ap.run(self.source, result, intervals=INTERVALS, cluster=self.client)
        return result

    @contender(
        "read + bare kernels",
        "client.map(read_and_estimate, chunks)",
        "aucpr-dask",
        tolerance=FLOAT64,
        is_floor=True,
    )
    def time_read_and_kernels(self, n_models: int) -> Any:
        """Do what the work needs at least, on the same workers."""
        return np.concatenate(self._on_every_chunk(read_and_estimate))

    @floor("read", "client.map(read, chunks)", "zarr")
    def time_read(self, n_models: int) -> Any:
        """Read and decompress alone."""
        return self._on_every_chunk(read)

    @floor("read raw", "client.map(read_bytes, files)", "distributed")
    def time_read_raw(self, n_models: int) -> Any:
        """Read the bytes of every file, and do nothing with them."""
        files = [str(path) for path in self.source.rglob("*") if path.is_file()]
        return sum(self.client.gather(self.client.map(read_bytes, files, pure=False)))

    def _on_every_chunk(self, function: Any) -> list[Any]:
        return on_every_chunk(self.client, self.source, function)


def on_every_chunk(client: Any, source: Path, function: Any) -> list[Any]:
    """Call a function of (store, first model, last) for every chunk of a store, on the workers."""
    import zarr

    score = zarr.open_array(source, path="score", mode="r")
    step = score.chunks[0]
    starts = range(0, score.shape[0], step)
    tasks = [(str(source), start, min(start + step, score.shape[0])) for start in starts]
    # pure=False: otherwise the scheduler would hand out the results of the round before.
    return list(client.gather(client.map(function, *zip(*tasks, strict=True), pure=False)))


def read_and_estimate(url: str, start: int, stop: int) -> np.ndarray:
    """Read the scores of some models and call the compiled kernel on them, on a worker."""
    from aucpr_dask import kernels

    score, label = _read(url, start, stop)
    n_models = len(score)
    code = np.array([ESTIMATORS["average_precision"].code, kernels.EXTRA_CODES["standard_error_fixed"]])
    same_label, none_unseen = np.zeros(n_models, np.int64), np.full(n_models, np.nan)
    return kernels.evaluate_rows(score, label[None], same_label, none_unseen, kernels.Options(), code)[:, 0]


def read(url: str, start: int, stop: int) -> None:
    """Read the scores of some models, and the labels, on a worker."""
    _read(url, start, stop)


def read_bytes(file: str) -> int:
    """Read a file and return its size, on a worker."""
    return len(Path(file).read_bytes())


def _read(url: str, start: int, stop: int) -> tuple[Any, Any]:
    import zarr

    return zarr.open_array(url, path="score", mode="r")[start:stop], zarr.open_array(url, path="label", mode="r")[:]


def estimates(url: Path) -> np.ndarray:
    """Return the average precision of every model of a result."""
    import aucpr_dask as ap

    return ap.open_result(url)["estimate"].sel(estimator="average_precision").values


def write_scores(url: Path, n_models: int, n_items: int) -> None:
    """Write models of rising quality, a part of them at a time."""
    import dask.array as da
    import xarray as xr

    import aucpr_dask as ap

    label = np.zeros(n_items, np.int8)
    label[::100] = 1
    chunks = [min(MODELS_AT_A_TIME, n_models - start) for start in range(0, n_models, MODELS_AT_A_TIME)]
    quality = da.from_array(np.linspace(0, 2, n_models), chunks=(chunks,))
    score = quality.map_blocks(_draw, label, dtype=np.float32, new_axis=1, chunks=(chunks, (n_items,)))
    models = [f"model{i:05d}" for i in range(n_models)]
    scores = xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)}, coords={"model": models})
    ap.save_scores(scores, url)


def _draw(quality: np.ndarray, label: np.ndarray, block_id: tuple[int, ...] = (0,)) -> np.ndarray:
    noise = np.random.default_rng([22, *block_id]).standard_normal((len(quality), len(label)), dtype=np.float32)
    return noise + (quality[:, None] * label).astype(np.float32)
