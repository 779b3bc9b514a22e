"""Data sets with classes: one class against the rest, shared resamples of items, averages as in scikit-learn."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner
from conftest import few, without_its_scores
from distributed import Client
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.naive_bayes import GaussianNB
from strategies import chunkings

import aucpr_dask as ap
from aucpr_dask.cli import main
from aucpr_dask.errors import AlignmentError, InvalidInputError
from aucpr_dask.inference import designs
from aucpr_dask.inference.covarying import influences
from aucpr_dask.kernels.resampling import units_of

mpl.use("Agg")

NAMES = ["ant", "bee", "cat", "dog"]
RESAMPLED: dict[str, Any] = {"keep_replicates": True, "n_resamples": 70}
AVERAGES = ("macro", "weighted", "micro", "samples")


def multiclass(n_items: int = 60, n_models: int = 2, seed: int = 0) -> xr.Dataset:
    """Scores of models for four classes of different size; the label of an item is its class."""
    random = np.random.default_rng(seed)
    classes = random.choice(4, size=n_items, p=[0.4, 0.3, 0.2, 0.1])
    score = random.normal(size=(n_models, 4, n_items)) + (classes == np.arange(4)[:, None])
    coords = {"model": [f"m{n}" for n in range(n_models)], "class": NAMES}
    return xr.Dataset(
        {"score": (("model", "class", "item"), score), "label": ("item", np.array(NAMES)[classes])}, coords=coords
    )


DATA = multiclass()


@st.composite
def multilabel(draw: Any) -> xr.Dataset:
    """Draw tied scores and labels, where every class has a positive and every item a class."""
    n_classes, n_items = draw(st.integers(2, 4)), draw(st.integers(4, 12))
    label = draw(hnp.arrays(np.int8, (n_classes, n_items), elements=st.integers(0, 1), fill=st.nothing()))
    label[np.arange(n_items) % n_classes, np.arange(n_items)] = 1
    score = draw(hnp.arrays(np.float64, (2, n_classes, n_items), elements=st.integers(-3, 3), fill=st.nothing()))
    return xr.Dataset({"score": (("model", "class", "item"), score), "label": (("class", "item"), label)})


@few
@pytest.mark.filterwarnings("ignore:y_score")  # few distinct scores look like predicted labels
@given(multilabel(), st.sampled_from(AVERAGES))
def test_averages_are_those_of_scikit_learn(scores: xr.Dataset, average: str) -> None:
    means = ap.aggregate(scores, over="class", average=average, n_resamples=10)
    for model in range(2):
        arrays = scores["label"].values.T, scores["score"].values[model].T
        expected = average_precision_score(*arrays, average=average)
        assert means["estimate"].values[model].item() == pytest.approx(expected, rel=0, abs=1e-12)
        assert ap.metrics.average_precision_score(*arrays, average=average) == pytest.approx(expected, rel=0, abs=1e-12)


def test_the_class_of_each_item_is_a_label_of_each_class() -> None:
    own = DATA["label"].values == np.array(NAMES)[:, None]
    explicit = ap.evaluate(DATA.assign(label=(("class", "item"), own.astype(np.int8))), **RESAMPLED)
    xr.testing.assert_identical(ap.evaluate(DATA, **RESAMPLED), explicit)
    numbers = DATA.drop_vars("class").assign(label=("item", own.argmax(axis=0)))
    xr.testing.assert_identical(ap.evaluate(numbers, **RESAMPLED), explicit.drop_vars("class"))
    lazy = ap.evaluate(DATA.chunk({"class": 3, "model": 1}), **RESAMPLED)
    xr.testing.assert_identical(lazy.compute(), explicit)


def test_items_without_a_class_are_unjudged_or_padding_only_if_these_are_no_classes() -> None:
    number = np.arange(60) % 4
    odd = np.where(np.arange(60) < 4, -1, np.where(np.arange(60) < 8, -2, number))
    scores = DATA.drop_vars("class").assign(label=("item", odd))
    assert ap.evaluate(scores)["n_negative"].values.tolist() == [[43] * 4] * 2  # 60 less 4 of padding, 13 positives
    dropped = ap.evaluate(scores, unjudged="drop")
    assert dropped["n_negative"].values.tolist() == [[39] * 4] * 2
    as_class = scores.assign_coords({"class": [-1, 0, 1, 2]}).assign(label=("item", number - 1))
    assert ap.evaluate(as_class)["n_positive"].values.tolist() == [[15] * 4] * 2
    with pytest.raises(InvalidInputError, match=r"labels that are no class\n.*\n.*13 labels: 3"):
        ap.evaluate(scores.isel({"class": slice(3)}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.assign(label=("item", np.array(["emu", *NAMES])[np.arange(60) % 5])), "12 labels: 'emu'"),
        (lambda data: data.assign(n_positive=50), "all positives must be items"),
        (lambda data: data.assign(score=data["score"].isel({"class": 0}), label=ap_labels(data)), "both, or neither"),
        (lambda data: data.assign_coords({"class": [*NAMES[:3], "cat"]}), "must be unique"),
        (lambda data: data.assign(label=data["label"] == "ant").isel({"class": 0}).assign_coords({"class": 1}), "may"),
    ],
)
def test_labels_and_classes_that_do_not_fit_are_refused(change: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        ap.evaluate(change(DATA))


def ap_labels(data: xr.Dataset) -> xr.DataArray:
    return (data["label"] == data["class"]).astype(np.int8).transpose("class", "item")


def test_one_class_can_be_selected_before_or_after() -> None:
    after = ap.evaluate(DATA).sel({"class": "bee"})
    before = ap.evaluate(DATA.sel({"class": "bee"}), prevalence_design="random")
    xr.testing.assert_equal(after, before.assign_coords({"class": "bee"}))


@given(st.data())
def test_draws_of_items_do_not_depend_on_labels(data: st.DataObject) -> None:
    arrays = hnp.arrays(np.int8, 12, elements=st.integers(-1, 1), fill=st.nothing())
    first, second = data.draw(arrays), data.draw(arrays)
    of_first, of_second = (
        units_of((y > 0).astype(float), (y == 0).astype(float), None, 0, is_stratified=False, draws_all=True)
        for y in (first, second)
    )
    assert of_first.size.tolist() == of_second.size.tolist() == [12]
    assert of_first.stratum.tolist() == of_second.stratum.tolist()
    both = (first >= 0) & (second >= 0)
    assert of_first.of_item[both].tolist() == of_second.of_item[both].tolist()
    assert (of_first.of_item[first < 0] == -1).all()


@pytest.mark.parametrize("options", [{}, {"over": "clusters"}])
def test_all_classes_share_the_multiplicities_of_items(options: dict[str, str]) -> None:
    # The area of a constant score is the share of positives, here of each class in each resample.
    constant = DATA.assign(score=xr.zeros_like(DATA["score"]), cluster=("item", np.arange(60) // 2))
    share = ap.evaluate(constant, **RESAMPLED, **options)["replicate"]
    assert share.std("resample").min() > 0
    np.testing.assert_allclose(share.sum("class"), 1, atol=1e-12)
    # Items left out of one class are still drawn: the share of positives among the others follows from other classes.
    positive, is_judged = np.arange(60) % 3 == 0, np.arange(60) % 4 > 0
    label = np.array([np.where(is_judged, positive, -1), is_judged, positive & is_judged, positive]).astype(np.int8)
    left_out = constant.assign(label=(("class", "item"), label))
    share = ap.evaluate(left_out, unjudged="drop", **RESAMPLED, **options)["replicate"]
    of_judged, judged, both, _ = (share.isel({"class": n}) for n in range(4))
    np.testing.assert_allclose(of_judged, both / judged, atol=1e-12)


@pytest.mark.slow
@settings(few, max_examples=4)
@given(st.data())
def test_classes_models_and_chunks_in_any_order_have_the_same_numbers(data: st.DataObject) -> None:
    whole = ap.evaluate(DATA, **RESAMPLED)
    of_all = ap.aggregate(whole, over="class", method="bootstrap")
    order = {"class": data.draw(st.permutations(range(4))), "model": data.draw(st.permutations(range(2)))}
    dims = data.draw(st.permutations(["model", "class", "item"]))
    permuted = (
        DATA.isel(order).transpose(*dims).chunk({"class": data.draw(chunkings(4)), "model": data.draw(chunkings(2))})
    )
    xr.testing.assert_identical(ap.evaluate(permuted, **RESAMPLED).compute(), whole.isel(order))
    means = ap.aggregate(ap.evaluate(permuted, **RESAMPLED), over="class", method="bootstrap").compute()
    xr.testing.assert_identical(means, of_all.isel(model=order["model"]))
    some = ap.evaluate(DATA.assign(label=ap_labels(DATA)).isel({"class": order["class"][:2]}), **RESAMPLED)
    xr.testing.assert_identical(some, whole.isel({"class": order["class"][:2]}))


@few
@given(multilabel())
def test_a_single_class_has_the_numbers_of_a_data_set_without_classes(scores: xr.Dataset) -> None:
    intervals = ["influence_beta", "bootstrap"]
    one = ap.evaluate(scores.isel({"class": [1]}), interval=intervals, **RESAMPLED).isel({"class": 0})
    plain = ap.evaluate(scores.isel({"class": 1}), interval=intervals, prevalence_design="random", **RESAMPLED)
    xr.testing.assert_identical(one, plain)


def test_the_standard_error_is_that_of_the_mean_of_dependent_classes() -> None:
    scores = multiclass(400)
    by_influence = ap.aggregate(scores, over="class")
    result = ap.evaluate(scores, keep_replicates=True)
    by_replicates = ap.aggregate(result, over="class")
    np.testing.assert_allclose(by_influence["standard_error"], by_replicates["standard_error"], rtol=0.08)
    xr.testing.assert_equal(by_replicates["estimate"], by_influence["estimate"])
    # Twice the same class says no more than once; independent classes would say more.
    twice = scores.assign(label=ap_labels(scores)).isel({"class": [0, 0]}).assign_coords({"class": ["one", "two"]})
    error = ap.evaluate(scores)["standard_error"].isel({"class": 0})
    np.testing.assert_allclose(ap.aggregate(twice, over="class")["standard_error"], error, rtol=1e-12)
    centred = ap.aggregate(scores, over="class", estimator="haldane")  # where the interval of average precision lies
    bounds = centred["interval"].values
    np.testing.assert_allclose(by_influence["interval"], bounds, rtol=1e-12)
    logits = np.log(bounds / (1 - bounds))
    mean, error = (centred[name].values for name in ("estimate", "standard_error"))
    np.testing.assert_allclose(logits.mean(axis=-1), np.log(mean / (1 - mean)))
    quantile = stats.t.ppf(0.975, result["n_positive"].mean("class").values.ravel() - 1)
    np.testing.assert_allclose(np.diff(logits)[..., 0] / 2, quantile * error / (mean * (1 - mean)), rtol=1e-6)
    weighted = ap.aggregate(result, over="class", average="weighted", method="bootstrap")
    replicates = result["replicate"].weighted(result["n_positive"]).mean("class")
    np.testing.assert_allclose(
        weighted["interval"].values, replicates.quantile([0.025, 0.975], "resample").transpose("model", ...).values
    )


def test_intervals_stay_between_0_and_1() -> None:
    perfect = DATA.assign(score=DATA["score"] + 100 * (DATA["label"] == DATA["class"]).astype(float))
    means = ap.aggregate(perfect, over="class")
    lower, upper = means["interval"].values.T
    alone = ap.evaluate(perfect)["interval"].isel(ci_bound=0, drop=True)
    quantile = 1.959964**2
    # As many successes without a failure as give each class its own bound; the mean is worth fewer than all together.
    successes = quantile * alone / (1 - alone)
    worth = 4**2 / (1 / successes).sum("class")
    np.testing.assert_allclose(lower, worth / (worth + quantile), rtol=1e-6)
    assert (alone.mean("class") < lower).all()
    assert upper.tolist() == [1.0, 1.0]
    both = ["average_precision", "roc_area"]  # at another prevalence, with intervals of different names
    of_two = ap.aggregate(perfect, over="class", estimator=both, prevalence=0.2)["interval"]
    for name in both:
        of_one = ap.aggregate(perfect, over="class", estimator=name, prevalence=0.2)["interval"]
        np.testing.assert_array_equal(of_two.sel(estimator=name), of_one)
    nearly = perfect.copy(deep=True)
    nearly["score"][:, :, :3] = 0
    bounds = ap.aggregate(nearly, over="class")["interval"].values
    assert 0 < bounds.min() <= bounds.max() < 1


def test_the_design_says_what_is_fixed() -> None:
    sentences = {average: ap.aggregate(DATA, over="class", average=average).attrs["design"] for average in AVERAGES}
    assert sentences["macro"].startswith("sample: the items with their labels; fixed: the 2 models, the 4 classes;")
    assert "the 4 classes and their weights" in sentences["weighted"]
    assert sentences["micro"].startswith("one ranking of all pairs of an item and a class; sample: the items")
    assert sentences["samples"].endswith("fixed: the 2 models, the 4 classes, which each item ranks")
    compared = ap.compare(DATA, method="bootstrap", n_resamples=50).attrs
    assert (
        compared["design"] == "resampled: the items with their labels, 50 times; fixed: the 2 models, the 4 classes; "
        f"{designs.METHODS['items', 'bootstrap'].condition}"
    )
    assert compared["over"] == "class"


def test_classes_are_never_a_sample() -> None:
    result, not_a_sample = without_its_scores(ap.evaluate(DATA)), "classes are not a sample"
    over = {"over": "class"}
    for call, message in (
        (lambda: ap.compare(DATA, over="query"), not_a_sample),
        (lambda: ap.rank(DATA, over=("query", "items")), not_a_sample),
        (lambda: ap.aggregate(DATA, over=("class", "query")), "has classes, which are averaged alone"),
        (lambda: ap.aggregate(result, **over), r"shared resamples.*\n.*the data set\n.*\n.*\n.*keep_replicates=True"),
        (lambda: ap.aggregate(result), r"shared resamples"),
        (lambda: ap.aggregate(DATA, how="micro"), "has classes, which are averaged alone"),
        (lambda: ap.aggregate(result, **over, average="micro"), "needs their scores"),
        (lambda: ap.aggregate(DATA, **over, how="micro"), "how is a choice for queries"),
        (lambda: ap.compare(DATA.isel({"class": 0}), **over), "no classes to average over"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            call()
    xr.testing.assert_identical(ap.aggregate(DATA, average="macro"), ap.aggregate(DATA, **over))


def test_models_are_compared_by_their_means_on_shared_resamples() -> None:
    scores = multiclass(200)
    result = ap.evaluate(scores, n_resamples=1000, keep_replicates=True)
    mean, replicates = (result[name].mean("class") for name in ("estimate", "replicate"))
    compared = ap.compare(result)
    asked = ap.compare(scores, method="bootstrap")
    xr.testing.assert_equal(compared, asked)
    assert "by the bootstrap" in compared.attrs["design"] or compared.attrs["design"] == asked.attrs["design"]
    expected = float(mean[0] - mean[1])
    assert compared["difference"].sel(model="m0", other_model="m1").item() == pytest.approx(expected, abs=1e-15)
    error = float((replicates[0] - replicates[1]).std(ddof=1))
    assert compared["standard_error"].values[0, 1] == pytest.approx(error, rel=0.01)
    by_influence = ap.compare(scores)
    np.testing.assert_allclose(by_influence["difference"], compared["difference"], atol=1e-15)
    assert by_influence["standard_error"].values[0, 1] == pytest.approx(error, rel=0.1)
    assert ap.rank(scores)["rank"].values.tolist() == ([2, 1] if expected < 0 else [1, 2])
    tree = xr.DataTree.from_dict({"a": scores, "b": multiclass(50, seed=1), "c": multiclass(40, seed=2)})
    over_data_sets = ap.compare(tree, over="dataset")
    means = [ap.evaluate(node.to_dataset())["estimate"].mean("class").values for node in tree.children.values()]
    np.testing.assert_allclose(over_data_sets["estimate"], np.mean(means, axis=0))


def test_models_that_lack_classes_are_named() -> None:
    lacking = DATA.copy(deep=True)
    lacking["score"][0, 2] = np.nan
    result = ap.evaluate(lacking, missing="drop", **RESAMPLED)
    with pytest.raises(AlignmentError, match="'m0' lacks class 'cat'"):
        ap.aggregate(result, over="class")
    dropped = ap.aggregate(result, over="class", incomplete="drop")
    assert dropped["n_classes"].values.tolist() == [3, 3]


@pytest.fixture(scope="module")
def one_worker() -> Iterator[Client]:
    with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as client:
        yield client


@pytest.mark.slow
def test_a_store_has_the_same_numbers_also_with_another_class(
    one_worker: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aucpr_dask.storage.stores.CHUNK_BYTES", 1000)
    source, target = tmp_path / "scores.zarr", tmp_path / "result.zarr"
    some = DATA.assign(label=ap_labels(DATA))
    ap.save_scores(some.isel({"class": slice(3)}), source)
    ap.run(source, target, workers=one_worker, progress=False, **RESAMPLED)
    ap.save_scores(DATA, source, overwrite=True)
    with pytest.warns(UserWarning, match="everything is evaluated again"):
        ap.run(source, target, workers=one_worker, progress=False, **RESAMPLED)
    expected = ap.evaluate(DATA, **RESAMPLED)
    found = ap.open_result(target)
    assert found["class"].values.tolist() == NAMES
    for name in expected.data_vars:
        np.testing.assert_array_equal(found[name].values, expected[name].values)
    opened = ap.open_scores(source)
    for average in AVERAGES:
        means, lazy = (ap.aggregate(one, over="class", average=average) for one in (DATA, opened))
        np.testing.assert_array_equal(lazy["interval"].values, means["interval"].values)


def test_the_command_line_speaks_of_classes(tmp_path: Path, one_worker: Client) -> None:
    source, target = str(tmp_path / "scores.zarr"), str(tmp_path / "result.zarr")
    ap.save_scores(DATA, source)
    ap.run(source, target, workers=one_worker, progress=False, **RESAMPLED)

    def output(*words: str) -> str:
        done = CliRunner().invoke(main, list(words), env={"COLUMNS": "100"})
        assert done.exit_code == 0, done.output
        assert "quer" not in done.stdout.replace('"n_queries": null', "")
        return done.stdout

    assert "classes" in output("info", source)
    assert "mean of 4 classes" in output("show", target)
    assert "the 4 classes" in output("compare", target)
    assert "weighted mean of 4 classes" in output("aggregate", target, "--over", "class", "--average", "weighted")
    document = json.loads(output("aggregate", source, "--over", "class", "--average", "macro", "--json"))
    assert document["rankings"][0]["n_classes"] == 4


def test_tables_plots_and_pages_name_classes_or_ask_for_one(tmp_path: Path) -> None:
    result = ap.evaluate(DATA, **RESAMPLED)
    assert "mean of 4 classes" in repr(result.aucpr)
    assert "2 models, 4 classes, 60 items" in repr(DATA.aucpr)
    assert "over 4 classes" in result.aucpr.plot.forest().get_xlabel()
    assert [text.get_text() for text in result.aucpr.plot.heatmap().get_xticklabels()]
    for call in (DATA.aucpr.plot.precision_recall, result.aucpr.plot.replicates):
        with pytest.raises(InvalidInputError, match=r"one class\n.*\n.*\n.*sel\({'class': 'ant'}\)"):
            call()
    assert DATA.sel({"class": "bee"}).aucpr.plot.precision_recall().get_xlabel() == "recall"
    page = ap.report(result, tmp_path / "report.html").read_text(encoding="utf-8")
    assert all(re.search(rf"<h2[^>]*>\s*{name}\s*</h2>", page) for name in NAMES)
    assert result.aucpr.to_dataframe()["class"].tolist() == NAMES * 2


def test_classifiers_score_every_class() -> None:
    features, number = load_iris(return_X_y=True)
    classes = np.array(["setosa", "versicolor", "virginica"])[number]
    models = {"logistic": LogisticRegression(max_iter=1000), "bayes": GaussianNB()}
    fitted = {name: model.fit(features[::2, :2], classes[::2]) for name, model in models.items()}
    scores = ap.from_sklearn(fitted, features[1::2, :2], classes[1::2])
    assert scores["score"].dims == ("model", "class", "item")
    means = ap.aggregate(scores, over="class")["estimate"].values.ravel()
    own = classes[1::2, None] == np.unique(classes)
    expected = [average_precision_score(own, model.predict_proba(features[1::2, :2])) for model in fitted.values()]
    np.testing.assert_allclose(means, expected, rtol=0, atol=1e-12)
    one = ap.from_sklearn(fitted, features[1::2, :2], classes[1::2], pos_label="virginica")
    np.testing.assert_array_equal(one["score"], scores["score"].sel({"class": "virginica"}))


def test_the_variance_of_a_mean_over_classes_adds_what_each_lacks() -> None:
    """Ten draws of a proportion for each class, as if the classes were independent."""
    found, alone = ap.covariance(DATA), []
    for place, name in enumerate(DATA["class"].values):
        score = DATA["score"].isel({"class": place}, drop=True)
        one = xr.Dataset({"score": score, "label": (DATA["label"] == name).astype(np.int8)})
        alone.append(influences(one, "average_precision"))
    n, proportion, loss = (
        np.mean([one[name] for one in alone], axis=0) for name in ("n_effective", "proportion", "unseen_loss")
    )
    covariance, worth = found["covariance"].values, proportion / len(alone) / n
    correlation = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
    squares = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
    of_worth = worth.sum() - 2 * correlation * np.sqrt(worth.prod())
    expected = ((n[0] - 1) * squares + 10 * of_worth) / (n[0] + 9) + (loss[0] - loss[1]) ** 2 / 4
    np.testing.assert_allclose(found["difference_variance"].values[0, 1], expected, rtol=1e-10)
    np.testing.assert_allclose(found["n_effective"], n)


@pytest.mark.slow
def test_means_over_many_rare_classes_are_centred_without_bias() -> None:
    """Around the mean of average precision they missed nearly always: the bias does not average out."""
    random, z = np.random.default_rng(8), np.linspace(10, -10, 20_001)
    recall, fallout = stats.norm.sf(z - 1), stats.norm.sf(z)
    truth = np.trapezoid(0.05 * recall / (0.05 * recall + 0.95 * fallout), recall)
    n_covered = n_old = 0
    for _ in range(10):
        label = random.random((40, 400)) < 0.05
        score = random.normal(size=(3, *label.shape)) + label
        variables = {"score": (("model", "class", "item"), score), "label": (("class", "item"), label.astype(np.int8))}
        scores = xr.Dataset(variables, {"model": list("abc")})
        mean = ap.aggregate(scores, over="class")
        lower, upper = mean["interval"].transpose("ci_bound", ...).values
        estimate, error = mean["estimate"].values, mean["standard_error"].values
        n_covered += int(((lower <= truth) & (truth <= upper)).sum())
        n_old += int((estimate - 1.96 * error <= truth).sum())
        assert ((lower <= estimate) & (estimate <= upper)).all()
    assert n_covered >= 25  # of 30
    assert n_old < 10
    assert "without the bias" in mean.attrs["design"]
    haldane = ap.aggregate(scores, over="class", estimator="haldane")["interval"].transpose("ci_bound", ...)
    np.testing.assert_allclose(mean["interval"].transpose("ci_bound", ...)[0], haldane[0], rtol=0.02)
    rare = scores.isel(item=slice(100))
    assert ap.aggregate(rare, over="class").aucpr.flagged("few_positives")["few_positives"].all()


def test_classes_are_the_default_and_may_be_named() -> None:
    scores = multiclass(200)
    for ask in (
        lambda **named: ap.compare(scores, scores["model"].values[0], **named),
        lambda **named: ap.rank(scores, **named),
        lambda **named: ap.power(scores, **named),
    ):
        xr.testing.assert_identical(ask(over="class"), ask())
