"""Estimators and intervals that Boyd, Eng & Page 2013 do not have, in their scenarios; worlds hard for intervals."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from docs import pages
from docs.study.boyd import (
    BY_PREVALENCE,
    CELL,
    PREVALENCE,
    RECOMMENDED,
    are_below,
    estimates,
    interval_rows,
    intervals,
    keep,
    simulate,
    write,
)

POSITIVES = (10, 20, 50, 100, 1000)
# Intervals that the paper does not have; the bayesian one is apart
FORMULAS = ("wilson", "clopper_pearson")
INFLUENCES = ("influence", "influence_logit", "influence_logit_t", "influence_beta")
RESAMPLED = ("basic", "bca", "bootstrap_t", "cross_validation")
ADVERSE = ("logit", "clopper_pearson", "influence_logit_t", "influence_beta")  # intervals shown in adverse worlds
ADVERSE_POSITIVES = (10, 20, 50, 100, 300)
ADVERSE_COLUMNS = [*CELL, "method", "true_area", "coverage", "width", "n_simulations"]
MOST_ITEMS = 300_000
# Mean and standard deviation of positives, where negatives are N(0, 1), and the prevalence.
WORLDS = (
    (1.0, 1.0, 0.1),
    (1.5, 0.5, 0.5),
    (2.0, 0.5, 0.5),
    (2.5, 0.6, 0.5),
    (1.0, 2.0, 0.1),
    (4.0, 1.0, 0.1),
    (0.1, 1.0, 0.02),
    (2.0, 1.0, 0.001),
    (3.0, 1.0, 0.0001),
)


def run(folder: Path, *, small: bool) -> None:
    """Run the parts of the study, and write their tables."""
    import aucpr_dask as ap

    n_simulations = 20 if small else 10_000
    common = {"estimators": (*RECOMMENDED, "continuous", "discrete"), "n_simulations": n_simulations}
    alone = {"estimators": ["average_precision"], "n_simulations": n_simulations}
    others = {
        "items": common | {"intervals": [*FORMULAS, *RESAMPLED, *INFLUENCES[:3]]},
        "prevalence": common | BY_PREVALENCE | {"intervals": FORMULAS},
        "influence": alone | {"intervals": ["influence_beta"]},
        "influence-prevalence": alone | BY_PREVALENCE | {"intervals": INFLUENCES},
        # Dirichlet weights cost twice as much as counts, so there are fewer simulations, of one estimator.
        "bayesian": alone | {"n_simulations": max(2, n_simulations // 10), "intervals": ["bayesian"]},
    }
    adverse = {
        f"adverse-{number}": alone
        | {
            "scenarios": [ap.simulate.binormal(mu, sigma)],
            "prevalence": prevalence,
            "n_items": [size for n in ADVERSE_POSITIVES if (size := round(n / prevalence)) <= MOST_ITEMS],
            "intervals": ADVERSE,
        }
        for number, (mu, sigma, prevalence) in enumerate(WORLDS)
    }
    found = simulate(folder, "further", others)
    keep(folder, found)
    found = simulate(folder, "further", adverse)
    write(folder, "adverse", pd.concat(map(interval_rows, found))[ADVERSE_COLUMNS], [*CELL, "method"])


def bias(folder: Path) -> str:
    """Return the range of the bias over the scenarios, for each estimator and number of positives."""
    table = estimates(folder)
    table = table[(table["prevalence"] == PREVALENCE) & table["n_positive"].isin(POSITIVES)]
    percent = (100 * (table["bias_ratio"] - 1)).groupby([table["estimator"], table["n_positive"]])
    low, high = percent.min(), percent.max()
    names = dict.fromkeys(table["estimator"])
    rows = [[f"`{name}`", *(f"{low[name, n]:+.1f} to {high[name, n]:+.1f}" for n in POSITIVES)] for name in names]
    return pages.table(["bias in %: n =", *map("{:,}".format, POSITIVES)], rows)


def coverage(folder: Path) -> str:
    """Return the lowest coverage over the scenarios and the mean width of every interval."""
    table = intervals(folder)
    table = table[(table["prevalence"] == PREVALENCE) & (table["estimator"] == RECOMMENDED[0])]
    rows = []
    for name in dict.fromkeys(table["method"]):
        cells = table[table["method"] == name]
        failing = cells["n_positive"][are_below(cells)]
        enough = sorted(n for n in cells["n_positive"].unique() if failing.empty or n > failing.max())
        valid = "always" if failing.empty else f"from {enough[0]:,} on" if enough else "never quite"
        by_n = cells.groupby("n_positive")
        worst, width = by_n["coverage"].min(), by_n["width_ratio"].mean()
        rows.append([f"`{name}`", valid, *(f"{worst[n]:.3f} ({width[n]:.2f})" for n in POSITIVES)])
    return pages.table(["interval: n =", "valid", *map("{:,}".format, POSITIVES)], rows)


def adverse(folder: Path) -> str:
    """Return coverage and width, relative to that of logit, in worlds that are hard for some interval."""
    table = pd.read_csv(folder / "adverse.csv")
    table["n"] = (table["n_items"] * table["prevalence"]).round().astype(int)
    rows = []
    for mu, sigma, prevalence in WORLDS:
        cells = table[(table["scenario"] == f"binormal(mu={mu}, sigma={sigma})") & (table["prevalence"] == prevalence)]
        by_method = cells.set_index(["method", "n"])
        first = f"N({mu:g}, {sigma:g}²), {prevalence:g}" if sigma != 1 else f"N({mu:g}, 1), {prevalence:g}"
        names = [first, f"{cells['true_area'].iloc[0]:.3f}"]
        for method in ADVERSE:
            shown = []
            for n in ADVERSE_POSITIVES:
                if (method, n) not in by_method.index:
                    shown.append("")
                    continue
                width = by_method.loc[method, "width"][n] / by_method.loc["logit", "width"][n]
                coverage = f"{by_method.loc[method, 'coverage'][n]:.3f}"
                shown.append(coverage if method == "logit" else f"{coverage} ({width:.2f})")
            rows.append([*names, f"`{method}`", *shown])
            names = ["", ""]
    return pages.table(["positives, prevalence", "area", "interval", *(f"n = {n}" for n in ADVERSE_POSITIVES)], rows)


TABLES = {"tables.md": (bias, coverage, adverse)}
