"""A program that adds a run to a store, killed before its N-th change of the file system: each attempt is a fork of it.

It reads the folder and N (or -1, not to be killed), and writes how the attempt ended and how many changes it made.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from crashes import disturbed, forked, kill

from aucpr_dask.scores.importing.trec import import_trec


def add(folder: Path, last: int) -> None:
    """Add run b to the store, and write the number of changes next to it."""
    n_changes = disturbed(last, folder, kill)
    import_trec(folder / "b.run", folder / "qrels", folder / "s.zarr", append=True)
    (folder / "changes").write_text(str(n_changes()))


def answer(folder: Path, last: int) -> tuple[str, int]:
    """Return how an attempt ended, and how many changes it made if nothing killed it."""
    outcome = forked(lambda: add(folder, last))
    return outcome, int((folder / "changes").read_text()) if outcome == "done" else 0


if __name__ == "__main__":
    for line in sys.stdin:
        place, number = json.loads(line)
        print(json.dumps(answer(Path(place), number)), flush=True)
