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
SIMULATIONS = 600
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
            (lower, upper), p = ours["interval"].values, ours["p_value"].item()
            rows.append([p, lower <= truth <= upper, theirs.p_value, theirs.ci_low <= truth <= theirs.ci_high])
        p, holds, their_p, theirs_hold = np.transpose(rows)
        found.append([shown(one) for one in (p <= 0.05, their_p <= 0.05, holds, theirs_hold)])
    (*level, held, theirs_held), (*power, held_apart, theirs_apart) = found
    cells = [", ".join(level), ", ".join(power), f"{held}, {theirs_held}; {held_apart}, {theirs_apart}"]
    assert f"| {world} | {n} | {' | '.join(cells)} |" in PAGE.read_text()


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


def shown(of_samples: Floats) -> str:
    return f"{np.mean(of_samples):.3f}".removeprefix("0")
