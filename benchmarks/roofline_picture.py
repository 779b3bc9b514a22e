"""The roofline: instructions per byte against instructions per second, both logarithmic."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from aucpr_dask.view.plots.style import (
    BLACK,
    BLUE,
    COLUMN,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SEQUENCE,
    SKY,
    SMALL,
    VERMILLION,
    styled,
)
from benchmarks.limits import Limits
from benchmarks.roofline import GIGA, Kernel

SHOWN = {  # first word of the name: colour and marker
    "ranking": (BLUE, "o"),
    "short": (SKY, "s"),
    "weighted": (VERMILLION, "D"),
    "ten": (ORANGE, "^"),
    "bootstrap": (GREEN, "P"),
    "bayesian": (PURPLE, "v"),
    "influence": (BLACK, "X"),
    "covariance": (GREY, "p"),
}
LEFT_OUT = ("0.1 %", "10 %", "expectation", "estimate")  # beside others that are alike
INTENSITIES = 0.05, 1000.0  # instructions per byte
RATES = 0.8, 45.0  # 10^9 instructions per second
DISTANCES = 8, 12, 16, 20, 26, 32, 40, 50, 60  # of a number from its point, in typographic points
NEAR = 10
ROOM = np.array([10.0, 10.5])  # between centres
WIDTH, HEIGHT = 2 * COLUMN, 1.15 * COLUMN  # inches


@styled
def draw(kernels: list[Kernel], limits: Limits) -> Figure:
    """Draw the roofs, and a numbered point for each kernel."""
    figure, (ax, key) = plt.subplots(
        1, 2, figsize=(WIDTH, HEIGHT), width_ratios=(2.1, 1), layout="constrained", sharey=False
    )
    _draw_roofs(ax, limits)
    shown = list(_shown(kernels))
    _draw_points(ax, shown)
    key.axis("off")
    for line, found in enumerate(shown):
        colour, marker = SHOWN[_family(found)]
        y = 1 - (line + 0.5) / len(shown)
        key.plot([0.02], [y], marker=marker, color=colour, markersize=4, linestyle="")
        key.text(0.13, y, str(line + 1), fontsize=SMALL, va="center", ha="right")
        key.text(0.16, y, found.name, fontsize=SMALL, va="center")
    key.set_xlim(0, 1)
    key.set_ylim(0, 1)
    return figure


def _draw_roofs(ax: Axes, limits: Limits) -> None:
    x = np.geomspace(*INTENSITIES, 200)
    peak = limits.scalar / GIGA
    for line, (level, bandwidth) in enumerate(limits.bandwidth.items()):
        slope = bandwidth / GIGA * x
        ax.plot(x[slope < peak], slope[slope < peak], color=GREY, linestyle=SEQUENCE[line], linewidth=0.9)
        ridge = peak / (bandwidth / GIGA)
        ax.plot([], [], color=GREY, linestyle=SEQUENCE[line], linewidth=0.9, label=f"reading from {level}")
        ax.plot([ridge, INTENSITIES[1]], [peak, peak], color=BLACK, linewidth=0.9)
    ax.text(INTENSITIES[1], 1.06 * peak, "one number an instruction, nothing waited for", fontsize=SMALL, ha="right")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(INTENSITIES)
    ax.set_ylim(RATES[0], max(RATES[1], 1.5 * peak))
    ax.set_xlabel("instructions per byte that has to be read")
    ax.set_ylabel("10⁹ instructions per second")
    ax.set_yticks([1, 2, 5, 10, 20])
    ax.minorticks_off()
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.legend(loc="lower left", bbox_to_anchor=(0.22, 0))


def _draw_points(ax: Axes, shown: list[Kernel]) -> None:
    """Draw the points, and their numbers where there is room."""
    for found in shown:
        colour, marker = SHOWN[_family(found)]
        x, y = found.intensity, found.rate / GIGA
        ax.plot([x], [y], marker=marker, color=colour, markersize=4, linestyle="", zorder=3)
    points = [(found.intensity, found.rate / GIGA) for found in shown]
    for number, (point, offset) in enumerate(zip(points, _rooms(ax, points), strict=True), 1):
        line = {"arrowstyle": "-", "color": GREY, "linewidth": 0.4, "shrinkA": 0, "shrinkB": 2}
        where = {"xytext": offset, "textcoords": "offset points", "ha": "center", "va": "center"}
        ax.annotate(str(number), point, **where, fontsize=SMALL, arrowprops=line if np.hypot(*offset) > NEAR else None)


def _rooms(ax: Axes, points: list[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Yield an offset for each number, in typographic points, at which it meets no point and no other number."""
    ax.figure.draw_without_rendering()  # so that the layout is known
    scale = 72 / ax.figure.dpi
    taken = [scale * np.array(ax.transData.transform(point)) for point in points]
    edges = scale * np.array(ax.transAxes.transform([(0, 0), (1, 1)]))
    for place in list(taken):
        offsets = [(r * np.cos(t), r * np.sin(t)) for r in DISTANCES for t in np.linspace(0, 2 * np.pi, 16)[:-1]]
        inside = (o for o in offsets if np.all(place + o > edges[0] + ROOM) and np.all(place + o < edges[1] - ROOM))
        free = (o for o in inside if all(np.any(np.abs(place + o - other) > ROOM) for other in taken))
        offset = next(free, (DISTANCES[0], 0))
        taken.append(place + offset)
        yield offset


def _shown(kernels: list[Kernel]) -> Iterator[Kernel]:
    for found in kernels:
        if _family(found) in SHOWN and not any(text in found.name for text in LEFT_OUT):
            yield found


def _family(found: Kernel) -> str:
    return found.name.replace(",", " ").split()[0]


def save(figure: Figure, path: Path) -> None:
    """Write a picture, of the same bytes for the same drawing."""
    unset = {"Date": None} if path.suffix == ".svg" else {"Software": None}
    with mpl.rc_context({"svg.hashsalt": "roofline"}):
        figure.savefig(path, metadata=unset)
    plt.close(figure)
