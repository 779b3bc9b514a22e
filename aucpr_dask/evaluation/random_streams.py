"""Keys of the random streams of resamples."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import xarray as xr

from aucpr_dask.schema.variables import QUERY

SCHEME = "philox4x32-10 2"  # a change of any random number changes this name


def stream_key(seed: int, dataset: str, query: str) -> int:
    """Return the 64 bits by which the resamples of a query are drawn: a digest of names, never of positions."""
    text = json.dumps([SCHEME, int(seed), dataset, query])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def stream_keys(score: xr.DataArray, seed: int, path: str) -> xr.Variable:
    """Return the key of each query of a data set; queries without names are numbered. All classes share one key."""
    if QUERY not in score.dims:
        return xr.Variable((), np.uint64(stream_key(seed, path, "")))
    names = score.indexes.get(QUERY, range(score.sizes[QUERY]))
    return xr.Variable(QUERY, np.array([stream_key(seed, path, str(name)) for name in names], dtype=np.uint64))
