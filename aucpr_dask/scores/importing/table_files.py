"""Files that hold tables, read in batches of rows: CSV, TSV and Parquet.

Text is read by the csv module, because pandas fills short rows with missing values instead of refusing them.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import numpy as np

from aucpr_dask.errors import AucprError, FileFormatError, bad_argument, few
from aucpr_dask.schema.checks import EXACT_INTEGERS, require
from aucpr_dask.scores.importing.files import bad_line, bare_name, lines_of, reading

MISSING_CELLS = frozenset({"", "NA", "NaN", "nan"})
ROUNDED_INTEGER = "an integer cannot be a float64 without rounding"
EXACT_REMEDY = "subtract a constant, or give ranks: only the order of the scores matters"
SEPARATORS = ",\t;|"
BATCH_CELLS, ROWS_AT_ONCE = 2**18, 512
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
        self._header_line, self.columns = first
        _check_columns_differ(self.columns, f"{path}, line {self._header_line}")

    def batches(self, columns: Sequence[str]) -> Iterator[TextBatch]:
        """Yield the rows, some at a time."""
        places = {name: place for place, name in enumerate(self.columns)}
        first, ragged = 0, None
        with self._reading() as lines:
            rows = islice(filter(None, lines), 1, None)
            while ragged is None:
                cells, ragged = self._next_cells(rows)
                if not cells[0]:
                    break
                yield TextBatch(self, places, first, cells)
                first += len(cells[0])
        if ragged is not None:  # raised after the batch, so that errors above this line come first
            allowed = f"{len(self.columns)} cells, as in line {self._header_line}, separated by {self._separator!r}"
            what = f"too {'few' if len(ragged) < len(self.columns) else 'many'} cells in a line"
            received, remedy = f"{len(ragged)} cells", "fix the line, or name another separator"
            if len(self.columns) == 1:
                remedy = f"leave out line {self._header_line}, if it is a title above the table, or name the separator"
            raise bad_line(what, self.path, self.line_of(first), received, allowed, remedy)

    def _next_cells(self, rows: Iterator[list[str]]) -> tuple[list[list[str]], list[str] | None]:
        """Return the next cells, column by column, and the row of another length that ended them, if one did.

        Few rows are held at a time: Python would look for cycles among many lists again and again.
        """
        cells: list[list[str]] = [[] for _ in self.columns]
        size = max(1, BATCH_CELLS // len(self.columns))
        for start in range(0, size, ROWS_AT_ONCE):
            most = min(ROWS_AT_ONCE, size - start)
            some = self._next_rows(rows, most)
            is_whole = {*map(len, some)} <= {len(self.columns)}
            whole = some if is_whole else list(takewhile(lambda row: len(row) == len(self.columns), some))
            for column, of_rows in zip(cells, zip(*whole, strict=True), strict=False):  # of no rows, there are none
                column += of_rows
            if len(whole) < len(some):
                return cells, some[len(whole)]
            if len(some) < most:
                break
        return cells, None

    def line_numbers(self) -> Iterator[int]:
        """Yield the number of the first line of each row."""
        return (number for number, _ in islice(self._lines(), 1, None))

    def line_of(self, row: int) -> int:
        """Return the number of the first line of a row, which is counted only where an error names it."""
        return next(islice(self.line_numbers(), row, None))

    def numeric(self, columns: Sequence[str]) -> list[str]:
        """Return those of `columns` that hold numbers in the first rows."""
        first = next(self.batches(columns), None)
        return [name for name in columns if first is None or _are_numbers(first.text(name))]

    def whole(self, columns: Sequence[str]) -> list[str]:
        """Return those of `columns` that hold whole numbers, written without a point, in the first rows."""
        first = next(self.batches(columns), None)
        return [name for name in columns if first is not None and _are_whole(first.text(name))]

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        """Open the file as a reader of the csv module."""
        with reading(self.path) as stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
            yield csv.reader(lines_of(text, self.path), delimiter=self._separator, strict=True)

    def _next_rows(self, rows: Iterator[list[str]], most: int) -> list[list[str]]:
        try:
            return list(islice(rows, most))
        except (csv.Error, UnicodeDecodeError):
            for _ in self._lines():  # raises the same error, and names the line
                pass
            raise

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """Yield each row that is not blank and the number of its first line."""
        with self._reading() as lines:
            number = 1
            try:
                for row in lines:
                    if row:
                        yield number, row
                    number = lines.line_num + 1
            except csv.Error as error:
                allowed = "cells with one separator between them, quoted where they contain it"
                remedy = "check that this is a table, and the quotes on the line"
                raise bad_line("the line cannot be read", self.path, number, error, allowed, remedy) from error
            except UnicodeDecodeError as error:
                where, received = f"{self.path}, after line {lines.line_num}", f"byte {error.object[error.start]:#04x}"
                raise FileFormatError("the file is not UTF-8", where, received, remedy="convert it to UTF-8") from error


def _likely_separator(path: Path) -> str:
    if bare_name(path, ()).lower().endswith((".tsv", ".tab")):
        return "\t"
    with reading(path) as stream:
        first = next(lines_of(stream, path), b"").decode("utf-8", "replace")
    return max(SEPARATORS, key=first.count)


@dataclass(frozen=True)
class TextBatch:
    """Some rows of a text file."""

    table: TextTable
    places: dict[str, int]
    first: int
    cells: list[list[str]]

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.cells[0])

    def text(self, column: str) -> Sequence[str]:
        """Return the cells of a column as strings; an empty string is a missing cell."""
        return self.cells[self.places[column]]

    def numbers(self, column: str) -> np.ndarray:
        """Return the cells of a column as float64, NaN where missing."""
        cells = self.text(column)
        try:
            numbers = _parse(cells)
        except ValueError:
            bad = next(row for row, cell in enumerate(cells) if not _are_numbers([cell]))
            where, allowed = self.where(bad, column), "a number; empty, NA or NaN for a missing one"
            remedy = f"fix the cell, or leave the column out: exclude={column!r} (--exclude)"
            raise FileFormatError("the cell is not a number", where, repr(cells[bad]), allowed, remedy) from None
        for row in np.flatnonzero(np.isfinite(numbers) & (np.abs(numbers) >= EXACT_INTEGERS)).tolist():
            if _INTEGER.fullmatch(cells[row].strip()) and int(cells[row]) != int(numbers[row]):
                what, allowed = ROUNDED_INTEGER, "integers from -2**53 to 2**53, and numbers with a point"
                raise FileFormatError(what, self.where(row, column), cells[row], allowed, EXACT_REMEDY)
        return numbers

    def where(self, row: int, column: str) -> str:
        """Return the place of a cell in words."""
        return f"{self.table.path}, line {self.table.line_of(self.first + row)}, column {column!r}"


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
    present = [cell.strip() for cell in cells if cell.strip() not in MISSING_CELLS]
    return bool(present) and all(map(_INTEGER.fullmatch, present))


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

        _, parquet = (require(name, "parquet", path) for name in ("pyarrow", "pyarrow.parquet"))
        with _parquet_errors(path):
            file = parquet.ParquetFile(path, page_checksum_verification=True)
            return cls(path, file.schema_arrow, read)

    @classmethod
    def of_table(cls, table: Any, name: str) -> ArrowTable:
        """Wrap a table in memory; `name` is what errors call it."""
        return cls(Path(name), table.schema, lambda columns, size: table.select(columns).to_batches(max_chunksize=size))

    def batches(self, columns: Sequence[str]) -> Iterator[ArrowBatch]:
        """Yield the rows, some at a time, with these columns."""
        first = 0
        for batch in self._read(list(columns), max(1, BATCH_CELLS // max(1, len(columns)))):
            yield ArrowBatch(self.path, first, batch)
            first += batch.num_rows

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

    def text(self, column: str) -> Sequence[str]:
        """Return the cells of a column as strings; an empty string is a missing cell."""
        try:
            return [cell or "" for cell in self._cast(column, "string").to_pylist()]
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
