"""What a statement is about, and the words for it: its numbers and units, what is sampled, and by which method.

Numbers are areas by an estimator, or values of any measure, which name their own units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from aucpr_dask.errors import InvalidInputError, few
from aucpr_dask.evaluation.results import laid_out
from aucpr_dask.schema import estimators, options, terms
from aucpr_dask.schema.checks import choose

UNITS, ITEMS, BOTH = options.SAMPLES
BY_P_VALUE = ("holm", "benjamini_hochberg", "none")  # adjustments without joint replicates
POWERED, CORRECTED = "prediction_powered", "corrected_t"
RANDOM_EFFECTS = "random_effects"  # over data sets whose variances are known
UNIT_RESAMPLES, ITEM_RESAMPLES = 10_000, 1000
# Attributes of results whose models lack items: how many are compared, and how many items and positives each lacks.
COMPARED, SCORED, COSTS = "items_compared", "items_scored", "items_lacked"
UNSCORED, UNSCORED_POSITIVE = "items_unscored", "positives_unscored"  # by any model
IN_CLUSTERS = "queries_in_clusters"  # attribute of results whose units are clusters of queries
UNBOUNDED = ("gain_area",)  # areas that may lie below 0, so that differences of two may be above 1
HAS_SCORES = "has_scores"  # attribute of results that were just made from scores
ENOUGH_UNITS = 30  # from which a power is stated, and a pass stands alone
COMMON_ERROR = "symmetric bootstrap with a common error"


@dataclass(frozen=True)
class Method:
    """A row of the table of methods of comparison."""

    sample: str
    name: str
    needs: str  # what of the sample it is made from
    condition: str | None  # when it keeps its level
    interval: str = ""  # in words
    is_joint: bool = False  # replicates of all models together adjust a family


BONFERRONI = " (simultaneous: Bonferroni)"
FLIPPED, SWAPPED = "Student statistic, quantile of flipped residuals", "reach of the differences under swaps"
MODERATED = "Student t, moderated variance (simultaneous: largest of Student draws)"
OVERLAPPING = "corrected for training parts that overlap, approximate"
LABELLED = "approximate, with a random sample of units labelled by people"

TABLE = (
    Method(UNITS, "sign_flip", "units", "exact if differences are jointly symmetric", FLIPPED, True),
    Method(UNITS, "bootstrap_t", "units", "approximate, also if differences are skewed", "symmetric bootstrap-t", True),
    Method(UNITS, "bootstrap", "units", "approximate, with many units", COMMON_ERROR, True),
    Method(UNITS, "t", "units", "exact if differences are normal", f"Student t{BONFERRONI}"),
    Method(UNITS, "wilcoxon", "units", "exact if differences are symmetric"),
    Method(UNITS, RANDOM_EFFECTS, "variances", None, f"Student t over data sets{BONFERRONI}"),  # see WEIGHED
    Method(UNITS, CORRECTED, "folds", OVERLAPPING, f"Student t, Nadeau and Bengio's variance{BONFERRONI}"),
    Method(UNITS, POWERED, "machine labels", LABELLED, f"Student t, prediction-powered{BONFERRONI}"),
    Method(ITEMS, "bootstrap", "replicates", "approximate, with many positives", COMMON_ERROR, True),
    Method(ITEMS, "influence", "influences", "approximate; needs at least 10 positives", MODERATED, True),
    Method(ITEMS, "rank_swap", "ranks", "exact if the two models are exchangeable", f"{SWAPPED}{BONFERRONI}"),
    Method(BOTH, "bootstrap", "replicates", "conservative", COMMON_ERROR, True),
)
METHODS = {(one.sample, one.name): one for one in TABLE}
NAMES = {
    sample: tuple(one.name for one in TABLE if one.sample == sample and one.name != POWERED)
    for sample in (UNITS, ITEMS, BOTH)
}
"""The methods of each kind of sample, the default first."""

WITH_MACHINE = {UNITS: (POWERED,)}
"""The methods where people labelled a part of the units, and a machine all."""

WEIGHED = {
    "equal": "equal weights of data sets; exact if differences are normal",
    "precision": "weighted by precision, so larger data sets carry more weight; approximate if size does not matter; "
    "needs at least 5 data sets",
    "regression": "read off at the mean of log sizes; approximate, if differences are linear in them",
}
"""How data sets count whose variances are known, and when that keeps its level."""


# --- numbers and units ------------------------------------------------------------------------------------------------


def unit_names(dim: str, attrs: Mapping[Any, Any]) -> tuple[str, str]:
    """Return what one unit of a result with these attributes is called, and what several are."""
    if dim == terms.QUERY and IN_CLUSTERS in attrs:
        one, several = "cluster of queries", "clusters of queries"
        return terms.clusters_in_words(attrs, one), terms.clusters_in_words(attrs, several)
    unit = str(attrs.get(terms.UNIT, dim)) if dim == terms.QUERY else dim.replace("dataset", "data set")
    return unit, terms.plural(unit)


def are_values(node: xr.Dataset) -> bool:
    """Return whether a result holds values of any measure, and not areas of rankings."""
    return terms.UNIT in node.attrs


def are_on_unit_scale(node: xr.Dataset) -> Any:
    """Return whether the estimates of a result lie in [0, 1] by their measure; of values, if all do and more is better.

    An array over the estimators, or measures, if there are several.
    """
    estimate = node["estimate"]
    dim = estimator_dim(estimate)
    names = estimators_of(node)
    if terms.NORMALISED in node.attrs:
        return False
    if not are_values(node) and names and all(name.partition("(")[0] in estimators.ESTIMATORS for name in names):
        are_areas = [not name.startswith(UNBOUNDED) for name in names]
        return xr.DataArray(are_areas, {dim: names}, dim) if dim is not None and len(names) > 1 else all(are_areas)
    others = [one for one in estimate.dims if one != dim]
    is_inside = (((estimate >= 0) & (estimate <= 1)) | estimate.isnull()).all(others).compute()
    is_more_better = [direction(node.attrs, name) > 0 for name in names] or [True]
    return is_inside & np.array(is_more_better if dim is not None else is_more_better[0])


def direction(attrs: Mapping[Any, Any], measure: str | None = None) -> float:
    """Return 1, or -1 if less is better, of the named measure or the one that the attributes name."""
    return -1.0 if (measure or attrs.get(terms.MEASURE)) in attrs.get(terms.LOWER, ()) else 1.0


def better(attrs: Mapping[Any, Any], measure: str | None = None) -> str:
    """Say which way is better, of the named measure or the one that the attributes name."""
    return "more is better" if direction(attrs, measure) > 0 else "less is better"


def estimators_of(node: xr.Dataset) -> list[str]:
    """Return the names of the estimators, or measures, of a result; none if it doesn't say."""
    for name in (terms.ESTIMATOR, terms.MEASURE):
        if name in node.coords:
            return [str(one) for one in np.atleast_1d(node[name].values)]
    return [str(node.attrs[name]) for name in (terms.MEASURE, "estimator") if name in node.attrs][:1]


def estimator_dim(variable: xr.DataArray) -> str | None:
    """Return the dimension of estimators, or of measures, if there is one."""
    return next((name for name in (terms.ESTIMATOR, terms.MEASURE) if name in variable.dims), None)


def measured(attrs: Mapping[Any, Any], name: object = None) -> str:
    """Return what a result with these attributes estimates, or `name`, in words; measures are called as users do.

    >>> measured({"estimator": "average_precision"}), measured({"unit": "topic", "measure": "ndcg_cut_10"})
    ('average precision', 'ndcg_cut_10')
    """
    name = _recorded(attrs) if name is None else name
    beyond = {"random": " beyond chance", "minimum": " above the worst"}.get(attrs.get(terms.NORMALISED, ""), "")
    return f"{name if terms.UNIT in attrs else terms.in_words(str(name))}{beyond}"


def named_values(attrs: Mapping[Any, Any]) -> str:
    """Name the measure of values, or their column if it has no name; nothing of areas of rankings.

    >>> named_values({"unit": "task", "measure": "WER", "value_column": "x"}), named_values({"estimator": "haldane"})
    ('WER', '')
    >>> named_values({"unit": "task", "measure": "value", "value_column": "x"})
    "column 'x'"
    """
    measure, column = measured(attrs) if terms.UNIT in attrs else "", attrs.get(terms.VALUE_COLUMN)
    return measure if measure != "value" else f"column {column!r}" if column else ""


def _recorded(attrs: Mapping[Any, Any]) -> object:
    return attrs.get(terms.MEASURE, attrs.get("estimator", "estimate"))


def noun(attrs: Mapping[Any, Any]) -> str:
    """Return what one number of a result with these attributes is called."""
    return "value" if terms.UNIT in attrs else "area"


def with_estimators(node: xr.Dataset) -> xr.Dataset:
    """Return a result with axes of estimators (or in their place measures) and intervals, also if one was selected."""
    if terms.MEASURE in node.coords:
        node = node.rename({terms.MEASURE: terms.ESTIMATOR})
    if terms.ESTIMATOR not in node.coords and terms.ESTIMATOR not in node["estimate"].dims:
        node = node.assign_coords({terms.ESTIMATOR: str(_recorded(node.attrs))})
    return laid_out(node, (terms.ESTIMATOR, terms.METHOD))


# --- samples ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sampling:
    """What is averaged over, what is sampled, and by which method."""

    dim: str | None  # the units' dimension
    sample: str
    method: str
    adjust: str

    @property
    def row(self) -> Method:
        """What the table says of the method."""
        return METHODS[self.sample, self.method]

    def over(self, attrs: Mapping[Any, Any]) -> str:
        """Return what an answer varies over, by the names that are asked for: units, items or clusters."""
        drawn = terms.CLASS if self.dim is None and attrs.get("over") == terms.CLASS else drawn_of(attrs)
        units = "clusters" if IN_CLUSTERS in attrs else str(self.dim)
        return {UNITS: units, ITEMS: drawn, BOTH: f"{units}, {drawn}"}[self.sample]


def settle(
    dim: str | None,
    sample: str | None,
    method: str | None,
    adjust: str | None = None,
    methods: Mapping[str, tuple[str, ...]] = NAMES,
) -> Sampling:
    """Fill in defaults, and refuse options that contradict each other."""
    sample = choose(options.SAMPLES, sample or (ITEMS if dim is None else UNITS), "over")
    varying = {UNITS: str(dim), ITEMS: ITEMS, BOTH: f"{dim}, {ITEMS}"}[sample]
    method = choose(methods[sample], methods[sample][0] if method is None else method, f"method for over={varying!r}")
    row = METHODS.get((sample, method))
    by_p_value = row is not None and not row.is_joint
    adjust = choose(options.ADJUSTMENTS, adjust or ("holm" if by_p_value else options.ADJUSTMENTS[0]), "adjust")
    if by_p_value and adjust not in BY_P_VALUE:
        what = f"adjust={adjust!r} needs joint replicates, which method={method!r} does not have"
        others = "method='sign_flip', 'bootstrap_t' or 'bootstrap' has them"
        remedy = "leave adjust out, or auxiliary" if method == POWERED else others
        raise InvalidInputError(what, allowed=", ".join(map(repr, BY_P_VALUE)), remedy=remedy)
    return Sampling(dim, sample, method, adjust)


def reading_of(attrs: Mapping[Any, Any]) -> list[str]:
    """Return what a number depends on besides its estimator: the grade that counts as positive, and the tie rule."""
    grade, ties = attrs.get("positive_from"), attrs.get("ties", "group")
    said = [] if grade is None else [f"positive from grade {grade}"]
    said += [f"by {attrs[terms.COMPUTED_BY]}"] if terms.COMPUTED_BY in attrs else []
    return said + {"trec_eval": ["ties by name"], "expectation": ["ties in expectation"]}.get(str(ties), [])


def describe(
    sampling: Sampling,
    n_models: int,
    n_units: int,
    n_resamples: int,
    attrs: dict[Any, Any],
    *,
    complete: bool = False,
    has_gaps: bool = False,
    n_machine: int = 0,
    condition: str | None = None,
) -> str:
    """Describe what was resampled, what is fixed, and on what condition.

    The replicates may be `complete`, as all choices of signs are; models with gaps lack some of the units.
    """
    models = models_in_words(n_models, attrs)
    unit, several = unit_names(sampling.dim or "", attrs)
    of_values = terms.UNIT in attrs
    units = "" if sampling.dim is None else f"{n_units:,} {several if n_units != 1 else unit}"
    if units and has_gaps:
        units = f"{several} with {'a value' if of_values else 'an estimate'} (up to {n_units:,})"
    if units and n_machine:
        units += f" labelled by people, of {n_machine:,} labelled by machine"
    whole = units if of_values else f"{units}, each with its items"
    times = f"{n_resamples:,} times"
    drawn = drawn_of(attrs)
    is_fixed = drawn == "items" and attrs.get("prevalence_design", "fixed") == "fixed"
    items = f"the {drawn_in_words(attrs)}" + (f" of each {unit}" if units else "")
    items += " with their labels" if drawn == "items" and not is_fixed else ""
    if sampling.sample == BOTH:
        sentence = f"resampled: {units} and {items}, {times}; fixed: {models}"
    elif sampling.sample == ITEMS:
        fixed = [models, *([f"the {units}"] if units else [])]
        fixed += ["the numbers of positives and negatives"] if is_fixed else []
        how = f"resampled: {items}, {times}" if sampling.method == "bootstrap" else f"sample: {items}"
        how = f"ranks swapped: within the {drawn_in_words(attrs)}, {times}" if sampling.method == "rank_swap" else how
        sentence = f"{how}; fixed: {', '.join(fixed)}"
    elif sampling.method in ("bootstrap", "bootstrap_t"):
        sentence = f"resampled: {whole}, {times}; fixed: {models}"
    elif sampling.method == "sign_flip":
        how = f"{'all ' if complete else ''}{n_resamples:,} choices of signs"
        sentence = f"signs flipped: the differences on {whole}, {how}; fixed: {models}"
    else:
        sentence = f"sample: {whole}; fixed: {models}"
    if condition and sampling.sample == ITEMS:
        condition = of_clusters(condition, attrs)
    return "; ".join([sentence, *([condition] if condition else []), *reading_of(attrs)])


def drawn_of(attrs: Mapping[Any, Any]) -> str:
    """Return what of a ranking varies: items, or clusters of them."""
    return "clusters" if "clusters" in str(attrs.get("sampled", attrs.get("resampled", ITEMS))) else ITEMS


def drawn_in_words(attrs: Mapping[Any, Any]) -> str:
    """Return the same, with what the clusters are called."""
    return terms.clusters_in_words(attrs) if drawn_of(attrs) == "clusters" else ITEMS


def of_clusters(condition: str, attrs: Mapping[Any, Any]) -> str:
    """Return a condition on positives as one on clusters with positives, if these vary."""
    return condition.replace("positives", "clusters with positives") if drawn_of(attrs) == "clusters" else condition


def missing_items(attrs: Mapping[Any, Any]) -> list[str]:
    """Say on how many items models are compared, if not on all, and which models cost the others how many."""
    compared, scored = attrs.get(COMPARED, 0), attrs.get(SCORED, 0)
    lacking = [] if compared == scored else attrs[COSTS].items()
    costs = [f"{name!r} lacks {n:,} ({n_positive:,} positive)" for name, (n, n_positive) in lacking if n]
    said = [f"on the {compared:,} of {scored:,} items that all scored: {few(costs)}"] if costs else []
    if unscored := attrs.get(UNSCORED, 0):
        said.append(
            f"without {terms.count(unscored, 'item')} that no model scored ({attrs[UNSCORED_POSITIVE]:,} positive)"
        )
    return said


def repeats_in_words(n_repeats: int, n_folds: int | None) -> str:
    """Say what is averaged over the repeats of a cross-validation, and that their training varies.

    >>> repeats_in_words(4, 5), repeats_in_words(10, None)
    ('means of 4 repeats, 5 folds each, whose training varies, too', 'means of 10 repeats, whose training varies, too')
    """
    folds = "" if n_folds is None else f", {n_folds} folds each"
    return f"means of {n_repeats} repeats{folds}, whose training varies, too"


def models_in_words(n_models: int, attrs: Mapping[Any, Any]) -> str:
    """Name the models, and the classes that their estimates are means over."""
    models = f"the {n_models:,} models" if n_models != 1 else "the model"
    if "n_classes" in attrs:
        models += f", the {attrs['n_classes']:,} classes"
        models += " and their weights" if attrs.get("average") == "weighted" else ""
    return models
