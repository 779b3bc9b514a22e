"""The smallest differences that a design can show, and how much data smaller ones need."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
import xarray as xr
from scipy.special import nctdtr, nctdtrinc, ndtr, ndtri, stdtr, stdtrit

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.evaluation.arrays import takes_arrays
from aucpr_dask.inference import covarying, designs, grouped, pairs, questions, sentences
from aucpr_dask.inference.comparing import Baseline, positions, with_one_baseline
from aucpr_dask.inference.methods import Influence, Method, Pairs, SignFlips
from aucpr_dask.inference.paired_samples import PairedSample, Quantity, annotated, placed
from aucpr_dask.inference.units import Floats, Indices
from aucpr_dask.schema import choices
from aucpr_dask.schema.checks import fraction, margin
from aucpr_dask.schema.options import ComparisonOptions
from aucpr_dask.schema.terms import MODEL, Scores

POWER = 0.8  # with which differences are to be shown, unless another is asked for
MOST_NEEDED = 2.0**31  # units or positives; more count as infinitely many
AS_NORMAL = 1e6  # degrees of freedom
ENOUGH_POSITIVES = 200  # from which, or from 30 units, a stated power of 80 % is within 2 points of simulations
NEAR_ONE = 0.95  # areas above it vary more than their standard errors say, even with many positives
QUANTITIES = dict.fromkeys(("detectable", "detectable_family"), Quantity(0.0))
QUANTITIES |= dict.fromkeys(("power", "power_family", "n_needed", "n_needed_family"), Quantity(math.nan))


@dataclass(frozen=True)
class Reach:
    """How far the intervals of P differences reach, and how that depends on the size of the sample.

    An interval is the difference -+ `reach` standard errors. If the true difference is d, the difference over its
    standard error has the noncentral t distribution with noncentrality d / `error`.
    """

    error: Floats
    reach: Floats  # infinite where the interval is
    alpha: float  # of one interval, by which larger samples reach less far where `reach` is infinite
    degrees: float  # of freedom of the standard errors
    n: float  # units or, if items are the sample, positives; NaN if they are not counted
    noun: tuple[str, str]  # of one and several of these
    has_units: bool
    least: int = 2  # units with which a difference can be shown at all
    is_near_one: bool = False  # whether areas are, over items
    most: float = math.inf  # largest difference that the measure allows
    skewness: float = 0.0  # of the units' differences, towards the side that is to be shown

    def of(self, place: int) -> Reach:
        """Return that of one difference."""
        return replace(self, error=self.error[[place]], reach=self.reach[[place]])

    def detectable(self, power: float) -> Floats:
        """Return the true difference that is shown with this probability: the interval lies on its side of 0.

        It is infinite if no two models can differ by so much.
        """
        errors = nctdtrinc(np.minimum(self.degrees, AS_NORMAL), 1 - power, self.reach)
        errors = np.where(np.isinf(self.reach), np.inf, errors + self._of_skewness(power))
        found = np.where(self.error > 0, errors, 0.0) * self.error
        return np.where(np.isinf(self.reach) | (found > self.most), np.inf, found)

    def _of_skewness(self, power: float) -> Floats | float:
        """Return by how many standard errors skewness moves the detectable difference.

        With reach c, a bound is the mean less c standard errors. Where large units raise the mean they raise the
        standard error as well, so its variance is ``1 - c g / sqrt(n) + c^2 (k - 1) / (4 n)`` in squares of standard
        errors; without skewness g the kurtosis k is 3, and with it that of the gamma distribution, ``3 + 3 g^2 / 2``.
        """
        if not self.skewness:
            return 0.0
        reach = np.where(np.isinf(self.reach), 0.0, self.reach)
        symmetric = 1 + reach**2 / (2 * self.n)
        skewed = symmetric - self.skewness * reach / math.sqrt(self.n) + 3 * (self.skewness * reach) ** 2 / (8 * self.n)
        return ndtri(power) * (np.sqrt(skewed) - np.sqrt(symmetric))

    @property
    def is_rough(self) -> bool:
        """Whether the sample, of units or of positives, is too small or too good to state a power exactly."""
        is_enough = self.n >= (designs.ENOUGH_UNITS if self.has_units else ENOUGH_POSITIVES)
        return not is_enough or self.is_near_one

    def power(self, difference: float | Floats) -> Floats:
        """Return the probability of showing a true difference."""
        # The probability that noncentral t is above the reach.
        degrees, finite = np.minimum(self.degrees, AS_NORMAL), np.where(np.isinf(self.reach), 0.0, self.reach)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            noncentrality = difference / self.error
            below = nctdtr(degrees, np.minimum(noncentrality, 1e6), finite)
            # Where the series is too long:
            approximate = ndtr((finite - noncentrality) / np.sqrt(1 + finite**2 / (2 * degrees)))
            shown = np.where(np.isinf(self.reach), 0.0, 1 - np.where(np.isnan(below), approximate, below))
        return np.where(self.error > 0, shown, np.isfinite(self.reach))

    def resized(self, n: Floats) -> Reach:
        """Return the same for other sizes of the sample, whose variance is proportional to 1 / size."""
        times = n / self.n
        degrees = np.maximum(n - 1, 1.0) if self.has_units else self.degrees * times
        tail = np.where(np.isinf(self.reach), self.alpha / 2, stdtr(self.degrees, -self.reach))
        reach = np.where(n < self.least, np.inf, -stdtrit(degrees, tail))
        return replace(self, error=self.error / np.sqrt(times), reach=reach, degrees=degrees, n=n)  # type: ignore[arg-type]

    def needed(self, difference: float | Floats, power: float) -> Floats:
        """Return the smallest sample that shows a true difference, or each of its own, with this probability."""
        if math.isnan(self.n):
            return np.full(self.error.shape, math.nan)
        low, high = np.ones(self.error.shape), np.full(self.error.shape, MOST_NEEDED)
        while (high - low > 1).any():
            middle = np.floor((low + high) / 2)
            is_enough = self.resized(middle).power(difference) >= power
            low, high = np.where(is_enough, low, middle), np.where(is_enough, middle, high)
        return np.where(high < MOST_NEEDED, high, np.inf)


def least_units(method: Method, level: float) -> int:
    """Return with how many units a difference can be shown at all: with fewer, no choice of signs is rare enough."""
    return math.ceil(1 - math.log2(1 - level)) if isinstance(method, SignFlips) else 2


def reaches(sample: PairedSample, first: Indices, second: Indices) -> tuple[Pairs, Reach, Reach]:
    """Return a family of pairs, and the reach of their intervals: each on its own, and simultaneous."""
    method, sampling, level = sample.method, sample.sampling, sample.question.level
    family = method.pairs(first, second)
    if family.bounds is None:
        what = f"method={sampling.method!r} has no intervals, by which differences are shown"
        remedy = "leave method out, or give 'sign_flip', 'bootstrap_t' or 't'"
        raise InvalidInputError(what, "option 'method'", repr(sampling.method), "a method with intervals", remedy)
    has_units, n_units = sampling.sample != designs.ITEMS, len(sample.estimates.units)
    names: tuple[str, str] = designs.unit_names(str(sampling.dim), sample.node.attrs)
    n, noun = (n_units, names) if has_units else sample.positives()
    degrees = method.degrees if isinstance(method, Influence) else math.inf
    half = (family.bounds[:, 1] - family.bounds[:, 0]) / 2
    if family.outer is not None:  # a difference is shown by the side towards 0
        total = sum(pairs.sides(family.difference, family.error, family.outer)) / 2
        half *= np.divide(family.error, total, out=np.ones(half.shape), where=total > 0)
    least = least_units(method, level)
    unknown = 0.0 if n is None or n >= least else np.inf
    single = Reach(
        error=family.error,
        reach=np.divide(half, family.error, out=np.full(half.shape, unknown), where=family.error > 0),
        alpha=1 - level,
        degrees=n_units - 1 if has_units else degrees,
        n=math.nan if n is None else float(n),
        noun=noun,
        has_units=has_units,
        least=least,
        is_near_one=not has_units and bool(np.nanmax(sample.shown) > NEAR_ONE),
        most=1.0 if sample.are_shares else math.inf,
    )
    joint = np.full(half.shape, method.simultaneous_quantile(family))
    return family, single, replace(single, reach=joint, alpha=(1 - level) / max(1, half.size))


def pair_reaches(data: Scores, question: ComparisonOptions) -> tuple[Reach, Reach]:
    """Return the reach of the intervals of pairs of models, or of those with the baselines: single ones, and joint.

    They are those of one data set, or of all if data sets vary.
    """
    found = list[tuple[Reach, Reach]]()

    def reply(sample: PairedSample) -> xr.Dataset:
        found.append(_reaches_of_family(sample)[1:])
        return sample.node

    data, question, options, _ = questions.prepared(data, question, {})
    questions.answer(data, question, options, reply)
    return found[0]


def _reaches_of_family(sample: PairedSample) -> tuple[Pairs, Reach, Reach]:
    n_models, baseline = len(sample.estimates.models), sample.question.baseline
    if baseline is None:
        return reaches(sample, *pairs.all_pairs(n_models))
    return reaches(sample, *pairs.against(positions(baseline, sample.estimates.names), n_models))


@takes_arrays
def power(
    data: Scores,
    baseline: Baseline | None = None,
    *,
    difference: float | None = None,
    power: float = POWER,
    level: float = 0.95,
    **options: Unpack[choices.ResamplingGroups],
) -> Scores:
    r"""Compute what differences a comparison can show, and what smaller ones need.

    A difference is *shown* if its interval excludes 0. With c the reach of the interval in standard errors, the true
    difference d is shown with the probability that noncentral t with noncentrality ``d / standard_error`` exceeds c;
    the smallest *detectable* difference is that with the probability `power`. A sample of n in place of n0 units has
    standard errors ``sqrt(n0 / n)`` times as large, and Student quantiles of its own size.

    Parameters
    ----------
    data : xarray.Dataset or xarray.DataTree
        See :func:`compare`.
    baseline : label or sequence of labels, optional
        Models with which all others are compared; by default all pairs are.
    difference : float, optional
        A difference that matters: adds the power to show it, and what it needs.
    power : float
        The probability with which a difference is to be shown, in (0, 1).
    level : float
        Confidence level of the intervals.
    **options
        Options of :func:`compare`: `estimator`, `over`, `method`, `n_resamples`, `seed`, `incomplete`; and
        of :func:`aucpr_dask.evaluate`, if `data` are scores. If their items are the sample, the method is
        by default ``"influence"``, or ``"bootstrap"`` where the estimator or an option has no influences.

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        ``estimate(model)``, and over (model, other_model), (model, baseline) or, with one baseline, (model):
        ``detectable``, by the interval of
        each pair on its own, and ``detectable_family``, by the simultaneous intervals; they are infinite where no
        interval is finite. Among all pairs, ``detectable_rank(model)`` is the difference from the next model with which
        the two would be told apart by the simultaneous sets of :func:`rank`. With a difference ``power``, ``n_needed``,
        and the same with ``_family``: of units, or of positives if items are the sample, at the same prevalence. NaN
        where positives are not counted. The attribute ``summary`` says it in words.

    References
    ----------
    Cohen 1988, doi:10.4324/9780203771587 (power). Sakai 2016, doi:10.1007/s10791-015-9273-z (numbers of topics).

    Examples
    --------
    >>> import numpy as np, xarray as xr, aucpr_dask as ap
    >>> values = np.random.default_rng(0).beta(2, 3, size=43)
    >>> noise = 0.05 * np.random.default_rng(1).normal(size=(2, 43))
    >>> result = xr.Dataset({"estimate": (("model", "query"), values + noise)}, coords={"model": ["bm25", "dense"]})
    >>> found = ap.power(result, "bm25", difference=0.01)
    >>> found["detectable"].sel(model="dense").item().__round__(3)
    0.028
    >>> found["n_needed"].sel(model="dense").item()
    315.0
    >>> found.attrs["summary"]  # doctest: +NORMALIZE_WHITESPACE
    'With 43 queries, the smallest true difference shown with 80 % power at 5 % is 0.028; a
    difference of 0.01 is shown with 17 % power, and with 80 % power by 315 queries'
    """
    power = fraction(power, "power")
    difference = None if difference is None else margin(difference, "difference")
    own = {"level": level, "baseline": baseline}
    question, rest = questions.parted_options(options, **own)
    data, question, rest, by = questions.prepared(data, question, rest, rest.pop("by", None))

    def asked(tree: Scores, joint: float = level) -> Scores:
        return questions.answer(tree, question, rest, lambda sample: _power(sample, power, difference, joint))

    has_groups = grouped.has_groups(data, by, question.dims)
    return grouped.answered_by_groups(data, by, asked, question) if has_groups else asked(data)


def _power(sample: PairedSample, power: float, difference: float | None, level: float) -> xr.Dataset:
    """Return what can be shown of one sample; at `level` for the simultaneous intervals of all groups."""
    sample.refuse_wide(difference or 0.0, "difference")
    family, single, joint = _reaches_of_family(sample)
    if level != sample.question.level:
        joint = _reaches_of_family(sample.at_level(level))[2]
    baseline = sample.question.baseline
    across = everyone = np.arange(len(sample.estimates.models))
    if baseline is not None:
        across = np.array(positions(baseline, sample.estimates.names))
    other = covarying.OTHER_MODEL if baseline is None else covarying.BASELINE
    values = {"detectable": single.detectable(power), "detectable_family": joint.detectable(power)}
    if difference is not None:
        for suffix, reach in {"": single, "_family": joint}.items():
            values[f"power{suffix}"] = reach.power(difference)
            values[f"n_needed{suffix}"] = reach.needed(difference, power)
    pair = family.first, family.second
    arrays: dict[str, tuple[Any, Any]] = {
        name: ((MODEL, other), placed(of, QUANTITIES[name], *pair, everyone, across)) for name, of in values.items()
    }
    if baseline is None:
        order = np.argsort(-sample.mean, kind="stable")
        from_next = np.full(len(everyone), math.nan)
        from_next[order[:-1]] = arrays["detectable_family"][1][order[:-1], order[1:]]
        arrays["detectable_rank"] = (MODEL, from_next)
    arrays["estimate"] = (MODEL, sample.shown)
    labels = {MODEL: sample.labels, other: sample.labels[across]}
    found = annotated(arrays, labels, sample, family_size=single.error.size, wanted_power=power)
    said = sentences.of_power(single, values | {"detectable_rank": found.get("detectable_rank")}, power, difference)
    found.attrs["summary"] = "; ".join([said, *sample.gaps])
    return with_one_baseline(found, baseline)
