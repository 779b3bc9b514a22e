"""What goes to other packages and comes back: checked against those packages themselves."""

import csv
import importlib
import itertools
import json
import pickle
import shlex
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from click.shell_completion import BashComplete
from click.testing import CliRunner
from conftest import ok, pooled, queried
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import aucpr_dask as ap
from aucpr_dask import progress as showing
from aucpr_dask.cli import main
from aucpr_dask.errors import AlignmentError, ClassifierWarning, InvalidInputError, RunError, StoreError
from aucpr_dask.interplay.exporting import ONLY_QUERY, cell, distinct, file_name
from aucpr_dask.interplay.scikit import RESPONSES, area
from aucpr_dask.schema.estimators import ESTIMATORS
from aucpr_dask.schema.intervals import INTERVALS
from aucpr_dask.schema.terms import nodes_of
from aucpr_dask.scores.importing.trec import import_trec

HOSTILE = ["=1+1", "<script>alert(1)</script>", "a/b", "a_b", "../up", "[bold]x", "\x1b[31mred", "naïve", "@x"]


@pytest.fixture
def result(forest: xr.DataTree) -> xr.DataTree:
    """Of data sets with and without queries, two estimators and two intervals."""
    return ap.evaluate(forest, ["average_precision", "interpolated_median"], ["logit", "wilson"])


@pytest.fixture
def hostile() -> xr.Dataset:
    """Models whose names are formulas, markup, paths and escape sequences."""
    return pooled(len(HOSTILE), 40).assign_coords(model=HOSTILE)


# Data frames out


def test_tidy_frame_holds_every_number(result: xr.DataTree) -> None:
    frame = result.aucpr.to_dataframe()
    assert len(frame) == sum(node["estimate"].size for _, node in nodes_of(result))
    assert list(frame.columns[:5]) == ["dataset", "model", "query", "estimator", "estimate"]
    for row in frame.to_dict("records"):
        node = result[row["dataset"]].to_dataset().sel(model=row["model"], estimator=row["estimator"])
        node = node.sel(query=row["query"]) if "query" in node.dims else node
        assert row["estimate"] == float(node["estimate"])
        for method in ("logit", "wilson"):
            for bound in ("lower", "upper"):
                expected = float(node["interval"].sel({"interval_method": method, "ci_bound": bound}))
                assert row[f"{method}_{bound}"] == expected
        assert row["n_positive"] == float(node["n_positive"])
        assert row["level"] == 0.95
        raised = {flag for flag in ("few_positives", "heavy_ties") if flag in row["flags"].split()}
        assert ("heavy_ties" in raised) == bool(node.aucpr.flagged("heavy_ties")["heavy_ties"])
    assert frame["query"].isna().sum() == 2 * (3 + 5)
    assert frame["n_missing"].dtype == np.int64


def test_wide_frame_has_a_column_for_each_model(result: xr.DataTree) -> None:
    frame = result.aucpr.to_dataframe(tidy=False)
    assert list(frame.columns) == ["m0", "m1", "m2", "m3", "m4"]
    value = frame.loc[("topics", "q1", "interpolated_median"), "m3"]
    assert value == float(result["topics/estimate"].sel(model="m3", query="q1", estimator="interpolated_median"))
    assert frame.loc["small"]["m4"].isna().all()


@pytest.mark.needs("polars")
def test_polars_frame_equals_the_pandas_frame(result: xr.DataTree) -> None:
    import polars as pl

    for tidy in (True, False):
        ours = result.aucpr.to_polars(tidy=tidy)
        theirs = result.aucpr.to_dataframe(tidy=tidy)
        theirs = theirs if tidy else theirs.reset_index()
        assert ours.columns == list(theirs.columns)
        assert ours.schema["model" if tidy else "estimator"] == pl.String
        for name in ours.columns:
            np.testing.assert_array_equal(ours[name].fill_null("").to_list(), theirs[name].fillna("").to_list()) if (
                ours.schema[name] == pl.String
            ) else np.testing.assert_array_equal(ours[name].to_numpy(), theirs[name].to_numpy())
    assert result.aucpr.to_polars()["query"].null_count() == 16


def test_frames_of_selections_means_and_lazy_results(result: xr.DataTree, forest: xr.DataTree) -> None:
    topics = result["topics"].to_dataset()
    one = topics.sel(
        {"model": "m1", "estimator": "interpolated_median", "interval_method": "wilson"}
    ).aucpr.to_dataframe()
    assert one["query"].tolist() == ["q0", "q1", "q2"]
    assert set(one["model"]) == {"m1"}
    assert "wilson_lower" in one
    means = topics.aucpr.aggregate().aucpr.to_dataframe()
    assert {"interval_lower", "interval_upper", "n_queries"} <= set(means)
    lazy = ap.evaluate(forest["small"].to_dataset().chunk(model=1))
    pd.testing.assert_frame_equal(
        lazy.aucpr.to_dataframe(), ap.evaluate(forest["small"].to_dataset()).aucpr.to_dataframe()
    )
    assert lazy["estimate"].chunks is not None, "the user's own result was computed in place"


@pytest.mark.parametrize("is_grouped", [False, True])
def test_answers_make_frames_with_a_row_for_each_pair_or_model(is_grouped: bool, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    label = np.arange(120) % 4 == 0
    score = random.normal(size=(3, 120)) + np.linspace(0.5, 1.5, 3)[:, None] * label
    site = ("item", np.resize([1, 2, 2], 120))
    scores = xr.Dataset(
        {"score": (("model", "item"), score), "label": ("item", label)}, {"model": list("abc"), "site": site}
    )
    by, of_each, n = ({"by": "site"}, {"site": 2}, 2) if is_grouped else ({}, {}, 1)
    pairs = ap.compare(scores, equivalence=0.1, **by)
    frame = pairs.aucpr.to_dataframe()
    assert list(map("".join, frame[["model", "other_model"]].to_numpy())) == list(np.repeat(["ab", "ac", "bc"], n))
    one, there = {"model": "a", "other_model": "c", **of_each}, pairs.sel(model="a", other_model="c", **of_each)
    (row,) = frame[np.logical_and.reduce([frame[name] == value for name, value in one.items()])].to_dict("records")
    assert row["difference"] == there["difference"]
    assert row["simultaneous_interval_upper"] == there["simultaneous_interval"][1]
    words = pairs["decision"].attrs["flag_meanings"].split()
    assert row["decision"] == words[int(there["decision"])]
    assert row["level"] == 0.95
    versus = ap.compare(scores, "b", **by).aucpr.to_dataframe()
    assert list(versus["model"]) == list(np.repeat(["a", "c"], n))
    assert set(versus["baseline"]) == {"b"}
    ranks = ap.rank(scores, **by)
    assert list(ranks.aucpr.to_dataframe()["rank_interval_lower"]) == list(ranks["rank_interval"][..., 0].values.flat)
    assert len(ap.power(scores, "a").aucpr.to_dataframe().query("detectable > 0")) == 2
    covariance = ap.covariance(scores).aucpr.to_dataframe()
    assert len(covariance) == 6
    assert covariance["covariance"].notna().all()
    contrast = ap.contrast(scores, "site").aucpr.to_dataframe()
    assert list(contrast["site"]) == [1, 1, 1]
    assert list(contrast["other_site"]) == [2, 2, 2]
    against = ap.contrast(scores, "site", reference=2).aucpr.to_dataframe()
    assert list(against["site"]) == [1, 1, 1]
    assert np.allclose(against["difference"], contrast["difference"])
    ap.save_comparison(pairs, tmp_path / "pairs.zarr")
    told = CliRunner().invoke(main, ["export", str(tmp_path / "pairs.zarr"), str(tmp_path / "pairs.csv")])
    assert told.exit_code == 0, told.output
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "pairs.csv"), frame, check_dtype=False)
    with pytest.raises(InvalidInputError, match="needs a result"):
        ap.export(pairs, tmp_path / "pairs", format="trec_eval")


def test_only_results_make_wide_frames(forest: xr.DataTree) -> None:
    result = ap.evaluate(queried())
    for other, kind in ((ap.compare(result), "comparison"), (ap.rank(result), "ranks")):
        with pytest.raises(InvalidInputError, match="a comparison, ranks"):
            other.aucpr.to_dataframe(tidy=False)
        assert repr(other.aucpr).startswith(kind)
    with pytest.raises(InvalidInputError, match="this is not a result"):
        forest.aucpr.to_dataframe()
    clash = ap.evaluate(pooled(2).assign_coords(model=["estimator", "b"]))
    with pytest.raises(AlignmentError, match="name of a key column"):
        clash.aucpr.to_dataframe(tidy=False)
    assert len(clash.aucpr.to_dataframe()) == 2


# Data frames in


def wide_frame(scores: xr.Dataset) -> pd.DataFrame:
    frame = scores["score"].to_pandas().T
    return frame.assign(y=scores["label"].to_pandas()).reset_index()


@pytest.mark.parametrize("kind", ["pandas", pytest.param("polars", marks=pytest.mark.needs("polars")), "pyarrow"])
def test_wide_frames_come_back(kind: str, scores: xr.Dataset) -> None:
    frame: Any = wide_frame(scores)
    if kind != "pandas":
        module = importlib.import_module(kind)
        frame = module.from_pandas(frame) if kind == "polars" else module.Table.from_pandas(frame)
    xr.testing.assert_equal(ap.from_dataframe(frame, label="y", item="item"), scores)


def test_each_label_of_another_dimension_has_rows_of_its_own(scores: xr.Dataset) -> None:
    leads = xr.concat([scores, scores.assign(score=-scores["score"])], xr.Variable("lead", [24, 48]))
    leads = leads.assign(label=scores["label"])
    frame = ap.evaluate(leads).aucpr.to_dataframe()
    alone = {lead: ap.evaluate(leads.sel(lead=lead, drop=True)).aucpr.to_dataframe() for lead in (24, 48)}
    for lead, expected in alone.items():
        rows = frame[frame["lead"] == lead].drop(columns="lead").reset_index(drop=True)
        pd.testing.assert_frame_equal(rows, expected)


def test_groups_of_a_frame_keep_their_order_and_their_names(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"y": np.arange(90) % 3 == 0, 1: rng.normal(size=90), 2: rng.normal(size=90)})
    frame["age"] = pd.cut(rng.integers(0, 30, 90), [-1, 2, 10, 30])
    frame["month"] = pd.period_range("2023-11", periods=3, freq="M").take(rng.integers(0, 3, 90))
    frame["dose"] = pd.Categorical(rng.choice(["low", "mid", "high"], 90), ["low", "mid", "high"], ordered=True)
    frame["rank"] = pd.Categorical(rng.choice([10, 9], 90), [10, 9], ordered=True)
    frame["day"] = rng.choice(pd.to_datetime(["2024-01-31", "2024-02-01"]), 90)
    frame["mg"] = rng.choice([0.5, 1.0, 10.0], 90)
    expected: dict[str, list[Any]] = {
        "age": ["(-1, 2]", "(2, 10]", "(10, 30]"],
        "month": ["2023-11", "2023-12", "2024-01"],
        "dose": ["low", "mid", "high"],
        "rank": [10, 9],
        "day": pd.to_datetime(["2024-01-31", "2024-02-01"]).to_list(),
        "mg": [0.5, 1.0, 10.0],
    }
    scores = ap.from_dataframe(frame, label="y", models=[2, 1], by=list(expected))
    assert scores["model"].values.tolist() == ["2", "1"]
    ap.save_scores(scores, tmp_path / "scores.zarr")
    for data in (scores, ap.open_scores(tmp_path / "scores.zarr")):
        for name, groups in expected.items():
            result = ap.evaluate(data, by=name)
            assert pd.Index(result[name].values).tolist() == groups
            for group in groups:
                rows = frame[name].astype(str) == str(group) if name in ("age", "month") else frame[name] == group
                own = ap.estimate(frame.loc[rows, [2, 1]].to_numpy().T, frame.loc[rows, "y"].to_numpy())
                np.testing.assert_array_equal(result["estimate"].sel({name: group}), own)


def test_columns_of_a_frame_that_are_no_models_are_named(scores: xr.Dataset) -> None:
    frame = wide_frame(scores)
    frame = frame.assign(number=np.arange(len(frame))).rename(columns={"number": "row_id"})
    frame["remark"] = "text"
    with pytest.warns(ap.errors.ColumnWarning) as caught:
        back = ap.from_dataframe(frame, label="y", item="item")
    said = " ".join(str(one.message) for one in caught)
    assert "'row_id'" in said
    assert "'remark'" in said
    xr.testing.assert_equal(back, scores)


def test_index_levels_and_whole_numbers_are_no_models(scores: xr.Dataset) -> None:
    frame = wide_frame(scores).assign(patient=1.5, slice=2.5, age=50).set_index(["patient", "slice"])
    with pytest.warns(ap.errors.ColumnWarning, match=r"as models: 'm0', 'm1'.*left out: 'age', .*'patient'"):
        back = ap.from_dataframe(frame, label="y", item="item")
    xr.testing.assert_equal(back, scores)
    frame = frame.reset_index(drop=True)
    back = ap.from_dataframe(frame[frame["age"] > 0], label="y", item="item", clusters="age", models="m*")
    assert back["cluster"].values.tolist() == ["50"] * scores.sizes["item"]
    with pytest.raises(InvalidInputError, match=r"column of models, as tidy frames do[\s\S]*model='model'"):
        ap.from_dataframe(frame.melt(["item", "y"], var_name="model", value_name="score"), label="y")


@pytest.mark.needs("polars")
def test_categories_of_polars_and_frames_of_dask(scores: xr.Dataset) -> None:
    import dask.dataframe
    import polars

    frame = wide_frame(scores)
    categories = polars.from_pandas(frame).with_columns(polars.col("item").cast(polars.Categorical))
    for one in (categories, dask.dataframe.from_pandas(frame, npartitions=2)):
        xr.testing.assert_equal(ap.from_dataframe(one, label="y", item="item"), scores)


@pytest.mark.parametrize("kind", ["pandas", pytest.param("polars", marks=pytest.mark.needs("polars"))])
def test_tidy_frames_come_back_in_any_order(kind: str, scores: xr.Dataset) -> None:
    tidy: Any = (
        wide_frame(scores).melt(["item", "y"], var_name="model", value_name="score").sample(frac=1, random_state=1)
    )
    if kind == "polars":
        tidy = importlib.import_module("polars").from_pandas(tidy)
    back = ap.from_dataframe(tidy, label="y", model="model", item="item")
    xr.testing.assert_equal(back.sortby(["model", "item"]), scores)
    chosen = ap.from_dataframe(tidy, label="y", model="model", item="item", models=["m3", "m1"], negate="m1")
    np.testing.assert_array_equal(chosen.sortby("item")["score"][1], -scores["score"].sel(model="m1"))


def test_tidy_frames_with_queries_data_sets_and_weights(query_scores: xr.Dataset) -> None:
    tidy = query_scores.to_dataframe().reset_index().query("label >= 0")
    tidy = pd.concat([tidy.assign(set="a"), tidy.assign(set="b", score=-tidy["score"])]).assign(w=2.0)
    lacking = tidy.drop(tidy.index[(tidy["model"] == "m2") & (tidy["item"] == 4)])
    options = {"model": "model", "query": "query", "item": "item", "dataset": "set", "weight": "w"}
    tree = ap.from_dataframe(lacking, **options)
    assert list(tree.children) == ["a", "b"]
    kept = ap.evaluate(tree, missing="drop")["a/estimate"].sel(model="m1")
    expected = ap.evaluate(query_scores)["estimate"].sel(model="m1")
    np.testing.assert_allclose(kept, expected, rtol=1e-14)
    assert int(ap.evaluate(tree, missing="drop")["a/n_missing"].sel(model="m2").sum()) == 3
    assert float(tree["b/weight"].max()) == 2.0


def test_frames_that_do_not_fit_are_refused(scores: xr.Dataset) -> None:
    tidy = wide_frame(scores).melt(["item", "y"], var_name="model", value_name="score")
    options = {"label": "y", "model": "model", "item": "item"}
    odd = tidy.assign(y=tidy["y"].where(tidy.index != 7, 1 - tidy["y"]))
    unnamed = tidy.assign(model=tidy["model"].where(tidy.index != 3))
    wide = wide_frame(scores).assign(y=5)
    for error, frame, given, message in (
        (AlignmentError, pd.concat([tidy, tidy[:1]]), options, "scores an item twice"),
        (AlignmentError, odd, options, r"models differ in the 'y' of an item[\s\S]*d0007"),
        (AlignmentError, tidy.replace({"m0": "y"}), options, "named like a column"),
        (InvalidInputError, tidy, {"label": "y", "model": "model"}, "needs item names"),
        (InvalidInputError, tidy, options | {"label": "z"}, "there is no column"),
        (InvalidInputError, unnamed, options, "a name is missing"),
        (InvalidInputError, wide, {"label": "y", "item": "item"}, "is not a label"),
        (InvalidInputError, wide, {"label": "m0", "item": "item"}, "'m0' holds decimal numbers, as scores do"),
        (InvalidInputError, [1, 2], {}, "this is not a data frame"),
    ):
        with pytest.raises(error, match=message):
            ap.from_dataframe(frame, **given)


@pytest.mark.needs("polars")
def test_a_lazy_frame_is_refused() -> None:
    import polars

    with pytest.raises(InvalidInputError, match="lazy"):
        ap.from_dataframe(polars.LazyFrame({"a": [1]}))


# Files


def test_parquet_round_trip(result: xr.DataTree, tmp_path: Path) -> None:
    ap.export(result, tmp_path / "r.parquet")
    read = pd.read_parquet(tmp_path / "r.parquet")
    pd.testing.assert_frame_equal(read, result.aucpr.to_dataframe(), check_dtype=False)


def test_csv_and_json_keep_every_bit(result: xr.DataTree, tmp_path: Path) -> None:
    frame = result.aucpr.to_dataframe()
    result.aucpr.export(tmp_path / "r.csv")
    with (tmp_path / "r.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["estimate"]) for row in rows] == frame["estimate"].tolist()
    assert {row["query"] for row in rows if row["dataset"] == "small"} == {""}
    assert {row["standard_error"] for row in rows if row["estimator"] == "interpolated_median"} == {""}
    result.aucpr.export(tmp_path / "r.json")
    records = json.loads((tmp_path / "r.json").read_text(), parse_constant=pytest.fail)
    assert [record["logit_upper"] for record in records] == frame["logit_upper"].tolist()
    assert records[1]["standard_error"] is None
    result.aucpr.export(tmp_path / "wide.csv", tidy=False)
    assert (tmp_path / "wide.csv").read_text().splitlines()[0] == "dataset,query,estimator,m0,m1,m2,m3,m4"


def test_no_cell_is_a_formula(hostile: xr.Dataset, tmp_path: Path) -> None:
    for tidy in (True, False):
        ap.export(ap.evaluate(hostile), tmp_path / f"{tidy}.csv", tidy=tidy)
        with (tmp_path / f"{tidy}.csv").open(newline="") as file:
            cells = [text for row in csv.reader(file) for text in row]
        assert "'=1+1" in cells
        assert "'@x" in cells
        assert not [text for text in cells if text.startswith(tuple("=+-@\t\r"))]
    assert cell(" =1") == "' =1"


@pytest.mark.parametrize("format", ["csv", "json", "trec_eval", "trec_run"])
def test_exports_hold_no_characters_that_terminals_obey(tmp_path: Path, format: str) -> None:
    name = "\x1b[31mred\x1b]0;t\x07\x9b2J\u202e\nline"
    scores = pooled(2).assign_coords(model=[name, "模型"])
    ap.export(scores if format == "trec_run" else ap.evaluate(scores), tmp_path / "out", format=format)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    texts = [path.read_bytes().decode() for path in files] + [path.name for path in files]
    assert any("模型" in text for text in texts)
    assert not any(char in text for text in texts for char in "\x1b\x07\x9b\u202e")
    if format == "csv":
        assert r"\x1b[31mred\x1b]0;t\x07\x9b2J\u202e\nline" in texts[0]
    if format == "json":
        assert json.loads(texts[0])[0]["model"] == name


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    for write in (ap.export, ap.report):
        with pytest.raises(InvalidInputError, match="not the path of a file"):
            write(ap.evaluate(pooled(2)), tmp_path / ("x" * 5000 + ".csv"))


INVISIBLE = ["\ufeff", "\u200b", "\u00a0", "\u2060", "\0", "\x1b", "\x0b", "\u3000", "\ufeff \u200e"]


@pytest.mark.parametrize("sign", "=+-@|＝＋－＠｜﹦﹢﹣﹫")  # noqa: RUF001 (full width and small forms are meant)
def test_text_that_begins_with_a_sign_is_quoted_also_behind_invisible_characters(sign: str) -> None:
    for before in ("", " ", "\t", "\r", "\n", *INVISIBLE):
        assert cell(f"{before}{sign}1") == f"'{before}{sign}1"


def test_other_text_is_not_quoted(tmp_path: Path) -> None:
    for text in ("", "a=b", "é", "模型", " a", "\ufeffbom", "1-2", "0.5"):
        assert cell(text) == text
    for text in ("\ta", "\ra", " \na"):
        assert cell(text) == f"'{text}"
    scores = pooled(2, 20)
    result = ap.evaluate(scores)
    negative = result.assign(estimate=-result["estimate"])
    ap.export(negative, tmp_path / "r.csv")
    assert pd.read_csv(tmp_path / "r.csv")["estimate"].tolist() == negative["estimate"].values.ravel().tolist()


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="there are no such devices")
def test_a_device_is_written_to_and_never_replaced(tmp_path: Path) -> None:
    result = ap.evaluate(queried())
    for place in ("/dev/null", "/dev/full"):
        assert Path(place).is_char_device()
    ap.export(result, "/dev/null", format="csv")
    ap.report(result, "/dev/null", overwrite=True)
    with pytest.raises(StoreError, match="No space left"):
        ap.export(result, "/dev/full", format="csv", overwrite=True)
    with pytest.raises(StoreError, match="not a folder"):
        ap.export(result, "/dev/null", format="trec_eval", overwrite=True)
    for place in ("/dev/null", "/dev/full"):
        assert Path(place).is_char_device()


def test_exports_replace_only_what_they_may(result: xr.DataTree, tmp_path: Path) -> None:
    file = tmp_path / "r.csv"
    ap.export(result, file)
    before = file.read_bytes()
    with pytest.raises(StoreError, match="something at this place already"):
        ap.export(result["small"].to_dataset(), file)
    assert file.read_bytes() == before
    ap.export(result["small"].to_dataset(), file, overwrite=True)
    assert file.read_bytes() != before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(StoreError, match="refusing to overwrite a folder"):
        ap.export(result, tmp_path / "mine", format="trec_eval", overwrite=True)
    for _ in range(2):
        ap.export(result, tmp_path / "evals", format="trec_eval", overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evals", "mine", "r.csv"], "partial files are left"
    with pytest.raises(StoreError, match="no such folder"):
        ap.export(result, tmp_path / "absent" / "r.csv")


def test_exports_say_what_they_cannot_do(result: xr.DataTree, forest: xr.DataTree, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="no format of tables has the suffix"):
        ap.export(result, tmp_path / "r.xlsx")
    with pytest.raises(InvalidInputError, match="needs scores"):
        ap.export(result, tmp_path / "runs", format="trec_run")
    with pytest.raises(InvalidInputError, match="needs a result"):
        ap.export(forest, tmp_path / "r.csv")
    with pytest.raises(InvalidInputError, match="written to this machine"):
        ap.export(result, "s3://bucket/r.csv")


# Names


def test_changed_names_stay_different() -> None:
    names = [*HOSTILE, "A_b", "x" * 300, "x" * 299 + "y", "..", "", "con. "]
    new = distinct(names, file_name, 100)
    assert len({name.casefold() for name in new.values()}) == len(names)
    assert max(len(name.encode()) for name in new.values()) <= 100
    assert new["a_b"] == "a_b" or "A_b" in names
    for name in map(file_name, names):
        assert Path("folder", name).resolve().parent == Path("folder").resolve()
    assert distinct(["a/b"], file_name, 50) == {"a/b": "a_b"}


# TREC


def test_trec_eval_lines(query_scores: xr.Dataset, tmp_path: Path) -> None:
    query_scores["label"][1] = np.minimum(query_scores["label"][1], 0)  # a query without positives
    result = ap.evaluate(query_scores, ["average_precision", "roc_area"])
    ap.export(result, tmp_path / "evals", format="trec_eval")
    assert sorted(path.name for path in (tmp_path / "evals").glob("*.eval")) == [f"m{i}.eval" for i in range(4)]
    lines = [line.split("\t") for line in (tmp_path / "evals" / "m2.eval").read_text().splitlines()]
    estimate = result["estimate"].sel(model="m2", estimator="average_precision")
    assert ["map" + " " * 19, "q0", f"{float(estimate.sel(query='q0')):.4f}"] in lines
    assert [name.strip() for name, query, _ in lines if query == "q1"] == []
    assert ["num_q" + " " * 17, "all", "2"] in lines
    assert ["map" + " " * 19, "all", f"{float(estimate.mean()):.4f}"] in lines


@pytest.mark.parametrize("layout", ["pooled", "per-run"])
@pytest.mark.needs("pytrec_eval")
def test_trec_runs_come_back_and_trec_eval_agrees(layout: str, tmp_path: Path) -> None:
    import pytrec_eval

    random = np.random.default_rng(3)
    grades = {f"{q}": {f"doc{d:02d}": int(random.integers(-1, 3)) for d in range(30)} for q in (301, 302, 303)}
    (tmp_path / "qrels.txt").write_text(
        "".join(f"{q} 0 {d} {g}\n" for q, one in grades.items() for d, g in one.items())
    )
    for name in ("bm25", "dense net"):
        lines = [f"{q} Q0 doc{d:02d} 1 {random.integers(0, 8) / 3} t\n" for q in grades for d in range(0, 40, 2)]
        (tmp_path / f"{name}.run").write_text("".join(lines))
    import_trec(sorted(tmp_path.glob("*.run")), tmp_path / "qrels.txt", tmp_path / "s.zarr", layout=layout)
    scores = ap.open_scores(tmp_path / "s.zarr")
    ap.export(scores, tmp_path / "out", format="trec_run")
    options = {"ties": "trec_eval", "missing": "unretrieved", "positive_from": 1}
    expected = ap.evaluate(scores, **options)["estimate"]
    for name in ("bm25", "dense net"):
        qrels = tmp_path / "out" / ("qrels.txt" if layout == "pooled" else f"qrels/{name}.qrels")
        with qrels.open() as file:
            judged = pytrec_eval.parse_qrel(file)
        with (tmp_path / "out" / "runs" / f"{name}.run").open() as file:
            found = pytrec_eval.RelevanceEvaluator(judged, {"map"}).evaluate(pytrec_eval.parse_run(file))
        for query, values in found.items():
            assert values["map"] == pytest.approx(float(expected.sel(model=name, query=query)), abs=1e-12)
        import_trec(tmp_path / "out" / "runs" / f"{name}.run", qrels, tmp_path / f"{name}.zarr")
        again = ap.evaluate(ap.open_scores(tmp_path / f"{name}.zarr"), **options)["estimate"]
        np.testing.assert_array_equal(again.sel(model=name), expected.sel(model=name))


def test_runs_of_a_data_set_without_queries(hostile: xr.Dataset, tmp_path: Path) -> None:
    dataset = hostile.assign(score=hostile["score"].astype("float32"))
    ap.export(xr.DataTree.from_dict({"a b": dataset}), tmp_path / "out", format="trec_run")
    folder = tmp_path / "out" / "a b"
    assert len(list((folder / "runs").glob("*.run"))) == len(HOSTILE)
    assert all(len(line.split()) == 6 for line in (folder / "runs" / "[bold]x.run").read_text().splitlines())
    import_trec(folder / "runs" / "naïve.run", folder / "qrels.txt", tmp_path / "s.zarr", layout="pooled")
    back = ap.evaluate(ap.open_scores(tmp_path / "s.zarr"))["estimate"]
    assert float(back.squeeze()) == float(ap.evaluate(dataset)["estimate"].sel(model="naïve").squeeze())
    soft = dataset.drop_vars("label").assign(positive_weight=dataset["label"], negative_weight=1 - dataset["label"])
    with pytest.raises(InvalidInputError, match="only scores with labels"):
        ap.export(soft, tmp_path / "soft", format="trec_run")
    assert (folder / "qrels.txt").read_text()[0] == ONLY_QUERY


# scikit-learn


def table(n_items: int = 90, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    y = (np.arange(n_items) % 3 == 0).astype(int)
    return random.normal(size=(n_items, 3)) + y[:, None], y


def test_scorer_equals_scikit_learns() -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import get_scorer
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.naive_bayes import GaussianNB
    from sklearn.tree import DecisionTreeClassifier

    X, y = table()
    weight = np.random.default_rng(1).random(len(y))
    theirs = get_scorer("average_precision")
    ours = pickle.loads(pickle.dumps(ap.scorer()))
    for classifier in (LogisticRegression(), GaussianNB(), DecisionTreeClassifier(max_depth=2, random_state=0)):
        np.testing.assert_allclose(
            cross_val_score(classifier, X, y, scoring=ours),
            cross_val_score(classifier, X, y, scoring=theirs),
            rtol=1e-12,
        )
        fitted = classifier.fit(X, y)
        assert ours(fitted, X, y, sample_weight=weight) == pytest.approx(theirs(fitted, X, y, sample_weight=weight))
    assert ours(fitted, X, y, sample_weight=weight) != ours(fitted, X, y)
    search = GridSearchCV(LogisticRegression(), {"C": [0.01, 1.0]}, scoring=ap.scorer("continuous"), cv=3, n_jobs=1)
    assert 0 < search.fit(X, y).best_score_ <= 1


def test_scorer_of_named_classes_and_options() -> None:
    from sklearn.linear_model import LogisticRegression

    X, y = table()
    words = np.where(y == 1, "good", "poor")
    fitted = LogisticRegression().fit(X, words)
    expected = ap.estimate(-fitted.decision_function(X), y, prevalence=0.01)
    assert ap.scorer(pos_label="good", prevalence=0.01)(fitted, X, words) == expected
    with pytest.raises(InvalidInputError, match="the positive class is not given"):
        ap.scorer()(fitted, X, words)
    with pytest.raises(InvalidInputError, match="unknown estimator"):
        ap.scorer("averag_precision")
    with pytest.raises(InvalidInputError, match="several classes"):
        area([0, 1, 2], np.eye(3), pos_label=1)


def test_fitted_classifiers_score_new_data() -> None:
    from scipy.sparse import csr_array
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    X, y = table()
    new, truth = table(60, seed=5)
    classifiers = {"logistic": LogisticRegression().fit(X, y), "svm": LinearSVC().fit(X, y)}
    tree = ap.from_sklearn(classifiers, {"dense": (new, truth), "sparse": (csr_array(new), truth, truth + 0.5)})
    np.testing.assert_array_equal(tree["dense/score"][0], classifiers["logistic"].predict_proba(new)[:, 1])
    np.testing.assert_array_equal(tree["dense/score"][1], classifiers["svm"].decision_function(new))
    np.testing.assert_allclose(tree["sparse/score"], tree["dense/score"])
    np.testing.assert_array_equal(tree["sparse/weight"], truth + 0.5)
    assert "fold" not in tree["dense"]
    other = ap.from_sklearn(classifiers, (new, truth), pos_label=0, response="decision_function")
    np.testing.assert_array_equal(other["score"][1], -classifiers["svm"].decision_function(new))
    np.testing.assert_array_equal(other["label"], 1 - truth)


@pytest.mark.slow
def test_cross_validation_is_scikit_learns_and_keeps_the_folds(tmp_path: Path) -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import (
        GroupKFold,
        KFold,
        ShuffleSplit,
        StratifiedKFold,
        TimeSeriesSplit,
        cross_val_predict,
    )

    X, y = table()
    frame = pd.DataFrame(X, columns=["a", "b", "c"], index=[f"patient {i}" for i in range(len(y))])
    cv = StratifiedKFold(4, shuffle=True, random_state=2)
    classifiers = {"logistic": LogisticRegression(), "bayes": GaussianNB()}
    scores = ap.from_sklearn(classifiers, (frame, pd.Series(y, frame.index)), cv=cv)
    for name, classifier in classifiers.items():
        expected = cross_val_predict(classifier, X, y, cv=cv, method="predict_proba")[:, 1]
        np.testing.assert_allclose(scores["score"].sel(model=name), expected, rtol=1e-12)
    assert scores["item"].values[3] == "patient 3"
    for number, (_, test) in enumerate(cv.split(X, y)):
        assert (scores["fold"][test] == number).all()
    written = ap.from_sklearn(classifiers, {"t": (frame, y)}, cv=cv, store=tmp_path / "s.zarr")
    xr.testing.assert_equal(
        written["t"].to_dataset()[["score", "label", "fold"]].compute(), scores[["score", "label", "fold"]]
    )
    result = ap.evaluate(scores, interval=["logit", "cross_validation"])
    assert np.isfinite(result["interval"]).all()
    grouped = ap.from_sklearn(classifiers, (X, y), cv=GroupKFold(3), clusters=np.arange(90) // 9)
    assert (grouped["fold"].groupby(grouped["cluster"]).std() == 0).all()
    by_number = ap.from_sklearn(classifiers, (X, y), cv=3, clusters=np.arange(90) // 9)
    assert (by_number["fold"].groupby(by_number["cluster"]).std() == 0).all()
    with pytest.raises(InvalidInputError, match=r"parts clusters[\s\S]*of 10 clusters[\s\S]*GroupKFold"):
        ap.from_sklearn(classifiers, (X, y), cv=list(KFold(3).split(X)), clusters=np.arange(90) % 10)
    for cv in (ShuffleSplit(4, random_state=0), TimeSeriesSplit(3)):
        with pytest.raises(InvalidInputError, match=r"every item once[\s\S]*StratifiedKFold"):
            ap.from_sklearn(classifiers, (X, y), cv=cv)


def test_repetitions_of_a_splitter_are_a_dimension() -> None:
    from sklearn.model_selection import GroupKFold, RepeatedStratifiedKFold, cross_val_predict

    X, y = table()
    cv = RepeatedStratifiedKFold(n_splits=3, n_repeats=4, random_state=0)
    scores = ap.from_sklearn({"bayes": GaussianNB()}, X, y, cv=cv)
    assert scores["score"].dims == ("model", "repeat", "item")
    assert scores["fold"].dims == ("repeat", "item")
    splits = list(cv.split(X, y))
    for repeat in range(4):
        own, one = splits[3 * repeat : 3 * repeat + 3], scores.sel(repeat=repeat)
        expected = cross_val_predict(GaussianNB(), X, y, cv=own, method="predict_proba")[:, 1]
        np.testing.assert_array_equal(one["score"].sel(model="bayes"), expected)
        for number, (_, test) in enumerate(own):
            assert (one["fold"][test] == number).all()
        assert np.isfinite(ap.evaluate(one)["estimate"]).all()
    once = ap.from_sklearn({"bayes": GaussianNB()}, X, y, cv=splits[:3])
    xr.testing.assert_equal(once, scores.isel(repeat=0, drop=True))
    groups = np.arange(90) // 9
    twice = [*GroupKFold(3).split(X, y, groups), *GroupKFold(5).split(X, y, groups)]
    assert ap.from_sklearn(GaussianNB(), X, y, cv=twice, clusters=groups)["fold"].max("item").values.tolist() == [2, 4]
    with pytest.raises(InvalidInputError, match="repetitions are for two classes"):
        ap.from_sklearn(GaussianNB(), X, np.arange(90) % 3, cv=cv)


def test_one_class_of_many_is_positive() -> None:
    from sklearn.linear_model import LogisticRegression

    X, _ = table()
    kinds = np.array(["cat", "dog", "eel"])[np.arange(90) % 3]
    scores = ap.from_sklearn({"a": LogisticRegression()}, (X, kinds), cv=3, pos_label="dog")
    assert int(scores["label"].sum()) == 30
    fitted = LogisticRegression().fit(X, kinds)
    whole = ap.from_sklearn({"a": fitted}, (X, kinds), pos_label="eel", response="decision_function")
    np.testing.assert_array_equal(whole["score"][0], fitted.decision_function(X)[:, 2])


class Failing(GaussianNB):
    """A classifier that cannot be fitted."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fail."""
        raise ZeroDivisionError("no fit")


class Counted(GaussianNB):
    """A classifier that counts how often it was fitted, in a file."""

    def __init__(self, log: str = "") -> None:
        super().__init__()
        self.log = log

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Count, and fit."""
        with Path(self.log).open("a") as log:
            log.write("x")
        return super().fit(X, y, sample_weight)


def test_classifiers_need_no_names_and_y_may_stand_beside() -> None:
    X, y = table()
    one = ap.from_sklearn(GaussianNB(), X, y, cv=3)
    assert one["model"].values.tolist() == ["GaussianNB"]
    two = ap.from_sklearn([GaussianNB(), GaussianNB(var_smoothing=1e-3)], (X, y), cv=3)
    assert two["model"].values.tolist() == ["GaussianNB", "GaussianNB 2"]
    np.testing.assert_array_equal(two["score"][0], one["score"][0])
    for wrong in ("GaussianNB", GaussianNB, [3]):
        with pytest.raises(InvalidInputError, match="this is not a classifier"):
            ap.from_sklearn(wrong, X, y, cv=3)
    with pytest.raises(InvalidInputError, match="y belongs to one data set"):
        ap.from_sklearn(GaussianNB(), {"a": (X, y)}, y, cv=3)


def test_a_classifier_that_fails_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    X, y = table()
    log, url = tmp_path / "log", tmp_path / "s.zarr"
    classifiers = {"good": Counted(str(log)), "bad": Failing()}
    with pytest.raises(RunError, match="a classifier failed") as caught:
        ap.from_sklearn(classifiers, X, y, cv=3, store=url)
    for part in ("classifier 'bad', the data set", "ZeroDivisionError: no fit", "on_error='nan'"):
        assert part in str(caught.value)
    assert log.read_text() == "xxx"
    with pytest.warns(ClassifierWarning, match="classifier 'bad', the data set failed"):
        scores = ap.from_sklearn(classifiers, X, y, cv=3, store=url, on_error="nan")
    assert log.read_text() == "xxx"  # not fitted again
    assert np.isnan(scores["score"].sel(model="bad")).all()
    np.testing.assert_array_equal(
        scores["score"].sel(model="good"), ap.from_sklearn(GaussianNB(), X, y, cv=3)["score"][0]
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "s.zarr"]
    ap.from_sklearn({"good": Counted(str(log))}, X, 1 - y, cv=3, store=url, overwrite=True)
    assert log.read_text() == "xxxxxx"  # other labels
    piped = make_pipeline(FunctionTransformer(lambda X: X), GaussianNB())  # nothing can be kept of a lambda
    xr.testing.assert_equal(
        ap.from_sklearn(piped, X, y, cv=3, store=tmp_path / "t.zarr")["score"].compute().drop_vars("model"),
        ap.from_sklearn(GaussianNB(), X, y, cv=3)["score"].drop_vars("model"),
    )


def test_a_slow_disk_is_no_failure_of_a_classifier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table()
    ticks = itertools.count()
    slow = SimpleNamespace(time=lambda: float(next(ticks)))  # each look at it takes a second, so joblib warns
    monkeypatch.setattr("joblib.memory.time", slow)
    scores = ap.from_sklearn(GaussianNB(), X, y, cv=3, store=tmp_path / "s.zarr")
    assert next(ticks) > 1
    np.testing.assert_array_equal(scores["score"], ap.from_sklearn(GaussianNB(), X, y, cv=3)["score"])


def test_classifiers_show_progress(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table()
    steps: list[tuple[str, int, int]] = []
    ap.from_sklearn([GaussianNB()] * 3, {"a": (X, y), "b": (X, y)}, cv=3, on_progress=lambda *step: steps.append(step))
    assert steps == [("scoring classifiers", done, 6) for done in range(1, 7)]
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(showing, "SECONDS_BETWEEN_LINES", 0.0)
    ap.from_sklearn([GaussianNB()] * 3, X, y, cv=3, progress=True)
    assert "scoring classifiers" in capsys.readouterr().err


def test_indices_that_differ_are_refused() -> None:
    X, y = table()
    frame = pd.DataFrame(X, index=[f"i{i}" for i in range(len(y))])
    for wrong in ({"y": pd.Series(y)}, {"y": pd.Series(y, frame.index)[::-1]}):
        with pytest.raises(AlignmentError, match="X and y carry different labels of items"):
            ap.from_sklearn(GaussianNB(), frame, cv=3, **wrong)
    with pytest.raises(AlignmentError, match="X and weight carry different"):
        ap.from_sklearn(GaussianNB(), (frame, y, pd.Series(y + 1.0)), cv=3)
    with pytest.raises(AlignmentError, match="X and clusters carry different"):
        ap.from_sklearn(GaussianNB(), (frame, y), cv=3, clusters=pd.Series(y))


def test_classifiers_and_data_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    from sklearn.linear_model import LogisticRegression, Perceptron
    from sklearn.model_selection import ShuffleSplit
    from sklearn.neighbors import NearestCentroid

    class LabelsOnly(NearestCentroid):
        predict_proba = decision_function = property()

    X, y = table()
    logistic = LogisticRegression()
    text, fitted, cv = np.where(y, "a", "b"), LogisticRegression().fit(X, y), {"cv": 3}
    by = [cv | {"response": one} for one in RESPONSES]
    for error, classifier, data, given, message in (
        (InvalidInputError, LabelsOnly(), (X, y), cv, r"labels only[\s\S]*'plain'"),
        (
            InvalidInputError,
            Perceptron(),
            (X, y),
            cv | {"response": RESPONSES[0]},
            r"has no pre[\s\S]*'decision_function'",
        ),
        (InvalidInputError, GaussianNB(), (X, y), by[1], r"has no decision_function[\s\S]*'predict_proba'"),
        (InvalidInputError, logistic, (X, y), {"store": tmp_path / "s.zarr"}, r"not fitted[\s\S]*cv=5"),
        (InvalidInputError, logistic, (X, y), {"cv": ShuffleSplit(2, random_state=0)}, "every item once"),
        (InvalidInputError, logistic, (X, text), cv, "the positive class is not given"),
        (InvalidInputError, fitted, (X, y), {"pos_label": 7}, "does not know the positive class"),
        (AlignmentError, logistic, (X, y[1:]), cv, "rows for different items"),
    ):
        with pytest.raises(error, match=message):
            ap.from_sklearn({"plain": classifier}, data, **given)
    assert not (tmp_path / "s.zarr").exists()
    with pytest.raises(InvalidInputError, match="there is no classifier"):
        ap.from_sklearn({}, (X, y), cv=3)


def test_absent_packages_are_named_with_their_extra(monkeypatch: pytest.MonkeyPatch, scores: xr.Dataset) -> None:
    for name in ("polars", "sklearn"):
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.setitem(sys.modules, f"{name}.metrics", None)
    with pytest.raises(InvalidInputError, match=r"aucpr-dask\[polars\]"):
        ap.evaluate(scores).aucpr.to_polars()
    with pytest.raises(InvalidInputError, match=r"aucpr-dask\[sklearn\]"):
        ap.scorer()


# What it looks like


class Page(HTMLParser):
    """The tags of a piece of HTML, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, "tags are not nested"

    def handle_data(self, data: str) -> None:
        self.text += f"{data}\n"


def test_results_show_their_ranking(result: xr.DataTree) -> None:
    text = repr(result.aucpr)
    assert text.startswith("result: 3 data sets, 3 to 5 models, 3 queries\n")
    best = result["large/estimate"].sel(estimator="average_precision").max().item()
    assert f"{best:.4f}" in text
    assert max(map(len, text.splitlines())) <= 80
    page = Page(result.aucpr._repr_html_())
    assert page.open == []
    assert page.tags.count("table") == 3
    assert f"{best:.4f}" in page.text
    assert "topics, average precision, mean of 3 queries, score interval" in page.text
    assert page.tags.count("svg") == 9


def test_names_in_reprs_stay_text(hostile: xr.Dataset) -> None:
    shown = ap.evaluate(hostile).aucpr
    assert "\x1b" not in repr(shown)
    assert "[bold]x" in repr(shown)
    html = shown._repr_html_()
    assert "<script" not in html
    page = Page(html)
    assert page.open == []
    tables = {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert set(page.tags) <= {"div", "p", "strong", "svg", "line", "circle"} | tables
    assert "<script>alert(1)</script>" in page.text


def test_reprs_compute_nothing(forest: xr.DataTree) -> None:
    lazy = ap.evaluate(forest.chunk())
    assert "not computed yet" in repr(lazy.aucpr)
    assert "not computed yet" in lazy.aucpr._repr_html_()
    assert (
        repr(forest.aucpr)
        == "scores: 3 data sets, 3 to 5 models, 3 queries, 20 to 80 items\nevaluate them: .aucpr.evaluate()"
    )
    assert repr(ap.compare(ap.evaluate(queried())).isel(model=0, drop=True).aucpr) == "comparison"
    assert repr(xr.Dataset().aucpr) == "data"


# The command line


@pytest.mark.slow
def test_export_command(forest: xr.DataTree, tmp_path: Path) -> None:
    ap.save_scores(forest, tmp_path / "s.zarr")
    ap.run(tmp_path / "s.zarr", tmp_path / "r.zarr", workers=1, missing="drop")
    ok("export", tmp_path / "r.zarr", tmp_path / "t.csv", "--dataset", "large")
    assert set(pd.read_csv(tmp_path / "t.csv")["dataset"]) == {"large"}
    ok("export", tmp_path / "r.zarr", tmp_path / "w.parquet", "--wide")
    assert len(pd.read_parquet(tmp_path / "w.parquet")) == 5
    done = ok("export", tmp_path / "s.zarr", tmp_path / "runs", "--format", "trec_run", "--json")
    assert json.loads(done.stdout)["path"] == str(tmp_path / "runs")
    assert len(list((tmp_path / "runs" / "topics" / "runs").iterdir())) == 4
    again = CliRunner().invoke(main, ["export", str(tmp_path / "r.zarr"), str(tmp_path / "t.csv")])
    assert again.exit_code == 2
    assert "--overwrite" in again.stderr
    ok("export", tmp_path / "r.zarr", tmp_path / "t.csv", "--overwrite")


def completions(line: str) -> list[str]:
    *words, incomplete = shlex.split(line) if not line.endswith(" ") else [*shlex.split(line), ""]
    found = BashComplete(main, {}, "aucpr-dask", "_AUCPR_DASK_COMPLETE").get_completions(words, incomplete)
    return [item.value for item in found]


def test_the_shell_completes_commands_and_names() -> None:
    assert completions("ex") == ["export"]
    assert "trec" in completions("import ")
    assert completions("evaluate s r --estimator interpolated_m") == [
        name for name in ESTIMATORS if name.startswith("interpolated_m")
    ]
    assert completions("evaluate s r --estimator al") == ["all"]
    assert completions("compare r --estimator roc") == ["roc_area"]
    assert completions("show r --estimator precision_at_r") == ["precision_at_recall("]
    assert completions("evaluate s r --interval wil") == ["wilson"]
    after = completions("evaluate s r --interval logit,")
    assert after == [f"logit,{name}" for name in INTERVALS if name != "logit"]
    assert "trec_eval" in completions("export r x --format tr")
    assert "drop" in completions("evaluate s r --missing ")


@pytest.mark.skipif(not (shutil.which("bash") and shutil.which("aucpr-dask")), reason="the command is not installed")
def test_bash_completes_by_the_script_that_the_page_names() -> None:
    script = """
    eval "$(_AUCPR_DASK_COMPLETE=bash_source aucpr-dask)"
    COMP_WORDS=(aucpr-dask evaluate --estimator binorm) COMP_CWORD=3
    $(complete -p aucpr-dask | sed 's/.*-F \\([^ ]*\\).*/\\1/') aucpr-dask
    echo "${COMPREPLY[@]}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["binormal"]


def test_a_selection_of_one_estimator_or_interval_keeps_its_table() -> None:
    result = ap.evaluate(queried(), ["average_precision"], ["influence_beta"])
    table = repr(result.aucpr)
    assert "m1" in table
    for part in (
        result.squeeze(),
        result.sel(estimator="average_precision"),
        result.sel({"interval_method": "influence_beta"}),
        result.sel({"estimator": "average_precision", "interval_method": "influence_beta"}),
    ):
        assert repr(part.aucpr) == table
        assert part.aucpr._repr_html_() == result.aucpr._repr_html_()
    for part in (result.isel(model=0), result.isel(model=0).squeeze(), result[["estimate", "flags"]]):
        assert repr(part.aucpr)


def test_a_table_counts_the_queries_that_were_used() -> None:
    scores = queried(3, 5)
    label = scores["label"].copy()
    label[1:3] = label[1:3].where(label[1:3] != 1, 0)
    text = repr(ap.evaluate(scores.assign(label=label)).aucpr)
    assert "mean of 3 queries" in text


def test_comparisons_and_ranks_show_tables_and_their_parts_a_line() -> None:
    result = ap.evaluate(queried())
    for answer, kind, word in ((ap.compare(result), "comparison", "to next"), (ap.rank(result), "ranks", "rank set")):
        text = repr(answer.aucpr)
        assert text.startswith(f"{kind}: 4 models\n")
        assert word in text
        assert all(name in text for name in result["model"].values)
        assert max(map(len, text.split("\n"))) <= 80
        page = answer.aucpr._repr_html_()
        assert f">{word}</th>" in page
        assert page.count("<tr>") == 1 + 4  # a header and the models
        assert page.count("<circle") == (3 if kind == "comparison" else 4)
        for part in (answer.isel(model=0), answer.isel(model=slice(0)), answer[[next(iter(answer.data_vars))]]):
            assert repr(part.aucpr)
            assert part.aucpr._repr_html_()
