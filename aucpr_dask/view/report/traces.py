"""Curves of the best models of each section on a grid, from the scores behind a result."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from aucpr_dask.curves.api import arguments_of, curve
from aucpr_dask.curves.points import PRECISION_RECALL, ROC
from aucpr_dask.errors import AlignmentError, few, printable
from aucpr_dask.schema.variables import MODEL, QUERY
from aucpr_dask.view.report.embedding import Payload
from aucpr_dask.view.report.subjects import Subject, shown_labels

STEPS = 200
OPTIONS = ("missing", "unjudged", "prevalence")


def curves_of(subject: Subject, scores: dict[str, xr.Dataset], payload: Payload, top: int) -> dict[str, Any] | None:
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
    places = [shown_labels(node, MODEL).index(subject.models[i]) for i in best]
    # One model at a time: the scores of thousands of items need not fit in memory for all of them at once.
    parts: dict[str, list[np.ndarray[Any, Any]]] = {PRECISION_RECALL: [], ROC: []}
    grid = np.linspace(0, 1, STEPS + 1)
    for place in places:
        arguments = arguments_of(node, [place], path=subject.name, positive_from=attrs.get("positive_from"))
        for kind, values in parts.items():
            drawn = curve(**arguments, **options, kind=kind, grid=grid)
            rows = np.asarray(drawn.isel({MODEL: 0}).values, dtype=np.float32)
            values.append(rows[None] if rows.ndim == 1 else rows)
    return {
        "models": best,
        "steps": STEPS,
        "kinds": {kind: payload.add(np.stack(values), np.float32) for kind, values in parts.items()},
        "prevalence": _prevalence(subject, attrs),
        "ties": attrs.get("ties", "block"),
    }


def _prevalence(subject: Subject, attrs: dict[Any, Any]) -> list[float]:
    """Return the precision of a random ranking of each unit."""
    if attrs.get("prevalence") is not None:
        return [float(attrs["prevalence"])] * max(1, len(subject.units))
    if "prevalence" not in subject.node:
        return [float("nan")] * max(1, len(subject.units))
    table = subject.table("prevalence").astype(float)
    return [float(np.median(known)) if (known := column[~np.isnan(column)]).size else np.nan for column in table.T]


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
    for dim, expected in ((MODEL, subject.models), (QUERY, subject.units)):
        if not expected:
            continue
        labels = shown_labels(node, dim) if dim in node.dims else []
        lacking = [label for label in expected if label not in set(labels)]
        if lacking:
            raise AlignmentError(
                f"the scores lack some {dim} of the result",
                where=f"data set {printable(subject.name)!r}" if subject.name else None,
                received=f"no scores of {few(map(repr, lacking))}",
                remedy="pass the scores that were evaluated",
            )
        if dim == QUERY and labels != expected:
            node = node.isel({QUERY: [labels.index(label) for label in expected]})
    return node
