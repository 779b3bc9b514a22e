"""What the defaults hold beyond plain items: recalls, weights, clusters, means, classes, data sets and differences.

A cell in which most simulations are flagged counts as a question of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import softmax

import aucpr_dask as ap
from docs.study import _common as common
from docs.study._common import Floats, Row

SIMULATIONS = 2000
RATES = ((1.5, 0.01), (1.0, 0.1), (3.0, 0.01), (2.0, 0.5))  # the positives' mean and the prevalence of units
MOST_ITEMS = 100_000  # of all units together
SHARES = (0.4, 0.25, 0.15, 0.12, 0.08)  # of classes among the items
HOW = {"logit": "logit", "normal": "normal", "percentile bootstrap": "bootstrap"}


# Intervals of one area


def recalls(random: np.random.Generator, share: float) -> Iterator[Row]:
    """Areas over the first recalls, which hold few of the positives, and over later ones."""
    first = (0.02, 100, 20, 1.5), (0.05, 60, 20, 1.5), (0.05, 100, 10, 1.5), (0.1, 30, 10, 1.5), (0.1, 40, 10, 1.2)
    first += (0.2, 25, 20, 2.0), (0.2, 50, 10, 1.0), (0.3, 20, 20, 1.5)
    later = ((*ends, n, 10, 1.5) for ends, n in product(((0.45, 0.5), (0.3, 0.6), (0.7, 1.0)), (20, 50, 200)))
    for low, high, n, times, mu in (*((0, *one) for one in first), *later):
        precision = ap.simulate.binormal(mu).curve(common.RECALLS, 1 / times)
        truth = (high - low) * precision[(low < common.RECALLS) & (high > common.RECALLS)].mean()
        scores = common.stacked(*common.drawn(random, n, round(share * SIMULATIONS), mu, 1 / times))
        world, options = f"N({mu:g}, 1), {1 / times:g}, recalls {low:g} to {high:g}", {"recall_range": (low, high)}
        for name in ("average_precision", "continuous"):
            question = f"`{name}`, {'later' if low else 'first'} recalls"
            yield common.evaluated(question, world, n, scores, truth, name, flag="few_positives", **options)


def ranks(random: np.random.Generator, share: float) -> Iterator[Row]:
    """Precision and recall at ranks, whose truth is their expectation; many are 0 or 1."""
    for mu, n in product((0.5, 2.0, 4.0), (10, 50)):
        scores = common.stacked(*common.drawn(random, n, round(share * SIMULATIONS / 4), mu, 0.1))
        for estimator in ("precision_at(10)", "recall_at(20)"):
            truth = float(ap.evaluate(scores, estimator, by="simulation", interval=())["estimate"].mean())
            yield common.evaluated(f"`{estimator}`", f"N({mu:g}, 1), 0.1", n, scores, truth, estimator)


def weights(random: np.random.Generator, share: float) -> Iterator[Row]:
    """Average precision with uneven weights, and weights that follow the score."""
    for n in (10, 30, 100):
        score, label = common.drawn(random, n, round(share * SIMULATIONS / 2), 1.5, 0.1)
        for deviation in (1.0, 1.5, 2.0):
            weight = np.exp(deviation * random.normal(size=score.shape))
            world, scores = f"log-normal, deviation {deviation:g}", common.stacked(score, label, weight=weight)
            yield common.evaluated("weights", world, n, scores, common.area(1.5, 0.1), flag="few_weights")
        for power in (1.0, 0.5, -0.5, -1.0):
            odds = np.exp(1.5 * power) / 9  # of the population whose scores these weights shift
            scores = common.stacked(score, label, weight=np.exp(power * score))
            truth, world = common.area(1.5, odds / (1 + odds)), f"exp({power:g} score)"
            yield common.evaluated("weights that follow the score", world, n, scores, truth, flag="few_weights")


# Means


def means(random: np.random.Generator, share: float) -> Iterator[Row]:
    """Means of values between 0 and 1, by default and by Student's t."""
    beta, of_ranks = random.beta, 1 / np.arange(1, 11)
    worlds: dict[str, tuple[Any, float]] = {
        "0 or 1, mean 0.1": (lambda size: 1.0 * (random.random(size) < 0.1), 0.1),
        "0 or 1, mean 0.5": (lambda size: 1.0 * (random.random(size) < 0.5), 0.5),
        "Beta(2, 3)": (lambda size: beta(2, 3, size), 0.4),
        "0.3 of them 0, else Beta(4, 2)": (lambda size: beta(4, 2, size) * (random.random(size) < 0.7), 0.7 * 2 / 3),
        "1/rank of one document found in 0.15": (
            lambda size: random.choice(of_ranks, size) * (random.random(size) < 0.15),
            0.15 * of_ranks.mean(),
        ),
        "0.3 ± 0.02": (lambda size: random.normal(0.3, 0.02, size), 0.3),
        "Beta(0.5, 3)": (lambda size: beta(0.5, 3, size), 1 / 7),
        "Beta(0.2, 3)": (lambda size: beta(0.2, 3, size), 1 / 16),
    }
    for (world, (draw, truth)), n in product(worlds.items(), (8, 20, 50)):
        values = draw((max(4, round(2 * share * SIMULATIONS)), n))
        for name, method in {"mean of values": "score", "mean of values, Student's t": "t"}.items():
            mean = ap.aggregate(common.of_queries(values), method=method)
            yield averaged(name, world, n, mean, truth, "few_units" if method == "score" else "")


def groups(random: np.random.Generator, share: float) -> Iterator[Row]:
    """Means of areas over groups that are the sample, and over fixed queries and classes with their own items."""
    for (mu, prevalence), units, n in product(RATES, (20, 60, 180), (10, 20, 50, 100)):
        shape = max(4, round(share * SIMULATIONS / 3)), units, round(n / prevalence)
        if units * shape[-1] <= MOST_ITEMS:
            label = at_least_one(random.random(shape) < prevalence)
            scores = common.of_models(random.normal(size=shape) + mu * label, label, "site")
            world = f"N({mu:g}, 1), {prevalence:g}; {units} units"
            found = {"groups": ap.aggregate(scores, over="site")}
            found["fixed queries"] = ap.aggregate(scores.rename(site="query"), over="items")
            for name, mean in found.items():
                yield averaged(f"mean over {name}", world, n, mean, common.area(mu, prevalence), "few_positives")


def classes(random: np.random.Generator, share: float) -> Iterator[Row]:
    """Macro means over classes whose items are the same, with scores that correlate or not."""
    sizes = (20, 10, 0.5), (20, 50, 0.0), (30, 20, 0.5), (90, 50, 0.5), (180, 100, 0.0), (200, 20, 0.5)
    for (mu, prevalence), (units, n, correlation) in product(RATES, sizes):
        shape = max(4, round(share * SIMULATIONS / 5)), units, round(n / prevalence)
        if units * shape[-1] <= MOST_ITEMS:
            label = at_least_one(random.random(shape) < prevalence)
            shared = random.normal(size=(shape[0], 1, shape[-1]))
            score = common.noise(random, shared, shape, correlation) + mu * label
            mean = ap.aggregate(common.of_models(score[None], label, "simulation", "class"))
            world = f"N({mu:g}, 1), {prevalence:g}; {units} classes, correlation {correlation:g}"
            yield averaged("mean over classes", world, n, mean, common.area(mu, prevalence), "few_positives")


def at_least_one(label: Floats) -> Floats:
    """Make the first item of units without a positive one."""
    label[..., 0] |= ~label.any(axis=-1)
    return label


def averaged(question: str, world: str, n: int, mean: xr.Dataset, truth: float, flag: str) -> Row:
    """Summarize means."""
    flags = mean.aucpr.flagged(flag)[flag].values if flag else None
    return common.summary(question, world, n, mean["interval"].values, truth, mean["estimate"].values, flags)


def of_classes(random: np.random.Generator, share: float) -> Iterator[Row]:
    """Averages over five classes of the probabilities of a softmax model, by several intervals."""

    def draw(n_items: int, separation: float) -> xr.Dataset:
        classes = random.choice(len(SHARES), size=n_items, p=SHARES)
        logits = random.normal(size=(len(SHARES), n_items))
        logits[classes, np.arange(n_items)] += separation
        scores = softmax(logits, axis=0)[None]
        return xr.Dataset({"score": (("model", "class", "item"), scores), "label": ("item", classes)})

    for separation in (1.0, 2.5):
        found: dict[str, list[xr.Dataset]] = {}
        for _ in range(max(4, round(share * SIMULATIONS / 5))):
            for name, mean in averages(draw(400, separation)).items():
                found.setdefault(name, []).append(mean[["estimate", "interval"]].squeeze(drop=True))
        many = draw(round(max(share, 0.02) * 500_000), separation)
        names = "macro", "weighted", "micro", "samples"
        truths = {name: ap.aggregate(many, over="class", average=name, interval=())["estimate"] for name in names}
        for name, means in found.items():
            both, truth = xr.concat(means, "simulation"), truths[name.split()[0]].item()
            world, bounds = f"separation {separation:g}", both["interval"].values
            yield common.summary(name, world, 400, bounds, truth, both["estimate"].values)


def averages(scores: xr.Dataset) -> dict[str, xr.Dataset]:
    """Return averages of the areas of classes with all their intervals."""
    result = ap.evaluate(scores, interval=(), keep_replicates=True)
    found = {"macro average, by influence": ap.aggregate(scores, over="class")}
    for average, (how, method) in product(("macro", "weighted"), HOW.items()):
        found[f"{average} average, {how}"] = ap.aggregate(result, over="class", average=average, method=method)
    for average, how in {"micro": "`influence_beta`", "samples": "score over items"}.items():
        found[f"{average} average, {how}"] = ap.aggregate(scores, over="class", average=average)
    as_units = result.rename({"class": "query"}).drop_vars("replicate")
    return found | {"macro average, score over classes": ap.aggregate(as_units)}


def data_sets(random: np.random.Generator, share: float) -> Iterator[Row]:
    """Mean differences over data sets of 10 to 1,000 positives, whose size matters or not, by three weights."""
    for (world, slope), n in product({"none of size": 0.0, "linear in log size": 0.15}.items(), (5, 10, 20)):
        positives = np.round(10 ** (1 + 2 * (np.arange(n) + 0.5) / n)).astype(int)
        better = 1.5 + 0.3 * (slope == 0) + slope * (np.log10(positives) - 2)
        truth = np.mean([common.area(mu, 0.2) for mu in better]) - common.area(1.5, 0.2)
        label = np.concatenate([np.arange(5 * size) < size for size in positives])
        dataset, mu = np.repeat(np.arange(n), 5 * positives), np.full((common.MODELS, n), 1.5)
        found: dict[str, list[xr.Dataset]] = {"equal": [], "precision": [], "regression": []}
        for _ in range(max(2, round(share * SIMULATIONS / 80))):
            mu[1::2] = better + random.normal(0, 0.05, (common.MODELS // 2, n))
            scores = common.paired(random, label, mu[:, dataset], dataset=dataset).set_coords("dataset")
            for weights, answers in found.items():
                answers.append(common.in_pairs(ap.compare(scores, over="dataset", weights=weights)))
        for weights, answers in found.items():
            pairs, question = xr.concat(answers, "pair"), f"mean difference over data sets, weights {weights}"
            yield common.differences(question, f"effect {world}", n, pairs, truth)


# Differences


def few_positives(random: np.random.Generator, share: float) -> Iterator[Row]:
    """Two models on few positives, equal and different; how often a test would differ that knows the standard error."""
    worlds = (1.5, 1.5, 0.1), (1.5, 1.5, 0.01), (3.0, 3.0, 0.1), (0.0, 0.0, 0.1), (1.0, 1.0, 0.5)
    for (first, second, prevalence), n in product((*worlds, (2.5, 1.0, 0.1), (3.0, 1.0, 0.5)), (5, 7, 10, 20)):
        label, mean = np.arange(round(n / prevalence)) < n, np.resize([second, first], common.MODELS)[:, None]
        drawn = (common.paired(random, label, mean) for _ in range(max(2, round(share * SIMULATIONS / 10))))
        found = xr.concat([common.in_pairs(ap.compare(one, **common.FEW)) for one in drawn], "pair")
        kind, truth = "equal" if first == second else "different", common.area(first, prevalence)
        world, truth = f"N({first:g}, 1) and N({second:g}, 1), {prevalence:g}", truth - common.area(second, prevalence)
        row = common.differences(f"{kind} models, few positives", world, n, found, truth)
        yield row | {"known": float((abs(found["difference"]) > 1.96 * found["difference"].std()).mean())}


def contrasts(random: np.random.Generator, share: float) -> Iterator[Row]:
    """Contrasts of two groups, one of n positives and one of 60 or more, of a model and of the difference of two."""
    cells = (1.5, 1.5, 0.1), (1.0, 1.0, 0.5), (3.0, 3.0, 0.1), (1.5, 0.9, 0.1)
    for (mu, other, prevalence), n in product(cells, (5, 10, 50)):
        site = np.repeat([0, 1], [round(max(60, 2 * n) / prevalence), round(n / prevalence)])
        found: dict[str, list[xr.Dataset]] = {"a model": [], "a difference": []}
        for _ in range(max(2, round(share * SIMULATIONS / 4))):
            label = random.random(site.size) < prevalence
            label[[0, 1, 2, 3, 4, -1, -2]] = True
            mean = np.where(site, other, mu) * np.ones((2, 1))
            scores = common.paired(random, label, mean, site=site).set_coords("site")
            for answers, baseline in zip(found.values(), (None, "m00"), strict=True):
                answer = ap.contrast(scores, "site", reference=0, baseline=baseline).sel(site=1, model=["m01"])
                answers.append(answer[["difference", "interval", "p_value"]])
        for name, answers in found.items():
            world = f"N({mu:g}, 1) and N({other:g}, 1), {prevalence:g}"
            truth = (common.area(other, prevalence) - common.area(mu, prevalence)) * (name == "a model")
            yield common.differences(f"contrast of {name}", world, n, xr.concat(answers, "model"), truth)


def signs(random: np.random.Generator, share: float) -> Iterator[Row]:
    """Differences of units that are 0 or 1, equal and different models."""
    for better, apart, n in product((0.0, 0.25), (0.1, 0.3, 0.6), (10, 20, 50, 100)):
        if better <= apart:
            shares, number = [1 - apart, (apart + better) / 2, (apart - better) / 2], max(4, round(share * SIMULATIONS))
            found = common.against_nothing(random.choice([0.0, 1.0, -1.0], size=(number, n), p=shares))
            world = f"{apart:g} of them differ, by {better:g} on average"
            yield common.differences("units that are 0 or 1", world, n, found, better)


def classes_by_interval(folder: Path) -> str:
    """Return the coverage of averages over classes, and its width over an ideal one."""
    table = common.stored(folder, "beyond")
    table = table[table["question"].str.contains(" average, ")]
    return common.joined(common.with_width(table), "coverage (width over an ideal one)", "where")


QUESTIONS = recalls, ranks, weights, means, groups, classes, of_classes, data_sets, few_positives, contrasts, signs
run = partial(common.simulate, "beyond", QUESTIONS)
TABLES = {"your-scores.md": (classes_by_interval,)}  # those of `defaults` show the others
