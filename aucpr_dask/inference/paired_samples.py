"""Estimates of models on the same sample, and the method filled with them: what every comparison is made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from aucpr_dask.errors import (
    FewPositivesWarning,
    FewUnitsWarning,
    InvalidInputError,
    as_called,
    bad_argument,
    clash,
    few,
    warn,
)
from aucpr_dask.evaluation.results import counted_positives, provenance
from aucpr_dask.inference import designs, machine_labels, methods, requirements, samples
from aucpr_dask.inference.averages import training_variance
from aucpr_dask.inference.covarying import COMPARED_BY, OF_REPEAT, OTHER_MODEL
from aucpr_dask.inference.designs import BOTH, ITEMS, Sampling, are_values, estimators_of, unit_names
from aucpr_dask.inference.methods import Method
from aucpr_dask.inference.pairs import all_pairs, intervals
from aucpr_dask.inference.random_effects import RandomEffects
from aucpr_dask.inference.samples import DIFFERENCE_VARIANCE, REPLICATE, SIZE, Estimates
from aucpr_dask.inference.units import Floats, Indices, mean_of_units
from aucpr_dask.schema import terms
from aucpr_dask.schema.estimators import WITH_INFLUENCE
from aucpr_dask.schema.options import ComparisonOptions
from aucpr_dask.schema.terms import MODEL, N_FOLDS, RESAMPLE

if TYPE_CHECKING:
    import dask.array as da

# With this many units, a bootstrap at the level 0.05 finds a false difference in 0.06 of simulated samples of 2 or 10
# models, and in 0.08 of those of 40.
ENOUGH_FOR_A_PAIR, ENOUGH_FOR_A_FAMILY = 30, 200
# With this many positives, a bootstrap of the items does so in 0.05 of simulated samples of 2 models, and in 0.09 of
# those of 8 or 40 (0.06 with 500 positives).
POSITIVES_FOR_A_PAIR, POSITIVES_FOR_A_FAMILY = 100, 200
POSITIVES_FOR_INFLUENCE = 10

DESCRIPTIONS = {
    "estimate": "Estimate of the model, the mean over units where there are any.",
    "difference": "Estimate of the model minus that of the other.",
    "standard_error": "Standard error of the difference.",
    "prediction_interval": "Interval of the difference on a new data set, had it many items.",
    "tau": "Standard deviation of the differences between data sets, that of their estimates left out.",
    "i_squared": "Share of the variance between data sets that the variances of their estimates do not explain.",
    "equal_difference": "Mean difference over data sets with equal weights.",
    "precision_difference": "Mean difference over data sets weighted by precision: larger ones carry more weight.",
    "size_slope": "By how much the difference grows where a data set is ten times as large.",
    "size_p": "Two-sided p-value of the test that the difference does not depend on the size of data sets.",
    "probability": "Posterior probability that the model is better by more than the margin, equivalent, or worse.",
    "training_share": "Share of the variance of the difference that comes from training; the rest is that of items.",
    "interval": "Confidence interval of the difference, each at the level on its own.",
    "simultaneous_interval": "Simultaneous confidence intervals of the differences of the family.",
    "p_value": "Two-sided p-value of the test that the difference is 0, each on its own.",
    "p_adjusted": "P-value adjusted for all comparisons of the family.",
    "p_equivalence": "P-value of the two one-sided tests that the difference is beyond the margin, of each pair on "
    "its own: not adjusted for the family.",
    "share_inside": "Probability that the difference is within the margin.",
    "decision": "Whether the two are equivalent, different by more than the margin, or neither is shown, of each pair "
    "on its own: not adjusted for the family.",
    "rank": "Rank of the estimate: 1 is best, equal estimates share their mean rank.",
    "rank_interval": "Lowest and highest rank the model may have, each model at the level on its own.",
    "simultaneous_rank_interval": "Lowest and highest rank, by simultaneous rank sets of all models.",
    "probability_best": "Share of the resamples in which the model is the best.",
    "expected_rank": "Mean rank over the resamples.",
    "first_group": "First group of indistinguishable models that the model belongs to; groups count from the best.",
    "last_group": "Last group of indistinguishable models that the model belongs to.",
    "n_units": "Units that the estimates are means over.",
    "n_compared": "Items that all models scored, on which they are compared.",
    "n_scored": "Items that some model scored.",
    "n_unscored": "Items that no model scored: they are left out.",
    "n_missing": "Items that another model scored and this one did not: they are left out for all.",
    "n_missing_positive": "The positives among them.",
    "n_machine_units": "Units with machine labels; people labelled n_units of them.",
    "tuning": "How much the machine's estimates count: 0 is not at all, 1 fully.",
    "detectable": "Smallest true difference that its own interval shows with the power wanted.",
    "detectable_family": "Smallest true difference that its simultaneous interval shows with the power wanted.",
    "detectable_rank": "Difference from the next model with which simultaneous rank sets tell the two apart, with the "
    "power wanted.",
    "power": "Power for the difference that matters, by the interval of each pair on its own.",
    "power_family": "Power for the difference that matters, by the simultaneous interval.",
    "n_needed": "Units, or positives if items are the sample, that show the difference that matters.",
    "n_needed_family": "The same by the simultaneous interval.",
    "width_ratio": "Width of the interval relative to that from people's labels alone.",
}

LEAST_REGRESSED = 4  # data sets
NEAR_ONE = 0.9  # means of areas over data sets: where intervals of random effects held less than they say


@dataclass(frozen=True)
class PairedSample:
    """A method filled with the estimates of one result, and what to report about it."""

    node: xr.Dataset
    question: ComparisonOptions
    sampling: Sampling
    estimates: Estimates
    method: Method

    def at_level(self, level: float) -> PairedSample:
        """Return the same sample, to be answered at another level."""
        method = copy(self.method)
        question = replace(self.question, level=level)
        vars(method)["goal"] = _goal_of(question)
        return replace(self, question=question, method=method)

    @property
    def n_machine(self) -> int:
        """The number of units with machine labels."""
        return self.method.labelled.size if isinstance(self.method, machine_labels.PredictionPowered) else 0

    @property
    def n_resamples(self) -> int:
        """The number of replicates or swaps; 0 of a method without any."""
        if isinstance(self.method, methods.RankSwap):
            return self.method.n_swaps
        return 0 if self.method.sample is None else int(self.method.sample.centred.shape[1])

    @property
    def mean(self) -> Floats:
        """The mean of each model, with the help of machine labels if there are any."""
        return self.method.mean if isinstance(self.method, machine_labels.PredictionPowered) else self.estimates.mean

    @property
    def shown(self) -> Floats:
        """The mean of each model as it was given, whether more or less is better."""
        return self.estimates.direction * self.mean

    @property
    def labels(self) -> NDArray[Any]:
        """The models' labels, names as text of a fixed width."""
        names: NDArray[Any] = terms.plain_names(np.asarray(self.estimates.models), f"coordinate {MODEL!r}")
        return names

    def inside(self, bounds: Any) -> Any:
        """Return bounds of differences within what is possible; infinite ones say that no difference can be shown."""
        if are_values(self.node) or not self.are_shares:
            return bounds
        return np.where(np.isinf(bounds), bounds, np.clip(bounds, -1.0, 1.0))

    @property
    def are_shares(self) -> bool:
        """Whether what is estimated lies between 0 and 1, as areas do, and values of measures whose values do."""
        values = self.estimates.direction * self.estimates.values
        is_bounded = terms.NORMALISED not in self.node.attrs and self.estimator not in designs.UNBOUNDED
        return bool(is_bounded and values.min(initial=0) >= 0 and values.max(initial=0) <= 1)

    def refuse_wide(self, margin: float, option: str) -> None:
        """Raise if no two models can differ by more than a margin."""
        if margin >= 1 and self.are_shares:
            what = "no two models can differ by so much, because the measure lies between 0 and 1"
            raise bad_argument(what, option, margin, "below 1", "one point of 100 is 0.01")

    @property
    def estimator(self) -> str | None:
        """The name of the estimator that models are compared by."""
        return self.question.estimator or next(iter(estimators_of(self.node)), None)

    def positives(self) -> tuple[float | None, tuple[str, str]]:
        """Return the positives of all units together, or clusters that hold some, None if not counted; and their names.

        With influence, they are effective ones: what unequal weights or clusters are worth.
        """
        is_of_pairs = self.sampling.method == "influence"  # covariances count clusters by the same name
        counted = "n_effective" if is_of_pairs else counted_positives(self.node)
        counts, names = self.node.variables.get(counted), ("positive", "positives")
        if counts is not None and not np.array_equal(counts, np.round(counts), equal_nan=True):  # weighted
            names = "effective positive", "effective positives"
        if self.node.attrs.get("sampled") == "clusters" and counted != "n_positive":
            kind = "effective " * (counted == "n_effective")
            words = (terms.clusters_in_words(self.node.attrs, f"{kind}{noun}") for noun in ("cluster", "clusters"))
            one, several = (f"{word} with positives" for word in words)
            names = one, several
        return None if counts is None else float(_least_of_units(counts, self.estimates).sum()), names

    def sampled_in_words(self) -> str:
        """Describe what was resampled, and what is fixed."""
        estimates = self.estimates
        sentence = designs.describe(
            self.sampling,
            len(estimates.models),
            len(estimates.units),
            self.n_resamples,
            self.node.attrs,
            complete=self.method.sample is not None and self.method.sample.complete,
            n_machine=self.n_machine,
            condition=self.sampling.row.condition,
        )
        if self.question.method is None and (self.sampling.sample, self.sampling.method) == (ITEMS, "bootstrap"):
            is_known = self.estimator in (None, *WITH_INFLUENCE) and designs.HAS_SCORES not in self.node.attrs
            why = "the result keeps no influences; its scores do" if is_known else "no influences are known here"
            sentence += f"; by the bootstrap, because {why}"
        if isinstance(self.method, RandomEffects):
            sentence += f"; {designs.WEIGHED[self.method.weights]}"
        if isinstance(self.method, RandomEffects) and self.method.weights != "equal" and self.mean.max() > NEAR_ONE:
            sentence += "; areas are near 1, where skewed differences make intervals too narrow if tau is large"
        if OF_REPEAT in self.node:
            sentence += f"; {designs.repeats_in_words(self.node.sizes[terms.REPEAT], self.node.attrs.get(N_FOLDS))}"
        return sentence

    @property
    def gaps(self) -> list[str]:
        """What is left out because some models lack it, and which models lack how much, in words."""
        return [*self.node.attrs.get(samples.GAPS, ()), *self.estimates.gaps, *designs.missing_items(self.node.attrs)]


def paired_sample(
    node: xr.Dataset, dim: str | None, question: ComparisonOptions, machine: xr.Dataset | None = None
) -> PairedSample:
    """Read what the question needs from one result, and fill the method with it."""
    by_influence = machine is None and question.method is None and set(node) >= COMPARED_BY
    asked = (ITEMS, "influence") if by_influence else (question.sample, question.method)
    known = designs.NAMES if machine is None else designs.WITH_MACHINE
    sampling = designs.settle(dim, *asked, question.adjust, known)
    estimates = samples.read_estimates(node, dim, question.estimator, question.incomplete)
    refuse_too_few(node, estimates, sampling.dim, sampling.sample)
    method: Method
    if machine is not None:
        estimates, method = machine_labels.powered_method(node, machine, estimates, question)
    else:
        estimates, method = FILLED[sampling.row.needs](node, estimates, sampling, question)
    sample = PairedSample(node, question, sampling, estimates, method)
    if sampling.sample == ITEMS:
        n, words = sample.positives()
        if n is not None:
            warn_of_few(n, words, sampling.method, len(estimates.models))
    return sample


def refuse_too_few(node: xr.Dataset, estimates: Estimates, dim: str | None, sample: str) -> None:
    """Raise unless there are two models and, if units are sampled, two units."""
    if len(estimates.models) < 2:
        gone = few(map(repr, estimates.models_left_out))
        received = few(map(repr, estimates.names)) + (f"; left out: {gone}" if gone else "")
        remedy = "incomplete='drop' leaves out units in place of models" if gone else None
        raise InvalidInputError("there is only one model", None, received, "two or more", remedy)
    if sample != ITEMS and len(estimates.units) < 2:
        one, several = unit_names(str(dim), node.attrs)
        remedy = "over='items' lets the items vary, with the units fixed"
        if are_values(node):
            remedy = f"add values of other {several}"
            if len(estimators_of(node)) > 1:
                remedy += f"; {as_called('include=')} takes columns of measures as {several}"
        what, received = f"one {one} says nothing about others", few(map(repr, estimates.units))
        if gone := few(map(repr, estimates.left_out)):
            received, remedy = f"{received}; left out for gaps: {gone}", "leave out models or tasks with many gaps"
        raise InvalidInputError(what, None, received, f"two {several} or more", remedy)


# --- the methods, filled -------------------------------------------------------------------------------------------

Filled = tuple[Estimates, Method]  # the estimates that it compares: without models that it knows too little of


def _by_values(node: xr.Dataset, estimates: Estimates, sampling: Sampling, question: ComparisonOptions) -> Filled:
    """Return the method that takes the values of units or folds, or the ranks of items, as they are."""
    values, units, seed, method = estimates.values, estimates.units, question.seed, sampling.method
    goal = _goal_of(question)
    if method == designs.CORRECTED:
        return estimates, methods.CorrectedStudent(values, node.attrs[N_FOLDS], goal)
    if method == "rank_swap":
        ranks, n_swaps = estimates.of(node[methods.RANK]).values, question.n_resamples or designs.ITEM_RESAMPLES
        return estimates, methods.RankSwap(estimates.mean, ranks, node, goal, n_swaps, seed)
    n_resamples = question.n_resamples or designs.UNIT_RESAMPLES
    if method == "sign_flip":
        return estimates, methods.SignFlips(values, units, goal, n_resamples, seed)
    if method == "t":
        return estimates, methods.Student(values, goal)
    if method == "wilcoxon":
        return estimates, methods.Wilcoxon(values, goal)
    enough = ENOUGH_FOR_A_PAIR if len(estimates.models) == 2 else ENOUGH_FOR_A_FAMILY
    if method == "bootstrap" and len(units) < enough:
        warn(
            f"method='bootstrap' over {len(units)} units finds differences where there are none: it needs {enough} or "
            "more. method='bootstrap_t' needs fewer; 'sign_flip' and 't' need few if differences are jointly "
            "symmetric.",
            FewUnitsWarning,
        )
    has_errors = method == "bootstrap_t"
    return estimates, methods.resample_units(values, units, goal, n_resamples, seed, own_errors=has_errors)


def _by_random_effects(
    node: xr.Dataset, estimates: Estimates, sampling: Sampling, question: ComparisonOptions
) -> Filled:
    """Return the method that knows the variance of each difference within each data set."""
    if DIFFERENCE_VARIANCE not in node:
        what, remedy = "random effects need the variance of each difference within each unit", "leave out method"
        allowed = "scores of several data sets, or their results with queries or replicates, and over='dataset'"
        raise clash(what, remedy, allowed, method=question.method, over=question.over)
    values = np.asarray(estimates.of(node[DIFFERENCE_VARIANCE]).transpose(..., MODEL, OTHER_MODEL).values)
    if (unknown := np.isnan(values).any(axis=(1, 2))).any():
        what = "the variance of a difference is not known in some data sets"
        received = few([repr(unit) for unit, one in zip(estimates.units, unknown, strict=True) if one])
        remedy = "leave these data sets out, or give method='sign_flip', which needs no variances"
        raise InvalidInputError(what, None, received, "two positives and two negatives or more in each", remedy)
    sizes = estimates.of(node[SIZE].broadcast_like(node[MODEL])).transpose(MODEL, ...).values if SIZE in node else None
    if question.weights == "regression" and values.shape[0] < LEAST_REGRESSED:
        received, remedy = f"{values.shape[0]} data sets", "leave weights out: data sets then have equal weights"
        what = "a regression on the size of data sets needs several"
        raise InvalidInputError(what, "option 'weights'", received, f"{LEAST_REGRESSED} or more", remedy)
    return estimates, RandomEffects(estimates.values, values, sizes, _goal_of(question), question.weights)


def _by_items(node: xr.Dataset, estimates: Estimates, sampling: Sampling, question: ComparisonOptions) -> Filled:
    """Return the bootstrap of the means over units, from the replicates of the items, and the estimates with them."""
    requirements.require_replicates(node, f"over={question.over!r}, method={sampling.method!r}")
    kept = node.sizes[RESAMPLE]
    n_resamples = question.n_resamples or kept
    if n_resamples > kept:
        remedy = f"evaluate(scores, ..., keep_replicates=True, {n_resamples=})"
        raise InvalidInputError("the result has fewer resamples", None, f"{n_resamples=}", f"up to {kept}", remedy)
    node = node[[REPLICATE]].isel({RESAMPLE: slice(n_resamples)})
    seed = question.seed if sampling.sample == BOTH else None
    replicates = samples.read_replicates(node, estimates, question.estimator, seed)
    defined: NDArray[np.bool_] = np.logical_not(np.isnan(replicates).any(axis=1))
    drops_models = question.incomplete == "drop_models" or (estimates.dim is None and question.incomplete == "drop")
    if drops_models and np.count_nonzero(defined) > 1:
        estimates, replicates = estimates.of_models(defined), replicates[defined]
        return estimates, methods.Resampling(estimates.mean, replicates, _goal_of(question))
    undefined = np.count_nonzero(~np.isfinite(replicates), axis=1)
    if undefined.any():
        counts = [f"{name!r}: {number:,}" for name, number in zip(estimates.names, undefined, strict=True) if number]
        what = "some resamples have no estimate: no positive was drawn, or scores without the spread that it needs"
        received = f"of {replicates.shape[1]:,} resamples without an estimate {few(counts)}"
        remedy = "leave these models out: incomplete='drop_models'; or another estimator (average_precision needs no "
        remedy += "spread); over='items' and prevalence_design='fixed', which draw as many positives as there are; "
        remedy += "with rare classes, method='influence'; or data with more positives"
        raise InvalidInputError(what, received=received, remedy=remedy)
    return estimates, methods.Resampling(estimates.mean, replicates, _goal_of(question))


def _by_influence(node: xr.Dataset, estimates: Estimates, sampling: Sampling, question: ComparisonOptions) -> Filled:
    """Return the method that takes the covariance of the models from the influences of the items."""
    n_resamples = question.n_resamples or designs.UNIT_RESAMPLES
    joint_name = "joint_variance" if "joint_variance" in node else "difference_variance"
    matrices = (node.variables[name] for name in ("difference_variance", "outer_variance", joint_name))
    inner, outer, joint = (_variance_of_means(matrix, estimates) for matrix in matrices)
    training = None
    if OF_REPEAT in node:
        variance = training_variance(samples.chosen(node[OF_REPEAT], question.estimator), node.attrs.get(N_FOLDS))
        training = _variance_of_means(variance.variable, estimates)
        inner, outer, joint = inner + training, outer + training, joint + training
    # The variance of a unit is taken to be proportional to 1 over its positives, so that models do not matter.
    counts = (node.variables[name] for name in ("n_effective", "degrees"))
    degrees = degrees_of_mean(*(_least_of_units(count, estimates) for count in counts))
    sampled = degrees, estimates.names, _goal_of(question), n_resamples, question.seed
    return estimates, methods.Influence(estimates.mean, inner, outer, joint, *sampled, training=training)


FILLED: dict[str, Callable[..., Filled]] = {
    "units": _by_values,
    "folds": _by_values,
    "ranks": _by_values,
    "variances": _by_random_effects,
    "replicates": _by_items,
    "influences": _by_influence,
}
"""How a method is made from what it needs."""


def _goal_of(question: ComparisonOptions) -> methods.Goal:
    return methods.Goal(question.level, question.equivalence)


def _variance_of_means(matrix: xr.Variable, estimates: Estimates) -> Floats:
    """Return the variance (M, M) of the differences of means over fixed units, each with its own items."""
    matrix = estimates.of(matrix).transpose(..., MODEL, OTHER_MODEL)
    if estimates.dim is not None:
        matrix = samples.applied(mean_of_units, matrix, over=[estimates.dim])
    values = np.asarray(matrix.values) / len(estimates.units)
    if np.isnan(values).any():
        what = "some estimates have no error: a ranking has fewer than two positives, or fewer than two negatives"
        where = "the labels of the rankings"
        received, allowed = "a ranking with fewer than two positives or two negatives", "two or more of each"
        raise InvalidInputError(what, where, received, allowed, "method='bootstrap', or queries as the sample")
    return values


def degrees_of_mean(n: Floats, degrees: Floats) -> float:
    """Return Satterthwaite's degrees of freedom of the variance of a mean of units, from their sizes and their own."""
    variance = 1 / n
    return float(variance.sum() ** 2 / (variance**2 / degrees).sum())


def _least_of_units(variable: xr.Variable, estimates: Estimates) -> Floats:
    """Return the least value of the models for each unit, in their order; one number without units."""
    values = estimates.of(variable).transpose(MODEL, ..., missing_dims="ignore").values
    return np.ravel(np.fmin.reduce(values, axis=0) if MODEL in variable.dims else values)


def warn_of_few(n: float, words: tuple[str, str], method: str, n_models: int) -> None:
    """Warn if `n`, whose units have these names, is less than the method needs."""
    enough = POSITIVES_FOR_A_PAIR if n_models == 2 else POSITIVES_FOR_A_FAMILY
    what = "intervals of differences are too narrow, and find differences where there are none"
    remedy = " method='influence' needs 10."
    if method == "influence":  # with 5 to 10 positives, levels of .001 to .035 at .05; power of .02 for a possible .28
        enough, remedy = POSITIVES_FOR_INFLUENCE, ""
        what = "intervals of differences are too wide, and true differences are found too seldom"
    if method != "rank_swap" and n < enough:
        warn(
            f"method={method!r} over {n:,.0f} {words[int(n != 1)]}: {what}. It needs {enough} or more.{remedy}",
            FewPositivesWarning,
        )


# --- what is said about the numbers --------------------------------------------------------------------------------


def annotated(
    arrays: Mapping[str, tuple[Any, Any]], labels: Mapping[str, Any], sample: PairedSample, **more: Any
) -> xr.Dataset:
    """Return arrays (dimensions, values) by name as an answer.

    It has labels of models, counts, descriptions, and attributes that record how the numbers were computed.
    """
    node, question, sampling, estimates = sample.node, sample.question, sample.sampling, sample.estimates
    counts = {} if sampling.dim is None else {"n_units": len(estimates.units)}
    counts |= {"n_machine_units": sample.n_machine} if sample.n_machine else {}
    variables = dict(arrays)
    if designs.COMPARED in node.attrs:
        counts |= {"n_compared": node.attrs[designs.COMPARED], "n_scored": node.attrs[designs.SCORED]}
        counts |= {"n_unscored": node.attrs[designs.UNSCORED]}
        costs = [node.attrs[designs.COSTS][name] for name in estimates.names]
        of_models = zip(("n_missing", "n_missing_positive"), np.array(costs, np.int64).T, strict=True)
        variables |= {name: (MODEL, lost) for name, lost in of_models}
    variables |= {name: ((), np.int64(count)) for name, count in counts.items()}
    less, described = "less is better: positive where the model has less than the other", dict[str, xr.Variable]()
    for name, given in variables.items():
        attrs: dict[str, Any] = {"direction": less} if estimates.direction < 0 and name == "difference" else {}
        attrs |= {"description": DESCRIPTIONS[name], "units": "1"}
        attrs |= {"ci_kind": sampling.row.interval, "ci_prob": question.level} if "interval" in name else {}
        described[name] = xr.Variable(*given, attrs)
    dims = {dim for variable in described.values() for dim in variable.dims}
    coords = {**labels, "level": question.level} if terms.BOUND in dims else dict(labels)
    coords |= {dim: np.array(values) for dim, values in COORDINATES.items() if dim in dims}
    drawn_before = sampling.sample == ITEMS and sampling.method == "bootstrap"  # when the items were evaluated
    seed = node.attrs.get("seed") if drawn_before else question.seed
    facts = {
        terms.MEASURE if are_values(node) else "estimator": sample.estimator,
        "over": sampling.over(node.attrs),
        "method": sampling.method,
        "weights": question.weights if sampling.method == designs.RANDOM_EFFECTS else None,
        "adjust": None if "rank" in arrays else sampling.adjust,
        "level": question.level,
        "equivalence": question.equivalence,
        "n_resamples": sample.n_resamples or None,
        "seed": seed if sample.n_resamples else None,
        "left_out": list(estimates.left_out) or None,
        "models_left_out": list(estimates.models_left_out) or None,
        "gaps": "; ".join(sample.gaps) or None,
    }
    design = "; ".join([sample.sampled_in_words(), *sample.gaps])
    return xr.Dataset(described, coords, {"design": design} | provenance(node, facts, more))


# --- quantities of pairs, laid out as (model, other model): eagerly, or lazily in chunks ----------------------------

DECISIONS = ("undecided", "different", "equivalent")
EQUIVALENT = DECISIONS.index("equivalent")
TARGET, OUTCOME = "target", "outcome"  # of posterior probabilities
COORDINATES = {terms.BOUND: terms.BOUNDS, TARGET: ("mean", "new"), OUTCOME: ("better", "equivalent", "worse")}


@dataclass(frozen=True)
class Quantity:
    """One variable of a comparison: its value for a model and itself, and how to reverse its direction."""

    itself: float | tuple[float, ...]
    dtype: type = np.float64
    turned: bool = False  # the other direction has the other sign
    dims: tuple[str, ...] = ()  # after those of the models; the last one is reversed in the other direction

    def shape(self, rows: Indices, columns: Indices) -> tuple[int, ...]:
        """Return the shape over these models."""
        return (rows.size, columns.size, *(len(COORDINATES[dim]) for dim in self.dims))


QUANTITIES = {
    "difference": Quantity(0.0, turned=True),
    "standard_error": Quantity(0.0),
    "interval": Quantity(0.0, turned=True, dims=(terms.BOUND,)),
    "simultaneous_interval": Quantity(0.0, turned=True, dims=(terms.BOUND,)),
    "prediction_interval": Quantity(0.0, turned=True, dims=(terms.BOUND,)),
    "p_value": Quantity(1.0),
    "p_adjusted": Quantity(1.0),
    "p_equivalence": Quantity(0.0),
    "share_inside": Quantity(1.0),
    "decision": Quantity(EQUIVALENT, dtype=np.int8),
    "tau": Quantity(0.0),
    "i_squared": Quantity(0.0),
    "equal_difference": Quantity(0.0, turned=True),
    "precision_difference": Quantity(0.0, turned=True),
    "size_slope": Quantity(0.0, turned=True),
    "size_p": Quantity(1.0),
    "probability": Quantity((0.0, 1.0, 0.0), dims=(TARGET, OUTCOME)),
    "training_share": Quantity(0.0),
    "tuning": Quantity(0.0),
    "width_ratio": Quantity(1.0),
}


def quantities(
    method: Method, first: Indices, second: Indices, adjust: str, names: list[str]
) -> dict[str, NDArray[Any]]:
    """Return quantities of a family of pairs, by name."""
    family = method.pairs(first, second)
    quantile = method.simultaneous_quantile(family)
    values: dict[str, Any] = {
        "difference": family.difference,
        "standard_error": family.error,
        "interval": family.bounds,
        "simultaneous_interval": intervals(family.difference, family.error, quantile, family.outer),
        "p_value": family.p_value,
        "p_adjusted": methods.adjusted_p_values(method, family, adjust),
        **family.more,
    }
    if (verdict := family.equivalence) is not None:
        decision = np.select([verdict.decision == decision for decision in DECISIONS], range(len(DECISIONS)))
        values |= {"p_equivalence": verdict.p_value, "share_inside": verdict.share_inside, "decision": decision}
    return {name: np.asarray(values[name]) for name in names}


def placed(
    values: NDArray[Any], quantity: Quantity, first: Indices, second: Indices, rows: Indices, columns: Indices
) -> NDArray[Any]:
    """Return values of pairs over (rows, columns), positions of models, in both directions."""
    grid: NDArray[Any] = np.full(quantity.shape(rows, columns), quantity.itself, dtype=quantity.dtype)
    n_models = 1 + max(int(index.max(initial=-1)) for index in (first, second, rows, columns))
    row_of, column_of = np.full((2, n_models), -1)
    row_of[rows], column_of[columns] = np.arange(rows.size), np.arange(columns.size)
    back = -values if quantity.turned else values
    back = back[..., ::-1] if quantity.dims else back
    for one, other, directed in ((first, second, values), (second, first, back)):
        i, j = row_of[one], column_of[other]
        here = (i >= 0) & (j >= 0)
        grid[i[here], j[here]] = directed[here]
    return grid + 0 if quantity.turned else grid  # no negative zeros


def lazy_all_pairs(method: Method, n_models: int, adjust: str, names: list[str], chunk: int) -> dict[str, da.Array]:
    """Return the quantities over (model, other model) as Dask arrays in square chunks, bit-for-bit as without chunks.

    The whole family is one task, on all cores; each chunk lays out its own pairs of them.
    """
    import dask.array as da
    from dask import delayed

    held = delayed(method, pure=True)  # one key in the graph, not a copy of the replicates in every task
    values = delayed(quantities)(held, *delayed(all_pairs, nout=2)(n_models), adjust, names)
    sides = da.core.normalize_chunks((chunk, chunk), (n_models, n_models))
    arrays = {}
    for name in names:
        quantity = QUANTITIES[name]
        chunks = *sides, *((len(COORDINATES[dim]),) for dim in quantity.dims)
        place = {"quantity": quantity, "n_models": n_models, "chunk": chunk}
        arrays[name] = da.map_blocks(
            _placed_block, values=values[name], chunks=chunks, dtype=quantity.dtype, meta=np.empty(0), **place
        )
    return arrays


def _placed_block(
    values: NDArray[Any], quantity: Quantity, n_models: int, chunk: int, block_id: tuple[int, ...]
) -> NDArray[Any]:
    """Lay out a square chunk, in both directions, of values in the order of all pairs."""
    row, column = (np.arange(n_models)[number * chunk : (number + 1) * chunk] for number in sorted(block_id[:2]))
    row = row[:, np.newaxis]
    first, second = np.minimum(row, column), np.maximum(row, column)
    here: NDArray[Any] = values[first * (2 * n_models - first - 1) // 2 + second - first - 1].astype(quantity.dtype)
    back = -here if quantity.turned else here
    back = back[..., ::-1] if quantity.dims else back
    if block_id[0] == block_id[1]:
        here[row > column] = back[row > column]
        here[row == column] = quantity.itself
    grid = back.swapaxes(0, 1) if block_id[0] > block_id[1] else here
    return grid + 0 if quantity.turned else grid  # no negative zeros
