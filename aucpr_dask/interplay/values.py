"""Values of any measure as a result: from tables, arrays and the output of other evaluators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from aucpr_dask.errors import AlignmentError, InvalidInputError, few
from aucpr_dask.evaluation.results import provenance
from aucpr_dask.interplay.retrieval import MODEL as MODEL_COLUMNS
from aucpr_dask.interplay.retrieval import TOPIC, frame_of
from aucpr_dask.schema.checks import brief, names_of, real
from aucpr_dask.schema.checks import text as checked_text
from aucpr_dask.schema.variables import MEASURE, MODEL, QUERY, UNIT
from aucpr_dask.scores.importing.files import unknown_column
from aucpr_dask.scores.importing.table_files import MISSING_CELLS

VALUE = "value"
ROLES = (MODEL, QUERY, MEASURE)
UNITS = dict.fromkeys(TOPIC, "query") | {
    "topic": "topic",
    "topic_id": "topic",
    "task": "task",
    "task_name": "task",
    "dataset": "data set",
    "dataset_name": "data set",
    "data_set": "data set",
    "data set": "data set",
}
COLUMNS = {
    MODEL: MODEL_COLUMNS,
    QUERY: tuple(UNITS),
    MEASURE: (MEASURE, "metric", "estimator"),
    VALUE: (VALUE, "score", "estimate"),
}
"""The names by which columns are found that are not named."""


@dataclass(frozen=True)
class Table:
    """A table whose index numbers its rows."""

    frame: pd.DataFrame
    name: str  # what errors call it
    word: str  # for a row, before its number

    @property
    def row(self) -> str:
        """What errors write before the number of a row."""
        return f"{self.name}, {self.word}"

    def where(self, place: int, column: object) -> str:
        """Return the place of a cell in words."""
        return f"{self.row} {self.frame.index[place]}, column {column!r}"

    def names(self, column: str) -> list[str]:
        """Return the cells of a column of names."""
        cells = self.frame[column]
        missing = (cells.isna() | (cells == "")).to_numpy()
        if missing.any():
            raise InvalidInputError("a name is missing", where=self.where(int(missing.argmax()), column))
        return [str(cell) for cell in cells]

    def numbers(self, column: str) -> np.ndarray:
        """Return the cells of a column of values, NaN where missing."""
        cells = self.frame[column]
        is_number = isinstance(cells.dtype, np.dtype) and cells.dtype.kind in "biuf"
        numbers = np.array(cells if is_number else [_number(cell) for cell in cells], dtype=np.float64)
        if np.isinf(numbers).any():
            place = int(np.isinf(numbers).argmax())
            raise InvalidInputError(
                "the value is not a finite number",
                where=self.where(place, column),
                received=brief(cells.iloc[place]),
                allowed="a finite number; empty, NA or NaN for a missing one",
                remedy=f"correct it, or leave the column out: exclude={column!r} (--exclude)",
            )
        return numbers


def _number(cell: Any) -> float:
    """Return a cell as a number: NaN if it is missing, infinite if it is no number."""
    if isinstance(cell, str):
        if cell.strip() in MISSING_CELLS:
            return np.nan
        try:
            return np.inf if "_" in cell else float(cell)  # Python reads "1_000" as a number
        except ValueError:
            return np.inf
    if cell is None or cell is pd.NA or cell is pd.NaT or cell != cell:
        return np.nan
    number = real(cell)
    return np.inf if np.isnan(number) else number


def from_values(
    table: Any,
    *,
    model: str | None = None,
    query: str | None = None,
    value: str | None = None,
    measure: str | None = None,
    unit: str | None = None,
    exclude: str | Sequence[str] = (),
) -> xr.Dataset:
    """Return values of any measure per model and query, topic, task or data set, as a result.

    :func:`aucpr_dask.aggregate`, :func:`aucpr_dask.compare`, :func:`aucpr_dask.rank`, the plots,
    :func:`aucpr_dask.report` and :func:`aucpr_dask.export` take it as they take areas. Values may lie outside 0 to 1.

    A *tidy* table has a column of values, and one each of models and of queries. Any other table is *wide*: its columns
    of values are headed by what has no column of its own: models, queries, or, if both have one, measures.

    Parameters
    ----------
    table : data frame
        pandas, polars, or another with the Arrow interface. A null or NaN is a missing value; so is an absent row.
    model, query : str, optional
        The columns of models and of queries (or topics, tasks, data sets); by default found by their usual names, such
        as ``model``, ``run``, ``system``, and ``query_id``, ``topic``, ``task``, ``dataset``. A pandas index counts as
        a column if it has a name.
    value : str, optional
        The column of values of a tidy table; by default ``value``, ``score`` or ``estimate``, if there is one.
    measure : str, optional
        The column of measures, by default ``measure`` or ``metric`` if there is one; or the name of the one measure.
    unit : str, optional
        The word for one query: ``"query"``, ``"topic"``, ``"task"``, ``"data set"`` or any other noun; by default from
        the name of the column.
    exclude : str or sequence of str
        Columns that are not values.

    Returns
    -------
    xarray.Dataset
        ``estimate(model, query)``, or with several measures ``estimate(model, query, measure)``; NaN where a value is
        missing. The attributes `measure` and `unit` are the name of the one measure and the word for one query.

    Raises
    ------
    InvalidInputError
        If a column is not found, or a cell is not a finite number; the message names its row and column.
    AlignmentError
        If a model has two values of a measure on the same query.

    Examples
    --------
    >>> import aucpr_dask
    >>> frame = pd.DataFrame({"topic": ["301", "302"], "bm25": [0.25, 0.5], "neural": [0.5, 0.625]})
    >>> values = from_values(frame, measure="nDCG@10")
    >>> values["estimate"].sel(model="neural", query="302").item()
    0.625
    >>> aucpr_dask.aggregate(values).attrs["design"]
    'sample: topics with a value (up to 2); fixed: the 2 models'
    """
    table = _table_of_frame(table)
    named = {MODEL: model, QUERY: query, MEASURE: measure, VALUE: value}
    cells, word = _cells(table, named, names_of(exclude, "exclude"))
    return _result(cells, unit or word)


def _table_of_frame(table: Any) -> Table:
    frame = frame_of(table, "the values", "aucpr_dask.from_values takes data frames, arrays and files")
    named = [name for name in frame.index.names if name is not None]
    frame = frame.reset_index(level=named) if named else frame
    frame = frame.set_axis(frame.columns.map(str), axis=1).set_axis(range(1, len(frame) + 1), axis=0)
    if (twice := frame.columns[frame.columns.duplicated()]).size:
        raise AlignmentError("two columns have the same name", where="the data frame", received=few(map(repr, twice)))
    return Table(frame, "the data frame", "row")


def _cells(table: Table, named: Mapping[str, str | None], exclude: Iterable[str]) -> tuple[pd.DataFrame, str]:
    """Return a row for each cell of values, with its model, query, measure and place; and the word for a query."""
    for name in exclude:
        if name not in table.frame:
            raise unknown_column(name, list(table.frame), table.name)
    columns = [name for name in table.frame if name not in exclude]
    of = {role: found for role, name in named.items() if (found := _column(columns, role, name, table)) is not None}
    free = [of[VALUE]] if VALUE in of else [name for name in columns if name not in of.values()]
    without = [role for role in ROLES if role not in of]
    heading = None if VALUE in of else next(iter(without), None)
    unknown = [role for role in without if role not in (heading, MEASURE)]
    if unknown or not free or (heading is None and VALUE not in of):
        raise _unclear(unknown or [VALUE], columns, table)
    known: dict[str, Any] = {role: table.names(of[role]) for role in ROLES if role in of}
    if MEASURE in without and heading != MEASURE:
        known[MEASURE] = named[MEASURE] or _measure_of(of.get(VALUE, VALUE))
    parts = []
    for name in free:
        headed = {} if heading is None else {heading: name}
        cells = known | headed | {VALUE: table.numbers(name), "column": name, "row": table.row}
        parts.append(pd.DataFrame(cells, index=table.frame.index))
    return pd.concat(parts), UNITS.get(of.get(QUERY, QUERY).lower(), QUERY)


def _column(columns: Sequence[str], role: str, name: str | None, table: Table) -> str | None:
    """Return the column of a role: the named one, or the first with a usual name."""
    if name in columns or (name is not None and role == MEASURE):  # else the name of the one measure
        return name if name in columns else None
    if name is not None:
        raise unknown_column(name, columns, table.name)
    by_lower = {column.lower(): column for column in reversed(columns)}
    return next((by_lower[usual] for usual in COLUMNS[role] if usual in by_lower), None)


def _measure_of(column: str) -> str:
    """Return the name of the one measure: that of its column, unless it says nothing."""
    return VALUE if column.lower() in COLUMNS[VALUE] else column


def _unclear(roles: Sequence[str], columns: Sequence[str], table: Table) -> InvalidInputError:
    """Return the error for a table whose columns do not say what its cells are."""
    nouns = {MODEL: "models", QUERY: "queries, topics, tasks or data sets", VALUE: "values"}
    return InvalidInputError(
        f"there is no column of {' or of '.join(nouns[role] for role in roles)}",
        where=table.name,
        received=f"columns {few(map(repr, columns))}",
        allowed="; ".join(f"for {nouns[role]} one of {', '.join(map(repr, COLUMNS[role]))}" for role in roles),
        remedy=f"name it: {', '.join(f'{role}=...' for role in roles)}",
    )


def _result(cells: pd.DataFrame, unit: str) -> xr.Dataset:
    """Return the values of cells as a result."""
    _refuse_repeated(cells)
    labels = {role: pd.Index(cells[role].unique(), dtype=object) for role in ROLES}
    values = np.full([len(index) for index in labels.values()], np.nan)
    values[tuple(index.get_indexer(cells[role]) for role, index in labels.items())] = cells[VALUE]
    result = xr.Dataset({"estimate": (ROLES, values)}, {role: index.to_numpy() for role, index in labels.items()})
    result["estimate"].attrs |= {"description": "Value of a measure.", "units": "1"}
    facts: dict[str, Any] = {UNIT: checked_text(unit, "unit")}
    if len(labels[MEASURE]) == 1:
        facts = {MEASURE: labels[MEASURE][0]} | facts
        result = result.isel({MEASURE: 0}, drop=True)
    return result.assign_attrs(provenance(result, facts))


def _refuse_repeated(cells: pd.DataFrame) -> None:
    """Raise if a model has two values of a measure on the same query."""
    keys = cells[list(ROLES)]
    if not (twice := keys.duplicated().to_numpy()).any():
        return
    second = int(twice.argmax())
    first = int((keys == keys.iloc[second]).all(axis=1).to_numpy().argmax())
    places = [f"{row} {cells.index[at]}" for at, row in ((i, cells["row"].iloc[i]) for i in (first, second))]
    raise AlignmentError(
        "a model has two values of a measure on the same query",
        where=" and ".join(places),
        received=", ".join(f"{role} {name!r}" for role, name in keys.iloc[second].items()),
        remedy="keep one of them",
    )
