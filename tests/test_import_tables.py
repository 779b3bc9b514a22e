"""Wide tables: what is stored against a slow parse and expected figures, and every way a table can be wrong."""

from __future__ import annotations

import bz2
import csv
import decimal
import gzip
import lzma
import math
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.compute
import pyarrow.feather
import pytest

import aucpr_dask as ap
from aucpr_dask.errors import AlignmentError, AucprError, FileFormatError, InvalidInputError
from aucpr_dask.schema.terms import nodes_of
from aucpr_dask.scores.importing import files, table_files
from aucpr_dask.scores.importing.tables import import_table
from aucpr_dask.scores.store import open_scores
from aucpr_dask.storage import stores

SPLICE = Path(__file__).parent / "data" / "splice-tools"


TABLE = """\
id,set,topic,y,w,forest,linear,remark
a,s,q1,1,0.5,0.75,-1,x
b,t,q1,0,1,0.1,,y
c,s,q2,0,2,0.25,1e-3,z
d,s,q1,-1,3,NA,0,
"""
NAN = math.nan
COMPRESSORS = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}


@pytest.fixture
def table(tmp_path):
    (tmp_path / "t.csv").write_text(TABLE)
    return tmp_path / "t.csv"


def load(path, **options):
    """Import a table; return what was stored and the summary."""
    url = path.parent / "s.zarr"
    summary = import_table(path, url, overwrite=True, **options)
    return open_scores(url).load(), summary


def tie_grouped_average_precision(score, label):
    """Return the average precision over the scored items, ties as one block, by counting."""
    scored = ~np.isnan(score)
    score, label = score[scored], label[scored]
    ranks = (score >= score[:, None]).sum(axis=1)
    hits = ((score >= score[:, None]) & (label == 1)).sum(axis=1)
    return (hits / ranks)[label == 1].mean()


class TestLayouts:
    def test_items(self, table):
        scores, summary = load(table, label="y", item="id", weight="w", exclude=["set", "topic"])
        np.testing.assert_array_equal(scores["score"], [[0.75, 0.1, 0.25, NAN], [-1, NAN, 1e-3, 0]])
        assert scores["label"].values.tolist() == [1, 0, 0, -1]
        assert scores["weight"].values.tolist() == [0.5, 1, 2, 3]
        assert scores["item"].values.tolist() == ["a", "b", "c", "d"]
        assert scores["model"].values.tolist() == ["forest", "linear"]
        assert scores["n_missing"].values.tolist() == [1, 1]
        assert (summary.models, summary.queries, summary.items, summary.datasets) == (2, 0, 4, 1)
        assert summary.notes == (
            "columns taken as models: 'forest', 'linear'",
            "columns that are not numeric, left out: 'remark'",
        )

    def test_queries(self, table):
        scores, summary = load(table, label="y", query="topic", weight="w", models=["linear", "forest"])
        assert scores["query"].values.tolist() == ["q1", "q2"]
        assert scores["label"].values.tolist() == [[1, 0, -1], [0, -2, -2]]
        assert scores["weight"].values.tolist() == [[0.5, 1, 3], [2, 0, 0]]
        expected = [[[-1, NAN, 0], [1e-3, NAN, NAN]], [[0.75, 0.1, NAN], [0.25, NAN, NAN]]]
        np.testing.assert_array_equal(scores["score"], expected)
        assert scores["n_missing"].values.tolist() == [[1, 0], [1, 0]]
        assert (summary.queries, summary.items) == (2, 4)

    def test_data_sets(self, table):
        scores, summary = load(table, label="y", item="id", dataset="set", models="[fl]*")
        assert list(scores.children) == ["s", "t"]
        assert scores["s/item"].values.tolist() == ["a", "c", "d"]
        np.testing.assert_array_equal(scores["s/score"], [[0.75, 0.25, NAN], [-1, 1e-3, 0]])
        np.testing.assert_array_equal(scores["t/score"], [[0.1], [NAN]])
        assert (summary.items, summary.datasets) == (4, 2)

    def test_clusters_and_folds(self, table):
        options = {"label": "y", "models": "forest", "clusters": "set", "fold": "w", "exclude": "id"}
        with pytest.raises(FileFormatError, match=r"(?s)not a fold.*line 2, column 'w'"):
            load(table, **options)
        table.write_text(TABLE.replace("0.5", "4"))
        scores, _ = load(table, **options)
        assert scores["cluster"].values.tolist() == ["s", "t", "s", "s"]
        assert scores["fold"].values.tolist() == [4, 1, 2, 3]
        scores, _ = load(table, label="y", models="forest", query="id", clusters="set")
        assert scores["cluster"].dims == ("query",)
        with pytest.raises(AlignmentError, match=r"(?s)a query has one cluster.*'q1'"):
            load(table, label="y", models="forest", query="topic", clusters="set")

    @pytest.mark.parametrize("jobs", [{}, {"dataset": "d"}])
    def test_repeats(self, tmp_path, monkeypatch, jobs):
        rng = np.random.default_rng(0)
        cells = [(item, repeat, item % 3 == 0, "uv"[item > 7]) for item in range(12) for repeat in (2, 10)]
        rows = [(*cells[i], rng.integers(4), *rng.random(2).round(3)) for i in rng.permutation(24)]
        frame = pd.DataFrame(rows, columns=["id", "rep", "y", "d", "k", "a", "b"])
        frame.to_csv(tmp_path / "t.csv", index=False)
        options = {"label": "y", "item": "id", "repeat": "rep", "fold": "k", "by": "d", **jobs}
        scores, summary = load(tmp_path / "t.csv", models=["a", "b"], **options)
        assert summary.items == 12
        for name, own in frame.groupby("d") if jobs else [("", frame)]:
            node = (scores[name].to_dataset() if name else scores).sortby("item").sortby("repeat")
            assert node["score"].dims == ("model", "repeat", "item")
            assert node["repeat"].values.tolist() == [2, 10]
            wide = own.assign(id=own["id"].astype(str)).pivot(index="rep", columns="id")
            for column, role in (("a", node["score"].sel(model="a")), ("k", node["fold"]), ("y", node["label"])):
                found = role.broadcast_like(node["fold"])
                np.testing.assert_array_equal(found, wide[column], err_msg=column)
        long = frame.melt(["id", "rep", "y", "d", "k"], var_name="model", value_name="score")
        tidy = ap.from_dataframe(long, model="model", **options)
        assert ap.from_dataframe(frame, models=["a", "b"], **options).equals(tidy)
        monkeypatch.setattr(stores, "CHUNK_BYTES", 100)
        assert load(tmp_path / "t.csv", models=["a", "b"], **options)[0].identical(scores)
        bad = [
            (frame.iloc[1:], {}, AlignmentError, "0 rows of item"),
            (frame, {"item": "y"}, AlignmentError, "rows of item"),
            (frame.assign(w=np.arange(24.0)), {"weight": "w"}, AlignmentError, "repeats differ in the weight"),
            (frame, {"item": None}, InvalidInputError, "matched by name"),
        ]
        for table, other, error, says in bad:
            with pytest.raises(error, match=says):
                ap.from_dataframe(table, models=["a", "b"], **(options | other))

    def test_data_sets_of_queries(self, table):
        scores, summary = load(table, label="y", query="topic", dataset="set", models="forest")
        np.testing.assert_array_equal(scores["s/score"], [[[0.75, NAN], [0.25, NAN]]])
        assert scores["s/label"].values.tolist() == [[1, -1], [0, -2]]
        assert scores["t/query"].values.tolist() == ["q1"]
        assert (summary.queries, summary.items) == (3, 4)

    def test_files_one_below_the_other(self, table):
        other = table.with_name("u.tsv")
        other.write_text("y\tforest\tid\tset\ttopic\tw\tremark\tlinear\n1\t5\te\ts\tq\t1\t\t6\n")
        scores, _ = load(table.parent / "[tu].*", label="y", item="id", models=["forest", "linear"])
        assert scores["item"].values.tolist() == list("abcde")
        np.testing.assert_array_equal(scores["score"].values[:, -1], [5, 6])

    def test_float32(self, table):
        scores, _ = load(table, label="y", models="forest", dtype="float32")
        assert scores["score"].dtype == "f4"
        np.testing.assert_array_equal(scores["score"][0, 1], np.float32(0.1))

    def test_negate(self, table):
        scores, _ = load(table, label="y", models=["forest", "linear"], negate="linear")
        np.testing.assert_array_equal(scores["score"], [[0.75, 0.1, 0.25, NAN], [1, NAN, -1e-3, 0]])
        assert not np.signbit(scores["score"].values[1, 3])
        scores, _ = load(table, label="y", models=["forest", "linear"], negate=True)
        np.testing.assert_array_equal(scores["score"][:, 0], [-0.75, 1])

    @pytest.mark.parametrize("jobs", [{}, {"query": "q"}, {"dataset": "d"}, {"query": "q", "dataset": "d"}])
    def test_blocks_of_any_size_give_the_same(self, tmp_path, monkeypatch, jobs):
        rng = np.random.default_rng(1)
        rows = np.column_stack([rng.integers(0, (3, 2, 2), (30, 3)), rng.random((30, 5))]).tolist()
        lines = ["q,d,y,a,b,c,e,f", *(",".join(map(str, row)) for row in rows)]
        (tmp_path / "t.csv").write_text("\n".join(lines))
        expected, _ = load(tmp_path / "t.csv", label="y", models=list("abcef"), **jobs)
        for cells, size in ((1, 1), (56, 900), (2**20, 200)):
            monkeypatch.setattr(table_files, "BATCH_CELLS", cells)
            monkeypatch.setattr(stores, "CHUNK_BYTES", size)
            scores, _ = load(tmp_path / "t.csv", label="y", models=list("abcef"), **jobs)
            assert scores.identical(expected)


class TestTidy:
    HEAD, OPTIONS = "run,id,s,y,w\n", {"label": "y", "model": "run", "item": "id", "score": "s"}
    ROWS = ("b,x,0.5,1,2\n", "a,z,,0,3\n", "b,z,0.25,0,3\n", "a,x,3,1,2\n", "b,q,1,-1,1\n")

    @pytest.mark.parametrize("cells", [1, 2**18])
    def test_equals_the_wide_table(self, tmp_path, monkeypatch, cells):
        monkeypatch.setattr(table_files, "BATCH_CELLS", cells)
        (tmp_path / "t.csv").write_text(self.HEAD + "".join(self.ROWS[:2]))
        (tmp_path / "u.csv").write_text(self.HEAD + "".join(self.ROWS[2:]))
        scores, summary = load(tmp_path / "*.csv", **self.OPTIONS, weight="w")
        (tmp_path / "wide").write_text("id,y,w,b,a\nx,1,2,0.5,3\nz,0,3,0.25,\nq,-1,1,1,\n")
        expected, _ = load(tmp_path / "wide", label="y", item="id", models=["b", "a"], weight="w")
        assert scores.equals(expected)
        assert str(summary) == "2 models, 3 items, 1 data set"
        with pytest.raises(ap.errors.MissingScoresError):
            ap.evaluate(scores)
        chosen, _ = load(tmp_path / "*.csv", **self.OPTIONS, models=["a", "b"], exclude="b", negate="a")
        np.testing.assert_array_equal(chosen["score"], [[-3, NAN, NAN]])

    @pytest.mark.parametrize("jobs", [{"query": "q"}, {"dataset": "d"}, {"query": "q", "dataset": "d"}, {"by": ["q"]}])
    def test_queries_and_data_sets(self, tmp_path, jobs):
        rng = np.random.default_rng(3)
        wide = pd.DataFrame(rng.random((40, 3)).round(3), columns=list("abc"))
        wide = wide.assign(q=np.arange(40) % 3, d=np.arange(40) // 3 % 2, y=rng.integers(0, 2, 40), id=range(40))
        tidy = wide.melt(["q", "d", "y", "id"], var_name="model", value_name="score")
        wide.to_csv(tmp_path / "w.csv", index=False)
        tidy.to_csv(tmp_path / "t.csv", index=False)
        item = {} if "query" in jobs else {"item": "id"}
        expected, _ = load(tmp_path / "w.csv", label="y", models=list("abc"), **item, **jobs)
        scores, _ = load(tmp_path / "t.csv", label="y", model="model", item="id", **jobs)
        pairs = list(zip(nodes_of(scores), nodes_of(expected), strict=True))
        assert all(one.equals(other) for (_, one), (_, other) in pairs)

    @pytest.mark.parametrize(
        ("row", "options", "error", "message"),
        [
            (
                "a,x,1,1,2\n",
                {},
                AlignmentError,
                r"scores an item twice.*line 7.*1 rows, first: id 'x', run 'a'.*dataset=\.\.\.",
            ),
            ("c,x,1,0,2\n", {}, AlignmentError, r"models differ in the 'y'.*line 7, column 'y'.*id 'x', y 0"),
            ("c,x,1,1,9\n", {"weight": "w"}, AlignmentError, r"differ in the 'w'.*line 7, column 'w'"),
            ("c,x,1,1,-9\n", {"weight": "w"}, FileFormatError, r"not a weight.*line 7, column 'w'"),
            ("c,x,one,1,2\n", {}, FileFormatError, r"not a number.*line 7, column 's'"),
            ("c,x,1,2,2\n", {}, FileFormatError, r"not a label.*line 7, column 'y'"),
            (",x,1,1,2\n", {}, FileFormatError, r"name is missing.*line 7, column 'run'"),
            ("", {"item": None}, InvalidInputError, r"tidy table needs item names"),
            ("", {"score": "S"}, InvalidInputError, r"no column.*'S'.*did you mean 's'"),
            ("", {"models": "c"}, InvalidInputError, r"no column.*'c'"),
            ("", {"exclude": "[ab]"}, InvalidInputError, r"no model is left"),
            ("c,x/y,1,1,2\n", {"dataset": "id", "item": "w"}, InvalidInputError, r"not a valid name.*line 7.*'x/y'"),
        ],
    )
    def test_wrong(self, tmp_path, row, options, error, message):
        (tmp_path / "t.csv").write_text(self.HEAD + "".join(self.ROWS) + row)
        with pytest.raises(error, match=f"(?s){message}"):
            load(tmp_path / "t.csv", **self.OPTIONS | options)

    def test_is_not_taken_for_a_wide_table(self, tmp_path):
        (tmp_path / "t.csv").write_text("model,id,score,y\na,x,0.5,1\n")
        with pytest.raises(InvalidInputError, match=r"column of models[\s\S]*model='model', item="):
            load(tmp_path / "t.csv", label="y", item="id")


class TestText:
    @pytest.mark.parametrize("suffix", COMPRESSORS)
    def test_compressed(self, table, suffix):
        compress = COMPRESSORS[suffix]
        expected, _ = load(table, label="y", models=["forest", "linear"])
        packed = table.with_name("t.csv" + suffix)
        packed.write_bytes(compress(TABLE.encode()))
        scores, _ = load(packed, label="y", models=["forest", "linear"])
        assert scores.equals(expected)
        packed.write_bytes(compress(np.random.default_rng(0).bytes(9999).hex().encode())[:-50])
        with pytest.raises(FileFormatError, match="truncated"):
            load(packed, label="y")

    def test_zstandard(self, table):
        pa = pytest.importorskip("pyarrow")
        packed = table.with_name("t.csv.zst")
        with pa.CompressedOutputStream(str(packed), "zstd") as stream:
            stream.write(TABLE.encode())
        scores, _ = load(packed, label="y", models=["forest", "linear"])
        assert scores.sizes == {"model": 2, "item": 4}
        packed.write_bytes(packed.read_bytes()[:-20])
        with pytest.raises(FileFormatError, match=packed.name):
            load(packed, label="y")

    @pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
    def test_separators_quotes_and_blank_lines(self, tmp_path, separator):
        text = '\ufeff"a ""b""","y","no\nte"\r\n\r\n1.5,1,"x\r\ny"\r\n" 2 ",0,\r\n\r\n'.replace(",", separator)
        for before in ("", "\r\n\n"):
            (tmp_path / "t.csv").write_text(before + text[before > "" :], encoding="utf-8", newline="")
            scores, _ = load(tmp_path / "t.csv", label="y")
            assert scores["model"].values.tolist() == ['a "b"']
            assert scores["score"].values.tolist() == [[1.5, 2]]

    def test_named_separator(self, tmp_path):
        (tmp_path / "t.txt").write_text("y a,b\n1 2.5\n0 3\n")
        scores, _ = load(tmp_path / "t.txt", label="y", separator=" ")
        assert scores["model"].values.tolist() == ["a,b"]

    def test_numbers_are_read_exactly(self, tmp_path):
        values = np.random.default_rng(0).random(500) * 10.0 ** np.arange(-250, 250)
        (tmp_path / "t.csv").write_text("y,a\n" + "".join(f"1,{value!r}\n" for value in values.tolist()))
        scores, _ = load(tmp_path / "t.csv", label="y")
        np.testing.assert_array_equal(scores["score"].values[0], values)

    def test_columns_without_a_name_are_no_models(self, tmp_path):
        (tmp_path / "t.csv").write_text(",y,a\n0,1,5.5\n1,0,6\n")
        scores, _ = load(tmp_path / "t.csv", label="y")
        assert scores["model"].values.tolist() == ["a"]

    def test_a_model_without_scores_is_noted(self, tmp_path):
        (tmp_path / "t.csv").write_text("y,a,b\n1,,5\n0,,6\n")
        _, summary = load(tmp_path / "t.csv", label="y", models=["a", "b"])
        assert summary.notes == ("models without a score: a",)

    def test_strings_stay_strings(self, tmp_path):
        (tmp_path / "t.csv").write_text("y,id,set,a\n1,007,NA,1.5\n0,null,1.0,2\n")
        scores, _ = load(tmp_path / "t.csv", label="y", item="id", dataset="set")
        assert set(scores.children) == {"NA", "1.0"}
        assert scores["NA/item"].values.tolist() == ["007"]

    @pytest.mark.sparse
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("y,a\n1, 1.5 \n0,+2\n1,inf\n0,-Infinity\n1,NA\n0,\n1,nan\n", [1.5, 2, np.inf, -np.inf, NAN, NAN, NAN]),
            ("y,a\n1,1e999\n0,-1e999\n1,1e-999\n0,5e-324\n", [np.inf, -np.inf, 0, 5e-324]),
            ("y,a\n1, NA \n0,  \n1,0.1\n", [NAN, NAN, 0.1]),
            ("y,a\n1,9007199254740992\n0,1e300\n1,18014398509481984\n", [2**53, 1e300, 2**54]),
            ('y,a,b\r\n1,"0.1","x, ""y\r\n\r\nz"""\r\n\r\n0,0.2,""\r\n', [0.1, 0.2]),
            ('y,a,b\n1,0.1,5" disk\n0,0.2,x\n1,0.3,"x\n0,y"\n', [0.1, 0.2, 0.3]),
            ("y,a\r1,0.1\r0,0.2\r", [0.1, 0.2]),
            ("\n\ny,a\n1,0.1\n\n0,0.2", [0.1, 0.2]),
            ('"y\nx",a,,\n1,0.1,a,b\n0,0.2,,\n', [0.1, 0.2]),
            ("y,a,é\n1,0.1,ü\n0,\uff11,ß\n", [0.1, 1]),
            ("y¦a\n1¦0.1\n0¦0.2\n", [0.1, 0.2]),
        ],
    )
    @pytest.mark.parametrize("cells", [1, 2, 2**18])
    def test_arrow_and_the_csv_module_agree(self, tmp_path, monkeypatch, text, expected, cells):
        (tmp_path / "t.csv").write_text(text, encoding="utf-8", newline="")
        label, separator = ("y\nx" if text.startswith('"y') else "y"), "¦" if "¦" in text else ","
        options = {"label": label, "models": "a", "separator": separator}
        monkeypatch.setattr(table_files, "BATCH_CELLS", cells)
        stored = [load(tmp_path / "t.csv", **options)[0]]
        monkeypatch.setattr(table_files.TextTable, "_by_arrow", lambda *block: None)
        stored.append(load(tmp_path / "t.csv", **options)[0])
        for scores in stored:
            np.testing.assert_array_equal(scores["score"].values[0], expected)
            assert scores["label"].values.tolist() == [1 - n % 2 for n in range(len(expected))]

    @pytest.mark.parametrize("bad", ["1,x\n", "1\n", "1,2,3\n", '1,"2"3\n', '1,"2\n', "1,9007199254740993\n"])
    def test_errors_name_the_line_in_any_block(self, tmp_path, monkeypatch, bad):
        found = []
        for cells in (1, 2**18, None):
            if cells is None:
                monkeypatch.setattr(table_files.TextTable, "_by_arrow", lambda *block: None)
            monkeypatch.setattr(table_files, "BATCH_CELLS", cells or 2**18)
            (tmp_path / "t.csv").write_text('y,a\n1,2.5\n\n0,"3"\n' + bad + "0,1\n")
            with pytest.raises(FileFormatError, match=r"line 5") as error:
                load(tmp_path / "t.csv", label="y", models="a")
            found.append(str(error.value))
        assert len({*found}) == 1


class TestLabels:
    @pytest.mark.parametrize(
        "cells", [("1", "0", "-1"), ("1.0", "0.0", "-1.0"), ("True", "false", "-1"), (" 1", "0 ", "-1")]
    )
    def test_the_usual_ones(self, tmp_path, cells):
        (tmp_path / "t.csv").write_text("y,a\n" + "".join(f"{cell},0.5\n" for cell in cells))
        scores, _ = load(tmp_path / "t.csv", label="y")
        assert scores["label"].values.tolist() == [1, 0, -1]

    @pytest.mark.parametrize(
        ("cells", "positive"),
        [(("ill", "well"), "ill"), (("2", "1"), 2), (("2.0", "1"), 2), (("0", "1"), 0), (("TRUE", "FALSE"), True)],
    )
    def test_any_two(self, tmp_path, cells, positive):
        (tmp_path / "t.csv").write_text("y,a\n" + "".join(f"{cell},0.5\n" for cell in cells * 3))
        scores, _ = load(tmp_path / "t.csv", label="y", pos_label=positive)
        assert scores["label"].values.tolist() == [1, 0] * 3

    @pytest.mark.parametrize(
        ("cells", "positive", "message"),
        [
            (("1", "", "0"), None, r"(?s)label is missing.*t\.csv, line 3, column 'y'"),
            (("1", "NaN", "0"), None, r"(?s)label is missing.*t\.csv, line 3, column 'y'"),
            (("1", "2", "0"), None, r"(?s)not a label.*t\.csv, line 3, column 'y'.*'2'.*pos_label="),
            (("a", "b", "c"), "a", r"(?s)third value.*t\.csv, line 4, column 'y'.*'c'.*'a' \(positive\) and 'b'"),
            (("no", "yes", "no"), "Yes", r"(?s)no label is 'Yes'.*did you mean 'yes'.*line 3"),
            (("b", "b", "b"), "a", r"(?s)positive label does not occur.*'a'.*'b'"),
        ],
    )
    def test_wrong(self, tmp_path, cells, positive, message):
        (tmp_path / "t.csv").write_text("y,a\n" + "".join(f"{cell},0.5\n" for cell in cells))
        with pytest.raises(AucprError, match=message):
            load(tmp_path / "t.csv", label="y", pos_label=positive)


class TestWrong:
    @pytest.mark.parametrize(
        ("text", "options", "error", "message"),
        [
            ("", {}, FileFormatError, "the file is empty"),
            ("y,a\n", {}, FileFormatError, "the table has no rows"),
            ("y,a,a\n1,2,3\n", {}, FileFormatError, r"(?s)same name.*line 1.*'a'"),
            ("y,a\n1,x\n0\n", {"models": "a"}, FileFormatError, r"line 2, column 'a'"),
            ("y,a\n1,2.5\n0\n", {}, FileFormatError, r"(?s)too few cells.*t\.csv, line 3.*1 cells.*2 cells"),
            ("y,a\n1,2.5\n\n0,2,3\n", {}, FileFormatError, r"(?s)too many cells.*t\.csv, line 4"),
            ('y,a,b\n1,2,"x\ny"\n0,bad,z\n', {"models": "a"}, FileFormatError, r"(?s)line 4, column 'a'.*'bad'"),
            ("y,a\n1,2\n0,1_0\n", {"models": "a"}, FileFormatError, r"line 3, column 'a'\n  received: '1_0'"),
            ('y,a\n1,"2\n', {}, FileFormatError, r"cannot be read\n  where: .*t\.csv, line 2"),
            ("y,a\n1,\ud8002\n", {}, FileFormatError, r"not UTF-8"),
            ("y,a\n1,x\n", {}, InvalidInputError, r"(?s)no column is a model.*models="),
            ("y,a\n1,2.5\n", {"label": "Y"}, InvalidInputError, r"no column 'Y'; did you mean 'y'\?\n.*\n.*: 'Y'"),
            ("y,forest,b\n1,2.5,3.5\n", {"models": "forst"}, InvalidInputError, r"did you mean 'forest'"),
            ("y,forest,b\n1,2.5,3.5\n", {"exclude": "g: *"}, InvalidInputError, r"no column"),
            ("y,forest,b\n1,2.5,3.5\n", {"negate": ["y"]}, InvalidInputError, r"(?s)models to negate.*'y'.*forest"),
            ("y,a\n1,2.5\n", {"models": ["y", "a"]}, InvalidInputError, "both a model and something else"),
            ("y,a,w\n1,2.5,1\n0,1,-1\n", {"weight": "w"}, FileFormatError, r"(?s)not a weight.*line 3, column 'w'"),
            ("y,a,w\n1,2.5,1\n0,1,\n", {"weight": "w"}, FileFormatError, r"(?s)not a weight.*line 3, column 'w'"),
            ("y,a,i\n1,2.5,x\n0,1,\n", {"item": "i"}, FileFormatError, r"(?s)cell is empty.*line 3, column 'i'"),
            ("y,a,i\n1,2.5,x\n0,1,x\n", {"item": "i"}, AlignmentError, r"(?s)must be unique.*'x'"),
            ("y,a,i\n1,2.5,x/y\n", {"dataset": "i"}, InvalidInputError, r"(?s)not a valid name.*line 2.*'x/y'"),
            ("y,a,i\n1,2.5,x\n", {"item": "i", "query": "i"}, InvalidInputError, "leave out item"),
            ("y,a\n1,2.5\n", {"dtype": "int8"}, InvalidInputError, "unknown dtype"),
        ],
    )  # fmt: skip
    def test_text(self, tmp_path, text, options, error, message):
        (tmp_path / "t.csv").write_text(text, errors="surrogatepass", newline="")
        with pytest.raises(error, match=message):
            load(tmp_path / "t.csv", **{"label": "y"} | options)
        assert not (tmp_path / "s.zarr").exists()

    def test_number_fails_late(self, tmp_path, monkeypatch):
        monkeypatch.setattr(table_files, "BATCH_CELLS", 4)
        (tmp_path / "t.csv").write_text("y,a\n" + "1,2.5\n" * 9 + "0,none\n")
        with pytest.raises(FileFormatError, match=r"(?s)line 11, column 'a'.*'none'.*exclude='a'"):
            load(tmp_path / "t.csv", label="y")

    def test_files_of_different_columns(self, tmp_path):
        (tmp_path / "t.csv").write_text("y,a\n1,2.5\n")
        (tmp_path / "u.csv").write_text("y,b\n1,2.5\n")
        with pytest.raises(FileFormatError, match=r"(?s)different columns.*'a', 'b'"):
            load(tmp_path / "*.csv", label="y")


class TestParquet:
    @pytest.fixture(autouse=True)
    def arrow(self):
        self.pa = pytest.importorskip("pyarrow")
        self.pq = pytest.importorskip("pyarrow.parquet")

    def write(self, path, columns, **options):
        self.pq.write_table(self.pa.table(columns), path, **options)
        return path

    def test_equals_text(self, table):
        from pyarrow import csv as arrow_csv

        columns = arrow_csv.read_csv(table, convert_options=arrow_csv.ConvertOptions(null_values=["", "NA"]))
        self.pq.write_table(columns, table.with_name("t.parquet"), row_group_size=2)
        for jobs in ({"item": "id"}, {"query": "topic"}, {"dataset": "set", "weight": "w"}):
            options = {"label": "y", "exclude": ["w"] if "weight" not in jobs else [], **jobs}
            expected, _ = load(table, **options)
            scores, _ = load(table.with_name("t.parquet"), **options)
            pairs = zip(nodes_of(scores), nodes_of(expected), strict=True)
            for (path, one), (expected_path, other) in pairs:
                assert path == expected_path
                assert one.equals(other)

    def test_types(self, tmp_path):
        pa = self.pa
        path = self.write(
            tmp_path / "t.parquet",
            {
                "y": pa.array([True, False, True]),
                "f2": pa.array(np.array([1, 2, 3], np.float16)),
                "f4": pa.array([0.5, None, NAN], pa.float32()),
                "i8": pa.array([1, None, 3]),
                "u1": pa.array([1, 2, 255], pa.uint8()),
                "truth": pa.array([True, False, None]),
                "id": pa.array([7, 8, 9]),
                "set": pa.array(["u", "v", "u"]).dictionary_encode(),
                "text": ["a", "b", "c"],
            },
        )
        numbers = ["f2", "f4", "i8", "u1"]
        scores, _ = load(path, label="y", item="id", dataset="set", models=numbers)
        assert scores["u/item"].values.tolist() == ["7", "9"]
        assert scores["u/label"].values.tolist() == [1, 1]
        np.testing.assert_array_equal(scores["u/score"], [[1, 3], [0.5, NAN], [1, 3], [1, 255]])
        _, summary = load(path, label="y", item="id", dataset="set")
        assert summary.notes == (
            "columns taken as models: 'f2', 'f4'",
            "columns that are not numeric, left out: 'truth', 'text'",
            "columns of whole numbers, or named like ids, weights, ages, times or places, left out: 'i8', 'u1'",
        )
        scores, _ = load(path, label="y", models="truth")
        np.testing.assert_array_equal(scores["score"], [[1, 0, NAN]])

    def test_columns_that_look_like_ids_are_named_and_left_out(self, tmp_path):
        n = 120
        columns = {
            "userId": np.arange(n)[::-1],
            "row": np.full(n, 3),
            "counter": np.arange(n) + 1,
            "later": np.arange(n) + 5.5,
            "age": np.arange(n) % 7,
            "index": np.arange(n) / 1.0,
            "score_id": np.linspace(0, 1, n),  # not whole
            "patientAge": np.arange(n) + 0.5,
            "y": np.arange(n) % 2,
        }
        lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
        (tmp_path / "t.csv").write_text("\n".join(lines))
        scores, summary = load(tmp_path / "t.csv", label="y")
        assert scores["model"].values.tolist() == ["later", "score_id"]
        assert summary.notes == (
            "columns taken as models: 'later', 'score_id'",
            "columns of whole numbers, or named like ids, weights, ages, times or places, left out: "
            "'userId', 'row', 'counter', 'age', 'index', 'patientAge'",
        )
        scores, summary = load(tmp_path / "t.csv", label="y", models=["userId", "later"])
        assert scores["model"].values.tolist() == ["userId", "later"]
        assert summary.notes == ()
        with pytest.raises(InvalidInputError, match=r"no column is a model[\s\S]*'row'[\s\S]*models="):
            load(tmp_path / "t.csv", label="y", exclude=["later", "s*"])

    @pytest.mark.parametrize(
        ("columns", "options", "message"),
        [
            (
                {"y": [1, 0], "a": ["1", "2"]},
                {"models": "a"},
                r"(?s)cannot be read as numbers.*rows 1 to 2, column 'a'",
            ),
            (
                {"y": [1, 0], "a": [1, 2**53 + 1]},
                {"models": "a"},
                r"(?s)without rounding.*row 2, column 'a'",
            ),
            ({"y": [1, None], "a": [0.1, 0.2]}, {}, r"(?s)label is missing.*t\.parquet, row 2, column 'y'"),
            ({"y": [1, 3], "a": [0.1, 0.2]}, {}, r"(?s)not a label.*t\.parquet, row 2, column 'y'"),
        ],
    )
    def test_wrong(self, tmp_path, columns, options, message):
        path = self.write(tmp_path / "t.parquet", columns)
        with pytest.raises(FileFormatError, match=message):
            load(path, label="y", **options)


class TestOtherFormats:
    def test_every_format_gives_the_same(self, table):
        frame = pd.read_csv(table, keep_default_na=False, na_values=["", "NA"])
        frame.to_feather(table.with_name("t.feather"))
        frame.to_json(table.with_name("t.jsonl"), orient="records", lines=True)
        frame.to_json(table.with_name("t.json.gz"), orient="records", lines=True)
        pa_table = pyarrow.Table.from_pandas(frame)
        with (
            pyarrow.OSFile(str(table.with_name("t.arrow")), "wb") as file,
            pyarrow.ipc.new_stream(file, pa_table.schema) as out,
        ):
            out.write_table(pa_table, 2)
        for jobs in ({"item": "id"}, {"query": "topic"}, {"dataset": "set", "weight": "w"}, {"by": ["set", "topic"]}):
            options = {"label": "y", "models": ["linear", "forest"], **jobs}
            expected, _ = load(table, **options)
            for name in ("t.feather", "t.jsonl", "t.json.gz", "t.arrow"):
                scores, _ = load(table.with_name(name), **options)
                for (_, one), (_, other) in zip(nodes_of(scores), nodes_of(expected), strict=True):
                    assert one.equals(other), name

    def test_numbers_as_codes_or_runs_are_numbers(self, tmp_path):
        plain = {
            "y": [1, 0, 0, 1],
            "a": [0.5, 0.5, None, 2.0],
            "b": [1.5, 2.5, 2.5, 0.1],
            "g": [1, 1, 3, 3],
            "w": [1, 2, 2, 1],
        }
        packed = {name: pyarrow.array(cells).dictionary_encode() for name, cells in plain.items()}
        packed["b"] = pyarrow.compute.run_end_encode(pyarrow.array(plain["b"]))
        for name, columns in {"plain": plain, "packed": packed}.items():
            pyarrow.feather.write_feather(pyarrow.table(columns), tmp_path / f"{name}.feather")
        options = {"label": "y", "models": ["a", "b"], "by": ["g"], "weight": "w"}
        scores, expected = (load(tmp_path / f"{name}.feather", **options)[0] for name in ("packed", "plain"))
        assert scores.drop_attrs().identical(expected.drop_attrs())

    @pytest.mark.parametrize("cells", [1, 2**18])
    def test_json_lines_in_any_block(self, tmp_path, monkeypatch, cells):
        monkeypatch.setattr(table_files, "BATCH_CELLS", cells)
        lines = ['{"y": 1, "a": 1, "b": "x"}', "", '{"y": 0, "a": 0.1}', '{"a": NaN, "b": "z", "y": -1}']
        (tmp_path / "t.jsonl").write_text("\n".join(lines))
        scores, _ = load(tmp_path / "t.jsonl", label="y", models="a")
        np.testing.assert_array_equal(scores["score"], [[1, 0.1, NAN]])
        for line, message in (
            ('{"y": 1, "a": oops}', "cannot be read.*line 5"),
            ('{"y": 1, "a": 0.5, "c": 1}', "" if cells > 1 else r"not in the first lines.*line 5.*'c'"),
            ('{"y": 1, "a": 9007199254740993}', "without rounding.*line 5, column 'a'"),
            ('{"y": 2, "a": 1}', "not a label.*line 5, column 'y'"),
            ('{"y": 1, "a": [1]}', "line"),
        ):
            (tmp_path / "t.jsonl").write_text("\n".join([*lines, line]))
            if message:
                with pytest.raises(FileFormatError, match=f"(?s){message}"):
                    load(tmp_path / "t.jsonl", label="y", models="a")

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"y;a\n1;0.5\n0;0,25\n", "line 3, column 'a'.*write decimals with a point: 0.25"),
            ("y,a\n1,0.5\n0,é\n".encode("latin1"), r"not UTF-8.*line 3.*0xe9"),
            ("y,é\n1,0.5\n".encode("latin1"), r"not UTF-8.*line 1"),
            ("y,a\n1,0.5\n".encode("utf-16"), "not UTF-8.*UTF-16"),
            (b"PK\x03\x04 a workbook", "no table.*spreadsheet"),
            (b"ARROW1 damaged, damaged", "Arrow file cannot be read"),
            (b'[{"y": 1, "a": 0.5}]', "same name|no column|cannot be read"),
        ],
    )
    def test_other_content_is_named(self, tmp_path, content, message):
        (tmp_path / "t.csv").write_bytes(content)
        with pytest.raises(AucprError, match=f"(?s){message}"):
            load(tmp_path / "t.csv", label="y", models="a")

    def test_decimals_are_exact(self):
        frame = pd.DataFrame({"y": [1, 0], "a": list(map(decimal.Decimal, ["0.1", "9007199254740993.5"]))})
        scores = ap.from_dataframe(frame, label="y", models="a")
        assert scores["score"].values[0].tolist() == [0.1, 9007199254740993.5]
        with pytest.raises(FileFormatError, match=r"without rounding[\s\S]*row 2"):
            ap.from_dataframe(frame.assign(a=[decimal.Decimal(1), decimal.Decimal(2**53 + 1)]), label="y", models="a")


class TestStore:
    @pytest.mark.slow
    def test_memory_does_not_grow_with_the_rows(self, tmp_path, monkeypatch):
        monkeypatch.setattr(stores, "CHUNK_BYTES", 2**16)
        monkeypatch.setattr(table_files, "BATCH_CELLS", 2**12)
        monkeypatch.setattr(files, "HELD", 2**19)
        line = "1," + ",".join(["0.123456"] * 99) + "\n"
        peaks = []
        for number in (300, 300, 3000):
            (tmp_path / "t.csv").write_text(",".join(["y", *map(str, range(99))]) + "\n" + line * number)
            tracemalloc.start()
            import_table(tmp_path / "t.csv", tmp_path / "s.zarr", label="y", overwrite=True)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert peaks[2] - peaks[1] < 3000 * 99 * 8 / 2


@pytest.mark.smoke
def test_splice_tools_by_data_set(tmp_path):
    import_table(SPLICE / "scores.csv", tmp_path / "s.zarr", label="label", dataset="dataset", item="variant")
    scores = open_scores(tmp_path / "s.zarr").load()
    with (SPLICE / "scores.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    for row in rows:
        one = scores[row["dataset"]].to_dataset().sel(item=row["variant"])
        assert int(one["label"]) == int(row["label"])
        expected = [float(row[model] or "nan") for model in one["model"].values]
        np.testing.assert_array_equal(one["score"].values, expected)
    assert sum(node.sizes["item"] for node in scores.children.values()) == len(rows) == 213
    with (SPLICE / "expected_ap.csv").open() as lines:
        for row in csv.DictReader(lines):
            one = scores[row["dataset"]].to_dataset().sel(model=row["tool"])
            assert int(row["n"]) - int(one["n_missing"]) == int(row["n_scored"])
            area = tie_grouped_average_precision(one["score"].values, one["label"].values)
            assert area == pytest.approx(float(row["ap_scored"]), abs=1e-6)


@pytest.mark.slow
class TestClinvar:
    @pytest.fixture
    def folder(self, real_data):
        return real_data / "clinvar-vep-sample"

    def test_scores_and_signs(self, folder, tmp_path):
        with (folder / "expected_ap.csv").open() as lines:
            expected = [row for row in csv.DictReader(lines) if row["group"] == "all"]
        import_table(
            folder / "sample_data.csv.gz",
            tmp_path / "s.zarr",
            label="ClinVar_label",
            item="ID",
            models=[row["model"] for row in expected],
            negate=[row["model"] for row in expected if row["sign"] == "-1"],
        )
        scores = open_scores(tmp_path / "s.zarr").load()
        assert scores.sizes == {"model": 45, "item": 1000}
        for row in expected:
            one = scores.sel(model=row["model"])
            assert 1000 - int(one["n_missing"]) == int(row["n_scored"])
            area = tie_grouped_average_precision(one["score"].values, one["label"].values)
            assert area == pytest.approx(float(row["ap"]), abs=1e-6)

    def test_excluded_by_pattern(self, folder, tmp_path):
        summary = import_table(
            folder / "sample_data.csv.gz", tmp_path / "s.zarr", label="ClinVar_label", exclude=["group: *", "MANE_*"]
        )
        models = open_scores(tmp_path / "s.zarr")["model"].values.tolist()
        assert {"AlphaMissense", "PhyloP"} <= set(models)
        assert "POS" not in models  # whole numbers
        assert not any(name.startswith(("group: ", "MANE_")) for name in models)
        assert summary.models == len(models)
