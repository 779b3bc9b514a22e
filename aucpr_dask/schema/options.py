"""One frozen record of options per kind of call: defaults, allowed values and meanings.

Validation, the recorded parameters of a run, the command line and the reference are generated from the fields.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Set
from dataclasses import Field, asdict, dataclass, field, fields, replace
from typing import Any, Self, TypeVar, cast, get_args

from aucpr_dask.errors import bad_argument, clash, refuse_unexpected
from aucpr_dask.schema import checks, choices
from aucpr_dask.schema.estimators import (
    IN_ONE_PASS,
    TIES,
    WITH_INFLUENCE,
    EstimatorSpec,
    estimator_names,
    parse_estimator,
)
from aucpr_dask.schema.intervals import DEFAULT_INTERVALS, INTERVALS, default_intervals, interval_names
from aucpr_dask.schema.terms import CLASS, ESTIMATOR, METHOD, QUERY

MISSING = get_args(choices.Missing)
UNJUDGED = get_args(choices.Unjudged)
NOTHING_RANKED = get_args(choices.NothingRanked)
NO_POSITIVES = get_args(choices.NoPositives)
UNITS = get_args(choices.Unit)
PREVALENCE_DESIGNS = get_args(choices.PrevalenceDesign)
DATASET = "dataset"
AVERAGES = get_args(choices.Average)
SAMPLES = ("units", "items", "both")  # what varies: units (with their items), the items of fixed units, or both apart
WEIGHTS = get_args(choices.Weights)
INCOMPLETE = get_args(choices.Incomplete)
ADJUSTMENTS = get_args(choices.Adjustment)

# What one word says of several options of an evaluation; the others keep their defaults.
CONVENTIONS: dict[str, dict[str, Any]] = {
    "scikit-learn": {},
    "trec_eval": {"missing": "unretrieved", "ties": "trec_eval", "positive_from": 1, "no_positives": "zero"},
}
CONVENTION = "convention"


ALL_RECALLS = (0.0, 1.0)
LARGEST_SEED = 2**128 - 1
MOST_RESAMPLES = 2**31 - 1


def option(
    default: Any,
    description: str,
    *,
    allowed: tuple[str, ...] | None = None,
    least: int | None = None,
    most: int | None = None,
    check: Callable[[Any, str], Any] | None = None,
) -> Any:
    """Declare an option: its default, meaning and values: `allowed`, `least` to `most`, or what `check` returns."""
    metadata = {"description": description, "allowed": allowed, "least": least, "most": most, "check": check}
    return field(default=default, metadata=metadata)


def checked_value(one: Field[Any], value: Any) -> Any:
    """Return the value of an option, converted to its type; raise unless it is allowed."""
    allowed, least, most, check = (one.metadata.get(name) for name in ("allowed", "least", "most", "check"))
    if value is None and one.default is None:
        return None
    if allowed is not None:
        return checks.choose(allowed, value, one.name)
    if least is not None:
        return checks.whole_number(value, one.name, least, most)
    return value if check is None else check(value, one.name)


@dataclass(frozen=True, kw_only=True)
class Options:
    """A record of options, whose fields are declared by :func:`option`."""

    @classmethod
    def among(cls, arguments: Mapping[str, Any]) -> Self:
        """Check the options among the arguments of a function, as `locals()` gives them."""
        return cls(**{one.name: arguments[one.name] for one in fields(cls) if one.name in arguments}).checked()

    def checked(self) -> Self:
        """Return the record with its values converted; raise unless all are allowed, also together."""
        given = [one for one in fields(self) if getattr(self, one.name) is not one.default]
        return replace(self, **{one.name: checked_value(one, getattr(self, one.name)) for one in given})


@dataclass(frozen=True, kw_only=True)
class ResamplingOptions(Options):
    """Which intervals, and how the data are resampled for them."""

    interval: tuple[str, ...] = option(
        DEFAULT_INTERVALS,
        "Intervals around each estimate; by default influence_beta, and influence_log_t or bootstrap of others.",
        check=interval_names,
    )
    level: float = option(0.95, "Confidence level of the intervals.", check=checks.confidence_level)
    n_resamples: int = option(1000, "Resamples of bootstrap intervals.", least=2, most=MOST_RESAMPLES)
    seed: int = option(0, "Seed of resamples and folds.", least=0, most=LARGEST_SEED)
    over: str | None = option(
        None,
        "What is sampled: items, or whole clusters of items; by default clusters where the scores have some.",
        allowed=UNITS,
    )
    keep_replicates: bool = option(
        False, "Keep the estimate of every resample, which compare needs.", check=checks.truth
    )
    prevalence_design: str = option(
        "random",
        "Whether another sample has other numbers of positives and negatives, or the same (stratified samples).",
        allowed=PREVALENCE_DESIGNS,
    )
    n_folds: int = option(10, "Folds of cross-validation intervals.", least=2, most=MOST_RESAMPLES)

    @property
    def intervals(self) -> tuple[str, ...]:
        """The names of the intervals."""
        return self.interval

    @property
    def draws(self) -> bool:
        """Whether a bootstrap draws how often each item or cluster counts."""
        return self.keep_replicates or any("replicates" in INTERVALS[name].needs for name in self.intervals)

    @property
    def uses_folds(self) -> bool:
        """Whether an interval needs a cross-validation."""
        return any("folds" in INTERVALS[name].needs for name in self.intervals)


def groupings(value: Any, name: str) -> tuple[tuple[str, Any], ...]:
    """Return the names of coordinates along the items, each with its grouper, if it has one."""
    listed = list(value.items()) if isinstance(value, Mapping) else [value] if isinstance(value, str) else value
    pairs = list(listed) if isinstance(listed, list | tuple) else []
    pairs = [(one, None) if isinstance(one, str) else one for one in pairs]
    are_named = all(isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str) for one in pairs)
    if pairs and are_named and all(one is None or hasattr(one, "factorize") for _, one in pairs):
        return tuple(pairs)
    allowed = 'the name of a coordinate along the items, a list of names, or {"name": grouper}'
    remedy = "add labels to the scores: scores.assign_coords(site=('item', labels)), and pass by='site'"
    raise bad_argument("groups are named by coordinates", name, value, allowed, remedy)


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions(Options):
    """Which estimates, and how labels, missing scores and ties are read."""

    estimator: tuple[str, ...] = option(checks.One(["average_precision"]), "What to estimate.", check=estimator_names)
    missing: str = option("raise", "What a missing score means.", allowed=MISSING)
    ties: str = option("group", "How equal scores count.", allowed=TIES)
    unjudged: str = option("negative", "What an unjudged item counts as.", allowed=UNJUDGED)
    positive_from: int | None = option(
        None, "Lowest grade that counts as positive, for graded labels.", least=1, most=checks.HIGHEST_GRADE
    )
    nothing_ranked: str = option(
        "count",
        "Whether a query for which a model ranked no item counts (as its missing scores say) or is left out.",
        allowed=NOTHING_RANKED,
    )
    no_positives: str = option(
        "drop", "Whether a query without positives is left out, or has area 0.", allowed=NO_POSITIVES
    )
    prevalence: float | None = option(None, "Reweight to this share of positives.", check=checks.share_of_positives)
    recall_range: tuple[float, float] = option(
        ALL_RECALLS, "Take the area between two recalls only.", check=checks.recall_range
    )
    by: tuple[tuple[str, Any], ...] | None = option(
        None,
        "Evaluate within groups of items, by a coordinate along them (or several): each is a dimension of the result.",
        check=groupings,
    )
    resampling: ResamplingOptions = field(
        default=ResamplingOptions(), metadata={"check": lambda options, _: options.checked()}
    )

    @classmethod
    def among(cls, arguments: Mapping[str, Any], **others: Any) -> Self:
        """Check the options among the arguments of a function, as `locals()` gives them, and `others`."""
        names = (*option_names(cls), CONVENTION)
        return cls.of(**{name: arguments[name] for name in names if name in arguments}, **others)

    @classmethod
    def of(cls, *, convention: str | None = None, **options: Any) -> Self:
        """Check keyword arguments, those of the resampling among them, and return the record."""
        # A reading of labels, missing scores and ties that is None follows the convention; intervals that are None, or
        # not given, follow the estimators.
        known = {} if convention is None else CONVENTIONS[checks.choose(tuple(CONVENTIONS), convention, CONVENTION)]
        chosen = (*READINGS, "interval")
        given = {name: value for name, value in options.items() if value is not None or name not in chosen}
        has_interval = "interval" in given
        options = known | given
        names = ResamplingOptions.__dataclass_fields__.keys() & options.keys()
        if names:
            options["resampling"] = ResamplingOptions(**{name: options.pop(name) for name in names})
        checked = cls(**options).checked()
        if has_interval:
            return checked
        return checked.with_default_intervals(is_weighted=False)

    def as_parameters(self) -> dict[str, Any]:
        """Return all options in one flat dict, as JSON keeps them."""
        named = asdict(self)
        named |= named.pop("resampling")
        if named.pop("by"):
            named["by"] = self.groups_in_words
        return {name: list(value) if isinstance(value, tuple) else value for name, value in named.items()}

    @property
    def estimators(self) -> tuple[str, ...]:
        """The names of the estimators."""
        return self.estimator

    def checked(self) -> Self:
        """Also raise if two options contradict each other."""
        options = super().checked()
        specs = [parse_estimator(name)[0] for name in options.estimators]
        for spec in specs:
            checks.choose(spec.ties, options.ties, f"ties for {spec.name!r}")
        what = options._clash(specs)
        if what is not None:
            given = {"ties": options.ties, "prevalence": options.prevalence, "recall_range": options.recall_range}
            allowed = "ties='group'; estimators of a partial area with recall_range"
            raise clash(what, "leave out one of these options", allowed, estimator=options.estimators, **given)
        return options

    def _clash(self, specs: list[EstimatorSpec]) -> str | None:
        """Return which two options contradict each other, if any."""
        is_part = self.recall_range != ALL_RECALLS
        if is_part and not all(spec.partial for spec in specs):
            names = ", ".join(spec.name for spec in specs if not spec.partial)
            return f"{names}: no meaning over a range of recall"
        if is_part and self.ties == "expectation":
            return "ties in expectation have no area over a range of recall"
        if self.prevalence is not None and any(spec.is_cutoff for spec in specs):
            return "the first k items have no meaning at another prevalence"
        if self.prevalence is not None and self.ties == "expectation":
            return "ties in expectation have no other prevalence"
        return None

    @property
    def groups_in_words(self) -> list[str] | None:
        """The grouping coordinates, each with its grouper if it has one."""
        return [name if one is None else f"{name}: {one}" for name, one in self.by] if self.by else None

    def with_default_intervals(self, *, is_weighted: bool) -> Self:
        """Return the options with the intervals of these estimators, whose items have weights or not."""
        extrapolates = (self.prevalence is not None or is_weighted) and self.recall_range == ALL_RECALLS
        names = default_intervals(self.estimators, self.with_influence, ties=self.ties, extrapolates=extrapolates)
        return replace(self, resampling=replace(self.resampling, interval=names))

    @property
    def single(self) -> dict[str, str]:
        """The names, by dimension, that a result has as scalar coordinates: those not asked for as a list."""
        asked = {ESTIMATOR: self.estimators, METHOD: self.resampling.intervals}
        return {dim: names[0] for dim, names in asked.items() if isinstance(names, checks.One) and len(names) == 1}

    @property
    def with_influence(self) -> tuple[str, ...]:
        """The estimators whose influence functions give standard errors."""
        known = () if self.ties == "expectation" else WITH_INFLUENCE
        known = known if self.recall_range == ALL_RECALLS else tuple(name for name in known if name != "haldane")
        return tuple(name for name in self.estimators if name in known)

    @property
    def in_one_pass(self) -> tuple[str, ...]:
        """Those of them whose kernels find standard errors together with the estimates, as they do over all recalls."""
        is_whole = self.recall_range == ALL_RECALLS
        return tuple(name for name in self.with_influence if is_whole and name in IN_ONE_PASS)


# How labels, missing scores and ties are read; None where a convention decides.
READINGS = ("missing", "ties", "unjudged", "positive_from", "nothing_ranked", "no_positives")


_Function = TypeVar("_Function", bound=Callable[..., Any])


def takes(reading: type[Mapping[str, Any]]) -> Callable[[_Function], _Function]:
    """Let a function that ends with ``**reading`` take the options of a typed dictionary, and show them."""
    # Readers, editors and the reference see the defaults of the record, or None where a convention may decide.
    defaults = {one.name: one.default for one in fields(EvaluationOptions)}
    types = reading.__annotations__
    if CONVENTION in types:
        defaults |= dict.fromkeys((*READINGS, CONVENTION))

    def decorate(function: _Function) -> _Function:
        plain = inspect.signature(function)
        own, kind = list(plain.parameters.values())[:-1], inspect.Parameter.KEYWORD_ONLY
        shown = [inspect.Parameter(name, kind, default=defaults[name], annotation=types[name]) for name in types]
        signature = plain.replace(parameters=[*own, *shown])

        @functools.wraps(function)
        def with_known_options(*arguments: Any, **options: Any) -> Any:
            refuse_unexpected(function, options, signature.parameters)  # options of other functions would be passed on
            return function(*arguments, **options)

        with_known_options.__signature__ = signature  # type: ignore[attr-defined]
        return cast(_Function, with_known_options)

    return decorate


def varying(value: Any, name: str) -> str | tuple[str, ...]:
    """Return what an answer varies over: one name, or several in their order."""
    listed = value.split(",") if isinstance(value, str) else checks.names_of(value, name)
    names = tuple(checks.text(one.strip() if isinstance(one, str) else one, name) for one in listed)
    if not names or len(set(names)) < len(names) or not all(names) or set(UNITS) <= set(names):
        allowed, remedy = "'items', 'clusters' or the name of a dimension, or several, each once", "name one"
        raise bad_argument("what varies needs names", name, value, allowed, remedy)
    return names[0] if len(names) == 1 else names


@dataclass(frozen=True, kw_only=True)
class SampleOptions(Options):
    """What a statement varies over, and how it resamples."""

    over: str | tuple[str, ...] | None = option(
        None,
        "What the answer varies over: items, clusters, query, dataset, class or another dimension, or several "
        "(query,items); by default queries where there are any, in clusters if they have some, or else items.",
        check=varying,
    )
    method: str | None = option(None, "How intervals and p-values are found.", check=checks.text)
    level: float = option(0.95, "Confidence level of the intervals.", check=checks.confidence_level)
    n_resamples: int | None = option(
        None,
        "Resamples; by default 10,000 of units, 1,000 of items, or as many as the result keeps.",
        least=2,
        most=MOST_RESAMPLES,
    )
    seed: int = option(0, "Seed of the resamples.", least=0, most=LARGEST_SEED)

    def checked(self) -> Self:
        """Also raise if folds or repeats are to vary, other than by their own test."""
        options = super().checked()
        folds = [name for name in options.dims if name in checks.FOLDS]
        if folds and (folds != ["fold"] or options.method != "corrected_t"):
            raise checks.folds_as_units("argument 'over'", repr(options.over))
        return options

    @property
    def names(self) -> tuple[str, ...]:
        """What varies, by name; nothing by default."""
        return () if self.over is None else (self.over,) if isinstance(self.over, str) else tuple(self.over)

    @property
    def dims(self) -> tuple[str, ...]:
        """The dimensions that vary, by name."""
        return tuple(name for name in self.names if name not in UNITS)

    @property
    def dim(self) -> str:
        """The dimension of the units; queries by default. Several are one, by their names."""
        return ", ".join(self.dims) or QUERY

    @property
    def drawn(self) -> str | None:
        """Whether items or clusters of them vary, if one is named."""
        return next((name for name in self.names if name in UNITS), None)

    @property
    def unit(self) -> dict[str, str]:
        """The option of an evaluation that draws what is named: items, or clusters of them."""
        return {} if self.drawn is None else {"over": self.drawn}

    @property
    def sample(self) -> str | None:
        """What varies, of :data:`SAMPLES`; None where it follows the data."""
        if self.drawn is not None and self.dims and self.dims != (CLASS,):
            return "both"
        if self.drawn is not None:
            return "items"
        return "units" if self.dims and self.dims != (CLASS,) else None


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions(SampleOptions):
    """Options of comparisons and ranks."""

    estimator: str | None = option(
        None, "Compare by this estimator; by default the first of the result.", check=checks.text
    )
    adjust: str | None = option(
        None,
        "How p-values are adjusted for all comparisons; by default romano_wolf where replicates are joint, or holm.",
        allowed=ADJUSTMENTS,
    )
    equivalence: float | None = option(
        None, "Margin up to which differences do not matter, for each pair alone.", check=checks.margin
    )
    incomplete: str = option(
        "raise",
        "What to do if some models lack a unit: raise an error, drop the unit, or drop these models.",
        allowed=INCOMPLETE,
    )
    baseline: str | int | tuple[str | int, ...] | None = option(
        None, "Models to compare all others with; by default all pairs are compared."
    )
    weights: str = option(
        "equal",
        "Weights of data sets: equal, by precision, or a regression on their size, read off at the mean size.",
        allowed=WEIGHTS,
    )
    chunk: int | None = option(None, "Lay out all pairs as Dask arrays in chunks of this many models.", least=1)


@dataclass(frozen=True, kw_only=True)
class AggregationOptions(SampleOptions):
    """How estimates are averaged."""

    how: str = option("macro", "Average estimates, or pool all items into one ranking.", allowed=get_args(choices.How))
    average: str | None = option(
        None,
        "How classes are averaged: alike (macro, the default), by their positives (weighted), all pairs of an item and "
        "a class in one ranking (micro), or the areas of the items, each of which ranks the classes (samples).",
        allowed=AVERAGES,
    )
    incomplete: str | None = option(
        None,
        "What to do if some models lack a unit: raise an error, drop the unit, or drop these models.",
        allowed=INCOMPLETE,
    )


@dataclass(frozen=True, kw_only=True)
class ReportOptions(Options):
    """What a report shows of a result."""

    title: str = option("Ranking report", "Heading of the page.", check=checks.text)
    interval_method: str | None = option(
        None, "Which interval to show; by default the first that every estimator has.", check=checks.text
    )
    baseline: str | None = option(None, "Say how many models beat this one.", check=checks.text)
    top: int = option(10, "How many models of each data set get a curve.", least=0)
    seed: int = option(0, "Seed of the sign flips that compare two models.", least=0, most=LARGEST_SEED)


def option_names(*records: type[Options]) -> set[str]:
    """Return the names of the options of records, including nested ones."""
    names: set[str] = set()
    for record in records:
        for one in fields(record):
            nested = type(one.default)
            names |= option_names(nested) if issubclass(nested, Options) else {one.name}
    return names


DTYPES = ("float32", "float64")
LAYOUTS = ("per-run", "pooled")
NAMED_BY = ("file", "tag")
DUPLICATES = ("error", "first")
PRECISION = "Precision of the scores; scores that are equal at this precision are tied."


def columns(value: Any, name: str) -> tuple[str, ...]:
    """Return names or patterns of columns: one of them, or several in an order."""
    if isinstance(value, str):
        return (value,)
    listed = tuple(value) if checks.is_list(value) and not isinstance(value, Mapping | Set) else (None,)
    if all(isinstance(one, str) for one in listed):
        return listed
    allowed = "the name of a column or a pattern, or a list of them"
    raise bad_argument(f"{name} must name columns", name, value, allowed, "give names as text")


def columns_or_truth(value: Any, name: str) -> bool | tuple[str, ...]:
    """Return names or patterns of columns, or whether all are meant."""
    return value if isinstance(value, bool) else columns(value, name)


@dataclass(frozen=True, kw_only=True)
class TableOptions(Options):
    """Which columns of a table are what."""

    label: str = option("label", "The column of labels: 1 positive, 0 negative.", check=checks.text)
    pos_label: object = option(None, "The label that means positive, if labels are not 1 and 0.")
    model: str | None = option(
        None,
        "The column of models, if each has its own row for each item, whose name is needed.",
        check=checks.text,
    )
    score: str = option("score", "The column of scores of such a table.", check=checks.text)
    models: tuple[str, ...] | None = option(None, "A column of scores, or a pattern.", check=columns)
    exclude: tuple[str, ...] = option((), "A column that is not a model, or a pattern.", check=columns)
    negate: bool | tuple[str, ...] = option(
        (), "A model whose low scores mean positive, or a pattern.", check=columns_or_truth
    )
    item: str | None = option(None, "The column of item names.", check=checks.text)
    query: str | None = option(None, "The column of queries, which are ranked separately.", check=checks.text)
    dataset: str | None = option(None, "The column of data sets: each becomes a node.", check=checks.text)
    weight: str | None = option(None, "The column of sample weights.", check=checks.text)
    clusters: str | None = option(None, "The column of clusters, whose items depend on each other.", check=checks.text)
    fold: str | None = option(None, "The column of folds, in which items were held out.", check=checks.text)
    repeat: str | None = option(
        None, "The column of repeats of a cross-validation; needs item names.", check=checks.text
    )
    by: tuple[str, ...] = option((), "A column of groups of items, kept as a coordinate along them.", check=columns)
    dtype: str = option("float64", PRECISION, allowed=DTYPES)

    @property
    def roles(self) -> list[str]:
        """The columns that are not models."""
        of_items = (self.weight, self.clusters, self.fold, *self.by)
        named = (self.label, self.item, self.query, self.dataset, self.repeat, *of_items)
        of_models = (self.model, self.score) if self.model is not None else ()
        return list(dict.fromkeys(name for name in (*named, *of_models) if name is not None))


@dataclass(frozen=True, kw_only=True)
class RunOptions(Options):
    """How TREC runs and judgments are read."""

    layout: str = option(
        "per-run",
        "per-run: each run keeps its own lists; pooled: all runs share the pool of documents.",
        allowed=LAYOUTS,
    )
    named_by: str = option("file", "Name models by their file, or by the tag in its last column.", allowed=NAMED_BY)
    duplicates: str = option("error", "What to do when a document appears twice in a list.", allowed=DUPLICATES)
    dtype: str = option("float32", PRECISION, allowed=DTYPES)
