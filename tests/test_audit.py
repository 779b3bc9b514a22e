"""Audits of leaderboards: numbers against brute force and other functions, gaps, tables, pages."""

import itertools
import json
import time
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from click.testing import CliRunner
from conftest import ok
from hypothesis import given
from hypothesis import strategies as st
from test_report import NASTY, Page

import aucpr_dask as ap
from aucpr_dask.cli import main
from aucpr_dask.errors import AlignmentError, InvalidInputError, StoreError
from aucpr_dask.inference.auditing import (
    EXPECTED,
    expected_ranks,
    leave_out_each,
    shares_of_spread,
)


def mteb(n_models: int = 12, n_tasks: int = 20, *, noise: float = 4.0, seed: int = 0) -> pd.DataFrame:
    """A table as MTEB publishes it: a column of models, their ranks and means, and a column for each task, 0 to 100."""
    random = np.random.default_rng(seed)
    values = 60 + random.normal(0, 5, (n_models, 1)) + random.normal(0, 12, n_tasks)
    values = np.clip(values + random.normal(0, noise, (n_models, n_tasks)), 0, 100).round(2)
    frame = pd.DataFrame(values, columns=[f"Task{i:02d}" for i in range(n_tasks)])
    frame.insert(0, "Rank (Borda)", frame.mean(axis=1).rank(ascending=False))
    frame.insert(1, "Model", [f"org/model-{i:03d}" for i in range(n_models)])
    frame.insert(2, "Mean (Task)", values.mean(axis=1).round(2))
    return frame


def with_gaps(frame: pd.DataFrame, *gaps: tuple[int, str]) -> pd.DataFrame:
    frame = frame.copy()
    for row, task in gaps:
        frame.loc[row, task] = np.nan
    return frame


def swe_bench(n_models: int, n_instances: int, seed: int = 0) -> pd.DataFrame:
    """A table of instances resolved or not."""
    random = np.random.default_rng(seed)
    chance = random.beta(0.7, 0.9, n_instances) + random.normal(0, 0.15, (n_models, 1))
    resolved = (random.random((n_models, n_instances)) < chance).astype(int)
    frame = pd.DataFrame(resolved, columns=[f"repo__{i}" for i in range(n_instances)])
    frame.insert(0, "model", [f"agent {i}" for i in range(n_models)])
    return frame


def values_of(frame: pd.DataFrame) -> np.ndarray:
    return frame.drop(columns=["Model", "Rank (Borda)", "Mean (Task)"]).to_numpy(float)


# --- single units ------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 12), min_size=2, max_size=60), st.floats(0.5, 0.99))
def test_ranks_to_expect_hold_for_enough_of_the_units_left_out_in_turn(ranks: list[int], level: float) -> None:
    held = 0
    for i, rank in enumerate(ranks):
        lower, upper = expected_ranks(np.array([*ranks[:i], *ranks[i + 1 :]], float), level)
        held += lower <= rank <= upper
    assert held >= level * len(ranks) - 1e-9


def test_ranks_to_expect_are_order_statistics() -> None:
    ranks = np.random.default_rng(0).permutation(np.arange(1.0, 20.0))  # 19 units: the 2nd lowest and highest at 80 %
    assert expected_ranks(ranks, 0.8).tolist() == [2, 18]
    assert expected_ranks(ranks[:8], 0.8).tolist() == [-np.inf, np.inf]
    assert np.isfinite(expected_ranks(ranks[:9], 0.8)).all()


@given(st.integers(2, 8), st.integers(2, 7), st.integers(0, 10_000))
def test_leaving_out_each_unit_agrees_with_exact_means(n_models: int, n_units: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, 6, (n_models, n_units))
    values = values[np.argsort(-values.sum(axis=1), kind="stable")]
    ranks = np.array([[1 + np.sum(column > one) for column, one in zip(values.T, row, strict=True)] for row in values])
    found = leave_out_each(values.astype(float), ranks.astype(float), EXPECTED)
    for unit in range(n_units):
        rest = [Fraction(int(row.sum() - row[unit]), n_units - 1) for row in values]
        assert found.leader[unit] == rest.index(max(rest))
        assert found.n_swaps[unit] == sum(rest[i] < rest[j] for i, j in combinations(range(n_models), 2))
        assert found.rank_of_leader[unit] == ranks[rest.index(max(rest)), unit]


@given(st.integers(2, 8), st.integers(2, 7), st.integers(0, 10_000))
def test_shares_of_spread_are_covariances_with_the_mean_and_add_up_to_one(
    n_models: int, n_units: int, seed: int
) -> None:
    values = np.random.default_rng(seed).integers(0, 50, (n_models, n_units))
    means = [Fraction(int(row.sum()), n_units) for row in values]
    deviations = [one - mean(means) for one in means]
    variance = sum(one**2 for one in deviations)
    if variance == 0:
        return
    expected = [
        sum(one * int(value) for one, value in zip(deviations, column, strict=True)) / (n_units * variance)
        for column in values.T
    ]
    shares = shares_of_spread(values.astype(float))
    np.testing.assert_allclose(shares, [float(one) for one in expected], rtol=1e-9, atol=1e-9)
    assert shares.sum() == pytest.approx(1)


@pytest.mark.parametrize("method", ["sign_flip", "bootstrap_t"])
def test_resolution_is_that_of_power_and_observed_gaps_play_no_part(method: str) -> None:
    values = ap.from_values(mteb(noise=2.0).drop(columns=["Rank (Borda)", "Mean (Task)"]), unit_name="task")
    options = {"method": method, "n_resamples": 2000, "seed": 3}
    found = ap.audit(values, **options).findings
    best_first = found["model"].values
    power = ap.power(values, difference=1.0, **options)
    power = power.sel(model=best_first, other_model=best_first)
    detectable = power["detectable_family"].values
    assert found.attrs["resolution"] == pytest.approx(np.median(detectable[np.triu_indices(len(best_first), 1)]))
    assert found.attrs["resolution_of_neighbours"] == pytest.approx(np.median(np.diagonal(detectable, 1)))
    assert "units_to_separate" not in found
    assert "would take" not in repr(ap.audit(values, **options))


# --- findings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["sign_flip", "bootstrap_t"])
def test_findings_are_those_of_compare_and_rank(method: str) -> None:
    values = ap.from_values(mteb(noise=2.0).drop(columns=["Rank (Borda)", "Mean (Task)"]), unit_name="task")
    options = {"method": method, "n_resamples": 2000, "seed": 3}
    found = ap.audit(values, **options).findings
    best_first = found["model"].values
    ranks = ap.rank(values, **options).sel(model=best_first)
    comparison = ap.compare(values, **options).sel(model=best_first, other_model=best_first)
    for name in ("rank", "simultaneous_rank_interval", "first_group", "last_group", "probability_best"):
        np.testing.assert_array_equal(found[name], ranks[name])
    assert list(found["rank"]) == sorted(found["rank"])
    for name, of_pairs in (("p_adjusted_from_next", "p_adjusted"), ("difference_from_next", "difference")):
        np.testing.assert_allclose(found[name][:-1], np.diagonal(comparison[of_pairs], 1))
    shown = comparison["p_adjusted"].values <= 0.05
    assert found.attrs["n_pairs_shown"] == np.triu(shown, 1).sum() > 0
    assert found.attrs["n_neighbours_shown"] == np.diagonal(shown, 1).sum() > 0
    reach = comparison["simultaneous_interval"].diff("ci_bound").values[..., 0] / 2
    error = comparison["standard_error"].values
    above = np.triu_indices(len(best_first), 1)
    if method == "sign_flip":  # the bootstrap's errors differ from Student's
        np.testing.assert_allclose(reach[above], found.attrs["quantile"] * error[above])


def test_an_audit_ranks_by_the_method_of_rank() -> None:
    frame = mteb(n_models=4, n_tasks=30)
    found, ranks = ap.audit(frame).findings, ap.rank(ap.from_values(frame, unit_name="task"))
    assert found.attrs["method"] == ranks.attrs["method"] == "sign_flip"
    same = ["rank_interval", "simultaneous_rank_interval"]
    xr.testing.assert_equal(found[same].sel(model=ranks["model"]), ranks[same])


def test_findings_do_not_depend_on_the_order_of_models_and_tasks() -> None:
    frame = mteb()
    found = ap.audit(frame, n_resamples=500).findings
    tasks = [name for name in frame if name.startswith("Task")]
    turned = ap.audit(frame[["Model", *tasks[::-1]]].iloc[::-1], n_resamples=500).findings
    xr.testing.assert_equal(found, turned)
    assert ap.audit(frame, n_resamples=500, seed=1).findings.attrs["quantile"] != found.attrs["quantile"]


def test_a_benchmark_of_one_deciding_task_is_seen() -> None:
    frame = mteb(6, 9, noise=0.01)
    frame["Task03"] = [10, 90, 20, 80, 30, 70]
    found = ap.audit(frame).findings
    assert found["share_of_spread"].sel(query="Task03") > 0.5
    assert found["swaps_without"].sel(query="Task03") > 0
    assert "Task03" in dict(ap.audit(frame).verdict)["Tasks that decide"]


def test_few_tasks_show_nothing_and_the_verdict_says_so() -> None:
    made = ap.audit(mteb(4, 4))
    said = dict(made.verdict)
    assert said["Resolution"] == "With 4 tasks, no difference can be shown, however large it is."
    assert "4 models may be first" in said["First place"]
    assert made.findings["new_unit_rank_interval"].values.tolist() == [[1, 4]] * 4


def test_equal_models_are_not_told_apart() -> None:
    frame = mteb(5, 12)
    frame.loc[1:, "Task00":] = frame.loc[0, "Task00":].to_numpy()
    found = ap.audit(frame).findings
    assert found.attrs["n_pairs_shown"] == 0
    assert np.isnan(found["share_of_spread"]).all()
    assert (found["rank"] == 3).all()
    assert "org/model-000" in repr(ap.audit(frame))


@pytest.mark.slow
def test_equal_models_seldom_have_neighbours_that_differ_and_ranks_come_out_as_expected() -> None:
    n_false, held = 0, []
    for seed in range(60):
        random = np.random.default_rng(seed)
        values = random.normal(size=(10, 21)) + random.normal(size=21)
        names = {"model": list("abcdefghij"), "query": [f"{i:02d}" for i in range(20)]}
        found = ap.audit(
            xr.Dataset({"estimate": (("model", "query"), values[:, :20])}, names), n_resamples=500
        ).findings
        n_false += found.attrs["n_neighbours_shown"] > 0
        lower, upper = found["new_unit_rank_interval"].sel(model=names["model"]).values.T
        new = 1 + (values[:, 20] > values[:, 20, None]).sum(axis=1)
        held.append(np.mean((lower <= new) & (new <= upper)))
    assert n_false <= 8  # a rate of 0.05 exceeds it once in 700 times
    assert np.mean(held) > EXPECTED - 0.02


# --- gaps --------------------------------------------------------------------------------------------------------


def test_models_with_gaps_are_left_out_and_nothing_is_filled_in() -> None:
    frame = with_gaps(mteb(), (3, "Task01"), (3, "Task02"), (7, "Task05"))
    made = ap.audit(frame, incomplete="drop_models")
    found = made.findings
    without = ap.audit(frame.drop(index=[3, 7])).findings
    xr.testing.assert_equal(found.drop_dims("model_left_out"), without.drop_dims("model_left_out"))
    assert found.attrs["incomplete"] == "drop_models"
    assert dict(zip(found["model_left_out"].values, found["n_units_lacked"].values, strict=True)) == {
        "org/model-003": 2,
        "org/model-007": 1,
    }
    values = values_of(frame)
    kept = [i for i in range(12) if i not in (3, 7)]
    for row, place in zip((3, 7), found["place_on_shared"].values, strict=True):
        has = ~np.isnan(values[row])
        assert place == 1 + sum(values[i, has].mean() > values[row, has].mean() for i in kept)
    said = dict(made.verdict)["Empty cells"]
    assert said.startswith("3 of 240 cells are empty, and none is filled in. 2 models with gaps can't be ranked")


@pytest.mark.parametrize(
    ("gaps", "way"), [([(1, "Task01"), (1, "Task02")], "drop_models"), ([(i, "Task07") for i in range(6)], "drop")]
)
def test_the_way_that_keeps_more_is_taken_and_the_other_is_told(gaps: list[tuple[int, str]], way: str) -> None:
    frame = with_gaps(mteb(), *gaps)
    found = ap.audit(frame).findings
    assert found.attrs["incomplete"] == way
    other = found.attrs["other_incomplete"]
    otherwise = ap.audit(frame, incomplete=other)
    assert {way, other} == {"drop", "drop_models"}
    assert (found.attrs["other_n_models"], found.attrs["other_n_units"]) == (
        otherwise.findings.sizes["model"],
        otherwise.findings.sizes["query"],
    )
    assert found.attrs["other_leader"] == otherwise.findings["model"].values[0]
    assert found.attrs["other_n_may_be_first"] == otherwise.findings.attrs["n_may_be_first"]
    assert otherwise.findings.attrs["other_leader"] == found["model"].values[0]


def test_tasks_left_out_are_named_and_a_way_that_leaves_nothing_is_told() -> None:
    frame = with_gaps(mteb(), *[(i, "Task07") for i in range(12) if i != 5])
    found = ap.audit(frame)
    assert found.findings.attrs["left_out"] == ["Task07"]
    said = dict(found.verdict)["Empty cells"]
    assert "1 task with gaps counts in no mean: Task07." in said
    assert "Leaving out models with gaps instead (incomplete='drop_models') leaves too little." in said
    with pytest.raises(AlignmentError, match="task"):
        ap.audit(frame, incomplete="raise")


def wide(n_models: int, n_tasks: int) -> pd.DataFrame:
    values = np.random.default_rng(0).random((n_models, n_tasks)).round(3)
    table = pd.DataFrame(values, columns=[f"t{i}" for i in range(n_tasks)])
    table.insert(0, "Model", [f"m{i}" for i in range(n_models)])
    return table


def test_a_table_without_a_complete_part_is_refused() -> None:
    frame = mteb(4, 4)
    for i in range(4):
        frame.loc[i, f"Task0{i}"] = np.nan
    with pytest.raises(InvalidInputError, match="lack"):
        ap.audit(frame)


# --- tables ------------------------------------------------------------------------------------------------------


def test_columns_that_rank_or_average_are_no_tasks() -> None:
    frame = mteb()
    made = ap.audit(frame)
    assert made.findings.sizes["query"] == 20
    said = dict(made.verdict)["Columns"]
    assert said.startswith("Taken as tasks: Task00, Task01,")
    assert "Not taken: Rank (Borda) (a rank, by its name), Mean (Task) (a mean or total, by its name)." in said
    renamed = frame.rename(columns={"Task00": "averages of nothing", "Mean (Task)": "Average"})
    assert ap.audit(renamed).findings.sizes["query"] == 20
    assert ap.audit(frame, exclude="Task01").findings.sizes["query"] == 19
    with pytest.raises(InvalidInputError, match="no column"):
        ap.audit(frame, exclude="Task99")


FORMS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "wide": lambda table: table,
    "rows": lambda table: table.set_index("Model").T.rename_axis("task"),
    "tidy": lambda table: table.melt("Model", var_name="task", value_name="score"),
}
MEANS = ["Average", "avg_score", "overall_score", "Mean (all)", "AverageRank", " total"]


@pytest.mark.parametrize(("name", "form"), list(zip(MEANS, itertools.cycle(FORMS), strict=False)))
def test_means_are_no_tasks_in_any_form_of_table(name: str, form: str) -> None:
    table = wide(4, 8)
    whole = table.assign(**{name: table.drop(columns="Model").mean(axis=1)})
    found = ap.audit(FORMS[form](whole))
    assert found.findings.sizes["query"] == 8
    assert name in dict(found.verdict)["Columns"]
    assert ap.audit(whole, exclude="t0").findings.sizes["query"] == 7
    assert ap.audit(table.rename(columns={"t0": "averted", "t1": "meaning"})).findings.sizes["query"] == 8


def test_values_keep_their_word_and_lose_what_is_left_out() -> None:
    values = ap.from_values(wide(4, 8), unit_name="topic")
    assert "8 topics" in repr(ap.audit(values))
    assert "7 seasons" in repr(ap.audit(values, unit_name="season", exclude="t3"))
    with pytest.raises(InvalidInputError, match=r"there is no column[\s\S]*'t9'"):
        ap.audit(values, exclude=["t9"])
    with pytest.raises(InvalidInputError, match="unit_name is an option for tables"):
        ap.audit(xr.DataTree.from_dict({"a": values}), over="dataset", unit_name="season")
    with pytest.raises(InvalidInputError, match="model is an option for tables"):
        ap.audit(values, model="Model")
    areas = xr.Dataset({"estimate": values["estimate"]}).expand_dims(estimator=["average_precision"], axis=-1)
    assert "8 reviews, average precision" in repr(ap.audit(areas, unit_name="review")).replace("_", " ")


def test_models_in_a_column_of_another_name() -> None:
    table = wide(4, 8).rename(columns={"Model": "Contender"})
    with pytest.raises(InvalidInputError, match=r"column of models or of queries[\s\S]*model="):
        ap.audit(table)
    assert ap.audit(table, model="Contender").findings.sizes["model"] == 4


def test_shares_of_tasks_against_which_others_work() -> None:
    table = pd.DataFrame({"Model": ["a", "b"]} | {f"t{i}": [0.9, 0.1] if i < 6 else [0.1, 0.9] for i in range(9)})
    said = dict(ap.audit(table).verdict)["Tasks that decide"]
    assert "others lessen it, and all add up to 100 %" in said
    one_decides = pd.DataFrame({"Model": ["a", "b"], "t0": [0.9, 0.1], "t1": [0.1, 0.3], "t2": [0.1, 0.3]})
    said = dict(ap.audit(one_decides).verdict)["Tasks that decide"]
    assert "Another model leads if task t0 is left out: b (1)" in said


def test_sentences_about_models_without_a_difference() -> None:
    equal = wide(3, 4)
    equal.iloc[:, 1:] = [0.5, 0.25, 0.75, 0.125]
    said = dict(ap.audit(equal).verdict)
    assert said["First place"].startswith("m0, m1, m2 lead with 0.4062")
    assert not any("nan" in sentence for sentence in said.values())
    pair = wide(2, 8)
    assert "of all" not in dict(ap.audit(pair).verdict)["Neighbours"]


def test_a_file_is_read_as_its_table(tmp_path: Path) -> None:
    frame = with_gaps(mteb(), (3, "Task01"))
    frame.to_csv(tmp_path / "board.csv", index=False)
    expected = ap.audit(frame).findings
    for path in (tmp_path / "board.csv", str(tmp_path / "board.csv")):
        xr.testing.assert_equal(ap.audit(path).findings, expected)


def test_instances_resolved_or_not_are_audited() -> None:
    made = ap.audit(swe_bench(15, 120), unit_name="instance")
    assert "With 120 instances" in dict(made.verdict)["Resolution"]
    assert "A new instance" not in dict(made.verdict)  # an instance is resolved or not: there are no ranks on it
    assert made.findings["new_unit_rank_interval"].isnull().all()
    assert "new instance" not in repr(made)


def test_topics_of_trec_agree_with_what_is_known_of_them(real_data: Path) -> None:
    table = pd.read_csv(real_data / "trec-dl-2019-passage" / "expected_ap_by_topic.csv.gz")
    values = ap.from_values(table[["run", "topic", "ap_rel2"]], value="ap_rel2", unit_name="topic")
    found = ap.audit(values, method="sign_flip").findings
    assert (found.sizes["model"], found.sizes["query"]) == (61, 43)
    assert found.attrs["n_neighbours_shown"] == 1
    assert found.attrs["n_pairs_shown"] == 558
    assert found["first_group"].values.tolist().count(1) == 25


def test_data_sets_are_tasks() -> None:
    random = np.random.default_rng(0)
    parts = {
        f"set{i}": xr.Dataset({"estimate": ("model", random.random(4))}, {"model": list("abcd")}) for i in range(10)
    }
    found = ap.audit(xr.DataTree.from_dict(parts), over="dataset")
    assert found.findings.sizes["query"] == 10
    assert "10 data sets" in repr(found)
    with pytest.raises(InvalidInputError, match="an audit is of one table"):
        ap.audit(xr.DataTree.from_dict(parts))


# --- for people --------------------------------------------------------------------------------------------------


def test_the_text_fits_a_terminal() -> None:
    made = ap.audit(mteb(30))
    lines = repr(made).splitlines()
    assert lines[0] == "audit: 30 models, 20 tasks, more is better"
    assert max(map(len, lines)) <= 80
    assert lines[-1] == "and 15 more models"
    assert "org/model" in made._repr_html_()


def test_names_stay_text(tmp_path: Path) -> None:
    names = [name or "empty" for name in NASTY]
    frame = mteb(len(names)).assign(Model=names).rename(columns={"Task00": NASTY[0], "Task01": NASTY[1]})
    made = ap.audit(with_gaps(frame, (2, NASTY[0])))
    for text in (made._repr_html_(), made.save(tmp_path / "page.html").read_text(encoding="utf-8")):
        page = Page(text)
        assert not {"script", "img"} & {tag for tag, _ in page.tags}
        assert "\x1b" not in text
        assert "‮" not in text
    assert "\x1b" not in repr(made)


@pytest.fixture
def page(tmp_path: Path) -> Page:
    frame = with_gaps(mteb(60, 55), (3, "Task01"), (50, "Task02"))
    ap.audit(frame, tmp_path / "audit.html", title="An <audit>", n_resamples=200)
    return Page((tmp_path / "audit.html").read_text(encoding="utf-8"))


def test_the_page_is_static_and_allows_nothing(page: Page) -> None:
    policy = next(attrs["content"] for tag, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert "default-src 'none'; script-src ;" in policy
    assert page.scripts == []
    assert not any({"style", "onclick"} & attrs.keys() for _, attrs in page.tags)
    assert not any(attrs.get("href", "#").startswith("http") for _, attrs in page.tags)
    assert "prefers-color-scheme: dark" in page.styles[0]


def test_the_page_holds_every_model_task_and_sentence(page: Page) -> None:
    for name in (*(f"org/model-{i:03d}" for i in range(60)), *(f"Task{i:02d}" for i in range(55))):
        assert name in page.text
    assert "An <audit>" in page.text
    tags = [tag for tag, _ in page.tags]
    assert tags.count("table") == tags.count("caption") == 5
    assert tags.count("details") >= 2
    targets = {attrs["href"] for tag, attrs in page.tags if tag == "a"}
    assert targets <= {f"#{attrs['id']}" for _, attrs in page.tags if "id" in attrs}


def test_a_page_is_not_replaced_unless_told(tmp_path: Path) -> None:
    made = ap.audit(mteb(), n_resamples=200)
    assert made.save(tmp_path / "audit.html") == tmp_path / "audit.html"
    with pytest.raises(StoreError, match="something at this place"):
        made.save(tmp_path / "audit.html")
    with pytest.raises(StoreError, match="something at this place"):
        ap.audit(mteb(), tmp_path / "audit.html")
    made.save(tmp_path / "audit.html", overwrite=True)


def test_the_command_prints_the_verdict_and_writes_the_page(tmp_path: Path) -> None:
    mteb().to_csv(tmp_path / "board.csv", index=False)
    arguments = ["audit", str(tmp_path / "board.csv"), "--output", str(tmp_path / "page.html"), "--n-resamples", "500"]
    done = ok(*arguments)
    assert "beyond chance" in done.stdout
    assert (tmp_path / "page.html").exists()
    document = json.loads(CliRunner().invoke(main, [*arguments, "--overwrite", "--json"]).stdout)
    assert document["facts"]["n_pairs"] == 66
    assert len(document["models"]["model"]) == 12
    assert CliRunner().invoke(main, arguments).exit_code == 2
    assert CliRunner().invoke(main, ["audit", str(tmp_path / "nowhere.csv")]).exit_code == 2


@pytest.mark.slow
def test_two_hundred_models_on_fifty_tasks_take_less_than_ten_seconds(tmp_path: Path) -> None:
    frame = with_gaps(mteb(200, 50), (3, "Task01"))
    ap.audit(mteb(4, 10))  # compiles
    start = time.process_time()  # not the clock: other tests run at the same time
    ap.audit(frame, tmp_path / "audit.html")
    assert time.process_time() - start < 10


@pytest.mark.slow
def test_the_page_fits_a_phone_and_follows_the_system_to_dark(chromium: Any, tmp_path: Path) -> None:
    ap.audit(mteb(60, 55), tmp_path / "audit.html", n_resamples=200)
    size = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    grounds = []
    for scheme in ("light", "dark"):
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        chromium.get((tmp_path / "audit.html").as_uri())
        assert chromium.execute_script("return document.documentElement.scrollWidth") <= 360
        grounds.append(chromium.execute_script("return getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(255, 255, 255)", "rgb(20, 23, 27)"]
    assert chromium.get_log("browser") == []


def test_the_headline_names_models_with_gaps_that_may_be_first() -> None:
    rng = np.random.default_rng(1)
    values = 60 + rng.normal(0, 8, 30) + np.array([3.0] + [0] * 7)[:, None] + rng.normal(0, 1, (8, 30))
    table = pd.DataFrame(values, pd.Index(list("ABCDEFGH"), name="model"), [f"task {i}" for i in range(30)])
    table.loc["BEST"] = table.loc["A"] + 4
    table.loc["WORST"] = table.loc["A"] - 9
    table.loc[["BEST", "WORST"], "task 3"] = np.nan
    said = dict(ap.audit(table.reset_index(), incomplete="drop_models").verdict)["First place"]
    assert said.startswith("A leads the 8 models without gaps with ")
    assert said.endswith(
        "no other of them may be first. Left out for gaps, but as high on what they share: BEST (place 1)."
    )


def test_a_table_of_predictions_is_refused_with_the_command_that_answers(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    label = random.random(80) < 0.3
    frame = pd.DataFrame({"y": label.astype(int), "a": random.normal(size=80) + label, "b": random.normal(size=80)})
    frame.to_csv(tmp_path / "predictions.csv", index=False)
    done = CliRunner().invoke(main, ["audit", str(tmp_path / "predictions.csv")])
    assert done.exit_code == 2
    command = done.stderr.partition("remedy: aucpr-dask ")[2].split()
    assert command[0] == "rank"
    ok(*command)
