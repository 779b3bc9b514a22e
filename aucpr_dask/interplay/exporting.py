"""Results and scores as files that other programs read."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import tempfile
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd

from aucpr_dask.errors import REPLACE_IT, InvalidInputError, StoreError, bad_argument, lacks
from aucpr_dask.interplay.frames import tidy_table, wide_table
from aucpr_dask.interplay.trec_files import CONTROLS, write_evaluations, write_runs
from aucpr_dask.schema.checks import choose
from aucpr_dask.schema.terms import Scores, nodes_of, without_levels_of
from aucpr_dask.scores.importing.files import FilePath
from aucpr_dask.storage.urls import concealed, is_remote

FORMATS = ("parquet", "csv", "json", "trec_eval", "trec_run")
FOLDERS = ("trec_eval", "trec_run")
_BY_SUFFIX = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".json": "json"}
_STARTS_OF_FORMULAS = tuple("=+-@|")
_CONTROLS = re.compile(f"[{CONTROLS}]")
_MARK = ".aucpr-dask-export"  # in the folders that were written here, and may be replaced


def export(
    data: Scores,
    path: FilePath,
    *,
    format: str | None = None,
    tidy: bool = True,
    overwrite: bool = False,
) -> None:
    """Write a result, or scores as TREC runs, for other programs.

    Parameters
    ----------
    data : xarray.Dataset or xarray.DataTree
        A result; for ``"trec_run"`` score data sets.
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
    kind = _format_of(place, format)
    needs_scores = kind == "trec_run"
    needed, noun = ("score", "scores") if needs_scores else ("estimate", "a result")
    if not all(needed in node for _, node in nodes_of(data)):
        remedy = "name a score store" if needs_scores else "evaluate the scores first"
        raise lacks(f"the format {kind} needs {noun}", "the first argument", [f"no variable {needed!r}"], remedy)
    refuse_existing(place, overwrite=overwrite, is_folder=kind in FOLDERS)
    data = without_levels_of(data)

    def write(partial: Path) -> None:
        if kind == "trec_run":
            write_runs(data, partial)
        elif kind == "trec_eval":
            write_evaluations(data, partial)
        else:
            table = tidy_table(data) if tidy else wide_table(data)[1]
            {"parquet": _write_parquet, "csv": _write_csv, "json": _write_records}[kind](table, partial)

    written_whole(write, place, is_folder=kind in FOLDERS)


def _format_of(path: Path, format: str | None) -> str:
    if format is not None:
        return choose(FORMATS, format, "format")
    if path.suffix.lower() not in _BY_SUFFIX:
        allowed, remedy = ", ".join(_BY_SUFFIX), f"name the format: format=..., one of {', '.join(FORMATS)}"
        raise InvalidInputError(
            f"no format of tables has the suffix {path.suffix!r}", path, repr(path.suffix), allowed, remedy
        )
    return _BY_SUFFIX[path.suffix.lower()]


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


def _write_csv(table: pd.DataFrame, file: Path) -> None:
    def shown(text: str) -> str:
        return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), cell(text))

    of_text = table.select_dtypes(exclude="number").items()
    text = {str(name): values.map(shown, na_action="ignore") for name, values in of_text}
    table.assign(**text).rename(columns=shown).to_csv(file, index=False, lineterminator="\r\n")


def cell(text: str) -> str:
    """Return text that a spreadsheet does not run as a formula (OWASP, CSV Injection): an apostrophe precedes it.

    Invisible characters at the start do not count, and full-width signs are taken for the plain ones.
    """
    first = next((char for char in text if char.isprintable() and char != " "), "")
    is_formula = unicodedata.normalize("NFKC", first).startswith(_STARTS_OF_FORMULAS)
    return f"'{text}" if is_formula or text.lstrip(" ").startswith(("\t", "\r", "\n")) else text


def _write_parquet(table: pd.DataFrame, file: Path) -> None:
    import pyarrow as arrow
    from pyarrow import parquet

    text = set(table.select_dtypes(exclude="number"))
    arrays = {
        name: arrow.array(values, type=arrow.string() if name in text else None, from_pandas=name in text)
        for name, values in table.items()
    }
    parquet.write_table(arrow.table(arrays), file)


def _write_records(table: pd.DataFrame, file: Path) -> None:
    # JSON has no infinities and no NaN; null stands for a number that is undefined.
    finite = table.replace([np.inf, -np.inf], np.nan)
    records = finite.astype(object).where(finite.notna(), None).to_dict("records")
    text = json.dumps(records, allow_nan=False, ensure_ascii=False, indent=1)
    text = _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}" if found[0] != "\n" else "\n", text)
    file.write_text(f"{text}\n", encoding="utf-8")
