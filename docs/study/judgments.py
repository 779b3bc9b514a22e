"""The coverage and width of prediction-powered intervals: labels by people on some queries, by a machine on all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from scipy.special import stdtrit

import aucpr_dask as ap
from aucpr_dask.demo import data_folder
from aucpr_dask.inference.prediction_powered import powered_means
from aucpr_dask.scores.importing.trec import import_trec
from docs import pages

TABLE = "judgments.csv"
BY_PEOPLE, BY_MACHINE = (20, 50, 100), (200, 1000)
ERRORS = (0.0, 0.05, 0.2, 0.5)  # shares of the items whose label the machine turns round
COLLECTION_ERRORS = (0.01, 0.05, 0.2)  # where 2.3 % of the items are relevant
N_SIMULATIONS, AT_ONCE = 10_000, 2000
LEVEL = 0.95

# The estimates by people's labels of each model (M, Q), and those by the machine's at each rate of errors (E, M, Q, P):
# P labellings of each query by a machine, with new errors in each.
World = tuple[np.ndarray, np.ndarray]


def simulated(random: np.random.Generator, small: bool) -> World:
    """Two binormal models over queries of 100 items whose difficulty and number of positives vary.

    Positives are N(m, 1) and negatives N(0, 1), with m of a query from N(1.3, 0.7), and 0.15 more for the second model.
    Half of the variance is shared by the models, and the share of positives is Beta(2, 14).
    """
    n_queries, n_items = 1000 if small else 40_000, 100
    strength = random.normal(1.3, 0.7, size=(n_queries, 1))
    label = random.random((n_queries, n_items)) < random.beta(2, 14, size=(n_queries, 1))
    label[:, 0] |= ~label.any(axis=1)
    shared, *own = random.normal(size=(3, n_queries, n_items))
    score = np.stack([np.sqrt(0.5) * (shared + noise) for noise in own])
    score += label * (strength + np.array([0.0, 0.15])[:, None, None])
    turned = [label ^ (random.random(label.shape) < error) for error in ERRORS]
    by_machine = np.stack([_areas(score, labels) for labels in turned])
    return _areas(score, label), by_machine[..., None]


def collection(random: np.random.Generator, small: bool) -> World:
    """Evaluate the bundled runs of CLEF 2017 by the judges' labels of all pooled documents, and by a machine's."""
    with data_folder() as data, TemporaryDirectory() as scratch:
        folder = data / "clef-tar-2017-mini"
        import_trec(folder / "runs", folder / "qrels.txt.xz", f"{scratch}/scores.zarr", layout="pooled")
        scores = ap.open_scores(f"{scratch}/scores.zarr").load()
    score, judged = scores["score"].values.astype(float), scores["label"].values
    real, relevant = judged != -2, judged == 1
    score[~np.broadcast_to(real, score.shape)] = np.nan

    def areas(labels: np.ndarray) -> np.ndarray:
        return _areas(score, np.where(real, labels, -2), missing="unretrieved")

    by_machine = [
        [areas(relevant ^ (random.random(relevant.shape) < error)) for _ in range(2 if small else 50)]
        for error in COLLECTION_ERRORS
    ]
    return areas(relevant), np.moveaxis(np.array(by_machine), 1, -1)


def _areas(score: np.ndarray, label: np.ndarray, **options: str) -> np.ndarray:
    return np.asarray(ap.estimate(score, label.astype(np.int8), no_positives="zero", **options))


WORLDS = {"simulated": (simulated, ERRORS), "collection": (collection, COLLECTION_ERRORS)}


def run(folder: Path, *, small: bool) -> None:
    """Draw queries again and again, and compare the intervals with the means over the whole population."""
    rows = []
    for name, (make, errors) in WORLDS.items():
        random = np.random.default_rng([7, len(name)])
        by_people, by_machine = make(random, small)
        for quantity in ("mean", "difference"):
            if quantity == "difference":
                by_people, by_machine = by_people[1:] - by_people[0], by_machine[:, 1:] - by_machine[:, :1]
            for n_machine in BY_MACHINE:
                of_draws = [*_draws(random, by_people, by_machine, n_machine, 40 if small else N_SIMULATIONS)]
                grouped = pd.DataFrame(of_draws).groupby(["error", "n_people"])
                found = grouped.mean().assign(n_simulations=grouped["n_simulations"].sum()).reset_index()
                found["error"] = found["error"].map(dict(enumerate(errors)))
                found["correlation"] = found["error"].map(
                    dict(zip(errors, _correlations(by_people, by_machine), strict=True))
                )
                rows.append(found.assign(world=name, quantity=quantity, n_machine=n_machine))
    table = pd.concat(rows)
    first = ["world", "quantity", "n_machine", "n_people", "error", "correlation"]
    table[[*first, *(name for name in table if name not in first)]].to_csv(
        folder / TABLE, index=False, float_format="%.4g"
    )


def _correlations(by_people: np.ndarray, by_machine: np.ndarray) -> list[float]:
    """Return the correlation over queries between the estimates by people's and by the machine's labels."""

    def correlation(y: np.ndarray, f: np.ndarray) -> float:
        return float(np.corrcoef(np.repeat(y, f.shape[-1]), f.ravel())[0, 1])

    return [float(np.mean(list(map(correlation, by_people, of_error)))) for of_error in by_machine]


def _draws(
    random: np.random.Generator, by_people: np.ndarray, by_machine: np.ndarray, n_machine: int, n_simulations: int
) -> Iterator[dict[str, float]]:
    """Yield coverage and relative width over some simulations at a time, of one model after the other."""
    n_models, n_queries = by_people.shape
    n_labellings = by_machine.shape[-1]
    share = min(AT_ONCE, max(1, n_simulations // n_models))
    for start in range(0, n_simulations, share):
        model = start // share % n_models
        query = random.integers(n_queries, size=(share, n_machine))
        labelling = random.integers(n_labellings, size=query.shape)
        truth = by_people[model].mean()
        for error, estimates in enumerate(by_machine[:, model]):
            f = estimates[query, labelling]
            for n_people in BY_PEOPLE:
                y = by_people[model][query[:, :n_people]]
                powered = powered_means(y, f, np.arange(n_machine) < n_people)
                reach = stdtrit(powered.degrees, 0.5 + LEVEL / 2) * powered.error
                alone = stdtrit(n_people - 1, 0.5 + LEVEL / 2) * powered.error_alone
                yield {
                    "error": error,
                    "n_people": n_people,
                    "n_simulations": share,
                    "coverage_of_people": np.mean(np.abs(y.mean(axis=1) - truth) <= alone),
                    "coverage": np.mean(np.abs(powered.mean - truth) <= reach),
                    "width_ratio": reach.mean() / alone.mean(),
                    "tuning": powered.tuning.mean(),
                }


def _table(folder: Path, world: str) -> str:
    table = pd.read_csv(folder / TABLE)
    table = table[table["world"] == world]
    rows = []
    for (quantity, n_machine, error), part in table.groupby(["quantity", "n_machine", "error"], sort=False):
        first = part.iloc[0]
        if error == table["error"].min():
            cells = [f"{coverage:.3f}" for coverage in part["coverage_of_people"]]
            rows.append([f"{quantity} of people alone", "", "", "", *cells])
        cells = [f"{row.coverage:.3f}, {row.width_ratio:.2f}" for row in part.itertuples()]
        rows.append([quantity, f"{n_machine:,}", f"{100 * error:.0f} %", f"{first.correlation:.2f}", *cells])
    header = ["", "machine's queries", "errors", "correlation", *(f"{n} people's queries" for n in BY_PEOPLE)]
    return pages.table(header, rows)


def judgments_of_simulated_queries(folder: Path) -> str:
    """Coverage and width over simulated queries."""
    return _table(folder, "simulated")


def judgments_of_a_collection(folder: Path) -> str:
    """Coverage and width over the topics of a collection."""
    return _table(folder, "collection")


TABLES = {"judgments.md": (judgments_of_simulated_queries, judgments_of_a_collection)}
