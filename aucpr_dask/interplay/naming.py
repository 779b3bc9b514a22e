"""Names of models, queries and data sets for formats that allow fewer characters: files, words, metrics, cells."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable

SHORTEST_DIGEST = 8
LONGEST_METRIC = 250  # MLflow
STARTS_OF_FORMULAS = tuple("=+-@|")


def distinct(
    names: Iterable[str], changed: Callable[[str], str], longest: int, key: Callable[[str], str] = str.casefold
) -> dict[str, str]:
    """Return a new name for each of `names`: `changed`, shortened, and still distinct.

    Two names are the same if their `key` is, because some file systems ignore case. Names that would become the same
    get a digest, except one that was not changed.
    """
    result = {name: _shortened(changed(name), longest) for name in names}
    often = Counter(key(new) for new in result.values())
    unchanged = Counter(key(new) for name, new in result.items() if new == name)

    def is_its_own(name: str, new: str) -> bool:
        return often[key(new)] == 1 or (new == name and unchanged[key(new)] == 1)

    return {name: new if is_its_own(name, new) else _with_digest(new, name, longest) for name, new in result.items()}


def _shortened(name: str, longest: int) -> str:
    if len(name.encode()) <= longest:
        return name
    return _with_digest(name, name, longest)


def _with_digest(new: str, name: str, longest: int) -> str:
    digest = hashlib.sha256(name.encode()).hexdigest()[:SHORTEST_DIGEST]
    kept = new.encode()[: longest - len(digest) - 1].decode(errors="ignore")
    return f"{kept}_{digest}"


def file_name(name: str) -> str:
    """Return a name for one file or folder that is allowed on every system and stays inside its parent."""
    name = re.sub(r'[<>:"/\\|?*\x00-\x1f\x7f]', "_", name).strip()
    return re.sub(r"^\.+|[. ]+$", "_", name) or "_"


def word(name: str) -> str:
    """Return a name without blanks, for lines of columns separated by blanks."""
    return re.sub(r"[\s\x00-\x1f\x7f]+", "_", name) or "_"


def metric_name(name: str) -> str:
    """Return a name for one part of an MLflow metric: letters, digits, ``_``, ``-``, ``.`` and blanks."""
    name = re.sub(r"[^\w.\- ]", "_", name)
    return re.sub(r"^\.+$", "_", name) or "_"


def cell(text: str) -> str:
    """Return text that a spreadsheet does not run as a formula (OWASP, CSV Injection): an apostrophe precedes it.

    Invisible characters at the start do not count, and full-width signs are taken for the plain ones.
    """
    first = next((char for char in text if char.isprintable() and char != " "), "")
    is_formula = unicodedata.normalize("NFKC", first).startswith(STARTS_OF_FORMULAS)
    return f"'{text}" if is_formula or text.lstrip(" ").startswith(("\t", "\r", "\n")) else text
