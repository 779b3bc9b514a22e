"""Evaluate rankings of up to a billion items on two workers of 2 GiB, and write the tables of ``items-in-chunks.md``.

``python docs/measure_items_in_chunks.py`` takes five minutes. ``--only NAME`` (repeat) writes one table, and
``--largest N`` stops at fewer items.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pages
import psutil
import xarray as xr
from distributed import Client, LocalCluster

import aucpr_dask as ap
from aucpr_dask.clusters import prepare_workers

PAGE = pages.HERE / "items-in-chunks.md"
WORKERS, MEMORY = 2, "2GiB"
LARGEST_CHUNK = 10_000_000
INTERVALS = ("logit", "influence")
SHIFT = 1.5  # of the scores of positives
GIB = 1 << 30


@dataclass(frozen=True)
class Cost:
    """What a call took: its answer, seconds, processor seconds of the workers, most bytes of a worker and of here."""

    answer: Any
    seconds: float
    cpu: float
    peak: int
    peak_here: int


# Scores


def draw(n_items: int, share: float) -> tuple[Any, Any]:
    """Return a ranking that is drawn chunk by chunk whenever it is read: float32 scores, int8 labels."""
    size = min(LARGEST_CHUNK, n_items // 5)
    chunks = ((size,) * (n_items // size),)
    score = da.map_blocks(_scores, share, chunks=chunks, meta=np.empty(0, np.float32))
    label = da.map_blocks(_labels, share, chunks=chunks, meta=np.empty(0, np.int8))
    return score, label


def _labels(share: float, block_info: Any = None) -> Any:
    (number,), (size,) = block_info[None]["chunk-location"], block_info[None]["chunk-shape"]
    random = np.random.Generator(np.random.Philox(key=[number, 0]))
    return (random.random(size, dtype=np.float32) < share).astype(np.int8)


def _scores(share: float, block_info: Any = None) -> Any:
    (number,), (size,) = block_info[None]["chunk-location"], block_info[None]["chunk-shape"]
    random = np.random.Generator(np.random.Philox(key=[number, 1]))
    score = random.standard_normal(size, dtype=np.float32)
    score += np.float32(SHIFT) * _labels(share, block_info)
    return score


def read_once(score: Any, label: Any) -> Any:
    """Read every score and label, and do next to nothing with them."""
    return da.compute(score.max(), label.max())


def estimate(score: Any, label: Any) -> float:
    """Return the area."""
    return float(ap.estimate(score, label).compute())


def evaluate(scores: xr.Dataset) -> xr.Dataset:
    """Return the area and two intervals."""
    return ap.evaluate(scores, intervals=INTERVALS).compute()


# What it costs


@contextmanager
def workers() -> Iterator[Client]:
    """Start workers that have held nothing yet."""
    with (
        LocalCluster(n_workers=WORKERS, threads_per_worker=1, memory_limit=MEMORY, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        prepare_workers(client)
        yield client


def cost_of(call: Callable[..., Any], *arguments: Any) -> Cost:
    """Call on workers of its own, after they have done the same with few items."""
    with workers() as client:
        ap.estimate(*draw(100_000, 0.01)).compute()
        processes = [psutil.Process(pid) for pid in client.run(os.getpid).values()]
        Path("/proc/self/clear_refs").write_text("5")  # forgets the most that this process has held
        before, started = _cpu(processes), time.perf_counter()
        answer = call(*arguments)
        seconds = time.perf_counter() - started
        cpu = _cpu(processes) - before
        peak = max(client.run(_peak).values())
        return Cost(answer, seconds, cpu, peak, _peak())


def _cpu(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def _peak() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024


# Tables


def growth(largest: int) -> str:
    """Return what an item costs, from a million items to a billion."""
    rows = []
    for n_items in (size for size in (10**6, 10**7, 10**8, 10**9) if size <= largest):
        score, label = draw(n_items, 0.01)
        drawing = cost_of(read_once, score, label)
        area = cost_of(estimate, score, label)
        rows.append(
            [
                power(n_items),
                f"{score.chunks[0][0]:,}",
                _times(drawing, n_items),
                _times(area, n_items),
                gib(area.peak),
                f"{area.answer:.6f}",
            ]
        )
        print(rows[-1], flush=True)
    header = [
        "items",
        "chunk",
        "drawing alone, once: wall, CPU per item",
        "`ap.estimate`, drawing twice included: wall, CPU per item",
        "peak RSS of a worker",
        "area",
    ]
    return pages.table(header, rows)


def store(largest: int) -> str:
    """Return what the same takes from a store on disk."""
    n_items = min(largest, 10**8)
    score, label = draw(n_items, 0.01)
    drawn = ap.estimate(score, label).compute(scheduler="threads")
    with tempfile.TemporaryDirectory() as folder:
        url, target = f"{folder}/scores.zarr", f"{folder}/result.zarr"
        scores = xr.Dataset(
            {"score": (("model", "item"), score[np.newaxis]), "label": ("item", label)}, {"model": ["one"]}
        )
        written = cost_of(ap.save_scores, scores, url)
        size = sum(path.stat().st_size for path in Path(url).rglob("*") if path.is_file())
        opened = ap.open_scores(url)
        reading = cost_of(read_once, opened["score"].data, opened["label"].data)
        evaluated = cost_of(evaluate, opened)
        with workers() as client:
            started = time.perf_counter()
            result = ap.run(url, target, cluster=client, intervals=INTERVALS).load()
            seconds, peak = time.perf_counter() - started, max(client.run(_peak).values())
        if float(result["estimate"].item()) != float(drawn) or not result.equals(evaluated.answer):
            raise RuntimeError("the store, the run and the drawn scores have different numbers")
    rows = [
        [
            "`ap.save_scores`, drawing included",
            f"{written.seconds:.0f} s",
            f"{gib(written.peak)} in a worker, {gib(written.peak_here)} in the process that writes",
        ],
        ["reading scores and labels once", f"{reading.seconds:.0f} s", f"{gib(reading.peak)} in a worker"],
        [
            "`ap.evaluate(ap.open_scores(url))`: estimate, logit and influence intervals",
            f"{evaluated.seconds:.0f} s",
            f"{gib(evaluated.peak)} in a worker",
        ],
        [
            "`ap.run`, one task",
            f"{seconds:.0f} s",
            f"{gib(peak)} in the worker; equal to `ap.evaluate`, with the area that the drawn scores have, bit by bit",
        ],
    ]
    return f"{power(n_items)} items, {size / (1 << 20):.0f} MiB compressed:\n\n" + pages.table(["", "wall", ""], rows)


def bounds(largest: int) -> str:
    """Return what certified bounds of balanced rankings cost."""
    rows = []
    for n_items, tolerance in ((10**8, 1e-3), (10**8, 1e-6), (10**8, 0.0), (10**9, 1e-6)):
        if n_items > largest:
            continue
        score, label = draw(n_items, 0.5)
        found = cost_of(ap.area_bounds, score, label, tolerance)
        lower, upper = found.answer
        width = f"{upper - lower:.2g}" if upper > lower else "0"
        rows.append(
            [
                power(n_items),
                f"{tolerance:g}",
                width,
                _times(found, n_items),
                f"{gib(found.peak)}, {gib(found.peak_here)}",
                f"{lower:.9f}",
            ]
        )
        print(rows[-1], flush=True)
    header = [
        "items",
        "tolerance",
        "upper - lower",
        "wall, CPU per item",
        "peak RSS of a worker, of the client",
        "lower bound",
    ]
    return pages.table(header, rows)


def _times(cost: Cost, n_items: int) -> str:
    return f"{cost.seconds:.1f} s, {cost.cpu / n_items * 1e9:.0f} ns"


def gib(n_bytes: int) -> str:
    """Return bytes for reading."""
    return f"{n_bytes / GIB:.2f} GiB"


def power(number: int) -> str:
    """Return a power of ten for reading."""
    return "10" + str(len(str(number)) - 1).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


TABLES = {"growth": growth, "store": store, "bounds": bounds}


def main() -> None:
    """Read the words and do what they say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=TABLES, help="write only this table (repeat)")
    parser.add_argument("--largest", type=int, default=10**9, help="the most items")
    parser.add_argument("--print", action="store_true", help="print the tables; write nothing")
    words = parser.parse_args()
    for name in words.only or TABLES:
        text = TABLES[name](words.largest)
        if words.print:
            print(text)
        else:
            pages.write_block(PAGE, name, text)


if __name__ == "__main__":
    main()
