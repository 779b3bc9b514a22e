"""One question has one answer, in whatever way it is asked."""

import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner
from conftest import ok

import aucpr_dask as ap
from aucpr_dask.cli import main
from aucpr_dask.view.report.subjects import comparisons, subjects_of

Answer = tuple[float | None, Any, str | None]  # p-value, interval and design; None of what a way does not say


def clustered() -> xr.Dataset:
    """Scores of two models on items in clusters of both classes."""
    random = np.random.default_rng(1)
    cluster = np.repeat(np.arange(30), 12)
    label = (random.random(cluster.size) < 0.3).astype(np.int8)
    score = random.normal(label * np.array([[1.3], [1.8]])) + random.normal(0, 0.5, (2, 30))[:, cluster]
    return xr.Dataset(
        {"score": (("model", "item"), score), "label": ("item", label), "cluster": ("item", cluster)},
        coords={"model": ["new", "old"]},
    )


def of_compare(data: Any, *label: Any, **options: Any) -> Answer:
    found = ap.compare(data, *label, baseline="old", **options).sel(model="new")
    return float(found["p_value"]), found["interval"].values, found.attrs["design"]


def by_mapping(scores: xr.Dataset, over: dict[str, str]) -> Answer:
    models = dict(zip(["new", "old"], scores["score"].values, strict=True))
    return of_compare(models, scores["label"].values, clusters=scores["cluster"].values, **over)


def by_gate(scores: xr.Dataset, over: dict[str, str]) -> Answer:
    gate = ap.gate(scores, "new", "old", **over)
    return gate.p_value, gate.interval, gate.design


def by_metrics(scores: xr.Dataset, over: dict[str, str]) -> Answer:
    groups = None if over else scores["cluster"].values
    new, old = scores["score"].values
    found = ap.metrics.average_precision_difference(scores["label"].values, old, new, clusters=groups)
    return found.p_value, found.interval, None


def by_report(scores: xr.Dataset, over: dict[str, str]) -> Answer:
    """The numbers that the page of a result shows next to its scores."""
    (subject,) = subjects_of(ap.evaluate(scores, **over), None)
    (plan,), _ = comparisons(replace(subject, scores=scores), "average_precision", 0)
    p_value, lower = plan["p_values"], plan["lower"]
    return p_value[0, 1], (lower[0, 1], -lower[1, 0]), plan["design"]


def by_command(scores: xr.Dataset, over: dict[str, str], folder: Path) -> Answer:
    ap.save_scores(scores, folder / "scores.zarr")
    call = ["compare", str(folder / "scores.zarr"), "--baseline", "old", "--json"]
    done = CliRunner().invoke(main, call + [word for name, value in over.items() for word in (f"--{name}", value)])
    (answer,) = json.loads(done.stdout)["comparisons"]
    return answer["pairs"][0]["p_value"], answer["pairs"][0]["interval"], answer["facts"]["design"]


WAYS: dict[str, Callable[..., Answer]] = {
    "scores": lambda scores, over: of_compare(scores, **over),
    "covariance": lambda scores, over: of_compare(ap.covariance(scores, **over)),
    "mapping": by_mapping,
    "rank": lambda scores, over: (None, None, ap.rank(scores, **over).attrs["design"]),
    "power": lambda scores, over: (None, None, ap.power(scores, **over).attrs["design"]),
    "gate": by_gate,
    "metrics": by_metrics,
    "report": by_report,
    "command": by_command,
}


@pytest.mark.parametrize("over", [{}, {"over": "items"}], ids=["clusters", "items"])
@pytest.mark.parametrize("way", WAYS)
def test_one_question_has_one_answer(way: str, over: dict[str, str], tmp_path: Path) -> None:
    scores = clustered()
    p_expected, interval_expected, design_expected = of_compare(scores, **over)
    drawn, ten = ("items with their labels", "positives") if over else ("clusters", "clusters with positives")
    assert design_expected == f"sample: the {drawn}; fixed: the 2 models; approximate; needs at least 10 {ten}"
    p_value, interval, design = WAYS[way](scores, over, *([tmp_path] if way == "command" else []))
    assert p_value in (None, p_expected)
    assert design in (None, design_expected)
    if interval is not None:
        np.testing.assert_allclose(interval, interval_expected, rtol=1e-12)


def pair_of(seed: int, shift: float) -> xr.Dataset:
    random, label = np.random.default_rng(seed), np.arange(120) % 4 == 0
    score = random.normal(size=(2, 120)) + label * np.array([[1.0], [1.0 + shift]])
    return xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)}, {"model": ["old", "new"]})


@pytest.mark.parametrize("clusters", [None, xr.DataArray(np.arange(120) // 3, dims="item")], ids=["items", "clusters"])
@pytest.mark.parametrize("seed", range(6))
def test_a_comparison_alone_is_not_adjusted(seed: int, clusters: xr.DataArray | None) -> None:
    scores = pair_of(seed, 0.15 * seed)
    for adjust in (None, "max_t"):
        answer = ap.compare(scores, "old", clusters=clusters, adjust=adjust).sel(model="new")
        assert float(answer["p_adjusted"]) == float(answer["p_value"])
        np.testing.assert_array_equal(answer["simultaneous_interval"], answer["interval"])
    ranks = ap.rank(scores, clusters=clusters)
    is_shown = float(answer["p_value"]) <= 0.05
    for name in ("rank_interval", "simultaneous_rank_interval"):
        assert (np.ptp(ranks[name].values, axis=-1) == 0).all() == is_shown


@pytest.mark.parametrize("estimator", ["average_precision", "binormal"])
def test_an_answer_by_the_bootstrap_says_why(estimator: str) -> None:
    """A result keeps replicates of its clusters, which show less than influences; some estimators have no others."""
    scores = clustered()
    result = ap.evaluate(scores, estimator, keep_replicates=True, n_resamples=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ap.errors.FewPositivesWarning)
        by_result = ap.compare(result).attrs["design"]
        (subject,) = subjects_of(result, None)
        (plan,), _ = comparisons(subject, estimator, 0)
        others = {ap.rank(result).attrs["design"], ap.power(result).attrs["design"], plan["design"]}
        assert others | {ap.gate(result, "new", "old").design} == {by_result}
        by_scores = ap.compare(scores, estimator=estimator, n_resamples=200).attrs["design"]
    kept = "the result keeps no influences; its scores do"
    unknown = "no influences are known here"
    has_influence = estimator == "average_precision"
    assert by_result.startswith("resampled: the clusters, 200 times; ")
    assert by_result.endswith(f"; by the bootstrap, because {kept if has_influence else unknown}")
    assert by_scores.endswith(f"; by the bootstrap, because {unknown}") != has_influence


@pytest.mark.filterwarnings("ignore::aucpr_dask.errors.FewPositivesWarning")
@pytest.mark.parametrize("command", ["compare", "rank", "gate", "power"])
def test_commands_say_why_a_result_is_compared_by_the_bootstrap(command: str, stored_result: Path) -> None:
    models = {"compare": ["--baseline", "old"], "gate": ["--candidate", "new", "--baseline", "old"]}
    shown = CliRunner().invoke(main, [command, str(stored_result), *models.get(command, [])]).output
    assert "by the bootstrap, because the result keeps no influences; its scores do" in " ".join(shown.split())


@pytest.fixture(scope="module")
def stored_result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stores")
    ap.save_scores(clustered(), folder / "scores.zarr")
    call = ["evaluate", str(folder / "scores.zarr"), str(folder / "result.zarr"), "--keep-replicates"]
    ok(*call, "--n-resamples", "200")
    return folder / "result.zarr"


@pytest.mark.parametrize("question", [ap.compare, ap.rank, ap.power, ap.aggregate, ap.covariance])
def test_numbers_of_positives_are_random_where_clusters_are_drawn(question: Callable[..., Any]) -> None:
    random = np.random.default_rng(4)
    label = (random.random(120) < 0.4).astype("int8")
    variables = {
        "score": (("model", "item"), random.normal(size=(2, 120)) + label),
        "label": ("item", label),
        "cluster": ("item", np.arange(120) // 2),
    }
    scores = xr.Dataset(variables, {"model": ["a", "b"]})
    by_default, fixed = question(scores), question(scores, prevalence_design="fixed")
    xr.testing.assert_equal(fixed, by_default)
    assert fixed.attrs.get("design") == by_default.attrs.get("design")
    if question is not ap.covariance:
        xr.testing.assert_equal(question(ap.evaluate(scores, prevalence_design="fixed")), by_default)
    arrays, clusters = (label, *scores["score"].values), scores["cluster"].values
    by_default, fixed = (
        ap.metrics.average_precision_difference(*arrays, clusters=clusters, prevalence_design=design)
        for design in ("random", "fixed")
    )
    assert by_default == fixed
