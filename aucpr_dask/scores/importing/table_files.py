"""Files that hold tables, read in batches of rows: CSV, TSV and Parquet.

Text is read by Arrow in blocks of rows that it reads as Python's csv module does, and by that module otherwise, whose
errors name the line. Pandas fills short rows with missing values instead of refusing them.
"""

from __future__ import annotations

import csv
import io
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

from aucpr_dask.errors import AucprError, FileFormatError, bad_argument, few
from aucpr_dask.schema.checks import EXACT_INTEGERS
from aucpr_dask.scores.importing import files
from aucpr_dask.scores.importing.files import bad_line, bare_name, lines_of, reading

MISSING_CELLS = frozenset({"", "NA", "NaN", "nan"})
ROUNDED_INTEGER = "an integer cannot be a float64 without rounding"
EXACT_REMEDY = "subtract a constant, or give ranks: only the order of the scores matters"
SEPARATORS = ",\t;|"
BATCH_CELLS, CELL_BYTES = 2**18, 8
Words = tuple[np.ndarray, list[str]]  # the place of each cell's string in the list
_INTEGER = re.compile(r"[+-]?[0-9]{1,999}")

_PARQUET_MAGIC = b"PAR1"


def open_table(path: Path, separator: str | None) -> Table:
    """Open a Parquet file, or else a text file, by its first bytes."""
    with reading(path) as stream:
        is_parquet = stream.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC
    return ArrowTable.of_parquet(path) if is_parquet else TextTable(path, separator)


class TextTable:
    """A CSV or TSV file, perhaps compressed."""

    index = frozenset[str]()  # a text file does not tell an index from columns

    def __init__(self, path: Path, separator: str | None) -> None:
        self.path = path
        if separator is not None and (len(separator) != 1 or separator in '\r\n"'):
            remedy = "give one character, such as ';', or leave it out to find it"
            raise bad_argument("this cannot separate cells", "separator", separator, "one character", remedy)
        self._separator = separator or _likely_separator(path)
        first = next(self._lines(), None)
        if first is None:
            raise FileFormatError("the file is empty", path, allowed="a line of column names, then rows")
        self._header_line, self._header_end, self.columns = first
        _check_columns_differ(self.columns, f"{path}, line {self._header_line}")

    def batches(self, columns: Sequence[str], numbers: Collection[str] = ()) -> Iterator[TextBatch]:
        """Yield the rows, some at a time: by Arrow while it reads them as the csv module would, then by that."""
        first = 0
        with reading(self.path) as stream:
            header = b"".join(stream.readline(files.LONGEST_LINE) for _ in range(self._header_end))
            for block in _blocks(stream) if _is_regular(header, self._separator) else [header]:
                if (batch := self._by_arrow(block, first, columns, numbers)) is None:
                    break
                yield batch
                first += batch.n_rows
            else:
                return
        rows, size = islice(self.rows(), first, None), max(1, BATCH_CELLS // len(self.columns))
        error = None
        while error is None:
            some: list[list[str]] = []
            try:
                some.extend(islice((row for _, row in rows), size))
            except FileFormatError as found:  # raised after the batch, so that errors above its line come first
                error = found
            if some:
                of_columns = dict(zip(self.columns, zip(*some, strict=True), strict=True))
                yield TextBatch(self, first, len(some), {name: coded(of_columns[name]) for name in columns}, {})
            elif error is None:
                return
            first += len(some)
        raise error

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the number of the first line of each row, and its cells."""
        for number, _, row in islice(self._lines(), 1, None):
            if len(row) != len(self.columns):
                allowed = f"{len(self.columns)} cells, as in line {self._header_line}, separated by {self._separator!r}"
                what = f"too {'few' if len(row) < len(self.columns) else 'many'} cells in a line"
                remedy = "fix the line, or name another separator"
                if len(self.columns) == 1:
                    title = f"line {self._header_line}, if it is a title above the table"
                    remedy = f"leave out {title}, or name the separator"
                raise bad_line(what, self.path, number, f"{len(row)} cells", allowed, remedy)
            yield number, row

    def where(self, row: int, column: str) -> str:
        """Return the place of a cell in words."""
        line, _ = next(islice(self.rows(), row, None))
        return f"{self.path}, line {line}, column {column!r}"

    def numeric(self, columns: Sequence[str]) -> list[str]:
        """Return those of `columns` that hold numbers in the first rows."""
        first = next(self.batches(columns), None)
        return [name for name in columns if first is None or _are_numbers(first.text(name)[1])]

    def whole(self, columns: Sequence[str]) -> list[str]:
        """Return those of `columns` that hold whole numbers, written without a point, in the first rows."""
        first = next(self.batches(columns), None)
        return [name for name in columns if first is not None and _are_whole(first.text(name)[1])]

    def _by_arrow(self, block: bytes, first: int, columns: Sequence[str], numbers: Collection[str]) -> TextBatch | None:
        """Return the rows of a block; None if they take a closer look."""
        import pyarrow as arrow
        from pyarrow import csv as arrow_csv

        if len(block) > files.LONGEST_LINE or not _is_regular(block, self._separator):
            return None
        places = {name: str(place) for place, name in enumerate(self.columns)}  # several columns may have no name
        try:
            table = arrow_csv.read_csv(
                arrow.py_buffer(block),
                arrow_csv.ReadOptions(
                    use_threads=False, block_size=len(block) + 1, column_names=[*map(str, range(len(self.columns)))]
                ),
                arrow_csv.ParseOptions(delimiter=self._separator, newlines_in_values=b'"' in block),
                arrow_csv.ConvertOptions(
                    include_columns=[places[name] for name in columns],
                    column_types={
                        places[name]: arrow.float64() if name in numbers else arrow.string() for name in columns
                    },
                    null_values=[*MISSING_CELLS],
                ),
            )
        except arrow.ArrowInvalid:  # a cell that is not a number to Arrow, or a row of another length
            return self._by_arrow(block, first, columns, ()) if numbers else None
        found = {name: table[places[name]] for name in columns}
        parsed = {name: found[name].to_numpy() for name in columns if name in numbers}
        # A large number may be an integer that was rounded, which its text tells.
        if large := [name for name, cells in parsed.items() if _has_large(cells)]:
            return self._by_arrow(block, first, columns, [name for name in parsed if name not in large])
        texts = {name: found[name].combine_chunks() for name in columns if name not in parsed}
        return TextBatch(self, first, table.num_rows, texts, parsed)

    def _lines(self) -> Iterator[tuple[int, int, list[str]]]:
        """Yield the numbers of the first and last line of each row that is not blank, and its cells."""
        with reading(self.path) as stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
            lines = csv.reader(lines_of(text, self.path), delimiter=self._separator, strict=True)
            number = 1
            try:
                for row in lines:
                    if row:
                        yield number, lines.line_num, row
                    number = lines.line_num + 1
            except csv.Error as error:
                allowed = "cells with one separator between them, quoted where they contain it"
                remedy = "check that this is a table, and the quotes on the line"
                raise bad_line("the line cannot be read", self.path, number, error, allowed, remedy) from error
            except UnicodeDecodeError as error:
                where, received = f"{self.path}, after line {lines.line_num}", f"byte {error.object[error.start]:#04x}"
                raise FileFormatError("the file is not UTF-8", where, received, remedy="convert it to UTF-8") from error


def _blocks(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the rest of a file in blocks of whole rows, or of part of a row that is too long."""
    block = b""
    while found := stream.read(max(CELL_BYTES * BATCH_CELLS, len(block))) + stream.readline(files.LONGEST_LINE):
        block += found
        is_within_quotes = b'"' in block and np.count_nonzero(_are_quotes(block)) % 2
        if not is_within_quotes or len(block) > files.LONGEST_LINE:
            yield block
            block = b""
    if block:
        yield block


def _are_quotes(block: bytes) -> np.ndarray:
    are_quotes: np.ndarray = np.frombuffer(block, np.uint8) == ord('"')
    return are_quotes


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
    block = block.removeprefix(BOM_UTF8)
    quotes = np.flatnonzero(_are_quotes(block))
    around = np.concatenate([quotes[::2] - 1, quotes[1::2] + 1])
    around = around[(around >= 0) & (around < len(block))]
    others = np.frombuffer(block, np.uint8)[around].tobytes().translate(None, separator.encode() + b'\r\n"')
    return quotes.size % 2 == 0 and not others


def _likely_separator(path: Path) -> str:
    if bare_name(path, ()).lower().endswith((".tsv", ".tab")):
        return "\t"
    with reading(path) as stream:
        first = next(lines_of(stream, path), b"").decode("utf-8", "replace")
    return max(SEPARATORS, key=first.count)


@dataclass(frozen=True)
class TextBatch:
    """Some rows of a text file, whose columns are parsed already or still text."""

    table: TextTable
    first: int
    n_rows: int
    texts: dict[str, Any]  # words, or strings of Arrow
    parsed: dict[str, np.ndarray]

    def text(self, column: str) -> Words:
        """Return the strings in a column, in the order in which they occur, and their places; "" is a missing cell."""
        cells = self.texts[column]
        words: Words = cells if isinstance(cells, tuple) else _words(cells)
        return words

    def strings(self, column: str) -> np.ndarray:
        """Return the cells of a column as strings; "" is a missing one."""
        cells = self.texts[column]
        return np.array(cells[1], object)[cells[0]] if isinstance(cells, tuple) else _strings(cells)

    def numbers(self, column: str) -> np.ndarray:
        """Return the cells of a column as float64, NaN where missing."""
        if column in self.parsed:
            return self.parsed[column]
        codes, words = self.text(column)
        try:
            numbers = _parse(words)
        except ValueError:
            bad = next(code for code, word in enumerate(words) if not _are_numbers([word]))
            where, allowed = self.where(_first(codes, bad), column), "a number; empty, NA or NaN for a missing one"
            remedy = f"fix the cell, or leave the column out: exclude={column!r} (--exclude)"
            raise FileFormatError("the cell is not a number", where, repr(words[bad]), allowed, remedy) from None
        for code in np.flatnonzero(_large(numbers)).tolist():
            if _INTEGER.fullmatch(words[code].strip()) and int(words[code]) != int(numbers[code]):
                where, allowed = (
                    self.where(_first(codes, code), column),
                    "integers from -2**53 to 2**53, and numbers with a point",
                )
                raise FileFormatError(ROUNDED_INTEGER, where, words[code], allowed, EXACT_REMEDY)
        return numbers[codes]

    def where(self, row: int, column: str) -> str:
        """Return the place of a cell in words."""
        return self.table.where(self.first + row, column)


def _words(cells: Any) -> Words:
    found = cells.dictionary_encode()
    return found.indices.to_numpy(), found.dictionary.to_pylist()


def _strings(cells: Any) -> np.ndarray:
    strings: np.ndarray = cells.to_numpy(zero_copy_only=False)
    return strings


def coded(cells: Sequence[str] | np.ndarray) -> Words:
    """Return the strings among cells, in the order in which they occur, and their places."""
    codes, words = pd.factorize(np.array(cells, object))
    return codes, words.tolist()


def _first(codes: np.ndarray, code: int) -> int:
    return int(np.argmax(codes == code))


def _large(numbers: np.ndarray) -> np.ndarray:
    is_large: np.ndarray = np.isfinite(numbers) & (np.abs(numbers) >= EXACT_INTEGERS)
    return is_large


def _has_large(numbers: np.ndarray) -> bool:
    # A missing number makes both comparisons false, and then all are looked at.
    is_small = numbers.size and numbers.max() < EXACT_INTEGERS and numbers.min() > -EXACT_INTEGERS
    return not is_small and bool(_large(numbers).any())


def _parse(cells: Sequence[str]) -> np.ndarray:
    """Parse numbers, correctly rounded to float64."""
    # Python reads "1_000" as a number, but in a table it is a mistake. One search of all cells costs less than many.
    if "_" in "".join(cells):
        raise ValueError("underscore in a number")
    try:
        return np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        numbers = (np.nan if cell.strip() in MISSING_CELLS else float(cell) for cell in cells)
        return np.fromiter(numbers, np.float64, len(cells))


def _are_numbers(cells: Sequence[str]) -> bool:
    try:
        _parse(cells)
    except ValueError:
        return False
    return True


def _are_whole(cells: Sequence[str]) -> bool:
    matches = (_INTEGER.fullmatch(cell.strip()) for cell in cells if cell.strip() not in MISSING_CELLS)
    return next(matches, None) is not None and None not in matches


class ArrowTable:
    """A Parquet file, or a pyarrow table in memory, whose name serves as its path."""

    def __init__(self, path: Path, schema: Any, read: Callable[[list[str], int], Iterable[Any]]) -> None:
        self.path = path
        self.columns: list[str] = list(schema.names)
        self._schema = schema
        self.index: frozenset[str] = _index_of(schema)
        self._read = read
        _check_columns_differ(self.columns, path)

    @classmethod
    def of_parquet(cls, path: Path) -> ArrowTable:
        """Open a Parquet file."""

        def read(columns: list[str], size: int) -> Iterator[Any]:
            with _parquet_errors(path):
                yield from file.iter_batches(batch_size=size, columns=columns)

        from pyarrow import parquet

        with _parquet_errors(path):
            file = parquet.ParquetFile(path, page_checksum_verification=True)
            return cls(path, file.schema_arrow, read)

    @classmethod
    def of_table(cls, table: Any, name: str) -> ArrowTable:
        """Wrap a table in memory; `name` is what errors call it."""
        return cls(Path(name), table.schema, lambda columns, size: table.select(columns).to_batches(max_chunksize=size))

    def batches(self, columns: Sequence[str], numbers: Collection[str] = ()) -> Iterator[ArrowBatch]:
        """Yield the rows, some at a time, with these columns."""
        first = 0
        for batch in self._read(list(columns), max(1, BATCH_CELLS // max(1, len(columns)))):
            yield ArrowBatch(self.path, first, batch)
            first += batch.num_rows

    def where(self, row: int, column: str) -> str:
        """Return the place of a cell in words."""
        return f"{self.path}, row {row + 1}, column {column!r}"

    def numeric(self, columns: Sequence[str]) -> list[str]:
        """Return those of `columns` that hold numbers."""
        from pyarrow import types

        kinds = {field.name: field.type for field in self._schema}
        tests = (types.is_integer, types.is_floating, types.is_decimal)
        return [name for name in columns if any(test(kinds[name]) for test in tests)]

    def whole(self, columns: Sequence[str]) -> list[str]:
        """Return those of `columns` that hold integers."""
        from pyarrow import types

        return [name for name in columns if types.is_integer(self._schema.field(name).type)]


def _index_of(schema: Any) -> frozenset[str]:
    """Return the columns that were the index of a data frame of pandas."""
    levels = (schema.pandas_metadata or {}).get("index_columns", ())
    return frozenset(level for level in levels if isinstance(level, str))


@contextmanager
def _parquet_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except AucprError:
        raise
    except Exception as error:  # of a damaged file, Arrow raises anything
        remedy = "copy or download it again"
        raise FileFormatError("the Parquet file cannot be read", path, error, remedy=remedy) from error


@dataclass(frozen=True)
class ArrowBatch:
    """Some rows of a table of Arrow."""

    path: Path
    first: int
    batch: Any

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.batch.num_rows)

    def text(self, column: str) -> Words:
        """Return the strings in a column, in the order in which they occur, and their places; "" is a missing cell."""
        words: Words = self._read(column, _words)
        return words

    def strings(self, column: str) -> np.ndarray:
        """Return the cells of a column as strings; "" is a missing one."""
        strings: np.ndarray = self._read(column, _strings)
        return strings

    def _read(self, column: str, read: Callable[[Any], Any]) -> Any:
        try:
            return read(self._cast(column, "string").fill_null(""))
        except UnicodeDecodeError as error:
            raise FileFormatError("the column is not UTF-8", f"{self.path}, column {column!r}", error) from error

    def numbers(self, column: str) -> np.ndarray:
        """Return the cells of a column as float64, NaN where missing."""
        numbers: np.ndarray = self._cast(column, "float64").to_numpy(zero_copy_only=False)
        return numbers

    def where(self, row: int, column: str) -> str:
        """Return the place of a cell in words."""
        return f"{self.path}, row {self.first + row + 1}, column {column!r}"

    def _cast(self, column: str, kind: str) -> Any:
        import pyarrow
        from pyarrow import types

        cells = self.batch.column(column)
        if kind == "float64" and types.is_boolean(cells.type):
            cells = cells.cast(pyarrow.int8())
        if types.is_dictionary(cells.type) and kind == "string":  # Arrow cannot take from views, as polars has them
            words = cells.dictionary.cast(pyarrow.string())
            cells = pyarrow.DictionaryArray.from_arrays(cells.indices, words)
        is_text = (types.is_string, types.is_large_string, types.is_dictionary)
        try:
            if kind == "float64" and any(test(cells.type) for test in is_text):
                raise pyarrow.ArrowInvalid(f"cells of type {cells.type}")
            return cells.cast(getattr(pyarrow, kind)())
        except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
            last = self.first + self.n_rows
            where = f"{self.path}, rows {self.first + 1} to {last}, column {column!r}"
            remedy = f"leave the column out: exclude={column!r} (--exclude), or convert it"
            raise FileFormatError(f"the column cannot be read as {kind}", where, error, remedy=remedy) from error


Table = TextTable | ArrowTable
Batch = TextBatch | ArrowBatch


def _check_columns_differ(columns: list[str], where: object) -> None:
    twice = [name for name, times in Counter(columns).items() if name and times > 1]
    if twice:
        received = few(map(repr, twice))
        raise FileFormatError("two columns have the same name", where, received, remedy="rename one of them")
