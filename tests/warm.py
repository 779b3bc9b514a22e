"""What a fork server loads, so that the processes of the fault tests start in a moment. It starts no thread."""

import distributed.shuffle  # noqa: F401
import xarray as xr
from conftest import queried

import aucpr_dask as ap
import aucpr_dask.progress
import aucpr_dask.runs.run

xr.backends.list_engines()
lazy = ap.evaluate(queried(2, 2, 40).chunk(), ["average_precision", "continuous"], ["bootstrap"], n_resamples=10)
lazy.compute(scheduler="synchronous")
