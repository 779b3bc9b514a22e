"""Values of other measures for TREC runs, by ir_measures, next to our average precision and checked against it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

from aucpr_dask.errors import AlignmentError, InvalidInputError, brief
from aucpr_dask.evaluation.api import evaluate
from aucpr_dask.interplay.values import ValuesSummary, from_values, save_values
from aucpr_dask.schema.checks import require
from aucpr_dask.schema.trees import nodes_of
from aucpr_dask.schema.variables import MEASURE, MODEL, QUERY
from aucpr_dask.scores.importing.files import FilePath, OnProgress, local_copy, reading_text, report
from aucpr_dask.scores.importing.trec import named_runs
from aucpr_dask.scores.store import open_scores

AGREEMENT = 1e-6  # of average precision


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
    """Write the values of measures for runs per topic to a result store.

    Parameters
    ----------
    runs, qrels, named_by, dataset, overwrite, on_progress
        As of :func:`aucpr_dask.scores.importing.trec.import_trec`.
    scores_url : str or Path
        The score store that it wrote. Its average precision, as trec_eval computes it, must equal that of ir_measures.
    url : str or Path
        Where to write the values.
    measures : str
        Names of ir_measures, separated by blanks, such as ``"AP nDCG@10 P@10 RR Judged@10"``.

    Returns
    -------
    ValuesSummary

    Raises
    ------
    InvalidInputError
        If ir_measures doesn't know or cannot compute a measure.
    AlignmentError
        If average precision differs on a topic by more than 1e-6; the message names the first.
    """
    evaluator, names = evaluator_of(measures, qrels)
    scores = dict(nodes_of(open_scores(scores_url)))[dataset or ""]
    ours = evaluate(scores, intervals=(), convention="trec_eval")["estimate"].squeeze("estimator", drop=True).compute()
    topics = [str(topic) for topic in ours[QUERY].values]
    rows = []
    files = named_runs(runs, named_by)
    for done, (model, path) in enumerate(files.items(), start=1):
        with reading_text(path) as text:
            run = list(require("ir_measures", "measures").read_trec_run(text))
        found = {(one.query_id, str(one.measure)): one.value for one in evaluator.iter_calc(run)}
        _check_agreement(model, ours.sel({MODEL: model}), found)
        rows += [(model, topic, name, found[topic, name]) for topic in topics for name in names]
        report(on_progress, "computing measures", done, len(files))
    values = from_values(pd.DataFrame(rows, columns=[MODEL, "topic", MEASURE, "value"]))
    return save_values(values, url, overwrite=overwrite)


def evaluator_of(measures: str, qrels: FilePath) -> tuple[Any, list[str]]:
    """Return an evaluator of ir_measures for these measures and average precision, and their names."""
    ir_measures = require("ir_measures", "measures")
    with reading_text(local_copy(qrels)) as text:
        judgments = list(ir_measures.read_trec_qrels(text))
    try:
        wanted = dict.fromkeys(map(ir_measures.parse_measure, measures.split() or [measures]))
        evaluator = ir_measures.evaluator([*(wanted | {ir_measures.AP: None})], judgments)
    except (NameError, TypeError, ValueError) as error:
        raise InvalidInputError(
            "ir_measures cannot compute these measures",
            where="option 'measures'",
            received=f"{brief(measures)}: {error}",
            allowed="names of ir_measures separated by blanks, such as 'AP nDCG@10 P@10 RR Judged@10'",
            remedy="check each name; https://ir-measur.es lists them",
        ) from error
    return evaluator, [str(measure) for measure in wanted]


def _check_agreement(model: str, ours: xr.DataArray, found: dict[tuple[str, str], float]) -> None:
    """Raise, naming the topic, if average precision by ir_measures is not ours."""
    for topic, value in zip(map(str, ours[QUERY].values), ours.values.tolist(), strict=True):
        if not abs(value - found[topic, "AP"]) <= AGREEMENT:
            raise AlignmentError(
                "average precision by ir_measures differs from ours",
                where=f"run {model!r}, topic {topic!r}",
                received=f"{found[topic, 'AP']!r} by ir_measures, {value!r} by this package",
                remedy="import with dtype='float32' (--dtype float32), in which trec_eval compares scores, and check "
                "the run for repeated documents",
            )
