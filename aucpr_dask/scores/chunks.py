"""Chunks of data sets, as they are stored or are to be, and digests of the rankings in them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from aucpr_dask.schema.terms import CLASS, ITEM, MODEL, PADDING, QUERY, RANKING_DIMS, REPEAT

Region = tuple[slice, ...]  # of scores

DERIVED = ("n_missing", "digest")  # from the other variables


def empty_variable(sizes: Mapping[Any, int], dtype: Any, lengths: Mapping[str, int] | None = None) -> xr.Variable:
    """Return a variable without values, in chunks of the given lengths; whole along other dimensions."""
    shape, chunks = tuple(sizes.values()), chunks_of(sizes, lengths or {})
    return xr.Variable(sizes, _empty(shape, np.dtype(dtype), chunks))


@lru_cache(maxsize=64)  # Dask takes half a millisecond for each, and those of data sets of one form are the same
def _empty(shape: tuple[int, ...], dtype: np.dtype[Any], chunks: tuple[int, ...]) -> Any:
    if 0 in shape:
        return np.empty(shape, dtype)  # xarray would compute a Dask array of size 0
    import dask.array as da

    # Dask would pickle a function to find a name.
    return da.empty(shape, dtype=dtype, chunks=chunks, name=f"described-{dtype}-{shape}-{chunks}")


def chunks_of(sizes: Mapping[Any, int], lengths: Mapping[str, int]) -> tuple[int, ...]:
    """Return the lengths of a variable's chunks: at most those given; whole along other dimensions."""
    return tuple(max(1, min(lengths.get(str(dim), size), size)) for dim, size in sizes.items())


def item_chunk(dataset: xr.Dataset) -> int | None:
    """Return how many items a chunk holds in the store that a data set was opened from; None if it holds all."""
    chunks = dataset["score"].encoding.get("preferred_chunks", {}) if "score" in dataset else {}
    length: int | None = chunks.get(ITEM)
    return length if length and length < dataset.sizes[ITEM] else None


@dataclass(frozen=True)
class _Values:
    """The values of a variable: model and query or class, if present, are the first axes, and items the last."""

    lead: tuple[str, ...]
    is_along_items: bool
    array: NDArray[Any]

    @classmethod
    def of(cls, variable: xr.DataArray) -> _Values:
        lead = tuple(dim for dim in RANKING_DIMS if dim in variable.dims)
        return cls(lead, ITEM in variable.dims, _numbers(variable.transpose(*lead, ...).values))

    def at(self, index: Mapping[str, Any]) -> NDArray[Any]:
        """Return the values of one model and query or class, or of several."""
        values: NDArray[Any] = np.asarray(self.array[tuple(index[dim] for dim in self.lead)])
        return values


def _numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as they are, and hashes of text: never of a fixed width, which would be that of the longest."""
    if values.dtype.kind in "biuf":
        return values
    text = values if values.dtype.kind in "OUT" else values.astype(str)
    words = np.fromiter(map(str, text.ravel().tolist()), object, text.size)
    hashes: NDArray[Any] = pd.util.hash_array(words, categorize=False).reshape(values.shape)
    return hashes


def with_hashed_text(dataset: xr.Dataset) -> xr.Dataset:
    """Return a data set with the text that digests hold as hashes, which are made once for all its regions."""
    names = {*map(str, dataset.data_vars), ITEM} & {*map(str, dataset.variables)}
    text = [name for name in names if dataset[name].dtype.kind not in "biuf"]
    return dataset.assign({name: (dataset[name].dims, _numbers(dataset[name].values)) for name in text})


def ranking_digests(part: xr.Dataset) -> NDArray[np.uint64]:
    """Digest every ranking of a part of a data set that is in memory, with all variables and the labels of items."""
    # A digest is the first eight bytes of a SHA-256 of the names, types and values of a ranking, without the padding at
    # its end, which grows when a longer ranking is added.
    lead = [dim for dim in RANKING_DIMS if dim in part["score"].dims]
    unit = next((dim for dim in (CLASS, REPEAT) if dim in lead), QUERY)
    names = sorted({str(name) for name in part.data_vars if name not in DERIVED} | ({ITEM} & set(part.coords)))
    lengths = _Values.of(_lengths(part))
    is_ragged = MODEL in lengths.lead  # then nothing along the items is shared
    own = {name for name in names if MODEL in part[name].dims or (is_ragged and ITEM in part[name].dims)}
    values = {name: _Values.of(part[name]) for name in names}
    out = np.empty([part.sizes[dim] for dim in lead], dtype=np.uint64)
    n_models = part.sizes[MODEL]
    for place in range(part.sizes[unit]) if unit in lead else (None,):
        length = None if is_ragged else int(lengths.at({unit: place}))
        shared = {name: values[name] for name in names if name not in own}
        # What the models share is hashed once, and the state copied for each.
        digests = [_updated(hashlib.sha256(), shared, {unit: place}, length)]
        digests += [digests[0].copy() for _ in range(n_models - 1)]
        if is_ragged:
            for model, digest in enumerate(digests):
                index = {MODEL: model, unit: place}
                _updated(digest, {name: values[name] for name in sorted(own)}, index, int(lengths.at(index)))
        else:
            for name in sorted(own):
                head, rows = _by_model(name, values[name], {unit: place}, length)
                for digest, row in zip(digests, rows, strict=True):
                    digest.update(head)
                    digest.update(row)
        found = np.frombuffer(b"".join(digest.digest()[:8] for digest in digests), "<u8")
        out[:, ... if place is None else place] = found
    return out


def _lengths(part: xr.Dataset) -> xr.DataArray:
    """Return the number of places of each ranking up to the padding at its end."""
    if "label" not in part:
        return xr.DataArray(part.sizes[ITEM])
    is_there = part["label"].variable != PADDING
    ends = xr.Variable(ITEM, np.arange(1, part.sizes[ITEM] + 1))
    return xr.DataArray((is_there * ends).max(ITEM) if part.sizes[ITEM] else is_there.sum(ITEM))


def _by_model(
    name: str, variable: _Values, index: Mapping[str, int | None], length: int | None
) -> tuple[bytes, NDArray[Any]]:
    """Return what :func:`_updated` hashes of one variable: what comes before its values, and those by model."""
    values = variable.at({**index, MODEL: slice(None)})
    values = values[:, :length] if variable.is_along_items else values
    values = np.ascontiguousarray(values if values.ndim > 1 else values[:, None])
    return f"{name} {values.dtype.str} {values.shape[1:]};".encode(), values


def _updated(digest: Any, variables: Mapping[str, _Values], index: Mapping[str, int | None], length: int | None) -> Any:
    for name, variable in variables.items():
        values = variable.at(index)
        values = np.ascontiguousarray(values[:length] if variable.is_along_items else values)
        digest.update(f"{name} {values.dtype.str} {values.shape};".encode())
        digest.update(values.data)
    return digest
