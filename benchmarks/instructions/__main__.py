"""Count instructions: ``python -m benchmarks.instructions [--only NAME] [--json FILE] [--markdown FILE]``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.instructions.callgrind import ROOT, CountingError, count
from benchmarks.instructions.report import as_json, as_markdown
from benchmarks.instructions.workloads import NAMES


def main() -> int:
    """Count the workloads of this checkout."""
    options = _parse()
    try:
        with tempfile.TemporaryDirectory() as folder:
            counts = count(options.package, Path(folder), options.only, options.repeats)
    except CountingError as error:
        print(error, file=sys.stderr)
        return 2
    print(as_markdown(counts))
    for path, text in ((options.markdown, as_markdown(counts)), (options.json, as_json(counts))):
        if path is not None:
            path.write_text(text, encoding="utf-8")
    return 1 if counts.errors else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instructions", description="Count instructions.")
    parser.add_argument("--only", action="append", default=[], choices=NAMES, help="a workload; again for more")
    parser.add_argument("--repeats", type=int, default=3, help="how often each is counted; the smallest counts")
    parser.add_argument("--package", type=Path, default=ROOT, help="the folder that holds aucpr_dask")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
