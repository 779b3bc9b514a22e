"""The coverage of confidence bands of curves, with and without ties."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy.special import ndtr

import aucpr_dask as ap
from docs import pages

TABLE = "bands.csv"
CELL = ["n_positive", "n_items", "kind", "ties"]
SIZES = ((25, 500), (100, 1000), (500, 5000))  # positives, items
KINDS = {"precision_recall": "recall", "roc": "false_positive_rate"}
MU = 1.0  # of the positives, with scores of N(mu, 1); negatives are N(0, 1)
STEP = 0.5  # to whose multiples scores are rounded, for ties
LEVEL, N_RESAMPLES = 0.95, 500
GRID = np.linspace(0, 1, 101)
PLACES = [f"{place:.2f}" for place in GRID]


def run(folder: Path, share: float) -> None:
    """Simulate every cell; a simulation is a query, because queries have their own resamples."""
    n_simulations, rows = max(20, round(share * 1000)), []
    for n_positive, n_items in SIZES:
        prevalence = n_positive / n_items
        sample = ap.simulate.binormal(MU).sample(n_items, prevalence, n_simulations=n_simulations, seed=1).compute()
        drawn = sample["score"].rename(model="query").expand_dims("model")
        for ties, score in ((False, drawn), (True, STEP * (drawn / STEP).round())):
            for kind, over in KINDS.items():
                cell = dict(zip(CELL, (n_positive, n_items, kind, ties), strict=True))
                bands = ap.curve_bands(
                    score, sample["label"], kind, grid=GRID, level=LEVEL, n_resamples=N_RESAMPLES
                ).squeeze("model")
                truth = xr.DataArray(true_curve(kind, prevalence, ties), dims=over)
                for band in ("pointwise", "simultaneous"):
                    lower, upper = (bands[f"{band}_band"].sel(ci_bound=end) for end in ("lower", "upper"))
                    holds = (lower <= truth) & (truth <= upper)
                    whole = {"everywhere": float(holds.all(over).mean()), "width": float((upper - lower).mean())}
                    at = dict(zip(PLACES, holds.mean("query").values, strict=True))
                    rows.append(cell | {"band": band, "n_simulations": n_simulations} | whole | at)
                print(cell, flush=True)
    pd.DataFrame(rows).to_csv(folder / TABLE, index=False, float_format="%.4g")


def true_curve(kind: str, prevalence: float, ties: bool) -> NDArray[np.float64]:
    """Return the curve of the distributions on the grid; that of rounded scores joins the thresholds they have."""
    scenario = ap.simulate.binormal(MU)
    if not ties:
        return np.asarray(scenario.roc(GRID) if kind == "roc" else scenario.curve(GRID, prevalence))
    thresholds = STEP * (np.arange(20, -20, -1) - 0.5)
    recall, rate = (np.concatenate([[0], ndtr(mean - thresholds), [1]]) for mean in (MU, 0))
    if kind == "roc":
        return np.interp(GRID, rate, recall)
    # At recall 0 the precision is that of the first threshold; bands there reach from 0 to 1.
    found = np.maximum(GRID, recall[1])
    return prevalence * found / (prevalence * found + (1 - prevalence) * np.interp(found, recall, rate))


def bands(folder: Path) -> str:
    """Return the coverage of every cell, in percent."""
    rows = []
    for (n_positive, n_items, kind, ties), cell in pd.read_csv(folder / TABLE).groupby(CELL, sort=False):
        pointwise, simultaneous = (cell.set_index("band").loc[band] for band in ("pointwise", "simultaneous"))
        at = pointwise[PLACES].astype(float)
        name = [f"{n_positive} of {n_items:,}", kind.replace("_", "-"), "tied" if ties else ""]
        shares = [f"{100 * one:.1f}" for one in (simultaneous["everywhere"], pointwise["everywhere"], at.mean())]
        widths = [f"{one['width']:.2f}" for one in (pointwise, simultaneous)]
        rows.append([*name, *shares, f"{100 * at.min():.1f} at {at.idxmin()}", *widths])
    coverages = ("simultaneous, everywhere", "pointwise, everywhere", "pointwise, mean of places", "lowest place")
    of_width = ("mean width, pointwise", "simultaneous")
    return pages.table(("positives of items", "curve", "scores", *coverages, *of_width), rows)


TABLES = {"plots.md": (bands,)}
