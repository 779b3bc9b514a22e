"""Means and comparisons with labels by people on some queries and by a machine on all."""

import json
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner
from conftest import queried
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

import aucpr_dask as ap
from aucpr_dask.cli import main
from aucpr_dask.errors import AlignmentError, FewUnitsWarning, InvalidInputError
from aucpr_dask.inference.machine_labels import powered_means
from aucpr_dask.inference.pairs import holm

pytestmark = pytest.mark.filterwarnings("ignore:people labelled")

MODELS = ("bm25", "dense", "hybrid", "tuned")
N_PEOPLE, N_MACHINE = 30, 90
RANDOM = np.random.default_rng(3)
AREAS = RANDOM.beta(2, 3, size=(len(MODELS), N_MACHINE))
BY_MACHINE = 0.7 * AREAS + 0.1 + RANDOM.normal(scale=0.06, size=AREAS.shape)
QUERIES = RANDOM.permutation([f"q{number}" for number in range(N_MACHINE)])


def result(areas: Any, queries: Any = QUERIES, models: Any = MODELS) -> xr.Dataset:
    areas = np.asarray(areas, dtype=np.float64)
    return xr.Dataset(
        {"estimate": (("model", "query", "estimator"), areas[..., None])},
        coords={
            "model": list(models)[: len(areas)],
            "query": list(queries)[: areas.shape[1]],
            "estimator": ["average_precision"],
        },
    )


PEOPLE, MACHINE = result(AREAS[:, :N_PEOPLE]), result(BY_MACHINE)
areas_of_a_query = st.fractions(0, 1, max_denominator=50)


@pytest.mark.slow
@given(
    st.lists(st.tuples(areas_of_a_query, areas_of_a_query), min_size=3, max_size=7),
    st.lists(areas_of_a_query, min_size=1),
)
def test_the_mean_and_its_error_are_those_of_the_formula(
    both: list[tuple[Fraction, Fraction]], others: list[Fraction]
) -> None:
    y, f = (list(part) for part in zip(*both, strict=True))
    everywhere = f + others
    n, size = len(y), len(everywhere)
    mean_y, mean_f, mean_all = sum(y) / n, sum(f) / n, sum(everywhere) / size
    squares = sum((value - mean_f) ** 2 for value in f)
    slope = Fraction(0)
    if squares:
        slope = sum((a - mean_y) * (b - mean_f) for a, b in both) / squares
    residual = sum((a - mean_y - slope * (b - mean_f)) ** 2 for a, b in both) / (n - 2 if squares else n - 1)
    variance = residual / n
    if squares:
        spread = sum((value - mean_all) ** 2 for value in everywhere) / (size - 1)
        variance += residual * (mean_f - mean_all) ** 2 / squares + slope**2 * spread / size
    tuning = slope * Fraction(size - n, size)
    # The form of the literature: the mean by people less the tuned difference of the machine's means.
    estimate = mean_y - tuning * (mean_f - sum(others) / len(others))

    mean = ap.aggregate(
        result([list(map(float, y))], range(n)), auxiliary=result([list(map(float, everywhere))], range(size))
    )
    assert mean["tuning"].item() == pytest.approx(float(tuning), rel=1e-9, abs=1e-12)
    assert mean["estimate"].item() == pytest.approx(float(estimate), rel=1e-9, abs=1e-12)
    assert mean["standard_error"].item() == pytest.approx(float(variance) ** 0.5, rel=1e-6, abs=1e-9)
    reach = stdtrit(n - 2 if squares else n - 1, 0.975) * float(variance) ** 0.5
    lower, upper = mean["interval"].values.ravel()
    if variance:
        bounds = np.clip([float(estimate) - reach, float(estimate) + reach], 0, 1)
        assert [lower, upper] == pytest.approx(bounds, rel=1e-6, abs=1e-7)
    else:  # the interval has a width all the same
        assert 0 <= lower <= mean["estimate"].item() + 1e-12
        assert mean["estimate"].item() - 1e-12 <= upper <= 1
        assert upper - lower > 0.1


def test_the_tuning_makes_the_variance_smallest() -> None:
    y, f = AREAS[0, :N_PEOPLE], BY_MACHINE[0]

    def variance(tuning: float) -> float:
        # With the machine's variance among the queries that people labelled, from which the slope comes.
        rest = tuning**2 * f[:N_PEOPLE].var(ddof=1) / (N_MACHINE - N_PEOPLE)
        return float((y - tuning * f[:N_PEOPLE]).var(ddof=1) / N_PEOPLE + rest)

    best = ap.aggregate(PEOPLE, auxiliary=MACHINE)["tuning"].sel(model="bm25").item()
    assert variance(best) < min(variance(best - 1e-3), variance(best + 1e-3))


@pytest.mark.parametrize(
    ("people", "machine"),
    [
        pytest.param(PEOPLE, MACHINE * 0 + 0.1, id="the machine's estimates are all the same"),
        pytest.param(MACHINE, MACHINE, id="people labelled all queries"),
        pytest.param(PEOPLE.isel(query=[4, 2]), MACHINE, id="people labelled two queries"),
    ],
)
def test_people_alone_where_a_machine_cannot_help(people: xr.Dataset, machine: xr.Dataset) -> None:
    helped, alone = ap.aggregate(people, auxiliary=machine), ap.aggregate(people, method="t")
    for name in ("estimate", "standard_error", "interval", "n_queries"):
        np.testing.assert_array_equal(helped[name], alone[name])
    assert (helped["tuning"] == 0).all()
    assert (helped["width_ratio"] == 1).all()
    helped, alone = ap.compare(people, auxiliary=machine), ap.compare(people, method="t")
    np.testing.assert_allclose(helped["difference"], alone["difference"], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(helped["standard_error"], alone["standard_error"], rtol=1e-12)


def test_one_query_says_nothing_about_others() -> None:
    mean = ap.aggregate(PEOPLE.isel(query=[4]), auxiliary=MACHINE)
    assert mean["estimate"].values.ravel().tolist() == AREAS[:, 4].tolist()
    assert mean["interval"].isnull().all()
    with pytest.raises(InvalidInputError, match="one query says nothing"):
        ap.compare(PEOPLE.isel(query=[4]), auxiliary=MACHINE)


def test_a_perfect_machine_is_as_good_as_people_on_all_queries() -> None:
    mean, everywhere = ap.aggregate(PEOPLE, auxiliary=result(AREAS)), ap.aggregate(result(AREAS))
    for name in ("estimate", "standard_error"):
        np.testing.assert_allclose(mean[name], everywhere[name], rtol=1e-12)


def test_a_useless_machine_costs_nothing_with_many_queries() -> None:
    people = RANDOM.beta(2, 3, size=(1, 2000))
    mean = ap.aggregate(result(people, range(2000)), auxiliary=result(RANDOM.random((1, 8000)), range(8000)))
    assert 0.99 < mean["width_ratio"].item() < 1.002


def test_only_the_order_of_the_machines_estimates_and_their_distances_matter() -> None:
    mean, stretched = (ap.aggregate(PEOPLE, auxiliary=machine) for machine in (MACHINE, 5 * MACHINE - 1))
    np.testing.assert_allclose(stretched["interval"], mean["interval"], rtol=1e-12)
    np.testing.assert_allclose(stretched["tuning"], mean["tuning"] / 5, rtol=1e-12)


def test_intervals_cover_what_people_would_have_said_everywhere() -> None:
    """2,000 samples of 30 queries that people labelled and 90 that a machine labelled, with skewed areas."""
    areas = RANDOM.beta(2, 3, size=(2000, N_MACHINE))
    machine = 0.5 * areas + RANDOM.beta(2, 5, size=areas.shape)
    powered = powered_means(areas[:, :N_PEOPLE], machine, np.arange(N_MACHINE) < N_PEOPLE)
    covered = np.abs(powered.mean - 2 / 5) <= stdtrit(powered.degrees, 0.975) * powered.error
    assert abs(covered.mean() - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 2000)
    assert powered.mean.std() == pytest.approx(np.sqrt((powered.error**2).mean()), rel=0.07)


@pytest.mark.parametrize("ask", [ap.aggregate, ap.compare])
def test_orders_chunks_and_other_models_change_no_bit(ask: Callable[..., xr.Dataset]) -> None:
    expected = ask(PEOPLE, auxiliary=MACHINE)
    order = RANDOM.permutation(N_MACHINE)
    people = PEOPLE.isel(model=[2, 0, 3, 1], query=order[order < N_PEOPLE]).chunk({"model": 1, "query": 7})
    machine = MACHINE.isel(model=[3, 1, 0, 2], query=order).chunk({"query": 11})
    found = ask(people, auxiliary=machine)
    labels = {dim: list(MODELS) for dim in ("model", "other_model") if dim in expected.dims}
    # Holm's adjusted p-values and simultaneous intervals concern the family, which is the same.
    xr.testing.assert_equal(found.sel(labels), expected)
    two = ask(PEOPLE.isel(model=[1, 2]), auxiliary=MACHINE)
    for name in ("estimate", "standard_error", "interval", "tuning", "width_ratio"):
        np.testing.assert_array_equal(two[name], expected.isel({dim: [1, 2] for dim in labels})[name])


def test_a_comparison_is_the_mean_of_the_differences() -> None:
    people, machine = (
        result(one.estimate.values[1:2, :, 0] - one.estimate.values[:1, :, 0]).assign_coords(estimator=["difference"])
        for one in (PEOPLE, MACHINE)
    )
    mean = ap.aggregate(people, auxiliary=machine)
    comparison = ap.compare(PEOPLE, "bm25", auxiliary=MACHINE, equivalence=0.2)
    of_pair = comparison.sel(model="dense")
    for one, other in (
        ("difference", "estimate"),
        *((name, name) for name in ("standard_error", "tuning", "width_ratio")),
    ):
        assert of_pair[one].item() == mean[other].item()
    np.testing.assert_allclose(of_pair["interval"], mean["interval"].squeeze(), rtol=1e-12)
    np.testing.assert_array_equal(comparison["estimate"], ap.aggregate(PEOPLE, auxiliary=MACHINE)["estimate"].squeeze())
    others = comparison.isel(model=slice(1, None))
    np.testing.assert_array_equal(others["p_adjusted"], holm(others["p_value"].values))
    reach = stdtrit(N_PEOPLE - 2, 1 - 0.05 / 3 / 2) * others["standard_error"]
    np.testing.assert_allclose(others["simultaneous_interval"][:, 1] - others["difference"], reach, rtol=1e-12)
    assert others["decision"].dtype == np.int8
    assert (comparison["n_units"], comparison["n_machine_units"]) == (N_PEOPLE, N_MACHINE)


def test_all_pairs_in_chunks() -> None:
    whole, chunked = (ap.compare(PEOPLE, auxiliary=MACHINE, chunk=chunk) for chunk in (None, 3))
    assert chunked["tuning"].chunks
    xr.testing.assert_identical(chunked.compute(), whole.drop_attrs(deep=False).assign_attrs(chunked.attrs))
    np.testing.assert_array_equal(whole["tuning"], whole["tuning"].T)
    assert whole.attrs["design"] == (
        "sample: 30 queries labelled by people, of 90 labelled by machine, each with its items; fixed: the 4 models; "
        "approximate, with a random sample of units labelled by people"
    )
    assert whole["interval"].attrs["ci_kind"] == "Student t, prediction-powered (simultaneous: Bonferroni)"


def test_comparisons_are_stored(tmp_path: Path) -> None:
    comparison = ap.compare(PEOPLE, auxiliary=MACHINE)
    ap.save_comparison(comparison, tmp_path / "comparison.zarr")
    stored = ap.open_comparison(tmp_path / "comparison.zarr")
    np.testing.assert_array_equal(stored["width_ratio"], comparison["width_ratio"])


def test_a_model_without_some_queries_is_averaged_over_the_others() -> None:
    here = (MACHINE["model"] == "dense") & MACHINE["query"].isin([QUERIES[3], QUERIES[N_PEOPLE + 2]])
    mean = ap.aggregate(PEOPLE.where(~here), auxiliary=MACHINE.where(~here))
    without = ap.aggregate(
        PEOPLE.drop_sel(query=QUERIES[3]), auxiliary=MACHINE.drop_sel(query=QUERIES[[3, N_PEOPLE + 2]])
    )
    for name in ("estimate", "interval", "n_queries", "n_machine_queries"):
        np.testing.assert_array_equal(mean[name].sel(model="dense"), without[name].sel(model="dense"))
        np.testing.assert_array_equal(mean[name][[0, 2]], ap.aggregate(PEOPLE, auxiliary=MACHINE)[name][[0, 2]])
    with pytest.raises(AlignmentError, match="'dense' lacks query"):
        ap.compare(PEOPLE.where(~here), auxiliary=MACHINE.where(~here))
    dropped = ap.compare(PEOPLE.where(~here), auxiliary=MACHINE.where(~here), incomplete="drop")
    assert (dropped["n_units"], dropped["n_machine_units"]) == (N_PEOPLE - 1, N_MACHINE - 2)
    # Where only one of the evaluations lacks queries of a model, the model is left out of both.
    for ask in (ap.aggregate, ap.compare):
        fewer = ask(PEOPLE, auxiliary=MACHINE.where(~here), incomplete="drop_models")
        kept = fewer.sel(model=["bm25", "hybrid"])
        np.testing.assert_array_equal(kept["estimate"], ask(PEOPLE, auxiliary=MACHINE)["estimate"][[0, 2]])
        assert ask is ap.compare or fewer["estimate"].sel(model="dense").isnull().all()


def test_several_estimators_are_matched_by_name() -> None:
    people, machine = (
        xr.concat([one, one.assign_coords(estimator=["haldane"]) ** 2], "estimator") for one in (PEOPLE, MACHINE)
    )
    mean = ap.aggregate(people, auxiliary=machine.isel(estimator=[1, 0]))
    np.testing.assert_array_equal(mean["interval"][:, :1], ap.aggregate(PEOPLE, auxiliary=MACHINE)["interval"])
    versus = ap.compare(people, auxiliary=machine.isel(estimator=[1, 0]), estimator="haldane")
    single = ap.compare(people.sel(estimator="haldane"), auxiliary=machine.sel(estimator="haldane"))
    np.testing.assert_array_equal(versus["interval"], single["interval"])


def test_data_sets_as_units() -> None:
    def tree(one: xr.Dataset) -> xr.DataTree:
        return xr.DataTree.from_dict({str(q): one.sel(query=q, drop=True) for q in one["query"].values})

    people, machine = PEOPLE.isel(query=slice(20)), MACHINE.isel(query=slice(40))
    over = ap.aggregate(tree(people), over="dataset", auxiliary=tree(machine))
    np.testing.assert_array_equal(over["interval"], ap.aggregate(people, auxiliary=machine)["interval"])
    assert (over["n_machine_datasets"] == 40).all()
    versus = ap.compare(tree(people), over="dataset", auxiliary=tree(machine))
    np.testing.assert_array_equal(versus["interval"], ap.compare(people, auxiliary=machine)["interval"])


@pytest.fixture(scope="module")
def scores() -> tuple[xr.Dataset, xr.Dataset]:
    """The scores of 24 queries with labels of a machine, which errs, and of 20 of them with labels of people."""
    by_people = queried(n_models=2, n_queries=24, n_items=60)
    label = by_people["label"].values
    turned = (label >= 0) & (np.random.default_rng(2).random(label.shape) < 0.1)
    by_machine = by_people.assign(label=(("query", "item"), np.where(turned, 1 - label, label)))
    return by_people.isel(query=slice(20)), by_machine


OPTIONS: dict[str, Any] = {"missing": "drop", "no_positives": "zero"}


def test_scores_are_evaluated_first(scores: tuple[xr.Dataset, xr.Dataset]) -> None:
    people, machine = scores
    results = [ap.evaluate(one, **OPTIONS) for one in scores]
    mean = ap.aggregate(people, auxiliary=machine, **OPTIONS)
    np.testing.assert_array_equal(mean["interval"], ap.aggregate(results[0], auxiliary=results[1])["interval"])
    assert mean.attrs["method"] == "prediction_powered"
    versus = ap.compare(people, auxiliary=machine, ties="group", missing="last")
    assert versus["n_machine_units"] == 24
    with pytest.raises(InvalidInputError, match=r"options of an evaluation, and this result(.|\n)*evaluation: machine"):
        ap.aggregate(people, auxiliary=results[1], **OPTIONS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"missing": "last"}, "missing='drop' and 'last'"),
        (
            {"no_positives": "drop", "ties": "expectation"},
            "ties='group' and 'expectation'; no_positives='zero' and 'drop'",
        ),
        ({"recall_range": [0.0, 0.5]}, r"recall_range=\[0.0, 1.0\] and \[0.0, 0.5\]"),
        ({"prevalence": 0.2}, "prevalence=None and 0.2"),
    ],
)
def test_other_options_are_refused_by_name(
    scores: tuple[xr.Dataset, xr.Dataset], change: dict[str, Any], message: str
) -> None:
    people, machine = (ap.evaluate(one, **OPTIONS) for one in scores)
    for ask in (ap.aggregate, ap.compare):
        with pytest.raises(InvalidInputError, match=message):
            ask(people, auxiliary=machine.assign_attrs(change))


HIDDEN = MACHINE["query"] == QUERIES[3]


@pytest.mark.parametrize("ask", [ap.aggregate, ap.compare])
@pytest.mark.parametrize(
    ("people", "machine", "error", "message"),
    [
        (PEOPLE, MACHINE.isel(model=[0, 1]), AlignmentError, "lacks models(.|\n)*'hybrid', 'tuned'"),
        (PEOPLE, MACHINE.drop_sel(query=QUERIES[3]), AlignmentError, f"lacks queries(.|\n)*'{QUERIES[3]}'"),
        (PEOPLE, MACHINE.assign_coords(estimator=["haldane"]), AlignmentError, "lacks estimators(.|\n)*'average_pre"),
        (PEOPLE, MACHINE.drop_vars("query"), AlignmentError, "queries are matched (.|\n)* by name"),
        (PEOPLE.drop_vars("model"), MACHINE, AlignmentError, "models are matched (.|\n)* by name"),
        (PEOPLE, xr.concat([MACHINE, MACHINE.isel(query=[0])], "query"), AlignmentError, "more than once|twice|unique"),
        (PEOPLE, MACHINE.mean("query"), AlignmentError, "different dimensions"),
        (PEOPLE, MACHINE.where(~HIDDEN), AlignmentError, f"by people's labels alone: '{QUERIES[3]}'"),
        (PEOPLE.where(~HIDDEN), MACHINE, AlignmentError, f"by machine labels alone: '{QUERIES[3]}'"),
        (PEOPLE, xr.DataTree.from_dict({"other": MACHINE}), AlignmentError, "lacks data sets"),
        (PEOPLE.isel(query=0, drop=True), MACHINE, InvalidInputError, "here there are no queries"),
        (PEOPLE, "machine.zarr", InvalidInputError, "there is no data(.|\n)*evaluation: machine"),
    ],
)
def test_what_does_not_match_is_named(
    ask: Callable[..., Any], people: xr.Dataset, machine: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ask(people, auxiliary=machine)


@pytest.mark.parametrize(
    ("ask", "options", "message"),
    [
        (ap.aggregate, {"method": "bootstrap"}, "received: over=None, method='bootstrap'"),
        (ap.compare, {"over": "items"}, "received: over='items', method=None"),
        (ap.aggregate, {"how": "micro"}, "pools all queries into one ranking"),
        (ap.compare, {"adjust": "romano_wolf"}, "adjust='romano_wolf' needs joint replicates"),
        (ap.rank, {}, "unexpected keyword argument 'auxiliary'"),
    ],
)
def test_other_methods_are_refused(ask: Callable[..., Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises((InvalidInputError, TypeError), match=message):
        ask(PEOPLE, auxiliary=MACHINE, **options)


def test_the_method_needs_a_machine() -> None:
    for ask in (ap.aggregate, ap.compare):
        with pytest.raises(InvalidInputError, match="prediction_powered"):
            ask(PEOPLE, method="prediction_powered")
        named = ask(PEOPLE, auxiliary=MACHINE, over="query", method="prediction_powered")
        xr.testing.assert_identical(named, ask(PEOPLE, auxiliary=MACHINE))


@pytest.mark.filterwarnings("error:people labelled")
@pytest.mark.parametrize("ask", [ap.aggregate, ap.compare])
def test_few_labelled_queries_are_warned_about(ask: Callable[..., Any]) -> None:
    people = result(AREAS[:, :50])
    ask(people, auxiliary=MACHINE)
    with pytest.warns(FewUnitsWarning, match="people labelled 49 queries"):
        ask(people.isel(query=slice(49)), auxiliary=MACHINE)


def test_the_commands(scores: tuple[xr.Dataset, xr.Dataset], tmp_path: Path) -> None:
    stores = [tmp_path / f"{name}.zarr" for name in ("people", "machine")]
    for store, one in zip(stores, scores, strict=True):
        ap.save_scores(xr.DataTree.from_dict({"track": one}), store)
    people, machine = (ap.evaluate(one, **OPTIONS) for one in scores)

    def printed(*words: str) -> str:
        flags = ["--auxiliary", str(stores[1]), "--missing", "drop", "--no-positives", "zero"]
        return CliRunner().invoke(main, [words[0], str(stores[0]), *flags, *words[1:]], catch_exceptions=False).stdout

    mean, versus = (ask(people, auxiliary=machine) for ask in (ap.aggregate, ap.compare))
    low, high = sorted(f"{ratio:.2f}" for ratio in mean["width_ratio"].values.ravel())
    shown = " ".join(printed("aggregate").split())
    assert "mean of 20 queries labelled by people and of machine labels, prediction powered interval" in shown
    assert f"with machine labels, intervals are {low} to {high} times as wide as from people's labels alone" in shown
    assert mean.attrs["design"] in shown
    models = json.loads(printed("aggregate", "--json"))["rankings"][0]["models"]
    ratios = mean["width_ratio"].squeeze()
    assert {one["model"]: one["width_ratio"] for one in models} == ratios.to_series().to_dict()
    (pair,) = json.loads(printed("compare", "--json"))["comparisons"][0]["pairs"]
    cell = versus.sel(model=pair["model"], other_model=pair["other"])
    assert (pair["width_ratio"], pair["tuning"]) == (cell["width_ratio"].item(), cell["tuning"].item())
    assert "with machine labels, intervals are" in " ".join(printed("compare", "--baseline", "m0").split())


@pytest.mark.slow
@pytest.mark.parametrize(("n", "rate", "accuracy"), [(8, 0.8, 0.9), (20, 0.95, 0.95), (40, 0.8, 0.9)])
def test_rates_are_covered_where_a_machine_seems_to_make_no_errors(n: int, rate: float, accuracy: float) -> None:
    random, n_samples = np.random.default_rng(11), 1000
    by_people = random.random((n_samples, 300)) < rate
    by_machine = np.where(random.random(by_people.shape) < accuracy, by_people, ~by_people)
    people, machine = by_people[:, :n].astype(float).tolist(), by_machine.astype(float).tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewUnitsWarning)
        mean = ap.aggregate(
            result(people, range(n), range(n_samples)), auxiliary=result(machine, range(300), range(n_samples))
        )
    lower, upper = mean["interval"].values.reshape(-1, 2).T
    assert np.mean((lower <= rate) & (rate <= upper)) > 0.93  # .94 or more, by 1,000 samples
    assert (upper - lower).min() > 0.02
    assert mean["width_ratio"].mean().item() < 1  # and yet the machine helps
