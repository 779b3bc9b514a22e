"""Friedman's test and what goes with it: the numbers of scipy, scikit-posthocs and baycomp."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from click.testing import CliRunner
from conftest import ok
from reference_cases import oracle

import aucpr_dask as ap
from aucpr_dask.cli import main
from aucpr_dask.errors import InvalidInputError

CASES = oracle("learners")


def result_of(case: dict[str, Any]) -> xr.Dataset:
    """Return areas over (model, query)."""
    coords = {"model": case["models"], "query": case["datasets"]}
    return xr.Dataset({"estimate": (("query", "model"), np.array(case["average_precision"]))}, coords)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
@pytest.mark.parametrize("posthoc", ["nemenyi", "wilcoxon"])
def test_numbers_of_other_packages(case: dict[str, Any], posthoc: str) -> None:
    found = ap.friedman(result_of(case), over="query", posthoc=posthoc)
    assert float(found["statistic"]) == pytest.approx(case["statistic"], rel=1e-12)
    assert float(found["p_value"]) == pytest.approx(case["p"], rel=1e-9)
    assert float(found["critical_distance"]) == pytest.approx(case["critical_distance"], rel=1e-10)
    np.testing.assert_allclose(found["mean_rank"], case["mean_rank"], rtol=1e-12)
    np.testing.assert_allclose(found["p_adjusted"], case[posthoc], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(found["wins"] + found["ties"] + found["losses"], len(case["datasets"]))


def test_bayesian_signed_ranks() -> None:
    known = {name for *pair, _ in CASES[0]["signed_ranks"] for name in pair}
    found = ap.friedman(result_of(CASES[0]).sel(model=sorted(known)), over="query", equivalence=0.01)
    for left, right, expected in CASES[0]["signed_ranks"]:
        shares = found["probability"].sel(model=left, other_model=right)
        np.testing.assert_allclose(shares, expected, atol=0.02)


def test_groups_hold_neighbours_that_are_not_told_apart() -> None:
    found = ap.friedman(result_of(CASES[1]), over="query")
    order = np.argsort(found["mean_rank"].values)
    apart = np.abs(np.subtract.outer(found["mean_rank"].values, found["mean_rank"].values))
    first, last = found["first_group"].values, found["last_group"].values
    share = np.maximum.outer(first, first) <= np.minimum.outer(last, last)
    np.testing.assert_array_equal(share, apart <= float(found["critical_distance"]))
    ax = found.aucpr.plot.critical_difference()
    lines = repr(found.aucpr).splitlines()
    assert lines[0] == f"mean ranks: {len(order)} models"
    assert any(line.startswith("equal mean ranks: p < 0.0001 (Friedman)") for line in lines)
    assert [text.get_text() for text in ax.get_yticklabels()] == [CASES[1]["models"][place] for place in order]


def test_too_few_models_and_other_data() -> None:
    result = result_of(CASES[1])
    with pytest.raises(InvalidInputError, match="three models or more"):
        ap.friedman(result.isel(model=[0, 1]), over="query")
    with pytest.raises(InvalidInputError, match="posthoc"):
        ap.friedman(result, over="query", posthoc="t")
    with pytest.raises(InvalidInputError, match="no mean ranks"):
        result.aucpr.plot.critical_difference()


def test_the_command_shows_mean_ranks_and_refuses_what_they_do_not_have(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    label = random.integers(0, 2, (9, 60))
    score = random.normal(size=(4, 9, 60)) + np.arange(4)[:, None, None] * label
    variables = {"score": (("model", "query", "item"), score), "label": (("query", "item"), label)}
    scores = xr.Dataset(variables, {"model": list("abcd"), "query": list("123456789")})
    ap.save_scores(scores, url := str(tmp_path / "s.zarr"))
    done = ok("compare", url, "--method", "friedman")
    tested = ap.friedman(scores, over="query")
    assert f"critical distance {float(tested['critical_distance']):.2f} (Nemenyi)" in done.stdout
    assert "sample: 9 queries" in done.stdout
    assert "ranks ignore how much models differ" in done.stdout
    document = json.loads(CliRunner().invoke(main, ["compare", url, "--method", "friedman", "--json"]).stdout)
    models = pd.DataFrame(document["comparisons"][0]["models"])
    assert models["model"].tolist() == list("dcba")
    np.testing.assert_allclose(models["mean_rank"], np.sort(tested["mean_rank"]))
    refused = CliRunner().invoke(main, ["compare", url, "--method", "friedman", "--baseline", "a"])
    assert (refused.exit_code, "received: baseline" in refused.stderr) == (2, True)


@pytest.mark.slow
def test_groups_are_data_sets_of_a_sample() -> None:
    random = np.random.default_rng(5)
    label = random.integers(0, 2, 300)
    score = random.normal(size=(3, 300)) + np.arange(3)[:, None] * label
    variables = {"score": (("model", "item"), score), "label": ("item", label)}
    coords = {"model": list("abc"), "dataset": ("item", np.repeat(list("uvwxyz"), 50))}
    scores = xr.Dataset(variables, coords)
    groups, tree = ap.evaluate(scores, by="dataset"), ap.evaluate(ap.to_tree(scores, by="dataset"))
    xr.testing.assert_equal(ap.friedman(groups), ap.friedman(tree))
    xr.testing.assert_equal(ap.aggregate(groups, over="dataset"), ap.aggregate(tree, over="dataset"))
    assert ap.gate(groups, "c", "a", over="dataset") == ap.gate(tree, "c", "a", over="dataset")
