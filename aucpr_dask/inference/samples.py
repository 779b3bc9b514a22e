"""Estimates of models over units (queries or data sets), aligned by label, and their replicates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from aucpr_dask.errors import MOST_SHOWN, AlignmentError, InvalidInputError, brief, few
from aucpr_dask.inference.measures import estimator_dim, estimators_of, unit_names
from aucpr_dask.schema.trees import Scores, nodes_of
from aucpr_dask.schema.variables import ESTIMATOR, MODEL, QUANTITY, QUERY, RESAMPLE
from aucpr_dask.scores.validate import check_unique

Floats = NDArray[np.float64]

DATASET = "dataset"
REPLICATE = "replicate"
SLAB_BYTES = 64 * 2**20  # of replicates read at a time
PANEL_BYTES = 2**20  # of replicates added up at a time, which stay in the cache


@dataclass(frozen=True)
class Estimates:
    """Estimates of M models on Q units, in the order of the units' names; without units Q is 1."""

    models: pd.Index  # labels, or numbers if there are none
    dim: str | None  # "query" or "dataset"; None for a single data set without units
    units: tuple[str, ...]
    values: Floats  # (M, Q), without NaN
    left_out: tuple[str, ...]  # units (or, without units, models) without an estimate
    models_left_out: tuple[str, ...] = ()

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
        gone = tuple(str(label) for label in self.models[~keep])
        left_out = self.left_out if self.dim else (*self.left_out, *gone)
        values, models_left_out = self.values[keep], (*self.models_left_out, *gone)
        return replace(
            self, models=self.models[keep], values=values, left_out=left_out, models_left_out=models_left_out
        )


def mean_of_units(values: NDArray[Any]) -> Floats:
    """Return the mean over the last axis, bit-for-bit independent of other models and the layout."""
    mean = total_of_units(values)
    mean /= values.shape[-1]
    return mean


def total_of_units(values: NDArray[Any]) -> Floats:
    """Return the sum over the last axis, added one by one."""
    total: Floats = np.zeros(values.shape[:-1])
    for unit in range(values.shape[-1]):
        total += values[..., unit]
    return total


def means_under(weights: NDArray[Any], values: Floats) -> Floats:
    """Return the weighted mean of the units of each model under each of R weightings."""
    n_models, n_units = values.shape
    means = np.zeros((n_models, len(weights)))
    columns = np.ascontiguousarray(weights.T, dtype=np.float64)
    width = max(1, PANEL_BYTES // (8 * max(1, len(weights))))
    for start in range(0, n_models, width):
        panel = means[start : start + width]
        for unit in range(n_units):
            panel += values[start : start + width, unit, None] * columns[unit]
    means /= n_units
    return means


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
    values, units = _values_of_units(estimate, dim)
    known = ~np.isnan(values)
    nowhere: NDArray[np.bool_] = np.logical_not(known.any(axis=0))
    partly: NDArray[np.bool_] = np.logical_not(known.all(axis=0)) & ~nowhere
    if partly.any() and incomplete == "raise":
        raise _incomplete(known, partly, models, units, dim, names)
    models_left_out: tuple[str, ...] = ()
    if dim is None or incomplete == "drop_models":
        is_complete: NDArray[np.bool_] = np.logical_not((~known[:, ~nowhere]).any(axis=1))
        is_complete &= known.any()
        models_left_out = tuple(str(model) for model in models[~is_complete])
        models, values = models[is_complete], values[is_complete]
        partly = np.zeros_like(partly)
    if dim is None:
        left_out = models_left_out
    else:
        kept = ~(nowhere | partly)
        left_out = tuple(unit for unit, keep in zip(units, kept, strict=True) if not keep)
        values, units = values[:, kept], tuple(unit for unit, keep in zip(units, kept, strict=True) if keep)
    if 0 in values.shape and dim is not None and known.any():
        raise _nothing_left(names, incomplete, None)
    if 0 in values.shape:
        raise InvalidInputError(
            "there is nothing to compare: no estimate is defined for every model",
            received=f"{len(models)} models; left out: {few(map(repr, left_out))}",
            remedy="check for positives: the flags of the result mark rankings without any",
        )
    return Estimates(models, dim, units, np.ascontiguousarray(values), left_out, models_left_out)


def _values_of_units(estimate: xr.DataArray, dim: str | None) -> tuple[Floats, tuple[str, ...]]:
    """Return the estimates (M, Q) and the units' names; units in the order of their names, if they have any."""
    if dim is None:
        return np.asarray(estimate.transpose(MODEL).values, dtype=np.float64)[:, None], ("",)
    values = np.asarray(estimate.transpose(MODEL, dim).values, dtype=np.float64)
    units = [str(label) for label in labels_of(estimate, dim)]
    order = sorted(range(len(units)), key=units.__getitem__) if dim in estimate.indexes else list(range(len(units)))
    return values[:, order], tuple(units[place] for place in order)


def _incomplete(
    known: NDArray[np.bool_],
    partly: NDArray[np.bool_],
    models: pd.Index,
    units: Sequence[str],
    dim: str | None,
    names: tuple[str, str],
    where: str | None = None,
) -> AlignmentError:
    """Return the error that lists which models lack which units."""
    lacking = np.flatnonzero(~known[:, partly].all(axis=1))
    if dim is None:
        return AlignmentError(
            "some models have no estimate",
            where=where,
            received=few(repr(str(model)) for model in models[lacking]),
            remedy="leave these models out: incomplete='drop'; or give them scores: missing='last' or 'unretrieved'",
        )
    singular, several = names

    def units_lacked(row: int) -> str:
        absent = [unit for unit, is_known, some in zip(units, known[row], partly, strict=True) if some and not is_known]
        return f"{str(models[[row]][0])!r} lacks {singular if len(absent) == 1 else several} {few(map(repr, absent))}"

    more = len(lacking) - MOST_SHOWN
    return AlignmentError(
        f"some models lack the estimate of some {several}, so their means are not over the same {several}",
        where=where,
        received="; ".join(map(units_lacked, lacking[:MOST_SHOWN])) + (f" and {more} more models" if more > 0 else ""),
        remedy=f"leave those {several} out for all models: incomplete='drop'; "
        "or leave these models out: incomplete='drop_models'",
    )


def _nothing_left(names: tuple[str, str], incomplete: str, where: str | None) -> AlignmentError:
    """Return the error that every unit, or every model, is incomplete."""
    singular, several = names
    models = incomplete == "drop_models"
    return AlignmentError(
        f"all models lack the estimate of some {singular}, so incomplete='drop_models' leaves none"
        if models
        else f"all {several} lack the estimate of some model, so incomplete='drop' leaves none",
        where=where,
        remedy=f"incomplete='drop' leaves out {several} in place of models; or select models that share some {several}"
        if models
        else f"incomplete='drop_models' leaves out models in place of {several}; or select models that share some",
    )


def chosen(variable: xr.DataArray, estimator: str | None) -> xr.DataArray:
    """Return a variable of one estimator: the named one, or the first."""
    dim = estimator_dim(variable)
    if dim is None:
        return variable
    names = [str(name) for name in variable[dim].values]
    name = names[0] if estimator is None else estimator
    if name not in names:
        raise InvalidInputError(
            f"this {dim} is not in the result",
            where="option 'estimator'",
            received=brief(name),
            allowed=", ".join(names),
            remedy="evaluate again with it" if dim == ESTIMATOR else "give one of these names",
        )
    return variable.isel({dim: names.index(name)})


def labels_of(variable: xr.DataArray | xr.Dataset, dim: str) -> pd.Index:
    """Return the labels along `dim`, or numbers if there are none."""
    if dim not in variable.dims:
        raise InvalidInputError(
            f"the estimates have no dimension {dim!r}",
            received=f"({', '.join(map(str, variable.dims))})",
            remedy="pass what aucpr_dask.evaluate returns",
        )
    index = variable.indexes.get(dim)
    return pd.RangeIndex(variable.sizes[dim]) if index is None else index


def read_replicates(result: xr.Dataset, estimates: Estimates, estimator: str | None, seed: int | None = None) -> Floats:
    """Read the items' replicates of each model's mean over the units."""
    replicate = chosen(result[REPLICATE], estimator)
    dims = (MODEL, RESAMPLE) if estimates.dim is None else (MODEL, estimates.dim, RESAMPLE)
    replicate = replicate.transpose(*dims)
    rows = labels_of(replicate, MODEL).get_indexer(estimates.models)
    units: list[int] = []
    if estimates.dim is not None:
        places = {str(label): place for place, label in enumerate(labels_of(replicate, estimates.dim))}
        units = [places[unit] for unit in estimates.units]
    drawn = None if seed is None else draw_units_and_items(estimates.units, replicate.sizes[RESAMPLE], seed)
    replicate = replicate.isel({MODEL: rows})
    if estimates.dim is None:
        return np.asarray(replicate.values, dtype=np.float64)
    replicate = replicate.isel({estimates.dim: units})
    if replicate.chunks is None and replicate.nbytes > SLAB_BYTES:
        replicate = replicate.chunk({MODEL: max(1, SLAB_BYTES * len(rows) // replicate.nbytes)})
    means = xr.apply_ufunc(
        means_of_replicates,
        replicate,
        input_core_dims=[[estimates.dim, RESAMPLE]],
        output_core_dims=[[RESAMPLE]],
        kwargs={"drawn": drawn},
        dask="parallelized",
        output_dtypes=[np.float64],
        dask_gufunc_kwargs={"allow_rechunk": True},
        keep_attrs=False,
    )
    return np.asarray(means.values)


def means_of_replicates(
    replicates: NDArray[Any], drawn: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
) -> Floats:
    """Return the mean (..., R) over units of replicates (..., Q, R): of every unit once, or of the units drawn."""
    n_units = replicates.shape[-2]
    total = np.zeros((*replicates.shape[:-2], replicates.shape[-1]))
    for unit in range(n_units):
        total += replicates[..., unit, :] if drawn is None else replicates[..., drawn[0][:, unit], drawn[1][:, unit]]
    total /= n_units
    return total


def multiplicities(names: Sequence[str], n_resamples: int, seed: int) -> NDArray[np.int64]:
    """Draw units with replacement, in the order of their names, and return how often each is in each resample."""
    n_units = len(names)
    flat = draw_units(names, n_resamples, seed) + n_units * np.arange(n_resamples)[:, None]
    counts = np.bincount(flat.ravel(), minlength=n_resamples * n_units)
    return counts.reshape(n_resamples, n_units)


def draw_units(names: Sequence[str], n_resamples: int, seed: int) -> NDArray[np.int64]:
    """Draw the places (R, Q) of units with replacement, resample by resample."""
    return generator(seed, "units").integers(len(names), size=(n_resamples, len(names)))


def draw_units_and_items(
    names: Sequence[str], n_resamples: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw units (R, Q) and, for each, which of the R resamples of its items to use."""
    units = draw_units(names, n_resamples, seed)
    return units, generator(seed, "items of units").integers(n_resamples, size=units.shape)


def generator(seed: int, purpose: str) -> np.random.Generator:
    """Return the random stream for one purpose."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, stable_hash(purpose)])))


def stable_hash(name: str) -> int:
    """Return 64 bits of a name: the same in every process and version."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


def keys_of(names: Sequence[str]) -> NDArray[np.uint64]:
    """Return one number for each name, to key its random numbers."""
    return np.array([stable_hash(name) for name in names], dtype=np.uint64)


def stack_data_sets(tree: Scores, incomplete: str) -> xr.Dataset:
    """Stack the data sets of a tree, queries averaged, over ``dataset``; NaN where models are absent."""
    nodes = [(path, node) for path, node in nodes_of(tree)]
    if isinstance(tree, xr.Dataset) or not nodes:
        raise InvalidInputError(
            "there are no data sets to average over",
            received=type(tree).__name__,
            allowed="a DataTree with a result in each node",
            remedy="over='query' averages the queries of one data set",
        )
    first_of: dict[tuple[str, ...], str] = {}
    for path, node in nodes:
        if names := tuple(estimators_of(node)):
            first_of.setdefault(names, path)
    if len(first_of) > 1:
        raise AlignmentError(
            "the data sets have values of different measures",
            received=few([f"{few(names)} in data set {path!r}" for names, path in first_of.items()]),
            allowed="the same measures in every data set",
            remedy="select data sets of one measure, or evaluate all of them with the same estimators",
        )
    models: dict[object, None] = {}
    for path, node in nodes:
        if MODEL not in node.indexes:
            raise AlignmentError(
                "models are matched between data sets by label, and these have no labels",
                where=f"data set {path!r}",
                remedy=f"assign_coords({MODEL}=[...])",
            )
        check_unique(node.indexes[MODEL], MODEL, f"data set {path!r}")
        models.update(dict.fromkeys(node.indexes[MODEL]))
    if incomplete == "drop" and all(node.sizes[MODEL] < len(models) for _, node in nodes):
        raise AlignmentError(
            "every data set lacks some model, so none is left over which to average all models",
            received="; ".join(
                f"{path!r} has {node.sizes[MODEL]:,} of {len(models):,} models" for path, node in nodes[:MOST_SHOWN]
            )
            + (f" and {len(nodes) - MOST_SHOWN} more data sets" if len(nodes) > MOST_SHOWN else ""),
            remedy="select the models that several data sets share, or give models the same labels everywhere",
        )
    averaged = [_mean_over_queries(node, path, incomplete).reindex({MODEL: list(models)}) for path, node in nodes]
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
    except ValueError as error:
        raise AlignmentError(
            "the data sets were evaluated in different ways",
            received=str(error),
            remedy="evaluate all of them with the same estimators and number of resamples",
        ) from error
    return stacked


def complete_units(node: xr.Dataset, dim: str, incomplete: str, path: str = "") -> xr.Dataset:
    """Hide the units that some models lack, or all units of these models; or raise an error that names them."""
    known = node["estimate"].notnull()
    partly = known.any(MODEL) & ~known.all(MODEL)
    if incomplete == "raise" and bool(partly.any()):
        if (axis := estimator_dim(partly)) is not None:
            worst = int(partly.any(dim).argmax(axis))
            known, partly = known.isel({axis: worst}), partly.isel({axis: worst})
        units = [str(label) for label in labels_of(known, dim)]
        models = labels_of(known, MODEL)
        where = f"data set {path!r}" if path else None
        names = unit_names(dim, node.attrs)
        raise _incomplete(known.transpose(MODEL, dim).values, partly.values, models, units, dim, names, where)
    keep = (known | ~known.any(MODEL)).all(dim) if incomplete == "drop_models" else ~partly
    if incomplete != "raise" and bool(known.any()) and not bool((known & keep).any()):
        raise _nothing_left(unit_names(dim, node.attrs), incomplete, f"data set {path!r}" if path else None)
    held = [name for name in ("estimate", "standard_error", REPLICATE) if name in node]
    return node.assign({name: node[name].where(keep) for name in held})


def _mean_over_queries(node: xr.Dataset, path: str, incomplete: str) -> xr.Dataset:
    """Average the variables of a node over its queries; those without any estimate are left out."""
    node = node[[name for name in ("estimate", "standard_error", REPLICATE) if name in node]]
    if QUERY not in node.dims:
        return node
    node = complete_units(node, QUERY, incomplete, path)
    known = node["estimate"].notnull()
    means = xr.Dataset({"estimate": mean_of_known(node["estimate"], QUERY)})
    if REPLICATE in node:
        means[REPLICATE] = mean_where_known(node[REPLICATE], known, QUERY)
    if "standard_error" in node:
        means["standard_error"] = error_of_mean(node["standard_error"], known, QUERY)
    return means.assign_attrs(node.attrs)


def mean_of_known(variable: xr.DataArray, dim: str) -> xr.DataArray:
    """Return the mean over the units that are not NaN: bit-for-bit identical for any order of units and any chunks."""
    names = tuple(str(label) for label in labels_of(variable, dim))
    mean: xr.DataArray = summarize(variable, dim, names).isel({QUANTITY: 0})
    return mean


def mean_where_known(variable: xr.DataArray, known: xr.DataArray, dim: str) -> xr.DataArray:
    """Return the mean over the units that are known; NaN if one of them is: that mean would be over fewer units."""
    undefined = (variable.isnull() & known).any(dim)
    return mean_of_known(variable, dim).where(~undefined)


def summarize(variable: xr.DataArray, dim: str, names: tuple[str, ...]) -> xr.DataArray:
    """Return mean, standard error and number of the units that are not NaN, along ``quantity``."""
    return xr.apply_ufunc(  # type: ignore[no-any-return]
        summarize_units,
        variable,
        input_core_dims=[[dim]],
        output_core_dims=[[QUANTITY]],
        kwargs={"names": names},
        dask="parallelized",
        output_dtypes=[np.float64],
        dask_gufunc_kwargs={"output_sizes": {QUANTITY: 3}, "allow_rechunk": True},
        keep_attrs=False,
    )


def summarize_units(values: NDArray[Any], *, names: tuple[str, ...]) -> Floats:
    """Return mean, standard error and number of the known units, added by name: ``(unit) -> (quantity)``."""
    order = sorted(range(len(names)), key=names.__getitem__)
    known = ~np.isnan(values)
    number = known.sum(axis=-1).astype(np.float64)
    total, squares = np.zeros((2, *values.shape[:-1]))
    for unit in order:
        total += np.where(known[..., unit], values[..., unit], 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / number
        for unit in order:
            squares += np.where(known[..., unit], (values[..., unit] - mean) ** 2, 0.0)
        error = np.sqrt(squares / np.where(number > 1, number - 1, np.nan) / number)
    return np.stack([mean, error, number], axis=-1)


def error_of_mean(standard_error: xr.DataArray, known: xr.DataArray, dim: str) -> xr.DataArray:
    """Return the standard error of a mean over fixed units, each with its own items."""
    # An unknown error of a known estimate is not 0: it makes the error of the mean unknown.
    variance: xr.DataArray = (standard_error**2).where(known, 0.0).sum(dim, skipna=False)
    error: xr.DataArray = variance**0.5 / known.sum(dim)
    return error
