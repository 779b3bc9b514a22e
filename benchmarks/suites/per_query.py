"""Average precision of every topic of many runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import aucpr_dask as ap
from benchmarks.suite import FLOAT32, FLOAT64, Suite, contender, installed
from benchmarks.suites.rankings import one_pass, sort


class PerQuery(Suite):
    """Average precision per topic, as in retrieval experiments."""

    name = "per-query"
    title = "Average precision of each of {n_topics} topics of {n_documents} documents, per run of {n_runs}, one thread"
    explanation = (
        "10 to 60 relevant documents per topic, all scores distinct. Each library's objects are built beforehand, and "
        "reading run files is not timed."
    )
    params = ("all runs",)
    unit = "run"
    counted = "n_runs"
    n_runs = 20
    n_topics = 250
    n_documents = 1000
    small: Mapping[str, Any] = {"n_runs": 2, "n_topics": 12, "n_documents": 80}
    case = "{self.n_topics} topics of {self.n_documents} documents"

    def setup(self, case: str) -> None:
        """Draw one set of judgments and the runs."""
        random = np.random.default_rng(21)
        n_relevant = random.integers(10, 61, self.n_topics)
        relevant = np.arange(self.n_documents) < n_relevant[:, None]
        self.label = random.permuted(relevant, axis=1).astype(np.int8)
        score = random.standard_normal((self.n_runs, self.n_topics, self.n_documents)) + self.label
        rank = score.argsort(axis=-1).argsort(axis=-1)
        # The tiny slope keeps all scores of a topic distinct in float32, so that no convention for ties matters.
        score += 2e-6 * rank
        # All above 0: torchmetrics takes other documents as not retrieved.
        self.score = (score - score.min() + 1).astype(np.float32)
        # trec_eval puts the tied document with the last name first; nothing is tied here, but the order is needed.
        self.tie_order = np.arange(self.n_documents, dtype=np.int32)[::-1].copy()
        self._name_things()
        if installed("pytrec_eval-terrier"):
            import pytrec_eval

            self.evaluator = pytrec_eval.RelevanceEvaluator(self.judgments, {"map"})
        if installed("ranx"):
            import ranx

            self.ranx_qrels = ranx.Qrels(self.judgments)
            self.ranx_runs = [ranx.Run(run) for run in self.runs]
            self.ranx_lists = self.ranx_qrels.to_typed_list(), [run.to_typed_list() for run in self.ranx_runs]
        if installed("torch"):
            import torch

            self.tensors = torch.from_numpy(self.score), torch.from_numpy(self.label.astype(bool))

    def _name_things(self) -> None:
        """Use names that sort like their numbers, so that every library keeps our order of topics."""
        self.topics = [f"topic{i:04d}" for i in range(self.n_topics)]
        documents = [f"document{i:06d}" for i in range(self.n_documents)]
        # Only relevant documents: every library gives the same averages, faster than with the others judged 0.
        self.judgments = {
            topic: {document: 1 for document, relevant in zip(documents, labels, strict=True) if relevant}
            for topic, labels in zip(self.topics, self.label.tolist(), strict=True)
        }
        # Best document first, as in run files: pytrec_eval takes that a little faster than other orders.
        self.runs = [
            {
                topic: {documents[i]: float(scores[i]) for i in np.argsort(-scores)}
                for topic, scores in zip(self.topics, run, strict=True)
            }
            for run in self.score
        ]

    @contender("aucpr_dask", "ap.estimate(score, label)", "aucpr-dask")
    def time_ours(self, case: str) -> Any:
        return ap.estimate(self.score, self.label)

    @contender(
        "aucpr_dask, trec_eval's ties",
        'ap.estimate(score, label, ties="trec_eval", tie_order=order)',
        "aucpr-dask",
        tolerance=FLOAT64,
    )
    def time_ours_trec_eval(self, case: str) -> Any:
        return ap.estimate(self.score, self.label, ties="trec_eval", tie_order=self.tie_order)

    @contender(
        "pytrec_eval",
        'evaluator.evaluate(run), evaluator = RelevanceEvaluator(qrels, {"map"})',
        "pytrec_eval-terrier",
        tolerance=FLOAT64,
        numbers=lambda results: [[topic["map"] for _, topic in sorted(result.items())] for result in results],
    )
    def time_pytrec_eval(self, case: str) -> Any:
        return [self.evaluator.evaluate(run) for run in self.runs]

    @contender(
        "torchmetrics",
        "retrieval_average_precision(scores_of_topic, labels_of_topic) for each topic",
        "torchmetrics",
        "torch",
        tolerance=FLOAT32,
    )
    def time_torchmetrics(self, case: str) -> Any:
        from torchmetrics.functional.retrieval import retrieval_average_precision

        score, label = self.tensors
        return [[retrieval_average_precision(*topic) for topic in zip(run, label, strict=True)] for run in score]

    @contender(
        "ranx",
        'ranx.evaluate(qrels, run, "map", return_mean=False, save_results_in_run=False, threads=1)',
        "ranx",
        tolerance=FLOAT64,
    )
    def time_ranx(self, case: str, lists: Any = None) -> Any:
        import ranx

        qrels, runs = lists or (self.ranx_qrels, self.ranx_runs)
        how = {"return_mean": False, "save_results_in_run": False, "threads": 1}
        return [ranx.evaluate(qrels, run, "map", **how) for run in runs]

    @contender("ranx, typed lists", "the same of what ranx makes of its objects", "ranx", tolerance=FLOAT64)
    def time_ranx_typed_lists(self, case: str) -> Any:
        return self.time_ranx(case, self.ranx_lists)

    time_pass = one_pass
    time_sort = sort
