"""Ranks of many models with their uncertainty: confidence sets, probability of being best, groups. NumPy only.

A larger estimate is better; the best model has rank 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.inference.families import (
    PANEL_BYTES,
    ROUND_OFF,
    Floats,
    Indices,
    JointReplicates,
    differences,
    order_statistic,
    require_bootstrap,
    studentise,
)


@dataclass(frozen=True)
class RankSets:
    """Confidence sets for the ranks of M models, and the groups of models that cannot be told apart.

    Attributes
    ----------
    rank : numpy.ndarray of float64, shape (M,)
        Rank of each estimate; equal estimates share their mean rank.
    marginal : numpy.ndarray of int64, shape (M, 2)
        Best and worst rank of each model: a set for that model on its own.
    simultaneous : numpy.ndarray of int64, shape (M, 2)
        Best and worst rank of each model: sets that hold for all models at once.
    marginal_quantile : numpy.ndarray of float64, shape (M,)
        Quantile of the maximum statistic over the comparisons of one model.
    quantile : float
        Quantile of the maximum statistic over all pairs.
    order : numpy.ndarray of int64, shape (M,)
        Positions of the models from the best to the worst estimate.
    groups : numpy.ndarray of int64, shape (G, 2)
        First and last place in `order`, both included, of each maximal run of models no two of which differ
        simultaneously. Groups overlap; a model that differs from all others is a group of its own.
    """

    rank: Floats
    marginal: Indices
    simultaneous: Indices
    marginal_quantile: Floats
    quantile: float
    order: Indices
    groups: Indices


@dataclass(frozen=True)
class RankDistribution:
    """What the replicates say of the ranks of M models.

    Attributes
    ----------
    probability_best : numpy.ndarray of float64, shape (M,)
        Share of the replicates in which the model is the best; models that tie for it share it equally. Adds up to 1.
    expected_rank : numpy.ndarray of float64, shape (M,)
        Mean rank over the replicates.
    quantiles : numpy.ndarray of float64, shape (M, K)
        Quantiles of the rank over the replicates, each a rank that occurred.
    """

    probability_best: Floats
    expected_rank: Floats
    quantiles: Floats


def rank_sets(sample: JointReplicates, level: float = 0.95, *, panel_bytes: int = PANEL_BYTES) -> RankSets:
    r"""Confidence sets for ranks from two-sided max-T intervals of the differences of all pairs.

    A model's best possible rank is 1 plus the number of models shown to be better, its worst is M less the number
    shown to be worse, where model k is shown to be better than j if

    .. math:: \hat\theta_k - \hat\theta_j > q\, s_{jk}

    with s the standard deviation of the replicates of the difference. For the simultaneous sets and the groups, q is
    the quantile at `level` of the largest statistic over all pairs; for the marginal set of model j, over the M - 1
    pairs with j. As the intervals are two-sided, both ends of a set hold together at that level.

    All pairs are passed through once, in panels. Beside the replicates, memory holds two more arrays as large as they
    are (8 M R bytes each) and the errors of all pairs (4 M**2 bytes); time grows as R M**2, about
    two seconds on one core for each million pairs and thousand replicates.

    References
    ----------
    Mogstad, Romano, Shaikh and Wilhelm (2024), doi:10.1093/restud/rdad006.

    Examples
    --------
    >>> from aucpr_dask.inference.families import joint_replicates
    >>> noise = np.random.default_rng(0).normal(scale=0.01, size=(999, 3))
    >>> sets = rank_sets(joint_replicates([0.50, 0.30, 0.51], [0.50, 0.30, 0.51] + noise))
    >>> sets.simultaneous.tolist(), sets.order.tolist(), sets.groups.tolist()
    ([[1, 2], [3, 3], [1, 2]], [2, 0, 1], [[0, 1], [2, 2]])
    """
    from scipy.stats import rankdata

    require_bootstrap(sample, "a confidence set for ranks")
    n_models, n_replicates = sample.centred.shape
    place = order_statistic(n_replicates, level, sample.complete)
    order = _best_first(sample)
    error, maximum = _errors_and_maxima(_reordered(sample, order), panel_bytes)
    marginal_quantile = np.empty(n_models)
    marginal_quantile[order] = np.partition(maximum, place, axis=1)[:, place]
    quantile = float(np.partition(maximum.max(axis=0, initial=0), place)[place])

    simultaneous, first_different = _sets(sample, order, error, np.full(n_models, quantile))
    marginal, _ = _sets(sample, order, error, marginal_quantile)
    return RankSets(
        rank=rankdata(-_resolved(sample.estimate, sample)),
        marginal=marginal,
        simultaneous=simultaneous,
        marginal_quantile=marginal_quantile,
        quantile=quantile,
        order=order,
        groups=indistinguishable_groups(first_different),
    )


def ranks_from_intervals(lower: Floats, upper: Floats) -> Indices:
    """Rank sets from bounds of all differences, of whatever origin.

    References
    ----------
    Mogstad, Romano, Shaikh and Wilhelm (2024), doi:10.1093/restud/rdad006.

    Examples
    --------
    >>> difference = np.subtract.outer([0.5, 0.3, 0.51], [0.5, 0.3, 0.51])
    >>> ranks_from_intervals(difference - 0.05, difference + 0.05).tolist()
    [[1, 2], [3, 3], [1, 2]]
    """
    lower, upper = np.asarray(lower, np.float64), np.asarray(upper, np.float64)
    n_models = len(lower)
    if lower.shape != (n_models, n_models) or upper.shape != lower.shape:
        raise InvalidInputError(
            "bounds that are not those of all differences",
            received=f"lower {lower.shape}, upper {upper.shape}",
            allowed="two square matrices (models, models)",
        )
    others = ~np.eye(n_models, dtype=bool)
    better = np.count_nonzero((upper < 0) & others, axis=1)
    worse = np.count_nonzero((lower > 0) & others, axis=1)
    return np.stack([1 + better, n_models - worse], axis=1).astype(np.int64)


def indistinguishable_groups(first_different: Indices) -> Indices:
    """Maximal runs of models, from the best to the worst, in which no two differ.

    Examples
    --------
    >>> indistinguishable_groups(np.array([2, 4, 4, 4, 5])).tolist()
    [[0, 1], [1, 3], [4, 4]]
    """
    end = np.minimum.accumulate(first_different[::-1])[::-1]
    starts = np.flatnonzero(np.diff(end, prepend=0))
    return np.stack([starts, end[starts] - 1], axis=1).astype(np.int64)


def rank_distribution(
    sample: JointReplicates, probabilities: Sequence[float] = (0.025, 0.5, 0.975), *, panel_bytes: int = PANEL_BYTES
) -> RankDistribution:
    """Probability of being best, expected rank and quantiles of the rank, over the replicates.

    These describe the bootstrap distribution of the ranks; they are not confidence sets, whose coverage only
    :func:`rank_sets` holds. Replicates that differ by no more than round-off tie, and ties share their mean rank.

    Examples
    --------
    >>> from aucpr_dask.inference.families import joint_replicates
    >>> sample = joint_replicates([0.5, 0.4, 0.5], [[0.5, 0.4, 0.5], [0.6, 0.7, 0.6]])
    >>> distribution = rank_distribution(sample, [0.5])
    >>> distribution.probability_best.tolist(), distribution.expected_rank.tolist()
    ([0.25, 0.5, 0.25], [2.0, 2.0, 2.0])
    """
    from scipy.stats import rankdata

    require_bootstrap(sample, "a distribution of ranks")
    n_models, n_replicates = sample.centred.shape
    centre = (sample.estimate + sample.bias)[:, np.newaxis]
    rank = np.empty((n_models, n_replicates))
    probability_best = np.zeros(n_models)
    columns = max(1, panel_bytes // (8 * n_models))
    for start in range(0, n_replicates, columns):
        replicates = _resolved(centre + sample.centred[:, start : start + columns], sample)
        rank[:, start : start + columns] = rankdata(-replicates, axis=0)
        best = replicates == replicates.max(axis=0)
        probability_best += np.sum(best / best.sum(axis=0), axis=1)
    return RankDistribution(
        probability_best=probability_best / n_replicates,
        expected_rank=rank.mean(axis=1),
        quantiles=np.quantile(rank, probabilities, axis=1, method="inverted_cdf").T,
    )


def _best_first(sample: JointReplicates) -> Indices:
    """Order models by falling estimate; equal ones by their replicates, so that the order given does not matter."""
    spread = np.einsum("mr,mr->m", sample.centred, sample.centred)
    return np.lexsort((sample.centred[:, 0], spread, -_resolved(sample.estimate, sample))).astype(np.int64)


def _resolved(values: Floats, sample: JointReplicates) -> Floats:
    """Round to what the numbers resolve, so that models equal but for round-off tie; in units of that resolution."""
    rounded: Floats = np.rint(values / sample.resolution.max(initial=ROUND_OFF**2))
    return rounded


def _reordered(sample: JointReplicates, order: Indices) -> JointReplicates:
    return JointReplicates(
        estimate=sample.estimate[order],
        centred=sample.centred[order],
        bias=sample.bias[order],
        resolution=sample.resolution[order],
        null=sample.null,
        complete=sample.complete,
    )


def _errors_and_maxima(sample: JointReplicates, panel_bytes: int) -> tuple[Floats, Floats]:
    """Errors of all pairs, row by row, and the largest statistic of each replicate over the pairs of each model.

    The columns of a panel and their maxima stay in the cache while all rows above them pass by.
    """
    n_models, n_replicates = sample.centred.shape
    error = np.empty(n_models * (n_models - 1) // 2)
    maximum = np.zeros((n_models, n_replicates))
    columns = max(1, panel_bytes // (8 * n_replicates))
    for start in range(0, n_models, columns):
        stop = min(start + columns, n_models)
        for j in range(stop - 1):
            others = np.arange(max(start, j + 1), stop)
            deviations = sample.centred[j] - sample.centred[others[0] : stop]
            sizes, spread, _ = studentise(sample, deviations, np.full(others.size, j), others)
            error[_place_of_row(j, n_models) + others] = spread
            np.maximum(maximum[j], sizes.max(axis=0), out=maximum[j])
            np.maximum(maximum[others[0] : stop], sizes, out=maximum[others[0] : stop])
    return error, maximum


def _place_of_row(j: int, n_models: int) -> int:
    """Place of pair (j, k) among all pairs first < second, row by row, less k."""
    return j * n_models - (j + 1) * (j + 2) // 2


def _rows(sample: JointReplicates, order: Indices, error: Floats) -> Iterator[tuple[int, Indices, Floats, Floats]]:
    """Give for each place its model, the models below it, their differences from it, and the errors of these."""
    n_models = order.size
    for place, model in enumerate(order[:-1]):
        below = order[place + 1 :]
        start = _place_of_row(place, n_models) + place + 1
        spread = error[start : start + below.size]
        yield place, below, differences(sample, np.full(below.size, model), below, spread), spread


def _sets(sample: JointReplicates, order: Indices, error: Floats, quantile: Floats) -> tuple[Indices, Indices]:
    """Rank sets, each model with its own quantile, and each place's first later place whose model it is better than."""
    n_models = order.size
    better, worse = np.zeros((2, n_models), np.int64)
    first_different = np.full(n_models, n_models)
    for place, below, difference, spread in _rows(sample, order, error):
        above = order[place]
        beaten = difference > quantile[above] * spread
        worse[above] = np.count_nonzero(beaten)
        better[below] += difference > quantile[below] * spread
        if beaten.any():
            first_different[place] = place + 1 + int(np.argmax(beaten))
    return np.stack([1 + better, n_models - worse], axis=1), first_different
