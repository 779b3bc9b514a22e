"""The sections of a report: each data set, and all of them together if they share their models; and their curves."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from aucpr_dask.curves.api import arguments_of, curve
from aucpr_dask.curves.points import PRECISION_RECALL, ROC
from aucpr_dask.errors import AlignmentError, FewPositivesWarning, InvalidInputError, few, printable
from aucpr_dask.inference.aggregating import aggregate
from aucpr_dask.inference.comparing import compare
from aucpr_dask.inference.measures import measured, with_estimators
from aucpr_dask.inference.requirements import has_classes, require_results
from aucpr_dask.inference.samples import DATASET, REPLICATE, labels_of, stack_data_sets
from aucpr_dask.schema.checks import choose
from aucpr_dask.schema.terms import CLASS, ESTIMATOR, METHOD, MODEL, QUERY, Scores, nodes_of
from aucpr_dask.view.rankings import level_of, method_with_bounds
from aucpr_dask.view.report.pages import Payload

ALL = "All data sets"
STEPS = 200  # of the grid of a curve
CURVE_OPTIONS = ("missing", "unjudged", "prevalence")


@dataclass(frozen=True)
class Subject:
    """What one section shows: estimates and their means, with `compare` of its models and options as `compared`."""

    name: str  # of the data set; empty if the result has no names
    node: xr.Dataset  # estimates over (model, [unit,] estimator) and all that belongs to them; replicates may be lazy
    dim: str | None  # "query" or "dataset", if estimates are averaged
    means: xr.Dataset  # estimates and intervals over (model, estimator), means over the units if there are any
    method: str | None  # the interval of single rankings
    others: dict[str, xr.DataArray]  # other intervals of single rankings, which the page can show in its place
    level: float
    compared: Callable[..., xr.Dataset]

    @property
    def models(self) -> list[str]:
        """Printable names of the models."""
        return shown_labels(self.node, MODEL)

    @property
    def units(self) -> list[str]:
        """Printable names of the units."""
        return [] if self.dim is None else shown_labels(self.node, self.dim)

    @property
    def estimators(self) -> list[str]:
        """Names of the estimators."""
        return [str(name) for name in self.node[ESTIMATOR].values]

    @property
    def measured(self) -> list[str]:
        """Printable names of the estimators in words, or of the measures."""
        return [printable(measured(self.node.attrs, name)) for name in self.estimators]

    def table(self, name: str) -> np.ndarray[Any, Any]:
        """Return a variable of the rankings as (model, unit)."""
        dims = (MODEL,) if self.dim is None else (MODEL, self.dim)
        values = self.node[name].transpose(*dims).values
        return values[:, None] if self.dim is None else values


def shown_labels(node: xr.Dataset, dim: str) -> list[str]:
    """Return labels as distinct, printable, non-empty text; numbers where there are none."""
    if dim not in node.indexes:
        return [f"{dim} {number}" for number in range(node.sizes[dim])]
    shown: dict[str, None] = {}
    for label in labels_of(node, dim):
        name = printable(str(label)) or f"({dim} without a name)"
        shown[name if name not in shown else f"{name} (number {len(shown)})"] = None
    return list(shown)


def subjects_of(result: Scores, interval: str | None) -> list[Subject]:
    """Return the sections of a report, the one over all data sets first."""
    require_results(result)
    for path, node in nodes_of(result):
        if has_classes(node):
            what = "a report shows data sets with queries or without, and this one has classes"
            where, received = f"data set {path!r}" if path else None, f"{node.sizes[CLASS]:,} classes"
            remedy = "select a class: .sel({'class': ...}); or show the means: aggregate(..., over='class')"
            raise InvalidInputError(what, where, received, "a result without classes", remedy)
    nodes = {path: _complete(node) for path, node in nodes_of(result)}
    subjects = [_data_set(path, node, interval) for path, node in nodes.items()]
    if not any(subject.node.sizes[MODEL] for subject in subjects):
        raise InvalidInputError("there is no model in this result", remedy="evaluate some scores first")
    together = _together(nodes)
    return subjects if together is None else [together, *subjects]


def _complete(node: xr.Dataset) -> xr.Dataset:
    """Return a node with an axis of estimators, and everything but its replicates in memory."""
    node = with_estimators(node)
    rest = node.drop_vars(REPLICATE, errors="ignore").load()
    return rest.assign({REPLICATE: node[REPLICATE]}) if REPLICATE in node else rest


def _data_set(path: str, node: xr.Dataset, interval: str | None) -> Subject:
    node, method, others = _with_one_interval(node, interval)
    dim = QUERY if QUERY in node["estimate"].dims else None
    level = level_of(node)

    def compared(models: np.ndarray[Any, Any], **options: Any) -> xr.Dataset:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FewPositivesWarning)  # the page says how many there are, and the condition
            compared = compare(node.isel({MODEL: models}), level=level, incomplete="drop", **options)
        return compared  # type: ignore[return-value]

    means: xr.Dataset = aggregate(node, level=level)  # type: ignore[assignment]
    return Subject(path, node, dim, means, method, others, level, compared)


def _with_one_interval(
    node: xr.Dataset, interval: str | None
) -> tuple[xr.Dataset, str | None, dict[str, xr.DataArray]]:
    """Keep the named interval, or the first that every estimator has, or else the first; return the others apart."""
    if METHOD not in node.dims or not node.sizes[METHOD]:
        return node.drop_vars("interval", errors="ignore"), None, {}
    names = [str(name) for name in node[METHOD].values]
    if interval is None:
        name = method_with_bounds(node["interval"]) or names[0]
    else:
        name = choose(tuple(names), interval, "interval")
    others = {other: node["interval"].isel({METHOD: place}) for place, other in enumerate(names) if other != name}
    return node.isel({METHOD: [names.index(name)]}), name, others


def _together(nodes: dict[str, xr.Dataset]) -> Subject | None:
    """Return the means over data sets, if there are several and all have the same models."""
    if len(nodes) < 2 or len({frozenset(map(str, node.indexes.get(MODEL, ()))) for node in nodes.values()}) > 1:
        return None
    alone = {path: node[["estimate"]].drop_vars("level", errors="ignore") for path, node in nodes.items()}
    tree = xr.DataTree.from_dict(alone)
    level = level_of(next(iter(nodes.values())))
    try:
        stacked = stack_data_sets(tree, "drop")
        means: xr.Dataset = aggregate(tree, over=DATASET, level=level, incomplete="drop")  # type: ignore[assignment]
    except InvalidInputError:  # some estimator or model is missing everywhere, so there are no means
        return None

    def compared(models: np.ndarray[Any, Any], **options: Any) -> xr.Dataset:
        some = xr.DataTree.from_dict({path: node.sel({MODEL: kept[models]}) for path, node in alone.items()})
        compared = compare(some, over=DATASET, level=level, incomplete="drop", **options)
        return compared  # type: ignore[return-value]

    kept = stacked[MODEL].values
    return Subject(ALL, stacked.transpose(MODEL, DATASET, ...), DATASET, means, None, {}, level, compared)


# Curves


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
    options = {name: attrs[name] for name in CURVE_OPTIONS if attrs.get(name) is not None}
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
    remedy = "pass the scores that were evaluated"
    if subject.name not in scores:
        has = ", ".join(map(repr, scores))
        raise AlignmentError("the scores lack a data set of the result", None, repr(subject.name), has, remedy)
    node = scores[subject.name]
    for dim, expected in ((MODEL, subject.models), (QUERY, subject.units)):
        if not expected:
            continue
        labels = shown_labels(node, dim) if dim in node.dims else []
        lacking = [label for label in expected if label not in set(labels)]
        if lacking:
            where = f"data set {printable(subject.name)!r}" if subject.name else None
            received = f"no scores of {few(map(repr, lacking))}"
            raise AlignmentError(f"the scores lack some {dim} of the result", where, received, remedy=remedy)
        if dim == QUERY and labels != expected:
            node = node.isel({QUERY: [labels.index(label) for label in expected]})
    return node
