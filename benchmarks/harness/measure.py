"""Check that the contenders agree, measure the memory of one call of each, then time them in turns."""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness.contenders import Contender, Suite
from benchmarks.harness.memory import peak_memory

SHORTEST_SAMPLE = 0.1


@dataclass
class Timing:
    """The measurements of one contender in one case; times in seconds per unit of work, `peak` in bytes."""

    suite: str
    case: str
    name: str
    call: str
    unit: str
    versions: str = ""
    seconds: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    difference: float | None = None
    tolerance: float | None = None
    skipped: str = ""
    units: float = 1
    peak: int | None = None
    is_floor: bool = False

    @property
    def median(self) -> float:
        """The median over the rounds."""
        return statistics.median(self.seconds)

    @property
    def ratio(self) -> float | None:
        """The median over the rounds of this time / the first contender's time just before; None for the first."""
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def distances(self) -> list[float]:
        """The first contender's times / the times of this floor just after; empty for other contenders."""
        return [1 / ratio for ratio in self.ratios] if self.is_floor else []

    @property
    def agrees(self) -> bool | None:
        """Whether the numbers equal the first contender's; None if they are not comparable."""
        if self.difference is None or self.tolerance is None:
            return None
        return self.difference <= self.tolerance


def measure(suite: Suite, rounds: int) -> Iterator[Timing]:
    """Yield one :class:`Timing` per case and contender, including skipped ones."""
    for param in suite.params:
        suite.setup(param)
        try:
            yield from _measure_case(suite, param, rounds)
        finally:
            suite.teardown(param)


def _measure_case(suite: Suite, param: Any, rounds: int) -> list[Timing]:
    timings: list[Timing] = []
    calls: list[tuple[Timing, Callable[[], Any]]] = []
    expected = None
    for one, method in suite.contenders():
        timing = Timing(suite.name, suite.describe(param), one.name, one.call, suite.unit, tolerance=one.tolerance)
        timing.is_floor = one.is_floor
        timings.append(timing)
        if one.missing():
            timing.skipped = f"not installed: {', '.join(one.missing())}"
            continue
        timing.versions = one.versions()
        timing.units = one.share or suite.units()
        # This first call is not timed: it compiles, fills caches and yields the numbers to compare.
        result = method(param)
        if expected is None:
            expected = one.numbers(result)
        elif one.tolerance is not None or one.approximates:
            timing.difference = _largest_difference(one, result, expected)
        del result
        call = partial(method, param)
        if not suite.no_memory:
            timing.peak = peak_memory(call, suite.other_processes())
        calls.append((timing, call))
    _time_in_turns(calls, rounds, suite)
    return timings


def _largest_difference(one: Contender, result: Any, expected: Any) -> float:
    """Return the largest difference; infinite if shapes differ or only one side is NaN."""
    numbers = np.asarray(one.numbers(result))
    expected = np.asarray(expected)
    if numbers.shape != expected.shape or not np.array_equal(np.isnan(numbers), np.isnan(expected)):
        return float("inf")
    return float(np.nanmax(np.abs(numbers - expected)))


def _time_in_turns(calls: list[tuple[Timing, Callable[[], Any]]], rounds: int, suite: Suite) -> None:
    """Time first, second, first, third, first, ...: a slow spell of the machine affects both of a pair."""
    (first, first_call), *others = calls
    repeats = {timing.name: suite.number or _repeats(call) for timing, call in calls}

    def sample(timing: Timing, call: Callable[[], Any]) -> float:
        number = repeats[timing.name]
        timing.seconds.append(timeit.timeit(call, number=number) / number / timing.units)
        return timing.seconds[-1]

    for _ in range(rounds):
        if not others:
            sample(first, first_call)
        for other, call in others:
            seconds = sample(first, first_call)
            other.ratios.append(sample(other, call) / seconds)


def _repeats(call: Callable[[], Any]) -> int:
    """Return the number of calls that makes a sample long enough for the clock and the scheduler."""
    return max(1, round(SHORTEST_SAMPLE / max(timeit.timeit(call, number=1), 1e-7)))
