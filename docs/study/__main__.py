"""Simulate what the pages say of estimators, intervals and comparisons, and write their tables.

``python -m docs.study`` writes the tables of the pages from the stored results in this folder. ``--run`` simulates
first; name studies to run those alone. ``--share 0.1 --run`` takes a tenth of the simulations. ``--small`` simulates
every study with few, in a few minutes, and prints its tables; nothing is kept. ``--print`` prints all as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

from docs import pages

FOLDER = Path(__file__).parent
STUDIES = sorted(path.stem for path in FOLDER.glob("[!_]*.py"))


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
            for name, study in studies.items():
                run(name, study, Path(folder), 0.01)
                print(*tables(study, Path(folder)).values(), sep="\n\n", end="\n\n", flush=True)
        return
    for name, study in studies.items() if options.run else ():
        run(name, study, FOLDER, options.share)
    if options.print:
        print(json.dumps({page: text for study in studies.values() for page, text in tables(study, FOLDER).items()}))
        return
    for study in studies.values():
        for place, text in tables(study, FOLDER).items():
            page, _, block = place.partition("#")
            pages.write_block(pages.HERE / page, block, text)


def run(name: str, study: ModuleType, folder: Path, share: float) -> None:
    """Simulate a study, and say how long it took, in all its processes."""
    before, started = os.times(), time.monotonic()
    study.run(folder, share)
    used = sum(os.times()[:4]) - sum(before[:4])
    print(f"{name}: {time.monotonic() - started:.0f} s, {used:.0f} s of processor time", flush=True)


def tables(study: ModuleType, folder: Path) -> dict[str, str]:
    """Return the tables of a study by their places, such as ``tables.md#coverage``."""
    return {f"{page}#{make.__name__}": make(folder) for page, makes in study.TABLES.items() for make in makes}


if __name__ == "__main__":
    main()
