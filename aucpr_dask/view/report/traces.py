"""Curves of the best models of each section on a grid, from the scores that a result was made from."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from aucpr_dask.curves.api import curve
from aucpr_dask.curves.points import PRECISION_RECALL, ROC
from aucpr_dask.errors import AlignmentError, printable
from aucpr_dask.evaluation.alignment import score_inputs
from aucpr_dask.schema.variables import MODEL, QUERY
from aucpr_dask.storage.stores import Scores, nodes_of
from aucpr_dask.view.report.embedding import Blocks
from aucpr_dask.view.report.subjects import Subject, shown_labels

STEPS = 200
TAKEN = ("score", "label", "weight", "positive_weight", "negative_weight", "n_positive")
OPTIONS = ("missing", "unjudged", "positive_from", "prevalence")


def curves_of(subject: Subject, scores: dict[str, xr.Dataset], blocks: Blocks, top: int) -> dict[str, Any] | None:
    """Return the curves of the best models of one data set, of each of its queries; None for means over data sets."""
    if subject.dim not in (None, QUERY) or top < 1:
        return None
    node = _matched(subject, scores)
    mean = subject.means["estimate"].transpose(MODEL, ...).values[:, 0]
    best = [int(i) for i in np.argsort(-mean, kind="stable")[:top] if np.isfinite(mean[i])]
    if not best:
        return None
    attrs = subject.node.attrs
    options = {name: attrs[name] for name in OPTIONS if attrs.get(name) is not None}
    inputs = score_inputs(node, options.get("positive_from"), subject.name)
    places = [shown_labels(node, MODEL).index(subject.models[i]) for i in best]
    # One model at a time: the scores of thousands of items need not fit in memory for all of them at once.
    parts: dict[str, list[np.ndarray[Any, Any]]] = {PRECISION_RECALL: [], ROC: []}
    grid = np.linspace(0, 1, STEPS + 1)
    for place in places:
        given = {
            name: (array.isel({MODEL: [place]}) if MODEL in array.dims else array).compute()
            for name, array in inputs.items()
            if name in TAKEN
        }
        label = given.pop("label", None)
        for kind, values in parts.items():
            drawn = curve(given["score"], label, kind, grid=grid, **_but_score(given), **options)
            rows = np.asarray(drawn.isel({MODEL: 0}).values, dtype=np.float32)
            values.append(rows[None] if rows.ndim == 1 else rows)
    return {
        "models": best,
        "steps": STEPS,
        "kinds": {kind: blocks.add(np.stack(values), np.float32) for kind, values in parts.items()},
        "prevalence": _prevalence(subject, attrs),
        "ties": attrs.get("ties", "block"),
    }


def _but_score(given: dict[str, xr.DataArray]) -> dict[str, Any]:
    return {name: array for name, array in given.items() if name != "score"}


def _prevalence(subject: Subject, attrs: dict[Any, Any]) -> list[float]:
    """Return the precision of a random ranking of each unit."""
    if attrs.get("prevalence") is not None:
        return [float(attrs["prevalence"])] * max(1, len(subject.units))
    if "prevalence" not in subject.node:
        return [float("nan")] * max(1, len(subject.units))
    table = subject.table("prevalence").astype(float)
    return [float(np.median(column[~np.isnan(column)])) if (~np.isnan(column)).any() else np.nan for column in table.T]


def _matched(subject: Subject, scores: dict[str, xr.Dataset]) -> xr.Dataset:
    """Return the scores of a section, in the order of its queries."""
    if subject.name not in scores:
        raise AlignmentError(
            "the scores lack a data set of the result",
            received=repr(subject.name),
            allowed=", ".join(map(repr, scores)),
            remedy="pass the scores that were evaluated",
        )
    node = scores[subject.name]
    for dim, wanted in ((MODEL, subject.models), (QUERY, subject.units)):
        if not wanted:
            continue
        labels = shown_labels(node, dim) if dim in node.dims else []
        lacking = [label for label in wanted if label not in set(labels)]
        if lacking:
            raise AlignmentError(
                f"the scores lack some {dim} of the result",
                where=f"data set {printable(subject.name)!r}" if subject.name else None,
                received=f"no scores of {', '.join(map(repr, lacking[:5]))}",
                remedy="pass the scores that were evaluated",
            )
        if dim == QUERY and labels != wanted:
            node = node.isel({QUERY: [labels.index(label) for label in wanted]})
    return node


def scores_by_name(scores: Scores | None) -> dict[str, xr.Dataset]:
    """Return the score data sets by name."""
    return {} if scores is None else dict(nodes_of(scores))
