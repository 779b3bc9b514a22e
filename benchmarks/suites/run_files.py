"""From files: average precision of runs, and the import of tables."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import aucpr_dask as ap
from aucpr_dask.scores.importing.tables import import_table
from aucpr_dask.scores.importing.trec import import_trec
from benchmarks.suite import FLOAT64, Suite, contender, floor

OPTIONS: dict[str, dict[str, str]] = {"scores alone": {}, "item names": {"item": "id"}, "queries": {"query": "id"}}
LENGTH = 100  # items of a query


class _Files(Suite):
    number, clock = 1, time.process_time
    no_memory = "files are read in blocks by one and whole by the other"

    def setup(self, case: str) -> None:
        """Make a folder for the files."""
        self.folder = tempfile.TemporaryDirectory()

    def teardown(self, case: str) -> None:
        """Remove the files."""
        self.folder.cleanup()


class RunFiles(_Files):
    """From files in the format of TREC to an average precision for each topic."""

    name = "run-files"
    title = (
        "Processor time from {n_runs} runs in files, {n_topics} topics of {n_documents} documents, to average precision"
    )
    explanation = "Reading is part of both calls; ours also writes a store of the scores, which later calls open."
    params = ("all runs",)
    n_runs, n_topics, n_documents = 15, 200, 1000
    small: Mapping[str, Any] = {"n_runs": 2, "n_topics": 5, "n_documents": 40}

    def describe(self, case: str) -> str:
        """Return the number of lines."""
        return f"{self.n_runs * self.n_topics * self.n_documents:,} lines"

    def setup(self, case: str) -> None:
        """Write the files: one of judgments, and one for each run."""
        super().setup(case)
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

    @contender("aucpr_dask", "import_trec(runs, qrels, store), ap.evaluate(ap.open_scores(store))", "aucpr-dask")
    def time_ours(self, case: str) -> Any:
        store = Path(self.folder.name, "scores.zarr")
        import_trec(self.runs, self.qrels, store, overwrite=True)
        found = ap.evaluate(ap.open_scores(store), interval=(), missing="unretrieved")["estimate"]
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


def _stored(store: Path) -> Any:
    """Return the scores in a store."""
    import zarr

    return np.asarray(zarr.open_array(store, path="score", mode="r")[:]).ravel()


class Tables(_Files):
    """A row for each item, a column for each model."""

    name = "import"
    title = "Processor time from a CSV file of {n_items:,} items and {n_models} models to a score store"
    explanation = (
        "Ours also checks the cells and hashes the rankings. 'Read' is pyarrow alone, on one thread; 'read and write' "
        "also writes the same arrays by zarr alone, in the same chunks by the same codecs."
    )
    params = tuple(OPTIONS)
    n_items, n_models = 1_000_000, 20
    small: Mapping[str, Any] = {"n_items": 500, "n_models": 3}

    def setup(self, case: str) -> None:
        """Write the table."""
        import pyarrow
        from pyarrow import csv

        super().setup(case)
        self.file, self.ours, self.plain = (Path(self.folder.name, name) for name in ("table.csv", "ours", "plain"))
        random, number = np.random.default_rng(31), np.arange(self.n_items)
        self.models = [f"m{k}" for k in range(self.n_models)]
        columns: dict[str, Any] = {name: random.random(self.n_items).round(6) for name in self.models}
        columns["y"] = (random.random(self.n_items) < 0.1).astype("int8")
        if OPTIONS[case]:
            named = random.permutation(number) if case == "item names" else number // LENGTH
            columns["id"] = [f"name-{one:07d}" for one in named]
        csv.write_csv(pyarrow.table(columns), self.file)

    @contender("aucpr_dask", 'import_table(file, store, label="y", ...)', "aucpr-dask", numbers=_stored)
    def time_ours(self, case: str) -> Path:
        import_table(self.file, self.ours, label="y", models="m*", overwrite=True, **OPTIONS[case])
        return self.ours

    @floor("read", "pyarrow.csv.read_csv(file)", "pyarrow")
    def time_read(self, case: str) -> Any:
        from pyarrow import csv

        return csv.read_csv(self.file, csv.ReadOptions(use_threads=False))

    @floor("read and write", "the same, and zarr's create_array", "pyarrow", "zarr", tolerance=0.0, numbers=_stored)
    def time_read_and_write(self, case: str) -> Path:
        import zarr

        table = self.time_read(case)
        found, group = zarr.open_group(self.ours, mode="r"), zarr.open_group(self.plain, mode="w")
        arrays = {"score": np.stack([table[name].to_numpy() for name in self.models]), "label": table["y"].to_numpy()}
        for role in OPTIONS[case]:
            arrays[role] = table["id"].to_numpy()[:: LENGTH if role == "query" else 1].astype("T")
        for name, values in arrays.items():
            one: Any = found[name]
            with warnings.catch_warnings(action="ignore"):  # of types that Zarr may change
                new = group.create_array(
                    name, shape=one.shape, chunks=one.chunks, dtype=one.dtype, compressors=one.compressors
                )
            new[:] = values.reshape(one.shape)
        return self.plain
