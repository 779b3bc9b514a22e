"""Values of any measure are read from any table, and statements about them are scipy's and ir_measures' own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from click.testing import CliRunner
from conftest import call, few, ok
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import aucpr_dask as ap
from aucpr_dask.cli import main
from aucpr_dask.demo import data_folder
from aucpr_dask.errors import AlignmentError, FileFormatError, InvalidInputError
from aucpr_dask.interplay.retrieval import evaluator_of
from aucpr_dask.interplay.values import save_values

TOPICS = [str(number) for number in range(301, 355)]
random = np.random.default_rng(3)
WIDE = pd.DataFrame({"topic": TOPICS} | {model: random.normal(size=54).round(4) for model in ("bm25", "dense", "rm3")})
TIDY = WIDE.melt("topic", var_name="system", value_name="nDCG@10")
VALUES = ap.from_values(WIDE, measure="nDCG@10")
BOTH = ap.from_values(TIDY.assign(AP=TIDY["nDCG@10"] / 2))


def same(found: xr.Dataset, expected: xr.Dataset = VALUES) -> None:
    xr.testing.assert_identical(found, expected)


# --- tables -----------------------------------------------------------------------------------------------------


def test_values_are_an_estimate_by_model_and_query_with_their_words() -> None:
    assert VALUES["estimate"].dims == ("model", "query")
    assert VALUES["estimate"].dtype == np.float64
    assert VALUES.attrs["measure"] == "nDCG@10"
    assert VALUES.attrs["unit"] == "topic"
    np.testing.assert_array_equal(VALUES["estimate"].sel(model="dense"), WIDE["dense"])


def test_several_measures_are_a_dimension() -> None:
    assert BOTH["estimate"].dims == ("model", "query", "measure")
    assert BOTH["measure"].values.tolist() == ["nDCG@10", "AP"]
    assert "measure" not in BOTH.attrs
    np.testing.assert_array_equal(BOTH["estimate"].sel(measure="AP"), VALUES["estimate"] / 2)


MAPPING = {model: dict(zip(TOPICS, WIDE[model], strict=True)) for model in WIDE.columns[1:]}
NESTED = {model: {topic: {"nDCG@10": value} for topic, value in values.items()} for model, values in MAPPING.items()}


@pytest.mark.parametrize(
    ("make", "column"),
    [
        (lambda: ap.from_values(TIDY, value="nDCG@10"), "nDCG@10"),
        (lambda: ap.from_values(TIDY.rename(columns={"nDCG@10": "value"}).assign(metric="nDCG@10")), "value"),
        # Models and topics have a column, so the other one is headed by its measure.
        (lambda: ap.from_values(TIDY), "nDCG@10"),
        (lambda: ap.from_values(ap.from_values(TIDY)), "nDCG@10"),
    ],
)
def test_a_tidy_table_has_the_same_values_and_names_their_column(make: Callable[[], xr.Dataset], column: str) -> None:
    same(make(), VALUES.assign_attrs(value_column=column))


@pytest.mark.parametrize(
    "make",
    [
        lambda: ap.from_values(WIDE.set_index("topic"), measure="nDCG@10"),
        lambda: ap.from_values(WIDE.set_index("topic").T.rename_axis("run"), measure="nDCG@10", unit_name="topic"),
        lambda: ap.from_values(WIDE.rename(columns={"topic": "t"}), query="t", measure="nDCG@10", unit_name="topic"),
        lambda: ap.from_values(WIDE.assign(n=1), exclude="n", measure="nDCG@10"),
        lambda: ap.from_values(BOTH, measure="nDCG@10"),
        lambda: ap.from_values(BOTH.sel(measure="nDCG@10")),
        lambda: ap.from_values(VALUES),
        lambda: ap.from_values(VALUES["estimate"].rename(query="topic"), measure="nDCG@10"),
        lambda: ap.from_values(MAPPING, measure="nDCG@10", unit_name="topic"),
        lambda: ap.from_values(NESTED, unit_name="topic"),
    ],
)
def test_every_shape_of_a_table_has_the_same_values(make: Callable[[], xr.Dataset]) -> None:
    same(make())


@pytest.mark.needs("polars")
def test_a_frame_of_polars_has_the_same_values() -> None:
    import polars

    same(ap.from_values(polars.DataFrame(WIDE.to_dict("list")), measure="nDCG@10"))


@pytest.mark.needs("ir_measures")
def test_metrics_of_ir_measures_are_values() -> None:
    import ir_measures

    metrics = {
        model: [ir_measures.Metric(topic, ir_measures.nDCG @ 10, value) for topic, value in values.items()]
        for model, values in MAPPING.items()
    }
    same(ap.from_values(metrics, unit_name="topic"))
    one = ap.from_values(metrics["bm25"], unit_name="topic")
    xr.testing.assert_equal(one, ap.from_values({"run": metrics["bm25"]}))


def test_a_tidy_table_of_one_run_needs_no_column_of_models(tmp_path: Path) -> None:
    table = pd.DataFrame({"topic": ["1", "2"] * 2, "measure": ["AP", "AP", "P", "P"], "value": [0.1, 0.2, 0.3, 0.4]})
    table.to_csv(tmp_path / "bm25.csv", index=False)
    found = ap.from_values(tmp_path / "bm25.csv")
    xr.testing.assert_identical(found, ap.from_values(table.assign(model="bm25")))
    assert ap.from_values(table)["model"].values.tolist() == ["run"]
    for other in (table.assign(engine="bm25"), pd.concat([table, table])):  # which may tell runs apart, or hold two
        with pytest.raises(InvalidInputError, match="no column of models"):
            ap.from_values(other)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("t.csv", lambda file: WIDE.to_csv(file, index=False)),
        ("t.csv.gz", lambda file: WIDE.to_csv(file, index=False)),
        ("t.txt", lambda file: WIDE.to_csv(file, index=False, sep=";")),
        ("t.tsv", lambda file: WIDE.to_csv(file, index=False, sep="\t")),
        ("t.parquet", lambda file: WIDE.to_parquet(file)),
        ("named.parquet", lambda file: WIDE.set_index("topic").to_parquet(file)),
    ],
)
def test_files_have_the_values_of_the_frame(tmp_path: Path, name: str, write: Callable[[Path], None]) -> None:
    write(tmp_path / name)
    same(ap.from_values(tmp_path / name, measure="nDCG@10"))


def test_names_of_tables_that_say_task_or_data_set_are_the_words_for_a_unit() -> None:
    for column, unit in {"task": "task", "dataset": "data set", "Dataset": "data set", "qid": "query"}.items():
        assert ap.from_values(WIDE.rename(columns={"topic": column})).attrs["unit"] == unit
    assert ap.from_values(WIDE.rename(columns={"topic": "language"}), query="language").attrs["unit"] == "language"


def test_an_absent_row_and_an_empty_cell_are_missing(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("model,task,value\na,x,1.5\na,y,\nb,x,-2\n")
    values = ap.from_values(tmp_path / "t.csv")
    np.testing.assert_array_equal(values["estimate"], [[1.5, np.nan], [-2.0, np.nan]])
    with pytest.raises(AlignmentError, match="'b' lacks task 'y'"):
        ap.compare(ap.from_values(pd.DataFrame({"task": ["x", "y", "z"], "a": [1, 2, 3], "b": [3, None, 4]})))


@pytest.mark.slow
@few
@given(st.permutations(range(len(TIDY))))
def test_the_order_of_rows_changes_no_statement(order: list[int]) -> None:
    shuffled, in_order = ap.from_values(TIDY.iloc[order]), VALUES.assign_attrs(value_column="nDCG@10")
    models = VALUES["model"].values
    for statement in (ap.aggregate, lambda values: ap.compare(values, "bm25", n_resamples=50)):
        found, expected = statement(shuffled).sel(model=models), statement(in_order)
        xr.testing.assert_identical(found, expected)


@pytest.mark.parametrize(
    ("table", "options", "words"),
    [
        (WIDE.assign(dense=["x", *WIDE["dense"][1:]]), {}, "row 1, column 'dense'"),
        (WIDE.assign(dense=[*WIDE["dense"][:53], np.inf]), {}, "row 54, column 'dense'"),
        (WIDE.assign(dense=["1_0"] * 54), {}, "'1_0'"),
        (WIDE.assign(dense=[1 + 2j] * 54), {}, r"\(1\+2j\)"),
        (WIDE.drop(columns="topic"), {}, "no column of models or of queries, topics, tasks or data sets"),
        (WIDE[["topic"]], {}, "no column of values"),
        (TIDY, {"value": "AP"}, "no column"),
        (TIDY, {"query": "t"}, "no column"),
        (WIDE, {"exclude": "x"}, "no column"),
        (WIDE.assign(topic=[None, *TOPICS[1:]]), {}, "name is missing"),
        (BOTH, {"measure": "RR"}, "allowed: 'nDCG@10', 'AP'"),
        ({}, {}, "no column"),
        (7, {}, "neither a mapping nor a data frame"),
        (np.eye(3), {}, r"arrays need labels: xarray.DataArray"),
        (TIDY.iloc[:0], {}, "there are no values"),
        (xr.DataTree.from_dict({"a": VALUES}), {}, r"one data set[\s\S]*to_dataset"),
    ],
)
def test_a_table_that_is_not_one_of_values_is_refused_with_its_place(
    table: Any, options: dict[str, str], words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words):
        ap.from_values(table, **options)


def test_data_sets_of_different_measures_are_not_averaged() -> None:
    tree = xr.DataTree.from_dict(
        {name: VALUES.assign_attrs(measure=measure) for name, measure in {"x": "accuracy", "y": "error"}.items()}
    )
    for ask in (ap.aggregate, ap.compare):
        with pytest.raises(
            AlignmentError, match=r"different measures[\s\S]*accuracy in data set 'x', error in data set 'y'"
        ):
            ask(tree, over="dataset")


def test_counts_of_ir_measures_are_left_out(tmp_path: Path) -> None:
    lines = [f"q{i}\t{measure}\t{value}\n" for i in range(2) for measure, value in {"NumQ": 1, "nDCG@10": 0.5}.items()]
    (tmp_path / "a.txt").write_text("".join(lines))
    values = ap.from_values(tmp_path / "a.txt")
    assert values.attrs["measure"] == "nDCG@10"
    assert "measure" not in values.dims


@pytest.mark.needs("ir_measures")
def test_a_misspelled_measure_is_received_not_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("q 0 d 1\n")
    with pytest.raises(InvalidInputError, match=r"received: 'ndgc@10': .*ndgc[\s\S]*remedy: check each name"):
        evaluator_of("ndgc@10", tmp_path / "qrels")


def test_series_are_tables() -> None:
    xr.testing.assert_equal(ap.from_values(TIDY.set_index(["system", "topic"])["nDCG@10"]), ap.from_values(TIDY))
    of_models = {model: WIDE.set_index("topic")[model] for model in WIDE.columns[1:]}
    np.testing.assert_array_equal(ap.from_values(of_models)["estimate"], VALUES["estimate"])
    by_index = WIDE.set_index("topic", drop=False)
    np.testing.assert_array_equal(ap.from_values(by_index)["estimate"], VALUES["estimate"])


def test_neither_stores_nor_empty_tables_are_imported(tmp_path: Path) -> None:
    save_values(VALUES, tmp_path / "values.zarr")
    for read in (ap.from_values, ap.audit):
        with pytest.raises(InvalidInputError, match=r"this is a store[\s\S]*open_result"):
            read(tmp_path / "values.zarr")
    (tmp_path / "empty.csv").write_text("model,t1,t2\n")
    done = CliRunner().invoke(main, ["import", "values", str(tmp_path / "empty.csv"), str(tmp_path / "new.zarr")])
    assert done.exit_code == 2
    assert "there are no values" in done.stderr
    assert not (tmp_path / "new.zarr").exists()


def test_a_value_that_is_there_twice_is_refused_with_both_places(tmp_path: Path) -> None:
    with pytest.raises(AlignmentError, match="row 1 and the data frame, row 163"):
        ap.from_values(pd.concat([TIDY, TIDY[:1]]))
    (tmp_path / "a.csv").write_text("model,task,value\na,x,1\n\na,y,1\n")
    (tmp_path / "b.csv").write_text("model,task,value\na,y,1\n")
    with pytest.raises(AlignmentError, match=r"a\.csv, line 4 and .*b\.csv, line 2"):
        ap.from_values([tmp_path / "a.csv", tmp_path / "b.csv"])


# --- what other evaluators print --------------------------------------------------------------------------------


def line(measure: str, topic: str, value: object) -> str:
    return f"{measure:<22}\t{topic}\t{value}\n"


def evaluation(model: str, *, name: str | None = None, mean: float | None = None, n: int | None = None) -> str:
    """Return what trec_eval -q prints."""
    rows = [line("num_ret", topic, 1000) + line("map", topic, f"{v:.4f}") for topic, v in MAPPING[model].items()]
    rows += [line("runid", "all", name or model), line("num_q", "all", n or 54), line("num_ret", "all", 54_000)]
    rows += [line("gm_map", "all", "0.1234")]
    return "".join([*rows, line("map", "all", f"{WIDE[model].mean() if mean is None else mean:.4f}")])


def test_files_of_trec_eval_are_models_named_by_their_runs(tmp_path: Path) -> None:
    for model in MAPPING:
        (tmp_path / f"{model}.eval").write_text(evaluation(model, name=f"tag-{model}"))
    values = ap.from_values(tmp_path)
    assert values.attrs["measure"] == "map"
    assert values.attrs["unit"] == "topic"
    expected = VALUES["estimate"].assign_coords(model=[f"tag-{model}" for model in MAPPING])
    xr.testing.assert_equal(values["estimate"], expected)


def test_what_we_export_for_trec_eval_is_read_again(tmp_path: Path) -> None:
    ap.export(BOTH, tmp_path / "out", format="trec_eval")
    read = ap.from_values(sorted((tmp_path / "out").glob("*.eval")))
    xr.testing.assert_allclose(read["estimate"], BOTH["estimate"], atol=5e-5)


@pytest.mark.parametrize("summary", [True, False])
def test_output_of_ir_measures_is_read_by_query(tmp_path: Path, summary: bool) -> None:
    for model, values in MAPPING.items():
        rows = [f"{topic}\t{name}\t{value}\n" for topic, value in values.items() for name in ("nDCG@10", "AP")]
        rows += [f"all\t{name}\t{WIDE[model].mean():.4f}\n" for name in ("nDCG@10", "AP")] * summary
        (tmp_path / f"{model}.txt").write_text("".join(rows))
    values = ap.from_values([tmp_path / f"{model}.txt" for model in MAPPING])
    assert values.attrs["unit"] == "query"
    for name in ("nDCG@10", "AP"):
        xr.testing.assert_equal(values["estimate"].sel(measure=name, drop=True), VALUES["estimate"])


def test_a_mean_over_all_topics_that_is_not_theirs_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "bm25.eval"
    file.write_text(evaluation("bm25", mean=WIDE["bm25"].mean() + 0.0003))
    with pytest.raises(FileFormatError, match=r"not the one stated for 'all'\n.*'map'"):
        ap.from_values(file)
    file.write_text(
        evaluation("bm25", mean=WIDE["bm25"].sum() / 60, n=60)
    )  # trec_eval -c, with 6 topics without a list
    assert ap.from_values(file).sizes["query"] == 54


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (line("map", "301", "0.5") + "map\t302\n", "line 2"),
        (line("map", "301", "0.5") + line("map", "302", "high"), "line 2, column 'value'"),
        (line("runid", "all", "x") + line("map", "all", "0.5"), "trec_eval -q"),
        (line("map", "301", "0.5") * 2, "line 1 and .*line 2"),
    ],
)
def test_a_broken_evaluation_is_refused_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "run.eval").write_text(text)
    with pytest.raises(InvalidInputError, match=words):
        ap.from_values(tmp_path / "run.eval")


# --- statements -------------------------------------------------------------------------------------------------


def test_a_t_test_of_values_is_scipys() -> None:
    found = ap.compare(VALUES, "bm25", method="t", adjust="none")
    for model in ("dense", "rm3"):
        theirs = stats.ttest_rel(WIDE[model], WIDE["bm25"])
        one, interval = found.sel(model=model), theirs.confidence_interval(0.95)
        np.testing.assert_allclose(one["difference"], WIDE[model].mean() - WIDE["bm25"].mean(), atol=1e-15)
        np.testing.assert_allclose(one["p_value"], theirs.pvalue, rtol=1e-12)
        np.testing.assert_allclose(one["interval"], [interval.low, interval.high], rtol=1e-12)


def test_a_mean_has_the_t_interval_of_scipy() -> None:
    mean = ap.aggregate(BOTH)
    assert mean["estimate"].dims == ("model", "measure")
    for model in MAPPING:
        theirs = stats.ttest_1samp(WIDE[model], 0.0).confidence_interval(0.95)
        one = mean.sel(model=model, measure="nDCG@10")
        np.testing.assert_allclose(one["estimate"], WIDE[model].mean(), atol=1e-15)
        np.testing.assert_allclose(one["interval"], [theirs.low, theirs.high], rtol=1e-12)


def test_a_measure_is_picked_as_an_estimator_is() -> None:
    for ask in (ap.compare, ap.rank):
        first, second = ask(BOTH, n_resamples=200), ask(BOTH, estimator="AP", n_resamples=200)
        assert first.attrs["measure"] == "nDCG@10"
        assert second.attrs["measure"] == "AP"
        np.testing.assert_allclose(first["estimate"] / 2, second["estimate"])
        with pytest.raises(InvalidInputError, match="did you mean 'AP'"):
            ask(BOTH, estimator="ap")
        with pytest.raises(InvalidInputError, match="allowed: 'nDCG@10'"):
            ask(VALUES, estimator="AP")


@pytest.mark.parametrize(
    "ask",
    [
        lambda: ap.compare(VALUES, over="items"),
        lambda: ap.compare(VALUES, over=("query", "items")),
        lambda: ap.compare(VALUES, method="influence"),
        lambda: ap.rank(VALUES, over="items"),
        lambda: ap.aggregate(VALUES, over="items"),
        lambda: ap.aggregate(BOTH, over=("query", "items")),
    ],
)
def test_values_have_no_items_to_sample(ask: Callable[[], Any]) -> None:
    with pytest.raises(InvalidInputError, match=r"no items that could be sampled(.|\n)*the topics are the sample"):
        ask()


def test_designs_say_topics_and_not_items() -> None:
    assert ap.aggregate(VALUES).attrs["design"] == "sample: topics with a value (up to 54); fixed: the 3 models"
    assert ap.aggregate(VALUES)["interval"].attrs["ci_kind"] == "Student t over topics"
    design = ap.compare(VALUES, n_resamples=200).attrs["design"]
    assert design.startswith("signs flipped: the differences on 54 topics, 200 choices of signs; fixed: the 3 models")
    assert ap.rank(VALUES, n_resamples=200).attrs["unit"] == "topic"


def test_values_of_a_machine_narrow_the_interval() -> None:
    people = VALUES.isel(query=slice(50))
    found = ap.aggregate(people, auxiliary=VALUES)
    assert bool((found["width_ratio"] < 1).all())
    assert "labelled by people, of 54 labelled by machine" in found.attrs["design"]
    assert ap.compare(BOTH.isel(query=slice(50)), auxiliary=BOTH).attrs["measure"] == "nDCG@10"


# --- pictures, pages and files ----------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Path:
    save_values(BOTH, tmp_path / "values.zarr")
    return tmp_path / "values.zarr"


def test_a_store_of_values_opens_as_a_result(store: Path) -> None:
    xr.testing.assert_equal(ap.open_result(store), BOTH)
    assert ap.open_result(store).attrs["unit"] == "topic"


def test_commands_name_the_measure_and_the_topics(store: Path) -> None:
    assert "nDCG@10, mean of 54 topics, t interval" in ok("aggregate", store).stdout
    assert "AP, mean of 54 topics, t interval" in ok("aggregate", store, "--estimator", "AP").stdout
    compared = ok("compare", store, "--baseline", "bm25", "--estimator", "AP").stdout
    assert "all models  AP, sign flip" in compared
    assert "value" in compared
    assert "area" not in compared
    assert "from bootstrap resamples of the topics" in " ".join(ok("rank", store).stdout.split())
    told = ok("info", store).stdout
    assert "models  topics" in told
    assert "prevalence" not in told
    ranking = json.loads(ok("aggregate", store, "--json").stdout)["rankings"][0]
    assert (ranking["estimator"], ranking["n_queries"], ranking["unit"]) == ("nDCG@10", 54, "topic")


def test_names_of_measures_are_not_made_words() -> None:
    values = ap.from_values(WIDE, measure="ndcg_cut_10")
    assert "ndcg_cut_10, mean of 54 topics" in repr(values.aucpr)
    assert values.aucpr.plot.heatmap().get_xlabel() == "54 topics, the easiest first"


def test_plots_name_the_measure_and_the_topics() -> None:
    assert BOTH.aucpr.plot.forest().get_xlabel() == "mean nDCG@10 over 54 topics, 95 % interval"
    assert BOTH.aucpr.plot.forest(estimator="AP", query="301").get_xlabel() == "AP"
    assert BOTH.aucpr.plot.caterpillar(estimator="AP").get_ylabel() == "mean AP over 54 topics, 95 % interval"
    comparison = ap.compare(VALUES, "bm25", n_resamples=200)
    assert "difference in nDCG@10 from bm25" in comparison.aucpr.plot.differences().get_xlabel()
    assert ap.aggregate(BOTH).aucpr.plot.forest(estimator="AP").get_xlabel() == "AP, 95 % interval"


def test_a_report_names_the_measure_and_the_topics(tmp_path: Path) -> None:
    page = ap.report(BOTH, tmp_path / "r.html", baseline="bm25").read_text()
    assert "3 models, 1 data set, 54 topics; nDCG@10 (more is better), AP (more is better)" in page
    assert "leads (nDCG@10 " in page
    assert "Find a topic" in page
    assert "<h3>Measures</h3>" in page
    without_scripts = page.partition("<script")[0]
    assert "Prevalence" not in without_scripts
    assert "<h3>Warnings" not in without_scripts
    assert '"unit_names": ["topic", "topics"]' in page or '"unit_names":["topic","topics"]' in page


def test_exports_name_the_measure(tmp_path: Path) -> None:
    ap.export(VALUES, tmp_path / "t.csv")
    table = pd.read_csv(tmp_path / "t.csv", dtype={"query": str})
    assert table.columns[:4].tolist() == ["model", "query", "measure", "estimate"]
    xr.testing.assert_equal(ap.from_values(table)["estimate"], VALUES["estimate"])
    assert set(ap.aggregate(BOTH).aucpr.to_dataframe()["measure"]) == {"nDCG@10", "AP"}


# --- commands ---------------------------------------------------------------------------------------------------


def test_import_values_writes_a_result_store(tmp_path: Path) -> None:
    WIDE.to_csv(tmp_path / "t.csv", index=False)
    said = ok("import", "values", tmp_path / "t.csv", tmp_path / "v.zarr", "--measure", "nDCG@10").stdout
    assert "3 models, 54 topics, nDCG@10" in said
    assert "next: aucpr-dask aggregate" in said
    xr.testing.assert_equal(ap.open_result(tmp_path / "v.zarr"), VALUES)
    again = call("import", "values", tmp_path / "t.csv", tmp_path / "v.zarr")
    assert again.exit_code == 2
    assert "--overwrite" in again.stderr
    assert json.loads(ok("import", "values", tmp_path / "t.csv", tmp_path / "v.zarr", "--overwrite", "--json").stdout)[
        "summary"
    ]["measures"] == ["value"]


def judged_runs(folder: Path) -> tuple[Path, Path]:
    """Write two runs with judgments: ties, a topic without a list, unjudged documents, and grades."""
    qrels, runs = [], {"a": [], "b": []}
    for topic in range(8):
        for document in range(30):
            grade = int(random.integers(0, 3)) if random.random() < 0.6 else None
            qrels += [f"{topic} 0 d{document} {grade}\n"] if grade is not None else []
            for name in runs:
                if not (name == "b" and topic == 7) and random.random() < 0.8:
                    runs[name].append(f"{topic} Q0 d{document} 0 {random.integers(0, 9) / 4} tag_{name}\n")
    (folder / "runs").mkdir()
    (folder / "qrels").write_text("".join(qrels))
    for name, lines in runs.items():
        (folder / "runs" / f"{name}.txt").write_text("".join(lines))
    return folder / "runs", folder / "qrels"


def share_judged(run: Path, qrels: Path, topic: str, cutoff: int) -> float:
    """Return how much of the top is judged, where of tied documents the last by name comes first, as in trec_eval."""
    judged = {words[2] for words in map(str.split, qrels.read_text().splitlines()) if words[0] == topic}
    lines = [words for words in map(str.split, run.read_text().splitlines()) if words[0] == topic]
    top = sorted(((float(words[4]), words[2]) for words in lines), reverse=True)[:cutoff]
    return sum(document in judged for _, document in top) / len(top) if top else 0.0


@pytest.mark.needs("ir_measures")
@pytest.mark.parametrize("named_by", ["file", "tag"])
def test_measures_of_runs_are_those_of_ir_measures(tmp_path: Path, named_by: str) -> None:
    import ir_measures

    runs, qrels = judged_runs(tmp_path)
    names = ["nDCG@10", "AP", "P(rel=2)@5", "RR", "Judged@10"]
    words = ("--measures", " ".join(names), "--values", tmp_path / "v.zarr", "--name", named_by)
    said = json.loads(ok("import", "trec", runs, tmp_path / "s.zarr", "--qrels", qrels, "--json", *words).stdout)
    assert said["values"]["summary"]["measures"] == names
    values = ap.open_result(tmp_path / "v.zarr")
    assert values.attrs["unit"] == "query"
    measures = [ir_measures.parse_measure(name) for name in names[:-1]]  # given ties, it ranks otherwise for Judged
    for file in sorted(runs.iterdir()):
        model = file.stem if named_by == "file" else f"tag_{file.stem}"
        judgments = list(ir_measures.read_trec_qrels(str(qrels)))
        for one in ir_measures.iter_calc(measures, judgments, list(ir_measures.read_trec_run(str(file)))):
            ours = values["estimate"].sel(model=model, query=one.query_id, measure=str(one.measure))
            assert float(ours) == one.value
        for topic in values["query"].values:
            ours = values["estimate"].sel(model=model, query=topic, measure="Judged@10")
            assert float(ours) == share_judged(file, qrels, topic, 10)
    areas = ap.evaluate(ap.open_scores(tmp_path / "s.zarr"), convention="trec_eval")["estimate"].squeeze(drop=True)
    np.testing.assert_allclose(values["estimate"].sel(measure="AP"), areas.transpose("model", "query"), atol=1e-6)


@pytest.mark.needs("ir_measures")
def test_measures_of_bundled_runs_agree_with_our_average_precision(tmp_path: Path) -> None:
    words = ("--measures", "AP nDCG@10 P@10", "--values", tmp_path / "v.zarr")
    with data_folder() as data:
        clef = data / "clef-tar-2017-mini"
        ok("import", "trec", clef / "runs", tmp_path / "s.zarr", "--qrels", clef / "qrels.txt.xz", *words)
    assert dict(ap.open_result(tmp_path / "v.zarr").sizes) == {"model": 14, "query": 14, "measure": 3}


@pytest.mark.needs("ir_measures")
def test_an_average_precision_that_differs_is_refused_with_its_topic(tmp_path: Path) -> None:
    (tmp_path / "r.txt").write_text("q1 Q0 d1 0 1.00000001 x\nq1 Q0 d2 0 1.0 x\n")  # equal in trec_eval's float32
    (tmp_path / "qrels").write_text("q1 0 d1 1\nq1 0 d2 0\n")
    words = ("--qrels", tmp_path / "qrels", "--measures", "RR", "--values", tmp_path / "v.zarr")
    done = call("import", "trec", tmp_path / "r.txt", tmp_path / "s.zarr", *words, "--dtype", "float64")
    assert done.exit_code == 2
    assert "run 'r', topic 'q1'" in done.stderr
    assert "--dtype float32" in done.stderr
    assert not (tmp_path / "v.zarr").exists()
    ok("import", "trec", tmp_path / "r.txt", tmp_path / "s.zarr", *words, "--overwrite")


@pytest.mark.needs("ir_measures")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--measures", "AP"], "--values"),
        (["--values", "v.zarr"], "--measures"),
        (["--measures", "nDGC@10", "--values", "v.zarr"], "nDGC"),
        (["--measures", "AP(", "--values", "v.zarr"], "names of ir_measures"),
        (["--measures", "alpha_nDCG@10", "--values", "v.zarr"], "pyndeval"),
        (["--measures", " ", "--values", "v.zarr"], "names of ir_measures"),
    ],
)
def test_measures_that_cannot_be_computed_are_refused_before_anything_is_written(
    tmp_path: Path, words: list[str], said: str
) -> None:
    runs, qrels = judged_runs(tmp_path)
    done = call("import", "trec", runs, tmp_path / "s.zarr", "--qrels", qrels, *words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert not (tmp_path / "s.zarr").exists()


@pytest.mark.parametrize("names", [["0", "1", "2", "3", "4"], ["cv fold 1", "cv fold 2", "cv fold 3"]])
def test_values_of_folds_are_compared_by_the_corrected_test(names: list[str]) -> None:
    values = np.random.default_rng(2).random((2, len(names)))
    table = pd.DataFrame({"fold": names, "a": values[0], "b": values[1]})
    found = ap.compare(ap.from_values(table, query="fold"), "a", method="corrected_t").sel(model="b")
    difference, n = values[1] - values[0], len(names)
    error = difference.std(ddof=1) * np.sqrt(1 / n + 1 / (n - 1))
    assert float(found["standard_error"]) == pytest.approx(error)
    assert float(found["p_value"]) == pytest.approx(2 * stats.t.sf(abs(difference.mean() / error), n - 1))
    with pytest.raises(InvalidInputError, match="these are none"):
        ap.compare(
            ap.from_values(table.rename(columns={"fold": "topic"}).assign(topic=list("vwxyz")[:n])),
            method="corrected_t",
        )


def test_folds_of_repeats_tell_how_many_there_are() -> None:
    names = [f"repeat{i}_fold{j}" for i in range(3) for j in range(4)]
    random = np.random.default_rng(3)
    table = pd.DataFrame({"fold": names, "a": random.random(12), "b": random.random(12)})
    found = ap.compare(ap.from_values(table, query="fold"), "a", method="corrected_t").sel(model="b")
    spread = (table["b"] - table["a"]).std(ddof=1)
    assert float(found["standard_error"]) == pytest.approx(spread * np.sqrt(1 / 12 + 1 / 3))
    with pytest.raises(InvalidInputError, match="how many folds each has is not known"):
        ap.compare(
            ap.from_values(table.assign(fold=[f"rep{i}" for i in range(12)]), query="fold"), method="corrected_t"
        )
