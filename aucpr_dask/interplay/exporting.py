"""Results and scores as files that other programs read: tables, and the runs, judgments and output of trec_eval."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import shutil
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from aucpr_dask.errors import REPLACE_IT, InvalidInputError, StoreError, bad_argument, lacks
from aucpr_dask.interplay.frames import ANSWERS, DATASET, in_arrow, tidy_table, wide_table
from aucpr_dask.schema import terms
from aucpr_dask.schema.checks import choose
from aucpr_dask.scores.importing.files import FilePath
from aucpr_dask.scores.validate import where_of
from aucpr_dask.storage.urls import concealed, is_remote

FORMATS = ("parquet", "csv", "json", "trec_eval", "trec_run")
FOLDERS = ("trec_eval", "trec_run")
_BY_SUFFIX = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".json": "json"}
_STARTS_OF_FORMULAS = tuple("=+-@|")
_MARK = ".aucpr-dask-export"  # in the folders that were written here, and may be replaced

MEASURES = {"average_precision": "map"}
ALL = "all"
ONLY_QUERY = "1"  # of a data set without queries
# What terminals obey, and what changes the direction of text: both may show another text than there is.
CONTROLS = r"\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069"
MISSED = "not-retrieved"
SHORTEST_DIGEST = 8
_LONGEST_WORD = 10_000
_LONGEST_STEM = terms.LONGEST_NAME - len(".qrels")
_CONTROLS = re.compile(f"[{CONTROLS}]")


def export(
    data: terms.Scores, path: FilePath, *, format: str | None = None, tidy: bool = True, overwrite: bool = False
) -> None:
    """Write a result, an answer about one, or scores as TREC runs, for other programs.

    Parameters
    ----------
    data : xarray.Dataset or xarray.DataTree
        A result or, for tables, what :func:`to_dataframe` takes; for ``"trec_run"`` score data sets.
    path : path
        The file to write, or for the formats of TREC the folder.
    format : {"parquet", "csv", "json", "trec_eval", "trec_run"}, optional
        By default, by the suffix of `path`. ``"parquet"``, ``"csv"`` and ``"json"`` (an array of records,
        undefined numbers as null) are tables as from :func:`to_dataframe`; in CSV, text that a spreadsheet would run as
        a formula is preceded by an apostrophe. ``"trec_eval"`` is a file for each model, as ``trec_eval -q`` prints it;
        ``"trec_run"`` are runs and judgments.
    tidy : bool
        Of tables: one row for each estimate; or, if False, a column of estimates for each model.
    overwrite : bool
        Whether to replace a file, or a folder that was written by this function.

    Examples
    --------
    >>> import pathlib, tempfile, xarray as xr, aucpr_dask as ap
    >>> scores = xr.Dataset(
    ...     {"score": (("model", "item"), [[3.0, 2, 1]]), "label": ("item", [1, 0, 1])}, coords={"model": ["a"]}
    ... )
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "result.csv"
    >>> ap.export(ap.evaluate(scores), file)
    >>> file.read_text().splitlines()[1].split(",")[:3]
    ['a', 'average_precision', '0.8333333333333333']
    """
    place = named_file(path)
    if is_remote(os.fspath(path)):
        remedy = "name a local path, and copy the output"
        raise InvalidInputError("exports are written to this machine", None, concealed(os.fspath(path)), remedy=remedy)
    suffix = place.suffix.lower()
    if format is None and suffix not in _BY_SUFFIX:
        what = f"no format of tables has the suffix {place.suffix!r}"
        allowed, remedy = ", ".join(_BY_SUFFIX), f"name the format: format=..., one of {', '.join(FORMATS)}"
        raise InvalidInputError(what, place, repr(place.suffix), allowed, remedy)
    kind = _BY_SUFFIX[suffix] if format is None else choose(FORMATS, format, "format")
    needs_scores = kind == "trec_run"
    needed, noun = ("score", "scores") if needs_scores else ("estimate", "a result")
    if not all(needed in node for _, node in terms.nodes_of(data)):
        remedy = "name a score store" if needs_scores else "evaluate the scores first"
        raise lacks(f"the format {kind} needs {noun}", "the first argument", [f"no variable {needed!r}"], remedy)
    if kind == "trec_eval" and any({*ANSWERS} & set(node) for _, node in terms.nodes_of(data)):
        what, received = "the format trec_eval needs a result", "a comparison, ranks or another answer"
        raise InvalidInputError(what, "the first argument", received, "a result", "write a table: csv or parquet")
    refuse_existing(place, overwrite=overwrite, is_folder=kind in FOLDERS)
    data = terms.without_levels_of(data)

    def write(partial: Path) -> None:
        if kind == "trec_run":
            write_runs(data, partial)
        elif kind == "trec_eval":
            write_evaluations(data, partial)
        else:
            table = tidy_table(data) if tidy else wide_table(data)[1]
            _write_table(table, partial, kind)

    written_whole(write, place, is_folder=kind in FOLDERS)


def named_file(path: FilePath) -> Path:
    """Return a path, or raise if no file can have it."""
    try:
        place = Path(path)
        is_path = b"\0" not in os.fsencode(place)
        if is_path:
            os.stat(place)
    except (TypeError, UnicodeEncodeError):
        is_path = False
    except OSError as error:
        is_path = error.errno != errno.ENAMETOOLONG
    if not is_path:
        allowed, remedy = "a string or a Path, whose names file systems allow", "name the file to write"
        raise bad_argument("this is not the path of a file", "path", path, allowed, remedy)
    return place


def refuse_existing(place: Path, *, overwrite: bool, is_folder: bool = False) -> None:
    """Raise if something is there and may not be replaced, or if a file has no folder."""
    if not is_folder and not place.parent.is_dir():
        allowed, remedy = "a file in a folder that exists", "create the folder, or choose another"
        raise StoreError("there is no such folder", place.parent, place, allowed, remedy)
    if not place.exists() or _is_stream(place):
        return
    if not overwrite:
        raise StoreError("there is something at this place already", place, remedy=REPLACE_IT)
    if not is_folder and place.is_dir():
        allowed = "a file, new or to be replaced"
        raise StoreError("there is a folder at this place", place, "a folder", allowed, "name a file in it")
    if place.is_dir() and any(place.iterdir()) and not (place / _MARK).exists():
        remedy = "remove it yourself if it may go, or name another place"
        raise StoreError("refusing to overwrite a folder that no export wrote", where=place, remedy=remedy)


def free_file(path: FilePath, *, overwrite: bool) -> Path:
    """Return the path of a file, or raise unless it can be written."""
    place = named_file(path)
    refuse_existing(place, overwrite=overwrite)
    return place


def _is_stream(place: Path) -> bool:
    """Return whether this is a device or a pipe."""
    return place.exists() and not (place.is_file() or place.is_dir())


def written_whole(write: Callable[[Path], object], place: Path, *, is_folder: bool = False) -> None:
    """Write to a temporary name next to the place, and move it there when it is complete.

    A device or a pipe, such as /dev/stdout, is written to and never replaced.
    """
    is_stream = _is_stream(place)
    folder = Path(tempfile.gettempdir()) if is_stream else place.parent
    partial = folder / f".{place.name}.{os.getpid()}.partial"
    try:
        if is_folder and is_stream:
            raise NotADirectoryError(errno.ENOTDIR, "it is not a folder")
        if is_folder:
            partial.mkdir(parents=True)
            (partial / _MARK).touch()
        write(partial)
        if place.is_dir():
            shutil.rmtree(place)
        if is_stream:
            with place.open("wb") as stream:
                stream.write(partial.read_bytes())
        else:
            partial.replace(place)
    except OSError as error:
        received = error.strerror or error
        raise StoreError("the file cannot be written", place, received, remedy="check the path") from error
    finally:
        with suppress(OSError):
            shutil.rmtree(partial) if partial.is_dir() else partial.unlink(missing_ok=True)


def _write_table(table: pd.DataFrame, file: Path, kind: str) -> None:
    if kind == "parquet":
        from pyarrow import parquet

        parquet.write_table(in_arrow(table), file)
    elif kind == "csv":

        def shown(text: str) -> str:
            return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), cell(text))

        texts = table.select_dtypes(exclude="number")
        text = {str(name): texts[name].map(shown, na_action="ignore") for name in texts}
        table.assign(**text).rename(columns=shown).to_csv(file, index=False, lineterminator="\r\n")
    else:
        # JSON has no infinities and no NaN; null stands for a number that is undefined.
        finite = table.replace([np.inf, -np.inf], np.nan)
        records = finite.astype(object).where(finite.notna(), None).to_dict("records")
        written = json.dumps(records, allow_nan=False, ensure_ascii=False, indent=1)
        escaped = _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}" if found[0] != "\n" else "\n", written)
        file.write_text(f"{escaped}\n", encoding="utf-8")


def cell(text: str) -> str:
    """Return text that a spreadsheet does not run as a formula (OWASP, CSV Injection): an apostrophe precedes it.

    Invisible characters at the start do not count, and full-width signs are taken for the plain ones.
    """
    first = next((char for char in text if char.isprintable() and char != " "), "")
    is_formula = unicodedata.normalize("NFKC", first).startswith(_STARTS_OF_FORMULAS)
    return f"'{text}" if is_formula or text.lstrip(" ").startswith(("\t", "\r", "\n")) else text


# --- results as trec_eval prints them, and scores as the run and judgment files that it reads -----------------------


def write_evaluations(result: terms.Scores, folder: Path) -> None:
    """Write a result as ``trec_eval -q`` prints it: a file for each model, in a folder for each data set.

    The lines of ``all`` at the end are the number of queries and the means over those whose estimate is defined.
    """
    folders = _folders(result, folder)
    table = tidy_table(result)
    for path, rows in table.groupby(table.get(DATASET, pd.Series("", table.index)), sort=False):
        models = rows.get(terms.MODEL, pd.Series("model", rows.index))
        stems = distinct(models.unique(), file_name, _LONGEST_STEM)
        for model, own in rows.groupby(models, sort=False):
            measures = own[terms.MEASURE] if terms.MEASURE in own else own[terms.ESTIMATOR].replace(MEASURES)
            queries = own.get(terms.QUERY, [None] * len(own))
            by_measure, lines = {measure: list[float]() for measure in measures}, list[tuple[str, str, str]]()
            for measure, query, value in zip(measures, queries, own["estimate"], strict=True):
                if math.isfinite(value):
                    by_measure[measure].append(value)
                    lines += [(measure, word(query), f"{value:.4f}")] if isinstance(query, str) else []
            if terms.QUERY in own:
                lines.append(("num_q", ALL, str(max(map(len, by_measure.values())))))
            known = {measure: values for measure, values in by_measure.items() if values}
            lines += [(name, ALL, f"{math.fsum(values) / len(values):.4f}") for name, values in known.items()]
            text = (f"{word(measure):<22}\t{query}\t{value}\n" for measure, query, value in lines)
            _write(folders[str(path)] / f"{stems[str(model)]}.eval", text)


def write_runs(scores: terms.Scores, folder: Path) -> None:
    """Write scores as TREC runs and judgments, from which trec_eval computes the same values.

    Each data set gets ``runs/`` with a file for each model, and ``qrels.txt``, or ``qrels/`` with a file for each model
    if models have their own lists. Unnamed items are numbered so that trec_eval breaks ties by ``tie_order``. A missing
    score is a document that was not retrieved, an unjudged item is not in the judgments, and positives that were never
    scored are in them as ``not-retrieved``.
    """
    folders = _folders(scores, folder)
    for path, node in terms.nodes_of(scores):
        if "score" not in node or "label" not in node:
            what, received = "only scores with labels make runs and judgments", ", ".join(map(str, node.data_vars))
            raise InvalidInputError(what, where_of(path), received)
        node = node if terms.QUERY in node.dims else node.expand_dims({terms.QUERY: [ONLY_QUERY]})
        place, names = folders[path], _names(node, terms.MODEL)
        stems = distinct(names, file_name, _LONGEST_STEM)
        own_lists = terms.MODEL in node["label"].dims
        if not own_lists:
            _write(place / "qrels.txt", _judgment_lines(node, _documents(node)))
        first = 0
        for length in node["score"].chunksizes.get(terms.MODEL, (len(names),)):  # in memory, one chunk at a time
            block = node.isel({terms.MODEL: slice(first, first + length)}).compute()
            for offset, name in enumerate(names[first : first + length]):
                run = block.isel({terms.MODEL: offset})
                documents = _documents(run)
                _write(place / "runs" / f"{stems[name]}.run", _run_lines(run, documents, word(name)))
                if own_lists:
                    _write(place / "qrels" / f"{stems[name]}.qrels", _judgment_lines(run, documents))
            first += length


def _folders(data: terms.Scores, folder: Path) -> dict[str, Path]:
    """Return a folder for each data set: `folder` itself if there is only one."""
    if isinstance(data, xr.Dataset):
        return {"": folder}
    names = distinct((path for path, _ in terms.nodes_of(data)), file_name, terms.LONGEST_NAME)
    return {path: folder / name for path, name in names.items()}


def _documents(node: xr.Dataset) -> np.ndarray:
    """Return the names of the documents of each query; among equal scores, higher names come first."""
    shape = (node.sizes[terms.QUERY], node.sizes[terms.ITEM])
    if terms.ITEM in node.coords:
        return np.broadcast_to(np.array(_words(node, terms.ITEM), object), shape)
    order = node["tie_order"].values if "tie_order" in node else np.arange(shape[1])
    last = int(order.max(initial=0))
    width = len(str(max(shape[1], last + 1)))
    numbers = np.broadcast_to(last - order, shape)
    return np.array([[f"d{number:0{width}d}" for number in row] for row in numbers.tolist()], object).reshape(shape)


def _run_lines(run: xr.Dataset, documents: np.ndarray, tag: str) -> Iterator[str]:
    scores, labels = _by_query(run["score"]), _by_query(run["label"])
    for query, score, label, names in zip(_words(run, terms.QUERY), scores, labels, documents, strict=True):
        retrieved = np.flatnonzero((label != terms.PADDING) & ~np.isnan(score))
        by_name = retrieved[np.argsort(names[retrieved].astype(str), kind="stable")[::-1]]
        order = by_name[np.argsort(-score[by_name], kind="stable")]
        # As text, a float32 has just enough digits to differ from every other float32.
        for rank, (name, value) in enumerate(zip(names[order], score[order].astype(str), strict=True), start=1):
            yield f"{query} Q0 {name} {rank} {value} {tag}\n"


def _judgment_lines(node: xr.Dataset, documents: np.ndarray) -> Iterator[str]:
    labels, queries = _by_query(node["label"]), _words(node, terms.QUERY)
    grades, at_least = list[int](), np.empty((len(queries), 0), np.int64)
    if "n_positive" in node:
        counts = node["n_positive"]
        counts = counts if terms.GRADE in counts.dims else counts.expand_dims({terms.GRADE: [1]})
        grades = [int(grade) for grade in counts[terms.GRADE].values]
        at_least = counts.transpose(terms.QUERY, terms.GRADE).values
    for query, label, names, positives in zip(queries, labels, documents, at_least, strict=True):
        for item in np.flatnonzero(label > terms.UNJUDGED):
            yield f"{query} 0 {names[item]} {int(label[item])}\n"
        # Of those that were never scored: at least of a grade, less at least of the next, are of this grade.
        absent = [int(most) - int((label >= grade).sum()) for most, grade in zip(positives, grades, strict=True)]
        for grade, n, higher in zip(grades, absent, [*absent[1:], 0], strict=False):
            for number in range(n - higher):
                yield f"{query} 0 {MISSED}-{grade}-{number} {grade}\n"


def _by_query(variable: xr.DataArray) -> np.ndarray:
    values: np.ndarray = variable.transpose(terms.QUERY, terms.ITEM).values
    return values


def _names(node: xr.Dataset, dim: str) -> list[str]:
    """Return the names along a dimension; numbers from 1 where there are none."""
    return [str(name) for name in (node[dim].values if dim in node.coords else range(1, node.sizes[dim] + 1))]


def _words(node: xr.Dataset, dim: str) -> list[str]:
    """Return the same without blanks, still distinct."""
    return list(distinct(_names(node, dim), word, _LONGEST_WORD, key=str).values())


def _write(path: Path, lines: Iterator[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(lines)


# --- names of models, queries and data sets where fewer characters are allowed -----------------------------------


def distinct(
    names: Iterable[str], changed: Callable[[str], str], longest: int, key: Callable[[str], str] = str.casefold
) -> dict[str, str]:
    """Return a new name for each of `names`: `changed`, shortened, and still distinct.

    Two names are the same if their `key` is, because some file systems ignore case. Names that would become the same
    get a digest, except one that was not changed.
    """

    def shortened(name: str) -> str:
        return name if len(name.encode()) <= longest else _with_digest(name, name, longest)

    result = {name: shortened(changed(name)) for name in names}
    often = Counter(key(new) for new in result.values())
    unchanged = Counter(key(new) for name, new in result.items() if new == name)
    for name, new in result.items():
        if often[key(new)] > 1 and (new != name or unchanged[key(new)] > 1):
            result[name] = _with_digest(new, name, longest)
    return result


def _with_digest(new: str, name: str, longest: int) -> str:
    digest = hashlib.sha256(name.encode()).hexdigest()[:SHORTEST_DIGEST]
    kept = new.encode()[: longest - len(digest) - 1].decode(errors="ignore")
    return f"{kept}_{digest}"


def file_name(name: str) -> str:
    """Return a name for one file or folder that is allowed on every system and stays inside its parent."""
    name = re.sub(rf'[<>:"/\\|?*{CONTROLS}]', "_", name).strip()
    name = re.sub(r"(?i)^(con|prn|aux|nul|com\d|lpt\d)(?=\.|$)", r"_\1", name)  # devices on Windows
    return re.sub(r"^\.+|[. ]+$", "_", name) or "_"


def word(name: str) -> str:
    """Return a name without blanks and control characters, for lines of columns separated by blanks."""
    return re.sub(rf"[\s{CONTROLS}]+", "_", name) or "_"
