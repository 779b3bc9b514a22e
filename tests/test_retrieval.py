"""Judgments and runs in memory give what files of them give, and what pytrec_eval computes."""

from __future__ import annotations

import json
from collections import namedtuple
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from click.testing import CliRunner
from conftest import ok
from hypothesis import given
from hypothesis import strategies as st

import aucpr_dask as ap
from aucpr_dask.cli import main
from aucpr_dask.errors import AlignmentError, AucprError, FileFormatError, InvalidInputError, UnjudgedWarning
from aucpr_dask.scores.importing.trec import import_trec

QRELS = {"q1": {"d1": 1, "d2": 0, "d5": -1}, "q2": {"d3": 1, "d4": 1}, "q3": {"d9": 0}}
RUNS = {
    "bm25": {"q1": {"d2": 2.5, "d1": 1.5}, "q2": {"d3": 7.0, "d8": 7.0}},
    "dense": {"q1": {"d1": 1.0, "d2": 1.0, "d5": 0.5}, "q2": {"d4": 3}, "q7": {"d1": 1}},
}
Grades = dict[str, dict[str, int]]
Lists = dict[str, dict[str, dict[str, float]]]


def frames(qrels: Grades, runs: Lists, *names: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    topic, document, grade, score, model = names
    judged = [(t, d, g) for t, listed in qrels.items() for d, g in listed.items()]
    scored = [(m, t, d, s) for m, run in runs.items() for t, listed in run.items() for d, s in listed.items()]
    return (
        pd.DataFrame(judged, columns=[topic, document, grade]),
        pd.DataFrame(scored, columns=[model, topic, document, score]),
    )


def from_files(qrels: Grades, runs: Lists, folder: Path, **options: Any) -> xr.Dataset:
    (folder / "qrels").write_text("".join(f"{t} 0 {d} {g}\n" for t, ds in qrels.items() for d, g in ds.items()))
    for name, run in runs.items():
        lines = (f"{t} Q0 {d} 1 {s!r} x\n" for t, ds in run.items() for d, s in ds.items())
        (folder / f"{name}.run").write_text("".join(lines))
    files = [folder / f"{name}.run" for name in runs]
    import_trec(files, folder / "qrels", folder / "s.zarr", overwrite=True, **options)
    scores = ap.open_scores(folder / "s.zarr")
    assert isinstance(scores, xr.Dataset)
    return scores


@pytest.mark.parametrize("layout", ["per-run", "pooled"])
def test_runs_in_memory_are_those_of_files(tmp_path: Path, layout: str) -> None:
    expected = from_files(QRELS, RUNS, tmp_path, layout=layout).load()
    found = ap.from_runs(QRELS, RUNS, layout=layout)
    xr.testing.assert_equal(found, expected.drop_vars(["n_missing", "digest"], errors="ignore"))


GRADES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(-1, 2), min_size=1)
LISTS = st.dictionaries(st.sampled_from("abcdefghij"), st.sampled_from([0.5, 1.0, 2.0, 3.5]), min_size=1)


def test_one_run_needs_no_name() -> None:
    (run,) = list(RUNS.values())[:1]
    expected = ap.evaluate_runs(QRELS, {"run": run})
    rows = [(topic, document, score) for topic, listed in run.items() for document, score in listed.items()]
    for one in (run, pd.DataFrame(rows, columns=["qid", "docno", "score"])):
        xr.testing.assert_identical(ap.evaluate_runs(QRELS, one), expected)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ranx") is None, reason="ranx, which brings much along, is not here")
@pytest.mark.filterwarnings("ignore:unsafe cast from uint64 to int64")  # in the code that ranx compiles
@pytest.mark.filterwarnings("ignore:.*invalid escape sequence")  # in its sources, when Python first compiles them
def test_objects_of_ranx_are_runs_and_judgments() -> None:
    import ranx

    runs = [ranx.Run(run, name=name) for name, run in RUNS.items()]
    expected = ap.evaluate_runs(QRELS, RUNS)
    xr.testing.assert_identical(ap.evaluate_runs(ranx.Qrels(QRELS), runs), expected)
    one = ap.evaluate_runs(ranx.Qrels(QRELS), runs[0])
    xr.testing.assert_equal(one["estimate"], expected["estimate"].isel(model=[0]))
    with pytest.raises(AlignmentError, match="same name"):
        ap.evaluate_runs(QRELS, [runs[0], runs[0]])


@pytest.mark.filterwarnings("ignore:no retrieved document is judged")
@pytest.mark.needs("pytrec_eval")
@given(
    qrels=st.fixed_dictionaries({"t1": GRADES, "t2": GRADES}),
    run=st.fixed_dictionaries({"t1": LISTS}, optional={"t2": LISTS, "t9": LISTS}),
)
def test_areas_are_those_of_pytrec_eval(qrels: Grades, run: dict[str, dict[str, float]]) -> None:
    import pytrec_eval

    measures = {"map": "average_precision", "P_5": "precision_at(5)", "recall_5": "recall_at(5)"}
    expected = pytrec_eval.RelevanceEvaluator(qrels, {*measures}).evaluate(run)
    found = ap.evaluate_runs(qrels, {"run": run}, [*measures.values()], interval=())["estimate"].squeeze("model")
    for topic in qrels:
        values = [expected[topic][name] if topic in expected else 0 for name in measures]  # as with trec_eval -c
        np.testing.assert_allclose(found.sel(query=topic), values, atol=1e-12)


@pytest.mark.parametrize(
    "names",
    [
        ("query_id", "doc_id", "relevance", "score", "run_id"),  # ir_measures
        ("qid", "docno", "label", "score", "name"),  # PyTerrier
        ("query-id", "corpus-id", "score", "score", "run"),  # BEIR
        ("topic", "document", "grade", "score", "model"),
    ],
)
def test_frames_give_what_dictionaries_give(names: tuple[str, ...]) -> None:
    judged, scored = frames(QRELS, RUNS, *names)
    expected = ap.evaluate_runs(QRELS, RUNS)
    xr.testing.assert_identical(ap.evaluate_runs(judged, scored), expected)
    of_each = {name: part.drop(columns=names[-1]) for name, part in scored.groupby(names[-1])}
    xr.testing.assert_identical(ap.evaluate_runs(judged, of_each), expected)


@pytest.mark.needs("polars")
def test_frames_of_polars_give_what_dictionaries_give() -> None:
    import polars

    names = ("query_id", "doc_id", "relevance", "score", "run_id")
    judged, scored = map(polars.from_pandas, frames(QRELS, RUNS, *names))
    xr.testing.assert_identical(ap.evaluate_runs(judged, scored), ap.evaluate_runs(QRELS, RUNS))


def test_rows_of_named_tuples_are_a_frame() -> None:
    Qrel = namedtuple("Qrel", ["query_id", "doc_id", "relevance", "iteration"])
    rows = [Qrel(t, d, g, "0") for t, listed in QRELS.items() for d, g in listed.items()]
    xr.testing.assert_identical(ap.evaluate_runs(rows, RUNS), ap.evaluate_runs(QRELS, RUNS))


def test_another_convention_and_options_are_passed_on() -> None:
    found = ap.evaluate_runs(QRELS, RUNS, "average_precision", no_positives="drop")
    assert np.isnan(found["estimate"].sel(query="q3")).all()
    assert ap.compare(ap.evaluate_runs(QRELS | {"q3": {"d1": 1}}, RUNS), seed=0).sizes["model"] == 2


@pytest.mark.parametrize(
    ("qrels", "runs", "error", "message"),
    [
        (QRELS, {}, InvalidInputError, "there is no run"),
        ({}, RUNS, InvalidInputError, "there is no line"),
        (QRELS, {"a": {"q9": {"d": 1}}}, AlignmentError, "the run has no topic of the qrels"),
        ({"q1": {"d": 0.5}}, RUNS, InvalidInputError, r"not a whole number[\s\S]*qrels, line 1[\s\S]*0\.5"),
        ({"q1": {"d": 200}}, RUNS, InvalidInputError, "not a whole number in range"),
        ({"q1": {"d": None}}, RUNS, InvalidInputError, "not a whole number in range"),
        (QRELS, {"a": {"q1": {"d1": "high"}}}, InvalidInputError, r"not a number[\s\S]*run 'a', line 1"),
        (QRELS, {"a": {"q1": {"d1": np.nan}}}, InvalidInputError, "not a number"),
        (QRELS, {"a": {"q1": [("d1", 1)], "q2": {"d1": 1}}}, InvalidInputError, r"not a mapping[\s\S]*topic 'q1'"),
        (QRELS, "bm25.run", InvalidInputError, r"no run here[\s\S]*bm25\.run[\s\S]*matches no file"),
        (QRELS, 3, InvalidInputError, "neither a mapping nor a data frame"),
        (QRELS, {1: RUNS["bm25"], "1": RUNS["dense"]}, AlignmentError, "same name"),
        (QRELS, {"a": {"q1": {"": 1}}}, InvalidInputError, "no name"),
        (QRELS, {"a": {None: {"d1": 1}}}, InvalidInputError, "no name"),
        (QRELS, {"a": {"q1": {"\udce9": 1}}}, InvalidInputError, "not Unicode"),
        (pd.DataFrame({"qid": ["q1"], "grade": [1]}), RUNS, InvalidInputError, r"no column 'doc_id'[\s\S]*'docno'"),
    ],
)
def test_what_is_wrong_is_named(qrels: Any, runs: Any, error: type[AucprError], message: str) -> None:
    with pytest.raises(error, match=message):
        ap.evaluate_runs(qrels, runs)


def test_a_document_twice_is_refused_or_dropped() -> None:
    judged, scored = frames(QRELS, RUNS, "qid", "docno", "label", "score", "name")
    twice = pd.concat([scored, scored[:1].assign(score=-1.0)])
    with pytest.raises(FileFormatError, match="occurs twice"):
        ap.evaluate_runs(judged, twice)
    expected = ap.evaluate_runs(QRELS, RUNS)
    expected.attrs["notes"] = [*expected.attrs["notes"], "repeated documents, first kept: bm25 (1)"]
    xr.testing.assert_identical(ap.evaluate_runs(judged, twice, duplicates="first"), expected)


def test_a_retrieved_document_without_a_grade_is_listed_and_lists_without_judgments_are_told() -> None:
    qrels = {"q1": {"D2": -1, "d1": 1}, "q2": {"d3": 1}}
    runs = {"a": {"q1": {"D2": 2.0}, "q9": {"x": 1.0}}, "b": {"q1": {"d1": 1.0}, "q2": {"d3": 1.0}}}
    with pytest.warns(UnjudgedWarning, match="no retrieved document is judged, so all areas are 0: a"):
        result = ap.evaluate_runs(qrels, runs)
    assert result["estimate"].values.tolist() == [[0, 0], [1, 1]]
    assert "topics that are not in the qrels, ignored: a (1)" in result.attrs["notes"]
    assert "topics without a list: a (1)" in result.attrs["notes"]
    with pytest.warns(UnjudgedWarning):
        ap.from_runs({"q1": {"D100": 1}}, {"a": {"q1": {"100": 1.0}}})


def test_runs_and_judgments_are_tables_and_files_of_tables(tmp_path: Path) -> None:
    qrels = pd.DataFrame({"query_id": ["1", "1", "2"], "doc_id": ["007", "d2", "d3"], "relevance": [0, 1, 1]})
    run = pd.DataFrame({"query_id": ["1", "1", "2"], "doc_id": ["007", "d2", "d3"], "score": [2.0, 1.5, 0.5]})
    expected = ap.evaluate_runs(qrels, {"bm25": run})["estimate"]
    for suffix, write in {"csv": "to_csv", "parquet": "to_parquet"}.items():
        for name, frame in {"qrels": qrels, "bm25": run}.items():
            getattr(frame, write)(tmp_path / f"{name}.{suffix}", index=False)
        paths = tmp_path / f"qrels.{suffix}", tmp_path / f"bm25.{suffix}"
        xr.testing.assert_equal(ap.evaluate_runs(*paths)["estimate"], expected)
        done = CliRunner().invoke(
            main, ["import", "trec", str(paths[1]), str(tmp_path / f"{suffix}.zarr"), "--qrels", str(paths[0])]
        )
        assert done.exit_code == 0, done.output
        stored = ap.evaluate(ap.open_scores(tmp_path / f"{suffix}.zarr"), convention="trec_eval")["estimate"]
        np.testing.assert_array_equal(stored, expected)
    named = ap.evaluate_runs(qrels, {"bm25": run}, ["map", "P_5", "recall_100"])
    assert named["estimator"].values.tolist() == ["average_precision", "precision_at(5)", "recall_at(100)"]
    (tmp_path / "bad.csv").write_text("query_id,doc_id,score\n1,d,x\n")
    with pytest.raises(FileFormatError, match=r"not a number[\s\S]*line 2"):
        ap.evaluate_runs(qrels, tmp_path / "bad.csv")


@pytest.mark.needs("ir_measures")
def test_all_measures_of_a_table_follow_one_rule_for_ties_and_are_known_by_trec_evals_names(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("".join(f"q{t} 0 d{d} {int(d == t)}\n" for t in range(8) for d in range(9)))
    run = "".join(f"q{t} Q0 d{d} 0 {(d * t) % 2} x\n" for t in range(8) for d in range(9))  # many ties
    (tmp_path / "a.run").write_text(run)
    words = ["--qrels", str(tmp_path / "qrels"), "--measures", "AP@10 RR@10 map ndcg_cut_10 P_10 recall_100"]
    done = ok("table", tmp_path / "a.run", *words, "--json")
    found = json.loads(done.stdout)
    means = found["models"][0]["means"]
    assert [*means] == ["AP@10", "RR@10", "AP", "nDCG@10", "P@10", "R@100"]
    assert means["RR@10"] == means["AP@10"] == means["AP"]  # there is one relevant document
    assert "ties by name" in found["caption"]
    assert "Nothing is compared: there is one model." in found["caption"]
