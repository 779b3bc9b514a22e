"""The sections of a report, each data set and all together: means, what compares any two models, and curves."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from aucpr_dask.curves import api as curves
from aucpr_dask.curves import points
from aucpr_dask.errors import AlignmentError, FewPositivesWarning, InvalidInputError, as_called, few, printable
from aucpr_dask.evaluation.api import evaluate
from aucpr_dask.inference import aggregating, comparing, designs, questions, requirements, samples
from aucpr_dask.inference.covarying import OTHER_MODEL
from aucpr_dask.inference.grouped import has_items
from aucpr_dask.inference.samples import DATASET, REPLICATE, Estimates, labels_of, stack_data_sets
from aucpr_dask.schema import checks, terms
from aucpr_dask.schema.options import ComparisonOptions
from aucpr_dask.view.rankings import level_of, method_with_bounds, with_means_of_repeats

ALL = "All data sets"
ROUND_OFF = 1e-6  # of estimates by another version
STEPS = 200  # of the grid of a curve
CURVE_OPTIONS = ("missing", "unjudged", "prevalence")
MOST_ADJUSTED = 100  # models whose p-values are adjusted for all pairs
MOST_COMPARED = 200  # models whose pairs are compared by units or influences, the best

NO_REPLICATES = (
    "Models cannot be compared here: there are no queries, and the result keeps no replicates of its items. Give the "
    "scores to the report (scores=), or evaluate with keep_replicates=True."
)
OF_REPEATS = (
    "Models are not compared here: between repeats training varies, too. Give the scores to the report (scores=), or "
    "ask aucpr_dask.compare."
)


@dataclass(frozen=True, eq=False)
class Subject:
    """What one section shows: estimates, their means, and comparisons of its models."""

    name: str  # of the data set; empty if the result has no names
    node: xr.Dataset  # estimates over (model, [unit,] estimator) and all that belongs to them; replicates may be lazy
    dim: str | None  # "query" or "dataset", if estimates are averaged
    means: xr.Dataset  # estimates and intervals over (model, estimator), means over the units if there are any
    method: str | None  # the interval of single rankings
    others: dict[str, xr.DataArray]  # other intervals of single rankings, which the page can show in its place
    level: float
    data: terms.Scores  # of the result, what its models are compared by
    scores: xr.Dataset | None = None  # of the same models and queries
    found: dict[str, xr.Dataset | None] = field(default_factory=dict)  # what `by_influence` has computed

    def by_influence(self, estimator: str) -> xr.Dataset | None:
        """Return the covariances of the best models, evaluated as the result was; None without influences."""
        if estimator not in self.found:
            self.found[estimator] = None
            if self.scores is not None:
                attrs, mean = self.node.attrs, self.means["estimate"].sel({terms.ESTIMATOR: estimator})
                best = np.sort(np.argsort(-mean.transpose(terms.MODEL).values, kind="stable")[:MOST_COMPARED])
                names, models = shown_labels(self.scores, terms.MODEL), self.models
                scores = self.scores.isel({terms.MODEL: [names.index(models[place]) for place in best]})
                asked = ComparisonOptions(estimator=estimator, over=attrs.get("sampled", "items"), method="influence")
                # Of the estimator, or of how scores were read, influences may be unknown.
                with suppress(InvalidInputError):
                    found = questions.results_for(scores, asked, questions.evaluated_with(attrs)).compute()
                    labels = labels_of(self.node["estimate"], terms.MODEL)[best]
                    coords = dict.fromkeys((terms.MODEL, OTHER_MODEL), labels.to_numpy())  # an index has its own name
                    self.found[estimator] = found.assign_coords(coords)
        return self.found[estimator]

    def to_compare(self, models: NDArray[np.intp], estimator: str, *, of_items: bool) -> tuple[terms.Scores, Any]:
        """Return the data of models that answer a question, of items by their influences if known, and its `over`."""
        labels = labels_of(self.node["estimate"], terms.MODEL)[models]
        influences = self.by_influence(estimator) if of_items else None
        if influences is not None:
            rows = labels_of(influences["estimate"], terms.MODEL).get_indexer(labels)
            if (rows < 0).any():
                raise InvalidInputError("only the best models are compared by their scores")
            return influences.isel({terms.MODEL: rows, OTHER_MODEL: rows}), influences.attrs["sampled"]
        if self.dim == DATASET:
            return terms.map_nodes(self.data, lambda _, node: node.sel({terms.MODEL: labels})), DATASET
        known = {} if self.scores is None else {designs.HAS_SCORES: True}
        is_default = self.dim is None or not of_items
        over = None if is_default else designs.settle(self.dim, designs.ITEMS, None).over(self.node.attrs)
        return self.node.isel({terms.MODEL: models}).assign_attrs(known), over

    def compared(self, models: NDArray[np.intp], *, estimator: str, of_items: bool, **options: Any) -> xr.Dataset:
        """Compare models as :func:`aucpr_dask.compare` does."""
        data, over = self.to_compare(models, estimator, of_items=of_items)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FewPositivesWarning)  # the page says how many there are, and the condition
            asked: dict[str, Any] = {"estimator": estimator, "over": over, "level": self.level, "incomplete": "drop"}
            found: xr.Dataset = comparing.compare(data, **asked, **options)
        return found

    @property
    def models(self) -> list[str]:
        """Printable names of the models."""
        return shown_labels(self.node, terms.MODEL)

    @property
    def units(self) -> list[str]:
        """Printable names of the units."""
        return [] if self.dim is None else shown_labels(self.node, self.dim)

    @property
    def estimators(self) -> list[str]:
        """Names of the estimators."""
        return [str(name) for name in self.node[terms.ESTIMATOR].values]

    @property
    def measured(self) -> list[str]:
        """Printable names of the estimators in words, or of the measures."""
        return [printable(designs.measured(self.node.attrs, name)) for name in self.estimators]

    @property
    def leader(self) -> tuple[str, float, tuple[float, float] | None] | None:
        """The best model by the first estimator, with its mean and interval; None if no model has an estimate."""
        means = self.means.isel({terms.ESTIMATOR: 0})
        estimate = means["estimate"].transpose(terms.MODEL).values
        if np.isnan(estimate).all():
            return None
        best = int(np.nanargmax(designs.direction(self.node.attrs, self.estimators[0]) * estimate))
        if "interval" not in means or means["interval"].isel({terms.MODEL: best}).isnull().any():
            return self.models[best], estimate[best], None
        ends = means["interval"].transpose(terms.MODEL, terms.BOUND).values[best]
        return self.models[best], estimate[best], tuple(ends)

    def table(self, name: str) -> np.ndarray[Any, Any]:
        """Return a variable of the rankings as (model, unit)."""
        dims = (terms.MODEL,) if self.dim is None else (terms.MODEL, self.dim)
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


def subjects_of(result: terms.Scores, interval: str | None) -> list[Subject]:
    """Return the sections of a report, the one over all data sets first."""
    requirements.require_results(result)
    nodes, subjects = dict[str, xr.Dataset](), list[Subject]()
    for path, node in terms.nodes_of(result):
        node = designs.with_estimators(with_means_of_repeats(node))
        kept = {REPLICATE: node[REPLICATE]} if REPLICATE in node else {}  # everything else in memory
        nodes[path] = node = node.drop_vars(REPLICATE, errors="ignore").load().assign(kept)
        subjects.append(_data_set(path, node, interval))
    if not any(subject.node.sizes[terms.MODEL] for subject in subjects):
        raise InvalidInputError("there is no model in this result", remedy="evaluate some scores first")
    models = {frozenset(map(str, node.indexes.get(terms.MODEL, ()))) for node in nodes.values()}
    if len(nodes) < 2 or len(models) > 1 or any("by" in node.attrs for node in nodes.values()):
        return subjects
    # The means over data sets, if there are several and all have the same models.
    alone = {path: node[["estimate"]].drop_vars(terms.OF_INTERVALS, errors="ignore") for path, node in nodes.items()}
    tree, level = xr.DataTree.from_dict(alone), level_of(next(iter(nodes.values())))
    with suppress(InvalidInputError):  # some estimator or model is missing everywhere, so there are no means
        stacked = stack_data_sets(tree, "drop").transpose(terms.MODEL, DATASET, ...)
        means: Any = aggregating.aggregate(tree, over=DATASET, level=level, incomplete="drop")
        return [Subject(ALL, stacked, DATASET, means, None, {}, level, tree), *subjects]
    return subjects


def _data_set(path: str, node: xr.Dataset, interval: str | None) -> Subject:
    """Return a section with the named interval, or the first that every estimator has, or else the first."""
    method, others = None, dict[str, xr.DataArray]()
    if terms.METHOD not in node.dims or not node.sizes[terms.METHOD]:
        node = node.drop_vars("interval", errors="ignore")
    else:
        of_method = {
            str(name): node["interval"].isel({terms.METHOD: i}) for i, name in enumerate(node[terms.METHOD].values)
        }
        names = tuple(of_method)
        method = checks.choose(names, interval or method_with_bounds(node["interval"]) or names[0], "interval")
        others = {name: one for name, one in of_method.items() if name != method}
        node = node.isel({terms.METHOD: [names.index(method)]})
    dim, level = terms.QUERY if terms.QUERY in node["estimate"].dims else None, level_of(node)
    means: xr.Dataset = aggregating.aggregate(node, level=level)
    return Subject(path, node, dim, means, method, others, level, node)


# Comparisons


def comparisons(subject: Subject, estimator: str, seed: int) -> tuple[list[dict[str, Any]], str | None]:
    """Return the ways to compare pairs of models, the default first; or none, and the reason."""
    if samples.are_in_clusters(subject.node):
        return [], "Queries come in clusters here: aucpr_dask.compare draws these, and this page does not."
    try:
        estimates = samples.read_estimates(subject.node, subject.dim, estimator, "drop")
        if len(estimates.models) < 2:
            return [], "Models cannot be compared here: fewer than two have an estimate."
        influences = subject.by_influence(estimator)
        if influences is None and "n_repeats" in subject.node:
            return [], as_called(OF_REPEATS)
        has_items = influences is not None or REPLICATE in subject.node
        found = [designs.UNITS] * (len(estimates.units) > 1) + [designs.ITEMS] * has_items
        ways = [_compared(subject, estimates, estimator, seed, sample) for sample in found]
    except InvalidInputError as error:
        return [], f"Models cannot be compared here: {str(error).splitlines()[0]}."
    if ways:
        return ways, None
    if subject.dim is None:
        return [], as_called(NO_REPLICATES)
    unit, _ = designs.unit_names(subject.dim, subject.node.attrs)
    return [], f"Models cannot be compared here: there is only one {unit}."


def _compared(subject: Subject, estimates: Estimates, estimator: str, seed: int, sample: str) -> dict[str, Any]:
    """Return what `compare` says of all pairs of the best models, and what their chart shows."""
    n_models = len(estimates.models)
    best = np.sort(np.argsort(-estimates.mean, kind="stable")[:MOST_COMPARED])
    labels = labels_of(subject.node["estimate"], terms.MODEL)
    places, of_items = labels.get_indexer(estimates.models[best]), sample == designs.ITEMS
    compared = subject.compared(places, estimator=estimator, of_items=of_items, seed=seed)
    models = labels_of(compared["estimate"], terms.MODEL)
    design = designs.settle(subject.dim, sample, compared.attrs["method"])
    lower = compared["interval"].sel({terms.BOUND: terms.BOUNDS[0]}).values
    record = {
        "sample": sample,
        "method": design.method,
        "kind": design.row.interval,
        "design": compared.attrs["design"],
        "models": labels.get_indexer(models).tolist(),
        "estimate": compared["estimate"].values,
        "errors": compared["standard_error"].values,
        "p_values": compared["p_value"].values,
        "lower": lower.T if estimates.direction < 0 else lower,  # of what is shown
        "adjusted": compared["p_adjusted"].values if len(models) == n_models <= MOST_ADJUSTED else None,
        "level": subject.level,
        "left_out": [printable(name) for name in estimates.left_out],
        "n_pairs": n_models * (n_models - 1) // 2,
        "n_without": max(0, n_models - MOST_COMPARED),
        "possible": True,
    }
    if sample == designs.UNITS:
        values = subject.node["estimate"].sel({terms.ESTIMATOR: estimator}).transpose(terms.MODEL, subject.dim)
        names = [str(label) for label in labels_of(values, str(subject.dim))]
        record |= {"values": values.values, "units": [names.index(name) for name in estimates.units]}
        # With fewer units no difference can be significant.
        record["possible"] = 2.0 ** (1 - len(estimates.units)) <= 1 - subject.level
    elif subject.by_influence(estimator) is None:
        kept = replace(estimates, models=models, values=estimates.values[estimates.models.get_indexer(models)])
        record["values"] = samples.read_replicates(subject.node[[REPLICATE]], kept, estimator).astype(np.float32)
    return record


# Curves


def curves_of(subject: Subject, top: int) -> dict[str, Any] | None:
    """Return the curves of the best models of one data set, of each of its queries; None for means over data sets."""
    node = subject.scores
    if node is None or top < 1:
        return None
    mean = subject.means["estimate"].transpose(terms.MODEL, ...).values[:, 0]
    best = [int(i) for i in np.argsort(-mean, kind="stable")[:top] if np.isfinite(mean[i])]
    if not best:
        return None
    attrs = subject.node.attrs
    options = {name: attrs[name] for name in CURVE_OPTIONS if attrs.get(name) is not None}
    if (given := attrs.get("prevalence")) is not None or "prevalence" not in subject.node:
        prevalence = [np.nan if given is None else float(given)] * max(1, len(subject.units))
    else:  # the precision of a random ranking of each unit
        columns = subject.table("prevalence").astype(float).T
        prevalence = [float(np.median(one)) if (one := x[~np.isnan(x)]).size else np.nan for x in columns]
    places = [shown_labels(node, terms.MODEL).index(subject.models[i]) for i in best]
    # One model at a time: the scores of thousands of items need not fit in memory for all of them at once.
    parts: dict[Any, list[np.ndarray[Any, Any]]] = {points.PRECISION_RECALL: [], points.ROC: []}
    grid = np.linspace(0, 1, STEPS + 1)
    for place in places:
        arguments = curves.arguments_of(node, [place], path=subject.name, positive_from=attrs.get("positive_from"))
        for kind, values in parts.items():
            drawn = curves.curve(**arguments, **options, kind=kind, grid=grid)
            rows = np.asarray(drawn.isel({terms.MODEL: 0}).values, dtype=np.float32)
            values.append(rows[None] if rows.ndim == 1 else rows)
    return {
        "models": best,
        "steps": STEPS,
        "kinds": {kind: np.stack(values) for kind, values in parts.items()},
        "prevalence": prevalence,
        "ties": attrs.get("ties", "group"),
    }


def matched(subject: Subject, scores: dict[str, xr.Dataset]) -> xr.Dataset | None:
    """Return the scores of a section, in the order of its queries; None for means over data sets, and empty groups."""
    if subject.dim == DATASET or not has_items(subject.node):
        return None
    remedy = "pass the scores that were evaluated"
    if subject.name not in scores:
        has = ", ".join(map(repr, scores))
        raise AlignmentError("the scores lack a data set of the result", None, repr(subject.name), has, remedy)
    node = scores[subject.name]
    for dim, expected in ((terms.MODEL, subject.models), (terms.QUERY, subject.units)):
        if not expected:
            continue
        labels = shown_labels(node, dim) if dim in node.dims else []
        lacking = [label for label in expected if label not in set(labels)]
        if lacking:
            where = f"data set {printable(subject.name)!r}" if subject.name else None
            received = f"no scores of {few(map(repr, lacking))}"
            raise AlignmentError(f"the scores lack some {dim} of the result", where, received, remedy=remedy)
        if dim == terms.QUERY and labels != expected:
            node = node.isel({terms.QUERY: [labels.index(label) for label in expected]})
    _refuse_other_scores(subject, node)
    return node


def _refuse_other_scores(subject: Subject, scores: xr.Dataset) -> None:
    """Raise if scores do not give a model the estimates that the result has."""
    known = subject.node["estimate"].isel({terms.ESTIMATOR: 0})
    has_estimate = known.notnull().any([dim for dim in known.dims if dim != terms.MODEL]).values
    if terms.NORMALISED in subject.node.attrs or not has_estimate.any():
        return
    place = int(np.argmax(has_estimate))
    model, name = subject.models[place], str(known[terms.ESTIMATOR].item())
    own = scores.isel({terms.MODEL: [shown_labels(scores, terms.MODEL).index(model)]})
    reading = questions.evaluated_with(subject.node.attrs)
    found = evaluate(own, estimator=name, interval=(), **reading)["estimate"].isel({terms.MODEL: 0}).compute()
    found = found.mean(terms.REPEAT) if terms.REPEAT in found.dims else found
    expected = known.isel({terms.MODEL: place}).transpose(*found.dims).values
    if not np.allclose(found, expected, rtol=ROUND_OFF, equal_nan=True):
        at = np.argmax(~np.isclose(found, expected, rtol=ROUND_OFF, equal_nan=True))
        values = np.ravel(found)[at], np.ravel(expected)[at]
        what = "these scores do not give the estimates of the result"
        received = f"{terms.in_words(name)} of {model!r} {values[0]:.6g}, and in the result {values[1]:.6g}"
        where = f"data set {printable(subject.name)!r}" if subject.name else "argument 'scores'"
        raise AlignmentError(what, where, received, None, "pass the scores that were evaluated")
