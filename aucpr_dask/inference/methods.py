"""The methods of comparison, one class each: results for pairs, and for a family of pairs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import xarray as xr

from aucpr_dask.inference import families, pairs, units
from aucpr_dask.inference.families import JointReplicates, PairStatistics, ResampledUnits, UnitsApart
from aucpr_dask.inference.units import Floats, Indices, student_draws

# Variables of a data set whose ranks are swapped.
RANK, POSITIVE, SWAPPED = "doubled_rank", "is_positive", "swapped_together"
MOST_ENUMERATED = 16  # units that swaps move: all 2^15 different assignments take less time than a thousand of many
ROUND_OFF = 1e-12  # of a difference of areas: sums in another order


@dataclass(frozen=True)
class Pairs:
    """Results for P pairs of models, `first` minus `second`."""

    first: Indices
    second: Indices
    difference: Floats
    error: Floats
    p_value: Floats
    bounds: Floats | None = None  # (P, 2); None where the method has p-values only
    outer: Floats | None = None  # standard errors for the side of intervals away from 0, where they differ
    tests: PairStatistics | None = None  # adjusts the p-values for a family
    spread: Floats | None = None  # (R,): the largest statistics, which make the intervals of a family simultaneous
    equivalence: pairs.Equivalence | None = None
    more: Mapping[str, Floats] = field(default_factory=dict)  # what only this method finds, by name


@dataclass(frozen=True)
class Goal:
    """The level of intervals, and the margin of equivalence."""

    level: float
    margin: float | None


class Resampling:
    """Bootstrap: the replicates of a difference are spread around it as it is around the truth.

    With `units`, each replicate is divided by the standard error of its own units (bootstrap-t). Replicates of skewed
    differences are then as skewed, relative to their errors, as the difference of the sample is.
    """

    def __init__(self, estimate: Floats, replicates: Floats, goal: Goal, units: ResampledUnits | None = None) -> None:
        self.goal = goal
        values = None if units is None else units.values
        self.sample: JointReplicates = families.joint_replicates(estimate, replicates.T, units=units, values=values)

    def pairs(self, first: Indices, second: Indices) -> Pairs:
        """Symmetric studentised intervals, and the p-values that match them."""
        level, margin = self.goal.level, self.goal.margin
        tests = families.pair_statistics(self.sample, first, second, level)
        bounds = pairs.intervals(tests.difference, tests.error, _known(tests.quantile))
        verdict = None
        if margin is not None:
            verdict = families.equivalence(self.sample, first, second, margin, alpha=1 - level)
        found = first, second, tests.difference, tests.error, tests.p_value, bounds
        return Pairs(*found, tests=tests, spread=tests.maxima.max(axis=0), equivalence=verdict)

    def simultaneous_quantile(self, family: Pairs) -> float:
        """Quantile of the largest statistic of the family."""
        return families.max_t_quantile(_known(family.spread), self.goal.level, self.sample.complete)


class SignFlips:
    """Sign flips over units: exact tests, and intervals from the flipped residuals.

    If two models are equally good, the sign of a unit's difference is random. The intervals flip the deviations from
    the mean difference; those of differences of one size, as of units that are 0 or 1, take the critical value of the
    test itself, and leave out 0 where its mid-p is small. A flipped mean m has the standard deviation
    ``sqrt((A - m^2) / (Q - 1))`` with A the mean square, which turns the quantile c of ``m / sqrt(A / Q)`` into that of
    a Student statistic, ``c sqrt((Q - 1) / (Q - c^2))``: with few units the intervals are as wide as t's, and infinite
    if no test could reject (2 of the 2^Q flips are as large as the observed one).
    """

    def __init__(self, values: Floats, names: Sequence[str], goal: Goal, n_resamples: int, seed: int) -> None:
        self.goal, self.values = goal, values
        self.estimate = units.mean_of_units(values)
        flips = units.Flips(len(names), n_resamples, seed, units.keys_of(names))
        means = flips.means(np.vstack([values, np.ones(len(names))]))
        of_values, of_ones = means[:-1], means[-1]
        of_residuals = of_values - self.estimate[:, None] * of_ones
        # The flips for tests, and the residuals' around the estimates for intervals.
        self.sample, self.spread = (
            families.joint_replicates(
                self.estimate, means.T, null=True, complete=flips.complete, flipped=flipped, values=values
            )
            for means, flipped in ((of_values, values), (of_residuals, values - self.estimate[:, None]))
        )

    def pairs(self, first: Indices, second: Indices) -> Pairs:
        """P-values of the flipped differences, intervals of the flipped residuals."""
        tests = families.pair_statistics(self.sample, first, second)
        apart, error = tests.of_units, self.errors(first, second, tests.of_units)
        quantiles, spread = families.spread_of_pairs(self.spread, first, second, self.goal.level, apart.too_few)
        quantile = self.reach(quantiles)
        n_apart = apart.n_apart[apart.of_one_size]
        critical = families.critical_numbers(n_apart, 1 - self.goal.level) / np.sqrt(n_apart)
        quantile[apart.of_one_size] = self._of_student(critical)
        bounds = pairs.intervals(tests.difference, error, quantile)
        verdict = _student_equivalence(tests.difference, error, self.goal, self.values.shape[1] - 1)
        found = first, second, tests.difference, error, tests.p_value, bounds
        return Pairs(*found, tests=tests, spread=spread, equivalence=verdict)

    def simultaneous_quantile(self, family: Pairs) -> float:
        """Quantile of the largest Student statistic of the family; that of its interval if it is a single pair."""
        if family.bounds is not None and family.first.size == 1 and family.error[0] > 0:
            return float((family.bounds[0, 1] - family.bounds[0, 0]) / family.error[0] / 2)
        quantile = families.max_t_quantile(_known(family.spread), self.goal.level, self.sample.complete)
        return float(self.reach_of_family(np.array(quantile), family.first.size))

    def reach_of_family(self, quantile: Floats, n_pairs: int) -> Floats:
        """Return how many errors intervals of a family reach, from quantiles of the largest flipped mean."""
        reached = self.reach(quantile)
        # 0 where every pair differs on too few units, and is left out.
        of_none = pairs.bonferroni_quantile(self.goal.level, n_pairs, self.values.shape[1] - 1)
        return np.where((quantile == 0) & np.isfinite(reached), of_none, reached)

    def errors(self, first: Indices, second: Indices, apart: UnitsApart | None = None) -> Floats:
        """Return the standard errors of differences; at least these, where models differ on too few units to tell."""
        apart = families.units_apart(self.sample, first, second) if apart is None else apart
        error, size = pairs.errors_from_units(self.values, first, second), self.estimate[first] - self.estimate[second]
        return np.where(apart.too_few, np.maximum(error, np.abs(size)), error)

    def reach(self, quantile: Floats) -> Floats:
        """Turn quantiles of flipped means over their root mean square into those of Student statistics."""
        if 2.0 ** (1 - self.values.shape[1]) > 1 - self.goal.level:
            return np.full(quantile.shape, np.inf)
        return self._of_student(quantile)

    def _of_student(self, quantile: Floats) -> Floats:
        n_units = self.values.shape[1]
        room = n_units - quantile**2
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(room > 0, quantile * np.sqrt((n_units - 1) / room), np.inf)


class Student:
    """Paired t test over units."""

    sample = None

    def __init__(self, values: Floats, goal: Goal) -> None:
        self.goal, self.values = goal, values
        self.mean = units.mean_of_units(values)
        self.degrees = values.shape[1] - 1
        self.stretch = 1.0  # of standard errors

    def pairs(self, first: Indices, second: Indices) -> Pairs:
        """Student's t of the units' differences."""
        error = self.stretch * pairs.errors_from_units(self.values, first, second)
        return student_pairs(first, second, self.mean[first] - self.mean[second], error, self.degrees, self.goal)

    def simultaneous_quantile(self, family: Pairs) -> float:
        """Bonferroni: divide the error rate by the number of pairs."""
        return pairs.bonferroni_quantile(self.goal.level, family.first.size, self.degrees)


class CorrectedStudent(Student):
    """Nadeau and Bengio's t test over areas of J folds, whose training parts overlap (doi:10.1023/A:1024068626366).

    Student's t with ``s^2 (1 / J + 1 / (k - 1))``.
    """

    def __init__(self, values: Floats, n_folds: int, goal: Goal) -> None:
        super().__init__(values, goal)
        self.stretch = math.sqrt(1 + values.shape[1] / (n_folds - 1))  # of s / sqrt(J): the test part over the rest


class Wilcoxon(Student):
    """Wilcoxon's signed-rank test over units: p-values only, because it is not about the mean difference."""

    def pairs(self, first: Indices, second: Indices) -> Pairs:
        """P-values of the signed ranks."""
        difference = self.mean[first] - self.mean[second]
        error = pairs.errors_from_units(self.values, first, second)
        return Pairs(first, second, difference, error, pairs.wilcoxon_p_values(self.values, first, second))

    def simultaneous_quantile(self, family: Pairs) -> float:
        """Return NaN: there are no intervals."""
        return math.nan


class Influence:
    """Student's t with variances by influence functions; families use draws from the multivariate t distribution."""

    def __init__(
        self,
        estimate: Floats,
        variance: Floats,  # (M, M), of differences
        outer: Floats,  # (M, M), the same for the side of intervals away from 0
        joint: Floats,  # (M, M), those of one joint distribution, for families
        degrees: float,
        names: Sequence[str],
        goal: Goal,
        n_resamples: int,
        seed: int,
        *,
        training: Floats | None = None,  # (M, M), the part of the variance that comes from training
    ) -> None:
        self.goal, self.estimate, self.degrees = goal, estimate, degrees
        self.training, self.more = training, () if training is None else ("training_share",)
        self.variance, self.outer, self.joint = variance, outer, joint
        self.draw_degrees = max(degrees, 2.5)  # with two or fewer, draws have no variance
        draws = student_draws(joint, self.draw_degrees, names, n_resamples, seed)
        self.sample = families.joint_replicates(estimate, estimate + draws)

    def pairs(self, first: Indices, second: Indices) -> Pairs:
        """Wald intervals and tests."""
        own, drawn = self.variance[first, second], self.joint[first, second]
        narrower = np.sqrt(np.divide(own, drawn, out=np.ones(first.size), where=(own > 0) & (drawn > 0)))
        tests = families.pair_statistics(self.sample, first, second, narrower=narrower)
        difference, error = self.estimate[first] - self.estimate[second], self.errors(first, second)
        outer = np.sqrt(self.outer[first, second])
        wald = student_pairs(first, second, difference, error, self.degrees, self.goal, outer)
        if self.training is None:
            return replace(wald, tests=tests, spread=tests.maxima.max(axis=0))
        part, whole = self.training[first, second], self.variance[first, second]
        share = np.divide(part, whole, out=np.zeros(first.size), where=whole > 0)
        return replace(wald, tests=tests, spread=tests.maxima.max(axis=0), more={"training_share": share})

    def simultaneous_quantile(self, family: Pairs) -> float:
        """Quantile of the largest statistic of the family, among the draws; never below that of one pair."""
        quantile = families.max_t_quantile(_known(family.spread), self.goal.level, self.sample.complete)
        return float(self.reach_of_family(np.array(quantile), family.first.size))

    def reach_of_family(self, quantile: Floats, n_pairs: int) -> Floats:
        """Return how many errors intervals of a family reach, from quantiles of the largest statistic of draws.

        Draws are divided by their standard deviation, which is that of Student's t times the error. No interval is
        shorter than that of a single pair, and a pair alone has that one, whatever the draws.
        """
        own = pairs.parametric_quantile(self.goal.level, self.degrees)
        in_errors = quantile * math.sqrt(self.draw_degrees / (self.draw_degrees - 2))
        return np.maximum(in_errors if n_pairs > 1 else np.zeros(quantile.shape), own)

    def errors(self, first: Indices, second: Indices) -> Floats:
        """Return the standard errors of differences."""
        return np.sqrt(self.variance[first, second])


class RankSwap:
    """Swaps of the two ranks of each item, or of all items of a cluster.

    With d the difference and d* that after a swap, ``p = max((1 + #{|d*| >= |d|}) / (1 + R), 2 P(Z >= |d| / s))``, s
    the root mean square of the d*: the tail of R swaps alone finds too many differences between near copies. Where up
    to 16 units move, all swaps are enumerated, and p is their share. The interval reaches as far as the largest
    difference that the test does not reject.
    """

    sample = None

    def __init__(self, estimate: Floats, ranks: Indices, node: xr.Dataset, goal: Goal, n_swaps: int, seed: int) -> None:
        self.estimate, self.ranks, self.goal, self.n_swaps = estimate, ranks, goal, n_swaps
        self.label, self.unit = node[POSITIVE].values, node[SWAPPED].values
        self.degrees = None if node.attrs["sampled"] == "items" else np.unique(self.unit).size - 1
        self.key = int(units.keys_of([f"rank swaps {seed}"])[0])

    def pairs(self, first: Indices, second: Indices) -> Pairs:
        """Test each pair by swaps of its own."""
        found = np.array([self._test(int(j), int(k)) for j, k in zip(first, second, strict=True)]).reshape(-1, 2)
        difference = self.estimate[first] - self.estimate[second]
        half = found[:, 1]
        error = half / pairs.parametric_quantile(self.goal.level, self.degrees)
        bounds = np.stack([difference - half, difference + half], axis=-1)
        verdict = _student_equivalence(difference, error, self.goal, self.degrees)
        return Pairs(first, second, difference, error, found[:, 0], bounds, equivalence=verdict)

    def simultaneous_quantile(self, family: Pairs) -> float:
        """Bonferroni: divide the error rate by the number of pairs."""
        return pairs.bonferroni_quantile(self.goal.level, family.first.size, self.degrees)

    def _test(self, first: int, second: int) -> tuple[float, float]:
        """Return the p-value, and how far the interval reaches."""
        from aucpr_dask.kernels.swaps import differences_when_swapped

        ranks = self.ranks[[first, second]]
        moved = np.unique(self.unit[ranks[0] != ranks[1]])
        if moved.size == 0:
            return 1.0, 0.0
        is_complete = moved.size <= MOST_ENUMERATED
        n_swaps = 1 << (moved.size - 1) if is_complete else self.n_swaps
        # Units that stay have the number that no swap has.
        place = np.where(np.isin(self.unit, moved), np.searchsorted(moved, self.unit), moved.size)
        swapped = differences_when_swapped(
            ranks, self.label, place if is_complete else self.unit, n_swaps, self.key, is_complete=is_complete
        )
        observed, sizes = abs(swapped[0]), np.sort(np.abs(swapped[1:]))
        spread = math.sqrt(np.mean(sizes**2))
        reached = int(np.count_nonzero(sizes >= observed - ROUND_OFF))
        n_all, extra = n_swaps + (not is_complete), int(not is_complete)
        allowed = math.floor(round((1 - self.goal.level) * n_all, 9)) - extra
        # The number `allowed` + 1 from the top is the largest difference that is not rejected.
        largest = float(sizes[-1 - allowed]) + ROUND_OFF if allowed + extra > 0 and allowed < n_swaps else math.inf
        p_value = (reached + extra) / n_all
        if is_complete:
            return p_value, largest
        tail = pairs.parametric_p_values(np.array([observed]), np.array([spread]), self.degrees)
        quantile = pairs.parametric_quantile(self.goal.level, self.degrees)
        return max(p_value, float(tail[0])), max(largest, quantile * spread)


_Replicates = TypeVar("_Replicates", PairStatistics, JointReplicates, Floats)

Method = Resampling | SignFlips | Student | Influence | RankSwap


def resample_units(
    values: Floats, names: Sequence[str], goal: Goal, n_resamples: int, seed: int, *, own_errors: bool = False
) -> Resampling:
    """Draw units with replacement; `own_errors` divides each replicate by its own standard error."""
    redraws = units.Redraws(len(names), n_resamples, seed)
    resampled = ResampledUnits(values, redraws) if own_errors else None
    return Resampling(units.mean_of_units(values), redraws.means(values), goal, resampled)


def student_pairs(
    first: Indices,
    second: Indices,
    difference: Floats,
    error: Floats,
    degrees: float,
    goal: Goal,
    outer: Floats | None = None,
) -> Pairs:
    """Return Student's tests and intervals of differences whose errors have these degrees of freedom."""
    p_value = pairs.parametric_p_values(difference, error, degrees)
    bounds = pairs.intervals(difference, error, pairs.parametric_quantile(goal.level, degrees), outer)
    verdict = _student_equivalence(difference, error if outer is None else outer, goal, degrees)
    return Pairs(first, second, difference, error, p_value, bounds, outer, equivalence=verdict)


def _student_equivalence(
    difference: Floats, error: Floats, goal: Goal, degrees: float | None
) -> pairs.Equivalence | None:
    if goal.margin is None:
        return None
    return pairs.parametric_equivalence(difference, error, goal.margin, alpha=1 - goal.level, degrees=degrees)


def adjusted_p_values(method: Method, family: Pairs, adjust: str) -> Floats:
    """Return the p-values of a family, adjusted for multiple comparisons; never smaller than unadjusted."""
    if adjust == "none" or family.first.size < 2:  # one alone is not adjusted, nor simulated once more
        return family.p_value
    if adjust == "holm":
        return pairs.holm(family.p_value)
    if adjust == "benjamini_hochberg":
        return pairs.benjamini_hochberg(family.p_value)
    tests = _known(family.tests)
    if adjust == "max_t":
        return np.maximum(families.single_step(tests), family.p_value)
    stepped = families.romano_wolf(_known(method.sample), family.first, family.second, tests)
    return np.maximum(stepped, family.p_value)


def _known(value: _Replicates | None) -> _Replicates:
    if value is None:
        raise TypeError("this method has no replicates of the family")
    return value
