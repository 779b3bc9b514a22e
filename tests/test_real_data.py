"""Real files, imported and evaluated with the commands a user types, against independent tools' figures."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from conftest import ok

import aucpr_dask as ap

SPLICE = Path(__file__).parent / "data" / "splice-tools"


def areas(scores, **options):
    return ap.evaluate(scores, interval=(), **options)["estimate"]


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["per-run", "pooled"])
def test_clef_tar_per_topic(tmp_path, real_data, layout):
    folder = real_data / "clef-tar-2017"
    runs, qrels = folder / "runs", folder / "qrel_abs_test.txt.xz"
    store = tmp_path / "s.zarr"
    ok("import", "trec", runs, store, "--qrels", qrels, "--layout", layout, "--duplicates", "first")
    received = areas(ap.open_scores(store), ties="trec_eval", missing="unretrieved").to_series()
    expected = pd.read_csv(folder / "expected_ap_by_topic.csv.gz", dtype={"topic": str})
    expected = expected.set_index(["run", "topic"])["ap_abs"].rename_axis(["model", "query"])
    assert len(expected) > 470
    both = pd.concat([received.rename("received"), expected], axis=1).reindex(expected.index)
    assert (both["received"] - both["ap_abs"]).abs().max() < 1e-6
    absent = received.index.difference(expected.index)
    assert (received.loc[absent] == 0).all()  # topics a run did not return


@pytest.mark.slow
def test_adbench_feature_rankers(tmp_path, real_data):
    folder = real_data / "adbench"
    options = ("--score", "X", "--label", "y", "--dims", "item,model")
    ok("import", "arrays", *sorted((folder / "features").glob("*.npz")), tmp_path / "s.zarr", *options)
    tree = ap.open_scores(tmp_path / "s.zarr", chunks=None)
    expected = pd.read_csv(folder / "expected_feature_ap.csv.gz")
    n_compared = 0
    for name, rows in expected.groupby("dataset"):
        scores = tree[str(name)].to_dataset().load()
        up, down = areas(scores), areas(scores.assign(score=-scores["score"]))
        order = rows["feature"].to_numpy()
        np.testing.assert_allclose(up.values[order], rows["ap_ascending"], atol=1.1e-8)
        np.testing.assert_allclose(down.values[order], rows["ap_descending"], atol=1.1e-8)
        n_compared += len(rows)
    assert n_compared == 2207


@pytest.mark.slow
def test_clinvar_predictors_with_missing_scores(tmp_path, real_data):
    folder = real_data / "clinvar-vep-sample"
    expected = pd.read_csv(folder / "expected_ap.csv")
    signs = expected.drop_duplicates("model").set_index("model")["sign"]
    words = [word for model in signs.index for word in ("--models", model)]
    words += [word for model in signs.index[signs < 0] for word in ("--negate", model)]
    ok("import", "table", folder / "sample_data.csv.gz", tmp_path / "s.zarr", "--label", "ClinVar_label", *words)
    scores = ap.open_scores(tmp_path / "s.zarr").load()
    with gzip.open(folder / "sample_data.csv.gz", "rt") as file:
        table = pd.read_csv(file, low_memory=False)
    n_compared = 0
    for group, rows in expected.groupby("group"):
        chosen = np.ones(len(table), bool) if group == "all" else table[f"group: {group}"].to_numpy() == 1
        received = areas(scores.drop_vars("n_missing").isel(item=chosen), missing="drop").to_series()
        known = rows.set_index("model")["ap"].dropna()
        assert (received.reindex(known.index) - known).abs().max() < 1e-6
        n_compared += len(known)
    assert n_compared > 400


def test_splice_tools_by_gene(tmp_path):
    ok(
        *("import", "table", SPLICE / "scores.csv", tmp_path / "s.zarr"),
        *("--label", "label", "--dataset", "dataset", "--exclude", "variant"),
    )
    tree = ap.open_scores(tmp_path / "s.zarr")
    assert isinstance(tree, xr.DataTree)
    for name, rows in pd.read_csv(SPLICE / "expected_ap.csv").groupby("dataset"):
        scores = tree[str(name)].to_dataset().load()
        scored = areas(scores, missing="drop").to_series()
        zeroed = areas(scores.assign(score=scores["score"].fillna(0)).drop_vars("n_missing")).to_series()
        rows = rows.set_index("tool")
        assert len(rows) == 10
        assert (scored.reindex(rows.index) - rows["ap_scored"]).abs().max() < 1e-6
        assert (zeroed.reindex(rows.index) - rows["ap_nan_as_0"]).abs().max() < 1e-6


@pytest.mark.slow
def test_out_of_fold_scores_of_classifiers(tmp_path, real_data):
    folder = real_data / "adbench"
    files = sorted((folder / "oof_scores").glob("*.npz"))
    ok("import", "arrays", *files, tmp_path / "s.zarr", "--dims", "model,repeat,item")
    expected = pd.read_csv(folder / "expected_oof_ap.csv")
    tree = ap.open_scores(tmp_path / "s.zarr")
    n_compared = 0
    for name, rows in expected.groupby("dataset"):
        both = ap.evaluate(tree[str(name)].to_dataset().load(), ["average_precision", "lower_trapezoid", "roc_area"])
        received = both["estimate"].stack(rows=["model", "repeat"]).transpose("rows", ...).to_pandas()
        expected_rows = rows.set_index(["model", "repeat"])[["ap", "pr_auc_trapezoid", "roc_auc"]]
        difference = received.reindex(expected_rows.index).to_numpy() - expected_rows.to_numpy()
        assert np.abs(difference).max() < 1e-7
        n_compared += len(rows)
    assert n_compared == 900
