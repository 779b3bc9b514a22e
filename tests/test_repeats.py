"""Repeats and folds of a cross-validation: evaluated, averaged, compared with the variance of items and training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from conftest import without_its_scores
from reference_cases import oracle
from scipy import stats

import aucpr_dask as ap
from aucpr_dask.errors import InvalidInputError


def repeated(n_items: int = 200, *, n_repeats: int = 4, n_folds: int = 5, seed: int = 0) -> xr.Dataset:
    """Return out-of-fold scores of three models in several repeats."""
    random = np.random.default_rng(seed)
    label = (random.random(n_items) < 0.3).astype(int)
    noise = 0.3 * random.normal(size=(3, n_repeats, n_items)) + random.normal(size=n_items)
    score = noise + label * np.array([1.0, 1.2, 0.8])[:, None, None]
    fold = np.stack([random.permutation(n_items) % n_folds for _ in range(n_repeats)])
    variables = {
        "score": (("model", "repeat", "item"), score),
        "label": ("item", label),
        "fold": (("repeat", "item"), fold),
    }
    return xr.Dataset(variables, {"model": ["a", "b", "c"], "repeat": range(n_repeats)})


DATA = repeated()


def test_each_repeat_is_evaluated_as_if_it_stood_alone(tmp_path: Path) -> None:
    options: dict[str, Any] = {"interval": ["influence_beta", "bootstrap"], "n_resamples": 30, "keep_replicates": True}
    result = ap.evaluate(DATA, **options)
    assert result["estimate"].dims == ("model", "repeat")
    ap.save_scores(DATA, tmp_path / "scores.zarr")
    stored = ap.open_scores(tmp_path / "scores.zarr")
    np.testing.assert_array_equal(stored["fold"], DATA["fold"])
    xr.testing.assert_equal(ap.evaluate(stored, **options).compute(), result)
    by_fold = ap.evaluate(DATA, by="fold", interval=[])
    for repeat in range(4):
        alone = DATA.isel(repeat=repeat)
        xr.testing.assert_equal(ap.evaluate(alone, **options), result.isel(repeat=repeat))
        folds = ap.evaluate(alone, by="fold", interval=[])
        np.testing.assert_array_equal(by_fold["estimate"][repeat], folds["estimate"])


def test_variances_of_items_and_of_training() -> None:
    stacked = DATA.drop_vars("fold").stack(both=("model", "repeat"), create_index=False)
    stacked = stacked.drop_vars(["model", "repeat"]).rename(both="model")
    covariance = ap.covariance(stacked)["covariance"].values
    weight = np.repeat([0.25, -0.25, 0], 4)  # of models and repeats, in the difference of a and b
    found = ap.covariance(DATA)
    c = found["covariance"].sel(model="a")
    ours = c.sel(other_model="a") + found["covariance"].values[1, 1] - 2 * c.sel(other_model="b")
    assert float(ours) == pytest.approx(weight @ covariance @ weight, rel=1e-9)
    compared = ap.compare(DATA).sel(model="a", other_model="b")
    each = ap.evaluate(DATA, interval=[])["estimate"]
    apart = (each.sel(model="a") - each.sel(model="b")).values
    training = apart.var(ddof=1) * (1 / 4 + 5 - 1)
    items = float(found["difference_variance"].sel(model="a", other_model="b"))
    assert float(compared["difference"]) == pytest.approx(apart.mean(), abs=1e-15)
    assert float(compared["standard_error"]) == pytest.approx(np.sqrt(items + training), rel=1e-12)
    assert float(compared["training_share"]) == pytest.approx(training / (items + training), rel=1e-12)
    assert "means of 4 repeats, 5 folds each, whose training varies, too" in compared.attrs["design"]
    seeds = ap.compare(DATA.drop_vars("fold")).sel(model="a", other_model="b")  # the same training, other seeds
    assert float(seeds["standard_error"]) == pytest.approx(np.sqrt(items + apart.var(ddof=1) / 4), rel=1e-12)
    kept = ap.evaluate(DATA, interval="bootstrap", keep_replicates=True)
    by_replicates = ap.compare(kept).sel(model="a", other_model="b")
    assert float(by_replicates["standard_error"]) == pytest.approx(float(compared["standard_error"]), rel=0.05)
    assert ap.gate(DATA, "b", "a").difference == pytest.approx(-apart.mean())
    with pytest.raises(InvalidInputError, match="pass the scores in place of the result"):
        ap.compare(without_its_scores(ap.evaluate(DATA)))
    xr.testing.assert_equal(ap.compare(ap.evaluate(DATA)), ap.compare(DATA))


def test_means_over_repeats_say_what_varies() -> None:
    result = ap.evaluate(DATA)
    mean, of_items = ap.aggregate(result), ap.aggregate(result, over="items")
    np.testing.assert_allclose(mean["estimate"], result["estimate"].mean("repeat"), rtol=1e-12)
    np.testing.assert_allclose(of_items["standard_error"], result["standard_error"].mean("repeat"), rtol=1e-12)
    np.testing.assert_allclose(mean["training_error"] ** 2, result["estimate"].var("repeat", ddof=1) * (0.25 + 4))
    np.testing.assert_allclose(mean["standard_error"] ** 2, mean["items_error"] ** 2 + mean["training_error"] ** 2)
    assert mean.attrs["design"] == "mean of 4 repeats; sample: the items, and training on them"
    assert of_items.attrs["design"] == "mean of 4 repeats; sample: the items; fixed: the training"
    assert (of_items["interval"][:, 0] > mean["interval"][:, 0]).all()
    with pytest.raises(InvalidInputError, match="are no sample"):
        ap.aggregate(result, over="query")


@pytest.mark.parametrize("case", oracle("nadeau_bengio"), ids=lambda case: f"{case['first']} {case['second']}")
def test_corrected_test_of_folds(case: dict[str, Any]) -> None:
    apart = np.array(case["fold_differences_first_minus_second"]).reshape(3, 5)
    areas = xr.Dataset(
        {"estimate": (("model", "repeat", "fold"), np.stack([apart, np.zeros((3, 5))]))}, {"model": ["first", "second"]}
    )
    found = ap.compare(areas, "second").sel(model="first")
    assert found.attrs["method"] == "corrected_t"
    names = {"difference": "mean", "standard_error": "corrected_se", "p_value": "p_two_sided", "interval": "ci95"}
    for ours, theirs in names.items():
        np.testing.assert_allclose(found[ours], case[theirs], rtol=1e-9)


def test_folds_of_scores_are_compared_by_the_corrected_test() -> None:
    found = ap.compare(DATA, method="corrected_t")
    areas = ap.evaluate(DATA, by="fold", interval=[])
    np.testing.assert_array_equal(ap.compare(areas)["p_value"], found["p_value"])
    apart = (areas["estimate"].sel(model="a") - areas["estimate"].sel(model="b")).values.ravel()
    t = apart.mean() / np.sqrt(apart.var(ddof=1) * (1 / 20 + 1 / 4))
    assert float(found["p_value"].sel(model="a", other_model="b")) == pytest.approx(2 * stats.t.sf(abs(t), 19))
    for method in ("sign_flip", "t", "wilcoxon", "bootstrap"):
        with pytest.raises(InvalidInputError, match="corrected_t") as raised:
            ap.compare(areas, method=method)
        assert "over (model, repeat, item), with 'fold'" in str(raised.value)


def test_training_counts_in_comparisons_over_data_sets() -> None:
    parts = {f"d{seed}": repeated(seed=seed) for seed in range(5)}
    found = ap.compare(xr.DataTree.from_dict(parts), over="dataset").sel(model="a", other_model="b")
    once = xr.DataTree.from_dict({name: part.isel(repeat=0) for name, part in parts.items()})
    assert found.attrs["method"] == "random_effects"
    assert found["tau"] <= ap.compare(once, over="dataset").sel(model="a", other_model="b")["tau"] + 0.02


def test_means_over_data_sets_are_those_of_means_over_repeats() -> None:
    tree = xr.DataTree.from_dict({name: ap.evaluate(repeated(seed=seed)) for seed, name in enumerate("wxyz")})
    mean = ap.aggregate(tree, over="dataset")
    alone = [node["estimate"].mean("repeat") for node in tree.children.values()]
    np.testing.assert_allclose(mean["estimate"], np.mean(alone, axis=0), rtol=1e-14)
    np.testing.assert_array_equal(mean["estimate"], ap.compare(tree, over="dataset", method="t")["estimate"])
    assert "b      " in repr(mean.aucpr)  # a table


@pytest.mark.parametrize("keep_replicates", [False, True])
def test_means_of_repeats_keep_every_flag_and_name_their_own_interval(tmp_path: Path, keep_replicates: bool) -> None:
    hard = DATA.copy(deep=True)
    hard["score"][0, 1] = hard["score"][0, 1] > 0.5  # one model, in one repeat
    hard["score"][0, 1] = np.where(hard["label"], hard["score"][0, 1], 1.0)
    interval = "bootstrap" if keep_replicates else None
    result = ap.evaluate(hard, interval=interval, keep_replicates=keep_replicates, n_resamples=100)
    mean = ap.aggregate(result)
    assert mean["interval_method"].item() == mean.attrs["method"] == "logit"
    assert {"logit_lower", "logit_upper"} < {*mean.aucpr.to_dataframe().columns}
    expected = np.bitwise_or.reduce(result["flags"].values, axis=1)
    np.testing.assert_array_equal(mean["flags"], expected)
    assert expected.astype(bool).tolist() == [True, False, False]
    for scores in (None, hard):
        text = ap.report(result, tmp_path / "page.html", scores=scores, overwrite=True).read_text(encoding="utf-8")
        assert "mean over 4 repeats of a cross-validation" in text
        assert "one ranking." not in text
        assert "Hard scores, 1 of 3 models, in some repeat" in text
        assert "influence beta" not in text.partition("<h2")[2].partition("<script")[0]
