"""Tests of mean ranks over data sets or queries, as papers on learners show them (Demšar 2006)."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.evaluation.results import provenance
from aucpr_dask.inference import covarying, designs, grids, paired_samples, pairs, questions, ranking, samples, units
from aucpr_dask.schema.checks import choose
from aucpr_dask.schema.options import ComparisonOptions
from aucpr_dask.schema.terms import MODEL, Scores

DRAWS, PRIOR_WEIGHT = 10_000, 0.5  # of the posterior of signed ranks; of one more difference, 0


def friedman(
    data: Scores,
    *,
    over: str = samples.DATASET,
    posthoc: str = "nemenyi",
    estimator: str | None = None,
    level: float = 0.95,
    equivalence: float | None = None,
    seed: int = 0,
    incomplete: str = "raise",
    **options: Any,
) -> Scores:
    """Test whether mean ranks of models differ over data sets or queries, and which models are not told apart.

    Ranks forget by how much models differ, and the test of two of them depends on which others take part.
    :func:`aucpr_dask.compare` has differences with intervals, in which large data sets weigh more.

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
    return questions.answer(data, question, options, lambda sample: _tested(sample, posthoc))


def _tested(sample: paired_samples.PairedSample, posthoc: str) -> xr.Dataset:
    from scipy import stats

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
    groups = ranking.groups_of_models(ranking.indistinguishable_groups(differs), order)
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
        weight = units.generator(question.seed, "signed ranks").dirichlet(alphas, DRAWS)
        shares[first, second] = [_signed_ranks(one, margin, weight) for one in difference[first, second]]
        shares[second, first] = shares[first, second, ::-1]
        found["probability"] = ((*both, grids.OUTCOME), shares)
        found = found.assign_coords({grids.OUTCOME: list(grids.COORDINATES[grids.OUTCOME])})
    facts = {"method": "friedman", "posthoc": posthoc, "over": sample.sampling.dim, "level": question.level}
    names = designs.unit_names(str(sample.sampling.dim), sample.node.attrs)
    design = f"sample: {n_units} {names[n_units != 1]}; fixed: the {n_models} models, which all enter the ranks"
    return found.assign_attrs({"design": design} | provenance(sample.node, facts))


def _signed_ranks(difference: units.Floats, margin: float, weight: units.Floats) -> units.Floats:
    """Return how often better, equivalent or worse has most of the weight of all means of two differences."""
    values = np.append(0.0, difference)
    means = (values[:, None] + values) / 2
    parts = [
        ((weight @ is_so) * weight).sum(axis=1) for is_so in (means > margin, abs(means) <= margin, means < -margin)
    ]
    return np.bincount(np.argmax(parts, axis=0), minlength=3) / DRAWS
