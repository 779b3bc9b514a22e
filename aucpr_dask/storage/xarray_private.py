"""The names that xarray calls private and this package needs: here alone, so that a release that moves them shows.

A store of many data sets is written and opened without xarray's readers and writers, which take milliseconds for each.
What they make of attributes, text and lazy arrays is made by the same code.
"""

from xarray.backends import BackendArray as BackendArray
from xarray.backends.zarr import FillValueCoder as FillValueCoder
from xarray.backends.zarr import ZarrArrayWrapper as ZarrArrayWrapper
from xarray.backends.zarr import encode_zarr_variable as encode_zarr_variable
from xarray.core.indexing import CopyOnWriteArray as CopyOnWriteArray
from xarray.core.indexing import IndexingSupport as IndexingSupport
from xarray.core.indexing import LazilyIndexedArray as LazilyIndexedArray
from xarray.core.indexing import MemoryCachedArray as MemoryCachedArray
from xarray.core.indexing import explicit_indexing_adapter as explicit_indexing_adapter
