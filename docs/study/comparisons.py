"""How often comparisons claim a difference where there is none, and cover one: over units and over items.

The stored results of 1,000 models, and of 100 models over units, come from the procedures alone. What runs here calls
``ap.compare``, and leaves these rows, power and rank sets as they are.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

import aucpr_dask as ap
from docs import pages
from docs.study.boyd import write

UNITS_TABLE, PAIRS_TABLE = "comparisons_units", "comparisons_pairs"
LEVEL, RESAMPLES = 0.95, 499
Floats = np.ndarray

METHODS = ("sign_flip", "bootstrap_t", "bootstrap", "t", "wilcoxon")
RANKED = METHODS[:3]  # which have joint replicates, and so rank sets
UNITS, SHOWN = (5, 10, 20, 50, 100), (10, 20, 50)
FAMILIES, SIMULATIONS = (2, 10), 1000
HUGE = 1000  # models, of which the table compares all with one

PAIR_POSITIVES, PAIR_METHODS = (10, 20, 50, 200), ("influence", "rank_swap")
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


def run(folder: Path, share: float) -> None:
    """Simulate comparisons over units and over items."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few units and positives, which are what is studied
        cell = ["models", "world", "units", "shift"]
        write(folder, UNITS_TABLE, pd.DataFrame(over_units(share)), [*cell, "method", "quantity"])
        write(folder, PAIRS_TABLE, pd.DataFrame(pairs_over_items(share)), ["world", "positives", "method"])


# Over units


def _mirrored(values: Floats) -> Floats:
    """Mirror every second model's values, so that its differences from the others are skewed."""
    values[1::2] *= -1
    return values


UNIT_WORLDS = {
    "normal": lambda random, shape: random.normal(size=shape),
    "heavy tails": lambda random, shape: random.standard_t(5, size=shape),
    "exponential": lambda random, shape: _mirrored(random.exponential(size=shape) - 1),
    "log-normal": lambda random, shape: _mirrored(random.lognormal(size=shape) - np.exp(0.5)),
    "few large": lambda random, shape: np.where(
        np.arange(shape[0])[:, None] % 2, random.random(shape) < 0.1, 0.1 + 0.002 * random.normal(size=shape)
    ),
}


def over_units(share: float) -> Iterator[dict[str, object]]:
    """Yield the error rates of methods, cell by cell."""
    for n_models, world, n_units in product(FAMILIES, UNIT_WORLDS, UNITS):
        random = np.random.default_rng([n_models, n_units, 1, list(UNIT_WORLDS).index(world)])
        number = max(2, round(share * SIMULATIONS))
        drawn = np.stack([UNIT_WORLDS[world](random, (n_models, n_units)) for _ in range(number)])
        for method in METHODS:
            rate = np.mean(_least_p_values(drawn, method) <= 1 - LEVEL)
            cell = {"models": n_models, "world": world, "units": n_units, "shift": 0, "method": method}
            yield cell | {"quantity": "error", "rate": rate, "simulations": number}


def _least_p_values(drawn: Floats, method: str) -> Floats:
    """Return the least adjusted p-value of each simulation (S, models, units)."""
    options = {"method": method, "n_resamples": RESAMPLES if method in RANKED else None}
    n_models, n_units = drawn.shape[1:]
    if method in RANKED and n_models > 2:
        return np.array([ap.compare(_result(one), **options)["p_adjusted"].values.min() for one in drawn])
    # One pair, or Holm's adjustment: all differences at once, as models against nothing.
    first, second = np.triu_indices(n_models, 1)
    apart = (drawn[:, first] - drawn[:, second]).reshape(-1, n_units)
    found = ap.compare(_result(np.concatenate([0 * apart[:1], apart])), "m0", **options)["p_value"].values[1:]
    return first.size * found.reshape(len(drawn), -1).min(axis=1)


def _result(values: Floats) -> xr.Dataset:
    names = {"model": [f"m{i}" for i in range(len(values))], "query": [f"q{i:03}" for i in range(values.shape[1])]}
    return xr.Dataset({"estimate": (("model", "query"), values)}, coords=names)


# Over items


def pairs_over_items(share: float) -> Iterator[dict[str, object]]:
    """Yield the coverage and the width of intervals of the difference between two models."""
    number = max(4, round(share * 400))
    for world, (first, second, prevalence, correlation) in ITEM_WORLDS.items():
        areas = [ap.simulate.binormal(*of_positives).area(prevalence) for of_positives in (first, second)]
        for n in PAIR_POSITIVES:
            drawn = list(_draw(n, number, (first, second), prevalence, correlation))
            for method in PAIR_METHODS:
                found = [ap.compare(one, method=method, n_resamples=RESAMPLES, seed=i) for i, one in enumerate(drawn)]
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


# Tables


def unit_errors(folder: Path) -> str:
    """Return how often any difference of equal models is significant, by the three methods with joint replicates."""
    table = pd.read_csv(folder / f"{UNITS_TABLE}.csv").query("quantity == 'error' and method in @RANKED")
    rows = []
    for (n_models, world), cells in table.groupby(["models", "world"], sort=False):
        known = cells.set_index(["units", "method"])["rate"]
        shown = ["/".join(_rate(known[n, name]) for name in RANKED) for n in SHOWN]
        rows.append([f"{n_models:,}{' against one' if n_models >= HUGE else ''}", world, *shown])
    return pages.table(["models", "differences", *(f"{n} units" for n in SHOWN)], rows)


def item_intervals(folder: Path) -> str:
    """Return how often each method finds a difference, the coverage of its interval, and the width over the ideal."""
    rows = []
    for world, cells in pd.read_csv(folder / f"{PAIRS_TABLE}.csv").groupby("world", sort=False):
        shown = []
        for _, both in cells.groupby("positives"):
            both = both.set_index("method").loc[list(PAIR_METHODS)]
            found, covers = ("/".join(map(_rate, both[name])) for name in ("rejects", "coverage"))
            shown.append(f"{found}, {covers} ({'/'.join(f'{width:.1f}' for width in both['width'])})")
        first, second = cells[["area", "other_area"]].iloc[0]
        rows.append([f"{world}, {ITEM_WORLDS[world][2]:g}", f"{first:.2f}, {second:.2f}", *shown])
    return pages.table(["models, prevalence", "areas", *(f"{n} positives" for n in PAIR_POSITIVES)], rows)


def _rate(rate: float) -> str:
    return f"{rate:.2f}" if rate < 0.995 else "1"


TABLES = {"tables.md": (unit_errors, item_intervals)}
