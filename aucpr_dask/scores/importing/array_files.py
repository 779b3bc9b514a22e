"""Files that hold arrays: NumPy's .npz and .npy; and checks of foreign netCDF, HDF5 and Zarr.

Nothing is unpickled, run, or read from other files.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aucpr_dask.errors import AucprError, FileFormatError, InvalidInputError, few
from aucpr_dask.schema import checks
from aucpr_dask.scores.importing import files, table_files
from aucpr_dask.storage import backends, documents, urls

MORE_THAN_NUMBERS = "the file holds more than its own numbers and text"

_NPY_MAGIC = b"\x93NUMPY"
_NPZ_MAGIC, _ZIP_END = b"PK\x03\x04", 22  # bytes of its last record
_ENGINES = {b"CDF": "scipy", b"\x89HDF": "h5netcdf"}
_ZARR_DOCUMENTS = ("zarr.json", ".zgroup", ".zmetadata")

# --- NumPy ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Npz:
    """The named arrays of one file."""

    path: Path

    def names(self) -> list[str]:
        """Return the names of the arrays."""
        with _zip_errors(self.path), zipfile.ZipFile(self.path) as archive, self.path.open("rb") as file:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            file.seek(-_ZIP_END, os.SEEK_END)
            end = file.read()  # unless it has a comment; zipfile does not compare the number of members
            stated = int.from_bytes(end[10:12], "little")
            if end.startswith(b"PK\x05\x06") and stated not in (len(names), 0xFFFF):
                raise ValueError(f"{len(names)} arrays, where the archive states {stated}")
            return names

    def header(self, name: files.FilePath) -> tuple[tuple[int, ...], np.dtype]:
        """Return the shape and the type of an array."""
        member = f"{self._check(name)}.npy"
        with _zip_errors(self.path), zipfile.ZipFile(self.path) as archive, archive.open(member) as stream:
            version = np.lib.format.read_magic(stream)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(stream)
            promised = math.prod(shape) * _check_plain(dtype, self.path, name).itemsize
            if (held := archive.getinfo(member).file_size - stream.tell()) < promised:
                raise ValueError(f"array {str(name)!r} should have {promised:,} bytes, but has {max(0, held):,}")
        return shape, dtype

    def load(self, name: files.FilePath) -> np.ndarray:
        """Return an array."""
        self.header(name)
        with _zip_errors(self.path), np.load(self.path, allow_pickle=False) as arrays:
            array: np.ndarray = arrays[str(name)]
            return array

    def _check(self, name: files.FilePath) -> str:
        if str(name) not in (names := self.names()):
            remedy = "name it: score=, label="
            raise FileFormatError("there is no such array in the file", self.path, repr(name), few(names), remedy)
        return str(name)


@contextmanager
def _zip_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (AucprError, MemoryError):
        raise
    except Exception as error:  # of a damaged archive, anything
        raise _corrupt(path, error) from error


def _corrupt(path: Path, error: object) -> FileFormatError:
    return FileFormatError("the file is corrupt or truncated", path, error, remedy="copy or download it again")


@dataclass(frozen=True)
class Npy:
    """One file holds the scores; any other array is named by the path of its file."""

    path: Path

    def names(self) -> list[str]:
        """Return no names."""
        return []

    def header(self, name: files.FilePath) -> tuple[tuple[int, ...], np.dtype]:
        """Return the shape and the type of an array."""
        array = self.load(name)
        return array.shape, array.dtype

    def load(self, name: files.FilePath) -> np.ndarray:
        """Return an array, mapped to memory."""
        path = Path(name)
        try:
            with path.open("rb") as stream:
                is_npy = stream.read(len(_NPY_MAGIC)) == _NPY_MAGIC
        except OSError as error:
            what, allowed = "the file cannot be read", "a file that may be read"
            remedy = "the labels of a .npy file are another .npy file: label=PATH"
            raise InvalidInputError(what, path, error.strerror, allowed, remedy) from error
        if not is_npy:
            raise _not_arrays(path)
        try:
            array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
        except ValueError as error:
            if "Python objects" in str(error):
                raise _pickled(path, "the array") from error
            raise _corrupt(path, error) from error
        _check_plain(array.dtype, path, "the array")
        return array


Arrays = Npz | Npy


def open_arrays(path: Path) -> Arrays:
    """Open a file of NumPy's, by its first bytes."""
    with path.open("rb") as stream:
        head = stream.read(len(_NPY_MAGIC))
    if head.startswith(_NPZ_MAGIC):
        return Npz(path)
    if head == _NPY_MAGIC:
        return Npy(path)
    raise _not_arrays(path)


def _not_arrays(path: Path) -> FileFormatError:
    allowed = "what np.savez or np.save wrote: .npz or .npy"
    return FileFormatError("this is not a file of NumPy arrays", path, allowed=allowed)


def _check_plain(dtype: np.dtype, path: Path, name: object) -> np.dtype:
    if dtype.hasobject:
        raise _pickled(path, name)
    return dtype


def _pickled(path: Path, name: object) -> FileFormatError:
    what, where = "the array holds Python objects, which are never unpickled", f"{path}, array {str(name)!r}"
    allowed, remedy = "numbers, or strings of a fixed width", "save it as such an array: np.asarray(names, dtype=str)"
    return FileFormatError(what, where, "dtype object", allowed, remedy)


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


# --- netCDF, HDF5 and Zarr --------------------------------------------------------------------------------------


def engine_of(path: files.FilePath) -> str:
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


def check_source(path: files.FilePath, engine: str) -> None:
    """Raise if reading `path` could run code or lead to other files."""
    if engine == "zarr":
        documents.check_plain_arrays(dict(_zarr_documents(path)), path)
    elif engine in ("h5netcdf", "netcdf4") and not urls.is_remote(os.fspath(path)):
        _check_hdf5(path)


def _zarr_documents(path: files.FilePath) -> Iterator[tuple[str, dict[str, Any]]]:
    import zarr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of types that Zarr may change; nothing is written here
        root = zarr.open(backends.open_backend(os.fspath(path), read_only=True), mode="r")
        if isinstance(root, zarr.Group):
            for name, node in root.members(max_depth=None):
                yield name, node.metadata.to_dict()


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


def _check_hdf5(path: files.FilePath) -> None:
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
