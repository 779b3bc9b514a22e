"""Arrays of scores by the names of their models, next to labels, as a score data set."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, Protocol, TypeVar, cast, overload

import numpy as np
import pandas as pd
import xarray as xr

from aucpr_dask.errors import InvalidInputError, brief, clash
from aucpr_dask.evaluation.alignment import as_array, common_labels, mispositioned, refuse_swapped
from aucpr_dask.schema.checks import check_labels, is_dask
from aucpr_dask.schema.terms import ITEM, MODEL, QUERY
from aucpr_dask.scores.validate import float_scores

_Asked = ParamSpec("_Asked")
_Answer = TypeVar("_Answer", covariant=True)
OWN = ("clusters", "weight")  # what such a call gives next to the labels


class TakesArrays(Protocol[_Asked, _Answer]):
    """A function of data sets, or of arrays by the names of their models with labels behind them."""

    @overload
    def __call__(self, *arguments: _Asked.args, **options: _Asked.kwargs) -> _Answer: ...
    @overload
    def __call__(self, data: Mapping[str, Any], label: Any, /, *arguments: Any, **options: Any) -> _Answer: ...
    @overload
    def __call__(self, data: Mapping[str, Any], /, *, label: Any, **options: Any) -> _Answer: ...


def takes_arrays(function: Callable[_Asked, _Answer]) -> TakesArrays[_Asked, _Answer]:
    """Let a function of score data sets take a mapping of names to arrays of scores, with labels behind it."""
    plain = inspect.signature(function)
    *own, last = plain.parameters.values()
    first = own[0]
    added = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Any) for name in OWN]
    options = [last] if last.kind is inspect.Parameter.VAR_KEYWORD else []
    shown = [*own, *([] if options else [last]), *added, *options]

    @functools.wraps(function)
    def with_arrays(*arguments: Any, **options: Any) -> Any:
        given = {name: options.pop(name, None) for name in OWN}
        if not arguments and first.name in options:
            arguments = (options.pop(first.name),)
        if not arguments:
            return cast(Any, function)(**options)  # which says what is missing
        data, *others = arguments
        if isinstance(data, Mapping) and not isinstance(data, xr.Dataset | xr.DataTree):
            label, *others = others if "label" not in options and others else [options.pop("label", None), *others]
            return cast(Any, function)(scores_of_arrays(data, label, **given), *others, **options)
        if any(one is not None for one in given.values()):
            what = "clusters and weights next to arrays of scores"
            remedy = "in a data set, they are its variables 'cluster' and 'weight': scores.assign(...)"
            raise clash(what, remedy, "a mapping of names to arrays", **{first.name: type(data).__name__} | given)
        refuse_plain(data, function.__name__)
        return function(data, *others, **options)

    with_arrays.__signature__ = plain.replace(parameters=shown)  # type: ignore[attr-defined]
    return cast(TakesArrays[_Asked, _Answer], with_arrays)


def refuse_plain(data: Any, name: str) -> None:
    """Raise if the first argument is a data frame, or an array without a name."""
    if hasattr(data, "columns"):
        what, allowed = "this is a data frame", "a Dataset, a DataTree, or a mapping of names to arrays"
        remedy = f"make scores of its columns: ap.{name}(ap.from_dataframe(frame, label=...), ...)"
        raise InvalidInputError(what, "the first argument", type(data).__name__, allowed, remedy)
    if isinstance(data, list | tuple) or (hasattr(data, "dtype") and hasattr(data, "shape")):
        what, allowed = "these scores have no name of a model", "a Dataset, a DataTree, or a mapping of names to arrays"
        remedy = f'name them: ap.{name}({{"model": scores}}, labels); or ap.estimate(scores, labels)'
        raise InvalidInputError(what, "the first argument", type(data).__name__, allowed, remedy)


def scores_of_arrays(scores: Mapping[Any, Any], label: Any, *, clusters: Any = None, weight: Any = None) -> xr.Dataset:
    """Return a score data set of arrays (item) or (query, item) by model, all of the shape of the labels."""
    if not scores:
        remedy = 'give at least one: {"model": scores}'
        what = "there are no scores"
        raise InvalidInputError(what, "the first argument", "an empty mapping", "names of models, with arrays", remedy)
    named = {str(name): values for name, values in scores.items()} | {"the labels": label}
    named |= {name: values for name, values in (("clusters", clusters), ("weight", weight)) if values is not None}
    if label is None or len(named) < len(scores) + 1:
        what = "labels are needed next to the scores" if label is None else "two models have the same name"
        remedy = 'give them behind the scores: ({"model": scores}, labels)' if label is None else "rename one"
        raise InvalidInputError(what, "the second argument", brief(label), "1 positive, 0 negative", remedy)
    index = common_labels(named)
    arrays = {name: as_array(one.data if isinstance(one, xr.DataArray) else one, name) for name, one in named.items()}
    labels = arrays.pop("the labels")
    models = [float_scores(arrays[str(name)], f"model {name!r}") for name in scores]
    for name, array in zip(scores, models, strict=True):
        refuse_swapped(array, labels)
        if array.shape != labels.shape:
            raise mispositioned(f"scores of {str(name)!r}", array.shape, labels.shape)
    if isinstance(labels, np.ndarray) and labels.dtype.kind == "f":
        check_labels(labels, 0, "the labels")  # grades, too
        labels = labels.astype(np.int8)
    dims = (QUERY, ITEM)[2 - labels.ndim :]
    if any(map(is_dask, models)):
        import dask.array as da

        stacked: Any = da.stack(models)
    else:
        stacked = np.stack(models)
    variables = {"score": ((MODEL, *dims), stacked), "label": (dims, labels)}
    for name, role in (("clusters", "cluster"), ("weight", "weight")):
        if name in arrays:
            array = arrays[name]
            of = dims[:1] if role == "cluster" else dims
            if array.shape != labels.shape[: len(of)]:
                raise mispositioned(name, array.shape, labels.shape[: len(of)])
            variables[role] = of, _named_clusters(array) if role == "cluster" else array
    coords = {MODEL: np.array([str(name) for name in scores], object)}
    if index is not None and not isinstance(index, pd.RangeIndex | pd.MultiIndex) and index.is_unique:
        coords[ITEM] = np.asarray(index)
    return xr.Dataset(variables, coords=coords)


def _named_clusters(clusters: Any) -> Any:
    """Return clusters of any type as numbers or text."""
    clusters = np.asarray(clusters)
    return clusters if clusters.dtype.kind in "iuTU" else np.array([str(one) for one in clusters.tolist()], object)
