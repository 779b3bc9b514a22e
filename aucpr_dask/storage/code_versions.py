"""Which code computes here: versions and digests of sources, which tell this process from its workers and its past.

A worker runs this module as text that comes from the client: its own copy may be of another version, or not be there.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

COMPUTING = ("evaluation", "kernels", "schema", "scores", "storage")  # what a number passes through
CODE = ("aucpr-dask", "computing code of aucpr-dask", "numpy", "numba")


@cache  # a process keeps the code that it has loaded
def facts() -> dict[str, str]:
    """Return the versions on which numbers depend here, and a digest of the sources of this package."""
    python, folder = "{}.{}".format(*sys.version_info), _folder()
    return {"Python": python} | code() | {"sources of aucpr-dask": _digest(folder, folder.rglob("*.py"))}


@cache
def code() -> dict[str, str]:
    """Return what computes here: one result is the work of one code, unless its user says otherwise."""
    from aucpr_dask._version import __version__

    folder = _folder()
    sources = (path for name in COMPUTING for path in (folder / name).rglob("*.py") if "importing" not in path.parts)
    found = __version__, _digest(folder, sources), version("numpy"), version("numba")
    return dict(zip(CODE, found, strict=True))


def code_among(found: Mapping[str, Any]) -> dict[str, str]:
    """Return those of some facts that say which code computed."""
    return {name: str(found.get(name)) for name in CODE}


def in_words(found: Mapping[str, Any] | None) -> str:
    """Return which code computed, in one line."""
    if not found:
        return "a version that did not record itself"
    ours, digest, *others = code_among(found).values()
    rest = zip(CODE[2:], others, strict=True)
    return ", ".join([f"{CODE[0]} {ours} (code {digest})", *(f"{name} {value}" for name, value in rest)])


def changes_in_words(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> str:
    """Return in what two codes that computed differ.

    >>> ours = "computing code of aucpr-dask"
    >>> changes_in_words({"numpy": "2.3", "numba": "1", ours: "1e9"}, {"numpy": "2.4", "numba": "1", ours: "2f8"})
    'other computing code of aucpr-dask; numpy 2.3, now 2.4'
    """
    if not before:
        return in_words(before)
    changed = {name: (before.get(name), now.get(name)) for name in CODE if before.get(name) != now.get(name)}
    said = {name: f"{name} {was}, now {one}" for name, (was, one) in changed.items()}
    return "; ".join((said | ({CODE[1]: f"other {CODE[1]}"} if CODE[1] in said else {})).values())


def _folder() -> Path:
    import aucpr_dask

    return Path(str(aucpr_dask.__file__)).parent


def _digest(folder: Path, files: Iterator[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(files, key=lambda path: path.relative_to(folder).parts):
        content, name = path.read_bytes().replace(b"\r\n", b"\n"), path.relative_to(folder).as_posix()
        digest.update(f"{name} {len(content)};".encode() + content)
    return digest.hexdigest()[:12]
