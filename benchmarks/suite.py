"""Suites and their contenders: a suite is a class whose ``time_...`` methods do the same work in different ways."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np

FLOAT32 = 1e-6
FLOAT64 = 1e-12


@dataclass(frozen=True)
class Contender:
    """One way to do the work of a suite."""

    name: str  # in the tables
    call: str  # as a reader would write it
    packages: tuple[str, ...] = ()  # the distributions it needs; if one is missing, it is skipped
    tolerance: float | None = None  # the largest difference from the first contender's numbers; None of other numbers
    numbers: Callable[[Any], Any] = np.asarray  # takes the numbers out of the result, outside the timed part
    share: float = 0  # the units of work that one call does; 0 leaves this to the suite
    is_floor: bool = False  # whether it is only a part of the work that no contender can avoid
    approximates: bool = False  # the first contender's numbers: the difference is shown, not judged

    def missing(self) -> list[str]:
        """Return the distributions that are not installed."""
        return [package for package in self.packages if not installed(package)]

    def versions(self) -> str:
        """Return the versions of the distributions it needs."""
        return ", ".join(f"{package} {metadata.version(package)}" for package in self.packages)


def installed(package: str) -> bool:
    """Whether a distribution is installed; nothing is imported."""
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def contender(name: str, call: str, *packages: str, **options: Any) -> Callable[[Any], Any]:
    """Mark a ``time_...`` method as a :class:`Contender`."""

    def mark(method: Any) -> Any:
        method.contender = Contender(name, call, packages, **options)
        return method

    return mark


def floor(name: str, call: str, *packages: str, **options: Any) -> Callable[[Any], Any]:
    """Mark a ``time_...`` method as a part of the work that no contender can avoid."""
    return contender(name, call, *packages, is_floor=True, **options)


class Suite:
    """Base class of the suites; the first ``time_...`` method is the one the others are compared with."""

    name: str
    title: str
    explanation: str
    params: tuple[Any, ...] = ()
    small: Mapping[str, Any] = {}  # the sizes that `shrink` sets
    case = "{}"  # the name of a case in the tables
    unit = "call"
    counted = ""  # the attribute with the number of units in a call; 1 without
    clock = time.perf_counter
    number = 0  # calls per sample; 0 means as many as the clock needs
    no_memory = ""  # the reason, if peak memory is not measured

    def setup(self, param: Any) -> None:
        """Prepare the inputs of one case for every installed contender."""

    def teardown(self, param: Any) -> None:
        """Undo `setup`."""

    def shrink(self) -> None:
        """Make the sizes tiny, to check that everything runs."""
        for name, size in self.small.items():
            setattr(self, name, size)

    def describe(self, param: Any) -> str:
        """Return the name of a case in the tables."""
        return self.case.format(param, self=self)

    def units(self) -> int:
        """Return the units of work in one call; times are per unit."""
        return getattr(self, self.counted) if self.counted else 1

    def other_processes(self) -> Iterable[int]:
        """Return the processes, besides this one, whose memory counts."""
        return ()

    def findings(self, timings: list[Any]) -> Iterable[str]:
        """Return conclusions from the timings of one case, as sentences."""
        return ()

    def contenders(self) -> Iterator[tuple[Contender, Callable[[Any], Any]]]:
        """Yield each contender and its method, in the order of the class: inherited ones first, floors last."""
        attributes = dict.fromkeys(attribute for kind in reversed(type(self).__mro__) for attribute in vars(kind))
        methods = [getattr(self, attribute) for attribute in attributes if attribute.startswith("time_")]
        for method in sorted(methods, key=lambda method: method.contender.is_floor):
            yield method.contender, method
