"""The bias, the standard error and the intervals of Haldane's area, next to those of average precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

import aucpr_dask as ap
from aucpr_dask.kernels.codes import AVERAGE_PRECISION, HALDANE, OF_HALDANE, UNSEEN_LOSS
from docs import pages
from docs.study import worlds

TABLE, WEIGHTED, WORST = "haldane.csv", "haldane_weighted.csv", "haldane_worst.csv"
POSITIVES = (10, 20, 50, 100)
WORLDS = {
    "binormal (mu = 1), 10 %": (stats.norm(1), stats.norm(), 0.1),
    "bibeta, 10 %": (stats.beta(5, 2), stats.beta(2, 5), 0.1),
    "offset uniform, 10 %": (stats.uniform(0.5, 1), stats.uniform(), 0.1),
    "binormal (mu = 1), 1 %": (stats.norm(1), stats.norm(), 0.01),
    "binormal (mu = 0.3), 2 %": (stats.norm(0.3), stats.norm(), 0.02),
}
ESTIMATORS = ("average_precision", "lower_trapezoid", "haldane")
METHODS = (
    ("average_precision", "influence_beta"),
    ("haldane", "influence_beta"),
    ("haldane", "influence_logit_t"),
    ("haldane", "logit"),
    ("haldane", "clopper_pearson"),
)
CENTRED = "haldane centred at itself"
WORST_METHODS = (*METHODS[:2], (CENTRED, "influence_beta"), *METHODS[2:])
RESAMPLED = ("bootstrap", "bca", "bootstrap_t")
RESAMPLED_WORLDS = {
    "binormal (mu = 1), 10 %": ap.simulate.binormal(),
    "bibeta, 10 %": ap.simulate.bibeta(),
    "offset uniform, 10 %": ap.simulate.offset_uniform(),
}
RESAMPLED_POSITIVES = POSITIVES[:3]
DEVIATION = 0.7  # of the logarithm of weights
SOFT_SHIFT = 1.5


def run(folder: Path, *, small: bool) -> None:
    """Simulate hard labels, then weights and soft labels."""
    rows = [*_hard(50 if small else 20_000), *_resampled(10 if small else 1000)]
    pd.DataFrame(rows).to_csv(folder / TABLE, index=False, float_format="%.4g")
    _weighted(50 if small else 4000).to_csv(folder / WEIGHTED, index=False, float_format="%.4g")
    _worst(20 if small else 4000).to_csv(folder / WORST, index=False, float_format="%.4g")


def _hard(n_simulations: int) -> list[dict[str, Any]]:
    """Simulate estimates, standard errors and intervals."""
    rows: list[dict[str, Any]] = []
    for number, (world, drawn) in enumerate(WORLDS.items()):
        true = worlds.true_area(*drawn)
        for n in POSITIVES:
            random = np.random.default_rng([number, n])
            sample = worlds.sample(drawn, n, n_simulations, random)
            facts = _facts(sample)
            cell = {"world": world, "n": n}
            precision, haldane = (of_estimator[:, 0] for of_estimator in facts.values())
            lower = (precision + haldane) / 2  # without ties
            for estimator, area in zip(ESTIMATORS, (precision, lower, haldane), strict=True):
                rmse = np.sqrt(np.mean((area - true) ** 2))
                row = cell | {"estimator": estimator, "bias": area.mean() / true - 1, "rmse": rmse}
                if estimator in facts:
                    row["error"] = facts[estimator][:, 3].mean() / area.std()
                rows.append(row)
            for estimator, method in METHODS:
                found = _coverage(facts[estimator], n, method, true)
                rows.append(cell | {"estimator": estimator, "method": method} | found)
        print(world, flush=True)
    return rows


def _facts(sample: tuple[Any, ...]) -> dict[str, worlds.Array]:
    """Return what intervals are made from, of both estimators."""
    of_haldane = np.array([HALDANE, AVERAGE_PRECISION, UNSEEN_LOSS + OF_HALDANE])
    plain = worlds.facts_of(*sample, worlds.CODES, False)
    return {"average_precision": plain, "haldane": worlds.facts_of(*sample, of_haldane, True)}


def _coverage(facts: worlds.Array, n: int, method: str, true: float) -> dict[str, float]:
    bounds = worlds.intervals(facts, n, 0.95, method)
    covers = (bounds[:, 0] <= true + 1e-12) & (true <= bounds[:, 1] + 1e-12)
    return {"coverage": covers.mean(), "width": np.diff(bounds).mean()}


def _worst(n_simulations: int) -> pd.DataFrame:
    """Simulate all worlds; return the lowest coverages, and the mean widths over average precision's influence_beta."""
    rows = []
    for number, world in enumerate(worlds.WORLDS.values()):
        true = worlds.true_area(*world)
        for n in POSITIVES:
            facts = _facts(worlds.sample(world, n, n_simulations, np.random.default_rng([1, number, n])))
            facts[CENTRED] = facts["haldane"].copy()
            facts[CENTRED][:, 1] = facts["haldane"][:, 0]
            reference = _coverage(facts["average_precision"], n, "influence_beta", true)["width"]
            for estimator, method in WORST_METHODS:
                found = _coverage(facts[estimator], n, method, true)
                found["width"] /= reference
                rows.append({"n": n, "estimator": estimator, "method": method} | found)
    table = pd.DataFrame(rows).groupby(["estimator", "method", "n"])
    return table.agg({"coverage": "min", "width": "mean"}).reset_index()


def _resampled(n_simulations: int) -> list[dict[str, Any]]:
    """Simulate the intervals that resample; each simulation is a query, with its own resamples."""
    rows = []
    for world, scenario in RESAMPLED_WORLDS.items():
        true = scenario.area(0.1)
        for n in RESAMPLED_POSITIVES:
            drawn = scenario.sample(10 * n, 0.1, n_simulations=n_simulations, seed=n)
            scores = drawn[["score", "label"]].rename(model="query").expand_dims(model=["one"])
            bounds = ap.evaluate(scores.assign(label=drawn["label"]), "haldane", RESAMPLED)["interval"]
            for method in RESAMPLED:
                lower, upper = bounds.sel({"method": method}).transpose("ci_bound", ...).values
                covers = (lower <= true) & (true <= upper)
                row = {"world": world, "n": n, "estimator": "haldane", "method": method}
                rows.append(row | {"coverage": covers.mean(), "width": np.nanmean(upper - lower)})
    return rows


def _weighted(n_simulations: int) -> pd.DataFrame:
    """Simulate weights that do not depend on the scores, and soft labels; a tenth of the weight is positive."""
    rows = []
    for n in RESAMPLED_POSITIVES:
        random = np.random.default_rng(n)
        label = np.repeat([1, 0], [n, 9 * n])
        score = random.normal(size=(n_simulations, label.size)) + label
        weight = np.exp(DEVIATION * random.normal(size=score.shape))
        true = ap.simulate.binormal().area(0.1)
        rows += _biases("log-normal weights", n, true, score, label=label, weight=weight)

        shape = n_simulations, 10 * n
        is_likely = random.random(shape) < 0.1
        chance = np.where(is_likely, random.beta(1.6, 0.4, shape), random.beta(0.1, 1.9, shape))
        score = random.normal(size=shape) + SOFT_SHIFT * (random.random(shape) < chance)
        rows += _biases("soft labels", n, _soft_area(), score, positive_weight=chance, negative_weight=1 - chance)
    return pd.DataFrame(rows)


def _soft_area() -> float:
    """Return the area of soft labels: both classes are mixtures of N(0, 1) and N(1.5, 1)."""
    share = 0.1 * 0.8 + 0.9 * 0.05
    square = 0.1 * (0.8 * 0.2 / 3 + 0.8**2) + 0.9 * (0.05 * 0.95 / 3 + 0.05**2)
    low, high = stats.norm(), stats.norm(SOFT_SHIFT)
    positive = worlds.Mixture(square / share, low, high)
    negative = worlds.Mixture((share - square) / (1 - share), low, high)
    return worlds.true_area(positive, negative, share)


def _biases(design: str, n: int, true: float, score: np.ndarray, **labels: np.ndarray) -> list[dict[str, Any]]:
    names = ["average_precision", "haldane"]
    areas = ap.estimate(score, labels.pop("label", None), names, **labels)
    rmse = np.sqrt(np.mean((areas - true) ** 2, axis=0))
    values = zip(names, areas.mean(axis=0) / true - 1, rmse, strict=True)
    return [{"design": design, "n": n, "estimator": name, "bias": bias, "rmse": error} for name, bias, error in values]


def haldane_bias(folder: Path) -> str:
    """Return biases in percent, and errors relative to that of average precision."""
    table = pd.read_csv(folder / TABLE)
    table = table[table["method"].isna()].set_index(["world", "estimator", "n"]).sort_index()
    rows = []
    for world in WORLDS:
        plain = table.loc[(world, "average_precision")]
        for estimator in ESTIMATORS:
            here = table.loc[(world, estimator)]
            rows.append(
                [world if estimator == ESTIMATORS[0] else "", f"`{estimator}`", *_shown(here, plain, POSITIVES)]
            )
    return pages.table(["scores, share of positives", "estimator", *(f"n = {n}" for n in POSITIVES)], rows)


def _shown(here: pd.DataFrame, plain: pd.DataFrame, sizes: tuple[int, ...]) -> list[str]:
    shown = [f"{100 * here['bias'][n]:+.1f}" for n in sizes]
    if here.equals(plain):
        return shown
    return [f"{bias} ({here['rmse'][n] / plain['rmse'][n]:.2f})" for bias, n in zip(shown, sizes, strict=True)]


def haldane_weighted(folder: Path) -> str:
    """Return biases in percent, and errors relative to that of average precision, of weights and soft labels."""
    table = pd.read_csv(folder / WEIGHTED).set_index(["design", "estimator", "n"]).sort_index()
    rows = []
    for design in ("log-normal weights", "soft labels"):
        plain = table.loc[(design, "average_precision")]
        rows.append([design, "`average_precision`", *_shown(plain, plain, RESAMPLED_POSITIVES)])
        rows.append(["", "`haldane`", *_shown(table.loc[(design, "haldane")], plain, RESAMPLED_POSITIVES)])
    return pages.table(["design", "estimator", *(f"n = {n}" for n in RESAMPLED_POSITIVES)], rows)


def haldane_errors(folder: Path) -> str:
    """Return the mean standard error over the standard deviation of the estimates."""
    table = pd.read_csv(folder / TABLE)
    table = table[table["error"].notna()].set_index(["world", "estimator", "n"])["error"]
    rows = []
    for world in WORLDS:
        for estimator in ("average_precision", "haldane"):
            cells = [f"{table[world, estimator, n]:.2f}" for n in POSITIVES]
            rows.append([world if estimator == "average_precision" else "", f"`{estimator}`", *cells])
    return pages.table(["scores, share of positives", "estimator", *(f"n = {n}" for n in POSITIVES)], rows)


def haldane_intervals(folder: Path) -> str:
    """Return coverages, and mean widths relative to that of average precision's influence_beta."""
    table = pd.read_csv(folder / TABLE)
    table = table[table["method"].notna()].set_index(["world", "estimator", "method", "n"]).sort_index()
    rows = []
    for world in WORLDS:
        reference = table.loc[(world, *METHODS[0])]["width"]
        methods = METHODS
        if world in RESAMPLED_WORLDS:
            methods = (*METHODS, *(("haldane", name) for name in RESAMPLED))
        for estimator, method in methods:
            here = table.loc[(world, estimator, method)]
            cells = [
                f"{here['coverage'][n]:.3f} ({here['width'][n] / reference[n]:.2f})" if n in here.index else ""
                for n in POSITIVES
            ]
            is_first = (estimator, method) == METHODS[0]
            rows.append(
                [world if is_first else "", f"`{method}` of `{estimator}`" if is_first else f"`{method}`", *cells]
            )
    return pages.table(["scores, share of positives", "interval", *(f"n = {n}" for n in POSITIVES)], rows)


def haldane_worst(folder: Path) -> str:
    """Return the lowest coverages over all worlds, and mean widths."""
    table = pd.read_csv(folder / WORST).set_index(["estimator", "method", "n"]).sort_index()
    rows = []
    for estimator, method in WORST_METHODS:
        here = table.loc[(estimator, method)]
        cells = [f"{here['coverage'][n]:.3f} ({here['width'][n]:.2f})" for n in POSITIVES]
        rows.append(
            [f"`{estimator}`" if estimator != CENTRED else "`haldane`, centred at itself", f"`{method}`", *cells]
        )
    return pages.table(["estimator", "interval", *(f"n = {n}" for n in POSITIVES)], rows)


TABLES = {
    "choosing.md": (haldane_bias, haldane_weighted),
    "default-interval.md": (haldane_errors, haldane_worst, haldane_intervals),
}
