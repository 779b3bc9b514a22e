"""Write the measured tables of ``choosing.md`` from the simulation study.

``python docs/choosing_page.py [--print]``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import pages
import pandas as pd
import study_page

PAGE = pages.HERE / "choosing.md"
POSITIVES = (10, 20, 50, 100, 1000)
ESTIMATOR = "average_precision"


def bias() -> str:
    """Return the range of the bias over the scenarios, for each estimator and number of positives."""
    table = study_page.estimates()
    table = table[(table["prevalence"] == study_page.PREVALENCE) & table["n_positive"].isin(POSITIVES)]
    percent = (100 * (table["bias_ratio"] - 1)).groupby([table["estimator"], table["n_positive"]])
    low, high = percent.min(), percent.max()
    names = list(dict.fromkeys(table["estimator"]))
    rows = [[f"`{name}`", *(f"{low[name, n]:+.1f} to {high[name, n]:+.1f}" for n in POSITIVES)] for name in names]
    return pages.table(["bias in %: n =", *map("{:,}".format, POSITIVES)], rows)


def coverage() -> str:
    """Return the lowest coverage over the scenarios and the mean width of every interval."""
    table = study_page.intervals()
    table = table[(table["prevalence"] == study_page.PREVALENCE) & (table["estimator"] == ESTIMATOR)]
    rows = [_row(name, table[table["method"] == name]) for name in dict.fromkeys(table["method"])]
    return pages.table(["interval: n =", "holds", *map("{:,}".format, POSITIVES)], rows)


def _row(name: str, table: pd.DataFrame) -> list[str]:
    cells = table.groupby("n_positive")
    worst, width = cells["coverage"].min(), cells["width_ratio"].mean()
    return [f"`{name}`", _holds(table), *(f"{worst[n]:.3f} ({width[n]:.2f})" for n in POSITIVES)]


def _holds(table: pd.DataFrame) -> str:
    """Say from how many positives on no coverage is below the level, beyond chance."""
    below, _ = study_page.against_level(table)
    failing = table.loc[below, "n_positive"]
    if failing.empty:
        return "always"
    enough = sorted(n for n in table["n_positive"].unique() if n > failing.max())
    return f"from {enough[0]:,} on" if enough else "never quite"


BLOCKS: dict[str, Callable[[], str]] = {"bias": bias, "coverage": coverage}


def main() -> None:
    """Write the tables, or print them."""
    for name, make in BLOCKS.items():
        if "--print" in sys.argv:
            print(f"## {name}\n\n{make()}\n")
        else:
            pages.write_block(PAGE, name, make())


if __name__ == "__main__":
    main()
