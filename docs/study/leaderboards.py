"""How often the rank on a new task lies where an audit expects it: of all models, of the leader, by its own check."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from aucpr_dask.inference.auditing import EXPECTED
from aucpr_dask.inference.unit_influence import expected_ranks, leave_out_each
from docs import pages

TABLE = "leaderboards.csv"
MODELS, TASKS, SKILLS = (10, 100), (10, 20, 50), (0.0, 0.3, 1.0)  # the spread of skill over that of luck
N_SIMULATIONS = 1000


def run(folder: Path, *, small: bool) -> None:
    """Simulate tables of models and tasks, and one more task each."""
    pd.DataFrame(_cells(20 if small else N_SIMULATIONS)).to_csv(folder / TABLE, index=False, float_format="%.3f")


def _cells(n_simulations: int) -> Iterator[dict[str, float]]:
    for n_models, n_tasks, skill in product(MODELS, TASKS, SKILLS):
        random = np.random.default_rng([n_models, n_tasks, int(10 * skill)])
        rates = [_simulate(random, n_models, n_tasks, skill) for _ in range(n_simulations)]
        found = dict(zip(("all", "leader", "check"), np.mean(rates, axis=0), strict=True))
        yield {"models": n_models, "tasks": n_tasks, "skill": skill, **found, "simulations": n_simulations}


def _simulate(random: np.random.Generator, n_models: int, n_tasks: int, skill: float) -> tuple[float, float, float]:
    """Return the share of models, and whether the leader, has a rank as expected; and what the check says of them."""
    values = skill * random.normal(size=(n_models, 1)) + random.normal(size=(n_models, n_tasks + 1))
    values = values[np.argsort(-values[:, :-1].mean(axis=1))]
    ranks = rankdata(-values, axis=0)
    lower, upper = expected_ranks(ranks[:, :-1], EXPECTED).T
    held = (lower <= ranks[:, -1]) & (ranks[:, -1] <= upper)
    return held.mean(), held[0], leave_out_each(values[:, :-1], ranks[:, :-1], EXPECTED).coverage


def new_tasks(folder: Path) -> str:
    """Share of simulations in which the rank on a new task is as expected."""
    found = pd.read_csv(folder / TABLE)
    rows = []
    for (n_models, skill), part in found.groupby(["models", "skill"]):
        cells = [f"{row['all']:.2f} / {row['leader']:.2f} / {row['check']:.2f}" for _, row in part.iterrows()]
        rows.append([n_models, f"{skill:g}", *cells])
    return pages.table(["models", "skill over luck", *(f"{n} tasks" for n in TASKS)], rows)


TABLES = {"leaderboards.md": (new_tasks,)}
