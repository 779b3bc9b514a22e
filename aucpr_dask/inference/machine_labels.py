"""Two evaluations of the same models: by labels of people on some units, and by labels of a machine on all."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import dask
import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.special import stdtrit

from aucpr_dask.errors import AlignmentError, FewUnitsWarning, InvalidInputError, few
from aucpr_dask.inference.designs import POWERED, UNITS
from aucpr_dask.inference.families import Floats
from aucpr_dask.inference.measures import unit_names
from aucpr_dask.inference.methods import Goal
from aucpr_dask.inference.prediction_powered import PredictionPowered, powered_means, width_ratio
from aucpr_dask.inference.samples import Estimates, labels_of, read_estimates
from aucpr_dask.schema.options import ComparisonOptions, SampleOptions
from aucpr_dask.schema.trees import Scores, nodes_of
from aucpr_dask.schema.variables import ESTIMATOR, MEASURE, MODEL
from aucpr_dask.scores.validate import check_unique

HERE = "argument 'machine'"
# How labels are read may differ, by `positive_from` and `unjudged`: people may give grades, a machine yes or no.
READ_ALIKE = ("missing", "ties", "nothing_ranked", "no_positives", "prevalence", "recall_range")
ENOUGH = 20  # units that people labelled: docs/judgments.md has what intervals cover with fewer


@contextmanager
def of_machine() -> Iterator[None]:
    """Say in an error that it is about the evaluation with machine labels."""
    try:
        yield
    except InvalidInputError as error:
        raise error.with_part("evaluation", "machine") from error


def refuse_other_samples(question: SampleOptions) -> None:
    """Raise unless units are the sample: those that people labelled."""
    if question.sample not in (None, UNITS) or question.method not in (None, POWERED):
        raise InvalidInputError(
            "with machine labels, the sample is the units that people labelled, and the method is prediction-powered",
            where=HERE,
            received=f"sample={question.sample!r}, method={question.method!r}",
            allowed=f"sample={UNITS!r}, method={POWERED!r}",
            remedy="leave out these options, or machine",
        )


def machine_nodes(data: Scores, machine: Scores, over: str) -> dict[str, xr.Dataset]:
    """Return the evaluations with machine labels by data set, after checking that each is as the one by people."""
    ours, theirs = dict(nodes_of(data)), dict(nodes_of(machine))
    if single := [path for path, node in ours.items() if over not in node["estimate"].dims]:
        raise InvalidInputError(
            "machine labels help where people labelled a part of the queries, and here there are no queries",
            where=f"data set {single[0]!r}" if single[0] else HERE,
            remedy="for a DataTree, over='dataset' takes the data sets as units",
        )
    if lacking := [path for path in ours if path not in theirs]:
        received = few(repr(path) if path else "the one without a name" for path in lacking)
        raise _lacks("data sets", received, "data sets are matched by name: those that people labelled, or more")
    for path, node in ours.items():
        _refuse_other_options(node, theirs[path], path)
    return theirs


def _refuse_other_options(result: xr.Dataset, machine: xr.Dataset, path: str) -> None:
    """Raise if two results say that they were evaluated with different options."""
    if not all("missing" in node.attrs for node in (result, machine)):
        return  # made by hand
    values = {name: [np.asarray(node.attrs.get(name)) for node in (result, machine)] for name in READ_ALIKE}
    different = [f"{name}={a.tolist()!r} and {b.tolist()!r}" for name, (a, b) in values.items() if np.any(a != b)]
    if different:
        raise InvalidInputError(
            "the evaluations with people's and with machine labels have different options",
            where=f"data set {path!r}" if path else None,
            received="; ".join(different),
            allowed=f"the same {', '.join(READ_ALIKE)}",
            remedy="evaluate both with the same options",
        )


def powered_method(
    node: xr.Dataset, machine: xr.Dataset, estimates: Estimates, question: ComparisonOptions
) -> tuple[Estimates, PredictionPowered, int]:
    """Return the estimates by people, the method that compares with the machine's help, and its number of units."""
    dim = str(estimates.dim)
    matched = xr.Dataset({"estimate": _matched(node["estimate"], machine["estimate"], dim)})
    with of_machine():
        others = read_estimates(matched, dim, question.estimator, question.incomplete)
    estimates = estimates.of_models(estimates.models.isin(others.models))
    others = others.of_models(others.models.isin(estimates.models))
    by_people, by_machine = set(estimates.units), set(others.units)
    _refuse_one_sided(by_people - by_machine, by_machine & set(estimates.left_out), dim)
    _warn_of_few_units(len(by_people), dim)
    labelled = np.array([unit in by_people for unit in others.units])
    goal = Goal(question.level, question.equivalence)
    return estimates, PredictionPowered(estimates.values, others.values, labelled, goal), labelled.size


def summarize_with_machine(
    result: xr.Dataset, machine: xr.Dataset, dim: str, level: float, incomplete: str | None
) -> xr.Dataset:
    """Return means over units, their errors and how far intervals reach, of each model on the units that it has."""
    ours, theirs = dask.compute(result["estimate"], _matched(result["estimate"], machine["estimate"], dim))
    ours = ours.drop_vars("level", errors="ignore").transpose(..., dim)
    place_of = {str(label): place for place, label in enumerate(labels_of(theirs, dim))}
    units = sorted(place_of)
    everywhere = theirs.transpose(*ours.dims).values[..., [place_of[unit] for unit in units]]
    by_machine = np.asarray(everywhere, dtype=np.float64).reshape(-1, len(units))
    by_people = np.full(by_machine.shape, np.nan)
    columns = [units.index(str(label)) for label in labels_of(ours, dim)]
    by_people[:, columns] = ours.values.reshape(-1, len(columns))
    if incomplete == "drop_models":  # those left out of one evaluation
        gone = np.isnan(by_people).all(axis=1) | np.isnan(by_machine).all(axis=1)
        by_people[gone], by_machine[gone] = np.nan, np.nan
    _refuse_one_sided_rows(by_people, by_machine, columns, units, dim)
    _warn_of_few_units(len(columns), dim)
    template = ours.isel({dim: 0}, drop=True)
    summaries = _summaries(by_people, by_machine, level).items()
    return xr.Dataset({name: template.copy(data=column.reshape(template.shape)) for name, column in summaries})


def _refuse_one_sided_rows(
    by_people: Floats, by_machine: Floats, labelled: Sequence[int], units: Sequence[str], dim: str
) -> None:
    """Raise if a model that people evaluated has an estimate of a unit by one kind of labels only."""
    evaluated = ~np.isnan(by_people).all(axis=1)
    unknown_here, unknown = np.isnan(by_people[evaluated][:, labelled]), np.isnan(by_machine[evaluated][:, labelled])
    alone, other = (unknown & ~unknown_here).any(axis=0), (unknown_here & ~unknown).any(axis=0)
    names = np.array([units[place] for place in labelled], dtype=object)
    _refuse_one_sided(names[alone].tolist(), names[other].tolist(), dim)


def _summaries(by_people: Floats, by_machine: Floats, level: float) -> dict[str, NDArray[Any]]:
    """Return the summaries of rows over units; rows that know the same units are treated together."""
    known = np.stack([~np.isnan(by_people), ~np.isnan(by_machine)])
    n_people, n_machine = known.sum(axis=-1)
    found = np.full((5, len(by_people)), np.nan)
    for pattern in np.unique(known[:, n_people > 0], axis=1).swapaxes(0, 1):
        here, everywhere = pattern
        alike = np.flatnonzero((known == pattern[:, None]).all(axis=(0, 2)))
        powered = powered_means(by_people[alike][:, here], by_machine[alike][:, everywhere], here[everywhere])
        reach = reach_of_t(level, powered.degrees) * powered.error
        alone = reach_of_t(level, here.sum() - 1.0) * powered.error_alone
        found[:, alike] = powered.mean, powered.error, reach, powered.tuning, width_ratio(reach, alone)
    names = ("mean", "error", "reach", "tuning", "width_ratio")
    return dict(zip(names, found, strict=True)) | {"n_people": n_people, "n_machine": n_machine}


def reach_of_t(level: float, degrees: Floats | float) -> Floats:
    """Return how many errors an interval reaches; NaN without degrees of freedom."""
    return np.asarray(stdtrit(np.where(np.asarray(degrees) > 0, degrees, np.nan), 0.5 + level / 2))


def _matched(ours: xr.DataArray, theirs: xr.DataArray, dim: str) -> xr.DataArray:
    """Return the machine's estimates of the models and estimators of people's, in their order, and of all its units."""
    for name in (ESTIMATOR, MEASURE, MODEL):
        theirs = _select(ours, theirs, name)
    if set(ours.dims) != set(theirs.dims):
        raise AlignmentError(
            "the estimates by people's and by machine labels have different dimensions",
            where=HERE,
            received=f"({', '.join(map(str, theirs.dims))})",
            allowed=f"({', '.join(map(str, ours.dims))})",
            remedy="pass two results of aucpr_dask.evaluate",
        )
    singular, plural = unit_names(dim, {})
    if dim not in ours.indexes or dim not in theirs.indexes:
        raise _unlabelled(plural, dim)
    for one in (ours, theirs):
        check_unique(one.indexes[dim], dim, "variable 'estimate'")
    if lacking := sorted(set(map(str, ours.indexes[dim])) - set(map(str, theirs.indexes[dim]))):
        remedy = f"label by machine every {singular} that people labelled, or leave those out of people's evaluation"
        raise _lacks(plural, few(map(repr, lacking)), remedy)
    return theirs


def _select(ours: xr.DataArray, theirs: xr.DataArray, dim: str) -> xr.DataArray:
    """Return the estimates with the labels along `dim` that people's have, in their order."""
    if dim not in ours.coords or dim not in theirs.coords:
        if dim == MODEL and (dim in ours.dims or dim in theirs.dims):
            raise _unlabelled("models", dim)
        return theirs
    names, available = ([str(label) for label in np.atleast_1d(one[dim].values)] for one in (ours, theirs))
    if dim in theirs.indexes:
        check_unique(theirs.indexes[dim], dim, "variable 'estimate'")
    if lacking := [name for name in names if name not in available]:
        remedy = "evaluate the same models by the same estimators"
        raise _lacks(f"{dim}s", few(map(repr, lacking)), remedy)
    if dim not in theirs.dims:
        return theirs.expand_dims(dim) if dim in ours.dims else theirs
    places = [available.index(name) for name in names]
    return theirs.isel({dim: places if dim in ours.dims else places[0]}).assign_coords({dim: ours[dim]})


def _unlabelled(plural: str, dim: str) -> AlignmentError:
    return AlignmentError(
        f"{plural} are matched between people's and machine labels by name, and these have no names",
        where=HERE,
        remedy=f"assign_coords({dim}=[...])",
    )


def _lacks(plural: str, received: str, remedy: str) -> AlignmentError:
    return AlignmentError(
        f"the evaluation with machine labels lacks {plural} of the one with people's",
        where=HERE,
        received=received,
        remedy=remedy,
    )


def _refuse_one_sided(by_people: Collection[str], by_machine: Collection[str], dim: str) -> None:
    """Raise if some units that people labelled have an estimate by people's labels or by the machine's, not by both."""
    sides = (("people's", by_people), ("machine", by_machine))
    if not any(units for _, units in sides):
        return
    singular, plural = unit_names(dim, {})
    raise AlignmentError(
        f"some {plural} that people labelled have an estimate by one kind of labels only",
        where=HERE,
        received="; ".join(
            f"by {side} labels alone: {few(map(repr, sorted(units)))}" for side, units in sides if units
        ),
        remedy=f"evaluate both with no_positives='zero' if a {singular} has no positives by one kind of labels",
    )


def _warn_of_few_units(n_units: int, dim: str) -> None:
    """Warn if people labelled so few units that the intervals were not measured to hold."""
    if n_units < ENOUGH:
        warnings.warn(
            f"people labelled {n_units} {unit_names(dim, {})[n_units != 1]}: intervals with machine labels are too "
            f"narrow at times with fewer than {ENOUGH}.",
            FewUnitsWarning,
            stacklevel=2,
        )
