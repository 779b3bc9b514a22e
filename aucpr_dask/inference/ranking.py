"""Ranks of models, with confidence sets."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from aucpr_dask.errors import InvalidInputError, brief
from aucpr_dask.inference import families
from aucpr_dask.inference.describing import annotate
from aucpr_dask.inference.designs import UNIT_RESAMPLES
from aucpr_dask.inference.families import Floats, Indices, JointReplicates
from aucpr_dask.inference.methods import Influence, SignFlips, resample_units
from aucpr_dask.inference.questions import Prepared, ask, naming, prepare, unit_dim
from aucpr_dask.inference.rank_sets import (
    RankDistribution,
    indistinguishable_groups,
    rank_distribution,
    rank_sets,
    ranks_from_intervals,
)
from aucpr_dask.inference.samples import DATASET
from aucpr_dask.schema.options import ComparisonOptions
from aucpr_dask.schema.trees import Scores, map_nodes
from aucpr_dask.schema.variables import BOUND, MODEL, QUERY

ONLY_OF_COMPARISONS = ("adjust", "equivalence", "baseline", "chunk")
RANKING_METHODS = ("sign_flip", "bootstrap_t", "bootstrap", "influence")


def rank(
    data: Scores,
    *,
    estimator: str | None = None,
    over: str = QUERY,
    sample: str | None = None,
    method: str | None = None,
    level: float = 0.95,
    n_resamples: int | None = None,
    seed: int = 0,
    incomplete: str = "raise",
    **options: Any,
) -> Scores:
    """Rank models by their estimates, with confidence sets for the ranks.

    The best rank that a model may have is 1 plus the number of models shown to be better, the worst is the number of
    models less the number shown to be worse; *shown* by the paired simultaneous intervals of
    :func:`compare`: over all pairs for the simultaneous sets, over the pairs with the model itself for its marginal
    set. Neighbouring models no two of which are shown to differ form a group; groups overlap.

    Parameters
    ----------
    data, estimator, over, sample, level, n_resamples, seed, incomplete, **options
        See :func:`compare`.
    method : {"sign_flip", "bootstrap_t", "bootstrap", "influence"}, optional
        As in :func:`compare`. The probability of being best comes from the bootstrap of the same units or items
        (with ``"influence"``, from Student draws).

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        Over model, in the order given: ``estimate``, ``rank`` (1 is best, ties share their mean), ``rank_interval`` and
        ``simultaneous_rank_interval`` (with ci_bound), ``probability_best``, ``expected_rank``, and ``first_group``
        and ``last_group``: the groups that the model belongs to, numbered from the best. The attribute ``quantile``
        is how many standard errors a simultaneous interval of a difference reaches to either side.

    Raises
    ------
    InvalidInputError, AlignmentError
        See :func:`compare`.

    References
    ----------
    Mogstad, Romano, Shaikh & Wilhelm 2024, doi:10.1093/restud/rdad006.

    Examples
    --------
    >>> easy = np.linspace(0.2, 0.6, 12)
    >>> wave = 0.02 * np.sin(np.arange(12.0))
    >>> result = xr.Dataset(
    ...     {"estimate": (("model", "query"), [easy, easy + 0.2 + wave, easy + 0.2 - wave])},
    ...     coords={"model": ["bm25", "dense", "hybrid"], "query": list("abcdefghijkl")},
    ... )
    >>> ranks = rank(result)
    >>> ranks["simultaneous_rank_interval"].values.tolist()
    [[3, 3], [1, 2], [1, 2]]
    >>> ranks["first_group"].values.tolist()
    [2, 1, 1]
    """
    if method is not None and not (isinstance(method, str) and method in RANKING_METHODS):
        raise InvalidInputError(
            "unknown method for ranks",
            where="option 'method'",
            received=brief(method),
            allowed=", ".join(map(repr, RANKING_METHODS)),
            remedy="give one of these, or leave it out",
        )
    question = ComparisonOptions(
        estimator=estimator,
        over=over,
        sample=sample,
        method=method,
        level=level,
        n_resamples=n_resamples,
        seed=seed,
        incomplete=incomplete,
    ).checked()
    answered = ask(data, question, options, without=ONLY_OF_COMPARISONS)
    if over == DATASET:
        return ranks_of(prepare(answered, DATASET, question), answered, question)

    def rank_node(path: str, node: xr.Dataset) -> xr.Dataset:
        with naming(path):
            return ranks_of(prepare(node, unit_dim(node), question), node, question)

    return map_nodes(answered, rank_node)


def ranks_of(prepared: Prepared, node: xr.Dataset, question: ComparisonOptions) -> xr.Dataset:
    """Return what :func:`rank` says of one data set."""
    method = prepared.method
    if isinstance(method, SignFlips | Influence):
        marginal, simultaneous, order, groups, quantile = _sets_of_intervals(method, question.level)
    else:
        sets = rank_sets(_replicates(prepared, question), question.level)
        marginal, simultaneous, order, groups = sets.marginal, sets.simultaneous, sets.order, sets.groups
        quantile = sets.quantile
    chances: RankDistribution = rank_distribution(_replicates(prepared, question))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    ranks = xr.Dataset(
        {
            "estimate": (MODEL, prepared.estimates.mean),
            "rank": (MODEL, _mean_ranks(prepared.estimates.mean)),
            "rank_interval": ((MODEL, BOUND), marginal),
            "simultaneous_rank_interval": ((MODEL, BOUND), simultaneous),
            "probability_best": (MODEL, chances.probability_best),
            "expected_rank": (MODEL, chances.expected_rank),
            "first_group": (MODEL, 1 + np.searchsorted(groups[:, 1], place)),
            "last_group": (MODEL, np.searchsorted(groups[:, 0], place, side="right")),
        },
        coords={MODEL: prepared.plain_labels},
    )
    return annotate(ranks, node, prepared, question, {"n_groups": len(groups), "quantile": quantile})


def _mean_ranks(estimate: Floats) -> Floats:
    """Rank from 1 for the largest; equal estimates share their mean rank."""
    ordered = np.sort(-estimate)
    before, until = (np.searchsorted(ordered, -estimate, side=side) for side in ("left", "right"))
    return np.asarray((before + until + 1) / 2, dtype=np.float64)


def _replicates(prepared: Prepared, question: ComparisonOptions) -> JointReplicates:
    """Return replicates around the estimates: those of the method, or the bootstrap of the same units."""
    if isinstance(prepared.method, SignFlips):
        estimates, n_resamples = prepared.estimates, question.n_resamples or UNIT_RESAMPLES
        return resample_units(
            estimates.values, estimates.units, prepared.method.goal, n_resamples, question.seed
        ).sample
    if prepared.method.sample is None:
        raise TypeError("this method has no replicates")
    return prepared.method.sample


def _sets_of_intervals(method: SignFlips | Influence, level: float) -> tuple[Indices, Indices, Indices, Indices, float]:
    """Return marginal and simultaneous rank sets, order, groups and quantile, by the method's own intervals."""
    sets = rank_sets(method.spread, level)
    n_models = len(method.estimate)
    first, second = families.all_pairs(n_models)
    error: Floats = np.zeros((n_models, n_models))
    error[first, second] = error[second, first] = method.errors(first, second)
    difference = np.subtract.outer(method.estimate, method.estimate)

    def reach(quantile: Floats) -> Floats:
        return families.half_widths(difference, error, method.reach(quantile))

    def rank_intervals(quantile: Floats) -> Indices:
        return ranks_from_intervals(difference - reach(quantile), difference + reach(quantile))

    quantile = np.array([sets.quantile])
    shown = (difference > reach(quantile))[np.ix_(sets.order, sets.order)]
    first_different = np.where(shown.any(axis=1), shown.argmax(axis=1), n_models)
    groups = indistinguishable_groups(first_different)
    marginal = rank_intervals(sets.marginal_quantile[:, None])
    return marginal, rank_intervals(quantile), sets.order, groups, float(method.reach(quantile)[0])
