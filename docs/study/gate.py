"""How often a gate errs, and passes a difference as large as it says it can show: over queries and over items."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.optimize import brentq

import aucpr_dask as ap
from docs import pages

TABLE = "gate.csv"
N_SIMULATIONS, N_PILOT, RESAMPLES = 2000, 200, 2000
UNITS, POSITIVES = (10, 30, 50), (20, 50, 200)
# Differences of queries, candidate minus baseline, with mean 0 and variance 1.
QUERY_WORLDS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda random, n: random.normal(size=n),
    "much better on a few": lambda random, n: random.exponential(size=n) - 1,
    "much worse on a few": lambda random, n: 1 - random.exponential(size=n),
}
ITEM_WORLDS = {"area 0.48": 1.5}  # how far the baseline's positives are above the negatives
PREVALENCE, CORRELATION, MARGIN = 0.1, 0.5, 0.1


def run(folder: Path, share: float) -> None:
    """Simulate gates over queries and over items."""
    n, n_pilot = (max(20, round(share * size)) for size in (N_SIMULATIONS, N_PILOT))
    rows = [_over_queries(world, n_units, n) for world in QUERY_WORLDS for n_units in UNITS]
    rows += [_over_items(world, n_positive, n, n_pilot) for world in ITEM_WORLDS for n_positive in POSITIVES]
    pd.DataFrame(rows).assign(n_simulations=n).to_csv(folder / TABLE, index=False, float_format="%.4g")


def _over_queries(world: str, n_units: int, n_simulations: int) -> dict[str, object]:
    """Judge candidates that are as good as the baseline, and then better by the mean detectable difference."""
    random = np.random.default_rng([n_units, len(world)])
    gates = []
    for _ in range(n_simulations):
        values = np.stack([np.zeros(n_units), QUERY_WORLDS[world](random, n_units)])
        result = xr.Dataset({"estimate": (("model", "query"), values)}, coords={"model": ["old", "new"]})
        gates.append(ap.gate(result, "new", "old", n_resamples=RESAMPLES))
    lower, upper = np.array([gate.interval for gate in gates]).T
    detectable = np.mean([gate.detectable for gate in gates])
    found = {"false_pass": np.mean(lower > 0), "false_fail": np.mean(upper < 0), "detectable": detectable}
    return {"sample": "queries", "world": world, "n": n_units, **found, "power": np.mean(lower + detectable > 0)}


def _over_items(world: str, n_positive: int, n_simulations: int, n_pilot: int) -> dict[str, object]:
    """Judge candidates that are worse by the margin, and others that are better by the mean detectable difference."""
    random = np.random.default_rng([n_positive, len(world)])
    baseline = ITEM_WORLDS[world]
    area = _area(baseline)

    def gates(difference: float, n: int, margin: float) -> list[Any]:
        candidate = brentq(lambda mu: _area(mu) - area - difference, 0, 10)
        drawn = (_draw(random, n_positive, baseline, candidate) for _ in range(n))
        return [ap.gate(scores, "new", "old", margin, n_resamples=100) for scores in drawn]  # for families only

    at_margin = gates(-MARGIN, n_simulations, MARGIN)
    detectable = 0.0
    for _ in range(2):  # the standard error depends on the difference, too
        pilot = gates(detectable, n_pilot, 0.0)
        detectable = min(float(np.mean([gate.detectable for gate in pilot])), 0.98 - area)
    better = gates(detectable, n_simulations, 0.0)
    errors = [[gate.passed, gate.verdict == "worse"] for gate in at_margin]
    found = dict(zip(("false_pass", "false_fail"), np.mean(errors, axis=0), strict=True))
    found["detectable"], found["power"] = np.mean([[gate.detectable, gate.passed] for gate in better], axis=0)
    return {"sample": "items", "world": world, "n": n_positive, **found}


def _area(mu: float) -> float:
    return float(ap.simulate.binormal(mu=mu).area(PREVALENCE))


def _draw(random: np.random.Generator, n_positive: int, *mu: float) -> xr.Dataset:
    """Return scores of two models whose noise is correlated."""
    n_items = round(n_positive / PREVALENCE)
    label = np.arange(n_items) < n_positive
    shared, *own = random.normal(size=(1 + len(mu), n_items))
    score = np.sqrt(CORRELATION) * shared + np.sqrt(1 - CORRELATION) * np.array(own) + np.outer(mu, label)
    variables = {"score": (("model", "item"), score), "label": ("item", label.astype(np.int8))}
    return xr.Dataset(variables, coords={"model": ["old", "new"]})


def gate_errors(folder: Path) -> str:
    """Return errors and power of every world and size."""
    table = pd.read_csv(folder / TABLE)
    shares = ["false_pass", "false_fail", "power"]
    table[shares] = (100 * table[shares]).map("{:.1f} %".format)
    rows = table[["sample", "world", "n", *shares]].values
    return pages.table(["sample", "differences", "n", "passed wrongly", "failed wrongly", "power"], rows)


TABLES = {"tables.md": (gate_errors,)}
