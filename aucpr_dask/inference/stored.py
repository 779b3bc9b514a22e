"""Comparisons and ranks as stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array as da

from aucpr_dask.schema.trees import Scores, map_nodes, nodes_of
from aucpr_dask.storage.stores import create_store, open_store

KIND = "aucpr_dask.comparison"


def save_comparison(comparison: Scores, url: str | Path, *, overwrite: bool = False) -> None:
    """Write the result of :func:`compare` or :func:`rank` to a Zarr store, lazy arrays chunk by chunk.

    Parameters
    ----------
    comparison : xarray.Dataset or xarray.DataTree
        What to write.
    url : str or Path
        Where to write.
    overwrite : bool
        Whether to replace a store at `url`.

    Raises
    ------
    StoreError
        If there is already something at `url`, or it cannot be written.
    """

    def with_chunks(path: str, node: Any) -> Any:
        node = node.drop_encoding()
        for name in node.data_vars:
            if node[name].chunks is not None:
                node[name].encoding["chunks"] = tuple(sizes[0] for sizes in node[name].chunks)
        return node

    pending = create_store(url, map_nodes(comparison, with_chunks), KIND, overwrite=overwrite)
    sources: list[Any] = []
    targets: list[Any] = []
    for path, node in nodes_of(comparison):
        for name in (str(name) for name in node.data_vars):
            if node[name].chunks is not None:
                sources.append(node[name].data)
                targets.append(pending.array(path, name))
    with pending.writing():
        if sources:
            da.store(sources, targets, lock=False)
        pending.commit()


def open_comparison(url: str | Path, *, chunks: Any = None) -> Scores:
    """Open a finished store of :func:`save_comparison`.

    Parameters
    ----------
    url : str or Path
        Where to read.
    chunks : None, "auto" or mapping
        Dask chunks; None opens without Dask.

    Returns
    -------
    xarray.Dataset or xarray.DataTree

    Raises
    ------
    StoreError
        If there is no finished comparison at `url`.
    """
    return open_store(url, KIND, chunks=chunks)
