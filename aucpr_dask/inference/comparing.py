"""Paired comparison of models: against baselines or all pairs, adjusted for how many they are."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from aucpr_dask.errors import InvalidInputError, few
from aucpr_dask.evaluation.api import evaluate, evaluate_dataset
from aucpr_dask.evaluation.results import versions
from aucpr_dask.inference import families
from aucpr_dask.inference.covarying import OTHER_MODEL, covariance
from aucpr_dask.inference.designs import (
    BOTH,
    INCOMPLETE,
    ITEM_RESAMPLES,
    ITEMS,
    OVER,
    UNIT_RESAMPLES,
    UNITS,
    Design,
    describe,
    refuse_dependent_queries,
    refuse_unknown_options,
    require_replicates,
    settle,
)
from aucpr_dask.inference.families import Floats, Indices
from aucpr_dask.inference.grids import (
    DECISIONS,
    compare_family,
    lay_out,
    lazy_all_pairs,
    quantities_of,
)
from aucpr_dask.inference.methods import (
    Goal,
    Influence,
    Method,
    Resampling,
    SignFlips,
    Student,
    Wilcoxon,
    unit_replicates,
)
from aucpr_dask.inference.samples import (
    DATASET,
    REPLICATE,
    Estimates,
    mean_of_units,
    read_estimates,
    read_replicates,
    stack_data_sets,
)
from aucpr_dask.schema.options import EvaluationOptions, choose, fraction
from aucpr_dask.schema.variables import BOUND, BOUNDS, MODEL, QUERY, RESAMPLE
from aucpr_dask.scores.validate import validate_scores
from aucpr_dask.storage.stores import Scores, map_nodes, nodes_of

BASELINE = "baseline"
Baseline = str | int | Sequence[str | int]
SET_HERE = ("estimators", "intervals", "keep_replicates")  # options of an evaluation that a comparison decides on
LAZY_FROM, LAZY_CHUNK = 500, 250  # models: from how many on the pairs are a chunked array, and in which chunks

DESCRIPTIONS = {
    "estimate": "Estimate of the model, the mean over units where there are any.",
    "difference": "Estimate of the model minus that of the other.",
    "standard_error": "Standard error of the difference.",
    "interval": "Confidence interval of the difference, each at the level on its own.",
    "simultaneous_interval": "Confidence intervals of the differences, all of the family at the level together.",
    "p_value": "Two-sided p-value that the difference is 0, each on its own.",
    "p_adjusted": "P-value adjusted for all comparisons of the family.",
    "p_equivalence": "P-value of the two one-sided tests that the difference is beyond the margin, of each pair on "
    "its own: not adjusted for the family.",
    "share_inside": "Probability that the difference is within the margin.",
    "decision": "Whether the two are equivalent, different by more than the margin, or neither is shown, of each pair "
    "on its own: not adjusted for the family.",
    "rank": "Rank of the estimate: 1 is best, equal estimates share their mean rank.",
    "rank_interval": "Lowest and highest rank the model may have, each model at the level on its own.",
    "simultaneous_rank_interval": "Lowest and highest rank, all models at the level together.",
    "probability_best": "Share of the resamples in which the model is the best.",
    "expected_rank": "Mean rank over the resamples.",
    "first_group": "First group of indistinguishable models that the model belongs to; groups count from the best.",
    "last_group": "Last group of indistinguishable models that the model belongs to.",
    "n_units": "Units that the estimates are means over.",
}


def compare(
    data: Scores,
    baseline: Baseline | None = None,
    *,
    estimator: str | None = None,
    over: str = QUERY,
    sample: str | None = None,
    method: str | None = None,
    adjust: str | None = None,
    level: float = 0.95,
    equivalence: float | None = None,
    n_resamples: int | None = None,
    seed: int = 0,
    incomplete: str = "raise",
    chunk: int | None = None,
    **options: Any,
) -> Scores:
    """Compare models with each other or with baselines, on the same units or items.

    Every comparison is paired: it rests on the differences of two models on the same queries, data sets or resampled
    items. The differences asked for are one *family*: adjusted p-values and simultaneous intervals hold for all
    of them together.

    Parameters
    ----------
    data : xarray.Dataset or xarray.DataTree
        A result of :func:`aucpr_dask.evaluate`, or score data sets, which are evaluated first.
    baseline : label or sequence of labels, optional
        Models to compare all others with (where models have no labels, their numbers); without, all pairs of models
        are compared.
    estimator : str, optional
        Compare by this estimator; the first of the result by default.
    over : {"query", "dataset"}
        What estimates are averaged over: the queries of each data set, if it has any; or the data sets of a tree, in
        which models are matched by label (queries are averaged first).
    sample : {"units", "items", "both"}, optional
        What the statement takes as a sample. ``"units"`` (the default where there are units): queries or data
        sets, each with its items: what to expect of other ones like these. Their spread holds the noise of
        their items already. ``"items"`` (the default without units): items, the units fixed: what to expect of
        these units with other items. ``"both"`` resamples units and the items of each: that counts the
        noise of items twice, so it is conservative.
    method : str, optional
        For units ``"sign_flip"`` (default: exact tests, intervals that flip the residuals), ``"bootstrap"``, ``"t"``
        or ``"wilcoxon"`` (p-values only); for items ``"bootstrap"`` (default; a result needs its `replicate`) or
        ``"influence"`` (needs the scores); for both ``"bootstrap"``. The bootstrap over fewer than some forty units
        claims too much.
    adjust : {"romano_wolf", "max_t", "holm", "benjamini_hochberg", "none"}, optional
        Romano and Wolf's step-down is the default where there are joint replicates, Holm's with ``"t"`` and
        ``"wilcoxon"``. All but the last two hold the probability of any false claim in the family.
    level : float
        Confidence level of the intervals.
    equivalence : float, optional
        A margin: differences up to it do not matter. Adds the two one-sided tests of equivalence and a decision,
        of each pair on its own: neither is adjusted for how many pairs there are.
    n_resamples : int, optional
        Resamples; by default 10,000 of units, 1,000 of items, or as many as the result keeps.
    seed : int
        Keys the random numbers: those of a query or data set depend on its name, never on the models.
    incomplete : {"raise", "drop"}
        What to do if some models lack the estimate of a unit: an error that names them, or leave out the unit for all
        models (without units: the models). A unit that no model has an estimate of is left out and counted.
    chunk : int, optional
        Lay out all pairs as Dask arrays in chunks of so many models; by default from 500 models on. The
        numbers are the same bit by bit.
    **options
        Options of :func:`aucpr_dask.evaluate`, if `data` are scores.

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        Over (model, other_model) or (model, baseline): ``difference``, ``standard_error``, ``interval`` and
        ``simultaneous_interval`` (with ci_bound), ``p_value``, ``p_adjusted``; with a margin ``p_equivalence``,
        ``share_inside`` and ``decision``; beside them ``estimate(model)`` and ``n_units``. The attribute
        ``design`` says what was resampled and what is fixed.

    Raises
    ------
    InvalidInputError
        If an option is not allowed, or the data do not hold what the method needs.
    AlignmentError
        If some models lack units, or labels stand twice.

    References
    ----------
    Romano & Wolf 2005, doi:10.1198/016214504000000539 (step-down, simultaneous). Smucker, Allan & Carterette 2007,
    doi:10.1145/1321440.1321528 (randomisation, bootstrap and t tests over queries). Schuirmann 1987,
    doi:10.1007/BF01068419 (equivalence).

    Examples
    --------
    >>> areas = [[0.2, 0.4, 0.6, 0.3, 0.5], [0.1, 0.2, 0.5, 0.1, 0.2], [0.2, 0.5, 0.5, 0.3, 0.6]]
    >>> result = xr.Dataset(
    ...     {"estimate": (("model", "query"), areas)},
    ...     coords={"model": ["bm25", "tfidf", "neural"], "query": list("abcde")},
    ... )
    >>> comparison = compare(result, "bm25")
    >>> comparison["difference"].sel(baseline="bm25").values.round(3)
    array([ 0.  , -0.18,  0.02])
    >>> comparison["p_value"].sel(baseline="bm25").values
    array([1.    , 0.0625, 1.    ])
    >>> comparison.attrs["design"]
    'signs flipped: the differences on 5 queries, each with its items, all 32 choices of signs; fixed: the 3 models'
    """
    question = checked_question(
        estimator=estimator,
        over=over,
        sample=sample,
        method=method,
        adjust=adjust,
        level=level,
        margin=equivalence,
        n_resamples=n_resamples,
        seed=seed,
        incomplete=incomplete,
    )
    answered = ask(data, question, options, compare)
    if over == DATASET:
        return _compare(answered, DATASET, question, baseline, chunk)

    def compare_node(path: str, node: xr.Dataset) -> xr.Dataset:
        with naming(path):
            return _compare(node, unit_dim(node), question, baseline, chunk)

    return map_nodes(answered, compare_node)


@dataclass(frozen=True)
class Question:
    """What is asked of a result; the same for comparisons and ranks."""

    estimator: str | None
    over: str
    sample: str | None
    method: str | None
    level: float
    n_resamples: int | None
    seed: int
    incomplete: str
    adjust: str | None = None
    margin: float | None = None


def checked_question(**answers: Any) -> Question:
    """Check options that need no data."""
    choose(OVER, answers["over"], "over")
    choose(INCOMPLETE, answers["incomplete"], "incomplete")
    fraction(answers["level"], "level")
    _check_count(answers["n_resamples"], "n_resamples", 2)
    _check_count(answers["seed"], "seed", 0)
    return Question(**answers)


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Add the name of the data set, if it has one, to what is wrong with it."""
    try:
        yield
    except InvalidInputError as error:
        if not path:
            raise
        raise error.with_part("data set", repr(path)) from error


def unit_dim(node: xr.Dataset) -> str | None:
    """Return the dimension of the units of one data set: its queries, if it has any."""
    return QUERY if QUERY in node["estimate"].dims else None


def ask(data: Scores, question: Question, options: Mapping[str, Any], asked: Callable[..., object]) -> Any:
    """Return results that hold what the question needs, data sets stacked if they are the units.

    Scores are evaluated; with replicates, or with the covariance of the models, as the question needs. `asked` is the
    public function with these options.
    """
    refuse_unknown_options(options, asked, evaluate, without=SET_HERE)
    is_scores = are_scores(data, options)
    if is_scores and question.over != DATASET and question.sample != ITEMS:
        for path, node in nodes_of(data):
            refuse_dependent_queries(node, path)
    if question.method == "influence":
        return _with_covariance(data, question, options, is_scores=is_scores)
    if is_scores:
        data = _evaluated(data, question, options)
    require_results(data)
    return stack_data_sets(data, question.incomplete) if question.over == DATASET else data


def are_scores(data: Scores, options: Mapping[str, Any]) -> bool:
    """Whether the data are still to be evaluated, with these options: those of an evaluation go with scores only."""
    if not isinstance(data, xr.Dataset | xr.DataTree) or not list(nodes_of(data)):
        raise InvalidInputError(
            "there is nothing here", received=type(data).__name__, allowed="a Dataset or DataTree with data"
        )
    is_scores = all("score" in node and "estimate" not in node for _, node in nodes_of(data))
    if options and not is_scores:
        raise InvalidInputError(
            "these are options of an evaluation, and this result is evaluated already",
            received=", ".join(options),
            remedy="pass the scores to evaluate them with these options",
        )
    return is_scores


def require_results(data: Scores) -> None:
    """Raise unless every data set has estimates."""
    missing = [path for path, node in nodes_of(data) if "estimate" not in node]
    if missing:
        raise InvalidInputError(
            "this is neither a result nor scores: it has no variable 'estimate'",
            where=", ".join(f"data set {path!r}" for path in missing if path) or None,
            remedy="pass what aucpr_dask.evaluate returns",
        )


def _evaluated(scores: Scores, question: Question, options: Mapping[str, Any]) -> Scores:
    """Evaluate scores, with replicates of the items where the items are the sample."""
    validate_scores(scores, positive_from=options.get("positive_from"))
    estimators = (question.estimator or "average_precision",)
    plain = {"estimators": estimators, "intervals": (), **options}
    resampled = plain | {"keep_replicates": True, "seed": question.seed}
    resampled["n_resamples"] = question.n_resamples or ITEM_RESAMPLES

    def evaluate_node(path: str, node: xr.Dataset) -> xr.Dataset:
        has_units = question.over == DATASET or QUERY in node["score"].dims
        items = question.sample in (ITEMS, BOTH) or (question.sample is None and not has_units)
        return evaluate_dataset(node, path, EvaluationOptions.of(**(resampled if items else plain)))

    return map_nodes(scores, evaluate_node)


def _with_covariance(data: Scores, question: Question, options: Mapping[str, Any], *, is_scores: bool) -> Scores:
    if not is_scores and not all("covariance" in node for _, node in nodes_of(data)):
        raise InvalidInputError(
            "method='influence' needs the scores, or what aucpr_dask.covariance returns",
            received="a result without the variable 'covariance'",
            remedy="pass the scores in place of the result",
        )
    if question.over == DATASET:
        raise InvalidInputError(
            "method='influence' compares models within a data set",
            received="over='dataset'",
            remedy="with the data sets fixed, sample='items' and method='bootstrap'",
        )
    if not is_scores:
        return data
    unused = [name for name in options if name not in inspect.signature(covariance).parameters]
    if unused:
        raise InvalidInputError(
            "method='influence' knows no such option",
            received=", ".join(map(repr, unused)),
            allowed="missing, positive_from, unjudged, unit, prevalence_design",
            remedy="method='bootstrap' takes all options of an evaluation",
        )
    return covariance(data, question.estimator or "average_precision", **options)


@dataclass(frozen=True)
class Prepared:
    """A method, filled with the estimates it works on, and what to say of it."""

    method: Method
    estimates: Estimates
    design: Design
    n_resamples: int
    complete: bool

    @property
    def plain_labels(self) -> NDArray[Any]:
        """The models' labels; strings as objects, which every store can hold."""
        labels = self.estimates.models
        return np.array(labels, dtype=object if labels.dtype.kind in "OUT" else None)


def prepare(node: xr.Dataset, dim: str | None, question: Question) -> Prepared:
    """Read what the question needs from one result and fill the method with it."""
    design = settle(dim, question.sample, question.method, question.adjust)
    estimates = read_estimates(node, dim, question.estimator, question.incomplete)
    if len(estimates.models) < 2:
        raise InvalidInputError(
            "there is only one model", received=few(map(repr, estimates.names)), allowed="two or more"
        )
    if design.sample != ITEMS and len(estimates.units) < 2:
        raise InvalidInputError(
            "one unit says nothing of others",
            received=f"{dim} {few(map(repr, estimates.units))}",
            remedy="sample='items' takes the items as the sample, and the units as fixed",
        )
    goal = Goal(question.level, question.margin)
    n_resamples = question.n_resamples or UNIT_RESAMPLES
    method: Method
    if design.method == "influence":
        matrix = _covariance_of_means(node, estimates)
        method = Influence(estimates.mean, matrix, estimates.names, goal, n_resamples, question.seed)
    elif design.sample != UNITS:
        replicates = _item_replicates(node, estimates, design, question)
        n_resamples = replicates.shape[1]
        method = Resampling(estimates.mean, replicates, goal)
    elif design.method == "bootstrap":
        replicates = unit_replicates(estimates.values, estimates.units, n_resamples, question.seed)
        method = Resampling(estimates.mean, replicates, goal)
    elif design.method == "sign_flip":
        method = SignFlips(estimates.values, estimates.units, goal, n_resamples, question.seed)
        n_resamples = method.sample.centred.shape[1]
    else:
        method = Student(estimates.values, goal) if design.method == "t" else Wilcoxon(estimates.values)
        n_resamples = 0
    complete = method.sample is not None and method.sample.complete
    return Prepared(method, estimates, design, n_resamples, complete)


def _item_replicates(node: xr.Dataset, estimates: Estimates, design: Design, question: Question) -> Floats:
    """Return the replicates (M, R) of the means over units, from those of the items."""
    require_replicates(node, f"sample={design.sample!r}")
    kept = node.sizes[RESAMPLE]
    wanted = question.n_resamples or kept
    if wanted > kept:
        raise InvalidInputError(
            "the result keeps fewer resamples",
            received=f"n_resamples={wanted}",
            allowed=f"up to {kept}",
            remedy=f"evaluate(scores, ..., keep_replicates=True, n_resamples={wanted})",
        )
    node = node[[REPLICATE]].isel({RESAMPLE: slice(wanted)})
    seed = question.seed if design.sample == BOTH else None
    replicates = read_replicates(node, estimates, question.estimator, seed)
    _refuse_undefined_replicates(replicates, estimates)
    return replicates


def _refuse_undefined_replicates(replicates: Floats, estimates: Estimates) -> None:
    """Raise if a replicate is not a number, with how many are not, model by model."""
    undefined = np.count_nonzero(~np.isfinite(replicates), axis=1)
    if undefined.any():
        counts = [f"{name!r}: {number:,}" for name, number in zip(estimates.names, undefined, strict=True) if number]
        raise InvalidInputError(
            "some resamples have no estimate: no positive was drawn, or scores without the spread that it needs",
            received=f"of {replicates.shape[1]:,} resamples without an estimate {few(counts)}",
            remedy="another estimator (average_precision needs no spread); unit='items' and "
            "prevalence_design='fixed', which draw as many positives as there are; or data with more positives",
        )


def _covariance_of_means(node: xr.Dataset, estimates: Estimates) -> Floats:
    """Return the covariance (M, M) of the means over units that are fixed: each has items of its own."""
    matrix = node["covariance"].transpose(..., MODEL, OTHER_MODEL)
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


def _compare(
    node: xr.Dataset, dim: str | None, question: Question, baseline: Baseline | None, chunk: int | None
) -> xr.Dataset:
    prepared = prepare(node, dim, question)
    columns = None if baseline is None else _positions(baseline, prepared.estimates.names)
    n_models = len(prepared.estimates.models)
    names = quantities_of(
        has_intervals=not isinstance(prepared.method, Wilcoxon),
        has_margin=question.margin is not None and not isinstance(prepared.method, Wilcoxon),
    )
    if question.margin is not None and isinstance(prepared.method, Wilcoxon):
        raise InvalidInputError(
            "method='wilcoxon' does not test equivalence", remedy="method='sign_flip', 't' or 'bootstrap'"
        )
    adjust = prepared.design.adjust
    arrays: Mapping[str, Any]
    if columns is None and (chunk is not None or n_models > LAZY_FROM):
        arrays = lazy_all_pairs(prepared.method, n_models, adjust, names, chunk or LAZY_CHUNK)
        family_size = n_models * (n_models - 1) // 2
    else:
        everyone = np.arange(n_models)
        first, second = families.all_pairs(n_models) if columns is None else families.against(columns, n_models)
        family, adjusted, quantile = compare_family(prepared.method, first, second, adjust)
        across: Indices = everyone if columns is None else np.array(columns)
        arrays = lay_out(names, family, adjusted, quantile, everyone, across)
        family_size = first.size
    other = OTHER_MODEL if columns is None else BASELINE
    labels = prepared.plain_labels
    comparison = xr.Dataset(
        {name: ((MODEL, other, BOUND)[: np.ndim(array)], array) for name, array in arrays.items()},
        coords={MODEL: labels, other: labels if columns is None else labels[columns]},
    )
    comparison["estimate"] = (MODEL, prepared.estimates.mean)
    return annotate(comparison, node, prepared, question, {"family_size": family_size})


def annotate(
    dataset: xr.Dataset, node: xr.Dataset, prepared: Prepared, question: Question, more: Mapping[str, Any]
) -> xr.Dataset:
    """Add coordinates, counts, descriptions, and the attributes that say how the numbers came about."""
    design, estimates = prepared.design, prepared.estimates
    if BOUND in dataset.dims:
        dataset = dataset.assign_coords({BOUND: np.array(BOUNDS, dtype=object), "level": question.level})
    if design.dim is not None:
        dataset["n_units"] = ((), np.int64(len(estimates.units)))
    for name, variable in dataset.data_vars.items():
        variable.attrs["description"] = DESCRIPTIONS[str(name)]
        variable.attrs["units"] = "1"
        if "interval" in str(name):
            variable.attrs |= {"ci_kind": interval_kind(design), "ci_prob": question.level}
    if "decision" in dataset:
        dataset["decision"].attrs |= {
            "flag_values": list(range(len(DECISIONS))),
            "flag_meanings": " ".join(DECISIONS),
        }
    kept = {name: value for name, value in node.attrs.items() if str(name).startswith("source")}
    sentence = describe(
        design,
        len(estimates.models),
        len(estimates.units),
        prepared.n_resamples,
        node.attrs,
        complete=prepared.complete,
    )
    facts = {
        "estimator": estimator_name(node, question.estimator),
        "over": design.dim,
        "sample": design.sample,
        "method": design.method,
        "adjust": design.adjust,
        "level": question.level,
        "equivalence": question.margin,
        "n_resamples": prepared.n_resamples or None,
        "seed": _seed_of(node, design, question) if prepared.n_resamples else None,
        "left_out": list(estimates.left_out) or None,
    }
    known = {name: value for name, value in facts.items() if value is not None}
    dataset.attrs = {"design": sentence} | kept | known | dict(more) | {"versions": versions()}
    return dataset


def _seed_of(node: xr.Dataset, design: Design, question: Question) -> Any:
    """Return the seed of the random numbers: the items' is that of their evaluation."""
    drawn_before = design.sample == ITEMS and design.method == "bootstrap"
    return node.attrs.get("seed") if drawn_before else question.seed


def interval_kind(design: Design) -> str:
    """Name the intervals of a method."""
    return {
        "sign_flip": "Student statistic, quantile of flipped residuals",
        "bootstrap": "symmetric bootstrap-t with a common error",
        "t": "Student t (simultaneous: Bonferroni)",
        "influence": "normal (simultaneous: largest of normal draws)",
    }[design.method]


def estimator_name(node: xr.Dataset, estimator: str | None) -> str | None:
    """Return the name of the estimator that models are compared by."""
    if estimator is not None:
        return estimator
    if "estimator" in node.coords:
        return str(np.atleast_1d(node["estimator"].values)[0])
    return node.attrs.get("estimator")


def _positions(baseline: Baseline, names: Sequence[str]) -> list[int]:
    """Return the positions of the baselines among the models."""
    wanted = [str(label) for label in np.atleast_1d(np.asarray(baseline, dtype=object))]
    unknown = [name for name in wanted if name not in names]
    if unknown or not wanted or len(set(wanted)) < len(wanted):
        close = [near for name in unknown for near in difflib.get_close_matches(name, names, n=3)]
        raise InvalidInputError(
            "there is no such model" if unknown else "name one or more baselines, each once",
            received=", ".join(map(repr, unknown or wanted)) or "no baseline",
            allowed=few(map(repr, close or names)),
        )
    return [names.index(name) for name in wanted]


def _check_count(value: object, option: str, least: int) -> None:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if value is not None and not (whole and int(value) >= least):  # type: ignore[call-overload]
        raise InvalidInputError(f"{option} is a whole number", received=repr(value), allowed=f"{least} or more")
