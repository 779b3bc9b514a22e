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

from aucpr_dask.errors import OptimizedPythonError

if not __debug__:
    raise OptimizedPythonError(
        "this package does not work when Python drops assertions, because Zarr reads stores in some of its own",
        received="python -O, -OO or PYTHONOPTIMIZE",
        remedy="run Python without -O, and unset PYTHONOPTIMIZE",
    )

_named, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # the public names: __init__.pyi


def __getattr__(name: str) -> Any:
    """Return a public name, imported when it is looked up."""
    found = _named(name)
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
