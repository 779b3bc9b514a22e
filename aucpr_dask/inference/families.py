"""Differences of many models from joint replicates: errors, p-values, adjustments, intervals, equivalence. NumPy only.

A *pair* is two positions on the model axis, given by the index arrays `first` and `second`; its difference is
``estimate[first] - estimate[second]`` and the replicates of its difference are those of the first model minus those
of the second, which is why the replicates have to be joint: one resample for all models.

Replicates of pairs are never all held at once. Pairs are taken in panels of `panel_bytes`, of which at most four live
at a time; beyond them there are the replicates of the models and vectors as long as the family. What is computed
for a pair depends on that pair alone, and maxima and counts are exact, so the size of the panels, the order of the
pairs and the order of the models change no bit of a result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from aucpr_dask.errors import InvalidInputError

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

PANEL_BYTES = 2**18
"""Bytes of one panel of pairs x replicates, by default: small enough to stay in a core's cache."""

ROUND_OFF = 1e-12
"""Differences and errors this small, relative to the estimates, are taken for round-off of equal numbers."""

_ENUMERATED_UNITS = 13


@dataclass(frozen=True)
class JointReplicates:
    """Estimates of M models and R joint replicates of them; :func:`joint_replicates` makes it.

    Attributes
    ----------
    estimate : numpy.ndarray of float64, shape (M,)
        Estimates.
    centred : numpy.ndarray of float64, shape (M, R)
        Replicates minus their mean, model by model.
    bias : numpy.ndarray of float64, shape (M,)
        Mean of the replicates minus what they are centred at.
    resolution : numpy.ndarray of float64, shape (M,)
        What round-off alone may make of a model's numbers; positive.
    null : bool
        The replicates are centred at 0 (sign flips), not at the estimate (bootstrap).
    complete : bool
        The replicates are a whole distribution that contains the observed data, not a random sample of it.
    """

    estimate: Floats
    centred: Floats
    bias: Floats
    resolution: Floats
    null: bool
    complete: bool


@dataclass(frozen=True)
class PairStatistics:
    """What one pass over the replicates says of P pairs; :func:`pair_statistics` makes it.

    Attributes
    ----------
    difference : numpy.ndarray of float64, shape (P,)
        ``estimate[first] - estimate[second]``, exactly 0 for two models that are the same in every replicate.
    error : numpy.ndarray of float64, shape (P,)
        Standard deviation of the difference's replicates.
    statistic : numpy.ndarray of float64, shape (P,)
        Difference over error, always finite: an error of 0 is replaced by the resolution of the numbers.
    p_value : numpy.ndarray of float64, shape (P,)
        Two-sided, of each pair on its own.
    reach : numpy.ndarray of float64, shape (P,)
        Size of the statistic less round-off: a replicate that gets there counts against the pair.
    maximum : numpy.ndarray of float64, shape (R,)
        Largest size of the statistic over all pairs, in each replicate.
    complete : bool
        As in :class:`JointReplicates`.
    """

    difference: Floats
    error: Floats
    statistic: Floats
    p_value: Floats
    reach: Floats
    maximum: Floats
    complete: bool


@dataclass(frozen=True)
class Equivalence:
    """Whether the models of P pairs are as good as each other, up to a margin.

    Attributes
    ----------
    p_value : numpy.ndarray of float64, shape (P,)
        The larger p-value of the two one-sided tests: small where the difference is shown to be within the margin.
    share_inside : numpy.ndarray of float64, shape (P,)
        Share of the replicates (or of the parametric law) within the margin.
    decision : numpy.ndarray of str, shape (P,)
        ``"equivalent"``, ``"different"`` or ``"undecided"``: the interval of level 1 - 2 alpha lies inside the
        region, outside of it, or across its border.
    """

    p_value: Floats
    share_inside: Floats
    decision: NDArray[np.str_]


# --- families of pairs ---------------------------------------------------------------------------------------------


def all_pairs(n_models: int) -> tuple[Indices, Indices]:
    """Index arrays of all M (M - 1) / 2 pairs, first < second, row by row.

    Parameters
    ----------
    n_models : int
        Number of models M.

    Returns
    -------
    first, second : numpy.ndarray of int64, shape (P,)
        The pairs.

    Examples
    --------
    >>> all_pairs(3)
    (array([0, 0, 1]), array([1, 2, 2]))
    """
    first, second = np.triu_indices(n_models, 1)
    return first.astype(np.int64), second.astype(np.int64)


def against(baselines: Sequence[int], n_models: int) -> tuple[Indices, Indices]:
    """Index arrays of every model (first) against every baseline (second), baseline by baseline.

    A pair of two baselines appears once, under the earlier of them.

    Parameters
    ----------
    baselines : sequence of int
        Positions of the baselines.
    n_models : int
        Number of models M.

    Returns
    -------
    first, second : numpy.ndarray of int64, shape (P,)
        The pairs.

    Examples
    --------
    >>> against([1, 0], 3)
    (array([0, 2, 2]), array([1, 1, 0]))
    """
    done: list[int] = []
    first: list[Indices] = [np.empty(0, np.int64)]
    second: list[Indices] = [np.empty(0, np.int64)]
    for baseline in baselines:
        done.append(baseline)
        others = np.setdiff1d(np.arange(n_models), done)
        first.append(others)
        second.append(np.full(others.size, baseline, np.int64))
    return np.concatenate(first), np.concatenate(second)


# --- replicates ----------------------------------------------------------------------------------------------------


def joint_replicates(
    estimate: ArrayLike, replicates: ArrayLike, *, null: bool = False, complete: bool = False
) -> JointReplicates:
    """Check estimates and their joint replicates, and arrange them model by model.

    Parameters
    ----------
    estimate : array_like of float64, shape (M,)
        Estimates.
    replicates : array_like of float64, shape (R, M)
        Row r: the estimates of all models on resample r.
    null : bool
        The replicates are centred at 0, as sign flips make them, and not at the estimate.
    complete : bool
        The replicates are all there are, the observed data among them (see :func:`sign_flips`): p-values are then
        exact shares, where a random sample of R replicates gives ``(1 + count) / (1 + R)``.

    Returns
    -------
    JointReplicates
        One copy of the replicates, 8 M R bytes.

    Raises
    ------
    InvalidInputError
        If the shapes do not fit, a number is not finite, or there are fewer than two replicates.

    Examples
    --------
    >>> sample = joint_replicates([0.5, 0.25], [[0.5, 0.25], [0.75, 0.25], [0.25, 0.25]])
    >>> sample.centred
    array([[ 0.  ,  0.25, -0.25],
           [ 0.  ,  0.  ,  0.  ]])
    """
    estimate = np.array(estimate, np.float64)
    replicates = np.asarray(replicates, np.float64)
    if estimate.ndim != 1 or replicates.ndim != 2 or replicates.shape[1] != estimate.size or len(replicates) < 2:
        raise InvalidInputError(
            "estimates and replicates do not fit together",
            received=f"estimate {estimate.shape}, replicates {replicates.shape}",
            allowed="estimate (models,), replicates (resamples, models), at least 2 resamples",
        )
    centred = np.array(replicates.T, order="C")
    magnitude = np.maximum(np.abs(estimate), np.maximum(centred.max(axis=1), -centred.min(axis=1)))
    unknown = np.flatnonzero(~np.isfinite(magnitude))
    if unknown.size:
        raise InvalidInputError(
            "estimates or replicates that are not finite",
            where=f"models at positions {unknown[:10].tolist()}",
            remedy="leave these models out of the comparison",
        )
    mean = centred.mean(axis=1)
    centred -= mean[:, np.newaxis]
    return JointReplicates(
        estimate=estimate,
        centred=centred,
        bias=mean if null else mean - estimate,
        resolution=np.maximum(ROUND_OFF * magnitude, np.finfo(np.float64).tiny),
        null=null,
        complete=complete,
    )


def sign_flips(
    n_units: int, n_resamples: int, *, seed: int = 0, keys: NDArray[np.uint64] | None = None
) -> tuple[Floats, bool]:
    """Signs for a test by sign flips over units (queries, data sets): all of them if that is few, else random ones.

    If two models are equally good, the sign of their difference on a unit is as good as random. The replicates of
    the means of `values` (M, Q) under that null hypothesis are ``signs @ values.T / Q``, jointly for all models.
    The signs of a unit depend on the seed and its key alone, and more resamples go on where fewer stopped.

    Parameters
    ----------
    n_units : int
        Number of units Q.
    n_resamples : int
        Number of replicates R to draw; if 2**Q is no larger, all 2**Q choices of signs come instead.
    seed : int
        Seed, 0 to 2**64 - 1.
    keys : numpy.ndarray of uint64, shape (Q,), optional
        A number that names each unit; its position if not given.

    Returns
    -------
    signs : numpy.ndarray of float64, shape (R, Q) or (2**Q, Q)
        -1 and 1.
    complete : bool
        Whether these are all choices of signs, the observed one (row 0) among them.

    Examples
    --------
    >>> sign_flips(2, 1000)
    (array([[ 1.,  1.],
           [-1.,  1.],
           [ 1., -1.],
           [-1., -1.]]), True)
    >>> signs, complete = sign_flips(43, 1000)
    >>> signs.shape, complete
    ((1000, 43), False)
    """
    if 0 < n_units < 63 and 2**n_units <= n_resamples:
        bits = np.arange(2**n_units)[:, np.newaxis] >> np.arange(n_units) & 1
        return np.where(bits, -1.0, 1.0), True
    signs = np.empty((n_resamples, n_units))
    for unit, key in enumerate(range(n_units) if keys is None else keys.tolist()):
        words = np.random.Philox(key=np.array([seed, key], np.uint64)).random_raw(-(-n_resamples // 64))
        drawn = np.unpackbits(words.astype("<u8").view(np.uint8), bitorder="little", count=n_resamples)
        signs[:, unit] = np.where(drawn, -1.0, 1.0)
    return signs, False


# --- one pass over the pairs ---------------------------------------------------------------------------------------


def pair_statistics(
    sample: JointReplicates, first: Indices, second: Indices, *, panel_bytes: int = PANEL_BYTES
) -> PairStatistics:
    r"""Difference, error, statistic and p-value of each pair, and the largest statistic of each replicate.

    With difference d, its replicates d*, their standard deviation s and their centre c (d under the bootstrap, 0
    under sign flips), t = d / s and t* = (d* - c) / s, and a pair's own p-value is

    .. math:: p = \frac{1 + \#\{|t^*| \ge |t|\}}{1 + R},

    or the plain share of the replicates if they are complete. The error s of a pair is the same in all replicates: it
    balances the pairs of a family, and leaves the bootstrap a little liberal where units are few (a nominal 0.05 was
    0.067 over 150 units and ten pairs); sign flips are not.

    Two models that are the same in every replicate have difference 0, error 0, statistic 0 and p-value 1. Two that
    differ by the same amount in every replicate have error 0, a statistic as large as the numbers can resolve, and
    the smallest p-value.

    Parameters
    ----------
    sample : JointReplicates
        Estimates and replicates of M models.
    first, second : numpy.ndarray of int64, shape (P,)
        The pairs.
    panel_bytes : int
        Bytes of a panel of pairs x replicates.

    Returns
    -------
    PairStatistics
        Vectors over pairs and replicates.

    Raises
    ------
    InvalidInputError
        If the pairs are not two vectors of positions, equally long.

    Examples
    --------
    >>> values = np.array([[0.5, 0.75, 0.5, 1.0], [0.25, 0.5, 0.5, 0.25]])  # model, query
    >>> signs, complete = sign_flips(4, 1000)
    >>> sample = joint_replicates(values.mean(axis=1), signs @ values.T / 4, null=True, complete=complete)
    >>> pair_statistics(sample, *all_pairs(2)).p_value
    array([0.25])
    """
    first, second = _checked_pairs(sample, first, second)
    difference, error, statistic, p_value, reach = np.empty((5, first.size))
    maximum = np.zeros(sample.centred.shape[1])
    for panel in _panels(first.size, sample, panel_bytes):
        j, k = first[panel], second[panel]
        sizes, error[panel], scale = studentise(sample, sample.centred[j] - sample.centred[k], j, k)
        difference[panel] = differences(sample, j, k, error[panel])
        statistic[panel] = difference[panel] / scale
        resolved = np.abs(difference[panel]) - (sample.resolution[j] + sample.resolution[k])
        reach[panel] = np.maximum(resolved, 0) / scale
        p_value[panel] = _p_values(_count(sizes >= reach[panel, np.newaxis]), sizes, sample.complete)
        np.maximum(maximum, sizes.max(axis=0, initial=0), out=maximum)
    return PairStatistics(difference, error, statistic, p_value, reach, maximum, sample.complete)


def studentise(
    sample: JointReplicates, deviations: Floats, first: Indices, second: Indices
) -> tuple[Floats, Floats, Floats]:
    """Turn differences of centred replicates into sizes of statistics, in place.

    Parameters
    ----------
    sample : JointReplicates
        Estimates and replicates of M models.
    deviations : numpy.ndarray of float64, shape (B, R)
        ``sample.centred[first] - sample.centred[second]``; overwritten.
    first, second : numpy.ndarray of int64, shape (B,), or one position for all
        The pairs.

    Returns
    -------
    sizes : numpy.ndarray of float64, shape (B, R)
        Size of the statistic of each replicate; the memory of `deviations`.
    error : numpy.ndarray of float64, shape (B,)
        Standard deviation of the replicates; 0 if round-off could have made it.
    scale : numpy.ndarray of float64, shape (B,)
        What the differences were divided by: the error, or the resolution if the error is 0.
    """
    resolution = sample.resolution[first] + sample.resolution[second]
    degrees = deviations.shape[1] - (not sample.complete)
    # Not by einsum, which adds up a single row in another order than a row among others.
    error = np.sqrt(np.square(deviations).sum(axis=1) / degrees)
    error[error <= resolution] = 0
    scale = np.maximum(error, resolution)
    deviations += (sample.bias[first] - sample.bias[second])[:, np.newaxis]
    np.abs(deviations, out=deviations)
    deviations /= scale[:, np.newaxis]
    return deviations, error, scale


def differences(sample: JointReplicates, first: Indices, second: Indices, error: Floats) -> Floats:
    """Differences of estimates, exactly 0 where neither they nor their replicates exceed round-off.

    Parameters
    ----------
    sample : JointReplicates
        Estimates and replicates of M models.
    first, second : numpy.ndarray of int64, shape (P,)
        The pairs.
    error : numpy.ndarray of float64, shape (P,)
        Standard errors of the differences.

    Returns
    -------
    numpy.ndarray of float64, shape (P,)
        ``estimate[first] - estimate[second]``.
    """
    difference: Floats = sample.estimate[first] - sample.estimate[second]
    resolution = sample.resolution[first] + sample.resolution[second]
    return np.where((error == 0) & (np.abs(difference) <= resolution), 0.0, difference)


# --- adjustments for many comparisons ------------------------------------------------------------------------------


def single_step(statistics: PairStatistics) -> Floats:
    r"""P-values adjusted by the single-step max-T procedure (Westfall and Young).

    .. math:: p_i = \frac{1 + \#\{\max_j |t_j^*| \ge |t_i|\}}{1 + R}

    Holds the probability of any false claim in the family, and answers to the simultaneous intervals of
    :func:`max_t_quantile`.

    Parameters
    ----------
    statistics : PairStatistics
        Of the whole family.

    Returns
    -------
    numpy.ndarray of float64, shape (P,)
        Adjusted p-values.

    References
    ----------
    Westfall and Young (1993), Resampling-Based Multiple Testing. Dudoit, Shaffer and Boldrick (2003),
    doi:10.1214/ss/1056397487.

    Examples
    --------
    >>> replicates = [[0.5, 0.5, 0.25], [0.75, 0.75, 0.5], [0.25, 0.25, 0.5], [0.5, 0.5, 0.0]]
    >>> single_step(pair_statistics(joint_replicates([0.5, 0.5, 0.25], replicates), *all_pairs(3)))
    array([1. , 0.6, 0.6])
    """
    below = np.searchsorted(np.sort(statistics.maximum), statistics.reach, side="left")
    return _p_values(statistics.maximum.size - below, statistics.maximum[np.newaxis], statistics.complete)


def romano_wolf(
    sample: JointReplicates,
    first: Indices,
    second: Indices,
    *,
    statistics: PairStatistics | None = None,
    panel_bytes: int = PANEL_BYTES,
) -> Floats:
    r"""P-values adjusted by the step-down max-T procedure of Romano and Wolf.

    With pairs ordered by falling size of the statistic,

    .. math:: p_{(i)} = \max\left(p_{(i-1)}, \frac{1 + \#\{\max_{j \ge i} |t_{(j)}^*| \ge |t_{(i)}|\}}{1 + R}\right):

    each pair is held against the maximum over itself and the pairs below it. Never larger than :func:`single_step`,
    with the same hold on the probability of any false claim in the family.

    Parameters
    ----------
    sample : JointReplicates
        Estimates and replicates of M models.
    first, second : numpy.ndarray of int64, shape (P,)
        The pairs of the family.
    statistics : PairStatistics, optional
        Of the same pairs, if they are already known.
    panel_bytes : int
        Bytes of a panel of pairs x replicates.

    Returns
    -------
    numpy.ndarray of float64, shape (P,)
        Adjusted p-values.

    References
    ----------
    Romano and Wolf (2005), doi:10.1198/016214504000000539; Romano and Wolf (2016), doi:10.1016/j.spl.2016.02.012.

    Examples
    --------
    >>> replicates = [[0.5, 0.5, 0.25], [0.75, 0.75, 0.5], [0.25, 0.25, 0.5], [0.5, 0.5, 0.0]]
    >>> romano_wolf(joint_replicates([0.5, 0.5, 0.25], replicates), *all_pairs(3))
    array([1. , 0.6, 0.6])
    """
    first, second = _checked_pairs(sample, first, second)
    reach = (statistics or pair_statistics(sample, first, second, panel_bytes=panel_bytes)).reach
    upwards = np.argsort(reach, kind="stable")
    p_value = np.empty(first.size)
    maximum = np.zeros(sample.centred.shape[1])
    for panel in _panels(first.size, sample, panel_bytes):
        pairs = upwards[panel]
        j, k = first[pairs], second[pairs]
        sizes, _, _ = studentise(sample, sample.centred[j] - sample.centred[k], j, k)
        for row in sizes:  # from below: the maximum over this pair and all smaller ones
            maximum = np.maximum(row, maximum, out=row)
        p_value[pairs] = _p_values(_count(sizes >= reach[pairs, np.newaxis]), sizes, sample.complete)
    downwards = upwards[::-1]
    p_value[downwards] = np.maximum.accumulate(p_value[downwards])
    return p_value


def holm(p_value: Floats) -> Floats:
    """P-values adjusted by Holm's step-down procedure: holds the probability of any false claim in the family.

    Parameters
    ----------
    p_value : numpy.ndarray of float64, shape (P,)
        P-values of the family.

    Returns
    -------
    numpy.ndarray of float64, shape (P,)
        Adjusted p-values.

    References
    ----------
    Holm (1979), Scandinavian Journal of Statistics 6, 65-70.

    Examples
    --------
    >>> holm(np.array([0.01, 0.5, 0.02]))
    array([0.03, 0.5 , 0.04])
    """
    order = np.argsort(p_value, kind="stable")
    adjusted = np.empty(p_value.size)
    adjusted[order] = np.maximum.accumulate(p_value[order] * np.arange(p_value.size, 0, -1))
    return np.minimum(adjusted, 1)


def benjamini_hochberg(p_value: Floats) -> Floats:
    """P-values adjusted by the procedure of Benjamini and Hochberg: holds the expected share of false claims.

    Parameters
    ----------
    p_value : numpy.ndarray of float64, shape (P,)
        P-values of the family.

    Returns
    -------
    numpy.ndarray of float64, shape (P,)
        Adjusted p-values.

    References
    ----------
    Benjamini and Hochberg (1995), doi:10.1111/j.2517-6161.1995.tb02031.x.

    Examples
    --------
    >>> benjamini_hochberg(np.array([0.01, 0.5, 0.02]))
    array([0.03, 0.5 , 0.03])
    """
    from scipy import stats  # its import takes half a second, which most calls can spare

    return np.asarray(stats.false_discovery_control(p_value, method="bh"), np.float64)


# --- intervals -----------------------------------------------------------------------------------------------------


def max_t_quantile(statistics: PairStatistics, level: float) -> float:
    """Quantile of the maximum statistic: ``difference -+ quantile * error`` hold for all pairs of the family at once.

    It is the order statistic for which an interval leaves out 0 exactly where the :func:`single_step` p-value is at
    most ``1 - level``. It belongs to bootstrap replicates: sign flips are centred at 0 and make errors too large
    where models differ.

    Parameters
    ----------
    statistics : PairStatistics
        Of the whole family.
    level : float
        Confidence level of all intervals together.

    Returns
    -------
    float
        The quantile.

    Raises
    ------
    InvalidInputError
        If the level is not between 0 and 1, or too high for so few replicates.

    Examples
    --------
    >>> noise = np.linspace(-1, 1, 39)
    >>> sample = joint_replicates([0.5, 0.25], np.stack([0.5 + noise, np.full(39, 0.25)], axis=1))
    >>> round(max_t_quantile(pair_statistics(sample, *all_pairs(2)), 0.9), 4)
    1.5787
    """
    place = order_statistic(statistics.maximum.size, level, statistics.complete)
    return float(np.partition(statistics.maximum, place)[place])


def marginal_quantiles(
    sample: JointReplicates, first: Indices, second: Indices, level: float, *, panel_bytes: int = PANEL_BYTES
) -> Floats:
    """Quantile of each pair's own statistic: ``difference -+ quantile * error`` holds for that pair on its own.

    The symmetric interval that answers to the p-values of :func:`pair_statistics`.

    Parameters
    ----------
    sample : JointReplicates
        Estimates and bootstrap replicates of M models.
    first, second : numpy.ndarray of int64, shape (P,)
        The pairs.
    level : float
        Confidence level of each interval.
    panel_bytes : int
        Bytes of a panel of pairs x replicates.

    Returns
    -------
    numpy.ndarray of float64, shape (P,)
        Quantiles.

    Raises
    ------
    InvalidInputError
        As :func:`pair_statistics` and :func:`max_t_quantile`.

    Examples
    --------
    >>> noise = np.linspace(-1, 1, 39)
    >>> sample = joint_replicates([0.5, 0.25], np.stack([0.5 + noise, np.full(39, 0.25)], axis=1))
    >>> marginal_quantiles(sample, *all_pairs(2), level=0.9).round(4)
    array([1.5787])
    """
    first, second = _checked_pairs(sample, first, second)
    place = order_statistic(sample.centred.shape[1], level, sample.complete)
    quantile = np.empty(first.size)
    for panel in _panels(first.size, sample, panel_bytes):
        j, k = first[panel], second[panel]
        sizes, _, _ = studentise(sample, sample.centred[j] - sample.centred[k], j, k)
        sizes.partition(place, axis=1)
        quantile[panel] = sizes[:, place]
    return quantile


def intervals(difference: Floats, error: Floats, quantile: float | Floats) -> Floats:
    """Bounds ``difference -+ quantile * error``.

    Parameters
    ----------
    difference, error : numpy.ndarray of float64, shape (P,)
        Differences and their standard errors.
    quantile : float or numpy.ndarray of float64, shape (P,)
        From :func:`max_t_quantile`, :func:`marginal_quantiles` or :func:`parametric_quantile`.

    Returns
    -------
    numpy.ndarray of float64, shape (P, 2)
        Lower and upper bounds.

    Examples
    --------
    >>> intervals(np.array([0.5]), np.array([0.25]), 2.0)
    array([[0., 1.]])
    """
    return np.stack([difference - quantile * error, difference + quantile * error], axis=-1)


def order_statistic(n_replicates: int, level: float, complete: bool = False) -> int:
    """Position, counted from 0, of the quantile among sorted replicates that answers to their p-values.

    Parameters
    ----------
    n_replicates : int
        Number of replicates R.
    level : float
        Confidence level.
    complete : bool
        As in :class:`JointReplicates`.

    Returns
    -------
    int
        ``ceil(level (R + 1)) - 1``, or ``ceil(level R) - 1`` if complete.

    Raises
    ------
    InvalidInputError
        If the level is not between 0 and 1, or too high for so few replicates.

    Examples
    --------
    >>> order_statistic(999, 0.95)
    949
    """
    if not 0 < level < 1:
        raise InvalidInputError("level must lie between 0 and 1", received=repr(level))
    rank = int(np.ceil(round(level * (n_replicates + (not complete)), 9)))
    if rank > n_replicates:
        raise InvalidInputError(
            "too few replicates for this level",
            received=f"{n_replicates} replicates, level {level}",
            remedy=f"take at least {int(np.ceil(round(level / (1 - level), 9)))} resamples",
        )
    return rank - 1


# --- from errors and from values per unit --------------------------------------------------------------------------


def parametric_quantile(level: float, degrees: float | None = None) -> float:
    """Two-sided quantile of the normal law, or of Student's t.

    Parameters
    ----------
    level : float
        Confidence level.
    degrees : float, optional
        Degrees of freedom of Student's t; the normal law if not given.

    Returns
    -------
    float
        The quantile.

    Raises
    ------
    InvalidInputError
        If the level is not between 0 and 1.

    Examples
    --------
    >>> round(parametric_quantile(0.95), 4), round(parametric_quantile(0.95, 9), 4)
    (1.96, 2.2622)
    """
    if not 0 < level < 1:
        raise InvalidInputError("level must lie between 0 and 1", received=repr(level))
    tail = (1 - level) / 2
    return -float(ndtri(tail) if degrees is None else stdtrit(degrees, tail))


def parametric_p_values(difference: Floats, error: Floats, degrees: float | None = None) -> Floats:
    """Two-sided p-values of ``difference / error`` under the normal law, or Student's t.

    With :func:`errors_from_units` and Q - 1 degrees this is the paired t test. An error of 0 gives 1 where the
    difference is 0, and 0 elsewhere.

    Parameters
    ----------
    difference, error : numpy.ndarray of float64, shape (P,)
        Differences and their standard errors.
    degrees : float, optional
        Degrees of freedom of Student's t; the normal law if not given.

    Returns
    -------
    numpy.ndarray of float64, shape (P,)
        P-values.

    Examples
    --------
    >>> parametric_p_values(np.array([0.196, 0.0]), np.array([0.1, 0.0])).round(4)
    array([0.05, 1.  ])
    """
    return 2 * _upper_tail(np.abs(difference), error, degrees)


def errors_from_covariance(covariance: Floats, first: Indices, second: Indices) -> Floats:
    """Compute standard errors of differences from the covariance of the estimates.

    Parameters
    ----------
    covariance : numpy.ndarray of float64, shape (M, M)
        Covariance of the estimates.
    first, second : numpy.ndarray of int64, shape (P,)
        The pairs.

    Returns
    -------
    numpy.ndarray of float64, shape (P,)
        ``sqrt(C[j, j] + C[k, k] - 2 C[j, k])``; 0 if round-off could have made it.

    Examples
    --------
    >>> errors_from_covariance(np.array([[4.0, 1.5], [1.5, 3.0]]), *all_pairs(2))
    array([2.])
    """
    variance = np.diagonal(covariance)
    total = variance[first] + variance[second]
    squared = total - 2 * covariance[first, second]
    return np.sqrt(np.where(squared <= ROUND_OFF * total, 0.0, squared))


def errors_from_units(values: Floats, first: Indices, second: Indices, *, panel_bytes: int = PANEL_BYTES) -> Floats:
    """Compute standard errors of mean differences from values per unit: ``sd / sqrt(Q)``.

    Parameters
    ----------
    values : numpy.ndarray of float64, shape (M, Q)
        Value of each model on each unit (query, data set), Q at least 2.
    first, second : numpy.ndarray of int64, shape (P,)
        The pairs.
    panel_bytes : int
        Bytes of a panel of pairs x units.

    Returns
    -------
    numpy.ndarray of float64, shape (P,)
        Standard errors; 0 if round-off could have made it.

    Raises
    ------
    InvalidInputError
        If there are fewer than two units, or a value is not finite.

    Examples
    --------
    >>> errors_from_units(np.array([[0.5, 0.75, 1.0], [0.25, 0.25, 0.25]]), *all_pairs(2)).round(4)
    array([0.1443])
    """
    values = _checked_units(values)
    n_units = values.shape[1]
    resolution = ROUND_OFF * np.abs(values).max(axis=1)
    error = np.empty(first.size)
    for panel in _slices(first.size, 8 * n_units, panel_bytes):
        j, k = first[panel], second[panel]
        spread = np.std(values[j] - values[k], axis=1, ddof=1)
        error[panel] = np.where(spread <= resolution[j] + resolution[k], 0.0, spread / np.sqrt(n_units))
    return error


def wilcoxon_p_values(values: Floats, first: Indices, second: Indices, *, panel_bytes: int = PANEL_BYTES) -> Floats:
    """Two-sided p-values of Wilcoxon's signed-rank test over units.

    Units on which two models are equal are left out; p is 1 where they are equal on all. The null law is that of
    :func:`scipy.stats.wilcoxon`: exact for up to 13 units, and for up to 50 if no two differences are of one size and
    none is 0; normal otherwise.

    Parameters
    ----------
    values : numpy.ndarray of float64, shape (M, Q)
        Value of each model on each unit (query, data set), Q at least 2.
    first, second : numpy.ndarray of int64, shape (P,)
        The pairs.
    panel_bytes : int
        Bytes of a panel of pairs x units.

    Returns
    -------
    numpy.ndarray of float64, shape (P,)
        P-values.

    Raises
    ------
    InvalidInputError
        If there are fewer than two units, or a value is not finite.

    References
    ----------
    Wilcoxon (1945), doi:10.2307/3001968.

    Examples
    --------
    >>> wilcoxon_p_values(np.array([[0.5, 0.7, 0.9], [0.4, 0.5, 0.6]]), *all_pairs(2))
    array([0.25])
    """
    values = _checked_units(values)
    n_units = values.shape[1]
    enumerated = n_units <= _ENUMERATED_UNITS
    test = _enumerated_wilcoxon if enumerated else _scipy_wilcoxon
    p_value = np.empty(first.size)
    for panel in _slices(first.size, 8 * (2**n_units if enumerated else n_units), panel_bytes):
        p_value[panel] = test(values[first[panel]] - values[second[panel]])
    return p_value


def _enumerated_wilcoxon(difference: Floats) -> Floats:
    """P-values of rows under all 2**Q signs of their ranks; sums of half integers are exact."""
    from scipy.stats import rankdata

    zeros = np.count_nonzero(difference == 0, axis=1)[:, np.newaxis]
    ranks = np.maximum(rankdata(np.abs(difference), axis=1) - zeros, 0)  # the zeros' own ranks come first
    signs, _ = sign_flips(difference.shape[1], 2 ** difference.shape[1])
    observed = np.abs(np.sum(np.sign(difference) * ranks, axis=1, keepdims=True))
    return np.asarray(np.mean(np.abs(ranks @ signs.T) >= observed, axis=1), np.float64)


def _scipy_wilcoxon(difference: Floats) -> Floats:
    """P-values of rows. scipy picks one null law for all rows it is given, so rows with and without ties go apart."""
    from scipy import stats

    sizes = np.sort(np.abs(difference), axis=1)
    tied = (sizes[:, 0] == 0) | np.any(sizes[:, 1:] == sizes[:, :-1], axis=1)
    p_value = np.ones(len(difference))
    for rows in (tied & (sizes[:, -1] > 0), ~tied):
        if rows.any():
            p_value[rows] = stats.wilcoxon(difference[rows], axis=1).pvalue
    return p_value


# --- equivalence ---------------------------------------------------------------------------------------------------


def equivalence(
    sample: JointReplicates,
    first: Indices,
    second: Indices,
    margin: float,
    *,
    alpha: float = 0.05,
    panel_bytes: int = PANEL_BYTES,
) -> Equivalence:
    r"""Whether differences lie within [-margin, margin], from bootstrap replicates.

    With e* = d* - d, the two one-sided tests have p-values

    .. math:: \frac{1 + \#\{e^* \ge d + \delta\}}{1 + R}, \qquad \frac{1 + \#\{e^* \le d - \delta\}}{1 + R},

    and both are at most alpha exactly where the basic bootstrap interval of level 1 - 2 alpha lies inside the region.

    Parameters
    ----------
    sample : JointReplicates
        Estimates and bootstrap replicates of M models.
    first, second : numpy.ndarray of int64, shape (P,)
        The pairs.
    margin : float
        The largest difference that does not matter, positive.
    alpha : float
        Error of each one-sided test.
    panel_bytes : int
        Bytes of a panel of pairs x replicates.

    Returns
    -------
    Equivalence
        P-value, share of the replicates inside the region, and decision of each pair.

    Raises
    ------
    InvalidInputError
        If the margin is not positive, alpha not between 0 and 0.5, or the replicates are centred at 0.

    References
    ----------
    Schuirmann (1987), doi:10.1007/BF01068419. Benavoli, Corani, Demšar and Zaffalon (2017), JMLR 18(77), on regions
    of practical equivalence.

    Examples
    --------
    >>> noise = np.linspace(-0.02, 0.02, 99)
    >>> replicates = np.stack([0.5 + noise, np.full(99, 0.5), np.full(99, 0.4)], axis=1)
    >>> verdict = equivalence(joint_replicates([0.5, 0.5, 0.4], replicates), *all_pairs(3), margin=0.03)
    >>> verdict.decision.tolist(), verdict.p_value.tolist()
    (['equivalent', 'different', 'different'], [0.01, 1.0, 1.0])
    """
    _check_equivalence(margin, alpha)
    require_bootstrap(sample, "equivalence")
    first, second = _checked_pairs(sample, first, second)
    tails = np.empty((4, first.size))
    share_inside = np.empty(first.size)
    for panel in _panels(first.size, sample, panel_bytes):
        j, k = first[panel], second[panel]
        deviations = sample.centred[j] - sample.centred[k]
        deviations += (sample.bias[j] - sample.bias[k])[:, np.newaxis]
        difference = (sample.estimate[j] - sample.estimate[k])[:, np.newaxis]
        slack = (sample.resolution[j] + sample.resolution[k])[:, np.newaxis]
        reached = (
            deviations >= difference + margin - slack,
            deviations <= difference - margin + slack,
            deviations >= difference - margin - slack,
            deviations <= difference + margin + slack,
        )
        tails[:, panel] = [_p_values(_count(mask), deviations, sample.complete) for mask in reached]
        deviations += difference
        share_inside[panel] = _count(np.abs(deviations, out=deviations) <= margin + slack) / deviations.shape[1]
    return _equivalence(tails, share_inside, alpha)


def parametric_equivalence(
    difference: Floats, error: Floats, margin: float, *, alpha: float = 0.05, degrees: float | None = None
) -> Equivalence:
    """Whether differences lie within [-margin, margin], under the normal law or Student's t.

    Parameters
    ----------
    difference, error : numpy.ndarray of float64, shape (P,)
        Differences and their standard errors.
    margin : float
        The largest difference that does not matter, positive.
    alpha : float
        Error of each one-sided test.
    degrees : float, optional
        Degrees of freedom of Student's t; the normal law if not given.

    Returns
    -------
    Equivalence
        P-value of the two one-sided tests, probability of the region under the law centred at the difference, and
        decision of each pair.

    Raises
    ------
    InvalidInputError
        If the margin is not positive or alpha not between 0 and 0.5.

    References
    ----------
    Schuirmann (1987), doi:10.1007/BF01068419.

    Examples
    --------
    >>> verdict = parametric_equivalence(np.array([0.0, 0.05, 0.01]), np.array([0.01, 0.01, 0.01]), margin=0.02)
    >>> verdict.decision.tolist(), verdict.p_value.round(4).tolist()
    (['equivalent', 'different', 'undecided'], [0.0228, 0.9987, 0.1587])
    """
    _check_equivalence(margin, alpha)
    tails = [
        _upper_tail(value, error, degrees)
        for value in (difference + margin, margin - difference, difference - margin, -difference - margin)
    ]
    return _equivalence(np.stack(tails), 1 - tails[0] - tails[1], alpha)


def _equivalence(tails: Floats, share_inside: Floats, alpha: float) -> Equivalence:
    """Decide from p-values (4, P): for lying above -margin, below margin, above margin, below -margin."""
    above_lower, below_upper, above_upper, below_lower = tails
    p_value = np.maximum(above_lower, below_upper)
    different = np.minimum(above_upper, below_lower) <= alpha
    decision = np.select([p_value <= alpha, different], ["equivalent", "different"], "undecided")
    return Equivalence(p_value, share_inside, decision)


def _check_equivalence(margin: float, alpha: float) -> None:
    if not (margin > 0 and np.isfinite(margin)):
        raise InvalidInputError("the margin of equivalence must be positive", received=repr(margin))
    if not 0 < alpha < 0.5:
        raise InvalidInputError("alpha must lie between 0 and 0.5", received=repr(alpha))


# --- helpers -------------------------------------------------------------------------------------------------------


def require_bootstrap(sample: JointReplicates, purpose: str) -> None:
    """Refuse replicates that are centred at 0 where replicates around the estimate are needed.

    Parameters
    ----------
    sample : JointReplicates
        Estimates and replicates.
    purpose : str
        What they are needed for, for the message.

    Raises
    ------
    InvalidInputError
        If the replicates are centred at 0.
    """
    if sample.null:
        raise InvalidInputError(
            f"{purpose} needs replicates around the estimates",
            received="replicates centred at 0 (sign flips)",
            remedy="resample with the bootstrap",
        )


def _p_values(count: NDArray[np.int64], replicates: Floats, complete: bool) -> Floats:
    """Share of replicates (last axis) that count, the observed data counted in."""
    extra = 0 if complete else 1
    return np.asarray((count + extra) / (replicates.shape[-1] + extra), np.float64)


def _count(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count what is true in each row; NumPy counts one row at a time much faster than along an axis."""
    return np.fromiter((np.count_nonzero(row) for row in mask), np.int64, len(mask))


def _upper_tail(value: Floats, error: Floats, degrees: float | None) -> Floats:
    """P-value of ``value / error`` being this large: an error of 0 puts all probability at 0."""
    known = error > 0
    statistic = np.divide(value, error, out=np.zeros(value.shape), where=known)
    tail = np.asarray(ndtr(-statistic) if degrees is None else stdtr(degrees, -statistic), np.float64)
    return np.where(known, tail, np.where(value > 0, 0.0, np.where(value < 0, 1.0, 0.5)))


def _panels(n_pairs: int, sample: JointReplicates, panel_bytes: int) -> Iterator[slice]:
    return _slices(n_pairs, 8 * sample.centred.shape[1], panel_bytes)


def _slices(n_rows: int, row_bytes: int, panel_bytes: int) -> Iterator[slice]:
    """Cut rows into runs that fill a panel, at least one row each."""
    rows = max(1, panel_bytes // row_bytes)
    return (slice(start, min(start + rows, n_rows)) for start in range(0, n_rows, rows))


def _checked_pairs(sample: JointReplicates, first: Indices, second: Indices) -> tuple[Indices, Indices]:
    first, second = np.asarray(first, np.int64), np.asarray(second, np.int64)
    n_models = sample.estimate.size
    inside = all(index.ndim == 1 and np.all((index >= 0) & (index < n_models)) for index in (first, second))
    if not inside or first.size != second.size:
        raise InvalidInputError(
            "pairs that are not pairs of models",
            received=f"first {first.shape}, second {second.shape}",
            allowed=f"two vectors, equally long, of positions 0 to {n_models - 1}",
        )
    return first, second


def _checked_units(values: Floats) -> Floats:
    values = np.ascontiguousarray(values, np.float64)
    if values.ndim != 2 or values.shape[1] < 2 or not np.all(np.isfinite(values)):
        raise InvalidInputError(
            "values per unit that cannot be compared",
            received=f"shape {values.shape}, {np.count_nonzero(~np.isfinite(values))} not finite",
            allowed="(models, units), at least 2 units, every value finite",
        )
    return values
