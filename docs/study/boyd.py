"""The simulation study of Boyd, Eng & Page 2013, and worlds that are hard for intervals.

The records of all simulations are kept in ``boyd.zarr`` next to the tables, so that an interrupted run resumes.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import xarray as xr

from docs import pages

CELL = ["scenario", "n_items", "prevalence", "estimator"]
SCENARIOS = ("binormal", "bibeta", "offset_uniform")
PREVALENCE = 0.1  # where the number of items varies
ITEMS = 1000  # where the prevalence varies
LEVEL = 0.95
RECOMMENDED = ("average_precision", "lower_trapezoid", "interpolated_median")
CERTAIN = 2.0  # Monte Carlo errors within which a coverage counts as equal to the level
POSITIVES = (10, 20, 50, 100, 1000)
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
    from aucpr_dask.schema.intervals import INTERVALS as SPECS
    from aucpr_dask.simulate.studies import PAPER_ESTIMATORS

    formulas = [name for name, spec in SPECS.items() if spec.is_formula]
    influences = [name for name in SPECS if name.startswith("influence")]
    rest = [name for name in SPECS if name not in (*formulas, "influence_beta", "bayesian")]
    n_simulations = 20 if small else 10_000
    common = {"estimators": (*PAPER_ESTIMATORS, "continuous", "discrete"), "n_simulations": n_simulations}
    alone = {"estimators": ["average_precision"], "n_simulations": n_simulations}
    by_prevalence = {"n_items": (ITEMS,), "prevalence": (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)}
    parts = {
        "items": common | {"intervals": [*formulas, *rest]},
        "prevalence": common | by_prevalence | {"intervals": formulas},
        "influence": alone | {"intervals": ["influence_beta"]},
        "influence-prevalence": alone | by_prevalence | {"intervals": influences},
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
    found, lines = {}, []
    for name, options in (parts | adverse).items():
        started = time.monotonic()
        part = ap.simulate.study(**options, url=folder / "boyd.zarr" / name)
        found[name] = part.assign_coords(n_simulations=options["n_simulations"])
        facts = {"seconds": round(time.monotonic() - started), "workers": os.cpu_count()}
        lines.append({"part": name, "simulations": options["n_simulations"]} | facts | {"machine": platform.machine()})
        print(lines[-1], flush=True)
    of_estimators = [found[name].drop_dims("method") for name in ("items", "prevalence") if name in found]
    if of_estimators:
        _write(folder, "estimates", pd.concat(part.to_dataframe() for part in of_estimators).reset_index(), CELL)
    for name, names in (("intervals", parts), ("adverse", adverse)):
        by_method = [_by_method(part) for part_name, part in found.items() if part_name in names]
        if by_method:
            table = pd.concat(by_method)
            kept = ADVERSE_COLUMNS if names is adverse else [name for name in table if name != "true_area"]
            _write(folder, name, table[kept], [*CELL, "method"])
    _write(folder, "run", pd.DataFrame(lines), ["part"])


def _by_method(part: xr.Dataset) -> pd.DataFrame:
    names = ["true_area", *(name for name in part.data_vars if "method" in part[name].dims)]
    table = part[names].to_dataframe().reset_index()
    return table[table["coverage"].notna() & table["estimator"].isin(RECOMMENDED)]


def _write(folder: Path, name: str, table: pd.DataFrame, key: list[str]) -> None:
    """Write a table, with the rows of the one before that are not in it."""
    path = folder / f"{name}.csv"
    table = table.drop_duplicates(key)
    if path.exists():
        before = pd.read_csv(path)
        is_new = pd.MultiIndex.from_frame(before[key]).isin(pd.MultiIndex.from_frame(table[key]))
        table = pd.concat([before[~is_new], table])
    table.to_csv(path, index=False, float_format="%.6g")


def estimates(folder: Path) -> pd.DataFrame:
    """Return the results for each estimator in each cell."""
    return pd.read_csv(folder / "estimates.csv")


def intervals(folder: Path) -> pd.DataFrame:
    """Return the results for each interval in each cell, and the positives of a simulation."""
    table = pd.read_csv(folder / "intervals.csv")
    return table.assign(n_positive=(table["n_items"] * table["prevalence"]).round().astype(int))


def are_below(table: pd.DataFrame) -> pd.Series:
    """Return which coverages are below the level by more than chance."""
    return table["coverage"] < LEVEL - CERTAIN * (LEVEL * (1 - LEVEL) / table["n_simulations"]) ** 0.5


# The tables of choosing.md


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


# The conclusions of simulation-study.md: for each, how many of how many cases hold, and the figures

Judgment = tuple[int, int, str]


def most_converge(folder: Path) -> Judgment:
    """Judge whether all estimators but two approach the true area."""
    table = estimates(folder)
    largest = table["n_items"].max()
    rest = table[(table["n_items"] == largest) & ~table["estimator"].isin(["binormal", "interpolated_convex"])]
    near = (rest["bias_ratio"] - 1).abs() < 0.01
    return near.sum(), near.size, f"at {largest:,} items {_range(rest)}"


def binormal_misleads(folder: Path) -> Judgment:
    """Judge whether the binormal estimator is right for its own scenario only."""
    table = estimates(folder)
    table = table[(table["estimator"] == "binormal") & (table["n_items"] == table["n_items"].max())]
    ratio = table.set_index("scenario")["bias_ratio"]
    holds = [abs(ratio["binormal"] - 1) < 0.005, *(abs(ratio[name] - 1) > 0.02 for name in SCENARIOS[1:])]
    return sum(holds), 3, "at 10,000 items: " + ", ".join(f"{name} {ratio[name]:.3f}" for name in SCENARIOS)


def binormal_recovers(folder: Path) -> Judgment:
    """Judge whether its error is smaller if classes are balanced."""
    table = estimates(folder)
    table = table[(table["estimator"] == "binormal") & (table["n_items"] == ITEMS)]
    ratio = table.set_index(["scenario", "prevalence"])["bias_ratio"]
    holds = [abs(ratio[name, 0.5] - 1) < abs(ratio[name, 0.1] - 1) for name in SCENARIOS[1:]]
    parts = (f"{name} {ratio[name, 0.1]:.3f} at 0.1, {ratio[name, 0.5]:.3f} at 0.5" for name in SCENARIOS[1:])
    return sum(holds), 2, "; ".join(parts)


def overestimates(folder: Path, estimator: str, n_items: int | None = None) -> Judgment:
    """Return in how many cells an estimator is above the true area."""
    table = estimates(folder)
    table = table[(table["estimator"] == estimator) & (table["prevalence"] == PREVALENCE)]
    table = table if n_items is None else table[table["n_items"] == n_items]
    above = table["bias_ratio"] - CERTAIN * table["bias_ratio_error"] > 1
    return above.sum(), above.size, f"{_range(table)} {'over all cells' if n_items is None else 'at 10 positives'}"


def recommended_are_nearest(folder: Path) -> Judgment:
    """Judge whether the three recommended estimators have the least bias."""
    table = estimates(folder)
    table = table[(table["prevalence"] == PREVALENCE) & (table["estimator"] != "binormal")]
    mean = (table["bias_ratio"] - 1).abs().groupby(table["estimator"]).mean().sort_values()
    figures = ", ".join(f"`{name}` {value:.3f}" for name, value in mean.items())
    return len(set(mean.index[:3]) & set(RECOMMENDED)), 3, f"mean distance of the ratio from 1: {figures}"


def is_valid(folder: Path, method: str) -> Judgment:
    """Return in how many cells an interval covers at least as often as it says."""
    table = intervals(folder)
    table = table[table["method"] == method]
    below, worst = are_below(table), table.loc[table["coverage"].idxmin()]
    size = f"n = {worst['n_positive']} of {worst['n_items']:,}"
    text = (
        f"coverage {table['coverage'].min():.3f} to {table['coverage'].max():.3f}; below the level in {below.sum()} of "
    )
    text += f"{below.size} cells, worst {worst['coverage']:.3f} ({worst['scenario']}, `{worst['estimator']}`, {size})"
    return (~below).sum(), below.size, text


def is_below(folder: Path, method: str) -> Judgment:
    """Return in how many cells with few positives an interval covers less often than it says."""
    table = intervals(folder)
    table = table[(table["method"] == method) & (table["prevalence"] == PREVALENCE)]
    below, few, mean = are_below(table), table["n_positive"] <= 50, table.groupby("n_positive")["coverage"].mean()
    text = f"{below[few].sum()} of {few.sum()} cells with up to 50 positives are below the level, "
    text += f"{below[~few].sum()} of {(~few).sum()} with more; "
    text += f"mean coverage {mean[10]:.3f} at 10 positives, {mean[1000]:.3f} at 1,000"
    return below[few].sum(), few.sum(), text


def _range(table: pd.DataFrame) -> str:
    return f"{table['bias_ratio'].min():.3f} to {table['bias_ratio'].max():.3f}"


CLAIMS: dict[str, Callable[[Path], Judgment]] = {
    "Most estimators converge to the true area.": most_converge,
    "`binormal` is excellent on normal scores and converges to a wrong value on others.": binormal_misleads,
    "Its error shrinks as classes are balanced.": binormal_recovers,
    "`interpolated_convex` overestimates, even at 10,000 items.": lambda folder: overestimates(
        folder, "interpolated_convex"
    ),
    "`upper_trapezoid` overestimates at few positives.": lambda folder: overestimates(folder, "upper_trapezoid", 100),
    "`interpolated_max` overestimates at few positives.": lambda folder: overestimates(folder, "interpolated_max", 100),
    "Recommended: `average_precision`, `lower_trapezoid`, `interpolated_median`.": recommended_are_nearest,
    "`binomial` intervals are valid.": lambda folder: is_valid(folder, "binomial"),
    "`logit` intervals are valid.": lambda folder: is_valid(folder, "logit"),
    "`bootstrap` intervals cover too little at small sizes.": lambda folder: is_below(folder, "bootstrap"),
    "`cross_validation` intervals cover too little at small sizes.": lambda folder: is_below(
        folder, "cross_validation"
    ),
}


def conclusions(folder: Path) -> str:
    """Return each conclusion of the paper with what the study says of it."""
    rows = []
    for claim, judge in CLAIMS.items():
        holds, of, figures = judge(folder)
        rows.append([claim, "yes" if holds == of else "no" if holds == 0 else "in part", figures])
    return pages.table(["the paper", "confirmed", "figures"], rows)


TABLES = {"simulation-study.md": (conclusions,), "choosing.md": (bias, coverage, adverse)}
