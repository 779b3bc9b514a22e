"""Checks of single values, of labels and weights, and of optional packages: each raises a clear error."""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.errors import InvalidInputError, brief, did_you_mean, few, warn
from aucpr_dask.schema.described import Described
from aucpr_dask.schema.terms import PADDING, percent

_Spec = TypeVar("_Spec")
_Choice = TypeVar("_Choice", bound=str)

REAL = int | float | np.integer | np.floating
NOT_NUMBERS = bool | np.timedelta64  # although Python and NumPy derive them from integers
LEAST_PREVALENCE = 1e-100  # so that products of counts at that prevalence neither under- nor overflow
HIGHEST_GRADE = 127
NO_ITEM = "give -2 where there is no item, as on land; -1 is an item that nobody judged, and counts as negative"
LEAST_COUNT = 1e-100  # above 0: the inverse of its square is finite
NAME_A_GRADE = (
    "pass positive_from=1, or the grade from which your task counts positives; convention='trec_eval' sets it to 1, too"
)
EXACT_INTEGERS = 2**53  # up to here, float64 holds every integer


def lookup(specs: dict[str, _Spec], name: object, what: str) -> _Spec:
    """Return the record called `name`, or raise an error that lists the known names."""
    if isinstance(name, str) and name in specs:
        return specs[name]
    remedy = did_you_mean(name, specs, "give one of these names, as a string")
    received = brief(name)
    raise InvalidInputError(f"unknown {what}: {received}", f"name of the {what}", received, ", ".join(specs), remedy)


def is_dask(array: object) -> TypeGuard[Any]:
    """Return whether this is an array of Dask, which is imported only for one with values: it takes half a second."""
    return isinstance(array, (Described, getattr(sys.modules.get("dask.array"), "Array", Described)))


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


FOLDS = frozenset({"fold", "folds", "repeat", "repeats", "split", "splits"})  # no words for independent units


def folds_as_units(where: str, received: str) -> InvalidInputError:
    """Return the error for folds or repeats of a cross-validation that are to be a sample."""
    what = "folds and repeats of a cross-validation are no sample: they share training data or items"
    allowed = "queries, data sets or items"
    remedy = "compare out-of-fold scores over (model, repeat, item), with 'fold': items and training are both counted; "
    remedy += "or areas over (model, fold): method='corrected_t'"
    return InvalidInputError(what, where, received, allowed, remedy)


def choose(allowed: tuple[_Choice, ...], value: object, option: str) -> _Choice:
    """Return `value` if it is one of the `allowed` strings."""
    if isinstance(value, str) and value in allowed:
        return value
    remedy = did_you_mean(value, allowed, "give one of these strings")
    raise _refused(f"unknown {option}: {brief(value)}", option, value, ", ".join(map(repr, allowed)), remedy)


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
    example = {"prevalence": 0.01, "power": 0.8}.get(option, 0.95)
    remedy = f"give one number, such as {example}; {percent(example)[:-2]} percent is {example}"
    raise _refused(f"{option} must lie between 0 and 1", option, value, "one number above 0 and below 1", remedy)


def confidence_level(value: Any, option: str) -> float:
    """Return a level; one that looks like that of a test is taken as it is, with a warning."""
    level = fraction(value, option)
    if level < 0.5:
        what = f"{option}={level:g} is a confidence level, so that tests are at {percent(1 - level)}"
        warn(f"{what}; for tests at {percent(level)} give {option}={1 - level:g}")
    return level


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
    must_be = "a number" if isinstance(value, str) else "positive"
    raise _refused(f"{option} must be {must_be}", option, value, "one finite number above 0", "such as 0.02")


def tolerance(value: Any, option: str) -> float:
    """Return a finite number that is 0 or more."""
    number = real(value)
    if 0 <= number < np.inf:
        return number
    what = f"{option} must be a number" if isinstance(value, str) else f"{option} must not be negative"
    raise _refused(what, option, value, "one finite number from 0", "such as 0.01, which is 1 point of 100")


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


def is_list(value: Any) -> bool:
    """Whether a value holds others one after the other: no text, and no array of another number of dimensions."""
    return isinstance(value, Iterable) and not isinstance(value, str | bytes) and getattr(value, "ndim", 1) == 1


class One(tuple[Any, ...]):
    """One name that is asked for as text, or by default: a scalar coordinate of a result; a list is a dimension."""


class Default(One):
    """Names that nobody asked for; several of them are a dimension."""


def names_of(value: Any, option: str) -> tuple[Any, ...]:
    """Return one name, or each of several, as a tuple; what is in it is still to be checked."""
    if isinstance(value, str | One):
        return One([value]) if isinstance(value, str) else value
    if is_list(value):
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


def are_rounded(integers: NDArray[Any]) -> bool:
    """Return whether float64 does not hold some of these integers."""
    return integers.size > 0 and max(abs(int(integers.min())), abs(int(integers.max()))) > EXACT_INTEGERS


def check_labels(label: NDArray[Any], positive_from: int | None, where: str, *, if_grades: str = NAME_A_GRADE) -> None:
    """Raise if a label is outside -2, -1, 0, 1 (with `positive_from`: -2, -1 and whole grades from 0 to 127)."""
    highest = 1 if positive_from is None else HIGHEST_GRADE
    if label.dtype.kind in "iu" and (label.size == 0 or (label.min() >= PADDING and label.max() <= highest)):
        return
    if label.dtype.kind == "b":
        return
    if label.dtype.kind not in "iuf":
        remedy = "convert them: 1 for positive, 0 for negative items"
        what = "labels are not numbers"
        if texts := text_labels(label):
            what = "labels are not numbers but text"
            remedy = f"compare them with the positive one: label == {texts[0]!r}"
        raise InvalidInputError(what, where, f"dtype {label.dtype}", "integers or bool", remedy)
    bad = label[~((label >= PADDING) & (label <= highest) & (label == np.rint(label)))]
    if bad.size:
        values = np.unique(bad)
        may_be_grades = positive_from is None and bool(np.all(values > 1))
        received = f"{bad.size} labels with values {few(values)}, dtype {label.dtype}"
        allowed = f"1 positive, 0 negative, -1 unjudged, -2 no item; whole numbers up to {highest}"
        remedy = f"if these are grades, {if_grades}" if may_be_grades else _remedy_for_labels(values)
        if ((values < PADDING) & (values != np.rint(values))).any():
            remedy = "these look like scores: give the labels in their place"
        if may_be_grades and not (label == 0).any() and values.size == 1:  # 1 and 2: classes, without a negative
            one = f"{values[0]:g}"
            remedy = f"if {one} is the positive class, pass pos_label={one}, or label == {one}; if these are grades, "
            remedy += f"pass positive_from={one}, or the grade from which your task counts positives"
        raise InvalidInputError("labels outside their domain", where, received, allowed, remedy)


def text_labels(label: NDArray[Any]) -> list[str]:
    """Return the different labels, the rarest first, if all are text."""
    counts = Counter(label.ravel().tolist()) if label.dtype.kind in "OUT" else Counter[object]()
    found = [str(one) for one, _ in reversed(counts.most_common())]
    return found if all(isinstance(one, str) for one in counts) else []


def positive_text(texts: Sequence[str]) -> str:
    """Say that one of these labels is to be named as the positive one."""
    return f"labels are text: name the positive one, such as pos_label={texts[0]!r}"


def whole_labels(label: NDArray[Any], score: NDArray[Any], where: str = "label") -> NDArray[Any]:
    """Return labels of a float type as small integers; NaN is no item where all scores are NaN, too, as on a mask."""
    if label.dtype.kind != "f":
        return label
    is_masked = np.isnan(label)
    if is_masked.any():
        if (n := np.count_nonzero(is_masked & ~np.isnan(score))) > 0:
            what = "labels outside their domain: NaN where there are scores"
            received = f"{n} scores of items whose label is nan"
            allowed = "1 positive, 0 negative, -1 unjudged, -2 no item; NaN where all scores are NaN"
            raise InvalidInputError(what, where, received, allowed, NO_ITEM)
        label = np.where(is_masked, PADDING, label)
    check_labels(label, 0, where)  # grades, too
    return label.astype(np.int8)


def _remedy_for_labels(values: NDArray[Any]) -> str:
    if np.isnan(values).any():
        return NO_ITEM
    if ((values > 0) & (values < 1)).any():
        return "for probabilities, give positive_weight=p and negative_weight=1 - p, or compare them: p >= 0.5"
    return "correct the labels: -2 for what is to be ignored, as 255 and -100 elsewhere"


def check_weights(weight: NDArray[Any], where: str) -> None:
    """Raise if a weight is negative, NaN or infinite."""
    if weight.dtype.kind not in "fiub":
        received, allowed = f"dtype {weight.dtype}", "integers or floats, not negative"
        raise InvalidInputError("weights must be numbers", where, received, allowed, "convert them")
    # One pass for each limit, without temporary arrays; NaN is neither from 0 nor below infinity.
    if weight.size and not (weight.min() >= 0 and weight.max() < np.inf):
        bad = ~(np.isfinite(weight) & (weight >= 0))
        what = "weights must be finite and not negative"
        received = f"{int(bad.sum())} others, first {weight[bad].flat[0]!r}"
        remedy = "set the weight of an item to 0 to leave it out"
        raise InvalidInputError(what, where, received, "finite numbers from 0", remedy)


def check_counts(count: NDArray[Any], name: str, *, of_rankings: bool = True) -> None:
    """Raise unless numbers of positives are finite and not negative; those of rankings, unless they are whole."""
    allowed = (
        "whole numbers from 0 to 2**53"
        if of_rankings
        else f"0, finite numbers from {LEAST_COUNT}, and NaN where the area is unknown"
    )
    parts = {"where": f"argument {name!r}", "allowed": allowed, "remedy": "give the number of positives"}
    if count.dtype.kind not in "iuf":
        raise InvalidInputError(f"{name} must be numbers", received=f"dtype {count.dtype}", **parts)
    if count.dtype.itemsize < 8:
        count = count.astype(np.float64)
    if count.dtype.kind == "f":
        bad = ~(np.isfinite(count) & (count == np.rint(count))) if of_rankings else np.isinf(count)
    else:
        bad = np.zeros(count.shape, np.bool_)
    bad = bad | (count < 0) | ((count > 0) & (count < LEAST_COUNT)) | (of_rankings & (count > EXACT_INTEGERS))
    if bad.any():
        received = f"{int(bad.sum())} values, first {float(count[bad].flat[0])!r}"
        raise InvalidInputError(f"{name} is outside its range", received=received, **parts)


def check_tie_order(order: NDArray[Any]) -> None:
    """Raise unless an order of tied items holds numbers, none of them NaN."""
    parts = {"where": "argument 'tie_order'", "allowed": "integers; the smallest comes first", "remedy": "number items"}
    if order.dtype.kind not in "iuf":
        raise InvalidInputError("tie_order must be numbers", received=f"dtype {order.dtype}", **parts)
    if order.dtype.kind == "f" and not np.isfinite(order).all():
        raise InvalidInputError("tie_order holds NaN or infinity", received=f"dtype {order.dtype}", **parts)


def refuse_other_lengths(sizes: dict[str, int]) -> None:
    """Raise unless all arrays, by name, have the same number of items."""
    if len(set(sizes.values())) > 1:
        received = ", ".join(f"{name} {size}" for name, size in sizes.items())
        allowed, remedy = "arrays with the same number of items", "give one value of each array for each item"
        raise InvalidInputError("arrays differ in the number of items", "the last axis", received, allowed, remedy)
