"""Score stores: written chunk by chunk, opened lazily."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from zarr.abc.store import Store

from aucpr_dask import errors
from aucpr_dask.schema import checks, terms
from aucpr_dask.scores.chunks import (
    MOST_LOADED,
    Region,
    empty_variable,
    item_chunk,
    ranking_digests,
    with_hashed_text,
    without_values,
)
from aucpr_dask.scores.copies import COPIES, copies_among, warn_of_counts
from aucpr_dask.scores.validate import validate_scores, validated_nodes, with_numbers_of_queries
from aucpr_dask.storage import stores, urls
from aucpr_dask.storage.checksums import has_list
from aucpr_dask.storage.documents import explaining_damage
from aucpr_dask.storage.trees import StoredNodes, within_chunk
from aucpr_dask.storage.zarr_private import sync

if TYPE_CHECKING:
    from aucpr_dask.scores.archives import Archive, Layout, Like

KIND = terms.SCORES
FACTS = {"n_missing": "int64", "digest": "uint64"}  # about every ranking, written last
REPEATED = "repeated_items"  # the attribute of a store: of each data set that has some, how many, and of how many
SAVE_AGAIN = "save the scores again to add them"
# Twice as fast to read as Zarr's default, zstd, and smaller where nearly all scores are distinct.
COMPRESSORS = ({"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "bitshuffle"}},)


def open_scores(store: str | Path | Store, *, chunks: Any = "auto", like: Like = None) -> terms.Scores:
    """Open a score store, lazily and validated.

    Parameters
    ----------
    store : str, Path or zarr.abc.store.Store
        A path, URL or store that :func:`save_scores` or ``aucpr-dask import`` wrote; or a Zarr store of another
        program, version 2 or 3, which is read where it lies.
    chunks : "auto", None or mapping
        Dask chunks: ``"auto"`` takes the store's own, None opens without Dask.
    like : mapping or path, optional
        What a store of another program calls what is ours, if it has other names: ``score``, ``label``, ``weight``,
        ``clusters``, ``model`` and ``query``; in ``dim``, the dimensions of the items; and in ``pos_label`` the label
        of positives. Such as ``{"score": "probability", "label": "event", "dim": ["time", "lat"]}``, or a YAML file.

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        One data set, or one node per data set. Large variables are Dask arrays; labels shared by the
        models and all that is small are in memory.

    Examples
    --------
    >>> import tempfile, xarray as xr, aucpr_dask as ap
    >>> scores = xr.Dataset({"score": (("model", "item"), [[0.9, 0.1]]), "label": ("item", [1, 0])}, {"model": ["a"]})
    >>> store = tempfile.mkdtemp() + "/scores.zarr"  # or "s3://bucket/scores.zarr"
    >>> ap.save_scores(scores, store)
    >>> ap.open_scores(store)["score"].sel(model="a").values
    array([0.9, 0.1])
    """
    from aucpr_dask.scores.archives import Archive, Layout

    store = urls.concealed(store)
    stored: terms.Stored
    layout = None if like is None else layout_of(store, like)
    if layout is not None:
        stored = Archive(store, layout).scores(chunks)
    else:
        try:
            stored = _stored(store, chunks={} if isinstance(chunks, str) else chunks, remedy_if_unchecked=SAVE_AGAIN)
        except errors.ForeignStoreError:
            try:
                stored = Archive(store, Layout.of(None)).scores(chunks)
            except errors.InvalidInputError as error:
                raise stores.foreign(store, str(error).partition("\n")[0]) from error

    def opened(_: str, node: xr.Dataset) -> xr.Dataset:
        node = terms.with_levels(terms.with_plain_names(_opened(node)))
        node.encoding["source"] = urls.public(store)
        return node

    scores = terms.map_nodes(stored, opened)
    validate_scores(scores, positive_from=0)
    return terms.as_scores(scores)


def layout_of(url: Any, like: Like = None) -> Layout | None:
    """Return what a store of another program calls what is ours; None of a store of this package."""
    from aucpr_dask.scores.archives import Layout

    if stores.read_root_attrs(url).get("kind") is None:
        return Layout.of(like)
    if like:
        what, remedy = "the names in this store are those of this package", "leave out what says other names"
        raise errors.InvalidInputError(what, url, errors.brief(like), "nothing", remedy)
    return None


def changed_rankings(url: str | Path, on_progress: Callable[[int, int], None] | None = None) -> tuple[int, list[str]]:
    """Return the number of rankings with stored digests, and the names of those that have other digests now."""
    changed: list[str] = []
    n_rankings = 0
    for path, dataset in terms.nodes_of(open_unread(url)):
        if "digest" not in dataset:
            continue
        found = np.zeros(dataset["digest"].shape, np.uint64)
        names = {str(dim): dataset.get_index(dim) for dim in dataset["digest"].dims}
        regions = _regions(found.shape, dataset["score"].encoding["chunks"][: len(names)])
        for done, region in enumerate(regions, start=1):
            found[region] = _digests_now(dataset, dict(zip(names, region, strict=True)))
            if on_progress is not None:
                on_progress(done, len(regions))
        n_rankings += found.size
        for at in np.argwhere(found != dataset["digest"].values):
            which = (f"{dim} {str(index[i])!r}" for (dim, index), i in zip(names.items(), at, strict=True))
            changed.append((f"data set {path!r}, " if path else "") + ", ".join(which))
    return n_rankings, changed


def _digests_now(dataset: xr.Dataset, where: Mapping[str, Any]) -> NDArray[np.uint64]:
    """Return the digests that some rankings of a stored data set have now, as :meth:`ScoreWriter.commit` adds them."""
    step = dataset["score"].encoding["chunks"][-1]
    part = dataset.drop_vars([*FACTS, *(name for name in dataset.coords if name != terms.ITEM)], errors="ignore")
    part, found = part.isel(where), np.zeros(dataset["digest"].isel(where).shape, np.uint64)
    for place, start in enumerate(range(0, dataset.sizes[terms.ITEM], step)):
        # The digest of a ranking in several chunks is a sum of odd multiples of theirs.
        found += ranking_digests(part.isel(item=slice(start, start + step))) * np.uint64(2 * place + 1)
    return found


def open_unread(url: str | Path, *, warns: bool = False) -> terms.Stored:
    """Open a score store without reading or checking anything."""
    return _stored(url, remedy_if_unchecked=SAVE_AGAIN if warns else None)


def _stored(url: str | Path, **options: Any) -> terms.Stored:
    found = stores.open_store(url, KIND, reads=terms.SCORE_VARIABLES.keys() - {"score"}, **options)
    return _with_counts(found)


def _with_counts(scores: terms.Stored) -> terms.Stored:
    """Return scores of a store with its counts of items that look like copies in the attributes of data sets."""
    nodes = dict(terms.nodes_of(scores))
    for path, counts in scores.attrs.pop(REPEATED, {}).items():
        if path in nodes:
            nodes[path].attrs[COPIES] = counts
    return scores


class SourceNodes:
    """The data sets of a score store, opened when they are asked for, by their paths."""

    def __init__(self, url: str) -> None:
        self.url = url

    @cached_property
    def _stored(self) -> StoredNodes:
        url = urls.concealed(self.url)
        store, metadata = stores.open_checked(url, KIND)
        with explaining_damage(url):
            return StoredNodes(store, metadata)

    @cached_property
    def _is_listed(self) -> bool:
        """Whether checksums of all chunks tell that each is the one that is meant."""
        return has_list(stores.read_root_document(self.url))

    def planned(self) -> terms.Stored:
        """Return all data sets as they are stored; nothing is read or checked."""
        return open_unread(self.url, warns=True)

    def described(self, unread: terms.Stored) -> terms.Stored:
        """Return the data sets of :meth:`planned`, validated, with small variables in memory."""
        # Large variables become Dask arrays without values, in one piece except along the items, so a million chunks
        # cost no more than one.
        scores = terms.map_nodes(unread, lambda path, dataset: _described(_opened(dataset)))
        validate_scores(scores, positive_from=0)
        return scores

    def digest(self) -> str:
        """Return what tells the store from any that takes its place: a digest of its list of the checksums of chunks.

        Of a store without the list, of its metadata, its names and the digests of its rankings, if stored.
        """
        document = stores.read_root_document(urls.concealed(self.url))
        digest = hashlib.sha256(document)
        for path, dataset in () if has_list(document) else terms.nodes_of(open_unread(self.url)):
            for dim in (one for one in dataset["score"].dims if one != terms.ITEM):
                if dim in dataset.indexes:
                    digest.update(json.dumps([path, dim, *map(str, dataset.indexes[dim])]).encode())
            if "digest" in dataset:
                digest.update(path.encode())
                for part in _parts(dataset["digest"]):
                    digest.update(np.ascontiguousarray(part.values).data)
        return digest.hexdigest()

    def unread(self, paths: Collection[str], *, reads: Collection[str] = ()) -> dict[str, xr.Dataset]:
        """Return data sets as they are stored; small variables of these names are in memory."""
        return dict(terms.nodes_of(_with_counts(self._stored.opened(paths, reads=reads))))

    def opened(self, paths: Collection[str], keeps: Collection[str] = ()) -> dict[str, xr.Dataset]:
        """Return data sets of :meth:`described`, with small variables in memory, and all coordinates."""
        nodes = self.unread(paths, reads=terms.SCORE_VARIABLES)
        # Tasks count missing scores on their own.
        found = {path: _opened(node.drop_vars("n_missing", errors="ignore")) for path, node in nodes.items()}
        return {path: with_numbers_of_queries(dataset) for path, dataset in found.items()}

    def has_chunk(self, path: str, where: Mapping[str, slice]) -> bool:
        """Return that the scores are there: otherwise the store would not open."""
        return True

    def check(self, path: str, where: Mapping[str, Any]) -> None:
        """Raise unless some rankings are those that were saved, if nothing else would tell."""
        if self._is_listed:
            return
        dataset = self.unread([path])[path]
        if "digest" in dataset and (_digests_now(dataset, where) != dataset["digest"].isel(where).values).any():
            what = "scores have been replaced or damaged since they were saved: rankings do not match their digests"
            remedy = "fetch or write the store again; `aucpr-dask verify` lists them"
            raise errors.StoreError(what, self.url, None, "the scores that were saved", remedy)

    def within_chunk(self, path: str, where: Mapping[str, Any]) -> Any:
        """Return the scores of some rankings, if they are in one chunk; None if not."""
        if not all(isinstance(one, slice) for one in where.values()):
            return None
        return sync(within_chunk(self._stored.array(path, "score"), where))


def reader_of(url: str, layout: Layout | None) -> SourceNodes | Archive:
    """Return the data sets of a score store, of this package or with the names of another program."""
    if layout is None:
        return SourceNodes(url)
    from aucpr_dask.scores.archives import Archive

    return Archive(url, layout)


def _described(dataset: xr.Dataset) -> xr.Dataset:
    unloaded = _unloaded(dataset)
    if "n_missing" in unloaded and any(bool((part > 0).any()) for part in _parts(dataset["n_missing"])):
        unloaded.remove("n_missing")
        dataset = dataset.assign(n_missing=dataset["n_missing"].load())
    names = [name for name, array in dataset.data_vars.items() if name in unloaded or array.chunks is not None]
    return without_values(dataset, names)


def _load_small(dataset: xr.Dataset) -> xr.Dataset:
    dataset = dataset.drop_vars("digest", errors="ignore")  # of the stored scores, not of those derived from them
    large = _unloaded(dataset)
    if all(one._in_memory for name, one in dataset.variables.items() if name not in large):
        return dataset
    # Not on the workers of a client, which may have none yet; by the name of the scheduler, Dask imports distributed.
    small = dataset.drop_vars(large).compute(scheduler="threads")
    return dataset.assign({name: one for name, one in small.variables.items() if name not in dataset.indexes})


def _unloaded(dataset: xr.Dataset) -> list[str]:
    """Return the names of variables that are too large to load."""
    is_large = "n_missing" in dataset and dataset["n_missing"].nbytes > MOST_LOADED
    return _large(dataset) + (["n_missing"] if is_large else [])


def _opened(dataset: xr.Dataset) -> xr.Dataset:
    """Load small variables; labels that are stored in chunks along the items stay chunked, like the scores."""
    chunk = item_chunk(dataset)
    if chunk is not None:
        small = [name for name, array in dataset.data_vars.items() if terms.ITEM not in array.dims]
        lazy = dataset.drop_vars(small).chunk({terms.ITEM: chunk})
        of_items = {name: lazy[name] for name in lazy.data_vars if terms.MODEL not in lazy[name].dims}
        return _load_small(dataset.drop_vars(list(of_items))).assign(of_items)
    return _load_small(dataset)


def stored_digests(unread: terms.Stored) -> dict[str, np.ndarray]:
    """Return the digests of the rankings of every data set that is stored with digests."""
    return {path: dataset["digest"].values for path, dataset in terms.nodes_of(unread) if "digest" in dataset}


def check_same(url: str, layout: Layout | None, identity: str) -> None:
    """Raise :class:`~aucpr_dask.errors.SourceChangedError` unless the store that has this digest is still there."""
    # What a root document lists is compared when a chunk is read: if it is the same, so is everything.
    try:
        is_same = reader_of(url, layout).digest() == identity
    except errors.UnreachableError:
        raise
    except OSError:  # it is gone, or being written
        is_same = False
    if not is_same:
        what = "the scores have been replaced while this run read them, so nothing of it counts"
        remedy = "let whatever writes them finish, then run the same command again, with overwrite=True"
        raise errors.SourceChangedError(what, url, None, None, remedy)


def _parts(variable: xr.DataArray) -> Iterator[xr.DataArray]:
    """Yield pieces of a variable along its first dimension that are small enough for memory."""
    if not variable.ndim:
        yield variable
        return
    step = max(1, MOST_LOADED * len(variable) // max(1, variable.nbytes))
    for start in range(0, len(variable), step):
        yield variable[start : start + step]


def write_scores(
    scores: terms.Scores,
    store: str | Path | Store,
    *,
    overwrite: bool = False,
    models_per_chunk: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write score data sets to a Zarr store, as :func:`aucpr_dask.save_scores` says."""
    store = urls.concealed(store)
    nodes = terms.Nodes(validated_nodes(scores, positive_from=0))
    for _, dataset in terms.nodes_of(scores):
        source = dataset.encoding.get("source")
        is_lazy = any(dataset[name].chunks is not None for name in _large(dataset))
        places = {urls.absolute(one) if urls.is_remote(one) else Path(one).resolve() for one in (source or "", store)}
        if is_lazy and source is not None and len(places) == 1:
            what = "a store cannot be replaced by scores that are still read from it"
            remedy = "write to another place, or load the scores first: scores.load()"
            raise errors.StoreError(what, store, remedy=remedy)
    writer = ScoreWriter(store, nodes, overwrite=overwrite, models_per_chunk=models_per_chunk)
    parts = [(path, dataset, region) for path, dataset in nodes.items() for region in writer.regions(path)]
    import dask

    for done, (path, dataset, region) in enumerate(parts, start=1):
        names = _large(dataset)
        arrays = dask.compute(*(_part(dataset, name, region) for name in names))
        writer.write(path, region, **dict(zip(names, arrays, strict=True)))
        if on_progress is not None:
            on_progress(done, len(parts))
    writer.commit()


class ScoreWriter:
    """Writes a score store region by region; it opens only after :meth:`commit`.

    For variables over both model and item, the template gives only shape and type; all others are written from it.
    """

    def __init__(
        self, url: str | Path, template: terms.Stored, *, overwrite: bool = False, models_per_chunk: int | None = None
    ) -> None:
        if models_per_chunk is not None:
            models_per_chunk = checks.whole_number(models_per_chunk, "models_per_chunk", 1)
        loaded = terms.Nodes({path: _load_small(dataset) for path, dataset in terms.nodes_of(template)})
        validate_scores(loaded, positive_from=0)
        self._nodes = terms.Nodes(
            {path: _prepare(terms.with_stored_names(dataset), models_per_chunk) for path, dataset in loaded.items()}
        )
        self._facts = {
            path: {name: np.zeros((*dataset[name].shape, _n_item_chunks(dataset)), FACTS[name]) for name in FACTS}
            for path, dataset in self._nodes.items()
        }
        in_parts = {path: dataset for path, dataset in self._nodes.items() if len(self.regions(path)) > 1}
        self._hashed = {path: with_hashed_text(dataset) for path, dataset in in_parts.items()}
        self._copies: dict[str, int] = {}  # the least of all regions: items are copies if they are in all models
        self._pending = stores.create_store(url, self._nodes, KIND, overwrite=overwrite)

    def regions(self, path: str = "") -> list[Region]:
        """Return the aligned regions, of whole chunks, that make up the node at `path`."""
        score = self._nodes[path]["score"]
        return _regions(score.shape, score.encoding["chunks"])

    def write(self, path: str, region: Region, **arrays: np.ndarray) -> None:
        """Write one of :meth:`regions` of ``score`` and of every other variable over model and item."""
        dataset = self._nodes[path]
        label = arrays.get("label")
        if label is not None:
            checks.check_labels(label, 0, "variable 'label'")
        elif "label" in dataset:
            label = _part(dataset, "label", region)
        missing = np.isnan(arrays["score"])
        if label is not None:
            absent = [axis for axis, dim in enumerate(dataset["score"].dims) if dim not in dataset["label"].dims]
            missing &= np.expand_dims(label, absent) != terms.PADDING
        facts = self._facts[path]
        place = (*region[:-1], region[-1].start // dataset["score"].encoding["chunks"][-1])
        facts["n_missing"][place] = missing.sum(axis=-1)
        filled = self._hashed.get(path, dataset)
        others = [*FACTS, *(name for name in filled.coords if name != terms.ITEM)]
        filled = filled.drop_vars(others).isel(dict(zip(filled["score"].dims, region, strict=True)))
        typed = {name: values.astype(filled[name].dtype, copy=False) for name, values in arrays.items()}
        filled = filled.assign({name: (filled[name].dims, values) for name, values in typed.items()})
        facts["digest"][place] = ranking_digests(filled)
        if self._copies.get(path, 1) and _n_item_chunks(dataset) == 1:
            self._copies[path] = min(copies_among(filled), self._copies.get(path, filled.sizes[terms.ITEM]))
        with self._pending.writing():
            for name, values in arrays.items():
                self._pending.put(path, name, _slices(dataset, name, region), values)

    def commit(self) -> None:
        """Write the facts about every ranking, warn of items that look like copies, and let the store open."""
        copies = {path: [n, self._nodes[path].sizes[terms.ITEM]] for path, n in self._copies.items() if n}
        with self._pending.writing():
            for path, facts in self._facts.items():
                # Weighted, so that the order of chunks counts; the digest of a single chunk is its own.
                facts["digest"] *= 2 * np.arange(facts["digest"].shape[-1], dtype=np.uint64) + np.uint64(1)
                for name, values in facts.items():
                    self._pending.put(path, name, (slice(None),) * (values.ndim - 1), values.sum(axis=-1))
            self._pending.commit(**({REPEATED: copies} if copies else {}))
        if copies:
            warn_of_counts(copies)


def _n_item_chunks(dataset: xr.Dataset) -> int:
    score = dataset["score"]
    length: int = score.encoding["chunks"][-1]
    return max(1, -(-score.sizes[terms.ITEM] // length))


def _slices(dataset: xr.Dataset, name: str, region: Region) -> Region:
    """Return the slices of a variable that belong to a region of the scores."""
    by_dim = dict(zip(dataset["score"].dims, region, strict=True))
    return tuple(by_dim[dim] for dim in dataset[name].dims)


def _part(dataset: xr.Dataset, name: str, region: Region) -> Any:
    return dataset[name].data[_slices(dataset, name, region)]


def _large(dataset: xr.Dataset) -> list[str]:
    """Return the names of what is written by regions of the scores: these, and whatever else models do not share."""
    own = {terms.MODEL, terms.ITEM}
    return [str(name) for name, one in dataset.data_vars.items() if name == "score" or own <= {*one.dims}]


def _prepare(dataset: xr.Dataset, models_per_chunk: int | None) -> xr.Dataset:
    """Return known variables in portable types; large ones, which are written later, described only."""
    dataset = dataset[[name for name in dataset.data_vars if name in terms.SCORE_VARIABLES]].drop_encoding()
    score = dataset["score"]
    for dim, index in dataset.indexes.items():
        if index.dtype.kind not in "iufbmM":
            terms.check_names(index, f"labels of {dim!r}")
    dataset.attrs.pop(COPIES, None)  # counted again
    found = {str(name): array.variable for name, array in dataset.data_vars.items()}
    if "label" in found:
        found["label"] = found["label"].astype("int8")
    for name, dtype in FACTS.items():
        found[name] = empty_variable({dim: size for dim, size in score.sizes.items() if dim != terms.ITEM}, dtype)
        found[name].encoding = {"chunks": stores.chunk_shape(found[name].shape, found[name].dtype.itemsize, whole=0)}
    # All items are in one chunk, unless a ranking is large and comes in several.
    of_items = score.chunksizes.get(terms.ITEM, ()) if score.chunks is not None else ()
    is_large = score.sizes[terms.ITEM] * score.dtype.itemsize > stores.CHUNK_BYTES
    length = int(of_items[0]) if is_large and len(of_items) > 1 else score.sizes[terms.ITEM]
    for name in _large(dataset):
        chunks = stores.chunk_shape((*found[name].shape[:-1], length), score.dtype.itemsize, whole=1)
        attrs, found[name] = found[name].attrs, empty_variable(found[name].sizes, found[name].dtype)
        found[name].attrs = attrs
        found[name].encoding = {"chunks": (min(chunks[0], models_per_chunk or chunks[0]), *chunks[1:])}
        found[name].encoding |= {"compressors": COMPRESSORS} if name == "score" else {}
    for name, variable in found.items():
        if length < score.sizes[terms.ITEM] and terms.ITEM in variable.dims and "chunks" not in variable.encoding:
            lengths = {dim: max(1, size) for dim, size in variable.sizes.items()} | {terms.ITEM: length}
            variable.encoding = {"chunks": tuple(lengths.values())}
        variable.attrs.setdefault("description", terms.SCORE_VARIABLES[name].description)
    return dataset.assign(found)


def _regions(shape: tuple[int, ...], chunks: tuple[int, ...]) -> list[Region]:
    counts = [-(-size // chunk) for size, chunk in zip(shape, chunks, strict=True)]
    return [
        tuple(slice(i * chunk, min((i + 1) * chunk, size)) for i, chunk, size in zip(index, chunks, shape, strict=True))
        for index in np.ndindex(*counts)
    ]
