"""Estimators and intervals that Boyd, Eng & Page 2013 do not have, in their scenarios."""

from __future__ import annotations

from pathlib import Path

from docs import pages
from docs.study.boyd import BY_PREVALENCE, PREVALENCE, RECOMMENDED, are_below, estimates, intervals, keep, simulate

POSITIVES = (10, 20, 50, 100, 1000)
SIMULATIONS = 1000
# Intervals that the paper does not have
FORMULAS = ("wilson", "clopper_pearson")
INFLUENCES = ("influence_logit_t", "influence_beta")
RESAMPLED = ("bca", "bootstrap_t")


def run(folder: Path, share: float) -> None:
    """Run the parts of the study, and write their tables."""
    n_simulations = max(20, round(share * SIMULATIONS))
    common = {"estimator": (*RECOMMENDED, "continuous", "discrete"), "n_simulations": n_simulations}
    alone = {"estimator": ["average_precision"], "n_simulations": n_simulations}
    others = {
        "items": common | {"interval": [*FORMULAS, "cross_validation"]},
        "prevalence": common | BY_PREVALENCE | {"interval": FORMULAS},
        # Tables show these of average precision only.
        "items-alone": alone | {"interval": [*RESAMPLED, *INFLUENCES]},
        "influence-prevalence": alone | BY_PREVALENCE | {"interval": INFLUENCES},
    }
    keep(folder, simulate(others))


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


TABLES = {"tables.md": (bias, coverage)}
