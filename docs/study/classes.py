"""The coverage of intervals for averages over classes, whose items are the sample."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import softmax

import aucpr_dask as ap
from docs import pages

TABLE = "classes.csv"
SHARES = (0.4, 0.25, 0.15, 0.12, 0.08)  # of the classes among the items
N_ITEMS = 400
SEPARATIONS = (1.0, 2.5)  # how much larger the logit of an item's own class is, in standard deviations
MANY = 1_000_000  # items whose averages are taken as true
AVERAGES = ("macro", "weighted", "micro", "samples")
AS_UNITS = "score over classes"


def draw(random: np.random.Generator, n_items: int, separation: float) -> xr.Dataset:
    """Return the probabilities that a softmax model gives, and the classes of the items."""
    classes = random.choice(len(SHARES), size=n_items, p=SHARES)
    logits = random.normal(size=(len(SHARES), n_items))
    logits[classes, np.arange(n_items)] += separation
    return xr.Dataset(
        {"score": (("model", "class", "item"), softmax(logits, axis=0)[None]), "label": ("item", classes)}
    )


def run(folder: Path, share: float) -> None:
    """Simulate data sets, and count how often each interval covers the average of a million items."""
    n_simulations, rows = max(20, round(share * 500)), []
    for separation in SEPARATIONS:
        many = draw(np.random.default_rng(0), round(max(share, 0.01) * MANY), separation)
        true = {average: _true(many, average) for average in AVERAGES}
        found: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for number in range(n_simulations):
            scores = draw(np.random.default_rng([1, number]), N_ITEMS, separation)
            for (average, how), bounds in intervals_of(scores, number).items():
                found.setdefault((average, how), []).append(bounds)
        for (average, how), bounds in found.items():
            lower, upper = np.array(bounds).T
            facts = {"separation": separation, "average": average, "interval": how, "true": true[average]}
            beyond = {"below": (upper < true[average]).mean(), "above": (lower > true[average]).mean()}
            rows.append(facts | beyond | {"width": (upper - lower).mean(), "n_simulations": n_simulations})
        print(separation, true, flush=True)
    pd.DataFrame(rows).to_csv(folder / TABLE, index=False, float_format="%.4g")


def _true(scores: xr.Dataset, average: str) -> float:
    """Return an average over classes, without an interval."""
    if average in ("micro", "samples"):
        return float(ap.aggregate(scores, over="class", average=average, interval=())["estimate"].item())
    result = ap.evaluate(scores, interval=()).squeeze()
    weights = result["n_positive"] if average == "weighted" else None
    return float(np.average(result["estimate"], weights=weights))


def intervals_of(scores: xr.Dataset, seed: int) -> dict[tuple[str, str], tuple[float, float]]:
    """Return the bounds of all intervals of one data set."""
    result = ap.evaluate(scores, interval=(), keep_replicates=True, seed=seed)
    means = {
        ("macro", "logit, by influence"): ap.aggregate(scores, over="class"),
        **{
            (average, how): ap.aggregate(result, over="class", average=average, method=method)
            for average in ("macro", "weighted")
            for how, method in (("logit", "logit"), ("normal", "normal"), ("percentile bootstrap", "bootstrap"))
        },
        ("micro", "influence_beta"): ap.aggregate(scores, over="class", average="micro"),
        ("samples", "score over items"): ap.aggregate(scores, over="class", average="samples"),
        ("macro", AS_UNITS): ap.aggregate(result.rename({"class": "query"}).drop_vars("replicate")),
    }
    return {name: tuple(mean["interval"].values.ravel().tolist()) for name, mean in means.items()}


def classes(folder: Path) -> str:
    """Return, for every interval, the coverage in each world, and the mean width."""
    found = pd.read_csv(folder / TABLE)
    rows = []
    for (average, interval), one in found.groupby(["average", "interval"], sort=False):
        covers = 1 - one["below"] - one["above"]
        cells = [f"{share:.3f} ({width:.3f})" for share, width in zip(covers, one["width"], strict=True)]
        rows.append([average, interval, *cells])
    of_macro = found[found["average"] == "macro"].groupby("separation")["true"].first()
    worlds = [f"separation {separation:g}, macro average {true:.3f}" for separation, true in of_macro.items()]
    return pages.table(["average", "interval", *worlds], rows)


TABLES = {"your-scores.md": (classes,)}
