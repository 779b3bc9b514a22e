"""How far each hot kernel is from what the machine could do: ``python -m benchmarks.roofline``.

Instructions are counted (or read from a file that ``python -m benchmarks.instructions --json`` wrote), the limits of
one core are measured, and every workload is timed twice: as it is, and in the same machine code that was counted, for
AVX2.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.instructions.callgrind import ROOT, CountingError, Counts, count, seconds_of_workloads
from benchmarks.instructions.report import as_figure, read_counts, table
from benchmarks.instructions.report import as_markdown as counts_table
from benchmarks.instructions.workloads import WORKLOADS, Workload
from benchmarks.limits import Limits, measure_limits
from benchmarks.machine import describe_machine

READING, LOOK_UPS, SORTING, INSTRUCTIONS = "reading", "look-ups", "sorting", "instructions"
GIGA, NANO = 1e9, 1e-9
MARKS = "<!-- begin generated: {} -->", "<!-- end generated: {} -->"


@dataclass(frozen=True)
class Kernel:
    """One workload beside the limits; all figures per unit (an item, an item drawn)."""

    name: str
    instructions: float
    bytes: float
    seconds: float  # as it is
    counted_seconds: float  # in the machine code that was counted
    shares: dict[str, float]  # of each limit: the time that it alone would take, as a share of the time taken

    @property
    def intensity(self) -> float:
        """Return instructions per byte."""
        return self.instructions / self.bytes

    @property
    def rate(self) -> float:
        """Return instructions per second."""
        return self.instructions / self.counted_seconds

    @property
    def binding(self) -> str:
        """Return the limit that is nearest."""
        return max(self.shares, key=lambda limit: self.shares[limit])


def kernel(workload: Workload, instructions: int, seconds: float, counted_seconds: float, limits: Limits) -> Kernel:
    """Set one workload beside the limits."""
    per_unit, counted_per_unit = seconds / workload.units, counted_seconds / workload.units
    instructions_per_unit = instructions / workload.units
    floors = {
        READING: workload.bytes_per_unit / limits.bandwidth[limits.level(workload.all_bytes)],
        LOOK_UPS: workload.lookups * limits.lookup[limits.level(workload.table)],
        SORTING: workload.sorts * limits.sort[workload.sorted_as],
    }
    shares = {limit: floor / per_unit for limit, floor in floors.items()}
    shares[INSTRUCTIONS] = instructions_per_unit / limits.scalar / counted_per_unit
    return Kernel(workload.name, instructions_per_unit, workload.bytes_per_unit, per_unit, counted_per_unit, shares)


def kernels_of(
    counts: Counts, seconds: dict[str, float], counted_seconds: dict[str, float], limits: Limits
) -> list[Kernel]:
    """Set all workloads beside the limits that have a size in items."""
    return [
        kernel(workload, counts.of[name].instructions, seconds[name], counted_seconds[name], limits)
        for name, workload in WORKLOADS.items()
        if workload.units > 1 and all(name in known for known in (counts.of, seconds, counted_seconds))
    ]


def kernels_table(kernels: list[Kernel], limits: Limits) -> str:
    """Return the kernels as a Markdown table."""
    header = (
        "per item, or item drawn",
        "bytes",
        "instructions",
        "time",
        "the same, AVX2",
        "read, GB/s",
        "of what is possible",
        "10⁹ instructions/s, AVX2",
        "of what is possible",
        "nearest limit",
        "time / limit",
    )
    return table(header, [_row(kernel, limits) for kernel in kernels])


def _row(kernel: Kernel, limits: Limits) -> tuple[str, ...]:
    return (
        kernel.name,
        as_figure(kernel.bytes),
        as_figure(kernel.instructions),
        f"{kernel.seconds / NANO:.2f} ns",
        f"{kernel.counted_seconds / NANO:.2f} ns",
        f"{kernel.bytes / kernel.seconds / GIGA:.2g}",
        _percent(kernel.shares[READING]),
        f"{kernel.rate / GIGA:.3g}",
        _percent(kernel.shares[INSTRUCTIONS]),
        kernel.binding,
        f"{1 / kernel.shares[kernel.binding]:.2g}",
    )


def limits_table(limits: Limits) -> str:
    """Return what the machine can do as two Markdown tables."""
    near = (
        (
            f"{level}, {_size(size)}",
            f"{limits.bandwidth[level] / GIGA:.3g} GB/s",
            f"{limits.latency[level] / NANO:.2g} ns",
            f"{limits.lookup[level] / NANO:.2g} ns",
            f"{limits.increment[level] / NANO:.2g} ns",
        )
        for level, size in limits.sizes.items()
    )
    header = ("one core", "reading on", "a look-up after another", "look-ups at once", "counts at once")
    rates = [
        ("instructions of one number each", f"{limits.scalar / GIGA:.3g} · 10⁹ per second"),
        ("float32 operations in vectors", f"{limits.vector / GIGA:.3g} · 10⁹ per second"),
        *((f"`np.sort`, 10⁵ {dtype}", f"{s / NANO:.2f} ns per number") for dtype, s in limits.sort.items()),
    ]
    return f"{table(header, list(near))}\n\n{table(('one core', 'at best'), rates)}"


def fill(page: str, name: str, text: str) -> str:
    """Return the page with `text` between the marks called `name`."""
    begin, end = (mark.format(name) for mark in MARKS)
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(page):
        raise ValueError(f"the page has no marks called {name!r}")
    return pattern.sub(lambda _: f"{begin}\n\n{text.strip()}\n\n{end}", page)


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


def _size(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def measure(package: Path, counts_file: Path | None, repeats: int) -> Iterator[tuple[str, Any]]:
    """Yield what is counted, timed and measured, each with its name."""
    with tempfile.TemporaryDirectory() as folder:
        counts = count(package, Path(folder)) if counts_file is None else read_counts(counts_file)
        yield "counts", counts
        yield "limits", measure_limits()
        yield "seconds", seconds_of_workloads(package, Path(folder), repeats, as_counted=False)
        yield "counted_seconds", seconds_of_workloads(package, Path(folder), repeats, as_counted=True)


def main(arguments: list[str] | None = None) -> int:
    """Measure, and write what the command line asks for."""
    options = _parse(arguments)
    machine = describe_machine()
    try:
        found = dict(measure(options.package, options.counts, options.repeats))
    except CountingError as error:
        print(error, file=sys.stderr)
        return 2
    kernels = kernels_of(**found)
    limits = found["limits"]
    texts = {
        "counts": counts_table(found["counts"]),
        "kernels": kernels_table(kernels, limits),
        "limits": limits_table(limits),
        "machine": "\n".join(f"* {what}: {value}" for what, value in machine.items()),
    }
    print("\n\n".join(texts.values()))
    if options.page is not None:
        page = options.page.read_text(encoding="utf-8")
        for name, text in texts.items():
            page = fill(page, name, text)
        options.page.write_text(page, encoding="utf-8")
    if options.json is not None:
        document = {"machine": machine, "limits": asdict(limits), "kernels": [asdict(kernel) for kernel in kernels]}
        options.json.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if options.picture is not None:
        from benchmarks.roofline_picture import draw, save

        save(draw(kernels, limits), options.picture)
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.roofline", description="Set kernels beside the limits.")
    parser.add_argument("--counts", type=Path, metavar="FILE", help="JSON of benchmarks.instructions; default: count")
    parser.add_argument("--package", type=Path, default=ROOT, help="the folder that holds aucpr_dask")
    parser.add_argument("--repeats", type=int, default=30, help="how often each is timed; the shortest counts")
    parser.add_argument("--page", type=Path, metavar="FILE", help="a page with marks for the tables to fill in")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="the picture to draw: .svg or .png")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
