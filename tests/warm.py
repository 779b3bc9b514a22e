"""What a fork server loads, so that the processes of the fault tests start in a moment. It starts no thread."""

import distributed  # noqa: F401
from conftest import queried

import aucpr_dask as ap
import aucpr_dask.execution  # noqa: F401

ap.evaluate(queried(2, 2, 40), ["average_precision", "continuous"], ["logit", "bootstrap"], n_resamples=10)
