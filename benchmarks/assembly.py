"""Which inner loops of the kernels are vectorised: ``python -m benchmarks.assembly [--all] [--page FILE]``.

Compiles every kernel anew, in a cache of its own, and reads the machine code: an innermost loop is *vectorised* if it
computes on several numbers of a register at once (packed instructions such as ``vpaddd`` on ``ymm`` or ``zmm``).
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.instructions.report import table

_LABEL = re.compile(r"^(\.L\w+):")
_JUMP = re.compile(r"^\s+j\w+\s+(\.L\w+)")
_INSTRUCTION = re.compile(r"^\s+([a-z]\w*)(?:\s+(.*))?$")
# Packed arithmetic, comparisons and conversions; moves, shuffles and stores alone make no loop vectorised.
_PACKED = re.compile(
    r"^v?(p(add|sub|mul|madd|and|or|xor|cmp|max|min|sll|srl|sra|sad|abs|movzx|movsx|movm|tern|blend|dp)\w*"
    r"|(add|sub|mul|div|min|max|sqrt|and|or|xor|cmp|blend|fn?m(add|sub)\d*|cvt\w+)\w*p[sd]\w*|cvt(t?p[sd]|u?dq|u?qq)2\w+)$"
)
_WIDTHS = {"zmm": 64, "ymm": 32, "xmm": 16}


@dataclass(frozen=True)
class Expected:
    """A hot loop, known by an instruction that only it has."""

    kernel: str  # module.function
    loop: str  # what it does
    mark: str  # a regular expression: a packed instruction of it; empty if there is none to be had
    why_not: str = ""


HOT = (
    Expected("long.survey_row", "count labels", r"vps(add|ub)\w|vpadd\w"),
    Expected("long.survey_row", "copy the positives", "", "where a score goes depends on all labels before it"),
    Expected("packed.pack_float32", "smallest and largest magnitude", r"v?pm(in|ax)u\w"),
    Expected("packed.packed_blocks", "places of positives", "", "where a place goes depends on all keys before it"),
    Expected("long.split_row", "count labels", r"vps(add|ub)\w|vpadd\w"),
    Expected("long.split_row", "count missing scores", r"v?cmp\w*p[sd]"),
    Expected("long.split_row", "copy the classes apart", "", "where a score goes depends on all labels before it"),
    Expected("long.long_row", "buckets of negatives", r"v?cvttp[sd]2dq"),
    Expected("long.long_row", "count negatives in gaps", "", "look-ups, and counts that may be one and the same"),
    Expected("long.long_row", "merge sorted classes", "", "each step depends on the comparison before"),
    Expected("short.short_rows", "buckets of negatives", r"v?cvttp[sd]2dq"),
    Expected("weighted.gaps_row", "buckets of negatives", r"v?cvttp[sd]2dq"),
    Expected("weighted.gaps_row", "weights into gaps", "", "look-ups, and sums that may be one and the same"),
    Expected("ordering.keys_of_scores", "keys", r"vpsll|vpor"),
    Expected("replicates.draw_counts", "random words", r"v?pmuludq"),
    Expected("replicates.draw_counts", "count what is drawn", "", "counts that may be one and the same"),
    Expected("replicates.average_precision_lanes", "add up counts in lanes", r"v?paddd"),
    Expected("replicates.average_precision_lanes", "precision in lanes", r"v?divpd"),
    Expected("lanes.evaluate_lanes", "sums in lanes", r"v?addpd"),
    Expected("bayesian.draw_weights", "random words", r"v?pmuludq"),
    Expected(
        "bayesian.draw_weights", "logarithms", "", "the logarithm is a call of the system's library, one at a time"
    ),
    Expected("influence.add_products", "sums of products", r"v?mulpd|v?fmadd\w*pd"),
)


@dataclass(frozen=True)
class Code:
    """A stretch of machine code."""

    instructions: tuple[tuple[str, str], ...]  # names and operands

    def packed(self, mark: str = r"\w+") -> list[str]:
        """Return the packed instructions whose names begin like the mark, each once."""
        names = (name for name, _ in self.instructions if _PACKED.match(name))
        return list(dict.fromkeys(name for name in names if re.match(mark, name)))

    def width(self, mark: str = r"\w+") -> int:
        """Return the bytes of the widest register that these instructions use, or 0."""
        packed = self.packed(mark)
        operands = " ".join(operands for name, operands in self.instructions if name in packed)
        return next((width for register, width in _WIDTHS.items() if f"%{register}" in operands), 0)


@dataclass(frozen=True)
class Kernel:
    """The machine code of one signature of an entry point."""

    whole: Code
    loops: list[Code]  # those that hold no other


def read_kernel(assembly: str) -> Kernel:
    """Return the machine code of a function, and its innermost loops."""
    return Kernel(Code(tuple(_instructions(assembly.splitlines()))), innermost_loops(assembly))


def innermost_loops(assembly: str) -> list[Code]:
    """Return the loops of a function that hold no other; a loop goes from a label to a jump back to it."""
    lines = assembly.splitlines()
    place = {found[1]: i for i, line in enumerate(lines) if (found := _LABEL.match(line))}
    jumps = ((i, place.get(found[1], i + 1)) for i, line in enumerate(lines) if (found := _JUMP.match(line)))
    spans = sorted({(start, end) for end, start in jumps if start <= end})
    inner = [
        (start, end)
        for start, end in spans
        if not any((a, b) != (start, end) and start <= a and b <= end for a, b in spans)
    ]
    return [Code(tuple(_instructions(lines[start : end + 1]))) for start, end in inner]


def _instructions(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        found = _INSTRUCTION.match(line)
        if found:
            yield found[1], found[2] or ""


def read_kernels() -> dict[str, dict[str, Kernel]]:
    """Return the machine code of every entry point by signature; compiles all of them, which takes a minute."""
    from aucpr_dask.kernels.compiling import CACHE_VARIABLE

    before = os.environ.get(CACHE_VARIABLE)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE_VARIABLE] = folder  # of machine code from a cache, numba shows nothing
        try:
            return {name: _signatures(kernel) for name, kernel in _entry_points()}
        finally:
            del os.environ[CACHE_VARIABLE]
            os.environ |= {} if before is None else {CACHE_VARIABLE: before}


def _entry_points() -> Iterator[tuple[str, Any]]:
    import aucpr_dask.kernels as package

    for module in pkgutil.iter_modules(package.__path__):
        for name, value in vars(importlib.import_module(f"{package.__name__}.{module.name}")).items():
            is_own = getattr(value, "__module__", "").endswith(f".{module.name}")
            if is_own and hasattr(value, "inspect_asm") and value.signatures and value.__name__ != "<lambda>":
                yield f"{module.name}.{name}", value


def _signatures(kernel: Any) -> dict[str, Kernel]:
    return {", ".join(map(str, signature)): read_kernel(text) for signature, text in kernel.inspect_asm().items()}


def hot_table(kernels: dict[str, dict[str, Kernel]]) -> str:
    """Return for each hot loop whether it is vectorised, in all its signatures."""
    rows = [(f"`{hot.kernel}`", hot.loop, finding(hot, kernels)) for hot in HOT]
    return table(("kernel", "loop", "vectorised"), rows, to_the_right=False)


def finding(hot: Expected, kernels: dict[str, dict[str, Kernel]]) -> str:
    """Say whether a hot loop is vectorised."""
    if hot.kernel not in kernels:
        return "there is no such kernel any more"
    if not hot.mark:
        return f"no: {hot.why_not}"
    signatures = list(kernels[hot.kernel].values())
    missing = sum(not kernel.whole.width(hot.mark) for kernel in signatures)
    if missing:
        return f"**no**, in {missing} of {len(signatures)} signatures"
    width = min(kernel.whole.width(hot.mark) for kernel in signatures)
    # A loop of few turns is written out turn by turn, and is none any more.
    in_loop = all(any(loop.packed(hot.mark) for loop in kernel.loops) for kernel in signatures)
    name = signatures[0].whole.packed(hot.mark)[0]
    return f"{width} bytes at a time, `{name}`{'' if in_loop else ', all turns written out'}"


def summary_table(kernels: dict[str, dict[str, Kernel]]) -> str:
    """Return for each entry point how many of its innermost loops are vectorised."""
    rows = [
        (f"`{name}`", str(len(widths)), str(sum(map(bool, widths))), str(max(widths, default=0)))
        for name, signatures in kernels.items()
        for widths in ([loop.width() for loop in kernel.loops] for kernel in signatures.values())
    ]
    return table(("entry point, each signature", "innermost loops", "vectorised", "widest, bytes"), rows)


def main(arguments: list[str] | None = None) -> int:
    """Print the findings; the exit status is 1 if a loop that should be vectorised is not."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.assembly", description="Read machine code.")
    parser.add_argument("--all", action="store_true", help="count the loops of every entry point, too")
    parser.add_argument("--page", type=Path, metavar="FILE", help="a page with marks for the table to fill in")
    options = parser.parse_args(arguments)
    kernels = read_kernels()
    text = hot_table(kernels)
    print(text)
    if options.all:
        print(f"\n{summary_table(kernels)}")
    if options.page is not None:
        from benchmarks.roofline import fill

        page = options.page.read_text(encoding="utf-8")
        options.page.write_text(fill(page, "assembly", text), encoding="utf-8")
    return int("**no**" in text)


if __name__ == "__main__":
    sys.exit(main())
