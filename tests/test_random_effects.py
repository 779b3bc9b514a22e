"""Comparisons over data sets by random effects: the numbers of metafor, and posterior probabilities by quadrature."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from conftest import ok, without_its_scores
from numpy.typing import NDArray
from reference_cases import oracle
from scipy import optimize, stats

import aucpr_dask as ap
from aucpr_dask.errors import InvalidInputError
from aucpr_dask.inference.random_effects import known_variances, predicted, random_effects, surely_of_chance

EFFECTS, POSTERIOR = (oracle(f"random_effects{part}") for part in ("", "_posterior"))


def known(effects: NDArray[np.float64], variances: NDArray[np.float64]) -> xr.DataTree:
    """Return data sets on which `a` is better than `b` by effects of known variances."""
    names = {"model": ["a", "b"], "other_model": ["a", "b"]}
    nodes = {}
    for place, (effect, variance) in enumerate(zip(effects, variances, strict=True)):
        matrix = variance * (1 - np.eye(2))
        values = {"estimate": ("model", [effect, 0.0]), "difference_variance": (("model", "other_model"), matrix)}
        nodes[f"d{place:02}"] = xr.Dataset(values, coords=names)
    return xr.DataTree.from_dict(nodes)


def rankings(n_sets: int = 6, *, n_models: int = 3, seed: int = 0) -> xr.DataTree:
    """Return scores of models on data sets of different sizes."""
    random, nodes = np.random.default_rng(seed), {}
    for place in range(n_sets):
        n = int(random.integers(60, 400))
        label = (random.random(n) < 0.3).astype(int)
        shift = 1 + 0.3 * np.arange(n_models)[:, None]
        score = random.normal(size=(n_models, n)) + random.normal(size=n) + shift * label
        coords = {"model": [f"m{model}" for model in range(n_models)]}
        nodes[f"d{place}"] = xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)}, coords)
    return xr.DataTree.from_dict(nodes)


@pytest.mark.parametrize("case", EFFECTS, ids=lambda case: case["name"])
def test_numbers_of_metafor(case: dict[str, object]) -> None:
    tree = known(np.array(case["effects"]), np.array(case["variances"]))
    found = ap.compare(tree, "b", over="dataset", weights="precision").sel(model="a")
    expected = case["expected"]
    assert isinstance(expected, dict)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name].values, value, rtol=1e-10, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("case", POSTERIOR, ids=lambda case: f"{case['name']} {case['margin']}")
def test_posterior_probabilities_by_quadrature(case: dict[str, object]) -> None:
    tree = known(np.array(case["effects"]), np.array(case["variances"]))
    found = ap.compare(tree, "b", over="dataset", weights="precision", equivalence=case["margin"])
    for target in ("mean", "new"):
        shares = found["probability"].sel(model="a", target=target)
        np.testing.assert_allclose(shares, case[target], atol=1e-10)
    assert found["share_inside"].sel(model="a") == found["probability"].sel(model="a", target="mean")[1]
    turned = ap.compare(tree, "a", over="dataset", weights="precision", equivalence=case["margin"])
    np.testing.assert_array_equal(turned["probability"].sel(model="b"), found["probability"].sel(model="a")[:, ::-1])


@pytest.mark.parametrize("n_sets", [4, 6])
def test_data_sets_of_scores_weigh_by_their_positives(n_sets: int) -> None:
    tree = rankings(n_sets)
    found = ap.compare(tree, over="dataset", weights="precision").sel(model="m0", other_model="m1")
    effects, own, sizes = [], [], []
    for node in tree.children.values():
        result = ap.covariance(node.to_dataset())
        c = result["covariance"].values[:2, :2]
        effects.append(float(result["estimate"][0] - result["estimate"][1]))
        own.append(c[0, 0] + c[1, 1] - 2 * c[0, 1])
        sizes.append(float(result["n_effective"].min()))
    variance = np.mean(np.multiply(own, sizes)) / np.array(sizes)
    expected = ap.compare(known(np.array(effects), variance), over="dataset", weights="precision").sel(
        model="a", other_model="b"
    )
    for name in ("tau", "i_squared"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-9, atol=1e-12, err_msg=name)

    def scatter(square: float) -> tuple[float, float, float]:
        weight = 1 / (variance + square)
        mean = np.average(effects, weights=weight)
        return float(weight @ (np.array(effects) - mean) ** 2), float(mean), float(weight.sum())

    least = stats.chi2.ppf(0.05, n_sets - 1)
    upper = optimize.brentq(lambda square: scatter(square)[0] - least, 0, 1, xtol=1e-16)
    assert upper > found["tau"] ** 2
    _, mean, total = scatter(upper)
    share = 1 / (variance + upper) / total
    error = np.sqrt(np.sum(share**2 * (np.array(effects) - mean) ** 2 / (1 - share)))
    if n_sets < 5:
        error = max(error, 1 / np.sqrt(scatter(float(found["tau"]) ** 2)[2]))
    half = stats.t.isf(0.025, n_sets - 1) * error
    np.testing.assert_allclose(found["difference"], mean, rtol=1e-7)
    np.testing.assert_allclose(found["interval"], [mean - half, mean + half], rtol=1e-7)


def test_perfect_rankings_do_not_show_that_models_are_equal() -> None:
    """Both models rank some data sets perfectly: an interval is no narrower than half a positive of theirs allows."""
    tree = rankings(6, n_models=2)
    for place, node in enumerate(tree.children.values()):
        node["score"] = node["score"] + (50.0 if place else 0.0) * node["label"]
    sizes = [int(node["label"].sum()) for node in tree.children.values()]
    perfect = xr.DataTree.from_dict({f"d{place}": tree[f"d{place}"].to_dataset() for place in range(1, 6)})
    found = ap.compare(perfect, "m0", over="dataset", weights="precision").sel(model="m1")
    assert found["standard_error"] == pytest.approx(0.5 / sum(sizes[1:]))
    assert (found["difference"], found["p_value"]) == (0, 1)
    assert ap.compare(tree, "m0", over="dataset", weights="precision").sel(model="m1")[
        "standard_error"
    ] >= 0.5 * 5 / 6 / sum(sizes)


def test_results_with_replicates_and_queries_know_their_variances() -> None:
    tree = rankings()
    by_influence = ap.compare(tree, over="dataset")
    result = ap.evaluate(tree, interval="bootstrap", keep_replicates=True, n_resamples=400)
    by_replicates = ap.compare(result, over="dataset")
    assert by_replicates.attrs["method"] == by_influence.attrs["method"] == "random_effects"
    np.testing.assert_allclose(by_replicates["difference"], by_influence["difference"], atol=0.01)
    random = np.random.default_rng(1)
    values = random.normal(size=(5, 2, 12))
    coords = {"model": ["a", "b"]}
    nodes = {f"d{j}": xr.Dataset({"estimate": (("model", "query"), one)}, coords) for j, one in enumerate(values)}
    apart = values[:, 0] - values[:, 1]
    pooled = np.full(5, np.mean(apart.var(axis=1, ddof=1)) / 12)
    expected = ap.compare(known(apart.mean(axis=1), pooled), "b", over="dataset", weights="precision")
    found = ap.compare(xr.DataTree.from_dict(nodes), "b", over="dataset", weights="precision")
    np.testing.assert_allclose(found["interval"], expected["interval"], rtol=1e-9)


def test_without_variances_signs_are_flipped() -> None:
    of_scores = ap.evaluate(rankings(), interval=[])
    assert ap.compare(of_scores, over="dataset").attrs["method"] == "random_effects"  # from the scores that it knows
    result = without_its_scores(of_scores)
    assert ap.compare(result, over="dataset").attrs["method"] == "sign_flip"
    with pytest.raises(InvalidInputError, match="resamples of the items, which the result does not keep"):
        ap.compare(result, over="dataset", method="random_effects")
    with pytest.raises(InvalidInputError, match="unknown method"):
        ap.compare(rankings()["d0"].to_dataset(), method="random_effects")


def test_other_models_and_orders_change_no_bit() -> None:
    tree = rankings(n_models=4)
    options = {"over": "dataset", "equivalence": 0.02}
    everything = ap.compare(tree, **options)
    fewer = ap.compare(tree.sel(model=["m2", "m0"]), **options)
    for name in ("difference", "interval", "prediction_interval", "tau", "i_squared", "p_value", "probability"):
        kept = everything[name].sel(model=["m2", "m0"], other_model=["m2", "m0"])
        np.testing.assert_array_equal(fewer[name], kept, err_msg=name)
    chunked = ap.compare(tree, **options, chunk=2)
    xr.testing.assert_identical(chunked.compute(), everything.drop_attrs(deep=False).assign_attrs(chunked.attrs))
    assert everything.attrs.keys() - chunked.attrs.keys() == {"summary"}  # which needs numbers


def test_models_that_agree_and_data_sets_that_say_nothing() -> None:
    tree = rankings(5, n_models=2)
    parts = {name: node.to_dataset().isel(model=[0, 0]) for name, node in tree.children.items()}
    copies = xr.DataTree.from_dict({name: part.assign_coords(model=["a", "b"]) for name, part in parts.items()})
    found = ap.compare(copies, "b", over="dataset", weights="precision", equivalence=0.01).sel(model="a")
    assert (found["difference"], found["standard_error"], found["p_value"]) == (0, 0, 1)
    np.testing.assert_allclose(found["probability"], [[0, 1, 0]] * 2, atol=1e-9)
    constant = known(np.full(6, 0.1), np.zeros(6))
    assert ap.compare(constant, "b", over="dataset", weights="precision").sel(model="a")["difference"] == pytest.approx(
        0.1
    )
    # A data set where the two rank alike weighs as the median one.
    variances = np.array([0.0, 1e-3, 2e-3, 3e-3, 4e-3])
    filled = np.where(variances > 0, variances, 2.5e-3)
    effects = np.array([0.0, 0.1, 0.05, 0.2, 0.1])
    one, other = (
        ap.compare(known(effects, each), "b", over="dataset", weights="precision") for each in (variances, filled)
    )
    np.testing.assert_array_equal(one["interval"], other["interval"])
    two = ap.compare(known(effects[:2], filled[:2]), "b", over="dataset", weights="precision").sel(model="a")
    assert two["prediction_interval"].isnull().all()
    assert two["interval"].notnull().all()
    alone = tree["d0"].to_dataset()
    alone["label"][np.flatnonzero(alone["label"])[1:]] = 0
    tree["d0"] = xr.DataTree(alone)
    with pytest.raises(
        InvalidInputError, match="the variance of a difference is not known in some data sets"
    ) as raised:
        ap.compare(tree, over="dataset", weights="precision")
    assert "'d0'" in str(raised.value)
    assert ap.compare(tree, over="dataset", method="sign_flip")["p_value"].notnull().all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_sets", "sizes", "lift", "tau"),
    [(12, sizes, 1.5, tau) for sizes in [(40,), (15, 50, 150)] for tau in (0.0, 0.1, 0.4)]
    + [(5, (10, 30, 100, 300), 3.2, tau) for tau in (0.0, 0.13, 0.25)],  # areas of 0.96, and tau to one error
)
def test_coverage(n_sets: int, sizes: tuple[int, ...], lift: float, tau: float) -> None:
    """Intervals hold the mean difference and a new one, and are narrower than Student's where sizes differ."""
    random, parts, true = np.random.default_rng(0), [], []
    lifts = np.linspace(-1, 7, 81)
    areas = [ap.simulate.binormal(float(each), 1.0).area(0.2) for each in lifts]
    for size in sizes:
        n_drawn, n_items = 600 // len(sizes), 5 * size
        label = (random.random((n_drawn, n_items)) < 0.2).astype(int)
        label[:, :2] = 1
        noise = random.normal(size=(3, n_drawn, n_items))
        lifted = random.normal(lift, 0.3, n_drawn) + np.stack([np.zeros(n_drawn), random.normal(0, tau, n_drawn)])
        score = noise[:2] + noise[2] + np.sqrt(2) * lifted[:, :, None] * label
        scores = xr.Dataset({"score": (("model", "query", "item"), score), "label": (("query", "item"), label)})
        parts.append(ap.covariance(scores))
        true.append(-np.diff(np.interp(lifted, lifts, areas), axis=0)[0])
    both = xr.concat(parts, "query")
    covariance = both["covariance"].transpose("query", "model", "other_model").values
    own = covariance[:, 0, 0] + covariance[:, 1, 1] - 2 * covariance[:, 0, 1]
    effect = (both["estimate"].isel(model=0) - both["estimate"].isel(model=1)).values
    n = both["n_effective"].min("model").values
    drawn = random.integers(effect.size, size=(4000, n_sets))
    variance = np.concatenate([known_variances(own[None, one], n[one]) for one in drawn])
    surely = np.concatenate([surely_of_chance(own[None, one], variance[[i]], n[one]) for i, one in enumerate(drawn)])
    found = random_effects(effect[drawn], variance, are_estimated=True)
    half = stats.t.isf(0.025, n_sets - 1) * found.error
    assert 0.93 <= np.mean(np.abs(found.mean - effect.mean()) <= half) <= 0.97
    ratio = np.mean(found.error) / np.mean(stats.sem(effect[drawn], axis=1))
    assert ratio < (0.9 if len(sizes) > 1 and tau <= 0.1 else 1.01)
    half = np.maximum(half, predicted(effect[drawn], surely, 0.95))
    new = random.choice(np.concatenate(true), drawn.shape[0])
    assert 0.93 <= np.mean(np.abs(found.mean - new) <= half) <= (0.98 if tau else 1)


@pytest.mark.parametrize("n_sets", [3, 5, 12])
@pytest.mark.parametrize("tau", [0.0, 0.1, 1.0])
def test_estimated_variances_by_hand(n_sets: int, tau: float) -> None:
    """Weights take the upper limit of tau, a root of Q by SciPy; the error is Sidik and Jonkman's, term by term."""
    random = np.random.default_rng(n_sets)
    variance = random.uniform(0.001, 0.05, n_sets)
    effect = random.normal(0.1, np.sqrt(variance + tau**2))

    def fitted(square: float) -> tuple[list[float], float, float]:
        weights = [1 / (v + square) for v in variance]
        mean = sum(w * y for w, y in zip(weights, effect, strict=True)) / sum(weights)
        return weights, mean, sum(w * (y - mean) ** 2 for w, y in zip(weights, effect, strict=True))

    def root(expected: float) -> float:
        is_zero = fitted(0.0)[2] <= expected
        return 0.0 if is_zero else optimize.brentq(lambda square: fitted(square)[2] - expected, 0, 100, xtol=1e-15)

    weights, mean, _ = fitted(root(stats.chi2.ppf(0.05, n_sets - 1)))
    total = sum(weights)
    error = sum((w / total) ** 2 * (y - mean) ** 2 / (1 - w / total) for w, y in zip(weights, effect, strict=True))
    if n_sets < 5:
        error = max(error, 1 / sum(fitted(root(n_sets - 1))[0]))
    found = random_effects(effect[None], variance[None], are_estimated=True)
    np.testing.assert_allclose([found.mean[0], found.error[0]], [mean, np.sqrt(error)], rtol=1e-7)


@pytest.mark.parametrize("n_sets", [3, 5, 20])
def test_prediction_without_errors_is_by_students_t(n_sets: int) -> None:
    effect = np.random.default_rng(0).normal(size=(1, n_sets))
    half = stats.t.isf(0.025, n_sets - 1) * effect.std(ddof=1) * np.sqrt(1 + 1 / n_sets)
    np.testing.assert_allclose(predicted(effect, np.full(effect.shape, 1e-12), 0.95), half, rtol=1e-3)


@pytest.mark.sparse
@pytest.mark.parametrize("tau", [0.01, 0.03, 0.1, 0.3])
@pytest.mark.parametrize("sizes", [(60,), (10, 30, 100, 300)])
@pytest.mark.parametrize("n_sets", [5, 20, 50])
def test_prediction_intervals_hold_another_effect(n_sets: int, sizes: tuple[int, ...], tau: float) -> None:
    random = np.random.default_rng([n_sets, len(sizes)])
    variance = 0.15 / random.choice(sizes, size=(2000, n_sets))
    effect = random.normal(0, np.sqrt(tau**2 + variance))
    mean = random_effects(effect, variance, are_estimated=True).mean
    holds = np.abs(mean - random.normal(0, tau, 2000)) <= predicted(effect, variance, 0.95)
    assert 0.93 <= holds.mean() <= (0.97 if tau > 0.05 else 1)


def test_the_command_compares_over_data_sets(tmp_path: Path) -> None:
    url = str(tmp_path / "scores.zarr")
    ap.save_scores(rankings(), url)
    arguments = ["compare", url, "--over", "dataset", "--baseline", "m0", "--equivalence", "0.02", "--json"]
    answer = ok(*arguments)
    (comparison,) = json.loads(answer.stdout)["comparisons"]
    assert comparison["facts"]["method"] == "random_effects"
    assert np.sum(comparison["pairs"][0]["probability"]) == pytest.approx(2)


def test_gate_gives_the_interval_of_compare_and_ranks_say_why_they_flip_signs() -> None:
    tree = rankings()
    pair = xr.DataTree.from_dict({name: node.to_dataset().sel(model=["m0", "m2"]) for name, node in tree.items()})
    compared = ap.compare(pair, "m0", over="dataset").sel(model="m2")
    gate = ap.gate(tree, "m2", "m0", over="dataset")
    assert (gate.method, gate.difference, gate.p_value) == (
        "random_effects",
        compared["difference"],
        compared["p_value"],
    )
    np.testing.assert_allclose(gate.interval, compared["interval"], rtol=1e-12)
    assert ap.gate(tree, "m2", "m0", over="dataset", method="sign_flip").method == "sign_flip"
    ranking = ap.rank(tree, over="dataset")
    assert ranking.attrs["method"] == "sign_flip"
    assert "which random effects (compare) lack" in ranking.attrs["design"]


@pytest.mark.parametrize("ask", [lambda tree: ap.compare(tree, "m0", over="dataset"), lambda tree: ap.friedman(tree)])
def test_results_with_repeats_are_averaged_over_data_sets(ask: Any) -> None:
    tree, other = rankings(), rankings(seed=1)
    nodes = {}
    for name, node in tree.items():
        again = node["score"].copy(data=other[name]["score"].values[:, :1] + node["score"].values)
        score = xr.concat([node["score"], again], "repeat")
        nodes[name] = xr.Dataset({"score": score.transpose("model", "repeat", "item"), "label": node["label"]})
    result = without_its_scores(ap.evaluate(xr.DataTree.from_dict(nodes)))
    means = {name: ap.aggregate(node.to_dataset())[["estimate"]] for name, node in result.items()}
    xr.testing.assert_equal(ask(result), ask(xr.DataTree.from_dict(means)))


@pytest.mark.parametrize(("area", "is_said"), [(0.6, False), (0.95, True)])
def test_areas_near_one_are_said(area: float, is_said: bool) -> None:
    tree = known(np.full(6, 0.02), np.full(6, 0.001)).map_over_datasets(
        lambda node: node.assign(estimate=node["estimate"] + area) if node else node
    )
    assert ("areas are near 1" in ap.compare(tree, over="dataset", weights="precision").attrs["design"]) == is_said


SIZES = np.array([10, 10, 12, 14, 20, 30, 60, 100, 300, 1000])


def growing(seed: int = 4) -> tuple[xr.DataTree, np.ndarray, np.ndarray]:
    """Data sets whose difference grows with their size, so that the mean is below 0 and that by precision above."""
    effects = 0.15 * (np.log10(SIZES) - 1.9) + np.random.default_rng(seed).normal(0, 0.01, SIZES.size)
    variances = 0.35 / SIZES
    return known(effects, variances), effects, variances


def test_data_sets_count_alike_by_default() -> None:
    tree, effects, _ = growing()
    found = ap.compare(tree, "b", over="dataset").sel(model="a")
    expected = stats.ttest_1samp(effects, 0)
    assert float(found["difference"]) == pytest.approx(effects.mean())
    assert float(found["p_value"]) == pytest.approx(expected.pvalue)
    np.testing.assert_allclose(found["interval"], expected.confidence_interval())
    assert float(found["difference"]) == pytest.approx(float(found["equal_difference"]))
    by_precision = ap.compare(tree, "b", over="dataset", weights="precision").sel(model="a")
    assert float(found["precision_difference"]) == pytest.approx(float(by_precision["difference"]))
    for name in ("tau", "i_squared", "size_slope", "size_p"):
        assert float(found[name]) == float(by_precision[name])
    assert found["difference"] < 0 < by_precision["difference"]
    assert "equal weights of data sets" in found.attrs["design"]
    assert "larger data sets carry more weight" in by_precision.attrs["design"]
    assert "weighted by precision: a - b" in found.attrs["sizes"]
    assert "(it grows by +0.1" in found.attrs["sizes"]
    turned = ap.compare(tree, "a", over="dataset").sel(model="b")
    assert float(turned["size_slope"]) == -float(found["size_slope"])


@pytest.mark.needs("statsmodels")
def test_a_regression_on_size_is_that_of_weighted_least_squares() -> None:
    from statsmodels.api import WLS

    tree, effects, variances = growing()
    found = ap.compare(tree, "b", over="dataset", weights="regression").sel(model="a")
    weight = 1 / (variances + float(found["tau"]) ** 2)
    size = -np.log10(variances)
    fit = WLS(effects, np.column_stack([np.ones(SIZES.size), size - size.mean()]), weight).fit()
    assert float(found["difference"]) == pytest.approx(fit.params[0])
    assert float(found["standard_error"]) == pytest.approx(fit.bse[0])
    np.testing.assert_allclose(found["interval"], fit.conf_int()[0])
    assert float(found["size_slope"]) == pytest.approx(fit.params[1])
    assert float(found["size_p"]) == pytest.approx(fit.pvalues[1])
    with pytest.raises(InvalidInputError, match="needs several"):
        ap.compare(known(effects[:3], variances[:3]), over="dataset", weights="regression")


@pytest.mark.parametrize("weights", ["equal", "precision", "regression"])
def test_a_gate_never_says_better_of_a_lower_mean(weights: str) -> None:
    tree, effects, _ = growing()
    gate = ap.gate(tree, "a", "b", over="dataset", weights=weights)
    assert gate.estimates[0] < gate.estimates[1]
    assert gate.verdict != "better"
    assert f"{effects.mean():+.4f}" in gate.sentence
    if weights == "precision":
        assert gate.verdict == "cannot tell"


@pytest.mark.parametrize("asked", [{}, {"over": "dataset", "method": "sign_flip"}])
def test_weights_are_those_of_data_sets(asked: dict[str, str]) -> None:
    with pytest.raises(InvalidInputError, match="weights are those of data sets"):
        ap.compare(growing()[0], weights="precision", **asked)


def test_random_effects_are_those_of_data_sets() -> None:
    values = xr.DataArray(np.random.default_rng(0).normal(size=(2, 20)), {"model": ["a", "b"]}, ("model", "query"))
    with pytest.raises(InvalidInputError, match="random effects need the variance of each difference"):
        ap.compare(ap.from_values(values), method="random_effects")


def test_results_of_classes_are_compared_over_data_sets_as_their_scores_are() -> None:
    random = np.random.default_rng(1)
    label = (random.integers(0, 3, 300) == np.arange(3)[:, None]).astype(np.int8)

    def scores() -> xr.Dataset:
        score = random.normal(size=(2, 3, 300)) + label * np.array([1.0, 2.0])[:, None, None]
        data = {"score": (("model", "class", "item"), score), "label": (("class", "item"), label)}
        return xr.Dataset(data, {"model": ["a", "b"], "class": [0, 1, 2]})

    tree = xr.DataTree.from_dict({name: scores() for name in "uvwxyz"})
    result = ap.evaluate(tree, interval="bootstrap", n_resamples=400, keep_replicates=True)
    found, expected = (ap.compare(data, over="dataset") for data in (result, tree))
    np.testing.assert_array_equal(found["difference"], expected["difference"])
    np.testing.assert_allclose(found["interval"], expected["interval"], atol=0.01)
