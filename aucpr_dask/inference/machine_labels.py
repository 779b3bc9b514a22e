"""Labels by people on some of the units, and labels by a machine on all of them: prediction-powered means.

Let y be the estimates by people's labels, of n units, and f those by the machine's, of N units. With b the slope of the
regression of y on f, the mean is estimated by::

    mean(y) - b (mean(f of the n) - mean(f of all N))

This is prediction-powered inference (Angelopoulos et al. 2023, doi:10.1126/science.adi6000). Its tuning parameter, here
``b (N - n) / N``, has the value of smallest variance (Angelopoulos, Duchi & Zrnic 2023, arXiv:2311.01453). For a mean
it is also the regression estimator of double sampling (Cochran 1977, Sampling Techniques, chapter 12). With r the
residuals and d the difference of the two means of f, its variance is::

    sum(r^2) / (n - 2) [1 / n + d^2 / sum((f - mean(f of the n))^2)] + b^2 var(f) / N

where the second term in brackets is due to the error of the slope. Intervals use Student's t with the n - 2 degrees of
freedom of the residuals.

A few units on which a machine's yes and no agree with people's do not show how often it errs. So to the residuals of
values that are 0 or 1, four are added that vary as much as the values do, and the intervals of their means are score
intervals with this variance. Of 8 to 100 of 300 units, rates of .5 to .95 and machines that are right on .75 to .99 of
the units, 91 to 100 % of these intervals hold, in 1,000 simulations of each; without both, 20 to 96 % did.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import scipy
import xarray as xr
from numpy.typing import NDArray

from aucpr_dask.errors import AlignmentError, FewUnitsWarning, InvalidInputError, few, naming, warn
from aucpr_dask.inference import pairs
from aucpr_dask.inference.designs import POWERED, UNITS, unit_names
from aucpr_dask.inference.methods import Goal, Pairs, Student, student_pairs
from aucpr_dask.inference.samples import Estimates, labels_of, read_estimates
from aucpr_dask.inference.units import Floats, Indices, mean_of_units, total_of_units
from aucpr_dask.schema.options import ComparisonOptions, SampleOptions
from aucpr_dask.schema.terms import ESTIMATOR, MEASURE, MODEL, OF_INTERVALS, Scores, nodes_of
from aucpr_dask.scores.validate import check_unique, where_of

HERE = "argument 'auxiliary'"
# How labels are read may differ, by `positive_from` and `unjudged`: people may give grades, a machine yes or no.
READ_ALIKE = ("missing", "ties", "nothing_ranked", "no_positives", "prevalence", "recall_range")
FEWEST = 3  # units that a regression with residuals needs
ADDED = 4  # residuals of values that are 0 or 1
ENOUGH = 50  # units that people labelled, from which .94 were covered where the machine errs on hard ones; 20: .92


# --- numbers -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PoweredMeans:
    """Means of R rows over units, with the help of machine labels."""

    mean: Floats
    error: Floats
    degrees: Floats  # of freedom of the error
    tuning: Floats
    mean_alone: Floats  # over the units that people labelled
    error_alone: Floats
    of_outcomes: NDArray[np.bool_]  # whether people's values are 0 and 1, or differences of such values


def powered_means(people: Floats, machine: Floats, labelled: NDArray[np.bool_]) -> PoweredMeans:
    """Return the means of rows of estimates: by people (R, n) and by machine (R, N), of which n are `labelled`.

    People's labels stand alone (the tuning is 0) if they are on all units or on fewer than three, or if the machine's
    estimates do not vary.
    """
    n_people, n_machine = people.shape[1], machine.shape[1]
    here = machine[:, labelled]
    mean, mean_here, mean_everywhere = mean_of_units(people), mean_of_units(here), mean_of_units(machine)
    deviation, predictor = people - mean[:, None], here - mean_here[:, None]
    squares, squares_alone = total_of_units(predictor**2), total_of_units(deviation**2)
    resolution = n_people * (pairs.ROUND_OFF * np.abs(machine).max(axis=1, initial=0.0)) ** 2
    helps = (squares > resolution) & (n_people < n_machine) & (n_people >= FEWEST)
    slope, lever = np.zeros((2, len(people)))
    shift = mean_here - mean_everywhere
    np.divide(total_of_units(predictor * deviation), squares, out=slope, where=helps)
    np.divide(shift**2, squares, out=lever, where=helps)
    degrees = n_people - 1.0 - helps
    residual = total_of_units((deviation - slope[:, None] * predictor) ** 2)
    with np.errstate(invalid="ignore", divide="ignore"):  # a single unit
        noise = residual / degrees
        powered = mean - slope * shift
        of_outcomes = _are_outcomes(people)
        variance = np.maximum(np.abs(people).mean(axis=1), np.abs(powered)) - powered**2  # of outcomes
        moderated = (residual + ADDED * np.maximum(variance, 0)) / (degrees + ADDED)
        noise = np.where(helps & of_outcomes & _are_outcomes(machine), moderated, noise)
        spread = total_of_units((machine - mean_everywhere[:, None]) ** 2) / (n_machine - 1)
        error = np.sqrt(noise / n_people + noise * lever + np.where(helps, slope**2 * spread / n_machine, 0.0))
        error_alone = np.sqrt(squares_alone / (n_people - 1) / n_people)
    tuning = slope * (n_machine - n_people) / n_machine
    return PoweredMeans(powered, error, degrees, tuning, mean, error_alone, of_outcomes)


def _are_outcomes(values: Floats) -> NDArray[np.bool_]:
    """Return which rows are 0 and 1, or differences of such values."""
    return np.asarray(np.isin(np.abs(values), (0.0, 1.0)).all(axis=1))


class PredictionPowered(Student):
    """Paired t test over units that people labelled, each difference adjusted by the machine's on all units."""

    more = ("tuning", "width_ratio")

    def __init__(self, people: Floats, machine: Floats, labelled: NDArray[np.bool_], goal: Goal) -> None:
        super().__init__(people, goal)
        self.machine, self.labelled = machine, labelled
        self.mean = powered_means(people, machine, labelled).mean
        n_people, n_machine = labelled.sum(), labelled.size
        self.degrees = int(n_people - 1 - (FEWEST <= n_people < n_machine))

    def pairs(self, first: Indices, second: Indices) -> Pairs:
        """Student's t of the adjusted differences, tuned for each pair."""
        difference, error, tuning, alone = np.empty((4, first.size))
        for panel in pairs.slices(first.size, 8 * self.labelled.size):
            j, k = first[panel], second[panel]
            powered = powered_means(self.values[j] - self.values[k], self.machine[j] - self.machine[k], self.labelled)
            difference[panel], error[panel] = powered.mean, powered.error
            tuning[panel], alone[panel] = powered.tuning, powered.error_alone
        reach = pairs.parametric_quantile(self.goal.level, self.degrees) * error
        reach_alone = pairs.parametric_quantile(self.goal.level, self.values.shape[1] - 1) * alone
        ratio = np.divide(reach, reach_alone, out=np.ones(reach.shape), where=reach_alone > 0)
        found = student_pairs(first, second, difference, error, self.degrees, self.goal)
        return replace(found, more={"tuning": tuning, "width_ratio": ratio})


# --- two evaluations of the same models ----------------------------------------------------------------------------


def refuse_other_samples(question: SampleOptions) -> None:
    """Raise unless units are the sample: those that people labelled."""
    if question.sample not in (None, UNITS) or question.method not in (None, POWERED):
        what = "with machine labels, the sample is the units that people labelled, and the method is prediction-powered"
        received = f"over={question.over!r}, method={question.method!r}"
        allowed, remedy = f"the units, method={POWERED!r}", "leave out these options, or auxiliary"
        raise InvalidInputError(what, HERE, received, allowed, remedy)


def machine_nodes(data: Scores, machine: Scores, over: str) -> dict[str, xr.Dataset]:
    """Return the evaluations with machine labels by data set, after checking that each is as the one by people."""
    ours, theirs = dict(nodes_of(data)), dict(nodes_of(machine))
    for path, node in ours.items():
        if over not in node["estimate"].dims:
            what = "machine labels help where people labelled a part of the queries, and here there are no queries"
            remedy = "for a DataTree, over='dataset' takes the data sets as units"
            raise InvalidInputError(what, where_of(path) if path else HERE, remedy=remedy)
    if lacking := [path for path in ours if path not in theirs]:
        received = few(repr(path) if path else "the one without a name" for path in lacking)
        raise _lacks("data sets", received, "data sets are matched by name: those that people labelled, or more")
    for path, node in ours.items():
        both = node.attrs, theirs[path].attrs
        if not all("missing" in attrs for attrs in both):
            continue  # those made by hand do not say how they were evaluated
        values = {name: [np.asarray(attrs.get(name)) for attrs in both] for name in READ_ALIKE}
        different = [f"{name}={a.tolist()!r} and {b.tolist()!r}" for name, (a, b) in values.items() if np.any(a != b)]
        if different:
            what = "the evaluations with people's and with machine labels have different options"
            received, allowed = "; ".join(different), f"the same {', '.join(READ_ALIKE)}"
            raise InvalidInputError(what, where_of(path), received, allowed, "evaluate both with the same options")
    return theirs


def powered_method(
    node: xr.Dataset, machine: xr.Dataset, estimates: Estimates, question: ComparisonOptions
) -> tuple[Estimates, PredictionPowered]:
    """Return the estimates by people, and the method that compares with the machine's help."""
    dim = str(estimates.dim)
    matched = xr.Dataset({"estimate": _matched(node["estimate"], machine["estimate"], dim)})
    with naming("evaluation", "machine"):
        others = read_estimates(matched, dim, question.estimator, question.incomplete)
    estimates = estimates.of_models(estimates.models.isin(others.models))
    others = others.of_models(others.models.isin(estimates.models))
    by_people, by_machine = set(estimates.units), set(others.units)
    _check_labelled(by_people - by_machine, by_machine & set(estimates.left_out), len(by_people), dim)
    labelled = np.array([unit in by_people for unit in others.units])
    goal = Goal(question.level, question.equivalence)
    return estimates, PredictionPowered(estimates.values, others.values, labelled, goal)


def summarize_with_machine(
    result: xr.Dataset, machine: xr.Dataset, dim: str, level: float, incomplete: str | None
) -> xr.Dataset:
    """Return means over units, their errors and the quantiles of Student's t, of each model on the units that it has.

    Those of people's labels alone are called so. Models that know the same units are treated together.
    """
    ours = result["estimate"].compute()
    theirs = _matched(ours, machine["estimate"], dim).compute()
    ours, theirs = (one.drop_vars(OF_INTERVALS, errors="ignore") for one in (ours, theirs))
    ours = ours.transpose(..., dim)
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
    evaluated = ~np.isnan(by_people).all(axis=1)
    unknown_here, unknown = (np.isnan(values[evaluated][:, columns]) for values in (by_people, by_machine))
    of_people = np.array(units, dtype=object)[columns]
    alone, other = (unknown & ~unknown_here).any(axis=0), (unknown_here & ~unknown).any(axis=0)
    _check_labelled(of_people[alone], of_people[other], len(columns), dim)
    known = np.stack([~np.isnan(by_people), ~np.isnan(by_machine)])
    n_people, n_machine = known.sum(axis=-1)
    names = ("mean", "error", "quantile", "tuning", "mean_alone", "error_alone", "quantile_alone", "of_outcomes")
    found = np.full((len(names), len(by_people)), np.nan)
    for pattern in np.unique(known[:, n_people > 0], axis=1).swapaxes(0, 1):
        here, everywhere = pattern
        alike = np.flatnonzero((known == pattern[:, None]).all(axis=(0, 2)))
        powered = powered_means(by_people[alike][:, here], by_machine[alike][:, everywhere], here[everywhere])
        degrees = np.stack([powered.degrees, np.full(alike.size, here.sum() - 1.0)])  # without any, NaN
        quantile, by_people_alone = scipy.special.stdtrit(np.where(degrees > 0, degrees, np.nan), 0.5 + level / 2)
        means = powered.mean, powered.error, quantile, powered.tuning
        found[:, alike] = *means, powered.mean_alone, powered.error_alone, by_people_alone, powered.of_outcomes
    summaries = {**dict(zip(names, found, strict=True)), "n_people": n_people, "n_machine": n_machine}
    template = ours.isel({dim: 0}, drop=True)
    return xr.Dataset({name: template.copy(data=one.reshape(template.shape)) for name, one in summaries.items()})


def _matched(ours: xr.DataArray, theirs: xr.DataArray, dim: str) -> xr.DataArray:
    """Return the machine's estimates of the models and estimators of people's, in their order, and of all its units."""
    for name in (ESTIMATOR, MEASURE, MODEL):
        theirs = _select(ours, theirs, name)
    if set(ours.dims) != set(theirs.dims):
        what = "the estimates by people's and by machine labels have different dimensions"
        received, allowed = (f"({', '.join(map(str, one.dims))})" for one in (theirs, ours))
        raise AlignmentError(what, HERE, received, allowed, "pass two results of aucpr_dask.evaluate")
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
        raise _lacks(f"{dim}s", few(map(repr, lacking)), "evaluate the same models by the same estimators")
    if dim not in theirs.dims:
        return theirs.expand_dims(dim) if dim in ours.dims else theirs
    places = [available.index(name) for name in names]
    return theirs.isel({dim: places if dim in ours.dims else places[0]}).assign_coords({dim: ours[dim]})


def _unlabelled(plural: str, dim: str) -> AlignmentError:
    what = f"{plural} are matched between people's and machine labels by name, and these have no names"
    return AlignmentError(what, HERE, remedy=f"assign_coords({dim}=[...])")


def _lacks(plural: str, received: str, remedy: str) -> AlignmentError:
    what = f"the evaluation with machine labels lacks {plural} of the one with people's"
    return AlignmentError(what, HERE, received, None, remedy)


def _check_labelled(by_people: Collection[str], by_machine: Collection[str], n_units: int, dim: str) -> None:
    """Raise if some units that people labelled have an estimate by people's labels or by the machine's, not by both.

    Warn if people labelled so few units that the intervals were not measured to hold.
    """
    sides, (singular, plural) = {"people's": by_people, "machine": by_machine}, unit_names(dim, {})
    alone = [f"by {side} labels alone: {few(map(repr, sorted(units)))}" for side, units in sides.items() if len(units)]
    if alone:
        what = f"some {plural} that people labelled have an estimate by one kind of labels only"
        remedy = f"evaluate both with no_positives='zero' if a {singular} has no positives by one kind of labels"
        raise AlignmentError(what, HERE, "; ".join(alone), None, remedy)
    if n_units < ENOUGH:
        warn(
            f"people labelled {n_units} {plural if n_units != 1 else singular}: intervals with machine labels are too "
            f"narrow with fewer than {ENOUGH} if the machine errs on hard ones.",
            FewUnitsWarning,
        )
