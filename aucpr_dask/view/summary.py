"""The contents of a store as plain records, from which tables and JSON are made."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd
import xarray as xr

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.inference.measures import are_values, with_estimators
from aucpr_dask.inference.samples import REPLICATE
from aucpr_dask.schema.estimators import ESTIMATORS
from aucpr_dask.schema.trees import Scores, map_nodes, nodes_of
from aucpr_dask.schema.variables import (
    CLASS,
    ESTIMATOR,
    FLAGS,
    ITEM,
    MEASURE,
    METHOD,
    MODEL,
    PADDING,
    QUERY,
    UNIT,
    UNJUDGED,
)

NAMES_KEPT = 5


@dataclass(frozen=True)
class RankedModel:
    """One line of a ranking; `rank` is None where the estimate is undefined."""

    rank: int | None
    model: str
    estimate: float
    lower: float
    upper: float
    n_queries: int | None
    width_ratio: float | None = None  # of intervals with machine labels


@dataclass(frozen=True)
class Ranking:
    """The models of one data set, best first."""

    data_set: str
    estimator: str
    interval: str | None
    level: float | None
    n_queries: int | None
    models: tuple[RankedModel, ...]
    n_classes: int | None = None
    average: str | None = None  # of the classes
    unit: str | None = None  # what a query of values of a measure is called

    def best(self, top: int | None) -> Ranking:
        """Return the ranking with the best `top` models only; None keeps all."""
        return dataclasses.replace(self, models=self.models[:top])


@dataclass(frozen=True)
class FlagSummary:
    """How many rankings carry a flag, and the first places, widest first."""

    flag: str
    description: str
    count: int
    of: int
    places: tuple[str, ...]
    more_places: int


@dataclass(frozen=True)
class DataSetSize:
    """Sizes of one data set; positives and negatives are summed over its queries or classes."""

    data_set: str
    n_models: int
    n_queries: int | None
    n_items: int | None
    n_positive: float
    n_negative: float
    prevalence_min: float
    prevalence_median: float
    prevalence_max: float
    n_missing: int
    n_classes: int | None = None


@dataclass(frozen=True)
class MissingScores:
    """Missing scores of a model in a data set; `share` is None if models have different items."""

    data_set: str
    model: str
    n_missing: int
    share: float | None


@dataclass(frozen=True)
class ScoresSummary:
    """The contents of a score store."""

    url: str
    n_rankings: int
    data_sets: tuple[DataSetSize, ...]
    missing: tuple[MissingScores, ...]
    flags: tuple[FlagSummary, ...]
    grades_up_to: int
    positive_from: int
    kind: str = "scores"


@dataclass(frozen=True)
class ResultSummary:
    """The contents of a result store."""

    url: str
    n_rankings: int
    data_sets: tuple[DataSetSize, ...]
    attrs: dict[str, Any]
    flags: tuple[FlagSummary, ...]
    rankings: tuple[Ranking, ...]
    kind: str = "result"


def rank_models(result: Scores, estimator: str | None = None) -> list[Ranking]:
    """Rank the models of each data set by the named estimator or the first, with means over any queries or classes."""
    from aucpr_dask.inference.aggregating import aggregate

    has_queries = {path: QUERY in dataset.dims for path, dataset in nodes_of(result)}
    level, method = _level_and_method(result)
    means = map_nodes(
        result,
        lambda _, node: mean_of_classes(node, level) if CLASS in node.dims else aggregate(node, level=level),
    )
    return [
        _rank(
            path,
            mean,
            estimator,
            "t" if has_queries[path] else mean.attrs.get("method", method),
            has_queries=has_queries[path],
        )
        for path, mean in nodes_of(means)
    ]


def mean_of_classes(result: xr.Dataset, level: float) -> xr.Dataset:
    """Return the means over classes; with an interval, if the result has replicates."""
    from aucpr_dask.inference.aggregating import aggregate
    from aucpr_dask.inference.classes import mean_over_classes

    if REPLICATE not in result:
        return mean_over_classes(result)
    return cast("xr.Dataset", aggregate(result, over=CLASS, level=level))


def rank_means(means: Scores, estimator: str | None = None) -> list[Ranking]:
    """Rank the models of each data set, or of all together, by what :func:`aucpr_dask.aggregate` returns."""
    return [
        _rank(path, node, estimator, node.attrs.get("method"), has_queries=node.attrs.get("over") == QUERY)
        for path, node in nodes_of(means)
    ]


def _rank(path: str, means: xr.Dataset, estimator: str | None, method: str | None, *, has_queries: bool) -> Ranking:
    means = with_estimators(means)
    names = [str(name) for name in means[ESTIMATOR].values]
    name = names[0] if estimator is None else estimator
    if name not in names:
        raise InvalidInputError(
            f"this {MEASURE if are_values(means) else ESTIMATOR} is not in the result",
            where=path or None,
            received=repr(name),
            allowed=", ".join(names),
            remedy=f"evaluate again with --estimator {name}" if name in ESTIMATORS else None,
        )
    means = means.sel({ESTIMATOR: name})
    estimate = np.atleast_1d(means["estimate"].values)
    bounds = np.full((estimate.size, 2), np.nan)
    if "interval" in means:
        bounds = np.atleast_2d(means["interval"].values)
    lower, upper = bounds.T.tolist()
    counts: list[int | None] = [None] * estimate.size
    if has_queries:
        counts = np.broadcast_to(means["n_queries"].values, estimate.shape).astype(int).tolist()
    ratios = np.atleast_1d(means["width_ratio"].values).tolist() if "width_ratio" in means else [None] * estimate.size
    models = _names(means)
    defined = np.isfinite(estimate)
    best_first = np.argsort(-np.where(defined, estimate, -np.inf), kind="stable")
    return Ranking(
        data_set=path,
        estimator=name,
        interval=method if "interval" in means else None,
        level=float(means["level"]) if "level" in means.coords else None,
        n_queries=max((number for number in counts if number is not None), default=0) if has_queries else None,
        models=tuple(
            RankedModel(
                rank if defined[i] else None, models[i], float(estimate[i]), lower[i], upper[i], counts[i], ratios[i]
            )
            for rank, i in enumerate(best_first, start=1)
        ),
        n_classes=means.attrs.get("n_classes"),
        average=means.attrs.get("average"),
        unit=means.attrs.get(UNIT),
    )


def _names(dataset: xr.Dataset, dim: str = MODEL) -> list[str]:
    """Return the labels along a dimension; numbers where there are none."""
    if dim in dataset.indexes:
        return [str(name) for name in dataset.indexes[dim]]
    return [f"{dim} {number}" for number in range(dataset.sizes.get(dim, 1))]


def summarize_scores(scores: Scores, url: str, *, positive_from: int | None = None) -> ScoresSummary:
    """Evaluate every ranking once without missing scores, to learn sizes and oddities before a run."""
    import dask.base

    from aucpr_dask.evaluation.api import evaluate

    lowest = 1 if positive_from is None else positive_from
    nodes = dict(nodes_of(scores))
    evaluated = evaluate(scores, intervals=(), missing="drop", positive_from=lowest)
    counts, grades = dask.base.compute(
        {path: dataset[["n_positive", "n_negative", "n_missing", "flags"]] for path, dataset in nodes_of(evaluated)},
        [dataset["label"].max() for dataset in nodes.values() if "label" in dataset and dataset["label"].size],
    )
    return ScoresSummary(
        url=url,
        n_rankings=sum(dataset["flags"].size for dataset in counts.values()),
        data_sets=tuple(
            _size(path, counts[path], *_classes(dataset, counts[path], lowest), dataset.sizes[ITEM])
            for path, dataset in nodes.items()
        ),
        missing=tuple(_missing(nodes, counts)),
        flags=summarize_flags(counts.items()),
        grades_up_to=max((int(grade) for grade in grades), default=1),
        positive_from=lowest,
    )


def summarize_result(result: Scores, url: str) -> ResultSummary:
    """Gather sizes, options, flags and rankings of a result."""
    nodes = {path: _with_counts(node) if are_values(node) else node for path, node in nodes_of(result)}
    return ResultSummary(
        url=url,
        n_rankings=sum(dataset["flags"].size for dataset in nodes.values()),
        data_sets=tuple(
            _size(path, dataset, dataset["n_positive"].max(MODEL), dataset["n_negative"].max(MODEL), None)
            for path, dataset in nodes.items()
        ),
        attrs=_common_attrs(result, nodes),
        flags=summarize_flags(nodes.items()),
        rankings=tuple(rank_models(result)),
    )


def _with_counts(values: xr.Dataset) -> xr.Dataset:
    """Return values of a measure with what areas have: no flags, unknown numbers of items, missing values."""
    estimate = values["estimate"].compute()
    unknown = xr.full_like(estimate, np.nan)
    counts = {"n_positive": unknown, "n_negative": unknown, "n_missing": estimate.isnull()}
    return values.assign(counts | {"flags": xr.zeros_like(estimate, dtype=np.int64)})


def _classes(dataset: xr.Dataset, counts: xr.Dataset, positive_from: int) -> tuple[xr.DataArray, xr.DataArray]:
    """Return positives and negatives of each query or class: from shared labels, else from the fullest ranking."""
    label = dataset.get("label")
    if label is None or MODEL in label.dims or "weight" in dataset or "n_positive" in dataset:
        return counts["n_positive"].max(MODEL), counts["n_negative"].max(MODEL)
    positive = label >= positive_from
    return positive.sum(ITEM), (~positive & (label >= UNJUDGED)).sum(ITEM)


def _size(
    path: str, counts: xr.Dataset, positive: xr.DataArray, negative: xr.DataArray, n_items: int | None
) -> DataSetSize:
    with np.errstate(invalid="ignore"):
        prevalence = np.atleast_1d((positive / (positive + negative)).values)
    known = prevalence[np.isfinite(prevalence)]
    low, median, high = (float(f(known)) for f in (np.min, np.median, np.max)) if known.size else (math.nan,) * 3
    return DataSetSize(
        data_set=path,
        n_models=counts.sizes[MODEL],
        n_queries=counts.sizes.get(QUERY),
        n_items=n_items,
        n_positive=float(positive.sum(skipna=False)),
        n_negative=float(negative.sum(skipna=False)),
        prevalence_min=low,
        prevalence_median=median,
        prevalence_max=high,
        n_missing=int(counts["n_missing"].sum()),
        n_classes=counts.sizes.get(CLASS),
    )


def _missing(nodes: dict[str, xr.Dataset], counts: dict[str, xr.Dataset]) -> list[MissingScores]:
    """Return the models with missing scores, the worst first."""
    found = []
    for path, dataset in nodes.items():
        per_model = counts[path]["n_missing"]
        per_model = per_model.sum([dim for dim in per_model.dims if dim != MODEL])
        label = dataset.get("label")
        n_items = int((label != PADDING).sum()) if label is not None and MODEL not in label.dims else None
        found += [
            MissingScores(path, name, int(n), int(n) / n_items if n_items else None)
            for name, n in zip(_names(dataset), per_model.values, strict=True)
            if n
        ]
    return sorted(found, key=lambda one: (-(one.share or 0.0), -one.n_missing))


def summarize_flags(nodes: Iterable[tuple[str, xr.Dataset]]) -> tuple[FlagSummary, ...]:
    """Count each flag over all rankings and name the first places; a whole query, class or model is one place."""
    tables = [
        (path, dataset["flags"].transpose(MODEL, ...).values.reshape(dataset.sizes[MODEL], -1), dataset)
        for path, dataset in nodes
    ]
    summaries = []
    for flag in FLAGS:
        raised = [(path, (table & flag.bit) != 0, dataset) for path, table, dataset in tables]
        count = sum(int(mask.sum()) for _, mask, _ in raised)
        if count:
            places = [place for path, mask, dataset in raised for place in _places(path, mask, dataset)]
            places.sort(key=lambda place: -place[0])
            kept = tuple(name for _, name in places[:NAMES_KEPT])
            of = sum(mask.size for _, mask, _ in raised)
            summaries.append(FlagSummary(flag.name, flag.description, count, of, kept, len(places) - len(kept)))
    return tuple(summaries)


def flags_in_words(result: Scores) -> str:
    """Return in one line how often each flag was raised; nothing if none was."""
    flags = summarize_flags(nodes_of(result))
    counts = ", ".join(f"{flag.flag.replace('_', ' ')} {flag.count:,}" for flag in flags)
    return f"flagged rankings: {counts}" if flags else ""


def _places(path: str, mask: np.ndarray, dataset: xr.Dataset) -> list[tuple[int, str]]:
    """Return (rankings, name) of each place where `mask` (model, query or class) is true."""
    models = _names(dataset)
    unit = CLASS if CLASS in dataset.sizes else QUERY
    units = _names(dataset, unit) if unit in dataset.sizes else None
    start = f"{path}: " if path else ""
    if mask.all() and mask.size > 1:
        return [(mask.size, f"{start}all {mask.size} rankings")]
    places = []
    mask = mask.copy()
    if units is not None:
        for column in np.flatnonzero(mask.all(axis=0)) if len(models) > 1 else ():
            places.append((len(models), f"{start}{unit} {units[column]}"))
            mask[:, column] = False
        for row in np.flatnonzero(mask.all(axis=1)) if len(units) > 1 else ():
            places.append((len(units), f"{start}{models[row]}"))
            mask[row] = False
    for row, column in np.argwhere(mask):
        of_unit = f", {unit} {units[column]}" if units is not None else ""
        places.append((1, f"{start}{models[row]}{of_unit}"))
    return places


def _common_attrs(result: Scores, nodes: dict[str, xr.Dataset]) -> dict[str, Any]:
    """Return the attributes of a result and those that all its data sets share."""
    first, *others = (dataset.attrs for dataset in nodes.values())
    shared = {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}
    return {str(name): value for name, value in (dict(result.attrs) | shared).items()}


def level_of(node: xr.Dataset) -> float:
    """Return the level of the intervals of a result, a comparison or a study."""
    return float(node.coords.get("level", node.attrs.get("level", 0.95)))


def method_with_bounds(interval: xr.DataArray) -> str | None:
    """Return the first method that has some interval for every estimator, if any."""
    known = interval.notnull().any([dim for dim in interval.dims if dim not in (METHOD, ESTIMATOR)])
    known = known.all([dim for dim in known.dims if dim != METHOD])
    return next(
        (str(name) for name, is_known in zip(known[METHOD].values, known.values, strict=True) if is_known), None
    )


def _level_and_method(result: Scores) -> tuple[float, str | None]:
    """Return the level and the first method of the intervals of a result."""
    for _, dataset in nodes_of(result):
        if "interval" in dataset and dataset.sizes[METHOD]:
            return float(dataset["level"]), str(dataset[METHOD].values[0])
    return 0.95, None


def plain(value: Any) -> Any:
    """Convert records, tables and NumPy numbers to strict JSON values; NaN and infinities become None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    if isinstance(value, pd.DataFrame):
        return plain(value.to_dict("records"))
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, int | bool | None) else str(value)
