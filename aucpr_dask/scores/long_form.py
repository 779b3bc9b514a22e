"""Data sets and queries as coordinates along the items of one data set, and back to a tree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from aucpr_dask.errors import AlignmentError, InvalidInputError, did_you_mean, few
from aucpr_dask.schema import checks, terms
from aucpr_dask.scores.validate import validated_scores

DATASET = "dataset"


def to_long(scores: terms.Scores, by: str = DATASET) -> xr.Dataset:
    """Put the data sets of a tree into one, with their names along the items.

    Queries become a coordinate too, without their padding. Evaluated ``by=`` these coordinates, the numbers are
    bit-for-bit those of the tree.

    Parameters
    ----------
    scores : xarray.DataTree or xarray.Dataset
        Score data sets of the same models.
    by : str
        The name of the coordinate.

    Returns
    -------
    xarray.Dataset

    Raises
    ------
    InvalidInputError
        If some data sets have variables that others lack, or what lies along no item, such as ``n_positive``; or
        anything of the name `by`.
    AlignmentError
        If the models differ.

    Examples
    --------
    >>> import xarray as xr, aucpr_dask as ap
    >>> one = xr.Dataset({"score": (("model", "item"), [[0.9, 0.1]]), "label": ("item", [1, 0])}, {"model": ["a"]})
    >>> tree = xr.DataTree.from_dict({"north": one, "south": one})
    >>> ap.to_long(tree)["dataset"].values.tolist()
    ['north', 'north', 'south', 'south']
    """
    by = checks.text(by, "by")
    parts = {path: _flat(path, node) for path, node in terms.nodes_of(validated_scores(scores, positive_from=0))}
    first_path, first = next(iter(parts.items()))
    if by in first.variables or by in first.dims:
        what, remedy = "the data sets have something of this name", "choose another name: by=..."
        raise InvalidInputError(what, "argument 'by'", repr(by), "a name that none of them has", remedy)
    named = []
    for path, part in parts.items():
        if not part.get_index(terms.MODEL).equals(first.get_index(terms.MODEL)):
            what, remedy = "these data sets have different models", "select the models that all of them have"
            received = f"{few(part[terms.MODEL].values.tolist())}; {few(first[terms.MODEL].values.tolist())}"
            raise AlignmentError(what, f"data sets {first_path!r} and {path!r}", received, "the same models", remedy)
        if odd := set(part.variables) ^ set(first.variables):
            what, received = "only some data sets have these variables", few(map(repr, sorted(map(str, odd))))
            where, remedy = f"data sets {first_path!r} and {path!r}", "drop them, or add them to all"
            raise InvalidInputError(what, where, received, "the same variables in all", remedy)
        named.append(part.assign_coords({by: (terms.ITEM, np.full(part.sizes[terms.ITEM], path, object))}))
    items = [name for part in named for name in part.indexes.get(terms.ITEM, ())]
    if len(set(items)) < len(items):  # as (data set, item); their order within a data set stays
        named = [
            part.assign_coords({terms.ITEM: [f"{path}/{name}" for name in part.get_index(terms.ITEM)]})
            for path, part in zip(parts, named, strict=True)
        ]
    return xr.concat(named, terms.ITEM, data_vars="minimal", coords="minimal", combine_attrs="drop_conflicts")


def _flat(path: str, node: xr.Dataset) -> xr.Dataset:
    """Return a data set whose queries are a coordinate along the items."""
    node = node.drop_vars(("n_missing", "digest"), errors="ignore")
    dims, of_queries = (terms.QUERY, terms.ITEM), {"cluster": (terms.QUERY,), "fold": (terms.QUERY,)}
    without = {str(name): one.dims for name, one in node.data_vars.items() if terms.ITEM not in one.dims}
    if misplaced := [name for name, own in without.items() if own != of_queries.get(name)]:
        what, received = "this does not lie along the items", few(map(repr, misplaced))
        where, remedy = f"data set {path!r}" if path else "the scores", f"drop_vars({misplaced})"
        raise InvalidInputError(what, where, received, "variables along the items", remedy)
    if terms.QUERY not in node.dims:
        return node
    query = node.get_index(terms.QUERY)
    node = node.assign_coords({terms.QUERY: query})
    node = node.broadcast_like(node["score"], exclude=[dim for dim in node.dims if dim not in dims])
    node = node.drop_vars(terms.ITEM, errors="ignore").stack(place=dims, create_index=False)
    node = node.rename(place=terms.ITEM).transpose(..., terms.ITEM)
    node = node.assign_coords({terms.QUERY: (terms.ITEM, np.repeat(query, node.sizes[terms.ITEM] // len(query)))})
    if "label" not in node:
        return node
    is_item = node["label"] != terms.PADDING
    return node.isel({terms.ITEM: np.flatnonzero(is_item.any([dim for dim in is_item.dims if dim != terms.ITEM]))})


def to_tree(scores: terms.Scores, by: str = DATASET) -> xr.DataTree:
    """Make each group of items of one data set a data set of a tree.

    Parameters
    ----------
    scores : xarray.Dataset
        Scores with a coordinate along the items.
    by : str
        The name of the coordinate.

    Returns
    -------
    xarray.DataTree
        In the order of the names; the coordinate is dropped.

    Raises
    ------
    InvalidInputError
        If there is no such coordinate, or a label cannot be the name of a data set.

    Examples
    --------
    >>> import xarray as xr, aucpr_dask as ap
    >>> scores = xr.Dataset(
    ...     {"score": (("model", "item"), [[0.9, 0.1, 0.8, 0.2]]), "label": ("item", [1, 0, 0, 1])},
    ...     coords={"model": ["a"], "dataset": ("item", ["north", "north", "south", "south"])},
    ... )
    >>> ap.to_tree(scores)["south"]["label"].values.tolist()
    [0, 1]
    """
    by = checks.text(by, "by")
    if not isinstance(scores, xr.Dataset):
        remedy = "to_long makes one of a tree"
        raise InvalidInputError("this is no data set", "argument 'scores'", type(scores).__name__, "a Dataset", remedy)
    if by not in scores.variables or scores[by].dims != (terms.ITEM,):
        along = [str(name) for name in scores.coords if scores[name].dims == (terms.ITEM,)]
        remedy = did_you_mean(by, along, "name a coordinate along the items: by=...")
        what = "there is no such coordinate of the items"
        raise InvalidInputError(what, "argument 'by'", repr(by), few(along), remedy)
    codes, names = pd.factorize(pd.Index(scores[by].values), sort=True, use_na_sentinel=False)
    nodes: dict[str, Any] = {}
    for number, name in enumerate(map(str, names)):
        for word in name.split("/"):
            terms.check_node_name(word, f"argument 'by', label of {by!r}")
        node = scores.isel({terms.ITEM: np.flatnonzero(codes == number)}).drop_vars(by)
        own = [str(one) for one in node.indexes.get(terms.ITEM, ())]
        if own and all(one.startswith(f"{name}/") for one in own):
            node = node.assign_coords({terms.ITEM: [one.removeprefix(f"{name}/") for one in own]})
        nodes[name] = node
    return xr.DataTree.from_dict(nodes)
