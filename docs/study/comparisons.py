"""How often comparisons and gates claim a difference where there is none, and cover one: over units and over items.

The stored results of 1,000 models, and of 100 models over units, come from the procedures alone. What runs here calls
``ap.compare``, and leaves these rows, power and rank sets as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.optimize import brentq

import aucpr_dask as ap
from docs import pages
from docs.study import _common as common

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
ITEM_WORLDS: dict[str, tuple[Any, ...]] = {
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

GATES, PILOT, OF_GATES = 2000, 200, 2000  # simulations, those that find what is detectable, and resamples
GATE_UNITS, GATE_POSITIVES = (10, 30, 50), (20, 50, 200)
# Differences of queries, candidate minus baseline, with mean 0 and variance 1.
QUERY_WORLDS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "normal": lambda random, n: random.normal(size=n),
    "much better on a few": lambda random, n: random.exponential(size=n) - 1,
    "much worse on a few": lambda random, n: 1 - random.exponential(size=n),
}
BASELINE, PREVALENCE, MARGIN = 1.5, 0.1, 0.1  # how far its positives are above the negatives


def run(folder: Path, share: float) -> None:
    """Simulate comparisons over units and over items, and gates."""
    common.write(folder, UNITS_TABLE, pd.DataFrame(over_units(share)), ["models", "world", "units", "method"])
    common.simulate(PAIRS_TABLE, (pairs_over_items,), folder, share)
    number, n_pilot = (max(20, round(share * size)) for size in (GATES, PILOT))
    rows = [_over_queries(world, n, number) for world in QUERY_WORLDS for n in GATE_UNITS]
    rows += [_over_items(n, number, n_pilot) for n in GATE_POSITIVES]
    common.write(folder, "gate", pd.DataFrame(rows).assign(n_simulations=number), ["sample", "world", "n"])


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
            cell = {"models": n_models, "world": world, "units": n_units, "method": method}
            yield cell | {"rate": rate, "simulations": number}


def _least_p_values(drawn: Floats, method: str) -> Floats:
    """Return the least adjusted p-value of each simulation (S, models, units)."""
    options = {"method": method, "n_resamples": RESAMPLES if method in RANKED else None}
    n_models, n_units = drawn.shape[1:]
    if method in RANKED and n_models > 2:
        return np.array([ap.compare(common.of_queries(one), **options)["p_adjusted"].values.min() for one in drawn])
    # One pair, or Holm's adjustment: all differences at once, as models against nothing.
    first, second = np.triu_indices(n_models, 1)
    apart = (drawn[:, first] - drawn[:, second]).reshape(-1, n_units)
    found = common.against_nothing(apart, **options)["p_value"].values
    return first.size * found.reshape(len(drawn), -1).min(axis=1)


# Over items


def pairs_over_items(random: np.random.Generator, share: float) -> Iterator[common.Row]:
    """Differences between two models, by two methods."""
    for world, (*of_positives, prevalence, correlation) in ITEM_WORLDS.items():
        areas = [ap.simulate.binormal(*one).area(prevalence) for one in of_positives]
        mean, deviation = np.array(of_positives).T[..., None]
        for n in PAIR_POSITIVES:
            labels = common.drawn(random, n, max(4, round(share * 400)), 0.0, prevalence)[1]
            drawn = [common.paired(random, label, mean, deviation, correlation) for label in labels]
            for method in PAIR_METHODS:
                found = [ap.compare(one, method=method, n_resamples=RESAMPLES, seed=i) for i, one in enumerate(drawn)]
                both, name = xr.concat(map(common.in_pairs, found), "pair"), f"{world}, {prevalence:g}"
                row = common.differences(f"difference by `{method}`", name, n, both, areas[1] - areas[0])
                yield row | {"first": areas[0], "second": areas[1]}


# Gates


def _over_queries(world: str, n_units: int, n_simulations: int) -> dict[str, object]:
    """Judge candidates that are as good as the baseline, and then better by the mean detectable difference."""
    random = np.random.default_rng([n_units, len(world)])
    gates = []
    for _ in range(n_simulations):
        values = np.stack([np.zeros(n_units), QUERY_WORLDS[world](random, n_units)])
        gates.append(ap.gate(common.of_queries(values), "m01", "m00", n_resamples=OF_GATES))
    lower, upper = np.array([gate.interval for gate in gates]).T
    detectable = np.mean([gate.detectable for gate in gates])
    found = {"false_pass": np.mean(lower > 0), "false_fail": np.mean(upper < 0), "detectable": detectable}
    return {"sample": "queries", "world": world, "n": n_units, **found, "power": np.mean(lower + detectable > 0)}


def _over_items(n_positive: int, n_simulations: int, n_pilot: int) -> dict[str, object]:
    """Judge candidates that are worse by the margin, and others that are better by the mean detectable difference."""
    random = np.random.default_rng(n_positive)
    label = np.arange(round(n_positive / PREVALENCE)) < n_positive
    old = common.area(BASELINE, PREVALENCE)

    def gates(difference: float, n: int, margin: float) -> list[Any]:
        candidate = brentq(lambda mu: common.area(mu, PREVALENCE) - old - difference, 0, 10)
        drawn = (common.paired(random, label, [[BASELINE], [candidate]]) for _ in range(n))
        return [ap.gate(scores, "m01", "m00", margin, **common.FEW) for scores in drawn]

    at_margin = gates(-MARGIN, n_simulations, MARGIN)
    detectable = 0.0
    for _ in range(2):  # the standard error depends on the difference, too
        pilot = gates(detectable, n_pilot, 0.0)
        detectable = min(float(np.mean([gate.detectable for gate in pilot])), 0.98 - old)
    better = gates(detectable, n_simulations, 0.0)
    errors = [[gate.passed, gate.verdict == "worse"] for gate in at_margin]
    found = dict(zip(("false_pass", "false_fail"), np.mean(errors, axis=0), strict=True))
    found["detectable"], found["power"] = np.mean([[gate.detectable, gate.passed] for gate in better], axis=0)
    return {"sample": "items", "world": f"area {old:.2f}", "n": n_positive, **found}


# Tables


def unit_errors(folder: Path) -> str:
    """Return how often any difference of equal models is significant, by the three methods with joint replicates."""
    table = pd.read_csv(folder / f"{UNITS_TABLE}.csv").query("method in @RANKED")
    rows = []
    for (n_models, world), cells in table.groupby(["models", "world"], sort=False):
        known = cells.set_index(["units", "method"])["rate"]
        shown = ["/".join(f"{known[n, name]:.2f}" for name in RANKED) for n in SHOWN]
        rows.append([f"{n_models:,}{' against one' if n_models >= HUGE else ''}", world, *shown])
    return pages.table(["models", "differences", *(f"{n} units" for n in SHOWN)], rows)


def item_intervals(folder: Path) -> str:
    """Return how often each method finds a difference, the coverage of its interval, and the width over the ideal."""
    table = common.with_width(common.stored(folder, PAIRS_TABLE))
    areas = [f"{one.world}: {one.first:.2f}, {one.second:.2f}" for one in table.itertuples()]
    table = table.assign(shown=table["finds"].map("{:.2f}, ".format) + table["shown"], world=areas)
    return common.joined(table, "found, coverage (width over an ideal one)")


def gate_errors(folder: Path) -> str:
    """Return errors and power of every world and size."""
    table = pd.read_csv(folder / "gate.csv")
    shares = ["false_pass", "false_fail", "power"]
    table[shares] = (100 * table[shares]).map("{:.1f} %".format)
    rows = table[["sample", "world", "n", *shares]].values
    return pages.table(["sample", "differences", "n", "passed wrongly", "failed wrongly", "power"], rows)


TABLES = {"tables.md": (unit_errors, item_intervals, gate_errors)}
