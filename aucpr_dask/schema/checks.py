"""Checks of single values and of optional packages: each returns what it checked, or raises a clear error."""

from __future__ import annotations

import importlib
from typing import Any, TypeVar

import numpy as np

from aucpr_dask.errors import InvalidInputError

_Spec = TypeVar("_Spec")


def lookup(specs: dict[str, _Spec], name: object, what: str) -> _Spec:
    """Return the record called `name`, or raise an error that lists the known names."""
    if isinstance(name, str) and name in specs:
        return specs[name]
    raise InvalidInputError(f"unknown {what}", received=repr(name), allowed=", ".join(specs))


def require(module: str, extra: str, where: object = None) -> Any:
    """Return a module of an optional package, or raise an error that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InvalidInputError(
            f"this needs {module.partition('.')[0]}",
            where=where,
            received=error,
            remedy=f'pip install "aucpr-dask[{extra}]"',
        ) from error


def refuse_outside(name: str, values: Any, is_outside: Any, allowed: str) -> None:
    """Raise if values of an argument are outside its range."""
    if np.any(is_outside):
        outside = np.asarray(values)[np.asarray(is_outside)]
        raise InvalidInputError(
            f"{name} is outside its range",
            where=f"argument {name!r}",
            received=f"{outside.size} values, first {float(outside.flat[0])!r}",
            allowed=allowed,
        )


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
