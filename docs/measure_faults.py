"""Inject faults into runs, count the outcomes, and write the tables of ``faults.md``.

Outcomes are kept in ``faults/*.json``. ``--measure`` injects all faults again first, ``--only NAME`` (repeat) some.
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
    "write": "the same, between the last byte of a file and its renaming; half of the file is cut off",
    "pause": "all processes are suspended for 0.1 s",
    "disk": "the disk is full",
    "greedy": "a task asks for more memory than its process may have",
    "outgrown": "a task outgrows its worker, which Dask's nanny then kills",
    "poison": "a task kills every worker that runs it",
    "twice": "a second run of the same call",
    "other": "a second run with other options",
    "overwrite": "a second run with other options and `overwrite=True`",
}


def measure(name: str, times: int) -> Any:
    """Inject one kind of fault several times, and return the outcomes."""
    sys.path.insert(0, str(pages.HERE.parent / "tests"))
    import faults

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        if name == "endurance":
            return [asdict(sample) for sample in faults.endure(place)]
        trial = faults.Trial(place, times=times)
        outgrown = {"memory_limit": faults.memory_of_a_worker() + (1 << 28)} if name == "outgrown" else {}
        alone = {"scheduler": faults.kill_scheduler, "client": faults.kill_client, "pause": faults.pause_machine}
        if name in alone:
            return asdict(alone[name](trial))
        with faults.local_cluster(place, **outgrown) as client:
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


def faults_table() -> str:
    """Return the table of faults and their outcomes."""
    rows = []
    for name, words in FAULTS.items():
        found = json.loads((FOLDER / f"{name}.json").read_text())
        recomputed = found["tasks"] - found["blocks"]
        remarks = sorted((what, n) for what, n in found["remarks"].items() if "temporary files" not in what)
        said = "; ".join(f"{what} ({n})" for what, n in remarks)
        rows.append([words, found["injected"], found["survived"], recomputed, said])
    return pages.table(["fault", "injected", "survived", "recomputed", "what the run did"], rows)


def endurance_table() -> str:
    """Return some rows of the long run, and the processor time of a block in each process."""
    samples = json.loads((FOLDER / "endurance.json").read_text())
    first, last = samples[0], samples[-1]
    names = list(first["mebibytes"])
    rows = [
        [f"{sample['blocks']:,}", f"{sample['seconds']:.0f}", *(f"{sample['mebibytes'][name]:.0f}" for name in names)]
        for sample in (first, samples[1], samples[len(samples) // 2], last)
    ]
    n_blocks = last["blocks"] - first["blocks"]
    costs = {name: (last["cpu_seconds"][name] - first["cpu_seconds"][name]) / n_blocks * 1e3 for name in names}
    text = ", ".join(f"{name} {cost:.2g} ms" for name, cost in costs.items())
    table = pages.table(["blocks done", "seconds", *(f"{name}, MiB" for name in names)], rows)
    return f"{table}\n\nProcessor time per block: {text}."


def main() -> None:
    """Measure what the options name, and write or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=[*FAULTS, "endurance"], help="inject only this kind (repeat)"
    )
    parser.add_argument("--times", type=int, default=20, help="how often to inject each fault")
    parser.add_argument("--measure", action="store_true", help="inject the faults again")
    parser.add_argument("--print", action="store_true", help="print the tables as JSON; write nothing")
    options = parser.parse_args()
    if options.measure or options.only:
        for name in options.only or [*FAULTS, "endurance"]:
            found = measure(name, options.times)
            (FOLDER / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
            print(name, found if name != "endurance" else found[-1], flush=True)
    tables = {"faults": faults_table(), "endurance": endurance_table()}
    if options.print:
        print(json.dumps(tables))
        return
    for name, text in tables.items():
        pages.write_block(PAGE, name, text)


if __name__ == "__main__":
    main()
