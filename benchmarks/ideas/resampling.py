"""Ideas for bootstrap replicates of average precision, timed in turns with the package's kernels.

``python -m benchmarks.ideas.resampling`` prints, for 1 % positives, the smallest processor time of each in one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from aucpr_dask.kernels.intervals.replicates import SortedReplicates
from aucpr_dask.kernels.resampling import replicates
from aucpr_dask.kernels.resampling import rows as resampling

KEY, RESAMPLES, LINE = np.uint64(7), 1000, 64
PASSES = -(-RESAMPLES // replicates.LANES)


def row_adder(width: int, is_packed: bool, at_once: int = 8) -> Any:
    """Compile: add rows of `width` bytes to totals; packed, a byte holds the 4-bit counts of two lanes."""
    whole, lanes = ir.IntType(64), 2 * width if is_packed else width
    narrow, wide = ir.VectorType(ir.IntType(8), width), ir.VectorType(ir.IntType(32), width)

    @intrinsic
    def add(typing_context, count, unit, first, last, total):  # type: ignore[no-untyped-def]
        signature = types.void(count, unit, types.int64, types.int64, total)

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            count, unit, total = (
                context.make_array(signature.args[i])(context, builder, arguments[i]).data for i in (0, 1, 4)
            )
            rows = builder.bitcast(count, narrow.as_pointer())
            totals = builder.bitcast(total, wide.as_pointer())
            halves = range(lanes // width)
            step = ir.Constant(whole, at_once)
            four, low = (ir.Constant(narrow, [value] * width) for value in (4, 15))
            with cgutils.for_range_slice(builder, arguments[2], arguments[3], step, whole) as (start, _):
                end = builder.add(start, step)
                end = builder.select(builder.icmp_signed("<", end, arguments[3]), end, arguments[3])
                parts = [cgutils.alloca_once(builder, narrow) for _ in halves]
                for part in parts:
                    builder.store(ir.Constant(narrow, None), part)
                with cgutils.for_range_slice(builder, start, end, ir.Constant(whole, 1), whole) as (entry, _):
                    row = builder.sext(builder.load(builder.gep(unit, [entry])), whole)
                    more = builder.load(builder.gep(rows, [row]), align=1)
                    values = [builder.and_(more, low), builder.lshr(more, four)] if is_packed else [more]
                    for part, value in zip(parts, values, strict=True):
                        builder.store(builder.add(builder.load(part), value), part)
                for half, part in zip(halves, parts, strict=True):
                    place = builder.gep(totals, [ir.Constant(whole, half)])
                    sums = builder.add(builder.load(place, align=4), builder.zext(builder.load(part), wide))
                    builder.store(sums, place, align=4)
            return context.get_dummy_value()

        return signature, generate

    @njit(nogil=True, error_model="numpy")
    def add_gaps(count, unit, n_negatives, n_steps, totals):  # type: ignore[no-untyped-def]
        """Add up the rows of each gap; the positives' row after it is left out."""
        entry = 0
        for step in range(n_steps):
            end = entry + n_negatives[step]
            add(count, unit, entry, end, totals[min(step, totals.shape[0] - 1)])
            entry = end + 1

    return add_gaps


@njit(nogil=True, error_model="numpy")
def add_widened(count, unit, n_negatives, n_steps, totals):  # type: ignore[no-untyped-def]
    """Add the rows of each gap four at a time, as a plain loop: every count is widened before it is added."""
    total = totals[0]
    entry = np.uint64(0)
    one, four = np.uint64(1), np.uint64(4)
    for step in range(n_steps):
        left = np.uint64(n_negatives[step])
        for _ in range(left // four):
            a, b = np.uint64(unit[entry]), np.uint64(unit[entry + one])
            c, d = np.uint64(unit[entry + np.uint64(2)]), np.uint64(unit[entry + np.uint64(3)])
            entry += four
            for lane in range(64):
                i = np.uint64(lane)
                total[lane] += (count[a, i] + count[b, i]) + (count[c, i] + count[d, i])
        for _ in range(left % four):
            row = np.uint64(unit[entry])
            entry += one
            for lane in range(64):
                total[lane] += count[row, np.uint64(lane)]
        entry += one


def rows_at(n: int, width: int, offset: int = 0) -> np.ndarray:
    """Return rows of small counts that begin so many bytes into a line of the cache."""
    memory = np.empty(n * width + 2 * LINE, np.uint8)
    start = -memory.ctypes.data % LINE + offset
    rows = memory[start : start + n * width].reshape(n, width)
    rows[:] = np.random.default_rng(0).poisson(1, (n, 1))
    return rows


def chains(n_negative: int, n_positive: int) -> np.ndarray:
    """Draw for one model the negatives in each gap, and the positives: no items, so no pairs with other models."""
    random = np.random.default_rng(0)
    gaps = random.multinomial(n_negative, np.full(n_positive + 1, 1 / (n_positive + 1)), RESAMPLES)
    gained = random.multinomial(n_positive, np.full(n_positive, 1 / n_positive), RESAMPLES)
    hits = gained.cumsum(axis=1)
    precision = hits / np.maximum(hits + gaps[:, :-1].cumsum(axis=1), 1)
    area: np.ndarray = (gained * precision).sum(axis=1) / n_positive
    return area


def fastest(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the smallest processor time of each call; in turns, thrice each, as with many models caches are warm."""
    seconds = dict.fromkeys(calls, np.inf)
    for _ in range(rounds):
        for name, call in calls.items():
            for _ in range(3):
                start = time.thread_time()
                call()
                seconds[name] = min(seconds[name], time.thread_time() - start)
    return seconds


def compare(n: int, rounds: int) -> dict[str, float]:
    """Return microseconds for 1000 replicates, per model or, of draws, per data set."""
    random = np.random.default_rng(24)
    label = np.arange(n) % 100 == 0
    score = (random.standard_normal((1, n)) + label).astype(np.float32)
    classes = label.astype(float), 1.0 - label
    units = resampling.units_of(*classes, None)
    plain = resampling._PlainRankings(score, *classes, units)
    count = resampling._rows_of_lanes(n, np.uint8)
    replicates.draw_counts(KEY, 0, units.size, units.stratum, count)
    n_steps = int(plain._n_steps[0])
    unit, n_negatives = plain._unit[0], plain._n_negatives[0]
    calls: dict[str, Callable[[], Any]] = {
        "draw": lambda: replicates.draw_counts(KEY, 0, units.size, units.stratum, count),
        "area": lambda: plain.evaluate(count, units),
    }
    weight = dict.fromkeys(calls, PASSES)
    for name, function, width, offset, lanes in (
        ("rows, each count widened", add_widened, 64, 0, 64),
        ("rows, 64 lanes", row_adder(64, False), 64, 0, 64),
        ("rows, 64 lanes, across two lines", row_adder(64, False), 64, 16, 64),
        ("rows, 32 lanes", row_adder(32, False), 32, 0, 32),
        ("rows, 128 lanes", row_adder(128, False), 128, 0, 128),
        ("rows, 32 in a byte's sum", row_adder(64, False, 32), 64, 0, 64),
        ("rows, 4 bits, 64 lanes", row_adder(32, True), 32, 0, 64),
        ("rows, 4 bits, 128 lanes", row_adder(64, True), 64, 0, 128),
    ):
        rows, totals = rows_at(n, width, offset), np.zeros((1, lanes), np.int32)
        calls[name] = lambda f=function, r=rows, t=totals: f(r, unit, n_negatives, n_steps, t)
        weight[name] = 1024 / lanes
    rows, per_gap, tiles = rows_at(n, 64), np.zeros((n_steps, 64), np.int32), []
    step_of = np.repeat(np.arange(n_steps), n_negatives[:n_steps] + 1)
    for first in range(0, n, 8192):  # half a megabyte of counts at a time, which stays in a core's second cache
        inside = (unit[: step_of.size] >= first) & (unit[: step_of.size] < first + 8192)
        in_gap = np.bincount(step_of[inside], minlength=n_steps).astype(np.int32)
        padded = np.insert(unit[: step_of.size][inside], np.cumsum(in_gap), 0).astype(np.int32)
        tiles.append((padded, in_gap))
    add = row_adder(64, False)
    calls["rows, items in tiles"] = lambda: [add(rows, *tile, n_steps, per_gap) for tile in tiles]
    weight["rows, items in tiles"] = PASSES
    known = random.random((20, RESAMPLES))
    rank = [24, 25, 974, 975]
    more = {
        "layout": lambda: resampling._PlainRankings(score, *classes, units),
        "layout, argsort alone": lambda: np.argsort(score[0]),
        "chains for one model": lambda: chains(int(classes[1].sum()), int(label.sum())),
        "sort": lambda: SortedReplicates.of(known),
        "partition": lambda: np.partition(known, rank, axis=-1),
    }
    weight |= dict.fromkeys(more, 1) | dict.fromkeys(("sort", "partition"), 1 / len(known))
    seconds = fastest(calls | more, rounds)
    return {name: 1e6 * value * weight[name] for name, value in seconds.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    for n in arguments.items:
        found = compare(n, arguments.rounds)
        for name, microseconds in found.items():
            print(f"{n:>9,}  {name:<36} {microseconds:>12,.1f} µs")
        for models in (1, 10, 100, 1000):
            each = (found["draw"] / models + found["layout"] + found["area"] + found["sort"]) / 1000
            print(f"{n:>9,}  per model, {models:>4} at once {each:>30,.3f} ms")


if __name__ == "__main__":
    main()
