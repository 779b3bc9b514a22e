"""Ranks of many models with their uncertainty: confidence sets, probability of being best, groups.

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
    pairs_of_panel,
    require_bootstrap,
    studentise,
)


@dataclass(frozen=True)
class RankSets:
    """Confidence sets for the ranks of M models, and groups of models that are statistically indistinguishable."""

    rank: Floats  # of each estimate; equal estimates share their mean rank
    marginal: Indices  # (M, 2): best and worst rank, a set for each model separately
    simultaneous: Indices  # (M, 2): best and worst rank, sets that hold for all models at once
    marginal_quantile: Floats  # of the maximum statistic over the pairs with one model
    quantile: float  # of the maximum statistic over all pairs
    order: Indices  # positions of the models from the best to the worst estimate
    groups: Indices  # (G, 2): first and last place in `order` of each maximal run of indistinguishable models


@dataclass(frozen=True)
class RankDistribution:
    """The bootstrap distribution of the ranks of M models."""

    probability_best: Floats  # models that tie for the best share it equally; adds up to 1
    expected_rank: Floats
    quantiles: Floats  # (M, K): each a rank that occurred


def rank_sets(sample: JointReplicates, level: float = 0.95, *, panel_bytes: int = PANEL_BYTES) -> RankSets:
    """Compute confidence sets for ranks from two-sided max-T intervals of the differences of all pairs.

    Model k is shown to be better than j if theta_k - theta_j > q s_jk, with s_jk the standard deviation of the
    replicates of the difference. The best possible rank is 1 plus the number of models shown to be better, the worst is
    M less the number shown to be worse. For simultaneous sets and groups, q is the quantile at `level` of the largest
    statistic over all pairs; for the marginal set of model j, over the pairs with j (Mogstad et al. 2024,
    doi:10.1093/restud/rdad006).

    Memory holds two arrays of 8 M R bytes in addition to the replicates, and 4 M**2 bytes of errors; time grows as R
    M**2, about two seconds on one core for each million pairs and thousand replicates.
    """
    from scipy.stats import rankdata

    require_bootstrap(sample, "a confidence set for ranks")
    n_models, n_replicates = sample.centred.shape
    place = order_statistic(n_replicates, level, sample.complete)
    order = _best_first(sample)
    error, maximum = _errors_and_maxima(sample.of_models(order), panel_bytes)
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
    """Compute rank sets from any bounds of all differences (Mogstad et al. 2024)."""
    lower, upper = np.asarray(lower, np.float64), np.asarray(upper, np.float64)
    n_models = len(lower)
    if lower.shape != (n_models, n_models) or upper.shape != lower.shape:
        raise InvalidInputError(
            "not the bounds of all differences",
            received=f"lower {lower.shape}, upper {upper.shape}",
            allowed="two square matrices (models, models)",
        )
    others = ~np.eye(n_models, dtype=bool)
    better = np.count_nonzero((upper < 0) & others, axis=1)
    worse = np.count_nonzero((lower > 0) & others, axis=1)
    return np.stack([1 + better, n_models - worse], axis=1).astype(np.int64)


def indistinguishable_groups(first_different: Indices) -> Indices:
    """Return maximal runs of models, from the best to the worst, in which no two differ."""
    end = np.minimum.accumulate(first_different[::-1])[::-1]
    starts = np.flatnonzero(np.diff(end, prepend=0))
    return np.stack([starts, end[starts] - 1], axis=1).astype(np.int64)


def rank_distribution(
    sample: JointReplicates, probabilities: Sequence[float] = (0.025, 0.5, 0.975), *, panel_bytes: int = PANEL_BYTES
) -> RankDistribution:
    """Compute the probability of being best, the expected rank and quantiles of the rank over the replicates.

    These are not confidence sets; those are :func:`rank_sets`. Replicates that differ only by rounding errors tie, and
    ties share their mean rank.
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
    """Order models by descending estimate; ties by their replicates, so that the input order does not matter."""
    spread = np.einsum("mr,mr->m", sample.centred, sample.centred)
    return np.lexsort((sample.centred[:, 0], spread, -_resolved(sample.estimate, sample))).astype(np.int64)


def _resolved(values: Floats, sample: JointReplicates) -> Floats:
    """Round to multiples of the resolution, so that models equal up to rounding errors tie."""
    rounded: Floats = np.rint(values / sample.resolution.max(initial=ROUND_OFF**2))
    return rounded


def _errors_and_maxima(sample: JointReplicates, panel_bytes: int) -> tuple[Floats, Floats]:
    """Return the errors of all pairs, row by row, and each replicate's largest statistic over the pairs of each model.

    A panel of columns stays in the cache while all rows above it are processed.
    """
    n_models, n_replicates = sample.centred.shape
    error = np.empty(n_models * (n_models - 1) // 2)
    maximum = np.zeros((n_models, n_replicates))
    columns = pairs_of_panel(sample, panel_bytes)
    for start in range(0, n_models, columns):
        stop = min(start + columns, n_models)
        for j in range(stop - 1):
            others = np.arange(max(start, j + 1), stop)
            sizes, spread, _ = studentise(sample, np.full(others.size, j), others)
            error[_place_of_row(j, n_models) + others] = spread
            np.maximum(maximum[j], sizes.max(axis=0), out=maximum[j])
            np.maximum(maximum[others[0] : stop], sizes, out=maximum[others[0] : stop])
    return error, maximum


def _place_of_row(j: int, n_models: int) -> int:
    """Place of pair (j, k) among all pairs first < second, row by row, less k."""
    return j * n_models - (j + 1) * (j + 2) // 2


def _rows(sample: JointReplicates, order: Indices, error: Floats) -> Iterator[tuple[int, Indices, Floats, Floats]]:
    """Yield each place, the models below it, their differences from its model, and the errors of these."""
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
