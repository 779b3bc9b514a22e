"""One data set or a tree of them: scores, or results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import xarray as xr

from aucpr_dask.errors import InvalidInputError, few
from aucpr_dask.schema.checks import did_you_mean

Scores = xr.Dataset | xr.DataTree


def nodes_of(scores: Scores) -> Iterator[tuple[str, xr.Dataset]]:
    """Yield (path, Dataset) for the Dataset itself (path "") or for each node of a DataTree that holds data."""
    if isinstance(scores, xr.Dataset):
        yield "", scores
        return
    for node in scores.subtree:
        if node.data_vars:
            yield node.path.strip("/"), node.to_dataset()


def select_data_sets(data: Scores, names: Sequence[str] | None) -> Scores:
    """Return a tree of the named data sets; without names, all that there is.

    Raises
    ------
    InvalidInputError
        If there is no such data set.
    """
    if not names:
        return data
    nodes = dict(nodes_of(data))
    unknown = [name for name in names if name not in nodes or not name]
    if unknown:
        allowed = few(map(repr, nodes)) if "" not in nodes else "none: it has one data set without a name"
        remedy = did_you_mean(unknown[0], nodes, "leave out --data-set, or name another")
        raise InvalidInputError(
            "there is no such data set in this store", None, few(map(repr, unknown)), allowed, remedy
        )
    return xr.DataTree.from_dict({name: nodes[name] for name in dict.fromkeys(names)})


def map_nodes(scores: Scores, transform: Callable[[str, xr.Dataset], Any]) -> Scores:
    """Apply ``transform(path, dataset)`` to each node and return the same kind of object."""
    return gathered(scores, {path: transform(path, dataset) for path, dataset in nodes_of(scores)})


def gathered(like: Scores, nodes: Mapping[str, xr.Dataset]) -> Scores:
    """Return data sets by path as the kind of object that `like` is: one data set, or a tree."""
    if isinstance(like, xr.Dataset):
        return nodes[""]
    try:
        return xr.DataTree.from_dict(nodes)
    except KeyError as error:
        what = "a data set inside another has the name of one of its variables"
        raise InvalidInputError(what, None, error.args[0], None, "rename it") from error
