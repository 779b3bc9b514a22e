"""Names of data sets, variables and labels: which are valid in a store, and how errors quote them."""

from __future__ import annotations

import math
from collections.abc import Iterable

from aucpr_dask.errors import InvalidInputError

LONGEST_NAME = 255  # bytes: what file systems allow
RESERVED_NAMES = frozenset({"zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata", "ledger"})

PEOPLE = frozenset({"holm", "wilson", "wilcoxon"})
TOGETHER = {
    "romano_wolf": "Romano-Wolf",
    "benjamini_hochberg": "Benjamini-Hochberg",
    "clopper_pearson": "Clopper-Pearson",
    "bootstrap_t": "bootstrap-t",
}


def in_words(name: str) -> str:
    """Return the name of an estimator, an interval or a method as it is written in a sentence.

    Examples
    --------
    >>> in_words("average_precision"), in_words("romano_wolf"), in_words("wilson")
    ('average precision', 'Romano-Wolf', 'Wilson')
    """
    return TOGETHER.get(name) or " ".join(word.title() if word in PEOPLE else word for word in name.split("_"))


def plural(noun: str) -> str:
    """Return the plural of an English noun.

    Examples
    --------
    >>> plural("query"), plural("data set"), plural("class")
    ('queries', 'data sets', 'classes')
    """
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "z", "ch", "sh")) else f"{noun}s"


def percent(share: float, form: str = "g") -> str:
    """Return a share, a level or a power as a percentage, its number in this format.

    Examples
    --------
    >>> percent(0.95), percent(1 - 0.995), percent(0.0312, "+.1f")
    ('95 %', '0.5 %', '+3.1 %')
    """
    return f"{100 * share:{form}} %"


def rounded_percent(share: float) -> str:
    """Return a share in whole percents, with more digits only where these tell it from 0 or 100.

    Examples
    --------
    >>> rounded_percent(0.287), rounded_percent(0.0031), rounded_percent(0.9967), rounded_percent(1)
    ('29 %', '0.3 %', '99.7 %', '100 %')
    """
    distance = 100 * min(abs(share), abs(1 - share))  # from 0 % or 100 %
    digits = -math.floor(math.log10(distance)) if 1e-6 < distance < 1 else 0
    return percent(share, f".{digits}f")


def p_value_in_words(p_value: float) -> str:
    """Return a p-value as it is reported in a sentence.

    Examples
    --------
    >>> p_value_in_words(0.0163), p_value_in_words(1e-7)
    ('p = 0.016', 'p < 0.0001')
    """
    return "p < 0.0001" if p_value < 0.0001 else f"p = {p_value:.2g}"


def check_node_name(name: str, where: object) -> str:
    """Return `name` if it is the name of one folder inside a store, and not reserved by Zarr or by this package."""
    is_inside = bool(name.strip(".")) and not any(char in "/\\" for char in name) and is_text(name)
    is_free = not name.startswith("__") and name not in RESERVED_NAMES
    if is_inside and is_free and len(name.encode()) <= LONGEST_NAME:
        return name
    what = "this is not a valid name for a data set or a variable of a store"
    allowed = (
        f"up to {LONGEST_NAME} bytes of text without slashes, backslashes and control characters; not only "
        f"periods; not beginning with '__'; none of {', '.join(sorted(RESERVED_NAMES))}"
    )
    raise InvalidInputError(what, where, shortened_name(name), allowed, "rename it")


def check_names(names: Iterable[object], where: str) -> None:
    """Raise if a name contains halves of surrogate pairs, as file names in other encodings do."""
    for name in names:
        if isinstance(name, str) and not _is_unicode(name):
            raise InvalidInputError("this name is not Unicode", where, shortened_name(name), None, "rename it")


def is_text(name: str) -> bool:
    """Whether a name has neither control characters nor halves of surrogate pairs."""
    return not any(char < " " or "\x7f" <= char <= "\x9f" or "\ud800" <= char <= "\udfff" for char in name)


def _is_unicode(name: str) -> bool:
    return name.isascii() or not any("\ud800" <= char <= "\udfff" for char in name)


def shortened_name(name: str, most: int = 100) -> str:
    """Return a name as errors quote it."""
    return repr(name) if len(name) <= most else f"{name[:most]!r}..., {len(name):,} characters"
