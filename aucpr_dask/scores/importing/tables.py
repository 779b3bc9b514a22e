"""Wide tables to a score store: rows are items, columns are models; CSV, TSV and Parquet."""

from __future__ import annotations

import csv
import fnmatch
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import dask.array as da
import numpy as np
import xarray as xr

from aucpr_dask.errors import FileFormatError, InvalidInputError, few
from aucpr_dask.schema.names import check_node_name
from aucpr_dask.schema.options import choose
from aucpr_dask.schema.variables import ITEM, MODEL, NEGATIVE, PADDING, POSITIVE, QUERY, UNJUDGED
from aucpr_dask.scores.importing.files import (
    FilePath,
    ImportSummary,
    OnProgress,
    Spool,
    Spooled,
    bare_name,
    find_files,
    lines_of,
    near,
    reading,
    report,
    require_pyarrow,
    summarize,
    write_blocks,
)
from aucpr_dask.scores.store import Region
from aucpr_dask.storage.stores import Scores, map_nodes, refuse_existing

DTYPES = ("float64", "float32")
MISSING_CELLS = frozenset({"", "NA", "NaN", "nan"})
SEPARATORS = ",\t;|"

_BATCH_CELLS = 2**18
_PARQUET_MAGIC = b"PAR1"
_PANDAS_INDEX = "__index_level_"
_TRUTH = {"true": POSITIVE, "false": NEGATIVE}


def import_table(
    paths: FilePath | Sequence[FilePath],
    url: str | Path,
    *,
    label: str,
    models: str | Sequence[str] | None = None,
    item: str | None = None,
    query: str | None = None,
    dataset: str | None = None,
    weight: str | None = None,
    exclude: str | Sequence[str] = (),
    negate: bool | str | Sequence[str] = (),
    positive: object = None,
    dtype: str = "float64",
    separator: str | None = None,
    overwrite: bool = False,
    on_progress: OnProgress | None = None,
) -> ImportSummary:
    r"""Write a wide table, or several of the same columns one below the other, to a score store.

    Rows are items and columns are models. An empty cell, ``NA`` or ``NaN`` is a missing score. Wherever
    columns are named (`models`, `exclude`, `negate`), a pattern such as ``"group: *"`` names all it matches.

    Parameters
    ----------
    paths : path or sequence of paths
        CSV or TSV files, plain or compressed (gzip, xz, bz2, zstd), Parquet files, folders, or glob patterns.
    url : str or Path
        Where to write.
    label : str
        The column of labels: 1 positive, 0 negative, -1 unjudged, or true and false; see `positive`.
    models : str or sequence of str, optional
        The columns of scores. By default all numeric columns that have no other job; a text file's column
        is numeric if it is so in the first rows.
    item : str, optional
        The column of item names, unique in a data set; not together with `query`.
    query : str, optional
        The column of queries: rows of equal value are ranked together, apart from all others.
    dataset : str, optional
        The column of data sets: the store then holds a tree with a node for each value.
    weight : str, optional
        The column of sample weights.
    exclude : str or sequence of str
        Columns that are no models.
    negate : bool or str or sequence of str
        Models for which low scores mean positive, or True for all: their sign is changed.
    positive : object, optional
        The value of `label` that means positive, where labels are any two values.
    dtype : {"float64", "float32"}
        The type in which scores are stored.
    separator : str, optional
        One character; by default a tab for ``.tsv``, else the likeliest in the first line.
    overwrite : bool
        Whether to replace a store at `url`.
    on_progress : callable, optional
        Called with (what, done, total).

    Returns
    -------
    ImportSummary
        Counts, and notes on columns that were left out or hold no score.

    Raises
    ------
    FileFormatError
        If a line has too few or too many cells, or a cell is not what it must be; the message names the
        file, the line and the column.
    InvalidInputError
        If a column is unknown or no column holds scores.
    StoreError
        If the store exists or cannot be written.

    Notes
    -----
    A table is read once, in batches; scores wait in a temporary file until they are written model by model.
    Memory holds a batch, one block of the store, and a few numbers per row.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "scores.csv").write_text("name,y,forest,linear\na,1,0.9,0.2\nb,0,0.1,\n")
    >>> print(import_table(folder / "scores.csv", folder / "scores.zarr", label="y", item="name"))
    2 models, 2 items, 1 data set
    """
    refuse_existing(url, overwrite=overwrite)
    tables = [_open_table(file, separator) for file in find_files(paths, "table")]
    with Spool() as spool:
        read = _read_tables(
            tables,
            _Jobs(label=label, item=item, query=query, dataset=dataset, weight=weight),
            spool,
            models=models,
            exclude=exclude,
            negate=negate,
            positive=positive,
            dtype=dtype,
            on_progress=on_progress,
        )
        write_blocks(url, read.template, read.open_node, overwrite=overwrite, on_progress=on_progress)
    return summarize(read.template, read.n_rows, read.notes)


def scores_of_table(
    table: Any,
    name: str,
    *,
    label: str,
    models: str | Sequence[str] | None = None,
    item: str | None = None,
    query: str | None = None,
    dataset: str | None = None,
    weight: str | None = None,
    exclude: str | Sequence[str] = (),
    negate: bool | str | Sequence[str] = (),
    positive: object = None,
    dtype: str = "float64",
) -> Scores:
    """Return the score data sets of a wide pyarrow table, in memory; `name` is what errors call it.

    All else is as in :func:`import_table`.
    """
    jobs = _Jobs(label=label, item=item, query=query, dataset=dataset, weight=weight)
    with Spool() as spool:
        read = _read_tables(
            [_ArrowTable(table, name)],
            jobs,
            spool,
            models=models,
            exclude=exclude,
            negate=negate,
            positive=positive,
            dtype=dtype,
        )

        def with_scores(path: str, described: xr.Dataset) -> xr.Dataset:
            score = described["score"]
            block = read.open_node(path)(tuple(slice(0, size) for size in score.shape))
            return described.assign(score=(score.dims, block["score"].copy())).drop_attrs()

        return map_nodes(read.template, with_scores)


class _Read(NamedTuple):
    """Tables that were read: what is to be written, and where its blocks come from."""

    template: Scores
    open_node: Callable[[str], Callable[[Region], dict[str, np.ndarray]]]
    n_rows: int
    notes: list[str]


def _read_tables(
    tables: Sequence[_Table],
    jobs: _Jobs,
    spool: Spool,
    *,
    models: str | Sequence[str] | None,
    exclude: str | Sequence[str],
    negate: bool | str | Sequence[str],
    positive: object,
    dtype: str,
    on_progress: OnProgress | None = None,
) -> _Read:
    """Read tables of the same columns once; their scores wait in the spool."""
    choose(DTYPES, dtype, "dtype")
    if jobs.item is not None and jobs.query is not None:
        raise InvalidInputError(
            "items of several queries cannot be named: each query has its own",
            received=f"item={jobs.item!r} and query={jobs.query!r}",
            remedy="leave out item",
        )
    _check_same_columns(tables)
    chosen, notes = _choose_models(tables[0], jobs, models, exclude)
    signs = _signs(chosen, negate)
    labels = _LabelReader(jobs.label, positive)
    nodes: dict[str, _Node] = {}
    scored = np.zeros(len(chosen), bool)
    for done, table in enumerate(tables, start=1):
        for batch in table.batches([*jobs.columns, *chosen]):
            scores = _scores_of(batch, chosen, signs, np.dtype(dtype))
            scored |= ~np.isnan(scores).all(axis=1)
            _share_out(batch, scores, jobs, labels, nodes, spool)
        report(on_progress, "reading tables", done, len(tables))
    labels.check_found(tables[0].path)
    if not nodes:
        raise FileFormatError("the table has no rows", where=few(table.path for table in tables))
    if not scored.all():
        notes.append(f"models without a score: {few(np.array(chosen, object)[~scored])}")
    return _Read(
        template=_template(nodes, chosen, jobs, np.dtype(dtype), tables),
        open_node=lambda name: partial(nodes[name].block, spool=spool),
        n_rows=sum(len(node.labels) for node in nodes.values()),
        notes=notes,
    )


# --- tables -----------------------------------------------------------------------------------------------------


class _Batch(Protocol):
    """Some rows of a table."""

    @property
    def n_rows(self) -> int: ...

    def text(self, column: str) -> Sequence[str]:
        """Return the cells of a column as strings; an empty string is a missing cell."""
        ...

    def numbers(self, column: str) -> np.ndarray:
        """Return the cells of a column as float64, NaN where missing."""
        ...

    def where(self, row: int, column: str) -> str:
        """Return the place of a cell in words."""
        ...


class _Table(Protocol):
    """A file that can be read in batches."""

    path: Path
    columns: list[str]

    def batches(self, columns: Sequence[str]) -> Iterator[_Batch]:
        """Yield the rows; only `columns` may be asked of them."""
        ...

    def numeric(self, columns: Sequence[str]) -> list[str]:
        """Return those of `columns` that hold numbers."""
        ...


def _open_table(path: Path, separator: str | None) -> _Table:
    with reading(path) as stream:
        is_parquet = stream.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC
    return _ParquetTable(path) if is_parquet else _TextTable(path, separator)


class _TextTable:
    """A CSV or TSV file, perhaps compressed."""

    def __init__(self, path: Path, separator: str | None) -> None:
        self.path = path
        self._separator = separator or _likely_separator(path)
        first = next(self._lines(), None)
        if first is None:
            raise FileFormatError("the file is empty", where=path, allowed="a line of column names, then rows")
        self._header_line, self.columns = first
        _check_columns_differ(self.columns, f"{path}, line {self._header_line}")

    def batches(self, columns: Sequence[str]) -> Iterator[_Batch]:
        places = {name: place for place, name in enumerate(self.columns)}
        size = max(1, _BATCH_CELLS // len(self.columns))
        numbers: list[int] = []
        rows: list[list[str]] = []
        for number, row in self._lines():
            if number == self._header_line:
                continue
            if len(row) != len(self.columns):
                if rows:
                    # What is wrong above this line comes first.
                    yield _TextBatch(self.path, places, numbers, list(zip(*rows, strict=True)))
                raise self._ragged(number, row)
            numbers.append(number)
            rows.append(row)
            if len(rows) == size:
                yield _TextBatch(self.path, places, numbers, list(zip(*rows, strict=True)))
                numbers, rows = [], []
        if rows:
            yield _TextBatch(self.path, places, numbers, list(zip(*rows, strict=True)))

    def numeric(self, columns: Sequence[str]) -> list[str]:
        first = next(self.batches(columns), None)
        return [name for name in columns if first is None or _is_numeric(first, name)]

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """Yield each row that is not blank and the number of its first line."""
        with reading(self.path) as stream:
            text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
            lines = csv.reader(lines_of(text, self.path), delimiter=self._separator, strict=True)
            number = 1
            try:
                for row in lines:
                    if row:
                        yield number, row
                    number = lines.line_num + 1
            except csv.Error as error:
                raise FileFormatError(
                    "the line cannot be read", where=f"{self.path}, line {number}", received=error
                ) from error
            except UnicodeDecodeError as error:
                raise FileFormatError(
                    "the file is not UTF-8",
                    where=f"{self.path}, after line {lines.line_num}",
                    received=f"byte {error.object[error.start]:#04x}",
                    remedy="convert it to UTF-8",
                ) from error

    def _ragged(self, number: int, row: list[str]) -> FileFormatError:
        return FileFormatError(
            f"too {'few' if len(row) < len(self.columns) else 'many'} cells in a line",
            where=f"{self.path}, line {number}",
            received=f"{len(row)} cells",
            allowed=f"{len(self.columns)} cells, as in line {self._header_line}, separated by {self._separator!r}",
            remedy="mend the line, or name another separator",
        )


def _likely_separator(path: Path) -> str:
    if bare_name(path, ()).lower().endswith((".tsv", ".tab")):
        return "\t"
    with reading(path) as stream:
        first = next(lines_of(stream, path), b"").decode("utf-8", "replace")
    return max(SEPARATORS, key=first.count)


@dataclass(frozen=True)
class _TextBatch:
    path: Path
    places: dict[str, int]
    lines: list[int]
    cells: list[tuple[str, ...]]

    @property
    def n_rows(self) -> int:
        return len(self.lines)

    def text(self, column: str) -> Sequence[str]:
        return self.cells[self.places[column]]

    def numbers(self, column: str) -> np.ndarray:
        cells = self.text(column)
        try:
            return _parse(cells)
        except ValueError:
            bad = next(row for row, cell in enumerate(cells) if not _is_number(cell))
            raise FileFormatError(
                "the cell is not a number",
                where=self.where(bad, column),
                received=repr(cells[bad]),
                allowed="a number; empty, NA or NaN for a missing one",
                remedy=f"mend the cell, or leave the column out: exclude={column!r} (--exclude)",
            ) from None

    def where(self, row: int, column: str) -> str:
        return f"{self.path}, line {self.lines[row]}, column {column!r}"


def _parse(cells: Sequence[str]) -> np.ndarray:
    """Parse numbers, correctly rounded to float64."""
    # Python reads "1_000" as a number; no table means it.
    if "_" in "".join(cells):
        raise ValueError("underscore in a number")
    try:
        return np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        numbers = (np.nan if cell.strip() in MISSING_CELLS else float(cell) for cell in cells)
        return np.fromiter(numbers, np.float64, len(cells))


def _is_number(cell: str) -> bool:
    try:
        _parse([cell])
    except ValueError:
        return False
    return True


def _is_numeric(batch: _Batch, column: str) -> bool:
    try:
        batch.numbers(column)
    except FileFormatError:
        return False
    return True


class _ParquetTable:
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        arrow = require_pyarrow(path)
        import pyarrow.parquet

        self.path = path
        try:
            self._file = pyarrow.parquet.ParquetFile(path)
        except (arrow.ArrowInvalid, OSError) as error:
            raise FileFormatError("the Parquet file cannot be read", where=path, received=error) from error
        self.columns = list(self._file.schema_arrow.names)
        _check_columns_differ(self.columns, path)

    def batches(self, columns: Sequence[str]) -> Iterator[_Batch]:
        size = max(1, _BATCH_CELLS // max(1, len(columns)))
        first = 0
        for batch in self._file.iter_batches(batch_size=size, columns=list(columns)):
            yield _ArrowBatch(self.path, first, batch)
            first += batch.num_rows

    def numeric(self, columns: Sequence[str]) -> list[str]:
        return _numeric_columns(self._file.schema_arrow, columns)


class _ArrowTable:
    """A pyarrow table in memory; what stands for its path is what it is called."""

    def __init__(self, table: Any, name: str) -> None:
        self.path = Path(name)
        self._table = table
        self.columns = list(table.column_names)
        _check_columns_differ(self.columns, name)

    def batches(self, columns: Sequence[str]) -> Iterator[_Batch]:
        size = max(1, _BATCH_CELLS // max(1, len(columns)))
        first = 0
        for batch in self._table.select(list(columns)).to_batches(max_chunksize=size):
            yield _ArrowBatch(self.path, first, batch)
            first += batch.num_rows

    def numeric(self, columns: Sequence[str]) -> list[str]:
        return _numeric_columns(self._table.schema, columns)


def _numeric_columns(schema: Any, columns: Sequence[str]) -> list[str]:
    from pyarrow import types

    kinds = {field.name: field.type for field in schema}
    tests = (types.is_integer, types.is_floating, types.is_decimal)
    return [name for name in columns if any(test(kinds[name]) for test in tests)]


@dataclass(frozen=True)
class _ArrowBatch:
    path: Path
    first: int
    batch: Any

    @property
    def n_rows(self) -> int:
        return int(self.batch.num_rows)

    def text(self, column: str) -> Sequence[str]:
        return [cell or "" for cell in self._cast(column, "string").to_pylist()]

    def numbers(self, column: str) -> np.ndarray:
        numbers: np.ndarray = self._cast(column, "float64").to_numpy(zero_copy_only=False)
        return numbers

    def where(self, row: int, column: str) -> str:
        return f"{self.path}, row {self.first + row + 1}, column {column!r}"

    def _cast(self, column: str, kind: str) -> Any:
        import pyarrow

        cells = self.batch.column(column)
        if kind == "float64" and pyarrow.types.is_boolean(cells.type):
            cells = cells.cast(pyarrow.int8())
        try:
            if kind == "float64" and _is_text(cells.type):
                raise pyarrow.ArrowInvalid(f"cells of type {cells.type}")
            return cells.cast(getattr(pyarrow, kind)())
        except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
            last = self.first + self.n_rows
            raise FileFormatError(
                f"the column cannot be read as {kind}",
                where=f"{self.path}, rows {self.first + 1} to {last}, column {column!r}",
                received=error,
                remedy=f"leave the column out: exclude={column!r} (--exclude), or convert it",
            ) from error


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_dictionary(kind))


def _check_columns_differ(columns: list[str], where: object) -> None:
    twice = [name for name in dict.fromkeys(columns) if name and columns.count(name) > 1]
    if twice:
        raise FileFormatError(
            "two columns have the same name",
            where=where,
            received=few(map(repr, twice)),
            remedy="rename one of them",
        )


def _check_same_columns(tables: Sequence[_Table]) -> None:
    expected = set(tables[0].columns)
    for table in tables[1:]:
        if differing := expected ^ set(table.columns):
            raise FileFormatError(
                "these tables have different columns",
                where=f"{tables[0].path} and {table.path}",
                received=f"only in one of them: {few(map(repr, sorted(differing)))}",
                remedy="import them apart, or give them the same columns",
            )


# --- columns ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Jobs:
    """The columns that are no models, by what they are for."""

    label: str
    item: str | None
    query: str | None
    dataset: str | None
    weight: str | None

    @property
    def columns(self) -> list[str]:
        named = (self.label, self.item, self.query, self.dataset, self.weight)
        return list(dict.fromkeys(name for name in named if name is not None))


def _choose_models(
    table: _Table, jobs: _Jobs, models: str | Sequence[str] | None, exclude: str | Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the columns that are models, and notes on those that were left out."""
    for name in jobs.columns:
        if name not in table.columns:
            raise _unknown_column(name, table.columns, table.path)
    excluded = set(_matching(exclude, table.columns, table.path))
    if models is not None:
        chosen = [name for name in _matching(models, table.columns, table.path) if name not in excluded]
        if both := [name for name in chosen if name in jobs.columns]:
            raise InvalidInputError(
                "a column cannot be a model and have another job", where=table.path, received=few(both)
            )
        left_out = []
    else:
        free = [name for name in table.columns if name not in excluded and name not in jobs.columns]
        chosen = table.numeric([name for name in free if name and not name.startswith(_PANDAS_INDEX)])
        left_out = [repr(name) for name in free if name not in set(chosen)]
    if not chosen:
        raise InvalidInputError(
            "no column is a model",
            where=table.path,
            received=f"columns {few(map(repr, table.columns))}",
            allowed="at least one numeric column besides the label and what is excluded",
            remedy="name the columns of scores: models=[...] (--models)",
        )
    return chosen, [f"columns that are not numeric, left out: {few(left_out)}"] if left_out else []


def _matching(names: str | Iterable[str], columns: Sequence[str], where: object) -> list[str]:
    """Return the columns that the names or patterns name, each once, in the order of the names."""
    found: dict[str, None] = {}
    for name in [names] if isinstance(names, str) else names:
        matches = [name] if name in columns else fnmatch.filter(columns, name)
        if not matches:
            raise _unknown_column(name, columns, where)
        found.update(dict.fromkeys(matches))
    return list(found)


def _unknown_column(name: str, columns: Sequence[str], where: object) -> InvalidInputError:
    return InvalidInputError(
        "there is no such column",
        where=where,
        received=repr(name),
        allowed=near(name, columns),
        remedy="check the name, or the separator" if len(columns) == 1 else None,
    )


def _signs(models: Sequence[str], negate: bool | str | Sequence[str]) -> np.ndarray:
    if isinstance(negate, bool):
        return np.full(len(models), negate)
    negated = set(_matching(negate, models, "models to negate"))
    return np.array([name in negated for name in models])


# --- cells ------------------------------------------------------------------------------------------------------


def _scores_of(batch: _Batch, models: Sequence[str], negated: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return the scores (model, row) of a batch."""
    scores = np.empty((len(models), batch.n_rows), dtype)
    with np.errstate(over="ignore"):
        for model, name in enumerate(models):
            scores[model] = batch.numbers(name)
    # Unlike a change of sign, a difference makes no negative zeros.
    scores[negated] = 0 - scores[negated]
    return scores


class _LabelReader:
    """Reads cells as labels, and remembers which values it has met."""

    def __init__(self, column: str, positive: object) -> None:
        self._column = column
        self._positive = None if positive is None else str(positive)
        self._negative: str | None = None
        self._met_positive = False

    def read(self, batch: _Batch) -> np.ndarray:
        cells = batch.text(self._column)
        labels = {cell: self._label_of(cell) for cell in dict.fromkeys(cells)}
        if None in labels.values():
            bad = next(row for row, cell in enumerate(cells) if labels[cell] is None)
            raise self._error(cells[bad], batch.where(bad, self._column))
        return np.array([labels[cell] for cell in cells], np.int8)

    def check_found(self, path: Path) -> None:
        """Raise if the positive value never came."""
        if self._positive is not None and not self._met_positive and self._negative is not None:
            raise InvalidInputError(
                "the positive label does not occur",
                where=f"{path}, column {self._column!r}",
                received=f"positive={self._positive!r}",
                allowed=repr(self._negative),
            )

    def _label_of(self, cell: str) -> int | None:
        text = cell.strip()
        if text in MISSING_CELLS:
            return None
        if self._positive is None:
            number = _number(text)
            return int(number) if number in (POSITIVE, NEGATIVE, UNJUDGED) else _TRUTH.get(text.lower())
        if _same(text, self._positive):
            self._met_positive = True
            return POSITIVE
        if self._negative is None or _same(text, self._negative):
            self._negative = text
            return NEGATIVE
        return None

    def _error(self, cell: str, where: str) -> FileFormatError:
        if cell.strip() in MISSING_CELLS:
            return FileFormatError(
                "the label is missing", where=where, received=repr(cell), remedy="use -1 for an unjudged item"
            )
        if self._positive is None:
            return FileFormatError(
                "this is not a label",
                where=where,
                received=repr(cell),
                allowed="1 positive, 0 negative, -1 unjudged, true, false",
                remedy="say which value is the positive one: positive=VALUE (--positive)",
            )
        return FileFormatError(
            "this label is a third value",
            where=where,
            received=repr(cell),
            allowed=f"{self._positive!r} (positive) and {self._negative!r} (negative)",
        )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _same(text: str, value: str) -> bool:
    if text.lower() == value.lower():
        return text == value or value.lower() in _TRUTH
    number = _number(text)
    return number is not None and number == _number(value)


def _names(batch: _Batch, column: str) -> Sequence[str]:
    names = batch.text(column)
    if "" in names:
        where = batch.where(list(names).index(""), column)
        raise FileFormatError("the cell is empty", where=where, allowed="a name")
    return names


def _weights_of(batch: _Batch, column: str) -> np.ndarray:
    weights = batch.numbers(column)
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if bad.size:
        raise FileFormatError(
            "this is not a weight",
            where=batch.where(int(bad[0]), column),
            received=weights[bad[0]],
            allowed="a finite number, not negative",
        )
    return weights


# --- data sets --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Rows:
    """Some rows of one data set; their scores (model, row) are in the spool."""

    scores: Spooled
    labels: np.ndarray
    weights: np.ndarray | None
    items: np.ndarray | None
    queries: np.ndarray | None


def _share_out(
    batch: _Batch, scores: np.ndarray, jobs: _Jobs, labels: _LabelReader, nodes: dict[str, _Node], spool: Spool
) -> None:
    """Give the rows of a batch to their data sets."""
    label = labels.read(batch)
    weights = _weights_of(batch, jobs.weight) if jobs.weight is not None else None
    items = np.array(_names(batch, jobs.item), object) if jobs.item is not None else None
    queries = np.array(_names(batch, jobs.query), object) if jobs.query is not None else None
    names = _names(batch, jobs.dataset) if jobs.dataset is not None else [""] * batch.n_rows
    for name, rows in _rows_by_name(names).items():
        if name not in nodes:
            nodes[name] = _Node()
            if jobs.dataset is not None:
                check_node_name(name, batch.where(int(rows[0]), jobs.dataset))
        nodes[name].add(
            _Rows(
                scores=spool.append(scores[:, rows]),
                labels=label[rows],
                weights=weights[rows] if weights is not None else None,
                items=items[rows] if items is not None else None,
                queries=queries[rows] if queries is not None else None,
            )
        )


def _rows_by_name(names: Sequence[str]) -> dict[str, np.ndarray]:
    codes: dict[str, int] = {}
    coded = np.fromiter((codes.setdefault(name, len(codes)) for name in names), np.int64, len(names))
    bounds = np.cumsum(np.bincount(coded))[:-1]
    return dict(zip(codes, np.split(np.argsort(coded, kind="stable"), bounds), strict=True))


class _Node:
    """The rows of one data set, and where they come to lie."""

    def __init__(self) -> None:
        self._parts: list[Spooled] = []
        self._labels: list[np.ndarray] = []
        self._weights: list[np.ndarray] = []
        self._items: list[np.ndarray] = []
        self._codes: list[np.ndarray] = []
        self._queries: dict[str, int] = {}

    def add(self, rows: _Rows) -> None:
        """Append rows."""
        self._parts.append(rows.scores)
        self._labels.append(rows.labels)
        if rows.weights is not None:
            self._weights.append(rows.weights)
        if rows.items is not None:
            self._items.append(rows.items)
        if rows.queries is not None:
            codes = (self._queries.setdefault(query, len(self._queries)) for query in rows.queries)
            self._codes.append(np.fromiter(codes, np.int64, len(rows.queries)))

    @property
    def labels(self) -> np.ndarray:
        """The labels of all rows."""
        return np.concatenate(self._labels)

    def lay_out(self, models: Sequence[str], dtype: np.dtype) -> xr.Dataset:
        """Give every row its place, and return the data set without its scores."""
        n_rows = sum(map(len, self._labels))
        self._place = np.arange(n_rows)
        self._shape: tuple[int, ...] = (n_rows,)
        dims: tuple[str, ...] = (ITEM,)
        coords: dict[str, Any] = {MODEL: list(models)}
        if self._queries:
            dims = (QUERY, ITEM)
            coords[QUERY] = list(self._queries)
            self._place, self._shape = _places(np.concatenate(self._codes), len(self._queries))
        elif self._items:
            coords[ITEM] = np.concatenate(self._items)
        scores = da.zeros((len(models), *self._shape), dtype=dtype, chunks=-1)
        variables = {"score": ((MODEL, *dims), scores), "label": (dims, self._padded(self.labels, PADDING))}
        if self._weights:
            variables["weight"] = (dims, self._padded(np.concatenate(self._weights), 0))
        return xr.Dataset(variables, coords=coords)

    def block(self, region: Region, spool: Spool) -> dict[str, np.ndarray]:
        """Return the scores of one region of the store."""
        models, *rest = region
        shape = tuple(part.stop - part.start for part in region)
        row_size = self._shape[-1]
        first, last = (rest[0].start * row_size, rest[0].stop * row_size) if len(rest) == 2 else (0, row_size)
        block = np.full((shape[0], last - first), np.nan, self._parts[0].dtype)
        start = 0
        for part in self._parts:
            place = self._place[start : start + part.shape[1]]
            start += part.shape[1]
            inside = (place >= first) & (place < last)
            if inside.any():
                block[:, place[inside] - first] = spool.read(part, models)[:, inside]
        return {"score": block.reshape(shape)}

    def _padded(self, values: np.ndarray, fill: float) -> np.ndarray:
        padded = np.full(self._shape, fill, values.dtype)
        padded.reshape(-1)[self._place] = values
        return padded


def _places(codes: np.ndarray, n_queries: int) -> tuple[np.ndarray, tuple[int, ...]]:
    """Return the place of each row in the flattened (query, item) array, and that array's shape."""
    order = np.argsort(codes, kind="stable")
    lengths = np.bincount(codes, minlength=n_queries)
    starts = np.cumsum(lengths) - lengths
    slots = np.empty_like(codes)
    slots[order] = np.arange(len(codes)) - starts[codes[order]]
    longest = int(lengths.max())
    return codes * longest + slots, (n_queries, longest)


def _template(
    nodes: dict[str, _Node], models: Sequence[str], jobs: _Jobs, dtype: np.dtype, tables: Sequence[_Table]
) -> Scores:
    source = few(table.path.name for table in tables)
    described = {name: node.lay_out(models, dtype).assign_attrs(source=source) for name, node in nodes.items()}
    return described[""] if jobs.dataset is None else xr.DataTree.from_dict(described)


__all__ = ["import_table", "scores_of_table"]
