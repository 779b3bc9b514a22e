"""What the studies share: how scores are drawn and named, and how intervals are summarized, stored and shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

import aucpr_dask as ap
from docs import pages

Floats = np.ndarray
Row = dict[str, object]
RECALLS = (np.arange(20_000) + 0.5) / 20_000
CELL = ["question", "world", "n"]
MODELS = 20  # with the same labels, in pairs
FEW = {"n_resamples": 100}  # where only families need them


def simulate(name: str, questions: Iterable[Callable[..., Iterator[Row]]], folder: Path, share: float) -> None:
    """Simulate every question with its own random numbers, and write its rows; say how long it took."""
    for question in questions:
        random, before = np.random.default_rng(list(question.__name__.encode())), time.process_time()
        write(folder, name, pd.DataFrame(question(random, share)), CELL)
        print(f"{question.__name__}: {time.process_time() - before:.0f} s of processor time", flush=True)


def write(folder: Path, name: str, table: pd.DataFrame, key: list[str], digits: int = 3) -> None:
    """Write a table, with the rows of the one before that are not in it; rows stay in their places."""
    path = folder / f"{name}.csv"
    table = table.set_index(key)
    if path.exists():
        before = pd.read_csv(path).set_index(key)
        places = before.index.append(table.index).unique()
        table = pd.concat([table, before[~before.index.isin(table.index)]])
        table = table[~table.index.duplicated()].loc[places]
    table[~table.index.duplicated()].to_csv(path, float_format=f"%.{digits}g")


# Scores


def area(mu: float, prevalence: float) -> float:
    """Return the area of scores N(mu, 1) of positives over N(0, 1)."""
    return float(ap.simulate.binormal(mu).area(prevalence))


def noise(random: np.random.Generator, shared: Floats, shape: tuple[int, ...], correlation: float) -> Floats:
    """Return normal noise of a shape that correlates as far as it is shared."""
    return np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * random.normal(size=shape)


def drawn(random: np.random.Generator, n: int, number: int, mu: float, prevalence: float) -> tuple[Floats, Floats]:
    """Draw scores of N(mu, 1) and N(0, 1) with random labels, n positives expected; fewer simulations of many items."""
    n_items = round(n / prevalence)
    label = random.random((max(2, min(number, 40_000_000 // n_items)), n_items)) < prevalence
    label[label.sum(axis=1) < 2, :2] = True
    return random.normal(size=label.shape) + mu * label, label


def of_models(score: Floats, label: Floats, *dims: str, **of_items: Any) -> xr.Dataset:
    """Return scores of models, with labels of items, with further dimensions before them."""
    dims = ("model", *dims, "item")
    arrays = {"score": (dims, score), "label": (dims[-label.ndim :], label.astype(np.int8))}
    names = {"model": [f"m{i:02}" for i in range(len(score))]}
    return xr.Dataset(arrays | {name: ("item", one) for name, one in of_items.items()}, coords=names)


def paired(
    random: np.random.Generator, label: Floats, mean: Any, deviation: Any = 1.0, correlation: float = 0.5, **more: Any
) -> xr.Dataset:
    """Return scores of models, N(mean, deviation) of positives over N(0, 1), that correlate item by item."""
    score = noise(random, random.normal(size=label.size), (len(mean), label.size), correlation)
    return of_models(np.where(label, mean + deviation * score, score), label, **more)


def stacked(score: Floats, label: Floats, **of_items: Floats) -> xr.Dataset:
    """Return simulations, the rows of labels, as groups of the items of one model, or of several."""
    arrays = {"simulation": np.arange(len(label))[:, None], **of_items}
    items = {name: np.broadcast_to(values, label.shape).ravel() for name, values in arrays.items()}
    return of_models(score.reshape(-1, label.size), label.ravel(), **items).set_coords("simulation")


def of_queries(values: Floats, of_query: dict[str, Any] | None = None) -> xr.Dataset:
    """Return a result of models, which are simulations, over queries."""
    names = {"model": [f"m{i:02}" for i in range(len(values))], "query": [f"q{i}" for i in range(values.shape[1])]}
    return xr.Dataset({"estimate": (("model", "query"), values)}, coords=names | (of_query or {}))


# Summaries


def summary(question: str, world: str, n: int, bounds: Floats, truth: Any, estimates: Floats, flags: Any = None) -> Row:
    """Return how often intervals hold the truth, lie below it and above it, and their width over the ideal one.

    If most are flagged, they count as a question of their own.
    """
    (lower, upper), spread = bounds.reshape(-1, 2).T, np.subtract(*np.nanquantile(estimates, [0.975, 0.025]))
    known = np.isfinite(lower)
    below, above = (np.mean(missed[known]) for missed in (upper < truth - 1e-12, lower > truth + 1e-12))
    found = {"coverage": 1 - below - above, "below": below}
    found |= {"width": np.mean((upper - lower)[known]) / (spread or np.nan), "none": 1 - known.mean()}
    found |= {} if flags is None else {"flagged": float(np.mean(flags))}
    question += ", flagged" * (found.get("flagged", 0) > 0.5)
    return {"question": question, "world": world, "n": n} | found | {"simulations": lower.size}


def evaluated(
    question: str, world: str, n: int, scores: xr.Dataset, truth: Any, *args: Any, flag: str = "", **options: Any
) -> Row:
    """Evaluate simulations as a user would, and summarize their intervals."""
    found = ap.evaluate(scores, *args, by="simulation", **options)
    flags = found.aucpr.flagged(flag)[flag].values if flag else None
    return summary(question, world, n, found["interval"].values, truth, found["estimate"].values, flags)


def in_pairs(answer: xr.Dataset) -> xr.Dataset:
    """Return the comparisons of the second model with the first, of the fourth with the third and so on."""
    first = xr.DataArray(np.arange(0, answer.sizes["model"], 2), dims="pair")
    found = answer[["difference", "interval", "p_value"]].isel(model=first + 1, other_model=first)
    return found.reset_coords(drop=True)


def against_nothing(values: Floats, *args: Any, **options: Any) -> xr.Dataset:
    """Compare differences (simulations, queries), as models, with a model whose values are all 0."""
    everything = of_queries(np.concatenate([0 * values[:1], values]), *args)
    return ap.compare(everything, "m00", **options).isel(model=slice(1, None))


def differences(question: str, world: str, n: int, found: xr.Dataset, truth: float = 0.0) -> Row:
    """Summarize differences, and how often they are significant."""
    row = summary(question, world, n, found["interval"].values, truth, found["difference"].values)
    return row | {"finds": float((found["p_value"] <= 0.05).mean())}


# Tables


def stored(folder: Path, *names: str) -> pd.DataFrame:
    """Return the results of studies."""
    return pd.concat([pd.read_csv(folder / f"{name}.csv") for name in names if (folder / f"{name}.csv").exists()])


def joined(table: pd.DataFrame, heading: str, across: str = "n") -> str:
    """Return what is shown of each question and world, in the order of n, or of each question and n."""
    table = table.assign(n=table["n"].map("{:,}".format)).rename(columns={"world": "where"})
    key = [name for name in ("question", "where", "n") if name != across]
    cells = table.groupby(key, sort=False)[[across, "shown"]].agg("; ".join).reset_index()
    return pages.table([*cells.columns[:-1], heading], cells.values)


def with_width(table: pd.DataFrame) -> pd.DataFrame:
    """Show the coverage, and the width over an ideal one where it is known."""
    return table.assign(
        shown=[f"{one.coverage:.3f}" + f" ({one.width:.2f})" * (one.width > 0) for one in table.itertuples()]
    )
