"""``aucpr-dask compare`` and ``rank``: what they print, write and refuse."""

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
import xarray as xr
from click.testing import Result
from conftest import call, pooled, queried
from rich.cells import cell_len

import aucpr_dask as ap
from aucpr_dask.cli import main
from aucpr_dask.demo import build_scores
from aucpr_dask.runs.run import run

pytestmark = pytest.mark.filterwarnings("ignore:method='bootstrap' over")  # over few queries, as many here

WIDTH = 80


def ok(*words: object) -> Result:
    result = call(*words)
    assert result.exit_code == 0, result.output
    lines = [
        line for line in result.stdout.splitlines() if "written to" not in line and "next: " not in line
    ]  # paths are whole
    assert "--json" in words or max(map(cell_len, lines)) <= WIDTH
    return result


def example_of(name: str) -> list[str]:
    with click.Context(main.commands[name]) as context:
        return shlex.split(main.commands[name].get_help(context).splitlines()[-1].strip())


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the examples run, with the stores of the demonstration."""
    place = tmp_path_factory.mktemp("demo")
    build_scores(place / "aucpr-demo" / "scores.zarr")
    run(place / "aucpr-demo" / "scores.zarr", place / "aucpr-demo" / "result.zarr", missing="unretrieved")
    return place


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result over queries with a short-named and a long-named model, and a score store without queries."""
    place = tmp_path_factory.mktemp("stores")
    scores = queried(12, 9, 40)
    names = [f"m{i}" for i in range(11)] + ["a name that is far too long for a table of eighty cells, by any measure"]
    ap.save_scores(scores.assign_coords(model=names), place / "scores.zarr")
    run(place / "scores.zarr", place / "result.zarr", missing="drop")
    ap.save_scores(pooled(4, 80), place / "pooled.zarr")
    return place


TABLES = [f"table{i}" for i in range(4)]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scores and a result of one data set with queries and four without."""
    place = tmp_path_factory.mktemp("tree")
    tables = {name: pooled(3, 30, seed) for seed, name in enumerate(TABLES)}
    ap.save_scores(xr.DataTree.from_dict({"topics": queried(3, 9, 40)} | tables), place / "scores.zarr")
    run(place / "scores.zarr", place / "result.zarr", missing="drop")
    return place


@pytest.mark.parametrize("name", ["compare", "rank"])
@pytest.mark.slow
def test_examples_work(name: str, demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(demo)
    lines = ok(*example_of(name)[1:]).stdout.splitlines()
    assert lines[0].startswith("clef-tar  average precision, sign flip")
    assert any("Waterloo_B-rank-normal" in line for line in lines)


@pytest.mark.smoke
def test_comparison_with_a_baseline(stores: Path) -> None:
    output = ok("compare", stores / "result.zarr", "--baseline", "m1", "--baseline", "m3", "--top", 4).stdout
    comparison = ap.compare(ap.open_result(stores / "result.zarr"), ["m1", "m3"])
    best = str(comparison["estimate"].to_series().idxmax())
    row = next(line.split() for line in output.splitlines() if line.startswith(best))
    cell = comparison.sel(model=best, baseline="m1")
    assert row[1] == f"{float(cell['estimate']):.4f}"
    assert row[2] == f"{float(cell['difference']):+.4f}"
    assert row[-2:] == [f"{float(cell['p_value']):.4f}", f"{float(cell['p_adjusted']):.4f}"]
    assert output.count("and 7 more models") == 2
    assert " ".join(comparison.attrs["summary"].split()) in " ".join(output.split())
    assert "21 comparisons at 5 %, adjusted by Romano-Wolf for all 21" in output
    assert "signs flipped: the differences on 9 queries, each with its items, all 512" in output


@pytest.mark.sparse
@pytest.mark.parametrize("method", ["sign_flip", "bootstrap_t", "bootstrap", "t", "wilcoxon"])
@pytest.mark.parametrize("margin", [None, 0.05])
def test_neighbours_fit_the_terminal(stores: Path, method: str, margin: float | None) -> None:
    words = ["compare", stores / "result.zarr", "--method", method, "--top", 12]
    if margin is not None and method == "wilcoxon":
        assert "does not test equivalence" in call(*words, "--equivalence", margin).stderr
        return
    output = ok(*words, *(["--equivalence", margin] if margin else [])).stdout
    assert "66 comparisons at 5 %, adjusted by" in " ".join(output.split())
    assert "a na" in output
    assert ("undecided" in output or "equivalent" in output) == (margin is not None)


def test_all_pairs_as_json(stores: Path) -> None:
    document = json.loads(ok("compare", stores / "result.zarr", "--json", "--equivalence", 0.1).stdout)
    (comparison,) = document["comparisons"]
    assert len(comparison["pairs"]) == comparison["facts"]["family_size"] == 66
    expected = ap.compare(ap.open_result(stores / "result.zarr"), equivalence=0.1)
    for pair in comparison["pairs"]:
        cell = expected.sel(model=pair["model"], other_model=pair["other"])
        assert pair["difference"] == float(cell["difference"]) >= 0
        assert pair["p_adjusted"] == float(cell["p_adjusted"])
        assert pair["interval"] == cell["interval"].values.tolist()
        assert pair["decision"] == ("undecided", "different", "equivalent")[int(cell["decision"])]
    assert comparison["n_separable"] == int(np.triu(expected["p_adjusted"] <= 0.05, 1).sum())
    names = [name for name, _ in comparison["models"]]
    order = expected["estimate"].sortby(-expected["estimate"])["model"].values
    assert names == list(order)


def test_ranks_say_where_the_chance_to_be_best_comes_from(stores: Path) -> None:
    output = " ".join(ok("rank", stores / "result.zarr").stdout.split())
    assert "best: estimated probability of ranking first, from bootstrap resamples of the queries" in output
    items = " ".join(ok("rank", stores / "pooled.zarr", "--method", "influence").stdout.split())
    assert "best: estimated probability of ranking first, from draws of the areas" in items


@pytest.mark.parametrize("words", [{}, {"over": "items"}, {"method": "bootstrap", "level": 0.9, "n_resamples": 50}])
def test_means(stores: Path, words: dict[str, Any]) -> None:
    flags = [part for name, value in words.items() for part in (f"--{name.replace('_', '-')}", value)]
    (ranking,) = json.loads(ok("aggregate", stores / "result.zarr", "--json", *flags).stdout)["rankings"]
    expected = ap.aggregate(ap.open_result(stores / "result.zarr"), **words)
    assert len(ranking["models"]) == 12
    for one in ranking["models"]:
        cell = expected.sel(model=one["model"])
        assert (one["estimate"], one["n_queries"]) == (cell["estimate"].item(), cell["n_queries"].item())
        assert [one["lower"], one["upper"]] == cell["interval"].values.tolist()
    output = ok("aggregate", stores / "result.zarr", "--top", 2, *flags).stdout
    assert expected.attrs["design"] in " ".join(output.split())
    assert "and 10 more models" in output


@pytest.mark.slow
def test_means_of_scores_and_over_data_sets(tree: Path, stores: Path) -> None:
    words = ("aggregate", tree / "result.zarr", "--over", "dataset", "--incomplete", "drop", "--json")
    tables = [word for name in TABLES for word in ("--dataset", name)]
    (ranking,) = json.loads(ok(*words, *tables).stdout)["rankings"]
    assert len(ranking["models"]) == 3
    output = ok("aggregate", stores / "scores.zarr", "--how", "micro", "--missing", "drop").stdout
    assert "one ranking of the items of 9 queries" in output


@pytest.mark.smoke
def test_data_sets_are_said_to_be_families_of_their_own(tree: Path) -> None:
    shown = " ".join(ok("compare", tree / "scores.zarr", "--missing", "drop").stdout.split())
    assert shown.count("; each of the 5 data sets is a family of its own") == 5
    one = ok("compare", tree / "scores.zarr", "--missing", "drop", "--dataset", "topics").stdout
    assert "family of its own" not in one


def test_ranks(stores: Path) -> None:
    output = ok("rank", stores / "result.zarr", "--top", 3).stdout
    assert "and 9 more models" in output
    document = json.loads(ok("rank", stores / "result.zarr", "--json").stdout)
    ranks = ap.rank(ap.open_result(stores / "result.zarr"))
    for model in document["ranks"][0]["models"]:
        expected = ranks.sel(model=model["model"])
        assert model["simultaneous_rank_interval"] == expected["simultaneous_rank_interval"].values.tolist()
        assert model["probability_best"] == float(expected["probability_best"])
        assert model["groups"] == [int(expected["first_group"]), int(expected["last_group"])]


def test_answers_are_stores(stores: Path, tmp_path: Path) -> None:
    target = tmp_path / "comparison.zarr"
    output = ok("compare", stores / "result.zarr", "--output", target, "--method", "t").stdout
    assert f"written to {target}" in output
    opened = ap.open_comparison(target).load()
    xr.testing.assert_equal(opened, ap.compare(ap.open_result(stores / "result.zarr"), method="t"))
    assert "something at this place already" in call("rank", stores / "result.zarr", "--output", target).stderr
    ok("rank", stores / "result.zarr", "--output", target, "--overwrite")
    assert "rank_interval" in ap.open_comparison(target)


def test_info_describes_comparisons_and_ranks(stores: Path, tmp_path: Path) -> None:
    target = tmp_path / "answer.zarr"
    ok("compare", stores / "result.zarr", "--output", target, "--method", "t", "--baseline", "m1")
    output = " ".join(ok("info", target).stdout.split())
    assert "comparison: 12 models" in output
    assert "design sample: 9 queries, each with its items; fixed: the 12 models" in output
    assert "p adjusted P-value adjusted for all comparisons of the family." in output
    document = json.loads(ok("info", target, "--json").stdout)
    (answer,) = document["data_sets"]
    assert answer["sizes"] == {"model": 12}  # one baseline is a scalar, as in Python
    assert ap.open_comparison(target)["baseline"].item() == "m1"
    assert answer["facts"]["method"] == "t"
    ok("rank", stores / "result.zarr", "--output", target, "--overwrite")
    assert "ranks: 12 models" in ok("info", target).stdout
    assert "`aucpr-dask info` says what a store holds" in call("show", target).stderr


@pytest.mark.slow
def test_info_of_many_data_sets_fits_a_screen_and_counts_the_others(tmp_path: Path) -> None:
    scores = pooled(3, 90).assign_coords(site=("item", np.resize(["Bern", "Graz", "Lund"], 90)))
    many = xr.DataTree.from_dict({f"d{place:02}": scores for place in range(10)})
    ap.save_comparison(ap.compare(many, by="site"), tmp_path / "answer.zarr")
    ap.save_scores(many, tmp_path / "scores.zarr")
    run(tmp_path / "scores.zarr", tmp_path / "result.zarr", by="site")
    for store in ("answer.zarr", "result.zarr"):
        output = ok("info", tmp_path / store).stdout
        assert len(output.splitlines()) <= 70
        assert "and 2 more data sets: --dataset NAME shows one, --json all" in output
    shown = ok("info", tmp_path / "answer.zarr").stdout
    assert shown.count("needs at least") == 1  # what all have alike
    assert "average precision" in shown
    assert "average_precision" not in shown
    document = json.loads(ok("info", tmp_path / "answer.zarr", "--json").stdout)
    assert len(document["data_sets"]) == 10
    assert document["data_sets"][0]["facts"]["estimator"] == "average_precision"
    assert len(json.loads(ok("info", tmp_path / "result.zarr", "--json").stdout)["rankings"]) == 30


def test_a_shortened_table_says_so_to_programs_as_well(stores: Path) -> None:
    document = json.loads(ok("aggregate", stores / "result.zarr", "--top", "3", "--json").stdout)
    assert (len(document["rankings"][0]["models"]), document["rankings"][0]["more_models"]) == (3, 9)


def test_groups_look_alike_with_and_without_a_baseline(tmp_path: Path) -> None:
    scores = pooled(3, 300).assign_coords(site=("item", np.resize(["Bern", "Graz", "Lund"], 300)))
    ap.save_scores(scores, tmp_path / "scores.zarr")
    for words in ([], ["--baseline", "m0"]):
        output = ok("compare", tmp_path / "scores.zarr", "--by", "site", *words).stdout
        heads = [line.split() for line in output.splitlines() if line.startswith("group ")]
        assert len(heads) == 1
        assert [line.split()[0] for line in output.splitlines() if line.split()[:1] == ["Bern"]] == ["Bern"] * (
            2 if words else 3
        )


def test_equivalence_is_of_each_pair_alone(stores: Path) -> None:
    output = ok("compare", stores / "result.zarr", "--equivalence", 0.1).stdout
    expected = "equivalence (within 0.1): each pair alone, not adjusted for the number of pairs"
    assert expected in " ".join(output.split())


def test_score_stores_are_evaluated(stores: Path) -> None:
    output = ok("compare", stores / "pooled.zarr", "--n-resamples", 200).stdout
    assert "sample: the items with their labels; fixed: the 4 models" in " ".join(output.split())
    document = json.loads(ok("rank", stores / "pooled.zarr", "--method", "influence", "--json").stdout)
    assert document["ranks"][0]["facts"]["method"] == "influence"
    words = ["compare", stores / "scores.zarr", "--ties", "expectation", "--baseline", "m0", "--json"]
    (comparison,) = json.loads(ok(*words).stdout)["comparisons"]
    expected = ap.compare(ap.open_scores(stores / "scores.zarr"), "m0", ties="expectation")
    assert dict(comparison["models"]) == expected["estimate"].to_series().to_dict()


def test_each_data_set_has_its_own_design(tree: Path) -> None:
    words = ["compare", tree / "scores.zarr", "--missing", "unretrieved", "--n-resamples", 200, "--json"]
    words += ["--method", "bootstrap"]  # some have few positives
    comparisons = json.loads(ok(*words).stdout)["comparisons"]
    samples = {one["data_set"]: one["facts"]["over"] for one in comparisons}
    assert samples.pop("topics") == "query"
    assert set(samples.values()) == {"items"}


@pytest.mark.slow
def test_data_sets_as_units(tree: Path) -> None:
    words = [word for table in TABLES for word in ("--dataset", table)]
    assert "random effects" in ok("compare", tree / "result.zarr", *words, "--over", "dataset").stdout
    with away(tree / "scores.zarr"):
        output = ok("compare", tree / "result.zarr", *words, "--over", "dataset").stdout
    assert "4 data sets, each with its items, all 16 choices of signs" in " ".join(output.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--baseline", "m33"],
            "there is no model 'm33'; did you mean 'm3'?\n  where: option '--baseline'\n  received: 'm33'\n",
        ),
        (["--dataset", "x"], "there is no such data set in this store\n  received: 'x'"),
        (["--estimator", "continuous"], "this estimator is not in the result"),
        (["--method", "influence"], "--method influence needs the scores"),
        (["--missing", "drop"], "these are options of an evaluation"),
        (["--method", "friedman", "--auxiliary", "result.zarr", "--adjust", "holm"], "received: adjust, auxiliary"),
    ],
)
def test_refusals(stores: Path, words: list[str], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(stores)
    result = call("compare", "result.zarr", *words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output


@contextmanager
def away(scores: Path) -> Iterator[None]:
    """Move scores away, so that what is asked of their result is answered by the result alone."""
    elsewhere = scores.with_name("elsewhere.zarr")
    scores.rename(elsewhere)
    try:
        yield
    finally:
        elsewhere.rename(scores)


def test_what_needs_the_scores_is_answered_while_they_are_there(stores: Path) -> None:
    words = ("compare", stores / "result.zarr", "--over", "items")
    ok(*words)
    with away(stores / "scores.zarr"):
        result = call(*words)
    assert result.exit_code == 2
    assert "needs resamples of the items" in result.stderr


# A store where some data sets cannot be compared


@pytest.mark.parametrize("command", ["compare", "rank"])
def test_data_sets_that_cannot_be_compared_are_left_out_by_name(tree: Path, command: str) -> None:
    with away(tree / "scores.zarr"):
        output = " ".join(ok(command, tree / "result.zarr").stdout.split())
        document = json.loads(ok(command, tree / "result.zarr", "--json").stdout)
        one = call(command, tree / "result.zarr", "--dataset", TABLES[0])
    assert "topics" in output
    assert f"left out: {', '.join(TABLES)}: this needs resamples of the items, which the result does not keep" in output
    assert list(document["left_out"]) == TABLES
    assert one.exit_code == 2
    assert "which the result does not keep" in one.stderr
    assert "table0" in one.stderr


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:method='influence' over")  # over few positives, as in these tables
def test_each_answer_ends_with_the_next_command(tree: Path) -> None:
    result, scores = tree / "result.zarr", tree / "scores.zarr"
    for words, expected in {
        ("compare", result): f"rank {result}",
        ("rank", result): f"report {result}",
        ("rank", result, "--dataset", "topics"): f"report {result} --dataset topics",
        ("rank", scores, "--missing", "drop", "--dataset", "topics"): (
            f"evaluate {scores} result.zarr --missing drop --dataset topics"
        ),
        ("compare", scores, "--over", "dataset", "--dataset", "table*", "--missing", "drop"): (
            f"rank {scores} --missing drop --over dataset --dataset 'table*'"
        ),
        ("compare", result, "--dataset", "topics", "--level", "0.9", "--method", "t"): (
            f"rank {result} --level 0.9 --dataset topics"  # whose methods are others
        ),
    }.items():
        printed = " ".join(ok(*words).stdout.replace(" \\\n ", "").splitlines()[-1].split())
        assert printed == f"next: aucpr-dask {expected}"


def test_a_report_is_named_like_its_store(stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "result.html" in ok("report", stores / "result.zarr").stdout
    assert (tmp_path / "result.html").stat().st_size > 10_000


def test_commands_say_of_what_the_scores_are_a_sample(tmp_path: Path) -> None:
    scores = pooled(3, 120).assign(cluster=("item", np.arange(120) // 3))
    ap.save_scores(scores, tmp_path / "s.zarr")
    gate = ("gate", tmp_path / "s.zarr", "--candidate", "m1", "--baseline", "m0")
    for words in (("compare", tmp_path / "s.zarr"), ("rank", tmp_path / "s.zarr"), gate):
        assert "sample: the clusters" in call(*words).stdout
        assert "sample: the items with their labels" in call(*words, "--over", "items").stdout
        fixed = call(*words, "--over", "items", "--prevalence-design", "fixed").stdout
        assert "the numbers of positives and negatives" in " ".join(fixed.split())


def test_power_prints_what_can_be_shown(stores: Path) -> None:
    words = ["power", stores / "result.zarr", "--baseline", "m1", "--difference", "0.05"]
    expected = ap.power(ap.open_result(stores / "result.zarr"), "m1", difference=0.05)
    printed = ok(*words).stdout
    assert " ".join(expected.attrs["summary"].split()) in " ".join(printed.split())
    assert "detectable" in printed
    (found,) = json.loads(ok(*words, "--json").stdout)["power"]
    for row in found["models"]:
        for name in ("detectable", "detectable_family", "power", "n_needed", "estimate"):
            assert row[name] == pytest.approx(float(expected[name].sel(model=row["model"])))
    assert [row["estimate"] for row in found["models"]] == sorted(row["estimate"] for row in found["models"])[::-1]


def test_power_of_neighbours_is_that_of_rank_sets(stores: Path) -> None:
    expected = ap.power(ap.open_result(stores / "result.zarr"))
    (found,) = json.loads(ok("power", stores / "result.zarr", "--json").stdout)["power"]
    assert len(found["models"]) == expected.sizes["model"] - 1
    for row in found["models"]:
        assert row["detectable_family"] == pytest.approx(float(expected["detectable_rank"].sel(model=row["model"])))
