"""The level, power and coverage that the page on other tools reports, next to those of evalstats and truescore."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy.special import expit, ndtri

import aucpr_dask as ap

PAGE = Path(__file__).parent.parent / "docs" / "coming-from.md"
SIMULATIONS, FEWER = 600, 150
Floats = Any
Draw = Callable[[np.random.Generator, int, float], Floats]


def values(of_models: Floats) -> xr.Dataset:
    """Return values of models, the rows, on units."""
    models, units = ["a", "b"][: len(of_models)], list(map(str, range(of_models.shape[1])))
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


def found_and_held(ours: xr.Dataset, theirs: tuple[float, float, float], truth: float) -> list[bool]:
    """Return whether each finds a difference, and whether the interval of each holds."""
    (lower, upper), (p, low, high) = ours["interval"].values, theirs
    return [ours["p_value"].item() <= 0.05, p <= 0.05, lower <= truth <= upper, low <= truth <= high]


def cells(of_equal: list[list[bool]], of_different: list[list[bool]]) -> str:
    """Return the cells of a row: found where equal, found where different, and intervals that hold."""
    alike, apart = ([shown(one) for one in np.transpose(rows)] for rows in (of_equal, of_different))
    found, held = ([", ".join(one[part]) for one in (alike, apart)] for part in (slice(2), slice(2, 4)))
    return " | ".join([*found, "; ".join(held)])


@pytest.mark.needs("truescore")
@pytest.mark.nightly
@pytest.mark.parametrize(("rate", "n", "accuracy"), [(0.8, 20, 0.9), (0.8, 40, 0.9), (0.95, 40, 0.95), (0.5, 40, 0.75)])
def test_rates_with_a_machine_beside_truescore(rate: float, n: int, accuracy: float) -> None:
    import truescore

    random, rows = np.random.default_rng(2), []
    for _ in range(SIMULATIONS):
        by_people = (random.normal(size=500) < ndtri(rate)).astype(float)
        by_machine = np.where(random.random(500) < accuracy, by_people, 1 - by_people)
        people, machine = values(by_people[None, :n]), values(by_machine[None])
        lower, upper = ap.aggregate(people, auxiliary=machine)["interval"].values[0]
        theirs = truescore.ppi_estimate(by_machine, by_people[:n], np.arange(n))
        held = lower <= rate <= upper, theirs.low <= rate <= theirs.high
        rows.append([*held, upper - lower, theirs.high - theirs.low])
    ours, others, width, their_width = (shown(one) for one in np.transpose(rows))
    row = f"| {rate:.2g} | {n} | {accuracy} | {ours}, {others} | {width}, {their_width} |".replace(" 0.", " .")
    assert row in PAGE.read_text()


def tasks_in_clusters(random: np.random.Generator, n_clusters: int, size: int, gain: float) -> tuple[Floats, Floats]:
    """Draw what two models solve of tasks in clusters, and the cluster of each task."""
    cluster = np.repeat(np.arange(n_clusters), size)
    ease, of_models = random.normal(size=n_clusters)[cluster], random.normal(size=(2, n_clusters))[:, cluster]
    strength = ease + 0.7 * of_models + 0.5 * random.normal(size=(2, cluster.size))
    strength[1] += gain
    return cluster, (strength > -0.3).astype(float)


@pytest.mark.needs("truescore")
@pytest.mark.nightly
@pytest.mark.parametrize(("n_clusters", "size"), [(12, 5), (30, 4)])
def test_clusters_beside_truescore(n_clusters: int, size: int) -> None:
    import truescore

    found = []
    for gain in (0.0, 0.8):
        random, rows = np.random.default_rng(6), []
        _, many = tasks_in_clusters(random, 100_000, size, gain)
        truth = (many[1] - many[0]).mean() * (gain > 0)
        for _ in range(FEWER):
            cluster, solved = tasks_in_clusters(random, n_clusters, size, gain)
            ours = ap.compare(values(solved).assign_coords(cluster=("query", cluster)), "a").sel(model="b")
            theirs = truescore.paired_bootstrap(solved[1], solved[0], clusters=cluster, n_bootstrap=2000)
            rows.append(found_and_held(ours, (theirs.p_value, theirs.low, theirs.high), truth))
        found.append(rows)
    assert f"| {n_clusters} clusters of {size} tasks | {cells(*found)} |" in PAGE.read_text()


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


def shown(of_samples: Floats) -> str:
    return f"{np.mean(of_samples):.3f}".removeprefix("0")
