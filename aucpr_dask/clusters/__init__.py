"""Describe clusters, connect to them, and prepare their workers."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aucpr_dask.clusters.connecting import connect as connect
    from aucpr_dask.clusters.descriptions import Description as Description
    from aucpr_dask.clusters.descriptions import read as read
    from aucpr_dask.clusters.workers import compile_kernels as compile_kernels
    from aucpr_dask.clusters.workers import keep_memory as keep_memory
    from aucpr_dask.clusters.workers import load_kernels as load_kernels
    from aucpr_dask.clusters.workers import prepare_workers as prepare_workers

_HOME = {
    "Description": "descriptions",
    "compile_kernels": "workers",
    "connect": "connecting",
    "keep_memory": "workers",
    "load_kernels": "workers",
    "prepare_workers": "workers",
    "read": "descriptions",
}

__all__ = ["Description", "compile_kernels", "connect", "keep_memory", "load_kernels", "prepare_workers", "read"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
