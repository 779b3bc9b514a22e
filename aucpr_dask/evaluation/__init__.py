"""From scores to estimates and intervals, labelled and lazy."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aucpr_dask.evaluation.api import estimate as estimate
    from aucpr_dask.evaluation.api import evaluate as evaluate
    from aucpr_dask.evaluation.api import interval as interval

_HOME = {
    "estimate": "api",
    "evaluate": "api",
    "interval": "api",
}

__all__ = ["estimate", "evaluate", "interval"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
