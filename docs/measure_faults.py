"""Put faults into runs, count what became of them, and write the tables of ``faults.md``.

``python docs/measure_faults.py`` runs all of it; ``--only NAME`` (repeat) one kind. What was found is kept in
``faults/*.json``, one file for each kind; with ``--print`` the tables are printed from these and nothing is run.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pages

PAGE = pages.HERE / "faults.md"
FOLDER = pages.HERE / "faults"

FAULTS = {
    "exit": "a worker is killed: it exits",
    "SIGKILL": "a worker is killed: SIGKILL",
    "segfault": "a worker is killed: segmentation fault",
    "scheduler": "the scheduler is killed",
    "client": "the client is killed",
    "machine": "client, scheduler and workers are killed at once",
    "write": "the same between the last byte of a file and its name, half of it cut off",
    "pause": "all are halted for 0.1 s",
    "disk": "the disk runs full",
    "greedy": "a block asks for more memory than its process may have",
    "outgrown": "a block outgrows its worker, whose nanny kills it",
    "poison": "a block kills every worker that reads it",
    "twice": "a second run of the same call",
    "other": "a second run with other options",
    "overwrite": "a second run with other options and `overwrite=True`",
}


def measure(name: str, times: int) -> dict[str, Any]:
    """Run one kind of fault so many times, and return what became of it."""
    sys.path.insert(0, str(pages.HERE.parent / "tests"))
    import faults

    with tempfile.TemporaryDirectory() as place:
        trial = faults.Trial(Path(place), times=times)
        outgrown = {"memory_limit": faults.memory_of_a_worker() + (1 << 28)} if name == "outgrown" else {}
        alone = {"scheduler": faults.kill_scheduler, "client": faults.kill_client, "pause": faults.pause_machine}
        if name in alone:
            return asdict(alone[name](trial))
        with faults.local_cluster(Path(place), **outgrown) as client:
            kinds: dict[str, Callable[..., Any]] = {
                "machine": functools.partial(faults.stop_machine, within_a_write=False),
                "write": functools.partial(faults.stop_machine, within_a_write=True),
                "disk": faults.fill_disk,
                "greedy": functools.partial(faults.poison_block, illness=faults.take_too_much),
                "outgrown": functools.partial(faults.poison_block, illness=faults.eat_memory),
                "poison": functools.partial(faults.poison_block, illness=faults.segfault),
                "twice": faults.run_twice,
                "other": functools.partial(faults.run_twice, seed=5),
                "overwrite": functools.partial(faults.run_twice, seed=5, overwrite=True),
            }
            kill = functools.partial(faults.kill_workers, how=name)
            return asdict(kinds.get(name, kill)(trial, client))


def endure() -> list[dict[str, Any]]:
    """Run ten thousand blocks, and return samples of what the processes took."""
    sys.path.insert(0, str(pages.HERE.parent / "tests"))
    import faults

    with tempfile.TemporaryDirectory() as place:
        return [asdict(sample) for sample in faults.endure(Path(place))]


def faults_table() -> str:
    """Return the table of what was broken."""
    rows = []
    for name, words in FAULTS.items():
        path = FOLDER / f"{name}.json"
        if not path.exists():
            continue
        found = json.loads(path.read_text())
        recomputed = found["tasks"] - found["blocks"]
        remarks = "; ".join(f"{remark} ({n})" for remark, n in sorted(found["remarks"].items()))
        rows.append([words, found["injected"], found["survived"], f"{found['blocks']:,}", recomputed, remarks])
    return pages.table(["fault", "injected", "survived", "blocks", "recomputed", "remarks"], rows)


def endurance_table() -> str:
    """Return the table of the long run, and what a block costs each process."""
    if not (FOLDER / "endurance.json").exists():
        return ""
    samples = json.loads((FOLDER / "endurance.json").read_text())
    names = list(samples[0]["mebibytes"])
    rows = [
        [f"{sample['blocks']:,}", f"{sample['seconds']:.0f}", *(f"{sample['mebibytes'][name]:.0f}" for name in names)]
        for sample in samples
    ]
    first, last = samples[0], samples[-1]
    n_blocks = last["blocks"] - first["blocks"]
    costs = {name: (last["cpu_seconds"][name] - first["cpu_seconds"][name]) / n_blocks * 1e3 for name in names}
    text = ", ".join(f"{name} {cost:.2g} ms" for name, cost in costs.items())
    table = pages.table(["blocks done", "seconds", *(f"{name}, MiB" for name in names)], rows)
    return f"{table}\n\nProcessor time for each block: {text}."


def main() -> None:
    """Read the words and do what they say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[*FAULTS, "endurance"], help="run only this kind (repeat)")
    parser.add_argument("--times", type=int, default=20, help="how often each fault is injected")
    parser.add_argument("--print", action="store_true", help="print the tables as JSON; run and write nothing")
    words = parser.parse_args()
    if not words.print:
        FOLDER.mkdir(exist_ok=True)
        for name in words.only or [*FAULTS, "endurance"]:
            found = endure() if name == "endurance" else measure(name, words.times)
            (FOLDER / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
            print(name, found if name != "endurance" else found[-1], flush=True)
    tables = {"faults": faults_table(), "endurance": endurance_table()}
    if words.print:
        print(json.dumps(tables))
        return
    for name, text in tables.items():
        pages.write_block(PAGE, name, text)


if __name__ == "__main__":
    main()
