"""The coverage of the default interval with weights, clusters and positives that were not retrieved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import ndtr, ndtri

import aucpr_dask as ap
from docs import pages

TABLE = "designs.csv"
POSITIVES = (10, 20, 50, 100, 300)
METHODS = ("logit", "influence_logit_t", "influence_beta")
NEGATIVES = 9  # for each positive
IN_A_CLUSTER, CORRELATION = 5, 0.5
RETRIEVED, SHIFT = 0.6, 1.5


def weighted(random: np.random.Generator, n: int, n_simulations: int) -> tuple[xr.Dataset, float, dict[str, Any]]:
    """Scores of N(1, 1) and N(0, 1) with log-normal weights; the true area is that of the weighted prevalence."""
    label = np.repeat([1, 0], [n, NEGATIVES * n])
    weight = np.exp(0.7 * random.normal(size=label.size))
    scores = _scores(random.normal(size=(n_simulations, label.size)) + label, label, weight=weight)
    return scores, ap.simulate.binormal().area(float(weight[:n].sum() / weight.sum())), {}


def clustered(random: np.random.Generator, n: int, n_simulations: int) -> tuple[xr.Dataset, float, dict[str, Any]]:
    """Scores of N(1, 1) and N(0, 1), correlated within clusters of five items of a class."""
    label = np.repeat([1, 0], [n, NEGATIVES * n])
    cluster = np.arange(label.size) // IN_A_CLUSTER
    shared = random.normal(size=(n_simulations, cluster[-1] + 1))[:, cluster]
    own = random.normal(size=(n_simulations, label.size))
    score = np.sqrt(CORRELATION) * shared + np.sqrt(1 - CORRELATION) * own + label
    area = ap.simulate.binormal().area(1 / (1 + NEGATIVES))
    return _scores(score, label, cluster=cluster), area, {}


def partly_retrieved(
    random: np.random.Generator, n: int, n_simulations: int
) -> tuple[xr.Dataset, float, dict[str, Any]]:
    """Scores of N(1.5, 1) and N(0, 1), where two fifths of the positives are never retrieved."""
    label = np.repeat([1, 0], [n, NEGATIVES * n])
    score = random.normal(size=(n_simulations, label.size)) + SHIFT * label
    score[:, :n][random.random((n_simulations, n)) >= RETRIEVED] = np.nan
    share = (np.arange(400_000) + 0.5) / 400_000
    found, false = RETRIEVED * share, NEGATIVES * ndtr(-(SHIFT - ndtri(share)))
    return _scores(score, label), RETRIEVED * float(np.mean(found / (found + false))), {"missing": "unretrieved"}


def _scores(score: np.ndarray, label: np.ndarray, **of_items: np.ndarray) -> xr.Dataset:
    arrays = {"score": (("model", "item"), score), "label": ("item", label)}
    return xr.Dataset(arrays | {name: ("item", values) for name, values in of_items.items()})


DESIGNS = {
    "log-normal weights": weighted,
    "clusters of 5, correlation 0.5": clustered,
    "0.6 of the positives retrieved": partly_retrieved,
}


def run(folder: Path, *, small: bool) -> None:
    """Simulate all designs; a batch of simulations is one data set of as many models."""
    n_simulations, rows = 50 if small else 4000, []
    for name, draw in DESIGNS.items():
        for n in POSITIVES:
            if draw is clustered and n < 4 * IN_A_CLUSTER:
                continue
            scores, area, options = draw(np.random.default_rng(n), n, n_simulations)
            options |= {"intervals": METHODS, "prevalence_design": "fixed"}  # as the numbers of both classes are
            bounds = ap.evaluate(scores, **options)["interval"].values
            covers = ((bounds[..., 0] <= area) & (area <= bounds[..., 1])).mean(axis=0)
            width = np.diff(bounds).mean(axis=0)[:, 0]
            for method, covered, wide in zip(METHODS, covers, width / width[0], strict=True):
                rows.append({"design": name, "n": n, "method": method, "coverage": covered, "width": wide})
        print(name, flush=True)
    pd.DataFrame(rows).to_csv(folder / TABLE, index=False, float_format="%.4g")


def designs(folder: Path) -> str:
    """Return coverage and width, relative to that of logit."""
    table = pd.read_csv(folder / TABLE).set_index(["design", "method", "n"]).sort_index()
    rows = []
    for name in DESIGNS:
        for method in METHODS:
            known = table.loc[(name, method)]
            shown = [
                f"{known['coverage'][n]:.3f}" + ("" if method == "logit" else f" ({known['width'][n]:.2f})")
                if n in known.index
                else ""
                for n in POSITIVES
            ]
            rows.append([name if method == METHODS[0] else "", f"`{method}`", *shown])
    return pages.table(["design", "interval", *(f"n = {n}" for n in POSITIVES)], rows)


TABLES = {"default-interval.md": (designs,)}
