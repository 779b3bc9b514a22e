"""Small jobs, each killed before its N-th change of the file system, for every N, and then called again.

Run as a program, so that one process imports the package and compiles, and every attempt is a fork of it, begun before
Zarr or Dask start a thread.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import aucpr_dask as ap
from aucpr_dask.errors import AucprError

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate"}
OPTIONS: dict[str, Any] = {"intervals": ["bootstrap"], "n_resamples": 5, "keep_replicates": True, "progress": False}
RNG = np.random.default_rng(1)
SCORES = xr.Dataset(
    {"score": (("model", "item"), RNG.normal(size=(4, 30))), "label": ("item", (RNG.random(30) < 0.3).astype("int8"))},
    coords={"model": list("abcd")},
)


def save(folder: Path, *, overwrite: bool = False) -> None:
    ap.save_scores(SCORES, folder / "scores.zarr", overwrite=overwrite, models_per_chunk=2)


def save_again(folder: Path, *, overwrite: bool = True) -> None:
    save(folder, overwrite=True)


def evaluate(folder: Path, *, overwrite: bool = False, source: str = "scores.zarr", **options: Any) -> None:
    from distributed import Client, LocalCluster

    cluster = LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0")
    with cluster, Client(cluster) as client:
        ap.run(folder / source, folder / "result.zarr", cluster=client, overwrite=overwrite, **OPTIONS | options)


def evaluate_again(folder: Path, *, overwrite: bool = True) -> None:
    evaluate(folder, overwrite=True)


def add_resamples(folder: Path, *, overwrite: bool = False) -> None:
    evaluate(folder, n_resamples=8, overwrite=overwrite)


def prepare_scores(folder: Path) -> None:
    save(folder)


def prepare_result(folder: Path) -> None:
    save(folder)
    evaluate(folder)


def prepare_few(folder: Path) -> None:
    ap.save_scores(SCORES.isel(model=slice(2)), folder / "few.zarr", models_per_chunk=2)
    evaluate(folder, source="few.zarr")
    save(folder)


def prepare_other_result(folder: Path) -> None:
    save(folder)
    evaluate(folder, level=0.5)


# What is there before, the job that is killed, and the call after that.
JOBS: dict[str, tuple[Callable[[Path], None], Callable[..., None], Callable[..., None]]] = {
    "save": (lambda folder: None, save, save),
    "overwrite scores": (prepare_scores, save_again, save_again),
    "run": (prepare_scores, evaluate, evaluate),
    "add models": (prepare_few, evaluate, evaluate),
    "add resamples": (prepare_result, add_resamples, add_resamples),
    "overwrite a result": (prepare_other_result, evaluate_again, evaluate_again),
    "overwrite a result, then resume": (prepare_other_result, evaluate_again, evaluate),
}


def killed_before(number: int, folder: Path) -> None:
    """Count changes below a folder from now on, and kill this process before the given one."""
    left = number
    place = str(folder)

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        changes = event in CHANGES or (event == "open" and _writes(arguments))
        if changes and arguments and str(arguments[0]).startswith(place):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


def _writes(arguments: tuple[Any, ...]) -> bool:
    return bool(arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def forked(work: Callable[[], None]) -> str:
    """Do the work in another process; return how it ended: "done", "killed" or an error in words."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        outcome = "done"
        try:
            work()
        except AucprError as error:
            outcome = f"{type(error).__name__}: {error}"
        except BaseException:
            outcome = f"bare: {traceback.format_exc()}"
        os.write(writing, outcome.encode()[:4000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        outcome = stream.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    return "killed" if os.WIFSIGNALED(status) else outcome


def digest_of(folder: Path) -> dict[str, str]:
    """Return a digest of every file, random tokens apart."""
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def every_point(name: str, folder: Path, step: int = 1) -> dict[str, Any]:
    """Kill a job at each point, call it again, and report what did not end as if undisturbed."""
    prepare, job, call_again = JOBS[name]
    start = folder / "start"
    start.mkdir()
    assert forked(lambda: prepare(start)) == "done"
    place = folder / "place"
    shutil.copytree(start, place)
    assert (outcome := forked(lambda: job(place))) == "done", outcome
    expected = digest_of(place)
    report: dict[str, Any] = {"points": 0, "again": 0, "remedy": 0, "wrong": []}
    number = 1
    while True:
        shutil.rmtree(place)
        shutil.copytree(start, place)

        def killed(number: int = number) -> None:
            killed_before(number, place)
            job(place)

        if (outcome := forked(killed)) != "killed":
            assert outcome == "done", outcome
            break
        report["points"] += 1
        outcome = forked(lambda: call_again(place))
        remedied = "overwrite=True" in outcome
        if remedied:
            outcome = forked(lambda: call_again(place, overwrite=True))
        found = digest_of(place)
        if outcome == "done" and found == expected:
            report["remedy" if remedied else "again"] += 1
        else:
            differing = sorted(key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key))
            report["wrong"].append({"point": number, "outcome": outcome[:600], "files": differing[:6]})
        number += step
    return report


if __name__ == "__main__":
    import distributed  # noqa: F401

    # Loads the kernels, which every fork then has.
    ap.evaluate(SCORES, intervals=["bootstrap"], n_resamples=5, keep_replicates=True)
    print(json.dumps(every_point(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))))
