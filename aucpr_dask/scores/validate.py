"""Check score data sets against the variable records, before anything is computed; make labels of classes binary."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from aucpr_dask.errors import AlignmentError, InvalidInputError, bad_argument, brief, did_you_mean, few
from aucpr_dask.schema import checks, terms

KINDS = {
    "f": "floats of up to 64 bits",
    "i": "integers",
    "u": "unsigned integers",
    "b": "bool",
    "O": "objects",
    "T": "strings",
    "U": "strings of a fixed length",
}
"""What kinds of dtypes are called."""


def validated_scores(scores: terms.Scores, *, positive_from: int | None = None) -> terms.Scores:
    """Return valid score data sets: dimensions in the usual order, a label for each class where classes label items."""
    return terms.gathered(scores, dict(validated_nodes(scores, positive_from=positive_from)))


def validated_nodes(scores: terms.Stored, *, positive_from: int | None = None) -> Iterator[tuple[str, xr.Dataset]]:
    """Yield (path, data set) for each data set, as :func:`validated_scores` returns it."""
    for path, given in checked_nodes(scores):
        plain = terms.without_levels(given)
        # Some programs store weights or masks as coordinates.
        coordinates = [name for name in terms.SCORE_VARIABLES if name in plain.coords and name not in plain.indexes]
        plain = shared_by_models(path, plain.reset_coords(coordinates) if coordinates else plain)
        dataset = _with_label_of_each_class(path, in_usual_types(in_usual_order(plain), path))
        validate_dataset(dataset, path, positive_from)
        _refuse_former_grades(dataset, path)
        yield path, dataset


def validate_scores(scores: terms.Stored, *, positive_from: int | None = None) -> None:
    """Raise a clear error unless `scores` holds valid score data sets; Dask arrays are not computed."""
    for path, dataset in checked_nodes(scores):
        validate_dataset(dataset, path, positive_from)


def checked_nodes(scores: object) -> Iterator[tuple[str, xr.Dataset]]:
    """Yield (path, data set) for each data set; raise unless there is one, and all have valid names."""
    if not isinstance(scores, xr.Dataset | xr.DataTree | terms.Nodes):
        what, received = "scores must be an xarray Dataset (one data set) or DataTree (many)", type(scores).__name__
        remedy = "for arrays use aucpr_dask.estimate(score, label)"
        raise InvalidInputError(what, "the scores", received, "Dataset, DataTree", remedy)
    is_empty = True
    for path, dataset in terms.nodes_of(scores):
        is_empty = False
        for name in filter(None, path.split("/")):
            terms.check_node_name(name, "the names of data sets")
        yield path, dataset
    if is_empty:
        what, allowed = "there is no data set in this DataTree", "a tree with one or more data sets"
        remedy = "xarray.DataTree.from_dict({name: dataset}) makes one"
        raise InvalidInputError(what, "the scores", brief(scores), allowed, remedy)


def _refuse_former_grades(dataset: xr.Dataset, path: str) -> None:
    """Raise if no label has a higher grade than 1, against the counts: labels were changed since."""
    label, total = dataset.get("label"), dataset.get("n_positive")
    if label is None or total is None or terms.GRADE not in total.dims:
        return
    grades = total[terms.GRADE].values.tolist()
    # A lazy label that remembers how it is stored is as stored; what was computed from it is looked at.
    is_stored = label.chunks is not None and "chunks" in label.encoding
    if is_stored or not {1, 2} <= {*grades}:
        return
    found = xr.Dataset({"has_higher": (label > 1).any(), "ones": (label == 1).sum(terms.ITEM)}).compute()
    if found["has_higher"]:
        return
    higher = total.sel({terms.GRADE: 2}) / total.sel({terms.GRADE: 1})
    # Higher grades may stand at items that no model ranked, but hardly where many others were.
    chance = (1 - higher.fillna(0.0)) ** found["ones"]
    if float(chance.min([dim for dim in chance.dims if dim != terms.QUERY]).prod()) > 0.001:
        return
    what, where = "n_positive counts labels of several grades, and all labels are 0 or 1", where_of(path, "n_positive")
    remedy = "keep the grades and pass positive_from=; or say which of them are 1 now: "
    remedy += "scores.assign(n_positive=scores['n_positive'].sel(grade=..., drop=True))"
    received = f"grades {few(grades)} of 'n_positive'"
    raise InvalidInputError(what, where, received, "labels of these grades, or one number for each query", remedy)


def shared_by_models(path: str, dataset: xr.Dataset) -> xr.Dataset:
    """Return scores with one copy of what all models, or all repeats, have alike.

    `xarray.concat` over models or repeats repeats every variable.
    """
    others = terms.SCORE_VARIABLES.keys() - {"score", "n_missing", "digest"}
    given = {str(name): array for name, array in dataset.data_vars.items() if name in others}
    same = [name for name, one in given.items() if terms.REPEAT in one.dims and _is_repeated(one, terms.REPEAT)]
    if same:
        given |= {name: given[name].isel(repeat=0, drop=True) for name in same}
        dataset = dataset.assign({name: given[name] for name in same})
    repeated = {name: array for name, array in given.items() if terms.MODEL in array.dims}
    are_equal = {name: _is_repeated(array, terms.MODEL) for name, array in repeated.items()}
    own = [name for name, is_equal in are_equal.items() if not is_equal]
    for name in own:
        if not any(terms.MODEL in dims for dims in terms.SCORE_VARIABLES[name].dims):
            what, received = f"{name!r} must be the same for all models", f"{name!r} over {repeated[name].dims}"
            remedy = f"keep that of one model: dataset.assign({name}=dataset[{name!r}].isel(model=0, drop=True)), or "
            remedy += "evaluate the models apart, each as a data set of a DataTree"
            raise InvalidInputError(what, where_of(path, name), received, _layouts(terms.SCORE_VARIABLES[name]), remedy)
    is_per_run = any(terms.ITEM in repeated[name].dims for name in own)  # then each model has its own list of items
    taken = [name for name in repeated if are_equal[name] and not (is_per_run and name not in ("cluster", "fold"))]
    return dataset.assign({name: repeated[name].isel(model=0, drop=True) for name in taken}) if taken else dataset


def _is_repeated(array: xr.DataArray, dim: str) -> bool:
    """Return whether all labels of a dimension have equal values; not where they are lazy, and therefore unknown."""
    if not (array.variable._in_memory and isinstance(array.data, np.ndarray) and array.sizes[dim]):
        return False
    values = np.moveaxis(array.data, array.get_axis_num(dim), 0)
    is_nan = values[0] != values[0]  # equal_nan does not know objects
    return all(bool(((one == values[0]) | (is_nan & (one != one))).all()) for one in values[1:])


def in_usual_order(dataset: xr.Dataset) -> xr.Dataset:
    """Return scores whose variables have their dimensions in the order of the records, if they can."""
    given = {name: dataset.variables[name] for name in terms.SCORE_VARIABLES if name in dataset.variables}
    kept = kept_dims(dataset)
    usual = {name: _usual_dims(array, terms.SCORE_VARIABLES[name], kept) for name, array in given.items()}
    other = {name: dims for name, dims in usual.items() if dims not in (None, given[name].dims)}
    return dataset.assign({name: given[name].transpose(*dims) for name, dims in other.items()}) if other else dataset


def kept_dims(dataset: xr.Dataset) -> tuple[str, ...]:
    """Return the dimensions of scores that have no role, and stay in the answer: one answer for each label."""
    known = {*terms.RANKING_DIMS, terms.ITEM, terms.FOLD, terms.GRADE}
    score = dataset.variables.get("score")
    return () if score is None else tuple(str(dim) for dim in score.dims if dim not in known)


def _usual_dims(variable: xr.Variable, spec: terms.VariableSpec, kept: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the dimensions of a variable in the order of its record; None if the record does not have them.

    Those that have no role stand behind that of models.
    """
    own = tuple(dim for dim in kept if dim in variable.dims)
    for dims in spec.dims:
        if set(dims) | set(own) == set(variable.dims):
            n_before = int(dims[:1] == (terms.MODEL,))
            return (*dims[:n_before], *own, *dims[n_before:])
    return None


def in_usual_types(dataset: xr.Dataset, path: str) -> xr.Dataset:
    """Return scores of a float type that kernels take, labels that are whole numbers, and clusters that have names.

    Numbers have the order of bytes of this machine, in which alone pandas and the kernels know them.
    """
    at_hand = {name: one for name, one in dataset.variables.items() if one._in_memory or one.chunks is not None}
    at_hand = {name: one for name, one in at_hand.items() if isinstance(one.dtype, np.dtype)}  # not of pandas
    if foreign := {name: one for name, one in at_hand.items() if not one.dtype.isnative}:
        dataset = dataset.assign({name: one.astype(one.dtype.newbyteorder("=")) for name, one in foreign.items()})
    changed = {}
    score, label, cluster = (dataset.get(name) for name in ("score", "label", "cluster"))
    if score is not None and (score.dtype.kind in "iub" or is_small_float(score.dtype)):
        changed["score"] = score.copy(data=float_scores(score.data, "variable 'score'"))
    if score is not None and label is not None and label.dtype.kind == "f" and set(label.dims) <= set(score.dims):
        whole = xr.apply_ufunc(
            _labels_beside_scores,
            label.variable,
            score.variable.transpose(*label.dims, ...),
            input_core_dims=[[], [dim for dim in score.dims if dim not in label.dims]],
            kwargs={"where": where_of(path, "label")},
            dask="parallelized",
            output_dtypes=[np.int8],
            dask_gufunc_kwargs={"allow_rechunk": True},
        )
        changed["label"] = xr.DataArray(whole, label.coords, label.dims, attrs=label.attrs)
    if cluster is not None and cluster.dtype.kind in "fMmbO" and isinstance(cluster.data, np.ndarray):
        changed["cluster"] = cluster.copy(data=names_of_clusters(cluster.data, where_of(path, "cluster")))
    return dataset.assign(changed) if changed else dataset


def _labels_beside_scores(label: NDArray[Any], score: NDArray[Any], *, where: str) -> NDArray[Any]:
    """Return whole labels; the axes that scores have besides are their last ones."""
    others = range(label.ndim, score.ndim)
    return checks.whole_labels(label, np.moveaxis(score, others, range(len(others))), where)


def names_of_clusters(cluster: Any, where: str) -> NDArray[Any]:
    """Return clusters as whole numbers or text; raise if some item has none."""
    values = np.asarray(cluster)
    if (unknown := pd.isna(values)).any():
        what, received = "some items have no cluster", f"{int(unknown.sum())} of {values.size} are missing"
        remedy = "give each of them a cluster of its own, or leave these items out"
        raise InvalidInputError(what, where, received, "one cluster for each item", remedy)
    if values.dtype == np.float16:  # whose range ends before the bound below
        values = values.astype(np.float64)
    if values.dtype.kind == "f" and (values == np.rint(values)).all() and np.abs(values).max(initial=0) < 2**53:
        return values.astype(np.int64)
    if values.dtype.kind in "Mmb":
        return values.astype(np.int64)
    if values.dtype.kind == "f" or (values.dtype == object and not all(isinstance(one, str) for one in values.flat)):
        return np.array([str(one) for one in values.ravel().tolist()], object).reshape(values.shape)
    return values


def with_numbers_of_queries(dataset: xr.Dataset) -> xr.Dataset:
    """Return a data set whose queries have names, by which they are resampled: by default, their numbers."""
    if terms.QUERY not in dataset.dims or terms.QUERY in dataset.indexes:
        return dataset
    return dataset.assign_coords({terms.QUERY: np.arange(dataset.sizes[terms.QUERY])})


def validate_dataset(dataset: xr.Dataset, path: str, positive_from: int | None) -> None:
    """Raise a clear error unless this is a valid score data set."""
    kept, variables, indexes = kept_dims(dataset), dataset.variables, dataset.indexes
    _refuse_unseen_of_classes(dataset, path)
    for spec in terms.SCORE_VARIABLES.values():
        if spec.name in variables:
            _validate_variable(variables[spec.name], spec, path, kept)
        elif spec.required:
            what = f"the variable {spec.name!r} is absent"
            if "estimate" in dataset.data_vars:
                what = "this is a result, not scores"
            received = ", ".join(map(str, dataset.data_vars)) or "no variables"
            allowed = f"a variable {spec.name!r} over {_layouts(spec)}"
            remedy = "name the variables and dimensions as they are called here, or pass a data set of scores"
            raise InvalidInputError(what, where_of(path), received, allowed, remedy)
    for name in map(str, dataset.data_vars):  # nearly the name of a variable that would be used, and would be ignored
        if name not in terms.SCORE_VARIABLES:
            close = difflib.get_close_matches(name, terms.SCORE_VARIABLES, n=1, cutoff=0.85)
            if ours := terms.OTHER_NAMES.get(name) or next(iter(close), None):
                what, received = f"unknown variable {name!r}, which would be ignored", f"{name!r}"
                remedy = f"dataset.rename({{{name!r}: {ours!r}}}), or dataset.drop_vars({name!r})"
                raise InvalidInputError(what, where_of(path), received, repr(ours), remedy)
    soft = {"positive_weight", "negative_weight"} & set(dataset.data_vars)
    if len(soft) == 1 or ("label" in dataset) == bool(soft):
        what = "a data set needs 'label', or else both 'positive_weight' and 'negative_weight'"
        raise InvalidInputError(what, where_of(path), ", ".join(map(str, dataset.data_vars)))
    _validate_classes(dataset, path)
    # What goes into the result must not have the name of something of ours there.
    travelling = {str(name) for name in dataset.coords if terms.ITEM not in variables[name].dims}
    if taken := sorted((travelling | {*kept}) & terms.OF_RESULTS | ({*kept} & {*terms.SCORE_VARIABLES})):
        what, remedy = f"the result has something else of the name {taken[0]!r}", f"rename({taken[0]}='another')"
        allowed = f"other names than {', '.join(sorted(terms.OF_RESULTS))}"
        raise InvalidInputError(what, where_of(path), f"a coordinate or dimension {taken[0]!r}", allowed, remedy)
    for dim in (*terms.RANKING_DIMS, *kept, terms.ITEM):
        if dim in indexes:
            check_unique(indexes[dim], dim, where_of(path))
            if dim not in (terms.ITEM, *kept):  # these seed the resamples; items are checked when they are stored
                terms.check_names(indexes[dim], f"{where_of(path)}, labels of {dim!r}")
    for name in map(str, dataset.coords):
        terms.check_node_name(name, f"{where_of(path)}, coordinate")
    if isinstance(label := getattr(variables.get("label"), "data", None), np.ndarray):
        checks.check_labels(label, positive_from, where_of(path, "label"))
    for name in ("weight", "positive_weight", "negative_weight"):
        if isinstance(weight := getattr(variables.get(name), "data", None), np.ndarray):
            checks.check_weights(weight, where_of(path, name))


def _validate_classes(dataset: xr.Dataset, path: str) -> None:
    """Raise unless scores and labels have classes both, or neither."""
    named = [name for name in ("score", "label", "positive_weight", "negative_weight") if name in dataset.variables]
    without = [name for name in named if terms.CLASS not in dataset.variables[name].dims]
    if without and len(without) < len(named):
        received = f"{', '.join(map(repr, without))} without the dimension {terms.CLASS!r}"
        allowed = "score over (model, class, item); label over (class, item), or over (item) with the item's class"
        remedy = "give both the dimension 'class', or select one class: .sel({'class': ...})"
        what = "scores and labels have classes both, or neither"
        raise InvalidInputError(what, where_of(path), received, allowed, remedy)


def _refuse_unseen_of_classes(dataset: xr.Dataset, path: str) -> None:
    """Raise if some positives of a class may be no items."""
    if "n_positive" in dataset and terms.CLASS in dataset.dims:
        what = "with classes, all positives must be items: the classes share the resamples of items"
        received, allowed = f"'n_positive' next to the dimension {terms.CLASS!r}", "no variable 'n_positive'"
        remedy = "drop_vars('n_positive'), or select one class: .sel({'class': ...})"
        raise InvalidInputError(what, where_of(path, "n_positive"), received, allowed, remedy)


def _validate_variable(variable: xr.Variable, spec: terms.VariableSpec, path: str, kept: tuple[str, ...]) -> None:
    where = where_of(path, spec.name)
    refuse_lazy(variable.data, where)
    if variable.dtype.kind not in spec.kinds or (variable.dtype.kind == "f" and variable.dtype.itemsize > 8):
        allowed = f"{' or '.join(KINDS[kind] for kind in spec.kinds)} ({spec.description})"
        what = f"{spec.name!r} has an unsupported type"
        remedy = f"convert it, for example dataset[{spec.name!r}].astype(...)"
        received = f"dtype {variable.dtype}"
        if spec.name == "label" and variable.dtype.kind in "OUST":
            remedy = "name the positive class: pos_label=..."
            if isinstance(variable.data, np.ndarray) and (texts := checks.text_labels(variable.data)):
                what, received = checks.positive_text(texts), few(map(repr, texts))
        raise InvalidInputError(what, where, received, allowed, remedy)
    usual = _usual_dims(variable, spec, kept)
    if tuple(variable.dims) != usual:
        received, how = f"({', '.join(map(str, variable.dims))})", f"dataset.transpose{usual}" if usual else None
        others = tuple(str(dim) for dim in variable.dims if dim not in terms.RANKING_DIMS)
        if spec.name == "score" and others and terms.ITEM not in others:
            how = f"dataset.rename({{{others[0]!r}: 'item'}})"
            how = how if len(others) == 1 else f"dataset.stack(item={others}, create_index=False)"
            how = f"name the dimensions of the items: dim={others[-1]!r}, or several; or {how}"
        roles = [dim for dim in terms.RANKING_DIMS[1:] if dim in variable.dims]
        if spec.name == "score" and len(roles) > 1:
            how = f"give all but one of {' and '.join(roles)} another name, with an answer for each of its labels: "
            how += f"dataset.rename({{{roles[-1]!r}: ...}})"
        if spec.name != "score" and terms.REPEAT in variable.dims:
            how = f"all repeats share it: dataset.assign({spec.name}=dataset[{spec.name!r}].isel(repeat=0, drop=True))"
        raise InvalidInputError(f"{spec.name!r} has unsupported dimensions", where, received, _layouts(spec), how)


def check_unique(index: pd.Index, dim: str, where: str) -> None:
    """Raise if a label occurs twice in `index`."""
    if not index.is_unique:
        twice = list(dict.fromkeys(index[index.duplicated()]))
        received, remedy = f"{len(twice)} duplicated: {few(map(repr, twice))}", "rename or drop the duplicates"
        raise AlignmentError(f"labels of {dim!r} must be unique", where, received, remedy=remedy)


def where_of(path: str, variable: str | None = None) -> str:
    """Return the data set, and the variable, for an error message."""
    parts = [f"data set {path!r}" if path else "", f"variable {variable!r}" if variable else ""]
    return ", ".join(filter(None, parts)) or "the data set"


def _layouts(spec: terms.VariableSpec) -> str:
    return " or ".join(f"({', '.join(dims)})" for dims in spec.dims if spec.name != "score" or terms.MODEL in dims)


def check_same_labels(first: xr.DataArray, second: xr.DataArray, names: tuple[str, str]) -> None:
    """Raise unless two arrays carry the same labels, in the same order, on every dimension they share."""
    both, where = f"{names[0]!r} and {names[1]!r}", f"variables {names[0]!r} and {names[1]!r}"
    for dim in (str(dim) for dim in first.dims if dim in second.dims):
        if first.sizes[dim] != second.sizes[dim]:
            received, remedy = f"{first.sizes[dim]} and {second.sizes[dim]}", f"give both one value for each {dim}"
            what = f"{both} differ in length along {dim!r}"
            raise AlignmentError(what, where, received, "the same length", remedy)
        if dim in first.indexes and dim in second.indexes:
            left, right = first.indexes[dim], second.indexes[dim]
            if not left.equals(right):
                odd = [left.difference(right, sort=False), right.difference(left, sort=False)]
                only = [
                    f"only in {name!r}: {few(map(repr, one))}" for name, one in zip(names, odd, strict=True) if len(one)
                ]
                received = "; ".join(only) or "the same labels in another order"
                what, allowed = f"{both} carry different labels along {dim!r}", "the same labels, in the same order"
                remedy = f"select the labels they share, or reindex one by the other's {dim!r}"
                raise AlignmentError(what, None, received, allowed, remedy)


# --- classes ----------------------------------------------------------------------------------------------------


def with_label_of_each_class(scores: terms.Scores) -> terms.Scores:
    """Return scores in which labels say whether items belong to a class, not to which class they belong."""
    return terms.map_nodes(scores, _with_label_of_each_class)


def _with_label_of_each_class(path: str, dataset: xr.Dataset) -> xr.Dataset:
    score, label = dataset.get("score"), dataset.get("label")
    if score is None or label is None or terms.CLASS not in (*score.dims, *dataset.coords):
        return dataset
    if label.dims != (terms.ITEM,) or label.dtype.kind not in "iubOTU":
        return dataset
    if terms.CLASS not in score.dims:  # one class, selected from several; labels may have been of each, or of the items
        selected = dataset[terms.CLASS]
        if selected.ndim == 0 and label.dtype.kind in "OTU":
            return dataset.assign(label=(label.variable == selected.item()).astype(np.int8))
        if selected.ndim == 0 and selected.dtype.kind in "iub" and selected.item() in (0, 1):
            what = "labels 0 and 1 may be classes here, or say whether items belong to the selected class"
            received = f"labels over the items, and the selected class {selected.item()!r}"
            allowed = "labels of the selected class, without a coordinate 'class'"
            remedy = ".drop_vars('class') if 1 says that an item belongs to it; or select from the result instead"
            raise InvalidInputError(what, where_of(path, "label"), received, allowed, remedy)
        return dataset
    classes = dataset.get_index(terms.CLASS)
    check_unique(classes, terms.CLASS, where_of(path))
    labels = xr.apply_ufunc(
        one_against_rest,
        label.variable,
        output_core_dims=[[terms.CLASS]],
        kwargs={"classes": classes, "where": where_of(path, "label")},
        dask="parallelized",
        output_dtypes=[np.int8],
        dask_gufunc_kwargs={"output_sizes": {terms.CLASS: len(classes)}},
    )
    return dataset.assign(label=labels.transpose(terms.CLASS, terms.ITEM))


def one_against_rest(label: NDArray[Any], *, classes: pd.Index, where: str) -> NDArray[np.int8]:
    """Return whether each item belongs to each class, as labels: ``(item) -> (item, class)``."""
    place = classes.get_indexer(pd.Index(label))
    of_classes: NDArray[np.int8] = (place[:, None] == np.arange(len(classes))).astype(np.int8)
    unknown = place < 0
    if label.dtype.kind in "iu":
        is_sentinel = unknown & ((label == terms.UNJUDGED) | (label == terms.PADDING))
        of_classes[is_sentinel] = label[is_sentinel, None]
        unknown &= ~is_sentinel
    if unknown.any():
        received = f"{int(unknown.sum())} labels: {few(map(repr, dict.fromkeys(label[unknown].tolist())))}"
        allowed = f"classes {few(map(repr, classes.tolist()))}; -1 unjudged and -2 padding, if these are no classes"
        remedy = "name all classes in the coordinate 'class', in the type of the labels"
        raise InvalidInputError("labels that are no class", where, received, allowed, remedy)
    return of_classes


def are_of_class(label: Any, pos_label: Any, where: str) -> Any:
    """Return labels as 1 for those of one class and 0 for the others, with the names that they carry."""
    if not isinstance(pos_label, str | bool | int | float | np.number | np.bool_):
        what, remedy = "the positive class is one label", "name it: pos_label='yes'"
        raise bad_argument(what, "pos_label", pos_label, "a text or a number", remedy)
    try:
        found: Any = label == pos_label
        is_missing = bool(pd.isna(np.asarray(label)).any())
        found = found.astype(np.int8)
    except (TypeError, ValueError, AttributeError) as error:  # arrays, tables and records in place of names
        remedy = "give the labels as 1 and 0, without pos_label"
        raise bad_argument("labels are not names of classes", "label", label, "texts or numbers", remedy) from error
    if is_missing:
        what, remedy = "some labels are missing", "leave these items out, or give the labels as 1, 0, -1 and -2"
        raise InvalidInputError(what, where, "NaN or None", "a class for each item", remedy)
    return found


def not_a_class(pos_label: Any, where: str, labels: NDArray[Any] | None = None) -> InvalidInputError:
    """Return the error that no label is of the positive class."""
    classes = None if labels is None else few(map(repr, dict.fromkeys(labels.astype(object).ravel().tolist())))
    what, remedy = f"no label is {pos_label!r}, the positive class", "name one of the labels: pos_label=..."
    return InvalidInputError(what, where, f"pos_label={pos_label!r}", classes, remedy)


def dims_of_items(dataset: xr.Dataset, dims: tuple[str, ...], path: str = "", remedy: str = "") -> tuple[str, ...]:
    """Return the dimensions of the items: of a grid that was stored item by item, that one. Raise if one is absent."""
    score = dataset["score"]
    absent = [dim for dim in dims if dim not in score.dims]
    if not absent:
        return dims
    along = [dataset[dim].values for dim in absent if dim in dataset.coords and dataset[dim].dims == (terms.ITEM,)]
    if len(along) == len(dims) and pd.MultiIndex.from_arrays(along).is_unique:  # each item once
        return (terms.ITEM,)
    others = [str(dim) for dim in score.dims if dim not in dims and dim not in terms.RANKING_DIMS]
    what = f"'score' has no dimension {' and '.join(map(repr, absent))}"
    received = f"({', '.join(map(str, score.dims))})"
    usual = f"name the dimensions of the items: dim={(others or [terms.ITEM])[-1]!r}"
    close = did_you_mean(absent[0], others, remedy or usual)
    raise InvalidInputError(what, f"{where_of(path)}, argument 'dim'", received, "dimensions of 'score'", close)


def refuse_lazy(array: Any, where: str) -> None:
    """Raise if a Dask array does not know its shape, or has a mask, which would be lost."""
    if not checks.is_dask(array):
        return
    if any(np.isnan(size) for size in array.shape):
        what, received = "this Dask array does not know the sizes of its chunks", f"shape {array.shape}"
        remedy = "compute them: array.compute_chunk_sizes(), or frame.to_dask_array(lengths=True)"
        raise InvalidInputError(what, where, received, "an array of known shape", remedy)
    if isinstance(array._meta, np.ma.MaskedArray):
        what, received = "this is a masked array, whose mask would be lost", "a Dask array of masked arrays"
        remedy = "fill it by dask.array.ma.filled: scores with NaN (then choose missing=), labels with -2 (padding)"
        raise InvalidInputError(what, where, received, "an array without a mask", remedy)


# --- types ------------------------------------------------------------------------------------------------------


def float_scores(score: Any, where: str = "'score'") -> Any:
    """Return scores of a float type, none of them rounded; those of a Dask array are checked as they are computed."""
    if is_small_float(score.dtype):
        return score.astype(np.float32)
    if score.dtype.kind not in "fiub":
        what, allowed = "scores are not numeric", "float32 or float64; integers are converted"
        remedy = "convert them to numbers, NaN where a score is missing; of a frame, name the columns of scores: "
        remedy += "frame[['old', 'new']], or ap.from_dataframe(frame, label=..., models=[...])"
        raise InvalidInputError(what, where, f"dtype {score.dtype}", allowed, remedy)
    dtype = np.dtype(np.float32 if score.dtype.newbyteorder("=") == np.float32 else np.float64)
    is_wide = (score.dtype.itemsize > 4 and score.dtype.kind in "iu") or score.dtype.itemsize > 8
    if not is_wide:
        return score.astype(dtype, copy=False)
    if checks.is_dask(score):
        return score.map_blocks(exact_scores, dtype=dtype, meta=score._meta.astype(dtype))
    return exact_scores(score)


def is_small_float(dtype: Any) -> bool:
    """Whether this is float16 or a type of the package ml_dtypes, all of whose numbers float32 holds."""
    is_of_ml = dtype.kind == "V" and str(dtype).startswith(("bfloat", "float"))
    return is_of_ml or (dtype.kind == "f" and dtype.itemsize < 4)


def exact_scores(score: np.ndarray) -> np.ndarray:
    """Return a block of scores as float64; raise if some of them would tie that differ."""
    if score.dtype.kind in "iu":
        is_rounded = checks.are_rounded(score)
        what, allowed = "integer scores beyond 2**53", "integers from -2**53 to 2**53"
    else:
        with np.errstate(all="ignore"):
            is_rounded = bool(np.any((score.astype(np.float64) != score) & ~np.isnan(score)))
        what, allowed = "scores with more digits than float64 has", "float32 or float64"
    if is_rounded:
        received = f"dtype {score.dtype}, scores from {score.min()} to {score.max()}"
        remedy = "pass their ranks, or subtract a constant first"
        raise InvalidInputError(f"{what} may become equal in float64", "variable 'score'", received, allowed, remedy)
    return score.astype(np.float64)
