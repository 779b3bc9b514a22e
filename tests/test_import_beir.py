"""Runs and judgments in the formats of BEIR and MS MARCO give the lists of the same lines in TREC's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import aucpr_dask as ap
from aucpr_dask.errors import AlignmentError, FileFormatError
from aucpr_dask.scores.importing import trec
from aucpr_dask.scores.importing.trec import import_trec

JUDGED = {"q1": {"d1": 2, "d2": 0, "d3": 1}, "q2": {"d9": 1}}
RETRIEVED = {"q1": {"d3": 3.5, "d1": 2.5, "d7": 1.5}, "q2": {"d8": 7.0, "d9": 6.0}}


def _lines(table: dict[str, dict[str, Any]], form: str, end: str = "\n") -> str:
    return "".join(form.format(t=t, d=d, v=v) + end for t, listed in table.items() for d, v in listed.items())


QRELS_FORMS = {
    "qrels.trec": _lines(JUDGED, "{t} 0 {d} {v}"),
    "beir.tsv": "query-id\tcorpus-id\tscore\n" + _lines(JUDGED, "{t}\t{d}\t{v}"),
    "bare.tsv": _lines(JUDGED, "{t}\t{d}\t{v}"),
    "turned.tsv": "corpus-id\tquery-id\tscore\n" + _lines(JUDGED, "{d}\t{t}\t{v}", "\r\n"),
    "beir.jsonl": _lines(JUDGED, '{{"query-id": "{t}", "corpus-id": "{d}", "score": {v}}}'),
    "camel.jsonl": _lines(JUDGED, '{{"queryId": "{t}", "docId": "{d}", "relevance": {v}}}'),
    "q.csv": "Topic ID,DocNo,Relevance\n" + _lines(JUDGED, "{t},{d},{v}"),
    "q.json": json.dumps(JUDGED, indent=1),
    "one_line.json": json.dumps(JUDGED),
}
RUN_FORMS = {
    "run.txt": _lines(RETRIEVED, "{t} Q0 {d} 1 {v} x"),
    "run.tsv": "query-id\tcorpus-id\tscore\n" + _lines(RETRIEVED, "{t}\t{d}\t{v}"),
    "bare.tsv": _lines(RETRIEVED, "{t}\t{d}\t{v}"),
    "run.csv": "q_id,doc_id,score\n" + _lines(RETRIEVED, "{t},{d},{v}"),
    "run.jsonl": _lines(RETRIEVED, '{{"query-id": "{t}", "corpus-id": "{d}", "score": {v}}}'),
    "run.json": json.dumps(RETRIEVED),
    "marco.tsv": "q1\td3\t1\nq1\td1\t2\nq1\td7\t3\nq2\td8\t1\nq2\td9\t2\n",
}


def _imported(folder: Path, run: str, qrels: str) -> xr.Dataset:
    (folder / run).write_text(RUN_FORMS[run])
    (folder / qrels).write_text(QRELS_FORMS[qrels])
    import_trec(folder / run, folder / qrels, folder / "s.zarr", overwrite=True)
    found = ap.open_scores(folder / "s.zarr")
    assert isinstance(found, xr.Dataset)
    return found.load()


@pytest.mark.sparse
@pytest.mark.parametrize("by_arrow", [True, False])
@pytest.mark.parametrize(
    ("run", "qrels"), [*[(run, "qrels.trec") for run in RUN_FORMS], *[("run.txt", qrels) for qrels in QRELS_FORMS]]
)
def test_every_format_has_the_same_lists(
    tmp_path: Path, run: str, qrels: str, by_arrow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not by_arrow:
        monkeypatch.setattr(trec, "_regular", lambda *block: None)
    expected, found = _imported(tmp_path, "run.txt", "qrels.trec"), _imported(tmp_path, run, qrels)
    for name in ("label", "n_positive"):
        np.testing.assert_array_equal(found[name], expected[name])
    if run == "marco.tsv":  # ranks in place of scores
        assert found["score"].values[0, 0].tolist() == [-1, -2, -3]
    else:
        np.testing.assert_array_equal(found["score"], expected["score"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"q1": {"d1": "x"}}', "score is not a number"),
        ('{"q1": [1]}', "no run and no judgments in JSON"),
        ('{"query-id": "q1", "corpus-id": "d"}\n', "line 1"),
        ('{"query-id": "q1", "corpus-id": "d", "score": 1}\n[]\n', "line 2"),
        ("{}", "the file is empty"),
        ('{"q1": {"d1": 1}}\n{}\n', "no run and no judgments in JSON"),
        ("{" * 10**5, "JSON"),
        ("query-id\tcorpus-id\tscore\nq1\td1\n", "line 2"),
        ("q1\td1\t1\nq1\td2\tx\n", "line 2"),
        ("q1 Q0 d1\n", "wrong number of columns"),
    ],
)
def test_lines_of_these_formats_that_are_wrong_are_named(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "a.run").write_text(text)
    (tmp_path / "qrels").write_text(QRELS_FORMS["qrels.trec"])
    with pytest.raises(FileFormatError, match=words):
        import_trec(tmp_path / "a.run", tmp_path / "qrels", tmp_path / "s.zarr")


def test_a_run_without_tags_is_not_named_by_one(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(RUN_FORMS["marco.tsv"])
    (tmp_path / "qrels").write_text(QRELS_FORMS["qrels.trec"])
    with pytest.raises(AlignmentError, match="no tags"):
        import_trec(tmp_path / "a.tsv", tmp_path / "qrels", tmp_path / "s.zarr", named_by="tag")


@pytest.mark.needs("ir_measures")
def test_measures_of_these_formats_are_those_of_trec(tmp_path: Path) -> None:
    from aucpr_dask.interplay.retrieval import import_measures

    found = []
    for run, qrels in (("run.txt", "qrels.trec"), ("run.json", "beir.tsv"), ("marco.tsv", "beir.jsonl")):
        _imported(tmp_path, run, qrels)
        url = tmp_path / f"{run}.zarr"
        import_measures(tmp_path / run, tmp_path / qrels, tmp_path / "s.zarr", url, "AP nDCG@10 RR")
        found.append(ap.open_result(url)["estimate"].values)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ("007 Q0 d1 1 1.0 x\n", r"no topic of the qrels[\s\S]*write them alike: '007' and '7'"),
        ("7.0 Q0 d1 1 1.0 x\n", r"write them alike: '7.0' and '7'"),
        ("7 Q0 D1 1 1.0 x\n7 Q0 d9 2 0.5 x\n", r"some are written in another way[\s\S]*topic '7'[\s\S]*'D1' and 'd1'"),
        ("q8 Q0 d1 1 1.0 x\n", "give the qrels of these topics"),
    ],
)
def test_names_that_are_written_in_another_way_are_named(tmp_path: Path, runs: str, words: str) -> None:
    (tmp_path / "a.run").write_text(runs)
    (tmp_path / "qrels").write_text("7 0 d1 1\n7 0 d2 0\n")
    with pytest.raises(AlignmentError, match=words):
        import_trec(tmp_path / "a.run", tmp_path / "qrels", tmp_path / "s.zarr")


def test_a_run_may_have_no_judged_document(tmp_path: Path) -> None:
    (tmp_path / "a.run").write_text("7 Q0 x 1 1.0 x\n")
    (tmp_path / "qrels").write_text("7 0 d1 1\n7 0 d2 0\n")
    import_trec(tmp_path / "a.run", tmp_path / "qrels", tmp_path / "s.zarr")
