"""What every default promises: coverage and width of intervals, and errors of comparisons, where they are hard to keep.

Labels are drawn with their items. A simulation is a group of one long data set, or a model where all share their units.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import expit, ndtr, ndtri

import aucpr_dask as ap
from docs import pages

TABLE = "defaults.csv"
SIMULATIONS = 2000
Floats = np.ndarray
Row = dict[str, object]
# Clusters of items: the positives' mean, and the prevalence
IN_CLUSTERS = {"both classes": (1.0, 0.2), "one class": (1.0, 0.2), "both classes, unequal, N(2, 1)": (2.0, 0.5)}
RECALLS = (np.arange(20_000) + 0.5) / 20_000


def run(folder: Path, share: float) -> None:
    """Simulate every question."""
    rows: list[Row] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few units and positives, which are what is studied
        for place, question in enumerate(
            (areas, estimators, queries, machines, gates, items, prevalences, clusters, bands)
        ):
            rows += question(np.random.default_rng(place), share)
            pd.DataFrame(rows).to_csv(folder / TABLE, index=False, float_format="%.4g")
            print(question.__name__, flush=True)


def summary(question: str, world: str, n: int, bounds: Floats, truth: Any, estimates: Floats) -> Row:
    """Return how often intervals hold the truth, lie below it and above it, and their width over the ideal one."""
    (lower, upper), spread = bounds.reshape(-1, 2).T, np.subtract(*np.nanquantile(estimates, [0.975, 0.025]))
    known = np.isfinite(lower)
    below, above = (np.mean(missed[known]) for missed in (upper < truth - 1e-12, lower > truth + 1e-12))
    found = {"coverage": 1 - below - above, "below": below, "above": above}
    found |= {"width": np.mean((upper - lower)[known]) / spread, "none": 1 - known.mean()}
    return {"question": question, "world": world, "n": n} | found | {"simulations": lower.size}


# Intervals of one area


def stacked(score: Floats, label: Floats, **of_items: Floats) -> xr.Dataset:
    """Return simulations, the rows of these arrays, as groups of the items of one model."""
    simulation = np.broadcast_to(np.arange(len(score))[:, None], score.shape)
    arrays = {"label": label.astype(np.int8), "simulation": simulation, **of_items}
    items = {name: ("item", np.broadcast_to(values, score.shape).ravel()) for name, values in arrays.items()}
    return xr.Dataset({"score": (("model", "item"), score.reshape(1, -1))} | items).set_coords("simulation")


def drawn(random: np.random.Generator, n: int, number: int, mu: float, prevalence: float) -> tuple[Floats, Floats]:
    """Draw scores of N(mu, 1) and N(0, 1) with random labels, n positives expected; fewer simulations of many items."""
    n_items = round(n / prevalence)
    label = random.random((max(2, min(number, 40_000_000 // n_items)), n_items)) < prevalence
    label[label.sum(axis=1) < 2, :2] = True
    return random.normal(size=label.shape) + mu * label, label


def evaluated(question: str, world: str, n: int, scores: xr.Dataset, truth: Any, *args: Any, **options: Any) -> Row:
    """Evaluate simulations as a user would, and summarize their intervals."""
    found = ap.evaluate(scores, *args, by="simulation", **options)
    return summary(question, world, n, found["interval"].values, truth, found["estimate"].values)


def areas(random: np.random.Generator, share: float) -> Iterator[Row]:
    """Average precision of random test sets: plain, weighted, with positives not retrieved, and with duplicates."""
    number = round(share * SIMULATIONS)
    for mu, prevalence, n in product((0.3, 1.0, 2.0, 3.0), (0.5, 0.1, 0.01), (10, 50, 200)):
        score, label = drawn(random, n, number, mu, prevalence)
        area, world = ap.simulate.binormal(mu).area(prevalence), f"N({mu:g}, 1), {prevalence:g}"
        scores = stacked(score, label)
        yield evaluated("average precision", world, n, scores, area)
        yield evaluated("fixed numbers of both classes", world, n, scores, area, prevalence_design="fixed")
    for n in (10, 50, 200):
        score, label = drawn(random, n, number, 1.0, 0.1)
        area = ap.simulate.binormal(1.0).area(0.1)
        weighted = stacked(score, label, weight=np.exp(0.7 * random.normal(size=score.shape)))
        yield evaluated("weights", "log-normal", n, weighted, area)
        twice = np.repeat(score, 2, axis=1), np.repeat(label, 2, axis=1)
        pair = np.arange(twice[0].size).reshape(twice[0].shape) // 2
        yield evaluated("every item twice", "drawn as clusters", n, stacked(*twice, cluster=pair), area)
        yield evaluated("duplicates taken for items", "every item twice", n, stacked(*twice), area)
        score, label = drawn(random, n, number, 1.5, 0.1)
        score[label & (random.random(score.shape) < 0.4)] = np.nan
        found, false = 0.6 * RECALLS, 9 * ndtr(ndtri(RECALLS) - 1.5)
        area = 0.6 * float(np.mean(found / (found + false)))
        unretrieved = stacked(score, label)
        yield evaluated("not retrieved", "0.4 of positives", n, unretrieved, area, missing="unretrieved")


def prevalences(random: np.random.Generator, share: float) -> Iterator[Row]:
    """Average precision at a prevalence far below that of the sample, and from subsampled negatives."""
    number = round(share * SIMULATIONS / 2)
    for mu, target, n in product((0.0, 1.0, 1.5, 2.0, 3.0), (0.01, 0.001, 0.0001), (10, 30, 100)):
        score, label = drawn(random, n, number, mu, 0.1)
        area, world = ap.simulate.binormal(mu).area(target), f"N({mu:g}, 1) at {target:g}"
        found = ap.evaluate(stacked(score, label), by="simulation", prevalence=target)
        bounds, estimates = found["interval"].values[0], found["estimate"].values
        yield summary("another prevalence", world, n, bounds, area, estimates)
        flagged = found.aucpr.flagged("unseen_rates")["unseen_rates"].values.ravel()
        if flagged.sum() >= 100:
            yield summary("another prevalence, flagged", world, n, bounds[flagged], area, estimates)
        weight = np.where(label, 1.0, 0.1 / 0.9 * (1 - target) / target)
        weighted = stacked(score, label, weight=weight)
        yield evaluated("subsampled negatives", world, n, weighted, area, interval="extrapolated")


def in_clusters(random: np.random.Generator, number: int, kind: str) -> Iterator[tuple[Any, ...]]:
    """Yield two equal models' scores of items in n clusters, or in 5 n of one class, n of them positive."""
    mu, prevalence = IN_CLUSTERS[kind]
    mixed = kind != "one class"
    for n, correlation in product((8, 20, 100), (0.0, 0.1, 0.5)):
        n_clusters, size = (n, max(25, 480 // n)) if mixed else (5 * n, 5)
        sizes = np.resize([1, 2, 3, 6], n_clusters) * size // 3 if "unequal" in kind else np.full(n_clusters, size)
        cluster = np.repeat(np.arange(n_clusters), sizes)
        label = random.random((number, cluster.size if mixed else n_clusters)) < prevalence
        label[label.sum(axis=1) < 3, :3] = True
        label = label if mixed else label[:, cluster]
        shared, own = random.normal(size=(2, number, n_clusters))[..., cluster], random.normal(size=(2, *label.shape))
        score = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own + mu * label
        yield f"{kind}, correlation {correlation:g}", n, score, label, cluster


def clusters(random: np.random.Generator, share: float) -> Iterator[Row]:
    """Areas and comparisons of items in clusters."""
    number, few = max(4, round(share * SIMULATIONS / 2)), max(4, round(share * SIMULATIONS / 5))
    for kind, (mu, prevalence) in IN_CLUSTERS.items():
        area = ap.simulate.binormal(mu).area(prevalence)
        areas = {"average_precision": area, "continuous": area, "roc_area": float(ndtr(mu * np.sqrt(0.5)))}
        for world, n, score, label, cluster in in_clusters(random, number, kind):
            scores = stacked(score[0], label, cluster=cluster + cluster.size * np.arange(number)[:, None])
            for name, truth in areas.items():
                yield evaluated(f"`{name}` of clusters", world, n, scores, truth, name)
            pairs = [compared(score[:, i], label[i], i, cluster=cluster) for i in range(few)]
            cell = {"question": "equal models over clusters", "world": world, "n": n}
            yield cell | {"finds": np.mean(pairs), "simulations": few}


def bands(random: np.random.Generator, share: float) -> Iterator[Row]:
    """Bands of curves of items in clusters, at a prevalence that is known."""
    grid = np.linspace(0.05, 0.95, 19)
    curve = ap.simulate.binormal(1.0).curve(grid, 0.2)
    number = max(4, round(share * SIMULATIONS / 5))
    worlds = (in_clusters(random, number, kind) for kind in ("both classes", "one class"))
    for world, n, score, label, cluster in chain.from_iterable(worlds):
        shown = (xr.DataArray(values, dims=("query", "item")) for values in (score[0], label.astype(np.int8)))
        found = ap.curve_bands(*shown, clusters=cluster, grid=grid, n_resamples=500, prevalence=0.2)
        for kind in ("pointwise", "simultaneous"):
            lower, upper = np.moveaxis(found[f"{kind}_band"].values, -1, 0)
            holds = (lower <= curve) & (curve <= upper)
            covers = holds.mean(axis=0).min() if kind == "pointwise" else holds.all(axis=1).mean()
            cell = {"question": f"{kind} bands of clusters", "world": world, "n": n, "coverage": covers}
            yield cell | {"simulations": len(holds)}


def compared(score: Floats, label: Floats, seed: int, **of_items: Floats) -> bool:
    """Return whether any two models differ significantly, by default but for fewer resamples, which cost the most."""
    arrays = {"score": (("model", "item"), score)} | {name: ("item", one) for name, one in of_items.items()}
    scores = xr.Dataset(arrays | {"label": ("item", label.astype(np.int8))})
    return bool((ap.compare(scores, seed=seed, n_resamples=1999)["p_adjusted"] <= 0.05).any())


def estimators(random: np.random.Generator, share: float) -> Iterator[Row]:
    """Default intervals of other estimators."""
    scenario = ap.simulate.binormal(1.0)
    for prevalence, n in product((0.5, 0.1), (10, 50, 200)):
        score, label = drawn(random, n, round(share * SIMULATIONS / 2), 1.0, prevalence)
        scores = stacked(score, label)
        precision = scenario.curve(RECALLS, prevalence)
        gain = 1 - prevalence / (1 - prevalence) * (1 / precision - 1)
        gains = 1 - prevalence / (1 - prevalence) * (1 / RECALLS - 1)
        over = np.clip(gains, 0, 1)
        truths = {
            **dict.fromkeys(("continuous", "lower_trapezoid", "upper_trapezoid", "interpolated_max"), precision.mean()),
            "roc_area": float(ndtr(np.sqrt(0.5))),
            "gain_area": float(np.trapezoid(gain, over)),
            "precision_at_recall(0.5)": float(scenario.curve(0.5, prevalence)),
        }
        for name, truth in truths.items():
            yield evaluated(f"`{name}`", f"N(1, 1), {prevalence:g}", n, scores, truth, name)
        truth = float(precision[RECALLS > 0.5].mean() / 2)
        yield evaluated("recalls above 0.5", f"N(1, 1), {prevalence:g}", n, scores, truth, recall_range=(0.5, 1))


# Means over queries, and comparisons


def of_queries(values: Floats, **of_query: Any) -> xr.Dataset:
    """Return a result of models, which are simulations, over queries."""
    names = {"model": [f"s{i}" for i in range(len(values))], "query": [f"q{i}" for i in range(values.shape[1])]}
    return xr.Dataset({"estimate": (("model", "query"), values)}, coords=names | of_query)


def queries(random: np.random.Generator, share: float) -> Iterator[Row]:
    """Means and differences over queries in clusters of unequal size, with normal and with skewed values."""
    number = max(4, round(share * SIMULATIONS))
    for shape, n, correlation in product(("normal", "exponential"), (8, 20, 50), (0.0, 0.5)):
        cluster = np.repeat(np.arange(n), np.resize([1, 2, 3, 6], n))
        draw = random.normal if shape == "normal" else lambda size: random.exponential(size=size) - 1
        own, shared = draw(size=(number, cluster.size)), draw(size=(number, n))[:, cluster]
        values = 0.1 * (np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own)
        of_query = {"cluster": ("query", cluster)}
        world, means = f"{shape}, correlation {correlation:g}", values.mean(axis=1)
        bounds = ap.aggregate(of_queries(0.4 + values, **of_query))["interval"].values
        yield summary("mean over clusters of queries", world, n, bounds, 0.4, means)
        baseline = of_queries(np.concatenate([0 * values[:1], values]), **of_query)
        found = ap.compare(baseline, "s0").isel(model=slice(1, None))
        row = summary("difference over clusters of queries", world, n, found["interval"].values, 0.0, means)
        yield row | {"finds": float((found["p_value"] <= 0.05).mean())}
        baseline["estimate"][1:] += 0.1
        bounds = ap.compare(baseline, "s0").isel(model=slice(1, None))["interval"].values
        yield summary("difference over clusters of queries", f"{world}, difference 0.1", n, bounds, 0.1, means)


def machines(random: np.random.Generator, share: float) -> Iterator[Row]:
    """Means with labels of a machine on a thousand queries, whose errors depend on the difficulty of the query."""
    number = max(4, round(share * SIMULATIONS))
    cuts = {"blind": 0.3, "reversed": 0.2, "optimistic": 0.3}
    for world, n in product(("random", *cuts), (20, 50, 100)):
        ease = random.normal(size=(number, 1000))
        by_people = expit(ease - 0.5)
        by_machine = np.clip(by_people + 0.08 * random.normal(size=ease.shape), 0, 1)
        hard = ease < ndtri(cuts.get(world, 0.0))
        others = {"random": by_machine, "blind": random.permuted(by_people, axis=1)}
        others |= {"reversed": 1 - by_people, "optimistic": by_people + 0.3}
        people = of_queries(by_people[:, :n])
        found = ap.aggregate(people, auxiliary=of_queries(np.where(hard, others[world], by_machine)))
        truth = float(expit(ndtri(RECALLS) - 0.5).mean())
        bounds, estimates = found["interval"].values, found["estimate"].values
        hardest = "" if world == "random" else f" on the hardest {cuts[world]:g}"
        yield summary("machine labels", f"errors {world}{hardest}", n, bounds, truth, estimates)


def gates(random: np.random.Generator, share: float) -> Iterator[Row]:
    """Gates of candidates that are worse by exactly the margin because they lose much on few queries."""
    worlds = {
        "loses 0.5 on 0.05 of queries": lambda n: -0.5 * (random.random(n) < 0.05) + 0.005,
        "loses 0.5 on 0.1 of queries": lambda n: -0.5 * (random.random(n) < 0.1) + 0.03,
        "log-normal losses": lambda n: 0.05 * (np.exp(0.72) - random.lognormal(0, 1.2, n)) - 0.02,
        "normal": lambda n: random.normal(-0.02, 0.1, n),
    }
    for (world, draw), n in product(worlds.items(), (10, 30, 50)):
        passed = []
        for _ in range(max(4, round(share * SIMULATIONS / 4))):
            values = np.stack([np.zeros(n), draw(n) + 0.002 * random.normal(size=n)])
            passed.append(ap.gate(of_queries(values), "s1", "s0", 0.02, n_resamples=1000).passed)
        yield {"question": "gate", "world": world, "n": n, "finds": np.mean(passed), "simulations": len(passed)}


def items(random: np.random.Generator, share: float) -> Iterator[Row]:
    """Families of equal models over items, and pairs of them over items that stand twice."""
    for n_models, n in product((2, 8, 40), (10, 50, 200)):
        found = []
        for _ in range(max(4, round(share * SIMULATIONS / 4))):
            (own, label), shared = drawn(random, n, n_models, 1.5, 0.1), random.normal(size=10 * n)
            label, noise = label[0], random.normal(size=own.shape)
            found.append(compared(np.sqrt(0.5) * (shared + noise) + 1.5 * label, label, len(found)))
        cell = {"world": f"{n_models} models, correlation 0.5", "n": n, "simulations": len(found)}
        yield {"question": "equal models over items", "finds": np.mean(found)} | cell
    for how, n in product(("drawn as clusters", "taken for items"), (10, 50, 200)):
        found = []
        for _ in range(max(4, round(share * SIMULATIONS / 4))):
            label = drawn(random, n, 2, 0.0, 0.1)[1][0]
            score = random.normal(size=(2, label.size)) + 1.5 * label
            of_items = {"cluster": np.repeat(np.arange(label.size), 2)} if how == "drawn as clusters" else {}
            found.append(compared(np.repeat(score, 2, axis=1), np.repeat(label, 2), len(found), **of_items))
        cell = {"world": f"every item twice, {how}", "n": n, "simulations": len(found)}
        yield {"question": "equal models over items", "finds": np.mean(found)} | cell


# Tables


def promises(folder: Path) -> str:
    """Return where each interval covers least, its width over an ideal one, and its largest one-sided errors."""
    table = pd.read_csv(folder / TABLE).dropna(subset="coverage")
    rows = []
    for question, cells in table.groupby("question", sort=False):
        low = cells.loc[cells["coverage"].idxmin()]
        widest = f"{cells['width'].max():.2f}" if cells["width"].max() < 100 else "over 100"  # log(1 - area), n = 2
        width = "" if low.isna()["width"] else f"{cells['width'].min():.2f} to {widest}"
        sides = "" if low.isna()["below"] else f"{cells['below'].max():.3f}, {cells['above'].max():.3f}"
        rows.append([question, f"{low['coverage']:.3f}", f"{low['world']}; {low['n']}", width, sides])
    return pages.table(["interval of", "least coverage", "where; n", "width", "lies below, above"], rows)


def errors(folder: Path) -> str:
    """Return how often equal models differ significantly, and a gate passes what is worse by the margin."""
    table = pd.read_csv(folder / TABLE).dropna(subset="finds")
    cells = table.assign(found=table["finds"].map("{:.3f}".format), n=table["n"].map(str))
    rows = cells.groupby(["question", "world"], sort=False)[["n", "found"]].agg("/".join).reset_index().values
    return pages.table(["question", "where", "n", "errors"], rows)


def coverages(folder: Path) -> str:
    """Return the coverage in every world of clusters, and its width over an ideal one, by n."""
    table = pd.read_csv(folder / TABLE).dropna(subset="coverage")
    table = table[table["question"].str.contains("clusters of|of clusters")]
    shown = [f"{one.coverage:.3f}" + f" ({one.width:.2f})" * (one.width > 0) for one in table.itertuples()]
    grid = table.assign(shown=shown, n=table["n"].map("{:,}".format))
    cells = grid.groupby(["question", "world"], sort=False)[["n", "shown"]].agg(", ".join).reset_index().values
    return pages.table(["interval of", "where", "n", "coverage (width over an ideal one)"], cells)


TABLES = {"statistics.md": (promises, errors), "tables.md": (coverages,)}
