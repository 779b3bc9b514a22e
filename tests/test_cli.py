"""The command line: what it prints, where, and with which exit code."""

import gzip
import json
import lzma
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from click.testing import CliRunner
from conftest import call, ok, pooled, queried
from rich.cells import cell_len

import aucpr_dask
import aucpr_dask as ap
from aucpr_dask import open_scores, save_scores
from aucpr_dask.cli import main
from aucpr_dask.demo import data_folder
from aucpr_dask.evaluation.results import open_result

pytestmark = pytest.mark.filterwarnings("ignore::aucpr_dask.errors.DoubtfulScoresWarning")  # of models of the demo

WIDTH = 80
MOST_LINES = 56  # of a help: a screen


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield ("import trec", command) for every command of the tree."""

    def walk(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
        yield name, command
        if isinstance(command, click.Group):
            for child, one in command.commands.items():
                yield from walk(f"{name} {child}".strip(), one)

    return walk("", main)


COMMANDS = dict(commands())


def shell(*words: str, cwd: Path | None = None, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"COLUMNS": str(WIDTH)}
    return subprocess.run(
        [sys.executable, "-m", "aucpr_dask", *words],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def example_of(command: click.Command) -> list[str]:
    with click.Context(command) as context:
        last = command.get_help(context).splitlines()[-1].strip()
    return shlex.split(last)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the examples in the help texts name."""
    place = tmp_path_factory.mktemp("examples")
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"group": np.repeat(["q1", "q2"], 20), "y": np.tile([1, 0, 0, 0], 10)})
    for name in ("good", "better"):
        table[name] = table["y"] + rng.normal(size=len(table))
    table.to_csv(place / "table.csv", index=False)
    np.savez(place / "scores.npz", scores=table[["good", "better"]].to_numpy().T, y=table["y"].to_numpy())
    dataset = xr.Dataset(
        {
            "score": (("model", "item"), table[["good", "better"]].to_numpy().T),
            "label": ("item", table["y"].to_numpy()),
        },
        coords={"model": ["good", "better"]},
    )
    dataset = dataset.rename(label="truth")
    dataset.to_netcdf(place / "scores.nc", engine="scipy")
    values = pd.DataFrame(rng.random((5, 2)), columns=["good", "better"])
    values.to_csv(place / "ndcg.csv", index_label="topic")
    with data_folder() as data:
        clef = data / "clef-tar-2017-mini"
        (place / "runs").mkdir()
        for run in clef.glob("runs/*.xz"):
            (place / "runs" / f"{run.stem}.gz").write_bytes(gzip.compress(lzma.decompress(run.read_bytes()), 1))
        (place / "qrels.txt").write_bytes(lzma.decompress((clef / "qrels.txt.xz").read_bytes()))
    return place


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    """A small score store with everything that `info` warns of."""
    rng = np.random.default_rng(2)
    label = np.tile([1, 0, 0, 0], 50)
    right = label + rng.normal(size=200)
    rows = {
        "right": right,
        "upside_down": -right,
        "hard": (right > 0.5) * 1.0,
        "constant": np.full(200, 3.0),
        "absent [bold]": np.where(np.arange(200) < 50, np.nan, right),
    }
    tree = xr.DataTree.from_dict(
        {
            "oddities": xr.Dataset(
                {"score": (("model", "item"), np.stack(list(rows.values()))), "label": ("item", label)},
                coords={"model": list(rows)},
            ),
            "one class": xr.Dataset(
                {"score": (("model", "item"), right[None]), "label": ("item", np.zeros(200, int))},
                coords={"model": ["right"]},
            ),
        }
    )
    save_scores(tree, tmp_path / "scores.zarr")
    return tmp_path / "scores.zarr"


@pytest.mark.smoke
@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_in_an_example_and_fits(name: str) -> None:
    lines = ok(*name.split(), "--help").output.splitlines()
    assert lines[-2].strip() == "Example:"
    assert lines[-1].strip().startswith(f"aucpr-dask {name}".strip())
    assert max(map(len, lines)) <= WIDTH
    assert len(lines) <= MOST_LINES
    command, given = COMMANDS[name], example_of(COMMANDS[name])[1 + len(name.split()) :]
    assert isinstance(command, click.Group) or command.make_context(name, given)


@pytest.mark.parametrize("word", ["BEIR", "MAP", "error bars", "slices", "out of memory", "Slurm", "LLM", "thresholds"])
def test_the_top_help_leads_on(word: str) -> None:
    (line,) = [line for line in ok("--help").output.splitlines() if word in line]
    assert ":" in line


def test_rare_options_are_named_and_described_on_demand() -> None:
    first = "More, which --help-all describes:\n  --dim, --label, --pos-label, "
    assert first in ok("compare", "--help").output
    assert "Lowest grade that counts as positive" in ok("compare", "--help-all").output


def test_version() -> None:
    assert ok("--version").output.split()[-1] == aucpr_dask.__version__
    assert shell("--version").stdout.split()[-1] == aucpr_dask.__version__


def expanded(words: list[str], folder: Path) -> list[str]:
    """Replace patterns by the files that a shell would find."""
    found = [sorted(folder.glob(word)) if "*" in word else [folder / word] for word in words]
    return [str(match.relative_to(folder)) for matches in found for match in matches]


@pytest.mark.parametrize("name", [name for name in COMMANDS if name.startswith("import")])
def test_import_examples_work(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = expanded(example_of(COMMANDS[name])[1:], folder)
    monkeypatch.chdir(folder)
    ok(*words, "--overwrite")
    if name == "import values":
        assert aucpr_dask.open_result("values.zarr").sizes == {"model": 2, "query": 5}
        return
    scores = open_scores("scores.zarr")
    assert "score" in scores if isinstance(scores, xr.Dataset) else scores.children


@pytest.mark.slow
def test_every_example_works_after_the_demo(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, one after another in one folder, as a reader would try them."""
    monkeypatch.chdir(shutil.copytree(folder, tmp_path / "examples"))
    board = pd.DataFrame({"Model": ["a", "b"], "one": [0.3, 0.4], "two": [0.5, 0.7]})
    board.to_csv("leaderboard.csv", index=False)
    label, random = np.arange(400) < 40, np.random.default_rng(1)
    for name, skill in {"new": 3.0, "main": 1.0}.items():
        judged = pd.DataFrame({"score": random.normal(size=400) + skill * label, "label": label.astype(int)})
        judged.to_csv(f"{name}.csv", index_label="id")
    sites = pd.DataFrame({"y": label.astype(int), "site": np.resize(["Bern", "Graz"], 400), "a": judged["score"]})
    sites.to_csv("predictions.csv", index=False)
    for name, command in COMMANDS.items():
        if not isinstance(command, click.Group):
            words = expanded(example_of(command)[1:], Path())
            lines = ok(*words, *["--overwrite"] * (name.startswith("import") and "--overwrite" not in words)).output
            assert name not in ("info", "evaluate", "show") or max(map(cell_len, lines.splitlines())) <= WIDTH
    lines = ok("info", "result.zarr").output.splitlines()
    assert max(map(cell_len, lines)) <= WIDTH
    assert any(line.split() == ["level", "0.9"] for line in lines)


@pytest.mark.smoke
def test_import_prints_its_store_and_the_next_command(folder: Path, tmp_path: Path) -> None:
    store = tmp_path / "s.zarr"
    output = ok("import", "table", folder / "table.csv", store, "--label", "y", "--query", "group").stdout
    assert "2 models, 2 queries, 40 items, 1 data set" in output
    assert f"aucpr-dask info {store}" in output


def test_import_json(folder: Path, tmp_path: Path) -> None:
    store = tmp_path / "s.zarr"
    result = ok("import", "table", folder / "table.csv", store, "--label", "y", "--exclude", "group", "--json")
    document = json.loads(result.stdout)
    assert document["store"] == str(store)
    assert (document["summary"]["models"], document["summary"]["items"]) == (2, 40)


def test_table_options_reach_the_importer(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {
            "which": ["yes", "no"] * 6,
            "set": ["a"] * 6 + ["b"] * 6,
            "w": np.arange(12) + 1.0,
            "name": [f"i{i}" for i in range(12)],
            "x": np.arange(12.0),
            "y": np.arange(12.0),
            "z": np.arange(12.0),
        }
    )
    table.to_csv(tmp_path / "t.csv", index=False, sep=";")
    words = "--label which --pos-label yes --dataset set --weight w --item name --exclude z --negate y --dtype float32"
    ok("import", "table", tmp_path / "t.csv", tmp_path / "s.zarr", *words.split(), "--separator", ";")
    first = open_scores(tmp_path / "s.zarr")["a"].to_dataset()
    assert first["score"].dtype == np.float32
    assert first["model"].values.tolist() == ["x", "y"]
    assert first["item"].values.tolist() == [f"i{i}" for i in range(6)]
    np.testing.assert_array_equal(first["label"], [1, 0, 1, 0, 1, 0])
    np.testing.assert_array_equal(first["weight"], np.arange(6) + 1)
    np.testing.assert_array_equal(first["score"].sel(model="y"), -np.arange(6))


def test_info_names_oddities(scores: Path) -> None:
    result = ok("info", scores)
    text = result.stdout
    for warning in ("inverted polarity", "hard scores", "constant scores", "no positives", "missing scores"):
        assert f"{warning}: 1 of 6 rankings" in text, text
    for place in ("oddities: upside_down", "oddities: hard", "oddities: constant", "one class: right"):
        assert place in text
    assert "absent [bold]" in text
    assert "25 %" in text
    shown, command = text.split("next: ")  # a command is one line, whatever the length of its paths
    assert max(map(cell_len, shown.splitlines())) <= WIDTH
    assert "evaluate" in command


def test_info_json(scores: Path) -> None:
    document = json.loads(ok("info", scores, "--json").stdout)
    assert document["kind"] == "scores"
    assert document["n_rankings"] == 6
    sizes = {size["data_set"]: size for size in document["data_sets"]}
    assert (sizes["oddities"]["n_positive"], sizes["oddities"]["n_negative"]) == (50, 150)
    assert sizes["oddities"]["prevalence_median"] == 0.25
    assert sizes["one class"]["n_positive"] == 0
    assert document["missing"] == [
        {"data_set": "oddities", "model": "absent [bold]", "n_missing": 50, "share": 0.25},
    ]


def test_info_of_graded_labels(tmp_path: Path) -> None:
    graded = xr.Dataset({"score": (("model", "item"), [[3.0, 2.0, 1.0, 0.0]]), "label": ("item", [3, 2, 1, 0])})
    save_scores(graded, tmp_path / "s.zarr")
    text = ok("info", tmp_path / "s.zarr").stdout
    assert "labels are graded up to 3; positive here: from 1" in text
    document = json.loads(ok("info", tmp_path / "s.zarr", "--positive-from", "2", "--json").stdout)
    assert document["data_sets"][0]["n_positive"] == 2


@pytest.mark.smoke
def test_evaluate_writes_and_shows_a_result(scores: Path, tmp_path: Path) -> None:
    result = tmp_path / "result.zarr"
    done = ok("evaluate", scores, result, "--missing", "drop", "--workers", 1, "--interval", "wilson", "--level", "0.9")
    assert "90 % interval" in done.stdout
    assert "wilson interval" in done.stdout
    assert f'xarray.open_datatree("{result}")' in done.stdout
    assert "Traceback" not in done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("oddities"))
    assert line.split()[1:3] in (["1", "right"], ["1", "absent"])
    info = ok("info", result).stdout
    assert "oddities" in info
    assert "inverted polarity: 1 of 6" in info
    document = json.loads(ok("show", result, "--json").stdout)
    assert [ranking["data_set"] for ranking in document["rankings"]] == ["oddities", "one class"]
    shown = document["rankings"][0]["models"]
    assert len(shown) == 5
    stored = open_result(result)["oddities"]["estimate"].sel(model=shown[0]["model"]).item()
    assert shown[0]["estimate"] == stored
    assert document["rankings"][1]["models"][0]["estimate"] is None
    assert len(json.loads(ok("show", result, "--json", "--top", 2).stdout)["rankings"][0]["models"]) == 2
    assert "one class" not in ok("show", result, "--dataset", "oddities").stdout
    bad = call("show", result, "--dataset", "other")
    assert bad.exit_code == 2
    assert "'oddities', 'one class'" in bad.stderr
    bad = call("show", result, "--estimator", "lower_trapezoid")
    assert bad.exit_code == 2
    assert "average_precision" in bad.stderr


@pytest.mark.parametrize("options", [["roc_area"], ["recall_at_precision(0.8)"], ["gain_area", "haldane", "discrete"]])
def test_every_estimator_has_a_default_interval(options: list[str], tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    label = (np.arange(80) < 30).astype(np.int8)
    save_scores(
        xr.Dataset({"score": (("model", "item"), (rng.normal(size=80) + label)[None]), "label": ("item", label)}),
        tmp_path / "s.zarr",
    )
    flags = [word for name in options for word in ("--estimator", name)]
    ok("evaluate", tmp_path / "s.zarr", tmp_path / "r.zarr", *flags)
    for name in options:
        assert "[0." in ok("show", tmp_path / "r.zarr", "--estimator", name).stdout
    found = open_result(tmp_path / "r.zarr")
    known = found["interval"].notnull().all("ci_bound")
    assert known.any([dim for dim in known.dims if dim == "interval_method"]).all()
    assert not found["flags"].any()


@pytest.mark.slow
def test_evaluate_json_leaves_stdout_to_the_document(scores: Path, tmp_path: Path) -> None:
    done = shell("evaluate", str(scores), str(tmp_path / "r.zarr"), "--missing", "last", "--workers", "1", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["result"] == str(tmp_path / "r.zarr")
    assert {model["model"] for model in document["rankings"][0]["models"]} >= {"right", "upside_down"}


def test_missing_scores_are_an_error_that_names_them(scores: Path, tmp_path: Path) -> None:
    done = call("evaluate", scores, tmp_path / "r.zarr")
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ")
    assert "absent [bold]" in done.stderr
    assert "50" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "r.zarr").exists()


@pytest.mark.parametrize("command", [["info"], ["show"], ["evaluate", "result.zarr"]])
def test_no_store_is_one_clear_message(command: list[str], tmp_path: Path) -> None:
    absent = tmp_path / "absent.zarr"
    done = call(command[0], absent, *[tmp_path / word for word in command[1:]])
    assert done.exit_code == 2
    assert done.stderr.startswith("Error: there is no store at this place")
    assert str(absent) in done.stderr
    assert not absent.exists()


def test_stores_of_other_kinds_are_refused(scores: Path, tmp_path: Path) -> None:
    done = call("show", scores)
    assert done.exit_code == 2
    assert "this store holds " in done.stderr
    xr.Dataset({"a": ("x", [1.0])}).to_zarr(tmp_path / "other.zarr", consolidated=False, zarr_format=3)
    done = call("info", tmp_path / "other.zarr")
    assert done.exit_code == 2
    assert "another kind" in done.stderr
    (scores / "zarr.json").unlink()
    done = call("info", scores)
    assert done.exit_code == 2
    assert "never finished" in done.stderr


@pytest.fixture
def predictions(tmp_path: Path) -> Path:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"sick": rng.choice(["yes", "no"], 240, p=[0.3, 0.7]), "patient": np.arange(240) // 3})
    frame["site"], frame["study"] = rng.choice(["Bern", "Graz"], 240), np.arange(240) % 4
    for place, name in enumerate(("old", "new")):
        frame[name] = rng.normal(size=240) + (place + 1) * (frame["sick"] == "yes")
    frame.to_csv(tmp_path / "predictions.csv", index=False)
    return tmp_path / "predictions.csv"


@pytest.mark.parametrize(
    ("columns", "asked"),
    [
        ("--clusters patient --by site", "--by site"),
        ("--query study", ""),
        ("--dataset study --models old,new", "--over dataset"),
        ("--weight patient", ""),
    ],
)
def test_a_table_is_enough(predictions: Path, columns: str, asked: str) -> None:
    table, store = predictions, predictions.with_name("scores.zarr")
    read = ["--label", "sick", "--pos-label", "yes", *columns.split()]
    over = asked.split() if "--over" in asked else []
    ok("import", "table", table, store, *read)
    answers = [
        json.loads(ok("compare", place, *words, "--baseline", "old", "--json").stdout)["comparisons"]
        for place, words in ((table, [*read, *over]), (store, asked.split()))
    ]
    assert answers[0] == answers[1]
    said = ok("rank", table, *read, *over).stdout.splitlines()
    assert said[0].startswith(f"{table}: 240 items, ")
    assert "label 'sick' ('yes' is positive); models 'old', 'new'" in said[0]
    assert "next: aucpr-dask report" in " ".join(said)


def test_a_table_is_evaluated_and_reported(predictions: Path) -> None:
    read = ["--label", "sick", "--pos-label", "yes", "--clusters", "patient"]
    result = predictions.with_name("result.zarr")
    lines = [ok("evaluate", *places, *read).stdout.splitlines() for places in ([predictions], [predictions, result])]
    assert lines[0][:3] == lines[1][:3]
    frame = pd.read_csv(predictions)
    scores = ap.from_dataframe(frame, label="sick", pos_label="yes", clusters="patient", models=["old", "new"])
    expected = ap.evaluate(scores)
    for name in ("estimate", "interval"):
        np.testing.assert_array_equal(ap.open_result(result)[name], expected[name])
    page = predictions.with_name("page.html")
    ok("report", predictions, page, *read)
    assert page.stat().st_size > 10_000


def test_options_of_tables_are_refused_for_stores(predictions: Path, scores: Path) -> None:
    for words in (["compare", scores], ["rank", scores], ["evaluate", scores, "new.zarr"], ["aggregate", scores]):
        done = call(*words, "--label", "y")
        assert done.exit_code == 2
        assert "this store has names of its own" in done.stderr
    assert "--label sick" not in call("compare", predictions).stderr  # it holds neither 1 nor 0
    pd.read_csv(predictions).replace({"sick": {"yes": 1, "no": 0}}).to_csv(predictions, index=False)
    assert "name the column of labels: --label sick" in call("compare", predictions).stderr
    assert call("compare", predictions, "--label", "sick", "--dataset", "a", "--dataset", "b").exit_code == 2


def test_info_says_what_a_file_holds(predictions: Path) -> None:
    found = json.loads(ok("info", predictions, "--json").stdout)
    roles = {(role["role"], *role["columns"]) for role in found["roles"]}
    groups = {("by", "site"), ("by", "study")}
    assert roles == groups | {("label", "sick"), ("models", "old", "new"), ("clusters", "patient")}
    predictions.write_text(predictions.read_text().replace("yes", "1").replace("no,", "0,"))
    found = json.loads(ok("info", predictions, "--json").stdout)
    commands = {words[0]: words for _, words in reversed(found["commands"])}
    assert {*commands} == {"evaluate", "compare", "rank", "report", "gate", "import"}
    for name in ("compare", "rank", "gate"):
        assert call(*commands[name]).exit_code in (0, 3), name
    files = {
        "a.run": ("q1 Q0 d1 1 2.5 x\n", "TREC run", "trec"),
        "qrels": ("q1 0 d1 1\n", "judgments", "trec"),
        "run.csv": ("query_id,doc_id,score\nq1,d1,2.5\n", "a run: query_id", "trec"),
        "qrels.csv": ("query-id,corpus-id,relevance\nq1,d1,2\n", "judgments: query-id", "RUNS"),
        "board.csv": ("model,a,b\nx,0.5,0.25\ny,0.25,0.5\n", "2 models, 2 queries", "audit"),
        "one.csv": ("model,a,b\nx,0.5,0.25\n", "1 model, 2 queries", "import values"),
        "unclear.csv": ("model,QA ↑,ECE ↓\nx,0.5,0.25\n", "it is not clear", "--lower-is-better"),
        "solved.csv": ("model,instance,resolved\nx,i,1\ny,i,0\nx,j,0\ny,j,0\n", "2 models, 2 instances", "audit"),
        "instances.csv": ("instance_id,a,b\ni,1,0\nj,0,0\nk,1,1\n", "2 models, 3 instances", "audit"),
        "twice.csv": ("Model,t0,t1,t2\na,1,2,7\na,1,2,7.5\nb,0,2,6\n", "two values of a measure", "--label"),
        "tidy.csv": ("model,id,y,score\nx,i,1,0.5\nx,j,0,0.25\n", "each model and item", "--model"),
    }
    for name, (text, kind, command) in files.items():
        predictions.with_name(name).write_text(text)
        shown = ok("info", predictions.with_name(name)).stdout
        assert kind in shown, shown
        assert command in shown, shown


BOARD = "Method,QA ↑,RTE ↑,FPR95 ↓,ECE ↓\na,0.9,0.8,0.3,0.05\nb,0.92,0.81,0.25,0.06\nc,0.93,0.85,0.22,0.04\n"


@pytest.mark.parametrize("words", ["compare", "rank", "table", "aggregate", "gate --candidate b --baseline a"])
def test_every_command_takes_the_remedies_for_a_table_of_values(words: str, tmp_path: Path) -> None:
    board, (name, *options) = tmp_path / "board.csv", words.split()
    board.write_text(BOARD)
    refused = call(name, board, *options)
    assert refused.exit_code == 2
    assert "of some tasks less is better" in refused.stderr
    assert "--lower-is-better" in refused.stderr
    lower = [word for task in ("FPR95 ↓", "ECE ↓") for word in ("--lower-is-better", task)]
    without = [word for task in ("FPR95 ↓", "ECE ↓") for word in ("--exclude", task)]
    answers = [call(name, board, *options, *chosen) for chosen in (lower, without)]
    assert {answer.exit_code for answer in answers} <= {0, 3}
    assert "negated, because less is better: FPR95 ↓, ECE ↓" in " ".join(answers[0].stdout.split())
    assert "more is better" in answers[1].stdout


def test_options_of_values_are_refused_for_predictions(predictions: Path) -> None:
    refused = call("compare", predictions, "--label", "sick", "--lower-is-better")
    assert refused.exit_code == 2
    assert "'--lower-is-better'" in refused.stderr


def test_a_file_of_one_model_or_of_a_run_names_the_command_that_helps(tmp_path: Path) -> None:
    folder = tmp_path / "swe"
    folder.mkdir()
    for name, ids in {"a": ["i", "j"], "b": ["j"]}.items():
        (folder / f"{name}.json").write_text(json.dumps({"resolved_ids": ids, "ids": ["i", "j", "k"]}))
    (tmp_path / "run.csv").write_text("query_id,doc_id,score\nq1,d1,2.5\n")
    assert "import values" in call("compare", folder / "a.json").stdout
    assert "`aucpr-dask import values`" in call("audit", folder / "a.json").stderr
    assert f"`aucpr-dask import values {folder} values.zarr`" in call("info", folder).stderr
    assert "2 models, 3 instances" in ok("import", "values", folder, tmp_path / "values.zarr").stdout
    assert "import trec" in call("rank", tmp_path / "run.csv").stderr


def test_info_says_what_an_archive_holds(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    event = xr.DataArray((random.random((30, 4)) < 0.4).astype("int8"), dims=("time", "lat"))
    score = xr.DataArray(random.random((2, 30, 4)), {"model": [0, 1]}, ("model", "time", "lat"))
    xr.Dataset({"probability": score, "event": event}).to_zarr(tmp_path / "a.zarr", zarr_format=2)
    found = json.loads(ok("info", tmp_path / "a.zarr", "--json").stdout)
    assert [(one["role"], *one["columns"]) for one in found["roles"]] == [("score", "probability"), ("label", "event")]
    commands = {words[0]: words for _, words in found["commands"]}
    assert {*commands} == {"evaluate", "compare", "rank", "report"}
    assert "items: along time, lat" in ok(*commands["compare"]).stdout


def test_a_table_of_values_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    rows = [(f"m{i}", 7 * i, f"t{j}", i / 10 + random.random() / 5) for i in range(4) for j in range(9)]
    pd.DataFrame(rows, columns=["model", "params_b", "task", "WER"]).to_csv("board.csv", index=False)
    for name in ("aggregate", "compare", "rank", "power", "table", "report"):
        said = " ".join(ok(name, "board.csv").stdout.split())
        assert said.startswith("board.csv: 4 models, 9 tasks; values in column 'WER', less is better; not taken")
    compared = ap.compare(ap.from_values(tmp_path / "board.csv"))
    assert " ".join(compared.attrs["summary"].split()) in " ".join(ok("compare", "board.csv").stdout.split())
    assert "values already" in call("evaluate", "board.csv").stderr


def test_malformed_lines_are_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("y,a\n1,0.5\n0,zero\n")
    done = call("import", "table", tmp_path / "t.csv", tmp_path / "s.zarr", "--label", "y", "--models", "a")
    assert done.exit_code == 2
    assert "t.csv" in done.stderr
    assert "line 3" in done.stderr
    assert not (tmp_path / "s.zarr").exists()


def test_an_existing_store_stays_unless_overwrite(folder: Path, scores: Path) -> None:
    words = ("import", "table", folder / "table.csv", scores, "--label", "y", "--query", "group")
    done = call(*words)
    assert done.exit_code == 2
    assert "--overwrite" in done.stderr
    assert "oddities" in open_scores(scores).children  # type: ignore[union-attr]
    ok(*words, "--overwrite")
    assert isinstance(open_scores(scores), xr.Dataset)


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["evaluate", "a"],
        ["evaluate", "a", "b", "--missing", "maybe"],
        ["import", "table", "t.csv"],
        ["--no"],
    ],
)
def test_wrong_usage_is_exit_code_two_with_usage(words: list[str]) -> None:
    done = call(*words)
    assert done.exit_code == 2
    assert done.stderr.startswith("Usage: ")


def test_unexpected_errors_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(url: str) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("aucpr_dask.open_result", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        call("show", "x")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
@pytest.mark.parametrize(("name", "exit_code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_interruption_is_one_line_and_a_code(tmp_path: Path, name: str, exit_code: int) -> None:
    save_scores(pooled(), tmp_path / "a")
    handler = "default_int_handler" if name == "SIGINT" else "SIG_DFL"
    code = (
        "import signal, time, aucpr_dask.runs.run\n"
        f"signal.signal(signal.{name}, signal.{handler})\n"  # which nohup may ignore
        "def run(*args, **kwargs):\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
        "aucpr_dask.runs.run.run = run\n"
        "from aucpr_dask.cli import main\n"
        "main(['evaluate', 'a', 'b'])\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(getattr(signal, name))
    _, errors = process.communicate(timeout=30)
    assert process.returncode == exit_code
    assert [line for line in errors.splitlines() if line] == [errors.strip()]
    assert errors.strip().startswith("interrupted")


@pytest.mark.slow
def test_a_closed_output_is_one_that_nobody_reads(tmp_path: Path) -> None:
    save_scores(pooled(), tmp_path / "scores.zarr")
    for words, code in ((["info", "scores.zarr"], 0), (["info", "nothing.zarr"], 2)):
        command = f"{sys.executable} -m aucpr_dask {' '.join(words)} >&- 2>&- <&-"
        assert subprocess.run(command, shell=True, cwd=tmp_path, check=False).returncode == code


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("words", [["--help"], ["info", "scores.zarr"], ["info", "scores.zarr", "--json"]])
def test_a_full_output_is_one_line_of_error(tmp_path: Path, words: list[str]) -> None:
    save_scores(pooled(2, 20), tmp_path / "scores.zarr")
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "aucpr_dask", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: the output, or a temporary file, cannot be written: No space left on device")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("--estimator ap", "average_precision"),
        ("--estimator continuos_", "continuous"),
        ("--interval logitt", "logit"),
        ("--convention trec-eval", "trec_eval"),
        ("--missing unretreived", "unretrieved"),
        ("--dataset topic", "topics"),
    ],
)
def test_a_misspelt_word_is_answered_by_the_right_one(tmp_path: Path, words: str, meant: str) -> None:
    tree = xr.DataTree.from_dict({"topics": queried(), "items": pooled()})
    ap.save_scores(tree, tmp_path / "s.zarr")
    result = call("evaluate", tmp_path / "s.zarr", tmp_path / "r.zarr", *words.split())
    assert result.exit_code == 2
    assert f"id you mean {meant!r}?" in result.output
    assert not (tmp_path / "r.zarr").exists()


@pytest.mark.slow
def test_every_command_takes_some_of_the_data_sets(tmp_path: Path) -> None:
    tree = xr.DataTree.from_dict({"topics": queried(), "items": pooled(), "others": pooled(seed=3)})
    source, result = tmp_path / "s.zarr", tmp_path / "r.zarr"
    ap.save_scores(tree, source)
    some = ("--dataset", "items", "--dataset", "topics")
    assert "others" not in ok("info", source, *some).output
    assert json.loads(ok("plan", source, *some, "--json").stdout)["tasks"].startswith("2")
    ok("evaluate", source, result, *some)
    first = ap.open_result(result)
    assert isinstance(first, xr.DataTree)
    assert sorted(first.children) == ["items", "topics"]
    ok("report", result, tmp_path / "page.html", "--dataset", "items")
    assert "topics" not in (tmp_path / "page.html").read_text().partition("<script")[0]
    ok("evaluate", source, result)  # adds the others
    xr.testing.assert_equal(ap.open_result(result)["others/estimate"], ap.evaluate(tree)["others/estimate"])
    fewer = call("evaluate", source, result, "--dataset", "topics")
    assert fewer.exit_code == 2


@pytest.mark.parametrize("is_terminal", [True, False])
def test_lines_end_between_words_at_a_terminal_and_stay_whole_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    data = pooled(2, 3000, seed=1)
    table = pd.DataFrame({"label": data["label"].values, "site": np.resize(["Bern", "Graz"], 3000)})
    table[["the_model_in_use", "the_candidate"]] = data["score"].values.T
    table.to_csv(tmp_path / "predictions.csv", index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rich.console.Console.is_terminal", is_terminal)
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    gate = ["gate", "predictions.csv", "--label", "label", "--by", "site", "--margin", "0.1"]
    for words in (
        ["info", "predictions.csv"],
        [*gate, "--candidate", "the_candidate", "--baseline", "the_model_in_use"],
    ):
        lines = CliRunner().invoke(main, words).stdout.splitlines()
        assert (max(map(cell_len, lines)) <= WIDTH) == is_terminal
        if words[0] == "info":
            commands = "\n".join(lines).replace(" \\\n ", "").splitlines()
            found = [shlex.split(line.split(": ", 1)[1]) for line in commands if ": aucpr-dask " in line]
            assert ["aucpr-dask", "compare", "predictions.csv", "--label", "label"] in found
        elif not is_terminal:
            assert [line.split(":")[0] for line in lines[:3]] == ["predictions.csv", "Bern", "Graz"]
