"""The program that is counted: ``python -P program.py --package FOLDER --labels FILE [--only NAME ...]``.

Every section ends with a call of ``getpgid``, which nothing else calls here: Callgrind then writes the counts of the
section. The labels of the sections, in order, go to a file. Without Callgrind the program fills the cache of compiled
kernels.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

BETWEEN = ""  # the label of sections that are not counted
WARM_UP = 4  # calls before those that count, since the interpreter specializes code that it runs


def main() -> None:
    """Run every workload a few times, a section each."""
    options = _parse()
    labels: list[str] = []

    def end(label: str) -> None:
        labels.append(label)
        os.getpgid(0)

    gc.collect()
    gc.freeze()
    gc.disable()
    end(BETWEEN)
    import aucpr_dask

    end("import aucpr_dask")
    _check_origin(aucpr_dask.__file__, options.package)
    from aucpr_dask.kernels.areas import rows

    rows.WORTH_COMPILING = 0  # otherwise the first rankings of a process go through a slower loop
    errors = {}
    for name, workload in _workloads().items():
        if options.only and name not in options.only:
            continue
        try:
            call = workload.prepare()
            for _ in range(WARM_UP):
                call()
        except Exception as error:  # an older commit may lack a function
            errors[name] = f"{type(error).__name__}: {error}".splitlines()[0]
            continue
        gc.collect()
        for _ in range(options.repeats):
            end(BETWEEN)
            call()
            end(name)
    options.labels.write_text(json.dumps({"labels": labels, "errors": errors}))


def _workloads() -> dict[str, Any]:
    """Return the workloads next to this file, independent of any package `benchmarks` on the path."""
    spec = importlib.util.spec_from_file_location("workloads", Path(__file__).with_name("workloads.py"))
    if spec is None or spec.loader is None:
        raise ImportError("workloads.py is not next to this program")
    module = importlib.util.module_from_spec(spec)
    sys.modules["workloads"] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return dict(module.WORKLOADS)


def _check_origin(file: str | None, package: Path) -> None:
    if file is None or package.resolve() not in Path(file).resolve().parents:
        raise ImportError(f"aucpr_dask was imported from {file}, not from {package}")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--package", type=Path, required=True, help="the folder that holds aucpr_dask")
    parser.add_argument("--labels", type=Path, required=True, help="the file for the labels of the sections")
    parser.add_argument("--only", action="append", default=[], help="a workload to run; repeatable; default all")
    parser.add_argument("--repeats", type=int, default=3, help="sections per workload")
    return parser.parse_args()


if __name__ == "__main__":
    main()
