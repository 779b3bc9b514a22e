"""The power of a design: what it can show, what a difference needs, in words, in a picture and in a report."""

import re
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from conftest import pooled, queried
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from test_plots import check_legible, legend_of

import aucpr_dask as ap
from aucpr_dask.errors import InvalidInputError
from aucpr_dask.inference.powering import Reach
from aucpr_dask.inference.sentences import of_reach
from aucpr_dask.view import plots

mpl.use("Agg")


def result_of(n_models: int, n_queries: int, seed: int = 0) -> xr.Dataset:
    random = np.random.default_rng(seed)
    values = random.beta(2, 3, size=n_queries) + 0.1 * random.normal(size=(n_models, n_queries))
    return xr.Dataset({"estimate": (("model", "query"), values)}, coords={"model": [f"m{i}" for i in range(n_models)]})


@given(st.integers(2, 60), st.integers(0, 1000), st.sampled_from([0.5, 0.8, 0.95]), st.sampled_from([0.9, 0.95]))
def test_the_detectable_difference_is_that_of_noncentral_t(n: int, seed: int, wanted: float, level: float) -> None:
    result = result_of(2, n, seed)
    found = ap.power(result, "m0", method="t", power=wanted, level=level)["detectable"].values[1]
    error = ap.compare(result, "m0", method="t")["standard_error"].values[1]
    quantile = stats.t.ppf((1 + level) / 2, n - 1)
    assert stats.nct.sf(quantile, n - 1, found / error) == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize("difference", [0.3, 0.1, 0.03, 0.005])
@pytest.mark.parametrize("method", ["t", "sign_flip", "bootstrap_t"])
@pytest.mark.needs("statsmodels")
def test_the_needed_queries_are_those_of_statsmodels(difference: float, method: str) -> None:
    from statsmodels.stats.power import TTestPower

    result = result_of(2, 20)
    found = ap.power(result, "m0", method=method, difference=difference).isel(model=1)
    spread = float((result["estimate"][1] - result["estimate"][0]).std(ddof=1))
    power = TTestPower().power
    n = found["n_needed"].item()
    if method == "t":
        assert power(difference / spread, n, 0.025, alternative="larger") >= 0.8
        assert n == 2 or power(difference / spread, n - 1, 0.025, alternative="larger") < 0.8
    else:
        near = ap.power(result, "m0", method="t", difference=difference)["n_needed"].values[1]
        assert n == pytest.approx(near, rel=0.15, abs=3)
    now = power(difference / spread, 20, 0.025, alternative="larger")
    assert found["power"].item() == pytest.approx(now, abs=0.001 if method == "t" else 0.08)


def test_the_detectable_difference_needs_the_present_number() -> None:
    result = result_of(2, 25)
    detectable = ap.power(result, "m0", method="t")["detectable"].values[1]
    found = ap.power(result, "m0", method="t", difference=detectable * (1 + 1e-6)).isel(model=1)
    assert found["power"].item() == pytest.approx(0.8, abs=1e-3)
    assert found["n_needed"].item() == 25


def test_families_and_neighbours() -> None:
    found = ap.power(result_of(6, 30), difference=0.05)
    pairs = np.triu_indices(6, 1)
    assert (found["detectable_family"].values[pairs] > found["detectable"].values[pairs]).all()
    assert (found["n_needed_family"].values[pairs] > found["n_needed"].values[pairs]).all()
    assert (found["power_family"].values[pairs] < found["power"].values[pairs]).all()
    np.testing.assert_array_equal(found["detectable"], found["detectable"].T)
    order = np.argsort(-result_of(6, 30)["estimate"].mean("query").values)
    for better, next_one in pairwise(order):
        assert found["detectable_rank"].values[better] == found["detectable_family"].values[better, next_one]
    assert np.isnan(found["detectable_rank"].values[order[-1]])
    versus = ap.power(result_of(6, 30), ["m0", "m3"])
    assert versus["detectable"].dims == ("model", "baseline")
    np.testing.assert_allclose(versus["detectable"].sel(baseline="m3"), found["detectable"].sel(other_model="m3"))
    assert "detectable_rank" not in versus


@pytest.mark.slow
def test_neighbours_that_differ_by_the_detectable_are_mostly_told_apart() -> None:
    """The rank sets of two models of three, with new queries in each of 120 simulations."""
    random = np.random.default_rng(0)
    stated = np.mean([ap.power(result_of(2, 30, seed))["detectable_rank"].max().item() for seed in range(50)])
    apart = 0
    for _ in range(120):
        values = random.beta(2, 3, size=30) + 0.1 * random.normal(size=(2, 30)) + np.array([[0.0], [stated]])
        ranks = ap.rank(xr.Dataset({"estimate": (("model", "query"), values)}), n_resamples=1000)
        apart += ranks["simultaneous_rank_interval"].values.tolist() == [[2, 2], [1, 1]]
    assert apart / 120 == pytest.approx(0.8, abs=0.1)


def test_models_that_agree_and_too_few_queries() -> None:
    result = result_of(2, 5)
    found = ap.power(result, difference=0.1)
    assert found["detectable"].values[0, 1] == np.inf
    assert found["power"].values[0, 1] == 0
    assert np.isfinite(found["n_needed"].values[0, 1])
    assert found["n_needed"].values[0, 1] >= 6
    assert found.attrs["summary"].startswith("With 5 queries, no difference can be shown; a difference of 0.1")
    assert ap.power(result_of(3, 5)).attrs["summary"] == "With 5 queries, no difference can be shown"
    for n_queries, (detectable, shown) in {5: (np.inf, 0), 6: (0, 1)}.items():
        one = result_of(2, n_queries).isel(model=[0, 0]).assign_coords(model=["a", "b"])
        alike = ap.power(one, difference=0.1)
        assert alike["detectable"].values[0, 1] == detectable
        assert alike["power"].values[0, 1] == shown
    assert alike.attrs["summary"] == "Over 6 queries, the differences do not vary"


@pytest.mark.parametrize("n_queries", [2, 4, 5, 6])
def test_few_queries_have_a_picture(n_queries: int) -> None:
    ax = result_of(3, n_queries).aucpr.plot.power()
    assert np.isfinite(ax.lines[0].get_ydata()).all()
    check_legible(ax)
    assert not any(label.get_text() for label in ax.get_xticklabels(minor=True))  # they would overlap


def test_a_number_needed_is_whole_and_never_inf_in_words() -> None:
    summary = ap.power(result_of(5, 12), difference=0.1).attrs["summary"]
    assert re.search(r"80 % power by [\d,]+ queries", summary)
    assert "80 % power by billions of queries" in ap.power(result_of(2, 12), difference=1e-9).attrs["summary"]


def test_few_flips_of_signs_need_six_queries_however_large_the_difference() -> None:
    found = ap.power(result_of(2, 10), difference=0.99)
    assert found["n_needed"].values[0, 1] == 6
    assert ap.power(result_of(2, 10), difference=0.99, method="t")["n_needed"].values[0, 1] < 6


def test_items_are_counted_by_their_positives() -> None:
    scores = pooled(3, 2000, share=0.1)
    found = ap.power(scores, "m0", difference=0.05)
    versus = ap.compare(scores, "m0", method="influence")
    n = float(ap.covariance(scores)["n_effective"].min())
    error = versus["standard_error"].values[1]
    quantile = stats.t.ppf(0.975, n + 9)
    assert stats.nct.sf(quantile, n + 9, found["detectable"].values[1] / error) == pytest.approx(0.8, abs=1e-4)
    needed = found["n_needed"].values[1]
    assert needed == pytest.approx(n * (2.8 * error / 0.05) ** 2, rel=0.03)
    assert f"With {n:,.6g} positives, the smallest true difference shown with 80 % power" in found.attrs["summary"]
    half = scores.isel(item=slice(0, None, 2))
    assert ap.power(half, "m0")["detectable"].values[1] == pytest.approx(
        np.sqrt(2) * found["detectable"].values[1], rel=0.15
    )


@pytest.mark.parametrize(
    ("n", "has_units", "words"),
    [
        *[(29, True, "roughly 80 % power"), (30, True, "with 80 % power"), (199, False, "roughly 80 % power")],
        *[(200, False, "with 80 % power"), (np.nan, False, "roughly 80 % power")],
    ],
)
def test_the_power_of_a_small_sample_is_rough(n: float, has_units: bool, words: str) -> None:
    one = np.ones(1)
    reach = Reach(one, one, alpha=0.05, degrees=20, n=n, noun=("one", "many"), has_units=has_units)
    assert words in of_reach(reach, 0.8, 0.95)
    said = of_reach(reach, 0.8, 0.95, others={"by simultaneous intervals": np.array([np.inf])})
    assert said.endswith(", none by simultaneous intervals")


def test_power_near_perfection_and_over_few_positives_is_rough() -> None:
    few, many = pooled(2, 400), pooled(2, 4000)
    perfect = many.assign(score=many["score"] + 5 * many["label"])
    for scores, is_rough in ((few, True), (many, False), (perfect, True)):
        assert ("is shown with roughly" in ap.power(scores, difference=0.5).attrs["summary"]) == is_rough


def test_without_a_count_of_positives_nothing_is_said_of_their_number() -> None:
    result = ap.evaluate(pooled(2, 400), n_resamples=200, keep_replicates=True)
    counted = ap.power(result, difference=0.05)
    uncounted = ap.power(result.drop_vars("n_positive"), difference=0.05)
    assert np.isfinite(counted["n_needed"].values[0, 1])
    assert np.isnan(uncounted["n_needed"]).all()
    np.testing.assert_array_equal(counted["power"], uncounted["power"])
    assert "With these items, the smallest true difference shown" in uncounted.attrs["summary"]
    assert "takes" not in uncounted.attrs["summary"]


def test_a_tree_has_an_answer_for_each_data_set() -> None:
    tree = xr.DataTree.from_dict({"one": queried(3, 9, 40), "two": pooled(3, 800)})
    found = ap.power(tree, "m0", missing="drop")
    assert "9 queries" in found["one"].attrs["summary"]
    assert "positives" in found["two"].attrs["summary"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"difference": 0.0}, "difference must be positive"),
        ({"difference": -0.1}, "difference must be positive"),
        ({"power": 1.0}, "power must lie between 0 and 1"),
        ({"method": "wilcoxon"}, "has no intervals"),
        ({"adjust": "holm"}, "unexpected keyword argument 'adjust'"),
        ({"baseline": "nobody"}, "there is no model 'nobody'"),
        ({"ties": "group"}, "options of an evaluation"),
    ],
)
def test_refusals(options: dict, message: str) -> None:
    with pytest.raises((InvalidInputError, TypeError), match=message):
        ap.power(result_of(3, 10), **options)


def test_the_answer_can_be_stored(tmp_path: Path) -> None:
    found = ap.power(result_of(3, 10), difference=0.1)
    found.to_netcdf(tmp_path / "power.nc")
    xr.testing.assert_equal(xr.open_dataset(tmp_path / "power.nc").load(), found)


def test_the_picture_marks_the_present_number() -> None:
    result = result_of(5, 40).assign_attrs(estimator="average_precision")
    detectable = np.median(ap.power(result)["detectable"].values[np.triu_indices(5, 1)])
    ax = result.aucpr.plot.power(difference=[detectable, detectable / 2])
    check_legible(ax)
    first, second, wanted, now = ax.lines
    assert legend_of(ax)[2:] == ["80 %", "now: 40 queries"]
    assert now.get_xdata()[0] == 40
    assert np.interp(40, first.get_xdata(), first.get_ydata()) == pytest.approx(wanted.get_ydata()[0], abs=0.05)
    assert (np.diff(first.get_ydata()) >= 0).all()
    assert (first.get_ydata() >= second.get_ydata()).all()
    assert ax.get_xlabel() == "queries"
    items = ap.evaluate(pooled(3, 1000), n_resamples=200, keep_replicates=True).aucpr.plot.power()
    assert items.get_xlabel() == "positives"


def test_the_report_says_at_once_what_cannot_be_shown(tmp_path: Path) -> None:
    result = ap.evaluate(queried(4, 30, 40), missing="drop")
    for baseline, pairs in ((None, 6), ("m0", 3)):  # of the family of which the heading speaks
        at = np.nanmedian(ap.power(result, baseline)["detectable_family"].where(lambda found: found > 0))
        said = "With 29 queries, the smallest true difference shown with roughly 80 % power at 5 % is"  # one is empty
        said += f" {at:.2g} (simultaneous intervals, median of {pairs} pairs)."
        page = ap.report(result, tmp_path / "report.html", baseline=baseline, overwrite=True)
        assert said in page.read_text(encoding="utf-8")


def test_its_answer_is_no_result() -> None:
    random = np.random.default_rng(0)
    label = (random.random(80) < 0.4).astype("int8")
    answer = ap.power(ap.evaluate({name: label + random.normal(size=80) for name in "ab"}, label), "a")
    for ask in (ap.compare, ap.rank, ap.aggregate, plots.forest):
        with pytest.raises(InvalidInputError, match="power"):
            ask(answer)
