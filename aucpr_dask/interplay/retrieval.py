"""Judgments and runs of a retrieval experiment: as dictionaries or data frames in one call; other measures of files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from aucpr_dask.errors import AlignmentError, InvalidInputError, brief, few
from aucpr_dask.evaluation.api import evaluate
from aucpr_dask.interplay.value_tables import MODELS, ONE_RUN, TOPICS, frame_of
from aucpr_dask.interplay.values import ValuesSummary, from_values, save_values
from aucpr_dask.schema import choices
from aucpr_dask.schema.checks import HIGHEST_GRADE, is_list, real, require
from aucpr_dask.schema.options import RunOptions
from aucpr_dask.schema.terms import COMPUTED_BY, MEASURE, MODEL, QUERY, UNJUDGED, nodes_of
from aucpr_dask.scores.importing import files, trec
from aucpr_dask.scores.importing.files import FilePath, OnProgress
from aucpr_dask.scores.store import open_scores

DOCUMENT = ("doc_id", "docno", "docid", "document", "doc", "corpus-id", "corpus_id", "pid")
GRADE = ("relevance", "label", "grade", "rel", "judgment", "score")  # the last as BEIR calls it
SCORE = ("score", "sim")
_AS_MAPPING = "{topic: {document: number}}, for each run, or a data frame with a column of each"
AGREEMENT = 1e-6  # of average precision by ir_measures


def evaluate_runs(
    qrels: Any,
    runs: Any,
    estimator: str | Sequence[str] = "average_precision",
    *,
    convention: choices.Convention = "trec_eval",
    layout: str = "per-run",
    dtype: str = "float32",
    duplicates: str = "error",
    **options: Any,
) -> xr.Dataset:
    """Evaluate runs against judgments, by default as ``trec_eval -c`` does.

    Parameters
    ----------
    qrels, runs, layout, dtype, duplicates
        See :func:`from_runs`.
    estimator : str or sequence of str
        What to estimate for every run and topic; ``map``, ``P_10`` and ``recall_100`` of trec_eval are known, too.
    convention : {"trec_eval", "scikit-learn"}
        How ties, missing topics and grades count.
    **options
        Of :func:`aucpr_dask.evaluate`.

    Returns
    -------
    xarray.Dataset
        A result along model (the run) and query (the topic), which :func:`aucpr_dask.aggregate` averages and
        :func:`aucpr_dask.compare` compares.

    Examples
    --------
    >>> import aucpr_dask as ap
    >>> qrels = {"q1": {"d1": 1, "d2": 0}, "q2": {"d3": 1}}
    >>> runs = {"bm25": {"q1": {"d2": 2.5, "d1": 1.5}, "q2": {"d3": 7.0}}}
    >>> result = ap.evaluate_runs(qrels, runs)
    >>> result["estimate"].sel(model="bm25").values
    array([0.5, 1. ])
    >>> ap.aggregate(result)["estimate"].item()  # MAP
    0.75
    """
    estimator = [of_trec_eval(name) for name in estimator] if is_list(estimator) else of_trec_eval(estimator)
    scores = from_runs(qrels, runs, layout=layout, dtype=dtype, duplicates=duplicates)
    result: xr.Dataset = evaluate(scores, estimator=estimator, convention=convention, **options)
    return result.assign_attrs({trec.NOTES: scores.attrs[trec.NOTES]} if trec.NOTES in scores.attrs else {})


def of_trec_eval(name: Any) -> Any:
    """Return our name of a measure of trec_eval; any other name as it is.

    >>> of_trec_eval("map"), of_trec_eval("P_10"), of_trec_eval("recall_100"), of_trec_eval("haldane")
    ('average_precision', 'precision_at(10)', 'recall_at(100)', 'haldane')
    """
    if not isinstance(name, str):
        return name
    if name == "map":
        return "average_precision"
    found = re.fullmatch(r"(P|recall)_(\d+)", name)
    return name if found is None else f"{'precision' if found[1] == 'P' else 'recall'}_at({found[2]})"


@choices.names_meant
def from_runs(
    qrels: Any, runs: Any, *, layout: str = "per-run", dtype: str = "float32", duplicates: str = "error"
) -> xr.Dataset:
    """Return the scores of runs and their judgments.

    Parameters
    ----------
    qrels : mapping, data frame, path or ranx.Qrels
        Judgments: a file as :func:`import_trec` reads it (TREC, CSV, Parquet, JSON); ``{topic: {document: grade}}``,
        as pytrec_eval and ranx take them, or a frame with a column of topics (``query_id``, ``qid``, ``topic``), of
        documents (``doc_id``, ``docno``) and of grades (``relevance``, ``label``), as ir_measures and PyTerrier name
        them. Grade -1 is unjudged; other negative grades count as 0.
    runs : mapping, data frame, path, ranx.Run or list of them
        Files of runs;
        ``{run: {topic: {document: score}}}``; or a mapping of names to data frames with columns of topics, documents
        and scores; or one frame with also a column of runs (``run_id``, ``model``, ``name``). One run needs no name:
        ``{topic: {document: score}}``, or a frame without that column. Or ranx's ``Run``, one or several.
    layout : {"per-run", "pooled"}
        Whether each run keeps its own lists, or all share the pool of documents.
    dtype : {"float32", "float64"}
        The precision in which scores are equal: float32 as in trec_eval up to 9 and pytrec_eval.
    duplicates : {"error", "first"}
        What to do when a document occurs twice in one list, or is judged twice with different grades.

    Returns
    -------
    xarray.Dataset
        In memory; :func:`aucpr_dask.save_scores` writes it.

    Raises
    ------
    InvalidInputError
        If a grade is not a whole number, a score is not a number, or a column is missing.
    AlignmentError
        If a run has no topic of the judgments.
    FileFormatError
        If a document occurs twice in one list.

    Examples
    --------
    >>> import aucpr_dask as ap
    >>> ap.from_runs({"q1": {"d1": 1}}, {"a": {"q1": {"d1": 0.5, "d2": 0.7}}})["score"].values
    array([[[0.7, 0.5]]], dtype=float32)
    """
    options = RunOptions.among(locals())
    judged = _columns(qrels, "qrels", GRADE)
    listed = runs if isinstance(runs, list | tuple) else [runs]
    if listed and all(isinstance(one, str | PathLike) for one in listed):
        of_files = {name: trec.columns_of_file(path, are_runs=True) for name, path in trec.named_runs(listed).items()}
        return trec.scores_of_runs(judged, of_files, options)
    several = [runs] if hasattr(runs, "_fields") else listed
    if several and all(map(_is_of_ranx, several)):
        named = [(str(run.name or ONE_RUN), run.to_dict()) for run in several]
        if len(dict(named)) < len(named):
            raise AlignmentError("two runs have the same name", "runs", few(name for name, _ in named))
        runs = dict(named)
    elif not isinstance(runs, Mapping):
        frame = frame_of(runs, "runs")
        column = next((name for name in MODELS if name in frame.columns), None)
        runs = {ONE_RUN: frame} if column is None else {str(name): of for name, of in frame.groupby(column, sort=False)}
    elif runs and all(
        isinstance(listed, Mapping) and listed and not any(isinstance(one, Mapping) for one in listed.values())
        for listed in runs.values()
    ):  # documents and numbers in place of topics
        runs = {ONE_RUN: runs}
    if not runs:
        raise InvalidInputError("there is no run", "runs", brief(runs), "at least one run", f"give {_AS_MAPPING}")
    names = [str(name) for name in runs]
    if len(set(names)) < len(names):
        raise AlignmentError("two runs have the same name", "runs", few(map(repr, names)), remedy="rename one")
    of_runs = {str(name): _columns(run, f"run {str(name)!r}", SCORE) for name, run in runs.items()}
    return trec.scores_of_runs(judged, of_runs, options)


def _is_of_ranx(table: Any) -> bool:
    return type(table).__module__.startswith("ranx.")


def _columns(table: Any, what: str, values: Sequence[str]) -> trec.Columns:
    """Return the columns of judgments or of one run."""
    if isinstance(table, str | PathLike):
        return trec.columns_of_file(table, are_runs=values is SCORE)
    if _is_of_ranx(table):
        table = table.to_dict()
    topics, documents, numbers = list[Any](), list[Any](), list[Any]()
    if not isinstance(table, Mapping):
        frame, found = frame_of(table, what), list[str]()
        for names in (TOPICS, DOCUMENT, values):
            column = next((name for name in names if name in frame.columns), None)
            if column is None:
                received, allowed = f"columns {few(map(repr, frame.columns))}", f"one of {', '.join(map(repr, names))}"
                remedy = f"rename the column that is meant to {names[0]!r}"
                raise InvalidInputError(f"there is no column {names[0]!r}", what, received, allowed, remedy)
            found.append(column)
        topics, documents, numbers = (frame[name].tolist() for name in found)
        table = {}
    for topic, listed in table.items():
        if not isinstance(listed, Mapping):
            where, allowed = f"{what}, topic {topic!r}", "{document: number}"
            raise InvalidInputError("a list is not a mapping", where, brief(listed), allowed, f"give {_AS_MAPPING}")
        if what == "qrels" and any(isinstance(one, Mapping) for one in listed.values()):
            what, remedy = "these are runs in place of judgments", "give the judgments first, then the runs"
            raise InvalidInputError(what, "qrels", f"{topic!r}: {brief(listed)}", "{topic: {document: grade}}", remedy)
        topics += [topic] * len(listed)
        documents += listed.keys()
        numbers += listed.values()
    if not topics:
        allowed, remedy = "at least one topic with a document", f"give them: {_AS_MAPPING}"
        raise InvalidInputError("there is no line", what, "nothing", allowed, remedy)
    codes = trec.Codes()
    topic = codes.of([_name(one, what) for one in topics])
    document = trec.identifiers([_name(one, what) for one in documents])
    checked = _numbers(numbers, what, are_grades=values is GRADE)
    return trec.Columns(Path(what), codes, topic, document, checked, np.arange(1, len(topics) + 1))


def _name(name: object, what: str) -> bytes:
    if name is None or name != name or not str(name):
        raise InvalidInputError("a topic or a document has no name", what, brief(name))
    try:
        return str(name).encode()
    except UnicodeEncodeError:
        raise InvalidInputError("a name is not Unicode", what, brief(name)) from None


def _numbers(values: Sequence[Any], what: str, *, are_grades: bool) -> np.ndarray:
    """Return grades or scores; raise for the first that is none."""
    numbers = np.array([real(value) for value in values])
    is_wrong, message, allowed = np.isnan(numbers), "the score is not a number", "a number; NaN cannot be ranked"
    if are_grades:
        with np.errstate(invalid="ignore"):
            is_wrong = ~(np.floor(numbers) == numbers) | (numbers > HIGHEST_GRADE)
        message = "the grade is not a whole number in range"
        allowed = f"a whole number up to {HIGHEST_GRADE}; -1 is unjudged"
    if is_wrong.any():
        place = int(is_wrong.argmax())
        raise InvalidInputError(message, f"{what}, line {place + 1:,}", brief(values[place]), allowed, "correct it")
    return np.where(numbers < UNJUDGED, 0, numbers).astype(np.int8) if are_grades else numbers


# --- other measures, by ir_measures, next to our average precision and checked against it -------------------------


def import_measures(
    runs: FilePath | Sequence[FilePath],
    qrels: FilePath,
    scores_url: str | Path,
    url: str | Path,
    measures: str,
    *,
    named_by: str = "file",
    dataset: str | None = None,
    overwrite: bool = False,
    on_progress: OnProgress | None = None,
) -> ValuesSummary:
    """Write the values of measures for runs per topic to a result store, as ``aucpr-dask import trec --measures`` does.

    `measures` are names of ir_measures separated by blanks, such as ``"AP nDCG@10 RR Judged@10"``. Average precision of
    the score store that `import_trec` wrote of the same runs must equal that of ir_measures on every topic.
    """
    evaluator, names = evaluator_of(measures, qrels)
    ir_measures = require("ir_measures", "measures")
    scores = dict(nodes_of(open_scores(scores_url)))[dataset or ""]
    ours = evaluate(scores, interval=(), convention="trec_eval")["estimate"].compute()
    topics = [str(topic) for topic in ours[QUERY].values]
    rows = []
    for model, path in files.reported(trec.named_runs(runs, named_by).items(), on_progress, "computing measures"):
        # In trec_eval's order, with places for scores: others break ties otherwise.
        given = list(trec.lines_of_file(path, are_runs=True))
        with np.errstate(over="ignore"):
            precise = np.array([score for _, _, score in given]).astype(np.float32).tolist()  # in its precision
        ordered = sorted(zip(precise, (line[1].encode() for line in given), given, strict=True))
        run = [ir_measures.ScoredDoc(*line[:2], float(place)) for place, (_, _, line) in enumerate(ordered)]
        found = {(one.query_id, str(one.measure)): one.value for one in evaluator.iter_calc(run)}
        for topic, value in zip(topics, ours.sel({MODEL: model}).values.tolist(), strict=True):
            if not abs(value - found[topic, "AP"]) <= AGREEMENT:
                what, where = "average precision by ir_measures differs from ours", f"run {model!r}, topic {topic!r}"
                received = f"{found[topic, 'AP']!r} by ir_measures, {value!r} by this package"
                remedy = "import with dtype='float32', in which trec_eval compares scores, and check the "
                raise AlignmentError(what, where, received, remedy=remedy + "run for repeated documents")
        rows += [(model, topic, name, found[topic, name]) for topic in topics for name in names]
    values = from_values(pd.DataFrame(rows, columns=[MODEL, QUERY, MEASURE, "value"]))
    facts = {COMPUTED_BY: "ir_measures", "ties": "trec_eval"}
    return save_values(values.assign_attrs(facts), url, overwrite=overwrite)


def evaluator_of(measures: str, qrels: FilePath) -> tuple[Any, list[str]]:
    """Return an evaluator of ir_measures for these measures and average precision, and their names."""
    ir_measures = require("ir_measures", "measures")
    judgments = [ir_measures.Qrel(*line) for line in trec.lines_of_file(qrels, are_runs=False)]
    try:
        wanted = dict.fromkeys(_parsed(ir_measures, name) for name in measures.split() or [measures])
        evaluator = ir_measures.evaluator([*(wanted | {ir_measures.AP: None})], judgments)
    except (NameError, TypeError, ValueError) as error:
        what, received = "ir_measures cannot compute these measures", f"{brief(measures)}: {error}"
        allowed = "names of ir_measures separated by blanks, such as 'AP nDCG@10 P@10 RR Judged@10'"
        remedy = "check each name; https://ir-measur.es lists them"
        raise InvalidInputError(what, "option 'measures'", received, allowed, remedy) from error
    return evaluator, [str(measure) for measure in wanted]


def _parsed(ir_measures: Any, name: str) -> Any:
    """Return the measure of a name of ir_measures, or of trec_eval: ``ndcg_cut_10``."""
    try:
        return ir_measures.parse_measure(name)
    except NameError:
        with suppress(ValueError):
            (one,) = ir_measures.parse_trec_measure(name)
            return one
        raise
