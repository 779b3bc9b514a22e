"""Simulated scores against their distributions, and true curves and areas against independent evaluations."""

import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import xarray as xr
from conftest import raise_if_dask_computes
from hypothesis import given
from hypothesis import strategies as st
from reference_cases import oracle
from strategies import chunkings

import aucpr_dask as ap
from aucpr_dask.errors import ChunkError, InvalidInputError
from aucpr_dask.scores.validate import validate_scores
from aucpr_dask.simulate.scenarios import Scenario, bibeta, binormal, offset_uniform

SCENARIOS = [binormal(), bibeta(), offset_uniform()]
ODD = [binormal(0.3, 2.5), bibeta(0.7, 1.2, 0.4, 1.2), offset_uniform(-0.25)]


def frozen(scenario: Scenario) -> tuple[Any, Any]:
    """Return the distributions of positives and negatives as SciPy knows them."""
    match scenario:
        case binormal(mu, sigma):
            return scipy.stats.norm(mu, sigma), scipy.stats.norm()
        case bibeta(a, b, c, d):
            return scipy.stats.beta(a, b), scipy.stats.beta(c, d)
        case offset_uniform(gamma):
            return scipy.stats.uniform(gamma, 1), scipy.stats.uniform()
    raise AssertionError


by_repr = pytest.mark.parametrize("scenario", SCENARIOS + ODD, ids=repr)


# True curves and areas


def test_areas_at_the_papers_parameters() -> None:
    table = {
        0.01: (0.0422075155, 0.4906356424, 0.5278448466),
        0.1: (0.2928356435, 0.8095867743, 0.6579052873),
        0.5: (0.7529959969, 0.9608932896, 0.8873265361),
    }
    for prevalence, areas in table.items():
        for scenario, area in zip(SCENARIOS, areas, strict=True):
            assert scenario.area(prevalence) == pytest.approx(area, rel=0, abs=5.1e-11)


@pytest.mark.smoke
def test_reference_areas_and_precisions() -> None:
    names = {
        "binormal": (binormal, ("pos_mean", "pos_sd")),
        "bibeta": (bibeta, ("pos_a", "pos_b", "neg_a", "neg_b")),
        "offsetuniform": (offset_uniform, ("a",)),
    }
    cases = oracle("true_areas")
    assert len(cases) == 95
    for case in cases:
        given, (name, quantity) = case["parameters"], case["kind"].split(".", 1)
        kind, parameters = names[name]
        scenario = kind(*(given[parameter] for parameter in parameters))
        assert given.get("b", 1.0) == 1.0 or name != "offsetuniform"
        if quantity == "area":
            ours, precise = scenario.area(given["pi"]), case["mpmath"]
        else:
            ours, precise = scenario.curve(given["recall"], given["pi"]), case["scipy"]
        assert ours == pytest.approx(precise, rel=0, abs=1e-13), case["id"]
        assert ours == pytest.approx(case["raucpr"], rel=0, abs=2e-6), case["id"]


@pytest.mark.parametrize("prevalence", [1e-8, 1e-4, 0.3, 1 - 1e-6])
@pytest.mark.parametrize("gamma", [1e-9, 1e-3, 0.5, 0.999, 1.0, 1.5])
def test_offset_uniform_has_a_closed_form(gamma: float, prevalence: float) -> None:
    p, g = prevalence, min(gamma, 1.0)
    closed = g + p * (1 - g) + p * (1 - p) * g * math.log((1 - (1 - p) * g) / (p * g))
    assert offset_uniform(gamma).area(p) == pytest.approx(closed, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("prevalence", [1e-4, 0.1, 0.9])
def test_the_ends_of_the_scale(prevalence: float) -> None:
    lowest = 1 + (1 - prevalence) * math.log1p(-prevalence) / prevalence
    # A random ranking has precision p everywhere, a perfect one 1, and the worst the least area there is.
    for scenario in (binormal(0, 1), bibeta(2, 3, 2, 3), bibeta(0.1, 0.1, 0.1, 0.1), offset_uniform(0)):
        assert scenario.area(prevalence) == pytest.approx(prevalence, rel=1e-9)
        np.testing.assert_allclose(scenario.curve([0, 1e-20, 0.2, 1], prevalence), prevalence, rtol=1e-9)
    for scenario in (binormal(50, 1), bibeta(5000, 1, 1, 5000), offset_uniform(2)):
        assert scenario.area(prevalence) == pytest.approx(1, abs=1e-12)
    for scenario in (binormal(-50, 1), bibeta(1, 5000, 5000, 1), offset_uniform(-2)):
        assert scenario.area(prevalence) == pytest.approx(lowest, rel=1e-7, abs=1e-11)


NORMALS = [(binormal(), 0.01), (binormal(), 1e-4), (binormal(2.5, 0.2), 0.01), (binormal(-0.5, 3.0), 1e-4)]
BETAS = [(bibeta(), 1e-4), (bibeta(0.3, 0.4, 0.2, 0.9), 0.05), (bibeta(0.1, 2.0, 0.15, 1.5), 0.2)]
UNIFORMS = [(offset_uniform(-0.4), 1e-4), (offset_uniform(0.7), 1e-3)]


@pytest.mark.parametrize(
    ("scenario", "prevalence"),
    [*NORMALS, BETAS[0], *UNIFORMS, *(pytest.param(*one, marks=pytest.mark.slow) for one in BETAS[1:])],
    ids=repr,
)
def test_areas_against_30_digits(scenario: Scenario, prevalence: float) -> None:
    """Integrate over the threshold, where the package integrates over recall."""
    from mpmath import mp

    with mp.workdps(30):
        p = mp.mpf(prevalence)

        def beta_above(u: Any, a: float, b: float) -> Any:
            if u < 0:  # here the distance from 1 is the one that rounds
                return 1 - mp.betainc(a, b, 0, 1 / (1 + mp.exp(-u)), regularized=True)
            return mp.betainc(b, a, 0, 1 / (1 + mp.exp(u)), regularized=True)

        def integrate(density: Any, above: Any, negatives_above: Any, edges: list[Any]) -> Any:
            def integrand(s: Any) -> Any:
                true = p * above(s)
                return density(s) * true / (true + (1 - p) * negatives_above(s))

            return mp.quad(integrand, edges)

        match scenario:
            case binormal(mu, sigma):
                area = integrate(
                    lambda s: mp.npdf(s, mu, sigma),
                    lambda s: mp.erfc((s - mu) / (sigma * mp.sqrt(2))) / 2,
                    lambda s: mp.erfc(s / mp.sqrt(2)) / 2,
                    [mu + sigma * z for z in (-14, -4, -2, 0, 2, 4, 14)],
                )
            case bibeta(a, b, c, d):
                # Over the log odds of the score: poles of the density become slow exponential tails.
                area = integrate(
                    lambda u: (1 + mp.exp(-u)) ** -a * (1 + mp.exp(u)) ** -b / mp.beta(mp.mpf(a), mp.mpf(b)),
                    lambda u: beta_above(u, a, b),
                    lambda u: beta_above(u, c, d),
                    sorted([-40 / a, -16 / a, -6 / a, -4, 0, 4, 6 / b, 16 / b, 40 / b]),
                )
            case offset_uniform(gamma):
                area = integrate(
                    lambda s: 1,
                    lambda s: 1 + gamma - s,
                    lambda s: min(max(1 - s, 0), 1),
                    sorted([mp.mpf(gamma), mp.mpf(1) + gamma, mp.mpf(0 if gamma < 0 else 1)]),
                )
    assert scenario.area(prevalence) == pytest.approx(float(area), rel=1e-9, abs=1e-13)


parameters = st.floats(0.05, 50)


@given(
    st.one_of(
        st.builds(binormal, st.floats(-4, 4), parameters),
        st.builds(bibeta, parameters, parameters, parameters, parameters),
        st.builds(offset_uniform, st.floats(-1.2, 1.2)),
    ),
    st.floats(1e-9, 1 - 1e-9),
)
def test_every_area_is_attainable_and_every_quadrature_converges(scenario: Scenario, prevalence: float) -> None:
    area = scenario.area(prevalence)  # a quadrature that fails warns, and warnings are errors
    p = prevalence
    lowest = 1 + (1 - p) * math.log1p(-p) / p if p > 1e-4 else p / 2
    assert lowest - 1e-11 <= area <= 1


@by_repr
def test_curve_and_roc_against_scipy(scenario: Scenario) -> None:
    positive, negative = frozen(scenario)
    share = np.linspace(0.001, 0.999, 41)
    false = negative.sf(positive.isf(share))
    expected = 0.2 * share / (0.2 * share + 0.8 * false)
    np.testing.assert_allclose(scenario.curve(share, 0.2), expected, rtol=1e-11)
    np.testing.assert_allclose(scenario.roc(share), positive.sf(negative.isf(share)), rtol=1e-11)


@by_repr
def test_recall_0_is_the_limit(scenario: Scenario) -> None:
    limit = scenario.curve(0.0, 0.3)
    nearer = np.abs(scenario.curve([1e-2, 1e-6, 1e-30, 1e-250], 0.3) - limit)
    assert np.all(np.diff(nearer) <= 1e-12)
    assert nearer[-1] < 1e-2


def test_limits_at_recall_0() -> None:
    expected = {
        binormal(1, 1): 1,
        binormal(-1, 1): 0,
        binormal(-1, 2): 1,
        binormal(1, 0.5): 0,
        bibeta(1, 1, 1, 2): 1,
        bibeta(1, 2, 1, 1): 0,
        bibeta(2, 1, 1, 1): 0.2 / (0.2 + 0.8 / 2),  # at 1 the densities are 2 and 1
        offset_uniform(1e-3): 1,
        offset_uniform(-1e-3): 0,
    }
    for scenario, precision in expected.items():
        assert scenario.curve(0, 0.2) == pytest.approx(precision, abs=1e-15), scenario


@by_repr
def test_both_ends_of_the_curves(scenario: Scenario) -> None:
    assert scenario.roc(1.0) == 1
    ends_at = 1 / 1.5 if scenario == offset_uniform() else 0.5  # there half the negatives lie below every positive
    assert scenario.curve(1.0, 0.5) == pytest.approx(ends_at, abs=1e-15)
    assert scenario.roc(0.0) == (0.5 if scenario == offset_uniform() else 0.0)


def test_curves_of_arrays_and_labelled_arrays() -> None:
    recall = xr.DataArray(np.linspace(0, 1, 5), dims="recall", coords={"recall": np.linspace(0, 1, 5)}, name="recall")
    prevalence = xr.DataArray([0.1, 0.5], dims="prevalence", coords={"prevalence": [0.1, 0.5]})
    precision = binormal().curve(recall, prevalence)
    assert precision.dims == ("recall", "prevalence")
    assert precision.name is None
    np.testing.assert_array_equal(precision, binormal().curve(recall.values[:, None], prevalence.values), strict=False)
    lazy = binormal().curve(recall.chunk({"recall": 2}), prevalence)
    assert lazy.chunks is not None
    xr.testing.assert_identical(lazy.compute(scheduler="sync"), precision)
    assert isinstance(binormal().curve(0.5, 0.1), float)
    assert isinstance(binormal().roc(0.5), float)
    assert np.isnan(binormal().curve([np.nan, 0.5], 0.1)).tolist() == [True, False]
    assert np.isnan(bibeta().roc(np.nan))


# Samples


def test_a_sample_is_a_score_data_set(tmp_path: Path) -> None:
    for label_design, dims in (("exact", ("item",)), ("binomial", ("model", "item"))):
        scores = bibeta().sample(200, 0.1, n_simulations=5, label_design=label_design, seed=3, chunks=2, name="try")
        validate_scores(scores)
        assert scores["score"].dims == ("model", "item")
        assert scores["score"].shape == (5, 200)
        assert scores["score"].chunks == ((2, 2, 1), (200,))
        assert scores["label"].dims == dims
        assert scores["label"].dtype == np.int8
        assert scores["model"].values.tolist() == [f"try-{i:06d}" for i in range(5)]
        assert scores.attrs == {
            "simulation": "bibeta(positive_a=5.0, positive_b=2.0, negative_a=2.0, negative_b=5.0)",
            "prevalence": 0.1,
            "n_positive": label_design,
            "seed": 3,
        }
        expected = ap.evaluate(scores.compute(scheduler="sync"))
        place = tmp_path / label_design
        ap.save_scores(scores, place)
        stored = ap.open_scores(place)
        for name in ("score", "label"):
            np.testing.assert_array_equal(stored[name].values, scores[name].values)
        np.testing.assert_array_equal(ap.evaluate(stored)["estimate"].values, expected["estimate"].values)
        np.testing.assert_array_equal(ap.evaluate(scores)["estimate"].values, expected["estimate"].values)


def scores_of(scenario: Scenario, **options: Any) -> xr.Dataset:
    return scenario.sample(40, 0.3, **options).compute(scheduler="sync")


@given(st.data(), st.sampled_from(SCENARIOS), st.sampled_from(["exact", "binomial"]), st.integers(1, 12))
def test_every_chunking_is_bit_identical(data: Any, scenario: Scenario, label_design: str, n_models: int) -> None:
    options = {"n_simulations": n_models, "label_design": label_design, "seed": data.draw(st.integers(0, 2**70))}
    whole = scores_of(scenario, chunks=-1, **options)
    for chunks in (data.draw(chunkings(n_models)), "auto"):
        xr.testing.assert_identical(scores_of(scenario, chunks=chunks, **options), whole)
    more = scores_of(scenario, chunks=1, **options | {"n_simulations": n_models + 3})
    xr.testing.assert_identical(more.isel(model=slice(n_models)), whole)


@pytest.mark.parametrize("label_design", ["exact", "binomial"])
def test_simulations_and_seeds_differ(label_design: str) -> None:
    first, second = (scores_of(binormal(), n_simulations=6, label_design=label_design, seed=seed) for seed in (0, 1))
    both = np.concatenate([first["score"].values, second["score"].values])
    assert np.unique(both).size == both.size
    assert (first["label"].values != second["label"].values).any()
    if label_design == "binomial":
        assert np.unique(first["label"].values, axis=0).shape[0] == 6


def test_known_bits() -> None:
    """Streams must not change from version to version."""
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence(5, spawn_key=(2, 0))))
    scores = binormal(0, 1).sample(10, 0.5, n_simulations=3, seed=5).compute(scheduler="sync")
    np.testing.assert_array_equal(scores["score"][2], random.standard_normal(10))


@pytest.mark.sparse
@by_repr
@pytest.mark.parametrize("label_design", ["exact", "binomial"])
def test_marginals(scenario: Scenario, label_design: str) -> None:
    scores = scenario.sample(1000, 0.3, n_simulations=40, label_design=label_design, seed=11).compute(scheduler="sync")
    label = np.broadcast_to(scores["label"], scores["score"].shape)
    for value, distribution in zip((1, 0), frozen(scenario), strict=True):
        assert scipy.stats.kstest(scores["score"].values[label == value], distribution.cdf).pvalue > 1e-3
        other = frozen(scenario)[value].cdf
        assert scipy.stats.kstest(scores["score"].values[label == value], other).pvalue < 1e-9


def test_float32_scores_are_rounded() -> None:
    double, single = (scores_of(binormal(), seed=4, dtype=kind)["score"] for kind in ("float64", "float32"))
    assert single.dtype == np.float32
    np.testing.assert_array_equal(single, double.astype(np.float32))
    assert scores_of(binormal(), dtype=np.float32)["score"].dtype == np.float32


def test_exact_numbers_of_positives() -> None:
    for n_items, prevalence, n_positive in ((1000, 0.1, 100), (7, 0.5, 4), (10**5, 1e-4, 10), (9, 0.9, 8)):
        label = offset_uniform().sample(n_items, prevalence, n_simulations=3)["label"]
        assert isinstance(label.data, np.ndarray)
        assert int(label.sum()) == n_positive
    label = offset_uniform().sample(1000, 0.1)["label"].values
    halves = label[:500].sum(), label[::2].sum()
    assert all(20 < half < 80 for half in halves)  # mixed: neither halves nor every second item are of one class


def test_binomial_numbers_of_positives() -> None:
    label = binormal().sample(50, 0.2, n_simulations=4000, label_design="binomial", seed=2)["label"].values
    counts = np.bincount(label.sum(axis=1), minlength=51)
    expected = 4000 * scipy.stats.binom(50, 0.2).pmf(np.arange(51))
    common = expected >= 5
    observed = [*counts[common], counts[~common].sum()]
    assert scipy.stats.chisquare(observed, [*expected[common], expected[~common].sum()]).pvalue > 1e-3
    by_item = label.sum(axis=0)
    assert np.all(np.abs(by_item - 800) < 5 * math.sqrt(4000 * 0.16))


# Estimates


def expected_average_precision(scenario: Scenario, n: int, m: int) -> float:
    """Return the exact mean of average precision over samples of n positives and m negatives.

    A positive at recall t of the distribution has Binomial(n - 1, t) other positives above it and
    Binomial(m, f(t)) negatives.
    """
    positive, negative = frozen(scenario)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    recall = (nodes + 1) / 2
    false = negative.sf(positive.isf(recall))
    above = scipy.stats.binom(n - 1, recall[:, None]).pmf(np.arange(n))
    wrong = scipy.stats.binom(m, false[:, None]).pmf(np.arange(m + 1))
    hits = np.arange(1, n + 1)[:, None]
    precision = np.einsum("ra,ab,rb->r", above, hits / (hits + np.arange(m + 1)), wrong)
    return float(precision @ weights / 2)


@pytest.mark.slow
@by_repr
def test_average_precision_of_small_samples_has_its_exact_mean(scenario: Scenario) -> None:
    estimates = ap.evaluate(scenario.sample(25, 0.2, n_simulations=1500, seed=8))["estimate"].values
    standard_error = estimates.std() / math.sqrt(estimates.size)
    assert abs(estimates.mean() - expected_average_precision(scenario, 5, 20)) < 3.5 * standard_error


@pytest.mark.slow
@pytest.mark.parametrize(
    "scenario", [*SCENARIOS, *(pytest.param(scenario, marks=pytest.mark.slow) for scenario in ODD)], ids=repr
)
def test_average_precision_of_large_samples_approaches_the_true_area(scenario: Scenario) -> None:
    n, m = 400, 3600
    estimates = ap.evaluate(scenario.sample(n + m, 0.1, n_simulations=200, seed=9))["estimate"].values
    standard_error = estimates.std() / math.sqrt(estimates.size)
    area = scenario.area(0.1)
    bias = [expected_average_precision(scenario, size, 9 * size) - area for size in (5, 20, 80)]
    # The bias falls as 1/n or faster; what is left of it at 400 positives is a fifth of that at 80.
    assert abs(bias[2]) < abs(bias[1]) / 2 < abs(bias[0]) / 4
    assert abs(estimates.mean() - area) < 3.5 * standard_error + abs(bias[2])
    assert 3.5 * standard_error + abs(bias[2]) < 0.02


# Laziness


@pytest.mark.parametrize("label_design", ["exact", "binomial"])
def test_nothing_is_drawn_early(label_design: str) -> None:
    with raise_if_dask_computes():
        # The whole would be 80 TB.
        scores = binormal().sample(10**6, 0.01, n_simulations=10**4, label_design=label_design, chunks=100)
        result = ap.evaluate(scores)
        with pytest.raises(AssertionError, match="Dask computed"):
            result.compute()
    small = binormal().sample(50, 0.2, n_simulations=9, label_design=label_design, chunks=2).chunk()
    assert ap.evaluate(small).compute(scheduler="threads")["estimate"].shape == (9,)


def test_automatic_chunks_hold_about_32_mib() -> None:
    assert binormal().sample(10**6, 0.01, n_simulations=10)["score"].chunks[0] == (4, 4, 2)
    assert binormal().sample(10**6, 0.01, n_simulations=10, dtype="float32")["score"].chunks[0] == (8, 2)


def test_the_same_sample_has_the_same_keys() -> None:
    one, two = (bibeta().sample(30, 0.2, n_simulations=2, seed=6)["score"].data.name for _ in range(2))
    assert one == two
    assert bibeta(4).sample(30, 0.2, n_simulations=2, seed=6)["score"].data.name != one


# Values


def test_scenarios_are_values() -> None:
    assert repr(offset_uniform(1)) == "offset_uniform(gamma=1.0)"
    assert binormal(np.float32(0.5), 2) == binormal(0.5, 2.0)
    assert len({binormal(), binormal(1), binormal(2)}) == 2
    assert pickle.loads(pickle.dumps(bibeta(3))) == bibeta(3)
    with pytest.raises(AttributeError):
        binormal().mu = 2.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: binormal(sigma=0), "sigma of binormal is not allowed\n  where: argument 'sigma'\n  received: 0\n"),
        (lambda: binormal(mu=math.inf), "received: inf\n  allowed: a finite number"),
        (lambda: binormal(mu="1"), "received: '1'"),
        (lambda: bibeta(negative_b=-1), "negative_b of bibeta"),
        (lambda: offset_uniform(math.nan), "gamma of offset_uniform"),
        (lambda: binormal().area(0), "between 0 and 1\n  where: option 'prevalence'\n  received: 0"),
        (lambda: binormal().curve([0.1, -0.1, 2], 0.1), "received: 2 values, first -0.1"),
        (lambda: binormal().curve(0.1, [0.1, 1.0]), "'prevalence'\n  received: 1 values, first 1.0"),
        (lambda: binormal().curve(1.5, 0.1), "recall is outside its range"),
        (lambda: binormal().roc(1.5), "false_positive_rate is outside its range"),
        (lambda: binormal().sample(0, 0.1), "n_items must be a whole number from 1"),
        (lambda: binormal().sample(10.0, 0.1), "received: 10.0"),
        (lambda: binormal().sample(10, 0.01), "an exact sample would have no positives"),
        (lambda: binormal().sample(10, 0.99), "an exact sample would have no negatives"),
        (lambda: binormal().sample(10, 0.5, n_simulations=0), "n_simulations must be"),
        (lambda: binormal().sample(10, 0.5, label_design="poisson"), "'exact', 'binomial'"),
        (lambda: binormal().sample(10, 0.5, n_simulations=5, chunks=(2, 2)), "chunks do not fit"),
        (lambda: binormal().sample(10, 0.5, n_simulations=5, chunks="some"), "chunks='some'"),
        (lambda: binormal().sample(10, 0.5, n_simulations=5, chunks=0), "chunks=0"),
    ],
)
def test_refusals_name_the_argument(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ChunkError if "chunks" in message else InvalidInputError) as caught:
        call()
    assert message in str(caught.value)
