"""Tables to a score store: a row for each item and a column for each model, or a row for both."""

from __future__ import annotations

import fnmatch
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from aucpr_dask import errors
from aucpr_dask.schema import checks, terms
from aucpr_dask.schema.options import TableOptions
from aucpr_dask.scores import chunks, importing, validate
from aucpr_dask.scores.importing.files import (
    MOST_COLUMNS,
    FilePath,
    ImportSummary,
    OnProgress,
    Spool,
    unknown_column,
)
from aucpr_dask.scores.importing.table_files import MISSING_CELLS, SUFFIXES, Batch, Table, Words, coded, open_table

ID_WORDS = frozenset({"id", "ids", "idx", "index", "uuid", "fold", "row", "rownum"})
NO_SCORES = frozenset({"weight", "weights", "cluster", "group", "groups"})  # with a fraction, too
NO_SCORES |= {"age", "year", "date", "time", "timestamp", "duration", "lat", "latitude", "lon", "longitude", "price"}
NO_SCORES |= {"amount", "amt", "balance", "income", "salary", "charges", "cost", "fee", "quantity", "height", "bmi"}
NO_SCORES |= {"temperature", "temp", "pressure", "distance", "altitude", "elevation"}
LEAST_ROWS = 100  # fewer may be scores of a small example
TAKEN = "columns taken as models"
WHOLE = "columns of whole numbers"

OF_GROUP = "group by "  # before the names of columns of groups, which may be those of roles
PANDAS_INDEX = "__index_level_"  # of a level without a name
_TRUTH = {"true": terms.POSITIVE, "false": terms.NEGATIVE}


def import_table(
    paths: FilePath | Sequence[FilePath],
    url: str | Path,
    *,
    separator: str | None = None,
    overwrite: bool = False,
    append: bool = False,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> ImportSummary:
    r"""Write a table, or several with the same columns, to a score store, as ``aucpr-dask import table`` does.

    Rows are items and columns are models; with `model`, there is a row for each model and item, in any order. An empty
    cell, ``NA`` or ``NaN`` is a missing score, and so is an absent row of a model. A table is read once, in batches;
    scores beyond the first 256 MiB go to a temporary file, so that memory holds those, a batch, one block of the store
    and a few numbers per row. A table with a column of models is held in memory.

    Parameters
    ----------
    paths : path or sequence of paths
        CSV, TSV or JSON lines, plain or compressed (gzip, xz, bz2, zstd), Parquet or Feather; folders, or glob
        patterns.
    url : str or Path
        Where to write.
    separator : str, optional
        One character; by default a tab for ``.tsv``, otherwise the most frequent candidate in the first line.
    overwrite : bool
        Whether to replace a store at `url`.
    append : bool
        Whether to add the models and data sets to a store at `url`, which changes as a whole or not at all. If there
        is none, one is written.
    on_progress : callable, optional
        Called with (what, done, total).
    **options
        Fields of :class:`aucpr_dask.schema.options.TableOptions`; :func:`aucpr_dask.from_dataframe` describes them.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "scores.csv").write_text("name,y,forest,linear\na,1,0.9,0.2\nb,0,0.1,\n")
    >>> print(import_table(folder / "scores.csv", folder / "scores.zarr", label="y", item="name"))
    2 models, 2 items, 1 data set
      note: columns taken as models: 'forest', 'linear'
    """
    chosen = TableOptions(**options).checked()
    from aucpr_dask.scores.appending import place_for  # with Zarr, which reading tables does without

    with place_for(url, overwrite=overwrite, append=append) as place, Spool() as spool:
        tables = [open_table(file, separator) for file in importing.files.find_files(paths, "table")]
        template, nodes, notes = _read_tables(tables, chosen, spool, on_progress)
        importing.files.write_blocks(
            place, template, lambda path: nodes[path].block, overwrite=overwrite, on_progress=on_progress
        )
    return importing.files.summarize(template, sum(node.n_rows for node in nodes.values()), notes)


def scores_of_table(table: Table, options: TableOptions) -> tuple[terms.Scores, list[str]]:
    """Return the score data sets of a table, in memory, and notes on its columns."""
    with Spool() as spool:
        template, nodes, notes = _read_tables([table], options, spool)
        made = {}
        for path, described in terms.nodes_of(template):
            block = nodes[path].block(tuple(slice(0, size) for size in described["score"].shape))
            made[path] = described.assign(score=(described["score"].dims, block["score"].copy()))
        return terms.gathered(template, made), notes


def taken_in_words(name: object, scores: terms.Scores, options: TableOptions, notes: Sequence[str]) -> str:
    """Return a line that says what the columns of a table were taken for, and others with what was left out."""
    nodes = [node for _, node in terms.nodes_of(scores)]
    models = list(dict.fromkeys(str(model) for node in nodes for model in node[terms.MODEL].values))
    n_items = sum(map(importing.files.count_items, nodes))
    n_positive = sum(int((node["label"] == terms.POSITIVE).sum()) for node in nodes)
    positive = "" if options.pos_label is None else f" ({options.pos_label!r} is positive)"
    roles = {"models": options.model, "clusters": options.clusters, "queries": options.query}
    roles |= {"data sets": options.dataset, "items": options.item, "folds": options.fold, "repeats": options.repeat}
    roles |= {"weights": options.weight, "groups": ", ".join(options.by) or None}
    parts = [f"label {options.label!r}{positive}", f"models {errors.few(map(repr, models), MOST_COLUMNS)}"]
    parts += [f"{role} by {column!r}" for role, column in roles.items() if column is not None]
    counts = f"{terms.count(n_items, 'item')}, {n_positive:,} positive"
    advice = f"; {errors.as_called('models=')} names those that are scores"
    others = [note + advice * (WHOLE in note) for note in notes if not note.startswith(TAKEN)]
    return "\n  ".join(map(errors.printable, ["; ".join([f"{name}: {counts}", *parts]), *others]))


def _read_tables(
    tables: Sequence[Table], options: TableOptions, spool: Spool, on_progress: OnProgress | None = None
) -> tuple[terms.Scores, dict[str, _Node], list[str]]:
    """Return a template of the store, the data sets by name, whose scores are in the spool, and notes."""
    given = options
    if options.model is not None and options.item is None:
        what, received = "a tidy table needs item names, by which models are matched", f"model={options.model!r} alone"
        remedy = "name it: item=..."
        raise errors.InvalidInputError(what, "argument 'item'", received, "the column of item names", remedy)
    if options.model is not None and options.query is not None:
        options = replace(options, item=None)  # which matches models, and is not kept
    if options.item is not None and options.query is not None:
        what = "item names cannot be combined with queries, which have their own items"
        raise errors.clash(what, "leave out item", "one of them", item=options.item, query=options.query)
    if options.repeat is not None and options.item is None:
        what = "items of repeats are matched by name, never by position"
        remedy = "name their column: item=...; and queries as groups: by=[query, ...]"
        raise errors.clash(what, remedy, "repeat and item, without query", repeat=options.repeat, query=options.query)
    if options.by and options.query is not None:
        what, remedy = "groups lie along the items, and each query has its own", "by=[query, ...], without query"
        raise errors.clash(what, remedy, "one of them", by=options.by, query=options.query)
    if taken := [name for name in options.by if name in (*terms.SCORE_VARIABLES, terms.MODEL, terms.ITEM)]:
        what, remedy = "these names are those of variables of scores", "rename the columns, or name them by their roles"
        raise errors.InvalidInputError(what, "argument 'by'", errors.few(map(repr, taken)), "other names", remedy)
    for table in tables[1:]:
        if differing := {*tables[0].columns} ^ {*table.columns}:
            where = f"{tables[0].path} and {table.path}"
            received = f"only in one of them: {errors.few(map(repr, sorted(differing)))}"
            remedy = "import them separately, or give them the same columns"
            raise errors.FileFormatError("these tables have different columns", where, received, remedy=remedy)
    columns = tables[0].columns
    if absent := [name for name in given.roles if name not in columns]:
        batch = next(tables[0].batches([name for name in columns if name]), None)
        found = [name for name in batch.cells if holds_labels(batch, name)] if batch is not None else []
        if absent[0] == given.label:
            what, received = f"there is no column {given.label!r}", repr(given.label)
            allowed = errors.few(found or columns, MOST_COLUMNS)
            otherwise = "name the column of labels by label=, and if it holds text, its positive value by pos_label="
            otherwise = f"name the column of labels: label={found[0]!r}" if found else otherwise
            remedy = errors.did_you_mean(given.label, found or columns, otherwise)
            raise errors.InvalidInputError(what, tables[0].path, received, allowed, remedy)
        raise unknown_column(absent[0], columns, tables[0].path)
    if options.model is None and options.models is None and {"model", "score"} <= {*columns} - {*given.roles}:
        what, received = "this table has a column of models, as tidy frames do", errors.few(map(repr, columns))
        allowed = "a tidy table with model= and item=, or a wide one with a column of scores for each model"
        remedy = "name its columns: model='model', item=...; "
        remedy += "or the columns of scores: models=[...]"
        raise errors.InvalidInputError(what, tables[0].path, received, allowed, remedy)
    labels = _LabelReader(options.label, options.pos_label)
    nodes: dict[str, _Node] = defaultdict(lambda: _Node(spool))
    reported = importing.files.reported(tables, on_progress, "reading tables")
    if options.model is not None:
        models, scored = _read_tidy(tables, reported, given, labels, nodes)
        notes = list[str]()
    else:
        models, notes = _choose_models(tables[0], options)
        negated, scored = _negated(models, options.negate), np.zeros(len(models), bool)
        for table in reported:
            for batch in table.batches([*options.roles, *models], models):
                scores = _scores_of(batch, models, negated, options.dtype)
                left = np.flatnonzero(~scored)
                scored[left] = ~np.isnan(scores[left]).all(axis=1)
                cells, words = _cells_of(batch, options, labels)
                _share_out(scores, cells, words, nodes, partial(batch.where, column=str(options.dataset)))
    labels.check_found(tables[0].path)
    if not nodes:
        raise errors.FileFormatError("the table has no rows", errors.few(table.path for table in tables))
    if not scored.all():
        notes.append(f"models without a score: {errors.few(np.array(models, object)[~scored])}")
    source = errors.few(table.path.name for table in tables)
    order = {name: words for table in tables for name, words in table.order.items()}
    described = {name: node.lay_out(models, options, source, order) for name, node in nodes.items()}
    return described[""] if options.dataset is None else xr.DataTree.from_dict(described), nodes, notes


# --- columns ----------------------------------------------------------------------------------------------------


def _choose_models(table: Table, options: TableOptions) -> tuple[list[str], list[str]]:
    """Return the columns that are models, and notes on those that were left out."""
    others = options.roles
    excluded = set(_matching(options.exclude, table.columns, table.path))
    left_out, ids = list[str](), list[str]()
    if options.models is not None:
        models = [name for name in _matching(options.models, table.columns, table.path) if name not in excluded]
        if both := [name for name in models if name in others]:
            what = "a column cannot be both a model and something else"
            allowed = f"columns other than {errors.few(map(repr, others))}"
            remedy = "leave it out of models, or exclude it: exclude=[...]"
            raise errors.InvalidInputError(what, table.path, errors.few(map(repr, both)), allowed, remedy)
    else:
        free = [name for name in table.columns if name not in excluded and name not in others]
        named = [name for name in free if name and not name.startswith(PANDAS_INDEX)]
        kinds = dict.fromkeys(_with_fractions(table, named), "number")
        others = [name for name in named if name not in kinds]
        first = next(table.batches(others), None) if others else None
        kinds |= {name: "number" if first is None else kind_of(first, name) for name in others}
        left_out = [name for name in named if kinds[name] == "other"]
        models = [name for name in named if kinds[name] == "number" and name not in table.index]
        known = {*left_out, *models}
        ids = [name for name in named if name not in known]
    if not models:
        received = f"columns {errors.few(map(repr, table.columns))}"
        received += f", of which {errors.few(map(repr, ids))} hold whole numbers, which may be no scores" if ids else ""
        allowed = "at least one column of numbers with a fraction, besides the label and what is excluded"
        remedy = "name the columns of scores: models=[...]"
        what = "no column is a model"
        if commas := [] if options.models or first is None else list(filter(first.has_commas, left_out)):
            what, received = f"{what}: numbers have a decimal comma", errors.few(map(repr, commas))
            remedy = "write decimals with a point, or read them so: pandas.read_csv(file, sep=';', decimal=',')"
        raise errors.InvalidInputError(what, table.path, received, allowed, remedy)
    notes = []
    if options.models is None:
        notes.append(f"{TAKEN}: {errors.few(map(repr, models), MOST_COLUMNS)}")
    if left_out:
        notes.append(f"columns that are not numeric, left out: {errors.few(map(repr, left_out), MOST_COLUMNS)}")
    if ids:
        listed = errors.few(map(repr, ids), MOST_COLUMNS)
        notes.append(f"{WHOLE}, or named like ids, weights, ages, times or places, left out: {listed}")
    return models, notes


def _with_fractions(table: Table, columns: Sequence[str]) -> list[str]:
    """Return columns of numbers with a fraction, if Arrow reads all columns of a text as numbers: a look at thousands.

    Not those whose names say that they are no scores.
    """
    first = next(table.batches(columns, columns), None) if table.is_text and columns else None
    if first is None or not all(first.is_parsed(name) for name in columns):
        return []
    found = ((name, first.numbers(name)) for name in columns)
    has_fraction = [name for name, values in found if np.any(values != np.floor(values), where=~np.isnan(values))]
    return [name for name in has_fraction if _words_of(name)[-1] not in NO_SCORES]


def _words_of(column: str) -> list[str]:
    return re.split(r"[\W_]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", column).lower())


def kind_of(batch: Batch, column: str) -> str:
    """Return what a column holds, as `Batch.kind`; floats that only name, count or measure are called whole."""
    kind = batch.kind(column)
    if kind != "number":
        return kind
    words = _words_of(column)
    values = batch.numbers(column)
    values = values[~np.isnan(values)]
    is_whole = np.array_equal(values, np.floor(values))
    counts_rows = values.size >= LEAST_ROWS and values[0] in (0, 1) and bool((np.diff(values) == 1).all())
    names_rows = words[-1] in ID_WORDS or words[0] in ("unnamed", "level")
    return "whole" if words[-1] in NO_SCORES or (is_whole and (counts_rows or names_rows)) else "number"


def holds_labels(batch: Batch, column: str) -> bool:
    """Whether a column holds 1 and 0, or true and false, as labels do, and perhaps -1 for unjudged."""
    words = {word.strip().lower() for word in batch.text(column)[1]} - {"-1", "-1.0", ""}
    return len(words) == 2 and any(words == pair for pair in ({"0", "1"}, {"0.0", "1.0"}, {"false", "true"}))


def _matching(names: Iterable[str], columns: Sequence[str], where: object) -> list[str]:
    """Return the columns that the names or patterns name, each once, in the order of the names."""
    found: dict[str, None] = {}
    known = frozenset(columns)
    for name in names:
        matches = [name] if name in known else fnmatch.filter(columns, name)
        if not matches:
            raise unknown_column(name, columns, where)
        found.update(dict.fromkeys(matches))
    return list(found)


def _negated(models: Sequence[str], negate: bool | Sequence[str]) -> np.ndarray:
    if isinstance(negate, bool):
        return np.full(len(models), negate)
    named = set(_matching(negate, models, "models to negate"))
    return np.array([name in named for name in models])


# --- cells ------------------------------------------------------------------------------------------------------


def _scores_of(batch: Batch, models: Sequence[str], negated: np.ndarray, dtype: str) -> np.ndarray:
    """Return the scores (model, row) of a batch."""
    scores = np.empty((len(models), batch.n_rows), dtype)
    with np.errstate(over="ignore"):
        for model, name in enumerate(models):
            scores[model] = batch.numbers(name)
    # Unlike a change of sign, a difference has no negative zeros.
    scores[negated] = 0 - scores[negated]
    return scores


class _LabelReader:
    """Reads cells as labels, and remembers which values have occurred."""

    def __init__(self, column: str, positive: object) -> None:
        self._column = column
        self._positive = None if positive is None else str(positive)
        self._negative: str | None = None
        self._met_positive = False

    def read(self, batch: Batch) -> np.ndarray:
        codes, words = batch.text(self._column)
        labels = [self._label_of(word) for word in words]
        if None in labels:
            bad = labels.index(None)
            raise self._error(words[bad], batch.where(int(np.argmax(codes == bad)), self._column), words)
        return np.array(labels, np.int8)[codes]

    def check_found(self, path: Path) -> None:
        """Raise if the positive value did not occur."""
        if self._positive is not None and not self._met_positive and self._negative is not None:
            where, received = f"{path}, column {self._column!r}", f"pos_label={self._positive!r}"
            raise errors.InvalidInputError("the positive label does not occur", where, received, repr(self._negative))

    def _label_of(self, cell: str) -> int | None:
        text = cell.strip()
        if text in MISSING_CELLS:
            return None
        if self._positive is None:
            number, known = _number(text), (terms.POSITIVE, terms.NEGATIVE, terms.UNJUDGED)
            return int(number) if number is not None and number in known else _TRUTH.get(text.lower())
        if _same(text, self._positive):
            self._met_positive = True
            return terms.POSITIVE
        if self._negative is None or _same(text, self._negative):
            self._negative = text
            return terms.NEGATIVE
        return None

    def _error(self, cell: str, where: str, words: Sequence[str]) -> errors.FileFormatError:
        received, allowed = repr(cell), "1 positive, 0 negative, -1 unjudged, true, false"
        remedy = "recode the column, or leave out these rows"
        if cell.strip() in MISSING_CELLS:
            what, remedy = "the label is missing", "use -1 for an unjudged item"
        elif self._positive is None and (_number(cell.strip()) or 0) % 1:
            what = f"column {self._column!r} holds decimal numbers, as scores do, and no labels"
            remedy = "name the column of labels: label=COLUMN"
        elif self._positive is None:
            what = f"{cell.strip()!r} is not a label"
            remedy = "say which value is the positive one: pos_label=VALUE"
            if (_number(cell.strip()) or 0) > 1:
                remedy += "; of grades, write 1 for those that count as positive, and 0 for the others"
            texts = [word.strip() for word in words if word.strip() not in MISSING_CELLS]
            if all(_number(text) is None and text.lower() not in _TRUTH for text in texts):
                what, received = checks.positive_text([cell.strip()]), errors.few(map(repr, texts))
        elif not self._met_positive:
            what = f"no label is {self._positive!r}, the positive one: they are {self._negative!r} and {cell.strip()!r}"
            allowed = f"{self._positive!r} (positive), and one other value"
            otherwise = f"name one that occurs: pos_label={cell.strip()!r}"
            remedy = errors.did_you_mean(self._positive, [str(self._negative), cell.strip()], otherwise)
        else:
            what = "this label is a third value"
            allowed = f"{self._positive!r} (positive) and {self._negative!r} (negative)"
        return errors.FileFormatError(what, where, received, allowed, remedy)


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


def _names(batch: Batch, column: str) -> Words:
    codes, names = batch.text(column)
    if "" in names:
        raise _without_name(batch.where(int(np.argmax(codes == names.index(""))), column))
    return codes, names


def _strings(batch: Batch, column: str, read: Callable[[str], np.ndarray] | None = None) -> np.ndarray:
    strings = (read or batch.strings)(column)
    if strings.dtype == object and (empty := np.flatnonzero(strings == "")).size:
        raise _without_name(batch.where(int(empty[0]), column))
    return strings


def _without_name(where: str) -> errors.FileFormatError:
    return errors.FileFormatError("a name is missing: the cell is empty", where, allowed="a name")


def _numbers_or_words(words: np.ndarray) -> np.ndarray:
    """Return labels as numbers, if all are written as such, so that 9 comes before 10."""
    if words.dtype != object:
        return words
    codes, found = pd.factorize(words)
    for kind in (np.int64, np.float64):
        try:
            numbers = found.astype(kind)
        except (ValueError, OverflowError):
            continue
        if np.isfinite(numbers).all() and list(map(repr, numbers.tolist())) == found.tolist():
            return numbers[codes]
    return words


# --- data sets --------------------------------------------------------------------------------------------------


def _cells_of(
    batch: Batch, options: TableOptions, labels: _LabelReader
) -> tuple[dict[str, np.ndarray], dict[str, Words]]:
    """Return the cells of a batch by role; and of queries and data sets, which are few, their words."""
    cells = {"label": labels.read(batch)}
    if options.weight is not None:
        cells["weight"] = batch.numbers(options.weight)
        bad = np.flatnonzero(~(np.isfinite(cells["weight"]) & (cells["weight"] >= 0)))
        if bad.size:
            where, allowed = batch.where(int(bad[0]), options.weight), "a finite number, not negative"
            raise errors.FileFormatError("this is not a weight", where, cells["weight"][bad[0]], allowed)
    if options.fold is not None:
        folds = batch.numbers(options.fold)
        bad = np.flatnonzero(folds != np.rint(folds))
        if bad.size:
            where, remedy = batch.where(int(bad[0]), options.fold), "number the folds: 0, 1, ..."
            raise errors.FileFormatError("this is not a fold", where, folds[bad[0]], "a whole number", remedy)
        cells["fold"] = folds.astype(np.int64)
    named = [("item", options.item), ("repeat", options.repeat), ("cluster", options.clusters)]
    for role, column in (*named, *((OF_GROUP + name, name) for name in options.by)):
        if column is not None:
            cells[role] = _strings(batch, column, batch.labels if role.startswith(OF_GROUP) else batch.strings)
    columns = {"query": options.query, "dataset": options.dataset}
    return cells, {role: _names(batch, column) for role, column in columns.items() if column is not None}


def _share_out(
    scores: np.ndarray,
    cells: dict[str, np.ndarray],
    words: dict[str, Words],
    nodes: dict[str, _Node],
    where: Callable[[int], str],
) -> None:
    """Distribute rows among their data sets; `where` says in words where the data set of a row is named."""
    queries = list[str]()
    if "query" in words:
        cells["query"], queries = words["query"]
    if "dataset" not in words:
        nodes[""].add(scores, cells, queries)
        return
    codes, names = words["dataset"]
    rows_of = pd.Series(codes).groupby(codes).indices
    for code, name in enumerate(names):
        rows = rows_of[code]
        if name not in nodes:
            terms.check_node_name(name, where(int(rows[0])))
        nodes[name].add(scores[:, rows], {role: values[rows] for role, values in cells.items()}, queries)


def _read_tidy(
    tables: Sequence[Table],
    reported: Iterable[Table],
    options: TableOptions,
    labels: _LabelReader,
    nodes: dict[str, _Node],
) -> tuple[list[str], np.ndarray]:
    """Read tables with a row for each model and item, in any order; return the models, and which have a score."""
    parts, n_rows = list[pd.DataFrame](), list[int]()
    model_column = str(options.model)
    for table in reported:
        n_rows.append(0)
        for batch in table.batches([*options.roles], [options.score]):
            cells, words = _cells_of(batch, options, labels)
            cells |= {role: np.array(of_role, object)[codes] for role, (codes, of_role) in words.items()}
            cells |= {"model": _strings(batch, model_column), "score": batch.numbers(options.score)}
            parts.append(pd.DataFrame(cells))
            n_rows[-1] += batch.n_rows
    if not parts:
        return [], np.zeros(0, bool)

    def where(row: int, column: str = model_column) -> str:
        place = int(np.searchsorted(np.cumsum(n_rows), row, side="right"))
        return tables[place].where(row - sum(n_rows[:place]), column)

    def cells_at(row: int, roles: Iterable[str]) -> str:
        return ", ".join(f"{_column_of(options, role)} {frame[role].tolist()[row]!r}" for role in roles)

    frame = pd.concat(parts, ignore_index=True)
    keys = [role for role in ("dataset", "query", "repeat", "item") if role in frame]
    model, found = pd.factorize(frame["model"])
    item = frame.groupby(keys, sort=False).ngroup().to_numpy()
    first = np.flatnonzero(~pd.Series(item).duplicated())
    if (twice := np.flatnonzero(pd.Series(model * first.size + item).duplicated())).size:
        received = f"{twice.size:,} rows, first: {cells_at(twice[0], [*keys, 'model'])}"
        allowed, remedy = "one row for each model and item", "keep one of the rows"
        if "dataset" not in frame:
            remedy += f"; if a column tells their data sets apart, name it: {errors.as_called('dataset=...')}"
        raise errors.AlignmentError("a model scores an item twice", where(twice[0]), received, allowed, remedy)
    of_items = {role: frame[role].to_numpy() for role in map(str, frame) if role not in ("model", "score")}
    for role, values in of_items.items():
        if (differing := np.flatnonzero(values != values[first][item])).size:
            what = f"models differ in the {_column_of(options, role)!r} of an item"
            received = f"{differing.size:,} rows, first: {cells_at(differing[0], [*keys, role])}"
            allowed = "one value for each item, the same with every model"
            raise errors.AlignmentError(what, where(differing[0], _column_of(options, role)), received, allowed)
    names = [str(name) for name in found]
    if both := [name for name in names if name in options.roles]:
        received = errors.few(map(repr, both))
        raise errors.AlignmentError("a model is named like a column", tables[0].path, received, remedy="rename it")
    excluded = set(_matching(options.exclude, names, tables[0].path))
    wanted = names if options.models is None else _matching(options.models, names, tables[0].path)
    models = [name for name in wanted if name not in excluded]
    if not models:
        what, received = "no model is left", f"exclude={list(options.exclude)!r}"
        raise errors.InvalidInputError(what, tables[0].path, received, errors.few(map(repr, names)), "exclude fewer")
    scores = np.full((len(names), first.size), np.nan, options.dtype)
    with np.errstate(over="ignore"):
        scores[model, item] = frame["score"]
    scores = scores[[names.index(name) for name in models]]
    negated = _negated(models, options.negate)
    scores[negated] = 0 - scores[negated]
    cells = {role: values[first] for role, values in of_items.items()}
    words = {role: coded(cells.pop(role)) for role in ("query", "dataset") if role in cells}
    if "query" in words:
        del cells["item"]
    _share_out(scores, cells, words, nodes, lambda row: where(first[row], str(options.dataset)))
    return models, ~np.isnan(scores).all(axis=1)


def _column_of(options: TableOptions, role: str) -> str:
    return role.removeprefix(OF_GROUP) if role.startswith(OF_GROUP) else str(getattr(options, role))


class _Node:
    """The rows of one data set, whose scores (model, row) are in the spool, and their places in the store."""

    def __init__(self, spool: Spool) -> None:
        self.n_rows = 0
        self._spool = spool
        self._scores: list[np.ndarray] = []
        self._cells: list[dict[str, np.ndarray]] = []
        self._queries: dict[str, int] = {}

    def add(self, scores: np.ndarray, cells: dict[str, np.ndarray], queries: Sequence[str]) -> None:
        """Append rows: their scores, and the cells of the other columns by role; of queries, their places in a list."""
        if "query" in cells:
            numbers = np.zeros(len(queries), np.int64)
            for code in pd.unique(cells["query"]):
                numbers[code] = self._queries.setdefault(queries[code], len(self._queries))
            cells = {**cells, "query": numbers[cells["query"]]}
        self._scores.append(self._spool.kept(scores))
        self._cells.append(cells)
        self.n_rows += len(cells["label"])

    def lay_out(
        self, models: Sequence[str], options: TableOptions, source: str, categories: Mapping[str, Sequence[str]]
    ) -> xr.Dataset:
        """Give every row its place, and return the data set without its scores."""
        cells = {role: np.concatenate([part[role] for part in self._cells]) for role in self._cells[0]}
        self._place: np.ndarray = np.arange(self.n_rows)
        self._shape: tuple[int, ...] = (self.n_rows,)
        dims: tuple[str, ...] = (terms.ITEM,)
        coords: dict[str, Any] = {terms.MODEL: list(models)}
        if "query" in cells:
            dims = (terms.QUERY, terms.ITEM)
            coords[terms.QUERY] = list(self._queries)
            order, n_rows = np.argsort(cells["query"], kind="stable"), np.bincount(cells["query"])
            self._shape = (len(self._queries), int(n_rows.max()))
            starts = np.arange(len(n_rows)) * self._shape[1] - (np.cumsum(n_rows) - n_rows)
            self._place[order] = np.arange(self.n_rows) + np.repeat(starts, n_rows)
        elif "item" in cells:
            # Of an index, xarray does not look for the type.
            coords[terms.ITEM] = pd.Index(cells["item"], dtype=object, copy=False)
        of_scores = dims
        if "repeat" in cells:
            of_scores = (terms.REPEAT, terms.ITEM)
            coords[terms.REPEAT], coords[terms.ITEM], cells = self._in_repeats(cells, source)
        for role, words in cells.items():
            if (name := role.removeprefix(OF_GROUP)) != role:
                found = frozenset(words.tolist())
                known = [word for word in categories.get(name, ()) if word in found]  # in their order
                ordered = {terms.CATEGORIES: _numbers_or_words(np.array(known, object)).tolist()} if known else {}
                coords[name] = (terms.ITEM, _numbers_or_words(words), ordered)
        sizes = dict(zip((terms.MODEL, *of_scores), (len(models), *self._shape), strict=True))
        variables = {
            "score": chunks.empty_variable(sizes, options.dtype),
            "label": (dims, self._padded(cells["label"], terms.PADDING)),
        }
        if "weight" in cells:
            variables["weight"] = (dims, self._padded(cells["weight"], 0))
        for role in ("cluster", "fold"):
            if role in cells:
                values = self._of_units(cells, role, source)
                named = {"long_name": options.clusters} if role == "cluster" else {}
                variables[role] = (of_scores if values.ndim > 1 else dims[:1], values, named)
        return xr.Dataset(variables, coords=coords, attrs={"source": source})

    def block(self, region: chunks.Region) -> dict[str, np.ndarray]:
        """Return the scores of one region of the store."""
        models, *rest = region
        shape = tuple(part.stop - part.start for part in region)
        row_size = self._shape[-1]
        first, last = (rest[0].start * row_size, rest[0].stop * row_size) if len(rest) == 2 else (0, row_size)
        block = np.empty((shape[0], last - first), self._scores[0].dtype)
        if self._place.size < np.prod(self._shape):  # with padding
            block[:] = np.nan
        start = 0
        for part in self._scores:
            place = self._place[start : start + part.shape[1]] - first
            start += part.shape[1]
            inside = (place >= 0) & (place < last - first)
            if not inside.any():
                continue
            rows = slice(place[0], place[0] + len(place))
            if inside.all() and (place == np.arange(rows.start, rows.stop)).all():  # as in most tables
                block[:, rows] = part[models]
            else:
                block[:, place[inside]] = part[models][:, inside]
        return {"score": block.reshape(shape)}

    def _of_units(self, cells: dict[str, np.ndarray], role: str, where: str) -> np.ndarray:
        """Return the clusters or folds of items; with queries those of queries, in which they must not differ."""
        if "query" not in cells:
            return cells[role]
        groups = pd.Series(cells[role]).groupby(cells["query"])
        if (several := np.flatnonzero(groups.nunique().to_numpy() > 1)).size:
            received = f"several in {errors.few(repr(list(self._queries)[place]) for place in several)}"
            remedy = f"leave out {role}, or query: the items of all queries are then ranked together"
            what = f"a query has one {role}, which its items share"
            raise errors.AlignmentError(what, where, received, remedy=remedy)
        return groups.first().to_numpy()

    def _in_repeats(self, cells: dict[str, np.ndarray], where: str) -> tuple[Any, Any, dict[str, np.ndarray]]:
        """Place rows by repeat and item, and return their names, and the cells of the items (folds: also by repeat)."""
        (item, items), (repeat, repeats) = pd.factorize(cells.pop("item")), pd.factorize(cells.pop("repeat"))
        self._shape = (len(repeats), len(items))
        self._place, self.n_rows = repeat * len(items) + item, len(items)
        n_rows = np.bincount(self._place, minlength=repeats.size * items.size)
        if (odd := np.flatnonzero(n_rows != 1)).size:
            first, name = divmod(int(odd[0]), len(items))
            received = f"{n_rows[odd[0]]} rows of item {items[name]!r} in repeat {repeats[first]!r}"
            remedy = "drop the items that some repeat lacks; or name the column of data sets: dataset="
            raise errors.AlignmentError("each repeat needs one row for each item", where, received, None, remedy)
        for role, values in cells.items():
            grid = np.empty(self._shape, values.dtype)
            grid.reshape(-1)[self._place] = values
            if role != "fold" and (differs := (grid != grid[0]).any(axis=0)).any():
                what, received = f"repeats differ in the {role} of an item", errors.few(map(repr, items[differs]))
                raise errors.AlignmentError(what, where, f"items {received}", "one value for each item")
            cells[role] = grid if role == "fold" else grid[0]
        return _numbers_or_words(np.asarray(repeats, object)), items, cells

    def _padded(self, values: np.ndarray, fill: float) -> np.ndarray:
        if len(self._queries) == 0:
            return values
        padded = np.full(self._shape, fill, values.dtype)
        padded.reshape(-1)[self._place] = values
        return padded


# --- tables with one model each ---------------------------------------------------------------------------------


def scores_of_files(paths: Sequence[FilePath], options: TableOptions) -> tuple[terms.Scores, str]:
    """Return the models of a table, and what was taken for what.

    Of several tables, take the model of each, named by its file, matched by the names of items.
    """
    listed = importing.files.find_files(paths, "table")
    if len(listed) == 1:
        scores, notes = scores_of_table(open_table(listed[0]), options)
        return scores, taken_in_words(paths[0], scores, options, notes)
    if options.item is None:
        received, allowed = f"{len(listed)} tables without a column of item names", "the column of item names"
        remedy = "name it: item=; or give one table with a column of scores for each model"
        what = "items of several tables are matched by name, never by position"
        raise errors.InvalidInputError(what, "option 'item'", received, allowed, remedy)
    named = importing.files.named_files(listed, SUFFIXES, "model", with_folders=True)
    parts: list[xr.Dataset] = []
    for name, file in named.items():
        ((_, part),) = terms.nodes_of(scores_of_table(open_table(file), replace(options, dataset=None))[0])
        if part.sizes[terms.MODEL] != 1:
            received = f"columns {errors.few(map(repr, part[terms.MODEL].values.tolist()))}"
            what, allowed = "each of several tables has the scores of one model", "one column of scores"
            raise errors.InvalidInputError(what, file, received, allowed, "name it: score=")
        validate.check_unique(part.indexes[terms.ITEM], terms.ITEM, str(file))
        first = parts[0] if parts else part
        items, own = first.indexes[terms.ITEM], part.indexes[terms.ITEM]
        where, allowed = f"{next(iter(named))} and {name}", "the same items, each with the same label, in any order"
        if len(different := items.symmetric_difference(own)):
            received = f"only in one of them: {errors.few(map(repr, different))}"
            raise errors.AlignmentError("two tables have different items", where, received, allowed, "correct one")
        part = part.isel({terms.ITEM: own.get_indexer(items)})
        if (differs := (part["label"] != first["label"]).values).any():
            received = f"other labels of {errors.few(map(repr, items[differs]))}"
            raise errors.AlignmentError("two tables have different labels", where, received, allowed, "correct one")
        parts.append(part)
    score = np.concatenate([part["score"].values for part in parts])
    scores = first.drop_vars(terms.MODEL).assign(score=((terms.MODEL, terms.ITEM), score))
    scores = scores.assign_coords({terms.MODEL: list(named)}).assign_attrs(source=errors.few(map(str, named.values())))
    return scores, taken_in_words(terms.count(len(listed), "table"), scores, options, [])
