"""Names of models, queries and data sets where others allow fewer characters: file names, words, metrics, cells."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable

SHORTEST_DIGEST = 8
LONGEST_METRIC = 250  # MLflow
STARTS_OF_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001 (full width is meant)


def distinct(
    names: Iterable[str], changed: Callable[[str], str], longest: int, key: Callable[[str], str] = str.casefold
) -> dict[str, str]:
    """Return how each of `names`, which differ, is called when `changed`: shortened, and still different from others.

    A name keeps what it is changed to, unless another comes to be the same: then all but one that was not changed get
    a digest. Names are the same if their `key` is; some file systems do not tell cases apart.

    Examples
    --------
    >>> distinct(["a", "b c", "b/c"], file_name, 255)
    {'a': 'a', 'b c': 'b c', 'b/c': 'b_c'}
    >>> distinct(["b/c", "b_c"], file_name, 255)
    {'b/c': 'b_c_b9e2beb9', 'b_c': 'b_c'}
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
    """Return a name that is one file or folder on every system, and inside the folder it is put into.

    Examples
    --------
    >>> file_name("../a:b")
    '__a_b'
    """
    name = re.sub(r'[<>:"/\\|?*\x00-\x1f\x7f]', "_", name).strip()
    return re.sub(r"^\.+|[. ]+$", "_", name) or "_"


def word(name: str) -> str:
    """Return a name without blanks, as lines of columns separated by blanks need it.

    Examples
    --------
    >>> word("random forest")
    'random_forest'
    """
    return re.sub(r"[\s\x00-\x1f\x7f]+", "_", name) or "_"


def metric_name(name: str) -> str:
    """Return a name of one part of an MLflow metric: letters, digits, ``_``, ``-``, ``.`` and blanks.

    Examples
    --------
    >>> metric_name("org/model:7 (large)")
    'org_model_7 _large_'
    """
    name = re.sub(r"[^\w.\- ]", "_", name)
    return re.sub(r"^\.+$", "_", name) or "_"


def cell(text: str) -> str:
    """Return text that a spreadsheet shows and does not run: what would begin a formula gets an apostrophe before it.

    References
    ----------
    OWASP, CSV Injection, https://owasp.org/www-community/attacks/CSV_Injection

    Examples
    --------
    >>> cell("=HYPERLINK(...)"), cell("bm25")
    ("'=HYPERLINK(...)", 'bm25')
    """
    return f"'{text}" if text.lstrip(" ").startswith(STARTS_OF_FORMULAS) else text
