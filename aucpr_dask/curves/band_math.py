"""Confidence bands of the curves of a NumPy block, from resamples of items that all rankings share."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, expit, ndtr, ndtri, stdtrit

from aucpr_dask.curves.points import ROC, Floats, Points, operating_points, precision_on, recall_on
from aucpr_dask.errors import FewPositivesWarning
from aucpr_dask.evaluation.rankings import Array, check_rows, items_of, refuse_unseen
from aucpr_dask.schema.checks import check_labels, whole_labels
from aucpr_dask.schema.options import EvaluationOptions

if TYPE_CHECKING:
    from aucpr_dask.kernels import Items
    from aucpr_dask.kernels.resampling import Ranking, Units

TOP_OR_BOTTOM = 5  # items of a class: with fewer above or below a place, resamples carry no information about it
ROUNDING = 1e-9  # of places on a grid
PANEL = 32  # rankings whose replicates are held at a time
CURVE, POINTWISE, SIMULTANEOUS = 0, slice(1, 3), slice(3, 5)
N_COLUMNS = 5


@dataclass(frozen=True)
class Places:
    """Where curves are evaluated: recalls, or false positive rates for `kind` ROC."""

    kind: str
    grid: Floats

    def rates(self, points: Points) -> Floats:
        """Return the rate of the other class: false positives at given recalls, or recalls at false positive rates."""
        found, wrong = points.true_positives, points.false_positives
        reached, counted = (wrong, found) if self.kind == ROC else (found, wrong)
        along, across = self.classes(points)
        if not (along > 0 and across > 0):
            return np.full(self.grid.size, np.nan)
        # The k-th of n items is expected at the share k / (n + 1) of its distribution. A curve has it at k / n.
        place = self.grid * (along + 1)
        before = np.minimum(np.floor(place), along)
        lower, upper = _expected_above(reached, counted, np.stack([before, before + 1]), along, across)
        rates: Floats = (lower + (place - before) * (upper - lower)) / across
        return rates

    def with_own(self, points: Points) -> tuple[Places, NDArray[np.int64]]:
        """Return these places with the outermost that resamples tell of, which bands follow, and where these are."""
        along = self.classes(points)[0]
        outer = min(TOP_OR_BOTTOM / along, 1.0) if along > 0 else 1.0
        every = np.concatenate([self.grid, [outer, 1 - outer]])
        order = np.argsort(every, kind="stable")
        return Places(self.kind, every[order]), np.argsort(order, kind="stable")[: self.grid.size]

    def classes(self, points: Points) -> tuple[float, float]:
        """Return the sizes of the class along the grid, and of the class whose rate it is."""
        sizes = points.n_positive, points.n_negative
        return sizes[::-1] if self.kind == ROC else sizes


def _expected_above(reached: Floats, counted: Floats, k: Floats, along: float, across: float) -> Floats:
    """Return how many items of a class lie above the k-th of the other, the expectation over orders of tied items.

    `reached` and `counted` are the running counts of the other class and of this one, whose sizes are `along` and
    `across`. Nothing lies above k = 0, everything above one more than all; items that were not ranked are nowhere.
    """
    end = np.clip(np.searchsorted(reached, k), 1, reached.size - 1)
    share = (k - reached[end - 1]) / (reached[end] - reached[end - 1] + 1)
    above: Floats = counted[end - 1] + share * (counted[end] - counted[end - 1])
    above[k > reached[-1]] = np.nan
    if reached[-1] == along:
        above[k > along] = across
    return above


def band_rankings(
    *arrays: Array,
    roles: tuple[str, ...],
    options: EvaluationOptions,
    kind: str,
    grid: Floats,
    level: float,
    n_resamples: int,
) -> Floats:
    """Compute the curve of every ranking of a block on a grid, with bands: ``(item), ..., () -> (grid, column)``."""
    from aucpr_dask.kernels.resampling import rows_sharing_draws

    named = dict(zip(roles, arrays, strict=True))
    named["label"] = whole_labels(named["label"], named["score"])
    check_labels(named["label"], options.positive_from, "label")
    rows, items = items_of(named, options)
    if items.clusters is not None:
        refuse_unseen(rows, items.unseen)
    is_item = (items.positive > 0) | (items.negative > 0)
    n_missing = [np.count_nonzero(np.isnan(row) & is_item[i]) for row, i in zip(items.score, items.row, strict=True)]
    check_rows({"n_missing": np.array(n_missing, np.float64), "n_unseen": items.unseen}, rows, options)
    places, keys = Places(kind, grid), rows.broadcast(named["key"])
    out = np.full((len(items.score), grid.size, N_COLUMNS), np.nan)
    for group in rows_sharing_draws(items, keys):
        for start in range(0, group.size, PANEL):
            panel = group[start : start + PANEL]
            points = [_points(items, row, options.missing) for row in panel]
            own = [places.with_own(of_sample) for of_sample in points]
            each = [one for one, _ in own]
            _warn_of_few(kind, *np.min([places.classes(of_sample) for of_sample in points], axis=0))
            replicates = _replicate_rates(items, panel, keys[panel[0]], each, options.missing, n_resamples)
            n_clusters = _least_clusters(items, panel[0])
            for row, of_sample, of_resamples, (one, at) in zip(panel, points, replicates, own, strict=True):
                out[row] = _columns(of_sample, of_resamples, one, level, options.prevalence, n_clusters)[at]
    return out.reshape(*rows.lead, grid.size, N_COLUMNS)


def _warn_of_few(kind: str, n: float, n_others: float) -> None:
    """Warn if no place has enough items of the class along the grid above and below it: such bands say nothing."""
    if 0 < n < 2 * TOP_OR_BOTTOM and n_others > 0:
        what = "negatives" if kind == ROC else "positives"
        warnings.warn(
            f"bands along {n:.0f} {what} say nothing at any place: they need {2 * TOP_OR_BOTTOM} or more.",
            FewPositivesWarning,
            stacklevel=2,
        )


def _points(items: Items, row: int, missing: str) -> Points:
    classes = items.weights(row)
    n_given = classes[0].sum() + items.unseen[row]
    return operating_points(items.score[row], *classes, missing, n_given)


def _least_clusters(items: Items, row: int) -> int | None:
    """Return how many clusters hold positives, or negatives if these are fewer; None if items are drawn."""
    clusters = items.clusters_of(row)
    if clusters is None:
        return None
    return min(np.unique(clusters[weight > 0]).size for weight in items.weights(row))


def _replicate_rates(
    items: Items, panel: NDArray[np.int64], key: np.uint64, places: list[Places], missing: str, n_resamples: int
) -> Floats:
    """Return the rates of every resample, shape (rankings, resamples, grid); rankings share the multiplicities."""
    from aucpr_dask.kernels.draws import LANES, draw_counts
    from aucpr_dask.kernels.resampling import Ranking, units_of

    classes = items.weights(panel[0])
    units = units_of(*classes, items.clusters_of(panel[0]), int(items.unseen[panel[0]]))
    # Consecutive tie groups without positives are one straight line of the curve in every resample.
    rankings = [Ranking(items.score[row], *classes, units, np.empty(0, np.int64)) for row in panel]
    out = np.empty((panel.size, n_resamples, places[0].grid.size))
    count = np.empty((int(units.size.sum()), LANES), np.uint8)
    draw: Any = draw_counts
    for first in range(0, n_resamples, LANES):
        draw(key, first, units.size, units.stratum, count)
        for place, ranking in enumerate(rankings):
            resamples = zip(range(first, n_resamples), resampled_points(ranking, count, units, missing), strict=False)
            for resample, points in resamples:
                out[place, resample] = places[place].rates(points)
    return out


def resampled_points(ranking: Ranking, count: NDArray[np.uint8], units: Units, missing: str) -> Iterator[Points]:
    """Yield the points of the resample of every lane; `count` holds how often each unit was drawn."""
    from aucpr_dask.kernels.resampling import unseen_in

    unseen, absent = unseen_in(count, units), ranking.missing_in(count)
    for lane, (found, wrong) in enumerate(ranking.points(count)):
        n_positive, n_negative = found[-1], wrong[-1]
        if missing != "drop":
            n_positive, n_negative = n_positive + absent[0, lane], n_negative + absent[1, lane]
        if missing == "last":
            found, wrong = np.append(found, n_positive), np.append(wrong, n_negative)
        yield Points(found, found, wrong, float(n_positive + unseen[lane]), float(n_negative))


def _columns(
    points: Points, replicates: Floats, places: Places, level: float, prevalence: float | None, n_clusters: int | None
) -> Floats:
    out = np.full((places.grid.size, N_COLUMNS), np.nan)
    along, across = places.classes(points)
    if not (along > 0 and across > 0):
        return out
    rates = places.rates(points)
    replicates = replicates[~np.isnan(replicates).all(axis=1)]  # some draws of clusters lack a class
    passed = along * places.grid
    pointwise, simultaneous = rate_bands(rates, replicates, passed, along, across, level, n_clusters)
    if places.kind == ROC:
        curve = recall_on(points, places.grid)
    else:
        scale = points.scale(prevalence)
        curve = precision_on(points, places.grid, scale)
        pointwise, simultaneous = (
            _precision(places.grid * along, scale * across * band[:, ::-1]) for band in (pointwise, simultaneous)
        )
    out[:, CURVE] = curve
    for columns, band in ((POINTWISE, pointwise), (SIMULTANEOUS, simultaneous)):
        # The curve counts items where they lie, the bands where they are expected: bands hold it all the same.
        out[:, columns] = np.stack([np.minimum(band[:, 0], curve), np.maximum(band[:, 1], curve)], axis=1)
    return out


def _precision(found: Floats, wrong: Floats) -> Floats:
    predicted = found[:, None] + wrong
    return np.divide(found[:, None], predicted, out=np.ones(wrong.shape), where=predicted > 0)


def rate_bands(
    rates: Floats,
    replicates: Floats,
    passed: Floats,
    along: float,
    across: float,
    level: float,
    n_clusters: int | None = None,
) -> tuple[Floats, Floats]:
    """Return pointwise and simultaneous bands of rates, shape (grid, 2) each.

    `rates` are those of a class of `across` items, increasing along the grid; `replicates` has the shape (resamples,
    grid); `passed` is how many of the `along` items of the other class are above each place. Where rates are unknown,
    the bands follow from those further in. With `n_clusters`, these were drawn in place of items.
    """
    n_drawn = along if n_clusters is None else n_clusters
    stretch = 1.0 if n_clusters is None else np.sqrt(n_clusters / max(n_clusters - 1, 1))
    least = TOP_OR_BOTTOM * (1 - ROUNDING)
    inner = (passed >= least) & (along - passed >= least)
    inner &= ~np.isnan(rates) & ~np.isnan(replicates).any(axis=0) & (n_drawn > 1)
    pointwise, simultaneous = np.full((2, rates.size, 2), np.nan)
    if inner.any():
        centre = log_odds(rates[inner], across)
        deviations = log_odds(replicates[:, inner], across) - centre
        error = np.maximum(stretch * deviations.std(axis=0, ddof=1), _binomial_error(rates[inner], across))
        largest = np.abs(deviations / error).max(axis=1)
        alone = float(stdtrit(n_drawn - 1, 0.5 + level / 2))
        # Errors of few clusters are little known: as Student's quantile to the normal one.
        wider = 1.0 if n_clusters is None else alone / float(ndtri(0.5 + level / 2))
        together = max(alone, wider * float(np.quantile(largest, level, method="higher")))
        for band, quantile in ((pointwise, alone), (simultaneous, together)):
            reach = quantile * error
            resampled = expit(np.stack([centre - reach, centre + reach], axis=1))
            exact = _exact_bounds(rates[inner], across, float(ndtr(-quantile)))
            band[inner, 0] = np.minimum(resampled[:, 0], exact[0])
            band[inner, 1] = np.maximum(resampled[:, 1], exact[1])
    for band in (pointwise, simultaneous):
        _extend(band, inner)
    # Rates increase along the grid, so a simultaneous band can be narrowed to increase as well.
    lower, upper = np.maximum.accumulate(simultaneous[:, 0]), np.minimum.accumulate(simultaneous[::-1, 1])[::-1]
    simultaneous[:, 0] = np.minimum(lower, pointwise[:, 0])
    simultaneous[:, 1] = np.maximum(upper, pointwise[:, 1])
    return pointwise, simultaneous


def log_odds(rates: Floats, size: float) -> Floats:
    """Return the log odds of rates of a class, with half an item added on each side."""
    odds: Floats = np.log((rates * size + 0.5) / ((1 - rates) * size + 0.5))
    return odds


def _binomial_error(rates: Floats, size: float) -> Floats:
    """Return the standard error of log odds of the rate of one class at a known threshold."""
    error: Floats = np.sqrt(1 / (rates * size + 0.5) + 1 / ((1 - rates) * size + 0.5))
    return error


def _exact_bounds(rates: Floats, size: float, tail: float) -> tuple[Floats, Floats]:
    """Return Clopper and Pearson's bounds of rates at a known threshold."""
    hits = rates * size
    with np.errstate(invalid="ignore"):  # betaincinv(0, ...) is NaN
        lower = np.where(hits > 0, betaincinv(hits, size - hits + 1, tail), 0.0)
        upper = np.where(hits < size, betaincinv(hits + 1, size - hits, 1 - tail), 1.0)
    return lower, upper


def _extend(band: Floats, inner: NDArray[np.bool_]) -> None:
    """Bound rates near the ends by the nearest inner ones, because rates increase along the grid."""
    first, last = (np.flatnonzero(inner)[[0, -1]]) if inner.any() else (len(band), -1)
    band[:first, 0] = 0.0
    band[last + 1 :, 1] = 1.0
    if inner.any():
        band[:first, 1] = band[first, 1]
        band[last + 1 :, 0] = band[last, 0]
