"""Calls with hostile arguments: each must end in one of the package's errors, or in a result without a warning."""

from __future__ import annotations

import datetime
import decimal
import fractions
import math
import pathlib
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dask.array as da
import matplotlib as mpl
import numpy as np
import pandas as pd
import xarray as xr

import aucpr_dask as ap
from aucpr_dask.errors import AucprError, FewPositivesWarning
from aucpr_dask.simulate import bibeta, binormal, offset_uniform

SECONDS = 20  # for one call
PARTS = ("\n  where: ", "\n  received: ", "\n  allowed: ", "\n  remedy: ")

RNG = np.random.default_rng(8)
SCORE = RNG.normal(size=(3, 40))
LABEL = np.tile([1, 0, 0, 0, 1, 0, 0, 0], 5).astype("int8")
DATA = xr.Dataset(
    {"score": (("model", "item"), SCORE), "label": ("item", LABEL)}, coords={"model": ["a", "b", "c"]}
).assign_coords(item=np.arange(40))
QUERIES = xr.Dataset(
    {
        "score": (("model", "query", "item"), RNG.normal(size=(3, 6, 20))),
        "label": (("query", "item"), [LABEL[:20]] * 6),
    },
    coords={"model": ["a", "b", "c"], "query": [f"q{n}" for n in range(6)]},
)
RESULT = ap.evaluate(QUERIES, intervals=["bootstrap"], n_resamples=20, keep_replicates=True)
FRAME = pd.DataFrame({"label": LABEL, "first": SCORE[0], "second": SCORE[1], "name": [f"i{n}" for n in range(40)]})
CURVE = ap.curve(DATA["score"], DATA["label"])
LEVELS = ap.reference_levels(DATA["label"])
AREA = ap.estimate(DATA["score"], DATA["label"])


class Odd:
    """An object that is nothing in particular."""

    def __repr__(self) -> str:
        return "Odd()"


ANYTHING: list[Any] = [
    *(
        None,
        Odd(),
        lambda x: x,
        Odd,
        b"bytes",
        bytearray(b"x"),
        {1, 2},
        {},
        {"a": 1},
        frozenset(),
        (),
        [],
        [[]],
        [[1], [2, 3]],
    ),
    *(
        1j,
        np.complex64(1),
        math.nan,
        math.inf,
        -math.inf,
        -0.0,
        0,
        1,
        -1,
        2,
        0.5,
        1.5,
        10**20,
        -(10**20),
        10**400,
        1e308,
    ),
    *(True, False, np.True_, np.float16(0.5), np.longdouble(0.5), np.int8(1), np.uint64(2**64 - 1), np.float64("nan")),
    *("", "x", "abc", "average_precision", "logit", "nul\0", "\ud800", "a" * 500, "item", "\x1b[31m", "0.5", "drop"),
    *(
        decimal.Decimal("0.5"),
        fractions.Fraction(1, 2),
        datetime.date(2020, 1, 1),
        pd.NaT,
        pd.NA,
        np.datetime64("NaT", "s"),
    ),
    *(
        np.datetime64("2020-01-01"),
        np.timedelta64(1, "D"),
        pd.Timestamp(0),
        pathlib.Path("nowhere"),
        range(3),
        slice(2),
    ),
    *(np.array(0.5), np.array([]), np.array([0.5]), np.array(["a", "b"]), np.array([None, 1], dtype=object)),
    *(np.zeros((0, 3)), np.zeros((3, 0)), np.ones(40), np.ones((3, 40)), np.full(40, np.nan), np.ones((2, 2, 2))),
    *(np.ma.masked_array([1.0, 2.0], [True, False]), np.zeros(3, dtype=[("a", "f8")]), np.ones(40, dtype=">f8")),
    *(
        np.ones(40, dtype="float16"),
        np.ones(40, dtype="longdouble"),
        np.ones(40, dtype=complex),
        np.ones(40, dtype=bool),
    ),
    *(
        np.array(["x"] * 40),
        np.array([b"x"] * 40),
        np.full(40, "2020", dtype="M8[D]"),
        np.ones((4, 40)),
        np.arange(40),
    ),
    *(da.ones(40), da.ones((3, 40), chunks=(1, 7)), da.from_array(np.array(["x"] * 40))),
    *(pd.Series(np.ones(40)), pd.Series(np.ones(40), index=range(1, 41)), pd.DataFrame(), FRAME, pd.Index(["a"])),
    *(DATA, DATA["score"], DATA["label"], xr.DataArray(1.0), xr.DataArray(np.ones(40), dims="other"), xr.Dataset()),
    *(xr.DataTree(), xr.DataTree.from_dict({"a": DATA}), RESULT, RESULT["estimate"], QUERIES, iter([1, 2]), "..."),
]

# The functions, each with arguments with which it works.
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "estimate": (
        ap.estimate,
        {
            **{"score": SCORE, "label": LABEL, "estimator": ["average_precision"], "weight": None, "n_positive": None},
            **{"positive_weight": None, "negative_weight": None, "tie_order": None, "prevalence": None, "dim": "item"},
            **{"recall_range": (0.0, 1.0), "missing": "raise", "ties": "block", "unjudged": "negative"},
            **{"positive_from": None},
        },
    ),
    "estimate labelled": (
        ap.estimate,
        {
            **{"score": DATA["score"], "label": DATA["label"], "estimator": "roc_area", "weight": None, "dim": "item"},
            **{"n_positive": None, "tie_order": None, "prevalence": None, "missing": "drop", "ties": "block"},
        },
    ),
    "estimate weighted": (ap.estimate, {"score": SCORE, "label": LABEL, "weight": np.arange(40.0), "prevalence": 0.5}),
    "estimate soft": (
        ap.estimate,
        {"score": SCORE, "label": None, "positive_weight": np.ones(40), "negative_weight": np.ones(40)},
    ),
    "estimate lazy": (ap.estimate, {"score": da.from_array(SCORE, chunks=(1, 40)), "label": LABEL, "n_positive": 20}),
    "chance": (
        ap.chance,
        {
            **{"score": SCORE, "label": LABEL, "n_positive": None, "tie_order": None, "missing": "raise", "over": None},
            **{"ties": "block", "unjudged": "negative", "positive_from": None, "dim": "item", "convention": None},
            **{"nothing_ranked": "count", "no_positives": "drop"},
        },
    ),
    "interval": (ap.interval, {"estimate": 0.5, "n_positive": 20, "method": "logit", "level": 0.95}),
    "evaluate": (
        ap.evaluate,
        {
            **{"scores": DATA, "estimators": ["average_precision"], "intervals": ["logit"], "level": 0.9},
            **{"prevalence": None, "recall_range": (0.0, 1.0), "missing": "raise", "ties": "block"},
            **{"unjudged": "negative", "positive_from": None, "n_resamples": 9, "seed": 0, "unit": "items"},
            **{"keep_replicates": False, "prevalence_design": "fixed", "n_folds": 3},
        },
    ),
    "evaluate with resamples": (
        ap.evaluate,
        {
            **{"scores": QUERIES, "intervals": ["bootstrap"], "n_resamples": 9, "seed": 0, "unit": "items"},
            **{"keep_replicates": True, "prevalence_design": "random", "n_folds": 3, "level": 0.9},
        },
    ),
    "curve": (
        ap.curve,
        {
            **{"score": SCORE, "label": LABEL, "kind": "precision_recall", "grid": None, "weight": None, "dim": "item"},
            **{"positive_weight": None, "negative_weight": None, "n_positive": None, "prevalence": None},
            **{"missing": "raise", "unjudged": "negative", "positive_from": None},
        },
    ),
    "curve on a grid": (ap.curve, {"score": DATA["score"], "label": DATA["label"], "kind": "roc", "grid": [0.1, 0.5]}),
    "confusion": (
        ap.confusion,
        {
            **{"score": SCORE, "label": LABEL, "thresholds": [0.0, 1.0], "weight": None, "positive_weight": None},
            **{"negative_weight": None, "n_positive": None, "missing": "raise", "unjudged": "negative", "dim": "item"},
        },
    ),
    "curve_bands": (
        ap.curve_bands,
        {
            **{"score": SCORE, "label": LABEL, "kind": "precision_recall", "grid": None, "level": 0.9, "seed": 0},
            **{"n_resamples": 9, "dataset": "", "n_positive": None, "prevalence": None, "missing": "raise"},
        },
    ),
    "area_bounds": (
        ap.area_bounds,
        {
            **{"score": SCORE, "label": LABEL, "tolerance": 1e-6, "n_positive": None, "prevalence": None},
            **{"missing": "raise", "unjudged": "negative", "positive_from": None, "dim": "item"},
        },
    ),
    "Accumulator": (lambda **options: ap.Accumulator(**options), {"bins": "adaptive", "memory": 2**20}),
    "update": (lambda **items: ap.Accumulator().update(**items), {"score": SCORE[0], "label": LABEL}),
    "merge": (lambda other: ap.Accumulator().merge(other), {"other": ap.Accumulator()}),
    "covariance": (
        ap.covariance,
        {"scores": DATA, "estimator": "average_precision", "missing": "raise", "unit": "items", "unjudged": "negative"},
    ),
    "reference_levels": (
        ap.reference_levels,
        {
            "label": DATA["label"],
            "estimator": "average_precision",
            "prevalence": None,
            "unjudged": "negative",
            "dim": "item",
        },
    ),
    "normalised": (ap.normalised, {"area": AREA, "levels": LEVELS}),
    "dominates": (ap.dominates, {"first": CURVE, "second": CURVE, "space": "roc"}),
    "aggregate": (
        ap.aggregate,
        {
            **{"data": RESULT, "over": "query", "how": "macro", "sample": "units", "method": None, "level": 0.9},
            **{"n_resamples": 20, "seed": 0, "incomplete": None, "machine": None},
        },
    ),
    "compare": (
        ap.compare,
        {
            **{"data": RESULT, "baseline": None, "estimator": None, "over": "query", "sample": None, "method": None},
            **{"adjust": None, "level": 0.9, "equivalence": None, "n_resamples": 20, "seed": 0, "incomplete": "raise"},
            **{"chunk": None, "machine": None},
        },
    ),
    "compare scores": (
        ap.compare,
        {"data": DATA, "baseline": "a", "method": "influence", "missing": "raise", "level": 0.9},
    ),
    "rank": (
        ap.rank,
        {
            **{"data": RESULT, "estimator": None, "over": "query", "sample": None, "method": None, "level": 0.9},
            **{"n_resamples": 20, "seed": 0, "incomplete": "raise"},
        },
    ),
    "audit": (
        ap.audit,
        {
            **{"values": RESULT, "path": None, "unit": "task", "exclude": (), "estimator": None, "over": "query"},
            **{"method": None, "level": 0.9, "n_resamples": 20, "seed": 0, "incomplete": None},
        },
    ),
    "gate": (
        ap.gate,
        {
            **{"data": RESULT, "candidate": "b", "baseline": "a", "margin": 0.1, "power": 0.8, "level": 0.9},
            **{"over": "query", "sample": None, "method": None, "n_resamples": 20, "adjust": None},
        },
    ),
    "gate of scores": (ap.gate, {"data": DATA, "candidate": ["b", "c"], "baseline": "a", "missing": "raise"}),
    "power": (
        ap.power,
        {
            **{"data": RESULT, "baseline": None, "difference": 0.1, "power": 0.8, "level": 0.9, "estimator": None},
            **{"over": "query", "sample": None, "method": None, "n_resamples": 20, "incomplete": "raise"},
        },
    ),
    "to_roc": (ap.to_roc, {"recall": [0.5, 1.0], "precision": [1.0, 0.5], "n_positive": 10, "n_negative": 20}),
    "to_precision_recall": (
        ap.to_precision_recall,
        {"false_positive_rate": [0.1, 0.5], "recall": [0.5, 1.0], "n_positive": 10, "n_negative": 20},
    ),
    "unachievable_precision": (ap.unachievable_precision, {"recall": [0.1, 0.9], "prevalence": 0.3}),
    "from_dataframe": (
        ap.from_dataframe,
        {
            **{"frame": FRAME, "label": "label", "models": ["first", "second"], "item": "name", "query": None},
            **{"dataset": None, "weight": None, "exclude": (), "negate": False, "positive": None, "dtype": "float64"},
        },
    ),
    "open_scores": (ap.open_scores, {"url": "nowhere", "chunks": "auto"}),
    "open_result": (ap.open_result, {"url": "nowhere", "chunks": None}),
    "open_comparison": (ap.open_comparison, {"url": "nowhere", "chunks": None}),
    "scorer": (ap.scorer, {"estimator": "average_precision", "positive": 1, "ties": "block", "missing": "raise"}),
    "binormal": (binormal, {"mu": 1.0, "sigma": 1.0}),
    "sample": (
        binormal().sample,
        {"n_items": 50, "prevalence": 0.2, "n_simulations": 2, "n_positive": "exact", "seed": 0, "dtype": "float32"},
    ),
    "area": (bibeta().area, {"prevalence": 0.2}),
    "true curve": (offset_uniform().curve, {"recall": [0.1, 0.5], "prevalence": 0.2}),
}


def draw(n_calls: int, seed: int = 0) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield names of functions and their arguments, one or two of which are hostile."""
    rng = np.random.default_rng(seed)
    names = list(CALLS)
    for n in range(n_calls):
        name = names[n % len(names)]
        arguments = dict(CALLS[name][1])
        for argument in rng.choice(list(arguments), size=rng.choice([1, 1, 2]), replace=True):
            arguments[str(argument)] = ANYTHING[rng.integers(len(ANYTHING))]
        yield name, arguments


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in a call that takes longer."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def outcome(name: str, arguments: dict[str, Any], seconds: int = SECONDS) -> tuple[str, str]:
    """Return "refused" or "valid", or what else came of a call, in words."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", FewPositivesWarning)  # which a valid call over few items may give
        try:
            with at_most(seconds):
                result = CALLS[name][0](**arguments)
                if hasattr(result, "compute") and not isinstance(result, xr.DataTree):
                    result.compute()
        except AucprError as error:
            lacks = [part.strip(" \n:") for part in PARTS if part not in str(error)]
            return ("refused", "") if not lacks else ("bare", f"no {' and no '.join(lacks)}: {error}")
        except Exception as error:
            places = [frame for frame in traceback.extract_tb(error.__traceback__) if "aucpr_dask/" in frame.filename]
            at = f"{places[-1].filename.rpartition('aucpr_dask/')[2]}:{places[-1].lineno}" if places else "outside"
            return "foreign", f"{type(error).__name__} in {at}: {str(error)[:160]}"
    return "valid", ""


def main() -> None:
    """Print a table of outcomes, and every kind of defect once."""
    import collections
    import sys

    mpl.use("agg")
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    defects: dict[tuple[str, str], list[str]] = {}
    n_calls = int(sys.argv[1])
    for name, arguments in draw(n_calls, int(sys.argv[2]) if len(sys.argv) > 2 else 0):
        kind, text = outcome(name, arguments)
        counts[name, kind] += 1
        if kind in ("foreign", "bare"):
            changed = {k: v for k, v in arguments.items() if v is not CALLS[name][1][k]}
            key = (
                kind,
                text.split(":")[0] + text.split(":")[1][:12] if kind == "foreign" else text.split("received")[0][:90],
            )
            defects.setdefault(key, []).append(f"{name} {str(changed)[:150]!r} -> {text[:300]}")
    for key, examples in sorted(defects.items(), key=lambda item: -len(item[1])):
        print(len(examples), key[0], examples[0].replace("\n", " | "))
    print(collections.Counter(kind for (_, kind), n in counts.items() for _ in range(n)))


if __name__ == "__main__":
    main()
