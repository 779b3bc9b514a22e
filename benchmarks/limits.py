"""What this machine can do at best: reading, looking up, adding, sorting; measured, not looked up.

Every limit is that of one core, and the best of several tries: it is a limit.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np

TRIES = 7
LONG_ENOUGH = 2e-3  # seconds that a try takes at least
CHAINS, STEPS_OF_CHAIN = 8, 4
STEPS_OF_LINE = 16
TURNS = 1000
LOOKUPS = 1 << 17
SORTED = 100_000
NEAR = 1 << 21  # bytes read by one call at least, so that the call itself costs nothing
USUAL_CACHES = {"L1": 32 << 10, "L2": 1 << 20, "L3": 32 << 20}
MEMORY = "memory"
_NJIT: Any = numba.njit(nogil=True, error_model="numpy")


@dataclass(frozen=True)
class Limits:
    """What one core can do; of each kind of memory, from the nearest."""

    sizes: dict[str, int]  # bytes; that of memory is the size of the array that was read
    bandwidth: dict[str, float]  # bytes per second, one after another
    latency: dict[str, float]  # seconds from one look-up to the next that depends on it
    lookup: dict[str, float]  # seconds per look-up that depends on none
    increment: dict[str, float]  # seconds per number that is increased at a random place
    scalar: float  # instructions per second, one number each, nothing waited for
    vector: float  # float32 operations per second, as many at a time as the compiler makes
    sort: dict[str, float]  # seconds per number sorted by NumPy, 10^5 of them

    def level(self, size: float) -> str:
        """Return the nearest kind of memory that has room for so many bytes."""
        return next((level for level, room in self.sizes.items() if size <= room), MEMORY)


def measure_limits(rounds: int = TRIES, scale: float = 1.0) -> Limits:
    """Measure this machine; `scale` below 1 takes less memory than it should, to try the code."""
    sizes = cache_sizes()
    sizes[MEMORY] = int(4 * max(sizes.values()) * scale)
    of_level = {level: _limits_of(size if level == MEMORY else size // 2, rounds) for level, size in sizes.items()}
    bandwidth, latency, lookup, increment = (
        {level: found[kind] for level, found in of_level.items()} for kind in range(4)
    )
    random = np.random.default_rng(1)
    numbers = {dtype: (random.random(SORTED) * 2**40).astype(dtype) for dtype in ("float32", "float64", "uint64")}
    chain, line = np.arange(1, CHAINS + 1, dtype=np.uint64), np.ones(1024, np.float32)
    return Limits(
        sizes,
        bandwidth,
        latency,
        lookup,
        increment,
        scalar=CHAINS * STEPS_OF_CHAIN * TURNS / best(rounds, run_chains, chain, TURNS),
        vector=2 * STEPS_OF_LINE * line.size * TURNS / best(rounds, multiply_and_add, line, TURNS),
        sort={dtype: best(rounds, np.sort, unsorted) / SORTED for dtype, unsorted in numbers.items()},
    )


def _limits_of(size: int, rounds: int) -> tuple[float, float, float, float]:
    """Return bandwidth and the times of a look-up that depends on the one before, of one that does not, of a count."""
    random = np.random.default_rng(2)
    n = max(64, size // 8)
    table = np.arange(n, dtype=np.int64)
    turns = max(1, NEAR // (8 * n))
    order = random.permutation(n)
    cycle = np.empty(n, np.int64)
    cycle[order] = np.roll(order, -1)  # one cycle through all places, so that no part of it stays near
    place = random.integers(0, n, LOOKUPS).astype(np.int32)
    return (
        8 * n * turns / best(rounds, add_up, table, turns),
        best(rounds, follow, cycle, LOOKUPS) / LOOKUPS,
        best(rounds, look_up, table, place) / LOOKUPS,
        best(rounds, increase, table, place) / LOOKUPS,
    )


def best(rounds: int, call: Callable[..., Any], *arguments: Any) -> float:
    """Return the shortest time of a call in seconds, short calls taken together."""
    call(*arguments)
    start = time.thread_time()
    call(*arguments)
    times = max(1, int(LONG_ENOUGH / max(time.thread_time() - start, 1e-9)))
    found = []
    for _ in range(rounds):
        start = time.thread_time()
        for _ in range(times):
            call(*arguments)
        found.append((time.thread_time() - start) / times)
    return min(found)


def cache_sizes() -> dict[str, int]:
    """Return the size of each level of cache in bytes, as Linux tells, or usual ones."""
    sizes = {}
    for cache in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        if (cache / "type").read_text().strip() != "Instruction":
            number, unit = re.match(r"(\d+)([KM]?)", (cache / "size").read_text()).groups()  # type: ignore[union-attr]
            sizes[f"L{(cache / 'level').read_text().strip()}"] = int(number) << {"": 0, "K": 10, "M": 20}[unit]
    return sizes or dict(USUAL_CACHES)


@_NJIT
def add_up(table: Any, turns: int) -> Any:
    """Read every number in each turn; whole numbers, so that the compiler may add many at a time."""
    total = np.int64(0)
    for _ in range(turns):
        for i in range(table.size):
            total += table[i]
    return total


@_NJIT
def follow(cycle: Any, steps: int) -> Any:
    """Look up where the next look-up is."""
    place = np.int64(0)
    for _ in range(steps):
        place = cycle[place]
    return place


@_NJIT
def look_up(table: Any, place: Any) -> Any:
    """Read at random places that are known beforehand."""
    total = np.int64(0)
    for i in range(place.size):
        total += table[np.uint64(place[i])]
    return total


@_NJIT
def increase(table: Any, place: Any) -> None:
    """Count at random places that are known beforehand."""
    for i in range(place.size):
        table[np.uint64(place[i])] += 1


@_NJIT
def run_chains(start: Any, turns: int) -> Any:
    """Keep eight chains of four instructions each going: a copy, a shift, an exclusive or, an addition."""
    a, b, c, d = start[0], start[1], start[2], start[3]
    e, f, g, h = start[4], start[5], start[6], start[7]
    one = np.uint64(1)
    for _ in range(turns):
        a, b, c, d = (a ^ (a >> one)) + one, (b ^ (b >> one)) + one, (c ^ (c >> one)) + one, (d ^ (d >> one)) + one
        e, f, g, h = (e ^ (e >> one)) + one, (f ^ (f >> one)) + one, (g ^ (g >> one)) + one, (h ^ (h >> one)) + one
    return a ^ b ^ c ^ d ^ e ^ f ^ g ^ h


@_NJIT
def multiply_and_add(line: Any, turns: int) -> None:
    """Do 32 operations on every number of a line that stays in registers and the nearest cache."""
    x = np.float32(0.999)
    y = np.float32(0.001)
    for _ in range(turns):
        for i in range(line.size):
            z = line[i]
            for _ in range(STEPS_OF_LINE):
                z = z * x + y
            line[i] = z
