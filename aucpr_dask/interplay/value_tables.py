"""Tables of values: data frames, arrays, files, and what trec_eval and ir_measures print or return."""

from __future__ import annotations

import io
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from aucpr_dask.errors import AlignmentError, FileFormatError, InvalidInputError, brief, few
from aucpr_dask.interplay.frames import FRAME, arrow_table
from aucpr_dask.schema.checks import is_list, real, require
from aucpr_dask.schema.terms import ESTIMATOR, LONGEST_NAME, MEASURE, MODEL
from aucpr_dask.scores.importing.files import bad_line, bare_name, find_files, lines_of, reading, reading_text
from aucpr_dask.scores.importing.table_files import MISSING_CELLS, TextTable, open_table

TOPICS = ("query_id", "qid", "topic", "query", "q_id", "topic_id", "query-id")
REPEATS = ("seed", "epoch", "repeat", "trial", "repetition", "fold")  # columns over which values are averaged
MODELS = (
    *("model", "system", "method", "agent", "model_name", "models", "llm", "system_name", "method_name"),
    *("algorithm", "algo", "classifier", "ranker", "detector"),
    *("run_id", "run", "tag", "run_name", "name", "submission", "team"),
    *("retriever", "approach", "variant", "arm", "backbone"),
)
VALUE = "value"
JSON, LINES, MARKDOWN, HTML = (".json",), (".jsonl", ".ndjson"), (".md", ".markdown"), (".html", ".htm")
ONE_RUN = "run"  # the name of a run without one
SUFFIXES = (".txt", ".eval", ".tsv", ".csv", ".res", ".trec")
ALL, RUN_ID, N_QUERIES = "all", "runid", "num_q"  # as trec_eval calls them
COUNTS = ("num_", "Num")  # of documents
NO_MEANS = (*COUNTS, "gm_")  # the starts of measures whose value for all topics is no mean
KINDS = "a data frame, a Dataset or DataArray, a mapping of models to their values, or paths of files"
REMEDY = "make it one of these; arrays need labels: xarray.DataArray(values, coords, dims)"
# In upper or lower case. A failure (OOM, timeout) is not a missing value: the author must say if it counts as 0.
EMPTY = {*map(str.lower, MISSING_CELLS), "n/a", "n.a.", "null", "none", "tbd", "tba", "?"}
EMPTY |= {"-", "--", "\N{EN DASH}", "\N{EM DASH}"}
THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+(\.[0-9]*)?%?")
# What people write around a value: bold, its error, its rank or interval, marks of notes and medals.
_ERROR = r"\s*%?\s*(±|\+/-|\+-|\\pm)\s*[0-9.,]+\s*%?"
DECORATED = re.compile(
    rf"[\s*_$🥇🥈🥉]*(?P<value>[+\-\N{{MINUS SIGN}}]?[0-9]*[.,]?[0-9][0-9.,]*(?:[eE][+-]?[0-9]+)?\s*%?)"
    rf"[*_†‡§¶]*(?:{_ERROR})?(?:\s*(?:\([^()]*\)|\[[^\[\]]*\]))*[\s*_$†‡§¶🥇🥈🥉]*"
)
# No number, but text that begins with one: dates, versions, times.
NO_NUMBER = re.compile(r".*[^\W\d_%eE].*|[0-9]+([-/.:][0-9]+){2,}|[0-9]+:[0-9]+")
# Of programs that evaluate models: lm-eval, MTEB, HELM and SWE-bench.
TASK, EXAMPLE, INSTANCE, RESOLVED = "task", "example_id", "instance_id", "resolved"
LESS = " ↓"  # behind the name of a measure of which a file says that less is better
OF_SWE_BENCH = [MODEL, INSTANCE, RESOLVED]
LEFT_OUT = "left_out"  # the attribute of a table made here: what its file holds and the table does not, and why
ABOUT_MODELS = ("model_meta.json",)  # files of MTEB without results
ROUNDED = 1e-4  # at most, of means of values that are printed with four decimals


def usual(name: str) -> str:
    """Return the name of a column as the lists of usual names write it."""
    return name.lower().replace(" ", "_").replace("-", "_")


@dataclass(frozen=True)
class Table:
    """A table whose index numbers its rows; no cell is parsed twice."""

    frame: pd.DataFrame
    name: str  # what errors call it
    word: str  # for a row, before its number
    run: str = ONE_RUN  # what its one run is called, if it has no column of models
    has_given_columns: bool = True  # or those of arrays, mappings and result files, made here
    left_out: dict[str, str] = field(default_factory=dict)  # what was not taken from its file, and why
    _parsed: dict[str, np.ndarray] = field(default_factory=dict, repr=False, compare=False)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [str(name) for name in self.frame.columns]

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
            where, remedy = self.where(int(missing.argmax()), column), "fill it in, or leave out the row"
            raise InvalidInputError("a name is missing", where, "an empty cell", "a name in every row", remedy)
        return [str(cell) for cell in cells]

    def is_text(self, column: str) -> bool:
        """Return whether a column has cells, and none is a number, nor looks like one that could be read wrongly."""
        numbers = self.read(column)
        has_numbers = self._are_numbers(column) or pd.api.types.is_complex_dtype(self.frame[column])
        if has_numbers or np.isfinite(numbers).any() or not np.isinf(numbers).any():
            return False
        cells = [str(cell).strip() for cell in self.frame[column][np.isinf(numbers)]]
        return not any(re.match("[~<>≈+-]?[0-9]", cell) and not NO_NUMBER.fullmatch(cell) for cell in cells)

    def is_numeric(self, column: str) -> bool:
        """Return whether a column has numbers, and besides them only empty cells."""
        numbers = self.read(column)
        return bool(np.isfinite(numbers).any()) and not np.isinf(numbers).any()

    def is_percent(self, column: str) -> bool:
        """Return whether the values of a column are percents, by the sign in all cells, or in its name."""
        cells = [] if self._are_numbers(column) else [str(one) for one in self.frame[column] if _is_known(one)]
        by_cells = bool(cells) and all("%" in cell for cell in cells)
        return by_cells or ("%" in column and float(np.nanmax(np.abs(self.read(column)), initial=0.0)) > 1)

    def numbers(self, column: str) -> np.ndarray:
        """Return the cells of a column of values, NaN where missing."""
        cells, numbers = self.frame[column], self.read(column)
        if np.isinf(numbers).any():
            texts = [str(one).strip() for one in cells]
            signs = np.array(["%" in text for text in texts])
            unsigned = np.array([math.isfinite(_number(_bare(text))) for text in texts])
            if 0 < unsigned.sum() < signs.sum():  # most cells have a percent sign; the first without is named
                place = int(unsigned.argmax())
                what, where = (
                    "most cells of a column have a percent sign, and this one has none",
                    self.where(place, column),
                )
                remedy = f"write it in all or in none, or leave the column out: exclude={column!r}"
                raise InvalidInputError(what, where, brief(cells.iloc[place]), "one way", remedy)
            bare = [_number(_bare(str(cell)).removesuffix("%").strip()) for cell in cells]
            odd = np.isinf(numbers) & np.isinf(bare)  # not a percent, which is odd only beside others
            place = int((odd if odd.any() else np.isinf(numbers)).argmax())
            where = self.where(place, column)
            allowed = "a finite number, with a decimal point; empty, NA or NaN for a missing one"
            remedy = f"correct it (0 if a failure counts, empty if not); or leave it out: exclude={column!r}"
            what = "the value is not a finite number"
            raise InvalidInputError(what, where, brief(cells.iloc[place]), allowed, remedy)
        return numbers

    def _are_numbers(self, column: str) -> bool:
        dtype = self.frame[column].dtype
        return isinstance(dtype, np.dtype) and dtype.kind in "biuf"

    def read(self, column: str) -> np.ndarray:
        """Return the cells of a column as numbers: NaN if missing, infinite if not a number."""
        if column not in self._parsed:
            cells = self.frame[column]
            self._parsed[column] = np.array(cells if self._are_numbers(column) else _numbers(cells), np.float64)
        return self._parsed[column]


def _numbers(cells: Iterable[Any]) -> list[float]:
    """Return cells as numbers: NaN if missing, infinite if not a number.

    A percent sign or a comma is read only where all cells of the column agree in what it means. Of a value with its
    error, rank or interval, ``65.0 ± 1.2`` or ``54.2% (1)``, the value is read.
    """
    cells = [_bare(cell) if isinstance(cell, str) else cell for cell in cells]
    known = [cell for cell in cells if isinstance(cell, str) and cell.lower() not in EMPTY]
    if known and all(cell.endswith("%") for cell in known):
        cells = [cell.removesuffix("%").strip() if isinstance(cell, str) else cell for cell in cells]
    if any("," in cell for cell in known) and all("," not in cell or THOUSANDS.fullmatch(cell) for cell in known):
        cells = [cell.replace(",", "") if isinstance(cell, str) else cell for cell in cells]
    return [_number(cell) for cell in cells]


def _bare(cell: str) -> str:
    """Return a cell without what decorates its number, if it holds one."""
    cell = cell.strip()
    found = None if cell.lower() in EMPTY or "_" in cell.strip("_") else DECORATED.fullmatch(cell)
    return cell if found is None else found["value"].replace("\N{MINUS SIGN}", "-").strip()


def _is_known(cell: Any) -> bool:
    return not (cell is None or cell is pd.NA or cell is pd.NaT or cell != cell or str(cell).strip().lower() in EMPTY)


def _number(cell: Any) -> float:
    if isinstance(cell, str):
        if not _is_known(cell):
            return np.nan
        if cell.lower() in ("true", "false"):
            return float(cell.lower() == "true")
        try:
            return np.inf if "_" in cell else float(cell)  # Python reads "1_000" as a number
        except ValueError:
            return np.inf
    if not _is_known(cell):
        return np.nan
    number = real(cell)
    return np.inf if np.isnan(number) else number


def tables_of(values: Any, separator: str | None) -> list[Table]:
    """Return what users pass as values as tables; tables as they are."""
    if isinstance(values, list) and values and all(isinstance(one, Table) for one in values):
        return values
    if isinstance(values, xr.DataTree):
        allowed, remedy = "a Dataset or a DataArray", "choose one: tree['name'].to_dataset()"
        raise InvalidInputError("values are of one data set", "the values", brief(values), allowed, remedy)
    if isinstance(values, xr.Dataset | xr.DataArray) and values.dims:
        # A row for each value: of `estimate`, of the one variable, or of each variable as a measure.
        known = {MEASURE: values.attrs[MEASURE]} if MEASURE in values.attrs else {}
        if isinstance(values, xr.Dataset):
            single = "estimate" if "estimate" in values or len(values.data_vars) != 1 else next(iter(values.data_vars))
            values = values[single] if single in values else values.to_dataarray(MEASURE)
        scalars = {str(name): one for name, one in values.coords.items() if not one.dims}
        known |= {name: one.item() for name, one in scalars.items() if name in (MEASURE, ESTIMATOR)}
        series = values.reset_coords(drop=True).rename(values.name or VALUE).to_series()
        labels = {str(name): series.index.get_level_values(str(name)) for name in values.dims}
        return [Table(series.to_frame().assign(**labels, **known), "the values", "cell", has_given_columns=False)]
    if isinstance(values, pd.Series):
        return [_of_frame(values.to_frame(values.name or VALUE))]
    listed = values if isinstance(values, list | tuple) else [values]
    if all(isinstance(one, str | PathLike) for one in listed):
        files = [file for file in find_files(values, "file of values") if file.name not in ABOUT_MODELS]
        tables = [replace(_of_file(file, separator), run=bare_name(file, SUFFIXES)) for file in files]
        if any(table.columns != OF_SWE_BENCH for table in tables):
            return tables
        # What no list of SWE-bench's names for a model was not resolved.
        whole = pd.concat([table.frame for table in tables]).pivot(index=INSTANCE, columns=MODEL, values=RESOLVED)
        frame = pd.Series(whole.fillna(0.0).T.stack(), name=RESOLVED).reset_index()
        return [replace(_of_frame(frame), has_given_columns=False)]
    if isinstance(values, Mapping):
        return [_of_mapping(values)]
    return [_of_frame(frame_of(values, "the values", REMEDY, KINDS))]


def _of_mapping(values: Mapping[Any, Any]) -> Table:
    frames = []
    for name, given in values.items():
        of_model = given.to_dict() if isinstance(given, pd.Series) else given
        if isinstance(of_model, Mapping):
            rows = []
            for query, value in of_model.items():
                by_measure = value.items() if isinstance(value, Mapping) else [(None, value)]
                rows += [
                    {"query": query, VALUE: one} | ({MEASURE: m} if m is not None else {}) for m, one in by_measure
                ]
            frame = pd.DataFrame(rows)
        else:
            kinds = "{query: value}, {query: {measure: value}}, or a data frame"
            frame = frame_of(of_model, "the values of a model", REMEDY, kinds)
        frames.append(frame.assign(**{MODEL: str(name)}))
    made = _of_frame(pd.concat(frames) if frames else pd.DataFrame())
    return replace(made, has_given_columns=all(hasattr(one, "columns") for one in values.values()))


def frame_of(
    table: Any,
    what: str,
    remedy: str = "`aucpr-dask import trec` reads files",
    allowed: str = "a mapping of topics to mappings of documents to numbers, or a data frame",
) -> pd.DataFrame:
    """Return a data frame of any kind, or rows that are named tuples, as one of pandas."""
    if isinstance(table, pd.DataFrame):
        return table
    if hasattr(table, "__arrow_c_stream__"):
        return arrow_table(table, what).to_pandas()  # type: ignore[no-any-return]
    rows = list(table) if is_list(table) else []
    if rows and all(isinstance(row, tuple) and hasattr(row, "_fields") for row in rows):
        return pd.DataFrame(rows)
    raise InvalidInputError(f"{what} are neither a mapping nor a data frame", what, brief(table), allowed, remedy)


def _of_frame(frame: pd.DataFrame) -> Table:
    named = [name for name in frame.index.names if name is not None and name not in frame.columns]
    frame = frame.reset_index(level=named) if named else frame
    frame = frame.set_axis(frame.columns.map(str), axis=1).set_axis(range(1, len(frame) + 1), axis=0)
    if (twice := frame.columns[frame.columns.duplicated()]).size:
        if "" in twice:
            remedy = "name them, or leave them out; of lm-eval, give the JSON that it writes"
            raise AlignmentError("two columns have no name", FRAME, remedy=remedy)
        raise AlignmentError("two columns have the same name", FRAME, few(map(repr, twice)))
    return Table(frame, FRAME, "row")


def _of_file(path: Path, separator: str | None) -> Table:
    if (found := _parsed(path)) is not None:
        table = _of_mapping(found) if isinstance(found, dict) else _of_frame(found)
        left_out = found.attrs.get(LEFT_OUT) if isinstance(found, pd.DataFrame) else None
        is_given = table.has_given_columns and left_out is None
        return replace(table, name=str(path), has_given_columns=is_given, left_out=left_out or {})
    with reading(path) as stream:
        first = stream.readline(LONGEST_NAME).decode("utf-8", "replace").split("\t")
    # The third cell of a line of an evaluation is a number, that of a header is a name.
    if len(first) == 3 and (first[0].strip() == RUN_ID or np.isfinite(_number(first[2]))):  # no header of a table
        return _of_evaluation(path)
    opened = open_table(path, separator)
    if isinstance(opened, TextTable):
        rows = dict(opened.rows())
        frame = pd.DataFrame(rows.values(), index=[*rows], columns=opened.columns)
        is_blank = (frame == "").all(axis=1)  # separators without cells, as spreadsheets write below a table
        return Table(frame[~is_blank], str(path), "line")
    batches = opened.batches(opened.columns)
    frames = [pd.DataFrame({name: cells.to_pandas() for name, cells in batch.cells.items()}) for batch in batches]
    frame = pd.concat(frames) if frames else pd.DataFrame(columns=opened.columns)
    return Table(frame.set_axis(range(1, len(frame) + 1), axis=0), str(path), "row")


def _parsed(path: Path) -> Any:
    """Return what a file in one of these formats holds, a data frame or a mapping; None if it is in another."""
    suffix = path.name.removeprefix(bare_name(path, (*JSON, *LINES, *MARKDOWN, *HTML))).lower()
    if not suffix.startswith((*JSON, *LINES, *MARKDOWN, *HTML)):
        return None
    with reading_text(path) as stream:
        text = stream.read()
    if suffix.startswith(MARKDOWN):
        from markdown_it import MarkdownIt  # rich needs it, too

        cells: list[list[list[str]]] = []  # of the tables of the page; of bold text, code and links only the words
        for token, following in pairwise(MarkdownIt().enable("table").parse(text)):
            if token.type == "table_open":
                cells.append([])
            elif token.type == "tr_open":
                cells[-1].append([])
            elif token.type in ("th_open", "td_open"):
                words = [one.content for one in following.children or () if one.type in ("text", "code_inline")]
                cells[-1][-1].append("".join(words).strip())
        return _only_table([pd.DataFrame(rows, columns=heads) for heads, *rows in cells], path)
    if suffix.startswith(HTML):
        require("lxml", "html", path)
        try:
            tables = pd.read_html(io.StringIO(text), flavor="lxml")
        except ValueError as error:  # no table
            raise FileFormatError("there is no table on this page", path, error) from error
        return _only_table(tables, path)
    try:
        is_lines = suffix.startswith(LINES)
        found: Any = [json.loads(line) for line in text.splitlines() if line.strip()] if is_lines else json.loads(text)
        if (board := _read_board(found, path)) is not None:
            return board
        if is_lines:
            return pd.DataFrame(found)
        if isinstance(found, dict) and all(isinstance(one, dict) for one in found.values()):
            return found
        is_split = isinstance(found, dict) and {*found} >= {"columns", "data"}  # as pandas splits a frame
        return pd.DataFrame(found["data"], columns=found["columns"]) if is_split else pd.DataFrame(found)
    except (ValueError, TypeError, RecursionError) as error:
        allowed = "rows, [{column: cell, ...}, ...], or {model: {query: value}}; one row in each line of JSONL"
        raise FileFormatError("the file is not a table in JSON", path, error, allowed) from error


def _only_table(tables: list[pd.DataFrame], path: Path) -> pd.DataFrame:
    """Return the table of a page, or among others the only one of models and numbers; say what was left out."""
    named = [table for table in tables if {usual(str(name)) for name in table.columns} & {*MODELS}]
    of_models = [table for table in named if any(map(_of_frame(table).is_numeric, map(str, table.columns)))]
    if len(tables) > 1 and len(of_models) == 1:
        others = [table for table in tables if table is not of_models[0]]
        why = "another table, without models and numbers"
        of_models[0].attrs[LEFT_OUT] = {few(map(str, one.columns), 3): why for one in others}
        return of_models[0]
    if len(tables) != 1:
        received = few([f"one with columns {few(map(str, table.columns))}" for table in tables]) or "none"
        raise FileFormatError("there is not one table in this file", path, received, "one table", "keep one of them")
    return tables[0]


def _of_evaluation(path: Path) -> Table:
    """Read what ``trec_eval -q`` prints, measure, topic and value; or ``ir_measures -q``: query, measure and value."""
    with reading_text(path) as text:
        rows = [line.rstrip("\r\n").split("\t") for line in lines_of(text, path)]
    for number, cells in enumerate(rows, start=1):
        if len(cells) != 3:
            allowed = "3 columns separated by tabs, as trec_eval -q and ir_measures -q print them"
            raise bad_line("wrong number of columns", path, number, f"{len(cells)} columns: {brief(cells)}", allowed)
    # trec_eval fills the names of measures with blanks.
    by_trec_eval = any(first.endswith(" ") or second == ALL for first, second, _ in rows)
    unit = "topic" if by_trec_eval else "query_id"
    columns = [MEASURE, unit, VALUE] if by_trec_eval else [unit, MEASURE, VALUE]
    frame = pd.DataFrame(rows, index=range(1, len(rows) + 1), columns=columns)
    frame[MEASURE] = frame[MEASURE].str.strip()
    of_all: dict[Any, str] = frame[frame[unit] == ALL].set_index(MEASURE)[VALUE].to_dict()
    single = frame[(frame[unit] != ALL) & ~frame[MEASURE].str.startswith(COUNTS)]
    if single.empty:
        remedy = "print them: trec_eval -q, or ir_measures -q"
        raise FileFormatError("there is no value of a single topic", path, remedy=remedy)
    single = single.assign(**{MODEL: of_all.get(RUN_ID, bare_name(path, SUFFIXES))})
    table = Table(single, str(path), "line", has_given_columns=False)
    # The means over all topics that a file states must be those of its values.
    values = pd.Series(table.numbers(VALUE)).groupby(table.frame[MEASURE].to_numpy(), sort=False)
    for measure, own in values:
        stated = _number(of_all.get(str(measure), ""))
        # With -c, trec_eval counts topics without a line as 0.
        mean = math.fsum(own) / max(len(own), int(_number(of_all.get(N_QUERIES, "0"))))
        if abs(mean - stated) > ROUNDED and not str(measure).startswith(NO_MEANS):
            what = f"the mean of the values is not the one stated for {ALL!r}"
            where = f"{table.name}, measure {measure!r}"
            received = f"{of_all[str(measure)]}, and values with the mean {mean:.6f}"
            raise FileFormatError(what, where, received, remedy="evaluate again: lines are missing or changed")
    return table


# Result files in JSON of programs that evaluate models


def _read_board(found: Any, path: Path) -> pd.DataFrame | None:
    """Return the table of what a file in JSON holds, if a known program wrote it."""
    for read in (_results, _samples, _of_mteb, _of_helm, _of_swe_bench):
        if (frame := read(found, path)) is not None:
            frame.attrs.setdefault(LEFT_OUT, {})
            return frame
    return None


def _name_of(*names: Any) -> str:
    """Return the first name that is known; folders write the slash of a name as two underscores."""
    return next(str(name) for name in names if name).replace("__", "/")


def _results(found: Any, path: Path) -> pd.DataFrame | None:
    """Read every task of lm-evaluation-harness or lighteval but groups, whose values are means of their tasks."""
    configs = {"config", "configs", "config_general", "versions"}
    if not (isinstance(found, dict) and configs & {*found} and isinstance(found.get("results"), dict)):
        return None
    config = found.get("config") or found.get("config_general") or {}
    pretrained = re.search(r"pretrained=([^,]+)", str(config.get("model_args", "")))
    model = _name_of(found.get("model_name"), config.get("model_name"), pretrained and pretrained[1], path.parent.name)
    groups = {*found.get("groups", {}), *(name for name, of in found.get("group_subtasks", {}).items() if of), "all"}
    higher = found.get("higher_is_better", {})
    rows = []
    for task, values in found["results"].items():
        for key, value in values.items() if task not in groups else ():
            metric, _, of = key.partition(",")
            if isinstance(value, int | float) and "stderr" not in metric and metric not in ("alias", "samples"):
                name = metric if of in ("", "none") else f"{metric} ({of})"
                name += "" if higher.get(task, {}).get(metric, True) else LESS
                rows.append((model, task, name, float(value)))
    counts = Counter(metric for _, _, metric, _ in rows)
    rows.sort(key=lambda row: -counts[row[2]])  # the measure of most tasks first
    frame = pd.DataFrame(rows, columns=[MODEL, TASK, MEASURE, VALUE])
    frame.attrs[LEFT_OUT] = {f"group {name}": "a mean of its tasks" for name in found["results"] if name in groups}
    return frame


def _samples(found: Any, path: Path) -> pd.DataFrame | None:
    """Read the samples of lm-evaluation-harness."""
    if not (isinstance(found, list) and found and {"doc_id", "target", "resps"} <= {*found[0]}):
        return None
    task = re.sub(r"^samples_|_\d{4}-\d\d-\d\dT.*$|\.jsonl.*$", "", path.name)
    rows = []
    for record in found:
        names = record.get("metrics") or [name for name, value in record.items() if isinstance(value, float)]
        known = {name: record[name] for name in names if isinstance(record.get(name), int | float)}
        rows += [(f"{task}/{record['doc_id']}", name, value) for name, value in known.items()]
    return pd.DataFrame(rows, columns=[EXAMPLE, MEASURE, VALUE]).assign(**{MODEL: _name_of(path.parent.name)})


def _of_mteb(found: Any, path: Path) -> pd.DataFrame | None:
    """Read the main score of a task of MTEB: the mean over its subsets, of the test split if there is one."""
    if not (isinstance(found, dict) and {"task_name", "mteb_dataset_name"} & {*found}):
        return None
    splits = {}
    for name, split in found.get("scores", found).items():
        parts = split if isinstance(split, list) else [split]
        if parts and all(isinstance(part, dict) for part in parts):
            splits[name] = parts
    if not splits:
        return None
    parts = splits.get("test") or next(iter(splits.values()))
    # The older form has a mapping for each subset of languages.
    scores = [one for part in parts for one in (part, *part.values()) if isinstance(one, dict) and "main_score" in one]
    if not scores:
        raise FileFormatError("this result of MTEB has no main score", path, few(splits), "main_score")
    mean = sum(float(one["main_score"]) for one in scores) / len(scores)
    task = found.get("task_name") or found["mteb_dataset_name"]
    row = {MODEL: _name_of(path.parent.parent.name, path.parent.name, "run"), TASK: task, "main_score": mean}
    return pd.DataFrame([row])


def _of_helm(found: Any, path: Path) -> pd.DataFrame | None:
    """Read the only table of HELM, or the one of accuracy."""
    tables = found if isinstance(found, list) else [found]
    if not tables or not all(isinstance(one, dict) and {"header", "rows"} <= {*one} for one in tables):
        return None
    named = [one for one in tables if str(one.get("title", "")).lower() == "accuracy"] or tables
    if len(named) != 1:
        received = few([repr(one.get("title")) for one in tables])
        raise FileFormatError("there is not one table in this file", path, received, "one table", "keep one of them")
    (table,) = named
    heads = [f"{cell['value']}{LESS if cell.get('lower_is_better') else ''}" for cell in table["header"]]
    heads[0] = "model"
    return pd.DataFrame([[cell.get("value") for cell in row] for row in table["rows"]], columns=heads)


def _of_swe_bench(found: Any, path: Path) -> pd.DataFrame | None:
    """Read which instances of SWE-bench were resolved, and which others the file names."""
    if not isinstance(found, dict) or not any(isinstance(found.get(name), list) for name in ("resolved_ids", RESOLVED)):
        return None
    ids: Any = found.get("resolved_ids", found.get(RESOLVED, ()))
    resolved = {*ids}
    named = dict.fromkeys(one for ids in found.values() if isinstance(ids, list) for one in ids)
    folder = path.parent.parent if path.parent.name == "results" else path.parent
    model = folder.name if path.stem in ("results", "report") else path.name.removesuffix(".json")
    return pd.DataFrame([(model, one, float(one in resolved)) for one in named], columns=OF_SWE_BENCH)
