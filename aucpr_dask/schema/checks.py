"""Checks of single values and of optional packages: each returns what it checked, or raises a clear error."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np

from aucpr_dask.errors import InvalidInputError, brief

_Spec = TypeVar("_Spec")

REAL = int | float | np.integer | np.floating
NOT_NUMBERS = bool | np.timedelta64  # although Python and NumPy derive them from integers
ABBREVIATIONS = {"map": "average_precision"} | dict.fromkeys(("auc", "auroc", "roc_auc", "auc_roc"), "roc_area")
LEAST_PREVALENCE = 1e-100  # so that products of counts at that prevalence neither under- nor overflow


def lookup(specs: dict[str, _Spec], name: object, what: str) -> _Spec:
    """Return the record called `name`, or raise an error that lists the known names."""
    if isinstance(name, str) and name in specs:
        return specs[name]
    remedy = did_you_mean(name, specs, "give one of these names, as a string")
    raise InvalidInputError(f"unknown {what}", f"name of the {what}", brief(name), ", ".join(specs), remedy)


def require(module: str, extra: str, where: object = None) -> Any:
    """Return a module of an optional package, or raise an error that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        what, remedy = f"this needs {module.partition('.')[0]}", f'pip install "aucpr-dask[{extra}]"'
        raise InvalidInputError(what, where, error, None, remedy) from error


def refuse_outside(name: str, values: Any, is_outside: Any, allowed: str) -> None:
    """Raise if values of an argument are outside its range."""
    if np.any(is_outside):
        outside = np.asarray(values)[np.asarray(is_outside)]
        received = f"{outside.size} values, first {float(outside.flat[0])!r}"
        remedy = "correct these values, or leave them out"
        raise InvalidInputError(f"{name} is outside its range", f"argument {name!r}", received, allowed, remedy)


def nearest(value: object, names: Iterable[str]) -> str | None:
    """Return the name that was probably meant: spelled alike, or abbreviated to its initials."""
    if not isinstance(value, str):
        return None
    plain = {name.lower().replace("-", "_").replace(" ", "_"): name for name in names}
    given = value.lower().replace("-", "_").replace(" ", "_")
    initials = ["".join(word[:1] for word in name.split("_")) for name in plain]
    if len(given) > 1 and given in initials:
        return list(plain.values())[initials.index(given)]
    close = difflib.get_close_matches(ABBREVIATIONS.get(given, given), plain, n=1, cutoff=0.6)
    return plain[close[0]] if close else None


def did_you_mean(value: object, names: Iterable[str], otherwise: str) -> str:
    """Return a remedy that names what was probably meant."""
    near = nearest(value, names)
    return otherwise if near is None else f"did you mean {near!r}?"


def choose(allowed: tuple[str, ...], value: object, option: str) -> str:
    """Return `value` if it is one of the `allowed` strings."""
    if isinstance(value, str) and value in allowed:
        return value
    remedy = did_you_mean(value, allowed, "give one of these strings")
    raise _refused(f"unknown {option}", option, value, ", ".join(map(repr, allowed)), remedy)


def real(value: Any) -> float:
    """Return a real number as a float; NaN for any other value."""
    try:
        return float(value) if isinstance(value, REAL) and not isinstance(value, NOT_NUMBERS) else np.nan
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def fraction(value: Any, option: str) -> float:
    """Return a number between 0 and 1, both excluded."""
    number = real(value)
    if 0 < number < 1:
        return number
    remedy = "give one number, such as 0.95; 95 percent is 0.95"
    raise _refused(f"{option} must lie between 0 and 1", option, value, "one number above 0 and below 1", remedy)


def share_of_positives(value: Any, option: str) -> float:
    """Return a prevalence at which no weight of a negative under- or overflows."""
    share = fraction(value, option)
    if share >= LEAST_PREVALENCE:
        return share
    what, allowed = f"{option} is too small for floating-point numbers", f"{LEAST_PREVALENCE} <= {option} < 1"
    remedy = f"give the share of positives as a number from {LEAST_PREVALENCE}, such as 0.01"
    raise _refused(what, option, value, allowed, remedy)


def whole_number(value: Any, option: str, least: int, most: int | None = None) -> int:
    """Return a whole number that is not less than `least` and, if there is one, not more than `most`."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, NOT_NUMBERS)
    if is_whole and value >= least and (most is None or value <= most):
        return int(value)
    allowed = f"whole numbers from {least}" + ("" if most is None else f" to {most}")
    remedy = f"give one whole number without a fraction, such as {max(least, 1)}"
    raise _refused(f"{option} must be a whole number from {allowed[19:]}", option, value, allowed, remedy)


def recall_range(value: Any, option: str = "recall_range") -> tuple[float, float]:
    """Return two increasing recalls."""
    try:
        low, high = map(real, value)
    except (TypeError, ValueError):
        low, high = 1.0, 0.0
    if 0 <= low < high <= 1:
        return low, high
    remedy = "give two numbers, the lower first, such as (0.5, 1.0)"
    raise _refused(f"{option} is two recalls", option, value, "0 <= low < high <= 1", remedy)


def margin(value: Any, option: str) -> float:
    """Return a finite number above 0."""
    number = real(value)
    if 0 < number < np.inf:
        return number
    raise _refused(f"{option} must be positive", option, value, "one finite number above 0", "such as 0.02")


def tolerance(value: Any, option: str) -> float:
    """Return a finite number that is 0 or more."""
    number = real(value)
    if 0 <= number < np.inf:
        return number
    raise _refused(f"{option} must not be negative", option, value, "one finite number from 0", "such as 0.01")


def truth(value: Any, option: str) -> bool:
    """Return True or False."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise _refused(f"{option} must be True or False", option, value, "True, False", "give one of these two")


def text(value: Any, option: str) -> str:
    """Return a string."""
    if isinstance(value, str):
        return value
    raise _refused(f"{option} must be a string", option, value, "one string", "give its name in quotes")


def names_of(value: Any, option: str) -> tuple[Any, ...]:
    """Return one name, or each of several, as a tuple; what is in it is still to be checked."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Iterable) and not isinstance(value, bytes) and getattr(value, "ndim", 1) == 1:
        return tuple(value)
    what, allowed = f"{option} must be a name or several", "a string or a sequence of strings"
    raise _refused(what, option, value, allowed, "quote it")


def each_once(value: Any, option: str, specs: Iterable[str], what: str) -> tuple[Any, ...]:
    """Return one name, or several, as a tuple; raise if one is given twice. Names that are not strings come later."""
    names = names_of(value, option)
    known = [name for name in names if isinstance(name, str)]
    if len(set(known)) < len(known):
        raise repeated(value, option, specs, what)
    return names


def repeated(value: Any, option: str, specs: Iterable[str], what: str) -> InvalidInputError:
    """Return the error for names that are not one or more, each once."""
    return InvalidInputError(what, f"option {option!r}", brief(value), ", ".join(specs), "give each name once")


def _refused(what: str, option: str, value: object, allowed: str, remedy: str) -> InvalidInputError:
    """Return the error for a value of an option."""
    return InvalidInputError(what, f"option {option!r}", brief(value), allowed, remedy)
