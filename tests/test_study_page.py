"""The tables made from the simulation study are what its script prints, and the study can be repeated."""

import importlib
import json
import math
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import aucpr_dask as ap
from aucpr_dask.simulate.studies import CELL_DIMS, PAPER_ESTIMATORS, PAPER_INTERVALS

DOCS = Path(__file__).parents[1] / "docs"
sys.path.insert(0, str(DOCS.parent))
boyd = importlib.import_module("docs.study.boyd")


@pytest.fixture(scope="module")
def intervals() -> pd.DataFrame:
    return pd.read_csv(DOCS / "study" / "intervals.csv")


@pytest.fixture(scope="module")
def estimates() -> pd.DataFrame:
    return pd.read_csv(DOCS / "study" / "estimates.csv")


@pytest.mark.slow
def test_the_pages_show_what_the_studies_print() -> None:
    command = [sys.executable, "-m", "docs.study", "--print"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=DOCS.parent)
    printed = json.loads(done.stdout)
    assert len(printed) >= 7
    for place, table in printed.items():
        page, _, name = place.partition("#")
        begin, end = (f"<!-- {edge} generated: {name} -->" for edge in ("begin", "end"))
        shown = (DOCS / page).read_text().partition(begin)[2].partition(end)[0]
        assert shown.strip() == table.strip(), f"{place}: run python -m docs.study"


def test_the_recommended_intervals_are_valid_in_the_study() -> None:
    page = (DOCS / "tables.md").read_text()
    for name in ("logit", "wilson", "clopper_pearson"):
        assert f"| `{name}` | always |" in page
    assert "| `influence_logit_t` | from 200 on |" in page


def test_the_tables_are_those_of_the_paper(intervals: pd.DataFrame, estimates: pd.DataFrame) -> None:
    """Figures 4 and 5: bias against items and prevalence; 6 to 8: four intervals of three estimators."""
    assert sum(path.stat().st_size for path in (DOCS / "study").glob("*.csv")) < 300_000
    assert set(PAPER_ESTIMATORS) <= set(estimates["estimator"])
    by_items = estimates[estimates["prevalence"] == 0.1]
    assert set(by_items["n_items"]) == {100, 200, 500, 1000, 2000, 5000, 10_000}
    assert set(estimates[estimates["n_items"] == 1000]["prevalence"]) >= {0.01, 0.05, 0.1, 0.2, 0.3, 0.5}
    of_paper = intervals[(intervals["prevalence"] == 0.1) & intervals["method"].isin(PAPER_INTERVALS)]
    assert len(of_paper) == 3 * 7 * 3 * 4
    assert (of_paper["n_simulations"] == 10_000).all()
    assert of_paper["location_ratio"].notna().all()
    assert (of_paper["n_locations"] >= 250).all()
    assert not estimates.duplicated([*CELL_DIMS, "estimator"]).any()
    assert not intervals.duplicated([*CELL_DIMS, "estimator", "method"]).any()


def test_every_conclusion_of_the_paper_is_judged() -> None:
    """Those of its sections 4.1, 4.2 and 5; a judgment counts the cases in which a conclusion holds."""
    for claim, judge in boyd.CLAIMS.items():
        holds, of, figures = judge(DOCS / "study")
        assert 0 <= holds <= of, claim
        assert of > 0, claim
        assert figures, claim
        assert "nan" not in figures, claim
    page = (DOCS / "simulation-study.md").read_text()
    assert all(f"| {claim} |" in page for claim in boyd.CLAIMS)


def test_the_study_of_the_paper_is_what_the_function_does_by_default() -> None:
    assert set(boyd.ESTIMATORS) == set(PAPER_ESTIMATORS)
    assert boyd.INTERVALS == PAPER_INTERVALS


def test_true_areas_are_those_of_the_scenarios(estimates: pd.DataFrame) -> None:
    for (name, prevalence), group in estimates.groupby(["scenario", "prevalence"]):
        area = getattr(ap.simulate, name)().area(prevalence)
        assert group["true_area"].to_numpy() == pytest.approx(area, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("n_simulations", [300, pytest.param(1000, marks=pytest.mark.nightly)])
def test_another_seed_gives_the_same_within_chance(
    intervals: pd.DataFrame, estimates: pd.DataFrame, n_simulations: int
) -> None:
    methods = ["logit", "bootstrap", "bca", "bootstrap_t", "influence_logit_t", "cross_validation_t"]
    options = {"estimator": PAPER_ESTIMATORS, "interval": methods, "n_simulations": n_simulations, "seed": 1}
    found = ap.simulate.study(n_items=(100, 500), **options)
    compared = 0
    for table, name in ((estimates, "mean"), (intervals, "coverage")):
        here = found[name].to_dataframe()[[name]].join(found[f"{name}_error"].to_dataframe()[[f"{name}_error"]])
        here = here.rename_axis(index={"interval_method": "method"})
        both = table.merge(here.reset_index(), on=[d for d in here.index.names if d in table], suffixes=("", "_here"))
        both = both[both[f"{name}_here"].notna()]
        chance = both.apply(lambda row, name=name: math.hypot(row[f"{name}_error"], row[f"{name}_error_here"]), axis=1)
        assert ((both[name] - both[f"{name}_here"]).abs() <= 4.5 * chance + 1e-3).all()
        compared += len(both)
    assert compared == 6 * 8 + 6 * (6 + 2 * 3)
