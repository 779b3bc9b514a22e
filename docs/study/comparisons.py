"""How often comparisons claim a difference where there is none, find one, and cover it: over units and over items."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

import aucpr_dask as ap
from aucpr_dask.inference import families, methods
from aucpr_dask.inference.covarying import moderated_covariance
from aucpr_dask.inference.grids import compare_family
from aucpr_dask.kernels.intervals.beta import degrees_of
from docs import pages

UNITS_TABLE, ITEMS_TABLE, PAIRS_TABLE = (f"comparisons_{name}.csv" for name in ("units", "items", "pairs"))
LEVEL, RESAMPLES = 0.95, 499
GOAL = methods.Goal(LEVEL, None)
Floats = np.ndarray
Pairs = tuple[np.ndarray, np.ndarray]

METHODS = ("sign_flip", "bootstrap_t", "bootstrap", "t", "wilcoxon")
RANKED = METHODS[:3]
UNITS = (5, 10, 20, 50, 100)
FAMILIES, SIMULATIONS = (2, 10, 100, 1000), 1000
LARGE, HUGE = 100, 1000  # models: from the first on, fewer methods and worlds; from the second on, against one
POWER = {2: 3.0, 10: 5.0}  # standard errors of a difference by which the first model differs from the others

POSITIVES, ITEM_MODELS = (5, 10, 20, 50, 100, 200), (2, 8, 40)
ITEM_METHODS = ("bootstrap", "influence")
# Mean and deviation of the positives of two models, the prevalence, and the correlation of the models' scores.
ITEM_WORLDS = {
    "equal": ((1.0, 1.0), (1.0, 1.0), 0.1, 0.5),
    "unequal": ((1.5, 1.0), (1.0, 1.0), 0.1, 0.5),
    "alike": ((2.0, 1.0), (2.0, 1.0), 0.1, 0.9),
    "rare": ((3.0, 1.0), (2.5, 1.0), 0.005, 0.5),
    "narrow": ((1.5, 0.5), (1.5, 0.5), 0.5, 0.5),
    "nearly perfect": ((4.0, 1.0), (4.0, 1.0), 0.1, 0.5),
    "nearly perfect, unequal": ((4.0, 1.0), (3.0, 1.0), 0.1, 0.5),
}


def run(folder: Path, *, small: bool) -> None:
    """Simulate comparisons over units and over items."""
    share = 0.01 if small else 1.0
    studies = {UNITS_TABLE: over_units, ITEMS_TABLE: families_over_items, PAIRS_TABLE: pairs_over_items}
    for name, study in studies.items():
        pd.DataFrame(study(share)).to_csv(folder / name, index=False, float_format="%.3f")
        print(name, flush=True)


# Over units


def _mirrored(values: Floats) -> Floats:
    """Mirror every second model's values, so that its differences from the others are skewed."""
    values[1::2] *= -1
    return values


def _few_large(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Draw 0.1 with a little noise for every other model, and 1 on a tenth of the units for the rest."""
    values = 0.1 + 0.002 * random.normal(size=shape)
    values[1::2] = random.random(values[1::2].shape) < 0.1
    return values


UNIT_WORLDS = {
    "normal": lambda random, shape: random.normal(size=shape),
    "heavy tails": lambda random, shape: random.standard_t(5, size=shape),
    "exponential": lambda random, shape: _mirrored(random.exponential(size=shape) - 1),
    "log-normal": lambda random, shape: _mirrored(random.lognormal(size=shape) - np.exp(0.5)),
    "few large": _few_large,
}
IN_LARGE = ("normal", "heavy tails", "exponential")
WITH_POWER = {"normal": (1,), "exponential": (1, -1)}  # worlds of unit variance, and the signs of the shift


def over_units(share: float) -> Iterator[dict[str, object]]:
    """Yield the error rates of methods, the coverage of rank sets and the power, cell by cell."""
    for n_models in FAMILIES:
        if share < 1 and n_models >= LARGE:
            continue
        shifts = {world: (0, *WITH_POWER.get(world, ())) if n_models in POWER else (0,) for world in UNIT_WORLDS}
        cells = [
            (world, n_units, shift)
            for world in (UNIT_WORLDS if n_models < LARGE else IN_LARGE)
            for n_units in UNITS
            for shift in shifts[world]
        ]
        for world, n_units, shift in cells:
            random = np.random.default_rng([n_models, n_units, shift + 1, list(UNIT_WORLDS).index(world)])
            number = max(2, round(share * SIMULATIONS / (1 if shift == 0 else 2)))
            found = pd.DataFrame([_compare_units(random, world, n_models, n_units, shift, s) for s in range(number)])
            for (method, quantity), rate in found.mean().items():
                cell = {"models": n_models, "world": world, "units": n_units, "shift": shift}
                yield cell | {"method": method, "quantity": quantity, "rate": rate, "simulations": number}
    if share == 1:
        yield from (rank_sets_of_huge(world, n_units) for world in IN_LARGE for n_units in UNITS)


def rank_sets_of_huge(world: str, n_units: int) -> dict[str, object]:
    """Return how often all rank sets of the largest families are complete, by sign flips alone, which are fastest."""
    random = np.random.default_rng([HUGE, n_units, 0, list(UNIT_WORLDS).index(world)])
    names = [f"q{unit:03}" for unit in range(n_units)]
    pairs = families.all_pairs(HUGE)
    samples = (UNIT_WORLDS[world](random, (HUGE, n_units)) for _ in range(SIMULATIONS))
    covers = [_first_step(_over_units("sign_flip", values, names, s), pairs)[1] for s, values in enumerate(samples)]
    cell = {"models": HUGE, "world": world, "units": n_units, "shift": 0, "method": "sign_flip"}
    return cell | {"quantity": "covers", "rate": np.mean(covers), "simulations": SIMULATIONS}


def _compare_units(
    random: np.random.Generator, world: str, n_models: int, n_units: int, shift: int, seed: int
) -> dict[tuple[str, str], bool]:
    """Return whether each method finds a difference, and whether no simultaneous interval excludes 0."""
    values = UNIT_WORLDS[world](random, (n_models, n_units))
    if shift:
        values[0] += shift * POWER[n_models] * np.sqrt(2 / n_units)
    names = [f"q{unit:03}" for unit in range(n_units)]
    pairs = families.all_pairs(n_models) if n_models < HUGE else families.against([0], n_models)
    asked = (pairs[0] == 0) | (pairs[1] == 0) if shift else np.full(pairs[0].size, True)
    found = {}
    for name in METHODS if n_models < LARGE else METHODS[:-1]:
        method = _over_units(name, values, names, seed)
        if n_models < LARGE:
            adjust = "holm" if method.sample is None else "romano_wolf"
            family, adjusted, quantile = compare_family(method, *pairs, adjust)
            covers = _all_contain_0(family, quantile)
        else:
            adjusted, covers = _first_step(method, pairs)
        found[name, "found" if shift else "error"] = bool((adjusted[asked] <= 1 - LEVEL).any())
        if name in RANKED and n_models < HUGE and not shift:
            found[name, "covers"] = covers
    return found


def _all_contain_0(family: methods.Pairs, quantile: float) -> bool:
    """Return whether all simultaneous intervals contain 0."""
    reach = np.where(family.error > 0, quantile, 0.0) * family.error
    return bool((np.abs(family.difference) <= reach).all())


def _over_units(name: str, values: Floats, names: list[str], seed: int) -> methods.Method:
    if name == "sign_flip":
        return methods.SignFlips(values, names, GOAL, RESAMPLES, seed)
    if name in ("bootstrap", "bootstrap_t"):
        return methods.resample_units(values, names, GOAL, RESAMPLES, seed, own_errors=name == "bootstrap_t")
    return methods.Student(values, GOAL) if name == "t" else methods.Wilcoxon(values)


def _first_step(method: methods.Method, pairs: Pairs) -> tuple[Floats, bool]:
    """Return p-values of which the smallest is that of Romano and Wolf, or of Holm; and whether all intervals hold 0.

    The smallest decides whether there is any difference.
    """
    if method.sample is None:
        return method.pairs(*pairs).p_value * pairs[0].size, False
    statistics = families.pair_statistics(method.sample, *pairs)
    quantile = families.max_t_quantile(statistics, LEVEL)
    return families.single_step(statistics), bool((np.abs(statistics.statistic) <= quantile).all())


# Over items: a simulation is a query, whose items have random numbers of their own


def families_over_items(share: float) -> Iterator[dict[str, object]]:
    """Yield how often a family of equal models shows a difference, by positives and number of models."""
    number = max(4, round(share * 400))
    for n_models in ITEM_MODELS:
        for n in POSITIVES:
            cells = [((1.5, 1.0),) * n_models, 0.1, 0.5]
            for method, differences in _differences(n, number, *cells):
                wrong = np.mean([bool((one[1] <= 1 - LEVEL).any()) for one in differences])
                covers = np.mean([_all_contain_0(family, quantile) for family, _, quantile in differences])
                cell = {"models": n_models, "positives": n, "method": method, "simulations": number}
                yield cell | {"error": wrong, "coverage": covers}


def pairs_over_items(share: float) -> Iterator[dict[str, object]]:
    """Yield the coverage and the width of intervals of the difference between two models."""
    number = max(4, round(share * 500))
    for world, (first, second, prevalence, correlation) in ITEM_WORLDS.items():
        areas = [ap.simulate.binormal(*of_positives).area(prevalence) for of_positives in (first, second)]
        truth = areas[0] - areas[1]
        for n in POSITIVES[:-1]:
            for method, differences in _differences(n, number, (first, second), prevalence, correlation):
                bounds = np.array([family.bounds[0] for family, _, _ in differences])
                covers = (bounds[:, 0] <= truth) & (truth <= bounds[:, 1])
                cell = {"world": world, "area": areas[0], "other_area": areas[1], "positives": n, "method": method}
                yield cell | {
                    "coverage": covers.mean(),
                    "width": np.diff(bounds).mean(),
                    "simulations": number,
                }


def _differences(
    n: int, number: int, of_positives: tuple[tuple[float, float], ...], prevalence: float, correlation: float
) -> Iterator[tuple[str, list[tuple[methods.Pairs, Floats, float]]]]:
    """Compare models in many simulations by each method; yields its name, and each pairs, p-values, quantile."""
    n_models, n_items = len(of_positives), round(n / prevalence)
    batch = max(1, min(number, 10_000_000 // (n_models * n_items)))
    found: dict[str, list[tuple[methods.Pairs, Floats, float]]] = {name: [] for name in ITEM_METHODS}
    pairs = families.all_pairs(n_models)
    for start in range(0, number, batch):
        size = min(batch, number - start)
        random = np.random.default_rng([n, n_models, start, round(1e4 * prevalence), round(10 * correlation)])
        shared = random.normal(size=(size, n_items))
        score = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * random.normal(size=(n_models, size, n_items))
        mean, deviation = np.array(of_positives).T[..., None, None]
        score[..., :n] = mean + deviation * score[..., :n]
        scores = xr.Dataset(
            {"score": (("model", "query", "item"), score), "label": ("item", np.repeat([1, 0], [n, n_items - n]))},
            coords={"model": [f"m{i:02}" for i in range(n_models)], "query": np.arange(start, start + size)},
        )
        for name in ITEM_METHODS:
            found[name] += [compare_family(one, *pairs, "romano_wolf") for one in _over_items(name, scores, n)]
    yield from found.items()


def _over_items(name: str, scores: xr.Dataset, n: int) -> Iterator[methods.Method]:
    """Yield the method of every query."""
    models = [str(label) for label in scores["model"].values]
    if name == "influence":
        result = ap.covariance(scores)
        covariance = moderated_covariance(result).transpose("query", "model", "other_model").values
        estimates = result["estimate"].transpose("query", "model").values
        degrees = float(degrees_of(np.float64(n)))
        for seed, of_query in enumerate(zip(estimates, covariance, strict=True)):
            yield methods.Influence(*of_query, degrees, models, GOAL, RESAMPLES, seed)
        return
    result = ap.evaluate(scores, intervals=(), keep_replicates=True, n_resamples=RESAMPLES)
    of_first = result.isel(estimator=0).transpose("query", "model", ...)
    for estimate, replicates in zip(of_first["estimate"].values, of_first["replicate"].values, strict=True):
        yield methods.Resampling(estimate, replicates, GOAL)


# Tables


def unit_errors(folder: Path) -> str:
    """Return how often any difference of equal models is significant, by the three methods with joint replicates."""
    return _table_of_units(folder, "error", RANKED)


def unit_errors_by_p_value(folder: Path) -> str:
    """Return the same for methods that adjust p-values alone."""
    return _table_of_units(folder, "error", METHODS[3:])


def rank_coverage(folder: Path) -> str:
    """Return how often the simultaneous rank sets of equal models are all complete."""
    return _table_of_units(folder, "covers", RANKED, least=10)


def unit_power(folder: Path) -> str:
    """Return how often the first model, which is better or worse, is found to differ from any other."""
    return _table_of_units(folder, "found", RANKED[:2])


def _table_of_units(folder: Path, quantity: str, names: tuple[str, ...], least: int = 2) -> str:
    table = pd.read_csv(folder / UNITS_TABLE)
    table = table[(table["quantity"] == quantity) & table["method"].isin(names) & (table["models"] >= least)]
    rows = []
    for (n_models, world, shift), cells in table.groupby(["models", "world", "shift"], sort=False):
        known = cells.set_index(["units", "method"])["rate"]
        shown = [" / ".join(_rate(known.get((n, name))) for name in names if (n, name) in known) for n in UNITS]
        against = " against one" if n_models >= HUGE and quantity == "error" else ""
        direction = {0: "", 1: ", first better", -1: ", first worse"}[shift]
        rows.append([f"{n_models:,}{against}", world + direction, *shown])
    return pages.table(["models", "differences", *(f"{n} units" for n in UNITS)], rows)


def item_errors(folder: Path) -> str:
    """Return how often any difference of equal models is significant, by the number of positives."""
    known = pd.read_csv(folder / ITEMS_TABLE).set_index(["models", "positives", "method"])["error"]
    rows = [
        [n_models, *(" / ".join(_rate(known[n_models, n, name]) for name in ITEM_METHODS) for n in POSITIVES)]
        for n_models in ITEM_MODELS
    ]
    return pages.table(["models", *(f"{n} positives" for n in POSITIVES)], rows)


def item_intervals(folder: Path) -> str:
    """Return the coverage of a difference by both methods, and the width of influence's over the bootstrap's."""
    table = pd.read_csv(folder / PAIRS_TABLE)
    known = table.set_index(["world", "positives", "method"])
    rows = []
    for world, cells in table.groupby("world", sort=False):
        shown = []
        for n in POSITIVES[:-1]:
            bootstrap, influence = (known.loc[(world, n, name)] for name in ITEM_METHODS)
            covers = f"{_rate(bootstrap['coverage'])} / {_rate(influence['coverage'])}"
            ratio = influence["width"] / bootstrap["width"] if bootstrap["width"] > 0 else np.nan
            shown.append(f"{covers} ({ratio:.1f})")
        first, second = cells[["area", "other_area"]].iloc[0]
        prevalence = ITEM_WORLDS[world][2]
        rows.append([f"{world}, {prevalence:g}", f"{first:.2f}, {second:.2f}", *shown])
    return pages.table(["models, prevalence", "areas", *(f"{n} positives" for n in POSITIVES[:-1])], rows)


def _rate(rate: float) -> str:
    return f"{rate:.2f}" if rate < 0.995 else "1"


TABLES = {
    "honest-comparisons.md": (
        unit_errors,
        unit_errors_by_p_value,
        unit_power,
        rank_coverage,
        item_errors,
        item_intervals,
    )
}
