"""Data inside a page: a payload of compressed arrays, which the page unpacks when needed, and text as inert JSON."""

from __future__ import annotations

import gzip
import hashlib
import json
from base64 import b64encode
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from aucpr_dask.view.tables import plain


class Payload:
    """The arrays of a page, each kept once and referred to by its number."""

    def __init__(self) -> None:
        self._places: dict[bytes, int] = {}
        self.texts: list[str] = []

    def add(self, values: ArrayLike, dtype: DTypeLike = np.float64) -> dict[str, Any]:
        """Add an array and return the reference by which the page finds it."""
        array = np.ascontiguousarray(values, dtype=np.dtype(dtype).newbyteorder("<"))
        raw = array.tobytes()
        key = hashlib.sha256(raw).digest()
        if key not in self._places:
            self._places[key] = len(self.texts)
            self.texts.append(b64encode(gzip.compress(raw, compresslevel=6, mtime=0)).decode())
        return {"payload": self._places[key], "dtype": np.dtype(dtype).name, "shape": list(array.shape)}


def inert_json(document: Any) -> str:
    """Return JSON without characters that mean something to an HTML parser."""
    text = json.dumps(plain(document), allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def policy_source(text: str) -> str:
    """Return the source expression of an inline script or style in a content security policy."""
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
