"""What is compared: a suite is a class whose ``time_...`` methods do the same work, each in another way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.installed import R_PACKAGE, installed, version

FLOAT32 = 1e-6
FLOAT64 = 1e-12


@dataclass(frozen=True)
class Contender:
    """One way of doing the work of a suite.

    Parameters
    ----------
    name : str
        What the tables call it.
    call : str
        The timed call, as a reader would write it.
    packages : tuple of str
        What it needs, as :func:`benchmarks.installed.version` takes it; without them it is skipped.
    tolerance : float or None
        How far its numbers may be from those of the suite's first contender; None if it computes other numbers.
    numbers : callable
        Takes the numbers out of what the call returned, outside the timed part.
    share : float
        The share of a unit of work that one call does, or how many units; 0 stands for what the suite says.
    is_floor : bool
        Whether it is a part of the work that nobody can do without, so that its time bounds what is possible.
    approximates : bool
        Whether it computes an approximation of the numbers of the first contender: how far off it is is shown.
    """

    name: str
    call: str
    packages: tuple[str, ...]
    tolerance: float | None
    numbers: Callable[[Any], Any]
    share: float = 0
    is_floor: bool = False
    approximates: bool = False

    def missing(self) -> list[str]:
        """Return what it needs and is not installed."""
        return [package for package in self.packages if not installed(package)]

    def versions(self) -> str:
        """Return the versions of what it needs."""
        return ", ".join(f"{package.removeprefix(R_PACKAGE)} {version(package)}" for package in self.packages)


def contender(
    name: str,
    call: str,
    *packages: str,
    tolerance: float | None = None,
    numbers: Callable[[Any], Any] = np.asarray,
    share: float = 0,
    is_floor: bool = False,
    approximates: bool = False,
) -> Callable[[Any], Any]:
    """Mark a ``time_...`` method as a :class:`Contender`."""

    def mark(method: Any) -> Any:
        method.contender = Contender(name, call, packages, tolerance, numbers, share, is_floor, approximates)
        method.setup = _skip_if_missing(method.contender)
        return method

    return mark


def _skip_if_missing(one: Contender) -> Callable[..., None]:
    """Return what asv runs before the method; it takes NotImplementedError for "skip this"."""

    def setup(*params: Any) -> None:
        if one.missing():
            raise NotImplementedError(f"{one.name} needs {', '.join(one.missing())}")

    return setup


def floor(name: str, call: str, *packages: str, share: float = 0) -> Callable[[Any], Any]:
    """Mark a ``time_...`` method as a part of the work that nobody can do without; it computes no estimate."""
    return contender(name, call, *packages, share=share, is_floor=True)


class Suite:
    """What suites have in common; the first ``time_...`` method is what the others are compared with."""

    name: str
    title: str
    explanation: str
    params: tuple[Any, ...] = ()
    param_names: tuple[str, ...] = ("case",)
    unit = "call"
    number = 0  # calls per sample, as asv understands it: 0 is as many as the clock needs
    timeout = 600
    no_memory = ""  # why peak memory is not measured, if it is not

    def setup(self, param: Any) -> None:
        """Prepare the inputs of one case, for every contender that is installed."""

    def teardown(self, param: Any) -> None:
        """Undo `setup`."""

    def shrink(self) -> None:
        """Make the sizes tiny, to see that everything runs."""

    def describe(self, param: Any) -> str:
        """Return what the tables call this case."""
        return str(param)

    def units(self) -> int:
        """Return how many units of work one call does; times are given per unit."""
        return 1

    def other_processes(self) -> Iterable[int]:
        """Return the processes that do the work, besides this one: their memory counts."""
        return ()

    def findings(self, timings: list[Any]) -> Iterable[str]:
        """Return what follows from the timings of one case, in words."""
        return ()

    def conclusions(self, timings: list[Any]) -> Iterable[str]:
        """Return what follows from the timings of all cases together, in words."""
        return ()

    def contenders(self) -> Iterator[tuple[Contender, Callable[[Any], Any]]]:
        """Yield each contender and its method, in the order of the class: inherited ones first, floors last."""
        attributes = dict.fromkeys(attribute for kind in reversed(type(self).__mro__) for attribute in vars(kind))
        methods = [getattr(self, attribute) for attribute in attributes if attribute.startswith("time_")]
        for method in sorted(methods, key=lambda method: method.contender.is_floor):
            yield method.contender, method
