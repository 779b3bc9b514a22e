"""Estimates of models over units (queries or data sets), aligned by label, and their replicates."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from aucpr_dask.errors import MOST_SHOWN, AlignmentError, InvalidInputError, brief, few
from aucpr_dask.evaluation.alignment import Labelled
from aucpr_dask.evaluation.results import counted_positives, groups_as_data_sets
from aucpr_dask.inference.designs import IN_CLUSTERS, direction, estimator_dim, estimators_of, unit_names
from aucpr_dask.inference.units import (
    Floats,
    Indices,
    draw_units_and_items,
    mean_of_units,
    means_of_replicates,
    total_of_units,
)
from aucpr_dask.schema import terms
from aucpr_dask.schema.terms import MODEL, QUERY, RESAMPLE
from aucpr_dask.scores.validate import check_unique, where_of

DATASET = "dataset"
REPLICATE = "replicate"
SLAB_BYTES = 64 * 2**20  # of replicates read at a time
AVERAGED = ("estimate", "standard_error", REPLICATE)  # what a result has for each unit
GAPS = "gaps"  # attribute: what means over units leave out, in words
DIFFERENCE_VARIANCE, SIZE = "difference_variance", "size"  # of a data set


@dataclass(frozen=True)
class Estimates:
    """Estimates of M models on Q units, in the order of the units' names; without units Q is 1."""

    models: pd.Index  # labels, or numbers if there are none
    dim: str | None  # "query" or "dataset"; None for a single data set without units
    units: tuple[str, ...]
    values: Floats  # (M, Q), without NaN; negated where less is better, so that a larger one always is
    rows: Indices  # (M,): places of the models in the result
    columns: Indices  # (Q,): places of the units
    left_out: tuple[str, ...]  # units (or, without units, models) without an estimate
    models_left_out: tuple[str, ...] = ()
    direction: float = 1.0  # -1 where less is better
    gaps: tuple[str, ...] = ()  # what is left out and which models lack it, in words

    @property
    def mean(self) -> Floats:
        """The mean of each model over the units."""
        return mean_of_units(self.values)

    @property
    def names(self) -> list[str]:
        """The models' names."""
        return [str(label) for label in self.models]

    def of_models(self, keep: NDArray[np.bool_]) -> Estimates:
        """Return the estimates of some of the models; the others are left out."""
        gone = tuple(str(label) for label in self.models[np.flatnonzero(~keep)])
        left_out = self.left_out if self.dim else (*self.left_out, *gone)
        kept = replace(
            self, models=self.models[keep], values=self.values[keep], rows=self.rows[keep], left_out=left_out
        )
        gaps = (f"left out, without an estimate of some resamples: {few(map(repr, gone))}",) if gone else ()
        return replace(kept, models_left_out=(*self.models_left_out, *gone), gaps=(*self.gaps, *gaps))

    def of(self, variable: Labelled) -> Labelled:
        """Return a variable of the same result for these models and units, in their order."""
        places = {MODEL: self.rows, "other_model": self.rows, self.dim: self.columns}
        return variable.isel({dim: places[dim] for dim in variable.dims if dim in places})


def are_in_clusters(node: xr.Dataset) -> bool:
    """Whether the queries of a result depend on each other in clusters."""
    has_clusters = "cluster" in node and QUERY in node["cluster"].dims and "estimate" in node
    return has_clusters and QUERY in node["estimate"].dims and terms.REPEAT not in node["estimate"].dims


def clusters_as_units(node: xr.Dataset, estimator: str | None, incomplete: str, path: str = "") -> xr.Dataset:
    """Return a result whose units are clusters of queries, with the same means over units.

    A cluster has the sum of its queries' estimates times C/Q, of C clusters and Q queries with any estimate. Queries
    that some models lack are left out, or these models are, before any are added up.
    """
    if not are_in_clusters(node):
        return node
    node = complete_units(node.assign(estimate=chosen(node["estimate"], estimator)), QUERY, incomplete, path)
    known = node["estimate"].notnull().any([dim for dim in node["estimate"].dims if dim != QUERY]).values
    if not known.any():
        return node
    estimate = node["estimate"].assign_coords(cluster=node["cluster"].compute())
    estimate = estimate.isel({QUERY: np.flatnonzero(known)})
    sums = estimate.groupby("cluster").sum(QUERY, skipna=False)
    means = (sums * (sums.sizes["cluster"] / max(1, estimate.sizes[QUERY]))).rename(cluster=QUERY)
    units = means.transpose(*estimate.dims).to_dataset(name="estimate")
    return units.assign_attrs(node.attrs | {IN_CLUSTERS: True})


def read_estimates(result: xr.Dataset, dim: str | None, estimator: str | None, incomplete: str) -> Estimates:
    """Read the estimates of one estimator over (model, unit).

    A unit without an estimate of any model (a query without positives) is left out. One that only some models lack is
    an error under ``incomplete="raise"``. Under ``"drop"`` it is left out for all models, and under ``"drop_models"``
    these models are left out; without units, the models without an estimate are left out under both.
    """
    estimate = chosen(result["estimate"], estimator)
    for name in (MODEL, QUERY):
        if name in estimate.indexes:
            check_unique(estimate.indexes[name], name, "variable 'estimate'")
    models = labels_of(estimate, MODEL)
    names = unit_names(dim or "", result.attrs)
    way = direction(result.attrs, estimator or next(iter(estimators_of(result)), None))
    units = ("",) if dim is None else tuple(map(str, labels_of(estimate, dim)))
    rows, columns = np.arange(len(models)), np.arange(len(units))
    values = way * estimate.variable.transpose(MODEL, *filter(None, [dim])).values.astype(np.float64)
    values = values.reshape(len(models), len(units))
    if dim in estimate.indexes:  # in the order of their names, if they have any
        columns = np.array(sorted(columns.tolist(), key=units.__getitem__), np.int64)
        values, units = values[:, columns], tuple(sorted(units))
    known = ~np.isnan(values)
    if _partly(known).any() and incomplete == "raise":
        raise _incomplete(known, models, units, dim, names)
    gaps = gaps_in_words(known, models, units if dim else None, names, incomplete)
    kept_units: NDArray[np.bool_] = np.asarray(known.any(axis=0))
    kept_models: NDArray[np.bool_] = np.ones(len(models), bool)
    if dim is None or incomplete == "drop_models":
        kept_models = np.logical_and(known[:, kept_units].all(axis=1), known.any())
    else:
        kept_units &= ~_partly(known)
    models_left_out = tuple(str(model) for model in models[~kept_models])
    left_out = models_left_out if dim is None else tuple(compress(units, ~kept_units))
    models, values, rows = models[kept_models], values[kept_models][:, kept_units], rows[kept_models]
    columns, units = columns[kept_units], tuple(compress(units, kept_units))
    if 0 in values.shape and dim is not None and known.any():
        raise _nothing_left(names, incomplete, None)
    if 0 in values.shape:
        received = f"{terms.count(len(models), 'model')}; left out: {few(map(repr, left_out))}"
        remedy = "check for positives: the flags of the result mark rankings without any"
        what = "there is nothing to compare: no estimate is defined for every model"
        raise InvalidInputError(what, "variable 'estimate'", received, "estimates that all models have", remedy)
    if not np.isfinite(values).all():
        infinite = [str(model) for model in models[np.flatnonzero(np.isinf(values).any(axis=1))]]
        what, remedy = "some estimates are not finite", "leave these models out of the comparison"
        raise InvalidInputError(what, "variable 'estimate'", few(map(repr, infinite)), "finite numbers, or NaN", remedy)
    places = rows, columns
    return Estimates(models, dim, units, np.ascontiguousarray(values), *places, left_out, models_left_out, way, gaps)


def read_replicates(result: xr.Dataset, estimates: Estimates, estimator: str | None, seed: int | None = None) -> Floats:
    """Read the items' replicates (M, R) of each model's mean over the units; with a seed, over resampled units."""
    dim, replicate = estimates.dim, estimates.of(chosen(result[REPLICATE], estimator))
    n_resamples = replicate.sizes[RESAMPLE]
    if dim is None:
        return np.asarray(replicate.transpose(MODEL, RESAMPLE).values, dtype=np.float64)
    drawn = None if seed is None else draw_units_and_items(estimates.units, n_resamples, seed)
    if replicate.chunks is None and replicate.nbytes > SLAB_BYTES:
        replicate = replicate.chunk({MODEL: max(1, SLAB_BYTES * replicate.sizes[MODEL] // replicate.nbytes)})
    averaged = applied(means_of_replicates, replicate, over=(dim, RESAMPLE), sizes={RESAMPLE: n_resamples}, drawn=drawn)
    return np.asarray(averaged.transpose(MODEL, RESAMPLE).values)


def chosen(variable: xr.DataArray, estimator: str | None) -> xr.DataArray:
    """Return a variable of one estimator: the named one, or the first."""
    kinds = terms.ESTIMATOR, terms.MEASURE
    dim = estimator_dim(variable) or next((name for name in kinds if name in variable.coords), None)
    if dim is None:
        return variable
    names = [str(name) for name in np.atleast_1d(variable[dim].values)]
    name = names[0] if estimator is None else estimator
    if name not in names:
        what = f"this {dim} is not in the result"
        remedy = "evaluate again with it" if dim == terms.ESTIMATOR else "give one of these names"
        raise InvalidInputError(what, "option 'estimator'", brief(name), ", ".join(names), remedy)
    return variable.isel({dim: names.index(name)}) if dim in variable.dims else variable


def labels_of(variable: xr.DataArray | xr.Dataset, dim: str) -> pd.Index:
    """Return the labels along `dim`, or numbers if there are none."""
    if dim not in variable.dims:
        received = f"({', '.join(map(str, variable.dims))})"
        remedy = f"rename the dimension that has them; or keep it where one is selected: isel({dim}=[0])"
        raise InvalidInputError(f"the estimates have no dimension {dim!r}", None, received, None, remedy)
    index = variable.indexes.get(dim)
    return pd.RangeIndex(variable.sizes[dim]) if index is None else index


# --- means over the units that are known ------------------------------------------------------------------------------


def applied(
    function: Callable[..., Any],
    *arrays: Labelled,
    over: Collection[str | None],
    sizes: Mapping[str, int] | None = None,
    **options: Any,
) -> Labelled:
    """Apply a function of NumPy arrays over these dimensions, lazily on Dask; its result has those of `sizes`."""
    result: Labelled = xr.apply_ufunc(
        function,
        *arrays,
        input_core_dims=[[dim for dim in over if dim in array.dims] for array in arrays],
        output_core_dims=[list(sizes or ())],
        kwargs=options,
        dask="parallelized",
        output_dtypes=[np.float64],
        dask_gufunc_kwargs={"output_sizes": sizes or {}, "allow_rechunk": True},
        keep_attrs=False,
    )
    return result


def reduced(function: Callable[..., Any], variable: xr.DataArray, dim: str, **options: Any) -> xr.DataArray:
    """Reduce `variable` over `dim` with a function of NumPy, whose order of adding follows the layout: it is set."""
    return applied(lambda values: function(np.ascontiguousarray(values), axis=-1, **options), variable, over=[dim])


def sum_of_squares(influence: xr.DataArray) -> xr.DataArray:
    """Return the sum of the squares of influences over their units, the last dimension."""
    return reduced(np.sum, influence**2, str(influence.dims[-1]))


def mean_of_known(variable: xr.DataArray, dim: str) -> xr.DataArray:
    """Return the mean over the units that are not NaN, added in the order of their names."""
    mean: xr.DataArray = summarize(variable, dim).isel({terms.QUANTITY: 0})
    return mean


def mean_where_known(variable: xr.DataArray, known: xr.DataArray, dim: str) -> xr.DataArray:
    """Return the mean over the units that are known; NaN if one of them is: that mean would be over fewer units."""
    undefined = (variable.isnull() & known).any(dim)
    return mean_of_known(variable, dim).where(~undefined)


def error_of_mean(standard_error: xr.DataArray, known: xr.DataArray, dim: str) -> xr.DataArray:
    """Return the standard error of a mean over fixed units, each with its own items."""
    # An unknown error of a known estimate is not 0: it makes the error of the mean unknown.
    variance = reduced(np.sum, (standard_error**2).where(known, 0.0), dim)
    error: xr.DataArray = variance**0.5 / known.sum(dim)
    return error


def summarize(variable: xr.DataArray, dim: str) -> xr.DataArray:
    """Return mean, standard error, number and skewness of the units that are not NaN, along ``quantity``.

    They are added in the order of their names.
    """
    names = [str(label) for label in labels_of(variable, dim)]
    order = sorted(range(len(names)), key=names.__getitem__)

    def summarized(values: NDArray[Any]) -> Floats:
        known = ~np.isnan(values)
        number = known.sum(axis=-1).astype(np.float64)
        total, squares, cubes = np.zeros((3, *values.shape[:-1]))
        for unit in order:
            total += np.where(known[..., unit], values[..., unit], 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = total / number
            for unit in order:
                deviation = np.where(known[..., unit], values[..., unit] - mean, 0.0)
                squares += deviation**2
                cubes += deviation**2 * deviation
            error = np.sqrt(squares / np.where(number > 1, number - 1, np.nan) / number)
            skewness = np.where(squares > 0, cubes / squares**1.5 * np.sqrt(number), 0.0)
        return np.stack([mean, error, number, skewness], axis=-1)

    return applied(summarized, variable, over=[dim], sizes={terms.QUANTITY: 4})


def summarize_clusters(estimate: xr.DataArray, mean: xr.DataArray, dim: str, cluster: xr.DataArray) -> xr.DataArray:
    """Return facts of the clusters of units along ``quantity``.

    Degrees of freedom by their sizes, their number, and the sums of squares and of cubes of what leaving out each of
    them does to the mean.
    """
    codes, names = pd.factorize(np.asarray(cluster))

    def summarized(values: NDArray[Any], mean: Floats) -> Floats:
        known = ~np.isnan(values)
        sizes, sums = np.zeros((2, *values.shape[:-1], len(names)))
        for unit, code in enumerate(codes):  # added one by one
            sizes[..., code] += known[..., unit]
            sums[..., code] += np.where(known[..., unit], values[..., unit] - mean, 0.0)
        total = total_of_units(sizes)[..., np.newaxis]
        with np.errstate(invalid="ignore", divide="ignore"):
            share = sizes / total
            change = sums / total / np.where(share < 1, 1 - share, np.nan)
            degrees = 1 / total_of_units(share**2) - 1
        powers = (total_of_units(change**power) for power in (2, 3))
        return np.stack([degrees, (sizes > 0).sum(axis=-1), *powers], axis=-1)

    return applied(summarized, estimate, mean, over=[dim], sizes={terms.QUANTITY: 4})


# --- units that some models lack -----------------------------------------------------------------------------------


def complete_units(node: xr.Dataset, dim: str, incomplete: str, path: str = "") -> xr.Dataset:
    """Hide the units that some models lack, or all units of these models; or raise an error that names them.

    The attribute ``gaps`` says what is hidden, or has no estimate of any model.
    """
    known = node["estimate"].notnull()
    if MODEL not in known.dims:  # one model lacks what it lacks
        return node
    partly = known.any(MODEL) & ~known.all(MODEL)
    where, names = where_of(path) if path else None, unit_names(dim, node.attrs)
    units, models = [str(label) for label in labels_of(known, dim)], labels_of(known, MODEL)
    worst, others = known, [axis for axis in known.dims if axis not in (MODEL, dim)]
    if others:  # the estimator, and the label of other dimensions, that most units lack
        places: Any = (~known).sum((dim, MODEL)).argmax(others)
        worst = known.isel({axis: int(place) for axis, place in places.items()})
    table = worst.transpose(MODEL, dim).values
    if incomplete == "raise" and bool(partly.any()):
        raise _incomplete(table, models, units, dim, names, where)
    keep = (known | ~known.any(MODEL)).all(dim) if incomplete == "drop_models" else ~partly
    if incomplete != "raise" and bool(known.any()) and not bool((known & keep).any()):
        raise _nothing_left(names, incomplete, where)
    gaps = [f"in {path!r}, {gap}" if path else gap for gap in gaps_in_words(table, models, units, names, incomplete)]
    hidden = node.assign({name: node[name].where(keep) for name in AVERAGED if name in node})
    return hidden.assign_attrs({GAPS: [*node.attrs.get(GAPS, ()), *gaps]}) if gaps else hidden


def gaps_in_words(
    known: NDArray[np.bool_], models: pd.Index, units: Sequence[str] | None, names: tuple[str, str], incomplete: str
) -> tuple[str, ...]:
    """Say which units or models are left out of estimates that are `known` (M, Q), and which models lack how many."""
    nowhere: NDArray[np.bool_] = np.logical_not(known.any(axis=0))
    lacks = np.count_nonzero(~known & ~nowhere, axis=1)
    lacking = [(repr(str(model)), int(n)) for model, n in zip(models, lacks, strict=True) if n]
    if units is None:
        gone = few([repr(str(model)) for model, row in zip(models, known, strict=True) if not row.all()])
        return (f"left out, without an estimate: {gone}",) if gone else ()
    said, n_units, several = [], len(units), names[1]

    def counted(which: NDArray[np.bool_]) -> str:
        return f"{np.count_nonzero(which):,} of {n_units:,} {several}"

    def named(which: NDArray[np.bool_]) -> str:
        return few(map(repr, compress(units, which)))

    if nowhere.any():
        said.append(f"left out, without an estimate of any model: {counted(nowhere)} ({named(nowhere)})")
    if lacking and incomplete == "drop":
        of_models = few([f"{model} lacks {n:,}" for model, n in lacking])
        said.append(f"left out: {counted(_partly(known))} ({named(_partly(known))}), of which {of_models}")
    elif lacking and incomplete == "drop_models":
        of_models = few([f"{model}, which lacks {n:,} of {n_units:,} {several}" for model, n in lacking])
        said.append(f"left out: {of_models}")
    return tuple(said)


def _partly(known: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which units (Q,) some models know, and others lack."""
    return np.logical_and(known.any(axis=0), ~known.all(axis=0))


def _incomplete(
    known: NDArray[np.bool_],
    models: pd.Index,
    units: Sequence[str],
    dim: str | None,
    names: tuple[str, str],
    where: str | None = None,
) -> AlignmentError:
    """Return the error that lists which models lack which units."""
    partly = _partly(known)
    lacking = np.flatnonzero(~known[:, partly].all(axis=1))
    if dim is None:
        received = few(repr(str(model)) for model in models[lacking])
        remedy = "leave these models out: incomplete='drop'; or give them scores: missing='last' or 'unretrieved'"
        return AlignmentError("some models have no estimate", where, received, None, remedy)
    several, said = names[1], []
    for row in lacking[:MOST_SHOWN]:
        absent = list(compress(units, partly & ~known[row]))
        said.append(f"{str(models[[row]][0])!r} lacks {names[len(absent) != 1]} {few(map(repr, absent))}")
    more = len(lacking) - MOST_SHOWN
    received = "; ".join(said) + (f" and {more} more models" if more > 0 else "")
    remedy = f"leave those {several} out for all models: incomplete='drop'; or "
    remedy += "leave these models out: incomplete='drop_models'"
    what = f"some models lack the estimate of some {several}, so their means are not over the same {several}"
    return AlignmentError(what, where, received, None, remedy)


def _nothing_left(names: tuple[str, str], incomplete: str, where: str | None) -> AlignmentError:
    """Return the error that every unit, or every model, is incomplete."""
    singular, several = names
    lack, other, instead = f"models lack the estimate of some {singular}", "drop", f"{several} in place of models"
    if incomplete == "drop":
        lack, other = f"{several} lack the estimate of some model", "drop_models"
        instead = f"models in place of {several}"
    remedy = f"incomplete={other!r} leaves out {instead}; or select models that share some {several}"
    return AlignmentError(f"all {lack}, so incomplete={incomplete!r} leaves none", where, remedy=remedy)


# --- data sets as units --------------------------------------------------------------------------------------------


def stack_data_sets(tree: terms.Scores, incomplete: str) -> xr.Dataset:
    """Stack the data sets of a tree, queries averaged, over ``dataset``; NaN where models are absent."""
    tree = groups_as_data_sets(tree, along=DATASET)
    nodes = list(terms.nodes_of(tree))
    if isinstance(tree, xr.Dataset) or not nodes:
        what, remedy = "there are no data sets to average over", "over='query' averages the queries of one data set"
        allowed = "a DataTree with a result in each node"
        raise InvalidInputError(what, None, type(tree).__name__, allowed, remedy)
    first_of: dict[tuple[str, ...], str] = {}
    for path, node in nodes:
        if names := tuple(estimators_of(node)):
            first_of.setdefault(names, path)
    if len(first_of) > 1:
        received = few([f"{few(names)} in data set {path!r}" for names, path in first_of.items()])
        remedy = "select data sets of one measure, or evaluate all of them with the same estimators"
        what, allowed = "the data sets have values of different measures", "the same measures in every data set"
        raise AlignmentError(what, None, received, allowed, remedy)
    known: dict[object, None] = {}  # the models that any data set has
    for path, node in nodes:
        if MODEL not in node.indexes:
            what = "models are matched between data sets by label, and these have no labels"
            raise AlignmentError(what, f"data set {path!r}", remedy=f"assign_coords({MODEL}=[...])")
        check_unique(node.indexes[MODEL], MODEL, f"data set {path!r}")
        known |= dict.fromkeys(node.indexes[MODEL])
    models = list(known)
    if incomplete == "drop" and all(node.sizes[MODEL] < len(models) for _, node in nodes):
        sizes = [f"{path!r} has {node.sizes[MODEL]:,} of {len(models):,} models" for path, node in nodes[:MOST_SHOWN]]
        more = f" and {len(nodes) - MOST_SHOWN} more data sets" if len(nodes) > MOST_SHOWN else ""
        what = "every data set lacks some model, so none is left over which to average all models"
        remedy = "select the models that several data sets share, or give models the same labels everywhere"
        raise AlignmentError(what, received="; ".join(sizes) + more, remedy=remedy)
    both = {MODEL: models, "other_model": models}
    averaged = [mean_over_queries(node, path, incomplete) for path, node in nodes]
    gaps = [gap for node in averaged for gap in node.attrs.get(GAPS, ())]
    averaged = [node.reindex({dim: both[dim] for dim in both if dim in node.dims}) for node in averaged]
    shared = set.intersection(*(set(map(str, node.data_vars)) for node in averaged))
    try:
        stacked = xr.concat(
            [node[sorted(shared)] for node in averaged],
            pd.Index([path for path, _ in nodes], name=DATASET),
            join="exact",
            coords="minimal",
            compat="override",
            combine_attrs="drop_conflicts",
        )
        return stacked.assign_attrs({GAPS: gaps}) if gaps else stacked
    except ValueError as error:
        what = "the data sets were evaluated in different ways"
        remedy = "evaluate all of them with the same estimators and number of resamples"
        raise AlignmentError(what, received=str(error), remedy=remedy) from error


def along_items(scores: terms.Scores, names: Sequence[str]) -> list[str]:
    """Return which of these name groups of items: each is evaluated on its own."""
    nodes = [node for _, node in terms.nodes_of(scores)]

    def is_along(name: str) -> bool:
        return all(name in node and node[name].dims == (terms.ITEM,) for node in nodes)

    found = [name for name in names if is_along(name)]
    if DATASET in found and QUERY not in names and is_along(QUERY):
        what, received = "documents of several queries would be ranked together", f"{QUERY!r} along the items"
        remedy = f"pass evaluate(scores, by=['{DATASET}', '{QUERY}']), or drop_vars('{QUERY}') if they are to be"
        raise InvalidInputError(what, f"over={DATASET!r}", received, "a tree of data sets with queries", remedy)
    return found


def of_models_here(node: xr.Dataset, estimator: str | None = None) -> xr.Dataset:
    """Return a data set without the models that have no estimate in it: they lack all of it, not some of its units."""
    estimate = node["estimate"] if estimator is None else chosen(node["estimate"], estimator)
    has_any = estimate.notnull().any([dim for dim in estimate.dims if dim != MODEL])
    return node.isel({MODEL: np.flatnonzero(has_any)})


def mean_over_queries(node: xr.Dataset, path: str, incomplete: str) -> xr.Dataset:
    """Average the variables of a node over its queries; those without any estimate are left out."""
    if (counted := counted_positives(node)) in node:  # not all data sets need have weights or clusters
        node = node.assign(n_positive=node[counted])
    node = node[[name for name in (*AVERAGED, DIFFERENCE_VARIANCE, SIZE, "n_positive") if name in node]]
    if QUERY not in node["estimate"].dims:
        return node
    node = complete_units(of_models_here(node), QUERY, incomplete, path)
    known = node["estimate"].notnull()
    mean = xr.Dataset({"estimate": mean_of_known(node["estimate"], QUERY)})
    if REPLICATE in node:
        mean[REPLICATE] = mean_where_known(node[REPLICATE], known, QUERY)
    mean = mean.assign({name: node[name] for name in (DIFFERENCE_VARIANCE, SIZE) if name in node})
    if "standard_error" in node:
        mean["standard_error"] = error_of_mean(node["standard_error"], known, QUERY)
    return mean.assign_attrs(node.attrs)
