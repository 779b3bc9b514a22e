"""Checks of foreign netCDF, HDF5 and Zarr: their kind, and that they hold only their own numbers and text."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aucpr_dask.errors import FileFormatError
from aucpr_dask.scores.importing.files import FilePath, reading
from aucpr_dask.storage.backends import open_backend
from aucpr_dask.storage.codecs import check_plain_arrays
from aucpr_dask.storage.urls import is_remote

_ENGINES = {b"CDF": "scipy", b"\x89HDF": "h5netcdf"}
_ZARR_DOCUMENTS = ("zarr.json", ".zgroup", ".zmetadata")


def engine_of(path: FilePath) -> str:
    """Return the engine with which xarray is to open `path`, by its content: xarray would try any that is installed."""
    url = os.fspath(path)
    if is_remote(url) or any((Path(url) / name).is_file() for name in _ZARR_DOCUMENTS):
        return "zarr"
    if Path(url).is_file():
        with reading(Path(url)) as stream:
            head = stream.read(4)
        for magic, engine in _ENGINES.items():
            if head.startswith(magic):
                return engine
        received = f"a file that begins with {head!r}"
    else:
        received = "a folder without metadata of Zarr" if Path(url).is_dir() else "nothing"
    raise FileFormatError(
        "xarray cannot open this",
        where=path,
        received=received,
        allowed="Zarr, netCDF or HDF5",
        remedy="check the path, or name the engine of xarray that opens it: engine=... (--engine)",
    )


def check_source(path: FilePath, engine: str) -> None:
    """Raise if reading `path` could run code or lead to other files."""
    if engine == "zarr":
        check_plain_arrays(dict(_zarr_documents(path)), path)
    elif engine in ("h5netcdf", "netcdf4") and not is_remote(os.fspath(path)):
        _check_hdf5(path)


def _zarr_documents(path: FilePath) -> Iterator[tuple[str, dict[str, Any]]]:
    import zarr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of types that Zarr may change; nothing is written here
        root = zarr.open(open_backend(os.fspath(path), read_only=True), mode="r")
        if isinstance(root, zarr.Group):
            for name, node in root.members(max_depth=None):
                yield name, node.metadata.to_dict()


def _check_hdf5(path: FilePath) -> None:
    try:
        import h5py
    except ImportError:
        return  # then only an engine that was named can open it
    if not h5py.is_hdf5(path):
        return
    with h5py.File(path, "r") as file:
        groups, seen = [file["/"]], {file["/"].id}
        while groups:
            group = groups.pop()
            for name in group:
                if found := _problem(h5py, group, name, seen):
                    raise FileFormatError(
                        "the file holds more than its own numbers and text",
                        where=f"{os.fspath(path)}, {group.name.rstrip('/')}/{name}",
                        received=found,
                        allowed="groups, and data sets of numbers and text",
                        remedy="write it again without these, with the program that made it",
                    )
                node = group.get(name)
                if isinstance(node, h5py.Group):
                    seen.add(node.id)
                    groups.append(node)


def _problem(h5py: Any, group: Any, name: str, seen: set[Any]) -> str | None:
    """Return what is wrong with a member of a group, if anything is."""
    if isinstance(group.get(name, getlink=True), h5py.ExternalLink):
        return "a link to another file"
    node = group.get(name)
    if isinstance(node, h5py.Group) and node.id in seen:  # readers would walk in circles
        return "a group that occurs in two places"
    if not isinstance(node, h5py.Dataset):
        return None
    if node.external or node.is_virtual:
        return "data in another file"
    return "references to objects" if any(map(h5py.check_ref_dtype, _types_in(node.dtype))) else None


def _types_in(dtype: Any) -> list[Any]:
    """Return a type and those of its fields."""
    return [dtype, *(field[0] for field in (dtype.fields or {}).values())]
