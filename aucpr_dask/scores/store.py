"""Score stores: written block by block, opened lazily."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import xarray as xr

from aucpr_dask.domains import check_labels
from aucpr_dask.errors import StoreError, explain
from aucpr_dask.scores.validate import validate_scores
from aucpr_dask.stores import Scores, chunk_shape, create_store, is_remote, map_nodes, nodes_of, open_store
from aucpr_dask.variables import ITEM, MODEL, PADDING, QUERY, SCORE_VARIABLES

KIND = "aucpr_dask.scores"

Region = tuple[slice, ...]


def open_scores(url: str | Path, *, chunks: Any = "auto") -> Scores:
    """Open a score store, lazily and validated.

    Parameters
    ----------
    url : str or Path
        A path or URL that :func:`save_scores` or ``aucpr-dask import`` wrote.
    chunks : "auto", None or mapping
        Dask chunks: ``"auto"`` takes the store's own, None opens without Dask.

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        One data set, or one node per data set. Large variables are Dask arrays; labels shared by the
        models and all that is small are in memory.

    Raises
    ------
    StoreError
        If there is no finished score store at `url`.
    InvalidInputError
        If what it holds is not valid.
    """
    scores = open_store(url, KIND, chunks={} if isinstance(chunks, str) else chunks)
    scores = map_nodes(scores, lambda path, dataset: _remember_source(_load_small(dataset), url))
    validate_scores(scores, positive_from=0)
    return scores


def _load_small(dataset: xr.Dataset) -> xr.Dataset:
    large = _large(dataset)
    return dataset.assign({name: array.load() for name, array in dataset.data_vars.items() if name not in large})


def _remember_source(dataset: xr.Dataset, url: str | Path) -> xr.Dataset:
    dataset.encoding["source"] = str(url)
    return dataset


def _refuse_own_source(scores: Scores, url: str | Path) -> None:
    """Raise if `scores` were opened, lazily, from the very store that is to be replaced."""
    for _, dataset in nodes_of(scores):
        source = dataset.encoding.get("source")
        lazy = any(dataset[name].chunks is not None for name in _large(dataset))
        if lazy and source is not None and not is_remote(str(source)) and Path(source).resolve() == Path(url).resolve():
            raise StoreError(
                explain(
                    "a store cannot be replaced by what is still read from it",
                    where=str(url),
                    remedy="write to another place, or load the scores first: scores.load()",
                )
            )


def save_scores(
    scores: Scores,
    url: str | Path,
    *,
    overwrite: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write a score data set, or a tree of them, to a Zarr store.

    The item axis is kept whole; models (and queries) are cut into chunks of about 32 MiB. The number of
    missing scores per model and query is stored beside, so that later runs know of them before they read.
    An interrupted write leaves a store that refuses to open.

    Parameters
    ----------
    scores : xarray.Dataset or xarray.DataTree
        NumPy- or Dask-backed.
    url : str or Path
        Where to write.
    overwrite : bool
        Whether to replace a store at `url`.
    on_progress : callable, optional
        Called with (blocks written, blocks in all).

    Raises
    ------
    InvalidInputError
        If `scores` is not valid; see :func:`validate_scores`.
    StoreError
        If the store exists or cannot be written.

    Examples
    --------
    >>> import numpy as np, xarray as xr, tempfile, pathlib
    >>> scores = xr.Dataset(
    ...     {"score": (("model", "item"), [[0.9, 0.1, 0.4]]), "label": ("item", [1, 0, 1])},
    ...     coords={"model": ["a"]},
    ... )
    >>> place = pathlib.Path(tempfile.mkdtemp()) / "scores.zarr"
    >>> save_scores(scores, place)
    >>> open_scores(place)["score"].values
    array([[0.9, 0.1, 0.4]])
    """
    _refuse_own_source(scores, url)
    writer = ScoreWriter(url, scores, overwrite=overwrite)
    blocks = [(path, dataset, region) for path, dataset in nodes_of(scores) for region in writer.regions(path)]
    for done, (path, dataset, region) in enumerate(blocks, start=1):
        names = _large(dataset)
        arrays = dask.compute(*(_part(dataset, name, region) for name in names))
        writer.write(path, region, **dict(zip(names, arrays, strict=True)))
        if on_progress is not None:
            on_progress(done, len(blocks))
    writer.commit()


class ScoreWriter:
    """Write a score store region by region; it opens only after :meth:`commit`.

    Parameters
    ----------
    url : str or Path
        Where to write.
    template : xarray.Dataset or xarray.DataTree
        Valid score data sets. Variables over both model and item are described by it (shape, dtype) but
        not read; all others are written as they are.
    overwrite : bool
        Whether to replace a store at `url`.
    """

    def __init__(self, url: str | Path, template: Scores, *, overwrite: bool = False) -> None:
        template = map_nodes(template, lambda path, dataset: _load_small(dataset))
        validate_scores(template, positive_from=0)
        prepared = map_nodes(template, lambda path, dataset: _prepare(dataset))
        self._nodes = dict(nodes_of(prepared))
        self._missing = {path: np.zeros(dataset["n_missing"].shape, "i8") for path, dataset in self._nodes.items()}
        self._pending = create_store(url, prepared, KIND, overwrite=overwrite)

    def regions(self, path: str = "") -> list[Region]:
        """Return the aligned regions, of whole chunks, that make up the node at `path`."""
        score = self._nodes[path]["score"]
        return _regions(score.shape, score.encoding["chunks"])

    def write(self, path: str, region: Region, **arrays: np.ndarray) -> None:
        """Write one of :meth:`regions`: the block of ``score`` and of every variable shaped like it."""
        dataset = self._nodes[path]
        label = arrays.get("label")
        if label is not None:
            check_labels(label, 0, "variable 'label'")
        elif "label" in dataset:
            label = _part(dataset, "label", region)
        missing = np.isnan(arrays["score"])
        if label is not None:
            absent = [axis for axis, dim in enumerate(dataset["score"].dims) if dim not in dataset["label"].dims]
            missing &= np.expand_dims(label, absent) != PADDING
        self._missing[path][region[:-1]] = missing.sum(axis=-1)
        for name, block in arrays.items():
            self._pending.array(path, name)[_slices(dataset, name, region)] = block

    def commit(self) -> None:
        """Write the counts of missing scores, and let the store open."""
        for path, counts in self._missing.items():
            self._pending.array(path, "n_missing")[...] = counts
        self._pending.commit()


def _slices(dataset: xr.Dataset, name: str, region: Region) -> Region:
    """Return the slices of a variable that belong to a region of the scores."""
    by_dim = dict(zip(dataset["score"].dims, region, strict=True))
    return tuple(by_dim[dim] for dim in dataset[name].dims)


def _part(dataset: xr.Dataset, name: str, region: Region) -> Any:
    return dataset[name].data[_slices(dataset, name, region)]


def _large(dataset: xr.Dataset) -> list[str]:
    return [str(name) for name in dataset.data_vars if MODEL in dataset[name].dims and ITEM in dataset[name].dims]


def _prepare(dataset: xr.Dataset) -> xr.Dataset:
    """Portable types, known variables only, what is written later as lazy zeros."""
    dataset = dataset[[name for name in dataset.data_vars if name in SCORE_VARIABLES]].drop_encoding()
    for dim, index in dataset.indexes.items():
        if index.dtype.kind not in "iufbM":
            dataset = dataset.assign_coords({dim: (dim, np.array([str(x) for x in index], dtype=object))})
    if "label" in dataset:
        dataset["label"] = dataset["label"].astype("int8")
    dims = [dim for dim in (MODEL, QUERY) if dim in dataset["score"].dims]
    counts = da.zeros([dataset.sizes[dim] for dim in dims], dtype="int64", chunks=-1)
    dataset["n_missing"] = (dims, counts)
    dataset["n_missing"].encoding = {"chunks": tuple(max(1, size) for size in counts.shape)}
    for name in _large(dataset):
        variable = dataset[name]
        chunks = chunk_shape(variable.shape, dataset["score"].dtype.itemsize, whole=1)
        dataset[name] = (variable.dims, da.zeros(variable.shape, dtype=variable.dtype, chunks=chunks), variable.attrs)
        dataset[name].encoding = {"chunks": chunks}
    for key, variable in dataset.data_vars.items():
        variable.attrs.setdefault("description", SCORE_VARIABLES[str(key)].description)
    return dataset


def _regions(shape: tuple[int, ...], chunks: tuple[int, ...]) -> list[Region]:
    counts = [-(-size // chunk) for size, chunk in zip(shape, chunks, strict=True)]
    return [
        tuple(slice(i * chunk, min((i + 1) * chunk, size)) for i, chunk, size in zip(index, chunks, shape, strict=True))
        for index in np.ndindex(*counts)
    ]
