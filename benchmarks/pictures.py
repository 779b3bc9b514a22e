"""Draw the cost curves: ``python -m benchmarks.pictures FIGURES.json PICTURE.svg``.

The figures are those that ``python -m benchmarks --suite axis-... --json FIGURES.json`` writes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import FuncFormatter, LogLocator

from aucpr_dask.view.plots.style import BLACK, BLUE, COLUMN, GREEN, GREY, SEQUENCE, SKY, SMALL, VERMILLION, styled
from benchmarks.axes import MANY_AT_ONCE, ONE_BY_ONE, OURS, PASS, PEER, RANDOM_NUMBERS, SORT, curves
from benchmarks.figures import Figures, read_figures
from benchmarks.fits import fit_large_half

TITLES = {
    "axis-items-0.1": "items, 0.1 % positive",
    "axis-items-1": "items, 1 % positive",
    "axis-items-50": "items, 50 % positive",
    "axis-prevalence": "% positive, of 10⁶ items",
    "axis-ties": "distinct scores of 10⁶ items",
    "axis-models": "models of 10⁴ items",
    "axis-queries": "queries of 100 documents",
    "axis-replicates": "replicates, 10⁴ items",
    "axis-estimators": "estimators, 10⁶ items",
}
LOOKS: dict[str, dict[str, Any]] = {
    OURS: {"color": BLUE, "marker": "o", "linestyle": SEQUENCE[0], "zorder": 5, "linewidth": 1.6},
    MANY_AT_ONCE: {"color": SKY, "marker": "D", "linestyle": SEQUENCE[0]},
    ONE_BY_ONE: {"color": GREEN, "marker": "^", "linestyle": SEQUENCE[1]},
    PEER: {"color": VERMILLION, "marker": "s", "linestyle": SEQUENCE[1]},
    SORT: {"color": BLACK, "marker": "", "linestyle": SEQUENCE[2]},
    RANDOM_NUMBERS: {"color": BLACK, "marker": "", "linestyle": SEQUENCE[3]},
    PASS: {"color": GREY, "marker": "", "linestyle": SEQUENCE[2]},
}
Lines = dict[str, tuple[list[float], list[float]]]  # places and seconds of every contender

N_COLUMNS = 3
PANEL = 2 * COLUMN / N_COLUMNS, 0.66 * COLUMN  # inches
LEAST_GAP = 0.085  # of a panel's height, between two exponents
SECONDS = {
    1e-6: "1 µs",
    1e-5: "10 µs",
    1e-4: "100 µs",
    1e-3: "1 ms",
    1e-2: "10 ms",
    0.1: "100 ms",
    1.0: "1 s",
    10.0: "10 s",
}
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def panels_of(figures: dict[str, Figures]) -> dict[str, Lines]:
    """Return the curves of the suites that have a panel."""
    return {suite: curves(figures[suite].timings) for suite in TITLES if suite in figures}


@styled
def draw(figures: dict[str, Figures]) -> Drawing:
    """Draw one panel for each axis: time against the place on the axis, both logarithmic."""
    panels = panels_of(figures)
    n_rows = -(-len(panels) // N_COLUMNS)
    figure = plt.figure(figsize=(N_COLUMNS * PANEL[0], n_rows * PANEL[1] + 0.4), layout="constrained")
    for position, (suite, lines) in enumerate(panels.items(), 1):
        ax = figure.add_subplot(n_rows, N_COLUMNS, position)
        _draw_panel(ax, lines)
        ax.set_title(TITLES[suite], fontweight="normal")
    shown = {name for lines in panels.values() for name in lines}
    handles = [plt.Line2D([], [], label=name, markersize=3, **look) for name, look in LOOKS.items() if name in shown]
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


def _draw_panel(ax: Axes, lines: Lines) -> None:
    for name, (places, seconds) in lines.items():
        ax.plot(places, seconds, markersize=3, **LOOKS[name])
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.xaxis.set_major_formatter(FuncFormatter(_number))
    ax.yaxis.set_major_formatter(FuncFormatter(_duration))
    ax.yaxis.set_major_locator(LogLocator(numticks=8))
    ax.xaxis.set_major_locator(LogLocator(numticks=6))
    ax.minorticks_off()
    ax.margins(y=0.1)
    ax.autoscale_view()
    ax.grid(which="major", color="#E6E6E6", linewidth=0.5)
    ax.set_axisbelow(True)
    _write_exponents(ax, lines)


def _write_exponents(ax: Axes, lines: Lines) -> None:
    """Write the power of the larger half of the places at the end of each line, apart from each other."""
    to_fraction = ax.transScale + ax.transLimits
    ends: dict[float, list[tuple[float, str]]] = {}
    for name, (places, seconds) in lines.items():
        x, y = to_fraction.transform((places[-1], seconds[-1]))
        ends.setdefault(round(float(x), 6), []).append((float(y), name))
    edge = max(ends)
    for x, column in ends.items():
        column.sort()
        # Above a line that ends early, lest it covers one that goes on.
        offset, alignment = ((0.04, 0.0), "left") if x == edge else ((0.0, 0.06), "center")
        heights = spread([height for height, _ in column], LEAST_GAP)
        for height, (_, name) in zip(heights, column, strict=True):
            power = fit_large_half(*lines[name]).exponent
            if np.isfinite(power):
                text = f"{power:.2f}".replace("-0.00", "0.00").replace("-", "\N{MINUS SIGN}")
                look = {"fontsize": SMALL, "color": LOOKS[name]["color"], "va": "center", "ha": alignment}
                ax.annotate(text, (x + offset[0], height + offset[1]), xycoords="axes fraction", **look)


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Move ascending heights within 0 and 1 apart, as little as it takes.

    Examples
    --------
    >>> spread([0.5, 0.5], 0.1)
    [0.45, 0.55]
    """
    groups: list[tuple[float, int]] = []  # mean of what the group's members want, and how many they are
    for height in heights:
        groups.append((height, 1))
        while len(groups) > 1 and groups[-1][0] - groups[-2][0] < gap * (groups[-1][1] + groups[-2][1]) / 2 - 1e-12:
            (upper, n_upper), (lower, n_lower) = groups.pop(), groups.pop()
            n = n_lower + n_upper
            groups.append(((lower * n_lower + upper * n_upper) / n, n))
    return [round(place, 9) for mean, n in groups for place in _evenly(mean, n, gap)]


def _evenly(mean: float, n: int, gap: float) -> Iterator[float]:
    return (mean + (i - (n - 1) / 2) * gap for i in range(n))


def _number(value: float, position: int) -> str:
    """Return 1 to 999 as they are, others as powers of ten."""
    if 0.1 <= value < 1000:
        return f"{value:g}"
    power = round(np.log10(value))
    return "10" + str(power).translate(SUPERSCRIPTS)


def _duration(value: float, position: int) -> str:
    return next((text for seconds, text in SECONDS.items() if np.isclose(value, seconds)), "")


def save(figure: Drawing, path: Path) -> None:
    """Write a picture, of the same bytes for the same drawing."""
    unset = {"Date": None} if path.suffix == ".svg" else {"Software": None}
    with mpl.rc_context({"svg.hashsalt": "cost curves"}):
        figure.savefig(path, metadata=unset)
    plt.close(figure)


def main(arguments: list[str] | None = None) -> int:
    """Read the figures and write the picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pictures", description="Draw the cost curves.")
    parser.add_argument("figures", type=Path, help="JSON of python -m benchmarks, with suites axis-...")
    parser.add_argument("picture", type=Path, help="the file to write: .svg or .png")
    options = parser.parse_args(arguments)
    mpl.use("Agg")
    figures = read_figures(options.figures)
    if not panels_of(figures):
        parser.error(f"{options.figures} has no timings of {', '.join(TITLES)}")
    save(draw(figures), options.picture)
    print(options.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
