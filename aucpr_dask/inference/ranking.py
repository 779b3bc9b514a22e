"""Ranks of models with their uncertainty: confidence sets, probability of being best, groups; tests of mean ranks.

A larger estimate is better, unless less of the measure is; the best model has rank 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Unpack

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from aucpr_dask.errors import InvalidInputError, brief
from aucpr_dask.evaluation import arrays, results
from aucpr_dask.inference import covarying, designs, families, grouped, paired_samples, pairs, samples, sentences
from aucpr_dask.inference.families import JointReplicates
from aucpr_dask.inference.methods import Influence, SignFlips, resample_units
from aucpr_dask.inference.questions import answer, prepared, with_default_method
from aucpr_dask.inference.units import Floats, Indices, generator
from aucpr_dask.schema import choices
from aucpr_dask.schema.checks import choose
from aucpr_dask.schema.options import ComparisonOptions
from aucpr_dask.schema.terms import BOUND, MODEL, Scores

RANKING_METHODS = ("sign_flip", "bootstrap_t", "bootstrap", "influence")


@arrays.takes_arrays
def rank(
    data: Scores,
    *,
    by: Any = None,
    estimator: choices.SomeEstimator | None = None,
    over: choices.Dims | None = None,
    method: choices.MethodOfRanks | None = None,
    level: float = 0.95,
    n_resamples: int | None = None,
    seed: int = 0,
    incomplete: choices.Incomplete = "raise",
    **options: Unpack[choices.Evaluating],
) -> Scores:
    """Rank models by their estimates, with confidence sets for the ranks.

    The best rank that a model may have is 1 plus the number of models shown to be better, the worst is the number of
    models less the number shown to be worse; *shown* by the paired simultaneous intervals of
    :func:`compare`: over all pairs for the simultaneous sets, over the pairs with the model itself for its marginal
    set. Neighbouring models no two of which are shown to differ form a group; groups overlap.

    Parameters
    ----------
    data, by, estimator, over, level, n_resamples, seed, incomplete, **options
        See :func:`compare`.
    method : {"sign_flip", "bootstrap_t", "bootstrap", "influence"}, optional
        As in :func:`compare`. The probability of being best comes from the bootstrap of the same units or items
        (with ``"influence"``, from Student draws). Over data sets the default is ``"sign_flip"``, and the design says
        so: random effects have no joint replicates.

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        Over model, in the order given: ``estimate``, ``rank`` (1 is best, ties share their mean), ``rank_interval`` and
        ``simultaneous_rank_interval`` (with ci_bound), ``probability_best``, ``expected_rank``, and ``first_group``
        and ``last_group``: the groups that the model belongs to, numbered from the best. With `by`, these and the
        simultaneous sets hold for all groups of items together. The attribute ``quantile`` is how many standard errors
        a simultaneous interval of a difference reaches to either side.

    References
    ----------
    Mogstad, Romano, Shaikh & Wilhelm 2024, doi:10.1093/restud/rdad006.

    Examples
    --------
    >>> import numpy as np, xarray as xr, aucpr_dask as ap
    >>> easy = np.linspace(0.2, 0.6, 12)
    >>> wave = 0.02 * np.sin(np.arange(12.0))
    >>> result = xr.Dataset(
    ...     {"estimate": (("model", "query"), [easy, easy + 0.2 + wave, easy + 0.2 - wave])},
    ...     coords={"model": ["bm25", "dense", "hybrid"], "query": list("abcdefghijkl")},
    ... )
    >>> ranks = ap.rank(result)
    >>> ranks["simultaneous_rank_interval"].values.tolist()
    [[3, 3], [1, 2], [1, 2]]
    >>> ranks["first_group"].values.tolist()
    [2, 1, 1]
    """
    if method is not None and not (isinstance(method, str) and method in RANKING_METHODS):
        allowed, remedy = ", ".join(map(repr, RANKING_METHODS)), "give one of these, or leave it out"
        raise InvalidInputError(
            f"unknown method for ranks: {brief(method)}", "option 'method'", brief(method), allowed, remedy
        )
    question = ComparisonOptions.among(locals())
    data, question, reading, by = prepared(data, question, options, by)
    if grouped.has_groups(data, by, question.dims):

        def asked(tree: xr.DataTree, joint: float) -> Scores:
            return answer(tree, question, reading, ranks_of, joint=joint, is_joint=True)

        return grouped.answered_by_groups(data, by, asked, question)
    found = answer(data, question, reading, ranks_of, is_joint=True)
    if with_default_method(data, question, reading).method == designs.RANDOM_EFFECTS:
        found.attrs["design"] += "; by sign flips: ranks need joint replicates, which random effects (compare) lack"
    return found


def ranks_of(sample: paired_samples.PairedSample) -> xr.Dataset:
    """Return what :func:`rank` says of one sample."""
    from scipy.stats import rankdata  # its import takes half a second

    # Replicates around the estimates: those of the method, or the bootstrap of the same units.
    method, estimates, question = sample.method, sample.estimates, sample.question
    spread = replicates = method.sample
    if isinstance(method, SignFlips):
        n_resamples = question.n_resamples or designs.UNIT_RESAMPLES
        replicates = resample_units(estimates.values, estimates.units, method.goal, n_resamples, question.seed).sample
        spread = method.spread
    if spread is None or replicates is None:
        raise TypeError("this method has no replicates")
    sets = rank_sets(spread, question.level, method if isinstance(method, SignFlips | Influence) else None)
    probability_best, expected_rank = rank_distribution(replicates)
    first_group, last_group = groups_of_models(sets.groups, sets.order)
    arrays = {
        "estimate": (MODEL, sample.shown),
        "rank": (MODEL, rankdata(-estimates.mean)),
        "rank_interval": ((MODEL, BOUND), sets.marginal),
        "simultaneous_rank_interval": ((MODEL, BOUND), sets.simultaneous),
        "probability_best": (MODEL, probability_best),
        "expected_rank": (MODEL, expected_rank),
        "first_group": (MODEL, first_group),
        "last_group": (MODEL, last_group),
    }
    facts = {"n_groups": len(sets.groups), "quantile": sets.quantile}
    ranks = paired_samples.annotated(arrays, {MODEL: sample.labels}, sample, **facts)
    return ranks.assign_attrs({sentences.SUMMARY: sentences.of_ranks(ranks)})


# --- sets of ranks -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RankSets:
    """Confidence sets for the ranks of M models, and groups of models that are statistically indistinguishable."""

    marginal: Indices  # (M, 2): best and worst rank, a set for each model separately
    simultaneous: Indices  # (M, 2): best and worst rank, sets that hold for all models at once
    quantile: float  # of the maximum statistic over all pairs
    order: Indices  # positions of the models from the best to the worst estimate
    groups: Indices  # (G, 2): first and last place in `order` of each maximal run of indistinguishable models


def rank_sets(sample: JointReplicates, level: float = 0.95, intervals: SignFlips | Influence | None = None) -> RankSets:
    """Compute confidence sets for ranks from two-sided max-T intervals of the differences of all pairs.

    Model k is shown to be better than j if theta_k - theta_j > q s_jk, with s_jk the standard deviation of the
    replicates of the difference; never if they differ on too few units to tell. The best possible rank is 1 plus the
    number of models shown to be better, the worst is M less the number shown to be worse. For simultaneous sets and
    groups, q is the quantile at `level` of the largest statistic over all pairs; for the marginal set of model j, over
    the pairs with j (Mogstad et al. 2024, doi:10.1093/restud/rdad006). With `intervals`, errors and reach are those of
    the method's own intervals.

    Memory holds two arrays of 8 M R bytes in addition to the replicates, and a few of 8 M**2 bytes; time grows as R
    M**2, about a second on one core for each million pairs and thousand replicates.
    """
    n_models, n_replicates = sample.centred.shape
    place = families.order_statistic(n_replicates, level, sample.complete)
    order = _best_first(sample)
    spread, maximum = families.errors_and_maxima(sample.of_models(order))
    of_model = np.empty(n_models)
    of_model[order] = np.partition(maximum, place, axis=1)[:, place]
    of_all = np.partition(maximum.max(axis=0, initial=0), place)[[place]]

    first, second = (order[places] for places in pairs.all_pairs(n_models))
    own = spread if intervals is None else intervals.errors(first, second)
    error, difference = np.zeros((2, n_models, n_models))
    error[first, second] = error[second, first] = own
    is_open = np.zeros((n_models, n_models), bool)  # too few units differ to tell: no reach shows a difference
    is_open[first, second] = is_open[second, first] = families.units_apart(sample, first, second).too_few
    difference[first, second] = families.differences(sample, first, second, own)
    difference[second, first] = -difference[first, second]

    def reach(quantile: Floats, n_pairs: int) -> tuple[Floats, Floats]:
        quantile = quantile if intervals is None else intervals.reach_of_family(quantile, n_pairs)
        return quantile, np.where(is_open, np.inf, pairs.half_widths(difference, error, quantile))

    (_, marginal), (quantile, simultaneous) = reach(of_model[:, None], n_models - 1), reach(of_all, first.size)
    return RankSets(
        marginal=ranks_from_intervals(difference - marginal, difference + marginal),
        simultaneous=ranks_from_intervals(difference - simultaneous, difference + simultaneous),
        quantile=float(quantile[0]),
        order=order,
        groups=indistinguishable_groups((difference > simultaneous)[np.ix_(order, order)]),
    )


def ranks_from_intervals(lower: Floats, upper: Floats) -> Indices:
    """Compute rank sets from any bounds (M, M) of all differences (Mogstad et al. 2024)."""
    others = ~np.eye(len(lower), dtype=bool)
    better = np.count_nonzero((upper < 0) & others, axis=1)
    worse = np.count_nonzero((lower > 0) & others, axis=1)
    return np.stack([1 + better, len(lower) - worse], axis=1).astype(np.int64)


def indistinguishable_groups(differs: NDArray[np.bool_]) -> Indices:
    """Return maximal runs of models, from the best to the worst, in which none differs from a later one."""
    first_different = np.where(differs.any(axis=1), differs.argmax(axis=1), len(differs))
    end = np.minimum.accumulate(first_different[::-1])[::-1]
    starts = np.flatnonzero(np.diff(end, prepend=0))
    return np.stack([starts, end[starts] - 1], axis=1).astype(np.int64)


def groups_of_models(groups: Indices, order: Indices) -> tuple[Indices, Indices]:
    """Return the first and the last group that each model belongs to, numbered from the best."""
    place = np.empty(order.size, np.int64)
    place[order] = np.arange(order.size)
    return 1 + np.searchsorted(groups[:, 1], place), np.searchsorted(groups[:, 0], place, side="right")


def rank_distribution(sample: JointReplicates) -> tuple[Floats, Floats]:
    """Return each model's probability of being best, which adds up to 1, and its expected rank, over the replicates.

    Replicates that differ only by rounding errors tie. Ties share their mean rank, and the first place equally.
    """
    from scipy.stats import rankdata

    n_models, n_replicates = sample.centred.shape
    centre = (sample.estimate + sample.bias)[:, np.newaxis]
    rank = np.empty((n_models, n_replicates))
    probability_best = np.zeros(n_models)
    for columns in pairs.slices(n_replicates, 8 * n_models):
        replicates = _resolved(centre + sample.centred[:, columns], sample)
        rank[:, columns] = rankdata(-replicates, axis=0)
        best = replicates == replicates.max(axis=0)
        probability_best += np.sum(best / best.sum(axis=0), axis=1)
    return probability_best / n_replicates, rank.mean(axis=1)


def _best_first(sample: JointReplicates) -> Indices:
    """Order models by descending estimate; ties by their replicates, so that the input order does not matter."""
    spread = np.einsum("mr,mr->m", sample.centred, sample.centred)
    return np.lexsort((sample.centred[:, 0], spread, -_resolved(sample.estimate, sample))).astype(np.int64)


def _resolved(values: Floats, sample: JointReplicates) -> Floats:
    """Round to multiples of the resolution, so that models equal up to rounding errors tie."""
    rounded: Floats = np.rint(values / sample.resolution.max(initial=pairs.ROUND_OFF**2))
    return rounded


# --- tests of mean ranks over data sets or queries, as papers on learners show them (Demšar 2006) ---------------------

DRAWS, PRIOR_WEIGHT = 10_000, 0.5  # of the posterior of signed ranks; of one more difference, 0


@arrays.takes_arrays
def friedman(
    data: Scores,
    *,
    over: choices.Dims = samples.DATASET,
    posthoc: Literal["nemenyi", "wilcoxon"] = "nemenyi",
    estimator: choices.SomeEstimator | None = None,
    level: float = 0.95,
    equivalence: float | None = None,
    seed: int = 0,
    incomplete: choices.Incomplete = "raise",
    **options: Unpack[choices.EvaluatingByGroups],
) -> Scores:
    """Test whether mean ranks of models differ over data sets or queries.

    Ranks ignore how much models differ, and the test of two of them depends on which others take part.
    :func:`aucpr_dask.compare` has differences with intervals.

    Parameters
    ----------
    data, over, estimator, level, equivalence, incomplete, **options
        See :func:`aucpr_dask.compare`; three models or more.
    posthoc : {"nemenyi", "wilcoxon"}
        Which models differ: by the critical distance of mean ranks; or by Wilcoxon's signed ranks, adjusted by Holm,
        of each pair on its own.
    seed : int
        Of the posterior of signed ranks, 10,000 draws.

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        ``statistic``, ``p_value``; ``mean_rank(model)``, 1 is best; ``critical_distance``; ``p_adjusted`` over (model,
        other_model), ``first_group`` and ``last_group`` of models not told apart; ``mean_difference``, ``wins``,
        ``ties`` and ``losses``. With `equivalence`, ties are differences up to it, and ``probability`` is that of
        better, equivalent and worse by Bayesian signed ranks: that of the median, not of the mean.

    Raises
    ------
    InvalidInputError
        If there are fewer than three models, or see :func:`aucpr_dask.compare`.

    References
    ----------
    Demšar 2006, JMLR 7:1-30. Benavoli, Corani, Demšar & Zaffalon 2017, JMLR 18(77).

    Examples
    --------
    >>> import xarray as xr, aucpr_dask as ap
    >>> values = [[0.9, 0.8, 0.7, 0.9, 0.8, 0.6], [0.8, 0.7, 0.6, 0.8, 0.7, 0.5], [0.5, 0.9, 0.4, 0.3, 0.6, 0.4]]
    >>> result = xr.Dataset({"estimate": (("model", "query"), values)}, coords={"model": ["a", "b", "c"]})
    >>> found = ap.friedman(result, over="query")
    >>> found["mean_rank"].values.round(2), round(float(found["p_value"]), 4)
    (array([1.17, 2.17, 2.67]), 0.0302)
    """
    choose(("nemenyi", "wilcoxon"), posthoc, "posthoc")
    question = ComparisonOptions.among(locals() | {"method": "wilcoxon"})
    if options.pop("by", None) is not None or grouped.has_groups(data, None, question.dims):
        what, remedy = "mean ranks are tested within one group at a time", "select a group, or leave out by"
        raise InvalidInputError(what, "argument 'data'", "groups", "data without groups", remedy)
    return answer(data, question, options, lambda sample: _tested(sample, posthoc))


def _tested(sample: paired_samples.PairedSample, posthoc: str) -> xr.Dataset:
    from scipy import stats  # its import takes half a second

    values, question = sample.estimates.values, sample.question
    n_models, n_units = values.shape
    if n_models < 3:
        received, remedy = f"{n_models} models", "compare two models: ap.compare(..., method='wilcoxon')"
        raise InvalidInputError("Friedman's test is for three models or more", None, received, None, remedy)
    test = stats.friedmanchisquare(*values)
    rank = stats.rankdata(-values, axis=0).mean(axis=1)
    unit = np.sqrt(n_models * (n_models + 1) / (6 * n_units))
    first, second = pairs.all_pairs(n_models)
    apart = np.abs(rank[first] - rank[second])
    if posthoc == "nemenyi":
        distances, place = np.unique(apart, return_inverse=True)
        adjusted = stats.studentized_range.sf(distances / unit * np.sqrt(2), n_models, np.inf)[place]
    else:
        adjusted = pairs.holm(pairs.wilcoxon_p_values(values, first, second))
    p_adjusted = np.ones((n_models, n_models))
    p_adjusted[first, second] = p_adjusted[second, first] = adjusted
    margin = question.equivalence or 0.0
    difference = values[:, None] - values[None]
    both = (MODEL, covarying.OTHER_MODEL)
    counts = {"wins": difference > margin, "ties": abs(difference) <= margin, "losses": difference < -margin}
    order = np.argsort(rank, kind="stable")
    differs = np.triu(p_adjusted[np.ix_(order, order)] <= 1 - question.level, 1)
    groups = groups_of_models(indistinguishable_groups(differs), order)
    distance = stats.studentized_range.ppf(question.level, n_models, np.inf) / np.sqrt(2) * unit
    found = xr.Dataset(
        {
            "statistic": ((), float(test.statistic)),
            "p_value": ((), float(test.pvalue)),
            "critical_distance": ((), float(distance)),
            "mean_rank": (MODEL, rank),
            "p_adjusted": (both, p_adjusted),
            "mean_difference": (both, difference.mean(axis=2)),
            **{name: (both, is_so.sum(axis=2)) for name, is_so in counts.items()},
            **{name: (MODEL, group) for name, group in zip(("first_group", "last_group"), groups, strict=True)},
        },
        coords={MODEL: sample.labels, covarying.OTHER_MODEL: sample.labels},
    )
    if question.equivalence is not None:
        shares = np.tile([0.0, 1.0, 0.0], (n_models, n_models, 1))
        alphas = [PRIOR_WEIGHT, *np.ones(n_units)]
        weight = generator(question.seed, "signed ranks").dirichlet(alphas, DRAWS)
        for j, k in zip(first, second, strict=True):  # how often each has most of the weight of all means of two
            both_of = np.append(0.0, difference[j, k])
            means = (both_of[:, None] + both_of) / 2
            outcomes = means > margin, abs(means) <= margin, means < -margin
            parts = [((weight @ is_so) * weight).sum(axis=1) for is_so in outcomes]
            shares[j, k] = np.bincount(np.argmax(parts, axis=0), minlength=3) / DRAWS
        shares[second, first] = shares[first, second, ::-1]
        found["probability"] = ((*both, paired_samples.OUTCOME), shares)
        found = found.assign_coords({paired_samples.OUTCOME: list(paired_samples.COORDINATES[paired_samples.OUTCOME])})
    facts = {"method": "friedman", "posthoc": posthoc, "over": sample.sampling.dim, "level": question.level}
    names = designs.unit_names(str(sample.sampling.dim), sample.node.attrs)
    design = f"sample: {n_units} {names[n_units != 1]}; fixed: the {n_models} models, which all enter the ranks"
    return found.assign_attrs({"design": "; ".join([design, *sample.gaps])} | results.provenance(sample.node, facts))
