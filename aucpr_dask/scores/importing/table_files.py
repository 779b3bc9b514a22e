"""Files that hold tables, as batches of Arrow: CSV, TSV, JSON lines, Parquet, Feather; and data frames.

Arrow reads text in blocks of whole lines. Python's csv module looks at the blocks that Arrow refuses, or would read in
another way, and its errors name the line. Pandas fills short rows with missing values instead of refusing them.
"""

from __future__ import annotations

import csv
import io
import json
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import pyarrow as arrow
from pyarrow import types

from aucpr_dask.errors import AucprError, FileFormatError, bad_argument, few
from aucpr_dask.schema.checks import EXACT_INTEGERS
from aucpr_dask.scores.importing import files
from aucpr_dask.scores.importing.files import bad_line, bare_name, lines_of, reading

SUFFIXES = (".csv", ".tsv", ".tab", ".txt", ".parquet", ".feather", ".arrow", ".jsonl", ".ndjson", ".json")
MISSING_CELLS = frozenset({"", "NA", "NaN", "nan"})
ROUNDED_INTEGER = "an integer cannot be a float64 without rounding"
EXACT_REMEDY = "subtract a constant, or give ranks: only the order of the scores matters"
SEPARATORS = ",\t;|"
BATCH_CELLS, CELL_BYTES = 2**18, 8
Words = tuple[np.ndarray, list[str]]  # the place of each cell's string in the list
Cells = dict[str, Any]  # an array of Arrow for each column
_INTEGER = re.compile(r"[+-]?[0-9]{1,999}")
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")


def open_table(path: Path, separator: str | None = None) -> Table:
    """Open a table by its first bytes, and text by its first character."""
    with reading(path) as stream:
        head = stream.read(8)
    if head.startswith(b"PAR1"):
        return _parquet(path)
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return _feather(path, is_stream=head[:1] == b"\xff")
    if head.removeprefix(BOM_UTF8).lstrip()[:1] == b"{" or bare_name(path, ()).endswith((".jsonl", ".ndjson", ".json")):
        return JsonLines(path)
    known = {b"PK": "a spreadsheet or an archive", b"FEA1": "a Feather file of version 1", b"SQLite": "a data base"}
    if found := next((what for magic, what in known.items() if head.startswith(magic)), None):
        allowed, remedy = "CSV, TSV, JSON lines, Parquet, Feather", "write it again as one of these"
        raise FileFormatError("this is no table that can be read", path, found, allowed, remedy)
    return TextTable(path, separator)


class Table:
    """A file, or a data frame in memory, whose name serves as its path; its rows come in batches."""

    is_text = False  # whether numbers are written in words

    def __init__(self, path: Path, columns: Sequence[str], where: object = None) -> None:
        self.path, self.columns = path, list(columns)
        self.index = frozenset[str]()  # the columns that were the index of a data frame of pandas
        self.order: dict[str, list[str]] = {}  # the words of ordered categories, by column
        if twice := [name for name, times in Counter(self.columns).items() if name and times > 1]:
            received, remedy = few(map(repr, twice)), "rename one of them"
            raise FileFormatError("two columns have the same name", where or path, received, remedy=remedy)

    def batches(self, columns: Sequence[str], numbers: Collection[str] = ()) -> Iterator[Batch]:
        """Yield these columns, some rows at a time; parse `numbers` of a text file, where that is without doubt."""
        first = 0
        for n_rows, cells in self._read(list(columns), frozenset(numbers)):
            if n_rows:
                yield Batch(self, first, n_rows, cells)
                first += n_rows

    def where(self, row: int, column: str) -> str:
        """Return the place of a cell in words."""
        return f"{self.path}, {self.place_of(row)}, column {column!r}"

    def place_of(self, row: int) -> str:
        """Return a row in words."""
        return f"row {row + 1}"

    def _read(self, columns: list[str], numbers: Collection[str]) -> Iterator[tuple[int, Cells]]:
        raise NotImplementedError


@dataclass(frozen=True)
class Batch:
    """Some rows of a table."""

    table: Table
    first: int
    n_rows: int
    cells: Cells

    def is_parsed(self, column: str) -> bool:
        """Whether a column has the type of floating-point numbers, not of text."""
        return bool(types.is_floating(self.cells[column].type))

    def kind(self, column: str) -> str:
        """Return what a column holds: "number", "whole" number or "other"."""
        kind = self.cells[column].type
        if self.table.is_text and not types.is_floating(kind):
            words = [word for word in map(str.strip, self.text(column)[1]) if word not in MISSING_CELLS]
            if words and all(map(_INTEGER.fullmatch, words)):
                return "whole"
            return "number" if _parsed(words) is not None else "other"
        if types.is_integer(kind):
            return "whole"
        return "number" if types.is_floating(kind) or types.is_decimal(kind) else "other"

    def text(self, column: str) -> Words:
        """Return the strings in a column, in the order in which they occur, and their places; "" is a missing cell."""
        found = self._strings(column).dictionary_encode()
        return found.indices.to_numpy(), found.dictionary.to_pylist()

    def strings(self, column: str) -> np.ndarray:
        """Return the cells of a column as strings; "" is a missing one."""
        strings: np.ndarray = self._strings(column).to_numpy(zero_copy_only=False)
        return strings

    def labels(self, column: str) -> np.ndarray:
        """Return the cells of a column as strings, or as the times that they are."""
        cells = self.cells[column]
        if types.is_timestamp(cells.type) and cells.type.tz is None and not cells.null_count:
            times: np.ndarray = cells.to_numpy(zero_copy_only=False)
            return times
        return self.strings(column)

    def numbers(self, column: str) -> np.ndarray:
        """Return the cells of a column as float64, NaN where missing; an integer that would be rounded is refused."""
        cells = self.cells[column]
        if self.table.is_text and types.is_string(cells.type):
            return self._parsed(column)
        kind = cells.type
        exact = types.is_integer(kind) or types.is_decimal(kind)
        if types.is_boolean(kind):
            cells = cells.cast(arrow.int8())
        elif types.is_decimal(kind):  # whose own conversion is not always the nearest number
            cells = cells.cast(arrow.string())
        elif not (exact or types.is_floating(kind) or types.is_null(kind)):
            raise self._cannot_be(column, "numbers", kind)
        numbers: np.ndarray = cells.cast(arrow.float64(), safe=False).to_numpy(zero_copy_only=False)
        for row in _large(numbers).tolist() if exact else ():
            value = self.cells[column][row].as_py()
            if value == int(value) != int(numbers[row]):
                raise rounded(self.where(row, column), value)
        return numbers

    def has_commas(self, column: str) -> bool:
        """Whether all cells of a column are numbers with a decimal comma."""
        words = self.text(column)[1]
        return len(words) > 0 and all(_DECIMAL_COMMA.fullmatch(word.strip()) for word in words)

    def where(self, row: int, column: str) -> str:
        """Return the place of a cell in words."""
        return self.table.where(self.first + row, column)

    def _parsed(self, column: str) -> np.ndarray:
        codes, words = self.text(column)
        numbers = _parsed(words)
        if numbers is None:
            bad = next(code for code, word in enumerate(words) if _parsed([word]) is None)
            where = self.where(int(np.argmax(codes == bad)), column)
            remedy = f"fix the cell, or leave the column out: exclude={column!r}"
            if _DECIMAL_COMMA.fullmatch(words[bad].strip()):
                remedy = f"write decimals with a point: {words[bad].strip().replace(',', '.')}"
            allowed = "a number; empty, NA or NaN for a missing one"
            raise FileFormatError("the cell is not a number", where, repr(words[bad]), allowed, remedy)
        for code in _large(numbers).tolist():
            if _INTEGER.fullmatch(words[code].strip()) and int(words[code]) != int(numbers[code]):
                raise rounded(self.where(int(np.argmax(codes == code)), column), words[code])
        return numbers[codes]

    def _strings(self, column: str) -> Any:
        cells = self.cells[column]
        if types.is_dictionary(cells.type):  # Arrow cannot take from views, as polars has them
            words = self._as_strings(column, cells.dictionary)
            cells = arrow.DictionaryArray.from_arrays(cells.indices, words)
        strings = self._as_strings(column, cells)
        return strings.fill_null("") if strings.null_count else strings

    def _as_strings(self, column: str, cells: Any) -> Any:
        if types.is_floating(cells.type):  # as files have them: 1.0, not 1
            words = (None if one is None or one != one else repr(one) for one in cells.to_pylist())
            return arrow.array(words, arrow.string())
        try:
            strings = cells if types.is_string(cells.type) else cells.cast(arrow.string())
            strings.validate(full=True)
        except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError) as error:
            if "UTF8" in str(error):
                where = f"{self.table.path}, column {column!r}"
                raise FileFormatError("the column is not UTF-8", where, error) from error
            raise self._cannot_be(column, "names", error) from error
        return strings

    def _cannot_be(self, column: str, what: str, received: object) -> FileFormatError:
        where = f"{self.table.path}, rows {self.first + 1} to {self.first + self.n_rows}, column {column!r}"
        remedy = f"leave the column out: exclude={column!r}, or convert it"
        return FileFormatError(f"the column cannot be read as {what}", where, received, remedy=remedy)


def rounded(where: str, received: object) -> FileFormatError:
    """Return the error for an integer that no float64 equals."""
    allowed = "integers from -2**53 to 2**53, and numbers with a point"
    return FileFormatError(ROUNDED_INTEGER, where, str(received), allowed, EXACT_REMEDY)


def coded(cells: Sequence[str] | np.ndarray) -> Words:
    """Return the strings among cells, in the order in which they occur, and their places."""
    codes, words = pd.factorize(np.array(cells, object))
    return codes, words.tolist()


def _large(cells: Any) -> np.ndarray:
    """Return the places of numbers that may be integers that were rounded."""
    numbers = cells if isinstance(cells, np.ndarray) else cells.to_numpy(zero_copy_only=False)
    # A missing number makes both comparisons false, and then all are looked at.
    if numbers.size and numbers.max() < EXACT_INTEGERS and numbers.min() > -EXACT_INTEGERS:
        return np.arange(0)
    return np.flatnonzero(np.isfinite(numbers) & (np.abs(numbers) >= EXACT_INTEGERS))


def _parsed(words: Sequence[str]) -> np.ndarray | None:
    """Return numbers, correctly rounded to float64; None if a word is none."""
    # Python reads "1_000" as a number, but in a table it is a mistake. One search of all cells costs less than many.
    if "_" in "".join(words):
        return None
    try:
        return np.fromiter(map(float, words), np.float64, len(words))
    except ValueError:
        pass
    try:
        return np.array([np.nan if word.strip() in MISSING_CELLS else float(word) for word in words], np.float64)
    except ValueError:
        return None


# --- text -------------------------------------------------------------------------------------------------------


class TextTable(Table):
    """A CSV or TSV file, perhaps compressed."""

    is_text = True

    def __init__(self, path: Path, separator: str | None) -> None:
        if separator is not None and (len(separator) != 1 or separator in '\r\n"'):
            remedy = "give one character, such as ';', or leave it out to find it"
            raise bad_argument("this cannot separate cells", "separator", separator, "one character", remedy)
        self.path, self._separator = path, separator or "\t"
        if separator is None and not bare_name(path, ()).lower().endswith((".tsv", ".tab")):
            with reading(path) as stream:
                first = next((line for line in lines_of(stream, path) if line.strip()), b"")
            if first.startswith((b"\xff\xfe", b"\xfe\xff")):
                remedy = "convert it: iconv -f utf16 -t utf8"
                raise FileFormatError("the file is not UTF-8", path, "UTF-16", remedy=remedy)
            self._separator = max(SEPARATORS, key=first.decode("utf-8", "replace").count)
        header_line, columns, header = self._header()
        if separator is None and len(columns) == 1 and re.match(r"\s*\\[a-z]+|.*\S {2,}\S", columns[0]):
            allowed, remedy = (
                "a comma, a tab, ; or | between cells",
                "write it so, as pandas.read_fwf(file).to_csv() does",
            )
            where = f"{path}, line {header_line}"
            raise FileFormatError("cells are not separated", where, columns[0], allowed, remedy)
        self._header_line, self._header_bytes, self._first_line = header_line, len(header), 1 + _n_lines(header)
        super().__init__(path, columns, f"{path}, line {header_line}")

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows below the header as text, each with the number of its line."""
        for line, block in self._blocks():
            rows, error = self._by_csv(block, line)
            yield from rows
            if error is not None:
                raise error

    def place_of(self, row: int) -> str:
        """Return a row in words."""
        return f"line {next(islice(self.rows(), row, None))[0]}"

    def _header(self) -> tuple[int, list[str], bytes]:
        """Return the first row that is not blank, the number of its line, and the bytes up to its end."""
        head = b""
        with reading(self.path) as stream:
            for block in _blocks(stream, self._separator):  # the first may hold blank lines alone
                head, number = head + block, 1
                mark = BOM_UTF8 * head.startswith(BOM_UTF8)
                text = io.StringIO(head.removeprefix(mark).decode(errors="surrogateescape"), newline="")
                rows = csv.reader(text, delimiter=self._separator, strict=True)
                try:
                    for row in rows:
                        if row:
                            header = mark + text.getvalue()[: text.tell()].encode(errors="surrogateescape")
                            header.decode()
                            return number, row, header
                        number = rows.line_num + 1
                except csv.Error as error:
                    raise self._unreadable(number, error) from error
                except UnicodeDecodeError as error:
                    raise _not_utf8(self.path, 1, error) from error
        raise FileFormatError("the file is empty", self.path, allowed="a line of column names, then rows")

    def _blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield the rows below the header in blocks, each with the number of its first line."""
        with reading(self.path) as stream:
            stream.read(self._header_bytes)
            line = self._first_line
            for block in _blocks(stream, self._separator):
                yield line, block
                line += _n_lines(block)

    def _read(self, columns: list[str], numbers: Collection[str]) -> Iterator[tuple[int, Cells]]:
        place_of = {name: place for place, name in enumerate(self.columns)}
        places = [place_of[name] for name in columns]
        for line, block in self._blocks():
            if (found := self._by_arrow(block, columns, numbers)) is not None:
                yield found
                continue
            rows, error = self._by_csv(block, line)
            of_columns = [arrow.array([row[place] for _, row in rows], arrow.string()) for place in places]
            yield len(rows), dict(zip(columns, of_columns, strict=True))
            if error is not None:  # raised after the rows above it, whose errors come first
                raise error

    def _by_arrow(self, block: bytes, columns: Sequence[str], numbers: Collection[str]) -> tuple[int, Cells] | None:
        """Return the rows of a block; None if they take a closer look."""
        from pyarrow import csv as arrow_csv

        if len(block) > files.LONGEST_LINE or not _is_regular(block, self._separator):
            return None
        places = {name: str(place) for place, name in enumerate(self.columns)}  # several columns may have no name
        kinds = {places[name]: arrow.float64() if name in numbers else arrow.string() for name in columns}
        names = [*map(str, range(len(self.columns)))]
        try:
            table = arrow_csv.read_csv(
                arrow.py_buffer(block),
                arrow_csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=names),
                arrow_csv.ParseOptions(delimiter=self._separator, newlines_in_values=b'"' in block),
                arrow_csv.ConvertOptions(include_columns=list(kinds), column_types=kinds, null_values=[*MISSING_CELLS]),
            )
        except arrow.ArrowInvalid:  # a cell that is not a number to Arrow, or a row of another length
            return self._by_arrow(block, columns, ()) if numbers else None
        found = {name: table[places[name]].combine_chunks() for name in columns}
        # A large number may be an integer that was rounded, which its text tells.
        if large := {name for name in columns if name in numbers and _large(found[name]).size}:
            return self._by_arrow(block, columns, {*numbers} - large)
        return table.num_rows, found

    def _by_csv(self, block: bytes, first: int) -> tuple[list[tuple[int, list[str]]], FileFormatError | None]:
        """Return the rows of a block up to the first that is wrong, with the numbers of their lines, and its error."""
        rows, line, failed = list[tuple[int, list[str]]](), first, None
        try:
            text = block.decode()
        except UnicodeDecodeError as error:
            text = block[: block.rfind(b"\n", 0, error.start) + 1].decode()
            failed = _not_utf8(self.path, first, error)
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=self._separator, strict=True)
        try:
            for row in lines:
                if row and len(row) != len(self.columns):
                    allowed = f"{len(self.columns)} cells, as in line {self._header_line}"
                    allowed += f", separated by {self._separator!r}"
                    what = f"too {'few' if len(row) < len(self.columns) else 'many'} cells in a line"
                    remedy = "fix the line, or name another separator"
                    if len(self.columns) == 1:
                        title = f"line {self._header_line}, if it is a title above the table"
                        remedy = f"leave out {title}, or name the separator"
                    return rows, bad_line(what, self.path, line, f"{len(row)} cells", allowed, remedy)
                if row:
                    rows.append((line, row))
                line = first + lines.line_num
        except csv.Error as error:
            is_long = len(block) > files.LONGEST_LINE and max(map(len, block.split(b"\n"))) > files.LONGEST_LINE
            where = f"{self.path}, line {line}"
            return rows, files.line_too_long(where) if is_long else self._unreadable(line, error)
        return rows, failed

    def _unreadable(self, line: int, error: csv.Error) -> FileFormatError:
        allowed = "cells with one separator between them, quoted where they contain it"
        remedy = "check that this is a table, and the quotes on the line"
        return bad_line("the line cannot be read", self.path, line, error, allowed, remedy)


def _not_utf8(path: Path, first: int, error: UnicodeDecodeError) -> FileFormatError:
    line = first + error.object.count(b"\n", 0, error.start)
    remedy = "convert it to UTF-8: iconv -f latin1 -t utf8"
    return bad_line("the file is not UTF-8", path, line, f"byte {error.object[error.start]:#04x}", remedy=remedy)


def _blocks(stream: IO[bytes], separator: str) -> Iterator[bytes]:
    """Yield the rest of a file in blocks of whole rows, or of part of a row that is too long."""

    def is_whole(block: bytes) -> bool:
        if _is_regular(block, separator) or len(block) > files.LONGEST_LINE:
            return True
        try:
            for _ in csv.reader(
                io.StringIO(block.decode(errors="replace"), newline=""), delimiter=separator, strict=True
            ):
                pass
        except csv.Error as error:
            return "unexpected end" not in str(error)  # within quotes
        return True

    block = b""
    while found := stream.read(max(CELL_BYTES * BATCH_CELLS, len(block))) + stream.readline(files.LONGEST_LINE):
        block += found
        if is_whole(block):
            yield block
            block = b""
    if block:
        yield block


def _n_lines(block: bytes) -> int:
    return block.count(b"\n") + (block.count(b"\r") - block.count(b"\r\n") if b"\r" in block else 0)


def _is_regular(block: bytes, separator: str) -> bool:
    """Tell whether Arrow and the csv module agree about lines, quotes and characters."""
    if not separator.isascii() or (b"\r" in block and block.count(b"\r") != block.count(b"\r\n")):
        return False
    try:
        _ = block.isascii() or block.decode()
    except UnicodeDecodeError:
        return False
    if b'"' not in block:
        return True
    characters = np.frombuffer(block, np.uint8)
    quotes = np.flatnonzero(characters == ord('"'))
    around = np.concatenate([quotes[::2] - 1, quotes[1::2] + 1])
    around = around[(around >= 0) & (around < len(block))]
    others = characters[around].tobytes().translate(None, separator.encode() + b'\r\n"')
    return quotes.size % 2 == 0 and not others


class JsonLines(Table):
    """A file with a JSON object on each line, perhaps compressed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        first = next(self._tables(), None)
        if first is None:
            raise FileFormatError("the file is empty", path, allowed="a JSON object on each line")
        super().__init__(path, first[2].column_names)

    def place_of(self, row: int) -> str:
        """Return a row in words."""
        with reading(self.path) as stream:
            lines = (number for number, line in enumerate(lines_of(stream, self.path), start=1) if line.strip())
            return f"line {next(islice(lines, row, None))}"

    def _tables(self) -> Iterator[tuple[int, bytes, Any]]:
        from pyarrow import json as arrow_json

        first = 0
        with reading(self.path) as stream:
            for block in files.blocks_of(stream, self.path, CELL_BYTES * BATCH_CELLS):
                if not block.strip():
                    continue
                options = arrow_json.ReadOptions(use_threads=False, block_size=len(block) + 1)
                try:
                    table = arrow_json.read_json(arrow.py_buffer(block), options)
                except arrow.ArrowInvalid as error:
                    row = re.search(r"in row (\d+)", str(error))
                    where = f"{self.path}, {self.place_of(first + int(row[1]) if row else first)}"
                    allowed = 'a JSON object on each line, with one kind of value under a name: {"y": 1, "model": 0.5}'
                    remedy = 'write it so: frame.to_json(path, orient="records", lines=True)'
                    raise FileFormatError("the line cannot be read", where, error, allowed, remedy) from error
                yield first, block, table
                first += table.num_rows

    def _read(self, columns: list[str], numbers: Collection[str]) -> Iterator[tuple[int, Cells]]:
        for first, block, table in self._tables():
            if other := [name for name in table.column_names if name not in self.columns]:
                where = f"{self.path}, from {self.place_of(first)}"
                received = few(map(repr, other))
                raise FileFormatError("these names are not in the first lines", where, received, few(self.columns))
            missing = arrow.nulls(table.num_rows)
            cells = {name: table[name].combine_chunks() if name in table.column_names else missing for name in columns}
            floats = [name for name in numbers if types.is_floating(cells[name].type)]
            large = [name for name in floats if _large(cells[name]).size]
            for row, line in enumerate(line for line in block.split(b"\n") if line.strip()) if large else ():
                found = json.loads(line)
                for name in large:  # an integer among numbers with a point may have been rounded
                    value = found.get(name)
                    if isinstance(value, int) and value != int(float(value)):
                        raise rounded(self.where(first + row, name), value)
            yield table.num_rows, cells


# --- Arrow ------------------------------------------------------------------------------------------------------


class ArrowTable(Table):
    """A Parquet or Feather file, or a table of Arrow in memory."""

    def __init__(self, path: Path, schema: Any, read: Callable[[list[str], int], Iterable[Any]]) -> None:
        super().__init__(path, schema.names)
        levels = (schema.pandas_metadata or {}).get("index_columns", ())
        self.index = frozenset(level for level in levels if isinstance(level, str))
        self._batches = read

    @classmethod
    def of_table(cls, table: Any, name: str) -> ArrowTable:
        """Wrap a table in memory; `name` is what errors call it."""
        return cls(Path(name), table.schema, lambda columns, size: table.select(columns).to_batches(max_chunksize=size))

    def _read(self, columns: list[str], numbers: Collection[str]) -> Iterator[tuple[int, Cells]]:
        from pyarrow import compute

        for batch in self._batches(columns, max(1, BATCH_CELLS // max(1, len(columns)))):
            cells: Cells = {}
            for place, name in enumerate(columns):
                one = batch.column(place)
                if types.is_dictionary(one.type) and one.type.ordered:
                    words = one.dictionary.cast(arrow.string()).to_pylist()
                    self.order[name] = list(dict.fromkeys([*self.order.get(name, ()), *words]))
                if types.is_dictionary(one.type) and types.is_primitive(one.type.value_type):
                    one = one.dictionary_decode()  # numbers and times are what they are; text is needed as codes
                elif types.is_run_end_encoded(one.type):
                    one = compute.run_end_decode(one)
                cells[name] = one
            yield batch.num_rows, cells


def _parquet(path: Path) -> ArrowTable:
    from pyarrow import parquet

    def read(columns: list[str], size: int) -> Iterator[Any]:
        with _naming_damage("Parquet", path):
            for batch in file.iter_batches(batch_size=size, columns=columns):
                yield batch.select(columns)  # in this order

    with _naming_damage("Parquet", path):
        file = parquet.ParquetFile(path, page_checksum_verification=True)
        return ArrowTable(path, file.schema_arrow, read)


def _feather(path: Path, *, is_stream: bool) -> ArrowTable:
    from pyarrow import ipc

    def opened() -> tuple[Any, Iterable[Any]]:
        source = arrow.memory_map(str(path))
        if is_stream:
            stream = ipc.open_stream(source)
            return stream.schema, stream
        file = ipc.open_file(source)
        return file.schema, map(file.get_batch, range(file.num_record_batches))

    def read(columns: list[str], size: int) -> Iterator[Any]:
        with _naming_damage("Arrow", path):
            for batch in opened()[1]:
                batch.validate(full=True)
                for start in range(0, batch.num_rows, size):
                    yield batch.select(columns).slice(start, size)

    with _naming_damage("Arrow", path):
        return ArrowTable(path, opened()[0], read)


@contextmanager
def _naming_damage(kind: str, path: Path) -> Iterator[None]:
    try:
        yield
    except AucprError:
        raise
    except Exception as error:  # of a damaged file, Arrow raises anything
        remedy = "copy or download it again"
        raise FileFormatError(f"the {kind} file cannot be read", path, error, remedy=remedy) from error
