"""Gates: verdicts, what a failure says, the command with its exit codes, and the fixture of pytest."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import yaml
from click.testing import CliRunner, Result
from conftest import pooled, queried
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq

import aucpr_dask as ap
from aucpr_dask.cli import main
from aucpr_dask.errors import AlignmentError, Flag, InvalidInputError, at_prompt
from aucpr_dask.inference.designs import ENOUGH_UNITS
from aucpr_dask.inference.powering import ENOUGH_POSITIVES
from aucpr_dask.interplay.values import save_values

ROOT = Path(__file__).parents[1]


def result_of(*values: Any, names: str = "abcdefgh") -> xr.Dataset:
    """A result over queries from the values of each model."""
    return xr.Dataset(
        {"estimate": (("model", "query"), np.array(values))}, coords={"model": list(names[: len(values)])}
    )


def scores_of(*gains: float, n_items: int = 2000, seed: int = 0) -> xr.Dataset:
    """Scores of models that are better the larger their gain, a tenth of the items positive."""
    random = np.random.default_rng(seed)
    label = np.arange(n_items) < n_items // 10
    shared, *own = random.normal(size=(1 + len(gains), n_items))
    score = 0.9 * shared + 0.4 * np.array(own) + np.outer(gains, label)
    coords = {"model": list("abcdefgh"[: len(gains)]), "item": [f"i{n}" for n in range(n_items)]}
    return xr.Dataset({"score": (("model", "item"), score), "label": ("item", label.astype("int8"))}, coords=coords)


# Verdicts


@given(st.integers(0, 10_000), st.integers(6, 40), st.sampled_from([0.0, 0.02, 0.1]), st.floats(-0.2, 0.2))
def test_the_verdict_follows_from_the_interval_which_holds_that_of_compare(
    seed: int, n_queries: int, margin: float, shift: float
) -> None:
    random = np.random.default_rng(seed)
    old = random.random(n_queries)
    result = result_of(old, old + shift + 0.1 * random.exponential(size=n_queries) - 0.1)
    gate = ap.gate(result, "b", "a", margin)
    lower, upper = gate.interval
    cell = ap.compare(result, "a").sel(model="b")
    assert gate.difference == cell["difference"].item()
    assert gate.p_value == cell["p_value"].item()
    assert lower <= cell["interval"].values[0] + 1e-12
    assert upper >= cell["interval"].values[1] - 1e-12
    assert min(lower - cell["interval"].values[0], cell["interval"].values[1] - upper, key=abs) == pytest.approx(0)
    expected = "better" if lower > 0 else "not worse" if lower >= -margin else "cannot tell"
    assert gate.verdict == ("worse" if upper < -margin else expected)
    assert gate.passed == (gate.verdict in ("better", "not worse"))


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_longer_side_is_where_the_transformed_statistic_reaches_its_quantile(sign: int) -> None:
    random = np.random.default_rng(0)
    difference = sign * random.exponential(size=12)
    gate = ap.gate(result_of(np.zeros(12), difference), "b", "a", method="t")
    n, error = 12, difference.std(ddof=1) / np.sqrt(12)
    skewness = pd.Series(difference).skew()
    bound = gate.interval[1] if sign > 0 else gate.interval[0]
    t = (difference.mean() - bound) / error
    a = skewness / (3 * np.sqrt(n))
    quantile = 2.2009851600916384  # of Student's t with 11 degrees of freedom
    assert t + a * t**2 + a**2 * t**3 / 3 + a / 2 == pytest.approx(-sign * quantile)
    other = gate.interval[0] if sign > 0 else gate.interval[1]
    assert abs(other - difference.mean()) == pytest.approx(quantile * error)


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_detectable_difference_knows_on_which_side_large_differences_lie(sign: int) -> None:
    difference = sign * np.random.default_rng(0).exponential(size=30)
    gate = ap.gate(result_of(np.zeros(30), difference), "b", "a", method="t")
    error, g = difference.std(ddof=1) / np.sqrt(30), pd.Series(difference).skew()
    far = gate.difference - gate.interval[0] if gate.verdict != "worse" else gate.interval[1] - gate.difference
    u, towards = far / error / np.sqrt(30), g if gate.verdict != "worse" else -g
    spread = np.sqrt([1 + u**2 / 2, 1 - towards * u + u**2 * (0.5 + 3 * g**2 / 8)])
    symmetric = brentq(lambda d: stats.nct.sf(far / error, 29, d / error) - 0.8, 0, 10)
    expected = symmetric + error * stats.norm.ppf(0.8) * (spread[1] - spread[0])
    assert gate.detectable == pytest.approx(expected, rel=1e-4)
    mirrored = ap.gate(result_of(difference, np.zeros(30)), "b", "a", method="t")
    assert (mirrored.verdict, gate.verdict) == (("worse", "better") if sign > 0 else ("better", "worse"))
    assert mirrored.detectable == pytest.approx(gate.detectable)


def test_a_copy_of_the_baseline_is_not_worse_without_a_margin() -> None:
    values = np.linspace(0.2, 0.8, 10)
    gate = ap.gate(result_of(values, values), "b", "a")
    assert (gate.verdict, gate.interval, gate.p_value, gate.detectable) == ("not worse", (0.0, 0.0), 1.0, 0.0)
    scores = scores_of(1.0, 1.0, 1.5)
    copied = scores.isel(model=[0, 0]).assign_coords(model=["old", "copy"])
    assert ap.gate(copied, "copy", "old").verdict == "not worse"


def test_a_constant_difference_is_known_exactly() -> None:
    values = np.linspace(0.2, 0.75, 12)
    result = result_of(values, values - 0.125)
    assert ap.gate(result, "b", "a", 0.2).verdict == "not worse"
    assert ap.gate(result, "b", "a", 0.1).verdict == "worse"
    assert ap.gate(result, "a", "b").verdict == "better"


@pytest.mark.parametrize("n_queries", [2, 5, 6])
def test_too_few_constant_differences_show_nothing(n_queries: int) -> None:
    """Two equal systems that succeed or fail: by chance, one wins on all of few queries."""
    result = result_of(np.zeros(n_queries), np.ones(n_queries))
    new, old = ap.gate(result, "b", "a"), ap.gate(result, "a", "b")
    is_shown = 2.0 ** (1 - n_queries) <= 0.05
    assert (new.verdict, old.verdict) == (("better", "worse") if is_shown else ("cannot tell", "cannot tell"))
    assert new.interval == ((1.0, 1.0) if is_shown else (-np.inf, np.inf))
    assert (new.p_value <= 0.05) == is_shown
    assert new.detectable == (0 if is_shown else np.inf)
    assert ap.gate(result.isel(model=[0, 0]).assign_coords(model=["a", "b"]), "b", "a").interval == (0, 0)
    found = ap.compare(result)
    for name in ("interval", "simultaneous_interval"):
        assert np.isinf(found[name].values[0, 1]).all() == (not is_shown)
    assert ap.rank(result)["simultaneous_rank_interval"].values.tolist() == (
        [[2, 2], [1, 1]] if is_shown else [[1, 2]] * 2
    )


def test_a_failure_says_what_could_have_been_shown() -> None:
    random = np.random.default_rng(1)
    old = random.random(30)
    worse = ap.gate(result_of(old, old - 0.2 + 0.05 * random.normal(size=30)), "b", "a", margin=0.01)
    assert repr(worse).startswith("failed: b is worse than a by more than 0.01: ")
    limits = f"with 30 queries, the smallest true difference shown with 80 % power at 5 % is {worse.detectable:.2g}"
    assert repr(worse).endswith(f"; {limits}\n{worse.design}")
    unknown = ap.gate(result_of(old, old + 0.3 * random.normal(size=30)), "b", "a")
    assert repr(unknown).startswith("cannot tell whether b is worse than a: ")
    better = old + 0.1 + 0.05 * random.normal(size=30)
    assert ap.gate(result_of(old, better), "b", "a").sentence.split("; ")[0].endswith("p < 0.0001 by sign flip")
    few = ap.gate(result_of(old[:29], better[:29]), "b", "a")
    assert few.passed
    assert few.sentence.endswith("below 30 queries, do not rely on a pass alone")


@pytest.mark.parametrize("n", [12, 40, 100, 400])
@pytest.mark.parametrize("margin", [0.0, 0.02])
def test_a_pass_says_which_losses_it_cannot_see(n: int, margin: float) -> None:
    """The rule of three: losses on a share of 3/n may be in no sample; from a size on, they would overturn the pass."""
    old = np.linspace(0.2, 0.7, n)
    gate = ap.gate(result_of(old, old + 0.03 + 0.01 * np.sin(np.arange(n))), "b", "a", margin=margin)
    assert gate.passed
    size = (gate.interval[0] + margin) * n / 3
    if size > 1:  # no loss can be so large
        assert gate.caveat == ""
        return
    assert f"over {n} queries, losses on fewer than {300 / n:.2g} % of queries may not show" in gate.sentence
    assert f"if they average {size:.2g} or more, the candidate would fail" in gate.sentence
    seen = gate.interval[0] * (1 - 3 / n) - 3 / n * size
    assert seen == pytest.approx(-margin, abs=3.01 / n * gate.interval[0])


def test_a_margin_that_nothing_can_miss_is_refused_in_every_question() -> None:
    values = np.linspace(0.2, 0.7, 40)
    areas, percents = result_of(values, values[::-1]), result_of(100 * values, 100 * values[::-1])
    measured = areas.assign_attrs(unit="task", measure="accuracy")
    scores = scores_of(1.0, 1.5)
    for data in (areas, measured, scores):
        a, b = data["model"].values[:2].tolist()
        for ask in (
            lambda data=data, a=a, b=b: ap.gate(data, b, a, margin=1),
            lambda data=data, a=a, b=b: ap.gate(data, b, a, margin=5),
            lambda data=data, a=a: ap.compare(data, a, equivalence=1),
        ):
            with pytest.raises(InvalidInputError, match=r"between 0 and 1[\s\S]*below 1"):
                ask()
    assert ap.gate(percents, "b", "a", margin=2.0).margin == 2
    wide = ap.gate(areas, "b", "a", margin=0.4)
    assert "allows a loss of 40 % of the whole range" in wide.caveat


def test_near_perfection_a_gate_over_items_says_how_it_errs() -> None:
    assert "near 1" in ap.gate(scores_of(6.0, 6.0), "b", "a", margin=0.1).caveat
    assert "near 1" not in ap.gate(scores_of(1.0, 1.0), "b", "a", margin=0.1).caveat


def test_sentences_show_the_digits_in_which_numbers_differ() -> None:
    old = np.linspace(0.2, 0.7, 40)
    gate = ap.gate(result_of(old, old + 3e-5 + 1e-6 * np.sin(np.arange(40))), "b", "a")
    assert "0.450030 against 0.450000, difference +0.000030" in gate.sentence
    equal = ap.gate(result_of(old, old), "b", "a")
    assert equal.sentence.startswith("passed: b equals a: ")


def test_five_queries_show_nothing_by_flips_of_signs() -> None:
    random = np.random.default_rng(0)
    gate = ap.gate(result_of(random.random(5), random.random(5)), "b", "a", margin=0.1)
    assert (gate.verdict, gate.interval, gate.detectable) == ("cannot tell", (-np.inf, np.inf), np.inf)
    assert "with 5 queries, no difference can be shown" in repr(gate)


@pytest.mark.parametrize("method", ["sign_flip", "bootstrap_t", "t"])
def test_intervals_of_several_candidates_hold_together(method: str) -> None:
    random = np.random.default_rng(3)
    result = result_of(*random.random((4, 25)))
    gates = ap.gate(result, ["b", "d"], "a", method=method)
    assert [gate.candidate for gate in gates] == ["b", "d"]
    joint = ap.compare(result.sel(model=["a", "b", "d"]), "a", method=method)
    for gate in gates:
        cell = joint.sel(model=gate.candidate)
        assert gate.p_value == cell["p_adjusted"].item()
        assert gate.interval[0] <= cell["simultaneous_interval"].values[0] + 1e-12
        assert gate.interval[1] >= cell["simultaneous_interval"].values[1] - 1e-12
        assert gate.detectable >= ap.gate(result, gate.candidate, "a", method=method).detectable
    assert repr(gates) == f"{gates[0].sentence}\n{gates[1]!r}"


def test_the_verdict_of_several_is_the_worst() -> None:
    random = np.random.default_rng(0)
    old = random.random(30)
    noise = 0.02 * random.normal(size=(3, 30))
    result = result_of(old, old + 0.2 + noise[0], old - 0.2 + noise[1], old + 10 * noise[2])
    for candidates, verdict in {"b": "better", "bd": "cannot tell", "bcd": "worse"}.items():
        gates = ap.gate(result, list(candidates), "a")
        assert (gates.verdict, gates.passed) == (verdict, verdict == "better")


def test_other_models_do_not_matter() -> None:
    random = np.random.default_rng(0)
    result = result_of(*random.random((4, 12)))
    result["estimate"][2, 0] = np.nan
    assert ap.gate(result, ["b", "d"], "a") == ap.gate(result.sel(model=["d", "a", "b"]), ["b", "d"], "a")
    scores = scores_of(1.0, 1.1, 1.2)
    assert ap.gate(scores, "c", "a") == ap.gate(scores.sel(model=["c", "a"]), "c", "a")


def test_scores_are_compared_by_their_influences() -> None:
    scores = scores_of(1.0, 1.3)
    gate = ap.gate(scores, "b", "a", margin=0.01)
    cell = ap.compare(scores, "a", method="influence").sel(model="b")
    np.testing.assert_allclose(gate.interval, cell["interval"])
    assert "sample: the items" in gate.design
    assert gate.measure == "average_precision"
    result = ap.evaluate(scores, n_resamples=200, keep_replicates=True)
    assert ap.gate(result, "b", "a").difference == pytest.approx(gate.difference)
    assert "200 times" in ap.gate(result, "b", "a").design
    assert "1,000 times" in ap.gate(scores, "b", "a", method="bootstrap").design


def test_models_without_labels_are_named_by_number() -> None:
    random = np.random.default_rng(0)
    result = result_of(*random.random((3, 12))).drop_vars("model")
    gate = ap.gate(result, 2, 0)
    assert (gate.candidate, gate.baseline) == ("2", "0")
    assert gate.difference == pytest.approx(float(result["estimate"].mean("query").diff("model").sum()))


def test_values_of_any_measure_are_judged_in_their_own_words() -> None:
    random = np.random.default_rng(0)
    table = pd.DataFrame({"topic": np.arange(12), "old": random.random(12), "new": random.random(12)})
    tidy = table.melt("topic", var_name="model", value_name="value").assign(measure="nDCG@10")
    gate = ap.gate(ap.from_values(tidy), "new", "old", margin=0.01)
    assert "nDCG@10" in repr(gate)
    assert "with 12 topics, the smallest true difference shown" in repr(gate)


def test_data_sets_as_the_sample_and_a_tree_of_one(forest: xr.DataTree) -> None:
    tree = xr.DataTree.from_dict({f"d{seed}": pooled(3, 40, seed) for seed in range(8)})
    gate = ap.gate(tree, "m1", "m0", over="dataset")
    assert "8 data sets" in gate.design
    assert ap.gate(xr.DataTree.from_dict({"one": queried(3, 9, 40)}), "m1", "m0", missing="drop").verdict
    with pytest.raises(InvalidInputError, match="a gate judges one data set"):
        ap.gate(tree, "m1", "m0", 0.1)


def test_several_data_sets_are_refused_before_their_models(forest: xr.DataTree) -> None:
    tree = xr.DataTree.from_dict({"one": pooled(3, 40), "two": pooled(2, 40).assign_coords(model=["x", "y"])})
    with pytest.raises(InvalidInputError, match=r"a gate judges one data set[\s\S]*select one; or give over='dataset'"):
        ap.gate(tree, "m1", "m0")
    options = {"dataset": Flag("--dataset"), "over": Flag("--over")}
    with at_prompt(options), pytest.raises(InvalidInputError, match="name one: --dataset NAME; or give --over dataset"):
        ap.gate(tree, "m1", "m0")
    with pytest.raises(InvalidInputError, match=r"there is no model 'm1'[\s\S]*data set: 'two'"):
        ap.gate(tree, "m1", "m0", over="dataset")


@pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Series, pd.Index, dict.fromkeys, xr.DataArray])
def test_candidates_in_any_collection(kind: Any) -> None:
    result = result_of(*np.random.default_rng(0).random((3, 10)))
    assert [gate.candidate for gate in ap.gate(result, kind(["c", "b"]), "a")] == ["c", "b"]


def test_a_candidate_left_out_for_its_gaps_is_named() -> None:
    values = np.random.default_rng(0).random((4, 10))
    values[2, 3] = np.nan
    with pytest.raises(InvalidInputError, match=r"left out, because they lack[\s\S]*'c'[\s\S]*incomplete='drop'"):
        ap.gate(result_of(*values), ["b", "c"], "a", incomplete="drop_models")


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("c", "a"), {}, "there is no model 'c'"),
        (("a", "a"), {}, "each once"),
        (([], "a"), {}, "there is no candidate"),
        (("b", "a", -0.1), {}, "margin must not be negative"),
        (("b", "a", np.nan), {}, "margin must not be negative"),
        (("b", "a"), {"method": "wilcoxon"}, "has no intervals"),
        (("b", "a"), {"baseline": "a"}, "multiple values"),
        (("b", "a"), {"equivalence": 0.1}, "unexpected keyword argument 'equivalence'"),
        (("b", "a"), {"over": "items"}, "resamples of the items"),
    ],
)
def test_refusals(arguments: tuple[Any, ...], options: dict[str, Any], message: str) -> None:
    result = result_of(*np.random.default_rng(0).random((2, 10)))
    with pytest.raises((InvalidInputError, TypeError), match=message):
        ap.gate(result, *arguments, **options)


# The command


def call(*words: object) -> Result:
    return CliRunner().invoke(main, ["gate", *map(str, words)], env={"COLUMNS": "80"})


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Predictions of an old and a better new model, in one table and in two whose rows are in another order."""
    monkeypatch.chdir(tmp_path)
    scores = scores_of(1.0, 1.3)
    columns = {"id": scores["item"].values, "label": scores["label"].values}
    old, new = scores["score"].values
    pd.DataFrame(columns | {"old": old, "new": new}).to_csv("both.csv", index=False)
    pd.DataFrame(columns | {"score": old}).to_csv("old.csv", index=False)
    shuffled = pd.DataFrame(columns | {"score": new}).sample(frac=1, random_state=0)
    shuffled.to_csv("new.csv", index=False)
    shuffled.to_parquet("new.parquet", index=False)
    return tmp_path


ONE_TABLE = ["both.csv", "--candidate", "new", "--baseline", "old"]
TWO_TABLES = ["new.csv", "old.csv", "--item", "id"]


@pytest.mark.smoke
def test_two_tables_are_matched_by_item(tables: Path) -> None:
    expected = ap.gate(scores_of(1.0, 1.3), "b", "a")
    for words in (ONE_TABLE, TWO_TABLES, ["new.parquet", "old.csv", "--item", "id"]):
        done = call(*words, "--json")
        assert done.exit_code == 0, done.output
        (gate,) = json.loads(done.stdout)["gates"]
        assert (gate["candidate"], gate["baseline"], gate["verdict"]) == ("new", "old", "better")
        assert gate["difference"] == pytest.approx(expected.difference)
        assert gate["interval"] == pytest.approx(expected.interval)
    first, sentence, _ = call(*ONE_TABLE).stdout.splitlines()
    assert first == "both.csv: 2,000 items, 200 positive; label 'label'; models 'new', 'old'"
    assert sentence.startswith("passed: new is better than old: average precision ")
    designs = {"random": "the items with their labels", "fixed": "the numbers of positives and negatives"}
    for design, said in designs.items():
        assert call(*ONE_TABLE, "--prevalence-design", design).stdout.count(said) == 1


def test_exit_codes_tell_a_failure_from_too_few_data(tables: Path) -> None:
    assert call("old.csv", "new.csv", "--item", "id", "--margin", 0.01).exit_code == 1
    assert call("old.csv", "new.csv", "--item", "id", "--margin", 0.2).exit_code == 0
    ap.save_scores(scores_of(1.0, 1.0, n_items=300), "few.zarr")
    done = call("few.zarr", "--candidate", "b", "--baseline", "a")
    assert done.exit_code == 3
    assert "with 30 positives, the smallest true difference shown" in done.stdout


def test_stores_of_results_and_several_candidates(tmp_path: Path) -> None:
    scores = queried(4, 12, 40)
    ap.save_scores(scores, tmp_path / "scores.zarr")
    words = [tmp_path / "scores.zarr", "--candidate", "m1", "--candidate", "m2", "--baseline", "m0"]
    done = call(*words, "--missing", "drop", "--json")
    expected = ap.gate(scores, ["m1", "m2"], "m0", missing="drop")
    assert [gate["interval"] for gate in json.loads(done.stdout)["gates"]] == [list(one.interval) for one in expected]


def test_names_cannot_break_the_table(tables: Path) -> None:
    name = 'n|<b>&"\x1b'
    pd.read_csv("both.csv").rename(columns={"new": name}).to_csv("odd.csv", index=False)
    done = call("odd.csv", "--candidate", name, "--baseline", "old", "--markdown")
    header, _, row, *_ = done.stdout.splitlines()
    assert header.startswith("| candidate | verdict | average precision | old | difference |")
    assert row.startswith(r'| n\|\<b\>&"')
    assert "| better |" in row


def test_the_table_names_what_is_left_out(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((2, 40))
    values[1] += 0.3
    values[1, :8] = np.nan
    frame = pd.DataFrame(values, ["old", "new"], [f"q{i:02}" for i in range(40)]).rename_axis("model").reset_index()
    save_values(ap.from_values(frame), tmp_path / "values.zarr")
    words = (tmp_path / "values.zarr", "--candidate", "new", "--baseline", "old", "--incomplete", "drop", "--markdown")
    said = call(*words).stdout
    assert "Left out: 8 of 40 queries" in said
    assert "What a pass may miss: over 32 queries, losses on" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["new.csv", "old.csv"], "matched by name, never by position"),
        (["both.csv"], "name the models to compare"),
        (["new.csv", "both.csv", "--item", "id"], "'score'"),
        (
            ["new.csv", "wide.csv", "--item", "id", "--score", "s*"],
            "each of several tables has the scores of one model",
        ),
        (["new.csv", "none.csv", "--item", "id"], "none.csv"),
        (["both.csv", "--candidate", "newer", "--baseline", "old"], "newer"),
        ([*TWO_TABLES, "--label", "truth"], "truth"),
        ([*TWO_TABLES, "--margin", "-1"], "-1.0 is not in the range x>=0"),
        (["new.csv", "short.csv", "--item", "id"], "different items"),
        (["new.csv", "turned.csv", "--item", "id"], "different labels"),
        (["new.csv", "twice.csv", "--item", "id"], "must be unique"),
    ],
)
def test_wrong_input_ends_with_2(tables: Path, words: list[str], message: str) -> None:
    old = pd.read_csv("old.csv")
    old.assign(second=0.5).to_csv("wide.csv", index=False)
    old.iloc[1:].to_csv("short.csv", index=False)
    old.assign(label=1 - old["label"]).to_csv("turned.csv", index=False)
    pd.concat([old, old.iloc[:1]]).to_csv("twice.csv", index=False)
    done = call(*words)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert "Traceback" not in done.output


def test_the_commands_of_the_workflow_run(tables: Path) -> None:
    page = (ROOT / "docs" / "gate.md").read_text()
    workflow = yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0])
    (command,) = [step["run"] for step in workflow["jobs"]["gate"]["steps"] if "aucpr-dask gate" in step.get("run", "")]
    Path("old.csv").rename("main.csv")
    places = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"GITHUB_STEP_SUMMARY": "summary.md", "PATH": places}
    done = subprocess.run(["bash", "-e", "-c", command], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "| new | better |" in Path("summary.md").read_text()


# The promise


def test_gates_err_as_rarely_as_the_pages_say_and_show_what_they_state() -> None:
    table = pd.read_csv(ROOT / "docs" / "study" / "gate.csv")
    assert (table["n_simulations"] >= 2000).all()
    chance = 2 * np.sqrt(0.05 * 0.95 / table["n_simulations"])
    assert (table[["false_pass", "false_fail"]].max(axis=1) <= 0.05 + chance).all()
    is_normal = table["world"] == "normal"
    assert (table[is_normal][["false_pass", "false_fail"]] <= 0.025).all(axis=None)
    is_known = is_normal | (table["n"] >= table["sample"].map({"queries": ENOUGH_UNITS, "items": ENOUGH_POSITIVES}))
    assert (table[is_known]["power"] - 0.8).abs().max() <= 0.02


def test_items_of_several_tables_must_agree(tables: Path) -> None:
    from aucpr_dask.schema.options import TableOptions
    from aucpr_dask.scores.importing.tables import scores_of_files

    pd.read_csv("old.csv").replace({"id": {"i3": "j3"}}).to_csv("other.csv", index=False)
    with pytest.raises(AlignmentError, match="only in one of them: 'i3', 'j3'"):
        scores_of_files(["new.csv", "other.csv"], TableOptions(label="label", item="id"))


def test_a_gate_over_data_sets_names_those_on_which_the_candidate_is_behind() -> None:
    nodes = {
        name: result_of(np.full(8, 0.5) + np.arange(8) / 50, np.full(8, 0.5 + by) + np.arange(8) / 40)
        for name, by in {"p": 0.1, "q": -0.3, "r": 0.05, "s": 0.07, "t": -0.2}.items()
    }
    gate = ap.gate(xr.DataTree.from_dict(nodes), "b", "a", over="dataset")
    by = {name: float(node["estimate"].mean("query").diff("model").item()) for name, node in nodes.items()}
    assert gate.by_data_set == pytest.approx(by)
    assert f"ahead on 3 of 5 data sets, behind on q ({by['q']:+.3f}), t ({by['t']:+.3f})" in gate.sentence


def test_a_group_that_cannot_be_judged_has_no_differences_of_another_one() -> None:
    long = scores_of(0.5, 1.0, n_items=600)
    coords = {"dataset": ("item", np.resize(list("pqr"), 600)), "site": ("item", np.repeat(["north", "south"], 300))}
    long = long.assign_coords(coords)
    long["label"][300:] = 0
    known, unknown = ap.gate(ap.to_tree(long), "b", "a", by="site", over="dataset")
    assert {*known.by_data_set} == {*"pqr"}
    assert (unknown.by_data_set, unknown.sizes) == ({}, "")
