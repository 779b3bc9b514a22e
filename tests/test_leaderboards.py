"""Tables as leaderboards publish them: which columns are tasks, what cells hold, and which direction is better."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from click.testing import CliRunner
from conftest import ok

import aucpr_dask as ap
from aucpr_dask.cli import main
from aucpr_dask.errors import AlignmentError, AucprError, ColumnWarning, FileFormatError, InvalidInputError
from aucpr_dask.interplay import value_tables
from aucpr_dask.interplay.recognising import recognise
from aucpr_dask.interplay.value_columns import is_no_value
from aucpr_dask.interplay.values import taken_in_words

random = np.random.default_rng(7)
MODELS = [f"org/m{i}" for i in range(6)]
TASKS = [f"task {i}" for i in range(5)]
SCORES = pd.DataFrame((60 + random.normal(0, 9, (6, 5))).round(2), MODELS, TASKS).rename_axis("model")
PLAIN = SCORES.reset_index()
WER = {f"{name} WER": PLAIN[task] / 5 for name, task in zip(("AMI", "SPGI", "Vox"), TASKS, strict=False)}
TIDY = PLAIN.melt("model", var_name="task", value_name="score")
SHAPES: dict[str, tuple[Any, dict[str, Any], list[str]]] = {  # made up, with the oddities of public leaderboards
    "embeddings": (
        PLAIN.assign(**{"Max Tokens": 512 * 2 ** np.arange(6), "Embedding Dimensions": 384, "Memory Usage (MB)": "90"}),
        {},
        TASKS,
    ),
    "open models": (
        PLAIN.assign(**{"Average ⬆️": SCORES.mean(axis=1).to_numpy().round(2), "#Params (B)": 7, "Hub License": "mit"}),
        {},
        TASKS,
    ),
    "unnamed mean": (PLAIN.assign(all=SCORES.mean(axis=1).to_numpy().round(1)), {}, TASKS),
    "sum": (PLAIN.assign(points=SCORES.sum(axis=1).to_numpy().round(2)), {}, TASKS),
    "speech": (
        PLAIN[["model"]].assign(**WER, **{"Avg. WER": 11.1, "RTFx": [2000.0, 9, 11, 400, 30, 2]}),
        {"lower_is_better": True},
        [*WER],
    ),
    "arena": (
        PLAIN.assign(**{"rank": range(1, 7), "votes": 1_000_000, "Arena Elo": 1200 + np.arange(6) * 900}),
        {},
        TASKS,
    ),
    "agents": (PLAIN.assign(**{"total_cost": 3.5, "Submission Date": "2026-01-01", "url": "http://x"}), {}, TASKS),
    "tool calls": (PLAIN.assign(**{"Overall Acc": 50.5, "Latency Mean (s)": 1.5, "Organization": "org"}), {}, TASKS),
    "helm": (PLAIN.assign(**{"Mean win rate": 0.5, "Instances": None, "n_parameters": 7}), {}, TASKS),
    "scores": (
        PLAIN.rename(columns={"model": "Model Name"}).assign(
            **{"Score": SCORES.mean(axis=1).to_numpy().round(2), "95% CI": 1.5, "Std": 2.5, "n": 90}
        ),
        {},
        TASKS,
    ),
    "tidy": (TIDY, {}, TASKS),
    "prompts": (TIDY.rename(columns={"task": "Prompt ID", "model": "LLM"}), {}, TASKS),
    "instances": (TIDY.rename(columns={"task": "instance_id", "score": "resolved"}), {}, TASKS),
    "seeds": (pd.concat([TIDY.assign(seed=seed) for seed in range(3)]), {}, TASKS),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_no_task_is_left_out_and_named(shape: str) -> None:
    table, options, tasks = SHAPES[shape]
    made = ap.audit(table, **options)
    assert sorted(made.findings["query"].values) == sorted(tasks)
    said = dict(made.verdict)["Columns"]
    assert "Taken as " in said
    known = {"model", "Model Name", "LLM", "task", "instance_id", "Prompt ID", "score", "resolved", "seed"}
    for name in {*table.columns} - {*tasks} - known:
        assert name in said


def test_the_best_leads_whatever_stands_beside_the_tasks() -> None:
    best = SCORES.mean(axis=1).idxmax()
    for shape in ("embeddings", "open models", "unnamed mean", "sum", "arena", "agents", "tool calls", "seeds"):
        table, options, _ = SHAPES[shape]
        findings = ap.audit(table, **options).findings
        assert findings["model"].values[0] == best
        np.testing.assert_allclose(findings["estimate"][0], SCORES.loc[best].mean())


@pytest.mark.parametrize(
    "name", ["date_understanding", "TokenClassification", "MMLU", "Sizewise", "precision@k", "ARC"]
)
def test_names_of_tasks_stay_tasks(name: str) -> None:
    assert is_no_value(name) is None
    assert name in ap.audit(PLAIN.rename(columns={"task 0": name})).findings["query"].values


@pytest.mark.parametrize("name", ["org/model", "Model (link)", "LLM evaluated"])
def test_models_are_in_a_column_one_of_whose_words_says_so(name: str) -> None:
    cells = {name: ["a", "b", "c"], "Model size": ["7B", "8B", "9B"], "t1": [0.9, 0.8, 0.7], "t2": [0.9, 0.7, 0.8]}
    assert ap.from_values(pd.DataFrame(cells))["model"].values.tolist() == ["a", "b", "c"]


def test_a_column_left_out_can_be_taken_in() -> None:
    table = PLAIN.rename(columns={"task 0": "Mean IoU"})
    assert ap.from_values(table).sizes["query"] == 4
    values = ap.from_values(table, include="Mean IoU")
    assert values.sizes["query"] == 5
    assert "columns_left_out" not in values.attrs
    with pytest.raises(InvalidInputError, match="no column"):
        ap.from_values(table, include="mean iou?")
    with pytest.raises(InvalidInputError, match=r"no column is one of values[\s\S]*include="):
        ap.from_values(pd.DataFrame({"model": ["a", "b"], "rank": [1, 2], "size": [3, 4]}))


CELLS = {
    ("84.6%", "7%", "-"): [84.6, 7, np.nan],
    ("N/A", "\N{EN DASH}", "1,234.5"): [np.nan, np.nan, 1234.5],
    ("True", "false", "null"): [1, 0, np.nan],
    ("12,345", "1", "999"): [12345, 1, 999],
    ("65.0 ± 1.2", "70.1±0.9", "71 +/- 2"): [65, 70.1, 71],
    ("54.2% (1)", "50 % (2)", "-"): [54.2, 50, np.nan],
    ("90.0 (1)", "**91.5** (2)", "92.25*"): [90, 91.5, 92.25],
    ("0.81 [0.7, 0.9]", "\N{MINUS SIGN}0.2", "🥇 0.9"): [0.81, -0.2, 0.9],
    ("1,234.5 ± 1.2", "12.5%", "3"): None,
}


@pytest.mark.parametrize(("cells", "numbers"), CELLS.items())
def test_cells_are_read_as_people_write_them(cells: tuple[str, ...], numbers: list[float], tmp_path: Path) -> None:
    frame = pd.DataFrame({"model": ["a", "b", "c"], "task": "t", "value": cells})
    wide = pd.DataFrame({"model": ["a", "b", "c"], "t": cells, "u": [60.0, 61, 62]})
    if numbers is None:
        for table in (frame, wide):
            with pytest.raises(InvalidInputError, match="row 2, column"):
                ap.from_values(table)
        return
    np.testing.assert_array_equal(ap.from_values(wide, include="t")["estimate"].sel(query="t"), numbers)
    np.testing.assert_array_equal(ap.from_values(frame)["estimate"].values[:, 0], numbers)
    frame.to_csv(tmp_path / "t.csv", index=False)
    np.testing.assert_array_equal(ap.from_values(tmp_path / "t.csv")["estimate"].values[:, 0], numbers)


@pytest.mark.parametrize(
    "cells",
    [
        ("84.6%", "0.85"),
        ("0,846", "0,9"),
        ("1,2345", "2"),
        ("1_0", "2"),
        ("a", "2"),
        ("65,3", "7,25"),
        ("65/70", "1/2"),
    ],
)
def test_cells_that_may_mean_two_things_are_refused(cells: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInputError, match="row 1, column 'value'"):
        ap.from_values(pd.DataFrame({"model": ["a", "b"], "task": "t", "value": cells}))
    with pytest.raises(InvalidInputError, match="row 1, column 't'"):  # beside others, it is not dropped as text
        ap.from_values(pd.DataFrame({"model": ["a", "b"], "t": cells, "u": [1.0, 2.0], "v": [1.0, 3.0]}))


def test_percents_beside_fractions_are_fractions() -> None:
    fractions = PLAIN.set_index("model") / 100
    expected = ap.from_values(fractions.reset_index())["estimate"]
    percents = fractions.assign(**{"task 1": [f"{100 * x:.2f}%" for x in fractions["task 1"]]})
    found = ap.from_values(percents.reset_index())
    np.testing.assert_allclose(found["estimate"], expected)
    assert found.attrs["percents_as_fractions"] == ["task 1"]
    headed = fractions.assign(**{"task 1": fractions["task 1"] * 100}).rename(columns={"task 1": "task 1 (%)"})
    np.testing.assert_allclose(ap.from_values(headed.reset_index())["estimate"], expected)
    with pytest.raises(InvalidInputError, match=r"percents[\s\S]*task 1"):
        ap.from_values(fractions.assign(**{"task 1": fractions["task 1"] * 100}).reset_index())
    all_of_them = PLAIN.set_index("model").map("{:.2f} %".format).reset_index()
    np.testing.assert_array_equal(ap.from_values(all_of_them)["estimate"], SCORES)


def _markdown(frame: pd.DataFrame) -> str:
    rows = [frame.columns, ["---"] * frame.shape[1], *frame.astype(str).to_numpy()]
    return "# A board\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n\n- more\n"


def test_an_audit_reads_a_file_and_each_of_its_columns_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    PLAIN.to_csv(tmp_path / "t.csv", index=False)
    calls = []
    for name in ("_of_file", "_numbers"):
        own = getattr(value_tables, name)
        monkeypatch.setattr(value_tables, name, lambda *a, own=own, name=name: (calls.append(name), own(*a))[1])
    ap.audit(tmp_path / "t.csv", n_resamples=100)
    assert calls.count("_of_file") == 1
    assert calls.count("_numbers") == PLAIN.shape[1] - 1


@pytest.mark.needs("lxml")
def test_files_of_every_format_have_the_same_values(tmp_path: Path) -> None:
    expected = ap.from_values(PLAIN)
    texts = {
        "a.json": PLAIN.to_json(orient="records"),
        "split.json": PLAIN.to_json(orient="split", index=False),
        "models.json": SCORES.to_json(orient="index"),
        "a.jsonl": PLAIN.to_json(orient="records", lines=True),
        "a.md": _markdown(PLAIN.assign(model="**" + PLAIN["model"] + "**")),
        "bare.md": _markdown(PLAIN).partition("\n\n")[2],
        "a.html": f"<h1>Board</h1>{PLAIN.to_html(index=False)}",
        "a.csv": f"\n\n{PLAIN.to_csv(index=False)},,,,,\n\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        xr.testing.assert_equal(ap.from_values(tmp_path / name).sel(expected.coords), expected)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.json", "{", "not a table in JSON"),
        ("a.json", "[" * 10**5, "not a table in JSON"),
        ("a.jsonl", '{"model": "a"}\nx\n', "not a table in JSON"),
        ("a.md", "# nothing", "not one table"),
        ("a.md", f"{_markdown(PLAIN)}\n{_markdown(PLAIN)}", "not one table"),
    ],
)
def test_files_without_one_table_are_refused_by_name(tmp_path: Path, name: str, text: str, words: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(FileFormatError, match=f"{words}[\\s\\S]*{name}"):
        ap.from_values(tmp_path / name)


def test_an_unnamed_first_column_holds_the_models_of_a_leaderboard(tmp_path: Path) -> None:
    SCORES.rename_axis(None).to_csv(tmp_path / "t.csv")
    with pytest.warns(ColumnWarning, match="its cells are taken for models .* or 'task' if its rows are tasks"):
        assert sorted(ap.audit(tmp_path / "t.csv").findings["model"].values) == MODELS
    with pytest.raises(InvalidInputError, match=r"say what a row is"):
        ap.from_values(tmp_path / "t.csv")
    assert sorted(ap.from_values(tmp_path / "t.csv", model="")["model"].values) == MODELS


def test_repeats_are_averaged_and_counted() -> None:
    noise = {seed: TIDY.assign(seed=seed, score=TIDY["score"] + seed) for seed in (0, 1, 5)}
    values = ap.from_values(pd.concat(noise.values()))
    np.testing.assert_allclose(values["estimate"], SCORES + 2)
    assert values.attrs["averaged_over"] == "seed (3 values each)"
    gone = pd.concat(noise.values()).assign(score=lambda t: t["score"].where((t.seed < 5) | (t.model != MODELS[0])))
    assert ap.from_values(gone)["estimate"].sel(model=MODELS[0]).isnull().all()
    with pytest.raises(AlignmentError, match="two values of a measure"):
        ap.from_values(pd.concat([noise[0], noise[0]]))
    with pytest.raises(AlignmentError, match="numbers repeats"):
        ap.from_values(pd.concat(noise.values()).drop(columns="seed"))
    with pytest.raises(AlignmentError, match=r"the rows differ in 'prompt' \(0, 1\)\n.*call it 'repeat'"):
        ap.from_values(pd.concat(noise.values()).rename(columns={"seed": "prompt"}))


@pytest.mark.parametrize("cell", ["n.a.", "N/A", "tbd", "TBA", "?", " - ", "\N{EM DASH}", "None", "NULL", "NaN", ""])
def test_cells_without_a_value_are_gaps(cell: str, tmp_path: Path) -> None:
    board = SMALL.astype(object)
    board.iloc[1, 0] = cell
    (tmp_path / "board.csv").write_text(board.reset_index().to_csv(index=False))
    values = ap.from_values(tmp_path / "board.csv")["estimate"]
    assert values.isnull().sum() == 1
    assert values.sel(model=SMALL.index[1], query=SMALL.columns[0]).isnull()


@pytest.mark.parametrize("cell", ["OOM", "failed", "timeout", "DNF", "*", "running"])
def test_cells_of_what_failed_are_refused(cell: str) -> None:
    board = SMALL.astype(object)
    board.iloc[1, 0] = cell
    with pytest.raises(InvalidInputError, match=r"received: '.*\n.*\n.*0 if a failure counts, empty if not"):
        ap.from_values(board.reset_index())


def test_the_cell_that_is_no_number_is_named_among_percents() -> None:
    with pytest.raises(InvalidInputError, match=r"row 2, column 't'\n *received: 'pending'"):
        ap.from_values(pd.DataFrame({"model": ["a", "b", "c"], "t": ["53%", "pending", "-"], "u": [1.0, 2, 3]}))


def test_values_of_measures_that_are_0_or_1_are_no_labels(tmp_path: Path) -> None:
    rows = [(f"{m}", f"q{q}", q % 2, 1 / (1 + q % 3), 7.5) for m in "ab" for q in range(12)]
    frame = pd.DataFrame(rows, columns=["run_id", "query_id", "hit@1", "rr", "latency_ms"])
    frame.to_csv(tmp_path / "t.csv", index=False)
    found = recognise(str(tmp_path / "t.csv"))
    assert found.holds == "values"
    assert "2 models, 12 queries; measures 'hit@1', 'rr'" in found.kind


def test_one_column_is_one_thing() -> None:
    with pytest.raises(InvalidInputError, match="cannot be two things"):
        ap.from_values(TIDY, value="score", measure="score")


def test_columns_of_measures_are_of_one_task() -> None:
    heads = ["Accuracy", "Precision", "Recall", "F1-Score", "Log Loss"]
    table = PLAIN.set_axis(["Model", *heads], axis=1)
    values = ap.from_values(table)
    assert values["estimate"].dims == ("model", "query", "measure")
    assert values.sizes["query"] == 1
    assert values["measure"].values.tolist() == heads
    assert values.attrs["lower_is_better"] == ["Log Loss"]
    with pytest.raises(InvalidInputError, match=r"one query says nothing about others[\s\S]*include="):
        ap.compare(values.isel(measure=slice(4)))
    assert ap.from_values(table, lower_is_better=["Log Loss"]).attrs["negated"] == ["Log Loss"]  # so they are tasks
    as_tasks = ap.from_values(table, include=heads, lower_is_better=False)
    assert as_tasks["query"].values.tolist() == heads
    of_models = SCORES.T.set_axis(
        [f"{m}_{n}" for m in ("llm", "rag", "both") for n in ("accuracy", "relevance")], axis=1
    )
    crossed = ap.from_values(of_models.rename_axis("question").reset_index())
    assert crossed["model"].values.tolist() == ["llm", "rag", "both"]
    assert crossed["measure"].values.tolist() == ["accuracy", "relevance"]
    np.testing.assert_array_equal(crossed["estimate"].sel(model="rag", measure="relevance"), SCORES.iloc[3])


@pytest.mark.parametrize("names", [("ci_low", "ci_high"), ("lower", "upper"), ("MMLU min", "MMLU max"), ("lb", "ub")])
def test_bounds_of_intervals_are_no_tasks(names: tuple[str, str]) -> None:
    low, high = names
    around = PLAIN.assign(**{low: PLAIN["task 0"] - 1, high: PLAIN["task 0"] + 1})
    values = ap.from_values(around)
    assert values["query"].values.tolist() == TASKS
    assert {name.partition(" (")[0] for name in values.attrs["columns_left_out"]} == {low, high}
    assert ap.from_values(PLAIN.assign(low=73.0, medium=62.0, high=51.0, t=69.0)).sizes["query"] == 9  # of difficulty
    only = PLAIN[["model"]].assign(mean=[5.0, 4, 3, 2, 1, 0], **{low: -1.0, high: 9.0})
    with pytest.raises(InvalidInputError, match="no column is one of values"):
        ap.from_values(only)


def test_ranks_spreads_and_measures_are_no_models_nor_tasks() -> None:
    for name in ("rank", "std", "latency_ms"):
        table = SCORES.T.assign(**{name: [1.0, 2, 3, 4, 5]}).rename_axis("dataset").reset_index()
        with pytest.raises(InvalidInputError, match=rf"headed by models[\s\S]*exclude='{name}'"):
            ap.from_values(table)
        assert ap.from_values(table, exclude=name).sizes["model"] == 6
    mixed = PLAIN.set_axis(["model", "c-index", "ROC AUC", "x", "y", "z"], axis=1)
    with pytest.raises(InvalidInputError, match=r"measures: 'c-index', 'ROC AUC'; others: 'x'[\s\S]*include='c-index'"):
        ap.from_values(mixed)
    assert ap.from_values(mixed, include=["c-index", "ROC AUC"]).sizes["query"] == 5
    assert ap.from_values(PLAIN.rename(columns={"task 0": "similarity"})).sizes["query"] == 5  # may be a task
    timed = PLAIN.assign(latency_ms_per_sample=30.0, throughput_samples_per_sec=3000.0)
    assert ap.from_values(timed)["query"].values.tolist() == TASKS


def test_other_splits_are_left_out_beside_the_test() -> None:
    values = ap.from_values(PLAIN.set_axis(["model", "train_x", "val_x", "test_x", "y", "dev z"], axis=1))
    assert values["query"].values.tolist() == ["test_x", "y", "dev z"]
    assert "train_x (of another split than 'test_x')" in values.attrs["columns_left_out"]


def test_rows_of_a_model_that_another_column_tells_apart_are_explained() -> None:
    table = TIDY.assign(flag=TIDY["score"] > 60).rename(columns={"task": "Challenge", "score": "points"})
    with pytest.raises(AlignmentError, match=r"rows differ in 'Challenge'\n[\s\S]*query='Challenge'[\s\S]*model='Ch"):
        ap.from_values(table)
    assert (
        ap.from_values(table[["model", "Challenge", "points"]], query="Challenge", value="points").sizes["query"] == 5
    )


def test_the_one_table_of_models_on_a_page_is_taken(tmp_path: Path) -> None:
    about = pd.DataFrame({"File": ["a.py"], "Description": ["code"]})
    (tmp_path / "README.md").write_text(f"{_markdown(about)}\n{_markdown(PLAIN)}")
    values = ap.from_values(tmp_path / "README.md")
    assert values["query"].values.tolist() == TASKS
    assert values.attrs["columns_left_out"] == ["File, Description (another table, without models and numbers)"]
    names = pd.DataFrame({"model": ["a", "b"], "licence": ["MIT", "BSD"]})
    tasks = PLAIN.set_index("model").T.rename_axis("dataset").reset_index()
    (tmp_path / "README.md").write_text(f"{_markdown(names)}\n{_markdown(tasks)}")
    with pytest.raises(FileFormatError, match="not one table"):  # not the table of licences
        ap.from_values(tmp_path / "README.md")


def test_a_file_says_that_one_value_of_each_model_is_too_little(tmp_path: Path) -> None:
    PLAIN[["model"]].assign(accuracy=0.5, f1=0.4).to_csv(tmp_path / "t.csv", index=False)
    found = recognise(str(tmp_path / "t.csv"))
    assert "each model has one value of a measure" in found.kind
    assert [words[0] for _, words in found.commands] == ["table", "report"]
    pd.DataFrame({"team": ["a", "b", "c"], "url": "http://x", "is_open": ["yes", "no", "yes"]}).to_csv(
        tmp_path / "u.csv", index=False
    )
    assert recognise(str(tmp_path / "u.csv")).holds == "other"


def test_labels_and_scores_are_found_among_features(tmp_path: Path) -> None:
    rows = np.arange(60)
    table = pd.DataFrame({"Partner": rows % 2, "Phone": rows % 3 == 0, "stickiness": rows / 7, "bill_rate": rows / 9})
    table = table.assign(target_dropout=rows % 5 == 0, old_proba=(rows * 7 % 60) / 60, new_proba=(rows * 11 % 60) / 60)
    table.to_csv(tmp_path / "t.csv", index=False)
    found = recognise(str(tmp_path / "t.csv"))
    roles = {(one.role, one.columns) for one in found.roles}
    assert {("label", ("target_dropout",)), ("models", ("old_proba", "new_proba"))} <= roles
    commands = {words[0]: words for _, words in found.commands}
    done = ok(*commands["compare"])
    assert "stickiness" not in done.stdout
    table[["Partner", "Phone", "stickiness"]].replace({0: "No", 1: "Yes"}).to_csv(tmp_path / "u.csv", index=False)
    assert "label" not in {one.role for one in recognise(str(tmp_path / "u.csv")).roles}  # not the first of several
    (tmp_path / "v.csv").write_text("y;a\n1;0,5\n0;0,25\n")
    assert "decimal comma" in str(recognise(str(tmp_path / "v.csv")))


def _roles_and_commands(path: Path) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Return the role of each column of a table, and the commands that are proposed."""
    found = recognise(str(path))
    return {name: one.role for one in found.roles for name in one.columns}, {c[0]: c for _, c in found.commands}


def test_what_is_proposed_for_one_model_works(tmp_path: Path) -> None:
    rows, path = np.arange(60), tmp_path / "t.csv"
    table = pd.DataFrame({"y": (rows % 5 == 0).astype(int), "proba": (rows * 7 % 60) / 60, "site": rows % 3})
    table.astype({"site": str}).replace({"site": {"0": "a", "1": "b", "2": "c"}}).to_csv(path, index=False)
    _, commands = _roles_and_commands(path)
    assert {*commands} == {"evaluate", "report", "import"}  # nothing to compare
    done = ok(*commands["evaluate"])
    assert "next: aucpr-dask report" in done.output


def test_long_tables_have_one_column_of_scores_whatever_its_name(tmp_path: Path) -> None:
    rows = [(f"m{m}", i, int(i % 4 == 0), (i * 7 + m * i) % 40 / 40) for m in range(2) for i in range(40)]
    table = pd.DataFrame(rows, columns=["model", "case", "obs", "pop"])
    table.to_csv(tmp_path / "t.csv", index=False)
    roles, commands = _roles_and_commands(tmp_path / "t.csv")
    assert roles == {"model": "model", "case": "item", "obs": "label", "pop": "score"}
    done = ok(*commands["compare"])
    assert "m0" in done.stdout
    twice = pd.concat([table.assign(lead=6), table.assign(lead=12)])  # each case twice
    twice.to_csv(tmp_path / "t.csv", index=False)
    assert not _roles_and_commands(tmp_path / "t.csv")[1]
    assert "name it with --item" in recognise(str(tmp_path / "t.csv")).kind


@pytest.mark.parametrize("labels", [("1", "0"), ("ill", "well")])
def test_the_probability_of_the_other_class_is_no_second_model(labels: tuple[str, str], tmp_path: Path) -> None:
    rows = np.arange(60)
    is_ill = rows % 5 == 0
    p = np.round((rows * 7 % 60) / 120 + is_ill / 2, 6)
    table = pd.DataFrame({"y_true": np.where(is_ill, *labels), "prob_0": 1 - p, "prob_1": p})
    table.to_csv(tmp_path / "t.csv", index=False)
    roles, commands = _roles_and_commands(tmp_path / "t.csv")
    assert roles == {"y_true": "label", "prob_0": "metadata", "prob_1": "models"}
    assert "--models" in commands["evaluate"]
    assert "gate" not in commands
    table.assign(prob_0=1 - p[::-1]).to_csv(tmp_path / "t.csv", index=False)
    assert _roles_and_commands(tmp_path / "t.csv")[0]["prob_0"] == "models"


def test_confidence_in_a_predicted_class_is_no_score(tmp_path: Path) -> None:
    rows = np.arange(40)
    classes = np.array(["2:neg", "1:pos"])
    table = pd.DataFrame({"inst#": rows, "actual": classes[rows % 3 // 2], "predicted": classes[rows % 4 // 3]})
    table.assign(error="", prediction=0.5 + rows / 80).to_csv(tmp_path / "t.csv", index=False)  # as WEKA writes it
    roles, commands = _roles_and_commands(tmp_path / "t.csv")
    assert (roles["prediction"], commands) == ("metadata", {})
    assert "of the class in 'predicted', whichever it is" in str(recognise(str(tmp_path / "t.csv")))
    numbers = table.replace({"2:neg": 0, "1:pos": 1}).assign(prediction=0.5 + rows / 80)
    numbers.to_csv(tmp_path / "t.csv", index=False)
    assert _roles_and_commands(tmp_path / "t.csv")[0]["prediction"] == "metadata"
    numbers.rename(columns={"predicted": "is_female"}).to_csv(tmp_path / "t.csv", index=False)
    assert _roles_and_commands(tmp_path / "t.csv")[0]["prediction"] == "models"
    table.assign(error="", prediction=rows / 40).to_csv(tmp_path / "t.csv", index=False)
    assert _roles_and_commands(tmp_path / "t.csv")[0]["prediction"] == "models"


@pytest.mark.parametrize("head", ["dataset   CART    RF", "\\begin{tabular}{lcc}"])
def test_cells_that_are_not_separated_are_not_one_column(head: str, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(f"{head}\npima      0.72    0.77\n")
    with pytest.raises(FileFormatError, match=r"not separated[\s\S]*read_fwf"):
        recognise(str(tmp_path / "t.txt"))


def test_the_remedies_for_a_page_work_at_the_prompt(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text(_markdown(PLAIN.assign(**{"error rate": 60.0 - PLAIN["task 0"] / 9})))
    refused = CliRunner().invoke(main, ["table", str(path)])
    assert refused.exit_code == 2
    assert "--exclude" in refused.output
    for option in ("--exclude", "--lower-is-better"):
        ok("table", path, option, "error rate")
    assert "it is not clear: of some tasks less is better" in recognise(str(path)).kind


def test_folds_of_a_search_are_no_tasks() -> None:
    folds = {f"split{i}_test_score": [0.5 + i / 9, 0.6] for i in range(5)}
    about = {"params": ["{'C': 1}", "{'C': 9}"], "param_C": [1.5, 9], "mean_fit_time": 0.3}
    found = pd.DataFrame(about | folds | {"mean_test_score": [0.72, 0.6], "std_test_score": 0.1, "rank_test_score": 1})
    values = ap.from_values(found, model="params")
    assert values["query"].values.tolist() == [*folds]
    with pytest.raises(InvalidInputError, match="folds and repeats"):
        ap.compare(values)


def test_the_zero_shot_share_of_mteb_is_no_task() -> None:
    table = PLAIN.assign(**{"Zero-shot": "99%", "Embedding Dimensions": 768})
    assert ap.from_values(table)["query"].values.tolist() == TASKS
    assert "Zero-shot" in ap.from_values(PLAIN.assign(**{"Zero-shot": 70.5}))["query"].values


def test_columns_without_a_name_are_said_to_have_none(tmp_path: Path) -> None:
    (tmp_path / "t.md").write_text("|Tasks|Metric| |Value| |\n|-|-|-|-|-|\n|arc|acc|↑|0.4|±|\n")
    with pytest.raises(AlignmentError, match="two columns have no name"):
        ap.from_values(tmp_path / "t.md")


def test_an_arrow_of_an_emoji_leaves_nothing_of_itself() -> None:
    table = PLAIN.assign(**{"Average WER \N{DOWNWARDS BLACK ARROW}\ufe0f": PLAIN[TASKS].mean(axis=1)})
    assert ap.from_values(table).attrs["measure"] == "WER"


def test_grades_percents_and_groups_of_one_label_are_named(tmp_path: Path) -> None:
    rows, path = np.arange(60), tmp_path / "t.csv"
    table = pd.DataFrame({"query": rows // 20, "relevance": rows % 4, "bm25": rows / 7, "dense": rows * 7 % 60 / 60})
    table.to_csv(path, index=False)
    assert (
        "grades or classes, '0', '1', '2', '3' in 'relevance'; to evaluate it, write 1 for" in recognise(str(path)).kind
    )
    refused = CliRunner().invoke(main, ["evaluate", str(path), "--label", "relevance"])
    assert "of grades, write 1 for those that count as positive" in refused.output
    table = pd.DataFrame(
        {"y": rows % 5 // 4, "a": [f"{i}.5%" for i in rows], "b": rows / 60, "c": rows % 5, "d": rows % 3}
    )
    table.astype({"c": str, "d": str}).replace({"c": "0", "d": "0"}, "x").to_csv(path, index=False)
    found = {name: one.why for one in recognise(str(path)).roles for name in one.columns}
    assert "percent sign" in found["a"]
    assert found["c"] == "each of its values has one label"
    assert "values, each in" in found["d"]


def test_a_column_called_data_is_one_of_data_sets() -> None:
    board = pd.DataFrame({"Data": ["cardio", "musk", "glass"], "LOF": [66.3, 58.1, 61.8], "ECOD": [93.5, 95.6, 71.0]})
    values = ap.from_values(board)
    assert (values.attrs["unit"], values["model"].values.tolist()) == ("data set", ["LOF", "ECOD"])


def test_a_table_of_several_classes_is_named(tmp_path: Path) -> None:
    rows = np.arange(60)
    names = np.array(["cat", "dog", "bird"])
    scores = {f"prob_{name}": (rows * 7 % 60) / 60 for name in names}
    table = pd.DataFrame({"image": rows.astype(str), "true_class": names[rows % 3], **scores})
    table.to_csv(tmp_path / "t.csv", index=False)
    found = recognise(str(tmp_path / "t.csv"))
    assert "predictions of 3 classes, 'bird', 'cat', 'dog' in 'true_class'; to evaluate one" in found.kind
    table.assign(true_class=(table["true_class"] == "cat").astype(int)).to_csv(tmp_path / "t.csv", index=False)
    words = ("evaluate", str(tmp_path / "t.csv"), "--label", "true_class", "--models", "prob_cat")
    ok(*words)


# --- direction -------------------------------------------------------------------------------------------------------


LESS = """error rate|ECE|FPR95|Brier score|NLL|perplexity|minDCF|EER|MAPE|MAE|RMSE|CRPS|DER|WER|CER|BPC|toxicity
hallucination rate|time (s)|latency|VRAM (GB)|LPIPS|FID|val_loss|MCD|FNR|log-loss|PPL ↓|Score (lower is better)|TER|MSE
False positive rate|bits per byte|KL divergence|negative log-likelihood|test error (%)|acc ↓|regret
logloss|log loss|PER|HD95|ASSD|FVD|BRISQUE|KL|AURC|E-AURC|EPE|EMD|abs_rel|bad_pixel|MPJPE|ATE|wql|levenshtein|surprisal
risk|miss rate|forgetting|violations|optimality_gap|time_to_solve|ttft|tpot|tokens_used|steps|carbon""".replace(
    "\n", "|"
)


OF_A_SHAPE = {
    "a column": lambda name: ap.from_values(TIDY.rename(columns={"score": name}).assign(params_b=np.arange(30) % 6)),
    "a measure": lambda name: ap.from_values(TIDY.assign(measure=name)),
    "a table": lambda name: ap.from_values(PLAIN, measure=name),
    "columns": lambda name: ap.from_values(
        PLAIN.rename(columns={task: f"{task} {name}" for task in TASKS}), include=[f"{task} {name}" for task in TASKS]
    ),
}
USUAL = LESS.split("|")


@pytest.mark.parametrize(
    ("name", "shape"),
    [*itertools.product(USUAL[:2], OF_A_SHAPE), *zip(USUAL[2:], itertools.cycle(OF_A_SHAPE), strict=False)],
)
def test_of_the_usual_measures_of_error_less_is_better_in_every_shape(name: str, shape: str) -> None:
    values = OF_A_SHAPE[shape](name)
    assert values.attrs["lower_is_better"]
    if name in USUAL[:2]:  # the answers follow the attribute
        audited = ap.audit(values)
        assert audited.findings["model"].values[0] == SCORES.mean(axis=1).idxmin()
        assert "less is better" in repr(audited).splitlines()[0]
        assert "less is better" in repr(ap.compare(values, n_resamples=50).aucpr).splitlines()[1]
    np.testing.assert_array_equal(np.sort(values["estimate"].values.ravel()), np.sort(SCORES.values.ravel()))
    assert "lower_is_better" not in ap.from_values(PLAIN, measure=name, lower_is_better=False).attrs


@pytest.mark.parametrize(
    "name",
    ["err", "neg_log_loss", "1 - WER", "negative RMSE", "no hallucination", "both ↑ ↓", "ASR", "attack success rate"],
)
def test_an_unclear_direction_is_asked_for(name: str) -> None:
    for make in (
        lambda **told: ap.from_values(PLAIN, measure=name, **told),
        lambda **told: ap.from_values(TIDY.rename(columns={"score": name}), **told),
    ):
        with pytest.raises(InvalidInputError, match=r"lower_is_better=True[\s\S]*lower_is_better=False"):
            make()
        assert "lower_is_better" not in make(lower_is_better=False).attrs
        assert make(lower_is_better=True).attrs["lower_is_better"] == [name]


@pytest.mark.parametrize(
    "heads", [("t0 ↑", "ECE ↓", "FPR95 ↓"), ("t0", "t1 (lower is better)", "t2"), ("acc", "x", "NLL")]
)
def test_tasks_of_both_directions_are_not_averaged(heads: tuple[str, ...]) -> None:
    table = PLAIN[["model", *TASKS[:3]]].set_axis(["model", *heads], axis=1)
    for one in (table, table.melt("model", var_name="task", value_name="score")):
        with pytest.raises(InvalidInputError, match=r"lower_is_better=\[\.\.\.\][\s\S]*exclude="):
            ap.audit(one)
    lower = [name for name in heads if name in {"ECE ↓", "FPR95 ↓", "t1 (lower is better)", "NLL"}]
    assert ap.from_values(table, lower_is_better=lower).attrs["negated"] == lower


ERRORS = PLAIN.rename(columns=dict(zip(TASKS, ("AMI", "Earnings22", "Gigaspeech", "SPGI", "Tedlium"), strict=True)))
OF_ERRORS = SCORES.mean(axis=1).to_numpy().round(2)


@pytest.mark.parametrize(
    ("mean", "measure"), [("Average WER ↓", "WER"), ("Mean error ↓", "error"), ("Overall (lower is better)", "value")]
)
@pytest.mark.parametrize("is_weighted", [False, True])
def test_a_mean_that_is_left_out_says_what_its_tasks_are(mean: str, measure: str, is_weighted: bool) -> None:
    weighted = SCORES @ np.array([3, 1, 1, 1, 2]) / 8
    column = weighted.to_numpy().round(2) if is_weighted else OF_ERRORS
    audited = ap.audit(ERRORS.assign(**{mean: column, "RTFx ↑": [418.0, 145, 200, 9, 20, 30]}))
    assert audited.findings["model"].values[0] == SCORES.mean(axis=1).idxmin()
    assert audited.findings.attrs["measure"] == measure
    assert f"{mean} (a mean or total, by its name)" in dict(audited.verdict)["Columns"]


@pytest.mark.parametrize(
    "means",
    [
        {"Average WER ↓": OF_ERRORS, "Average accuracy": OF_ERRORS},
        {"Mean error": 100 - OF_ERRORS},  # of others, if not turned round
        {"Average WER": OF_ERRORS * 3},
    ],
)
def test_means_that_contradict_each_other_or_their_tasks_are_asked_about(means: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=r"not clear[\s\S]*WER|error[\s\S]*lower_is_better=True[\s\S]*False"):
        ap.from_values(ERRORS.assign(**means))
    assert "lower_is_better" not in ap.from_values(ERRORS.assign(**means), lower_is_better=False).attrs
    with pytest.raises(InvalidInputError, match=r"of some tasks less is better[\s\S]*exclude="):
        ap.from_values(ERRORS.rename(columns={"AMI": "AMI ↑"}).assign(**{"Average WER": OF_ERRORS}))


def test_a_mean_of_something_else_says_nothing_of_the_tasks() -> None:
    for beside in ({"Latency Mean (s)": 1.5}, {"Average": OF_ERRORS}, {"Overall Acc": OF_ERRORS}, {"Mean rank": 2.0}):
        assert "lower_is_better" not in ap.from_values(ERRORS.assign(**beside)).attrs


def test_rows_that_are_means_are_left_out_and_named() -> None:
    of_models = pd.concat([PLAIN, pd.DataFrame([{"model": "Average", **SCORES.mean()}])])
    of_tasks = SCORES.T.rename_axis("task")
    of_tasks.loc["Overall mean"] = of_tasks.mean()
    for table in (of_models, of_tasks.reset_index(), TIDY.assign(model=TIDY["model"].replace(MODELS[0], "avg."))):
        values = ap.from_values(table)
        assert values.sizes["query"] == 5
        (said,) = values.attrs["columns_left_out"]
        name = said.removeprefix("row ").partition(" (")[0]
        assert said == f"row {name} (a mean or total, by its name)"
        assert name not in values["model"].values
        assert sum(ap.from_values(table, include=name).sizes.values()) == sum(values.sizes.values()) + 1
        assert said in dict(ap.audit(table).verdict)["Columns"]
    mean_of_columns = SCORES.T.assign(Mean=1.0).rename_axis("task").reset_index()
    assert ap.from_values(mean_of_columns)["model"].values.tolist() == MODELS
    with pytest.raises(InvalidInputError, match="no column"):
        ap.from_values(of_models, include="Averages")


def test_the_first_line_says_one_direction() -> None:
    errors = PLAIN.rename(columns={name: f"Error rate {name}" for name in TASKS})
    assert taken_in_words(ap.from_values(errors)).endswith("Error rate task 4, less is better")
    both = TIDY.assign(rmse=1.0, r2=0.5).drop(columns="score")
    said = "measures 'rmse', 'r2' (estimator=); less is better: rmse; more is better: r2"
    assert taken_in_words(ap.from_values(both)) == f"6 models, 5 tasks; {said}"
    marked = [f"{name} (lower is better)" for name in ("ECE", "Brier", "NLL")]
    values = ap.from_values(PLAIN[["model", *TASKS[:3]]].set_axis(["model", *marked], axis=1))
    assert values["query"].values.tolist() == marked
    assert "negated" not in values.attrs
    assert values.attrs["lower_is_better"] == ["value"]
    assert taken_in_words(ap.from_values(PLAIN, measure="AP")).endswith("task 4; AP, more is better")


def test_an_audit_says_what_was_averaged_and_negated() -> None:
    seeds = pd.concat([TIDY.assign(seed=seed) for seed in range(3)])
    assert "Averaged over seed (3 values each)." in dict(ap.audit(seeds).verdict)["Columns"]
    said = dict(ap.audit(PLAIN, lower_is_better=["task 1"]).verdict)["Columns"]
    assert "Negated, because less is better: task 1." in said
    mixed = (SCORES / 100).assign(**{"task 0": SCORES["task 0"].map("{:.1f}%".format)}).reset_index()
    assert "Percents, read as fractions: task 0." in dict(ap.audit(mixed).verdict)["Columns"]


def test_the_cell_without_a_percent_sign_is_named() -> None:
    table = pd.DataFrame({"model": [*"abc"], "t0": ["40%", "0.41", "39%"], "t1": [0.1, 0.2, 0.3]})
    with pytest.raises(InvalidInputError, match=r"percent sign[\s\S]*row 2, column 't0'[\s\S]*0\.41"):
        ap.from_values(table)


def test_a_mean_of_whole_numbers_is_recognised() -> None:
    table = PLAIN.assign(points=SCORES.mean(axis=1).to_numpy().round())
    assert ap.from_values(table).attrs["columns_left_out"] == ["points (the mean of the others)"]
    alike = pd.DataFrame({"model": [*"abc"], "t0": [10, 50, 90], "t1": [11, 51, 91], "t2": [10, 51, 90]})
    assert ap.from_values(alike).sizes["query"] == 3


@pytest.mark.parametrize(
    "name", ["AUROC ↑", "WER ↑", "ECE (higher is better)", "toxicity_accuracy", "P@5", "ERR@20", "R2"]
)
def test_more_is_better_of_others_whatever_words_they_hold(name: str) -> None:
    made = (
        ap.audit(PLAIN, exclude="task 0", estimator=None)
        if name is None
        else ap.audit(ap.from_values(PLAIN, measure=name))
    )
    assert made.findings["model"].values[0] == SCORES.mean(axis=1).idxmax()
    assert f"{name}, more is better" in repr(made).splitlines()[0]


# --- which column holds the values -----------------------------------------------------------------------------------

BESIDE = {"params_b": 7.0, "fold": 0, "num_fewshot": 5, "n_docs": 900, "release year": 2025, "size": 3, "stderr": 0.1}


@pytest.mark.sparse
@pytest.mark.parametrize("value", ["score", "accuracy", "value", "exact_match", "nDCG@10", "WER", "Rouge-L"])
@pytest.mark.parametrize("first", [True, False])
def test_no_column_beside_the_values_is_taken_for_them(value: str, first: bool) -> None:
    size = dict(zip(MODELS, np.arange(6.0) * 10, strict=True))
    long = TIDY.rename(columns={"score": value})
    beside = pd.DataFrame(BESIDE | {"org": "a"}, index=long.index).assign(
        params_b=long["model"].map(size), ctx=long.index
    )
    table = pd.concat([beside, long] if first else [long, beside], axis=1)
    values = ap.from_values(table)
    np.testing.assert_array_equal(values["estimate"], ap.from_values(long)["estimate"])
    assert values.attrs["measure"] == ("value" if value in ("score", "value") else value)
    assert values["params_b"].sel(model=MODELS[3]) == 30
    assert values["org"].values.tolist() == ["a"] * 6
    said = dict(ap.audit(table).verdict)["Columns"]
    assert all(name in said for name in ("params_b", "ctx", "org"))
    xr.testing.assert_equal(ap.audit(table).findings["estimate"], ap.audit(long).findings["estimate"])


def test_of_several_columns_that_may_hold_values_one_is_asked_for() -> None:
    for names in (["a", "b"], ["score", "accuracy"]):
        table = TIDY.rename(columns={"score": names[0]}).assign(**{names[1]: 1.0})
        for call in (ap.from_values, ap.audit):
            with pytest.raises(InvalidInputError, match=r"not clear which column[\s\S]*value='"):
                call(table)
        assert ap.from_values(table, value=names[0]).sizes["query"] == 5
    given = ap.from_values(TIDY.assign(accuracy=1.0), measure="accuracy")
    assert (given["estimate"] == 1).all()
    with pytest.raises(InvalidInputError, match="no column of values"):
        ap.from_values(TIDY.rename(columns={"score": "num_fewshot"}))


def test_measures_of_one_table_are_named() -> None:
    both = TIDY.rename(columns={"score": "acc"}).assign(f1=-TIDY["score"], params_b=1)
    made = ap.audit(both)
    assert made.findings["model"].values[0] == SCORES.mean(axis=1).idxmax()
    assert "acc, more is better" in repr(made).splitlines()[0]
    assert "f1" in dict(made.verdict)["Columns"]
    assert ap.audit(both, estimator="f1").findings["model"].values[0] == SCORES.mean(axis=1).idxmin()


@pytest.mark.parametrize("form", ["acc_{}", "{} acc", "{}/acc", "{},acc", "{} - acc"])
def test_several_metrics_of_one_task_are_one_task(form: str) -> None:
    names = [f"t{i}" for i in range(5)]
    tables = {
        m: SCORES.set_axis([form.replace("acc", m).format(n) for n in names], axis=1) for m in ("acc", "f1", "acc_norm")
    }
    table = pd.concat([tables["acc"], -tables["f1"], tables["acc_norm"] - 1], axis=1).reset_index()
    values = ap.from_values(table)
    assert values["query"].values.tolist() == names
    assert values["measure"].values.tolist() == ["acc", "f1", "acc_norm"]
    np.testing.assert_array_equal(values["estimate"].sel(measure="f1"), -SCORES)
    assert ap.audit(table).findings.sizes["query"] == 5
    some = ap.from_values(table.drop(columns=tables["acc_norm"].columns[1:]).iloc[:, [0, *range(1, 6), 6, 11]])
    assert some.sizes["query"] == 5
    assert "another metric" in some.attrs["columns_left_out"][0]


def test_columns_of_models_are_no_metadata() -> None:
    table = SCORES.T.rename_axis("topic").reset_index().assign(n_docs=1000)
    with pytest.raises(InvalidInputError, match=r"column 'n_docs'[\s\S]*exclude="):
        ap.from_values(table)
    assert ap.from_values(table, exclude="n_docs").sizes["model"] == 6
    assert ap.from_values(table, include="n_docs").sizes["model"] == 7


# --- direction in every answer ---------------------------------------------------------------------------------------


def test_lower_is_better_is_higher_of_the_negated_values_in_every_answer() -> None:
    low = ap.from_values(PLAIN, measure="WER", lower_is_better=True)
    high = ap.from_values(pd.concat([PLAIN[["model"]], -PLAIN[TASKS]], axis=1), measure="accuracy")
    np.testing.assert_array_equal(low["estimate"], SCORES)
    answers = [
        lambda values: ap.compare(values, MODELS[0]),
        ap.compare,
        ap.rank,
        lambda values: ap.power(values, difference=1.0),
        lambda values: ap.audit(values).findings,
    ]
    for answer in answers:
        found, expected = answer(low), answer(high)
        for name in expected.data_vars:
            sign = -1 if name == "estimate" else 1
            np.testing.assert_array_equal(found[name], sign * expected[name] if sign < 0 else expected[name], str(name))
    gate = ap.gate(low, MODELS[1], MODELS[0])
    assert gate.interval == ap.gate(high, MODELS[1], MODELS[0]).interval
    assert gate.lower_is_better
    assert "better by" in repr(gate)
    assert "better by" in repr(ap.compare(low, MODELS[0]).aucpr)
    leader = SCORES.mean(axis=1).idxmin()
    assert low.aucpr.plot.forest().get_yticklabels()[0].get_text() == leader
    assert repr(low.aucpr).split("\n")[4].split()[1] == leader


def test_one_task_of_which_less_is_better_is_negated() -> None:
    values = ap.from_values(PLAIN, lower_is_better="task 3")
    np.testing.assert_array_equal(values["estimate"].sel(query="task 3"), -SCORES["task 3"])
    np.testing.assert_array_equal(values["estimate"].sel(query="task 2"), SCORES["task 2"])
    assert values.attrs["negated"] == ["task 3"]
    with pytest.raises(InvalidInputError, match="no column"):
        ap.from_values(PLAIN, lower_is_better=["task 9"])


def test_the_commands_take_the_direction_and_keep_it(tmp_path: Path) -> None:
    PLAIN.to_csv(tmp_path / "t.csv", index=False)
    words = ["import", "values", "t.csv", "v.zarr", "--measure", "WER", "--lower-is-better"]  # all
    leader = SCORES.mean(axis=1).idxmin()

    def call(*arguments: str) -> str:
        done = CliRunner().invoke(main, [word if "." not in word else str(tmp_path / word) for word in arguments])
        assert done.exit_code == 0, done.output
        return done.stdout

    said = call(*words)
    assert "task 0, task 1" in said
    assert "less is better: WER" in said
    assert json.loads(call("rank", "v.zarr", "--json"))["ranks"][0]["models"][0]["model"] == leader
    assert f"{leader} leads" in " ".join(call("audit", "v.zarr").split())
    call("report", "v.zarr", "page.html")
    assert f"{leader} leads (WER " in (tmp_path / "page.html").read_text()


def test_a_resubmission_is_named_and_hides_nobody_elses_places() -> None:
    base = 0.5 + random.normal(0, 0.15, 50) + np.linspace(0, 0.12, 20)[:, None] + random.normal(0, 0.06, (20, 50))
    board = pd.DataFrame(base, [f"m{i}" for i in range(20)], [f"t{j}" for j in range(50)]).rename_axis("model")
    again = board.copy()
    again.loc["twin"] = again.loc["m19"] + np.r_[0.05, 0.01, 0.002, np.zeros(47)]
    before, after = (ap.audit(table.reset_index(), n_resamples=2000) for table in (board, again))
    assert "Twins" not in dict(before.verdict)
    assert "twin and m19" in dict(after.verdict)["Twins"] or "m19 and twin" in dict(after.verdict)["Twins"]
    rank_sets = (made.findings["simultaneous_rank_interval"].sel(model=board.index) for made in (before, after))
    sizes = [int(sets.diff("ci_bound").sum()) for sets in rank_sets]
    assert sizes[1] <= sizes[0] + 20  # the twin itself, in the set of each


# --- files of other programs -----------------------------------------------------------------------------------------


def _written(folder: Path, files: dict[str, Any]) -> list[Path]:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        lines = content if name.endswith("l") else [content]
        (folder / name).write_text("\n".join(map(json.dumps, lines)))
    return [folder / name for name in files]


def test_results_and_samples_of_lm_eval(tmp_path: Path) -> None:
    def results(model: str, gain: float) -> dict[str, Any]:
        tasks = {
            f"t{i}": {"alias": "x", "acc,none": gain + i / 10, "acc_stderr,none": 0.1, "ppl,none": i} for i in range(6)
        }
        tasks["t6"] = {"f1,strict": gain}
        groups = {"group_subtasks": {"all_of_t": [*tasks], "t0": []}}
        higher = {name: {"acc": True, "ppl": False} for name in tasks}
        tasks = {"all_of_t": {"acc,none": 0.5}} | tasks
        return {"results": tasks, "config": {"model": "hf"}, "model_name": model, "higher_is_better": higher} | groups

    made = _written(tmp_path, {f"{m}/results_1.json": results(f"org/{m}", g) for m, g in {"a": 0.1, "b": 0.3}.items()})
    values = ap.from_values(made)
    assert values["model"].values.tolist() == ["org/a", "org/b"]
    assert values["query"].values.tolist() == [f"t{i}" for i in range(7)]
    assert values["measure"].values.tolist() == ["acc", "ppl ↓", "f1 (strict)"]
    assert values.attrs["columns_left_out"] == ["group all_of_t (a mean of its tasks)"]
    assert "value_column" not in values.attrs
    assert "less is better: ppl ↓; more is better: acc, f1 (strict)" in taken_in_words(values)
    assert values.attrs["lower_is_better"] == ["ppl ↓"]
    np.testing.assert_allclose(values["estimate"].sel(model="org/b", measure="acc")[:6], 0.3 + np.arange(6) / 10)
    assert ap.audit(made).findings.sizes["query"] == 6
    lines = {
        f"org__{m}/samples_arc_2026-01-01T00-00-00.jsonl": [
            {"doc_id": i, "target": "x", "resps": [], "metrics": ["acc"], "acc": float((i + k) % 3 > 0)}
            for i in range(9)
        ]
        for k, m in enumerate("ab")
    }
    samples = ap.from_values(_written(tmp_path, lines))
    assert samples["model"].values.tolist() == ["org/a", "org/b"]
    assert samples["query"].values[:2].tolist() == ["arc/0", "arc/1"]
    assert samples.attrs["unit"] == "example"


def test_results_of_mteb_helm_and_swe_bench(tmp_path: Path) -> None:
    of_mteb = {
        f"mteb/org__{m}/abc/T{i}.json": {
            "task_name": f"T{i}",
            "scores": {"test": [{"main_score": k / 10, "hf_subset": "en"}, {"main_score": k / 10 + 0.2}], "dev": []},
        }
        for k, m in enumerate("ab")
        for i in range(3)
    } | {f"mteb/org__{m}/abc/model_meta.json": {"name": m} for m in "ab"}
    _written(tmp_path, of_mteb)
    values = ap.from_values(sorted((tmp_path / "mteb").rglob("*.json")))
    assert values["model"].values.tolist() == ["org/a", "org/b"]
    np.testing.assert_allclose(values["estimate"], [[0.1] * 3, [0.2] * 3])
    header = [
        {"value": "Model"},
        {"value": "Mean win rate"},
        {"value": "MMLU - EM"},
        {"value": "BOLD", "lower_is_better": True},
    ]
    table = {"title": "Accuracy", "header": header, "rows": [[{"value": x} for x in ("a", 0.1, 0.5, 0.2)]] * 1}
    helm = _written(tmp_path, {"helm.json": [table, {"title": "Efficiency", "header": header, "rows": []}]})
    with pytest.raises(InvalidInputError, match=r"less: 'BOLD ↓'"):
        ap.from_values(helm)
    assert ap.from_values(helm, exclude="BOLD ↓")["query"].values.tolist() == ["MMLU - EM"]
    reports = {
        "a.json": {"resolved_ids": ["i1", "i2"], "unresolved_ids": ["i3"], "total_instances": 4, "error_ids": ["i4"]},
        "20260101_b/results/results.json": {"resolved": ["i3"], "no_logs": ["i1"]},
    }
    resolved = ap.from_values(_written(tmp_path, reports))
    assert resolved["model"].values.tolist() == ["20260101_b", "a"]
    assert resolved["estimate"].values.tolist() == [[0, 0, 1, 0], [1, 1, 0, 0]]
    assert resolved.attrs["unit"] == "instance"


# --- forty files, read rightly or refused ---------------------------------------------------------------------------

SMALL = pd.DataFrame({"ARC": [61.2, 58.9, 70.4], "HellaSwag": [80.1, 83.2, 85.0], "GSM8K": [30.5, 12.4, 55.1]})
SMALL.index = pd.Index(["a", "b", "c"], name="model")
LONG = SMALL.reset_index().melt("model", var_name="task", value_name="score")
SHARES = (SMALL / 100).round(4)
BEST = ["c", "a", "b"]


def _csv(frame: pd.DataFrame, **options: Any) -> str:
    return frame.to_csv(**options)


def _with(form: str, frame: pd.DataFrame = SMALL) -> pd.DataFrame:
    return frame.map(form.format)


def _tidy(value: str, **more: Any) -> str:
    return LONG.rename(columns={"score": value}).assign(**more).to_csv(index=False)


FILES: dict[str, tuple[str, str | list[str]]] = {
    "plain.csv": (_csv(SMALL), BEST),
    "tabs.tsv": (_csv(SMALL, sep="\t"), BEST),
    "semicolons.csv": (_csv(SMALL, sep=";"), BEST),
    "bom.csv": ("\ufeff" + _csv(SMALL), BEST),
    "windows.csv": (_csv(SMALL).replace("\n", "\r\n"), BEST),
    "quoted.csv": (_csv(SMALL, quoting=1), BEST),
    "blank_lines.csv": (f"\n{_csv(SMALL)}\n,,,\n", BEST),
    "errors.csv": (_csv(_with("{:.1f} ± 1.2")), BEST),
    "plus_minus.csv": (_csv(_with("{:.1f}+/-1.2")), BEST),
    "intervals.csv": (_csv(_with("{:.1f} [1.0, 2.0]")), BEST),
    "ranks_in_cells.csv": (_csv(_with("{:.1f} (2)")), BEST),
    "percents.csv": (_csv(_with("{:.1f}%")), BEST),
    "bold.csv": (_csv(_with("**{:.1f}**")), BEST),
    "notes.csv": (_csv(_with("{:.1f}†")), BEST),
    "percents_beside_shares.csv": (_csv(SHARES.assign(ARC=_with("{:.1f}%")["ARC"])), BEST),
    "hundreds_beside_shares.csv": (_csv(SHARES.assign(ARC=SMALL["ARC"])), "a column may hold percents"),
    "shares_beside_hundreds.csv": (_csv(SMALL.assign(ARC=SHARES["ARC"])), "a column may hold fractions"),
    "commas.csv": (_csv(_with("{:.1f}").map(lambda cell: cell.replace(".", ",")), sep=";"), "not a finite number"),
    "one_comma.csv": (_csv(SMALL.astype(str).replace("58.9", "58,9")), "not a finite number"),
    "one_word.csv": (_csv(SMALL.astype(str).replace("58.9", "5B.9")), "not a finite number"),
    "averages.csv": (_csv(SMALL.assign(Average=SMALL.mean(axis=1).round(2))), BEST),
    "sizes.csv": (_csv(SMALL.assign(**{"#Params (B)": [70.0, 7.0, 1.0], "Hub": "org"})), BEST),
    "ranks.csv": (_csv(SMALL.assign(rank=[3, 2, 1])), BEST),
    "costs.csv": (_csv(SMALL.assign(**{"price ($)": [3.0, 900.0, 1.0]})), BEST),
    "wer.csv": (_csv(SMALL.add_suffix(" WER")), BEST[::-1]),
    "arrows.csv": (_csv(SMALL.add_suffix(" ↓")), BEST[::-1]),
    "both_ways.csv": (_csv(SMALL.rename(columns={"ARC": "AUROC ↑", "GSM8K": "ECE ↓"})), "of some tasks less is better"),
    "long.csv": (_tidy("score"), BEST),
    "long_with_sizes.csv": (_tidy("accuracy", params_b=LONG["model"].map({"a": 70.0, "b": 7.0, "c": 1.5})), BEST),
    "long_with_years.csv": (_tidy("f1", **{"release year": 2020.5}), BEST),
    "long_of_errors.csv": (_tidy("Error rate"), BEST[::-1]),
    "long_lower.csv": (_tidy("Score (lower is better)"), BEST[::-1]),
    "long_of_two.csv": (_tidy("quality", other=LONG["score"] / 2), "it is not clear which column holds the values"),
    "long_negated.csv": (_tidy("neg_log_loss"), "less is better"),
    "seeds.csv": (pd.concat([LONG.assign(seed=seed) for seed in range(3)]).to_csv(index=False), BEST),
    "twice.csv": (pd.concat([LONG, LONG]).to_csv(index=False), "two values of a measure"),
    "metrics.csv": (_csv(pd.concat([SMALL.add_prefix("acc_"), (SMALL / 2).add_prefix("f1_")], axis=1)), BEST),
    "records.json": (SMALL.reset_index().to_json(orient="records"), BEST),
    "models.json": (SMALL.to_json(orient="index"), BEST),
    "lines.jsonl": (SMALL.reset_index().to_json(orient="records", lines=True), BEST),
    "board.md": (_markdown(SMALL.reset_index()), BEST),
    "resolved.json": (json.dumps({"resolved_ids": ["i"], "unresolved_ids": ["j"]}), ["resolved"]),
    "helm.json": (
        json.dumps(
            {
                "title": "Accuracy",
                "header": [{"value": "Model"}, {"value": "Mean win rate"}, *({"value": name} for name in SMALL)],
                "rows": [[{"value": x} for x in (name, 0.5, *SMALL.loc[name])] for name in SMALL.index],
            }
        ),
        BEST,
    ),
    "a.eval": ("".join(f"map\t{q}\t0.5\n" for q in ("q1", "q2")) + "map\tall\t0.5\n", ["a"]),
    "not_their_mean.eval": ("map\tq1\t0.5\nmap\tall\t0.75\n", "the mean of the values is not the one stated"),
    "text.csv": ("model,comment\na,good\nb,bad\n", "no column is one of values"),
    "empty.csv": ("model,ARC\n", "there are no values"),
}


@pytest.mark.parametrize("name", FILES)
def test_forty_files_are_read_rightly_or_refused(name: str, tmp_path: Path) -> None:
    text, expected = FILES[name]
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    if isinstance(expected, str):
        with pytest.raises(AucprError, match=expected):
            ap.from_values(tmp_path / name)
        return
    values = ap.from_values(tmp_path / name)
    estimate = values["estimate"] if "measure" not in values.dims else values["estimate"].isel(measure=0)
    way = -1 if values.attrs.get("lower_is_better") or values.attrs.get("negated") else 1
    mean = estimate.mean("query") * (1 if "negated" in values.attrs else way)
    assert list(values["model"].values[np.argsort(-mean.values, kind="stable")]) == expected
    if len(expected) == 3:
        assert sorted(values["query"].values) == sorted(
            next(head for head in estimate["query"].values if task in head) for task in SMALL
        )
        assert ("lower_is_better" in values.attrs or "negated" in values.attrs) == (expected != BEST)
    assert recognise(str(tmp_path / name)).holds == "values"
