"""Tables with letters of significance: what compare says, in LaTeX, Markdown, a terminal and a notebook."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from click.testing import CliRunner
from conftest import ok, queried

import aucpr_dask as ap
from aucpr_dask.cli import main
from aucpr_dask.demo import data_folder
from aucpr_dask.errors import AlignmentError, InvalidInputError, StoreError
from aucpr_dask.interplay.values import save_values

random = np.random.default_rng(5)
HARD = random.normal(0.5, 0.1, 30)
NAMES = ["a_b & 50 %", "x|y*", "<b>m</b>", "plain"]
TIDY = pd.DataFrame(
    [
        {"model": name, "topic": f"t{i:02}", "measure": measure, "value": HARD[i] + gap * place + noise}
        for place, name in enumerate(NAMES)
        for measure, gap in (("nDCG@10", 0.05), ("P@10", 0.0))
        for i, noise in enumerate(random.normal(0, 0.03, 30))
    ]
)
VALUES = ap.from_values(TIDY)


@pytest.mark.parametrize("method", ["sign_flip", "t", "wilcoxon"])
def test_letters_are_the_models_that_compare_finds_worse(method: str) -> None:
    table = ap.letters(VALUES, method=method, n_resamples=500)
    model_of = table.names.to_dict()
    for measure in ("nDCG@10", "P@10"):
        found: Any = ap.compare(VALUES, estimator=measure, method=method, n_resamples=500)
        np.testing.assert_array_equal(table.means[measure].sort_index(), found["estimate"].to_series().sort_index())
        for model, worse in table.worse[measure].items():
            one = found.sel(model=model)
            is_worse = (one["difference"] > 0) & (one["p_adjusted"] <= 0.05)
            assert {model_of[letter] for letter in worse} == {*one["other_model"].values[is_worse.values]}
    assert list(table.means.index) == NAMES[::-1]
    assert table.worse["nDCG@10"].iloc[0] == "bcd"
    assert "Means over 30 topics." in table.caption
    assert "6 pairs of each measure" in table.caption
    ends: Any = ap.aggregate(VALUES, level=0.9)["interval"].sel(model="plain", measure="P@10")
    wide = ap.letters(VALUES, method=method, n_resamples=500, intervals=True, level=0.9)
    np.testing.assert_array_equal(wide.bounds.loc["plain", "P@10"], ends)
    assert "Brackets: 90 % intervals (score)." in wide.caption
    assert " [{:.3f}, {:.3f}]".format(*ends.values) in wide.to_markdown()


def test_letters_of_groups_name_their_family() -> None:
    random, label = np.random.default_rng(0), np.tile([0, 1], 60)
    scores = xr.Dataset({"score": (("model", "item"), random.normal(size=(2, 120)) + label), "label": ("item", label)})
    scores = scores.assign_coords(model=["a", "b"], site=("item", np.repeat(["Bern", "Lund", "Oslo"], 40)))
    assert "adjusted for the 3 pairs of all groups" in ap.letters(scores, by="site").caption


def test_less_is_better_turns_the_letters_round() -> None:
    one = TIDY[TIDY["measure"] == "nDCG@10"]
    low = ap.letters(ap.from_values(one, measure="nDCG@10", lower_is_better=True))
    assert list(low.means.index) == NAMES
    assert low.worse["nDCG@10"].iloc[0] == "bcd"


def test_latex_and_markdown_escape_names(tmp_path: Path) -> None:
    table = ap.letters(VALUES)
    text = table.to_latex("tab:x")
    assert r"a\_b \& 50 \%" in text
    assert r"\label{tab:x}" in text
    assert r"5 \% level" in text
    assert "^{bcd}$" in text
    assert text.count(r"\\") == 5
    text = table.to_markdown()
    assert r"x\|y\*" in text
    assert "<b>" not in text
    assert len({line.replace(r"\|", "").count("|") for line in text.splitlines()[:6]}) == 1
    assert "<b>" not in table._repr_html_()
    assert table.save(tmp_path / "t.tex").read_text().startswith(r"\begin{table}")
    with pytest.raises(StoreError, match="already"):
        table.save(tmp_path / "t.tex")
    table.save(tmp_path / "t.tex", overwrite=True)
    with pytest.raises(InvalidInputError, match=r"table\.tex or table\.md"):
        table.save(tmp_path / "t.docx")


def test_more_models_than_letters_have_numbers() -> None:
    rows = {f"m{i:02}": HARD + i * 0.05 for i in range(30)}
    table = ap.letters(ap.from_values(pd.DataFrame(rows).assign(topic=np.arange(30).astype(str)), measure="AP"))
    assert table.names.index[29] == "30"
    assert table.worse["AP"].iloc[28] == "30"
    assert table.worse["AP"].iloc[27] == "29,30"


@pytest.mark.parametrize("options", [{"baseline": "plain"}, {"estimator": "P@10"}, {"equivalence": 0.1}])
def test_options_of_one_comparison_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises((InvalidInputError, TypeError), match=next(iter(options))):
        ap.letters(VALUES, **options)
    with pytest.raises(InvalidInputError, match="not a result of several models"):
        ap.letters(ap.compare(VALUES)[["difference"]])


def test_the_command_makes_the_table_of_a_store(tmp_path: Path) -> None:
    save_values(VALUES, tmp_path / "v.zarr")
    words = ["table", str(tmp_path / "v.zarr"), "--output", str(tmp_path / "t.md")]
    done = ok(*words)
    assert "Means over 30 topics" in done.stdout
    assert "bcd" in (tmp_path / "t.md").read_text()
    assert CliRunner().invoke(main, ["table", "run.txt", "--measures", "AP"]).exit_code == 2
    done = CliRunner().invoke(main, ["table", str(tmp_path / "v.zarr"), "--intervals"], env={"COLUMNS": "60"})
    assert done.stdout.count("a  plain") == 2  # all columns, below each other
    assert max(map(len, done.stdout.splitlines())) <= 60


def test_the_command_says_what_runs_and_judgments_do_not_share(tmp_path: Path) -> None:
    (tmp_path / "a.run").write_text("q1 Q0 D1 1 3 a\nq9 Q0 D1 1 1 a\n")
    (tmp_path / "qrels").write_text("q1 0 100 1\nq2 0 101 1\n")
    words = ["table", str(tmp_path / "a.run"), "--qrels", str(tmp_path / "qrels")]
    said = CliRunner().invoke(main, words).stdout
    notes = json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)["notes"]
    assert [words for words in notes if "no retrieved document is judged" in words]
    assert [words for words in notes if "topics that are not in the qrels" in words]
    assert all(words in said for words in notes)


@pytest.mark.needs("ir_measures")
def test_one_command_leads_from_runs_to_a_table(tmp_path: Path) -> None:
    with data_folder() as data:
        clef = data / "clef-tar-2017-mini"
        words = ["table", *map(str, sorted((clef / "runs").iterdir())), "--qrels", str(clef / "qrels.txt.xz")]
        done = CliRunner().invoke(main, [*words, "--measures", "AP P@10", "--output", str(tmp_path / "t.tex")])
        names = ("average_precision", "precision_at(10)")
        ours = CliRunner().invoke(main, [*words, "--json", *(word for name in names for word in ("--estimator", name))])
        both = CliRunner().invoke(main, [*words, "--measures", "AP", "--estimator", "average_precision"])
    assert done.exit_code == 0, done.output
    assert "14 queries, by ir_measures" in done.stdout
    assert "14 queries, positive from grade 1, ties by name" in json.loads(ours.stdout)["caption"]
    for row in json.loads(ours.stdout)["models"]:
        means = [f"{mean:.4f}" for mean in row["means"].values()]
        plain = re.sub(r"\$|\^\{\w*\}", "", (tmp_path / "t.tex").read_text())
        assert " & ".join(means) in re.sub(r"\\mathbf\{(.*?)\}", r"\1", plain)
    assert both.exit_code == 2
    assert "0.4224" in (tmp_path / "t.tex").read_text()
    assert "AP & P@10" in (tmp_path / "t.tex").read_text()


def test_the_best_is_bold_and_tables_are_files_of_values(tmp_path: Path) -> None:
    rows = pd.DataFrame({"model": list("abc") * 12, "task": np.repeat(np.arange(12), 3).astype(str)})
    rows = rows.assign(acc=np.tile([0.5, 0.75, 0.25], 12), WER=np.tile([9.0, 5.0, 7.0], 12))
    table = ap.letters(ap.from_values(rows), n_resamples=100)
    for text, bold in ((table.to_latex(), r"\mathbf{%s}"), (table.to_markdown(), "**%s**")):
        assert all((bold % number in text) for number in ("0.7500", "5.0000"))
        assert not any((bold % number in text) for number in ("0.5000", "0.2500", "9.0000", "7.0000"))
    read = pd.read_csv(table.save(tmp_path / "t.csv"))
    assert read["model"].tolist() == ["b", "a", "c"]
    assert read["acc"].tolist() == [0.75, 0.5, 0.25]
    assert read["WER better than"].fillna("").tolist() == table.worse["WER"].tolist()


@pytest.mark.parametrize("kept", [{"model": [0]}, {"query": [0]}])
def test_one_model_or_one_query_has_a_table_of_means(kept: dict[str, list[int]]) -> None:
    result = ap.evaluate(queried(3, 6), missing="drop").isel(kept)
    table = ap.letters(result)
    np.testing.assert_allclose(np.sort(table.means.iloc[:, 0]), np.sort(result["estimate"].mean("query")))
    assert "Nothing is compared: there is one" in table.caption
    assert (table.worse == "").all(axis=None)
    scores = ap.letters(queried(3, 6), n_resamples=100)
    assert scores.means.shape == (3, 1)


@pytest.mark.filterwarnings("ignore::aucpr_dask.errors.FewUnitsWarning")
@pytest.mark.parametrize("has_queries", [True, False])
def test_models_that_lack_scores_are_compared_on_common_items(has_queries: bool) -> None:
    scores = queried(3, 9, 60)
    scores = scores if has_queries else scores.isel(query=0, drop=True)
    random = np.random.default_rng(1)
    scores["score"] = scores["score"].where(random.random(scores["score"].shape) > 0.05)
    table, found = ap.letters(scores, missing="drop"), ap.compare(scores, missing="drop")
    np.testing.assert_array_equal(table.means["average precision"].sort_index(), found["estimate"].sortby("model"))
    assert "items that all scored: " in table.caption


@pytest.mark.parametrize("intervals", [False, True])
def test_each_measure_has_the_models_and_units_that_it_was_measured_on(intervals: bool) -> None:
    random, kinds = np.random.default_rng(0), ["accuracy", "f1", "ece"]
    values = xr.DataArray(random.random((3, 12, 3)), {"model": list("abc"), "query": range(12), "measure": kinds})
    values = values + xr.DataArray([0, 0.5, 1], dims="model")
    values[0, 2, 1] = values[1, 5, 1] = values[2, :, 2] = np.nan
    result = ap.from_values(values, lower_is_better="ece")
    with pytest.raises(AlignmentError, match=r"'a' lacks query '2'(.*\n)*  measure: 'f1'"):
        ap.letters(result)
    table = ap.letters(result, incomplete="drop", intervals=intervals)
    for name, models, gone in [("accuracy", "abc", []), ("f1", "abc", [2, 5]), ("ece", "ab", [])]:
        alone = values.sel(measure=name, model=list(models)).drop_sel(query=gone)
        np.testing.assert_allclose(table.means[name].dropna().sort_index(), alone.mean("query"))
        if intervals:
            of_one = ap.aggregate(ap.from_values(alone, lower_is_better=name == "ece"))["interval"]
            np.testing.assert_allclose(table.bounds[name].dropna().sort_index(), of_one.transpose("model", ...))
    said = "In f1: left out: 2 of 12 queries ('2', '5'), of which 'a' lacks 1, 'b' lacks 1; in ece: without 'c'."
    assert said in table.caption
    assert "Means over 10 to 12 queries" in table.caption
    assert "adjusted for the pairs of each measure" in table.caption
