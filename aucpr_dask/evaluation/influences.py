"""Influences of the items, or of clusters of items, of a NumPy block, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.evaluation import rankings
from aucpr_dask.evaluation.rankings import Rows
from aucpr_dask.schema.options import ALL_RECALLS, EvaluationOptions

if TYPE_CHECKING:
    from aucpr_dask.kernels import Clusters, Items
    from aucpr_dask.kernels.by_numpy import Influence, Units
    from aucpr_dask.kernels.sorting import InOrder

Floats = NDArray[np.float64]

SLAB = 1 << 18  # items that are put in order at a time
ADDED = 1 << 16  # influences that are added up at a time, in a core's cache
UNEVEN = 0.5  # effective items per item of a class with weights, and effective clusters per cluster
FEW_LARGE = 40.0  # clusters by the squares of uneven sizes: of fewer, intervals cover 0.90 to 0.97
LEFT_OUT = ("average_precision", "roc_area")  # whose clusters are left out in turn
MOST_LEFT_OUT = 1000  # clusters that are; of more, influences show as much in less time
COLUMNS_AFTER = ("estimate", "proportion", "unseen_loss", "n_effective", "degrees", "flags")  # of a ranking


def influence_columns(
    *arrays: rankings.Array,
    roles: tuple[str, ...],
    options: EvaluationOptions,
    n_units: int,
    is_fixed: bool,
) -> Floats:
    """Compute the influences of every ranking of a block, scaled so that their products add up to covariances.

    A generalized function, ``(item), (item), ... -> (unit)``: the influences of `n_units` items, or of clusters where
    an array has their numbers; that of all positives that are not items; and then `COLUMNS_AFTER`: the estimate, the
    variance of one draw of a proportion of its size, what a negative above all items would take from it, the effective
    number of positives, or of clusters that hold some, the degrees of freedom of their variance, and the flags.
    """
    from aucpr_dask.kernels.intervals import degrees_of, degrees_of_clusters

    named = dict(zip(roles, arrays, strict=True))
    rows, items = rankings.items_of(named, options)
    evaluated = rankings.evaluate_rankings({role: one for role, one in named.items() if role != "cluster"}, options)
    estimate, raised = (
        np.broadcast_to(one, rows.lead).ravel() for one in (evaluated.estimate[..., 0], evaluated.flags)
    )
    if items.clusters is not None:
        rankings.refuse_unseen(rows, items.unseen)
    n_effective, sample = effective_positives(rows, items, options).ravel(), Sample.of(items, options)
    flags, degrees = rankings.with_few_positives(raised, n_effective), degrees_of(n_effective)
    if items.clusters is not None:
        of_squares = effective_positives(rows, items, options, power=2).ravel()
        degrees = np.maximum(degrees_of_clusters(n_effective, of_squares), 1.0)
    columns = np.zeros((len(items.score), n_units + 1 + len(COLUMNS_AFTER)))  # 0 for clusters that others have
    for slab, in_order in _slabs(items, options, options.estimators[:1]):
        part, of_slab = sample.part(slab), estimate[slab]
        influence = _influences(part, options, options.estimators[0], in_order, is_fixed=is_fixed)
        absent = np.where(part.items.unseen > 0, np.sqrt(part.items.unseen) * influence.unseen, 0.0)
        area = np.clip((of_slab + influence.left_out) / 2, 0, 1)
        after = [of_slab, area * (1 - area), influence.unseen_loss, n_effective[slab], degrees[slab], flags[slab]]
        columns[slab, : influence.values.shape[1]] = influence.values
        columns[slab, n_units:] = np.column_stack([absent, *after])
    return columns.reshape(*rows.lead, columns.shape[1])


def influence_facts(rows: Rows, items: Items, options: EvaluationOptions, *, is_fixed: bool) -> dict[str, Any]:
    """Compute the first four `FACTS` of weighted items, or of clusters: arrays over estimators, NaN where unknown.

    Where clusters are the sample, also what they change of the facts of items.
    """
    from aucpr_dask.kernels.intervals import degrees_of_clusters, design_effect

    if (clusters := items.clusters) is not None:
        rankings.refuse_unseen(rows, items.unseen)
        held, numbers = items.positive + items.negative, np.sort(clusters.number, axis=1)
        n_clusters = (1.0 + np.count_nonzero(numbers[:, 1:] != numbers[:, :-1], axis=1))[clusters.row]
        of_sizes = (sums_of_weights(items, held, options, clusters, power=power) for power in (1, 2))
        worth, of_squares = (_ratio(total**2, squares) for total, squares in of_sizes)
        n_known = 1 + np.clip(degrees_of_clusters(worth, of_squares), 0.0, n_clusters - 1)
        # By sizes, not by influences: where large clusters happen to vary little, intervals are too narrow.
        are_few_large = (worth < UNEVEN * n_clusters) & (of_squares < FEW_LARGE)
    alone, shape = Sample.of(items._replace(clusters=None), options), (len(items.score), len(options.estimators))
    sample = alone if items.clusters is None else Sample.of(items, options)
    facts: dict[str, Any] = {fact: np.full(shape, np.nan) for fact in (*rankings.FACTS[:4], "item_error", "n_carrying")}
    are_uneven = np.zeros(shape[0], bool)  # the weights of a class are worth less than half of its items
    for weight in (items.positive, items.negative):
        counted, row = _counted(items, weight, options)
        n_items, (total, squares) = np.count_nonzero(counted, axis=1)[row], sums_of_weights(items, weight, options)
        are_uneven |= total**2 < UNEVEN * n_items * squares
    for slab, in_order in _slabs(items, options, options.with_influence):
        of_items = alone.part(slab)
        of_sample = of_items if sample is alone else sample.part(slab)
        for estimator in options.with_influence:
            influence = _influences(of_items, options, estimator, in_order, is_fixed=is_fixed)
            of_unseen = np.where(of_items.items.unseen > 0, influence.unseen, 0.0)
            squared = influence.values**2
            squares = _sums_of_rows(squared, None) + of_items.items.unseen * of_unseen**2
            n_carrying = np.where(are_uneven[slab], _ratio(squares**2, _sums_of_rows(squared**2, None)), np.nan)
            squared *= influence.values  # their cubes: NumPy takes 50 times as long for a power
            cubes = _sums_of_rows(squared, None) + of_items.items.unseen * of_unseen**3
            found = {"item_error": np.sqrt(squares), "error": np.sqrt(squares), "cubes": cubes}
            found["n_carrying"] = n_carrying
            if sample is not alone:
                influence = _influences(of_sample, options, estimator, in_order, is_fixed=is_fixed)
                squared, n = influence.values**2, of_sample.n_clusters
                between = _sums_of_rows(squared, n)
                found |= {"error": np.sqrt(between), "n_carrying": np.where(are_few_large[slab], 0.0, n_carrying)}
            found |= {"left_out": influence.left_out, "unseen_loss": influence.unseen_loss}
            for fact, values in found.items():
                facts[fact][slab, options.estimators.index(estimator)] = values
    facts = {fact: values.reshape(*rows.lead, shape[1]) for fact, values in facts.items()}
    if clusters is None:
        return facts
    within, between = facts["item_error"] ** 2, facts["error"] ** 2
    ratio = np.divide(between, within, out=np.ones_like(within), where=within > 0)
    n_all, n_clusters = (one.reshape(*rows.lead, 1) for one in (n_clusters, n_known))
    effect = np.where(np.isnan(between), np.nan, design_effect(ratio, n_all))
    return facts | {
        "effect": effect,
        "n_clusters": n_clusters,
    }  # one more than the degrees of freedom of their variance


def effective_positives(rows: Rows, items: Items, options: EvaluationOptions, *, power: int = 1) -> Floats:
    """Return the effective number of positives of each ranking, or of clusters that hold some.

    It is (sum of weights)^2 / sum of squares, over positives or clusters; or that of a power of the weights.
    """
    total, squares = sums_of_weights(items, items.positive, options, items.clusters, power=power)
    total, squares = total + items.unseen, squares + items.unseen
    return _ratio(total**2, squares).reshape(rows.lead)


def sums_of_weights(
    items: Items, weight: Floats, options: EvaluationOptions, clusters: Clusters | None = None, *, power: int = 1
) -> tuple[Floats, Floats]:
    """Return the sum, and the sum of squares, of a power of the weights of one class that count in each ranking."""
    weight, row = _counted(items, weight, options)
    if clusters is None:
        weight = weight**power
        return weight.sum(axis=1)[row], (weight**2).sum(axis=1)[row]
    pairs, place = _distinct_pairs(row, clusters)
    lengths = _n_clusters(clusters)
    of_pairs = clusters._replace(row=pairs[1])
    weight = _sums_over_clusters(weight[pairs[0]], of_pairs, int(lengths.max(initial=0))) ** power
    total, squares = (_sums_of_rows(one, _n_clusters(of_pairs)) for one in (weight, weight**2))
    return total[place], squares[place]


def _counted(items: Items, weight: Floats, options: EvaluationOptions) -> tuple[Floats, NDArray[np.int64]]:
    """Return weights, 0 of items that are left out, and the row of each ranking."""
    if options.missing == "drop" and np.isnan(items.score).any():
        return np.where(np.isnan(items.score), 0.0, weight[items.row]), np.arange(len(items.row))
    return weight, items.row


def _distinct_pairs(row: NDArray[np.int64], clusters: Clusters) -> tuple[Any, NDArray[np.int64]]:
    """Return each pair of a row of weights and one of clusters once, and the number of each ranking's pair."""
    pairs, place = np.unique(row * len(clusters.number) + clusters.row, return_inverse=True)
    return np.divmod(pairs, len(clusters.number)), place


def _n_clusters(clusters: Clusters) -> NDArray[np.int64]:
    """Return one more than the largest number of a cluster, for each ranking."""
    return np.asarray(clusters.number.max(axis=1, initial=-1)[clusters.row] + 1)


class Sample(NamedTuple):
    """Items, or clusters of items, and what their influences depend on besides."""

    items: Items
    units: Units
    n_clusters: NDArray[np.int64] | None  # one more than the largest number, of each ranking
    n_held: Floats | None  # clusters that hold items; NaN if a class lies in fewer than two
    width: int  # clusters of the ranking that has most

    @classmethod
    def of(cls, items: Items, options: EvaluationOptions) -> Sample:
        """Find what is known without sorting."""
        from aucpr_dask.kernels.by_numpy import Units

        clusters = items.clusters
        total, squares = sums_of_weights(items, items.positive, options)
        of_negatives = sums_of_weights(items, items.negative, options)
        units = Units(_ratio(squares + items.unseen, total + items.unseen), _ratio(*of_negatives[::-1]))
        if clusters is None:
            return cls(items, units, None, None, 0)
        lengths = _n_clusters(clusters)
        width = int(lengths.max(initial=0))
        holds = []
        for weight in (items.positive, items.negative):
            counted, row = _counted(items, weight, options)
            pairs, place = _distinct_pairs(row, clusters)
            holds.append(_sums_over_clusters(counted[pairs[0]] > 0, clusters._replace(row=pairs[1]), width) > 0)
        is_known = np.all([np.count_nonzero(one, axis=1) >= 2 for one in holds], axis=0)
        n_held = np.where(is_known, np.count_nonzero(holds[0] | holds[1], axis=1), np.nan)[place]
        return cls(items, units, lengths, n_held, width)

    def part(self, rows: slice) -> Sample:
        """Return some of the rankings."""
        units = type(self.units)(*(one[rows] for one in self.units))
        part = self._replace(items=self.items.part(rows), units=units)
        if self.n_clusters is None or self.n_held is None:
            return part
        return part._replace(n_clusters=self.n_clusters[rows], n_held=self.n_held[rows])


def _slabs(
    items: Items, options: EvaluationOptions, estimators: tuple[str, ...]
) -> Iterator[tuple[slice, InOrder | None]]:
    """Yield some rankings at a time, and their scores in order, unless NumPy finds the influences."""
    from aucpr_dask.kernels.dispatch import are_influences_for_numpy

    by_numpy = all(are_influences_for_numpy(items, estimator, options.recall_range) for estimator in estimators)
    step = max(1, SLAB // max(1, items.score.shape[1]))
    for start in range(0, len(items.score), step):
        slab, in_order = slice(start, start + step), None
        if not by_numpy:
            from aucpr_dask.kernels import sorting

            in_order = sorting.in_order(items.score[slab])
        yield slab, in_order


def _sums_over_clusters(values: NDArray[Any], clusters: Clusters, n_clusters: int) -> Floats:
    """Add up the values (rows, items) of each cluster."""
    step = max(1, ADDED // max(1, values.shape[1]))
    sums = np.empty((len(values), n_clusters))
    for start in range(0, len(values), step):
        slab = slice(start, start + step)
        shape = len(values[slab]), n_clusters
        place = np.arange(shape[0])[:, None] * n_clusters + clusters.number[clusters.row[slab]]
        added = np.bincount(place.ravel(), weights=values[slab].ravel(), minlength=shape[0] * n_clusters)
        sums[slab] = added.reshape(shape)
    return sums


def _sums_of_rows(values: Floats, lengths: NDArray[np.int64] | None) -> Floats:
    """Add up the first numbers of each row, or all: by pairs, as if there were no other row."""
    if lengths is None:
        return np.asarray(values.sum(axis=1))
    sums = np.empty(len(values))
    for n in np.unique(lengths):
        sums[lengths == n] = values[lengths == n][:, :n].sum(axis=1)
    return sums


def _ratio(total: Floats, part: Floats) -> Floats:
    """Divide; 0 where there is nothing."""
    return np.divide(total, part, out=np.zeros_like(total), where=part > 0)


def _influences(
    sample: Sample, options: EvaluationOptions, estimator: str, in_order: InOrder | None, *, is_fixed: bool
) -> Influence:
    """Return the influences of items, or of clusters, corrected for their number."""
    from aucpr_dask.kernels.dispatch import influence_rows

    items, clusters, reading = sample.items, sample.items.clusters, rankings.reading_of(options)
    design: dict[str, Any] = {"units": sample.units, "prevalence_is_fixed": is_fixed, "is_corrected": clusters is None}
    influence = influence_rows(items, reading, estimator, options.recall_range, in_order=in_order, **design)
    if clusters is None or sample.n_clusters is None or sample.n_held is None:
        return influence
    n, values = sample.n_held, _sums_over_clusters(influence.values, clusters, sample.width)
    influence = influence._replace(values=values * np.sqrt(n / (n - 1))[:, None])
    is_few = sample.n_clusters <= MOST_LEFT_OUT
    if estimator not in LEFT_OUT or options.recall_range != ALL_RECALLS or not is_few.any():
        return influence
    # Sums of influences miss much of the variance of few clusters, and the bias, so each is left out. An area whose
    # items share the effect of their cluster is larger than leaving out each positive shows: the centre of intervals,
    # half way between the area and `left_out`, moves by the rest.
    from aucpr_dask.kernels import sorting
    from aucpr_dask.kernels.influence import leave_out_clusters

    few: Any = slice(None) if is_few.all() else is_few
    descending, order = in_order or sorting.in_order(items.score)
    of_few = clusters._replace(row=clusters.row[few]), sample.width, reading, (descending[few], order[few])
    deviations, bias = leave_out_clusters(items.part(few), *of_few, is_roc=estimator == "roc_area")
    excess = np.maximum(bias - np.abs(influence.estimate - influence.left_out)[few], 0)
    influence.values[few] = np.where(np.isnan(influence.values[few, :1]), np.nan, deviations)
    influence.left_out[few] -= 2 * excess
    return influence
