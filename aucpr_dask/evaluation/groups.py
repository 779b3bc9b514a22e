"""Groups of items: which coordinates name them, their labels, and the number of each item's group."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from aucpr_dask.errors import InvalidInputError, bad_argument, brief, did_you_mean, few, for_caller
from aucpr_dask.evaluation import alignment
from aucpr_dask.schema import terms
from aucpr_dask.scores.validate import check_same_labels, checked_nodes, where_of

UNSEEN_OF_GROUPS = (  # what is wrong, and the remedy
    "n_positive counts the positives of a whole ranking, not those of groups",
    "leave out n_positive, or by",
)
MOST_MEASURED = 100  # different numbers with a fraction that may name groups of few items
By = tuple[tuple[str, Any], ...]  # names of coordinates, each with a grouper of xarray or None


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of the items of a data set: one for each combination of labels, in sorted order."""

    indexes: dict[str, pd.Index]  # the labels of each grouping coordinate
    code: NDArray[Any]  # the number of each item's group, -1 of none

    @property
    def sizes(self) -> dict[str, int]:
        """The length of each dimension of groups."""
        return {name: len(index) for name, index in self.indexes.items()}

    @property
    def n_groups(self) -> int:
        """The number of combinations, empty ones included."""
        return math.prod(self.sizes.values())

    @cached_property
    def names(self) -> list[tuple[str, ...]]:
        """The labels of each group, as text."""
        words = [[str(label) for label in index] for index in self.indexes.values()]
        return [tuple(of[i] for of, i in zip(words, at, strict=True)) for at in np.ndindex(*self.sizes.values())]

    @property
    def places(self) -> list[NDArray[np.intp]]:
        """The places of each group's items, in their order."""
        order = np.argsort(self.code, kind="stable")
        return np.split(order, np.searchsorted(self.code[order], np.arange(self.n_groups + 1)))[1:-1]

    @property
    def least(self) -> int:
        """The items of the smallest group that has some."""
        counts = np.bincount(self.code[self.code >= 0])
        return int(counts[counts > 0].min(initial=len(self.code)))

    def streams(self, path: str) -> list[tuple[str, str | None]]:
        """Return the names of data set and query by which each group is resampled, as if it were one of a tree."""
        found = []
        for labels in self.names:
            named = dict(zip(self.indexes, labels, strict=True))
            query = named.pop(terms.QUERY, None)
            found.append((terms.name_of_group(named.values(), path), query))
        return found

    def coordinates(self, attrs: Mapping[str, Any] = {}) -> xr.Coordinates:
        """Return the labels along each dimension; names are objects, as those of models."""
        labels = {
            name: index.astype(object) if index.dtype.kind in "OUT" else index for name, index in self.indexes.items()
        }
        return xr.Coordinates({name: (name, along, attrs.get(name)) for name, along in labels.items()})

    def arguments(self, *outputs: str) -> dict[str, Any]:
        """Return what a block function needs to know, next to arrays, to lay out outputs of these names."""
        return {"shape": tuple(self.sizes.values()), "names": outputs}

    def with_codes(self, arrays: dict[str, Any], dim: str, *, with_names: bool) -> dict[str, Any]:
        """Return arrays with those of the number of each item's group and, for error messages, of the groups' names.

        Items are in one chunk, and models are cut so that chunks keep the size that Dask would choose.
        """
        split = [array for array in arrays.values() if len(array.chunksizes.get(dim, ())) > 1]
        lengths: dict[Any, Any] = {one: "auto" for array in split for one in array.dims} | {dim: -1}
        found = {
            role: array.chunk({one: n for one, n in lengths.items() if one in array.dims}) if split else array
            for role, array in arrays.items()
        }
        found[terms.GROUPS] = xr.Variable(dim, self.code)
        if with_names:
            found[terms.GROUP] = xr.Variable(
                terms.GROUPS, np.array([", ".join(labels) for labels in self.names], object)
            )
        return alignment.chunked_alike(found)


# Which groups

COLUMNS = (pd.Series, pd.Index, pd.api.extensions.ExtensionArray)  # which pandas can factorize, as groupers do


def parted(by: Any, n_items: int, known: Sequence[str] = ()) -> list[tuple[str, Any, Any]]:
    """Return the name, the labels (None: those of the coordinate) and the grouper, or None, of each coordinate."""
    by = alignment.columns_of(by) if alignment.is_table(by) else by
    refuse_no_groups(by)
    listed: list[tuple[Any, Any]]
    if isinstance(by, str):
        listed = [(by, None)]
    elif isinstance(by, Mapping):
        listed = list(by.items())
    elif isinstance(by, list | tuple) and by and not _are_labels(by, n_items, known):
        listed = [(one, None) if isinstance(one, str) else one if _is_pair(one) else (None, one) for one in by]
    else:
        listed = [(None, by)]
    found: list[tuple[str, Any, Any]] = []
    for name, value in listed:
        if name is None:
            name = getattr(value, "name", None) or terms.GROUP
        if not isinstance(name, str) or name in {one for one, *_ in found}:
            remedy = 'name them: by={"site": labels, "sex": other_labels}'
            raise bad_argument("groups need names, each once", "by", name, "names of dimensions of the result", remedy)
        is_grouper = hasattr(value, "factorize") and not isinstance(value, COLUMNS)
        found.append((name, None, value) if value is None or is_grouper else (name, value, None))
    return found


def refuse_no_groups(by: Any) -> None:
    """Raise if groups are given by nothing, or by data sets or tables."""
    if isinstance(by, xr.Dataset | xr.DataTree | pd.DataFrame) or (isinstance(by, Mapping | list | tuple) and not by):
        what, allowed = "this names no groups", 'names of coordinates, labels of the items, or {"site": labels}'
        raise bad_argument(what, "by", by, allowed, "name a coordinate: by='site'")


def _is_pair(one: Any) -> bool:
    return isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str) and not isinstance(one[1], str)


def _are_labels(by: Sequence[Any], n_items: int, known: Sequence[str]) -> bool:
    """Whether a list holds the labels of the items, not names of coordinates or arrays."""
    if len(by) != n_items or any(np.ndim(one) or _is_pair(one) for one in by):
        return False
    return not all(isinstance(one, str) and one in known for one in by)


@dataclass(frozen=True)
class Listed:
    """A grouper of numbers: each is the place of an item's label among these."""

    labels: pd.Index

    def factorize(self, group: xr.DataArray) -> Any:
        """Return the numbers, and the labels, as groupers of xarray do."""
        return SimpleNamespace(codes=group, full_index=self.labels)

    def __str__(self) -> str:
        """Name the labels, as the parameters of a result do."""
        return few(map(str, self.labels))


def named_along_queries(dataset: xr.Dataset) -> list[str]:
    """Return the names of the coordinates along the queries, which may name groups of them."""
    return [str(name) for name in dataset.coords if _lies_along_queries(dataset, name)]


def _lies_along_queries(dataset: xr.Dataset, name: Any) -> bool:
    return name != terms.QUERY and name in dataset.coords and dataset[name].dims == (terms.QUERY,)


def along_queries(dataset: xr.Dataset, by: Any) -> tuple[tuple[str, ...], Any]:
    """Return the coordinates along the queries among the names of groups, and what is left: groups of items, or None.

    >>> dataset = xr.Dataset(coords={"language": ("query", ["de", "fr"]), "site": ("item", ["a", "b", "c"])})
    >>> along_queries(dataset, ["language", "site"])
    (('language',), ['site'])
    """
    listed = [by] if isinstance(by, str) else by if isinstance(by, list | tuple) else []
    along = [isinstance(one, str) and _lies_along_queries(dataset, one) for one in listed]
    if not any(along):
        return (), by
    names = tuple(one for one, is_along in zip(listed, along, strict=True) if is_along)
    return names, [one for one, is_along in zip(listed, along, strict=True) if not is_along] or None


def groups_of_queries(dataset: xr.Dataset, names: Sequence[str], path: str = "") -> Groups:
    """Return the groups of the queries of a data set by coordinates along them."""
    return combined({name: factorized(dataset[name], name, None, where_of(path)) for name in names})


def with_labels(scores: terms.Scores, by: Any) -> tuple[terms.Scores, By]:
    """Return scores whose coordinates along the items tell all groups, and the names of these, with their groupers."""
    names: By = ()
    list(checked_nodes(scores))

    def assigned(path: str, dataset: xr.Dataset) -> xr.Dataset:
        nonlocal names
        names, coords = groups_along(dataset, by, (terms.ITEM,), path)
        return dataset.assign_coords(coords) if coords else dataset

    return terms.map_nodes(scores, assigned), names


def groups_along(
    dataset: xr.Dataset, by: Any, dims: tuple[str, ...], path: str
) -> tuple[By, dict[str, tuple[str, Any, Any]]]:
    """Return the names of groups of items, with groupers, and the coordinates that a data set needs for them.

    A coordinate along one dimension of items serves as it is. For others, and for labels that are given next to the
    scores, there are numbers of groups, along all items.
    """
    names: dict[str, Any] = {}
    coords: dict[str, tuple[str, Any, Any]] = {}
    n_items = math.prod(dataset.sizes.get(dim, 0) for dim in dims)
    for name, labels, grouper in parted(by, n_items, [str(name) for name in dataset.variables]):
        if isinstance(labels, str) or labels is None:
            known = labels_named(dataset, labels or name)
            if known is None or not set(known.dims) & set(dims):
                raise _no_coordinate(dataset, labels or name, path, dims[0])
            name = name if labels else str(known.name)
            if known.dims == (name,) == dims and grouper is None:
                what, remedy = "every item would be a group of its own", "name a coarser coordinate, or a grouper"
                raise InvalidInputError(what, f"{where_of(path)}, argument 'by'", repr(name), "groups", remedy)
            is_own = known.name == name and name not in dims and not _is_categorical(known)
            if is_own and name in dataset.variables and (known.dims == dims or not set(known.dims) <= set(dims)):
                names[name] = grouper  # folds differ between repeats
                continue
            labels = known
        own = dataset.get(name) if name in terms.SCORE_VARIABLES else None
        if own is not None and (np.shape(labels) != own.shape or not bool((own.values == np.asarray(labels)).all())):
            what, remedy = (
                f"the scores have another variable {name!r}",
                f'by={{"another name": labels}}, or by={name!r}',
            )
            where = f"{where_of(path)}, argument 'by'"
            raise InvalidInputError(what, where, brief(labels), "a name of its own", remedy)
        index, code = _numbered(labels, name, grouper, dataset, dims, path)
        names[name] = Listed(index)
        coords[name] = terms.ITEM, code, dict(getattr(labels, "attrs", {}))
    if terms.ITEM in names:
        raise _twice(terms.ITEM, path)
    return tuple(names.items()), coords


def labels_named(dataset: xr.Dataset, name: str) -> xr.DataArray | None:
    """Return a variable of a data set, or what is derived from one, such as "time.month"; None if there is none."""
    is_derived = "." in name and name.partition(".")[0] in dataset.coords
    if name not in dataset.variables and not is_derived:
        return None
    try:
        return dataset[name]
    except (KeyError, AttributeError, TypeError):
        return None


def _is_categorical(labels: Any) -> bool:
    return isinstance(getattr(labels, "dtype", None), pd.CategoricalDtype)


def _numbered(
    labels: Any, name: str, grouper: Any, dataset: xr.Dataset, dims: tuple[str, ...], path: str
) -> tuple[pd.Index, NDArray[np.int64]]:
    """Return the labels of groups, and the place among them of each item's, for all items."""
    where = where_of(path)
    if not isinstance(labels, xr.DataArray):
        lengths = [dataset.sizes.get(dim, 0) for dim in dims]
        values = _one_label_each(labels, name, lengths)
        if len(dims) == 1:
            alignment.refuse_other_order(labels, dataset.indexes.get(dims[0]), lengths[0], f"groups by {name!r}")
        return factorized(values, name, grouper, where)
    if not labels.dims or not set(labels.dims) <= set(dims):
        received = f"({', '.join(map(str, labels.dims))})"
        what, allowed = f"groups by {name!r} do not lie along the items", f"dimensions among {', '.join(dims)}"
        remedy = "give labels along these, or name the dimensions of the items: dim=..."
        raise bad_argument(what, "by", received, allowed, remedy)
    check_same_labels(dataset["score"], labels, ("score", name))
    index, codes = factorized(_values(labels), name, grouper, where)
    number = xr.Variable(labels.dims, codes.reshape(labels.shape))
    return index, number.set_dims({dim: dataset.sizes[dim] for dim in dims}).transpose(*dims).values.reshape(-1)


def _values(labels: xr.DataArray) -> Any:
    """Return labels in memory, along one dimension; categories stay what they are."""
    if labels.ndim == 1 and _is_categorical(labels):
        return labels.to_index()
    return xr.DataArray(labels.values.reshape(-1), dims=terms.ITEM, attrs=labels.attrs)


def without_labels(labels: Any) -> Any:
    """Return the labels of groups without those of their items: categories as such, all else as an array."""
    if labels is None:
        return None
    is_of_pandas = isinstance(labels, pd.Series | pd.Index | pd.Categorical)
    return pd.Categorical(labels) if is_of_pandas and _is_categorical(labels) else np.asarray(labels)


def _one_label_each(labels: Any, name: str, lengths: Sequence[int]) -> Any:
    """Return labels that are given without names of dimensions, one for each item."""
    values = without_labels(labels)
    if values.shape == tuple(lengths):
        return values if values.ndim == 1 else values.reshape(-1)
    what, allowed = f"groups by {name!r} need one label for each item", f"{' x '.join(map(str, lengths))} labels"
    remedy = "pass an array of labels along the items, or the name of a coordinate"
    raise bad_argument(what, "by", f"shape {values.shape}" if values.ndim else labels, allowed, remedy)


def groups_of(dataset: xr.Dataset, by: By, path: str = "") -> Groups:
    """Return the groups of the items of a data set by the labels of its coordinates."""
    if by and "n_positive" in dataset:
        what, remedy = UNSEEN_OF_GROUPS
        where = where_of(path, "n_positive")
        raise InvalidInputError(what, where, "n_positive next to groups of items", "one of both", remedy)
    found = {}
    for asked, grouper in by:
        known = labels_named(dataset, asked)
        if known is None or known.dims != (terms.ITEM,):
            raise _no_coordinate(dataset, asked, path, terms.ITEM)
        name = str(known.name)  # of "time.month", "month"
        if name == terms.ITEM or name in dataset["score"].dims or name in terms.OF_RESULTS:
            raise _twice(name, path)
        found[name] = factorized(known, name, grouper, where_of(path))
    return combined(found)


def read_for(by: By | None) -> list[str]:
    """Return the names of the coordinates that groups are made of: for "time.month", the time, too."""
    return [one for name, _ in by or () for one in dict.fromkeys((name, name.partition(".")[0]))]


def _twice(name: str, path: str) -> InvalidInputError:
    what, remedy = f"the result would have two of the name {name!r}", 'by={"another name": labels}'
    return InvalidInputError(what, f"{where_of(path)}, argument 'by'", repr(name), "another name", remedy)


def _no_coordinate(dataset: xr.Dataset, name: str, path: str, dim: str) -> InvalidInputError:
    others = {"label", "weight", "tie_order", "positive_weight", "negative_weight", dim}
    along = [str(one) for one in dataset.variables if dataset[one].dims == (dim,) and one not in others]
    is_other = name in dataset.variables
    what = f"{name!r} does not lie along the items" if is_other else f"there is no coordinate {name!r} of the items"
    received = f"{name!r} over ({', '.join(map(str, dataset[name].dims))})" if is_other else repr(name)
    otherwise = for_caller(f"give its labels: by={{{name!r}: labels}}", f"import again with --by {name}")
    remedy = did_you_mean(name, along, otherwise)
    if is_other and name in dataset["score"].dims:
        remedy = f"leave it out: each {name} is evaluated alone already"
        again = "to contrast or group its labels, make them items, and call these otherwise than 'item': "
        again += f"dim=['case', {name!r}], by={name!r}"
        remedy += "" if name in terms.RANKING_DIMS else f"; {again}"
    elif is_other and dataset[name].dims == (terms.QUERY,):
        remedy = "each query is evaluated alone already; compare, rank, gate, power, aggregate and contrast group them"
    allowed = few(map(repr, along)) or "a coordinate along the items; these scores have none"
    return InvalidInputError(what, f"{where_of(path)}, argument 'by'", received, allowed, remedy)


def factorized(labels: Any, name: str, grouper: Any, where: str | None = None) -> tuple[pd.Index, NDArray[np.int64]]:
    """Return the labels of groups, sorted or as categories are, and the place among them of each item's label."""
    order = getattr(labels, "attrs", {}).get(terms.CATEGORIES, ())
    where = f"{where}, argument 'by'" if where else "argument 'by'"
    asked = getattr(labels, "attrs", {}).get(terms.GROUPS_ASKED)
    if grouper is None and asked is not None:
        index = pd.Index(asked)
        codes = index.get_indexer(pd.Index(np.asarray(labels)))
        what, remedy = f"some items have no label of {name!r}", "pass the scores"
    elif grouper is None and _is_categorical(labels):
        known = pd.Categorical(labels).remove_unused_categories()  # in their order
        codes, index = known.codes, known.categories
        what, remedy = f"some items have no label of {name!r}", "name their group, for example 'unknown', or drop them"
    elif grouper is None:
        values = np.asarray(labels)
        if values.dtype.kind in "iuf":  # pandas has no index of 16-bit floats, or of bytes in another order
            own = values.dtype.newbyteorder("=")
            values = values.astype(np.float32 if own == np.float16 else own, copy=False)
        codes, index = pd.factorize(pd.Index(values), sort=True)
        _refuse_measurements(values, index, name, where)
        if len(order):
            in_order = np.argsort(pd.Index([*order, *index]).drop_duplicates().get_indexer(index))
            codes, index = np.append(np.argsort(in_order), -1)[codes], index[in_order]
        what, remedy = f"some items have no label of {name!r}", "name their group, for example 'unknown', or drop them"
    else:
        try:
            encoded = copy.copy(grouper).factorize(xr.DataArray(np.asarray(labels), dims=terms.ITEM, name=name))
        except (ValueError, TypeError) as error:
            what, allowed = f"items cannot be grouped by {name!r}", "groups that hold items"
            what = f"{what}: {error}"
            raise InvalidInputError(what, where, brief(grouper), allowed, "see xarray.groupers") from error
        codes, index = encoded.codes.values, encoded.full_index
        what, remedy = f"some items are in no bin of {name!r}", "add bins up to -inf and inf, or drop these items"
    is_listed = any(getattr(grouper, listed, None) is not None for listed in ("labels", "seasons"))
    if (codes < 0).any() and not is_listed:  # groups that are listed are those to evaluate
        received = f"{int((codes < 0).sum())} of {len(codes)} items"
        raise InvalidInputError(what, where, received, "one group for each item", remedy)
    if isinstance(index, pd.CategoricalIndex):
        index = pd.Index(index.categories[index.codes])
    if isinstance(index, pd.IntervalIndex):  # no file format holds these
        index = pd.Index(list(map(str, index)), dtype=object)
    return pd.Index(index, name=name), np.asarray(codes, np.int64)


def _refuse_measurements(values: NDArray[Any], index: pd.Index, name: str, where: str) -> None:
    """Raise if labels of groups are numbers with a fraction that hardly repeat, such as ages: nobody means these."""
    if values.dtype.kind != "f" or len(index) <= max(MOST_MEASURED, len(values) / 10) or (index % 1 == 0).all():
        return
    what = f"{name!r} has {len(index):,} different numbers among {len(values):,} items, too many for groups"
    remedy = f"cut it into bins: by={{{name!r}: xarray.groupers.BinGrouper(...)}}, or add a column of bins"
    raise InvalidInputError(what, where, f"{index[0]:g} to {index[-1]:g}", "labels that repeat", remedy)


def combined(found: Mapping[str, tuple[pd.Index, NDArray[np.int64]]]) -> Groups:
    """Return the groups of all combinations of labels."""
    indexes = {name: index for name, (index, _) in found.items()}
    codes = [code for _, code in found.values()]
    shape = tuple(map(len, indexes.values()))
    code = np.ravel_multi_index([np.maximum(one, 0) for one in codes], shape) if codes[0].size else codes[0]
    code = np.where(np.any([one < 0 for one in codes], axis=0), -1, code)
    small = np.min_scalar_type(-max(1, math.prod(shape)))  # NumPy sorts 16 bits several times as fast as 64
    return Groups(indexes, code.astype(small))


def groups_of_arrays(score: Any, label: Any, by: Any, dim: Any) -> Groups:
    """Return the groups of items of the arrays of a call: DataArrays, whose coordinates may name them, or others."""
    if not isinstance(score, xr.DataArray):
        n_items = np.shape(score)[-1] if np.ndim(score) else 0
        given = {name: (labels, grouper) for name, labels, grouper in parted(by, n_items)}
        if unlabelled := [name for name, (labels, _) in given.items() if labels is None]:
            what, remedy = (
                "scores without labels have no coordinates",
                "pass the labels of the groups, one for each item",
            )
            raise bad_argument(what, "by", unlabelled[0], "an array of labels", remedy)
        alignment.common_labels(
            {"score": score, "label": label} | {f"by={name!r}": one for name, (one, _) in given.items()}
        )
        labelled = {
            name: (_one_label_each(labels, name, [n_items]), grouper) for name, (labels, grouper) in given.items()
        }
        return combined({name: factorized(labels, name, grouper) for name, (labels, grouper) in labelled.items()})
    dims = tuple(one for one in alignment.named_dimensions(dim) if one in score.dims)
    # The coordinates of the labels serve, too, and the scores themselves are not needed.
    items = score.variable.copy(data=np.broadcast_to(np.int8(0), score.shape))
    dataset = xr.Dataset({"score": items}, {**getattr(label, "coords", {}), **score.coords})
    names, coords = groups_along(dataset, by, dims, "")
    return groups_of(alignment.with_items(dataset, dims).assign_coords(coords), names)
