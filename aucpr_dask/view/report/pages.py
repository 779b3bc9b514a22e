"""What every page is made of: a template, style and scripts inside it, a policy that allows nothing else, arrays."""

from __future__ import annotations

import gzip
import hashlib
import json
from base64 import b64encode
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aucpr_dask._version import __version__
from aucpr_dask.interplay.exporting import written_whole
from aucpr_dask.schema.checks import require
from aucpr_dask.view.tables import plain

# A library of which pages hold a copy, so that nobody fetches anything.
UPLOT = {"name": "uplot", "version": "1.6.32", "licence": "MIT", "address": "https://github.com/leeoniya/uPlot"}
UPLOT_FILES = {  # in the folder `vendored`, with their SHA-256 in the package that npm publishes
    "uplot.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",  # dist/uPlot.iife.min.js
    "uplot.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",  # dist/uPlot.min.css
    "uplot.LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}


def asset(name: str, folder: str = "assets") -> str:
    """Return the text of a file that pages are made of, or of a library."""
    return (files("aucpr_dask.view.report") / folder / name).read_text(encoding="utf-8")


def rendered(template: str, style: str, scripts: Sequence[str] = (), **words: Any) -> str:
    """Return a page with its style and scripts, which alone its policy allows; the template escapes all other words."""
    digests = [b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, *scripts)]
    of_style, *of_scripts = (f"'sha256-{digest}'" for digest in digests)
    policy = (
        f"default-src 'none'; script-src {' '.join(of_scripts)}; style-src {of_style}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    jinja2 = require("jinja2", "report", where="a report")
    look = {"autoescape": True, "undefined": jinja2.StrictUndefined}
    page = jinja2.Environment(loader=jinja2.FunctionLoader(asset), **look).get_template(template)
    generator = f"aucpr-dask {__version__}"
    return str(page.render(policy=policy, style=style, scripts=scripts, generator=generator, **words))


_TYPES = ("float64", "float32", "int32", "uint16", "uint8")  # that the script of a page knows


def packed(document: Any) -> tuple[str, list[str]]:
    """Return a document as JSON without characters that mean something to HTML, and its arrays, compressed, each once.

    In the document, references stand for the arrays, by which a page unpacks what it needs.
    """
    places: dict[bytes, int] = {}
    texts: list[str] = []

    def reference(array: NDArray[Any]) -> dict[str, Any]:
        kept = array if array.dtype.name in _TYPES else array.astype(np.float64)
        raw = kept.astype(kept.dtype.newbyteorder("<"), copy=False).tobytes()
        key = hashlib.sha256(raw).digest()
        if key not in places:
            places[key] = len(texts)
            # Without a time, the same result gives the same page.
            texts.append(b64encode(gzip.compress(raw, compresslevel=6, mtime=0)).decode())
        return {"payload": places[key], "dtype": kept.dtype.name, "shape": list(kept.shape)}

    text = json.dumps(plain(document, reference), allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"), texts


def write_page(text: str, target: Path) -> Path:
    """Write a page whole or not at all."""
    written_whole(lambda file: file.write_text(text, encoding="utf-8", newline="\n"), target)
    return target
