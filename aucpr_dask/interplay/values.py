"""Values of any measure as a result: from tables, arrays and the output of other evaluators."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from aucpr_dask.errors import AlignmentError, InvalidInputError, few
from aucpr_dask.evaluation.results import KIND, provenance
from aucpr_dask.inference.designs import estimators_of
from aucpr_dask.interplay.value_columns import asks_for_direction, is_no_value, no_values_by_number
from aucpr_dask.interplay.value_tables import MODELS, REPEATS, TOPICS, VALUE, Table, tables_of, usual
from aucpr_dask.schema import checks, options, terms
from aucpr_dask.scores.importing.files import unknown_column
from aucpr_dask.scores.importing.tables import PANDAS_INDEX
from aucpr_dask.storage.stores import create_store

ROLES = (terms.MODEL, terms.QUERY, terms.MEASURE)
REPEAT = "repeat"
UNITS = dict.fromkeys(TOPICS, "query") | {"topic": "topic", "topic_id": "topic"}
for noun in ("task", "instance", "question", "problem", "user", "prompt"):
    UNITS |= {noun: noun, f"{noun}_id": noun}
UNITS |= {"task_name": "task", "doc_id": "document", "sample_id": "sample", "example_id": "example"}
UNITS |= dict.fromkeys(("dataset", "dataset_name", "data_set"), "data set")
COLUMNS = {
    terms.MODEL: MODELS,
    terms.QUERY: tuple(UNITS),
    terms.MEASURE: (terms.MEASURE, "metric", "estimator"),
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
    include: str | Sequence[str] = (),
    lower_is_better: bool | str | Sequence[str] | None = None,
    separator: str | None = None,
) -> xr.Dataset:
    """Return values of any measure per model and query, topic, task or data set, as a result.

    :func:`aucpr_dask.aggregate`, :func:`aucpr_dask.compare`, :func:`aucpr_dask.rank`, the plots,
    :func:`aucpr_dask.report` and :func:`aucpr_dask.export` take it as they take areas. Values may lie outside 0 to 1.

    A *tidy* table has a column of values, and one each of models and of queries; one run needs no column of models, and
    has the name of its file, or ``"run"``. Any other table is *wide*: its columns of values are headed by what has no
    column of its own: models, queries, or, if both have one, measures. A null, NaN or empty cell, ``N/A`` or a dash is
    a missing value; so is an absent row of a tidy table. A percent sign is left out where all cells of a column have
    one; ``True`` is 1.

    Parameters
    ----------
    table : data frame, Dataset, DataArray, mapping, or path or sequence of paths
        A data frame of pandas, polars, or another with the Arrow interface. An array; of a Dataset the variable
        ``estimate``, or each variable as a measure. ``{model: values}``, of each model ``{query: value}``,
        ``{query: {measure: value}}`` (as pytrec_eval returns), a data frame, or what ``ir_measures.iter_calc`` yields.
        Files, folders or glob patterns: CSV or TSV, Parquet, JSON, JSONL, Markdown, HTML, or what ``trec_eval -q`` or
        ``ir_measures -q`` prints for one model, which is named by the line ``runid`` or else like the file. There,
        counts (``num_...``) are left out, and the means over all topics must be those of the values.
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
    include : str or sequence of str
        Columns of tasks that would be left out. In a table with a column for each task, those are left out that hold
        text, or are by their names ranks, means, counts, sizes, costs or identifiers; that are the mean or the sum of
        all others; or whose values are of another size. The attribute ``columns_left_out`` says which and why.
    lower_is_better : bool, str or sequence of str, optional
        Whether less is better; or of which measures, or tasks. Values stay as they are, and :func:`aucpr_dask.compare`,
        :func:`aucpr_dask.rank` and the rest put the lowest first; the values of single *tasks* are negated, because
        they are averaged with others. Names such as WER, loss or perplexity need an answer, ``False`` if more is
        better.
    separator : str, optional
        Of CSV files; by default a tab for ``.tsv``, otherwise the most frequent candidate in the first line.

    Returns
    -------
    xarray.Dataset
        ``estimate(model, query)``, or with several measures ``estimate(model, query, measure)``; NaN where a value is
        missing. The attributes `measure` and `unit` are the name of the one measure and the word for one query. Columns
        ``seed``, ``epoch``, ``repeat`` and ``trial`` number repeats, whose values are averaged: ``averaged_over``.

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
    >>> import pandas as pd, aucpr_dask as ap
    >>> frame = pd.DataFrame({"topic": ["301", "302"], "bm25": [0.25, 0.5], "neural": [0.5, 0.625]})
    >>> values = ap.from_values(frame, measure="nDCG@10")
    >>> values["estimate"].sel(model="neural", query="302").item()
    0.625
    >>> ap.aggregate(values).attrs["design"]
    'sample: topics with a value (up to 2); fixed: the 2 models; no interval from fewer than 3'
    """
    given = {terms.MODEL: model, terms.QUERY: query, terms.MEASURE: measure, VALUE: value}
    named = {role: None if name is None else checks.text(name, role) for role, name in given.items()}
    terms.check_names([name for name in named.values() if name is not None], "the names of columns")
    chosen = {"exclude": options.columns(exclude, "exclude"), "include": options.columns(include, "include")}
    lower = None if lower_is_better is None else options.columns_or_truth(lower_is_better, "lower_is_better")
    parts = [_cells(one, named, **chosen) for one in tables_of(table, separator)]
    if not sum(len(part.cells) for part in parts):
        where = f"the table of values{f', {table}' if isinstance(table, str | Path) else ''}"
        raise InvalidInputError("there are no values", where, "no rows", "a row or more", "check what wrote the table")
    cells, averaged = _averaged(pd.concat([part.cells for part in parts]))
    own = str(getattr(table, "attrs", {}).get(terms.UNIT, parts[0].word))
    left_out = list(dict.fromkeys(f"{name} ({why})" for part in parts for name, why in part.left_out.items()))
    facts = {"columns_left_out": left_out or None, "averaged_over": averaged}
    result = _result(cells, own if unit_name is None else checks.text(unit_name, "unit_name"), facts)
    return _directed(result, lower, {name for part in parts for name in part.tasks})


class _Part(NamedTuple):
    """The values of one table."""

    cells: pd.DataFrame  # a row for each value, with its model, query, measure, repeat and place
    word: str  # for a query
    tasks: list[str]  # columns
    left_out: dict[str, str]  # columns, and why


def _cells(table: Table, named: Mapping[str, str | None], exclude: tuple[str, ...], include: tuple[str, ...]) -> _Part:
    """Return the values of a table, and what was not taken for values."""
    for name in (*exclude, *include):
        if name not in table.columns:
            raise unknown_column(name, table.columns, table.name)
    columns = [name for name in table.columns if name not in exclude]
    of = {role: found for role, name in named.items() if (found := _column(columns, role, name, table)) is not None}
    if twice := [name for name, number in Counter(of.values()).items() if number > 1]:
        received = ", ".join(f"{role}={name!r}" for role, name in of.items() if name in twice)
        raise InvalidInputError("one column cannot be two things", table.name, received, "a column each")
    if terms.MODEL in of and terms.QUERY not in of and named[VALUE] is None and table.frame[of[terms.MODEL]].is_unique:
        of.pop(VALUE, None)  # next to task columns, a column "score" is one more task, or their mean
    repeats = [name for name in columns if name.lower() in REPEATS and name not in (*of.values(), *include)]
    free = [of[VALUE]] if VALUE in of else [name for name in columns if name not in (*of.values(), *repeats, "")]
    free = [name for name in free if not name.startswith(PANDAS_INDEX)]
    # A row for each value, and no other column: of one run, if no query comes twice.
    of_values = [name for role, name in of.items() if role in (terms.QUERY, terms.MEASURE)]
    is_one_run = {*of} >= {terms.QUERY, VALUE} and not {*columns} - {*of.values(), *repeats}
    is_one_run &= terms.MODEL not in of and not table.frame[[*of_values, *repeats]].duplicated().any()
    without = [role for role in ROLES if role not in of and (role != terms.MODEL or not is_one_run)]
    heading = None if VALUE in of else next(iter(without), None)
    unknown = [role for role in without if role not in (heading, terms.MEASURE)]
    if unknown or not free or (heading is None and VALUE not in of):
        raise _unclear(unknown or [VALUE], columns, table, are_headed=heading is not None)
    left_out = _no_tasks(table, free, include) if heading == terms.QUERY and len(table.frame) else {}
    free = [name for name in free if name not in left_out]
    known: dict[str, Any] = {terms.MODEL: table.run} if is_one_run else {}
    known |= {role: table.names(of[role]) for role in ROLES if role in of}
    if terms.MEASURE in without and heading != terms.MEASURE:
        column = of.get(VALUE, VALUE)  # names the measure, unless it says nothing
        known[terms.MEASURE] = named[terms.MEASURE] or (VALUE if column.lower() in COLUMNS[VALUE] else column)
    known[REPEAT] = [" ".join(one) for one in zip(*map(table.names, repeats), strict=True)] if repeats else ""
    parts = []
    for name in free:
        headed = {} if heading is None else {heading: name}
        cells = known | headed | {VALUE: table.numbers(name), "column": name, "row": table.row}
        parts.append(pd.DataFrame(cells, index=table.frame.index))
    given = of.get(terms.QUERY, terms.QUERY)
    word = UNITS.get(usual(given), terms.in_words(given) if named[terms.QUERY] else terms.QUERY)
    all_cells = pd.concat(parts).assign(repeats=", ".join(repeats))
    if named[terms.MEASURE] not in (None, of.get(terms.MEASURE)):
        measure = checks.choose(tuple(all_cells[terms.MEASURE].unique()), named[terms.MEASURE], terms.MEASURE)
        all_cells = all_cells[all_cells[terms.MEASURE] == measure]
    return _Part(all_cells, word, free if heading == terms.QUERY else [], left_out)


def _no_tasks(table: Table, columns: Sequence[str], include: Sequence[str]) -> dict[str, str]:
    """Return which columns of a leaderboard are no tasks, and why."""
    found, numbers = {}, {}
    for name in (name for name in columns if name not in include):
        if why := is_no_value(name):
            found[name] = f"{why}, by its name"
        elif table.is_text(name):
            found[name] = "text"
        else:
            numbers[name] = table.numbers(name)
            if np.isnan(numbers[name]).all():
                found[name] = "empty"
                del numbers[name]
    found |= no_values_by_number(numbers)
    if len(found) == len(columns):
        received, remedy = few([f"{name!r} ({why})" for name, why in found.items()]), "take them in: include=[...]"
        raise InvalidInputError("no column is one of values", table.name, received, remedy=f"{remedy} (--include)")
    return found


def _averaged(cells: pd.DataFrame) -> tuple[pd.DataFrame, str | None]:
    """Return the values averaged over repeats, and what the repeats are, in words."""
    repeats = ", ".join(sorted({name for name in cells.pop("repeats").unique() if name}))
    _refuse_repeated(cells, [*ROLES, REPEAT])
    keys = cells[list(ROLES)]
    if not repeats or not keys.duplicated().any():
        return cells.drop(columns=REPEAT), None
    groups = cells.groupby(list(ROLES), sort=False)[VALUE]
    mean = groups.agg(lambda values: math.fsum(values) / len(values))  # a missing repeat leaves the mean missing
    sizes = sorted({*groups.size()})
    return mean.reset_index(), f"{repeats} ({' to '.join(map(str, dict.fromkeys((sizes[0], sizes[-1]))))} values each)"


def _directed(result: xr.Dataset, lower: bool | tuple[str, ...] | None, tasks: Set[str]) -> xr.Dataset:
    """Record of which measures less is better, and negate tasks of which less is better."""
    measures = estimators_of(result)
    if lower is None:
        if asked := [name for name in (*measures, *sorted(tasks)) if asks_for_direction(name)]:
            what, remedy = "of such a measure less is usually better", "lower_is_better=True (--lower-is-better all)"
            allowed = "lower_is_better=True, the names of measures or tasks, or False if more is better"
            raise InvalidInputError(what, "option 'lower_is_better'", few(map(repr, asked)), allowed, remedy)
        return result
    if isinstance(lower, bool):
        return result.assign_attrs({terms.LOWER: measures}) if lower else result
    if unknown := [name for name in lower if name not in (*measures, *map(str, result[terms.QUERY].values))]:
        raise unknown_column(unknown[0], [*measures, *map(str, result[terms.QUERY].values)], "option 'lower_is_better'")
    negated = [name for name in lower if name not in measures]
    sign = xr.where(result[terms.QUERY].isin(negated), -1.0, 1.0)
    facts = {terms.LOWER: [name for name in lower if name in measures], "negated": negated}
    oriented = result.assign(estimate=(result["estimate"] * sign).assign_attrs(result["estimate"].attrs))
    return oriented.assign_attrs({name: names for name, names in facts.items() if names})


def _column(columns: Sequence[str], role: str, name: str | None, table: Table) -> str | None:
    """Return the column of a role: the named one, or the first with a usual name."""
    if name in columns:
        return name
    if name is not None and role != terms.MEASURE:  # which may be the name of the one measure
        raise unknown_column(name, columns, table.name)
    by_usual = {usual(column): column for column in reversed(columns)}
    if found := next((by_usual[usual(one)] for one in COLUMNS[role] if usual(one) in by_usual), None):
        return found
    # "org/model" or "Model (link)": one column of different names, one of whose words is usual
    wordy = [column for column in columns if role == terms.MODEL and {*re.split("[^a-z]+", column.lower())} & {*MODELS}]
    wordy = [column for column in wordy if table.is_text(column) and table.frame[column].is_unique]
    return wordy[0] if len(wordy) == 1 or {*wordy} & {*columns[:1]} else None


def _unclear(
    roles: Sequence[str], columns: Sequence[str], table: Table, *, are_headed: bool = False
) -> InvalidInputError:
    """Return the error for a table whose columns do not say what its cells are."""
    remedy = f"name it: {', '.join(f'{role}=... (--{role})' for role in roles)}"
    if are_headed and roles == [terms.QUERY]:  # values are headed by models or by queries, and the rows may be either
        roles = [terms.MODEL, terms.QUERY]
        remedy = "say what a row is: model=... or query=... (--model, --query); an index is a column if it has a name"
    nouns = {terms.MODEL: "models", terms.QUERY: "queries, topics, tasks or data sets", VALUE: "values"}
    what = f"there is no column of {' or of '.join(nouns[role] for role in roles)}"
    received = f"columns {few(map(repr, columns))}"
    allowed = "; ".join(f"for {nouns[role]} one of {', '.join(map(repr, COLUMNS[role]))}" for role in roles)
    return InvalidInputError(what, table.name, received, allowed, remedy)


def _result(cells: pd.DataFrame, unit: str, more: Mapping[str, Any]) -> xr.Dataset:
    """Return the values of cells as a result."""
    labels = {role: pd.Index(cells[role].unique(), dtype=object) for role in ROLES}
    values = np.full([len(index) for index in labels.values()], np.nan)
    values[tuple(index.get_indexer(cells[role]) for role, index in labels.items())] = cells[VALUE]
    names = {role: index.to_numpy() for role, index in labels.items()}
    result = terms.with_plain_names(xr.Dataset({"estimate": (ROLES, values)}, names))
    result["estimate"].attrs |= {"description": "Value of a measure.", "units": "1"}
    facts: dict[str, Any] = {terms.UNIT: checks.text(unit, "unit")}
    if len(labels[terms.MEASURE]) == 1:
        facts = {terms.MEASURE: labels[terms.MEASURE][0]} | facts
        result = result.isel({terms.MEASURE: 0}, drop=True)
    return result.assign_attrs(provenance(result, facts, more))


def _refuse_repeated(cells: pd.DataFrame, names: list[str]) -> None:
    """Raise if a model has two values of a measure on the same query."""
    keys = cells[names]
    if not (twice := keys.duplicated().to_numpy()).any():
        return
    second = int(twice.argmax())
    first = int((keys == keys.iloc[second]).all(axis=1).to_numpy().argmax())
    places = [f"{row} {cells.index[at]}" for at, row in ((i, cells["row"].iloc[i]) for i in (first, second))]
    what = "a model has two values of a measure on the same query"
    received = ", ".join(f"{role} {name!r}" for role, name in keys.iloc[second].items() if name)
    remedy = f"keep one of them; a column called {', '.join(REPEATS[:-1])} or {REPEATS[-1]} numbers repeats"
    raise AlignmentError(what, " and ".join(places), received, remedy=remedy)


@dataclass(frozen=True)
class ValuesSummary(terms.Sentences):
    """The counts of an import of values."""

    models: int
    units: int
    unit: str
    measures: list[str]
    missing: int
    model_names: list[str] = field(default_factory=list)
    unit_names: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        units = terms.plural(self.unit)
        said = ", ".join([terms.count(self.models, "model"), terms.count(self.units, self.unit), *self.measures])
        taken = [f"  models: {few(self.model_names, 8)}", f"  {units}: {few(self.unit_names, 8)}"]
        missing = [f"{terms.count(self.missing, 'value')} missing"] if self.missing else []
        return "\n".join([said, *taken, *(f"  note: {note}" for note in [*missing, *self.notes])])


def notes_of(values: xr.Dataset) -> list[str]:
    """Say what became of the columns of a table that are not values as they stand."""
    attrs, unit = values.attrs, terms.plural(str(values.attrs.get(terms.UNIT, terms.QUERY)))
    said = {
        "columns_left_out": f"not taken as {unit}: {{}}; include= (--include) takes one in",
        "averaged_over": "averaged over {}",
        terms.LOWER: "less is better: {}",
        "negated": "negated, because less is better: {}",
    }
    listed = {name: attrs[name] for name in said if name in attrs}
    return [said[name].format(few(one, 8) if isinstance(one, list) else one) for name, one in listed.items()]


def save_values(values: xr.Dataset, store: str | Path, *, overwrite: bool = False) -> ValuesSummary:
    """Write what :func:`from_values` returns to a store that :func:`aucpr_dask.open_result` opens."""
    pending = create_store(store, terms.with_stored_names(values, is_result=True), KIND, overwrite=overwrite)
    with pending.writing():
        pending.commit()
    sizes, missing = values.sizes, int(values["estimate"].isnull().sum())
    models, units = ([str(name) for name in values[dim].values] for dim in (terms.MODEL, terms.QUERY))
    unit, measures = str(values.attrs[terms.UNIT]), estimators_of(values)
    return ValuesSummary(
        sizes[terms.MODEL], sizes[terms.QUERY], unit, measures, missing, models, units, notes_of(values)
    )
