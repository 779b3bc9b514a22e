"""Arrays to a score store: NumPy's .npz and .npy, and any file that xarray opens.

Nothing is unpickled, run, or read from other files.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from aucpr_dask import errors
from aucpr_dask.errors import AlignmentError, AucprError, FileFormatError, InvalidInputError, few
from aucpr_dask.schema import checks, terms
from aucpr_dask.scores.appending import place_for
from aucpr_dask.scores.chunks import Region, empty_variable
from aucpr_dask.scores.importing import files, table_files
from aucpr_dask.scores.importing.files import FilePath, ImportSummary, OnProgress
from aucpr_dask.scores.store import write_scores
from aucpr_dask.storage import backends, documents, stores, urls

DEFAULT_MODELS = "models"
MORE_THAN_NUMBERS = "the file holds more than its own numbers and text"

_NPY_MAGIC = b"\x93NUMPY"
_NPZ_MAGIC, _ZIP_END = b"PK\x03\x04", 22  # bytes of its last record
_ENGINES = {b"CDF": "scipy", b"\x89HDF": "h5netcdf"}
_ZARR_DOCUMENTS = ("zarr.json", ".zgroup", ".zmetadata")


def import_arrays(
    paths: FilePath | Sequence[FilePath],
    url: str | Path,
    *,
    score: str = "scores",
    label: FilePath = "y",
    models: str | Sequence[str] | None = None,
    dims: str | Sequence[str] | None = None,
    clusters: FilePath | None = None,
    fold: FilePath | None = None,
    negate: bool = False,
    overwrite: bool = False,
    append: bool = False,
    on_progress: OnProgress | None = None,
) -> ImportSummary:
    """Write NumPy arrays to a score store: one file is one data set, several are a tree named like the files.

    Nothing is ever unpickled. Memory holds the scores of one ``.npz`` file, or of an ``.npy`` file one block, and one
    block of the store.

    Parameters
    ----------
    paths : path or sequence of paths
        ``.npz`` or ``.npy`` files, folders of them, or glob patterns.
    score : str
        The array of scores in an ``.npz``. Integers become float32 if they have up to 16 bits, else float64.
    label : str or path
        The array of labels in an ``.npz``; for ``.npy`` the path of another ``.npy``. Its axes are those of
        the scores, in their order, without the models' (labels that the models share) or with them.
    models : str or sequence of str, optional
        The array of model names in an ``.npz`` (by default ``models`` if there is one), or the names
        themselves. Without names the models are numbered from 0.
    dims : str or sequence of str, optional
        The names of the score array's axes, perhaps as one string with commas: ``item``, which must be
        there, ``model``, ``query`` or ``repeat`` (of a cross-validation), and others. By default ``model, item`` for
        two axes and ``model, query, item`` for three. Others are stacked into the models: ``rf_100 size=0``.
    clusters, fold : str or path, optional
        The array of each item's (or query's) cluster, or fold (of each repeat); for ``.npy`` the path of another.
    negate : bool
        Whether low scores mean positive: their sign is changed.
    url, overwrite, append, on_progress
        See :func:`aucpr_dask.scores.importing.tables.import_table`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> np.savez(folder / "a.npz", scores=np.zeros((2, 5, 9)), y=np.arange(9) % 2, models=["forest", "linear"])
    >>> print(import_arrays(folder / "a.npz", folder / "scores.zarr", dims="model, repeat, item"))
    2 models, 9 items, 1 data set
    """
    with place_for(url, overwrite=overwrite, append=append) as place:
        listed = files.named_files(files.find_files(paths, "array file"), (".npz", ".npy"), "data set")
        label = _on_this_machine(label)
        groups = {"cluster": clusters and _on_this_machine(clusters), "fold": fold and _on_this_machine(fold)}
        sources = {}
        for name, file in files.reported(listed.items(), on_progress, "reading labels"):
            path = terms.check_node_name(name, file) if len(listed) > 1 else ""
            sources[path] = _source(file, score, label, models, dims, groups, negate=negate)
        template = _gathered({path: source.template for path, source in sources.items()})
        files.write_blocks(
            place, template, lambda path: sources[path].open(), overwrite=overwrite, on_progress=on_progress
        )
    return files.summarize(template, sum(source.n_items for source in sources.values()))


def _gathered(nodes: Mapping[str, xr.Dataset]) -> terms.Scores:
    """Return data sets by path as a tree, and one without a name as it is."""
    return nodes[""] if set(nodes) == {""} else xr.DataTree.from_dict(nodes)


def _on_this_machine(name: FilePath) -> FilePath:
    """Return the name of an array, or the path of its file on this machine."""
    return files.local_copy(name) if urls.is_remote(os.fspath(name)) else name


# --- data sets --------------------------------------------------------------------------------------------------


class _Source(NamedTuple):
    """One file: its data set, the number of its items, and what reads it and returns what makes its blocks."""

    template: xr.Dataset
    n_items: int
    open: Callable[[], Callable[[Region], dict[str, np.ndarray]]]


def _source(
    path: Path,
    score: str,
    label: FilePath,
    models: str | Sequence[str] | None,
    dims: str | Sequence[str] | None,
    groups: Mapping[str, FilePath | None],
    *,
    negate: bool,
) -> _Source:
    arrays = _Arrays(path, _head_of(path, _NPZ_MAGIC, _NPY_MAGIC) == _NPZ_MAGIC)
    scores: FilePath = score if arrays.is_npz else path
    shape, dtype = arrays.header(scores)
    sizes = dict(zip(_check_dims(dims, shape, path), shape, strict=True))  # in the order of the file
    # Repeats are kept where there are no queries; the other axes become the models, that of models first.
    kept = (terms.QUERY, terms.ITEM) if terms.QUERY in sizes else (terms.REPEAT, terms.ITEM)
    ranked = {dim: sizes[dim] for dim in kept if dim in sizes}
    stacked = sorted((dim for dim in sizes if dim not in ranked), key=lambda dim: dim != terms.MODEL)
    labelled = {dim: size for dim, size in sizes.items() if dim in (terms.QUERY, terms.ITEM)}

    where = f"{path}, array {score!r}"
    score_type = float_type(dtype, where)
    if dtype.kind in "iu" and dtype.itemsize == 8:
        as_scores(arrays.load(scores), where)
    names = _model_names(arrays, models, sizes.get(terms.MODEL, 0))
    parts = [names if dim == terms.MODEL else [f"{dim}={i}" for i in range(sizes[dim])] for dim in stacked]
    alone = score if arrays.is_npz else path.stem
    coords = {terms.MODEL: [" ".join(one) for one in product(*parts)] if parts else [alone]}  # such as rf_100 size=0
    full = {terms.MODEL: len(coords[terms.MODEL])} | ranked
    variables: dict[str, Any] = {"score": empty_variable(full, score_type)}
    where = f"{path}, array {str(label)!r}"
    labels = as_labels(arrays.load(label), where)
    is_shared = labels.shape == tuple(labelled.values())
    if is_shared:
        variables["label"] = xr.Variable(tuple(labelled), labels).transpose(*(dim for dim in ranked if dim in labelled))
    elif labels.shape == shape and terms.REPEAT not in ranked:
        variables["label"] = empty_variable(full, np.int8)
    else:
        received = f"labels of shape {labels.shape}, scores ({', '.join(sizes)}) of shape {shape}"
        allowed = f"labels of shape {tuple(labelled.values())} ({', '.join(labelled)})"
        remedy = "name the axes of the scores in their order: dims=(...)"
        raise AlignmentError("the labels do not fit the scores", where, received, allowed, remedy)
    for job, name in groups.items():
        if name is not None:
            variables[job] = _groups(arrays, name, job, ranked)

    def take(array: np.ndarray, region: Region) -> np.ndarray:
        """Return a region of an array, reading no more than that."""
        arranged = array.transpose([list(sizes).index(dim) for dim in (*stacked, *ranked)])
        if not stacked:
            return arranged[(np.newaxis, *region[1:])]
        place: Any = np.unravel_index(np.arange(region[0].start, region[0].stop), arranged.shape[: len(stacked)])
        return arranged[(*place, *region[1:])]

    def opened() -> Callable[[Region], dict[str, np.ndarray]]:
        values, own = arrays.load(scores), None if is_shared else arrays.load(label)

        def block(region: Region) -> dict[str, np.ndarray]:
            found = as_scores(take(values, region))
            # Unlike a change of sign, a difference has no negative zeros.
            made = {"score": 0 - found if negate else found}
            return made if own is None else made | {"label": as_labels(take(own, region))}

        return block

    template = xr.Dataset(variables, coords=coords, attrs={"source": path.name})
    return _Source(template, int((labels != terms.PADDING).sum()), opened)


def _check_dims(dims: str | Sequence[str] | None, shape: tuple[int, ...], path: Path) -> tuple[str, ...]:
    if dims is None:
        named = terms.DEFAULT_DIMS.get(len(shape), ())
    else:
        named = tuple(name.strip() for name in (dims.split(",") if isinstance(dims, str) else dims))
    if len(named) == len(shape) and terms.ITEM in named and len(set(named)) == len(named) and all(named):
        return named
    what = "these are not names for the axes of the scores"
    received = f"dims ({', '.join(named)}) for an array of shape {shape}"
    allowed = f"{len(shape)} different names, one of them {terms.ITEM!r}; {terms.MODEL!r} and {terms.QUERY!r} have "
    allowed += f"their meaning, {terms.REPEAT!r} is kept without queries; others are stacked into the models"
    remedy = "pass dims=(...), for example model,repeat,item"
    raise InvalidInputError(what, path, received, allowed, remedy)


def _model_names(arrays: _Arrays, models: str | Sequence[str] | None, n_models: int) -> list[str]:
    if models is None and DEFAULT_MODELS in arrays.names():
        models = DEFAULT_MODELS
    if models is None or not n_models:
        return [str(number) for number in range(n_models)]
    names = _strings(arrays.load(models)) if isinstance(models, str) else [str(name) for name in models]
    if len(names) != n_models:
        what = "the number of model names does not match the scores"
        allowed = f"{n_models} names, one for each place on the axis {terms.MODEL!r}"
        raise AlignmentError(what, arrays.path, f"{len(names)} names", allowed)
    return names


def _strings(array: np.ndarray) -> list[str]:
    return [name.decode("utf-8") if isinstance(name, bytes) else str(name) for name in array.ravel().tolist()]


def _groups(arrays: _Arrays, name: FilePath, job: str, ranked: Mapping[str, int]) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the dimensions and values of ``cluster`` or ``fold``."""
    values = np.asarray(arrays.load(name))
    if job == terms.FOLD and terms.REPEAT in ranked and values.shape == tuple(ranked.values()):
        return tuple(ranked), values
    for dim, size in ranked.items():
        if values.shape == (size,):
            return (dim,), np.array(_strings(values), object) if values.dtype.kind in "US" else values
    allowed = " or ".join(f"({size},) for each {dim}" for dim, size in ranked.items())
    where, received = f"{arrays.path}, array {str(name)!r}", f"an array of shape {values.shape}"
    raise AlignmentError(f"{job!r} does not fit the scores", where, received, f"shape {allowed}")


# --- files of NumPy ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Arrays:
    """A file of NumPy's: .npz holds named arrays, .npy the scores, and others are named by the paths of their files."""

    path: Path
    is_npz: bool

    def names(self) -> list[str]:
        """Return the names of the arrays."""
        if not self.is_npz:
            return []
        with _naming_damage(self.path), zipfile.ZipFile(self.path) as archive, self.path.open("rb") as file:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            file.seek(-_ZIP_END, os.SEEK_END)
            end = file.read()  # unless it has a comment; zipfile does not compare the number of members
            stated = int.from_bytes(end[10:12], "little")
            if end.startswith(b"PK\x05\x06") and stated not in (len(names), 0xFFFF):
                raise ValueError(f"{len(names)} arrays, where the archive states {stated}")
            return names

    def header(self, name: FilePath) -> tuple[tuple[int, ...], np.dtype]:
        """Return the shape and the type of an array."""
        if not self.is_npz:
            array = self.load(name)
            return array.shape, array.dtype
        if str(name) not in (names := self.names()):
            remedy = "name it: score=, label="
            raise FileFormatError("there is no such array in the file", self.path, repr(name), few(names), remedy)
        member = f"{name}.npy"
        with _naming_damage(self.path), zipfile.ZipFile(self.path) as archive, archive.open(member) as stream:
            version = np.lib.format.read_magic(stream)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(stream)
            _check_plain(dtype, self.path, name)
            promised = math.prod(shape) * dtype.itemsize
            if (held := archive.getinfo(member).file_size - stream.tell()) < promised:
                raise ValueError(f"array {str(name)!r} should have {promised:,} bytes, but has {max(0, held):,}")
        return shape, dtype

    def load(self, name: FilePath) -> np.ndarray:
        """Return an array; that of a .npy is mapped to memory."""
        if self.is_npz:
            self.header(name)
            with _naming_damage(self.path), np.load(self.path, allow_pickle=False) as arrays:
                found: np.ndarray = arrays[str(name)]
                return found
        path = Path(name)
        try:
            _head_of(path, _NPY_MAGIC)
        except OSError as error:
            what, allowed = "the file cannot be read", "a file that may be read"
            remedy = "the labels of a .npy file are another .npy file: label=PATH"
            raise InvalidInputError(what, path, error.strerror, allowed, remedy) from error
        with _naming_damage(path):
            try:
                found = np.load(path, mmap_mode="r", allow_pickle=False)
            except ValueError as error:
                if "Python objects" in str(error):
                    _check_plain(np.dtype(object), path, "the array")
                raise
        _check_plain(found.dtype, path, "the array")
        return found


def _head_of(path: Path, *allowed: bytes) -> bytes:
    """Return which of the allowed ones the first bytes of a file of NumPy's are."""
    with path.open("rb") as stream:
        head = stream.read(len(_NPY_MAGIC))
    if (found := next((magic for magic in allowed if head.startswith(magic)), None)) is None:
        meant = "what np.savez or np.save wrote: .npz or .npy"
        raise FileFormatError("this is not a file of NumPy arrays", path, allowed=meant)
    return found


@contextmanager
def _naming_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except (AucprError, MemoryError):
        raise
    except Exception as error:  # of a damaged file, anything
        raise _corrupt(path, error) from error


def _corrupt(path: Path, error: object) -> FileFormatError:
    return FileFormatError("the file is corrupt or truncated", path, error, remedy="copy or download it again")


def _check_plain(dtype: np.dtype, path: Path, name: object) -> None:
    if dtype.hasobject:
        what, where = "the array holds Python objects, which are never unpickled", f"{path}, array {str(name)!r}"
        allowed = "numbers, or strings of a fixed width"
        remedy = "save it as such an array: np.asarray(names, dtype=str)"
        raise FileFormatError(what, where, "dtype object", allowed, remedy)


# --- types ------------------------------------------------------------------------------------------------------


def float_type(dtype: np.dtype, where: object = None) -> np.dtype:
    """Return the type in which scores of `dtype` are stored."""
    if dtype.kind == "f" and dtype.itemsize <= 8:
        return np.dtype(f"f{max(4, dtype.itemsize)}")
    if dtype.kind in "iub":
        return np.dtype("f4" if dtype.itemsize <= 2 else "f8")
    allowed = "real numbers of up to 64 bits"
    raise FileFormatError("scores have an unsupported type", where, f"dtype {dtype}", allowed)


def as_scores(array: np.ndarray, where: object = None) -> np.ndarray:
    """Return scores as float32 or float64 without rounding, or raise."""
    scores = array.astype(float_type(array.dtype, where), copy=False)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        # Python compares an integer with a float exactly; few are too large for float64.
        large = array[np.abs(scores) >= 2**53]
        if bad := next((number for number in large.tolist() if number != float(number)), None):
            what = "an integer score cannot be a float64 without rounding"
            raise FileFormatError(what, where, bad, remedy=table_files.EXACT_REMEDY)
    return scores


def as_labels(array: np.ndarray, where: str = "labels") -> np.ndarray:
    """Return labels as int8; raise if one is not a whole number from -2 to 127."""
    checks.check_labels(array, 1, where)
    return array.astype(np.int8)


# --- xarray -----------------------------------------------------------------------------------------------------


def import_xarray(
    path: FilePath,
    url: str | Path,
    *,
    rename: Mapping[str, str] | None = None,
    dims: str | Sequence[str] | None = None,
    engine: str | None = None,
    overwrite: bool = False,
    append: bool = False,
    on_progress: OnProgress | None = None,
) -> ImportSummary:
    """Write a file that xarray opens (netCDF, Zarr, ...) to a score store; its groups become data sets.

    Variables and dimensions have the names of the contract, in any order, or are renamed to them.

    Parameters
    ----------
    path : path or URL
        What to open.
    rename : mapping, optional
        From the names of variables and dimensions in the file to those of the contract.
    dims : str or sequence of str, optional
        The names of the axes of the scores, perhaps as one string with commas, in a Zarr store whose arrays have none:
        ``"model, item"``. Those of the other variables follow from their lengths.
    engine : str, optional
        How xarray opens the file; by default zarr, h5netcdf or scipy (netCDF 3), depending on the file.
    url, overwrite, append, on_progress
        See :func:`aucpr_dask.scores.importing.tables.import_table`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> file = xr.Dataset({"score": (("item", "model"), [[0.9], [0.1]]), "truth": ("item", [1, 0])})
    >>> file.assign_coords(model=["forest"]).to_netcdf(folder / "scores.nc", engine="scipy")
    >>> print(import_xarray(folder / "scores.nc", folder / "scores.zarr", rename={"truth": "label"}))
    1 model, 2 items, 1 data set
    """
    with place_for(url, overwrite=overwrite, append=append) as place, _opened(path, engine, dims, rename or {}) as tree:
        groups = dict(terms.nodes_of(tree))
        _check_renamed(rename or {}, groups, path)
        new_names = (rename or {}).items()
        renamed = {
            name: one.rename({old: new for old, new in new_names if old in (*one.variables, *one.dims)})
            for name, one in groups.items()
        }
        nodes = {name: _tidy(dataset, path) for name, dataset in renamed.items() if "score" in dataset}
        if not nodes:
            has = (name for dataset in groups.values() for name in dataset.data_vars)
            remedy = "say which one holds the scores: rename={'NAME': 'score'}"
            raise errors.lacks("no variable is called 'score'", path, has, remedy)
        scores = _gathered(nodes)
        progress = on_progress and partial(on_progress, "writing blocks")
        write_scores(scores, place, overwrite=overwrite, on_progress=progress)
        unknown = {str(name) for dataset in renamed.values() for name in dataset.data_vars} - set(terms.SCORE_VARIABLES)
        notes = [f"variables left out: {few(sorted(unknown))}"] if unknown else []
        if left_out := [name or "/" for name in groups if name not in nodes]:
            notes.append(f"groups without scores, left out: {few(left_out)}")
        return files.summarize(scores, sum(files.count_items(node) for node in nodes.values()), notes)


@contextmanager
def _opened(
    path: FilePath, engine: str | None, dims: str | Sequence[str] | None, rename: Mapping[str, str]
) -> Iterator[xr.DataTree]:
    tree = opened_by_xarray(path, engine, dims, rename)
    try:
        with tree:
            yield tree
    except MemoryError:
        raise
    except AucprError as error:
        if (name := urls.concealed(os.fspath(path))) in str(error):
            raise
        raise error.with_part("file", name) from error.__cause__
    except Exception as error:  # chunks are read late
        if isinstance(error, OSError) and error.errno is not None:  # of the system, perhaps while the store is written
            raise
        received, remedy = f"{type(error).__name__}: {error}"[:300], "copy or download it again"
        raise FileFormatError("xarray cannot read this", path, received, remedy=remedy) from error


def opened_by_xarray(
    path: FilePath,
    engine: str | None = None,
    dims: str | Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    chunks: Any = "auto",
) -> xr.DataTree:
    """Open a file lazily, as what xarray makes of it, or raw arrays of Zarr with names for their axes."""
    with warnings.catch_warnings():
        # Other people's Zarr stores may lack consolidated metadata, which only makes opening slower.
        warnings.filterwarnings("ignore", message="Failed to open Zarr store with consolidated")
        try:
            engine = engine or engine_of(path)
            check_source(path, engine)
            if engine == "zarr" and (arrays := stores.unnamed_arrays(os.fspath(path))):
                return xr.DataTree(_with_dims(arrays, dims, rename or {}, path))
            how: Any = {"engine": engine, "chunks": {} if isinstance(chunks, str) else chunks}
            place: Any = urls.concealed(os.fspath(path))
            place = backends.open_backend(place, read_only=True) if urls.is_remote(place) else place
            try:
                tree = xr.open_datatree(place, **how)
            except (NotImplementedError, ValueError):
                if not isinstance(place, str):
                    raise
                # A format without groups, such as netCDF 3, cannot be opened as a tree.
                tree = xr.DataTree(xr.open_dataset(place, **how))
        except (AucprError, MemoryError):
            raise
        except Exception as error:  # of a damaged file, readers raise anything
            received = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            remedy = "check the path, name the engine, or install what it needs, for example "
            remedy += 'pip install "aucpr-dask[netcdf]"'
            raise FileFormatError("xarray cannot open this", path, received, remedy=remedy) from error
    if dims is not None:
        what, received = "the axes of these arrays have names", few({str(dim) for dim in tree.dims})
        raise InvalidInputError(what, path, f"dims={dims!r}; {received}", None, "leave out dims=, or rename them")
    return tree


def _with_dims(
    arrays: Mapping[str, Any], dims: str | Sequence[str] | None, rename: Mapping[str, str], path: FilePath
) -> xr.Dataset:
    """Return arrays of Zarr whose axes have no names, with names for those of the scores, and of others by length."""
    roles = {rename.get(name, name): name for name in arrays}
    shape = arrays[roles["score"]].shape if "score" in roles else ()
    if dims is None:
        what, allowed = "the arrays of this Zarr store have no names of dimensions", "arrays that xarray opens"
        usual = ",".join(terms.DEFAULT_DIMS.get(len(shape), terms.DEFAULT_DIMS[2]))
        remedy = f"name the axes of the scores: dims={usual!r}"
        raise FileFormatError(what, path, few(f"{name} {one.shape}" for name, one in arrays.items()), allowed, remedy)
    sizes = dict(zip(_check_dims(dims, shape, Path(path)), shape, strict=True)) if shape else {}
    import dask.array as da

    variables = {}
    for role, name in roles.items():
        array = arrays[name]
        own: list[tuple[str, ...]] = [tuple(sizes)] if role == "score" else [(role,)] if role in sizes else []
        own += terms.SCORE_VARIABLES[role].dims if role in terms.SCORE_VARIABLES else []
        fitting = [one for one in own if tuple(sizes.get(dim) for dim in one) == array.shape]
        if fitting:
            variables[name] = fitting[0], da.from_zarr(array) if len(array.shape) > 1 else array[...]
        elif role in terms.SCORE_VARIABLES:
            what, received = f"{name!r} does not fit the scores", f"shape {array.shape}, next to scores {sizes}"
            raise AlignmentError(what, path, received, None, "name the axes of the scores in their order: dims=")
    return xr.Dataset(variables)


def open_zarr(url: str, named: Mapping[str, str]) -> terms.Scores:
    """Open a Zarr store that another program wrote, in place: its groups with scores, lazily.

    `named` gives the names that our variables and dimensions have there, such as ``{"score": "probability"}``.
    """
    tree = opened_by_xarray(url, "zarr", chunks=None)
    score = named.get("score", "score")
    nodes = {path: node for path, node in terms.nodes_of(tree) if score in node}
    if not nodes:
        what = f"no variable is called {score!r}"
        remedy = errors.for_caller("like={'score': 'NAME'}", "--score NAME, or in import arrays --rename NAME=score")
        raise errors.lacks(what, url, tree.data_vars, f"name it: {remedy}")
    theirs = dict.fromkeys(named.get(ours, ours) for ours in terms.SCORE_VARIABLES)
    for path, node in nodes.items():
        _check_renamed(dict.fromkeys(named.values(), ""), {"": node}, url)
        kept = node[[name for name in theirs if name in node.data_vars]]
        there = {*kept.variables, *kept.dims}
        nodes[path] = kept.rename({name: ours for ours, name in named.items() if name != ours and name in there})
    return _gathered(nodes)


def _check_renamed(rename: Mapping[str, str], groups: Mapping[str, xr.Dataset], path: FilePath) -> None:
    known = {str(name) for dataset in groups.values() for name in (*dataset.variables, *dataset.dims)}
    for name in rename:
        if name not in known:
            what, allowed = "there is no variable or dimension of this name", errors.closest(name, sorted(known))
            raise InvalidInputError(what, path, repr(name), allowed)


def _tidy(dataset: xr.Dataset, path: FilePath) -> xr.Dataset:
    """Return the known variables of a data set, scores and labels in the types of a store."""
    dataset = dataset[[name for name in dataset.data_vars if name in terms.SCORE_VARIABLES]]
    types = {"score": (as_scores, float_type(dataset["score"].dtype, path)), "label": (as_labels, np.dtype(np.int8))}
    for name, (convert, dtype) in types.items():
        if name in dataset and dataset[name].dtype != dtype:
            how: Any = {"dask": "parallelized", "output_dtypes": [dtype], "keep_attrs": True}
            dataset[name] = xr.apply_ufunc(convert, dataset[name], **how)
    return dataset


# --- netCDF, HDF5 and Zarr --------------------------------------------------------------------------------------


def engine_of(path: FilePath) -> str:
    """Return the engine with which xarray is to open `path`, by its content: xarray would try any that is installed."""
    url = os.fspath(path)
    if urls.is_remote(url) or any((Path(url) / name).is_file() for name in _ZARR_DOCUMENTS):
        return "zarr"
    if Path(url).is_file():
        with files.reading(Path(url)) as stream:
            head = stream.read(4)
        for magic, engine in _ENGINES.items():
            if head.startswith(magic):
                return engine
        received = f"a file that begins with {head!r}"
    else:
        received = "a folder without metadata of Zarr" if Path(url).is_dir() else "nothing"
    remedy = "check the path, or name the engine of xarray that opens it: engine=..."
    raise FileFormatError("xarray cannot open this", path, received, "Zarr, netCDF or HDF5", remedy)


def check_source(path: FilePath, engine: str) -> None:
    """Raise if reading `path` could run code or lead to other files."""
    if engine == "zarr":
        import zarr

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of types that Zarr may change; nothing is written here
            root = zarr.open(backends.open_backend(os.fspath(path), read_only=True), mode="r")
            members = root.members(max_depth=None) if isinstance(root, zarr.Group) else ()
            documents.check_plain_arrays({name: node.metadata.to_dict() for name, node in members}, path)
    elif engine in ("h5netcdf", "netcdf4") and not urls.is_remote(os.fspath(path)):
        _check_hdf5(path)


# What readers do before they come to numbers, and what is wrong with a member, if anything is. Another process does it,
# because nothing can interrupt HDF5, which may go in circles in a damaged file, or crash.
_WALK = """
import sys, h5py
from contextlib import suppress

def problem(group, name):
    if isinstance(group.get(name, getlink=True), h5py.ExternalLink):
        return "a link to another file"
    node = group.get(name)
    with suppress(Exception):
        dict(node.attrs)
    if isinstance(node, h5py.Group):
        if node.id in seen:  # readers would walk in circles
            return "a group that occurs in two places"
        seen.add(node.id)
        groups.append(node)
    elif isinstance(node, h5py.Dataset):
        [len(dim) for dim in node.dims]
        if node.external or node.is_virtual:
            return "data in another file"
        types = [node.dtype, *(field[0] for field in (node.dtype.fields or {}).values())]
        return "references to objects" if any(map(h5py.check_ref_dtype, types)) else None

with h5py.File(sys.argv[1], "r") as file:
    groups, seen = [file["/"]], {file["/"].id}
    while groups:
        group = groups.pop()
        for name in group:
            if found := problem(group, name):
                print(f"{group.name.rstrip('/')}/{name}", found, sep="\\0")
                sys.exit()
"""
PATIENCE = 120.0  # seconds


def _check_hdf5(path: FilePath) -> None:
    """Raise if an HDF5 file leads elsewhere, or if reading what it says of itself does not end, or crashes."""
    try:
        import h5py
    except ImportError:
        return  # then only an engine that was named can open it
    if not h5py.is_hdf5(path):
        return
    call = [sys.executable, "-c", _WALK, path]
    try:
        done = subprocess.run(call, timeout=PATIENCE, capture_output=True, check=False, text=True, errors="replace")
    except subprocess.TimeoutExpired as error:
        raise _corrupt(Path(path), f"reading its metadata took more than {PATIENCE:g} s") from error
    if done.returncode:
        said = done.stderr.strip().rpartition("\n")[2]
        raise _corrupt(Path(path), said if done.returncode > 0 else f"HDF5 crashed by signal {-done.returncode}")
    if done.stdout:
        name, found = done.stdout.strip().split("\0")
        allowed, remedy = "groups, and data sets of numbers and text", "write it again without these"
        raise FileFormatError(MORE_THAN_NUMBERS, f"{os.fspath(path)}, {name}", found, allowed, remedy)
