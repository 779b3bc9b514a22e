"""The options of calls, and the values they allow."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from aucpr_dask.errors import InvalidInputError

TIES = ("block", "trec_eval", "expectation")

MISSING = ("raise", "drop", "last", "unretrieved")

UNJUDGED = ("negative", "drop")

UNITS = ("items", "clusters")

PREVALENCE_DESIGNS = ("fixed", "random")

_Spec = TypeVar("_Spec")


def lookup(specs: dict[str, _Spec], name: object, what: str) -> _Spec:
    """Return the record called `name`, or raise an error that lists the names there are."""
    if isinstance(name, str) and name in specs:
        return specs[name]
    raise InvalidInputError(f"unknown {what}", received=repr(name), allowed=", ".join(specs))


def choose(allowed: tuple[str, ...], value: object, option: str) -> str:
    """Return `value` if it is one of the `allowed` strings, or raise an error that lists them."""
    if isinstance(value, str) and value in allowed:
        return value
    raise InvalidInputError(f"unknown {option}", received=repr(value), allowed=", ".join(map(repr, allowed)))


def fraction(value: float, option: str) -> float:
    """Return a number between 0 and 1, both excluded."""
    if isinstance(value, int | float | np.number) and 0 < value < 1:
        return float(value)
    raise InvalidInputError(f"{option} must lie between 0 and 1", received=repr(value))
