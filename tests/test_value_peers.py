"""The level, power and coverage that the page on other tools reports, next to those of packages that compare values."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy.special import expit, ndtri
from scipy.stats import norm, rankdata, t

import aucpr_dask as ap

PAGE = Path(__file__).parent.parent / "docs" / "coming-from.md"
SIMULATIONS, FEWER, EQUAL_LEVEL = 600, 150, 1500
Floats = Any
Draw = Callable[[np.random.Generator, int, float], Floats]


def values(of_models: Floats) -> xr.Dataset:
    """Return values of models, the rows, on units."""
    models, units = list("abcdef"[: len(of_models)]), list(map(str, range(of_models.shape[1])))
    data = xr.Dataset({"estimate": (("model", "query"), of_models)}, {"model": models, "query": units})
    return data.assign_attrs(estimator="average_precision")


def outcomes(random: np.random.Generator, n: int, gain: float) -> Floats:
    """Draw what two models solve of tasks that are as hard for both."""
    ease = random.normal(size=n)
    return np.stack([ease + 0.8 * random.normal(size=n) + more > -0.3 for more in (0.0, gain)]).astype(float)


def normal(random: np.random.Generator, n: int, gain: float) -> Floats:
    """Draw normal values."""
    shared = random.normal(size=n)
    return np.stack([shared + 0.6 * random.normal(size=n) + more for more in (0.0, gain)])


def areas(random: np.random.Generator, n: int, gain: float) -> Floats:
    """Draw values between 0 and 1."""
    shared = random.normal(size=n)
    return expit(np.stack([shared + 0.7 * random.normal(size=n) + more for more in (0.0, gain)]))


def sparse(random: np.random.Generator, n: int, gain: float) -> Floats:
    """Draw values of which most are 0."""
    is_any = random.random(n) < 0.3
    return np.stack([is_any * np.clip(random.random(n) + more, 0, 1) for more in (0.0, gain)])


def outliers(random: np.random.Generator, n: int, gain: float) -> Floats:
    """Draw normal values, the second model's with outliers."""
    second = random.normal(size=n) + 0.6 * random.standard_t(2, n) + gain
    return np.stack([random.normal(size=n), second])


WORLDS: dict[str, tuple[Draw, int, float]] = {
    "0 or 1": (outcomes, 20, 1.0),
    "0 or 1, more units": (outcomes, 50, 0.6),
    "normal": (normal, 15, 0.6),
    "between 0 and 1": (areas, 15, 0.7),
    "mostly 0": (sparse, 30, 0.3),
    "with outliers": (outliers, 15, 1.2),
}


@pytest.fixture(autouse=True)
def few_units() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few units, which are what is studied; and the warnings of others
        yield


@pytest.mark.needs("evalstats")
@pytest.mark.nightly
@pytest.mark.parametrize("world", WORLDS)
def test_differences_beside_evalstats(world: str) -> None:
    import evalstats

    (draw, n, gain), found = WORLDS[world], []
    for more in (0.0, gain):
        many = draw(np.random.default_rng(1), 400_000, more).mean(axis=1)
        truth, random, rows = (many[1] - many[0]) * (more > 0), np.random.default_rng(7), []
        for _ in range(SIMULATIONS):
            sample = draw(random, n, more)
            ours = ap.compare(values(sample), "a").sel(model="b")
            theirs = evalstats.pairwise_differences(sample, 1, 0, n_bootstrap=2000, rng=np.random.default_rng(0))
            rows.append(found_and_held(ours, (theirs.p_value, theirs.ci_low, theirs.ci_high), truth))
        found.append(rows)
    assert f"| {world} | {n} | {cells(*found)} |" in PAGE.read_text()


@pytest.mark.needs("evalstats")
@pytest.mark.nightly
def test_power_at_an_equal_level_beside_evalstats() -> None:
    """Of a test that rejects the smallest p-values, the last of them by chance, so that its level is exact."""
    import evalstats

    cells = []
    for world in ("0 or 1", "0 or 1, more units"):
        (draw, n, gain), rows = WORLDS[world], []
        for more in (0.0, gain):
            random, of_gain = np.random.default_rng(11), []
            for _ in range(EQUAL_LEVEL):
                sample = draw(random, n, more)
                ours = ap.compare(values(sample), "a").sel(model="b")["p_value"].item()
                theirs = evalstats.pairwise_differences(sample, 1, 0, n_bootstrap=100, rng=np.random.default_rng(0))
                of_gain.append((ours, theirs.p_value))
            rows.append(np.transpose(of_gain))
        cells.append(", ".join(shown(power_at(null, other)) for null, other in zip(*rows, strict=True)))
    assert " ".join(f"{cells[0]} with 20 units and {cells[1]} with 50".split()) in " ".join(PAGE.read_text().split())


def power_at(of_equal: Floats, of_different: Floats, level: float = 0.05) -> float:
    """Return the power of the test on p-values whose level is exact among those of equal models."""
    cut = np.sort(of_equal)[int(np.ceil(level * of_equal.size)) - 1]
    below, at = (of_equal < cut).mean(), (of_equal == cut).mean()
    return float((of_different < cut).mean() + (level - below) / at * (of_different == cut).mean())


def found_and_held(ours: xr.Dataset, theirs: tuple[float, float, float], truth: float) -> list[bool]:
    """Return whether each finds a difference, and whether the interval of each holds."""
    (lower, upper), (p, low, high) = ours["interval"].values, theirs
    return [ours["p_value"].item() <= 0.05, p <= 0.05, lower <= truth <= upper, low <= truth <= high]


def cells(of_equal: list[list[bool]], of_different: list[list[bool]]) -> str:
    """Return the cells of a row: found where equal, found where different, and intervals that hold."""
    alike, apart = ([shown(one) for one in np.transpose(rows)] for rows in (of_equal, of_different))
    found, held = ([", ".join(one[part]) for one in (alike, apart)] for part in (slice(2), slice(2, 4)))
    return " | ".join([*found, "; ".join(held)])


def models_on_30_units(random: np.random.Generator, gains: Floats) -> Floats:
    """Draw values between 0 and 1 of several models."""
    shared = random.normal(size=30)
    return expit(shared + 0.7 * random.normal(size=(len(gains), 30)) + gains[:, None])


@pytest.mark.needs("evalstats")
@pytest.mark.nightly
def test_families_beside_evalstats() -> None:
    import evalstats

    names, first, second = list("abcdef"), *np.tril_indices(6, -1)
    cells: list[str] = []
    for gain in (0.0, 0.5):
        random, rows, differs = np.random.default_rng(5), [], (first == 5) & (gain > 0)
        for _ in range(FEWER):
            sample = models_on_30_units(random, np.array([0, 0, 0, 0, 0, gain]))
            ours = ap.compare(values(sample))["p_adjusted"].values[first, second]
            of_pairs = evalstats.all_pairwise(sample, names, n_bootstrap=2000, rng=np.random.default_rng(0)).results
            theirs = {frozenset(pair): one.p_value for pair, one in of_pairs.items()}
            both = np.array(
                [ours, [theirs[frozenset((names[i], names[j]))] for i, j in zip(first, second, strict=True)]]
            )
            rows.append((both <= 0.05)[:, differs].mean(axis=1) if gain else (both <= 0.05).any(axis=1))
        cells.append(", ".join(map(shown, np.transpose(rows))))
    assert f"| 6 models, 30 units | {cells[0]} | {cells[1]} |" in PAGE.read_text()


@pytest.mark.needs("evalstats")
@pytest.mark.nightly
def test_the_chance_to_be_best_beside_evalstats() -> None:
    import evalstats

    random, rows = np.random.default_rng(9), []
    for _ in range(FEWER):
        gains = 0.3 * random.normal(size=5)
        sample, is_best = models_on_30_units(random, gains), gains == gains.max()
        ours = ap.rank(values(sample))["probability_best"].values
        theirs = evalstats.bootstrap_ranks(sample, list("abcde"), n_bootstrap=2000, rng=np.random.default_rng(0)).p_best
        rows.append([((one - is_best) ** 2).sum() for one in (ours, np.asarray(theirs))])
    assert f"Brier score of {', '.join(map(shown, np.transpose(rows)))}" in PAGE.read_text()


def rates_with_a_machine(
    rate: float, n: int, accuracy: float, theirs: Callable[[Floats, Floats], tuple[float, float]]
) -> str:
    """Return the cells of a row: intervals that hold, and their widths; `theirs` is given a machine's and people's."""
    random, rows = np.random.default_rng(2), []
    for _ in range(SIMULATIONS):
        by_people = (random.normal(size=500) < ndtri(rate)).astype(float)
        by_machine = np.where(random.random(500) < accuracy, by_people, 1 - by_people)
        people, machine = values(by_people[None, :n]), values(by_machine[None])
        bounds = ap.aggregate(people, auxiliary=machine)["interval"].values[0], theirs(by_machine, by_people[:n])
        rows.append([*(low <= rate <= high for low, high in bounds), *(high - low for low, high in bounds)])
    ours, others, width, their_width = (shown(one) for one in np.transpose(rows))
    return f"{ours}, {others} | {width}, {their_width}"


RATES = [(0.8, 20, 0.9), (0.8, 40, 0.9), (0.95, 40, 0.95), (0.5, 40, 0.75)]


@pytest.mark.needs("truescore")
@pytest.mark.nightly
@pytest.mark.parametrize(("rate", "n", "accuracy"), RATES)
def test_rates_with_a_machine_beside_truescore(rate: float, n: int, accuracy: float) -> None:
    import truescore

    def theirs(by_machine: Floats, by_people: Floats) -> tuple[float, float]:
        found = truescore.ppi_estimate(by_machine, by_people, np.arange(by_people.size))
        return found.low, found.high

    row = f"| {rate:.2g} | {n} | {accuracy} | {rates_with_a_machine(rate, n, accuracy, theirs)} |"
    assert row.replace(" 0.", " .") in PAGE.read_text()


def tasks_in_clusters(random: np.random.Generator, n_clusters: int, size: int, gain: float) -> tuple[Floats, Floats]:
    """Draw what two models solve of tasks in clusters, and the cluster of each task."""
    cluster = np.repeat(np.arange(n_clusters), size)
    ease, of_models = random.normal(size=n_clusters)[cluster], random.normal(size=(2, n_clusters))[:, cluster]
    strength = ease + 0.7 * of_models + 0.5 * random.normal(size=(2, cluster.size))
    strength[1] += gain
    return cluster, (strength > -0.3).astype(float)


def over_clusters(sizes: Floats, number: int, theirs: Callable[[Floats, Floats], tuple[float, float, float]]) -> str:
    """Return the cells of a row; `theirs` is given differences and clusters."""
    found = []
    for gain in (0.0, 0.8):
        random, rows = np.random.default_rng(6), []
        _, many = tasks_in_clusters(random, 100_000, sizes[0], gain)
        truth = (many[1] - many[0]).mean() * (gain > 0)
        for _ in range(number):
            cluster, solved = tasks_in_clusters(random, len(sizes), sizes, gain)
            ours = ap.compare(values(solved).assign_coords(cluster=("query", cluster)), "a").sel(model="b")
            rows.append(found_and_held(ours, theirs(solved, cluster), truth))
        found.append(rows)
    return cells(*found)


@pytest.mark.needs("truescore")
@pytest.mark.nightly
@pytest.mark.parametrize(("n_clusters", "size"), [(12, 5), (30, 4)])
def test_clusters_beside_truescore(n_clusters: int, size: int) -> None:
    import truescore

    def theirs(solved: Floats, cluster: Floats) -> tuple[float, float, float]:
        found = truescore.paired_bootstrap(solved[1], solved[0], clusters=cluster, n_bootstrap=2000)
        return found.p_value, found.low, found.high

    row = over_clusters(np.full(n_clusters, size), FEWER, theirs)
    assert f"| {n_clusters} clusters of {size} tasks | {row} |" in PAGE.read_text()


@pytest.mark.needs("truescore")
@pytest.mark.nightly
def test_slices_beside_truescore() -> None:
    import truescore

    found, (n_slices, n_people, n) = [], (4, 60, 300)
    of_slices = np.repeat(list("pqrs"), n)
    places = np.concatenate([np.arange(n_people) + n * place for place in range(n_slices)])
    for loss in (0.0, 0.8):
        random, rows = np.random.default_rng(8), []
        for _ in range(FEWER):
            strength = random.normal(size=n_slices * n) + 0.8 * random.normal(size=(2, n_slices * n))
            strength[1, of_slices == "s"] -= loss
            people = (strength > -0.3).astype(float)
            machine = np.where(random.random(people.shape) < 0.9, people, 1 - people)
            of_all = values(machine).assign_coords(slice=("query", of_slices))
            labelled = values(people).assign_coords(slice=("query", of_slices)).isel(query=places)
            ours = ap.compare(labelled, "a", by="slice", auxiliary=of_all)["p_adjusted"].sel(model="b").values
            given = machine[1], machine[0], people[1, places], people[0, places], places, of_slices
            by_name = {one.name: one.adjusted_p_value for one in truescore.compare_slices(*given).comparisons}
            theirs = np.array([by_name[name] for name in "pqrs"])
            rows.append([*((one[:3] if loss else one).min() <= 0.05 for one in (ours, theirs)), ours[3], theirs[3]])
        wrong, wrongly, p, their_p = np.transpose(rows)
        found.append([*map(shown, (wrong, wrongly))] if loss == 0 else [*map(shown, (p <= 0.05, their_p <= 0.05))])
    level, power = map(", ".join, found)
    assert f"| 4 slices of 300 tasks, 60 of them labelled by people | {level} | {power} | |" in PAGE.read_text()


# evaluatellm 0.1 is written in R: here are the data of its examples, and the formulas that its pages state


def in_words(found: xr.Dataset) -> str:
    """Return an estimate and its interval as a table has them."""
    numbers = [found["estimate"].item(), *found["interval"].values.ravel()]
    estimate, low, high = (f"{one:.3f}".removeprefix("0") for one in numbers)
    return f"{estimate}, {low} to {high}"


def test_the_examples_of_evaluatellm() -> None:
    page = PAGE.read_text()
    solved = [6, 9, 9, 7, 7, 7, 10, 7, 9, 7, 7, 9, 6, 4, 10, 2, 7, 9, 9, 6]
    solved += [8, 2, 10, 10, 10, 3, 6, 4, 10, 8, 9, 8, 9, 6, 5, 4, 2, 7, 7, 7]
    passages = np.concatenate([np.arange(10) < one for one in solved]).astype(float)
    found = ap.aggregate(values(passages[None]).assign_coords(cluster=("query", np.repeat(np.arange(40), 10))))
    assert f"| .705, .630 to .780 | {in_words(found)} |" in page
    by_people = np.repeat([0.0, 1.0], [102, 148])
    by_machine = np.repeat([0.0, 1, 0, 1, 0, 1], [76, 26, 27, 121, 4750 - 2988, 2988])
    found = ap.aggregate(values(by_people[None]), auxiliary=values(by_machine[None]))
    assert f"| .614, .563 to .665 | {in_words(found)} |" in page
    old, new = np.repeat([[0, 0, 1, 1], [0, 1, 0, 1]], [82, 108, 73, 237], axis=1)
    found = ap.compare(values(np.array([old, new], float)), "a").sel(model="b")
    difference = in_words(found[["interval"]].assign(estimate=found["difference"]))
    assert f"| +.070, .017 to .123, p = .009 | +{difference}, p = {shown(found['p_value'])} |" in page
    patterns = [13, 8, 6, 10, 5, 6, 15, 15, 18, 16, 15, 17, 20, 22, 34, 80]
    of_models = np.repeat((np.arange(16) >> np.arange(4)[::-1, None]) & 1, patterns, axis=1)
    found = ap.rank(values(of_models.astype(float)))
    ranks = ", ".join(" to ".join(map(str, dict.fromkeys(one))) for one in found["rank_interval"].values.tolist())
    assert f"| 1, 2 to 3, 2 to 3, 3 to 4 | {ranks} |" in page
    chances = ", ".join(f"{one:.2f}".removeprefix("0") for one in found["probability_best"].values)
    assert f"| .99, .01, .01, .00 | {chances} |" in page


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("12 clusters of 5 tasks", [5] * 12),
        ("30 clusters of 4 tasks", [4] * 30),
        ("12 clusters of 1 to 40 tasks", [1, 2, 5, 10, 20, 40] * 2),
    ],
)
def test_clusters_beside_evaluatellm(name: str, sizes: list[int]) -> None:
    def theirs(solved: Floats, cluster: Floats) -> tuple[float, float, float]:
        apart = solved[1] - solved[0]
        mean, n_clusters = apart.mean(), len(sizes)
        squares = np.sum(np.bincount(cluster, apart - mean) ** 2)
        error = np.sqrt(n_clusters / (n_clusters - 1) * squares) / apart.size
        p = 2 * t.sf(abs(mean) / error, n_clusters - 1) if error > 0 else np.nan
        half = t.ppf(0.975, n_clusters - 1) * error
        return p, mean - half, mean + half

    assert f"| {name} | {over_clusters(np.array(sizes), SIMULATIONS, theirs)} |" in PAGE.read_text()


@pytest.mark.nightly
@pytest.mark.parametrize(("rate", "n", "accuracy"), RATES)
def test_rates_with_a_machine_beside_evaluatellm(rate: float, n: int, accuracy: float) -> None:
    def theirs(by_machine: Floats, by_people: Floats) -> tuple[float, float]:
        labelled, others = by_machine[:n], by_machine[n:]
        known = labelled.var() > 0
        share = (
            np.cov(by_people, labelled)[0, 1] / labelled.var(ddof=1) * others.size / by_machine.size if known else 0.0
        )
        share = np.clip(share, 0, 1)
        mean = share * others.mean() + (by_people - share * labelled).mean()
        variance = share**2 * others.var(ddof=1) / others.size + (by_people - share * labelled).var(ddof=1) / n
        return mean - norm.ppf(0.975) * np.sqrt(variance), mean + norm.ppf(0.975) * np.sqrt(variance)

    row = f"| {rate:.2g} | {n} | {accuracy} | {rates_with_a_machine(rate, n, accuracy, theirs)} |"
    assert row.replace(" 0.", " .") in PAGE.read_text()


@pytest.mark.nightly
def test_ranks_beside_evaluatellm() -> None:
    random, rows = np.random.default_rng(9), []
    for _ in range(SIMULATIONS):
        gains = 0.3 * random.normal(size=5)
        sample, ranks = models_on_30_units(random, gains), rankdata(-gains)
        found = ap.rank(values(sample))
        resampled = sample @ np.random.default_rng(0).multinomial(30, np.full(30, 1 / 30), 2000).T
        theirs = np.quantile(rankdata(-resampled, "min", axis=0), [0.025, 0.975], axis=1).T
        bounds = found["simultaneous_rank_interval"].values, theirs
        rows.append([((low <= ranks) & (ranks <= high)).all() for low, high in (one.T for one in bounds)])
    assert f"all five ranks in {', '.join(map(shown, np.transpose(rows)))}" in PAGE.read_text()


def shown(of_samples: Floats) -> str:
    return f"{np.mean(of_samples):.3f}".removeprefix("0")
