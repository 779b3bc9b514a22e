"""Try estimators and intervals on simulated data sets of known area.

The results of every simulation are recorded, so that a study can be interrupted, resumed and extended. Its summary is a
function of the records alone.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import xarray as xr
import zarr
from numpy.typing import NDArray

from aucpr_dask.clusters.connecting import Cluster, connect
from aucpr_dask.errors import InvalidInputError, StoreError, bad_argument
from aucpr_dask.evaluation.block_results import evidence_of, interval_bounds
from aucpr_dask.evaluation.rankings import FACTS, evaluate_intervals, evaluate_rankings
from aucpr_dask.evaluation.request import Sampling
from aucpr_dask.evaluation.results import versions
from aucpr_dask.progress import Progress, Tracker
from aucpr_dask.runs.submitting import as_they_finish
from aucpr_dask.schema.checks import choose, fraction, lookup, whole_number
from aucpr_dask.schema.estimators import IN_ONE_PASS, estimator_names
from aucpr_dask.schema.intervals import INTERVALS
from aucpr_dask.schema.options import EvaluationOptions, ResamplingOptions, renamed
from aucpr_dask.schema.terms import BOUND, BOUNDS, ESTIMATOR, ITEM, METHOD, MODEL
from aucpr_dask.simulate.scenarios import LABEL_DESIGNS, Scenario, bibeta, binormal, offset_uniform
from aucpr_dask.storage.backends import open_backend
from aucpr_dask.storage.stores import create_store, open_array, read_root_attrs
from aucpr_dask.storage.urls import concealed

__all__ = ["study"]

Array = NDArray[np.float64]

KIND = "aucpr_dask.study"
PARAMETERS = {"methods": "intervals", "folds": "n_folds", "n_positive": "label_design"}  # by their names in records
BATCH = 250  # simulations of a task, and of a chunk of the records

SCENARIO, N_ITEMS, PREVALENCE, SIMULATION = "scenario", "n_items", "prevalence", "simulation"
_RESAMPLES = 2  # a random stream of a simulation, next to those of its scores and labels
CELL_DIMS = (SCENARIO, N_ITEMS, PREVALENCE)

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
    """Everything that the numbers of a simulation depend on, except its own number."""

    # Named as stores of version 0.1 record them, so that these resume; PARAMETERS has what `study` calls them.

    scenarios: tuple[str, ...]
    n_items: tuple[int, ...]
    prevalence: tuple[float, ...]
    estimators: tuple[str, ...]
    resampled: tuple[str, ...]
    methods: tuple[str, ...]  # the intervals that need more than the estimate and the positives
    level: float
    n_resamples: int
    folds: int
    seed: int
    n_positive: str  # as of `Scenario.sample`


@dataclass(frozen=True)
class Cell:
    """One scenario, number of items and prevalence; `seed` is that of its simulations."""

    index: tuple[int, int, int]
    scenario: Scenario
    n_items: int
    prevalence: float
    seed: int
    n_positive: str

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
        scores = self.scenario.sample(self.n_items, self.prevalence, label_design=self.n_positive, **options)
        drawn = scores[["score", "label"]].isel({MODEL: slice(start, stop)}, missing_dims="ignore")
        drawn = drawn.compute(scheduler="synchronous").transpose(..., ITEM)
        return drawn["score"].values, drawn["label"].values


@renamed(n_positive="label_design", folds="n_folds")
def study(
    scenarios: str | Scenario | Sequence[str | Scenario] = ("binormal", "bibeta", "offset_uniform"),
    n_items: int | Sequence[int] = (100, 200, 500, 1000, 2000, 5000, 10_000),
    prevalence: float | Sequence[float] = 0.1,
    estimators: str | Sequence[str] = PAPER_ESTIMATORS,
    intervals: str | Sequence[str] = PAPER_INTERVALS,
    level: float = 0.95,
    *,
    label_design: str = "exact",
    resampled: str | Sequence[str] | None = None,
    n_simulations: int = 10_000,
    n_resamples: int = 1000,
    n_folds: int = 10,
    seed: int = 0,
    url: str | Path | None = None,
    cluster: Cluster = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> xr.Dataset:
    """Try estimators and intervals on simulated data sets whose true area is known.

    Every cell (scenario, number of items, prevalence) has its own data sets, and every data set has its own resamples,
    so that the randomness of 1000 resamples averages out over the simulations. Simulation i of a cell depends only on
    the seed, the cell and i: the numbers are bit-for-bit identical for any number of workers, other cells and further
    simulations.

    Without `cluster`, the simulations run in local processes, which import the calling script: put the call under
    ``if __name__ == "__main__":`` there, or pass a running client. A notebook needs neither.

    Parameters
    ----------
    scenarios : str or Scenario, or sequence of them
        Names of :mod:`aucpr_dask.simulate.scenarios`, with the parameters of the paper, or scenarios.
    n_items : int or sequence of int
        Sizes of the data sets.
    prevalence : float or sequence of float
        Shares of positives.
    estimators : str or sequence of str
        Names from the registry; by default the eight of the paper.
    intervals : str or sequence of str
        Names from the registry; by default the four of the paper. Every estimator gets the formula intervals.
    level : float
        Confidence level.
    label_design : {"exact", "binomial"}
        Whether every data set has ``round(n_items * prevalence)`` positives, which must leave at least one item of each
        class; or every item is positive with probability `prevalence`. Formula intervals use the positives of each
        data set; the others take the numbers of both classes as fixed in the first case, and as random in the second.
        One without positives, or without negatives, has no estimate and no interval.
    resampled : str or sequence of str, optional
        The `estimators` that get the other intervals, which cost more: by default those that the paper recommends
        (average_precision, lower_trapezoid, interpolated_median), or all if it recommends none of them.
    n_simulations : int
        Simulations of every cell.
    n_resamples, n_folds : int
        Bootstrap replicates, and folds of the cross-validation.
    seed : int
        Not negative.
    url : str or Path, optional
        Where to record the results of every simulation. Recorded simulations are not computed again: an interrupted
        study resumes, and a larger `n_simulations` extends it. Formula intervals are not recorded and may change from
        call to call. All other parameters must stay; another study needs another store.
    cluster : None, int, str or distributed.Client
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
    InvalidInputError
        If an argument is not allowed.
    StoreError
        If `url` holds something else, or a study with other parameters, which are named.
    ClusterError
        If worker processes do not start, as in a script without ``if __name__ == "__main__":``.

    References
    ----------
    Boyd, Eng & Page 2013, doi:10.1007/978-3-642-40994-3_29 (Figures 4 to 8). Newcombe 1998,
    doi:10.1002/(SICI)1097-0258(19980430)17:8<857::AID-SIM777>3.0.CO;2-E (coverage and balance of misses).

    Examples
    --------
    >>> found = study(["binormal"], [100], estimators=["average_precision"], intervals=["logit"], n_simulations=200,
    ...               cluster=1)
    >>> cell = found.sel(scenario="binormal", n_items=100, prevalence=0.1, estimator="average_precision")
    >>> print(f"{float(cell['bias_ratio']):.1f}, {cell['coverage'].item():.1f}")
    1.2, 1.0
    """
    started = time.monotonic()
    given = _distinct(scenarios, "scenarios")
    kinds = [_scenario(scenario) for scenario in given]
    methods = tuple(lookup(INTERVALS, name, "interval method").name for name in _distinct(intervals, "intervals"))
    names = estimator_names(estimators)
    design = Design(
        scenarios=_distinct(map(repr, kinds), "scenarios"),
        n_items=tuple(whole_number(n, "n_items", 2) for n in _distinct(n_items, "n_items")),
        prevalence=tuple(fraction(share, "prevalence") for share in _distinct(prevalence, "prevalence")),
        estimators=names,
        resampled=_resampled(resampled, names),
        methods=tuple(name for name in methods if not INTERVALS[name].is_formula),
        level=fraction(level, "level"),
        n_resamples=whole_number(n_resamples, "n_resamples", 1),
        folds=whole_number(n_folds, "n_folds", 2),
        seed=whole_number(seed, "seed", 0),
        n_positive=choose(LABEL_DESIGNS, label_design, "label_design"),
    )
    n_simulations = whole_number(n_simulations, "n_simulations", 2)
    cells = list(_cells(design, kinds))
    if design.n_positive == "exact":
        _refuse_one_class(cells)
    records = _open_records(design, n_simulations, url)
    _run(cells, design, records, n_simulations, cluster, on_progress)
    summary = _summarize(cells, design, methods, records, n_simulations)
    labels = [scenario if isinstance(scenario, str) else repr(scenario) for scenario in given]
    summary = summary.assign_coords({SCENARIO: np.array(labels, dtype=object)})
    summary.attrs = _parameters(design) | {
        "intervals": list(methods),
        "n_simulations": n_simulations,
        "seconds": round(time.monotonic() - started, 3),
        "versions": versions(),
    }
    return summary


def _cells(design: Design, scenarios: Sequence[Scenario]) -> Iterator[Cell]:
    for index in np.ndindex(len(scenarios), len(design.n_items), len(design.prevalence)):
        i, j, k = index
        facts = scenarios[i], design.n_items[j], design.prevalence[k]
        digest = hashlib.sha256(f"{design.seed} {facts!r}".encode()).digest()
        yield Cell(index, *facts, seed=int.from_bytes(digest[:7], "big"), n_positive=design.n_positive)


# Running


def _run(
    cells: Sequence[Cell],
    design: Design,
    records: Mapping[str, Any],
    n_simulations: int,
    cluster: Cluster,
    on_progress: Callable[[Progress], None] | None,
) -> None:
    """Compute the simulations that are not recorded yet; only this process writes records."""
    batches = list(_missing(cells, records["is_done"], n_simulations))
    if not batches:
        return
    sizes = [stop - start for _, start, stop in batches]
    costs = [size * cell.n_items for size, (cell, _, _) in zip(sizes, batches, strict=True)]
    with connect(cluster) as client:
        tracker = Tracker(sizes, costs, dashboard=client.dashboard_link)
        calls = [(*batch, design) for batch in batches]
        for number, result in as_they_finish(client, simulate_batch, calls):
            cell, start, stop = batches[number]
            for name, values in (*result.items(), ("is_done", True)):  # last, when the others are written
                records[name][(*cell.index, slice(start, stop))] = values
            progress = tracker.finished(number)
            if on_progress is not None:
                on_progress(progress)


def _missing(cells: Sequence[Cell], is_done: Any, n_simulations: int) -> Iterator[tuple[Cell, int, int]]:
    """Yield batches of simulations to compute; large ones first, so that workers finish at the same time."""
    for cell in sorted(cells, key=lambda cell: -cell.n_items):
        done = is_done[cell.index][:n_simulations]
        for start in range(0, n_simulations, BATCH):
            stop = min(start + BATCH, n_simulations)
            first = start + int(np.count_nonzero(done[start:stop]))  # a batch is done from its start
            if first < stop:
                yield cell, first, stop


def simulate_batch(cell: Cell, start: int, stop: int, design: Design) -> dict[str, Array]:
    """Return what the records hold of a batch, by name; the first dimension is the simulation."""
    score, label = cell.sample(start, stop)
    n_positive = np.broadcast_to(np.count_nonzero(label, axis=-1), len(score))
    named: dict[str, Any] = {"score": score, "label": label}
    is_fixed = design.n_positive == LABEL_DESIGNS[0]
    of_all = EvaluationOptions(estimators=design.estimators)
    facts = FACTS if of_all.with_influence == of_all.in_one_pass else FACTS[:4]  # others have no acceleration
    evaluated = evaluate_rankings(named, of_all, facts, is_fixed=is_fixed)
    interval = np.full((*evaluated.estimate.shape, len(design.methods), 2), np.nan)
    location = np.full(interval.shape[:-1], np.nan)
    if design.methods and design.resampled:
        chosen = [design.estimators.index(name) for name in design.resampled]
        resampling = ResamplingOptions(
            intervals=design.methods,
            level=design.level,
            n_resamples=design.n_resamples,
            n_folds=design.folds,
            prevalence_design="fixed" if is_fixed else "random",
        )
        options = EvaluationOptions(estimators=design.resampled, resampling=resampling)
        of_chosen = evaluated._replace(
            estimate=evaluated.estimate[:, chosen],
            facts={name: values[:, chosen] for name, values in evaluated.facts.items()},
        )
        keys = np.array([cell.key(number) for number in range(start, stop)], dtype=np.uint64)
        named |= {"key": keys, "fold": fold_of(label, design.folds)}
        evidence = evidence_of(of_chosen, named, options, Sampling(is_stratified=is_fixed, n_folds=design.folds))
        interval[:, chosen] = interval_bounds(evidence, options, design.level)
        location[:, chosen] = interval_bounds(evidence, options, 0.0).mean(axis=-1)
        if "bca" in design.methods:  # only with an influence function the jackknife has a closed form; others are slow
            others = [place for place in chosen if design.estimators[place] not in IN_ONE_PASS]
            interval[:, others, design.methods.index("bca")] = np.nan
    found = {"estimate": evaluated.estimate, "interval": interval, "location": location}
    for values in found.values():
        values[(n_positive == 0) | (n_positive == cell.n_items)] = np.nan
    return found | {"n_positive": n_positive}


def fold_of(label: NDArray[np.int8], n_folds: int) -> NDArray[np.int64]:
    """Deal the items of each class to the folds in turn; items are exchangeable, so no shuffling is needed."""
    fold = np.empty(label.shape, dtype=np.int64)
    for value in (0, 1):
        is_member = label == value
        fold[is_member] = (np.cumsum(is_member, axis=-1)[is_member] - 1) % n_folds
    return fold


# Records


def _open_records(design: Design, n_simulations: int, url: str | Path | None) -> Mapping[str, Any]:
    """Return the arrays of the records, new or at `url`, with room for all simulations."""
    template = _template(design, n_simulations)
    if url is None:
        return {str(name): variable.values for name, variable in template.data_vars.items()}
    url = concealed(url)
    try:
        attrs = read_root_attrs(url)
    except StoreError:  # there is nothing, or something that `create_store` will not replace
        create_store(url, template, KIND, has_checksums=False).commit()  # it opens while chunks are missing
        attrs = read_root_attrs(url)
    _refuse_other_study(attrs, design, url)
    backend = open_backend(url)
    arrays = {str(name): open_array(backend, "", str(name)) for name in template.data_vars}
    if arrays["is_done"].shape[-1] < n_simulations:
        for name, variable in template.data_vars.items():
            arrays[str(name)].resize(variable.shape)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Consolidated metadata", category=UserWarning)
            zarr.consolidate_metadata(backend, zarr_format=3)
    return arrays


EMPTY = {"is_done": False, "n_positive": 0}  # in other records, NaN


def _template(design: Design, n_simulations: int) -> xr.Dataset:
    """Return empty records, lazily."""
    by_estimator = {ESTIMATOR: np.array(design.estimators, dtype=object)}
    by_method = by_estimator | {METHOD: np.array(design.methods, dtype=object)}
    by_bound = by_method | {BOUND: np.array(BOUNDS, dtype=object)}
    inner: dict[str, dict[str, Any]] = {
        "estimate": by_estimator,
        "interval": by_bound,
        "location": by_method,
        "n_positive": {},
        "is_done": {},
    }
    cells: dict[str, Any] = {SCENARIO: np.array(design.scenarios, dtype=object)}
    cells |= {N_ITEMS: list(design.n_items), PREVALENCE: list(design.prevalence)}
    records = xr.Dataset(coords=cells | by_bound, attrs=_parameters(design))
    for name, labels in inner.items():
        sizes = [*map(len, cells.values()), n_simulations, *map(len, labels.values())]
        chunks = (1, 1, 1, BATCH, *map(len, labels.values()))
        empty = EMPTY.get(name, np.nan)
        records[name] = (*CELL_DIMS, SIMULATION, *labels), da.full(sizes, empty, dtype=type(empty), chunks=chunks)
        records[name].encoding = {"chunks": chunks}
    return records


def _parameters(design: Design) -> dict[str, Any]:
    """Return the design as a store records it."""
    return json.loads(json.dumps(asdict(design)))  # type: ignore[no-any-return]


def _refuse_other_study(attrs: Mapping[str, Any], design: Design, url: str) -> None:
    remedy = "name another place for this study"
    if attrs.get("kind") != KIND:
        what, received = "there is something else at this place", f"kind {attrs.get('kind')!r}"
        raise StoreError(what, url, received, f"kind {KIND!r}, or nothing", remedy)
    differences = [
        _difference(PARAMETERS.get(name, name), attrs.get(name), value)
        for name, value in _parameters(design).items()
        if attrs.get(name) != value
    ]
    if differences:
        what = "the study at this place has other parameters"
        allowed = "the same parameters; only n_simulations and formula intervals may change"
        raise StoreError(what, url, "; ".join(differences), allowed, remedy)


def _difference(name: str, before: Any, now: Any) -> str:
    """Describe how a parameter differs; for lists, name new and missing values."""
    if not (isinstance(before, list) and isinstance(now, list)):
        return f"{name} {before!r}, now {now!r}"
    changes = {"new": [one for one in now if one not in before], "gone": [one for one in before if one not in now]}
    said = [f"{change} {', '.join(map(str, values))}" for change, values in changes.items() if values]
    return f"{name}: {', '.join(said) or 'another order'}"


# Summary


def _summarize(
    cells: Sequence[Cell], design: Design, methods: tuple[str, ...], records: Mapping[str, Any], n_simulations: int
) -> xr.Dataset:
    """Return the summaries of all cells in one Dataset."""
    summaries = []
    for cell in cells:
        found = {name: array[(*cell.index, slice(n_simulations))] for name, array in records.items()}
        bounds, location = _in_order(found, design, methods)
        area = cell.scenario.area(cell.prevalence)
        summaries.append(xr.Dataset(summarize_cell(area, found["estimate"], bounds, location, design.level)))
    # By their places: unstacking sorts labels.
    places = pd.MultiIndex.from_tuples([cell.index for cell in cells], names=CELL_DIMS)
    table = xr.concat(summaries, "cell").assign_coords(xr.Coordinates.from_pandas_multiindex(places, "cell"))
    labels = {N_ITEMS: list(design.n_items), PREVALENCE: list(design.prevalence)}
    names = {ESTIMATOR: np.array(design.estimators, dtype=object), METHOD: np.array(methods, dtype=object)}
    summary = table.unstack("cell").transpose(*CELL_DIMS, ...).assign_coords(labels | names)
    is_exact = design.n_positive == "exact"
    counts = [[round(n * share) if is_exact else n * share for share in design.prevalence] for n in design.n_items]
    summary["n_positive"] = (N_ITEMS, PREVALENCE), np.array(counts)
    for name, variable in summary.data_vars.items():
        variable.attrs = {"description": DESCRIPTIONS[str(name)]}
    return summary


def _in_order(found: Mapping[str, Any], design: Design, methods: tuple[str, ...]) -> tuple[Array, Array]:
    """Return bounds and locations in the order of `methods`: recorded ones, and those of formulas."""
    estimate, n_positive = found["estimate"], found["n_positive"][:, None]
    bounds, location = np.empty((*estimate.shape, len(methods), 2)), np.empty((*estimate.shape, len(methods)))
    for position, name in enumerate(methods):
        if INTERVALS[name].is_formula:
            formula = evaluate_intervals(estimate, n_positive, methods=(name,), level=design.level)
            is_served = np.array([INTERVALS[name].serves(estimator) for estimator in design.estimators])
            bounds[..., position, :] = np.where(is_served[:, None], formula[..., 0, :], np.nan)
            location[..., position] = estimate
        else:
            bounds[..., position, :] = found["interval"][..., design.methods.index(name), :]
            location[..., position] = found["location"][..., design.methods.index(name)]
    return bounds, np.where(np.isnan(bounds).any(axis=-1), np.nan, location)


def summarize_cell(
    area: float, estimate: Array, bounds: Array, location: Array, level: float
) -> dict[str, tuple[tuple[str, ...], Any]]:
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


def _scenario(scenario: str | Scenario) -> Scenario:
    if isinstance(scenario, Scenario):
        return scenario
    return lookup(SCENARIOS, scenario, "scenario")()


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
        what, remedy = "only estimators of the study can be resampled", "name them in 'estimators' too"
        received = ", ".join(map(repr, unknown))
        raise InvalidInputError(what, "argument 'resampled'", received, ", ".join(names), remedy)
    return tuple(name for name in names if name in chosen)


def _refuse_one_class(cells: Sequence[Cell]) -> None:
    for cell in cells:
        n_positive = round(cell.n_items * cell.prevalence)
        if not 0 < n_positive < cell.n_items:
            what = f"a simulation would have no {'negatives' if n_positive else 'positives'}"
            where = f"cell {cell.scenario!r}, n_items={cell.n_items}, prevalence={cell.prevalence}"
            received = f"round({cell.n_items} * {cell.prevalence}) = {n_positive} positives"
            allowed, remedy = f"1 to {cell.n_items - 1} positives", "more items, another prevalence, or binomial ones"
            raise InvalidInputError(what, where, received, allowed, f"{remedy}: label_design='binomial'")
