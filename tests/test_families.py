"""Differences, p-values, adjustments, intervals and equivalence against brute force, SciPy and statsmodels."""

from __future__ import annotations

import itertools
import tracemalloc
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats

import aucpr_dask as ap
from aucpr_dask.errors import InvalidInputError
from aucpr_dask.inference import families, units
from aucpr_dask.inference.methods import Goal, SignFlips
from aucpr_dask.inference.pairs import (
    PANEL_BYTES,
    against,
    all_pairs,
    benjamini_hochberg,
    errors_from_units,
    holm,
    intervals,
    parametric_equivalence,
    parametric_p_values,
    parametric_quantile,
    wilcoxon_p_values,
)
from aucpr_dask.inference.units import Flips, Redraws, _stable_hash
from aucpr_dask.kernels import dispatch

N_MODELS = 6
PAIRS = all_pairs(N_MODELS)
PANELS = (1, 16_000, 50_000, 2**30)  # one pair, a few, some, and all pairs at a time


def correlated_replicates(seed=0, n_models=N_MODELS, n_resamples=199):
    """Replicates with a shared part, unequal spreads and a bias, two models being copies of each other."""
    random = np.random.default_rng(seed)
    estimate = 0.5 + random.normal(scale=0.03, size=n_models)
    noise = random.normal(size=(n_resamples, n_models)) * np.linspace(0.01, 0.03, n_models)
    replicates = estimate + 0.001 + noise + random.normal(scale=0.02, size=(n_resamples, 1))
    estimate[-1], replicates[:, -1] = estimate[1], replicates[:, 1]
    return estimate, replicates


@pytest.fixture
def sample():
    return families.joint_replicates(*correlated_replicates())


def unit_values(seed=0, n_models=N_MODELS, n_units=9):
    return np.random.default_rng(seed).uniform(size=(n_models, n_units))


def sign_flipped(values, n_resamples=1000, seed=0, *, of_units=False):
    flips = Flips(values.shape[1], n_resamples, seed)
    known = {"flipped": values, "values": values} if of_units else {}
    means = flips.means(values).T
    return families.joint_replicates(values.mean(axis=1), means, null=True, complete=flips.complete, **known)


def over_units(values, n_resamples=199, seed=0, own_errors=True):
    """The bootstrap over units, whose replicates have errors of their own."""
    n_units = values.shape[1]
    redraws = Redraws(n_units, n_resamples, seed)
    units = families.ResampledUnits(values, redraws) if own_errors else None
    weights = np.concatenate([[np.bincount(one, minlength=n_units) for one in block] for _, block in redraws.blocks()])
    return families.joint_replicates(values.mean(axis=1), redraws.means(values).T, units=units), weights


def romano_wolf(sample, first, second):
    return families.romano_wolf(sample, first, second, families.pair_statistics(sample, first, second))


def absolute_statistics(estimate, replicates, first, second):
    """Observed and resampled |t| of one pair after another, by the definition."""
    for j, k in zip(first, second, strict=True):
        difference, replicate = estimate[j] - estimate[k], replicates[:, j] - replicates[:, k]
        error = np.std(replicate, ddof=1)
        if error == 0:
            yield 0.0, np.zeros(len(replicate))
        else:
            yield abs(difference) / error, np.abs(replicate - difference) / error


# --- one pass over the pairs ---------------------------------------------------------------------------------------


def test_all_pairs_and_baselines(sample):
    def listed(pairs):
        return list(zip(*pairs, strict=True))

    assert listed(all_pairs(4)) == list(itertools.combinations(range(4), 2))
    assert listed(against([2, 0], 4)) == [(0, 2), (1, 2), (3, 2), (1, 0), (3, 0)]
    nothing = against([], N_MODELS)
    assert listed(nothing) == []
    assert families.single_step(families.pair_statistics(sample, *nothing)).size == 0
    assert romano_wolf(sample, *nothing).size == 0


def test_statistics_by_the_definition(sample):
    estimate, replicates = correlated_replicates()
    statistics = families.pair_statistics(sample, *PAIRS)
    brute = list(absolute_statistics(estimate, replicates, *PAIRS))
    np.testing.assert_allclose(np.abs(statistics.statistic), [t for t, _ in brute], rtol=1e-10)
    np.testing.assert_allclose(statistics.difference, estimate[PAIRS[0]] - estimate[PAIRS[1]], rtol=1e-15)
    np.testing.assert_array_equal(statistics.p_value, [(1 + np.sum(drawn >= t)) / 200 for t, drawn in brute])
    np.testing.assert_allclose(statistics.maxima.max(axis=0), np.max([drawn for _, drawn in brute], axis=0), rtol=1e-10)


def own_statistics(difference, weights):
    """Student's statistic of every resample of the units, whose error is at least a fifth of the sample's."""
    n_units = difference.size
    drawn = np.repeat(np.tile(difference, len(weights)), weights.ravel()).reshape(-1, n_units)
    error = np.maximum(drawn.std(axis=1, ddof=1), difference.std(ddof=1) / 5) / np.sqrt(n_units)
    return (drawn.mean(axis=1) - difference.mean()) / error


@pytest.mark.parametrize("n_units", [3, 4, 9, 14])
def test_replicates_over_units_are_divided_by_their_own_errors(n_units):
    values = unit_values(n_units=n_units, seed=n_units)
    sample, weights = over_units(values, n_resamples=600)  # more than the kernel takes at a time
    statistics = families.pair_statistics(sample, *PAIRS)
    brute = [np.abs(own_statistics(values[j] - values[k], weights)) for j, k in zip(*PAIRS, strict=True)]
    observed = np.abs([stats.ttest_rel(values[j], values[k]).statistic for j, k in zip(*PAIRS, strict=True)])
    errors = [stats.sem(values[j] - values[k]) for j, k in zip(*PAIRS, strict=True)]
    np.testing.assert_allclose(np.abs(statistics.statistic), observed, rtol=1e-10)
    np.testing.assert_allclose(statistics.error, errors, rtol=1e-12)
    reached = [(1 + np.sum(sizes >= t)) / 601 for sizes, t in zip(brute, observed, strict=True)]
    np.testing.assert_allclose(statistics.p_value, reached, rtol=1e-12)
    np.testing.assert_allclose(statistics.maxima.max(axis=0), np.max(brute, axis=0), rtol=1e-6)
    quantile = families.pair_statistics(sample, *PAIRS, 0.9).quantile
    np.testing.assert_allclose(quantile, np.sort(brute, axis=1)[:, 541 - 1], rtol=1e-6)


def test_replicates_of_equal_units_are_finite():
    values = np.array([[0.0, 0.0, 0.3, 0.1], [0.0] * 4, [0.2] * 4])
    sample, weights = over_units(values, n_resamples=400)
    statistics = families.pair_statistics(sample, *all_pairs(3))
    assert np.isfinite(statistics.maxima.max(axis=0)).all()
    third = weights[:, 2] == 4  # resamples of 0.3 alone, which deviates by 0.2
    np.testing.assert_allclose(statistics.maxima.max(axis=0)[third], 5 * 0.2 / stats.sem(values[0]), rtol=1e-9)
    assert third.any()
    assert statistics.error[2] == 0
    assert statistics.p_value[2] == 1 / 401  # the same difference on all units
    copies = families.pair_statistics(over_units(np.tile(values[:1], (2, 1)))[0], *all_pairs(2))
    assert copies.p_value == 1
    assert copies.difference == copies.error == 0


def test_models_that_differ_on_few_units_do_not_decide_on_a_family():
    values = unit_values(seed=6, n_models=4, n_units=40)
    values[0] += 0.5
    values[3] = values[2]
    values[3, :3] += 0.1
    sample, _ = over_units(values, n_resamples=499)
    first, second = all_pairs(4)
    adjusted = romano_wolf(sample, first, second)
    assert (adjusted[first == 0] <= 0.05).all()
    assert (adjusted[first != 0] > 0.05).all()


def test_intervals_of_a_family_of_models_that_differ_on_few_units_are_not_empty():
    values = np.array([[0, 0, 0, 0, 0, 0], [0, -0.2, -0.3, 0.2, 0, 0.1], [0.1, 0, -0.1, -0.2, 0, 0]])
    frame = pd.DataFrame(values, index=list("abc"), columns=[f"t{i}" for i in range(6)]).rename_axis("model")
    found = ap.compare(ap.from_values(frame.reset_index(), measure="P@10"), baseline="a").sel(model=["b", "c"])
    width = [found[name].diff("ci_bound").values for name in ("interval", "simultaneous_interval")]
    assert (width[0] > 0).all()
    assert (width[0] < width[1]).all()


def test_equivalence_with_errors_of_replicates():
    values = unit_values(seed=4, n_models=2, n_units=12)
    sample, weights = over_units(values, n_resamples=499)
    difference = values[0] - values[1]
    t = own_statistics(difference, weights)
    error, margin = stats.sem(difference), 0.2
    tails = [
        (1 + np.sum(t >= (difference.mean() + margin) / error)) / 500,
        (1 + np.sum(t <= (difference.mean() - margin) / error)) / 500,
    ]
    found = families.equivalence(sample, *all_pairs(2), margin)
    np.testing.assert_allclose(found.p_value, max(tails), rtol=1e-12)
    inside = np.mean(np.abs(weights @ difference / 12) <= margin)
    np.testing.assert_allclose(found.share_inside, inside, rtol=1e-12)


def test_identical_models_do_not_differ(sample):
    pairs = np.array([1, 5]), np.array([5, 1])
    statistics = families.pair_statistics(sample, *pairs)
    for name in ("difference", "error", "statistic"):
        np.testing.assert_array_equal(getattr(statistics, name), 0)
    np.testing.assert_array_equal(statistics.maxima.max(axis=0), 0)
    for p_value in (statistics.p_value, families.single_step(statistics), romano_wolf(sample, *pairs)):
        np.testing.assert_array_equal(p_value, 1)
    assert (families.equivalence(sample, *pairs, 1e-6).decision == "equivalent").all()
    decisions = parametric_equivalence(np.array([0.0, 1.0]), np.zeros(2), 1e-6).decision
    assert decisions.tolist() == ["equivalent", "different"]
    values = unit_values()
    values[4] = values[2]
    pair = np.array([2]), np.array([4])
    assert errors_from_units(values, *pair) == 0


def test_identical_models_but_for_round_off_do_not_differ():
    estimate, replicates = correlated_replicates()
    estimate[5] += 2.0**-53
    replicates[:, 5] += np.random.default_rng(1).choice([-1, 0, 1], size=199) * 2.0**-53
    exact = families.joint_replicates(*correlated_replicates())
    rough = families.joint_replicates(estimate, replicates)
    statistics = families.pair_statistics(rough, *PAIRS)
    copies = (PAIRS[0] == 1) & (PAIRS[1] == 5)
    assert statistics.error[copies] == statistics.difference[copies] == statistics.statistic[copies] == 0
    assert statistics.p_value[copies] == 1
    np.testing.assert_array_equal(romano_wolf(rough, *PAIRS), romano_wolf(exact, *PAIRS))


def test_constant_difference_is_finite_and_certain():
    estimate, replicates = correlated_replicates()
    estimate[0], replicates[:, 0] = estimate[1] + 0.1, replicates[:, 1] + 0.1
    statistics = families.pair_statistics(families.joint_replicates(estimate, replicates), *PAIRS)
    assert statistics.error[0] == 0
    assert 1e6 < statistics.statistic[0] < np.inf
    assert statistics.p_value[0] == families.single_step(statistics)[0] == 1 / 200


# --- panels, order of models, order of pairs -----------------------------------------------------------------------


def every_answer(sample, first, second):
    statistics = families.pair_statistics(sample, first, second)
    verdict = families.equivalence(sample, first, second, 0.02)
    return {
        "difference": statistics.difference,
        "error": statistics.error,
        "statistic": statistics.statistic,
        "p_value": statistics.p_value,
        "single_step": families.single_step(statistics),
        "romano_wolf": families.romano_wolf(sample, first, second, statistics),
        "quantile": families.pair_statistics(sample, first, second, 0.9).quantile,
        "equivalence": verdict.p_value,
        "inside": verdict.share_inside,
        "decision": verdict.decision,
        "max_t": np.full(first.size, families.max_t_quantile(statistics.maxima.max(axis=0), 0.9, statistics.complete)),
    }


def many_models(n_models=40, n_resamples=333):
    return correlated_replicates(seed=3, n_models=n_models, n_resamples=n_resamples)


def many_models_over_units(models=slice(None)):
    return over_units(unit_values(seed=3, n_models=40)[models], n_resamples=333)[0]


def many_zeros_and_ones():
    values = np.random.default_rng(4).integers(0, 2, (40, 30)).astype(float)
    values[7] = values[9]
    return sign_flipped(values, n_resamples=1500, of_units=True)


@pytest.mark.parametrize(
    ("made", "panel_bytes"),
    [
        *itertools.product([lambda: families.joint_replicates(*many_models())], PANELS),
        *itertools.product([many_models_over_units], PANELS[::3]),
    ],
)
def test_panels_change_nothing(made, panel_bytes, monkeypatch):
    sample, pairs = made(), all_pairs(40)
    expected = every_answer(sample, *pairs)
    monkeypatch.setattr("aucpr_dask.inference.pairs.PANEL_BYTES", panel_bytes)
    monkeypatch.setattr("aucpr_dask.inference.units.PANEL", panel_bytes // 8 + 1)
    for name, values in every_answer(sample, *pairs).items():
        np.testing.assert_array_equal(values, expected[name], err_msg=name)


def many_unlike_replicates():
    """Of half of the pairs far from normal, so that the quantiles of others say nothing of theirs."""
    estimate, replicates = many_models()
    return families.joint_replicates(estimate, estimate + (replicates - estimate) ** np.where(np.arange(40) < 20, 5, 1))


@pytest.mark.parametrize("made", [many_unlike_replicates, many_models_over_units, many_zeros_and_ones])
def test_where_a_family_is_split_changes_nothing(made, monkeypatch):
    sample, pairs = made(), all_pairs(40)
    expected = every_answer(sample, *pairs)
    for split in (0.0, 0.5, 1.0, 9.0):
        monkeypatch.setattr("aucpr_dask.inference.units.SPLIT", split)
        for name, values in every_answer(sample, *pairs).items():
            np.testing.assert_array_equal(values, expected[name], err_msg=name)


@pytest.mark.parametrize(
    "made", [lambda: families.joint_replicates(*many_models()), many_unlike_replicates, many_zeros_and_ones]
)
@pytest.mark.parametrize("n_cores", [1, 3])
def test_compiled_loops_have_the_bits_of_numpy(made, n_cores, monkeypatch):
    sample, pairs = made(), all_pairs(40)
    expected, (errors, maxima) = every_answer(sample, *pairs), families.errors_and_maxima(sample)
    monkeypatch.setattr("aucpr_dask.inference.units.BY_NUMPY", 0)
    monkeypatch.setattr("aucpr_dask.inference.units.PAIRS", 100)
    monkeypatch.setattr("numba.config.NUMBA_NUM_THREADS", n_cores)
    for name, values in every_answer(sample, *pairs).items():
        np.testing.assert_array_equal(values, expected[name], err_msg=name)
    for values, one in zip(families.errors_and_maxima(sample), (errors, maxima), strict=True):
        np.testing.assert_array_equal(values, one)


def some_models(models=slice(None)):
    estimate, replicates = many_models()
    return families.joint_replicates(estimate[models], replicates[:, models])


@pytest.mark.parametrize("made", [some_models, many_models_over_units])
def test_permuting_models_and_pairs_permutes_the_answer(made):
    first, second = all_pairs(40)
    expected = every_answer(made(), first, second)
    random = np.random.default_rng(0)
    models, pairs = random.permutation(40), random.permutation(first.size)
    place = np.argsort(models)
    answer = every_answer(made(models), place[first[pairs]], place[second[pairs]])
    for name, values in answer.items():
        np.testing.assert_array_equal(values, expected[name][pairs], err_msg=name)


def test_a_pair_is_alone(sample):
    """Turned round it has the other sign; other models change nothing, and no adjustment is needed without any."""
    forth, back = families.pair_statistics(sample, *PAIRS), families.pair_statistics(sample, *PAIRS[::-1])
    np.testing.assert_array_equal(forth.difference, -back.difference)
    np.testing.assert_array_equal(forth.statistic, -back.statistic)
    np.testing.assert_array_equal(forth.p_value, back.p_value)
    fewer = families.joint_replicates(sample.estimate[:4], correlated_replicates()[1][:, :4])
    few, many = (families.pair_statistics(each, *all_pairs(4)) for each in (fewer, sample))
    np.testing.assert_array_equal(few.statistic, many.statistic)
    pair = np.array([0]), np.array([3])
    alone = families.pair_statistics(sample, *pair)
    assert alone.p_value == families.single_step(alone) == romano_wolf(sample, *pair)


# --- adjustments ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ours", "theirs"), [(holm, "holm"), (benjamini_hochberg, "fdr_bh")])
@pytest.mark.needs("statsmodels")
def test_adjustments_against_statsmodels(ours, theirs):
    from statsmodels.stats.multitest import multipletests

    random = np.random.default_rng(0)
    for size in (1, 2, 17, 1000):
        for p_value in (random.uniform(size=size) ** 3, random.integers(1, 8, size) / 8):
            np.testing.assert_allclose(ours(p_value), multipletests(p_value, method=theirs)[1], rtol=1e-12)


def stepping_down(observed, drawn):
    """Romano-Wolf by its definition: take the largest statistic out of the family, one after another."""
    adjusted, left, worst = np.empty(len(observed)), list(range(len(observed))), 0.0
    while left:
        largest = max(left, key=lambda pair: observed[pair])
        count = np.sum(np.max(drawn[left], axis=0) >= observed[largest])
        worst = adjusted[largest] = max(worst, (1 + count) / (1 + drawn.shape[1]))
        left.remove(largest)
    return adjusted


@pytest.mark.parametrize("seed", range(5))
def test_max_t_and_romano_wolf_against_brute_force(seed):
    estimate, replicates = correlated_replicates(seed)
    sample = families.joint_replicates(estimate, replicates)
    observed, drawn = map(np.array, zip(*absolute_statistics(estimate, replicates, *PAIRS), strict=True))
    maximum = drawn.max(axis=0)
    single = families.single_step(families.pair_statistics(sample, *PAIRS))
    np.testing.assert_array_equal(single, [(1 + np.sum(maximum >= t)) / 200 for t in observed])
    stepped = romano_wolf(sample, *PAIRS)
    np.testing.assert_array_equal(stepped, stepping_down(observed, drawn))
    assert np.all(stepped <= single)
    assert np.any(stepped < single)


def test_max_t_quantile_is_the_studentized_range():
    # all differences of independent means with one known variance: Tukey's range over sqrt(2)
    random = np.random.default_rng(0)
    sample = families.joint_replicates(np.zeros(5), random.normal(size=(40_000, 5)))
    statistics = families.pair_statistics(sample, *all_pairs(5))
    quantile = families.max_t_quantile(statistics.maxima.max(axis=0), 0.95, statistics.complete)
    assert quantile == pytest.approx(stats.studentized_range.ppf(0.95, 5, np.inf) / np.sqrt(2), rel=0.01)


# --- intervals -----------------------------------------------------------------------------------------------------


@pytest.mark.sparse
@pytest.mark.parametrize("n_resamples", [99, 199, 1000])
@pytest.mark.parametrize("level", [0.8, 0.9, 0.95])
def test_intervals_answer_to_p_values(n_resamples, level):
    sample = families.joint_replicates(*correlated_replicates(2, n_models=30, n_resamples=n_resamples))
    pairs = all_pairs(30)
    statistics = families.pair_statistics(sample, *pairs)
    ways = (
        (
            families.max_t_quantile(statistics.maxima.max(axis=0), level, statistics.complete),
            families.single_step(statistics),
        ),
        (families.pair_statistics(sample, *pairs, level).quantile, statistics.p_value),
    )
    for quantile, p_value in ways:
        lower, upper = intervals(statistics.difference, statistics.error, quantile).T
        excludes_0 = (lower > 0) | (upper < 0)
        assert excludes_0.any()
        assert not excludes_0.all()
        np.testing.assert_array_equal(excludes_0, p_value <= 1 - level + 1e-12)


def test_marginal_quantiles_of_normal_replicates():
    sample = families.joint_replicates(np.zeros(2), np.random.default_rng(0).normal(size=(40_000, 2)))
    quantile = families.pair_statistics(sample, np.array([0]), np.array([1]), 0.95).quantile
    assert quantile == pytest.approx(stats.norm.ppf(0.975), rel=0.01)


# --- sign flips ----------------------------------------------------------------------------------------------------


def test_exact_sign_flips_against_enumeration():
    values = unit_values()
    statistics = families.pair_statistics(sign_flipped(values), *PAIRS)
    assert statistics.complete
    squares = np.sum((values[PAIRS[0]] - values[PAIRS[1]]) ** 2, axis=1)
    np.testing.assert_allclose(statistics.error, np.sqrt(squares) / 9, rtol=1e-12)  # the same for all signs
    for p_value, j, k in zip(statistics.p_value, *PAIRS, strict=True):
        difference = values[j] - values[k]
        means = [abs(np.dot(signs, difference)) for signs in itertools.product((-1, 1), repeat=9)]
        assert p_value == np.mean(np.array(means) >= abs(difference.sum()) - 1e-12)
        reference = stats.permutation_test(
            (difference,), np.mean, permutation_type="samples", vectorized=True, n_resamples=np.inf
        )
        assert p_value == pytest.approx(reference.pvalue, rel=1e-12)


def test_exact_sign_flips_of_tied_sums():
    values = np.array([[0.3, 0.1, 0.1, 0.4], [0.2, 0.2, 0.2, 0.1]])  # differences 0.1, -0.1, -0.1, 0.3
    assert families.pair_statistics(sign_flipped(values), np.array([0]), np.array([1])).p_value == 14 / 16


def test_random_sign_flips_come_close_to_the_exact_ones():
    values = unit_values(n_units=12)
    exact, drawn = (families.pair_statistics(sign_flipped(values, n), *PAIRS).p_value for n in (4096, 4095))
    np.testing.assert_allclose(drawn, exact, atol=4 * 0.5 / np.sqrt(4095))
    assert np.any(drawn != exact)


def signs_of(flips):
    """The signs (R, Q) themselves: a unit's alone add up to them."""
    return flips.n_units * flips.means(np.eye(flips.n_units)).T


def test_sign_flips_depend_on_seed_and_key_alone():
    signs = signs_of(Flips(40, 1000, 5))
    assert not Flips(40, 1000, 5).complete
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert np.abs(signs.mean(axis=0)).max() < 5 / np.sqrt(1000)
    correlation = np.corrcoef(signs.T) - np.eye(40)
    assert np.abs(correlation).max() < 5 / np.sqrt(1000)
    more = signs_of(Flips(41, 3000, 5))
    np.testing.assert_array_equal(more[:1000, :40], signs)
    keyed = signs_of(Flips(12, 1000, 5, np.array([7, 2**63, 0, *range(100, 109)], np.uint64)))
    np.testing.assert_array_equal(keyed[:, [2, 0]], signs[:, [0, 7]])
    assert np.any(signs_of(Flips(40, 1000, 6)) != signs)
    whole = np.random.Philox(key=np.array([5, 0], np.uint64)).random_raw(16)  # of the unit of key 0
    np.testing.assert_array_equal(signs[:, 0], [1 - 2 * (int(whole[r // 64]) >> r % 64 & 1) for r in range(1000)])


def test_complete_flips_are_all_choices():
    assert {tuple(signs) for signs in signs_of(Flips(7, 128))} == set(itertools.product((-1.0, 1.0), repeat=7))
    assert Flips(7, 128).complete
    assert Flips(7, 127).n_replicates == 127


@pytest.mark.sparse
@pytest.mark.parametrize("block_bytes", [1, 5000, 2**25])
@pytest.mark.parametrize("by_numpy", [0, 2**24])
@pytest.mark.parametrize("n_resamples", [8, 130, 1000])
def test_redraws_are_the_same_in_any_blocks_and_compiled(block_bytes, by_numpy, n_resamples, monkeypatch):
    values = unit_values(n_models=5, n_units=37)
    redraws = [Flips(37, n_resamples, 3), Redraws(37, n_resamples, 3)]
    expected = [drawn.means(values) for drawn in redraws]
    monkeypatch.setattr("aucpr_dask.inference.units.BLOCK_BYTES", block_bytes)
    monkeypatch.setattr("aucpr_dask.inference.units.BY_NUMPY", by_numpy)
    for drawn, means in zip(redraws, expected, strict=True):
        np.testing.assert_array_equal(drawn.means(values), means)
        np.testing.assert_array_equal(drawn.means(values[[4, 1]]), means[[4, 1]])
    draws = np.random.Generator(np.random.Philox(np.random.SeedSequence([3, _stable_hash("units")])))
    weights = [np.bincount(one, minlength=37) for one in draws.integers(37, size=(n_resamples, 37))]
    np.testing.assert_allclose(expected[1], values @ np.transpose(weights) / 37, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("redraws", [Flips(30_000, 5000), Redraws(30_000, 2000, 0)])
def test_redraws_of_many_units_take_little_memory(redraws):
    values = unit_values(n_models=2, n_units=30_000)
    tracemalloc.start()
    redraws.means(values)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**28 - 1 < 8 * 30_000 * redraws.n_replicates


def mid_p_of_mcnemar(first, second):
    """The mid-p of the units that differ, in rational numbers."""
    differences = [Fraction(int(a)) - Fraction(int(b)) for a, b in zip(first, second, strict=True) if a != b]
    return mid_p_of_signs(differences) if differences else Fraction(1)


def sums_of_signs(differences):
    """The sizes of the sums of some differences with all signs, and of their own; exact, for a few binary places."""
    signs = np.array(list(itertools.product((-1, 1), repeat=len(differences))))
    return abs(signs @ np.array(differences, float)), float(abs(sum(differences)))


def mid_p_of_signs(differences):
    """P(T > t) + P(T = t) / 2 of all signs of some differences."""
    sums, observed = sums_of_signs(differences)
    return Fraction(2 * np.count_nonzero(sums > observed) + np.count_nonzero(sums == observed), 2 * len(sums))


@pytest.mark.parametrize("n_units", [4, 7, 11, 16])  # all signs, and random ones
@pytest.mark.parametrize("n_ones", [0.5, 0.9])
def test_units_that_are_0_or_1_have_the_mid_p_of_mcnemar(n_units, n_ones):
    values = (np.random.default_rng(n_units).uniform(size=(7, n_units)) < n_ones).astype(float)
    values[6] = values[0]
    method = SignFlips(0.3 * values, [f"q{i}" for i in range(n_units)], Goal(0.95, None), 4000, 0)
    found = method.pairs(*all_pairs(7))
    expected = [float(mid_p_of_mcnemar(values[j], values[k])) for j, k in zip(*all_pairs(7), strict=True)]
    np.testing.assert_allclose(found.p_value, expected, rtol=1e-12)
    excludes = (found.bounds[:, 0] > 0) | (found.bounds[:, 1] < 0)
    np.testing.assert_array_equal(excludes, np.array(expected) <= 0.05)


def p_of_signs(first, second):
    """The mid-p if other signs than the opposite ones tie, and the share of signs that are as large if none do."""
    differences = [Fraction(a) - Fraction(b) for a, b in zip(first, second, strict=True) if a != b]
    if not differences:
        return Fraction(1)
    sums, observed = sums_of_signs(differences)
    is_alone = np.count_nonzero(sums == observed) == 2
    return Fraction(np.count_nonzero(sums >= observed), len(sums)) if is_alone else mid_p_of_signs(differences)


@pytest.mark.parametrize("n_units", [6, 9, 12])
def test_signs_that_tie_with_others_have_a_mid_p(n_units):
    """Of means of four tasks; one pair differs on six units alone, one agrees on all, and one has no ties."""
    random = np.random.default_rng(n_units)
    values = random.integers(0, 5, (6, n_units)) / 4
    values[5] = values[0]
    values[4, :6], values[4, 6:] = np.maximum(values[0, :6] - 0.25 * random.integers(1, 9, 6), -4), values[0, 6:]
    values = np.vstack([values, random.integers(0, 2**20, n_units) / 2**20])
    method = SignFlips(values, [f"q{i}" for i in range(n_units)], Goal(0.95, None), 4096, 0)
    found = method.pairs(*all_pairs(7)).p_value
    pairs = list(zip(*all_pairs(7), strict=True))
    expected = [p_of_signs(values[j], values[k]) for j, k in pairs]
    n_apart = [np.count_nonzero(values[j] != values[k]) for j, k in pairs]
    known = np.array([n == 0 or n >= 6 for n in n_apart])
    np.testing.assert_allclose(found[known], np.array(expected, float)[known], rtol=1e-12)
    assert found[pairs.index((0, 4))] == 2 / 2**6
    drawn = SignFlips(values, [f"q{i}" for i in range(n_units)], Goal(0.95, None), 2**n_units - 1, 0)
    p_value = drawn.pairs(*all_pairs(7)).p_value
    np.testing.assert_allclose(p_value[known], found[known], atol=4 * 0.5 / np.sqrt(2**n_units))


def test_the_mid_p_errs_at_most_as_often_as_the_page_says():
    most = {0.2: 0.051, 0.1: 0.054, 0.0: 0.077}  # by the share of units that tie, at least
    levels = {share: [] for share in most}
    for n in (*range(5, 25), 50, 100):
        found = np.zeros(n + 1)
        for apart in range(1, n + 1):
            losses = np.arange(apart + 1)
            p_value = families.mid_p(np.full(apart + 1, apart), np.abs(apart - 2 * losses))
            if apart == n:
                p_value[[0, -1]] *= 2  # a constant difference: ties count whole
            found[apart] = stats.binom.pmf(losses, apart, 0.5)[p_value <= 0.05].sum()
        for share in most:
            differ = np.linspace(0.01, 1 - share, 100)[:, None]
            levels[share].append((stats.binom.pmf(np.arange(n + 1), n, differ) @ found).max())
    for share, level in most.items():
        assert level - 0.001 < max(levels[share]) < level


def test_families_of_units_that_are_0_or_1_count_ties_half():
    values = np.random.default_rng(2).integers(0, 2, (5, 9)).astype(float)
    sample, pairs = sign_flipped(values, of_units=True), all_pairs(5)
    statistics = families.pair_statistics(sample, *pairs)
    apart = (values[pairs[0]] - values[pairs[1]]).astype(int)
    signs = np.array(list(itertools.product((-1, 1), repeat=9)))
    sizes = np.abs(apart @ signs.T) / np.sqrt(np.abs(apart).sum(axis=1))[:, None]
    left_out = np.abs(apart).sum(axis=1) < 5
    assert left_out.any()
    maximum, own = np.max(sizes[~left_out], axis=0), np.abs(apart.sum(axis=1)) / np.sqrt(np.abs(apart).sum(axis=1))
    beyond, at_least = (np.mean(maximum >= own[:, None] + shift, axis=1) for shift in (1e-9, -1e-9))
    np.testing.assert_allclose(families.single_step(statistics)[~left_out], (beyond + at_least)[~left_out] / 2)


# --- joint draws ---------------------------------------------------------------------------------------------------


def variances_of(loads: np.ndarray) -> np.ndarray:
    """Return the variances of the differences of models whose deviations are these sums of unit normals."""
    return np.square(loads[:, None] - loads).sum(axis=2)


def loads_of(n_models: int, n_normals: int) -> np.ndarray:
    """Models of unequal spreads, of which the second and the last are twins."""
    random = np.random.default_rng(n_models)
    loads = random.normal(size=(n_models, n_normals)) * np.geomspace(1e-3, 1, n_models)[:, None]
    loads[-1] = loads[1]
    return loads


@pytest.mark.parametrize(("n_models", "n_normals"), [(3, 2), (5, 9), (70, 30), (200, 300)])
def test_a_factor_of_a_covariance_by_the_definition(n_models, n_normals):
    loads = loads_of(n_models, n_normals)
    covariance = dispatch.sums_of_products(loads, loads)
    order, factor = units.pivoted_factor(covariance)
    np.testing.assert_array_equal(np.sort(order), np.arange(n_models))
    np.testing.assert_allclose(factor @ factor.T, covariance[np.ix_(order, order)], atol=1e-12 * covariance.max())
    assert factor.shape[1] <= min(n_models - 1, n_normals)  # the twins count once
    assert (np.triu(factor, 1) == 0).all()
    twins = factor[np.isin(order, [1, n_models - 1])]
    np.testing.assert_array_equal(twins[0], twins[1])


def test_models_without_variance_have_no_factor():
    order, factor = units.pivoted_factor(np.zeros((3, 3)))
    assert (order.tolist(), factor.shape) == ([0, 1, 2], (3, 0))


def test_variances_that_no_distribution_has_are_not_exceeded():
    """A correlation of 2 leads to one of 1."""
    _, factor = units.pivoted_factor(np.array([[4.0, 4.0], [4.0, 1.0]]))
    np.testing.assert_array_equal(factor, [[2.0], [1.0]])


def test_draws_have_these_variances():
    variance, degrees = variances_of(loads_of(6, 4)), 30.0
    draws = units.student_draws(variance, degrees, list("abcdef"), 200_000, 0)
    found = np.square(draws[:, :, None] - draws[:, None]).mean(axis=0)
    np.testing.assert_allclose(found, variance * degrees / (degrees - 2), rtol=0.02)
    np.testing.assert_array_equal(draws[:, 1], draws[:, 5])


def test_draws_are_the_same_bits_in_any_order_on_any_cores_and_compiled(monkeypatch):
    variance, names = variances_of(loads_of(90, 60)), [f"model {i}" for i in range(90)]
    draws = units.student_draws(variance, 9.0, names, 500, 3)
    order = np.random.default_rng(0).permutation(90)
    again = units.student_draws(variance[np.ix_(order, order)], 9.0, [names[i] for i in order], 500, 3)
    np.testing.assert_array_equal(again, draws[:, order])
    monkeypatch.setattr(units, "ROWS", 7)
    np.testing.assert_array_equal(units.student_draws(variance, 9.0, names, 500, 3), draws)
    monkeypatch.setattr(dispatch, "is_for_numpy", lambda *work: True)
    np.testing.assert_array_equal(units.student_draws(variance, 9.0, names, 500, 3), draws)


def test_families_are_the_same_bits_for_any_threads_of_a_library():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    random = np.random.default_rng(0)
    label = np.repeat(np.array([0, 1], np.int8), [300, 100])
    scores = xr.Dataset(
        {"score": (("model", "item"), label + random.normal(size=(300, 400))), "label": ("item", label)}
    )
    found = []
    for n_threads in (1, 2):
        with threadpoolctl.threadpool_limits(n_threads):
            found.append(ap.rank(scores, n_resamples=200))
    xr.testing.assert_identical(*found)


# --- from errors and from values per unit --------------------------------------------------------------------------


def test_t_against_scipy():
    values = unit_values(n_units=20)
    first, second = PAIRS
    error = errors_from_units(values, first, second)
    difference = values[first].mean(axis=1) - values[second].mean(axis=1)
    reference = stats.ttest_rel(values[first], values[second], axis=1)
    np.testing.assert_allclose(parametric_p_values(difference, error, 19), reference.pvalue, rtol=1e-9)
    bounds = intervals(difference, error, parametric_quantile(0.9, 19))
    np.testing.assert_allclose(bounds.T, reference.confidence_interval(0.9), rtol=1e-9)


def test_normal_p_values():
    p_value = parametric_p_values(np.array([1.96, -1.96, 0.0, 0.0, 1.0]), np.array([1.0, 1.0, 1.0, 0.0, 0.0]))
    np.testing.assert_allclose(p_value, [0.0499957902964, 0.0499957902964, 1, 1, 0], rtol=1e-10)


def tied_values(n_units, seed=0):
    values = np.random.default_rng(seed).integers(0, 16, size=(4, n_units)) / 16  # exact differences: true ties
    values[3] = np.random.default_rng(seed).uniform(size=n_units)
    return values


@pytest.mark.parametrize("n_units", [3, 9, 14, 30, 50, 51, 80])
@pytest.mark.parametrize("panel_bytes", [1, PANEL_BYTES])
def test_wilcoxon_against_scipy(n_units, panel_bytes, monkeypatch):
    monkeypatch.setattr("aucpr_dask.inference.pairs.PANEL_BYTES", panel_bytes)
    values, pairs = tied_values(n_units), all_pairs(4)
    expected = [stats.wilcoxon(values[j] - values[k]).pvalue for j, k in zip(*pairs, strict=True)]
    ours = wilcoxon_p_values(values, *pairs)
    np.testing.assert_allclose(ours, expected, rtol=1e-12)


@pytest.mark.parametrize("n_units", [5, 30])
def test_wilcoxon_of_identical_models(n_units):
    values = np.repeat(unit_values(n_models=1, n_units=n_units), 2, axis=0)
    assert wilcoxon_p_values(values, np.array([0]), np.array([1])) == 1


# --- equivalence ---------------------------------------------------------------------------------------------------


def test_equivalence_by_the_definition():
    estimate, replicates = correlated_replicates()
    estimate[0], replicates[:, 0] = estimate[0] + 0.1, replicates[:, 0] + 0.1
    sample = families.joint_replicates(estimate, replicates)
    alpha, margin = 0.1, 0.04
    verdict = families.equivalence(sample, *PAIRS, margin, alpha=alpha)
    place = families.order_statistic(199, 1 - alpha)
    for pair, (j, k) in enumerate(zip(*PAIRS, strict=True)):
        difference = estimate[j] - estimate[k]
        deviation = np.sort(replicates[:, j] - replicates[:, k] - difference)
        tails = np.sum(deviation >= difference + margin), np.sum(deviation <= difference - margin)
        assert verdict.p_value[pair] == (1 + max(tails)) / 200
        assert verdict.share_inside[pair] == np.mean(np.abs(deviation + difference) <= margin)
        lower, upper = difference - deviation[place], difference - deviation[-1 - place]
        inside, outside = -margin < lower <= upper < margin, lower > margin or upper < -margin
        expected = "equivalent" if inside else "different" if outside else "undecided"
        assert verdict.decision[pair] == expected
    assert set(verdict.decision) == {"equivalent", "different", "undecided"}


@pytest.mark.needs("statsmodels")
def test_parametric_equivalence_against_statsmodels():
    from statsmodels.stats.weightstats import ttost_paired

    values = unit_values(n_units=25)
    first, second = PAIRS
    difference = values[first].mean(axis=1) - values[second].mean(axis=1)
    error = errors_from_units(values, first, second)
    verdict = parametric_equivalence(difference, error, 0.2, degrees=24)
    expected = [ttost_paired(values[j], values[k], -0.2, 0.2)[0] for j, k in zip(first, second, strict=True)]
    np.testing.assert_allclose(verdict.p_value, expected, rtol=1e-9)
    np.testing.assert_array_equal(verdict.decision == "equivalent", verdict.p_value <= 0.05)


def test_equivalence_of_normal_replicates():
    random = np.random.default_rng(0)
    estimate = np.array([0.5, 0.49])
    sample = families.joint_replicates(estimate, random.normal(estimate, 0.01, size=(40_000, 2)))
    drawn = families.equivalence(sample, np.array([0]), np.array([1]), 0.03)
    normal = parametric_equivalence(np.array([0.01]), np.array([0.01 * np.sqrt(2)]), 0.03)
    assert drawn.p_value == pytest.approx(normal.p_value, abs=0.005)
    assert drawn.share_inside == pytest.approx(normal.share_inside, abs=0.01)


# --- what is refused -----------------------------------------------------------------------------------------------


def test_as_few_replicates_as_the_message_says():
    with pytest.raises(InvalidInputError, match="at least 19 resamples"):
        families.order_statistic(18, 0.95)
    assert families.order_statistic(19, 0.95) == 18


# --- error rates under the null hypothesis -------------------------------------------------------------------------


def false_claims(procedure, true_shift, n_simulations, n_units=8, alpha=0.05):
    """Share of simulations in which two equally good models are claimed to differ, by exact sign flips."""
    random = np.random.default_rng(0)
    first, second = all_pairs(len(true_shift))
    equal = true_shift[first] == true_shift[second]
    claims = 0
    for _ in range(n_simulations):
        values = true_shift[:, np.newaxis] + random.normal(size=(len(true_shift), n_units))
        claims += np.any(procedure(sign_flipped(values), first, second)[equal] <= alpha)
    return claims / n_simulations


def single_step(sample, first, second):
    return families.single_step(families.pair_statistics(sample, first, second))


@pytest.mark.slow
@pytest.mark.parametrize("procedure", [single_step, romano_wolf])
def test_error_rate_of_all_true_hypotheses(procedure):
    # of the 256 maxima, which come in equal twos, at most 12 may be as large: exactly 12 in 256 under the null
    rate, n_simulations = 12 / 256, 1500
    claims = false_claims(procedure, np.zeros(4), n_simulations)
    assert claims == pytest.approx(rate, abs=4 * np.sqrt(rate * (1 - rate) / n_simulations))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_models", "n_simulations"), [(40, 100), pytest.param(150, 300, marks=(pytest.mark.slow, pytest.mark.nightly))]
)
def test_few_flips_keep_the_error_rate_of_many_models(n_models, n_simulations):
    # Were the spread of each pair estimated from the flips, a third of the large families would show a difference.
    random, names = np.random.default_rng(0), [f"q{unit}" for unit in range(20)]
    pairs, claims = all_pairs(n_models), 0
    for seed in range(n_simulations):
        method = SignFlips(random.normal(size=(n_models, 20)), names, Goal(0.95, None), 59, seed)
        claims += single_step(method.sample, *pairs).min() <= 0.05
    assert claims / n_simulations == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / n_simulations))


@pytest.mark.slow
def test_error_rate_of_skewed_differences():
    random = np.random.default_rng(2)
    pairs, claims, n_simulations = all_pairs(6), np.zeros(2), 150
    for seed in range(n_simulations):
        values = random.lognormal(size=(6, 20)) - np.exp(0.5)
        values[1::2] *= -1
        claims[0] += np.any(single_step(over_units(values, seed=seed)[0], *pairs) <= 0.05)
        claims[1] += np.any(single_step(sign_flipped(values, n_resamples=199, seed=seed), *pairs) <= 0.05)
    assert claims[0] / n_simulations < 0.1 < 0.2 < claims[1] / n_simulations


@pytest.mark.slow
@pytest.mark.parametrize("n_simulations", [1000, pytest.param(6000, marks=pytest.mark.nightly)])
def test_error_rate_and_power_with_false_hypotheses(n_simulations):
    shift = np.array([0.0, 0.0, 0.0, 4.0, 8.0])
    stepped = false_claims(romano_wolf, shift, n_simulations, n_units=10)
    single = false_claims(single_step, shift, n_simulations, n_units=10)
    assert single < stepped <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / n_simulations)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("procedure", "n_simulations"),
    [
        pytest.param(single_step, 2000, marks=pytest.mark.nightly),
        pytest.param(romano_wolf, 2000, marks=pytest.mark.nightly),
        (romano_wolf, 700),
    ],
)
def test_error_rate_of_the_bootstrap_over_units(procedure, n_simulations):
    random = np.random.default_rng(1)
    n_units, n_models = 150, 5
    pairs = all_pairs(n_models)
    claims = 0
    for _ in range(n_simulations):
        values = random.beta(2, 5, size=(n_models, n_units)) + random.normal(size=n_units)
        weights = random.multinomial(n_units, np.full(n_units, 1 / n_units), size=499) / n_units
        sample = families.joint_replicates(values.mean(axis=1), weights @ values.T)
        claims += np.any(procedure(sample, *pairs) <= 0.05)
    assert 0.035 < claims / n_simulations < 0.075


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sign_flip", "bootstrap_t"])
def test_near_twins_cannot_be_told_apart_and_widen_nobody_elses_sets(method: str) -> None:
    random = np.random.default_rng(0)
    values = (
        random.beta(2, 3, size=54) + random.normal(scale=0.08, size=(20, 54)) + random.normal(scale=0.03, size=(20, 1))
    )
    twin = values[0].copy()
    twin[[3, 7, 11]] += 0.01
    names = {"query": [f"q{i}" for i in range(54)]}
    alone, joined = (
        xr.Dataset({"estimate": (("model", "query"), v)}, {"model": [f"m{i}" for i in range(len(v))]} | names)
        for v in (values, np.vstack([values, twin]))
    )
    before, after = ap.compare(alone, method=method), ap.compare(joined, method=method)
    same = after.sel(model=before["model"], other_model=before["other_model"])
    for name in ("p_value", "interval", "standard_error"):
        xr.testing.assert_equal(same[name], before[name])
    width = float(before["simultaneous_interval"].diff("ci_bound").mean())
    assert 1 <= float(same["simultaneous_interval"].diff("ci_bound").mean()) / width < 1.02
    pair = after.sel(model="m20", other_model="m0")
    assert pair["p_value"] == (1 if method == "sign_flip" else 2) / 2**3  # ties of equal sizes count half
    lower, upper = pair["interval"].values
    assert -0.01 < lower < 0 < upper < 0.01
    assert pair["standard_error"] >= abs(pair["difference"])
    assert ap.gate(joined, "m20", "m0", method=method).verdict == "cannot tell"
    ranks = ap.rank(joined, method=method)["simultaneous_rank_interval"].sel(model=before["model"])
    wider = (ranks - ap.rank(alone, method=method)["simultaneous_rank_interval"]).values
    assert (wider[:, 0] <= 1).all()
    assert (wider[:, 1] <= 1).all()
