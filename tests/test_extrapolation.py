"""Another prevalence, and subsampled negatives: rates that the negatives of a sample do not show."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import xarray as xr

import aucpr_dask as ap
from aucpr_dask.evaluation.block_results import half_seen, tail_draws
from aucpr_dask.evaluation.rankings import items_of
from aucpr_dask.schema.options import EvaluationOptions

SCORE = np.array([9.0, 8, 7, 7, 6, 5, 5, 4, 3, 2, 1, 1, 0, 0])
LABEL = np.array([1, 1, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0], dtype=np.int8)
SHARE = Fraction(1, 100)


def options_of(prevalence: float | None = float(SHARE), n_resamples: int = 20_000) -> EvaluationOptions:
    return EvaluationOptions.of(prevalence=prevalence, interval="extrapolated", n_resamples=n_resamples)


def unfolded(named: dict[str, np.ndarray], options: EvaluationOptions) -> tuple:
    return *items_of(named, options), options


def draws_of(named: dict[str, np.ndarray], options: EvaluationOptions) -> np.ndarray:
    rankings = unfolded(named, options)
    return tail_draws(*rankings, ~np.isnan(half_seen(*rankings)))


def normal(n: int, mean: float = 1.5, seed: int = 0, n_models: int = 3) -> xr.Dataset:
    rng = np.random.default_rng(seed)
    label = (np.arange(10 * n) < n).astype(np.int8)
    score = rng.normal(size=(n_models, label.size)) + mean * label
    return xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)})


def test_half_a_negative_more_and_half_of_each_positive() -> None:
    n, m, odds, half = int(LABEL.sum()), int((LABEL == 0).sum()), (1 - SHARE) / SHARE, Fraction(1, 2)
    expected = Fraction(0)
    for score in SCORE[LABEL == 1]:
        true = (int(((score <= SCORE) & (LABEL == 1)).sum()) - half) / n
        false = odds * (int(((score <= SCORE) & (LABEL == 0)).sum()) + half) / (m + half)
        expected += true / (true + false) / n
    found = half_seen(*unfolded({"score": SCORE[None], "label": LABEL}, options_of()))
    np.testing.assert_allclose(found, float(expected), rtol=1e-14)
    known = unfolded({"score": SCORE[None], "label": LABEL}, options_of(0.9))
    assert np.isnan(half_seen(*known))  # nothing is extrapolated


@pytest.mark.parametrize("missing", ["drop", "last", "unretrieved"])
def test_items_without_a_score(missing: str) -> None:
    score, options = SCORE.copy(), options_of(n_resamples=50)
    score[[5, 12, 13]] = np.nan
    options = replace(options, missing=missing)
    found = draws_of({"score": score[None], "label": LABEL}, options)
    if missing == "drop":
        kept = ~np.isnan(score)
        same = {"score": score[None, kept], "label": LABEL[kept]}, options
    elif missing == "last":
        same = {"score": np.where(np.isnan(score), -9, score)[None], "label": LABEL}, options
    else:
        kept = np.arange(14) != 5  # a positive that is no item, and negatives below all positives
        label, score = LABEL[kept], np.where(np.isnan(score), -9, score)[kept]
        same = {"score": score[None], "label": label, "n_positive": np.array(5)}, options
    np.testing.assert_array_equal(found, draws_of(*same))


def test_draws_have_the_distribution_of_weights_of_single_items() -> None:
    rng, draws = np.random.default_rng(1), np.empty(20_000)
    odds, is_positive = float((1 - SHARE) / SHARE), LABEL == 1
    for place in range(draws.size):
        weight, unseen = rng.exponential(size=LABEL.size), rng.gamma(0.5)
        n, m = weight[is_positive].sum(), weight[~is_positive].sum() + unseen
        above = SCORE[:, None] <= SCORE
        true = ((above & is_positive) @ weight - weight / 2) / n
        false = odds * ((above & ~is_positive) @ weight + unseen) / m
        draws[place] = (weight / n * true / (true + false))[is_positive].sum()
    found = draws_of({"score": SCORE[None], "label": LABEL}, options_of())[0]
    for share in (0.025, 0.25, 0.5, 0.75, 0.975):
        assert np.quantile(found, share) == pytest.approx(np.quantile(draws, share), rel=0.08)


def test_weights_of_negatives_are_another_prevalence() -> None:
    scores = normal(30, mean=2.5)
    weighted = scores.assign(weight=xr.where(scores["label"] == 1, 1.0, float(999 / 9)))
    by_weights = ap.evaluate(weighted, interval="extrapolated", prevalence_design="fixed")
    at = ap.evaluate(scores, prevalence=0.001, prevalence_design="fixed")
    for name in ("estimate", "interval", "extrapolated"):
        np.testing.assert_allclose(by_weights[name], at[name], rtol=1e-9)
    assert at["interval_method"].item() == "extrapolated"
    for result in (by_weights, at, ap.evaluate(weighted)):
        assert result.aucpr.flagged("unseen_rates")["unseen_rates"].all()
    by_default = ap.evaluate(weighted, prevalence_design="fixed")
    xr.testing.assert_identical(by_default, by_weights)
    assert ap.evaluate(weighted, interval="influence_beta")["interval"].isnull().all()
    assert ap.evaluate(weighted, interval="logit")["interval"].notnull().all()  # as it was asked for


def test_with_enough_negatives_it_is_the_plain_interval() -> None:
    scores = normal(300, mean=2.0)
    at = ap.evaluate(scores, interval=["extrapolated", "influence_beta"], prevalence=0.05)
    assert not at.aucpr.flagged("unseen_rates")["unseen_rates"].any()
    np.testing.assert_array_equal(at["interval"].isel(interval_method=0), at["interval"].isel(interval_method=1))
    equal = ap.evaluate(scores.assign(weight=("item", np.full(3000, 7.0))))
    assert not equal["flags"].any()
    assert equal["extrapolated"].isnull().all()  # nothing is
    plain = ap.evaluate(scores)
    np.testing.assert_allclose(equal["interval"], plain["interval"], rtol=1e-12)


def test_clusters_have_none_where_it_is_needed_and_chunks_change_nothing() -> None:
    scores = normal(30, mean=2.5)
    clustered = scores.assign(cluster=("item", np.arange(300) // 3))
    result = ap.evaluate(clustered, prevalence=0.001, over="clusters")
    assert result["interval"].isnull().all()
    assert result["extrapolated"].isnull().all()
    for flag in ("no_interval", "unseen_rates"):
        assert result.aucpr.flagged(flag)[flag].all()
    assert ap.evaluate(clustered, prevalence=0.3, over="clusters")["interval"].notnull().all()
    in_chunks = ap.evaluate(scores.chunk({"item": 100}), prevalence=0.001).compute()
    xr.testing.assert_identical(in_chunks, ap.evaluate(scores, prevalence=0.001))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mean", "prevalence"),
    [(1.5, 0.001), *(pytest.param(*one, marks=pytest.mark.nightly) for one in [(2.0, 0.01), (1.0, 0.0001)])],
)
def test_coverage_at_another_prevalence(mean: float, prevalence: float) -> None:
    from scipy.stats import norm

    z = np.linspace(-12, 12, 200_001)
    recall, fallout = norm.sf(z - mean), norm.sf(z)
    with np.errstate(invalid="ignore"):
        precision = np.nan_to_num(prevalence * recall / (prevalence * recall + (1 - prevalence) * fallout))
    truth = -np.trapezoid(precision, recall)
    for n in (10, 100):
        lower, upper = ap.evaluate(normal(n, mean, n, 300), prevalence=prevalence)["interval"].values.T
        assert np.mean((lower <= truth) & (truth <= upper)) >= 0.93


@pytest.mark.parametrize(("weight", "is_extrapolated"), [(1.5, False), (1.9, False), (111.0, True)])
def test_negatives_may_be_a_little_heavier_by_chance(weight: float, is_extrapolated: bool) -> None:
    """Weights of a survey give either class the larger ones: where that is all, the plain interval is due."""
    scores = normal(10, n_models=40)
    scores = scores.assign(weight=xr.where(scores["label"] == 1, 1.0, weight))
    found, plain = ap.evaluate(scores), ap.evaluate(scores, interval="influence_beta")
    assert found["interval"].notnull().all()
    assert bool(found.aucpr.flagged("unseen_rates")["unseen_rates"].any()) == is_extrapolated
    is_same = (found["interval"] == plain["interval"]).all("ci_bound")  # NaN where it is known to be wrong
    assert bool(is_same.all()) != is_extrapolated


def test_few_weights_that_carry_an_area_are_flagged() -> None:
    scores = normal(100, n_models=20)
    even = scores.assign(weight=("item", np.random.default_rng(0).uniform(1, 2, 1000)))
    heavy = scores.assign(weight=("item", np.random.default_rng(0).lognormal(sigma=2, size=1000)))
    shares = [float(ap.evaluate(one).aucpr.flagged("few_weights")["few_weights"].mean()) for one in (even, heavy)]
    assert shares[0] == 0
    assert shares[1] > 0.4
    clustered = heavy.assign(cluster=("item", np.arange(1000) // 2))
    assert ap.evaluate(clustered).aucpr.flagged("few_weights")["few_weights"].any()


def test_few_large_clusters_that_carry_an_area_are_flagged() -> None:
    scores = normal(100, n_models=20)
    equal, unequal = np.arange(1000) // 10, np.repeat(np.arange(60), [300, 300, 200, 100, 45, *[1] * 55])
    spread = np.repeat(np.arange(120), np.round(30 ** ((np.arange(120) + 0.5) / 120)).astype(int))[:1000]
    shares = [
        ap.evaluate(scores.assign(cluster=("item", cluster))).aucpr.flagged("few_weights")["few_weights"].mean().item()
        for cluster in (equal, unequal, spread)
    ]
    assert shares == [0, 1, 0]


def test_clusters_are_flagged_by_their_sizes_alone() -> None:
    """Influences of the largest ones vary: where they happen to be small, intervals are narrow, and miss the most."""
    rng, sizes = np.random.default_rng(0), np.round(500 ** ((np.arange(120) + 0.5) / 120)).astype(int)
    cluster = np.repeat(np.arange(120), sizes)
    shared = rng.normal(size=(40, 120))[:, cluster]
    label = rng.random(cluster.size) < 0.2
    score = np.sqrt(0.5) * (shared + rng.normal(size=shared.shape)) + 1.2 * label
    scores = xr.Dataset({"score": (("model", "item"), score), "label": ("item", label.astype(np.int8))})
    found = ap.evaluate(scores.assign(cluster=("item", cluster)))
    assert found.aucpr.flagged("few_weights")["few_weights"].all()
