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
import warnings
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from itertools import chain, repeat
from pathlib import Path
from tempfile import TemporaryDirectory

from docs import pages

FOLDER = Path(__file__).parent
STUDIES = sorted(path.stem for path in FOLDER.glob("[!_]*.py"))
WITH_WORKERS = {"boyd"}  # which uses all cores


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
    names = options.studies or STUDIES
    if options.small:
        with TemporaryDirectory() as folder:
            run_all(names, Path(folder), 0.01)
            print(*tables(names, Path(folder)).values(), sep="\n\n")
        return
    if options.run:
        run_all(names, FOLDER, options.share)
    if options.print:
        print(json.dumps(tables(names, FOLDER)))
        return
    for place, text in tables(names, FOLDER).items():
        page, _, block = place.partition("#")
        pages.write_block(pages.HERE / page, block, text)


def run_all(names: list[str], folder: Path, share: float) -> None:
    """Simulate first the study that has workers, then the others, one on each core."""
    for name in WITH_WORKERS & set(names):
        run(name, folder, share)
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        list(pool.map(run, sorted(set(names) - WITH_WORKERS), repeat(folder), repeat(share)))


def run(name: str, folder: Path, share: float) -> None:
    """Simulate a study, and say how long it took, in all its processes."""
    before, started = os.times(), time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few units and positives, which are what is studied
        import_module(f"docs.study.{name}").run(folder, share)
    used = sum(os.times()[:4]) - sum(before[:4])
    print(f"{name}: {time.monotonic() - started:.0f} s, {used:.0f} s of processor time", flush=True)


def tables(names: list[str], folder: Path) -> dict[str, str]:
    """Return the tables of studies by their places, such as ``tables.md#coverage``."""
    found = (import_module(f"docs.study.{name}").TABLES.items() for name in names)
    return {f"{page}#{make.__name__}": make(folder) for page, makes in chain(*found) for make in makes}


if __name__ == "__main__":
    import_module("docs.study.__main__").main()  # by the name under which other processes find its functions
