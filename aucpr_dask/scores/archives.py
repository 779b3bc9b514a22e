"""Zarr stores of other programs, read where they lie as if this package had written them.

A layout says what is called what there, and which dimensions the items have. Through it, an archive looks like a store
of this package: the items of a ranking lie along one dimension and are read when they are needed, chunk by chunk.

What an archive lacks is taken from the list of its objects, which tells their sizes and when each was written (or, on
object storage, its tag). From these, every ranking gets a digest: a thousand objects cost one request, and nothing is
read. So a change during a run is found, and a result is extended by models that the archive got since.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr
from numpy.typing import NDArray

from aucpr_dask.errors import InvalidInputError, did_you_mean, few
from aucpr_dask.schema import checks, terms
from aucpr_dask.schema.terms import ITEM, MODEL, RANKING_DIMS
from aucpr_dask.scores.chunks import MOST_LOADED, without_values
from aucpr_dask.scores.importing.arrays import open_zarr
from aucpr_dask.scores.validate import (
    are_of_class,
    dims_of_items,
    float_scores,
    is_small_float,
    not_a_class,
    validated_nodes,
    where_of,
    with_numbers_of_queries,
)
from aucpr_dask.storage import backends, documents
from aucpr_dask.storage.trees import groups_around
from aucpr_dask.storage.verifying import chunks_among
from aucpr_dask.storage.xarray_private import (
    BackendArray,
    IndexingSupport,
    LazilyIndexedArray,
    explicit_indexing_adapter,
)
from aucpr_dask.storage.zarr_private import sync

NAMES = {name: name for name in ("score", "label", "weight", "model", "query")} | {"clusters": "cluster"}
WORDS = (*NAMES, "dim", "pos_label")  # of a layout
SEVERAL = ("dim", "models", "exclude", "negate")  # names, where a table has them
MOST_AT_ONCE = 2**28  # bytes of scores that a task reads together


@dataclass(frozen=True)
class Layout:
    """What the store of another program calls what is ours."""

    names: tuple[tuple[str, str], ...] = ()  # ours of variables and dimensions, and theirs
    dims: tuple[str, ...] = (ITEM,)  # of the items, which are all ranked together
    pos_label: Any = None  # the label of positives, if labels are not 1 and 0

    @classmethod
    def of(cls, like: Like, where: object = "argument 'like'") -> Layout:
        """Return the layout that a mapping describes, or a YAML file; or a layout as it is."""
        if isinstance(like, cls):
            return like
        words = {} if like is None else words_of(like, WORDS, where)
        names = {NAMES[name]: checks.text(words[name], name) for name in NAMES if name in words}
        return cls(tuple(sorted(names.items())), _names_in(words.get("dim", ITEM)), words.get("pos_label"))

    def as_parameters(self) -> dict[str, Any]:
        """Return the layout as a plan records it, in the words that make it."""
        theirs = dict(self.names)
        words: dict[str, Any] = {word: theirs[ours] for word, ours in NAMES.items() if ours in theirs}
        pos_label = {} if self.pos_label is None else {"pos_label": self.pos_label}
        return words | {"dim": list(self.dims)} | pos_label

    def __str__(self) -> str:
        """Say what is taken for what."""
        named = dict(self.names)
        score, label = (named.get(name, name) for name in ("score", "label"))
        return f"scores: {score}; labels: {label}; items: along {', '.join(self.dims)}"


Like = Layout | Mapping[str, Any] | str | Path | None


def words_of(like: Any, known: Collection[str], where: object = "argument 'like'") -> dict[str, Any]:
    """Return the words of a mapping, or of a YAML file, and what they mean there."""
    found: Any = like
    if isinstance(like, str | Path):
        import yaml

        where = like
        try:
            found = yaml.safe_load(Path(like).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
            raise InvalidInputError("the description of a layout cannot be read", like, error) from error
    if not isinstance(found, Mapping):
        allowed = "a mapping, such as {'score': 'probability', 'label': 'event', 'dim': ['time', 'lat']}"
        raise InvalidInputError("this does not say what is called what", where, repr(found), allowed)
    words = {str(name).replace("-", "_"): value for name, value in found.items()}
    if others := [name for name in words if name not in known]:
        what, remedy = "these words are for tables, or have no meaning", "leave them out"
        remedy = did_you_mean(others[0], known, remedy)
        raise InvalidInputError(what, where, few(map(repr, others)), ", ".join(known), remedy)
    return {name: _names_in(value) if name in SEVERAL else value for name, value in words.items()}


def _names_in(value: Any) -> tuple[str, ...]:
    """Return names that are given as a list, or as text with commas."""
    listed = value.split(",") if isinstance(value, str) else value
    return tuple(checks.text(name.strip() if isinstance(name, str) else name, "dim") for name in listed)


class Archive:
    """The data sets of a Zarr store that another program wrote, as :class:`~.store.SourceNodes` are those of ours."""

    def __init__(self, url: str, layout: Layout) -> None:
        self.url, self.layout = url, layout
        opened = open_zarr(url, dict(layout.names))
        self._is_tree = not isinstance(opened, xr.Dataset)
        nodes = sorted(terms.nodes_of(opened), key=lambda node: node[0])  # stores list them in any order
        self._nodes = {path: _flat(node, layout, path, url) for path, node in nodes}

    def planned(self) -> terms.Stored:
        """Return the data sets as they are stored, with the digests of their rankings; no chunk is read."""
        return self._planned

    @cached_property
    def _planned(self) -> terms.Stored:
        versions = backends.versions_in(backends.open_backend(self.url, read_only=True))
        if versions is None:
            return self._gathered(self._nodes)
        digests = _digests(self.url, self._nodes, versions, self._named())
        return self._gathered({path: node.assign(digest=digests[path]) for path, node in self._nodes.items()})

    def described(self, unread: terms.Stored) -> terms.Stored:
        """Return data sets, validated, with small variables in memory and without the values of others."""
        small = terms.map_nodes(unread, lambda path, node: self._with_small(path, node))
        return terms.gathered(small, dict(validated_nodes(terms.map_nodes(small, _described), positive_from=0)))

    def opened(self, paths: Collection[str] | None = None, keeps: Collection[str] = ()) -> dict[str, xr.Dataset]:
        """Return data sets, validated, with small variables in memory; of the coordinates of items, it `keeps` some."""
        small = {p: self._with_small(p, one, keeps) for p, one in self._nodes.items() if paths is None or p in paths}
        found = {}
        described = {path: _described(path, node) for path, node in small.items()}
        for path, node in validated_nodes(terms.Nodes(described), positive_from=0):
            large = {name: one for name, one in small[path].variables.items() if not one._in_memory}
            found[path] = with_numbers_of_queries(node.assign(large))
        return found

    def scores(self, chunks: Any = "auto") -> terms.Scores:
        """Return all data sets, lazily: by default in chunks of whole rankings, unless these are large."""

        def chunked(node: xr.Dataset) -> xr.Dataset:
            whole = node["score"].encoding["preferred_chunks"] | {ITEM: -1}
            return node if chunks is None else node.chunk(whole if isinstance(chunks, str) else chunks)

        names = {str(name) for node in self._nodes.values() for name in node.coords}
        return terms.as_scores(self._gathered({path: chunked(one) for path, one in self.opened(None, names).items()}))

    def has_chunk(self, path: str, where: Mapping[str, slice]) -> bool:
        """Return whether the first chunk of some rankings is there: an archive may be planned before it is filled."""
        backend = backends.open_backend(self.url, read_only=True)
        array: Any = zarr.open_array(backend, path=f"{path}/{self._named().get('score', 'score')}".strip("/"), mode="r")
        ours = {theirs: ours for ours, theirs in self.layout.names}
        dims = [ours.get(dim, dim) for dim in map(str, _dims_of(array))]
        starts = [where[dim].start if dim in where else 0 for dim in dims]
        place = tuple(start // n for start, n in zip(starts, array.shards or array.chunks, strict=True))
        return sync(backend.exists(f"{array.path}/{array.metadata.encode_chunk_key(place)}"))

    def check(self, path: str, where: Mapping[str, Any]) -> None:
        """Do nothing: a run looks at its end whether anything has changed."""

    def within_chunk(self, path: str, where: Mapping[str, Any]) -> None:
        """Return nothing: Zarr reads the scores."""

    def digest(self) -> str:
        """Return the digest of all that numbers depend on, by the first list of its objects."""
        digest = hashlib.sha256(json.dumps(self.layout.as_parameters(), default=str).encode())
        for path, node in terms.nodes_of(self._planned):
            forms = sorted((str(name), one.dims, one.shape) for name, one in node.variables.items())
            names = {dim: list(map(str, node.indexes[dim])) for dim in node["score"].dims[:-1] if dim in node.indexes}
            digest.update(json.dumps([path, forms, names]).encode())
            if "digest" in node:
                digest.update(np.ascontiguousarray(node["digest"].values).data)
        return digest.hexdigest()

    def _with_small(self, path: str, node: xr.Dataset, keeps: Collection[str] | None = None) -> xr.Dataset:
        """Return a data set with small variables in memory; without coordinates of items but those that it `keeps`."""
        along = [name for name, one in node.coords.items() if ITEM in one.dims and name not in node.dims]
        left_out = along if keeps is None else [name for name in along if name not in keeps]
        node = node.drop_vars(["digest", *(left_out if keeps is not None else [])], errors="ignore")
        lazy = {n: one for n, one in node.variables.items() if n not in (*left_out, "score") and not one._in_memory}
        # Of some, all has to be known to understand a part, whatever their size.
        whole = {"cluster", "fold"} | ({"label"} if "label" in lazy and lazy["label"].dtype.kind in "OTU" else set())
        read = [name for name, one in lazy.items() if one.nbytes <= MOST_LOADED or name in whole]
        node = node.assign({name: node.variables[name].load() for name in read})
        label = node.get("label")
        if self.layout.pos_label is not None and label is not None and label.variable._in_memory and not label.any():
            raise not_a_class(self.layout.pos_label, where_of(path, "label"))
        return node

    def _named(self) -> dict[str, str]:
        """Return our names of what has another name there."""
        dims = self.layout.dims
        return dict(self.layout.names) | ({ITEM: dims[0]} if len(dims) == 1 else {})

    def _gathered(self, nodes: dict[str, xr.Dataset]) -> terms.Stored:
        return terms.Nodes(nodes) if self._is_tree else nodes[""]


def _described(path: str, dataset: xr.Dataset) -> xr.Dataset:
    """Return a data set whose large variables have no values."""
    return without_values(dataset, [name for name, one in dataset.data_vars.items() if not one.variable._in_memory])


# --- items along one dimension ----------------------------------------------------------------------------------------


def _flat(node: xr.Dataset, layout: Layout, path: str, url: str) -> xr.Dataset:
    """Return a data set whose items lie along one dimension, and are read when they are needed."""
    dims = dims_of_items(node, layout.dims, path, remedy="name those of the items: dim=('time', 'lat', 'lon')")
    if dims != (ITEM,) and (ITEM in node.dims or ITEM in node.variables):
        what, remedy = f"these scores have something else of the name {ITEM!r}", f"name it: dim={ITEM!r}"
        raise InvalidInputError(what, url, ", ".join(dims), None, remedy)
    items = {dim: node.sizes[dim] for dim in dims}
    label = node.variables.get("label")
    has_mask = label is not None and label.dtype.kind == "f" and layout.pos_label is None  # NaN where nothing is ranked
    found = dict[Any, xr.Variable]()
    for name, variable in node.variables.items():
        if variable.dims == dims and name in dims:
            found[ITEM] = xr.Variable(ITEM, variable.values, variable.attrs)
            found[name] = found[ITEM].copy(deep=False)  # to group by
        elif set(variable.dims) & set(dims):
            mask = label if has_mask and name == "score" else None
            array: Any = _Items(variable, items, name, layout.pos_label, where_of(path, str(name)), mask)
            found[name] = xr.Variable((*array.lead, ITEM), LazilyIndexedArray(array), variable.attrs)
        else:
            found[name] = variable
    if (named := dict(layout.names).get("cluster")) is not None:
        found["cluster"].attrs.setdefault("long_name", named)
    coordinates = [name for name in node.coords if name in found and name not in terms.SCORE_VARIABLES]
    flat = xr.Dataset(found).set_coords(coordinates)
    flat["score"].encoding |= _stored_form(node["score"].variable, items)
    return flat.assign_attrs(node.attrs)


def _stored_form(score: xr.Variable, items: Mapping[str, int]) -> dict[str, Any]:
    """Return how scores lie in objects, and how much of them a task reads: no more than memory should hold."""
    stored = dict(zip(score.dims, score.encoding.get("shards") or score.encoding["chunks"], strict=True))
    first, *others = items
    n_items, itemsize = math.prod(items.values()), max(4, score.dtype.itemsize)
    rows = math.prod(items[dim] for dim in others)
    lead = {dim: stored[dim] for dim in _lead_of(score.dims, items)}
    found = dict(lead)
    while n_items * itemsize * math.prod(found.values()) > MOST_AT_ONCE and max(found.values(), default=1) > 1:
        longest = max(found, key=lambda dim: found[dim])
        found[longest] = -(-found[longest] // 2)
    if n_items * itemsize > MOST_AT_ONCE:
        together = max(1, MOST_AT_ONCE // max(1, rows * itemsize * stored[first])) * stored[first] * rows
        found |= {ITEM: together} if together < n_items else {}
    of_items = math.prod(-(-size // stored[dim]) for dim, size in items.items())
    return {"preferred_chunks": found, "objects": (lead, of_items)}


def _lead_of(dims: Collection[Any], items: Collection[str]) -> list[str]:
    """Return the dimensions next to the items, in the usual order."""
    places = {MODEL: -1} | {dim: 1 for dim in RANKING_DIMS if dim != MODEL}
    return sorted((str(dim) for dim in dims if dim not in items), key=lambda dim: places.get(dim, 0))


class _Items(BackendArray):
    """A variable of an archive, over the dimensions next to the items and one of all items.

    Scores are taken as floats, and labels as whole numbers; where `labels` are NaN, nothing is ranked.
    """

    def __init__(
        self,
        variable: xr.Variable,
        items: Mapping[str, int],
        name: Any,
        pos_label: Any,
        where: str,
        labels: xr.Variable | None = None,
    ) -> None:
        self.lead = _lead_of(variable.dims, items)
        self._variable, self._items, self._where = variable, dict(items), where
        self._labels = None if labels is None else _Items(labels, items, None, None, where)
        self.shape = (*(variable.sizes[dim] for dim in self.lead), math.prod(items.values()))
        convert: Any = np.asarray
        self.dtype: np.dtype[Any] = variable.dtype
        if name == "label" and pos_label is not None:
            self.dtype, convert = np.dtype(np.int8), partial(are_of_class, pos_label=pos_label, where=where)
        elif name == "label" and self.dtype.kind == "f":
            self.dtype, convert = np.dtype(np.int8), partial(checks.whole_labels, score=np.array(np.nan), where=where)
        elif name == "score" and (self.dtype.kind in "iub" or is_small_float(self.dtype)):
            convert = partial(float_scores, where=where)
            self.dtype = convert(np.empty(0, variable.dtype)).dtype
        self._convert = convert

    def __getitem__(self, key: Any) -> Any:
        """Return a part of it."""
        return explicit_indexing_adapter(key, self.shape, IndexingSupport.OUTER, self._part)

    def _part(self, key: tuple[Any, ...]) -> NDArray[Any]:
        *lead, items = ([one] if isinstance(one, int | np.integer) else one for one in key)
        where = dict(zip(self.lead, lead, strict=True))
        values = self._raw(where, items)
        if self._labels is not None:
            labels = self._labels._raw({dim: where[dim] for dim in self._labels.lead}, items)
            if np.isnan(labels).any():
                axes = [place for place, dim in enumerate(self.lead) if dim not in self._labels.lead]
                checks.whole_labels(np.expand_dims(labels, axes), values, self._where)
        single = tuple(axis for axis, one in enumerate(key) if isinstance(one, int | np.integer))
        found: NDArray[Any] = self._convert(values).squeeze(single)
        return found

    def _raw(self, where: Mapping[str, Any], items: Any) -> NDArray[Any]:
        """Return values as they are stored, reading the rows of the first dimension of the items that hold them."""
        n_items, first = self.shape[-1], next(iter(self._items))
        of_row = max(1, n_items // max(1, self._items[first]))
        places = None
        if isinstance(items, slice) and items.step in (None, 1):
            start, stop, _ = items.indices(n_items)
        else:
            places = np.arange(n_items)[items]
            start, stop = (places.min(), places.max() + 1) if places.size else (0, 0)
        rows = slice(start // of_row, -(-stop // of_row))
        before = rows.start * of_row
        part = self._variable.isel({**where, first: rows} if first in self._variable.dims else where)
        sizes = {dim: part.sizes[dim] for dim in self.lead} | self._items | {first: rows.stop - rows.start}
        whole = xr.Variable(part.dims, part.values).set_dims(sizes).transpose(*sizes).values
        flat: NDArray[Any] = whole.reshape(*whole.shape[: len(self.lead)], -1)
        return flat[..., start - before : stop - before] if places is None else flat[..., places - before]


# --- digests ----------------------------------------------------------------------------------------------------------


def _digests(
    url: str, nodes: Mapping[str, xr.Dataset], versions: Mapping[str, str], named: Mapping[str, str]
) -> dict[str, xr.DataArray]:
    """Return the digests of rankings, made of what the list of a store's objects says of their chunks."""
    group = zarr.open_group(backends.open_backend(url, read_only=True), mode="r")
    keys, ours = sorted(versions), {theirs: ours for ours, theirs in named.items()}
    found: dict[str, xr.DataArray] = {}
    for path, node in nodes.items():
        score = node["score"]
        total = xr.DataArray(np.zeros(score.shape[:-1], np.uint64), dims=score.dims[:-1])
        used = [str(name) for name, one in node.variables.items() if name in node.data_vars or ITEM in one.dims]
        for name in sorted(used):
            # Coordinates are inherited.
            places = [f"{place}/{named.get(name, name)}".strip("/") for place in (path, *groups_around(path))]
            array = next((one for one in map(group.get, places) if isinstance(one, zarr.Array)), None)
            if array is None:
                continue
            form = {key: value for key, value in documents.of_array(array.metadata).items() if key != "shape"}
            lengths = array.shards or array.chunks
            counts = tuple(-(-n // length) for n, length in zip(array.shape, lengths, strict=True))
            # A number for each chunk, of its version and of how it is read.
            chunks = np.full(counts, _number(json.dumps([name, form], sort_keys=True, default=str)), np.uint64)
            for index, key in chunks_among(array, keys):
                chunks[index] = _number(f"{chunks[index]} {versions[key]}")
            dims = [ours.get(str(dim), str(dim)) for dim in _dims_of(array)]
            of_rankings = [place for place, dim in enumerate(dims) if dim in total.dims]
            of_items = [place for place, dim in enumerate(dims) if dim not in total.dims]
            each = chunks.transpose(of_rankings + of_items)
            each = each.reshape(*each.shape[: len(of_rankings)], -1)
            weights = np.arange(each.shape[-1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)  # the order counts
            each = (each * weights).sum(axis=-1)
            chunk_of = (np.arange(array.shape[place]) // lengths[place] for place in of_rankings)
            each = each[np.ix_(*chunk_of)] if of_rankings else each
            total = total + xr.DataArray(each, dims=[dims[place] for place in of_rankings])
        found[path] = total.transpose(*score.dims[:-1])
    return found


def _dims_of(array: zarr.Array[Any]) -> tuple[Any, ...]:
    """Return the names of the dimensions of an array of Zarr 2 or 3, as xarray writes them."""
    found: Any = array.attrs.get("_ARRAY_DIMENSIONS") or getattr(array.metadata, "dimension_names", None)
    return tuple(found or ())


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
