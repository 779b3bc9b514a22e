"""Simulate what the pages say of estimators, intervals and comparisons, and write their tables.

``python -m docs.study`` writes the tables of the pages from the stored results in this folder. ``--run`` simulates
first; name studies to run those alone. ``--share 0.1 --run`` takes a tenth of the simulations. ``--small`` simulates
every study with few, in a few minutes, and prints its tables; nothing is kept. ``--print`` prints all as JSON.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Set
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

from docs import pages

FOLDER = Path(__file__).parent
STUDIES = sorted(path.stem for path in FOLDER.glob("[!_]*.py"))
WITH_WORKERS = ("boyd", "further")  # which use all cores, and share their tables


def main() -> None:
    """Simulate, write or print."""
    parser = argparse.ArgumentParser(
        prog="python -m docs.study", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=", ".join(STUDIES))
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--run", action="store_true", help="simulate and keep the results")
    size.add_argument("--small", action="store_true", help="simulate a little and print the tables")
    size.add_argument("--print", action="store_true", help="print the tables from the stored results as JSON")
    parser.add_argument("--share", type=float, default=1.0, help="of the simulations that --run takes")
    options = parser.parse_args()
    if unknown := set(options.studies) - set(STUDIES):
        parser.error(f"no study {', '.join(sorted(unknown))}; there are {', '.join(STUDIES)}")
    studies = {name: import_module(f"docs.study.{name}") for name in options.studies or STUDIES}
    if options.small:
        with TemporaryDirectory() as folder:
            run_all(studies.keys(), Path(folder), 0.01)
            for study in studies.values():
                print(*tables(study, Path(folder)).values(), sep="\n\n", end="\n\n")
        return
    if options.run:
        run_all(studies.keys(), FOLDER, options.share)
    if options.print:
        print(json.dumps({page: text for study in studies.values() for page, text in tables(study, FOLDER).items()}))
        return
    for study in studies.values():
        for place, text in tables(study, FOLDER).items():
            page, _, block = place.partition("#")
            pages.write_block(pages.HERE / page, block, text)


def run_all(studies: Set[str], folder: Path, share: float) -> None:
    """Simulate studies: one after the other those that have workers, then the others, one on each core."""
    for name in sorted(studies & set(WITH_WORKERS)):
        run(name, folder, share)
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        list(pool.map(run, sorted(studies - set(WITH_WORKERS)), repeat(folder), repeat(share)))


def run(name: str, folder: Path, share: float) -> None:
    """Simulate a study, and say how long it took, in all its processes."""
    before, started = os.times(), time.monotonic()
    import_module(f"docs.study.{name}").run(folder, share)
    used = sum(os.times()[:4]) - sum(before[:4])
    print(f"{name}: {time.monotonic() - started:.0f} s, {used:.0f} s of processor time", flush=True)


def tables(study: ModuleType, folder: Path) -> dict[str, str]:
    """Return the tables of a study by their places, such as ``tables.md#coverage``."""
    return {f"{page}#{make.__name__}": make(folder) for page, makes in study.TABLES.items() for make in makes}


if __name__ == "__main__":
    import_module("docs.study.__main__").main()  # by the name under which other processes find its functions
