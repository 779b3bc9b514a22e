"""Area under the precision-recall curve for thousands of models at once.

Scores come in as labelled, chunked arrays (:func:`open_scores`), are evaluated exactly on NumPy or
on a Dask cluster (:func:`evaluate`, :func:`run`) and come out as an xarray Dataset of estimates and
confidence intervals. Importing the package compiles nothing.
"""

from __future__ import annotations

import importlib
import inspect
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

import lazy_loader
import wrapt

from aucpr_dask.errors import OptimizedPythonError, did_you_mean

if not __debug__:
    raise OptimizedPythonError(
        "this package does not work when Python drops assertions, because Zarr reads stores in some of its own",
        received="python -O, -OO or PYTHONOPTIMIZE",
        remedy="run Python without -O, and unset PYTHONOPTIMIZE",
    )

_named, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # the public names: __init__.pyi


def __getattr__(name: str) -> Any:
    """Return a public name, imported when it is looked up."""
    try:
        found = _named(name)
    except AttributeError:
        if name.startswith("_"):  # tools ask for many
            raise
        what = f"module {__name__!r} has no attribute {name!r}"
        metrics = importlib.import_module(f"{__name__}.metrics")
        near = did_you_mean(name, [*__all__, *(f"metrics.{one}" for one in metrics.__all__)], "")
        raise AttributeError(f"{what}; {near}" if near else what) from None
    return _with_plain_signature(found) if isinstance(found, FunctionType) else found


@cache
def _with_plain_signature(function: Any) -> Any:
    """Show help of a function without types: its docstring has them, in words."""
    signature = inspect.signature(function)
    plain = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    function.__signature__ = signature.replace(parameters=plain, return_annotation=signature.empty)
    return function


@wrapt.when_imported("xarray")
def _register_accessor(module: ModuleType) -> None:
    """Register ``.aucpr`` when xarray is imported."""
    importlib.import_module("aucpr_dask.accessor")
