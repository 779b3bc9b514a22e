"""Checks of single values: each returns the value, or raises an error that says what is allowed."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from aucpr_dask.errors import InvalidInputError

_Spec = TypeVar("_Spec")


def lookup(specs: dict[str, _Spec], name: object, what: str) -> _Spec:
    """Return the record called `name`, or raise an error that lists the names there are."""
    if isinstance(name, str) and name in specs:
        return specs[name]
    raise InvalidInputError(f"unknown {what}", received=repr(name), allowed=", ".join(specs))


def choose(allowed: tuple[str, ...], value: object, option: str) -> str:
    """Return `value` if it is one of the `allowed` strings."""
    if isinstance(value, str) and value in allowed:
        return value
    raise InvalidInputError(f"unknown {option}", received=repr(value), allowed=", ".join(map(repr, allowed)))


def fraction(value: Any, option: str) -> float:
    """Return a number between 0 and 1, both excluded."""
    if isinstance(value, int | float | np.number) and 0 < value < 1:
        return float(value)
    raise InvalidInputError(f"{option} must lie between 0 and 1", received=repr(value))


def whole_number(value: Any, option: str, least: int) -> int:
    """Return a whole number that is not less than `least`."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= least:
        return int(value)
    raise InvalidInputError(f"{option} must be a whole number from {least}", received=repr(value))


def recall_range(value: Any, option: str = "recall_range") -> tuple[float, float]:
    """Return two increasing recalls."""
    try:
        low, high = map(float, value)
    except (TypeError, ValueError):
        low, high = 1.0, 0.0
    if 0 <= low < high <= 1:
        return low, high
    raise InvalidInputError(f"{option} is two recalls", received=repr(value), allowed="0 <= low < high <= 1")
