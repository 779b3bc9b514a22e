"""Average precision of runs in files, with the reading of the files."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import aucpr_dask as ap
from aucpr_dask.scores.importing.trec import import_trec
from benchmarks.suite import FLOAT64, Suite, contender


class RunFiles(Suite):
    """From files in the format of TREC to an average precision for each topic."""

    name = "run-files"
    title = (
        "Processor time from {n_runs} runs in files, {n_topics} topics of {n_documents} documents, to average precision"
    )
    explanation = "Reading is part of both calls; ours also writes a store of the scores, which later calls open."
    params = ("all runs",)
    number, clock = 1, time.process_time
    no_memory = "files are read in blocks by one and whole by the other"
    n_runs, n_topics, n_documents = 15, 200, 1000

    def shrink(self) -> None:
        """Take two runs of five short topics."""
        self.n_runs, self.n_topics, self.n_documents = 2, 5, 40

    def describe(self, case: str) -> str:
        """Return the number of lines."""
        return f"{self.n_runs * self.n_topics * self.n_documents:,} lines"

    def setup(self, case: str) -> None:
        """Write the files: one of judgments, and one for each run."""
        self.folder = tempfile.TemporaryDirectory()
        random, here = np.random.default_rng(21), Path(self.folder.name)
        self.qrels, self.runs = here / "qrels", [here / f"run{k:02d}" for k in range(self.n_runs)]
        label = random.random((self.n_topics, self.n_documents)) < 0.035
        label[:, 0] = True
        lines = (
            f"t{t} 0 doc{d} {int(label[t, d])}\n" for t, d in np.ndindex(*label.shape) if label[t, d] or d % 9 == 0
        )
        self.qrels.write_text("".join(lines))
        for file in self.runs:
            score = random.standard_normal(label.shape) + label
            order = (-score).argsort(axis=1)
            lines = (
                f"t{t} Q0 doc{d} {rank} {self.n_documents - rank} {file.name}\n"
                for t in range(self.n_topics)
                for rank, d in enumerate(order[t])
            )
            file.write_text("".join(lines))

    def teardown(self, case: str) -> None:
        """Remove the files."""
        self.folder.cleanup()

    @contender("aucpr_dask", "import_trec(runs, qrels, store), ap.evaluate(ap.open_scores(store))", "aucpr-dask")
    def time_ours(self, case: str) -> Any:
        store = Path(self.folder.name, "scores.zarr")
        import_trec(self.runs, self.qrels, store, overwrite=True)
        found = ap.evaluate(ap.open_scores(store), intervals=(), missing="unretrieved")["estimate"]
        return found.sortby("query").sortby("model").transpose("model", "query").values

    @contender(
        "pytrec_eval",
        'RelevanceEvaluator(parse_qrel(qrels), {"map"}).evaluate(parse_run(run)) for each file',
        "pytrec_eval-terrier",
        tolerance=FLOAT64,
        numbers=lambda results: [[topic["map"] for _, topic in sorted(result.items())] for result in results],
    )
    def time_pytrec_eval(self, case: str) -> Any:
        import pytrec_eval

        with open(self.qrels) as file:
            evaluator = pytrec_eval.RelevanceEvaluator(pytrec_eval.parse_qrel(file), {"map"})
        results = []
        for run in self.runs:
            with open(run) as file:
                results.append(evaluator.evaluate(pytrec_eval.parse_run(file)))
        return results
