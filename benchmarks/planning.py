"""What it takes to plan a run over a store whose scores nobody could hold; they are described, and never read."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contenders import Contender, Suite
from benchmarks.measure import Timing

FILES_BESIDE = 1  # the ledger's record of a block

# In a process of its own: the high-water mark that Linux keeps of its memory, in MiB; elsewhere nothing is known.
PLAN_AND_PRINT_PEAK = """
import sys
from pathlib import Path
from aucpr_dask.planning import plan_run
plan_run(sys.argv[1])
status = Path("/proc/self/status")
lines = status.read_text().splitlines() if status.exists() else ()
print(next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), float("nan")))
"""


class Planning(Suite):
    """Plan the evaluation of rankings of more and more items."""

    name = "planning"
    title = "Plans: {n_models:,} models by {n_queries:,} queries"
    explanation = (
        "The stores have all their metadata and names, and not one chunk of scores: a plan reads none. "
        "Blocks are tasks; a block of more than one chunk reads them one after another."
    )
    number = 1
    no_memory = "the lines above give that of a planning process"
    params = ("plan_run",)
    n_models = 100_000
    n_queries = 1000
    lengths = (100, 1000, 10_000, 100_000)

    def shrink(self) -> None:
        """Take ten models by three queries, of 10 and 20 items."""
        self.n_models, self.n_queries, self.lengths = 10, 3, (10, 20)

    def setup(self, case: str) -> None:
        """Write the metadata of the stores."""
        self.plans: dict[int, Any] = {}
        self.peaks: dict[int, float] = {}
        self.folder = tempfile.TemporaryDirectory(prefix="benchmark-")
        for n_items in self.lengths:
            describe_store(self._url(n_items), self.n_models, self.n_queries, n_items)

    def teardown(self, case: str) -> None:
        """Remove the stores."""
        self.folder.cleanup()

    def contenders(self) -> Iterator[tuple[Contender, Any]]:
        """Yield one plan per number of items."""
        for n_items in self.lengths:
            call = f"plan_run(scores_of_{n_items}_items)"
            one = Contender(f"{n_items:,} items", call, ("aucpr-dask",), None, lambda plan: len(plan.blocks))
            yield one, lambda case, n_items=n_items: self._plan(n_items)

    def findings(self, timings: list[Timing]) -> Iterator[str]:
        """Yield what the plans are."""
        for n_items in self.lengths:
            plan = self.plans[n_items]
            block, part = plan.blocks[0], plan.blocks[0].parts()[0]
            variables = plan.template.data_vars
            weights = {str(name): _chunk_bytes(variable) for name, variable in variables.items()}
            yield (
                f"{n_items:,} items: {plan.source_bytes / 1e12:.3g} TB of scores, {len(plan.blocks):,} tasks of "
                f"{block.n_rankings:,} rankings in {len(block.parts())} parts of {part.n_rankings:,}; up to "
                f"{plan.largest / 2**20:.0f} MiB of memory in a worker, {self.peaks[n_items]:.0f} MiB in the planning "
                f"process; the result has "
                f"{len(plan.blocks) * (len(weights) + FILES_BESIDE):,} files while it is written, of "
                f"{min(weights.values()) / 1024:.3g} to {max(weights.values()) / 1024:.3g} KiB before compression"
            )

    def _plan(self, n_items: int) -> Any:
        from aucpr_dask.runs.planning import plan_run

        if n_items not in self.peaks:  # in the first call, which is not timed
            command = [sys.executable, "-c", PLAN_AND_PRINT_PEAK, str(self._url(n_items))]
            self.peaks[n_items] = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        self.plans[n_items] = plan_run(self._url(n_items))
        return self.plans[n_items]

    def _url(self, n_items: int) -> Path:
        return Path(self.folder.name) / f"{n_items}.zarr"


def describe_store(url: Path, n_models: int, n_queries: int, n_items: int) -> None:
    """Write all of a score store but the scores."""
    import dask.array as da
    import xarray as xr

    from aucpr_dask.scores.store import ScoreWriter

    label = (np.arange(n_items) % 10 == 0).astype(np.int8)
    score = da.empty((n_models, n_queries, n_items), dtype=np.float32, chunks=-1)
    template = xr.Dataset(
        {"score": (("model", "query", "item"), score), "label": (("query", "item"), np.tile(label, (n_queries, 1)))},
        coords={
            "model": [f"model{i:06d}" for i in range(n_models)],
            "query": [f"topic{i:04d}" for i in range(n_queries)],
        },
    )
    ScoreWriter(url, template).commit()


def _chunk_bytes(variable: Any) -> int:
    return int(np.prod(variable.encoding["chunks"], dtype=np.int64)) * variable.dtype.itemsize
