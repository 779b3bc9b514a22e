"""Zarr stores whose root document is written last, so that an unfinished one never opens.

A store is built from a *template*: a Dataset or DataTree whose large variables are described but not yet computed.
Everything except the root metadata document is written immediately. Chunks follow, from any process;
:meth:`PendingStore.commit` writes the root document, and only then does the store open.
"""

from __future__ import annotations

import errno
import hashlib
import json
import unicodedata
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import xarray as xr
import zarr
from numpy.typing import NDArray
from pandas.api.types import infer_dtype
from zarr.abc.buffer import Buffer
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype
from zarr.codecs import BytesCodec, Crc32cCodec, VLenUTF8Codec, ZstdCodec
from zarr.dtype import parse_dtype
from zarr.storage import StorePath

from aucpr_dask import errors
from aucpr_dask.schema.checks import is_dask
from aucpr_dask.schema.terms import DEFAULT_DIMS, OTHER_NAMES, Stored, as_tree, map_nodes, nodes_of
from aucpr_dask.storage import backends
from aucpr_dask.storage import documents as metadata_documents
from aucpr_dask.storage.checksums import CheckedStore, check_document, have_checksums, with_list
from aucpr_dask.storage.claims import CLEARING, LAYING_OUT, Claim, State, as_buffer
from aucpr_dask.storage.decoding import can_encode, encoded
from aucpr_dask.storage.documents import check_plain_arrays, damaged, explaining_damage
from aucpr_dask.storage.remote import check_writable
from aucpr_dask.storage.trees import StoredNodes, groups_around
from aucpr_dask.storage.urls import StoreName, concealed, is_remote, public
from aucpr_dask.storage.xarray_private import FillValueCoder, encode_zarr_variable
from aucpr_dask.storage.zarr_private import ArrayV3Metadata, sync

ROOT_DOCUMENT = "zarr.json"
FORMAT_VERSION = 2
SMALL_CHUNK, WAITING_CHUNKS = 2**16, 256  # bytes of chunks that wait to be written together, and how many do
OF_TEXT = 64  # bytes of a text, about
UNITS_OF_TIMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}  # those of xarray
CHUNK_BYTES = 32 * 2**20  # large enough that reading and ranking a chunk outweighs the fixed cost of a task


class ChunkWriter:
    """Writes regions of the arrays of a store: whole chunks as bytes, many at a time, and parts of chunks by Zarr.

    Who makes the store visible calls :func:`persist` for what was written.
    """

    def __init__(self, backend: Store, documents: Mapping[str, Buffer]) -> None:
        self.backend, self.documents = backend, documents
        self.written: dict[str, bytes] = {}  # the last bytes of whole chunks, as they were in memory, by key
        self._arrays: dict[tuple[str, str], zarr.Array[Any]] = {}
        self._waiting: dict[str, Buffer] = {}

    def array(self, path: str, name: str) -> zarr.Array[Any]:
        """Return the array of variable `name` of the node at `path`, for writing; it is opened once."""
        if (path, name) not in self._arrays:
            self._arrays[path, name] = open_array(self.backend, path, name)
        return self._arrays[path, name]

    def put(self, path: str, name: str, region: tuple[slice, ...], values: NDArray[Any]) -> bool:
        """Write a region of an array, and return whether it is a whole chunk; small chunks wait."""
        place = f"{path}/{name}".strip("/")
        chunk = whole_chunk(self.documents[f"{place}/{ROOT_DOCUMENT}"].to_bytes(), region, values)
        if chunk is None:
            self.array(path, name)[region] = values
            return False
        self._waiting[f"{place}/{chunk[0]}"] = as_buffer(chunk[1])
        if len(chunk[1]) > SMALL_CHUNK or len(self._waiting) >= WAITING_CHUNKS:
            self.flush()
        return True

    def flush(self) -> None:
        """Write the chunks that wait."""
        backends.set_values(self.backend, self._waiting)
        self.written |= {key: bytes(content.as_numpy_array()[-8:]) for key, content in self._waiting.items()}
        self._waiting.clear()


class PendingStore(ChunkWriter):
    """A store under construction: its arrays can be written, but it cannot be opened yet."""

    def __init__(
        self, url: str, backend: Store, root_document: Buffer, claim: Claim, documents: Mapping[str, Buffer]
    ) -> None:
        super().__init__(backend, documents)
        self.url, self.root_document, self.claim = url, root_document, claim

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Check that the place still belongs to this call before something is written, and explain errors."""
        self.claim.check()
        with explaining_writes(self.url, self.claim):
            yield

    def commit(self, **attributes: Any) -> None:
        """Write the root document, with further attributes: from now on the store opens."""
        document = self.root_document
        if attributes:
            entry = json.loads(document.to_bytes())
            entry["attributes"] |= attributes
            document = as_buffer(json.dumps(entry, indent=2).encode())
        self.flush()
        self.claim.check()
        backends.persist(self.backend, self.written)
        backends.sweep(self.backend)
        publish(self.backend, document, written=getattr(self.backend, "endings", {}))
        self.claim.release()


def publish(
    backend: Store,
    root_document: Buffer,
    before: Buffer | None = None,
    *,
    written: Mapping[str, bytes],
    reads_back: bool = False,
) -> None:
    """Write the document that makes a store open, with the checksums of all chunks, which are there by now."""
    # What the document `before` lists is not read again. Of chunks `written`, the last bytes that were meant are known;
    # with `reads_back`, the others are compared with their checksums, too.
    old = None if before is None else before.to_bytes()
    content = with_list(backend, root_document.to_bytes(), old, written, reads_back=reads_back)
    backends.set_value(backend, ROOT_DOCUMENT, type(root_document).from_bytes(content))
    backends.persist(backend, [ROOT_DOCUMENT])  # its name, too


@lru_cache(maxsize=1024)
def _form(document: bytes) -> tuple[ArrayV3Metadata, list[dict[str, Any]]]:
    entry = json.loads(document)
    return ArrayV3Metadata.from_dict(entry), entry["codecs"]


def dims_of(document: bytes) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the names and the lengths of the dimensions of an array, by its document."""
    metadata, _ = _form(document)
    return tuple(map(str, metadata.dimension_names or ())), metadata.shape


def whole_chunk(document: bytes, region: tuple[slice, ...], values: NDArray[Any]) -> tuple[str, bytes] | None:
    """Return the key and the bytes of the chunk of an array that a region is; None if it is anything else."""
    metadata, codecs = _form(document)
    lengths = metadata.chunk_grid.chunk_shape  # type: ignore[attr-defined]
    bounds = [part.indices(size)[:2] for part, size in zip(region, metadata.shape, strict=True)]
    fits = zip(bounds, metadata.shape, lengths, strict=True)
    is_whole = all(a % n == 0 and b == min(a + n, size) for (a, b), size, n in fits)
    if not (values.size and is_whole and can_encode(codecs)):
        return None
    values = values.astype(metadata.dtype.to_native_dtype(), copy=False)
    if values.shape != lengths:
        values = np.pad(
            values,
            [(0, n - had) for n, had in zip(lengths, values.shape, strict=True)],
            constant_values=metadata.fill_value,
        )
    place = tuple(a // n for (a, _), n in zip(bounds, lengths, strict=True))
    return metadata.encode_chunk_key(place), encoded(values, codecs)


def read_documents(backend: Store, places: Iterable[str]) -> dict[str, Buffer]:
    """Return the documents of arrays of a store that need not be finished, by their keys."""
    keys, found = [f"{place}/{ROOT_DOCUMENT}" for place in places], dict[str, Buffer]()
    for key, document in zip(keys, backends.get_values(backend, keys), strict=True):
        if document is None:
            raise FileNotFoundError(errno.ENOENT, "an array has no document", f"{backend}, {key}")
        with explaining_damage(f"{backend}, {key}"):
            _form(document.to_bytes())
        found[key] = document
    return found


def open_array(backend: Store, path: str, name: str) -> zarr.Array[Any]:
    """Open one array of a store, finished or not, for reading and writing."""
    return zarr.Array(open_arrays(backend, path, [name])[name])


def open_arrays(backend: Store, path: str, names: Iterable[str]) -> dict[str, zarr.AsyncArray[Any]]:
    """Open several arrays of a data set of a store, finished or not, by their own documents."""
    places = {name: f"{path}/{name}".strip("/") for name in names}
    documents = read_documents(backend, places.values())
    forms = {place: _form(documents[f"{place}/{ROOT_DOCUMENT}"].to_bytes())[0] for place in places.values()}
    with explaining_damage(backend):
        check_plain_arrays({place: metadata_documents.of_array(form) for place, form in forms.items()}, backend)
    # An empty chunk is written like any other: a missing one is a loss.
    how: Any = {"write_empty_chunks": True}
    return {name: zarr.AsyncArray(forms[place], StorePath(backend, place), how) for name, place in places.items()}


def described_array(backend: Store, path: str, document: Mapping[str, Any]) -> zarr.Array[Any]:
    """Return an array by its entry in the consolidated metadata, whatever its own document says by now."""
    with explaining_damage(f"{backend}, array {path!r}"):
        metadata = ArrayV3Metadata.from_dict(dict(document))
    return zarr.Array(zarr.AsyncArray(metadata, StorePath(backend, path)))


def open_checked(url: Any, kind: str | None = None) -> tuple[CheckedStore, dict[str, Any]]:
    """Return a finished store, whose chunks are checked when they are read, and the documents below its root."""
    # The root document has been checked, too, and the kind of the store, if one is given.
    with explaining_damage(url):
        root, document = _read_root(url)
        if kind is not None:
            _check_kind(dict(root.get("attributes", {})), kind, url)
        metadata = (root.get("consolidated_metadata") or {}).get("metadata", {})
        if not metadata:  # otherwise Zarr would read documents that nobody has checked
            raise damaged(url, "no consolidated metadata")
        metadata_documents.check_arrays(metadata, url)
        check_document(document, url)
        return CheckedStore(backends.open_backend(url, read_only=True), root, document), metadata


def create_store(url: str | Path, template: Stored, kind: str, *, overwrite: bool = False) -> PendingStore:
    """Write everything in `template`, in the chunks of its encoding, but Dask-backed data and the root document."""
    # What the same call has begun and not finished is replaced.
    url = concealed(url)
    documents, root_document = laid_out(template, kind, url)
    identity = hashlib.sha256()
    for content in (*(documents[key] for key in sorted(documents)), root_document):
        identity.update(content.to_bytes())
    backend, claim = backends.open_backend(url), Claim(url)
    with explaining_writes(url, claim):
        make_room(url, claim, State(LAYING_OUT, identity=identity.hexdigest()), overwrite=overwrite)
        write_documents(backend, documents)
    return PendingStore(url, backend, root_document, claim, documents)


@contextmanager
def explaining_writes(url: str, claim: Claim) -> Iterator[None]:
    """Explain errors of storage that cannot be written, or belongs to another call, which removes things."""
    try:
        yield
    except OSError as error:
        if isinstance(error, errors.StoreError):
            raise
        claim.check()
        received = f"{type(error).__name__}: {error}"
        remedy = "name a folder that exists and that you may write to, on a disk with room left"
        raise errors.StoreError("the store cannot be written", url, received, None, remedy) from error


def make_room(url: str, claim: Claim, state: State, *, overwrite: bool) -> None:
    """Claim a place for what is to be written, and remove what is there; raise if that must not be replaced."""
    if not overwrite:
        refuse_others(url, claim, state.identity)
    check_writable(url)
    backend = backends.open_backend(url)
    is_empty = sync(backend.is_empty(""))
    if not is_empty and _is_of_others(url, backend):
        what = "refusing to overwrite what this package did not write"
        remedy = "remove it yourself if you do not need it, or name another place"
        raise errors.StoreError(what, url, remedy=remedy)
    if is_empty:
        claim.take_over(state)
    elif overwrite or backends.get_value(backend, ROOT_DOCUMENT) is None:
        claim.clear(state)
    else:  # finished a moment ago
        raise in_the_way(url)


def write_documents(backend: Store, documents: Mapping[str, Buffer]) -> None:
    """Write the documents and chunks that :func:`laid_out` returns."""
    of_metadata = {key: value for key, value in documents.items() if key.endswith(ROOT_DOCUMENT)}
    backends.set_values(backend, of_metadata)  # first: Icechunk takes chunks of arrays that it knows
    backends.set_values(backend, {key: value for key, value in documents.items() if key not in of_metadata})
    backends.persist(backend, documents)


def laid_out(template: Stored, kind: str, url: str) -> tuple[dict[str, Buffer], Buffer]:
    """Return the keys and values of a store without its Dask-backed data; and its root document."""
    from aucpr_dask._version import __version__

    groups = _groups_of(template)
    identity = {"kind": kind, "format_version": FORMAT_VERSION, "aucpr_dask_version": __version__}
    groups[""] = groups[""].assign_attrs(identity)
    documents, known = dict[str, Buffer](), dict[int, dict[str, Buffer]]()
    try:
        for path, node in groups.items():
            if id(node) not in known:  # a plan describes all results of one form by one object
                plain = _with_plain_attributes(path, node)
                known[id(node)] = _documents_of(plain, has_folders=not is_remote(url))
            documents |= {f"{path}/{key}".lstrip("/"): content for key, content in known[id(node)].items()}
    except UnicodeEncodeError as error:
        what = "a name is not Unicode"
        raise errors.InvalidInputError(what, url, repr(error.object), None, "rename it") from error
    return documents, consolidated(documents.pop(ROOT_DOCUMENT), documents)


def _groups_of(template: Stored) -> dict[str, xr.Dataset]:
    """Return the contents of all groups of a store by path, the root first, without coordinates that they inherit."""
    nodes = dict(nodes_of(template))
    around = {path: None for node in nodes for path in reversed(groups_around(node))}
    if not around.keys() & nodes.keys():
        return {path: nodes.get(path, xr.Dataset()) for path in {"": None} | around | nodes}
    return {node.path.strip("/"): node.to_dataset(inherit=False) for node in as_tree(nodes).subtree}


def _documents_of(dataset: xr.Dataset, *, has_folders: bool) -> dict[str, Buffer]:
    """Return the documents of a group and its arrays, and the chunks of those in memory."""
    # The same bytes as xarray's and Zarr's, which take a millisecond for each array.
    # Numbers whose chunks follow later are as they are, without attributes of the CF conventions.
    numbers = {
        str(name): dataset.variables[name]
        for name in dataset.data_vars
        if is_dask(dataset.variables[name].data) and dataset.variables[name].dtype.kind in "iuf"
    }
    others, attrs = xr.conventions.encode_dataset_coordinates(dataset.drop_vars(list(numbers)))
    variables = {str(name): _encoded(one, name) for name, one in others.items()} | numbers
    plain = {str(key): _plain(one) for key, one in attrs.items()}
    entry = {"attributes": plain, "zarr_format": 3, "node_type": "group"}
    found = {ROOT_DOCUMENT: as_buffer(json.dumps(entry, indent=2).encode())}
    for name, variable in variables.items():
        is_later = is_dask(variable.data)
        known = variable.encoding.get("chunks") or (one[0] for one in (variable.data.chunks if is_later else ()))
        itemsize = OF_TEXT if variable.dtype.hasobject else variable.dtype.itemsize
        chunks = tuple(known) or chunk_shape(variable.shape, itemsize, whole=0)
        attrs, encoding = dict(variable.attrs), variable.encoding
        if "_FillValue" in attrs:
            attrs["_FillValue"] = FillValueCoder.encode(attrs["_FillValue"], variable.dtype)
        # Chunk names matter only in folders; Icechunk supports only the default ones.
        naming = encoding.get("chunk_key_encoding", {}) if has_folders else {}
        document = _written_form(
            variable.shape,
            np.dtype("O") if variable.dtype.kind == "T" else variable.dtype,
            chunks,
            naming.get("separator", "/"),
            json.dumps(encoding.get("compressors", (ZstdCodec().to_dict(),))),
            tuple(map(str, variable.dims)),
            json.dumps({str(name): _plain(value) for name, value in attrs.items()}),
        )
        found[f"{name}/{ROOT_DOCUMENT}"] = as_buffer(document)
        counts = [-(-size // n) for size, n in zip(variable.shape, chunks, strict=True)]
        for index in () if is_later else np.ndindex(*counts):
            region = tuple(slice(i * n, (i + 1) * n) for i, n in zip(index, chunks, strict=True))
            values: Any = variable.values
            chunk = whole_chunk(document, region, values[(*region, ...)])
            assert chunk is not None  # by its codecs, which are ours
            found[f"{name}/{chunk[0]}"] = as_buffer(chunk[1])
    return found


def _encoded(variable: xr.Variable, name: Any) -> xr.Variable:
    """Return a variable as xarray stores it, which looks at text three times."""
    if variable.dtype == object and not variable.encoding and infer_dtype(variable.values, skipna=False) == "string":
        return variable
    if variable.dtype.kind in "mM":  # in their own unit, which suits any later label
        variable, unit = variable.copy(deep=False), UNITS_OF_TIMES[np.datetime_data(variable.dtype)[0]]
        is_date = variable.dtype.kind == "M"
        calendar = {"calendar": "proleptic_gregorian"} if is_date else {}
        variable.encoding |= {"units": f"{unit} since 1970-01-01" if is_date else unit, "dtype": "int64"} | calendar
    found: xr.Variable = encode_zarr_variable(variable, name=name)
    return found


def type_of_times(attributes: Mapping[str, Any]) -> np.dtype[Any] | None:
    """Return the type of dates or spans of time that the integers of a stored array stand for; None if for none."""
    unit, _, since = str(attributes.get("units")).partition(" since ")
    known = {name: short for short, name in UNITS_OF_TIMES.items()}
    if unit not in known or not (since or str(attributes.get("dtype")).startswith("timedelta64")):
        return None
    return np.dtype(f"{'M' if since else 'm'}8[{known[unit]}]")


@lru_cache(maxsize=1024)  # of many data sets alike
def _written_form(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    chunks: tuple[int, ...],
    separator: str,
    compressors: str,
    dims: tuple[str, ...],
    attributes: str,
) -> bytes:
    """Return the metadata document of an array with checksums, whose absent numbers are read as NaN, or else as 0."""
    with metadata_documents.text_of_fixed_width():
        is_text = dtype.kind == "O"
        data_type: Any = parse_dtype(str if is_text else dtype, zarr_format=3)
        metadata = ArrayV3Metadata(
            shape=shape,
            data_type=data_type,
            chunk_grid={"name": "regular", "configuration": {"chunk_shape": chunks}},
            chunk_key_encoding={"name": "default", "separator": separator},
            fill_value=np.nan if dtype.kind == "f" else data_type.default_scalar(),
            codecs=[VLenUTF8Codec() if is_text else BytesCodec(), *json.loads(compressors), Crc32cCodec()],
            attributes=json.loads(attributes),
            dimension_names=dims or None,
        )
        return metadata.to_buffer_dict(default_buffer_prototype())[ROOT_DOCUMENT].to_bytes()


def consolidated(root_document: Buffer, documents: Mapping[str, Buffer]) -> Buffer:
    """Return the root document with all others in it, which spares readers a request for each array."""
    # The same as Zarr's, whose time grows with the square of the number of groups.
    suffix = f"/{ROOT_DOCUMENT}"
    paths = [key.removesuffix(suffix) for key in documents if key.endswith(suffix)]
    inline = {"kind": "inline", "must_understand": False}
    nodes, parsed = {}, dict[bytes, Any]()  # most documents are equal to some
    for path in sorted(paths, key=lambda path: (path.count("/"), unicodedata.normalize("NFKC", path).casefold())):
        content = documents[path + suffix].to_bytes()
        nodes[path] = node = parsed[content] if content in parsed else parsed.setdefault(content, json.loads(content))
        if node["node_type"] == "group":
            node |= {"consolidated_metadata": inline | {"metadata": {}}, "node_type": node.pop("node_type")}
    root = json.loads(root_document.to_bytes())
    root.pop("consolidated_metadata", None)
    root |= {"consolidated_metadata": inline | {"metadata": nodes}, "node_type": root.pop("node_type")}
    return as_buffer(json.dumps(root).encode())  # indented, it would take ten times as long


def _with_plain_attributes(path: str, dataset: xr.Dataset) -> xr.Dataset:
    """Return a data set without attributes by which readers would change its values; refuse what cannot be stored."""
    where = f"data set {path!r}" if path else "the data set"
    holders = {"dataset": (where, dataset.attrs)}
    holders |= {f"dataset[{n!r}]": (f"{where}, variable {n!r}", one.attrs) for n, one in dataset.variables.items()}
    for holder, (place, attrs) in holders.items():
        for key, value in attrs.items():
            try:
                json.dumps(_plain(value))
                is_held = isinstance(key, str)
            except (TypeError, ValueError):  # of an unknown type, or in a circle
                is_held = False
            if not is_held:
                what, received = f"the attribute {key!r} cannot be stored", f"{type(value).__name__}: "
                allowed = "text, numbers, and lists and mappings of these"
                remedy = f"write it as text, {holder}.attrs[{key!r}] = str(...); or remove it"
                raise errors.InvalidInputError(what, place, received + errors.brief(value), allowed, remedy)
    dataset = dataset.copy()
    for variable in dataset.variables.values():
        changing = metadata_documents.changing_attributes(variable.attrs)
        changing += ["units", "calendar"] * (variable.dtype.kind in "mM")
        variable.attrs = {key: value for key, value in variable.attrs.items() if key not in changing}
    return dataset


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def refuse_others(url: str, claim: Claim, identity: str = "") -> None:
    """Raise if there is something in a place, unless calls that write this, or any, have claimed it."""
    check_writable(url)
    state = claim.recorded()
    is_claimed = state.identity == identity if identity else state.word in (CLEARING, LAYING_OUT)
    if not is_claimed and not sync(backends.open_backend(url, read_only=True).is_empty("")):
        raise in_the_way(url)


def in_the_way(url: str | Path) -> errors.StoreError:
    """Return the error that a place is taken."""
    remedy = errors.REPLACE_IT
    with suppress(OSError):
        backend = backends.open_backend(concealed(url), read_only=True)
        if _is_of_others(concealed(url), backend):
            remedy = "name another place: this holds something that this package did not write"
    return errors.StoreError("there is something at this place already", concealed(url), remedy=remedy)


def _is_of_others(url: str, backend: Store) -> bool:
    """Return whether a place holds something that this package did not write, which it never replaces."""
    root = backends.get_value(backend, ROOT_DOCUMENT)
    is_foreign = root is not None and b'"aucpr_dask' not in root.to_bytes()  # ours may be damaged
    return is_foreign or any(has(backend, name) for name in OF_VERSION_2) or not _is_store(url, backend)


def refuse_finished(url: str | Path, *, overwrite: bool) -> None:
    """Raise if there is something in a place that no call can go on with, before anything is read for it."""
    if not overwrite:
        refuse_others(concealed(url), Claim(concealed(url)))


def _is_store(url: str, backend: Store) -> bool:
    """Return whether a place holds nothing but a Zarr store, finished or not."""
    if not is_remote(url) and not Path(url).is_dir():
        return False
    if has(backend, ROOT_DOCUMENT):
        return True
    # An unfinished store has only metadata documents and chunks, and no finished store below.
    keys = backends.keys_in(backend)
    for file in map(PurePosixPath, keys):
        is_chunk = "c" in file.parts[1:] or (len(file.parts) > 1 and file.name.startswith("c."))
        if not (is_chunk or file.name == ROOT_DOCUMENT or file.suffix == ".partial" or file.parts[0] == "ledger"):
            return False
    below = [key for key in keys if key.count("/") == 1 and key.endswith(f"/{ROOT_DOCUMENT}")]
    for document in filter(None, backends.get_values(backend, below)):
        with suppress(ValueError):
            if "kind" in json.loads(document.to_bytes()).get("attributes", {}):
                return False
    return True


def open_store(
    url: Any, kind: str, *, chunks: Any = None, remedy_if_unchecked: str | None = None, reads: Collection[str] = ()
) -> Stored:
    """Open a finished store of the given kind as a Dataset (one data set) or as Nodes (many)."""
    # With a remedy, warn of a store without checksums. Small variables of the names that it `reads` are read with those
    # of all data sets at once, which is quicker. With `chunks`, what is not in memory comes as Dask arrays; along other
    # dimensions, in the chunks of the store.
    url = concealed(url)
    backend, metadata = open_checked(url, kind)
    with explaining_damage(url):
        store = StoredNodes(backend, metadata).opened(reads=reads)
        for _, node in nodes_of(store):
            for variable in node.variables.values():  # the backend undoes them, and version 2 of Zarr lacks the second
                # The next store chooses units of times: not all formats hold whole numbers of 64 bits.
                of_times = ("units", "calendar", "dtype") if variable.dtype.kind in "mM" else ()
                for name in ("compressors", "serializer", *of_times):
                    variable.encoding.pop(name, None)

        def chunked(_: str, node: xr.Dataset) -> xr.Dataset:
            node = node.copy(deep=False)
            for name, variable in node.variables.items():
                if name not in node.indexes and not variable._in_memory:
                    named = {dim: length for dim, length in chunks.items() if dim in variable.dims}
                    variable.data = variable.chunk(variable.encoding.get("preferred_chunks", {}) | named).data
            return node

        store = store if chunks is None else map_nodes(store, chunked)
    if not have_checksums(metadata) and remedy_if_unchecked is not None:
        text = f"{public(url)} has no checksums: damage to it would not be noticed; "
        errors.warn(text + remedy_if_unchecked, errors.DamageWarning)
    return store


def _check_kind(attrs: Mapping[str, Any], kind: str, url: str) -> None:
    """Raise unless a store is of this kind, and of the version that this package reads."""
    if attrs.get("kind") != kind:
        if attrs.get("kind") is None:
            raise foreign(url)
        names = (one.removeprefix("aucpr_dask.") for one in (errors.printable(str(attrs["kind"])), kind))
        held, wanted = (name if name.endswith("s") else f"a {name}" for name in names)
        what = f"this store holds {held}, not {wanted}"
        remedy = "name another; `aucpr-dask info` says what a store holds"
        if (held, wanted) == ("scores", "a result"):
            remedy = f"evaluate them: aucpr-dask evaluate {public(url)} RESULT"
        raise errors.StoreError(what, url, f"kind {errors.brief(attrs['kind'])}", f"kind {kind!r}", remedy)
    version = attrs.get("format_version", 0)
    if type(version) is not int or version < 0:
        raise damaged(url, f"format_version {errors.brief(version)}", "a whole number from 0")
    if version != FORMAT_VERSION:
        is_newer = version > FORMAT_VERSION
        what = f"this store was written by {'a newer' if is_newer else 'an earlier'} version"
        received = f"format version {errors.brief(version)}, written by {errors.brief(attrs.get('aucpr_dask_version'))}"
        remedy = "upgrade aucpr-dask" if is_newer else "write it again: save or import the scores, evaluate a result"
        raise errors.StoreError(what, url, received, f"format version {FORMAT_VERSION}", remedy)


def read_root_attrs(url: Any) -> dict[str, Any]:
    """Return the root attributes of a finished store, none of a foreign one; raise as :func:`read_root_document`."""
    try:
        return dict(_read_root(url)[0].get("attributes", {}))
    except errors.ForeignStoreError:  # of version 2
        return {}


def _read_root(url: Any) -> tuple[dict[str, Any], bytes]:
    document = read_root_document(url)
    root = metadata_documents.root_of(document, url)
    if isinstance(url, StoreName) and not root.get("consolidated_metadata"):  # Icechunk drops them when it commits
        backend, suffix = backends.open_backend(url, read_only=True), f"/{ROOT_DOCUMENT}"
        keys = [key for key in backends.keys_in(backend) if key.endswith(suffix)]
        found = zip(keys, backends.get_values(backend, keys), strict=True)
        below = {key.removesuffix(suffix): json.loads(one.to_bytes()) for key, one in found if one}
        root["consolidated_metadata"] = {"metadata": below}
        root = metadata_documents.root_of(json.dumps(root).encode(), url)
    return root, document


def read_root_document(url: Any) -> bytes:
    """Return the root metadata document of a finished store; raise :class:`StoreError` if there is none."""
    backend = backends.open_backend(url, read_only=True)
    try:
        document = backends.get_value(backend, ROOT_DOCUMENT)
        # Without listing, as on a web server, this is unknown.
        unfinished = document is None and backend.supports_listing and not sync(backend.is_empty(""))
    except FileNotFoundError:
        document, unfinished = None, False
    if document is not None:
        return document.to_bytes()
    if (unfinished or not backend.supports_listing) and any(has(backend, name) for name in OF_VERSION_2):
        raise foreign(url)
    is_ours = True
    with suppress(FileNotFoundError):  # while another call removes what is here
        is_ours = not unfinished or _is_store(url, backend)
    if not is_ours:
        what = "this is no store"
        remedy = "name the folder of a store; `aucpr-dask import` makes one of files of scores, and "
        remedy += f"`aucpr-dask import values {url} values.zarr` of files of values of models"
        raise errors.StoreError(what, url, "a folder that holds other things", "a finished store", remedy)
    if unfinished:
        remedy = "run the same command again; it resumes or starts over; add overwrite=True if it is refused"
        raise errors.StoreError("this store was never finished", url, "an unfinished store", "a finished store", remedy)
    if not is_remote(url) and Path(url).is_file():
        if Path(url).suffix.lower() == ".zip":
            remedy = f"pass it opened: zarr.storage.ZipStore({str(url)!r}, mode='r')"
            raise errors.StoreError("this is an archive, not a folder", url, "a file", "a finished store", remedy)
        kind = IMPORTED.get(Path(url).suffix.lower(), "--help")
        remedy = f"import it: aucpr-dask import {kind.replace('FILE', f'{url} scores.zarr')}"
        raise errors.StoreError("this is a file, not a store", url, "a file", "a finished store", remedy)
    is_file = not is_remote(url) and Path(url).suffix.lower() in IMPORTED
    what = "there is no store at this place" if not is_file else f"there is no file {str(url)!r}"
    remedy = "check the path; `aucpr-dask import` makes a score store"
    raise errors.StoreError(what, url, "nothing", "a finished store" if not is_file else "a file", remedy)


OF_VERSION_2 = (".zgroup", ".zarray", ".zattrs", ".zmetadata")
IMPORTED = dict.fromkeys((".nc", ".nc4", ".cdf", ".h5", ".hdf5", ".npz", ".npy"), "arrays FILE")
IMPORTED |= dict.fromkeys((".csv", ".tsv", ".parquet", ".feather", ".jsonl"), "table FILE --label COLUMN")


def has(backend: Store, key: str) -> bool:
    """Return whether there is something at a key."""
    return backends.get_value(backend, key) is not None


def foreign(url: Any, received: str | None = None) -> errors.ForeignStoreError:
    """Return the error for a store that another program wrote: with what reads it, and the command that imports it."""
    what, allowed = "this store is of another kind: another program wrote it", "a finished store of this package"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of types that Zarr may change; nothing is written here
        try:
            names, arrays = _root_arrays(url), unnamed_arrays(url)
        except Exception:  # whatever is wrong with it is found when it is imported
            names, arrays = {"score": None}, {}
    ours = {name: OTHER_NAMES[name] for name in names if name in OTHER_NAMES}
    ours |= {} if not names or "score" in {*names, *ours.values()} else {"THEIRS": "score"}
    options = [f" --rename {name}={our}" for name, our in ours.items()]
    scores = [len(one.shape) for name, one in arrays.items() if ours.get(name, name) == "score"]
    options += [f" --dims {','.join(DEFAULT_DIMS.get(scores[0], DEFAULT_DIMS[2]))}"] if scores else []
    command = f"aucpr-dask import arrays {public(url)} scores.zarr{''.join(options)}"
    naming = errors.for_caller("like={...}", "--score NAME --label NAME --dim NAMES")
    remedy = f"say what it calls its scores and labels ({naming}); or import it, which leaves it as it is: {command}"
    return errors.ForeignStoreError(what, url, received, allowed, remedy)


def _root_arrays(url: Any) -> dict[str, Any]:
    root = zarr.open(backends.open_backend(url, read_only=True), mode="r")
    return dict(root.arrays()) if isinstance(root, zarr.Group) else {}


def unnamed_arrays(url: Any) -> dict[str, Any]:
    """Return the arrays in the root of a Zarr store if none of them names its axes, which xarray needs."""
    arrays = _root_arrays(url)
    is_named = (
        "_ARRAY_DIMENSIONS" in one.attrs or any(getattr(one.metadata, "dimension_names", None) or ())
        for one in arrays.values()
    )
    return {} if any(is_named) else arrays


def chunk_shape(shape: tuple[int, ...], itemsize: int, whole: int) -> tuple[int, ...]:
    """Return chunks of about 32 MiB that keep the last `whole` axes in one piece."""
    kept = shape[len(shape) - whole :]
    room = max(1, CHUNK_BYTES // max(1, itemsize * int(np.prod(kept, dtype=np.int64))))
    chunks: list[int] = []
    for size in reversed(shape[: len(shape) - whole]):
        chunks.insert(0, max(1, min(size, room)))
        room //= chunks[0]
    return (*chunks, *(max(1, size) for size in kept))
