"""Structures that meet: every answer about all labels and groups equals the answers about each of them alone."""

import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from conftest import ok

import aucpr_dask as ap
from aucpr_dask.errors import InvalidInputError

pytestmark = [pytest.mark.filterwarnings("ignore::aucpr_dask.errors.FewPositivesWarning")]

MODELS, LEADS, SITES = list("abc"), [24, 48], "xy"
ROLES = {"query": 9, "class": 3, "repeat": 3}
SHOWN = {"show": [], "aggregate": [], "compare": ["--baseline", "a"], "rank": [], "power": [], "table": []}
ASKED: dict[str, tuple[Callable[..., xr.Dataset], tuple[str, ...]]] = {
    "evaluate": (ap.evaluate, ("estimate", "interval", "standard_error", "n_positive", "flags")),
    "compare": (lambda data, **o: ap.compare(data, "a", **o), ("difference", "standard_error", "p_value", "interval")),
    "rank": (ap.rank, ("estimate", "rank_interval")),
    "power": (lambda data, **o: ap.power(data, "a", **o), ("detectable",)),
    "aggregate": (ap.aggregate, ("estimate", "standard_error", "interval")),
    "covariance": (ap.covariance, ("estimate", "covariance", "difference_variance", "degrees")),
}


def drawn(
    seed: int,
    structure: str,
    *,
    is_kept: bool = False,
    has_clusters: bool = False,
    has_weights: bool = False,
    is_missing: bool = False,
    has_groups: bool = False,
    is_soft: bool = False,
    has_folds: bool = False,
    has_unseen: bool = False,
) -> xr.Dataset:
    """Draw scores with some structures, rounded so that some tie."""
    random = np.random.default_rng(seed)
    sizes = {"model": 3} | ({"lead": 2} if is_kept else {}) | ({structure: ROLES[structure]} if structure else {})
    n = int(random.integers(60, 120))
    of_label = [dim for dim in sizes if dim not in ("model", "repeat")]
    label = xr.DataArray((random.random((*(sizes[dim] for dim in of_label), n)) < 0.35), dims=(*of_label, "item"))
    label = label.astype("int8")
    label[..., 0], label[..., 1] = 1, 0
    noise = xr.DataArray(random.normal(size=(*sizes.values(), n)).round(1), dims=(*sizes, "item"))
    score = (noise + label * xr.DataArray([1.0, 0.8, 0.3], dims="model")).transpose(*sizes, "item")
    if is_missing:
        score = score.where(xr.DataArray(random.random(score.shape) > 0.06, dims=score.dims))
    coords: dict[str, Any] = {"model": MODELS, "item": [f"i{place:03d}" for place in range(n)]}
    coords |= {"lead": LEADS} if is_kept else {}
    coords |= {structure: [f"{structure}{place}" for place in range(ROLES[structure])]} if structure else {}
    if has_groups:
        coords["site"] = ("item", np.resize(list("xxy"), n))
    scores = xr.Dataset({"score": score, "label": label}, coords)
    if has_clusters and structure == "query":
        scores["cluster"] = ("query", list("ppqqrrstt"))
    elif has_clusters:
        scores["cluster"] = ("item", np.arange(n) // 4)
    if has_weights:
        scores["weight"] = ("item", random.uniform(0.5, 1.5, n))
    if is_soft:
        share = 0.6 * label + xr.DataArray(random.choice([0.0, 0.1, 0.4], label.shape), dims=label.dims)
        scores = scores.drop_vars("label").assign(positive_weight=share, negative_weight=1 - share)
    if has_folds:
        folds = {"query": np.arange(9) % 3, "repeat": np.stack([random.permutation(n) % 5 for _ in range(3)])}
        dims = {"query": ("query",), "repeat": ("repeat", "item")}
        scores["fold"] = dims.get(structure, ("item",)), folds.get(structure, np.arange(n) % 5)
    if has_unseen:
        scores["n_positive"] = label.sum("item") + 2
    return scores


def parts(scores: xr.Dataset) -> list[tuple[dict[str, Any], xr.Dataset]]:
    """Return each label and group, and what stands alone there."""
    leads = [{"lead": lead} for lead in LEADS] if "lead" in scores.dims else [{}]
    sites = [{"site": site} for site in SITES] if "site" in scores.coords else [{}]
    found = []
    for lead, site in product(leads, sites):
        alone = scores.sel(lead)
        if site:
            alone = alone.isel(item=np.flatnonzero(alone["site"] == site["site"]))
        found.append((lead | site, alone.drop_vars(["lead", "site"], errors="ignore")))
    return found


def cases() -> list[Any]:
    """Return every pair of structures, with and without missing scores, and some of three and more."""
    names = ("is_kept", "has_clusters", "has_weights", "has_groups", "is_soft", "has_folds", "has_unseen")
    random, found = np.random.default_rng(8), []
    for seed, (structure, one, other) in enumerate(product(["", *ROLES], names, names)):
        if one >= other:
            continue
        given = {one: True, other: True, "is_missing": bool(seed % 2)}
        given |= {name: True for name in names if random.random() < 0.2}
        words = [structure or "items", *(name.partition("_")[2] for name, on in given.items() if on)]
        marks = [] if len(found) % 11 == 0 else [pytest.mark.slow, pytest.mark.nightly]
        found.append(pytest.param(seed, structure, given, id="-".join(words), marks=marks))
    return found


def excluded(given: dict[str, bool], structure: str) -> str:
    """Return a pattern of the words in which what exclude each other are refused; empty if none do."""
    has = {name for name, on in given.items() if on}
    words = ["multiply them"] if {"is_soft", "has_weights"} <= has else []
    if "has_unseen" in has:
        words += ["with classes, all positives must be items"] if structure == "class" else []
        words += ["n_positive has no meaning with weights"] if {"is_soft", "has_weights"} & has else []
        words += ["n_positive counts the positives of a whole ranking"] if "has_groups" in has else []
        words += ["belong to no cluster"] if "has_clusters" in has and structure != "query" else []
    return "|".join(words)


def answer_or_refusal(ask: Callable[..., Any], scores: xr.Dataset, **options: Any) -> tuple[xr.Dataset | None, str]:
    """Return the answer, or the words in which it is refused."""
    try:
        return ask(scores, **options), ""
    except InvalidInputError as error:
        return None, str(error).splitlines()[0]


@pytest.mark.parametrize(("seed", "structure", "given"), cases())
@pytest.mark.parametrize("question", ASKED)
def test_whole_answers_are_those_of_each_part(question: str, seed: int, structure: str, given: dict[str, bool]) -> None:
    ask, names = ASKED[question]
    if question == "aggregate" and not structure:
        return  # a mean needs units
    if question == "covariance" and given.get("has_groups"):
        return  # it has no groups
    scores = drawn(seed, structure, **given)
    options: dict[str, Any] = {"missing": ("drop", "last")[seed // 2 % 2]} if given["is_missing"] else {}
    if question == "aggregate" and structure == "class":
        options["over"] = "class"
    by = {"by": "site"} if given.get("has_groups") else {}
    if words := excluded(given, structure):
        with pytest.raises(InvalidInputError, match=words):
            ask(scores, **options, **by)
        return
    whole, refused = answer_or_refusal(ask, scores, **options, **by)
    for place, part in parts(scores):
        alone, refused_alone = answer_or_refusal(ask, part, **options)
        assert refused == refused_alone
        for name in names if whole is not None and alone is not None else ():
            if name not in alone:
                assert name not in whole
                continue
            found = whole[name].sel(place).transpose(*alone[name].dims)
            np.testing.assert_array_equal(found.values, alone[name].values, err_msg=f"{name} at {place}")


@pytest.mark.parametrize(("seed", "structure", "given"), cases())
def test_estimates_are_those_of_plain_calls(seed: int, structure: str, given: dict[str, bool]) -> None:
    scores = drawn(seed, structure, **given)
    if excluded(given, structure):  # as the test above holds
        return
    missing = "drop" if given["is_missing"] else "raise"
    found = ap.evaluate(scores, missing=missing, interval=(), **({"by": "site"} if given.get("has_groups") else {}))
    names = ("label", "weight", "positive_weight", "negative_weight", "n_positive")
    roles = [name for name in names if name in scores]
    for place, part in parts(scores):
        estimate = found["estimate"].sel(place)
        lead = [dim for dim in part["score"].dims if dim != "item"]
        for at in product(*(part.indexes[dim] for dim in lead)):
            one = dict(zip(lead, at, strict=True))
            ranking = part[["score", *roles]].sel(one)
            kept = ranking["score"].notnull().values
            plain = {name: ranking[name].values[kept] if ranking[name].ndim else int(ranking[name]) for name in roles}
            expected = ap.estimate(ranking["score"].values[kept], plain.pop("label", None), **plain)
            np.testing.assert_array_equal(estimate.sel(one), expected)


@pytest.mark.parametrize(("one", "other"), [("query", "class"), ("query", "repeat"), ("class", "repeat")])
def test_two_of_queries_classes_and_repeats_are_refused_with_the_remedy(one: str, other: str) -> None:
    scores = drawn(0, one)
    noise = xr.DataArray(np.random.default_rng(1).normal(size=(2, scores.sizes["item"])), dims=(other, "item"))
    both = scores.assign(score=scores["score"] + noise)
    with pytest.raises(InvalidInputError, match="rename"):
        ap.evaluate(both)
    renamed = ap.evaluate(both.rename({other: "case"}))
    for case in range(2):
        alone = ap.evaluate(both.isel({other: case}))
        np.testing.assert_array_equal(renamed["estimate"].isel(case=case), alone["estimate"])
        np.testing.assert_array_equal(renamed["interval"].isel(case=case), alone["interval"])


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "structure", "given"), cases()[::6])
def test_results_answer_as_their_scores_do(seed: int, structure: str, given: dict[str, bool]) -> None:
    if excluded(given, structure):  # as another test holds
        return
    scores = drawn(seed, structure, **given)
    options: dict[str, Any] = {"missing": "drop"} if given["is_missing"] else {}
    by = {"by": "site"} if given.get("has_groups") else {}
    result = ap.evaluate(scores, **options, **by)
    for question in ("compare", "rank", "power", *(["aggregate"] if structure else [])):
        ask, names = ASKED[question]
        over = {"over": "class"} if question == "aggregate" and structure == "class" else {}
        expected, found = ask(scores, **options, **by, **over), ask(result, **over)
        for name in names:
            if name in expected:
                aligned = found[name].transpose(*expected[name].dims)
                np.testing.assert_allclose(aligned, expected[name], rtol=1e-9, err_msg=f"{question} {name}")


def forms_of_cases() -> list[Any]:
    """Return some cases in every form, of which the first is quick."""
    found = []
    for form in ("lazy", "in chunks of items", "stored", "shuffled", "grid"):
        for place, case in enumerate(cases()[::6]):
            marks = case.marks or [pytest.mark.slow] * (place > 0)
            found.append(pytest.param(form, *case.values, id=f"{form}-{case.id}", marks=marks))
    return found


@pytest.mark.parametrize(("form", "seed", "structure", "given"), forms_of_cases())
def test_forms_of_the_same_scores_have_the_same_answers(
    form: str, seed: int, structure: str, given: dict[str, bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if excluded(given, structure):  # as another test holds
        return
    scores = drawn(seed, structure, **given)
    options: dict[str, Any] = {"missing": "drop"} if given["is_missing"] else {}
    options |= {"by": "site"} if given.get("has_groups") else {}
    of_grid: dict[str, Any] = {}
    if form == "lazy":
        other = scores.chunk(model=2, item=-1, **({structure: ROLES[structure] - 1} if structure else {}))
    elif form == "in chunks of items":
        monkeypatch.setattr("aucpr_dask.evaluation.mapping.WORTH_TWO_PASSES", 0)
        other = scores.chunk(model=2, item=17)
    elif form == "stored":
        ap.save_scores(scores, tmp_path / "scores.zarr")
        other = ap.open_scores(tmp_path / "scores.zarr")
    elif form == "grid":
        scores = scores.isel(item=slice(scores.sizes["item"] // 2 * 2))
        items = pd.MultiIndex.from_product([range(2), range(scores.sizes["item"] // 2)], names=["y", "x"])
        other = scores.drop_vars("item").assign_coords(xr.Coordinates.from_pandas_multiindex(items, "item"))
        other, of_grid = other.unstack("item"), {"dim": ("y", "x")}
    else:
        other = scores.isel(item=np.random.default_rng(seed).permutation(scores.sizes["item"]), model=[2, 0, 1])
    for question in ("evaluate", "compare", *(["aggregate"] if structure else [])):
        ask, names = ASKED[question]
        over = {"over": "class"} if question == "aggregate" and structure == "class" else {}
        expected, found = ask(scores, **options, **over), ask(other, **options, **over, **of_grid).compute()
        for name in (*names, "p_adjusted", "simultaneous_interval"):
            if name in expected:
                aligned = found[name].sel(model=MODELS).transpose(*expected[name].dims)
                if form == "shuffled":  # sums in another order
                    np.testing.assert_allclose(aligned, expected[name], rtol=1e-7, atol=1e-10)
                else:
                    np.testing.assert_array_equal(aligned, expected[name])


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "structure", "given"), cases()[::6])
def test_data_sets_have_the_answers_of_each_alone(seed: int, structure: str, given: dict[str, bool]) -> None:
    if excluded(given, structure):  # as another test holds
        return
    nodes = {name: drawn(seed + place, structure, **given) for place, name in enumerate("uvw")}
    tree, missing = xr.DataTree.from_dict(nodes), {"missing": "drop"} if given["is_missing"] else {}
    by = ["site"] if given.get("has_groups") else []
    options: dict[str, Any] = missing | ({"by": by} if by else {})
    for question in ("evaluate", "compare"):
        ask, names = ASKED[question]
        whole = ask(tree, **options)
        for path, node in nodes.items():
            alone = ask(node, **options)
            for name in names:
                np.testing.assert_array_equal(whole[path][name].transpose(*alone[name].dims), alone[name])
    if not by:
        means = np.mean([whole[path]["difference"].transpose("model", ...).values for path in nodes], axis=0)
        over = ap.compare(tree, "a", over="dataset", **missing)
        np.testing.assert_allclose(over["difference"].transpose("model", ...), means, rtol=1e-12)
    if given.get("has_unseen"):
        with pytest.raises(InvalidInputError, match="does not lie along the items"):
            ap.to_long(tree)
        return
    of_queries = ["query"] if structure == "query" else []
    long = ap.evaluate(ap.to_long(tree), by=["dataset", *of_queries, *by], interval=(), **missing)
    for path, node in nodes.items():
        alone = ap.evaluate(node, interval=(), **options)
        found = long.sel(dataset=path).reindex_like(alone)
        for name in ("estimate", "n_positive", "flags"):
            np.testing.assert_array_equal(found[name].transpose(*alone[name].dims), alone[name])


@pytest.mark.parametrize("given", [{"is_kept": True}, {"is_soft": True}])
def test_queries_with_other_dimensions_or_soft_labels_lie_along_the_items(given: dict[str, bool]) -> None:
    nodes = {name: drawn(place, "query", **given) for place, name in enumerate("uv")}
    long = ap.evaluate(ap.to_long(xr.DataTree.from_dict(nodes)), by=["dataset", "query"], interval=())
    for path, node in nodes.items():
        alone = ap.evaluate(node, interval=())["estimate"]
        np.testing.assert_array_equal(long["estimate"].sel(dataset=path).transpose(*alone.dims), alone)


def test_queries_along_the_items_are_not_ranked_together_over_data_sets() -> None:
    random, nodes = np.random.default_rng(0), {}
    for name in "uvwxy":
        label = (random.random((4, 40)) < 0.3).astype("int8")
        score = random.normal(size=(2, 4, 40)) + label
        coords = {"model": ["a", "b"], "query": [f"q{i}" for i in range(4)]}
        dims = ("query", "item")
        nodes[name] = xr.Dataset({"score": (("model", *dims), score), "label": (dims, label)}, coords)
    tree = xr.DataTree.from_dict(nodes)
    long = ap.to_long(tree)
    expected = ap.compare(tree, "a", over="dataset")
    for ask in (ap.compare, ap.aggregate):
        with pytest.raises(InvalidInputError, match=r"ranked together(.*\n)*.*by=\['dataset', 'query'\]"):
            ask(long, over="dataset")
    found = ap.compare(ap.evaluate(long, by=["dataset", "query"]), "a", over="dataset")
    for name in ("difference", "p_value"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12)


@pytest.mark.parametrize("structure", ["", "query", "repeat"])
@pytest.mark.parametrize(
    "roles", [["weight", "cluster"], ["label", "n_positive"], ["positive_weight", "negative_weight"]]
)
def test_what_has_a_role_may_be_a_coordinate(roles: list[str], structure: str, tmp_path: Path) -> None:
    given = {
        "weight": "has_weights",
        "cluster": "has_clusters",
        "n_positive": "has_unseen",
        "positive_weight": "is_soft",
    }
    scores = drawn(3, structure, **{given[role]: True for role in roles if role in given})
    other, expected = scores.set_coords(roles), ap.evaluate(scores)
    ap.save_scores(other, tmp_path / "scores.zarr")
    ran = ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr")
    for found in (ap.evaluate(other), ap.evaluate(xr.DataTree.from_dict({"x": other}))["x"], ran):
        for name in ("estimate", "interval", "n_positive"):
            np.testing.assert_array_equal(found[name], expected[name])
    np.testing.assert_array_equal(ap.compare(other, "a")["interval"], ap.compare(scores, "a")["interval"])


@pytest.mark.parametrize("has_groups", [False, True])
def test_labels_of_another_dimension_share_their_resamples(has_groups: bool) -> None:
    tree = xr.DataTree.from_dict(
        {name: drawn(place, "", is_kept=True, has_groups=True) for place, name in enumerate("xy")}
    )
    asked: dict[str, Any] = {"by": "site"} if has_groups else {}
    of_each = {"by": ["dataset", *asked.values()]}
    answers = [ap.compare(tree, "a", method="bootstrap", **asked)["y"].to_dataset()]
    answers += [ap.compare(ap.to_long(tree), "a", method="bootstrap", **of_each).sel(dataset="y")]
    answers += [ap.compare(ap.evaluate(tree, keep_replicates=True, **asked), "a", method="bootstrap")["y"].to_dataset()]
    alone = ap.compare(tree.sel(lead=LEADS[1]), "a", method="bootstrap", **asked)["y"]
    for name in ("difference", "interval", "p_value"):
        for one in answers:
            found = one[name].sel(lead=LEADS[1]).transpose(*alone[name].dims)
            np.testing.assert_array_equal(found, alone[name], err_msg=name)


@pytest.mark.parametrize("question", ASKED)
@pytest.mark.parametrize(
    "structure", ["", "query", *(pytest.param(name, marks=pytest.mark.slow) for name in ("class", "repeat"))]
)
def test_the_scale_of_weights_changes_sums_alone(question: str, structure: str) -> None:
    # Those of a survey may be thousands, or add up to 1: rules of thumb count what the items are worth.
    ask, names = ASKED[question]
    for has_clusters, is_kept in ((False, True), (True, False)):
        scores = drawn(4, structure, has_weights=True, has_clusters=has_clusters, is_kept=is_kept)
        found = ask(scores)
        for scale in (0.001, 1000.0):
            of_scale = ask(scores.assign(weight=scores["weight"] * scale))
            for name in {*names, "flags"} & set(found) - {"n_positive"}:
                np.testing.assert_allclose(of_scale[name], found[name], rtol=1e-8, atol=1e-10, err_msg=name)
            for name in {"summary", "design"} & set(found.attrs):
                assert of_scale.attrs[name] == found.attrs[name]


@pytest.mark.parametrize("structure", ["", "repeat"])
def test_groups_have_the_clusters_of_each_label_and_the_folds_of_each_repeat(structure: str) -> None:
    scores = drawn(6, structure, is_kept=True, has_groups=True, has_folds=True, has_clusters=True)
    per_lead = scores["cluster"].expand_dims(lead=LEADS).copy()
    per_lead[1] = (per_lead[1] + np.arange(per_lead.sizes["item"]) % 7) % 10
    for own, method in ((scores.assign(cluster=per_lead), "influence_beta"), (scores, "cross_validation_t")):
        own = own if method == "influence_beta" else own.drop_vars("cluster")
        whole = ap.evaluate(own, interval=method, by="site")
        for place, part in parts(own):
            alone = ap.evaluate(part, interval=method)
            found = whole.sel(place)
            for name in {"estimate", "interval", "flags", "n_positive_clusters"} & set(alone):
                np.testing.assert_array_equal(found[name].transpose(*alone[name].dims), alone[name], err_msg=name)


@pytest.mark.parametrize("structure", ["query", "class", "repeat"])
def test_one_model_without_a_name_has_means_and_nothing_to_compare(structure: str) -> None:
    scores = drawn(7, structure, is_kept=True).isel(model=0, drop=True)
    mean, named = ap.aggregate(scores), ap.aggregate(scores.expand_dims(model=["a"]))
    xr.testing.assert_equal(mean, named.isel(model=0, drop=True))
    result = ap.evaluate(scores, keep_replicates=True, n_resamples=20)
    np.testing.assert_allclose(ap.aggregate(result)["estimate"], mean["estimate"])
    for ask in (ap.compare, ap.rank, ap.power, lambda data: ap.gate(data, "a", "b")):
        with pytest.raises(InvalidInputError, match="of one model"):
            ask(scores)
        with pytest.raises(InvalidInputError, match="of one model"):
            ask(result)


def test_repeats_that_xarray_joins_share_labels_and_weights() -> None:
    scores = drawn(5, "repeat", has_weights=True, has_folds=True)
    joined = xr.concat([scores.isel(repeat=place) for place in range(3)], "repeat", data_vars="all")
    assert joined["label"].dims == joined["weight"].dims == ("repeat", "item")
    joined = joined.assign_coords(repeat=scores["repeat"])
    xr.testing.assert_equal(ap.evaluate(joined), ap.evaluate(scores))
    xr.testing.assert_equal(ap.compare(joined, "a"), ap.compare(scores, "a"))
    other = joined.assign(label=joined["label"].where(joined["repeat"] == "repeat1", 0).astype("int8"))
    with pytest.raises(InvalidInputError, match="all repeats share it"):
        ap.evaluate(other)


def shown_cases() -> list[Any]:
    """Return every structure, with labels of another dimension and groups, or without."""
    found = []
    for (place, structure), is_kept, has_groups in product(enumerate(["", *ROLES]), (False, True), (False, True)):
        marks = [pytest.mark.slow]
        marks += [] if (place + 2 * is_kept + has_groups) % 4 == 2 else [pytest.mark.nightly]
        given = {"is_kept": is_kept, "has_groups": has_groups}
        found.append(pytest.param(structure, given, id=f"{structure or 'items'}-{is_kept}-{has_groups}", marks=marks))
    return found


@pytest.mark.parametrize(("structure", "given"), shown_cases())
def test_tables_at_the_prompt_show_each_label_and_group(
    structure: str, given: dict[str, bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scores, of_groups = drawn(2, structure, **given), ["--by", "site"] if given["has_groups"] else []
    ap.save_scores(scores, "scores.zarr")
    asked = [["evaluate", "scores.zarr", "result.zarr", *of_groups]]
    asked += [[name, "result.zarr", *options] for name, options in SHOWN.items()]
    for arguments in asked:
        told = ok(*arguments)
        assert all(re.search(rf"\b{label}\b", told.output) for part, _ in parts(scores) for label in part.values())
        assert max(map(len, told.output.splitlines())) <= 80
    ok("show", "result.zarr", "--json")


@pytest.mark.parametrize(("structure", "given"), shown_cases())
def test_a_report_shows_each_label_and_group(structure: str, given: dict[str, bool], tmp_path: Path) -> None:
    scores = drawn(2, structure, **given)
    by = {"by": "site"} if given["has_groups"] else {}
    ap.save_scores(scores, tmp_path / "scores.zarr")
    stored = ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr", **by)
    result = ap.evaluate(scores, **by)
    labels = [str(label) for dim in ("lead", "class") for label in scores.indexes.get(dim, ())] + [*SITES] * bool(by)
    for place, (one, more) in enumerate(((result, {}), (result, {"scores": scores}), (stored, {}), (scores, by))):
        page = ap.report(one, tmp_path / f"{place}.html", baseline="a", **more).read_text(encoding="utf-8")
        assert all(label in page for label in labels)
        assert ("comparisons in" in page) == bool(labels)
