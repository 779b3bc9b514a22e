"""Measure what an evaluation costs in core hours, and print the tables of README.md.

    python cluster/measure_cost.py

Processor seconds of one thread, not seconds on the clock: other work on the machine hardly moves them.
"""

from __future__ import annotations

import platform
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import aucpr_dask as ap

N_MODELS, N_ITEMS, SHARE = 1000, 1_000_000, 0.01  # what the table is about
BLOCK = 8  # models of a million items that one task evaluates: they share what is drawn for a bootstrap
MEASURED = {"estimates": 3 * BLOCK, "logit, influence": 3 * BLOCK, "bootstrap": BLOCK}  # models, at full length
LENGTHS = (10_000, 100_000, 1_000_000)  # is it linear?
OPTIONS: dict[str, dict[str, Any]] = {
    "estimates": {"interval": ()},
    "logit, influence": {"interval": ("logit", "influence_logit_t")},
    "bootstrap": {"interval": ("bootstrap",), "n_resamples": 1000},
}


def draw(n_models: int, n_items: int, seed: int = 0) -> xr.Dataset:
    """Draw continuous float32 scores of models of one skill."""
    random = np.random.default_rng(seed)
    label = (random.random(n_items) < SHARE).astype(np.int8)
    score = random.standard_normal((n_models, n_items), dtype=np.float32) + 2 * label.astype(np.float32)
    models = [f"model-{number}" for number in range(n_models)]
    return xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)}, coords={"model": models})


def seconds_per_ranking(scores: xr.Dataset, options: dict[str, Any], repeats: int = 3) -> float:
    """Return processor seconds per ranking, the least of some repetitions."""
    ap.evaluate(scores.isel(model=slice(1)), **(options | {"n_resamples": 16}))  # compiles or loads the kernels
    spent = []
    for _ in range(repeats):
        started = time.process_time()
        ap.evaluate(scores, **options)
        spent.append(time.process_time() - started)
    return min(spent) / scores.sizes["model"]


def bytes_per_score(scores: xr.Dataset, folder: Path) -> float:
    """Return what a score takes in a store."""
    ap.save_scores(scores, folder / "scores.zarr")
    files = [path.stat().st_size for path in (folder / "scores.zarr" / "score").rglob("*") if path.is_file()]
    return sum(files) / scores["score"].size


def seconds_to_read(folder: Path) -> float:
    """Return processor seconds per ranking to read and decompress its scores."""
    with_chunks = ap.open_scores(folder / "scores.zarr", chunks=None)
    started = time.process_time()
    scores = with_chunks["score"].load()
    return (time.process_time() - started) / scores.sizes["model"]


def processor() -> str:
    """Return the name of the processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def main() -> None:
    """Print the table."""
    print(f"{processor()}; Python {platform.python_version()}, aucpr-dask {ap.__version__}\n")
    print(f"| what | models measured | seconds per model | ns per score | core hours for {N_MODELS:,} models |")
    print("|---|---|---|---|---|")
    scores = draw(max(MEASURED.values()), N_ITEMS)
    with tempfile.TemporaryDirectory(prefix="cost-") as folder:
        stored = bytes_per_score(scores, Path(folder))
        show("reading", scores.sizes["model"], seconds_to_read(Path(folder)))
    for name, options in OPTIONS.items():
        show(name, MEASURED[name], seconds_per_ranking(scores.isel(model=slice(MEASURED[name])), options))
    print("\n| items | " + " | ".join(f"{name}, ns per score" for name in OPTIONS) + " |")
    print("|---|" + "---|" * len(OPTIONS))
    for n_items in LENGTHS:
        shorter = draw(BLOCK * N_ITEMS // n_items, n_items)
        costs = [seconds_per_ranking(shorter, options, repeats=2) / n_items * 1e9 for options in OPTIONS.values()]
        print(f"| {n_items:,} | " + " | ".join(f"{cost:.1f}" for cost in costs) + " |", flush=True)
    total = stored * N_MODELS * N_ITEMS
    print(f"\nStore: {stored:.2f} bytes per score, {total / 1e9:.1f} GB for {N_MODELS:,} models")


def show(name: str, n_measured: int, seconds: float) -> None:
    """Print one row."""
    hours = seconds * N_MODELS / 3600
    print(f"| {name} | {n_measured} | {seconds:.4f} | {seconds / N_ITEMS * 1e9:.1f} | {hours:.4f} |", flush=True)


if __name__ == "__main__":
    main()
