"""Labelled evaluation: what results carry, laziness, alignment by label, flags, and every kind of bad input."""

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from conftest import pooled, queried, raise_if_dask_computes
from scipy import stats

import aucpr_dask as ap
from aucpr_dask.errors import AlignmentError, AucprError, InvalidInputError, MissingScoresError
from aucpr_dask.schema.intervals import INTERVALS
from aucpr_dask.schema.options import READINGS, EvaluationOptions
from aucpr_dask.schema.terms import FLAG_BITS, RESULT_VARIABLES

NAMES = ["average_precision", "lower_trapezoid", "upper_trapezoid"]
OF_SOME = {"extrapolated", "n_effective", "n_positive_clusters"}
FORMULAS = [spec.name for spec in INTERVALS.values() if spec.is_formula]


# Options


@pytest.mark.parametrize(
    "function", [ap.estimate, ap.evaluate, ap.curve, ap.curve_bands, ap.confusion, ap.reference_levels]
)
def test_signatures_repeat_the_options(function: Callable[..., Any]) -> None:
    """Public functions name their options for readers and editors; names and defaults are those of the records."""
    options = EvaluationOptions().as_parameters()
    given = inspect.signature(function).parameters
    for name, default in options.items():
        if name in given:
            received = given[name].default
            if name in READINGS and "convention" in given:
                assert received is None, name  # what the convention says, by default the record's
            elif name == "interval":
                assert received is None  # what the estimators have
            else:
                given_as = [received] if isinstance(default, list) and isinstance(received, str) else received
                assert (list(given_as) if isinstance(given_as, tuple) else given_as) == default, name
    also = {"scores", "label", "dim", "clusters", "weight", "pos_label", "by", "convention"}
    assert function is not ap.evaluate or set(given) == {*also, *options}


def test_parameters_give_the_options_again() -> None:
    options = EvaluationOptions.of(estimator="roc_area", interval=["bootstrap"], seed=np.int64(3), prevalence=None)
    parameters = options.as_parameters()
    assert parameters["estimator"] == ["roc_area"]
    assert (parameters["interval"], parameters["seed"]) == (["bootstrap"], 3)
    assert EvaluationOptions.of(**json.loads(json.dumps(parameters))) == options
    with pytest.raises(TypeError, match="colour"):
        EvaluationOptions.of(colour="red")


# What a result carries


@pytest.mark.smoke
def test_the_variables_of_a_result(scores: xr.Dataset) -> None:
    result = ap.evaluate(scores, NAMES, ["logit", "wilson"], level=0.9)
    assert set(result.data_vars) == set(RESULT_VARIABLES) - {"replicate", *OF_SOME}
    replicated = ap.evaluate(scores, NAMES, (), keep_replicates=True, n_resamples=5)
    assert set(replicated.data_vars) == set(RESULT_VARIABLES) - OF_SOME
    extrapolated = ap.evaluate(scores, prevalence=0.01)
    assert set(extrapolated.data_vars) == set(RESULT_VARIABLES) - {"replicate", *OF_SOME} | {"extrapolated"}
    assert replicated["replicate"].dims == ("model", "estimator", "resample")
    assert list(replicated["resample"].values) == list(range(5))
    assert result["estimate"].dims == ("model", "estimator")
    assert result["interval"].dims == ("model", "estimator", "interval_method", "ci_bound")
    for name in ("n_positive", "n_negative", "n_missing", "prevalence", "flags"):
        assert result[name].dims == ("model",)
    assert list(result["model"].values) == list(scores["model"].values)
    assert list(result["estimator"].values) == NAMES
    assert list(result["interval_method"].values) == ["logit", "wilson"]
    assert list(result["ci_bound"].values) == ["lower", "upper"]
    assert result["level"].item() == 0.9
    for name, variable in result.data_vars.items():
        assert variable.attrs["description"] == RESULT_VARIABLES[str(name)].description
        assert variable.dtype.kind in RESULT_VARIABLES[str(name)].kinds
    assert result["interval"].attrs["ci_prob"] == 0.9
    assert result["flags"].attrs["flag_meanings"].split() == list(FLAG_BITS)
    assert list(result["flags"].attrs["flag_masks"]) == list(FLAG_BITS.values())


def test_the_attributes_say_how_the_numbers_came_about(scores: xr.Dataset) -> None:
    scores.attrs |= {"source_files": "a.csv", "colour": "red"}
    attrs = ap.evaluate(scores, missing="drop", prevalence=0.2, level=0.8).attrs
    assert attrs["estimator"] == "average_precision"
    assert (attrs["missing"], attrs["ties"], attrs["unjudged"]) == ("drop", "group", "negative")
    assert (attrs["prevalence"], attrs["level"], attrs["source_files"]) == (0.2, 0.8, "a.csv")
    assert {"colour", "positive_from"}.isdisjoint(attrs)
    assert f"aucpr-dask {ap.__version__}, numpy " in attrs["versions"]


@pytest.mark.smoke
def test_the_numbers_of_a_result(scores: xr.Dataset) -> None:
    result = ap.evaluate(scores, NAMES, FORMULAS)
    score, label = scores["score"].values, scores["label"].values
    np.testing.assert_array_equal(result["estimate"].values, ap.estimate(score, label, NAMES))
    np.testing.assert_array_equal(result["n_positive"].values, label.sum())
    np.testing.assert_array_equal(result["n_negative"].values, (label == 0).sum())
    np.testing.assert_array_equal(result["prevalence"].values, label.mean())
    bounds = ap.interval(result["estimate"].values, int(label.sum()), FORMULAS)
    np.testing.assert_array_equal(result["interval"].values, bounds)


@pytest.mark.smoke
def test_queries(query_scores: xr.Dataset) -> None:
    result = ap.evaluate(query_scores)
    assert result["estimate"].dims == ("model", "query")
    for query in query_scores["query"].values:
        one = query_scores.sel(query=query)
        kept = one.isel(item=np.flatnonzero(one["label"] != -2))
        np.testing.assert_array_equal(
            result["estimate"].sel(query=query).values,
            ap.estimate(kept["score"].values, kept["label"].values),
        )
        assert (result["n_positive"] + result["n_negative"]).sel(query=query).values.tolist() == [
            kept.sizes["item"]
        ] * 4


@pytest.mark.smoke
def test_a_tree_is_each_of_its_data_sets(forest: xr.DataTree) -> None:
    result = ap.evaluate(forest, NAMES)
    assert isinstance(result, xr.DataTree)
    assert set(result.children) == {"small", "large", "topics"}
    for name, node in forest.children.items():
        xr.testing.assert_identical(result[name].to_dataset(), ap.evaluate(node.to_dataset(), NAMES))


@pytest.mark.parametrize("made", [pooled, queried])
@pytest.mark.parametrize(
    "options",
    [
        {"missing": "drop"},
        {"missing": "unretrieved", "interval": ["influence_beta", "wilson"], "prevalence_design": "fixed"},
        {"missing": "last", "estimator": NAMES, "unjudged": "drop", "prevalence": 0.2},
        {"missing": "drop", "interval": "bootstrap", "n_resamples": 20},
    ],
    ids=str,
)
def test_small_data_sets_are_evaluated_together_with_the_bits_of_each(
    made: Callable[..., xr.Dataset], options: dict[str, Any]
) -> None:
    nodes = {
        f"d{k}": made(3, n, seed=k) if made is pooled else made(3, 4, n, seed=k) for k, n in enumerate((2, 9, 30, 9))
    }
    for node in nodes.values():
        node["score"][0, ..., 0] = np.nan
        node["label"][..., -1] = -1
    nodes["d4"] = nodes["d1"].assign(label=nodes["d1"]["label"] * 0)
    nodes["double"] = nodes["d2"].assign(score=nodes["d2"]["score"].astype("f4"))
    result = ap.evaluate(xr.DataTree.from_dict(nodes), **options)
    for name, node in nodes.items():
        alone = ap.evaluate(xr.DataTree.from_dict({name: node}), **options)
        xr.testing.assert_identical(result[name].to_dataset(), alone[name].to_dataset())
    with pytest.raises(MissingScoresError) as together:
        ap.evaluate(xr.DataTree.from_dict(nodes))
    with pytest.raises(MissingScoresError) as single:
        ap.evaluate(xr.DataTree.from_dict({"d0": nodes["d0"]}))
    assert str(together.value) == str(single.value)


def test_coordinates_that_a_tree_inherits_are_kept() -> None:
    first, second = pooled(3, 20), pooled(3, 30)
    tree = xr.DataTree.from_dict(
        {"/": xr.Dataset(coords={"model": first["model"]}), "a": first.drop_vars("model"), "b": second}
    )
    result = ap.evaluate(tree)
    assert list(result["a"].to_dataset()["model"].values) == list(first["model"].values)
    np.testing.assert_array_equal(result["a"]["estimate"].values, ap.evaluate(first)["estimate"].values)


def test_zero_models_and_zero_items(scores: xr.Dataset) -> None:
    assert ap.evaluate(scores.isel(model=[]))["estimate"].shape == (0,)
    empty = ap.evaluate(scores.isel(item=[]))
    assert np.isnan(empty["estimate"].values).all()
    assert not empty["n_positive"].any()
    lazy = ap.evaluate(scores.isel(model=[]).chunk({"item": -1}))
    xr.testing.assert_identical(lazy.compute(), ap.evaluate(scores.isel(model=[])))


def test_no_interval_on_request(scores: xr.Dataset) -> None:
    assert ap.evaluate(scores, interval=())["interval"].shape == (5, 0, 2)
    assert ap.evaluate(scores.chunk({"model": 2}), interval=()).compute()["interval"].shape == (5, 0, 2)


# Laziness


@pytest.mark.parametrize("ties", ["group", "trec_eval", "expectation"])
def test_nothing_is_computed_early(query_scores: xr.Dataset, forest: xr.DataTree, ties: str) -> None:
    query_scores = query_scores.assign_coords(item=[f"d{i}" for i in range(query_scores.sizes["item"])])
    per_run = query_scores.assign(label=query_scores["label"].broadcast_like(query_scores["score"]))
    for scores in (query_scores, per_run, forest if ties == "group" else pooled()):
        with raise_if_dask_computes():
            lazy = ap.evaluate(scores.chunk({"model": 2}), ties=ties)
        with pytest.raises(AssertionError, match="Dask computed"), raise_if_dask_computes():
            lazy.compute()
        expected = ap.evaluate(scores, ties=ties)
        for (_, ours), (_, theirs) in zip(_nodes(lazy), _nodes(expected), strict=True):
            xr.testing.assert_identical(ours.compute(scheduler="threads"), theirs)


def _nodes(scores: Any) -> Any:
    from aucpr_dask.schema.terms import nodes_of

    return list(nodes_of(scores))


def test_estimate_and_interval_are_lazy(scores: xr.Dataset) -> None:
    lazy = scores.chunk({"model": 2})
    with raise_if_dask_computes():
        labelled = ap.estimate(lazy["score"], lazy["label"], NAMES)
        array = ap.estimate(lazy["score"].data, lazy["label"].data, NAMES)
        mixed = ap.estimate(scores["score"].values, lazy["label"].data, NAMES)
        bounds = ap.interval(labelled, lazy["label"].sum(), "logit")
        aggregated = ap.aggregate(ap.evaluate(queried().chunk({"model": 1})))
    expected = ap.estimate(scores["score"].values, scores["label"].values, NAMES)
    for result in (labelled, array, mixed):
        np.testing.assert_array_equal(result.compute(), expected)
    np.testing.assert_array_equal(bounds.compute(), ap.interval(expected, int(scores["label"].sum())))
    xr.testing.assert_identical(aggregated.compute(), ap.aggregate(ap.evaluate(queried())))


@pytest.mark.smoke
def test_one_task_evaluates_one_block_for_all_variables(scores: xr.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    from aucpr_dask import kernels

    calls = []
    kernel = kernels.evaluate_rows
    monkeypatch.setattr(kernels, "evaluate_rows", lambda *arguments: calls.append(1) or kernel(*arguments))
    ap.evaluate(scores.chunk({"model": 2}), NAMES, FORMULAS).compute(scheduler="sync")
    assert len(calls) == 3


# Layouts


def test_pooled_and_per_run_layouts_agree() -> None:
    """The same runs once with a pool of documents, once as each run's own list with the rest counted."""
    random = np.random.default_rng(8)
    n_models, n_queries, pool, depth = 5, 3, 40, 12
    label = random.integers(0, 2, (n_queries, pool)).astype(np.int8)
    score = np.full((n_models, n_queries, pool), np.nan)
    own_score = np.full((n_models, n_queries, depth), np.nan, dtype=np.float32)
    own_label = np.full((n_models, n_queries, depth), -2, dtype=np.int8)
    for model, query in np.ndindex(n_models, n_queries):
        chosen = random.choice(pool, int(random.integers(1, depth + 1)), replace=False)
        values = random.integers(0, 6, chosen.size).astype(np.float32)
        score[model, query, chosen] = values
        own_score[model, query, : chosen.size] = values
        own_label[model, query, : chosen.size] = label[query, chosen]
    coords = {"model": list("abcde"), "query": ["q1", "q2", "q3"]}
    dims = ("model", "query", "item")
    wide = xr.Dataset({"score": (dims, score), "label": (("query", "item"), label)}, coords=coords)
    n_positive = ("query", (label == 1).sum(axis=1))
    own = xr.Dataset({"score": (dims, own_score), "label": (dims, own_label), "n_positive": n_positive}, coords=coords)
    for ties in ("group", "expectation"):
        ours = ap.evaluate(wide, missing="unretrieved", ties=ties)
        theirs = ap.evaluate(own, missing="unretrieved", ties=ties)
        assert ours["estimate"].notnull().all()
        xr.testing.assert_identical(ours["estimate"], theirs["estimate"])
        xr.testing.assert_identical(ours["n_positive"], theirs["n_positive"])


@pytest.mark.parametrize("kind", ["pooled", "queries", "runs"])
def test_dimensions_in_any_order(kind: str, tmp_path: Path) -> None:
    scores = {"pooled": pooled, "queries": queried, "runs": per_run}[kind]()
    turned = scores.transpose(*reversed(scores["score"].dims))
    result = ap.evaluate(scores)
    xr.testing.assert_identical(ap.evaluate(turned), result)
    xr.testing.assert_identical(ap.evaluate(turned.chunk({"model": 1})).compute(), result)
    options = {"over": "items", "method": "influence"} if kind == "pooled" else {}
    xr.testing.assert_identical(ap.compare(turned, **options), ap.compare(scores, **options))
    for name, one in {"usual": scores, "turned": turned}.items():
        ap.save_scores(one, tmp_path / name)
    xr.testing.assert_identical(ap.open_scores(tmp_path / "turned").load(), ap.open_scores(tmp_path / "usual").load())


def test_padding_is_no_item_for_any_score(query_scores: xr.Dataset) -> None:
    expected = ap.evaluate(query_scores, NAMES)
    assert not expected["n_missing"].any()
    for filler in (0.0, np.inf, -1e9):
        filled = query_scores.assign(score=query_scores["score"].fillna(filler))
        xr.testing.assert_identical(ap.evaluate(filled, NAMES), expected)
    wider = query_scores.pad(item=(0, 7), constant_values={"score": np.nan, "label": -2})
    xr.testing.assert_identical(ap.evaluate(wider.assign(label=wider["label"].astype("int8")), NAMES), expected)


def test_n_positive_along_grades() -> None:
    scores = queried().drop_vars("n_positive", errors="ignore")
    graded = scores.assign(label=scores["label"].where(scores["label"] != 1, 2).astype("int8"))
    totals = xr.DataArray([[40, 30]] * 3, dims=("query", "grade"), coords={"grade": [1, 2]})
    graded = graded.assign(n_positive=totals)
    for grade, total in ((1, 40), (2, 30)):
        result = ap.evaluate(graded, positive_from=grade)
        assert (result["n_positive"] == total).all()
        one = ap.evaluate(graded.assign(n_positive=totals.sel(grade=grade, drop=True)), positive_from=grade)
        xr.testing.assert_identical(result, one)
    with pytest.raises(InvalidInputError, match=r"not known at this grade[\s\S]*positive_from=3[\s\S]*\[1, 2\]"):
        ap.evaluate(graded, positive_from=3)


def test_trec_order_from_documents_or_from_a_variable() -> None:
    names = ["d10", "d9", "é", "z", "Z", "d1"]  # by descending bytes: é z d9 d10 d1 Z
    scores = xr.Dataset(
        {"score": (("model", "item"), [[1.0] * 6, [2.0, 2, 2, 1, 1, 1]]), "label": ("item", [0, 1, 0, 0, 0, 1])},
        coords={"model": ["a", "b"], "item": names},
    )
    from_names = ap.evaluate(scores, ties="trec_eval")["estimate"].values
    np.testing.assert_allclose(from_names, [(1 / 3 + 2 / 5) / 2, (1 / 2 + 2 / 5) / 2], rtol=1e-15)
    places = [3, 2, 0, 1, 5, 4]
    bare = scores.drop_vars("item").assign(tie_order=("item", places))
    np.testing.assert_array_equal(ap.evaluate(bare, ties="trec_eval")["estimate"].values, from_names)
    # The variable goes before the names.
    turned = scores.assign(tie_order=("item", [-place for place in places]))
    turned_areas = ap.evaluate(turned, ties="trec_eval")["estimate"].values
    np.testing.assert_allclose(turned_areas[0], (1 / 2 + 2 / 4) / 2, rtol=1e-15)
    np.testing.assert_array_equal(
        ap.estimate(scores["score"].values, scores["label"].values, ties="trec_eval", tie_order=places), from_names
    )


def test_an_order_of_ties_that_is_not_asked_for_changes_nothing() -> None:
    place = np.arange(40)
    score, label = place[None] % 7 / 7.0, (place % 3 == 0).astype(np.int8)
    scores = xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)})
    soft = scores.drop_vars("label").assign(positive_weight=("item", label * 0.9), negative_weight=("item", 1 - label))
    for one in (scores.assign(cluster=("item", place // 2)), scores.assign(weight=("item", place + 1.0)), soft):
        expected = ap.evaluate(one)
        found = ap.evaluate(one.assign(tie_order=("item", place[::-1])))
        for name in ("estimate", "standard_error", "interval"):
            np.testing.assert_array_equal(found[name], expected[name])


def test_weights_and_soft_labels_in_a_data_set(scores: xr.Dataset) -> None:
    weight = np.random.default_rng(9).random(scores.sizes["item"])
    weighted = ap.evaluate(scores.assign(weight=("item", weight)), NAMES, prevalence_design="random")
    soft = scores.drop_vars("label").assign(
        positive_weight=("item", weight * scores["label"].values),
        negative_weight=("item", weight * (1 - scores["label"].values)),
    )
    xr.testing.assert_identical(ap.evaluate(soft, NAMES), weighted)
    expected = ap.estimate(scores["score"].values, scores["label"].values, NAMES, weight=weight)
    np.testing.assert_array_equal(weighted["estimate"].values, expected)
    np.testing.assert_allclose(weighted["n_positive"].values, weight[scores["label"].values == 1].sum(), rtol=1e-14)
    xr.testing.assert_identical(ap.evaluate(soft.chunk({"model": 2}), NAMES).compute(), weighted)


# Flags

SPREAD = np.linspace(0, 1, 60)
HALF = (np.arange(60) % 2).astype(np.int8)
FEW = (np.arange(60) >= 50).astype(np.int8)
NAN = np.full(60, np.nan)


@pytest.mark.parametrize(
    ("expected", "score", "label", "options"),
    [
        ({}, SPREAD, HALF, {}),
        ({"no_positives"}, SPREAD, np.zeros(60, np.int8), {}),
        ({"no_negatives"}, SPREAD, np.ones(60, np.int8), {}),
        ({"few_positives"}, SPREAD, FEW, {}),
        ({"heavy_ties"}, SPREAD.round(1), HALF, {}),
        ({"inverted_polarity"}, SPREAD, (np.arange(60) < 30).astype(np.int8), {}),
        ({"hard_scores"}, HALF.astype(float), HALF, {}),
        ({"constant_scores", "heavy_ties"}, np.ones(60), HALF, {}),
        ({"missing_scores"}, np.where(np.arange(60) == 7, np.nan, SPREAD), HALF, {"missing": "drop"}),
        ({"missing_scores"}, np.where(np.arange(60) == 7, np.nan, SPREAD), HALF, {"missing": "last"}),
        ({"nothing_ranked", "missing_scores"}, NAN, HALF, {"missing": "unretrieved"}),
        ({"nothing_ranked", "missing_scores", "heavy_ties"}, NAN, HALF, {"missing": "last"}),
        ({"nothing_ranked", "no_positives", "missing_scores"}, NAN, HALF, {"missing": "drop"}),
    ],
)
def test_flags(expected: set[str], score: np.ndarray, label: np.ndarray, options: dict[str, Any]) -> None:
    scores = xr.Dataset({"score": (("model", "item"), score[None]), "label": ("item", label)})
    for data in (scores, scores.assign(weight=("item", np.ones(60)))):
        flags = int(ap.evaluate(data, **options)["flags"].item())
        raised = {name for name, bit in FLAG_BITS.items() if flags & bit}
        if "nothing_ranked" in expected:  # whether one block of unranked items counts as ties is no matter
            raised, expected = raised - {"heavy_ties"}, set(expected) - {"heavy_ties"}
        assert raised == set(expected)


def test_where_clusters_are_the_sample_they_are_counted() -> None:
    """A hundred positives of ten patients are few; flags, warnings and the numbers behind a comparison say so."""
    label = np.tile([0, 1], 100)
    score = np.random.default_rng(4).normal(label, size=(2, 200))
    cluster = np.arange(200) // 20
    scores = xr.Dataset({"score": (("model", "item"), score), "label": ("item", label), "cluster": ("item", cluster)})
    result = ap.evaluate(scores, keep_replicates=True, n_resamples=100)
    np.testing.assert_allclose(result["n_positive_clusters"], 10)
    assert result.aucpr.flagged("few_positives")["few_positives"].all()
    alone = ap.evaluate(scores, over="items")
    assert "n_positive_clusters" not in alone
    assert not alone["flags"].any()
    xr.testing.assert_identical(ap.evaluate(scores.chunk({"model": 1})).compute(), ap.evaluate(scores))
    with pytest.warns(ap.errors.FewPositivesWarning, match="over 10 clusters with positives"):
        ap.compare(result)


def test_a_query_without_positives_is_nan_and_flagged(query_scores: xr.Dataset) -> None:
    label = query_scores["label"].copy()
    label[1] = label[1].where(label[1] != 1, 0)
    result = ap.evaluate(query_scores.assign(label=label), NAMES)
    assert np.isnan(result["estimate"].isel(query=1).values).all()
    assert np.isnan(result["interval"].isel(query=1).values).all()
    assert (result["flags"].isel(query=1) & FLAG_BITS["no_positives"] > 0).all()
    assert result["estimate"].isel(query=[0, 2]).notnull().all()


# Alignment


def per_run() -> xr.Dataset:
    scores = queried().assign_coords(item=[f"d{i}" for i in range(30)])
    return scores.assign(label=scores["label"].broadcast_like(scores["score"]))


@pytest.mark.parametrize("dim", ["model", "query", "item"])
@pytest.mark.parametrize("lazy", [False, True])
def test_other_labels_are_an_error_that_names_them(dim: str, lazy: bool) -> None:
    scores = per_run()
    if lazy:
        scores = scores.chunk({"model": 2})
    turned = scores["label"].isel({dim: slice(None, None, -1)})
    with pytest.raises(AlignmentError, match=rf"'score' and 'label'.*'{dim}'[\s\S]*another order"):
        ap.estimate(scores["score"], turned)
    renamed = scores["label"].assign_coords({dim: ["strange", *scores[dim].values[1:]]})
    first = scores[dim].values[0]
    with pytest.raises(AlignmentError, match=rf"'{dim}'[\s\S]*('strange'[\s\S]*'{first}'|'{first}'[\s\S]*'strange')"):
        ap.estimate(scores["score"], renamed)
    with pytest.raises(AlignmentError, match=rf"length along '{dim}'"):
        ap.estimate(scores["score"], scores["label"].isel({dim: slice(1, None)}))


@pytest.mark.parametrize("name", ["weight", "n_positive", "tie_order", "negative_weight"])
def test_every_variable_is_aligned(name: str) -> None:
    scores = queried()
    dims = ("query",) if name == "n_positive" else ("query", "item")
    other = xr.zeros_like(scores["label"]) + 50 if len(dims) == 2 else xr.full_like(scores["query"], 90, dtype=int)
    other = other.isel(query=slice(None, None, -1))
    options: dict[str, Any] = {name: other}
    label: Any = scores["label"]
    if name == "negative_weight":
        label, options["positive_weight"] = None, abs(scores["label"])
    with pytest.raises(AlignmentError, match=rf"'{name}'.*'query'"):
        ap.estimate(scores["score"], label, **options)


@pytest.mark.parametrize("dim", ["model", "query", "item"])
def test_duplicated_labels(dim: str) -> None:
    scores = per_run()
    twice = scores.assign_coords({dim: ["same", "same", *scores[dim].values[2:]]})
    with pytest.raises(AlignmentError, match=rf"'{dim}' must be unique[\s\S]*'same'"):
        ap.evaluate(twice)
    with pytest.raises(AlignmentError, match=r"[Dd]ata set 'topics'[\s\S]*'same'"):
        ap.evaluate(xr.DataTree.from_dict({"topics": twice}))


def test_repeated_documents_have_no_trec_order() -> None:
    score = xr.DataArray([1.0, 1, 2], dims="item", coords={"item": ["a", "a", "b"]})
    with pytest.raises(AlignmentError, match="'item' must be unique"):
        ap.estimate(score, xr.ones_like(score), ties="trec_eval")


# Bad input


def array(**changes: Any) -> dict[str, Any]:
    return {"score": np.linspace(0, 1, 6).reshape(2, 3), "label": np.array([1, 0, 1])} | changes


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (array(score=np.array(["a", "b", "c"])), r"scores are not numeric[\s\S]*dtype <U1"),
        (array(score=np.array([1j, 2, 3])), "scores are not numeric"),
        (array(score=np.float64(3)), "'score' has no item axis"),
        (array(label=np.array([1, 0, 2])), r"outside their domain[\s\S]*1 labels with values 2[\s\S]*positive_from"),
        (array(label=np.array([1, -3, 2])), r"outside their domain[\s\S]*values -3, 2"),
        (array(label=np.array([1, 0.5, 0])), r"outside their domain[\s\S]*0\.5"),
        (array(label=np.array([1, np.nan, 0])), r"outside their domain[\s\S]*nan"),
        (array(label=np.array(["y", "n", "y"])), "labels are not numbers"),
        (array(label=np.array([1, 128, 0]), positive_from=2), r"outside their domain[\s\S]*128"),
        (array(label=np.array([1, 0])), r"items lie on the first axis[\s\S]*labels of shape \(2,\)"),
        (array(label=np.ones((3, 3))), r"do not broadcast[\s\S]*label \(3, 3\)"),
        (array(weight=np.array([1, -1.0, 1])), r"finite and not negative[\s\S]*-1\.0"),
        (array(weight=np.array([1, np.nan, 1])), r"finite and not negative[\s\S]*nan"),
        (array(weight=np.array([1, np.inf, 1])), r"finite and not negative[\s\S]*inf"),
        (array(weight=np.array(["a", "b", "c"])), "weights must be"),
        (array(n_positive=1), r"n_positive is less[\s\S]*too few by: .*: 1"),
        (array(positive_weight=np.ones(3)), "need both"),
        (array(positive_weight=np.ones(3), negative_weight=np.ones(3)), "either a label"),
        (array(label=None), "either a label"),
        (array(label=None, positive_weight=np.ones(3), negative_weight=np.ones(3), weight=np.ones(3)), "exclude"),
        (array(weight=np.ones(3), n_positive=3), "n_positive has no meaning with weights"),
        (array(weight=np.ones(3), ties="expectation"), "must share one threshold"),
        (array(ties="trec_eval"), "order of tied items"),
        (array(ties="expectation", prevalence=0.1), "no other prevalence"),
        (array(ties="expectation", estimator="lower_trapezoid"), r"ties for 'lower_trapezoid'[\s\S]*'group'"),
        (array(prevalence=1.0), r"prevalence must lie between 0 and 1[\s\S]*1\.0"),
    ],
)
def test_bad_arrays(inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        ap.estimate(inputs.pop("score"), inputs.pop("label"), **inputs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.5], 3, "wald"), r"unknown interval method[\s\S]*'wald'[\s\S]*clopper_pearson"),
        (([0.5], 3, "logit", 95), r"level must lie between 0 and 1[\s\S]*95"),
        (([0.5], 3, "logit", np.nan), "level must lie"),
    ],
)
def test_bad_intervals(arguments: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        ap.interval(*arguments)
    with pytest.raises(InvalidInputError, match=message):
        ap.evaluate(pooled(), interval=arguments[2], level=(*arguments, 0.95)[3])


def change(**changes: Any) -> xr.Dataset:
    return pooled().assign(**changes)


@pytest.mark.parametrize(
    ("scores", "kind", "message"),
    [
        (change(label=("item", np.full(60, 3))), InvalidInputError, r"outside their domain[\s\S]*'label'[\s\S]*60"),
        (change(score=pooled()["score"].astype(str)), InvalidInputError, r"'score'[\s\S]*dtype <U"),
        (change(label=("item", np.full(60, 0.5))), InvalidInputError, r"'label'[\s\S]*float64"),
        (change(weight=("item", np.full(60, -1.0))), InvalidInputError, r"weights must be[\s\S]*'weight'"),
        (pooled().rename(item="document"), InvalidInputError, r"'score'[\s\S]*\(model, document\)"),
        (pooled().drop_vars("score"), InvalidInputError, r"'score' is absent"),
        (pooled().drop_vars("label"), InvalidInputError, r"needs 'label'"),
        (change(positive_weight=("item", np.ones(60))), InvalidInputError, "positive_weight"),
        (change(n_positive=1), InvalidInputError, r"n_positive is less"),
        (pooled()["score"], InvalidInputError, "labels are needed"),
        (xr.DataTree(), InvalidInputError, "no data set"),
    ],
)
def test_bad_data_sets(scores: Any, kind: type[AucprError], message: str) -> None:
    with pytest.raises(kind, match=message) as caught, raise_if_dask_computes():
        ap.evaluate(scores)
    assert isinstance(caught.value, ValueError)
    if isinstance(scores, xr.Dataset):
        with pytest.raises(kind, match=r"data set 'odd'|n_positive is less"):
            ap.evaluate(xr.DataTree.from_dict({"good": pooled(), "odd": scores}))


def test_lazy_labels_are_checked_when_they_are_read() -> None:
    lazy = ap.evaluate(change(label=("item", np.full(60, 3))).chunk({"model": 2}))
    with pytest.raises(InvalidInputError, match="outside their domain"):
        lazy.compute()


@pytest.mark.smoke
def test_missing_scores_are_named() -> None:
    scores = queried()
    holes = scores["score"].copy()
    holes[2, 1, 4:7] = np.nan
    holes[3, 0, 5] = np.nan
    holed = scores.assign(score=holes)
    message = r"NaN scores in 2 rankings.*model 'm2', query 'q1': 3.*model 'm3', query 'q0': 1"
    with pytest.raises(MissingScoresError, match=message):
        ap.evaluate(holed)
    with pytest.raises(MissingScoresError, match=message):
        ap.evaluate(xr.DataTree.from_dict({"topics": holed}))
    with pytest.raises(MissingScoresError, match=message):
        ap.estimate(holed["score"], holed["label"])
    with pytest.raises(MissingScoresError, match="model 'm2', query 'q1': 3"):
        ap.evaluate(holed.chunk({"model": 1})).isel(model=2).compute()
    with pytest.raises(MissingScoresError, match=r"ranking \(2, 1\): 3"):
        ap.estimate(holed["score"].values, holed["label"].values)
    counted = holed.assign(n_missing=(holed["score"].isnull() & (holed["label"] != -2)).sum("item"))
    with pytest.raises(MissingScoresError, match="model 'm2', query 'q1': 3"):
        ap.evaluate(counted.chunk({"model": 1})).isel(model=2).compute()
    filled = counted.assign(score=counted["score"].fillna(-9))  # what a store counted before is not believed
    assert ap.evaluate(filled)["estimate"].notnull().all()
    assert ap.evaluate(counted, missing="drop")["n_missing"].values.sum() == 4


def test_many_rankings_with_missing_scores_are_not_all_listed() -> None:
    scores = pooled(50, 20)
    scores["score"][:, 3] = np.nan
    with pytest.raises(MissingScoresError) as caught:
        ap.evaluate(scores)
    assert "50 rankings" in str(caught.value)
    assert len(str(caught.value)) < 600


def test_items_left_out_are_not_missing() -> None:
    """NaN scores of items that the options or the weights leave out are no missing scores, counted or not."""
    scores = pooled()
    label = scores["label"].copy()
    label[5] = -1
    holes = scores["score"].copy()
    holes[:, 5] = np.nan
    unjudged = scores.assign(score=holes, label=label)
    weightless = scores.assign(score=holes, weight=("item", np.where(np.arange(60) == 5, 0.0, 1.0)))
    for data, options in ((unjudged, {"unjudged": "drop"}), (weightless, {})):
        expected = ap.evaluate(data.isel(item=np.arange(60) != 5), **options)
        counted = data.assign(n_missing=data["score"].isnull().sum("item"))
        xr.testing.assert_identical(ap.evaluate(data, **options)["estimate"], expected["estimate"])
        xr.testing.assert_identical(ap.evaluate(counted, **options)["estimate"], expected["estimate"])


# Means over queries


@pytest.mark.smoke
@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
def test_aggregate_is_students_interval(level: float) -> None:
    result = ap.evaluate(queried(n_queries=7), NAMES)
    mean = ap.aggregate(result, method="t", level=level)
    areas = result["estimate"].values
    np.testing.assert_allclose(mean["estimate"].values, areas.mean(axis=1), rtol=1e-15)
    lower, upper = stats.t.interval(level, 6, areas.mean(axis=1), stats.sem(areas, axis=1))
    np.testing.assert_allclose(mean["interval"].values, np.stack([lower, upper], axis=-1), rtol=1e-12)
    assert mean["interval"].dims == ("model", "estimator", "ci_bound")
    assert mean["interval"].attrs["ci_prob"] == level
    assert mean["level"].item() == level
    assert (mean["n_queries"] == 7).all()


def test_aggregate_leaves_undefined_queries_out() -> None:
    scores = queried(n_queries=4)
    label = scores["label"].copy()
    label[2] = label[2].where(label[2] != 1, 0)
    result = ap.evaluate(scores.assign(label=label))
    mean = ap.aggregate(result)
    assert (mean["n_queries"] == 3).all()
    xr.testing.assert_allclose(mean, ap.aggregate(result.isel(query=[0, 1, 3])), rtol=1e-15)
    single = ap.aggregate(result.isel(query=[0]))
    assert np.isnan(single["interval"].values).all()
    nothing = ap.aggregate(result.isel(query=[2]))
    assert np.isnan(nothing["estimate"].values).all()
    assert (nothing["n_queries"] == 0).all()


def test_aggregate_without_queries_keeps_the_first_interval(forest: xr.DataTree) -> None:
    result = ap.evaluate(forest, interval=["wilson", "logit"])
    means = ap.aggregate(result)
    assert isinstance(means, xr.DataTree)
    np.testing.assert_array_equal(means["small/interval"].values, result["small/interval"].values[:, 0])
    assert means["topics/estimate"].dims == ("model",)
    with pytest.raises(InvalidInputError, match="level must lie"):
        ap.aggregate(result, level=95)


@pytest.mark.parametrize("empty", [{"query": slice(0)}, {"model": slice(0)}])
def test_data_sets_without_rankings_are_evaluated_lazy_or_not(empty: dict[str, slice]) -> None:
    scores = queried().isel(empty)
    result = ap.evaluate(scores.chunk(), interval=["logit", "bootstrap"])
    xr.testing.assert_identical(result, ap.evaluate(scores, interval=["logit", "bootstrap"]))
    assert result["estimate"].size == 0


def test_plain_arrays_in_different_chunks_are_the_same_numbers() -> None:
    rng = np.random.default_rng(5)
    score, label = rng.normal(size=(7, 30)), rng.integers(0, 2, (7, 30)).astype("int8")
    expected = ap.estimate(score, label)
    for chunks in (2, (3, 4)):
        lazy = da.from_array(score, chunks=(chunks, -1))
        np.testing.assert_array_equal(ap.estimate(lazy, label), expected)
        np.testing.assert_array_equal(ap.estimate(lazy, da.from_array(label, chunks=(5, -1))), expected)
        bounds = ap.interval(da.from_array(expected, chunks=chunks), label.sum(axis=-1))
        np.testing.assert_array_equal(bounds, ap.interval(expected, label.sum(axis=-1)))


def test_arrays_in_other_chunks_are_chunked_alike() -> None:
    score, label = queried()["score"], queried()["label"]
    expected = ap.estimate(score, label, missing="drop")
    lazy = ap.estimate(score.chunk({"model": 1, "query": 2}), label.chunk({"query": 3}), missing="drop")
    xr.testing.assert_identical(lazy.compute(), expected)
    plain = ap.estimate(
        da.from_array(score.values, chunks=(1, 2, -1)), da.from_array(label.values, chunks=(3, -1)), missing="drop"
    )
    np.testing.assert_array_equal(plain.compute(), expected)


def test_axes_of_length_1_broadcast_as_in_numpy() -> None:
    """Whichever array has them, and in which order."""
    random = np.random.default_rng(0)
    score, label = random.normal(size=(3, 1, 20)), (random.random((4, 20)) < 0.5).astype(np.int8)
    found = ap.estimate(score, label[None])
    assert found.shape == (3, 4)
    for index in np.ndindex(found.shape):
        assert found[index] == ap.estimate(score[index[0], 0], label[index[1]])
    np.testing.assert_array_equal(ap.estimate(da.from_array(score, chunks=(2, 1, -1)), label[None]).compute(), found)
    assert ap.estimate(score[:1], label[:1]).shape == (1, 1)


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("options", "dims"),
    [
        ({}, ("model", "ci_bound")),
        ({"estimator": "haldane", "interval": "logit"}, ("model", "ci_bound")),
        ({"interval": ["logit"]}, ("model", "interval_method", "ci_bound")),
        ({"estimator": ["haldane"]}, ("model", "estimator", "ci_bound")),
        ({"estimator": ["haldane"], "interval": ["logit"]}, ("model", "estimator", "interval_method", "ci_bound")),
    ],
)
def test_one_name_is_a_scalar_and_a_list_is_a_dimension(
    scores: xr.Dataset, options: dict[str, Any], dims: tuple[str, ...]
) -> None:
    for result in (ap.evaluate(scores, **options), ap.evaluate(scores.chunk({"model": 2}), **options)):
        assert result["interval"].dims == dims
        assert result["estimate"].dims == tuple(dim for dim in dims if dim not in ("interval_method", "ci_bound"))
        assert {"estimator", "interval_method"} <= set(result.coords)
        assert ap.aggregate(result)["estimate"].dims == result["estimate"].dims
