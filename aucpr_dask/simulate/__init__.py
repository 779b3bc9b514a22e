"""Simulate score data sets of known area, and try estimators and intervals on them."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aucpr_dask.simulate.scenarios import Scenario, bibeta, binormal, offset_uniform
    from aucpr_dask.simulate.studies import study

__all__ = ["Scenario", "bibeta", "binormal", "offset_uniform", "study"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        home = "studies" if name == "study" else "scenarios"
        return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
