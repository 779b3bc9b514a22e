"""Results: their labels and attributes, and opening them."""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
import xarray as xr

from aucpr_dask.errors import AucprError, InvalidInputError
from aucpr_dask.evaluation.groups import By, factorized, labels_named
from aucpr_dask.evaluation.request import SCHEME, PreparedDataset
from aucpr_dask.schema import checks, terms
from aucpr_dask.schema.options import EvaluationOptions
from aucpr_dask.scores.chunks import item_chunk

if TYPE_CHECKING:
    from zarr.abc.store import Store

KIND = terms.RESULT
COUNTED_POSITIVES = ("n_positive_clusters", "n_effective", "n_positive")  # the first that a result has is what counts


def save_result(result: terms.Scores, store: str | Path, *, overwrite: bool = False) -> None:
    """Write a computed result to a store that :func:`open_result` opens."""
    from aucpr_dask.storage.stores import create_store

    stored = terms.map_nodes(result, lambda _, node: terms.with_stored_names(node.drop_encoding(), is_result=True))
    pending = create_store(store, stored, KIND, overwrite=overwrite)
    with pending.writing():
        pending.commit()


def counted_positives(result: xr.Dataset) -> str:
    """Return the variable with the positives that count: clusters that hold some, or what weighted ones are worth."""
    return next((name for name in COUNTED_POSITIVES if name in result), COUNTED_POSITIVES[-1])


def open_result(store: str | Path | Store, *, chunks: Any = None) -> terms.Scores:
    """Open a finished result store.

    Parameters
    ----------
    store : str, Path or zarr.abc.store.Store
        A store that :func:`aucpr_dask.run` or ``aucpr-dask evaluate`` wrote.
    chunks : None, "auto" or mapping
        Dask chunks; None opens without Dask.

    Returns
    -------
    xarray.Dataset or xarray.DataTree

    Examples
    --------
    >>> import tempfile, xarray as xr, aucpr_dask as ap
    >>> scores = xr.Dataset({"score": (("model", "item"), [[0.9, 0.1]]), "label": ("item", [1, 0])}, {"model": ["a"]})
    >>> folder = tempfile.mkdtemp()  # or "s3://bucket"
    >>> ap.save_scores(scores, f"{folder}/scores.zarr")
    >>> _ = ap.run(f"{folder}/scores.zarr", f"{folder}/result.zarr")
    >>> ap.open_result(f"{folder}/result.zarr")["estimate"].sel(model="a").item()
    1.0
    """
    return terms.as_scores(terms.map_nodes(opened_result(store, chunks), lambda _, node: terms.with_levels(node)))


def opened_result(url: str | Path | Store, chunks: Any = None, reads: Collection[str] = ()) -> terms.Stored:
    """Open a finished result as :func:`open_result` does, without making a tree of its data sets.

    Small variables of the names that it `reads` are in memory, which is quicker for many data sets at once.
    """
    from aucpr_dask.storage.stores import open_store  # with Zarr, which results in memory do without

    opened = open_store(url, KIND, chunks=chunks, remedy_if_unchecked="evaluate again to add them", reads=reads)

    def plain(path: str, node: xr.Dataset) -> xr.Dataset:
        # A data set that is selected on its own still finds its scores.
        node.attrs |= {DATA_SET: path} if path else {}
        return terms.with_plain_names(node)

    return terms.map_nodes(opened, plain)


def group_dims(result: xr.Dataset) -> list[str]:
    """Return the dimensions of groups of items, apart from queries, of a result."""
    known = result["estimate"].dims if "estimate" in result else ()
    named = [name for name in str(result.attrs.get("by", "")).split(", ") if name in known and name != terms.QUERY]
    return named + [name for name in ("dataset",) if name in known and name not in named]


def groups_as_data_sets(result: terms.Scores, most: int | None = None, along: str | None = None) -> terms.Scores:
    """Return a result by groups of items as a tree with a data set for each group, as it is named for its resamples.

    With `most`, no more than that many groups; those of the dimension `along` alone, if the result has it. Then the
    data sets of a tree stay as they are.
    """
    nodes: dict[str, xr.Dataset] = {}
    if along is not None and not isinstance(result, xr.Dataset):
        return result
    if not any(group_dims(node) for _, node in terms.nodes_of(result)):
        return result
    for path, node in terms.nodes_of(result):
        dims = [along] if along in group_dims(node) else group_dims(node)
        labels = [node[dim].values for dim in dims]
        for place in islice(np.ndindex(*map(len, labels)), None if most is None else max(0, most - len(nodes))):
            names = (of[at] for of, at in zip(labels, place, strict=True))
            group = node.isel(dict(zip(dims, place, strict=True)), drop=True) if dims else node
            nodes[terms.name_of_group(names, path, as_node=True)] = group
    return xr.DataTree.from_dict(nodes)


def axes_of(options: EvaluationOptions) -> list[str]:
    """Return which of estimators and intervals are dimensions of a result: those asked for as a list."""
    return [dim for dim in (terms.ESTIMATOR, terms.METHOD) if dim not in options.single]


def laid_out(result: xr.Dataset, axes: Collection[str]) -> xr.Dataset:
    """Return a result whose estimators and intervals are dimensions as `axes` says, otherwise scalar coordinates."""
    for dim in (terms.ESTIMATOR, terms.METHOD):
        is_axis = dim in axes
        if not is_axis and result.sizes.get(dim) == 1:
            result = result.squeeze(dim)
        elif is_axis and dim in result.coords and dim not in result.dims:
            orders = {name: spec.dims[0] for name, spec in terms.RESULT_VARIABLES.items() if dim in spec.dims[0]}
            longer = {name: result[name].expand_dims(dim) for name in orders if name in result}
            ordered = {
                name: array.transpose(..., *(one for one in orders[name] if one in array.dims))
                for name, array in longer.items()
            }
            result = result.drop_vars(dim).assign(ordered)
    return result


def form_of(source: xr.Dataset, options: EvaluationOptions) -> tuple[str, ...] | None:
    """Return what the description of a result depends on; None if on more than the forms and labels of rankings."""
    names = {name for name in source.coords if terms.ITEM not in source.variables[name].dims}
    if options.by or names - source.xindexes.keys() or {"cluster", "fold"} & set(source.variables):
        return None
    labels = [(name, one.values.tolist(), one.attrs) for name, one in source.variables.items() if name in names]
    forms = [(name, one.dims, one.dtype) for name, one in source.variables.items()]
    # Lengths of items don't matter, but there have to be as many as folds.
    length = source.sizes[terms.ITEM] if options.resampling.uses_folds else item_chunk(source) is not None
    sizes = [(dim, size) for dim, size in source.sizes.items() if dim != terms.ITEM]
    return tuple(map(repr, (source.attrs, labels, forms, sizes, length)))


def annotate(variables: Mapping[str, xr.Variable], prepared: PreparedDataset, source: xr.Dataset) -> xr.Dataset:
    """Label and describe the variables of a result, and record in the attributes how they were computed."""
    kept = {str(dim) for variable in variables.values() for dim in variable.dims}
    options, resampling = prepared.options, prepared.options.resampling
    axes: dict[str, Sequence[Any]] = {
        terms.METHOD: resampling.intervals,
        terms.BOUND: terms.BOUNDS,
        terms.ESTIMATOR: options.estimators,
    }
    if resampling.keep_replicates:
        axes |= {terms.RESAMPLE: range(resampling.n_resamples)}
    # Without conversion: pandas takes long to look for dates in objects.
    scalars = {name: xr.Variable((), np.array(label, object), fastpath=True) for name, label in options.single.items()}
    of_source = source.xindexes
    labelled = {str(name): (source.variables[name], index) for name, index in of_source.items() if name in kept}
    labelled |= {name: _labelled_axis(name, along) for name, along in axes.items() if name not in scalars}
    if prepared.groups is not None:
        attrs = {n: dict(source[n].attrs) for n in prepared.groups.indexes if n in source.variables}
        for own in attrs.values():
            own.pop(terms.GROUPS_ASKED, None)
        derived = {name.rpartition(".")[2]: name for name, _ in options.by or () if name not in source.variables}
        attrs |= {name: {terms.DERIVED_FROM: asked} for name, asked in derived.items()}
        along = prepared.groups.coordinates(attrs)
        labelled |= {str(name): (along.variables[name], along.xindexes[name]) for name in along}
    labels = {name: variable.copy(deep=False) for name, (variable, _) in labelled.items()}
    for name, coordinate in source.coords.items():  # all others travel with their dimensions
        if name not in labels and set(coordinate.dims) <= kept:
            labels[str(name)] = coordinate.compute(scheduler="threads").variable  # to group by
    if "cluster" in source and terms.QUERY in source["cluster"].dims and terms.QUERY in kept:
        labels["cluster"] = source["cluster"].variable.compute()  # of queries that depend on each other
    indexes = {name: index for name, (_, index) in labelled.items()}
    if "level" not in kept:  # which is a pressure, or the name of groups
        labels = {"level": xr.Variable((), resampling.level)} | labels
    coordinates = xr.Coordinates(labels | scalars, indexes)
    for name, variable in variables.items():
        variable.attrs |= {"description": terms.RESULT_VARIABLES[name].description, "units": "1"}
    variables["interval"].attrs |= {"ci_kind": "confidence interval", "ci_prob": resampling.level}
    variables["flags"].attrs |= terms.flag_attributes()
    given = {one.name: getattr(options, one.name) for one in fields(options) if one.name != "resampling"}
    given |= {"by": None if prepared.groups is None else ", ".join(prepared.groups.sizes)}
    given |= {"estimator": ", ".join(options.estimators), "level": resampling.level}
    repeats = {terms.N_FOLDS: terms.folds_of_repeats(source)}
    made = xr.Dataset(variables, coordinates, provenance(source, given, _sampling(prepared, source), repeats))
    return terms.with_plain_names(made)


@lru_cache
def _labelled_axis(name: str, labels: Sequence[Any]) -> tuple[xr.Variable, Any]:
    """Return the coordinate along one axis and its index: most of the time of a small evaluation went into these."""
    axis = xr.Coordinates({name: np.array(labels, dtype=np.int64 if isinstance(labels, range) else str)})
    return axis.variables[name], axis.xindexes[name]


def provenance(source: xr.Dataset, *facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a result: sources, measure and unit of its source, facts that are not None, versions."""
    own = terms.OF_VALUES if "estimate" in source else ()
    attrs = {str(name): value for name, value in source.attrs.items()}
    kept = {name: value for name, value in attrs.items() if name.startswith("source") or name in own}
    kept |= named_clusters(source)
    known = {name: value for part in facts for name, value in part.items() if value is not None}
    return kept | known | {"versions": versions()}


def named_clusters(source: xr.Dataset) -> dict[str, Any]:
    """Return what the clusters of scores are called where they come from, if that is known."""
    cluster = source.variables.get("cluster")
    name = None if cluster is None else cluster.attrs.get("long_name")
    return {} if name is None else {terms.NAME_OF_CLUSTERS: str(name)}


def _sampling(prepared: PreparedDataset, source: xr.Dataset) -> dict[str, Any]:
    """Return the attributes that describe resamples and folds."""
    resampling = prepared.options.resampling
    is_fixed = prepared.sampling.is_stratified
    kept: dict[str, Any] = {"sampled": resampling.over, "prevalence_design": "fixed" if is_fixed else "random"}
    varies, fixed = "the items with their labels", "the models"  # of what the data are a sample
    if resampling.over == "clusters":
        varies = f"the {terms.clusters_in_words(named_clusters(source))}, each with its items"
    elif is_fixed:
        varies, fixed = "the items", "the models, the numbers of positives and negatives"
    kept |= {"design": f"sample: {varies}; fixed: {fixed}"}
    if resampling.draws:
        how = "positives and negatives apart" if is_fixed else "positives and negatives together"
        kept |= {"resampled": f"{resampling.over}, {how}" if resampling.over == "items" else resampling.over}
        kept |= {"n_resamples": resampling.n_resamples}
    has_own_folds = "fold" in prepared.arrays
    if resampling.uses_folds:
        kept |= {"n_folds": prepared.sampling.n_folds, "folds": "of the data set" if has_own_folds else "stratified"}
    if resampling.draws or (resampling.uses_folds and not has_own_folds):
        kept |= {"seed": resampling.seed, "random_scheme": SCHEME}
    return kept


@cache
def versions() -> str:
    """Return the versions that the numbers depend on, as text that every file format can hold."""
    from importlib.metadata import version

    from aucpr_dask._version import __version__

    packages = ("numpy", "numba", "scipy", "xarray", "dask", "zarr")
    return ", ".join([f"aucpr-dask {__version__}", *(f"{package} {version(package)}" for package in packages)])


# --- the scores of a result -------------------------------------------------------------------------------------------

DATA_SET = "data_set"  # the attribute of a part of a stored result that names its data set
SCORES = "scores"  # the attribute of a result of scores in memory
IN_MEMORY = "in memory when they were evaluated"  # its value
MOST_KEPT = 2**24  # bytes of scores that a result keeps; larger ones are known as long as somebody else keeps them


class KnownScores(str):
    """The name of the attribute that says where a result's scores are, with the way to them.

    It is stored, copied and compared as text. The attribute's value is plain: HDF5 takes no text of another class.
    """

    __slots__ = ("groups", "path", "recall")
    recall: Callable[[], terms.Scores | None]
    path: str
    groups: By

    def __new__(cls, find: Callable[[], terms.Scores | None], path: str, groups: By) -> Self:
        """Return the text, with a function that returns the scores, if they are still there, and their groups."""
        made = super().__new__(cls, SCORES)
        made.recall, made.path, made.groups = find, path, groups
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)

    def __deepcopy__(self, memo: Any) -> Self:
        return self


def that_know(result: terms.Scores, scores: terms.Scores, groups: By = ()) -> terms.Scores:
    """Return results that know their scores and groups, for questions that estimates alone cannot answer."""
    n_bytes = sum(node["score"].nbytes for _, node in terms.nodes_of(scores))
    find = weakref.ref(scores) if n_bytes > MOST_KEPT else lambda: scores
    return terms.map_nodes(result, lambda path, node: node.assign_attrs({KnownScores(find, path, groups): IN_MEMORY}))


def known_scores(results: terms.Scores) -> terms.Scores | None:
    """Return the scores that results were evaluated from, of the same models, queries and groups.

    None unless those of all data sets are known. Each store is opened once.
    """
    found, sources = dict[str, xr.Dataset](), dict[Any, dict[str, xr.Dataset]]()
    for path, result in terms.nodes_of(results):
        known = next((name for name in result.attrs if isinstance(name, KnownScores)), None)
        stored = tuple(result.attrs.get(name) for name in ("source", "source_digest", "source_layout"))
        source = stored if known is None else id(known.recall)
        if source not in sources:
            scores = _unchanged(*stored) if known is None else known.recall()
            sources[source] = {} if scores is None else dict(terms.nodes_of(scores))
        node = sources[source].get(result.attrs.get(DATA_SET, path) if known is None else known.path)
        alike = None if node is None else _alike(node, result, () if known is None else known.groups)
        if alike is None:
            return None
        found[path] = alike
    return terms.gathered(results, found)


def _unchanged(store: str | None, digest: str | None, layout: str | None) -> terms.Scores | None:
    """Return the scores of a store, if it is there and has the same ones."""
    if store is None or digest is None:
        return None
    from aucpr_dask.scores.store import layout_of, open_scores, reader_of

    try:
        like = None if layout is None else json.loads(layout)
        is_same = reader_of(store, layout_of(store, like)).digest() == digest
        return terms.without_levels_of(open_scores(store, like=like)) if is_same else None
    except AucprError:
        return None


def _alike(scores: xr.Dataset, result: xr.Dataset, groups: By) -> xr.Dataset | None:
    """Return the part of scores that a result is about; None if it is about others, or about means of theirs."""
    estimate = result["estimate"]
    by = str(result.attrs["by"]).split(", ") if "by" in result.attrs else []
    if set(by) - set(estimate.dims):
        return None  # one group alone
    for dim in by:
        asked = None if dim in scores.variables else result[dim].attrs.get(terms.DERIVED_FROM)
        if asked is not None and (derived := labels_named(scores, asked)) is not None:
            scores = scores.assign_coords({dim: derived.variable})
    of_groups: dict[str, Any] = {}  # which may be without items
    for name, grouper in groups:
        if grouper is not None:
            index, codes = factorized(scores[name], name, grouper)
            labels = np.array(list(map(str, index)), object) if index.dtype.kind == "O" else np.asarray(index)
            kept, of_groups[name] = np.flatnonzero(codes >= 0), labels
            coordinate = terms.ITEM, labels[codes[kept]], scores[name].attrs
            scores = scores.isel({terms.ITEM: kept}).assign_coords({name: coordinate})
    lead = [str(dim) for dim in scores["score"].dims if dim != terms.ITEM]
    if set(map(str, estimate.dims)) - {*lead, *by, terms.ESTIMATOR}:
        return None  # several results side by side
    for dim in lead:
        if dim not in estimate.dims:
            if dim not in result.coords or dim not in scores.indexes:
                return None  # means over it
            (place,) = scores.indexes[dim].get_indexer(pd.Index([result[dim].item()]))
            if place < 0:
                return None
            scores = scores.isel({dim: int(place)}, drop=dim in (terms.QUERY, terms.CLASS, terms.REPEAT))
        elif dim not in result.indexes and scores.sizes[dim] != estimate.sizes[dim]:
            return None
    for dim in (*lead, *by):
        if dim not in result.indexes:
            continue
        wanted, own = result.indexes[dim], scores.get(dim)
        if own is None or not wanted.isin(of_groups.get(dim, np.unique(np.asarray(own)))).all():
            return None  # renamed
        along = str(own.dims[0])
        labels = pd.Index(np.asarray(own))
        places = labels.get_indexer(wanted) if along == dim else np.flatnonzero(labels.isin(wanted))
        scores = scores if along == dim and own.indexes[dim].equals(wanted) else scores.isel({along: places})
        if along != dim:
            attrs = own.attrs | {terms.GROUPS_ASKED: np.asarray(wanted)}
            scores = scores.assign_coords({dim: (along, scores[dim].values, attrs)})
    return scores


def not_a_result(received: str) -> InvalidInputError:
    """Return the error for data that are not a result."""
    remedy = "evaluate the scores first: scores.aucpr.evaluate()"
    return InvalidInputError("this is not a result", received=received, remedy=remedy)


def flagged(result: xr.Dataset, flag: str) -> xr.Dataset:
    """Return where the warning called `flag` is raised, as a boolean variable of that name."""
    checks.lookup(terms.FLAG_BITS, flag, "flag")
    if "flags" not in result:
        raise not_a_result("no variable 'flags'")
    return xr.Dataset({flag: (result["flags"] & terms.FLAG_BITS[flag]) > 0})
