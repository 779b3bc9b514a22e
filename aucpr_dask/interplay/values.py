"""Values of any measure as a result: from tables, arrays and the output of other evaluators."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from aucpr_dask.errors import AlignmentError, InvalidInputError, as_called, few
from aucpr_dask.evaluation.results import provenance, save_result
from aucpr_dask.inference.designs import better, estimators_of
from aucpr_dask.interplay import value_columns
from aucpr_dask.interplay.frames import FRAME
from aucpr_dask.interplay.value_columns import direction_by_mark, direction_of, is_measure, is_no_value
from aucpr_dask.interplay.value_tables import MODELS, REPEATS, TOPICS, VALUE, Table, tables_of, usual
from aucpr_dask.schema import checks, choices, options, terms
from aucpr_dask.scores.importing.files import unknown_column
from aucpr_dask.scores.importing.tables import PANDAS_INDEX

ROLES = (terms.MODEL, terms.QUERY, terms.MEASURE)
REPEAT = "repeat"
UNITS = dict.fromkeys(TOPICS, "query") | {"topic": "topic", "topic_id": "topic"}
for noun in ("task", "instance", "question", "problem", "user", "prompt"):
    UNITS |= {noun: noun, f"{noun}_id": noun}
UNITS |= {"task_name": "task", "doc_id": "document", "sample_id": "sample", "example_id": "example"}
UNITS |= dict.fromkeys(("dataset", "dataset_name", "data_set", "datasets", "data"), "data set")
COLUMNS = {
    terms.MODEL: MODELS,
    terms.QUERY: tuple(UNITS),
    terms.MEASURE: (terms.MEASURE, "metric", "estimator"),
    VALUE: (VALUE, "score", "estimate"),
}
"""The names by which columns are found that are not named."""
RUNS = ("run_id", "run")
ONE_TASK = "all"  # the one that several measures are of
OUR_NAMES = frozenset({*terms.RESULT_VARIABLES, *terms.SCORE_VARIABLES, *terms.RANKING_DIMS, *terms.OTHER_NAMES})


@choices.names_meant
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
    """Return values of any measure, by model and query or data set, as a result.

    :func:`aucpr_dask.aggregate`, :func:`aucpr_dask.compare`, :func:`aucpr_dask.rank`, the plots,
    :func:`aucpr_dask.report` and :func:`aucpr_dask.export` take it as they take areas. Values may lie outside 0 to 1.

    A *tidy* table has a column of values, and one each of models and of queries; one run needs no column of models, and
    has the name of its file, or ``"run"``. Any other table is *wide*: its columns of values are headed by what has no
    column of its own: models, queries, or, if both have one, measures; columns that are all called like measures
    (``Accuracy``, ``F1``) are measures of one task. A null, NaN or empty cell, ``N/A`` or a dash is
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
    >>> ap.aggregate(values).attrs["design"].partition(";")[0]
    'sample: topics with a value (up to 2)'
    """
    given = {terms.MODEL: model, terms.QUERY: query, terms.MEASURE: measure, VALUE: value}
    named = {role: None if name is None else checks.text(name, role) for role, name in given.items()}
    terms.check_names([name for name in named.values() if name is not None], "the names of columns")
    chosen = {"exclude": options.columns(exclude, "exclude"), "include": options.columns(include, "include")}
    lower = None if lower_is_better is None else options.columns_or_truth(lower_is_better, "lower_is_better")
    tables = tables_of(table, separator)
    told = lower if isinstance(lower, tuple) else ()  # tasks that are called like measures
    parts = [_cells(one, named, **chosen, told=told) for one in tables]
    if not sum(len(part.cells) for part in parts):
        where = f"the table of values{f', {table}' if isinstance(table, str | Path) else ''}"
        raise InvalidInputError("there are no values", where, "no rows", "a row or more", "check what wrote the table")
    cells, averaged = _averaged(pd.concat([part.cells for part in parts]), tables)
    of_table = dict(getattr(table, "attrs", {}))
    own = str(of_table.get(terms.UNIT, parts[0].word))
    left_out = [f"{name} ({why})" for part in parts for name, why in part.left_out.items()]
    listed = {"columns_left_out": left_out, terms.SCALED: [name for part in parts for name in part.scaled]}
    facts: dict[str, Any] = {name: list(dict.fromkeys(one)) or None for name, one in listed.items()}
    column = parts[0].value if tables[0].has_given_columns else of_table.get(terms.VALUE_COLUMN)
    facts |= {"averaged_over": averaged, terms.VALUE_COLUMN: column}
    unit = own if unit_name is None else checks.text(unit_name, "unit_name")
    result = _result(cells, pd.concat([part.about for part in parts]), unit, facts)
    given_lower = of_table.get(terms.LOWER)
    lower = tuple(given_lower) if lower is None and given_lower is not None else lower
    means = {name: measure for part in parts for name, measure in part.means.items()}
    directed = _directed(result, lower, {name for part in parts for name in part.tasks}, means)
    _refuse_a_measure_among_tasks([name for name in parts[0].tasks if name not in chosen["include"]], directed)
    return directed


class _Part(NamedTuple):
    """The values of one table."""

    cells: pd.DataFrame  # a row for each value, with its model, query, measure, repeat and place
    about: pd.DataFrame  # a row for each of the table's, with its other columns; none of a table of tasks
    word: str  # for a query
    tasks: list[str]  # columns
    left_out: dict[str, str]  # columns, and why
    scaled: list[str]  # columns of percents that were made fractions
    value: str | None  # the column of values of a tidy table
    means: dict[str, str]  # columns left out that name the measure of which they are means; "" if not of these tasks


def _cells(
    table: Table, named: Mapping[str, str | None], exclude: Sequence[str], include: Sequence[str], told: Sequence[str]
) -> _Part:
    """Return the values of a table, and what was not taken for values."""
    of_rows = [_column(table.columns, role, named[role], table) for role in (terms.MODEL, terms.QUERY)]
    for name in (*exclude, *include):
        is_row = name in include and any(one and name in {*table.frame[one].map(str)} for one in of_rows)
        if name not in table.columns and not is_row:
            raise unknown_column(name, table.columns, table.name)
    rows, include = include, tuple(name for name in include if name in table.columns)
    columns = [name for name in table.columns if name not in exclude]
    of = {role: found for role, name in named.items() if (found := _column(columns, role, name, table)) is not None}
    if terms.MEASURE in of and named[VALUE] is None and table.is_numeric(of[terms.MEASURE]):
        of[VALUE] = of.pop(terms.MEASURE)  # the measure given is a column of values
    if twice := [name for name, number in Counter(of.values()).items() if number > 1]:
        received = ", ".join(f"{role}={name!r}" for role, name in of.items() if name in twice)
        raise InvalidInputError("one column cannot be two things", table.name, received, "a column each")
    if terms.MODEL in of and terms.QUERY not in of and named[VALUE] is None and table.frame[of[terms.MODEL]].is_unique:
        of.pop(VALUE, None)  # next to task columns, a column "score" is one more task, or their mean
    # Beside a column of models, runs are repeats.
    of_repeats = REPEATS if usual(of.get(terms.MODEL, "")) in RUNS else (*REPEATS, *RUNS)
    repeats = [name for name in columns if usual(name) in of_repeats and name not in (*of.values(), *include)]
    others = [
        name for name in columns if name not in (*of.values(), *repeats, "") and not name.startswith(PANDAS_INDEX)
    ]
    free = [of[VALUE]] if VALUE in of else others
    left_out, scaled = dict[str, str](), list[str]()
    if {*of} >= {terms.MODEL, terms.QUERY} and named[VALUE] is None and terms.MEASURE not in of:
        free = _values_among(table, of, others, named[terms.MEASURE], include)
        of |= {VALUE: free[0]} if len(free) == 1 else {}
    if VALUE in of or {*of} >= {terms.MODEL, terms.QUERY}:
        by_names = {name: is_no_value(name) for name in others if name not in free}
        not_named = {name: "text" if table.is_text(name) else "not named as values" for name in by_names}
        left_out = {name: f"{why}, by its name" if why else not_named[name] for name, why in by_names.items()}
    table, rows_left_out = _without_means(table, of, rows)
    # A row for each value, and no other column: of one run, if no query comes twice.
    of_values = [name for role, name in of.items() if role in (terms.QUERY, terms.MEASURE)]
    is_one_run = {*of} >= {terms.QUERY, VALUE} and not {*columns} - {*of.values(), *repeats}
    is_one_run &= terms.MODEL not in of and not table.frame[[*of_values, *repeats]].duplicated().any()
    without = [role for role in ROLES if role not in of and (role != terms.MODEL or not is_one_run)]
    heading = None if VALUE in of else next(iter(without), None)
    unknown = [role for role in without if role not in (heading, terms.MEASURE)]
    if unknown or not free or (heading is None and VALUE not in of):
        raise _unclear(unknown or [VALUE], columns, table, are_headed=heading is not None)
    known: dict[str, Any] = {terms.MODEL: table.run} if is_one_run else {}
    known |= {role: table.names(of[role]) for role in ROLES if role in of}
    heads: dict[str, dict[str, str]] = {name: {} if heading is None else {heading: name} for name in free}
    if heading == terms.QUERY and len(table.frame):
        _refuse_several_rows(table, of[terms.MODEL], repeats, free)
        left_out, scaled = _no_tasks(table, free, include)
        heads = _tasks([name for name in free if name not in left_out], left_out, (*include, *told))
    elif heading == terms.MODEL:
        heads, left_out = _models(table, heads, include)
        split = value_columns.by_metric([*heads]) if terms.MEASURE in without else {}
        if split.keys() == {*heads}:  # "rag_accuracy": a model, and a metric
            heads = {name: {terms.MODEL: model, terms.MEASURE: metric} for name, (model, metric) in split.items()}
    tasks = [*heads] if heading == terms.QUERY else []
    means = dict[str, str]()
    if tasks and terms.MEASURE in without:
        of_tasks = np.stack([table.numbers(name) for name in tasks])
        said = {name: value_columns.measure_of_mean(name, table.read(name), of_tasks) for name in left_out}
        means = {name: measure for name, measure in said.items() if measure is not None}
    if terms.MEASURE in without and not any(terms.MEASURE in head for head in heads.values()):
        column = of.get(VALUE, VALUE)  # names the measure, unless it says nothing
        of_errors = next((means[name] for name in means if means[name] and direction_of(name) == -1), VALUE)
        known[terms.MEASURE] = named[terms.MEASURE] or (of_errors if column.lower() in COLUMNS[VALUE] else column)
    known[REPEAT] = [" ".join(one) for one in zip(*map(table.names, repeats), strict=True)] if repeats else ""
    parts = []
    for name, head in heads.items():
        numbers = table.numbers(name) / (100 if name in scaled else 1)
        cells = known | head | {VALUE: numbers, "column": name, "row": table.row}
        parts.append(pd.DataFrame(cells, index=table.frame.index))
    word = _word(of.get(terms.QUERY, terms.QUERY), is_named=named[terms.QUERY] is not None)
    all_cells = pd.concat(parts).assign(repeats=", ".join(repeats))
    if named[terms.MEASURE] not in (None, of.get(terms.MEASURE), of.get(VALUE)):
        measure = checks.choose(tuple(all_cells[terms.MEASURE].unique()), named[terms.MEASURE], terms.MEASURE)
        all_cells = all_cells[all_cells[terms.MEASURE] == measure]
    about = pd.DataFrame({role: known[role] for role in (terms.MODEL, terms.QUERY) if role in known and tasks == []})
    about = about.assign(**{name: table.frame[name].to_numpy() for name in left_out if not tasks})
    left_out = table.left_out | left_out | rows_left_out
    return _Part(all_cells, about, word, tasks, left_out, scaled, of.get(VALUE), means)


def _word(column: str, *, is_named: bool) -> str:
    """Return the word for one query, by the name of their column."""
    return UNITS.get(usual(column), terms.in_words(column) if is_named else terms.QUERY)


def _without_means(table: Table, of: Mapping[str, str], include: Sequence[str]) -> tuple[Table, dict[str, str]]:
    """Return a table without rows that are means of the others by their names, and which these are."""
    found = dict[str, str]()
    for role in (terms.MODEL, terms.QUERY):
        if role in of:
            names, unit = table.frame[of[role]], role if role == terms.MODEL else _word(of[role], is_named=False)
            means = [
                one
                for one in names.unique()
                if str(one) not in include and value_columns.is_mean_of_rows(str(one), unit)
            ]
            found |= {f"row {name}": f"{value_columns.MEAN}, by its name" for name in means}
            if means:
                table = replace(table, frame=table.frame[~names.isin(means)], _parsed={})
    return table, found


def _refuse_a_measure_among_tasks(tasks: Sequence[str], values: xr.Dataset) -> None:
    """Raise if several columns are called like measures, which are of one task, and others like tasks."""
    measures = [name for name in tasks if is_measure(name)]
    is_told = terms.MEASURE in values.dims or "negated" in values.attrs
    if 1 < len(measures) < len(tasks) and not is_told:  # one alone, as "similarity", may be a task
        what = "some columns are called like measures, others like tasks"
        received = f"measures: {few(list(map(repr, measures)))}; others: "
        received += few([repr(name) for name in tasks if name not in measures])
        remedy = f"leave them out: exclude={measures[0]!r}; or take them as tasks: include={measures[0]!r}; "
        remedy += "measures of one task are a tidy table, with a column called measure"
        raise InvalidInputError(what, "the columns of the table", received, "tasks alone", remedy)


def _refuse_several_rows(table: Table, model: str, repeats: Sequence[str], others: Sequence[str]) -> None:
    """Raise if models have several rows that another column tells apart: it names queries, or belongs to the model."""
    own = [model, *repeats]
    twice = table.frame[own].duplicated(keep=False)
    if not twice.any():
        return
    names = [name for name in others if name != model and table.is_text(name)]
    telling = [name for name in names if not table.frame[[*own, name]].duplicated().any()]
    if telling:
        what = "a model has several rows, and no column is one of queries, topics, tasks or data sets"
        first = table.frame[model][twice].iloc[0]
        received = f"{model} {first!r}, whose rows differ in {few(list(map(repr, telling)))}"
        remedy = f"if it names what models were evaluated on: query={telling[0]!r}; if it belongs to the model: "
        remedy += f"join it to {model!r}, or model={telling[0]!r}"
        raise AlignmentError(what, table.name, received, "a row for each model, or a column of queries", remedy)


def _values_among(
    table: Table, of: Mapping[str, str], others: Sequence[str], measure: str | None, include: Sequence[str]
) -> list[str]:
    """Return the columns of values of a tidy table: by their names, or the only one that may hold some."""
    numbers = [name for name in others if not table.is_text(name) and name not in include]
    numbers = [name for name in numbers if table.frame.empty or not np.isnan(table.read(name)).all()]
    plain = [name for name in numbers if is_no_value(name) is None]
    by_name = [name for name in plain if direction_of(name) is not None]
    if include or (VALUE not in of and by_name):
        return [*([of[VALUE]] if VALUE in of else by_name), *include]
    if VALUE in of and (not by_name or of[VALUE] == measure):
        return [of[VALUE]]
    # Of one column alone, be it of costs or times, nobody asks which one is meant.
    found = [of[VALUE], *by_name] if VALUE in of else plain or [n for n in numbers if direction_of(n) is not None]
    if len(found) > 1:
        what, received = "it is not clear which column holds the values", f"columns {few(list(map(repr, found)))}"
        allowed = f"a column called {', '.join(map(repr, COLUMNS[VALUE]))} or like a usual measure, or the one you name"
        remedy = f"name it: value={found[0]!r}; of several measures, include=[...]"
        raise InvalidInputError(what, table.name, received, allowed, remedy)
    return found


def _no_tasks(table: Table, columns: Sequence[str], include: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return which columns of a leaderboard are no tasks, and why; and those of percents next to fractions."""
    found, numbers = dict[str, str](), dict[str, Any]()
    texts = {name for name in columns if table.is_text(name)}
    bounds = value_columns.bounds_among({name: table.read(name) for name in columns if name not in texts})
    for name in columns:
        if name not in include and name in bounds:
            found[name] = value_columns.BOUND
        elif name not in include and (why := is_no_value(name)):
            found[name] = f"{why}, by its name"
        elif name not in include and name in texts:
            found[name] = "text"
        else:
            numbers[name] = table.numbers(name)
            if name not in include and np.isnan(numbers[name]).all():
                found[name] = "empty"
                del numbers[name]
    percents = [name for name in numbers if table.is_percent(name)]
    if [usual(name) for name in percents if name not in include] == ["zero_shot"] and len(numbers) > 1:
        found[percents[0]] = "of MTEB, the share of tasks that a model was not trained on"
        del numbers[percents.pop()]
    rest = [np.abs(numbers[name]) for name in numbers if name not in percents]
    scaled = percents if rest and np.nanmax(rest) <= 1 else []
    numbers |= {name: numbers[name] / 100 for name in scaled}
    by_number = value_columns.no_values_by_number({name: one for name, one in numbers.items() if name not in include})
    for name in by_number:
        others = [np.abs(numbers[other]) for other in numbers if other not in by_number]
        if np.nanmax(others) <= 1 < np.nanmax(np.abs(numbers[name])) <= 100 and name not in include:
            what, where = "a column may hold percents, where others hold fractions", f"{table.name}, column {name!r}"
            remedy = f"write a percent sign in its cells or its name, or leave it out: exclude={name!r}"
            raise InvalidInputError(what, where, by_number[name], "one scale, or percent signs", remedy)
    found |= by_number
    sizes = {name: float(np.nanmax(np.abs(one))) for name, one in numbers.items() if name not in found}
    usual_size = float(np.median(list(sizes.values()))) if sizes else 0.0
    if low := [
        name for name, size in sizes.items() if 0 < size <= 1 and name not in include and usual_size > value_columns.FAR
    ]:
        what, where = "a column may hold fractions, where others hold percents", f"{table.name}, column {low[0]!r}"
        remedy = f"bring it to their scale, or take it as it is: include={low[0]!r}; exclude= leaves it out"
        received = f"values up to {sizes[low[0]]:.4g}, where the others reach {usual_size:,.4g}"
        raise InvalidInputError(what, where, received, "one scale", remedy)
    if len(found) == len(columns):
        received = few([f"{name!r} ({why})" for name, why in found.items()])
        remedy = "write numbers in their cells"
        if any(why != "text" for why in found.values()):
            remedy = "take in those that are: include=[...]"
        raise InvalidInputError("no column is one of values", table.name, received, remedy=remedy)
    return found, scaled


def _tasks(names: Sequence[str], left_out: dict[str, str], include: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return what the columns of a leaderboard head: tasks, or several metrics of one task, which are one task."""
    for name, other in value_columns.of_other_splits([name for name in names if name not in include]).items():
        left_out[name] = f"of another split than {other!r}"
    names = [name for name in names if name not in left_out]
    if len(names) > 1 and all(name not in include and is_measure(name) for name in names):
        return {name: {terms.QUERY: ONE_TASK, terms.MEASURE: name} for name in names}
    split = value_columns.by_metric([name for name in names if name not in include])
    metrics, tasks = ({*one} for one in zip(*((m, t) for t, m in split.values()), strict=True)) if split else ((), ())
    if split.keys() == {*names} and len(split) == len(metrics) * len(tasks):
        return {name: {terms.QUERY: task, terms.MEASURE: metric} for name, (task, metric) in split.items()}
    seen = dict[str, str]()
    for name, (task, _) in split.items():
        if seen.setdefault(task, name) != name:
            left_out[name] = f"the task of {seen[task]} by another metric"
    return {name: {terms.QUERY: name} for name in names if name not in left_out}


def _models(
    table: Table, heads: dict[str, dict[str, str]], include: Sequence[str]
) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """Return the columns that models head, and those of text, which tell of the queries; raise for other names."""
    left_out = {name: "text" for name in heads if name not in include and table.is_text(name)}
    means = [name for name in heads if name not in include and value_columns.is_mean_of_rows(name, terms.MODEL)]
    left_out |= dict.fromkeys(means, f"{value_columns.MEAN}, by its name")
    if len(left_out) == len(heads):
        left_out = {}  # its first cell is refused
    for name in heads:
        why = None if name in include or name in left_out else is_no_value(name)
        if why in (value_columns.ABOUT, value_columns.SPREAD) or (
            why == value_columns.RANK and usual(name) in value_columns.RANKS
        ):
            what = "the columns are headed by models, and this name is none of a model"
            remedy = f"leave it out: exclude={name!r}; or take it in: include={name!r}"
            raise InvalidInputError(what, f"{table.name}, column {name!r}", why, "names of models", remedy)
    return {name: head for name, head in heads.items() if name not in left_out}, left_out


def _result(cells: pd.DataFrame, about: pd.DataFrame, unit: str, more: Mapping[str, Any]) -> xr.Dataset:
    """Return the values of cells as a result, and other columns that tell of its models or queries as coordinates."""
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
    result, coords = result.assign_attrs(provenance(result, facts, more)), dict[str, Any]()
    for name in about.columns.difference([*ROLES, *OUR_NAMES], sort=False):
        for dim in (dim for dim in (terms.MODEL, terms.QUERY) if dim in about):
            own = about.groupby(dim, sort=False)[name]
            if own.nunique(dropna=False).max() == 1:
                told = own.first().reindex(result[dim].values)
                is_number = isinstance(told.dtype, np.dtype) and told.dtype.kind in "biuf"
                coords[name] = dim, (told if is_number else told.fillna("").astype(str).astype(object)).to_numpy()
                break
    return terms.with_plain_names(result.assign_coords(coords)) if coords else result


def _averaged(cells: pd.DataFrame, tables: Sequence[Table]) -> tuple[pd.DataFrame, str | None]:
    """Return the values averaged over repeats, and what these are, in words; raise if one value is there twice."""
    repeats = ", ".join(sorted({name for name in cells.pop("repeats").unique() if name}))
    keys = cells[[*ROLES, REPEAT]]
    if (twice := keys.duplicated().to_numpy()).any():
        second = int(twice.argmax())
        first = int((keys == keys.iloc[second]).all(axis=1).to_numpy().argmax())
        places = [f"{cells['row'].iloc[at]} {cells.index[at]}" for at in (first, second)]
        what = "a model has two values of a measure on the same query"
        received = ", ".join(f"{role} {name!r}" for role, name in keys.iloc[second].items() if name)
        remedy = f"keep one of them; a column called {', '.join(REPEATS[:-1])} or {REPEATS[-1]} numbers repeats"
        for frame in [table.frame for table in tables if {table.row} == {*cells["row"].iloc[[first, second]]}]:
            one, other = (frame.loc[cells.index[at]].astype(str) for at in (first, second))
            apart = [f"{name!r} ({one[name]}, {other[name]})" for name in frame.columns[one != other]]
            if own := [f for f in apart if not f.startswith(f"{cells['column'].iloc[first]!r} ")]:
                received += f"; the rows differ in {few(own)}"
                remedy = f"keep one of them; or average over what numbers repeats: call it {REPEATS[2]!r}"
        raise AlignmentError(what, " and ".join(places), received, remedy=remedy)
    if not repeats or not cells[list(ROLES)].duplicated().any():
        return cells.drop(columns=REPEAT), None
    groups = cells.groupby(list(ROLES), sort=False)[VALUE]
    mean = groups.agg(lambda values: math.fsum(values) / len(values))  # a missing repeat leaves the mean missing
    sizes = sorted({*groups.size()})
    return mean.reset_index(), f"{repeats} ({' to '.join(map(str, dict.fromkeys((sizes[0], sizes[-1]))))} values each)"


def _directed(
    result: xr.Dataset, lower: bool | tuple[str, ...] | None, tasks: Set[str], means: Mapping[str, str]
) -> xr.Dataset:
    """Record of which measures less is better, by what the user or their names say; negate such tasks."""
    measures = estimators_of(result)
    lower = _lower_by_names(result, measures, tasks, means) if lower is None else lower
    if isinstance(lower, bool):
        lower = tuple(measures) if lower else ()
    if unknown := [name for name in lower if name not in (*measures, *map(str, result[terms.QUERY].values))]:
        raise unknown_column(unknown[0], [*measures, *map(str, result[terms.QUERY].values)], "option 'lower_is_better'")
    negated = [name for name in lower if name not in measures]
    sign = xr.where(result[terms.QUERY].isin(negated), -1.0, 1.0)
    facts = {terms.LOWER: [name for name in lower if name in measures], "negated": negated}
    oriented = result.assign(estimate=(result["estimate"] * sign).assign_attrs(result["estimate"].attrs))
    return oriented.assign_attrs({name: names for name, names in facts.items() if names})


def _lower_by_names(
    result: xr.Dataset, measures: Sequence[str], tasks: Set[str], means: Mapping[str, str]
) -> bool | tuple[str, ...]:
    """Return of which measures less is better, by their names, or by those of all tasks if there is one measure.

    Tasks whose names say nothing are what the columns of their means say.
    """
    ways, unclear = {name: direction_of(name) for name in measures}, list[str]()
    if len(measures) == 1:
        are_named = result.attrs[terms.UNIT] in ("task", "data set") or bool(tasks)
        of_means = {name: direction_of(name) for name, measure in means.items() if measure}
        read = direction_of if are_named and (ways[measures[0]] is None or of_means) else direction_by_mark
        of_tasks = {str(name): read(str(name)) for name in result[terms.QUERY].values}
        if None in of_tasks.values() and means:
            unfit = [name for name in means if name not in of_means and direction_of(name) == -1]
            if of_means and len({*of_means.values()}) == 1:
                (way,) = {*of_means.values()}
                of_tasks = {name: way if own is None else own for name, own in of_tasks.items()}
            elif of_means or (unfit and ways[measures[0]] is None):
                unclear = [*of_means, *unfit]
        if not unclear and {-1, 0} & {*of_tasks.values()}:
            if {*of_tasks.values()} == {-1} and ways[measures[0]] != 1:
                return True
            ways = of_tasks
            if lower := [name for name, way in ways.items() if way == -1]:
                others = [name for name in ways if name not in lower]
                what = "of some tasks less is better by their names, of others more is, or nothing says it"
                received = f"less: {few(list(map(repr, lower)))}; others: {few(list(map(repr, others)))}"
                remedy = "name those of which less is better: lower_is_better=[...], and their values are negated; "
                remedy += "or leave out the others: exclude=[...]"
                raise InvalidInputError(what, "option 'lower_is_better'", received, "one direction", remedy)
    if unclear := unclear or [name for name, way in ways.items() if way == 0]:
        what, received = "it is not clear whether more or less is better", few(list(map(repr, unclear)))
        remedy = "say it: lower_is_better=True, or lower_is_better=False"
        allowed = "lower_is_better=True, lower_is_better=False, or the names of measures or tasks"
        raise InvalidInputError(what, "option 'lower_is_better'", received, allowed, remedy)
    return tuple(name for name, way in ways.items() if way == -1)


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


def _unclear(roles: Sequence[str], columns: Sequence[str], table: Table, *, are_headed: bool) -> InvalidInputError:
    """Return the error for a table whose columns do not say what its cells are."""
    remedy = f"name it: {', '.join(f'{role}=...' for role in roles)}"
    if are_headed and roles == [terms.QUERY]:  # values are headed by models or by queries, and the rows may be either
        roles = [terms.MODEL, terms.QUERY]
        remedy = "say what a row is: model=... or query=..."
        remedy += "; an index is a column if it has a name" * (table.name == FRAME)
    nouns = {terms.MODEL: "models", terms.QUERY: "queries, topics, tasks or data sets", VALUE: "values"}
    what = f"there is no column of {' or of '.join(nouns[role] for role in roles)}"
    received = f"columns {few(map(repr, columns))}"
    allowed = "; ".join(f"for {nouns[role]} one called {few(list(map(repr, COLUMNS[role])), 6)}" for role in roles)
    return InvalidInputError(what, table.name, received, allowed, remedy)


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


def taken_in_words(values: xr.Dataset) -> str:
    """Say what a table of values was taken for: its sizes, its column or measures, and which way is better.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"model": ["a", "b"], "task": "t", "acc": [0.1, 0.2]})
    >>> taken_in_words(from_values(frame))
    "2 models, 1 task; values in column 'acc', more is better"
    """
    attrs, measures = values.attrs, estimators_of(values)
    units = [str(name) for name in values[terms.QUERY].values]
    one = str(attrs[terms.UNIT])
    sizes = f"{terms.count(values.sizes[terms.MODEL], 'model')}, {terms.count(len(units), one)}"
    column = attrs.get(terms.VALUE_COLUMN)
    lower = list(attrs.get(terms.LOWER, ()))
    way = f", {better(attrs)}"
    if len(measures) > 1:
        taken = f"measures {few(list(map(repr, measures)))} ({as_called('estimator=')})"
        others = [name for name in measures if name not in lower]
        way = f", {'less' if lower else 'more'} is better"
        if lower and others:
            way = f"; less is better: {few(lower, 8)}; more is better: {few(others, 8)}"
    elif column is not None:
        taken = f"values in column {column!r}"
    else:
        taken = f"{terms.plural(one)} {few(units, 8)}"
        way = way if measures == [VALUE] else f"; {measures[0]}{way}"
    told = values.assign_attrs({terms.LOWER: None})
    notes = [note.partition(f"; {as_called('include=')}")[0] for note in notes_of(told)]
    if values.sizes[terms.MODEL] == 1:
        notes.append("`aucpr-dask import values` takes the files of other models with it")
    return "; ".join([sizes, f"{taken}{way}", *notes])


def notes_of(values: xr.Dataset) -> list[str]:
    """Say what became of the columns of a table that are not values as they stand."""
    attrs, unit = values.attrs, terms.plural(str(values.attrs.get(terms.UNIT, terms.QUERY)))
    taken = "values" if terms.VALUE_COLUMN in attrs else unit
    said = {
        "columns_left_out": f"not taken as {taken}: {{}}; {as_called('include=')} takes one in",
        terms.SCALED: "percents, read as fractions like the others: {}",
        "averaged_over": "averaged over {}",
        terms.LOWER: "less is better: {}",
        "negated": "negated, because less is better: {}",
    }
    listed = {name: attrs[name] for name in said if attrs.get(name)}
    return [said[name].format(few(one, 8) if isinstance(one, list) else one) for name, one in listed.items()]


def save_values(values: xr.Dataset, store: str | Path, *, overwrite: bool = False) -> ValuesSummary:
    """Write what :func:`from_values` returns to a store that :func:`aucpr_dask.open_result` opens."""
    save_result(values, store, overwrite=overwrite)
    models, units = ([str(name) for name in values[dim].values] for dim in (terms.MODEL, terms.QUERY))
    found = str(values.attrs[terms.UNIT]), estimators_of(values), int(values["estimate"].isnull().sum())
    return ValuesSummary(len(models), len(units), *found, models, units, notes_of(values))
