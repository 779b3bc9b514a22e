"""What single units do to a leaderboard: ranks on them, ranks to expect on a new one, and which of them decide.

Values are (M, Q), models from the best to the worst mean, units in the order of their names.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aucpr_dask.inference.families import ROUND_OFF, Floats, Indices, all_pairs
from aucpr_dask.inference.samples import generator, means_under, total_of_units

TOP = 10  # places whose order is watched
N_HALVES = 200


def expected_ranks(ranks: Floats, level: float) -> Floats:
    """Bounds (..., 2) of the rank on one more unit like these: the k-th lowest and the k-th highest of Q ranks.

    The rank on any of Q + 1 exchangeable units is below the k-th lowest of the others with probability k / (Q + 1) at
    most, so the bounds hold with probability ``1 - 2 k / (Q + 1)`` at least. With too few units for the level, they
    are infinite.
    """
    n_units = ranks.shape[-1]
    k = int(np.floor(round((1 - level) / 2 * (n_units + 1), 9)))
    if k == 0:
        return np.broadcast_to([-np.inf, np.inf], (*ranks.shape[:-1], 2))
    return np.sort(ranks, axis=-1)[..., [k - 1, n_units - k]]


class LeftOut(NamedTuple):
    """What happens if each unit is left out in turn."""

    leader: Indices  # (Q,): position of the model that is then the best
    n_swaps: Indices  # (Q,): pairs of the first places that change their order
    rank_of_leader: Floats  # (Q,): rank on the unit of the model that leads on the others
    coverage: float  # how often the first models on the others have a rank on the unit that the others let expect


def leave_out_each(values: Floats, ranks: Floats, level: float) -> LeftOut:
    """Leave out each unit in turn; the first models of the others show how well ranks on the unit are expected."""
    n_models, n_units = values.shape
    rest = (total_of_units(values)[:, None] - values) / (n_units - 1)
    resolution = ROUND_OFF * np.abs(values).max()
    first, second = all_pairs(min(TOP, n_models))
    n_swaps = np.count_nonzero(rest[second] - rest[first] > resolution, axis=0)
    rest[np.abs(rest - rest.max(axis=0)) <= resolution] = np.inf  # of models that tie, the first leads
    top = np.argsort(-rest, axis=0, kind="stable")[:TOP]
    held = np.empty(top.shape, bool)
    for unit in range(n_units):
        those = ranks[top[:, unit]]
        lower, upper = expected_ranks(np.delete(those, unit, axis=1), level).T
        held[:, unit] = (lower <= those[:, unit]) & (those[:, unit] <= upper)
    return LeftOut(top[0], n_swaps, ranks[top[0], np.arange(n_units)], float(held.mean()))


def shares_of_spread(values: Floats) -> Floats:
    """Share of each unit in the variance of the means between models: ``cov(v_q, mean) / (Q var(mean))``; adds up to 1.

    A unit that ranks models against the others has a negative share; all are NaN if all means are equal.
    """
    centred = values - values.mean(axis=0)
    total = total_of_units(centred)
    if np.abs(total).max(initial=0.0) <= ROUND_OFF * np.abs(values).sum(axis=1).max(initial=0.0):
        return np.full(values.shape[1], np.nan)
    return np.asarray((total @ centred) / (total @ total), np.float64)


def agreement_of_halves(values: Floats, seed: int) -> tuple[float, float]:
    """Split the units in two random halves, again and again, and compare the two leaderboards.

    Returns the share of pairs of models in the same order (Kendall's tau-b on a scale from 0 to 1), and how often both
    have the same leader.
    """
    from scipy.stats import kendalltau

    n_units = values.shape[1]
    places = np.tile(np.arange(n_units), (N_HALVES, 1))
    half = generator(seed, "halves of units").permuted(places, axis=1) < n_units // 2
    one, other = means_under(half, values).T, means_under(~half, values).T
    tau = [kendalltau(*pair).statistic for pair in zip(one, other, strict=True)]
    return float((1 + np.mean(tau)) / 2), float(np.mean(one.argmax(axis=1) == other.argmax(axis=1)))
