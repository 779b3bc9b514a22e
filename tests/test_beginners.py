"""Mistakes of a first hour: the first line of the error or warning says what is wrong."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from click.testing import CliRunner

import aucpr_dask as ap
from aucpr_dask import metrics  # noqa: F401, which calls below name
from aucpr_dask.cli import main
from aucpr_dask.errors import AucprError

Y = (np.arange(200) % 5 == 0).astype(int)
A, B = np.random.default_rng(0).normal(size=(2, 200)) + np.outer([1, 2], Y)
PROBABILITY = 1 / (1 + np.exp(-B))
FRAME = pd.DataFrame({"y": Y, "old": A, "new": B, "site": np.where(np.arange(200) % 2, "u", "v")})
WITH_NAN = np.where(np.arange(200) == 3, np.nan, A)

CALLS = {
    'ap.evaluate("s.zarr")': "this is a path, not scores or a result: 's.zarr'",
    'ap.compare("s.zarr")': "this is a path",
    'ap.rank("r.zarr")': "this is a path",
    'ap.gate("s.csv", "new", "old", margin=0.01)': "this is a path, not scores or a result: 's.csv'",
    'ap.report("r.zarr", "x.html")': "this is a path",
    'ap.open_scores("s.csv")': "this is a file, not a store",
    'ap.open_scores("r.zarr")': "this store holds a result, not scores",
    'ap.open_result("s.zarr")': "this store holds scores, not a result",
    'ap.open_scores("nothing.zarr")': "there is no store at this place",
    'ap.save_scores(SCORES, "s.zarr")': "there is something at this place already",
    'ap.run(SCORES, "x.zarr")': "this is not a path or URL",
    "ap.evaluate(FRAME)": "labels are needed",
    'ap.evaluate(FRAME, "y")': "labels are needed",
    'ap.compare(FRAME, "old")': "labels are needed",
    'ap.evaluate({"a": A, "b": B})': "labels are needed",
    'ap.evaluate({"a": A, "b": B[:100]}, Y)': "scores of 'b' and the labels differ in shape",
    "ap.evaluate(np.stack([A, B], axis=1), Y)": "items lie on the first axis of the scores",
    "ap.estimate(A, Y[:100])": "arrays differ in the number of items",
    "ap.estimate(A, 2 * Y)": "labels outside their domain",
    'ap.estimate(A, np.where(Y, "yes", "no"))': "labels are not numbers but text",
    'ap.evaluate({"a": A}, np.where(Y, "yes", "no"))': "name the positive one, such as pos_label='yes'",
    'ap.from_dataframe(FRAME, label="site")': "labels are text: name the positive one, such as pos_label='v'",
    "ap.estimate(WITH_NAN, Y)": "missing scores (NaN)",
    "ap.evaluate(Y, PROBABILITY)": "the scores look like labels",
    'ap.compare(Y, {"a": A, "b": B})': "the labels are one array; scores come first, then labels",
    'ap.rank(ap.compare({"a": A, "b": B}, Y))': "these are answers already",
    'ap.compare({"a": A, "b": B}, np.ones(200, int))': "fewer than two negatives",
    'ap.compare({"a": A, "b": B}, Y, level=0.05)': "level=0.05 is a confidence level",
    "ap.estimate(Y, PROBABILITY)": "the scores look like labels",
    "ap.curve(Y, A)": "the scores look like labels",
    "metrics.average_precision_score(PROBABILITY, Y)": "the scores look like labels",
    "metrics.average_precision_interval(A, Y)": "y_true has labels that are continuous",
    "metrics.average_precision_difference(A, B, Y)": "y_true has labels that are continuous",
    "metrics.average_precision_score(Y, np.stack([1 - PROBABILITY, PROBABILITY], 1))": "y_score is not one column",
    "metrics.average_precision_difference(Y, A, B[:100])": "inconsistent numbers of samples",
    'metrics.average_precision_difference(Y, A, B, clusters="patient")': "clusters is text, not an array: 'patient'",
    'metrics.average_precision_score(Y, A, pos_label="spam")': "pos_label='spam' is not in y_true",
    "metrics.average_precision_interval(Y, A, level=95)": "level must lie between 0 and 1",
    "metrics.average_precision_score(Y, PROBABILITY > 0.5)": "these look like predicted labels, not scores",
    "metrics.average_precision_score(Y, 1 - PROBABILITY)": "is larger more positive?",
    'ap.compare({"a": A, "b": B > 1}, Y)': "b: Only two distinct scores",
    'ap.compare(FRAME[["y", "old", "new"]], Y)': "y: these scores are the labels themselves",
    'ap.compare({"a": A, "id": np.arange(200), "b": B}, Y)': "id: whole numbers, unlike the other scores",
    'ap.compare({"a": A, "b": B}, Y, by=np.linspace(20, 80, 200))': "'group' has 200 different numbers among 200 items",
    'ap.evaluate({"a": A, "b": B}, Y + 1)': "labels outside their domain",
    'ap.compare({"a": A, "b": B}, Y, over="item")': "there are no units to vary: no dimension 'item'",
    'ap.rank({"a": A, "b": -B}, Y)': "b: ROC area below one half",
    'ap.compare({"a": A, "b": -B}, Y, method="bootstrap")': "b: ROC area below one half",
    'ap.gate({"old": A, "new": B > 1}, Y, "new", "old", margin=0.1)': "new: Only two distinct scores",
    "metrics.average_precision_interval(Y, 1 - PROBABILITY)": "is larger more positive?",
    'ap.estimate(A, Y, "auprc")': "unknown estimator: 'auprc'; did you mean 'average_precision'?",
    'ap.estimate(A, Y, "f1")': "not computed here",
    'ap.estimate(A, Y, "precision_at")': "the estimator's parameter is wrong",
    'ap.evaluate(SCORES, interval="bootstraps")': "unknown interval method: 'bootstraps'",
    'ap.evaluate(SCORES, interval="percentile")': "unknown interval method: 'percentile'; did you mean 'bootstrap'",
    "ap.evaluate(SCORES, random_state=0)": "'random_state'; did you mean 'seed'?",
    "ap.evaluate(SCORES, n_bootstrap=100)": "'n_bootstrap'; did you mean 'n_resamples'?",
    "ap.evaluate(SCORES, alpha=0.05)": "'alpha'; did you mean 'level'?",
    'ap.evaluate(SCORES, groups="site")': "'groups'; did you mean 'by'?",
    "ap.evaluate(SCORES, sample_weight=A)": "'sample_weight'; did you mean 'weight'?",
    "ap.evaluate(SCORES, level=95)": "level must lie between 0 and 1",
    'ap.evaluate(SCORES, by="sites")': "there is no coordinate 'sites' of the items; did you mean 'site'?",
    'ap.compare(SCORES, baseline="Old")': "there is no model 'Old'; did you mean 'old'?",
    "metrics.average_precision_interval(Y, A, alpha=0.05)": "'alpha'; did you mean 'level'?",
    "metrics.average_precision_difference(Y, A, B, groups=Y)": "'groups'; did you mean 'clusters'?",
    "metrics.average_precision_score(Y, A, weight=Y)": "'weight'; did you mean 'sample_weight'?",
    'ap.evaluate(SCORES, metric="roc_area")': "'metric'; did you mean 'estimator'?",
    "SCORES.aucpr.evaluate(n_boot=100)": "'n_boot'; did you mean 'n_resamples'?",
    'ap.compare(SCORES, "old", correction="holm")': "'correction'; did you mean 'adjust'?",
    'ap.compare(SCORES, "old", random_state=0)': "'random_state'; did you mean 'seed'?",
    'ap.gate(SCORES, "new", "old", margn=0.01)': "'margn'; did you mean 'margin'?",
    "ap.power(SCORES, effect=0.05)": "'effect'; did you mean 'difference'?",
    'ap.from_dataframe(FRAME, label="y", group="site")': "'group'; did you mean 'by'?",
    "ap.curve(A, Y, weights=Y)": "'weights'; did you mean 'weight'?",
    "ap.curve(A)": "missing 1 required positional argument: 'label'",
    'ap.run("s.zarr", "x.zarr", n_jobs=2)': "'n_jobs'; did you mean 'workers'?",
    "ap.evaluatte(SCORES)": "has no attribute 'evaluatte'; did you mean 'evaluate'?",
    "ap.average_precision_score(Y, A)": "did you mean 'metrics.average_precision_score'?",
    "ap.from_pandas(FRAME)": "did you mean 'from_dataframe'?",
    "ap.audit(FRAME)": "an audit takes values of models on tasks, and this table has scores",
    'ap.audit("s.csv")': "an audit takes values of models on tasks, and this table has scores",
    'ap.compare(SCORES, "old", method="ttest")': "unknown method for over='items': 'ttest'",
    'ap.compare(SCORES, "old", over="queries")': "no dimension 'queries'",
    'ap.aggregate(SCORES, over="queries")': "there are no units called 'queries'",
    'ap.gate(SCORES, "new", "old", margin=1)': "no two models can differ by so much",
    'ap.gate(SCORES, "new", "old", margin="1%")': "margin must be a number",
    'ap.gate(SCORES, "new", "old", margin=-0.01)': "margin must not be negative",
    "ap.power(SCORES, difference=5)": "no two models can differ by so much",
    "ap.power(SCORES, power=80)": "power must lie between 0 and 1",
    "ap.from_dataframe(FRAME)": "there is no column 'label'",
    'ap.from_dataframe(FRAME, label="y", models=["old", "newer"])': "there is no column 'newer'",
    'ap.from_dataframe("s.csv", label="y")': "this is not a data frame",
    'ap.evaluate(SCORES.rename(score="scores"))': "the variable 'score' is absent",
    'ap.evaluate(SCORES.rename(item="sample"))': "'score' has unsupported dimensions",
    "ap.evaluate(SCORES.drop_vars('label'))": "a data set needs 'label'",
    'ap.evaluate_runs({"bm25": {"q": {"d": 0.5}}}, {"q": {"d": 1}})': "these are runs in place of judgments",
    "SCORES.aucpr.plot.forest()": "forest plots a result",
    "SCORES.aucpr.plot.scatter()": "there is no plot 'scatter'; precision_recall, roc,",
    'ap.chance({"a": A, "b": B}, Y)': "'score' is no array but dict",
    'ap.curve({"a": A, "b": B}, Y)': "'score' is no array but dict",
    "ap.curve(SCORES, Y)": "'score' is no array but Dataset",
    "ap.compare(SCORES, y=Y)": "'y'; did you mean 'label'?",
    'ap.from_dataframe(FRAME, target="y")': "'target'; did you mean 'label'?",
    'ap.compare(SCORES, "old", method="delong")': "'delong'; did you mean 'influence'?",
    'ap.compare(SCORES, "old", adjust="bonferroni")': "'bonferroni'; did you mean 'holm'?",
    'ap.compare(SCORES, "xgboost")': "there is no model 'xgboost'",
    "ap.compare(A, B, Y)": "these are three arrays: scores of several models have names",
    "ap.evaluate(A, B, Y)": "these are three arrays: scores of several models have names",
    'ap.contrast(SCORES.sel(model=["old"]), "site", baseline="old")': "the baseline is the only model",
    "ap.interval(PROBABILITY, Y)": "n_positive looks like labels",
    'ap.evaluate({"a": A, "b": B}, 0 * Y)': "no item is positive, so no area is defined",
    'ap.export("x.csv", SCORES)': "this is not the path of a file",
    "ap.Accumulator(A, Y)": "an accumulator starts without items",
    'ap.report(SCORES, "report.pdf")': "a report is a page of HTML",
    'ap.compare({"a": A, "b": B}, Y, test="wilcoxon")': "'test'; did you mean 'method'?",
    'metrics.average_precision_score(FRAME["site"], A)': "pos_label=1 is not in y_true, which has 'u' and 'v'",
    'ap.from_dataframe(FRAME, label="Y")': "there is no column 'Y'; did you mean 'y'?",
    'ap.from_dataframe(FRAME.assign(y=2 * Y), label="y")': "'2' is not a label",
    'ap.evaluate(A, FRAME["site"], pos_label="w")': "no label is 'w', the positive class",
    "ap.evaluate(ap.evaluate(SCORES))": "this is a result, not scores",
    'ap.power(SCORES, difference="5%")': "difference must be a number",
    'ap.export(ap.evaluate(SCORES), "x.xlsx")': "no format of tables has the suffix '.xlsx'",
    'ap.from_values({"a": [0.1], "b": [0.2]})': "the values of a model are neither a mapping nor a data frame",
    'ap.run("s.zarr", "areas.csv")': "a store is a folder, and this is the name of a file",
}
COMMANDS = {
    "s.csv": "No such command 's.csv'. Did you mean 'info s.csv'?",
    "import s.csv x.zarr": "No such command 's.csv'. Did you mean 'table s.csv'?",
    "import csv s.csv x.zarr": "No such command 'csv'. Did you mean 'table'?",
    "version": "No such command 'version'. Did you mean '--version'?",
    "help": "No such command 'help'. Did you mean '--help'?",
    "evaluate missing.zarr x.zarr": "there is no store at this place",
    "evaluate s.zarr r.zarr --interval logit": "there is something at this place already",
    "compare s.csv": "there is no column 'label'",
    "compare s.zarr --baseline older": "there is no model 'older'",
    "compare s.zarr --data-set x": "Did you mean '--dataset'?",
    "import table s.csv x.zarr": "Missing option '--label'",
    "compare s.csv --label site": "labels are text: name the positive one, such as --pos-label v",
    "compare comma.csv --label y": "no column is a model: numbers have a decimal comma",
    "gate s.zarr new old": "a store stands alone: its models are named by options",
    "gate s.zarr --candidate new": "name the models to compare",
    "gate s.zarr --candidate new --baseline old --margin 1%": "'1%' is not a number. 1 percent is 0.01.",
    "compare s.csv --level 95%": "'95%' is not a number. 95 percent is 0.95.",
    "compare s.csv --alpha 0.05": "No such option '--alpha'. Did you mean '--level'?",
    "compare s.csv --target y": "No such option '--target'. Did you mean '--label'?",
    "show s.zarr": "this store holds scores, not a result",
    "plan r.zarr": "this store holds a result, not scores",
    "rank s.zarr --cluster patient": "No such option '--cluster'",
    "evaluate s.zarr areas.csv": "a store is a folder, and this is the name of a file",
    "report r.zarr page.pdf": "a report is a page of HTML",
    "audit s.csv": "an audit takes values of models on tasks, and this table has scores",
}


@pytest.fixture(scope="module")
def first_hour(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    folder = tmp_path_factory.mktemp("first hour")
    FRAME.to_csv(folder / "s.csv", index=False)
    FRAME.to_csv(folder / "comma.csv", index=False, sep=";", decimal=",")
    scores = ap.from_dataframe(FRAME, label="y", by=["site"])
    ap.save_scores(scores, folder / "s.zarr")
    ap.run(folder / "s.zarr", folder / "r.zarr")
    return SimpleNamespace(folder=folder, scores=scores)


@pytest.mark.parametrize(("call", "said"), CALLS.items())
def test_a_mistake_is_named_in_the_first_line(
    call: str, said: str, first_hour: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(first_hour.folder)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            eval(call, globals() | {"SCORES": first_hour.scores})
        except (AucprError, TypeError, AttributeError) as error:
            line = str(error).splitlines()[0]
        else:
            line = str(caught[0].message).splitlines()[0]
    assert said in line


@pytest.mark.parametrize(("command", "said"), COMMANDS.items())
def test_a_mistake_at_the_prompt_is_named_in_the_first_line(
    command: str, said: str, first_hour: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(first_hour.folder)
    done = CliRunner().invoke(main, command.split())
    line = next(line for line in done.stderr.splitlines() if line.startswith("Error:"))
    assert done.exit_code == 2
    assert said in line


def test_remedies_are_in_the_words_of_the_caller(first_hour: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(first_hour.folder)
    with pytest.raises(AucprError, match=r"or pass overwrite=True to replace it$"):
        ap.save_scores(first_hour.scores, "s.zarr")
    done = CliRunner().invoke(main, ["import", "table", "s.csv", "s.zarr", "--label", "y"])
    assert done.stderr.endswith("or pass --overwrite to replace it\n")
    with pytest.raises(AucprError, match="where: argument 'baseline'"):
        ap.compare(first_hour.scores, "Old")
    assert "where: option '--baseline'" in CliRunner().invoke(main, ["compare", "s.zarr", "--baseline", "Old"]).stderr


def test_a_failed_gate_is_false() -> None:
    models = {"old": A, "new": B, "other": B + A}
    passed, failed = ap.gate(models, Y, "new", "old"), ap.gate(models, Y, "old", "new")
    assert passed
    assert passed.passed
    assert not failed
    assert not failed.passed
    assert ap.gate(models, Y, ["new", "other"], "old")
    assert not ap.gate(models, Y, ["new", "old"], "other")


def test_a_table_of_scores_is_estimated_by_column() -> None:
    found = ap.estimate(FRAME[["old", "new"]], FRAME["y"])
    assert found == {"old": ap.estimate(A, Y), "new": ap.estimate(B, Y)}
    by_site = ap.estimate(FRAME[["old", "new"]], Y, by=FRAME["site"])
    np.testing.assert_array_equal(by_site["new"], ap.estimate(B, Y, by=FRAME["site"]))


def test_groups_may_be_columns_of_a_table() -> None:
    models = {"old": A, "new": B}
    xr.testing.assert_identical(
        ap.evaluate(models, Y, by=FRAME[["site"]]), ap.evaluate(models, Y, by={"site": FRAME["site"]})
    )


def test_areas_of_rankings_without_positives_are_no_labels() -> None:
    bounds = ap.interval([0.5, np.nan], [1, 0])
    assert np.isfinite(bounds[0]).all()
    assert np.isnan(bounds[1]).all()


def test_chance_reads_as_a_sentence() -> None:
    found = ap.chance(A, Y)
    said = f"average precision {found.area:.4f}; a random order has as much with probability {found.p_value_lower:.3g}"
    assert repr(found).startswith(said)
    assert len(repr(ap.chance(np.stack([A] * 12), Y)).splitlines()) == 11
