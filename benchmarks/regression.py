"""Compare two commits by instructions: ``python -m benchmarks.regression [BASE [HEAD]]``.

BASE is a commit (default ``HEAD~1``), HEAD another (default: the working tree). Both run the workloads of this checkout
in this environment; each commit is extracted into a temporary folder. The exit status is 1 if any workload takes more
instructions than the threshold allows, 2 if nothing could be counted.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.instructions.callgrind import ROOT, CountingError, Counts, count
from benchmarks.instructions.workloads import IMPORT, NAMES, WORKLOADS

WORKING_TREE = "working tree"
THRESHOLD = 0.03
MILLION = 1_000_000
PACKAGE = "aucpr_dask"


@dataclass(frozen=True)
class Change:
    """The counts of one workload at two commits."""

    name: str
    base: int | None  # instructions; None if it cannot run there
    head: int | None
    allowed: float  # growth, as a fraction

    @property
    def ratio(self) -> float | None:
        """The instructions of head / those of base."""
        return self.head / self.base if self.base and self.head is not None else None

    @property
    def verdict(self) -> str:
        """The judgement, in a word or two."""
        if self.head is None:
            return "**fails**"
        if self.ratio is None:
            return "new"
        if self.ratio > 1 + self.allowed:
            return "**more**"
        return "fewer" if self.ratio < 1 - self.allowed else "the same"

    @property
    def is_worse(self) -> bool:
        """Whether the check fails for it."""
        return self.verdict.startswith("**")


def compare(
    repository: Path, base: str, head: str, only: Iterable[str] = (), threshold: float = THRESHOLD
) -> list[Change]:
    """Count at two commits and return the changes.

    Parameters
    ----------
    repository : Path
        A checkout.
    base, head : str
        Commits, by any name that git accepts; or `WORKING_TREE`.
    only : iterable of str
        Names of workloads; empty for all.
    threshold : float
        The allowed growth, as a fraction.

    Returns
    -------
    list of Change

    Raises
    ------
    CountingError
        If nothing can be counted, or a commit does not exist.
    """
    with ThreadPoolExecutor(2) as both:  # other work on the machine does not change the counts
        sides = both.map(lambda commit: count_at(repository, commit, tuple(only)), (base, head))
        return changes(*sides, threshold)


def changes(base: Counts, head: Counts, threshold: float) -> list[Change]:
    """Return the changes, in the order of the workloads."""
    names = [name for name in NAMES if any(name in side.of or name in side.errors for side in (base, head))]
    found = {name: [side.of.get(name) for side in (base, head)] for name in names}
    return [Change(name, *sides, threshold) for name, sides in found.items() if sides != [None, None]]


def count_at(repository: Path, commit: str, only: tuple[str, ...]) -> Counts:
    """Count the workloads with the package of a commit."""
    with tempfile.TemporaryDirectory() as folder:
        package = repository
        if commit != WORKING_TREE:
            package = Path(folder, "package")
            _extract(repository, commit, package)
        dumps = Path(folder, "dumps")
        dumps.mkdir()
        return count(package, dumps, only)


def as_markdown(compared: list[Change], base: str, head: str) -> str:
    """Return the table of all workloads, and a line with the verdict."""
    rows = [_row(change) for change in compared]
    worse = [change.name for change in compared if change.is_worse]
    verdict = f"Worse: {'; '.join(worse)}." if worse else "No workload takes more instructions than allowed."
    header = ("instructions", base, head, "ratio", "")
    ruler = ("---", *["---:"] * (len(header) - 1))
    table = "\n".join(f"| {' | '.join(row)} |" for row in (header, ruler, *rows))
    return f"{table}\n\n{verdict}\n"


def as_json(compared: list[Change], base: str, head: str) -> str:
    """Return the changes as JSON."""
    found = [asdict(change) | {"ratio": change.ratio, "is_worse": change.is_worse} for change in compared]
    return json.dumps({"base": base, "head": head, "changes": found}, indent=2) + "\n"


def _row(change: Change) -> tuple[str, ...]:
    unit, units = "import", 1
    if change.name != IMPORT:
        unit, units = WORKLOADS[change.name].unit, WORKLOADS[change.name].units
    sides = ("" if side is None else as_figure(side / units) for side in (change.base, change.head))
    ratio = "" if change.ratio is None else f"{change.ratio:.3f}"
    return (f"{change.name}, per {unit}", *sides, ratio, change.verdict)


def as_figure(number: float) -> str:
    """Return a number to three or four digits, large ones in millions."""
    if number >= MILLION:
        return f"{number / MILLION:.3g} M" if number < 1000 * MILLION else f"{number / MILLION:,.0f} M"
    return f"{number:.3g}" if number < 100 else f"{number:,.0f}"


def _extract(repository: Path, commit: str, folder: Path) -> None:
    """Write the package of a commit into a folder; unlike a worktree this leaves no trace in the repository."""
    command = ["git", "-C", str(repository), "archive", "--format=tar", commit, PACKAGE]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        raise CountingError(f"git has no package {PACKAGE} at {commit!r}: {done.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    options = _parse(arguments)
    try:
        compared = compare(options.repository, options.base, options.head, options.only, options.threshold / 100)
    except CountingError as error:
        print(error, file=sys.stderr)
        return 2
    print(as_markdown(compared, options.base, options.head))
    if options.json is not None:
        options.json.write_text(as_json(compared, options.base, options.head), encoding="utf-8")
    return 1 if any(change.is_worse for change in compared) else 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.regression",
        description="Compare two commits by instructions.",
        epilog=f"Workloads: {'; '.join(NAMES)}.",
    )
    parser.add_argument("base", nargs="?", default="HEAD~1", help="a commit (default HEAD~1)")
    parser.add_argument("head", nargs="?", default=WORKING_TREE, help="another (default: the working tree)")
    parser.add_argument(
        "--only", action="append", default=[], choices=NAMES, metavar="NAME", help="a workload; repeatable; default all"
    )
    parser.add_argument("--threshold", type=float, default=100 * THRESHOLD, help="growth allowed, in %% (default 3)")
    parser.add_argument("--repository", type=Path, default=ROOT, help="the checkout (default: this one)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the changes to this file")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
