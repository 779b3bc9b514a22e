"""How often comparisons claim a difference where there is none, find one, and cover it: over units and over items.

The stored results of 1,000 models, and of 100 models over units, come from the procedures alone. What runs here calls
``ap.compare`` and ``ap.rank``, and leaves these rows as they are.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

import aucpr_dask as ap
from docs import pages
from docs.study.boyd import write

UNITS_TABLE, ITEMS_TABLE, PAIRS_TABLE = (f"comparisons_{name}" for name in ("units", "items", "pairs"))
LEVEL, RESAMPLES = 0.95, 499
Floats = np.ndarray

METHODS = ("sign_flip", "bootstrap_t", "bootstrap", "t", "wilcoxon")
RANKED = METHODS[:3]  # which have joint replicates, and so rank sets
UNITS = (5, 10, 20, 50, 100)
FAMILIES, SIMULATIONS = (2, 10), 1000
HUGE = 1000  # models, of which the table compares all with one
POWER = {2: 3.0, 10: 5.0}  # standard errors of a difference by which the first model differs from the others

POSITIVES, PAIR_POSITIVES, ITEM_MODELS = (5, 10, 20, 50, 100, 200), (10, 20, 50, 200), (2, 8, 40)
ITEM_METHODS, PAIR_METHODS = ("bootstrap", "influence"), ("influence", "rank_swap")
# Mean and deviation of the positives of two models, the prevalence, and the correlation of the models' scores.
ITEM_WORLDS = {
    "equal": ((1.5, 1.0), (1.5, 1.0), 0.1, 0.0),
    "equal, alike": ((1.5, 1.0), (1.5, 1.0), 0.1, 0.9),
    "equal, near copies": ((1.5, 1.0), (1.5, 1.0), 0.1, 0.99),
    "equal, by chance": ((0.0, 1.0), (0.0, 1.0), 0.1, 0.0),
    "equal, nearly perfect": ((4.0, 1.0), (4.0, 1.0), 0.1, 0.5),
    "equal areas of unlike shapes": ((1.0, 0.5), (0.7693, 1.5), 0.5, 0.5),
    "unequal": ((2.0, 1.0), (1.5, 1.0), 0.1, 0.5),
    "unequal, near copies": ((1.55, 1.0), (1.5, 1.0), 0.1, 0.99),
    "unequal, rare": ((3.0, 1.0), (2.5, 1.0), 0.005, 0.5),
    "unequal, nearly perfect": ((4.0, 1.0), (3.6, 1.0), 0.1, 0.5),
    "unequal, even": ((3.0, 1.0), (1.0, 1.0), 0.5, 0.5),
}


def run(folder: Path, *, small: bool) -> None:
    """Simulate comparisons over units and over items."""
    share = 0.01 if small else 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few units and positives, which are what is studied
        cell = ["models", "world", "units", "shift"]
        write(folder, UNITS_TABLE, pd.DataFrame(over_units(share)), [*cell, "method", "quantity"])
        write(folder, ITEMS_TABLE, pd.DataFrame(families_over_items(share)), ["models", "positives", "method"])
        write(folder, PAIRS_TABLE, pd.DataFrame(pairs_over_items(share)), ["world", "positives", "method"])


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
WITH_POWER = {"normal": (1,), "exponential": (1, -1)}  # worlds of unit variance, and the signs of the shift


def over_units(share: float) -> Iterator[dict[str, object]]:
    """Yield the error rates of methods, the coverage of rank sets and the power, cell by cell."""
    for n_models in FAMILIES:
        for world in UNIT_WORLDS:
            for n_units in UNITS:
                for shift in (0, *WITH_POWER.get(world, ())):
                    random = np.random.default_rng([n_models, n_units, shift + 1, list(UNIT_WORLDS).index(world)])
                    number = max(2, round(share * SIMULATIONS / (1 if shift == 0 else 2)))
                    cell = {"models": n_models, "world": world, "units": n_units, "shift": shift}
                    found = [_compare_units(random, world, n_models, n_units, shift) for _ in range(number)]
                    for (method, quantity), rate in pd.DataFrame(found).mean().items():
                        yield cell | {"method": method, "quantity": quantity, "rate": rate, "simulations": number}


def _compare_units(
    random: np.random.Generator, world: str, n_models: int, n_units: int, shift: int
) -> dict[tuple[str, str], bool]:
    """Return whether each method finds a difference, and whether all rank sets of equal models are complete."""
    values = UNIT_WORLDS[world](random, (n_models, n_units))
    if shift:
        values[0] += shift * POWER[n_models] * np.sqrt(2 / n_units)
    names = {"model": [f"m{i}" for i in range(n_models)], "query": [f"q{unit:03}" for unit in range(n_units)]}
    result = xr.Dataset({"estimate": (("model", "query"), values)}, coords=names)
    found = {}
    for method in METHODS:
        options = {"method": method, "n_resamples": RESAMPLES if method in RANKED else None}
        p_values = ap.compare(result, **options)["p_adjusted"]
        asked = p_values.isel(model=0) if shift else p_values
        found[method, "found" if shift else "error"] = bool((asked <= 1 - LEVEL).any())
        if method in RANKED and not shift:
            ranks = ap.rank(result, **options)["simultaneous_rank_interval"].values
            found[method, "covers"] = bool((ranks == (1, n_models)).all())
    return found


# Over items


def families_over_items(share: float) -> Iterator[dict[str, object]]:
    """Yield how often a family of equal models shows a difference, by positives and number of models."""
    number = max(4, round(share * 400))
    for n_models in ITEM_MODELS:
        for n in POSITIVES:
            scores = _draw(n, number, ((1.5, 1.0),) * n_models, 0.1, 0.5)
            for method, found in _compare_items(scores, ITEM_METHODS).items():
                others = ~np.eye(n_models, dtype=bool)
                error = np.mean([bool((one["p_adjusted"] <= 1 - LEVEL).any()) for one in found])
                bounds = [one["simultaneous_interval"].values[others] for one in found]
                covers = np.mean([bool(((one[:, 0] <= 0) & (one[:, 1] >= 0)).all()) for one in bounds])
                cell = {"models": n_models, "positives": n, "method": method, "simulations": number}
                yield cell | {"error": error, "coverage": covers}


def pairs_over_items(share: float) -> Iterator[dict[str, object]]:
    """Yield the coverage and the width of intervals of the difference between two models."""
    number = max(4, round(share * 1000))
    for world, (first, second, prevalence, correlation) in ITEM_WORLDS.items():
        areas = [ap.simulate.binormal(*of_positives).area(prevalence) for of_positives in (first, second)]
        for n in PAIR_POSITIVES:
            drawn = _draw(n, number, (first, second), prevalence, correlation)
            for method, found in _compare_items(drawn, PAIR_METHODS).items():
                lower, upper = np.array([one["interval"].values[0, 1] for one in found]).T
                covers = (lower <= areas[0] - areas[1]) & (areas[0] - areas[1] <= upper)
                ideal = 2 * 1.96 * np.std([one["difference"].values[0, 1] for one in found])
                cell = {"world": world, "positives": n, "method": method, "area": areas[0], "other_area": areas[1]}
                cell |= {"rejects": np.mean((lower > 0) | (upper < 0)), "coverage": covers.mean()}
                yield cell | {"width": (upper - lower).mean() / ideal, "simulations": number}


def _draw(
    n: int, number: int, of_positives: tuple[tuple[float, float], ...], prevalence: float, correlation: float
) -> Iterator[xr.Dataset]:
    """Yield simulations of models whose scores are correlated."""
    n_models, n_items = len(of_positives), round(n / prevalence)
    random = np.random.default_rng([n, n_models, round(1e4 * prevalence), round(10 * correlation)])
    mean, deviation = np.array(of_positives).T[..., None]
    for _ in range(number):
        label = random.random(n_items) < prevalence
        label[random.permutation(n_items)[:2]] |= label.sum() < 2
        score = np.sqrt(correlation) * random.normal(size=n_items)
        score = score + np.sqrt(1 - correlation) * random.normal(size=(n_models, n_items))
        score[:, label] = mean + deviation * score[:, label]
        names = {"model": [f"m{i:02}" for i in range(n_models)]}
        yield xr.Dataset({"score": (("model", "item"), score), "label": ("item", label.astype(np.int8))}, coords=names)


def _compare_items(simulations: Iterator[xr.Dataset], methods: tuple[str, ...]) -> dict[str, list[xr.Dataset]]:
    """Compare all pairs of models by each method."""
    found: dict[str, list[xr.Dataset]] = {method: [] for method in methods}
    for seed, scores in enumerate(simulations):
        for method, comparisons in found.items():
            comparisons.append(ap.compare(scores, method=method, n_resamples=RESAMPLES, seed=seed))
    return found


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
    table = pd.read_csv(folder / f"{UNITS_TABLE}.csv")
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
    known = pd.read_csv(folder / f"{ITEMS_TABLE}.csv").set_index(["models", "positives", "method"])["error"]
    rows = [
        [n_models, *(" / ".join(_rate(known[n_models, n, name]) for name in ITEM_METHODS) for n in POSITIVES)]
        for n_models in ITEM_MODELS
    ]
    return pages.table(["models", *(f"{n} positives" for n in POSITIVES)], rows)


def item_intervals(folder: Path) -> str:
    """Return how often each method finds a difference, the coverage of its interval, and the width over the ideal."""
    table = pd.read_csv(folder / f"{PAIRS_TABLE}.csv")
    known = table.set_index(["world", "positives", "method"])
    rows = []
    for world, cells in table.groupby("world", sort=False):
        shown = []
        for n in PAIR_POSITIVES:
            both = [known.loc[(world, n, name)] for name in PAIR_METHODS]
            found, covers = (" / ".join(_rate(one[name]) for one in both) for name in ("rejects", "coverage"))
            width = " / ".join(f"{one['width']:.1f}" for one in both)
            shown.append(f"{found}; {covers} ({width})")
        first, second = cells[["area", "other_area"]].iloc[0]
        prevalence = ITEM_WORLDS[world][2]
        rows.append([f"{world}, {prevalence:g}", f"{first:.2f}, {second:.2f}", *shown])
    return pages.table(["models, prevalence", "areas", *(f"{n} positives" for n in PAIR_POSITIVES)], rows)


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
