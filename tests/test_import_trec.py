"""TREC runs: what is stored against a slow parse, published figures, and every way a file can be wrong."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import tracemalloc
from collections import defaultdict

import numpy as np
import pandas as pd
import pytest

from aucpr_dask import evaluate
from aucpr_dask.errors import AlignmentError, FileFormatError, InvalidInputError, StoreError
from aucpr_dask.schema.options import DTYPES, LAYOUTS
from aucpr_dask.scores.importing import files, trec
from aucpr_dask.scores.importing.trec import import_trec
from aucpr_dask.scores.store import open_scores
from aucpr_dask.storage import stores

COMPRESSORS = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}

RUN_A = """\
q1 Q0 d2 1 0.5 a
q1 Q0 d10 2 0.5 a
q1 Q0 d1 3 2e0 a
q2 Q0 x 1 -1 a
q9 Q0 x 1 7 a
"""
RUN_B = "q2 Q0 y 1 3.25 b\nq2 Q0 x 2 3.5 b\n"
QRELS = "q1 0 d1 0\nq1 0 d2 1\nq1 0 d7 3\nq1 0 d10 -1\nq2 0 x 1\nq2 0 z -2\nq3 0 w 0\n"


@pytest.mark.parametrize("letters", [b"0123456789", b"a\xff", bytes(range(1, 256))])
@pytest.mark.parametrize("longest", [1, 6, 20, 200])
def test_lines_are_in_the_order_of_topics_and_of_the_bytes_of_documents(letters, longest):
    random = np.random.default_rng(longest)
    for n_topics in (1, 5, 40_000):
        names = [bytes(random.choice([*letters], random.integers(1, longest + 1)).tolist()) for _ in range(100)]
        names = [f"D{n}".encode() + name for n, name in enumerate(names) for _ in range(2)]
        topic, document = random.integers(-1, n_topics, 200), [names[at] for at in random.integers(0, 200, 200)]
        expected = sorted(range(200), key=lambda line: (topic[line], document[line]))
        assert trec._order(topic, trec.identifiers(document)).tolist() == expected


@pytest.fixture
def small(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "a.txt").write_text(RUN_A)
    (tmp_path / "runs" / "b.run").write_text(RUN_B)
    (tmp_path / "qrels").write_text(QRELS)
    return tmp_path


@pytest.mark.parametrize("layout", ["per-run", "pooled"])
def test_a_long_identifier_costs_its_own_bytes(tmp_path, layout):
    names = ["x" * 1_000_000, "x" * 1_000_001, *(f"d{n}" for n in range(2000))]
    (tmp_path / "qrels").write_text("".join(f"q 0 {name} {n % 2}\n" for n, name in enumerate(names)))
    (tmp_path / "run").write_text("".join(f"q Q0 {name} 1 {n % 7} t\n" for n, name in enumerate(names)))
    tracemalloc.start()
    try:
        import_trec(tmp_path / "run", tmp_path / "qrels", tmp_path / "s.zarr", layout=layout)
        assert tracemalloc.get_traced_memory()[1] < 40e6
    finally:
        tracemalloc.stop()
    for file in ("qrels", "run"):
        text = (tmp_path / file).read_text().replace("x" * 1_000_000, "x" * 40)
        (tmp_path / file).write_text(text)
    import_trec(tmp_path / "run", tmp_path / "qrels", tmp_path / "short.zarr", layout=layout)
    long, short = (open_scores(tmp_path / f"{name}.zarr").load() for name in ("s", "short"))
    assert long.equals(short)


def test_long_topics_cost_their_own_bytes(tmp_path):
    topics = ["t" * 1_000_000, *map(str, range(300))]
    (tmp_path / "qrels").write_text("".join(f"{topic} 0 d 1\n" for topic in topics))
    (tmp_path / "run").write_text("".join(f"{topic} Q0 d 1 1 t\n" for topic in topics))
    tracemalloc.start()
    try:
        import_trec(tmp_path / "run", tmp_path / "qrels", tmp_path / "s.zarr")
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


def slow_lists(path, qrels_path):
    """Parse a run and its judgments line by line into trec_eval's order."""
    opener = lzma.open if path.suffix == ".xz" else open
    judged = {}
    with (lzma.open if qrels_path.suffix == ".xz" else open)(qrels_path, "rt") as lines:
        for line in lines:
            topic, _, document, grade = line.split()
            judged[topic, document] = int(grade)
    lists = defaultdict(dict)
    with opener(path, "rt") as lines:
        for line in lines:
            topic, _, document, _, score, _ = line.split()
            lists[topic].setdefault(document, float(score))
    topics = {topic for topic, _ in judged}
    result = {}
    for topic in topics:
        documents = sorted(lists[topic], key=lambda d: (lists[topic][d], d.encode()), reverse=True)
        ties = {d: i for i, d in enumerate(sorted(lists[topic], key=str.encode, reverse=True))}
        result[topic] = [(lists[topic][d], judged.get((topic, d), -1), ties[d]) for d in documents]
    return result


def average_precision(label, n_positive, positive_from=1):
    """Return the average precision of a list in its order."""
    hits = np.flatnonzero(label >= positive_from)
    return float((np.arange(1, len(hits) + 1) / (hits + 1)).sum() / n_positive) if n_positive else 0.0


def expected_maps(path, column):
    with path.open() as lines:
        return {row["run"]: float(row[column]) for row in csv.DictReader(lines) if row[column]}


class TestSmall:
    def test_per_run(self, small):
        summary = import_trec(small / "runs", small / "qrels", small / "s.zarr", dtype="float64")
        scores = open_scores(small / "s.zarr")
        assert scores["model"].values.tolist() == ["a", "b"]
        assert scores["query"].values.tolist() == ["q1", "q2", "q3"]
        nan = np.nan
        np.testing.assert_array_equal(
            scores["score"], [[[2, 0.5, 0.5], [-1, nan, nan], [nan] * 3], [[nan] * 3, [3.5, 3.25, nan], [nan] * 3]]
        )
        assert scores["label"].values.tolist() == [
            [[0, 1, -1], [1, -2, -2], [-2, -2, -2]],
            [[-2, -2, -2], [1, -1, -2], [-2, -2, -2]],
        ]
        # By descending bytes: "d2" > "d10" > "d1".
        assert scores["tie_order"].values.tolist() == [
            [[2, 0, 1], [0, -1, -1], [-1, -1, -1]],
            [[-1, -1, -1], [1, 0, -1], [-1, -1, -1]],
        ]
        assert scores["grade"].values.tolist() == [1, 2, 3]
        assert scores["n_positive"].values.tolist() == [[2, 1, 1], [1, 0, 0], [0, 0, 0]]
        assert scores["n_missing"].values.sum() == 0
        assert (scores["score"].dtype, scores["label"].dtype, scores["tie_order"].dtype) == ("f8", "i1", "i4")
        assert (summary.models, summary.queries, summary.items, summary.datasets) == (2, 3, 6, 1)
        assert summary.notes == (
            "topics without a list: a (1), b (2)",
            "topics that are not in the qrels, ignored: a (1)",
        )

    def test_pooled(self, small):
        summary = import_trec(small / "runs", small / "qrels", small / "s.zarr", layout="pooled")
        scores = open_scores(small / "s.zarr")
        nan = np.nan
        # q1: d7 d2 d10 d1; q2: z y x; q3: w
        assert scores["label"].values.tolist() == [[3, 1, -1, 0], [0, -1, 1, -2], [0, -2, -2, -2]]
        assert scores["tie_order"].values.tolist() == [[0, 1, 2, 3], [0, 1, 2, -1], [0, -1, -1, -1]]
        np.testing.assert_array_equal(
            scores["score"],
            [
                [[nan, 0.5, 0.5, 2], [nan, nan, -1, nan], [nan] * 4],
                [[nan] * 4, [nan, 3.25, 3.5, nan], [nan] * 4],
            ],
        )
        assert scores["n_missing"].values.tolist() == [[1, 2, 1], [4, 1, 1]]
        assert (summary.queries, summary.items) == (3, 8)

    def test_binary_judgments_have_no_grades(self, small):
        (small / "qrels").write_text("q1 0 d1 1\nq1 0 d2 0\n")
        import_trec(small / "runs" / "a.txt", small / "qrels", small / "s.zarr")
        assert open_scores(small / "s.zarr")["n_positive"].dims == ("query",)

    def test_names_that_look_like_numbers_or_nothing_stay_strings(self, tmp_path):
        (tmp_path / "null.txt").write_text("NA Q0 null 1 1 t\nNA Q0 007 1 2 t\n007 Q0 nan 1 1 t\n")
        (tmp_path / "qrels").write_text("NA 0 null 1\nNA 0 7 1\n007 0 nan 1\n")
        import_trec(tmp_path / "null.txt", tmp_path / "qrels", tmp_path / "s.zarr")
        scores = open_scores(tmp_path / "s.zarr")
        assert scores["query"].values.tolist() == ["NA", "007"]
        assert scores["label"].values.tolist() == [[[-1, 1], [1, -2]]]

    def test_tie_order_is_that_of_bytes(self, tmp_path):
        documents = ["é", "z", "Z", "a", "aa", "\U0001f600", "\uffee"]
        (tmp_path / "r").write_text("".join(f"1 Q0 {d} 0 1 t\n" for d in documents), encoding="utf-8")
        (tmp_path / "qrels").write_text("1 0 z 1\n")
        import_trec(tmp_path / "r", tmp_path / "qrels", tmp_path / "s.zarr", layout="per-run")
        label = open_scores(tmp_path / "s.zarr")["label"].values[0, 0]
        best_first = sorted(documents, key=lambda d: d.encode(), reverse=True)
        assert label.argmax() == best_first.index("z")

    def test_float32_ties_scores_that_float64_distinguishes(self, tmp_path):
        (tmp_path / "r").write_text("1 Q0 a 0 1.00000000001 t\n1 Q0 b 0 1.0 t\n")
        (tmp_path / "qrels").write_text("1 0 a 1\n1 0 b 0\n")
        labels = {}
        for dtype in DTYPES:
            import_trec(tmp_path / "r", tmp_path / "qrels", tmp_path / "s.zarr", dtype=dtype, overwrite=True)
            scores = open_scores(tmp_path / "s.zarr")
            assert scores["score"].dtype == dtype
            labels[dtype] = scores["label"].values.ravel().tolist()
        assert labels == {"float64": [1, 0], "float32": [0, 1]}

    def test_named_data_set(self, small):
        import_trec(small / "runs", small / "qrels", small / "s.zarr", dataset="web")
        assert list(open_scores(small / "s.zarr").children) == ["web"]

    def test_windows_lines_byte_order_mark_blank_lines_tabs(self, small):
        import_trec(small / "runs", small / "qrels", small / "s.zarr")
        odd = "\ufeff" + RUN_A.replace(" ", "\t ").replace("\n", " \r\n\r\n") + "\n  "
        (small / "runs" / "a.txt").write_text(odd, encoding="utf-8", newline="")
        import_trec(small / "runs", small / "qrels", small / "t.zarr")
        assert open_scores(small / "s.zarr").identical(open_scores(small / "t.zarr"))

    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_blocks_of_any_size_give_the_same(self, small, monkeypatch, layout):
        import_trec(small / "runs", small / "qrels", small / "s.zarr", layout=layout)
        expected = open_scores(small / "s.zarr").load()
        for read_bytes, write_bytes in ((1, 1), (7, 64), (40, 100)):
            monkeypatch.setattr(trec, "_BLOCK_BYTES", read_bytes)
            monkeypatch.setattr(stores, "CHUNK_BYTES", write_bytes)
            import_trec(small / "runs", small / "qrels", small / "t.zarr", layout=layout, overwrite=True)
            scores = open_scores(small / "t.zarr")
            assert scores["score"].chunks != expected["score"].chunks
            assert scores.load().identical(expected)

    @pytest.mark.sparse
    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    @pytest.mark.parametrize("blank", [" ", "\t", "  "])
    def test_a_reader_of_tables_and_one_of_lines_give_the_same(self, tmp_path, monkeypatch, blank, end):
        rng = np.random.default_rng(0)
        values = [
            *map(repr, rng.normal(size=500).tolist()),
            *["1e-400", "-inf", "Infinity", ".5", "1.", "5e-324", "-0"],
        ]
        values += [repr(x) for x in rng.integers(0, 2**64, 200, dtype=np.uint64).view(float).tolist() if x == x]
        documents = ["é" * 9, '"', "'a", "NA", "null", "\ufeff", "\x7f", "a" * 128, "-1", *map(str, range(len(values)))]
        run = [(f"q{n % 3}", "Q0", documents[n], str(n), value, "t") for n, value in enumerate(values)]
        qrels = [(f"q{n % 3}", "0", document, str(n % 5 - 2)) for n, document in enumerate(documents)]
        for name, lines in (("run", run), ("qrels", qrels)):
            text = "".join(blank.join(line) + end for line in lines)
            (tmp_path / name).write_text(text, encoding="utf-8", newline="")
        import_trec(tmp_path / "run", tmp_path / "qrels", tmp_path / "s.zarr", dtype="float64")
        monkeypatch.setattr(trec, "_regular", lambda *_: None)
        import_trec(tmp_path / "run", tmp_path / "qrels", tmp_path / "t.zarr", dtype="float64")
        assert open_scores(tmp_path / "s.zarr").load().identical(open_scores(tmp_path / "t.zarr").load())

    def test_regular_lines_are_read_as_a_table(self, small, monkeypatch):
        monkeypatch.setattr(trec, "_irregular", None)
        import_trec(small / "runs", small / "qrels", small / "s.zarr")
        (small / "runs" / "a.txt").write_text(RUN_A.replace(" ", "\t"), newline="\r\n")
        import_trec(small / "runs", small / "qrels", small / "t.zarr")
        assert open_scores(small / "s.zarr").identical(open_scores(small / "t.zarr"))

    def test_progress(self, small):
        seen = []
        import_trec(small / "runs", small / "qrels", small / "s.zarr", on_progress=lambda *event: seen.append(event))
        assert seen == [("reading runs", 1, 2), ("reading runs", 2, 2), ("writing blocks", 1, 1)]


class TestFiles:
    @pytest.mark.sparse
    @pytest.mark.parametrize("suffix", COMPRESSORS)
    @pytest.mark.parametrize("is_named", [True, False])
    def test_compressed_by_what_it_is(self, small, suffix, is_named):
        import_trec(small / "runs", small / "qrels", small / "s.zarr")
        plain = small / "runs" / "a.txt"
        packed = plain.with_name("a.txt" + suffix) if is_named else plain
        plain.unlink()
        packed.write_bytes(COMPRESSORS[suffix](RUN_A.encode()))
        import_trec(small / "runs", small / "qrels", small / "t.zarr")
        assert open_scores(small / "s.zarr").identical(open_scores(small / "t.zarr"))

    @pytest.mark.parametrize("suffix", COMPRESSORS)
    def test_truncated_or_corrupt(self, small, suffix):
        path = small / f"t.txt{suffix}"
        rng = np.random.default_rng(0)
        lines = "".join(f"q1 Q0 {i} 0 {rng.random()} t\n" for i in range(2000))
        corrupt = bytearray(COMPRESSORS[suffix](rng.bytes(4000).hex().encode()))
        corrupt[500:600] = bytes(100)
        truncated = COMPRESSORS[suffix](lines.encode())[:-200]
        for content, message in ((truncated, rf"truncated\n.*{path.name}"), (corrupt, path.name)):
            path.write_bytes(content)
            with pytest.raises(FileFormatError, match=message):
                import_trec(path, small / "qrels", small / "s.zarr")

    def test_promised_compression_is_absent(self, small):
        (small / "c.gz").write_text(RUN_A)
        with pytest.raises(FileFormatError, match=r"named \.gz but is not gzip"):
            import_trec(small / "c.gz", small / "qrels", small / "s.zarr")

    def test_patterns_and_lists(self, small):
        summary = import_trec(str(small / "runs" / "*.txt"), small / "qrels", small / "s.zarr")
        assert summary.models == 1
        both = [small / "runs" / "b.run", small / "runs" / "a.txt"]
        import_trec(both, small / "qrels", small / "s.zarr", overwrite=True)
        assert open_scores(small / "s.zarr")["model"].values.tolist() == ["b", "a"]

    def test_nothing_there(self, small):
        with pytest.raises(InvalidInputError, match=r"no run here\n.*absent"):
            import_trec(small / "absent", small / "qrels", small / "s.zarr")
        with pytest.raises(InvalidInputError, match="no run was named"):
            import_trec([], small / "qrels", small / "s.zarr")
        with pytest.raises(InvalidInputError, match="cannot be read"):
            import_trec(small / "runs", small / "absent", small / "s.zarr")

    def test_two_files_of_one_name(self, small):
        (small / "runs" / "a.res").write_text(RUN_A)
        with pytest.raises(AlignmentError, match=r"model 'a'\n.*a\.res and .*a\.txt"):
            import_trec(small / "runs", small / "qrels", small / "s.zarr")


class TestMalformed:
    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("q1 Q0 d3 3 0.1", "wrong number of columns\n  where: .*a.txt, line 3\n  received: 5 columns"),
            ("q1 Q0 d 3 3 0.1 a", "wrong number of columns\n  where: .*a.txt, line 3\n  received: 7 columns"),
            ("q1 Q0 d3 3 high a", "the score is not a number\n  where: .*a.txt, line 3\n  received: 'high'"),
            ("q1 Q0 d3 3 nan a", "the score is not a number\n  where: .*a.txt, line 3\n  received: 'nan'"),
            ("q1 Q0 d3 3 1_0 a", "the score is not a number\n  where: .*a.txt, line 3\n  received: '1_0'"),
            ("q1 Q0 d3 3 1,5 a", "the score is not a number\n  where: .*a.txt, line 3\n  received: '1,5'"),
            ("q1 Q0 d\0 3 1 a", "not a text file\n  where: .*a.txt, line 3"),
        ],
    )
    @pytest.mark.parametrize("block_bytes", [20, 2**20])
    def test_line(self, small, monkeypatch, line, message, block_bytes):
        monkeypatch.setattr(trec, "_BLOCK_BYTES", block_bytes)
        (small / "runs" / "a.txt").write_text(f"q1 Q0 d1 1 2 a\n\n{line}\nq1 Q0 d4 4 bad a\nq1\n")
        with pytest.raises(FileFormatError, match=message):
            import_trec(small / "runs", small / "qrels", small / "s.zarr")
        assert not (small / "s.zarr").exists()

    @pytest.mark.parametrize("content", ["", "\n \n"])
    def test_empty(self, small, content):
        (small / "runs" / "a.txt").write_text(content)
        with pytest.raises(FileFormatError, match=r"the file is empty\n.*a\.txt"):
            import_trec(small / "runs", small / "qrels", small / "s.zarr")

    @pytest.mark.parametrize("grade", ["", "1.0", "yes", "128"])
    def test_grade(self, small, grade):
        (small / "qrels").write_text(f"q1 0 d1 0\nq1 0 d2 {grade}\n")
        with pytest.raises(FileFormatError, match=r"qrels, line 2"):
            import_trec(small / "runs", small / "qrels", small / "s.zarr")

    def test_no_topic_in_common(self, small):
        (small / "qrels").write_text("other 0 d1 0\n")
        with pytest.raises(AlignmentError, match=r"(?s)no topic of the qrels.*a\.txt.*'q1'.*'other'"):
            import_trec(small / "runs", small / "qrels", small / "s.zarr")

    @pytest.mark.parametrize("option", ["layout", "dtype", "duplicates"])
    def test_option(self, small, option):
        with pytest.raises(InvalidInputError, match=f"unknown {option}"):
            import_trec(small / "runs", small / "qrels", small / "s.zarr", **{option: "other"})


class TestDuplicates:
    def test_in_a_run(self, small):
        (small / "runs" / "a.txt").write_text("q1 Q0 d1 1 2 a\nq2 Q0 d1 1 2 a\nq1 Q0 e 3 1 a\nq1 Q0 d1 9 5 a\n")
        with pytest.raises(FileFormatError, match=r"(?s)a\.txt, lines 1 and 4.*'d1' of topic 'q1'"):
            import_trec(small / "runs", small / "qrels", small / "s.zarr")
        summary = import_trec(small / "runs", small / "qrels", small / "s.zarr", duplicates="first")
        assert "repeated documents, first kept: a (1)" in summary.notes
        np.testing.assert_array_equal(open_scores(small / "s.zarr")["score"][0, 0], [2, 1])

    def test_in_the_judgments(self, small):
        (small / "qrels").write_text("q1 0 d1 1\nq2 0 d1 0\nq1 0 d1 1\n")
        import_trec(small / "runs", small / "qrels", small / "s.zarr")
        assert open_scores(small / "s.zarr")["n_positive"].values.tolist() == [1, 0]
        (small / "qrels").write_text("q1 0 d1 1\nq2 0 d1 0\nq1 0 d1 2\n")
        with pytest.raises(FileFormatError, match=r"(?s)qrels, lines 1 and 3.*grades 1 and 2"):
            import_trec(small / "runs", small / "qrels", small / "t.zarr")
        summary = import_trec(small / "runs", small / "qrels", small / "t.zarr", duplicates="first")
        assert open_scores(small / "t.zarr")["n_positive"].values.tolist() == [1, 0]
        assert summary.notes[0] == "qrels: 1 document judged differently again, first grade kept"


class TestStore:
    def test_a_crash_leaves_no_store_that_opens(self, small, monkeypatch):
        monkeypatch.setattr(stores, "CHUNK_BYTES", 1)

        def crash(what, done, total):
            if what == "writing blocks" and done == total - 1:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            import_trec(small / "runs", small / "qrels", small / "s.zarr", on_progress=crash)
        with pytest.raises(StoreError, match="never finished"):
            open_scores(small / "s.zarr")
        import_trec(small / "runs", small / "qrels", small / "s.zarr", overwrite=True)
        open_scores(small / "s.zarr")

    def test_existing_store_is_refused_before_anything_is_read(self, small):
        import_trec(small / "runs", small / "qrels", small / "s.zarr")
        with pytest.raises(StoreError, match="overwrite"):
            import_trec(small / "absent", small / "absent", small / "s.zarr")

    @pytest.mark.slow
    def test_memory_does_not_grow_with_the_number_of_runs(self, tmp_path, monkeypatch):
        rng = np.random.default_rng(0)
        monkeypatch.setattr(stores, "CHUNK_BYTES", 2**16)
        monkeypatch.setattr(files, "HELD", 2**19)
        (tmp_path / "qrels").write_text("1 0 0 1\n")
        for run in range(24):
            scores = rng.random(5000).tolist()
            text = "".join(f"1 Q0 {i} {i} {score} t\n" for i, score in enumerate(scores))
            (tmp_path / f"{run:02}.txt").write_text(text)
        peaks = []
        for number in (2, 2, 24):
            tracemalloc.start()
            import_trec(sorted(tmp_path.glob("*.txt"))[:number], tmp_path / "qrels", tmp_path / "s", overwrite=True)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert peaks[2] < 1.3 * peaks[1]


@pytest.fixture(scope="module")
def deep_learning(real_data):
    return real_data / "trec-dl-2019-passage"


@pytest.fixture(scope="module")
def clef(real_data):
    return real_data / "clef-tar-2017"


@pytest.fixture(scope="module")
def per_run(deep_learning, tmp_path_factory):
    url = tmp_path_factory.mktemp("trec") / "s.zarr"
    summary = import_trec(deep_learning / "runs", deep_learning / "qrels.dl19-passage.txt", url, dtype="float64")
    assert (summary.models, summary.queries, summary.items, summary.notes) == (61, 43, 1_748_564, ())
    return open_scores(url).load()


@pytest.mark.slow
class TestDeepLearning:
    @pytest.mark.parametrize("name", ["official/test1", "official/ICT-BERT2", "later/colbert_rankgpt4"])
    def test_equals_a_slow_parse(self, deep_learning, per_run, name):
        file = next((deep_learning / "runs").glob(f"{name}*.txt.xz"))
        expected = slow_lists(file, deep_learning / "qrels.dl19-passage.txt")
        stored = per_run.sel(model=file.name.removesuffix(".txt.xz"))
        assert set(stored["query"].values.tolist()) == set(expected)
        for topic, items in expected.items():
            one = stored.sel(query=topic)
            rows = list(zip(*(one[v].values.tolist() for v in ("score", "label", "tie_order")), strict=True))
            assert rows[: len(items)] == items
            assert set(one["label"].values[len(items) :].tolist()) <= {-2}
            assert np.isnan(one["score"].values[len(items) :]).all()

    @pytest.mark.parametrize(
        ("column", "grade", "precision"),
        [("map_rel2_float64_order", 2, "float64"), ("map_rel2", 2, "float32"), ("map_rel1", 1, "float32")],
    )
    def test_order_has_the_published_map(self, deep_learning, per_run, column, grade, precision):
        expected = expected_maps(deep_learning / "expected_map.csv", column)
        published = expected_maps(deep_learning / "expected_map.csv", f"nist_map_rel{grade}")
        assert len(expected) == 61
        assert len(published) == 37
        score, label, tie_order = (per_run[name].values for name in ("score", "label", "tie_order"))
        if precision == "float32":
            order = np.lexsort((tie_order, -score.astype("f4")))
            label = np.take_along_axis(label, order, axis=-1)
        n_positive = per_run["n_positive"].sel(grade=grade).values
        for name, lists in zip(per_run["model"].values, label, strict=True):
            mean = np.mean([average_precision(*pair, grade) for pair in zip(lists, n_positive, strict=True)])
            assert mean == pytest.approx(expected[name], abs=1e-6)
            assert mean == pytest.approx(published.get(name, mean), abs=5e-5)

    def test_pooled_holds_the_same_lists(self, deep_learning, per_run, tmp_path):
        files = sorted((deep_learning / "runs" / "official").glob("*.xz"))[:12]
        qrels = deep_learning / "qrels.dl19-passage.txt"
        import_trec(files, qrels, tmp_path / "s.zarr", layout="pooled", dtype="float64")
        pooled = open_scores(tmp_path / "s.zarr").load()
        label, tie_order = pooled["label"].values, pooled["tie_order"].values
        for model in pooled["model"].values:
            one, own = pooled["score"].sel(model=model).values, per_run.sel(model=model)
            for query, scores in enumerate(one):
                found = np.flatnonzero(~np.isnan(scores))
                order = found[np.lexsort((tie_order[query, found], -scores[found]))]
                np.testing.assert_array_equal(scores[order], own["score"].values[query, : len(order)])
                np.testing.assert_array_equal(label[query, order], own["label"].values[query, : len(order)])
        positives = np.stack([(label >= grade).sum(axis=1) for grade in (1, 2, 3)], axis=1)
        np.testing.assert_array_equal(positives, pooled["n_positive"].values)


@pytest.mark.slow
class TestClef:
    def test_repeated_documents_are_named(self, clef, tmp_path):
        run = clef / "runs" / "UOS_TMAL30Q_BM25.txt.xz"
        with pytest.raises(FileFormatError, match=r"UOS_TMAL30Q_BM25\.txt\.xz, lines 1 and 2"):
            import_trec(run, clef / "qrel_abs_test.txt.xz", tmp_path / "s.zarr")

    def test_stored_order_has_the_expected_map(self, clef, tmp_path):
        url = tmp_path / "s.zarr"
        qrels = clef / "qrel_abs_test.txt.xz"
        summary = import_trec(clef / "runs", qrels, url, dtype="float32", duplicates="first")
        assert summary.notes == (
            "topics without a list: IIIT_run1 (3)",
            "repeated documents, first kept: UOS_TMAL30Q_BM25 (311)",
            "other tags in the file, taken for the same run: AMC (29)",  # one for each topic
        )
        scores = open_scores(url).load()
        for name, value in expected_maps(clef / "expected_map.csv", "map_abs").items():
            pairs = zip(scores["label"].sel(model=name).values, scores["n_positive"].values, strict=True)
            returned = [average_precision(*pair) for pair in pairs if (pair[0] != -2).any()]
            assert np.mean(returned) == pytest.approx(value, abs=1e-6), name
        expected = slow_lists(clef / "runs" / "UOS_TMAL30Q_BM25.txt.xz", qrels)
        for topic, items in expected.items():
            one = scores.sel(model="UOS_TMAL30Q_BM25", query=topic)
            assert one["label"].values[: len(items)].tolist() == [label for _, label, _ in items]
            assert one["tie_order"].values[: len(items)].tolist() == [tie for _, _, tie in items]


@pytest.mark.parametrize("grade", [1, 2])
@pytest.mark.slow
def test_default_import_and_evaluation_give_the_published_map(deep_learning, tmp_path, grade):
    url = tmp_path / "s.zarr"
    import_trec(deep_learning / "runs", deep_learning / "qrels.dl19-passage.txt", url)
    result = evaluate(open_scores(url), ties="trec_eval", missing="unretrieved", positive_from=grade)
    mean = result["estimate"].mean("query").squeeze(drop=True).to_series()

    expected = pd.read_csv(deep_learning / "expected_map.csv", index_col="run")
    assert len(mean) == len(expected) == 61
    assert (mean - expected[f"map_rel{grade}"]).abs().max() < 1e-6
    published = expected[f"nist_map_rel{grade}"].dropna()
    assert len(published) == 37
    assert (mean.round(4).reindex(published.index) == published).all()

    topics = pd.read_csv(deep_learning / "expected_ap_by_topic.csv.gz", dtype={"topic": str})
    by_topic = result["estimate"].squeeze(drop=True).to_series()
    named = topics.set_index(["run", "topic"])[f"ap_rel{grade}"].rename_axis(["model", "query"])
    assert len(named) == len(by_topic)
    assert (by_topic - named).abs().max() < 1e-6


class TestNames:
    def test_files_of_the_same_name_are_told_apart_by_their_folders(self, small):
        for folder in ("one/x", "two/x", "two/y"):
            (small / folder).mkdir(parents=True)
            (small / folder / "run.txt").write_text(RUN_B)
        import_trec([small / "one", small / "two", small / "runs"], small / "qrels", small / "s.zarr")
        names = list(open_scores(small / "s.zarr")["model"].values)
        assert names == ["one/x/run", "two/x/run", "y/run", "a", "b"]

    def test_runs_named_by_their_tags(self, small):
        import_trec(small / "runs", small / "qrels", small / "s.zarr", named_by="tag")
        assert list(open_scores(small / "s.zarr")["model"].values) == ["a", "b"]
        (small / "runs" / "a.txt").write_text(RUN_A.replace(" a\n", " bm25\n"))
        import_trec(small / "runs", small / "qrels", small / "s.zarr", named_by="tag", overwrite=True)
        assert list(open_scores(small / "s.zarr")["model"].values) == ["bm25", "b"]

    def test_a_file_of_several_runs_is_refused_or_said(self, small):
        for duplicates in ("error", "first"):
            (small / "runs" / "b.run").write_text(RUN_A + RUN_B)
            with pytest.raises(FileFormatError, match=r"one run(.*\n)*.*tags 'a', 'b'(.*\n)*.*a file for each tag"):
                import_trec(small / "runs", small / "qrels", small / "s.zarr", duplicates=duplicates)
        (small / "runs" / "b.run").write_text("q1 Q0 x 1 2 a\n" + RUN_B)
        assert "other tags in the file, taken for the same run: b (1)" in str(
            import_trec(small / "runs", small / "qrels", small / "s.zarr")
        )

    @pytest.mark.parametrize(
        ("text", "what"),
        [(RUN_B.replace("b\n", "a\n"), "two runs have the tag 'a'"), ("q1 Q0 x 1 2 a\n" + RUN_B, "several tags")],
    )
    def test_tags_that_name_no_run_are_refused(self, small, text, what):
        (small / "runs" / "b.run").write_text(text)
        with pytest.raises(AlignmentError, match=what):
            import_trec(small / "runs", small / "qrels", small / "s.zarr", named_by="tag")
        assert not (small / "s.zarr").exists()
