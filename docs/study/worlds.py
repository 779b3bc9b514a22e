"""The coverage and width of intervals of average precision in many worlds.

The stored results are of 10,000 simulations in every cell; only the numbers of negatives between positives were drawn.
Here every item is drawn, so that cells with rare positives have fewer simulations, or none if they would be too few.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy import stats

import aucpr_dask as ap
from docs import pages
from docs.study import _common as common

Array = NDArray[np.float64]
normal = stats.norm

TABLE = "worlds.csv"
POSITIVES = (10, 20, 50, 100, 300)
OURS = "influence_beta"
SHOWN = {0.9: ("logit", OURS), 0.95: ("logit", "clopper_pearson", "influence_logit_t", OURS), 0.99: ("logit", OURS)}
MOST_ITEMS = 10_000_000  # in the simulations of one cell
FEWEST = 0.1  # of the simulations: a lowest coverage is not looked for among cells that have fewer
SIMULATIONS, DRAWN, DRAWN_TABLE = 2000, 20, "drawn.csv"  # worlds of each family, and where their results are kept
FAMILIES = ("normal", "Student's t", "normal over t", "uniform band", "mixtures", "levels")
PREVALENCES = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.001, 0.0001)
AIM = 0.945  # a cell is too low if its coverage is below by more than two errors of its simulation
GRID = 400_000  # recalls at which a true area is summed


@dataclass(frozen=True)
class Mixture:
    """A mixture of two distributions of scores."""

    share: float  # of the second
    first: Any
    second: Any

    def sf(self, x: Array) -> Array:
        """Return the share of scores above x."""
        return (1 - self.share) * self.first.sf(x) + self.share * self.second.sf(x)

    def rvs(self, size: tuple[int, int], *, random_state: np.random.Generator) -> Array:
        """Draw scores."""
        both = (one.rvs(size=size, random_state=random_state) for one in (self.first, self.second))
        return np.where(random_state.random(size) < self.share, *tuple(both)[::-1])

    def isf(self, shares: Array) -> Array:
        """Return the scores that these shares exceed, from a dense table."""
        x = np.sort(np.concatenate([one.isf(np.linspace(1e-9, 1 - 1e-9, GRID)) for one in (self.first, self.second)]))
        return np.interp(-shares, -self.sf(x), x)


@dataclass(frozen=True)
class Levels:
    """Scores with few values: their shares, from the highest."""

    shares: tuple[float, ...]

    @property
    def probabilities(self) -> Array:
        """The shares, adding up to 1."""
        return np.array(self.shares) / sum(self.shares)

    def rvs(self, size: tuple[int, int], *, random_state: np.random.Generator) -> Array:
        """Draw scores."""
        return -random_state.choice(len(self.shares), size=size, p=self.probabilities).astype(float)


def decaying(n: int, rate: float) -> Levels:
    """Return n levels whose shares fall, or rise, exponentially."""
    return Levels(tuple(np.exp(np.linspace(0, -rate, n)) if rate > 0 else np.exp(np.linspace(rate, 0, n))))


# Positives N(mean, deviation), negatives N(0, 1), prevalence
BINORMAL = (
    *((1, 1, 0.1), (1, 1, 0.01), (1, 1, 0.001), (1, 1, 0.5), (1.5, 0.5, 0.5), (2, 0.5, 0.5), (2.5, 0.5, 0.1)),
    *((3, 1, 1e-4), (2, 1, 0.1), (2, 1, 0.001), (1, 2, 0.1), (1, 2, 0.5), (3.5, 1, 0.5), (2.5, 0.6, 0.5)),
    *((2, 0.6, 0.1), (3, 0.5, 0.01), (1, 0.5, 0.5), (0.5, 1, 0.02), (4, 1, 0.01), (0.1, 1, 0.02), (1.2, 0.4, 0.5)),
    *((1.8, 0.7, 0.3), (2.2, 0.5, 0.2), (1.7, 0.5, 0.05), (3, 0.7, 0.02), (2.5, 1.5, 0.01), (0.8, 0.8, 0.3)),
    *((3, 2, 0.05), (4, 0.5, 0.5), (3.7, 0.6, 1e-3), (0, 1, 0.1), (-0.5, 1, 0.2), (5, 1, 1e-4)),
)
WORLDS: dict[str, tuple[Any, Any, float]] = {
    **{f"N({mean:g}, {sd:g}²), {share:g}": (normal(mean, sd), normal(), share) for mean, sd, share in BINORMAL},
    "bibeta, 0.1": (stats.beta(5, 2), stats.beta(2, 5), 0.1),
    "bibeta, 0.5": (stats.beta(5, 2), stats.beta(2, 5), 0.5),
    "offset uniform, 0.1": (stats.uniform(0.5, 1), stats.uniform(), 0.1),
    "t with 3 degrees, 0.1": (stats.t(3, 1.5), stats.t(3), 0.1),
    "t with 2 degrees, 0.5": (stats.t(2, 2), stats.t(2), 0.5),
    "t with 2 degrees, 0.2": (stats.t(2, 3), stats.t(2), 0.2),
    "t with 4 degrees, 0.5": (stats.t(4, 1), stats.t(4), 0.5),
    "Cauchy, 0.2": (stats.t(1, 2), stats.t(1), 0.2),
    "N(2, 0.7²) over t with 3 degrees, 0.3": (normal(2, 0.7), stats.t(3), 0.3),
    "N(2, 0.4²) over t with 2 degrees, 0.5": (normal(2, 0.4), stats.t(2), 0.5),
    "exponential, 0.1": (stats.expon(scale=3), stats.expon(), 0.1),
    "N(2, 0.3²) over exponential, 0.5": (normal(2, 0.3), stats.expon(scale=0.7), 0.5),
    "gamma, 0.1": (stats.gamma(4), stats.gamma(2), 0.1),
    "logistic, 0.05": (stats.logistic(2), stats.logistic(), 0.05),
    "half of the positives hidden, 0.1": (Mixture(0.5, normal(), normal(3, 0.5)), normal(), 0.1),
    "3 % of the negatives high, 0.2": (normal(2, 0.5), Mixture(0.03, normal(), normal(3, 0.5)), 0.2),
    "1 % of the negatives above all, 0.5": (normal(1.5, 0.3), Mixture(0.01, normal(-1), normal(3, 0.2)), 0.5),
    "5 % of the negatives among positives, 0.5": (normal(2, 0.3), Mixture(0.05, normal(0, 0.7), normal(2.2, 0.5)), 0.5),
    "both mixed, 0.3": (Mixture(0.2, normal(2, 0.5), normal(-1)), Mixture(0.1, normal(), normal(2, 0.5)), 0.3),
    "0.5 % of the negatives above all, 0.1": (normal(3), Mixture(0.005, normal(), normal(5, 0.5)), 0.1),
    "5 levels, 0.1": (Levels((5, 4, 3, 2, 1)), Levels((1, 2, 3, 4, 5)), 0.1),
    "5 levels, 0.5": (Levels((5, 4, 3, 2, 1)), Levels((1, 2, 3, 4, 5)), 0.5),
    "3 levels, 0.5": (Levels((8, 1.5, 0.5)), Levels((0.2, 1, 9)), 0.5),
    "20 levels, 0.1": (decaying(20, 3), decaying(20, -3), 0.1),
    "10 levels, 0.02": (decaying(10, 2), decaying(10, -2), 0.02),
    "4 levels, 0.5": (Levels((0.6, 0.25, 0.1, 0.05)), Levels((0.05, 0.1, 0.25, 0.6)), 0.5),
    "6 levels, 0.3": (Levels((0.3, 0.3, 0.2, 0.1, 0.05, 0.05)), Levels((0.01, 0.03, 0.06, 0.2, 0.3, 0.4)), 0.3),
    "hard decisions, 0.1": (Levels((0.7, 0.3)), Levels((0.02, 0.98)), 0.1),
    "hard decisions, 0.5": (Levels((0.9, 0.1)), Levels((0.02, 0.98)), 0.5),
}


def true_area(positive: Any, negative: Any, prevalence: float) -> float:
    """Return the area under the true curve; tied scores share one threshold."""
    if isinstance(positive, Levels):
        shares = positive.probabilities
        recall, false = np.cumsum(shares), np.cumsum(negative.probabilities)
        return float(shares @ (prevalence * recall / (prevalence * recall + (1 - prevalence) * false)))
    recall = (np.arange(GRID) + 0.5) / GRID
    false = negative.sf(positive.isf(recall))
    return float(np.mean(prevalence * recall / (prevalence * recall + (1 - prevalence) * false)))


def samples(world: tuple[Any, Any, float], number: int, *seed: int) -> Iterator[tuple[int, xr.Dataset]]:
    """Yield numbers of positives, and simulations as models: fewer if they have many items, none if too few."""
    *classes, prevalence = world
    for n in POSITIVES:
        random, sizes = np.random.default_rng([*seed, n]), (n, round(n * (1 - prevalence) / prevalence))
        n_simulations = min(number, MOST_ITEMS // sum(sizes))
        if n_simulations >= FEWEST * number:
            drawn = [one.rvs((n_simulations, m), random_state=random) for one, m in zip(classes, sizes, strict=True)]
            yield n, common.of_models(np.concatenate(drawn, axis=1), np.repeat([1, 0], sizes))


def held(scores: xr.Dataset, area: float, level: float, methods: tuple[str, ...]) -> tuple[pd.Series, pd.Series]:
    """Return how often each interval contains the area, and its mean width over that of the first."""
    found = ap.evaluate(scores, interval=methods, level=level, prevalence_design="fixed")["interval"]
    lower, upper = (found.sel(ci_bound=end) for end in ("lower", "upper"))
    covers, width = ((lower <= area + 1e-12) & (area <= upper + 1e-12)).mean("model"), (upper - lower).mean("model")
    return covers.to_series(), (width / width[0]).to_series()


def run(folder: Path, share: float) -> None:
    """Simulate the worlds above, and worlds drawn at random."""
    n_simulations = max(20, round(share * SIMULATIONS))
    run_drawn(folder, n_simulations, n_worlds=max(2, round(share * DRAWN)))
    rows = []
    for number, (name, world) in enumerate(WORLDS.items()):
        area = true_area(*world)
        for n, scores in samples(world, n_simulations, 0, number):
            row: dict[str, Any] = {"world": name, "area": f"{area:.4f}", "n": n}
            for level, methods in SHOWN.items():
                covers, width = held(scores, area, level, methods)
                row |= {f"{method} {level}": f"{share:.4f}" for method, share in covers.items()}
                row |= {f"{method} {level} width": f"{ratio:.3f}" for method, ratio in width[1:].items()}
            rows.append(row)
    pd.DataFrame(rows).to_csv(folder / TABLE, index=False)


def draw_world(family: str, random: np.random.Generator) -> tuple[Any, Any, float]:
    """Draw a world of a family."""
    prevalence = float(random.choice(PREVALENCES))
    mean, spread = random.uniform(0.3, 4), float(np.exp(random.uniform(np.log(0.35), np.log(2.2))))
    degrees = random.integers(2, 9)
    if family == "normal":
        return normal(mean, spread), normal(), prevalence
    if family == "Student's t":
        return stats.t(degrees, mean), stats.t(degrees), prevalence
    if family == "normal over t":
        return normal(mean, spread / 2), stats.t(degrees), prevalence
    if family == "uniform band":
        return stats.uniform(mean, spread / 2), normal(), prevalence
    if family == "mixtures":
        hidden, high = random.uniform(0, 0.5), float(np.exp(random.uniform(np.log(0.001), np.log(0.1))))
        positive = Mixture(hidden, normal(mean, 0.6), normal())
        return positive, Mixture(high, normal(), normal(mean + 1, 0.5)), prevalence
    shares = random.dirichlet(np.full(random.integers(2, 11), 1.5), size=2)
    in_order = shares[:, np.argsort(-shares[0] / shares[1])]
    return Levels(tuple(in_order[0])), Levels(tuple(in_order[1])), prevalence


def run_drawn(folder: Path, n_simulations: int, n_worlds: int) -> None:
    """Simulate worlds drawn at random, and keep a summary of each family."""
    rows = []
    for number, family in enumerate(FAMILIES):
        found: dict[int, list[tuple[float, ...]]] = {}
        for i in range(n_worlds):
            world = draw_world(family, np.random.default_rng([number, i]))
            area = true_area(*world)
            for n, scores in samples(world, n_simulations, number, i):
                covers, width = held(scores, area, 0.95, ("logit", OURS))
                too_low = AIM - 2 * np.sqrt(0.95 * 0.05 / scores.sizes["model"])
                found.setdefault(n, []).append((*covers, width[OURS], area, too_low))
        for n, cells in found.items():
            of_logit, of_ours, ratio, of_worlds, too_low = np.transpose(cells)
            low = int(of_ours.argmin())
            row = {"family": family, "n": n, "worlds": len(cells), "logit": of_logit.min(), "lowest": of_ours[low]}
            row |= {"area": of_worlds[low], "below": (of_ours < too_low).sum(), "width": ratio.mean()}
            rows.append(row)
    pd.DataFrame(rows).to_csv(folder / DRAWN_TABLE, index=False, float_format="%.4f")


def worst(folder: Path) -> str:
    """Return the lowest coverage over all worlds, and the mean width, of every interval."""
    table = pd.read_csv(folder / TABLE).groupby("n")
    rows = []
    for level, methods in SHOWN.items():
        for method in methods:
            shown = table[f"{method} {level}"].min().map("{:.3f}".format)
            if method != "logit":
                shown += table[f"{method} {level} width"].mean().map(" ({:.2f})".format)
            rows.append([f"{100 * level:.0f} %", f"`{method}`", *shown])
    return pages.table(["level", "interval", *(f"n = {n}" for n in POSITIVES)], rows)


def drawn(folder: Path) -> str:
    """Return the lowest coverage over the worlds of each family, and the mean width."""
    table = pd.read_csv(folder / DRAWN_TABLE)
    rows = []
    for family, one in table.groupby("family", sort=False):
        shown = [f"{lowest:.3f} ({width:.2f})" for lowest, width in zip(one["lowest"], one["width"], strict=True)]
        too_low = f"{one['below'].sum()} of {one['worlds'].sum()}"
        rows.append([family, f"{one['logit'].min():.3f}", *shown, too_low])
    return pages.table(["family", "`logit`, lowest", *(f"n = {n}" for n in POSITIVES), "cells too low"], rows)


TABLES = {"tables.md": (worst, drawn)}
