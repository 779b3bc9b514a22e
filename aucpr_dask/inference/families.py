"""Families of comparisons from joint replicates: the bootstrap's, or those of sign flips.

The replicates of a difference are those of the first model minus those of the second. So replicates must be joint: all
models share each resample.

Pairs are processed in panels, at most four of them in memory at once. Results for a pair depend on that pair alone, and
maxima and counts are exact, so results are bit-for-bit identical for any size of the panels and any order of pairs and
models.

Westfall & Young 1993, Resampling-Based Multiple Testing. Romano & Wolf 2005, doi:10.1198/016214504000000539, and 2016,
doi:10.1016/j.spl.2016.02.012. Hall 1992, doi:10.1007/978-1-4612-4384-7 (bootstrap-t).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aucpr_dask.errors import clash
from aucpr_dask.inference import units as loops
from aucpr_dask.inference.pairs import ROUND_OFF, Equivalence, all_pairs, decided, errors_from_units, slices
from aucpr_dask.inference.units import BLOCK_BYTES, Floats, Indices, Redraws, all_signs

LEAST_UNITS = 6  # on which two models differ, for a test at 0.05: 2 of the 2^5 choices of five signs are more
LEAST_OWN_ERROR = 0.2  # of a replicate, relative to the error of the data


@dataclass(frozen=True)
class ResampledUnits:
    """Values of Q units, drawn with replacement; they give each replicate a standard error of its own."""

    values: Floats  # (M, Q)
    redraws: Redraws

    @cached_property
    def resolution(self) -> Floats:
        """How large rounding errors of each model's values may be."""
        largest: Floats = np.abs(self.values).max(axis=1)
        return ROUND_OFF * largest


@dataclass(frozen=True)
class JointReplicates:
    """Estimates of M models and R joint replicates of them; :func:`joint_replicates` makes it."""

    estimate: Floats  # (M,)
    centred: Floats  # (M, R): replicates minus their mean
    bias: Floats  # (M,): mean of the replicates minus their centre: 0 (sign flips), or the estimate (bootstrap)
    resolution: Floats  # (M,): how large rounding errors may be; positive
    complete: bool  # the replicates are the whole distribution, observed data included, not a random sample
    units: ResampledUnits | None = None  # each replicate is divided by its own error; else all by a common one
    flipped: Floats | None = None  # (M, Q): the values whose signs were flipped, from which the spread is known
    values: Floats | None = None  # (M, Q): those of the units, if units are the sample

    def of_models(self, models: Indices) -> JointReplicates:
        """Return some of the models, or all in another order."""
        names = ("estimate", "centred", "bias", "resolution", "flipped", "values")
        rows = {name: of[models] for name in names if (of := getattr(self, name)) is not None}
        return replace(self, units=self.units and replace(self.units, values=self.units.values[models]), **rows)

    @property
    def n_replicates(self) -> int:
        """The number R of replicates."""
        return int(self.centred.shape[1])

    def panels(self, n_pairs: int) -> Iterator[slice]:
        """Cut pairs into panels."""
        if self.units is None:
            return slices(n_pairs, 8 * self.n_replicates)
        of_pair = 8 * (self.n_replicates + self.units.redraws.n_units)
        return slices(n_pairs, of_pair, max(1, BLOCK_BYTES // of_pair))  # units are drawn again for each panel


def joint_replicates(
    estimate: ArrayLike,
    replicates: ArrayLike,
    *,
    null: bool = False,
    complete: bool = False,
    units: ResampledUnits | None = None,
    flipped: Floats | None = None,
    values: Floats | None = None,
) -> JointReplicates:
    """Arrange estimates (M,) and their joint replicates (R, M) model by model."""
    estimate = np.array(estimate, np.float64)
    centred = np.array(np.asarray(replicates, np.float64).T, order="C")
    magnitude = np.maximum(np.abs(estimate), np.maximum(centred.max(axis=1), -centred.min(axis=1)))
    mean = centred.mean(axis=1)
    centred -= mean[:, np.newaxis]
    return JointReplicates(
        estimate=estimate,
        centred=centred,
        bias=mean if null else mean - estimate,
        resolution=np.maximum(ROUND_OFF * magnitude, np.finfo(np.float64).tiny),
        complete=complete,
        units=units,
        flipped=None if flipped is None else np.ascontiguousarray(flipped, np.float64),
        values=values,
    )


# --- one pass over the replicates of pairs -------------------------------------------------------------------------


@dataclass(frozen=True)
class PairStatistics:
    """Statistics of P pairs, and what adjusts their p-values for the whole family; :func:`pair_statistics` makes it."""

    difference: Floats  # exactly 0 for two models that agree in every replicate
    error: Floats  # standard deviation of the difference's replicates, or standard error over units
    scale: Floats  # the error or, if it is 0, the resolution
    p_value: Floats  # two-sided, unadjusted
    reach: Floats  # |difference / scale| less rounding errors: a replicate that reaches it counts against the pair
    beyond: Floats  # a replicate that reaches only `reach` counts half; the same as `reach` where none does
    itself: Floats  # half the share of the observed signs and their opposites, where they count whole
    left_out: NDArray[np.bool_]  # models that differ on too few units
    maxima: Floats  # (2, R): in each replicate, the largest |statistic| of pairs below `loops.SPLIT`, and of the others
    complete: bool  # as in `JointReplicates`
    of_units: UnitsApart
    quantile: Floats | None  # of each pair's |statistic|, if a level is given

    @property
    def statistic(self) -> Floats:
        """Difference over scale, always finite."""
        return self.difference / self.scale


def pair_statistics(
    sample: JointReplicates,
    first: Indices,
    second: Indices,
    level: float | None = None,
    narrower: Floats | float = 1.0,
) -> PairStatistics:
    """Compute difference, error, statistic and p-value of each pair, and the largest statistic of each replicate.

    With a level also the quantile of the statistic of each pair: the interval that matches its p-value.

    With difference d, replicates d* of standard deviation s, and centre c (d under the bootstrap, 0 under sign flips):
    t = d / s, t* = (d* - c) / s and p = (1 + #{|t*| >= |t|}) / (1 + R), or the share of complete replicates. All
    replicates of a pair share s, which makes the bootstrap slightly liberal with few units (a nominal 0.05 was 0.067
    over 150 units and ten pairs). Of flips of the signs of Q units' differences, s is known: the root of the sum of
    their squares, over Q. Estimated from the flips, it would be too small for some of many pairs, and the test not
    exact: all flips would be compared with it, and the observed difference, which is none of them.

    If the sample has its units, s is the standard error over them, and each replicate is divided by its own
    (bootstrap-t).

    Of flips, where other signs have the same statistic, p is a mid-p, P(|t*| > |t|) + P(|t*| = |t|) / 2, and replicates
    as large as |t| count half in the family, too. Means of a few 0 and 1, or precisions at 10, have many such ties. If
    all differences have one size, as of units that are 0 or 1, it is the exact mid-p of McNemar's test. Where only the
    opposite signs tie, both count whole, and so do they if one model is ahead by the same on every unit: then the
    interval is a point, or infinite where no flips could reject.

    `narrower` is by how much the error of each difference is smaller than that of its replicates.

    Two models that agree in every replicate have difference, error and statistic 0 and p-value 1. Two that differ by
    the same amount in every replicate have error 0 and the smallest p-value. Two that differ on too few units cannot be
    told apart: their error is at least their difference, so that no interval excludes 0, their p-value that of all
    signs of these units, and they are left out of what concerns the family.
    """
    of_units, (error, scale) = units_apart(sample, first, second), _errors(sample, first, second)
    size = np.abs(sample.estimate[first] - sample.estimate[second])
    resolution = sample.resolution[first] + sample.resolution[second]
    reach = np.where(of_units.too_few, 0.0, np.maximum(size - resolution, 0) / (narrower * scale))
    has_ties = (sample.flipped is not None) & (of_units.n_apart > 0) & ~of_units.too_few
    beyond = np.where(has_ties, (size + resolution) / (narrower * scale), reach)
    tally = _tallied(sample, first, second, scale, (reach, beyond), of_units.too_few, level)
    difference = differences(sample, first, second, error)
    same = of_units.of_one_size
    itself = np.where(has_ties & ~same, 0.5**of_units.n_apart, 0.0)
    if sample.complete:
        n_tied = tally.counts[:, 0] - tally.counts[:, 1]
        itself[n_tied > 2 * sample.n_replicates * itself] = 0.0
    p_value = _shares(tally.counts.mean(axis=1), sample.n_replicates, sample.complete, itself)
    p_value[same] = mid_p(of_units.n_apart[same], of_units.n_ahead[same])
    for pair in np.flatnonzero(of_units.too_few & ~same):  # all signs of the few units that the two differ on
        both = np.asarray(sample.values)[[first[pair], second[pair]]]
        slack = ROUND_OFF * np.abs(both).max(axis=1).sum()
        apart = both[0] - both[1]
        apart = apart[np.abs(apart) > slack]
        p_value[pair] = np.mean(np.abs(all_signs(apart.size) @ apart) >= abs(apart.sum()) - slack)
    error = np.where(of_units.too_few, np.maximum(error, size), error)
    return PairStatistics(
        scale=scale,
        p_value=p_value,
        reach=reach,
        beyond=beyond,
        itself=itself,
        left_out=of_units.too_few,
        maxima=tally.maxima[: loops.LEFT_OUT],
        complete=sample.complete,
        difference=difference,
        error=error,
        of_units=of_units,
        quantile=None if level is None else tally.quantiles,
    )


def spread_of_pairs(
    sample: JointReplicates, first: Indices, second: Indices, level: float, too_few: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """Return the quantile of the statistic of each pair, and the largest ones, as :func:`pair_statistics` does."""
    _, scale = _errors(sample, first, second)
    tally = _tallied(sample, first, second, scale, None, too_few, level)
    return tally.quantiles, tally.maxima[loops.BELOW]


def _tallied(
    sample: JointReplicates,
    first: Indices,
    second: Indices,
    scale: Floats,
    bounds: tuple[Floats, Floats] | None,
    left_out: NDArray[np.bool_],
    level: float | None,
) -> loops.Tally:
    """Return the tally of the statistics of pairs; with `bounds`, it counts those that attain them."""
    place = None if level is None else order_statistic(sample.n_replicates, level, sample.complete)
    tally = loops.Tally.of(bounds, left_out, sample.n_replicates, place)
    pairs = _replicates(sample, first, second, scale)
    if sample.units is None:
        pairs.fill(tally)
    else:
        for panel, sizes in _stretched(sample, sample.units, pairs):
            tally.add(panel, sizes)
    return tally


@dataclass(frozen=True)
class UnitsApart:
    """On how many units the models of P pairs differ; all 0 where the sample is not over units."""

    n_apart: Indices
    n_ahead: Indices  # by how many units one model is ahead of the other, if all differences have one size
    of_one_size: NDArray[np.bool_]  # the signs of differences of one size are flipped
    too_few: NDArray[np.bool_]  # too few to tell; not where there are too few units for any pair


def units_apart(sample: JointReplicates, first: Indices, second: Indices) -> UnitsApart:
    """Count the units on which models differ."""
    values = sample.values
    if values is None:
        nothing = np.zeros(first.size, np.int64)
        return UnitsApart(nothing, nothing, nothing > 0, nothing > 0)
    resolution = ROUND_OFF * np.abs(values).max(axis=1)
    n_apart, least, most = loops.apart(values, resolution, first, second)
    of_one_size: NDArray[np.bool_] = (n_apart > 0) & (most - least <= resolution[first] + resolution[second])
    of_one_size &= sample.flipped is not None
    total = np.abs(sample.estimate[first] - sample.estimate[second]) * values.shape[1]
    n_ahead = np.rint(np.divide(total, most, out=np.zeros(first.size), where=of_one_size)).astype(np.int64)
    of_one_size &= n_ahead < values.shape[1]  # a constant has no error: its interval counts ties whole, and so does p
    needed = LEAST_UNITS - of_one_size
    too_few = (n_apart > 0) & (n_apart < needed) & (values.shape[1] >= needed)
    return UnitsApart(n_apart, n_ahead, of_one_size, too_few)


def mid_p(n_apart: Indices, n_ahead: Indices) -> Floats:
    """Return the two-sided mid-p of sums of `n_apart` random signs that are `n_ahead`.

    Fagerland, Lydersen & Laake 2013, doi:10.1186/1471-2288-13-91.
    """
    from scipy import special

    losses = (n_apart - n_ahead) // 2
    at_most = special.bdtr(losses, n_apart, 0.5)
    fewer = np.where(losses > 0, special.bdtr(np.maximum(losses - 1, 0), n_apart, 0.5), 0.0)
    return np.where(n_ahead > 0, at_most + fewer, 1 - (at_most - fewer) / 2)


def critical_numbers(n_apart: Indices, alpha: float) -> Floats:
    """Return by how many of `n_apart` random signs a sum must be ahead for a mid-p of at most alpha, less a half step.

    More than all where no sum is rare enough.
    """
    found = np.empty(n_apart.size)
    for n in np.unique(n_apart):
        ahead = np.arange(n % 2, n + 1, 2)
        is_rare = mid_p(np.full(ahead.size, n), ahead) <= alpha
        found[n_apart == n] = ahead[is_rare.argmax()] - 1 if is_rare.any() else n + 1
    return found


def _errors(sample: JointReplicates, first: Indices, second: Indices) -> tuple[Floats, Floats]:
    """Return the standard errors of pairs, 0 where they are rounding errors, and what differences are divided by.

    The errors are the standard deviations of the differences' replicates, known or estimated, or, if the sample has its
    units, the standard errors over them.
    """
    resolution = sample.resolution[first] + sample.resolution[second]
    if sample.units is not None:
        error = errors_from_units(sample.units.values, first, second)
        return error, np.maximum(error, resolution)
    spread, degrees = sample.centred, sample.n_replicates - (not sample.complete)
    if sample.flipped is not None:
        spread, degrees = sample.flipped, sample.flipped.shape[1] ** 2
    deviation = np.sqrt(loops.squares(spread, first, second) / max(1, degrees))
    error = np.where(deviation > resolution, deviation, 0.0)
    return error, np.maximum(error, resolution)


def _replicates(
    sample: JointReplicates, first: Indices, second: Indices, scale: Floats, left_out: NDArray[np.bool_] | None = None
) -> loops.Replicates:
    """Return the replicates of pairs over their scales; 0 for those that are left out."""
    inverse = 1 / scale
    if left_out is not None:
        inverse[left_out] = 0.0
    return loops.Replicates(sample.centred, first, second, sample.bias[first] - sample.bias[second], inverse)


def _stretched(
    sample: JointReplicates, units: ResampledUnits, pairs: loops.Replicates
) -> Iterator[tuple[slice, Floats]]:
    """Yield panels of the sizes of replicates that are divided by their own errors."""
    for panel in sample.panels(pairs.first.size):
        sizes = deviations_from_centre(sample, pairs.first[panel], pairs.second[panel])
        stretch(sizes, sample, units, pairs.first[panel], pairs.second[panel])
        np.abs(sizes, out=sizes)
        sizes *= pairs.inverse[panel, np.newaxis]
        yield panel, sizes


def undecided(values: Floats, first: Indices, second: Indices) -> NDArray[np.bool_]:
    """Return which pairs differ on some units, but on too few to tell; none where there are too few for any pair."""
    n_apart, _, _ = loops.apart(values, ROUND_OFF * np.abs(values).max(axis=1), first, second)
    too_few: NDArray[np.bool_] = (n_apart > 0) & (n_apart < LEAST_UNITS) & (values.shape[1] >= LEAST_UNITS)
    return too_few


def deviations_from_centre(sample: JointReplicates, first: Indices, second: Indices) -> Floats:
    """Return how far the replicates (P, R) of differences are from their centre."""
    deviations: Floats = sample.centred[first] - sample.centred[second]
    deviations += (sample.bias[first] - sample.bias[second])[:, np.newaxis]
    return deviations


def stretch(
    deviations: Floats, sample: JointReplicates, units: ResampledUnits, first: Indices, second: Indices
) -> Floats:
    """Multiply each deviation from the centre by the standard error over its own error; return the standard errors.

    An own error counts as at least a fifth of that of the data: else one pair of models that differ on few units, which
    a replicate may lack, would decide on a family.
    """
    squares = units.values[first] - units.values[second]
    squares -= squares.mean(axis=1, keepdims=True)
    np.square(squares, out=squares)
    n_units = squares.shape[1]
    spread, resolution = (
        np.sqrt(squares.sum(axis=1) / (n_units - 1)),
        units.resolution[first] + units.resolution[second],
    )
    error = np.where(spread <= resolution, 0.0, spread / np.sqrt(n_units))
    of_pair = error[:, np.newaxis]
    deviations[np.abs(deviations) <= (sample.resolution[first] + sample.resolution[second])[:, np.newaxis]] = 0.0
    own = units.redraws.sums(squares)
    own /= n_units * (n_units - 1.0)
    own -= deviations * deviations / (n_units - 1.0)
    np.sqrt(np.maximum(own, (LEAST_OWN_ERROR * of_pair) ** 2, out=own), out=own)
    deviations *= np.divide(of_pair, own, out=np.ones(own.shape), where=own > 0)
    return error


def differences(sample: JointReplicates, first: Indices, second: Indices, error: Floats) -> Floats:
    """Differences of estimates, exactly 0 where neither they nor their replicates exceed rounding errors."""
    difference: Floats = sample.estimate[first] - sample.estimate[second]
    resolution = sample.resolution[first] + sample.resolution[second]
    return np.where((error == 0) & (np.abs(difference) <= resolution), 0.0, difference)


def errors_and_maxima(sample: JointReplicates) -> tuple[Floats, Floats]:
    """Return the errors of all pairs, row by row, and each replicate's largest statistic over each model's pairs."""
    first, second = all_pairs(len(sample.estimate))
    too_few = units_apart(sample, first, second).too_few
    error, scale = _errors(sample, first, second)
    pairs = _replicates(sample, first, second, scale, too_few)
    if sample.units is None:
        maximum = loops.maxima_of_models(sample.centred, sample.bias, pairs.inverse)
    else:
        maximum = np.zeros(sample.centred.shape)
        for panel, sizes in _stretched(sample, sample.units, pairs):
            for j, k, size in zip(first[panel], second[panel], sizes, strict=True):
                np.maximum(maximum[j], size, out=maximum[j])
                np.maximum(maximum[k], size, out=maximum[k])
    size = np.abs(sample.estimate[first] - sample.estimate[second])
    return np.where(too_few, np.maximum(error, size), error), maximum


# --- adjusted p-values ---------------------------------------------------------------------------------------------


def single_step(family: PairStatistics) -> Floats:
    """P-values adjusted by single-step max-T: (1 + #{max_j |t_j*| >= |t_i|}) / (1 + R)."""
    maximum = np.sort(family.maxima.max(axis=0))
    below = np.searchsorted(maximum, family.reach) + np.searchsorted(maximum, family.beyond)
    return _shares(maximum.size - below / 2, maximum.size, family.complete, family.itself)


def romano_wolf(sample: JointReplicates, first: Indices, second: Indices, tests: PairStatistics) -> Floats:
    """P-values adjusted by step-down max-T: each pair against the maximum over itself and the pairs with smaller |t|.

    With pairs in descending order of |t|, p_(i) = max(p_(i-1), (1 + #{max_{j >= i} |t_(j)*| >= |t_(i)|}) / (1 + R)).
    """
    upwards = np.argsort(tests.reach, kind="stable")
    reach = tests.reach[upwards]
    attained = np.zeros(first.size, np.int64)  # twice the maxima, over a pair and the smaller ones, that attain it
    maximum, start = np.zeros(sample.n_replicates), 0
    below = upwards[: np.searchsorted(reach, loops.SPLIT)]
    if tests.maxima[loops.BELOW].min() >= tests.beyond[below].max(initial=0.0):
        # Together they attain all of these, so the largest has the p-value 1, and so have those before it.
        maximum, start = tests.maxima[loops.BELOW].copy(), below.size
        attained[:start] = 2 * sample.n_replicates
    # No maximum attains what is larger than all.
    middle = slice(start, np.searchsorted(reach, tests.maxima.max(), side="right"))
    order = upwards[middle]  # each of these raises the maxima
    pairs = _replicates(sample, first[order], second[order], tests.scale[order], tests.left_out[order])
    lower, upper = tests.reach[order], tests.beyond[order]
    if sample.units is None:
        attained[middle] = pairs.step_up(lower, upper, maximum)
    else:
        counts = attained[middle]
        for panel, sizes in _stretched(sample, sample.units, pairs):
            counts[panel] = loops.step_up(sizes, lower[panel], upper[panel], maximum)
    p_value = np.empty(first.size)
    p_value[upwards] = _shares(attained / 2, sample.n_replicates, sample.complete, tests.itself[upwards])
    downwards = upwards[::-1]
    p_value[downwards] = np.maximum.accumulate(p_value[downwards])
    return p_value


# --- quantiles of intervals ----------------------------------------------------------------------------------------


def max_t_quantile(maximum: Floats, level: float, complete: bool) -> float:
    """Quantile of the maximum statistic: ``difference -+ quantile * error`` hold for all pairs at once.

    An interval excludes 0 exactly where the :func:`single_step` p-value is at most ``1 - level``. Only for bootstrap
    replicates: sign flips are centred at 0, and their errors are too large where models differ.
    """
    place = order_statistic(maximum.size, level, complete)
    return float(np.partition(maximum, place)[place])


def order_statistic(n_replicates: int, level: float, complete: bool = False) -> int:
    """Position, counted from 0, of the quantile among sorted replicates that matches their p-values."""
    # Rounded, so that a product such as 0.95 * 20 that is a little above 19 does not take the next replicate.
    rank = int(np.ceil(round(level * (n_replicates + (not complete)), 9)))
    if rank > n_replicates:
        remedy = f"take at least {int(np.ceil(round(level / (1 - level), 9)))} resamples"
        what, allowed = "too few replicates for this level", "enough replicates for a quantile at each end"
        raise clash(what, remedy, allowed, n_resamples=n_replicates, level=level)
    return rank - 1


# --- equivalence ---------------------------------------------------------------------------------------------------


def equivalence(
    sample: JointReplicates, first: Indices, second: Indices, margin: float, *, alpha: float = 0.05
) -> Equivalence:
    """Test whether differences lie within [-margin, margin], from bootstrap replicates.

    With e* = d* - d, the p-values (1 + #{e* >= d + margin}) / (1 + R) and (1 + #{e* <= d - margin}) / (1 + R) are both
    at most alpha exactly where the basic bootstrap interval of level 1 - 2 alpha lies inside the region. If the sample
    has its units, e* is stretched as by :func:`stretch`, and the interval is that of the bootstrap-t.
    """
    tails = np.empty((4, first.size))
    share_inside = np.empty(first.size)
    for panel in sample.panels(first.size):
        j, k = first[panel], second[panel]
        replicates = deviations_from_centre(sample, j, k)
        deviations = replicates
        if sample.units is not None:
            deviations = replicates.copy()
            stretch(deviations, sample, sample.units, j, k)
        difference = (sample.estimate[j] - sample.estimate[k])[:, np.newaxis]
        slack = (sample.resolution[j] + sample.resolution[k])[:, np.newaxis]
        reached = (
            deviations >= difference + margin - slack,
            deviations <= difference - margin + slack,
            deviations >= difference - margin - slack,
            deviations <= difference + margin + slack,
        )
        tails[:, panel] = [_shares(_count(mask), mask.shape[1], sample.complete) for mask in reached]
        replicates += difference
        share_inside[panel] = _count(np.abs(replicates, out=replicates) <= margin + slack) / replicates.shape[1]
    return decided(tails, share_inside, alpha)


def _shares(counts: NDArray[Any], n_replicates: int, complete: bool, itself: Floats | float = 0.0) -> Floats:
    """Return numbers of replicates as shares of all, the observed data included; `itself` is what else they count."""
    extra = 0 if complete else 1
    return np.asarray(np.minimum((counts + extra) / (n_replicates + extra) + itself, 1.0), np.float64)


def _count(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count the true values of each row; NumPy is much faster row by row than along an axis."""
    return np.fromiter((np.count_nonzero(row) for row in mask), np.int64, len(mask))
