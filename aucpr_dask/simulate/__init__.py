"""Simulate score data sets of known area, and try estimators and intervals on them."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aucpr_dask.simulate.scenarios import Scenario as Scenario
    from aucpr_dask.simulate.scenarios import bibeta as bibeta
    from aucpr_dask.simulate.scenarios import binormal as binormal
    from aucpr_dask.simulate.scenarios import offset_uniform as offset_uniform
    from aucpr_dask.simulate.studies import study as study

_HOME = {
    "Scenario": "scenarios",
    "bibeta": "scenarios",
    "binormal": "scenarios",
    "offset_uniform": "scenarios",
    "study": "studies",
}

__all__ = ["Scenario", "bibeta", "binormal", "offset_uniform", "study"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
