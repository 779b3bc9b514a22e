"""Models are added to a store as a whole, or not at all, and a result is extended by them alone."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from conftest import call

import aucpr_dask as ap
from aucpr_dask.errors import AlignmentError, InvalidInputError, StoreError
from aucpr_dask.scores.importing.tables import import_table
from aucpr_dask.scores.importing.trec import import_trec

QRELS = "q1 0 d1 1\nq1 0 d2 0\nq2 0 d3 2\nq2 0 d4 1\n"
RUNS = {
    "a": "q1 Q0 d1 1 2.5 x\nq1 Q0 d2 2 1.5 x\nq2 Q0 d3 1 7 x\n",
    "b": "q1 Q0 d2 1 2.5 x\nq1 Q0 d1 2 2.5 x\nq1 Q0 d8 3 1 x\nq2 Q0 d9 1 7 x\n",
    "c": "q2 Q0 d4 1 7 x\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "qrels").write_text(QRELS)
    for name, lines in RUNS.items():
        (tmp_path / f"{name}.run").write_text(lines)
    return tmp_path


def add(folder: Path, *names: str, **options: Any) -> None:
    import_trec([folder / f"{name}.run" for name in names], folder / "qrels", folder / "s.zarr", **options)


def left_over(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


@pytest.mark.parametrize("order", ["cba", *(pytest.param(order, marks=pytest.mark.slow) for order in ("abc", "bac"))])
def test_runs_added_one_by_one_are_those_imported_together(folder: Path, order: str) -> None:
    import_trec([folder / f"{name}.run" for name in order], folder / "qrels", folder / "together.zarr")
    for name in order:
        add(folder, name, append=True)
    together = ap.open_scores(folder / "together.zarr").load()
    xr.testing.assert_identical(ap.open_scores(folder / "s.zarr").load(), together)
    assert call("verify", folder / "s.zarr").exit_code == 0
    assert left_over(folder) == []


@pytest.mark.slow
def test_a_result_is_extended_by_what_was_added(folder: Path) -> None:
    add(folder, "a", "c")
    ap.run(folder / "s.zarr", folder / "r.zarr", convention="trec_eval")
    add(folder, "b", append=True)  # with a longer list, so that the other lists are padded
    tasks: list[int] = []
    result = ap.run(
        folder / "s.zarr",
        folder / "r.zarr",
        convention="trec_eval",
        on_progress=lambda event: tasks.append(event.rankings_total),
    )
    assert result["model"].values.tolist() == ["a", "c", "b"]
    expected = ap.evaluate(ap.open_scores(folder / "s.zarr"), convention="trec_eval")
    np.testing.assert_array_equal(result["estimate"], expected["estimate"])
    assert max(tasks) == 2  # of the new model only


def test_columns_and_data_sets_are_added(tmp_path: Path) -> None:
    rows = pd.DataFrame({"set": ["s"] * 3 + ["t"] * 2, "y": [1, 0, 1, 1, 0], "m": [0.5, 0.25, 1, 2, 3]})
    table = tmp_path / "t.csv"
    rows.to_csv(table, index=False)
    import_table(table, tmp_path / "s.zarr", label="y", dataset="set")
    rows.drop(columns="m").assign(n=rows["m"] * 2).to_csv(table, index=False)
    result = call("import", "table", table, tmp_path / "s.zarr", "--label", "y", "--dataset", "set", "--append")
    assert result.exit_code == 0, result.output
    assert "s.zarr: added 1 model, 5 items, 2 data sets" in result.output
    assert "\nnow 2 models; " in result.output
    rows.assign(set="u").to_csv(table, index=False)
    import_table(table, tmp_path / "s.zarr", label="y", dataset="set", append=True)
    tree = ap.open_scores(tmp_path / "s.zarr")
    assert isinstance(tree, xr.DataTree)
    assert list(tree.children) == ["s", "t", "u"]
    assert tree["s/score"].values.tolist() == [[0.5, 0.25, 1], [1, 0.5, 2]]
    assert tree["t/model"].values.tolist() == ["m", "n"]
    assert tree["u/model"].values.tolist() == ["m"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"in the store already[\s\S]*'a'"),
        ({"overwrite": True}, "either replaced or appended"),
        ({"dataset": "robust"}, "without a name"),
        ({"dtype": "float64"}, r"type of 'score'[\s\S]*float32[\s\S]*float64"),
        ({"layout": "pooled"}, "dimensions of 'label'|'label' differs"),
    ],
)
def test_what_does_not_fit_changes_nothing(folder: Path, options: dict[str, Any], message: str) -> None:
    add(folder, "a")
    before = ap.open_scores(folder / "s.zarr").load()
    with pytest.raises((AlignmentError, InvalidInputError), match=message):
        add(folder, "b" if {"dtype", "layout"} & set(options) else "a", append=True, **options)
    xr.testing.assert_identical(ap.open_scores(folder / "s.zarr").load(), before)
    assert left_over(folder) == []


def test_other_judgments_are_refused(folder: Path) -> None:
    add(folder, "a")
    (folder / "qrels").write_text(QRELS.replace("d2 0", "d2 1"))
    with pytest.raises(AlignmentError, match="'n_positive' differs"):
        add(folder, "b", append=True)
    (folder / "qrels").write_text(QRELS + "q3 0 d1 1\n")
    with pytest.raises(AlignmentError, match="differs"):
        add(folder, "b", append=True)


def test_nothing_is_added_to_remote_stores(folder: Path) -> None:
    url = "memory://append.zarr"
    import_trec(folder / "a.run", folder / "qrels", url)
    with pytest.raises(StoreError, match="on this machine"):
        import_trec(folder / "b.run", folder / "qrels", url, append=True)


def test_two_calls_at_once_both_add(folder: Path) -> None:
    add(folder, "a")
    threads = [threading.Thread(target=add, args=(folder, name), kwargs={"append": True}) for name in "bc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ap.open_scores(folder / "s.zarr")["model"].values.tolist()) == ["a", "b", "c"]
    assert left_over(folder) == []
