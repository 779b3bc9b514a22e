"""Run other tools on small lists, compare them with our options, and write the tables of ``why-tools-disagree.md``.

``python docs/conformance.py`` needs every peer; ``--print`` prints what those that are installed say.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pages

import aucpr_dask as ap

PAGE = pages.HERE / "why-tools-disagree.md"
EXACT, FLOAT32 = 1e-12, 1e-6


@dataclass(frozen=True)
class Ranking:
    """Scores and labels of one list; NaN is a document that was not retrieved, weights are optional."""

    name: str
    score: np.ndarray
    label: np.ndarray
    weight: np.ndarray | None = None

    @property
    def retrieved(self) -> tuple[np.ndarray, np.ndarray]:
        """Scores and labels of the items that have a score."""
        found = ~np.isnan(self.score)
        return self.score[found], self.label[found]

    @property
    def documents(self) -> list[str]:
        """Names of the items, whose order is not that of the list."""
        return [f"d{(3 * i + 1) % 10}" for i in range(len(self.score))]


def ranking(name: str, score: str, label: str, weight: str | None = None) -> Ranking:
    """Return a list from its numbers as text."""
    weights = None if weight is None else np.array(weight.split(), float)
    return Ranking(name, np.array(score.split(), float), np.array(list(label), int), weights)


RANKINGS = [
    ranking("no ties", "0.95 0.9 0.8 0.7 0.6 0.5 0.4 0.3 0.2 0.1", "1011001000"),
    ranking("tied top", "0.9 0.9 0.9 0.9 0.6 0.5 0.4 0.3 0.2 0.1", "0100010010"),
    ranking("three values", "0.9 0.9 0.9 0.6 0.6 0.6 0.6 0.3 0.3 0.3", "1100100100"),
    ranking("all tied", "0.5 " * 10, "0100001000"),
    ranking("closer than float32", "0.700000003 0.700000002 0.700000001 0.7 0.6 0.5 0.4 0.3 0.2 0.1", "0110010010"),
    ranking("scores 20 to 29", "29 28 27 26 25 24 23 22 21 20", "1011001000"),
    ranking("2 positives not retrieved", "0.95 0.9 0.8 0.7 0.6 0.5 0.4 0.3 nan nan", "1011000011"),
    ranking("weights", "0.95 0.9 0.9 0.7 0.6 0.5 0.4 0.3 0.2 0.1", "1011001000", "1 2.5 0.5 2 1 0 3 1 0.25 4"),
]


def ours(r: Ranking, estimator: str = "average_precision", kind: type = np.float64, **options: Any) -> float:
    """Return our value for a list, with scores of a precision."""
    if np.isnan(r.score).any():
        options = {"missing": "drop"} | options
    return float(ap.estimate(r.score.astype(kind), r.label, estimator, weight=r.weight, **options))


def trec(r: Ranking, kind: type, order: np.ndarray | None = None) -> float:
    """Return our value by trec_eval's rules, with ties by descending name unless an order is given."""
    if order is None:
        order = np.argsort(np.argsort(r.documents)[::-1])
    return ours(r, kind=kind, ties="trec_eval", missing="unretrieved", tie_order=order)


def torch_sees(r: Ranking, thresholds: int | None = None) -> Ranking:
    """Return the list as torchmetrics sees it: float32, squashed if a score leaves [0, 1], rounded down to a grid."""
    score = r.score.astype(np.float32)
    if np.nanmax(score) > 1 or np.nanmin(score) < 0:
        score = 1 / (1 + np.exp(-score))
    if thresholds is not None:
        grid = np.linspace(0, 1, thresholds, dtype=np.float32)
        score = np.array([math.nan if math.isnan(s) else grid[grid <= s][-1] for s in score])
    return Ranking(r.name, score, r.label)


def sklearn_ap(r: Ranking) -> float:
    """Run scikit-learn's average precision."""
    from sklearn.metrics import average_precision_score

    score, label = r.retrieved
    return float(average_precision_score(label, score, sample_weight=r.weight))


def sklearn_trapezoid(r: Ranking) -> float:
    """Run the trapezoid over scikit-learn's curve."""
    from sklearn.metrics import auc, precision_recall_curve

    score, label = r.retrieved
    precision, recall, _ = precision_recall_curve(label, score, sample_weight=r.weight)
    return float(auc(recall, precision))


def torch_ap(r: Ranking, thresholds: int | None = None) -> float:
    """Run torchmetrics' average precision."""
    import torch
    from torchmetrics.functional.classification import binary_average_precision

    score, label = r.retrieved
    scores = torch.tensor(score, dtype=torch.float32)
    return float(binary_average_precision(scores, torch.tensor(label), thresholds=thresholds))


def dictionaries(r: Ranking) -> tuple[dict[str, float], dict[str, int]]:
    """Return the run and the judgments of a list, by document."""
    run = {name: float(s) for name, s in zip(r.documents, r.score, strict=True) if not math.isnan(s)}
    return run, dict(zip(r.documents, r.label.tolist(), strict=True))


def pytrec_map(r: Ranking) -> float:
    """Run pytrec_eval's average precision of one topic."""
    import pytrec_eval

    run, judged = dictionaries(r)
    return float(pytrec_eval.RelevanceEvaluator({"q": judged}, {"map"}).evaluate({"q": run})["q"]["map"])


def ranx_map(r: Ranking) -> float:
    """Run ranx's average precision of one topic."""
    import ranx

    run, judged = dictionaries(r)
    positives = {document: 1 for document, grade in judged.items() if grade}
    return float(ranx.evaluate(ranx.Qrels({"q": positives}), ranx.Run({"q": run}), "map"))


def xgboost_aucpr(r: Ranking) -> float:
    """Run XGBoost's metric on the scores as margins."""
    import xgboost

    score, label = r.retrieved
    matrix = xgboost.DMatrix(np.zeros((score.size, 1)), label=label, weight=r.weight, base_margin=score)
    booster = xgboost.Booster({"objective": "binary:logitraw", "eval_metric": "aucpr", "verbosity": 0}, [matrix])
    return float(booster.eval(matrix).rpartition(":")[2])


@dataclass(frozen=True)
class Peer:
    """Another tool's number, and ours that it should equal."""

    package: str
    module: str
    name: str
    run: Callable[[Ranking], float]
    equals: str
    expected: Callable[[Ranking], float]

    @property
    def installed(self) -> bool:
        """Whether it can run."""
        return importlib.util.find_spec(self.module) is not None

    def row(self) -> Iterator[str]:
        """Yield its name and option, and the number of each list with a verdict."""
        named = importlib.metadata.packages_distributions()[self.module]
        yield from (f"{self.package} {importlib.metadata.version(named[0])}", self.name, self.equals)
        for r in RANKINGS:
            if r.weight is not None and self.run not in WITH_WEIGHTS:
                yield "-"
                continue
            value = self.run(r)
            difference = abs(value - self.expected(r))
            verdict = "=" if difference <= EXACT else "(=)" if difference <= FLOAT32 else f"({difference:.5f})"
            yield f"{value:.5f} {verdict}"


AP, SK, TM = "`average_precision`", "scikit-learn", "torchmetrics"
TREC = f'{AP}, `ties="trec_eval"`, `missing="unretrieved"`'
PEERS = [
    Peer(SK, "sklearn", "`average_precision_score`", sklearn_ap, AP, ours),
    Peer(SK, "sklearn", "trapezoid", sklearn_trapezoid, "`lower_trapezoid`", lambda r: ours(r, "lower_trapezoid")),
    Peer(TM, TM, "`binary_average_precision`", torch_ap, AP, lambda r: ours(torch_sees(r), kind=np.float32)),
    Peer(TM, TM, "the same, `thresholds=5`", lambda r: torch_ap(r, 5), AP, lambda r: ours(torch_sees(r, 5))),
    Peer("pytrec_eval-terrier", "pytrec_eval", "`map`", pytrec_map, TREC, lambda r: trec(r, np.float32)),
    Peer("ranx", "ranx", "`map`", ranx_map, TREC, lambda r: trec(r, np.float64, np.arange(len(r.score)))),
    Peer("xgboost", "xgboost", "`aucpr`", xgboost_aucpr, "`continuous`", lambda r: ours(r, "continuous", np.float32)),
]
WITH_WEIGHTS = (sklearn_ap, sklearn_trapezoid, xgboost_aucpr)


def our_rows() -> Iterator[list[str]]:
    """Yield our values of the lists; a dash where an option has no meaning, as with some weights."""
    options: dict[str, Callable[[Ranking], float]] = {
        AP: ours,
        f'{AP}, `ties="expectation"`': lambda r: ours(r, ties="expectation"),
        f"{AP} by trec_eval's rules, float64": lambda r: trec(r, np.float64),
        f"{AP} by trec_eval's rules, float32": lambda r: trec(r, np.float32),
    }
    for name in ("lower_trapezoid", "upper_trapezoid", "continuous", "discrete", "interpolated_max"):
        options[f"`{name}`"] = lambda r, name=name: ours(r, name)
    for name, value in options.items():
        cells = []
        for r in RANKINGS:
            try:
                cells.append(f"{value(r):.5f}")
            except ap.errors.InvalidInputError:
                cells.append("-")
        yield [name, *cells]


def drawn(r: Ranking) -> str:
    """Return the labels of a list, with its tie groups in parentheses."""
    score, label = r.retrieved
    groups = ["".join(map(str, label[score == value])) for value in sorted(set(score.tolist()), reverse=True)]
    text = " ".join(f"({group})" if len(group) > 1 else group for group in groups)
    missing = len(r.score) - score.size
    text += f"; {missing} positives without a score" if missing else ""
    return text + (f"; weights {', '.join(f'{w:g}' for w in r.weight)}" if r.weight is not None else "")


def main() -> None:
    """Print or write the tables."""
    names = [r.name for r in RANKINGS]
    tables = {
        "lists": pages.table(["list", "labels"], [[r.name, drawn(r)] for r in RANKINGS]),
        "ours": pages.table(["ours", *names], our_rows()),
        "peers": pages.table(
            ["tool", "number", "our option", *names], [[*peer.row()] for peer in PEERS if peer.installed]
        ),
    }
    if "--print" in sys.argv:
        print(json.dumps(tables))
        return
    absent = sorted({peer.package for peer in PEERS if not peer.installed})
    if absent:
        sys.exit(f"not installed, so the page is left unchanged: {', '.join(absent)}")
    for name, text in tables.items():
        pages.write_block(PAGE, name, text)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # a peer's own
    main()
