"""From a question to a method filled with the estimates it needs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from aucpr_dask.errors import FewPositivesWarning, FewUnitsWarning, InvalidInputError, few
from aucpr_dask.evaluation.api import evaluate_dataset
from aucpr_dask.inference.classes import means_over_classes, refuse_classes_as_units
from aucpr_dask.inference.common_items import counts_of_items, on_common_items, refuse_different_items
from aucpr_dask.inference.covarying import COVARIANCE_OPTIONS, OTHER_MODEL, covariance, moderated_covariance
from aucpr_dask.inference.designs import (
    BOTH,
    ITEM_RESAMPLES,
    ITEMS,
    UNIT_RESAMPLES,
    UNITS,
    WITH_MACHINE,
    Design,
    refuse_dependent_queries,
    refuse_unknown_options,
    require_replicates,
    settle,
)
from aucpr_dask.inference.families import Floats
from aucpr_dask.inference.machine_labels import powered_method
from aucpr_dask.inference.measures import are_values, estimators_of, unit_names
from aucpr_dask.inference.methods import (
    Goal,
    Influence,
    Method,
    Resampling,
    SignFlips,
    Student,
    Wilcoxon,
    resample_units,
)
from aucpr_dask.inference.prediction_powered import PredictionPowered
from aucpr_dask.inference.samples import (
    DATASET,
    REPLICATE,
    Estimates,
    labels_of,
    mean_of_units,
    read_estimates,
    read_replicates,
    stack_data_sets,
)
from aucpr_dask.schema.checks import choose
from aucpr_dask.schema.options import ComparisonOptions, EvaluationOptions, SampleOptions
from aucpr_dask.schema.trees import Scores, map_nodes, nodes_of
from aucpr_dask.schema.variables import MODEL, QUERY, RESAMPLE
from aucpr_dask.scores.classes import validated_scores

# With this many units, a bootstrap at the level 0.05 finds a false difference in 0.06 of simulated samples of 2 or 10
# models, and in 0.08 of those of 40.
ENOUGH_FOR_A_PAIR, ENOUGH_FOR_A_FAMILY = 30, 200
# With this many positives, a bootstrap of the items does so in 0.05 of simulated samples of 2 models, and in 0.09 of
# those of 8 or 40 (0.06 with 500 positives).
POSITIVES_FOR_A_PAIR, POSITIVES_FOR_A_FAMILY = 100, 200
POSITIVES_FOR_INFLUENCE = 10

SET_HERE = ("estimators", "intervals", "keep_replicates")  # options of an evaluation that a comparison sets


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Add the name of the data set, if it has one, to an error."""
    try:
        yield
    except InvalidInputError as error:
        if not path:
            raise
        raise error.with_part("data set", repr(path)) from error


def unit_dim(node: xr.Dataset) -> str | None:
    """Return the dimension of the units of one data set: its queries, if it has any."""
    return QUERY if QUERY in node["estimate"].dims else None


def ask(data: Scores, question: ComparisonOptions, options: Mapping[str, Any], *, without: tuple[str, ...] = ()) -> Any:
    """Return results with all that the question needs; data sets are stacked if they are the units."""
    refuse_unknown_options(options, ComparisonOptions, without=(*SET_HERE, *without))
    is_scores = are_scores(data, options)
    refuse_classes_as_units(data, question)
    refuse_what_values_lack(data, question)
    if is_scores and question.over != DATASET and question.sample != ITEMS:
        for path, node in nodes_of(data):
            refuse_dependent_queries(node, path)
    if question.method == "influence":
        return _with_covariance(data, question, options, is_scores=is_scores)
    if is_scores:
        data = _evaluated(data, question, options)
    require_results(data)
    for path, node in nodes_of(data):
        refuse_different_items(node, path)
    data = means_over_classes(data, question.incomplete)
    if question.over != DATASET:
        return data
    return stack_data_sets(data, question.incomplete).assign_attrs(counts_of_items(data))


def are_scores(data: Scores, options: Mapping[str, Any]) -> bool:
    """Return whether the data must still be evaluated; refuse options of an evaluation otherwise."""
    if not isinstance(data, xr.Dataset | xr.DataTree) or not list(nodes_of(data)):
        raise InvalidInputError(
            "there is no data",
            where="the first argument",
            received=type(data).__name__,
            allowed="a Dataset or DataTree with data",
            remedy="pass what aucpr_dask.evaluate returns, or the scores",
        )
    is_scores = all("score" in node and "estimate" not in node for _, node in nodes_of(data))
    if options and not is_scores:
        raise InvalidInputError(
            "these are options of an evaluation, and this result is evaluated already",
            where="the options",
            received=", ".join(options),
            allowed="options of the comparison alone",
            remedy="pass the scores to evaluate them with these options",
        )
    return is_scores


def refuse_what_values_lack(data: Any, question: SampleOptions) -> None:
    """Raise if values are asked for a measure that they are not, or for their items."""
    for path, node in nodes_of(data) if isinstance(data, xr.Dataset | xr.DataTree) else ():
        if not are_values(node):
            continue
        where = f", data set {path!r}" if path else ""
        if question.sample in (ITEMS, BOTH) or question.method == "influence":
            raise InvalidInputError(
                "values of a measure have no items that could be sampled",
                where=f"argument 'sample'{where}",
                received=f"sample={question.sample!r}, method={question.method!r}",
                allowed=f"sample={UNITS!r}",
                remedy=f"leave both out: the {unit_names(QUERY, node.attrs)[1]} are the sample",
            )
        names, estimator = estimators_of(node), getattr(question, "estimator", None)
        if names and estimator is not None:
            choose(tuple(names), estimator, "measure")


def require_results(data: Scores) -> None:
    """Raise unless every data set has estimates."""
    missing = [path for path, node in nodes_of(data) if "estimate" not in node]
    if missing:
        raise InvalidInputError(
            "this is neither a result nor scores: it has no variable 'estimate'",
            where=", ".join(f"data set {path!r}" for path in missing if path) or "the first argument",
            received=few(map(str, dict(nodes_of(data))[missing[0]].data_vars)) or "no variables",
            allowed="a result, or scores",
            remedy="pass what aucpr_dask.evaluate returns",
        )


def _evaluated(scores: Scores, question: ComparisonOptions, options: Mapping[str, Any]) -> Scores:
    """Evaluate scores, with replicates if the items are sampled."""
    estimators = (question.estimator or "average_precision",)
    plain = {"estimators": estimators, "intervals": (), **options}
    meant = EvaluationOptions.of(**plain)
    scores = validated_scores(scores, positive_from=meant.positive_from)
    scores = on_common_items(scores, meant.missing)
    resampled = plain | {"keep_replicates": True, "seed": question.seed}
    resampled["n_resamples"] = question.n_resamples or ITEM_RESAMPLES

    def evaluate_node(path: str, node: xr.Dataset) -> xr.Dataset:
        has_units = question.over == DATASET or QUERY in node["score"].dims
        items = question.sample in (ITEMS, BOTH) or (question.sample is None and not has_units)
        result = evaluate_dataset(node, path, EvaluationOptions.of(**(resampled if items else plain)))
        return result.assign_attrs(counts_of_items(node))

    return map_nodes(scores, evaluate_node)


def _with_covariance(
    data: Scores, question: ComparisonOptions, options: Mapping[str, Any], *, is_scores: bool
) -> Scores:
    needed = {"covariance", "variance", "n_effective"}
    if not is_scores and not all(needed <= set(node) for _, node in nodes_of(data)):
        raise InvalidInputError(
            "method='influence' needs the scores, or what aucpr_dask.covariance returns",
            received="a result without " + ", ".join(map(repr, sorted(needed))),
            remedy="pass the scores in place of the result",
        )
    if question.over == DATASET:
        raise InvalidInputError(
            "method='influence' compares models within a data set",
            received="over='dataset'",
            remedy="with the data sets fixed, sample='items' and method='bootstrap'",
        )
    if not is_scores:
        for path, node in nodes_of(data):
            refuse_different_items(node, path)
        return data
    unused = [name for name in options if name not in COVARIANCE_OPTIONS]
    if unused:
        raise InvalidInputError(
            "method='influence' has no such option",
            received=", ".join(map(repr, unused)),
            allowed=", ".join(COVARIANCE_OPTIONS),
            remedy="method='bootstrap' takes all options of an evaluation",
        )
    data = on_common_items(data, options.get("missing", "raise"))
    result = covariance(data, question.estimator or "average_precision", **options)
    counts = {path: counts_of_items(node) for path, node in nodes_of(data)}
    return map_nodes(result, lambda path, node: node.assign_attrs(counts[path]))


@dataclass(frozen=True)
class Prepared:
    """A method filled with its estimates, and what to report about it."""

    method: Method
    estimates: Estimates
    design: Design
    n_resamples: int
    complete: bool
    n_machine: int = 0  # units with machine labels

    @property
    def mean(self) -> Floats:
        """The mean of each model, with the help of machine labels if there are any."""
        return self.method.mean if isinstance(self.method, PredictionPowered) else self.estimates.mean

    @property
    def plain_labels(self) -> NDArray[Any]:
        """The models' labels; strings as objects, which every store can hold."""
        labels = self.estimates.models
        return np.array(labels, dtype=object if labels.dtype.kind in "OUT" else None)


def prepare(
    node: xr.Dataset, dim: str | None, question: ComparisonOptions, machine: xr.Dataset | None = None
) -> Prepared:
    """Read what the question needs from one result, and fill the method with it."""
    if machine is None:
        design = settle(dim, question.sample, question.method, question.adjust)
    else:
        design = settle(dim, UNITS, question.method, question.adjust, methods=WITH_MACHINE)
    estimates = read_estimates(node, dim, question.estimator, question.incomplete)
    if len(estimates.models) < 2:
        raise InvalidInputError(
            "there is only one model",
            received=few(map(repr, estimates.names))
            + (f"; left out: {few(map(repr, estimates.models_left_out))}" if estimates.models_left_out else ""),
            allowed="two or more",
            remedy="incomplete='drop' leaves out units in place of models" if estimates.models_left_out else None,
        )
    if design.sample != ITEMS and len(estimates.units) < 2:
        one, several = unit_names(str(dim), node.attrs)
        raise InvalidInputError(
            f"one {one} says nothing about others",
            received=few(map(repr, estimates.units)),
            allowed=f"two {several} or more",
            remedy=None if are_values(node) else "sample='items' samples the items, with the units fixed",
        )
    goal = Goal(question.level, question.equivalence)
    n_resamples = question.n_resamples or UNIT_RESAMPLES
    n_machine = 0
    method: Method
    if machine is not None:
        estimates, method, n_machine = powered_method(node, machine, estimates, question)
        n_resamples = 0
    elif design.method == "influence":
        _warn_of_few_positives(node, estimates, design)
        matrix, degrees = _covariance_of_means(node, estimates), _degrees_of_means(node, estimates)
        method = Influence(estimates.mean, matrix, degrees, estimates.names, goal, n_resamples, question.seed)
    elif design.sample != UNITS:
        estimates, replicates = _item_replicates(node, estimates, design, question)
        _warn_of_few_positives(node, estimates, design)
        n_resamples = replicates.shape[1]
        method = Resampling(estimates.mean, replicates, goal)
    elif design.method in ("bootstrap", "bootstrap_t"):
        own_errors = design.method == "bootstrap_t"
        if not own_errors:
            _warn_of_few_units(estimates)
        units = estimates.values, estimates.units
        method = resample_units(*units, goal, n_resamples, question.seed, own_errors=own_errors)
    elif design.method == "sign_flip":
        method = SignFlips(estimates.values, estimates.units, goal, n_resamples, question.seed)
        n_resamples = method.sample.centred.shape[1]
    else:
        method = Student(estimates.values, goal) if design.method == "t" else Wilcoxon(estimates.values)
        n_resamples = 0
    complete = method.sample is not None and method.sample.complete
    return Prepared(method, estimates, design, n_resamples, complete, n_machine)


def _warn_of_few_units(estimates: Estimates) -> None:
    """Warn if a bootstrap over so few units finds differences too often."""
    is_pair, n_units = len(estimates.models) == 2, len(estimates.units)
    enough = ENOUGH_FOR_A_PAIR if is_pair else ENOUGH_FOR_A_FAMILY
    if n_units < enough:
        warnings.warn(
            f"method='bootstrap' over {n_units} units finds differences where there are none: it needs {enough} or "
            "more. method='bootstrap_t' needs fewer; 'sign_flip' and 't' need few if differences are symmetric.",
            FewUnitsWarning,
            stacklevel=2,
        )


def _warn_of_few_positives(node: xr.Dataset, estimates: Estimates, design: Design) -> None:
    """Warn if items are the sample, and so few of them are positives that differences are found too often."""
    if design.sample != ITEMS or (n := n_positives(node, estimates, design)) is None:
        return
    by_influence = design.method == "influence"
    enough = POSITIVES_FOR_A_PAIR if len(estimates.models) == 2 else POSITIVES_FOR_A_FAMILY
    enough = POSITIVES_FOR_INFLUENCE if by_influence else enough
    if n < enough:
        remedy = "" if by_influence else " method='influence' needs 10 (average precision only, from the scores)."
        warnings.warn(
            f"method={design.method!r} over items, {n:g} of which are positives, finds differences where there are "
            f"none: it needs {enough} positives or more.{remedy}",
            FewPositivesWarning,
            stacklevel=2,
        )


def n_positives(node: xr.Dataset, estimates: Estimates, design: Design) -> float | None:
    """Return the positives, those of all units together, with influence the effective ones; None if not counted."""
    counts = node.get("n_effective" if design.method == "influence" else "n_positive")
    return None if counts is None else float(_of_units(counts.min(MODEL), estimates).sum())


def _of_units(variable: xr.DataArray, estimates: Estimates) -> Floats:
    """Return a variable of the units, in their order; one number without units."""
    if estimates.dim is None:
        return np.ravel(variable.values)
    places = {str(label): place for place, label in enumerate(labels_of(variable, estimates.dim))}
    return np.asarray(variable.values)[[places[unit] for unit in estimates.units]]


def _item_replicates(
    node: xr.Dataset, estimates: Estimates, design: Design, question: ComparisonOptions
) -> tuple[Estimates, Floats]:
    """Return the replicates (M, R) of the means over units, from those of the items, and the estimates with them."""
    require_replicates(node, f"sample={design.sample!r}")
    kept = node.sizes[RESAMPLE]
    n_resamples = question.n_resamples or kept
    if n_resamples > kept:
        raise InvalidInputError(
            "the result has fewer resamples",
            received=f"{n_resamples=}",
            allowed=f"up to {kept}",
            remedy=f"evaluate(scores, ..., keep_replicates=True, {n_resamples=})",
        )
    node = node[[REPLICATE]].isel({RESAMPLE: slice(n_resamples)})
    seed = question.seed if design.sample == BOTH else None
    replicates = read_replicates(node, estimates, question.estimator, seed)
    defined: NDArray[np.bool_] = np.logical_not(np.isnan(replicates).any(axis=1))
    leaves_models_out = question.incomplete == "drop_models" or (
        estimates.dim is None and question.incomplete == "drop"
    )
    if leaves_models_out and np.count_nonzero(defined) > 1:
        return estimates.of_models(defined), replicates[defined]
    _refuse_undefined_replicates(replicates, estimates)
    return estimates, replicates


def _refuse_undefined_replicates(replicates: Floats, estimates: Estimates) -> None:
    """Raise if a replicate is not finite, with counts by model."""
    undefined = np.count_nonzero(~np.isfinite(replicates), axis=1)
    if undefined.any():
        counts = [f"{name!r}: {number:,}" for name, number in zip(estimates.names, undefined, strict=True) if number]
        raise InvalidInputError(
            "some resamples have no estimate: no positive was drawn, or scores without the spread that it needs",
            received=f"of {replicates.shape[1]:,} resamples without an estimate {few(counts)}",
            remedy="leave these models out: incomplete='drop_models'; or "
            "another estimator (average_precision needs no spread); unit='items' and "
            "prevalence_design='fixed', which draw as many positives as there are; with rare classes, "
            "method='influence'; or data with more positives",
        )


def _covariance_of_means(node: xr.Dataset, estimates: Estimates) -> Floats:
    """Return the covariance (M, M) of the means over fixed units, each with its own items."""
    matrix = moderated_covariance(node).transpose(..., MODEL, OTHER_MODEL)
    names = [str(label) for label in (matrix.indexes[MODEL] if MODEL in matrix.indexes else range(matrix.sizes[MODEL]))]
    rows = [names.index(name) for name in estimates.names]
    matrix = matrix.isel({MODEL: rows, OTHER_MODEL: rows})
    if estimates.dim is not None:
        labels = matrix.indexes.get(estimates.dim, range(matrix.sizes[estimates.dim]))
        places = {str(label): place for place, label in enumerate(labels)}
        matrix = xr.apply_ufunc(
            mean_of_units,
            matrix.isel({estimates.dim: [places[unit] for unit in estimates.units]}),
            input_core_dims=[[estimates.dim]],
            dask="parallelized",
            output_dtypes=[np.float64],
            dask_gufunc_kwargs={"allow_rechunk": True},
        )
    values = np.asarray(matrix.values) / len(estimates.units)
    if np.isnan(values).any():
        raise InvalidInputError(
            "the influence of items on some estimates is not defined",
            received="a ranking with fewer than two positives or two negatives",
            remedy="method='bootstrap', or queries as the sample",
        )
    return values


def _degrees_of_means(node: xr.Dataset, estimates: Estimates) -> float:
    """Return the degrees of freedom of the variance of means over fixed units (Satterthwaite).

    The variance of a unit is taken to be proportional to 1 over its positives, so that models do not matter.
    """
    from aucpr_dask.kernels.intervals import degrees_of

    variance = 1 / _of_units(node["n_effective"].min(MODEL), estimates)
    return float(variance.sum() ** 2 / (variance**2 / degrees_of(1 / variance)).sum())
