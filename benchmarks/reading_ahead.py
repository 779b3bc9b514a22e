"""Whether a worker should read one block while it evaluates another: two threads for each worker, against one."""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from benchmarks.contenders import Suite, contender
from benchmarks.installed import installed
from benchmarks.measure import Timing
from benchmarks.store_to_store import estimates

FILES, LATE, SLOW = "files", "100ms-1000MBps", "100ms-100MBps"
SERVER = Path(__file__).with_name("slow_server.py")


class ReadingAhead(Suite):
    """The same run on two worker processes of one and of two threads, from stores that answer more or less fast."""

    name = "reading-ahead"
    title = "Reading ahead: {n_models} models by {n_items:,} float32 items in {n_blocks} blocks, two worker processes"
    explanation = (
        "Both clusters run all the time. 'Files': the scores are in the operating system's cache. The others: a web "
        "server on the same machine waits before each answer, then sends at most so many bytes a second over each "
        "connection. Results are written to files."
    )
    number = 1
    params = (FILES, LATE, SLOW) if installed("obstore") else (FILES,)  # what web servers are read with
    param_names = ("store",)
    no_memory = "other processes do the work"
    timeout = 1800
    n_models = 400
    n_items = 100_000
    n_blocks = 40

    def shrink(self) -> None:
        """Take four models of 500 items."""
        self.n_models, self.n_items, self.n_blocks = 4, 500, 4
        self.params = tuple("10ms-1000MBps" if store == LATE else store for store in self.params[:2])

    def describe(self, store: str) -> str:
        """Return how the store answers."""
        if store == FILES:
            return store
        wait, bandwidth = store.split("-")
        return f"{wait.removesuffix('ms')} ms, {bandwidth.removesuffix('MBps')} MB/s"

    def setup(self, store: str) -> None:
        """Write the scores, start the server, start both clusters."""
        import xarray as xr
        from distributed import Client, LocalCluster

        import aucpr_dask as ap

        self.open = ExitStack()
        folder = Path(self.open.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-")))
        self.results = (folder / f"result-{i}.zarr" for i in itertools.count())
        random = np.random.default_rng(28)
        label = np.zeros(self.n_items, np.int8)
        label[::100] = 1
        score = random.standard_normal((self.n_models, self.n_items), dtype=np.float32) + label
        scores = xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)})
        scores = scores.assign_coords(model=[f"model{i:04d}" for i in range(self.n_models)])
        ap.save_scores(scores, folder / "scores.zarr", models_per_chunk=-(-self.n_models // self.n_blocks))
        self.source = str(folder / "scores.zarr") if store == FILES else f"{self._serve(folder)}/{store}/scores.zarr"
        self.clients = []
        for threads in (1, 2):
            cluster = LocalCluster(n_workers=2, threads_per_worker=threads, dashboard_address=":0")
            self.clients.append(self.open.enter_context(Client(self.open.enter_context(cluster))))

    def _serve(self, folder: Path) -> str:
        command = [sys.executable, str(SERVER), str(folder)]
        server = self.open.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        self.open.callback(server.kill)
        return f"http://127.0.0.1:{server.stdout.readline().strip()}"  # type: ignore[union-attr]

    def teardown(self, store: str) -> None:
        """Stop the clusters and the server; remove the stores."""
        self.open.close()

    @contender("one thread for each worker", "ap.run(..., cluster=client_of_1)", "aucpr-dask", numbers=estimates)
    def time_one(self, store: str) -> Path:
        """Read, evaluate, read, evaluate."""
        return self._run(0)

    @contender(
        "two threads for each worker",
        "ap.run(..., cluster=client_of_2)",
        "aucpr-dask",
        tolerance=0.0,
        numbers=estimates,
    )
    def time_two(self, store: str) -> Path:
        """Let one block be read while another is evaluated."""
        return self._run(1)

    def _run(self, which: int) -> Path:
        import aucpr_dask as ap

        result = next(self.results)
        ap.run(self.source, result, intervals=("logit", "influence_logit"), cluster=self.clients[which])
        return result

    def findings(self, timings: list[Timing]) -> Iterator[str]:
        """Yield in how many rounds two threads were faster."""
        one, two = timings
        faster = sum(ratio < 1 for ratio in two.ratios)
        yield (
            f"{one.case}: two threads take {two.ratio:.2f} times as long ({min(two.ratios):.2f} to "
            f"{max(two.ratios):.2f}), least against least {min(two.seconds) / min(one.seconds):.2f}; faster in "
            f"{faster} of {len(two.ratios)} rounds"
        )
