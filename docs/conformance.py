"""Run every peer that is installed on small telling data sets, and print which of our options each one equals.

``python docs/conformance.py`` writes the tables into ``why-tools-disagree.md``; with ``--print`` it prints the
matrix and the errata instead. The published results of the R packages and of trec_eval are read from the reference
cases in ``../shared/oracles`` beside the repository; where these are absent, that table stays as it is.
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
from functools import cache
from typing import Any

import numpy as np
import pages
import xarray as xr

import aucpr_dask as ap

PAGE = pages.HERE / "why-tools-disagree.md"
ORACLES = pages.HERE.parents[1] / "shared" / "oracles"
EXACT, FLOAT32 = 1e-12, 1e-6


@dataclass(frozen=True)
class Ranking:
    """Scores and labels of one list; NaN is a document that was not retrieved, weights are optional."""

    name: str
    score: tuple[float, ...]
    label: tuple[int, ...]
    weight: tuple[float, ...] | None = None

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Scores and labels as arrays."""
        return np.array(self.score), np.array(self.label)

    @property
    def retrieved(self) -> tuple[np.ndarray, np.ndarray]:
        """Scores and labels of the items that have a score."""
        score, label = self.arrays
        return score[~np.isnan(score)], label[~np.isnan(score)]

    @property
    def documents(self) -> list[str]:
        """Names of the items, in an order of their bytes that is not that of the list."""
        return [f"d{(3 * i + 1) % 10}" for i in range(len(self.score))]


RANKINGS = [
    Ranking("no ties", (0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1), (1, 0, 1, 1, 0, 0, 1, 0, 0, 0)),
    Ranking("tied top", (0.9, 0.9, 0.9, 0.9, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1), (0, 1, 0, 0, 0, 1, 0, 0, 1, 0)),
    Ranking("three values", (0.9, 0.9, 0.9, 0.6, 0.6, 0.6, 0.6, 0.3, 0.3, 0.3), (1, 1, 0, 0, 1, 0, 0, 1, 0, 0)),
    Ranking("all tied", (0.5,) * 10, (0, 1, 0, 0, 0, 0, 1, 0, 0, 0)),
    Ranking(
        "closer than float32",
        (0.7 + 3e-9, 0.7 + 2e-9, 0.7 + 1e-9, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1),
        (0, 1, 1, 0, 0, 1, 0, 0, 1, 0),
    ),
    Ranking("scores 20 to 29", (29, 28, 27, 26, 25, 24, 23, 22, 21, 20), (1, 0, 1, 1, 0, 0, 1, 0, 0, 0)),
    Ranking(
        "2 positives not retrieved",
        (0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, math.nan, math.nan),
        (1, 0, 1, 1, 0, 0, 0, 0, 1, 1),
    ),
    Ranking(
        "weights",
        (0.95, 0.9, 0.9, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1),
        (1, 0, 1, 1, 0, 0, 1, 0, 0, 0),
        (1.0, 2.5, 0.5, 2.0, 1.0, 0.0, 3.0, 1.0, 0.25, 4.0),
    ),
]


def ours(ranking: Ranking, estimator: str = "average_precision", kind: type = np.float64, **options: Any) -> float:
    """Return our own value for a list, with the scores in a precision."""
    score, label = ranking.arrays
    if np.isnan(score).any():
        options = {"missing": "drop"} | options
    if ranking.weight is not None:
        options["weight"] = np.array(ranking.weight)
    return float(ap.estimate(score.astype(kind), label, estimator, **options))


def by_document(ranking: Ranking) -> np.ndarray:
    """Return the rank of each document by descending name, as trec_eval breaks ties."""
    order = sorted(range(len(ranking.score)), key=ranking.documents.__getitem__, reverse=True)
    return np.argsort(order)


def trec(ranking: Ranking, kind: type) -> float:
    """Return our value by trec_eval's rules."""
    return ours(ranking, kind=kind, ties="trec_eval", missing="unretrieved", tie_order=by_document(ranking))


def in_given_order(ranking: Ranking) -> float:
    """Return our value with ties in the order of the list."""
    order = np.arange(len(ranking.score))
    return ours(ranking, ties="trec_eval", missing="unretrieved", tie_order=order)


def squashed(ranking: Ranking) -> Ranking:
    """Return the list as torchmetrics sees it: float32, and through the sigmoid if a score leaves [0, 1]."""
    score = np.array(ranking.score, dtype=np.float32)
    if np.nanmax(score) > 1 or np.nanmin(score) < 0:
        score = 1 / (1 + np.exp(-score))
    return Ranking(ranking.name, tuple(score.tolist()), ranking.label)


def binned(ranking: Ranking, thresholds: int = 5) -> float:
    """Return our average precision of the scores rounded down to the thresholds of a grid."""
    seen = squashed(ranking)
    grid = np.linspace(0, 1, thresholds, dtype=np.float32)
    floors = np.array([math.nan if math.isnan(s) else grid[grid <= np.float32(s)][-1] for s in seen.score])
    return ours(Ranking(seen.name, tuple(floors.tolist()), seen.label))


def sklearn_ap(ranking: Ranking) -> float:
    """Run scikit-learn's average precision."""
    from sklearn.metrics import average_precision_score

    score, label = ranking.retrieved
    return float(average_precision_score(label, score, sample_weight=ranking.weight))


def sklearn_trapezoid(ranking: Ranking) -> float:
    """Run the trapezoid over scikit-learn's curve."""
    from sklearn.metrics import auc, precision_recall_curve

    score, label = ranking.retrieved
    precision, recall, _ = precision_recall_curve(label, score, sample_weight=ranking.weight)
    return float(auc(recall, precision))


def torch_ap(ranking: Ranking, thresholds: int | None = None) -> float:
    """Run torchmetrics' average precision."""
    import torch
    from torchmetrics.functional.classification import binary_average_precision

    score, label = ranking.retrieved
    value = binary_average_precision(
        torch.tensor(score, dtype=torch.float32), torch.tensor(label), thresholds=thresholds
    )
    return float(value)


def pytrec_map(ranking: Ranking) -> float:
    """Run pytrec_eval's average precision of one topic."""
    import pytrec_eval

    run, judged = trec_dictionaries(ranking)
    return float(pytrec_eval.RelevanceEvaluator({"q": judged}, {"map"}).evaluate({"q": run})["q"]["map"])


def ranx_map(ranking: Ranking) -> float:
    """Run ranx's average precision of one topic."""
    import ranx

    run, judged = trec_dictionaries(ranking)
    positives = {document: 1 for document, grade in judged.items() if grade}
    return float(ranx.evaluate(ranx.Qrels({"q": positives}), ranx.Run({"q": run}), "map"))


def trec_dictionaries(ranking: Ranking) -> tuple[dict[str, float], dict[str, int]]:
    """Return the run and the judgments of a list, by document."""
    pairs = list(zip(ranking.documents, ranking.score, strict=True))
    run = {document: float(score) for document, score in pairs if not math.isnan(score)}
    return run, dict(zip(ranking.documents, ranking.label, strict=True))


def xgboost_aucpr(ranking: Ranking) -> float:
    """Run XGBoost's metric on the scores as margins."""
    import xgboost

    score, label = ranking.retrieved
    matrix = xgboost.DMatrix(np.zeros((score.size, 1)), label=label, weight=ranking.weight, base_margin=score)
    booster = xgboost.Booster({"objective": "binary:logitraw", "eval_metric": "aucpr", "verbosity": 0}, [matrix])
    return float(booster.eval(matrix).rpartition(":")[2])


@dataclass(frozen=True)
class Peer:
    """Another tool's number, and ours that it should equal."""

    name: str
    modules: tuple[str, ...]
    package: tuple[str, ...]
    run: Callable[[Ranking], float]
    equals: str
    expected: Callable[[Ranking], float]
    weights: bool = False

    @property
    def version(self) -> str | None:
        """The installed version, None if there is none."""
        if all(importlib.util.find_spec(module) is None for module in self.modules):
            return None
        for package in self.package:
            try:
                return importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                continue
        return None


PEERS = [
    Peer(
        "`average_precision_score`",
        ("sklearn",),
        ("scikit-learn",),
        sklearn_ap,
        "`average_precision`",
        ours,
        weights=True,
    ),
    Peer(
        "`auc` of `precision_recall_curve`",
        ("sklearn",),
        ("scikit-learn",),
        sklearn_trapezoid,
        "`lower_trapezoid`",
        lambda ranking: ours(ranking, "lower_trapezoid"),
        weights=True,
    ),
    Peer(
        "`binary_average_precision`",
        ("torchmetrics",),
        ("torchmetrics",),
        torch_ap,
        "`average_precision` of float32 scores, after a sigmoid if any leaves [0, 1]",
        lambda ranking: ours(squashed(ranking), kind=np.float32),
    ),
    Peer(
        "`binary_average_precision(thresholds=5)`",
        ("torchmetrics",),
        ("torchmetrics",),
        lambda ranking: torch_ap(ranking, 5),
        "`average_precision` of scores rounded down to the 5 thresholds",
        binned,
    ),
    Peer(
        "`map`",
        ("pytrec_eval",),
        ("pytrec_eval-terrier", "pytrec_eval"),
        pytrec_map,
        '`average_precision`, `ties="trec_eval"`, `missing="unretrieved"`, float32 scores',
        lambda ranking: trec(ranking, np.float32),
    ),
    Peer(
        "`map`",
        ("ranx",),
        ("ranx",),
        ranx_map,
        '`average_precision`, `ties="trec_eval"` with `tie_order` that of the input, `missing="unretrieved"`',
        in_given_order,
    ),
    Peer(
        "`aucpr`",
        ("xgboost",),
        ("xgboost", "xgboost-cpu"),
        xgboost_aucpr,
        "`continuous` of float32 scores",
        lambda ranking: ours(ranking, "continuous", np.float32),
        weights=True,
    ),
]


def our_rows() -> Iterator[list[str]]:
    """Yield what our own estimators and options say of the small data sets."""
    options: dict[str, Callable[[Ranking], float]] = {
        "`average_precision`": ours,
        '`average_precision`, `ties="expectation"`': lambda r: ours(r, ties="expectation"),
        "`average_precision` by trec_eval's rules, float64": lambda r: trec(r, np.float64),
        "`average_precision` by trec_eval's rules, float32": lambda r: trec(r, np.float32),
        **{
            f"`{name}`": lambda r, name=name: ours(r, name)
            for name in ("lower_trapezoid", "upper_trapezoid", "continuous", "discrete", "interpolated_max")
        },
    }
    for name, value in options.items():
        yield [name, *(value_or_dash(value, ranking) for ranking in RANKINGS)]


def value_or_dash(value: Callable[[Ranking], float], ranking: Ranking) -> str:
    """Return a value in five digits, or a dash where the option has no meaning, as with some weights."""
    try:
        return f"{value(ranking):.5f}"
    except ap.errors.InvalidInputError:
        return "-"


def peer_rows() -> Iterator[list[str]]:
    """Yield one row for every peer that is installed."""
    for peer in PEERS:
        if peer.version is not None:
            cells = [cell(peer, ranking) for ranking in RANKINGS]
            yield [f"{peer.package[0]} {peer.version}", peer.name, peer.equals, *cells]


def cell(peer: Peer, ranking: Ranking) -> str:
    """Return a peer's value and how it compares with ours."""
    if ranking.weight is not None and not peer.weights:
        return "-"
    value = peer.run(ranking)
    return f"{value:.5f} {verdict(value - peer.expected(ranking))}"


def verdict(difference: float) -> str:
    """Say how far a number is from ours."""
    if abs(difference) <= EXACT:
        return "="
    return "(=)" if abs(difference) <= FLOAT32 else f"({difference:+.5f})"


@cache
def oracle(name: str) -> Any:
    """Return the reference cases of one file."""
    content = json.loads((ORACLES / f"{name}.json").read_text())
    return content.get("cases", content.get("datasets"))


def arrays_of(case: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores and labels of a reference case."""
    data = oracle("datasets")[case["dataset"]]
    return np.array([float(x) for x in data["scores"]]), np.array(data["labels"], dtype=np.int8)


def raucpr_value(name: str) -> Callable[[dict[str, Any]], Any]:
    """Return how to find an estimator's area in a case of raucpr."""
    return lambda case: case["estimators"][name].get("area")


def prroc_value(name: str) -> Callable[[dict[str, Any]], Any]:
    """Return how to find an area in a case of PRROC."""
    return lambda case: case["pr_two_sample"].get(name)


PUBLISHED: list[tuple[str, str, str, Callable[[dict[str, Any]], Any], str]] = [
    ("raucpr a18099e", name, "raucpr", raucpr_value(name), equal)
    for name, equal in (
        ("ap", "average_precision"),
        ("lowertrap", "lower_trapezoid"),
        ("uppertrap", "upper_trapezoid"),
        ("interpolate_max", "interpolated_max"),
        ("interpolate_mean", "interpolated_mean"),
        ("interpolate_median", "interpolated_median"),
        ("interpolate_convex", "interpolated_convex"),
        ("binormal", "binormal"),
    )
] + [
    ("PRROC 1.4", "auc.integral", "prroc_hard", prroc_value("auc_integral"), "continuous"),
    (
        "PRROC 1.4",
        "auc.davis.goadrich",
        "prroc_hard",
        prroc_value("auc_davis_goadrich"),
        "discrete",
    ),
    ("precrec 0.14.4", "PRC, 1,000 bins", "precrec", lambda c: c["x_bins_1000"].get("prc"), "continuous"),
    ("precrec 0.14.4", "PRC, 10,000 bins", "precrec", lambda c: c["x_bins_10000"].get("prc"), "continuous"),
    # the same, against what one might take it for
    ("raucpr a18099e", "interpolate_max", "raucpr", raucpr_value("interpolate_max"), "continuous"),
    (
        "PRROC 1.4",
        "auc.davis.goadrich",
        "prroc_hard",
        prroc_value("auc_davis_goadrich"),
        "lower_trapezoid",
    ),
    ("PRROC 1.4", "auc.integral", "prroc_hard", prroc_value("auc_integral"), "average_precision"),
]


def published_rows() -> Iterator[list[str]]:
    """Yield one row for each published number of the R packages, and for trec_eval."""
    for source, name, file, read, estimator in PUBLISHED:
        differences = {}
        for case in oracle(file):
            score, label = arrays_of(case)
            value = read(case)
            if value is None or np.isnan(score).any():
                continue
            area = float(ap.estimate(score, label, estimator))
            if not math.isnan(area):
                differences[case["dataset"]] = abs(area - float(value))
        yield [source, f"`{name}`", f"`{estimator}`", *counted(differences)]
    for version, kind in (("9.0.8", np.float32), ("10.0", np.float64)):
        for options, said in (
            ({"ties": "trec_eval"}, 'average_precision`, `ties="trec_eval"`, `missing="unretrieved'),
            ({}, 'average_precision`, `missing="unretrieved'),
        ):
            differences = dict(trec_differences(f"v{version}", kind, options))
            numbers = "float32" if kind is np.float32 else "float64"
            yield [f"trec_eval {version}", "`map`", f'`{said}"`, {numbers}', *counted(differences)]


def trec_differences(version: str, kind: type, options: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield how far trec_eval's average precision of each case is from ours."""
    for case in oracle("trec_eval"):
        if "dataset" in case:
            score, label = arrays_of(case)
            names, unseen = [f"d{i:04d}" for i in range(score.size)], 0
            if case["retrieved_items"] is not None:
                score = np.where(np.isin(np.arange(score.size), case["retrieved_items"]), score, np.nan)
        else:
            score, label = np.array([float(x) for x in case["sim"]]), np.array(case["rel"])
            names, unseen = case["docno"], case["relevant_not_retrieved"]
        level = case["relevance_level"]
        with np.errstate(over="ignore"):
            labelled = xr.DataArray(score.astype(kind), dims="item", coords={"item": names})
        area = ap.estimate(
            labelled,
            xr.DataArray(label, dims="item"),
            n_positive=int((label >= level).sum()) + unseen,
            missing="unretrieved",
            positive_from=level,
            **options,
        ).item()
        if not math.isnan(area):
            yield case["id"], abs(area - case["expected"][version]["map"])


def counted(differences: dict[str, float]) -> list[str]:
    """Return how many cases there are, how many are equal, and the worst."""
    worst = max(differences, key=differences.__getitem__)
    exact = sum(difference <= EXACT for difference in differences.values())
    close = sum(difference <= FLOAT32 for difference in differences.values())
    largest = "below 1e-12" if exact == len(differences) else f"{differences[worst]:.1g} (`{worst.rpartition('/')[2]}`)"
    return [str(len(differences)), str(exact), str(close), largest]


def matrix(rows: list[list[str]]) -> str:
    """Return the tables of our values and of the peers'."""
    names = [ranking.name for ranking in RANKINGS]
    return "\n\n".join(
        [
            "The data sets, from the highest score down (1 positive, 0 negative; ties in parentheses):",
            pages.table(["data set", "list"], [[r.name, drawn(r)] for r in RANKINGS]),
            "What our own options say of them:",
            pages.table(["ours", *names], our_rows()),
            "What the peers say, and how it compares with the option named: `=` equal to 1e-12, `(=)` to 1e-6 (single "
            "precision), else the difference.",
            pages.table(["peer", "number", "ours that it should equal", *names], rows),
        ]
    )


def drawn(ranking: Ranking) -> str:
    """Return the labels of a list, with its ties."""
    score, label = ranking.retrieved
    groups = [label[score == value] for value in sorted(set(score.tolist()), reverse=True)]
    parts = ["".join(map(str, group)) for group in groups]
    text = " ".join(f"({part})" if len(part) > 1 else part for part in parts)
    missing = len(ranking.score) - score.size
    text += f"; {missing} positives without a score" if missing else ""
    return text + (f"; weights {', '.join(f'{w:g}' for w in ranking.weight)}" if ranking.weight else "")


def published() -> str:
    """Return the table of the published numbers."""
    header = ["source", "number", "ours", "cases", "equal to 1e-12", "to 1e-6", "largest difference"]
    return pages.table(header, published_rows())


def blocks_of(*groups: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return scores and labels of tie blocks (positives, negatives), the highest first."""
    score = np.concatenate([np.full(tp + fp, -float(k)) for k, (tp, fp) in enumerate(groups)])
    label = np.concatenate([np.repeat([1, 0], [tp, fp]) for tp, fp in groups])
    return score, label


def errata() -> str:
    """Return the papers' printed numbers beside ours."""
    score, label = RANKINGS[0].arrays
    whole = ap.estimate(score, label, "lower_trapezoid")
    precision, recall = (
        ap.curve(xr.DataArray(score, dims="item"), xr.DataArray(label, dims="item"))[name].values
        for name in ("precision", "recall")
    )
    first = recall[recall > 0][0]
    strip = (precision[recall == 0].min() + precision[recall == first].max()) / 2 * first
    a, b = 6.0, -20 * 0.05  # precision = r / (a r + b) through (0.25, 0.5) and (0.5, 0.25)
    printed = [(b * r - a * math.log(a + b * r)) / b**2 for r in (0.25, 0.5)]
    right = [(a * r - b * math.log(a * r + b)) / a**2 for r in (0.25, 0.5)]
    segment = ap.estimate(*blocks_of((5, 5), (5, 25), (10, 1970)), "continuous", recall_range=(0.25, 0.5))
    point = blocks_of((9, 0), (424, 56164))
    discrete, continuous, linear = ap.estimate(*point, ["discrete", "continuous", "upper_trapezoid"])
    roc, curve_one = ap.estimate(*blocks_of((10, 0), (10, 1500), (0, 500)), ["roc_area", "continuous"])
    roc_two, curve_two = ap.estimate(*blocks_of((20, 500), (0, 1500)), ["roc_area", "continuous"])
    tied = ap.estimate(np.zeros(10), np.array([1] + [0] * 9), ["lower_trapezoid", "average_precision"])
    perfect = ap.estimate(*blocks_of(*[(1, 0)] * 5, *[(0, 1)] * 15), ["interpolated_mean", "interpolated_median"])
    rows = [
        [
            "Boyd, Eng & Page, Eq. (3): the trapezoids begin at i = 1, which drops the strip from recall 0 to r_1",
            f"`no ties` above: {whole - strip:.5f}",
            f"{whole:.5f}, from i = 0, as in their R code",
        ],
        [
            "the same, Eq. (9): TP counts items with score > threshold, which makes a top positive 0/0",
            "0/0",
            "score >= threshold, as in their R code",
        ],
        [
            "the same, after Theorem 1: the antiderivative of r/(a r + b) as (b r - a log(a + b r))/b^2, with a and b "
            "exchanged",
            f"from (0.25, 0.5) to (0.5, 0.25): {printed[1] - printed[0]:.4f}",
            f"(a r - b log(a r + b))/a^2: {right[1] - right[0]:.5f}; `continuous` over this range: {segment:.5f}",
        ],
        [
            "the same, Eq. (10): mu_- and mu_+ are exchanged, and standard deviations are called variances",
            f"mu = 1, sd = 1, pi = 0.1: {ap.simulate.binormal(mu=-1.0).area(0.1):.4f}",
            f"{ap.simulate.binormal(mu=1.0).area(0.1):.5f}",
        ],
        [
            "their R code: the binormal estimate of scores without spread",
            "1, without a warning",
            f"{ap.estimate(np.zeros(10), np.array([1, 1, 1] + [0] * 7), 'binormal')}: there is none",
        ],
        [
            "Davis & Goadrich, one point at recall 0.02 of 433 positives and 56,164 negatives "
            "(0.02 x 433 = 8.66 is no whole number: 9 here)",
            "0.031 interpolated, 0.50 by straight lines",
            f"{discrete:.4f} `discrete`, {continuous:.4f} `continuous`; {linear:.3f} by straight lines",
        ],
        [
            "the same, Fig. 7, curve I (the paper gives no points; 10 positives, a tie of 10 + 1500, 500 negatives)",
            "ROC area 0.813, PR area 0.514",
            f"ROC area {roc:.4f}, `continuous` {curve_one:.4f}: not reproduced",
        ],
        [
            "the same, curve II (a tie of 20 + 500, then 1500 negatives)",
            "ROC area 0.875, PR area 0.038",
            f"ROC area {roc_two:.4f}, `continuous` {curve_two:.4f}",
        ],
        [
            "PRROC (Keilwagen, Grosse & Grau): the maximum and minimum rank by w_fg, which is right only "
            "where w_fg + w_bg is constant",
            *by_weight_alone(),
        ],
    ]
    return "\n\n".join(
        [
            pages.table(["where", "printed", "right"], rows),
            f"Not errors, but surprising. All tied at one positive of ten: `lower_trapezoid` {tied[0]:.4f}, "
            f"`average_precision` {tied[1]:.4f}. A perfect ranking of 5 positives and 15 negatives: "
            f"`interpolated_mean` {perfect[0]:.4f}, `interpolated_median` {perfect[1]:.4f}.",
        ]
    )


def by_weight_alone() -> tuple[str, str]:
    """Return the attainable extremes of three weighted items, ranked by w_fg and by the ratio of the weights."""
    positive, negative = np.array([1.0, 5.0, 1.0]), np.array([4.0, 5.0, 0.1])
    given = {"positive_weight": positive, "negative_weight": negative}
    least, most = (ap.estimate(sign * positive, None, "continuous", **given) for sign in (-1, 1))
    levels = ap.reference_levels(
        None, "continuous", **{name: xr.DataArray(weight, dims="item") for name, weight in given.items()}
    )
    pairs = "pairs (1, 4), (5, 5), (1, 0.1)"
    return (
        f"{pairs}, by w_fg: maximum {most:.5f}, minimum {least:.5f}",
        f"by w_fg/(w_fg + w_bg): maximum {levels['maximum'].item():.5f}, minimum {levels['minimum'].item():.5f}",
    )


def dominance() -> str:
    """Return the example of a ranking that dominates another and has the smaller average precision."""
    label = xr.DataArray([1, 1, 1, 0, 0, 1, 0, 0, 1, 0], dims="item")
    scores = [range(10), [0, 2, 2, 3, 5, 4, 6, 7, 8, 9]]
    first, second = (xr.DataArray(np.array(score, dtype=float), dims="item") for score in scores)
    names = ["average_precision", "continuous", "discrete", "lower_trapezoid", "interpolated_max", "roc_area"]
    values = [ap.estimate(score, label, names).values for score in (first, second)]
    curves = [ap.curve(score, label) for score in (first, second)]
    answers = {space: ap.dominates(*curves, space=space) for space in ("roc", "precision_recall")}
    return "\n\n".join(
        [
            f"Labels `{label.values.tolist()}`, scores `{list(scores[0])}` (first) and `{scores[1]}` (second). "
            + "; ".join(f'`ap.dominates(..., space="{space}")` is `"{answer}"`' for space, answer in answers.items())
            + ".",
            pages.table(
                ["scores", *(f"`{name}`" for name in names)],
                [[which, *(f"{x:.5f}" for x in row)] for which, row in zip(("first", "second"), values, strict=True)],
            ),
        ]
    )


def main() -> None:
    """Print or write the tables."""
    rows = list(peer_rows())
    parts = {"conformance": matrix(rows), "dominance": dominance(), "errata": errata()}
    if ORACLES.is_dir():
        parts["published"] = published()
    if "--print" in sys.argv:
        print(json.dumps(parts | {"peers": [pages.table(row, []).splitlines()[0] for row in rows]}))
        return
    absent = sorted({peer.package[0] for peer in PEERS if peer.version is None})
    if absent:
        sys.exit(f"not installed, so the page is left as it is: {', '.join(absent)}")
    for name, text in parts.items():
        pages.write_block(PAGE, name, text)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # a peer's own
    main()
