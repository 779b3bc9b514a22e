"""Operating points, curves on a grid and confusion matrices of the rankings of a NumPy block."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.evaluation.rankings import Rows, check_rows, class_weights, negative_scale
from aucpr_dask.schema import choices
from aucpr_dask.schema.checks import check_labels, whole_labels
from aucpr_dask.schema.options import EvaluationOptions

Array = NDArray[Any]
Floats = NDArray[np.float64]

PRECISION_RECALL, ROC, ACHIEVABLE = KINDS = get_args(choices.KindOfCurve)
COORDINATES = ("threshold", "true_positives", "false_positives", "precision", "recall", "false_positive_rate")
TOTALS = ("n_points", "n_positive", "n_negative")
CELLS = ("true_positives", "false_positives", "false_negatives", "true_negatives")
VERDICTS = ("neither", "first", "second", "both")

# A grid such as np.linspace(0, 1, 11) holds 0.30000000000000004: within a few ulps, it means the recall 3/10.
_SAME = 1 - 2.0**-48
SAME_TOTAL = 1e-12  # relative difference of two sums of the same weights in another order
_MANY = 0.1  # share of points that a pass must remove to be worth another

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Points:
    """The operating points of one ranking, from point 0 downwards, and the totals in the denominators of its rates."""

    threshold: Floats
    true_positives: Floats
    false_positives: Floats
    n_positive: float
    n_negative: float
    n_missing: int = 0
    n_unseen: float = 0.0
    unit: float = 1.0  # of the weights

    def scale(self, prevalence: float | None) -> float:
        """Return the factor for counts of negatives that gives precision at another prevalence."""
        return negative_scale(prevalence, self.n_positive, self.n_negative)

    def at(self, index: Array) -> Points:
        """Keep some of the points."""
        kept = self.threshold[index], self.true_positives[index], self.false_positives[index]
        return Points(*kept, self.n_positive, self.n_negative, self.n_missing, self.n_unseen, self.unit)


def curve_points(*arrays: Array, roles: tuple[str, ...], options: EvaluationOptions, kind: str) -> tuple[Array, ...]:
    """Return `COORDINATES`, padded with NaN, then `TOTALS`: ``(item), (item), ... -> (point) x 6, () x 3``."""

    def columns(points: Points) -> tuple[Floats, ...]:
        if kind == ACHIEVABLE:
            points = points.at(hull_vertices(points))
        return coordinates_of(points, points.scale(options.prevalence))

    def describe(points: Points) -> tuple[tuple[Floats, ...], float, float]:
        return columns(points), points.unit * points.n_positive, points.unit * points.n_negative

    rows, described = _each_ranking(arrays, roles, options, describe)
    n_points = np.array([coordinates[0].size for coordinates, _, _ in described], dtype=np.int64)
    padded = np.full((len(COORDINATES), len(described), n_points.max(initial=0)), np.nan)
    for row, (coordinates, _, _) in enumerate(described):
        padded[:, row, : n_points[row]] = coordinates
    n_positive = np.array([total for _, total, _ in described])
    n_negative = np.array([total for _, _, total in described])
    totals = [column.reshape(rows.lead) for column in (n_points, n_positive, n_negative)]
    return (*padded.reshape(len(COORDINATES), *rows.lead, padded.shape[-1]), *totals)


def curve_on_grid(
    *arrays: Array, roles: tuple[str, ...], options: EvaluationOptions, kind: str, grid: Floats
) -> Floats:
    """Evaluate the curve of every ranking of a block on a grid: ``(item), (item), ... -> (grid)``."""

    def evaluate(points: Points) -> Floats:
        if kind == ROC:
            return recall_on(points, grid)
        if kind == ACHIEVABLE:
            points = points.at(hull_vertices(points))
        return precision_on(points, grid, points.scale(options.prevalence))

    rows, values = _each_ranking(arrays, roles, options, evaluate)
    return np.array(values).reshape(*rows.lead, grid.size)


def confusion_counts(*arrays: Array, roles: tuple[str, ...], options: EvaluationOptions, thresholds: Floats) -> Floats:
    """Count `CELLS` at thresholds for every ranking of a block: ``(item), (item), ... -> (threshold, cell)``."""
    given = dict(zip(roles, arrays, strict=True))
    thresholds = thresholds.astype(given["score"].dtype).astype(np.float64)
    rows, cells = _each_ranking(arrays, roles, options, lambda points: confusion_at(points, thresholds))
    return np.array(cells).reshape(*rows.lead, thresholds.size, len(CELLS))


def compare_curves(
    first_positives: Floats,
    first_negatives: Floats,
    second_positives: Floats,
    second_negatives: Floats,
    n_positive: Floats,
    n_negative: Floats,
) -> NDArray[np.int8]:
    """Return the position in `VERDICTS`: ``(first), (first), (second), (second), (), () -> ()``."""
    given = first_positives, first_negatives, second_positives, second_negatives
    lead = np.broadcast_shapes(*(array.shape[:-1] for array in given), n_positive.shape, n_negative.shape)
    curves = [np.broadcast_to(array, (*lead, array.shape[-1])) for array in given]
    ends = np.broadcast_to(n_positive, lead), np.broadcast_to(n_negative, lead)
    verdicts = np.zeros(lead, dtype=np.int8)
    for index in np.ndindex(lead):
        end = float(ends[0][index]), float(ends[1][index])
        first = _complete(curves[0][index], curves[1][index], *end)
        second = _complete(curves[2][index], curves[3][index], *end)
        verdicts[index] = is_above(first, second) + 2 * is_above(second, first)
    return verdicts


def _each_ranking(
    arrays: tuple[Array, ...], roles: tuple[str, ...], options: EvaluationOptions, use: Callable[[Points], _Result]
) -> tuple[Rows, list[_Result]]:
    """Check the rankings of a block, and apply a function to the operating points of each, one at a time."""
    named = dict(zip(roles, arrays, strict=True))
    rows = Rows(named)
    score = rows.full(named["score"])
    n_given = rows.scalar(named.get("n_positive", np.array(np.nan)))
    if "label" in named:
        named["label"] = whole_labels(named["label"], named["score"])
        check_labels(named["label"], options.positive_from, "label")
    positive, negative, weight_row, unit = class_weights(rows, named, options)
    facts = {"n_missing": np.zeros(len(score)), "n_unseen": np.zeros(len(score))}
    results = []
    for row, weights in enumerate(weight_row):
        points = operating_points(score[row], positive[weights], negative[weights], options.missing, n_given[row])
        points = replace(points, unit=unit[weights])
        facts["n_missing"][row], facts["n_unseen"][row] = points.n_missing, points.n_unseen
        with np.errstate(over="ignore"):  # a sum of weights may be infinite; precision and recall rest on their ratios
            results.append(use(points))
    check_rows(facts, rows, options)
    return rows, results


def operating_points(
    score: Array, positive: Floats, negative: Floats, missing: str = "raise", n_given: float = math.nan
) -> Points:
    """Return point 0 and one point for each tie group, from the highest score.

    `positive` and `negative` are the class weights of items; items without weight are left out. `n_given` is the number
    of all positives, or NaN if all of them are items.
    """
    carried = (positive > 0) | (negative > 0)
    scored = ~np.isnan(score)
    absent = carried & ~scored
    ranked = np.flatnonzero(carried & scored)
    order = ranked[np.argsort(score[ranked])[::-1]]
    descending = score[order].astype(np.float64)
    ends = np.flatnonzero(np.append(descending[1:] != descending[:-1], descending.size > 0))
    threshold = np.append(np.inf, descending[ends])
    true_positives = np.append(0.0, running_sum(positive[order])[ends])
    false_positives = np.append(0.0, running_sum(negative[order])[ends])

    absent_positives, absent_negatives = math.fsum(positive[absent]), math.fsum(negative[absent])
    n_unseen = 0.0 if math.isnan(n_given) else n_given - (true_positives[-1] + absent_positives)
    n_positive, n_negative = true_positives[-1], false_positives[-1]
    if missing != "drop":
        n_positive, n_negative = n_positive + absent_positives, n_negative + absent_negatives
    if missing == "last" and absent.any():
        threshold = np.append(threshold, -np.inf)
        true_positives = np.append(true_positives, n_positive)
        false_positives = np.append(false_positives, n_negative)
    totals = float(n_positive + n_unseen), float(n_negative)
    return Points(threshold, true_positives, false_positives, *totals, int(absent.sum()), float(n_unseen))


def running_sum(values: Floats) -> Floats:
    """Return cumulative sums of nonnegative numbers, compensated for rounding errors."""
    sums = np.cumsum(values)
    before = np.append(0.0, sums[:-1])
    added = sums - before
    lost = (before - (sums - added)) + (values - added)
    # Rounding must not make the sums decrease: the searches below rely on their order.
    return np.maximum.accumulate(sums + np.cumsum(lost))


def coordinates_of(points: Points, scale: float) -> tuple[Floats, ...]:
    """Return `COORDINATES`; the rates of an empty class are NaN."""
    found, wrong = points.true_positives, points.false_positives
    precision = np.ones(found.size)
    np.divide(found, found + scale * wrong, out=precision, where=found + wrong > 0)
    recall = found / points.n_positive if points.n_positive > 0 else np.full(found.size, np.nan)
    rate = wrong / points.n_negative if points.n_negative > 0 else np.full(found.size, np.nan)
    return points.threshold, points.unit * found, points.unit * wrong, precision, recall, rate


def precision_on(points: Points, recalls: Floats, scale: float = 1.0) -> Floats:
    """Return the precision at given recalls; between points, false positives grow linearly with true ones.

    Where a curve drops at one recall, the precision is that at the top; at recall 0 it is the limit, and beyond the
    largest recall NaN.
    """
    found, wrong = points.true_positives, points.false_positives
    precision = np.full(recalls.size, np.nan)
    if not found[-1] > 0:
        return precision
    reached = found / points.n_positive
    first = np.searchsorted(found, 0.0, side="right")
    end = np.maximum(np.searchsorted(reached, recalls * _SAME, side="left"), first)
    inside = end < found.size
    end, recalls = end[inside], recalls[inside]
    # The segment from (0, 0) has one precision throughout: that of its end.
    at_end = (recalls >= reached[end] * _SAME) | (end == 1)
    target = np.where(at_end, found[end], recalls * points.n_positive)
    precision[inside] = target / (target + scale * _on_segment(found, wrong, end, target))
    return precision


def recall_on(points: Points, rates: Floats) -> Floats:
    """Return the recall at given false positive rates, linear between points; the largest where it jumps."""
    found, wrong = points.true_positives, points.false_positives
    recall = np.full(rates.size, np.nan)
    if not (points.n_positive > 0 and points.n_negative > 0):
        return recall
    reached = wrong / points.n_negative
    end = np.searchsorted(reached, rates / _SAME, side="right")
    at_start = reached[end - 1] >= rates * _SAME
    between = ~at_start & (end < found.size)
    recall[at_start] = found[end[at_start] - 1] / points.n_positive
    line = _on_segment(wrong, found, end[between], rates[between] * points.n_negative)
    recall[between] = line / points.n_positive
    return recall


def _on_segment(x: Floats, y: Floats, end: NDArray[np.int64], target: Floats) -> Floats:
    """Return y where x is `target`, on the segments that end at the given points."""
    share = (target - x[end - 1]) / (x[end] - x[end - 1])
    on: Floats = y[end - 1] + share * (y[end] - y[end - 1])
    return on


def hull_vertices(points: Points) -> NDArray[np.int64]:
    """Return the vertices of the upper convex hull in ROC space, including the first and the last point."""
    found, wrong = _near_one(points.true_positives), _near_one(points.false_positives)
    moves = (found[1:] != found[:-1]) | (wrong[1:] != wrong[:-1])
    kept = np.append(0, np.flatnonzero(moves) + 1)
    # A point that is not above the line between its neighbours is not a vertex, so one pass of NumPy may remove many.
    # When passes remove few, the slower monotone chain finishes the rest.
    while kept.size > 2:
        rise, run = np.diff(found[kept]), np.diff(wrong[kept])
        above = rise[:-1] * run[1:] > rise[1:] * run[:-1]
        if above.mean() > 1 - _MANY:
            break
        kept = kept[np.concatenate(([True], above, [True]))]
    return kept[_chain(found[kept].tolist(), wrong[kept].tolist())]


def _chain(found: list[float], wrong: list[float]) -> list[int]:
    vertices: list[int] = []
    for k in range(len(found)):
        while len(vertices) > 1:
            i, j = vertices[-2:]
            if (found[j] - found[i]) * (wrong[k] - wrong[j]) > (found[k] - found[j]) * (wrong[j] - wrong[i]):
                break
            vertices.pop()
        vertices.append(k)
    return vertices


def _near_one(counts: Floats) -> Floats:
    """Scale by a power of two, which is exact, so that products neither overflow nor underflow."""
    _, exponent = np.frexp(counts[-1])
    scaled: Floats = np.ldexp(counts, -exponent)
    return scaled


def confusion_at(points: Points, thresholds: Floats) -> Floats:
    """Return `CELLS` at each threshold; an item without a score is never predicted positive."""
    reached = np.searchsorted(-points.threshold[1:], -thresholds, side="right")
    found, wrong = points.true_positives[reached], points.false_positives[reached]
    return points.unit * np.stack([found, wrong, points.n_positive - found, points.n_negative - wrong], axis=-1)


Curve = tuple[Floats, Floats]  # true positives, false positives


def _complete(found: Floats, wrong: Floats, n_positive: float, n_negative: float) -> Curve:
    """Leave out the padding, and end where everything is predicted positive."""
    found, wrong = found[~np.isnan(found)], wrong[~np.isnan(wrong)]
    if np.allclose((found[-1], wrong[-1]), (n_positive, n_negative), rtol=SAME_TOTAL, atol=0):
        return found, wrong
    return np.append(found, n_positive), np.append(wrong, n_negative)


def is_above(upper: Curve, lower: Curve) -> bool:
    """Return whether a curve is nowhere below another: no vertex of one is on the wrong side of the other.

    Recalls are compared at the false positive rates of the vertices, as in ROC space: the answer is that in
    precision-recall space, too.
    """
    return bool(np.all(_signs(lower, upper) <= 0) and np.all(_signs(upper, lower, at_last=False) >= 0))


def _signs(vertices: Curve, curve: Curve, at_last: bool = True) -> Floats:
    """Return the sign of y(vertex) - y(curve) at the vertex's x, with the last or the first of several y."""
    # Vertices are compared with segments by products of differences, which are exact up to 2**53.
    (y, x), (curve_y, curve_x) = vertices, curve
    if at_last:
        near = np.searchsorted(curve_x, x, side="right") - 1
        far = np.minimum(near + 1, curve_x.size - 1)
    else:
        near = np.searchsorted(curve_x, x, side="left")
        far = np.maximum(near - 1, 0)
    run, rise = np.abs(curve_x[far] - curve_x[near]), np.abs(curve_y[far] - curve_y[near])
    ahead, difference = x - curve_x[near], y - curve_y[near]
    return np.sign(np.where(ahead == 0, difference, difference * run - rise * ahead))
