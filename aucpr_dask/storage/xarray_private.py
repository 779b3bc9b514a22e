"""The names that xarray calls private and this package needs: here alone, so that a release that moves them shows.

A store of many data sets is written and opened without xarray's readers and writers, which take milliseconds for each.
What they make of attributes, text and lazy arrays is made by the same code.
"""

from xarray.backends import BackendArray
from xarray.backends.zarr import FillValueCoder, ZarrArrayWrapper, encode_zarr_variable
from xarray.core.indexing import (
    CopyOnWriteArray,
    IndexingSupport,
    LazilyIndexedArray,
    MemoryCachedArray,
    explicit_indexing_adapter,
)

__all__ = [
    "BackendArray",
    "CopyOnWriteArray",
    "FillValueCoder",
    "IndexingSupport",
    "LazilyIndexedArray",
    "MemoryCachedArray",
    "ZarrArrayWrapper",
    "encode_zarr_variable",
    "explicit_indexing_adapter",
]
