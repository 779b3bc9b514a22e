"""The package as a whole: its root, its accessor, and the names that have moved."""

import importlib
import inspect
import sys
from pathlib import Path

import pytest
import xarray as xr

import aucpr_dask as ap
from aucpr_dask.accessor import Plots
from aucpr_dask.view import plots

PACKAGE = Path(ap.__file__).parent


def test_the_root_holds_folders_and_few_modules() -> None:
    entries = {path.name for path in PACKAGE.iterdir()} - {"__pycache__"}
    files = {name for name in entries if "." in name}
    assert files == {"__init__.py", "__main__.py", "_version.py", "accessor.py", "errors.py", "py.typed"}
    assert len(entries) <= 22


@pytest.mark.parametrize("name", sorted(ap._MOVED))
def test_modules_that_have_moved_are_imported_with_a_warning(name: str) -> None:
    old = f"aucpr_dask.{name}"
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} has moved to aucpr_dask.{ap._MOVED[name]}"):
        module = importlib.import_module(old)
    assert module is importlib.import_module(f"aucpr_dask.{ap._MOVED[name]}")


def test_methods_of_the_accessor_have_the_signatures_of_the_functions(scores: xr.Dataset) -> None:
    pairs = [
        (getattr(scores.aucpr, name), getattr(ap, name))
        for name in ("evaluate", "compare", "rank", "aggregate", "gate", "power")
    ]
    pairs += [(getattr(scores.aucpr.plot, name), getattr(plots, name)) for name in vars(Plots) if name in plots.__all__]
    assert len(pairs) == 17
    for method, function in pairs:
        parameters = list(inspect.signature(function).parameters.values())
        assert list(inspect.signature(method).parameters.values()) == parameters[1:]
        assert method.__doc__ == function.__doc__


def test_every_method_of_the_accessor_is_found() -> None:
    scores = xr.Dataset({"score": (("model", "item"), [[2.0, 1.0]]), "label": ("item", [1, 0])})
    for accessor in (scores.aucpr, scores.aucpr.plot):
        names = [name for name in dir(accessor) if not name.startswith("_")]
        assert {"plot", "save", "rank"} <= {*names} or "forest" in names
        assert all(getattr(accessor, name) is not None for name in names)
