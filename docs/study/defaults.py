"""What every default promises: coverage and width of intervals, and errors of comparisons, where they are hard to keep.

Labels are drawn with their items. A simulation is a group of one long data set, or a model where all share their units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import expit, ndtr, ndtri

import aucpr_dask as ap
from docs import pages
from docs.study import _common as common
from docs.study._common import Floats, Row

SIMULATIONS = 2000
CURVES, STEP = ("precision_recall", "roc"), 0.5  # to whose multiples scores are rounded, for ties
# Clusters of items: the positives' mean, the prevalence, and how many items each of n has
IN_CLUSTERS: dict[str, tuple[float, float, Callable[[int], Floats]]] = {
    "both classes": (1.0, 0.2, lambda n: np.full(n, max(25, 480 // n))),
    "one class": (1.0, 0.2, lambda n: np.full(5 * n, 5)),
    "both classes, unequal, N(2, 1)": (2.0, 0.5, lambda n: np.resize([1, 2, 3, 6], n) * max(25, 480 // n) // 3),
    "1 to 500 items, evenly on a log scale": (1.2, 0.2, lambda n: 500 ** ((np.arange(n) + 0.5) / n)),
    "1 to 500 items, log-normal": (1.2, 0.2, lambda n: np.exp(np.log(22) + 1.25 * ndtri((np.arange(n) + 0.5) / n))),
}


# Intervals of one area


def areas(random: np.random.Generator, share: float) -> Iterator[Row]:
    """Average precision of random test sets: plain, weighted, with positives not retrieved, and with duplicates."""
    number = round(share * SIMULATIONS)
    for mu, prevalence, n in product((0.3, 1.0, 2.0, 3.0), (0.5, 0.1, 0.01), (10, 50, 200)):
        score, label = common.drawn(random, n, number, mu, prevalence)
        truth, world = common.area(mu, prevalence), f"N({mu:g}, 1), {prevalence:g}"
        scores = common.stacked(score, label)
        yield common.evaluated("average precision", world, n, scores, truth)
        yield common.evaluated("fixed numbers of both classes", world, n, scores, truth, prevalence_design="fixed")
    for n in (10, 50, 200):
        score, label = common.drawn(random, n, number, 1.0, 0.1)
        truth = common.area(1.0, 0.1)
        weighted = common.stacked(score, label, weight=np.exp(0.7 * random.normal(size=score.shape)))
        yield common.evaluated("weights", "log-normal", n, weighted, truth)
        twice = np.repeat(score, 2, axis=1), np.repeat(label, 2, axis=1)
        pair = np.arange(twice[0].size).reshape(twice[0].shape) // 2
        yield common.evaluated("every item twice", "drawn as clusters", n, common.stacked(*twice, cluster=pair), truth)
        yield common.evaluated("duplicates taken for items", "every item twice", n, common.stacked(*twice), truth)
        score, label = common.drawn(random, n, number, 1.5, 0.1)
        score[label & (random.random(score.shape) < 0.4)] = np.nan
        found, false = 0.6 * common.RECALLS, 9 * ndtr(ndtri(common.RECALLS) - 1.5)
        truth = 0.6 * float(np.mean(found / (found + false)))
        unretrieved = common.stacked(score, label)
        yield common.evaluated("not retrieved", "0.4 of positives", n, unretrieved, truth, missing="unretrieved")


def prevalences(random: np.random.Generator, share: float) -> Iterator[Row]:
    """Average precision at a prevalence far below that of the sample, and from subsampled negatives."""
    number = round(share * SIMULATIONS / 2)
    for mu, target, n in product((0.0, 1.0, 1.5, 2.0, 3.0), (0.01, 0.001, 0.0001), (10, 30, 100)):
        score, label = common.drawn(random, n, number, mu, 0.1)
        truth, world = common.area(mu, target), f"N({mu:g}, 1) at {target:g}"
        found = ap.evaluate(common.stacked(score, label), by="simulation", prevalence=target)
        bounds, estimates = found["interval"].values[0], found["estimate"].values
        yield common.summary("another prevalence", world, n, bounds, truth, estimates)
        flagged = found.aucpr.flagged("unseen_rates")["unseen_rates"].values.ravel()
        if flagged.sum() >= 100:
            yield common.summary("another prevalence, flagged", world, n, bounds[flagged], truth, estimates)
        weighted = common.stacked(score, label, weight=np.where(label, 1.0, 0.1 / 0.9 * (1 - target) / target))
        yield common.evaluated("subsampled negatives", world, n, weighted, truth)


def in_clusters(random: np.random.Generator, number: int, kind: str) -> Iterator[tuple[Any, ...]]:
    """Yield labels of items in n clusters, or in 5 n of one class, and what draws scores for labels."""
    mu, prevalence, sizes_of = IN_CLUSTERS[kind]
    sizes, correlations = ((30, 60, 120), (0.5, 0.9)) if "500" in kind else ((8, 20, 100), (0.0, 0.1, 0.5))
    for n, correlation in product(sizes, correlations):
        each = np.clip(np.round(sizes_of(n)), 1, 500).astype(int)
        cluster = np.repeat(np.arange(each.size), each)
        label = random.random((number, each.size if kind == "one class" else cluster.size)) < prevalence
        label[label.sum(axis=1) < 3, :3] = True
        label = label[:, cluster] if kind == "one class" else label

        def draw(label: Floats, *models: int, cluster: Floats = cluster, correlation: float = correlation) -> Floats:
            shared = random.normal(size=(*models, *label.shape[:-1], cluster[-1] + 1))[..., cluster]
            return common.noise(random, shared, shared.shape, correlation) + mu * label

        yield f"{kind}, correlation {correlation:g}", n, draw, label, cluster


def clusters(random: np.random.Generator, share: float) -> Iterator[Row]:
    """Areas and comparisons of items in clusters."""
    number, few = max(4, round(share * SIMULATIONS / 2)), max(2, round(share * SIMULATIONS / 40))
    for kind, (mu, prevalence, _) in IN_CLUSTERS.items():
        truth = common.area(mu, prevalence)
        truths = {"average_precision": truth, "continuous": truth, "roc_area": float(ndtr(mu * np.sqrt(0.5)))}
        for world, n, draw, label, cluster in in_clusters(random, number, kind):
            scores = common.stacked(draw(label), label, cluster=cluster + cluster.size * np.arange(number)[:, None])
            models = [common.of_models(draw(one, common.MODELS), one, cluster=cluster) for one in label[:few]]
            for name, truth in truths.items():
                yield common.evaluated(f"`{name}` of clusters", world, n, scores, truth, name, flag="few_weights")
                pairs = [common.in_pairs(ap.compare(one, estimator=name, **common.FEW)) for one in models]
                yield common.differences(f"difference of `{name}` of clusters", world, n, xr.concat(pairs, "pair"))


def bands(random: np.random.Generator, share: float) -> Iterator[Row]:
    """Bands of curves, of tied scores too, at a prevalence that is known, and of items in clusters."""
    grid, number = np.linspace(0, 1, 101), max(4, round(share * SIMULATIONS / 2))
    for (n, prevalence), ties, kind in product(((25, 0.05), (100, 0.1), (500, 0.1)), (False, True), CURVES):
        label = np.broadcast_to(np.arange(round(n / prevalence)) < n, (number, round(n / prevalence)))
        score = random.normal(size=label.shape) + label
        score, truth = STEP * (score / STEP).round() if ties else score, true_curve(kind, grid, prevalence, ties)
        world = f"{kind.replace('_', '-')}, {prevalence:g}{', tied' * ties}"
        yield from banded("bands", world, n, score, label, truth, kind=kind, grid=grid)
    grid, number = np.linspace(0.05, 0.95, 19), max(4, round(share * SIMULATIONS / 5))
    worlds = (in_clusters(random, number, kind) for kind in ("both classes", "one class"))
    for world, n, draw, label, cluster in chain.from_iterable(worlds):
        truth, options = true_curve(CURVES[0], grid, 0.2), {"clusters": cluster, "grid": grid, "prevalence": 0.2}
        yield from banded("bands of clusters", world, n, draw(label), label, truth, **options)


def banded(what: str, world: str, n: int, score: Floats, label: Floats, truth: Floats, **options: Any) -> Iterator[Row]:
    """Return how often bands hold the true curve: everywhere, and pointwise ones where they do least."""
    shown = (xr.DataArray(values, dims=("query", "item")) for values in (score, label.astype(np.int8)))
    found = ap.curve_bands(*shown, n_resamples=500, **options)
    for kind in ("pointwise", "simultaneous"):
        lower, upper = np.moveaxis(found[f"{kind}_band"].values, -1, 0)
        holds = (lower <= truth) & (truth <= upper)
        everywhere = holds.all(axis=1).mean()
        covers = holds.mean(axis=0).min() if kind == "pointwise" else everywhere
        cell = {"question": f"{kind} {what}", "world": world, "n": n, "coverage": covers, "everywhere": everywhere}
        yield cell | {"simulations": len(holds)}


def true_curve(kind: str, grid: Floats, prevalence: float, ties: bool = False) -> Floats:
    """Return the curve of N(1, 1) over N(0, 1); that of rounded scores joins the thresholds they have."""
    scenario = ap.simulate.binormal(1.0)
    if not ties:
        return np.asarray(scenario.roc(grid) if kind == "roc" else scenario.curve(grid, prevalence))
    thresholds = STEP * (np.arange(20, -20, -1) - 0.5)
    recall, rate = (np.concatenate([[0], ndtr(mean - thresholds), [1]]) for mean in (1, 0))
    if kind == "roc":
        return np.interp(grid, rate, recall)
    found = np.maximum(grid, recall[1])  # at recall 0 the precision is that of the first threshold
    return prevalence * found / (prevalence * found + (1 - prevalence) * np.interp(found, recall, rate))


def compared(scores: xr.Dataset, seed: int) -> bool:
    """Return whether any two models differ significantly, by default but for fewer resamples, which cost the most."""
    return bool((ap.compare(scores, seed=seed, n_resamples=1999)["p_adjusted"] <= 0.05).any())


def estimators(random: np.random.Generator, share: float) -> Iterator[Row]:
    """Default intervals of other estimators."""
    scenario = ap.simulate.binormal(1.0)
    for prevalence, n in product((0.5, 0.1), (10, 50, 200)):
        score, label = common.drawn(random, n, round(share * SIMULATIONS / 2), 1.0, prevalence)
        scores = common.stacked(score, label)
        precision = scenario.curve(common.RECALLS, prevalence)
        gain = 1 - prevalence / (1 - prevalence) * (1 / precision - 1)
        gains = 1 - prevalence / (1 - prevalence) * (1 / common.RECALLS - 1)
        over = np.clip(gains, 0, 1)
        truths = {
            **dict.fromkeys(("continuous", "lower_trapezoid", "upper_trapezoid", "interpolated_max"), precision.mean()),
            "roc_area": float(ndtr(np.sqrt(0.5))),
            "gain_area": float(np.trapezoid(gain, over)),
            "precision_at_recall(0.5)": float(scenario.curve(0.5, prevalence)),
        }
        for name, truth in truths.items():
            yield common.evaluated(f"`{name}`", f"N(1, 1), {prevalence:g}", n, scores, truth, name)


# Means over queries, and comparisons


def queries(random: np.random.Generator, share: float) -> Iterator[Row]:
    """Means and differences over queries in clusters of unequal size, with normal and with skewed values."""
    number = max(4, round(share * SIMULATIONS))
    for shape, n, correlation in product(("normal", "exponential"), (8, 20, 50), (0.0, 0.5)):
        cluster = np.repeat(np.arange(n), np.resize([1, 2, 3, 6], n))
        draw = random.normal if shape == "normal" else lambda size: random.exponential(size=size) - 1
        own, shared = draw(size=(number, cluster.size)), draw(size=(number, n))[:, cluster]
        values = 0.1 * (np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own)
        world, of_query = f"{shape}, correlation {correlation:g}", {"cluster": ("query", cluster)}
        bounds = ap.aggregate(common.of_queries(0.4 + values, of_query))["interval"].values
        yield common.summary("mean over clusters of queries", world, n, bounds, 0.4, values.mean(axis=1))
        for truth, name in ((0.0, world), (0.1, f"{world}, difference 0.1")):
            found = common.against_nothing(values + truth, of_query)
            yield common.differences("difference over clusters of queries", name, n, found, truth)


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
        people = common.of_queries(by_people[:, :n])
        found = ap.aggregate(people, auxiliary=common.of_queries(np.where(hard, others[world], by_machine)))
        truth = float(expit(ndtri(common.RECALLS) - 0.5).mean())
        bounds, estimates = found["interval"].values, found["estimate"].values
        hardest = "" if world == "random" else f" on the hardest {cuts[world]:g}"
        yield common.summary("machine labels", f"errors {world}{hardest}", n, bounds, truth, estimates)


def gates(random: np.random.Generator, share: float) -> Iterator[Row]:
    """Gates of candidates that are worse by exactly the margin because they lose much on few queries."""
    worlds = {
        "loses 1 on 0.02 of queries": lambda n: -1.0 * (random.random(n) < 0.02),
        "loses 0.5 on 0.05 of queries": lambda n: -0.5 * (random.random(n) < 0.05) + 0.005,
        "loses 0.5 on 0.1 of queries": lambda n: -0.5 * (random.random(n) < 0.1) + 0.03,
        "log-normal losses": lambda n: 0.05 * (np.exp(0.72) - random.lognormal(0, 1.2, n)) - 0.02,
        "normal": lambda n: random.normal(-0.02, 0.1, n),
    }
    for (world, draw), n in product(worlds.items(), (10, 30, 50, 100, 200)):
        found = []
        for _ in range(max(4, round(share * SIMULATIONS / 4))):
            values = np.stack([np.zeros(n), draw(n) + 0.002 * random.normal(size=n)])
            gate = ap.gate(common.of_queries(values), "m01", "m00", 0.02, n_resamples=1000)
            found.append((gate.passed, gate.passed and bool(gate.caveat)))
        passed, warned = np.mean(found, axis=0)
        row = {"question": "gate", "world": world, "n": n, "finds": passed, "simulations": len(found)}
        yield row | {"flagged": warned / passed if passed else np.nan}


def items(random: np.random.Generator, share: float) -> Iterator[Row]:
    """Families of equal models over items, and pairs of them over items that stand twice."""
    for n_models, n in product((2, 8, 40), (10, 50, 200)):
        found = []
        for _ in range(max(4, round(share * SIMULATIONS / 4))):
            label = common.drawn(random, n, 1, 1.5, 0.1)[1][0]
            found.append(compared(common.paired(random, label, np.full((n_models, 1), 1.5)), len(found)))
        cell = {"world": f"{n_models} models, correlation 0.5", "n": n, "simulations": len(found)}
        yield {"question": "equal models over items", "finds": np.mean(found)} | cell
    for how, n in product(("drawn as clusters", "taken for items"), (10, 50, 200)):
        found = []
        for _ in range(max(4, round(share * SIMULATIONS / 4))):
            label = common.drawn(random, n, 2, 0.0, 0.1)[1][0]
            score = random.normal(size=(2, label.size)) + 1.5 * label
            of_items = {"cluster": np.repeat(np.arange(label.size), 2)} if how == "drawn as clusters" else {}
            scores = common.of_models(np.repeat(score, 2, axis=1), np.repeat(label, 2), **of_items)
            found.append(compared(scores, len(found)))
        cell = {"world": f"every item twice, {how}", "n": n, "simulations": len(found)}
        yield {"question": "equal models over items", "finds": np.mean(found)} | cell


# Tables


def promises(folder: Path) -> str:
    """Return where each interval covers least, its width over an ideal one, and its largest one-sided errors."""
    table = common.stored(folder, "defaults", "beyond").dropna(subset="coverage")
    table = table[~table["question"].str.contains(" average, ")]  # intervals that are no defaults
    rows = []
    for question, cells in table.groupby("question", sort=False):
        low = cells.loc[cells["coverage"].idxmin()]
        widest = f"{cells['width'].max():.2f}" if cells["width"].max() < 100 else "over 100"  # log(1 - area), n = 2
        width = "" if low.isna()["width"] else f"{cells['width'].min():.2f} to {widest}"
        sides = "" if low.isna().below else f"{cells.below.max():.3f}, {(1 - cells.coverage - cells.below).max():.3f}"
        rows.append([question, f"{low['coverage']:.3f}", f"{low['world']}; {low['n']}", width, sides])
    return pages.table(["interval of", "least coverage", "where; n", "width", "lies below, above"], rows)


def errors(folder: Path) -> str:
    """Return how often equal models differ significantly, and a gate passes what is worse by the margin."""
    table = common.stored(folder, "defaults", "beyond").dropna(subset="finds")
    return common.joined(table.assign(shown=table["finds"].map("{:.3f}".format)), "errors")


def coverages(folder: Path) -> str:
    """Return the coverage in every world of clusters and beyond plain items, and its width over an ideal one, by n."""
    table = common.stored(folder, "defaults")
    table = table[table["question"].str.contains("clusters of|of clusters")]
    table = pd.concat([table, common.stored(folder, "beyond")]).dropna(subset="coverage")
    return common.joined(common.with_width(table), "coverage (width over an ideal one)")


def of_bands(folder: Path) -> str:
    """Return how often bands hold curves at all places, and pointwise ones where they do least, by n."""
    table = common.stored(folder, "defaults").query("question in ('pointwise bands', 'simultaneous bands')")
    least = table["coverage"].map("{:.3f}".format)
    return common.joined(
        table.assign(shown=least + table["everywhere"].map(" ({:.3f})".format)), "coverage (everywhere)"
    )


QUESTIONS = areas, estimators, queries, machines, gates, items, prevalences, clusters, bands
run = partial(common.simulate, "defaults", QUESTIONS)
TABLES = {"statistics.md": (promises, errors), "tables.md": (coverages,), "plots.md": (of_bands,)}
