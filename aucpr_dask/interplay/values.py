"""Values of any measure as a result: from tables, arrays and the output of other evaluators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from aucpr_dask.errors import AlignmentError, InvalidInputError, few
from aucpr_dask.evaluation.results import KIND, provenance
from aucpr_dask.inference.designs import estimators_of
from aucpr_dask.interplay.value_tables import MODELS, TOPICS, VALUE, Table, tables_of
from aucpr_dask.schema import checks, options
from aucpr_dask.schema.terms import MEASURE, MODEL, QUERY, UNIT, check_names, in_words, plural
from aucpr_dask.scores.importing.files import count, unknown_column
from aucpr_dask.scores.importing.tables import PANDAS_INDEX
from aucpr_dask.storage.stores import create_store

ROLES = (MODEL, QUERY, MEASURE)
UNITS = dict.fromkeys(TOPICS, "query") | {
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
    MODEL: MODELS,
    QUERY: tuple(UNITS),
    MEASURE: (MEASURE, "metric", "estimator"),
    VALUE: (VALUE, "score", "estimate"),
}
"""The names by which columns are found that are not named."""


@options.renamed(unit="unit_name")
def from_values(
    table: Any,
    *,
    model: str | None = None,
    query: str | None = None,
    value: str | None = None,
    measure: str | None = None,
    unit_name: str | None = None,
    exclude: str | Sequence[str] = (),
    separator: str | None = None,
) -> xr.Dataset:
    """Return values of any measure per model and query, topic, task or data set, as a result.

    :func:`aucpr_dask.aggregate`, :func:`aucpr_dask.compare`, :func:`aucpr_dask.rank`, the plots,
    :func:`aucpr_dask.report` and :func:`aucpr_dask.export` take it as they take areas. Values may lie outside 0 to 1.

    A *tidy* table has a column of values, and one each of models and of queries. Any other table is *wide*: its columns
    of values are headed by what has no column of its own: models, queries, or, if both have one, measures. A null, NaN
    or empty cell is a missing value; so is an absent row of a tidy table.

    Parameters
    ----------
    table : data frame, Dataset, DataArray, mapping, or path or sequence of paths
        A data frame of pandas, polars, or another with the Arrow interface. An array; of a Dataset the variable
        ``estimate``, or each variable as a measure. ``{model: values}``, of each model ``{query: value}``,
        ``{query: {measure: value}}`` (as pytrec_eval returns), a data frame, or what ``ir_measures.iter_calc`` yields.
        Files, folders or glob patterns: CSV or TSV, Parquet, or what ``trec_eval -q`` or ``ir_measures -q`` prints for
        one model, which is named by the line ``runid`` or else like the file. There, counts (``num_...``) are left
        out, and the means over all topics must be those of the values.
    model, query : str, optional
        The columns of models and of queries (or topics, tasks, data sets); by default found by their usual names, such
        as ``model``, ``run``, ``system``, and ``query_id``, ``topic``, ``task``, ``dataset``. A pandas index counts as
        a column if it has a name.
    value : str, optional
        The column of values of a tidy table; by default ``value``, ``score`` or ``estimate``, if there is one.
    measure : str, optional
        The column of measures, by default ``measure`` or ``metric`` if there is one; or the name of the one measure,
        which is taken from a column of measures if there is one.
    unit_name : str, optional
        The word for one query: ``"query"``, ``"topic"``, ``"task"``, ``"data set"`` or any other noun; by default from
        the name of the column.
    exclude : str or sequence of str
        Columns that are not values.
    separator : str, optional
        Of CSV files; by default a tab for ``.tsv``, otherwise the most frequent candidate in the first line.

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
    FileFormatError
        If a line is malformed, or a file states another mean over all topics than that of its values.

    Examples
    --------
    >>> import aucpr_dask
    >>> frame = pd.DataFrame({"topic": ["301", "302"], "bm25": [0.25, 0.5], "neural": [0.5, 0.625]})
    >>> values = from_values(frame, measure="nDCG@10")
    >>> values["estimate"].sel(model="neural", query="302").item()
    0.625
    >>> aucpr_dask.aggregate(values).attrs["design"]
    'sample: topics with a value (up to 2); fixed: the 2 models; no interval from fewer than 3'
    """
    given = {MODEL: model, QUERY: query, MEASURE: measure, VALUE: value}
    named = {role: None if name is None else checks.text(name, role) for role, name in given.items()}
    check_names([name for name in named.values() if name is not None], "the names of columns")
    excluded = options.columns(exclude, "exclude")
    parts, words = zip(*(_cells(one, named, excluded) for one in tables_of(table, separator)), strict=True)
    if not sum(map(len, parts)):
        where = f"the table of values{f', {table}' if isinstance(table, str | Path) else ''}"
        raise InvalidInputError("there are no values", where, "no rows", "a row or more", "check what wrote the table")
    own = str(getattr(table, "attrs", {}).get(UNIT, words[0]))
    return _result(pd.concat(parts), own if unit_name is None else checks.text(unit_name, "unit_name"))


def _cells(table: Table, named: Mapping[str, str | None], exclude: Sequence[str]) -> tuple[pd.DataFrame, str]:
    """Return a row for each cell of values, with its model, query, measure and place; and the word for a query."""
    for name in exclude:
        if name not in table.columns:
            raise unknown_column(name, table.columns, table.name)
    columns = [name for name in table.columns if name not in exclude]
    of = {role: found for role, name in named.items() if (found := _column(columns, role, name, table)) is not None}
    free = (
        [of[VALUE]]
        if VALUE in of
        else [name for name in columns if name not in (*of.values(), "") and not name.startswith(PANDAS_INDEX)]
    )
    without = [role for role in ROLES if role not in of]
    heading = None if VALUE in of else next(iter(without), None)
    unknown = [role for role in without if role not in (heading, MEASURE)]
    if unknown or not free or (heading is None and VALUE not in of):
        raise _unclear(unknown or [VALUE], columns, table, are_headed=heading is not None)
    known: dict[str, Any] = {role: table.names(of[role]) for role in ROLES if role in of}
    if MEASURE in without and heading != MEASURE:
        known[MEASURE] = named[MEASURE] or _measure_of(of.get(VALUE, VALUE))
    parts = []
    for name in free:
        headed = {} if heading is None else {heading: name}
        cells = known | headed | {VALUE: table.numbers(name), "column": name, "row": table.row}
        parts.append(pd.DataFrame(cells, index=table.frame.index))
    given = of.get(QUERY, QUERY)
    word = UNITS.get(given.lower(), in_words(given) if named[QUERY] else QUERY)
    all_cells = pd.concat(parts)
    if named[MEASURE] in (None, of.get(MEASURE)):
        return all_cells, word
    measure = checks.choose(tuple(all_cells[MEASURE].unique()), named[MEASURE], MEASURE)
    return all_cells[all_cells[MEASURE] == measure], word


def _column(columns: Sequence[str], role: str, name: str | None, table: Table) -> str | None:
    """Return the column of a role: the named one, or the first with a usual name."""
    if name in columns:
        return name
    if name is not None and role != MEASURE:  # which may be the name of the one measure
        raise unknown_column(name, columns, table.name)
    by_lower = {column.lower(): column for column in reversed(columns)}
    return next((by_lower[usual] for usual in COLUMNS[role] if usual in by_lower), None)


def _measure_of(column: str) -> str:
    """Return the name of the one measure: that of its column, unless it says nothing."""
    return VALUE if column.lower() in COLUMNS[VALUE] else column


def _unclear(
    roles: Sequence[str], columns: Sequence[str], table: Table, *, are_headed: bool = False
) -> InvalidInputError:
    """Return the error for a table whose columns do not say what its cells are."""
    remedy = f"name it: {', '.join(f'{role}=... (--{role})' for role in roles)}"
    if are_headed and roles == [QUERY]:  # values are headed by models or by queries, and the rows may be either
        roles = [MODEL, QUERY]
        remedy = "say what a row is: model=... or query=... (--model, --query); an index is a column if it has a name"
    nouns = {MODEL: "models", QUERY: "queries, topics, tasks or data sets", VALUE: "values"}
    what = f"there is no column of {' or of '.join(nouns[role] for role in roles)}"
    received = f"columns {few(map(repr, columns))}"
    allowed = "; ".join(f"for {nouns[role]} one of {', '.join(map(repr, COLUMNS[role]))}" for role in roles)
    return InvalidInputError(what, table.name, received, allowed, remedy)


def _result(cells: pd.DataFrame, unit: str) -> xr.Dataset:
    """Return the values of cells as a result."""
    _refuse_repeated(cells)
    labels = {role: pd.Index(cells[role].unique(), dtype=object) for role in ROLES}
    values = np.full([len(index) for index in labels.values()], np.nan)
    values[tuple(index.get_indexer(cells[role]) for role, index in labels.items())] = cells[VALUE]
    result = xr.Dataset({"estimate": (ROLES, values)}, {role: index.to_numpy() for role, index in labels.items()})
    result["estimate"].attrs |= {"description": "Value of a measure.", "units": "1"}
    facts: dict[str, Any] = {UNIT: checks.text(unit, "unit")}
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
    what = "a model has two values of a measure on the same query"
    received = ", ".join(f"{role} {name!r}" for role, name in keys.iloc[second].items())
    raise AlignmentError(what, " and ".join(places), received, remedy="keep one of them")


@dataclass(frozen=True)
class ValuesSummary:
    """The counts of an import of values."""

    models: int
    units: int
    unit: str
    measures: list[str]
    missing: int

    def __str__(self) -> str:
        units = count(self.units, self.unit, plural(self.unit))
        missing = f"\n  note: {count(self.missing, 'value')} missing" if self.missing else ""
        return f"{count(self.models, 'model')}, {units}, {', '.join(self.measures)}{missing}"


def save_values(values: xr.Dataset, url: str | Path, *, overwrite: bool = False) -> ValuesSummary:
    """Write what :func:`from_values` returns to a store that :func:`aucpr_dask.open_result` opens."""
    pending = create_store(url, values, KIND, overwrite=overwrite)
    with pending.writing():
        pending.commit()
    sizes, missing = values.sizes, int(values["estimate"].isnull().sum())
    return ValuesSummary(sizes[MODEL], sizes[QUERY], str(values.attrs[UNIT]), estimators_of(values), missing)
