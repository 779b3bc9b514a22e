"""What goes out: annotated results, and opening them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from aucpr_dask.evaluation.request import IntervalPlan, Request
from aucpr_dask.schema.options import lookup
from aucpr_dask.schema.variables import FLAG_BITS, FLAGS, RESULT_VARIABLES
from aucpr_dask.storage.stores import Scores, open_store

KIND = "aucpr_dask.result"


def open_result(url: str | Path, *, chunks: Any = None) -> Scores:
    """Open a finished result store.

    Parameters
    ----------
    url : str or Path
        What :func:`aucpr_dask.run` or ``aucpr-dask evaluate`` wrote.
    chunks : None, "auto" or mapping
        Dask chunks; None opens without Dask.

    Returns
    -------
    xarray.Dataset or xarray.DataTree

    Raises
    ------
    StoreError
        If there is no finished result at `url`.
    """
    return open_store(url, KIND, chunks=chunks)


def annotate(result: xr.Dataset, request: Request, plan: IntervalPlan, source: Mapping[Any, Any]) -> xr.Dataset:
    """Describe every variable, and record in the attributes how the numbers came about."""
    for name, variable in result.data_vars.items():
        variable.attrs["description"] = RESULT_VARIABLES[str(name)].description
        variable.attrs["units"] = "1"
    result["interval"].attrs |= {"ci_kind": "confidence interval", "ci_prob": plan.level}
    result["flags"].attrs |= {
        "flag_masks": np.array([flag.bit for flag in FLAGS], dtype=np.int32).tolist(),
        "flag_meanings": " ".join(flag.name for flag in FLAGS),
    }
    parameters = {name: value for name, value in asdict(request).items() if value not in (None, ())}
    parameters["estimators"] = list(request.estimators)
    kept = {name: value for name, value in source.items() if str(name).startswith("source")}
    result.attrs = kept | parameters | {"level": plan.level} | plan.attributes() | {"versions": versions()}
    return result


@cache
def versions() -> str:
    """Return the versions that a number depends on, as text: every file format keeps that."""
    from importlib.metadata import version

    from aucpr_dask._version import __version__

    packages = ("numpy", "numba", "scipy", "xarray", "dask", "zarr")
    return ", ".join([f"aucpr-dask {__version__}", *(f"{package} {version(package)}" for package in packages)])


def flagged(result: xr.Dataset, flag: str) -> xr.Dataset:
    """Return where the warning called `flag` is raised, as a boolean variable of that name."""
    lookup(FLAG_BITS, flag, "flag")
    return xr.Dataset({flag: (result["flags"] & FLAG_BITS[flag]) > 0})
