"""The demonstration: the shipped data, what is made of them, and how it looks."""

import csv
import hashlib
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from conftest import ok
from rich.cells import cell_len

from aucpr_dask import open_scores
from aucpr_dask.demo import CLEF, data_folder
from aucpr_dask.schema.terms import nodes_of

pytestmark = pytest.mark.filterwarnings("ignore::aucpr_dask.errors.DoubtfulScoresWarning")  # of models of the demo

ORACLES = Path(__file__).parent / "oracles"
TABLES = ["15_Hepatitis", "29_Pima", "37_Stamps", "39_vertebral", "46_WPBC", "4_breastw"]


def rows_of(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(file.read_text().splitlines()))


def run_demo(folder: Path, *words: str) -> tuple[subprocess.CompletedProcess[str], float]:
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "aucpr_dask", "demo", *words],
        cwd=folder,
        env=os.environ | {"COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done, time.monotonic() - started


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def first(folder: Path) -> subprocess.CompletedProcess[str]:
    done, _ = run_demo(folder)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def result(folder: Path, first: object) -> xr.DataTree:
    return xr.open_datatree(folder / "aucpr-demo" / "result.zarr", chunks=None).load()


@pytest.mark.slow
def test_the_line_it_prints_opens_the_result(folder: Path, first: subprocess.CompletedProcess[str]) -> None:
    (line,) = (line for line in first.stdout.splitlines() if "open it: " in line)
    code = line[line.index("xarray.open_datatree") :]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"import xarray\nprint(sorted({code}.children))"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(sorted([CLEF, *TABLES]))


@pytest.mark.slow
def test_everything_fits_eighty_columns(first: subprocess.CompletedProcess[str]) -> None:
    lines = (first.stdout + first.stderr).splitlines()
    lines = [line for line in lines if " - distributed." not in line]  # its warnings on a busy machine
    assert max(map(cell_len, lines)) <= 80
    assert not any("\x1b" in line for line in lines)
    assert f"{CLEF}  average precision, mean of 14 queries, score interval" in lines
    assert "6 data sets, best 3 of 25 models  average precision, 3 repeats, logit interval" in lines
    for name in TABLES:
        assert any(line.split()[:2] == [name, "1"] for line in lines)


@pytest.mark.slow
@pytest.mark.smoke
def test_it_ranks_all_systems_and_the_best_of_each_table(result: xr.DataTree, first: object, folder: Path) -> None:
    text = first.stdout  # type: ignore[attr-defined]
    means = result[CLEF]["estimate"].mean("query")
    best_first = means.sortby(means, ascending=False)
    reviews = text[: text.index("\n\n")].splitlines()
    ranked = [line.split() for line in reviews if line[:2].strip().isdigit()]
    assert len(ranked) == 14
    assert ranked[0][1] == best_first["model"].values[0] == "Waterloo_B-rank-normal"
    assert [float(words[2]) for words in ranked] == pytest.approx(best_first.values, abs=5e-5)
    for name in TABLES:
        best = float(result[name]["estimate"].mean("repeat").max())
        (line,) = (line.split() for line in text.splitlines() if line.startswith(name))
        assert float(line[3]) == pytest.approx(best, abs=5e-5)


@pytest.mark.slow
def test_shapes(folder: Path, result: xr.DataTree) -> None:
    scores = open_scores(folder / "aucpr-demo" / "scores.zarr")
    sizes = {path: dict(dataset["score"].sizes) for path, dataset in nodes_of(scores)}
    assert (sizes[CLEF]["model"], sizes[CLEF]["query"]) == (14, 14)
    assert {(sizes[name]["model"], sizes[name]["repeat"]) for name in TABLES} == {(25, 3)}
    for name in (CLEF, *TABLES):
        assert np.isfinite(result[name]["estimate"].values).all()


@pytest.mark.slow
def test_reviews_equal_trec_eval(result: xr.DataTree, folder: Path) -> None:
    from aucpr_dask import evaluate

    scores = open_scores(folder / "aucpr-demo" / "scores.zarr")
    expected = rows_of(ORACLES / "demo_reviews.csv")
    estimates = evaluate(scores[CLEF].to_dataset(), ties="trec_eval")["estimate"]
    estimates = estimates.compute()
    found = [float(estimates.sel(model=row["run"], query=row["topic"])) for row in expected]
    np.testing.assert_allclose(found, [float(row["ap"]) for row in expected], rtol=0, atol=1e-6)
    assert float(estimates.sel(model="IIIT_run1").mean()) == pytest.approx(0.217343, abs=1e-6)


@pytest.mark.slow
def test_tables_equal_scikit_learn(result: xr.DataTree) -> None:
    rows = rows_of(ORACLES / "demo_tables.csv")
    assert len(rows) == 75 * len(TABLES)
    for name in TABLES:
        found = result[name]["estimate"]
        for row in (row for row in rows if row["dataset"] == name):
            one = found.sel(model=row["model"]).isel(repeat=int(row["repeat"]))
            np.testing.assert_allclose(one, float(row["ap"]), rtol=0, atol=1e-8)


@pytest.mark.slow
def test_the_next_command_says_which_are_better_on_average_and_on_a_new_data_set(folder: Path, first: object) -> None:

    command = first.stdout.partition("next: aucpr-dask ")[2].replace("\\\n", "")  # type: ignore[attr-defined]
    words = [word.replace("aucpr-demo", str(folder / "aucpr-demo")) for word in shlex.split(command)]
    done = ok(*words)
    assert "new data set" in done.stdout
    assert "sample: 6 data sets" in done.stdout
    assert max(cell_len(line) for line in done.stdout.splitlines() if str(folder) not in line) <= 80


@pytest.mark.slow
def test_it_replaces_existing_stores_only_with_overwrite(folder: Path, first: object) -> None:
    before = (folder / "aucpr-demo" / "result.zarr" / "zarr.json").stat().st_mtime_ns
    refused, _ = run_demo(folder)
    assert refused.returncode == 2
    assert "--overwrite" in refused.stderr
    assert (folder / "aucpr-demo" / "result.zarr" / "zarr.json").stat().st_mtime_ns == before
    again, seconds = run_demo(folder, "--out", "aucpr-demo", "--overwrite", "--json")
    assert again.returncode == 0, again.stderr
    document = json.loads(again.stdout)
    assert document["rankings"][0]["data_set"] == CLEF
    assert seconds < 30


def test_shipped_data_state_source_and_licence() -> None:
    with data_folder() as data:
        for name, licence in (("clef-tar-2017-mini", "MIT License"), ("adbench", "BSD 2-Clause License")):
            assert licence in (data / name / "LICENSE").read_text()
            source = (data / name / "SOURCE.md").read_text()
            assert "github" in source.lower()
            assert "commit" in source
        assert sum(file.stat().st_size for file in data.rglob("*") if file.is_file()) < 1_500_000


def test_shipped_data_are_the_originals_and_nothing_else() -> None:
    lines = (ORACLES / "demo.sha256").read_text().splitlines()
    expected = {name: digest for digest, name in (line.split("  ") for line in lines)}
    with data_folder() as data:
        files = {file.relative_to(data).as_posix(): file for file in data.rglob("*") if file.is_file()}
        texts = {name for name in files if name not in expected}
        received = {name: hashlib.sha256(files[name].read_bytes()).hexdigest() for name in files.keys() - texts}
    assert received == expected
    assert {name.rpartition("/")[2] for name in texts} == {"LICENSE", "SOURCE.md"}
