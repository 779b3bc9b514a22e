"""Try estimators and intervals on simulated data sets of known area."""

from __future__ import annotations

import hashlib
import itertools
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from aucpr_dask.errors import InvalidInputError, bad_argument
from aucpr_dask.evaluation.block_results import evidence_of, interval_bounds
from aucpr_dask.evaluation.rankings import FACTS, evaluate_intervals, evaluate_rankings, items_of
from aucpr_dask.evaluation.request import Sampling
from aucpr_dask.evaluation.resampled_rankings import estimate_accelerations
from aucpr_dask.evaluation.results import versions
from aucpr_dask.progress import Progress, Tracker
from aucpr_dask.runs.submitting import as_they_finish
from aucpr_dask.schema.checks import choose, fraction, lookup, whole_number
from aucpr_dask.schema.estimators import IN_ONE_PASS, estimator_names
from aucpr_dask.schema.intervals import INTERVALS
from aucpr_dask.schema.options import EvaluationOptions, ResamplingOptions
from aucpr_dask.schema.terms import ESTIMATOR, ITEM, METHOD, MODEL
from aucpr_dask.simulate.scenarios import LABEL_DESIGNS, Scenario, bibeta, binormal, offset_uniform, refuse_one_class
from aucpr_dask.workers.connecting import Workers, connect

__all__ = ["study"]

Array = NDArray[np.float64]

BATCH = 250  # simulations of a task

CELL_DIMS = ("scenario", "n_items", "prevalence")
_RESAMPLES = 2  # a random stream of a simulation, next to those of its scores and labels

PAPER_ESTIMATORS = (
    "average_precision",
    "lower_trapezoid",
    "upper_trapezoid",
    "interpolated_max",
    "interpolated_mean",
    "interpolated_median",
    "interpolated_convex",
    "binormal",
)
PAPER_INTERVALS = ("binomial", "logit", "bootstrap", "cross_validation_t")
RECOMMENDED = ("average_precision", "lower_trapezoid", "interpolated_median")

SCENARIOS: dict[str, type[Scenario]] = {kind.__name__: kind for kind in (binormal, bibeta, offset_uniform)}

DESCRIPTIONS = {
    "true_area": "area under the true precision-recall curve",
    "mean": "mean estimate",
    "mean_error": "Monte Carlo standard error of the mean estimate",
    "standard_deviation": "standard deviation of the estimates",
    "bias": "mean estimate less the true area",
    "bias_ratio": "mean estimate over the true area",
    "bias_ratio_error": "Monte Carlo standard error of the bias ratio",
    "spread": "width of the central range that holds a share `level` of the estimates",
    "n_estimates": "simulations with an estimate",
    "coverage": "share of the simulations whose interval holds the true area",
    "coverage_error": "Monte Carlo standard error of the coverage",
    "miss_below": "share of the simulations whose interval lies below the true area",
    "miss_above": "share of the simulations whose interval lies above the true area",
    "undefined": "share of the simulations without an interval, which count as not covered",
    "lower": "mean lower bound",
    "upper": "mean upper bound",
    "width": "mean width of the intervals",
    "width_ratio": "mean width over the spread of the estimates",
    "miss_balance": "share of the misses that lie below the true area; 1/2 is balanced",
    "location_ratio": "mean location of the intervals over the true area",
    "n_locations": "simulations whose interval has a location",
    "n_positive": "positives of a simulation; expected ones if binomial",
}


@dataclass(frozen=True)
class Design:
    """What is computed of every simulation."""

    estimators: tuple[str, ...]
    intervals: tuple[str, ...]
    resampled: tuple[str, ...]
    level: float
    n_resamples: int
    n_folds: int
    label_design: str


@dataclass(frozen=True)
class Cell:
    """One scenario, number of items and prevalence; `seed` is that of its simulations."""

    scenario: Scenario
    n_items: int
    prevalence: float
    seed: int
    label_design: str

    def key(self, simulation: int) -> int:
        """Return the key of the resamples of a simulation."""
        return int(
            np.random.SeedSequence(self.seed, spawn_key=(simulation, _RESAMPLES)).generate_state(1, np.uint64)[0]
        )

    def sample(self, start: int, stop: int) -> tuple[Array, NDArray[np.int8]]:
        """Draw scores and labels of simulations `start` to `stop`, shape (simulation, item).

        If the number of positives is exact, all have the same labels, and their shape is (item).
        """
        chunks = (start, stop - start) if start else (stop,)
        options: dict[str, Any] = {"n_simulations": stop, "seed": self.seed, "chunks": chunks}
        scores = self.scenario.sample(self.n_items, self.prevalence, label_design=self.label_design, **options)
        drawn = scores[["score", "label"]].isel({MODEL: slice(start, stop)}, missing_dims="ignore")
        drawn = drawn.compute(scheduler="synchronous").transpose(..., ITEM)
        return drawn["score"].values, drawn["label"].values


def study(
    scenarios: str | Scenario | Sequence[str | Scenario] = ("binormal", "bibeta", "offset_uniform"),
    n_items: int | Sequence[int] = (100, 200, 500, 1000, 2000, 5000, 10_000),
    prevalence: float | Sequence[float] = 0.1,
    estimator: str | Sequence[str] = PAPER_ESTIMATORS,
    interval: str | Sequence[str] = PAPER_INTERVALS,
    level: float = 0.95,
    *,
    label_design: str = "exact",
    resampled: str | Sequence[str] | None = None,
    n_simulations: int = 10_000,
    n_resamples: int = 1000,
    n_folds: int = 10,
    seed: int = 0,
    workers: Workers = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> xr.Dataset:
    """Try estimators and intervals on simulated data sets whose true area is known.

    Every cell (scenario, number of items, prevalence) has its own data sets, and every data set has its own resamples,
    so that the randomness of 1000 resamples averages out over the simulations. Simulation i of a cell depends only on
    the seed, the cell and i: the numbers are bit-for-bit identical for any number of workers, other cells and further
    simulations.

    Without `workers`, the simulations run in local processes, which import the calling script: put the call under
    ``if __name__ == "__main__":`` there, or pass a running client. A notebook needs neither.

    Parameters
    ----------
    scenarios : str or Scenario, or sequence of them
        Names of :mod:`aucpr_dask.simulate.scenarios`, with the parameters of the paper, or scenarios.
    n_items : int or sequence of int
        Sizes of the data sets.
    prevalence : float or sequence of float
        Shares of positives.
    estimator : str or sequence of str
        Names from the registry; by default the eight of the paper.
    interval : str or sequence of str
        Names from the registry; by default the four of the paper. Every estimator gets the formula intervals.
    level : float
        Confidence level.
    label_design : {"exact", "binomial"}
        Whether every data set has ``round(n_items * prevalence)`` positives, which must leave at least one item of each
        class; or every item is positive with probability `prevalence`. Formula intervals use the positives of each
        data set; the others take the numbers of both classes as fixed in the first case, and as random in the second.
        One without positives, or without negatives, has no estimate and no interval.
    resampled : str or sequence of str, optional
        Those of `estimator` that get the other intervals, which cost more: by default those that the paper recommends
        (average_precision, lower_trapezoid, interpolated_median), or all if it recommends none of them.
    n_simulations : int
        Simulations of every cell.
    n_resamples, n_folds : int
        Bootstrap replicates, and folds of the cross-validation.
    seed : int
        Not negative.
    workers : None, int, str or distributed.Client
        See :func:`aucpr_dask.run`.
    on_progress : callable, optional
        Called with a :class:`aucpr_dask.progress.Progress` after each batch.

    Returns
    -------
    xarray.Dataset
        Over (scenario, n_items, prevalence), estimator and method; the ``attrs["description"]`` of every variable
        explains it. Errors are Monte Carlo standard errors.

        ``true_area``, ``n_positive``; of each estimator ``mean``, ``bias``, ``bias_ratio``, ``standard_deviation``,
        ``spread``, ``n_estimates``; of each interval ``coverage``, ``miss_below``, ``miss_above``, ``undefined``,
        ``lower``, ``upper``, ``width``, ``width_ratio`` (over the spread), ``miss_balance``, ``location_ratio`` and
        ``n_locations``. NaN where a method does not apply.

        The location of a formula interval is the estimate; that of any other is the middle of the same interval at
        level 0, such as the median of the replicates of ``bootstrap``, and the midpoint of ``cross_validation``.

    Raises
    ------
    ClusterError
        If worker processes do not start, as in a script without ``if __name__ == "__main__":``.

    References
    ----------
    Boyd, Eng & Page 2013, doi:10.1007/978-3-642-40994-3_29 (Figures 4 to 8). Newcombe 1998,
    doi:10.1002/(SICI)1097-0258(19980430)17:8<857::AID-SIM777>3.0.CO;2-E (coverage and balance of misses).

    Examples
    --------
    >>> import aucpr_dask as ap
    >>> study = ap.simulate.study("binormal", 100, 0.1, "average_precision", "logit", n_simulations=200)
    >>> round(study["bias_ratio"].item(), 1), round(study["coverage"].item(), 1)
    (1.2, 1.0)
    """
    started = time.monotonic()
    given = _distinct(scenarios, "scenarios")
    kinds = [one if isinstance(one, Scenario) else lookup(SCENARIOS, one, "scenario")() for one in given]
    _distinct(map(repr, kinds), "scenarios")
    names = estimator_names(estimator)
    design = Design(
        estimators=names,
        intervals=tuple(lookup(INTERVALS, name, "interval method").name for name in _distinct(interval, "interval")),
        resampled=_resampled(resampled, names),
        level=fraction(level, "level"),
        n_resamples=whole_number(n_resamples, "n_resamples", 1),
        n_folds=whole_number(n_folds, "n_folds", 2),
        label_design=choose(LABEL_DESIGNS, label_design, "label_design"),
    )
    sizes = [whole_number(n, "n_items", 2) for n in _distinct(n_items, "n_items")]
    shares = [fraction(share, "prevalence") for share in _distinct(prevalence, "prevalence")]
    seed, n_simulations = whole_number(seed, "seed", 0), whole_number(n_simulations, "n_simulations", 2)
    is_exact = design.label_design == "exact"
    for size, share in itertools.product(sizes, shares) if is_exact else ():
        refuse_one_class(size, share)
    cells = list(_cells(kinds, sizes, shares, seed, design.label_design))
    labels = {
        "scenario": np.array([one if isinstance(one, str) else repr(one) for one in given], dtype=object),
        "n_items": sizes,
        "prevalence": shares,
        ESTIMATOR: np.array(design.estimators, dtype=object),
        METHOD: np.array(design.intervals, dtype=object),
    }
    found = [
        summarize_cell(cell.scenario.area(cell.prevalence), **values, level=design.level)
        for cell, values in zip(cells, _run(cells, design, n_simulations, workers, on_progress), strict=True)
    ]
    shape = len(kinds), len(sizes), len(shares)
    summary = xr.Dataset(coords=labels)
    for name, (dims, first) in found[0].items():
        values = np.reshape([of_cell[name][1] for of_cell in found], (*shape, *np.shape(first)))
        summary[name] = (*CELL_DIMS, *dims), values
    counts = [[round(n * share) if is_exact else n * share for share in shares] for n in sizes]
    summary["n_positive"] = ("n_items", "prevalence"), np.array(counts)
    for variable in summary.data_vars.values():
        variable.attrs = {"description": DESCRIPTIONS[str(variable.name)]}
    summary.attrs = {name: list(one) if isinstance(one, tuple) else one for name, one in asdict(design).items()}
    summary.attrs |= {"scenarios": list(map(repr, kinds)), "seed": seed, "n_simulations": n_simulations}
    summary.attrs |= {"seconds": round(time.monotonic() - started, 3), "versions": versions()}
    return summary


def _cells(
    scenarios: Sequence[Scenario], n_items: Sequence[int], prevalence: Sequence[float], seed: int, label_design: str
) -> Iterator[Cell]:
    for facts in itertools.product(scenarios, n_items, prevalence):
        digest = hashlib.sha256(f"{seed} {facts!r}".encode()).digest()
        yield Cell(*facts, seed=int.from_bytes(digest[:7], "big"), label_design=label_design)


def _run(
    cells: Sequence[Cell],
    design: Design,
    n_simulations: int,
    workers: Workers,
    on_progress: Callable[[Progress], None] | None,
) -> list[dict[str, Array]]:
    """Return what `simulate_batch` finds of all simulations of each cell."""
    # Large ones first, so that workers finish at the same time.
    order = sorted(range(len(cells)), key=lambda place: -cells[place].n_items)
    batches = [(place, start) for place in order for start in range(0, n_simulations, BATCH)]
    calls = [(cells[place], start, min(start + BATCH, n_simulations), design) for place, start in batches]
    sizes = [stop - start for _, start, stop, _ in calls]
    costs = [size * call[0].n_items for size, call in zip(sizes, calls, strict=True)]
    found: dict[tuple[int, int], dict[str, Array]] = {}
    with connect(workers) as client:
        tracker = Tracker(sizes, costs, dashboard=client.dashboard_link)
        for number, result in as_they_finish(client, simulate_batch, calls):
            found[batches[number]] = result
            progress = tracker.finished(number)
            if on_progress is not None:
                on_progress(progress)
    parts = [[found[place, start] for start in range(0, n_simulations, BATCH)] for place in range(len(cells))]
    return [{name: np.concatenate([part[name] for part in of_cell]) for name in of_cell[0]} for of_cell in parts]


def simulate_batch(cell: Cell, start: int, stop: int, design: Design) -> dict[str, Array]:
    """Return estimates, bounds and locations of a batch; the first dimension is the simulation."""
    score, label = cell.sample(start, stop)
    n_positive = np.broadcast_to(np.count_nonzero(label, axis=-1), len(score))
    named: dict[str, Any] = {"score": score, "label": label}
    is_fixed = design.label_design == "exact"
    of_all = EvaluationOptions(estimator=design.estimators)
    # The closed form of the acceleration is for two strata.
    facts = FACTS if is_fixed and of_all.with_influence == of_all.in_one_pass else FACTS[:4]
    evaluated = evaluate_rankings(named, of_all, facts, is_fixed=is_fixed)
    estimate = evaluated.estimate
    bounds = np.full((*estimate.shape, len(design.intervals), 2), np.nan)
    location = np.full(bounds.shape[:-1], np.nan)
    is_formula = np.array([INTERVALS[name].is_formula for name in design.intervals], bool)
    others = tuple(np.array(design.intervals, object)[~is_formula])
    if others and design.resampled:
        chosen = [design.estimators.index(name) for name in design.resampled]
        resampling = ResamplingOptions(
            interval=others,
            level=design.level,
            n_resamples=design.n_resamples,
            n_folds=design.n_folds,
            prevalence_design="fixed" if is_fixed else "random",
        )
        options = EvaluationOptions(estimator=design.resampled, resampling=resampling)
        known = {name: values[:, chosen] for name, values in evaluated.facts.items()}
        is_fast = np.isin(design.resampled, IN_ONE_PASS)  # of others, to leave out each item takes long
        if "bca" in others and "acceleration" not in known:
            known["acceleration"] = np.full((len(score), len(chosen)), np.nan)
            if is_fast.any():
                fast = EvaluationOptions(estimator=tuple(np.array(design.resampled, object)[is_fast]))
                found = estimate_accelerations(*items_of(named, fast), fast, is_stratified=is_fixed)
                known["acceleration"][:, is_fast] = found
        of_chosen = evaluated._replace(estimate=estimate[:, chosen], facts=known)
        keys = np.array([cell.key(number) for number in range(start, stop)], dtype=np.uint64)
        named |= {"key": keys, "fold": fold_of(label, design.n_folds)}
        evidence = evidence_of(of_chosen, named, options, Sampling(is_stratified=is_fixed, n_folds=design.n_folds))
        here = np.ix_(np.arange(len(estimate)), np.array(chosen), np.flatnonzero(~is_formula))
        bounds[here] = interval_bounds(evidence, options, design.level)
        location[here] = interval_bounds(evidence, options, 0.0).mean(axis=-1)
        if "bca" in others:
            bounds[:, np.array(chosen)[~is_fast], design.intervals.index("bca")] = np.nan
    for values in (estimate, bounds, location):
        values[(n_positive == 0) | (n_positive == cell.n_items)] = np.nan
    for place in np.flatnonzero(is_formula):
        method = design.intervals[place]
        serves = [INTERVALS[method].serves(name) for name in design.estimators]
        formula = evaluate_intervals(estimate, n_positive[:, None], methods=(method,), level=design.level)
        bounds[:, serves, place] = formula[:, serves, 0]
        location[..., place] = estimate
    location[np.isnan(bounds).any(axis=-1)] = np.nan
    return {"estimate": estimate, "bounds": bounds, "location": location}


def fold_of(label: NDArray[np.int8], n_folds: int) -> NDArray[np.int64]:
    """Deal the items of each class to the folds in turn; items are exchangeable, so no shuffling is needed."""
    fold = np.empty(label.shape, dtype=np.int64)
    for value in (0, 1):
        is_member = label == value
        fold[is_member] = (np.cumsum(is_member, axis=-1)[is_member] - 1) % n_folds
    return fold


def summarize_cell(
    area: float, estimate: Array, bounds: Array, location: Array, level: float
) -> Mapping[str, tuple[tuple[str, ...], Any]]:
    """Compare the estimates and intervals of many simulations with the true area; return dimensions and values by name.

    `estimate` has the shape (simulation, estimator), `bounds` (simulation, estimator, method, 2), and `location` that
    of bounds without the last axis. Bounds may be NaN; a method without any bounds does not apply.
    """
    is_known = ~np.isnan(estimate)
    n_known = is_known.sum(axis=0)
    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # of an estimator without estimates
        mean, deviation = np.nanmean(estimate, axis=0), np.nanstd(estimate, axis=0, ddof=1)
        tail = (1 - level) / 2
        spread = np.subtract(*np.nanquantile(estimate, [1 - tail, tail], axis=0))
        mean_error = deviation / np.sqrt(n_known)
        lower, upper = np.nanmean(bounds, axis=0)[..., 0], np.nanmean(bounds, axis=0)[..., 1]
        is_below, is_above = (bounds[..., 1] < area), (bounds[..., 0] > area)
        is_undefined = np.isnan(bounds).any(axis=-1)
        applies = ~is_undefined.all(axis=0)
        miss_below, miss_above, undefined = (
            np.where(applies, missed.mean(axis=0), np.nan) for missed in (is_below, is_above, is_undefined)
        )
        is_covered = ~(is_below | is_above | is_undefined)
        coverage = np.where(applies, is_covered.mean(axis=0), np.nan)
        miss_balance = miss_below / (miss_below + miss_above)
        location_ratio = np.nanmean(location, axis=0) / area
    by_estimator = {
        "mean": mean,
        "mean_error": mean_error,
        "standard_deviation": deviation,
        "bias": mean - area,
        "bias_ratio": mean / area,
        "bias_ratio_error": mean_error / area,
        "spread": spread,
        "n_estimates": n_known,
    }
    by_method = {
        "coverage": coverage,
        "coverage_error": np.sqrt(coverage * (1 - coverage) / len(estimate)),
        "miss_below": miss_below,
        "miss_above": miss_above,
        "undefined": undefined,
        "lower": lower,
        "upper": upper,
        "width": upper - lower,
        "width_ratio": (upper - lower) / spread[:, None],
        "miss_balance": miss_balance,
        "location_ratio": location_ratio,
        "n_locations": np.where(applies, np.count_nonzero(~np.isnan(location), axis=0), np.nan),
    }
    return (
        {"true_area": ((), np.float64(area))}
        | {name: ((ESTIMATOR,), values) for name, values in by_estimator.items()}
        | {name: ((ESTIMATOR, METHOD), values) for name, values in by_method.items()}
    )


# Checks of arguments


def _distinct(values: Any, name: str) -> tuple[Any, ...]:
    """Return one or more values as a tuple; raise if there are none or duplicates."""
    found = tuple(values) if isinstance(values, Iterable) and not isinstance(values, str) else (values,)
    if found and len(set(found)) == len(found):
        return found
    raise bad_argument("a study needs distinct values to compare", name, found)


def _resampled(resampled: str | Sequence[str] | None, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the estimators that get all intervals, in the order of `names`."""
    if resampled is None:
        return tuple(name for name in names if name in RECOMMENDED) or names
    chosen = (resampled,) if isinstance(resampled, str) else tuple(resampled)
    unknown = [name for name in chosen if name not in names]
    if unknown:
        what, remedy = "only estimators of the study can be resampled", "name them in 'estimator' too"
        received = ", ".join(map(repr, unknown))
        raise InvalidInputError(what, "argument 'resampled'", received, ", ".join(names), remedy)
    return tuple(name for name in names if name in chosen)
