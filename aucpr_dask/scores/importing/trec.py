"""TREC runs and judgments to a score store."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from aucpr_dask.errors import AlignmentError, FileFormatError, UnjudgedWarning, few, warn
from aucpr_dask.schema import terms
from aucpr_dask.schema.checks import HIGHEST_GRADE
from aucpr_dask.schema.options import RunOptions
from aucpr_dask.scores import appending, chunks
from aucpr_dask.scores.importing import files
from aucpr_dask.scores.importing.files import FilePath, ImportSummary, OnProgress, Spool, bad_line
from aucpr_dask.scores.importing.table_files import open_table

RUN_SUFFIXES = (".txt", ".run", ".res", ".trec", ".tsv", ".jsonl", ".json", ".csv", ".parquet")

_BLOCK_BYTES = 4 * 2**20
_PARQUET = b"PAR1"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LONG_IDENTIFIER = 128  # bytes
_SORTED_LINES = 2**11  # that are sorted together, if topics have fewer
DIMS = (terms.MODEL, terms.QUERY, terms.ITEM)
_QRELS_COLUMNS = ("topic", "iteration", "document", "grade")
_RUN_COLUMNS = ("topic", "Q0", "document", "rank", "score", "tag")
_PLACES = ("topic", "document", "place")  # a run of MS MARCO
_VALUES = ("grade", "score", "place")
_NAMES = {
    "topic": "topic topicid query queryid qid",
    "document": "document documentid doc docid docno corpusid passage passageid pid",
    "value": "score relevance label grade rel sim similarity",
    "tag": "tag run runid model system",
}
_ROLES = {name: role for role, names in _NAMES.items() for name in names.split()}
"""What columns with a header hold, as BEIR and others call them, without case and what is between words."""
_NUMBER = re.compile(r"[-+]?\d*\.?\d+(e[-+]?\d+)?", re.IGNORECASE)


def import_trec(
    runs: FilePath | Sequence[FilePath],
    qrels: FilePath,
    url: str | Path,
    *,
    dataset: str | None = None,
    overwrite: bool = False,
    append: bool = False,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> ImportSummary:
    r"""Write TREC runs and their judgments to a score store, as ``aucpr-dask import trec`` does.

    Every run is one model, named like its file without ``.txt``, ``.run``, ``.res``, ``.trec``, ``.tsv``, ``.json`` or
    ``.jsonl`` and without a compression suffix, and with as many folders as it takes to tell it from others. The
    queries are the topics of the qrels. The rank column is ignored, as in trec_eval: a list is ordered by score, and
    documents of equal score by name, in descending byte order.

    Every file is read once. Memory holds one run and one block of the store, and in the pooled layout the names of all
    documents in the pool; other runs, beyond the first 256 MiB, are in a temporary file. Lines
    whose columns are separated by one blank or tab are read three times as fast.

    Parameters
    ----------
    runs : path or sequence of paths
        Run files, plain or compressed (gzip, xz, bz2, zstd), folders of them, or glob patterns. A line is
        ``topic Q0 document rank score tag``. Or in the formats of BEIR: a table with a header (``query-id``,
        ``corpus-id``, ``score``), such records in JSONL, or JSON of ``{topic: {document: score}}``; or of MS MARCO,
        ``topic document rank``, where the rank is the order.
    qrels : path
        The judgments; a line is ``topic iteration document grade``; or in the formats of BEIR. Grade -1 is unjudged,
        other negative grades are 0; a document that is not listed is unjudged. Higher grades are kept.
    url, dataset, overwrite, append, on_progress
        See :func:`aucpr_dask.scores.importing.tables.import_table`; `dataset` names the data set.
    **options
        Fields of :class:`aucpr_dask.schema.options.RunOptions`: `layout`, `dtype`, `named_by` and `duplicates`. float32
        is the order of trec_eval up to 9, of pytrec_eval and so of published figures; float64 that of trec_eval 10.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "bm25.run").write_text("q1 Q0 d1 1 2.5 x\nq1 Q0 d2 2 0.5 x\n")
    >>> _ = (folder / "qrels").write_text("q1 0 d1 1\nq1 0 d9 1\n")
    >>> print(import_trec(folder / "bm25.run", folder / "qrels", folder / "scores.zarr"))
    1 model, 1 query, 2 items, 1 data set
    """
    chosen = RunOptions(**options).checked()
    if dataset is not None:
        terms.check_node_name(dataset, "dataset")
    with appending.place_for(url, overwrite=overwrite, append=append) as place, Spool() as spool:
        named = named_runs(runs)
        judged = files.local_copy(qrels)
        judgments = _judgments(_read(judged, _QRELS_COLUMNS), chosen.duplicates)
        lists, files_of = list[_Run](), dict[str, Path]()
        for name, file in files.reported(named.items(), on_progress, "reading runs"):
            columns = _read(file, _RUN_COLUMNS)
            if chosen.named_by == "tag":
                name, remedy = _tag_of(columns), 'name models by their files: named_by="file"'
                if len(columns.tags) > 1:
                    received, allowed = few(map(_shown, sorted(columns.tags))), "the same tag in all lines"
                    what, remedy = "a run has several tags, so they cannot name it", f"split the file, or {remedy}"
                    raise AlignmentError(what, file, received, allowed, remedy)
                if (first := files_of.setdefault(name, file)) != file:
                    raise AlignmentError(f"two runs have the tag {name!r}", None, f"{first} and {file}", None, remedy)
            lists.append(_run(name, columns, judgments, chosen.duplicates, spool))
        laid_out = _MAKE[chosen.layout](lists, judgments, np.dtype(chosen.dtype))
        described = laid_out.template.assign_attrs(source=f"TREC runs judged by {judged.name}")
        template: terms.Scores = described if dataset is None else xr.DataTree.from_dict({dataset: described})
        files.write_blocks(place, template, lambda _: laid_out.block, overwrite=overwrite, on_progress=on_progress)
    return files.summarize(template, laid_out.n_items, _notes(lists, judgments))


NOTHING_JUDGED = "no retrieved document is judged, so all areas are 0"
NOTES = "notes"  # the attribute of what was left out


def named_runs(runs: FilePath | Sequence[FilePath], named_by: str = "file") -> dict[str, Path]:
    """Return run files by the names of their models: of the files, or the tags in their first lines."""
    named = files.named_files(files.find_files(runs, "run"), RUN_SUFFIXES, "model", with_folders=True)
    if named_by == "file":
        return named
    return {_tag_of(_read(path, _RUN_COLUMNS)): path for path in named.values()}


def scores_of_runs(judged: Columns, runs: Mapping[str, Columns], options: RunOptions) -> xr.Dataset:
    """Return the scores of runs in memory, as :func:`import_trec` writes them."""
    judgments = _judgments(judged, options.duplicates)
    with Spool() as spool:
        lists = [_run(name, columns, judgments, options.duplicates, spool) for name, columns in runs.items()]
        template, block, _ = _MAKE[options.layout](lists, judgments, np.dtype(options.dtype))
        arrays = block(tuple(slice(size) for size in template["score"].shape))
    notes = _notes(lists, judgments)
    for note in notes:
        if note.startswith(NOTHING_JUDGED):
            warn(note, UnjudgedWarning)
    made = template.assign({name: (template[name].dims, array) for name, array in arrays.items()})
    return made.assign_attrs({NOTES: notes} if notes else {})


def columns_of_file(path: FilePath, *, are_runs: bool) -> Columns:
    """Return the columns of a file of a run or of judgments."""
    return _read(files.local_copy(path), _RUN_COLUMNS if are_runs else _QRELS_COLUMNS)


def lines_of_file(path: FilePath, *, are_runs: bool) -> Iterator[tuple[str, str, float]]:
    """Yield the topic, the document and the score or the grade of each line of a run or of judgments."""
    columns = columns_of_file(path, are_runs=are_runs)
    topics = [code.decode("utf-8", "replace") for code in columns.codes]
    for topic, document, value in zip(columns.topic.tolist(), columns.document, columns.value.tolist(), strict=True):
        yield topics[topic], document.decode("utf-8", "replace"), value


# --- reading ----------------------------------------------------------------------------------------------------

_Part = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # topics, documents, values, and numbers of lines
_Parse = Callable[[list[bytes], np.ndarray, Path], np.ndarray]  # numbers, of words on these lines


def _read(path: Path, names: tuple[str, ...]) -> Columns:
    """Read the columns of judgments or of a run, some MiB at a time."""
    with files.reading(path) as stream:
        start = next(files.lines_of(stream, path), b"").removeprefix(_BYTE_ORDER_MARK)
    codes, tags = Codes(), Codes()
    parse = _scores_of if names is _RUN_COLUMNS else _grades_of
    parts: Iterable[_Part]
    is_json, record = start.lstrip().startswith(b"{"), None
    with suppress(ValueError, RecursionError):  # of an object that goes on in the next line
        record = json.loads(start) if is_json else None
    named = record if isinstance(record, dict) else start.decode("utf-8", "replace").split(",")
    roles = {*map(column_role, named)}
    if is_json and not {"topic", "document"} <= roles:
        parts = [_of_json(path, parse, codes)]
    elif start.startswith((_PARQUET, b"{")) or {"topic", "document", "value"} <= roles:  # JSON lines, or a header
        parts = _of_table(path, parse, codes, tags)
    else:
        names, has_header = _named_columns(start, names)
        parts = _of_lines(path, names, codes, tags, has_header=has_header)
    held = [part for part in parts if len(part[0])]
    if not held:
        raise FileFormatError("the file is empty", path, allowed=f"lines of {' '.join(names)}")
    topic, document, value, line = map(np.concatenate, zip(*held, strict=True))
    return Columns(path, codes, topic, document, value, line, tags)


def _of_lines(path: Path, names: tuple[str, ...], codes: Codes, tags: Codes, *, has_header: bool) -> Iterator[_Part]:
    """Yield the lines of columns separated by blanks."""
    first = 1
    with files.reading(path) as stream:
        for block in files.blocks_of(stream, path, _BLOCK_BYTES):
            block += b"" if block.endswith(b"\n") else b"\n"
            if first == 1:
                block = block.removeprefix(_BYTE_ORDER_MARK)
                if has_header:
                    block, first = block.partition(b"\n")[2], 2
            yield _regular(block, first, names, codes, tags) or _irregular(block, path, first, names, codes, tags)
            first += _n_lines(block)


def _named_columns(start: bytes, usual: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
    """Return what the columns of a file hold by its first line, and whether that is a header."""
    cells = [cell.strip().decode("utf-8", "replace") for cell in start.split(b"\t" if b"\t" in start else None)]
    roles = [column_role(cell) for cell in cells]
    value = "score" if usual is _RUN_COLUMNS else "grade"
    if sorted(roles) == ["document", "topic", "value"]:
        return tuple(value if role == "value" else role for role in roles), True
    if usual is _RUN_COLUMNS and len(cells) == len(_PLACES) and cells[-1].isdigit():
        return _PLACES, False
    if len(cells) == len(_PLACES) and b"\t" in start and _NUMBER.fullmatch(cells[-1]):  # BEIR's, without a header
        return ("topic", "document", value), False
    return usual, False


def column_role(name: str) -> str:
    """Return what a column of a table of a run, or of judgments, holds, by its name; "" if that says nothing."""
    return _ROLES.get(re.sub(r"[\W_]+", "", name).lower(), "")


def _of_table(path: Path, parse: _Parse, codes: Codes, tags: Codes) -> Iterator[_Part]:
    """Yield the rows of a table with columns of topics, documents, and scores or grades."""
    table = open_table(path)
    found = {role: name for name in reversed(table.columns) if (role := column_role(name))}
    if not {"topic", "document", "value"} <= {*found}:
        allowed = "columns of topics (query_id), documents (doc_id), and scores (score) or grades (relevance)"
        raise FileFormatError("columns are missing", f"{path}, line 1", few(map(repr, table.columns)), allowed)
    for batch in table.batches([*found.values()]):
        cells = {role: [cell.encode() for cell in batch.strings(name).tolist()] for role, name in found.items()}
        tags.of(cells.get("tag", []))
        at = np.arange(batch.n_rows) + batch.first + (2 if table.is_text else 1)  # below a header
        yield codes.of(cells["topic"]), identifiers(cells["document"]), parse(cells["value"], at, path), at


def _of_json(path: Path, parse: _Parse, codes: Codes) -> _Part:
    """Return what JSON of {topic: {document: number}} holds."""
    topics, documents, numbers = list[bytes](), list[bytes](), list[bytes]()
    try:
        with files.reading_text(path) as text:
            for topic, listed in json.load(text).items():
                topics += [topic.encode()] * len(listed)
                documents += [name.encode() for name in listed]
                numbers += [json.dumps(one).encode() for one in listed.values()]
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        allowed = '{topic: {document: number}}, or in each line {"query-id": ..., "corpus-id": ..., "score": ...}'
        raise FileFormatError("this is no run and no judgments in JSON", path, error, allowed) from error
    at = np.arange(1, len(topics) + 1)
    return codes.of(topics), identifiers(documents), parse(numbers, at, path), at


def _n_lines(block: bytes) -> int:
    """Count the lines of a block; bytes.count takes several times as long for lines as short as these."""
    return int(np.count_nonzero(np.frombuffer(block, np.uint8) == ord("\n")))


def _regular(block: bytes, first: int, names: tuple[str, ...], codes: Codes, tags: Codes) -> _Part | None:
    """Return the columns of a block by Arrow; None if a line takes a closer look."""
    import pyarrow as arrow
    from pyarrow import compute, csv

    block, n_lines = block.replace(b"\r\n", b"\n") if b"\r" in block else block, _n_lines(block)
    is_blank = np.frombuffer(block, np.uint8) <= ord(" ")
    n_blanks = np.count_nonzero(is_blank)
    has_one_between = n_blanks == n_lines * len(names) and not (is_blank[1:] & is_blank[:-1]).any()
    if not has_one_between or is_blank[0] or block.startswith(_BYTE_ORDER_MARK):
        return None
    named = arrow.dictionary(arrow.int32(), arrow.string())
    (number,) = (name for name in names if name in _VALUES)
    types = {"topic": named, "document": arrow.string(), "score": arrow.float64(), "grade": arrow.int64(), "tag": named}
    types |= {"place": arrow.int64()}
    types = {name: types[name] for name in names if name in types}
    delimiter = "\t" if b"\t" in block[: block.index(b"\n")] else " "
    try:
        table = csv.read_csv(
            arrow.py_buffer(block),
            csv.ReadOptions(column_names=names, use_threads=False, block_size=len(block)),
            csv.ParseOptions(delimiter=delimiter, quote_char=False),
            csv.ConvertOptions(include_columns=list(types), column_types=types, null_values=[]),
        )
    except arrow.ArrowInvalid:
        return None
    columns = {name: table[name].chunk(0) for name in types}
    documents, values = columns["document"], columns[number].to_numpy()
    longest = compute.max(compute.binary_length(documents)).as_py()
    if longest > _LONG_IDENTIFIER or np.isnan(values).any() or (number == "grade" and values.max() > HIGHEST_GRADE):
        return None
    if number == "grade":
        values = np.where(values < terms.UNJUDGED, 0, values).astype(np.int8)
    if number == "place":
        values = -values.astype(np.float64)
    if "tag" in columns:
        tags.of([name.encode() for name in columns["tag"].dictionary.to_pylist()])
    known = [name.encode() for name in columns["topic"].dictionary.to_pylist()]
    topics = codes.of(known)[columns["topic"].indices.to_numpy()]
    width = _width(longest)
    padded = compute.ascii_rpad(documents, width, "\0").buffers()[2]
    return topics, np.frombuffer(padded, f"S{width}"), values, np.arange(first, first + n_lines)


def _irregular(block: bytes, path: Path, first: int, names: tuple[str, ...], codes: Codes, tags: Codes) -> _Part:
    """Return the columns of a block of any blanks; raise about its first malformed line."""
    lines = block.split(b"\n")
    counts = [len(line.split()) for line in lines]
    bad = next((n for n, line in enumerate(lines) if counts[n] not in (0, len(names)) or b"\0" in line), None)
    numbers = np.flatnonzero(counts[:bad]) + first
    tokens = (block if bad is None else b"\n".join(lines[:bad])).split()
    columns = [tokens[column :: len(names)] for column in range(len(names))]
    (number,) = (name for name in names if name in _VALUES)
    read = _grades_of if number == "grade" else _scores_of
    values = read(columns[names.index(number)], numbers, path)
    if number == "place":
        values = -values
    if bad is not None:  # the lines before it are good
        what, received = "wrong number of columns", f"{terms.count(counts[bad], 'column')}: {_shown(lines[bad])}"
        if b"\0" in lines[bad]:
            what, received = "this is not a text file", f"a zero byte: {_shown(lines[bad])}"
        allowed = f"{len(names)} columns separated by blanks: {' '.join(names)}"
        raise bad_line(what, path, first + bad, received, allowed)
    if "tag" in names:
        tags.of(columns[-1])
    topics, documents = (columns[names.index(name)] for name in ("topic", "document"))
    return codes.of(topics), identifiers(documents), values, numbers


def _shown(text: bytes, most: int = 80) -> str:
    return repr(text[:most].decode("utf-8", "replace")) + ("..." if len(text) > most else "")


def _scores_of(tokens: list[bytes], numbers: np.ndarray, path: Path) -> np.ndarray:
    """Parse scores, correctly rounded to float64."""
    # Python reads "1_000" as a number, but in a run it is a mistake.
    with suppress(ValueError):
        scores = np.fromiter(map(float, tokens), np.float64, len(tokens))
        if not np.isnan(scores).any() and b"_" not in b"".join(tokens):
            return scores
    bad = next(n for n, token in enumerate(tokens) if not _is_score(token))
    allowed = "a decimal number or inf; NaN cannot be ranked"
    raise bad_line("the score is not a number", path, numbers[bad], _shown(tokens[bad]), allowed)


def _is_score(token: bytes) -> bool:
    try:
        return b"_" not in token and not math.isnan(float(token))
    except ValueError:
        return False


class Codes(dict[bytes, int]):
    """Numbers things in the order in which they first occur."""

    def __missing__(self, key: bytes) -> int:
        self[key] = len(self)
        return self[key]

    def of(self, tokens: list[bytes]) -> np.ndarray:
        """Return the numbers of tokens."""
        return np.fromiter(map(self.__getitem__, tokens), np.int64, len(tokens))


def identifiers(tokens: list[bytes]) -> np.ndarray:
    """Return identifiers as an array: with a long one among them, as objects, so that each takes its own bytes."""
    longest = max(map(len, tokens), default=0)
    return np.array(tokens, object if longest > _LONG_IDENTIFIER else f"S{_width(longest)}")


def _width(longest: int) -> int:
    """Return the bytes of identifiers in an array: whole words, which are sorted as numbers."""
    return max(8, -(-longest // 8) * 8)


@dataclass(frozen=True)
class Columns:
    """The columns of judgments or of a run: numbers of topics, documents, grades or scores, and numbers of lines.

    `path` is what errors call them.
    """

    path: Path
    codes: Codes
    topic: np.ndarray
    document: np.ndarray
    value: np.ndarray
    line: np.ndarray
    tags: Collection[bytes] = ()

    def sorted_by(self, topic: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return topics, documents, values and lines, sorted by the first two, and which repeat those before them."""
        order = _order(topic, self.document)
        topic, document, repeated = topic[order], self.document[order], np.zeros(len(topic), bool)
        repeated[1:] = (topic[1:] == topic[:-1]) & (document[1:] == document[:-1])
        return topic, document, self.value[order], self.line[order], repeated


def _order(topic: np.ndarray, document: np.ndarray) -> np.ndarray:
    """Return the order of lines by topic, then by the bytes of documents; equal ones keep theirs."""
    if document.dtype.hasobject or not document.size:  # which lexsort does not take
        by_document = np.argsort(document, kind="stable")
        return by_document[np.argsort(topic[by_document], kind="stable")]
    # Of most names, few letters differ, and each is one of few. Then a number of 64 bits holds the topic, these letters
    # and the place of a line, and to sort such numbers takes half the time.
    n_lines, number, most = len(topic), (topic - topic.min()).astype(np.uint64), int(np.ptp(topic)) + 1
    for letter in np.ascontiguousarray(document.view(np.uint8).reshape(n_lines, -1).T):
        if several := int(np.ptp(letter)):
            number = number * np.uint64(several + 1) + (letter - letter.min())
            most *= several + 1
    if most * n_lines < 2**64:
        ordered = np.sort(number * np.uint64(n_lines) + np.arange(n_lines, dtype=np.uint64))
        return (ordered % np.uint64(n_lines)).astype(np.int64)
    words = document.view(">u8").reshape(n_lines, -1).T.astype(np.uint64)
    short = topic.astype(np.int16) if topic.max() < 2**15 else topic  # which NumPy sorts by digits
    order = np.argsort(short, kind="stable")
    ordered = short[order]
    starts = np.searchsorted(ordered, np.unique(ordered[::_SORTED_LINES]))
    for some in np.split(order, starts[1:]):  # of whole topics, while they are in a core's cache
        some[:] = some[np.lexsort((*words[::-1, some], short[some]))]
    return order


def _repeated(what: str, path: Path, lines: np.ndarray, received: str) -> FileFormatError:
    """Return the error for a document that is on the first two of these lines."""
    remedy = 'remove one, or pass duplicates="first" to keep the first'
    return FileFormatError(what, f"{path}, lines {lines[0]} and {lines[1]}", received, remedy=remedy)


# --- judgments --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Judgments:
    """The judged documents of every topic, in ascending order of their bytes, and their labels."""

    topics: tuple[str, ...]
    codes: dict[bytes, int]
    documents: tuple[np.ndarray, ...]
    labels: tuple[np.ndarray, ...]
    notes: tuple[str, ...]

    def labels_of(self, topic: int, documents: np.ndarray) -> np.ndarray:
        """Return the labels of documents in ascending order, unjudged if they are not listed."""
        labels = np.full(len(documents), terms.UNJUDGED, np.int8)
        places, listed = self._places(topic, documents)
        labels[places] = self.labels[topic][listed]
        return labels

    def lists(self, topic: int, documents: np.ndarray) -> bool:
        """Return whether some of the documents are listed, be it as unjudged."""
        return self._places(topic, documents)[0].size > 0

    def _places(self, topic: int, documents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the places of documents that are listed, and of those in the list: most topics have few judged."""
        judged = self.documents[topic]
        place = np.searchsorted(documents, judged)
        inside = np.flatnonzero(place < len(documents))
        listed = inside[documents[place[inside]] == judged[inside]]
        return place[listed], listed


def _judgments(columns: Columns, duplicates: str) -> _Judgments:
    path, codes = columns.path, columns.codes
    topic, document, grade, line, repeated = columns.sorted_by(columns.topic)
    differing = np.flatnonzero(repeated[1:] & (grade[1:] != grade[:-1])) + 1
    if differing.size and duplicates == "error":
        second = differing[np.argmin(line[differing])]
        received = f"document {_shown(document[second])} of topic {_shown(list(codes)[topic[second]])}"
        received += f": grades {grade[second - 1]} and {grade[second]}"
        raise _repeated("a document is judged twice, with different grades", path, line[second - 1 :], received)
    topic, document, label = topic[~repeated], document[~repeated], grade[~repeated]
    bounds = np.searchsorted(topic, np.arange(1, len(codes)))
    topics = tuple(_decoded(code, path) for code in codes)
    note = f"qrels: {terms.count(differing.size, 'document')} judged differently again, first grade kept"
    notes = (note,) if differing.size else ()
    return _Judgments(topics, dict(codes), tuple(np.split(document, bounds)), tuple(np.split(label, bounds)), notes)


def _grades_of(tokens: list[bytes], numbers: np.ndarray, path: Path) -> np.ndarray:
    """Parse grades to labels: -1 is unjudged, other negatives are not relevant."""
    labels = {token: _label_of(token) for token in set(tokens)}
    if None in labels.values():
        bad = next(index for index, token in enumerate(tokens) if labels[token] is None)
        what = "the grade is not a whole number in range"
        allowed = f"an integer up to {HIGHEST_GRADE}"
        raise bad_line(what, path, numbers[bad], _shown(tokens[bad]), allowed)
    return np.array([labels[token] for token in tokens], np.int8)


def _label_of(token: bytes) -> int | None:
    digits = token[1:] if token[:1] in (b"-", b"+") else token
    if not digits.isdigit() or int(token) > HIGHEST_GRADE:
        return None
    grade = int(token)
    return grade if grade >= terms.UNJUDGED else 0


def _decoded(name: bytes, path: Path) -> str:
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        remedy = "convert the file to UTF-8"
        raise FileFormatError("a name is not UTF-8", path, repr(name), remedy=remedy) from None


# --- runs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Run:
    """One run, kept by the spool, sorted by topic (as in the qrels), then by document in ascending byte order.

    The list of topic ``t`` is the lines from ``bounds[t]`` to ``bounds[t + 1]``.
    """

    name: str
    bounds: np.ndarray
    documents: np.ndarray
    scores: np.ndarray
    n_ignored_topics: int
    n_repeated: int
    n_more_tags: int
    is_judged: bool  # some of its documents are

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.bounds)


def _tag_of(columns: Columns) -> str:
    if not columns.tags:
        what = "this run has no tags, so they cannot name it"
        remedy = 'name it by its file: named_by="file"'
        raise AlignmentError(what, columns.path, "lines without a tag", "TREC's six columns", remedy)
    return _decoded(next(iter(columns.tags)), columns.path)


def _run(name: str, columns: Columns, judgments: _Judgments, duplicates: str, spool: Spool) -> _Run:
    path, codes = columns.path, columns.codes
    positions = _positions(codes, judgments, path)
    topic, document, score, line, repeated = columns.sorted_by(positions[columns.topic])
    # Topics that are not in the qrels share one negative code, so their documents may coincide.
    repeated &= topic >= 0
    if repeated.any() and (duplicates == "error" or len(columns.tags) > 1):
        places = np.flatnonzero(repeated)
        second = places[np.argmin(line[places])]
        received = f"document {_shown(document[second])} of topic {judgments.topics[topic[second]]!r}"
        if len(columns.tags) > 1:  # the first of each document would be a run that nobody made
            received += f", in a file of the tags {few(map(_shown, sorted(columns.tags)))}"
            what, remedy = "a run file holds one run", "write a file for each tag"
            raise FileFormatError(what, path, received, "the same tag in all lines", remedy)
        raise _repeated("a document occurs twice in one list", path, line[second - 1 :], received)
    kept = (topic >= 0) & ~repeated
    bounds = np.searchsorted(topic[kept], np.arange(len(judgments.topics) + 1))
    documents = document[kept]
    found = {place: documents[start:end] for place, (start, end) in enumerate(pairwise(bounds)) if start < end}
    is_any_listed = any(judgments.lists(place, one) for place, one in found.items())
    for place, one in () if is_any_listed else found.items():
        judged = judgments.documents[place].tolist()
        if alike := _alike(one.tolist(), judged):
            what = "no document of the run is judged, and some are written in another way"
            where = f"{path}, topic {judgments.topics[place]!r}"
            received, allowed = few(map(_shown, one.tolist())), few(map(_shown, judged))
            raise AlignmentError(what, where, received, allowed, f"write them alike: {alike}")
    return _Run(
        name=name,
        bounds=bounds,
        documents=spool.kept(documents),
        scores=spool.kept(score[kept]),
        n_ignored_topics=sum(code not in judgments.codes for code in codes),
        n_repeated=int(repeated.sum()),
        n_more_tags=max(0, len(columns.tags) - 1),
        is_judged=any((judgments.labels_of(place, one) >= 0).any() for place, one in found.items()),
    )


def _positions(codes: dict[bytes, int], judgments: _Judgments, path: Path) -> np.ndarray:
    """Return the place of each of the run's topics in the qrels, -1 if it is not there."""
    positions = np.array([judgments.codes.get(topic, -1) for topic in codes])
    if (positions < 0).all():
        received, allowed = f"topics {few(map(_shown, codes))}", f"topics {few(map(repr, judgments.topics))}"
        alike = _alike(codes, judgments.codes)
        remedy = f"write them alike: {alike}" if alike else "give the qrels of these topics"
        raise AlignmentError("the run has no topic of the qrels", path, received, allowed, remedy)
    return positions


def _alike(found: Iterable[bytes], known: Iterable[bytes]) -> str | None:
    """Return two names that differ only in how they are written: 7 and 007, or D1 and d1."""
    plain = {_plain(name): name for name in known}
    pairs = ((name, plain[_plain(name)]) for name in found if _plain(name) in plain)
    return next((f"{_shown(name)} and {_shown(other)}" for name, other in pairs), None)


def _plain(name: bytes) -> bytes:
    return re.sub(rb"^0+(?=\d)|\.0+$", b"", name.lower())


def _notes(runs: Sequence[_Run], judgments: _Judgments) -> list[str]:
    counts: dict[str, Callable[[_Run], int]] = {
        "topics without a list": lambda run: int((run.lengths == 0).sum()),
        "topics that are not in the qrels, ignored": lambda run: run.n_ignored_topics,
        "repeated documents, first kept": lambda run: run.n_repeated,
        "other tags in the file, taken for the same run": lambda run: run.n_more_tags,
    }
    found = {what: [(run.name, count(run)) for run in runs] for what, count in counts.items()}
    said = {what: [f"{name} ({n:,})" for name, n in one if n] for what, one in found.items()}
    said[NOTHING_JUDGED] = [run.name for run in runs if not run.is_judged]
    return [*judgments.notes, *(f"{what}: {few(shown)}" for what, shown in said.items() if shown)]


# --- layouts ----------------------------------------------------------------------------------------------------


class _Layout(NamedTuple):
    """A data set without its scores, what makes the arrays of a region of it, and the number of its items."""

    template: xr.Dataset
    block: Callable[[chunks.Region], dict[str, np.ndarray]]
    n_items: int


def _per_run(runs: Sequence[_Run], judgments: _Judgments, dtype: np.dtype) -> _Layout:
    """Give every model its own lists, best score first."""
    dtypes = {"score": dtype, "label": np.dtype(np.int8), "tie_order": np.dtype(np.int32)}
    longest = max(int(run.lengths.max()) for run in runs)

    def block(region: chunks.Region) -> dict[str, np.ndarray]:
        topics = range(len(judgments.topics))[region[1]]
        shape = (len(runs[region[0]]), len(topics), longest)
        arrays = {name: np.full(shape, appending.FILL[name], one) for name, one in dtypes.items()}
        for model, run in enumerate(runs[region[0]]):
            for query, (documents, scores) in enumerate(_lists(run, topics, dtype)):
                labels = judgments.labels_of(topics[query], documents)
                ties = np.arange(len(documents), dtype=np.int32)[::-1]
                best_first = ties[np.argsort(-scores[::-1], kind="stable")]  # of ties, the last document first
                for name, values in {"score": scores, "label": labels, "tie_order": ties}.items():
                    arrays[name][model, query, : len(documents)] = values[best_first]
        return arrays

    shape = (len(runs), len(judgments.topics), longest)
    described = {name: chunks.empty_variable(dict(zip(DIMS, shape, strict=True)), one) for name, one in dtypes.items()}
    return _Layout(_template(runs, judgments).assign(described), block, sum(int(run.bounds[-1]) for run in runs))


def _pooled(runs: Sequence[_Run], judgments: _Judgments, dtype: np.dtype) -> _Layout:
    """Let models share the items of a query: all judged or retrieved documents, in trec_eval's order of ties."""
    pools = list(judgments.documents)
    for run in runs:
        for topic in np.flatnonzero(run.lengths).tolist():
            pools[topic] = np.union1d(pools[topic], run.documents[run.bounds[topic] : run.bounds[topic + 1]])
    lengths = [len(pool) for pool in pools]
    shape = (len(pools), max(lengths))
    label, tie_order = np.full(shape, terms.PADDING, np.int8), np.full(shape, appending.FILL["tie_order"], np.int32)
    for topic, pool in enumerate(pools):
        label[topic, : len(pool)] = judgments.labels_of(topic, pool)[::-1]
        tie_order[topic, : len(pool)] = np.arange(len(pool))

    def block(region: chunks.Region) -> dict[str, np.ndarray]:
        topics = range(len(pools))[region[1]]
        score = np.full((len(runs[region[0]]), len(topics), max(lengths)), np.nan, dtype)
        for model, run in enumerate(runs[region[0]]):
            for query, (documents, scores) in enumerate(_lists(run, topics, dtype)):
                pool = pools[topics[query]]
                score[model, query, len(pool) - 1 - np.searchsorted(pool, documents)] = scores
        return {"score": score}

    scores = chunks.empty_variable(dict(zip(DIMS, (len(runs), *shape), strict=True)), dtype)
    described = {"score": scores, "label": (DIMS[1:], label), "tie_order": (DIMS[1:], tie_order)}
    return _Layout(_template(runs, judgments).assign(described), block, sum(lengths))


_MAKE = {"per-run": _per_run, "pooled": _pooled}


def _template(runs: Sequence[_Run], judgments: _Judgments) -> xr.Dataset:
    """Return the names of a data set and ``n_positive``, which is along grade if there are several."""
    names = {terms.MODEL: [run.name for run in runs], terms.QUERY: judgments.topics}
    for dim, labels in names.items():
        terms.check_names(labels, f"coordinate {dim!r}")
    coords: dict[str, Any] = {dim: np.array(labels, object) for dim, labels in names.items()}
    grades = np.arange(1, max(1, *(int(labels.max()) for labels in judgments.labels)) + 1)
    n_positive = np.array([(labels[:, None] >= grades).sum(axis=0) for labels in judgments.labels], np.int64)
    if len(grades) == 1:
        return xr.Dataset({"n_positive": (terms.QUERY, n_positive[:, 0])}, coords)
    return xr.Dataset({"n_positive": ((terms.QUERY, terms.GRADE), n_positive)}, coords | {terms.GRADE: grades})


def _lists(run: _Run, topics: range, dtype: np.dtype) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the documents and scores of each of the topics, by ascending document."""
    bounds = run.bounds[topics.start : topics.stop + 1]
    rows = slice(int(bounds[0]), int(bounds[-1]))
    # Beyond the range of float32, trec_eval has infinities too.
    with np.errstate(over="ignore"):
        scores = run.scores[rows].astype(dtype)
    inner = bounds[1:-1] - bounds[0]
    yield from zip(np.split(run.documents[rows], inner), np.split(scores, inner), strict=True)
