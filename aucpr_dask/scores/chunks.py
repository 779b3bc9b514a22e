"""Chunks of data sets, as they are stored or are to be, and digests of the rankings in them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from aucpr_dask.schema.described import Described
from aucpr_dask.schema.terms import CLASS, ITEM, MODEL, PADDING, QUERY, RANKING_DIMS, REPEAT

Region = tuple[slice, ...]  # of scores

MOST_LOADED = 64 * 2**20  # bytes of a small variable to hold in memory; larger ones are read chunk by chunk
DERIVED = ("n_missing", "digest")  # from the other variables


def empty_variable(sizes: Mapping[Any, int], dtype: Any, lengths: Mapping[str, int] | None = None) -> xr.Variable:
    """Return a variable without values, in chunks of the given lengths; whole along other dimensions."""
    shape, dtype = tuple(sizes.values()), np.dtype(dtype)
    if 0 in shape:
        return xr.Variable(sizes, np.empty(shape, dtype))  # xarray would compute a Dask array of size 0
    return xr.Variable(sizes, Described(shape, dtype, chunks_of(sizes, lengths or {})))


def chunks_of(sizes: Mapping[Any, int], lengths: Mapping[str, int]) -> tuple[int, ...]:
    """Return the lengths of a variable's chunks: at most those given; whole along other dimensions."""
    return tuple(max(1, min(lengths.get(str(dim), size), size)) for dim, size in sizes.items())


def item_chunk(dataset: xr.Dataset) -> int | None:
    """Return how many items a chunk holds in the store that a data set was opened from; None if it holds all."""
    score = dataset.variables.get("score")
    chunks = {} if score is None else score.encoding.get("preferred_chunks", {})
    length: int | None = chunks.get(ITEM)
    return length if length and length < dataset.sizes[ITEM] else None


def without_values(dataset: xr.Dataset, names: Iterable[Any]) -> xr.Dataset:
    """Return a data set without the values of these variables, which are in chunks along the items."""
    lengths = {ITEM: item_chunk(dataset) or dataset.sizes[ITEM]}
    dataset = dataset.copy(deep=False)
    for variable in map(dataset.variables.__getitem__, names):  # to assign others, xarray would look for their labels
        variable.data = empty_variable(variable.sizes, variable.dtype, lengths).data
    return dataset


def _hasher(name: str, variable: xr.DataArray, unit: str) -> Callable[[Any, int, int, int], None]:
    """Return what hashes a variable of one ranking, of a model and of a place along `unit`, up to a number of items."""
    lead = [dim for dim in (MODEL, unit) if dim in variable.dims]
    values = np.ascontiguousarray(_numbers(variable.transpose(*lead, ...).values))
    steps = dict(zip(lead, values.strides, strict=False))
    content, shape = values.reshape(-1).view(np.uint8).data, values.shape[len(lead) :] or (1,)
    heads = dict[int, tuple[bytes, int]]()  # and how many bytes follow

    def hash_into(digest: Any, model: int, place: int, length: int) -> None:
        if length not in heads:
            own = (length,) if ITEM in variable.dims and shape[0] != length else shape
            heads[length] = f"{name} {values.dtype.str} {own};".encode(), math.prod(own) * values.itemsize
        head, size = heads[length]
        start = model * steps.get(MODEL, 0) + place * steps.get(unit, 0)
        digest.update(head)
        digest.update(content[start : start + size])

    return hash_into


def _numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as they are, and hashes of text: never of a fixed width, which would be that of the longest."""
    if values.dtype.kind in "biuf":
        return values
    text = values if values.dtype.kind in "OUT" else values.astype(str)
    words = text.ravel()
    if words.dtype != object or pd.api.types.infer_dtype(words, skipna=False) != "string":
        words = np.fromiter(map(str, words.tolist()), object, text.size)
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
    lead = [str(dim) for dim in part["score"].dims if dim != ITEM]
    if kept := [dim for dim in lead if dim not in RANKING_DIMS]:
        each = [part.isel(dict(zip(kept, at, strict=True))) for at in np.ndindex(*(part.sizes[dim] for dim in kept))]
        rest = [dim for dim in lead if dim in RANKING_DIMS]
        found_of_each = np.stack([ranking_digests(one) for one in each])
        sizes = {dim: part.sizes[dim] for dim in (*kept, *rest)}
        return xr.Variable(sizes, found_of_each.reshape(*sizes.values())).transpose(*lead).values
    unit = next((dim for dim in (CLASS, REPEAT) if dim in lead), QUERY)
    names = sorted({str(name) for name in part.data_vars if name not in DERIVED} | ({ITEM} & set(part.coords)))
    lengths = _lengths(part)
    is_ragged = MODEL in lengths.dims  # then nothing along the items is shared
    own = {name for name in names if MODEL in part[name].dims or (is_ragged and ITEM in part[name].dims)}
    of_all, of_each = (
        [_hasher(name, part[name], unit) for name in names if (name in own) is is_own] for is_own in (False, True)
    )
    shape = part.sizes.get(MODEL, 1), part.sizes[unit] if unit in lead else 1
    all_lengths = lengths.set_dims(dict(zip((MODEL, unit), shape, strict=True))).values
    found = bytearray()
    for place, of_models in enumerate(all_lengths.T.tolist()):
        shared = hashlib.sha256()  # what the models share is hashed once, and the state copied for each
        for hash_into in of_all:
            hash_into(shared, 0, place, of_models[0])
        for model, length in enumerate(of_models):
            digest = shared.copy()
            for hash_into in of_each:
                hash_into(digest, model, place, length)
            found += digest.digest()[:8]
    digests = np.frombuffer(found, "<u8").reshape(shape[::-1]).T
    return digests.reshape([part.sizes[dim] for dim in lead]).astype(np.uint64)


def _lengths(part: xr.Dataset) -> xr.Variable:
    """Return the number of places of each ranking up to the padding at its end."""
    n_items = part.sizes[ITEM]
    if "label" not in part:
        return xr.Variable((), n_items)
    label = part["label"].variable.transpose(..., ITEM)
    is_there = np.insert(label.values != PADDING, 0, True, axis=-1)  # so that there is always one
    return xr.Variable(label.dims[:-1], n_items - is_there[..., ::-1].argmax(axis=-1))
