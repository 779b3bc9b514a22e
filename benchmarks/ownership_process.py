"""One process of a package: its first number, then what a million scores cost it.

``python ownership_process.py PACKAGE JOB`` runs in the environment of that package, which has nothing of the
benchmarks, so this file imports only what the package brings. It prints, one a line: the first number; the most memory
held so far, in bytes; and, if JOB is not ``first``, the first number of the job, core-seconds and elapsed seconds per
million scores, and the most memory held by then. JOB may end in ``:small``.
"""

from __future__ import annotations

import itertools
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

N_RESAMPLES = 1000
LONGEST, SHORTEST, SHORTEST_SMALL = 5.0, 0.5, 0.01  # core-seconds: a job is cut short; is repeated for at least

Calls = list[Callable[[], Any]]  # each evaluates its share of the scores, from objects that are ready


def aucpr_dask(job: str, score: Any, label: Any) -> Calls:
    """Evaluate all models, or all runs, in one call."""
    import aucpr_dask as ap

    if job != "bootstrap":
        return [lambda: ap.estimate(score, label)]
    import xarray as xr

    scores = xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)})
    return [lambda: ap.evaluate(scores, intervals="bootstrap", n_resamples=N_RESAMPLES)["estimate"].values]


def scikit_learn(job: str, score: Any, label: Any) -> Calls:
    """Evaluate one model after another."""
    from sklearn.metrics import average_precision_score

    return [lambda one=one: average_precision_score(label, one) for one in score]


def torchmetrics(job: str, score: Any, label: Any) -> Calls:
    """Use the exact mode, on tensors, its checks of arguments off."""
    import torch
    from torchmetrics.functional.classification import binary_average_precision as area

    labels, scores = torch.from_numpy(label), torch.from_numpy(score)
    return [lambda one=one: area(one, labels, thresholds=None, validate_args=False) for one in scores]


def xgboost(job: str, score: Any, label: Any) -> Calls:
    """Evaluate a model without trees whose margins are the scores."""
    import numpy as np
    import xgboost

    nothing = np.zeros((len(label), 1), np.float32)
    data = [xgboost.DMatrix(nothing, label=label, base_margin=one) for one in score]
    model = xgboost.Booster({"objective": "binary:logitraw", "eval_metric": "aucpr"}, data[:1])
    return [lambda one=one: float(model.eval(one).rsplit(":", 1)[1]) for one in data]


def keras(job: str, score: Any, label: Any) -> Calls:
    """Update a fresh state of the binned metric with the whole ranking: 200 thresholds, scores within [0, 1]."""
    os.environ["KERAS_BACKEND"] = "torch"
    import keras
    import torch

    metric = keras.metrics.AUC(curve="PR")
    labels, scores = torch.from_numpy(label), torch.from_numpy(score)

    def area(one: Any) -> float:
        metric.reset_state()
        metric.update_state(labels, one)
        return float(metric.result())

    return [lambda one=one: area(one) for one in scores]


def pytrec_eval(job: str, score: Any, label: Any) -> Calls:
    """Build the evaluator once; the runs are the dictionaries that it takes."""
    import pytrec_eval

    evaluator = pytrec_eval.RelevanceEvaluator(_judgments(label), {"map"})

    def evaluate(run: Any) -> list[float]:
        return [topic["map"] for _, topic in sorted(evaluator.evaluate(run).items())]

    return [lambda run=run: evaluate(run) for run in _runs(score)]


def ranx(job: str, score: Any, label: Any) -> Calls:
    """Take Qrels and Run objects that are ready, on one thread."""
    from ranx import Qrels, Run, evaluate

    qrels = Qrels(_judgments(label))
    options: dict[str, Any] = {"return_mean": False, "save_results_in_run": False, "threads": 1}
    return [lambda run=run: evaluate(qrels, run, "map", **options) for run in map(Run, _runs(score))]


def ir_measures(job: str, score: Any, label: Any) -> Calls:
    """Build the evaluator once; the runs are the dictionaries that it takes."""
    import ir_measures

    evaluator = ir_measures.evaluator([ir_measures.AP], _judgments(label))

    def evaluate(run: Any) -> list[float]:
        found = {metric.query_id: metric.value for metric in evaluator.iter_calc(run)}
        return [found[topic] for topic in sorted(found)]

    return [lambda run=run: evaluate(run) for run in _runs(score)]


def confidenceinterval(job: str, score: Any, label: Any) -> Calls:
    """Resample scikit-learn's average precision; percentile intervals."""
    import numpy as np
    from confidenceinterval.bootstrap import bootstrap_ci
    from sklearn.metrics import average_precision_score

    if job == "first":  # four items are too few to resample: the estimate is the same, and some draws have no positive
        score, label = np.tile(score, 20), np.tile(label, 20)
    options: dict[str, Any] = {"n_resamples": N_RESAMPLES, "method": "bootstrap_percentile", "random_state": 0}
    return [lambda one=one: bootstrap_ci(label, one, average_precision_score, **options)[0] for one in score]


def statsmodels(job: str, score: Any, label: Any) -> Calls:
    """Ask for an interval of a proportion: it computes no area."""
    from statsmodels.stats.proportion import proportion_confint

    return [lambda: proportion_confint(int(label.sum()), label.size, method="wilson")]


PACKAGES = {
    function.__name__: function
    for function in (
        aucpr_dask,
        scikit_learn,
        torchmetrics,
        xgboost,
        keras,
        pytrec_eval,
        ranx,
        ir_measures,
        confidenceinterval,
        statsmodels,
    )
}
PER_QUERY = {"pytrec_eval", "ranx", "ir_measures"}


def main(package: str, job: str) -> None:
    """Print what the module's text says."""
    calls = PACKAGES[package]("first", *_first(package))
    _say(_number(calls[0]()), _peak())
    if job != "first":
        job, _, small = job.partition(":")
        score, label = draw(job, bool(small))
        calls = PACKAGES[package](job, score, label)
        number = _number(calls[0]())  # not counted: it fills caches
        shortest = SHORTEST_SMALL if small else SHORTEST
        _say(number, *_cost(calls, score.size / 1e6 / len(calls), shortest), _peak())


def draw(job: str, small: bool) -> tuple[Any, Any]:
    """Return the scores of a job, scaled into [0, 1] so that no library transforms them, and its labels."""
    import numpy as np

    random = np.random.default_rng(26)
    if job == "query":
        n_runs, n_topics, n_documents = (2, 5, 40) if small else (5, 250, 1000)
        relevant = np.arange(n_documents) < random.integers(10, min(61, n_documents), n_topics)[:, None]
        label = random.permuted(relevant, axis=1).astype(np.int8)
        score = random.standard_normal((n_runs, *label.shape)) + label
        # All scores of a topic are distinct, so that no convention for ties matters.
        score = score.argsort(axis=-1).argsort(axis=-1) / n_documents
    else:
        n_models, n_items = {"ranking": (100, 100_000), "bootstrap": (10, 10_000)}[job]
        n_models, n_items = (3, 400) if small else (n_models, n_items)
        label = np.zeros(n_items, np.int8)
        label[::100] = 1
        score = random.standard_normal((n_models, n_items)) + label
        score = (score - score.min()) / np.ptp(score)
    return score.astype(np.float32), label


def _first(package: str) -> tuple[Any, Any]:
    """Return four items, for what evaluates queries as the documents of one."""
    import numpy as np

    score, label = np.array([[0.9, 0.8, 0.7, 0.1]], np.float32), np.array([1, 0, 1, 0], np.int8)
    return (score[None], label[None]) if package in PER_QUERY else (score, label)


def _judgments(label: Any) -> dict[str, dict[str, int]]:
    """Return the relevant documents of every topic; those without a judgment count as not relevant everywhere."""
    return {
        f"topic{topic:04d}": {f"document{i:06d}": 1 for i, relevant in enumerate(labels) if relevant}
        for topic, labels in enumerate(label.tolist())
    }


def _runs(score: Any) -> list[dict[str, dict[str, float]]]:
    """Return runs as dictionaries, the best document of each topic first, as in files."""
    return [
        {
            f"topic{topic:04d}": {f"document{i:06d}": float(scores[i]) for i in (-scores).argsort()}
            for topic, scores in enumerate(run)
        }
        for run in score
    ]


def _cost(calls: Sequence[Callable[[], Any]], millions: float, shortest: float) -> tuple[float, float]:
    """Return core-seconds and elapsed seconds per million scores, where one call evaluates so many millions."""
    begun, spent, n_calls = time.perf_counter(), -_core_seconds(), 0
    for call in itertools.cycle(calls):
        call()
        n_calls += 1
        so_far = spent + _core_seconds()
        if so_far > LONGEST or (so_far > shortest and n_calls >= len(calls)):
            break
    return so_far / n_calls / millions, (time.perf_counter() - begun) / n_calls / millions


def _core_seconds() -> float:
    """Return the processor time of this process, all its threads, and of its children that ended."""
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


def _peak() -> int:
    """Return the most memory that this program held, in bytes; `ru_maxrss` would count the one that started it."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024


def _number(result: Any) -> float:
    import numpy as np

    return float(np.ravel(result)[0])


def _say(*numbers: float) -> None:
    for number in numbers:
        print(repr(number), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
