"""What tells whether a ranking is still the same: a digest of all that its numbers depend on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from aucpr_dask.variables import MODEL, QUERY

Values = tuple[tuple[str, ...], NDArray[Any]]  # which of model and query they go along, as their first axes
FOLLOWING = ("n_missing", "digest")  # from the other variables


def ranking_digests(part: xr.Dataset) -> NDArray[np.uint64]:
    """Digest every ranking of a part of a data set.

    Parameters
    ----------
    part : xarray.Dataset
        Whole rankings, with all variables of the data set; in memory.

    Returns
    -------
    ndarray of uint64, shape (model,) or (model, query)
        The first eight bytes of a SHA-256 of the names, types and values that a ranking is made of.
    """
    lead = [dim for dim in (MODEL, QUERY) if dim in part["score"].dims]
    own: dict[str, Values] = {}
    shared: dict[str, Values] = {}
    for name in sorted(map(str, part.data_vars)):
        if name not in FOLLOWING:
            (own if MODEL in part[name].dims else shared)[name] = _with_lead_first(part[name])
    out = np.empty([part.sizes[dim] for dim in lead], dtype=np.uint64)
    for query in range(part.sizes[QUERY]) if QUERY in lead else (None,):
        begun = _updated(hashlib.sha256(), shared, {QUERY: query})
        for model in range(part.sizes[MODEL]):
            digest = _updated(begun.copy(), own, {MODEL: model, QUERY: query}).digest()
            out[model if query is None else (model, query)] = int.from_bytes(digest[:8], "little")
    return out


def _with_lead_first(variable: xr.DataArray) -> Values:
    """Return which of model and query a variable goes along, and its values with these as the first axes."""
    lead = tuple(dim for dim in (MODEL, QUERY) if dim in variable.dims)
    values = variable.transpose(*lead, ...).values
    return lead, values if values.dtype.kind in "biuf" else values.astype(str)


def _updated(
    digest: Any, variables: Mapping[str, Values], index: Mapping[str, int | None]
) -> Any:
    for name, (lead, array) in variables.items():
        values = np.ascontiguousarray(array[tuple(index[dim] for dim in lead)])
        text = values.dtype.kind == "U"  # its width is that of the longest
        content = "\0".join(values.ravel().tolist()).encode() if text else values.data
        digest.update(f"{name} {'text' if text else values.dtype.str} {values.shape};".encode())
        digest.update(content)
    return digest
