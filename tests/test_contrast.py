"""Contrasts between groups: against hand computation, Welch's test and simulations."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy import stats
from test_repeats import repeated

import aucpr_dask as ap
from aucpr_dask.errors import InvalidInputError
from aucpr_dask.inference.contrasting import contrast_rows

SITES = np.array(["Bern", "Graz", "Lund"], object)


def sample(seed: int = 0, n: int = 600, shift: float = 0.5) -> xr.Dataset:
    """Two models and three sites; the second model is worse in Lund."""
    rng = np.random.default_rng(seed)
    site = SITES[rng.integers(3, size=n)]
    label = (rng.random(n) < 0.2).astype(np.int8)
    score = rng.normal(size=(2, n)) + np.stack([1.5 * label, np.where(site == "Lund", shift, 1.8) * label])
    coords = {"model": np.array(["old", "new"], object), "site": ("item", site)}
    return xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)}, coords)


def test_a_contrast_is_that_of_haldanes_areas_with_moderated_variances() -> None:
    scores = sample()
    found = ap.contrast(scores, "site", reference="Bern")
    apart = ap.evaluate(scores, ["average_precision", "haldane"], (), by="site").sel(estimator="haldane")
    area, error, n = apart["estimate"], apart["standard_error"], apart["n_positive"]
    for model in ("old", "new"):
        for site in ("Graz", "Lund"):
            pair = [
                (
                    one.sel(model=model, site=of).item(),
                    error.sel(model=model, site=of).item() ** 2,
                    n.sel(model=model, site=of).item() if "model" in n.dims else n.sel(site=of).item(),
                )
                for of in (site, "Bern")
                for one in [area]
            ]
            mean = np.mean([value for value, *_ in pair])
            variances = [((k - 1) * square + 10 * mean * (1 - mean) / k) / (k + 9) for _, square, k in pair]
            degrees = sum(variances) ** 2 / sum(v**2 / (k + 9) for v, (*_, k) in zip(variances, pair, strict=True))
            here, spread = found.sel(model=model, site=site), np.sqrt(sum(variances))
            difference = pair[0][0] - pair[1][0]
            assert here["difference"].item() == pytest.approx(difference, rel=1e-12)
            assert here["standard_error"].item() == pytest.approx(spread, rel=1e-12)
            assert here["p_value"].item() == pytest.approx(2 * stats.t.sf(abs(difference) / spread, degrees), rel=1e-9)
            half = stats.t.ppf(0.975, degrees) * spread
            np.testing.assert_allclose(here["interval"], [difference - half, difference + half], rtol=1e-9)
            half = stats.t.ppf(1 - 0.025 / 4, degrees) * spread  # two models in two groups
            np.testing.assert_allclose(here["simultaneous_interval"], [difference - half, difference + half], rtol=1e-9)
    shown = ap.evaluate(scores, interval=(), by="site")
    np.testing.assert_array_equal(found["estimate"], shown["estimate"].transpose("model", "site"))
    assert found.attrs["family_size"] == 4
    assert "shown: new is worse in Lund than in Bern (-0." in found.attrs["summary"]
    assert "of the items" not in found.attrs["summary"]


def test_all_pairs_of_groups_are_those_with_each_reference() -> None:
    scores = sample(1)
    every = ap.contrast(scores, "site", adjust="none")
    for reference in SITES:
        one = ap.contrast(scores, "site", reference=reference, adjust="none")
        for name in ("difference", "standard_error", "p_value", "interval"):
            there = every[name].sel(other_site=reference).drop_vars("other_site")
            np.testing.assert_array_equal(there.transpose(*one[name].dims).values, one[name].values, err_msg=name)
    turned = every["difference"].rename(site="other_site", other_site="site")
    np.testing.assert_array_equal(-turned.transpose(*every["difference"].dims), every["difference"])
    assert every.attrs["family_size"] == 6


def test_a_difference_from_a_baseline_has_the_variance_of_a_comparison() -> None:
    scores = sample(2)
    found = ap.contrast(scores, "site", reference="Bern", baseline="old").sel(model="new", site="Lund")
    alone = [
        ap.covariance(scores.isel(item=np.flatnonzero(scores["site"] == site)), "haldane") for site in ("Lund", "Bern")
    ]
    values = [one["estimate"].sel(model="new").item() - one["estimate"].sel(model="old").item() for one in alone]
    variances = [one["difference_variance"].sel(model="new", other_model="old").item() for one in alone]
    assert found["difference"].item() == pytest.approx(values[0] - values[1], rel=1e-12)
    assert found["standard_error"].item() == pytest.approx(np.sqrt(sum(variances)), rel=1e-12)
    assert np.isnan(ap.contrast(scores, "site", reference="Bern", baseline="old")["p_value"].sel(model="old")).all()


def test_missing_scores_of_another_model_change_no_contrast() -> None:
    scores = sample(3)
    third = scores.isel(model=[1]).assign_coords(model=np.array(["third"], object))
    third["score"][0, ::2] = np.nan
    both = xr.concat([scores, third], "model", data_vars="minimal")
    options: dict[str, Any] = {"reference": "Bern", "baseline": "old", "missing": "drop", "adjust": "none"}
    found, alone = ap.contrast(both, "site", **options), ap.contrast(scores, "site", **options)
    for name in ("difference", "standard_error", "p_value", "interval"):
        np.testing.assert_array_equal(found[name].sel(model="new"), alone[name].sel(model="new"))
    assert np.isfinite(found["p_value"].sel(model="third", site="Graz").item())


def test_clusters_in_both_groups_pair_them() -> None:
    rng = np.random.default_rng(4)
    n = 300  # patients, each with an item in both groups, whose scores are nearly the same
    label, effect = (rng.random(n) < 0.3).astype(np.int8), rng.normal(size=n)
    score = np.concatenate([effect + 1.5 * label + 0.1 * rng.normal(size=n) for _ in range(2)])
    variables = {"score": (("model", "item"), score[None]), "label": ("item", np.tile(label, 2))}
    coords = {"model": ["a"], "eye": ("item", np.repeat(["left", "right"], n))}
    scores = xr.Dataset(variables | {"cluster": ("item", np.tile(np.arange(n), 2))}, coords)
    paired = ap.contrast(scores, "eye", reference="left").sel(eye="right")
    apart = ap.contrast(scores, "eye", reference="left", over="items").sel(eye="right")
    assert paired["standard_error"].item() < 0.4 * apart["standard_error"].item()
    assert "clusters in two groups pair them" in paired.attrs["design"]
    own = scores.assign(cluster=("item", np.arange(2 * n)))
    np.testing.assert_allclose(
        ap.contrast(own, "eye", reference="left").sel(eye="right")["standard_error"], apart["standard_error"], rtol=0.05
    )


def test_groups_of_queries_are_contrasted_by_welch() -> None:
    rng = np.random.default_rng(5)
    values = rng.random((2, 30))
    kind = np.array(["long"] * 12 + ["short"] * 18, object)
    result = xr.Dataset(
        {"estimate": (("model", "query"), values)}, {"model": ["a", "b"], "kind": ("query", kind), "query": range(30)}
    )
    found = ap.contrast(result, "kind", reference="long").sel(kind="short")
    theirs = stats.ttest_ind(values[:, 12:], values[:, :12], axis=1, equal_var=False)
    np.testing.assert_allclose(found["p_value"], theirs.pvalue, rtol=1e-12)
    interval = theirs.confidence_interval()
    np.testing.assert_allclose(found["interval"], np.stack([interval.low, interval.high], -1), rtol=1e-10)
    of_b = ap.contrast(result, "kind", reference="long", baseline="a").sel(kind="short", model="b")
    difference = values[1] - values[0]
    expected = stats.ttest_ind(difference[12:], difference[:12], equal_var=False).pvalue
    assert of_b["p_value"].item() == pytest.approx(expected, rel=1e-12)


def test_repeats_add_the_variance_of_training_that_both_groups_share(tmp_path: Path) -> None:
    scores = repeated(300).assign_coords(site=("item", np.resize(SITES[:2], 300)))
    ap.save_scores(scores, tmp_path / "s.zarr")
    each = [scores.isel(item=np.flatnonzero(scores["site"] == site)) for site in SITES[:2]]
    for baseline in (None, "a"):
        found = ap.contrast(ap.open_scores(tmp_path / "s.zarr"), "site", reference="Bern", baseline=baseline)
        here = found.sel(model="b", site="Graz")
        areas = [ap.estimate(one["score"], one["label"], "haldane") for one in each]  # (model, repeat)
        rows = [one.sel(model="b") - (one.sel(model="a") if baseline else 0) for one in areas]
        apart = (rows[1] - rows[0]).values
        without = ap.contrast(scores.drop_vars("fold"), "site", reference="Bern", baseline=baseline)
        items = without.sel(model="b", site="Graz")["standard_error"].item() ** 2 - apart.var(ddof=1) / 4
        of_training = apart.var(ddof=1) * (1 / 4 + 5 - 1)
        assert here["difference"].item() == pytest.approx(apart.mean(), abs=1e-14)
        assert here["standard_error"].item() == pytest.approx(np.sqrt(items + of_training), rel=1e-12)
        assert "means of 4 repeats, 5 folds each, whose training varies, too" in found.attrs["design"]
        if baseline:
            variances = [ap.covariance(one, "haldane")["difference_variance"].values[1, 0] for one in each]
            assert items == pytest.approx(sum(variances), rel=1e-12)
    alone = ap.contrast(scores.isel(repeat=[0]), "site", reference="Bern")
    plain = ap.contrast(scores.isel(repeat=0, drop=True).drop_vars("fold"), "site", reference="Bern")
    np.testing.assert_array_equal(alone["standard_error"], plain["standard_error"])


def test_data_sets_of_a_tree_and_the_long_form_are_the_same_groups(tmp_path: Path) -> None:
    scores = sample(6)
    tree = ap.to_tree(scores, "site")
    by_tree = ap.contrast(tree, "dataset", reference="Graz")
    ap.save_scores(scores, tmp_path / "s.zarr")
    for one in (scores, ap.open_scores(tmp_path / "s.zarr"), scores.chunk({"model": 1})):
        found = ap.contrast(one, "site", reference="Graz")
        for name in ("difference", "standard_error", "p_adjusted", "simultaneous_interval"):
            np.testing.assert_array_equal(found[name], by_tree[name])


@pytest.mark.parametrize("options", [{}, {"missing": "last", "prevalence_design": "fixed"}, {"estimator": "haldane"}])
def test_a_result_is_contrasted_by_its_scores(options: dict[str, Any], tmp_path: Path) -> None:
    scores = sample(9, 300)
    expected = ap.contrast(scores, "site", **options)
    ap.save_scores(scores, tmp_path / "s.zarr")
    ap.run(tmp_path / "s.zarr", tmp_path / "r.zarr", by="site", **options)
    for result in (
        ap.evaluate(scores, by="site", **options),
        ap.evaluate(scores, **options),
        ap.open_result(tmp_path / "r.zarr"),
    ):
        found = ap.contrast(result, "site")
        xr.testing.assert_equal(found, expected)
        assert found.attrs["design"] == expected.attrs["design"]
    with pytest.raises(InvalidInputError, match=r"no influence function[\s\S]*no_positives='zero', ties='exp"):
        ap.contrast(ap.evaluate(scores, no_positives="zero", ties="expectation", interval=()), "site")
    years = scores.assign_coords(year=("item", np.arange(300) % 2))
    with pytest.raises(InvalidInputError, match=r"other groups, too[\s\S]*'site', 'year'"):
        ap.contrast(ap.evaluate(years, by=["site", "year"]), "site")


def test_it_is_said_where_prevalence_differs_and_which_groups_have_no_answer() -> None:
    scores = sample(7)
    scores["label"][np.flatnonzero(scores["site"] == "Graz")[::2]] = 0
    found = ap.contrast(scores, "site", reference="Bern")
    assert "prevalence differs (0.1" in found.attrs["summary"]
    at_one = ap.contrast(scores, "site", reference="Bern", prevalence=0.1)
    assert "prevalence differs" not in at_one.attrs["summary"]
    assert at_one.attrs["prevalence"] == 0.1
    scores["label"][np.flatnonzero(scores["site"] == "Graz")] = 0
    found = ap.contrast(scores, "site", reference="Bern")
    assert found.attrs["groups_left_out"] == "Graz"
    assert "without an answer: Graz" in found.attrs["summary"]
    assert found["p_value"].sel(site="Graz").isnull().all()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"by": "site", "reference": "Wien"}, InvalidInputError, r"none of the groups[\s\S]*'Wien'[\s\S]*Bern, Graz"),
        ({"by": "site", "baseline": "forest"}, InvalidInputError, "forest"),
        ({"by": "site", "estimator": "discrete"}, InvalidInputError, "influence"),
        ({"by": "town"}, InvalidInputError, "town"),
        ({"by": "site", "over": "queries"}, InvalidInputError, "over"),
        ({"by": "site", "adjust": "max_t"}, InvalidInputError, "adjust"),
        ({"by": "site", "level": 95}, InvalidInputError, "level"),
    ],
)
def test_wrong_questions_are_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ap.contrast(sample(8, 150), **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second", "shift"),
    [((10, 100), (100, 1000), 1.5), ((5, 200), (60, 2400), 2.0)],
)
def test_equal_groups_are_rarely_told_apart(first: tuple[int, int], second: tuple[int, int], shift: float) -> None:
    rng, n_samples = np.random.default_rng(9), 400
    label = np.concatenate([np.arange(size) < positives for positives, size in (first, second)]).astype(np.int8)
    group = np.repeat([0, 1], [first[1], second[1]])
    score = rng.normal(size=(n_samples, label.size)) + shift * label
    samples = {str(i): one for i, one in enumerate(score)}  # each the answer of a model
    found = ap.contrast(samples, label, by={"group": group}, reference=0, prevalence_design="fixed")
    p_value = found["p_value"].sel(group=1)
    assert p_value.size == n_samples
    assert (p_value <= 0.05).mean() <= 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / n_samples)


@pytest.mark.parametrize("reference", [None, "Bern"])
def test_labels_of_other_dimensions_have_contrasts_of_their_own_in_one_family(reference: str | None) -> None:
    random = np.random.default_rng(5)
    label = xr.DataArray(random.random(600) < 0.3, dims="day")
    label = label.assign_coords(site=("day", np.resize(["Bern", "Graz", "Lund"], 600)))
    skill = xr.DataArray([[1.0, 2.0], [1.5, 0.5]], {"model": ["a", "b"], "lead": [6, 24]})
    score = skill * label * xr.where(label.site == "Lund", 0.3, 1.0) + random.normal(size=(2, 2, 600))
    asked: dict[str, Any] = {"by": "site", "dim": "day", "reference": reference}
    found = ap.contrast(score, label, **asked)
    least = found["p_value"].min().item()
    n_contrasts = 2 * 2 * (2 if reference else 3)  # models, leads, pairs of sites
    assert found.attrs["family_size"] == n_contrasts
    assert found["p_adjusted"].min().item() == pytest.approx(n_contrasts * least)  # Holm's first step
    for lead in (6, 24):
        alone = ap.contrast(score.sel(lead=lead), label, **asked)
        here = found.sel(lead=lead)
        for name in ("difference", "standard_error", "interval", "p_value"):
            np.testing.assert_array_equal(here[name], alone[name])
            assert here[name].dims == alone[name].dims


def test_a_row_of_the_picture_for_each_contrast() -> None:
    scores = sample(10, 300)
    for answer, labels in (
        (ap.contrast(scores, "site"), {"Bern \u2212 Lund, new", "Bern \u2212 Graz, old"}),
        (ap.contrast(scores, "site", reference="Bern", baseline="old"), {"Graz, new", "Lund, new"}),
    ):
        axes = answer.aucpr.plot()
        shown = [label.get_text() for label in axes.get_yticklabels()]
        assert len(shown) == len(contrast_rows(answer)) == answer.attrs["family_size"]
        assert labels <= set(shown)
        over = " over old" * ("baseline" in answer.attrs)
        assert axes.get_xlabel().startswith(f"difference in average precision{over} from ")


def test_labels_of_a_dimension_are_contrasted_as_groups_of_items() -> None:
    random = np.random.default_rng(0)
    label = xr.DataArray(random.random(300) < 0.3, dims="case")
    gain = xr.DataArray([3.0, 1.0, 0.0], {"lead": [6, 24, 72]})
    score = (gain * label + xr.DataArray(random.normal(size=(3, 300)), dims=("lead", "case"))).expand_dims(model=["a"])
    found = [
        ap.contrast(score, "lead", label=label, dim=["case", "lead"]),
        ap.contrast(score, by="lead", label=label, dim=["case", "lead"]),
        ap.contrast(xr.Dataset({"score": score, "label": label}), "lead", dim=["case", "lead"]),
    ]
    for one in found[1:]:
        xr.testing.assert_identical(one["difference"], found[0]["difference"])
    assert "a is better in lead 6 than in lead 24" in found[0].attrs["summary"]


def test_what_models_and_groups_lack_is_said() -> None:
    random = np.random.default_rng(0)
    site = np.array(["w", "x", "y"])[random.integers(3, size=600)]
    label = (random.random(600) < 0.3).astype("int8")
    score = random.normal(size=(3, 600)) + label * np.array([[0.5], [0.8], [1.0]])
    score[2, site == "w"] = np.nan
    score[1, np.flatnonzero(site == "x")[:10]] = np.nan
    variables = {"score": (("model", "item"), score), "label": ("item", label)}
    scores = xr.Dataset(variables, {"model": list("abc"), "site": ("item", site)})
    answer = ap.contrast(scores, "site", missing="drop")
    gaps = f"'c' lacks {np.sum(site == 'w')} items in w, 'b' lacks 10 items in x"
    assert answer.attrs["gaps"] == gaps
    assert answer.attrs["summary"].endswith(gaps)
    values = random.random((2, 12))
    values[1, 2] = np.nan
    languages = ("query", ["de"] * 6 + ["en"] * 5 + ["fr"])
    queries = xr.Dataset({"estimate": (("model", "query"), values)}, {"model": ["a", "b"], "lang": languages})
    of_queries = ap.contrast(queries, "lang")
    assert of_queries.attrs["groups_left_out"] == "fr"  # one query shows no variance
    assert of_queries.attrs["gaps"] == "1 query of de without an estimate of every model"


@pytest.mark.slow
@pytest.mark.parametrize(("adjust", "why"), [("holm", "adjusted step by step"), ("none", "not adjusted")])
def test_a_contrast_beside_an_interval_that_contains_0_is_explained(adjust: str, why: str) -> None:
    random = np.random.default_rng(7)
    site, label = np.repeat(list("abcd"), 500), random.random(2000) < 0.2
    found = []
    for loss in np.linspace(0.3, 0.7, 40):
        score = random.normal(size=2000) + label * np.where(site == "d", 1.6 - loss, 1.6)
        data = xr.Dataset({"score": (("model", "item"), score[None]), "label": ("item", label)}, {"model": ["m"]})
        answer = ap.contrast(data.assign_coords(site=("item", site)), "site", reference="a", adjust=adjust)
        lower, upper = answer["simultaneous_interval"].transpose("ci_bound", ...)
        beside = int(((answer["p_adjusted"] <= 0.05) & (lower <= 0) & (upper >= 0)).sum())
        said = re.search(
            r"intervals of (\d+) that are shown contain 0: p-values are (.*?);", answer.attrs["summary"] + ";"
        )
        assert (said is None) == (beside == 0)
        found += [] if said is None else [(int(said[1]), beside, said[2])]
    assert found
    assert all(one == beside and said.startswith(why) for one, beside, said in found)
