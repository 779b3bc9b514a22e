"""Chunks of data sets: as they are stored, or are to be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dask.array as da
import numpy as np
import xarray as xr

from aucpr_dask.schema.variables import ITEM

Region = tuple[slice, ...]  # of scores


def empty_variable(sizes: Mapping[Any, int], dtype: Any, lengths: Mapping[str, int] | None = None) -> xr.Variable:
    """Return a variable without values, in chunks of the given lengths; whole along other dimensions."""
    shape, chunks = tuple(sizes.values()), chunks_of(sizes, lengths or {})
    # Dask would pickle a function to find a name, and xarray would compute a Dask array of size 0.
    name = f"described-{np.dtype(dtype)}-{shape}-{chunks}"
    has_values = 0 not in shape
    data = da.empty(shape, dtype=dtype, chunks=chunks, name=name) if has_values else np.empty(shape, dtype)
    return xr.Variable(sizes, data)


def chunks_of(sizes: Mapping[Any, int], lengths: Mapping[str, int]) -> tuple[int, ...]:
    """Return the lengths of a variable's chunks: at most those given; whole along other dimensions."""
    return tuple(max(1, min(lengths.get(str(dim), size), size)) for dim, size in sizes.items())


def item_chunk(dataset: xr.Dataset) -> int | None:
    """Return how many items a chunk holds in the store that a data set was opened from; None if it holds all."""
    chunks = dataset["score"].encoding.get("preferred_chunks", {}) if "score" in dataset else {}
    length: int | None = chunks.get(ITEM)
    return length if length and length < dataset.sizes[ITEM] else None
