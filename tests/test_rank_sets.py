"""Confidence sets for ranks, groups and distributions of ranks against brute force and simulated coverage."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import aucpr_dask as ap
from aucpr_dask.errors import InvalidInputError
from aucpr_dask.inference import families
from aucpr_dask.inference.pairs import against, all_pairs, intervals
from aucpr_dask.inference.ranking import (
    indistinguishable_groups,
    rank_distribution,
    rank_sets,
    ranks_from_intervals,
)


def leaderboard(seed=0, n_models=25, n_resamples=299):
    """Estimates and replicates of models some of which are copies, tied, or close together."""
    random = np.random.default_rng(seed)
    estimate = np.round(0.5 + random.normal(scale=0.05, size=n_models), 2)
    noise = random.normal(size=(n_resamples, n_models)) * random.uniform(0.005, 0.03, n_models)
    replicates = estimate + noise + random.normal(scale=0.02, size=(n_resamples, 1))
    estimate[3], replicates[:, 3] = estimate[8], replicates[:, 8]
    return estimate, replicates


def differing(sample, first, second, level):
    """Pairs whose simultaneous intervals within this family leave out 0."""
    statistics = families.pair_statistics(sample, first, second)
    quantile = families.max_t_quantile(statistics.maxima.max(axis=0), level, statistics.complete)
    lower, upper = intervals(statistics.difference, statistics.error, quantile).T
    return lower > 0, upper < 0


# --- rank sets -----------------------------------------------------------------------------------------------------


def test_ranks_from_intervals_by_hand():
    # a beats c and d; b beats d; nothing else is settled
    lower = np.full((4, 4), -1.0)
    for better, worse in ((0, 2), (0, 3), (1, 3)):
        lower[better, worse] = 0.1
    np.testing.assert_array_equal(ranks_from_intervals(lower, -lower.T), [[1, 2], [1, 3], [2, 4], [3, 4]])


def test_an_interval_that_touches_0_settles_nothing():
    np.testing.assert_array_equal(ranks_from_intervals(np.zeros((2, 2)), np.zeros((2, 2))), [[1, 2], [1, 2]])


@pytest.mark.parametrize("seed", range(4))
def test_simultaneous_sets_and_groups_against_all_pairs(seed):
    estimate, replicates = leaderboard(seed)
    sample, n_models = families.joint_replicates(estimate, replicates), estimate.size
    first, second = all_pairs(n_models)
    statistics = families.pair_statistics(sample, first, second)
    quantile = families.max_t_quantile(statistics.maxima.max(axis=0), 0.9, statistics.complete)
    bounds = intervals(statistics.difference, statistics.error, quantile)
    lower, upper = np.zeros((2, n_models, n_models))
    lower[first, second], upper[first, second] = bounds.T
    lower[second, first], upper[second, first] = -bounds.T[::-1]

    sets = rank_sets(sample, 0.9)
    assert sets.quantile == quantile
    np.testing.assert_array_equal(sets.simultaneous, ranks_from_intervals(lower, upper))
    assert np.all(np.diff(estimate[sets.order]) <= 0)

    differ = ((lower > 0) | (upper < 0))[np.ix_(sets.order, sets.order)]
    runs = [(i, j) for i in range(n_models) for j in range(i, n_models) if not differ[i : j + 1, i : j + 1].any()]
    maximal = [(i, j) for i, j in runs if not any(a <= i and j <= b and (a, b) != (i, j) for a, b in runs)]
    assert sets.groups.tolist() == [list(run) for run in sorted(maximal)]
    assert 1 < len(maximal) < n_models


@pytest.mark.parametrize("seed", range(4))
def test_marginal_sets_against_the_family_of_one_model(seed):
    estimate, replicates = leaderboard(seed)
    sample, n_models = families.joint_replicates(estimate, replicates), estimate.size
    sets = rank_sets(sample, 0.9)
    for model in range(n_models):
        others_better, others_worse = differing(sample, *against([model], n_models), 0.9)
        expected = [1 + others_better.sum(), n_models - others_worse.sum()]
        assert sets.marginal[model].tolist() == expected
    assert np.all(sets.marginal[:, 0] >= sets.simultaneous[:, 0])
    assert np.all(sets.marginal[:, 1] <= sets.simultaneous[:, 1])


def test_clear_ranks_are_certain():
    random = np.random.default_rng(0)
    estimate = np.array([0.1, 0.9, 0.5])
    sets = rank_sets(families.joint_replicates(estimate, estimate + random.normal(scale=0.001, size=(199, 3))))
    assert sets.simultaneous.tolist() == sets.marginal.tolist() == [[3, 3], [1, 1], [2, 2]]
    assert sets.order.tolist() == [1, 2, 0]
    assert sets.groups.tolist() == [[0, 0], [1, 1], [2, 2]]


def test_identical_models_share_everything():
    random = np.random.default_rng(0)
    replicates = np.repeat(random.normal(0.5, 0.01, size=(199, 1)), 4, axis=1)
    sets = rank_sets(families.joint_replicates(np.full(4, 0.5), replicates))
    assert sets.simultaneous.tolist() == sets.marginal.tolist() == [[1, 4]] * 4
    assert sets.groups.tolist() == [[0, 3]]
    assert sets.quantile == 0


def test_a_single_model():
    sample = families.joint_replicates([0.5], np.random.default_rng(0).normal(0.5, 0.1, size=(199, 1)))
    sets = rank_sets(sample)
    assert sets.simultaneous.tolist() == sets.marginal.tolist() == [[1, 1]]
    assert sets.groups.tolist() == [[0, 0]]
    assert rank_distribution(sample)[0].tolist() == [1.0]


def everything(sample):
    probability_best, expected_rank = rank_distribution(sample)
    return vars(rank_sets(sample)) | {"probability_best": probability_best, "expected_rank": expected_rank}


@pytest.mark.parametrize("panel_bytes", [1, 10_000, 40_000, 2**30])
def test_panels_change_nothing(panel_bytes, monkeypatch):
    sample = families.joint_replicates(*leaderboard(n_models=60))
    expected = everything(sample)
    monkeypatch.setattr("aucpr_dask.inference.pairs.PANEL_BYTES", panel_bytes)
    for name, values in everything(sample).items():
        np.testing.assert_array_equal(values, expected[name], err_msg=name)


def test_permuting_models_permutes_the_answer():
    estimate, replicates = leaderboard(n_models=60)
    expected = everything(families.joint_replicates(estimate, replicates))
    models = np.random.default_rng(0).permutation(60)
    answer = everything(families.joint_replicates(estimate[models], replicates[:, models]))
    for name in ("quantile", "groups"):
        np.testing.assert_array_equal(answer.pop(name), expected[name])
    # the two copies, 3 and 8, may change places: nothing tells them apart
    order = answer.pop("order")
    np.testing.assert_array_equal(
        np.where(models[order] == 8, 3, models[order]), np.where(expected["order"] == 8, 3, expected["order"])
    )
    for name, values in answer.items():
        np.testing.assert_array_equal(values, expected[name][models], err_msg=name)


# --- groups --------------------------------------------------------------------------------------------------------


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(*(st.integers(i + 1, n) for i in range(n)))))
def test_groups_by_brute_force(first_different):
    n = len(first_different)
    alike = [run for run in itertools.combinations(range(n + 1), 2) if min(first_different[run[0] : run[1]]) >= run[1]]
    maximal = [run for run in alike if not any(a <= run[0] and run[1] <= b and (a, b) != run for a, b in alike)]
    differs = np.arange(len(first_different)) >= np.array(first_different)[:, None]
    groups = indistinguishable_groups(differs)
    assert groups.tolist() == [[start, end - 1] for start, end in maximal]


# --- distribution of ranks -----------------------------------------------------------------------------------------


def test_rank_distribution_by_brute_force():
    estimate, replicates = leaderboard()
    probability_best, expected_rank = rank_distribution(families.joint_replicates(estimate, replicates))
    ranks = np.array([stats.rankdata(-row) for row in replicates])
    best = np.array([(row == row.max()) / np.sum(row == row.max()) for row in replicates])
    np.testing.assert_allclose(probability_best, best.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(expected_rank, ranks.mean(axis=0), rtol=1e-12)
    assert probability_best.sum() == pytest.approx(1, rel=1e-12)


def test_probability_best_of_two_normal_estimates():
    estimate = np.array([0.52, 0.5])
    replicates = np.random.default_rng(0).normal(estimate, 0.02, size=(40_000, 2))
    expected = stats.norm.cdf(0.02 / (0.02 * np.sqrt(2)))
    probability_best, expected_rank = rank_distribution(families.joint_replicates(estimate, replicates))
    assert probability_best[0] == pytest.approx(expected, abs=0.01)
    assert expected_rank[1] == pytest.approx(1 + expected, abs=0.01)


def test_identical_models_but_for_round_off_share_the_first_place():
    random = np.random.default_rng(0)
    replicates = np.repeat(random.normal(0.5, 0.01, size=(200, 1)), 2, axis=1)
    replicates[:, 1] += 2.0**-53
    probability_best, _ = rank_distribution(families.joint_replicates([0.5, 0.5 + 2.0**-53], replicates))
    np.testing.assert_allclose(probability_best, 0.5, atol=0.01)


# --- what is refused -----------------------------------------------------------------------------------------------


def test_too_few_replicates_are_refused():
    sample = families.joint_replicates(np.zeros(3), np.random.default_rng(0).normal(size=(18, 3)))
    with pytest.raises(InvalidInputError, match="at least 19 resamples"):
        rank_sets(sample, 0.95)


# --- coverage ------------------------------------------------------------------------------------------------------


def coverage(truth, n_simulations, n_resamples=199, spread=1.0, level=0.9):
    """Shares of simulations in which all simultaneous sets, and each marginal set, contain the possible true ranks."""
    random = np.random.default_rng(0)
    better = np.sum(truth > truth[:, np.newaxis], axis=1)
    worse = np.sum(truth < truth[:, np.newaxis], axis=1)
    simultaneous, marginal = [], []
    for _ in range(n_simulations):
        estimate = random.normal(truth, spread)
        sets = rank_sets(families.joint_replicates(estimate, random.normal(estimate, spread, (n_resamples, 5))), level)
        held = [
            (bounds[:, 0] <= 1 + better) & (bounds[:, 1] >= truth.size - worse)
            for bounds in (sets.simultaneous, sets.marginal)
        ]
        simultaneous.append(held[0].all())
        marginal.append(held[1])
    return np.mean(simultaneous), np.mean(marginal, axis=0)


@pytest.mark.slow
def test_coverage_is_exact_where_all_models_are_equal():
    # every set must then span all ranks: no pair may be claimed to differ, which is what the level says
    simultaneous, marginal = coverage(np.zeros(5), 1000)
    assert simultaneous == pytest.approx(0.9, abs=4 * np.sqrt(0.9 * 0.1 / 1000))
    np.testing.assert_allclose(marginal, 0.9, atol=4 * np.sqrt(0.9 * 0.1 / 1000))


@pytest.mark.slow
@pytest.mark.parametrize(
    "truth",
    [
        np.array([0.0, 0, 2, 2, 9]),
        *(pytest.param(np.arange(5) * step, marks=pytest.mark.nightly) for step in (0.5, 3.0)),
    ],
)
def test_coverage_is_at_least_the_level(truth):
    simultaneous, marginal = coverage(truth, 4000)
    assert simultaneous >= 0.9 - 4 * np.sqrt(0.9 * 0.1 / 4000)
    assert np.all(marginal >= 0.9 - 4 * np.sqrt(0.9 * 0.1 / 4000))


@pytest.mark.slow
def test_coverage_of_the_bootstrap_over_units():
    random = np.random.default_rng(0)
    truth, n_units, n_simulations = np.array([0.0, 0.0, 0.0, 0.0, 0.3]), 150, 2000
    held = 0
    for _ in range(n_simulations):
        values = truth[:, np.newaxis] + random.gamma(2, 0.5, size=(5, n_units)) + random.normal(size=n_units)
        weights = random.multinomial(n_units, np.full(n_units, 1 / n_units), size=299) / n_units
        sets = rank_sets(families.joint_replicates(values.mean(axis=1), weights @ values.T), 0.9)
        held += np.all(sets.simultaneous[:4, 1] == 5) and np.all(sets.simultaneous[:4, 0] <= 2)
    assert 0.86 < held / n_simulations < 0.94


@pytest.mark.filterwarnings("ignore::aucpr_dask.errors.FewUnitsWarning")
@pytest.mark.parametrize("method", ["sign_flip", "bootstrap", "bootstrap_t"])
def test_models_that_differ_on_few_units_are_not_told_apart(method: str) -> None:
    values = np.tile(np.linspace(0.2, 0.8, 12), (3, 1))
    values[1, 3] += 0.01  # one unit decides between the first two
    values[2] -= np.linspace(0.1, 0.2, 12)
    table = xr.Dataset({"estimate": (("model", "query"), values)}, {"model": list("abc")})
    ranks = ap.rank(table, method=method)
    assert ranks["simultaneous_rank_interval"].values.tolist() == [[1, 2], [1, 2], [3, 3]]
    assert ranks["rank_interval"].values.tolist() == [[1, 2], [1, 2], [3, 3]]
    twins = ap.rank(table.isel(model=[0, 1]), method=method)
    assert twins["simultaneous_rank_interval"].values.tolist() == [[1, 2], [1, 2]]
    assert twins.attrs["n_groups"] == 1
    found = ap.compare(table.isel(model=[0, 1]), "a", method="sign_flip").sel(model="b")
    assert float(found["p_adjusted"]) == float(found["p_value"]) == 0.5  # of one comparison nothing is adjusted
