"""The simulation study of Boyd, Eng & Page 2013 on this package's own engine: run it, and write its page.

``python docs/study_page.py --run STORE`` runs the study (what is recorded at STORE is not computed again) and writes
``study/*.csv``; ``--simulations N`` makes it shorter. Then, or without ``--run`` at once, the tables of
``simulation-study.md`` are written from these files; with ``--print`` they are printed.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pages
import pandas as pd

if TYPE_CHECKING:
    from aucpr_dask.progress.tracking import Progress

PAGE = pages.HERE / "simulation-study.md"
FOLDER = pages.HERE / "study"
ESTIMATES, INTERVALS, RUN = (FOLDER / name for name in ("estimates.csv", "intervals.csv", "run.csv"))

CELL = ["scenario", "n_items", "prevalence", "estimator"]
SCENARIOS = ("binormal", "bibeta", "offset_uniform")
PREVALENCE = 0.1  # where the number of items varies
ITEMS = 1000  # where the prevalence varies
LEVEL = 0.95
RECOMMENDED = ("average_precision", "lower_trapezoid", "interpolated_median")
OF_PAPER = ("binomial", "logit", "bootstrap", "cross_validation")
CERTAIN = 2.0  # Monte Carlo errors from the level up to which a coverage passes for it


# Running


def run(store: Path, n_simulations: int, cluster: int | None) -> None:
    """Run the three parts of the study, and write their tables."""
    import aucpr_dask as ap
    from aucpr_dask.schema.intervals import INTERVALS as SPECS
    from aucpr_dask.simulate.studies import PAPER_ESTIMATORS

    estimators = (*PAPER_ESTIMATORS, "continuous", "discrete")
    formulas = [name for name, spec in SPECS.items() if spec.is_formula]
    rest = [name for name in SPECS if name not in formulas and name != "bayesian"]
    parts = {
        "items": {"intervals": [*formulas, *rest], "n_simulations": n_simulations},
        "prevalence": {
            "n_items": (ITEMS,),
            "prevalence": (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5),
            "intervals": formulas,
            "n_simulations": n_simulations,
        },
        # Dirichlet weights cost twice as much as counts: for one estimator, with fewer simulations.
        "bayesian": {
            "intervals": ["bayesian"],
            "estimators": ["average_precision"],
            "n_simulations": max(2, n_simulations // 10),
        },
    }
    found, lines = {}, []
    for name, options in parts.items():
        started = time.monotonic()
        options = {"estimators": estimators} | options
        part = ap.simulate.study(**options, url=f"{store}/{name}", cluster=cluster, on_progress=reporter(name))
        found[name] = part.assign_coords(n_simulations=options["n_simulations"])
        facts = {"seconds": round(time.monotonic() - started), "workers": cluster or os.cpu_count()}
        lines.append({"part": name, "simulations": options["n_simulations"]} | facts | {"machine": platform.machine()})
        print(lines[-1], flush=True)
    FOLDER.mkdir(exist_ok=True)
    by_estimator = [found[name].drop_dims("method").to_dataframe() for name in ("items", "prevalence")]
    by_method = [
        part[[name for name in part.data_vars if "method" in part[name].dims]].to_dataframe() for part in found.values()
    ]
    intervals = pd.concat(by_method).reset_index()
    intervals = intervals[intervals["coverage"].notna() & intervals["estimator"].isin(RECOMMENDED)]
    write(pd.concat(by_estimator).reset_index().drop_duplicates(CELL), ESTIMATES)
    write(intervals.drop_duplicates([*CELL, "method"]), INTERVALS)
    write(pd.DataFrame(lines), RUN)


def reporter(name: str) -> Callable[[Progress], None]:
    """Return a callback that prints a line every half a minute."""
    last = time.monotonic()

    def report(event: Progress) -> None:
        nonlocal last
        if time.monotonic() > last + 30:
            last = time.monotonic()
            print(f"{name}: {event.blocks_done} of {event.blocks_total} batches, {event.seconds:.0f} s", flush=True)

    return report


def write(table: pd.DataFrame, path: Path) -> None:
    """Write a table with six significant digits."""
    table.to_csv(path, index=False, float_format="%.6g")


# Reading


def estimates() -> pd.DataFrame:
    """Return what is known of each estimator in each cell."""
    return pd.read_csv(ESTIMATES)


def intervals() -> pd.DataFrame:
    """Return what is known of each interval in each cell, and the positives of a simulation."""
    table = pd.read_csv(INTERVALS)
    table["n_positive"] = (table["n_items"] * table["prevalence"]).round().astype(int)
    return table


def shown(values: Iterable[float], form: str = "{:.3f}") -> list[str]:
    """Return numbers as text; a dash where there is none."""
    return ["-" if value != value else form.format(value) for value in values]


# Tables


def bias_tables(by: str) -> str:
    """Return the bias ratio of every estimator in every scenario, against the number of items or the prevalence."""
    table = estimates()
    table = table[table["prevalence"] == PREVALENCE] if by == "n_items" else table[table["n_items"] == ITEMS]
    parts = []
    for scenario in SCENARIOS:
        wide = table[table["scenario"] == scenario].pivot(index="estimator", columns=by, values="bias_ratio")
        wide = wide.loc[list(dict.fromkeys(table["estimator"]))]
        header = [f"{scenario}: estimator", *(f"{value:,}" if by == "n_items" else f"{value:g}" for value in wide)]
        parts.append(pages.table(header, [[f"`{name}`", *shown(row)] for name, row in wide.iterrows()]))
    worst = table["bias_ratio_error"].max()
    return "\n\n".join([*parts, f"Monte Carlo errors of these ratios are at most {worst:.1g}."])


def interval_table(quantity: str, estimator: str, methods: Iterable[str], form: str = "{:.3f}") -> str:
    """Return one quantity of intervals, a line for each scenario and method, against the number of positives."""
    table = intervals()
    table = table[(table["prevalence"] == PREVALENCE) & (table["estimator"] == estimator)]
    rows = []
    for scenario in SCENARIOS:
        wide = table[table["scenario"] == scenario].pivot(index="method", columns="n_positive", values=quantity)
        rows += [[scenario, f"`{name}`", *shown(wide.loc[name], form)] for name in methods if name in wide.index]
    return pages.table(["scenario", f"{quantity.replace('_', ' ')}: n =", *map("{:,}".format, wide)], rows)


def coverage_of_paper() -> str:
    """Return coverage, width and location of the paper's four intervals for the three estimators it recommends."""
    parts = [f"`{name}`:\n\n{interval_table('coverage', name, OF_PAPER)}" for name in RECOMMENDED]
    return "\n\n".join(parts)


def new_methods() -> list[str]:
    """Return the intervals that the paper did not have."""
    return [name for name in dict.fromkeys(intervals()["method"]) if name not in OF_PAPER]


# Conclusions


def against_level(table: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Tell which coverages are below the level, and which above, beyond chance."""
    margin = CERTAIN * (LEVEL * (1 - LEVEL) / table["n_simulations"]) ** 0.5
    return table["coverage"] < LEVEL - margin, table["coverage"] > LEVEL + margin


def conclusions() -> str:
    """Return every conclusion of the paper with what the study says of it."""
    rows = [[claim, *judge()] for claim, judge in CLAIMS.items()]
    return pages.table(["the paper", "here", "figures"], rows)


def verdict(holds: int, of: int) -> str:
    """Say whether a claim holds in all, some or none of the cells."""
    return "borne out" if holds == of else "not borne out" if holds == 0 else "borne out in part"


def cells_of(method: str) -> pd.DataFrame:
    """Return the cells of one interval in which the number of items varies."""
    table = intervals()
    return table[(table["method"] == method) & (table["prevalence"] == PREVALENCE)]


def is_valid(method: str) -> list[str]:
    """Judge whether an interval covers at least as often as it says, at every size and prevalence."""
    table = intervals()
    table = table[table["method"] == method]
    below, _ = against_level(table)
    lowest = table.loc[table["coverage"].idxmin()]
    text = f"coverage {table['coverage'].min():.3f} to {table['coverage'].max():.3f}"
    if below.any():
        text += f"; below the level in {int(below.sum())} of {len(table)} cells, worst {_place(lowest)}"
    return [verdict(int((~below).sum()), len(table)), text]


def is_below(method: str) -> list[str]:
    """Judge whether an interval covers less often than it says at few positives, and where it comes near."""
    table = cells_of(method)
    below, _ = against_level(table)
    few = table["n_positive"] <= 50
    text = f"{int(below[few].sum())} of {int(few.sum())} cells with up to 50 positives are below the level, "
    text += f"{int(below[~few].sum())} of {int((~few).sum())} with more; "
    first, last = table["n_positive"].min(), table["n_positive"].max()
    mean = table.groupby("n_positive")["coverage"].mean()
    text += f"mean coverage {mean[first]:.3f} at {first} positives, {mean[last]:.3f} at {last:,}"
    return [verdict(int(below[few].sum()), int(few.sum())), text]


def _place(cell: pd.Series) -> str:
    size = f"n = {cell['n_positive']} of {cell['n_items']:,}"
    return f"{cell['coverage']:.3f} ({cell['scenario']}, `{cell['estimator']}`, {size})"


def _ratios(estimator: str, n_items: int | None = None) -> pd.DataFrame:
    table = estimates()
    table = table[(table["estimator"] == estimator) & (table["prevalence"] == PREVALENCE)]
    return table if n_items is None else table[table["n_items"] == n_items]


def _range(values: pd.Series) -> str:
    return f"{values.min():.3f} to {values.max():.3f}"


def most_converge() -> list[str]:
    """Judge whether the ratios of all estimators but two approach 1."""
    table = estimates()
    largest = table["n_items"].max()
    table = table[(table["prevalence"] == PREVALENCE) & (table["n_items"] == largest)]
    rest = table[~table["estimator"].isin(["binormal", "interpolated_convex"])]
    near = (rest["bias_ratio"] - 1).abs() < 0.01
    return [verdict(int(near.sum()), len(near)), f"at {largest:,} items {_range(rest['bias_ratio'])}"]


def binormal_misleads() -> list[str]:
    """Judge whether the binormal estimator is right for its own scenario only."""
    largest = estimates()["n_items"].max()
    ratio = _ratios("binormal", largest).set_index("scenario")["bias_ratio"]
    holds = [abs(ratio["binormal"] - 1) < 0.005, *(abs(ratio[name] - 1) > 0.02 for name in SCENARIOS[1:])]
    text = ", ".join(f"{name} {ratio[name]:.3f}" for name in SCENARIOS)
    return [verdict(sum(holds), len(holds)), f"at {largest:,} items: {text}"]


def binormal_recovers() -> list[str]:
    """Judge whether the wrong model matters less as classes are balanced."""
    table = estimates()
    table = table[(table["estimator"] == "binormal") & (table["n_items"] == ITEMS)]
    holds, parts = [], []
    for name in SCENARIOS[1:]:
        one = table[table["scenario"] == name].set_index("prevalence")["bias_ratio"]
        holds.append(abs(one[0.5] - 1) < abs(one[0.1] - 1))
        parts.append(f"{name} {one[0.1]:.3f} at 0.1, {one[0.5]:.3f} at 0.5")
    return [verdict(sum(holds), len(holds)), "; ".join(parts)]


def convex_overestimates() -> list[str]:
    """Judge whether the convex hull lies above the true area everywhere."""
    table = _ratios("interpolated_convex")
    above = table["bias_ratio"] - CERTAIN * table["bias_ratio_error"] > 1
    return [verdict(int(above.sum()), len(above)), f"{_range(table['bias_ratio'])} over all cells"]


def upward(estimator: str) -> Callable[[], list[str]]:
    """Return a judge of whether an estimator is above the true area at few positives."""

    def judge() -> list[str]:
        table = _ratios(estimator, 100)
        above = table["bias_ratio"] - CERTAIN * table["bias_ratio_error"] > 1
        return [verdict(int(above.sum()), len(above)), f"at 10 positives {_range(table['bias_ratio'])}"]

    return judge


def recommended_are_nearest() -> list[str]:
    """Judge whether the three estimators are those with the least bias."""
    table = estimates()
    table = table[(table["prevalence"] == PREVALENCE) & (table["estimator"] != "binormal")]
    table = table.assign(off=(table["bias_ratio"] - 1).abs())
    mean = table.groupby("estimator")["off"].mean().sort_values()
    best = set(mean.index[:3])
    text = ", ".join(f"`{name}` {value:.3f}" for name, value in mean.items())
    return [verdict(len(best & set(RECOMMENDED)), 3), f"mean distance of the ratio from 1: {text}"]


CLAIMS: dict[str, Callable[[], list[str]]] = {
    "Most estimators converge to the true area.": most_converge,
    "`binormal` is excellent on normal scores and converges to a wrong value on others.": binormal_misleads,
    "Its error shrinks as classes are balanced.": binormal_recovers,
    "`interpolated_convex` overestimates, even at 10,000 items.": convex_overestimates,
    "`upper_trapezoid` overestimates at few positives.": upward("upper_trapezoid"),
    "`interpolated_max` overestimates at few positives.": upward("interpolated_max"),
    "Recommended: `average_precision`, `lower_trapezoid`, `interpolated_median`.": recommended_are_nearest,
    "`binomial` intervals are valid.": lambda: is_valid("binomial"),
    "`logit` intervals are valid.": lambda: is_valid("logit"),
    "`bootstrap` intervals cover too little at small sizes.": lambda: is_below("bootstrap"),
    "`cross_validation` intervals cover too little at small sizes.": lambda: is_below("cross_validation"),
}


def new_summary() -> str:
    """Return the lowest coverage over the scenarios, and the mean width ratio, of every interval."""
    table = intervals()
    table = table[(table["prevalence"] == PREVALENCE) & (table["estimator"] == "average_precision")]
    sizes = sorted(table["n_positive"].unique())
    rows = []
    for method in dict.fromkeys(table["method"]):
        one = table[table["method"] == method].groupby("n_positive")
        worst, width = one["coverage"].min(), one["width_ratio"].mean()
        cells = (f"{worst[n]:.3f} ({width[n]:.2f})" for n in sizes)
        rows.append([f"`{method}`", *cells])
    return pages.table(["lowest coverage (mean width ratio): n =", *map("{:,}".format, sizes)], rows)


def coverage_by_prevalence() -> str:
    """Return the coverage of the intervals that were studied at other prevalences, where the number of items is one."""
    table = intervals()
    table = table[(table["n_items"] == ITEMS) & (table["estimator"] == "average_precision")]
    rows = []
    for scenario in SCENARIOS:
        wide = table[table["scenario"] == scenario].pivot(index="method", columns="prevalence", values="coverage")
        wide = wide.dropna().loc[[name for name in dict.fromkeys(table["method"]) if name in wide.dropna().index]]
        rows += [[scenario, f"`{name}`", *shown(row)] for name, row in wide.iterrows()]
    return pages.table(["scenario", "coverage: prevalence", *(f"{value:g}" for value in wide)], rows)


def about_run() -> str:
    """Return what was run, and how long it took."""
    table = pd.read_csv(RUN)
    rows = [[row.part, f"{row.simulations:,}", f"{row.seconds / 60:.1f}"] for row in table.itertuples()]
    machine = f"{table['workers'][0]} processes ({table['machine'][0]})"
    return pages.table(["part", "simulations of a cell", f"minutes, {machine}"], rows)


BLOCKS: dict[str, Callable[[], str]] = {
    "run": about_run,
    "conclusions": conclusions,
    "bias by items": lambda: bias_tables("n_items"),
    "bias by prevalence": lambda: bias_tables("prevalence"),
    "coverage of the paper's intervals": coverage_of_paper,
    "width of the paper's intervals": lambda: interval_table("width_ratio", RECOMMENDED[0], OF_PAPER, "{:.2f}"),
    "location of the paper's intervals": lambda: interval_table("location", RECOMMENDED[0], OF_PAPER, "{:.2f}"),
    "summary of all intervals": new_summary,
    "coverage by prevalence": coverage_by_prevalence,
    "coverage of the other intervals": lambda: interval_table("coverage", RECOMMENDED[0], new_methods()),
    "location of the other intervals": lambda: interval_table("location", RECOMMENDED[0], new_methods(), "{:.2f}"),
}


def main() -> None:
    """Run the study, or write the tables, or print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, metavar="STORE")
    parser.add_argument("--simulations", type=int, default=10_000)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--print", action="store_true")
    options = parser.parse_args()
    if options.run:
        run(options.run, options.simulations, options.workers)
    for name, make in BLOCKS.items():
        if options.print:
            print(f"## {name}\n\n{make()}\n")
        else:
            pages.write_block(PAGE, name, make())


if __name__ == "__main__":
    main()
