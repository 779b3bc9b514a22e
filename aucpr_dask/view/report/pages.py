"""What every page is made of: style and scripts inside it, a policy that allows nothing else, a template."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from aucpr_dask.errors import InvalidInputError, StoreError, brief
from aucpr_dask.schema.checks import require
from aucpr_dask.view.report.embedding import policy_source
from aucpr_dask.view.report.vendor import vendored


def asset(name: str) -> str:
    """Return the text of a file that pages are made of."""
    return (files("aucpr_dask.view.report") / "assets" / name).read_text(encoding="utf-8")


def library(name: str) -> str:
    """Return a vendored script without the address of its source map, which browsers would fetch."""
    return re.sub(r"\n//# sourceMappingURL=\S*\s*$", "\n", vendored(name))


def policy_of(style: str, scripts: Sequence[str] = ()) -> str:
    """Return a policy that allows only the scripts and the style of this page, and no network address."""
    allowed = " ".join(policy_source(script) for script in scripts)
    return (
        f"default-src 'none'; script-src {allowed}; style-src {policy_source(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def template(name: str) -> Any:
    """Return a template that escapes all it is given."""
    jinja2 = require("jinja2", "report", where="a report")
    return jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(asset(name))


def checked_target(path: str | Path, *, overwrite: bool) -> Path:
    """Return the path of a page, or raise unless one can be written there."""
    try:
        target = Path(path)
        is_path = b"\0" not in os.fsencode(target)
    except (TypeError, UnicodeEncodeError):
        is_path = False
    if not is_path:
        raise InvalidInputError(
            "this is not the path of a file",
            where="argument 'path'",
            received=brief(path),
            allowed="a string or a Path",
            remedy="name the page to write",
        )
    if target.is_dir() or (target.exists() and not overwrite):
        raise StoreError(
            "there is something at this place already",
            where=str(target),
            received="a folder" if target.is_dir() else "a file",
            allowed="a new file",
            remedy="choose another name" if target.is_dir() else "overwrite=True (--overwrite) replaces it",
        )
    if not target.parent.is_dir():
        raise StoreError(
            "there is no such folder",
            where=str(target.parent),
            received=str(target),
            allowed="a file in a folder that exists",
            remedy="create the folder, or choose another",
        )
    return target
