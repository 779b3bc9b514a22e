"""From results to statements about models."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy import stats

from aucpr_dask.errors import InvalidInputError, explain
from aucpr_dask.stores import Scores, map_nodes
from aucpr_dask.variables import BOUND, BOUNDS, METHOD, QUERY


def aggregate(result: Scores, *, level: float = 0.95) -> Scores:
    """Average the estimates of each model over its queries, with an interval that takes queries as the sample.

    The interval is ``mean -+ t sd / sqrt(q)`` with Student's t of q - 1 degrees of freedom, over the q queries
    whose estimate is not NaN: it says what to expect of other queries like these. A data set without
    queries keeps the first interval it has.

    Parameters
    ----------
    result : xarray.Dataset or xarray.DataTree
        What :func:`aucpr_dask.evaluate` returns.
    level : float
        Confidence level of the interval over queries.

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        ``estimate(model, estimator)``, ``interval(model, estimator, ci_bound)`` and ``n_queries(model, estimator)``.

    Raises
    ------
    InvalidInputError
        If `level` is not between 0 and 1.

    Examples
    --------
    >>> result = xr.Dataset(
    ...     {"estimate": (("model", "query", "estimator"), [[[0.2], [0.4], [0.6]]])},
    ...     coords={"model": ["bm25"], "estimator": ["average_precision"]},
    ... )
    >>> mean = aggregate(result)
    >>> mean["estimate"].values.round(4), mean["interval"].values.round(4)
    (array([[0.4]]), array([[[-0.0968,  0.8968]]]))
    """
    if not 0 < level < 1:
        raise InvalidInputError(explain("level must lie between 0 and 1", received=repr(level)))
    return map_nodes(result, lambda path, node: _mean_over_queries(node, level))


def _mean_over_queries(result: xr.Dataset, level: float) -> xr.Dataset:
    estimate = result["estimate"]
    if QUERY not in estimate.dims:
        first = result["interval"].isel({METHOD: 0}, drop=True) if "interval" in result else None
        kept = {"estimate": estimate, "n_queries": estimate.notnull().astype("int64")}
        return xr.Dataset(kept if first is None or result.sizes[METHOD] == 0 else kept | {"interval": first})
    estimate = estimate.drop_vars("level", errors="ignore")  # that of the intervals of single queries
    known = estimate.notnull().sum(QUERY)
    mean = estimate.mean(QUERY)
    error = estimate.std(QUERY, ddof=1) / np.sqrt(known)
    quantile = xr.apply_ufunc(
        stats.t.ppf, 0.5 + level / 2, (known - 1).where(known > 1), dask="parallelized", output_dtypes=[np.float64]
    )
    interval = xr.concat([mean - quantile * error, mean + quantile * error], dim=BOUND).transpose(..., BOUND)
    interval = interval.assign_coords({BOUND: np.array(BOUNDS, dtype=object), "level": level})
    interval.attrs = {"ci_kind": "Student t over queries", "ci_prob": level}
    return xr.Dataset({"estimate": mean, "interval": interval, "n_queries": known})
