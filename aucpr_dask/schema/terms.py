"""The terms of data sets: their variables, one frozen record each; names, and how texts say them; trees of them.

The records of variables validate scores, annotate results and generate the reference page.
"""

from __future__ import annotations

import fnmatch
import functools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import chain
from numbers import Number
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from aucpr_dask.errors import InvalidInputError, did_you_mean, few

if TYPE_CHECKING:
    import xarray as xr  # elsewhere only where it is called: the command line reads options and names without it

SCORES, RESULT, COMPARISON = "aucpr_dask.scores", "aucpr_dask.result", "aucpr_dask.comparison"  # kinds of stores
MODEL, QUERY, CLASS, ITEM = "model", "query", "class", "item"
CATEGORIES = "categories"  # attribute of labels of groups: the order of ordered categories
DERIVED_FROM = "derived_from"  # attribute of labels of groups: what they were made of, such as "time.month"
GROUPS_ASKED = "groups_asked_for"  # attribute of labels of recalled scores: the groups of a result, also without items
REPEAT = "repeat"  # of a cross-validation: the same items, ranked by models that learned from other parts
RANKING_DIMS = (MODEL, QUERY, CLASS, REPEAT)  # which tell rankings apart; a data set has one of the last three
ESTIMATOR, METHOD, BOUND, GRADE = "estimator", "interval_method", "ci_bound", "grade"
LOWER = "lower_is_better"  # the attribute that names the measures of which less is better
COMPUTED_BY = "computed_by"  # the attribute that names another package
NORMALISED = "normalised"  # the attribute that says which level became 0
# Attributes of values of any measure.
VALUE_COLUMN, SCALED, OTHER_MEASURES = "value_column", "percents_as_fractions", "other_measures"
OF_VALUES = (
    *("measure", "unit", LOWER, COMPUTED_BY, NORMALISED, "negated", "columns_left_out", "averaged_over"),
    *(VALUE_COLUMN, SCALED, OTHER_MEASURES),
)
MEASURE, UNIT = "measure", "unit"  # of values of any measure: a dimension or an attribute, and the word for a query
RESAMPLE, FOLD = "resample", "fold"
GROUP, GROUPS = "group", "groups of items"  # the name of labels without one; an axis for all groups, in blocks only
BOUNDS = ("lower", "upper")
OF_INTERVALS = ("level", METHOD)  # coordinates of a result that say nothing of its estimates

POSITIVE, NEGATIVE, UNJUDGED, PADDING = 1, 0, -1, -2


@dataclass(frozen=True)
class VariableSpec:
    """Name, shapes, types and meaning of a variable."""

    name: str
    dims: tuple[tuple[str, ...], ...]  # one per layout; in a result, "..." means model and query or class, if present
    kinds: str  # of NumPy dtypes
    description: str  # one sentence, written to `attrs`
    required: bool = False


_OF_RANKINGS = tuple((*of, *dims) for of in ((MODEL,), ()) for dims in ((), (QUERY,), (CLASS,), (REPEAT,)))
_LABEL_DIMS = ((ITEM,), (QUERY, ITEM), (CLASS, ITEM), (MODEL, QUERY, ITEM), (MODEL, ITEM))

SCORE_VARIABLES = {
    spec.name: spec
    for spec in (
        VariableSpec(
            "score",
            tuple((*of, *dims, ITEM) for of in ((MODEL,), ()) for dims in ((), (QUERY,), (CLASS,), (REPEAT,))),
            "f",
            "Score of an item by a model; larger is more positive, NaN is no score.",
            required=True,
        ),
        VariableSpec(
            "label",
            _LABEL_DIMS,
            "iub",
            "1 positive, 0 negative, -1 unjudged, -2 padding; grades above 1 need positive_from. Or the item's class.",
        ),
        VariableSpec(
            "n_positive",
            ((), (QUERY,), (GRADE,), (QUERY, GRADE)),
            "iu",
            "All positives of the query, those never scored included; along grade, those of at least this grade.",
        ),
        VariableSpec("tie_order", _LABEL_DIMS, "iu", "Rank among items of equal score under ties='trec_eval'."),
        VariableSpec("weight", _LABEL_DIMS, "fiu", "Sample weight, finite and not negative."),
        VariableSpec("positive_weight", _LABEL_DIMS, "fiu", "Weight as a positive (soft label)."),
        VariableSpec("negative_weight", _LABEL_DIMS, "fiu", "Weight as a negative (soft label)."),
        VariableSpec("cluster", ((ITEM,), (QUERY,)), "iuOTU", "Group of dependent items or queries."),
        VariableSpec("fold", ((ITEM,), (QUERY,), (REPEAT, ITEM)), "iu", "Fold in which the item was held out."),
        VariableSpec("n_missing", _OF_RANKINGS, "iu", "NaN scores of real (not padding) items."),
        VariableSpec("digest", _OF_RANKINGS, "u", "Digest of all the data of a ranking."),
    )
}

OTHER_NAMES = {"sample_weight": "weight", "sample_weights": "weight", "y_true": "label", "y_score": "score"}
OTHER_NAMES |= {"group": "cluster", "groups": "cluster"}
DEFAULT_DIMS = {1: (ITEM,), 2: (MODEL, ITEM), 3: (MODEL, QUERY, ITEM)}  # of scores without names of dimensions

_OF_ESTIMATES, _OF_EACH = (("...", ESTIMATOR),), (("...",),)

RESULT_VARIABLES = {
    spec.name: spec
    for spec in (
        VariableSpec("estimate", _OF_ESTIMATES, "f", "Estimated area under the precision-recall curve."),
        VariableSpec(
            "standard_error",
            _OF_ESTIMATES,
            "f",
            "Standard error by the influence function, or by replicates of estimators that have none.",
        ),
        VariableSpec(
            "replicate", (("...", ESTIMATOR, RESAMPLE),), "f", "Estimate of a resample that all models share."
        ),
        VariableSpec(
            "interval",
            (("...", ESTIMATOR, METHOD, BOUND),),
            "f",
            "Confidence interval of the estimate; ci_bound is lower, upper.",
        ),
        VariableSpec(
            "extrapolated",
            _OF_EACH,
            "f",
            "Average precision if half an unseen negative is above all items: the median of the draws of its interval. "
            "NaN where no negative stands for several.",
        ),
        VariableSpec("n_positive", _OF_EACH, "fi", "Positives the estimate divides by (sum of weights if weighted)."),
        VariableSpec(
            "n_effective",
            _OF_EACH,
            "f",
            "Effective number of positives with weights: (sum of their weights)^2 / sum of squares.",
        ),
        VariableSpec(
            "n_positive_clusters",
            _OF_EACH,
            "f",
            "Effective number of clusters that hold positives: (sum of their positives)^2 / sum of squares.",
        ),
        VariableSpec("n_negative", _OF_EACH, "fi", "Negatives in the ranking (sum of weights if weighted)."),
        VariableSpec("n_missing", _OF_EACH, "i", "Items without a score."),
        VariableSpec("prevalence", _OF_EACH, "f", "n_positive / (n_positive + n_negative)."),
        VariableSpec("flags", _OF_EACH, "iu", "Bit field of warnings; flag_masks and flag_meanings name the bits."),
    )
}

# Dimensions and variables of results, whose names no coordinate of scores that goes there may have.
OF_RESULTS = frozenset({ESTIMATOR, METHOD, BOUND, RESAMPLE, *RESULT_VARIABLES} - SCORE_VARIABLES.keys())


@dataclass(frozen=True)
class Flag:
    """A warning, stored in one bit of ``flags``."""

    name: str
    bit: int
    description: str


_MEANINGS = {
    "no_positives": "No positive: the area is undefined (NaN), unless it counts as 0.",
    "no_negatives": "No negative: the order does not matter; the area is 1 unless positives were missed.",
    "few_positives": "Biased upwards: fewer than 20 positives (or clusters with some) up to the highest recall; "
    "of a mean, 10 a class. Add positives, or report the interval.",
    "heavy_ties": "At least a tenth of the positives share their score with a negative.",
    "inverted_polarity": "ROC area below one half by over 3 standard errors: is larger more positive?",
    "hard_scores": "Only two distinct scores: these look like predicted labels, not scores.",
    "constant_scores": "All scores are equal: nothing is ranked.",
    "missing_scores": "Some items have no score from this model.",
    "nothing_ranked": "The model scored no item of this query.",
    "undefined_resamples": "Some resamples have no estimate: intervals rest on the others.",
    "no_interval": "No interval: the estimate does not vary, or items cannot be drawn so. Name another, or add data.",
    "unseen_rates": "Rates below one false positive decide: about 20 (1-p)/p negatives show a prevalence of p.",
    "repeated_items": "Many items have the scores of another in all models: intervals of copies are too narrow.",
    "few_weights": "Fewer than 10 items by weight, or few large clusters, make up the variance: intervals may miss.",
    "few_units": "Fewer than 8 units, or few for values so skewed: the interval of their mean may miss. Add units.",
}
FLAGS = tuple(Flag(name, 1 << place, meaning) for place, (name, meaning) in enumerate(_MEANINGS.items()))
FLAG_BITS = {flag.name: flag.bit for flag in FLAGS}


def flag_attributes() -> dict[str, Any]:
    """Return the attributes by which a variable of flags names its bits."""
    return {"flag_masks": [flag.bit for flag in FLAGS], "flag_meanings": " ".join(flag.name for flag in FLAGS)}


N_FOLDS = "n_folds_of_repeats"  # an attribute of results


def folds_of_repeats(scores: xr.Dataset) -> int | None:
    """Return how many folds each repeat of a cross-validation has, if there are repeats that have any."""
    fold = scores.get(FOLD)
    return None if fold is None or REPEAT not in fold.dims else int(fold.max()) - int(fold.min()) + 1


QUANTITY = "quantity"

ITEM_ROLES = frozenset(
    {"score", "label", "tie_order", "weight", "positive_weight", "negative_weight", "cluster", "fold", GROUPS}
)


WIDEST_NAMES = 2**24  # characters of the names along a dimension, of four bytes each
WIDTH_STEP = 64  # of stored names, in characters
LONGEST_NAME = 255  # bytes: what file systems allow
RESERVED_NAMES = frozenset({"zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata", "ledger"})

PEOPLE = frozenset({"holm", "wilson", "wilcoxon"})
TOGETHER = {
    "romano_wolf": "Romano-Wolf",
    "benjamini_hochberg": "Benjamini-Hochberg",
    "clopper_pearson": "Clopper-Pearson",
    "bootstrap_t": "bootstrap-t",
}


def in_words(name: str) -> str:
    """Return the name of an estimator, an interval or a method as it is written in a sentence.

    >>> in_words("precision_at(10)"), in_words("romano_wolf"), in_words("wilson")
    ('precision at 10', 'Romano-Wolf', 'Wilson')
    """
    words = name.replace("(", "_").removesuffix(")").split("_")
    return TOGETHER.get(name) or " ".join(word.title() if word in PEOPLE else word for word in words)


def plural(noun: str) -> str:
    """Return the plural of an English noun.

    >>> plural("query"), plural("data set"), plural("class")
    ('queries', 'data sets', 'classes')
    """
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "z", "ch", "sh")) else f"{noun}s"


def count(number: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun.

    >>> count(1, "query"), count(1200, "query")
    ('1 query', '1,200 queries')
    """
    return f"{number:,} {one if number == 1 else many or plural(one)}"


def name_of_group(labels: Iterable[object], path: str = "", *, as_node: bool = False) -> str:
    """Return what a group with these labels is called, within a data set; in a node of a tree, no label parts its path.

    >>> name_of_group(["north", 2024], "storms"), len(name_of_group(["north/east", 2024], as_node=True).split("/"))
    ('storms/north/2024', 2)
    """
    said = map(_as_text, labels)
    words = (one.replace("/", "\u2215") for one in said) if as_node else said
    return "/".join(filter(None, [path, *words]))


def _as_text(label: object) -> str:
    """Return a label as text; times as pandas writes them, whose labels they are in an index."""
    kind = getattr(getattr(label, "dtype", None), "kind", "")
    if kind not in ("m", "M"):
        return str(label)
    import pandas as pd

    scalar: Any = label
    return str(pd.Timestamp(scalar) if kind == "M" else pd.Timedelta(scalar))


LONGEST_NUMBER = 9  # characters of a coordinate in a sentence


def group_in_words(labels: Mapping[str, object]) -> str:
    """Return what sentences call a group, by its labels along each dimension; a number says of what it is.

    >>> group_in_words({"site": "Bern", "sex": "f"}), group_in_words({"lead": 3, "region": "north"})
    ('Bern/f', 'lead 3/north')
    >>> group_in_words({"lat": 60.0, "lon": 180 / 7})
    'lat 60.0/lon 25.7143'
    """

    def told(label: object) -> str:
        text = _as_text(label)
        is_long = isinstance(label, float) and len(text) > LONGEST_NUMBER and abs(label) < 1e4
        return f"{label:.6g}" if is_long else text

    return name_of_group(
        f"{dim} {told(label)}" if isinstance(label, Number) else label for dim, label in labels.items()
    )


NAME_OF_CLUSTERS = "source_clusters"  # attribute of results: the variable or column that names their clusters


def clusters_in_words(attrs: Mapping[Any, Any], noun: str = "clusters") -> str:
    """Return what clusters are called, with the name that their variable or column has where they come from.

    >>> clusters_in_words({"source_clusters": "patient"}), clusters_in_words({}, "effective cluster")
    ('clusters (patient)', 'effective cluster')
    """
    return f"{noun} ({attrs[NAME_OF_CLUSTERS]})" if NAME_OF_CLUSTERS in attrs else noun


def percent(share: float, form: str = "g") -> str:
    """Return a share, a level or a power as a percentage, its number in this format.

    >>> percent(0.95), percent(1 - 0.995), percent(0.0312, "+.1f")
    ('95 %', '0.5 %', '+3.1 %')
    """
    return f"{100 * share:{form}} %"


def level_in_words(level: float) -> str:
    """Return a level with three digits of what it leaves out: levels of families have many.

    >>> level_in_words(0.95), level_in_words(1 - 0.05 / 3), level_in_words(0.99999)
    ('95 %', '98.33 %', '99.999 %')
    """
    return percent(1 - float(f"{1 - level:.3g}"))


def rounded_percent(share: float) -> str:
    """Return a share in whole percents, with more digits only where these tell it from 0 or 100.

    >>> rounded_percent(0.287), rounded_percent(0.0031), rounded_percent(0.9967), rounded_percent(1)
    ('29 %', '0.3 %', '99.7 %', '100 %')
    """
    distance = 100 * min(abs(share), abs(1 - share))  # from 0 % or 100 %
    digits = -math.floor(math.log10(distance)) if 1e-6 < distance < 1 else 0
    return percent(share, f".{digits}f")


MOST_DECIMALS = 9  # more are written as powers of ten


def decimals(*numbers: float, least: int = 4) -> int:
    """Return how many decimals tell each of these numbers from 0: `least`, or two digits of the smallest.

    >>> decimals(0.25, 0.0123), decimals(0.0000321, 0.5), decimals(0.0)
    (4, 6, 4)
    """
    smallest = min((abs(number) for number in numbers if number and math.isfinite(number)), default=1.0)
    return least if smallest >= 10.0**-least else 1 - math.floor(math.log10(smallest))


def amount(value: float, least: int = 4, sign: str = "") -> str:
    """Return a number with `least` decimals, or more if these show nothing of it; a dash where it is not known.

    >>> amount(0.5), amount(0.0000321, sign="+"), amount(-2e-13, 3), amount(math.nan)
    ('0.5000', '+0.000032', '-2.0e-13', '-')
    """
    if not math.isfinite(value):
        return "-"
    needed = decimals(value, least=least)
    return f"{value:{sign}.{needed}f}" if needed <= MOST_DECIMALS else f"{value:{sign}.1e}"


def difference_in_words(
    numbers: tuple[float, float],
    difference: float,
    ends: tuple[float, float],
    level: float,
    *,
    names: tuple[str, str] = ("", ""),
    what: str = "difference",
    least: int = 4,
) -> str:
    """Return two numbers, their difference and its interval, with the digits in which they differ.

    >>> difference_in_words((0.57503, 0.575), 0.00003, (0.00001, 0.00005), 0.95)
    '0.575030 against 0.575000, difference +0.000030, 95 % interval +0.000010 to +0.000050'
    """
    places = min(decimals(difference, least=least), MOST_DECIMALS)
    of = [f"{number:.{places}f}{name and f' ({name})'}" for number, name in zip(numbers, names, strict=True)]
    lower, upper = (f"{end:+g}" if math.isinf(end) else amount(end, places, "+") for end in ends)
    said = f"{of[0]} against {of[1]}, {what} {amount(difference, places, '+')}"
    return f"{said}, {level_in_words(level)} interval {lower} to {upper}"


def p_value_in_words(p_value: float) -> str:
    """Return a p-value as it is reported in a sentence.

    >>> p_value_in_words(0.0163), p_value_in_words(1e-7)
    ('p = 0.016', 'p < 0.0001')
    """
    return "p < 0.0001" if p_value < 0.0001 else f"p = {p_value:.2g}"


class Sentences:
    """What shows its text in notebooks, too. Names in it are data: none is read as markup."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f'<div class="aucpr-dask">{"".join(f"<p>{escape(line)}</p>" for line in str(self).splitlines())}</div>'


def check_node_name(name: str, where: object) -> str:
    """Return `name` if it is the name of one folder inside a store, and not reserved by Zarr or by this package."""
    is_inside = bool(name.strip(".")) and not any(char in "/\\" for char in name) and is_text(name)
    is_free = not name.startswith("__") and name not in RESERVED_NAMES
    if is_inside and is_free and len(name.encode()) <= LONGEST_NAME:
        return name
    what = "this is not a valid name for a data set or a variable of a store"
    allowed = (
        f"up to {LONGEST_NAME} bytes of text without slashes, backslashes and control characters; not only "
        f"periods; not beginning with '__'; none of {', '.join(sorted(RESERVED_NAMES))}"
    )
    raise InvalidInputError(what, where, shortened_name(name), allowed, "rename it")


def check_names(names: Iterable[object], where: str) -> None:
    """Raise if a name contains halves of surrogate pairs, as file names in other encodings do."""
    # Pandas takes ten times as long one by one.
    listed: list[Any] = names.tolist() if hasattr(names, "tolist") else list(names)
    text = listed if {*map(type, listed)} <= {str} else [name for name in listed if isinstance(name, str)]
    try:
        "".join(text).encode()  # all at once, because there may be millions
    except UnicodeEncodeError:
        bad = next(name for name in text if any("\ud800" <= char <= "\udfff" for char in name))
        what = "this name is not Unicode"
        raise InvalidInputError(what, where, shortened_name(bad), "Unicode text", "rename it") from None


def is_text(name: str) -> bool:
    """Whether a name has neither control characters nor halves of surrogate pairs."""
    return not any(char < " " or "\x7f" <= char <= "\x9f" or "\ud800" <= char <= "\udfff" for char in name)


def shortened_name(name: str) -> str:
    """Return a name as errors quote it."""
    return repr(name) if len(name) <= 100 else f"{name[:100]!r}..., {len(name):,} characters"


Scores: TypeAlias = "xr.Dataset | xr.DataTree"


class Nodes(dict[str, "xr.Dataset"]):
    """The data sets of a tree by path, while we work with them: a tree takes milliseconds for each that it is given."""

    def __init__(self, nodes: Any = (), attrs: Mapping[Any, Any] | None = None) -> None:
        super().__init__(nodes)
        self.attrs = dict(attrs or {})  # of the root


Stored: TypeAlias = "xr.Dataset | xr.DataTree | Nodes"
SomeScores = TypeVar("SomeScores", bound="xr.Dataset | xr.DataTree | Nodes")


def with_plain_names(dataset: xr.Dataset) -> xr.Dataset:
    """Return a result whose names all methods of xarray take."""
    # With NumPy's strings of variable length, `idxmax` and `to_netcdf` fail; with objects along dimensions, plots do.
    names: dict[Any, Any] = {}
    for name in dataset.coords:
        variable = dataset.variables[name]
        if ITEM in variable.dims:
            continue  # no result has items, and those of scores may be many
        if variable.dtype.kind == "T" or (variable.dtype == object and name in dataset.dims):
            given = variable.values.astype(object)
            values = plain_names(given, f"coordinate {name!r}", of_axis=name in dataset.dims)
            names[name] = variable.dims, values, variable.attrs
    return dataset.assign_coords(names) if names else dataset


def with_coordinates(answer: xr.Dataset, sources: Sequence[xr.Dataset]) -> xr.Dataset:
    """Return an answer with the coordinates of what it is about: along its dimensions, with their attributes.

    Of several data sets, those that have the same labels in all.
    """
    import xarray as xr

    found, described = dict[Any, Any](), dict[Any, Any]()
    names = dict.fromkeys(name for source in sources for name in source.coords)
    known = {*OF_RESULTS, MEASURE} | {*SCORE_VARIABLES} & {*answer.data_vars}  # an answer counts its own positives
    for name in [name for name in names if name not in known]:
        every = [(source, source.variables[name]) for source in sources if name in source.coords]
        is_ours = name == "level" and all(
            one.size == 1 and one.values.item() == of.attrs.get(name) for of, one in every
        )
        if is_ours:
            continue
        if name in answer.coords and name != "level":
            attrs = every[0][1].attrs
            described |= {name: attrs} if attrs.keys() - answer.variables[name].attrs.keys() else {}
        elif {*every[0][1].dims} <= {*answer.dims} and (every[0][1].dims or len(every) == len(sources)):
            laid = [xr.DataArray(_laid_along(answer, *one)) for one in every]
            whole = functools.reduce(xr.DataArray.combine_first, laid)
            if all(bool((one.isnull() | (one == whole)).all()) for one in laid):
                found[name] = whole.variable
    if taken := [name for name in found if name in answer.data_vars]:
        what, remedy = f"the answer has something else of the name {taken[0]!r}", f"rename({taken[0]}='another')"
        raise InvalidInputError(what, "the data", f"a coordinate {taken[0]!r}", "a name of its own", remedy)
    if not found and not described:
        return answer
    answer = answer.assign_coords(found)  # and a copy, whose attributes are its own
    for name, attrs in described.items():
        answer[name].attrs = attrs | answer[name].attrs
    return answer


def _laid_along(answer: xr.Dataset, source: xr.Dataset, variable: xr.Variable) -> xr.Variable:
    """Return a coordinate of a source along the labels of an answer, empty where the source has none of them."""
    for dim in set(variable.dims) & set(source.indexes) & set(answer.indexes):
        places = source.indexes[dim].get_indexer(answer.indexes[dim])
        variable = variable.isel({dim: places})
        if (places < 0).any():
            variable = variable.where(xr.Variable(dim, places >= 0))
    return variable.compute()


def plain_names(values: Any, where: str, *, of_axis: bool = True) -> Any:
    """Return names that are Unicode, those along a dimension as text of a fixed width; raise if they are not."""
    if values.dtype != object:
        return values
    check_names(values.ravel(), where)
    return of_fixed_width(values) if of_axis else values


def of_fixed_width(names: Any, step: int = 1) -> Any:
    """Return names (objects) as text of a width in steps of `step`, unless that changes them or takes much memory."""
    if not all(isinstance(name, str) for name in names.flat):
        return names
    width = -(-max(map(len, names.flat), default=1) // step) * step
    if names.size * width > WIDEST_NAMES:
        return names
    text = names.astype(f"U{max(1, width)}")
    return text if (text == names).all() else names  # trailing zeros are lost


LEVELS = "index_levels"  # the attribute of each level of a MultiIndex: its dimension and the names of all, as JSON


def without_levels(dataset: xr.Dataset, of_items: Sequence[str] = (ITEM,)) -> xr.Dataset:
    """Return a data set whose labels of several levels are one name each, next to the levels as coordinates.

    Items, which may be many, get no names. :func:`with_levels` makes of the levels what they were.
    """
    import numpy as np
    from xarray.indexes import PandasMultiIndex

    indexes = dataset.xindexes
    for dim in [dim for dim in dataset.dims if isinstance(indexes.get(dim), PandasMultiIndex)]:
        labels, attrs = dataset.indexes[dim], dataset.variables[dim].attrs
        dataset = dataset.reset_index(dim)
        levels = json.dumps({str(dim): list(map(str, labels.names))})
        for name in labels.names:
            dataset[name].attrs = dataset[name].attrs | {LEVELS: levels}
        if dim not in of_items:
            names = np.array([name_of_group(label, as_node=True) for label in labels], object)
            dataset = dataset.assign_coords({dim: (dim, of_fixed_width(names), attrs)})
    return dataset


def without_levels_of(data: SomeScores) -> SomeScores:
    """Return data sets as :func:`without_levels` does; the same object where none has labels of several levels."""
    from xarray.indexes import PandasMultiIndex

    nodes = data.subtree if hasattr(data, "subtree") else data.values() if isinstance(data, Nodes) else [data]
    if not any(isinstance(one, PandasMultiIndex) for node in nodes for one in getattr(node, "xindexes", {}).values()):
        return data
    return map_nodes(data, lambda _, node: without_levels(node))


def with_levels(dataset: xr.Dataset) -> xr.Dataset:
    """Return a data set with a MultiIndex of the levels that :func:`without_levels` left, where all are there."""
    from xarray.indexes import PandasMultiIndex

    said = dict.fromkeys(str(one.attrs[LEVELS]) for one in dataset.coords.values() if LEVELS in one.attrs)
    for text in said:
        try:
            ((dim, names),) = json.loads(text).items()
            levels = {name: dataset.variables[name] for name in names}
        except (ValueError, TypeError, AttributeError, KeyError):  # written by others, or a level was dropped
            continue
        if not levels or any(one.dims != (dim,) or one.attrs.get(LEVELS) != text for one in levels.values()):
            continue
        attrs = dataset.variables[dim].attrs if dim in dataset.variables else {}
        for name, one in levels.items():  # text of a fixed width, as along dimensions
            data = of_fixed_width(one.values.astype(object)) if one.dtype.kind in "TO" else one.values
            attrs_of_level = {key: value for key, value in one.attrs.items() if key != LEVELS}
            dataset = dataset.assign_coords({name: (dim, data, attrs_of_level)})
        dataset = dataset.drop_vars(dim, errors="ignore").set_xindex(names, PandasMultiIndex)
        dataset[dim].attrs = attrs
    return dataset


def with_stored_names(dataset: xr.Dataset, *, is_result: bool = False) -> xr.Dataset:
    """Return a data set with names as stores hold them: text of variable length; in results, of a fixed width."""
    # Zarr's text of variable length is read as a type that `idxmax` and plots don't take, so the names of results,
    # which people open by xarray alone, have a fixed width. It grows in steps, so that names of new models fit in.
    dataset = without_levels(dataset)
    kinds = "TUO" if is_result else "TU"  # objects stay as they are in scores, whose items may be many
    found = {name: (dataset.variables[name], _as_names(dataset.variables[name])) for name in dataset.coords}
    dataset = dataset.assign_coords({name: now for name, (before, now) in found.items() if now is not before})
    text = {name: one for name, one in dataset.variables.items() if one.dtype.kind in kinds and one.chunks is None}
    for name, variable in text.items():
        if variable.dtype.kind != "O":
            check_names(variable.values.ravel(), f"coordinate {name!r}")
        values = variable.values.astype(object)
        if is_result and name in dataset.coords:
            values = of_fixed_width(values, WIDTH_STEP)
        text[name] = variable.copy(data=values)
    return dataset.assign(text)


def _as_names(variable: xr.Variable) -> xr.Variable:
    """Return as text what no store holds: categories (with their order), periods, intervals, dates with a time zone."""
    import numpy as np
    import pandas as pd
    import xarray as xr

    if isinstance(variable.dtype, np.dtype):
        if variable.dtype != object or pd.api.types.infer_dtype(variable.values.ravel()) in ("string", "empty"):
            return variable
        return variable.copy(data=np.array(list(map(str, variable.values.flat)), object).reshape(variable.shape))
    labels = variable.to_index()
    order = {CATEGORIES: list(map(str, labels.categories))} if isinstance(labels, pd.CategoricalIndex) else {}
    return xr.Variable(variable.dims, np.array(list(map(str, labels)), object), variable.attrs | order)


def nodes_of(scores: Stored) -> Iterator[tuple[str, xr.Dataset]]:
    """Yield (path, Dataset) for the Dataset itself (path "") or for each node of a DataTree that holds data."""
    import xarray as xr

    if isinstance(scores, xr.Dataset):
        yield "", scores
        return
    if isinstance(scores, Nodes):
        yield from scores.items()
        return
    for node in scores.subtree:
        if node.data_vars:
            yield node.path.strip("/"), node.to_dataset()


def select_data_sets(data: SomeScores, names: Sequence[str] | None) -> SomeScores:
    """Return a tree of the data sets of these names or patterns; without any, all that there is."""
    if not names:
        return data
    nodes = dict(nodes_of(data))
    found = {name: [name] if name in nodes else fnmatch.filter(nodes, name) for name in names}
    if unknown := [name for name in names if not name or not found[name]]:
        allowed = few(map(repr, nodes)) if "" not in nodes else "none: it has one data set without a name"
        remedy = did_you_mean(unknown[0], nodes, "leave out dataset=, or name another")
        what = "there is no such data set in this store"
        raise InvalidInputError(what, None, few(map(repr, unknown)), allowed, remedy)
    return gathered(data, {name: nodes[name] for name in dict.fromkeys(chain.from_iterable(found.values()))})


def map_nodes(scores: SomeScores, transform: Callable[[str, xr.Dataset], Any]) -> SomeScores:
    """Apply ``transform(path, dataset)`` to each node and return the same kind of object."""
    return gathered(scores, {path: transform(path, dataset) for path, dataset in nodes_of(scores)})


def gathered(like: SomeScores, nodes: Mapping[str, xr.Dataset]) -> SomeScores:
    """Return data sets by path as the kind of object that `like` is: one data set, or a tree."""
    import xarray as xr

    found: Any = nodes[""] if isinstance(like, xr.Dataset) else Nodes(nodes)
    return as_tree(found) if isinstance(like, xr.DataTree) else found  # type: ignore[return-value]


def as_scores(data: Stored) -> Scores:
    """Return one data set as it is, and several as a tree, as they go out."""
    return as_tree(data) if isinstance(data, Nodes) else data


def as_tree(nodes: Mapping[str, xr.Dataset]) -> xr.DataTree:
    """Return data sets by path as a tree."""
    import xarray as xr

    try:
        return xr.DataTree.from_dict(nodes)
    except KeyError as error:
        what = "a data set inside another has the name of one of its variables"
        raise InvalidInputError(what, None, error.args[0], None, "rename it") from error
