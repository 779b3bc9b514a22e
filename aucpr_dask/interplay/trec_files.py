"""Results as trec_eval prints them, and scores as the run and judgment files that it reads."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.interplay.frames import DATASET, tidy_table
from aucpr_dask.schema import terms
from aucpr_dask.scores.validate import where_of

MEASURES = {"average_precision": "map"}
ALL = "all"
ONLY_QUERY = "1"  # of a data set without queries
# What terminals obey, and what changes the direction of text: both may show another text than there is.
CONTROLS = r"\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069"
MISSED = "not-retrieved"
SHORTEST_DIGEST = 8
_LONGEST_WORD = 10_000
_LONGEST_STEM = terms.LONGEST_NAME - len(".qrels")


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
            _write(folders[str(path)] / f"{stems[str(model)]}.eval", _evaluation_lines(own))


def _evaluation_lines(rows: pd.DataFrame) -> Iterator[str]:
    measures = rows[terms.MEASURE] if terms.MEASURE in rows else rows[terms.ESTIMATOR].replace(MEASURES)
    queries = rows.get(terms.QUERY, [None] * len(rows))
    by_measure: dict[str, list[float]] = {measure: [] for measure in measures}
    for measure, query, value in zip(measures, queries, rows["estimate"], strict=True):
        if math.isfinite(value):
            by_measure[measure].append(value)
            if isinstance(query, str):
                yield _line(measure, word(query), f"{value:.4f}")
    if terms.QUERY in rows:
        yield _line("num_q", ALL, str(max(map(len, by_measure.values()))))
    for measure, values in by_measure.items():
        if values:
            yield _line(measure, ALL, f"{math.fsum(values) / len(values):.4f}")


def _line(measure: str, query: str, value: str) -> str:
    return f"{word(measure):<22}\t{query}\t{value}\n"


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
        return np.broadcast_to(np.array(_words(_names(node, terms.ITEM)), object), shape)
    order = node["tie_order"].values if "tie_order" in node else np.arange(shape[1])
    last = int(order.max(initial=0))
    width = len(str(max(shape[1], last + 1)))
    numbers = np.broadcast_to(last - order, shape)
    return np.array([[f"d{number:0{width}d}" for number in row] for row in numbers.tolist()], object).reshape(shape)


def _run_lines(run: xr.Dataset, documents: np.ndarray, tag: str) -> Iterator[str]:
    scores, labels = _by_query(run["score"]), _by_query(run["label"])
    for query, score, label, names in zip(_words(_names(run, terms.QUERY)), scores, labels, documents, strict=True):
        retrieved = np.flatnonzero((label != terms.PADDING) & ~np.isnan(score))
        by_name = retrieved[np.argsort(names[retrieved].astype(str), kind="stable")[::-1]]
        order = by_name[np.argsort(-score[by_name], kind="stable")]
        # As text, a float32 has just enough digits to differ from every other float32.
        for rank, (name, value) in enumerate(zip(names[order], score[order].astype(str), strict=True), start=1):
            yield f"{query} Q0 {name} {rank} {value} {tag}\n"


def _judgment_lines(node: xr.Dataset, documents: np.ndarray) -> Iterator[str]:
    labels, queries = _by_query(node["label"]), _words(_names(node, terms.QUERY))
    for query, label, names, lacking in zip(queries, labels, documents, _never_scored(node, labels), strict=True):
        for item in np.flatnonzero(label > terms.UNJUDGED):
            yield f"{query} 0 {names[item]} {int(label[item])}\n"
        for grade, count in lacking.items():
            for number in range(count):
                yield f"{query} 0 {MISSED}-{grade}-{number} {grade}\n"


def _never_scored(node: xr.Dataset, labels: np.ndarray) -> list[dict[int, int]]:
    """Return, for each query, how many positives of each grade are not among its items."""
    if "n_positive" not in node:
        return [{} for _ in labels]
    counts = node["n_positive"]
    counts = counts if terms.GRADE in counts.dims else counts.expand_dims({terms.GRADE: [1]})
    grades = [int(grade) for grade in counts[terms.GRADE].values]
    at_least = counts.transpose(terms.QUERY, terms.GRADE).values
    lacking = []
    for query, label in enumerate(labels):
        # Those of at least a grade, less those of at least the next, are of this grade.
        absent = [int(at_least[query, place]) - int((label >= grade).sum()) for place, grade in enumerate(grades)]
        higher = [*absent[1:], 0]
        lacking.append({g: max(0, n - more) for g, n, more in zip(grades, absent, higher, strict=True)})
    return lacking


def _by_query(variable: xr.DataArray) -> np.ndarray:
    values: np.ndarray = variable.transpose(terms.QUERY, terms.ITEM).values
    return values


def _names(node: xr.Dataset, dim: str) -> list[str]:
    """Return the names along a dimension; numbers from 1 where there are none."""
    return [str(name) for name in (node[dim].values if dim in node.coords else range(1, node.sizes[dim] + 1))]


def _words(names: Iterable[str]) -> list[str]:
    return list(distinct(names, word, _LONGEST_WORD, key=str).values())


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
