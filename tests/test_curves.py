"""Curves against scikit-learn, published numbers and exact fractions; dominance, confusion, errors."""

from fractions import Fraction
from itertools import pairwise
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from conftest import pooled, queried
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_cases import fact, numbers, of_blocks, oracle, oracle_cases
from strategies import Case, cases, chunkings, weights

import aucpr_dask as ap
from aucpr_dask.curves import points as curve_blocks
from aucpr_dask.errors import AlignmentError, InvalidInputError, MissingScoresError

KINDS = ["precision_recall", "roc", "achievable"]
COUNTS = ["true_positives", "false_positives"]
CELLS = [*COUNTS, "false_negatives", "true_negatives"]
NAN = float("nan")

Point = tuple[Fraction, Fraction]  # true positives, false positives


def data(case: Any) -> dict[str, Any]:
    weighted = oracle("weighted_datasets")[case["weighted_dataset"]] if "weighted_dataset" in case else None
    dataset = oracle("datasets")[weighted["dataset"] if weighted else case["dataset"]]
    weight = {"weight": numbers(weighted["sample_weight"])} if weighted else {}
    return {"score": numbers(dataset["scores"]), "label": np.array(dataset["labels"]), **weight}


# The definitions, in exact fractions


def counts_of(points: xr.Dataset) -> np.ndarray:
    return np.stack([points[name] for name in COUNTS], axis=-1)


def exact_points(score: np.ndarray, positive: list[Fraction], negative: list[Fraction]) -> list[Point]:
    items = [x for x in zip(score.tolist(), positive, negative, strict=True) if x[1] + x[2] > 0]
    points = [(Fraction(0), Fraction(0))]
    for threshold in sorted({s for s, _, _ in items}, reverse=True):
        above = [(p, n) for s, p, n in items if s >= threshold]
        points.append((sum((p for p, _ in above), Fraction(0)), sum((n for _, n in above), Fraction(0))))
    return points


def one_of(points: xr.Dataset, model: int) -> xr.Dataset:
    """Return the points of one model without those that pad them."""
    return points.isel(model=model, point=slice(0, int(points["n_points"][model])))


def hard(label: np.ndarray) -> tuple[list[Fraction], list[Fraction]]:
    return [Fraction(int(x == 1)) for x in label], [Fraction(int(x == 0)) for x in label]


def exact_precision(points: list[Point], found: Fraction, scale: Fraction = Fraction(1)) -> Fraction | None:
    """Return the largest precision at this number of true positives; at none, the limit; None beyond the end."""
    candidates = []
    for (tp_a, fp_a), (tp_b, fp_b) in pairwise(points):
        if tp_a < tp_b and (tp_a < found <= tp_b or found == tp_a == 0):
            if tp_a + fp_a == 0:
                candidates.append(tp_b / (tp_b + scale * fp_b))
            else:
                wrong = fp_a + (found - tp_a) / (tp_b - tp_a) * (fp_b - fp_a)
                candidates.append(found / (found + scale * wrong))
    return max(candidates, default=None)


def exact_recall(points: list[Point], wrong: Fraction, n_positive: Fraction) -> Fraction | None:
    """Return the largest recall at this number of false positives; None beyond the end."""
    candidates = [tp / n_positive for tp, fp in points if fp == wrong]
    for (tp_a, fp_a), (tp_b, fp_b) in pairwise(points):
        if fp_a < wrong < fp_b:
            candidates.append((tp_a + (wrong - fp_a) / (fp_b - fp_a) * (tp_b - tp_a)) / n_positive)
    return max(candidates, default=None)


def exact_hull(points: list[Point]) -> list[Point]:
    """Return the points that no line between two others passes above or through; and the two ends."""

    def is_covered(point: Point, a: Point, b: Point) -> bool:
        if not (a[1] <= point[1] <= b[1]) or a == b:
            return False
        if a[1] == b[1]:
            return a[0] < point[0] < b[0]
        return point[0] <= a[0] + (point[1] - a[1]) / (b[1] - a[1]) * (b[0] - a[0])

    return [
        p
        for p in points
        if p in (points[0], points[-1])
        or not any(is_covered(p, a, b) for a in points for b in points if p not in (a, b))
    ]


def as_floats(values: list[Fraction | None]) -> list[float]:
    return [NAN if value is None else float(value) for value in values]


# Points


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_points_equal_scikit_learn(kind: type, weighted: bool) -> None:
    from sklearn.metrics import precision_recall_curve, roc_curve

    random = np.random.default_rng(3)
    for n_items in (2, 5, 40, 1000):
        label = np.append([0, 1], random.integers(0, 2, n_items - 2))
        score = (random.normal(size=n_items) + label).round(1).astype(kind)
        weight = random.exponential(size=n_items) if weighted else None
        points = ap.curve(score, label, weight=weight)
        precision, recall, thresholds = precision_recall_curve(label, score, sample_weight=weight)
        np.testing.assert_allclose(points["precision"], precision[::-1], rtol=1e-12)
        np.testing.assert_allclose(points["recall"], recall[::-1], rtol=1e-12)
        np.testing.assert_array_equal(points["threshold"][1:], thresholds[::-1])
        rate, recall, thresholds = roc_curve(label, score, sample_weight=weight, drop_intermediate=False)
        np.testing.assert_allclose(points["false_positive_rate"], rate, rtol=1e-12)
        np.testing.assert_allclose(points["recall"], recall, rtol=1e-12)
        np.testing.assert_array_equal(points["threshold"], thresholds)
        assert points["n_points"] == points.sizes["point"] == np.unique(score).size + 1


SKLEARN = oracle_cases("sklearn", lambda case: "precision" in case["results"].get("precision_recall_curve", {}))
RAUCPR = oracle_cases("raucpr", lambda case: case.get("pr_points"))


def test_every_case_is_here() -> None:
    assert (len(SKLEARN), len(RAUCPR), len(PRROC)) == (68, 36, 30)


@pytest.mark.smoke
@pytest.mark.parametrize("case", SKLEARN)
def test_points_equal_published_ones_of_scikit_learn(case: Any) -> None:
    expected = {name: numbers(x)[::-1] for name, x in case["results"]["precision_recall_curve"].items()}
    inputs = data(case)
    points = ap.curve(**inputs)
    kept = np.arange(points.sizes["point"])
    if "weight" in inputs:  # scikit-learn keeps thresholds at which all weights are 0: the same points, repeated
        kept = np.searchsorted(-points["threshold"].values, -expected["thresholds"], side="right") - 1
        kept = np.append(0, kept)
    positives = (inputs["label"] * inputs.get("weight", 1)).sum()
    np.testing.assert_allclose(points["precision"][kept], expected["precision"], rtol=1e-12)
    if positives > 0:  # without any, scikit-learn says 1
        np.testing.assert_allclose(points["recall"][kept], expected["recall"], rtol=1e-12)


@pytest.mark.parametrize("case", RAUCPR)
def test_points_equal_those_of_raucpr(case: Any) -> None:
    points = ap.curve(**data(case))
    for ours, space, theirs in (
        ("recall", "pr_points", "recall"),
        ("precision", "pr_points", "precision"),
        ("recall", "roc_points", "tpr"),
        ("false_positive_rate", "roc_points", "fpr"),
    ):
        expected = numbers(case[space][theirs])
        if np.isnan(expected[1:]).all():
            expected[0] = NAN  # an empty class: raucpr has rates of 0 at point 0 all the same
        np.testing.assert_allclose(points[ours], expected, rtol=1e-14, atol=0)


@given(cases())
def test_points_equal_the_definition(case: Case) -> None:
    points = ap.curve(case.score, case.label)
    assert points["n_points"].dims == ("model",)
    assert points["recall"].dims == ("model", "point")
    assert points.sizes["point"] == points["n_points"].max()
    for model, score in enumerate(case.score):
        one = one_of(points, model)
        expected = exact_points(score.astype(float), *hard(case.label))
        np.testing.assert_array_equal(counts_of(one), np.array(expected, dtype=float))
        assert one["threshold"][0] == np.inf
        assert set(one["threshold"].values[1:]) == set(score.astype(float))
        assert np.isnan(points["precision"][model, one.sizes["point"] :]).all()


@given(cases(labels=(0, 1, -1, -2), missing=True), st.sampled_from(["drop", "last", "unretrieved"]))
def test_the_meaning_of_missing_scores_and_labels(case: Case, missing: str) -> None:
    for unjudged in ("negative", "drop"):
        got = ap.curve(case.score, case.label, missing=missing, unjudged=unjudged)
        for model, score in enumerate(case.score):
            label = case.label
            kept = label >= (-1 if unjudged == "negative" else 0)
            absent = np.isnan(score) & kept
            ranks = np.zeros(score.size, dtype=int)
            ranks[~np.isnan(score)] = 1 + np.unique(score[~np.isnan(score)], return_inverse=True)[1]
            inside = kept & ~absent if missing != "last" else kept
            expected = exact_points(ranks[inside], *hard(np.maximum(label[inside], 0)))
            one = one_of(got, model)
            np.testing.assert_array_equal(counts_of(one), np.array(expected, dtype=float))
            counted = kept if missing != "drop" else inside
            assert one["n_positive"] == (label[counted] == 1).sum()
            assert one["n_negative"] == (label[counted] < 1).sum()
            if missing == "last" and absent.any():
                assert one["threshold"][-1] == -np.inf


def test_an_empty_ranking_is_point_0() -> None:
    points = ap.curve([NAN, NAN], [1, 0], missing="unretrieved")
    assert points.sizes["point"] == 1
    assert (points["recall"], points["precision"], points["false_positive_rate"]) == (0, 1, 0)
    assert np.isnan(ap.curve([NAN, NAN], [1, 0], grid=[0, 0.5, 1], missing="unretrieved")).all()
    assert ap.curve(np.empty((2, 0)), np.empty(0, dtype=int))["n_points"].values.tolist() == [1, 1]


@pytest.mark.parametrize(("label", "precision", "lacking"), [(1, 1, "false_positive_rate"), (0, 0, "recall")])
def test_one_class(label: int, precision: int, lacking: str) -> None:
    points = ap.curve([2, 1], [label, label])
    assert points["precision"].values.tolist() == [1, precision, precision]
    assert (np.isnan(points[lacking]).all(), label and points["recall"].values.tolist()) == (
        True,
        label and [0, 0.5, 1],
    )
    for kind in KINDS:
        values = ap.curve([2, 1], [label, label], kind, grid=[0, 0.7, 1])
        assert (values == 1).all() if label and kind != "roc" else np.isnan(values).all()


# Weights


@given(cases(max_models=2), st.data())
def test_whole_weights_are_copies_and_zero_is_removal(case: Case, more: st.DataObject) -> None:
    copies = np.array(more.draw(st.lists(st.integers(0, 3), min_size=case.label.size, max_size=case.label.size)))
    weighted = ap.curve(case.score, case.label, weight=copies)
    copied = ap.curve(np.repeat(case.score, copies, axis=-1), np.repeat(case.label, copies))
    xr.testing.assert_identical(weighted, copied)
    soft = ap.curve(
        case.score, None, positive_weight=copies * (case.label == 1), negative_weight=copies * (case.label == 0)
    )
    xr.testing.assert_identical(weighted, soft)


@given(cases(max_models=1), st.data())
def test_weighted_points_equal_the_definition(case: Case, more: st.DataObject) -> None:
    weight = more.draw(weights(case.label.size))
    points = ap.curve(case.score[0], case.label, weight=weight)
    classes = [[Fraction(w) * x for w, x in zip(weight, side, strict=True)] for side in hard(case.label)]
    expected = np.array(exact_points(case.score[0].astype(float), *classes), dtype=float)
    np.testing.assert_allclose(counts_of(points), expected, rtol=2.3e-16)


def test_running_sums_are_those_of_exact_arithmetic() -> None:
    random = np.random.default_rng(0)
    values = 10.0 ** random.uniform(-8, 8, 5000)
    total, expected = Fraction(0), []
    for value in values:
        total += Fraction(value)
        expected.append(float(total))
    np.testing.assert_array_equal(curve_blocks.running_sum(values), expected)
    assert np.abs(np.cumsum(values) - expected).max() > 0


# The hull


def hull_of(points: list[Point]) -> np.ndarray:
    made = curve_blocks.Points(np.zeros(len(points)), *np.array(points, dtype=float).T, 1.0, 1.0)
    return np.array(points, dtype=float)[curve_blocks.hull_vertices(made)]


@given(cases(max_models=1))
def test_hull_equals_brute_force(case: Case) -> None:
    points = ap.curve(case.score[0], case.label, "achievable")
    expected = exact_hull(exact_points(case.score[0].astype(float), *hard(case.label)))
    np.testing.assert_array_equal(counts_of(points), np.array(expected, dtype=float))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=30))
def test_hull_of_steps_on_a_grid(steps: list[tuple[int, int]]) -> None:
    """Few step lengths make many points that lie on one line, and some that coincide."""
    path = [tuple(map(Fraction, p)) for p in np.cumsum([(0, 0), *steps], axis=0).tolist()]
    distinct = list(dict.fromkeys(path))
    np.testing.assert_array_equal(hull_of(path), np.array(exact_hull(distinct), dtype=float))


def test_hull_equals_scipy_on_long_rankings() -> None:
    from scipy.spatial import ConvexHull

    random = np.random.default_rng(5)
    for n_items in (1000, 20_000):
        label = random.random(n_items) < 0.3
        score = random.normal(size=n_items) + label
        points = ap.curve(score, label)
        rates = np.stack([points["false_positive_rate"], points["recall"]], axis=-1)
        below = [[1.0, -1.0]]  # everything under the curve is inside
        vertices = ConvexHull(np.concatenate([rates, below])).vertices
        upper = np.sort(vertices[vertices < len(rates)])
        ours = ap.curve(score, label, "achievable")
        np.testing.assert_array_equal(ours["threshold"], points["threshold"][upper])


def test_hull_of_an_arc_is_the_arc() -> None:
    """A concave arc gives passes over all points nothing to remove, and a point far above it takes all of it away."""
    steps = np.arange(1, 301)
    arc = np.stack([np.cumsum(steps[::-1]), np.cumsum(steps)], axis=-1).astype(float)
    arc = np.concatenate([[[0, 0]], arc])
    assert len(hull_of([tuple(p) for p in arc])) == 301
    far = np.concatenate([arc, [[1e9, arc[-1, 1] + 1]]])
    np.testing.assert_array_equal(hull_of([tuple(p) for p in far]), far[[0, -1]])
    huge = np.ldexp(arc, 1000)
    np.testing.assert_array_equal(hull_of([tuple(p) for p in huge]), huge)


# On a grid


@given(cases(max_models=2, max_items=12), st.integers(1, 12), st.booleans())
def test_grid_equals_exact_interpolation(case: Case, steps: int, achievable: bool) -> None:
    grid = [Fraction(i, steps) for i in range(steps + 1)]
    floats = np.array([float(x) for x in grid])
    kind = "achievable" if achievable else "precision_recall"
    precision = ap.curve(case.score, case.label, kind, grid=floats)
    at_tenth = ap.curve(case.score, case.label, kind, grid=floats, prevalence=0.125)
    recall = ap.curve(case.score, case.label, "roc", grid=floats)
    assert precision.dims == ("model", "recall")
    assert recall.dims == ("model", "false_positive_rate")
    n, m = Fraction(int((case.label == 1).sum())), Fraction(int((case.label == 0).sum()))
    scale = n * 7 / m if n and m else Fraction(1)
    for model, score in enumerate(case.score.astype(float)):
        points = exact_points(score, *hard(case.label))
        expected = [exact_recall(points, m * f, n) for f in grid] if n and m else [None] * len(grid)
        np.testing.assert_allclose(recall[model], as_floats(expected), rtol=1e-13, atol=1e-15)
        if achievable:
            points = exact_hull(points)
        expected = [exact_precision(points, n * r) if n else None for r in grid]
        np.testing.assert_allclose(precision[model], as_floats(expected), rtol=1e-13)
        expected = [exact_precision(points, n * r, scale) if n else None for r in grid]
        np.testing.assert_allclose(at_tenth[model], as_floats(expected), rtol=1e-13)


@given(cases(max_models=1), st.data())
def test_grid_of_weighted_curves(case: Case, more: st.DataObject) -> None:
    """At a threshold's own recall, and half way to the next: there, exact arithmetic gives the false positives."""
    weight = more.draw(weights(case.label.size))
    points = ap.curve(case.score[0], case.label, weight=weight)
    if not (points["n_positive"] > 0 and points["n_negative"] > 0):
        return
    found, wrong = points["true_positives"].values, points["false_positives"].values
    recalls, first = np.unique(points["recall"].values, return_index=True)
    got = ap.curve(case.score[0], case.label, grid=recalls, weight=weight).values
    np.testing.assert_allclose(got[1:], points["precision"].values[first[1:]], rtol=1e-12)
    rises = np.flatnonzero(np.diff(found) > 0)
    middles = (found[rises] + found[rises + 1]) / 2
    between = (wrong[rises] + wrong[rises + 1]) / 2
    expected = np.where(
        (rises == 0) & (wrong[0] == 0), points["precision"].values[rises + 1], middles / (middles + between)
    )
    wide = np.diff(found)[rises] > 1e-6 * found[-1]  # narrower steps are lost in the rounding of the grid
    grid = middles[wide] / float(points["n_positive"])
    if grid.size:
        got = ap.curve(case.score[0], case.label, grid=grid, weight=weight).values
        np.testing.assert_allclose(got, expected[wide], rtol=1e-8)


@pytest.mark.parametrize("make", [lambda k: np.linspace(0, 1, k + 1), lambda k: np.arange(k + 1) / k])
@pytest.mark.parametrize("kind", KINDS)
def test_a_grid_hits_the_points_it_means(kind: str, make: Any) -> None:
    """np.linspace(0, 1, 11) holds 0.30000000000000004; next to a drop it must not mean the point after it."""
    for k in [*range(1, 40), 99_999]:
        score = np.arange(2.0 * k)[::-1]
        label = np.arange(2 * k) % 2 == 0  # every positive is followed by a negative: a drop at each recall
        values = ap.curve(score, label, kind, grid=make(k)).values
        i = np.arange(k + 1)
        if kind == "precision_recall":
            np.testing.assert_allclose(values[1:], i[1:] / (2 * i[1:] - 1), rtol=1e-15)
        elif kind == "roc":
            np.testing.assert_allclose(values, np.minimum(i + 1, k) / k, rtol=1e-15)


@pytest.mark.smoke
def test_grid_at_the_ends() -> None:
    label = np.array([0, 1, 0, 1])
    assert ap.curve([4, 3, 2, 1], label, grid=[0.0]).values == 0  # a negative ranks above: the limit is 0
    assert ap.curve([3, 3, 2, 1], label, grid=[0, 0.25, 0.5]).values.tolist() == [0.5, 0.5, 0.5]
    assert ap.curve([2, 4, 3, 1], label, "roc", grid=[0, 1]).values.tolist() == [0.5, 1]
    reached = ap.curve([4, 3, 2, NAN], label, grid=[0.5, 0.500001, 1], missing="unretrieved").values
    np.testing.assert_array_equal(reached, [0.5, NAN, NAN])
    np.testing.assert_array_equal(ap.curve([4, 3, 2, 1], label, grid=[0.5, 0.6], n_positive=4).values, [0.5, NAN])
    reached = ap.curve([4, 3, NAN, 1], label, "roc", grid=[0.4, 0.5, 0.6], missing="unretrieved").values
    np.testing.assert_array_equal(reached, [0, 1, NAN])


def test_the_observed_prevalence_changes_no_curve() -> None:
    score, label = [5, 4, 3, 2, 1, 0, 3, 2], [1, 0, 1, 0, 0, 1, 0, 0]
    for kind in KINDS:
        given_pi = ap.curve(score, label, kind, prevalence=3 / 8)
        xr.testing.assert_allclose(given_pi, ap.curve(score, label, kind), rtol=1e-15)
    half = ap.curve(score, label, prevalence=0.5)
    np.testing.assert_allclose(
        half["precision"][1:], (half["recall"] / (half["recall"] + half["false_positive_rate"]))[1:]
    )


def test_the_area_under_the_grid_is_the_published_one() -> None:
    """One point far from the next: straight lines give the single-point example seventeen times its area."""
    example = fact("dg-single-point")
    ranking = of_blocks(example["groups_tp_fp"])
    grid = np.concatenate([[0], np.geomspace(1e-6, 1, 200_001)])
    area = np.trapezoid(ap.curve(*ranking, grid=grid), grid)
    np.testing.assert_allclose(area, example["computed"]["prroc_auc_integral"], rtol=1e-6)
    assert round(float(area), 2) == 0.03
    points = ap.curve(*ranking)
    straight = np.trapezoid(points["precision"], points["recall"])
    assert 0.5 < straight < 0.52


PRROC = oracle_cases("prroc_hard", lambda case: case.get("pr_curve_minstep1") and "allneg" not in case["id"])


@pytest.mark.parametrize("case", PRROC)
def test_grids_equal_curves_of_prroc(case: Any) -> None:
    """PRROC adds interpolated points to the thresholds; at one recall, ours is the largest precision."""
    best: dict[float, float] = {}
    for recall, precision, _ in case["pr_curve_minstep1"]["rows"]:
        best[float(recall)] = max(float(precision), best.get(float(recall), 0.0))
    recalls = sorted(best)
    got = ap.curve(**data(case), grid=recalls)
    np.testing.assert_allclose(got, [best[recall] for recall in recalls], rtol=0, atol=1e-13)


def test_table_1_of_davis_and_goadrich() -> None:
    rows = fact("dg-table1")["rows"]
    ranking = of_blocks([[5, 5], [5, 25], [10, 1970]])
    values = ap.curve(*ranking, grid=[row["recall"] for row in rows]).values
    np.testing.assert_allclose(values, [row["precision"] for row in rows], rtol=1e-15)
    np.testing.assert_array_equal(values.round(3), [row["precision_printed"] for row in rows])
    wrong = np.array([row["fp"] for row in rows]) / 2000
    recall = ap.curve(*ranking, kind="roc", grid=wrong).values
    np.testing.assert_allclose(recall, [row["recall"] for row in rows], rtol=1e-15)


# Kinds of input


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=5)
@given(data=st.data())
def test_chunks_change_nothing(kind: str, data: st.DataObject) -> None:
    scores = queried(4, 3, 30)
    grid = np.linspace(0, 1, 12)
    options: dict[str, Any] = {"grid": grid, "missing": "last", "unjudged": "drop"}
    expected = ap.curve(scores["score"], scores["label"], kind, **options)
    chunks = {"model": data.draw(chunkings(4)), "query": data.draw(chunkings(3)), "item": -1}
    label = scores["label"].chunk() if data.draw(st.booleans()) else scores["label"]
    lazy = ap.curve(scores["score"].chunk(chunks), label, kind, **options)
    assert lazy.chunks is not None
    assert lazy.chunksizes["model"] == chunks["model"]
    xr.testing.assert_identical(lazy.compute(), expected)
    thresholds = [0.5, -0.5, 3]
    matrices = ap.confusion(scores["score"].chunk(chunks), label, thresholds, missing="drop")
    assert all(matrices[name].chunks is not None for name in matrices)
    xr.testing.assert_identical(
        matrices.compute(), ap.confusion(scores["score"], scores["label"], thresholds, missing="drop")
    )


def test_nothing_is_computed_early() -> None:
    def fail(block: np.ndarray) -> np.ndarray:
        raise AssertionError

    with dask.config.set(scheduler="synchronous"):
        lazy = da.zeros((4, 10), chunks=(2, 10)).map_blocks(fail, dtype=float, meta=np.empty((0, 0)))
        label = np.arange(10) % 2
        assert ap.curve(lazy, label, grid=[0, 1]).shape == (4, 2)
        assert ap.confusion(lazy, label, [0.5])["true_positives"].shape == (4, 1)
        with pytest.raises(InvalidInputError, match="pass grid="):
            ap.curve(lazy, label)


def test_labels_stay() -> None:
    scores = pooled()
    points = ap.curve(scores["score"], scores["label"])
    assert points["model"].equals(scores["model"])
    alone = ap.curve(scores["score"].sel(model="m2"), scores["label"])
    size = int(points["n_points"].sel(model="m2"))
    assert alone.sizes["point"] == size
    xr.testing.assert_equal(points.sel(model="m2").isel(point=slice(0, size)), alone)
    xr.testing.assert_equal(points.drop_vars("model"), ap.curve(scores["score"].values, scores["label"].values))
    renamed = scores.rename(item="document")
    xr.testing.assert_equal(points, ap.curve(renamed["score"], renamed["label"], dim="document"))
    assert ap.curve(scores["score"], scores["label"], grid=[0.5]).sel(model="m2", recall=0.5).name == "precision"
    for name in points:
        assert points[name].attrs["description"], name


def test_opens_without_the_package(tmp_path: Any) -> None:
    scores = pooled().drop_vars(["model", "item"])
    points = ap.curve(scores["score"], scores["label"])
    points.to_zarr(tmp_path / "points.zarr", consolidated=False)
    with xr.open_zarr(tmp_path / "points.zarr", consolidated=False) as back:
        xr.testing.assert_identical(back.compute(), points)


# Between the spaces


@given(st.integers(1, 50), st.integers(1, 5000), st.data())
def test_conversions_are_inverse(n: int, m: int, more: st.DataObject) -> None:
    found, wrong = more.draw(st.integers(1, n)), more.draw(st.integers(0, m))
    recall, precision = found / n, found / (found + wrong)
    rate, same = ap.to_roc(recall, precision, n, m)
    assert same == recall
    assert rate == pytest.approx(wrong / m, rel=1e-12, abs=1e-15)
    back = ap.to_precision_recall(rate, recall, n, m)
    assert back == pytest.approx((recall, precision), rel=1e-12)


def test_conversions_of_curves() -> None:
    points = ap.curve(pooled()["score"], pooled()["label"])
    totals = points["n_positive"], points["n_negative"]
    rate, _ = ap.to_roc(points["recall"], points["precision"], *totals)
    known = ~((points["recall"] == 0) & (points["precision"] == 0))
    xr.testing.assert_allclose(rate, points["false_positive_rate"].where(known), atol=1e-14)
    assert (~known).any()
    _, precision = ap.to_precision_recall(points["false_positive_rate"], points["recall"], *totals)
    xr.testing.assert_allclose(precision.where(points["recall"].notnull()), points["precision"], rtol=1e-14)
    lazy, _ = ap.to_roc(points["recall"].chunk({"model": 2}), points["precision"], *totals)
    assert lazy.chunks is not None
    xr.testing.assert_identical(lazy.compute(), rate)


def test_points_that_no_ranking_has() -> None:
    np.testing.assert_array_equal(ap.to_roc([0.5, 0.5, 0.0, 0.0], [0.1, 0.0, 0.0, 1.0], 10, 20)[0], [NAN, NAN, NAN, 0])
    assert ap.to_roc(1.0, 10 / 30, 10, 20)[0] == 1
    assert ap.to_precision_recall(0.0, 0.0, 10, 20) == (0, 1)


# Dominance


def exact_dominates(first: list[Point], second: list[Point]) -> bool:
    """Compare precision at every recall where either curve may bend, and right after it; in fractions."""
    bends = sorted({tp for tp, _ in first + second})
    smallest = min((b - a for a, b in pairwise(bends)), default=Fraction(1))
    # Both are hyperbolas between bends: in 1/precision linear over recall, so both ends of each piece tell.
    for found in bends[1:]:
        for at in (found, found - smallest / 10**9 if found > 0 else found):
            if exact_precision(first, at) < exact_precision(second, at):
                return False
    for found in bends[:-1]:
        at = found + smallest / 10**9
        if exact_precision(first, at) < exact_precision(second, at):
            return False
    # What only negatives follow is at recall 1, where the curve drops to the same prevalence.
    return True


@given(cases(max_models=2, max_items=10).filter(lambda case: 0 < case.label.sum() < case.label.size))
def test_dominance_is_the_same_in_both_spaces(case: Case) -> None:
    a, b = case.score[0], case.score[-1]
    first, second = ap.curve(a, case.label), ap.curve(b, case.label)
    verdict = ap.dominates(first, second)
    assert verdict == ap.dominates(first, second, "roc")
    points = [exact_points(x.astype(float), *hard(case.label)) for x in (a, b)]
    above, below = exact_dominates(*points), exact_dominates(*points[::-1])
    assert verdict == {(1, 1): "both", (1, 0): "first", (0, 1): "second", (0, 0): "neither"}[above, below]
    hull = ap.curve(a, case.label, "achievable")
    assert ap.dominates(hull, first) in ("first", "both")
    assert ap.dominates(hull, first, "roc") in ("first", "both")


@pytest.mark.slow
@given(st.data())
def test_dominance_of_near_equal_curves(more: st.DataObject) -> None:
    """Long rankings that differ by few swaps: verdicts other than neither are common."""
    size = more.draw(st.integers(4, 40))
    label = np.array(more.draw(st.permutations([1, 0] * (size // 2))))
    score = np.arange(label.size, dtype=float)
    other = score.copy()
    for _ in range(more.draw(st.integers(0, 3))):
        i = more.draw(st.integers(0, label.size - 2))
        if more.draw(st.booleans()):
            other[i] = other[i + 1]
        else:
            other[[i, i + 1]] = other[[i + 1, i]]
    first, second = ap.curve(score, label), ap.curve(other, label)
    verdict = ap.dominates(first, second)
    assert verdict == ap.dominates(first, second, "roc")
    swapped = {"first": "second", "second": "first"}.get(verdict, verdict)
    assert ap.dominates(second, first) == swapped
    points = [exact_points(x, *hard(label)) for x in (score, other)]
    assert (verdict in ("first", "both")) == exact_dominates(*points)
    if verdict in ("first", "both"):
        for kind in ("precision_recall", "roc", "achievable"):
            better, worse = (ap.curve(x, label, kind, grid=np.linspace(0, 1, 41)) for x in (score, other))
            assert (better >= worse - 1e-14).all()


def test_dominance_of_all_pairs() -> None:
    label = np.array([1, 1, 0, 0])
    score = xr.DataArray(
        [[4.0, 3, 2, 1], [4, 2, 3, 1], [1, 2, 3, 4], [1, 1, 1, 1]],
        dims=("model", "item"),
        coords={"model": ["best", "good", "worst", "flat"]},
    )
    points = ap.curve(score, xr.DataArray(label, dims="item"))
    verdict = ap.dominates(points, points.rename(model="other"))
    assert verdict.dims == ("model", "other")
    assert verdict.sel(model="best").values.tolist() == ["both", "first", "first", "first"]
    assert verdict.sel(model="worst").values.tolist() == ["second", "second", "both", "second"]
    assert verdict.sel(model="flat", other="good") == "second"
    xr.testing.assert_equal(verdict, ap.dominates(points, points.rename(model="other"), "roc"))
    assert (ap.dominates(points, points) == "both").all()


def test_curves_that_cross() -> None:
    """The two curves of Davis & Goadrich's Fig. 7: the opposite order of the two areas, and no dominance."""
    one, two = (ap.curve(*of_blocks(fact(f"dg-fig7-curve{k}")["groups_tp_fp"])) for k in (1, 2))
    assert ap.dominates(one, two) == ap.dominates(one, two, "roc") == "neither"


def test_curves_that_end_early_are_extended() -> None:
    label = [1, 1, 0, 0]
    unretrieved = ap.curve([4, NAN, 2, NAN], label, missing="unretrieved")
    last = ap.curve([4, NAN, 2, NAN], label, missing="last")
    for space in ("precision_recall", "roc"):
        assert ap.dominates(unretrieved, last, space) == "both"


def test_only_comparable_curves_are_compared() -> None:
    few, many = ap.curve([2, 1], [1, 0]), ap.curve([3, 2, 1], [1, 0, 0])
    with pytest.raises(InvalidInputError, match=r"different n_negative(.|\n)*received: 1 and 2"):
        ap.dominates(few, many)
    with pytest.raises(InvalidInputError, match="not a set of operating points"):
        ap.dominates(few, ap.curve([2, 1], [1, 0], grid=[0.5]))  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="unknown space"):
        ap.dominates(few, few, "gain")
    points = ap.curve(pooled()["score"], pooled()["label"])
    with pytest.raises(AlignmentError, match="'first' and 'second'"):
        ap.dominates(points, points.isel(model=slice(None, None, -1)))


# Confusion matrices


@given(cases(labels=(0, 1, -2), missing=True), st.data())
def test_confusion_equals_the_definition(case: Case, more: st.DataObject) -> None:
    drawn = st.one_of(st.sampled_from(case.score[~np.isnan(case.score)].tolist() or [0.0]), st.floats(-5, 5, width=32))
    edges = st.sampled_from([np.inf, -np.inf, 0.0])
    thresholds = more.draw(st.lists(st.one_of(drawn, edges), min_size=1, max_size=6, unique=True))
    weight = more.draw(st.one_of(st.none(), weights(case.label.size)))
    missing = more.draw(st.sampled_from(["drop", "last", "unretrieved"]))
    got = ap.confusion(case.score, case.label, thresholds, weight, missing=missing)
    w = np.ones(case.label.size) if weight is None else weight
    counted = (case.label != -2) & ~(np.isnan(case.score) & (missing == "drop"))
    for position, threshold in enumerate(thresholds):
        predicted = case.score >= np.array(threshold, dtype=case.score.dtype)
        one = got.isel(threshold=position)
        for name, side, is_predicted in zip(CELLS, (1, 0, 1, 0), (True, True, False, False), strict=True):
            expected = (w * ((case.label == side) & (predicted == is_predicted) & counted)).sum(axis=-1)
            np.testing.assert_allclose(one[name], expected, rtol=1e-12, atol=1e-12 * w.sum(), err_msg=name)
    assert got["true_positives"].dtype == (np.int64 if weight is None else np.float64)


@pytest.mark.smoke
def test_confusion_equals_scikit_learn() -> None:
    from sklearn.metrics import confusion_matrix

    random = np.random.default_rng(1)
    label = random.integers(0, 2, 300)
    score, weight = random.normal(size=300).round(1), random.random(300)
    for w in (None, weight):
        matrices = ap.confusion(score, label, [0.3, -1.0, 0.0], w)
        for threshold in (0.3, -1.0, 0.0):
            one = [float(matrices[name].sel(threshold=threshold)) for name in reversed(CELLS)]
            expected = confusion_matrix(label, score >= threshold, sample_weight=w)
            np.testing.assert_allclose([one[0], one[2], one[1], one[3]], expected.ravel(), rtol=1e-12)


def test_thresholds_are_taken_in_the_precision_of_the_scores() -> None:
    decimals = np.arange(10) / 10
    got = ap.confusion(decimals.astype(np.float32), np.ones(10, dtype=int), decimals)
    np.testing.assert_array_equal(got["true_positives"], np.arange(10, 0, -1))
    np.testing.assert_array_equal(got["threshold"], decimals)


# Errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "pr"}, r"unknown kind(.|\n)*'precision_recall', 'roc', 'achievable'"),
        ({"grid": [0.5, 1.5]}, "increasing values of recall from 0 to 1"),
        ({"grid": [0, 0.5, 0.5]}, "increasing values of recall from 0 to 1"),
        ({"grid": [1, 0], "kind": "roc"}, "increasing values of false_positive_rate from 0 to 1"),
        ({"grid": 0.5}, "one or more numbers"),
        ({"weight": [1, 1]}, "differ in length"),
        ({"label": [[1, 0, 1]]}, "'label' has more axes than 'score'"),
        ({"score": 3.0}, "no item axis"),
    ],
)
def test_errors_say_what_is_wrong(options: dict[str, Any], message: str) -> None:
    inputs = {"score": [3.0, 2, 1], "label": [1, 0, 1], "grid": None} | options
    with pytest.raises(InvalidInputError, match=message):
        ap.curve(**inputs)


def test_errors_name_labels() -> None:
    scores = pooled()
    with pytest.raises(AlignmentError, match=r"different labels along 'item'(.|\n)*another order"):
        ap.curve(scores["score"], scores["label"][::-1])
    with pytest.raises(InvalidInputError, match="must be a DataArray"):
        ap.curve(scores["score"], scores["label"].values)
    holes = scores["score"].copy()
    holes[3, :2] = NAN
    for grid in (None, [0.5]):
        with pytest.raises(MissingScoresError, match=r"model 'm3': 2"):
            ap.curve(holes, scores["label"], grid=grid)
    with pytest.raises(MissingScoresError, match=r"model 'm3': 2"):
        ap.curve(holes.chunk({"model": 2}), scores["label"], grid=[0.5]).compute()
    for thresholds in ([0.5, 0.5], [NAN], [], 0.5):
        with pytest.raises(InvalidInputError, match="thresholds must be"):
            ap.confusion(scores["score"], scores["label"], thresholds)
