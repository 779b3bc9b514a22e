"""Scores of every kind, with their labels, weights and clusters, as score data sets: the way in for all functions."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

import numpy as np
import pandas as pd
import xarray as xr

from aucpr_dask.errors import (
    ColumnWarning,
    InvalidInputError,
    bad_argument,
    brief,
    clash,
    did_you_mean,
    few,
    refuse_unexpected,
    warn,
)
from aucpr_dask.evaluation import alignment
from aucpr_dask.evaluation.groups import along_queries, groups_along, parted, without_labels
from aucpr_dask.schema import choices, terms
from aucpr_dask.schema.checks import is_dask
from aucpr_dask.schema.choices import Arrays, Inputs, Labels
from aucpr_dask.schema.terms import ITEM, MODEL, QUERY
from aucpr_dask.scores import validate

if TYPE_CHECKING:
    from zarr.abc.store import Store

_Asked = ParamSpec("_Asked")
_Answer = TypeVar("_Answer")
_OfOne = TypeVar("_OfOne", covariant=True)
_OfMany = TypeVar("_OfMany", covariant=True)
DATA_SETS = xr.Dataset | xr.DataTree | terms.Nodes


class TakesArrays(Protocol[_Asked, _OfOne, _OfMany]):
    """A function of a tree, of a data set, of either, of arrays, or of arrays with labels behind them."""

    @overload
    def __call__(self, data: xr.DataTree, /, *arguments: _Asked.args, **options: _Asked.kwargs) -> _OfMany: ...
    @overload
    def __call__(self, data: xr.Dataset, /, *arguments: _Asked.args, **options: _Asked.kwargs) -> _OfOne: ...
    @overload
    def __call__(
        self, data: xr.Dataset | xr.DataTree, /, *arguments: _Asked.args, **options: _Asked.kwargs
    ) -> _OfOne | _OfMany: ...
    @overload
    def __call__(self, data: Arrays, /, *arguments: _Asked.args, **options: _Asked.kwargs) -> _OfOne: ...
    @overload
    def __call__(self, data: Arrays, label: Labels, /, *arguments: _Asked.args, **options: _Asked.kwargs) -> _OfOne: ...


@overload
def takes_arrays(
    function: Callable[Concatenate[Any, _Asked], terms.Scores],
) -> TakesArrays[_Asked, xr.Dataset, terms.Scores]: ...
@overload
def takes_arrays(
    function: Callable[Concatenate[Any, _Asked], _Answer],
) -> TakesArrays[_Asked, _Answer, _Answer]: ...
def takes_arrays(function: Callable[..., Any]) -> Any:
    """Let a function of score data sets take all that :func:`scores_of` makes one of; the labels come second."""
    plain = inspect.signature(function)
    first, *own = plain.parameters.values()
    kinds = inspect.Parameter
    variadic = own[-1:] if own and own[-1].kind is kinds.VAR_KEYWORD else []
    own = [one for one in own if one not in variadic]
    has_label = "label" in plain.parameters
    added = [
        kinds(name, kinds.KEYWORD_ONLY, default=ITEM if name == "dim" else None, annotation="Any")
        for name in Inputs.__annotations__
        if name not in plain.parameters
    ]
    positional = [one for one in own if one.kind is not kinds.KEYWORD_ONLY]
    shown = [first, *positional, *added, *(one for one in own if one not in positional), *variadic]
    known = choices.names_taken(function) | {one.name for one in added}

    @functools.wraps(function)
    def with_arrays(*arguments: Any, **options: Any) -> Any:
        refuse_unexpected(function, options, known)
        given = {name: options.pop(name) for name in Inputs.__annotations__ if name in options}
        if not arguments and first.name in options:
            arguments = (options.pop(first.name),)
        if not arguments:
            return function(**options)  # which says what is missing
        data, *others = arguments
        if "label" not in given and others and not _is_no_label(others[0], data, has_label=has_label):
            given["label"] = others.pop(0)
            _refuse_three_arrays(data, given["label"], others)
        others = [None, *others] if has_label else others
        dims = alignment.named_dimensions(given.get("dim", ITEM))
        if dims != (ITEM,) and others and positional[0].name == "by":  # before the items are laid out along one
            options["by"] = others.pop(0)
        whole, by = scores_of(data, by=options.get("by"), **given)
        options |= {} if by is None else {"by": by}
        data = terms.without_levels_of(whole)
        try:
            answer = _with_coordinates(function(data, *others, **options), data)
            if data is whole or not isinstance(answer, DATA_SETS):
                return answer
            return terms.map_nodes(answer, lambda _, node: terms.with_levels(node))
        except InvalidInputError as error:  # about the dimensions as they are called
            if dims == (ITEM,):
                raise
            unchunked = repr(dict.fromkeys(dims, -1))
            raise error.with_names({f"{{{ITEM!r}: -1}}": unchunked, repr(ITEM): ", ".join(map(repr, dims))}) from error

    with_arrays.__signature__ = plain.replace(parameters=shown)  # type: ignore[attr-defined]
    with_arrays.__doc__ = _with_added(function.__doc__, [one.name for one in added])
    return with_arrays


def _with_coordinates(answer: Any, data: Any) -> Any:
    """Return an answer about data sets with the coordinates of these."""
    if not isinstance(answer, DATA_SETS) or not isinstance(data, DATA_SETS):
        return answer
    nodes = dict(terms.nodes_of(data))
    if isinstance(answer, xr.Dataset):
        return terms.with_coordinates(answer, list(nodes.values()))
    known = dict(terms.nodes_of(answer))
    found = {path: terms.with_coordinates(node, [nodes[path]]) for path, node in known.items()}
    # To make a tree of thousands takes seconds.
    return answer if all(found[path] is known[path] for path in known) else terms.gathered(answer, found)


def _with_added(text: str | None, names: Sequence[str]) -> str | None:
    """Return a docstring with the parameters that a function takes besides those that it lists."""
    head, end, rest = (text or "").partition("\n\n    Returns\n")
    own = head.partition("    ----------\n")[2]
    listed = set(re.findall(r"\w+", " ".join(re.findall(r"^    (\w[^:\n]*)", own, flags=re.MULTILINE))))
    if not end or not (unlisted := [name for name in names if name not in listed]):
        return text
    told = f"\n    {', '.join(unlisted)}\n        What goes with arrays of scores, as in :func:`aucpr_dask.evaluate`."
    head, mark, options = head.partition("\n    **options\n")
    return head + told + mark + options + end + rest


def keeps_trees(function: TakesArrays[_Asked, _OfOne, Any]) -> TakesArrays[_Asked, _OfOne, xr.DataTree]:
    """Say to type checkers that a function returns a tree of a tree."""
    return function


def _is_no_label(value: Any, data: Any, *, has_label: bool) -> bool:
    """Whether what stands behind data sets names estimators or baselines, as numbers may where labels are known."""
    if value is None and has_label:
        return False
    if not isinstance(data, DATA_SETS):
        return False
    known = {"label", "positive_weight", "estimate"}
    has_labels = not has_label and all(known & set(node.data_vars) for _, node in terms.nodes_of(data))
    return has_labels or not getattr(value, "ndim", 0) or getattr(getattr(value, "dtype", None), "kind", "") in "OUT"


def _refuse_three_arrays(data: Any, label: Any, others: Sequence[Any]) -> None:
    """Raise if the labels follow two arrays of scores, as in functions that compare just two."""
    shapes = [getattr(one, "shape", ()) for one in (data, label, *others[:1])]
    if len(shapes) == 3 and shapes[0] and len(set(shapes)) == 1:
        what, received = "these are three arrays: scores of several models have names", f"shape {shapes[0]} of each"
        remedy = 'name the models: {"old": a, "new": b}, labels'
        raise InvalidInputError(what, "the first three arguments", received, "scores, then labels", remedy)


def scores_of(
    scores: Any,
    label: Any = None,
    *,
    dim: Any = ITEM,
    by: Any = None,
    clusters: Any = None,
    weight: Any = None,
    pos_label: Any = None,
    keeps: bool = False,
) -> tuple[Any, Any]:
    """Return scores of any kind as data sets whose items lie along one dimension, and the names of their groups.

    Parameters
    ----------
    scores : Dataset, DataTree, DataArray, mapping of names to arrays, data frame with a column for each model, or array
        Arrays have `label` next to them: DataArrays are matched by name and label, pandas objects by their index,
        others by position. A data set holds its labels. A result is returned as it is.
    dim : str or sequence of str
        The dimensions of the items; with several, all their items are ranked together.
    by, clusters, weight
        Groups of items, items that depend on each other, and weights: names of coordinates, DataArrays over some of
        the dimensions of the items, or arrays with a value for each item.
    pos_label : object, optional
        The label of positives, where labels are names of two classes or other numbers than 1 and 0.
    keeps : bool
        Whether to keep the coordinates of items by their names, for each item.
    """
    refuse_path(scores)
    dims = alignment.named_dimensions(dim)
    if pos_label is not None:
        if label is not None:
            label = _is_class(label, pos_label, "argument 'label'")
        elif isinstance(scores, DATA_SETS):
            scores = terms.map_nodes(scores, lambda path, node: _with_positives(node, pos_label, path))
    extra: Mapping[str, Any] = {"clusters": clusters, "weight": weight}
    if not isinstance(scores, DATA_SETS):
        scores, extra, by = _data_set(scores, label, extra, by, dims)
        dims = (ITEM,) if "score" in scores and ITEM in scores["score"].dims and len(dims) == 1 else dims
    elif label is not None:
        what, remedy = "a data set holds its labels", "leave out the labels, or pass scores['score'], labels"
        if isinstance(scores, xr.Dataset) and "score" not in scores:
            remedy = f"make its variables models: scores[{[*scores.data_vars]!r}].to_dataarray('model'), labels"
        given = {"scores": type(scores).__name__, "label": type(label).__name__}
        raise clash(what, remedy, "the variables 'score' and 'label'", **given)
    if any(map(_text_of_pandas, getattr(scores, "subtree", [scores]))):
        scores = terms.map_nodes(scores, lambda path, node: node.assign_coords(_text_of_pandas(node)))
    is_given = any(value is not None for value in extra.values())
    if not is_given and dims == (ITEM,) and by is None:
        return scores, None
    nodes = dict(terms.nodes_of(scores))
    if nodes and not any("score" in node for node in nodes.values()):
        if is_given or dims != (ITEM,):
            what, remedy = "these have no meaning for a result, which is evaluated already", "pass the scores"
            raise clash(what, remedy, "scores", dim=dim, clusters=clusters, weight=weight)
        return scores, by
    found = {path: _prepared(node, dims, by, extra, path, keeps=keeps) for path, node in validate.checked_nodes(scores)}
    names = next((names for _, names in found.values()), None)
    return terms.gathered(scores, {path: node for path, (node, _) in found.items()}), names


def _text_of_pandas(node: xr.Dataset | xr.DataTree) -> dict[str, Any]:
    """Return as NumPy's the text of pandas 3, which xarray takes as it is and then cannot select of."""
    of_pandas = {str(name): one for name, one in node.variables.items() if isinstance(one.dtype, pd.StringDtype)}
    return {name: (one.dims, np.asarray(one.values, object), one.attrs) for name, one in of_pandas.items()}


def _with_positives(dataset: xr.Dataset, pos_label: Any, path: str) -> xr.Dataset:
    if "label" not in dataset:
        return dataset
    return dataset.assign(label=_is_class(dataset["label"], pos_label, validate.where_of(path, "label")))


def _is_class(label: Any, pos_label: Any, where: str) -> Any:
    """Return labels as 1 for those of one class and 0 for the others, with the names that they carry."""
    if isinstance(label, xr.Dataset | xr.DataTree):
        what, remedy = "labels are one array", "name the variable that holds them: dataset['label']"
        raise bad_argument(what, "label", label, "an array", remedy)
    values = label if isinstance(label, xr.DataArray | pd.Series) else np.asarray(label)
    found = validate.are_of_class(values, pos_label, where)
    if not np.asarray(found).any():
        raise validate.not_a_class(pos_label, where, np.asarray(values))
    return found


def _prepared(
    dataset: xr.Dataset, dims: tuple[str, ...], by: Any, extra: Mapping[str, Any], path: str, *, keeps: bool
) -> tuple[xr.Dataset, Any]:
    """Return one data set with its clusters and weights, its items along one dimension, and the names of groups."""
    if "score" not in dataset:
        return dataset, by  # and validation says what is missing
    dims = validate.dims_of_items(dataset, dims, path)
    for option, role in (("clusters", "cluster"), ("weight", "weight")):
        if extra[option] is not None:
            if role in dataset:
                what, remedy = f"the scores have a variable {role!r}", f"scores.drop_vars({role!r}), or leave it out"
                raise bad_argument(what, option, extra[option], f"scores without {role!r}", remedy)
            dataset = dataset.assign({role: along_scores(extra[option], option, dataset, dims, path)})
    of_queries, of_items = along_queries(dataset, by)
    names, coords = ((), {}) if of_items is None else groups_along(dataset, of_items, dims, path)
    dataset = alignment.with_items(dataset, dims, keeps=keeps, named=dict(names))
    return dataset.assign_coords(coords), (*of_queries, *names) or None


def along_scores(values: Any, option: str, dataset: xr.Dataset, dims: tuple[str, ...], path: str = "") -> xr.Variable:
    """Return clusters or weights, given with scores, over dimensions of these."""
    score = dataset["score"]
    if isinstance(values, str):
        try:
            values = dataset[values]
        except (KeyError, AttributeError, TypeError):
            known = [str(name) for name in dataset.coords if set(dataset[name].dims) & set(dims)]
            what, remedy = f"there is no coordinate {brief(values)}", did_you_mean(values, known, "give an array")
            where, allowed = (
                f"{validate.where_of(path)}, argument {option!r}",
                few(known) or "arrays: these scores have none",
            )
            raise InvalidInputError(what, where, brief(values), allowed, remedy) from None
    if isinstance(values, xr.DataArray):
        if not values.dims or not set(values.dims) <= set(score.dims):
            received = f"({', '.join(map(str, values.dims))})"
            remedy = "give it over some of these dimensions"
            allowed = f"dimensions among {', '.join(map(str, score.dims))}"
            raise bad_argument(f"{option} have another dimension than the scores", option, received, allowed, remedy)
        validate.check_same_labels(score, values, ("score", option))
        named = {} if values.name is None else {"long_name": str(values.name)}
        return values.variable._replace(attrs=named | values.attrs)
    array = alignment.as_array(values, option)
    own = dims if option == "weight" or QUERY not in score.dims else (QUERY,)  # queries are clustered whole
    like = next((dataset[name] for name in ("label", "positive_weight") if name in dataset), score)
    if array.ndim > 1 and option == "weight":
        own = tuple(map(str, like.dims))
    expected = tuple(score.sizes[dim] for dim in own)
    if array.shape != expected:
        what, received = f"{option} and the labels differ in shape", f"shape {array.shape}"
        allowed, remedy = f"shape {expected}, over ({', '.join(own)})", "give one value for each item, or a DataArray"
        raise InvalidInputError(what, f"argument {option!r}", received, allowed, remedy)
    alignment.refuse_other_order(values, dataset.indexes.get(own[-1]), expected[-1], option)
    return xr.Variable(own, array)


def save_scores(
    scores: Any,
    store: str | Path | Store,
    *,
    label: Any = None,
    dim: str | Sequence[str] = ITEM,
    clusters: Any = None,
    weight: Any = None,
    pos_label: Any = None,
    overwrite: bool = False,
    models_per_chunk: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write a score data set, or a tree of them, to a Zarr store.

    The item axis is kept whole, unless a ranking is larger than a chunk and comes in several; then its chunks stay.
    Models (and queries) are split into chunks of about 32 MiB. The store also holds, for every ranking, the number of
    missing scores, which later runs check before they read, and a digest, by which they recognise what they have
    already evaluated. An interrupted write leaves a store that refuses to open.

    Parameters
    ----------
    scores : xarray.Dataset, xarray.DataTree, or arrays
        NumPy- or Dask-backed: all that :func:`aucpr_dask.evaluate` takes.
    store : str, Path or zarr.abc.store.Store
        Where to write.
    label, dim, clusters, weight, pos_label
        What goes with arrays of scores, as in :func:`aucpr_dask.evaluate`.
    overwrite : bool
        Whether to replace a store at `store`.
    models_per_chunk : int, optional
        For chunks of less than 32 MiB: a run holds one chunk in memory, with all replicates of its models.
    on_progress : callable, optional
        Called with (chunks written, chunks in total).

    Examples
    --------
    >>> import tempfile, xarray as xr, aucpr_dask as ap
    >>> scores = xr.Dataset({"score": (("model", "item"), [[0.9, 0.1]]), "label": ("item", [1, 0])}, {"model": ["a"]})
    >>> store = tempfile.mkdtemp() + "/scores.zarr"
    >>> ap.save_scores(scores, store)
    >>> ap.open_scores(store)["score"].values
    array([[0.9, 0.1]])
    """
    from aucpr_dask.scores.store import write_scores  # with Zarr, which scores in memory do without

    given: dict[str, Any] = {"dim": dim, "clusters": clusters, "weight": weight, "pos_label": pos_label}
    found, _ = scores_of(scores, label, **given, keeps=True)
    write_scores(found, store, overwrite=overwrite, models_per_chunk=models_per_chunk, on_progress=on_progress)


# Arrays


def _data_set(
    scores: Any, label: Any, extra: Mapping[str, Any], by: Any, dims: tuple[str, ...]
) -> tuple[xr.Dataset, Mapping[str, Any], Any]:
    """Return arrays of scores and labels as a data set; and the clusters and weights, without labels of their own."""
    columns = alignment.columns_of(scores) if alignment.is_table(scores) else None
    no_columns = columns is not None and not columns
    if scores is None or no_columns or (isinstance(scores, Mapping) and not scores):
        what, remedy = "there are no scores", 'give at least one: {"model": scores}'
        received = "None" if scores is None else "a table without columns" if no_columns else "an empty mapping"
        raise InvalidInputError(what, "the first argument", received, "names of models, with arrays", remedy)
    if label is None or isinstance(label, str):
        what, remedy = (
            "labels are needed next to the scores",
            'give them behind the scores: ({"model": scores}, labels)',
        )
        if columns is not None:
            column = repr(label) if label in columns else "..."
            what += ": name the columns of this table"
            remedy = f"ap.from_dataframe(frame, label={column}, models=[...]); or pass frame[[...]], labels; "
            remedy += "if these are values of models on tasks, ap.from_values(frame)"
        raise InvalidInputError(what, "the second argument", brief(label), "1 positive, 0 negative", remedy)
    scores = scores if columns is None else columns
    named = dict(scores) if isinstance(scores, Mapping) else {None: scores}
    alignment.refuse_same_names(list(named))
    if any(isinstance(one, xr.DataArray) for one in (*named.values(), label)):
        return _of_labelled(named, label, dims), extra, by
    return _of_plain(named, label, extra, by)


def refuse_path(data: Any) -> None:
    """Raise if a path is given in place of data, which only commands open by themselves."""
    if isinstance(data, str | Path):
        remedy = f"open it: ap.open_scores({str(data)!r}) or ap.open_result({str(data)!r})"
        if Path(data).suffix in (".csv", ".tsv", ".parquet", ".feather", ".jsonl"):
            remedy = "read it with pandas or polars: ap.from_dataframe(frame, label=...)"
        what = f"this is a path, not scores or a result: {brief(str(data))}"
        raise InvalidInputError(what, "the first argument", type(data).__name__, "data, in memory or lazy", remedy)


def _of_labelled(named: Mapping[Any, Any], label: Any, dims: tuple[str, ...]) -> xr.Dataset:
    """Return DataArrays of scores and labels, matched by name and label, as a data set."""
    arrays = {name: _labelled(one, f"scores of {name!r}" if name else "scores", dims) for name, one in named.items()}
    label = _labelled(label, "label", dims)
    first = next(iter(arrays.values()))
    for name, one in arrays.items():
        if name is not None and (MODEL in one.dims or set(one.dims) != set(first.dims)):
            what, received = f"scores of {name!r} have other dimensions", f"({', '.join(map(str, one.dims))})"
            allowed = "the dimensions of the first model, without 'model'"
            remedy = "broadcast or select first; scores of several models are one DataArray with the dimension 'model'"
            raise InvalidInputError(what, "the first argument", received, allowed, remedy)
        validate.check_same_labels(first, one, (str(next(iter(arrays))), str(name)))
    score = first
    if None not in arrays:
        models = xr.Variable(MODEL, np.array(list(map(str, arrays)), object))
        alike = [one.drop_vars(MODEL, errors="ignore").transpose(*first.dims) for one in arrays.values()]
        score = xr.concat(alike, models, join="exact", coords="minimal", compat="override", combine_attrs="drop")
    if strange := [str(dim) for dim in label.dims if dim not in score.dims]:
        what, allowed = f"'label' has the dimension {strange[0]!r}, which the scores lack", "dimensions of the scores"
        sizes = [
            str(dim) for dim in score.dims if score.sizes[dim] == label.sizes[strange[0]] and dim not in label.dims
        ]
        remedy = f"select from it: label.isel({strange[0]}=0)"
        remedy = f"give both one name: label.rename({strange[0]}={sizes[0]!r})" if sizes else remedy
        raise InvalidInputError(what, "argument 'label'", f"({', '.join(map(str, label.dims))})", allowed, remedy)
    validate.check_same_labels(score, label, ("score", "label"))
    alignment.refuse_swapped(score.data, label.data)
    coords = {name: one for name, one in label.coords.items() if name not in score.coords and name not in score.dims}
    coords |= {dim: one for dim, one in label.coords.items() if dim in score.dims and dim not in score.coords}
    return xr.Dataset({"score": score.variable, "label": label.variable}, {**coords, **score.coords})


def _labelled(array: Any, name: str, dims: tuple[str, ...]) -> xr.DataArray:
    """Return a DataArray with scores of a float type; one without names of dimensions is along the items."""
    if not isinstance(array, xr.DataArray):
        plain = alignment.as_array(array, name)
        if plain.ndim != 1 or len(dims) > 1:
            what, allowed = f"{name} are no DataArray, and others are", "DataArrays, which are matched by name"
            remedy = f"name the models: {{'a': a, 'b': b}}; or dimensions: xr.DataArray(..., dims=[..., {dims[-1]!r}])"
            raise InvalidInputError(what, "the arrays", type(array).__name__, allowed, remedy)
        index = alignment.labels_of_items(array)
        array = xr.DataArray(plain, {} if index is None else {dims[0]: index}, dims[:1])
    validate.refuse_lazy(array.data, name)
    labelled: xr.DataArray = array if name == "label" else array.copy(data=validate.float_scores(array.data, name))
    return labelled


def _of_plain(
    named: Mapping[Any, Any], label: Any, extra: Mapping[str, Any], by: Any
) -> tuple[xr.Dataset, dict[str, Any], Any]:
    """Return arrays of scores and labels, matched by the index of pandas objects or by position, as a data set."""
    if isinstance(label, Mapping | pd.DataFrame):
        what, received = "the labels are one array; scores come first, then labels", type(label).__name__
        raise InvalidInputError(what, "the first two arguments", received, "scores, labels", "swap the two")
    labels = alignment.as_array(label, "the labels")
    of_groups = [] if by is None else parted(by, labels.shape[-1] if labels.ndim else 0)
    given = {"the scores" if name is None else str(name): one for name, one in named.items()}
    extra_of_items = {name: one for name, one in extra.items() if labels.ndim == 1 or name == "weight"}
    labels_of_groups = {f"by={name!r}": one for name, one, _ in of_groups}
    index = alignment.common_labels({**given, "the labels": label, **extra_of_items, **labels_of_groups})
    arrays = {
        name: validate.float_scores(alignment.as_array(one, name), f"model {name!r}") for name, one in given.items()
    }
    first = next(iter(arrays.values()))
    dims = terms.DEFAULT_DIMS.get(first.ndim if None in named else labels.ndim + 1, ())
    for array in arrays.values():
        alignment.refuse_swapped(array, labels)
    if not 0 < labels.ndim <= len(dims):
        what, allowed = "arrays without names of dimensions have too many or none", "labels (item) or (query, item)"
        received = f"scores of shape {first.shape}, labels of shape {labels.shape}"
        remedy = "name the dimensions: DataArrays may have any"
        raise InvalidInputError(what, "the first two arguments", received, allowed, remedy)
    for name, array in arrays.items():
        own = array.shape if None not in named else array.shape[-labels.ndim :]
        if own != labels.shape:
            raise alignment.mispositioned(
                name if name == "the scores" else f"scores of {name!r}", array.shape, labels.shape
            )
    if None not in named:
        _warn_of_other_columns(given, labels)
    if None in named:
        score = first
    elif any(map(is_dask, arrays.values())):
        import dask.array as da

        score = da.stack(list(arrays.values()))
    else:
        score = np.stack(list(arrays.values()))
    if not is_dask(labels) and labels.size and labels.dtype.kind in "iub" and not (labels > 0).any():
        warn("no item is positive, so no area is defined: are these the labels, and is 1 the positive one?")
    variables = {"score": (dims, score)}
    variables["label"] = dims[-labels.ndim :], labels
    coords = {} if None in named else {MODEL: terms.of_fixed_width(np.array(list(given), object))}
    if index is not None and not isinstance(index, pd.RangeIndex | pd.MultiIndex) and index.is_unique:
        coords[ITEM] = np.asarray(index)
    plain = {
        name: one if one is None or isinstance(one, str) else alignment.as_array(one, name)
        for name, one in extra.items()
    }
    unlabelled = {name: without_labels(one) for name, one, _ in of_groups}
    groupers = {name: grouper for name, _, grouper in of_groups if grouper is not None}
    return xr.Dataset(variables, coords), plain, None if by is None else unlabelled | groupers


def _warn_of_other_columns(given: Mapping[str, Any], labels: Any) -> None:
    """Warn of models that hold the labels, or whole numbers where others have a fraction."""
    arrays = {name: np.asarray(one) for name, one in given.items() if not is_dask(one)}
    whole = {name: one for name, one in arrays.items() if one.dtype.kind in "biu"}
    if are_labels := [name for name, one in whole.items() if np.array_equal(one, labels)]:
        warn(f"{few(are_labels)}: these scores are the labels themselves; leave them out", ColumnWarning)
    counts = [name for name, one in whole.items() if one.size and int(one.max()) - int(one.min()) > 1]
    if counts and any(one.dtype.kind == "f" for one in arrays.values()):
        warn(
            f"{few(counts)}: whole numbers, unlike the other scores; leave out columns that are not models",
            ColumnWarning,
        )
