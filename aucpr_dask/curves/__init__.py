"""Curves, their bands, and what an area can be compared with."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aucpr_dask.curves.api import confusion as confusion
    from aucpr_dask.curves.api import curve as curve
    from aucpr_dask.curves.api import dominates as dominates
    from aucpr_dask.curves.api import to_precision_recall as to_precision_recall
    from aucpr_dask.curves.api import to_roc as to_roc

_HOME = {
    "confusion": "api",
    "curve": "api",
    "dominates": "api",
    "to_precision_recall": "api",
    "to_roc": "api",
}

__all__ = ["confusion", "curve", "dominates", "to_precision_recall", "to_roc"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
